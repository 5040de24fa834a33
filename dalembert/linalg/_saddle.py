"""linalg · the saddle-point problem M x − Cᵀ λ = a, C x = g, for full-rank, redundant and singular C alike.

Both solvers regularise the scaled Delassus matrix S C M⁻¹ Cᵀ S (unit diagonal, so free of units) by a tiny
multiple of the identity and take the regularisation out again by proximal refinement: with dependent but
consistent rows x and Cᵀλ are exact, λ is one of many. S = diag(C M⁻¹ Cᵀ)^(−1/2).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.linalg._blocks import INVERT_UP_TO, BlockMass, BlockRows
from dalembert.linalg._klu import KLU

EPS = 1e-9
"""Regularisation, relative to unit diagonal. Directions with σ below it are let go for the instant in which a machine
passes a singular position, where noise over σ would kick it off its motion; the refinements take it out elsewhere."""
DENSE_REFINEMENTS = 2
SPARSE_REFINEMENTS = 1  # each is a factorisation here: KLU keeps no factor between two calls inside a compiled program


class DenseSaddle(eqx.Module):
    """Cholesky of the scaled Delassus matrix (range space); O(m³), for tens of rows."""

    mass: BlockMass
    C: Float[Array, "m n"]
    B: Float[Array, "m n"]  # S C M⁻¹
    A: Float[Array, "m m"]  # S C M⁻¹ Cᵀ S
    S: Float[Array, " m"]
    L: Float[Array, "m m"]  # of A + ε = L Lᵀ; if `inverted`, L⁻¹ itself
    inverted: bool = eqx.field(static=True)

    @classmethod
    def factorise(cls, mass: BlockMass, C: Float[Array, "m n"], felt: Float[Array, " m"] | None = None) -> DenseSaddle:
        """`felt`: the length that each scaled row is to have, at most 1; without it all have length 1."""
        CW = mass.solve_rows(C)
        S = _inverse_root(jnp.sum(CW * C, axis=1)) * (1.0 if felt is None else felt)
        B = S[:, None] * CW
        A = (B @ C.T) * S
        return cls(mass, C, B, A, S, _factor(A), len(A) <= INVERT_UP_TO)

    def leading(self, m: int) -> DenseSaddle:
        """The same problem with the first m rows only; the factor is a corner of this one's."""
        if m == self.C.shape[0]:
            return self
        return DenseSaddle(self.mass, self.C[:m], self.B[:m], self.A[:m, :m], self.S[:m], self.L[:m, :m], self.inverted)

    def solve(self, a: Float[Array, " n"] | None, g: Float[Array, " m"]):
        """(x, λ); a = None stands for zero."""
        if self.C.shape[0] == 0:
            return (jnp.zeros(self.mass.n) if a is None else self.mass.solve(a)), jnp.zeros(0)
        free = None if a is None else self.mass.solve(a)
        y = self._delassus(self.S * (g if free is None else g - self.C @ free))
        x = y @ self.B
        return (x if free is None else free + x), self.S * y

    def solve_many(self, a: Float[Array, "n r"], g: Float[Array, "m r"]):
        """(x, λ) for several right-hand sides."""
        return jax.vmap(self.solve, (1, 1), 1)(a, g)

    def correct(self, g: Float[Array, "m r"]) -> Float[Array, "n r"]:
        """x of least mass norm with C x = g, for several g at once and without refinement.

        For use inside an iteration that looks at its residual again.
        """
        if self.C.shape[0] == 0:
            return jnp.zeros((self.mass.n, g.shape[1]))
        L, S, B = jax.lax.stop_gradient((self.L, self.S, self.B))
        return B.T @ self._apply(L, S[:, None] * g)

    def _apply(self, L, b: Float[Array, "m r"]) -> Float[Array, "m r"]:
        """(A + ε)⁻¹ b."""
        if self.inverted:
            return L.T @ (L @ b)
        y = jax.lax.linalg.triangular_solve(L, b, left_side=True, lower=True)
        return jax.lax.linalg.triangular_solve(L, y, left_side=True, lower=True, transpose_a=True)

    def _delassus(self, rhs):
        L = jax.lax.stop_gradient(self.L)

        def prox(matvec, b):
            y = self._apply(L, b[:, None])[:, 0]
            for _ in range(DENSE_REFINEMENTS):
                y = y + self._apply(L, (b - matvec(y))[:, None])[:, 0]
            return y

        # derivatives go through the exact equation, never through the regularised factor
        return jax.lax.custom_linear_solve(lambda y: self.A @ y, rhs, prox, symmetric=True)


