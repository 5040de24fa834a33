"""0 · kernels: one graph of scalars. Equal expressions are shared, constants and zeros are folded away.

A number is an integer: a node of the graph if it is ≥ 0, a constant if it is negative, so that arrays of numbers are
integer arrays and moving them about is NumPy indexing. Each node lives in the outermost `Region` in which its arguments
are known: what depends on parameters only is computed once (`Graph.setup`), what a loop does not change is computed
before it.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Callable, Sequence

import numpy as np

ZERO, ONE, MINUS_ONE = -1, -2, -3
"""The first constants."""


class Unknown(Exception):
    """A function that cannot be written out as scalars, and why."""


BOOLEAN = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"})
"""Operations whose result is true or false."""

SPECIAL = frozenset({"input", "loop", "branch", "external", "result"})
"""Operations whose arguments are not just numbers."""

UNARY: dict[str, Callable[[float], float]] = {
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "sin": lambda x: math.sin(x) if math.isfinite(x) else math.nan,
    "cos": lambda x: math.cos(x) if math.isfinite(x) else math.nan,
    "tan": lambda x: math.tan(x) if math.isfinite(x) else math.nan,
    "exp": lambda x: float(np.exp(x)),
    "expm1": lambda x: float(np.expm1(x)),
    "log": lambda x: float(np.log(x)),
    "log1p": lambda x: float(np.log1p(x)),
    "tanh": math.tanh,
    "sinh": lambda x: float(np.sinh(x)),
    "cosh": lambda x: float(np.cosh(x)),
    "asin": lambda x: float(np.arcsin(x)),
    "acos": lambda x: float(np.arccos(x)),
    "atan": math.atan,
    "asinh": math.asinh,
    "cbrt": lambda x: float(np.cbrt(x)),
    "floor": lambda x: float(np.floor(x)),
    "ceil": lambda x: float(np.ceil(x)),
    "rint": lambda x: float(np.rint(x)),
    "trunc": lambda x: float(np.trunc(x)),
    "abs": abs,
    "round30": lambda x: _rounded(x, 30),
}
"""Functions of one number, and what they do to a constant; `round30` keeps 30 bits of the fraction."""

BINARY: dict[str, Callable[[float, float], float]] = {
    "max": lambda a, b: float(np.maximum(a, b)),
    "min": lambda a, b: float(np.minimum(a, b)),
    "pow": lambda a, b: float(np.power(a, b)),
    "atan2": math.atan2,
    "rem": lambda a, b: float(np.fmod(a, b)),
    "copysign": math.copysign,
    "hypot": math.hypot,
}
"""Functions of two numbers that have no rules of their own."""

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def _rounded(x: float, bits: int) -> float:
    """x with a fraction of so many bits, ties to even, as `jax.lax.reduce_precision`."""
    if not math.isfinite(x) or x == 0:
        return x
    fraction, power = math.frexp(x)
    return math.ldexp(float(np.rint(math.ldexp(fraction, bits + 1))), power - bits - 1)


@dataclasses.dataclass(eq=False)
class Region:
    """A piece of straight-line code: `depth` regions surround it; `nodes` in the order in which they are computed."""

    depth: int
    nodes: list[int] = dataclasses.field(default_factory=list)
    open: bool = True  # whether what it contains is known here


@dataclasses.dataclass(eq=False)
class Loop:
    """While `test` (None: `count` times): carried ← following. The carried numbers are nodes of `body`."""

    body: Region
    start: list[int]
    carried: list[int]
    test: int | None
    following: list[int]
    count: int = 0


@dataclasses.dataclass(eq=False)
class Branch:
    """`then` if `truth`, else `otherwise`: only that region is computed."""

    truth: int
    regions: tuple[Region, Region]  # then, otherwise
    results: tuple[list[int], list[int]]


@dataclasses.dataclass(eq=False)
class External:
    """A function of LAPACK (`_lapack`): numbers of a matrix by columns → `count` numbers."""

    name: str
    numbers: list[int]
    rows: int
    columns: int
    way: int
    count: int


class Graph:
    """Scalars and what they are computed from."""

    def __init__(self):
        self.op: list[str] = []
        self.args: list[tuple] = []
        self.region: list[Region] = []
        self.constants: list[float] = []
        self.setup = Region(0)
        self.main = Region(1)
        self.now = self.main
        self.lowest = self.setup  # no node is placed farther out: a branch computes what is its own
        self.assumed: dict[int, int] = {}  # truth values that are known in the branch that is being written
        self.not_finite: list[int] = []  # constants
        self._known: dict[float | bytes, int] = {}
        self._shared: dict[tuple, int] = {}
        for x in (0.0, 1.0, -1.0):
            self.constant(x)

    # ---- constants -------------------------------------------------------------------------------------------

    def constant(self, x: float) -> int:
        found = self._known.get(x)
        if found is None:
            x = float(x) + 0.0 if x == 0 else float(x)
            key = x if x == x else struct.pack("d", x)  # NaN equals nothing
            found = self._known.get(key)
            if found is None:
                self.constants.append(x)
                found = self._known[key] = -len(self.constants)
                if not math.isfinite(x):
                    self.not_finite.append(found)
        return found

    def value(self, a: int) -> float:
        """The value of a constant."""
        return self.constants[-a - 1]

    # ---- nodes -----------------------------------------------------------------------------------------------

    def node(self, op: str, *args: int) -> int:
        """The node, shared with equal ones."""
        key, regions = (op, args), self.region
        found = self._shared.get(key)
        if found is None or not regions[found].open:
            region = self.lowest
            for a in args:
                if a >= 0 and regions[a].depth > region.depth:
                    region = regions[a]
            # as `fresh`: most of the time of writing out is spent here
            found = self._shared[key] = len(regions)
            self.op.append(op)
            self.args.append(args)
            regions.append(region)
            region.nodes.append(found)
        return found

    def fresh(self, op: str, args: tuple, region: Region) -> int:
        """A node that equals no other."""
        self.op.append(op)
        self.args.append(args)
        self.region.append(region)
        index = len(self.op) - 1
        region.nodes.append(index)
        return index

    def input(self, name: str, index: int, region: Region) -> int:
        return self.fresh("input", (name, index), region)

    def is_boolean(self, a: int) -> bool:
        return a >= 0 and self.op[a] in BOOLEAN

    # ---- arithmetic ------------------------------------------------------------------------------------------

    def add(self, a: int, b: int) -> int:
        if a == ZERO:
            return b
        if b == ZERO:
            return a
        if a < 0 and b < 0:
            return self.constant(self.constants[~a] + self.constants[~b])
        if b >= 0 and self.op[b] == "neg":
            return self.sub(a, self.args[b][0])
        if a >= 0 and self.op[a] == "neg":
            return self.sub(b, self.args[a][0])
        return self.node("add", a, b) if a <= b else self.node("add", b, a)

    def sub(self, a: int, b: int) -> int:
        if b == ZERO:
            return a
        if a < 0 and b < 0:
            return self.constant(self.constants[~a] - self.constants[~b])
        if b >= 0 and self.op[b] == "neg" and a != ZERO:
            return self.add(a, self.args[b][0])
        return self.node("sub", a, b)

    def neg(self, a: int) -> int:
        if a < 0:
            return self.constant(-self.value(a))
        if self.op[a] == "neg":
            return self.args[a][0]
        return self.node("neg", a)

    def mul(self, a: int, b: int) -> int:
        if a < 0 or b < 0:
            if a < 0 and b < 0:
                return self.constant(self.constants[~a] * self.constants[~b])
            if b < 0:
                a, b = b, a
            if a == ZERO:
                return ZERO
            if a == ONE:
                return b
            if a == MINUS_ONE:
                return self.neg(b)
        return self.node("mul", a, b) if a <= b else self.node("mul", b, a)

    def div(self, a: int, b: int) -> int:
        if a < 0 and b < 0:
            with np.errstate(all="ignore"):
                return self.constant(float(np.float64(self.value(a)) / np.float64(self.value(b))))
        if a == ZERO:
            return ZERO
        if b == ONE:
            return a
        if b < 0 and math.frexp(self.value(b))[0] in (0.5, -0.5):  # a power of two: exact
            return self.mul(a, self.constant(1.0 / self.value(b)))
        return self.node("div", a, b)

    def power(self, a: int, exponent: int) -> int:
        """A whole power, by squaring."""
        if exponent < 0:
            return self.div(ONE, self.power(a, -exponent))
        out, square = ONE, a
        while exponent:
            if exponent & 1:
                out = self.mul(out, square)
            exponent >>= 1
            square = self.mul(square, square) if exponent else square
        return out

    def unary(self, op: str, a: int) -> int:
        if a < 0:
            with np.errstate(all="ignore"):
                return self.constant(UNARY[op](self.value(a)))
        if op == "abs" and self.op[a] in ("abs", "sqrt"):
            return a
        return self.node(op, a)

    def binary(self, op: str, a: int, b: int) -> int:
        if a < 0 and b < 0:
            with np.errstate(all="ignore"):
                return self.constant(BINARY[op](self.value(a), self.value(b)))
        if a == b and op in ("max", "min"):
            return a
        return self.node(op, a, b)

    def compare(self, op: str, a: int, b: int) -> int:
        if a < 0 and b < 0:
            return self.constant(COMPARE[op](self.value(a), self.value(b)))
        a, b = self.as_number(a), self.as_number(b)
        return self.node(op, a, b)

    def logic(self, op: str, a: int, b: int) -> int:
        """ "and", "or" of truth values."""
        a, b = self.assumed.get(a, a), self.assumed.get(b, b)
        absorbing, neutral = (ZERO, ONE) if op == "and" else (ONE, ZERO)
        if absorbing in (a, b):
            return absorbing
        if a == neutral:
            return self.as_truth(b)
        if b == neutral or a == b:
            return self.as_truth(a)
        return self.node(op, self.as_truth(a), self.as_truth(b))

    def negation(self, a: int) -> int:
        if a < 0:
            return ONE if a == ZERO else ZERO
        a = self.as_truth(a)
        if a in self.assumed:
            return ONE if self.assumed[a] == ZERO else ZERO
        return self.args[a][0] if self.op[a] == "not" else self.node("not", a)

    def select(self, truth: int, otherwise: int, then: int) -> int:
        truth = self.assumed.get(truth, truth)
        if truth < 0:
            return otherwise if truth == ZERO else then
        if then == otherwise:
            return then
        if self.is_boolean(then) or self.is_boolean(otherwise):
            truth = self.as_truth(truth)
            first = self.logic("and", truth, self.as_truth(then))
            return self.logic("or", first, self.logic("and", self.negation(truth), self.as_truth(otherwise)))
        return self.node("select", self.as_truth(truth), otherwise, then)

    def as_truth(self, a: int) -> int:
        """A number as true or false."""
        if a < 0:
            return ZERO if self.value(a) == 0 else ONE
        if self.op[a] == "select" and self.args[a][1:] == (ZERO, ONE):  # a truth value as a number, and back
            return self.args[a][0]
        return a if self.is_boolean(a) else self.node("ne", a, ZERO)

    def as_number(self, a: int) -> int:
        """True and false as 1 and 0."""
        return self.node("select", a, ZERO, ONE) if self.is_boolean(a) else a

    def sum(self, terms: Sequence[int]) -> int:
        """The terms, added in their order."""
        out = ZERO
        for a in terms:
            out = self.add(out, a)
        return out

    # ---- loops -----------------------------------------------------------------------------------------------

    def loop(self, start: list[int], make: Callable[[list[int]], tuple[int | None, list[int]]], count: int = 0):
        """carried ← following while a test holds, or `count` times; `make` maps carried to (test, following)."""
        surrounding = self.now
        body = Region(surrounding.depth + 1)
        carried = [self.input("carried", k, body) for k in range(len(start))]
        self.now = body
        test, following = make(carried)
        self.now = surrounding
        start, following = [self.as_number(a) for a in start], [self.as_number(a) for a in following]
        same = [f == c for f, c in zip(following, carried, strict=True)]
        loop = Loop(body, start, carried, test, following, count)
        node = self.fresh("loop", (loop,), surrounding)
        return [
            s if fixed else self.fresh("result", (node, k), surrounding)
            for k, (s, fixed) in enumerate(zip(start, same, strict=True))
        ]

    def branch(self, truth: int, makes: Sequence[Callable[[], list[int]]]) -> list[int]:
        """The results of makes[1] if `truth`, else of makes[0]; both have as many."""
        surrounding, lowest = self.now, self.lowest
        regions, results = [], []
        before = self.assumed
        for value, make in zip((ONE, ZERO), reversed(makes), strict=True):
            region = Region(surrounding.depth + 1)
            self.now = self.lowest = region
            self.assumed = before | self._follows(truth, value)
            results.append([self.as_number(a) for a in make()])
            region.open = False
            regions.append(region)
        self.now, self.lowest, self.assumed = surrounding, lowest, before
        same = [a == b and (a < 0 or self.region[a].open) for a, b in zip(*results, strict=True)]
        node = self.fresh("branch", (Branch(truth, tuple(regions), tuple(results)),), surrounding)
        return [
            a if equal else self.fresh("result", (node, k), surrounding)
            for k, (a, equal) in enumerate(zip(results[0], same, strict=True))
        ]

    def _follows(self, truth: int, value: int) -> dict[int, int]:
        """What is known of truth values where one of them is known."""
        if truth < 0:
            return {}
        out, op, args = {truth: value}, self.op[truth], self.args[truth]
        if op == "not":
            out |= self._follows(args[0], ZERO if value == ONE else ONE)
        elif op == ("and" if value == ONE else "or"):
            out |= self._follows(args[0], value) | self._follows(args[1], value)
        return out

    def external(self, name: str, numbers: list[int], rows: int, columns: int, way: int, count: int) -> list[int]:
        """What a function of LAPACK computes from a matrix."""
        numbers = [self.as_number(a) for a in numbers]
        key = ("external", name, way, rows, columns, *numbers)
        found = self._shared.get(key)
        if found is None or not self.region[found].open:
            region = max((self.region[a] for a in numbers if a >= 0), key=lambda r: r.depth, default=self.lowest)
            region = max(region, self.lowest, key=lambda r: r.depth)
            found = self.fresh("external", (External(name, numbers, rows, columns, way, count),), region)
            self._shared[key] = found
        region = self.region[found]
        return [self._shared_result(found, k, region) for k in range(count)]

    def _shared_result(self, node: int, k: int, region: Region) -> int:
        key = ("result", node, k)
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = self.fresh("result", (node, k), region)
        return found

    # ---- reading ---------------------------------------------------------------------------------------------

    def arguments(self, a: int) -> list[int] | tuple[int, ...]:
        """The nodes and constants that a node is computed from."""
        op = self.op[a]
        if op == "loop":
            loop: Loop = self.args[a][0]
            test = [] if loop.test is None else [loop.test]
            return [*loop.start, *test, *loop.following, *loop.carried]
        if op == "branch":
            branch: Branch = self.args[a][0]
            return [branch.truth, *branch.results[0], *branch.results[1]]
        if op == "external":
            return self.args[a][0].numbers
        if op == "result":
            return [self.args[a][0]]
        return () if op == "input" else self.args[a]

    def needed(self, wanted: Sequence[int]) -> set[int]:
        """All nodes that some results are computed from."""
        return {a for nodes in self.ordered(wanted).values() for a in nodes}

    def ordered(self, wanted: Sequence[int], depth: int = 0) -> dict[Region, list[int]]:
        """All nodes that some results are computed from, by region (of at least this depth), each after its arguments.

        Depth first: what a number is computed from comes just before it, so few numbers wait for their use.
        """
        out: dict[Region, list[int]] = {}
        seen = bytearray(len(self.op))
        stack = [a for a in reversed(wanted) if a >= 0]
        push, region, simple = stack.append, self.region, self.args
        while stack:
            a = stack.pop()
            if a < 0:
                out.setdefault(region[~a], []).append(~a)
            elif not seen[a] and region[a].depth >= depth:
                seen[a] = 1
                push(~a)
                arguments = self.arguments(a) if self.op[a] in SPECIAL else simple[a]
                for x in reversed(arguments):
                    if x >= 0 and not seen[x]:
                        push(x)
        return out
