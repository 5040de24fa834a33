"""5b· keeping the constraints: feedback inside the equations, with a time constant."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import Scalar, is_traced
from dalembert.equations import Equations
from dalembert.stabilise._base import AbstractStabilisation

STEPS = 5.0
"""A time constant that is not given is this many fixed steps: explicit methods need more than one, accuracy few."""
SHARE = 2e-3
"""… or, with steps that adapt, this share of the motion."""


class AbstractFeedback(AbstractStabilisation):
    """Feedback of the violation with a time constant τ, in seconds."""

    exact: ClassVar[bool] = False
    time_constant: Scalar | None = None

    @property
    def tau(self) -> Scalar:
        if self.time_constant is None:
            raise DalembertError(
                "The time constant is open; give time_constant=, or let simulate set it from the step."
            )
        return self.time_constant

    def with_time_scale(self, step, span):
        tau = self.time_constant
        if tau is None:
            tau = SHARE * span if step is None else STEPS * step
        elif not is_traced(tau) and not (np.isfinite(tau) and tau > 0):
            raise DalembertError(f"{type(self).__name__}: time_constant={tau} must be a positive number of seconds.")
        # an array, so that another value does not recompile
        return dataclasses.replace(self, time_constant=tau if is_traced(tau) else np.asarray(tau, float))


class Baumgarte(AbstractFeedback):
    """C v̇ = Γ − (2/τ) φ − (1/τ²) Φ: each row a critically damped oscillator that returns to zero with time constant τ.

    [Baumgarte 1972; Blajer, Bestle, Schiehlen 1994, eqs. 34, 38a], gains K_v = 2/τ, K_p = 1/τ²; nonholonomic rows get
    −φ/τ. It bounds the drift, it does not remove it: Φ settles where it balances the error of a step's stages. A τ
    below the step makes the equations stiff. Formulations in tangent velocities have φ = 0 and no row to act on: there
    −W Φ/τ goes into q̇ instead. `time_constant` in seconds; by default 5 fixed steps, or 1/500 of the motion.
    """

    def rhs(self, equations):
        tau = self.tau
        m_h = len(equations.Phi)
        position = 2 * equations.phi[:m_h] / tau + equations.Phi / tau**2
        return equations.Gamma - jnp.concatenate([position, equations.phi[m_h:] / tau])

    def kinematics(self, equations, memory, tangent):
        if not tangent or len(equations.Phi) == 0:
            return None, memory
        return _along_rows(equations, -equations.Phi / self.tau), memory


class PI(AbstractFeedback):
    """q̇ = N (v − W (G₁Φ + G₀ ∫Φ dt)): a PI controller in the kinematic equations [Blajer 1995, eq. 4.6a].

    G₁ = 2/τ, G₀ = 1/τ². The kinetic equations are unchanged, the integral is one more state per holonomic row. Made for
    tangent velocities; where all velocities are integrated, −φ/τ is added to Γ to hold the velocity level. Like
    `Baumgarte` it bounds the drift only. `time_constant` as there.
    """

    def rhs(self, equations):
        return equations.Gamma - equations.phi / self.tau

    def memory(self, system):
        return np.zeros(system.m_holonomic)

    def kinematics(self, equations, memory, tangent):
        if len(equations.Phi) == 0:
            return None, memory
        tau = self.tau
        return _along_rows(equations, -(2 * equations.Phi / tau + memory / tau**2)), equations.Phi


def _along_rows(equations: Equations, g):
    """W g: the velocity of least mass norm that changes the holonomic rows at the rates g."""
    return equations.factorise().leading(len(g)).solve(None, g)[0]
