"""6 · simulation: the march on the host: in parts, each a call of the native march or of a program of JAX."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import jax
import numpy as np

from dalembert._results import Status
from dalembert._runtime import compile_stopwatch
from dalembert.simulation import _march, _native
from dalembert.simulation._march import March, Plan, Problem, Span
from dalembert.simulation._resume import solver_state
from dalembert.simulation._steps import FixedSteps, Mark, Predictive, step_to
from dalembert.systems import compiled

_jitted_march: Callable[..., March] = compiled(_march.march)


def marched(problem: Problem, span: Span, plan: Plan, times: np.ndarray) -> March:
    """One call of the native march, where that is wanted and possible, else of the program of JAX."""
    found = _native.march(problem, span, plan, times) if plan.engine != "jax" else None
    return _jitted_march(problem, span, plan, times) if found is None else found


def march_on_host(problem, span: Span, plan: Plan, times: np.ndarray, report) -> list[March]:
    """March in some calls of one compiled program, pausing to report and to let Ctrl-C act; the parts.

    A paused march continues exactly as if it had not paused, bit for bit.
    """
    t0, t1 = float(span.t0), float(span.t1)
    stops = np.linspace(t0, t1, 33)[1:-1] if report is not None and plan.save == "times" else []
    stops = [*stops, np.inf]
    most = np.asarray(plan.max_steps)
    known = plan.solver is None and plan.controller is None  # else Diffrax makes their state, and a pause compiles anew
    resume = fresh_state(span, plan) if span.resume is None and known else span.resume
    span = dataclasses.replace(span, resume=resume, most=most)
    pace = _Pace(problem.system.n)
    parts: list[March] = []
    done = taken = 0
    while True:
        reached = float(span.t0)
        pause = next(s for s in stops if s > reached)
        left = np.concatenate([times[done:], np.full(done, t1)]) if done and plan.save == "times" else times
        # the polynomials of a dense motion cannot be joined: it is marched in one go
        after = np.asarray(most if plan.save == "dense" else taken + pace.steps)
        with pace:
            part = dataclasses.replace(span, pause_at=np.asarray(pause), pause_after=after)
            out = marched(problem, part, plan, left)
            t_end = float(out.t_end)
        if plan.save == "times":
            saved = slice(0, min(np.count_nonzero(np.asarray(out.ts) <= t_end), len(times) - done))
            done += saved.stop
        else:  # a later part begins with the state that the one before ended with
            saved = slice(1 if parts else 0, np.count_nonzero(np.isfinite(np.asarray(out.ts))))
        going = bool(out.paused) and t_end < t1
        parts.append(_kept(out, saved, going))
        if int(out.status) == Status.event.value:
            parts[-1] = _with_end(problem, parts[-1])
        if report is not None:
            report((t_end - t0) / (t1 - t0))
        if not going:
            return parts
        if int(out.status) == _march.CARE:
            # machine code first; where that asks for care too, JAX
            plan = dataclasses.replace(plan, careful=True, engine="jax" if plan.careful else plan.engine)
        taken = int(out.controller[5])
        first = np.asarray(step_to(t_end, float(out.controller[6]), t1))
        # as NumPy arrays, as at the start: a number of JAX may be of a weak type, and another program would be compiled
        t0_next, y0, resume = jax.device_get((out.t_end, out.y_end, (out.solver_state, out.controller)))
        span = dataclasses.replace(span, t0=t0_next, dt0=first, y0=y0, resume=resume)


class _Pace:
    """How many steps a compiled call may take before it checks for signals: about `SECONDS` worth of them."""

    SECONDS = 0.25
    STEPS = 10_000
    """Those of the first call, over the number of velocities: half a second at most, more than most motions have."""

    def __init__(self, n: int):
        self.steps = max(8, self.STEPS // max(n, 1))

    def __enter__(self) -> None:
        self._began, self._compiled = time.perf_counter(), compile_stopwatch.seconds

    def __exit__(self, *_) -> None:
        compiling = compile_stopwatch.seconds - self._compiled
        seconds = max(time.perf_counter() - self._began - compiling, 1e-4)
        self.steps = int(min(max(self.steps * min(self.SECONDS / seconds, 8.0), 8), _march.COUNTED))


def _kept(out: March, saved: slice, going: bool) -> March:
    """A part of a march without what only its continuation needs; of the saved states those that were reached."""

    def cut(a):
        return np.array(np.asarray(a)[saved])

    if saved != slice(0, len(out.ts)):
        out = dataclasses.replace(out, ts=cut(out.ts), ys=jax.tree_util.tree_map(cut, out.ys))
    return dataclasses.replace(out, y_end=(), controller=(), solver_state=None) if going else out


def _with_end(problem: Problem, out: March) -> March:
    """A part that an event has ended, with the state at the event as its last saved one."""
    if len(out.ts) and out.ts[-1] >= float(out.t_end):
        return out
    last = (out.t_end, problem.state(out.t_end, out.y_end))
    ts, ys = jax.tree_util.tree_map(lambda a, b: np.concatenate([a, np.asarray(b)[None]]), (out.ts, out.ys), last)
    return dataclasses.replace(out, ts=ts, ys=ys)


def fresh_state(span: Span, plan: Plan):
    """Solver and controller state of a march that has not begun, so that begun and resumed ones compile once."""
    assert span.dt0 is not None  # without a controller of the caller's own
    inner = FixedSteps.start(span.t0, span.dt0) if plan.fixed else Predictive.start()
    if plan.ticks and not plan.fixed:
        inner = (inner, span.dt0)
    zero, carried = np.zeros((), int), _march.carried(plan, span.y0)
    bad, first = (zero, np.zeros(())), span.t0 + span.dt0
    mark = Mark.at(span.t0, span.y0, first, inner, bad, span.t1, carried, plan.careful)
    return solver_state(plan, span.y0, carried), (inner, bad, span.dt0, zero, mark, zero, first)
