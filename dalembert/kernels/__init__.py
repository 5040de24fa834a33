"""0 · kernels: functions of JAX as machine code of scalars, for small machines many times faster than JAX's own."""

from dalembert.kernels._kernel import Compiled, Kernel, fixed, flat
from dalembert.kernels._llvm import compile_text, widest
from dalembert.kernels._native import Function, Number, Numbers, Whole, at, translate
from dalembert.kernels._program import Program, describe, described
from dalembert.kernels._scalarise import Unknown

__all__ = [
    "Compiled",
    "Function",
    "Kernel",
    "Number",
    "Numbers",
    "Program",
    "Unknown",
    "Whole",
    "at",
    "compile_text",
    "describe",
    "described",
    "fixed",
    "flat",
    "translate",
    "widest",
]
