"""1 · model: joints of points: on lines, planes and curves, at a distance; and wheels."""

from __future__ import annotations

import numpy as np

from dalembert.model._arguments import Flag, Number, Positive, Vector, Vectors, Whole
from dalembert.model._element import AbstractOneSided, AbstractTouching, Cause, Joint
from dalembert.model._frames import Marker, frame_on_axis
from dalembert.model._functions import FormulaError, spline_through
from dalembert.model._placed import Bearing, Look, angle_about, length_along


class PointOnLine(AbstractOneSided):
    """A point of j stays on a line of i through `at` along `axis`. Coordinate: displacement.

    In the plane it may be `one_sided`: the point then stays on the left of `axis`, and the line only pushes.
    """

    frame_axis = "axis"

    at: Vector | None = None
    axis: Vector | None = None

    def coordinates(self, space):
        return {"displacement": length_along(0 if space == "plane" else 2)}

    def numbers(self, on):
        if self.one_sided and on.space == "space":
            on.wrong("a line in space has no side; take point_in_plane or contact.", "one_sided")
        return self.restituted(on)

    def touches(self, space):
        return self.one_sided and space == "plane"

    def bearing(self, space):
        return Bearing(("Fy",) if space == "plane" else ("Fx", "Fy"))

    def look(self, space):
        return Look("slot", rail=0 if space == "plane" else 2, slot=True, foot=False, holds=False)


class PointInPlane(AbstractOneSided):
    """A point of j stays on a plane of i through `at`, across `normal`. Coordinates: x, y.

    With `one_sided` the plane only pushes, along `normal`, and the point may lift off on that side.
    """

    spaces = ("space",)
    free_coordinates = {"x": length_along(0), "y": length_along(1)}
    drawn_as = Look("pad", sides=(1,), foot=False, holds=False)
    frame_axis = "normal"

    at: Vector | None = None
    normal: Vector | None = None

    def numbers(self, on):
        return self.restituted(on)


class Contact(AbstractTouching):
    """A point of j (`at`) touches a plane of i through `point` (default: below `at`) across `normal`; it only pushes.

    With a `radius` it is the lowest point of a circle or sphere around `at`, so that i only pushes along `normal`; as a
    `rim` (in space) that of a circle about `axis`, the edge of a disc or a cylinder, which must not lie flat. With
    `radius_i` too, i has a circle or sphere around `point`, and both push each other apart; a negative `radius_i` is a
    hole in i, in which j is. Open or closed at the start, as it is placed. It slips without friction; with
    `slips=False` what touches a plane holds without slip while it is closed; with a coefficient of `friction` it does
    up to Coulomb's limit, and slips beyond it.
    """

    drawn_as = Look("pad", sides=(1,), foot=False, holds=False)
    frame_axis = "normal"

    at: Vector | None = None
    point: Vector | None = None
    normal: Vector | None = None
    radius: Number = 0.0
    radius_i: Number | None = None
    rim: Flag = False
    axis: Vector | None = None
    slips: Flag = True
    friction: Number = 0.0

    @property
    def holds(self) -> bool:
        """Whether it transmits forces along the plane."""
        return not self.slips or self.friction != 0.0

    def place(self, on):
        d = on.dimension
        if self.holds and self.radius_i is not None:
            on.wrong("two round bodies slip without friction.", "slips", "friction")
        if not self.slips and (self.friction != 0.0 or self.restitution):
            on.wrong("what does not slip has no friction and no restitution.", "slips")
        numbers = {"radius": on.number("radius", negative=False)} | self.restituted(on)
        self._rim(on, numbers["radius"])
        if self.friction != 0.0:
            numbers["friction"] = on.number("friction", negative=False)
        if self.radius_i is not None:
            numbers["radius_i"] = on.number("radius_i")
            if numbers["radius_i"] < 0 and numbers["radius"] >= -numbers["radius_i"]:
                on.wrong("a hole (radius_i negative) must be wider than what is in it.", "radius_i", "radius")
            if self.normal is not None:
                on.wrong(f"two round bodies have no {on.arg('normal')}; leave it out.", "normal")
        if (pair := on.pair()) is not None:
            return on.constraint(pair, numbers)
        bi, bj = on.body("i"), on.body("j")
        centre = on.vector("at", default=bj.position)
        if self.radius_i is not None:
            mi = on.fixed(bi, on.vector("point", default=bi.position))
            return on.constraint((mi, on.fixed(bj, centre)), numbers)
        up = on.axis("normal", np.eye(d)[-1] if self.normal is None else None)
        Ri = frame_on_axis(up) if d == 3 else np.column_stack([[up[1], -up[0]], up])
        if self.rim and d == 3:
            spin = on.axis("axis")
            foot = on.vector("point", default=_lowest(on, centre, up, spin, numbers["radius"]))
            return on.constraint((on.fixed(bi, foot, Ri), on.fixed(bj, centre, frame_on_axis(spin))), numbers)
        foot = on.vector("point", default=centre - numbers["radius"] * up)
        return on.constraint((on.fixed(bi, foot, Ri), on.fixed(bj, centre)), numbers)

    def _rim(self, on, radius: float) -> None:
        """Complain of a rim that has no meaning."""
        if not self.rim:
            if self.axis is not None:
                on.wrong("axis belongs to a rim; give rim too.", "axis")
        elif on.dimension == 2:
            on.wrong("in the plane a disc is round as it is; leave rim out.", "rim")
        elif self.radius_i is not None:
            on.wrong("a rim touches a plane, not a round body.", "rim", "radius_i")
        elif radius == 0.0:
            on.wrong("a rim needs its radius.", "radius")


