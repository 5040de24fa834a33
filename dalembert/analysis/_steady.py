"""7 · analysis: whether a state is an equilibrium or a steady motion: only there do eigenvalues mean anything.

A state is steady if nothing accelerates, seen from axes that turn with the machine as a whole, and if that and the
coefficients of the linear equations are the same a moment later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.analysis._state_space import Asked, jacobians
from dalembert.model import rotation_matrix
from dalembert.systems import AbstractSystem, compiled

RANK = 1e-9
"""Singular values below this share of the largest one belong to dependent rows."""
STEADY = 1e-6
"""Share of a coordinate's natural acceleration below which it counts as steady: a state off an equilibrium by
a share δ of the machine's size accelerates by about δ times that, and its eigenvalues are off by about δ."""
NOISE = 1e-9
"""The same as a share of the largest natural acceleration of the machine: the rounding in all coordinates."""
ADVANCE = 0.3
"""How far the machine is moved, in radians or machine sizes, to test whether its motion is steady."""
MOST_TURNS = 4
"""Number of rotations of the machine as a whole that are tried."""


class Neighbourhood:
    """A state with its linear equations in machine sizes: displacements (δq, δv), their rates, the rows they keep."""

    def __init__(self, system: AbstractSystem, asked: Asked, t: float, q: np.ndarray, v: np.ndarray):
        self.system: Any = system
        self.asked, self.t, self.q, self.v = asked, t, q, v
        found = jacobians(system, asked, np.asarray(t, float), np.asarray(q), np.asarray(v))
        self.found = jax.tree_util.tree_map(np.asarray, found)
        scale, n, nz = np.asarray(system.scale()), system.n, len(asked.states)
        self.scale, self.n = scale, n
        self.spread = np.asarray(system.control.spread())[list(asked.states)] if nz else np.zeros(0)
        self.all = np.concatenate([scale, scale, self.spread])  # sizes of (δq, δv, δz)
        sized, f = self.all, self.found
        inside = len(sized)
        upper = np.concatenate([np.zeros((n, n)), np.eye(n), np.zeros((n, nz))], axis=1)
        self._rates = np.concatenate([upper, f.vdot[:, :inside], f.zdot[:, :inside]]) * sized / sized[:, None]
        self.in_sizes = f.y[:, :inside] * sized, f.y[:, inside:]  # what the outputs make of displacements and inputs
        pushes = np.concatenate([np.zeros((n, asked.width)), f.vdot[:, inside:], f.zdot[:, inside:]])
        self.pushes = pushes / sized[:, None]
        rows = np.zeros((len(f.held), inside))
        rows[: len(f.Phi), :n], rows[len(f.Phi) :, : 2 * n] = f.Phi, f.phi
        # rows that the joints of a tree satisfy by themselves change by rounding only: they say nothing of directions
        sizes, kept = (np.concatenate([x[: len(f.Phi)], x]) for x in (f.sizes, f.kept))
        self.rows, self.gap = rows * sized * (kept / sizes)[:, None], f.held * kept / sizes
        self.vdot, self.free, self.zdot = f.acceleration / scale, f.free / scale, f.rates / self.spread

    @property
    def speed(self) -> float:
        return float(np.max(np.abs(self.v) / self.scale, initial=0.0))

    def rates(self, turning: np.ndarray | None = None) -> np.ndarray:
        """∂(δq̇, δv̇)/∂(δq, δv), in axes that turn with the machine."""
        if turning is None:
            return self._rates
        out, n, W = self._rates.copy(), self.n, self.turned(turning)
        out[:n, :n] -= W
        out[n : 2 * n, n : 2 * n] -= W
        return out

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
        stiffness = (P @ self._rates @ P)[n : 2 * n, :n]
        return np.abs(self.free) + np.linalg.norm(stiffness, axis=1) + self.speed**2

    def bodies(self) -> list[_Body]:
        """Of an absolute system: what each body does, as seen in space."""
        own = np.asarray(self.system.split(self.q)[0])
        q, v, a = (x.reshape(len(self.system.body_names), -1) for x in (own, self.v, self.vdot * self.scale))
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
        return self.vdot if turning is None else self.vdot - self.turned(turning) @ self.v / self.scale

    def turned(self, turning: np.ndarray) -> np.ndarray:
        """The n × n matrix of the rates by which all displacements turn with the machine."""
        return self._axes(lambda body: turning, lambda body: body.R.T @ turning)

    def later(self, dt: float, turning: np.ndarray | None) -> tuple[Neighbourhood, np.ndarray]:
        """The state after a time if the motion is steady, and the rotation back to the present axes."""
        system = self.system
        if system.bodies is not system:
            q = np.asarray(_advanced(system, jnp.asarray(self.q), jnp.asarray(self.v), jnp.asarray(dt)))
            return Neighbourhood(system, self.asked, self.t + dt, q, self.v), np.eye(len(self.all))
        Omega = np.zeros(3) if turning is None else turning
        whole = _turn(dt * Omega)
        own, states = map(np.asarray, system.split(self.q))
        q, v = (x.reshape(len(system.body_names), -1).copy() for x in (own, self.v))
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
        whole, n = np.eye(len(self.all)), self.n
        whole[:n, :n] = whole[n : 2 * n, n : 2 * n] = back
        q = np.concatenate([q.ravel(), states])
        return Neighbourhood(system, self.asked, self.t + dt, q, v.ravel()), whole

    def worst(self, accelerations: np.ndarray, shares: np.ndarray) -> str:
        """The coordinate that is least steady, and its acceleration, as text."""
        system = self.system
        k = int(np.argmax(shares))
        value = f"{accelerations[k] * self.scale[k]:.3g}"
        return f"{system.velocity_in_words(k)} accelerates by {value} a second squared"


