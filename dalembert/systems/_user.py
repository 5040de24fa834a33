"""2 · systems: messages about mistakes in a user's functions, which are compiled and see no values."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path

import jax

_FOLDERS = (str(Path(__file__).parent.parent), *(sysconfig.get_path(k) for k in ("stdlib", "purelib", "platlib")))
_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in _FOLDERS)
# what JAX raises when a compiled function needs a value that it does not have
_NO_VALUE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def user_mistake(error: Exception) -> str:
    """Why a user's function failed when it was called on shapes, where, and what to write instead."""
    return f"{_what(error)}{_where(error)}"


def _what(error: Exception) -> str:
    if isinstance(error, jax.errors.TracerBoolConversionError | jax.errors.NonConcreteBooleanIndexError):
        return (
            "it decides by a value (if, while, and, or, min, max …), but it is compiled once for all values; write "
            "jnp.where(condition, this, that) of jax.numpy, a function of da.functions, or a formula as text"
        )
    if isinstance(error, _NO_VALUE) or (isinstance(error, TypeError) and "Tracer" in str(error)):
        return (
            "it asks for the value of a number (float(), int(), range(), math or numpy), but it is compiled once for "
            "all values; write it with jax.numpy (jnp.sin for math.sin or np.sin), or as a formula as text, 'sin(t)'"
        )
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.') if lines else 'no message'}"


def _where(error: Exception) -> str:
    """The last line of the user's own that was reached, in brackets."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_LIBRARIES)]
    if not own:
        return "."
    text = f": {own[-1].line}" if own[-1].line else ""
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno}{text})."
