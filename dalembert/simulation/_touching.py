"""6 · simulation: motions of one-sided joints, part after part between lift-offs and impacts.

In each part every contact is open or closed, and the machine is a plain one: what is closed is a row like a joint's. A
part ends where a gap reaches zero or where a contact would have to pull. There the velocities jump if a contact closes
at a speed, and complementarity decides for all contacts at once which of them stay closed [Glocker 2001; Moreau 1988].
One with friction that is closed sticks, by rows, or slips, by a force of its own push (`Held`); a part also ends where
friction reaches its limit or a slip ends.
Where forces of contacts are not unique, one lifts off when no share without a pull is left. Bounces that pile up
are closed when they have become lower than can be resolved. Equations: docs/theory/one_sided.md.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dalembert._results import DalembertError, SimulationError, Status
from dalembert.linalg import STICK, Choice, Pushed
from dalembert.reactions import RowElimination, rule_of
from dalembert.simulation._impacts import Instantly, Struck, terms_at
from dalembert.simulation._parts import PartMarch, earliest, is_inside, quoted, states_of_parts
from dalembert.simulation._phases import ContactPhases
from dalembert.simulation._prepare import Prepared, prepare
from dalembert.simulation._solution import Solution
from dalembert.stabilise import CHANGED, State, assembled
from dalembert.systems import INSIDE, TOUCHING, AbstractSystem, all_closed, gap_sizes, rows_among_all

BEYOND = 1e-10
"""Relative pull of a contact that counts as one: rounding is less."""
ROUNDED = 1e-13
"""A gap counts as negative beyond this share of the machine's size."""
STILL = 1e-10
"""A gap's rate counts as zero below this share of the velocities that it is a difference of."""
CREEP = 1e-12
"""And if it would move the bodies by less than this share of the machine's size in the whole run."""
LOW = 1e-13
"""Bounces lower than this share of the machine's size are over: the contact closes."""
TURNED = 0.5
"""Cosine of the turn of a slip after which friction follows it anew."""
STOPPED = 1e-6
"""Share of the fastest slip in a stretch that is left where one ends."""
UNSURE = 1e-7
"""Relative acceleration by which rounding may decide against a contact that lifts off."""
TOGETHER = 1e-14
"""Gaps smaller than this share of the machine's size close at the same instant: rounding."""
AHEAD = (1e-6, 1e-4, 1e-2)
"""How much later, in shares of a stretch, it is looked at which of several contacts lifts off."""
JUMPS = 60
"""Impacts at one instant, one set off by the other."""


def touching_march(
    run: Callable[..., Solution],
    system: AbstractSystem,
    t0: float,
    t_end: float,
    state,
    save: Any,
    settings: dict[str, Any],
    *,
    rule,
    formulation,
    stabilisation,
) -> tuple[_March, State]:
    """The march of a system with one-sided joints, and its start; `run` is `simulate` for a plain one, `save` the times
    that are saved, or "steps"."""
    refuse_touching(system, t_end, state, t0, save, settings)
    if isinstance(rule_of(rule), RowElimination):
        raise DalembertError(
            f"rule=RowElimination drops rows, and joint '{system.touches[0].joint}' is one-sided; take 'weighted' or "
            "'minimum_norm'."
        )
    contacts = Closings(system, formulation, stabilisation, rule_of(rule))
    march = _March(run, contacts, t0, t_end, save, settings)
    return march, march.begin(state)


def refuse_touching(system: AbstractSystem, t_end, state, t0, save, settings: dict[str, Any]) -> None:
    """What one-sided joints cannot be marched with, by name."""
    who = f"Joint '{system.touches[0].joint}' of '{system.name}' is one-sided"
    if is_inside(system, t_end, state, t0, save, settings):
        raise DalembertError(
            f"{who}: lift-offs and impacts are found on the host, not under jit, vmap and grad. Take system.plain() "
            "there, whose contacts stay as they are."
        )
    for word in ("event", "stepsize_controller", "tolerance"):
        if settings.get(word) is not None:
            raise DalembertError(f"{who}: {word}= cannot be given with it.")
    if system.control.sampled:
        raise DalembertError(f"{who}, and '{system.name}' has sampled controllers: they are not marched together.")
    bodies = system.bodies
    rubbing = system.sticking or (bodies.bearings[0].names if bodies is not None and bodies.bearings else ())
    if rubbing:
        raise DalembertError(
            f"{who}: friction '{rubbing[0]}', which sticks or depends on a joint's load, is not marched with it. Take "
            "friction with a given load."
        )
    if isinstance(save, str) and save != "steps":
        raise DalembertError(f"samples={save!r}: {who[0].lower()}{who[1:]}; give a number of times, times or 'steps'.")


