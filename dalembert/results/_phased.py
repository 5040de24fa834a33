"""6b· results: of a motion in parts: each is looked at as the plain machine that it is.

With friction that sticks, ranks, rules and labels are those of the machine built free, whose rows are the joints'
alone. What sticks adds rows while it sticks; where these are independent of the others nothing changes about what is
unique. With one-sided joints they are those of the machine with all contacts closed; an open one has no force.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from typing import Any, NamedTuple

import jax
import numpy as np

from dalembert.linalg import ZERO
from dalembert.reactions import AbstractReactionRule, Instant, MinimumNorm, RequireUnique, Uniqueness
from dalembert.results._instants import Instants, look
from dalembert.results._observe import Observation
from dalembert.results._results import Results
from dalembert.simulation import Closings, Frictions, Held, Prepared, held_of
from dalembert.stabilise import State
from dalembert.systems import AbstractSystem, all_closed, rows_among_all, with_fields


class Rubbed(NamedTuple):
    """Friction at the saved times: the sign of its rate (0: it sticks), its effort on the coordinate, what it can bear
    while it sticks, and whether the effort is determined; each (times, frictions)."""

    side: np.ndarray
    effort: np.ndarray
    limit: np.ndarray
    unique: np.ndarray


class PartedResults(Results):
    """What follows from a motion in parts."""

    @abstractmethod
    def prepared(self, part: int, state: State, t: float) -> tuple[Prepared, AbstractReactionRule | None]:
        """The plain machine of a part, and the rule that picks its multipliers; None for that of the motion."""

    @abstractmethod
    def key(self, part: int) -> tuple:
        """What the machine of a part is known by."""

    @abstractmethod
    def joint_rows(self, part: int, system: AbstractSystem) -> np.ndarray:
        """For each row of the machine its number among those of a part's; −1 if it has none there."""

    @functools.cached_property
    def parts(self) -> list[tuple[int, np.ndarray]]:
        """The parts that have saved times, and their numbers."""
        assert self.solution.phases is not None
        of = self.solution.phases.parts(self.solution.t)
        return [(int(k), np.flatnonzero(of == k)) for k in np.unique(of)]

    def _first(self, times: np.ndarray) -> tuple[State, float]:
        s = self.solution
        return State(*(np.asarray(x)[times[0]] for x in (s.q, s.v))), float(s.t[times[0]])

    @functools.cached_property
    def of_parts(self) -> dict[tuple, tuple[int, Instant]]:
        """For each different machine one of its parts, and an instant of it."""
        out: dict[tuple, tuple[int, Instant]] = {}
        for part, times in self.parts:
            if self.key(part) not in out:
                state, t = self._first(times)
                system = self.prepared(part, state, t)[0].system
                out[self.key(part)] = part, Instant(system, self.solution.t[times[0]], state).generic
        return out

    @functools.cached_property
    def redundancy(self) -> int:
        return max((i.among_joints.redundancy for _, i in self.of_parts.values()), default=0)

    @functools.cached_property
    def unique_multipliers(self) -> np.ndarray:
        out = np.ones(self.machine.m, bool)
        for part, instant in self.of_parts.values() if self.redundancy else ():
            rows = self.joint_rows(part, instant.system)
            null = _taken(instant.among_joints.null, rows)
            out &= np.linalg.norm(null, axis=1) <= ZERO
        return out

    @functools.cached_property
    def uniqueness(self) -> list[Uniqueness]:
        return [i.uniqueness for _, i in self.of_parts.values()]

    @functools.cached_property
    def _examined(self) -> tuple[Observation, Instants]:
        if not self.parts:
            return Results._examined.func(self)  # pyright: ignore[reportFunctionMemberAccess]
        found = [self._look(part, times) for part, times in self.parts]
        both: Any = jax.tree_util.tree_map(lambda *x: np.concatenate(x), *(x[0] for x in found))
        instants = [x[1] for x in found]
        believed = {k: np.concatenate([i.believed[k] for i in instants]) for k in instants[0].believed}
        joined = (np.concatenate([getattr(i, k) for i in instants]) for k in ("rank", "digits", "multipliers"))
        rank, digits, multipliers = joined
        return both, Instants(rank, digits, believed, multipliers)

    def _look(self, part: int, times: np.ndarray) -> tuple[Observation, Instants]:
        s = self.solution
        ready, rule = self.prepared(part, *self._first(times))
        rule = self._rule(part, ready) if rule is None else rule
        own = {"t": s.t[times], "q": s.q[times], "v": s.v[times], "work": s.work[times], "phases": None}
        own |= {"system": ready.system, "formulation": ready.formulation, "stabilisation": ready.stabilisation}
        observed, instants = look(dataclasses.replace(s, **own), rule, self.of_parts[self.key(part)][1].dependence.rank)
        rows, joints = self.joint_rows(part, ready.system), slice(0, self._joints)
        wrenches = observed.wrenches
        if wrenches is not None:
            wrenches = jax.tree_util.tree_map(lambda x: x[:, joints], wrenches)
        cut: Any = with_fields(  # not through the checks of shapes at one instant
            observed,
            lam=_taken(observed.lam.T, rows).T,
            sides=_taken(observed.sides.T, rows).T,
            sigma=np.ones((len(times), 1)),
            wrenches=wrenches,
        )
        believed = {k: x[:, joints] for k, x in instants.believed.items()}
        return cut, Instants(instants.rank, instants.digits, believed, _taken(instants.multipliers.T, rows, True).T)

    def _rule(self, part: int, ready: Prepared) -> AbstractReactionRule:
        if self.of_parts[self.key(part)][1].among_joints.redundancy == 0:
            return RequireUnique()
        chosen = ready.rule
        return MinimumNorm() if chosen is None or isinstance(chosen, RequireUnique) else chosen

    @property
    def _joints(self) -> int:
        return 0 if self.system.bodies is None else len(self.system.bodies.joints)


