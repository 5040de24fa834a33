"""2 · systems: constraint rows, a family of members at a time, and the only place that differentiates them.

For each row family one function is enough, the velocity residual φ(t,q,v) = C v + b: for holonomic rows the
time derivative of Φ, for the others what the family states. Then

    C = ∂φ/∂v        b = φ(t,q,0) = φ − C v        Γ = −dφ/dt along the motion with v held = −(Ċ v + ḃ)

all by automatic differentiation, member by member under vmap. Ċ v is never dropped. Rows are functions of
places X (for a body its frame); a system gives the motion of its places, Ẋ and Ẍ for held v, so that the compiler
differentiates short row functions and not the way from a quaternion to a rotation matrix.
See docs/theory/equations.md.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._typing import Array, Coordinates, HolonomicRows, MotionRows, Rows, Scalar, Velocities
from dalembert.complements import Local
from dalembert.linalg import BlockRows, Group
from dalembert.systems._base import AbstractSystem, Constraints, Nature, Terms
from dalembert.systems._names import Renaming, with_fields


class Family(eqx.Module):
    """Constraint rows of one kind, for all its members at once.

    A member touches k coordinate blocks (bodies). `position(t, places, p)` gives its holonomic rows from the
    places of its k blocks, a list; `motion(t, places, twists, p)` its nonholonomic rows, linear in the twists.
    `p` holds the members' parameters, stacked along the first axis.
    """

    nature: Nature = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    group: Group = eqx.field(static=True)
    holonomic: int = eqx.field(static=True)
    nonholonomic: int = eqx.field(static=True)
    position: Callable | None = eqx.field(static=True)
    motion: Callable | None = eqx.field(static=True)
    p: dict[str, Array]
    axes: Callable | None = eqx.field(static=True, default=None)  # the joint frame, where it is not marker i's

    def gather(self, table) -> list:
        """A table with one row per block → for each of the k slots of a member, the members' rows, stacked."""
        slots = self.group.columns.T
        # in as few JAX operations as possible: there are dozens of these in every program
        plain = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
        return [jax.tree_util.tree_map(lambda a, k=k: jnp.asarray(a).at[k].get(**plain), table) for k in slots]

    def rows_of(self, function: Callable, t, *tables):
        """One row function for all members, flat: member after member."""
        local = [self.gather(table) for table in tables]
        return jax.vmap(lambda *a: function(t, *a))(*local, self.p).ravel()

    def renamed(self, to: Renaming) -> Self:
        return with_fields(self, names=to.all(self.names))


