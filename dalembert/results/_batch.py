"""6b· results: a batch of runs: each query is evaluated run by run, and labelled data are joined along `run`.

Instants that a run did not reach hold NaN.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dalembert._results import DalembertError, RedundancyWarning, warn_caller
from dalembert._typing import is_traced
from dalembert.results._results import LEVELS, Results
from dalembert.simulation import SAVED, Solution, how_many, member, reached, statuses

if TYPE_CHECKING:
    import xarray as xr


class BatchResults:
    """What is computed from a batch of runs; what makes sense for one run only is refused with a message."""

    def __init__(self, solution: Solution):
        self.solution = solution

    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        """Everything with names and units, along `run`."""
        return together(self.solution, lambda one: one.dataset, "dataset")

    @property
    def measurements(self) -> xr.Dataset:
        """Measurements, inputs and states of controllers, along `run`."""
        return together(self.solution, lambda one: one.measurements, "measurements")

    @property
    def energy(self) -> xr.Dataset:
        """Energies and their balance, along `run`."""
        return together(self.solution, lambda one: one.energy, "energy")

    @property
    def energy_drift(self) -> np.ndarray:
        return for_each(self.solution, lambda one: one.energy_drift)

    @property
    def violation(self) -> dict[str, np.ndarray]:
        each = for_each(self.solution, lambda one: [one.violation[x] for x in LEVELS])
        return {x: np.array([np.nan if np.ndim(e) == 0 else e[k] for e in each]) for k, x in enumerate(LEVELS)}

    def reactions(self, joint: str, *, frame: str = "world", rule=None) -> xr.Dataset:
        """Force and torque of a joint, along `run`."""
        return together(self.solution, lambda one: one.reactions(joint, frame=frame, rule=rule), "reactions(joint)")

    def to_netcdf(self, path) -> Path:
        """Write the labelled data."""
        from dalembert.io import write_netcdf

        return write_netcdf(self.dataset, path)

    def html(self) -> str:
        """A table of the runs, for a notebook."""
        from dalembert.view import html_table, html_words

        solution = self.solution
        if is_traced(solution):
            return html_words(repr(solution))
        ends = zip(statuses(solution).ravel(), np.ravel(solution.t_end), strict=True)
        rows = [(k, s.name, f"{float(t):g} s") for k, (s, t) in enumerate(ends)]
        return html_words(repr(solution)) + html_table(("run", "status", "reached"), rows)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Results, name):
            raise AttributeError(name)
        raise DalembertError(
            f"This is a batch of {how_many(self.solution)} runs; take one of them: solution[0].{name}."
        )


def together(solution: Solution, query: Callable[[Solution], xr.Dataset], what: str) -> xr.Dataset:
    """A dataset of every run, along `run`."""
    import xarray as xr

    if np.ndim(solution.status_code) > 1:
        raise DalembertError(f"This is a batch of {how_many(solution)} runs; take some of them: solution[0].{what}.")
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
        warn_caller(str(w.message), w.category)
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
    if "reaction_rule" in parts[first].attrs:
        rules = dict.fromkeys(str(p.attrs["reaction_rule"]) for p in parts)
        one = next(iter(rules)) if len(rules) == 1 else "unique, but not determined at some instants of some runs"
        same = all(int(p.attrs["redundancy"]) == 0 for p in parts)
        out = out.assign_attrs(reaction_rule=one if same or len(rules) == 1 else "; ".join(rules))
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


def for_each(solution: Solution, query: Callable[[Solution], Any]) -> np.ndarray:
    """A number, or several, of every run; NaN for one that has no saved instant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RedundancyWarning)
        runs = [member(solution, k) for k in range(len(solution))]
        found = [query(one) if len(one.t) else np.nan for one in runs]
        return np.array(found, dtype=object if any(np.ndim(x) for x in found) else float)
