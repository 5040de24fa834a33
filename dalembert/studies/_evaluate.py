"""8 · studies: quantities of a machine for given values of its variables, with derivatives; one function for all.

What is asked is traced once as a function of the vector of variables: the march inside it is native and carries the
derivatives along (`simulate` with derivative="forward"), driven machines are closed at each time (`kinematics`), rest
and small motions are differentiated implicitly (`equilibrium`, `Linearisation.replace`). A batch of designs is one
call.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, Status
from dalembert._typing import Array
from dalembert.analysis import Linearisation, equilibrium, kinematics, linearise
from dalembert.equations import assemble
from dalembert.reactions import RequireUnique, loads_of
from dalembert.results import loads_observed, observe
from dalembert.simulation import Solution, simulate
from dalembert.stabilise import EXACT, consistent_state
from dalembert.studies._machine import Machine, transmits
from dalembert.studies._measure import Courses, within
from dalembert.studies._quantities import Quantity
from dalembert.systems import compiled_alone

TOGETHER = 64
"""Designs in one call; batches are filled up to it, so that one program serves all."""
SAME = 1e-5
"""Relative difference up to which a frequency that was followed is the one found anew."""
KEPT = 2000
"""Designs whose numbers are remembered."""
RESTS = 1e-9
"""Force that may be left at rest, as a share of the machine's own (as `equilibrium` has it)."""


class Context:
    """One machine, with values for its variables; each analysis is made once, where something asks for it."""

    def __init__(self, asked: Asked, x: Array):
        self.asked, self.machine, self.x = asked, asked.machine, x
        self.values = self.machine.design.parameters(x)
        self.fine: list[Any] = [jnp.all(jnp.isfinite(x))]

    def variable(self, name: str) -> Array:
        names = self.machine.design.names
        if name not in names:
            raise DalembertError(f"'{name}' is not among what varies: {', '.join(names)}.")
        return self.x[names.index(name)]

    # ---- motion --------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> Array:
        """Whether the machine can be assembled at its start."""
        return self.machine.begin(self.x, self.machine.system.replace(self.values))[1] <= EXACT

    @functools.cached_property
    def solution(self) -> Solution:
        task = self.machine.task
        ready = self.machine.prepared.replace(self.values)
        start = self.machine.start(self.x, ready.system)
        common = {"t0": task.t0, "samples": task.times}
        if task.driven:
            return kinematics(ready, float(task.times[-1]), start, **common)
        return simulate(ready, task.t_end, start, derivative="forward", **common, **task.options)  # type: ignore[arg-type]

    @functools.cached_property
    def _courses(self) -> tuple[Array, Array]:
        task, names = self.machine.task, self.asked.over_motion
        columns = self.machine.columns(names)
        solution, ready = self.solution, self.machine.prepared.replace(self.values)
        ended = (solution.status_code == int(Status.done)) & jnp.all(jnp.isfinite(solution.q))
        self.fine.append(ended)
        measured = [k for where, k in columns.values() if where == "y"]
        level = max((ready.system.channel(k).level for k in measured), default=0)
        t, q, v = jnp.asarray(task.times), solution.q, solution.v
        rule = self.machine.rule if level == 3 else RequireUnique()
        y = jax.lax.map(lambda at: channels_at(ready.system, ready.formulation, rule, measured, level, *at), (t, q, v))
        table = {"y": y, "q": q, "v": v}
        picked = []
        for where, k in columns.values():
            one = table[where][:, measured.index(k) if where == "y" else k]
            turning = where == "y" and ready.system.counts_no_turns(k)
            picked.append(jnp.unwrap(one) if turning else one)
        return t, jnp.stack(picked, axis=1)

    def course(self, names: Sequence[str]) -> tuple[Array, Array]:
        """Times, and a column for each channel."""
        t, y = self._courses
        every = list(dict.fromkeys(self.asked.over_motion))
        return t, y[:, np.array([every.index(n) for n in names])]

    # ---- rest and small motions ------------------------------------------------------------------------------------

    @functools.cached_property
    def _rest(self) -> dict[str, Array]:
        names = list(dict.fromkeys(self.asked.at_rest))
        system = self.machine.system.replace(self.values)
        rest = equilibrium(system, self.machine.start(self.x, system), t=self.machine.task.t0)
        self.fine.append((jnp.max(jnp.abs(rest.residual)) < RESTS) & jnp.all(jnp.isfinite(rest.q)))
        columns = self.machine.columns(names)
        measured = [k for where, k in columns.values() if where == "y"]
        level = max((system.channel(k).level for k in measured), default=0)
        t, still = jnp.asarray(self.machine.task.t0, float), jnp.zeros(system.n)
        rule = self.machine.rest_rule if level == 3 else RequireUnique()
        y = channels_at(system, self.machine.prepared.formulation, rule, measured, level, t, rest.q, still)
        table = {"y": y, "q": rest.q, "v": still}
        return {n: table[w][measured.index(k) if w == "y" else k] for n, (w, k) in columns.items()}

    def resting(self, name: str) -> Array:
        return self._rest[name]

    @functools.cached_property
    def frequencies(self) -> Array:
        linear = self.asked.linear
        found = linear.replace(self.values).frequencies
        return found[jnp.array(oscillating(linear))]


