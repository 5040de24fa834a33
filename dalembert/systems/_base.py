"""2 · systems: the interface of a machine in coordinates, and `FunctionSystem`, the user's own M, h, Φ, φ."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert._results import DalembertError, tell_single_precision
from dalembert._typing import Coordinates, Rows, Scalar, Velocities, is_traced
from dalembert.linalg import KLU, BlockMass, BlockPattern, Group
from dalembert.systems._names import ANONYMOUS, Named, Renaming, with_fields
from dalembert.systems._precision import in_double
from dalembert.systems._user import user_mistake


class Family(eqx.Module):
    """Constraint rows of one kind, for all its members at once.

    A member touches k coordinate blocks (bodies). `position(t, places, p)` gives its holonomic rows from the
    places of its k blocks, a list; `motion(t, places, twists, p)` its nonholonomic rows, linear in the twists.
    `p` holds the members' parameters, stacked along the first axis.
    """

    kind: str = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    group: Group = eqx.field(static=True)
    holonomic: int = eqx.field(static=True)
    nonholonomic: int = eqx.field(static=True)
    position: Callable | None = eqx.field(static=True)
    motion: Callable | None = eqx.field(static=True)
    p: dict[str, Array]

    def gather(self, table) -> list:
        """A table with a row a block → for each of the k slots of a member, the members' rows, stacked."""
        slots = self.group.columns.T
        # as plain as JAX can say it: there are dozens of these in every program
        plain = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
        return [jax.tree_util.tree_map(lambda a, k=k: jnp.asarray(a).at[k].get(**plain), table) for k in slots]

    def rows_of(self, function: Callable, t, *tables):
        """One row function for all members, flat: member after member."""
        local = [self.gather(table) for table in tables]
        return jax.vmap(lambda *a: function(t, *a))(*local, self.p).ravel()

    def renamed(self, to: Renaming) -> Family:
        return with_fields(self, names=to.all(self.names))


@dataclass(frozen=True)
class RowOwner:
    """Which item owns which rows of C: its name, kind, and the indices (holonomic rows first)."""

    name: str
    kind: str
    rows: tuple[int, ...]

    def renamed(self, to: Renaming) -> RowOwner:
        return RowOwner(to(self.name), self.kind, self.rows)

    @property
    def drives(self) -> bool:
        """Whether it prescribes a motion in time."""
        return is_driver(self.kind)

    @property
    def of_the_user(self) -> bool:
        """Whether its rows are the user's own functions."""
        return is_own_rows(self.kind)


def is_driver(kind: str) -> bool:
    """Whether a kind of constraint prescribes a motion in time: "driver:…", "speed_driver:…", "point_driver", …"""
    return kind.split(":")[0].endswith("driver")


def is_own_rows(kind: str) -> bool:
    """Whether a kind of constraint is the user's own functions: of a model, or of a `FunctionSystem`."""
    return kind in ("holonomic", "pfaffian", "rows")


