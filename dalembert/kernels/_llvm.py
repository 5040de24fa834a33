"""0 · kernels: a graph of scalars as machine code, by LLVM (llvmlite): no compiler is needed on the user's machine.

Each function of a module has two parts: `NAME.setup(parameters, kept)` computes once what depends on parameters only,
`NAME(kept, inputs, outputs)` the rest; behind what is kept it has room to work in, so each thread needs a copy. With W
lanes all numbers are vectors of W, so W members of a batch are computed at once; number k of member l is element
k·W + l. Additions and multiplications may be fused, nothing else is rearranged.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dalembert.kernels._graph import ONE, ZERO, Branch, External, Graph, Loop, Region

INTRINSIC = {"sqrt", "sin", "cos", "exp", "log", "pow", "floor", "ceil", "rint", "trunc", "copysign"}
INTRINSIC_NAMES = {"abs": "fabs", "max": "maximum", "min": "minimum"}
"""Operations that LLVM has for vectors too, by the same name or another."""
LIBRARY = {"rem": "fmod"}
"""Functions of the C library that have another name there."""
COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
ARITHMETIC = frozenset({"add", "sub", "mul", "div"})
FUSED = "contract"
TWO_OVER_PI, MAGIC = 2 / math.pi, 1.5 * 2.0**52
HALF_PI = (math.pi / 2, 6.123233995736766e-17, -1.4973849048591833e-33)
"""π/2 as a sum of floats."""
SINE = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06,
    -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
COSINE = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07,
    2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
"""Of (sin r − r)/r³ and of (cos r − 1 + r²/2)/r⁴ in r²."""
PIECE, LONG_PIECE = 250, 2000
"""Nodes of a piece with effort 0, and with more. On the kernels of 40 four-bars (130,000 nodes) LLVM takes 3 µs for a
node with effort 0, whatever the length, but with effort 1 41 µs in pieces of 500 and 115 µs in one; a right-hand side
then takes 24 µs instead of 34 µs. Effort 2 takes longer and is no faster. With effort 0, 100 to 500 nodes do best."""
THOROUGH_UP_TO = 10_000
"""Nodes up to which kernels are compiled with effort 1: half a second."""


class Written(NamedTuple):
    """A function as a graph: what it was given and what it returns."""

    name: str
    graph: Graph
    outputs: list[int]


class Code(NamedTuple):
    """A function in LLVM's language, and how many numbers its setup keeps for it: with the room behind them that it
    works in, and without."""

    name: str
    text: str
    kept: int
    lasting: int


def code(written: Written, lanes: int = 1, piece: int = PIECE, *, strided: bool = False, fused: bool = False) -> Code:
    """The function in LLVM's language, in pieces of so many nodes; `fused`: the processor has fma, so that sines and
    cosines are written out (`_turned`).

    With `strided` it is `NAME.setup(parameters, stride, kept)` and `NAME(kept, stride, inputs, outputs)`, in one piece:
    parameter or kept number k is element k·stride.
    """
    return _Writer(written, lanes, WHOLE if strided else piece, strided, fused).code()


WHOLE = 2**62
"""Nodes of a piece that is never cut."""


def kept_nodes(graph: Graph, outputs: Sequence[int], live: Iterable[int]) -> list[int]:
    """Nodes of the setup that the rest uses, in the order in which they are kept; truth values as numbers."""
    used = set(outputs)
    for node in live:
        if graph.region[node] is not graph.setup:
            used.update(graph.arguments(node))
    return sorted(a for a in used if a >= 0 and graph.region[a] is graph.setup)


class _Piece:
    """Straight-line code that becomes one function: a list of (what, arguments…)."""

    def __init__(self, items: list[tuple] | None = None):
        self.items: list[tuple] = items or []
        self.weight = 0
        self.index = -1


class _LongLoop(NamedTuple):
    """A loop whose body is more than one piece: its numbers are carried in memory."""

    node: int
    loop: Loop
    start: list[_Piece]
    test: list[Any]
    body: list[Any]
    checks: _Piece


class _LongBranch(NamedTuple):
    """A branch of more than one piece: its results are moved to memory by the part that is computed.

    The part for where it does not hold comes first: with lanes both may be computed, and the other then overwrites the
    results of those lanes where it holds.
    """

    node: int
    parts: tuple[list[Any], list[Any]]
    checks: _Piece


class _Writer:
    """One kernel. Long code is cut into pieces (functions): the time LLVM needs grows faster than a function's length.

    A number that another piece uses is also stored in the room behind the numbers that are kept.
    """

    def __init__(self, written: Written, lanes: int, piece: int, strided: bool, fused: bool):
        self.name, self.graph, self.lanes, self.piece = written.name, written.graph, lanes, piece
        self.strided, self.fused = strided, fused
        self.outputs = [self.graph.as_number(a) for a in written.outputs]
        self.type = "double" if lanes == 1 else f"<{lanes} x double>"
        self.truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
        self.suffix = "f64" if lanes == 1 else f"v{lanes}f64"
        self.lines: list[str] = []
        self.stack: list[str] = []  # arrays, made where a function begins
        self.block = "entry"
        self.count = 0
        self.numbers: dict[int, str] = {}  # names of what is known in the function that is being written
        self.truths: dict[int, str] = {}
        self.turns: dict[str, tuple[str, str]] = {}  # sine and cosine of a number
        self.unsigned: set[int] = set()  # numbers that are never negative, nor −0
        self.bits: dict[int, str] = {}  # of some of these
        self.stores: dict[int, list[tuple[str, int]]] = {}  # where a number goes as soon as it is known

    def code(self) -> Code:
        graph = self.graph
        self.inside = graph.ordered(self.outputs)
        self.same: dict[int, int] = {}  # numbers that a loop carries unchanged
        self.results: dict[int, list[int]] = {}
        for node in (a for nodes in self.inside.values() for a in nodes):
            if graph.op[node] == "result":
                self.results.setdefault(graph.args[node][0], []).append(node)
            if graph.op[node] == "loop":
                loop: Loop = graph.args[node][0]
                carried = zip(loop.carried, loop.start, loop.following, strict=True)
                self.same |= {c: s for c, s, f in carried if c == f}
        kept = kept_nodes(graph, self.outputs, (a for nodes in self.inside.values() for a in nodes))
        self.kept: dict[int, int] = {}
        self.temporary = len(graph.op)
        self.ends = [(a, [("%kept", k)]) for k, a in enumerate(kept)]
        self.room = len(kept)
        self.base = "%parameters"
        setup, room = self._routine(f"{self.name}.setup", graph.setup, ["%parameters", "%kept"])
        self.kept = {a: k for k, a in enumerate(kept)}
        self.ends = [(a, [("%outputs", k)]) for k, a in enumerate(self.outputs)]
        self.base = "%inputs"
        main, more = self._routine(self.name, graph.main, ["%kept", "%inputs", "%outputs"])
        return Code(self.name, "\n".join([*setup, *main]), len(kept) + max(room, more), len(kept))

    # ---- pieces ----------------------------------------------------------------------------------------------

    def _routine(self, name: str, region: Region, arguments: list[str]) -> tuple[list[str], int]:
        """A function, cut into pieces where it is long; its text and the room that they need."""
        nodes = self.inside.get(region, [])
        here = set(nodes)
        items = [("node", a) for a in nodes if self.graph.op[a] not in ("input", "result")]
        self.stores, late = {}, []
        for a, places in self.ends:
            if a in here and self.graph.op[a] not in ("input", "result"):
                self.stores.setdefault(a, []).extend(places)
            else:
                late += [("store", a, *place) for place in places]
        steps = self._cut([*items, *late])
        self.slots: dict[int, int] = {}
        slots = self._allot(steps)
        given = [f"ptr noalias nocapture {a}" for a in arguments]
        given = ", ".join([*given[:1], "i64 %stride", *given[1:]] if self.strided else given)
        out: list[str] = []
        self._begin()
        if len(steps) == 1 and isinstance(steps[0], _Piece):
            self._items(steps[0])
            driver = [*self.stack, *self.lines]
        else:
            driver = []
            self.block = "entry"
            self._steps(name, steps, given, driver, out)
        return [*out, f'define void @"{name}"({given}) {{', "entry:", *driver, "ret void", "}"], slots

    def _cut(self, items: list[tuple]) -> list[Any]:
        """The items in pieces; long loops stand between them."""
        steps: list[Any] = []
        for item in items:
            weight = self._weight(item[1]) if item[0] == "node" else 1
            if weight > self.piece and self.graph.op[item[1]] == "loop":
                steps.append(self._long_loop(item[1]))
                continue
            if weight > self.piece and self.graph.op[item[1]] == "branch":
                steps.append(self._long_branch(item[1]))
                continue
            if not steps or not isinstance(steps[-1], _Piece) or steps[-1].weight + weight > self.piece:
                steps.append(_Piece())
            steps[-1].items.append(item)
            steps[-1].weight += weight
        return steps or [_Piece()]

    def _weight(self, node: int) -> int:
        return 1 + sum(self._weight(a) for region in self._bodies(node) for a in self.inside.get(region, []))

    def _bodies(self, node: int) -> tuple[Region, ...]:
        """The regions inside a loop or a branch."""
        op, args = self.graph.op[node], self.graph.args[node]
        return (args[0].body,) if op == "loop" else args[0].regions if op == "branch" else ()

    def _long_loop(self, node: int) -> _LongLoop:
        loop: Loop = self.graph.args[node][0]
        tested, rest = self._halves(loop)
        moved = [k for k, c in enumerate(loop.carried) if c not in self.same]
        start = [("move", loop.carried[k], loop.start[k], None) for k in moved]
        going = loop.test if self.lanes > 1 else None
        carried, aside, moves = {loop.carried[k] for k in moved}, [], []
        for k in moved:
            x = loop.following[k]
            if x in carried:  # it may be overwritten before it is read
                aside.append(("move", self.temporary, x, None))
                x = self.temporary
                self.temporary += 1
            moves.append(("move", loop.carried[k], x, going))
        body = [*(("node", a) for a in rest), *aside, *moves]
        checks = _Piece([] if loop.test is None else [("check", loop.test)])
        test = self._cut([("node", a) for a in tested]) if tested else []
        return _LongLoop(node, loop, self._cut(start), test, self._cut(body), checks)

    def _long_branch(self, node: int) -> _LongBranch:
        branch: Branch = self.graph.args[node][0]
        parts = []
        for which in (1, 0):
            nodes = [
                a for a in self.inside.get(branch.regions[which], []) if self.graph.op[a] not in ("input", "result")
            ]
            there = branch.truth if self.lanes > 1 and not which else None
            results = branch.results[which]
            moves = [("move", r, results[self.graph.args[r][1]], there) for r in self.results.get(node, [])]
            parts.append(self._cut([*(("node", a) for a in nodes), *moves]))
        return _LongBranch(node, (parts[0], parts[1]), _Piece([("check", branch.truth)]))

    def _halves(self, loop: Loop) -> tuple[list[int], list[int]]:
        """The nodes of a loop that its test needs, and the others."""
        nodes = [a for a in self.inside.get(loop.body, []) if self.graph.op[a] not in ("input", "result")]
        if loop.test is None:
            return [], nodes
        tested = set(self.graph.ordered([loop.test], loop.body.depth).get(loop.body, []))
        return [a for a in nodes if a in tested], [a for a in nodes if a not in tested]

    def _allot(self, steps: list[Any]) -> int:
        """Give a slot to every number that crosses pieces, and reuse it after its last use; the number of slots."""
        made: dict[int, int] = {}  # in which piece
        last: dict[int, int] = {}
        pieces: list[_Piece] = []
        alias: dict[int, int] = {}

        def number(steps: list[Any]) -> None:
            for step in steps:
                if isinstance(step, _Piece):
                    step.index = len(pieces)
                    pieces.append(step)
                    for item in step.items:
                        for a in self._makes(item):
                            made.setdefault(a, step.index)
                elif isinstance(step, _LongBranch):
                    number([step.checks])
                    number(step.parts[0])
                    number(step.parts[1])
                else:
                    number(step.start)
                    number(step.test)
                    number([step.checks])
                    number(step.body)
                    for a in self.results.get(step.node, []):
                        alias[a] = step.loop.carried[self.graph.args[a][1]]

        number(steps)
        self.alias = alias

        def end_of(a: int, piece: int, around: list[tuple[int, int]]) -> int:
            """Until when a number is wanted that is used in a piece: to the end of the loops that it comes into."""
            return next((stop for first, stop in around if made[a] < first), piece)

        def use(steps: list[Any], around: list[tuple[int, int]]) -> None:
            for step in steps:
                if isinstance(step, _Piece):
                    index = step.index
                    for item in step.items:
                        for a in self._uses(item):
                            a = alias.get(a, a)
                            if made.get(a, index) != index:
                                last[a] = max(last.get(a, 0), end_of(a, index, around))
                elif isinstance(step, _LongBranch):
                    use([step.checks, *step.parts[0], *step.parts[1]], around)
                else:
                    use(step.start, around)
                    within = (step.checks.index if not step.test else _first(step.test), _last(step.body))
                    use([*step.test, step.checks, *step.body], [*around, within])
                    for c in step.loop.carried:
                        if c in made:  # carried to the next round
                            last[c] = max(last.get(c, 0), end_of(c, within[1], [*around, within]))

        use(steps, [])
        ends: dict[int, list[int]] = {}
        for a in last:
            ends.setdefault(last[a], []).append(a)
        starts: dict[int, list[int]] = {}
        for a in last:
            starts.setdefault(made[a], []).append(a)
        free: list[int] = []
        count = 0
        for k in range(len(pieces)):
            for a in starts.get(k, []):
                if free:
                    self.slots[a] = free.pop()
                else:
                    self.slots[a] = count
                    count += 1
            free += [self.slots[a] for a in ends.get(k, [])]
        return count

    def _makes(self, item: tuple) -> list[int]:
        if item[0] == "move":
            return [item[1]]
        if item[0] != "node":
            return []
        return [item[1], *self.results.get(item[1], [])]

    def _uses(self, item: tuple) -> Sequence[int]:
        """What an item needs, from wherever."""
        if item[0] == "node" and not self._bodies(item[1]):
            args = self.graph.arguments(item[1])
            return [self._resolved(a) for a in args] if self.same else args
        if item[0] == "move":
            found = [item[2]] if item[3] is None else [item[2], item[3], item[1]]
        else:
            found = self._outside(item[1]) if item[0] == "node" else [item[1]]
        return [self._resolved(a) for a in found]

    def _resolved(self, a: int) -> int:
        while a in self.same:
            a = self.same[a]
        return a

    def _outside(self, node: int) -> list[int]:
        """What a loop or a branch uses and does not compute."""
        bodies = self._bodies(node)
        depth, found = bodies[0].depth, list(self.graph.arguments(node))
        for a in (a for region in bodies for a in self.inside.get(region, [])):
            found += self._outside(a) if self._bodies(a) else self.graph.arguments(a)
        found = [self._resolved(a) for a in found]
        return [a for a in dict.fromkeys(found) if a >= 0 and self.graph.region[a].depth < depth]

    def _steps(self, name: str, steps: list[Any], given: str, driver: list[str], out: list[str]) -> None:
        """Calls of pieces, and the long loops between them."""
        for step in steps:
            if isinstance(step, _Piece):
                self._begin()
                self._items(step)
                called = f'@"{name}.{step.index}"'
                out += [f"define internal void {called}({given}) noinline {{", "entry:"]
                out += [*self.stack, *self.lines, "ret void", "}"]
                names = ", ".join(f"ptr {a.split()[-1]}" for a in given.split(", "))
                driver.append(f"call void {called}({names})")
                continue
            if isinstance(step, _LongBranch):
                a = step.node
                self._begin(f"%d{a}.")
                truth = self._truth(self.graph.args[a][0].truth)
                wanted = self._any(self._emit(f"xor {self.truth} {truth}, {self._truth(ONE)}")), self._any(truth)
                driver += self.lines
                for which, part in enumerate(step.parts):
                    driver += [f"br i1 {wanted[which]}, label %b{a}.{which}, label %e{a}.{which}", f"b{a}.{which}:"]
                    self.block = f"b{a}.{which}"
                    self._steps(name, part, given, driver, out)
                    driver += [f"br label %e{a}.{which}", f"e{a}.{which}:"]
                    self.block = f"e{a}.{which}"
                continue
            a, loop = step.node, step.loop
            self._steps(name, step.start, given, driver, out)
            before = self.block
            driver += [f"br label %l{a}.head", f"l{a}.head:"]
            hole = len(driver)
            self.block = f"l{a}.head"
            self._steps(name, step.test, given, driver, out)
            if loop.test is None:
                more = f"%l{a}.more"
                driver.append(f"{more} = icmp ult i64 %l{a}.i, {loop.count}")
            else:
                self._begin(f"%d{a}.")
                more = self._any(self._truth(loop.test))
                driver += self.lines
            driver += [f"br i1 {more}, label %l{a}.body, label %l{a}.end", f"l{a}.body:"]
            self.block = f"l{a}.body"
            self._steps(name, step.body, given, driver, out)
            if loop.test is None:
                driver.append(f"%l{a}.j = add i64 %l{a}.i, 1")
                driver.insert(hole, f"%l{a}.i = phi i64 [0, %{before}], [%l{a}.j, %{self.block}]")
            driver += [f"br label %l{a}.head", f"l{a}.end:"]
            self.block = f"l{a}.end"

    def _begin(self, prefix: str = "%x") -> None:
        """Another function: nothing is known in it yet."""
        self.lines, self.stack, self.numbers, self.truths, self.turns, self.bits = [], [], {}, {}, {}, {}
        self.prefix, self.count = prefix, 0

    def _items(self, piece: _Piece) -> None:
        around, self.block = self.block, "entry"
        for item in piece.items:
            if item[0] == "node":
                node = item[1]
                self._node(node)
                for a in (node, *self.results[node]) if node in self.results else (node,):
                    if a in self.slots:
                        self._store("%kept", self.room + self.slots[a], self._value(a))
                if node in self.stores:
                    for place in self.stores[node]:
                        self._store(*place, self._value(node))
            elif item[0] == "move":
                self._move(*item[1:])
            elif item[0] == "store":
                self._store(item[2], item[3], self._value(item[1]))
        self.block = around

    def _move(self, to: int, source: int, going: int | None) -> None:
        value, T = self._value(source), self.type
        if going is not None:
            truth, before = self._truth(going), self._value(to)
            value = self._emit(f"select {self.truth} {truth}, {T} {value}, {T} {before}")
        if to in self.slots:
            self._store("%kept", self.room + self.slots[to], value)
        else:  # used in this piece only
            self.numbers[to] = value

    # ---- values ----------------------------------------------------------------------------------------------

    def _emit(self, text: str) -> str:
        self.count += 1
        name = f"{self.prefix}{self.count}"
        self.lines.append(f"{name} = {text}")
        return name

    def _value(self, a: int) -> str:
        """A number: a constant, computed here, or from memory."""
        found = self.numbers.get(a)
        if found is not None:
            return found
        if a < 0:
            return self._constant(a)
        if a in self.same:
            return self._value(self._resolved(a))
        found = self.numbers[a] = self._as_number(a) if a in self.truths else self._from_memory(a)
        return found

    def _constant(self, a: int) -> str:
        bits = struct.unpack("<Q", struct.pack("<d", self.graph.value(a)))[0]
        number = f"0x{bits:016X}"
        return number if self.lanes == 1 else "<" + ", ".join([f"double {number}"] * self.lanes) + ">"

    def _truth(self, a: int) -> str:
        a = self._resolved(a)
        if a < 0:
            word = "true" if self.graph.value(a) else "false"
            return word if self.lanes == 1 else "<" + ", ".join([f"i1 {word}"] * self.lanes) + ">"
        found = self.truths.get(a)
        if found is None:  # in memory it is a number
            number = self._value(a)
            found = self.truths[a] = self._emit(f"fcmp une {self.type} {number}, {self._value(ZERO)}")
        return found

    def _as_number(self, a: int) -> str:
        return self._emit(
            f"select {self.truth} {self.truths[a]}, {self.type} {self._value(ONE)}, {self.type} {self._value(ZERO)}"
        )

    def _from_memory(self, a: int) -> str:
        if a in self.kept:
            return self._load("%kept", self.kept[a])
        if a < len(self.graph.op) and self.graph.op[a] == "input" and self.graph.args[a][0] != "carried":
            return self._load(self.base, self.graph.args[a][1])
        return self._load("%kept", self.room + self.slots[self.alias.get(a, a)])

    def _any(self, truth: str) -> str:
        """Whether it holds for any lane."""
        if self.lanes == 1:
            return truth
        bits = self._emit(f"bitcast {self.truth} {truth} to i{self.lanes}")
        return self._emit(f"icmp ne i{self.lanes} {bits}, 0")

    def _load(self, base: str, k: int) -> str:
        place = self._place(base, k)
        self.count += 1
        name, T = f"{self.prefix}{self.count}", self.type
        self.lines.append(f"{name}p = getelementptr {T}, ptr {base}, i64 {place}")
        self.lines.append(f"{name} = load {T}, ptr {name}p, align 8")
        return name

    def _store(self, base: str, k: int, value: str) -> None:
        place = self._place(base, k)
        self.count += 1
        name, T = f"{self.prefix}{self.count}p", self.type
        self.lines.append(f"{name} = getelementptr {T}, ptr {base}, i64 {place}")
        self.lines.append(f"store {T} {value}, ptr {name}, align 8")

    def _place(self, base: str, k: int) -> str:
        far = self.strided and base in ("%parameters", "%kept")
        return self._emit(f"mul nsw i64 {k}, %stride") if far else str(k)

    # ---- nodes -----------------------------------------------------------------------------------------------

    def _node(self, a: int) -> None:
        op, args, T = self.graph.op[a], self.graph.args[a], self.type
        if op in ARITHMETIC:
            known = self.numbers
            x, y = known.get(args[0]) or self._value(args[0]), known.get(args[1]) or self._value(args[1])
            known[a] = name = f"%n{a}"
            self.lines.append(f"{name} = f{op} {FUSED} {T} {x}, {y}")
        elif op == "neg":
            self.numbers[a] = self._emit(f"fneg {T} {self._value(args[0])}")
        elif op in COMPARISONS:
            x, y = map(self._value, args)
            self.truths[a] = self._emit(f"fcmp {COMPARISONS[op]} {T} {x}, {y}")
        elif op in ("and", "or"):
            x, y = map(self._truth, args)
            self.truths[a] = self._emit(f"{op} {self.truth} {x}, {y}")
        elif op == "not":
            x, y = self._truth(args[0]), self._truth(ONE)
            self.truths[a] = self._emit(f"xor {self.truth} {x}, {y}")
        elif op == "select":
            truth = self._truth(args[0])
            x, y = map(self._value, args[1:])
            self.numbers[a] = self._emit(f"select {self.truth} {truth}, {T} {y}, {T} {x}")
        elif op == "loop":
            self._loop(a, args[0])
        elif op == "branch":
            self._branch(a, args[0])
        elif op == "external":
            self._external(a, args[0])
        elif op == "round30":
            self.numbers[a] = self._round(self._value(args[0]))
        elif op == "abs":
            self.numbers[a], self.bits[a] = self._magnitude(self._value(args[0]))
            self.unsigned.add(a)
        elif op == "max" and all(x in self.unsigned or self._positive(x) for x in args):
            self.numbers[a], self.bits[a] = self._largest(*args)
            self.unsigned.add(a)
        elif op in ("max", "min"):
            self.numbers[a] = self._extreme(op, *map(self._value, args))
        elif op in ("sin", "cos") and self.fused:
            self.numbers[a] = self._turned(self._value(args[0]))[op == "cos"]
        elif op in INTRINSIC:
            values = ", ".join(f"{T} {self._value(x)}" for x in args)
            self.numbers[a] = self._emit(f"call {T} @llvm.{op}.{self.suffix}({values})")
        else:
            self.numbers[a] = self._library(LIBRARY.get(op, op), [self._value(x) for x in args])

    # `llvm.fabs` and `llvm.maximum` would do, but with effort 0 LLVM needs several times as long for an intrinsic

    def _magnitude(self, x: str) -> tuple[str, str]:
        """|x|, and its bits."""
        whole = self.type.replace("double", "i64")
        mask = str(2**63 - 1) if self.lanes == 1 else "<" + ", ".join([f"i64 {2**63 - 1}"] * self.lanes) + ">"
        bits = self._emit(f"bitcast {self.type} {x} to {whole}")
        bits = self._emit(f"and {whole} {bits}, {mask}")
        return self._emit(f"bitcast {whole} {bits} to {self.type}"), bits

    def _positive(self, a: int) -> bool:
        """Whether it is a constant without a sign."""
        return a < 0 and math.copysign(1.0, self.graph.value(a)) > 0

    def _largest(self, a: int, b: int) -> tuple[str, str]:
        """The larger of two numbers without a sign, and its bits: these are ordered as the numbers are, with NaN above
        all others. It takes half the instructions of `_extreme`."""
        whole = self.type.replace("double", "i64")
        x, y = (self.bits.get(k) or self._emit(f"bitcast {self.type} {self._value(k)} to {whole}") for k in (a, b))
        less = self._emit(f"icmp ult {whole} {x}, {y}")
        bits = self._emit(f"select {self.truth} {less}, {whole} {y}, {whole} {x}")
        return self._emit(f"bitcast {whole} {bits} to {self.type}"), bits

    def _extreme(self, op: str, x: str, y: str) -> str:
        """The larger or smaller of two; NaN if one is."""
        other = self._emit(f"fcmp {'olt' if op == 'max' else 'ogt'} {self.type} {x}, {y}")
        found = self._emit(f"select {self.truth} {other}, {self.type} {y}, {self.type} {x}")
        nan = self._emit(f"fcmp uno {self.type} {y}, {y}")
        return self._emit(f"select {self.truth} {nan}, {self.type} {y}, {self.type} {found}")

    def _round(self, x: str) -> str:
        """Cut the fraction to 30 bits [Veltkamp 1968]: c = (2²² + 1) x; c − (c − x)."""
        factor = self.graph.constant(2.0**22 + 1)
        c = self._emit(f"fmul {self.type} {self._value(factor)}, {x}")
        d = self._emit(f"fsub {self.type} {c}, {x}")
        return self._emit(f"fsub {self.type} {c}, {d}")

    def _turned(self, x: str) -> tuple[str, str]:
        """Sine and cosine of x, written out: calls of the C library take a third of a small machine's right-hand side,
        and with lanes one call for each.

        x = k π/2 + r, with π/2 in three parts [Cody, Waite 1980]; polynomials of sin r and cos r on |r| ≤ π/4 with the
        coefficients of fdlibm (Sun Microsystems 1993). Within 1 unit in the last place; above 2³⁰ it is the library.
        """
        found = self.turns.get(x)
        if found is not None:
            return found
        T, whole = self.type, self.type.replace("double", "i64")

        def number(value: float) -> str:
            return self._constant(self.graph.constant(value))

        def integer(value: int) -> str:
            return str(value) if self.lanes == 1 else "<" + ", ".join([f"i64 {value}"] * self.lanes) + ">"

        def fma(a: str, b: str, c: str) -> str:
            return self._emit(f"call {T} @llvm.fma.{self.suffix}({T} {a}, {T} {b}, {T} {c})")

        def polynomial(z: str, coefficients: Sequence[float]) -> str:
            total = number(coefficients[-1])
            for c in coefficients[-2::-1]:
                total = fma(total, z, number(c))
            return total

        # k = rint(2x/π): added to 1.5·2⁵² it stands in the last bits
        shifted = fma(x, number(TWO_OVER_PI), number(MAGIC))
        k = self._emit(f"fsub {T} {shifted}, {number(MAGIC)}")
        minus = self._emit(f"fneg {T} {k}")
        r = x
        for part in HALF_PI:
            r = fma(minus, number(part), r)
        z = self._emit(f"fmul {T} {r}, {r}")
        cube = self._emit(f"fmul {T} {z}, {r}")
        sine = fma(cube, polynomial(z, SINE), r)
        none = self._emit(f"fcmp oeq {T} {x}, {number(0.0)}")
        sine = self._emit(f"select {self.truth} {none}, {T} {x}, {T} {sine}")  # sin −0 = −0
        # 1 − z/2 is rounded; what that leaves is added to the rest
        half = self._emit(f"fmul {T} {z}, {number(0.5)}")
        head = self._emit(f"fsub {T} {number(1.0)}, {half}")
        lost = self._emit(f"fsub {T} {self._emit(f'fsub {T} {number(1.0)}, {head}')}, {half}")
        square = self._emit(f"fmul {T} {z}, {z}")
        cosine = self._emit(f"fadd {T} {head}, {fma(square, polynomial(z, COSINE), lost)}")
        bits = self._emit(f"bitcast {T} {shifted} to {whole}")
        odd = self._emit(f"icmp ne {whole} {self._emit(f'and {whole} {bits}, {integer(1)}')}, {integer(0)}")

        def signed(value: str, quarter: str) -> str:
            sign = self._emit(f"shl {whole} {self._emit(f'and {whole} {quarter}, {integer(2)}')}, {integer(62)}")
            flipped = self._emit(f"xor {whole} {self._emit(f'bitcast {T} {value} to {whole}')}, {sign}")
            return self._emit(f"bitcast {whole} {flipped} to {T}")

        after = self._emit(f"add {whole} {bits}, {integer(1)}")
        quick = (
            signed(self._emit(f"select {self.truth} {odd}, {T} {cosine}, {T} {sine}"), bits),
            signed(self._emit(f"select {self.truth} {odd}, {T} {sine}, {T} {cosine}"), after),
        )
        beyond = self._emit(f"fcmp ugt {T} {self._magnitude(x)[0]}, {number(2.0**30)}")
        far = self._any(beyond)
        before, inside, end = self.block, f"t{self.count}.far", f"t{self.count}.end"
        self.lines += [f"br i1 {far}, label %{inside}, label %{end}", f"{inside}:"]
        slow = [self._emit(f"call {T} @llvm.{f}.{self.suffix}({T} {x})") for f in ("sin", "cos")]
        # the other lanes keep what they have: no member may depend on another
        slow = [self._emit(f"select {self.truth} {beyond}, {T} {s}, {T} {q}") for s, q in zip(slow, quick, strict=True)]
        self.lines += [f"br label %{end}", f"{end}:"]
        self.block = end
        sine, cosine = (
            self._emit(f"phi {T} [{q}, %{before}], [{s}, %{inside}]") for q, s in zip(quick, slow, strict=True)
        )
        self.turns[x] = sine, cosine
        return sine, cosine

    def _library(self, name: str, values: list[str]) -> str:
        """A function of the C library, lane by lane."""
        if self.lanes == 1:
            arguments = ", ".join(f"double {v}" for v in values)
            return self._emit(f"call double @{name}({arguments})")
        whole = "undef"
        for lane in range(self.lanes):
            each = [self._emit(f"extractelement {self.type} {v}, i32 {lane}") for v in values]
            one = self._emit(f"call double @{name}({', '.join(f'double {x}' for x in each)})")
            whole = self._emit(f"insertelement {self.type} {whole}, double {one}, i32 {lane}")
        return whole

    def _loop(self, a: int, loop: Loop) -> None:
        """while test: carried ← following; with lanes each member stops by itself."""
        T, add = self.type, self.lines.append
        self._know_before(a)
        turns = dict(self.turns)  # what is computed inside is not known behind
        moved = [k for k, c in enumerate(loop.carried) if c not in self.same]
        start = [self._value(loop.start[k]) for k in moved]
        before, head, body, end = self.block, f"l{a}.head", f"l{a}.body", f"l{a}.end"
        add(f"br label %{head}")
        add(f"{head}:")
        hole = len(self.lines)  # the phis are written when the end of the body is known
        self.block = head
        self.numbers |= {loop.carried[k]: f"%n{loop.carried[k]}" for k in moved}
        tested, rest = self._halves(loop)
        for n in tested:
            self._node(n)
        going, more = None, f"%l{a}.more"
        if loop.test is None:
            add(f"{more} = icmp ult i64 %l{a}.i, {loop.count}")
        else:
            going = self._truth(loop.test)
            more = self._any(going)
        add(f"br i1 {more}, label %{body}, label %{end}")
        add(f"{body}:")
        self.block = body
        for n in rest:
            self._node(n)
        following = [self._value(loop.following[k]) for k in moved]
        if self.lanes > 1 and going is not None:
            following = [
                self._emit(f"select {self.truth} {going}, {T} {f}, {T} %n{loop.carried[k]}")
                for k, f in zip(moved, following, strict=True)
            ]
        phis = []
        if loop.test is None:
            add(f"%l{a}.j = add i64 %l{a}.i, 1")
            phis.append(f"%l{a}.i = phi i64 [0, %{before}], [%l{a}.j, %{self.block}]")
        for k, s, f in zip(moved, start, following, strict=True):
            phis.append(f"%n{loop.carried[k]} = phi {T} [{s}, %{before}], [{f}, %{self.block}]")
        add(f"br label %{head}")
        add(f"{end}:")
        self.lines[hole:hole] = phis
        self.block, self.turns = end, turns
        for r in self.results.get(a, []):
            self.numbers[r] = f"%n{loop.carried[self.graph.args[r][1]]}"

    def _know_before(self, a: int) -> None:
        """What a loop or a branch reads from memory must be known before it, for all that follows."""
        for x in self._outside(a):
            _ = self._truth(x) if self.graph.is_boolean(x) else self._value(x)

    def _branch(self, a: int, branch: Branch) -> None:
        """Only the part that is needed; with lanes both, if some members need one and some the other."""
        T, add = self.type, self.lines.append
        self._know_before(a)
        truth, nothing = self._truth(branch.truth), "0.0" if self.lanes == 1 else "zeroinitializer"
        wanted = {r: self.graph.args[r][1] for r in self.results.get(a, [])}
        values: list[dict[int, str]] = []
        for which, (region, results) in enumerate(zip(branch.regions, branch.results, strict=True)):
            mine = truth if not which else self._emit(f"xor {self.truth} {truth}, {self._truth(ONE)}")
            before, inside, end = self.block, f"b{a}.{which}", f"e{a}.{which}"
            add(f"br i1 {self._any(mine)}, label %{inside}, label %{end}")
            add(f"{inside}:")
            self.block = inside
            known = dict(self.numbers), dict(self.truths), dict(self.turns), dict(self.bits)
            for n in self.inside.get(region, []):
                if self.graph.op[n] not in ("input", "result"):
                    self._node(n)
            found = {r: self._value(results[k]) for r, k in wanted.items()}
            self.numbers, self.truths, self.turns, self.bits = known
            last = self.block
            add(f"br label %{end}")
            add(f"{end}:")
            self.block = end
            values.append({r: self._emit(f"phi {T} [{x}, %{last}], [{nothing}, %{before}]") for r, x in found.items()})
        for r in wanted:
            self.numbers[r] = self._emit(f"select {self.truth} {truth}, {T} {values[0][r]}, {T} {values[1][r]}")

    def _external(self, a: int, given: External) -> None:
        """A call of LAPACK, for one lane after the other."""
        T = self.type
        self.stack.append(f"%m{a} = alloca [{len(given.numbers)} x double]")
        self.stack.append(f"%o{a} = alloca [{max(given.count, 1)} x double]")
        numbers = [self._value(x) for x in given.numbers]
        wanted = {r: self.graph.args[r][1] for r in self.results.get(a, [])}
        found = dict.fromkeys(wanted, "undef")
        for lane in range(self.lanes):
            for k, x in enumerate(numbers):
                one = x if self.lanes == 1 else self._emit(f"extractelement {T} {x}, i32 {lane}")
                address = self._emit(f"getelementptr double, ptr %m{a}, i64 {k}")
                self.lines.append(f"store double {one}, ptr {address}")
            sizes = f"i64 {given.rows}, i64 {given.columns}, i64 {given.way}"
            self.lines.append(f"call void @lapack.{given.name}(ptr %m{a}, ptr %o{a}, {sizes})")
            for r, k in wanted.items():
                address = self._emit(f"getelementptr double, ptr %o{a}, i64 {k}")
                one = self._emit(f"load double, ptr {address}")
                whole = f"insertelement {T} {found[r]}, double {one}, i32 {lane}"
                found[r] = one if self.lanes == 1 else self._emit(whole)
        self.numbers |= found


def _first(steps: list[Any]) -> int:
    step = steps[0]
    if isinstance(step, _LongBranch):
        return step.checks.index
    return step.index if isinstance(step, _Piece) else _first(step.start)


def _last(steps: list[Any]) -> int:
    step = steps[-1]
    if isinstance(step, _LongBranch):
        return _last(step.parts[1])
    return step.index if isinstance(step, _Piece) else _last(step.body)
