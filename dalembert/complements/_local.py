"""4 · complements: from the local coordinates of the constrained points [Blajer, Bestle, Schiehlen 1994]."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Float

from dalembert._typing import Array
from dalembert.complements._base import (
    AbstractComplement,
    Choice,
    Completion,
    Local,
    dimensionless,
    measured,
    orthonormalised,
    quality,
    solved,
)
from dalembert.linalg import BlockMass, blocks_times, others, pick_rows, unit_rows


class LocalCoordinates(AbstractComplement):
    """Tangent directions found in the local frames of the constrained points and mapped to the machine's coordinates.

    C = Ĉ J with the local constraint matrix Ĉ and J from velocities to local rates [Blajer, Bestle, Schiehlen 1994,
    eqs. 7, 10, 16]. n − κ of the velocities complete the κ local ones to J' = [J; G], chosen so that J' is
    well conditioned and chosen again when it is not; D = J'⁻¹ [D̂ 0; 0 I] (eqs. 15, 17) with the block inverse (18).
    D̂ is the user's or computed from Ĉ.

    While marching a model the local rates are the relative twists at all joints. In loops these depend on each other,
    so J' = [C; ÊᵀJ; G] takes of the free ones the k that go best together, completed by velocities of bodies where the
    joints are not enough: u are rates of joints. Where C alone is known the local coordinates are the gaps that the
    rows hold at zero, the paper's most favourable case: Ĉ = I, J = C, no D̂.
    """

    uses_local: ClassVar[bool] = True

    def supplement(self, C, mass):
        return _complementary(C, mass)

    def choose(self, C, mass, local=None):
        if local is None:
            return super().choose(C, mass)
        C, mass, local = jax.lax.stop_gradient((C, mass, local))
        rank = self._rank(C)
        if local.dependent:
            return jax.lax.stop_gradient(_joint_rates(C, mass, local, rank))
        G = _complementary(local.J, mass)
        m, kappa = local.Chat.shape
        free = jnp.linalg.svd(local.Chat, full_matrices=True)[2][m:].T if kappa > m else jnp.zeros((kappa, 0))
        return jax.lax.stop_gradient(Choice(G, None, quality(local.J, mass, G), free))

    def quality(self, C, mass, choice, local=None):
        if choice.local is None or local is None:
            return super().quality(C, mass, choice)
        if local.dependent:
            return quality(choice.pick(C), mass, _free(choice, local))
        return quality(local.J, mass, choice.E)

    def holds_E(self, choice):
        return choice.local is None

    def complete(self, C, mass, choice, local=None):
        if choice.local is None or local is None:
            J = choice.pick(C)
            return block_inverse(J, choice.E, jnp.eye(len(J)), jnp.zeros((len(J), 0)))
        if local.dependent:
            return solved(choice.pick(C), _free(choice, local), mass)
        m = local.Chat.shape[0]
        # [Ĉ; Êᵀ]⁻¹ = [Ĉ⁺ D̂], Ê held; square even where D̂ does not exist
        inverse = jnp.linalg.inv(jnp.concatenate([local.Chat, choice.local.T]))
        Dhat = inverse[:, m:] if local.Dhat is None else local.Dhat
        return block_inverse(local.J, choice.E, inverse[:, :m], Dhat)


JOINTS_FIRST = 10.0
"""By how much a rate of a joint is preferred to a velocity of a body."""


def _free(choice: Choice, local: Local) -> Float[Array, "n k"]:
    """JᵀÊ + Gᵀ: the chosen rates as covectors; of each column one of the two is zero."""
    assert choice.local is not None
    return local.J.T @ choice.local + choice.E


def _joint_rates(C, mass: BlockMass, local: Local, rank: int) -> Choice:
    """The free local rates, and the velocities, that complete the rows best: greedily in the mass metric."""
    n, kappa = C.shape[1], local.J.shape[0]
    rows = None if rank == C.shape[0] else pick_rows(unit_rows(C, mass), rank)[0].astype(float)
    chosen = C if rows is None else C[rows.astype(int)]
    # local rates in units of their own size, so that lengths and angles compare; Ê spans what Ĉ leaves free
    J, inverse = measured(mass, local.J.T)
    sizes = jnp.sqrt(jnp.sum(J * J, axis=0))
    sizes = jnp.where(sizes > 0, sizes, 1.0)
    Chat = local.Chat * sizes
    free = jnp.eye(kappa) - jnp.linalg.pinv(Chat, rtol=1e-9) @ Chat
    Q, _ = orthonormalised(measured(mass, chosen.T)[0])
    units = blocks_times(inverse, jnp.eye(n))
    units = units / jnp.sqrt(jnp.sum(units * units, axis=0))
    candidates = jnp.concatenate([(J / sizes) @ free, units / JOINTS_FIRST], axis=1).T
    for _ in range(2):
        candidates = candidates - (candidates @ Q) @ Q.T
    picked, _ = pick_rows(candidates, n - rank)
    Ehat = jnp.concatenate([free / sizes[:, None], jnp.zeros((kappa, n))], axis=1)[:, picked]
    G = jnp.concatenate([jnp.zeros((n, kappa)), jnp.eye(n)], axis=1)[:, picked]
    return Choice(G, rows, quality(chosen, mass, local.J.T @ Ehat + G), Ehat)


def _complementary(J: Float[Array, "κ n"], mass: BlockMass) -> Float[Array, "n rest"]:
    """Gᵀ: the unit vectors of the n − κ velocities that complete J best."""
    kappa, n = J.shape
    A, _ = dimensionless(J, mass)
    Z = jnp.linalg.qr(A.T, mode="complete")[0][:, kappa:]  # J Z = 0: the rows of Z measure how free each velocity is
    return jnp.eye(n)[:, pick_rows(Z, n - kappa)[0]]


def block_inverse(J, G, Chat_inverse, Dhat) -> Completion:
    """J'⁻¹[D̂ 0; 0 I] and J'⁻¹[Ĉ⁺; 0] with J = [J₁ J₂] [Blajer, Bestle, Schiehlen 1994, eq. 18].

    J₁ are the columns of the complementary velocities (the unit columns of G), J₂ the others; only J₂ is inverted.
    """
    kappa, n = J.shape
    own = jnp.argmax(G, axis=0)  # the complementary velocities
    rest = others(own, n)
    J2_inverse = jnp.linalg.inv(J[:, rest])
    right = jnp.concatenate([Chat_inverse, Dhat], axis=1)
    inner = J2_inverse @ right
    m = Chat_inverse.shape[1]
    outer = jnp.zeros((n, right.shape[1])).at[rest].set(inner)
    free = jnp.zeros((n, n - kappa)).at[own].set(jnp.eye(n - kappa)).at[rest].set(-J2_inverse @ J[:, own])
    return Completion(jnp.concatenate([outer[:, m:], free], axis=1), outer[:, :m])


__all__ = ["Local", "LocalCoordinates", "block_inverse"]