class AbstractSystem(Named):
    """A machine in coordinates: M(t,q) v̇ = h(t,q,v) + Cᵀλ, Φ(t,q) = 0, φ(t,q,v) = C v + b = 0, q̇ = N(q) v.

    Coordinates come in `blocks` alike blocks (bodies) of dq coordinates and dv velocities; M is block-diagonal
    and each constraint row touches few blocks. A system with one block is a plain dense system.
    """

    families: eqx.AbstractVar[tuple[Family, ...]]
    pattern: eqx.AbstractVar[BlockPattern]
    m_holonomic: eqx.AbstractVar[int]
    owners: eqx.AbstractVar[tuple[RowOwner, ...]]
    q0: eqx.AbstractVar[Coordinates]
    v0: eqx.AbstractVar[Velocities]
    name: eqx.AbstractVar[str]
    klu: eqx.AbstractVar[KLU | None]

    @property
    def constant_mass(self) -> bool:
        """Whether M is the same at all (t, q): then no time is spent on its rate."""
        return False

    @property
    def scleronomic(self) -> bool:
        """Whether no row moves by itself, b = 0 whatever the numbers are: then the rows do no work."""
        return self.m == 0

    @property
    @abstractmethod
    def dq(self) -> int:
        """Coordinates of a block."""

    @property
    @abstractmethod
    def dv(self) -> int:
        """Velocities of a block."""

    @property
    def machine(self) -> AbstractSystem:
        """The system in which bodies and reactions are stated: itself, or in joint coordinates that of all joints."""
        return self

    @property
    def wound(self) -> tuple[str, ...]:
        """The laws on an angle that is only known within half a turn."""
        return ()

    def windings(self, t: Scalar, q: Coordinates) -> Float[Array, " laws"]:
        """How far these angles are from where each law starts from."""
        return jnp.zeros(0)

    @property
    def sided(self) -> tuple[tuple[str, int], ...]:
        """Name and row (of `machine`) of teeth and belts: they bear on one of two sides, by the multiplier's sign."""
        return ()

    def with_sides(self, sides: Rows) -> AbstractSystem:
        """The system with the radial forces of its teeth and belts on these sides (+1, −1; 0: left out), one number for
        each row of `machine`. Where the wheels' centres are held this changes who bears what, not the motion."""
        return self

    @property
    def n(self) -> int:
        """Number of velocities."""
        return self.pattern.n

    @property
    def m(self) -> int:
        """Number of constraint rows, holonomic first."""
        return self.pattern.m

    @abstractmethod
    def mass(self, t: Scalar, q: Coordinates) -> BlockMass:
        """M(t, q), n × n, symmetric and positive definite, as diagonal blocks."""

    @abstractmethod
    def force(self, t: Scalar, q: Coordinates, v: Velocities) -> Velocities:
        """h(t, q, v): applied forces and velocity-dependent inertia terms, conjugate to v."""

    @abstractmethod
    def potential(self, t: Scalar, q: Coordinates) -> Scalar:
        """Energy stored by gravity and springs; what it leaves out of h counts as work."""

    @abstractmethod
    def block_qdot(self, x: Float[Array, " dq"], u: Float[Array, " dv"]) -> Float[Array, " dq"]:
        """N(q) v for one block."""

    @abstractmethod
    def block_retract(self, x: Float[Array, " dq"], delta: Float[Array, " dv"]) -> Float[Array, " dq"]:
        """q ⊕ δ for one block: a small displacement given as a velocity times a unit of time."""

    @abstractmethod
    def block_place(self, x: Float[Array, " dq"]) -> Any:
        """What constraint rows see of one block's coordinates: a tree X(x), for a body its frame (p, R)."""

    @abstractmethod
    def block_twist(self, place, u: Float[Array, " dv"]):
        """What nonholonomic rows see of one block's velocities: a tree, linear in u, constant while u is."""

    @abstractmethod
    def block_rate(self, place, twist):
        """Ẋ, with the structure of X and linear in the twist."""

    @abstractmethod
    def block_bias(self, place, twist):
        """Ẍ while u is held."""

    @abstractmethod
    def fixed_block(self) -> Float[Array, " dq"]:
        """Coordinates of the ground, which is the block number `blocks` of the row pattern."""

    @abstractmethod
    def scale(self) -> Velocities:
        """A typical size of each velocity's displacement (a length for translations, 1 for angles)."""

    @abstractmethod
    def coordinate_scale(self) -> Coordinates:
        """The same for q."""

    @abstractmethod
    def parameters(self) -> dict[str, Array]:
        """All named parameters and their values."""

    @abstractmethod
    def replace(self, values: Mapping[str, object]) -> AbstractSystem:
        """A copy with some parameters changed; works under jit, vmap and grad and never recompiles."""

    def _blocks(self, q: Coordinates, v: Velocities):
        """q and v, a row a block; a block may be empty, where nothing can move."""
        return q.reshape(self.pattern.blocks, self.dq), v.reshape(self.pattern.blocks, self.dv)

    def qdot(self, q: Coordinates, v: Velocities) -> Coordinates:
        """q̇ = N(q) v."""
        return jax.vmap(self.block_qdot)(*self._blocks(q, v)).ravel()

    def retract(self, q: Coordinates, delta: Velocities) -> Coordinates:
        """q ⊕ δ, staying on unit quaternions."""
        return jax.vmap(self.block_retract)(*self._blocks(q, delta)).ravel()

    def position_residual(self, t: Scalar, q: Coordinates) -> Rows:
        """Φ(t, q): the holonomic rows."""
        return self.position_rows(t, self.places(q))

    def position_rows(self, t: Scalar, places) -> Rows:
        """Φ from the places of the blocks."""
        out = [f.rows_of(f.position, t, places) for f in self.families if f.position is not None]
        return jnp.concatenate(out)[self._order(True)] if out else jnp.zeros(0)

    def motion_residual(self, t: Scalar, q: Coordinates, v: Velocities) -> Rows:
        """Ψ(t, q) v + ψ(t, q): the nonholonomic rows."""
        places = self.places(q)
        return self.motion_rows(t, places, self.twists(places, v))

    def motion_rows(self, t: Scalar, places, twists) -> Rows:
        """The nonholonomic rows from the places and twists of the blocks."""
        out = [f.rows_of(f.motion, t, places, twists) for f in self.families if f.motion is not None]
        return jnp.concatenate(out)[self._order(False)] if out else jnp.zeros(0)

    def places(self, q: Coordinates):
        """The places of all blocks, stacked, with the ground's last."""
        return jax.vmap(self.block_place)(jnp.concatenate([q.reshape(-1, self.dq), self.fixed_block()[None]]))

    def twists(self, places, v: Velocities):
        """The twists of all blocks, stacked, with the ground's (zero) last."""
        return jax.vmap(self.block_twist)(places, jnp.concatenate([v.reshape(-1, self.dv), jnp.zeros((1, self.dv))]))

    def _order(self, holonomic: bool) -> np.ndarray:
        """Families' rows, one after the other → the order of C."""
        indices = []
        for f in self.families:
            rows = f.group.rows[:, : f.holonomic] if holonomic else f.group.rows[:, f.holonomic :]
            indices.append(rows.ravel())
        return np.argsort(np.concatenate(indices), kind="stable")

    def __repr__(self) -> str:
        return f"{type(self).__name__} '{self.name}': n = {self.n} velocities, m = {self.m} constraint rows"

    def owner_of(self, row: int) -> RowOwner:
        """The item that owns a row of C."""
        return next(o for o in self.owners if row in o.rows)

    def names(self) -> tuple[str, ...]:
        return (*(o.name for o in self.owners), *(n for f in self.families for n in f.names))


