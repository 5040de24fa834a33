"""2 · systems: `FunctionSystem`, a user's own M, h, Φ, φ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert import model as m
from dalembert._results import DalembertError, ModelError
from dalembert._typing import Array, Coordinates, Velocities
from dalembert.linalg import BlockMass, BlockPattern, Group
from dalembert.systems._base import Nature, RowOwner, renamed_owners
from dalembert.systems._build_control import controls_of, start_of
from dalembert.systems._control import NO_CONTROL, Control
from dalembert.systems._leaves import control_slots
from dalembert.systems._measure import Measure
from dalembert.systems._names import ANONYMOUS, with_fields
from dalembert.systems._precision import in_double
from dalembert.systems._rows import Family, RowSystem, local_factors
from dalembert.systems._user import user_mistake


@dataclass(frozen=True)
class ConstrainedPoint:
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

    points: tuple[ConstrainedPoint, ...]

    def __call__(self, t, q, p=None):
        return jnp.concatenate([point.rows(t, point.local(p)(q), p) for point in self.points])


OWN_ROWS = Nature("rows", own_rows=True, timed=True)
_SIGNATURES = ("mass(t, q)", "force(t, q, v)", "position(t, q)", "motion(t, q, v)", "qdot(q, v)", "potential(t, q)")


class FunctionSystem(RowSystem):
    """Your own equations: M(t,q), h(t,q,v), Φ(t,q) and nonholonomic rows φ(t,q,v), as JAX functions.

    **Arguments**: `name`; `mass(t, q)`, `force(t, q, v)`, `position(t, q)` (Φ), `motion(t, q, v)` (φ), `qdot(q, v)`
    where it is not v, `potential(t, q)`; `q0`, `v0` the start.

        >>> import jax.numpy as jnp
        >>> import dalembert as da
        >>> pendulum = da.FunctionSystem(
        ...     mass=lambda t, q: jnp.eye(2), force=lambda t, q, v: jnp.array([0.0, -9.81]), q0=[1.0, 0.0],
        ...     position=lambda t, q: jnp.array([q @ q - 1.0]), joints={"rod": 1})
        >>> pendulum.n, pendulum.m
        (2, 1)

    With `parameters` (a dict of arrays) every function gets them as a last argument p. `joints` groups the
    holonomic rows under names, `{"A": 2, "driver": 1}`; `motion_joints` does so for the nonholonomic rows.
    `scale` is a typical size of each coordinate (default 1): it makes the error control and the constraint
    tolerance free of units. Without `potential`, the work of h counts as work. Dense; for tens of coordinates.
    Instead of `position`, `points` states the holonomic rows at constrained points in local coordinates
    (`ConstrainedPoint`). `controls` are measurements by functions and formulas, inputs and controllers: elements of
    `da.model` (`MeasuredFunction`, `MeasuredFormula`, `InputEntry`, `Controller`); with inputs every function gets a
    last argument p that has their values, too.
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
    points: tuple[ConstrainedPoint, ...] = eqx.field(static=True)
    input_values: Float[Array, "inputs 3"]
    measures: tuple[Measure, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    control: Control = NO_CONTROL  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
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
        points: Sequence[ConstrainedPoint] = (),
        controls: Sequence[m.Element] = (),
        name: str = "functions",
    ):
        self.name = name
        self.measures, self.control, states = _controls(name, controls)
        self.input_values = np.zeros((len(self.control.sources), 3))
        self.has_parameters = parameters is not None or bool(self.control.sources)
        self.points = tuple(dataclasses.replace(p, has_parameters=self.has_parameters) for p in points)
        if self.points:
            if position is not None:
                raise DalembertError(f"FunctionSystem '{name}': give position or points, not both.")
            position = _LocalRows(self.points)
        self.parameter_values = {
            k: in_double(f"FunctionSystem '{name}': parameter '{k}'", x) for k, x in (parameters or {}).items()
        }
        if taken := sorted({x.name for x in self.control.sources} & set(self.parameter_values)):
            raise DalembertError(
                f"FunctionSystem '{name}': '{taken[0]}' is a parameter and an input; rename one of them."
            )
        self.functions = (mass, force, position, motion, qdot, potential)
        start = in_double(f"FunctionSystem '{name}': q0", q0)
        self.q0 = jnp.concatenate([start, states]) if states.size else start
        self.v0 = jnp.zeros(start.shape[0]) if v0 is None else in_double(f"FunctionSystem '{name}': v0", v0)
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
            p = self._p(0.0)
            joints = {
                c.name: jax.eval_shape(lambda c=c: c.rows(0.0, c.local(p)(start), p)).shape[0] for c in self.points
            }
        self.owners = self._owners(joints, 0, h, "holonomic") + self._owners(motion_joints, h, s, "nonholonomic")
        self.m_holonomic = h
        group = Group([range(h + s)], [[0]])
        self.pattern = BlockPattern(h + s, 1, self.dv, [group] if h + s else [])
        given: dict[str, Array] = {k: x[None] for k, x in self.parameter_values.items()}
        given |= {f"{m.INPUT}{k}": np.zeros((1, 3)) for k in range(len(self.control.sources))}
        on = [None if f is None else _OnBlock(f, self.has_parameters, self._inputs) for f in (position, motion)]
        rows = Family(OWN_ROWS, (name,), group, h, s, on[0], on[1], given)
        self.families = (rows,) if h + s else ()

    @property
    def coordinates(self) -> str:
        return "the user's own"

    @property
    def kinematics(self) -> _OwnBlock:
        return _OwnBlock(self)

    @property
    def _inputs(self) -> tuple[str, ...]:
        return tuple(x.name for x in self.control.sources)

    def _p(self, t) -> dict[str, Array]:
        """What the functions are given: parameters, and inputs at t."""
        return self.parameter_values | {
            name: m.input_at(t, self.input_values[k]) for k, name in enumerate(self._inputs)
        }

    def with_control(self, control):
        return with_fields(self, control=control)

    def with_inputs(self, values):
        return with_fields(self, control=self.control.with_inputs(self.name, values))

    def with_first_tick(self, t):
        return with_fields(self, control=dataclasses.replace(self.control, begins=jnp.asarray(t, float)))

    def with_input_values(self, jets):
        own = {f"{m.INPUT}{k}": jets[None, k] for k in range(len(self.control.sources))}
        families = tuple(dataclasses.replace(f, p=f.p | own) for f in self.families)
        return with_fields(self, input_values=jets, families=families)

    def names(self):
        return (
            *super().names(),
            *(p.name for p in self.points),
            *(x.name for x in self.measures),
            *self.control.names(),
        )

    def renamed(self, to):
        # the constrained points occur twice more, as the function of the holonomic rows and as their family
        points, functions, families = self.points, self.functions, tuple(f.renamed(to) for f in self.families)
        if points:
            points = tuple(dataclasses.replace(p, name=to(p.name)) for p in points)
            rows = _LocalRows(points)
            functions = (*functions[:2], rows, *functions[3:])
            families = tuple(
                with_fields(f, position=_OnBlock(rows, self.has_parameters, self._inputs)) for f in families
            )
        return with_fields(
            self,
            name=ANONYMOUS,
            owners=renamed_owners(self.owners, to),
            families=families,
            points=points,
            functions=functions,
            measures=tuple(x.renamed(to) for x in self.measures),
        )

    def _call(self, which: int, t, *arguments):
        function = self.functions[which]
        assert function is not None
        # q̇ = N(q) v has no time, and no input
        given = arguments if which == 4 else (t, *arguments)
        return jnp.asarray(function(*given, self._p(t)) if self.has_parameters else function(*given))

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
        """The shape of a function's result, without values; its mistakes are found here, before it is compiled."""
        function, signature = self.functions[which], _SIGNATURES[which]
        if function is None:
            return None
        sizes = {"t": (), "q": (self.dq,), "v": (self.dv,)}
        arguments = signature[signature.index("(") + 1 : -1].split(", ")
        given: list[Any] = [jax.ShapeDtypeStruct(sizes[a], float) for a in arguments]
        if self.has_parameters:
            given.append({k: jax.ShapeDtypeStruct(jnp.shape(x), float) for k, x in self._p(0.0).items()})
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
            out.append(RowOwner(name, OWN_ROWS, tuple(range(start, start + count))))
            start += count
        return tuple(out)

    def mass(self, t, q):
        return BlockMass.dense_one(self.timed(t)._call(0, t, self.split(q)[0]))

    def force(self, t, q, v):
        return self.driven(t, q, v)._call(1, t, self.split(q)[0], v)

    def potential(self, t, q):
        return jnp.zeros(()) if self.functions[5] is None else self.timed(t)._call(5, t, self.split(q)[0])

    def scale(self):
        return self.size_scale

    def coordinate_scale(self):
        own = self.size_scale if self.dq == self.dv else jnp.full(self.dq, jnp.max(self.size_scale))
        return self.and_states(own, self.control.spread())

    def local(self, t, q):
        return local_factors(self, self.points, t, self.split(q)[0], self.timed(t)._p(t)) if self.points else None

    def slots(self):
        return {k: (_FunctionParameter(k),) for k in self.parameter_values} | control_slots(self)


