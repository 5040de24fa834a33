"""linalg · greedy choices inside a compiled program: independent rows, pivot columns; sizes are static.

All of them use dimensionless numbers only: the caller scales its vectors (for example in the mass metric) first.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from dalembert._typing import Array
from dalembert.linalg._blocks import BlockMass


def pick_rows(A: Float[Array, "m n"], count: int) -> tuple[Int[Array, " count"], Float[Array, " count"]]:
    """The `count` rows of A that are least dependent, and how long each was when it was taken.

    Pivoted Gram–Schmidt: take the longest row, remove its direction from all others, repeat. The lengths fall; if one
    is (nearly) zero, fewer rows than requested are independent. Each direction is removed twice, so that the lengths
    are right down to rounding.
    """
    m = A.shape[0]
    if count == 0:
        return jnp.zeros(0, int), jnp.zeros(0)

    def take(carry, _):
        rest, taken = carry
        sizes = jnp.where(taken, -1.0, jnp.sum(rest * rest, axis=1))
        best = jnp.argmax(sizes)
        size = jnp.sqrt(jnp.maximum(sizes[best], 0.0))
        direction = rest[best] / jnp.where(size > 0, size, 1.0)
        for _ in range(2):
            rest = rest - (rest @ direction)[:, None] * direction
        return (rest, taken.at[best].set(True)), (best, size)

    _, (picked, sizes) = jax.lax.scan(take, (A, jnp.zeros(m, bool)), None, length=count)
    return picked, sizes


def pivot_columns(A: Float[Array, "m n"], count: int) -> tuple[Int[Array, " count"], Float[Array, " count"]]:
    """The columns in which Gaussian elimination with full pivoting finds its first `count` pivots, and their sizes."""
    m, n = A.shape
    if count == 0:
        return jnp.zeros(0, int), jnp.zeros(0)

    def eliminate(carry, _):
        rest, rows, columns = carry
        sizes = jnp.where(rows[:, None] | columns, -1.0, jnp.abs(rest))
        place = jnp.argmax(sizes)
        i, j = place // n, place % n
        pivot = rest[i, j]
        factor = jnp.where(rows, 0.0, rest[:, j] / jnp.where(pivot == 0, 1.0, pivot)).at[i].set(0.0)
        rest = rest - factor[:, None] * rest[i]
        return (rest, rows.at[i].set(True), columns.at[j].set(True)), (j, jnp.abs(pivot))

    start = (A, jnp.zeros(m, bool), jnp.zeros(n, bool))
    _, (picked, sizes) = jax.lax.scan(eliminate, start, None, length=count)
    return picked, sizes


def others(picked: Int[Array, " count"], n: int) -> Int[Array, " rest"]:
    """The indices of 0 … n − 1 that are not among `picked`, rising."""
    taken = jnp.zeros(n, bool).at[picked].set(True)
    return jnp.argsort(taken, stable=True)[: n - picked.shape[0]]


def mass_root(mass: BlockMass) -> tuple[Float[Array, "nb d d"], Float[Array, "nb d d"]]:
    """Blocks of L and L⁻¹ with M = L Lᵀ: x̃ = Lᵀx measures displacements, c̃ = L⁻¹c rows and forces."""
    d = mass.blocks.shape[1]
    if d <= 6:
        return _small_root(mass.blocks)
    L = jnp.linalg.cholesky(mass.blocks)
    eye = jnp.broadcast_to(jnp.eye(d), mass.blocks.shape)
    return L, jax.lax.linalg.triangular_solve(L, eye, left_side=True, lower=True)


def _small_root(A: Float[Array, "nb d d"]) -> tuple[Float[Array, "nb d d"], Float[Array, "nb d d"]]:
    """L and L⁻¹ of small blocks, written out: no LAPACK call inside the march."""
    d = A.shape[1]
    zero = jnp.zeros_like(A[:, 0, 0])
    L: list[list[Array]] = [[zero] * d for _ in range(d)]
    W: list[list[Array]] = [[zero] * d for _ in range(d)]
    for j in range(d):
        L[j][j] = jnp.sqrt(A[:, j, j] - sum((L[j][k] ** 2 for k in range(j)), zero))
        for i in range(j + 1, d):
            L[i][j] = (A[:, i, j] - sum((L[i][k] * L[j][k] for k in range(j)), zero)) / L[j][j]
    for j in range(d):
        W[j][j] = 1.0 / L[j][j]
        for i in range(j + 1, d):
            W[i][j] = -sum((L[i][k] * W[k][j] for k in range(j, i)), zero) / L[i][i]
    lower, inverse = (jnp.stack([jnp.stack(row, axis=-1) for row in T], axis=-2) for T in (L, W))
    return lower, inverse


def blocks_times(blocks: Float[Array, "nb d d"], A: Float[Array, "n c"]) -> Float[Array, "n c"]:
    """B A for block-diagonal B, not necessarily symmetric."""
    nb, d, _ = blocks.shape
    if nb == 1:
        return blocks[0] @ A
    return jnp.sum(blocks[:, :, :, None] * A.reshape(nb, 1, d, -1), axis=2).reshape(A.shape)


def unit_rows(C: Float[Array, "m n"], mass: BlockMass) -> Float[Array, "m n"]:
    """S C L⁻ᵀ: the rows of C in the mass metric, each of length one (a zero row stays zero)."""
    _, inverse = mass_root(mass)
    rows = blocks_times(inverse, C.T).T
    sizes = jnp.sqrt(jnp.sum(rows * rows, axis=1))
    return rows / jnp.where(sizes > 0, sizes, 1.0)[:, None]


@jax.custom_jvp
def pseudo_inverse(A: Float[Array, "m n"], least: Float[Array, ""]) -> Float[Array, "n m"]:
    """A⁺, with singular values below `least` taken as zero. Its derivative is that of matrices of the same rank
    [Golub, Pereyra 1973, eq. 4.12]; `jnp.linalg.pinv` cannot be differentiated where its tolerance is traced."""
    U, values, Vt = jnp.linalg.svd(A, full_matrices=False)
    inverse = jnp.where(values > least, 1.0 / jnp.where(values > least, values, 1.0), 0.0)
    return (Vt.T * inverse) @ U.T


@pseudo_inverse.defjvp
def _pseudo_inverse_rate(primals, tangents):
    (A, least), (dA, _) = primals, tangents
    P = pseudo_inverse(A, least)
    m, n = A.shape
    across = P @ P.T @ dA.T @ (jnp.eye(m) - A @ P) + (jnp.eye(n) - P @ A) @ dA.T @ P.T @ P
    return P, across - P @ dA @ P
