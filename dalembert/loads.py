"""3 · loads: friction by a joint's own load, found together with the reactions that make the load.

    M v̇ = h + Cᵀλ + G s        C v̇ = Γ        s_k = N_k(w_k),  w_k the wrench of joint k, linear in λ

A column of G is the friction of one bearing for a unit load. v̇ and λ are linear in the loads s, so one factorisation
with K + 1 right-hand sides gives w(s) = w⁰ + A s, and what remains is s = N(w⁰ + A s), K equations for K bearings:
Newton's iteration, or fixed-point steps where better. For modest friction the right-hand side contracts and s is
the one solution. Where friction is so strong that det(1 − ∂N/∂s) is no longer positive, rigid bodies with Coulomb
friction have no solution or several [Painlevé 1895]: `settled` is then false and the force is NaN, which ends a march
with a message. Derivatives go through the equation, not through the iteration.

λ is that of the system's `load_rule`, or any where the loads are unique, which `reactions.decide_loads` determines.
Γ is that of the constraints: what a stabilisation adds to it does not contribute to the loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert._typing import Array, Rows, Velocities
from dalembert.systems import BodySystem

if TYPE_CHECKING:
    from dalembert.equations import Equations

ITERATIONS = 60
"""Most iterations; Newton takes three or four, more only where fixed-point steps are needed."""
CLOSED = 1e-13
"""Relative change of the loads at which the iteration ends; `settled` requires 100 times this."""


class Loads(eqx.Module):
    """The loads of all bearings in the order of `names_of`, and the friction force that they make."""

    load: Float[Array, " K"]
    force: Velocities
    gap: Float[Array, " K"]  # residual s − N(s)
    settled: Bool[Array, ""]
    margin: Float[Array, ""]  # det(1 − ∂N/∂s): 1 without friction, 0 where rigid bodies have no solution
    lam: Rows  # the multipliers, friction included
    growth: Float[Array, "K K"]  # ∂N/∂s

    def culprit(self) -> int:
        """The bearing that keeps the loads from converging: by the residual, or by the share of its own load in the
        direction in which loads grow without bound; on the host."""
        gap, load = np.asarray(self.gap), np.asarray(self.load)
        if not np.max(gap) <= 100 * CLOSED * np.max(np.abs(load)):
            return int(np.argmax(gap))
        values, vectors = np.linalg.eig(np.eye(len(load)) - np.asarray(self.growth))
        return int(np.argmax(np.abs(vectors[:, np.argmin(np.real(values))])))


def bearing_names(system: BodySystem) -> list[str]:
    """The bearings, in the order of `Loads.load`."""
    return [name for f in system.bearings for name in f.names]


def solve_loads(system: BodySystem, equations: Equations) -> Loads:
    """Loads and friction at one instant; `equations` are those without this friction."""
    G = _per_load(system, equations)
    lam = _multipliers(system, equations, G)
    W = _wrenches(system, equations, lam)
    families = system.bearings
    starts = np.cumsum([0, *(len(f.names) for f in families)])

    def normal_load(s, W):
        w = W[:, 0] + jnp.einsum("kls,l->ks", W[:, 1:], s)
        out = []
        for f, start in zip(families, starts, strict=False):
            out.append(jax.vmap(f.law.load)(w[start : start + len(f.names)], f.p))
        return jnp.concatenate(out)

    without = normal_load(jnp.zeros(len(G)), W)
    typical = jax.lax.stop_gradient(jnp.max(without))
    s = jax.lax.custom_root(
        lambda s: s - normal_load(s, W),
        jax.lax.stop_gradient(without),
        lambda gap, s: _iterate(gap, s, typical),
        lambda linear, y: jnp.linalg.solve(jax.jacfwd(linear)(jnp.zeros_like(y)), y),
    )
    held = jax.lax.stop_gradient((s, W))
    gap = jnp.abs(held[0] - normal_load(*held))
    growth = jax.jacfwd(normal_load)(*held)
    margin = jnp.linalg.det(jnp.eye(len(G)) - growth)
    size = jnp.maximum(typical, jnp.max(held[0]))
    settled = (jnp.max(gap) <= 100 * CLOSED * size) & (margin > 0)
    return Loads(s, jnp.where(settled, s, jnp.nan) @ G, gap, settled, margin, lam[:, 0] + lam[:, 1:] @ s, growth)


def _iterate(gap, s, typical):
    """Newton's step or a fixed-point step, whichever has the smaller residual."""

    def size(x):
        return jnp.max(jnp.abs(x))

    def going(state):
        k, s, left = state
        return (k < ITERATIONS) & (left > CLOSED * jnp.maximum(typical, size(s)))

    def step(state):
        k, s, _ = state
        value = gap(s)
        newton, plain = s - jnp.linalg.solve(jax.jacfwd(gap)(s), value), s - value
        left, left_plain = size(gap(newton)), size(gap(plain))
        better = left < left_plain  # False for a NaN
        return k + 1, jnp.where(better, newton, plain), jnp.where(better, left, left_plain)

    return jax.lax.while_loop(going, step, (jnp.zeros((), int), s, size(gap(s))))[1]


