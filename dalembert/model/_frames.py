"""1 · model: rotations, poses and markers as plain numbers (NumPy); nothing here moves.

Conventions, once for the whole package: a rotation R takes components in the body frame to components in
the world frame, p_world = r + R p_body. A quaternion is (w, x, y, z), unit, and R(q) is that same R.
Angles are radians (`deg` converts), lengths metres, as long as the user keeps one consistent set of units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

deg = math.pi / 180
"""Multiply degrees by this to get radians: `angle=30 * da.deg`."""


def rotation_matrix(quaternion) -> np.ndarray:
    """R (3, 3) of a unit quaternion (w, x, y, z)."""
    w, x, y, z = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_of(R) -> np.ndarray:
    """The unit quaternion (w, x, y, z), w ≥ 0, of a rotation matrix; the branch with the largest divisor."""
    R = np.asarray(R, float)
    K = np.array(
        [
            [R[0, 0] + R[1, 1] + R[2, 2], 0, 0, 0],
            [R[2, 1] - R[1, 2], R[0, 0] - R[1, 1] - R[2, 2], 0, 0],
            [R[0, 2] - R[2, 0], R[1, 0] + R[0, 1], R[1, 1] - R[0, 0] - R[2, 2], 0],
            [R[1, 0] - R[0, 1], R[2, 0] + R[0, 2], R[2, 1] + R[1, 2], R[2, 2] - R[0, 0] - R[1, 1]],
        ]
    )
    _, vectors = np.linalg.eigh(K / 3.0)  # Bar-Itzhack (2000); eigh reads the lower triangle
    q = vectors[:, -1]
    return q if q[0] >= 0 else -q


def axis_angle(axis, angle: float) -> np.ndarray:
    """R (3, 3) turning by `angle` about `axis` (Rodrigues)."""
    a = np.asarray(axis, float)
    a = a / np.linalg.norm(a)
    K = np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])
    return np.eye(3) + math.sin(angle) * K + (1 - math.cos(angle)) * (K @ K)


def turn(angle: float) -> np.ndarray:
    """R (2, 2) turning by `angle` in the plane."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s], [s, c]])


def frame_on_axis(z, x=None) -> np.ndarray:
    """R (3, 3) whose third column lies along `z`; its first along the part of `x` across z, if given.

    Without `x` the first column is the world axis most across z, made perpendicular: deterministic.
    """
    z = np.asarray(z, float)
    z = z / np.linalg.norm(z)
    if x is None:
        x = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.asarray(x, float)
    x = x - z * (z @ x)
    x = x / np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body. Mass in kg, inertia about the centre of mass, in the body frame, in kg m².

    The body frame sits at the centre of mass. In the plane: inertia is one number, `rotation` is (2, 2).
    In space: inertia is a (3, 3) tensor, `rotation` (3, 3). `velocity` is that of the centre of mass in the
    world frame; `angular_velocity` is a number in the plane and a vector in the **body** frame in space.
    """

    name: str
    mass: float
    inertia: np.ndarray
    position: np.ndarray
    rotation: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray
    is_ground: bool = False

    def __repr__(self) -> str:
        if self.is_ground:
            return "ground"
        return f"body '{self.name}': mass {self.mass:.6g}, inertia {few(self.inertia)}, at {few(self.position)}"

    def local_point(self, point) -> np.ndarray:
        """World point of the start configuration → components in the body frame."""
        return self.rotation.T @ (np.asarray(point, float) - self.position)

    def local_rotation(self, R) -> np.ndarray:
        """World frame of the start configuration → frame relative to the body."""
        return self.rotation.T @ np.asarray(R, float)


@dataclass(frozen=True, eq=False)
class Marker:
    """A frame fixed in a body: `position` and `rotation` in the body frame (centre of mass, body axes)."""

    body: Body
    position: np.ndarray
    rotation: np.ndarray
    name: str = field(default="")

    def __repr__(self) -> str:
        named = f"marker '{self.name}'" if self.name else "marker"
        return f"{named} of {'ground' if self.body.is_ground else repr(self.body.name)} at {few(self.position)}"

    @property
    def start_position(self) -> np.ndarray:
        """The marker's point in the world at the start configuration."""
        return self.body.position + self.body.rotation @ self.position

    @property
    def start_rotation(self) -> np.ndarray:
        """The marker's frame in the world at the start configuration."""
        return self.body.rotation @ self.rotation


def few(values) -> str:
    """Numbers for printing: a diagonal tensor as its diagonal, six digits."""
    x = np.asarray(values, float)
    if x.ndim == 2 and not np.any(x - np.diag(np.diagonal(x))):
        x = np.diagonal(x)
    shown = [f"{v + 0.0:.6g}" for v in np.ravel(x)]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
