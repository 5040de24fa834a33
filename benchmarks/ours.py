"""dalembert as a user calls it: `simulate` on a system built once, the whole call on the clock."""

from __future__ import annotations

import jax
import numpy as np
from problems import Problem, Samples

import dalembert as da

VERSION = da.__version__
_systems: dict[str, object] = {}


def ladders(problem: Problem) -> dict[str, tuple[float, ...]]:
    """Tolerances by integrator, coarse to fine."""
    return {"tsit5": problem.rtols, "dopri8": problem.rtols}


class Simulation:
    """One machine at one tolerance."""

    def __init__(self, problem: Problem, kind: str, rtol: float):
        self.problem, self.kind, self.rtol = problem, kind, rtol
        if problem.name not in _systems:
            _systems[problem.name] = da.build(problem.model)
        self.system = _systems[problem.name]

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
        return samples_of(self.problem, np.asarray(self.solution.q))


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
