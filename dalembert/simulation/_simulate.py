"""6 · simulation: `simulate`, the one entry: consistent start → march → `Solution`."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import AssemblyWarning, DalembertError, DataWarning, SimulationError, Status, warn_caller
from dalembert._runtime import compile_stopwatch
from dalembert._typing import is_traced
from dalembert.formulations import AbstractFormulation
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule, rule_of
from dalembert.simulation import _inside, _march, _native
from dalembert.simulation._begin import begin
from dalembert.simulation._diagnose import cause, warn_of_light_bodies
from dalembert.simulation._host import march_on_host
from dalembert.simulation._march import INTEGRATORS, March, Plan, Span
from dalembert.simulation._parts import is_inside
from dalembert.simulation._prepare import Prepared, unpacked
from dalembert.simulation._resume import Restart, joined, resumed
from dalembert.simulation._singular import singular_positions
from dalembert.simulation._solution import Solution
from dalembert.simulation._steps import Mark, first_step
from dalembert.simulation._sticking import sticking_march
from dalembert.simulation._sticking_along import sticking_inside
from dalembert.simulation._stiff import MANY
from dalembert.simulation._strategies import Strategies, strategies
from dalembert.simulation._touching import touching_march
from dalembert.stabilise import EXACT, AbstractStabilisation, State, check_tolerance
from dalembert.systems import AbstractSystem, build, jumps

ENGINES = ("auto", "native", "jax")
"""What marches."""

RTOL = 1e-8
"""The relative tolerance of an adaptive run, where none is given."""


def simulate(
    system: AbstractSystem | Model | Prepared,
    t_end: float,
    state: State | tuple | None = None,
    *,
    t0: float | None = None,
    formulation: AbstractFormulation | None = None,
    stabilisation: AbstractStabilisation | None = None,
    integrator: str | diffrax.AbstractSolver | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    dt: float | None = None,
    stepsize_controller: diffrax.AbstractStepSizeController | None = None,
    event: diffrax.Event | None = None,
    samples: Any = None,
    max_steps: int | None = None,
    progress: bool | Callable[[float], None] = False,
    singular: str = "pass",
    rule: AbstractReactionRule | str | None = None,
    derivative: str | diffrax.AbstractAdjoint = "reverse",
    tolerance: float = EXACT,
    throw: bool = True,
    after: Solution | None = None,
    engine: str = "auto",
    inputs: Mapping[str, Any] | None = None,
) -> Solution:
    """The motion of a system (a model, or what `prepare` made of one) from t0 (default 0) to t_end.

    **Arguments**

    - `system`: a model, a system, or a prepared machine. `t_end`, `t0`: the end and the start, in seconds.
    - `formulation`: how accelerations are found (`da.formulations`; default `Proximal`, which passes singular
      positions). `stabilisation`: how constraints are kept (`da.stabilise`; default `Projection`).
    - `state`: start (q, v), a rough guess is enough; default: the model's poses and velocities.
    - `integrator`: "tsit5" (everyday), "dopri8" (tight tolerances), "radau5" (stiff springs, dampers, bushings), or
      another of `INTEGRATORS`, or a Runge–Kutta solver of Diffrax, explicit or diagonally implicit
      (`diffrax.Ralston()`); default by tolerance. `rtol` (default 1e-8), `atol` (default = rtol) are relative to the
      machine's own size.
    - `dt`: take fixed steps of this length instead. `max_steps`: the most steps; the motion ends there.
    - `stepsize_controller`: one of Diffrax, in place of `rtol`, `atol` and `dt` (`diffrax.PIDController(rtol=1e-6,
      atol=1e-6, dtmax=0.01)`, `diffrax.StepTo(ts)`); errors and states reach it relative to the machine's own size.
    - `event`: a `diffrax.Event`; its conditions are functions `f(t, state, args, **kwargs)` of the time and the
      `State` (q, v). The motion ends there with status `event`, at the exact time if the event has a root finder.
    - `samples`: a number of equally spaced times (default 201), an array of times, "steps", or "dense" (steps,
      and `solution.at(t)` is exact at any time).
    - `progress`: True for a bar on the terminal, or a function of the finished share.
    - `singular`: "pass" marches through singular positions (the default); "stop" ends the motion at the first one,
      with status `rank_change` and the names of the joints.
    - `rule`: what picks reactions that are not unique (`dalembert.reactions`), or its name ("weighted", …); the motion
      does not depend on it, unless friction depends on a non-unique load (`bearing_friction`). With `RowElimination`
      the motion is computed without the eliminated rows and ends with the step in which one of them drifts.
    - `derivative`: inside `jax.grad` use "reverse", inside `jax.jvp`/`jacfwd` use "forward"; or an adjoint of Diffrax
      (`diffrax.RecursiveCheckpointAdjoint(checkpoints=50)`, `diffrax.DirectAdjoint()`).
    - `tolerance`: how far redundant joints may be from closing, relative to the machine's size (at most 1e-4). Loops
      whose numbers were rounded close only approximately; their redundant rows are then dropped, with a warning, and
      monitored: the motion ends if their gap exceeds ten times the tolerance. Not under jit, vmap and grad.
    - `throw`: raise `SimulationError` when the end is not reached; otherwise look at `solution.status`.
    - `after`: a solution (also from `da.open`) to continue until t_end as if it had not stopped, bit for bit; the
      result holds the whole motion. System and settings stay as they were; what differs is refused by name. `samples`
      then means further times (default: the same spacing).
    - `engine`: "native" marches in machine code made for this machine (explicit integrators, small to middling
      machines), "jax" by a program of JAX; "auto" (the default) takes the native one where it fits. They take the same
      steps and agree to rounding. So it is under jit and vmap; under jvp and jacfwd with derivative="forward".
    - `inputs`: for inputs of the model by name a number, a formula of t, a function of time (`da.functions`), a Python
      function of t, or (times, values), between which it is linear (docs/how_to/measurements_and_control.md).

    **Returns** a `Solution`. Works under `jit`, `vmap` and `grad`; then nothing is raised, and the result of `vmap` is
    a batch: `solution[k]`.

        >>> import dalembert as da
        >>> solution = da.simulate(da.mechanism("four-bar"), 0.5, samples=6)
        >>> solution.status.name, solution.q.shape
        ('done', (6, 9))
        >>> solution.violation["position"] < 1e-12
        True

    The step and its projection: equations (6.1)–(6.4) of docs/theory/simulation.md.
    """
    if singular not in ("pass", "stop"):
        raise DalembertError(f"singular={singular!r} is unknown; use 'pass' or 'stop'.")
    if engine not in ENGINES:
        raise DalembertError(f"engine={engine!r} is unknown; use 'auto', 'native' or 'jax'.")
    if after is not None:
        if inputs:
            raise DalembertError("inputs= cannot be given for a run that goes on: its inputs stay what they were.")
        given = {"state": state, "t0": t0, "formulation": formulation, "stabilisation": stabilisation}
        given |= {"integrator": integrator, "rtol": rtol, "atol": atol, "dt": dt, "rule": rule}
        given |= {"stepsize_controller": stepsize_controller, "event": event}
        given["tolerance"] = None if tolerance == EXACT else check_tolerance(tolerance)
        solution = _go_on(system, t_end, after, samples, max_steps, progress, throw, given)
        return solution if singular == "pass" else _stop_at_singular(solution, throw)
    ready = isinstance(system, Prepared)
    if isinstance(system, Prepared):
        given = {"formulation": formulation, "stabilisation": stabilisation, "rule": rule}
        given["tolerance"] = None if tolerance == EXACT else tolerance
        system, formulation, stabilisation, rule = unpacked(system, **given)
    elif isinstance(system, Model):
        system = build(system)
    system = system.with_inputs(inputs) if inputs else system
    chosen = strategies(integrator, stepsize_controller, event, derivative, dt, rtol, atol)
    rtol = getattr(chosen.controller, "rtol", None) if rtol is None else rtol
    t0, rtol = 0.0 if t0 is None else t0, RTOL if rtol is None else rtol
    traced = dt is not None and is_traced(system, state)
    plan, times = plan_of(chosen, rtol, atol, dt, samples, max_steps, t0, t_end, traced)
    control = system.control
    if not is_traced(t0, t_end):
        # through the class: Equinox makes a module of each bound method, which takes a tenth of a call without motion
        for sentence in type(control).not_covered(control, float(t0), float(t_end)):
            warn_caller(f"{system.name}: {sentence}", DataWarning)
        if sentences := jumps(system.machine, float(t0), float(t_end)):
            raise DalembertError(" ".join(sentences))
    if system.in_parts:
        settings = {"integrator": integrator, "rtol": rtol, "atol": atol, "dt": dt, "engine": engine}
        settings |= {"stepsize_controller": stepsize_controller, "event": event}
        settings |= {} if max_steps is None else {"max_steps": max_steps}
        settings |= {} if tolerance == EXACT else {"tolerance": tolerance}
        how = {"rule": rule, "formulation": formulation, "stabilisation": stabilisation}
        save = plan.save if plan.save != "times" else times
        if not system.touches and is_inside(system, t_end, state, t0, save, settings):
            return sticking_inside(simulate, system, t0, t_end, state, save, settings, plan, **how)
        report = reporter(progress)
        try:
            parted = touching_march if system.touches else sticking_march
            march, first = parted(simulate, system, t0, t_end, state, save, settings, **how)
            solution = march.to_end(first, report, throw)
        finally:
            getattr(report, "close", lambda: None)()
        return solution if singular == "pass" else _stop_at_singular(solution, throw)
    sampled = control.sampled
    if sampled:
        system = sampled_from(system, t0, dt)
        times = system.control.at_ticks(times, jnp if is_traced(system, times) else np)
        plan = dataclasses.replace(plan, ticks=True)
        if isinstance(plan.controller, diffrax.StepTo):
            raise DalembertError("StepTo cannot be given with sampled controllers: steps end at their ticks.")
    start, compiled = time.perf_counter(), compile_stopwatch.seconds
    begun = begin(system, state, t0, formulation, stabilisation, rule_of(rule), tolerance, ready)
    for sentence in begun.warnings:
        warn_caller(f"{system.name}: {sentence}", AssemblyWarning)
    problem, rule, found = begun.problem, begun.rule, begun.found
    stabilisation = problem.stabilisation
    stabilisation = type(stabilisation).with_time_scale(stabilisation, dt, t_end - t0)
    if stabilisation is not problem.stabilisation:
        problem = dataclasses.replace(problem, stabilisation=stabilisation)
    traced = begun.traced or is_traced(problem.stabilisation, t0, t_end, rtol, atol, dt, times)
    xp = jnp if traced else np  # on the host NumPy is much quicker than JAX for single numbers
    start_at, end = xp.asarray(t0, float), xp.asarray(t_end, float)
    first = xp.asarray(first_step(start_at, end, xp) if dt is None else dt, float)
    first = first_tick(system, start_at, first) if sampled and dt is None else first
    if isinstance(plan.controller, diffrax.StepTo):  # it knows
        first = None
    errors = (xp.asarray(rtol, float), xp.asarray(rtol if atol is None else atol, float))
    span = Span(start_at, end, first, begun.pack(problem, start_at), *errors, xp.asarray(np.inf), None)
    if traced:
        reason = _inside.unfit(problem, plan) if engine != "jax" else ""
        if engine == "native" and reason:
            raise DalembertError(f"engine='native' cannot march this: {reason}. Use engine='auto'.")
        if engine == "jax" or reason:
            out = _march.march(problem, span, plan, times)
        else:
            out = _inside.march(problem, span, dataclasses.replace(plan, engine=engine), times, ready)
        return _solution(problem, plan, [out], out.status, {}, rule, None)
    # nothing is differentiated here: the plain loop is fastest; polynomials of two programs cannot be joined
    if engine == "native" and _native.unfit(plan):
        raise DalembertError(f"engine='native' cannot march this: {_native.unfit(plan)}. Use engine='auto'.")
    short = plan.save != "dense" and _march.waits(plan)
    plan = dataclasses.replace(plan, adjoint="forward", derivative=None, careful=not short, engine=engine)
    parts = _reported(problem, span, plan, np.asarray(times), progress)
    compile_s = compile_stopwatch.seconds - compiled
    clock = {"compile_s": compile_s, "wall_s": time.perf_counter() - start - compile_s}
    clock |= {"start_moved": float(found.moved), "start_velocity_changed": begun.changed}
    loose = begun.loose
    if loose is not None:
        clock |= {"misfit": loose.misfit}
    clock |= {k: float(x) for k, x in zip(("rtol", "atol"), errors, strict=True)} if dt is None else {"dt": float(dt)}
    steps = None if dt is None else np.asarray(dt, float)
    restart = None
    if chosen.restartable:
        own = {} if loose is None else {"tolerance": float(tolerance), "let_go": tuple(map(int, loose.rows))}
        own |= {} if loose is None else {"whole_sizes": loose.sizes}
        sizes = np.asarray(found.sizes)
        restart = Restart(_mark_of(parts), sizes, start_at, *errors, steps, len(times), plan.save, **own,
                          engine=parts[-1].engine)  # fmt: skip
    solution = _conclude(problem, plan, parts, float(start_at), clock, throw, rule, restart)
    return solution if singular == "pass" else _stop_at_singular(solution, throw)


def _go_on(system, t_end, after: Solution, save, max_steps, progress, throw: bool, given: dict[str, Any]) -> Solution:
    """`simulate(…, after=…)`: the march of a former run, continued from before its last step was cut."""
    for name in ("state", "rule", "stepsize_controller", "event"):
        if given[name] is not None:
            hints = {"rule": "solution.with_rule(rule) picks reactions by another one", "state": "after= says it"}
            hint = hints.get(name, "start from its last state instead, simulate(system, t_end, solution.state, t0=…)")
            raise DalembertError(f"{name}= cannot be given for a run that goes on: {hint}.")
    start, compiled = time.perf_counter(), compile_stopwatch.seconds
    if given["integrator"] is not None:
        given["integrator"] = strategies(given["integrator"], None, None, "reverse", None, None, None).integrator
    now = resumed(system, t_end, after, save, max_steps, given)
    parts = _reported(now.problem, now.span, now.plan, now.times, progress)
    compile_s = compile_stopwatch.seconds - compiled
    clock = {"compile_s": compile_s, "wall_s": time.perf_counter() - start - compile_s}
    restart = dataclasses.replace(
        after.restart, mark=_mark_of(parts), slots=len(now.times), save=now.plan.save, engine=parts[-1].engine
    )

    def whole(more: Solution) -> Solution:
        return dataclasses.replace(joined(after, more, now), restart=restart)

    return _conclude(now.problem, now.plan, parts, float(restart.t0), clock, throw, after.chosen, restart, whole)


def sampled_from(system: AbstractSystem, t0, dt) -> AbstractSystem:
    """The system whose sampled controllers tick first at t0; a fixed step must end at all their ticks."""
    control = system.control
    if not control.sampled:
        return system
    for c in control.controllers:
        if dt is not None and c.rate is not None and not is_traced(dt, c.rate):
            steps = 1.0 / (float(c.rate) * float(dt))
            if round(steps) < 1 or abs(steps - round(steps)) > 1e-9 * steps:
                raise DalembertError(
                    f"dt={float(dt):g} s: controller '{c.name}' is sampled every {1 / float(c.rate):g} s, which is no "
                    "whole number of steps."
                )
    if not is_traced(control.begins, t0) and float(control.begins) == float(t0):
        return system
    return system.with_first_tick(t0)


def first_tick(system: AbstractSystem, t0, first):
    """The first step, cut at the first tick of a sampled controller."""
    if not system.control.sampled:
        return first
    end = _march.until_tick(system, t0, t0 + first)
    return end - t0 if is_traced(end) else np.asarray(end - t0)


def _reported(problem, span: Span, plan: Plan, times: np.ndarray, progress) -> list[March]:
    report = reporter(progress)
    try:
        return march_on_host(problem, span, plan, times, report)
    finally:
        getattr(report, "close", lambda: None)()


def _mark_of(parts: list[March]) -> Mark:
    """Where the march can be continued; None if it was under the control of the caller's own objects."""
    mark = parts[-1].controller[4]
    return mark if parts[-1].engine == "native" else jax.tree_util.tree_map(np.asarray, mark)


