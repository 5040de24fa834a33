"""0 · kernels: LLVM's language as machine code. Object code is kept in the folder of compiled programs, by the hash of
what it was made from."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from dalembert._runtime import ProgramFiles, cache_folder
from dalembert.kernels import _lapack
from dalembert.kernels._llvm import INTRINSIC


class Module:
    """Compiled functions; they live as long as this does."""

    def __init__(self, object_code: bytes, lapack: bool = False):
        if lapack:
            _lapack.resolve()
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
        found: Any = ctypes.CFUNCTYPE(None, *types)(self.address(name))
        found.module = self  # which must live as long
        return found


DECLARED = ("tan", "expm1", "log1p", "tanh", "sinh", "cosh", "asin", "acos", "atan", "asinh", "cbrt")
DECLARED_2 = ("fmod", "atan2", "hypot")


def compile_text(texts: list[str], lanes: int = 1, effort: int = 1, *, passes: bool = False) -> Module:
    """LLVM's language as machine code."""
    return Module(*object_code(texts, lanes, effort, passes=passes))


def object_code(
    texts: list[str], lanes: int = 1, effort: int = 1, *, passes: bool = False, keep: bool = True
) -> tuple[bytes, bool]:
    """The object code of LLVM's language, and whether it calls LAPACK; from the folder of compiled programs if it is
    there."""
    text = "\n".join([*_declarations(lanes), *texts])
    lapack = "@lapack." in text
    text += _lapack.text() if lapack else ""
    files = object_files() if keep else None
    key = _key(text, effort, passes)
    found = None if files is None else files.get(key)
    if found is None:
        module = llvm.parse_assembly(text)
        machine = _machine(effort)
        if passes:
            options = llvm.create_pipeline_tuning_options(speed_level=2)
            options.slp_vectorization = True
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        found = machine.emit_object(module)
        if files is not None:
            files.put(key, found)
    return found, lapack


def _declarations(lanes: int) -> list[str]:
    T, suffix = ("double", "f64") if lanes == 1 else (f"<{lanes} x double>", f"v{lanes}f64")
    one = {*INTRINSIC, "fabs"} - {"pow", "copysign"}
    out = [f"declare {T} @llvm.{n}.{suffix}({T})" for n in sorted(one)]
    out += [f"declare {T} @llvm.{n}.{suffix}({T}, {T})" for n in ("pow", "copysign", "maximum", "minimum")]
    out += [f"declare double @{n}(double)" for n in DECLARED]
    out.append(f"declare {T} @llvm.fma.{suffix}({T}, {T}, {T})")
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


def host() -> str:
    """The processor."""
    _, cpu, features = _ready()
    return f"{cpu} {features}"


def _key(text: str, effort: int, passes: bool) -> str:
    made_by = f"{llvmlite.__version__} {host()} {effort} {passes}\n"
    return "kernel-" + hashlib.sha256((made_by + text).encode()).hexdigest()


@functools.cache
def object_files() -> ProgramFiles | None:
    folder = cache_folder()
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return ProgramFiles(folder)


def fused() -> bool:
    """Whether this processor multiplies and adds with one rounding."""
    triple, _, features = llvm.get_process_triple(), *_ready()[1:]
    return "+fma" in features or triple.startswith(("aarch64", "arm64"))


def widest() -> int:
    """How many lanes this machine has for float64."""
    _, _, features = _ready()
    return 8 if "+avx512f" in features else 4 if "+avx" in features else 2
