"""2 · systems: `TreeSystem`, joint coordinates along a spanning tree; what closes loops stays rows between bodies.

Every joint of the tree is a chain of links, each a turn about and a slide along its z axis (a revolute, a slider, a
screw), or a ball. With the links' spatial axes S (angular, linear, about a point c near the machine), and L the table
that says which axis moves which body (static, from the tree),

    twists V = L (S u)        biases J̇u = L ((V × S) u)        M_ij = Sᵢᵀ I_j^c Sⱼ  (i above j)

where I_j^c is the inertia of all that hangs on axis j (composite bodies). Only poses need a recursion, and they are
found by doubling: each link's pose against its parent's parent's … parent, log₂(depth) times. So nothing here grows
with the number of bodies but array sizes. Forces and rows are those of the absolute system, carried over by
v_abs = J u:

    h = Jᵀ(h_abs − M_abs J̇u)        C = C_abs J        Γ = Γ_abs − C_abs J̇u
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert._typing import Coordinates, Velocities
from dalembert.linalg import BlockMass, BlockPattern
from dalembert.systems._absolute import AbsoluteSystem, Leaf
from dalembert.systems._base import AbstractSystem, Family, RowOwner, renamed_owners, replace_by_name
from dalembert.systems._frames import Place, Space, Twist, cross
from dalembert.systems._names import ANONYMOUS, Renaming, with_fields


class Tree:
    """Who hangs on whom; static, compared by content, hashed once.

    Links are numbered so that a parent comes before its children. `parents[k]` is the link that carries link k (or
    −1), `bodies[b]` the link that is body b. A ball has three velocities, a weld none, every other link one.
    Joints that are `backward` are carried by their body j.
    """

    def __init__(
        self,
        parents,
        kinds: Sequence[str],
        moves: Sequence[bool],
        bodies,
        joints: Sequence[str],
        backward: Sequence[str] = (),
    ):
        self.parents = np.asarray(parents, int)
        self.kinds, self.moves = tuple(kinds), tuple(bool(x) for x in moves)
        self.bodies = np.asarray(bodies, int)
        self.joints = tuple(joints)  # for each link, the joint it belongs to (a free body's own name)
        self.backward = frozenset(backward)
        self.carrying = {self.joints[k]: b for b, k in enumerate(self.bodies)}  # of each joint, the body it carries
        count = len(self.parents)
        self.count = count
        self.ball = np.array([k == "ball" for k in kinds], bool).reshape(count)
        # coordinates and velocities: where each link's numbers stand in q and v; one past the end means none
        q_sizes = [4 if b else int(m) for b, m in zip(self.ball, self.moves, strict=True)]
        v_sizes = [3 if b else int(m) for b, m in zip(self.ball, self.moves, strict=True)]
        self.nq, self.nv = sum(q_sizes), sum(v_sizes)
        self.q_index = self._index(q_sizes, 4, self.nq)
        self.v_index = self._index(v_sizes, 3, self.nv)
        self.q_start = np.concatenate([[0], np.cumsum(q_sizes)]).astype(int)
        self.v_start = np.concatenate([[0], np.cumsum(v_sizes)]).astype(int)
        # for each velocity: its link, and which of the link's axes it is
        self.link_of = np.repeat(np.arange(count), v_sizes)
        self.axis_of = np.concatenate([np.arange(s) for s in v_sizes]).astype(int) if count else np.zeros(0, int)
        above = np.zeros((count, count), bool)  # above[i, k]: link i is k or carries it
        for k, parent in enumerate(self.parents):
            above[k, k] = True
            if parent >= 0:
                above[:, k] |= above[:, parent]
        self.above = above
        self.moved_by = above[self.link_of][:, self.bodies].T.astype(float)  # (bodies, velocities)
        self.axes_above = above[np.ix_(self.link_of, self.link_of)]
        self.jumps = self._jumps()
        # q̇ is picked from (v, 0, the balls' quaternion rates), and each quaternion scaled by its own length
        self.balls = np.flatnonzero(self.ball)
        self.rate_of = np.full(self.nq, self.nv)
        self.ball_of = np.full(self.nq, len(self.balls))
        straight = np.flatnonzero(np.array(self.moves, bool) & ~self.ball)
        self.rate_of[self.q_index[straight, 0]] = self.v_index[straight, 0]
        quaternions = self.q_index[self.balls]
        self.rate_of[quaternions] = self.nv + 1 + np.arange(quaternions.size).reshape(quaternions.shape)
        self.ball_of[quaternions] = np.arange(len(self.balls))[:, None]
        self._set_key()

    def _set_key(self) -> None:
        key = (self.parents.tobytes(), self.kinds, self.moves, self.bodies.tobytes(), self.joints, self.backward)
        self._key, self._hash = key, hash(key)

    def renamed(self, to: Renaming) -> Tree:
        """The same tree under other names; its tables are shared."""
        other = copy.copy(self)
        other.joints, other.backward = to.all(self.joints), frozenset(to.all(self.backward))
        other.carrying = {to(name): body for name, body in self.carrying.items()}
        other._set_key()
        return other

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other) -> bool:
        return self is other or (isinstance(other, Tree) and self._key == other._key)

    @staticmethod
    def _index(sizes, width: int, none: int) -> np.ndarray:
        table, start = np.full((len(sizes), width), none), 0
        for k, size in enumerate(sizes):
            table[k, :size] = np.arange(start, start + size)
            start += size
        return table

    def _jumps(self) -> list[np.ndarray]:
        """Parent, grandparent, four up, …: until all have reached the ground (number `count`)."""
        jump = np.where(self.parents < 0, self.count, self.parents)
        out = []
        while np.any(jump < self.count):
            out.append(jump)
            jump = np.append(jump, self.count)[jump]
        return out


class Chains(NamedTuple):
    """Poses of all links, their axes, and where the bodies are."""

    R: Float[Array, "links 3 3"]
    p: Float[Array, "links 3"]
    centre: Float[Array, " 3"]
    S: Float[Array, "n 6"]  # of each velocity: angular, linear at `centre`


class Carried(NamedTuple):
    """The bodies' absolute motion that u makes: places and twists (ground last), velocities and J̇u as (bodies, dv)."""

    chains: Chains
    places: Place
    twists: Twist
    v: Float[Array, "bodies dv"]
    bias: Float[Array, "bodies dv"]


