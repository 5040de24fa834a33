"""0 · kernels: a graph of scalars as machine code, by LLVM (llvmlite): no compiler is needed on the user's machine.

Each function of a module has two parts: `NAME.setup(parameters, kept)` computes once what depends on parameters only,
`NAME(kept, inputs, outputs)` the rest. With W lanes all numbers are vectors of W, so W members of a batch are computed
at once; number k of member l is element k·W + l. Additions and multiplications may be fused, nothing else is
rearranged. Object code is kept in the folder of compiled programs, by the hash of what it was made from.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import struct
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm

from dalembert._runtime import ProgramFiles, cache_folder
from dalembert.kernels import _lapack
from dalembert.kernels._graph import BOOLEAN, Branch, External, Graph, Loop, Region

INTRINSIC = {"sqrt", "sin", "cos", "exp", "log", "pow", "floor", "ceil", "rint", "trunc", "copysign"}
INTRINSIC_NAMES = {"abs": "fabs", "max": "maximum", "min": "minimum"}
"""Operations that LLVM has for vectors too, by the same name or another."""
LIBRARY = {"rem": "fmod"}
"""Functions of the C library that have another name there."""
COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
FUSED = "contract"


class Written(NamedTuple):
    """A function as a graph: what it was given and what it returns."""

    name: str
    graph: Graph
    outputs: list[int]


class Code(NamedTuple):
    """A function in LLVM's language, and how many numbers its setup keeps for it."""

    name: str
    text: str
    kept: int


def code(written: Written, lanes: int = 1, *, strided: bool = False) -> Code:
    """The function in LLVM's language.

    With `strided` it is `NAME.setup(parameters, stride, kept)` and `NAME(kept, stride, inputs, outputs)`: parameter or
    kept number k is element k·stride.
    """
    return _Writer(written, lanes, strided).code()


def kept_nodes(graph: Graph, outputs: list[int], live: set[int]) -> list[int]:
    """Nodes of the setup that the rest uses, in the order in which they are kept; truth values as numbers."""
    setup = graph.setup
    used = {a for a in outputs if a >= 0 and graph.region[a] is setup}
    for node in live:
        if graph.region[node] is setup:
            continue
        used |= {a for a in graph.arguments(node) if a >= 0 and graph.region[a] is setup}
    return sorted(used)