def _is_number(value) -> bool:
    if type(value) is float:  # most are, and this takes a tenth of the time
        return math.isfinite(value)
    array = np.asarray(value)
    return array.ndim == 0 and array.dtype.kind in "iuf" and bool(np.isfinite(array))


def _is_whole(value) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _rising_times(save, t0, t_end, known: bool) -> np.ndarray:
    try:
        times = np.asarray(save, float)
    except (TypeError, ValueError):
        times = np.zeros(())
    if times.ndim != 1 or times.size == 0:
        raise DalembertError(
            f"samples={save!r} is unknown; use a number of times, an array of times (not empty), 'steps' or 'dense'."
        )
    if known and t0 <= times[0] and times[-1] <= t_end and np.all(times[1:] >= times[:-1]):  # most are
        return times
    wrong = ~np.isfinite(times)
    wrong[1:] |= np.diff(times) < 0
    if known:
        wrong |= (times < t0) | (times > t_end)
    if np.any(wrong):
        first = int(np.argmax(wrong))
        within = "" if not known else f" within [{t0:g}, {t_end:g}]"
        raise DalembertError(f"samples= must be rising times{within}; number {first + 1} of them is {times[first]:g}.")
    return times


def refuse_settings(
    t_end, *, t0=0.0, samples=None, integrator=None, rtol=None, atol=None, dt=None, max_steps=None
) -> None:
    """Refuse what no machine can be run with, before one is: the settings of `simulate`, by name."""
    chosen = strategies(integrator, None, None, "reverse", dt, rtol, atol)
    plan_of(chosen, RTOL if rtol is None else rtol, atol, dt, samples, max_steps, t0, t_end, False)