class PhasedResults(PartedResults):
    """What follows from a motion with dry friction that sticks."""

    @functools.cached_property
    def frictions(self) -> Frictions:
        s = self.solution
        return Frictions(s.system, s.formulation, s.stabilisation, s.chosen)

    def _phase(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        phases: Any = self.solution.phases
        return phases.side[part], phases.held_at[part]

    def key(self, part):
        return tuple(bool(x) for x in np.asarray(self._phase(part)[0]) == 0)

    def prepared(self, part, state, t):
        ready, rule, _ = self.frictions.prepared(*self._phase(part), state, t)
        return ready, rule

    def joint_rows(self, part, system):
        more = system.machine.m - self.machine.m
        rows = np.arange(self.machine.m)
        return np.where(rows < self.machine.m_holonomic, rows, rows + more)

    @functools.cached_property
    def redundancy(self) -> int:
        free = Results.redundancy.func(self)  # pyright: ignore[reportFunctionMemberAccess]
        return max(free, PartedResults.redundancy.func(self))  # pyright: ignore[reportFunctionMemberAccess]

    @functools.cached_property
    def unique_multipliers(self) -> np.ndarray:
        free = Results.unique_multipliers.func(self)  # pyright: ignore[reportFunctionMemberAccess]
        return free & PartedResults.unique_multipliers.func(self)  # pyright: ignore[reportFunctionMemberAccess]

    @functools.cached_property
    def uniqueness(self) -> list[Uniqueness]:
        free = Results.uniqueness.func(self)  # pyright: ignore[reportFunctionMemberAccess]
        return [*free, *PartedResults.uniqueness.func(self)]  # pyright: ignore[reportFunctionMemberAccess]

    @property
    def friction_shares_load(self):
        return self.redundancy > Results.redundancy.func(self)  # pyright: ignore[reportFunctionMemberAccess]

    @functools.cached_property
    def rubbed(self) -> Rubbed:
        """Friction at the saved times."""
        s, out = self.solution, []
        phases: Any = s.phases
        for part, times in self.parts:
            phase, (state, t) = self._phase(part), self._first(times)
            shared = self.frictions.prepared(*phase, state, t)[2]
            seen, effort = self.frictions.look(*phase, State(s.q[times], s.v[times]), np.asarray(s.t)[times], state)
            sure = np.array([name not in shared for name in phases.names])
            side, sure = (np.broadcast_to(x, effort.shape) for x in (phases.shown[part], sure))
            out.append((side, effort, seen.held, sure))
        return Rubbed(*(np.concatenate(x) for x in zip(*out, strict=True)))


class TouchedResults(PartedResults):
    """What follows from a motion of one-sided joints."""

    @functools.cached_property
    def system(self) -> AbstractSystem:  # pyright: ignore[reportIncompatibleMethodOverride]
        """With all contacts, of which the open ones have no forces."""
        return all_closed(self.solution.system)

    @property
    def machine(self) -> AbstractSystem:
        return self.system.machine

    @functools.cached_property
    def closings(self) -> Closings:
        s = self.solution
        return Closings(s.system, s.formulation, s.stabilisation, s.chosen)

    def held(self, part: int) -> Held:
        phases: Any = self.solution.phases
        return held_of(phases, part)

    def key(self, part):
        return self.held(part).key

    def prepared(self, part, state, t):
        return self.closings.prepared(self.held(part), state, t), None

    def joint_rows(self, part, system):
        return self._rows(self.held(part))

    def _rows(self, on: Held) -> np.ndarray:
        return rows_among_all(self.machine, on.key[0], tuple(map(int, np.flatnonzero(on.sliding))))

    def _part_at(self, k: int) -> int:
        phases: Any = self.solution.phases
        return int(phases.parts(self.solution.t[k : k + 1])[0])

    def system_at(self, k):
        s = self.solution
        return self.closings.prepared(self.held(self._part_at(k)), State(s.q[k], s.v[k]), float(s.t[k])).system

    def rank_at(self, k):
        return self.of_parts[self.key(self._part_at(k))][1].dependence.rank

    def rows_at(self, k):
        return self._rows(self.held(self._part_at(k)))

    @functools.cached_property
    def energies(self) -> dict[str, np.ndarray]:
        phases: Any = self.solution.phases
        found = Results.energies.func(self)  # pyright: ignore[reportFunctionMemberAccess]
        lost = phases.energy_lost(self.solution.t)
        lost = lost - lost[0]
        return found | {"lost_in_impacts": lost, "drift": found["drift"] + lost}


def _taken(values: Any, rows: np.ndarray, fill: float | bool = 0.0) -> np.ndarray:
    """Some rows of an array; where there is none, `fill`."""
    values = np.asarray(values)
    if not len(values):
        return np.full((len(rows), *values.shape[1:]), fill, values.dtype)
    out = values[np.maximum(rows, 0)]
    out[rows < 0] = fill
    return out
