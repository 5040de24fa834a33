"""2 · systems: the rows of every joint kind, written once for two marker frames i and j.

A row family is one function of two frames, vmapped over all joints of its kind. Holonomic rows Φ need
only positions (`equations.py` differentiates them); nonholonomic rows are linear in the frames' velocities.
d = p_j − p_i. Rows are lengths or angles, so λ is a force or a torque **on body j**.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from dalembert.systems._frames import Frame, back, cross, dot


class Kind(NamedTuple):
    """What a joint kind is: number of rows, their functions (t, i, j, p), and its free coordinates."""

    holonomic: int
    nonholonomic: int = 0
    position: Callable | None = None
    motion: Callable | None = None
    coordinates: dict[str, Callable] = {}


def wrapped(angle):
    """The angle brought into (−π, π]; its derivative is 1."""
    return angle - 2 * jnp.pi * jnp.round(angle / (2 * jnp.pi))


# ---- in the plane: rows along the world axes [Wojtyra, Fraczek 2013, eqs. 40, 42, with the sign of j − i] ------


def _point_2(t, i: Frame, j: Frame, p):
    return j.p - i.p


def _prismatic_2(t, i, j, p):
    return jnp.stack([dot(i.R[:, 1], j.p - i.p), j.angle - i.angle])


def _weld_2(t, i, j, p):
    return jnp.append(j.p - i.p, j.angle - i.angle)


def _angle_2(i, j):
    return j.angle - i.angle


def _displacement_2(i, j):
    return dot(i.R[:, 0], j.p - i.p)


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


def _point_3(t, i, j, p):
    return back(i.R, j.p - i.p)


def _parallel_z(i, j):
    return back(i.R, j.R[:, 2])[:2]


def _locked(i, j):
    # the rotation vector of j against i, to first order: each row is a small angle about x, y, z of i
    B = jnp.sum(i.R[:, :, None] * j.R[:, None, :], axis=0)
    return 0.5 * jnp.stack([B[2, 1] - B[1, 2], B[0, 2] - B[2, 0], B[1, 0] - B[0, 1]])


def _revolute_3(t, i, j, p):
    return jnp.concatenate([_point_3(t, i, j, p), _parallel_z(i, j)])


def _prismatic_3(t, i, j, p):
    return jnp.concatenate([_point_3(t, i, j, p)[:2], _locked(i, j)])


def _cylindrical_3(t, i, j, p):
    return jnp.concatenate([_point_3(t, i, j, p)[:2], _parallel_z(i, j)])


def _universal_3(t, i, j, p):
    return jnp.append(_point_3(t, i, j, p), dot(i.R[:, 0], j.R[:, 1]))


def _weld_3(t, i, j, p):
    return jnp.concatenate([_point_3(t, i, j, p), _locked(i, j)])


def _angle_3(i, j):
    return jnp.arctan2(dot(i.R[:, 1], j.R[:, 0]), dot(i.R[:, 0], j.R[:, 0]))


def _displacement_3(i, j):
    return dot(i.R[:, 2], j.p - i.p)


def _universal_angle_i(i, j):
    return jnp.arctan2(dot(i.R[:, 2], j.R[:, 1]), dot(i.R[:, 1], j.R[:, 1]))


def _universal_angle_j(i, j):
    return jnp.arctan2(dot(i.R[:, 0], j.R[:, 2]), dot(i.R[:, 0], j.R[:, 0]))


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


KINDS: dict[tuple[str, str], Kind] = {
    ("plane", "weld"): Kind(3, 0, _weld_2),
    ("plane", "revolute"): Kind(2, 0, _point_2, None, {"angle": _angle_2}),
    ("plane", "prismatic"): Kind(2, 0, _prismatic_2, None, {"displacement": _displacement_2}),
    ("plane", "distance"): Kind(1, 0, _distance),
    ("plane", "knife_edge"): Kind(0, 1, None, _knife_edge_2),
    ("plane", "rolling_disc"): Kind(1, 1, _contact_2, _roll_2),
    ("space", "weld"): Kind(6, 0, _weld_3),
    ("space", "revolute"): Kind(5, 0, _revolute_3, None, {"angle": _angle_3}),
    ("space", "prismatic"): Kind(5, 0, _prismatic_3, None, {"displacement": _displacement_3}),
    ("space", "cylindrical"): Kind(4, 0, _cylindrical_3, None, {"displacement": _displacement_3, "angle": _angle_3}),
    ("space", "spherical"): Kind(3, 0, _point_3),
    ("space", "universal"): Kind(
        4, 0, _universal_3, None, {"angle_i": _universal_angle_i, "angle_j": _universal_angle_j}
    ),
    ("space", "distance"): Kind(1, 0, _distance),
    ("space", "knife_edge"): Kind(0, 1, None, _knife_edge_3),
    ("space", "rolling_disc"): Kind(1, 2, _contact_3, _roll_3),
}


def coordinate_of(space: str, kind: str, name: str) -> Callable:
    """The function (i, j) → joint coordinate of a joint kind."""
    return KINDS[space, kind].coordinates[name]


def is_angle(name: str) -> bool:
    """Whether a joint coordinate is an angle (radians) or a length."""
    return name.startswith("angle")


@dataclass(frozen=True)
class DriverRow:
    """One rheonomic row: joint coordinate − motion(t) = 0 [Wojtyra, Fraczek 2013, eq. 43]."""

    coordinate: Callable
    motion: Callable
    angle: bool

    def __call__(self, t, i, j, p):
        gap = self.coordinate(i, j) - jnp.asarray(self.motion(t, p), float)
        return jnp.reshape(wrapped(gap) if self.angle else gap, (1,))


@dataclass(frozen=True)
class UserRows:
    """The user's own rows over a list of body frames; `size` of them."""

    residual: Callable
    size: int

    def __call__(self, t, frames, p):
        return jnp.reshape(jnp.asarray(self.residual(t, frames, p), float), (self.size,))