class _Writer:
    def __init__(self, written: Written, lanes: int, strided: bool):
        self.name, self.graph, self.lanes, self.strided = written.name, written.graph, lanes, strided
        self.outputs = [self.graph.as_number(a) for a in written.outputs]
        self.type = "double" if lanes == 1 else f"<{lanes} x double>"
        self.truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
        self.suffix = "f64" if lanes == 1 else f"v{lanes}f64"
        self.lines: list[str] = []
        self.block = "entry"
        self.count = 0
        self.stack: list[str] = []  # arrays, made where a function begins
        self.loaded_results: dict[tuple[int, int], str] = {}

    def code(self) -> Code:
        graph = self.graph
        self.live = graph.needed(self.outputs)
        kept = kept_nodes(graph, self.outputs, self.live)
        self.loaded: dict[int, str] = {}
        pointer = "ptr noalias nocapture"
        stride = ", i64 %stride" if self.strided else ""
        text = []
        for part in ("setup", "main"):
            self.lines, self.stack, self.block = [], [], "entry"
            if part == "setup":
                head = f'define void @"{self.name}.setup"({pointer} readonly %parameters{stride}, {pointer} %kept) {{'
                self.base = "%parameters"
                self._region(graph.setup)
                for k, a in enumerate(kept):
                    self._store("%kept", k, self._value(a))
            else:
                given = f"{pointer} readonly %kept{stride}, {pointer} readonly %inputs, {pointer} %outputs"
                head = f'define void @"{self.name}"({given}) {{'
                self.base = "%inputs"
                for k, a in enumerate(kept):
                    self.loaded[a] = self._load("%kept", k)
                self._region(graph.main)
                for k, a in enumerate(self.outputs):
                    self._store("%outputs", k, self._value(a))
            text += [head, "entry:", *self.stack, *self.lines, "ret void", "}"]
        return Code(self.name, "\n".join(text), len(kept))

    # ---- values ----------------------------------------------------------------------------------------------

    def _fresh(self) -> str:
        self.count += 1
        return f"%x{self.count}"

    def _emit(self, text: str) -> str:
        name = self._fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def _value(self, a: int) -> str:
        if a < 0:
            bits = struct.unpack("<Q", struct.pack("<d", self.graph.value(a)))[0]
            number = f"0x{bits:016X}"
            return number if self.lanes == 1 else "<" + ", ".join([f"double {number}"] * self.lanes) + ">"
        return self.loaded.get(a) or f"%n{a}"

    def _truth(self, a: int) -> str:
        if a < 0:
            word = "true" if self.graph.value(a) else "false"
            return word if self.lanes == 1 else "<" + ", ".join([f"i1 {word}"] * self.lanes) + ">"
        if a in self.loaded:  # was kept as a number
            zero = self._value(-1)
            return self._emit(f"fcmp une {self.type} {self.loaded[a]}, {zero}")
        return f"%n{a}"

    def _address(self, base: str, k: int) -> str:
        far = self.strided and base in ("%parameters", "%kept")
        place = self._emit(f"mul nsw i64 {k}, %stride") if far else k
        return self._emit(f"getelementptr {self.type}, ptr {base}, i64 {place}")

    def _load(self, base: str, k: int) -> str:
        return self._emit(f"load {self.type}, ptr {self._address(base, k)}, align 8")

    def _store(self, base: str, k: int, value: str) -> None:
        address = self._address(base, k)
        self.lines.append(f"store {self.type} {value}, ptr {address}, align 8")

    # ---- nodes -----------------------------------------------------------------------------------------------

    def _region(self, region: Region) -> None:
        graph = self.graph
        for a in region.nodes:
            if a in self.live:
                self._node(a, graph.op[a], graph.args[a])
                if region is graph.setup and graph.op[a] in BOOLEAN:
                    self._as_number(a)

    def _as_number(self, a: int) -> None:
        """A truth value of the setup, as the number that is kept."""
        one, zero = self._value(-2), self._value(-1)
        self.loaded[a] = self._emit(f"select {self.truth} %n{a}, {self.type} {one}, {self.type} {zero}")

    def _node(self, a: int, op: str, args: tuple) -> None:
        out, T, add = f"%n{a}", self.type, self.lines.append
        if op == "input":
            name, index = args
            if name == "carried":
                return
            address = self._address(self.base, index)
            add(f"{out} = load {T}, ptr {address}, align 8")
        elif op in ("add", "sub", "mul", "div"):
            x, y = map(self._value, args)
            add(f"{out} = f{op} {FUSED} {T} {x}, {y}")
        elif op == "neg":
            add(f"{out} = fneg {T} {self._value(args[0])}")
        elif op in COMPARISONS:
            x, y = map(self._value, args)
            add(f"{out} = fcmp {COMPARISONS[op]} {T} {x}, {y}")
        elif op in ("and", "or"):
            x, y = map(self._truth, args)
            add(f"{out} = {op} {self.truth} {x}, {y}")
        elif op == "not":
            x, y = self._truth(args[0]), self._truth(-2)
            add(f"{out} = xor {self.truth} {x}, {y}")
        elif op == "select":
            truth = self._truth(args[0])
            x, y = map(self._value, args[1:])
            add(f"{out} = select {self.truth} {truth}, {T} {y}, {T} {x}")
        elif op == "loop":
            self._loop(a, args[0])
        elif op == "branch":
            self._branch(a, args[0])
        elif op == "external":
            self._external(a, args[0])
        elif op == "result":
            self.loaded[a] = self.loaded_results.get(args) or "%l{}.{}".format(*args)
        elif op == "round30":
            self._round(out, self._value(args[0]))
        elif op in INTRINSIC or op in INTRINSIC_NAMES:
            values = ", ".join(f"{T} {self._value(x)}" for x in args)
            add(f"{out} = call {T} @llvm.{INTRINSIC_NAMES.get(op, op)}.{self.suffix}({values})")
        else:
            self._library(out, LIBRARY.get(op, op), [self._value(x) for x in args])

    def _round(self, out: str, x: str) -> None:
        """Cut the fraction to 30 bits [Veltkamp 1968]: c = (2²² + 1) x; c − (c − x)."""
        factor = self.graph.constant(2.0**22 + 1)
        c = self._emit(f"fmul {self.type} {self._value(factor)}, {x}")
        d = self._emit(f"fsub {self.type} {c}, {x}")
        self.lines.append(f"{out} = fsub {self.type} {c}, {d}")

    def _library(self, out: str, name: str, values: list[str]) -> None:
        """A function of the C library, lane by lane."""
        if self.lanes == 1:
            arguments = ", ".join(f"double {v}" for v in values)
            self.lines.append(f"{out} = call double @{name}({arguments})")
            return
        whole = "undef"
        for lane in range(self.lanes):
            each = [self._emit(f"extractelement {self.type} {v}, i32 {lane}") for v in values]
            one = self._emit(f"call double @{name}({', '.join(f'double {x}' for x in each)})")
            last = lane == self.lanes - 1
            text = f"insertelement {self.type} {whole}, double {one}, i32 {lane}"
            if last:
                self.lines.append(f"{out} = {text}")
            else:
                whole = self._emit(text)

    def _loop(self, a: int, loop: Loop) -> None:
        """while test: carried ← following; with lanes each member stops by itself."""
        T, add = self.type, self.lines.append
        start = [self._value(x) for x in loop.start]
        before, head, body, end = self.block, f"l{a}.head", f"l{a}.body", f"l{a}.end"
        add(f"br label %{head}")
        add(f"{head}:")
        hole = len(self.lines)  # the phis are written when the end of the body is known
        self.block = head
        going = None
        if loop.test is None:
            add(f"%l{a}.more = icmp ult i64 %l{a}.i, {loop.count}")
        else:
            tested = self.graph.needed([loop.test])
            self._some(loop.body, lambda n: n in tested)
            going = self._truth(loop.test)
            whole = going
            if self.lanes > 1:
                bits = self._emit(f"bitcast {self.truth} {going} to i{self.lanes}")
                whole = self._emit(f"icmp ne i{self.lanes} {bits}, 0")
            add(f"%l{a}.more = or i1 {whole}, false")
            first = tested
        add(f"br i1 %l{a}.more, label %{body}, label %{end}")
        add(f"{body}:")
        self.block = body
        self._some(loop.body, lambda n: loop.test is None or n not in first)
        following = [self._value(x) for x in loop.following]
        if self.lanes > 1 and going is not None:
            following = [
                self._emit(f"select {self.truth} {going}, {T} {f}, {T} %n{c}")
                for f, c in zip(following, loop.carried, strict=True)
            ]
        phis = []
        if loop.test is None:
            add(f"%l{a}.j = add i64 %l{a}.i, 1")
            phis.append(f"%l{a}.i = phi i64 [0, %{before}], [%l{a}.j, %{self.block}]")
        for s, c, f in zip(start, loop.carried, following, strict=True):
            phis.append(f"%n{c} = phi {T} [{s}, %{before}], [{f}, %{self.block}]")
        add(f"br label %{head}")
        add(f"{end}:")
        self.lines[hole:hole] = phis
        self.block = end
        for k, c in enumerate(loop.carried):
            add(f"%l{a}.{k} = select {self.truth} {self._truth(-2)}, {T} %n{c}, {T} %n{c}")

    def _branch(self, a: int, branch: Branch) -> None:
        """Only what is needed: with lanes both parts, if some members need one and some the other."""
        T, add = self.type, self.lines.append
        truth = self._truth(branch.truth)
        values = []
        for which, region in enumerate(branch.regions):
            wanted = truth
            if which:
                wanted = self._emit(f"xor {self.truth} {truth}, {self._truth(-2)}")
            if self.lanes > 1:
                bits = self._emit(f"bitcast {self.truth} {wanted} to i{self.lanes}")
                wanted = self._emit(f"icmp ne i{self.lanes} {bits}, 0")
            before, inside, end = self.block, f"b{a}.{which}", f"e{a}.{which}"
            add(f"br i1 {wanted}, label %{inside}, label %{end}")
            add(f"{inside}:")
            self.block = inside
            self._some(region, lambda n: True)
            found = [self._value(x) for x in branch.results[which]]
            last = self.block
            add(f"br label %{end}")
            add(f"{end}:")
            self.block = end
            values.append([self._emit(f"phi {T} [{x}, %{last}], [zeroinitializer, %{before}]") if self.lanes > 1
                           else self._emit(f"phi {T} [{x}, %{last}], [0.0, %{before}]") for x in found])  # fmt: skip
        for k, (x, y) in enumerate(zip(*values, strict=True)):
            add(f"%l{a}.{k} = select {self.truth} {truth}, {T} {x}, {T} {y}")

    def _external(self, a: int, given: External) -> None:
        """A call of LAPACK, for one lane after the other."""
        size, T = max(given.count, 1), self.type
        self.stack += [f"%m{a} = alloca [{len(given.numbers)} x double]", f"%o{a} = alloca [{size} x double]"]
        numbers = [self._value(x) for x in given.numbers]
        results = ["undef"] * given.count
        for lane in range(self.lanes):
            for k, x in enumerate(numbers):
                one = x if self.lanes == 1 else self._emit(f"extractelement {T} {x}, i32 {lane}")
                address = self._emit(f"getelementptr double, ptr %m{a}, i64 {k}")
                self.lines.append(f"store double {one}, ptr {address}")
            sizes = f"i64 {given.rows}, i64 {given.columns}, i64 {given.way}"
            self.lines.append(f"call void @lapack.{given.name}(ptr %m{a}, ptr %o{a}, {sizes})")
            for k in range(given.count):
                address = self._emit(f"getelementptr double, ptr %o{a}, i64 {k}")
                one = self._emit(f"load double, ptr {address}")
                results[k] = (
                    one if self.lanes == 1 else self._emit(f"insertelement {T} {results[k]}, double {one}, i32 {lane}")
                )
        for k, x in enumerate(results):
            self.loaded_results[a, k] = x

    def _some(self, region: Region, wanted) -> None:
        for n in region.nodes:
            if n in self.live and wanted(n):
                self._node(n, self.graph.op[n], self.graph.args[n])


