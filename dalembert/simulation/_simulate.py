"""6 · simulation: `simulate`, the one entry: consistent start → march → `Solution`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, cast

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import (
    AssemblyWarning,
    DalembertError,
    SimulationError,
    SingularWarning,
    Status,
    StiffnessWarning,
    warn_caller,
)
from dalembert._runtime import compile_stopwatch
from dalembert._typing import is_traced
from dalembert.equations import assemble, residuals, without_loads
from dalembert.formulations import AbstractFormulation
from dalembert.loads import bearing_names, solve_loads
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule, RowElimination, row_name, row_numbers, rule_of
from dalembert.simulation import _march, _native
from dalembert.simulation._march import INTEGRATORS, March, Plan, Problem, Span
from dalembert.simulation._prepare import Prepared, unpacked, with_ranks, with_rule
from dalembert.simulation._resume import Restart, joined, resumed, solver_state
from dalembert.simulation._singular import beside, singular_positions
from dalembert.simulation._solution import Solution
from dalembert.simulation._steps import FixedSteps, Mark, first_step, step_to
from dalembert.simulation._stiff import MANY, STIFF, stiffness
from dalembert.simulation._strategies import Strategies, strategies
from dalembert.stabilise import (
    CHANGED,
    EXACT,
    AbstractStabilisation,
    State,
    assembled,
    check_tolerance,
    correction_sentence,
    loosened,
    open_rows,
    out_of_reach,
    row_sizes,
    velocity_change,
)
from dalembert.systems import AbstractSystem, build, compiled, refuse_wound, wrapped

_jitted_march: Callable[..., March] = compiled(_march.march)

ENGINES = ("auto", "native", "jax")
"""What marches."""

RTOL = 1e-8
"""The relative tolerance of an adaptive run, where none is given."""

MOVED = 1e-4
"""Warn if projection moves a start by more than this fraction of the machine's size."""

NEAR_PARADOX = 1e-3
"""A march that cannot continue is reported as friction without a solution if det(1 − ∂N/∂s) is below this."""

BLOWN_UP = 1e6
"""Vanishing steps are reported as a diverging motion above this speed, in machine sizes (or radians) per second."""

LIGHT, LEFT, AT_LEAST = 1e-5, 2e-16, 1e-8
"""Usual margin of the rows (`Proximal.margin`) below which some bodies are so light beside their neighbours that a
passage through a singular position leaves an error whatever the tolerance: `LEFT` over the margin, `AT_LEAST` this.
Measured on a four-bar with cranks of 1e-6, 1e-8 and 1e-10 of its coupler's mass: 8e-9, 2e-8 and 9e-7."""

