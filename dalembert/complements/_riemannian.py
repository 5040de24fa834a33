"""4 · complements: orthonormal in the mass metric [Blajer 1995]. WᵀMW = I, W = [W_c W_d], C W_d = 0."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array
from dalembert.complements._base import AbstractComplement, Choice, Completion, measured, orthonormalised
from dalembert.linalg import BlockMass, blocks_times, pick_rows, times

CRITERIA = ("greedy", "one-shot", "current")


class Frame(NamedTuple):
    """W_c and W_d (contravariant columns), and the triangle R with Cᵀ = M W_c R."""

    W_c: Float[Array, "n rank"]
    W_d: Float[Array, "n k"]
    R: Float[Array, "rank rank"]

    def lifted(self, g: Float[Array, " rank"]) -> Float[Array, " n"]:
        """X g = W_c R⁻ᵀg: of least mass norm with (chosen rows of C) X g = g."""
        raised = jax.lax.linalg.triangular_solve(self.R, g[:, None], left_side=True, transpose_a=True)
        return times(self.W_c, raised)[:, 0]


class Turning(NamedTuple):
    """The same without W_c: Q of L⁻¹[Cᵀ E] = Q R stays a product of reflections, of which a march needs k columns."""

    W_d: Float[Array, "n k"]
    R: Float[Array, "n n"]
    P: Float[Array, "n n"]
    inverse: Float[Array, "nb d d"]

    @classmethod
    def of(cls, C, E, mass: BlockMass) -> Turning:
        P, inverse = measured(mass, jnp.concatenate([C.T, E], axis=1))
        Q_d, R = reflected(P, jnp.eye(len(P))[:, len(C) :])
        return cls(blocks_times(inverse.transpose(0, 2, 1), Q_d), R, P, inverse)

    def raised(self, g: Float[Array, "rank c"]) -> Float[Array, "rank c"]:
        """R_cc⁻ᵀg."""
        rank = len(g)
        return jax.lax.linalg.triangular_solve(self.R[:rank, :rank], g, left_side=True, transpose_a=True)

    def along(self, x: Float[Array, " rank"]) -> Float[Array, " n"]:
        """W_c x."""
        padded = jnp.concatenate([x, jnp.zeros(len(self.P) - len(x))])[:, None]
        return blocks_times(self.inverse.transpose(0, 2, 1), reflected(self.P, padded)[0])[:, 0]

    def lifted(self, g: Float[Array, " rank"]) -> Float[Array, " n"]:
        """X g = W_c R_cc⁻ᵀg: of least mass norm with (chosen rows of C) X g = g."""
        return self.along(self.raised(g[:, None])[:, 0])


@jax.custom_jvp
def reflected(P: Float[Array, "n n"], X: Float[Array, "n c"]) -> tuple[Float[Array, "n c"], Float[Array, "n n"]]:
    """Q X and R of P = Q R, R's diagonal positive: only the columns of X are reflected, Q is not formed."""
    H, taus = jnp.linalg.qr(P, mode="raw")
    signs = jnp.where(jnp.diagonal(H) < 0, -1.0, 1.0)
    return jax.lax.linalg.ormqr(H.T, taus, signs[:, None] * X), jnp.triu(H.T) * signs[:, None]


@reflected.defjvp
def _reflected_jvp(primals, tangents):
    (P, X), (P_dot, X_dot) = primals, tangents
    (Q, R), (Q_dot, R_dot) = jax.jvp(orthonormalised, (P,), (P_dot,))
    return (Q @ X, R), (Q_dot @ X + Q @ X_dot, R_dot)


