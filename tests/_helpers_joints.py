"""Shared by the tests of joints and reactions: every joint kind between any two bodies, and plain NumPy mechanics."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.model import axis_angle, frame_on_axis

JOINTS = {
    "plane": ("weld", "revolute", "prismatic", "distance", "knife_edge", "rolling_disc", "holonomic", "pfaffian"),
    "space": (
        "weld", "revolute", "prismatic", "cylindrical", "spherical", "universal", "distance", "knife_edge",
        "rolling_disc", "holonomic", "pfaffian",
    ),
}  # fmt: skip
# every coordinate a driver can act on
DRIVEN = {
    "plane": (("revolute", "angle"), ("prismatic", "displacement")),
    "space": (
        ("revolute", "angle"), ("prismatic", "displacement"), ("cylindrical", "displacement"),
        ("cylindrical", "angle"), ("universal", "angle_i"), ("universal", "angle_j"),
    ),
}  # fmt: skip
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


def add_joint(model, kind: str, name: str, i, j, s: Spot):
    """One joint of a kind between i and j, met by the start pose."""
    space = model.space
    if kind in ("weld", "spherical") or (kind == "revolute" and space == "plane"):
        return getattr(model, kind)(name, i, j, at=s.at)
    if kind in ("revolute", "prismatic", "cylindrical"):
        return getattr(model, kind)(name, i, j, at=s.at, axis=s.axis)
    if kind == "universal":
        return model.universal(name, i, j, at=s.at, axis_i=s.axis, axis_j=s.across)
    if kind == "distance":
        return model.distance(name, i, j, at_i=s.at, at_j=s.off)
    if kind == "knife_edge":
        return model.knife_edge(name, i, j, at=s.at, direction=s.axis)
    if kind == "rolling_disc":
        normal = s.across if space == "plane" else 0.9 * s.across + 0.3 * s.axis
        return model.rolling_disc(name, i, j, radius=0.35, at=s.at, axis=s.axis, normal=normal)
    length = float(np.linalg.norm(s.off - s.at))
    places = {"s_i": i.local_point(s.at), "s_j": j.local_point(s.off)}
    if kind == "holonomic":
        return model.holonomic(name, [i, j], rod_row, parameters=places | {"length": length})
    along = i.local_rotation(np.eye(model.dimension)) @ s.axis
    return model.pfaffian(name, [i, j], slide_row, parameters=places | {"along": along})


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


def quiet_model(space: str, name: str = "all-joints"):
    return da.Model(name, space=space, gravity=(0, -9.81) if space == "plane" else (0.5, 0, -9.81))
