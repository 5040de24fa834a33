"""7 · analysis: what a pose can be asked for: joint coordinates, points and angles of bodies, measurements, drivers.

A target is a function g(t, q) of positions and the value that it shall have. Inside programs it is numbers and indices;
its name stays outside.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import Array, Coordinates, Scalar, is_traced
from dalembert.model import quaternion_of
from dalembert.systems import (
    AbstractSystem,
    BodySystem,
    Prescription,
    RowOwner,
    compiled_quickly,
    marker_frames,
    prescription,
    wrapped,
)

NAMED = 12
"""Names that are listed in a message."""


class AbstractTarget(eqx.Module):
    """A function of positions that can be asked for."""

    @abstractmethod
    def value(self, system: AbstractSystem, t: Scalar, q: Coordinates) -> Float[Array, " size"]:
        """What it is at (t, q)."""

    def gap(self, system: AbstractSystem, t: Scalar, q: Coordinates, wanted: Float[Array, " size"]) -> Array:
        """How far it is from a wanted value, in its own units."""
        return self.value(system, t, q) - wanted


class OfJoint(AbstractTarget):
    """A coordinate of a joint: number `which` of joint number `joint`; an angle up to full turns."""

    joint: int = eqx.field(static=True)
    which: int = eqx.field(static=True)
    angle: bool = eqx.field(static=True)

    def value(self, system, t, q):
        bodies = system.bodies
        assert bodies is not None
        joint = bodies.joints[self.joint]
        return jnp.reshape(
            joint.coordinates[self.which].function(*bodies.joint_frames(joint, _lifted(system, q))), (1,)
        )

    def gap(self, system, t, q, wanted):
        away = self.value(system, t, q) - wanted
        return wrapped(away) if self.angle else away


class OfDriver(AbstractTarget):
    """What a driver of points or of a distance prescribes: the residual of its rows, and what it asks for, together."""

    rows: tuple[int, ...] = eqx.field(static=True)
    motion: Prescription = eqx.field(static=True)

    def value(self, system, t, q):
        t = jnp.asarray(t, float)
        return system.position_residual(t, q)[np.array(self.rows)] + self.motion.asked(system.machine, t)


class OfPoint(AbstractTarget):
    """The place of a point of a body, given in its frame, or some of its components."""

    body: int = eqx.field(static=True)
    axes: tuple[int, ...] = eqx.field(static=True)
    point: Float[Array, " d"]

    def value(self, system, t, q):
        at = _place(system, q, self.body)
        return (at.p + jnp.sum(at.R * self.point, axis=-1))[np.array(self.axes)]


class OfAngle(AbstractTarget):
    """The angle of a body in the plane, up to full turns."""

    body: int = eqx.field(static=True)

    def value(self, system, t, q):
        return jnp.reshape(_place(system, q, self.body).angle, (1,))

    def gap(self, system, t, q, wanted):
        return wrapped(self.value(system, t, q) - wanted)


class OfRotation(AbstractTarget):
    """The rotation of a body in space, as a unit quaternion w, x, y, z."""

    body: int = eqx.field(static=True)

    def value(self, system, t, q):
        bodies = system.bodies
        assert bodies is not None
        return bodies.kinematics.coordinates(_place(system, q, self.body))[3:]

    def gap(self, system, t, q, wanted):
        """The rotation vector of a small rotation from the wanted one, 2 sin(angle/2) long: zero at no other one."""
        w, x = wanted[0], wanted[1:]
        c, y = (own := self.value(system, t, q))[0], own[1:]
        away = w * y - c * x - jnp.cross(x, y)
        return 2.0 * jnp.where(w * c + x @ y < 0, -1.0, 1.0) * away


class OfChannels(AbstractTarget):
    """Measured numbers, by the numbers of their channels; angles up to full turns."""

    channels: tuple[int, ...] = eqx.field(static=True)
    angles: tuple[bool, ...] = eqx.field(static=True)

    def value(self, system, t, q):
        return system.measured(jnp.asarray(t, float), q, jnp.zeros(system.n), only=self.channels)

    def gap(self, system, t, q, wanted):
        away = self.value(system, t, q) - wanted
        return jnp.where(np.array(self.angles), wrapped(away), away)


class OfCoordinate(AbstractTarget):
    """An entry of q."""

    index: int = eqx.field(static=True)

    def value(self, system, t, q):
        return q[self.index][None]


class OfAxes(AbstractTarget):
    """Directions of two bodies that a joint keeps parallel, and not opposite, as the rows of hinges and guides would
    allow as well: zero where no joint is turned over."""

    first: tuple[int, ...] = eqx.field(static=True)
    second: tuple[int, ...] = eqx.field(static=True)
    of_first: Float[Array, "pairs 3"]
    of_second: Float[Array, "pairs 3"]

    def value(self, system, t, q):
        bodies = system.bodies
        assert bodies is not None
        R = bodies.places(_lifted(system, q)).R
        one, other = (
            jnp.sum(R[np.array(k)] * a[:, None, :], axis=2)
            for k, a in ((self.first, self.of_first), (self.second, self.of_second))
        )
        return (other - one).ravel()


class OfPose(AbstractTarget):
    """The places of all bodies, in machine sizes: how far two poses are apart."""

    def value(self, system, t, q):
        bodies = system.bodies
        if bodies is None:
            return q / system.coordinate_scale()
        places = bodies.places(_lifted(system, q))
        return jnp.concatenate([(places.p[:-1] / bodies.size).ravel(), places.R[:-1].ravel()])


class OfPoints(AbstractTarget):
    """The places of all centres of mass and of all points of joints, in machine sizes, and the angles of hinges, as
    points of a circle: what tells assemblies apart. A rod between balls or universal joints that is only turned about
    its own axis is the same; a wrist that is folded to the other side is not, though its points are."""

    def value(self, system, t, q):
        bodies = system.bodies
        if bodies is None:
            return q / system.coordinate_scale()
        places, space = bodies.places(_lifted(system, q)), bodies.space
        points = [places.p[:-1].ravel()]
        for f in bodies.families:
            own = jax.vmap(lambda at, p: [x.p for x in marker_frames(space, at, p)])(f.gather(places), f.p)
            points += [x.ravel() for x in own]
        angles = [jnp.zeros(0)]
        for (k, angle), members in _hinges(bodies).items():
            f = bodies.families[k]
            own = jax.vmap(lambda at, p, angle=angle: angle(*marker_frames(space, at, p)))(f.gather(places), f.p)
            angles += [jnp.cos(own[members]), jnp.sin(own[members])]
        return jnp.concatenate([jnp.concatenate(points) / bodies.size, *angles])


def _hinges(bodies: BodySystem) -> dict[tuple[int, Callable], np.ndarray]:
    """The joints whose only coordinate is an angle: for each family of rows its function, and which members."""
    found: dict[tuple[int, Callable], list[int]] = {}
    for joint in bodies.joints:
        if [x.is_angle for x in joint.coordinates] == [True]:
            found.setdefault((joint.family, joint.coordinates[0].function), []).append(joint.member)
    return {k: np.array(members) for k, members in found.items()}


def _lifted(system: AbstractSystem, q: Coordinates):
    return system.lift(q, jnp.zeros(system.n))[0]


def _place(system: AbstractSystem, q: Coordinates, body: int):
    bodies = system.bodies
    assert bodies is not None
    return jax.tree_util.tree_map(lambda a: a[body], bodies.places(_lifted(system, q)))


# ---- by name -------------------------------------------------------------------------------------------------------


class Named(NamedTuple):
    """A target as a person names it: its function, how many numbers it has, their typical sizes, and the units."""

    name: str
    target: AbstractTarget
    rows: int  # numbers of its gap
    size: int  # numbers of its value
    scale: float
    unit: str
    released: tuple[str, ...] = ()  # the driver that it takes the place of


def target_named(system: AbstractSystem, item, table: dict[str, Named] | None = None) -> Named:
    """The target that a name means, or an error with the names that there are; `table` holds all of them."""
    if isinstance(item, tuple):
        return _point(system, item)
    if isinstance(item, int | np.integer) and not isinstance(item, bool):
        return _own(system, int(item))
    found = (all_targets(system) if table is None else table).get(str(item))
    if found is None:
        raise DalembertError(_unknown(system, str(item)))
    return found


def joint_coordinates(system: AbstractSystem) -> list[Named]:
    """All coordinates of joints, in the order of the joints."""
    bodies, out = system.bodies, []
    if bodies is None:
        return out
    size = float(bodies.size)
    for number, joint in enumerate(bodies.joints):
        for which, (word, _, angle) in enumerate(joint.coordinates):
            made = Named(f"{joint.name}.{word}", OfJoint(number, which, angle), 1, 1, 1.0, "rad")
            made = made if angle else made._replace(scale=size, unit="m")
            out.append(made._replace(released=_drivers_of(system, joint.name, word)))
    return out


def all_targets(system: AbstractSystem) -> dict[str, Named]:
    """All targets by their names. Of equal names the first counts: joints, drivers, bodies."""
    bodies = system.bodies
    if bodies is None:
        return {f"q[{k}]": _own(system, k) for k in range(system.q0.shape[0])}
    size = float(bodies.size)
    out = {x.name: x for x in joint_coordinates(system)}
    _add_measurements(system, size, out)
    for joint in bodies.joints:
        if len(joint.coordinates) == 1:
            out[joint.name] = out[f"{joint.name}.{joint.coordinates[0].name}"]
    for owner in system.owners:
        if owner.drives and owner.rows[0] < system.m_holonomic:
            _add_driver(system, owner, size, out)
    d = bodies.kinematics.d
    for number, name in enumerate(bodies.body_names):
        whole = Named(f"{name}.position", OfPoint(number, tuple(range(d)), np.zeros(d)), d, d, size, "m")
        out.setdefault(whole.name, whole)
        out.setdefault(name, whole)
        for k, axis in enumerate("xyz"[:d]):
            one = Named(f"{name}.{axis}", OfPoint(number, (k,), np.zeros(d)), 1, 1, size, "m")
            out.setdefault(one.name, one)
        if d == 2:
            out.setdefault(f"{name}.angle", Named(f"{name}.angle", OfAngle(number), 1, 1, 1.0, "rad"))
        else:
            out.setdefault(f"{name}.rotation", Named(f"{name}.rotation", OfRotation(number), 3, 4, 1.0, "rad"))
    return out


def _add_measurements(system: AbstractSystem, size: float, out: dict[str, Named]) -> None:
    """Measurements of positions: each number, and those that have a name together."""
    start = 0
    for x in system.measures:
        groups = {f"{x.name}.{word}": own for word, own in x.groups}
        first = next(iter(groups), x.names[0])
        groups |= {name: (k,) for k, name in enumerate(x.names)}
        for name, own in groups.items():
            channels = [x.channels[k] for k in own]
            if any(c.level for c in channels):
                continue
            unit, angles = channels[0].unit, tuple(c.unit == "rad" for c in channels)
            target, count = OfChannels(tuple(start + k for k in own), angles), len(own)
            scale = 1.0 if unit == "rad" else size if unit == "m" else _typical(system, target)
            out.setdefault(name, Named(name, target, count, count, scale, unit))
        if first in out:
            out.setdefault(x.name, out[first])
        start += len(x.channels)


def _typical(system: AbstractSystem, target: AbstractTarget) -> float:
    """How much a number without a known unit changes as the machine moves by its own size."""
    rng, away = np.random.default_rng(0), 0.1
    values = _values_at(system, target, away * rng.uniform(-1, 1, (4, system.n)) * np.asarray(system.scale()))
    change = float(np.max(np.abs(values[1:] - values[0]), initial=0.0)) / away
    return change if np.isfinite(change) and change > 0 else 1.0


@compiled_quickly
def _values_at(system, target, deltas):
    return jax.vmap(lambda d: target.value(system, 0.0, system.retract(system.q0, d)))(deltas)


def _add_driver(system: AbstractSystem, owner: RowOwner, size: float, out: dict[str, Named]) -> None:
    """A driver's name means what it prescribes."""
    bodies = system.bodies
    assert bodies is not None
    view = bodies.joint(owner.name)
    if view.driven:
        out.setdefault(owner.name, out[f"{view.target}.{view.driven}"])
        return
    motion, count = prescription(system.machine, owner.name), len(owner.rows)
    if motion is not None:
        target = OfDriver(owner.rows, motion)
        out.setdefault(owner.name, Named(owner.name, target, count, count, size, "m", (owner.name,)))


