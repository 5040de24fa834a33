"""4 · complements: the classical ones, Euclidean: coordinate partitioning, singular values, zero eigenvalues, QR.

Each factorisation of C picks E at one instant; with E held, [C; Eᵀ] D = [0; I] makes D smooth in q. Lengths are taken
in coordinates scaled by √diag M, so that no choice depends on units; with M = I these are the methods as published.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Float

from dalembert._typing import Array
from dalembert.complements._base import AbstractComplement, Completion, dimensionless, orthonormalised, solved
from dalembert.linalg import BlockMass, others, pick_rows, pivot_columns


class AbstractSolvedComplement(AbstractComplement):
    """D by one n × n inverse: [C; Eᵀ] D = [0; I] with E held."""

    def complete(self, C, mass, choice, local=None):
        return solved(choice.pick(C), choice.E, mass)

    def holds_E(self, choice):
        return True


class LU(AbstractSolvedComplement):
    """Coordinate partitioning: the columns without a pivot of an LU with full pivoting are the independent velocities.

    [Wehage, Haug 1982]. u are entries of v, so D has a unit matrix in it. O(m²n) to choose, one n × n inverse at each
    instant. Pivoting considers one elimination step at a time: the choice is regular but not the best conditioned.
    """

    def supplement(self, C, mass):
        A, _ = dimensionless(C, mass)
        n = C.shape[1]
        return jnp.eye(n)[:, others(pivot_columns(A, C.shape[0])[0], n)]


class SVD(AbstractSolvedComplement):
    """The right singular vectors without a singular value [Mani, Haug, Atkinson 1985; Singh, Likins 1985].

    E is dense and orthonormal, the best conditioned choice in its metric; u mixes all velocities. The most expensive
    choice; the completion costs as much as that of `LU`.
    """

    def supplement(self, C, mass):
        A, s = dimensionless(C, mass)
        return s[:, None] * jnp.linalg.svd(A, full_matrices=True)[2][C.shape[0] :].T


class ZeroEigenvalues(AbstractSolvedComplement):
    """The eigenvectors of CᵀC with eigenvalue zero [Walton, Steeves 1969; Kamman, Huston 1984].

    The same space as `SVD`; squaring C halves the digits that separate nearly dependent rows.
    """

    def supplement(self, C, mass):
        A, s = dimensionless(C, mass)
        return s[:, None] * jnp.linalg.eigh(A.T @ A)[1][:, : C.shape[1] - C.shape[0]]


class QR(AbstractSolvedComplement):
    """The last k columns of Q in Cᵀ = Q R, by Householder reflections [Kim, Vanderploeg 1986].

    As well conditioned as `SVD` and cheaper to choose.
    """

    def supplement(self, C, mass):
        A, s = dimensionless(C, mass)
        return s[:, None] * jnp.linalg.qr(A.T, mode="complete")[0][:, C.shape[0] :]


def _euclidean(C: Float[Array, "rank n"], E: Float[Array, "n k"], mass: BlockMass) -> Completion:
    """Gram–Schmidt on [Cᵀ E] in coordinates of one unit."""
    rank = C.shape[0]
    _, s = dimensionless(C, mass)
    Q, R = orthonormalised(jnp.concatenate([C.T, E], axis=1) / s[:, None])
    X = Q[:, :rank] @ jnp.linalg.inv(R[:rank, :rank]).T
    return Completion(Q[:, rank:] / s[:, None], X / s[:, None])


class GramSchmidt(AbstractComplement):
    """Gram–Schmidt on [Cᵀ E], Euclidean, E from a singular value decomposition [Liang, Lance 1987].

    D has orthonormal columns at all times (in coordinates of one unit) and is differentiable: one QR at each instant.
    """

    def supplement(self, C, mass):
        A, s = dimensionless(C, mass)
        return s[:, None] * jnp.linalg.svd(A, full_matrices=True)[2][C.shape[0] :].T

    def complete(self, C, mass, choice, local=None):
        return _euclidean(choice.pick(C), choice.E, mass)


class GramSchmidtByVectors(AbstractComplement):
    """Gram–Schmidt on [Cᵀ E], Euclidean, with E picked vector by vector [Agrawal, Saigal 1989].

    Each column of E is the unit vector that is farthest from all that is already orthonormalised, so it cannot fail.
    """

    def supplement(self, C, mass):
        n = C.shape[1]
        A, _ = dimensionless(C, mass)
        Q, _ = orthonormalised(A.T)
        # the part of each unit vector outside the constraints
        rest = jnp.eye(n) - Q @ Q.T
        return jnp.eye(n)[:, pick_rows(rest, n - C.shape[0])[0]]

    def complete(self, C, mass, choice, local=None):
        return _euclidean(choice.pick(C), choice.E, mass)
