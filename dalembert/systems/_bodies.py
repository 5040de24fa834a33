"""2 · systems: `BodySystem`, bodies with their joints and forces, at given places and with given motions.

What rooms above need to know about bodies is here. `AbsoluteSystem` has coordinates for the places; a tree computes
them along its joints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array, Coordinates
from dalembert.complements import Local
from dalembert.linalg import BlockRows, Group
from dalembert.model import INPUT, Look, Shape, is_input
from dalembert.systems._base import AbstractMultiplierRule, Nature
from dalembert.systems._forces import Armature, BearingFriction, BeltTension, SlidingFriction, angles_read
from dalembert.systems._frames import SPACES, Frame, back, cross, marker_frames, moment
from dalembert.systems._names import Renaming, with_fields
from dalembert.systems._origin import Origin
from dalembert.systems._rows import Family, RowSystem

NO_LOOK = Look()


class ForceFamily(eqx.Module):
    """Applied forces of one kind, for all members at once: `law.…` on the k marker frames of each."""

    label: str = eqx.field(static=True)  # what they are, in words
    names: tuple[str, ...] = eqx.field(static=True)
    group: Group = eqx.field(static=True)
    law: Callable = eqx.field(static=True)
    p: dict[str, Array]
    joints: tuple[str, ...] = eqx.field(static=True, default=())  # the joints they act at, where they act at one
    rule: str | None = eqx.field(static=True, default=None)  # and the rule named by its element
    look: Look = eqx.field(static=True, default=NO_LOOK)

    gather = Family.gather

    def renamed(self, to: Renaming) -> ForceFamily:
        return with_fields(self, names=to.all(self.names), joints=to.all(self.joints))


class CoordinateView(NamedTuple):
    """A coordinate of a joint: its name, its value as a function of the joint's two frames, and whether it is an angle
    (rad) or a length (m)."""

    name: str
    function: Callable
    is_angle: bool

    @property
    def unit(self) -> str:
        return "rad" if self.is_angle else "m"


PLACES = ("point_i", "frame_i", "point_j", "frame_j")
"""Where the two markers of a joint sit in their bodies."""


@dataclass(frozen=True)
class JointView:
    """What is measured at a joint: its two markers, independent of its rows."""

    name: str
    nature: Nature
    blocks: tuple[int, ...]
    family: int
    member: int
    coordinates: tuple[CoordinateView, ...]
    look: Look = NO_LOOK
    target: str = ""  # of a driver: the joint it drives
    driven: str = ""  # and the coordinate of it
    is_angle: bool = False  # what it drives or stops is an angle
    coupled: tuple[str, ...] = ()  # of a coupling: the joints of its terms

    def renamed(self, to: Renaming) -> JointView:
        target = to(self.target) if self.target else ""
        return dataclasses.replace(self, name=to(self.name), target=target, coupled=to.all(self.coupled))


def _with_inputs(family: Any, jets) -> Any:
    """A family in which members that use inputs have their values."""
    used = {k: int(k.removeprefix(INPUT)) for k in family.p if is_input(k)}
    if not used:
        return family
    count = len(family.names)
    own = {k: jnp.broadcast_to(jets[number], (count, 3)) for k, number in used.items()}
    return dataclasses.replace(family, p=family.p | own)


class BodySystem(RowSystem):
    """Bodies with masses, joints as rows between them, and forces; a block of coordinates is a body."""

    masses: eqx.AbstractVar[Float[Array, " nb"]]
    inertias: eqx.AbstractVar[Float[Array, "nb dw dw"]]
    gravity: eqx.AbstractVar[Float[Array, " d"]]
    forces: eqx.AbstractVar[tuple[ForceFamily, ...]]
    size: eqx.AbstractVar[Float[Array, ""]]
    space: eqx.AbstractVar[str]
    body_names: eqx.AbstractVar[tuple[str, ...]]
    joints: eqx.AbstractVar[tuple[JointView, ...]]
    load_rule: eqx.AbstractVar[AbstractMultiplierRule | None]  # picks the joint loads for friction, if not unique
    loads_decided: eqx.AbstractVar[bool]  # whether they are unique, or picked by `load_rule`
    shapes: eqx.AbstractVar[tuple[tuple[int, Shape], ...]]  # pictures of bodies, by their number
    origin: eqx.AbstractVar[Origin]  # the model it was built from

    @property
    def bodies(self) -> BodySystem:
        return self

    @property
    def kinematics(self):
        """`Plane` or `Space`: what depends on the dimension."""
        return SPACES[self.space]

    @property
    def bearings(self) -> tuple[ForceFamily, ...]:
        """The force families that depend on the load of a joint."""
        return tuple(f for f in self.forces if isinstance(f.law, BearingFriction))

    def sliding_shares(self, places, v) -> dict[str, Float[Array, "slots dv"]]:
        """Of each contact that slides the shares of its friction in h, for a push of one newton, by its name."""
        found, table = {}, jnp.concatenate([v.reshape(-1, self.dv), jnp.zeros((1, self.dv))])
        for f in self.forces:
            law: Any = f.law
            if isinstance(law, SlidingFriction):
                one = jax.vmap(lambda at, u, p, law=law: jnp.stack(law.per_load(self.kinematics, at, u, p)))
                found |= dict(zip(f.names, one(f.gather(places), f.gather(table), f.p), strict=True))
        return found

    @property
    def rubbing(self) -> tuple[str, ...]:
        """The forces of dry friction, which may hold a machine at rest anywhere within a range of loads."""
        dry = (f for f in self.forces if getattr(f.law, "dry", False))
        return tuple(name for f in dry for name in f.names)

    @property
    def sticking_angles(self) -> tuple[bool, ...]:
        """Which of the coordinates with dry friction that sticks are angles."""
        return ()

    def pretensions(self) -> list[tuple[str, int, float]]:
        """Belts with a pretension: the belt, its row, and the tension of both spans at rest; on the host."""
        out = []
        for f in (f for f in self.forces if isinstance(f.law, BeltTension)):
            for belt, tension in zip(f.joints, np.asarray(f.p["tension"]), strict=True):
                out.append((belt, self.owner_named(belt).rows[0], float(tension)))
        return out

    @property
    def armatures(self) -> tuple[ForceFamily, ...]:
        """The families that put inertia on joint coordinates."""
        return tuple(f for f in self.forces if isinstance(f.law, Armature))

    @property
    def wound(self):
        return tuple(n for f in self.forces for n in f.names for _ in range(angles_read(f.law, self.space)))

    def windings(self, t, q):
        places, found = self.places(q), [jnp.zeros(0)]
        for f in self.driven(t, q, jnp.zeros(self.n)).forces:
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

    def with_named_sides(self, sides, rows: dict[str, int]) -> Self:
        """The same with the entry of `sides` that belongs to each name."""
        families = list(self.families)
        for k, f in enumerate(families):
            if "side" in f.p:
                own = sides[np.array([rows[name] for name in f.names])]
                families[k] = dataclasses.replace(f, p=f.p | {"side": own})
        return eqx.tree_at(lambda s: s.families, self, tuple(families), is_leaf=lambda x: isinstance(x, Family))

    @property
    def scleronomic(self):
        return not any(f.nature.timed for f in self.families)

    def with_loads(self, rule, decided=True):
        return dataclasses.replace(self, load_rule=rule, loads_decided=decided)

    def velocity_label(self, k):
        d, of = self.kinematics.d, k % self.dv
        which = "xyz"[of] if of < d else "angle" if d == 2 else "rotation"
        return f"{self.body_names[k // self.dv]}.{which}"

    def velocity_in_words(self, k):
        d, of = self.kinematics.d, k % self.dv
        axis = "xyz"[of] if of < d else "angle" if d == 2 else f"rotation about its {'xyz'[of - d]} axis"
        return f"{axis} of body '{self.body_names[k // self.dv]}'"

    def velocities_named(self, item):
        body, _, which = str(item).partition(".")
        if body not in self.body_names:
            raise DalembertError(f"hold: there is no body '{body}'; the bodies are {', '.join(self.body_names)}.")
        d = self.kinematics.d
        places = {"": range(self.dv), "position": range(d)} | {axis: [k] for k, axis in enumerate("xyz"[:d])}
        places |= {"angle": [2]} if d == 2 else {"rotation": range(3, 6)}
        if which not in places:
            raise DalembertError(f"hold: '{item}' is unknown; after '{body}.' use one of {[p for p in places if p]}.")
        start = self.body_names.index(body) * self.dv
        return [start + k for k in places[which]]

    def with_input_values(self, jets):
        """A copy in which families and forces have these values of the inputs they use."""
        return with_fields(
            self,
            families=tuple(_with_inputs(f, jets) for f in self.families),
            forces=tuple(_with_inputs(f, jets) for f in self.forces),
        )

    def row_speeds(self, t, q) -> Float[Array, " m"]:
        """C v of all rows in a motion that they allow: −b."""
        return -self.residuals(t, q, jnp.zeros(self.n))[1]

    # ---- bodies at given places ----------------------------------------------------------------------------

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

    def force_on(self, t, places, twists, v: Float[Array, "nb dv"]) -> Float[Array, "nb dv"]:
        """h of bodies at given places and with given motion, one row per body."""
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

    def forces_each(self, t, q: Coordinates) -> list[Float[Array, "count slots dv"]]:
        """With nothing moving, the shares of each force in h on each of its bodies, family by family."""
        places, v = self.places(q), jnp.zeros(self.n)
        twists = self.twists(places, v)
        table = jnp.zeros((self.masses.shape[0] + 1, self.dv))
        out = []
        for f in self.driven(t, q, v).forces:
            one = jax.vmap(lambda at, motion, u, p, law=f.law: self.force_shares(law, t, at, motion, u, p))
            shares = one(f.gather(places), f.gather(twists), f.gather(table), self.force_numbers(f))
            out.append(jnp.stack(shares, axis=1))
        return out

    def reactions_each(self, t, q: Coordinates, lam) -> list[Float[Array, "count slots dv"]]:
        """The shares of each joint in Cᵀλ on each of its bodies, family by family."""
        places = self.places(q)
        rows, _ = self.timed(t).jacobian(t, places, self.twists(places, jnp.zeros(self.n)))
        blocks = zip(self.families, rows.member_blocks(), strict=True)
        return [jnp.sum(lam[f.group.rows][:, :, None, None] * block, axis=1) for f, block in blocks]

    def mass_mv(self, places, x: Float[Array, "nb dv"]) -> Float[Array, "nb dv"]:
        """M x of bodies at given places (ground last), one row per body."""
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
        """The numbers of a force family; a law that depends on the body's mass also gets that."""
        if getattr(f.law, "weighs", False):
            return f.p | {"mass": self.masses[f.group.columns[:, 0]]}
        return f.p

    def potential_at(self, t, places):
        """The stored energy of bodies at given places (ground last)."""
        total = -jnp.sum(self.masses[:, None] * places.p[:-1] * self.gravity)
        for f in self.forces:
            if hasattr(f.law, "potential"):
                one = jax.vmap(lambda at, p, law=f.law: law.potential(t, marker_frames(self.space, at, p), p))
                total = total + jnp.sum(one(f.gather(places), self.force_numbers(f)))
        return total

    # ---- joints ------------------------------------------------------------------------------------------

    def joint(self, name: str) -> JointView:
        return next(j for j in self.joints if j.name == name)

    def same_places(self) -> list[tuple[str, str]]:
        """Names of numbers that say again where a joint's marker sits (of what acts on, drives or couples its
        coordinates), each with the joint's own name for it."""
        at = [(name, "", joint) for f in self.forces for name, joint in zip(f.names, f.joints, strict=False)]
        at += [(view.name, "", view.target) for view in self.joints if view.target]
        at += [(view.name, f"{k}_", joint) for view in self.joints for k, joint in enumerate(view.coupled)]
        return [(f"{name}.{term}{key}", f"{joint}.{key}") for name, term, joint in at for key in PLACES]

    def joint_frames(self, joint: JointView, q: Coordinates) -> list[Frame]:
        """The marker frames of a joint at q."""
        places = self.places(q)
        p = jax.tree_util.tree_map(lambda a: a[joint.member], self.families[joint.family].p)
        at = [jax.tree_util.tree_map(lambda a, k=k: a[k], places) for k in joint.blocks]
        return marker_frames(self.space, at, p)

    def j_is_ground(self, family: Family) -> np.ndarray:
        """Of which members the second block is the ground."""
        return family.group.columns[:, -1] == len(self.body_names)

    def wrench_on_j(self, places, p, share, on_i, axes: Callable | None = None):
        """A member's share of a generalised force → force and torque on body j at marker j, and the joint's axes.

        `on_i` where j, the last of its bodies, is the ground, which has no share: it takes the opposite of the others.
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

    def joint_factors(self, q: Coordinates, rows: BlockRows) -> Local:
        """C = Ĉ J for the joints of a model [Blajer, Bestle, Schiehlen 1994, eqs. 7, 10, 11].

        J (κ × n) maps v to the relative twist at each joint: velocity and angular velocity of marker j as seen from i,
        along i's axes. Ĉ (m × κ) is what each row locks of it, so that Ĉᵀλ are the wrenches on bodies j in the
        joints' frames. Joints come family by family. Rows over other sets of bodies (couplings, your own) are their
        own local rates: J = C, Ĉ = I. C = Ĉ J where the joints are closed.
        """
        places, C = self.places(q), rows.dense()
        J, Chat, order = [jnp.zeros((0, self.n))], [], [np.zeros(0, int)]
        for f, block in zip(self.families, rows.member_blocks(), strict=True):
            own, columns = f.group.rows, f.group.columns
            order.append(own.ravel())
            if "point_j" not in f.p or columns.shape[1] != 2:
                J.append(jnp.asarray(C)[own.ravel()])
                Chat.append(jnp.eye(own.size))
                continue
            one = self._joint_member
            motion, locked = jax.vmap(one)(f.gather(places), f.p, block, self.j_is_ground(f))
            count, width = motion.shape[0], motion.shape[2]
            whole = jnp.zeros((count, width, self.pattern.blocks + 1, self.dv))
            for slot in range(2):
                whole = whole.at[jnp.arange(count), :, columns[:, slot]].add(motion[:, slot])
            J.append(whole[:, :, :-1].reshape(count * width, self.n))
            Chat.append(jax.scipy.linalg.block_diag(*locked))
        into = np.argsort(np.concatenate(order), kind="stable")
        return Local(
            jnp.concatenate(J), jax.scipy.linalg.block_diag(*Chat)[into] if Chat else jnp.zeros((0, 0)), None, True
        )

    def _joint_member(self, places, p, block, on_i) -> tuple[Array, Array]:
        """One joint: its relative twist per unit velocity of each body (2, w, dv), and what each row locks of it."""

        def along(slot, e):
            twists = [self.kinematics.twist(place, e * (k == slot)) for k, place in enumerate(places)]
            return self.relative_twist(places, p, twists)

        def locked(share):
            force, torque, R = self.wrench_on_j(places, p, share, on_i)
            return jnp.concatenate([R.T @ force, torque if R.shape[0] == 2 else R.T @ torque])

        units = jnp.eye(self.dv)
        motion = [jax.vmap(lambda e, k=k: along(k, e), out_axes=1)(units) for k in range(2)]
        return jnp.stack(motion), jax.vmap(locked)(block)

    def row_wrenches(self, q: Coordinates, rows: BlockRows) -> list[tuple[Array, Array]]:
        """For each family the wrenches of its rows for λ = 1, (count, r, d + dw) in the joint frame, and that frame's
        axes. Force first; on body j at marker j."""
        K = self.kinematics
        places = self.places(q)
        out = []
        for family, block in zip(self.families, rows.member_blocks(), strict=True):
            frame = family.axes

            def member(at, p, block, on_i, frame=frame):
                def row(share):
                    force, torque, R = self.wrench_on_j(at, p, share, on_i, frame)
                    return jnp.concatenate([R.T @ force, torque if K.d == 2 else R.T @ torque]), R

                wrenches, axes = jax.vmap(row)(block)
                return wrenches, axes[0] if len(block) else row(jnp.zeros(block.shape[1:]))[1]

            out.append(jax.vmap(member)(family.gather(places), family.p, block, self.j_is_ground(family)))
        return out

    def spin_terms(self, v):
        if self.space == "plane":
            return None
        # ω̇ is that of components along axes that spin; in frames that do not, ω × δω is added
        return jax.scipy.linalg.block_diag(*jax.vmap(_spin_block)(v.reshape(-1, self.dv)))


def _spin_block(u):
    """The 6 × 6 block that adds ω × δω to a body's angular acceleration."""
    x, y, z = u[3], u[4], u[5]
    zero = jnp.zeros(())
    cross = jnp.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    return jnp.zeros((6, 6)).at[3:, 3:].set(cross)
