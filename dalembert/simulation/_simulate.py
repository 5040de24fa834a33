"""6 · simulation: `simulate`, the one entry: consistent start → march → `Solution`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import AssemblyWarning, DalembertError, SimulationError, Status, warn_caller
from dalembert._runtime import compile_stopwatch
from dalembert._typing import is_traced
from dalembert.equations import assemble, residuals
from dalembert.formulations import AbstractFormulation, Proximal
from dalembert.loads import bearing_names, solve_loads
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule, Eliminated, decide_loads, row_name, row_numbers, rule_of
from dalembert.simulation import _march
from dalembert.simulation._march import INTEGRATORS, March, Plan, Problem, Span
from dalembert.simulation._singular import singular_positions
from dalembert.simulation._solution import Solution
from dalembert.stabilise import (
    CHANGED,
    EXACT,
    AbstractStabilisation,
    Projection,
    State,
    assembled,
    check_tolerance,
    correction_sentence,
    loosened,
    open_rows,
    out_of_reach,
    prepared,
    row_sizes,
    velocity_change,
)
from dalembert.systems import AbsoluteSystem, AbstractSystem, TreeSystem, build, without_rows

_jitted_march: Callable[..., March] = eqx.filter_jit(_march.march)

MOVED = 1e-4
"""A start that had to be moved by more than this share of the machine's size was probably not meant so: warn."""

NEAR_PARADOX = 1e-3
"""det(1 − ∂N/∂s) from which on a march that cannot go on is told as friction without an answer."""

BLOWN_UP = 1e6
"""Speed, in machine sizes (or radians) a second, from which on vanishing steps are told as a motion that blows up."""