class Alone(Context):
    """The same on the host, for a machine whose motion is found by `simulate` alone."""

    @functools.cached_property
    def _courses(self) -> tuple[Array, Array]:
        task, names = self.machine.task, self.asked.over_motion
        one = self.machine.motion(
            self.machine.values(np.asarray(self.x)), self.machine.closed(np.asarray(self.x)), False
        )
        self.fine.append(one.status is Status.done)
        times = jnp.asarray(task.times)
        if one.status is not Status.done:
            return times, jnp.full((len(times), len(set(names))), jnp.nan)
        courses, _ = self.asked.courses.of(one)
        return times, jnp.stack([jnp.asarray(courses[n]) for n in dict.fromkeys(names)], axis=1)


def channels_at(system, formulation, rule, which: Sequence[int], level: int, t, q, v) -> Array:
    """Measured numbers at an instant, with what they need."""
    if level < 2 or not which:
        return system.measured(t, q, v, only=which) if which else jnp.zeros(0)
    if level == 2:
        vdot = formulation.solve(assemble(system, t, q, v)).vdot
        return system.measured(t, q, v, vdot, only=which)
    if not system.machine.sided:
        equations = assemble(system, t, q, v)
        vdot = formulation.solve(equations).vdot
        return system.measured(t, q, v, vdot, loads_of(system, equations, vdot, rule), only=which)
    seen = observe(system, formulation, rule, t, q, v)  # teeth and belts bear on the side of their load
    return system.measured(t, q, v, seen.rates, loads_observed(system, t, q, v, seen), only=which)


def oscillating(linear: Linearisation) -> list[int]:
    """The modes with a frequency, the lowest first."""
    modes = [(m.frequency, k) for k, m in enumerate(linear.modes) if m.frequency > 0]
    return [k for _, k in sorted(modes)]