def _own(system: AbstractSystem, k: int) -> Named:
    count = system.q0.shape[0]
    if system.bodies is not None or not 0 <= k < count:
        known = f"its coordinates are 0 … {count - 1}" if system.bodies is None else "name a joint or a body"
        raise DalembertError(f"System '{system.name}' has no target {k}; {known}.")
    return Named(f"q[{k}]", OfCoordinate(k), 1, 1, float(system.coordinate_scale()[k]), "")


def _point(system: AbstractSystem, item: tuple) -> Named:
    """("crank", (0.5, 0)): a point of a body, in its frame."""
    bodies = system.bodies
    names = () if bodies is None else bodies.body_names
    if bodies is None or len(item) != 2 or item[0] not in names:
        there = f"the bodies are {', '.join(names[:NAMED])}" if names else "this system has none"
        raise DalembertError(f"Target {item!r}: write (body, point in its frame); {there}.")
    d = bodies.kinematics.d
    point = np.asarray(item[1], float)
    if point.shape != (d,):
        raise DalembertError(f"Target {item!r}: the point must have {d} numbers.")
    shown = f"{item[0]}({', '.join(f'{x:g}' for x in point)})"
    target = OfPoint(names.index(item[0]), tuple(range(d)), point)
    return Named(shown, target, d, d, float(bodies.size), "m")


