"""0 · kernels: functions of JAX as machine code of scalars, for small machines many times faster than JAX's own."""

from dalembert.kernels._kernel import Compiled, Kernel, fixed, flat
from dalembert.kernels._llvm import compile_text, widest
from dalembert.kernels._native import Function, Number, Numbers, Whole, at, translate
from dalembert.kernels._scalarise import MOST, Unknown

__all__ = [
    "MOST",
    "Compiled",
    "Function",
    "Kernel",
    "Number",
    "Numbers",
    "Unknown",
    "Whole",
    "at",
    "compile_text",
    "fixed",
    "flat",
    "translate",
    "widest",
]
