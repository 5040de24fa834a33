"""8 · studies: what is measured of each case: texts such as "final(tip.x)" or "peak(tip.vx, tip.vy)", and numbers.

    final(c)  largest(c)  least(c)  peak(c, …)  mean(c)  rms(c, …)  integral(c)  at_time(c, time)     of a motion
    c                                                                       the whole course in time

c is a measured channel ("tip.x"), a joint coordinate ("pin.angle") or an input. Of several channels peak and rms are
those of the length of their vector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.kernels import Compiled, Kernel, Unknown, flat
from dalembert.model import value_of
from dalembert.simulation import Solution
from dalembert.systems import AbstractSystem

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Measure:
    """One thing that is measured: its name in the dataset, the function of a course or of a case, what it is given."""

    name: str
    word: str = ""
    names: tuple[str, ...] = ()
    number: float = 0.0

    @property
    def course(self) -> bool:
        """Whether it is a whole course in time."""
        return not self.word


def parsed(measure: Sequence[str] | Mapping[str, str], words: Mapping[str, int]) -> tuple[Measure, ...]:
    """The measures that texts mean; `words` are the functions there are, and how many names each takes (−1: any,
    −2: a name and a number, 0: none, −3: a number)."""
    if isinstance(measure, str):
        measure = [measure]
    pairs = measure.items() if isinstance(measure, Mapping) else [(m, m) for m in measure]
    out = []
    for name, text in pairs:
        if not isinstance(text, str) or not isinstance(name, str) or not text.strip():
            raise DalembertError(f"measure: {text!r} is no text such as 'final(tip.x)'.")
        out.append(_parsed(" ".join(name.split()).replace("/", "_"), text.strip(), words))
    names = [m.name for m in out]
    if not names:
        raise DalembertError(f"Nothing is measured; name what to keep of each case, measure=['{example(words)}'].")
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise DalembertError(f"measure: '{twice}' is there twice.")
    return tuple(out)


def example(words: Mapping[str, int]) -> str:
    """A text that could stand there."""
    word = next(iter(words), "")
    return {0: word, -3: f"{word}(1)"}.get(words.get(word, 1), f"{word}(tip.x)")


def _parsed(name: str, text: str, words: Mapping[str, int]) -> Measure:
    call = _CALL.match(text)
    word, inside = (call[1], call[2]) if call else (text, "")
    if call is None and words.get(text) != 0:
        return Measure(name, "", (text,))
    if word not in words:
        there = f"there is {', '.join(words)}" if words else "a plain name is wanted"
        raise DalembertError(f"measure: '{text}': there is no '{word}' here; {there}.{did_you_mean(word, words)}")
    takes = words[word]
    given = [x.strip() for x in inside.split(",")] if inside.strip() else []
    number = 0.0
    if takes in (-2, -3):
        if len(given) != (2 if takes == -2 else 1):
            raise DalembertError(f"measure: '{text}' must be {word}({'channel, ' if takes == -2 else ''}number).")
        try:
            number = float(value_of(given[-1]))
        except DalembertError as error:
            raise DalembertError(f"measure: '{text}': {error}") from None
        given = given[:-1]
    elif (takes >= 0 and len(given) != takes) or (takes == -1 and not given):
        wanted = {0: "no name", 1: "one name"}.get(takes, "names of channels")
        raise DalembertError(f"measure: '{text}': {word} takes {wanted}.")
    return Measure(name, word, tuple(given), number)


# ---- numbers of a course ---------------------------------------------------------------------------------------------


def _length(y: np.ndarray) -> np.ndarray:
    """The length of a vector at each time; of one channel its size."""
    return np.abs(y[..., 0]) if y.shape[2] == 1 else np.sqrt(np.sum(y * y, axis=2))


def over_time(t: Any, s: Any) -> Any:
    """The integral by the trapezoidal rule on the saved times, the last axis; of NumPy or JAX."""
    return (0.5 * (s[..., 1:] + s[..., :-1]) * (t[..., 1:] - t[..., :-1])).sum(axis=-1)


def mean_over_time(t: Any, s: Any) -> Any:
    """The mean over time, likewise."""
    return over_time(t, s) / (t[..., -1] - t[..., 0])


def within(t: float, first: float, last: float) -> bool:
    """Whether a time lies in a motion, but for rounding."""
    slack = 1e-9 * (last - first)
    return first - slack <= t <= last + slack


def crest(t: Any, s: Any, there: Any, otherwise: Any, xp: Any) -> Any:
    """Where `there`, the top of the parabola through three instants, times `t` and values `s`, if it bends down;
    elsewhere `otherwise`. `xp` is NumPy or `jax.numpy`."""
    (before, at, after), (a, b, c) = t, s
    h, g = at - before, after - at
    slope = (g * (b - a) / h + h * (c - b) / g) / (h + g)
    bend = 2 * ((c - b) / g - (b - a) / h) / (h + g)
    inside = there & (bend < 0)
    return xp.where(inside, b - 0.5 * slope**2 / xp.where(inside, bend, -1.0), otherwise)


def _top(t: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The largest value of a course; between saved times the top of the parabola through it and its neighbours."""
    rows, largest = np.arange(len(s)), np.argmax(s, axis=1)
    if s.shape[1] < 3:
        return s[rows, largest]
    k = np.clip(largest, 1, s.shape[1] - 2)
    near = rows, k + np.array([[-1], [0], [1]])
    return crest(t[near], s[near], largest == k, s[rows, largest], np)