def simulate(
    system: AbstractSystem | Model,
    t1: float,
    state: State | tuple | None = None,
    *,
    t0: float = 0.0,
    formulation: AbstractFormulation | None = None,
    stabilisation: AbstractStabilisation | None = None,
    integrator: str | None = None,
    rtol: float = 1e-8,
    atol: float | None = None,
    dt: float | None = None,
    save: Any = None,
    max_steps: int | None = None,
    progress: bool | Callable[[float], None] = False,
    singular: str = "pass",
    rule: AbstractReactionRule | str | None = None,
    derivative: str = "reverse",
    tolerance: float = EXACT,
    throw: bool = True,
) -> Solution:
    """The motion of a system (or a model) from t0 to t1.

    **Arguments**

    - `state`: start (q, v), a rough guess is enough; default: the model's poses and velocities.
    - `integrator`: "tsit5" (everyday), "dopri8" (tight tolerances), "kvaerno5" (stiff), or another of
      `INTEGRATORS`; default by tolerance. `rtol`, `atol` (default = rtol) are relative to the machine's own size.
    - `dt`: take fixed steps of this length instead.
    - `save`: a number of equally spaced times (default 201), an array of times, "steps", or "dense" (steps,
      and `solution.at(t)` is exact at any time).
    - `progress`: True for a bar on the terminal, or a function of the finished share.
    - `singular`: "pass" marches through singular positions (the default); "stop" ends the motion at the first one,
      with status `rank_change` and the names of the joints.
    - `rule`: what picks reactions that are not unique (`dalembert.reactions`), or its name ("weighted", …); the motion
      does not depend on it, unless friction asks for a load that is not unique (`bearing_friction`). With `Eliminated`
      the motion is computed without the eliminated rows and ends with the step in which one of them drifts.
    - `derivative`: inside `jax.grad` use "reverse", inside `jax.jvp`/`jacfwd` use "forward".
    - `tolerance`: how far redundant joints may be from closing, relative to the machine's size (at most 1e-4). Loops
      whose numbers were rounded close only nearly; what is superfluous of them is then let go, with a warning, and
      watched: the motion ends if it opens by ten times the tolerance. Not under jit, vmap and grad.
    - `throw`: raise `SimulationError` when the end is not reached; otherwise look at `solution.status`.

    Works under `jit`, `vmap` and `grad`; then nothing is raised and `solution.status` is an array.
    """
    if isinstance(system, Model):
        system = build(system)
    if singular not in ("pass", "stop"):
        raise DalembertError(f"singular={singular!r} is unknown; use 'pass' or 'stop'.")
    plan, times = _plan(integrator, rtol, dt, save, max_steps, derivative, t0, t1)
    rule = rule_of(rule)
    start = time.perf_counter()
    compiled = compile_stopwatch.seconds
    q, v = (None, None) if state is None else state
    given = system.v0 if v is None else v
    loose = None
    if not is_traced(system, t0, q, v) and check_tolerance(tolerance) > EXACT:
        loose = loosened(system, q, v, t=t0, tolerance=tolerance)
    if loose is not None:
        warn_caller(f"{system.name}: {loose.sentence}", AssemblyWarning)
    found = assembled(system, q, v, t=t0) if loose is None else loose.found
    (q, v), sizes = found.state, found.sizes
    if not is_traced(found.moved) and found.moved > MOVED:
        warn_caller(f"{system.name}: {correction_sentence(system, found)}", AssemblyWarning)
    changed = 0.0
    if not is_traced(system, given, v):
        changed, sentence = velocity_change(system, given, v)
        if changed > CHANGED:
            warn_caller(f"{system.name}: {sentence}", AssemblyWarning)
    whole, rule = _ruled(system, State(q, v), t0, rule)
    system, dropped = whole, None
    if loose is not None:
        reduced = without_rows(whole, loose.rows)  # with its loads decided
        system = _settled(reduced) if isinstance(reduced, AbsoluteSystem) else reduced
        dropped = _march.Dropped(whole, jnp.asarray(loose.sizes), loose.rows, 10 * tolerance)
    elif isinstance(rule, Eliminated) and isinstance(whole, AbsoluteSystem):  # a tree keeps most rows by itself
        rows = row_numbers(whole, rule.rows)
        reduced = without_rows(whole, rows)
        assert isinstance(reduced, AbsoluteSystem)
        system, dropped = _settled(reduced), _march.Dropped(whole, sizes, rows)
        sizes = sizes[np.setdiff1d(np.arange(whole.m), rows)]
    formulation, stabilisation = formulation or Proximal(), stabilisation or Projection()
    if not is_traced(system, t0, q, v):
        formulation = prepared(formulation, system, (q, v), t=t0)
    stabilisation = stabilisation.timed(dt, t1 - t0)
    problem = Problem(system, formulation, stabilisation, sizes, dropped)
    traced = is_traced(problem, t0, t1, q, v, rtol, times)
    xp = jnp if traced else np  # on the host NumPy is much quicker than JAX for single numbers
    start_at, end = xp.asarray(t0, float), xp.asarray(t1, float)
    first = 1e-4 * (end - start_at) if dt is None else xp.asarray(dt, float)
    errors = (xp.asarray(rtol, float), xp.asarray(rtol if atol is None else atol, float))
    y0 = problem.pack(start_at, q, v)
    span = Span(start_at, end, xp.asarray(first), y0, *errors, xp.asarray(np.inf), None)
    if traced:
        out = _march.march(problem, span, plan, times)
        found = _solution(problem, plan, [out], [out.ts], [out.ys], out.status, {})
        return dataclasses.replace(found, system=whole, chosen=rule)
    plan = dataclasses.replace(plan, adjoint="forward")  # nothing is differentiated here: the plain loop is fastest
    report = _reporter(progress)
    try:
        parts = _march_on_host(problem, span, plan, np.asarray(times), report)
    finally:
        getattr(report, "close", lambda: None)()
    compile_s = compile_stopwatch.seconds - compiled
    clock = {"compile_s": compile_s, "wall_s": time.perf_counter() - start - compile_s}
    clock |= {"start_moved": float(found.moved), "start_velocity_changed": changed}
    if loose is not None:
        clock |= {"misfit": loose.misfit}
    clock |= {k: float(x) for k, x in zip(("rtol", "atol"), errors, strict=True)} if dt is None else {"dt": float(dt)}
    solution = _judge(problem, plan, parts, clock, throw, rule)
    return solution if singular == "pass" else _stop_at_singular(solution, throw)


