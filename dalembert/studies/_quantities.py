"""8 · studies: quantities: one number of a machine, for objectives, constraints and sensitivities.

    peak("pin.Fx", "pin.Fy")      the largest length of a measured vector over the motion
    rms("effort"), mean("gap"), final("tip.y"), integral("power"), largest("gap"), least("gap"), at_time("tip.x", 0.3)
    deviation("tip.x", times, values)   root mean square distance from a wanted course
    resting("spring"), frequency(1), parameter("crank.mass")

They add, and can be multiplied and divided; `<=`, `>=` and `equals` make constraints of them.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import Array
from dalembert.studies._measure import crest, mean_over_time, over_time

if TYPE_CHECKING:
    from dalembert.studies._evaluate import Context


@dataclass(frozen=True, eq=False, repr=False)
class Quantity:
    """One number of a machine."""

    @abstractmethod
    def value(self, at: Context) -> Any:
        """The number, for a machine that may be traced."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What it is, as it is written."""

    def unit(self, units: Callable[[str], str]) -> str:
        """Its unit, from those of measured channels; "" where it is not known."""
        return ""

    @property
    def over_motion(self) -> tuple[str, ...]:
        """The channels that it needs of a motion."""
        return ()

    @property
    def instants(self) -> tuple[float, ...]:
        """Times that the motion must reach."""
        return ()

    @property
    def covered(self) -> tuple[float, float]:
        """The part of time in which it is defined."""
        return -np.inf, np.inf

    @property
    def at_rest(self) -> tuple[str, ...]:
        """The channels that it needs of the machine at rest."""
        return ()

    @property
    def modes(self) -> int:
        """How many frequencies it needs."""
        return 0

    def rows(self, at: Context) -> Any:
        """Numbers of which the largest is the value: smooth where their largest is not."""
        return jnp.reshape(self.value(at), (1,))

    @property
    def several(self) -> bool:
        """Whether `rows` are many."""
        return False

    @property
    def root(self) -> bool:
        """Whether its square is smooth where it is zero, and it is not."""
        return False

    def __repr__(self) -> str:
        return self.text

    def __add__(self, other) -> Quantity:
        return Combined(operator.add, "+", (self, quantity(other)))

    def __radd__(self, other) -> Quantity:
        return Combined(operator.add, "+", (quantity(other), self))

    def __sub__(self, other) -> Quantity:
        return Combined(operator.sub, "-", (self, quantity(other)))

    def __rsub__(self, other) -> Quantity:
        return Combined(operator.sub, "-", (quantity(other), self))

    def __mul__(self, other) -> Quantity:
        return Combined(operator.mul, "*", (self, quantity(other)))

    def __rmul__(self, other) -> Quantity:
        return Combined(operator.mul, "*", (quantity(other), self))

    def __truediv__(self, other) -> Quantity:
        return Combined(operator.truediv, "/", (self, quantity(other)))

    def __neg__(self) -> Quantity:
        return Combined(operator.mul, "*", (Number(-1.0), self))

    def __pow__(self, other) -> Quantity:
        return Combined(operator.pow, "**", (self, quantity(other)))

    def __le__(self, most: float) -> Bound:
        return Bound(self, -np.inf, _limit(self, most))

    def __ge__(self, least: float) -> Bound:
        return Bound(self, _limit(self, least), np.inf)

    def equals(self, value: float) -> Bound:
        """The constraint that it has this value."""
        return Bound(self, _limit(self, value), _limit(self, value))


@dataclass(frozen=True, eq=False, repr=False)
class Bound:
    """A constraint: least ≤ quantity ≤ most."""

    quantity: Quantity
    least: float
    most: float

    @property
    def text(self) -> str:
        q = self.quantity.text
        if self.least == self.most:
            return f"{q} = {self.least:g}"
        return f"{q} <= {self.most:g}" if np.isfinite(self.most) else f"{q} >= {self.least:g}"

    def __repr__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        raise DalembertError(
            f"'{self.text}' is a constraint, neither true nor false. State two sides as two constraints: "
            "[q >= least, q <= most]."
        )

    def violation(self, value: float) -> float:
        """By how much a value violates it."""
        return float(max(self.least - value, value - self.most, 0.0))


