"""3 · the narrow waist: `Equations` and `assemble`; the only file that differentiates constraints.

For each row family one function is enough, the velocity residual φ(t,q,v) = C v + b: for holonomic rows the
time derivative of Φ, for the others what the family states. Then

    C = ∂φ/∂v        b = φ(t,q,0) = φ − C v        Γ = −dφ/dt along the motion with v held = −(Ċ v + ḃ)

all by automatic differentiation, member by member under vmap. Ċ v is never dropped. Rows are functions of
places X (for a body its frame); a system says how places move, Ẋ and Ẍ for held v, so that the compiler
differentiates short row functions and not the way from a quaternion to a rotation matrix.
Equations (3.1)–(3.7): docs/theory/equations.md.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert._results import DalembertError
from dalembert._typing import Coordinates, Rows, Scalar, Velocities
from dalembert.complements import Local
from dalembert.linalg import (
    EPS,
    KLU,
    RANK_TOLERANCE,
    BlockMass,
    BlockRows,
    DenseSaddle,
    Dependence,
    SparseSaddle,
    factorise,
)
from dalembert.loads import Loads, bearing_names, solve_loads
from dalembert.systems import AbsoluteSystem, AbstractSystem, Family, Named, TreeSystem, compiled

KEPT = 1e-10
"""Share of its size in absolute coordinates below which a row is not felt by any joint coordinate."""


ROUNDED = 3e-16
"""Violation, relative to the machine, that is rounding: it is left alone."""
SOFT, SOFTEST = 1.0, 1e-9
"""Damping over violation, and the largest damping."""
LEAST = 1e-11
"""Least damping of a correction on the way. A state is known to eps/σ and its tangent to eps/σ² along a direction of
size σ; along one that is always so weak a violation is as small as σ itself."""


def softened(gap: Scalar, least: Scalar | float = EPS, usual: Scalar | float = 1.0) -> Scalar:
    """The damping of a correction of a state that is off its constraints by `gap`, for rows of a `usual` margin."""
    return jnp.maximum(EPS, usual * jnp.maximum(least, jnp.minimum(SOFT * gap, SOFTEST)))


class Equations(Named):
    """All that any formulation needs at one instant: M v̇ = h + Cᵀλ, C v̇ = Γ, and the residuals Φ, φ.

    `mass` and `rows` are the structured M and C; `M` and `C` are the same as dense arrays, for small systems.
    """

    t: Scalar
    q: Coordinates
    v: Velocities
    mass: BlockMass
    force: Velocities
    Phi: Float[Array, " holonomic"]
    rows: BlockRows
    phi: Rows
    Gamma: Rows
    klu: KLU | None
    local: Local | None = None  # C = Ĉ J, where the system says how its rows factor
    felt: Rows | None = None  # in joint coordinates: the share of each row, as it is on bodies, that the joints feel
    undecided: str = eqx.field(static=True, default="")  # friction whose loads nobody has looked at yet
    may_come_out: ClassVar[bool] = True

    def renamed(self, to):
        return dataclasses.replace(self, undecided=to(self.undecided))

    @property
    def h(self) -> Velocities:
        """The applied forces and velocity-dependent inertia terms."""
        if self.undecided:
            raise DalembertError(
                f"Friction '{self.undecided}' depends on a joint's load, and nobody has looked yet whether that load "
                "is unique. Say system = da.decide_loads(system) first, outside jit, vmap and grad."
            )
        return self.force

    @property
    def M(self) -> Float[Array, "n n"]:
        return self.mass.dense()

    @property
    def C(self) -> Float[Array, "m n"]:
        return self.rows.dense()

    @property
    def b(self) -> Rows:
        return self.phi - self.rows.mv(self.v)

    def dependence(self, rows=slice(None), tolerance: float = RANK_TOLERANCE) -> Dependence:
        """Which rows depend on each other, all or some of them; on the host."""
        felt = None if self.felt is None else np.asarray(self.felt)[rows]
        return Dependence(np.asarray(self.C)[rows], np.asarray(self.mass.blocks), tolerance, felt)

    def violations(self, scale: Velocities) -> tuple[Scalar, Scalar]:
        """How far the state is off its constraints in position and in velocity: Φ and φ in the mass metric, relative
        to the machine (`scale`) and to its speed.

        So measured they compare with singular values of the rows: a violation e turns their directions by e/σ.
        """
        Phi, phi, v = self.Phi, self.phi, self.v
        S = self._row_scale()
        size = jnp.sqrt(scale @ self.mass.mv(scale))
        speed = jnp.sqrt(jnp.abs(v @ self.mass.mv(v)))
        position = jnp.max(jnp.abs(S[: len(Phi)] * Phi), initial=0.0) / size
        velocity = jnp.max(jnp.abs(S * phi), initial=0.0) / (size + speed)
        return jax.lax.stop_gradient((position, velocity))

    def violation(self, scale: Velocities) -> Scalar:
        """The larger of `violations`."""
        return jnp.maximum(*self.violations(scale))

    def corrected(
        self, system: AbstractSystem, gap: Scalar, wanted, usual: Scalar | float = 1.0
    ) -> tuple[Coordinates, Velocities]:
        """(q, v) after one correction towards the constraints, where `wanted`.

        Levenberg–Marquardt in the mass metric: a damping in proportion to what is open, and to the `usual` margin of
        the rows, keeps the step bounded beside a singular position and lets it converge quadratically elsewhere.
        """
        factor = self.factorise(shift=softened(gap, LEAST, usual))
        if len(self.Phi) == len(self.phi):  # one factorisation serves both
            dq, dv = -factor.correct(jnp.stack([self.Phi, self.phi], axis=1)).T
        else:
            positions = factor.leading(len(self.Phi))
            dq = -positions.correct(self.Phi[:, None])[:, 0] if len(self.Phi) else jnp.zeros(system.n)
            dv = -factor.correct(self.phi[:, None])[:, 0]
        position, velocity = self.violations(system.scale())
        q = system.retract(self.q, jnp.where(wanted & (position > ROUNDED), dq, 0.0))
        return jnp.where(wanted, q, self.q), jnp.where(wanted & (velocity > ROUNDED), self.v + dv, self.v)

    def _row_scale(self) -> Rows:
        """S: a row over it has length one (or `felt`) in the mass metric."""
        squares = self.rows.weighted_square(self.mass.inverse)
        return (1.0 if self.felt is None else self.felt) / jnp.sqrt(jnp.where(squares > 0, squares, 1.0))

    def factorise(self, kept: Rows | None = None, **options) -> DenseSaddle | SparseSaddle:
        """The factorised saddle-point problem of M and C; with `kept` (1 or 0 a row) of some rows only."""
        felt = kept if self.felt is None else self.felt if kept is None else self.felt * kept
        return factorise(self.mass, self.rows, self.klu, felt, **options)


def assemble(system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> Equations:
    """The equations of motion of a system at (t, q, v)."""
    return _assemble(system, jnp.asarray(t, float), q, v)


# compiled, and so traced once for all who call it: tracing is most of what a person waits for
@compiled
def _assemble(system: AbstractSystem, t, q, v) -> Equations:
    if isinstance(system, TreeSystem):
        return _assemble_tree(system, t, q, v)
    equations = _without_loads(system, t, q, v)
    if not (isinstance(system, AbsoluteSystem) and system.bearings):
        return equations
    if not system.loads_decided:
        return dataclasses.replace(equations, undecided=bearing_names(system)[0])
    return dataclasses.replace(equations, force=equations.force + _loads(system, equations).force)


def _loads(system: AbsoluteSystem, equations: Equations) -> Loads:
    """The loads of all bearings; those of teeth and belts press on the side that their own force decides."""
    found = solve_loads(system, equations)
    for _ in range(2 if system.sided else 0):  # at first without knowing the sides, then without friction's share
        system = system.with_sides(bearing_sides(found.lam))
        rows = _without_loads(system, equations.t, equations.q, equations.v)
        found = solve_loads(system, rows)
    return found


def bearing_sides(lam: Rows) -> Rows:
    """+1 or −1 for each row, by the sign of its multiplier: see `AbstractSystem.with_sides`."""
    return jax.lax.stop_gradient(jnp.where(lam < 0, -1.0, 1.0))


def _without_loads(system: AbstractSystem, t, q, v) -> Equations:
    places = system.places(q)
    Phi, rows, phi, Gamma = _rows(system, t, places, system.twists(places, v))
    local = _local(system, t, q)
    return Equations(t, q, v, system.mass(t, q), system.force(t, q, v), Phi, rows, phi, Gamma, system.klu, local)


def _rows(system: AbstractSystem, t, places, twists) -> tuple[Array, BlockRows, Array, Array]:
    """Φ, C, φ, Γ of blocks at given places and with given motion."""
    motion = _Motion(system, places, twists)
    parts = [_family_terms(f, t, motion) for f in system.families]
    Phi, data, phi, Gamma = ([p[k] for p in parts] for k in range(4))
    order = system.pattern.row_order
    return (
        _in_order(Phi, system._order(True)) if Phi else jnp.zeros(0),
        BlockRows(system.pattern, jnp.concatenate(data) if data else jnp.zeros(0)),
        _in_order(phi, order),
        _in_order(Gamma, order),
    )


def _assemble_tree(system: TreeSystem, t, q, v) -> Equations:
    """The rows of the absolute system, carried to joint velocities: C = C_abs J, Γ = Γ_abs − C_abs J̇u."""
    at = system.carried(q, v)
    Phi, rows, phi, Gamma = _rows(system.carrier, t, at.places, at.twists)
    C, felt = _through_tree(system, at.chains, rows)
    Gamma = jnp.where(jnp.any(C != 0.0, axis=1), Gamma - rows.mv(at.bias.ravel()), 0.0)
    mass, h = BlockMass.dense_one(system.mass_matrix(at.chains)), system.bias_force(t, at)
    undecided, absolute = "", system.absolute
    if absolute.bearings and absolute.loads_decided:
        # the loads of all joints, carrying ones too, are found on the bodies: dearer than the rest
        loads = _loads(absolute, _without_loads(absolute, t, *system.lift(q, v)))
        h = h + system.pull_back(at.chains, loads.force.reshape(-1, absolute.dv))
    elif absolute.bearings:
        undecided = bearing_names(absolute)[0]
    rows = BlockRows(system.pattern, C.ravel())
    return Equations(t, q, v, mass, h, Phi, rows, phi, Gamma, None, None, felt, undecided)


def _through_tree(system: TreeSystem, chains, rows: BlockRows) -> tuple[Float[Array, "m n"], Rows]:
    """C_abs J: each row's shares of its bodies as spatial forces, felt by the axes above those bodies.

    And how much of each row they feel (at most 1): at a singular position a whole row may vanish, which must not be
    scaled up again to a direction made of rounding.
    """
    moved = jnp.concatenate([jnp.asarray(system.tree.moved_by), jnp.zeros((1, system.dv))])
    R = jnp.concatenate([chains.R[system.tree.bodies], jnp.eye(3)[None]])
    r = jnp.concatenate([chains.p[system.tree.bodies] - chains.centre, jnp.zeros((1, 3))])
    out = []
    for group, block in zip(rows.pattern.groups, rows.member_blocks(), strict=True):
        b = group.columns

        def row(shares, b, R, r):  # shares (k, dv) of one row
            forces = jax.vmap(system.spatial_force)(R[b], r[b], shares)
            return jnp.sum(moved[b] * (forces @ chains.S.T), axis=0)

        one = jax.vmap(jax.vmap(row, (0, None, None, None)), (0, 0, None, None))
        out.append(one(block, b, R, r).reshape(group.rows.size, system.dv))  # dv is 0 where nothing can move
    if not out:
        return jnp.zeros((0, system.dv)), jnp.zeros(0)
    C = jnp.concatenate(out)[rows.pattern.row_order]
    # a row that the tree itself keeps (a plane loop in space) is rounding: make it zero, or it would be taken for a row
    own = jnp.sqrt(jnp.sum((C * system.scale()) ** 2, axis=1))
    scale = system.carrier.scale().reshape(-1, system.carrier.dv)
    whole = jnp.sqrt(rows.weighted_square(scale[:, :, None] ** 2 * jnp.eye(scale.shape[1])))
    felt = jax.lax.stop_gradient(jnp.minimum(own / jnp.where(whole > 0, whole, 1.0), 1.0))
    return jnp.where((felt > KEPT)[:, None], C, 0.0), felt


class Matrices(eqx.Module):
    """What depends on (t, q) alone: M, C, b, and C = Ĉ J where the system says so; or the rates of all these."""

    mass: BlockMass
    C: Float[Array, "m n"]
    b: Rows
    local: Local | None

    def rates(self, system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> Matrices:
        """Ṁ, Ċ, ḃ (and Ĵ, …) along the motion (1, N v)."""
        along = (jnp.ones(()), system.qdot(q, v))
        return jax.jvp(lambda t, q: matrices(system, t, q), (jnp.asarray(t, float), q), along)[1]


@compiled
def matrices(system: AbstractSystem, t: Scalar, q: Coordinates, joints: bool = False) -> Matrices:
    """M, C and b at (t, q), dense, with derivatives: what a complement is made of; with `joints` C = Ĉ J of a model."""
    t = jnp.asarray(t, float)
    if isinstance(system, TreeSystem):
        at = system.carried(q, jnp.zeros(system.n))
        _, rows, b, _ = _rows(system.carrier, t, at.places, at.twists)
        return Matrices(
            BlockMass.dense_one(system.mass_matrix(at.chains)), _through_tree(system, at.chains, rows)[0], b, None
        )
    places = system.places(q)
    motion = _Motion(system, places, system.twists(places, jnp.zeros(system.n)))
    data, phi = [], []
    for f in system.families:
        places, twists, rates, units = (f.gather(x) for x in (motion.places, motion.twists, motion.rates, motion.units))
        data.append(jax.vmap(functools.partial(_jacobian, f, t))(places, twists, units, f.p).ravel())
        phi.append(jax.vmap(functools.partial(_velocity_residual, f, t))(places, twists, rates, f.p)[1].ravel())
    rows = BlockRows(system.pattern, jnp.concatenate(data) if data else jnp.zeros(0))
    b = _in_order(phi, system.pattern.row_order)
    factored = joints and isinstance(system, AbsoluteSystem)
    local = joint_factors(system, q, rows) if factored else _local(system, t, q)
    return Matrices(system.mass(t, q), rows.dense(), b, local)


def joint_factors(system: AbsoluteSystem, q: Coordinates, rows: BlockRows) -> Local:
    """C = Ĉ J for the joints of a model [Blajer, Bestle, Schiehlen 1994, eqs. 7, 10, 11].

    J (κ × n) maps v to the relative twist at each joint: velocity and angular velocity of marker j as seen from i,
    along i's axes. Ĉ (m × κ) says which of it each row locks, so that Ĉᵀλ are the wrenches on bodies j in the joints'
    frames. Joints come family by family. Rows over other sets of bodies (couplings, your own) are their own local
    rates: J = C, Ĉ = I. C = Ĉ J where the joints are closed.
    """
    places, C = system.places(q), rows.dense()
    J, Chat, order = [jnp.zeros((0, system.n))], [], [np.zeros(0, int)]
    for f, block in zip(system.families, rows.member_blocks(), strict=True):
        own, columns = f.group.rows, f.group.columns
        order.append(own.ravel())
        if "point_j" not in f.p or columns.shape[1] != 2:
            J.append(C[own.ravel()])
            Chat.append(jnp.eye(own.size))
            continue
        one = functools.partial(_joint_member, system)
        motion, locked = jax.vmap(one)(f.gather(places), f.p, block, system.j_is_ground(f))
        count, width = motion.shape[0], motion.shape[2]
        whole = jnp.zeros((count, width, system.pattern.blocks + 1, system.dv))
        for slot in range(2):
            whole = whole.at[jnp.arange(count), :, columns[:, slot]].add(motion[:, slot])
        J.append(whole[:, :, :-1].reshape(count * width, system.n))
        Chat.append(_block_diagonal(list(locked)))
    into = np.argsort(np.concatenate(order), kind="stable")
    return Local(jnp.concatenate(J), _block_diagonal(Chat)[into] if Chat else jnp.zeros((0, 0)), None, True)


def _joint_member(system: AbsoluteSystem, places, p, block, on_i) -> tuple[Array, Array]:
    """One joint: the relative twist per unit velocity of each body (2, w, dv), and what each row locks of it (r, w)."""

    def along(slot, e):
        twists = [system.block_twist(place, e * (k == slot)) for k, place in enumerate(places)]
        return system.relative_twist(places, p, twists)

    def locked(share):
        force, torque, R = system.wrench_on_j(places, p, share, on_i)
        return jnp.concatenate([R.T @ force, torque if R.shape[0] == 2 else R.T @ torque])

    units = jnp.eye(system.dv)
    motion = [jax.vmap(lambda e, k=k: along(k, e), out_axes=1)(units) for k in range(2)]
    return jnp.stack(motion), jax.vmap(locked)(block)


def _local(system: AbstractSystem, t, q) -> Local | None:
    """J = ∂g/∂q N and Ĉ = ∂f̂/∂x, block by block [Blajer, Bestle, Schiehlen 1994, eqs. 7, 10, 11]."""
    points = getattr(system, "points", ())
    if not points:
        return None
    N = jax.vmap(lambda e: system.qdot(q, e), out_axes=1)(jnp.eye(system.n))
    p = system.parameters()
    J, Chat, Dhat = [], [], []
    for point in points:
        g, x = point.local(p), point.local(p)(q)
        J.append(jax.jacfwd(g)(q) @ N)
        Chat.append(jax.jacfwd(lambda x, point=point: point.rows(t, x, p))(x))
        Dhat.append(None if point.directions is None else jnp.asarray(point.directions(t, x), float))
    known = all(d is not None for d in Dhat)
    return Local(jnp.concatenate(J), _block_diagonal(Chat), _block_diagonal(Dhat) if known else None)


def _block_diagonal(blocks: list[Array]) -> Array:
    return jax.scipy.linalg.block_diag(*blocks)


def residuals(system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> tuple[Rows, Rows]:
    """Φ(t, q) and φ(t, q, v) without C: what a correction needs after the directions are frozen."""
    if system.m == 0:
        return jnp.zeros(0), jnp.zeros(0)
    return _residuals(system, jnp.asarray(t, float), q, v)


@compiled
def _residuals(system: AbstractSystem, t, q, v) -> tuple[Rows, Rows]:
    if isinstance(system, TreeSystem):
        at = system.carried(q, v)
        system, motion = system.carrier, _Motion(system.carrier, at.places, at.twists)
    else:
        places = system.places(q)
        motion = _Motion(system, places, system.twists(places, v))
    Phi, phi = [], []
    for f in system.families:
        at, twists, rates = (f.gather(table) for table in (motion.places, motion.twists, motion.rates))
        positions, velocities = jax.vmap(functools.partial(_velocity_residual, f, t))(at, twists, rates, f.p)
        Phi.append(positions.ravel())
        phi.append(velocities.ravel())
    return _in_order(Phi, system._order(True)), _in_order(phi, system.pattern.row_order)


class _Motion:
    """Where all blocks are and how they move, stacked, once for all families: X, twist, Ẋ, Ẍ (u held)."""

    def __init__(self, system: AbstractSystem, places, twists):
        self.system = system
        self.places, self.twists = places, twists
        self.rates = jax.vmap(system.block_rate)(self.places, self.twists)

    @functools.cached_property
    def biases(self):
        return jax.vmap(self.system.block_bias)(self.places, self.twists)

    @functools.cached_property
    def units(self):
        """Twist and Ẋ for each unit velocity of each block: leaves (blocks + 1, dv, …)."""
        system = self.system

        def one(place, e):
            twist = system.block_twist(place, e)
            return twist, system.block_rate(place, twist)

        return jax.vmap(lambda place: jax.vmap(lambda e: one(place, e))(jnp.eye(system.dv)))(self.places)


def _velocity_residual(f: Family, t, places, twists, rates, p) -> tuple[Array, Array]:
    """(Φ, φ) of one member: holonomic rows differentiated along (1, Ẋ), then the nonholonomic rows."""
    Phi, out = jnp.zeros(0), []
    position = f.position
    if position is not None:
        Phi, rate = jax.jvp(lambda t, X: position(t, X, p), (t, places), (jnp.ones_like(t), rates))
        out.append(rate)
    if f.motion is not None:
        out.append(f.motion(t, places, twists, p))
    return Phi, jnp.concatenate(out)


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
        return whole  # already in the order of C: spare the gather
    return whole[order]
