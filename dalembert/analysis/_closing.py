"""7 · analysis: projecting a machine onto part of its constraints, on the host, and naming contradictory ones.

Gauss–Newton on unit rows in the mass metric, damped where a step fails (Levenberg, Marquardt). Where the constraints
cannot all hold it ends where the residual ρ (of unit rows) is smallest; there Ĉᵀρ = 0: the residual is itself a
dependency among rows, and its members are the constraints that contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dalembert.analysis._solvability import Term
from dalembert.equations import Equations, assemble, residuals
from dalembert.linalg import LARGE, Dependence
from dalembert.reactions import JointRows, joint_rows
from dalembert.stabilise import State, row_sizes
from dalembert.systems import AbstractSystem, compiled

LATER = (0.013, 0.17, 1.9, 23.0)
"""Seconds after which a row is evaluated again to test whether it depends on time."""


UNDAMPED = 1e-12
"""Added to the diagonal of ĈĈᵀ: dependent rows do no harm, and singular values above 1e-5 are not affected."""


@dataclass(frozen=True)
class Contradiction:
    """Constraints that cannot hold together near the given pose, in "positions", "velocities" or "accelerations".

    `terms`: joints and directions with the residual of each (lengths or angles in the model's units, per second at
    the level of velocities, per second squared at that of accelerations); `residual` is the largest, relative to the
    machine's size.
    """

    level: str
    terms: tuple[Term, ...]
    residual: float

    @property
    def joints(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t.joint for t in self.terms))

    def __str__(self) -> str:
        parts = []
        for joint in self.joints:
            own = [t for t in self.terms if t.joint == joint]
            worst = max(abs(t.coefficient) for t in own)
            parts.append(f"{joint} ({' '.join(t.name for t in own)} open by {worst:.2g})")
        return f"{self.level} of {', '.join(parts)} contradict each other"


class Closed(NamedTuple):
    q: np.ndarray
    gap: float  # largest remaining relative residual
    equations: Equations


class Closing:
    """Newton's method on the holonomic rows of a system, all or only those without time."""

    def __init__(self, system: AbstractSystem, t: float, *, timeless: bool = False):
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
        equations = assemble(self.system, self.t, q, v)
        if not len(self.rows):
            return Closed(q, 0.0, equations)
        sizes = np.asarray(_sizes(self.system, equations))[self.rows]
        measure = self._measured(equations).sizes  # constant, so that the same sum of squares is minimised
        damping, error = UNDAMPED, np.linalg.norm(np.asarray(equations.Phi)[self.rows] / measure)
        for _ in range(iterations):
            step = -self._solve(equations, np.asarray(equations.Phi)[self.rows], damping)
            size = np.max(np.abs(step) / scale)
            if size < 1e-12 or error < 1e-16 or not np.isfinite(size) or damping > 1e6:
                break
            trial = _retracted(self.system, q, step * min(1.0, 0.3 / size))
            found = assemble(self.system, self.t, trial, v)
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


def depends_on_time(system: AbstractSystem, t: float) -> np.ndarray:
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


def find_contradictions(system: AbstractSystem, t: float, q, v) -> tuple[State, tuple[Contradiction, ...]]:
    """The state at which the residual is smallest, and the contradictions there; none if the constraints can be met."""
    q = system.q0 if q is None else np.asarray(q, float)
    v = system.v0 if v is None else np.asarray(v, float)
    closing = Closing(system, t)
    for iterations in (15, 200):
        found = closing.close(q, v, iterations)
        # along a motion nearly allowed by the gap the residual changes slowly: near a minimum is enough
        if found.gap > 1e-9 and closing.slope(found.equations) < 0.05:
            break
    equations = found.equations
    joints = joint_rows(system, equations)
    h = system.m_holonomic
    d = equations.dependence()
    if found.gap > 1e-9:
        left = np.concatenate([np.asarray(equations.Phi), np.zeros(system.m - h)])
        if closing.slope(equations) > 0.05:
            return State(found.q, v), ()  # Newton did not converge: nothing is proven
        return State(found.q, v), (contradiction_of("positions", joints, d, left, system, equations),)
    # velocities: nearest to the given ones that meet the rows as far as possible
    phi = np.asarray(equations.phi)
    y = np.linalg.lstsq(d.rows, phi / d.sizes, rcond=1e-9)[0]
    v = v - np.linalg.solve(d.L.transpose(0, 2, 1), y.reshape(*d.L.shape[:2], 1)).ravel()
    equations = assemble(system, np.asarray(t, float), found.q, v)
    phi = np.asarray(equations.phi)
    if np.max(np.abs(phi) / np.asarray(_sizes(system, equations)), initial=0.0) <= 1e-9:
        return State(found.q, v), ()
    return State(found.q, v), (contradiction_of("velocities", joints, d, phi, system, equations),)


def contradiction_of(
    level: str, joints: list[JointRows], d: Dependence, left: np.ndarray, system: AbstractSystem, equations: Equations
) -> Contradiction:
    """Name the residuals, direction by direction; parts below a twentieth of the largest are left out."""
    relative = np.abs(left) / np.asarray(_sizes(system, equations))
    terms = []
    for j in joints:
        for direction in j.directions:
            # a direction's row is the same combination of residuals as of rows
            size = np.linalg.norm(direction.rows)
            gap = float(direction.rows @ left[list(j.rows)]) / size
            share = float(np.abs(direction.rows) @ relative[list(j.rows)]) / size
            # with gaps the axes of a joint's two sides differ a little: name the nominal direction
            terms.append((share, Term(j.name, direction.main or direction.name, float(gap))))
    worst = max(share for share, _ in terms)
    named = tuple(term for share, term in terms if share > 0.05 * worst)
    return Contradiction(level, named, float(np.max(relative)))


@compiled
def _sizes(system, equations):
    return row_sizes(system, equations)


@compiled
def _retracted(system, q, step):
    return system.retract(q, step)
