"""6 · simulation: motions with dry friction that sticks, part after part between its changes.

In each part every friction sticks or slips in a known direction, and the machine is a plain one: a coordinate that
sticks is held by a row, whose multiplier is the effort of friction, and slipping friction is a smooth force. A part
ends where a multiplier reaches what friction can bear, or where a rate reaches zero [Filippov 1988; Leine, Nijmeijer
2004, chapter 6]. There the set-valued law decides how it goes on [Glocker 2001, chapter 5]: with a for the acceleration
of a coordinate whose rate is zero, λ for the effort that holds it and F for its limits,

    stick   a = 0, |λ| ≤ F_static                      slip σ   σ a ≥ 0, effort −σ F

for all frictions at once, found by trying and exchanging those that do not fit. Equations: docs/theory/sticking.md.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dalembert._results import DalembertError, Status
from dalembert.equations import Rubbing, assemble, rubbing_at
from dalembert.linalg import ZERO
from dalembert.model import corners_in
from dalembert.reactions import (
    AbstractReactionRule,
    Instant,
    MinimumNorm,
    RequireUnique,
    RowElimination,
    on_bodies,
    reaction_on_bodies,
    rule_of,
)
from dalembert.simulation._between import Crowded, first_suspect
from dalembert.simulation._parts import PartMarch, earliest, quoted, states_of_parts
from dalembert.simulation._phases import Phases
from dalembert.simulation._prepare import Prepared, prepare
from dalembert.simulation._solution import Solution
from dalembert.stabilise import State, assembled
from dalembert.systems import AbstractSystem, compiled_for_each

LOOKS = 1000
"""Instants of the whole run that are looked at, however long its steps: while all sticks nothing but the loads
changes."""
TWICE = 8
"""Instants between two that may be looked at once more, if there something seems to have changed."""
BEYOND = 1e-10
"""Relative excess of an effort over what friction can bear that counts as one: rounding is less."""
STILL = 1e-9
"""A rate counts as zero below this share of the largest one in the part before."""
ROUNDED = 1e-11
"""And below this share of the velocities that it is a difference of."""
CREEP = 1e-13
"""And if it would move the coordinate by less than this share of the machine's size in the whole run."""
HELD = 1e-7
"""A coordinate counts as held with an acceleration below this share of those by all forces."""
TRIED = 8
"""Frictions at zero rate for which all combinations are tried, 3 each."""


def sticking_march(
    run: Callable[..., Solution],
    system: AbstractSystem,
    t0: float,
    t_end: float,
    state,
    save: Any,
    settings: dict[str, Any],
    *,
    rule: AbstractReactionRule | str | None,
    formulation,
    stabilisation,
) -> tuple[StickingMarch, State]:
    """The march of a system with dry friction that sticks, and its start; `run` is `simulate` for one whose phases are
    stated, `save` the times that are saved, or "steps"."""
    refuse_sticking(system, save, settings)
    frictions = Frictions(system, formulation, stabilisation, rule_of_sticking(system, rule))
    q, v = (None, None) if state is None else state
    march = StickingMarch(run, frictions, t0, t_end, save, settings)
    return march, march.started(system, assembled(system, q, v, t=t0), system.v0 if v is None else v)


def rule_of_sticking(system: AbstractSystem, rule: AbstractReactionRule | str | None) -> AbstractReactionRule | None:
    """The rule that picks efforts, given or named by an element; None if they must be unique."""
    rule = rule_of(rule) or named_rule(system)
    if isinstance(rule, RowElimination):
        raise DalembertError(
            f"rule=RowElimination drops rows, and friction '{system.sticking[0]}' that sticks adds rows; take "
            "'weighted' or 'minimum_norm'."
        )
    return None if isinstance(rule, RequireUnique) else rule


