"""1 · model: the joints. Each is placed by a point and an axis in the start configuration, or by two markers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dalembert._results import DalembertError
from dalembert.model._bodies import Bodies
from dalembert.model._checks import OF_ROWS
from dalembert.model._elements import Constraint
from dalembert.model._frames import Marker, axis_angle, frame_on_axis
from dalembert.model._functions import spline_through
from dalembert.model._kinds import PLANE_DIRECTIONS, SPACE_DIRECTIONS
from dalembert.model._statements import (
    Directions,
    Flag,
    Name,
    Number,
    Place,
    Positive,
    Vector,
    Vectors,
    Whole,
    element,
)

PERPENDICULAR = 1e-9  # cosine up to which two axes count as perpendicular


class Joints(Bodies):
    """The part of `Model` that adds joints and wheels."""

    # ---- lower pairs and their like ----------------------------------------------------------------------

    @element("joints")
    def weld(self, name: Name, i: Place, j: Place, *, at: Vector | None = None) -> Constraint:
        """Bodies i and j move as one."""
        return self._joint("weld", name, i, j, at, needs_point=False)

    @element("joints")
    def revolute(
        self, name: Name, i: Place, j: Place, *, at: Vector | None = None, axis: Vector | None = None
    ) -> Constraint:
        """A hinge at `at`; in space about `axis` (marker z axes). Coordinate: angle of j against i."""
        return self._joint("revolute", name, i, j, at, axis, needs_axis=self.space == "space")

    @element("joints")
    def prismatic(
        self, name: Name, i: Place, j: Place, *, at: Vector | None = None, axis: Vector | None = None
    ) -> Constraint:
        """j slides along `axis` of i without turning. Coordinate: displacement."""
        return self._joint("prismatic", name, i, j, at, axis, needs_axis=True)

    @element("joints")
    def cylindrical(
        self, name: Name, i: Place, j: Place, *, at: Vector | None = None, axis: Vector | None = None
    ) -> Constraint:
        """j slides along and turns about `axis` of i. Coordinates: displacement, angle."""
        return self._joint("cylindrical", name, i, j, at, axis, needs_axis=True)

    @element("joints")
    def screw(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        pitch: Number,
        at: Vector | None = None,
        axis: Vector | None = None,
    ) -> Constraint:
        """j turns about `axis` of i and advances by `pitch` a turn (negative: left-handed). Any number of turns."""
        pitch = self._number(f"Joint '{name}': pitch", pitch)
        if pitch == 0.0:
            self._wrong(f"Joint '{name}': pitch is zero: that is a revolute joint, use revolute.")
            pitch = 1.0
        return self._joint("screw", name, i, j, at, axis, needs_axis=True, numbers={"pitch": np.asarray(pitch)})

    @element("joints")
    def spherical(self, name: Name, i: Place, j: Place, *, at: Vector | None = None) -> Constraint:
        """A ball joint at `at`."""
        return self._joint("spherical", name, i, j, at)

    @element("joints")
    def universal(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at: Vector | None = None,
        axis_i: Vector | None = None,
        axis_j: Vector | None = None,
    ) -> Constraint:
        """A Hooke joint at `at`: `axis_i` fixed in i stays perpendicular to `axis_j` fixed in j.

        By markers: x axis of marker i, y axis of marker j. Coordinates: angle_i about axis_i, angle_j about axis_j.
        """
        who = f"Joint '{name}'"
        if self._by_markers(who, i, j):
            return self._joint("universal", name, i, j, at)
        x, y = self._axis(f"{who}: axis_i", axis_i), self._axis(f"{who}: axis_j", axis_j)
        if abs(x @ y) > PERPENDICULAR:
            self._wrong(f"{who}: axis_i and axis_j must be perpendicular in the start configuration.")
            return self._joint("universal", name, i, j, at)
        frame = np.column_stack([x, y, np.cross(x, y)]) if self.space == "space" else None
        return self._joint("universal", name, i, j, at, frame=frame)

    @element("joints")
    def constant_velocity(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at: Vector | None = None,
        axis_i: Vector | None = None,
        axis_j: Vector | None = None,
    ) -> Constraint:
        """A homokinetic joint at `at`: shaft j (`axis_j`) turns exactly as fast as shaft i (`axis_i`) at any bend.

        Both axes point the same way through the joint; bend below a right angle. By markers: z axes along the shafts,
        j's frame being i's tilted about an axis across both. Coordinates: angle_x, angle_y, the tilt of shaft j.
        """
        who = f"Joint '{name}'"
        if self._by_markers(who, i, j) or self.space == "plane":
            return self._joint("constant_velocity", name, i, j, at)
        a = self._axis(f"{who}: axis_i", axis_i)
        b = a if axis_j is None else self._axis(f"{who}: axis_j", axis_j)
        if a @ b < 1e-6:
            self._wrong(f"{who}: axis_i and axis_j must point the same way, at less than a right angle.")
            b = a
        frame, across = frame_on_axis(a), np.cross(a, b)
        tilted = frame
        if np.linalg.norm(across) > 1e-12:
            tilted = axis_angle(across, float(np.arctan2(np.linalg.norm(across), a @ b))) @ frame
        return self._joint("constant_velocity", name, i, j, at, frame=frame, frame_j=tilted)

    @element("joints")
    def planar(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at: Vector | None = None,
        normal: Vector | None = None,
        x: Vector | None = None,
    ) -> Constraint:
        """j slides on a plane of i through `at` and turns about its `normal`. Coordinates: x, y, angle.

        `x` sets the direction of the first coordinate; by markers, x and z axes.
        """
        return self._joint("planar", name, i, j, at, normal, needs_axis=True, word="normal", x=x)

    @element("joints")
    def pin_slot(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at: Vector | None = None,
        slot: Vector | None = None,
        axis: Vector | None = None,
    ) -> Constraint:
        """A pin of j slides along the `slot` of i and turns about the pin's `axis` (z in space; x is the slot).

        Coordinates: displacement along the slot, angle about the pin.
        """
        who = f"Joint '{name}'"
        if self.space == "plane" or self._by_markers(who, i, j):
            return self._joint("pin_slot", name, i, j, at, slot, needs_axis=True, word="slot")
        along, pin = self._axis(f"{who}: slot", slot), self._axis(f"{who}: axis", axis)
        if abs(along @ pin) > PERPENDICULAR:
            self._wrong(f"{who}: slot and axis must be perpendicular in the start configuration.")
            return self._joint("pin_slot", name, i, j, at)
        return self._joint("pin_slot", name, i, j, at, frame=frame_on_axis(pin, along))

    @element("joints")
    def generic(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        held: Directions,
        at: Vector | None = None,
        axis: Vector | None = None,
        x: Vector | None = None,
    ) -> Constraint:
        """Hold any of the six relative directions x, y, z, rx, ry, rz (in the plane x, y, angle), along marker i.

        With two rotations held, the third axis stays parallel; with one held, the other two are the axes of a cardan
        cross, the first of them (x before y before z) fixed in i. Coordinates: the free directions that one number
        describes. `axis` is z (in the plane x), `x` the first axis.
        """
        who = f"Joint '{name}'"
        known = PLANE_DIRECTIONS if self.space == "plane" else SPACE_DIRECTIONS
        given = [held] if isinstance(held, str) else list(held) if isinstance(held, Sequence) else [held]
        wrong = [k for k in given if k not in known]
        if wrong or not given or len(set(given)) != len(given):
            self._wrong(f"{who}: held must be some of {', '.join(known)}, each once, not {held!r}.")
            given = list(known)
        kind = "generic:" + ",".join(k for k in known if k in given)
        return self._joint(kind, name, i, j, at, axis, x=x)

    # ---- points, lines, curves, rods ---------------------------------------------------------------------

    @element("joints")
    def point_on_line(
        self, name: Name, i: Place, j: Place, *, at: Vector | None = None, axis: Vector | None = None
    ) -> Constraint:
        """A point of j stays on a line of i through `at` along `axis`. Coordinate: displacement."""
        return self._joint("point_on_line", name, i, j, at, axis, needs_axis=True)

    @element("joints")
    def point_in_plane(
        self, name: Name, i: Place, j: Place, *, at: Vector | None = None, normal: Vector | None = None
    ) -> Constraint:
        """A point of j stays on a plane of i through `at`, across `normal`. Coordinates: x, y."""
        return self._joint("point_in_plane", name, i, j, at, normal, needs_axis=True, word="normal")

    @element("joints")
    def point_on_curve(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        points: Vectors,
        at: Vector | None = None,
        closed: Flag = False,
        degree: Whole = 5,
    ) -> Constraint:
        """A point of j (`at`) stays on a smooth curve of i: a spline through `points` (world, start configuration).

        `closed` joins the last point to the first. The curve must not cross itself, nor bend more sharply than the
        point can stray from it. By a marker j, its origin is the point; by a marker i, `points` are in its axes.
        """
        who, d = f"Joint '{name}'", self.dimension
        pi, pj = self._place(who, i), self._place(who, j)
        table = self._curve_points(who, points)
        if at is None and not isinstance(pj, Marker):
            at = table[0]
        mj = pj if isinstance(pj, Marker) else self._fixed(pj, self._vector(f"{who}: at", at, d))
        if isinstance(pi, Marker):
            mi = pi
        else:
            mi = self._fixed(pi, table[0])
            table = (table - table[0]) @ mi.start_rotation
        numbers = {"breaks": np.array([0.0, 1.0]), "coefficients": np.zeros((2, 1, d))}
        chords = np.linalg.norm(np.diff(np.vstack([table, table[:1]]) if closed else table, axis=0), axis=1)
        if len(table) < 2 or np.any(chords <= 0):
            self._wrong(f"{who}: points must be at least two, each different from the one before.")
        else:
            x = np.concatenate([[0.0], np.cumsum(chords)])
            y = np.vstack([table, table[:1]]) if closed else table
            try:
                breaks, coefficients = spline_through(x, y, min(degree, len(x) - 1), who, closed=closed)
                numbers = {"breaks": breaks, "coefficients": coefficients}
            except (DalembertError, ValueError) as error:
                self._wrong(f"{who}: {str(error).removeprefix(f'{who}: ')}")
        return self._constraint(name, "point_on_curve" + (":closed" if closed else ""), (mi, mj), numbers)

    @element("joints")
    def distance(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at_i: Vector | None = None,
        at_j: Vector | None = None,
        length: Positive | None = None,
    ) -> Constraint:
        """A massless rod of fixed length between a point of i and a point of j (default: centres of mass)."""
        who = f"Joint '{name}'"
        mi, mj = self._point_markers(who, i, j, at_i, at_j)
        return self._constraint(name, "distance", (mi, mj), {"length": self._length(who, mi, mj, length)})

    @element("joints")
    def revolute_spherical_rod(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at_i: Vector | None = None,
        at_j: Vector | None = None,
        axis: Vector | None = None,
        length: Positive | None = None,
    ) -> Constraint:
        """A massless rod hinged to i at `at_i` about `axis` and held by a ball on j at `at_j`.

        The rod is perpendicular to its hinge. Coordinate: angle of the rod about the hinge.
        """
        who = f"Joint '{name}'"
        mi, mj = self._point_markers(who, i, j, at_i, at_j)
        if not isinstance(self._place(who, i), Marker):
            mi = Marker(mi.body, mi.position, mi.body.local_rotation(self._axis_frame(who, axis)))
        reach = mj.start_position - mi.start_position
        if self.space == "space" and abs(mi.start_rotation[:, 2] @ reach) > 1e-6 * np.linalg.norm(reach):
            self._wrong(f"{who}: the rod from at_i to at_j must be perpendicular to the hinge's axis.")
        return self._constraint(name, "revolute_spherical_rod", (mi, mj), {"length": self._length(who, mi, mj, length)})

    # ---- orientation alone -------------------------------------------------------------------------------

    @element("joints")
    def parallel_axes(
        self, name: Name, i: Place, j: Place, *, at: Vector | None = None, axis: Vector | None = None
    ) -> Constraint:
        """An axis of j stays parallel to `axis` of i. Coordinate: angle about it."""
        return self._joint("parallel_axes", name, i, j, at, axis, needs_axis=True, needs_point=False)

    @element("joints")
    def perpendicular_axes(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at: Vector | None = None,
        axis_i: Vector | None = None,
        axis_j: Vector | None = None,
    ) -> Constraint:
        """`axis_j` of j stays perpendicular to `axis_i` of i (marker z axes)."""
        return self._two_axes("perpendicular_axes", name, i, j, at, axis_i, axis_j, {})

    @element("joints")
    def constant_angle(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at: Vector | None = None,
        axis_i: Vector | None = None,
        axis_j: Vector | None = None,
        angle: Number | None = None,
    ) -> Constraint:
        """`axis_j` of j keeps its angle to `axis_i` of i (marker z axes); default: the angle at the start."""
        who = f"Joint '{name}'"
        value = None if angle is None else self._number(f"{who}: angle", angle)
        made = self._two_axes("constant_angle", name, i, j, at, axis_i, axis_j, {"angle": np.asarray(1.0)})
        if value is None:
            cosine = np.clip(made.markers[0].start_rotation[:, -1] @ made.markers[1].start_rotation[:, -1], -1, 1)
            value = float(np.arccos(cosine))
        if abs(np.sin(value)) < 1e-6:
            self._wrong(f"{who}: at an angle of {value:g} the axes are parallel: use parallel_axes.")
            value = 1.0
        made.numbers["angle"] = np.asarray(value)
        return made

    @element("joints")
    def orientation_lock(self, name: Name, i: Place, j: Place, *, at: Vector | None = None) -> Constraint:
        """j does not turn against i, but may shift. Coordinates: x, y, z along i's marker axes."""
        return self._joint("orientation_lock", name, i, j, at, needs_point=False)

    @element("joints")
    def angle_lock(self, name: Name, i: Place, j: Place, *, at: Vector | None = None) -> Constraint:
        """In the plane: j does not turn against i, but may shift. Coordinates: x, y along i's marker axes."""
        return self._joint("angle_lock", name, i, j, at, needs_point=False)

    # ---- wheels ------------------------------------------------------------------------------------------

    @element("joints")
    def knife_edge(
        self, name: Name, i: Place, j: Place, *, at: Vector | None = None, direction: Vector | None = None
    ) -> Constraint:
        """The point `at` of j moves against i only along `direction` (fixed in j): a blade or a thin wheel.

        By markers: the x axis of marker j is the edge. The row says that the relative velocity along marker
        j's y axis is zero; in space the edge's sideways direction y is taken perpendicular to i's marker z axis.
        """
        return self._joint("knife_edge", name, i, j, at, direction, needs_axis=True, word="direction", axis_is_x=True)

    @element("joints")
    def rolling_disc(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        radius: Positive,
        at: Vector | None = None,
        axis: Vector | None = None,
        normal: Vector | None = None,
    ) -> Constraint:
        """A thin disc on body j (centre `at`, spin axis `axis`) rolls without slip on a plane fixed in i.

        The plane passes under the disc at the start, with `normal` pointing to the disc's side. In the plane
        the disc rolls on a line. One holonomic row (contact) and no-slip rows (1 in the plane, 2 in space).
        By markers: z axis of marker i is the normal (y axis in the plane), z axis of marker j the spin axis.
        """
        who, d = f"Joint '{name}'", self.dimension
        radius = self._number(f"{who}: radius", radius, positive=True)
        numbers = {"radius": np.asarray(radius)}
        if (pair := self._by_markers(who, i, j)) is not None:
            return self._constraint(name, "rolling_disc", pair, numbers)
        bi, bj = self._body(who, i), self._body(who, j)
        centre = bj.position if at is None else self._vector(f"{who}: at", at, d)
        up = self._axis(f"{who}: normal", np.eye(d)[-1] if normal is None else normal)
        if d == 2:
            Ri, Rj = np.column_stack([[up[1], -up[0]], up]), np.eye(2)
            foot = centre - radius * up
        else:
            spin = self._axis(f"{who}: axis", axis)
            across = 1.0 - (up @ spin) ** 2
            if across < 1e-12:
                self._wrong(f"{who}: axis is parallel to normal: the disc lies flat. Tilt it up.")
                across = 1.0
            Ri, Rj = frame_on_axis(up), frame_on_axis(spin)
            foot = centre - radius * (up - (up @ spin) * spin) / np.sqrt(across)
        return self._constraint(name, "rolling_disc", (self._fixed(bi, foot, Ri), self._fixed(bj, centre, Rj)), numbers)

    @element("joints")
    def rolling_sphere(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        radius: Positive,
        at: Vector | None = None,
        normal: Vector | None = None,
    ) -> Constraint:
        """A sphere on body j (centre `at`) rolls without slip on a plane fixed in i; it may spin about `normal`.

        One holonomic row (contact) and two no-slip rows. By markers: z axis of marker i is the normal.
        """
        who, d = f"Joint '{name}'", self.dimension
        numbers = {"radius": np.asarray(self._number(f"{who}: radius", radius, positive=True))}
        if (pair := self._by_markers(who, i, j)) is not None:
            return self._constraint(name, "rolling_sphere", pair, numbers)
        bi, bj = self._body(who, i), self._body(who, j)
        centre = bj.position if at is None else self._vector(f"{who}: at", at, d)
        up = self._axis(f"{who}: normal", np.eye(d)[-1] if normal is None else normal)
        Ri = frame_on_axis(up) if d == 3 else np.eye(2)
        mi = self._fixed(bi, centre - numbers["radius"] * up, Ri)
        return self._constraint(name, "rolling_sphere", (mi, self._fixed(bj, centre)), numbers)

    @element("joints")
    def no_slip(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        radius_i: Number,
        radius_j: Number,
        at_i: Vector | None = None,
        at_j: Vector | None = None,
        axis: Vector | None = None,
    ) -> Constraint:
        """The rims of two discs on i and j (centres `at_i`, `at_j`) touch without slip: one nonholonomic row.

        The contact lies on the line of centres, at radius_i from i's; for a disc inside a ring, give the disc's radius
        negative. Hold the centres by other joints. In space the discs lie across `axis` (z axis of marker i).
        """
        who = f"Joint '{name}'"
        numbers = {}
        for word, value in (("radius_i", radius_i), ("radius_j", radius_j)):
            numbers[word] = np.asarray(self._number(f"{who}: {word}", value))
            if numbers[word] == 0.0:
                self._wrong(f"{who}: {word} must not be zero.")
        mi, mj = self._point_markers(who, i, j, at_i, at_j)
        if self.space == "space" and not isinstance(self._place(who, i), Marker):
            mi = Marker(mi.body, mi.position, mi.body.local_rotation(self._axis_frame(who, axis)))
        if np.linalg.norm(mj.start_position - mi.start_position) <= 0:
            self._wrong(f"{who}: the centres at_i and at_j are the same point.")
        return self._constraint(name, "no_slip", (mi, mj), numbers)

    # ---- placing -----------------------------------------------------------------------------------------

    def _constraint(self, name, kind, markers, numbers=None, functions=(), size=None, drives=None) -> Constraint:
        made = Constraint(name, kind, tuple(markers), dict(numbers or {}), tuple(functions), size, drives)
        self._without_own(f"{'Driver' if drives else 'Rows'} '{name}'", made.numbers, OF_ROWS)
        self._register(self.constraints, name, made, "Driver" if drives else "Joint")
        return made

    def _by_markers(self, who: str, i: Place, j: Place) -> tuple[Marker, Marker] | None:
        """The two markers that place a joint, if it was placed so."""
        pair = tuple(self.markers.get(p, p) if isinstance(p, str) else p for p in (i, j))
        if isinstance(pair[0], Marker) and isinstance(pair[1], Marker):
            for p in pair:
                self._place(who, p)
            return pair
        if isinstance(pair[0], Marker) or isinstance(pair[1], Marker):
            self._wrong(f"{who}: give two markers, or two bodies with at= (and axis=).")
        return None

    def _joint(
        self,
        kind: str,
        name: str,
        i: Place,
        j: Place,
        at,
        axis=None,
        *,
        needs_axis: bool = False,
        needs_point: bool = True,
        axis_is_x: bool = False,
        word: str = "axis",
        frame=None,
        frame_j=None,
        x=None,
        numbers=None,
    ) -> Constraint:
        who, d = f"Joint '{name}'", self.dimension
        if (pair := self._by_markers(who, i, j)) is not None:
            if at is not None or axis is not None:
                self._wrong(f"{who}: two markers place the joint already; leave out at= and {word}=.")
            return self._constraint(name, kind, pair, numbers)
        bi, bj = self._body(who, i), self._body(who, j)
        if at is None and needs_point:
            self._wrong(f"{who}: say where it is: at=(...), a point in the start configuration.")
        point = (bj if bi.is_ground else bi).position if at is None else self._vector(f"{who}: at", at, d)
        if frame is None:
            frame = np.eye(d)
            if needs_axis and axis is None:
                self._wrong(f"{who}: give its {word}, a vector in the start configuration.")
            elif axis is not None and axis_is_x and d == 3:
                along = self._axis(f"{who}: {word}", axis)
                z = np.array([0.0, 0.0, 1.0])
                frame = frame_on_axis(z, along) if abs(along @ z) < 1 - 1e-12 else np.eye(3)
            elif axis is not None:
                frame = self._axis_frame(who, axis, x)
        frame_j = frame if frame_j is None else frame_j
        return self._constraint(name, kind, (self._fixed(bi, point, frame), self._fixed(bj, point, frame_j)), numbers)

    def _two_axes(self, kind, name, i, j, at, axis_i, axis_j, numbers) -> Constraint:
        who = f"Joint '{name}'"
        if self._by_markers(who, i, j) or self.space == "plane":
            return self._joint(kind, name, i, j, at, needs_point=False, numbers=numbers)
        frame, frame_j = (
            frame_on_axis(self._axis(f"{who}: {w}", a)) for w, a in (("axis_i", axis_i), ("axis_j", axis_j))
        )
        return self._joint(kind, name, i, j, at, needs_point=False, frame=frame, frame_j=frame_j, numbers=numbers)

    def _point_markers(self, who, i, j, at_i, at_j) -> tuple[Marker, Marker]:
        made = []
        for place, at, word in ((i, at_i, "at_i"), (j, at_j, "at_j")):
            found = self._place(who, place)
            if isinstance(found, Marker):
                made.append(found)
                continue
            point = found.position if at is None else self._vector(f"{who}: {word}", at, self.dimension)
            made.append(self._fixed(found, point, found.rotation))
        return made[0], made[1]

    def _length(self, who: str, mi: Marker, mj: Marker, length) -> np.ndarray:
        if length is None:
            length = float(np.linalg.norm(mj.start_position - mi.start_position))
        return np.asarray(self._number(f"{who}: length", length, positive=True))

    def _curve_points(self, who: str, points) -> np.ndarray:
        d = self.dimension
        try:
            table = np.asarray(points, float)
        except (TypeError, ValueError):
            table = np.zeros(0)
        if table.ndim != 2 or table.shape[-1] != d or not np.all(np.isfinite(table)):
            self._wrong(f"{who}: points must be a list of points of {d} finite numbers.")
            return np.array([[0.0] * d, [1.0] * d])
        return table


# pyright: reportArgumentType=false, reportReturnType=false
