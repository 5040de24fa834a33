"""5 · formulations: the interface. Equations → v̇ and r = M v̇ − h, and what is integrated on the way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx

from dalembert._typing import Coordinates, Rows, Scalar, Velocities
from dalembert.equations import Equations, assemble
from dalembert.systems import AbstractSystem


class Acceleration(eqx.Module):
    """What a formulation returns: v̇ and the constraint force r = Cᵀλ = M v̇ − h.

    Both are unique whenever the constraints are consistent, redundant or not. λ is not, so it is not here:
    `reactions.py` computes it, by a named rule.
    """

    vdot: Velocities
    r: Velocities


class Ranks(NamedTuple):
    """The rank of all rows and that of the holonomic ones, found on the host at generic configurations."""

    rows: int
    holonomic: int


class Motion(NamedTuple):
    """One evaluation while marching: the state in full, the rate of the integrated velocities w, and v̇, r.

    `noise` is the uncertainty of v̇ due to rounding, relative to the machine's scale, where it is more than usual: an
    error that shorter steps would not reduce. `near` is 1 beside a singular position, else 0.
    """

    equations: Equations
    wdot: Any
    acceleration: Acceleration
    noise: Scalar | float = 0.0
    near: Scalar | float = 0.0


class AbstractFormulation(eqx.Module):
    """A way to get the accelerations.

    `solve` maps equations to accelerations at one instant. A march integrates q, velocities w and a memory
    at rate zero. Here w = v and there is no memory; formulations that integrate tangent velocities u, or hold the
    choice of a complement over many steps, override `pack`, `unpack`, `repack` and `motion`. Outside a step the
    state is (q, v).
    """

    tangent: ClassVar[bool] = False
    """Whether w are tangent velocities, so that φ = 0 by construction and Γ has no effect on Φ."""

    needs_rank: ClassVar[bool] = False
    """Whether `sized` must be called before compiling."""

    @property
    def known_rank(self) -> int | None:
        """The rank of all rows at generic states, where it was found and is kept."""
        return None

    @abstractmethod
    def solve(self, equations: Equations) -> Acceleration:
        """v̇ and r from the equations at one instant."""

    def with_ranks(self, ranks: Ranks) -> Self:
        """The same formulation for constraints of these ranks; sizes are static in compiled programs."""
        return self

    def with_tolerance(self, tolerance) -> Self:
        """The same formulation for a march with this relative tolerance: no digits beyond it are sought."""
        return self

    def pack(self, system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> tuple[Any, Any]:
        """(w, memory) of a state."""
        return v, None

    def unpack(self, system: AbstractSystem, t: Scalar, q: Coordinates, w, memory) -> tuple[Coordinates, Velocities]:
        """The state (q, v) behind what is integrated."""
        return q, w

    def repack(self, system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities, memory) -> tuple[Any, Any]:
        """(w, memory) after an accepted step: the choice is kept while it is good."""
        return v, memory

    def motion(
        self,
        system: AbstractSystem,
        t: Scalar,
        q: Coordinates,
        w,
        memory,
        rhs: Callable[[Equations], Rows],
        *,
        exact: bool = False,
        loop: str = "lax",
    ) -> Motion:
        """One evaluation while marching; `rhs` gives Γ, possibly with correcting terms.

        `exact` allows evaluations at other states beside a singular position; `loop` is the kind of loop that
        does so: "lax" (with forward derivatives), "bounded" (with both), or "none". "ask" leaves out all that only
        such a state needs and requests it there, by an infinite `noise`; "aside" is "lax" without singular values,
        and requests those.
        """
        equations = with_rhs(assemble(system, t, q, w), rhs)
        acceleration = self.solve(equations)
        return Motion(equations, acceleration.vdot, acceleration)

    def scale(self, system: AbstractSystem, memory):
        """A typical size of each w."""
        return system.scale()


def with_rhs(equations: Equations, rhs: Callable[[Equations], Rows]) -> Equations:
    """The equations with Γ replaced."""
    return eqx.tree_at(lambda e: e.Gamma, equations, rhs(equations))


def with_reaction(equations: Equations, vdot: Velocities) -> Acceleration:
    """v̇ and r = M v̇ − h."""
    return Acceleration(vdot, equations.mass.mv(vdot) - equations.h)