class Asked:
    """Quantities of one machine: values, and derivatives by its variables.

    `values(x)` and `slopes(x)` return None where a machine has no such number (it can't be assembled, its motion does
    not reach its end); `reason(x)` states why.
    """

    def __init__(self, machine: Machine, quantities: Sequence[Quantity], spread: Sequence[bool] | None = None):
        self.machine, self.quantities = machine, tuple(quantities)
        self.spread = tuple(spread or (False,) * len(self.quantities))
        self.over_motion = tuple(c for q in self.quantities for c in q.over_motion)
        self.at_rest = tuple(c for q in self.quantities for c in q.at_rest)
        self.modes = max((q.modes for q in self.quantities), default=0)
        self.remarks: tuple[str, ...] = ()
        for names in (self.over_motion, self.at_rest):
            machine.columns(names)
        for q in self.quantities:  # names of variables, and the like
            q.unit(machine.unit)
        if self.over_motion:
            if machine.task.t_end is None:
                raise DalembertError(f"{self._first_over_motion()}: give t_end=, the end of the motion.")
            if len(machine.task.times) < 3:
                raise DalembertError("samples= must be three times at least: quantities are taken over the motion.")
            self._refuse_beyond()
            self.remarks += machine.refuse_open(self.over_motion)
            if any(transmits(machine.system, k) for w, k in machine.columns(self.over_motion).values() if w == "y"):
                _ = machine.rule
        if self.at_rest:
            self.remarks += machine.refuse_open(self.at_rest, rest=True)
        self._linear: Linearisation | None = None
        self._seen: dict[bytes, tuple[np.ndarray, np.ndarray] | None] = {}
        if self.modes:
            self.linear_at({})

    @functools.cached_property
    def recipe(self) -> tuple:
        """All that another process needs to make the same."""
        machine = self.machine
        given = (machine.model or machine.plain, machine.given, machine.task, machine.design.through)
        return uuid.uuid4().hex, given, self.quantities, self.spread

    def _first_over_motion(self) -> str:
        return next(q.text for q in self.quantities if q.over_motion)

    def _refuse_beyond(self) -> None:
        """Refuse quantities at times that the motion has not, and wanted courses that end before it does."""
        first, last = (float(x) for x in self.machine.task.times[[0, -1]])
        for q in self.quantities:
            for t in q.instants:
                if not within(t, first, last):
                    raise DalembertError(
                        f"{q.text}: the motion is kept from {first:g} s to {last:g} s, not at {t:g} s."
                    )
            if not (within(first, *q.covered) and within(last, *q.covered)):
                raise DalembertError(
                    f"{q.text}: the wanted course is given from {q.covered[0]:g} s to {q.covered[1]:g} s, the motion "
                    f"from {first:g} s to {last:g} s; give all of it, or another t_end=."
                )

    @property
    def linear(self) -> Linearisation:
        assert self._linear is not None
        return self._linear

    def linear_at(self, values: Mapping[str, Any]) -> None:
        """Take the small motions of this machine as those that are followed."""
        self._linear = self._linearised(values)
        count = len(oscillating(self._linear))
        if count < self.modes:
            raise DalembertError(
                f"frequency({self.modes}): '{self.machine.system.name}' has {count} oscillating mode"
                f"{'' if count == 1 else 's'} about its equilibrium."
            )
        self.__dict__.pop("_slopes", None)
        self.__dict__.pop("_frequencies", None)
        self.__dict__.pop("_batch", None)

    def _linearised(self, values: Mapping[str, Any]) -> Linearisation:
        system = self.machine.system.replace(values) if values else self.machine.system
        return linearise(system, equilibrium(system, self.machine.task.state, t=self.machine.task.t0))

    # ---- the traced function -----------------------------------------------------------------------------------

    def _function(self, x: Array) -> tuple[Array, Array]:
        at = Context(self, x)
        return jnp.concatenate(self._rows(at)), functools.reduce(jnp.logical_and, at.fine)

    def _rows(self, at: Context) -> list[Array]:
        """The numbers of each quantity: one, or one for each instant."""
        asked = zip(self.quantities, self.spread, strict=True)
        return [q.rows(at) if wide else jnp.reshape(q.value(at), (1,)) for q, wide in asked]

    @functools.cached_property
    def _slopes(self) -> Callable:
        def both(x):
            def twice(x):
                y, fine = self._function(x)
                return y, (y, fine)

            return jax.jacfwd(twice, has_aux=True)(x)

        return compiled_alone(both)

    @functools.cached_property
    def _frequencies(self) -> Callable:
        return compiled_alone(lambda x: self.linear.replace(self.machine.design.parameters(x)).frequencies)

    @functools.cached_property
    def _batch(self) -> Callable:
        return compiled_alone(jax.vmap(self._function))

    @functools.cached_property
    def courses(self) -> Courses:
        """What is measured over motions that are found one by one."""
        return Courses(self.machine.system, self.over_motion)

    def _found_alone(self, x: np.ndarray) -> np.ndarray:
        at = Alone(self, x)
        try:
            y = np.array([float(q.value(at)) for q in self.quantities])
        except DalembertError:
            return np.full(len(self.quantities), np.nan)
        return y if all(map(bool, at.fine)) else np.full(len(y), np.nan)

    @functools.cached_property
    def _slices(self) -> list[slice]:
        shapes = jax.eval_shape(lambda x: self._rows(Context(self, x)), jnp.zeros(len(self.machine.design)))
        ends = np.cumsum([0, *(s.shape[0] for s in shapes)]).tolist()
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    def parts(self, rows: np.ndarray) -> list[np.ndarray]:
        """The numbers of each quantity, of all rows (…, rows)."""
        return [rows[..., s] for s in self._slices]

    # ---- on the host ---------------------------------------------------------------------------------------------

    def values(self, x: np.ndarray) -> np.ndarray | None:
        """The numbers of all quantities."""
        found = self.slopes(x)
        return None if found is None else found[0]

    def slopes(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The numbers of all quantities and their derivatives, a column for each variable."""
        x = np.asarray(x, float)
        key = x.tobytes()
        if key not in self._seen:
            if len(self._seen) > KEPT:
                self._seen.clear()
            self._seen[key] = self._found(x)
        return self._seen[key]

    def _found(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        if not self._possible(x) or (self.modes and not self._followed(x)):
            return None
        with quiet():
            J, (y, fine) = self._slopes(x)
        J, y = np.asarray(J), np.asarray(y)
        return (y, J) if bool(fine) and np.all(np.isfinite(y)) and np.all(np.isfinite(J)) else None

    def batch(self, X: np.ndarray) -> np.ndarray:
        """The numbers for many designs, a row for each; NaN where a design has none."""
        X = np.asarray(X, float)
        if self.over_motion and self.machine.alone:
            _ = self.courses  # refuses what it does not know, by name
            possible = (self._possible(x) for x in X)
            missing = np.full(len(self.quantities), np.nan)
            return np.array([self._found_alone(x) if there else missing for x, there in zip(X, possible, strict=True)])
        if self.modes:  # modes are followed from one design, so one by one
            found = [self.values(x) for x in X]
            width = self._slices[-1].stop
            return np.array([np.full(width, np.nan) if y is None else y for y in found])
        possible = np.array([self._possible(x) for x in X], bool)
        out = np.full((len(X), self._slices[-1].stop), np.nan)
        rows = np.flatnonzero(possible)
        for first in range(0, len(rows), TOGETHER):
            some = rows[first : first + TOGETHER]
            filled = np.resize(some, TOGETHER)  # one program for all
            with quiet():
                y, fine = (np.asarray(z)[: len(some)] for z in self._batch(X[filled]))
            out[some] = np.where(fine[:, None] & np.all(np.isfinite(y), axis=1, keepdims=True), y, np.nan)
        return out

    def _possible(self, x: np.ndarray) -> bool:
        """Whether there is such a machine: masses are positive, and its joints close at the start."""
        return bool(np.all(np.isfinite(x))) and self.machine.closed(x) is not None

    def _followed(self, x: np.ndarray) -> bool:
        """Whether there are frequencies: those of the machine linearised anew, followed from there if they differ."""
        values = self.machine.values(x)
        try:
            anew = self._linearised(values)
        except DalembertError:
            return False
        own = oscillating(anew)
        followed = np.asarray(self._frequencies(x))[oscillating(self.linear)[: self.modes]]
        fresh = np.array([anew.modes[k].frequency for k in own[: self.modes]])
        if len(fresh) < self.modes:
            return False
        if not np.allclose(fresh, followed, rtol=SAME, atol=0):
            self.linear_at(values)
        return True

    def reason(self, x: np.ndarray) -> str:
        """Why a design has no such numbers, as a sentence."""
        x = np.asarray(x, float)
        try:
            values = self.machine.values(x)
            system = self.machine.system.replace(values)
            start = self.machine.start(x, system)
            if self.over_motion:
                start = consistent_state(system, start, t=self.machine.task.t0)
                ended = self.machine.motion(values, start)
                if ended.status is not Status.done:
                    return ended.status.message
            if self.at_rest or self.modes:
                equilibrium(system, start, t=self.machine.task.t0)
        except DalembertError as error:
            return str(error)
        return "Its numbers or their derivatives are not finite: it passes a singular position."


@contextlib.contextmanager
def quiet():
    """Without warnings: what is refused is reported by name, once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
