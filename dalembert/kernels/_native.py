"""0 · kernels: plain loops over numbers, written in a few words of Python, as machine code.

The loop around kernels (a march) has arrays, branches and counters; it is written once, as a Python function in the
subset below, and runs as it stands in Python too, which is how it is tested. Numba would do it, but takes half a second
to import and holds NumPy back. The subset: arguments annotated `Numbers` (an array of float64), `Indices` (an array of
int32, which is only read), `Whole`, `Number` or `Function` (a kernel; called with arrays); assignment, `for … in
range`, `while`, `if`, `break`, `continue`; arithmetic, comparisons, `and`, `or`, `not`, `min`, `max`, `abs`, `float`,
`int`; `at(array, k)` is the array from element k on, `array(n)` a new one of n numbers, which are not zero unless they
are set.

With `unroll` a `for` whose bounds are built in is written out, and an `if` whose test is built in is decided: then the
numbers of `array`s have fixed places, and the compiler keeps them in registers.
"""

from __future__ import annotations

import ast
import inspect
import struct
import textwrap
from collections.abc import Callable

import numpy as np

Numbers = np.ndarray
Indices = np.ndarray
Whole = int
Number = float
Function = Callable

KINDS = {"Numbers": "ptr", "Indices": "indices", "Whole": "i64", "Number": "double", "Function": "ptr"}


def at(array: Numbers, k: int) -> Numbers:
    """The array from element k on."""
    return array[k:]


def array(n: int) -> Numbers:
    """A new array of n numbers."""
    return np.zeros(n)


def translate(function: Callable, *, unroll: bool = False, **constants: int | str) -> str:
    """The function in LLVM's language; `constants` are arguments that are built in: numbers, and names of functions."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return _Translation(tree, constants, unroll).text()


def _type(kind: str) -> str:
    """The type of a variable in LLVM's language."""
    return "ptr" if kind == "indices" else kind


