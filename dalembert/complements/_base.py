"""4 · complements: the interface. A choice of E, held over a run of steps, and a completion that is smooth in q."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array
from dalembert.linalg import BlockMass, blocks_times, mass_root, pick_rows, unit_rows


class Local(eqx.Module):
    """C = Ĉ J: how the rows factor through the local coordinates of the constrained points (κ of them in all)."""

    J: Float[Array, "κ n"]
    Chat: Float[Array, "m κ"]
    Dhat: Float[Array, "κ free"] | None = None  # where the user gives it; else it is computed
    dependent: bool = eqx.field(static=True, default=False)  # more local rates than independent ones: joints in loops


class Choice(eqx.Module):
    """What is held while a machine moves a little: E, which rows represent all, and the quality of both.

    `rows` are indices kept as floats, so that a choice can be part of an integrator's state (at rate zero); None
    when all rows are independent. `quality` is that of [Cᵀ E] when chosen: 1 for orthogonal, 0 for singular.
    `local` holds the local directions Ê of `LocalCoordinates`.
    """

    E: Float[Array, "n k"]
    rows: Float[Array, " rank"] | None
    quality: Float[Array, ""]
    local: Float[Array, "κ free"] | None = None

    def pick(self, A: Array) -> Array:
        """The rows of A (of C, b or Γ) that represent all."""
        return A if self.rows is None else A[jnp.round(self.rows).astype(int)]


class Completion(NamedTuple):
    """D with C D = 0, and X with (chosen rows of C) X = I: v = D u − X b is every velocity the rows allow."""

    D: Float[Array, "n k"]
    X: Float[Array, "n rank"]


class AbstractComplement(eqx.Module):
    """D (n × k) with C D = 0.

    `rank` is the rank of C, static: sizes may not depend on numbers inside a compiled program. `sized(rank)` sets it,
    and every formulation's `prepare` does so on the host. Redundant rows are normal: of m rows, `rank` well chosen
    ones represent all. A choice is made at one instant; with it held, D is a smooth function of C and M.
    """

    rank: int | None = eqx.field(static=True, default=None, kw_only=True)

    uses_local: ClassVar[bool] = False
    """Whether the factors C = Ĉ J are worth making for a model."""

    def holds_E(self, choice: Choice) -> bool:
        """Whether D solves [C; Eᵀ] D = [0; I] with E held: then Ḋu + … = X Γ, without differentiation."""
        return False

    def with_rank(self, rank: int) -> Self:
        """The same complement for matrices C of this rank."""
        return dataclasses.replace(self, rank=int(rank))

    @abstractmethod
    def supplement(self, C: Float[Array, "rank n"], mass: BlockMass) -> Float[Array, "n k"]:
        """E for independent rows C: covariant columns such that [Cᵀ E] is regular and well conditioned."""

    @abstractmethod
    def complete(
        self, C: Float[Array, "m n"], mass: BlockMass, choice: Choice, local: Local | None = None
    ) -> Completion:
        """D and X at one instant, with the choice held. Differentiable in C and M."""

    def choose(self, C: Float[Array, "m n"], mass: BlockMass, local: Local | None = None) -> Choice:
        """The choice at one instant. It is a constant for all derivatives: no result may depend on it."""
        C, mass = jax.lax.stop_gradient((C, mass))
        rank = self._rank(C)
        rows = None if rank == C.shape[0] else pick_rows(unit_rows(C, mass), rank)[0].astype(float)
        chosen = C if rows is None else C[rows.astype(int)]
        E = self.supplement(chosen, mass)
        return jax.lax.stop_gradient(Choice(E, rows, quality(chosen, mass, E)))

    def quality(
        self, C: Float[Array, "m n"], mass: BlockMass, choice: Choice, local: Local | None = None
    ) -> Float[Array, ""]:
        """How well conditioned [Cᵀ E] is now, from 1 (orthogonal in the mass metric) to 0 (singular)."""
        return quality(choice.pick(C), mass, choice.E)

    def derivative(
        self, C, Cdot, mass: BlockMass, mass_dot: BlockMass, choice: Choice
    ) -> tuple[Completion, Completion]:
        """(D, X) and (Ḋ, Ẋ) exactly, from C, M and their rates; the choice held."""
        return jax.jvp(lambda C, mass: self.complete(C, mass, choice), (C, mass), (Cdot, mass_dot))

    def velocity(self, C, mass: BlockMass, choice: Choice, local: Local | None, u, b) -> tuple[Array, Array]:
        """v = D u − X b, and D; b = None stands for zero."""
        D, X = self.complete(C, mass, choice, local)
        return D @ u if b is None else D @ u - X @ choice.pick(b), D

    def tangential(self, completion: Completion, mass: BlockMass, v: Float[Array, " n"]) -> Float[Array, " k"]:
        """u of a velocity: (DᵀMD)⁻¹DᵀM v [Blajer 1995, eq. 4.7a]; what v holds along X is left out.

        By a QR of LᵀD, M = L Lᵀ: the normal equations would square the spread of the masses.
        """
        if completion.D.shape[1] == 0:
            return jnp.zeros(0)
        upper = mass_root(mass)[0].transpose(0, 2, 1)
        Q, R = jnp.linalg.qr(blocks_times(upper, completion.D))
        seen = Q.T @ blocks_times(upper, v[:, None])
        return jax.lax.linalg.triangular_solve(R, seen, left_side=True)[:, 0]

    def _rank(self, C) -> int:
        if self.rank is None:
            raise DalembertError(
                f"{type(self).__name__} does not know the rank of C, which must be known before compiling: use "
                "da.prepare(system, formulation=…).formulation, or complement.with_rank(rank)."
            )
        return self.rank


def quality(C: Float[Array, "rank n"], mass: BlockMass, E: Float[Array, "n k"]) -> Float[Array, ""]:
    """The smallest distance, in the mass metric, of a unit column of [Cᵀ E] from the span of those before it."""
    columns = unit_rows(jnp.concatenate([C, E.T]), mass).T
    R = jnp.linalg.qr(columns, mode="r")
    return jnp.min(jnp.abs(jnp.diagonal(R)), initial=1.0)


def orthonormalised(P: Float[Array, "n c"]) -> tuple[Float[Array, "n c"], Float[Array, "c c"]]:
    """Q and R of P with a positive diagonal of R: what Gram–Schmidt gives, by Householder reflections."""
    Q, R = jnp.linalg.qr(P)
    signs = jnp.where(jnp.diagonal(R) < 0, -1.0, 1.0)
    return Q * signs, R * signs[:, None]


def dimensionless(C: Float[Array, "rank n"], mass: BlockMass) -> tuple[Float[Array, "rank n"], Float[Array, " n"]]:
    """S C diag(s)⁻¹ and s = √diag M: rows of unit length in coordinates of one unit.

    The classical methods use no metric. In these coordinates their choices do not depend on units.
    """
    s = jnp.sqrt(jnp.diagonal(mass.blocks, axis1=1, axis2=2).ravel())
    A = C / s
    sizes = jnp.sqrt(jnp.sum(A * A, axis=1))
    return A / jnp.where(sizes > 0, sizes, 1.0)[:, None], s


def solved(C: Float[Array, "rank n"], E: Float[Array, "n k"], mass: BlockMass) -> Completion:
    """[C; Eᵀ]⁻¹ = [X D]."""
    # scaled to unit rows in coordinates of one unit, so that the pivoting does not depend on units
    rank = C.shape[0]
    A, s = dimensionless(jnp.concatenate([C, E.T]), mass)
    sizes = jnp.linalg.norm(jnp.concatenate([C, E.T]) / s, axis=1)
    inverse = jnp.linalg.inv(A) / s[:, None] / jnp.where(sizes > 0, sizes, 1.0)
    return Completion(inverse[:, rank:], inverse[:, :rank])


def measured(mass: BlockMass, P: Float[Array, "n c"]) -> tuple[Float[Array, "n c"], Float[Array, "nb d d"]]:
    """L⁻¹P: covariant columns in an orthonormal basis of the mass metric; and L⁻¹."""
    _, inverse = mass_root(mass)
    return blocks_times(inverse, P), inverse


DEPENDENT = 1e-6
"""Below this quality E and the rows are dependent."""


def check_choice(choice: Choice) -> Choice:
    """The choice, or an error if its E does not complete the rows (on the host)."""
    if float(choice.quality) < DEPENDENT:
        raise DalembertError(
            f"The chosen supplement E and the constraint rows are dependent (quality {float(choice.quality):.1e}): "
            "rank [Cᵀ E] is too low. Vectors with large sines may still depend on each other; use the greedy criterion."
        )
    return choice