DIVERGING = 1e-6
"""Vanishing steps are reported as divergence if the speeds double within this share of the time since the start."""


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
    - `dt`: take fixed steps of this length instead.
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
      steps and agree to rounding. Under jit, vmap and grad it is always JAX.

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
    chosen = strategies(integrator, stepsize_controller, event, derivative, dt, rtol, atol)
    rtol = getattr(chosen.controller, "rtol", None) if rtol is None else rtol
    t0, rtol = 0.0 if t0 is None else t0, RTOL if rtol is None else rtol
    plan, times = _plan(chosen, rtol, atol, dt, samples, max_steps, t0, t_end, is_traced(system, state))
    rule = rule_of(rule)
    start = time.perf_counter()
    compiled = compile_stopwatch.seconds
    q, v = (None, None) if state is None else state
    given = system.v0 if v is None else v
    loose = None
    if not is_traced(system, t0, q, v) and check_tolerance(tolerance) > EXACT:
        loose = loosened(system, q, v, t=t0, tolerance=tolerance)
    if loose is not None:
        warn_caller(f"{system.name}: {loose.message}", AssemblyWarning)
    found = assembled(system, q, v, t=t0) if loose is None else loose.found
    (q, v), sizes = found.state, found.sizes
    if not is_traced(found.moved) and found.moved > MOVED:
        warn_caller(f"{system.name}: {correction_sentence(system, found)}", AssemblyWarning)
    changed = 0.0
    if not is_traced(system, t0, q) and t0 == 0:  # later, earlier full turns are not known
        refuse_wound(system, q)
    if not is_traced(system, given, v):
        changed, sentence = velocity_change(system, given, v)
        if changed > CHANGED:
            warn_caller(f"{system.name}: {sentence}", AssemblyWarning)
    whole, rule = (system, rule) if ready else _ruled(system, State(q, v), t0, rule)
    system, dropped = whole, None
    if loose is not None:
        reduced = whole.without_rows(loose.rows)  # with its loads decided
        system = _settled(reduced) if reduced.bodies is reduced else reduced
        dropped = _march.Dropped(whole, jnp.asarray(loose.sizes), loose.rows, 10 * tolerance)
    elif isinstance(rule, RowElimination) and whole.bodies is whole:  # a tree satisfies most rows by itself
        rows = row_numbers(whole, rule.rows)
        system, dropped = _settled(whole.without_rows(rows)), _march.Dropped(whole, sizes, rows)
        sizes = sizes[np.setdiff1d(np.arange(whole.m), rows)]
    if not ready or formulation is None or stabilisation is None:
        formulation, stabilisation = with_ranks(system, State(q, v), t0, formulation, stabilisation)
    stabilisation = stabilisation.with_time_scale(dt, t_end - t0)
    problem = Problem(system, formulation, stabilisation, sizes, dropped)
    traced = is_traced(problem, t0, t_end, q, v, rtol, times)
    xp = jnp if traced else np  # on the host NumPy is much quicker than JAX for single numbers
    start_at, end = xp.asarray(t0, float), xp.asarray(t_end, float)
    first = xp.asarray(first_step(start_at, end, xp) if dt is None else dt, float)
    if isinstance(plan.controller, diffrax.StepTo):  # it knows
        first = None
    errors = (xp.asarray(rtol, float), xp.asarray(rtol if atol is None else atol, float))
    y0 = problem.pack(start_at, q, v)
    span = Span(start_at, end, first, y0, *errors, xp.asarray(np.inf), None)
    if traced:
        out = _march.march(problem, span, plan, times)
        found = _solution(problem, plan, [out], [out.ts], [out.ys], out.status, {})
        return dataclasses.replace(found, system=whole, chosen=rule)
    # nothing is differentiated here: the plain loop is fastest; polynomials of two programs cannot be joined
    short = plan.save != "dense" and _march.waits(plan)
    plan = dataclasses.replace(plan, adjoint="forward", derivative=None, careful=not short, engine=engine)
    parts = _reported(problem, span, plan, np.asarray(times), progress)
    compile_s = compile_stopwatch.seconds - compiled
    clock = {"compile_s": compile_s, "wall_s": time.perf_counter() - start - compile_s}
    clock |= {"start_moved": float(found.moved), "start_velocity_changed": changed}
    if loose is not None:
        clock |= {"misfit": loose.misfit}
    clock |= {k: float(x) for k, x in zip(("rtol", "atol"), errors, strict=True)} if dt is None else {"dt": float(dt)}
    steps = None if dt is None else np.asarray(dt, float)
    restart = Restart(_mark_of(parts), np.asarray(found.sizes), start_at, *errors, steps, len(times), plan.save)
    restart = dataclasses.replace(restart, engine=parts[-1].engine)
    if loose is not None:
        restart = dataclasses.replace(
            restart, tolerance=float(tolerance), let_go=tuple(map(int, loose.rows)), whole_sizes=loose.sizes
        )
    if not chosen.restartable:
        restart = None
    solution = _conclude(
        problem, plan, parts, float(start_at), clock, throw, rule, lambda s: dataclasses.replace(s, restart=restart)
    )
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

    return _conclude(now.problem, now.plan, parts, float(restart.t0), clock, throw, after.chosen, whole)


def _reported(problem, span: Span, plan: Plan, times: np.ndarray, progress) -> list[March]:
    report = _reporter(progress)
    try:
        return _march_on_host(problem, span, plan, times, report)
    finally:
        getattr(report, "close", lambda: None)()


def _mark_of(parts: list[March]) -> Mark:
    """Where the march can be continued; None if it was under the control of the caller's own objects."""
    return jax.tree_util.tree_map(np.asarray, parts[-1].controller[4])


