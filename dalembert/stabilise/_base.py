"""5b· keeping the constraints: the interface."""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp

from dalembert._typing import Coordinates, HolonomicRows, Rows, Scalar, Velocities
from dalembert.equations import Equations, residuals
from dalembert.systems import AbstractSystem, State


class AbstractStabilisation(eqx.Module):
    """What keeps Φ = 0 and φ = 0 while accelerations alone are integrated.

    `exact`: a projected state meets the constraints to rounding; the march then refuses one that does not.
    """

    exact: eqx.AbstractClassVar[bool]

    def rhs(self, equations: Equations) -> Rows:
        """Γ, possibly with correcting terms."""
        return equations.Gamma

    def project(self, system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> State:
        """The state after an accepted step; quaternions are always kept at unit length."""
        return State(system.retract(q, jnp.zeros(system.n)), v)

    def closed(
        self, system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities
    ) -> tuple[State, HolonomicRows, Rows]:
        """The state after an accepted step with its residuals Φ and φ, for a method that has them already."""
        state = self.project(system, t, q, v)
        return state, *residuals(system, t, *state)

    def project_saved(self, system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> State:
        """The same for a state that was interpolated between two steps, which is farther off the constraints."""
        return self.project(system, t, q, v)

    def memory(self, system: AbstractSystem) -> Any:
        """What this method integrates besides the motion, at the start."""
        return None

    def kinematics(self, equations: Equations, memory, tangent: bool) -> tuple[Velocities | None, Any]:
        """A velocity added in q̇ = N (v + …), or None, and the rate of the memory.

        `tangent`: tangent velocities are integrated, so φ = 0 by construction and Γ has no effect on Φ.
        """
        return None, memory

    def with_time_scale(self, step: Scalar | None, span: Scalar) -> Self:
        """The same with its time constants set, if not given: from the step, or from the span of the motion."""
        return self

    def with_margin(self, usual: Scalar | None) -> Self:
        """The same with its damping set, where none was given, by the usual margin of the rows (`Proximal`)."""
        return self
