"""linalg · the saddle-point problem M x − Cᵀ λ = a, C x = g, for full-rank, redundant and singular C alike.

Everything is measured in the mass metric on rows of unit length: Ĉ = S C L⁻ᵀ with M = L Lᵀ and
S = diag(C M⁻¹ Cᵀ)^(−1/2), so nothing depends on units. Two methods are combined:

- a quick factorisation: Cholesky of the Delassus matrix ĈĈᵀ + ε, or KLU of [M Cᵀ; C −ε S⁻²]. It is a
  preconditioner only: its solution is refined on the equations themselves, and used only if the residual is at
  rounding level. Dependent but consistent rows pass: x and Cᵀλ are exact, λ is one of many.
- singular values of Ĉ, where the quick way fails (of sparse systems up to `DENSE_UP_TO`): the conditioning is not
  squared, directions with σ below `RANK_TOLERANCE` of the largest are dropped. One threshold, the same as for every
  rank on the host.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox.internal import unvmap_any
from jaxtyping import Float

from dalembert._typing import Array, Scalar
from dalembert.linalg._blocks import INVERT_UP_TO, BlockMass, BlockRows
from dalembert.linalg._klu import KLU
from dalembert.linalg._pivot import blocks_times, mass_root
from dalembert.linalg._rank import RANK_TOLERANCE

EPS = 1e-13
"""Shift of the unit diagonal in the quick factorisations: above rounding, so that dependent rows have a factor, and
far below σ² of the weakest direction that the refinements must recover."""
SPARSE_EPS = 1e-15
"""The same for KLU, which pivots: a first solution holds to rounding wherever rows are well apart."""
SOLVED = 1e-12
"""Residual, relative to the terms of the equation, up to which a quick solution is used."""
WELL_APART = 1e-8
"""Smallest pivot of ĈĈᵀ + ε above which its Cholesky factor is a good preconditioner (σ above some 1e-4)."""
NEAR = 4e-3
"""Share of its usual pivot at which a row is so near to dependent that the state counts as near a singular position."""
DENSE_UP_TO = 1500
"""Rows or velocities of a sparse system up to which singular values are used where its factorisation is not enough."""
ROUNDING = 4e-15
"""Residual below which refinement has no effect."""
LOST = 1e-3
"""From this residual on a solution without pivots is not refined but thrown away."""
SPARSE_REFINEMENTS = 4
"""Most refinements, all by one factor."""


class Attempt(eqx.Module):
    """x and λ by the quick way, the residual of C x = g relative to its terms, and how near the rows are to dependent.

    `pivots` are the squared distances of each row from those before it, rows of length 1; of a sparse system one number
    that stands for the least of them.
    """

    x: Float[Array, " n"]
    lam: Float[Array, " m"]
    residual: Float[Array, ""]
    pivots: Float[Array, " rows"]

    @property
    def margin(self) -> Float[Array, ""]:
        """σ² of the weakest direction of Ĉ, from above: 1 for orthogonal rows, ε or less for dependent ones."""
        return jnp.min(self.pivots)


class DenseSaddle(eqx.Module):
    """Cholesky of the scaled Delassus matrix (range space), singular values where that is not enough; O(m³)."""

    mass: BlockMass
    C: Float[Array, "m n"]
    B: Float[Array, "m n"]  # S C M⁻¹
    A: Float[Array, "m m"]  # S C M⁻¹ Cᵀ S
    S: Float[Array, " m"]
    L: Float[Array, "m m"]  # of A + ε = L Lᵀ; if `inverted`, L⁻¹ itself
    pivots: Float[Array, " m"]  # of that factorisation
    inverted: bool = eqx.field(static=True)

    @classmethod
    def factorise(
        cls, mass: BlockMass, C: Float[Array, "m n"], share: Float[Array, " m"] | None = None, shift=EPS
    ) -> DenseSaddle:
        """`share`: the length that each scaled row is to have, at most 1; without it all have length 1."""
        CW = mass.solve_rows(C)
        S = _inverse_root(jnp.sum(CW * C, axis=1)) * (1.0 if share is None else share)
        B = S[:, None] * CW
        A = (B @ C.T) * S
        # a row that is left out (or zero at this instant) is independent of all others
        return cls(mass, C, B, A, S, *_factor(A, shift + (jnp.diagonal(A) == 0)), len(A) <= INVERT_UP_TO)

    def leading(self, m: int) -> DenseSaddle:
        """The same problem with the first m rows only; the factor is a corner of this one's."""
        if m == self.C.shape[0]:
            return self
        parts = (self.C[:m], self.B[:m], self.A[:m, :m], self.S[:m], self.L[:m, :m], self.pivots[:m])
        return DenseSaddle(self.mass, *parts, self.inverted)

    @property
    def margin(self) -> Float[Array, ""]:
        """The smallest pivot of the factorisation: σ² of the weakest direction is not larger."""
        return jnp.min(self.pivots, initial=1.0)

    def attempt(self, a: Float[Array, " n"], g: Float[Array, " m"], polished: bool = False) -> Attempt:
        """One quick solution for use in a march, where x matters; the caller checks the residual."""
        if 0 in self.C.shape:
            return Attempt(self.mass.solve(a), jnp.zeros(len(self.C)), jnp.zeros(()), jnp.ones(1))
        x, z = self._linear(a, g, lambda a, b: self._quick(a, b, polished))
        held, at, goal = jax.lax.stop_gradient((self, x, g))
        return Attempt(x, -self.S * z, held._residual(at, held.S * goal, jax.lax.stop_gradient(a)), self.pivots)

    def solve(self, a: Float[Array, " n"] | None, g: Float[Array, " m"]):
        """(x, λ), to what the conditioning of C allows; a = None stands for zero."""
        if 0 in self.C.shape:
            return (jnp.zeros(self.mass.n) if a is None else self.mass.solve(a)), jnp.zeros(len(self.C))
        head = jnp.zeros(self.mass.n) if a is None else a
        x, z = self._linear(head, g, self._certain)
        return x, -self.S * z

    def exact(self, a: Float[Array, " n"], g: Float[Array, " m"], tolerance: Scalar = RANK_TOLERANCE):
        """(x, λ) by singular values; directions below `tolerance` are dropped."""
        if 0 in self.C.shape:
            return self.mass.solve(a), jnp.zeros(len(self.C))
        x, z = self._linear(a, g, lambda a, b: self._by_singular_values(a, b, tolerance))
        return x, -self.S * z

    def solve_many(self, a: Float[Array, "n r"], g: Float[Array, "m r"]):
        """(x, λ) for several right-hand sides."""
        return jax.vmap(self.solve, (1, 1), 1)(a, g)

    def correct(self, g: Float[Array, "m r"]) -> Float[Array, "n r"]:
        """x of least mass norm with C x = g, for several g at once and without refinement.

        For use inside an iteration that checks its residual again.
        """
        if self.C.shape[0] == 0:
            return jnp.zeros((self.mass.n, g.shape[1]))
        L, S, B = jax.lax.stop_gradient((self.L, self.S, self.B))
        return B.T @ self._apply(L, S[:, None] * g)

    # ---- the two ways --------------------------------------------------------------------------------------

    def _linear(self, a, g, solve):
        """[M (SC)ᵀ; SC 0] (x, z) = (a, S g) by `solve(a, b)`.

        Derivatives go through the exact equation, never through a factorisation.
        """
        rows, n = self.S[:, None] * self.C, self.mass.n

        def matvec(w):
            return jnp.concatenate([self.mass.mv(w[:n]) + w[n:] @ rows, rows @ w[:n]])

        def found(_, rhs):
            return jnp.concatenate(solve(rhs[:n], rhs[n:]))

        w = jax.lax.custom_linear_solve(matvec, jnp.concatenate([a, self.S * g]), found, symmetric=True)
        return w[:n], w[n:]

    def _residual(self, x, b, a):
        """Of C x = g, relative to its terms and to what the loads a alone would make of x."""
        gap = jnp.max(jnp.abs(b - self.S * (self.C @ x)))
        terms = jnp.max(jnp.abs(b)) + jnp.sqrt(jnp.abs(x @ self.mass.mv(x))) + jnp.sqrt(jnp.abs(a @ self.mass.solve(a)))
        return gap / jnp.where(terms > 0, terms, 1.0)

    def _quick(self, a, b, polished: bool):
        """By the Delassus matrix, refined once on C x = g; `polished`: on both equations, so that λ is not squared."""
        mass, C, B, S, L = jax.lax.stop_gradient((self.mass, self.C, self.B, self.S, self.L))
        free = mass.solve(a)
        y = self._apply(L, (b - S * (C @ free))[:, None])[:, 0]
        x = free + y @ B
        if not polished:
            dy = self._apply(L, (b - S * (C @ x))[:, None])[:, 0]
            return x + dy @ B, -(y + dy)

        for _ in range(3):
            d = mass.solve(a + (S * y) @ C - mass.mv(x))
            dy = self._apply(L, (b - S * (C @ (x + d)))[:, None])[:, 0]
            x, y = x + (d + dy @ B), y + dy
        return x, -y

    def _certain(self, a, b):
        """The quick way if it solves the equation and its rows are well apart, else by singular values."""
        held = jax.lax.stop_gradient(self)
        quick = self._quick(a, b, polished=True)
        good = (held._residual(quick[0], b, a) <= SOLVED) & (held.margin > WELL_APART)

        def otherwise():
            slow = self._by_singular_values(a, b, RANK_TOLERANCE)
            return tuple(jnp.where(good, p, s) for p, s in zip(quick, slow, strict=True))

        return jax.lax.cond(unvmap_any(~good), otherwise, lambda: quick)

    def singular_values(self) -> Float[Array, " values"]:
        """Of Ĉ, falling."""
        if 0 in self.C.shape:
            return jnp.zeros(0)
        return jnp.linalg.svd(self._measured()[0], compute_uv=False)

    def _measured(self):
        """Ĉ = S C L⁻ᵀ and the blocks of L⁻¹."""
        mass, C, S = jax.lax.stop_gradient((self.mass, self.C, self.S))
        _, W = mass_root(mass)
        return S[:, None] * blocks_times(W, C.T).T, W

    def _by_singular_values(self, a, b, tolerance):
        """x̂ = V₁Σ₁⁻¹U₁ᵀb + (1 − V₁V₁ᵀ)â and the least λ̂ with x̂ = â + Ĉᵀλ̂, over σ > tolerance · σ_max."""
        mass, C, S = jax.lax.stop_gradient((self.mass, self.C, self.S))
        rows, W = self._measured()
        U, s, Vt = jnp.linalg.svd(rows, full_matrices=False)
        kept = s > tolerance * s[0]
        weight = jnp.where(kept, 1.0 / jnp.where(kept, s, 1.0), 0.0)

        def by_values(a, b):
            free = blocks_times(W, a[:, None])[:, 0]
            along, goal = jnp.where(kept, Vt @ free, 0.0), weight * (U.T @ b)
            x = free + Vt.T @ (goal - along)
            return blocks_times(W.transpose(0, 2, 1), x[:, None])[:, 0], -(U @ (weight * (goal - along)))

        x, z = by_values(a, b)
        # once more on both equations, to remove rounding
        more = by_values(a - mass.mv(x) - (S * z) @ C, b - S * (C @ x))
        return x + more[0], z + more[1]

    def _apply(self, L, b: Float[Array, "m r"]) -> Float[Array, "m r"]:
        """(A + ε)⁻¹ b."""
        if self.inverted:
            return L.T @ (L @ b)
        y = jax.lax.linalg.triangular_solve(L, b, left_side=True, lower=True)
        return jax.lax.linalg.triangular_solve(L, y, left_side=True, lower=True, transpose_a=True)