class TreeSystem(AbstractSystem):
    """Joint coordinates of a spanning tree, with the joints that close loops as rows. Dense, one block.

    q holds the tree joints' coordinates (angles, displacements, unit quaternions for balls and free bodies), v their
    rates (for a ball ω of j against i along marker j's axes; for a free body (ṙ world, ω body)).
    Made by `da.build(model, coordinates="joint")`; `carrier` is the absolute system of the same bodies and forces with
    the cut joints' rows, `absolute` the one with all joints' rows, in which reactions are stated.
    """

    carrier: AbsoluteSystem
    absolute: AbsoluteSystem
    links: dict[str, Array]  # of each link: point_i, frame_i, point_j, frame_j, turn, slide
    q0: Coordinates
    v0: Velocities
    tree: Tree = eqx.field(static=True)
    pattern: BlockPattern = eqx.field(static=True)
    m_holonomic: int = eqx.field(static=True)
    owners: tuple[RowOwner, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)
    coordinate_names: tuple[str, ...] = eqx.field(static=True)
    families: tuple[Family, ...]  # none: rows are seen through the carrier
    klu: None

    @property
    def scleronomic(self) -> bool:
        return self.carrier.scleronomic

    @property
    def machine(self) -> AbsoluteSystem:
        return self.absolute

    @property
    def wound(self):
        return self.absolute.wound

    def windings(self, t, q):
        return self.absolute.windings(t, self.lift(q, jnp.zeros(self.n))[0])

    @property
    def sided(self):
        return self.absolute.sided

    def with_sides(self, sides):
        rows = dict(self.sided)
        return replace(
            self,
            carrier=self.carrier.with_named_sides(sides, rows),
            absolute=self.absolute.with_named_sides(sides, rows),
        )

    @property
    def dq(self) -> int:
        return self.tree.nq

    @property
    def dv(self) -> int:
        return self.tree.nv

    @property
    def size(self):
        return self.carrier.size

    @property
    def body_names(self) -> tuple[str, ...]:
        return self.carrier.body_names

    @property
    def space(self) -> str:
        return self.carrier.space

    # ---- kinematics --------------------------------------------------------------------------------------

    def chains(self, q: Coordinates) -> Chains:
        """Poses by doubling, then the axes."""
        tree, at = self.tree, self.links
        x = jnp.append(q, 0.0)[tree.q_index]  # (links, 4)
        turned = jax.vmap(_turned)(x[:, 0] * at["turn"])
        if np.any(tree.ball):
            unit = jnp.where(tree.ball[:, None], x, jnp.array([1.0, 0.0, 0.0, 0.0]))
            turned = jnp.where(tree.ball[:, None, None], jax.vmap(_rotation)(unit), turned)
        slid = jnp.where(tree.ball, 0.0, x[:, 0] * at["slide"])
        relative = at["frame_i"] @ turned @ jnp.swapaxes(at["frame_j"], 1, 2)
        shift = at["point_i"] + at["frame_i"][:, :, 2] * slid[:, None] - _apply(relative, at["point_j"])
        R, p = relative, shift
        for jump in tree.jumps:
            up_R = jnp.concatenate([R, jnp.eye(3)[None]])[jump]
            up_p = jnp.concatenate([p, jnp.zeros((1, 3))])[jump]
            R, p = up_R @ R, up_p + _apply(up_R, p)
        parent = np.where(tree.parents < 0, tree.count, tree.parents)
        R_parent = jnp.concatenate([R, jnp.eye(3)[None]])[parent]
        p_parent = jnp.concatenate([p, jnp.zeros((1, 3))])[parent]
        centre = jax.lax.stop_gradient(jnp.mean(p, axis=0))
        # axes: z of marker i, and for a ball the three axes of marker j, through the joint's point
        F_i = R_parent @ at["frame_i"]
        P = p_parent + _apply(R_parent, at["point_i"])
        F_j = R @ at["frame_j"]
        axes = jnp.where(tree.ball[:, None, None], jnp.swapaxes(F_j, 1, 2), F_i[:, None, :, 2])[
            tree.link_of, tree.axis_of
        ]
        turn = jnp.where(tree.ball, 1.0, at["turn"])[tree.link_of]
        slide = jnp.where(tree.ball, 0.0, at["slide"])[tree.link_of]
        angular = turn[:, None] * axes
        linear = slide[:, None] * axes + jnp.cross(angular, centre - P[tree.link_of])
        return Chains(R, p, centre, jnp.concatenate([angular, linear], axis=1))

    def body_places(self, q: Coordinates, chains: Chains) -> Place:
        """The bodies' places as the absolute system sees them, ground last."""
        tree = self.tree
        if self.space == "space":
            return self._frames(chains, None)
        # in the plane angles count full turns: the sum of all turns above a body
        turns = jnp.append(q, 0.0)[tree.q_index[:, 0]] * self.links["turn"] + self.links["start_angle"]
        return self._frames(chains, jnp.append(tree.above[:, tree.bodies].T.astype(float) @ turns, 0.0))

    def _frames(self, chains: Chains, angles) -> Place:
        """The bodies' frames, ground last; `angles` are those that the plane counts."""
        bodies = self.tree.bodies
        R = jnp.concatenate([chains.R[bodies], jnp.eye(3)[None]])
        p = jnp.concatenate([chains.p[bodies], jnp.zeros((1, 3))])
        if self.space == "space":
            return Place(p, R, jnp.zeros((len(p), 0)))
        return Place(p[:, :2], R[:, :2, :2], angles)

    def carried(self, q: Coordinates, u: Velocities) -> Carried:
        """The absolute motion of the bodies."""
        tree, chains = self.tree, self.chains(q)
        S = chains.S
        V_links = jnp.asarray(tree.above[tree.link_of].T.astype(float)) @ (S * u[:, None])
        V = V_links[tree.bodies]  # (bodies, 6)
        A = jnp.asarray(tree.moved_by) @ (_motion_cross(V_links[tree.link_of], S) * u[:, None])
        w, v = V[:, :3], _at_bodies(self, chains, V)
        alpha, a = A[:, :3], _at_bodies(self, chains, A) + jnp.cross(w, v)
        zero = jnp.zeros((1, 3))
        if self.space == "space":
            twists = Twist(jnp.concatenate([v, zero]), jnp.concatenate([w, zero]))
        else:
            twists = Twist(jnp.concatenate([v, zero])[:, :2], jnp.append(w[:, 2], 0.0))
        velocity, bias = self._absolute_rates(chains, v, w), self._absolute_rates(chains, a, alpha)
        return Carried(chains, self.body_places(q, chains), twists, velocity, bias)

    def accelerations(self, at: Carried, udot: Velocities) -> Float[Array, "bodies dv"]:
        """v̇_abs = J u̇ + J̇u."""
        return self.push_forward(at.chains, udot) + at.bias

    def push_forward(self, chains: Chains, u: Velocities) -> Float[Array, "bodies dv"]:
        """J u."""
        V = jnp.asarray(self.tree.moved_by) @ (chains.S * u[:, None])
        return self._absolute_rates(chains, _at_bodies(self, chains, V), V[:, :3])

    def _absolute_rates(self, chains: Chains, linear, angular) -> Float[Array, "bodies dv"]:
        """World rates of the bodies' centres and world angular rates → the absolute system's velocities."""
        if self.space == "space":
            return jnp.concatenate([linear, _back(chains.R[self.tree.bodies], angular)], axis=1)
        return jnp.concatenate([linear[:, :2], angular[:, 2:]], axis=1)

    def lift(self, q: Coordinates, u: Velocities) -> tuple[Coordinates, Velocities]:
        """The same state in the coordinates and velocities of `absolute`."""
        at = self.carried(q, u)
        bodies = jax.tree_util.tree_map(lambda a: a[:-1], at.places)
        return jax.vmap(self.absolute.kinematics.coordinates)(bodies).ravel(), at.v.ravel()

    def spatial_force(self, R, r, share):
        """A generalised force of one body's absolute velocities → a spatial force about the centre; r from there."""
        if self.space == "space":
            force, torque = share[:3], jnp.sum(R * share[3:], axis=1)
        else:
            force, torque = jnp.append(share[:2], 0.0), jnp.append(jnp.zeros(2), share[2])
        return jnp.concatenate([torque + cross(r, force), force])

    def pull_back(self, chains: Chains, shares: Float[Array, "bodies dv"]) -> Velocities:
        """Jᵀ x."""
        R, r = chains.R[self.tree.bodies], chains.p[self.tree.bodies] - chains.centre
        total = jnp.asarray(self.tree.moved_by).T @ jax.vmap(self.spatial_force)(R, r, shares)
        return jnp.sum(chains.S * total, axis=1)

    # ---- dynamics ----------------------------------------------------------------------------------------

    def mass_matrix(self, chains: Chains) -> Float[Array, "n n"]:
        """M by composite bodies."""
        tree = self.tree
        R, r = chains.R[tree.bodies], chains.p[tree.bodies] - chains.centre
        m, I = self.carrier.masses, self.carrier.inertias
        if self.space == "plane":
            I = I * jnp.diag(jnp.array([0.0, 0.0, 1.0]))  # only turning about z is ever asked for
        world = R @ I @ jnp.swapaxes(R, 1, 2)
        square = jnp.sum(r * r, axis=1)
        about = world + m[:, None, None] * (square[:, None, None] * jnp.eye(3) - r[:, :, None] * r[:, None, :])
        mr = m[:, None, None] * jax.vmap(_skew)(r)
        top = jnp.concatenate([about, mr], axis=2)
        bottom = jnp.concatenate([-mr, m[:, None, None] * jnp.eye(3)], axis=2)
        inertia = jnp.concatenate([top, bottom], axis=1)  # (bodies, 6, 6)
        hanging = jnp.asarray(tree.moved_by).T @ inertia.reshape(len(m), 36)  # on each axis
        momentum = jnp.sum(hanging.reshape(-1, 6, 6) * chains.S[:, None, :], axis=2)
        G = chains.S @ momentum.T  # Sᵢ · I_j^c Sⱼ
        above = tree.axes_above
        M = jnp.where(above, G, jnp.where(above.T, G.T, 0.0))
        if not self.carrier.armatures:
            return M
        # the rates that have an armature, in joint velocities: of a joint of the tree, one of them
        rows, inertia = self.carrier.armature_rows(self._frames(chains, jnp.zeros(len(tree.bodies) + 1)))
        own = jax.vmap(lambda shares: self.pull_back(chains, shares))(rows)
        return M + own.T @ (inertia[:, None] * own)

    def mass(self, t, q):
        return BlockMass.dense_one(self.mass_matrix(self.chains(q)))

    def force(self, t, q, v):
        return self.bias_force(t, self.carried(q, v))

    def bias_force(self, t, at: Carried) -> Velocities:
        """Jᵀ(h_abs − M_abs J̇u)."""
        carrier = self.carrier
        shares = carrier.force_on(t, at.places, at.twists, at.v) - carrier.mass_mv(at.places, at.bias)
        return self.pull_back(at.chains, shares)

    def potential(self, t, q):
        return self.carrier.potential_at(t, self.body_places(q, self.chains(q)))

    # ---- the interface of a system ------------------------------------------------------------------------

    def places(self, q):
        return self.body_places(q, self.chains(q))

    def position_residual(self, t, q):
        return self.carrier.position_rows(t, self.places(q))

    def motion_residual(self, t, q, v):
        at = self.carried(q, v)
        return self.carrier.motion_rows(t, at.places, at.twists)

    def block_qdot(self, x, u):
        tree = self.tree
        if not len(tree.balls):
            return u
        turns = jax.vmap(_quaternion_rate)(x[tree.q_index[tree.balls]], u[tree.v_index[tree.balls]])
        return jnp.concatenate([u, jnp.zeros(1), turns.ravel()])[tree.rate_of]

    def block_retract(self, x, delta):
        tree = self.tree
        y = x + self.block_qdot(x, delta)
        if not len(tree.balls):
            return y
        length = jnp.sqrt(jnp.sum(y[tree.q_index[tree.balls]] ** 2, axis=1))
        return y / jnp.append(length, 1.0)[tree.ball_of]

    def block_place(self, x):
        raise NotImplementedError("the rows of a tree are seen through its carrier")

    def block_twist(self, place, u):
        raise NotImplementedError("the rows of a tree are seen through its carrier")

    def block_rate(self, place, twist):
        raise NotImplementedError("the rows of a tree are seen through its carrier")

    def block_bias(self, place, twist):
        raise NotImplementedError("the rows of a tree are seen through its carrier")

    def fixed_block(self):
        return self.q0

    def scale(self):
        return jnp.where(self._slides()[self.tree.link_of], self.size, 1.0)

    def coordinate_scale(self):
        sizes = [4 if b else int(m) for b, m in zip(self.tree.ball, self.tree.moves, strict=True)]
        return jnp.where(np.repeat(self._slides(), sizes), self.size, 1.0)

    def _slides(self) -> np.ndarray:
        return np.array([k == "slide" for k in self.tree.kinds], bool)

    # ---- parameters --------------------------------------------------------------------------------------

    def _slots(self) -> dict[str, tuple]:
        whole = self.absolute._slots()
        slots = {
            name: (*(_leaf_of("carrier", x) for x in own), *(_leaf_of("absolute", x) for x in whole[name]))
            for name, own in self.carrier._slots().items()
        }
        ends: dict[str, list[int]] = {}
        for k, joint in enumerate(self.tree.joints):
            ends.setdefault(joint, []).append(k)
        part = slice(0, 3 if self.space == "space" else 2)
        for joint, links in ends.items():
            if joint in self.carrier.body_names:
                continue  # a free body has no markers
            near, far = ("point_j", "point_i") if joint in self.tree.backward else ("point_i", "point_j")
            for name, point, link in ((near, "point_i", links[0]), (far, "point_j", links[-1])):
                own = Leaf(lambda s, point=point: s.links[point], (link, part))
                slots[f"{joint}.{name}"] = (own, *(_leaf_of("absolute", x) for x in whole[f"{joint}.{name}"]))
        return slots

    def parameters(self):
        return {name: slots[0].get(self) for name, slots in self._slots().items()}

    def replace(self, values):
        return replace_by_name(self, values, self._slots())

    # ---- names -------------------------------------------------------------------------------------------

    def names(self):
        return (*super().names(), *self.absolute.names(), *self.carrier.names(), *self.tree.joints)

    def renamed(self, to):
        carrier, absolute = self.carrier.renamed(to), self.absolute.renamed(to)
        if carrier is None or absolute is None:
            return None
        return with_fields(
            self,
            name=ANONYMOUS,
            carrier=carrier,
            absolute=absolute,
            tree=to.once(self.tree, lambda tree: tree.renamed(to)),
            owners=renamed_owners(self.owners, to),
            coordinate_names=(ANONYMOUS,) * len(self.coordinate_names),
        )