class _Translation:
    def __init__(self, tree: ast.FunctionDef, constants: dict[str, int | str], unroll: bool):
        self.tree, self.constants, self.unroll = tree, constants, unroll
        self.kinds: dict[str, str] = {}  # of variables
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.count = 0
        self.around: list[tuple[str, str]] = []  # (continue, break) of the loops around here
        self.ended = False

    def text(self) -> str:
        given, starts = [], []
        for argument in self.tree.args.args:
            name, kind = argument.arg, KINDS[ast.unparse(argument.annotation)]  # pyright: ignore[reportArgumentType]
            if name in self.constants:
                continue
            readonly = " noalias" if ast.unparse(argument.annotation) == "Numbers" else ""  # pyright: ignore[reportArgumentType]
            self.kinds[name], kind = kind, _type(kind)
            given.append(f"{kind}{readonly} %{name}")
            self.slots.append(f"%v.{name} = alloca {kind}")
            starts.append(f"store {kind} %{name}, ptr %v.{name}")
        self.body(self.tree.body)
        if not self.ended:
            self.lines.append("ret void")
        head = f"define void @{self.tree.name}({', '.join(given)}) {{\nentry:"
        return "\n".join([head, *self.slots, *starts, *self.lines, "}"])

    # ---- words -----------------------------------------------------------------------------------------------

    def emit(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"%r{self.count} = {text}")
        return f"%r{self.count}"

    def label(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.ended = False

    def jump(self, label: str) -> None:
        if not self.ended:
            self.lines.append(f"br label %{label}")
        self.ended = True

    def body(self, statements: list[ast.stmt]) -> None:
        for s in statements:
            if not self.ended:
                getattr(self, f"do_{type(s).__name__}")(s)

    # ---- statements ------------------------------------------------------------------------------------------

    def do_Expr(self, s: ast.Expr) -> None:
        if isinstance(s.value, ast.Call):
            self.call(s.value)

    def do_Pass(self, s: ast.Pass) -> None:
        pass

    def do_Return(self, s: ast.Return) -> None:
        self.lines.append("ret void")
        self.ended = True

    def do_Assign(self, s: ast.Assign) -> None:
        self.store(s.targets[0], *self.value(s.value))

    def do_AugAssign(self, s: ast.AugAssign) -> None:
        target = ast.parse(ast.unparse(s.target), mode="eval").body
        self.store(s.target, *self.arithmetic(s.op, self.value(target), self.value(s.value)))

    def store(self, target: ast.expr, kind: str, value: str) -> None:
        if isinstance(target, ast.Subscript):
            address = self.address(target)
            self.lines.append(f"store double {self.as_number(kind, value)}, ptr {address}, align 8")
            return
        assert isinstance(target, ast.Name)
        if target.id not in self.kinds:
            self.kinds[target.id] = kind
            self.slots.append(f"%v.{target.id} = alloca {_type(kind)}")
        wanted = self.kinds[target.id]
        value = self.as_number(kind, value) if wanted == "double" else value
        self.lines.append(f"store {_type(wanted)} {value}, ptr %v.{target.id}")

    def known(self, e: ast.expr) -> int | None:
        """The value of an expression of numbers that are built in; None if it is computed."""
        names = {n.id for n in ast.walk(e) if isinstance(n, ast.Name)}
        simple = ast.Constant | ast.Name | ast.BinOp | ast.Compare | ast.operator | ast.cmpop | ast.expr_context
        if not names <= self.constants.keys() or not all(isinstance(n, simple) for n in ast.walk(e)):
            return None
        return int(eval(compile(ast.Expression(e), "", "eval"), {}, dict(self.constants)))

    def do_If(self, s: ast.If) -> None:
        decided = self.known(s.test) if self.unroll else None
        if decided is not None:
            self.body(s.body if decided else s.orelse)
            return
        then, other, end = (self.label(w) for w in ("then", "else", "end"))
        self.lines.append(f"br i1 {self.truth(s.test)}, label %{then}, label %{other}")
        for label, statements in ((then, s.body), (other, s.orelse)):
            self.begin(label)
            self.body(statements)
            self.jump(end)
        self.begin(end)

    def do_While(self, s: ast.While) -> None:
        head, inside, end = (self.label(w) for w in ("while", "do", "done"))
        self.jump(head)
        self.begin(head)
        self.lines.append(f"br i1 {self.truth(s.test)}, label %{inside}, label %{end}")
        self.loop(s.body, inside, head, head, end)

    def do_For(self, s: ast.For) -> None:
        assert isinstance(s.iter, ast.Call) and isinstance(s.target, ast.Name)
        numbers = [self.known(a) for a in s.iter.args]
        if self.unroll and all(n is not None for n in numbers):
            for k in range(*(n for n in numbers if n is not None)):
                self.constants[s.target.id] = k
                self.body(s.body)
            self.constants.pop(s.target.id, None)
            return
        bounds = [self.value(a)[1] for a in s.iter.args]
        first, last = ("0", bounds[0]) if len(bounds) == 1 else bounds[:2]
        head, inside, step, end = (self.label(w) for w in ("for", "do", "next", "done"))
        self.store(s.target, "i64", first)
        self.jump(head)
        self.begin(head)
        i = self.value(s.target)[1]
        self.lines.append(f"br i1 {self.emit(f'icmp slt i64 {i}, {last}')}, label %{inside}, label %{end}")
        self.begin(inside)
        self.around.append((step, end))
        self.body(s.body)
        self.around.pop()
        self.jump(step)
        self.begin(step)
        self.store(s.target, "i64", self.emit(f"add nsw i64 {self.value(s.target)[1]}, 1"))
        self.jump(head)
        self.begin(end)

    def loop(self, statements, inside: str, step: str, head: str, end: str) -> None:
        self.begin(inside)
        self.around.append((step, end))
        self.body(statements)
        self.around.pop()
        self.jump(head)
        self.begin(end)

    def do_Break(self, s: ast.Break) -> None:
        self.jump(self.around[-1][1])

    def do_Continue(self, s: ast.Continue) -> None:
        self.jump(self.around[-1][0])

    # ---- values: (kind, text) --------------------------------------------------------------------------------

    def value(self, e: ast.expr) -> tuple[str, str]:
        if isinstance(e, ast.Constant):
            if isinstance(e.value, bool):
                return "i1", "true" if e.value else "false"
            if isinstance(e.value, int):
                return "i64", str(e.value)
            return "double", _hexadecimal(float(str(e.value)))
        if isinstance(e, ast.Name):
            if e.id in self.constants:
                built_in = self.constants[e.id]
                return ("ptr", f'@"{built_in}"') if isinstance(built_in, str) else ("i64", str(built_in))
            kind = self.kinds[e.id]
            return kind, self.emit(f"load {_type(kind)}, ptr %v.{e.id}")
        if isinstance(e, ast.Subscript):
            (kind, base), index = self.value(e.value), self.value(e.slice)[1]
            if kind == "indices":
                place = self.emit(f"getelementptr i32, ptr {base}, i64 {index}")
                found = self.emit(f"load i32, ptr {place}, align 4")
                return "i64", self.emit(f"sext i32 {found} to i64")
            place = self.emit(f"getelementptr double, ptr {base}, i64 {index}")
            return "double", self.emit(f"load double, ptr {place}, align 8")
        if isinstance(e, ast.BinOp):
            return self.arithmetic(e.op, self.value(e.left), self.value(e.right))
        if isinstance(e, ast.UnaryOp):
            kind, x = self.value(e.operand)
            if isinstance(e.op, ast.Not):
                return "i1", self.emit(f"xor i1 {self.truth(e.operand)}, true")
            return kind, self.emit(f"fneg double {x}" if kind == "double" else f"sub i64 0, {x}")
        if isinstance(e, ast.Compare):
            return "i1", self.compare(e)
        if isinstance(e, ast.BoolOp):
            return "i1", self.both(e)
        if isinstance(e, ast.IfExp):
            truth, (ka, a), (kb, b) = self.truth(e.test), self.value(e.body), self.value(e.orelse)
            if ka != kb:
                ka, a, b = "double", self.as_number(ka, a), self.as_number(kb, b)
            return ka, self.emit(f"select i1 {truth}, {ka} {a}, {ka} {b}")
        if isinstance(e, ast.Call):
            return self.call(e)
        raise SyntaxError(f"{ast.unparse(e)} is not in the subset")

    def truth(self, e: ast.expr) -> str:
        kind, x = self.value(e)
        if kind == "i1":
            return x
        return self.emit(f"icmp ne i64 {x}, 0") if kind == "i64" else self.emit(f"fcmp une double {x}, 0.0")

    def as_number(self, kind: str, x: str) -> str:
        if kind == "double":
            return x
        return self.emit(f"sitofp i64 {x} to double") if kind == "i64" else self.emit(f"uitofp i1 {x} to double")

    def arithmetic(self, op: ast.operator, a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
        word = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "sdiv", ast.Mod: "srem"}
        name = word[type(op)]
        if a[0] == b[0] == "i64" and name != "div":
            return "i64", self.emit(f"{name}{' nsw' if name in ('add', 'sub', 'mul') else ''} i64 {a[1]}, {b[1]}")
        return "double", self.emit(f"f{name} contract double {self.as_number(*a)}, {self.as_number(*b)}")

    def compare(self, e: ast.Compare) -> str:
        (op,), a, b = e.ops, self.value(e.left), self.value(e.comparators[0])
        whole = {ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge", ast.Eq: "eq", ast.NotEq: "ne"}
        broken = {ast.Lt: "olt", ast.LtE: "ole", ast.Gt: "ogt", ast.GtE: "oge", ast.Eq: "oeq", ast.NotEq: "une"}
        if a[0] == b[0] == "i64":
            return self.emit(f"icmp {whole[type(op)]} i64 {a[1]}, {b[1]}")
        return self.emit(f"fcmp {broken[type(op)]} double {self.as_number(*a)}, {self.as_number(*b)}")

    def both(self, e: ast.BoolOp) -> str:
        """`and`, `or`: the second is evaluated only where it decides."""
        self.count += 1
        slot = f"%v.b{self.count}"
        self.slots.append(f"{slot} = alloca i1")
        end = self.label("both")
        for k, part in enumerate(e.values):
            truth = self.truth(part)
            self.lines.append(f"store i1 {truth}, ptr {slot}")
            if k == len(e.values) - 1:
                break
            more = self.label("more")
            order = (more, end) if isinstance(e.op, ast.And) else (end, more)
            self.lines.append(f"br i1 {truth}, label %{order[0]}, label %{order[1]}")
            self.begin(more)
        self.jump(end)
        self.begin(end)
        return self.emit(f"load i1, ptr {slot}")

    def address(self, e: ast.Subscript) -> str:
        base, index = self.value(e.value)[1], self.value(e.slice)[1]
        return self.emit(f"getelementptr double, ptr {base}, i64 {index}")

    def call(self, e: ast.Call) -> tuple[str, str]:
        assert isinstance(e.func, ast.Name)
        if e.func.id == "array":
            self.count += 1
            self.slots.append(f"%a{self.count} = alloca [{max(self.known(e.args[0]) or 0, 1)} x double], align 8")
            return "ptr", f"%a{self.count}"
        name, values = e.func.id, [self.value(a) for a in e.args]
        if name == "at":
            kind, element = values[0][0], "i32" if values[0][0] == "indices" else "double"
            return kind, self.emit(f"getelementptr {element}, ptr {values[0][1]}, i64 {values[1][1]}")
        if name == "float":
            return "double", self.as_number(*values[0])
        if name == "int":
            kind, x = values[0]
            return "i64", x if kind == "i64" else self.emit(f"fptosi double {x} to i64")
        if name == "abs":
            return "double", self.emit(f"call double @llvm.fabs.f64(double {values[0][1]})")
        if name in ("min", "max"):
            (ka, a), (kb, b) = values
            if ka == kb == "i64":
                truth = self.emit(f"icmp {'slt' if name == 'min' else 'sgt'} i64 {a}, {b}")
                return "i64", self.emit(f"select i1 {truth}, i64 {a}, i64 {b}")
            a, b = self.as_number(ka, a), self.as_number(kb, b)
            truth = self.emit(f"fcmp {'olt' if name == 'min' else 'ogt'} double {a}, {b}")
            return "double", self.emit(f"select i1 {truth}, double {a}, double {b}")
        pointer = self.value(e.func)[1]
        self.lines.append(f"call void {pointer}({', '.join(f'{k} {v}' for k, v in values)})")
        return "void", ""


def _hexadecimal(x: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
