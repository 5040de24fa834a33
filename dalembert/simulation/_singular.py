"""6 · simulation: where along a motion the constraint rank falls."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.equations import assemble_known
from dalembert.linalg import mass_metric_rows
from dalembert.systems import compiled_quickly

SINGULAR = 1e-4
"""A singular value (of unit rows, in the mass metric) below this share of the largest, at its minimum in time."""
NEARBY = 0.1
"""Share of the largest nearby at which the weakest singular value makes a singular position the likely cause."""


@dataclass(frozen=True)
class SingularPosition:
    """An instant at which rows that are independent elsewhere become dependent."""

    t: float
    rank: int
    rank_elsewhere: int
    joints: tuple[str, ...]

    @property
    def message(self) -> str:
        names = ", ".join(f"'{j}'" for j in self.joints)
        return (
            f"The constraint rank fell from {self.rank_elsewhere} to {self.rank} at t = {self.t:.6g} s "
            f"(rows of {names}): a singular position."
        )


def singular_positions(solution, *, between: int = 4) -> list[SingularPosition]:
    """All singular positions of a motion, found as minima in time of the smallest singular value that should not be
    zero, sampled `between` times between saved states and then refined."""
    rank = solution.rank
    if rank == 0 or len(solution.t) < 2:
        return []
    saved = np.asarray(solution.t)
    grid = np.interp(np.arange(between * (len(saved) - 1) + 1) / between, np.arange(len(saved)), saved)
    sizes = _smallest(solution, grid, rank)
    found: list[SingularPosition] = []
    for k in range(len(grid)):
        low, high = max(k - 1, 0), min(k + 1, len(grid) - 1)
        if sizes[k] > min(sizes[low], sizes[high]) or sizes[k] > 0.3:
            continue
        t, size = _refine(solution, grid[low], grid[high], rank)
        if size > SINGULAR or (found and abs(t - found[-1].t) < grid[high] - grid[low]):
            continue
        left, values, _ = np.linalg.svd(_rows(solution, np.array([t]))[0], full_matrices=False)
        fallen = int(np.sum(values > SINGULAR * values[0]))
        found.append(SingularPosition(t, fallen, rank, owners_of(solution.system, left[:, fallen:rank])))
    return found


def _refine(solution, low: float, high: float, rank: int, points: int = 9) -> tuple[float, float]:
    """The minimum in a bracket, by ever finer grids of a fixed number of points (one compiled program)."""
    while True:
        grid = np.linspace(low, high, points)
        sizes = _smallest(solution, grid, rank)
        k = int(np.argmin(sizes))
        if high - low < 1e-9 * max(abs(high), 1e-3) or sizes[k] < 1e-3 * SINGULAR:
            return float(grid[k]), float(sizes[k])
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, points - 1)]


def _smallest(solution, times: np.ndarray, rank: int) -> np.ndarray:
    values = np.linalg.svd(_rows(solution, times), compute_uv=False)
    return values[:, rank - 1] / values[:, 0]


def _rows(solution, times: np.ndarray) -> np.ndarray:
    """The rows of C in the mass metric at many times."""
    q, v = solution.states(times)
    return _rows_at(solution.system, times, q, v)


def beside(system, t, q, v, step: float) -> str:
    """A message if the rows become nearly dependent within two steps of a state, along its velocity; else empty."""
    if 0 in (system.m, system.n) or system.klu is not None:
        return ""
    steps = step * np.linspace(-2.0, 2.0, 17)
    rows = _rows_at(system, t + steps, *_straight(system, q, v, steps))
    if not np.all(np.isfinite(rows)):
        return ""
    left, values, _ = np.linalg.svd(rows, full_matrices=False)
    values = values / values[:, :1]
    rank = int(np.max(np.sum(values > SINGULAR, axis=1)))
    weakest = values[:, rank - 1]
    k = int(np.argmin(weakest))
    if weakest[k] > NEARBY * np.max(weakest):
        return ""
    names = ", ".join(f"'{j}'" for j in owners_of(system, left[k][:, rank - 1 : rank]))
    return f"A singular position is near: rows of {names} become dependent there. "


def _rows_at(system, t, q, v) -> np.ndarray:
    found = jax.device_get(_matrices(system, t, q, v))
    return np.stack([mass_metric_rows(*each) for each in zip(*found, strict=True)])


@compiled_quickly
def _straight(system, q, v, steps):
    return jax.vmap(lambda h: (system.retract(q, h * v), v))(steps)


@compiled_quickly
def _matrices(system, t, q, v):
    def one(t, q, v):
        equations = assemble_known(system, t, q, v)
        share = jnp.ones(system.m) if equations.share is None else equations.share
        return equations.C, equations.mass.blocks, share

    return jax.vmap(one)(t, q, v)


def owners_of(system, vectors: np.ndarray) -> tuple[str, ...]:
    """The items whose rows make up most of the new dependency."""
    weight = {o.name: float(np.linalg.norm(vectors[list(o.rows)])) for o in system.owners}
    most = max(weight.values())
    return tuple(name for name, w in weight.items() if w > 0.3 * most)[:6]
