"""6 · simulation: a run that continues as if it had not stopped, `simulate(system, t_end, after=solution)`.

A `Restart` is the state of the march beyond the motion: its state before the last step was cut to hit the end (`Mark`),
and the settings that the motion depends on. System and settings must stay the same; changes are
refused by name.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dalembert._results import DalembertError, Status
from dalembert._typing import is_traced
from dalembert.model import Model
from dalembert.reactions import RowElimination, row_numbers
from dalembert.simulation._march import INTEGRATORS, Dropped, Plan, Problem, Span, record
from dalembert.simulation._solution import Solution
from dalembert.simulation._steps import Mark, step_to
from dalembert.stabilise import EXACT, State, prepared_at
from dalembert.systems import AbstractSystem, Origin, build

GOES_ON = (Status.done, Status.event, Status.max_steps)
"""The statuses of runs that can be continued."""


@record("save", "tolerance", "let_go", "engine")
@dataclasses.dataclass(frozen=True, eq=False)
class Restart:
    """What a run needs to continue, besides a `Solution`'s data: the march at its last natural step, and settings."""

    mark: Mark
    sizes: Any  # of all constraint rows at the start
    t0: Any
    rtol: Any
    atol: Any
    dt: Any  # None for steps that adapt
    slots: int  # how many times the compiled program saves
    save: str  # "times", "steps" or "dense"
    tolerance: float = EXACT  # for closing
    let_go: tuple[int, ...] = ()  # rows dropped because they close only approximately
    engine: str = "jax"  # of the last part
    whole_sizes: Any = None  # then: of all rows, `sizes` being those of the others


class Resumed(eqx.Module):
    """A march to be continued: the problem, the span from its mark on, and what is kept of the former motion."""

    problem: Problem
    span: Span
    plan: Plan
    times: np.ndarray  # padded with the end to as many as before, so that no program is recompiled
    count: int = eqx.field(static=True)  # of them that are requested
    kept: int = eqx.field(static=True)  # saved instants of the former motion that remain


def resumed(system: AbstractSystem | Model, t_end, after: Solution, save, max_steps, given: dict[str, Any]) -> Resumed:
    """The march of `after`, ready to continue until t_end; `given` are settings that must not differ from before."""
    restart = _restart_of(after)
    if is_traced(system, t_end, after, save):
        raise DalembertError("A run can go on (after=) outside jit, vmap and grad only.")
    if not float(t_end) > float(after.t_end):
        raise DalembertError(
            f"The run that goes on has reached {float(after.t_end):g} s; its new end, {float(t_end):g} s, must be "
            "later."
        )
    _refuse_changes(after, restart, system, given)
    problem = _problem(after, restart)
    mark = jax.tree_util.tree_map(np.asarray, restart.mark)
    fresh = float(mark.t) <= float(restart.t0)  # the first step was cut: all is done again
    kept = 0 if fresh else int(np.sum(np.asarray(after.t) <= float(mark.t)))
    plan, times = _plan(after, restart, float(t_end), save, max_steps, kept)
    times = problem.system.control.at_ticks(times)
    end = np.asarray(t_end, float)
    step = np.asarray(step_to(float(mark.t), float(mark.next), float(t_end)))
    careful = bool(mark.careful)
    here = Mark.at(mark.t, mark.y, mark.next, mark.controller, mark.bad, end, mark.carried, careful)
    zero, ticks = np.zeros((), int), problem.system.control.sampled
    plan = dataclasses.replace(plan, careful=careful, ticks=ticks)
    controller = (mark.controller, mark.bad, step, zero, here, zero, mark.next)
    state = (solver_state(plan, mark.y, mark.carried), controller)
    span = Span(mark.t, end, step, mark.y, restart.rtol, restart.atol, np.asarray(np.inf), state)
    count = len(times)
    times = np.concatenate([times, np.full(max(restart.slots - count, 0) if count else 0, float(t_end))])
    return Resumed(problem, span, plan, times, count, kept)


def solver_state(plan: Plan, y, carried):
    """The solver's state: what it passes on; else a stage that is missing: projected steps never reuse one."""
    if carried is not None:
        return carried
    tableau = getattr(INTEGRATORS[plan.integrator], "tableau", None)
    zeros = jax.tree_util.tree_map(np.zeros_like, y)
    return (np.array(True), zeros) if getattr(tableau, "fsal", False) else None


