"""2 · systems: a moving frame of a body or marker, in the plane and in space, as JAX arrays.

One body's coordinates x are (x, y, θ) in the plane and (position, unit quaternion w x y z) in space; its
velocities u are (ṙ world, θ̇) and (ṙ world, ω body). Everything that depends on the choice of space is here.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Frame(eqx.Module):
    """A frame in motion: origin `p`, rotation `R`, their velocities `v` and `w`, all in world axes.

    In the plane `R` is (2, 2), `angle` the turning angle counted through full turns, `w` a number. In space
    `R` is (3, 3), `w` a vector and `angle` is None.
    """

    p: Float[Array, " d"]
    R: Float[Array, "d d"]
    v: Array | None = None
    w: Array | None = None
    angle: Array | None = None

    def point(self, s) -> Float[Array, " d"]:
        """World position of the point with components `s` in this frame."""
        return self.p + self.R @ jnp.asarray(s)

    def point_velocity(self, s) -> Float[Array, " d"]:
        """World velocity of the point with components `s` in this frame."""
        return self.v + cross(self.w, self.R @ jnp.asarray(s))


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


class Plane:
    """Coordinates of a body in the plane."""

    name, d, dq, dv, dw = "plane", 2, 3, 3, 1

    @staticmethod
    def frame(x, u=None) -> Frame:
        c, s = jnp.cos(x[2]), jnp.sin(x[2])
        R = jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])
        v, w = (None, None) if u is None else (u[:2], u[2])
        return Frame(x[:2], R, v, w, x[2])

    @staticmethod
    def marker(body: Frame, s, angle) -> Frame:
        r = body.R @ s
        c, sn = jnp.cos(angle), jnp.sin(angle)
        R = body.R @ jnp.stack([jnp.stack([c, -sn]), jnp.stack([sn, c])])
        v = None if body.v is None else body.v + cross(body.w, r)
        return Frame(body.p + r, R, v, body.w, body.angle + angle)

    @staticmethod
    def qdot(x, u):
        return u

    @staticmethod
    def retract(x, delta):
        return x + delta

    @staticmethod
    def generalised(body: Frame, force, torque):
        """Force at the centre and torque (1,), world → the body's share of h."""
        return jnp.concatenate([force, torque])

    @staticmethod
    def wrench(body: Frame, point, share):
        """The body's share of a generalised force → force and torque (1,) at a world point."""
        return share[:2], share[2:] - moment(point - body.p, share[:2])


class Space:
    """Coordinates of a body in space."""

    name, d, dq, dv, dw = "space", 3, 7, 6, 3

    @staticmethod
    def frame(x, u=None) -> Frame:
        w, a, b, c = x[3], x[4], x[5], x[6]
        k = 2.0 / (w * w + a * a + b * b + c * c)
        R = jnp.stack(
            [
                jnp.stack([1 - k * (b * b + c * c), k * (a * b - w * c), k * (a * c + w * b)]),
                jnp.stack([k * (a * b + w * c), 1 - k * (a * a + c * c), k * (b * c - w * a)]),
                jnp.stack([k * (a * c - w * b), k * (b * c + w * a), 1 - k * (a * a + b * b)]),
            ]
        )
        v, omega = (None, None) if u is None else (u[:3], R @ u[3:])
        return Frame(x[:3], R, v, omega)

    @staticmethod
    def marker(body: Frame, s, A) -> Frame:
        r = body.R @ s
        v = None if body.v is None else body.v + cross(body.w, r)
        return Frame(body.p + r, body.R @ A, v, body.w)

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
        return jnp.concatenate([y[:3], y[3:] / jnp.linalg.norm(y[3:])])

    @staticmethod
    def generalised(body: Frame, force, torque):
        return jnp.concatenate([force, body.R.T @ torque])

    @staticmethod
    def wrench(body: Frame, point, share):
        return share[:3], body.R @ share[3:] - cross(point - body.p, share[:3])


SPACES = {"plane": Plane, "space": Space}
