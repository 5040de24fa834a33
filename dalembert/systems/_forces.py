"""2 · systems: the applied forces, each kind one function vmapped over its members.

A law gets the marker frames (with velocities) and returns for each a (force, torque) at the marker's point,
in world axes, acting on the marker's body. What a law stores is its `potential`; the rest is work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from dalembert._typing import Array
from dalembert.model import quintic
from dalembert.systems._constraints import wrapped
from dalembert.systems._frames import Frame, back, dot, marker_frames, rotate


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


def _now(function: Callable | None, key: str, t, p):
    """A number of a law, or what a function of time (t, p) has in its place."""
    return p[key] if function is None else jnp.asarray(function(t, p), float)


@dataclass(frozen=True)
class LineSpring:
    """Spring-damper-actuator along the line i–j: pull k (l − l₀) + c l̇ + f(t, l, l̇), k and l₀ numbers or functions of
    time; with these it stores no energy."""

    pull: Callable | None = None
    stiffness: Callable | None = None
    free: Callable | None = None

    def __call__(self, t, frames, p):
        pull, e = self._along(t, frames, p)
        zero = jnp.zeros(1 if e.shape[0] == 2 else 3)
        return [(pull * e, zero), (-pull * e, zero)]

    def _along(self, t, frames, p):
        """The pull, and the direction from i to j."""
        i, j = frames
        d = j.p - i.p
        length = jnp.sqrt(dot(d, d))
        e = d / length
        rate = dot(e, j.v - i.v)
        stretch = length - _now(self.free, "length", t, p)
        pull = _now(self.stiffness, "stiffness", t, p) * stretch + p["damping"] * rate
        if self.pull is not None:
            pull = pull + jnp.asarray(self.pull(t, length, rate, p), float)
        return pull, e

    def effort_at(self, K, t, places: list, twists: list, p):
        """The pull."""
        return self._along(t, marker_frames(K.name, places, p, twists), p)[0]

    def potential(self, t, frames, p):
        if self.stiffness is not None or self.free is not None:
            return jnp.zeros(())
        d = frames[1].p - frames[0].p
        return 0.5 * p["stiffness"] * (jnp.sqrt(dot(d, d)) - p["length"]) ** 2


@dataclass(frozen=True)
class BeltTension:
    """The pretension T₀ of both spans of a belt draws the pulleys together: share · T₀ along the line of centres."""

    def __call__(self, t, frames, p):
        i, j = frames
        d = j.p - i.p
        pull = p["share"] * p["tension"] * d / jnp.sqrt(dot(d, d))
        zero = jnp.zeros(1 if d.shape[0] == 2 else 3)
        return [(pull, zero), (-pull, zero)]

    def potential(self, t, frames, p):
        d = frames[1].p - frames[0].p
        return p["share"] * p["tension"] * jnp.sqrt(dot(d, d))


@dataclass(frozen=True)
class Drag:
    """−(c₁ + c₂|u|) u at the marker, u its velocity against the wind, and −c ω."""

    def __call__(self, t, frames, p):
        (f,) = frames
        u = f.v - p["wind"]
        square = dot(u, u)
        speed = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
        return [(-(p["linear"] + p["quadratic"] * speed) * u, -p["angular"] * jnp.atleast_1d(f.w))]


@dataclass(frozen=True)
class CentralGravity:
    """−μ m r/|r|³ from a fixed point; the system gives the body's mass as p["mass"]."""

    weighs = True

    def __call__(self, t, frames, p):
        (f,) = frames
        r = f.p - p["centre"]
        square = dot(r, r)
        zero = jnp.zeros(1 if r.shape[0] == 2 else 3)
        return [(-p["mu"] * p["mass"] * r / (square * jnp.sqrt(square)), zero)]

    def potential(self, t, frames, p):
        r = frames[0].p - p["centre"]
        return -p["mu"] * p["mass"] / jnp.sqrt(dot(r, r))


