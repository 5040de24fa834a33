"""5b· keeping the constraints: corrections after each step, in the mass metric; or none."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox.internal import unvmap_any

from dalembert._typing import Array, HolonomicRows, Rows, Scalar
from dalembert.equations import LEAST, ROUNDED, Equations, assemble_known, residuals, softened
from dalembert.stabilise._base import AbstractStabilisation
from dalembert.stabilise._start import row_sizes
from dalembert.systems import AbstractSystem, State

HELD, OPEN = 3e-6, 1e-12
"""Least damping of a correction over the usual margin: directions with σ below 2e-3 of the usual one are not corrected,
as long as their violation is at most `OPEN` (relative to the machine)."""
SHUT = 1e-15
"""Violation (of the machine's size, and of its speed) below which no third correction follows: it would be rounding."""


class Projection(AbstractStabilisation):
    """Newton corrections of position and velocity in the mass metric, after each step (the default).

    Position: q ← q ⊕ (−M⁻¹Cᵀ(C M⁻¹Cᵀ)⁺ Φ) [Blajer 1995, eq. 4.5a; Kövecses, Piedbœuf 2003, eq. 36]; velocity
    filtering: v ← v − M⁻¹Cᵀ(C M⁻¹Cᵀ)⁺ φ [Kövecses, Piedbœuf 2003, eq. 33, with b]. With `frozen` directions (their
    eq. 35), those of the first correction, one factorisation serves all: the error e of a step falls to e², e³, … in
    position and to e, e², … in velocity. With frozen=False each correction has its own directions, e², e⁴, …, and the
    velocities are filtered at the corrected position. With a `tolerance` (relative to the machine's size), corrections
    end where it is met. Keeps Φ and φ at rounding level; costs about a stage.

    Rounding e in Φ, corrected along a direction of size σ, moves q by e/σ and v by e/σ². Beside a singular position
    the integrated state is more accurate than that, so such directions are not corrected unless the violation exceeds
    round-off: corrections are damped by `HELD` times `usual`, the usual margin of the rows, found by `simulate`.
    """

    exact: ClassVar[bool] = True
    corrections: int = 3
    frozen: bool = eqx.field(static=True, default=True)
    tolerance: float | None = eqx.field(static=True, default=None)
    usual: Array | float | None = None

    def with_margin(self, usual):
        return self if usual is None or self.usual is not None else dataclasses.replace(self, usual=usual)

    def _damping(self, system, equations: Equations):
        gap = equations.violation(system.scale())
        if self.usual is None:
            return softened(gap, LEAST)
        small = jnp.minimum(1.0, (OPEN / jnp.maximum(gap, OPEN)) ** 2)
        return softened(gap, jnp.maximum(LEAST, HELD * self.usual * small))

    def project(self, system, t, q, v):
        return self.closed(system, t, q, v)[0]

    def closed(self, system, t, q, v):
        if system.m == 0 or not self.frozen:
            state = State(system.retract(q, jnp.zeros(system.n)), v) if system.m == 0 else self._moving(system, t, q, v)
            return state, *residuals(system, t, *state)
        return self._along_frozen(system, t, q, v)[:3]

    def project_saved(self, system, t, q, v):
        """Beside a singular position directions that are frozen too far off close φ slowly: there with new ones."""
        if system.m == 0 or not self.frozen or self.tolerance is not None:
            return self.project(system, t, q, v)

        def closer(_, carry):  # a loop: a correction is compiled once
            off = carry[1] > OPEN
            return jax.lax.cond(unvmap_any(off), lambda: again(off, carry), lambda: carry)

        def again(off, carry):
            state, _, _, left = self._along_frozen(system, t, *carry[0])
            found = state, left
            return jax.tree_util.tree_map(lambda x, y: jnp.where(off, x, y), found, carry)

        return jax.lax.fori_loop(0, 2, closer, (State(q, v), jnp.asarray(jnp.inf)))[0]

    def _along_frozen(self, system, t, q, v) -> tuple[State, HolonomicRows, Rows, Scalar]:
        """The corrected state, its Φ and φ, and how far it is off (relative to the machine)."""
        equations = assemble_known(system, t, q, v)  # h and Γ are not used: the compiler drops them
        correct = _corrector(system, equations, self._damping(system, equations))
        sizes = row_sizes(system, equations)
        Phi, phi = equations.Phi, equations.phi
        open_q, open_v = (x > ROUNDED for x in equations.violations(system.scale()))
        rows, speeds = 1.0 / sizes, 1.0 / system.scale()  # once, and not in each correction

        def corrected(c, carry):  # a loop: the residuals are compiled once
            more = (c < 2) | ~shut(*carry[1:])
            return jax.lax.cond(unvmap_any(more), lambda: again(c, more, carry), lambda: carry)

        def shut(v, Phi, phi):
            speed = 1.0 + jnp.max(jnp.abs(v) * speeds, initial=0.0)
            position = jnp.max(jnp.abs(Phi) * rows[: len(Phi)], initial=0.0)
            return (position <= SHUT) & (jnp.max(jnp.abs(phi) * rows) <= SHUT * speed)

        def again(c, more, carry):
            q, v, Phi, phi = carry
            dq, dv = correct(Phi, phi)
            dq, dv = jnp.where(open_q, dq, 0.0), jnp.where(open_q | open_v, dv, 0.0)
            if self.tolerance is not None:
                dq = jnp.where(_gap(Phi, sizes) > self.tolerance, dq, 0.0)
                dv = jnp.where(_gap(phi, sizes) > self.tolerance, dv, 0.0)
            # the first velocity correction would use directions of the uncorrected position
            wait = (c == 0) & (self.corrections > 1)
            q, v = system.retract(q, dq), jnp.where(wait, v, v + dv)
            found = q, v, *residuals(system, t, q, v)
            return jax.tree_util.tree_map(lambda x, y: jnp.where(more, x, y), found, carry)

        q, v, Phi, phi = jax.lax.fori_loop(0, self.corrections, corrected, (q, v, Phi, phi))
        return State(q, v), Phi, phi, jax.lax.stop_gradient(jnp.maximum(_gap(Phi, sizes), _gap(phi, sizes)))

    def _moving(self, system, t, q, v) -> State:
        for _ in range(self.corrections if system.m_holonomic else 0):
            equations = assemble_known(system, t, q, v)
            positions = equations.factorise(shift=self._damping(system, equations)).leading(system.m_holonomic)
            dq = -positions.correct(equations.Phi[:, None])[:, 0]
            if self.tolerance is not None:
                dq = jnp.where(_gap(equations.Phi, row_sizes(system, equations)) > self.tolerance, dq, 0.0)
            q = system.retract(q, dq)
        return State(q, _filtered(system, t, q, v))


class VelocityFilter(AbstractStabilisation):
    """v ← v − W φ after each step, positions unchanged [Kövecses, Piedbœuf 2003, eq. 33, with b].

    φ stays at rounding level; Φ drifts, but only by the error of the steps.
    """

    exact: ClassVar[bool] = False

    def project(self, system, t, q, v):
        q = system.retract(q, jnp.zeros(system.n))
        if system.m == 0:
            return State(q, v)
        return State(q, _filtered(system, t, q, v))


class NoStabilisation(AbstractStabilisation):
    """Nothing at all: shows the drift (linear in φ, quadratic in Φ). Quaternions are still kept at unit length."""

    exact: ClassVar[bool] = False


def _filtered(system: AbstractSystem, t, q, v):
    """v − W φ at q."""
    equations = assemble_known(system, t, q, v)
    whole, phi, b = equations.factorise(), equations.phi, equations.b
    for _ in range(2):  # the factor is regularised: the second removes the error of that
        v = v - whole.correct(phi[:, None])[:, 0]
        phi = equations.rows.mv(v) + b
    return v


def _corrector(system: AbstractSystem, equations: Equations, damping):
    """(Φ, φ) ↦ (δq, δv), the corrections of least mass norm, along directions frozen here."""
    whole = equations.factorise(shift=damping)
    if system.m == system.m_holonomic:
        return lambda Phi, phi: -whole.correct(jnp.stack([Phi, phi], axis=1)).T
    positions = whole.leading(system.m_holonomic)
    return lambda Phi, phi: (-positions.correct(Phi[:, None])[:, 0], -whole.correct(phi[:, None])[:, 0])


def _gap(residual, sizes):
    return jnp.max(jnp.abs(residual) / sizes[: len(residual)], initial=0.0)
