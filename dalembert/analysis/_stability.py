"""7 · analysis: whether a machine at rest stays there: the stiffness of its admissible motions, in the mass metric.

About an equilibrium M δv̇ = −K δq + Cᵀδλ, C δv = 0, with K = −∂(h + Cᵀλ)/∂q: the stiffness of springs and weights, and
the geometric one of the reactions. On orthonormal admissible motions X of the mass metric that is ü = −(XᵀK̂X) u: the
eigenvalues are squares of natural frequencies, whatever the units, and do not depend on the rule that picked λ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dalembert.analysis._free import FreeMotion, motion_of
from dalembert.analysis._rest import Rest, look, stiff
from dalembert.reactions import Instant

ROUNDING = 1e-11
"""Share of all that adds up to a stiffness below which it counts as zero: forces that cancel leave 1e-16 of it, and an
equilibrium that is known to 1e-13 of the machine's size some 1e-13."""


@dataclass(frozen=True)
class Stability:
    """The eigenvalues of the reduced stiffness in the mass metric, rising, in 1/s²: ω² of small undamped motions.

    `zero` marks those that are zero but for rounding; complex ones (forces without a potential) mean flutter. `shapes`
    are the motions that belong to them, on the machine's velocities, one a column; `motions` the same in words.
    """

    values: np.ndarray
    zero: np.ndarray
    shapes: np.ndarray = field(repr=False)
    motions: tuple[FreeMotion, ...] = field(repr=False)

    @property
    def word(self) -> str:
        """ "stable", "indifferent" or "unstable"; "fixed" where nothing can move."""
        if len(self.values) == 0:
            return "fixed"
        if self.unstable.any():
            return "unstable"
        return "indifferent" if self.zero.any() else "stable"

    @property
    def unstable(self) -> np.ndarray:
        """Which motions leave the equilibrium."""
        return ~self.zero & ((np.real(self.values) < 0) | (np.abs(np.imag(self.values)) > 0))

    @property
    def frequencies(self) -> np.ndarray:
        """In Hz; NaN for motions that do not swing."""
        good = ~self.zero & ~self.unstable
        return np.sqrt(np.where(good, np.real(self.values), np.nan)) / (2 * math.pi)


def stability_of(instant: Instant, rest: Rest, effort: np.ndarray) -> Stability:
    """The stability of an equilibrium: `instant` is it at rest, `rest` states what is held, by which efforts."""
    machine, d, e = instant.machine, instant.among_joints, instant.on_bodies
    lam = d.multipliers(np.asarray(instant.equations.h), np.asarray(instant.equations.Gamma))
    on_bodies = Rest(machine, rest.t, rest.held)
    K = np.asarray(stiff(on_bodies, np.zeros(()), np.asarray(e.q), np.concatenate([lam, effort])))
    root = np.linalg.inv(d.L)  # blocks of L⁻¹
    X = _admissible(instant, on_bodies, root)
    shapes = _times(root.transpose(0, 2, 1), X)
    reduced, typical = shapes.T @ K @ shapes, np.abs(shapes).T @ np.abs(K) @ np.abs(shapes)
    even = max(1e-9 * np.max(np.abs(reduced), initial=0.0), ROUNDING * np.max(typical, initial=0.0))
    values, vectors = eigenmodes(reduced, even)
    shapes = shapes @ vectors
    # what adds up to each of them, and the loads over the machine's size: what rounding is measured by
    size, scale, h = np.abs(shapes), np.asarray(machine.scale()), np.asarray(e.h)
    loads = np.sqrt(abs(h @ np.asarray(e.mass.solve(h))) / (scale @ np.asarray(e.mass.mv(scale))))
    zero = np.abs(values) <= ROUNDING * (np.sum(size * (np.abs(K) @ size), axis=0) + loads + 1e-300)
    values = np.where(zero, 0.0, values)
    real = np.real(shapes)
    return Stability(values, zero, real, tuple(motion_of(machine, x) for x in real.T))


def eigenmodes(K: np.ndarray, even: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues by rising real part, and their vectors; real ones where K is symmetric up to `even`."""
    if np.max(np.abs(K - K.T), initial=0.0) <= even:
        return np.linalg.eigh(0.5 * (K + K.T))
    values, vectors = np.linalg.eig(K)
    order = np.lexsort((np.abs(np.imag(values)), np.real(values)))
    return values[order], vectors[:, order]


def _admissible(instant: Instant, rest: Rest, root: np.ndarray) -> np.ndarray:
    """X: orthonormal admissible motions of the bodies, x = Lᵀδ; what is held does not move."""
    d = instant.among_joints
    X = np.linalg.svd(d.rows)[2][d.rank :].T if len(d.rows) else np.eye(instant.machine.n)
    if rest.held is None:
        return X

    G = np.asarray(look(rest, np.zeros(()), np.asarray(instant.on_bodies.q)).C)[instant.machine.m :]
    rows = _times(root, G.T).T @ X
    values, V = np.linalg.svd(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))[1:]
    return X @ V[int(np.sum(values > 1e-8)) :].T


def _times(blocks: np.ndarray, A: np.ndarray) -> np.ndarray:
    nb, d, _ = blocks.shape
    return (blocks @ A.reshape(nb, d, -1)).reshape(A.shape)
