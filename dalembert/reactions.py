"""5c· r → λ and joint wrenches, each under a named rule.

Signs, once: λ and r = Cᵀλ act on the bodies as forces. The reaction of a joint is the force and the torque
**on body j** (the second one named), the torque about marker j's point; body i gets the opposite force and the
opposite torque about that same point. World components are along the world axes, joint components along the
axes of marker i. A driver's reaction is what it exerts on body j.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert._typing import Rows, Velocities
from dalembert.complements import Choice, Riemannian
from dalembert.complements import Frame as RiemannianFrame
from dalembert.equations import Equations, Matrices, matrices
from dalembert.linalg import BlockMass, blocks_times, mass_root, pick_rows
from dalembert.stabilise import generic_ranks
from dalembert.systems import AbsoluteSystem, AbstractSystem, Family, marker_frames


class AbstractReactionRule(eqx.Module):
    """A way to pick λ among all with Cᵀλ = r."""

    @abstractmethod
    def multipliers(self, system: AbstractSystem, equations: Equations, r: Velocities) -> Rows:
        """λ with Cᵀλ = r."""

    @abstractmethod
    def describe(self, system: AbstractSystem) -> str:
        """The rule's name as it is printed beside every number that it picked."""


class Unique(AbstractReactionRule):
    """For independent rows: λ is the solution of Cᵀλ = r; there is nothing to pick. One factorisation."""

    def multipliers(self, system, equations, r):
        # M x − Cᵀλ = −r with C x = 0 has x = 0
        return equations.factorise().solve(-r, jnp.zeros(system.m))[1]

    def describe(self, system):
        return "unique"


class ChosenEquations(AbstractReactionRule):
    """For independent rows: λ from m well-chosen ones of the n equations Cᵀλ = r [Blajer 1995, eq. 4.9, section 5].

    The equations are picked greedily in the mass metric, those whose velocity lies most in the constrained directions.
    One m × m solution beside the choice; the n − m equations left over hold to rounding.
    """

    def multipliers(self, system, equations, r):
        return solve_chosen(equations.C.T, r, equations.mass)

    def describe(self, system):
        return "unique, from chosen equations"


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
    """λ_w along the orthonormal constrained directions W_c, the frame they belong to, and λ from them."""

    lam_w: Float[Array, " rank"]
    lam: Rows | None  # None where redundant rows leave it open
    frame: RiemannianFrame


def orthonormal_multipliers(
    system: AbstractSystem, equations: Equations, complement: Riemannian | None = None
) -> OrthonormalMultipliers:
    """λ_w = W*_cᵀ Ẇ_d u − W_cᵀ h*, no inversion; then λ by m chosen equations of C*λ = W*_c λ_w.

    [Blajer 1995, eqs. 4.9, 4.10, corrected]. λ_w is unique even where redundant rows leave λ open.
    """
    if complement is None:
        complement = Riemannian().sized(generic_ranks(system, (equations.q, equations.v), t=equations.t).rows)
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
    return OrthonormalMultipliers(lam_w, lam, frame)


def local_reactions(at: Matrices, r: Velocities, choice: Choice) -> Float[Array, " n"]:
    """J'⁻ᵀ r: the reaction in the extended local coordinates, Ĉᵀλ first and zeros after [Blajer et al. 1994, eq. 37].

    Corrected: reactions are covariant and go with the inverse transpose. `choice` is that of `LocalCoordinates`.
    """
    J = at.C if at.local is None else at.local.J
    return jnp.linalg.solve(jnp.concatenate([J, choice.E.T]).T, r)


class MinimumNorm(AbstractReactionRule):
    """The λ whose joint forces and torques are smallest: min Σ |F|² + |T|²/ℓ² over the joints, Cᵀλ = r.

    ℓ is the machine's characteristic length (`system.size`), so the answer does not depend on the unit of length,
    on how a joint's rows are written, or on the choice of axes. For a `FunctionSystem`, which has no forces and
    torques, each named group of rows is measured in the mass metric instead, min Σ |C_jᵀλ_j|² in M⁻¹. Dense: an SVD
    of n × m numbers an instant. It is a convention, not physics: part of the reaction is what it says, the
    rest is what the rigid-body model leaves open.
    """

    def multipliers(self, system, equations, r):
        half = _inverse_square_root(_metric(system, equations))
        # λ = G^(−1/2) (L⁻¹ Cᵀ G^(−1/2))⁺ L⁻¹ r with M = L Lᵀ: both sides measured, so that no small singular value
        # comes from mixing forces and torques
        blocks = jnp.linalg.cholesky(equations.mass.blocks)
        right = jnp.concatenate([equations.C.T @ half, r[:, None]], axis=1)
        scaled = jax.lax.linalg.triangular_solve(
            blocks, right.reshape(*blocks.shape[:2], -1), left_side=True, lower=True
        ).reshape(right.shape)
        return half @ (jnp.linalg.pinv(scaled[:, :-1], rtol=1e-9) @ scaled[:, -1])

    def describe(self, system):
        if isinstance(system, AbsoluteSystem):
            return f"minimum norm of joint forces and torques, characteristic length {float(system.size):.6g}"
        return "minimum norm of row groups in the mass metric"


