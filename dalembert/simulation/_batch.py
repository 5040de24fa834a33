"""6 · simulation: many runs in one `Solution`, as `vmap` returns them: `solution[k]` is one, `dataset` has them all.

Every array of a batch has one more axis in front. Queries are evaluated run by run and concatenated along `run`;
instants that a run did not reach hold NaN.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dalembert._results import DalembertError, RedundancyWarning, Status

if TYPE_CHECKING:
    import xarray as xr

    from dalembert.simulation._solution import Solution

SAVED = ("t", "q", "v", "work")


def is_batch(solution: Solution) -> bool:
    """Whether a solution holds many runs."""
    return np.ndim(solution.status_code) > 0


def need_one(solution: Solution, what: str) -> None:
    """Refuse, with a message, what makes sense for one run only."""
    if is_batch(solution):
        raise DalembertError(f"This is a batch of {_many(solution)} runs; take one of them: solution[0].{what}.")


def _many(solution: Solution) -> str:
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
    one = jax.tree_util.tree_map(lambda x: np.asarray(x)[k], solution)
    return one if is_batch(one) else _cut(one, reached(one))


def reached(one: Solution) -> int:
    """How many of the instants that were to be saved a run has reached."""
    t = np.asarray(one.t)
    return int(np.sum(np.isfinite(t) & (t <= np.asarray(one.t_end))))


def _cut(one: Solution, count: int) -> Solution:
    return dataclasses.replace(one, **{k: getattr(one, k)[:count] for k in SAVED})


def together(solution: Solution, query: Callable[[Solution], xr.Dataset], what: str) -> xr.Dataset:
    """A dataset of every run, along `run`."""
    import xarray as xr

    if np.ndim(solution.status_code) > 1:
        raise DalembertError(f"This is a batch of {_many(solution)} runs; take some of them: solution[0].{what}.")
    count = len(np.asarray(solution.status_code))
    whole = jax.tree_util.tree_map(np.asarray, solution)
    runs = [jax.tree_util.tree_map(lambda x, k=k: x[k], whole) for k in range(count)]
    lengths = [reached(one) for one in runs]
    if not any(lengths):
        raise DalembertError("No run of this batch has reached a saved instant.")
    times = max(zip(lengths, (one.t for one in runs), strict=True), key=lambda pair: pair[0])[1]
    alike = all(np.array_equal(one.t[:n], times[:n]) for n, one in zip(lengths, runs, strict=True))
    first = lengths.index(max(lengths))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts: list[Any] = [_padded(query, one, n) if n else None for n, one in zip(lengths, runs, strict=True)]
    for w in {str(w.message): w for w in caught}.values():  # each once
        warnings.warn(w.message, w.category, stacklevel=4)
    parts = [parts[first] if p is None else p for p in parts]
    parts = [_masked(p, n) for p, n in zip(parts, lengths, strict=True)]
    if alike:
        shown = np.asarray(parts[first]["time"].values)
        parts = [p.assign_coords(time=("time", shown, p["time"].attrs)) for p in parts]
    else:  # each run has its own times
        parts = [p.rename_dims(time="instant").reset_index("time") for p in parts]
    out = xr.concat(
        parts, dim="run", data_vars="all", coords="different", compat="equals", combine_attrs="drop_conflicts"
    )
    names = [s.name for s in statuses(solution)]
    return out.assign_coords(run=np.arange(count), status=("run", names), t_end=("run", whole.t_end, {"units": "s"}))


def _padded(query, one: Solution, count: int) -> xr.Dataset:
    """The result for a run; instants that it did not reach repeat the last one, so that all runs have one size."""
    total = len(one.t)
    index = np.minimum(np.arange(total), count - 1)
    return query(dataclasses.replace(one, **{k: getattr(one, k)[index] for k in SAVED}))


def _masked(data: xr.Dataset, count: int) -> xr.Dataset:
    """The result with NaN at instants that the run did not reach, in its time as well."""
    if count == data.sizes["time"]:
        return data
    there = np.arange(data.sizes["time"]) < count
    hidden = {}
    for name, x in data.data_vars.items():
        if "time" in x.dims and x.dtype.kind in "fb":  # instants that were not reached have no values
            shape = [-1 if d == "time" else 1 for d in x.dims]
            hidden[name] = x.copy(
                data=np.where(there.reshape(shape), x.values, np.nan if x.dtype.kind == "f" else False)
            )
    return data.assign(hidden)


def for_each(solution: Solution, query: Callable[[Solution], float]) -> np.ndarray:
    """A number of every run; NaN for one that has no saved instant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RedundancyWarning)
        runs = [member(solution, k) for k in range(len(solution))]
        return np.array([query(one) if len(one.t) else np.nan for one in runs])