# ---- machine code --------------------------------------------------------------------------------------------


class Module:
    """Compiled functions; they live as long as this does."""

    def __init__(self, object_code: bytes):
        machine = _machine(2)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        found = self._engine.get_function_address(name)
        if not found:
            raise RuntimeError(f"The compiled module has no function '{name}'.")
        return found

    def function(self, name: str, *types: Any) -> Any:
        """A function without a result, callable from Python; it runs without Python's lock."""
        found = ctypes.CFUNCTYPE(None, *types)(self.address(name))
        found.module = self  # which must live as long
        return found


DECLARED = ("tan", "expm1", "log1p", "tanh", "sinh", "cosh", "asin", "acos", "atan", "asinh", "cbrt")
DECLARED_2 = ("fmod", "atan2", "hypot")


def compile_text(texts: list[str], lanes: int = 1, effort: int = 1, *, passes: bool = False) -> Module:
    """LLVM's language as machine code, from the folder of compiled programs if it is there."""
    text = "\n".join([*_declarations(lanes), *texts])
    if "@lapack." in text:
        _lapack.resolve()
        text += _lapack.text()
    files = _files()
    key = _key(text, effort, passes)
    found = None if files is None else files.get(key)
    if found is None:
        module = llvm.parse_assembly(text)
        machine = _machine(effort)
        if passes:
            options = llvm.create_pipeline_tuning_options(speed_level=2)
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        found = machine.emit_object(module)
        if files is not None:
            files.put(key, found)
    return Module(found)


