"""5 · formulations: direct ones, in all velocities and without a complement. No rank is needed."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from dalembert.formulations._base import AbstractFormulation, with_reaction
from dalembert.linalg import EPS, RANK_TOLERANCE, blocks_times, dense_of_blocks, mass_root


class Augmented(AbstractFormulation):
    """The whole of `[M −Cᵀ; C 0] [v̇; λ] = [h; Γ]` at once, by LU with pivoting [Kövecses, Piedbœuf 2003, eq. 9].

    Rows are scaled to unit length in the mass metric and the zero block is shifted by −10⁻¹³, which refinements remove
    again: dependent rows are normal. O((n + m)³) dense; sparse by KLU for large systems.
    """

    def solve(self, equations):
        if equations.klu is not None:
            return with_reaction(equations, equations.factorise().solve(equations.h, equations.Gamma)[0])
        mass, C = equations.mass, equations.C
        n, m = mass.n, C.shape[0]
        if m == 0:
            return with_reaction(equations, mass.solve(equations.h))
        # velocities in units of √diag M, rows of unit length: pivoting does not depend on units
        s = jnp.sqrt(jnp.diagonal(mass.blocks, axis1=1, axis2=2).ravel())
        S = 1.0 / jnp.sqrt(_positive(equations.rows.weighted_square(mass.inverse)))
        rows = S[:, None] * C / s
        K = jnp.block([[dense_of_blocks(mass.blocks) / s[:, None] / s, rows.T], [rows, jnp.zeros((m, m))]])
        shift = jnp.concatenate([jnp.zeros(n), jnp.full(m, -EPS)])
        factor = jax.scipy.linalg.lu_factor(jax.lax.stop_gradient(K + jnp.diag(shift)))
        rhs = jnp.concatenate([equations.h / s, S * equations.Gamma])

        def refined(matvec, b):
            z = jax.scipy.linalg.lu_solve(factor, b)
            for _ in range(6):
                z = z + jax.scipy.linalg.lu_solve(factor, b - matvec(z))
            return z

        # derivatives go through the exact equation, never through the shifted factor
        z = jax.lax.custom_linear_solve(lambda z: K @ z, rhs, refined, symmetric=True)
        return with_reaction(equations, z[:n] / s)


class RangeSpace(AbstractFormulation):
    """λ eliminated: λ = (C M⁻¹Cᵀ)⁺(Γ − C M⁻¹h), M v̇ = h + Cᵀλ [Blajer, Bestle, Schiehlen 1994, eqs. 35, 38].

    (C M⁻¹Cᵀ)⁺ = Ĉ⁺ᵀĈ⁺ from the scaled rows Ĉ in the mass metric, so dependent rows are normal and the conditioning is
    not squared before it is inverted. O(m² n).
    """

    def solve(self, equations):
        C, mass = equations.C, equations.mass
        _, W = mass_root(mass)  # L⁻¹, M = L Lᵀ
        rows = blocks_times(W, C.T).T
        S = 1.0 / jnp.sqrt(_positive(jnp.sum(rows * rows, axis=1)))
        inverse = jnp.linalg.pinv(S[:, None] * rows, rtol=RANK_TOLERANCE)
        free = blocks_times(W, equations.h[:, None])[:, 0]
        gap = S * (equations.Gamma - rows @ free)
        lam = inverse.T @ (inverse @ gap)
        vdot = blocks_times(W.transpose(0, 2, 1), (free + (S * lam) @ rows)[:, None])[:, 0]
        return with_reaction(equations, vdot)


class Projector(AbstractFormulation):
    """P_a v̇ = P_a M⁻¹h and v̇ = P_a v̇ + W Γ with P_a = I − W C [Kövecses, Piedbœuf 2003, eqs. 17, 30, 31].

    W = L⁻¹(C L⁻¹)⁺ is the inverse of C of least mass norm; it exists for dependent rows too. It is applied by the
    factorised Delassus matrix (sparse for large systems) and never formed. O(m³) dense.
    """

    def solve(self, equations):
        free = equations.mass.solve(equations.h)
        if equations.rows.pattern.m == 0:
            return with_reaction(equations, free)
        saddle = equations.factorise()
        # W is only applied to vectors in the range of C, where dependent rows agree
        of_free, of_rhs = (saddle.solve(None, g)[0] for g in (equations.rows.mv(free), equations.Gamma))
        return with_reaction(equations, (free - of_free) + of_rhs)


class UdwadiaKalaba(AbstractFormulation):
    """v̇ = a + M^(−½)(C M^(−½))⁺(Γ − C a) with a = M⁻¹h, by singular values [Udwadia, Kalaba 1992].

    The pseudo-inverse handles dependent rows. The most expensive of the direct ones: an SVD of m × n numbers.
    """

    def solve(self, equations):
        C, mass = equations.C, equations.mass
        a = mass.solve(equations.h)
        # any root of M⁻¹ will do: they differ by a rotation, which does not change the result
        L = jnp.linalg.cholesky(mass.blocks)
        root = dense_of_blocks(jax.vmap(lambda L: jnp.linalg.inv(L).T)(L))
        rows = C @ root
        S = 1.0 / jnp.sqrt(_positive(jnp.sum(rows * rows, axis=1)))
        inverse = root @ jnp.linalg.pinv(S[:, None] * rows, rtol=RANK_TOLERANCE) * S
        return with_reaction(equations, a + inverse @ (equations.Gamma - C @ a))


class Penalty(AbstractFormulation):
    """(M + α Cᵀ S²C) v̇ = h + α Cᵀ S²Γ: constraints as stiff and heavy springs [Bayo, García de Jalón, Serna 1988].

    Not exact. Rows are scaled to unit length in the mass metric, so that the error has a size of its own: with σ the
    smallest nonzero singular value of the scaled rows (squared), C v̇ − Γ is left at about 1/(α σ) of what it would be
    without the term. Positive definite for dependent rows too. O(n³).
    """

    alpha: float = 1e7

    def solve(self, equations):
        return with_reaction(equations, _penalty(equations, self.alpha, 0))

    def relative_error(self) -> float:
        """The share of the constraint acceleration that is left, for well-conditioned rows."""
        return 1.0 / self.alpha


class AugmentedLagrangian(AbstractFormulation):
    """The penalty form with multipliers found by iteration: λ ← λ + α S²(Γ − C v̇) [Bayo, García de Jalón, Serna 1988].

    Each iteration multiplies the error of `Penalty` by about 1/(α σ), with the same factorisation: two at
    α = 10⁷ reach rounding. Exact in the limit.
    """

    alpha: float = 1e7
    iterations: int = 2

    def solve(self, equations):
        return with_reaction(equations, _penalty(equations, self.alpha, self.iterations))

    def relative_error(self) -> float:
        """The share of the constraint acceleration that is left, for well-conditioned rows."""
        return self.alpha ** -(1 + self.iterations)


def _penalty(equations, alpha, iterations: int):
    C, mass = equations.C, equations.mass
    s = jnp.sqrt(jnp.diagonal(mass.blocks, axis1=1, axis2=2).ravel())
    weight = alpha / _positive(equations.rows.weighted_square(mass.inverse))
    K = (dense_of_blocks(mass.blocks) + C.T @ (weight[:, None] * C)) / s[:, None] / s
    factor = jax.scipy.linalg.cho_factor(K, lower=True)
    lam, vdot = jnp.zeros(C.shape[0]), jnp.zeros(mass.n)
    for _ in range(iterations + 1):
        vdot = jax.scipy.linalg.cho_solve(factor, (equations.h + C.T @ (lam + weight * equations.Gamma)) / s) / s
        lam = lam + weight * (equations.Gamma - C @ vdot)
    return vdot


def _positive(x):
    """x, with 1 for the zeros of rows that have no direction at this instant."""
    return jnp.where(x > 0, x, 1.0)