class SparseSaddle(eqx.Module):
    """[M Cᵀ; C −ε S⁻²], eliminated in a fixed order or by KLU; linear cost for the mechanisms we know. No m × n array
    is formed."""

    mass: BlockMass
    C: BlockRows
    D: Float[Array, " m"]  # diag(C M⁻¹ Cᵀ)
    shift: Float[Array, ""]
    klu: KLU

    @classmethod
    def factorise(cls, mass: BlockMass, C: BlockRows, klu: KLU, shift=SPARSE_EPS) -> SparseSaddle:
        D = C.weighted_square(mass.inverse)
        return cls(mass, C, jnp.where(D > 0, D, 1.0), jnp.asarray(shift, float), klu)

    def leading(self, m: int) -> SparseSaddle:
        """The same problem with the first m rows only: the others are emptied, the pattern stays."""
        if m == self.C.pattern.m:
            return self
        data = jnp.where(self.C.pattern.rows < m, self.C.data, 0.0)
        return SparseSaddle(self.mass, BlockRows(self.C.pattern, data), self.D, self.shift, self.klu)

    def attempt(self, a: Float[Array, " n"], g: Float[Array, " m"], polished: bool = False) -> Attempt:
        """As of `DenseSaddle`, always polished; the margin by a second right-hand side of mixed signs.

        Its answer grows as 1/σ²; a few digits of it are enough, so it is not refined.
        """
        n, m = self.mass.n, g.shape[0]
        probe = jnp.where(jnp.arange(m) % 3 == 1, -1.0, 1.0) * jnp.sqrt(self.D)
        head = jnp.stack([a, jnp.zeros(n)], axis=1)
        rhs = self._padded(head, jnp.stack([g, probe], axis=1))
        z, gaps = self._solve(rhs, SPARSE_REFINEMENTS, probed=True)
        grown = jnp.max(jnp.abs(jax.lax.stop_gradient(z[n : n + m, 1])) * jnp.sqrt(self.D))
        return Attempt(z[:n, 0], -z[n : n + m, 0], jnp.max(gaps), 1.0 / grown[None])

    def solve(self, a, g):
        head = jnp.zeros(self.mass.n) if a is None else a
        x, lam = self.solve_many(head[:, None], g[:, None])
        return x[:, 0], lam[:, 0]

    def exact(self, a, g, tolerance: Scalar = RANK_TOLERANCE):
        """The same as `solve`, which decides when to use singular values."""
        return self.solve(a, g)

    def solve_many(self, a: Float[Array, "n r"], g: Float[Array, "m r"]):
        """(x, λ) for several right-hand sides, with one factorisation.

        Directions with σ² below ε are not resolved: where the equations do not hold, singular values of the dense rows
        are used, unless there are too many.
        """
        n, m = self.mass.n, g.shape[0]
        rhs = self._padded(a, g)
        z, _ = self._solve(rhs, 2 * SPARSE_REFINEMENTS, enough=ROUNDING)
        if max(n, m) > DENSE_UP_TO or m < self.C.pattern.m:
            return z[:n], -z[n : n + m]
        # measured here: what a linear solve returns beside its solution cannot be differentiated further
        bad = jnp.max(self._gap(*jax.lax.stop_gradient((z, rhs)))[1]) > SOLVED

        def otherwise():
            slow = DenseSaddle.factorise(self.mass, self.C.dense()).solve_many(a, g)
            return tuple(jnp.where(bad, s, q) for s, q in zip(slow, (z[:n], -z[n:]), strict=True))

        return jax.lax.cond(unvmap_any(bad), otherwise, lambda: (z[:n], -z[n:]))

    def correct(self, g: Float[Array, "m r"]) -> Float[Array, "n r"]:
        """x of least mass norm with C x = g, for several g at once, without refinement (one factorisation)."""
        n = self.mass.n
        rhs = self._padded(jnp.zeros((n, g.shape[1])), g)
        return jax.lax.stop_gradient(self)._solve(rhs, 0)[0][:n]

    def _padded(self, a, g):
        """The right-hand side, with zeros for the rows that `leading` has emptied."""
        return jnp.concatenate([a, g, jnp.zeros((self.D.shape[0] - g.shape[0], g.shape[1]))])

    def _gap(self, z: Float[Array, "nm r"], b: Float[Array, "nm r"]) -> tuple[Float[Array, "nm r"], Float[Array, "2"]]:
        """The residual, and its size relative to the terms of the two equations, in the mass metric."""
        mass, C, D = jax.lax.stop_gradient((self.mass, self.C, self.D))
        n = mass.n
        root = _inverse_root(jnp.diagonal(mass.blocks, axis1=1, axis2=2).ravel())[:, None]
        pull = jax.vmap(C.rmv, 1, 1)(z[n:])
        head = b[:n] - jax.vmap(mass.mv, 1, 1)(z[:n]) - pull
        rows = b[n:] - jax.vmap(C.mv, 1, 1)(z[:n])

        def largest(x):
            return jnp.max(jnp.abs(x), axis=0)

        loads, moved = largest(b[:n] * root), largest(z[:n] / root)
        over = (1.0 / jnp.sqrt(D))[:, None]
        goal = largest(b[n:] * over) + loads + moved
        gaps = jnp.stack(
            [
                largest(head * root) / _one(loads + largest(pull * root) + moved),
                largest(rows * over) / _one(goal),
            ]
        )
        return jnp.concatenate([head, rows]), jnp.max(gaps, axis=1)

    def _solve(
        self,
        rhs: Float[Array, "nm r"],
        refinements: int,
        enough: float = ROUNDING,
        probed: bool = False,
    ) -> tuple[Float[Array, "nm r"], Float[Array, "2"]]:
        """(x, −λ), refined until both equations hold well enough, or neither improves, and what they are off by;
        `probed`: all but the last."""
        held = jax.lax.stop_gradient((self.mass, self.C, self.shift * self.D))

        def found(_, b):
            factor = self.klu.factorise(*held)
            if refinements == 0:
                return factor.solve(b), jnp.zeros(2)
            z = factor.solve_roughly(b) if probed else factor.solve(b)
            z, b, rest = (z[:, :-1], b[:, :-1], z[:, -1:]) if probed else (z, b, z[:, :0])

            def going(carry):
                _, _, left, before, k = carry
                return (k < refinements) & jnp.any(~(left <= enough)) & (jnp.any(left < 0.5 * before) | (k == 0))

            def refine(carry):
                z, gap, left, _, k = carry
                lost = jnp.any(~(left < LOST))  # nothing was found: once more, with pivots
                z, gap = jnp.where(lost, 0.0, z), jnp.where(lost, b, gap)
                z = z + factor.solve(gap)
                gap, now = self._gap(z, b)
                return z, gap, now, left, k + 1

            start = (z, *self._gap(z, b), jnp.full(2, jnp.inf), jnp.zeros((), int))
            z, _, left, *_ = jax.lax.while_loop(going, refine, start)
            return jnp.concatenate([z, rest], axis=1), left

        # derivatives go through the exact equation, never through the regularised factor
        matvec = jax.vmap(_saddle_product(self.mass, self.C, self.mass.n), 1, 1)
        return jax.lax.custom_linear_solve(matvec, rhs, found, symmetric=True, has_aux=True)


