"""Shared by the tests of joints and reactions: every joint kind between any two bodies, and plain NumPy mechanics."""

from __future__ import annotations

import math
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.model import axis_angle, frame_on_axis

JOINTS = {
    "plane": (
        "weld", "revolute", "prismatic", "distance", "knife_edge", "rolling_disc", "holonomic", "pfaffian", "pin_slot",
        "point_on_line", "point_on_curve", "point_on_curve:closed", "angle_lock", "no_slip", "generic:x", "generic:y",
        "generic:angle", "generic:x,y", "generic:x,angle", "generic:y,angle", "generic:x,y,angle",
    ),
    "space": (
        "weld", "revolute", "prismatic", "cylindrical", "spherical", "universal", "distance", "knife_edge",
        "rolling_disc", "holonomic", "pfaffian", "screw", "constant_velocity", "planar", "pin_slot", "point_on_line",
        "point_in_plane", "point_on_curve", "point_on_curve:closed", "parallel_axes", "perpendicular_axes",
        "constant_angle", "orientation_lock", "revolute_spherical_rod", "rolling_sphere", "no_slip", "generic:x,y,z",
        "generic:rx", "generic:x,ry", "generic:y,z,rz", "generic:rx,ry", "generic:z,rx,rz", "generic:x,ry,rz",
        "generic:rx,ry,rz", "generic:x,y,z,rx,ry,rz",
    ),
}  # fmt: skip
# coordinates that a driver acts on: each function that measures one, at least once
DRIVEN = {
    "plane": (
        ("revolute", "angle"), ("prismatic", "displacement"), ("pin_slot", "displacement"), ("generic:x", "y"),
        ("generic:y,angle", "x"),
    ),
    "space": (
        ("revolute", "angle"), ("prismatic", "displacement"), ("cylindrical", "displacement"),
        ("cylindrical", "angle"), ("universal", "angle_i"), ("universal", "angle_j"), ("constant_velocity", "angle_x"),
        ("constant_velocity", "angle_y"), ("planar", "x"), ("planar", "y"), ("revolute_spherical_rod", "angle"),
        ("generic:rx", "angle_y"), ("generic:rx", "angle_z"), ("generic:x,ry", "angle_x"),
        ("generic:z,rx,rz", "angle_y"),
    ),
}  # fmt: skip
DRIVERS = {f"driver_{kind}_{c}": (kind, c) for space in JOINTS for kind, c in DRIVEN[space]}
# those whose reactions are looked at in motion
MOVED = {
    "plane": (("revolute", "angle"), ("prismatic", "displacement")),
    "space": (
        ("revolute", "angle"), ("prismatic", "displacement"), ("cylindrical", "displacement"),
        ("cylindrical", "angle"), ("universal", "angle_i"), ("universal", "angle_j"), ("planar", "x"),
    ),
}  # fmt: skip
# the other elements that prescribe motion; a speed driver acts on a joint coordinate
PRESCRIBED = ("point_driver", "frame_driver", "distance_driver")
SPEED_DRIVEN = {
    "plane": (("revolute", "angle"), ("pin_slot", "displacement")),
    "space": (("screw", "displacement"), ("universal", "angle_j"), ("generic:x,ry", "angle_z")),
}
SPEED_DRIVERS = {f"speed_driver_{kind}_{c}": (kind, c) for space in JOINTS for kind, c in SPEED_DRIVEN[space]}
ORDERS = ("bb", "gb", "bg")  # bodies i and j: two bodies, ground and body, body and ground


def motion(t, p):
    """A driver's motion, nonlinear in time."""
    return p["start"] + 0.4 * jnp.sin(1.7 * t) + 0.3 * t**2


def motion_rate(t):
    """Its first derivative, by hand."""
    return 0.68 * np.cos(1.7 * t) + 0.6 * t


def motion_rate2(t):
    """Its second derivative, by hand."""
    return -1.156 * np.sin(1.7 * t) + 0.6


def rod_row(t, frames, p):
    """A holonomic row: the squared distance of two points follows time; only relative motion enters."""
    d = frames[1].point(p["s_j"]) - frames[0].point(p["s_i"])
    return (jnp.dot(d, d) / p["length"] - p["length"] * (1 + 0.2 * jnp.sin(2 * t))) / 2