def _limit(what: Quantity, value) -> float:
    if isinstance(value, bool) or np.ndim(value) or not isinstance(value, int | float | np.number | np.ndarray):
        raise DalembertError(f"The limit of {what.text} must be a number, not {value!r}.")
    if not np.isfinite(float(value)):
        raise DalembertError(f"The limit of {what.text} must be a finite number, not {value!r}.")
    return float(value)


def quantity(x) -> Quantity:
    """A quantity, or a number as one."""
    if isinstance(x, Quantity):
        return x
    if isinstance(x, str):
        raise DalembertError(
            f"'{x}' is a course in time, not a number: say what of it, final('{x}'), peak('{x}'), mean('{x}'), "
            f"rms('{x}'), integral('{x}') of da.studies, or resting('{x}') of the machine at rest."
        )
    if isinstance(x, int | float | np.number) and not isinstance(x, bool):
        return Number(float(x))
    raise DalembertError(f"{x!r} is no quantity; use final, peak, mean, rms, integral, frequency … of da.studies.")


@dataclass(frozen=True, eq=False, repr=False)
class Number(Quantity):
    """A plain number."""

    number: float

    def value(self, at: Context) -> Any:
        return jnp.asarray(self.number)

    @property
    def text(self) -> str:
        return f"{self.number:g}"


@dataclass(frozen=True, eq=False, repr=False)
class Combined(Quantity):
    """Two quantities joined by an operation."""

    operation: Callable
    sign: str
    parts: tuple[Quantity, Quantity]

    def value(self, at: Context) -> Any:
        return self.operation(*(p.value(at) for p in self.parts))

    @property
    def text(self) -> str:
        shown = [f"({p.text})" if isinstance(p, Combined) and self.sign not in "+" else p.text for p in self.parts]
        return f" {self.sign} ".join(shown)

    def unit(self, units: Callable[[str], str]) -> str:
        found = [p.unit(units) for p in self.parts]
        if self.sign in "+-":
            return found[0] if found[0] == found[1] else found[0] or found[1]
        if self.sign == "**":
            return ""
        return next((u for u, p in zip(found, self.parts[::-1], strict=True) if isinstance(p, Number)), "")

    @property
    def over_motion(self) -> tuple[str, ...]:
        return tuple(c for p in self.parts for c in p.over_motion)

    @property
    def instants(self) -> tuple[float, ...]:
        return tuple(t for p in self.parts for t in p.instants)

    @property
    def covered(self) -> tuple[float, float]:
        first, last = zip(*(p.covered for p in self.parts), strict=True)
        return max(first), min(last)

    @property
    def at_rest(self) -> tuple[str, ...]:
        return tuple(c for p in self.parts for c in p.at_rest)

    @property
    def modes(self) -> int:
        return max(p.modes for p in self.parts)


# ---- over a motion ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class OverMotion(Quantity):
    """A number made of the course of channels: `reduce(t, y)` of times and the length of the channels' vector, or of
    the one channel; `reduce_rows` gives numbers of which it is the largest."""

    name: str
    channels: tuple[str, ...]
    reduce: Callable
    arguments: str = ""
    per: Callable[[str], str] = field(default=lambda unit: unit)
    spread: Callable | None = None
    root: bool = False  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    instants: tuple[float, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    covered: tuple[float, float] = (-np.inf, np.inf)  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]

    def _course(self, at: Context) -> tuple[Array, Array]:
        t, y = at.course(self.channels)
        return t, y

    def value(self, at: Context) -> Any:
        return self.reduce(*self._course(at))

    def rows(self, at: Context) -> Any:
        return super().rows(at) if self.spread is None else jnp.ravel(self.spread(*self._course(at)))

    @property
    def several(self) -> bool:
        return self.spread is not None

    @property
    def text(self) -> str:
        return f"{self.name}({', '.join(self.channels)}{self.arguments})"

    def unit(self, units: Callable[[str], str]) -> str:
        return self.per(units(self.channels[0]))

    @property
    def over_motion(self) -> tuple[str, ...]:
        return self.channels