def refuse_sticking(system: AbstractSystem, save, settings: dict[str, Any]) -> None:
    """What dry friction that sticks cannot be marched with, by name."""
    name = system.sticking[0]
    if settings.get("event") is not None or settings.get("stepsize_controller") is not None:
        raise DalembertError(
            f"Friction '{name}' of '{system.name}' sticks: event= and stepsize_controller= cannot be given with it."
        )
    if "tolerance" in settings:
        raise DalembertError(f"Friction '{name}' of '{system.name}' sticks: tolerance= cannot be given with it.")
    if system.control.sampled:
        raise DalembertError(
            f"'{system.name}' has sampled controllers: friction '{name}' that sticks is not marched with them."
        )
    if isinstance(save, str) and save != "steps":
        raise DalembertError(
            f"samples={save!r}: with friction '{name}' that sticks give a number of times, times or 'steps'."
        )


def named_rule(system: AbstractSystem) -> AbstractReactionRule | None:
    """The rule that an element of friction names."""
    bodies = system.bodies
    names = [] if bodies is None else [f.rule for f in bodies.forces if f.rule is not None]
    return rule_of(names[0]) if names else None


# ---- the machine in its phases -------------------------------------------------------------------------------------


class Frictions:
    """A system built free, and prepared for each set of frictions that stick."""

    def __init__(self, system: AbstractSystem, formulation, stabilisation, rule: AbstractReactionRule | None):
        self.free, self.rule = system, rule
        self.names = system.sticking
        self.methods = {"formulation": formulation, "stabilisation": stabilisation, "rule": rule}
        self._prepared: dict[tuple[bool, ...], tuple[Prepared, AbstractReactionRule, tuple[str, ...]]] = {}
        self._last: tuple[Any, AbstractSystem] | None = None

    def phased(self, side, held_at) -> AbstractSystem:
        """The system with these phases."""
        key = tuple(map(int, side)), tuple(map(float, held_at))
        if self._last is None or self._last[0] != key:
            sides, values = dict(zip(self.names, key[0], strict=True)), dict(zip(self.names, key[1], strict=True))
            self._last = key, self.free.with_phases(sides, values)
        return self._last[1]

    def prepared(self, side, held_at, state: State, t: float) -> tuple[Prepared, AbstractReactionRule, tuple[str, ...]]:
        """The system with these phases, prepared; the rule that picks multipliers; and the names among which an effort
        of friction that sticks is not determined. What sticks is examined once."""
        system = self.phased(side, held_at)
        key = tuple(s == 0 for s in side)
        if key not in self._prepared:
            ready = prepare(system, state, t=t, **self.methods)
            here = Instant(ready.system, t, State(*(np.asarray(x) for x in state))).generic
            rule = self.rule if ready.rule is None else ready.rule
            if here.among_joints.redundancy == 0:
                rule = RequireUnique()
            self._prepared[key] = ready, rule or MinimumNorm(), _shared(here)
        ready, rule, shared = self._prepared[key]
        return dataclasses.replace(ready, system=decided_like(ready, system)), rule, shared

    def rows(self, system: AbstractSystem) -> np.ndarray:
        """The machine's rows of the frictions that stick, −1 for the others."""
        rows = {o.name: o.rows[0] for o in system.machine.owners if o.name in self.names}
        return np.array([rows.get(name, -1) for name in self.names])

    def look(self, side, held_at, state: State, t, of: State | None = None) -> tuple[Rubbing, np.ndarray]:
        """Rates, accelerations and limits, and the efforts of friction, with these phases at times `t` (all `state`);
        it is prepared for the state `of`."""
        first = State(state.q[0], state.v[0]) if of is None else of
        ready, rule, _ = self.prepared(side, held_at, first, float(t[0]))
        seen, lam = jax.tree_util.tree_map(
            np.asarray, _examine_all(ready.system, ready.formulation, rule, np.asarray(t), state.q, state.v)
        )
        rows = self.rows(ready.system)
        return seen, np.where(rows >= 0, lam[:, np.maximum(rows, 0)] if lam.shape[1] else 0.0, seen.slipping)


def decided_like(ready: Prepared, system: AbstractSystem) -> AbstractSystem:
    """A system with its joint loads decided as those of a prepared one are."""
    bodies = ready.system.bodies
    return system if bodies is None or not bodies.loads_decided else system.with_loads(bodies.load_rule)


