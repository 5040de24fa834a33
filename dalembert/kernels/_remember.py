"""0 · kernels: machine code kept between processes, without tracing the functions that it was made of.

What code depends on (classes, sizes, zeros and ones of a machine, the methods) is pickled, and its hash names the file;
so do the versions of the libraries and the files of this package. A machine that contains a function or a class of the
user's own has no such name, because its source may change: its code is made anew by each process.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import io
import pickle
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from dalembert.kernels._kernel import fixed
from dalembert.kernels._module import host, object_files

T = TypeVar("T")

KNOWN = frozenset({"dalembert", "diffrax", "equinox", "jax", "jaxlib", "lineax", "numpy", "optimistix", "builtins"})
"""Packages whose classes and functions are known by their name: their version is part of the name of a file."""
LIBRARIES = ("jax", "jaxlib", "equinox", "diffrax", "optimistix", "numpy", "scipy", "llvmlite")


class _Unnamed(Exception):
    """Something that may change without its name changing."""


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | types.FunctionType | types.BuiltinFunctionType):
            module, name = obj.__module__ or "builtins", obj.__qualname__
            if module.partition(".")[0] not in KNOWN or "<" in name:
                raise _Unnamed(name)
        return NotImplemented


def remembered(function: Callable, depends_on: Any, inputs: Any, make: Callable[[], T]) -> T:
    """make(), or what it made of this function, for the same `depends_on` (with its zeros and ones) and `inputs` (of
    which only shapes matter), in an earlier process."""
    files = object_files()
    name = None if files is None else _name(function, depends_on, inputs)
    if files is None or name is None:
        return make()
    found = files.get(name)
    if found is not None:
        try:
            return pickle.loads(found)
        except Exception:  # written by something else: make it anew
            found = None
    made = make()
    try:
        content = pickle.dumps(made)
    except Exception:  # it contains what cannot be written
        return made
    files.put(name, content)
    return made


def _name(function: Callable, depends_on: Any, inputs: Any) -> str | None:
    text, what = io.BytesIO(), f"{function.__module__}.{function.__qualname__}"
    if what.partition(".")[0] not in KNOWN or "<" in what:
        return None
    try:
        _Pickler(text, protocol=5).dump((what, _shown(depends_on, True), _shown(inputs, False)))
    except Exception:  # not everything can be pickled
        return None
    return "code-" + hashlib.sha256(_made_by() + text.getvalue()).hexdigest()


def _shown(tree: Any, values: bool) -> Any:
    """A tree with shapes, types and built-in numbers in place of its arrays."""

    def shown(x):
        if not eqx.is_array(x):
            return x
        x = np.asarray(x)
        built_in = fixed(x) if values else np.zeros(x.shape, bool)
        return x.shape, x.dtype.str, built_in.tobytes(), x[built_in].tobytes()

    return jax.tree_util.tree_map(shown, tree)


@functools.cache
def _made_by() -> bytes:
    """The libraries, the processor and the files of this package."""
    found = [f"{n} {importlib.metadata.version(n)}" for n in LIBRARIES] + [host()]
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        about = path.stat()
        found.append(f"{path.relative_to(root)} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(found).encode()