def _ruled(system: AbstractSystem, state: State, t0, rule) -> tuple[AbstractSystem, AbstractReactionRule | None]:
    """The system with its joint loads decided, and the rule prepared; under jit, vmap and grad both as given."""
    if not is_traced(system, state, t0):
        return with_rule(system, state, t0, rule)
    if isinstance(rule, RowElimination) and not rule.rows:
        raise DalembertError(
            "RowElimination() looks at numbers to find the rows to drop, which it cannot do under jit, vmap and grad. "
            "Say machine = da.prepare(system, rule=da.reactions.RowElimination()) outside, and simulate that; or name "
            "the rows: RowElimination(('C[1]', …))."
        )
    bodies = system.bodies
    if bodies is not None and bodies.bearings and rule is not None:
        raise DalembertError(
            "Under jit, vmap and grad the rule for joint loads must be decided before: machine = "
            "da.prepare(system, rule=…), then simulate that without rule=."
        )
    if bodies is None or rule is not None:
        return system, rule
    return system, cast(AbstractReactionRule | None, bodies.load_rule)  # as `decide_loads` made it


def _settled(system: AbstractSystem) -> AbstractSystem:
    """A system whose rows are independent: its loads need no rule."""
    return system.with_loads(None)


def _lifted(system: AbstractSystem, state: State) -> State:
    return system.lift(*(jnp.asarray(x, float) for x in state))


def _is_number(value) -> bool:
    array = np.asarray(value)
    return array.ndim == 0 and array.dtype.kind in "iuf" and bool(np.isfinite(array))


def _is_whole(value) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _rising_times(save, t0, t_end) -> np.ndarray:
    try:
        times = np.asarray(save, float)
    except (TypeError, ValueError):
        times = np.zeros(())
    if times.ndim != 1 or times.size == 0:
        raise DalembertError(
            f"samples={save!r} is unknown; use a number of times, an array of times (not empty), 'steps' or 'dense'."
        )
    wrong = ~np.isfinite(times)
    wrong[1:] |= np.diff(times) < 0
    if not is_traced(t0, t_end):
        wrong |= (times < t0) | (times > t_end)
    if np.any(wrong):
        first = int(np.argmax(wrong))
        within = "" if is_traced(t0, t_end) else f" within [{t0:g}, {t_end:g}]"
        raise DalembertError(f"samples= must be rising times{within}; number {first + 1} of them is {times[first]:g}.")
    return times


def _plan(chosen: Strategies, rtol, atol, dt, save, max_steps, t0, t_end, traced: bool) -> tuple[Plan, Any]:
    for name, value in (("rtol", rtol), ("atol", atol), ("dt", dt)):
        if value is not None and not is_traced(value) and not (_is_number(value) and value > 0):
            raise DalembertError(f"{name}={value} must be a positive number.")
    for name, value in (("start", t0), ("end", t_end)):
        if not is_traced(value) and not _is_number(value):
            raise DalembertError(f"The {name} of the run must be a number, in seconds, not {value!r}.")
    if not is_traced(t0, t_end) and not t_end > t0:
        raise DalembertError(f"The end of the run, {t_end:g} s, must be later than its start, {t0:g} s.")
    if dt is not None and not is_traced(dt, t0, t_end) and dt > (1 + 1e-12) * (t_end - t0):
        raise DalembertError(f"dt={dt:g} s is longer than the whole run of {t_end - t0:g} s; give a shorter step.")
    if max_steps is not None and not (_is_whole(max_steps) and 0 < max_steps <= _march.COUNTED):
        raise DalembertError(
            f"max_steps={max_steps!r} must be a positive whole number, at most {_march.COUNTED}, or left out."
        )
    integrator = chosen.integrator
    if integrator is None:
        integrator = _march.default_integrator(1e-6 if is_traced(rtol) else rtol)
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
        known = not is_traced(t0, t_end)
        times = (np if known else jnp).linspace(t0, t_end, 201 if save is None else int(save))
    else:
        times = save if is_traced(save) else _rising_times(save, t0, t_end)
    default = {"times": 10_000_000, "steps": 4096, "dense": 4096}[kind]
    # reverse mode keeps checkpoints for at most max_steps; of fixed steps their number is known beforehand
    traced = traced or is_traced(t0, t_end, dt, rtol, save)
    if chosen.derivative == "reverse" and kind == "times" and (traced or dt is None):
        default = 100_000
    max_steps = default if max_steps is None else int(max_steps)
    if dt is not None and not is_traced(t0, t_end, dt):
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


def _marched(problem: Problem, span: Span, plan: Plan, times: np.ndarray) -> March:
    """One call of the native march, where that is wanted and possible, else of the program of JAX."""
    found = _native.march(problem, span, plan, times) if _native.wanted(plan) else None
    return _jitted_march(problem, span, plan, times) if found is None else found


