"""7 · analysis: the linear motion near a state: small motions about an equilibrium or about a steady motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import Array
from dalembert.equations import assemble, residuals
from dalembert.formulations import Proximal
from dalembert.model import Model, rotation_matrix
from dalembert.reactions import Instant, decide_loads
from dalembert.stabilise import State, consistent_state
from dalembert.systems import AbstractSystem, build, compiled, compiled_quickly

RANK = 1e-9
"""Singular values below this share of the largest one belong to dependent rows."""
STEADY = 1e-6
"""Share of a coordinate's natural acceleration below which it counts as steady: a state off an equilibrium by
a share δ of the machine's size accelerates by about δ times that, and its eigenvalues are off by about δ."""
NOISE = 1e-9
"""The same as a share of the largest natural acceleration of the machine: the rounding in all coordinates."""
ADVANCE = 0.3
"""How far the machine is moved, in radians or machine sizes, to test whether its motion is steady."""


@dataclass(frozen=True)
class Linearisation:
    """ẋ = A x for small motions that keep the constraints; x = basisᵀ (δq, δv).

    Columns of `basis` are orthonormal displacements (δq, δv) in machine sizes; δq has the dimension of v. `steady`:
    whether the state is an equilibrium or a steady motion; where it is not (`anywhere=True`), `remark` states what
    accelerates, and the eigenvalues are those of an instant only, not of a motion. `turning` is the rate at which a
    steady motion turns as a whole; displacements are then seen in axes that turn with it.
    """

    A: np.ndarray
    basis: np.ndarray
    state: State
    steady: bool = True
    remark: str = ""
    turning: np.ndarray | None = None

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of A, in 1/s, by rising real part.

        Displacements that change nothing (where a vehicle stands) make zeros that belong to chains (how fast it goes):
        rounding would spread them. They are removed first, null space by null space [Golub, Wilkinson 1976].
        """
        A, zeros = self.A, 0
        while len(A):
            _, sizes, vectors = np.linalg.svd(A)
            rank = int(np.sum(sizes > RANK * max(np.max(sizes), 1e-300)))
            if rank == len(A):
                break
            across = vectors[:rank].T  # across the null space
            A, zeros = across.T @ A @ across, zeros + len(A) - rank
        return np.sort_complex(np.concatenate([np.linalg.eigvals(A), np.zeros(zeros, complex)]))


MOST_TURNS = 4
"""Number of rotations of the machine as a whole that are tried."""


def linearise(system: AbstractSystem | Model, state=None, *, t: float = 0.0, anywhere: bool = False) -> Linearisation:
    """The linear equations of small motions about a state of equilibrium or of steady motion.

    Displacements are followed in frames that go with each body but do not spin with it: δṙ = δv, δθ̇ = δω,
    δω̇ = ∂ω̇ + ω × δω (components in the body's axes at this instant). So a steady motion in which bodies only spin
    about axes of symmetry (the wheels of a bicycle) has constant coefficients, and its eigenvalues are those
    of the motion. Where the machine turns as a whole (a conical pendulum, a disc rolling in a circle), v̇ = Ω × v, the
    frames turn with Ω; a displacement that stays where it is then shows as ±iΩ. Holonomic rows limit δq, all rows
    limit δv. Dense: one Jacobian of the accelerations.

    A state that accelerates, or whose motion is not steady, has no meaningful eigenvalues: it is
    refused, with the name of what accelerates. `anywhere=True` linearises there all the same, and the result states it.
    In joint coordinates with ball joints or free bodies, displacements are those of the bodies.

    **Arguments**: `system` a model or a system; `state`, `t`: where (default: the start, closed).

    **Returns** a `Linearisation`: matrices of the admissible motions, frequencies, damping, modes.
    """
    if isinstance(system, Model):
        system = build(system)
    if system.control.size:
        raise DalembertError(
            f"'{system.name}' cannot be linearised: its controllers have states of their own "
            f"({', '.join(system.control.labels[:4])}), which move besides the machine. Controllers without states can."
        )
    q, v = consistent_state(system, state, t=t)
    system = decide_loads(system, (q, v), t=t)
    if system.displaces_bodies:
        q, v = system.lift(jnp.asarray(q), jnp.asarray(v))
        system = system.machine
    first = Instant(system, t, State(q, v))
    if first.dependence.rank < first.generic.dependence.rank:
        raise DalembertError(
            f"'{system.name}' cannot be linearised here: this is a singular position, where its motion may branch. "
            "Give a state beside it."
        )
    here = _Instant(system, float(t), np.asarray(q), np.asarray(v))
    turning, remark = _steadiness(here)
    for whole in here.turns() if remark else ():  # what turns about an axis through its bodies accelerates nothing
        again = _steadiness(here, whole)
        if not again[1]:
            turning, remark = again
            break
    if remark and not anywhere:
        raise DalembertError(
            f"'{system.name}' cannot be linearised here: {remark} Give a state of equilibrium or of steady motion, or "
            "say anywhere=True to linearise at this instant all the same."
        )
    basis = here.basis()
    return Linearisation(
        basis.T @ here.rates(turning) @ basis, basis, State(here.q, here.v), not remark, remark, turning
    )


class _Instant:
    """A state with its linear equations in machine sizes: displacements (δq, δv), their rates, the rows they keep."""

    def __init__(self, system: AbstractSystem, t: float, q: np.ndarray, v: np.ndarray):
        self.system: Any = system
        self.t, self.q, self.v = t, q, v
        found = _jacobians(system, jnp.asarray(t, float), jnp.asarray(q), jnp.asarray(v))
        scale = np.asarray(system.scale())
        self.scale, both = scale, np.concatenate([scale, scale])
        self._rates = np.asarray(found.rates) * both / both[:, None]
        rows = np.asarray(found.rows) * both
        self.rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        self.vdot = np.asarray(found.vdot) / scale
        self.free = np.asarray(found.free) / scale
        self.gap = np.asarray(found.held) / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)

    @property
    def speed(self) -> float:
        return float(np.max(np.abs(self.v) / self.scale, initial=0.0))

    def rates(self, turning: np.ndarray | None = None) -> np.ndarray:
        """∂(δq̇, δv̇)/∂(δq, δv), in axes that turn with the machine."""
        return self._rates if turning is None else self._rates - np.kron(np.eye(2), self._turned(turning))

    def basis(self) -> np.ndarray:
        """Displacements that keep the rows, as orthonormal columns."""
        if not len(self.rows):
            return np.eye(self.rows.shape[1])
        _, sizes, vectors = np.linalg.svd(self.rows)
        return vectors[int(np.sum(sizes > RANK * np.max(sizes, initial=1e-300))) :].T

    def natural(self) -> np.ndarray:
        """For each coordinate the acceleration due to its loads alone, a displacement of its own size, or rotation."""
        n = len(self.v)
        basis = self.basis()
        P = basis @ basis.T
        stiffness = (P @ self._rates @ P)[n:, :n]
        return np.abs(self.free) + np.linalg.norm(stiffness, axis=1) + self.speed**2

    def bodies(self) -> list[_Body]:
        """Of an absolute system: what each body does, as seen in space."""
        q, v, a = (x.reshape(len(self.system.body_names), -1) for x in (self.q, self.v, self.vdot * self.scale))
        every = zip(q, v, a, strict=True)
        if self.system.space == "space":
            return [_Body(x[:3], rotation_matrix(x[3:]), u[:3], u[3:], w[:3], w[3:]) for x, u, w in every]
        flat = lambda x: np.array([x[0], x[1], 0.0])  # noqa: E731
        about = lambda x: np.array([0.0, 0.0, x[2]])  # noqa: E731
        return [_Body(flat(x), _turn(about(x)), flat(u), about(u), flat(w), about(w)) for x, u, w in every]

    def _axes(self, of_lengths, of_angles, make=None) -> np.ndarray:
        """The n × n matrix that acts on every body's translations and rotations: cross products, or rotations."""
        make = _skew if make is None else make
        space, dv = self.system.space == "space", self.system.dv
        out = np.zeros((len(self.v), len(self.v)))
        for k, body in enumerate(self.bodies()):
            block = np.eye(dv) if make is _turn else np.zeros((dv, dv))
            d = 3 if space else 2
            block[:d, :d] = make(of_lengths(body))[:d, :d]
            if space:
                block[3:, 3:] = make(of_angles(body))
            out[dv * k : dv * k + dv, dv * k : dv * k + dv] = block
        return out

    def turning(self) -> np.ndarray:
        """Ω with v̇ = Ω × v and ω̇ = Ω × ω for all bodies, as nearly as there is one; the least of them."""
        size = float(self.system.size)
        G, g = [], []
        for b in self.bodies():
            G += [-_skew(b.v) / size, -_skew(b.w) @ b.R.T]
            g += [b.vdot / size, b.wdot]
        return np.linalg.lstsq(np.concatenate(G), np.concatenate(g), rcond=1e-6)[0]

    def turns(self) -> list[np.ndarray]:
        """The angular velocities of the bodies, each once: the machine may turn as a whole with one of them."""
        found: list[np.ndarray] = []
        if self.system.bodies is not self.system:
            return found
        for body in self.bodies():
            w = body.R @ body.w
            if np.linalg.norm(w) > STEADY * self.speed and all(
                np.max(np.abs(w - x)) > STEADY * self.speed for x in found
            ):
                found.append(w)
        return found[:MOST_TURNS]

    def apart(self, turning: np.ndarray | None) -> np.ndarray:
        """The accelerations (in machine sizes) that are left in axes that turn with the machine."""
        return self.vdot if turning is None else self.vdot - self._turned(turning) @ self.v / self.scale

    def _turned(self, turning: np.ndarray) -> np.ndarray:
        """The n × n matrix of the rates by which all displacements turn with the machine."""
        return self._axes(lambda body: turning, lambda body: body.R.T @ turning)

    def later(self, dt: float, turning: np.ndarray | None) -> tuple[_Instant, np.ndarray]:
        """The state after a time if the motion is steady, and the rotation back to the present axes."""
        system = self.system
        if system.bodies is not system:
            q = np.asarray(_advanced(system, jnp.asarray(self.q), jnp.asarray(self.v), jnp.asarray(dt)))
            return _Instant(system, self.t + dt, q, self.v), np.eye(2 * len(self.v))
        Omega = np.zeros(3) if turning is None else turning
        whole = _turn(dt * Omega)
        q, v = self.q.reshape(len(system.body_names), -1).copy(), self.v.reshape(len(system.body_names), -1).copy()
        for k, b in enumerate(self.bodies()):
            d = 3 if system.space == "space" else 2
            q[k, :d] = (b.p + dt * _averaged(dt * Omega) @ b.v)[:d]
            v[k, :d] = (whole @ b.v)[:d]
            if d == 2:
                q[k, 2] += dt * b.w[2]
                continue
            spin = dt * (b.w - b.R.T @ Omega)
            q[k, 3:] = _quaternion_product(_quaternion(dt * Omega), _quaternion_product(q[k, 3:], _quaternion(spin)))
            v[k, 3:] = _turn(-spin) @ b.w
        back = self._axes(lambda b: -dt * Omega, lambda b: dt * (b.w - b.R.T @ Omega), _turn)
        return _Instant(system, self.t + dt, q.ravel(), v.ravel()), np.kron(np.eye(2), back)

    def worst(self, accelerations: np.ndarray, shares: np.ndarray) -> str:
        """The coordinate that is least steady, and its acceleration, as text."""
        system = self.system
        k = int(np.argmax(shares))
        value = f"{accelerations[k] * self.scale[k]:.3g}"
        return f"{system.velocity_in_words(k)} accelerates by {value} a second squared"


def _steadiness(here: _Instant, turning: np.ndarray | None = None) -> tuple[np.ndarray | None, str]:
    """(Ω, "") for an equilibrium or a steady motion, else (None, what is not steady); Ω as given, or as it is found."""
    natural = here.natural()
    allowed = STEADY * natural + NOISE * np.max(natural, initial=0.0)
    if turning is None and np.any(np.abs(here.vdot) > allowed) and here.system.bodies is here.system and here.speed > 0:
        turning = here.turning()
    apart = here.apart(turning)
    if np.any(np.abs(apart) > allowed):
        # in turning axes a swinging body looks as if it stood still: name what is seen from outside
        seen = here.worst(here.vdot, np.abs(here.vdot) / np.maximum(allowed, 1e-300))
        return None, f"it is neither at rest nor in steady motion; {seen}."
    # steady at this instant: it must stay so
    rate = max(here.speed, np.sqrt(np.max(natural, initial=0.0)))
    dt = ADVANCE / (rate if rate > 0 else 1.0)
    there, back = here.later(dt, turning)
    after = f"it is not in steady motion: {dt:.2g} s later"
    still = there.apart(turning)
    if np.any(np.abs(still) > 10 * allowed):
        return None, f"{after} {there.worst(still, np.abs(still) / np.maximum(allowed, 1e-300))}."
    if np.max(np.abs(there.gap), initial=0.0) > 10 * STEADY * max(1.0, here.speed):
        return None, f"{after} its joints would be open."
    rates, rates_there = (_kept(i, turning) for i in (here, there))
    change = np.abs(back @ rates_there @ back.T - rates)
    rows = np.linalg.norm(rates, axis=1)
    if np.any(np.max(change, axis=1, initial=0.0) > 10 * STEADY * rows + NOISE * np.max(rows, initial=0.0)):
        return None, f"{after} the coefficients of its linear equations are others."
    return turning, ""


def _kept(instant: _Instant, turning: np.ndarray | None) -> np.ndarray:
    """The rates of the displacements that keep the rows, in all coordinates: the same in any basis of them."""
    basis = instant.basis()
    P = basis @ basis.T
    return P @ instant.rates(turning) @ P


class _Body(NamedTuple):
    """A body in space: v and v̇ along the world's axes, ω and ω̇ along its own."""

    p: np.ndarray
    R: np.ndarray
    v: np.ndarray
    w: np.ndarray
    vdot: np.ndarray
    wdot: np.ndarray


class _Jacobians(NamedTuple):
    rates: jax.Array
    rows: jax.Array
    vdot: Array
    free: Array  # the accelerations without constraints
    held: jax.Array


@compiled_quickly
def _jacobians(system: AbstractSystem, t, q, v) -> _Jacobians:
    """∂(δq̇, δv̇)/∂(δq, δv) and the rows that (δq, δv) must keep to zero; accelerations and residuals here."""
    n = system.n

    def acceleration(d):
        moved = system.retract(q, d[:n])
        equations = assemble(system, t, moved, v + d[n:])
        return Proximal().solve(equations).vdot, equations.mass.solve(equations.h)

    def held(d):
        Phi, phi = residuals(system, t, system.retract(q, d[:n]), v + d[n:])
        return jnp.concatenate([Phi, phi])

    zero = jnp.zeros(2 * n)
    vdot, free = acceleration(zero)
    lower = jax.jacfwd(lambda d: acceleration(d)[0])(zero)
    spin = system.spin_terms(v)
    if spin is not None:
        lower = lower.at[:, n:].add(spin)
    upper = jnp.concatenate([jnp.zeros((n, n)), jnp.eye(n)], axis=1)
    return _Jacobians(jnp.concatenate([upper, lower]), jax.jacfwd(held)(zero), vdot, free, held(zero))


@compiled
def _advanced(system: AbstractSystem, q, v, dt):
    """q after a time at constant v, by 16 steps of the classical Runge–Kutta method."""
    h = dt / 16

    def step(_, q):
        k1 = system.qdot(q, v)
        k2 = system.qdot(q + h / 2 * k1, v)
        k3 = system.qdot(q + h / 2 * k2, v)
        k4 = system.qdot(q + h * k3, v)
        return q + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return jax.lax.fori_loop(0, 16, step, q)


def _skew(x: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def _turn(x: np.ndarray) -> np.ndarray:
    """The rotation by a vector of angle (Rodrigues)."""
    return rotation_matrix(_quaternion(x))


def _averaged(x: np.ndarray) -> np.ndarray:
    """∫₀¹ of the rotation by s x over s."""
    K, angle = _skew(x), np.linalg.norm(x)
    if angle < 1e-4:
        return np.eye(3) + K / 2 + K @ K / 6
    return np.eye(3) + (1 - np.cos(angle)) / angle**2 * K + (angle - np.sin(angle)) / angle**3 * K @ K


def _quaternion(x: np.ndarray) -> np.ndarray:
    half = 0.5 * np.linalg.norm(x)
    return np.concatenate([[np.cos(half)], 0.5 * np.sinc(half / np.pi) * x])


def _quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    w = a[0] * b[0] - a[1:] @ b[1:]
    return np.concatenate([[w], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])])
