"""5c· reactions: from λ to forces and torques at the joints, and to those on one body."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from dalembert._typing import Array, Rows
from dalembert.equations import Equations
from dalembert.systems import BodySystem


class Wrenches(eqx.Module):
    """Reactions of all joints at one instant, in the order of `system.joints`."""

    force: Float[Array, "joints d"]
    torque: Float[Array, "joints dw"]
    joint_force: Float[Array, "joints d"]
    joint_torque: Float[Array, "joints dw"]


def joint_wrenches(system: BodySystem, equations: Equations, lam: Rows) -> Wrenches:
    """Force and torque on body j of each joint, at marker j, in world axes and in marker i's axes; of a contact that
    slides with its friction."""
    K = system.kinematics
    places = system.places(equations.q)
    rubbed = system.sliding_shares(places, equations.v)
    found: dict[str, tuple] = {}
    for family, block in zip(system.families, equations.rows.member_blocks(), strict=True):
        shares = jnp.sum(block * lam[family.group.rows][:, :, None, None], axis=1)  # (count, k, dv)

        for k, name in enumerate(family.names):
            if name in rubbed:  # for each newton of its push
                shares = shares.at[k].add(lam[family.group.rows[k, 0]] * rubbed[name])
        axes = family.axes

        def one(at, p, share, on_i, axes=axes):
            force, torque, R = system.wrench_on_j(at, p, share, on_i, axes)
            local_torque = torque if K.d == 2 else R.T @ torque
            return force, torque, R.T @ force, local_torque

        out = jax.vmap(one)(family.gather(places), family.p, shares, system.j_is_ground(family))
        for k, name in enumerate(family.names):
            found[name] = tuple(a[k] for a in out)
    if not found:
        return Wrenches(*(jnp.zeros((0, s)) for s in (K.d, K.dw, K.d, K.dw)))
    return Wrenches(*(jnp.stack([found[j.name][k] for j in system.joints]) for k in range(4)))


def wrenches_on_body(system: BodySystem, equations: Equations, body: int, joint: str) -> Float[Array, "w r"]:
    """The wrench on a body, at its own marker of a joint, along its own axes, for λ = 1 of each of the joint's rows."""
    K = system.kinematics
    view = system.joint(joint)
    slot = view.blocks.index(body)
    place = jax.tree_util.tree_map(lambda a: a[body], system.places(equations.q))
    point = system.joint_frames(view, equations.q)[slot].p
    shares = equations.rows.member_blocks()[view.family][view.member, :, slot]

    def row(share):
        force, torque = K.wrench(place, point, share)
        return jnp.concatenate([place.R.T @ force, torque if K.d == 2 else place.R.T @ torque])

    return jax.vmap(row)(shares).T