def renamed_owners(owners: tuple[RowOwner, ...], to: Renaming) -> tuple[RowOwner, ...]:
    """The owners of rows under other names."""
    return to.once(owners, lambda owners: tuple(o.renamed(to) for o in owners))


@dataclass(frozen=True)
class LocalPoint:
    """A constrained point: local coordinates x = g(q) and local constraints f̂(t, x) = 0.

    [Blajer, Bestle, Schiehlen 1994, eqs. 2, 3]. With parameters, both get them as a last argument. `directions(t, x)`
    gives D̂ (columns, Ĉ D̂ = 0) where you know it; it is found otherwise.
    """

    name: str
    coordinates: Callable
    constraint: Callable
    directions: Callable | None = None
    has_parameters: bool = False

    def local(self, p) -> Callable:
        """q ↦ x."""
        return (lambda q: jnp.asarray(self.coordinates(q, p))) if self.has_parameters else self.coordinates

    def rows(self, t, x, p):
        """f̂(t, x)."""
        return self.constraint(t, x, p) if self.has_parameters else self.constraint(t, x)


@dataclass(frozen=True)
class _LocalRows:
    """The holonomic rows of all constrained points, one after the other."""

    points: tuple[LocalPoint, ...]

    def __call__(self, t, q, p=None):
        return jnp.concatenate([point.rows(t, point.local(p)(q), p) for point in self.points])


_SIGNATURES = ("mass(t, q)", "force(t, q, v)", "position(t, q)", "motion(t, q, v)", "qdot(q, v)", "potential(t, q)")