class RowSystem(AbstractSystem):
    """A system whose coordinates come in `pattern.blocks` alike blocks (bodies) of dq coordinates and dv velocities,
    and whose rows are families over a few blocks each. A system with one block is a plain dense system."""

    families: eqx.AbstractVar[tuple[Family, ...]]

    @property
    @abstractmethod
    def kinematics(self) -> Any:
        """How one block moves; of a body: `Plane` or `Space`.

        `dq` and `dv` are the numbers of its coordinates x and velocities u, `qdot(x, u)` is N(q) v, `retract(x, δ)` a
        small displacement q ⊕ δ. `place(x)` is what rows see of x: a tree X, for a body its frame (p, R).
        `twist(X, u)` is what nonholonomic rows see of u: a tree, linear in u, constant while u is. `rate(X, twist)` is
        Ẋ, with the structure of X and linear in the twist, `bias(X, twist)` Ẍ while u is held. `ground()` is x of the
        ground, which is the block number `blocks` of the row pattern.
        """

    @property
    def dq(self) -> int:
        """Coordinates of a block."""
        return self.kinematics.dq

    @property
    def dv(self) -> int:
        """Velocities of a block."""
        return self.kinematics.dv

    def _blocks(self, q: Coordinates, v: Velocities):
        """q and v, one row per block; a block may be empty, where nothing can move."""
        return self.split(q)[0].reshape(self.pattern.blocks, self.dq), v.reshape(self.pattern.blocks, self.dv)

    def qdot(self, q, v):
        moving = jax.vmap(self.kinematics.qdot)(*self._blocks(q, v)).ravel()
        return self.and_states(moving, jnp.zeros(self.control.size))

    def retract(self, q, delta):
        return self.and_states(jax.vmap(self.kinematics.retract)(*self._blocks(q, delta)).ravel(), self.split(q)[1])

    def position_residual(self, t, q):
        return self.timed(t).position_rows(t, self.places(q))

    def position_rows(self, t: Scalar, places) -> HolonomicRows:
        """Φ from the places of the blocks."""
        out = [f.rows_of(f.position, t, places) for f in self.families if f.position is not None]
        return jnp.concatenate(out)[self._order(True)] if out else jnp.zeros(0)

    def motion_residual(self, t, q, v):
        places = self.places(q)
        return self.timed(t).motion_rows(t, places, self.twists(places, v))

    def motion_rows(self, t: Scalar, places, twists) -> MotionRows:
        """The nonholonomic rows from the places and twists of the blocks."""
        out = [f.rows_of(f.motion, t, places, twists) for f in self.families if f.motion is not None]
        return jnp.concatenate(out)[self._order(False)] if out else jnp.zeros(0)

    def places(self, q: Coordinates):
        """The places of all blocks, stacked, with the ground's last."""
        K = self.kinematics
        return jax.vmap(K.place)(jnp.concatenate([self.split(q)[0].reshape(-1, K.dq), K.ground()[None]]))

    def twists(self, places, v: Velocities):
        """The twists of all blocks, stacked, with the ground's (zero) last."""
        K = self.kinematics
        return jax.vmap(K.twist)(places, jnp.concatenate([v.reshape(-1, K.dv), jnp.zeros((1, K.dv))]))

    def _order(self, holonomic: bool) -> np.ndarray:
        """Families' rows, one after the other → the order of C."""
        indices = []
        for f in self.families:
            rows = f.group.rows[:, : f.holonomic] if holonomic else f.group.rows[:, f.holonomic :]
            indices.append(rows.ravel())
        return np.argsort(np.concatenate(indices), kind="stable")

    def names(self) -> tuple[str, ...]:
        return (*super().names(), *(n for f in self.families for n in f.names))

    @property
    def row_families(self) -> tuple[Family, ...]:
        return self.families

    def with_rows_of(self, name, change):
        rows = self.owner_named(name).rows
        masks = [np.isin(f.group.rows, rows) for f in self.families]
        new = tuple(change(f, mine) if mine.any() else f for f, mine in zip(self.families, masks, strict=True))
        # not through __init__, which a user's system may have of its own
        return eqx.tree_at(lambda s: s.families, self, new, is_leaf=lambda x: isinstance(x, Family))

    # ---- what the equations of motion need -----------------------------------------------------------------

    def terms(self, t, q, v) -> Terms:
        places = self.places(q)
        constraints = self.timed(t).constraints(t, places, self.twists(places, v))
        return Terms(self.mass(t, q), self.force(t, q, v), constraints, self.local(t, q))

    def constraints(self, t, places, twists) -> Constraints:
        """Φ, C, φ, Γ of blocks at given places and with given motion."""
        motion = _Motion(self, places, twists)
        parts = [_family_terms(f, t, motion) for f in self.families]
        Phi, data, phi, Gamma = ([p[k] for p in parts] for k in range(4))
        order = self.pattern.row_order
        return Constraints(
            _in_order(Phi, self._order(True)) if Phi else jnp.zeros(0),
            BlockRows(self.pattern, jnp.concatenate(data) if data else jnp.zeros(0)),
            _in_order(phi, order),
            _in_order(Gamma, order),
        )

    def residuals(self, t, q, v):
        places = self.places(q)
        return self.timed(t).residuals_at(t, places, self.twists(places, v))

    def residuals_at(self, t, places, twists) -> tuple[HolonomicRows, Rows]:
        """Φ and φ of blocks at given places and with given motion."""
        motion = _Motion(self, places, twists)
        Phi, phi = [], []
        for f in self.families:
            at, twists, rates = (f.gather(table) for table in (motion.places, motion.twists, motion.rates))
            positions, velocities = jax.vmap(functools.partial(_velocity_residual, f, t))(at, twists, rates, f.p)
            Phi.append(positions.ravel())
            phi.append(velocities.ravel())
        return _in_order(Phi, self._order(True)), _in_order(phi, self.pattern.row_order)

    def matrices(self, t, q, joints=False):
        places = self.places(q)
        rows, b = self.timed(t).jacobian(t, places, self.twists(places, jnp.zeros(self.n)))
        factors = self.joint_factors(q, rows) if joints else None
        return self.mass(t, q), rows.dense(), b, self.local(t, q) if factors is None else factors

    def jacobian(self, t, places, twists) -> tuple[BlockRows, Rows]:
        """C, and φ with it: b where the blocks are at rest."""
        motion = _Motion(self, places, twists)
        data, phi = [], []
        for f in self.families:
            places, twists, rates, units = (
                f.gather(x) for x in (motion.places, motion.twists, motion.rates, motion.units)
            )
            data.append(jax.vmap(functools.partial(_jacobian, f, t))(places, twists, units, f.p).ravel())
            phi.append(jax.vmap(functools.partial(_velocity_residual, f, t))(places, twists, rates, f.p)[1].ravel())
        rows = BlockRows(self.pattern, jnp.concatenate(data) if data else jnp.zeros(0))
        return rows, _in_order(phi, self.pattern.row_order)

    def local(self, t: Scalar, q: Coordinates) -> Local | None:
        """C = Ĉ J, where the system provides the factors."""
        return None

    def joint_factors(self, q: Coordinates, rows: BlockRows) -> Local | None:
        """C = Ĉ J of a machine's joints, where there are some."""
        return None


