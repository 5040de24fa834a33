"""2 · systems: `Leaf`, a named number of a system: where it stands, to read it and to change it in a copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from dalembert._typing import is_traced

if TYPE_CHECKING:
    from dalembert.systems._base import AbstractSystem


@dataclass(frozen=True)
class Leaf:
    """One named number in the system's tree: an array, or one entry of a stacked array."""

    where: Callable
    index: int | tuple[int | slice, ...] | None = None
    positive: bool = False  # a tensor: positive definite
    unit: float = 1.0  # what is stored is the number times this

    def get(self, system):
        array = jnp.asarray(self.where(system))
        return (array if self.index is None else array[self.index]) / self.unit

    def set(self, system, value):
        array, value = self.where(system), value * self.unit
        if is_traced(value, array):
            array = jnp.asarray(array)
            new = jnp.broadcast_to(value, array.shape) if self.index is None else array.at[self.index].set(value)
        else:  # plain numbers: no JAX operation, so nothing to compile
            new = np.array(array, copy=True)
            new[... if self.index is None else self.index] = value
        return eqx.tree_at(self.where, system, new)


def control_slots(system: AbstractSystem) -> dict[str, tuple[Leaf, ...]]:
    """Those of measurements, inputs and controllers. An input that is a number is a parameter by its own name."""
    slots: dict[str, tuple[Leaf, ...]] = {}
    for k, x in enumerate(system.measures):
        slots |= {f"{x.name}.{key}": (Leaf(lambda s, k=k, key=key: s.measures[k].p[key]),) for key in x.p}
    for k, x in enumerate(system.control.sources):
        plain = {"value"} == set(x.p)
        for key in x.p if x.setter is None else ():
            leaf = Leaf(lambda s, k=k, key=key: s.control.sources[k].p[key])
            slots[x.name if plain else f"{x.name}.{key}"] = (leaf,)
    for k, x in enumerate(system.control.controllers):
        for key in x.p:
            slots[f"{x.name}.{key}"] = (Leaf(lambda s, k=k, key=key: s.control.controllers[k].p[key]),)
        if x.sampled:
            leaf = Leaf(lambda s, k=k: s.control.controllers[k].rate, positive=True)
            slots[f"{x.name}.sample_rate"] = (leaf,)
    return slots