def steadiness(here: Neighbourhood, turning: np.ndarray | None = None) -> tuple[np.ndarray | None, str]:
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
    moving = _moving_state(here)
    if moving:
        return None, moving
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


def _moving_state(here: Neighbourhood) -> str:
    """The state of a controller that does not stand still, in words; "" where all do."""
    if not len(here.zdot):
        return ""
    rows = here.found.zdot[:, : len(here.all)] * here.all / here.spread[:, None]
    natural = np.linalg.norm(rows, axis=1)
    over = np.abs(here.zdot) / (STEADY * natural + NOISE * np.max(natural, initial=0.0) + 1e-300)
    if np.all(over <= 1.0):
        return ""
    k = int(np.argmax(over))
    name, rate = here.system.control.labels[here.asked.states[k]], here.found.rates[k]
    return (
        f"it is neither at rest nor in steady motion; state '{name}' of a controller changes by {rate:.3g} a second. "
        "Start it where it stands still (states=)."
    )


def unsteady_channels(here: Neighbourhood, turning: np.ndarray | None) -> tuple[list[int], list[int]]:
    """Inputs and outputs (by number) whose coefficients are not constant in this motion: a place in fixed axes, seen
    of a machine that turns as a whole."""
    if not here.asked.width and not here.asked.outputs:
        return [], []
    rate = max(here.speed, np.sqrt(np.max(here.natural(), initial=0.0)))
    there, back = here.later(ADVANCE / (rate if rate > 0 else 1.0), turning)
    basis = here.basis()
    pushed, pushed_there = basis.T @ here.pushes, basis.T @ back @ there.pushes
    C, C_there = here.in_sizes[0] @ basis, there.in_sizes[0] @ back.T @ basis
    parts = [(pushed.T, pushed_there.T), (C, C_there), (here.in_sizes[1], there.in_sizes[1])]
    over = []
    for now, later in parts:
        size = np.linalg.norm(now, axis=1)
        change = np.max(np.abs(later - now), axis=1, initial=0.0)
        over.append(change > 10 * STEADY * size + NOISE * np.max(size, initial=0.0))
    inputs, outputs = np.flatnonzero(over[0]), np.flatnonzero(over[1] | over[2])
    return inputs.tolist(), outputs.tolist()


def _kept(instant: Neighbourhood, turning: np.ndarray | None) -> np.ndarray:
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