@dataclass(frozen=True)
class UserLaw:
    """The user's law over body frames; what it returns is checked for shape at build."""

    on_bodies = True  # it sees the bodies' own frames

    law: Callable

    def __call__(self, t, frames, p):
        d = frames[0].p.shape[0]
        dw = 1 if d == 2 else 3
        out = []
        for force, torque in self.law(t, frames, p):
            force = jnp.broadcast_to(jnp.asarray(force, float), (d,))
            out.append((force, jnp.broadcast_to(jnp.asarray(torque, float), (dw,))))
        return out


class Conjugate:
    """A law on coordinates a(i, j) of two frames: generalised forces, mapped to the bodies by the transpose of u ↦ ȧ.

    So it balances its bodies and its power is effort · ȧ, whatever the coordinates are.
    """

    def coordinates(self, i: Frame, j: Frame):
        raise NotImplementedError

    def effort(self, t, value, rate, p):
        raise NotImplementedError

    def generalised(self, K, t, places: list, u: list, p):
        """The shares of the two bodies; K is `Plane` or `Space`."""
        value, along = jax.linearize(lambda at: self.coordinates(*marker_frames(K.name, at, p)), places)

        def rate(u):
            return along([K.rate(at, K.twist(at, x)) for at, x in zip(places, u, strict=True)])

        speed, transpose = jax.vjp(rate, u)
        return transpose(self.effort(t, value, speed, p))[0]

    def effort_at(self, K, t, places: list, twists: list, p):
        """The effort of bodies at given places and with given motion."""
        moving = [K.rate(at, twist) for at, twist in zip(places, twists, strict=True)]
        value, speed = jax.jvp(lambda at: self.coordinates(*marker_frames(K.name, at, p)), (places,), (moving,))
        return self.effort(t, value, speed, p)


@dataclass(frozen=True)
class OnCoordinate(Conjugate):
    """A law on one joint coordinate. In space an angle is read in (−π, π]."""

    coordinate: Callable
    angle: bool
    function: Callable | None = None

    def coordinates(self, i, j):
        return self.coordinate(i, j)

    def gap(self, value):
        """The difference of two values, for an angle within half a turn: springs act over the shorter way in space."""
        return wrapped(value) if self.angle else value

    def away(self, t, value, p):
        """Distance of the value from the law's reference value."""
        return value

    def windings(self, t, frames, p):
        """The angle that the law depends on, (1,): in space it is not known beyond half a turn."""
        away = self.away(t, self.coordinate(*frames), p)[None]
        return jnp.where(p["stiffness"] != 0, away, 0.0) if "stiffness" in p else away  # a damper alone needs no angle


@dataclass(frozen=True)
class JointSpring(OnCoordinate):
    """−k (a − a₀) − c ȧ, k (`function`) and a₀ (`free`) numbers or functions of time; with these it stores no energy.
    In space it must not be wound past half a turn from a₀."""

    free: Callable | None = None

    def away(self, t, value, p):
        return value - _now(self.free, "free", t, p)

    def effort(self, t, value, rate, p):
        return -_now(self.function, "stiffness", t, p) * self.gap(self.away(t, value, p)) - p["damping"] * rate

    def potential(self, t, frames, p):
        if self.function is not None or self.free is not None:
            return jnp.zeros(())
        return 0.5 * p["stiffness"] * self.gap(self.away(t, self.coordinate(*frames), p)) ** 2


@dataclass(frozen=True)
class BallSpring:
    """−k x − c ω on a ball, alike about all axes: x the rotation vector of j against i, ω their angular velocity; k a
    number or a function of time, with which it stores no energy."""

    stiffness: Callable | None = None

    def __call__(self, t, frames, p):
        i, j = frames
        torque = -_now(self.stiffness, "stiffness", t, p) * rotate(i.R, rotation_vector(i, j)) - p["damping"] * (
            j.w - i.w
        )
        return [(jnp.zeros(3), -torque), (jnp.zeros(3), torque)]

    def potential(self, t, frames, p):
        if self.stiffness is not None:
            return jnp.zeros(())
        x = rotation_vector(*frames)
        return 0.5 * p["stiffness"] * dot(x, x)

    def windings(self, t, frames, p):
        """The rotation vector: it jumps at half a turn."""
        x = rotation_vector(*frames)
        return x if self.stiffness is not None else jnp.where(p["stiffness"] != 0, x, 0.0)


