"""The notation as shaped types: n velocities, m constraint rows, nq coordinates, nb bodies."""

from __future__ import annotations

from typing import TypeAlias

import jax
from jax.core import Tracer
from jaxtyping import Array, Float

Scalar: TypeAlias = Float[Array, ""] | float
"""Time t, or any other single number that may be traced."""
Coordinates: TypeAlias = Float[Array, " nq"]
"""q: the coordinates."""
Velocities: TypeAlias = Float[Array, " n"]
"""v: the velocities, q̇ = N(q) v; also forces and accelerations, which live on the same index."""
Rows: TypeAlias = Float[Array, " m"]
"""A number for each constraint row: Φ (holonomic rows only), φ, b, Γ, λ."""


def is_traced(*trees: object) -> bool:
    """Whether any number in these is being traced by jit, vmap or grad: then its value is not available."""
    return any(isinstance(x, Tracer) for x in jax.tree_util.tree_leaves(trees))
