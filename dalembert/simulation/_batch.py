"""6 · simulation: many runs in one `Solution`, as `vmap` returns them: every array has one more axis in front."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import jax
import numpy as np

from dalembert._results import DalembertError, Status
from dalembert._typing import is_traced

if TYPE_CHECKING:
    from dalembert.simulation._solution import Solution

SAVED = ("t", "q", "v", "work")


INSTEAD = (
    "Inside them take solution.t, q, v, work, status_code, vdot, multipliers, measurements, energy, violation and "
    "reactions(joint); or return the solution from the function and ask it outside."
)
"""What a motion has while it is traced."""


def is_batch(solution: Solution) -> bool:
    """Whether a solution holds many runs."""
    return np.ndim(solution.status_code) > 0


def need_one(solution: Solution, what: str) -> None:
    """Refuse, with a message, what makes sense for one run only."""
    if is_traced(solution):
        raise DalembertError(f"solution.{what} needs numbers, which jit, vmap and grad hide. {INSTEAD}")
    if is_batch(solution):
        raise DalembertError(f"This is a batch of {how_many(solution)} runs; take one of them: solution[0].{what}.")


def how_many(solution: Solution) -> str:
    """The number of runs, as text: of nested batches "2 × 3"."""
    return " × ".join(map(str, np.shape(solution.status_code)))


def statuses(solution: Solution) -> np.ndarray:
    """How each run ended."""
    codes = np.asarray(solution.status_code)
    out = np.empty(codes.shape, object)
    out.ravel()[:] = [Status(int(c)) for c in codes.ravel()]
    return out


def member(solution: Solution, k) -> Solution:
    """One run of a batch (or some, by a slice), up to where it ended."""
    if not is_batch(solution):
        raise DalembertError("This is one run, not a batch; its saved instants are solution.t, .q, .v.")
    count = np.shape(solution.status_code)[0]
    if isinstance(k, int | np.integer) and not -count <= k < count:
        raise IndexError(f"There are {count} runs in this batch, numbered from 0; there is no run {k}.")
    if is_traced(solution):  # where it ended is not known yet
        return run_of(solution, k)
    one = run_of(jax.tree_util.tree_map(np.asarray, solution), k)
    return one if is_batch(one) else _cut(one, reached(one))


def run_of(solution: Solution, k) -> Solution:
    """Run k of a batch (or some), of arrays as long as they are in the batch."""
    one = jax.tree_util.tree_map(lambda x: np.asarray(x[k]), solution)
    if one.phases is None or one.phases.of_contacts or is_batch(one):
        return one
    return dataclasses.replace(one, phases=one.phases.of_one())


def reached(one: Solution) -> int:
    """How many of the instants that were to be saved a run has reached."""
    t = np.asarray(one.t)
    return int(np.sum(np.isfinite(t) & (t <= np.asarray(one.t_end))))


def _cut(one: Solution, count: int) -> Solution:
    return dataclasses.replace(one, **{k: getattr(one, k)[:count] for k in SAVED})