def shared_efforts(system: AbstractSystem, t: float, state: State) -> tuple[str, ...]:
    """The names among which efforts of friction that sticks are shared in a way that the rigid-body model does not
    determine; the phases of the system are stated."""
    return _shared(Instant(system, t, State(*(np.asarray(x) for x in state))).generic)


def _shared(instant: Instant) -> tuple[str, ...]:
    null, owners = instant.among_joints.null, instant.machine.owners
    names = set(instant.system.sticking)
    stuck = [row for o in owners if o.name in names for row in o.rows]
    if not null.size or not np.any(np.abs(null[stuck]) > ZERO):
        return ()
    # of the dependencies those that efforts of friction take part in: the row space of their entries
    of_friction = np.linalg.svd(null[stuck])[2][: np.linalg.matrix_rank(null[stuck], tol=ZERO)]
    part = null @ of_friction.T
    return tuple(o.name for o in owners if np.linalg.norm(part[list(o.rows)]) > ZERO)


def examine(system: AbstractSystem, formulation, rule: AbstractReactionRule, t, q, v):
    """Rates and limits of friction at an instant, and all multipliers."""
    equations = assemble(system, t, q, v)
    own = formulation.solve(equations)
    seen = rubbing_at(system, equations, own.vdot)
    if system.machine.m == 0:
        return seen, np.zeros(0)
    there = on_bodies(system, equations)
    _, r = reaction_on_bodies(system, equations, there, own.vdot, own.r)
    if system.machine is not system and isinstance(rule, RequireUnique):
        cut = rule.multipliers(system, equations, own.r) if system.m else np.zeros(0)
        return seen, system.multipliers_of_machine(there.q, there.rows, r, cut)
    return seen, rule.multipliers(system.machine, there, r)


_examine_all = compiled_for_each(examine, 3)


# ---- the march -----------------------------------------------------------------------------------------------------


