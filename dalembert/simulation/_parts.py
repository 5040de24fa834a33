"""6 · simulation: a motion marched in parts, each by a plain machine: common to friction that sticks and to contact."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from dalembert._results import AssemblyWarning, SimulationError, Status, warn_caller
from dalembert._typing import is_traced
from dalembert.simulation._begin import start_warnings
from dalembert.simulation._prepare import Prepared, or_usual
from dalembert.simulation._solution import Solution
from dalembert.stabilise import Assembled, State
from dalembert.systems import AbstractSystem

INSIDE = 6
"""Instants in each step at which it is looked at what may end a part."""
FEW, MANY = 60, 600
"""Steps of a stretch that is marched before it is looked at: with fewer the next one is longer, with more shorter."""
LITTLE = 1e-3
"""Share of a stretch that must be marched where it fails later on, to be looked at without the rest."""
CROWDED = 1e-6
"""Share of the run in which a crowd of parts comes ever faster."""


class PartMarch:
    """A motion, part after part. It marches stretches of a part and keeps what is saved of them; `run` is `simulate`
    for a plain machine, `save` the times that are saved, or "steps"."""

    short: ClassVar[float]
    """A part shorter than this share of the run has no length."""
    chatter: ClassVar[int]
    """Parts without a length, one after the other, after which a run is stopped."""
    crowd: ClassVar[int]
    """So many parts within a small share of the run: they would come ever faster."""

    def __init__(self, run, t0: float, t_end: float, save, settings: dict[str, Any]):
        self.run, self.settings = run, settings
        self.t0, self.t_end, self.times = float(t0), float(t_end), None if isinstance(save, str) else save
        self.saved: list[tuple] = []  # (t, q, v, work) of each stretch
        self.work = np.zeros(2)
        self.reached = self.t0
        self.stretch = (self.t_end - self.t0) / 16
        self.stats: dict[str, Any] = {}
        self.integrator = ""
        self.lengthless, self.recent = 0, []  # parts without a length in turn, and the ends of others

    @abstractmethod
    def go(self, state: State, report) -> None:
        """All parts, from a state on."""

    @abstractmethod
    def solution(self, status: Status) -> Solution:
        """What was marched."""

    def to_end(self, state: State, report: Callable[[float], None] | None, throw: bool) -> Solution:
        """The whole motion; one that stops is an error, or (`throw` False) what was marched until then."""
        try:
            self.go(state, report)
        except SimulationError as error:
            solution = self.solution(error.solution.status if error.solution is not None else Status.not_finite)
            if throw:
                raise SimulationError(error.args[0], solution) from None
            return solution
        return self.solution(Status.done)

    def failed(self, sentence: str) -> SimulationError:
        return SimulationError(f"{sentence} It stopped at t = {self.reached:.6g} s.", None)

    # ---- the start -----------------------------------------------------------------------------------------

    def started(self, system: AbstractSystem, found: Assembled, given) -> State:
        """A start that was closed; says what was changed, `given` are the velocities before."""
        warnings, changed = start_warnings(system, found, given, self.t0)
        for sentence in warnings:
            warn_caller(f"{system.name}: {sentence}", AssemblyWarning)
        self.stats = {"start_moved": float(found.moved), "start_velocity_changed": changed}
        return State(*(np.asarray(x, float) for x in found.state))

    def keep_start(self, state: State) -> None:
        """Save the start, if it is wanted."""
        if self.times is not None and self.times.size and self.times[0] <= self.t0:
            first = self.times <= self.t0
            k = int(first.sum())
            self.saved.append((self.times[first], *(np.repeat(x[None], k, 0) for x in (*state, self.work))))

    # ---- parts ---------------------------------------------------------------------------------------------

    def has_length(self, begun: float, t: float) -> bool:
        """Whether a part has a length; those without one are counted."""
        if t - begun <= self.short * (self.t_end - self.t0):
            self.lengthless += 1
            return False
        self.lengthless, self.recent = 0, [*self.recent[-self.crowd :], t]
        return True

    def piles_up(self, t: float) -> bool:
        """Whether parts come ever faster."""
        near = len(self.recent) > self.crowd and t - self.recent[0] < CROWDED * (self.t_end - self.t0)
        return self.lengthless > self.chatter or near

    def stretched(self, ready: Prepared, t: float, state: State) -> tuple[float, np.ndarray, np.ndarray]:
        """The next stretch of a part: its end, the ends of its steps, and the instants at which it is looked at."""
        while True:
            end = self.t_end if t + 1.5 * self.stretch >= self.t_end else t + self.stretch
            steps = self.march(ready, t, end, state, "steps", max_steps=4096, throw=False)
            if steps.status is Status.max_steps and "max_steps" not in self.settings:
                self.stretch /= 8
                continue
            ends, done = np.asarray(steps.t), steps.status is Status.done
            failed = not done and steps.status is not Status.max_steps
            if failed and ends[-1] - t > LITTLE * (end - t):  # maybe after the end of this part
                end, done = float(ends[-1]), True
            inside = np.linspace(0.0, 1.0, INSIDE + 1)[1:]
            grid = np.unique(np.append((ends[:-1, None] + np.diff(ends)[:, None] * inside).ravel(), end))
            wanted = self.wanted(t, end, ends)
            return end, ends, np.union1d(grid[grid > t], wanted) if done else wanted

    def passed(self, whole: Solution, until: float, ends: np.ndarray, after: State, ready, report) -> None:
        """A stretch is behind: keep it until then, and say how far the run has come."""
        self.keep(whole, until, ends[1:], after, ready)
        count = len(ends) - 1
        self.stretch *= 2.0 if count < FEW else 0.5 if count > MANY else 1.0
        if report is not None:
            report((until - self.t0) / (self.t_end - self.t0))
        self.reached = until

    def march(self, ready: Prepared, t: float, end: float, state: State, samples, **more) -> Solution:
        """A stretch of one part."""
        settings = self.settings | more
        if settings.get("dt") is not None:
            settings["dt"] = min(settings["dt"], end - t)
        return self.run(ready, end, tuple(state), t0=t, samples=samples, **settings)

    def wanted(self, t: float, end: float, ends: np.ndarray) -> np.ndarray:
        """The times of a stretch that are saved, without its start."""
        times = ends if self.times is None else self.times
        return np.unique(times[(times > t) & (times <= end)])

    def keep(self, whole: Solution, until: float, ends, after: State, ready) -> None:
        """Save what was wanted of a stretch, its `ends` of steps or given times, and its work."""
        t, q, v, work = (np.asarray(x) for x in (whole.t, whole.q, whole.v, whole.work))
        times = self.times if self.times is not None else ends
        here = np.isin(t, times) & (t > t[0]) & (t <= until)
        # a time may be asked for more than once
        again = np.repeat(np.flatnonzero(here), [int(np.sum(times == x)) for x in t[here]])
        self.saved.append((t[again], q[again], v[again], self.work + work[again]))
        if self.times is None and until < t[-1]:
            last = self.march(ready, float(t[0]), until, State(q[0], v[0]), [until])
            self.saved.append((np.array([until]), after.q[None], after.v[None], self.work + np.asarray(last.work)))
            self.work = self.work + np.asarray(last.work)[-1]
        elif until < t[-1]:
            k = int(np.searchsorted(t, until, side="right")) - 1
            rest = np.zeros(2)
            if until > t[k]:
                last = self.march(ready, float(t[k]), until, State(q[k], v[k]), [until])
                rest = np.asarray(last.work)[-1]
            self.work = self.work + work[k] + rest
        else:
            self.work = self.work + work[-1]
        for name in ("accepted", "rejected", "steps", "wall_s", "compile_s"):
            self.stats[name] = self.stats.get(name, 0) + whole.stats[name]
        self.stats |= {k: x for k, x in whole.stats.items() if k in ("rtol", "atol", "dt")}
        self.integrator = whole.integrator

    def locate(self, ready: Prepared, value, a: float, b: float, state: State, at_a: float) -> tuple[float, State]:
        """Where `value` of (times, states) passes zero downwards between a, where the state is given, and b: by a
        polynomial through some instants, corrected by marching there, or by Brent's method."""
        from scipy.optimize import brentq  # takes a second to import

        seen: dict[float, tuple[float, State]] = {a: (at_a, state)}

        def gap(times) -> np.ndarray:
            found = self.march(ready, a, float(times[-1]), state, np.asarray(times))
            states = State(np.asarray(found.q), np.asarray(found.v))
            values = value(np.asarray(times), states)
            for t, one, q, v in zip(times, values, *states, strict=True):
                seen[float(t)] = (float(one), State(q, v))
            return values

        exact = 4 * np.spacing(max(abs(a), abs(b)))
        if b - a <= exact:
            gap([b])
            return b, seen[b][1]
        x = np.linspace(0.0, 1.0, 9)
        inside = np.append(a + (b - a) * x[1:-1], b)
        values = np.append(at_a, gap(inside))
        below = np.flatnonzero(values[1:] < 0)
        if not below.size or not at_a >= 0:  # it leaves its phase at once
            return (b, seen[b][1]) if at_a >= 0 else (a, state)
        high = int(below[0]) + 1
        curve = np.polynomial.Polynomial.fit(x, values, 8)
        low, top = x[high - 1], x[high]
        if curve(low) * curve(top) < 0:
            found: Any = brentq(curve, low, top, xtol=1e-15)
            root = float(found)
            for _ in range(4):
                t = a + (b - a) * root
                if not a < t <= b:
                    break
                now = gap([t])[0]
                slope = float(curve.deriv()(root))
                step = -float(now) / slope if slope else np.inf
                if abs(step) * (b - a) <= max(exact, 1e-13 * (b - a)):
                    return t, seen[t][1]
                root = min(max(root + step, 0.0), 1.0)
        t0, t1 = (a, *inside)[high - 1], float(inside[high - 1])
        known = {t: one for t, (one, _) in seen.items()}
        found = brentq(lambda t: known[t] if t in known else gap([t])[0], t0, t1, xtol=exact)
        t = float(found)
        if t not in seen:
            gap([t])
        return t, seen[t][1]

    def result(self, status: Status, system: AbstractSystem, methods: dict[str, Any], phases) -> Solution:
        """What was saved, with its phases. Its `methods` are as given, not as prepared for a part: ranks are others in
        other parts."""
        formulation, stabilisation = or_usual(methods["formulation"], methods["stabilisation"])
        n, nq = system.n, np.shape(system.q0)[-1]
        none = (np.zeros(0), np.zeros((0, nq)), np.zeros((0, n)), np.zeros((0, 2)))
        t, q, v, work = (np.concatenate(x) for x in zip(none, *self.saved, strict=True))
        counts = {k: self.stats.get(k, 0) for k in ("accepted", "rejected", "steps", "wall_s", "compile_s")}
        return Solution.of(
            system=system,
            formulation=formulation,
            stabilisation=stabilisation,
            t=t,
            q=q,
            v=v,
            work=work,
            status_code=np.asarray(status.value),
            t_end=np.asarray(self.reached),
            stats=self.stats | counts,
            integrator=self.integrator,
            chosen=methods["rule"],
            phases=phases,
        )


