"""0 · the notation as shaped types: n velocities, m constraint rows, nq coordinates, nb bodies."""

from __future__ import annotations

from typing import TypeAlias

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

Array: TypeAlias = jax.Array | np.ndarray
"""Numbers: arrays of NumPy on the host and of JAX in programs stand for each other everywhere."""
Scalar: TypeAlias = Float[Array, ""] | float
"""Time t, or any other single number that may be traced."""
Coordinates: TypeAlias = Float[Array, " nq"]
"""q: the coordinates."""
Velocities: TypeAlias = Float[Array, " n"]
"""v: the velocities, q̇ = N(q) v; also forces and accelerations, which live on the same index."""
Rows: TypeAlias = Float[Array, " m"]
"""A number for each constraint row: φ, b, Γ, λ."""
HolonomicRows: TypeAlias = Float[Array, " holonomic"]
"""A number for each holonomic row: Φ."""
MotionRows: TypeAlias = Float[Array, " nonholonomic"]
"""A number for each row that is stated on velocities alone."""
MachineVelocities: TypeAlias = Float[Array, " machine_n"]
"""Velocities of a system's `machine`: as many as its own unless it is in joint coordinates."""
MachineRows: TypeAlias = Float[Array, " machine_m"]
"""A number for each row of a system's `machine`."""


def is_traced(*trees: object) -> bool:
    """Whether any number in these is being traced by jit, vmap or grad: then its value is not available."""
    # isinstance would ask an abstract class, which takes several times as long
    return any(Tracer in type(x).__mro__ for x in jax.tree_util.tree_leaves(trees))
