"""2 · systems: the rows of every joint, written once for two marker frames i and j, registered for its class.

A row family is one function of two frames, vmapped over all joints with the same rows. Holonomic rows Φ need
only positions (`_rows.py` differentiates them); nonholonomic rows are linear in the frames' velocities.
d = p_j − p_i. Rows are lengths or angles, so λ is a force or a torque **on body j**.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from dalembert import model as m
from dalembert._results import DalembertError
from dalembert.systems._curve import OnCurve
from dalembert.systems._frames import Frame, back, cross, dot
from dalembert.systems._mesh import centre_axes, rack, rack_axes, wheel_speeds_3, wheels_2, wheels_3


class JointRows(NamedTuple):
    """The rows of a joint: their numbers, their functions, and the joint's coordinates as functions (i, j).

    `position` (t, i, j, p) → the holonomic rows, `motion` the same with velocities → the nonholonomic ones; p holds the
    joint's numbers. With `listed` they are (t, frames, p), with `on_places` functions of bodies (t, places, …, p).
    `axes` gives the joint frame from the frames where it is not marker i's.
    """

    holonomic: int = 0
    nonholonomic: int = 0
    position: Callable | None = None
    motion: Callable | None = None
    coordinates: tuple[tuple[str, Callable], ...] = ()
    axes: Callable | None = None
    listed: bool = False
    on_places: bool = False


def wrapped(angle):
    """The angle brought into (−π, π]; its derivative is 1."""
    return angle - 2 * jnp.pi * jnp.round(angle / (2 * jnp.pi))


# ---- what rows are made of, and coordinates: functions of two frames ------------------------------------------


@dataclass(frozen=True)
class _Parts:
    """Rows of a joint, part after part, each a function (i, j) of the two frames."""

    parts: tuple[Callable, ...]

    def __call__(self, t, i: Frame, j: Frame, p):
        rows = [jnp.atleast_1d(part(i, j)) for part in self.parts]
        return rows[0] if len(rows) == 1 else jnp.concatenate(rows)


@dataclass(frozen=True)
class _Along:
    """How far j is from i along axis k of i."""

    k: int

    def __call__(self, i, j):
        return dot(i.R[:, self.k], j.p - i.p)


@dataclass(frozen=True)
class _TurnAbout:
    """The angle about axis k, which stays parallel."""

    k: int

    def __call__(self, i, j):
        a, b = (self.k + 1) % 3, (self.k + 2) % 3
        return jnp.arctan2(dot(i.R[:, b], j.R[:, a]), dot(i.R[:, a], j.R[:, a]))


@dataclass(frozen=True)
class _CardanTurn:
    """An angle of a cardan cross: about axis `first` of i, or about axis `second` of j."""

    first: int
    second: int
    of_i: bool

    def __call__(self, i, j):
        a, b = self.first, self.second
        c, s = 3 - a - b, _sign(a, b)
        if self.of_i:  # j's axis b turns about i's axis a, from b towards s c
            return jnp.arctan2(s * dot(i.R[:, c], j.R[:, b]), dot(i.R[:, b], j.R[:, b]))
        return jnp.arctan2(s * dot(i.R[:, a], j.R[:, c]), dot(i.R[:, a], j.R[:, a]))


def _sign(a: int, b: int) -> int:
    """1 if b follows a in x, y, z, x; the sign of e_a × e_b along the third axis."""
    return 1 if (b - a) % 3 == 1 else -1


_across_2, _displacement_2, _displacement_3 = _Along(1), _Along(0), _Along(2)
_angle_3 = _TurnAbout(2)


# ---- in the plane: rows along the world axes [Wojtyra, Fraczek 2013, eqs. 40, 42, with the sign of j − i] ------


def _point_2(i, j):
    return j.p - i.p


def _angle_2(i, j):
    return j.angle - i.angle


def _distance(t, i, j, p):
    d = j.p - i.p
    return (jnp.sqrt(dot(d, d)) - p["length"])[None]


def _knife_edge_2(t, i, j, p):
    # velocity of the edge point against body i [Wojtyra, Fraczek 2013, eq. 30]
    return dot(j.R[:, 1], j.v - i.v - cross(i.w, j.p - i.p))[None]


def _contact_2(t, i, j, p):
    return (dot(i.R[:, 1], j.p - i.p) - p["radius"])[None]


def _roll_2(t, i, j, p):
    contact = j.p - p["radius"] * i.R[:, 1]
    slip = j.v + cross(j.w, contact - j.p) - i.v - cross(i.w, contact - i.p)
    return dot(i.R[:, 0], slip)[None]


# ---- in space: rows along the axes of marker i ---------------------------------------------------------------


def _point_3(i, j):
    return back(i.R, j.p - i.p)


def _off_z(i, j):
    return _point_3(i, j)[:2]


def _off_x(i, j):
    return _point_3(i, j)[1:]


def _parallel_z(i, j):
    return back(i.R, j.R[:, 2])[:2]


def locked(i, j):
    # the rotation vector of j against i, to first order: each row is a small angle about x, y, z of i
    B = jnp.sum(i.R[:, :, None] * j.R[:, None, :], axis=0)
    return 0.5 * jnp.stack([B[2, 1] - B[1, 2], B[0, 2] - B[2, 0], B[1, 0] - B[0, 1]])


def _twist(i, j):
    # none: the rotation of j against i is about an axis across both shafts, so both turn alike
    return locked(i, j)[2]


def _x_on_y(i, j):
    return dot(i.R[:, 0], j.R[:, 1])


def _z_on_z(i, j):
    return dot(i.R[:, 2], j.R[:, 2])


def _knife_edge_3(t, i, j, p):
    # sideways in the plane of i: across both i's normal and the edge (x axis of j)
    side = cross(i.R[:, 2], j.R[:, 0])
    return (dot(side, j.v - i.v - cross(i.w, j.p - i.p)) / jnp.sqrt(dot(side, side)))[None]


def _radius_vector(i, j, radius):
    """From the disc's centre to its lowest point over the plane of i."""
    n, a = i.R[:, 2], j.R[:, 2]
    down = n - dot(n, a) * a
    return -radius * down / jnp.sqrt(dot(down, down))


