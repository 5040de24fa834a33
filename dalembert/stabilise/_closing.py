"""5b· closing part of the rows, on the host, also where they cannot all hold; and states beside one that is closed.

Gauss–Newton on unit rows in the mass metric, damped where a step fails (Levenberg, Marquardt). Where the constraints
cannot all hold it ends where the residual ρ (of unit rows) is smallest; there Ĉᵀρ = 0: the residual is itself a
dependency among rows, and its members are the constraints that contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dalembert._results import AssemblyError
from dalembert._typing import Array, Scalar
from dalembert.equations import Equations, assemble_known, residuals
from dalembert.linalg import LARGE, Dependence
from dalembert.stabilise._start import assembled, row_sizes
from dalembert.systems import AbstractSystem, State, compiled_quickly

LATER = (0.013, 0.17, 1.9, 23.0)
"""Seconds after which a row is evaluated again to test whether it depends on time."""
UNDAMPED = 1e-12
"""Added to the diagonal of ĈĈᵀ: dependent rows do no harm, and singular values above 1e-5 are not affected."""

SEED = 20130305
BESIDE = (0.02, 0.05)
"""How far away neighbours are, in the machine's size."""
ALONG = 0.05
"""Distance, in the machine's size, above which neighbours are taken along the motion."""


class Closed(NamedTuple):
    q: Array
    gap: float  # largest remaining relative residual
    equations: Equations


class Closing:
    """Newton's method on the holonomic rows of a system, all or only those without time."""

    def __init__(self, system: AbstractSystem, t: Scalar, *, timeless: bool = False):
        self.system, self.t = system, np.asarray(t, float)
        self.rows = np.arange(system.m_holonomic)
        if timeless:
            self.rows = self.rows[~depends_on_time(system, t)]

    def admissible(self, equations: Equations, direction: np.ndarray) -> np.ndarray:
        """The part of a direction (in units of `scale`) along which these rows do not change, brought to size 1."""
        scale = np.asarray(self.system.scale())
        x = direction * scale
        if len(self.rows):
            x = x - self._solve(equations, np.asarray(equations.C)[self.rows] @ x)
        left = x / scale
        size = np.max(np.abs(left))
        return left / size if size > 1e-9 * np.max(np.abs(direction)) else np.zeros_like(left)

    def close(self, q, v, iterations: int = 60) -> Closed:
        """The nearest configuration at which the rows hold, or where their residual is smallest."""
        scale = np.asarray(self.system.scale())
        equations = assemble_known(self.system, self.t, q, v)
        if not len(self.rows):
            return Closed(q, 0.0, equations)
        sizes = np.asarray(sizes_of(self.system, equations))[self.rows]
        measure = self._measured(equations).sizes  # constant, so that the same sum of squares is minimised
        damping, error = UNDAMPED, np.linalg.norm(np.asarray(equations.Phi)[self.rows] / measure)
        for _ in range(iterations):
            step = -self._solve(equations, np.asarray(equations.Phi)[self.rows], damping)
            size = np.max(np.abs(step) / scale)
            if size < 1e-12 or error < 1e-16 or not np.isfinite(size) or damping > 1e6:
                break
            trial = retracted(self.system, q, step * min(1.0, 0.3 / size))
            found = assemble_known(self.system, self.t, trial, v)
            new = np.linalg.norm(np.asarray(found.Phi)[self.rows] / measure)
            if new < error or new < 1e-15:
                q, equations, error, damping = trial, found, new, max(damping / 30, UNDAMPED)
            else:
                damping = max(30 * damping, 1e-8)
        gap = np.max(np.abs(np.asarray(equations.Phi)[self.rows]) / sizes)
        return Closed(q, float(gap), equations)

    def slope(self, equations: Equations) -> float:
        """|Ĉᵀρ|/|ρ|: zero where the residual is smallest."""
        d = self._measured(equations)
        rho = np.asarray(equations.Phi)[self.rows] / d.sizes
        return float(np.linalg.norm(d.rows.T @ rho) / np.linalg.norm(rho))

    def _measured(self, equations: Equations) -> Dependence:
        return equations.dependence(self.rows)

    def _solve(self, equations: Equations, right: np.ndarray, damping: float = UNDAMPED) -> np.ndarray:
        """The x of least mass norm with C x nearest to `right` on unit rows: Ĉᵀ(ĈĈᵀ + damping)⁻¹."""
        d = self._measured(equations)
        m, n = d.rows.shape
        if m < LARGE:
            U, sigma, Vt = np.linalg.svd(d.rows, full_matrices=False)
            # contradictions lie in combinations that are zero but for rounding: they move nothing
            weight = np.where(sigma > 1e-10 * sigma[0], sigma / (sigma**2 + damping), 0.0)
            y = Vt.T @ (weight * (U.T @ (right / d.sizes)))
        else:
            import scipy.sparse
            from scipy.sparse.linalg import splu

            C = scipy.sparse.csc_array(d.rows)
            eye = scipy.sparse.eye_array
            K = scipy.sparse.block_array([[eye(n), C.T], [C, -damping * eye(m)]], format="csc")
            y = splu(K).solve(np.concatenate([np.zeros(n), right / d.sizes]))[:n]
        return np.linalg.solve(d.L.transpose(0, 2, 1), y.reshape(*d.L.shape[:2], 1)).ravel()