def _ruled(system: AbstractSystem, state: State, t0, rule) -> tuple[AbstractSystem, AbstractReactionRule | None]:
    """The system with its joint loads decided, and the rule made ready; under jit, vmap and grad both as given."""
    if not is_traced(system, state, t0):
        system = decide_loads(system, state, t=t0, rule=rule)
        machine = system.machine
        if isinstance(machine, AbsoluteSystem) and machine.load_rule is not None:
            return system, machine.load_rule
        if isinstance(system, TreeSystem):
            state = State(*system.lift(*(jnp.asarray(x, float) for x in state)))
        return system, rule if rule is None else rule.prepare(machine, assemble(machine, t0, *state))
    if isinstance(rule, Eliminated) and not rule.rows:
        raise DalembertError(
            "Eliminated() looks at numbers to find the rows to drop, which it cannot do under jit, vmap and grad. Name "
            "the rows: Eliminated(('C[1]', …)); da.simulate(…, rule=Eliminated()).rule outside tells which."
        )
    machine = system.machine
    if isinstance(machine, AbsoluteSystem) and machine.bearings and rule is not None:
        raise DalembertError(
            "Under jit, vmap and grad the rule for joint loads must be decided before: "
            "system = da.decide_loads(system, rule=…), then simulate without rule=."
        )
    return system, machine.load_rule if isinstance(machine, AbsoluteSystem) and rule is None else rule


def _settled(system: AbsoluteSystem) -> AbsoluteSystem:
    """A system whose rows are independent: its loads need no rule."""
    return dataclasses.replace(system, load_rule=None)


def _is_number(value) -> bool:
    array = np.asarray(value)
    return array.ndim == 0 and array.dtype.kind in "iuf" and bool(np.isfinite(array))


def _plan(integrator, rtol, dt, save, max_steps, derivative, t0, t1) -> tuple[Plan, jax.Array]:
    for name, value in (("rtol", rtol), ("dt", dt)):
        if value is not None and not is_traced(value) and not (_is_number(value) and value > 0):
            raise DalembertError(f"{name}={value} must be a positive number.")
    for name, value in (("start", t0), ("end", t1)):
        if not is_traced(value) and not _is_number(value):
            raise DalembertError(f"The {name} of the run must be a number, in seconds, not {value!r}.")
    if not is_traced(t0, t1) and not t1 > t0:
        raise DalembertError(f"The end of the run, {t1:g} s, must be later than its start, {t0:g} s.")
    if integrator is None:
        integrator = _march.default_integrator(1e-6 if is_traced(rtol) else rtol)
    if integrator not in INTEGRATORS:
        raise DalembertError(f"integrator={integrator!r} is unknown; use one of {', '.join(INTEGRATORS)}.")
    if derivative not in ("forward", "reverse"):
        raise DalembertError(f"derivative={derivative!r} is unknown; use 'forward' or 'reverse'.")
    if dt is None and integrator == "euler":
        raise DalembertError("integrator='euler' has no error estimate; give a fixed step with dt=.")
    kind, times = "times", np.zeros(0)
    if isinstance(save, str):
        if save not in ("steps", "dense"):
            raise DalembertError(f"save={save!r} is unknown; use a number, an array of times, 'steps' or 'dense'.")
        kind = save
    elif save is None or isinstance(save, int):
        known = not is_traced(t0, t1)
        times = (np if known else jnp).linspace(t0, t1, 201 if save is None else save)
    else:
        times = save if is_traced(save) else np.asarray(save, float)
        if not is_traced(times) and (times.ndim != 1 or np.any(np.diff(times) < 0) or times[0] < t0 or times[-1] > t1):
            raise DalembertError(f"save= must be rising times within [{t0}, {t1}].")
    default = {"times": 10_000_000, "steps": 4096, "dense": 4096}[kind]
    # reverse mode keeps checkpoints for at most max_steps
    if derivative == "reverse" and kind == "times" and max_steps is None:
        default = 100_000
    return Plan(integrator, dt is not None, kind, max_steps or default, derivative), times


def _march_on_host(problem, span: Span, plan: Plan, times: np.ndarray, report) -> list[tuple[March, int]]:
    """March in a few calls of one compiled program, pausing to report; each part comes with its saved count."""
    t0, t1 = float(span.t0), float(span.t1)
    stops = np.linspace(t0, t1, 33)[1:-1] if report is not None and plan.save == "times" else []
    stops = [*stops, np.inf]
    span = dataclasses.replace(span, resume=_fresh_state(span, plan))
    parts: list[tuple[March, int]] = []
    done = 0
    while True:
        reached = float(span.t0)
        pause = next(s for s in stops if s > reached)
        left = np.concatenate([times[done:], np.full(done, t1)]) if plan.save == "times" else times
        span = dataclasses.replace(span, pause_at=np.asarray(pause))
        out = _jitted_march(problem, span, plan, left)
        t_end = float(out.t_end)
        count = min(int(np.sum(np.asarray(out.ts) <= t_end)), len(times) - done) if plan.save == "times" else 0
        parts.append((out, count))
        done += count
        if report is not None:
            report((t_end - t0) / (t1 - t0))
        if not bool(out.paused) or t_end >= t1:
            return parts
        span = Span(
            out.t_end, span.t1, out.controller[2], out.y_end, span.rtol, span.atol, span.pause_at,
            (out.solver_state, out.controller),
        )  # fmt: skip