def _march_on_host(problem, span: Span, plan: Plan, times: np.ndarray, report) -> list[March]:
    """March in some calls of one compiled program, pausing to report and to let Ctrl-C act; the parts.

    A paused march continues exactly as if it had not paused, bit for bit.
    """
    t0, t1 = float(span.t0), float(span.t1)
    stops = np.linspace(t0, t1, 33)[1:-1] if report is not None and plan.save == "times" else []
    stops = [*stops, np.inf]
    most = np.asarray(plan.max_steps)
    known = plan.solver is None and plan.controller is None  # else Diffrax makes their state, and a pause compiles anew
    resume = _fresh_state(span, plan) if span.resume is None and known else span.resume
    span = dataclasses.replace(span, resume=resume, most=most)
    pace = _Pace(problem.system.n)
    parts: list[March] = []
    done = taken = 0
    while True:
        reached = float(span.t0)
        pause = next(s for s in stops if s > reached)
        left = np.concatenate([times[done:], np.full(done, t1)]) if plan.save == "times" else times
        # the polynomials of a dense motion cannot be joined: it is marched in one go
        after = np.asarray(most if plan.save == "dense" else taken + pace.steps)
        with pace:
            part = dataclasses.replace(span, pause_at=np.asarray(pause), pause_after=after)
            out = _marched(problem, part, plan, left)
            t_end = float(out.t_end)
        if plan.save == "times":
            saved = slice(0, min(int(np.sum(np.asarray(out.ts) <= t_end)), len(times) - done))
            done += saved.stop
        else:  # a later part begins with the state that the one before ended with
            saved = slice(1 if parts else 0, int(np.sum(np.isfinite(np.asarray(out.ts)))))
        going = bool(out.paused) and t_end < t1
        parts.append(_kept(out, saved, going))
        if int(out.status) == Status.event.value:
            parts[-1] = _with_end(problem, parts[-1])
        if report is not None:
            report((t_end - t0) / (t1 - t0))
        if not going:
            return parts
        if int(out.status) == _march.CARE:
            plan = dataclasses.replace(plan, careful=True)
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
        self.steps = int(np.clip(self.steps * min(self.SECONDS / seconds, 8.0), 8, _march.COUNTED))


def _kept(out: March, saved: slice, going: bool) -> March:
    """A part of a march without what only its continuation needs; of the saved states those that were reached."""

    def cut(a):
        return np.array(np.asarray(a)[saved])

    out = dataclasses.replace(out, ts=cut(out.ts), ys=jax.tree_util.tree_map(cut, out.ys))
    return dataclasses.replace(out, y_end=(), controller=(), solver_state=None) if going else out


def _with_end(problem: Problem, out: March) -> March:
    """A part that an event has ended, with the state at the event as its last saved one."""
    if len(out.ts) and out.ts[-1] >= float(out.t_end):
        return out
    last = (out.t_end, problem.state(out.t_end, out.y_end))
    ts, ys = jax.tree_util.tree_map(lambda a, b: np.concatenate([a, np.asarray(b)[None]]), (out.ts, out.ys), last)
    return dataclasses.replace(out, ts=ts, ys=ys)


def _fresh_state(span: Span, plan: Plan):
    """Solver and controller state of a march that has not begun, so that begun and resumed ones compile once."""
    assert span.dt0 is not None  # without a controller of the caller's own
    inner = (np.ones(()), np.zeros(()) if plan.integrator == "radau5" else np.ones(()), np.array(False))
    if plan.fixed:
        inner = FixedSteps.start(span.t0, span.dt0)
    zero, carried = np.zeros((), int), _march.carried(plan, span.y0)
    bad, first = (zero, np.zeros(())), span.t0 + span.dt0
    mark = Mark.at(span.t0, span.y0, first, inner, bad, span.t1, carried, plan.careful)
    return solver_state(plan, span.y0, carried), (inner, bad, span.dt0, zero, mark, zero, first)


def _solution(problem, plan, parts, ts, ys, status, clock) -> Solution:
    stats = {"accepted": sum(p.stats["num_accepted_steps"] for p in parts)}
    repeated = sum(p.status == _march.CARE for p in parts) if len(parts) > 1 else 0  # steps that were tried twice
    stats["rejected"] = sum(p.stats["num_rejected_steps"] for p in parts) - repeated
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


