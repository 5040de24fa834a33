"""0 · kernels: functions of JAX as machine code of scalars, for small machines many times faster than JAX's own.

Equations (0.1)–(0.9): docs/theory/kernels.md.
"""

from dalembert.kernels._cuda import Buffer, Device, DeviceProgram, device
from dalembert.kernels._eliminate import order
from dalembert.kernels._graph import Unknown
from dalembert.kernels._jax import as_jax
from dalembert.kernels._kernel import Compiled, Kernel, fixed, flat
from dalembert.kernels._llvm import code
from dalembert.kernels._module import compile_text, widest
from dalembert.kernels._native import Function, Indices, Number, Numbers, Whole, array, at, translate
from dalembert.kernels._operation import available, operation
from dalembert.kernels._program import Program, describe, described
from dalembert.kernels._ptx import entry, write_ptx
from dalembert.kernels._remember import remembered
from dalembert.kernels._scalarise import MOST

__all__ = [
    "MOST",
    "Buffer",
    "Compiled",
    "Device",
    "DeviceProgram",
    "Function",
    "Indices",
    "Kernel",
    "Number",
    "Numbers",
    "Program",
    "Unknown",
    "Whole",
    "array",
    "as_jax",
    "at",
    "available",
    "code",
    "compile_text",
    "describe",
    "described",
    "device",
    "entry",
    "fixed",
    "flat",
    "operation",
    "order",
    "remembered",
    "translate",
    "widest",
    "write_ptx",
]
