"""2 · systems: places and motions of a body, in the plane and in space, as JAX arrays.

One body's coordinates x are (x, y, θ) in the plane and (position, unit quaternion w x y z) in space; its
velocities u are (ṙ world, θ̇) and (ṙ world, ω body). Everything that depends on the choice of space is here.

Constraints are written on frames (p, R), not on coordinates. How a frame moves is known in closed form, so
`equations.py` differentiates only the rows: with u held, ω in world axes does not change, and

    ṗ = v      Ṙ = [ω]R      p̈ = 0      R̈ = [ω][ω]R        (p the centre of mass)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._typing import Array


class Place(NamedTuple):
    """Where a frame is: origin p, rotation R, and in the plane its angle counted through full turns."""

    p: Float[Array, " d"]
    R: Float[Array, "d d"]
    angle: Array  # () in the plane; shape (0,) in space


class Twist(NamedTuple):
    """How a body moves: velocity of its centre of mass and angular velocity, both in world axes."""

    v: Float[Array, " d"]
    w: Array  # () in the plane, (3,) in space


class Frame(eqx.Module):
    """A frame as the rows and force laws see it: `p`, `R`, `angle`, and where velocities matter `v` and `w`.

    All in world axes; in the plane R is (2, 2), w a number and `angle` counts full turns.
    """

    p: Float[Array, " d"]
    R: Float[Array, "d d"]
    angle: Array
    v: Array | None = None
    w: Array | None = None

    def point(self, s) -> Float[Array, " d"]:
        """World position of the point with components `s` in this frame."""
        return self.p + rotate(self.R, jnp.asarray(s))

    def point_velocity(self, s) -> Float[Array, " d"]:
        """World velocity of the point with components `s` in this frame."""
        assert self.v is not None, "this frame has no velocities: use them in pfaffian rows and force laws only"
        return self.v + cross(self.w, rotate(self.R, jnp.asarray(s)))


def rotate(R, s):
    """R s, as a sum: XLA fuses it with its neighbours, which a small matrix product is not."""
    return jnp.sum(R * s, axis=-1)


def dot(a, b):
    """a · b, likewise as a sum."""
    return jnp.sum(a * b)


def back(R, a):
    """Rᵀ a."""
    return jnp.sum(R * a[:, None], axis=0)


def cross(w, r):
    """w × r; in the plane w is the number about z."""
    if r.shape[-1] == 2:
        return w * jnp.stack([-r[1], r[0]])
    return jnp.stack([w[1] * r[2] - w[2] * r[1], w[2] * r[0] - w[0] * r[2], w[0] * r[1] - w[1] * r[0]])


def moment(r, f):
    """r × f; in the plane the number about z, as shape (1,)."""
    if r.shape[-1] == 2:
        return (r[0] * f[1] - r[1] * f[0])[None]
    return cross(r, f)


def _swirl(w, R):
    """[w] R: the cross product of w with each column."""
    return jnp.stack([w[1] * R[2] - w[2] * R[1], w[2] * R[0] - w[0] * R[2], w[0] * R[1] - w[1] * R[0]])


class _Bodies:
    """What the plane and space share."""

    d: int
    dv: int

    @classmethod
    def mass_mask(cls) -> np.ndarray:
        """Which entries of a body's mass block can be non-zero."""
        mask = np.eye(cls.dv, dtype=bool)
        mask[cls.d :, cls.d :] = True
        return mask


class Plane(_Bodies):
    """Coordinates of a body in the plane."""

    name, d, dq, dv, dw = "plane", 2, 3, 3, 1

    @staticmethod
    def ground():
        return jnp.zeros(3)

    @staticmethod
    def place(x) -> Place:
        c, s = jnp.cos(x[2]), jnp.sin(x[2])
        return Place(x[:2], jnp.stack([c, -s, s, c]).reshape(2, 2), x[2])

    @staticmethod
    def coordinates(at: Place):
        """x of a place."""
        return jnp.concatenate([at.p, at.angle[None]])

    @staticmethod
    def twist(at: Place, u) -> Twist:
        return Twist(u[:2], u[2])

    @staticmethod
    def rate(at: Place, motion: Twist) -> Place:
        return Place(motion.v, motion.w * jnp.stack([-at.R[1], at.R[0]]), motion.w)

    @staticmethod
    def bias(at: Place, motion: Twist) -> Place:
        return Place(jnp.zeros(2), -(motion.w**2) * at.R, jnp.zeros(()))

    @staticmethod
    def marker(body: Place, s, angle) -> Place:
        c, sn = jnp.cos(angle), jnp.sin(angle)
        e1, e2 = body.R[:, 0], body.R[:, 1]
        return Place(body.p + rotate(body.R, s), jnp.stack([c * e1 + sn * e2, c * e2 - sn * e1], 1), body.angle + angle)

    @staticmethod
    def qdot(x, u):
        return u

    @staticmethod
    def retract(x, delta):
        return x + delta

    @staticmethod
    def generalised(body: Place, force, torque):
        """Force at the centre and torque (1,), world → the body's share of h."""
        return jnp.concatenate([force, torque])

    @staticmethod
    def wrench(body: Place, point, share):
        """The body's share of a generalised force → force and torque (1,) at a world point."""
        return share[:2], share[2:] - moment(point - body.p, share[:2])