class StickingMarch(PartMarch):
    """A motion, part after part."""

    short, chatter, crowd = 1e-12, 40, 400

    def __init__(self, run, frictions: Frictions, t0: float, t_end: float, save, settings: dict[str, Any]):
        super().__init__(run, t0, t_end, save, settings)
        self.frictions = frictions
        self.starts: list[tuple] = []  # (t, side, held_at, q, v) of each part
        self.ends: list[tuple[float, tuple[int, ...], np.ndarray]] = []  # (t, who changes, largest rates) of each
        self.corners = corners(frictions.free)

    def go(self, state: State, report) -> None:
        F = self.frictions
        names, count = F.names, len(F.names)
        t, side, held = self.t0, np.zeros(count, int), np.zeros(count)
        top, broken = np.zeros(count), ()
        side, held = self.decide(t, state, np.full(count, 2), held, top, ())
        self.keep_start(state)
        while True:
            # onto the rows of what sticks from now on: a change by rounding
            state = State(*(np.asarray(x) for x in assembled(F.phased(side, held), *state, t=t).state))
            self.starts.append((t, side, held, *state))
            begun = t
            t, state, top, broken = self.part(t, state, side, held, report)
            self.ends.append((t, broken, top))
            if t >= self.t_end:
                return
            if not self.has_length(begun, t):
                self.starts.pop()
                self.ends.pop()
            if self.piles_up(t):
                raise self.failed(
                    f"Friction {quoted(names[k] for k in broken)} changes between sticking and slipping ever faster "
                    f"at t = {t:.6g} s, and no length of time remains between two changes. With such friction the "
                    "bodies cannot be rigid: take friction or bearing_friction, which are regularised laws."
                )
            side, held = self.decide(t, state, side, held, top, broken)

    # ---- one part ------------------------------------------------------------------------------------------------

    def part(self, t: float, state: State, side, held, report):
        """Until a friction changes, or the end: time, state, the largest rates, and the frictions that change."""
        ready, _, _ = self.frictions.prepared(side, held, state, t)
        top = np.zeros(len(side))
        while True:
            end, ends, grid = self.stretched(ready, t, state)
            try:
                whole, top, gap, late = self.looked(ready, t, end, grid, state, side, held, top)
            except Crowded:
                self.stretch /= 8
                continue
            first = int(np.argmax(np.any(late, axis=1)))
            broken: tuple[int, ...] = ()
            after = State(*(np.asarray(x)[-1] for x in (whole.q, whole.v)))
            until = end
            if late.any():
                a = State(*(np.asarray(x)[first - 1] for x in (whole.q, whole.v)))
                span = float(whole.t[first - 1]), float(whole.t[first])
                who = np.flatnonzero(late[first])
                own = functools.partial(self.own_gap, side, held, a)
                found = [self.locate(ready, functools.partial(own, int(k)), *span, a, gap[first - 1, k]) for k in who]
                until, after, now = earliest(found, end - t)
                broken = tuple(who[now].tolist())
            self.passed(whole, until, ends, after, ready, report)
            t, state = until, after
            if broken or t >= self.t_end:
                return t, state, top, broken

    def looked(self, ready: Prepared, t: float, end: float, grid: np.ndarray, state: State, side, held, top):
        """A stretch with its gaps at the instants of a grid, and at those between that seem to matter; the largest
        rates, and which frictions have left their phase."""
        for again in itertools.count():
            whole = self.march(ready, t, end, state, np.append(t, grid))
            seen, effort = self.frictions.look(side, held, State(whole.q, whole.v), whole.t, state)
            largest = np.maximum(top, np.max(np.abs(seen.rate), axis=0))
            gap = self.gaps(side, seen, effort)
            late = self.violated(side, seen, effort, largest)
            late[0] = False  # the start was decided
            suspects = None if again == TWICE else self.suspects(side, held, state, whole, largest, late)
            if suspects is None:
                return whole, largest, gap, late
            grid = np.union1d(grid, suspects)  # to be looked at in the march itself
        raise AssertionError

    def suspects(self, side, held, state: State, whole: Solution, top, late) -> tuple[float, float] | None:
        """Two instants between those of a stretch, before the first change that is known: at the later one a friction
        seems to have left its phase, at the earlier one not yet."""
        t, q, v = (np.asarray(x) for x in (whole.t, whole.q, whole.v))
        first = int(np.argmax(late.any(axis=1))) if late.any() else len(t)
        nq = q.shape[1]

        def look(times, states):
            at = State(states[:, :nq], states[:, nq:])
            seen, effort = self.frictions.look(side, held, at, times, state)
            size = np.where(side == 0, seen.held + np.abs(effort), np.maximum(top, seen.speeds))
            return self.gaps(side, seen, effort), size, self.violated(side, seen, effort, top)

        step = (self.t_end - self.t0) / LOOKS
        even = step * np.arange(np.floor(t[0] / step), np.ceil(t[-1] / step) + 1) + self.t0 % step
        return first_suspect(look, t[:first], np.concatenate([q, v], axis=1)[:first], np.append(even, self.corners))

    # ---- what ends a part ------------------------------------------------------------------------------------------

    def gaps(self, side, seen: Rubbing, effort: np.ndarray) -> np.ndarray:
        """Positive while a friction stays in its phase: what is left of its limit, or its speed."""
        return np.where(side == 0, seen.held - np.abs(effort), side * seen.rate)

    def own_gap(self, side, held, of: State, k: int, times: np.ndarray, states: State) -> np.ndarray:
        """The gap of friction k at some instants; prepared for the state `of`."""
        return self.gaps(side, *self.frictions.look(side, held, states, times, of))[:, k]

    def still(self, top: np.ndarray, speeds: Any) -> np.ndarray:
        """The rate below which a coordinate is at rest."""
        bodies = self.frictions.free.bodies
        assert bodies is not None  # they have friction
        size = np.where(bodies.sticking_angles, 1.0, float(bodies.size))
        return ROUNDED * speeds + CREEP * size / (self.t_end - self.t0) + 1e-12 * top * (speeds > 0)

    def violated(self, side, seen: Rubbing, effort: np.ndarray, top: np.ndarray) -> np.ndarray:
        """Whether a friction has left its phase, (times, frictions)."""
        gap = self.gaps(side, seen, effort)
        beyond = BEYOND * (seen.held + np.abs(effort))
        return gap < -np.where(side == 0, beyond, self.still(top, seen.speeds))

    # ---- what follows ----------------------------------------------------------------------------------------------

    def decide(self, t: float, state: State, side, held, top, broken: tuple[int, ...]):
        """The phases from now on, by the set-valued law; `broken` are the frictions that have left theirs."""
        F, count = self.frictions, len(side)
        before = np.where(side == 2, 0, side)  # 2: nothing is known yet
        seen, effort = (
            (_first(F.look(np.ones(count, int), held, _many(state), np.array([t]))))
            if np.any(side == 2)
            else _first(F.look(before, held, _many(state), np.array([t])))
        )
        still = np.maximum(self.still(top, seen.speeds), STILL * top)
        resting = (before == 0) & (side != 2) | (np.abs(seen.rate) <= still)
        resting[list(broken)] = True
        moving = np.where(resting, 0, np.sign(seen.rate)).astype(int)
        held = np.where((side == 0), held, seen.value)
        # a friction that gives way slips against its effort, and does not stick at once
        leaving = {k: int(-np.sign(effort[k])) for k in broken if side[k] == 0}
        # one that is at its limit while another holds the same coordinate stays there
        limit = [0 if k in broken or not resting[k] else int(before[k]) for k in range(count)]
        guess = np.array([leaving.get(k, limit[k] or int(moving[k])) for k in range(count)])
        tried: dict[tuple, np.ndarray] = {}
        free = np.flatnonzero(resting)
        now = guess
        for _ in range(3 * count + 3):
            wrong = self.misfits(t, state, now, held, resting, leaving)
            tried[tuple(now)] = wrong
            if not wrong.any():
                return self.accepted(t, state, now, held)
            following = self.exchanged(t, state, now, held, wrong, leaving)
            if tuple(following) in tried:  # one at a time
                following = now.copy()
                k = int(np.flatnonzero(wrong)[0])
                following[k] = self.exchanged(t, state, now, held, wrong, leaving)[k]
            if tuple(following) in tried:
                break
            now = following
        if len(free) <= TRIED:
            for choice in itertools.product((0, 1, -1), repeat=len(free)):
                now = guess.copy()
                now[free] = choice
                if tuple(now) in tried or any(now[k] == 0 for k in leaving):
                    continue
                if not self.misfits(t, state, now, held, resting, leaving).any():
                    return self.accepted(t, state, now, held)
        raise self.failed(
            f"At t = {t:.6g} s no choice of sticking and slipping of friction {quoted(F.names[k] for k in free)} "
            "meets Coulomb's law: with such friction the bodies cannot be rigid. Take less of it, or friction or "
            "bearing_friction, which are regularised laws."
        )

    def misfits(self, t, state: State, side, held, resting, leaving) -> np.ndarray:
        """Which frictions at rest do not meet their law with these phases."""
        at, now = _many(state), np.array([t])
        seen, effort = _first(self.frictions.look(side, held, at, now))
        moves = ~(np.abs(seen.acceleration) <= HELD * seen.forces)
        stuck = (side == 0) & (moves | ~(np.abs(effort) <= seen.held * (1 + BEYOND)))
        # what gives way at its limit begins with the acceleration zero, and rounding decides its sign
        least = np.array([HELD if k in leaving else 1e-9 for k in range(len(side))])
        sizes = np.array(seen.forces)
        for k in np.flatnonzero(resting & (side != 0) & ~(side * seen.acceleration >= -least * sizes)):
            # where friction and loads cancel: what its effort the other way round would do
            other, _ = _first(self.frictions.look(np.where(np.arange(len(side)) == k, -side, side), held, at, now))
            sizes[k] = max(sizes[k], abs(other.acceleration[k] - seen.acceleration[k]))
        slips = (side != 0) & ~(side * seen.acceleration >= -least * sizes)
        return resting & (stuck | slips)

    def exchanged(self, t, state: State, side, held, wrong, leaving) -> np.ndarray:
        """The phases with those that do not fit exchanged: what cannot hold slips, what slips backwards sticks."""
        seen, effort = _first(self.frictions.look(side, held, _many(state), np.array([t])))
        out = side.copy()
        for k in np.flatnonzero(wrong):
            if side[k] == 0:
                # a coordinate that is driven moves as it is driven; others give way to the effort
                driven = abs(effort[k]) <= seen.held[k] * (1 + BEYOND)
                out[k] = int(np.sign(seen.acceleration[k] if driven else -effort[k])) or 1
            else:
                out[k] = -side[k] if k in leaving else 0
        return out

    def accepted(self, t: float, state: State, side, held):
        """The phases, if the efforts of friction that sticks are determined, or a rule picks them."""
        F = self.frictions
        shared = F.prepared(side, held, state, t)[2]
        if shared and F.rule is None:
            stuck = [n for n in shared if n in F.names]
            others = [n for n in shared if n not in F.names]
            among = f" with {quoted(others)}" if others else ""
            verb = "sticks" if len(stuck) == 1 else "stick"
            raise DalembertError(
                f"Friction {quoted(stuck)} {verb} at t = {t:.6g} s, and the rigid-body model does not determine how "
                f"{'it shares' if len(stuck) == 1 else 'they share'} the effort{among}, so not when it gives way. Name "
                "a rule that picks it: simulate(…, rule='minimum_norm'), or rule= of the friction; or take friction or "
                "bearing_friction, which are regularised laws."
            )
        return side, held

    # ---- the end -----------------------------------------------------------------------------------------------------

    def solution(self, status: Status) -> Solution:
        F, free = self.frictions, self.frictions.free
        unknown = np.zeros(len(F.names), int)
        starts = self.starts or [(self.t0, unknown, 0.0 * unknown, np.zeros(np.shape(free.q0)[-1]), np.zeros(free.n))]
        moves = [top > self.still(top, np.zeros(len(top))) for *_, top in self.ends]
        moves += [np.ones(len(F.names), bool)] * (len(starts) - len(moves))
        bodies = free.bodies
        assert bodies is not None  # they have friction
        joints = {name: joint for f in bodies.forces for name, joint in zip(f.names, f.joints, strict=False)}
        phases = Phases(
            F.names,
            tuple(joints[name] for name in F.names),
            np.array([x[0] for x in starts]),
            np.array([x[1] for x in starts]),
            np.array([x[2] for x in starts]),
            np.array(moves),
            np.array([x[3] for x in starts]),
            np.array([x[4] for x in starts]),
            np.asarray(self.reached),
        )
        return self.result(status, free, F.methods, phases)