def _fresh_state(span: Span, plan: Plan):
    """Solver and controller state of a march that has not begun, so that begun and resumed ones compile once."""
    tableau = getattr(INTEGRATORS[plan.integrator], "tableau", None)
    zeros = jax.tree_util.tree_map(np.zeros_like, span.y0)
    solver = (np.array(True), zeros) if getattr(tableau, "fsal", False) else None
    inner = (np.ones(()), np.ones(()), np.array(False))
    if plan.fixed:
        count = np.ceil((span.t1 - span.t0) / np.nextafter(span.dt0, np.inf))
        inner = (np.array(1, np.int32), np.array(count, np.int32), span.t0, span.t1)
    return solver, (inner, (np.zeros((), int), np.zeros(())), span.dt0, np.zeros((), int))


def _solution(problem, plan, parts, ts, ys, status, clock) -> Solution:
    stats = {"accepted": sum(p.stats["num_accepted_steps"] for p in parts)}
    stats["rejected"] = sum(p.stats["num_rejected_steps"] for p in parts)
    stats["steps"] = stats["accepted"] + stats["rejected"]
    joined = jax.tree_util.tree_map(lambda *a: a[0] if len(a) == 1 else np.concatenate(a), *ys)
    q, v, work = joined
    return Solution(
        system=problem.system,
        formulation=problem.formulation,
        stabilisation=problem.stabilisation,
        t=ts[0] if len(ts) == 1 else np.concatenate(ts),
        q=q,
        v=v,
        work=work,
        status_code=status,
        t_end=parts[-1].t_end,
        stats=stats | clock,
        dense=parts[-1].dense,
        integrator=plan.integrator,
    )


def _judge(problem, plan, parts: list[tuple[March, int]], clock, throw: bool, rule) -> Solution:
    """Cut what was not reached, name the failure, raise if asked."""
    # `dense` stays as it is: its polynomials are evaluated by JAX
    parts = [
        (dataclasses.replace(jax.device_get(dataclasses.replace(p, dense=None)), dense=p.dense), c) for p, c in parts
    ]
    marches = [p for p, _ in parts]
    last = marches[-1]
    if plan.save == "times":
        ts = [p.ts[:count] for p, count in parts]
        ys = [jax.tree_util.tree_map(lambda a, c=count: a[:c], p.ys) for p, count in parts]
    else:
        count = int(np.sum(np.isfinite(np.asarray(last.ts))))
        ts, ys = [last.ts[:count]], [jax.tree_util.tree_map(lambda a: a[:count], last.ys)]
    status = Status(int(last.status))
    detail = ""
    if status in (Status.step_too_small, Status.not_finite):
        status, detail = _diagnose(problem, last, status)
    elif status is Status.eliminated_drifts:
        detail = _drifting(problem, last)
    solution = _solution(problem, plan, marches, ts, ys, np.asarray(status.value), clock)
    whole = problem.system if problem.dropped is None else problem.dropped.whole
    solution = dataclasses.replace(solution, system=whole, chosen=rule)
    if throw and status not in (Status.done, Status.event):
        raise SimulationError(f"{status.sentence} {detail}It stopped at t = {float(last.t_end):.6g} s.", solution)
    return solution


def _stop_at_singular(solution: Solution, throw: bool) -> Solution:
    """Cut the motion at its first singular position, if it has one."""
    found = singular_positions(solution)
    if not found:
        return solution
    count = int(np.sum(np.asarray(solution.t) <= found[0].t))
    cut = _until(solution, count, found[0].t, Status.rank_change)
    if throw:
        raise SimulationError(found[0].sentence, cut)
    return cut


