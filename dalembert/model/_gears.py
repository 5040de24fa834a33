"""1 · model: gears, racks and belts: wheels in contact, with the force where the teeth or the belt act."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dalembert.model._arguments import Flag, JointName, Number, Positive, Vector, Wheel
from dalembert.model._drivers import turn_sum
from dalembert.model._element import AbstractForce, AbstractJoint
from dalembert.model._frames import Body, Marker, deg
from dalembert.model._placed import Constraint, Force, Look
from dalembert.model._placing import Placing

PARALLEL = 1e-9  # sine up to which two axes count as parallel, cosine up to which as perpendicular
CLOSE = 1e-6  # share of the centre distance by which given radii may miss it
PRESSURE_ANGLE = 20 * deg


@dataclass(frozen=True)
class Turning:
    """A wheel (or a rack) as its joint places it at the start: its body, a point on its axis, and that axis.

    The axis points such that the joint's coordinate counts the motion of `body` along it; None where it is unknown.
    """

    body: Body
    centre: np.ndarray
    axis: np.ndarray | None


class AbstractMesh(AbstractJoint, abstract=True):
    """Wheels in contact: one row, and a force where they touch."""

    title = "Coupling"
    assumption = "the tooth force acts on the flank that is loaded, so it pushes the wheels apart either way"


class Gear(AbstractMesh):
    """Two gears in mesh: their pitch circles roll on each other, and the tooth force acts at the pitch point.

    A wheel is named by the joint it turns on: of its two bodies the one that the two joints do not share (they
    share the carrier), else body j. Or by its own body (turning about its centre) or a marker at its centre.
    `ratio` is teeth_other / teeth_joint, negative for an internal gear; the pitch radii follow from the distance of
    the axes. Or give both pitch radii. The axes are parallel and held by other joints; they may move (planets).

    The reaction is what acts on the wheel of `other`: the tangential force (the multiplier) and the radial force
    tan(pressure_angle) times as large, which pushes the wheels apart on either flank (0: none). In space
    `helix_angle` (positive: right-hand teeth on the wheel of `joint`) adds the axial force; the pressure angle is
    then that of the normal section. The wheels lie in the plane through `at`, by default through the first joint.
    """

    drawn_as = Look("hubs", foot=False, holds=False, wheels=((0, "radius_i"), (1, "radius_j")), inside=True)

    joint: Wheel = field(kw_only=False)
    other: Wheel = field(kw_only=False)
    ratio: Number | None = None
    radius: Positive | None = None
    radius_other: Positive | None = None
    pressure_angle: Number = PRESSURE_ANGLE
    helix_angle: Number = 0.0
    at: Vector | None = None

    def place(self, on):
        ratio = None if self.ratio is None else on.number("ratio")
        ends = _wheel_markers(on)
        if ends is None:
            return on.constraint(())
        *markers, distance = ends
        radii = _pitch_radii(on, ratio, distance)
        helix = _helix(on)
        numbers = _wheel_numbers(on.space, *radii, distance)
        numbers |= _sided(math.copysign(_radial_slope(on), radii[0] * radii[1]) / math.cos(helix))
        if helix:
            numbers["helix"] = math.copysign(math.tan(helix), helix * radii[0])
        return _meshed(on, markers, numbers)


class Belt(AbstractMesh):
    """A belt without slip over two pulleys: they turn alike, or opposite if the belt is crossed.

    Pulleys are named as the wheels of `gear` are. The multiplier is the difference of the two span tensions.
    Without `pretension` the tight span bears it and the slack one nothing: the least load the bearings can have.
    With it (the tension of both spans at rest) one span gains what the other loses, as in an elastic belt with
    fixed axes: the bearings bear the sum of T₀ ± half the difference along the spans. The slack span is then at
    T₀ − half the difference; where that is negative the belt would slip, and a warning is given. The pull of the
    pretension is a force of its own, `<name>_pretension`, and no part of the belt's reaction.
    """

    assumption = "no pretension is given: the tight span bears all, the slack one nothing"
    drawn_as = Look("hubs", foot=False, holds=False, wheels=((0, "radius_i"), (1, "radius_j")))

    joint: Wheel = field(kw_only=False)
    other: Wheel = field(kw_only=False)
    radius: Positive
    radius_other: Positive
    crossed: Flag = False
    pretension: Positive | None = None
    at: Vector | None = None

    def place(self, on):
        r1, r2 = on.positive("radius"), on.positive("radius_other")
        tension = None if self.pretension is None else on.positive("pretension")
        ends = _wheel_markers(on)
        if ends is None:
            return on.constraint(())
        *markers, distance = ends
        radii = (r1, r2 if self.crossed else -r2)
        sine = (radii[0] + radii[1]) / distance
        if abs(sine) > 1 + CLOSE and r1 == self.radius and r2 == self.radius_other:
            on.wrong(
                f"no {'crossed' if self.crossed else 'open'} belt fits over pulleys of {r1:g} and {r2:g} whose axes "
                f"are {distance:g} apart.",
                "crossed",
                "radius",
            )
        along = math.sqrt(max(0.0, 1.0 - sine**2))
        numbers = _wheel_numbers(on.space, *radii, distance)
        if tension is None:
            numbers |= _sided(-along)
        made = _meshed(on, markers, numbers)
        if tension is not None and on.model.constraints.get(self.name) is made:
            pull = Pretension(f"{self.name}_pretension", belt=made, tension=tension, share=2 * along)
            on.model.add(pull)
        return made


class Pretension(AbstractForce, abstract=True):
    """The pull of a belt's pretension on its two pulleys; comes with the belt, not stated by itself."""

    type = "belt_tension"

    belt: Constraint
    tension: float
    share: float

    def place(self, on: Placing) -> Force:
        numbers = {"tension": self.tension, "share": self.share}
        return on.force(self.belt.markers, numbers, target=self.belt)