def _leaf_of(part: str, leaf: Leaf) -> Leaf:
    """A leaf of one of the two absolute systems as a leaf of the tree."""
    return replace(leaf, where=lambda s: leaf.where(getattr(s, part)))


def _at_bodies(system: TreeSystem, chains: Chains, V) -> Float[Array, "bodies 3"]:
    """Linear parts of the bodies' spatial rates at their centres of mass."""
    r = chains.p[system.tree.bodies] - chains.centre
    return V[:, 3:] + jnp.cross(V[:, :3], r)


def _quaternion_rate(quaternion, w):
    return Space.qdot(jnp.concatenate([jnp.zeros(3), quaternion]), jnp.concatenate([jnp.zeros(3), w]))[3:]


def _turned(angle):
    c, s = jnp.cos(angle), jnp.sin(angle)
    zero, one = jnp.zeros(()), jnp.ones(())
    return jnp.stack([c, -s, zero, s, c, zero, zero, zero, one]).reshape(3, 3)


def _rotation(quaternion):
    return Space.place(jnp.concatenate([jnp.zeros(3), quaternion])).R


def _apply(R, s):
    return jnp.sum(R * s[:, None, :], axis=2)


def _back(R, a):
    return jnp.sum(R * a[:, :, None], axis=1)


def _skew(r):
    zero = jnp.zeros(())
    return jnp.stack([zero, -r[2], r[1], r[2], zero, -r[0], -r[1], r[0], zero]).reshape(3, 3)