def _declarations(lanes: int) -> list[str]:
    T, suffix = ("double", "f64") if lanes == 1 else (f"<{lanes} x double>", f"v{lanes}f64")
    one = {*INTRINSIC, "fabs"} - {"pow", "copysign"}
    out = [f"declare {T} @llvm.{n}.{suffix}({T})" for n in sorted(one)]
    out += [f"declare {T} @llvm.{n}.{suffix}({T}, {T})" for n in ("pow", "copysign", "maximum", "minimum")]
    out += [f"declare double @{n}(double)" for n in DECLARED]
    return out + [f"declare double @{n}(double, double)" for n in DECLARED_2]


@functools.cache
def _ready() -> tuple[Any, str, str]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine(effort: int):
    """A new one each time: an engine takes it over."""
    target, cpu, features = _ready()
    return target.create_target_machine(cpu=cpu, features=features, opt=effort, jit=True)


def _key(text: str, effort: int, passes: bool) -> str:
    _, cpu, features = _ready()
    made_by = f"{llvmlite.__version__} {cpu} {features} {effort} {passes}\n"
    return "kernel-" + hashlib.sha256((made_by + text).encode()).hexdigest()


@functools.cache
def _files() -> ProgramFiles | None:
    folder = cache_folder()
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return ProgramFiles(folder)


def widest() -> int:
    """How many lanes this machine has for float64."""
    _, _, features = _ready()
    return 8 if "+avx512f" in features else 4 if "+avx" in features else 2