def depends_on_time(system: AbstractSystem, t: Scalar) -> np.ndarray:
    """For each holonomic row whether Φ changes with time while nothing moves."""
    rows = system.m_holonomic
    drivers = [r for o in system.owners if o.drives for r in o.rows if r < rows]
    out = np.zeros(rows, bool)
    out[drivers] = True
    if rows and any(o.of_the_user for o in system.owners):
        now = np.asarray(residuals(system, t, system.q0, system.v0)[0])
        for later in LATER:
            out |= np.asarray(residuals(system, t + later, system.q0, system.v0)[0]) != now
    return out


@compiled_quickly
def sizes_of(system: AbstractSystem, equations: Equations):
    """`row_sizes`, compiled."""
    return row_sizes(system, equations)


@compiled_quickly
def retracted(system: AbstractSystem, q, step):
    """`system.retract`, compiled."""
    return system.retract(q, step)


# ---- beside a state, in fixed pseudo-random directions: there a singular pose shows its structure ------------------


def neighbours(system: AbstractSystem, t: Scalar, here: State, sizes: Sequence[float] = BESIDE) -> list[State]:
    """Configurations beside a state at which all rows hold at time t; for larger sizes along the velocity."""
    rng, scale = np.random.default_rng(SEED), np.asarray(system.scale())
    v = np.asarray(here.v) / scale
    fastest = np.max(np.abs(v), initial=0.0)
    out = []
    for size in sizes:
        along = size > ALONG and fastest > 0
        nudge = size * (v / fastest if along else rng.standard_normal(system.n))
        try:
            out.append(assembled(system, retracted(system, here.q, nudge * scale), here.v, t=t).state)
        except AssemblyError:
            continue  # this nudge left the branch; the others decide
    return out


def free_neighbours(system: AbstractSystem, t: Scalar, here: State, equations: Equations) -> list[State]:
    """Configurations beside a state along motions that the machine can make when nothing drives it.

    Rows that depend on time are dropped for this: with a driver held a machine has no neighbours, yet its pose may be
    singular for the driver's own coordinate. `equations` are those of the state.
    """
    if system.m == 0 or system.n == 0:
        return []
    rng, scale = np.random.default_rng(SEED), np.asarray(system.scale())
    closing = Closing(system, t, timeless=True)
    out = []
    for size in BESIDE:
        nudge = closing.admissible(equations, rng.standard_normal(system.n))
        if np.max(np.abs(nudge)) < 1e-6:
            return []  # it cannot move at all
        found = closing.close(retracted(system, here.q, size * nudge * scale), here.v)
        # back where it began (a motion of first order only), or far off: no neighbour
        away = np.max(np.abs(np.asarray(found.q) - np.asarray(here.q)) / np.asarray(system.coordinate_scale()))
        if found.gap < 1e-9 and 1e-4 < away < 1.0:
            out.append(State(found.q, here.v))
    return out
