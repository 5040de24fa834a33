"""7 · analysis: the linear motion near a state: small motions about an equilibrium or about a steady motion."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.equations import assemble, residuals
from dalembert.formulations import Proximal
from dalembert.model import Model
from dalembert.stabilise import State, consistent_state
from dalembert.systems import AbsoluteSystem, AbstractSystem, build, compiled

RANK = 1e-9
"""Singular values below this share of the largest one belong to dependent rows."""


@dataclass(frozen=True)
class Linearisation:
    """ẋ = A x for small motions that keep the constraints; x = basisᵀ (δq, δv).

    Columns of `basis` are orthonormal displacements (δq, δv) in machine sizes; δq has the dimension of v.
    """

    A: np.ndarray
    basis: np.ndarray
    state: State

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of A, in 1/s, by rising real part.

        Displacements that change nothing (where a vehicle stands) make zeros that belong to chains (how fast it goes):
        rounding would spread them. They are taken out first, null space by null space [Golub, Wilkinson 1976].
        """
        A, zeros = self.A, 0
        while len(A):
            _, sizes, vectors = np.linalg.svd(A)
            rank = int(np.sum(sizes > RANK * max(np.max(sizes), 1e-300)))
            if rank == len(A):
                break
            across = vectors[:rank].T  # across the null space
            A, zeros = across.T @ A @ across, zeros + len(A) - rank
        return np.sort_complex(np.concatenate([np.linalg.eigvals(A), np.zeros(zeros, complex)]))


def linearise(system: AbstractSystem | Model, state=None, *, t: float = 0.0) -> Linearisation:
    """The linear equations of small motions about a state of equilibrium or of steady motion.

    Displacements are followed in frames that go with each body but do not spin with it: δṙ = δv, δθ̇ = δω,
    δω̇ = ∂ω̇ + ω × δω (components in the body's axes at this instant). So a steady motion in which bodies only spin
    about axes of symmetry (the wheels of a bicycle) has constant coefficients, and its eigenvalues are those
    of the motion. Holonomic rows limit δq, all rows limit δv. Dense: one Jacobian of the accelerations.
    """
    if isinstance(system, Model):
        system = build(system)
    q, v = consistent_state(system, *(state if state is not None else (None, None)), t=t)
    at_t = jnp.asarray(t, float)
    scale = np.asarray(system.scale())
    rates, rows = (np.asarray(x) for x in _jacobians(system, at_t, jnp.asarray(q), jnp.asarray(v)))
    both = np.concatenate([scale, scale])
    rates = rates * both / both[:, None]
    rows = rows * both
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    _, sizes, vectors = np.linalg.svd(rows) if len(rows) else (None, np.zeros(0), np.eye(len(both)))
    basis = vectors[int(np.sum(sizes > RANK * np.max(sizes, initial=1e-300))) :].T
    return Linearisation(basis.T @ rates @ basis, basis, State(np.asarray(q), np.asarray(v)))


@compiled
def _jacobians(system: AbstractSystem, t, q, v):
    """∂(δq̇, δv̇)/∂(δq, δv) and the rows that (δq, δv) must keep to zero."""
    n = system.n

    def acceleration(d):
        moved = system.retract(q, d[:n])
        return Proximal().solve(assemble(system, t, moved, v + d[n:])).vdot

    def held(d):
        Phi, phi = residuals(system, t, system.retract(q, d[:n]), v + d[n:])
        return jnp.concatenate([Phi, phi])

    zero = jnp.zeros(2 * n)
    lower = jax.jacfwd(acceleration)(zero)
    if isinstance(system, AbsoluteSystem) and system.space == "space":
        # ω̇ is that of components along axes that spin; in frames that do not, ω × δω is added
        spin = jax.vmap(_turning)(v.reshape(-1, 6))
        lower = lower.at[:, n:].add(jax.scipy.linalg.block_diag(*spin))
    upper = jnp.concatenate([jnp.zeros((n, n)), jnp.eye(n)], axis=1)
    return jnp.concatenate([upper, lower]), jax.jacfwd(held)(zero)


def _turning(u):
    """The 6 × 6 block that adds ω × δω to a body's angular acceleration."""
    x, y, z = u[3], u[4], u[5]
    zero = jnp.zeros(())
    cross = jnp.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    return jnp.zeros((6, 6)).at[3:, 3:].set(cross)