def plan_of(chosen: Strategies, rtol, atol, dt, save, max_steps, t0, t_end, traced: bool) -> tuple[Plan, Any]:
    some = is_traced(rtol, atol, dt, save, t0, t_end)  # asked of all at once: most runs are not traced

    def unknown(*values) -> bool:
        return some and is_traced(*values)

    for name, value in (("rtol", rtol), ("atol", atol), ("dt", dt)):
        if value is not None and not unknown(value) and not (_is_number(value) and value > 0):
            raise DalembertError(f"{name}={value} must be a positive number.")
    for name, value in (("start", t0), ("end", t_end)):
        if not unknown(value) and not _is_number(value):
            raise DalembertError(f"The {name} of the run must be a number, in seconds, not {value!r}.")
    if not unknown(t0, t_end) and not t_end > t0:
        raise DalembertError(f"The end of the run, {t_end:g} s, must be later than its start, {t0:g} s.")
    if dt is not None and not unknown(dt, t0, t_end) and dt > (1 + 1e-12) * (t_end - t0):
        raise DalembertError(f"dt={dt:g} s is longer than the whole run of {t_end - t0:g} s; give a shorter step.")
    if max_steps is not None and not (_is_whole(max_steps) and 0 < max_steps <= _march.COUNTED):
        raise DalembertError(
            f"max_steps={max_steps!r} must be a positive whole number, at most {_march.COUNTED}, or left out."
        )
    integrator = chosen.integrator
    if integrator is None:
        integrator = _march.default_integrator(1e-6 if unknown(rtol) else rtol)
    kind = INTEGRATORS[integrator] if chosen.solver is None else type(chosen.solver)
    if dt is None and chosen.controller is None and not _march.estimates_error(kind):
        raise DalembertError(f"integrator='{integrator}' has no error estimate; give a fixed step with dt=.")
    kind, times = "times", np.zeros(0)
    if isinstance(save, str):
        if save not in ("steps", "dense"):
            raise DalembertError(f"samples={save!r} is unknown; use a number, an array of times, 'steps' or 'dense'.")
        kind = save
    elif save is None or _is_whole(save):
        if save is not None and save < 1:
            raise DalembertError(
                f"samples={save} must be a positive number of times, an array of times, 'steps' or 'dense'."
            )
        known = not unknown(t0, t_end)
        times = (np if known else jnp).linspace(t0, t_end, 201 if save is None else int(save))
    else:
        times = save if unknown(save) else _rising_times(save, t0, t_end, not unknown(t0, t_end))
    default = {"times": 10_000_000, "steps": 4096, "dense": 4096}[kind]
    # reverse mode keeps checkpoints for at most max_steps; of fixed steps their number is known beforehand
    traced = traced or unknown(t0, t_end, dt, rtol, save)
    if chosen.derivative == "reverse" and kind == "times" and (traced or dt is None):
        default = 100_000
    max_steps = default if max_steps is None else int(max_steps)
    if dt is not None and not unknown(t0, t_end, dt):
        _refuse_steps(dt, t0, t_end, max_steps)
    own = {"solver": chosen.solver, "controller": chosen.controller, "event": chosen.event}
    return Plan(integrator, dt is not None, kind, max_steps, chosen.derivative, **own, derivative=chosen.adjoint), times