class Riemannian(AbstractComplement):
    """Gram–Schmidt on [Cᵀ E] in the metric M [Blajer 1995, eqs. 3.1–3.5]: W_dᵀ M W_d = I.

    `criterion` picks E: "greedy" (the default) takes one unit vector after the other, always the one that is farthest
    in the mass metric from all taken so far, and cannot fail; "one-shot" takes those with the k largest sines
    (eq. 5.5), which can be dependent among themselves (`Choice.quality` is then 0, and `check_choice` raises an error);
    "current" takes the covariant W_d itself, the best conditioned and dense (end of section 5). `algorithm`:
    "householder" is a QR of L⁻¹[Cᵀ E], M = L Lᵀ; "recursion" is the paper's (3.2), a column at a time, kept as its
    tested twin.
    """

    criterion: str = eqx.field(static=True, default="greedy")
    algorithm: str = eqx.field(static=True, default="householder")

    def __check_init__(self):
        if self.criterion not in CRITERIA:
            raise DalembertError(f"criterion={self.criterion!r} is unknown; use one of {', '.join(CRITERIA)}.")
        if self.algorithm not in ("householder", "recursion"):
            raise DalembertError(f"algorithm={self.algorithm!r} is unknown; use 'householder' or 'recursion'.")

    def supplement(self, C, mass):
        n, k = C.shape[1], C.shape[1] - C.shape[0]
        tangential = projected_units(C, mass)
        if self.criterion == "one-shot":
            sines = jnp.round(jnp.sum(tangential**2, axis=1), 9)  # equal ones in the order of the coordinates
            return jnp.eye(n)[:, jax.lax.top_k(sines, k)[1]]
        E = jnp.eye(n)[:, pick_rows(tangential, k)[0]]
        if self.criterion == "current":
            E = blocks_times(mass.blocks, _householder(C, E, mass).W_d)
        return E

    def frame(self, C: Float[Array, "m n"], mass: BlockMass, choice: Choice) -> Frame:
        """W_c, W_d and R at one instant."""
        make = _householder if self.algorithm == "householder" else _recursion
        return make(choice.pick(C), choice.E, mass)

    def complete(self, C, mass, choice, local=None):
        W_c, W_d, R = self.frame(C, mass, choice)
        return Completion(W_d, W_c @ jax.lax.linalg.triangular_solve(R, jnp.eye(len(R)), left_side=True).T)

    def velocity(self, C, mass, choice, local, u, b):
        frame = self.frame(C, mass, choice)
        v = frame.W_d @ u
        return v if b is None else v - frame.lifted(choice.pick(b)), frame.W_d

    def moving(self, C, Cdot_of, mass: BlockMass, choice: Choice, u, b) -> tuple[Array, Turning, Array]:
        """v, the basis, and the tangential part W_dᵀM(W_d u − X b)˙, u held, for a constant M; b = None is zero.

        No QR is differentiated: with P̃ = L⁻¹[Cᵀ E] = Q R and Q̇ = Q Ω, the strict lower part of the skew Ω is that of
        QᵀP̃˙R⁻¹, which only holds A = Ċ W_d: Ω_dc = AᵀR_cc⁻¹ and Ω_dd from −AᵀR_cc⁻¹R_cd R_dd⁻¹. `Cdot_of(v)` gives Ċ
        along v; a single tangent velocity in rows that do not move turns by nothing, and Ċ drops out.
        """
        rank, k = len(choice.pick(C)), choice.E.shape[1]
        basis = Turning.of(choice.pick(C), choice.E, mass)
        v = times(basis.W_d, u[:, None])[:, 0]
        if b is not None:
            raised = basis.raised(choice.pick(b)[:, None])
            v = v - basis.along(raised[:, 0])
        tangential = jnp.zeros(k)
        if k > 1 or b is not None:
            A = times(choice.pick(Cdot_of(v)), basis.W_d)
            if k > 1:
                # R_cc⁻¹R_cd R_dd⁻¹ is minus the upper right block of R⁻¹: one solve
                block = jax.lax.linalg.triangular_solve(basis.R, jnp.eye(rank + k)[:, rank:], left_side=True)[:rank]
                lower = jnp.tril(times(A.T, block), -1)
                tangential = times(lower - lower.T, u[:, None])[:, 0]
            if b is not None:
                tangential = tangential - times(basis.raised(A).T, raised)[:, 0]
        return v, basis, tangential

    def derivative(self, C, Cdot, mass, mass_dot, choice):
        if self.algorithm == "householder":
            return super().derivative(C, Cdot, mass, mass_dot, choice)
        (W, R), (Wdot, Rdot) = recursion_rates(
            choice.pick(C), choice.pick(Cdot), choice.E, mass.inverse, mass_dot.inverse
        )
        r = R.shape[0]
        T = jnp.linalg.inv(R).T
        Tdot = -T @ Rdot.T @ T
        X, Xdot = W[:, :r] @ T, Wdot[:, :r] @ T + W[:, :r] @ Tdot
        return Completion(W[:, r:], X), Completion(Wdot[:, r:], Xdot)

    def tangential(self, completion, mass, v):
        """u = W_dᵀM v, no inversion [Blajer 1995, eq. 4.7]."""
        return completion.D.T @ mass.mv(v)