class SparseSaddle(eqx.Module):
    """KLU on [M Cᵀ; C −ε S⁻²]; linear cost for the mechanisms we know. No m × n array is formed."""

    mass: BlockMass
    C: BlockRows
    D: Float[Array, " m"]  # diag(C M⁻¹ Cᵀ)
    klu: KLU

    @classmethod
    def factorise(cls, mass: BlockMass, C: BlockRows, klu: KLU) -> SparseSaddle:
        D = C.weighted_square(mass.inverse)
        return cls(mass, C, jnp.where(D > 0, D, 1.0), klu)

    def leading(self, m: int) -> SparseSaddle:
        """The same problem with the first m rows only: the others are emptied, the pattern stays."""
        if m == self.C.pattern.m:
            return self
        data = jnp.where(self.C.pattern.rows < m, self.C.data, 0.0)
        return SparseSaddle(self.mass, BlockRows(self.C.pattern, data), self.D, self.klu)

    def solve(self, a, g):
        head = jnp.zeros(self.mass.n) if a is None else a
        x, lam = self.solve_many(head[:, None], g[:, None])
        return x[:, 0], lam[:, 0]

    def solve_many(self, a: Float[Array, "n r"], g: Float[Array, "m r"]):
        """(x, λ) for several right-hand sides, with one factorisation (and one a refinement)."""
        n, m = self.mass.n, g.shape[0]
        z = self._solve(self._padded(a, g), SPARSE_REFINEMENTS)
        return z[:n], -z[n : n + m]

    def correct(self, g: Float[Array, "m r"]) -> Float[Array, "n r"]:
        """x of least mass norm with C x = g, for several g at once, without refinement (one factorisation)."""
        n = self.mass.n
        rhs = self._padded(jnp.zeros((n, g.shape[1])), g)
        return jax.lax.stop_gradient(self)._solve(rhs, 0)[:n]

    def _padded(self, a, g):
        """The right-hand side, with zeros for the rows that `leading` has emptied."""
        return jnp.concatenate([a, g, jnp.zeros((self.D.shape[0] - g.shape[0], g.shape[1]))])

    def _solve(self, rhs: Float[Array, "nm r"], refinements: int) -> Float[Array, "nm r"]:
        n, mass, C = self.mass.n, self.mass, self.C
        values = jax.lax.stop_gradient((mass, C, EPS * self.D))

        def matvec(z):
            return jnp.concatenate([mass.mv(z[:n]) + C.rmv(z[n:]), C.mv(z[:n])])

        def prox(apply, b):
            z = self.klu.solve(*values, b)
            for _ in range(refinements):
                z = z + self.klu.solve(*values, b - apply(z))
            return z

        # derivatives go through the exact equation, never through the regularised factor
        return jax.lax.custom_linear_solve(jax.vmap(matvec, 1, 1), rhs, prox, symmetric=True)


def factorise(mass: BlockMass, rows: BlockRows, klu: KLU | None, felt=None) -> DenseSaddle | SparseSaddle:
    """Dense or, when an analysed pattern is at hand, sparse."""
    if klu is None:
        return DenseSaddle.factorise(mass, rows.dense(), felt)
    return SparseSaddle.factorise(mass, rows, klu)


def _inverse_root(d):
    safe = jnp.where(d > 0, d, 1.0)  # a row that is zero at this instant has no direction to scale
    return 1.0 / jnp.sqrt(safe)


def _factor(A):
    eye = jnp.eye(len(A))
    L = jax.lax.linalg.cholesky(jax.lax.stop_gradient(A + EPS * eye), symmetrize_input=False)
    if len(A) > INVERT_UP_TO:
        return L
    return jax.lax.linalg.triangular_solve(L, eye, left_side=True, lower=True)