def slide_row(t, frames, p):
    """A Pfaffian row: the velocity of a point of j seen from i, along an axis of i, is a function of time and place."""
    i, j = frames
    P = j.point(p["s_j"])
    relative = j.point_velocity(p["s_j"]) - i.point_velocity(i.R.T @ (P - i.p))
    gap = P - i.point(p["s_i"])
    return jnp.dot(i.R @ p["along"], relative) - 0.3 * jnp.cos(2 * t) * (1 + jnp.dot(gap, gap))


@dataclass(frozen=True)
class Spot:
    """Where a joint sits at the start: a point, a second point off it, an axis and one across it."""

    at: np.ndarray
    off: np.ndarray
    axis: np.ndarray
    across: np.ndarray


def spot(space: str, rng) -> Spot:
    """A random place with all directions oblique; the second point far off, so that no random pose shuts a rod."""
    at = rng.uniform(-0.5, 0.5, 2 if space == "plane" else 3)
    if space == "plane":
        a = rng.uniform(0.3, 1.2)
        return Spot(at, at + [2.0, 1.5], np.array([math.cos(a), math.sin(a)]), np.array([-math.sin(a), math.cos(a)]))
    R = frame_on_axis(rng.uniform(0.3, 1.0, 3))
    return Spot(at, at + [2.0, 1.5, -1.0], R[:, 2], R[:, 0])


PITCH, RADIUS, BEND, ANGLE, ROD = 0.3, 0.35, 0.4, 0.7, 2.5
RADII = (0.6, 0.9)  # of the two discs of no_slip


def axes_of(s: Spot) -> np.ndarray:
    """Columns x, y, z of the frame that `axis` as z and `across` as x give (in the plane `axis` is x)."""
    if len(s.at) == 2:
        return np.column_stack([s.axis, s.across])
    return np.column_stack([s.across, np.cross(s.axis, s.across), s.axis])


def tilted(s: Spot, angle: float) -> np.ndarray:
    """The axis turned by an angle towards `across`."""
    return math.cos(angle) * s.axis + math.sin(angle) * s.across


def curve_points(s: Spot, closed: bool) -> np.ndarray:
    """Points of a curve through the spot that is symmetric there, so that its tangent at the spot is `axis`.

    Its radius of curvature is above 3, more than random poses stray from it."""
    third = np.zeros_like(s.at) if len(s.at) == 2 else np.cross(s.axis, s.across)
    if closed:  # an ellipse, beginning at the end of its shorter half-axis
        u = 2 * np.pi * np.arange(12)[:, None] / 12
        return s.at + 5 * np.sin(u) * s.axis + 4 * (1 - np.cos(u)) * (0.8 * s.across + 0.6 * third)
    u = np.linspace(-4, 4, 9)[:, None]
    return s.at + u * s.axis + u**2 * (0.06 * s.across + 0.04 * third)