def _names(names, what: str) -> tuple[str, ...]:
    if not names or any(not isinstance(n, str) for n in names):
        raise DalembertError(f"{what}: name what is measured, {what}('tip.y'); got {', '.join(map(repr, names))}.")
    return tuple(names)


def length(y: Array) -> Array:
    """The length of a vector at each time; of one channel itself. Its derivative at zero is zero."""
    if y.shape[1] == 1:
        return y[:, 0]
    return _root(jnp.sum(y**2, axis=1))


def _root(square: Array) -> Array:
    safe = jnp.where(square > 0, square, 1.0)
    return jnp.where(square > 0, jnp.sqrt(safe), 0.0)


def _magnitude(y: Array) -> Array:
    return jnp.abs(y[:, 0]) if y.shape[1] == 1 else length(y)


def summit(t: Array, s: Array) -> Array:
    """The top of a course, by the parabola through its largest value and its neighbours."""
    k = jnp.clip(jnp.argmax(s), 1, len(s) - 2)
    times, (a, b, c) = ([x[k + d] for d in (-1, 0, 1)] for x in (t, s))
    return crest(times, (a, b, c), (b >= a) & (b >= c), jnp.max(s), jnp)


def _summits(t: Array, s: Array) -> Array:
    """The value at each time, raised by the same parabola where it is a local maximum."""
    if len(s) < 3:
        return s
    times, (a, b, c) = ([x[:-2], x[1:-1], x[2:]] for x in (t, s))
    return jnp.concatenate([s[:1], crest(times, (a, b, c), (b >= a) & (b >= c), b, jnp), s[-1:]])


def final(*channels: str) -> Quantity:
    """The value at the end of the motion; of several channels the length of their vector."""
    return OverMotion("final", _names(channels, "final"), lambda t, y: length(y)[-1])


def at_time(channel: str, time: float) -> Quantity:
    """The value at a time, linear between saved ones."""
    (name,) = _names((channel,), "at_time")
    if isinstance(time, bool) or np.ndim(time) or not isinstance(time, int | float | np.number):
        raise DalembertError(f"at_time: the time must be a number, in seconds, not {time!r}.")
    at = float(time)
    return OverMotion(
        "at_time", (name,), lambda t, y: jnp.interp(at, t, y[:, 0]), f", {at:g}", instants=(at,)
    )  # fmt: skip


def peak(*channels: str) -> Quantity:
    """The largest absolute value; of several channels the largest length of their vector. Between saved times a
    parabola finds the top."""
    return OverMotion(
        "peak", _names(channels, "peak"), lambda t, y: summit(t, _magnitude(y)),
        spread=lambda t, y: _summits(t, _magnitude(y)),
    )  # fmt: skip


def largest(channel: str) -> Quantity:
    """The largest value."""
    return OverMotion(
        "largest",
        _names((channel,), "largest"),
        lambda t, y: summit(t, y[:, 0]),
        spread=lambda t, y: _summits(t, y[:, 0]),
    )


def least(channel: str) -> Quantity:
    """The smallest value."""
    return OverMotion("least", _names((channel,), "least"), lambda t, y: -summit(t, -y[:, 0]))


def integral(*channels: str) -> Quantity:
    """The integral over time, by the trapezoidal rule on the saved times."""
    per = lambda unit: f"{unit} s" if unit else "s"  # noqa: E731
    return OverMotion("integral", _names(channels, "integral"), lambda t, y: over_time(t, length(y)), per=per)


