"""8 · studies: coordinates in which every point is a machine: positive numbers by their logarithm, the inertia of a
body by the log-Cholesky factor of its density.

A body's tensor I is that of a distribution of mass where Σ = ½ tr(I) 1 − I is positive definite (its principal moments
then meet the triangle inequality); Σ = L Lᵀ with a diagonal exp(…) makes every z such a tensor, I = tr(Σ) 1 − Σ.
[Wensing, Kim, Slotine 2018; Rucker, Wensing 2022.]
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import Array
from dalembert.studies._design import Design

UPPER = tuple((i, j) for i in range(3) for j in range(i, 3))
FLAT = 1e-9
"""Least eigenvalue of Σ at the start, as a share of its largest: a flat body has none, and no logarithm."""


class Consistent:
    """The map between free numbers z and the variables x of a design."""

    def __init__(self, design: Design, first: np.ndarray):
        self.design = design
        positive = _positive(design)
        self.tensors: list[list[int]] = []
        for name in dict.fromkeys(e.parameter for e in design.entries):
            own = [k for k, e in enumerate(design.entries) if e.parameter == name]
            if len(own) == 6 and design.entries[own[0]].index and len(design.entries[own[0]].index) == 2:
                self.tensors.append(own)
        inside = {k for own in self.tensors for k in own}
        self.logs = np.array([p and k not in inside for k, p in enumerate(positive)])
        for k in np.flatnonzero(self.logs):
            if not first[k] > 0:
                raise DalembertError(f"'{design.names[k]}' must be greater than zero; its first guess is {first[k]:g}.")
        self.unit = np.where(first != 0, np.abs(first), _sizes_of_zero(design))

    def start(self, x: np.ndarray) -> np.ndarray:
        """z of the variables."""
        z = np.where(self.logs, np.log(np.where(self.logs, x, 1.0)), x / self.unit)
        for own in self.tensors:
            I = np.zeros((3, 3))
            for value, (i, j) in zip(x[own], UPPER, strict=True):
                I[i, j] = I[j, i] = value
            S = 0.5 * np.trace(I) * np.eye(3) - I
            least, _, most = np.linalg.eigvalsh(S)
            if least < FLAT * most:
                S = S + (FLAT * most - min(least, 0.0)) * np.eye(3)
            L = np.linalg.cholesky(S)
            z[own] = [np.log(L[i, i]) if i == j else L[j, i] / np.sqrt(most) for i, j in UPPER]
            self.unit[own] = [1.0 if i == j else np.sqrt(most) for i, j in UPPER]
        return z

    def of(self, z: Array) -> Any:
        """The variables; traced or not."""
        z = jnp.asarray(z)
        x = jnp.where(self.logs, jnp.exp(jnp.where(self.logs, z, 0.0)), z * self.unit)
        for own in self.tensors:
            L = jnp.zeros((3, 3))
            for k, (i, j) in zip(own, UPPER, strict=True):
                L = L.at[j, i].set(jnp.exp(z[k]) if i == j else z[k] * self.unit[k])
            S = L @ L.T
            I = jnp.trace(S) * jnp.eye(3) - S
            x = x.at[jnp.array(own)].set(jnp.stack([I[i, j] for i, j in UPPER]))
        return x

    def sizes(self, x: np.ndarray) -> np.ndarray:
        """The size of each variable, by which effects are compared: its own, or for one at zero a typical one."""
        zero = _sizes_of_zero(self.design)
        sizes = np.where(np.abs(x) > 1e-3 * zero, np.abs(x), zero)
        for own in self.tensors:
            sizes[own] = np.max(np.abs(x[own]))
        return sizes


def _positive(design: Design) -> list[bool]:
    """Which variables must be positive: those of which the system says so."""
    if design.through is not None:
        return [False] * len(design)
    slots = design.system.slots()
    stated = [any(getattr(s, "positive", False) for s in slots.get(e.parameter, ())) for e in design.entries]
    words = [e.parameter.rpartition(".")[2] in STRICT for e in design.entries]
    return [
        not e.index and (p or (w and x > 0))
        for e, p, w, x in zip(design.entries, stated, words, design.start, strict=True)
    ]


STRICT = ("stiffness",)
"""Numbers that may have any sign, but keep that of a positive first value."""


def _sizes_of_zero(design: Design) -> np.ndarray:
    """Typical sizes: of points and centres the machine's length, else one."""
    bodies = design.system.bodies
    length = 1.0 if bodies is None else float(bodies.size)
    return np.array([length if design.unit(e.parameter) == "m" else 1.0 for e in design.entries])
