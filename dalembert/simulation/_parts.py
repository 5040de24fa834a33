"""6 · simulation: a motion marched in parts, each by a plain machine: common to friction that sticks and to contact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dalembert.simulation._prepare import Prepared
from dalembert.simulation._solution import Solution
from dalembert.stabilise import State


class PartMarch:
    """Marches stretches of a part and keeps what is saved of them; `run` is `simulate` for a plain machine."""

    def __init__(self, run, t0: float, t_end: float, times, settings: dict[str, Any]):
        self.run, self.settings = run, settings
        self.t0, self.t_end, self.times = t0, t_end, times
        self.saved: list[tuple] = []  # (t, q, v, work) of each stretch
        self.work = np.zeros(2)
        self.reached = t0
        self.stretch = (t_end - t0) / 16
        self.stats: dict[str, Any] = {}
        self.integrator = ""

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

    def keep(self, whole: Solution, until: float, wanted, after: State, ready) -> None:
        """Save what was wanted of a stretch, and its work."""
        t, q, v, work = (np.asarray(x) for x in (whole.t, whole.q, whole.v, whole.work))
        times = self.times if self.times is not None else wanted
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