class FunctionSystem(AbstractSystem):
    """Your own equations: M(t,q), h(t,q,v), Φ(t,q) and nonholonomic rows φ(t,q,v), as JAX functions.

    With `parameters` (a dict of arrays) every function gets them as a last argument p. `joints` groups the
    holonomic rows under names, `{"A": 2, "driver": 1}`; `motion_joints` does so for the nonholonomic rows.
    `scale` is a typical size of each coordinate (default 1): it makes the error control and the constraint
    tolerance free of units. Without `potential`, the work of h is booked as work. Dense; for tens of coordinates.
    Instead of `position`, `points` states the holonomic rows at constrained points in local coordinates (`LocalPoint`).
    """

    families: tuple[Family, ...]
    parameter_values: dict[str, Array]
    q0: Coordinates
    v0: Velocities
    size_scale: Velocities
    pattern: BlockPattern = eqx.field(static=True)
    m_holonomic: int = eqx.field(static=True)
    owners: tuple[RowOwner, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)
    functions: tuple[Callable | None, ...] = eqx.field(static=True)
    has_parameters: bool = eqx.field(static=True)
    points: tuple[LocalPoint, ...] = eqx.field(static=True)
    klu: None = None

    def __init__(
        self,
        mass: Callable,
        force: Callable,
        *,
        q0,
        v0=None,
        position: Callable | None = None,
        motion: Callable | None = None,
        qdot: Callable | None = None,
        potential: Callable | None = None,
        joints: Mapping[str, int] | None = None,
        motion_joints: Mapping[str, int] | None = None,
        parameters: Mapping[str, object] | None = None,
        scale=None,
        points: Sequence[LocalPoint] = (),
        name: str = "functions",
    ):
        self.name = name
        self.has_parameters = parameters is not None
        self.points = tuple(dataclasses.replace(p, has_parameters=self.has_parameters) for p in points)
        if self.points:
            if position is not None:
                raise DalembertError(f"FunctionSystem '{name}': give position or points, not both.")
            position = _LocalRows(self.points)
        self.parameter_values = {
            k: in_double(f"FunctionSystem '{name}': parameter '{k}'", x) for k, x in (parameters or {}).items()
        }
        self.functions = (mass, force, position, motion, qdot, potential)
        self.q0 = in_double(f"FunctionSystem '{name}': q0", q0)
        self.v0 = jnp.zeros(self.q0.shape[0]) if v0 is None else in_double(f"FunctionSystem '{name}': v0", v0)
        if self.dq != self.dv and qdot is None:
            raise DalembertError(
                f"FunctionSystem '{name}': q0 has {self.dq} numbers and v0 has {self.dv}; give qdot(q, v) = N(q) v."
            )
        scale = np.ones(self.dv) if scale is None else scale
        self.size_scale = jnp.broadcast_to(in_double(f"FunctionSystem '{name}': scale", scale), (self.dv,))
        self._check_shape(0, (self.dv, self.dv))
        self._check_shape(1, (self.dv,))
        h, s = self._rows(2), self._rows(3)
        self._check_shape(4, (self.dq,))
        self._check_shape(5, ())
        if self.points and joints is None:
            p = self.parameter_values
            joints = {
                c.name: jax.eval_shape(lambda c=c: c.rows(0.0, c.local(p)(self.q0), p)).shape[0] for c in self.points
            }
        self.owners = self._owners(joints, 0, h, "holonomic") + self._owners(motion_joints, h, s, "nonholonomic")
        self.m_holonomic = h
        group = Group([range(h + s)], [[0]])
        self.pattern = BlockPattern(h + s, 1, self.dv, [group] if h + s else [])
        rows = Family(
            "functions",
            (name,),
            group,
            h,
            s,
            None if position is None else _OnBlock(position, self.has_parameters),
            None if motion is None else _OnBlock(motion, self.has_parameters),
            {k: x[None] for k, x in self.parameter_values.items()},
        )
        self.families = (rows,) if h + s else ()

    @property
    def dq(self) -> int:
        return self.q0.shape[0]

    @property
    def dv(self) -> int:
        return self.v0.shape[0]

    def names(self):
        return (*super().names(), *(p.name for p in self.points))

    def renamed(self, to):
        # the constrained points are told twice more, as the function of the holonomic rows and as their family
        points, functions, families = self.points, self.functions, tuple(f.renamed(to) for f in self.families)
        if points:
            points = tuple(dataclasses.replace(p, name=to(p.name)) for p in points)
            rows = _LocalRows(points)
            functions = (*functions[:2], rows, *functions[3:])
            families = tuple(with_fields(f, position=_OnBlock(rows, self.has_parameters)) for f in families)
        return with_fields(
            self,
            name=ANONYMOUS,
            owners=renamed_owners(self.owners, to),
            families=families,
            points=points,
            functions=functions,
        )

    def _call(self, which: int, *arguments):
        function = self.functions[which]
        assert function is not None
        return jnp.asarray(function(*arguments, self.parameter_values) if self.has_parameters else function(*arguments))

    def _check_shape(self, which: int, expected: tuple[int, ...]) -> None:
        shape = self._shape(which)
        if shape is not None and shape != expected:
            what = _SIGNATURES[which]
            raise DalembertError(f"FunctionSystem '{self.name}': {what} must have shape {expected}, it has {shape}.")

    def _rows(self, which: int) -> int:
        shape = self._shape(which)
        if shape is not None and len(shape) != 1:
            raise DalembertError(f"FunctionSystem '{self.name}': residuals must be vectors, one has shape {shape}.")
        return 0 if shape is None else shape[0]

    def _shape(self, which: int) -> tuple[int, ...] | None:
        """The shape of what a function gives, found without a value: so are its mistakes, before it is compiled."""
        function, signature = self.functions[which], _SIGNATURES[which]
        if function is None:
            return None
        sizes = {"t": (), "q": (self.dq,), "v": (self.dv,)}
        arguments = signature[signature.index("(") + 1 : -1].split(", ")
        given = [jax.ShapeDtypeStruct(sizes[a], float) for a in arguments]
        if self.has_parameters:
            given.append({k: jax.ShapeDtypeStruct(x.shape, float) for k, x in self.parameter_values.items()})
        try:
            return jax.eval_shape(lambda *a: jnp.asarray(function(*a)), *given).shape
        except Exception as error:  # a user's function may raise anything
            raise DalembertError(f"FunctionSystem '{self.name}': {signature} fails: {user_mistake(error)}") from error

    def _owners(self, joints, start: int, rows: int, default: str) -> tuple[RowOwner, ...]:
        joints = dict(joints) if joints is not None else ({default: rows} if rows else {})
        if sum(joints.values()) != rows:
            raise DalembertError(
                f"FunctionSystem '{self.name}': the joints {joints} add up to {sum(joints.values())} rows, "
                f"but the {default} residual has {rows}."
            )
        out = []
        for name, count in joints.items():
            out.append(RowOwner(name, "rows", tuple(range(start, start + count))))
            start += count
        return tuple(out)

    def mass(self, t, q):
        return BlockMass.dense_one(self._call(0, t, q))

    def force(self, t, q, v):
        return self._call(1, t, q, v)

    def potential(self, t, q):
        return jnp.zeros(()) if self.functions[5] is None else self._call(5, t, q)

    def block_qdot(self, x, u):
        return u if self.functions[4] is None else self._call(4, x, u)

    def block_retract(self, x, delta):
        return x + self.block_qdot(x, delta)

    def block_place(self, x):
        return x

    def block_twist(self, place, u):
        return u

    def block_rate(self, place, twist):
        return self.block_qdot(place, twist)

    def block_bias(self, place, twist):
        return jax.jvp(lambda x: self.block_qdot(x, twist), (place,), (self.block_qdot(place, twist),))[1]

    def fixed_block(self):
        return self.q0  # no row refers to it

    def scale(self):
        return self.size_scale

    def coordinate_scale(self):
        return self.size_scale if self.dq == self.dv else jnp.full(self.dq, jnp.max(self.size_scale))

    def parameters(self):
        return dict(self.parameter_values)

    def replace(self, values):
        return replace_by_name(self, values, {k: (_FunctionParameter(k),) for k in self.parameter_values})


