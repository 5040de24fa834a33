"""5b· keeping the constraints: corrections after each step, in the mass metric; or none."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from equinox.internal import while_loop

from dalembert._typing import Velocities
from dalembert.equations import ROUNDED, Equations, assemble, residuals, softened
from dalembert.linalg import NEAR
from dalembert.stabilise._base import AbstractStabilisation, State
from dalembert.stabilise._start import row_sizes
from dalembert.systems import AbstractSystem

LEFT, ROUNDS = 1e-14, 4
"""Violation, relative to the machine, above which corrections go on along directions of their own; and how often:
beside a singular position those of the first correction do not last."""


NOISE = 10.0
"""Rounding of a velocity beside a singular position, in units of eps/σ²: not an error that shorter steps would cure."""


class Projection(AbstractStabilisation):
    """Newton corrections of position and velocity in the mass metric, after each step (the default).

    Position: q ← q ⊕ (−M⁻¹Cᵀ(C M⁻¹Cᵀ)⁺ Φ) [Blajer 1995, eq. 4.5a; Kövecses, Piedbœuf 2003, eq. 36]; velocity
    filtering: v ← v − M⁻¹Cᵀ(C M⁻¹Cᵀ)⁺ φ [Kövecses, Piedbœuf 2003, eq. 33, with b]. With `frozen` directions (their
    eq. 35), those of the first correction, one factorisation serves all: the error e of a step falls to e², e³, … in
    position and to e, e², … in velocity. With frozen=False each correction has its own directions, e², e⁴, …, and the
    velocities are filtered at the corrected position. With a `tolerance` (relative to the machine's size), corrections
    end where it is met. Keeps Φ and φ at rounding level; costs about a stage.
    """

    exact: ClassVar[bool] = True
    corrections: int = 3
    frozen: bool = eqx.field(static=True, default=True)
    tolerance: float | None = eqx.field(static=True, default=None)

    def project(self, system, t, q, v):
        return self.settle(system, t, q, v, None)[0]

    def settle(self, system, t, q, v, error):
        if system.m == 0:
            return State(system.retract(q, jnp.zeros(system.n)), v), error
        if not self.frozen:
            return self._moving(system, t, q, v), error
        return self._frozen(system, t, q, v, error)

    def _frozen(self, system, t, q, v, error) -> tuple[State, Velocities | None]:
        def corrected(carry):
            _, q, v, tangential, k = carry
            equations = assemble(system, t, q, v)  # h and Γ are not used: the compiler drops them
            factor, correct = _corrector(system, equations, softened(equations.violation(system.scale())))
            sizes = row_sizes(system, equations)
            Phi, phi = equations.Phi, equations.phi
            open_q, open_v = (x > ROUNDED for x in equations.violations(system.scale()))
            if error is not None:
                tangential = _tangential(equations, (factor, correct), error, system.scale())
            for c in range(self.corrections):
                dq, dv = correct(Phi, phi)
                dq, dv = jnp.where(open_q, dq, 0.0), jnp.where(open_q | open_v, dv, 0.0)
                if self.tolerance is not None:
                    dq = jnp.where(_gap(Phi, sizes) > self.tolerance, dq, 0.0)
                    dv = jnp.where(_gap(phi, sizes) > self.tolerance, dv, 0.0)
                # the first velocity correction would look along directions of the uncorrected position
                q, v = system.retract(q, dq), (v if c == 0 and self.corrections > 1 else v + dv)
                Phi, phi = residuals(system, t, q, v)
            left = equations.violation(system.scale(), (Phi, phi, v))
            again = (left > LEFT) & ~(factor.margin > NEAR) & (self.tolerance is None)
            return again, q, v, tangential, k + 1

        start = (jnp.array(True), q, v, error, jnp.zeros((), int))
        _, q, v, error, _ = while_loop(lambda c: c[0], corrected, start, max_steps=ROUNDS, kind="bounded")
        return State(q, v), error

    def _moving(self, system, t, q, v) -> State:
        for _ in range(self.corrections if system.m_holonomic else 0):
            equations = assemble(system, t, q, v)
            dq = -equations.factorise().leading(system.m_holonomic).correct(equations.Phi[:, None])[:, 0]
            if self.tolerance is not None:
                dq = jnp.where(_gap(equations.Phi, row_sizes(system, equations)) > self.tolerance, dq, 0.0)
            q = system.retract(q, dq)
        return State(q, _filtered(system, t, q, v))


class VelocityFilter(AbstractStabilisation):
    """v ← v − W φ after each step, positions left alone [Kövecses, Piedbœuf 2003, eq. 33, with b].

    φ stays at rounding level; Φ drifts, but only by what the steps themselves leave.
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
    equations = assemble(system, t, q, v)
    whole, phi, b = equations.factorise(), equations.phi, equations.b
    for _ in range(2):  # the factor is regularised: the second takes out what that leaves
        v = v - whole.correct(phi[:, None])[:, 0]
        phi = equations.rows.mv(v) + b
    return v


def _tangential(equations: Equations, correct, error: Velocities, scale: Velocities) -> Velocities:
    """What is left of a velocity's error after projection, where the rows are nearly dependent; elsewhere all of it.

    Beside a singular position rounding is amplified along the rows (by 1/σ²), projection takes it out, and a step-size
    control that saw it would shorten the steps for ever.
    """
    factor, apply = correct
    left = error + apply(jnp.zeros_like(equations.Phi), equations.rows.mv(error))[1]
    # what rounding of the state itself makes of the tangent's direction
    fastest = scale * jnp.max(jnp.abs(equations.v) / scale, initial=0.0)
    noise = NOISE * jnp.finfo(float).eps / jnp.maximum(factor.margin, jnp.finfo(float).eps) * fastest
    left = jnp.sign(left) * jnp.maximum(jnp.abs(left) - noise, 0.0)
    return jnp.where(factor.margin > NEAR, error, left)


def _corrector(system: AbstractSystem, equations: Equations, shift):
    """(Φ, φ) ↦ (δq, δv), the corrections of least mass norm, along directions frozen here."""
    sharp = equations.factorise()
    whole = sharp.softened(shift)
    if system.m == system.m_holonomic:
        return sharp, lambda Phi, phi: -whole.correct(jnp.stack([Phi, phi], axis=1)).T
    positions = whole.leading(system.m_holonomic)
    return sharp, lambda Phi, phi: (-positions.correct(Phi[:, None])[:, 0], -whole.correct(phi[:, None])[:, 0])


def _gap(residual, sizes):
    return jnp.max(jnp.abs(residual) / sizes[: len(residual)], initial=0.0)