def add_joint(model, kind: str, name: str, i, j, s: Spot):
    """One joint of a kind between i and j, met by the start pose."""
    space = model.space
    word, _, held = kind.partition(":")
    if word == "generic":
        frame = {} if space == "plane" else {"x": s.across}
        return model.generic(name, i, j, at=s.at, axis=s.axis, held=held.split(","), **frame)
    if kind in ("weld", "spherical", "orientation_lock", "angle_lock") or (kind == "revolute" and space == "plane"):
        return getattr(model, kind)(name, i, j, at=s.at)
    if kind in ("revolute", "prismatic", "cylindrical", "point_on_line", "parallel_axes"):
        return getattr(model, kind)(name, i, j, at=s.at, axis=s.axis)
    if kind == "screw":
        return model.screw(name, i, j, at=s.at, axis=s.axis, pitch=PITCH)
    if kind == "universal":
        return model.universal(name, i, j, at=s.at, axis_i=s.axis, axis_j=s.across)
    if kind == "constant_velocity":
        return model.constant_velocity(name, i, j, at=s.at, axis_i=s.axis, axis_j=tilted(s, BEND))
    if kind == "perpendicular_axes":
        return model.perpendicular_axes(name, i, j, at=s.at, axis_i=s.axis, axis_j=s.across)
    if kind == "constant_angle":
        return model.constant_angle(name, i, j, at=s.at, axis_i=s.axis, axis_j=tilted(s, ANGLE))
    if kind == "planar":
        return model.planar(name, i, j, at=s.at, normal=s.axis, x=s.across)
    if kind == "point_in_plane":
        return model.point_in_plane(name, i, j, at=s.at, normal=s.axis)
    if kind == "pin_slot":
        way = {"slot": s.axis} if space == "plane" else {"slot": s.across, "axis": s.axis}
        return model.pin_slot(name, i, j, at=s.at, **way)
    if word == "point_on_curve":
        return model.point_on_curve(name, i, j, at=s.at, points=curve_points(s, held == "closed"), closed=bool(held))
    if kind == "distance":
        return model.distance(name, i, j, at_i=s.at, at_j=s.off)
    if kind == "revolute_spherical_rod":
        return model.revolute_spherical_rod(name, i, j, at_i=s.at, at_j=s.at + ROD * s.across, axis=s.axis)
    if kind == "no_slip":
        way = {} if space == "plane" else {"axis": s.axis}
        return model.no_slip(name, i, j, at_i=s.at, at_j=s.off, radius_i=RADII[0], radius_j=RADII[1], **way)
    if kind == "knife_edge":
        return model.knife_edge(name, i, j, at=s.at, direction=s.axis)
    if kind == "rolling_disc":
        normal = s.across if space == "plane" else 0.9 * s.across + 0.3 * s.axis
        return model.rolling_disc(name, i, j, radius=RADIUS, at=s.at, axis=s.axis, normal=normal)
    if kind == "rolling_sphere":
        return model.rolling_sphere(name, i, j, radius=RADIUS, at=s.at, normal=s.across)
    return add_rows(model, kind, name, i, j, s)


def add_rows(model, kind: str, name: str, i, j, s: Spot):
    """The user's own rows, and what prescribes the motion of points and frames."""
    d = model.dimension
    if kind == "point_driver":
        return model.point_driver(name, i, j, point_motion, at=s.at, parameters={"way": np.arange(1.0, d + 1)})
    if kind == "frame_driver":
        turn = ["0.6*sin(2*t)"] if d == 2 else ["0.6*sin(2*t)", "0.3*t^2", "-0.4*t"]
        return model.frame_driver(name, i, j, ["0.3*t^2"] + ["0.2*sin(3*t)"] * (d - 1), turn, at=s.at)
    length = float(np.linalg.norm(s.off - s.at))
    if kind == "distance_driver":
        return model.distance_driver(
            name, i, j, "a*(1 + 0.1*sin(2*t))", at_i=s.at, at_j=s.off, parameters={"a": length}
        )
    places = {"s_i": i.local_point(s.at), "s_j": j.local_point(s.off)}
    if kind == "holonomic":
        return model.holonomic(name, [i, j], rod_row, parameters=places | {"length": length})
    along = i.local_rotation(np.eye(d)) @ s.axis
    return model.pfaffian(name, [i, j], slide_row, parameters=places | {"along": along})


def point_motion(t, p):
    """A point's prescribed path from its start, a parabola in time."""
    return 0.2 * p["way"] * t**2


def random_body(model, name: str, rng, *, moving: bool = False):
    """A body with a full inertia tensor in an oblique pose."""
    d = model.dimension
    motion = {}
    if moving:
        spin = rng.uniform(-1, 1, 3) if d == 3 else rng.uniform(-1, 1)
        motion = {"velocity": rng.uniform(-1, 1, d), "angular_velocity": spin}
    mass, position = rng.uniform(0.5, 2), rng.uniform(-1, 1, d)
    if d == 2:
        return model.body(
            name, mass=mass, inertia=rng.uniform(0.1, 0.3), position=position, angle=rng.uniform(-3, 3), **motion
        )
    R, A = (axis_angle(rng.standard_normal(3), rng.uniform(0.3, 2)) for _ in range(2))
    inertia = A @ np.diag([0.2, 0.25, 0.32]) @ A.T
    return model.body(name, mass=mass, inertia=inertia, position=position, rotation=R, **motion)