class Held(NamedTuple):
    """Which contacts are closed, and the directions in which those with friction slide (contacts, tangential): in the
    plane the sign of the slip, in space a unit vector along i's axes, 0 of those that do not."""

    closed: np.ndarray
    way: np.ndarray

    @property
    def sliding(self) -> np.ndarray:
        return self.closed & np.any(self.way != 0, axis=1)

    @property
    def key(self) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        """What the machine of a part is known by."""
        return tuple(map(bool, self.closed)), tuple(map(bool, self.sliding))


class Closings:
    """A system with one-sided joints, prepared for each set of closed contacts."""

    def __init__(self, system: AbstractSystem, formulation, stabilisation, rule):
        self.system, self.whole = system, all_closed(system)
        self.touches, self.rule = system.touches, rule
        self.names = tuple(t.name for t in self.touches)
        self.methods = {"formulation": formulation, "stabilisation": stabilisation, "rule": rule}
        self.restitution, self.frictions = np.asarray(system.restitutions()), np.asarray(system.frictions())
        self.size = float(system.bodies.size) if system.bodies is not None else 1.0
        self.sizes = gap_sizes(self.touches, self.size)
        self.width = max((len(t.tied) for t in self.touches), default=0)
        self._prepared: dict[tuple, Prepared] = {}
        self.strongest = 0.0  # free acceleration of this part: that of an instant may vanish where forces balance

    @property
    def rough(self) -> np.ndarray:
        """Which contacts stick or slip."""
        return self.frictions > 0

    def held(self, closed) -> Held:
        """With these contacts closed, none of which slides."""
        return Held(np.asarray(closed, bool), np.zeros((len(self.touches), self.width)))

    def closed(self, on: Held) -> AbstractSystem:
        """The plain machine with these contacts closed."""
        slides = {int(k): on.way[k] for k in np.flatnonzero(on.sliding)}
        return self.system.with_closed(tuple(map(bool, on.closed)), slides).plain()

    def prepared(self, on: Held, state: State, t: float) -> Prepared:
        """The same, prepared; once for each set."""
        if on.key not in self._prepared:
            self._prepared[on.key] = prepare(self.closed(on), state, t=t, **self.methods)
        ready = self._prepared[on.key]
        bodies = ready.system.bodies
        if not on.sliding.any() or bodies is None:
            return ready
        return dataclasses.replace(ready, system=self.closed(on).with_loads(bodies.load_rule))

    def at(self, times, states: State) -> list[Instantly]:
        """All rows at some instants."""
        whole = self.whole.plain()
        times = np.atleast_1d(np.asarray(times, float))
        found = [np.asarray(x) for x in terms_at(whole, times, np.asarray(states.q), np.asarray(states.v))]
        v, mu = np.asarray(states.v), self.frictions
        instants = zip(v, *found, strict=True)
        out = [Instantly(self.touches, whole.m_holonomic, own, x, mu) for own, *x in instants]
        self.strongest = max(self.strongest, *(x.acceleration for x in out))
        for x in out:
            x.acceleration = self.strongest
        return out

    def now(self, t: float, state: State) -> Instantly:
        return self.at([t], State(*(np.asarray(x)[None] for x in state)))[0]

    def pushed(self, here: Instantly, on: Held) -> Pushed | None:
        """The pushes and accelerations of the closed contacts as they stick or slide; None where friction of those
        that slide depends on a share of their load."""
        which = np.flatnonzero(on.closed)
        slip, speed = here.slip[which], np.linalg.norm(here.slip[which], axis=1)[:, None]
        way = on.way.copy()
        if self.width > 1:  # along the slip, on the side of the way
            along = np.where(speed > 0, slip / np.where(speed > 0, speed, 1.0), way[which])
            side = np.where(np.sum(along * way[which], axis=1) < 0, -1.0, 1.0)[:, None]
            way[which] = np.where(on.sliding[which, None], side * along, 0.0)
        problem = here.rubbing(which, way)
        return problem.solved(tuple(
            Choice(True, False, tuple(-way[k])) if on.sliding[k]
            else STICK if here.mu[k] > 0 else Choice(True, False, (0.0,) * self.width)
            for k in which
        ))  # fmt: skip