def _refuse_steps(dt: float, t0: float, t_end: float, max_steps: int) -> None:
    """Refuse fixed steps of which there are too many before the first is taken."""
    count = np.ceil((t_end - t0) / np.nextafter(dt, np.inf))
    if count > max_steps:
        raise DalembertError(
            f"From {t0:g} s to {t_end:g} s a fixed step of dt={dt:g} s takes {count:,.0f} steps, more than "
            f"max_steps={max_steps:,}. Take a longer dt, or raise max_steps."
        )


def _conclude(
    problem, plan, parts: list[March], t0: float, clock, throw: bool, rule, restart, complete=lambda s: s
) -> Solution:
    """Join the parts, name the failure, raise if `throw`; `complete` completes the solution."""
    marches = [p if p.engine == "native" else _on_host(p) for p in parts]
    last = marches[-1]
    status, words = Status(int(last.status)), ""
    if status is not Status.done or sum(int(m.stats["num_accepted_steps"]) for m in marches) >= MANY:
        status, words = cause(problem, plan, marches, status, t0)
    warn_of_light_bodies(problem, last, clock.get("rtol", RTOL))
    solution = complete(_solution(problem, plan, marches, np.asarray(status.value), clock, rule, restart))
    if throw and status not in (Status.done, Status.event):
        raise SimulationError(f"{words}It stopped at t = {float(last.t_end):.6g} s.", solution)
    return solution