def mean(*channels: str) -> Quantity:
    """The mean over time."""
    return OverMotion("mean", _names(channels, "mean"), lambda t, y: mean_over_time(t, length(y)))


def rms(*channels: str) -> Quantity:
    """The root mean square over time; of several channels that of their vector."""
    return OverMotion(
        "rms", _names(channels, "rms"), lambda t, y: _root(mean_over_time(t, jnp.sum(y**2, 1))),
        root=True,
    )  # fmt: skip


def deviation(channels: str | tuple[str, ...] | list[str], times, values) -> Quantity:
    """The root mean square distance of channels from a wanted course: `values` with a row for each time and a column
    for each channel, linear between times."""
    names = _names((channels,) if isinstance(channels, str) else tuple(channels), "deviation")
    t0, wanted = np.asarray(times, float), np.asarray(values, float).reshape(len(np.atleast_1d(times)), -1)
    if wanted.shape != (len(t0), len(names)) or t0.ndim != 1:
        raise DalembertError(
            f"deviation: values must have {len(names)} column{'s' if len(names) > 1 else ''} and a row for each of the "
            f"{len(t0)} times; got shape {np.shape(values)}."
        )
    if not (np.all(np.isfinite(wanted)) and np.all(np.isfinite(t0)) and np.all(np.diff(t0) > 0)):
        raise DalembertError("deviation: times must rise, and all numbers must be finite.")

    def reduce(t, y):
        course = jnp.stack([jnp.interp(t, t0, wanted[:, k]) for k in range(len(names))], axis=1)
        return _root(jnp.mean(jnp.sum((y - course) ** 2, axis=1)))

    return OverMotion("deviation", names, reduce, root=True, covered=(float(t0[0]), float(t0[-1])))


def over(reduce: Callable, *channels: str, name: str = "over", unit: str = "") -> Quantity:
    """Your own number of a motion: `reduce(t, y)` with times and a column of y for each channel, by `jax.numpy`."""
    return OverMotion(name, _names(channels, "over"), reduce, per=lambda _: unit)


# ---- of the machine at rest, of small motions, of the design ---------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Resting(Quantity):
    """What is measured of the machine in its equilibrium."""

    channel: str

    def value(self, at: Context) -> Any:
        return at.resting(self.channel)

    @property
    def text(self) -> str:
        return f"resting({self.channel})"

    def unit(self, units: Callable[[str], str]) -> str:
        return units(self.channel)

    @property
    def at_rest(self) -> tuple[str, ...]:
        return (self.channel,)


def resting(channel: str) -> Quantity:
    """A measured number of the machine in its equilibrium (`da.equilibrium`)."""
    return Resting(*_names((channel,), "resting"))


@dataclass(frozen=True, eq=False, repr=False)
class Frequency(Quantity):
    """An undamped natural frequency about the equilibrium."""

    number: int

    def value(self, at: Context) -> Any:
        return at.frequencies[self.number - 1]

    @property
    def text(self) -> str:
        return f"frequency({self.number})"

    def unit(self, units: Callable[[str], str]) -> str:
        return "Hz"

    @property
    def modes(self) -> int:
        return self.number


def frequency(number: int = 1) -> Quantity:
    """The natural frequency of a small motion about the equilibrium, in Hz; 1 is the lowest that is not zero."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise DalembertError(f"frequency: modes are numbered from 1; got {number!r}.")
    return Frequency(number)


@dataclass(frozen=True, eq=False, repr=False)
class Parameter(Quantity):
    """A variable of the design."""

    name: str

    def value(self, at: Context) -> Any:
        return at.variable(self.name)

    @property
    def text(self) -> str:
        return f"parameter({self.name})"

    def unit(self, units: Callable[[str], str]) -> str:
        return units(self.name)


def parameter(name: str) -> Quantity:
    """The value of a variable of the design itself."""
    return Parameter(*_names((name,), "parameter"))