def rows_of(system, name: str) -> list[int]:
    return list(next(o.rows for o in system.owners if o.name == name))


# ---- plain NumPy mechanics, apart from the package ------------------------------------------------------------


def rotation(quaternion) -> np.ndarray:
    """R of unit quaternions (…, 4) as w² − u·u and so on: not the package's formula."""
    w, u = quaternion[..., 0], quaternion[..., 1:]
    K = np.zeros((*w.shape, 3, 3))
    K[..., 0, 1], K[..., 0, 2], K[..., 1, 2] = -u[..., 2], u[..., 1], -u[..., 0]
    K = K - np.swapaxes(K, -1, -2)
    outer = u[..., :, None] * u[..., None, :]
    s = (w**2 - np.sum(u * u, axis=-1))[..., None, None]
    return s * np.eye(3) + 2 * outer + 2 * w[..., None, None] * K


def rotation_2(angle) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)


def moved(space: str, q, v, dt: float) -> np.ndarray:
    """q after dt with v held, exactly: positions linear, quaternions turned by exp of the body's ω."""
    if space == "plane":
        return q + dt * v
    out = []
    for x, u in zip(q.reshape(-1, 7), v.reshape(-1, 6), strict=True):
        a = 0.5 * dt * u[3:]
        size = np.linalg.norm(a)
        turn = np.concatenate([[np.cos(size)], np.sinc(size / np.pi) * a])
        w, r = x[3], x[4:]
        quaternion = np.concatenate([[w * turn[0] - r @ turn[1:]], w * turn[1:] + turn[0] * r + np.cross(r, turn[1:])])
        out.append(np.concatenate([x[:3] + dt * u[:3], quaternion]))
    return np.concatenate(out)


def solved(system, t, q, v):
    """v̇ and what the constraints say at one instant: (v̇, Φ, φ); rows are compiled once, for all that needs them."""
    e = da.assemble(system, t, q, v)
    return _accelerations(e), e.Phi, e.phi


@eqx.filter_jit
def _accelerations(equations):
    return da.formulations.Proximal().solve(equations).vdot


def settled(system, q, v, t: float = 0.0):
    """(q, v) moved onto the constraints by plain Newton steps in NumPy: one compiled program serves many states.

    Redundant rows make S = C M⁻¹Cᵀ singular: a share of 1e-11 is added, whose error the next step takes away."""
    h = system.m_holonomic
    size = np.inf
    for k in range(30):
        e = da.assemble(system, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v))
        Phi, phi, C, inverse = (np.asarray(x) for x in (e.Phi, e.phi, e.C, e.mass.inverse))
        onto = np.einsum("bij,bjm->bim", inverse, C.T.reshape(*inverse.shape[:2], -1)).reshape(C.T.shape)
        S = C @ onto
        S += 1e-11 * np.max(np.diagonal(S)) * np.eye(len(S))
        size = max(np.max(np.abs(Phi), initial=0.0), np.max(np.abs(phi), initial=0.0))
        if k > 2 and size < 1e-13:
            break
        delta = -onto[:, :h] @ np.linalg.solve(S[:h, :h], Phi)
        q = np.asarray(system.retract(jnp.asarray(q), jnp.asarray(delta)))
        v = v - onto @ np.linalg.solve(S, phi)
    assert size < 1e-11, "the constraints do not close"
    return q, v


def quiet_model(space: str, name: str = "all-joints"):
    return da.Model(name, space=space, gravity=(0, -9.81) if space == "plane" else (0.5, 0, -9.81))


ROUNDING = 1e-13  # sums of some tens of products of numbers of order one


def close(a, b, tolerance):
    """|a − b| within a tolerance relative to the larger of 1 and the numbers compared."""
    a, b = np.asarray(a), np.asarray(b)
    return np.max(np.abs(a - b), initial=0.0) <= tolerance * max(1.0, np.max(np.abs(b), initial=0.0))