def _drivers_of(system: AbstractSystem, joint: str, coordinate: str) -> tuple[str, ...]:
    """The drivers of a joint's coordinate: a target on it takes their place."""
    bodies = system.bodies
    assert bodies is not None
    driving = {o.name for o in system.owners if o.drives and o.rows[0] < system.m_holonomic}
    return tuple(x.name for x in bodies.joints if (x.target, x.driven) == (joint, coordinate) and x.name in driving)


def _unknown(system: AbstractSystem, item: str) -> str:
    for x in system.measures:
        moving = {f"{x.name}.{word}" for word, own in x.groups if x.channels[own[0]].level}
        if item in moving or item in x.names:
            return f"Target '{item}' is not decided by positions; a pose has no velocities, forces or energies."
    known = list(all_targets(system))
    shown = ", ".join(known[:NAMED]) + (" …" if len(known) > NAMED else "")
    return f"'{system.name}' has no target '{item}'; there are {shown}.{did_you_mean(item, known)}"


class Asked(NamedTuple):
    """All targets of a pose: named ones, their functions and wanted values, end to end, and where each begins."""

    named: tuple[Named, ...]
    values: Array  # wanted, end to end
    weights: Array  # of each row of their gaps; 0: exact
    exact: tuple[bool, ...]

    @property
    def targets(self) -> tuple[AbstractTarget, ...]:
        return tuple(x.target for x in self.named)

    @property
    def scales(self) -> np.ndarray:
        """A typical size of each row."""
        return np.concatenate([np.zeros(0), *(np.full(x.rows, x.scale) for x in self.named)])

    def of_rows(self, k: int) -> slice:
        """The rows of target k."""
        start = sum(x.rows for x in self.named[:k])
        return slice(start, start + self.named[k].rows)

    def of_values(self, k: int) -> slice:
        """The numbers of target k."""
        start = sum(x.size for x in self.named[:k])
        return slice(start, start + self.named[k].size)