def _saddle_product(mass: BlockMass, C: BlockRows, n: int):
    return lambda z: jnp.concatenate([mass.mv(z[:n]) + C.rmv(z[n:]), C.mv(z[:n])])


def factorise(mass: BlockMass, rows: BlockRows, klu: KLU | None, share=None, **options) -> DenseSaddle | SparseSaddle:
    """Dense or, when an analysed pattern is at hand, sparse; `shift=` damps `correct` beside singular positions."""
    if klu is None:
        return DenseSaddle.factorise(mass, rows.dense(), share, **options)
    return SparseSaddle.factorise(mass, rows, klu, **options)


def _one(x):
    return jnp.where(x > 0, x, 1.0)


def _inverse_root(d):
    safe = jnp.where(d > 0, d, 1.0)  # a row that is zero at this instant has no direction to scale
    return 1.0 / jnp.sqrt(safe)


def _factor(A, shift):
    """L, or L⁻¹ of a small matrix, and the pivots."""
    eye = jnp.eye(len(A))
    L = jax.lax.linalg.cholesky(jax.lax.stop_gradient(A + shift * eye), symmetrize_input=False)
    pivots = jnp.diagonal(L) ** 2
    if len(A) > INVERT_UP_TO:
        return L, pivots
    return jax.lax.linalg.triangular_solve(L, eye, left_side=True, lower=True), pivots