class RackAndPinion(AbstractMesh):
    """A pinion rolls on a rack: displacement of `rack` = radius · angle of `pinion`, the force at the pitch point.

    The pinion is named as a wheel of `gear` is, the rack by the joint it slides on. A negative radius puts the rack
    on the other side of the pinion. The reaction is what acts on the rack: the force along it (the multiplier), and
    tan(pressure_angle) times as much away from the pinion. In space the teeth lie in the plane through `at`.
    """

    drawn_as = Look("rack", foot=False, holds=False, wheels=((0, "radius"),))

    pinion: Wheel = field(kw_only=False)
    rack: JointName = field(kw_only=False)
    radius: Number
    pressure_angle: Number = PRESSURE_ANGLE
    at: Vector | None = None

    def place(self, on):
        signed = on.number("radius")
        if signed == 0.0:
            on.wrong("radius must not be zero.", "radius")
            signed = 1.0
        slope = _radial_slope(on)
        wheel, slide = _pinion(on)
        if wheel is None or slide is None or slide.axis is None:
            return on.constraint(())
        z, e = wheel.axis, slide.axis
        if z is None:
            on.wrong("nothing says about which axis the pinion turns; name its joint.", "pinion")
            return on.constraint(())
        r = abs(signed)
        if on.space == "plane":
            # n × z, with z up or down: from the centre to the pitch line
            n = math.copysign(1.0, signed) * z[0] * np.array([e[1], -e[0]])
            frame, centre = np.column_stack([[n[1], -n[0]], n]), wheel.centre
            if self.at is not None:
                _only_in_space(on)
        else:
            if abs(e @ z) > PARALLEL:
                text = "the rack must slide across the pinion's axis; skew racks are not supported."
                on.wrong(text, "rack", "pinion")
                return on.constraint(())
            n = math.copysign(1.0, signed) * np.cross(e, z)
            frame = np.column_stack([np.cross(n, z), n, z])
            centre = _in_mesh_plane(on, wheel.centre, wheel.centre, z)
        markers = [on.fixed(wheel.body, centre, frame), on.fixed(slide.body, centre + r * n, frame)]
        turns = 0.0 if on.space == "plane" else 2 * math.pi * r
        numbers = {"radius": r, "turns": turns, "distance": r} | _sided(slope)
        return _meshed(on, markers, numbers)