def asked_for(system: AbstractSystem, targets: Mapping, weights: Mapping | None) -> Asked:
    """What a person asks for, checked."""
    if not isinstance(targets, Mapping) or not targets:
        raise DalembertError(
            f"targets must be a dictionary of names and values, such as {{{_example(system)}}}, not {targets!r}."
        )
    named, values, table = [], [], all_targets(system)
    for item, value in targets.items():
        found = target_named(system, item, table)
        if found.name in [x.name for x in named]:
            raise DalembertError(f"Target '{found.name}' is given twice.")
        named.append(found)
        values.append(_wanted(found, value))
    if weights is not None and not isinstance(weights, Mapping):
        raise DalembertError(f"weights must be a dictionary of targets and numbers, not {weights!r}.")
    given = {target_named(system, k, table).name: x for k, x in (weights or {}).items()}
    for name, x in given.items():
        if name not in [y.name for y in named]:
            raise DalembertError(f"weights names '{name}', which is no target here.")
        real = isinstance(x, int | float | np.number) or getattr(x, "ndim", None) == 0
        if not is_traced(x) and not (real and 0 < float(x) < np.inf):
            raise DalembertError(f"The weight of '{name}' must be a number greater than zero, not {x!r}.")
    weight = jnp.concatenate([jnp.full(x.rows, given.get(x.name, 0.0)) for x in named])
    xp = jnp if is_traced(values) else np
    return Asked(tuple(named), xp.concatenate(values), weight, tuple(x.name not in given for x in named))


