"""1 · model: limits of joint coordinates and of measured positions, which may be enforced, and pictures of bodies, from
which nothing follows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from dalembert.model._arguments import (
    ChannelName,
    Colour,
    Coordinate,
    Impact,
    JointName,
    MeshFile,
    Number,
    Place,
    Positive,
    Quaternion,
    ShapeKind,
    Sizes,
    Vector,
    inside_folder,
)
from dalembert.model._element import AbstractTouching, Element
from dalembert.model._frames import Body, Marker
from dalembert.model._joint_forces import MeasuredStop, Stop
from dalembert.model._measurements import MeasuredPosition, measured_position
from dalembert.model._placed import Constraint
from dalembert.model._placing import Placing

SIZES: dict[str, dict[str, str]] = {
    "box": {"plane": "x y", "space": "x y z"},
    "sphere": {"plane": "radius", "space": "radius"},
    "cylinder": {"space": "radius length"},
    "capsule": {"plane": "radius length", "space": "radius length"},
    "ellipsoid": {"space": "x y z"},
    "plane": {"space": "x y"},
    "mesh": {"space": ""},
}
"""The kinds of shapes and their sizes: full edges of a box and a plane, half axes of an ellipsoid. A cylinder lies
along its z axis; so does a capsule (in the plane along x), whose length is that of its straight part."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A picture of a body: `position` and `rotation` in the body frame, `colour` as red, green, blue, opacity (0 … 1).

    A mesh is the name of a file beside the model file, and `scale` what its numbers are multiplied by. Nothing is
    computed from a shape.
    """

    name: str
    body: Body
    kind: str
    size: np.ndarray
    position: np.ndarray
    rotation: np.ndarray
    file: str = ""
    scale: np.ndarray | None = None
    colour: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Limit:
    """Stated limits of a joint's coordinate, or of a measured position."""

    name: str
    joint: Constraint | None
    coordinate: str
    lower: float | None = None
    upper: float | None = None
    effort: float | None = None
    velocity: float | None = None
    measured: MeasuredPosition | None = None

    def is_angle(self, space: str) -> bool:
        """Whether it limits an angle."""
        if self.joint is None:
            return self.measured is not None and self.measured.is_angle
        return self.joint.element.coordinates(space)[self.coordinate].is_angle


class RigidStop(AbstractTouching, abstract=True):
    """The rows of a limit that is enforced rigidly: position − lower and upper − position, never negative."""

    joint: JointName | None = None
    coordinate: Coordinate | None = None
    measured: MeasuredPosition | None = None  # in place of a joint's coordinate
    lower: Number | None = None
    upper: Number | None = None

    i: Place = field(default="ground", kw_only=False)
    j: Place = field(default="ground", kw_only=False)

    def touches(self, space):
        return True

    def signs(self, space):
        return (1,) * sum(x is not None for x in (self.lower, self.upper))

    def place(self, on):
        numbers = {k: on.number(k) for k in ("lower", "upper") if getattr(self, k) is not None}
        numbers |= self.restituted(on)
        if self.measured is not None:
            return on.constraint(self.measured.measurement.markers, numbers, is_angle=self.measured.is_angle)
        if (target := on.target()) is None:
            return on.constraint((on.centre(on.model.ground),) * 2, numbers)
        joint, which = target
        return on.constraint(joint.markers, numbers, target=joint, coordinate=which)


class LimitEntry(Element):
    """What a joint coordinate, or a measured position (`measurement`), is said to allow: its range; of a joint also its
    largest effort and speed.

    With a `restitution` (0 to 1) the range is enforced by rigid stops, whose impacts follow the law `impact`; with a
    `stiffness` (and `damping`) by elastic ones, as by `stop`. With neither it is information. A measured position is
    that of a point ("tip.y"), a distance, an angle or a joint's coordinate. In space an angle is in (−π, π], and a stop
    has its place there.
    """

    type = "limit"
    section = "limits"
    title = "Limit"

    joint: JointName | None = field(default=None, kw_only=False)
    measurement: ChannelName | None = None
    lower: Number | None = None
    upper: Number | None = None
    effort: Number | None = None
    velocity: Number | None = None
    coordinate: Coordinate | None = None
    restitution: Number | None = None
    impact: Impact = "newton"
    stiffness: Positive | None = None
    damping: Number | None = None

    def _enforced(self, on: Placing, made: Limit) -> None:
        """Add the stops."""
        low, high = self.lower, self.upper
        hard, soft = self.restitution is not None, self.stiffness is not None
        if hard and soft:
            on.wrong("give restitution (rigid stops) or stiffness (elastic ones), not both.", "stiffness")
        elif self.damping is not None and not soft:
            on.wrong(f"damping belongs to elastic stops; give {on.arg('stiffness')} too.", "damping")
        elif self.impact != "newton" and not hard:
            on.wrong(f"impact belongs to rigid stops; give {on.arg('restitution')} too.", "impact")
        elif (hard or soft) and low is None and high is None:
            on.wrong(f"give {on.arg('lower')}, {on.arg('upper')} or both: a stop needs its place.", "lower", "upper")
        elif hard:
            stop = RigidStop(
                name=self.name, joint=made.joint, coordinate=made.coordinate or None, measured=made.measured,
                lower=low, upper=high, restitution=self.restitution, impact=self.impact,
            )  # fmt: skip
            on.model.add(stop)
        elif self.stiffness is not None:
            damping = 0.0 if self.damping is None else self.damping
            if made.measured is not None:
                stop = MeasuredStop(
                    name=self.name, measured=made.measured,
                    lower=low, upper=high, stiffness=self.stiffness, damping=damping,
                )  # fmt: skip
                on.model.add(stop)
            elif made.joint is not None:
                stop = Stop(
                    name=self.name, joint=made.joint, coordinate=made.coordinate,
                    lower=low, upper=high, stiffness=self.stiffness, damping=damping,
                )  # fmt: skip
                on.model.add(stop)

    def _limited(self, on: Placing) -> Limit | None:
        """What it limits, without its numbers."""
        if (self.joint is None) == (self.measurement is None):
            on.wrong("give the joint or the measurement that it limits, one of them.", "joint", "measurement")
            return None
        if self.measurement is None:
            target = on.target()
            return None if target is None else Limit(self.name, *target)
        for key in ("effort", "velocity", "coordinate"):
            if on.given(key) is not None:
                on.wrong(f"{key} belongs to the limit of a joint, not of a measurement.", key)
        found = measured_position(on)
        if found is None:
            return None
        joint = found.measurement.target
        if isinstance(joint, Constraint):  # a joint's coordinate, under a name of its own
            return Limit(self.name, joint, found.measurement.coordinate)
        return Limit(self.name, None, "", measured=found)

    def place(self, on: Placing) -> Limit | None:
        keys = ("lower", "upper", "effort", "velocity")
        given = {k: on.number(k, negative=k in ("lower", "upper")) for k in keys if on.given(k) is not None}
        if not given:
            lower, upper, effort, velocity = map(on.arg, keys)
            on.wrong(f"give {lower}, {upper}, {effort} or {velocity}.")
        if given.get("lower", -np.inf) > given.get("upper", np.inf):
            on.wrong(f"lower={given['lower']:g} must not be greater than upper={given['upper']:g}.", "lower")
        made = self._limited(on)
        if made is None:
            return None
        made = replace(made, **given)
        enforced = self.restitution is not None or self.stiffness is not None
        if made.is_angle(on.space) and enforced and on.space == "space":
            for key in ("lower", "upper"):
                if abs(given.get(key, 0.0)) > np.pi:
                    on.wrong(f"{key}={given[key]:g} is out of reach: in space an angle is in (−π, π], in radians.", key)
        before = len(on.model.recorded)
        self._enforced(on, made)
        if self.name in on.model.constraints or self.name in on.model.forces:
            if len(on.model.recorded) == before:  # the stop has the name
                on.model.limits[self.name] = made
            return made
        return on.register(on.model.limits, made)


