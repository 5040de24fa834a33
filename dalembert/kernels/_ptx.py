"""0 · kernels: LLVM's language as a program for NVIDIA GPUs (PTX), by llvmlite: no CUDA toolkit is needed to write it.

A program has functions that are called on the GPU and `entries`, which are started from outside: `entry` makes one of
a function whose first two arguments are its number and the count of all. The graphics
driver turns PTX into machine code when it is loaded (`_cuda`). Sines, powers and the like come from NVIDIA's library
of mathematical functions, one file (`libdevice.10.bc`) of CUDA, and of the wheels of JAX, PyTorch and Triton for GPUs.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from dalembert._results import DalembertError
from dalembert.kernels._module import DECLARED, DECLARED_2, object_files

TRIPLE = "nvptx64-nvidia-cuda"
HEAD = f"""target triple = "{TRIPLE}"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""
FROM_LIBRARY = {f"llvm.{n}.f64": n for n in ("sin", "cos", "exp", "log", "pow")} | {n: n for n in DECLARED + DECLARED_2}
"""Functions of NVIDIA's library, by the names that they have in LLVM's language for a CPU."""
TWO = {"pow", "copysign", "maximum", "minimum", *DECLARED_2}
TARGETS = (60, 70, 75, 80, 86, 89, 90)
"""Kinds of GPUs; a newer one runs what was written for an older one."""


def entry(name: str, function: str, arguments: list[str], count: str) -> str:
    """An entry that calls `function(number, arguments…)` for each number below the argument `count`.

    If it is started in fewer threads than that, each takes every so-manieth number.
    """
    given = ", ".join(arguments)
    return f"""
define ptx_kernel void @{name}({given}) {{
entry:
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %blocks = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %size = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block.8 = zext i32 %block to i64
  %blocks.8 = zext i32 %blocks to i64
  %size.8 = zext i32 %size to i64
  %thread.8 = zext i32 %thread to i64
  %before = mul nsw i64 %block.8, %size.8
  %first = add nsw i64 %before, %thread.8
  %all = mul nsw i64 %blocks.8, %size.8
  br label %head
head:
  %number = phi i64 [%first, %entry], [%next, %go]
  %inside = icmp slt i64 %number, {count}
  br i1 %inside, label %go, label %end
go:
  call void @{function}(i64 %number, {given})
  %next = add nsw i64 %number, %all
  br label %head
end:
  ret void
}}
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""


def write_ptx(texts: list[str], entries: list[str], capability: int, inline: bool) -> bytes:
    """PTX of functions and entries, from the folder of compiled programs if it is there.

    Arguments:
        texts: functions in LLVM's language.
        entries: names of those that are started from outside.
        capability: the kind of GPU, ten times its compute capability (90 for 9.0).
        inline: whether functions are written into those that call them: fast where all their numbers fit into
            registers, slow to compile where they do not.
    """
    target = max(t for t in TARGETS if t <= max(capability, TARGETS[0]))
    text, libraries = _for_gpu("\n".join(texts), entries, inline)
    made_by = f"{llvmlite.__version__} {target} {sorted(entries)} {inline}\n"
    key = "ptx-" + hashlib.sha256((made_by + text).encode()).hexdigest()
    files = object_files()
    found = None if files is None else files.get(key)
    if found is None:
        found = _compile(text, libraries, set(entries), target)
        if files is not None:
            files.put(key, found)
    return found


def _for_gpu(text: str, entries: list[str], inline: bool) -> tuple[str, bool]:
    """The text with the names of NVIDIA's library, all that is called declared; and whether that library is used."""
    text = re.sub(r"call double @([\w.]+)\(", lambda m: f"call double @{_name(m[1])}(", text)
    text = re.sub(r"^declare .*\n", lambda m: m[0] if "nvvm" in m[0] else "", text, flags=re.M)
    lines = list(dict.fromkeys(re.findall(r"^declare .*$", text, flags=re.M)))
    text = re.sub(r"^declare .*\n?", "", text, flags=re.M)
    used = set(re.findall(r"call double @([\w.]+)\(", text))
    for name in sorted(used):
        plain = name.removeprefix("__nv_").removeprefix("llvm.").removesuffix(".f64")
        lines.append(f"declare double @{name}(double{', double' if plain in TWO else ''})")
    if inline:
        own = re.compile(r'^(define void @"?([\w.]+)"?\(.*\)) \{', flags=re.M)
        text = own.sub(lambda m: f"{m[1]} alwaysinline {{" if m[2] not in entries else m[0], text)
    return "\n".join([HEAD, *lines, text]), any(n.startswith("__nv_") for n in used)


def _name(name: str) -> str:
    return f"__nv_{FROM_LIBRARY[name]}" if name in FROM_LIBRARY else name


def _compile(text: str, libraries: bool, entries: set[str], target: int) -> bytes:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    if libraries:
        module.link_in(llvm.parse_bitcode(library_file().read_bytes()))
    for function in module.functions:
        if not function.is_declaration and function.name not in entries:
            function.linkage = "internal"
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=f"sm_{target}", features="+ptx78", opt=2)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module).encode() + b"\0"


@functools.cache
def library_file() -> Path:
    """NVIDIA's library of mathematical functions."""
    for folder in _folders():
        for pattern in ("libdevice.10.bc", "*/libdevice.10.bc", "*/*/libdevice.10.bc", "*/*/*/libdevice.10.bc"):
            found = sorted(folder.glob(pattern))
            if found:
                return found[-1]
    raise DalembertError(
        "NVIDIA's file libdevice.10.bc, which a GPU needs for sines and powers, was not found. Install it with "
        "pip install nvidia-cuda-nvcc, or set CUDA_HOME to the folder of a CUDA toolkit."
    )


def _folders() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "nvvm"
    for package, inside in (("nvidia", "."), ("triton", "backends/nvidia/lib"), ("jaxlib", "cuda/nvvm")):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            yield Path(place) / inside
    yield from (p / "nvvm" for p in sorted(Path("/usr/local").glob("cuda*"), reverse=True))