def _contact_3(t, i, j, p):
    return (dot(i.R[:, 2], j.p + _radius_vector(i, j, p["radius"]) - i.p))[None]


def _roll_3(t, i, j, p):
    r = _radius_vector(i, j, p["radius"])
    slip = j.v + cross(j.w, r) - i.v - cross(i.w, j.p + r - i.p)
    return back(i.R, slip)[:2]


def _screw_3(t, i, j, p):
    # advance against turn, closed modulo whole turns: the advance itself counts them
    lead = p["pitch"] / (2 * jnp.pi)
    advance = lead * wrapped(_angle_3(i, j) - _displacement_3(i, j) / lead)
    return jnp.concatenate([_off_z(i, j), _parallel_z(i, j), advance[None]])


def _constant_angle_3(t, i, j, p):
    # cosines compared, divided by the sine: a small angle near the solution
    return ((jnp.cos(p["angle"]) - _z_on_z(i, j)) / jnp.sin(p["angle"]))[None]


def _rod_3(t, i, j, p):
    return jnp.append(_distance(t, i, j, p), _displacement_3(i, j))


def _rod_angle(i, j):
    d = j.p - i.p
    return jnp.arctan2(dot(i.R[:, 1], d), dot(i.R[:, 0], d))


def _tilt_x(i, j):
    return jnp.arctan2(-dot(i.R[:, 1], j.R[:, 2]), dot(i.R[:, 2], j.R[:, 2]))


def _tilt_y(i, j):
    return jnp.arctan2(dot(i.R[:, 0], j.R[:, 2]), dot(i.R[:, 2], j.R[:, 2]))


def _hole(d, p):
    """What is left of the play of a pin whose centre is off by d."""
    # in the middle there is no direction: the square root's derivative is kept finite
    return p["clearance"] - jnp.sqrt(jnp.maximum(dot(d, d), 1e-300))


def _pin_2(t, i, j, p):
    return _hole(_point_2(i, j), p)[None]


def _pin_3(t, i, j, p):
    return jnp.concatenate([_hole(_off_z(i, j), p)[None], _displacement_3(i, j)[None], _parallel_z(i, j)])


def _socket(t, i, j, p):
    return _hole(_point_3(i, j), p)[None]


