"""7 · analysis: named dimensions of a machine, and what a small error of each does to its rows and measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import Array
from dalembert.systems import AbstractSystem, compiled_for_each

AXES = ("x", "y", "z")
TURNS = ("rx", "ry", "rz")
LOADS = ("mass", "inertia", "gravity")
"""Ends of the names of parameters that are loads, not dimensions."""


@dataclass(frozen=True)
class Dimension:
    """One number of a named dimension: "top.point_j.x"; of a frame in space a small turn about an axis of its own,
    "top.frame_j.rx"."""

    parameter: str
    part: str  # "" of a number
    tangent: np.ndarray  # the change of the parameter per unit

    @property
    def name(self) -> str:
        return f"{self.parameter}.{self.part}" if self.part else self.parameter


def parts_of(system: AbstractSystem, parameter: str) -> list[Dimension]:
    """All numbers of one parameter."""
    value = np.asarray(system.parameters()[parameter], float)
    if value.ndim == 0:
        return [Dimension(parameter, "", np.ones(()))]
    if value.ndim == 1:
        labels = AXES if len(value) <= 3 else tuple(str(k) for k in range(len(value)))
        return [Dimension(parameter, labels[k], np.eye(len(value))[k]) for k in range(len(value))]
    if value.shape == (3, 3):
        skew = -np.array([[[0, 0, 0], [0, 0, 1], [0, -1, 0]], [[0, 0, -1], [0, 0, 0], [1, 0, 0]],
                          [[0, 1, 0], [-1, 0, 0], [0, 0, 0]]], float)  # fmt: skip
        return [Dimension(parameter, TURNS[k], value @ skew[k]) for k in range(3)]
    raise DalembertError(f"'{parameter}' is a table of {value.shape} numbers, not a dimension.")


def numbers_of(system: AbstractSystem, given: Mapping[str, Any], what: str) -> dict[str, tuple[Dimension, float]]:
    """What a user gave, number by number: {"hinge.point_j": (0, 0, 1e-4)}, {"hinge.point_j.z": 1e-4}, and for
    tolerances one number for all parts. By the numbers' names."""
    if not isinstance(given, Mapping) or not given:
        raise DalembertError(f"{what} must be a dictionary of dimensions, such as {{'hinge.point_j.x': 1e-4}}.")
    known = system.parameters()
    out: dict[str, tuple[Dimension, float]] = {}
    for item, value in given.items():
        name, _, part = str(item).rpartition(".")
        whole = str(item) in known
        parameter = str(item) if whole else name
        if parameter not in known or parameter.rpartition(".")[2] in LOADS:
            dimensions = [x for x in known if x.rpartition(".")[2] not in LOADS]
            hint = did_you_mean(str(item), dimensions)
            raise DalembertError(f"'{item}' is not a dimension of '{system.name}'.{hint}")
        parts = parts_of(system, parameter)
        chosen = parts if whole else [x for x in parts if x.part == part]
        if not chosen:
            raise DalembertError(f"'{parameter}' has no part '{part}'; it has {', '.join(x.part for x in parts)}.")
        numbers = _numbers(item, value, len(chosen), what)
        for dimension, number in zip(chosen, numbers, strict=True):
            if dimension.name in out:
                raise DalembertError(f"'{dimension.name}' is given twice in {what}.")
            out[dimension.name] = dimension, float(number)
    return out


def _numbers(item, value, count: int, what: str) -> np.ndarray:
    try:
        numbers = np.asarray(value, float)
    except (TypeError, ValueError):
        numbers = np.full(1, np.nan)
    if numbers.ndim == 0 and (count == 1 or what == "tolerances"):
        numbers = np.full(count, float(numbers))
    if numbers.shape != (count,) or not np.all(np.isfinite(numbers)):
        raise DalembertError(f"{what}: '{item}' needs {count} numbers, not {value!r}.")
    if what == "tolerances" and np.any(numbers < 0):
        raise DalembertError(f"tolerances: that of '{item}' must not be negative.")
    return numbers


class Sensitivities(NamedTuple):
    """At each pose, per unit of each dimension: Φ_p and φ_p of rows on velocities (poses × rows × k), y_p of measured
    numbers at fixed q (poses × outputs × k); and y_q (poses × outputs × n)."""

    Phi_p: np.ndarray
    phi_p: np.ndarray
    y_p: np.ndarray
    y_q: np.ndarray


def sensitivities(
    system: AbstractSystem,
    dimensions: Sequence[Dimension],
    t: Float[Array, " poses"],
    q: Float[Array, "poses nq"],
    v: Float[Array, "poses n"],
    outputs: Sequence[int] = (),
) -> Sensitivities:
    """What small changes of dimensions do to the rows and to measured numbers, at many states."""
    zero = jax.tree_util.tree_map(np.zeros_like, eqx.filter(system, eqx.is_inexact_array))
    slots = system.slots()
    changed = []
    for x in dimensions:
        tangent = zero
        for slot in slots[x.parameter]:
            tangent = slot.set(tangent, np.asarray(x.tangent, float))
        changed.append(jax.tree_util.tree_leaves(tangent))
    tangents = tuple(np.stack(leaves) for leaves in zip(*changed, strict=True))
    found = _at_poses(system, tangents, tuple(outputs), *(np.asarray(x, float) for x in (t, q, v)))
    return Sensitivities(*(np.asarray(x) for x in found))


def _at_pose(system, tangents, outputs, t, q, v):
    numbers, rest = eqx.partition(system, eqx.is_inexact_array)
    structure = jax.tree_util.tree_structure(numbers)
    nothing = jnp.zeros(system.n)

    def looked(numbers, delta):
        there = eqx.combine(numbers, rest)
        moved = there.retract(q, delta)
        y = there.measured(t, moved, nothing, only=outputs)
        return (*there.residuals(t, moved, v), y)

    def along(*leaves):
        direction = jax.tree_util.tree_unflatten(structure, leaves)
        return jax.jvp(lambda x: looked(x, nothing), (numbers,), (direction,))[1]

    Phi, phi, y_p = jax.vmap(along)(*tangents)
    y_q = jax.jacfwd(lambda d: looked(numbers, d)[2])(nothing)
    return Phi.T, phi[:, system.m_holonomic :].T, y_p.T, y_q


_at_poses = compiled_for_each(_at_pose, 3)
