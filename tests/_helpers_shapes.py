"""The type checker of the tests: shapes of arrays, as annotations state them, are checked at every call."""

from __future__ import annotations

import typing
from typing import Any

from beartype import BeartypeConf, BeartypeStrategy, beartype

_check = beartype(conf=BeartypeConf(strategy=BeartypeStrategy.O1))


def shapes(function):
    """The function with its shaped annotations checked; all others are pyright's business."""
    if isinstance(function, type):
        return function
    kept = {}
    for name, hint in getattr(function, "__annotations__", {}).items():
        found = _resolved(hint, getattr(function, "__globals__", {}))
        if _is_shaped(found):
            kept[name] = found
    if not kept:
        return function
    function.__annotations__ = kept
    return _check(function)


def _resolved(hint: Any, names: dict[str, Any]) -> Any:
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, names)
    except Exception:  # a name for type checkers only
        return None


def _is_shaped(hint: Any) -> bool:
    if isinstance(hint, type) and hint.__module__.startswith("jaxtyping"):
        return True
    return any(_is_shaped(part) for part in typing.get_args(hint) if not isinstance(part, str))