def _slider_ends(i, j, p, k: int):
    return [j.p + 0.5 * way * p["length"] * j.R[:, k] - i.p for way in (1.0, -1.0)]


def _slider_2(t, i, j, p):
    rows = [p["clearance"] - way * dot(i.R[:, 1], d) for d in _slider_ends(i, j, p, 0) for way in (1.0, -1.0)]
    return jnp.stack(rows)


def _rod_in_sleeve(t, i, j, p):
    return jnp.stack([_hole(back(i.R, d)[:2], p) for d in _slider_ends(i, j, p, 2)])


def _slider_3(t, i, j, p):
    return jnp.append(_rod_in_sleeve(t, i, j, p), locked(i, j)[2])


@dataclass(frozen=True)
class _MayHavePlay:
    """The rows of a joint, without and with play."""

    tight: JointRows
    holonomic: int
    position: Callable

    def __call__(self, c: m.Constraint, space: str) -> JointRows:
        if "clearance" not in c.numbers:
            return self.tight
        return self.tight._replace(holonomic=self.holonomic, position=self.position)


# ---- contact -------------------------------------------------------------------------------------------------


def _rounds(t, i, j, p):
    """The gap of two round bodies; with a negative radius of i that of one in a hole."""
    d = j.p - i.p
    # in the middle of a hole there is no direction: the square root's derivative is kept finite
    apart = jnp.sqrt(jnp.maximum(dot(d, d), 1e-300))
    return (jnp.sign(p["radius_i"]) * apart - p["radius_i"] - p["radius"])[None]


def _contact(c: m.Constraint, space: str) -> JointRows:
    if "radius_i" in c.numbers:
        return JointRows(1, 0, _rounds)
    assert isinstance(c.element, m.Contact)
    plane = space == "plane"
    if c.element.rim:
        return JointRows(1, 2, _contact_3, _roll_3) if c.element.holds else JointRows(1, 0, _contact_3)
    if c.element.holds:
        return JointRows(1, 1 if plane else 2, *((_contact_2, _roll_2) if plane else (_sphere_contact, _sphere_roll)))
    return JointRows(1, 0, _contact_2 if plane else _sphere_contact)


# ---- wheels --------------------------------------------------------------------------------------------------


def _sphere_contact(t, i, j, p):
    return (_displacement_3(i, j) - p["radius"])[None]


def _sphere_roll(t, i, j, p):
    r = -p["radius"] * i.R[:, 2]
    slip = j.v + cross(j.w, r) - i.v - cross(i.w, j.p + r - i.p)
    return back(i.R, slip)[:2]


def _no_slip(i, j, p, along, across):
    """Slip along `across` at the contact, which divides the line of centres in the ratio of the radii."""
    contact = i.p + (j.p - i.p - along) + along * (p["radius_i"] / (p["radius_i"] + p["radius_j"]))
    slip = j.v + cross(j.w, contact - j.p) - i.v - cross(i.w, contact - i.p)
    return (dot(across, slip) / jnp.sqrt(dot(along, along)))[None]


def _no_slip_2(t, i, j, p):
    d = j.p - i.p
    return _no_slip(i, j, p, d, jnp.stack([-d[1], d[0]]))


def _no_slip_3(t, i, j, p):
    z, d = i.R[:, 2], j.p - i.p
    d = d - dot(z, d) * z
    return _no_slip(i, j, p, d, cross(z, d))


# ---- the generic joint ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """Any of the relative directions held, along marker i's axes [as a set of rows of the six of a weld]."""

    directions: tuple[str, ...]

    def __call__(self, t, i, j, p):
        rows = [_Along("xyz".index(k))(i, j) for k in self.directions if k in ("x", "y", "z")]
        if "angle" in self.directions:
            rows.append(j.angle - i.angle)
        turns = tuple("xyz".index(k[1]) for k in self.directions if len(k) == 2)
        if len(turns) == 3:
            rows += list(locked(i, j))
        elif len(turns) == 2:
            (free,) = {0, 1, 2} - set(turns)
            # axis `free` of j stays along that of i: its component on axis b of i is a small turn about axis a
            for a in turns:
                b = 3 - a - free
                rows.append(_sign(a, free) * dot(i.R[:, b], j.R[:, free]))
        elif len(turns) == 1:
            first, second = sorted({0, 1, 2} - set(turns))
            rows.append(-_sign(turns[0], second) * dot(i.R[:, first], j.R[:, second]))
        return jnp.stack(rows)