@dataclass(frozen=True)
class _OnBlock:
    """A function of (t, q[, v], p) as a row function of one block (t, x[, u], p)."""

    function: Callable
    has_parameters: bool

    def __call__(self, t, *slots_and_p):
        *slots, p = slots_and_p
        arguments = [s[0] for s in slots]  # one slot: the whole of q, the whole of v
        return jnp.asarray(self.function(t, *arguments, p) if self.has_parameters else self.function(t, *arguments))


@dataclass(frozen=True)
class _FunctionParameter:
    name: str

    def get(self, system):
        return system.parameter_values[self.name]

    def set(self, system, value):
        value = jnp.broadcast_to(value, system.parameter_values[self.name].shape)
        system = eqx.tree_at(lambda s: s.parameter_values[self.name], system, value)
        if system.families:
            system = eqx.tree_at(lambda s: s.families[0].p[self.name], system, value[None])
        return system


def _is_positive(value: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a number is positive, or a tensor positive definite."""
    if not np.all(np.isfinite(value)):
        return False
    return bool((np.linalg.eigvalsh(np.broadcast_to(value, shape))[0] if shape else value) > 0)


def replace_by_name(system, values: Mapping[str, object], slots: Mapping[str, tuple]):
    """Set named parameters; a slot knows how to get and set one value in the system's tree."""
    import difflib

    for name, value in values.items():
        if name not in slots:
            close = difflib.get_close_matches(name, slots, n=3)
            hint = f" Did you mean {', '.join(repr(c) for c in close)}?" if close else ""
            raise DalembertError(f"System '{system.name}' has no parameter '{name}'.{hint}")
        for slot in slots[name]:
            old = slot.get(system)
            if not is_traced(value):
                tell_single_precision(f"Parameter '{name}' of system '{system.name}'", value, stacklevel=4)
            new: Any = value if is_traced(value) else np.asarray(value, float)
            if new.ndim > old.ndim or (new.ndim and new.shape != old.shape):
                raise DalembertError(
                    f"Parameter '{name}' of system '{system.name}' has shape {old.shape}; got {new.shape}."
                )
            if getattr(slot, "positive", False) and not is_traced(value) and not _is_positive(new, old.shape):
                word = "positive definite" if old.ndim else "greater than zero"
                raise DalembertError(f"Parameter '{name}' of system '{system.name}' must be {word}, not {value}.")
            system = slot.set(system, new)
    return system