def states_between(run: Callable[..., Solution], solution: Solution, times: np.ndarray) -> State:
    """The states at any times of a motion with dry friction that sticks: each part is marched again from its start."""
    phases: Any = solution.phases
    frictions = Frictions(solution.system, solution.formulation, solution.stabilisation, solution.chosen)

    def ready(k: int) -> Prepared:
        state = State(phases.q[k], phases.v[k])
        return frictions.prepared(phases.side[k], phases.held_at[k], state, float(phases.t[k]))[0]

    return states_of_parts(run, solution, times, ready)


def corners(system: AbstractSystem) -> np.ndarray:
    """Times at which functions of time have corners: points of their data, begin and end of steps."""
    families = jax.tree_util.tree_leaves(system, is_leaf=lambda x: isinstance(getattr(x, "p", None), dict))
    found = [np.ravel(np.asarray(x, float)) for f in families if hasattr(f, "p") for x in corners_in(f, f.p)]
    return np.unique(np.concatenate([np.zeros(0), *found]))


def _many(state: State) -> State:
    return State(*(np.asarray(x)[None] for x in state))


def _first(found: tuple[Rubbing, np.ndarray]) -> tuple[Rubbing, np.ndarray]:
    return jax.tree_util.tree_map(lambda x: x[0], found)