def _generic(c: m.Constraint, space: str) -> JointRows:
    assert isinstance(c.element, m.Generic)
    directions = c.element.directions(space)
    coordinates: dict[str, Callable] = {}
    if space == "plane":
        free: dict[str, Callable] = {"x": _Along(0), "y": _Along(1), "angle": _angle_2}
        coordinates = {k: f for k, f in free.items() if k not in directions}
    else:
        coordinates = {k: _Along("xyz".index(k)) for k in "xyz" if k not in directions}
        turns = [k for k in range(3) if f"r{'xyz'[k]}" not in directions]
        if len(turns) == 1:
            coordinates[f"angle_{'xyz'[turns[0]]}"] = _TurnAbout(turns[0])
        elif len(turns) == 2:
            for k in turns:
                coordinates[f"angle_{'xyz'[k]}"] = _CardanTurn(*turns, of_i=k == turns[0])
    return JointRows(len(directions), 0, Held(directions), None, tuple(coordinates.items()))


def _on_curve(c: m.Constraint, space: str) -> JointRows:
    assert isinstance(c.element, m.PointOnCurve)
    return JointRows(1 if space == "plane" else 2, 0, OnCurve(bool(c.element.closed)))


def _wheels(c: m.Constraint, space: str) -> JointRows:
    if c.speeds:
        return JointRows(0, 1, None, wheel_speeds_3, axes=centre_axes)
    return JointRows(1, 0, wheels_2 if space == "plane" else wheels_3, axes=centre_axes)


def _rows(h: int, s: int = 0, position=None, motion=None, axes=None, **coordinates: Callable) -> JointRows:
    position = _Parts(position) if isinstance(position, tuple) else position
    return JointRows(h, s, position, motion, tuple(coordinates.items()), axes)


