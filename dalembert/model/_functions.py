"""1 · model: functions of time (and of a body's motion) as data: a shape that is compiled, numbers that may change.

A `Function` comes from one of the makers below (`constant`, `polynomial`, `harmonic`, `step`, `table`, `expression`)
or from sums and products of these. Its `numbers` become parameters of the element that uses it, so that sweeping an
amplitude recompiles nothing. The text of an expression goes through a grammar of our own: nothing in it is executed.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalembert._results import DalembertError
from dalembert.model._frames import deg

# jax.numpy is imported where a function is evaluated: reading and checking a model file must not wait for it


class FormulaError(DalembertError):
    """A mistake in a formula or a function of time: where inside what was given; whether it is one of writing
    (`syntax`), or a name that is not known (`unknown`)."""

    def __init__(self, text: str, *path: str | int, syntax: bool = False, unknown: bool = False):
        super().__init__(text)
        self.path, self.syntax, self.unknown = path, syntax, unknown

    def inside(self, *path: str | int) -> FormulaError:
        """The same, as part of something larger."""
        return FormulaError(str(self), *path, *self.path, syntax=self.syntax, unknown=self.unknown)


@dataclass(frozen=True)
class Shape:
    """The compiled part of a function: its kind, its parts or the tree of its expression. Called with its numbers."""

    kind: str
    parts: tuple[Shape, ...] = ()
    tree: tuple = ()
    names: tuple[str, ...] = ()

    def __call__(self, t, p, values: dict[str, Any] | None = None):
        """The value at t; `values` are the variables an expression may name besides t and its parameters."""
        if self.kind in ("sum", "product"):
            return self._combined(t, p, values)
        if self.kind == "expression":
            known = {"t": t, **{name: p[name] for name in self.names}, **(values or {})}
            return evaluate(self.tree, known)
        return _SHAPES[self.kind](t, p)

    def _combined(self, t, p, values):
        found: list[Any] = [part(t, own, values) for part, own in self._with_numbers(p)]
        return sum(found[1:], start=found[0]) if self.kind == "sum" else math.prod(found[1:], start=found[0])

    def _with_numbers(self, p):
        """Its parts, each with its own numbers."""
        for k, part in enumerate(self.parts):
            yield part, {key.removeprefix(f"{k}_"): x for key, x in p.items() if key.startswith(f"{k}_")}

    def corners(self, p) -> list:
        """Times at which it is not smooth: points of its data, begin and end of its steps."""
        own = {"table": ("breaks",), "step": ("begin", "end")}.get(self.kind, ())
        return [p[key] for key in own] + [x for part, numbers in self._with_numbers(p) for x in part.corners(numbers)]

    @property
    def may_bend(self) -> bool:
        """Whether it may have corners at times that its numbers do not tell: a formula with abs, sign, min or max."""
        return any(x in ("abs", "sign", "min", "max") for x in _words(self.tree)) or any(x.may_bend for x in self.parts)

    def data_span(self, p) -> tuple[Any, Any] | None:
        """First and last time of its data; None of what has none."""
        return (p["breaks"][0], p["breaks"][-1]) if self.kind == "table" else None


def _words(tree: tuple) -> list:
    """All words of the tree of an expression."""
    return [y for x in tree for y in (_words(x) if isinstance(x, tuple) else [x])]


class Function:
    """A function of time as data. `f(t)` evaluates it; `+` and `*` combine functions and numbers."""

    def __init__(self, shape: Shape, numbers: dict[str, np.ndarray], data: Any):
        self.shape, self.numbers, self.data = shape, numbers, data

    def __call__(self, t):
        from dalembert import _runtime as _runtime  # float64 first: a user may call this before anything else

        return self.shape(t, self.numbers)

    def __add__(self, other):
        return total(self, other)

    def __mul__(self, other):
        return product(self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other):
        return total(self, product(-1.0, other))

    def __rsub__(self, other):
        return total(other, product(-1.0, self))

    def __neg__(self):
        return product(-1.0, self)

    def __eq__(self, other):
        return isinstance(other, Function) and self.data == other.data

    def __hash__(self):
        return hash(self.shape)

    def __repr__(self):
        return f"Function({self.data!r})"


# ---- the makers ----------------------------------------------------------------------------------------------


def constant(value: float) -> Function:
    """The same number at all times."""
    value = _finite("constant", value)
    return Function(Shape("constant"), {"value": np.asarray(value)}, value)


def polynomial(coefficients: Sequence[float]) -> Function:
    """c₀ + c₁ t + c₂ t² + …, coefficients from the lowest power up."""
    c = _numbers("polynomial", coefficients)
    return Function(Shape("polynomial"), {"coefficients": c}, {"polynomial": c.tolist()})


def harmonic(amplitude: float, omega: float, phase: float = 0.0, offset: float = 0.0) -> Function:
    """offset + amplitude · sin(omega t + phase); omega in rad/s."""
    data = {"amplitude": amplitude, "omega": omega, "phase": phase, "offset": offset}
    data = {k: _finite(f"harmonic: {k}", x, k) for k, x in data.items()}
    return Function(Shape("harmonic"), {k: np.asarray(x) for k, x in data.items()}, {"harmonic": data})


def step(begin: float, end: float, low: float = 0.0, high: float = 1.0) -> Function:
    """From `low` before `begin` to `high` after `end` by a quintic: speed and acceleration vanish at both ends."""
    data = {"begin": begin, "end": end, "low": low, "high": high}
    data = {k: _finite(f"step: {k}", x, k) for k, x in data.items()}
    if not data["end"] > data["begin"]:
        raise FormulaError(f"step: end={end} must be later than begin={begin}.", "end")
    return Function(Shape("step"), {k: np.asarray(x) for k, x in data.items()}, {"step": data})


def table(times: Sequence[float], values: Sequence[float], degree: int = 3) -> Function:
    """A spline through the points (times, values), `degree` 1 to 5; beyond the ends it is linear."""
    x, y = _numbers("table: times", times, "times"), _numbers("table: values", values, "values")
    breaks, coefficients = spline_through(x, y, degree, "table")
    data = {"table": {"times": x.tolist(), "values": y.tolist()} | ({} if degree == 3 else {"degree": degree})}
    return Function(Shape("table"), {"breaks": breaks, "coefficients": coefficients}, data)


def expression(text: str, parameters: dict[str, float] | None = None) -> Function:
    """A formula of t, e.g. "0.1*sin(2*pi*t) + step(t, 0, 1)"; `parameters` are numbers it calls by name.

    It knows `pi` and `deg` (π/180): "360*deg*t" is one turn per second.
    """
    given = {k: _finite(f"parameter '{k}'", x, "parameters", k) for k, x in (parameters or {}).items()}
    tree = parse(text, given)
    unknown = sorted(names_in(tree) - {"t"} - set(given))
    if unknown:
        raise FormulaError(
            f"expression '{text}': '{unknown[0]}' is unknown; it may use t and {list(given) or 'numbers'}.",
            unknown=True,
        )
    data: Any = text if not given else {"expression": {"text": text, "parameters": given}}
    return Function(
        Shape("expression", tree=tree, names=tuple(given)), {k: np.asarray(x) for k, x in given.items()}, data
    )


def total(*parts) -> Function:
    """The sum of functions and numbers."""
    return _combine("sum", parts)


def product(*parts) -> Function:
    """The product of functions and numbers."""
    return _combine("product", parts)


def function_of(value) -> Function:
    """A function from what a file or a user may state: a number, a formula, a mapping with one maker, a Function."""
    if isinstance(value, Function):
        return value
    if isinstance(value, bool) or value is None:
        raise FormulaError(f"{value!r} is not a function of time: give a number, a formula or a mapping.")
    if isinstance(value, int | float | np.number) or getattr(value, "ndim", None) == 0:  # an array of NumPy or JAX
        return constant(float(value))
    if isinstance(value, str):
        return expression(value)
    if isinstance(value, dict) and len(value) == 1:
        ((kind, inside),) = value.items()
        try:
            if (found := _made(kind, inside)) is not None:
                return found
        except FormulaError as error:
            raise error.inside(kind) from None
    raise FormulaError(
        f"{value!r} is not a function of time: give a number, a formula, or one of constant, polynomial, harmonic, "
        "step, table, expression, sum, product."
    )


def _made(kind: str, inside) -> Function | None:
    """The function that a mapping {kind: inside} states; None if there is no such kind."""
    if kind in ("sum", "product") and isinstance(inside, list | tuple):
        return _combine(kind, inside)
    if kind in ("polynomial", "constant"):
        return polynomial(inside) if kind == "polynomial" else constant(inside)
    makers: dict[str, Callable[..., Function]] = {
        "harmonic": harmonic, "step": step, "table": table, "expression": expression
    }  # fmt: skip
    if kind not in makers or not isinstance(inside, dict):
        return None
    try:
        return makers[kind](**inside)
    except TypeError as error:
        raise FormulaError(f"{kind}: {str(error).split(') ')[-1].split('() ')[-1]}.") from None


def _combine(kind: str, parts) -> Function:
    functions = []
    for k, part in enumerate(parts):
        try:
            functions.append(function_of(part))
        except FormulaError as error:
            raise error.inside(k) from None
    if not functions:
        raise FormulaError(f"{kind}: give at least one part.")
    numbers = {f"{k}_{key}": x for k, f in enumerate(functions) for key, x in f.numbers.items()}
    return Function(Shape(kind, tuple(f.shape for f in functions)), numbers, {kind: [f.data for f in functions]})


def _finite(what: str, value, *path: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise FormulaError(f"{what} must be a number, not {value!r}.", *path) from None
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise FormulaError(f"{what} must be a finite number, not {value!r}.", *path)
    return number


def _numbers(what: str, values, *path: str) -> np.ndarray:
    try:
        array = np.asarray(values, float)
    except (TypeError, ValueError):
        raise FormulaError(f"{what} must be a list of numbers, not {values!r}.", *path) from None
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise FormulaError(f"{what} must be a list of finite numbers, not {values!r}.", *path)
    return array


# ---- their values --------------------------------------------------------------------------------------------


def _polynomial(t, p):
    found = 0.0
    for k in range(p["coefficients"].shape[-1] - 1, -1, -1):
        found = found * t + p["coefficients"][k]
    return found


def _harmonic(t, p):
    import jax.numpy as jnp

    return p["offset"] + p["amplitude"] * jnp.sin(p["omega"] * t + p["phase"])


def quintic(s):
    """0 for s ≤ 0, 1 for s ≥ 1, between them 10 s³ − 15 s⁴ + 6 s⁵."""
    import jax.numpy as jnp

    s = jnp.clip(s, 0.0, 1.0)
    return s**3 * (10 - 15 * s + 6 * s * s)


def _step(t, p):
    return p["low"] + (p["high"] - p["low"]) * quintic((t - p["begin"]) / (p["end"] - p["begin"]))


def _table(t, p):
    import jax.numpy as jnp

    breaks, coefficients = p["breaks"], p["coefficients"]
    inside = jnp.clip(t, breaks[0], breaks[-1])
    value, slope, _ = spline_jet(breaks, coefficients, inside)
    return value + slope * (t - inside)


_SHAPES: dict[str, Callable] = {
    "constant": lambda t, p: p["value"] + 0.0 * t,
    "polynomial": _polynomial,
    "harmonic": _harmonic,
    "step": _step,
    "table": _table,
}


# ---- splines -------------------------------------------------------------------------------------------------

_sketch: ContextVar[list[str] | None] = ContextVar("sketch", default=None)


@contextmanager
def sketching():
    """Within this, splines are checked but not made (SciPy takes long to load); gives the list of those left out.

    A model file is first read so: a bad one is refused at once.
    """
    left_out: list[str] = []
    token = _sketch.set(left_out)
    try:
        yield left_out
    finally:
        _sketch.reset(token)


def spline_through(x: np.ndarray, y: np.ndarray, degree: int, who: str, *, closed: bool = False):
    """Breaks and coefficients (degree + 1, pieces, …), highest power first, of the spline through (x, y)."""
    if isinstance(degree, bool) or degree not in (1, 2, 3, 4, 5):
        raise FormulaError(f"{who}: degree={degree!r} must be 1 … 5.", "degree")
    if len(x) != len(y):
        raise FormulaError(f"{who}: {len(x)} and {len(y)} values do not pair up.")
    if len(x) < degree + 1:
        raise FormulaError(f"{who}: a spline of degree {degree} needs at least {degree + 1} points, not {len(x)}.")
    if not np.all(np.diff(x) > 0):
        raise FormulaError(f"{who}: its first column must rise from point to point.")
    if (left_out := _sketch.get()) is not None:
        left_out.append(who)
        return x, np.zeros((degree + 1, len(x) - 1, *y.shape[1:]))
    from scipy.interpolate import make_interp_spline

    kind = "periodic" if closed else ("natural" if degree == 3 and len(x) > 3 else None)
    powers = range(degree, -1, -1)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error")  # ill-conditioned
            found = make_interp_spline(x, y, k=degree, bc_type=kind)
            breaks = np.unique(found.t[(found.t >= x[0]) & (found.t <= x[-1])])
            coefficients = np.stack([found.derivative(k)(breaks[:-1]) / math.factorial(k) for k in powers])
        good = np.all(np.isfinite(coefficients))
    except (ValueError, ArithmeticError, Warning):
        good = False
    if not good:
        raise FormulaError(f"{who}: no spline goes through these points; some lie too close together or too far apart.")
    return breaks, coefficients


def spline_jet(breaks, coefficients, x):
    """The value, slope and second derivative at x of the spline of `spline_through`, by Horner's scheme."""
    import jax.numpy as jnp

    pieces = coefficients.shape[1]
    breaks = jnp.asarray(breaks)
    # the last break that is not beyond x, by halving, written out: what jnp.searchsorted is made of has no machine code
    k = jnp.zeros(jnp.shape(x), int)
    for power in reversed(range((pieces - 1).bit_length())):
        ahead = jnp.minimum(k + 2**power, pieces - 1)
        k = jnp.where(breaks[ahead] <= x, ahead, k)
    s, c = x - breaks[k], jnp.asarray(coefficients)[:, k]
    value, slope, half = c[0], jnp.zeros_like(c[0]), jnp.zeros_like(c[0])
    for row in range(1, coefficients.shape[0]):
        half = half * s + slope
        slope = slope * s + value
        value = value * s + c[row]
    return value, slope, 2 * half