@dataclass(frozen=True)
class Armature:
    """Inertia on a joint's rates ȧ = G u (a ball's: ω of j against i, along i's axes): T = ½ I ȧᵀȧ.

    Its part of the equations is Gᵀ I (G v̇ + Ġ u): Gᵀ I G belongs to the mass matrix, −Gᵀ I Ġu to the force.
    """

    coordinate: Callable | None  # None: a ball

    def rates(self, K, places: list, u: list, p):
        """ȧ, (r,), of the two bodies' velocities."""
        coordinate = self.coordinate
        twists = [K.twist(at, x) for at, x in zip(places, u, strict=True)]
        if coordinate is None:
            return back(places[0].R, twists[1].w - twists[0].w)
        moving = [K.rate(at, twist) for at, twist in zip(places, twists, strict=True)]
        return jax.jvp(lambda at: coordinate(*marker_frames(K.name, at, p)), (places,), (moving,))[1][None]

    def directions(self, K, places: list, p) -> list:
        """G, of each body (r, dv)."""
        zero = [jnp.zeros(K.dv) for _ in places]
        return jax.jacfwd(lambda u: self.rates(K, places, u, p))(zero)

    def generalised(self, K, t, places: list, u: list, p):
        """−Gᵀ I Ġu, the shares of the two bodies."""
        moving = [K.rate(at, K.twist(at, x)) for at, x in zip(places, u, strict=True)]
        bias = jax.jvp(lambda at: self.rates(K, at, u, p), (places,), (moving,))[1]
        return [-p["inertia"] * (bias @ G) for G in self.directions(K, places, p)]


class JointForce(OnCoordinate):
    """The user's effort(t, a, ȧ)."""

    def effort(self, t, value, rate, p):
        assert self.function is not None
        return jnp.reshape(jnp.asarray(self.function(t, value, rate, p), float), jnp.shape(value))


class Stop(OnCoordinate):
    """End stops k δ^e + c s(δ) δ̇, δ the overrun, s a quintic step over the first `depth`; it never pulls."""

    def effort(self, t, value, rate, p):
        total = jnp.zeros_like(value)
        for word, way in (("lower", 1.0), ("upper", -1.0)):
            if word in p:
                over, closing = way * (p[word] - value), -way * rate
                push = (
                    _power(over, p["exponent"]) * p["stiffness"] + p["damping"] * quintic(over / p["depth"]) * closing
                )
                total = total + way * jnp.maximum(push, 0.0)
        return total

    def potential(self, t, frames, p):
        value, total = self.coordinate(*frames), 0.0
        for word, way in (("lower", 1.0), ("upper", -1.0)):
            if word in p:
                e = p["exponent"] + 1
                total = total + p["stiffness"] * _power(way * (p[word] - value), e) / e
        return total


def _power(x, exponent):
    """x^exponent for x > 0, else 0, with a derivative that is finite everywhere."""
    inside = x > 0
    return jnp.where(inside, jnp.where(inside, x, 1.0) ** exponent, 0.0)


class Friction(OnCoordinate):
    """Viscous and regularised Coulomb friction with Stribeck's fall, for a given normal load."""

    dry = True

    def effort(self, t, value, rate, p):
        assert self.function is not None
        load = jnp.asarray(self.function(t, p), float) * p["radius"]
        return -_stribeck(rate, p) * load * jnp.tanh(rate / p["transition_speed"]) - p["viscous"] * rate


def _stribeck(rate, p):
    """The coefficient of friction at a speed."""
    return p["coulomb"] + (p["static"] - p["coulomb"]) * jnp.exp(-((rate / p["stribeck_speed"]) ** 2))