# ---- wheels --------------------------------------------------------------------------------------------------------


def _meshed(on: Placing, markers, numbers) -> Constraint:
    speeds = math.isnan(numbers["turns"])
    return on.constraint(markers, numbers | ({"turns": 0.0} if speeds else {}), speeds=speeds)


def _only_in_space(on: Placing) -> None:
    on.wrong(f"{on.arg('at')} is for space: in the plane all lies in one plane.", "at")


def _wheel_numbers(space: str, radius_i: float, radius_j: float, distance: float) -> dict[str, float]:
    if space == "plane":  # the wheels' turns are counted, those of the line of centres are not
        total = abs(radius_i + radius_j)
        turns = 2 * math.pi * total if total > PARALLEL * distance else 0.0
    else:
        found = turn_sum([radius_i, radius_j])
        turns = math.nan if found is None else found
    return {"radius_i": radius_i, "radius_j": radius_j, "distance": distance, "turns": turns}


def _pitch_radii(on: Placing, ratio: float | None, distance: float) -> tuple[float, float]:
    """Signed radii that add up to the distance of the axes."""
    keys = ("radius", "radius_other")
    one, two = (None if on.given(k) is None else on.positive(k) for k in keys)
    if ratio is not None and (one, two) != (None, None):
        on.wrong(f"give {on.arg('ratio')} or both radii, not both.", "ratio")
    elif ratio is None and (one is None or two is None):
        text = f"give {on.arg('ratio')}, teeth of the other wheel over teeth of this one, or both radii."
        on.wrong(text, "ratio")
    elif ratio is None:
        assert one is not None and two is not None
        if (one, two) != tuple(map(on.given, keys)):
            pass  # already reported
        elif abs(one + two - distance) <= CLOSE * distance:
            ratio = two / one
        elif abs(abs(one - two) - distance) <= CLOSE * distance:
            ratio = -two / one
        else:
            on.wrong(
                f"the axes are {distance:g} apart; pitch radii of {one:g} and {two:g} need "
                f"{one + two:g}, or {abs(one - two):g} for a wheel in a ring."
            )
    elif ratio == 0.0:
        on.wrong("ratio must not be zero.", "ratio")
    elif abs(1.0 + ratio) <= PARALLEL:
        on.wrong("a wheel in a ring of its own size has no distance of axes; use gear_ratio.", "ratio")
        ratio = None
    if not ratio:
        return 0.5 * distance, 0.5 * distance
    # the first is rounded, the second exactly in ratio to it: teeth count full turns
    first = distance / (1.0 + ratio)
    return first, ratio * first


def _radial_slope(on: Placing) -> float:
    """tan of the pressure angle."""
    value = on.number("pressure_angle")
    if not 0.0 <= value < math.pi / 4:
        text = f"pressure_angle is an angle in radians, from 0 to below 45 * da.deg, not {value:g}."
        on.wrong(text, "pressure_angle")
        return 0.0
    return math.tan(value)


def _helix(on: Placing) -> float:
    value = on.number("helix_angle")
    if not abs(value) < math.pi / 3:
        on.wrong(f"helix_angle is an angle in radians, below 60 * da.deg, not {value:g}.", "helix_angle")
        return 0.0
    if value and on.space == "plane":
        on.wrong("helix_angle exists only in space; its axial force leaves the plane.", "helix_angle")
        return 0.0
    return value


def _wheel_markers(on: Placing) -> tuple[Marker, Marker, float] | None:
    """Markers of the two wheels, x along the line of centres and z along the axes, and the centre distance."""
    pair = _wheels(on)
    if pair is None:
        return None
    one, two = pair
    if on.space == "plane":
        if on.given("at") is not None:
            _only_in_space(on)
        first, second = one.centre, two.centre
        z = None
    else:
        z = one.axis if one.axis is not None else two.axis
        if z is None:
            on.wrong("nothing says about which axis the wheels turn; name a joint or a marker.", "joint")
            return None
        if two.axis is not None and np.linalg.norm(np.cross(z, two.axis)) > PARALLEL:
            on.wrong(
                "the axes are not parallel; bevel, worm and crossed gears are not supported as contacts. "
                "Couple their angles with gear_ratio or coupling: without the tooth force."
            )
            return None
        first, second = (_in_mesh_plane(on, w.centre, one.centre, z) for w in pair)
    d = second - first
    distance = float(np.linalg.norm(d))
    if distance <= PARALLEL * (1.0 + np.linalg.norm(first)):
        on.wrong("both wheels turn about the same axis; couple their angles with gear_ratio.")
        return None
    n = d / distance
    frame = np.column_stack([n, [-n[1], n[0]]] if z is None else [n, np.cross(z, n), z])
    return on.fixed(one.body, first, frame), on.fixed(two.body, second, frame), distance


