"""1 · model: the joints with a frame: lower pairs and their like, and those that hold orientation alone.

Each is placed by a point and an axis in the start configuration, or by two markers. Joint frame: marker i's; its z axis
is the joint's (in the plane sliders move along x).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dalembert.model._arguments import Directions, Number, Positive, Vector
from dalembert.model._element import AbstractPlay, Joint
from dalembert.model._frames import axis_angle, frame_on_axis
from dalembert.model._placed import BALL, SCREW, WELD, Bearing, Look, angle_about, length_along, slide_along, turn_about

PERPENDICULAR = 1e-9  # cosine up to which two axes count as perpendicular
SPACE_DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")
PLANE_DIRECTIONS = ("x", "y", "angle")


class Weld(Joint):
    """Bodies i and j move as one."""

    tree_links = (WELD,)
    drawn_as = Look("block")
    needs_point = False

    at: Vector | None = None


class Revolute(AbstractPlay):
    """A hinge at `at`; in space about `axis` (marker z axes). Coordinate: angle of j against i.

    With a `clearance` the centre of the pin (of j) stays within that distance of the centre of the hole (of i), across
    the axis; in space what holds it along the axis, and its direction, have no play.
    """

    free_coordinates = {"angle": angle_about()}
    tree_links = (turn_about(),)

    at: Vector | None = None
    axis: Vector | None = None

    def bearing(self, space):
        return Bearing(("Fx", "Fy"), () if space == "plane" else ("Mx", "My"))

    def look(self, space):
        return Look("hinge", movable=space == "space")

    def markers(self, on):
        return on.joint_markers("axis", needs_axis=on.space == "space")


class Prismatic(AbstractPlay):
    """j slides along `axis` of i without turning. Coordinate: displacement.

    With a `clearance` both ends of a slider of the given `length`, whose middle is at `at`, stay within that distance
    of the axis of i; in space the slider does not turn about its axis.
    """

    frame_axis = "axis"

    at: Vector | None = None
    axis: Vector | None = None
    length: Positive | None = None

    def coordinates(self, space):
        return {"displacement": length_along(_along(space))}

    def free_links(self, space):
        return (slide_along(_along(space)),)

    def gaps(self, space):
        return 4 if space == "plane" else 2

    def numbers(self, on):
        return super().numbers(on) | _length_in_play(self, on)

    def guides(self, space):
        return True

    def bearing(self, space):
        return Bearing(("Fy",), ("Mz",)) if space == "plane" else Bearing(("Fx", "Fy"), ("Mx", "My"))

    def look(self, space):
        return Look("sleeve", rail=_along(space), foot=False, holds=False, draws_j=True)


def _length_in_play(element, on) -> dict[str, float]:
    """The length of a slider with play."""
    if not element.touches(on.space):
        if element.length is not None:
            on.wrong(f"length belongs to a slider with play; give {on.arg('clearance')} too.", "length")
        return {}
    if element.length is None:
        on.wrong(f"a slider with play needs its {on.arg('length')}.", "clearance")
        return {"length": 1.0}
    return {"length": on.positive("length")}


def _along(space: str) -> int:
    """The axis of marker i along which sliders move."""
    return 0 if space == "plane" else 2


class Cylindrical(AbstractPlay):
    """j slides along and turns about `axis` of i. Coordinates: displacement, angle.

    With a `clearance` both ends of a pin of the given `length`, whose middle is at `at`, stay within that distance of
    the axis of i.
    """

    spaces = ("space",)
    free_coordinates = {"displacement": length_along(), "angle": angle_about()}
    tree_links = (slide_along(), turn_about())
    drawn_as = Look("rod_in_sleeve", rail=2, holds=False)
    frame_axis = "axis"

    at: Vector | None = None
    axis: Vector | None = None
    length: Positive | None = None

    def guides(self, space):
        return True

    def gaps(self, space):
        return 2

    def numbers(self, on):
        return super().numbers(on) | _length_in_play(self, on)

    def bearing(self, space):
        return Bearing(("Fx", "Fy"), ("Mx", "My"))


class Screw(Joint):
    """j turns about `axis` of i and advances by `pitch` a turn (negative: left-handed). Any number of turns."""

    spaces = ("space",)
    free_coordinates = {"displacement": length_along(), "angle": angle_about()}
    tree_links = (SCREW,)
    drawn_as = Look("screw", rail=2, holds=False)
    frame_axis = "axis"

    pitch: Number
    at: Vector | None = None
    axis: Vector | None = None

    def numbers(self, on):
        pitch = on.number("pitch")
        if pitch == 0.0:
            on.wrong("pitch is zero: that is a revolute joint, use revolute.", "pitch")
            pitch = 1.0
        return {"pitch": pitch}


class Spherical(AbstractPlay):
    """A ball joint at `at`. With a `clearance` the ball of j stays within that distance of the middle of its socket."""

    spaces = ("space",)
    tree_links = (BALL,)
    drawn_as = Look("ball")

    at: Vector | None = None

    def bearing(self, space):
        return Bearing(("Fx", "Fy", "Fz"), ball=True)


class Universal(Joint):
    """A Hooke joint at `at`: `axis_i` fixed in i stays perpendicular to `axis_j` fixed in j.

    By markers: x axis of marker i, y axis of marker j. Coordinates: angle_i about axis_i, angle_j about axis_j.
    """

    spaces = ("space",)
    free_coordinates = {"angle_i": angle_about(0), "angle_j": angle_about(1)}
    tree_links = (turn_about(0), turn_about(1))
    drawn_as = Look("cross")

    at: Vector | None = None
    axis_i: Vector | None = None
    axis_j: Vector | None = None

    def link_values(self, links, d, B, numbers):
        return [math.atan2(B[2, 1], B[1, 1]), math.atan2(B[0, 2], B[0, 0])]

    def markers(self, on):
        if on.pair() is not None:
            return on.joint_markers()
        x, y = on.axis("axis_i"), on.axis("axis_j")
        if abs(x @ y) > PERPENDICULAR:
            on.not_perpendicular("axis_i", "axis_j")
            return on.joint_markers()
        frame = np.column_stack([x, y, np.cross(x, y)]) if on.space == "space" else None
        return on.joint_markers(frame=frame)


class ConstantVelocity(Joint):
    """A homokinetic joint at `at`: shaft j (`axis_j`) turns exactly as fast as shaft i (`axis_i`) at any bend.

    Both axes point the same way through the joint; bend below a right angle. By markers: z axes along the shafts,
    j's frame being i's tilted about an axis across both. Coordinates: angle_x, angle_y, the tilt of shaft j.
    """

    spaces = ("space",)
    free_coordinates = {"angle_x": angle_about(None), "angle_y": angle_about(None)}
    drawn_as = Look("ball_in_ring")

    at: Vector | None = None
    axis_i: Vector | None = None
    axis_j: Vector | None = None

    def markers(self, on):
        if on.pair() is not None or on.space == "plane":
            return on.joint_markers()
        a = on.axis("axis_i")
        b = a if self.axis_j is None else on.axis("axis_j")
        if a @ b < 1e-6:
            on.wrong("axis_i and axis_j must point the same way, at less than a right angle.", "axis_i", "axis_j")
            b = a
        frame, across = frame_on_axis(a), np.cross(a, b)
        tilted = frame
        if np.linalg.norm(across) > 1e-12:
            tilted = axis_angle(across, float(np.arctan2(np.linalg.norm(across), a @ b))) @ frame
        return on.joint_markers(frame=frame, frame_j=tilted)


class Planar(Joint):
    """j slides on a plane of i through `at` and turns about its `normal`. Coordinates: x, y, angle.

    `x` sets the direction of the first coordinate; by markers, x and z axes.
    """

    spaces = ("space",)
    free_coordinates = {"x": length_along(0), "y": length_along(1), "angle": angle_about()}
    tree_links = (slide_along(0), slide_along(1), turn_about())
    drawn_as = Look("pad", sides=(1,), foot=False, holds=False)

    at: Vector | None = None
    normal: Vector | None = None
    x: Vector | None = None

    def markers(self, on):
        return on.joint_markers("normal", x="x")


class PinSlot(Joint):
    """A pin of j slides along the `slot` of i and turns about the pin's `axis` (z in space; x is the slot).

    Coordinates: displacement along the slot, angle about the pin.
    """

    free_coordinates = {"displacement": length_along(0), "angle": angle_about()}
    tree_links = (slide_along(0), turn_about())
    drawn_as = Look("slot", rail=0, slot=True, foot=False, holds=False)

    at: Vector | None = None
    slot: Vector | None = None
    axis: Vector | None = None

    def guides(self, space):
        return space == "plane"

    def bearing(self, space):
        return Bearing(("Fy",)) if space == "plane" else None

    def markers(self, on):
        if on.space == "plane" or on.pair() is not None:
            return on.joint_markers("slot")
        along, pin = on.axis("slot"), on.axis("axis")
        if abs(along @ pin) > PERPENDICULAR:
            on.not_perpendicular("slot", "axis")
            return on.joint_markers()
        return on.joint_markers(frame=frame_on_axis(pin, along))


class Generic(Joint):
    """Hold any of the six relative directions x, y, z, rx, ry, rz (in the plane x, y, angle), along marker i.

    With two rotations held, the third axis stays parallel; with one held, the other two are the axes of a cardan
    cross, the first of them (x before y before z) fixed in i. Coordinates: the free directions that one number
    describes. `axis` is z (in the plane x), `x` the first axis.
    """

    drawn_as = Look("block")

    held: Directions
    at: Vector | None = None
    axis: Vector | None = None
    x: Vector | None = None

    def directions(self, space: str) -> tuple[str, ...]:
        """The held directions, in order; all of them where the statement is wrong."""
        known = PLANE_DIRECTIONS if space == "plane" else SPACE_DIRECTIONS
        given = self._given()
        good = given and len(set(map(str, given))) == len(given) and all(k in known for k in given)
        return tuple(k for k in known if k in given) if good else known

    def _given(self) -> list:
        return [self.held] if isinstance(self.held, str) or not isinstance(self.held, Sequence) else list(self.held)

    def coordinates(self, space):
        held = self.directions(space)
        if space == "plane":
            all_three = {"x": length_along(0), "y": length_along(1), "angle": angle_about()}
            return {k: x for k, x in all_three.items() if k not in held}
        lengths = {k: length_along(n) for n, k in enumerate("xyz") if k not in held}
        turns = {f"angle_{k}": angle_about(n) for n, k in enumerate("xyz") if f"r{k}" not in held}
        return lengths | (turns if len(turns) < 3 else {})

    def markers(self, on):
        known = PLANE_DIRECTIONS if on.space == "plane" else SPACE_DIRECTIONS
        given = self._given()
        if not given or len(set(map(str, given))) != len(given) or any(k not in known for k in given):
            on.wrong(f"held must be some of {', '.join(known)}, each once, not {self.held!r}.", "held")
        return on.joint_markers("axis", needs_axis=False, x="x")


# ---- orientation alone ---------------------------------------------------------------------------------------------


class ParallelAxes(Joint):
    """An axis of j stays parallel to `axis` of i. Coordinate: angle about it."""

    spaces = ("space",)
    free_coordinates = {"angle": angle_about()}
    drawn_as = Look("corner")
    frame_axis = "axis"
    needs_point = False

    at: Vector | None = None
    axis: Vector | None = None


class PerpendicularAxes(Joint):
    """`axis_j` of j stays perpendicular to `axis_i` of i (marker z axes)."""

    spaces = ("space",)
    drawn_as = Look("corner")

    at: Vector | None = None
    axis_i: Vector | None = None
    axis_j: Vector | None = None

    def markers(self, on):
        return _two_axes(on)


class ConstantAngle(Joint):
    """`axis_j` of j keeps its angle to `axis_i` of i (marker z axes); default: the angle at the start."""

    spaces = ("space",)
    drawn_as = Look("corner")

    at: Vector | None = None
    axis_i: Vector | None = None
    axis_j: Vector | None = None
    angle: Number | None = None

    def place(self, on):
        value = None if self.angle is None else on.number("angle")
        markers = _two_axes(on)
        if value is None:
            cosine = np.clip(markers[0].start_rotation[:, -1] @ markers[1].start_rotation[:, -1], -1, 1)
            value = float(np.arccos(cosine))
        if abs(np.sin(value)) < 1e-6:
            text = f"at an angle of {value:g} the axes are parallel: use parallel_axes."
            on.wrong(text, "angle", "axis_i", "axis_j")
            value = 1.0
        return on.constraint(markers, {"angle": value})


def _two_axes(on):
    """Markers whose z axes are axis_i and axis_j."""
    if on.pair() is not None or on.space == "plane":
        return on.joint_markers(needs_point=False)
    frame, frame_j = frame_on_axis(on.axis("axis_i")), frame_on_axis(on.axis("axis_j"))
    return on.joint_markers(needs_point=False, frame=frame, frame_j=frame_j)


class OrientationLock(Joint):
    """j does not turn against i, but may shift. Coordinates: x, y, z along i's marker axes."""

    spaces = ("space",)
    free_coordinates = {"x": length_along(0), "y": length_along(1), "z": length_along(2)}
    tree_links = (slide_along(0), slide_along(1), slide_along(2))
    drawn_as = Look("corner")
    needs_point = False

    at: Vector | None = None


class AngleLock(Joint):
    """In the plane: j does not turn against i, but may shift. Coordinates: x, y along i's marker axes."""

    spaces = ("plane",)
    free_coordinates = {"x": length_along(0), "y": length_along(1)}
    tree_links = (slide_along(0), slide_along(1))
    drawn_as = Look("corner")
    needs_point = False

    at: Vector | None = None
