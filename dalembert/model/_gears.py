"""1 · model: gears, racks and belts: wheels in contact, with the force where the teeth or the belt act."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dalembert.model._drivers import Drivers, turn_sum
from dalembert.model._elements import Constraint, Force
from dalembert.model._frames import Body, Marker, deg
from dalembert.model._kinds import coordinates_of
from dalembert.model._statements import JointName, Name, Number, Positive, Vector, Wheel, element

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


class Gears(Drivers):
    """The part of `Model` that adds gears, racks and belts."""

    @element("joints")
    def gear(
        self,
        name: Name,
        joint: Wheel,
        other: Wheel,
        *,
        ratio: Number | None = None,
        radius: Positive | None = None,
        radius_other: Positive | None = None,
        pressure_angle: Number = PRESSURE_ANGLE,
        helix_angle: Number = 0.0,
        at: Vector | None = None,
    ) -> Constraint:
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
        who = f"Coupling '{name}'"
        ratio = None if ratio is None else self._number(f"{who}: ratio", ratio)
        ends = self._wheel_markers(who, joint, other, at)
        if ends is None:
            return self._nothing(name, "gear")
        *markers, distance = ends
        radii = self._pitch_radii(who, ratio, radius, radius_other, distance)
        helix = self._helix(who, helix_angle)
        numbers = self._wheel_numbers(*radii, distance)
        slope = math.copysign(self._radial_slope(who, pressure_angle), radii[0] * radii[1]) / math.cos(helix)
        numbers |= _sided(slope)
        if helix:
            numbers["helix"] = np.asarray(math.copysign(math.tan(helix), helix * radii[0]))
        return self._meshed(name, "gear", markers, numbers)

    @element("joints")
    def belt(
        self,
        name: Name,
        joint: Wheel,
        other: Wheel,
        *,
        radius: Positive,
        radius_other: Positive,
        crossed: bool = False,
        pretension: Positive | None = None,
        at: Vector | None = None,
    ) -> Constraint:
        """A belt without slip over two pulleys: they turn alike, or opposite if the belt is crossed.

        Pulleys are named as the wheels of `gear` are. The multiplier is the difference of the two span tensions.
        Without `pretension` the tight span bears it and the slack one nothing: the least load the bearings can have.
        With it (the tension of both spans at rest) one span gains what the other loses, as in an elastic belt with
        fixed axes: the bearings bear the sum of T₀ ± half the difference along the spans. The slack span is then at
        T₀ − half the difference; where that is negative the belt would slip, and a warning is given. The pull of the
        pretension is a force of its own, `<name>_pretension`, and no part of the belt's reaction.
        """
        who = f"Coupling '{name}'"
        r1 = self._number(f"{who}: radius", radius, positive=True)
        r2 = self._number(f"{who}: radius_other", radius_other, positive=True)
        tension = None if pretension is None else self._number(f"{who}: pretension", pretension, positive=True)
        ends = self._wheel_markers(who, joint, other, at)
        if ends is None:
            return self._nothing(name, "belt")
        *markers, distance = ends
        radii = (r1, r2 if crossed else -r2)
        sine = (radii[0] + radii[1]) / distance
        if abs(sine) > 1 + CLOSE and r1 == radius and r2 == radius_other:
            self._wrong(
                f"{who}: no {'crossed' if crossed else 'open'} belt fits over pulleys of {r1:g} and {r2:g} whose axes "
                f"are {distance:g} apart."
            )
        along = math.sqrt(max(0.0, 1.0 - sine**2))
        numbers = self._wheel_numbers(*radii, distance)
        if tension is None:
            numbers |= _sided(-along)
        made = self._meshed(name, "belt", markers, numbers)
        if tension is not None and self.constraints.get(name) is made:
            pull = {"tension": np.asarray(tension), "share": np.asarray(2 * along)}
            both = Force(f"{name}_pretension", "belt_tension", tuple(markers), pull)
            self._register(self.forces, both.name, both, "Force")
        return made

    @element("joints")
    def rack_and_pinion(
        self,
        name: Name,
        pinion: Wheel,
        rack: JointName,
        *,
        radius: Number,
        pressure_angle: Number = PRESSURE_ANGLE,
        at: Vector | None = None,
    ) -> Constraint:
        """A pinion rolls on a rack: displacement of `rack` = radius · angle of `pinion`, the force at the pitch point.

        The pinion is named as a wheel of `gear` is, the rack by the joint it slides on. A negative radius puts the rack
        on the other side of the pinion. The reaction is what acts on the rack: the force along it (the multiplier), and
        tan(pressure_angle) times as much away from the pinion. In space the teeth lie in the plane through `at`.
        """
        who = f"Coupling '{name}'"
        signed = self._number(f"{who}: radius", radius)
        if signed == 0.0:
            self._wrong(f"{who}: radius must not be zero.")
            signed = 1.0
        slope = self._radial_slope(who, pressure_angle)
        wheel, slide = self._pinion(who, pinion, rack)
        if wheel is None or slide is None or slide.axis is None:
            return self._nothing(name, "rack_and_pinion")
        z, e = wheel.axis, slide.axis
        if z is None:
            self._wrong(f"{who}: nothing says about which axis the pinion turns; name its joint.")
            return self._nothing(name, "rack_and_pinion")
        r = abs(signed)
        if self.space == "plane":
            # n × z, with z up or down: from the centre to the pitch line
            n = math.copysign(1.0, signed) * z[0] * np.array([e[1], -e[0]])
            frame, centre = np.column_stack([[n[1], -n[0]], n]), wheel.centre
            if at is not None:
                self._wrong(f"{who}: at= is for space: in the plane all lies in one plane.")
        else:
            if abs(e @ z) > PARALLEL:
                self._wrong(f"{who}: the rack must slide across the pinion's axis; skew racks are not supported.")
                return self._nothing(name, "rack_and_pinion")
            n = math.copysign(1.0, signed) * np.cross(e, z)
            frame = np.column_stack([np.cross(n, z), n, z])
            centre = self._in_mesh_plane(who, wheel.centre, wheel.centre, z, at)
        markers = [self._fixed(wheel.body, centre, frame), self._fixed(slide.body, centre + r * n, frame)]
        turns = 0.0 if self.space == "plane" else 2 * math.pi * r
        numbers = {"radius": np.asarray(r), "turns": np.asarray(turns), "distance": np.asarray(r)} | _sided(slope)
        return self._meshed(name, "rack_and_pinion", markers, numbers)

    # ---- wheels --------------------------------------------------------------------------------------------

    def _meshed(self, name, kind, markers, numbers) -> Constraint:
        if "turns" in numbers and math.isnan(numbers["turns"]):
            kind, numbers = f"{kind}:speeds", numbers | {"turns": np.asarray(0.0)}
        made = Constraint(name, kind, tuple(markers), numbers)
        self._register(self.constraints, name, made, "Coupling")
        return made

    def _nothing(self, name, kind) -> Constraint:
        """A placeholder for an element with a mistake: the model is refused before it is built."""
        made = Constraint(name, kind, ())
        self._register(self.constraints, name, made, "Coupling")
        return made

    def _wheel_numbers(self, radius_i: float, radius_j: float, distance: float) -> dict[str, np.ndarray]:
        if self.space == "plane":  # the wheels' turns are counted, those of the line of centres are not
            total = abs(radius_i + radius_j)
            turns = 2 * math.pi * total if total > PARALLEL * distance else 0.0
        else:
            found = turn_sum([radius_i, radius_j])
            turns = math.nan if found is None else found
        words = {"radius_i": radius_i, "radius_j": radius_j, "distance": distance, "turns": turns}
        return {k: np.asarray(x) for k, x in words.items()}

    def _pitch_radii(self, who, ratio, radius, radius_other, distance) -> tuple[float, float]:
        """Signed radii that add up to the distance of the axes."""
        given = [
            None if x is None else self._number(f"{who}: {word}", x, positive=True)
            for word, x in (("radius", radius), ("radius_other", radius_other))
        ]
        one, two = given
        if ratio is not None and given != [None, None]:
            self._wrong(f"{who}: give ratio= or both radii, not both.")
        elif ratio is None and (one is None or two is None):
            self._wrong(f"{who}: give ratio=, teeth of the other wheel over teeth of this one, or both radii.")
        elif ratio is None:
            assert one is not None and two is not None
            if (one, two) != (radius, radius_other):
                pass  # already reported
            elif abs(one + two - distance) <= CLOSE * distance:
                ratio = two / one
            elif abs(abs(one - two) - distance) <= CLOSE * distance:
                ratio = -two / one
            else:
                self._wrong(
                    f"{who}: the axes are {distance:g} apart; pitch radii of {one:g} and {two:g} need "
                    f"{one + two:g}, or {abs(one - two):g} for a wheel in a ring."
                )
        elif ratio == 0.0:
            self._wrong(f"{who}: ratio must not be zero.")
        elif abs(1.0 + ratio) <= PARALLEL:
            self._wrong(f"{who}: a wheel in a ring of its own size has no distance of axes; use gear_ratio.")
            ratio = None
        if not ratio:
            return 0.5 * distance, 0.5 * distance
        # the first is rounded, the second exactly in ratio to it: teeth count full turns
        first = distance / (1.0 + ratio)
        return first, ratio * first

    def _radial_slope(self, who: str, angle) -> float:
        """tan of the pressure angle."""
        value = self._number(f"{who}: pressure_angle", angle)
        if not 0.0 <= value < math.pi / 4:
            self._wrong(f"{who}: pressure_angle is an angle in radians, from 0 to below 45 * da.deg, not {value:g}.")
            return 0.0
        return math.tan(value)

    def _helix(self, who: str, angle) -> float:
        value = self._number(f"{who}: helix_angle", angle)
        if not abs(value) < math.pi / 3:
            self._wrong(f"{who}: helix_angle is an angle in radians, below 60 * da.deg, not {value:g}.")
            return 0.0
        if value and self.space == "plane":
            self._wrong(f"{who}: helix_angle exists only in space; its axial force leaves the plane.")
            return 0.0
        return value

    def _wheel_markers(self, who: str, joint, other, at) -> tuple[Marker, Marker, float] | None:
        """Markers of the two wheels, x along the line of centres and z along the axes, and the centre distance."""
        pair = self._wheels(who, joint, other)
        if pair is None:
            return None
        one, two = pair
        if self.space == "plane":
            if at is not None:
                self._wrong(f"{who}: at= is for space: in the plane all lies in one plane.")
            first, second = one.centre, two.centre
            z = None
        else:
            z = one.axis if one.axis is not None else two.axis
            if z is None:
                self._wrong(f"{who}: nothing says about which axis the wheels turn; name a joint or a marker.")
                return None
            if two.axis is not None and np.linalg.norm(np.cross(z, two.axis)) > PARALLEL:
                self._wrong(
                    f"{who}: the axes are not parallel; bevel, worm and crossed gears are not supported as contacts. "
                    "Couple their angles with gear_ratio or coupling: without the tooth force."
                )
                return None
            first, second = (self._in_mesh_plane(who, w.centre, one.centre, z, at) for w in pair)
        d = second - first
        distance = float(np.linalg.norm(d))
        if distance <= PARALLEL * (1.0 + np.linalg.norm(first)):
            self._wrong(f"{who}: both wheels turn about the same axis; couple their angles with gear_ratio.")
            return None
        n = d / distance
        frame = np.column_stack([n, [-n[1], n[0]]] if z is None else [n, np.cross(z, n), z])
        return self._fixed(one.body, first, frame), self._fixed(two.body, second, frame), distance

    def _in_mesh_plane(self, who, point, first, z, at) -> np.ndarray:
        """The point of a wheel's axis in the plane across z through `at`, by default through the first centre."""
        through = first if at is None else self._vector(f"{who}: at", at, 3)
        return point + z * (z @ (through - point))

    def _wheels(self, who: str, joint, other) -> tuple[Turning, Turning] | None:
        """The two wheels; the body that their joints share is the carrier."""
        found = [self._named(who, x) for x in (joint, other)]
        if found[0] is None or found[1] is None:
            return None
        out = []
        for me, you in ((found[0], found[1]), (found[1], found[0])):
            wheel = self._wheel(who, me, you)
            if wheel is None:
                return None
            out.append(wheel)
        if out[0].body is out[1].body:
            self._wrong(f"{who}: both wheels are body '{out[0].body.name}'; name two joints of different wheels.")
            return None
        return out[0], out[1]

    def _named(self, who: str, place) -> Constraint | Body | Marker | None:
        if isinstance(place, Constraint) or (isinstance(place, str) and place in self.constraints):
            return self._joint_of(who, place)
        if isinstance(place, Body | Marker) or (
            isinstance(place, str) and (place == "ground" or place in self.bodies or place in self.markers)
        ):
            return self._place(who, place)
        return self._joint_of(who, place)  # reports that there is none

    def _wheel(self, who: str, me, you) -> Turning | None:
        if isinstance(me, Marker):
            return Turning(me.body, me.start_position, me.start_rotation[:, 2] if self.space == "space" else np.ones(1))
        if isinstance(me, Body):
            if me.is_ground:
                self._wrong(f"{who}: ground has no centre to turn about; give a marker on it.")
                return None
            return Turning(me, me.position, None if self.space == "space" else np.ones(1))
        if "angle" not in coordinates_of(self.space, me.kind) or me.kind == "revolute_spherical_rod":
            self._wrong(
                f"{who}: joint '{me.name}' ({me.kind}) does not bear a wheel; name a revolute joint, the wheel's body, "
                "or a marker at its centre."
            )
            return None
        return self._moving(me, you, 2)

    def _moving(self, me: Constraint, you, column: int) -> Turning | None:
        """The body of a joint that is not shared with the other joint, else j; its point and axis at the start."""
        if len(me.markers) != 2:
            return None  # a joint with a mistake of its own
        i, j = me.markers
        theirs = [m.body for m in you.markers] if isinstance(you, Constraint) else [getattr(you, "body", you)]
        mine = i if j.body in theirs and i.body not in theirs else j
        sign = 1.0 if mine is j else -1.0
        axis = np.array([sign]) if self.space == "plane" and column == 2 else sign * i.start_rotation[:, column]
        return Turning(mine.body, mine.start_position, axis)

    def _pinion(self, who: str, pinion, rack) -> tuple[Turning | None, Turning | None]:
        one, two = self._named(who, pinion), self._joint_of(who, rack)
        if one is None or two is None:
            return None, None
        kinds = ("prismatic", "pin_slot") if self.space == "plane" else ("prismatic", "cylindrical")
        if two.kind not in kinds:
            self._wrong(f"{who}: joint '{two.name}' ({two.kind}) does not guide a rack; name a prismatic joint.")
            return None, None
        return self._wheel(who, one, two), self._moving(two, one, 0 if self.space == "plane" else 2)


def _sided(slope: float) -> dict[str, np.ndarray]:
    """The radial part of the force, whose side follows the load; none where there is no such force."""
    return {"slope": np.asarray(slope), "side": np.asarray(0.0)} if slope else {}
