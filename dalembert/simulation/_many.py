"""6 · simulation: `simulate_many`, thousands of runs of one machine with other numbers or other starts, at once.

All members share one machine code; each has its own parameters, start, steps and status. Several members march side by
side in the lanes of one processor core, and the cores share the batch. No member knows of the others: its motion does
not depend on how many there are, on the number of threads, or on one that fails.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from dalembert._results import (
    AssemblyError,
    AssemblyWarning,
    BatchError,
    DalembertError,
    SingularWarning,
    Status,
    warn_caller,
)
from dalembert._typing import Array
from dalembert.formulations import AbstractFormulation, Proximal
from dalembert.io import write_runs
from dalembert.kernels import Compiled, Kernel, Unknown, fixed, flat, widest
from dalembert.linalg import NEAR
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule, RowElimination
from dalembert.simulation import _march, _native
from dalembert.simulation._batch import SAVED
from dalembert.simulation._begin import MOVED
from dalembert.simulation._gpu import march_many_on_gpu
from dalembert.simulation._host import fresh_state
from dalembert.simulation._march import Plan, Problem, Span
from dalembert.simulation._phases import Phases
from dalembert.simulation._prepare import Prepared, prepare
from dalembert.simulation._rows import code_for_rows, cores, first_rows, march_rows
from dalembert.simulation._simulate import RTOL, first_tick, plan_of, reporter, sampled_from, simulate
from dalembert.simulation._solution import Solution
from dalembert.simulation._steps import first_step
from dalembert.simulation._strategies import strategies
from dalembert.simulation._xla import march_many_by_xla
from dalembert.stabilise import CHANGED, EXACT, AbstractStabilisation, State, start_of
from dalembert.systems import AbstractSystem, build, jumps, refuse_wound, with_fields, without_names

DEVICES = ("cpu", "gpu", "jax")
"""Where a batch is marched."""


def simulate_many(
    system: AbstractSystem | Model | Prepared,
    members: Mapping[str, Any] | State | tuple,
    t_end: float,
    *,
    states: State | tuple | None = None,
    t0: float = 0.0,
    formulation: AbstractFormulation | None = None,
    stabilisation: AbstractStabilisation | None = None,
    integrator: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    dt: float | None = None,
    samples: Any = None,
    max_steps: int | None = None,
    rule: AbstractReactionRule | str | None = None,
    derivatives: Sequence[str] = (),
    device: str = "cpu",
    threads: int | None = None,
    progress: bool | Callable[[float], None] = False,
) -> Solution:
    """The motions of many machines that differ in named parameters, in their starts, or in both.

    **Arguments**

    - `system`: a model, a system, or what `prepare` made of one.
    - `members`: {"crank.mass": an array with one value for each member, …} (names: `system.parameters()`; a vector has
      one row for each member), or a `State` (q, v) with one row for each member.
    - `t_end`, `t0`: the end and the start, in seconds, of all.
    - `states`: starts (q, v), one row for each member, besides parameters; default: the model's own. Each is moved onto
      the constraints of its member.
    - `formulation`, `stabilisation`, `integrator` (an explicit one by name), `rtol`, `atol`, `dt`, `max_steps`,
      `rule`: as for `simulate`.
    - `samples`: a number of equally spaced times (default 201), or an array of times.
    - `derivatives`: names of parameters (single numbers) by which all motions are differentiated; members need not
      differ in them. The derivatives are integrated along with the motion and are those of its own steps.
    - `device`: "cpu" (all cores), "gpu" (an NVIDIA GPU by its driver, one thread for each member), or "jax" (a program
      of XLA on JAX's own device).
    - `threads`: default: as many as there are processor cores. Members with dry friction that sticks are marched one by
      one, on one.
    - `progress`: True for a bar on the terminal, or a function of the finished share, called after each part of the
      batch (256 members; on other devices as many as they take at once).

    **Returns** a `Solution` that is a batch: `solution[k]` is one run with all that a solution can do, `status` is an
    array; `dataset`, `energy`, `violation` and `reactions(joint)` have a dimension `run`. A member that fails has a
    status that says so, NaN or infinite times where it did not get to, and no effect on the others. With `derivatives`,
    `solution.derivatives` has `q`, `v` and `work`: arrays (members, parameters, times, coordinates), of the work of
    forces and that of constraints.

        >>> import numpy as np
        >>> import dalembert as da
        >>> runs = da.simulate_many(da.mechanism("four-bar"), {"crank.mass": np.linspace(1, 3, 5)}, 0.5, samples=6)
        >>> runs.q.shape, runs[4].status.name
        ((5, 6, 9), 'done')

    The steps are those of `simulate`: equations (6.1)–(6.4) of docs/theory/simulation.md.
    """
    began = time.perf_counter()
    if isinstance(members, tuple):
        if states is not None:
            raise DalembertError("Starts are given twice: as members and as states=.")
        members, states = {}, members
    system = build(system) if isinstance(system, Model) else system
    if isinstance(samples, str):
        raise DalembertError(
            "The runs of a batch are saved at common times: samples= is a number or an array of times."
        )
    if not (isinstance(system, Prepared) or system.phases_stated or system.touches):
        if device != "cpu":
            raise DalembertError(
                f"device={device!r}: friction '{system.sticking[0]}' of '{system.name}' sticks; its motions are "
                "marched on the processor."
            )
        how = {"t0": t0, "formulation": formulation, "stabilisation": stabilisation, "integrator": integrator}
        how |= {"rtol": rtol, "atol": atol, "dt": dt, "samples": samples, "max_steps": max_steps, "rule": rule}
        return _one_by_one(system, members, states, t_end, how, tuple(derivatives), reporter(progress))
    machine = (
        system
        if isinstance(system, Prepared)
        else prepare(system, formulation=formulation, stabilisation=stabilisation, rule=rule, t=t0)
    )
    if isinstance(system, Prepared) and (formulation, stabilisation, rule) != (None, None, None):
        raise DalembertError("What da.prepare has fixed cannot be given again; give it to da.prepare.")
    chosen = strategies(integrator, None, None, "reverse", dt, rtol, atol)
    rtol = RTOL if rtol is None else rtol
    plan, times = plan_of(chosen, rtol, atol, dt, samples, max_steps, t0, t_end, False)
    machine = _sampled(machine, members, t0, dt)
    times = machine.system.control.at_ticks(times)
    if sentences := jumps(machine.system.machine, float(t0), float(t_end)):
        raise DalembertError(" ".join(sentences))
    if device not in DEVICES:
        raise DalembertError(f"device={device!r} is unknown; use 'cpu', 'gpu' or 'jax'.")
    ticks = machine.system.control.sampled
    plan = dataclasses.replace(plan, adjoint="forward", derivative=None, careful=False, ticks=ticks)
    batch = _Batch(machine, members, states, plan, np.asarray(times), (t0, t_end, dt, rtol, atol), tuple(derivatives))
    report = reporter(progress)
    try:
        batch.march(device, cores() if threads is None else threads, report)
    finally:
        getattr(report, "close", lambda: None)()
    return batch.solution(began)


def _one_by_one(
    system: AbstractSystem, members, states, t_end, how: dict[str, Any], along: tuple[str, ...], report
) -> Solution:
    """The motions of a machine with dry friction that sticks, each as `simulate` finds it."""
    numbers = _replaced(system, members, states, along)[0]
    q, v = (None, None) if states is None else states
    found: list[Solution | AssemblyError] = []
    slopes = []
    for k, row in enumerate(numbers):
        one = jax.tree_util.tree_map(lambda x: np.asarray(x[0]), _with_rows(system, row[None]))
        state = None if states is None else tuple(None if x is None else np.asarray(x, float)[k] for x in (q, v))
        try:
            found.append(simulate(one, t_end, state, throw=False, **how))
        except AssemblyError as error:
            found.append(error)
        if along:
            known = one.parameters()

            def states_at(values, one=one, state=state):
                run = simulate(one.replace(dict(zip(along, values, strict=True))), t_end, state, **how)
                return State(run.q, run.v)

            slopes.append(jax.jacfwd(states_at)(np.array([float(known[name]) for name in along])))
        if report is not None:
            report((k + 1) / len(numbers))
    getattr(report, "close", lambda: None)()
    like = next((x for x in found if isinstance(x, Solution)), None)
    if like is None:
        raise found[0]  # pyright: ignore[reportGeneralTypeIssues]
    runs = [x if isinstance(x, Solution) else _not_assembled(like, how["t0"]) for x in found]
    return _joined(system, numbers, runs, slopes)


def _not_assembled(like: Solution, t0: float) -> Solution:
    """A run that did not begin, among others."""
    phases: Any = like.phases
    return with_fields(
        like,
        **{name: np.asarray(getattr(like, name))[:0] for name in SAVED},
        status_code=np.asarray(Status.not_assembled.value),
        t_end=np.asarray(t0),
        stats={name: 0 * x for name, x in like.stats.items()},
        phases=dataclasses.replace(phases.first(), t=np.array([t0]), t_end=np.asarray(t0)),
    )


def _joined(system: AbstractSystem, numbers: np.ndarray, runs: list[Solution], slopes: list[State]) -> Solution:
    """Runs that were simulated one by one as a batch."""
    longest = max(len(one.t) for one in runs)

    def rows(name: str, fill: float) -> np.ndarray:
        parts = [np.asarray(getattr(one, name), float) for one in runs]
        return np.stack([np.concatenate([x, np.full((longest - len(x), *x.shape[1:]), fill)]) for x in parts])

    def each(tree):
        return jax.tree_util.tree_map(lambda x: np.stack([np.asarray(x)] * len(runs)), tree)

    first = runs[0]
    known = [name for name in first.stats if all(name in one.stats for one in runs)]
    phases: Any = [one.phases for one in runs]
    derivatives = State(*(np.moveaxis(np.stack(x), -1, 1) for x in zip(*slopes, strict=True))) if slopes else None
    return with_fields(
        first,
        system=_with_rows(system, numbers),
        formulation=each(first.formulation),
        stabilisation=each(first.stabilisation),
        **{name: rows(name, np.inf if name == "t" else np.nan) for name in SAVED},
        status_code=np.array([int(one.status_code) for one in runs]),
        t_end=np.array([float(one.t_end) for one in runs]),
        stats={name: np.array([one.stats[name] for one in runs]) for name in known},
        chosen=each(first.chosen),
        derivatives=derivatives,
        phases=Phases.together(phases),
    )


def _sampled(machine: Prepared, members: Mapping[str, Any], t0, dt) -> Prepared:
    """The machine whose sampled controllers tick first at t0, at the same times in all members."""
    for c in machine.system.control.controllers:
        if c.sampled and f"{c.name}.sample_rate" in members:
            raise DalembertError(f"'{c.name}.sample_rate' must be the same for all members of a batch.")
    system = sampled_from(machine.system, t0, dt)
    return machine if system is machine.system else dataclasses.replace(machine, system=system)


def write_many(
    path: str | Path,
    system: AbstractSystem | Model | Prepared,
    members: Mapping[str, Any] | State | tuple,
    t_end: float,
    *,
    at_once: int = 2000,
    states: State | tuple | None = None,
    **options: Any,
) -> Path:
    """`simulate_many`, written to a file as it comes: memory does not grow with the number of members.

    **Arguments**: `path` of a netCDF file, `at_once` members in memory at a time, all others as for `simulate_many`.

    **Returns** the path. The file has q and v (run, time, coordinate), the work of forces and of constraints, and for
    each run its parameters, status, end and number of steps: `xarray.open_dataset(path)`.

        >>> import dalembert as da
        >>> from tempfile import mkdtemp
        >>> masses = {"crank.mass": [1.0, 1.5, 2.0]}
        >>> path = da.simulation.write_many(mkdtemp() + "/runs.nc", da.mechanism("four-bar"), masses, 0.2, samples=3)
        >>> import xarray as xr
        >>> xr.open_dataset(path).sizes["run"]
        3
    """
    named = dict(members) if isinstance(members, Mapping) else {}
    given = states if isinstance(members, Mapping) else members
    machine = system if isinstance(system, Prepared) else prepare(
        system, t=options.get("t0", 0.0), **{k: options.pop(k, None) for k in ("formulation", "stabilisation", "rule")}
    )  # fmt: skip
    lengths = [len(np.asarray(x)) for x in (*named.values(), *(given or ())) if np.ndim(x)]
    count = max(lengths, default=0)

    def part(first: int) -> Solution:
        some = slice(first, first + at_once)
        mine = {n: np.asarray(x)[some] if np.ndim(x) else x for n, x in named.items()}
        starts = None if given is None else tuple(None if x is None else np.asarray(x)[some] for x in given)
        return simulate_many(machine, mine, t_end, states=starts, **options)

    parts = (part(first) for first in range(0, max(count, 1), max(int(at_once), 1)))
    return write_runs(path, parts, {n: np.asarray(x, float) for n, x in named.items()})


class Derivatives(NamedTuple):
    """How motions change with parameters: arrays (members, parameters, times, …)."""

    q: Array
    v: Array
    work: Array


class _Batch:
    """All members: their parameters, starts, and what has become of them."""

    def __init__(self, machine: Prepared, members, states, plan: Plan, times: np.ndarray, settings, along):
        self.along: tuple[str, ...] = along
        self.machine, self.plan, self.times = machine, plan, times
        self.t0, self.t_end, self.dt, self.rtol, self.atol = settings
        system = machine.system
        if isinstance(machine.rule, RowElimination) and system.bodies is system:
            raise BatchError(
                "simulate_many does not march without the rows that RowElimination drops; take another rule, or "
                "simulate each member."
            )
        self.numbers, self.slopes, varied = _replaced(system, members, states, along)
        self.count = len(self.numbers)
        # zeros and ones are built in, but for what varies: the code does not depend on the values of the members
        self.built_in = _flags(system) & ~varied
        q0, v0 = np.asarray(system.q0), np.asarray(system.v0)
        q, v = (None, None) if states is None else states
        for word, x0, x in (("q", q0, q), ("v", v0, v)):
            if x is not None and np.shape(x) != (self.count, *x0.shape):
                raise DalembertError(
                    f"{word} of the starts of '{system.name}' must have shape {(self.count, *x0.shape)}, one row for "
                    f"each member; got {np.shape(x)}."
                )
        self.q, self.v = (
            np.broadcast_to(x0 if x is None else np.asarray(x, float), (self.count, *x0.shape))
            for x0, x in ((q0, q), (v0, v))
        )
        self.problem = self._start()

    def _start(self) -> Problem:
        """Starts that meet the constraints, and the problem of each member as a row of numbers."""
        machine = self.machine
        system, formulation = machine.system, machine.formulation
        kept = getattr(formulation, "kept", None)
        t0 = np.asarray(self.t0, float)
        methods = without_names((system, formulation))
        directions = _changes(methods[0], self.slopes[0], len(self.along)) if self.along else None
        given = (t0, self.q[0], self.v[0], directions)

        def begin(methods, given):
            (system, formulation), (t, q, v, slopes) = methods, given

            def found(system):
                found, pivots = start_of(system, t, q, v, kept)
                state = _march.first_sample(system, formulation, t, found.state)
                return found._replace(state=state), pivots, formulation.pack(system, t, *state)

            def moving(system):
                start, _, (w, memory) = found(system)
                return eqx.filter((start.state.q, w, memory), eqx.is_inexact_array)

            changes = None
            if slopes is not None:
                changes = jax.vmap(lambda d: _native.changed_along(moving, (system,), (d,)))(slopes)
            return *found(system), changes

        rest = flat(eqx.filter(formulation, eqx.is_array))
        built_in = np.concatenate([self.built_in, np.ones(len(rest), bool)])
        fixed = None if kept is None else np.asarray(kept).tobytes()
        kernel, code = _made("begin", begin, methods, given, built_in, fixed)
        rows = np.concatenate([self.numbers, np.broadcast_to(rest, (self.count, len(rest)))], axis=1)
        inputs = np.concatenate([np.full((self.count, 1), t0), self.q, self.v, self.slopes], axis=1)
        out = code.rows("begin", rows, inputs)
        found, pivots, packed, self.start_changes = kernel.unflatten(out)
        gaps = np.concatenate([np.abs(found.position), np.abs(found.velocity), np.zeros((self.count, 1))], axis=1)
        self.open = ~(np.max(gaps, axis=1) <= EXACT)
        moved = int(np.sum(found.moved > MOVED))
        if moved:
            warn_caller(
                f"{system.name}: {moved} of {self.count} starts were moved by more than {MOVED:g} of the machine's "
                "size to close their joints.",
                AssemblyWarning,
            )
        self.start = State(*found.state)
        scale = np.asarray(system.scale())
        change = np.where(self.v == 0, 0.0, np.abs(self.start.v - self.v)) / scale
        largest = np.max(np.abs(self.v) / scale, axis=1, initial=0.0)
        changed = int(np.sum(np.max(change, axis=1, initial=0.0) > CHANGED * np.where(largest > 0, largest, 1.0)))
        if changed:
            warn_caller(
                f"{system.name}: the start velocities of {changed} of {self.count} members were changed to what the "
                "joints allow.",
                AssemblyWarning,
            )
        if system.wound and self.t0 == 0:  # as for each run alone
            for q in self.start.q[~self.open]:
                refuse_wound(system, q)
        self.packed, self.sizes = packed, found.sizes
        formulations = np.broadcast_to(rest, (self.count, len(rest)))
        self.special = np.zeros(self.count, bool)
        if isinstance(formulation, Proximal) and system.m:
            # where a start is weak, as weak as the machine is elsewhere, that is usual (`independent_rows`)
            weak = ~(np.min(pivots, axis=1, keepdims=True) > NEAR) | (kept is not None)
            usual = np.where(weak, np.maximum(pivots, np.asarray(formulation.usual)), pivots)
            self.special = ~(np.min(pivots / usual, axis=1) > NEAR)
            formulation = dataclasses.replace(formulation, usual=usual[0])
            formulations = np.concatenate([np.broadcast_to(flat(kept), (self.count, flat(kept).size)), usual], axis=1)
        stabilisation = machine.stabilisation.with_time_scale(self.dt, self.t_end - self.t0)
        stabilisations = np.zeros((self.count, 0))
        numbers = flat(eqx.filter(stabilisation, eqx.is_array))
        if getattr(stabilisation, "usual", None) is not None and isinstance(formulation, Proximal) and system.m:
            usual = np.min(formulations[:, -pivots.shape[1] :], axis=1)
            stabilisation = dataclasses.replace(stabilisation, usual=usual[0])
            stabilisations = usual[:, None]
        elif len(numbers):
            stabilisations = np.broadcast_to(numbers, (self.count, len(numbers)))
        self.rows = np.concatenate([self.numbers, formulations, stabilisations, self.sizes], axis=1)
        self.methods = (formulation, stabilisation)
        problem = Problem(system, formulation, stabilisation, self.sizes[0], None)
        if self.along:  # sizes and margins measure errors; nothing is differentiated through them
            wide = flat(eqx.filter(problem, eqx.is_inexact_array)).size * len(self.along)
            nothing = np.zeros((self.count, wide - self.slopes.shape[1]))
            self.rows = np.concatenate([self.rows, self.slopes, nothing], axis=1)
        return problem

    # ---- the march -------------------------------------------------------------------------------------------

    def march(self, device: str, threads: int, report) -> None:
        first = np.asarray(first_step(self.t0, self.t_end, np) if self.dt is None else self.dt, float)
        first = first_tick(self.problem.system, np.asarray(self.t0, float), first) if self.dt is None else first
        tolerances = [np.asarray(x, float) for x in (self.rtol, self.rtol if self.atol is None else self.atol)]
        y = jax.tree_util.tree_map(
            np.asarray, self.problem.pack(np.asarray(self.t0, float), self.start.q[0], self.start.v[0])
        )
        t0, t1 = (np.asarray(x, float) for x in (self.t0, self.t_end))
        rtol, atol = tolerances
        most = np.asarray(self.plan.max_steps)
        span = Span(t0, t1, first, y, rtol, atol, np.asarray(np.inf), None, most=most)
        span = dataclasses.replace(span, resume=fresh_state(span, self.plan))
        problem = without_names(dataclasses.replace(self.problem, loop="ask"))
        built_in = np.zeros(self.rows.shape[1], bool)
        built_in[: len(self.built_in)] = self.built_in
        changes = slice(flat(eqx.filter(problem, eqx.is_array)).size, None)
        built_in[changes] = np.all(self.rows[:, changes] == 0, axis=0)
        elsewhere = device != "cpu"
        lanes = 1 if elsewhere else widest()  # for one member too: its bits do not depend on the others
        code = _native.machine_for(problem, span, self.plan, lanes, built_in, len(self.along), elsewhere)
        if isinstance(code, str):
            raise BatchError(f"simulate_many cannot march this: {code}. Use jax.vmap over da.simulate instead.")
        begin, room = self._begin(code, span), max(len(self.times), 1)
        limits = np.array([span.t1, np.inf, _march.COUNTED, self.plan.max_steps, *tolerances], float)
        if elsewhere:
            march = march_many_on_gpu if device == "gpu" else march_many_by_xla
            self._read(code, *march(code, self.rows, begin, limits, self.times, False, room, report=report))
            return
        self._read(code, *march_rows(code, self.rows, begin, limits, self.times, False, room, threads, report))

    def _begin(self, code: _native.Machine, span: Span) -> np.ndarray:
        """The row of each member before its first step."""
        w, memory = self.packed
        integral, work = self.each(span.y0[3][1]), np.zeros((self.count, 4))
        y = self._rows((self.start.q, w, work, (memory, integral)))
        whole = y
        if self.along:
            several = (self.count, len(self.along))
            none = eqx.filter(span.y0[3][1], eqx.is_inexact_array)
            none = jax.tree_util.tree_map(lambda x: np.zeros((*several, *np.shape(x))), none)
            q, w, memory = self.start_changes
            whole = np.concatenate([y, self._rows((q, w, np.zeros((*several, 4)), (memory, none)))], axis=1)
        assert whole.shape[1] == code.y_tree.size and span.dt0 is not None
        return first_rows(span, self.plan, y, whole)

    def _rows(self, tree) -> np.ndarray:
        leaves = jax.tree_util.tree_leaves(tree)
        return np.concatenate([np.asarray(x, float).reshape(self.count, -1) for x in leaves], axis=1)

    def _read(self, code: _native.Machine, ends, ts, out) -> None:
        ny, ns = code.y_tree.size, code.state_tree.size
        state = code.state_tree.tree(ends[:, 2 + ny : 2 + ny + ns])
        self.accepted, self.rejected = (ends[:, k].astype(int) for k in (-3, -2))
        self.reached = ends[:, 0].copy()
        saved = code.saved.unflatten(out)
        (q, v, work), changes = saved if self.along else (saved, [])
        self.derivatives = None
        if self.along:
            self.derivatives = Derivatives(*(np.moveaxis(np.array(x), 2, 1) for x in changes[:3]))
        self.saved = [ts.copy(), q.copy(), v.copy(), work.copy()]
        for x in self.saved[1:]:
            x[~np.isfinite(ts)] = np.nan
        for x in self.derivatives or ():
            np.moveaxis(np.asarray(x), 1, 2)[~np.isfinite(ts)] = np.nan
        self.codes = np.array([_native.status_of(int(r), int(s)) for r, s in zip(ends[:, -4], state[3], strict=True)])
        for k in np.flatnonzero(self.open):
            self._nothing(int(k), Status.not_assembled)
        # members beside singular positions are marched one by one
        careful = np.flatnonzero(((self.codes == _march.CARE) | self.special) & ~self.open)
        for k in careful:
            self._alone(int(k))
        if self.along and len(careful):
            warn_caller(
                f"{self.machine.system.name}: {len(careful)} of {self.count} members pass singular positions; their "
                "derivatives are not known there and are NaN.",
                SingularWarning,
            )

    def _nothing(self, k: int, status: Status) -> None:
        self.codes[k], self.reached[k] = status.value, self.t0
        self.accepted[k] = self.rejected[k] = 0
        for x, nothing in zip(self.saved, (np.inf, np.nan, np.nan, np.nan), strict=True):
            x[k] = nothing
        if self.derivatives is not None:
            for x in self.derivatives:
                x[k] = np.nan

    def _alone(self, k: int) -> None:
        formulation, stabilisation = self.machine.formulation, self.machine.stabilisation
        formulation = None if isinstance(formulation, Proximal) else formulation  # it finds its own ranks and margins
        if getattr(stabilisation, "usual", None) is not None:
            stabilisation = dataclasses.replace(stabilisation, usual=None)
        one = simulate(
            self.system_of(k), self.t_end, State(self.start.q[k], self.start.v[k]), t0=self.t0, rtol=self.rtol,
            atol=self.atol, dt=self.dt, integrator=self.plan.integrator, samples=self.times, throw=False,
            max_steps=self.plan.max_steps, formulation=formulation, stabilisation=stabilisation, rule=self.machine.rule,
        )  # fmt: skip
        self._nothing(k, one.status)
        n = len(one.t)
        for x, y in zip(self.saved, (one.t, one.q, one.v, one.work), strict=True):
            x[k, :n] = y
        self.reached[k] = float(one.t_end)
        self.accepted[k], self.rejected[k] = int(one.stats["accepted"]), int(one.stats["rejected"])

    # ---- what comes out --------------------------------------------------------------------------------------

    def systems(self) -> AbstractSystem:
        """The system of all members: every array has one row for each."""
        return _with_rows(self.machine.system, self.numbers)

    def system_of(self, k: int) -> AbstractSystem:
        return jax.tree_util.tree_map(lambda x: x[0], _with_rows(self.machine.system, self.numbers[k : k + 1]))

    def each(self, tree):
        """The same for each member."""
        return jax.tree_util.tree_map(lambda x: np.broadcast_to(np.asarray(x), (self.count, *np.shape(x))), tree)

    def solution(self, began: float) -> Solution:
        stats = {"accepted": self.accepted, "rejected": self.rejected, "steps": self.accepted + self.rejected}
        stats |= self.each({"wall_s": time.perf_counter() - began, "compile_s": 0.0})
        stats |= self.each({"rtol": float(self.rtol)} if self.dt is None else {"dt": float(self.dt)})
        formulation, stabilisation = self.methods
        t, q, v, work = self.saved
        ends = (self.codes, self.reached, stats, None, self.plan.integrator)
        first = Solution(self.machine.system, formulation, stabilisation, t[0], q[0], v[0], work[0], *ends)
        return with_fields(
            first,
            system=self.systems(),
            formulation=self.each(formulation),
            stabilisation=self.each(stabilisation),
            t=t,
            q=q,
            v=v,
            work=work,
            chosen=self.each(self.machine.rule),
            derivatives=self.derivatives,
        )


def _replaced(
    system: AbstractSystem, members: Mapping[str, Any], states, along: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The numbers of each member's system, one row each; their derivatives by the parameters `along`; and which numbers
    may vary."""
    values = {}
    for name, given in members.items():
        x = np.asarray(given, float)
        if not x.ndim or not len(x):
            raise DalembertError(f"'{name}' needs an array with one value for each member, not {given!r}.")
        if not np.all(np.isfinite(x)):
            raise DalembertError(
                f"'{name}' of member {int(np.argwhere(~np.isfinite(x))[0][0])} is not a finite number."
            )
        values[name] = x
    lengths = {f"'{n}'": len(x) for n, x in values.items()}
    if states is not None:
        lengths |= {w: len(np.asarray(x)) for w, x in zip("qv", states, strict=True) if x is not None}
    if not lengths:
        raise DalembertError("simulate_many needs members: named parameters, or states, with one row for each member.")
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{n} has {k}" for n, k in lengths.items())
        raise DalembertError(f"All members need one value of everything: {counts}.")
    (count,) = set(lengths.values())
    own = flat(eqx.filter(system, eqx.is_array))
    for name, x in values.items():  # the checks of `replace`, at the extremes
        size = x.reshape(count, -1).sum(1)
        for k in (int(np.argmin(size)), int(np.argmax(size))):
            system.replace({name: x[k]})
    known = system.parameters()
    for name in along:
        if np.ndim(known.get(name, 0.0)):
            raise DalembertError(f"derivatives: '{name}' is not a single number; a motion has none by all of it.")
        values.setdefault(name, np.full(count, float(known[name])) if name in known else np.zeros(count))
    system.replace({n: x[0] for n, x in values.items()})  # names that are not known
    if not values:
        return np.tile(own, (count, 1)), np.zeros((count, 0)), np.zeros(len(own), bool)
    units = {n: np.zeros((len(along), *x.shape[1:])) for n, x in values.items()}
    for k, name in enumerate(along):
        units[name][k] = 1.0

    def changed(system, values):
        def numbers(values, wanted=eqx.is_array):
            return [x for x in jax.tree_util.tree_leaves(system.replace(values)) if wanted(x)]

        def slope(direction):
            return jax.jvp(lambda v: numbers(v, eqx.is_inexact_array), (values,), (direction,))[1]

        return numbers(values), jax.vmap(slope)(units) if along else ()

    one = {n: x[0] for n, x in values.items()}
    _, code = _made("replaced", changed, system, one, None, along)
    inputs = np.concatenate([values[n].reshape(count, -1) for n in sorted(values)], axis=1)
    other = np.concatenate([inputs[:1] * 1.1 + 0.1, inputs[:1] * 1.2 - 0.3])  # whatever the members have, this varies
    found = code.rows("replaced", own, np.concatenate([inputs, other]))
    numbers = found[:, : len(own)]
    return numbers[:count], found[:count, len(own) :], np.any(numbers != numbers[0], axis=0)


def _changes(system: AbstractSystem, row: np.ndarray, count: int):
    """A row of numbers as `count` changes of a system."""
    leaves, structure = jax.tree_util.tree_flatten(eqx.filter(system, eqx.is_inexact_array))
    ends = count * np.cumsum([0, *(np.size(x) for x in leaves)])
    parts = [row[i:j].reshape(count, *np.shape(x)) for i, j, x in zip(ends, ends[1:], leaves, strict=False)]
    return jax.tree_util.tree_unflatten(structure, parts)


def _made(name: str, function, parameters, given, built_in, *own) -> tuple[Kernel, Compiled]:
    try:
        return code_for_rows(name, function, parameters, given, built_in, *own)
    except Unknown as reason:
        raise BatchError(
            f"simulate_many cannot be used here: the equations contain {reason}. Use jax.vmap over da.simulate instead."
        ) from None


def _flags(system: AbstractSystem) -> np.ndarray:
    leaves = [np.asarray(x) for x in jax.tree_util.tree_leaves(eqx.filter(system, eqx.is_array))]
    return np.concatenate([np.zeros(0, bool), *(fixed(x).ravel() for x in leaves)])


def _with_rows(system: AbstractSystem, numbers: np.ndarray) -> AbstractSystem:
    arrays, static = eqx.partition(system, eqx.is_array)
    leaves, structure = jax.tree_util.tree_flatten(arrays)
    out, k = [], 0
    for x in leaves:
        x = np.asarray(x)
        out.append(numbers[:, k : k + x.size].reshape(len(numbers), *x.shape).astype(x.dtype))
        k += x.size
    return eqx.combine(jax.tree_util.tree_unflatten(structure, out), static)
