"""2 · systems: numbers are float64: computing in float32 is refused, and a warning is given for float32 input."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, tell_single_precision
from dalembert._typing import Array, is_traced


def require_float64() -> None:
    """Refuse to compute while JAX is switched to float32: constraints would be lost after a few steps."""
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise DalembertError(
            "JAX is switched to float32 (jax_enable_x64 is off), in which constraints cannot be kept. dalembert had "
            'switched it to float64; switch it back: jax.config.update("jax_enable_x64", True), and make arrays anew.'
        )


def in_double(what: str, value) -> Array:
    """The numbers as a float64 array; with a warning if they are float32 and have lost digits."""
    require_float64()
    if not is_traced(value):
        tell_single_precision(what, value)
    return jnp.asarray(value, float) if is_traced(value) else np.asarray(value, float)