@dataclass(frozen=True)
class BearingFriction:
    """Friction by the joint's own load: c(v) N(w), w the joint's wrench, and −viscous · v as any other force.

    `coordinate` is the joint coordinate with friction, or None for a ball, whose slip is its angular velocity.
    `forces` and `torques` are the components of w that form the normal load N. The two parts are separate because N is
    only known with the reactions: `generalised` is the force without a load, `per_load` that of a unit load
    (`equations.py` combines them).
    """

    coordinate: Callable | None
    forces: tuple[int, ...]
    torques: tuple[int, ...]

    dry = True

    def generalised(self, K, t, places: list, u: list, p):
        """The viscous shares of the two bodies."""
        slip, transpose = self._slip(K, places, u, p)
        return transpose(-p["viscous"] * slip)[0]

    def per_load(self, K, places: list, u: list, p) -> list:
        """The shares of the two bodies for N = 1."""
        slip, transpose = self._slip(K, places, u, p)
        v_t = p["transition_speed"]
        if slip.ndim == 0:
            return transpose(-_stribeck(slip, p) * p["radius"] * jnp.tanh(slip / v_t))[0]
        speed = length_of(slip)
        along = jnp.where(speed > 0, jnp.tanh(speed / v_t) / jnp.where(speed > 0, speed, 1.0), 1.0 / v_t)
        return transpose(-_stribeck(speed, p) * p["radius"] * along * slip)[0]

    def _slip(self, K, places, u, p):
        """The sliding speed, and its transpose: efforts → shares."""
        coordinate = self.coordinate
        if coordinate is None:

            def rate(u):
                i, j = (K.twist(at, x) for at, x in zip(places, u, strict=True))
                return j.w - i.w
        else:
            _, along = jax.linearize(lambda at: coordinate(*marker_frames(K.name, at, p)), places)

            def rate(u):
                return along([K.rate(at, K.twist(at, x)) for at, x in zip(places, u, strict=True)])

        return jax.vjp(rate, u)

    def load(self, wrench: Array, p) -> Array:
        """N of a wrench on body j at marker j, along the joint's axes."""
        F = wrench[jnp.array(self.forces)]
        if "length" not in p:
            return length_of(F)
        # torque = length · (axis × lean): in the plane the axis is x, in space z
        M = wrench[jnp.array(self.torques)]
        lean = (M if len(self.torques) == 1 else jnp.stack([M[1], -M[0]])) / p["length"]
        return length_of(0.5 * F + lean) + length_of(0.5 * F - lean)


@dataclass(frozen=True)
class SlidingFriction(BearingFriction):
    """Friction of a contact that slides: μ N against the slip, N the push of the contact.

    `motion` are the rows that would hold the slip. `direction` in p is that of the slip at some instant of the part: in
    the plane its sign, which stays the same, in space a unit vector. There the slip is followed, so that the force is
    smooth also where the slip passes zero along that direction; `least` is the speed below which the direction counts.
    """

    motion: Callable

    def generalised(self, K, t, places: list, u: list, p):
        return [jnp.zeros(K.dv) for _ in places]

    def per_load(self, K, places: list, u: list, p) -> list:
        def rate(u):
            return self.motion(jnp.zeros(()), places, [K.twist(at, x) for at, x in zip(places, u, strict=True)], p)

        slip, transpose = jax.vjp(rate, u)
        along = p["direction"]
        if K.d == 3:
            turned = slip + p["least"] * along
            way = jnp.where(dot(turned, along) < 0, -1.0, 1.0)
            along = way * turned / jnp.maximum(length_of(turned), 1e-300)
        return transpose(-p["friction"] * along)[0]

    def load(self, wrench: Array, p) -> Array:
        """The push itself, with its sign: where it would pull the motion goes on smoothly until that is found."""
        return wrench[self.forces[0]]


class Sticking:
    """Dry friction that sticks on one `coordinate`. `side`, among its numbers, is the sign of the slip (0: it sticks,
    or that is not known): while it slips the law is smooth, −side · μ · N · radius − viscous · rate."""

    coordinate: Callable
    turns: bool  # whether it is an angle
    dry = True

    @staticmethod
    def coefficient(rate, p):
        """μ while it slips."""
        return _stribeck(rate, p) if "stribeck_speed" in p else p["coulomb"]