def local_factors(system: RowSystem, points, t, q, p) -> Local:
    """J = ∂g/∂q N and Ĉ = ∂f̂/∂x, point by point [Blajer, Bestle, Schiehlen 1994, eqs. 7, 10, 11]."""
    N = jax.vmap(lambda e: system.kinematics.qdot(q, e), out_axes=1)(jnp.eye(system.n))
    J, Chat, Dhat = [], [], []
    for point in points:
        g, x = point.local(p), point.local(p)(q)
        J.append(jax.jacfwd(g)(q) @ N)
        Chat.append(jax.jacfwd(lambda x, point=point: point.rows(t, x, p))(x))
        Dhat.append(None if point.directions is None else jnp.asarray(point.directions(t, x), float))
    known = all(d is not None for d in Dhat)
    diagonal = jax.scipy.linalg.block_diag
    return Local(jnp.concatenate(J), diagonal(*Chat), diagonal(*Dhat) if known else None)


class _Motion:
    """Where all blocks are and how they move, stacked, once for all families: X, twist, Ẋ, Ẍ (u held)."""

    def __init__(self, system: RowSystem, places, twists):
        self.kinematics = system.kinematics
        self.places, self.twists = places, twists
        self.rates = jax.vmap(self.kinematics.rate)(self.places, self.twists)

    @functools.cached_property
    def biases(self):
        return jax.vmap(self.kinematics.bias)(self.places, self.twists)

    @functools.cached_property
    def units(self):
        """Twist and Ẋ for each unit velocity of each block: leaves (blocks + 1, dv, …)."""
        K = self.kinematics

        def one(place, e):
            twist = K.twist(place, e)
            return twist, K.rate(place, twist)

        return jax.vmap(lambda place: jax.vmap(lambda e: one(place, e))(jnp.eye(K.dv)))(self.places)


def _velocity_residual(f: Family, t, places, twists, rates, p) -> tuple[Array, Array]:
    """(Φ, φ) of one member: holonomic rows differentiated along (1, Ẋ), then the nonholonomic rows."""
    Phi, out = jnp.zeros(0), []
    position = f.position
    if position is not None:
        Phi, rate = jax.jvp(lambda t, X: position(t, X, p), (t, places), (jnp.ones_like(t), rates))
        out.append(rate)
    if f.motion is not None:
        out.append(f.motion(t, places, twists, p))
    return Phi, jnp.concatenate(out) if out else jnp.zeros(0)


