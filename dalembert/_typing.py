"""The notation as shaped types: n velocities, m constraint rows, nq coordinates, nb bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from jaxtyping import Array, Float

Scalar: TypeAlias = Float[Array, ""] | float
"""Time t, or any other single number that may be traced."""
Coordinates: TypeAlias = Float[Array, " nq"]
"""q: the coordinates."""
Velocities: TypeAlias = Float[Array, " n"]
"""v: the velocities, q̇ = N(q) v; also forces and accelerations, which live on the same index."""
Rows: TypeAlias = Float[Array, " m"]
"""A number for each constraint row: Φ (holonomic rows only), φ, b, Γ, λ."""
TimeFunction: TypeAlias = Callable[[Any], Any]
"""A JAX function of time."""
