"""2 · systems: `TreeSystem`, joint coordinates along a spanning tree; what closes loops stays rows between bodies.

Every joint of the tree is a chain of links, each a turn about and a slide along its z axis (a revolute, a slider, a
screw), or a ball. With the links' spatial axes S (angular, linear, about a point c near the machine), and L the table
of which axis moves which body (static, from the tree),

    twists V = L (S u)        biases J̇u = L ((V × S) u)        M_ij = Sᵢᵀ I_j^c Sⱼ  (i above j)

where I_j^c is the inertia of all bodies moved by axis j (composite bodies). Only poses need a recursion, and they are
found by doubling: each link's pose relative to its parent's parent's … parent, log₂(depth) times. So only array sizes
grow with the number of bodies. Forces and rows are those of the absolute system, transformed by v_abs = J u:

    h = Jᵀ(h_abs − M_abs J̇u)        C = C_abs J        Γ = Γ_abs − C_abs J̇u
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array, Coordinates, Rows, Velocities, is_traced
from dalembert.linalg import BlockMass, BlockPattern, BlockRows, Group
from dalembert.systems._absolute import AbsoluteSystem
from dalembert.systems._base import AbstractSystem, RowOwner, State, Terms, renamed_owners
from dalembert.systems._frames import Place, Space, Twist, cross, marker_frames, moment
from dalembert.systems._leaves import Leaf, control_slots
from dalembert.systems._names import ANONYMOUS, with_fields
from dalembert.systems._sticking import sticking_values
from dalembert.systems._topology import Tree

KEPT = 1e-10
"""Rows whose norm in joint coordinates is below this fraction of their norm in absolute ones are set to zero."""


class Chains(NamedTuple):
    """Poses of all links, their axes, and where the bodies are."""

    R: Float[Array, "links 3 3"]
    p: Float[Array, "links 3"]
    centre: Float[Array, " 3"]
    S: Float[Array, "n 6"]  # of each velocity: angular, linear at `centre`


class BodyMotion(NamedTuple):
    """Absolute motion of the bodies due to u: places and twists (ground last), velocities and J̇u as (bodies, dv)."""

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
    klu: None

    @property
    def coordinates(self) -> str:
        return "joint"

    @property
    def scleronomic(self) -> bool:
        return self.carrier.scleronomic

    @property
    def bodies(self) -> AbsoluteSystem:
        return self.absolute

    @property
    def machine(self) -> AbsoluteSystem:
        return self.absolute

    @property
    def measures(self):
        return self.absolute.measures

    @property
    def control(self):
        return self.absolute.control

    def with_first_tick(self, t):
        return replace(self, absolute=self.absolute.with_first_tick(t))

    def with_control(self, control):
        return replace(self, absolute=self.absolute.with_control(control))

    def with_inputs(self, values):
        return replace(self, absolute=self.absolute.with_inputs(values))

    def with_input_values(self, jets):
        """A copy in which the elements have these values of the inputs."""
        return replace(self, carrier=self.carrier.with_input_values(jets))

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
        tree, at, q = self.tree, self.links, self.split(q)[0]
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
        tree, q = self.tree, self.split(q)[0]
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

    def body_motion(self, q: Coordinates, u: Velocities) -> BodyMotion:
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
        return BodyMotion(chains, self.body_places(q, chains), twists, velocity, bias)

    def lift_rate(self, q, v, vdot):
        """v̇_abs = J u̇ + J̇u."""
        at = self.body_motion(q, v)
        return (self._push(at.chains, vdot) + at.bias).ravel()

    def push_forward(self, q, v):
        return self._push(self.chains(q), v).ravel()

    def pull_back(self, q, force):
        return self._pull(self.chains(q), force.reshape(-1, self.carrier.dv))

    def _push(self, chains: Chains, u: Velocities) -> Float[Array, "bodies dv"]:
        """J u."""
        V = jnp.asarray(self.tree.moved_by) @ (chains.S * u[:, None])
        return self._absolute_rates(chains, _at_bodies(self, chains, V), V[:, :3])

    def _absolute_rates(self, chains: Chains, linear, angular) -> Float[Array, "bodies dv"]:
        """World rates of the bodies' centres and world angular rates → the absolute system's velocities."""
        if self.space == "space":
            return jnp.concatenate([linear, _back(chains.R[self.tree.bodies], angular)], axis=1)
        return jnp.concatenate([linear[:, :2], angular[:, 2:]], axis=1)

    def lift(self, q, v):
        at = self.body_motion(q, v)
        bodies = jax.tree_util.tree_map(lambda a: a[:-1], at.places)
        there = jax.vmap(self.absolute.kinematics.coordinates)(bodies).ravel()
        return State(self.and_states(there, self.split(q)[1]), at.v.ravel())

    def spatial_force(self, R, r, share):
        """A generalised force of one body's absolute velocities → a spatial force about the centre; r from there."""
        if self.space == "space":
            force, torque = share[:3], jnp.sum(R * share[3:], axis=1)
        else:
            force, torque = jnp.append(share[:2], 0.0), jnp.append(jnp.zeros(2), share[2])
        return jnp.concatenate([torque + cross(r, force), force])

    def _pull(self, chains: Chains, shares: Float[Array, "bodies dv"]) -> Velocities:
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
            I = I * jnp.diag(jnp.array([0.0, 0.0, 1.0]))  # only rotation about z is needed
        world = R @ I @ jnp.swapaxes(R, 1, 2)
        square = jnp.sum(r * r, axis=1)
        about = world + m[:, None, None] * (square[:, None, None] * jnp.eye(3) - r[:, :, None] * r[:, None, :])
        mr = m[:, None, None] * jax.vmap(_skew)(r)
        top = jnp.concatenate([about, mr], axis=2)
        bottom = jnp.concatenate([-mr, m[:, None, None] * jnp.eye(3)], axis=2)
        inertia = jnp.concatenate([top, bottom], axis=1)  # (bodies, 6, 6)
        composite = jnp.asarray(tree.moved_by).T @ inertia.reshape(len(m), 36)  # on each axis
        momentum = jnp.sum(composite.reshape(-1, 6, 6) * chains.S[:, None, :], axis=2)
        G = chains.S @ momentum.T  # Sᵢ · I_j^c Sⱼ
        above = tree.axes_above
        M = jnp.where(above, G, jnp.where(above.T, G.T, 0.0))
        if not self.carrier.armatures:
            return M
        # the rates that have an armature, in joint velocities: of a joint of the tree, one of them
        rows, inertia = self.carrier.armature_rows(self._frames(chains, jnp.zeros(len(tree.bodies) + 1)))
        own = jax.vmap(lambda shares: self._pull(chains, shares))(rows)
        return M + own.T @ (inertia[:, None] * own)

    def mass(self, t, q):
        return BlockMass.dense_one(self.mass_matrix(self.chains(q)))

    def force(self, t, q, v):
        return self.driven(t, q, v).bias_force(t, self.body_motion(q, v))

    def bias_force(self, t, at: BodyMotion) -> Velocities:
        """Jᵀ(h_abs − M_abs J̇u)."""
        carrier = self.carrier
        shares = carrier.force_on(t, at.places, at.twists, at.v) - carrier.mass_mv(at.places, at.bias)
        return self._pull(at.chains, shares)

    def potential(self, t, q):
        return self.carrier.potential_at(t, self.body_places(q, self.chains(q)))

    # ---- the interface of a system ------------------------------------------------------------------------

    def places(self, q):
        return self.body_places(q, self.chains(q))

    def position_residual(self, t, q):
        return self.timed(t).carrier.position_rows(t, self.places(q))

    def motion_residual(self, t, q, v):
        at = self.body_motion(q, v)
        return self.timed(t).carrier.motion_rows(t, at.places, at.twists)

    def qdot(self, q, v):
        tree = self.tree
        if len(tree.balls):
            turns = jax.vmap(_quaternion_rate)(q[tree.q_index[tree.balls]], v[tree.v_index[tree.balls]])
            v = jnp.concatenate([v, jnp.zeros(1), turns.ravel()])[tree.rate_of]
        return self.and_states(v, jnp.zeros(self.control.size))

    def retract(self, q, delta):
        tree = self.tree
        moved = q + self.qdot(q, delta)
        if not len(tree.balls):
            return moved
        moved, states = self.split(moved)
        length = jnp.sqrt(jnp.sum(moved[tree.q_index[tree.balls]] ** 2, axis=1))
        return self.and_states(moved / jnp.append(length, 1.0)[tree.ball_of], states)

    def terms(self, t, q, v):
        """The rows of the absolute system in joint velocities: C = C_abs J, Γ = Γ_abs − C_abs J̇u."""
        at = self.body_motion(q, v)
        on_bodies = self.timed(t).carrier.constraints(t, at.places, at.twists)
        C, share = self._through(at.chains, on_bodies.rows)
        Gamma = on_bodies.Gamma - on_bodies.rows.mv(at.bias.ravel())
        rows = BlockRows(self.pattern, C.ravel())
        mass = BlockMass.dense_one(self.mass_matrix(at.chains))
        force = self.driven(t, q, v).bias_force(t, at)
        return Terms(mass, force, on_bodies._replace(rows=rows, Gamma=Gamma, share=share))

    def residuals(self, t, q, v):
        at = self.body_motion(q, v)
        return self.timed(t).carrier.residuals_at(t, at.places, at.twists)

    def matrices(self, t, q, joints=False):
        at = self.body_motion(q, jnp.zeros(self.n))
        rows, b = self.timed(t).carrier.jacobian(t, at.places, at.twists)
        return BlockMass.dense_one(self.mass_matrix(at.chains)), self._through(at.chains, rows)[0], b, None

    def _through(self, chains: Chains, rows: BlockRows) -> tuple[Float[Array, "m n"], Rows]:
        """C_abs J: each row's shares of its bodies as spatial forces on the axes above those bodies.

        And the norm of each row relative to its norm in absolute coordinates (at most 1): at a singular position a
        whole row may vanish, and must not be scaled up again, as its direction would be round-off.
        """
        moved = jnp.concatenate([jnp.asarray(self.tree.moved_by), jnp.zeros((1, self.n))])
        R = jnp.concatenate([chains.R[self.tree.bodies], jnp.eye(3)[None]])
        r = jnp.concatenate([chains.p[self.tree.bodies] - chains.centre, jnp.zeros((1, 3))])
        out = []
        for group, block in zip(rows.pattern.groups, rows.member_blocks(), strict=True):
            b = group.columns

            def row(shares, b, R, r):  # shares (k, dv) of one row
                forces = jax.vmap(self.spatial_force)(R[b], r[b], shares)
                return jnp.sum(moved[b] * (forces @ chains.S.T), axis=0)

            one = jax.vmap(jax.vmap(row, (0, None, None, None)), (0, 0, None, None))
            out.append(one(block, b, R, r).reshape(group.rows.size, self.n))  # n is 0 where nothing can move
        if not out:
            return jnp.zeros((0, self.n)), jnp.zeros(0)
        C = jnp.concatenate(out)[rows.pattern.row_order]
        # rows already satisfied by the tree joints (a plane loop in space) are round-off: zero them, so that they do
        # not count towards the rank
        own = jnp.sum((C * self.scale()) ** 2, axis=1)
        scale = self.carrier.scale().reshape(-1, self.carrier.dv)
        whole = rows.weighted_square(scale[:, :, None] ** 2 * jnp.eye(scale.shape[1]))
        share = jax.lax.stop_gradient(jnp.minimum(jnp.sqrt(own / jnp.where(whole > 0, whole, 1.0)), 1.0))
        return jnp.where((share > KEPT)[:, None], C, 0.0), share

    def scale(self):
        return (jnp if is_traced(self.size) else np).where(self.tree.slides[self.tree.link_of], self.size, 1.0)

    def coordinate_scale(self):
        slides = np.repeat(self.tree.slides, self.tree.q_sizes)
        own = (jnp if is_traced(self.size) else np).where(slides, self.size, 1.0)
        return own if not self.control.size else self.and_states(own, self.control.spread())

    # ---- the body view -------------------------------------------------------------------------------------

    @property
    def row_families(self):
        return self.carrier.families

    def with_rows_of(self, name, change):
        self.owner_named(name)
        carrier, absolute = (part.with_rows_of(name, change) for part in (self.carrier, self.absolute))
        return replace(self, carrier=carrier, absolute=absolute)

    def without_rows(self, rows):  # `absolute`, in which reactions are stated, keeps them
        return self._carried_by(self.carrier.without_rows(rows))

    def _carried_by(self, carrier: AbsoluteSystem) -> TreeSystem:
        """The same with other rows that close loops."""
        group = [Group([range(carrier.m)], [[0]])] if carrier.m else []
        pattern = BlockPattern(carrier.m, 1, self.n, group)
        return replace(self, carrier=carrier, pattern=pattern, m_holonomic=carrier.m_holonomic, owners=carrier.owners)

    @property
    def sticking(self):
        return self.absolute.sticking

    @property
    def phases_stated(self):
        return self.absolute.phases_stated

    def with_phases(self, sides, held_at):
        carrier, absolute = (part.with_phases(sides, held_at) for part in (self.carrier, self.absolute))
        return replace(self._carried_by(carrier), absolute=absolute)

    @property
    def touches(self):
        return self.carrier.touches

    @property
    def closed(self):
        return self.carrier.closed

    def with_closed(self, closed, slides=None):
        carrier, absolute = (part.with_closed(closed, slides) for part in (self.carrier, self.absolute))
        return replace(self._carried_by(carrier), absolute=absolute)

    def plain(self):
        return replace(self, carrier=self.carrier.plain(), absolute=self.absolute.plain())

    def restitutions(self):
        return self.carrier.restitutions()

    def frictions(self):
        return self.carrier.frictions()

    def sticking_values(self, q):
        return sticking_values(self.absolute, self.places(q))

    def with_loads(self, rule, decided=True):
        return replace(self, absolute=self.absolute.with_loads(rule, decided))

    def owner_named(self, name):
        if name in self.tree.carrying and all(o.name != name for o in self.owners):
            raise DalembertError(
                f"Joint '{name}' carries the tree and cannot be switched; build with cut=['{name}'], and it closes a "
                "loop."
            )
        return super().owner_named(name)

    def coordinate_labels(self):
        return self.coordinate_names

    def angles_in_q(self):
        places = {tuple(name.split(".")): k for k, name in enumerate(self.coordinate_names)}
        words = {"angle_z": "angle", "angle": "angle", "angle_x": "angle_i", "angle_y": "angle_j"}
        return {(joint, words[what]): k for (joint, what), k in places.items() if what in words}

    @property
    def displaces_bodies(self):
        return bool(np.any(self.tree.ball))

    def velocity_label(self, k):
        tree, link = self.tree, int(self.tree.link_of[k])
        if tree.ball[link]:
            return f"{tree.joints[link]}.rotation"
        return self.coordinate_names[tree.q_start[link]]

    def velocities_named(self, item):
        if isinstance(item, int):
            return super().velocities_named(item)
        tree = self.tree
        labels = [self.velocity_label(k) for k in range(self.n)]
        found = [k for k in range(self.n) if str(item) in (labels[k], tree.joints[tree.link_of[k]])]
        if not found:
            known = ", ".join(dict.fromkeys(labels))
            raise DalembertError(
                f"hold: '{item}' is no coordinate of the tree of '{self.name}'; use one of {known}, or a joint's name "
                "for all its coordinates."
            )
        return found

    def multipliers_of_machine(self, q, rows, r, lam):
        """Cut above a body: what its joint transmits balances the whole subtree below (reactions/_joints.py, eq. a)."""
        tree, absolute = self.tree, self.absolute
        whole = jnp.zeros(absolute.m).at[self.closing_rows()].set(lam)
        loads = (r - rows.rmv(whole)).reshape(-1, absolute.dv)
        places = absolute.places(q)
        # forces, and torques about each body's centre, in world axes; then sums over the subtree of each body
        force, torque = jax.vmap(absolute.kinematics.wrench)(
            jax.tree_util.tree_map(lambda a: a[:-1], places), places.p[:-1], loads
        )
        below = jnp.asarray(tree.above[tree.bodies][:, tree.bodies].astype(float))
        F, p = below @ force, places.p[:-1]
        # about the origin: Σ (torque + p × force)
        T = below @ (torque + jax.vmap(moment)(p, force))
        solve = jax.vmap(functools.partial(_on_rows, absolute.size))
        for f, (wrenches, axes) in zip(absolute.families, absolute.row_wrenches(q, rows), strict=True):
            here = np.array([k for k, name in enumerate(f.names) if name in tree.carrying], int)
            if len(here):
                body = np.array([tree.carrying[f.names[k]] for k in here])
                sign = np.array([-1.0 if f.names[k] in tree.backward else 1.0 for k in here])[:, None]
                markers = jax.vmap(lambda at, p: marker_frames(self.space, at, p)[-1].p)(f.gather(places), f.p)
                found = solve(wrenches[here], axes[here], markers[here], sign * F[body], sign * T[body])
                whole = whole.at[f.group.rows[here].ravel()].set(found.ravel())
        return whole

    def closing_rows(self) -> np.ndarray:
        """Where the rows of the cut joints stand among those of `absolute`."""
        rows = {o.name: o.rows for o in self.absolute.owners}
        out = np.zeros(self.m, int)
        for o in self.owners:
            out[list(o.rows)] = rows[o.name]
        return out

    # ---- parameters --------------------------------------------------------------------------------------

    def slots(self):
        whole = self.absolute.slots()
        slots = {
            name: (*(_leaf_of("carrier", x) for x in own), *(_leaf_of("absolute", x) for x in whole[name]))
            for name, own in self.carrier.slots().items()
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
            for link in links:
                if pitch := self.tree.links[link].pitch:  # the advance of a unit angle
                    way = -1.0 if joint in self.tree.backward else 1.0
                    own = Leaf(lambda s: s.links["slide"], link, unit=way / (2 * np.pi))
                    slots[f"{joint}.{pitch}"] = (own, *(_leaf_of("absolute", x) for x in whole[f"{joint}.{pitch}"]))
        carried = self.carrier.slots()
        for follower, place in self.absolute.same_places():  # of closing joints the carrier does it
            if follower in carried and place in slots and place not in carried:
                slots[place] = (*slots[place], *(_leaf_of("carrier", x) for x in carried[follower]))
        own = control_slots(self.absolute).items()
        return slots | {name: tuple(_leaf_of("absolute", x) for x in leaves) for name, leaves in own}

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


def _on_rows(size, wrenches: Float[Array, "r w"], axes, point, F, T) -> Float[Array, " r"]:
    """The multipliers of one joint's rows that make up a force and a torque about the origin, on its body j."""
    torque = T - moment(point, F)
    target = jnp.concatenate([axes.T @ F, (torque if axes.shape[0] == 2 else axes.T @ torque) / size])
    d = len(F)
    A = jnp.concatenate([wrenches[:, :d], wrenches[:, d:] / size], axis=1).T
    lengths = jnp.sqrt(jnp.sum(A * A, axis=0))
    A = A / lengths
    # what the rows cannot transmit is zero, so the normal equations solve it exactly; A has unit columns along few axes
    return jnp.linalg.solve(A.T @ A, A.T @ target) / lengths


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