def _family_terms(f: Family, t, motion: _Motion):
    """Φ, C (flat), φ, Γ of all members of a family."""

    def one(places, twists, rates, biases, units, p):
        # φ and its derivative along the motion, velocities held: X moves by Ẋ, Ẋ by Ẍ, the twist stays
        def phi(t, X, rates):
            return _velocity_residual(f, t, X, twists, rates, p)[::-1]

        (value, Phi), (rate, _) = jax.jvp(phi, (t, places, rates), (jnp.ones_like(t), rates, biases))
        return Phi, _jacobian(f, t, places, twists, units, p), value, -rate

    places, twists, rates = f.gather(motion.places), f.gather(motion.twists), f.gather(motion.rates)
    biases, units = f.gather(motion.biases), f.gather(motion.units)
    Phi, C, value, Gamma = jax.vmap(one)(places, twists, rates, biases, units, f.p)
    return Phi.ravel(), C.ravel(), value.ravel(), Gamma.ravel()


def _jacobian(f: Family, t, places, twists, units, p) -> Float[Array, "r k d"]:
    """∂φ/∂u of one member: the rows' derivative along each unit velocity of each of its blocks."""
    parts = []
    position, motion = f.position, f.motion
    if position is None and motion is None:  # an open contact
        return jnp.zeros((0, len(units), jax.tree_util.tree_leaves(units)[0].shape[0]))
    if position is not None:
        _, along = jax.linearize(lambda X: position(t, X, p), places)
        parts.append(_on_units(along, [rate for _, rate in units]))
    if motion is not None:
        _, along = jax.linearize(lambda twists: motion(t, places, twists, p), twists)
        parts.append(_on_units(along, [twist for twist, _ in units]))
    return jnp.concatenate(parts)


def _on_units(along, units: list) -> Float[Array, "r k d"]:
    """A linear function of k slots on the unit vectors of each slot, all in one call: it is traced once."""
    count = len(units)

    def alone(k):  # the unit vectors of slot k, zeros for those of the others
        def among(e):
            before, after = (jnp.zeros((n * len(e), *e.shape[1:])) for n in (k, count - 1 - k))
            return jnp.concatenate([before, e, after])

        return jax.tree_util.tree_map(among, units[k])

    columns = jax.vmap(along, out_axes=1)([alone(k) for k in range(count)])
    return columns.reshape(len(columns), count, -1)


def _in_order(parts: list[Array], order) -> Array:
    whole = jnp.concatenate(parts) if parts else jnp.zeros(0)
    if len(order) and (order == range(len(order))).all():
        return whole  # already in the order of C: no gather needed
    return whole[order]


# ---- families with some of their rows removed ---------------------------------------------------------------------


def some_rows(families: Sequence[Family], number: dict[int, int]) -> tuple[Family, ...]:
    """Each family split into parts whose members keep the same rows; `number` gives those kept their new numbers."""
    out = []
    for f in families:
        parts: dict[tuple[bool, ...], list[int]] = defaultdict(list)
        for k, rows in enumerate(f.group.rows):
            parts[tuple(int(r) in number for r in rows)].append(k)
        for keep, members in parts.items():
            if any(keep):
                out.append(_part(f, np.array(keep), members, number))
    return tuple(out)


def _part(f: Family, keep: np.ndarray, members: list[int], number: dict[int, int]) -> Family:
    rows = [[number[int(r)] for r in f.group.rows[k][keep]] for k in members]
    upper, lower = keep[: f.holonomic], keep[f.holonomic :]
    names = tuple(f.names[k] for k in members)
    group = Group(rows, f.group.columns[members])
    p = {key: value[np.array(members)] for key, value in f.p.items()}
    counts = int(upper.sum()), int(lower.sum())
    return Family(f.nature, names, group, *counts, _some(f.position, upper), _some(f.motion, lower), p, f.axes)


def _some(rows: Callable | None, keep: np.ndarray) -> Callable | None:
    if rows is None or not keep.any():
        return None
    return rows if keep.all() else SomeRows(rows, tuple(int(k) for k in np.flatnonzero(keep)))


@dataclass(frozen=True)
class SomeRows:
    """Some of the rows that a row function states."""

    rows: Callable
    keep: tuple[int, ...]

    def __call__(self, *arguments):
        return self.rows(*arguments)[np.array(self.keep)]