ROWS: dict[tuple[type[m.AbstractJoint], str], JointRows | Callable[[m.Constraint, str], JointRows]] = {
    (m.Weld, "plane"): _rows(3, 0, (_point_2, _angle_2)),
    (m.Revolute, "plane"): _MayHavePlay(_rows(2, 0, (_point_2,), angle=_angle_2), 1, _pin_2),
    (m.Prismatic, "plane"): _MayHavePlay(
        _rows(2, 0, (_across_2, _angle_2), displacement=_displacement_2), 4, _slider_2
    ),
    (m.PinSlot, "plane"): _rows(1, 0, (_across_2,), displacement=_displacement_2, angle=_angle_2),
    (m.PointOnLine, "plane"): _rows(1, 0, (_across_2,), displacement=_displacement_2),
    (m.AngleLock, "plane"): _rows(1, 0, (_angle_2,), x=_Along(0), y=_Along(1)),
    (m.Distance, "plane"): _rows(1, 0, _distance),
    (m.KnifeEdge, "plane"): _rows(0, 1, None, _knife_edge_2),
    (m.RollingDisc, "plane"): _rows(1, 1, _contact_2, _roll_2),
    (m.NoSlip, "plane"): _rows(0, 1, None, _no_slip_2),
    (m.Weld, "space"): _rows(6, 0, (_point_3, locked)),
    (m.Revolute, "space"): _MayHavePlay(_rows(5, 0, (_point_3, _parallel_z), angle=_angle_3), 4, _pin_3),
    (m.Prismatic, "space"): _MayHavePlay(_rows(5, 0, (_off_z, locked), displacement=_displacement_3), 3, _slider_3),
    (m.Cylindrical, "space"): _MayHavePlay(
        _rows(4, 0, (_off_z, _parallel_z), displacement=_displacement_3, angle=_angle_3), 2, _rod_in_sleeve
    ),
    (m.Screw, "space"): _rows(5, 0, _screw_3, displacement=_displacement_3, angle=_angle_3),
    (m.Spherical, "space"): _MayHavePlay(_rows(3, 0, (_point_3,)), 1, _socket),
    (m.Universal, "space"): _rows(
        4, 0, (_point_3, _x_on_y), angle_i=_CardanTurn(0, 1, True), angle_j=_CardanTurn(0, 1, False)
    ),
    (m.ConstantVelocity, "space"): _rows(4, 0, (_point_3, _twist), angle_x=_tilt_x, angle_y=_tilt_y),
    (m.Planar, "space"): _rows(3, 0, (_displacement_3, _parallel_z), x=_Along(0), y=_Along(1), angle=_angle_3),
    (m.PinSlot, "space"): _rows(4, 0, (_off_x, _parallel_z), displacement=_Along(0), angle=_angle_3),
    (m.PointOnLine, "space"): _rows(2, 0, (_off_z,), displacement=_displacement_3),
    (m.PointInPlane, "space"): _rows(1, 0, (_displacement_3,), x=_Along(0), y=_Along(1)),
    (m.ParallelAxes, "space"): _rows(2, 0, (_parallel_z,), angle=_angle_3),
    (m.PerpendicularAxes, "space"): _rows(1, 0, (_z_on_z,)),
    (m.ConstantAngle, "space"): _rows(1, 0, _constant_angle_3),
    (m.OrientationLock, "space"): _rows(3, 0, (locked,), x=_Along(0), y=_Along(1), z=_Along(2)),
    (m.Distance, "space"): _rows(1, 0, _distance),
    (m.RevoluteSphericalRod, "space"): _rows(2, 0, _rod_3, angle=_rod_angle),
    (m.KnifeEdge, "space"): _rows(0, 1, None, _knife_edge_3),
    (m.RollingDisc, "space"): _rows(1, 2, _contact_3, _roll_3),
    (m.RollingSphere, "space"): _rows(1, 2, _sphere_contact, _sphere_roll),
    (m.NoSlip, "space"): _rows(0, 1, None, _no_slip_3),
} | {
    (cls, space): rows
    for space in ("plane", "space")
    for cls, rows in {
        m.Generic: _generic,
        m.PointOnCurve: _on_curve,
        m.Contact: _contact,
        m.Gear: _wheels,
        m.Belt: _wheels,
        m.RackAndPinion: _rows(1, 0, rack, axes=rack_axes),
    }.items()
}
"""The rows of each joint class, by space; those that depend on the joint as functions. Drivers: `_prescribed.py`;
stops: `_positions.py`."""


def rows_of(c: m.Constraint, space: str) -> JointRows:
    """The rows of a joint: those it brings with it, else those registered for its class or a base of it."""
    own = c.element.rows_in(space)
    if own is not None:
        position = None if own.position is None else SizedRows(own.position, own.holonomic)
        motion = None if own.motion is None else SizedRows(own.motion, own.nonholonomic)
        _need_functions(c, space, own)
        return own._replace(position=position, motion=motion)
    for cls in type(c.element).__mro__:
        if (found := ROWS.get((cls, space))) is not None:
            return found if isinstance(found, JointRows) else found(c, space)
    raise DalembertError(f"Joint '{c.name}': class {type(c.element).__name__} has no rows in {space}; define rows_in.")


@dataclass(frozen=True)
class SizedRows:
    """The rows of a person's own joint: `size` numbers, whatever form the function returns them in."""

    rows: Callable
    size: int

    def __call__(self, *arguments):
        return jnp.reshape(jnp.asarray(self.rows(*arguments), float), (self.size,))


def _need_functions(c: m.Constraint, space: str, rows: JointRows) -> None:
    """Refuse a class whose coordinates have no functions, or the reverse."""
    stated, measured = tuple(c.element.coordinates(space)), tuple(name for name, _ in rows.coordinates)
    if stated != measured:
        raise DalembertError(
            f"Joint '{c.name}': class {type(c.element).__name__} states the coordinates {stated}, but its rows measure "
            f"{measured}; give JointRows(coordinates=…) a function (i, j) for each, in the same order."
        )


def coordinate_of(c: m.Constraint, space: str, name: str) -> Callable:
    """The function (i, j) → joint coordinate of a joint."""
    found = dict(rows_of(c, space).coordinates)
    if name not in found:
        raise DalembertError(f"Joint '{c.name}': the rows of {type(c.element).__name__} have no coordinate '{name}'.")
    return found[name]
