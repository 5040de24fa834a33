"""dalembert as a user calls it: `simulate` on a system built once, the whole call on the clock."""

from __future__ import annotations

import jax
import numpy as np
from problems import Problem, Samples

import dalembert as da

VERSION = da.__version__
LARGE = 30
"""Bodies above which joint coordinates, whose mass matrix is dense, are left out."""
_systems: dict[tuple[str, str], object] = {}


def ladders(problem: Problem) -> dict[str, tuple[float, ...]]:
    """Tolerances by integrator and coordinates, coarse to fine."""
    kinds = ["tsit5", "dopri8"] if len(problem.model.bodies) > LARGE else ["tsit5", "dopri8", "dopri8 joint"]
    return dict.fromkeys(kinds, problem.rtols)


class Simulation:
    """One machine at one tolerance."""

    def __init__(self, problem: Problem, kind: str, rtol: float):
        self.problem, self.rtol = problem, rtol
        self.kind, _, coordinates = kind.partition(" ")
        key = problem.name, coordinates or "absolute"
        if key not in _systems:
            _systems[key] = da.build(problem.model, coordinates=key[1])
        self.system = _systems[key]

    def reset(self) -> None:
        pass

    def run(self) -> None:
        times = self.problem.times
        self.solution = da.simulate(
            self.system, float(times[-1]), rtol=self.rtol, integrator=self.kind, samples=times, throw=False
        )
        jax.block_until_ready(self.solution.q)

    @property
    def steps_taken(self) -> int:
        return int(self.solution.stats["steps"])

    def samples(self) -> Samples:
        q, v = (np.asarray(x) for x in (self.solution.q, self.solution.v))
        return samples_of(self.problem, np.asarray(jax.vmap(self.system.lift)(q, v)[0]))


def samples_of(problem: Problem, q: np.ndarray) -> Samples:
    """The tracked point and the turned angles of a motion in absolute coordinates q (times, coordinates)."""
    model = problem.model
    q = q.reshape(len(q), len(model.bodies), -1)
    body, k = model.bodies[problem.body], problem.body_index
    local = body.local_point(problem.point[: len(body.position)])
    if model.space == "space":
        return Samples(q[:, k, :3] + _rotated(q[:, k, 3:], local), None)
    c, s = np.cos(q[:, k, 2]), np.sin(q[:, k, 2])
    x = q[:, k, 0] + c * local[0] - s * local[1]
    y = q[:, k, 1] + s * local[0] + c * local[1]
    return Samples(np.stack([x, y, 0 * x], axis=1), q[:, :, 2] - q[:1, :, 2])


def _rotated(quaternions, vector) -> np.ndarray:
    """R(quaternion) vector, for quaternions (times, 4), scalar first."""
    w, u = quaternions[:, :1], quaternions[:, 1:]
    cross = np.cross(u, vector)
    return vector + 2 * (w * cross + np.cross(u, cross))
