"""5c· reactions: multipliers by the methods of the papers, without factorising the whole."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array, Rows, Velocities
from dalembert.complements import Choice, Riemannian
from dalembert.complements import Frame as RiemannianFrame
from dalembert.equations import Equations, Matrices, matrices
from dalembert.linalg import BlockMass, blocks_times, mass_root, pick_rows
from dalembert.reactions._rules import AbstractReactionRule
from dalembert.stabilise import generic_ranks
from dalembert.systems import AbstractSystem


class EquationSubset(AbstractReactionRule):
    """For independent rows: λ from m well-chosen ones of the n equations Cᵀλ = r [Blajer 1995, eq. 4.9, section 5].

    The equations are picked greedily in the mass metric, those whose velocity lies most in the constrained directions.
    One m × m solution beside the choice; the n − m equations left over hold to rounding.
    """

    def multipliers(self, system, equations, r):
        return solve_chosen(equations.C.T, r, equations.mass)

    def describe(self, system):
        return "unique, from chosen equations"

    def renamed(self, to):
        return self


def solve_chosen(B: Float[Array, "n m"], r: Velocities, mass: BlockMass) -> Rows:
    """λ with B λ = r from the m best conditioned of the n equations; B has full rank and r lies in its span."""
    n, m = B.shape
    # the part of each unit vector in the span of B, in the mass metric: its longest are the equations to use
    _, inverse = mass_root(jax.lax.stop_gradient(mass))
    Q, _ = jnp.linalg.qr(blocks_times(inverse, jax.lax.stop_gradient(B)))
    units = blocks_times(inverse, jnp.eye(n)).T
    units = units / jnp.sqrt(jnp.sum(units**2, axis=1))[:, None]
    picked, _ = pick_rows(units @ Q, m)
    sizes = jnp.sqrt(jnp.sum(B[picked] ** 2, axis=1))
    sizes = jnp.where(sizes > 0, sizes, 1.0)
    return jnp.linalg.solve(B[picked] / sizes[:, None], r[picked] / sizes)


class OrthonormalMultipliers(eqx.Module):
    """λ_w along the orthonormal constrained directions W_c, the frame they belong to, and λ and λ_f from them.

    `lam` is None where redundant rows leave it open. [Blajer 1995, eqs. 4.9, 4.10, corrected]: C*λ = B*λ_f = W*_c λ_w.
    """

    lam_w: Float[Array, " rank"]
    lam: Rows | None
    frame: RiemannianFrame
    mass: BlockMass

    @property
    def r(self) -> Velocities:
        """W*_c λ_w: the constraint force in all coordinates."""
        return self.mass.mv(self.frame.W_c @ self.lam_w)

    def physical(self, B: Float[Array, "n rank"]) -> Float[Array, " rank"]:
        """λ_f with B*λ_f = W*_c λ_w: the sizes of physical reactions that B distributes, from well-chosen equations.

        B maps each reaction to the coordinates (one column each, of the same span as Cᵀ); with joint forces
        along axes of your own, Cᵀ times the directions. Of the n equations those are taken, one after the other, that
        lie most in the constrained subspace.
        """
        B = jnp.asarray(B, float)
        wanted = self.frame.W_c.shape
        if B.shape != wanted:
            raise DalembertError(
                f"B must have a row for each velocity and a column for each reaction, shape {wanted}; it is {B.shape}."
            )
        return solve_chosen(B, self.r, self.mass)


def orthonormal_multipliers(
    system: AbstractSystem, equations: Equations, complement: Riemannian | None = None
) -> OrthonormalMultipliers:
    """`λ_w = W*_cᵀ Ẇ_d u − W_cᵀ h*`, no inversion; then λ by m chosen equations of `C*λ = W*_c λ_w`.

    [Blajer 1995, eqs. 4.9, 4.10, corrected]. λ_w is unique even where redundant rows leave λ open. Physical reactions
    λ_f, in directions of your own, are `.physical(B)`.
    """
    if complement is None:
        complement = Riemannian().with_rank(generic_ranks(system, (equations.q, equations.v), t=equations.t).rows)
    mass, C = equations.mass, equations.C
    choice = complement.choose(C, mass)
    frame = complement.frame(C, mass, choice)
    at = matrices(system, equations.t, equations.q)
    rates = at.rates(system, equations.t, equations.q, equations.v)

    def velocity(C, mass, b):
        D, X = complement.complete(C, mass, choice)
        return D @ u - X @ choice.pick(b)

    completion = complement.complete(C, mass, choice)
    u = complement.tangential(completion, mass, equations.v + completion.X @ choice.pick(equations.b))
    bias = jax.jvp(velocity, (C, mass, equations.b), (rates.C, rates.mass, rates.b))[1]
    lam_w = frame.W_c.T @ mass.mv(bias) - frame.W_c.T @ equations.h
    lam = None
    if choice.rows is None:
        lam = solve_chosen(C.T, mass.mv(frame.W_c @ lam_w), mass)
    return OrthonormalMultipliers(lam_w, lam, frame, mass)


def local_reactions(at: Matrices, r: Velocities, choice: Choice) -> Float[Array, " n"]:
    """J'⁻ᵀ r: the reaction in the extended local coordinates, Ĉᵀλ first and zeros after [Blajer et al. 1994, eq. 37].

    Corrected: reactions are covariant and go with the inverse transpose. `choice` is that of `LocalCoordinates`.
    """
    J = at.C if at.local is None else at.local.J
    return jnp.linalg.solve(jnp.concatenate([J, choice.E.T]).T, r)