OF_COURSES: dict[str, tuple[int, Callable]] = {
    "final": (1, lambda t, y, x: y[:, -1, 0]),
    "largest": (1, lambda t, y, x: _top(t, y[..., 0])),
    "least": (1, lambda t, y, x: -_top(t, -y[..., 0])),
    "peak": (-1, lambda t, y, x: _top(t, _length(y))),
    "mean": (1, lambda t, y, x: mean_over_time(t, y[..., 0])),
    "rms": (-1, lambda t, y, x: np.sqrt(mean_over_time(t, np.sum(y * y, axis=2)))),
    "integral": (1, lambda t, y, x: over_time(t, y[..., 0])),
    "at_time": (-2, lambda t, y, x: np.array([np.interp(x, a, b) for a, b in zip(t, y[..., 0], strict=True)])),
}
"""Functions of courses, (motions, times) and (motions, times, channels): how many names each takes, and its numbers,
one for each motion. What they make of a motion does not depend on how many there are."""


# ---- the courses of a motion -----------------------------------------------------------------------------------------


class Courses:
    """The courses in time of named channels, for one motion after the other.

    What follows from positions and velocities is computed by one kernel; accelerations, reactions and angles in space
    that count turns come from the motion's own results, as everywhere else, with whether they are unique.
    """

    def __init__(self, system: AbstractSystem, names: Sequence[str]):
        self.names = tuple(dict.fromkeys(names))
        self.numbers, self.units = {}, {}
        for name in self.names:
            found = system.channels_named(name)
            if len(found) != 1:
                inside = ", ".join(system.channel(k).name for k in found)
                raise DalembertError(f"measure: '{name}' has several numbers; name them: {inside}.")
            self.numbers[name] = int(found[0])
            self.units[name] = system.channel(found[0]).unit
        slow = {
            n: k
            for n, k in self.numbers.items()
            if (level := system.channel(k).level) >= 2 or (level == 0 and system.counts_no_turns(k))
        }
        self.loads = tuple(n for n, k in slow.items() if system.channel(k).level == 3)
        self._code = None
        quick = [n for n in self.names if n not in slow]
        if quick and not self._compile(system, [self.numbers[n] for n in quick]):
            slow |= {n: self.numbers[n] for n in quick}
        self.slow = tuple(n for n in self.names if n in slow)
        self.quick = tuple(n for n in self.names if n not in slow)

    def _compile(self, system: AbstractSystem, only: list[int]) -> bool:
        def measured(system, at):
            return system.measured(*at, only=only)

        at = (np.zeros(()), np.asarray(system.q0, float), np.asarray(system.v0, float))
        # numbers that are zero or one in this machine may be others in a case: nothing but what counts is built in
        leaves = jax.tree_util.tree_leaves(eqx.filter(system, eqx.is_array))
        whole = [np.full(np.size(x), not np.issubdtype(np.asarray(x).dtype, np.floating)) for x in leaves]
        built_in = np.concatenate([np.zeros(0, bool), *whole])
        try:
            kernel = Kernel.of("courses", measured, system, at, built_in=built_in)
        except Unknown:
            return False
        self._code = Compiled([kernel], effort=0)
        kernel.drop_graph()
        return True

    def many(self, t: np.ndarray, q: np.ndarray, v: np.ndarray, lengths, rows: np.ndarray) -> np.ndarray:
        """The quick channels of some motions, (motions, times, channels): `lengths` times of each are looked at, `rows`
        has all numbers of each motion's system."""
        out = np.full((*t.shape, len(self.quick)), np.nan)
        if self._code is not None and self.quick:
            inputs = np.concatenate([t[..., None], q, v], axis=2)
            if len(inputs) and all(n == inputs.shape[1] for n in lengths):  # all at once
                found = self._code.rows("courses", rows, inputs.reshape(-1, inputs.shape[2]))
                return found.reshape(out.shape)
            for k, n in enumerate(lengths):
                if n:
                    out[k, :n] = self._code.rows("courses", rows[k], inputs[k, :n])
        return out

    def of(self, one: Solution) -> tuple[dict[str, np.ndarray], dict[str, bool]]:
        """The course of each channel of one motion, and for each slow one whether it is unique at all times."""
        t, q, v = (np.asarray(x, float)[None] for x in (one.t, one.q, one.v))
        row = flat(eqx.filter(one.system, eqx.is_array))[None] if self.quick else np.zeros((1, 0))
        found = self.many(t, q, v, [t.shape[1]], row)[0]
        out = {n: found[:, k] for k, n in enumerate(self.quick)}
        unique: dict[str, bool] = {}
        if self.slow:
            data = one.dataset
            for name in self.slow:
                out[name], unique[name] = _labelled(data, one.system.channel(self.numbers[name]).name, name)
        return out, unique

    def refuse_unlabelled(self, system: AbstractSystem) -> None:
        """Refuse accelerations of joint coordinates that are not measured: a motion's results do not have them."""
        for name in self.slow:
            if self.numbers[name] >= len(system.channels) and system.channel(self.numbers[name]).level == 2:
                raise DalembertError(
                    f"measure: '{name}' is an acceleration that the model does not measure; say "
                    f"model.measure('name', 'coordinate', joint) and ask for 'name.acceleration'."
                )


def _labelled(data, channel: str, name: str) -> tuple[np.ndarray, bool]:
    if "channel" in data and channel in data["channel"].values:
        values = data["measurement"].sel(channel=channel).values
        return values, bool(np.all(data["unique_measurement"].sel(channel=channel).values))
    for variable, along in (("coordinate", "joint_coordinate"), ("coordinate_rate", "joint_coordinate"),
                            ("input_value", "input"), ("controller_value", "controller_state")):  # fmt: skip
        for each in (name, channel):
            each = each.removesuffix("_rate") if variable == "coordinate_rate" else each
            if variable in data and each in data[along].values:
                return data[variable].sel({along: each}).values, True
    raise DalembertError(
        f"measure: '{name}' is not among a motion's results; say model.measure(name, what, …) and ask for that."
    )


def rows_of(systems: AbstractSystem) -> np.ndarray:
    """All numbers of the systems of a batch, a row for each."""
    leaves = jax.tree_util.tree_leaves(eqx.filter(systems, eqx.is_array))
    return np.concatenate([np.asarray(x, float).reshape(len(x), -1) for x in leaves], axis=1)