def joined(after: Solution, more: Solution, now: Resumed) -> Solution:
    """The former motion up to where it was continued, and what came after it."""
    assert after.restart is not None
    kept, last = now.kept, now.count if now.plan.save == "times" else None
    skip = int(kept > 0 and len(more.t) > 0 and more.t[0] == after.t[kept - 1])  # steps save their start as well
    whole = {
        k: np.concatenate([np.asarray(getattr(after, k))[:kept], np.asarray(getattr(more, k))[skip:last]])
        for k in ("t", "q", "v", "work")
    }
    stats = {k: x for k, x in after.stats.items() if k != "doubt_said"}
    for k in ("accepted", "rejected"):
        stats[k] = int(after.stats[k]) - int(getattr(after.restart.mark, k)) + int(more.stats[k])
    stats["steps"] = stats["accepted"] + stats["rejected"]
    stats |= {k: float(after.stats[k]) + float(more.stats[k]) for k in ("wall_s", "compile_s")}
    return dataclasses.replace(more, **whole, stats=stats, system=after.system, chosen=after.chosen, dense=None)


def _restart_of(after: Solution) -> Restart:
    if np.ndim(after.status_code):
        raise DalembertError("after= is a batch of runs; take one of them up: after=solution[0].")
    if after.phases is not None and after.phases.of_contacts:
        raise DalembertError(
            f"This run cannot go on: joint '{after.phases.joints[0]}' is one-sided. Start from its last state instead: "
            "simulate(system, t_end, solution.state, t0=…)."
        )
    if after.phases is not None:
        raise DalembertError(
            f"This run cannot go on: friction '{after.phases.names[0]}' sticks. Start from its last state instead: "
            "simulate(system, t_end, solution.state, t0=solution.t_end)."
        )
    if after.restart is None:
        raise DalembertError(
            "This run cannot go on: it was made under jit, vmap or grad, by da.kinematics, or with a solver, a "
            "step-size controller or an event of Diffrax, or read from a file without its march. "
            "Start from its last state instead: simulate(system, t_end, solution.state, t0=solution.t_end)."
        )
    if after.status not in GOES_ON:
        raise DalembertError(f"This run cannot go on. {after.status.message}")
    return after.restart


def _problem(after: Solution, restart: Restart) -> Problem:
    whole, sizes = after.system, restart.sizes
    if restart.let_go:
        system = whole.without_rows(restart.let_go)
        system = system.with_loads(None) if system.bodies is system else system
        dropped = Dropped(whole, restart.whole_sizes, restart.let_go, 10 * restart.tolerance)
        return Problem(system, after.formulation, after.stabilisation, sizes, dropped)
    if not (isinstance(after.chosen, RowElimination) and whole.bodies is whole):
        return Problem(whole, after.formulation, after.stabilisation, sizes, None)
    rows = row_numbers(whole, after.chosen.rows)
    system = whole.without_rows(rows).with_loads(None)
    kept = sizes[np.setdiff1d(np.arange(whole.m), rows)]
    return Problem(system, after.formulation, after.stabilisation, kept, Dropped(whole, sizes, rows))


# ---- when to save ------------------------------------------------------------------------------------------------


def _plan(after: Solution, restart: Restart, t_end: float, save, max_steps, kept: int) -> tuple[Plan, np.ndarray]:
    reached, saved = float(after.t_end), np.asarray(after.t)
    kind = "times" if restart.save == "times" else "steps"
    if isinstance(save, str) and (save != "steps" or kind != "steps"):
        raise DalembertError(f"samples={save!r}: a run goes on saving {'its steps' if kind == 'steps' else 'times'}.")
    if kind == "steps" and save not in (None, "steps"):
        raise DalembertError("A run that saved its steps goes on with samples='steps'.")
    times = np.zeros(0)
    if kind == "times":
        new = _further(saved, float(restart.t0), reached, t_end) if save is None else None
        if new is None and (save is None or isinstance(save, int)):
            new = np.linspace(reached, t_end, 201 if save is None else save)[1:]
        elif new is None:
            new = np.asarray(save, float)
            if new.ndim != 1 or np.any(np.diff(new) < 0) or (new.size and (new[0] <= reached or new[-1] > t_end)):
                raise DalembertError(
                    f"samples= must be rising times after {reached:g} s, where it goes on, up to {t_end:g} s."
                )
        times = np.concatenate([saved[kept:], new])
    most = max_steps or {"times": 10_000_000, "steps": 4096}[kind]
    return Plan(after.integrator, restart.dt is not None, kind, most, "forward", engine=restart.engine), times