def _in_mesh_plane(on: Placing, point, first, z) -> np.ndarray:
    """The point of a wheel's axis in the plane across z through `at`, by default through the first centre."""
    through = on.vector("at", default=first)
    return point + z * (z @ (through - point))


def _wheels(on: Placing) -> tuple[Turning, Turning] | None:
    """The two wheels; the body that their joints share is the carrier."""
    found = [_named(on, key) for key in ("joint", "other")]
    if found[0] is None or found[1] is None:
        return None
    out = []
    for key, me, you in (("joint", found[0], found[1]), ("other", found[1], found[0])):
        wheel = _wheel(on, key, me, you)
        if wheel is None:
            return None
        out.append(wheel)
    if out[0].body is out[1].body:
        on.wrong(f"both wheels are body '{out[0].body.name}'; name two joints of different wheels.", "joint")
        return None
    return out[0], out[1]


def _named(on: Placing, key: str) -> Constraint | Body | Marker | None:
    place, model = on.given(key), on.model
    if isinstance(place, Constraint) or (isinstance(place, str) and place in model.constraints):
        return on.joint(key)
    if isinstance(place, Body | Marker) or (
        isinstance(place, str) and (place == "ground" or place in model.bodies or place in model.markers)
    ):
        return on.place(key)
    return on.joint(key)  # reports that there is none


def _wheel(on: Placing, key: str, me, you) -> Turning | None:
    if isinstance(me, Marker):
        return Turning(me.body, me.start_position, me.start_rotation[:, 2] if on.space == "space" else np.ones(1))
    if isinstance(me, Body):
        if me.is_ground:
            on.wrong("ground has no centre to turn about; give a marker on it.", key)
            return None
        return Turning(me, me.position, None if on.space == "space" else np.ones(1))
    angle = me.element.coordinates(on.space).get("angle")
    if angle is None or angle.axis is None:
        on.wrong(
            f"joint '{me.name}' ({me.type}) does not bear a wheel; name a revolute joint, the wheel's body, "
            "or a marker at its centre.",
            key,
        )
        return None
    return _moving(on, me, you, 2)


def _moving(on: Placing, me: Constraint, you, column: int) -> Turning | None:
    """The body of a joint that is not shared with the other joint, else j; its point and axis at the start."""
    if len(me.markers) != 2:
        return None  # a joint with a mistake of its own
    i, j = me.markers
    theirs = [m.body for m in you.markers] if isinstance(you, Constraint) else [getattr(you, "body", you)]
    mine = i if j.body in theirs and i.body not in theirs else j
    sign = 1.0 if mine is j else -1.0
    axis = np.array([sign]) if on.space == "plane" and column == 2 else sign * i.start_rotation[:, column]
    return Turning(mine.body, mine.start_position, axis)


def _pinion(on: Placing) -> tuple[Turning | None, Turning | None]:
    one, two = _named(on, "pinion"), on.joint("rack")
    if one is None or two is None:
        return None, None
    if not two.element.guides(on.space):
        text = f"joint '{two.name}' ({two.type}) does not guide a rack; name a prismatic joint."
        on.wrong(text, "rack")
        return None, None
    return _wheel(on, "pinion", one, two), _moving(on, two, one, 0 if on.space == "plane" else 2)


def _sided(slope: float) -> dict[str, float]:
    """The radial part of the force, whose side follows the load; none where there is no such force."""
    return {"slope": slope, "side": 0.0} if slope else {}