def _on_host(part: March) -> March:
    # `dense` stays as it is: its polynomials are evaluated by JAX
    return dataclasses.replace(jax.device_get(dataclasses.replace(part, dense=None)), dense=part.dense)


def _solution(problem, plan, parts: list[March], status, clock, rule, restart) -> Solution:
    stats: dict[str, Any] = {"accepted": sum(p.stats["num_accepted_steps"] for p in parts)}
    repeated = sum(p.status == _march.CARE for p in parts) if len(parts) > 1 else 0  # steps that were tried twice
    stats["rejected"] = sum(p.stats["num_rejected_steps"] for p in parts) - repeated
    stats["steps"] = stats["accepted"] + stats["rejected"]
    ts, ys = parts[0].ts, parts[0].ys
    if len(parts) > 1:
        ts, ys = jax.tree_util.tree_map(lambda *a: np.concatenate(a), *((p.ts, p.ys) for p in parts))
    q, v, work = ys
    return Solution.of(
        system=problem.system if problem.dropped is None else problem.dropped.whole,
        formulation=problem.formulation,
        stabilisation=problem.stabilisation,
        t=ts,
        q=q,
        v=v,
        work=work,
        status_code=status,
        t_end=parts[-1].t_end,
        stats=stats | clock,
        dense=parts[-1].dense,
        integrator=plan.integrator,
        chosen=rule,
        restart=restart,
    )


def _stop_at_singular(solution: Solution, throw: bool) -> Solution:
    """Cut the motion at its first singular position, if it has one."""
    found = singular_positions(solution)
    if not found:
        return solution
    count = int(np.sum(np.asarray(solution.t) <= found[0].t))
    cut = _until(solution, count, found[0].t, Status.rank_change)
    if throw:
        raise SimulationError(found[0].message, cut)
    return cut


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


def reporter(progress: bool | Callable[[float], None] | None) -> Callable[[float], None] | None:
    if progress is False or progress is None:
        return None
    if not isinstance(progress, bool):
        return progress
    from dalembert.simulation._progress import Bar

    return Bar()
