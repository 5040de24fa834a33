"""6b· results: a batch of runs: labelled data are joined along `run`, with NaN at instants that a run did not reach.

Violation and reactions are evaluated for all runs at once: reactions of those runs whose rows are well independent at
all their instants, so that all components are unique and believed. Everything else is evaluated run by run.
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
from dalembert.linalg import WEAK
from dalembert.reactions import one_sided_limits
from dalembert.results._at_once import ask_all, borne, violated
from dalembert.results._results import LEVELS, Results
from dalembert.simulation import SAVED, Solution, how_many, member, reached, run_of, statuses

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
        found = all_runs(self.solution, violated)
        if found is not None:
            values, lengths = found
            values[lengths == 0] = 0.0
            worst = np.where(lengths[:, None] > 0, np.nanmax(values, axis=1, initial=0.0), np.nan)
            return dict(zip(LEVELS, worst.T, strict=True))
        each = for_each(self.solution, lambda one: [one.violation[x] for x in LEVELS])
        return {x: np.array([np.nan if np.ndim(e) == 0 else e[k] for e in each]) for k, x in enumerate(LEVELS)}

    def reactions(self, joint: str, *, frame: str = "world", rule=None) -> xr.Dataset:
        """Force and torque of a joint, along `run`."""

        def ask(one: Solution) -> xr.Dataset:
            return one.reactions(joint, frame=frame, rule=rule)

        regular = independent(self.solution)
        if regular is None:
            return together(self.solution, ask, "reactions(joint)")
        return joined(self.solution, ask, joint, frame, *regular)

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


def all_runs(solution: Solution, question: Callable) -> tuple[Any, np.ndarray] | None:
    """The answers at all instants of all runs, and how many instants each run has; None where they are to be asked run
    by run."""
    if np.ndim(solution.status_code) != 1 or solution.system.klu is not None or not np.size(solution.t):
        return None
    if solution.phases is not None:  # each part of a run is a machine of its own
        return None
    t = np.asarray(solution.t)
    lengths = np.sum(np.isfinite(t) & (t <= np.asarray(solution.t_end)[:, None]), axis=1)
    found = ask_all(solution, question, lengths) if lengths.any() else None
    return None if found is None else (found, lengths)


def independent(solution: Solution) -> tuple[np.ndarray, np.ndarray, Any] | None:
    """Which runs have well independent rows at all their instants, how many instants each run has, and the reactions
    of all; None where reactions are to be asked run by run: in joint coordinates, where they depend on more than the
    state, and where runs have times of their own."""
    if np.ndim(solution.status_code) != 1:
        return None
    system = run_of(solution, 0).system
    bodies = system.bodies
    if bodies is None or bodies is not system or not bodies.m:
        return None
    if bodies.sided or bodies.pretensions() or one_sided_limits(bodies):
        return None
    found = all_runs(solution, borne)
    if found is None:
        return None
    (sigma, wrenches), lengths = found
    t = np.asarray(solution.t)
    there = np.arange(t.shape[1]) < lengths[:, None]
    with np.errstate(invalid="ignore"):
        well = (sigma.shape[2] == bodies.m) & (sigma[..., -1] > WEAK * sigma[..., 0])
    regular = np.all(well | ~there, axis=1) & (lengths > 0)
    alike = np.all((t == t[np.argmax(lengths)]) | ~there)
    return (regular, lengths, wrenches) if alike and regular.any() else None


def joined(solution: Solution, ask, joint: str, frame: str, regular, lengths, wrenches) -> xr.Dataset:
    """Reactions of a joint: of `regular` runs from `wrenches`, of the others run by run."""
    import xarray as xr

    own = int(np.argmax(np.where(regular, lengths, -1)))
    like = _padded(ask, run_of(solution, own), int(lengths[own]))
    bodies = solution.system.bodies
    assert bodies is not None
    number = [j.name for j in bodies.joints].index(joint)
    there = np.arange(np.shape(solution.t)[1]) < lengths[:, None]
    data: dict[str, Any] = {}
    for name, x in like.data_vars.items():
        kind = str(name).removeprefix("unique_")
        values = getattr(wrenches, kind if frame == "world" else f"joint_{kind}")[:, :, number]
        if kind != name:
            values = np.broadcast_to(there[:, :, None], values.shape)
        values = values.reshape(values.shape[: 1 + x.ndim])  # a torque in the plane is a number
        data[str(name)] = (("run", *x.dims), values[regular], x.attrs)
    shown = np.asarray(solution.t)[int(np.argmax(lengths))]
    coords = {k: c for k, c in like.coords.items() if k != "time"} | {"time": ("time", shown, like["time"].attrs)}
    # of counts and settings, those in which all runs agree
    own_of_runs = {k for k, x in solution.stats.items() if np.ndim(x) and len(np.unique(np.asarray(x)[regular])) > 1}
    attributes = {k: x for k, x in like.attrs.items() if k not in own_of_runs}
    out = xr.Dataset(data, coords=coords, attrs=attributes)
    order = np.concatenate([np.flatnonzero(regular), np.flatnonzero(~regular)])
    rest = order[int(np.sum(regular)) :]
    if len(rest):
        if lengths[rest].any():
            some = jax.tree_util.tree_map(lambda x: np.asarray(x)[rest], solution)
            slow = together(some, ask, "reactions(joint)").drop_vars(("run", "status", "t_end"))
            slow = slow.assign_coords(time=out["time"])
        else:
            nothing = {k: np.nan if x.dtype.kind == "f" else False for k, x in out.items()}
            slow = out.isel(run=np.zeros(len(rest), int))
            slow = slow.assign({k: xr.full_like(slow[k], x) for k, x in nothing.items()})
        out = xr.concat([out, slow], dim="run", data_vars="all", compat="equals", combine_attrs="drop_conflicts")
    return _with_runs(out.isel(run=np.argsort(order)), solution)


def _with_runs(data: xr.Dataset, solution: Solution) -> xr.Dataset:
    """With the number, the status and the end of each run."""
    names, ends = [s.name for s in statuses(solution)], np.asarray(solution.t_end)
    return data.assign_coords(run=np.arange(len(ends)), status=("run", names), t_end=("run", ends, {"units": "s"}))


def together(solution: Solution, query: Callable[[Solution], xr.Dataset], what: str) -> xr.Dataset:
    """A dataset of every run, along `run`."""
    import xarray as xr

    if np.ndim(solution.status_code) > 1:
        raise DalembertError(f"This is a batch of {how_many(solution)} runs; take some of them: solution[0].{what}.")
    whole = jax.tree_util.tree_map(np.asarray, solution)
    runs = [run_of(whole, k) for k in range(len(whole.status_code))]
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
    # each run has its own phases of friction: solution[k].phases
    parts = [_masked(p, n).drop_dims("phase", errors="ignore") for p, n in zip(parts, lengths, strict=True)]
    if alike:
        shown = np.asarray(parts[first]["time"].values)
        parts = [p.assign_coords(time=("time", shown, p["time"].attrs)) for p in parts]
    else:  # each run has its own times
        parts = [p.rename_dims(time="instant").reset_index("time") for p in parts]
    out: Any = xr.concat(
        parts, dim="run", data_vars="all", coords="different", compat="equals", combine_attrs="drop_conflicts"
    )
    if "reaction_rule" in parts[first].attrs:
        rules = dict.fromkeys(str(p.attrs["reaction_rule"]) for p in parts)
        one = next(iter(rules)) if len(rules) == 1 else "unique, but not determined at some instants of some runs"
        same = all(int(p.attrs["redundancy"]) == 0 for p in parts)
        out = out.assign_attrs(reaction_rule=one if same or len(rules) == 1 else "; ".join(rules))
    return _with_runs(out, solution)


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
