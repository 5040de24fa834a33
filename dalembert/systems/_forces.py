"""2 · systems: the applied forces, each kind one function vmapped over its members.

A law gets the marker frames (with velocities) and returns for each a (force, torque) at the marker's point,
in world axes, acting on the marker's body. What a law stores is its `potential`; the rest is work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from dalembert.systems._frames import Frame, dot, marker_frames, rotate


@dataclass(frozen=True)
class Load:
    """A force or a torque, constant or a function of time, along world or body axes."""

    function: Callable
    what: str
    frame: str

    def __call__(self, t, frames: list[Frame], p):
        (f,) = frames
        value = jnp.atleast_1d(jnp.asarray(self.function(t, p), float))
        d = f.p.shape[0]
        if self.frame == "body" and value.shape[0] == d:
            value = rotate(f.R, value)
        zero = jnp.zeros(1 if d == 2 else 3)
        return [(value, zero) if self.what == "force" else (jnp.zeros(d), value)]


@dataclass(frozen=True)
class LineSpring:
    """Spring-damper along the line i–j: pull k (l − l₀) + c l̇."""

    def __call__(self, t, frames, p):
        i, j = frames
        d = j.p - i.p
        length = jnp.sqrt(dot(d, d))
        e = d / length
        pull = p["stiffness"] * (length - p["length"]) + p["damping"] * dot(e, j.v - i.v)
        zero = jnp.zeros(1 if d.shape[0] == 2 else 3)
        return [(pull * e, zero), (-pull * e, zero)]

    def potential(self, t, frames, p):
        d = frames[1].p - frames[0].p
        return 0.5 * p["stiffness"] * (jnp.sqrt(dot(d, d)) - p["length"]) ** 2


@dataclass(frozen=True)
class UserLaw:
    """The user's law over body frames; what it returns is checked for shape at build."""

    law: Callable

    def __call__(self, t, frames, p):
        d = frames[0].p.shape[0]
        dw = 1 if d == 2 else 3
        out = []
        for force, torque in self.law(t, frames, p):
            force = jnp.broadcast_to(jnp.asarray(force, float), (d,))
            out.append((force, jnp.broadcast_to(jnp.asarray(torque, float), (dw,))))
        return out


@dataclass(frozen=True)
class JointSpring:
    """Spring-damper on a joint coordinate a: generalised force −k (a − a₀) − c ȧ, conjugate to ȧ.

    In space an angle is read in (−π, π]: the spring must not be wound past half a turn.
    """

    coordinate: Callable

    def generalised(self, K, places: list, u: list, p):
        """The shares of the two bodies, by the transpose of u ↦ ȧ; K is `Plane` or `Space`."""
        value, along = jax.linearize(lambda at: self.coordinate(*marker_frames(K.name, at, p)), places)

        def rate(u):
            return along([K.rate(at, K.twist(at, x)) for at, x in zip(places, u, strict=True)])

        speed, transpose = jax.vjp(rate, u)
        effort = -p["stiffness"] * (value - p["free"]) - p["damping"] * speed
        return transpose(effort)[0]

    def potential(self, t, frames, p):
        return 0.5 * p["stiffness"] * (self.coordinate(*frames) - p["free"]) ** 2