def _drifting(problem: Problem, last: March) -> str:
    """The eliminated rows that no longer hold."""
    dropped = problem.dropped
    assert dropped is not None
    q, v, _ = problem.state(last.t_end, last.y_end)
    gaps = np.asarray(dropped.drift(last.t_end, q, v))
    names = [
        f"'{row_name(dropped.whole, r)}' ({g:.1e} of the machine's size)"
        for r, g in zip(dropped.rows, gaps, strict=True)
        if g > dropped.open
    ]
    return f"{', '.join(names)}: keep it and drop another. "


def _until(solution: Solution, count: int, t, status: Status) -> Solution:
    """The first `count` saved instants of a motion that ends at t."""
    return dataclasses.replace(
        solution,
        t=solution.t[:count],
        q=solution.q[:count],
        v=solution.v[:count],
        work=solution.work[:count],
        t_end=np.asarray(t),
        status_code=np.asarray(status.value),
    )


def _diagnose(problem: Problem, last: March, status: Status) -> tuple[Status, str]:
    """Tell numbers that blow up from constraints that cannot be met just after the last good state."""
    system = problem.system
    q, v, _ = problem.state(last.t_end, last.y_end)
    rates = eqx.filter_jit(problem.vector_field)(last.t_end, last.y_end, None)
    machine = system.machine
    if isinstance(machine, AbsoluteSystem) and machine.bearings:
        unsettled = _without_load(system, last, q, v, rates)
        if unsettled:
            return Status.no_load, unsettled
    if not all(bool(jnp.all(jnp.isfinite(r))) for r in rates[:2]):
        return Status.not_finite, _first_bad_force(system, last.t_end, q, v)
    if np.max(np.abs(np.asarray(v)) / np.asarray(system.scale())) > BLOWN_UP:
        return Status.not_finite, "The speeds have grown beyond all measure. "
    t = last.t_end + 1e-6 * jnp.maximum(jnp.abs(last.t_end), 1e-3)
    q_last, v_last = q, v
    q, v = problem.stabilisation.project(system, t, q, v)
    Phi, phi = residuals(system, t, q, v)
    sizes = np.asarray(row_sizes(system, assemble(system, t, q, v)))
    for residual in (np.asarray(Phi) / sizes[: len(Phi)], np.asarray(phi) / sizes):
        if residual.size and np.max(np.abs(residual)) > 1e-9:
            cause = out_of_reach(system, float(t), q_last, v_last)
            return Status.inconsistent, f"{cause}{open_rows(system, residual, 0.1 * np.max(np.abs(residual)))} "
    return status, ""


def _without_load(system: AbstractSystem, last: March, q, v, rates) -> str:
    """The bearing whose load cannot be found at the last good state, or a few steps on."""
    wdot = rates[1]
    known = all(bool(jnp.all(jnp.isfinite(r))) for r in rates[:2]) and wdot.shape == v.shape
    step = float(last.controller[2])
    for ahead in (0.0, *(step * 4.0**k for k in range(6))) if known else (0.0,):
        moved = (q + ahead * rates[0], v + ahead * wdot) if ahead else (q, v)
        loads = _loads_at(system, last.t_end + ahead, *moved)
        if not loads.settled or loads.margin < NEAR_PARADOX:
            gap = np.asarray(loads.gap)
            worst = int(np.argmax(gap if not np.max(gap) <= 0 else np.asarray(loads.load)))
            return f"The friction is '{bearing_names(system.machine)[worst]}'. "
    return ""


@eqx.filter_jit
def _loads_at(system: AbstractSystem, t, q, v):
    if isinstance(system, TreeSystem):
        system, (q, v) = system.absolute, system.lift(q, v)
    # without friction in h: that is what is asked for
    return solve_loads(system, assemble(dataclasses.replace(system, loads_decided=False), t, q, v))


def _first_bad_force(system, t, q, v) -> str:
    h = np.asarray(system.force(t, q, v))
    bad = np.flatnonzero(~np.isfinite(h))
    names = getattr(system, "body_names", None)
    if bad.size and names:
        return f"The force on body '{names[bad[0] // system.dv]}' is the first that is not finite. "
    return ""


def _reporter(progress) -> Callable[[float], None] | None:
    if progress is False or progress is None:
        return None
    if callable(progress):
        return progress
    from dalembert.simulation._progress import Bar

    return Bar()
