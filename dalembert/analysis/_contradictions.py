"""7 · analysis: constraints that contradict each other, by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dalembert.analysis._solvability import Term
from dalembert.equations import Equations, assemble_known
from dalembert.linalg import Dependence
from dalembert.reactions import JointRows, joint_rows
from dalembert.stabilise import Closing, State, sizes_of
from dalembert.systems import AbstractSystem


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
    equations = assemble_known(system, np.asarray(t, float), found.q, v)
    phi = np.asarray(equations.phi)
    if np.max(np.abs(phi) / np.asarray(sizes_of(system, equations)), initial=0.0) <= 1e-9:
        return State(found.q, v), ()
    return State(found.q, v), (contradiction_of("velocities", joints, d, phi, system, equations),)


def contradiction_of(
    level: str, joints: list[JointRows], d: Dependence, left: np.ndarray, system: AbstractSystem, equations: Equations
) -> Contradiction:
    """Name the residuals, direction by direction; parts below a twentieth of the largest are left out."""
    relative = np.abs(left) / np.asarray(sizes_of(system, equations))
    terms = []
    for j in joints:
        for direction in j.directions:
            # a direction's row is the same combination of residuals as of rows
            size = float(np.linalg.norm(direction.rows))
            gap = float(direction.rows @ left[list(j.rows)]) / size
            share = float(np.abs(direction.rows) @ relative[list(j.rows)]) / size
            # with gaps the axes of a joint's two sides differ a little: name the nominal direction
            terms.append((share, Term(j.name, direction.main or direction.name, gap)))
    worst = max(share for share, _ in terms)
    named = tuple(term for share, term in terms if share > 0.05 * worst)
    return Contradiction(level, named, float(np.max(relative)))