class Wrenches(eqx.Module):
    """Reactions of all joints at one instant, in the order of `system.joints`."""

    force: Float[Array, "joints d"]
    torque: Float[Array, "joints dw"]
    joint_force: Float[Array, "joints d"]
    joint_torque: Float[Array, "joints dw"]


def joint_wrenches(system: AbsoluteSystem, equations: Equations, lam: Rows) -> Wrenches:
    """Force and torque on body j of each joint, at marker j, in world axes and in marker i's axes."""
    K = system.kinematics
    places = system.places(equations.q)
    found: dict[str, tuple] = {}
    for family, block in zip(system.families, equations.rows.member_blocks(), strict=True):
        shares = jnp.sum(block * lam[family.group.rows][:, :, None, None], axis=1)  # (count, k, dv)

        def one(at, p, share, on_i):
            force, torque, R = _wrench_on_j(system, at, p, share, on_i)
            local_torque = torque if K.d == 2 else R.T @ torque
            return force, torque, R.T @ force, local_torque

        out = jax.vmap(one)(family.gather(places), family.p, shares, _j_is_ground(system, family))
        for k, name in enumerate(family.names):
            found[name] = tuple(a[k] for a in out)
    if not found:
        return Wrenches(*(jnp.zeros((0, s)) for s in (K.d, K.dw, K.d, K.dw)))
    return Wrenches(*(jnp.stack([found[j.name][k] for j in system.joints]) for k in range(4)))


def _j_is_ground(system: AbsoluteSystem, family: Family):
    return family.group.columns[:, -1] == len(system.body_names)


def _wrench_on_j(system: AbsoluteSystem, places, p, share, on_i):
    """Force, torque at marker j on body j, and marker i's axes; `on_i` where j is the ground, which has no share."""
    K = system.kinematics
    frames = marker_frames(system.space, places, p)
    point = frames[-1].p
    force, torque = K.wrench(places[-1], point, share[-1])
    if len(places) > 1:
        # internal forces are opposite and have the same moment about any point
        force_i, torque_i = K.wrench(places[0], point, share[0])
        force, torque = jnp.where(on_i, -force_i, force), jnp.where(on_i, -torque_i, torque)
    return force, torque, frames[0].R


def _metric(system: AbstractSystem, equations: Equations) -> Float[Array, "m m"]:
    """G, block-diagonal over the joints: λᵀGλ is the sum of the squared joint reactions."""
    m = system.m
    G = jnp.zeros((m, m))
    if not isinstance(system, AbsoluteSystem):
        C = equations.C
        D = C @ jax.vmap(equations.mass.solve, 1, 1)(C.T)
        for owner in system.owners:
            rows = jnp.array(owner.rows)
            G = G.at[rows[:, None], rows].set(D[rows[:, None], rows])
        return G
    places = system.places(equations.q)
    for family, block in zip(system.families, equations.rows.member_blocks(), strict=True):

        def gram(at, p, block, on_i):
            def wrench(share):
                force, torque, _ = _wrench_on_j(system, at, p, share, on_i)
                return jnp.concatenate([force, torque / system.size])

            W = jax.vmap(wrench)(block)  # one row of C at a time
            return W @ W.T

        grams = jax.vmap(gram)(family.gather(places), family.p, block, _j_is_ground(system, family))
        rows = family.group.rows
        G = G.at[rows[:, :, None], rows[:, None, :]].set(grams)
    return G


def _inverse_square_root(G: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """Some H with Hᵀ G H = I; rows are brought to unit size first, so that only dependent ones look small."""
    size = jnp.sqrt(jnp.where(jnp.diagonal(G) > 0, jnp.diagonal(G), 1.0))
    values, vectors = jnp.linalg.eigh(G / size[:, None] / size)
    safe = jnp.maximum(values, 1e-12 * jnp.max(values))
    return (vectors / jnp.sqrt(safe)) @ vectors.T / size[:, None]