def _conclude(problem, plan, parts: list[March], t0: float, clock, throw: bool, rule, complete) -> Solution:
    """Join the parts, name the failure, raise if `throw`; `complete` completes the solution."""
    # `dense` stays as it is: its polynomials are evaluated by JAX
    marches = [dataclasses.replace(jax.device_get(dataclasses.replace(p, dense=None)), dense=p.dense) for p in parts]
    last = marches[-1]
    ts, ys = [p.ts for p in marches], [p.ys for p in marches]
    status = Status(int(last.status))
    words = f"{status.message} "
    if status in (Status.step_too_small, Status.not_finite):
        status, words = _diagnose(problem, plan, last, status, float(last.t_end) - t0)
    elif status is Status.eliminated_drifts:
        words += _drifting(problem, last)
    elif status is Status.wound:
        away = wrapped(problem.system.windings(last.t_end, problem.state(last.t_end, last.y_end)[0]))
        far = np.abs(np.asarray(away)) > 0.5 * np.pi
        names = dict.fromkeys(f"'{n}'" for n, out in zip(problem.system.wound, far, strict=True) if out)
        words += f"The law is {' or '.join(names)}. "
    words += _stiffness(problem, plan, marches, t0, status)
    _warn_of_light_bodies(problem, last, clock.get("rtol", RTOL))
    solution = _solution(problem, plan, marches, ts, ys, np.asarray(status.value), clock)
    whole = problem.system if problem.dropped is None else problem.dropped.whole
    solution = complete(dataclasses.replace(solution, system=whole, chosen=rule))
    if throw and status not in (Status.done, Status.event):
        raise SimulationError(f"{words}It stopped at t = {float(last.t_end):.6g} s.", solution)
    return solution


def _warn_of_light_bodies(problem: Problem, last: March, rtol: float) -> None:
    """Warn if a run was beside singular positions and light bodies cause an error above its tolerance there."""
    beside_for, margin = float(last.y_end[2][3]), float(getattr(problem.formulation, "margin", 1.0))
    left = max(LEFT / margin, AT_LEAST)
    if beside_for > 0 and margin < LIGHT and left > rtol:
        warn_caller(
            f"{problem.system.name}: for {beside_for:.2g} s in all the motion was beside singular positions, and some "
            f"bodies are very light compared with their neighbours. That leaves an error of about {left:.0e} of the "
            "machine's size, which no smaller rtol removes: make light bodies heavier, or leave them out.",
            SingularWarning,
        )


def _stiffness(problem: Problem, plan: Plan, marches: list[March], t0: float, status: Status) -> str:
    """Whether stability kept the steps short, where relevant; for a run that reached its end it is a warning."""
    steps = sum(int(m.stats["num_accepted_steps"]) for m in marches)
    relevant = status in (Status.max_steps, Status.step_too_small) or (status is Status.done and steps >= MANY)
    if plan.fixed or not relevant or plan.integrator not in STIFF:
        return ""
    last, reached = marches[-1], [float(m.t_end) for m in marches]
    # at the limit of stability steps fluctuate: neither the last one nor the mean of a long run says it alone
    step = float(last.controller[2])
    mean = (reached[-1] - reached[-2]) if len(reached) > 1 else reached[0] - t0
    mean /= max(int(last.stats["num_accepted_steps"]), 1)
    step = min(max(step, mean), 2 * step)
    verdict = stiffness(problem, plan.integrator, last.t_end, last.y_end, step)
    if status is Status.done:
        if verdict:
            warn_caller(f"{problem.system.name}: {steps} steps. {verdict}", StiffnessWarning)
        return ""
    return (verdict or "It does not look stiff there, so integrator='radau5' would not help.") + " "


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