def _wanted(target: Named, value):
    """A wanted value as numbers; a rotation as a quaternion."""
    if is_traced(value):
        found = jnp.ravel(jnp.asarray(value, float))
        if found.shape != (target.size,):
            raise DalembertError(f"Target '{target.name}' has {target.size} number(s), not {found.shape[0]}.")
        return found
    try:
        found = np.asarray(value, float)
    except (TypeError, ValueError):
        raise DalembertError(f"Target '{target.name}' must be {_numbers(target)}, not {value!r}.") from None
    if target.rows != target.size and found.shape == (3, 3):
        found = _quaternion(target, found)
    if found.size != target.size or found.ndim > 1 or not np.all(np.isfinite(found)):
        raise DalembertError(f"Target '{target.name}' must be {_numbers(target)}, not {value!r}.")
    found = found.ravel()
    if target.rows != target.size:
        length = float(np.linalg.norm(found))
        if not 0.5 < length < 2.0:
            raise DalembertError(f"Target '{target.name}': a quaternion has length 1, this one {length:.3g}.")
        found = found / length
    return found


def _numbers(target: Named) -> str:
    if target.rows != target.size:
        return "a unit quaternion (w, x, y, z) or a rotation matrix"
    return "one number" if target.size == 1 else f"{target.size} numbers"


def _quaternion(target: Named, R: np.ndarray) -> np.ndarray:
    if np.max(np.abs(R @ R.T - np.eye(3))) > 1e-6 or np.linalg.det(R) < 0:
        raise DalembertError(f"Target '{target.name}': this matrix is no rotation.")
    return quaternion_of(R)


def _example(system: AbstractSystem) -> str:
    name = next(iter(all_targets(system)), "q[0]")
    return f'"{name}": 0.3'


def listed(names: Sequence[str]) -> str:
    """'a', 'b' and 'c'."""
    quoted = [f"'{x}'" for x in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
