"""2 · systems: `AbsoluteSystem`, every body with its own coordinates, every joint as rows between two bodies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array, Coordinates, Scalar, Velocities, is_traced
from dalembert.linalg import KLU, BlockMass, BlockPattern, dense_of_blocks
from dalembert.model import INPUT, Shape, bent, input_function, is_input, is_smooth
from dalembert.systems._base import AbstractMultiplierRule, RowOwner, renamed_owners
from dalembert.systems._bodies import BodySystem, ForceFamily, JointView
from dalembert.systems._control import NO_CONTROL, Control
from dalembert.systems._frames import marker_frames
from dalembert.systems._leaves import Leaf, control_slots
from dalembert.systems._measure import Measure
from dalembert.systems._names import ANONYMOUS, with_fields
from dalembert.systems._origin import Origin
from dalembert.systems._rows import Family, some_rows
from dalembert.systems._sticking import sticking_members, sticking_values, with_phases
from dalembert.systems._touching import Contacts, touches_of, with_closed


class AbsoluteSystem(BodySystem):
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
    load_rule: AbstractMultiplierRule | None = None  # picks the joint loads for friction, where they are not unique
    loads_decided: bool = eqx.field(static=True, default=False)  # whether they are unique, or picked by `load_rule`
    phases_known: bool = eqx.field(static=True, default=False)  # whether friction is known to stick or to slip
    shapes: tuple[tuple[int, Shape], ...] = eqx.field(static=True, default=())  # pictures of bodies, by their number
    origin: Origin = eqx.field(static=True, default=Origin())  # the model it was built from
    measures: tuple[Measure, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    control: Control = NO_CONTROL  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    contacts: Contacts | None = None  # of one-sided joints: the rows of all of them

    @property
    def coordinates(self) -> str:
        return "absolute"

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

    def force(self, t, q, v):
        places = self.places(q)
        driven = self.driven(t, q, v)
        return driven.force_on(t, places, self.twists(places, v), v.reshape(-1, self.dv)).ravel()

    def potential(self, t, q):
        return self.potential_at(t, self.places(q))

    def scale(self):
        return self._each_body(self.kinematics.dw)

    def coordinate_scale(self):
        own = self._each_body(self.kinematics.dq - self.kinematics.d)
        return own if not self.control.size else self.and_states(own, self.control.spread())

    def _each_body(self, turning: int):
        """For each body the machine's size as often as it has directions, and ones for what turns it."""
        xp = jnp if is_traced(self.size) else np
        one = xp.concatenate([xp.ones(self.kinematics.d) * xp.asarray(self.size), xp.ones(turning)])
        return xp.tile(one, self.masses.shape[0])

    # ---- friction that sticks ----------------------------------------------------------------------------

    @property
    def sticking(self):
        return tuple(self.forces[k].names[i] for k, i in sticking_members(self.forces))

    @property
    def sticking_angles(self) -> tuple[bool, ...]:
        """Which of the coordinates with such friction are angles."""
        laws: list[Any] = [self.forces[k].law for k, _ in sticking_members(self.forces)]
        return tuple(law.turns for law in laws)

    @property
    def phases_stated(self):
        return self.phases_known or not self.sticking

    def with_phases(self, sides, held_at):
        return with_phases(self, sides, held_at)

    def sticking_values(self, q):
        return sticking_values(self, self.places(q))

    # ---- one-sided joints ----------------------------------------------------------------------------------

    @property
    def touches(self):
        return () if self.contacts is None else touches_of(self.contacts.owners, self.contacts.m_holonomic)

    @property
    def closed(self):
        return () if self.contacts is None else self.contacts.closed

    def with_closed(self, closed, slides=None):
        return self if self.contacts is None else with_closed(self, closed, slides)

    def plain(self):
        return self if self.contacts is None else replace(self, contacts=None)

    def restitutions(self):
        return self._of_contacts("restitution")

    def frictions(self):
        return self._of_contacts("friction")

    def _of_contacts(self, key: str):
        """A number of each contact, 0 where it has none."""
        found = {}
        for f in () if self.contacts is None else self.contacts.families:
            if key in f.p:
                found |= {name: f.p[key][k] for k, name in enumerate(f.names)}
        values = [found.get(t.joint, 0.0) for t in self.touches]
        return (jnp if is_traced(*values) else np).array(values, float)

    # ---- fewer rows --------------------------------------------------------------------------------------

    def without_rows(self, rows):
        kept = np.setdiff1d(np.arange(self.m), rows)
        number = {int(old): new for new, old in enumerate(kept)}
        families = some_rows(self.families, number)
        where = {name: (f, k) for f, family in enumerate(families) for k, name in enumerate(family.names)}
        owners = [o.renumbered(number) for o in self.owners]
        joints = tuple(
            replace(j, family=where[j.name][0], member=where[j.name][1]) for j in self.joints if j.name in where
        )
        pattern = BlockPattern(len(kept), self.pattern.blocks, self.pattern.width, [f.group for f in families])
        mask = self.kinematics.mass_mask()
        return replace(
            self,
            families=families,
            joints=joints,
            owners=tuple(o for o in owners if o.rows),
            pattern=pattern,
            m_holonomic=int(np.sum(kept < self.m_holonomic)),
            klu=KLU.analyse(pattern, mask) if self.klu is not None and len(kept) else None,
        )

    # ---- parameters --------------------------------------------------------------------------------------

    def with_first_tick(self, t):
        return replace(self, control=replace(self.control, begins=t if is_traced(t) else np.asarray(t, float)))

    def with_control(self, control):
        return replace(self, control=control)

    def with_inputs(self, values):
        control = self.control.with_inputs(self.name, values)
        data = {}
        for name, value in values.items():
            if is_traced(value):
                continue
            data[name] = input_function(name, value)[2]
            k = [x.name for x in control.sources].index(name)
            rows = [f for f in self.families if f"{INPUT}{k}" in f.p]
            if rows and not is_smooth(data[name]):
                raise DalembertError(bent(rows[0].nature.label.capitalize(), rows[0].names[0], name))
        return replace(self, control=control, origin=self.origin.with_inputs(data))

    def slots(self):
        slots: dict[str, tuple] = {"gravity": (Leaf(lambda s: s.gravity),)}
        for k, name in enumerate(self.body_names):
            slots[f"{name}.mass"] = (Leaf(lambda s: s.masses, k, positive=True),)
            # in the plane the (1, 1) tensor is one number
            index = (k, 0, 0) if self.space == "plane" else k
            slots[f"{name}.inertia"] = (Leaf(lambda s: s.inertias, index, positive=True),)
        for group, word in ((self.families, "families"), (self.forces, "forces")):
            for f, family in enumerate(group):
                for key in family.p:
                    if key == "side" or is_input(key):  # follows the load, or is an input's
                        continue
                    for member, name in enumerate(family.names):
                        leaf = Leaf(lambda s, w=word, f=f, key=key: getattr(s, w)[f].p[key], member)
                        slots[f"{name}.{key}"] = (*slots.get(f"{name}.{key}", ()), leaf)
        for f, family in enumerate(() if self.contacts is None else self.contacts.families):
            for key in family.p:
                for member, name in enumerate(family.names):
                    leaf = Leaf(lambda s, f=f, key=key: s.contacts.families[f].p[key], member)
                    slots[f"{name}.{key}"] = (*slots.get(f"{name}.{key}", ()), leaf)
        own = dict(slots)
        for follower, place in self.same_places():  # where a joint moves, so does what acts on its coordinates
            if follower in own and place in own:
                slots[place] = (*slots[place], *own[follower])
        return slots | control_slots(self)

    # ---- names -------------------------------------------------------------------------------------------

    def names(self):
        rule = () if self.load_rule is None else self.load_rule.names()
        forces = (n for f in self.forces for n in (*f.names, *f.joints))
        control = (*(x.name for x in self.measures), *self.control.names())
        return (*super().names(), *self.body_names, *(j.name for j in self.joints), *forces, *control, *rule)

    def renamed(self, to):
        rule = None if self.load_rule is None else self.load_rule.renamed(to)
        if rule is None and self.load_rule is not None:
            return None
        return with_fields(
            self,
            name=ANONYMOUS,
            body_names=to.all(self.body_names),
            joints=to.once(self.joints, lambda joints: tuple(j.renamed(to) for j in joints)),
            owners=renamed_owners(self.owners, to),
            families=tuple(f.renamed(to) for f in self.families),
            forces=tuple(f.renamed(to) for f in self.forces),
            load_rule=rule,
            measures=tuple(x.renamed(to) for x in self.measures),
            control=self.control.renamed(to),
            contacts=None,  # what is closed is among the rows, and nothing else is known of what is open
            shapes=(),  # pictures are not used inside compiled programs
        )


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