def _motion_cross(V, S):
    """V × S for spatial motions (angular, linear)."""
    w, v = V[:, :3], V[:, 3:]
    return jnp.concatenate([jnp.cross(w, S[:, :3]), jnp.cross(w, S[:, 3:]) + jnp.cross(v, S[:, :3])], axis=1)


# ---- how a joint becomes links -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """One primitive: its axis in the joint's frame (0, 1, 2 for x, y, z), and what it does."""

    kind: str  # "turn", "slide", "screw", "weld", "ball"
    axis: int = 2


# markers' z is the joint axis, as in `_constraints.py`; in the plane sliders move along x
CHAINS: dict[tuple[str, str], tuple[Link, ...]] = {
    ("space", "weld"): (Link("weld"),),
    ("space", "revolute"): (Link("turn"),),
    ("space", "prismatic"): (Link("slide"),),
    ("space", "cylindrical"): (Link("slide"), Link("turn")),
    ("space", "screw"): (Link("screw"),),
    ("space", "universal"): (Link("turn", 0), Link("turn", 1)),
    ("space", "spherical"): (Link("ball"),),
    ("space", "planar"): (Link("slide", 0), Link("slide", 1), Link("turn")),
    ("space", "pin_slot"): (Link("slide", 0), Link("turn")),
    ("space", "orientation_lock"): (Link("slide", 0), Link("slide", 1), Link("slide", 2)),
    ("space", "free"): (Link("slide", 0), Link("slide", 1), Link("slide", 2), Link("ball")),
    ("plane", "weld"): (Link("weld"),),
    ("plane", "revolute"): (Link("turn"),),
    ("plane", "prismatic"): (Link("slide", 0),),
    ("plane", "pin_slot"): (Link("slide", 0), Link("turn")),
    ("plane", "angle_lock"): (Link("slide", 0), Link("slide", 1)),
    ("plane", "free"): (Link("slide", 0), Link("slide", 1), Link("turn")),
}
"""The joints that can move in a tree."""
