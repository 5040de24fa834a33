"""6 · simulation: motions with dry friction that sticks inside programs of JAX, and how they change along directions.

The motion is found on the host, member by member; then its parts and the changes between them are known, and each part
is marched once more with its changes (`_along`). Between two parts the function that passes zero is what is left of a
friction's limit, or its speed, and its change along a direction is that of the efforts or rates at that instant.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import AssemblyError, DalembertError, Status
from dalembert.equations import assemble
from dalembert.formulations import Proximal
from dalembert.kernels import flat
from dalembert.simulation._along import Change, Leg, event_time, for_each, marched_along, with_numbers
from dalembert.simulation._called import AbstractCalled, Clock, Numbers
from dalembert.simulation._inside import bound, hides_tracers
from dalembert.simulation._march import Plan, powers
from dalembert.simulation._native import changed_along
from dalembert.simulation._prepare import Prepared
from dalembert.simulation._solution import Solution
from dalembert.simulation._sticking import (
    HELD,
    Frictions,
    StickingMarch,
    decided_like,
    examine,
    refuse_sticking,
    rule_of_sticking,
)
from dalembert.stabilise import Projection, State, assembled
from dalembert.systems import AbstractSystem, without_names

TOUCHING = 1e-7
"""A friction that changes with others leaves its phase at the same instant if its gap is below this share."""
GRAZING = 1e-9
"""Share of its size by which a limit must fall in the whole run for its zero to have a derivative."""
SAME = 1e-6
"""Relative difference of two effects up to which they are the same."""

REMEMBERED = 64
"""Motions that are remembered until their changes are asked for."""


class Seen(NamedTuple):
    """What decides how friction goes on, and the rates of the state and of the work."""

    value: Any
    rate: Any
    acceleration: Any
    speeds: Any
    forces: Any
    held: Any
    effort: Any
    qdot: Any
    vdot: Any
    power: Any

    @property
    def rates(self) -> Change:
        return Change(self.qdot, self.vdot, self.power)


class StickingAlong:
    """How a motion that was found changes along directions of the numbers of its system, (directions, numbers)."""

    def __init__(self, march: StickingMarch, plan: Plan, along: np.ndarray):
        self.march, self.frictions = march, march.frictions
        self.plan, self.along = plan, along
        self._known: dict[tuple[bool, ...], np.ndarray] = {}
        tolerances = tuple(march.settings[k] for k in ("rtol", "atol"))
        self.tolerances = tuple(np.asarray(tolerances[0] if x is None else x, float) for x in tolerances)

    def changes(self, first: State, times: np.ndarray) -> Change:
        """At some times, from those of the start, as (directions, times, numbers)."""
        march, count = self.march, len(self.along)
        change = Change(np.asarray(first.q), np.asarray(first.v), np.zeros((count, 2)))
        out = Change(*(np.full((count, len(times), x.shape[1]), np.nan) for x in change))
        for x, new in zip(out, change, strict=True):
            x[:, times <= march.t0] = new[:, None]
        parts = list(zip(march.starts, march.ends, strict=True))
        change, held = self.begun(parts[0][0], change)
        before = march.t0
        for k, ((t, side, held_at, q, v), (end, broken, top)) in enumerate(parts):
            here = (times > before) & (times <= end)
            wanted = np.append(np.unique(times[here & (times < end)]), end)
            ready = self.ready(t, side, held_at, State(q, v))[0]
            leg = Leg(t, end, State(q, v), ready, self.of_phases(ready, side, held), varied(ready.system))
            found = marched_along(leg, self.plan, self.tolerances, march.settings["dt"], change, wanted)
            found = found._replace(work=found.work + change.work[:, None])
            for x, new in zip(out, found, strict=True):
                x[:, here] = new[:, np.searchsorted(wanted, times[here])]
            if k + 1 < len(parts):
                change = Change(*(x[:, -1] for x in found))
                change, held = self.passed(parts[k][0], broken, top, parts[k + 1][0], change, held)
            before = end
        return out

    # ---- between two parts -----------------------------------------------------------------------------------------

    def passed(self, part, broken: tuple[int, ...], top, following, change: Change, held: np.ndarray):
        """The changes after an event, of the state and of the values that are held."""
        _, side, held_at, _, _ = part
        t, later_side, later_held, q, v = following
        state, span = State(q, v), self.march.t_end - self.march.t0
        now, rates, by_time = self.look_along(t, side, held_at, state, change, held)
        sticks = side == 0
        gap = np.where(sticks, now.held - np.abs(now.effort), side * now.rate)
        size = np.where(sticks, now.held + np.abs(now.effort), np.maximum(top, now.speeds))
        who = (side != later_side) & (np.abs(gap) <= TOUCHING * size)
        who[list(broken)] = True
        towards = np.sign(now.effort)
        fall = np.where(sticks, by_time.held - towards * by_time.effort, side * by_time.rate)
        moved = np.where(sticks, rates.held - towards * rates.effort, side * rates.rate)
        least = np.where(sticks, GRAZING * size / span, HELD * now.forces)
        later = event_time(moved[:, who].T, fall[who], least[who])
        after = self.look(t, later_side, later_held, state)
        change = change.after(later, Change(*(a - b for a, b in zip(now.rates, after.rates, strict=True))))
        return change, np.where(sticks, held, rates.value)

    def begun(self, part, change: Change) -> tuple[Change, np.ndarray]:
        """The changes after the start. What sticks there and is given a rate loses it in a time of the same order,
        by an effort that does not depend on how it sticks; a rate of what slips from rest may have either sign."""
        t, side, held_at, q, v = part
        state, none = State(q, v), np.zeros((len(change.q), len(side)))
        now, rates, _ = self.look_along(t, side, held_at, state, change, none)
        rest = np.abs(now.rate) <= self.march.still(np.zeros(len(side)), now.speeds)
        largest = np.max(np.abs(change.v), axis=1, initial=0.0)[:, None]
        moved = rest & (np.abs(rates.rate) > 1e-10 * largest)
        for k in np.flatnonzero(moved.any(axis=0)):
            lost = np.where(moved[:, k], -rates.rate[:, k], 0.0)
            effect = self.effect(t, side, held_at, state, int(k), now) if side[k] == 0 else None
            if effect is None:
                change = Change(*(np.where(lost[:, None] == 0, x, np.nan) for x in change))
            else:
                change = change.after(lost, effect)
        return change, rates.value

    def effect(self, t, side, held_at, state: State, k: int, now: Seen) -> Change | None:
        """How the rates differ where friction k, which sticks, slips, over its acceleration; None if it would not stick
        at once, or if that depends on the sense in which it slips."""
        found = []
        for sign in (1, -1):
            seen = self.look(t, np.where(np.arange(len(side)) == k, sign, side), held_at, state)
            a = seen.acceleration[k]
            if not sign * a < -HELD * seen.forces[k]:
                return None
            found.append(np.concatenate([(x - y) / a for x, y in zip(seen.rates, now.rates, strict=True)]))
        if not np.all(np.abs(found[0] - found[1]) <= SAME * np.max(np.abs(found))):
            return None
        ends = np.cumsum([len(x) for x in now.rates])
        return Change(*np.split(found[0], ends[:-1]))

    # ---- one instant -----------------------------------------------------------------------------------------------

    def ready(self, t, side, held_at, state: State) -> tuple[Prepared, Any]:
        ready, rule, _ = self.frictions.prepared(side, held_at, state, t)
        return ready, rule

    def look(self, t, side, held_at, state: State) -> Seen:
        """What is seen at an instant."""
        see, width = self._seer(t, side, held_at, state)
        return _each(see(np.zeros((1, width)))[0], 0)

    def look_along(self, t, side, held_at, state: State, change: Change, held) -> tuple[Seen, Seen, Seen]:
        """The same, with its changes along all directions, and along the motion itself."""
        now, (see, width) = self.look(t, side, held_at, state), self._seer(t, side, held_at, state)
        system = self.of_phases(self.ready(t, side, held_at, state)[0], side, held)
        own = np.concatenate([[1.0], now.qdot, now.vdot])
        along = np.concatenate([np.zeros((len(system), 1)), change.q, change.v, system], axis=1)
        found = see(np.concatenate([np.pad(own, (0, width - len(own)))[None], along]))[1]
        return now, _each(found, slice(1, None)), _each(found, 0)

    def _seer(self, t, side, held_at, state: State) -> tuple[Callable, int]:
        """A function of rows of changes of time, state and machine, and their width."""
        ready, rule = self.ready(t, side, held_at, state)
        rows = tuple(map(int, self.frictions.rows(ready.system)))
        parameters = without_names((ready.system, ready.formulation, rule))
        own = varied(ready.system)
        free = np.append(own, np.zeros(flat(eqx.filter(parameters, eqx.is_array)).size - own.size, bool))
        given = (np.asarray(float(t)), np.asarray(state.q, float), np.asarray(state.v, float))

        def see(along: np.ndarray):
            return for_each("seen", functools.partial(_seen, rows), parameters, free, given, along, rows)

        return see, 1 + len(state.q) + len(state.v) + _smooth(ready.system).size

    # ---- numbers of the machine in its phases ----------------------------------------------------------------------

    def of_phases(self, ready: Prepared, side, held: np.ndarray) -> np.ndarray:
        """The changes of the numbers of the machine in its phases, from those of its system and of what is held."""
        key = tuple(s == 0 for s in side)
        if key not in self._known:
            self._known[key] = self._sources(ready, side)
        source, known = self._known[key], np.concatenate([self.along, held, np.zeros((len(held), 1))], axis=1)
        return known[:, source]

    def _sources(self, ready: Prepared, side) -> np.ndarray:
        """Where each number of the machine in its phases comes from: the numbers of the system, then the values that
        are held, then nothing. Its phases only place numbers, so numbered ones show it."""
        F = self.frictions
        own, sides = _smooth(F.free).size, dict(zip(F.names, map(int, side), strict=True))
        rest = eqx.filter(F.free, eqx.is_inexact_array, inverse=True)

        def numbered(first: int) -> np.ndarray:
            free = eqx.combine(with_numbers(F.free, first + np.arange(float(own))), rest)
            held = {name: float(first + own + k) for k, name in enumerate(F.names)}
            return _smooth(decided_like(ready, free.with_phases(sides, held)))

        first, second = 1000, 1000 + 2 * (own + len(F.names))
        low, high = numbered(first), numbered(second)
        return np.where(high - low == second - first, low - first, own + len(F.names)).astype(int)


def varied(system: AbstractSystem) -> np.ndarray:
    """Which of all numbers of a machine in its phases differ from phase to phase."""
    found = [np.zeros(0, bool)]
    for path, x in jax.tree_util.tree_flatten_with_path(eqx.filter(system, eqx.is_array))[0]:
        found.append(np.full(np.size(x), getattr(path[-1], "key", "") in ("side", "held_at")))
    return np.concatenate(found)


def _each(seen: Seen, which) -> Seen:
    return Seen(*(x[which] for x in seen))


def _smooth(system: AbstractSystem) -> np.ndarray:
    """All numbers of a system that can change smoothly, in one row."""
    return flat(eqx.filter(system, eqx.is_inexact_array))


def _seen(rows: tuple[int, ...], parameters, given) -> tuple[Seen, Seen]:
    """What is seen at an instant, and how it changes along a row of changes of time, state and system."""
    (system, formulation, rule), (t, q, v, row) = parameters, given
    nq, n = len(q), len(v)

    def see(system, t, q, v) -> Seen:
        rubbing, lam = examine(system, formulation, rule, t, q, v)
        equations = assemble(system, t, q, v)
        own = formulation.solve(equations)
        qdot = system.flow(t, q, v, own.vdot, system.qdot(q, v))
        effort = [lam[r] if r >= 0 else rubbing.slipping[k] for k, r in enumerate(rows)]
        power = jnp.stack(powers(system, equations, qdot, own.r))
        r = rubbing
        return Seen(
            r.value, r.rate, r.acceleration, r.speeds, r.forces, r.held, jnp.stack(effort), qdot, own.vdot, power
        )

    change = (with_numbers(system, row[1 + nq + n :]), row[0], row[1 : 1 + nq], row[1 + nq : 1 + nq + n])
    return see(system, t, q, v), changed_along(see, (system, t, q, v), change)


# ---- inside programs of JAX ----------------------------------------------------------------------------------------


class _InParts(AbstractCalled):
    """All that is known of a motion while it is traced, and how its numbers are marched: one member after the other."""

    apart = True

    def __init__(self, begin: Callable, system: AbstractSystem, state: State, clock: Clock, plan: Plan):
        self.begin, self.plan = begin, plan
        self.machine, self.clock = Numbers((system, *state)), Numbers(clock)
        self.room, self.sizes = len(clock.times), [len(state.q), len(state.v), 2]
        self._known: collections.OrderedDict[bytes, tuple[StickingMarch, Solution]] = collections.OrderedDict()
        self.backwards = (
            f"Friction '{system.sticking[0]}' of '{system.name}' sticks: its motion has forward derivatives only. Take "
            "jax.jacfwd or jax.jvp in place of jax.grad."
        )
        self.more = (
            f"Friction '{system.sticking[0]}' of '{system.name}' sticks: its motion has no second derivatives, and "
            "none by times and tolerances."
        )

    def by_jax_along(self, row, clock, along):
        raise DalembertError(self.more)

    def __call__(self, rows, clocks, along):
        rows, clocks, along = (np.asarray(x) for x in (rows, clocks, along))
        out = self.nothing(*along.shape[:2])
        for k, (row, clock) in enumerate(zip(rows, clocks, strict=True)):
            self._one(k, row, self.clock.tree(clock), along[k], out)
        return tuple(out)

    def _one(self, k: int, row, clock: Clock, along: np.ndarray, out: list[np.ndarray]) -> None:
        system, q, v = self.machine.tree(row)
        out[4][k] = float(clock.t0), Status.not_assembled.value, 0, 0
        if not all(np.all(np.isfinite(x)) for x in (row, q, v)):
            return
        try:
            march, solution = self._found(system, State(np.asarray(q), np.asarray(v)), row, clock)
        except AssemblyError:
            return
        except DalembertError:  # no rule picks an effort; nothing is raised inside a program of JAX
            out[4][k, 1] = Status.no_load.value
            return
        count = len(solution.t)
        for x, new in zip(out, (solution.t, solution.q, solution.v, solution.work), strict=False):
            x[k, :count] = new
        stats = (solution.stats[name] for name in ("accepted", "rejected"))
        out[4][k] = float(solution.t_end), int(solution.status_code), *stats
        if along.shape[0] and solution.status is Status.done:
            moved = self.machine.changes(along)
            smooth = self._smooth(system, q, v)
            moved = moved[:, smooth]
            nq, n = len(q), len(v)
            first = State(moved[:, -n - nq : moved.shape[1] - n], moved[:, moved.shape[1] - n :])
            found = StickingAlong(march, self.plan, moved[:, : -n - nq]).changes(first, np.asarray(clock.times, float))
            for x, new in zip(out[5:], found, strict=True):
                x[k] = new

    def _found(self, system: AbstractSystem, state: State, row, clock: Clock) -> tuple[StickingMarch, Solution]:
        """The motion of a member; its changes are asked for just after it."""
        key = row.tobytes() + np.concatenate([np.ravel(x) for x in clock if x is not None]).astype(float).tobytes()
        if key not in self._known:
            march = self.begin(system, clock)
            self._known[key] = march, march.to_end(state, None, False)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return self._known[key]

    def _smooth(self, *tree) -> np.ndarray:
        """Which of all numbers can change smoothly."""
        leaves = jax.tree_util.tree_leaves(eqx.filter(tree, eqx.is_array))
        return np.concatenate([np.full(np.size(x), eqx.is_inexact_array(x)) for x in leaves])


def sticking_inside(
    run: Callable[..., Solution],
    system: AbstractSystem,
    t0,
    t_end,
    state,
    times,
    settings: dict[str, Any],
    plan: Plan,
    *,
    rule,
    formulation,
    stabilisation,
) -> Solution:
    """`sticking_march` to its end under jit, vmap and forward derivatives: its phases are not part of the solution."""
    refuse_sticking(system, times, settings)
    name = system.sticking[0]
    if plan.save != "times":
        raise DalembertError(
            f"samples={plan.save!r}: under jit and vmap a motion with friction '{name}' that sticks is saved at times."
        )
    if jax.default_backend() != "cpu" or hides_tracers(system, set()):
        raise DalembertError(
            f"Friction '{name}' of '{system.name}' sticks: its motion is marched on the processor, and all that is "
            "traced must be a parameter of the model."
        )
    rule = rule_of_sticking(system, rule)
    q, v = (None, None) if state is None else state
    start = assembled(system, q, v, t=t0).state

    def begin(system: AbstractSystem, clock: Clock) -> StickingMarch:
        own = {k: None if x is None else float(x) for k, x in zip(("dt", "rtol", "atol"), clock[2:5], strict=True)}
        frictions = Frictions(system, formulation, stabilisation, rule)
        return StickingMarch(
            run, frictions, float(clock.t0), float(clock.t1), np.asarray(clock.times, float), settings | own
        )

    values = (t0, t_end, settings["dt"], settings["rtol"], settings["atol"], times)
    clock = Clock(*(x if x is None else x if hasattr(x, "dtype") else np.asarray(x, float) for x in values))
    called = _InParts(begin, system, State(*start), clock, plan)
    found = bound(called, called.machine.row, called.clock.row)
    end, status, accepted, rejected = found.ends
    stats = {"accepted": accepted.astype(int), "rejected": rejected.astype(int)}
    return Solution.of(
        system=system,
        formulation=formulation or Proximal(),
        stabilisation=stabilisation or Projection(),
        t=found.ts,
        q=found.q,
        v=found.v,
        work=found.work,
        status_code=status.astype(int),
        t_end=end,
        stats=stats | {"steps": stats["accepted"] + stats["rejected"]},
        integrator=plan.integrator,
        chosen=rule,
    )