def _diagnose(problem: Problem, plan: Plan, last: March, status: Status, elapsed: float) -> tuple[Status, str]:
    """The cause of a failure, as text: diverging numbers, or constraints that cannot be met after the last state."""
    system = problem.system
    q, v, _ = problem.state(last.t_end, last.y_end)

    def with_cause(status: Status, detail: str) -> tuple[Status, str]:
        singular = beside(system, last.t_end, q, v, float(last.controller[2]))
        return status, f"{status.message} {detail}{singular}"

    rates = problem.vector_field(last.t_end, last.y_end, None)
    if system.bodies is not None and system.bodies.bearings:
        unsettled = _without_load(system, last, q, v, rates)
        if unsettled:
            return with_cause(Status.no_load, unsettled)
    if not all(bool(jnp.all(jnp.isfinite(r))) for r in rates[:2]):
        return with_cause(Status.not_finite, _first_bad_force(system, last.t_end, q, v))
    fastest = np.max(np.abs(np.asarray(v)) / np.asarray(system.scale()), initial=0.0)
    t = last.t_end + 1e-6 * jnp.maximum(jnp.abs(last.t_end), 1e-3)
    q_last, v_last = q, v
    q, v = problem.stabilisation.project(system, t, q, v)
    Phi, phi = residuals(system, t, q, v)
    sizes = np.asarray(row_sizes(system, assemble(system, t, q, v)))
    for residual in (np.asarray(Phi) / sizes[: len(Phi)], np.asarray(phi) / sizes):
        if residual.size and np.max(np.abs(residual)) > 1e-9:
            cause = out_of_reach(system, float(t), q_last, v_last)
            opened = open_rows(system, residual, 0.1 * np.max(np.abs(residual)))
            return with_cause(Status.inconsistent, f"{cause}{opened} ")
    if fastest > BLOWN_UP or _doubling_time(problem, last, rates) < DIVERGING * elapsed:
        return Status.not_finite, _blow_up(system, *problem.state(last.t_end, last.y_end)[:2])
    if plan.fixed:
        return with_cause(status, "All is finite at its last state: the fixed step dt is too long for what follows. ")
    if status is Status.not_finite:  # the run stops before what is not finite
        ahead = (float(last.controller[2]) * 4.0**k for k in range(6))
        found = (_first_bad_force(system, last.t_end + dt, q_last + dt * rates[0], v_last) for dt in ahead)
        return with_cause(status, next(filter(None, found), ""))
    return with_cause(status, "")


def _doubling_time(problem: Problem, last: March, rates) -> float:
    """In how many seconds the velocities would double at their present growth; infinite where they do not grow."""
    w, wdot = np.asarray(last.y_end[1]), np.asarray(rates[1])
    scale = np.asarray(problem.formulation.scale(problem.system, last.y_end[3][0]))
    growth = np.sum(w * wdot / scale**2)
    return float(np.sum((w / scale) ** 2) / growth) if growth > 0 else np.inf


def _blow_up(system: AbstractSystem, q, v) -> str:
    """A message with the body, or the coordinate, that is fastest for the machine's size."""
    v, machine, bodies = _lifted(system, State(q, v)).v, system.machine, system.bodies
    fastest = int(np.argmax(np.abs(np.asarray(v)) / np.asarray(machine.scale())))
    what = f"velocity {fastest + 1} (v[{fastest}])"
    if bodies is not None:
        what = f"body '{bodies.body_names[fastest // bodies.dv]}'"
    return (
        f"The motion blows up: the speed of {what} grows without bound (it has reached {abs(float(v[fastest])):.2g}); "
        "look at the forces that grow with it. "
    )


def _without_load(system: AbstractSystem, last: March, q, v, rates) -> str:
    """The bearing whose load cannot be found at the last good state, or a few steps on."""
    wdot, bodies = rates[1], system.bodies
    assert bodies is not None
    known = all(bool(jnp.all(jnp.isfinite(r))) for r in rates[:2]) and wdot.shape == v.shape
    step = float(last.controller[2])
    for ahead in (0.0, *(step * 4.0**k for k in range(6))) if known else (0.0,):
        moved = (q + ahead * rates[0], v + ahead * wdot) if ahead else (q, v)
        loads = _loads_at(system, last.t_end + ahead, *moved)
        if not loads.settled or loads.margin < NEAR_PARADOX:
            return f"The friction is '{bearing_names(bodies)[loads.culprit()]}'. "
    return ""


@compiled
def _loads_at(system: AbstractSystem, t, q, v):
    bodies = system.bodies
    assert bodies is not None  # they have bearings
    return solve_loads(bodies, without_loads(bodies, t, *system.lift(q, v)))


def _first_bad_force(system: AbstractSystem, t, q, v) -> str:
    bodies = system.bodies
    if bodies is None:
        return ""
    bad = np.flatnonzero(~np.isfinite(np.asarray(bodies.force(t, *system.lift(q, v)))))
    if not bad.size:
        return ""
    return f"The force on body '{bodies.body_names[bad[0] // bodies.dv]}' is the first that is not finite. "


def _reporter(progress: bool | Callable[[float], None] | None) -> Callable[[float], None] | None:
    if progress is False or progress is None:
        return None
    if not isinstance(progress, bool):
        return progress
    from dalembert.simulation._progress import Bar

    return Bar()
