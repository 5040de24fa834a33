"""2 · systems: measurements of a machine at an instant: functions of (t, q, v, v̇, reactions), by number, not by name.

A measurement of positions is one function g of marker frames; its rate and second rate follow along the motion of the
frames, Ẋ and Ẍ (`_frames.py`), by automatic differentiation. So it is the same for all coordinates: a system states its
bodies' places and motion (`lift`, `lift_rate`), and measurements see nothing else.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert import model as m
from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import Array, MachineRows, MachineVelocities
from dalembert.model import Channel
from dalembert.systems._frames import Place, Twist, dot, marker_frames
from dalembert.systems._names import Renaming, with_fields
from dalembert.systems._positions import position_of

if TYPE_CHECKING:
    from dalembert.systems._base import AbstractSystem
    from dalembert.systems._bodies import JointView

LEVELS = ("", "rate", "acceleration")
"""What may stand after a joint's coordinate and an underscore: pin.angle, pin.angle_rate, pin.angle_acceleration."""


class Measure(eqx.Module):
    """One measurement: what it is (`law`), which bodies it looks at, and its numbers."""

    name: str = eqx.field(static=True)
    channels: tuple[Channel, ...] = eqx.field(static=True)
    groups: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)
    law: Law = eqx.field(static=True)
    blocks: tuple[int, ...] = eqx.field(static=True)  # the bodies, the ground last of all
    p: dict[str, Array]
    target: str = eqx.field(static=True, default="")  # the joint or force that it is about

    def renamed(self, to: Renaming) -> Self:
        return with_fields(self, name=to(self.name), target=to(self.target) if self.target else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The full names of its channels."""
        return tuple(f"{self.name}.{c.label}" if c.label else self.name for c in self.channels)


class Loads(NamedTuple):
    """What the constraints transmit at an instant, on the machine: r = Cᵀλ, λ, and the wrenches of the joints on their
    bodies j (forces, then torques), in world axes and along each joint's own."""

    r: MachineVelocities
    lam: MachineRows
    world: Float[Array, "joints w"]
    joint: Float[Array, "joints w"]


class Known:
    """What is known of a machine at an instant; each part is computed on first use, and once."""

    def __init__(self, system: AbstractSystem, t, q, v, vdot: Any = None, loads: Loads | None = None):
        self.system, self.t, self.q, self.v, self.vdot, self.loads = system, t, q, v, vdot, loads
        self.bodies: Any = system.bodies
        self.z = system.split(q)[1]
        self._found: dict[int, tuple[int, Array]] = {}
        self._inputs: dict[int, Array] = {}

    @functools.cached_property
    def lifted(self):
        """q and v of the machine."""
        return self.system.lift(self.q, self.v)

    @functools.cached_property
    def lifted_rate(self):
        """v̇ of the machine."""
        return self.system.lift_rate(self.q, self.v, self.vdot)

    @functools.cached_property
    def places(self) -> Place:
        return self.bodies.places(self.lifted.q)

    @functools.cached_property
    def twists(self) -> Twist:
        return self.bodies.twists(self.places, self.lifted.v)

    @functools.cached_property
    def rates(self) -> Place:
        """Ẋ of all bodies."""
        return jax.vmap(self.bodies.kinematics.rate)(self.places, self.twists)

    @functools.cached_property
    def second_rates(self) -> Place:
        """Ẍ of all bodies: that of held velocities, and that of v̇, which is a twist as v is (ω × ω = 0)."""
        K = self.bodies.kinematics
        held = jax.vmap(K.bias)(self.places, self.twists)
        moved = jax.vmap(K.rate)(self.places, self.bodies.twists(self.places, self.lifted_rate))
        return jax.tree_util.tree_map(jnp.add, held, moved)

    @functools.cached_property
    def driven(self):
        """The machine's bodies with the values of all inputs."""
        return self.bodies.with_input_values(self.system.control.jets(self))

    def input(self, k: int) -> Float[Array, " 3"]:
        """An input, its rate and its second rate."""
        if k not in self._inputs:
            self._inputs[k] = self.system.control.jet(self, k)
        return self._inputs[k]

    def levels(self, which: int, level: int) -> Array:
        """The channels of a measurement, or of a joint coordinate, up to a level."""
        if which not in self._found or self._found[which][0] < level:
            self._found[which] = level, _evaluate(self, which, level)
        return self._found[which][1]

    def channel(self, k: int) -> Array:
        """One channel, by its number."""
        system = self.system
        which, at = _locate(system, k)
        if which == STATES:
            return self.z[at]
        if which == INPUTS:
            return self.input(at)[0]
        return self.levels(which, _level(system, which, at))[at]


class Law:
    """How a measurement is computed: called with what is known, the measurement, and the highest level asked for."""

    transmitted: str | None = (
        None  # what it takes of the constraints: "rows", or a wrench in the "joint" or "world" frame
    )
    components: tuple[int, ...] = ()  # of that wrench
    reads: tuple[int, ...] = ()  # other channels

    def __call__(self, known: Known, x: Measure, level: int) -> Float[Array, " channels"]:
        raise NotImplementedError


@dataclass(frozen=True)
class OfFrames(Law):
    """g(i, j) of two marker frames, its rate and its second rate: as many levels as are asked for."""

    function: Callable  # (Frame, Frame) -> (size,)

    def __call__(self, known: Known, x: Measure, level: int) -> Float[Array, " channels"]:
        return self.at(known, x.blocks, x.p, level)

    def at(self, known: Known, blocks: Sequence[int], p, level: int) -> Float[Array, " channels"]:
        """The levels of g on the frames of bodies, placed by p."""
        space = known.bodies.space

        def g(places):
            return jnp.atleast_1d(self.function(*marker_frames(space, places, p)))

        def pick(table):
            return [jax.tree_util.tree_map(lambda a, k=k: a[k], table) for k in blocks]

        at = pick(known.places)
        if level == 0:
            return g(at)
        moving = pick(known.rates)

        def rate(at, moving):
            return jax.jvp(g, (at,), (moving,))

        if level == 1:
            return jnp.concatenate(rate(at, moving))
        value, change = rate(at, moving)
        if known.vdot is None:
            second = jnp.full(change.shape, jnp.nan)
        else:
            second = jax.jvp(lambda *a: rate(*a)[1], (at, moving), (moving, pick(known.second_rates)))[1]
        return jnp.concatenate([value, change, second])


@dataclass(frozen=True)
class OfJoint(Law):
    """A coordinate of a joint: the same on the joint's own markers."""

    function: Callable

    def __call__(self, known: Known, x: Measure, level: int) -> Float[Array, " channels"]:
        return self.at(known, known.bodies.joint(x.target), level)

    def at(self, known: Known, joint: JointView, level: int) -> Float[Array, " channels"]:
        p = jax.tree_util.tree_map(lambda a: a[joint.member], known.bodies.families[joint.family].p)
        return OfFrames(self.function).at(known, joint.blocks, p, level)


@dataclass(frozen=True)
class OfReaction(Law):
    """Components of a joint's wrench, along its own axes or those of the world."""

    components: tuple[int, ...] = ()
    transmitted: str = "joint"  # pyright: ignore[reportIncompatibleVariableOverride]

    def __call__(self, known: Known, x: Measure, level: int) -> Float[Array, " channels"]:
        if known.loads is None:
            return jnp.full(len(self.components), jnp.nan)
        joint = [j.name for j in known.bodies.joints].index(x.target)
        return getattr(known.loads, self.transmitted)[joint, np.array(self.components)]


@dataclass(frozen=True)
class OfRows(Law):
    """The effort of a driver, the multiplier of its one row; or the power of rows."""

    power: bool
    transmitted: str = "rows"  # pyright: ignore[reportIncompatibleVariableOverride]

    def __call__(self, known: Known, x: Measure, level: int) -> Float[Array, " 1"]:
        if known.loads is None:
            return jnp.full(1, jnp.nan)
        rows = np.array(known.bodies.owner_named(x.target).rows)
        lam = known.loads.lam[rows]
        return jnp.sum(lam * known.driven.row_speeds(known.t, known.lifted.q)[rows])[None] if self.power else lam


@dataclass(frozen=True)
class OfForce(Law):
    """The effort of a force on its coordinate, or the power of a force."""

    power: bool

    def __call__(self, known: Known, x: Measure, level: int) -> Float[Array, " 1"]:
        bodies = known.driven
        family, member = next((f, f.names.index(x.target)) for f in bodies.forces if x.target in f.names)
        p = jax.tree_util.tree_map(lambda a: jnp.asarray(a)[member], bodies.force_numbers(family))
        blocks, law, t = family.group.columns[member], family.law, jnp.asarray(known.t, float)

        def pick(table):
            return [jax.tree_util.tree_map(lambda a, k=k: a[k], table) for k in blocks]

        places, twists = pick(known.places), pick(known.twists)
        if not self.power:
            return jnp.reshape(law.effort_at(bodies.kinematics, t, places, twists, p), (1,))
        K = bodies.kinematics
        table = jnp.concatenate([known.lifted.v.reshape(-1, K.dv), jnp.zeros((1, K.dv))])
        u = [table[k] for k in blocks]
        shares = bodies.force_shares(law, t, places, twists, u, p)
        return sum((dot(share, own) for share, own in zip(shares, u, strict=True)), start=jnp.zeros(1))


@dataclass(frozen=True)
class OfEnergy(Law):
    """Kinetic, potential and total energy of a body."""

    def __call__(self, known: Known, x: Measure, level: int) -> Float[Array, " 3"]:
        bodies, k = known.bodies, x.blocks[0]
        d = bodies.kinematics.d
        u = known.lifted.v.reshape(-1, bodies.dv)[k]
        mass, inertia = jnp.asarray(bodies.masses)[k], jnp.asarray(bodies.inertias)[k]
        kinetic = 0.5 * (mass * dot(u[:d], u[:d]) + dot(u[d:], inertia @ u[d:]))
        potential = -mass * dot(known.places.p[k], jnp.asarray(bodies.gravity))
        return jnp.stack([kinetic, potential, kinetic + potential])


@dataclass(frozen=True)
class OfFormula(Law):
    """A formula of other channels."""

    function: Callable  # (t, y, z, p)
    reads: tuple[int, ...] = ()

    def __call__(self, known: Known, x: Measure, level: int) -> Float[Array, " 1"]:
        y = [known.channel(k) for k in self.reads]
        return jnp.reshape(jnp.asarray(self.function(known.t, y, (), x.p), float), (1,))


@dataclass(frozen=True)
class OfUser(Law):
    """A user's function of (t, q, v, v̇, r, p); NaN stands for what it does not need."""

    function: Callable
    size: int
    needs: int

    def __call__(self, known: Known, x: Measure, level: int) -> Float[Array, " channels"]:
        q, v = known.lifted
        q = known.system.machine.split(q)[0]
        nothing = jnp.full(v.shape, jnp.nan)
        speed = v if self.needs >= 1 else nothing
        vdot = known.lifted_rate if self.needs >= 2 and known.vdot is not None else nothing
        r = known.loads.r if self.needs >= 3 and known.loads is not None else nothing
        found = jnp.asarray(self.function(known.t, q, speed, vdot, r, x.p), float)
        return jnp.reshape(found, (self.size,))


# ---- which law each measurement has ----------------------------------------------------------------------------------


def law_of_measurement(x: m.Measurement, space: str, numbers: Callable[[str], int]) -> Law:
    """How a measurement is computed: what is registered for its class, or for a base of it; `numbers` gives the number
    of a channel by its name."""
    for cls in type(x.element).__mro__:
        if cls in MEASURES:
            return MEASURES[cls](x, space, numbers)
    raise DalembertError(f"Measurement '{x.name}': class {type(x.element).__name__} is not known.")


def _of_frames(x: m.Measurement, space: str, numbers) -> Law:
    return OfFrames(position_of(x, space))


def _reaction(x: m.Measurement, space: str, numbers) -> Law:
    known, wanted = m.components(space), x.element.component  # pyright: ignore[reportAttributeAccessIssue]
    picked = tuple(range(len(known))) if wanted is None else (known.index(wanted),)
    return OfReaction(picked, x.element.frame)  # pyright: ignore[reportAttributeAccessIssue]


def _of_item(power: bool) -> Callable:
    return lambda x, space, numbers: OfRows(power) if isinstance(x.target, m.Constraint) else OfForce(power)


def _formula(x: m.Measurement, space: str, numbers) -> Law:
    read: Any = x.functions[0]
    return OfFormula(read.function, tuple(map(numbers, read.names)))


MEASURES: dict[type, Callable[[m.Measurement, str, Callable[[str], int]], Law]] = {
    **dict.fromkeys((m.MeasuredPoint, m.MeasuredDistance, m.MeasuredAngle), _of_frames),
    m.MeasuredCoordinate: lambda x, space, numbers: OfJoint(position_of(x, space)),
    m.MeasuredReaction: _reaction,
    m.MeasuredEffort: _of_item(False),
    m.MeasuredPower: _of_item(True),
    m.MeasuredEnergy: lambda x, space, numbers: OfEnergy(),
    m.MeasuredFormula: _formula,
    m.MeasuredFunction: lambda x, space, numbers: OfUser(x.functions[0], len(x.channels), x.channels[0].level),
}
"""For each class of measurements the function that makes its law from the placed measurement."""


# ---- all channels of a system, by number -----------------------------------------------------------------------------
#
# first those of the measurements, then value, rate and acceleration of each joint coordinate, then the states of the
# controllers (and outputs that they hold), then the inputs

STATES, INPUTS = -1, -2
"""In place of the number of a measurement: channels that are states of controllers, and inputs."""


class Table(NamedTuple):
    """How the channels of a system are numbered."""

    channels: tuple[tuple[Channel, ...], ...]  # of each measurement
    coordinates: int
    states: int
    inputs: int

    @property
    def starts(self) -> tuple[int, ...]:
        """The first channel of each measurement, of the joint coordinates, the states, the inputs, and the end."""
        sizes = [*map(len, self.channels), len(LEVELS) * self.coordinates, self.states, self.inputs]
        return tuple(itertools.accumulate(sizes, initial=0))


def table_of(system: AbstractSystem) -> Table:
    """How the channels of a system are numbered."""
    bodies, control = system.bodies, system.control
    count = 0 if bodies is None else sum(len(j.coordinates) for j in bodies.joints)
    return Table(tuple(x.channels for x in system.measures), count, control.size, len(control.sources))


def numbered(
    names: Sequence[tuple[str, ...]], coordinates: Sequence[str], states: Sequence[str], inputs: Sequence[str]
) -> dict[str, int]:
    """The number of each channel by its name; those of each measurement, all joint coordinates, states, inputs."""
    levels = [f"{name}_{word}" if word else name for name in coordinates for word in LEVELS]
    every = [*itertools.chain(*names), *levels, *states, *inputs]
    return {name: k for k, name in reversed(list(enumerate(every)))}


def measured(
    system: AbstractSystem, t, q, v, vdot, loads: Loads | None, only: Iterable[int] | None
) -> Float[Array, " channels"]:
    """The channels of a system's measurements, or those numbered in `only`; see `AbstractSystem.measured`."""
    count = len(system.channels)
    wanted = range(count) if only is None else tuple(only)
    known = Known(system, t, q, v, vdot, loads)
    # the highest level of each first: a lower one is a part of it
    for k in sorted(wanted, key=lambda k: -height(system, k)):
        known.channel(k)
    return jnp.stack([known.channel(k) for k in wanted]) if wanted else jnp.zeros(0)


def height(system: AbstractSystem, k: int) -> int:
    """The level of a channel."""
    which, at = _locate(system, k)
    return 0 if which < 0 else _level(system, which, at)


class ChannelView(NamedTuple):
    """What a channel is called, its unit ("" where it is not known), and its level (0 position … 3 reactions)."""

    name: str
    unit: str
    level: int


def view_of(system: AbstractSystem, k: int) -> ChannelView:
    """A channel by its number: of a measurement, a joint's coordinate, a state or an input."""
    bodies, control, (which, at) = system.bodies, system.control, _locate(system, k)
    if which == STATES:
        return ChannelView(control.labels[at], "", 0)
    if which == INPUTS:
        return ChannelView(control.sources[at].name, control.sources[at].unit, 0)
    if which < len(system.measures):
        x = system.measures[which]
        return ChannelView(x.names[at], x.channels[at].unit, x.channels[at].level)
    assert bodies is not None
    joint, x = [(j.name, x) for j in bodies.joints for x in j.coordinates][which - len(system.measures)]
    name = f"{joint}.{x.name}_{LEVELS[at]}" if LEVELS[at] else f"{joint}.{x.name}"
    return ChannelView(name, x.unit + ("", "/s", "/s²")[at], at)


def is_position(system: AbstractSystem, k: int) -> bool:
    """Whether a channel is one of positions alone."""
    return _locate(system, k)[0] >= 0 and height(system, k) == 0


def counts_no_turns(system: AbstractSystem, k: int) -> bool:
    """Whether a channel is an angle that is known up to full turns."""
    bodies, (which, at) = system.bodies, _locate(system, k)
    if bodies is None or bodies.space == "plane" or which < 0:
        return False
    if which < len(system.measures):
        return system.measures[which].channels[at].angle
    return [x.is_angle for j in bodies.joints for x in j.coordinates][which - len(system.measures)]


def _locate(system: AbstractSystem, k: int) -> tuple[int, int]:
    """Number of the measurement and of the channel in it; joint coordinates are counted after all measurements."""
    starts = table_of(system).starts
    which = int(np.searchsorted(starts, k, side="right")) - 1
    count, at = len(system.measures), k - starts[which]
    if which == count:
        return count + at // len(LEVELS), at % len(LEVELS)
    return (which if which < count else STATES if which == count + 1 else INPUTS), at


def _level(system: AbstractSystem, which: int, at: int) -> int:
    return system.measures[which].channels[at].level if which < len(system.measures) else at


def _evaluate(known: Known, which: int, level: int) -> Array:
    measures = known.system.measures
    if which < len(measures):
        return measures[which].law(known, measures[which], level)
    joint, function = [(j, x.function) for j in known.bodies.joints for x in j.coordinates][which - len(measures)]
    return OfJoint(function).at(known, joint, level)


def channel_names(system: AbstractSystem) -> tuple[str, ...]:
    """The names of all channels of measurements, in order."""
    return tuple(n for x in system.measures for n in x.names)


def channels_named(system: AbstractSystem, item: str) -> tuple[int, ...]:
    """The numbers of the channels that a name means; see `AbstractSystem.channels_named`."""
    bodies, control = system.bodies, system.control
    coordinates = [] if bodies is None else [f"{j.name}.{name}" for j in bodies.joints for name, *_ in j.coordinates]
    inputs = [x.name for x in control.sources]
    known = {
        name: (k,)
        for name, k in numbered([x.names for x in system.measures], coordinates, control.labels, inputs).items()
    }
    for x, start in zip(system.measures, table_of(system).starts, strict=False):
        groups = {word: tuple(start + k for k in own) for word, own in x.groups}
        known |= {f"{x.name}.{word}": own for word, own in groups.items()}
        known.setdefault(x.name, next(iter(groups.values()), (start,)))
    if item in known:
        return known[item]
    plain = [*(x.name for x in system.measures), *coordinates, *control.labels, *inputs]
    there = f"there are {', '.join(plain[:12])}{' …' if len(plain) > 12 else ''}" if plain else "it measures nothing"
    hint = did_you_mean(str(item), known)
    raise DalembertError(f"System '{system.name}' has no measurement or joint coordinate '{item}'; {there}.{hint}")