def projected_units(C: Float[Array, "rank n"], mass: BlockMass) -> Float[Array, "n n"]:
    """The unit vectors k_i, of length one, less their part in the constrained subspace: row i has length sin α_i.

    [Blajer 1995, eqs. 5.2–5.5], in an orthonormal basis of the mass metric.
    """
    rows, inverse = measured(mass, C.T)
    Q, _ = orthonormalised(rows)
    units = blocks_times(inverse, jnp.eye(C.shape[1])).T  # row i: L⁻¹k_i
    units = units / jnp.linalg.norm(units, axis=1)[:, None]
    for _ in range(2):
        units = units - (units @ Q) @ Q.T
    return units


def _householder(C, E, mass: BlockMass) -> Frame:
    """Q R = L⁻¹[Cᵀ E], M = L Lᵀ; W = L⁻ᵀQ."""
    rank = C.shape[0]
    P, inverse = measured(mass, jnp.concatenate([C.T, E], axis=1))
    Q, R = orthonormalised(P)
    W = blocks_times(inverse.transpose(0, 2, 1), Q)
    return Frame(W[:, :rank], W[:, rank:], R[:rank, :rank])


def _recursion(C, E, mass: BlockMass) -> Frame:
    """[Blajer 1995, eq. 3.2 with w*_i = v*_i / ‖v_i‖], a column after the other."""
    rank = C.shape[0]
    P = jnp.concatenate([C.T, E], axis=1)
    n = P.shape[0]

    def add(W, column):
        i, p = column
        projections = W.T @ p  # (w_j, p) for the columns made so far; the others are still zero
        raised = blocks_times(mass.inverse, p[:, None])[:, 0]
        v = raised - W @ projections
        size = jnp.sqrt(p @ raised - projections @ projections)
        return W.at[:, i].set(v / size), projections.at[i].set(size)

    W, R = jax.lax.scan(add, jnp.zeros((n, n)), (jnp.arange(n), P.T))
    return Frame(W[:, :rank], W[:, rank:], R.T[:rank, :rank])


def recursion_rates(C, Cdot, E, inverse, inverse_dot):
    """(W, R) and their rates by the paper's recursion [Blajer 1995, eqs. 3.2 and 3.5, with (‖v‖⁻¹)˙ = −½‖v‖⁻³(‖v‖²)˙].

    `inverse` and `inverse_dot` are the blocks of M⁻¹ and of its rate.
    """
    rank = C.shape[0]
    P = jnp.concatenate([C.T, E], axis=1)
    Pdot = jnp.concatenate([Cdot.T, jnp.zeros_like(E)], axis=1)
    n = P.shape[0]

    def add(carry, column):
        W, Wdot = carry
        i, p, pdot = column
        raised = blocks_times(inverse, p[:, None])[:, 0]
        raised_dot = blocks_times(inverse_dot, p[:, None])[:, 0] + blocks_times(inverse, pdot[:, None])[:, 0]
        a, adot = W.T @ p, Wdot.T @ p + W.T @ pdot
        v, vdot = raised - W @ a, raised_dot - Wdot @ a - W @ adot
        square = p @ raised - a @ a
        square_dot = pdot @ raised + p @ raised_dot - 2 * a @ adot
        size = jnp.sqrt(square)
        w, wdot = v / size, vdot / size - 0.5 * v * square_dot / size**3
        R, Rdot = a.at[i].set(size), adot.at[i].set(0.5 * square_dot / size)
        return (W.at[:, i].set(w), Wdot.at[:, i].set(wdot)), (R, Rdot)

    zero = jnp.zeros((n, n))
    (W, Wdot), (R, Rdot) = jax.lax.scan(add, (zero, zero), (jnp.arange(n), P.T, Pdot.T))
    return (W, R.T[:rank, :rank]), (Wdot, Rdot.T[:rank, :rank])