def _lowest(on, centre: np.ndarray, up: np.ndarray, spin: np.ndarray, radius: float) -> np.ndarray:
    """The lowest point of a disc across `spin`."""
    across = 1.0 - (up @ spin) ** 2
    if across < 1e-12:
        on.wrong("axis is parallel to normal: the disc lies flat. Tilt it up.", "axis", "normal")
        across = 1.0
    return centre - radius * (up - (up @ spin) * spin) / np.sqrt(across)


class PointOnCurve(Joint):
    """A point of j (`at`) stays on a smooth curve of i: a spline through `points` (world, start configuration).

    `closed` joins the last point to the first. The curve must not cross itself, nor bend more sharply than the
    point can stray from it. By a marker j, its origin is the point; by a marker i, `points` are in its axes.
    """

    drawn_as = Look("curve", sides=(1,), foot=False, curve=True)

    points: Vectors
    at: Vector | None = None
    closed: Flag = False
    degree: Whole = 5

    def place(self, on):
        pi, pj = on.place("i"), on.place("j")
        table = _curve_points(on)
        mj = pj if isinstance(pj, Marker) else on.fixed(pj, on.vector("at", default=table[0]))
        if isinstance(pi, Marker):
            mi = pi
        else:
            mi = on.fixed(pi, table[0])
            table = (table - table[0]) @ mi.start_rotation
        numbers = {"breaks": np.array([0.0, 1.0]), "coefficients": np.zeros((2, 1, on.dimension))}
        around = np.vstack([table, table[:1]]) if self.closed else table
        chords = np.linalg.norm(np.diff(around, axis=0), axis=1)
        if len(table) < 2 or np.any(chords <= 0):
            on.wrong("points must be at least two, each different from the one before.", "points")
        else:
            x = np.concatenate([[0.0], np.cumsum(chords)])
            try:
                degree = min(self.degree, len(x) - 1)
                breaks, coefficients = spline_through(x, around, degree, on.who, closed=self.closed)
                numbers = {"breaks": breaks, "coefficients": coefficients}
            except (FormulaError, ValueError) as error:
                path = error.path if isinstance(error, FormulaError) and error.path else ("points",)
                on.wrong(str(error).removeprefix(f"{on.who}: "), path)
        return on.constraint((mi, mj), numbers)


def _curve_points(on) -> np.ndarray:
    d = on.dimension
    try:
        table = np.asarray(on.given("points"), float)
    except (TypeError, ValueError):
        table = np.zeros(0)
    if table.ndim != 2 or table.shape[-1] != d or not np.all(np.isfinite(table)):
        on.wrong(f"points must be a list of points of {d} finite numbers.", "points", cause=Cause.FORM)
        return np.array([[0.0] * d, [1.0] * d])
    return table


class Distance(AbstractOneSided):
    """A massless rod of fixed length between a point of i and a point of j (default: centres of mass).

    With `one_sided` it is a cable: it only pulls, and goes slack where its points are nearer than `length`.
    """

    drawn_as = Look("rod_ends", between="rod")
    pushes = -1

    at_i: Vector | None = None
    at_j: Vector | None = None
    length: Positive | None = None

    def place(self, on):
        mi, mj = on.point_markers()
        return on.constraint((mi, mj), {"length": on.length(mi, mj)} | self.restituted(on))


class RevoluteSphericalRod(Joint):
    """A massless rod hinged to i at `at_i` about `axis` and held by a ball on j at `at_j`.

    The rod is perpendicular to its hinge. Coordinate: angle of the rod about the hinge.
    """

    spaces = ("space",)
    free_coordinates = {"angle": angle_about(None)}
    drawn_as = Look("rod_ends", between="rod")

    at_i: Vector | None = None
    at_j: Vector | None = None
    axis: Vector | None = None
    length: Positive | None = None

    def place(self, on):
        mi, mj = on.point_markers()
        mi = on.hinged(mi)
        reach = mj.start_position - mi.start_position
        if on.space == "space" and abs(mi.start_rotation[:, 2] @ reach) > 1e-6 * np.linalg.norm(reach):
            text = "the rod from at_i to at_j must be perpendicular to the hinge's axis."
            on.wrong(text, "at_i", "at_j", "axis")
        return on.constraint((mi, mj), {"length": on.length(mi, mj)})