def _quaternion_table() -> np.ndarray:
    """T (9, 16): vec R = T vec(q qᵀ)/|q|² for q = (w, x, y, z)."""
    T = np.zeros((3, 3, 4, 4))
    for i in range(3):
        T[i, i, 0, 0] = 1
        for j in range(3):
            T[i, i, j + 1, j + 1] = 1 if i == j else -1
            if i != j:
                k = 3 - i - j
                sign = 1 if (i, j, k) in ((0, 1, 2), (1, 2, 0), (2, 0, 1)) else -1
                T[i, j, i + 1, j + 1] = 2
                T[i, j, 0, k + 1] = -2 * sign
    return T.reshape(9, 16)


_TABLE = _quaternion_table()


class Space(_Bodies):
    """Coordinates of a body in space."""

    name, d, dq, dv, dw = "space", 3, 7, 6, 3

    @staticmethod
    def ground():
        return jnp.zeros(7).at[3].set(1.0)

    @staticmethod
    def place(x) -> Place:
        q = x[3:]
        R = (_TABLE @ jnp.outer(q, q).ravel()).reshape(3, 3) / jnp.sum(q * q)
        return Place(x[:3], R, jnp.zeros(0))

    @staticmethod
    def coordinates(at: Place):
        """x of a place; of the two quaternions the one whose largest component is positive."""
        R = at.R
        off = [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]
        on = [R[1, 0] + R[0, 1], R[0, 2] + R[2, 0], R[2, 1] + R[1, 2]]
        a, b, c = R[0, 0], R[1, 1], R[2, 2]
        # 4 q qᵀ, of which the column of the largest diagonal is the best to divide by
        square = jnp.stack([
            jnp.stack([1 + a + b + c, off[0], off[1], off[2]]),
            jnp.stack([off[0], 1 + a - b - c, on[0], on[1]]),
            jnp.stack([off[1], on[0], 1 - a + b - c, on[2]]),
            jnp.stack([off[2], on[1], on[2], 1 - a - b + c]),
        ])  # fmt: skip
        column = square[jnp.argmax(jnp.diagonal(square))]
        return jnp.concatenate([at.p, column / jnp.sqrt(jnp.sum(column**2))])

    @staticmethod
    def twist(at: Place, u) -> Twist:
        return Twist(u[:3], rotate(at.R, u[3:]))

    @staticmethod
    def rate(at: Place, motion: Twist) -> Place:
        return Place(motion.v, _swirl(motion.w, at.R), jnp.zeros(0))

    @staticmethod
    def bias(at: Place, motion: Twist) -> Place:
        return Place(jnp.zeros(3), _swirl(motion.w, _swirl(motion.w, at.R)), jnp.zeros(0))

    @staticmethod
    def marker(body: Place, s, A) -> Place:
        R = jnp.sum(body.R[:, :, None] * A, axis=1)
        return Place(body.p + rotate(body.R, s), R, body.angle)

    @staticmethod
    def qdot(x, u):
        w, a, b, c = x[3], x[4], x[5], x[6]
        p, q, r = u[3], u[4], u[5]
        turn = 0.5 * jnp.stack(
            [-a * p - b * q - c * r, w * p + b * r - c * q, w * q + c * p - a * r, w * r + a * q - b * p]
        )
        return jnp.concatenate([u[:3], turn])

    @staticmethod
    def retract(x, delta):
        y = x + Space.qdot(x, delta)
        return jnp.concatenate([y[:3], y[3:] / jnp.sqrt(jnp.sum(y[3:] ** 2))])

    @staticmethod
    def generalised(body: Place, force, torque):
        return jnp.concatenate([force, back(body.R, torque)])

    @staticmethod
    def wrench(body: Place, point, share):
        return share[:3], rotate(body.R, share[3:]) - cross(point - body.p, share[:3])


SPACES = {"plane": Plane, "space": Space}


def marker_frames(space: str, places: list[Place], p: dict[str, Array], twists: list[Twist] | None = None):
    """The frames that a member's rows or law are written on: its markers, or the bodies' own frames.

    `point_i`, `frame_i` (and j) in p place the markers; without them the bodies' frames are meant.
    """
    K = SPACES[space]
    at = places
    if "point_i" in p:
        sides = ("i", "j")[: len(places)]
        at = [K.marker(b, p[f"point_{s}"], p[f"frame_{s}"]) for b, s in zip(places, sides, strict=True)]
    if twists is None:
        return [Frame(*a) for a in at]
    return [Frame(*a, m.v + cross(m.w, a.p - b.p), m.w) for a, b, m in zip(at, places, twists, strict=True)]


def rate_of(coordinate: Callable, i: Frame, j: Frame):
    """The rate of a joint coordinate, from the frames' velocities."""

    def moved(frame: Frame):
        assert frame.v is not None and frame.w is not None
        plane = frame.p.shape[0] == 2
        R = (
            frame.w * jnp.stack([-frame.R[1], frame.R[0]])
            if plane
            else jnp.stack([cross(frame.w, c) for c in frame.R.T], 1)
        )
        return (frame.v, R, frame.w if plane else jnp.zeros(0))

    places = tuple((f.p, f.R, f.angle) for f in (i, j))
    return jax.jvp(lambda *at: coordinate(*(Frame(*a) for a in at)), places, (moved(i), moved(j)))[1]
