"""0 · kernels: plain loops (`_native`) as operations inside programs of XLA on a CPU.

XLA calls functions by an interface in C that is part of JAX (`jax.ffi`); what it hands over is unpacked in a few lines
of LLVM's language, so no C compiler is needed. The interface may change with JAX: `available` says whether it is one
that was tried, and whoever uses an operation goes another way where it is not.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from pathlib import Path

import jax

from dalembert.kernels._module import Module, compile_text
from dalembert.kernels._native import KINDS, translate

TRIED = {(0, 1), (0, 2), (0, 3)}
"""Versions of the interface with the same layout of what is used here."""

# places in bytes: of the structures XLA_FFI_CallFrame, XLA_FFI_Args (the results are alike), XLA_FFI_Buffer,
# XLA_FFI_Metadata_Extension and XLA_FFI_Metadata of xla/ffi/api/c_api.h
EXTENSION, ARGUMENTS, RESULTS, DATA = 8, 72, 112, 24
KIND, METADATA, MAJOR, MINOR = 8, 24, 24, 28


@functools.cache
def _version() -> tuple[int, int] | None:
    """The version of the interface of this JAX; None if it does not say."""
    try:
        header = (Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h").read_text()
    except (AttributeError, OSError):
        return None
    found = [re.search(rf"#define XLA_FFI_API_{word} (\d+)", header) for word in ("MAJOR", "MINOR")]
    return None if None in found else tuple(int(m[1]) for m in found if m)  # pyright: ignore[reportReturnType]


def available() -> bool:
    """Whether operations can be made here."""
    return _version() in TRIED


_MODULES: dict[str, Module] = {}  # as long as the process: compiled programs call what is in them


def operation(name: str, function: Callable, results: int) -> None:
    """Make `function`, a plain loop, an operation of XLA by this name: its arguments are the buffers of the operands,
    then those of the `results`. `Indices` are given as an operand that holds their address."""
    if name in _MODULES:
        return
    text = translate(function)
    kinds = [KINDS[kind] for kind in function.__annotations__.values() if kind in KINDS]
    _MODULES[name] = module = compile_text([text, _handler(name, function.__name__, kinds, results)], 1, 2, passes=True)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    jax.ffi.register_ffi_target(name, capsule(module.address(f"call.{name}"), None, None), platform="cpu")


def _handler(name: str, function: str, kinds: list[str], results: int) -> str:
    major, minor = _version() or (0, 0)
    given = len(kinds) - results
    lines = [
        f'define ptr @"call.{name}"(ptr %frame) {{',
        "entry:",
        *_loaded("extension", "%frame", EXTENSION),
        "%plain = icmp eq ptr %extension, null",
        "br i1 %plain, label %run, label %asked",
        "asked:",
        f"%kind.at = getelementptr i8, ptr %extension, i64 {KIND}",
        "%kind = load i32, ptr %kind.at",
        "%tells = icmp eq i32 %kind, 1",
        "br i1 %tells, label %tell, label %run",
        "tell:",
        *_loaded("about", "%extension", METADATA),
        f"%major = getelementptr i8, ptr %about, i64 {MAJOR}",
        f"store i32 {major}, ptr %major",
        f"%minor = getelementptr i8, ptr %about, i64 {MINOR}",
        f"store i32 {minor}, ptr %minor",
        "ret ptr null",
        "run:",
        *_loaded("operands", "%frame", ARGUMENTS),
        *_loaded("results", "%frame", RESULTS),
    ]
    for k, kind in enumerate(kinds):
        source, place = ("%operands", k) if k < given else ("%results", k - given)
        lines += [*_loaded(f"b{k}", source, 8 * place), *_loaded(f"d{k}", f"%b{k}", DATA)]
        if kind == "indices":
            lines += _loaded(f"x{k}", f"%d{k}", 0)
    handed = ", ".join(f"ptr %{'x' if kind == 'indices' else 'd'}{k}" for k, kind in enumerate(kinds))
    return "\n".join([*lines, f"call void @{function}({handed})", "ret ptr null", "}"])


def _loaded(name: str, base: str, offset: int) -> list[str]:
    return [f"%{name}.at = getelementptr i8, ptr {base}, i64 {offset}", f"%{name} = load ptr, ptr %{name}.at"]