def _controls(name: str, elements: Sequence[m.Element]) -> tuple[tuple[Measure, ...], Control, np.ndarray]:
    """Measurements, inputs and controllers from elements, and the controllers' states at the start."""
    model = m.Model(name)
    for element in elements:
        if not isinstance(element, m.MeasuredFunction | m.MeasuredFormula | m.InputEntry | m.Controller):
            raise DalembertError(
                f"FunctionSystem '{name}': {element!r} needs bodies; measure by a function of (t, q, v, vdot, r), "
                "da.model.MeasuredFunction(name, function), or by a formula of those."
            )
        model.add(element)
    if found := [x for x in model.mistakes() if x.cause is not m.Cause.EMPTY]:
        raise ModelError(name, found)
    return *controls_of(model, {}, (), lambda space, markers: {}), start_of(model)


class _OwnBlock:
    """How a user's coordinates move: one block, of which rows see q and v themselves."""

    def __init__(self, system: FunctionSystem):
        self.system, self.dq, self.dv = system, system.q0.shape[0] - system.control.size, system.v0.shape[0]

    def qdot(self, x, u):
        return u if self.system.functions[4] is None else self.system._call(4, 0.0, x, u)

    rate = qdot

    def retract(self, x, delta):
        return x + self.qdot(x, delta)

    def place(self, x):
        return x

    def twist(self, place, u):
        return u

    def bias(self, place, twist):
        return jax.jvp(lambda x: self.qdot(x, twist), (place,), (self.qdot(place, twist),))[1]

    def ground(self):
        return self.system.split(self.system.q0)[0]  # no row refers to it


@dataclass(frozen=True)
class _OnBlock:
    """A function of (t, q[, v], p) as a row function of one block (t, x[, u], p)."""

    function: Callable
    has_parameters: bool
    inputs: tuple[str, ...] = ()

    def __call__(self, t, *slots_and_p):
        *slots, p = slots_and_p
        arguments = [s[0] for s in slots]  # one slot: the whole of q, the whole of v
        values = {name: m.input_at(t, p[f"{m.INPUT}{k}"]) for k, name in enumerate(self.inputs)}
        p = {k: x for k, x in p.items() if not m.is_input(k)} | values
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