def _further(saved: np.ndarray, t0: float, reached: float, t_end: float) -> np.ndarray | None:
    """Times after `reached` with the spacing of before, if that was even: those of one run over the whole."""
    if len(saved) < 2 or saved[0] != t0:
        return None
    step = (saved[-1] - t0) / (len(saved) - 1)
    if not np.allclose(np.diff(saved), step, rtol=1e-9, atol=0.0):
        return None
    count = round((t_end - t0) / step)
    even = abs(t0 + count * step - t_end) < 1e-9 * step
    times = (
        np.linspace(t0, t_end, count + 1) if even else np.append(t0 + step * np.arange((t_end - t0) // step + 1), t_end)
    )
    return times[times > reached]


# ---- what must not change ----------------------------------------------------------------------------------------


def _refuse_changes(after: Solution, restart: Restart, system, given: dict[str, Any]) -> None:
    changed = [*_changed_settings(after, restart, given), *system_changes(after.system, system)]
    if changed:
        more = f" … and {len(changed) - 8} more." if len(changed) > 8 else ""
        raise DalembertError(
            "A run goes on with what it began with. Changed: " + "; ".join(changed[:8]) + f".{more} "
            "To go on from its last state with something else: simulate(system, t_end, solution.state, "
            "t0=solution.t_end)."
        )


def _changed_settings(after: Solution, restart: Restart, given: dict[str, Any]) -> list[str]:
    out = []
    before = {"rtol": restart.rtol, "atol": restart.atol, "dt": restart.dt, "t0": restart.t0}
    before["tolerance"] = restart.tolerance
    for name, old in before.items():
        new = given.get(name)
        if new is not None and (old is None or float(new) != float(old)):
            out.append(f"{name} was {'not given' if old is None else f'{float(old):g}'}, now {new:g}")
    new = given.get("integrator")
    if new is not None and new != after.integrator:
        out.append(f"integrator was {after.integrator}, now {new}")
    new = given.get("formulation")
    if new is not None:
        if type(new) is type(after.formulation) and len(after.t):
            new = prepared_at(new, after.system, State(after.q[0], after.v[0]), t=float(restart.t0))
        if not same(new, after.formulation):
            out.append(f"formulation was {_named(after.formulation)}, now {_named(new)}")
    new = given.get("stabilisation")
    if new is not None:
        open_ = getattr(new, "time_constant", 0.0) is None  # it keeps the value set by the first run
        new = (
            dataclasses.replace(new, time_constant=getattr(after.stabilisation, "time_constant", None))
            if open_
            else new
        ).with_margin(getattr(after.stabilisation, "usual", None))
        if not same(new, after.stabilisation):
            out.append(f"stabilisation was {_named(after.stabilisation)}, now {_named(new)}")
    return out


def _named(method) -> str:
    values = {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    shown = ", ".join(
        f"{k}={x if np.ndim(x) else float(x)}" for k, x in values.items() if isinstance(x, float | np.ndarray)
    )
    return f"{type(method).__name__}({shown})"


def same(a, b) -> bool:
    """Whether two trees are equal bit for bit; numbers and arrays of one number count as the same."""
    left, right = (jax.tree_util.tree_flatten(x) for x in (a, b))
    return left[1] == right[1] and all(equal(x, y) for x, y in zip(left[0], right[0], strict=True))


def equal(x, y) -> bool:
    """Whether two arrays hold the same numbers."""
    x, y = np.asarray(x), np.asarray(y)
    return x.shape == y.shape and bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "f"))


def system_changes(old: AbstractSystem, new: AbstractSystem | Model) -> list[str]:
    """What is different in a system, by the names of its parameters where possible."""
    if isinstance(new, Model):
        origin = Origin() if old.bodies is None else old.bodies.origin
        new = build(new, coordinates=origin.coordinates, cut=origin.cut)
    if new is old:
        return []
    if type(new) is not type(old):
        return [f"the system was a {type(old).__name__}, now a {type(new).__name__} (coordinates=)"]
    if old.bodies is not None:
        new = new.with_loads(old.bodies.load_rule, old.bodies.loads_decided)
    if new.name != old.name:
        return [f"the machine was '{old.name}', now '{new.name}'"]
    out = parameter_changes(old.parameters(), new.parameters())
    if out:
        return out
    if old.bodies is not None and new.bodies is not None:
        for word in ("body_names", "space"):
            if getattr(old.bodies, word) != getattr(new.bodies, word):
                return [f"the {word.replace('_', ' ')} of the system"]
    if old.owners != new.owners or old.coordinate_labels() != new.coordinate_labels():
        return ["the joints of the system"]
    left, right = (jax.tree_util.tree_flatten_with_path(x) for x in (old, new))
    if left[1] != right[1]:
        return ["the kinds of the system's rows or forces (a function, a switch, a shape)"]
    paths = [jax.tree_util.keystr(p) for (p, x), (_, y) in zip(left[0], right[0], strict=True) if not equal(x, y)]
    return [f"{p.lstrip('.')} of the system" for p in paths if not p.endswith(".klu.handle")]


def parameter_changes(was, now) -> list[str]:
    """The parameters that differ, by name."""
    out = [f"'{k}' is no longer there" for k in was if k not in now] + [f"'{k}' is new" for k in now if k not in was]
    return out + [
        f"'{k}' was {_short(was[k])}, now {_short(now[k])}" for k in was if k in now and not equal(was[k], now[k])
    ]


def _short(x) -> str:
    x = np.asarray(x)
    return f"{float(x):g}" if x.ndim == 0 else np.array2string(x, precision=6, threshold=6)
