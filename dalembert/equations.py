"""3 · the narrow waist: `Equations` and `assemble`; the only file that differentiates constraints.

For each row family one function is enough, the velocity residual φ(t,q,v) = C v + b: for holonomic rows the
time derivative of Φ along (1, N v), for the others what the family states. Then

    C = ∂φ/∂v        b = φ(t,q,0) = φ − C v        Γ = −dφ/dt along (1, N v) with v held = −(Ċ v + ḃ)

all by automatic differentiation, member by member under vmap. Ċ v is never dropped.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert._typing import Coordinates, Rows, Scalar, Velocities
from dalembert.linalg import KLU, BlockMass, BlockRows, DenseSaddle, SparseSaddle, factorise
from dalembert.systems import AbstractSystem, Family


class Equations(eqx.Module):
    """All that any formulation needs at one instant: M v̇ = h + Cᵀλ, C v̇ = Γ, and the residuals Φ, φ.

    `mass` and `rows` are the structured M and C; `M` and `C` are the same as dense arrays, for small systems.
    """

    t: Scalar
    q: Coordinates
    v: Velocities
    mass: BlockMass
    h: Velocities
    Phi: Float[Array, " holonomic"]
    rows: BlockRows
    phi: Rows
    Gamma: Rows
    klu: KLU | None

    @property
    def M(self) -> Float[Array, "n n"]:
        return self.mass.dense()

    @property
    def C(self) -> Float[Array, "m n"]:
        return self.rows.dense()

    @property
    def b(self) -> Rows:
        return self.phi - self.rows.mv(self.v)

    def factorise(self) -> DenseSaddle | SparseSaddle:
        """The factorised saddle-point problem of M and C."""
        return factorise(self.mass, self.rows, self.klu)


def assemble(system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> Equations:
    """The equations of motion of a system at (t, q, v)."""
    x, u = system.block_table(q), system.velocity_table(v)
    t = jnp.asarray(t, float)
    parts = [_family_terms(system, f, t, x, u) for f in system.families]
    Phi, data, phi, Gamma = ([p[k] for p in parts] for k in range(4))
    order = system.pattern.row_order
    return Equations(
        t=t,
        q=q,
        v=v,
        mass=system.mass(t, q),
        h=system.force(t, q, v),
        Phi=_in_order(Phi, system._order(True)) if Phi else jnp.zeros(0),
        rows=BlockRows(system.pattern, jnp.concatenate(data) if data else jnp.zeros(0)),
        phi=_in_order(phi, order),
        Gamma=_in_order(Gamma, order),
        klu=system.klu,
    )


def residuals(system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> tuple[Rows, Rows]:
    """Φ(t, q) and φ(t, q, v) without C: what a correction needs after the directions are frozen."""
    x, u = system.block_table(q), system.velocity_table(v)
    t = jnp.asarray(t, float)
    Phi, phi = [], []
    for f in system.families:

        def one(x, u, p, f=f):
            return _velocity_residual(system, f, t, x, u, p)

        positions, velocities = jax.vmap(one)(x[f.group.columns], u[f.group.columns], f.p)
        Phi.append(positions.ravel())
        phi.append(velocities.ravel())
    if not Phi:
        return jnp.zeros(0), jnp.zeros(0)
    return _in_order(Phi, system._order(True)), _in_order(phi, system.pattern.row_order)


def _velocity_residual(system: AbstractSystem, f: Family, t, x, u, p) -> tuple[Array, Array]:
    """(Φ, φ) of one member: holonomic rows differentiated along (1, N v), then the nonholonomic rows."""
    Phi, out = jnp.zeros(0), []
    if f.position is not None:
        along = (jnp.ones_like(t), jax.vmap(system.block_qdot)(x, u))
        Phi, rate = jax.jvp(lambda t, x: f.position(t, x, p), (t, x), along)
        out.append(rate)
    if f.motion is not None:
        out.append(f.motion(t, x, u, p))
    return Phi, jnp.concatenate(out)


def _family_terms(system: AbstractSystem, f: Family, t, x, u):
    """Φ, C (flat), φ, Γ of all members of a family."""

    def one(x, u, p):
        def phi(t, x, u):
            return _velocity_residual(system, f, t, x, u, p)[::-1]

        along = (jnp.ones_like(t), jax.vmap(system.block_qdot)(x, u))
        (value, Phi), (rate, _) = jax.jvp(lambda t, x: phi(t, x, u), (t, x), along)
        # φ is linear in u: its Jacobian is its value on each unit velocity, with b taken off by the derivative
        C = jax.jacfwd(lambda u: phi(t, x, u)[0])(u)
        return Phi, C, value, -rate

    Phi, C, value, Gamma = jax.vmap(one)(x[f.group.columns], u[f.group.columns], f.p)
    return Phi.ravel(), C.ravel(), value.ravel(), Gamma.ravel()


def _in_order(parts: list[Array], order) -> Array:
    whole = jnp.concatenate(parts) if parts else jnp.zeros(0)
    if len(order) and (order == range(len(order))).all():
        return whole  # already in the order of C: spare the gather
    return whole[order]