@dataclass(frozen=True)
class DryFriction(Sticking, OnCoordinate):
    """Dry friction that sticks, under a given load."""

    turns: bool = False

    def load_at(self, t, p):
        """N, not below zero: a load does not pull."""
        assert self.function is not None
        return jnp.maximum(jnp.asarray(self.function(t, p), float), 0.0)

    def effort(self, t, value, rate, p):
        mu = self.coefficient(rate, p)
        return -p["side"] * mu * self.load_at(t, p) * p["radius"] - p["viscous"] * rate


@dataclass(frozen=True)
class BearingDryFriction(Sticking, BearingFriction):
    """Dry friction that sticks, under the joint's own load."""

    turns: bool = False

    def per_load(self, K, places, u, p):
        slip, transpose = self._slip(K, places, u, p)
        return transpose(-p["side"] * jnp.broadcast_to(self.coefficient(slip, p), slip.shape) * p["radius"])[0]


def length_of(a: Array) -> Array:
    """|a|, with derivative zero at a = 0."""
    square = dot(a, a)
    there = square > 0
    return jnp.where(there, jnp.sqrt(jnp.where(there, square, 1.0)), 0.0)


class PDControl(OnCoordinate):
    """k (r − a) + c (ṙ − ȧ), r a function of time; angles over the shorter way in space."""

    def away(self, t, value, p):
        reference = self.function
        assert reference is not None
        return value - jnp.asarray(reference(t, p), float)

    def effort(self, t, value, rate, p):
        off, r_rate = jax.jvp(lambda t: self.away(t, value, p), (t,), (jnp.ones_like(t),))
        effort = -p["stiffness"] * self.gap(off) - p["damping"] * (r_rate + rate)
        return p["limit"] * jnp.tanh(effort / p["limit"]) if "limit" in p else effort


class Motor(OnCoordinate):
    """gear · (gain · f(t) − slope · gear · ȧ): a torque source (slope 0) or a direct-current motor."""

    def effort(self, t, value, rate, p):
        assert self.function is not None
        source = jnp.asarray(self.function(t, p), float)
        return p["gear"] * (p["gain"] * source - p["slope"] * p["gear"] * rate)


@dataclass(frozen=True)
class Bushing(Conjugate):
    """−K (x − x₀) − C ẋ on the relative displacement and rotation vector x of j against i, along marker i's axes."""

    def coordinates(self, i, j):
        d = back(i.R, j.p - i.p)
        if d.shape[0] == 2:
            return jnp.append(d, j.angle - i.angle)
        return jnp.concatenate([d, rotation_vector(i, j)])

    def effort(self, t, value, rate, p):
        return -p["stiffness"] @ (value - p["rest"]) - p["damping"] @ rate

    def potential(self, t, frames, p):
        x = self.coordinates(*frames) - p["rest"]
        return 0.5 * x @ p["stiffness"] @ x

    def windings(self, t, frames, p):
        """In space the rotation vector, which jumps at half a turn."""
        return jnp.where(jnp.any(p["stiffness"][:, 3:] != 0), rotation_vector(*frames), 0.0)


def rotation_vector(i: Frame, j: Frame):
    """The rotation vector of j against i along i's axes, below half a turn; smooth through zero."""
    B = jnp.sum(i.R[:, :, None] * j.R[:, None, :], axis=0)
    w = 0.5 * jnp.stack([B[2, 1] - B[1, 2], B[0, 2] - B[2, 0], B[1, 0] - B[0, 1]])  # axis · sin
    square, cosine = dot(w, w), 0.5 * (jnp.trace(B) - 1.0)
    small = (square < 1e-8) & (cosine > 0)
    sine = jnp.sqrt(jnp.where(small, 1.0, square))
    # angle/sin angle = 1 + sin²/6 + 3 sin⁴/40 + …
    factor = jnp.where(small, 1.0 + square / 6 + 3 * square**2 / 40, jnp.arctan2(sine, cosine) / sine)
    return factor * w


def angles_read(law, space: str) -> int:
    """How many angles a law depends on that are only known within half a turn."""
    if isinstance(law, JointSpring | JointForce | Stop | PDControl):
        return int(law.angle)
    return 3 if space == "space" and isinstance(law, BallSpring | Bushing) else 0
