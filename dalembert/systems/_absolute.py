"""2 · systems: `AbsoluteSystem`, every body with its own coordinates, every joint as rows between two bodies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert._typing import Coordinates, Scalar, Velocities, is_traced
from dalembert.linalg import KLU, BlockMass, BlockPattern, Group, dense_of_blocks
from dalembert.systems._base import AbstractSystem, Family, RowOwner, renamed_owners, replace_by_name
from dalembert.systems._constraints import kind_of
from dalembert.systems._forces import Armature, angles_read
from dalembert.systems._frames import SPACES, Frame, back, cross, marker_frames, moment
from dalembert.systems._names import ANONYMOUS, Renaming, with_fields
from dalembert.systems._origin import Origin


class ForceFamily(eqx.Module):
    """Applied forces of one kind, for all members at once: `law.…` on the k marker frames of each."""

    kind: str = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    group: Group = eqx.field(static=True)
    law: Callable = eqx.field(static=True)
    p: dict[str, Array]
    joints: tuple[str, ...] = eqx.field(static=True, default=())  # of friction by load: whose load
    rule: str | None = eqx.field(static=True, default=None)  # and the rule that its element names

    gather = Family.gather

    def renamed(self, to: Renaming) -> ForceFamily:
        return with_fields(self, names=to.all(self.names), joints=to.all(self.joints))


@dataclass(frozen=True)
class JointView:
    """What is read off a joint: its two markers, whichever rows hold it."""

    name: str
    kind: str
    blocks: tuple[int, ...]
    family: int
    member: int
    coordinates: tuple[tuple[str, Callable], ...]


class AbsoluteSystem(AbstractSystem):
    """Absolute coordinates of all bodies [Wojtyra, Fraczek 2013, eq. 28].

    In the plane q = (x, y, θ) and v = q̇ for each body. In space q = (position, unit quaternion) and v = (ṙ in
    the world frame, ω in the body frame). M is then constant and block-diagonal, unless armatures couple bodies.
    Cost: linear in the bodies when sparse. Made by `da.build(model)`.
    """

    masses: Float[Array, " nb"]
    inertias: Float[Array, "nb dw dw"]
    gravity: Float[Array, " d"]

    families: tuple[Family, ...]
    forces: tuple[ForceFamily, ...]
    q0: Coordinates
    v0: Velocities
    size: Float[Array, ""]
    klu: KLU | None
    space: str = eqx.field(static=True)
    body_names: tuple[str, ...] = eqx.field(static=True)
    joints: tuple[JointView, ...] = eqx.field(static=True)
    pattern: BlockPattern = eqx.field(static=True)
    m_holonomic: int = eqx.field(static=True)
    owners: tuple[RowOwner, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)
    load_rule: Any = None  # what picks the loads that friction asks for, where they are not unique
    loads_decided: bool = eqx.field(static=True, default=False)  # that they are unique, or picked by `load_rule`
    shapes: tuple[tuple[int, str], ...] = eqx.field(static=True, default=())  # pictures of bodies, as JSON
    origin: Origin = eqx.field(static=True, default=Origin())  # the model it was built from

    @property
    def bearings(self) -> tuple[ForceFamily, ...]:
        """The force families that depend on the load of a joint."""
        return tuple(f for f in self.forces if f.joints)

    @property
    def armatures(self) -> tuple[ForceFamily, ...]:
        """The families that put inertia on joint coordinates."""
        return tuple(f for f in self.forces if isinstance(f.law, Armature))

    @property
    def wound(self):
        return tuple(n for f in self.forces for n in f.names for _ in range(angles_read(f.law, self.space)))

    def windings(self, t, q):
        places, found = self.places(q), [jnp.zeros(0)]
        for f in self.forces:
            law: Any = f.law
            if angles_read(law, self.space):
                one = jax.vmap(lambda at, p, law=law: law.windings(t, marker_frames(self.space, at, p), p))
                found.append(one(f.gather(places), f.p).ravel())
        return jnp.concatenate(found)

    @property
    def constant_mass(self) -> bool:
        return not self.armatures

    @property
    def sided(self):
        return tuple(
            (name, int(rows[0]))
            for f in self.families
            if "side" in f.p
            for name, rows in zip(f.names, f.group.rows, strict=True)
        )

    def with_sides(self, sides):
        return self.with_named_sides(sides, dict(self.sided))

    def with_named_sides(self, sides, rows: dict[str, int]) -> AbsoluteSystem:
        """The same with the entry of `sides` that stands for each name."""
        families = list(self.families)
        for k, f in enumerate(families):
            if "side" in f.p:
                own = sides[np.array([rows[name] for name in f.names])]
                families[k] = dataclasses.replace(f, p=f.p | {"side": own})
        return eqx.tree_at(lambda s: s.families, self, tuple(families), is_leaf=lambda x: isinstance(x, Family))

    @property
    def kinematics(self):
        """`Plane` or `Space`: what depends on the dimension."""
        return SPACES[self.space]

    @property
    def scleronomic(self):
        # drivers and the user's own rows may hold time; joints and couplings do not
        return all(f.kind.startswith("coupling:") or kind_of(self.space, f.kind) is not None for f in self.families)

    @property
    def dq(self) -> int:
        return self.kinematics.dq

    @property
    def dv(self) -> int:
        return self.kinematics.dv

    # ---- dynamics ----------------------------------------------------------------------------------------

    def mass(self, t, q):
        d, nb = self.kinematics.d, self.masses.shape[0]
        eye = jnp.eye(d)

        def blocks(m, I):
            corner = jnp.zeros((nb, d, I.shape[1]))
            top = jnp.concatenate([m[:, None, None] * eye, corner], axis=2)
            bottom = jnp.concatenate([corner.transpose(0, 2, 1), I], axis=2)
            return jnp.concatenate([top, bottom], axis=1)

        own = blocks(self.masses, self.inertias)
        if not self.armatures:
            return BlockMass(own, blocks(1.0 / self.masses, _small_inverse(self.inertias)))
        G, inertia = self.armature_rows(self.places(q))
        G = G.reshape(len(G), -1)
        return BlockMass.dense_one(dense_of_blocks(own) + G.T @ (inertia[:, None] * G))

    def armature_rows(self, places) -> tuple[Float[Array, "r nb dv"], Float[Array, " r"]]:
        """G with ȧ = G v of all coordinates that have an armature, and its inertias; places with the ground's last."""
        K, nb = self.kinematics, self.masses.shape[0]
        rows, inertias = [], []
        for f in self.armatures:
            G = jax.vmap(lambda at, p, law=f.law: law.directions(K, at, p))(f.gather(places), f.p)
            count, r = G[0].shape[:2]
            whole = jnp.zeros((count, r, nb + 1, K.dv))
            for slot, part in enumerate(G):
                whole = whole.at[jnp.arange(count), :, f.group.columns[:, slot]].add(part)
            rows.append(whole[:, :, :-1].reshape(count * r, nb, K.dv))
            inertias.append(jnp.repeat(jnp.asarray(f.p["inertia"]), r))
        return jnp.concatenate(rows), jnp.concatenate(inertias)

    def force(self, t, q, v):
        places = self.places(q)
        return self.force_on(t, places, self.twists(places, v), v.reshape(-1, self.dv)).ravel()

    def force_on(self, t, places, twists, v: Float[Array, "nb dv"]) -> Float[Array, "nb dv"]:
        """h of bodies at given places and with given motion, a row a body."""
        K = self.kinematics
        nb = self.masses.shape[0]
        weight = self.masses[:, None] * self.gravity
        spin = jnp.zeros((nb, K.dw))
        if K.d == 3:
            w = v[:, 3:]
            spin = -jnp.cross(w, jnp.sum(self.inertias * w[:, None, :], axis=-1))
        shares = jnp.concatenate([weight, spin], axis=1)
        if not self.forces:
            return shares
        table = jnp.concatenate([v, jnp.zeros((1, K.dv))])
        shares = jnp.concatenate([shares, jnp.zeros((1, K.dv))])
        for f in self.forces:
            one = jax.vmap(lambda at, motion, u, p, law=f.law: self.force_shares(law, t, at, motion, u, p))
            out = one(f.gather(places), f.gather(twists), f.gather(table), self.force_numbers(f))
            for k, share in enumerate(out):
                shares = shares.at[f.group.columns[:, k]].add(share)
        return shares[:-1]

    def mass_mv(self, places, x: Float[Array, "nb dv"]) -> Float[Array, "nb dv"]:
        """M x of bodies at given places (ground last), a row a body."""
        d = self.kinematics.d
        turning = jnp.sum(self.inertias * x[:, None, d:], axis=-1)
        own = jnp.concatenate([self.masses[:, None] * x[:, :d], turning], axis=1)
        if not self.armatures:
            return own
        G, inertia = self.armature_rows(places)
        return own + jnp.tensordot(inertia * jnp.tensordot(G, x, 2), G, 1)

    def force_shares(self, law, t, places, twists, u, p) -> list[Float[Array, " dv"]]:
        """One force element → the share of each of its bodies in h."""
        K = self.kinematics
        if hasattr(law, "generalised"):
            return law.generalised(K, jnp.asarray(t, float), places, u, p)
        frames = marker_frames(self.space, places, p, twists)
        out = []
        for body, frame, (force, torque) in zip(places, frames, law(t, frames, p), strict=True):
            out.append(K.generalised(body, force, torque + moment(frame.p - body.p, force)))
        return out

    def force_numbers(self, f: ForceFamily) -> dict[str, Array]:
        """The numbers of a force family; a law that weighs its body gets its mass besides."""
        if getattr(f.law, "weighs", False):
            return f.p | {"mass": self.masses[f.group.columns[:, 0]]}
        return f.p

    def potential(self, t, q):
        return self.potential_at(t, self.places(q))

    def potential_at(self, t, places):
        """The stored energy of bodies at given places (ground last)."""
        total = -jnp.sum(self.masses[:, None] * places.p[:-1] * self.gravity)
        for f in self.forces:
            if hasattr(f.law, "potential"):
                one = jax.vmap(lambda at, p, law=f.law: law.potential(t, marker_frames(self.space, at, p), p))
                total = total + jnp.sum(one(f.gather(places), self.force_numbers(f)))
        return total

    # ---- kinematics --------------------------------------------------------------------------------------

    def block_qdot(self, x, u):
        return self.kinematics.qdot(x, u)

    def block_retract(self, x, delta):
        return self.kinematics.retract(x, delta)

    def block_place(self, x):
        return self.kinematics.place(x)

    def block_twist(self, place, u):
        return self.kinematics.twist(place, u)

    def block_rate(self, place, twist):
        return self.kinematics.rate(place, twist)

    def block_bias(self, place, twist):
        return self.kinematics.bias(place, twist)

    def fixed_block(self):
        return jnp.zeros(self.dq).at[3].set(1.0) if self.space == "space" else jnp.zeros(self.dq)

    def scale(self):
        K = self.kinematics
        one = jnp.concatenate([jnp.full(K.d, 1.0) * self.size, jnp.ones(K.dw)])
        return jnp.tile(one, self.masses.shape[0])

    def coordinate_scale(self):
        K = self.kinematics
        one = jnp.concatenate([jnp.full(K.d, 1.0) * self.size, jnp.ones(K.dq - K.d)])
        return jnp.tile(one, self.masses.shape[0])

    def joint(self, name: str) -> JointView:
        return next(j for j in self.joints if j.name == name)

    def joint_frames(self, joint: JointView, q: Coordinates) -> list[Frame]:
        """The marker frames of a joint at q."""
        places = self.places(q)
        p = jax.tree_util.tree_map(lambda a: a[joint.member], self.families[joint.family].p)
        at = [jax.tree_util.tree_map(lambda a, k=k: a[k], places) for k in joint.blocks]
        return marker_frames(self.space, at, p)

    def j_is_ground(self, family: Family) -> np.ndarray:
        """Of which members the second block is the ground."""
        return family.group.columns[:, -1] == len(self.body_names)

    def joint_axes(self, family: Family) -> Callable | None:
        """What gives the joint frame of a family's members from their marker frames, where it is not marker i's."""
        kind = kind_of(self.space, family.kind)
        return None if kind is None else kind.axes

    def wrench_on_j(self, places, p, share, on_i, axes: Callable | None = None):
        """A member's share of a generalised force → force and torque on body j at marker j, and the joint's axes.

        `on_i` where j, the last of its bodies, is the ground, which has no share: it bears what the others do not.
        """
        K = self.kinematics
        frames = marker_frames(self.space, places, p)
        point = frames[-1].p
        force, torque = K.wrench(places[-1], point, share[-1])
        if len(places) > 1:
            # internal forces are opposite and have the same moment about any point
            others = [K.wrench(place, point, own) for place, own in zip(places[:-1], share[:-1], strict=True)]
            force_i, torque_i = (sum(x[1:], x[0]) for x in zip(*others, strict=True))
            force, torque = jnp.where(on_i, -force_i, force), jnp.where(on_i, -torque_i, torque)
        return force, torque, frames[0].R if axes is None else axes(frames)

    def relative_twist(self, places, p, twists) -> Float[Array, " w"]:
        """How marker j moves as seen from marker i, along i's axes: velocity, then angular velocity."""
        i, j = marker_frames(self.space, places, p, twists)
        assert i.v is not None and j.v is not None and i.w is not None and j.w is not None
        turning = j.w - i.w
        moving = back(i.R, j.v - i.v - cross(i.w, j.p - i.p))
        return jnp.concatenate([moving, turning[None] if self.kinematics.d == 2 else back(i.R, turning)])

    # ---- parameters --------------------------------------------------------------------------------------

    def _slots(self) -> dict[str, tuple]:
        slots: dict[str, tuple] = {"gravity": (Leaf(lambda s: s.gravity),)}
        for k, name in enumerate(self.body_names):
            slots[f"{name}.mass"] = (Leaf(lambda s: s.masses, k, positive=True),)
            # in the plane the (1, 1) tensor is one number
            index = (k, 0, 0) if self.space == "plane" else k
            slots[f"{name}.inertia"] = (Leaf(lambda s: s.inertias, index, positive=True),)
        for group, word in ((self.families, "families"), (self.forces, "forces")):
            for f, family in enumerate(group):
                for key in family.p:
                    if key == "side":  # follows the load
                        continue
                    for member, name in enumerate(family.names):
                        leaf = Leaf(lambda s, w=word, f=f, key=key: getattr(s, w)[f].p[key], member)
                        slots[f"{name}.{key}"] = (*slots.get(f"{name}.{key}", ()), leaf)
        return slots

    def parameters(self):
        return {name: slots[0].get(self) for name, slots in self._slots().items()}

    def replace(self, values):
        return replace_by_name(self, values, self._slots())

    # ---- names -------------------------------------------------------------------------------------------

    def names(self):
        rule = () if self.load_rule is None else self.load_rule.names()
        forces = (n for f in self.forces for n in (*f.names, *f.joints))
        return (*super().names(), *self.body_names, *(j.name for j in self.joints), *forces, *rule)

    def renamed(self, to):
        rule = None if self.load_rule is None else self.load_rule.renamed(to)
        if rule is None and self.load_rule is not None:
            return None
        return with_fields(
            self,
            name=ANONYMOUS,
            body_names=to.all(self.body_names),
            joints=to.once(self.joints, lambda joints: tuple(replace(j, name=to(j.name)) for j in joints)),
            owners=renamed_owners(self.owners, to),
            families=tuple(f.renamed(to) for f in self.families),
            forces=tuple(f.renamed(to) for f in self.forces),
            load_rule=rule,
            shapes=(),  # pictures are for those who stay outside
        )