class Broken(NamedTuple):
    """Which contacts end a part: by their gap or push, or by friction; of which of them the push is unique; and states
    a little later, where it is not."""

    gap: np.ndarray
    friction: np.ndarray
    sure: np.ndarray
    ahead: list[tuple[float, State]]


class _March(PartMarch):
    """A motion, part after part."""

    short, chatter, crowd = 1e-13, 60, 1000

    def __init__(self, run, contacts: Closings, t0: float, t_end: float, save, settings: dict[str, Any]):
        super().__init__(run, t0, t_end, save, settings)
        self.contacts = contacts
        self.starts: list[tuple] = []  # (t, closed, way, q, v) of each part
        self.impacts: list[tuple[float, Struck]] = []
        self.rested = np.zeros(len(contacts.touches), bool)  # at the start
        self.fastest = np.zeros(len(contacts.touches))  # slip of each contact in the last stretch

    def begin(self, given) -> State:
        """The start, closed where its contacts are, with the velocities that it is given."""
        F, t = self.contacts, self.t0
        q, v = (None, None) if given is None else given
        none = F.held([False] * len(F.touches))
        found = assembled(F.closed(none), q, v, t=t)
        gap = F.now(t, found.state).gap / F.sizes
        if np.min(gap) < -INSIDE:
            k = int(np.argmin(gap))
            raise DalembertError(
                f"'{F.system.name}' starts {-gap[k] * F.sizes[k]:.4g} beyond the limit of its one-sided joint "
                f"'{F.touches[k].joint}': start with it closed or open."
            )
        near = gap <= TOUCHING
        if np.any(gap[near] != 0):
            q, _ = assembled(F.closed(self.sliding(F.held(near), F.now(t, found.state))), *found.state, t=t).state
            found = assembled(F.closed(none), q, found.state.v, t=t)
        here = F.now(t, found.state)
        self.rested = near & (np.abs(here.rate) <= self.still(here))
        resting = self.sliding(F.held(self.rested), here)
        found = assembled(F.closed(resting), *found.state, t=t)
        return self.started(F.closed(resting), found, F.system.v0 if v is None else v)

    def sliding(self, on: Held, here: Instantly) -> Held:
        """With friction against the slip of the closed contacts that slip."""
        speed = np.linalg.norm(here.slip, axis=1)
        moving = on.closed & self.contacts.rough & (speed > self.slow(here))
        return on._replace(way=np.where(moving[:, None], here.slip / np.where(moving, speed, 1.0)[:, None], 0.0))

    def slow(self, here: Instantly) -> np.ndarray:
        """The slip below which a contact does not slip."""
        return STILL * here.slip_speeds + CREEP * self.contacts.size / (self.t_end - self.t0)

    def go(self, state: State, report) -> None:
        F, t = self.contacts, self.t0
        self.keep_start(state)
        nothing = np.zeros(len(F.touches), bool)
        state, on = self.decide(t, state, F.held(nothing), Broken(nothing, nothing, nothing, []))
        while True:
            self.starts.append((t, *on, *state))
            begun, F.strongest = t, 0.0
            t, state, broken = self.part(t, state, on, report)
            if t >= self.t_end:
                return
            if not self.has_length(begun, t):
                self.starts.pop()
            self.refuse_jumps(t, state, broken.gap & ~on.closed)
            if self.piles_up(t):
                names = quoted(F.names[k] for k in np.flatnonzero(broken.gap | broken.friction))
                raise self.failed(
                    f"Contact {names} opens and closes, or sticks and slips, ever faster at t = {t:.6g} s, and no "
                    "length of time remains between two changes. Give its impacts less restitution, or march by time "
                    "steps."
                )
            state, on = self.decide(t, state, on, broken)
            if self.times is None:  # the velocities after the jump
                self.saved.append((np.array([t]), state.q[None], state.v[None], self.work[None]))

    def refuse_jumps(self, t: float, state: State, closing: np.ndarray) -> None:
        """End where a gap did not become zero but passed it: in space the angle of a stop, at half a turn."""
        F = self.contacts
        gap = F.now(t, state).gap
        jumps = np.flatnonzero(closing & (gap < -INSIDE * F.sizes))
        if len(jumps):
            raise self.failed(
                f"At t = {t:.6g} s the gap of {quoted(F.names[k] for k in jumps)} jumps to {gap[jumps[0]]:.4g}: in "
                "space turns of an angle are not counted, and it passes half a turn there. Give the stop both ends "
                "(lower and upper), or model the machine in the plane."
            )

    # ---- one part ------------------------------------------------------------------------------------------

    def part(self, t: float, state: State, on: Held, report) -> tuple[float, State, Broken]:
        """Until a contact changes, or the end: time, state, and the contacts that change."""
        F = self.contacts
        try:
            ready, count = F.prepared(on, state, t), len(F.touches)
        except DalembertError as error:
            if t == self.t0:
                raise
            raise self.failed(f"At t = {t:.6g} s: {error}") from None
        sure = self.sure(t, state, on)
        opened = True  # what is open may have begun with no gap
        while True:
            end, ends, grid = self.stretched(ready, t, state)
            whole = self.march(ready, t, end, state, np.append(t, grid))
            times, states = np.asarray(whole.t), State(np.asarray(whole.q), np.asarray(whole.v))
            values, limits, turned = self.values(on, sure, times, states)
            late = values < -limits
            late[0] = turned[0] = False  # the start was decided
            self.fastest = np.where(on.sliding, np.max(np.abs(values[:, count:]), axis=0), 0.0)
            broken, ahead = np.zeros(2 * count, bool), []
            after, until = State(states.q[-1], states.v[-1]), end
            first = int(np.argmax(np.any(late, axis=1))) if late.any() else len(times)
            turning = bool(turned[:first].any())
            if turning:  # friction follows the slip from there on
                first = int(np.argmax(turned))
                after, until = State(states.q[first], states.v[first]), float(times[first])
            elif late.any():
                a = State(states.q[first - 1], states.v[first - 1])
                who = np.flatnonzero(late[first])
                fresh = opened and first == 1
                found = [
                    self.crossing(ready, on, sure, int(k), float(times[first - 1]), float(times[first]), a,
                                  float(values[first - 1, k]), fresh)
                    for k in who
                ]  # fmt: skip
                until, after, now = earliest(found, end - t)
                broken[who[now]] = True
                if np.any(broken & np.tile(on.closed & ~sure, 2)):
                    later = until + (end - t) * np.array(AHEAD)
                    more = self.march(ready, until, float(later[-1]), after, later)
                    ahead = [(float(x), State(*own)) for x, *own in zip(later, more.q, more.v, strict=True)]
            opened = False
            self.passed(whole, until, ends, after, ready, report)
            t, state = until, after
            if broken.any() or turning or t >= self.t_end:
                return t, state, Broken(broken[:count], broken[count:], sure, ahead)

    def sure(self, t: float, state: State, on: Held) -> np.ndarray:
        """Of which closed contacts the force is unique."""
        F, here = self.contacts, self.contacts.now(t, state)
        if not F.rough.any():
            null = here.bearing(on.closed)[1]
            return np.linalg.norm(null, axis=0) <= 1e-7 * max(np.max(np.abs(null), initial=0.0), 1e-300)
        out = np.ones(len(F.touches), bool)
        out[on.closed] = ~self.pushed(t, here, on).shared
        return out

    def pushed(self, t: float, here: Instantly, on: Held) -> Pushed:
        F = self.contacts
        found = F.pushed(here, on)
        if found is None:
            raise self.undetermined(t, on.sliding)
        return found

    def undetermined(self, t: float, which: np.ndarray) -> SimulationError:
        """Friction of these contacts would depend on how they share a load."""
        names = quoted(self.contacts.names[k] for k in np.flatnonzero(which))
        return self.failed(
            f"Friction of contact {names} at t = {t:.6g} s depends on a load that the rigid-body model does not "
            "determine: contacts share it, and the motion would follow from an arbitrary choice. Take fewer contacts, "
            "or leave friction out, or march by time steps, which make that choice."
        )

    def values(self, on: Held, sure, times, states: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each contact what is positive while it stays as it is: the gap of an open one, the force of a closed one
        (where that is not unique, the least of all, shared so that it is largest); then what friction could bear more
        of one that sticks, the speed of one that slides; what of these is rounding; and whether a slip has turned."""
        F = self.contacts
        out, limits, turned = [], [], []
        for t, here in zip(times, F.at(times, states), strict=True):
            value = np.where(on.closed, 0.0, here.gap)
            limit = ROUNDED * F.sizes
            more, rounded, turns = np.ones(len(on.closed)), np.zeros(len(on.closed)), False
            if on.closed.any():
                rows = np.linalg.norm(here.W[here.rows], axis=1)
                limit = np.where(on.closed, BEYOND * np.linalg.norm(here.free) / np.where(rows > 0, rows, 1.0), limit)
                if F.rough.any():
                    value, more, rounded = self.rubbed(t, here, on, value, limit)
                    if F.width > 1:
                        along, speed = np.sum(here.slip * on.way, axis=1), np.linalg.norm(here.slip, axis=1)
                        turns = bool(np.any(on.sliding & (along > 0) & (along < TURNED * speed)))
                else:
                    lam, null, _ = here.bearing(on.closed)
                    shared = on.closed & ~sure
                    value = np.where(on.closed & sure, lam, value)
                    if shared.any():
                        value = np.where(shared, _margin(lam[shared] * rows[shared], (null * rows)[:, shared]), value)
                        limit = np.where(shared, BEYOND * np.linalg.norm(here.free), limit)
            out.append(np.append(value, more))
            limits.append(np.append(limit, rounded))
            turned.append(turns)
        return np.array(out), np.array(limits), np.array(turned)

    def rubbed(self, t: float, here: Instantly, on: Held, value, limit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`values` of closed contacts at an instant: pushes, what is left of friction, and its rounding."""
        F, which, found = self.contacts, np.flatnonzero(on.closed), self.pushed(t, here, on)
        value, more, rounded = value.copy(), np.ones(len(value)), np.zeros(len(value))
        value[which] = found.p[:, 0]
        sticks, slides = on.closed & F.rough & ~on.sliding, on.sliding
        left = np.zeros(len(value))
        left[which] = F.frictions[which] * found.p[:, 0] - np.linalg.norm(found.p[:, 1:], axis=1)
        more = np.where(sticks, left, np.where(slides, np.sum(here.slip * on.way, axis=1), more))
        rounded = np.where(sticks, limit * (1 + F.frictions), np.where(slides, self.slow(here), rounded))
        shared = np.zeros(len(value), bool)
        shared[which] = found.shared
        value = np.where(shared, found.margin, value)
        return value, np.where(shared & sticks, found.margin, more), rounded

    def crossing(self, ready, on: Held, sure, k: int, a: float, b: float, state: State, at_a: float, fresh: bool):
        """Time and state where a contact changes between a and b; `fresh`: it may have opened just at a."""
        opens = k < len(on.closed) and not on.closed[k]

        def value(times, states):
            return self.values(on, sure, times, states)[0][:, k]

        if fresh and opens:  # a flight that may be much shorter than b − a
            times = a + (b - a) * 0.5 ** np.arange(44.0, -1.0, -1.0)
            times = np.unique(times[times > a])
            found = self.march(ready, a, b, state, times)
            states = State(np.asarray(found.q), np.asarray(found.v))
            seen = value(times, states)
            up = int(np.argmax(seen > 0.1 * LOW * self.contacts.sizes[k]))  # above rounding
            if not seen[up] > 0:
                return a, state
            low = up + int(np.argmax(seen[up:] < 0))
            risen = up + np.flatnonzero(seen[up:low] > 0)
            k0 = int(risen[-1])
            a, b, at_a = float(times[k0]), float(times[low]), float(seen[k0])
            state = State(states.q[k0], states.v[k0])
        return self.locate(ready, value, a, b, state, at_a if opens and not fresh else max(at_a, 0.0))

    # ---- what follows --------------------------------------------------------------------------------------

    def still(self, here: Instantly) -> np.ndarray:
        """The rates below which gaps do not change."""
        return STILL * here.speeds + CREEP * self.contacts.sizes / (self.t_end - self.t0)

    def decide(self, t: float, state: State, on: Held, broken: Broken) -> tuple[State, Held]:
        """The state after what happens at this instant, and the contacts that are closed from now on."""
        F = self.contacts
        here = F.now(t, state)
        near = broken.gap | on.closed | (here.gap <= TOGETHER * F.sizes)
        slow = np.maximum(self.slow(here), np.where(broken.friction & on.sliding, STOPPED * self.fastest, 0.0))
        struck = len(self.impacts)
        for _ in range(JUMPS):
            hits = near & (here.rate < -self.still(here))
            if not hits.any():
                break
            after = self.jump(t, here, near & (here.rate <= self.still(here)), hits, state)
            self.impacts.append((t, after))
            state = State(state.q, after.v)
            slow, here = self.slow(here), F.now(t, state)
            slow = np.maximum(slow, self.slow(here))
        else:
            names = quoted(F.names[k] for k in np.flatnonzero(hits))
            raise self.failed(f"At t = {t:.6g} s impacts of {names} set each other off without an end.")
        resting = near & (np.abs(here.rate) <= self.still(here))
        if len(self.impacts) > struck:  # what leaves so slowly that it would be back at once
            resting |= self.low(here, near & (here.rate > 0), -here.pressing(resting))
        if F.rough.any():
            now = self.coulomb(t, here, resting, slow, on, broken)
        else:
            now = F.held(self.bearing(t, here, resting, broken.gap & on.closed & resting, broken.ahead))
        state = State(*(np.asarray(x) for x in assembled(F.closed(now), *state, t=t).state))
        return state, now

    def coulomb(self, t: float, here: Instantly, resting, slow, on: Held, broken: Broken) -> Held:
        """Which of the contacts at rest stay closed, and which of these stick or slip, by Coulomb's law."""
        F, which = self.contacts, np.flatnonzero(resting)
        speed = np.linalg.norm(here.slip, axis=1)
        moving = F.rough & (speed > slow)
        way = np.where(moving[:, None], here.slip / np.where(moving, speed, 1.0)[:, None], np.nan)
        for later, state in broken.ahead:  # shared forces: a little later it is clear which of them changes
            found = F.now(later, state).rubbing(which, way).solutions()
            if len(found) == 1:
                now = self.chosen(which, way, found[0])
                if now.key != on.key:
                    return now
        forced = on.closed & broken.sure
        opens, yields = broken.gap & forced, broken.friction & forced & ~on.sliding
        banned = {(n, True, x) for n, k in enumerate(which) if opens[k] for x in (True, False)}
        banned |= {(n, True, True) for n, k in enumerate(which) if yields[k] and not moving[k]}
        found = here.rubbing(which, way, UNSURE).solutions(banned) if banned else []
        problem = here.rubbing(which, way)
        found = found or problem.solutions()
        if problem.ambiguous and len(found) != 1:
            raise self.undetermined(t, resting)
        if len(found) != 1:
            names = quoted(F.names[k] for k in which)
            what = "No choice" if not found else "More than one choice"
            raise self.failed(
                f"{what} of sticking, slipping and opening of the contacts {names} meets Coulomb's law at "
                f"t = {t:.6g} s: with such friction the bodies cannot be rigid (Painlevé). Give them less "
                "friction, or a driver that does not move against them."
            )
        return self.chosen(which, way, found[0])

    def chosen(self, which, way: np.ndarray, found: Pushed) -> Held:
        """The contacts that a solution closes, and the ways of those that slide."""
        on = self.contacts.held([False] * len(self.contacts.touches))
        for k, choice in zip(which, found.choices, strict=True):
            on.closed[k] = choice.tight
            if choice.tight and not choice.stick and self.contacts.rough[k]:
                on.way[k] = -np.asarray(choice.e) if np.isnan(way[k]).any() else way[k]
        return on

    def bearing(self, t: float, here: Instantly, resting, forced, ahead) -> np.ndarray:
        """Which of the contacts at rest stay closed; `forced` would have to pull."""
        F = self.contacts
        for later, state in ahead:  # shared forces: a little later it is clear which of them lifts off
            lifts = F.now(later, state).lifting(resting)
            if lifts is not None and np.any(lifts):
                return resting & ~lifts
        if forced.any():
            left = resting & ~forced
            lifts = here.lifting(left)
            if lifts is not None:
                left &= ~lifts
                if np.all(here.pressing(left)[forced] >= -UNSURE * here.forces[forced]):
                    return left
        lifts = here.lifting(resting)
        if lifts is None:
            names = quoted(F.names[k] for k in np.flatnonzero(resting))
            raise self.failed(
                f"At t = {t:.6g} s the contacts {names} hold the machine, and its drivers move it against them."
            )
        return resting & ~lifts

    def jump(self, t: float, here: Instantly, acting, hits, state: State) -> Struck:
        """The impact at an instant; where a bounce would be too low to be resolved, without restitution."""
        F, restitution = self.contacts, self.contacts.restitution.copy()
        rough = bool(F.rough[acting].any())
        while True:
            found, ambiguous = [here.struck(acting, restitution)], False
            if rough:
                found, ambiguous = here.struck_with_friction(acting, restitution)
            if ambiguous and len(found) != 1:
                raise self.undetermined(t, acting)
            if len(found) > 1:
                names = quoted(F.names[k] for k in np.flatnonzero(acting))
                raise self.failed(
                    f"At t = {t:.6g} s the contacts {names} strike, and more than one impulse meets Coulomb's law: "
                    "with such friction the bodies cannot be rigid. Give them less friction."
                )
            after = found[0] if found else None
            if after is None:
                names = quoted(F.names[k] for k in np.flatnonzero(hits))
                raise self.failed(
                    f"At t = {t:.6g} s the contacts {names} strike, and no impulse stops them: a driver moves on."
                )
            bouncing = acting & (restitution > 0) & (after.impulse > 0)
            if not bouncing.any():
                break
            then = F.now(t, State(state.q, after.v))
            pressed = -then.pressing(acting & ~bouncing & (np.abs(then.rate) <= self.still(then)))
            over = self.low(then, bouncing, pressed)
            if not over.any():
                break
            restitution[over] = 0.0
        if F.system.scleronomic and after.after > after.before * (1 + 1e-9):
            names = quoted(F.names[k] for k in np.flatnonzero(hits))
            hint = "their laws and restitutions do not go together. Give them the same, or impact='newton'."
            if rough:
                hint = "Newton's law does not go with friction here. Give them impact='poisson', or less restitution."
            raise self.failed(
                f"At t = {t:.6g} s the impact of {names} would gain energy ({after.before:.6g} to {after.after:.6g} "
                f"J): {hint}"
            )
        return after

    def low(self, here: Instantly, leaving: np.ndarray, pressed: np.ndarray) -> np.ndarray:
        """Which of the contacts that leave, and whose gaps accelerate by −`pressed`, leave too little."""
        heights = 2 * LOW * self.contacts.sizes * np.maximum(pressed, 0.0)
        return leaving & (pressed > 0) & (np.maximum(here.rate, 0.0) ** 2 < heights)

    # ---- the end -------------------------------------------------------------------------------------------

    def solution(self, status: Status) -> Solution:
        F = self.contacts
        system = F.system
        count, nq = len(F.touches), np.shape(system.q0)[-1]
        nothing = F.held([False] * count)
        starts = self.starts or [(self.t0, *nothing, np.zeros(nq), np.zeros(system.n))]
        struck = [x for _, x in self.impacts]
        t_starts, closed, way, q_starts, v_starts = (np.array([x[k] for x in starts]) for k in range(5))
        phases = ContactPhases(
            names=F.names,
            joints=tuple(x.joint for x in F.touches),
            t=t_starts,
            closed=closed,
            way=way,
            rough=F.rough,
            q=q_starts,
            v=v_starts,
            t_end=np.asarray(self.reached),
            impact_t=np.array([x for x, _ in self.impacts]),
            impulse=np.array([x.impulse for x in struck]).reshape(-1, count),
            unique=np.array([x.unique for x in struck], bool).reshape(-1, count),
            energy=np.array([(x.before, x.after) for x in struck]).reshape(-1, 2),
            friction=np.array([x.friction for x in struck]).reshape(len(struck), count, F.width),
            rested=self.rested,
        )
        return self.result(status, system, F.methods, phases)


def contact_remarks(system: AbstractSystem, t: float, q, lam: np.ndarray) -> tuple[str, ...]:
    """What contradicts one-sided joints where a machine rests with these multipliers of its rows: what would have to
    pull, and what overlaps."""
    if not system.touches:
        return ()
    contacts, closed, out = Closings(system, None, None, None), np.array(system.closed), []
    here = contacts.now(t, State(np.asarray(q), np.zeros(system.n)))
    place = rows_among_all(system, system.closed)[here.rows]
    lam, null = np.where(closed, here.signs * np.asarray(lam)[np.maximum(place, 0)], 0.0), here.bearing(closed)[1]
    rows = np.linalg.norm(here.W[here.rows], axis=1)
    margin = _margin((lam * rows)[closed], (null * rows)[:, closed]) if closed.any() else 0.0
    if margin < -BEYOND * np.linalg.norm(here.free):
        pulls = [f"'{n}' by {-x:.6g}" for n, x in zip(contacts.names, lam, strict=True) if x < 0]
        out.append(
            f"one-sided joints would have to pull ({', '.join(pulls)} N): the machine does not rest so, they open"
        )
    inside = [n for n, gap in zip(contacts.names, here.gap / contacts.sizes, strict=True) if gap < -INSIDE]
    if inside:
        out.append(f"beyond the limit of one-sided joints that were open at the start: {', '.join(map(repr, inside))}")
    return tuple(out)


def slipping(system: AbstractSystem, t: float, given: State) -> tuple[str, ...]:
    """The closed contacts with friction that slip at the given velocities; as rows of the system they stick."""
    if not np.any(np.asarray(system.frictions())[list(system.closed)]):
        return ()
    contacts = Closings(system, None, None, None)
    here = contacts.now(t, given)
    slips = np.linalg.norm(here.slip, axis=1) > CHANGED * here.slip_speeds
    return tuple(n for n, x in zip(contacts.names, slips & contacts.rough & system.closed, strict=True) if x)


def touching_between(run: Callable[..., Solution], solution: Solution, times: np.ndarray) -> State:
    """The states at any times of a motion with contacts: each part is marched again from its start."""
    phases: Any = solution.phases
    contacts = Closings(solution.system, solution.formulation, solution.stabilisation, solution.chosen)
    ready = functools.partial(_part_of, contacts, phases)
    return states_of_parts(run, solution, times, ready)


def _part_of(contacts: Closings, phases: ContactPhases, k: int) -> Prepared:
    return contacts.prepared(held_of(phases, k), State(phases.q[k], phases.v[k]), float(phases.t[k]))


def held_of(phases: ContactPhases, k: int) -> Held:
    """The contacts of a part."""
    return Held(np.asarray(phases.closed)[k], np.asarray(phases.way)[k])


def _margin(lam: np.ndarray, null: np.ndarray) -> float:
    """The least of several forces, shared by multiples of `null` so that it is as large as it can be."""
    from scipy.optimize import linprog  # takes a second to import

    least_one = float(np.min(lam))
    if least_one >= 0:
        return least_one
    top = float(np.max(np.abs(lam)))
    # z ≤ λ + Nᵀy for all, z ≤ top: find the largest z
    A = np.hstack([-null.T, np.ones((len(lam), 1))])
    cost = np.append(np.zeros(len(null)), -1.0)
    found = linprog(cost, A_ub=A, b_ub=lam / top, bounds=[(None, None)] * len(null) + [(None, 1.0)], method="highs")
    return top * float(-found.fun) if found.status == 0 else least_one
