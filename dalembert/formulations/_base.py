"""5 · formulations: the interface. Equations → v̇ and r = M v̇ − h."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx

from dalembert._typing import Velocities
from dalembert.equations import Equations


class Acceleration(eqx.Module):
    """What a formulation returns: v̇ and the constraint force r = Cᵀλ = M v̇ − h.

    Both are unique whenever the constraints are consistent, redundant or not. λ is not, so it is not here:
    `reactions.py` makes it, by a rule with a name.
    """

    vdot: Velocities
    r: Velocities


class AbstractFormulation(eqx.Module):
    """A way to get the accelerations."""

    @abstractmethod
    def solve(self, equations: Equations) -> Acceleration:
        """v̇ and r from the equations at one instant."""
