"""1 · model: measurements: numbers that a person wants to know of a motion, by name.

A measurement has channels: `tip.x`, `tip.vx`, `tip.ax` of a point, `gap`, `gap.rate`, `gap.acceleration` of a distance.
Formulas, controllers, targets, inputs and outputs call them so; groups of channels have names of their own
(`tip.position`, `tip.velocity`, `tip.acceleration`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from dalembert._results import did_you_mean
from dalembert.model._arguments import (
    COMPONENTS,
    NEEDS,
    AxesOf,
    Component,
    Coordinate,
    Formula,
    ItemName,
    JointName,
    Needs,
    Parameters,
    Place,
    Unit,
    Vector,
    Whole,
)
from dalembert.model._element import Cause, Element
from dalembert.model._frames import Marker
from dalembert.model._functions import FORMULA_WORDS
from dalembert.model._laws import with_parameters
from dalembert.model._placed import Constraint, Force, Placed
from dalembert.model._placing import Placing

AXES = "xyz"


class Channel(NamedTuple):
    """One number of a measurement: its name after the dot (none: the measurement's own), its unit, and its level: 0 for
    what the position decides, 1 the velocity, 2 the acceleration, 3 the reactions."""

    label: str
    unit: str
    level: int = 0
    angle: bool = False  # in space known up to full turns


@dataclass(frozen=True, eq=False, repr=False)
class Measurement(Placed):
    """A measurement as placed in a model: what `systems` evaluates."""

    element: AbstractMeasurement  # pyright: ignore[reportIncompatibleVariableOverride]
    channels: tuple[Channel, ...] = ()
    groups: tuple[tuple[str, tuple[int, ...]], ...] = ()  # names of several channels together; the first is the default

    def __repr__(self) -> str:
        return f"{self.element.label} '{self.name}': {', '.join(self.names)}"

    @property
    def names(self) -> tuple[str, ...]:
        """The full names of its channels."""
        return tuple(f"{self.name}.{c.label}" if c.label else self.name for c in self.channels)


class AbstractMeasurement(Element, abstract=True):
    """A number, or several, that is known of every instant of a motion. It has no effect on the motion, unless a
    controller reads it. How it is computed is registered for its class in `systems/_measure.py`."""

    section = "measurements"
    title = "Measurement"
    family: ClassVar[str] = "measured_"  # a word of its own among all elements: joints have a distance, too
    of_markers: ClassVar[bool] = False  # a function of the places of its two markers, and rates of that

    def _placed(self, on: Placing, markers, channels, groups=(), numbers=None, **more) -> Measurement:
        numbers = {k: np.asarray(x, float) for k, x in (numbers or {}).items()}
        if self.name in FORMULA_WORDS and any(not c.label for c in channels):
            on.wrong("formulas would take it for their own word; choose another name.", "name", cause=Cause.NAME)
        made = Measurement(self.name, self, tuple(markers), numbers, channels=channels, groups=tuple(groups), **more)  # pyright: ignore[reportArgumentType]
        return on.register(on.model.measurements, made)


def motion_channels(labels: tuple[str, ...], units: tuple[str, str, str]) -> tuple[tuple[Channel, ...], tuple]:
    """The channels of a vector, its rate and its second rate, and their groups."""
    made, groups = [], []
    for level, (letter, word) in enumerate((("", "position"), ("v", "velocity"), ("a", "acceleration"))):
        groups.append((word, tuple(range(len(made), len(made) + len(labels)))))
        made += [Channel(f"{letter}{axis}", units[level], level) for axis in labels]
    return tuple(made), tuple(groups)


def number_channels(unit: str, angle: bool = False) -> tuple[Channel, ...]:
    """The channels of a number, its rate and its second rate."""
    return (
        Channel("", unit, 0, angle),
        Channel("rate", f"{unit}/s", 1),
        Channel("acceleration", f"{unit}/s2", 2),
    )


class MeasuredPoint(AbstractMeasurement):
    """Position, velocity and acceleration of the point of `body` that is at `at` at the start (default: its centre).

    Channels x, y, z, vx, vy, vz, ax, ay, az (in the plane without z), in m, m/s and m/s²; together `position`,
    `velocity`, `acceleration`. Along the world's axes; with `seen_from`, a body or marker, from its origin, along its
    axes, and relative to its motion.
    """

    type = "point"
    of_markers = True

    body: Place = field(kw_only=False)
    at: Vector | None = None
    seen_from: Place | None = None

    def place(self, on: Placing) -> Measurement:
        seen = on.model.ground if self.seen_from is None else on.place("seen_from")
        viewer = seen if isinstance(seen, Marker) else on.centre(seen)
        channels, groups = motion_channels(tuple(AXES[: on.dimension]), ("m", "m/s", "m/s2"))
        return self._placed(on, (viewer, _point(on, "body", "at")), channels, groups)


class MeasuredDistance(AbstractMeasurement):
    """The distance between a point of i and a point of j (default: their centres), its rate and acceleration; m."""

    type = "distance"
    of_markers = True

    i: Place = field(kw_only=False)
    j: Place = field(kw_only=False)
    at_i: Vector | None = None
    at_j: Vector | None = None

    def place(self, on: Placing) -> Measurement:
        return self._placed(on, on.point_markers(), number_channels("m"))


class MeasuredAngle(AbstractMeasurement):
    """The angle by which j is turned against i, its rate and acceleration; rad.

    In the plane the difference of the angles of two bodies or markers. In space about `axis`, a direction at the start
    that is fixed in i: the angle of what j has across it, zero at the start; between two markers about i's z axis, from
    i's x axis to j's. It fails where j's direction across the axis vanishes.
    """

    type = "angle"
    of_markers = True

    i: Place = field(kw_only=False)
    j: Place = field(kw_only=False)
    axis: Vector | None = None

    def place(self, on: Placing) -> Measurement:
        return self._placed(on, self._markers(on), number_channels("rad", angle=on.space == "space"))

    def _markers(self, on: Placing) -> tuple[Marker, Marker]:
        i, j = on.place("i"), on.place("j")
        if on.space == "plane":
            if self.axis is not None:
                on.wrong("in the plane an angle has no axis.", "axis")
            return tuple(x if isinstance(x, Marker) else on.centre(x) for x in (i, j))  # pyright: ignore[reportReturnType]
        if isinstance(i, Marker) and isinstance(j, Marker):
            if self.axis is not None:
                on.wrong("between two markers the axis is i's z axis; leave it out.", "axis")
            return i, j
        if self.axis is None:
            on.wrong(f"give its {on.arg('axis', '...')}, a vector in the start configuration.", "axis")
        frame = np.eye(3) if self.axis is None else on.axis_frame()
        bi, bj = on.body("i"), on.body("j")
        return on.fixed(bi, bi.position, frame), on.fixed(bj, bj.position, frame)


class MeasuredCoordinate(AbstractMeasurement):
    """A coordinate of a joint, its rate and acceleration: an angle in rad, else a length in m."""

    type = "coordinate"
    of_markers = True

    joint: JointName = field(kw_only=False)
    coordinate: Coordinate | None = None

    def place(self, on: Placing) -> Measurement | None:
        target = on.target()
        if target is None:
            return None
        joint, which = target
        free = on.free(joint, which)
        channels = number_channels(free.unit, angle=free.is_angle and on.space == "space")
        return self._placed(on, joint.markers, channels, target=joint, coordinate=which)


class MeasuredPosition(NamedTuple):
    """A channel of a measurement that a stop can hold: a number that the places of its two markers decide."""

    measurement: Measurement
    number: int

    @property
    def channel(self) -> Channel:
        return self.measurement.channels[self.number]

    @property
    def is_angle(self) -> bool:
        return self.channel.unit == "rad"


def measured_position(on: Placing, path: str = "measurement") -> MeasuredPosition | None:
    """The position that an element names, or None after recording what is wrong."""
    given, tables = on.given(path), on.model.measurements
    name = str(getattr(given, "name", given))
    known = {full: MeasuredPosition(x, k) for x in tables.values() for k, full in enumerate(x.names)}
    found = known.get(name)
    if found is None and name in tables:
        on.wrong(f"measurement '{name}' is several numbers; name one: {', '.join(tables[name].names)}.", path)
    elif found is None:
        text = f"there is no measurement '{name}'.{did_you_mean(name, known)}"
        on.wrong(text, path, cause=Cause.MISSING, missing=name.partition(".")[0])
    elif found.channel.level or not found.measurement.element.of_markers:
        positions = [full for full, x in known.items() if not x.channel.level and x.measurement.element.of_markers]
        there = f"; name one of {', '.join(positions)}" if positions else ""
        on.wrong(f"'{name}' is no position of a point, distance, angle or joint coordinate{there}.", path)
    else:
        return found
    return None


def _point(on: Placing, key: str, at: str) -> Marker:
    """The point of a body that is at `at` at the start, with the body's axes; a marker is its own point."""
    found = on.place(key)
    if isinstance(found, Marker):
        if on.given(at) is not None:
            on.wrong(f"a marker is a point already; leave out {on.arg(at)}.", at)
        return found
    return on.fixed(found, on.vector(at, default=found.position), found.rotation)


# ---- what needs the reactions ----------------------------------------------------------------------------------------


def components(space: str) -> tuple[str, ...]:
    """The components of a reaction, in the order of a wrench: forces, then torques."""
    return ("Fx", "Fy", "Mz") if space == "plane" else COMPONENTS


class MeasuredReaction(AbstractMeasurement):
    """The reaction of a joint on its body j, at marker j: all its components, or one; N and N m.

    Along the joint's axes (marker i's), or those of the "world". Where the rigid-body model does not determine it, the
    rule that picked it stands beside it in the results.
    """

    type = "reaction"

    joint: JointName = field(kw_only=False)
    component: Component | None = None
    frame: AxesOf = "joint"

    def place(self, on: Placing) -> Measurement | None:
        joint, known = on.joint(), components(on.space)
        if self.frame not in ("joint", "world"):
            on.wrong(f"{on.arg('frame')}{self.frame!r} is unknown; use 'joint' or 'world'.", "frame")
        if self.component is not None and self.component not in known:
            on.wrong(f"component must be one of {', '.join(known)} (the model is in {on.where}).", "component")
            return None
        if joint is None:
            return None
        one = self.component is not None
        wanted = [self.component] if self.component is not None else known
        made = tuple(Channel("" if one else x, "N" if x[0] == "F" else "N m", 3) for x in wanted)
        return self._placed(on, joint.markers, made, target=joint)


class MeasuredEffort(AbstractMeasurement):
    """The effort of a driver of one coordinate or distance, or of a force on a joint's coordinate or along a line.

    The force (on an angle: torque) that pushes the coordinate towards larger values; of a spring_damper its pull. Where
    the constraints do not determine a driver's effort, the rule that picked it stands beside it.
    """

    type = "effort"

    of: ItemName = field(kw_only=False)

    def place(self, on: Placing) -> Measurement | None:
        item = on.item("of")
        if item is None:
            return None
        several = (
            isinstance(item, Force) and item.target is not None and not item.coordinate
        )  # about all axes of a ball
        if not item.element.has_effort or several:
            text = f"'{item.name}' ({item.element.label}) acts on no single coordinate; measure its power or reaction."
            on.wrong(text, "of")
            return None
        level = 3 if isinstance(item, Constraint) else 1
        return self._placed(on, item.markers, (Channel("", "N m" if item.is_angle else "N", level),), target=item)


class MeasuredPower(AbstractMeasurement):
    """The power of a force, a driver or a joint: what it does to the bodies, in W. It is zero for a joint that does not
    move by itself."""

    type = "power"

    of: ItemName = field(kw_only=False)

    def place(self, on: Placing) -> Measurement | None:
        item = on.item("of")
        if item is None:
            return None
        if isinstance(item, Force) and not item.element.has_power:
            on.wrong(f"the power of '{item.name}' ({item.element.label}) is not known by itself.", "of")
            return None
        level = 3 if isinstance(item, Constraint) else 1
        return self._placed(on, item.markers, (Channel("", "W", level),), target=item)


class MeasuredEnergy(AbstractMeasurement):
    """The energy of a body: kinetic, potential (in the model's uniform gravity, zero at the origin), and total; J."""

    type = "energy"

    body: Place = field(kw_only=False)

    def place(self, on: Placing) -> Measurement | None:
        body = on.body("body")
        if body.is_ground:
            on.wrong("the ground has no energy; name a body.", "body")
            return None
        channels = (Channel("kinetic", "J", 1), Channel("potential", "J"), Channel("total", "J", 1))
        return self._placed(on, (on.centre(body), on.centre(body)), channels)


# ---- of other measurements, and a person's own -----------------------------------------------------------------------


class MeasuredFormula(AbstractMeasurement):
    """A formula of t, other measurements, joint coordinates, inputs, states of controllers, and its parameters."""

    type = "formula"

    formula: Formula = field(kw_only=False)
    unit: Unit = ""
    parameters: Parameters | None = None

    def place(self, on: Placing) -> Measurement | None:
        numbers = on.parameters()
        made = on.reading_formula("formula", self.formula, numbers)
        if made is None:
            return None
        channels = (Channel("", self.unit, 0),)  # its level follows from what it reads, when all is known
        return self._placed(on, (), channels, numbers=numbers, functions=(made,))


class MeasuredFunction(AbstractMeasurement, abstract=True):  # no word of model files, which hold no functions
    """Your own function(t, q, v, vdot, r[, p]), of `size` numbers, by jax.numpy.

    q, v, vdot and r = Cᵀλ are those of all bodies in absolute coordinates (docs/theory/systems.md), whatever the
    coordinates of the run. With `parameters` it gets them as a last argument. `needs` says what it uses: "positions",
    "velocities", "accelerations" or "reactions" (the default); what it does not use is NaN, and a controller can read
    it if it does not need reactions. A file cannot hold it.
    """

    type = "function"

    function: Formula = field(kw_only=False)
    size: Whole = 1
    unit: Unit = ""
    needs: Needs = "reactions"
    parameters: Parameters | None = None

    def place(self, on: Placing) -> Measurement | None:
        numbers, size = on.parameters(), self.size
        if not callable(self.function):
            on.wrong("function must be a Python function; a formula is measured as 'formula'.", "function")
            return None
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            on.wrong(f"size must be a positive whole number, not {size!r}.", "size")
            size = 1
        if self.needs not in NEEDS:
            on.wrong(f"needs must be one of {', '.join(NEEDS)}, not {self.needs!r}.", "needs")
            return None
        level = NEEDS.index(self.needs)
        labels = [""] if size == 1 else [str(k) for k in range(size)]
        channels = tuple(Channel(label, self.unit, level) for label in labels)
        groups = (("all", tuple(range(size))),) if size > 1 else ()
        function = with_parameters(self.function, self.parameters)
        return self._placed(on, (), channels, groups, numbers, functions=(function,))