class ShapeEntry(Element):
    """A picture of a body, in its frame (or in a marker's): box, sphere, cylinder, capsule, ellipsoid, plane, mesh.

    `size`: the edges of a box (2 in the plane), the radius of a sphere, radius and length of a cylinder or capsule,
    half axes of an ellipsoid, edges of a plane. A mesh is the name of a `file` in the model file's folder, with a
    `scale`. Nothing is computed from a shape.
    """

    type = "shape"
    section = "shapes"
    title = "Shape"

    body: Place = field(kw_only=False)
    kind: ShapeKind = field(kw_only=False)
    size: Sizes | None = None
    position: Vector | None = None
    angle: Number | None = None
    quaternion: Quaternion | None = None
    file: MeshFile | None = None
    scale: Vector | None = None
    colour: Colour | None = None

    def place(self, on: Placing) -> Shape:
        place = on.place("body")
        kind, known = self.kind, [k for k, spaces in SIZES.items() if on.space in spaces]
        if kind not in known:
            on.wrong(f"kind must be one of {', '.join(known)}, not {kind!r}.", "kind")
            size, kind = np.ones(1), "sphere"
        else:
            size = _sizes(on, kind)
        R, p = on.orientation("quaternion"), on.vector("position")
        if isinstance(place, Marker):
            p, R = place.position + place.rotation @ p, place.rotation @ R
        made = Shape(
            name=self.name,
            body=place.body if isinstance(place, Marker) else place,
            kind=kind,
            size=size,
            position=p,
            rotation=R,
            file=_mesh_file(on, kind),
            scale=_scale(on, kind),
            colour=None if self.colour is None else _colour(on),
        )
        return on.register(on.model.shapes, made)


def _sizes(on: Placing, kind: str) -> np.ndarray:
    size, words = on.given("size"), SIZES[kind][on.space].split()
    if not words:
        if size is not None:
            on.wrong(f"a {kind} has no size; it has a scale.", "size")
        return np.zeros(0)
    if size is None:
        on.wrong(f"size is missing; a {kind} has {', '.join(words)}.", "size")
        return np.ones(len(words))
    sizes = on.array("size", size, (len(words),), f"{len(words)} numbers ({', '.join(words)})")
    if np.shape(size) == sizes.shape and np.any(np.asarray(size) <= 0):
        on.wrong(f"size must be greater than zero, not {size!r}.", "size")
    return sizes


def _mesh_file(on: Placing, kind: str) -> str:
    file = on.given("file")
    if kind != "mesh":
        if file is not None:
            on.wrong("only a mesh has a file.", "file")
        return ""
    if not isinstance(file, str) or not inside_folder(file):
        on.wrong(f"file must be the name of a file in the model file's folder, not {file!r}.", "file")
        return ""
    return file


def _scale(on: Placing, kind: str) -> np.ndarray | None:
    scale = on.given("scale")
    if kind != "mesh":
        if scale is not None:
            on.wrong("only a mesh has a scale.", "scale")
        return None
    if scale is None:
        return np.ones(3)
    factors = on.vector("scale", size=3)
    if np.any(factors == 0):
        on.wrong(f"scale must not be zero, not {scale!r}.", "scale")
    return factors


def _colour(on: Placing) -> np.ndarray:
    colour = on.given("colour")
    found = on.array("colour", colour, (4,), "4 numbers: red, green, blue, opacity")
    if np.any((found < 0) | (found > 1)):
        on.wrong(f"colour must be numbers from 0 to 1, not {colour!r}.", "colour")
    return found
