"""8 · studies: a function of a person's own, and by what it is recognised when a study goes on."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

DEEP = 8
"""Functions that call functions, of which so many below each other are looked at."""


def described(function: Callable) -> dict[str, Any]:
    """A function by its name, a hash of its source, and what it refers to by name: numbers, texts, tuples and arrays
    among its defaults, its globals and what surrounds it, and the sources of functions of its own module.

    Lists, tables and other objects that may change while a study runs are not looked at.
    """
    refers: dict[str, str] = {}
    while isinstance(function, functools.partial):
        _note(refers, {str(k): x for k, x in enumerate(function.args)} | function.keywords)
        function = function.func
    name = getattr(function, "__qualname__", type(function).__name__)
    if not (inspect.isfunction(function) or inspect.ismethod(function)):  # an object that is called
        _note(refers, getattr(function, "__dict__", {}))
        source, function = _source(type(function)), type(function).__call__
    else:
        _note(refers, getattr(getattr(function, "__self__", None), "__dict__", {}))
        source = _source(function)
    _follow(refers, inspect.unwrap(function), set(), DEEP)
    return {"name": name, "hash": _hash(source), "refers": dict(sorted(refers.items()))}


def _follow(refers: dict[str, str], function: Any, seen: set[int], deep: int, lead: str = "") -> None:
    """Note what a function refers to, and the functions that it calls; `lead` comes before names that are its own."""
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function) or id(function) in seen or not deep:
        return
    seen.add(id(function))
    names = inspect.signature(function).parameters
    _note(refers, {lead + n: p.default for n, p in names.items() if p.default is not p.empty})
    found = inspect.getclosurevars(function)
    for own, before in ((found.globals, ""), (found.nonlocals, lead)):
        _note(refers, {before + name: x for name, x in own.items()})
        for name, other in own.items():
            if inspect.isfunction(other) and other.__module__ == function.__module__:
                refers.setdefault(before + name, _hash(_source(other)))
                _follow(refers, other, seen, deep - 1, f"{before}{name}.")


def _note(refers: dict[str, str], table: Mapping[str, Any]) -> None:
    """Note plain data by name; what is there already, an argument that is given, goes before a default."""
    for name, x in table.items():
        shown = _shown(x)
        if shown is not None:
            refers.setdefault(name, shown)


def _shown(x: Any) -> str | None:
    """Plain data that does not change by itself, as a text; None of anything else."""
    if isinstance(x, np.ndarray):
        return f"array {x.shape} {_hash(x.tobytes())}" if x.dtype.kind in "biufcSU" else None
    if x is None or isinstance(x, bool | int | float | complex | str | bytes | np.generic):
        text = repr(x)
        return text if len(text) < 100 else _hash(text)
    if isinstance(x, tuple):
        parts = [_shown(each) for each in x]
        return None if None in parts else f"({', '.join(map(str, parts))})"
    return None


def _source(of: Any) -> str:
    try:
        return inspect.getsource(of)
    except (OSError, TypeError):
        code = getattr(of, "__code__", None)
        return getattr(of, "__qualname__", "") if code is None else f"{code.co_code!r}{code.co_names}{code.co_consts}"


def _hash(x: str | bytes) -> str:
    return hashlib.sha256(x if isinstance(x, bytes) else x.encode()).hexdigest()
