"""6b· results: of a motion with dry friction that sticks: each part is looked at as the plain machine that it is.

Ranks, rules and labels are those of the machine built free, whose rows are the joints' alone. What sticks adds rows
while it sticks; where these are independent of the others nothing changes about what is unique.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from dalembert.linalg import ZERO
from dalembert.reactions import Instant, Uniqueness
from dalembert.results._instants import Instants, look
from dalembert.results._observe import Observation
from dalembert.results._results import Results
from dalembert.simulation import Frictions
from dalembert.stabilise import State
from dalembert.systems import with_fields


class Rubbed(NamedTuple):
    """Friction at the saved times: the sign of its rate (0: it sticks), its effort on the coordinate, what it can bear
    while it sticks, and whether the effort is determined; each (times, frictions)."""

    side: np.ndarray
    effort: np.ndarray
    limit: np.ndarray
    unique: np.ndarray


class PhasedResults(Results):
    """What follows from a motion with dry friction that sticks."""

    @functools.cached_property
    def frictions(self) -> Frictions:
        s = self.solution
        return Frictions(s.system, s.formulation, s.stabilisation, s.chosen)

    @functools.cached_property
    def parts(self) -> list[tuple[int, np.ndarray]]:
        """The parts that have saved times, and their numbers."""
        assert self.solution.phases is not None
        of = self.solution.phases.parts(self.solution.t)
        return [(int(k), np.flatnonzero(of == k)) for k in np.unique(of)]

    def _prepared(self, part: int, times: np.ndarray):
        s = self.solution
        assert s.phases is not None
        state = State(*(np.asarray(x)[times[0]] for x in (s.q, s.v)))
        phase = s.phases.side[part], s.phases.held_at[part]
        return phase, state, self.frictions.prepared(*phase, state, float(s.t[times[0]]))

    @functools.cached_property
    def stuck(self) -> dict[tuple[bool, ...], Instant]:
        """For each set of frictions that stick the machine at an instant."""
        out: dict[tuple[bool, ...], Instant] = {}
        for part, times in self.parts:
            assert self.solution.phases is not None
            key = tuple(bool(x) for x in np.asarray(self.solution.phases.side[part]) == 0)
            if key not in out:
                _, state, (ready, _, _) = self._prepared(part, times)
                out[key] = Instant(ready.system, self.solution.t[times[0]], state).generic
        return out

    @functools.cached_property
    def redundancy(self) -> int:
        free = Results.redundancy.func(self)  # pyright: ignore[reportFunctionMemberAccess]
        return max([free, *(i.among_joints.redundancy for i in self.stuck.values())])

    @property
    def friction_shares_load(self):
        return self.redundancy > Results.redundancy.func(self)  # pyright: ignore[reportFunctionMemberAccess]

    def _joint_rows(self, system) -> np.ndarray:
        """Where the rows of the machine built free are among those of a machine with friction that sticks."""
        more = system.machine.m - self.machine.m
        rows = np.arange(self.machine.m)
        return np.where(rows < self.machine.m_holonomic, rows, rows + more)

    @functools.cached_property
    def unique_multipliers(self) -> np.ndarray:
        out = np.ones(self.machine.m, bool)
        for instant in self.generic.values() if self.redundancy else ():
            out &= np.linalg.norm(instant.among_joints.null, axis=1) <= ZERO
        for instant in self.stuck.values() if self.redundancy else ():
            null = instant.among_joints.null[self._joint_rows(instant.system)]
            out &= np.linalg.norm(null, axis=1) <= ZERO
        return out

    @functools.cached_property
    def uniqueness(self) -> list[Uniqueness]:
        free = Results.uniqueness.func(self)  # pyright: ignore[reportFunctionMemberAccess]
        return [*free, *(i.uniqueness for i in self.stuck.values())]

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
        _, _, (ready, rule, _) = self._prepared(part, times)
        own = {"t": s.t[times], "q": s.q[times], "v": s.v[times], "work": s.work[times], "phases": None}
        own |= {"system": ready.system, "formulation": ready.formulation, "stabilisation": ready.stabilisation}
        assert s.phases is not None
        key = tuple(bool(x) for x in np.asarray(s.phases.side[part]) == 0)
        observed, instants = look(dataclasses.replace(s, **own), rule, self.stuck[key].dependence.rank)
        rows, joints = self._joint_rows(ready.system), slice(0, self._joints)
        wrenches = observed.wrenches
        if wrenches is not None:
            wrenches = jax.tree_util.tree_map(lambda x: x[:, joints], wrenches)
        cut: Any = with_fields(  # not through the checks of shapes at one instant
            observed,
            lam=observed.lam[:, rows],
            sides=observed.sides[:, rows],
            sigma=np.ones((len(times), 1)),
            wrenches=wrenches,
        )
        believed = {k: x[:, joints] for k, x in instants.believed.items()}
        return cut, Instants(instants.rank, instants.digits, believed, instants.multipliers[:, rows])

    @property
    def _joints(self) -> int:
        return 0 if self.system.bodies is None else len(self.system.bodies.joints)

    @functools.cached_property
    def rubbed(self) -> Rubbed:
        """Friction at the saved times."""
        s, out = self.solution, []
        assert s.phases is not None
        for part, times in self.parts:
            phase, state, (_, _, shared) = self._prepared(part, times)
            seen, effort = self.frictions.look(*phase, State(s.q[times], s.v[times]), np.asarray(s.t)[times], state)
            sure = np.array([name not in shared for name in s.phases.names])
            side, sure = (np.broadcast_to(x, effort.shape) for x in (s.phases.shown[part], sure))
            out.append((side, effort, seen.held, sure))
        return Rubbed(*(np.concatenate(x) for x in zip(*out, strict=True)))