def is_inside(system: AbstractSystem, t_end, state, t0, save, settings: dict[str, Any]) -> bool:
    """Whether a run is asked for under jit, vmap or grad."""
    return is_traced(system, t_end, state, t0, save, *(settings.get(k) for k in ("rtol", "atol", "dt")))


def earliest(found: list[tuple[float, State]], length: float) -> tuple[float, State, np.ndarray]:
    """The first of several changes, its state, and which of them happen then; `length` of the stretch."""
    until = min(x[0] for x in found)
    after = next(x[1] for x in found if x[0] == until)
    near = 1e-12 * max(abs(until), length)
    return until, after, np.array([x[0] - until <= near for x in found])


def quoted(names: Iterable[str]) -> str:
    """Names in a sentence: 'a' and 'b'."""
    return " and ".join(f"'{n}'" for n in names)


def states_of_parts(run: Callable[..., Solution], solution: Solution, times: np.ndarray, ready) -> State:
    """The states at any times, each part marched again from its start by the machine that `ready(part)` gives."""
    phases: Any = solution.phases
    settings = {k: x for k, x in solution.stats.items() if k in ("rtol", "atol", "dt")}
    q, v = np.zeros((len(times), phases.q.shape[1])), np.zeros((len(times), phases.v.shape[1]))
    of = phases.parts(times)
    for k in np.unique(of):
        here = np.flatnonzero(of == k)
        start, state = float(phases.t[k]), State(phases.q[k], phases.v[k])
        own, back = np.unique(times[here], return_inverse=True)
        found = [(state.q[None], state.v[None])] if own[0] <= start else []
        later = own[own > start]
        if later.size:
            more = dict(settings)
            more |= {"dt": min(settings["dt"], later[-1] - start)} if "dt" in settings else {}
            part = run(ready(k), float(later[-1]), tuple(state), t0=start, samples=later,
                       integrator=solution.integrator, **more)  # fmt: skip
            found.append((np.asarray(part.q), np.asarray(part.v)))
        q[here], v[here] = (np.concatenate(x)[back] for x in zip(*found, strict=True))
    return State(q, v)