@dataclass(frozen=True)
class Leaf:
    """One named number in the system's tree: an array, or one entry of a stacked array."""

    where: Callable
    index: int | tuple[int, ...] | None = None
    positive: bool = False  # a tensor: positive definite

    def get(self, system):
        array = jnp.asarray(self.where(system))
        return array if self.index is None else array[self.index]

    def set(self, system, value):
        array = self.where(system)
        if is_traced(value, array):
            array = jnp.asarray(array)
            new = jnp.broadcast_to(value, array.shape) if self.index is None else array.at[self.index].set(value)
        else:  # plain numbers: no JAX operation, so nothing to compile
            new = np.array(array, copy=True)
            new[... if self.index is None else self.index] = value
        return eqx.tree_at(self.where, system, new)


def _small_inverse(I: Float[Array, "nb k k"]) -> Float[Array, "nb k k"]:
    """Inverses of symmetric 1 × 1 or 3 × 3 blocks by cofactors: no LAPACK call inside the march."""
    if I.shape[-1] == 1:
        return 1.0 / I
    c0, c1, c2 = (jnp.cross(I[:, 1], I[:, 2]), jnp.cross(I[:, 2], I[:, 0]), jnp.cross(I[:, 0], I[:, 1]))
    determinant = jnp.sum(I[:, 0] * c0, axis=-1)
    return jnp.stack([c0, c1, c2], axis=2) / determinant[:, None, None]


@dataclass(frozen=True)
class MarkerRows:
    """Row functions on two marker frames → row functions on the blocks of a family."""

    space: str
    rows: Callable
    listed: bool = False  # user's rows get the frames as a list

    def __call__(self, t: Scalar, places, *twists_and_p):
        *twists, p = twists_and_p
        frames = marker_frames(self.space, places, p, *twists)
        return self.rows(t, frames, p) if self.listed else self.rows(t, *frames, p)