def _per_load(system: BodySystem, equations: Equations) -> Float[Array, "K n"]:
    """G, one row per bearing."""
    K = system.kinematics
    places = system.places(equations.q)
    table = jnp.concatenate([equations.v.reshape(-1, K.dv), jnp.zeros((1, K.dv))])
    out = []
    for f in system.bearings:
        one = jax.vmap(lambda at, u, p, law=f.law: law.per_load(K, at, u, p))
        shares = jnp.zeros((len(f.names), *table.shape))
        for k, share in enumerate(one(f.gather(places), f.gather(table), f.p)):
            shares = shares.at[np.arange(len(f.names)), f.group.columns[:, k]].add(share)
        out.append(shares[:, :-1].reshape(len(f.names), -1))
    return jnp.concatenate(out)


def _multipliers(system: BodySystem, equations: Equations, G) -> Float[Array, "m columns"]:
    """λ without friction, and for each bearing what a unit of its load adds."""
    a = jnp.concatenate([equations.h[:, None], G.T], axis=1)
    g = jnp.concatenate([equations.Gamma[:, None], jnp.zeros((system.m, len(G)))], axis=1)
    x, lam = equations.factorise().solve_many(a, g)
    rule = system.load_rule
    if rule is None:
        return lam
    r = jax.vmap(equations.mass.mv, 1, 1)(x) - a
    return jax.vmap(lambda r: rule.multipliers(system, equations, r), 1, 1)(r)


def _wrenches(system: BodySystem, equations: Equations, lam) -> Float[Array, "K columns w"]:
    """The wrenches of the bearings' joints along their own axes, for each column of λ."""
    K = system.kinematics
    places = system.places(equations.q)
    joints = [joint for f in system.bearings for joint in f.joints]
    W = jnp.zeros((len(joints), lam.shape[1], K.d + K.dw))  # a joint whose rows are all eliminated has no load
    for family, blocks in zip(system.families, equations.rows.member_blocks(), strict=True):
        pairs = [(k, family.names.index(joint)) for k, joint in enumerate(joints) if joint in family.names]
        if not pairs:
            continue
        bearing, member = (np.array(x) for x in zip(*pairs, strict=True))
        columns = family.group.columns[member]
        at = [jax.tree_util.tree_map(lambda a, k=k: a[k], places) for k in columns.T]
        p = {key: x[member] for key, x in family.p.items()}
        shares = jnp.einsum("crkd,crs->cskd", blocks[member], lam[family.group.rows[member]])

        def one(at, p, shares, on_i):
            def wrench(share):
                force, torque, R = system.wrench_on_j(at, p, share, on_i)
                return jnp.concatenate([R.T @ force, torque if K.d == 2 else R.T @ torque])

            return jax.vmap(wrench)(shares)

        W = W.at[bearing].set(jax.vmap(one)(at, p, shares, columns[:, -1] == len(system.body_names)))
    return W