# ---- wheels --------------------------------------------------------------------------------------------------------


class KnifeEdge(Joint):
    """The point `at` of j moves against i only along `direction` (fixed in j): a blade or a thin wheel.

    By markers: the x axis of marker j is the edge. The row says that the relative velocity along marker
    j's y axis is zero; in space the edge's sideways direction y is taken perpendicular to i's marker z axis.
    """

    drawn_as = Look("blade", sides=(1,), foot=False, holds=False)

    at: Vector | None = None
    direction: Vector | None = None

    def markers(self, on):
        return on.joint_markers("direction", axis_is_x=True)


class RollingDisc(AbstractOneSided):
    """A thin disc on body j (centre `at`, spin axis `axis`) rolls without slip on a plane fixed in i.

    The plane passes under the disc at the start, with `normal` pointing to the disc's side. In the plane
    the disc rolls on a line. One holonomic row (contact) and no-slip rows (1 in the plane, 2 in space). With
    `one_sided` the disc may lift off; it lands without slip and without restitution.
    By markers: z axis of marker i is the normal (y axis in the plane), z axis of marker j the spin axis.
    """

    drawn_as = Look("hub", sides=(1,), foot=False, holds=False, wheels=((1, "radius"),))
    bounces = False

    radius: Positive
    at: Vector | None = None
    axis: Vector | None = None
    normal: Vector | None = None

    def place(self, on):
        d, radius = on.dimension, on.positive("radius")
        numbers = {"radius": radius} | self.restituted(on)
        if (pair := on.pair()) is not None:
            return on.constraint(pair, numbers)
        bi, bj = on.body("i"), on.body("j")
        centre = on.vector("at", default=bj.position)
        up = on.axis("normal", np.eye(d)[-1] if self.normal is None else None)
        if d == 2:
            Ri, Rj = np.column_stack([[up[1], -up[0]], up]), np.eye(2)
            foot = centre - radius * up
        else:
            spin = on.axis("axis")
            Ri, Rj = frame_on_axis(up), frame_on_axis(spin)
            foot = _lowest(on, centre, up, spin, radius)
        return on.constraint((on.fixed(bi, foot, Ri), on.fixed(bj, centre, Rj)), numbers)


class RollingSphere(AbstractOneSided):
    """A sphere on body j (centre `at`) rolls without slip on a plane fixed in i; it may spin about `normal`.

    One holonomic row (contact) and two no-slip rows. By markers: z axis of marker i is the normal. With `one_sided` it
    may lift off; it lands without slip and without restitution.
    """

    spaces = ("space",)
    drawn_as = Look("band", sides=(1,), foot=False, holds=False, wheels=((1, "radius"),), round=True)
    bounces = False

    radius: Positive
    at: Vector | None = None
    normal: Vector | None = None

    def place(self, on):
        d, numbers = on.dimension, {"radius": on.positive("radius")} | self.restituted(on)
        if (pair := on.pair()) is not None:
            return on.constraint(pair, numbers)
        bi, bj = on.body("i"), on.body("j")
        centre = on.vector("at", default=bj.position)
        up = on.axis("normal", np.eye(d)[-1] if self.normal is None else None)
        Ri = frame_on_axis(up) if d == 3 else np.eye(2)
        mi = on.fixed(bi, centre - numbers["radius"] * up, Ri)
        return on.constraint((mi, on.fixed(bj, centre)), numbers)


class NoSlip(Joint):
    """The rims of two discs on i and j (centres `at_i`, `at_j`) touch without slip: one nonholonomic row.

    The contact lies on the line of centres, at radius_i from i's; for a disc inside a ring, give the disc's radius
    negative. Hold the centres by other joints. In space the discs lie across `axis` (z axis of marker i).
    """

    drawn_as = Look("hubs", foot=False, holds=False, wheels=((0, "radius_i"), (1, "radius_j")), axis_of_i=True)

    radius_i: Number
    radius_j: Number
    at_i: Vector | None = None
    at_j: Vector | None = None
    axis: Vector | None = None

    def place(self, on):
        numbers = {}
        for key in ("radius_i", "radius_j"):
            numbers[key] = on.number(key)
            if numbers[key] == 0.0:
                on.wrong(f"{key} must not be zero.", key)
        mi, mj = on.point_markers()
        if on.space == "space":
            mi = on.hinged(mi)
        if np.linalg.norm(mj.start_position - mi.start_position) <= 0:
            on.wrong("the centres at_i and at_j are the same point.", "at_i", "at_j")
        return on.constraint((mi, mj), numbers)