# ---- the grammar ---------------------------------------------------------------------------------------------
#
#   sum     := term (("+" | "-") term)*          power := atom (("^" | "**") factor)?
#   term    := factor (("*" | "/") factor)*      atom  := number | name | name "(" sum ("," sum)* ")" | "(" sum ")"
#   factor  := ("-" | "+") factor | power

LONGEST, DEEPEST = 2000, 40
CONSTANTS = {"pi": math.pi, "deg": deg}
ARITIES = {
    "sin": (1,), "cos": (1,), "tan": (1,), "asin": (1,), "acos": (1,), "atan": (1,), "atan2": (2,), "sinh": (1,),
    "cosh": (1,), "tanh": (1,), "exp": (1,), "log": (1,), "sqrt": (1,), "abs": (1,), "sign": (1,), "min": (2,),
    "max": (2,), "step": (3, 5),
}  # fmt: skip
FORMULA_WORDS = frozenset(("t", *CONSTANTS, *ARITIES))
"""Reserved words of all formulas; a parameter cannot have these names."""
_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*(?:\.\w+)?)|(\*\*|[-+*/^(),]))"
)


def parse(text: Any, parameters: Iterable[str] = ()) -> tuple:
    """The tree of a formula, nested tuples; raises `DalembertError` with the place of the first mistake."""
    if taken := FORMULA_WORDS.intersection(parameters):
        raise FormulaError(f"parameter '{min(taken)}': this word has its own meaning in formulas; choose another.")
    if not isinstance(text, str) or not text.strip():
        raise FormulaError("an expression must be a text such as '2*sin(t)'.")
    if len(text) > LONGEST:
        raise FormulaError(f"an expression may have {LONGEST} characters, this one has {len(text)}.")
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the tokens of a formula."""

    def __init__(self, text: str):
        self.text, self.at, self.depth = text, 0, 0
        self.tokens: list[tuple[str, Any, int]] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                place += len(text[place:]) - len(text[place:].lstrip())
                self._fail(f"'{text[place]}' is not understood", place)
            which = found.lastindex or 1
            self.tokens.append((("number", "name", "sign")[which - 1], found[which], found.start(which)))
            place = found.end()
        self.tokens.append(("end", "", len(text)))

    def whole(self) -> tuple:
        tree = self._sum()
        kind, token, place = self.tokens[self.at]
        if kind != "end":
            self._fail(f"'{token}' is not expected{self._times()}", place)
        self._fixed(tree)
        return tree

    def _fixed(self, tree: tuple) -> float | None:
        """The value of what does not vary, where + − * / ^ make it; refuses 1/0 and overflow."""
        kind, *rest = tree
        if kind == "number":
            return rest[0]
        values = [self._fixed(x) for x in rest if isinstance(x, tuple)]
        if kind in ("name", "call") or any(x is None for x in values):
            return None
        try:
            made = _ARITHMETIC[kind](values)
        except ArithmeticError:
            made = math.nan
        if isinstance(made, complex) or not math.isfinite(made):
            self._fail("a part of it is no finite number", 0)
        return made

    def _fail(self, what: str, place: int):
        raise FormulaError(f"expression '{_short(self.text)}': {what} (at character {place + 1}).", syntax=True)

    def _take(self, *signs: str) -> str | None:
        kind, token, _ = self.tokens[self.at]
        if kind == "sign" and token in signs:
            self.at += 1
            return token
        return None

    def _need(self, sign: str) -> None:
        if self._take(sign) is None:
            _, token, place = self.tokens[self.at]
            where = f" before '{token}'{self._times()}" if token else " at the end"
            self._fail(f"'{sign}' is missing{where}", place)

    def _times(self) -> str:
        """What to write for 6t or 6(…)."""
        (before, number, _), (kind, token, _) = self.tokens[self.at - 1 : self.at + 1]
        return f"; write {number}*{token}" if before == "number" and (kind == "name" or token == "(") else ""

    def _sum(self) -> tuple:
        self.depth += 1
        if self.depth > DEEPEST:
            self._fail(f"more than {DEEPEST} levels of brackets", self.tokens[self.at][2])
        parts = [self._term()]
        while sign := self._take("+", "-"):
            part = self._term()
            parts.append(part if sign == "+" else ("neg", part))
        self.depth -= 1
        return parts[0] if len(parts) == 1 else ("sum", *parts)

    def _term(self) -> tuple:
        parts = [self._factor()]
        while sign := self._take("*", "/"):
            part = self._factor()
            parts.append(part if sign == "*" else ("over", part))
        return parts[0] if len(parts) == 1 else ("product", *parts)

    def _factor(self) -> tuple:
        negative = False
        while sign := self._take("-", "+"):
            negative ^= sign == "-"
        base = self._atom()
        if self._take("^", "**"):
            self.depth += 1
            if self.depth > DEEPEST:
                self._fail(f"more than {DEEPEST} powers of powers", self.tokens[self.at][2])
            base = ("^", base, self._factor())
            self.depth -= 1
        return ("neg", base) if negative else base

    def _atom(self) -> tuple:
        kind, token, place = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            value = float(token)
            if not math.isfinite(value):
                self._fail(f"'{token}' is too large", place)
            return ("number", value)
        if kind == "name":
            if self._take("("):
                return self._call(token, place)
            if token in CONSTANTS:
                return ("number", CONSTANTS[token])
            if token in ARITIES:
                self._fail(f"'{token}' needs its arguments in brackets", place)
            return ("name", token)
        if token == "(":
            found = self._sum()
            self._need(")")
            return found
        self._fail(f"'{token}' is not expected" if token else "it ends too early", place)
        raise AssertionError

    def _call(self, name: str, place: int) -> tuple:
        if name not in ARITIES:
            self._fail(f"there is no function '{name}'; known are {', '.join(ARITIES)}", place)
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._need(")")
        if len(arguments) not in ARITIES[name]:
            wanted = " or ".join(map(str, ARITIES[name]))
            self._fail(f"'{name}' takes {wanted} arguments, not {len(arguments)}", place)
        return ("call", name, *arguments)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def names_in(tree: tuple) -> set[str]:
    """The variables of a formula."""
    if tree[0] == "name":
        return {tree[1]}
    return set().union(*(names_in(x) for x in tree[1:] if isinstance(x, tuple)), set())


def value_of(text: str) -> float:
    """The value of a formula without variables, '45*deg' or 'sqrt(2)/2'; '45 deg' is an angle, too. Needs no JAX."""
    degrees = _DEGREES.fullmatch(text)
    tree = parse(f"{degrees[1]}*deg" if degrees else text)
    unknown = sorted(names_in(tree))
    if unknown:
        known = ", ".join((*CONSTANTS, *_PLAIN_CALLS))
        raise FormulaError(f"expression '{_short(text)}': '{unknown[0]}' is no number; it may use {known}.")
    try:
        value = _plain_value(tree)
    except (ArithmeticError, ValueError):  # sqrt(-1), asin(2)
        value = math.nan
    if isinstance(value, complex) or not math.isfinite(value):
        raise FormulaError(f"expression '{_short(text)}': it is no finite number.")
    return float(value)


_ARITHMETIC: dict[str, Callable] = {
    "sum": math.fsum,
    "product": math.prod,
    "neg": lambda x: -x[0],
    "over": lambda x: 1.0 / x[0],
    "^": lambda x: x[0] ** x[1],
}
_DEGREES = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?:deg|degrees?|°)\s*")
_PLAIN_CALLS = {name: getattr(math, name) for name in ARITIES if hasattr(math, name)} | {
    "abs": abs, "min": min, "max": max, "sign": lambda x: float((x > 0) - (x < 0))
}  # fmt: skip


def _plain_value(tree: tuple) -> float:
    kind, *rest = tree
    if kind == "number":
        return rest[0]
    if kind == "call":
        if rest[0] not in _PLAIN_CALLS:
            raise FormulaError(f"{rest[0]}(…) is a function of time; it cannot stand in a number.")
        return _PLAIN_CALLS[rest[0]](*map(_plain_value, rest[1:]))
    return _ARITHMETIC[kind]([_plain_value(x) for x in rest])


def evaluate(tree: tuple, known: dict[str, Any]):
    """The value of a formula for known variables, by jax.numpy."""
    import jax.numpy as jnp

    kind, *rest = tree
    if kind == "number":
        return rest[0]
    if kind == "name":
        return known[rest[0]]
    if kind == "call":
        name, arguments = str(rest[0]), rest[1:]
        values = [evaluate(x, known) for x in arguments]
        if name == "step":  # step(x, begin, end[, low, high])
            low, high = values[3:] or (0.0, 1.0)
            return low + (high - low) * quintic((values[0] - values[1]) / (values[2] - values[1]))
        calls = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
        return getattr(jnp, (calls | {"min": "minimum", "max": "maximum"}).get(name, name))(*values)
    values = [evaluate(x, known) for x in rest]
    if kind == "sum":
        return sum(values[1:], start=values[0])
    if kind == "product":
        return math.prod(values[1:], start=values[0])
    if kind == "neg":
        return -values[0]
    if kind == "over":
        return 1.0 / jnp.asarray(values[0], float)
    a, b = values
    # a whole power by products: its derivative is right for negative bases, too
    whole = rest[1][0] == "number" and float(b).is_integer() and abs(b) <= 64
    return jnp.asarray(a, float) ** (int(b) if whole else b)
