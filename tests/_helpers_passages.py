"""Machines of one freedom that pass singular positions, each with its motion by hand.

With the angle θ of a crank as the only coordinate, T = ½ J(θ) θ̇² and V(θ) are written down here in closed form; SciPy's
DOP853 integrates J θ̈ + ½ J′ θ̇² + V′ = 0 to 1e-13. Nothing in it becomes singular where the machine does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
from scipy.integrate import solve_ivp

import dalembert as da

G = 9.81


@dataclass(frozen=True)
class Passing:
    """A machine, its crank (a body), and J, J′, V′ as functions of the crank's angle."""

    model: da.Model
    crank: str
    inertia: Callable[[float], tuple[float, float]]
    torque: Callable[[float], float]
    start: tuple[float, float]

    def by_hand(self, times: np.ndarray) -> np.ndarray:
        """(θ, θ̇) at the times."""

        def rate(t, y):
            J, dJ = self.inertia(y[0])
            return y[1], -(0.5 * dJ * y[1] ** 2 + self.torque(y[0])) / J

        span = (0.0, float(times[-1]))
        return solve_ivp(rate, span, self.start, "DOP853", times, rtol=1e-13, atol=1e-14, max_step=0.02).y


def parallelogram(
    masses=(1.0, 3.0, 1.0), theta: float = 0.5, omega: float = -5.0, away=(0.0, 0.0), units=(1.0, 1.0)
) -> Passing:
    """Two cranks of 1 m, pins 2 m apart, and a coupler; singular with all in line. The first pin is at `away`. `units`:
    how many of the model's units of length and of mass are 1 m and 1 kg."""
    length, mass = units
    model = da.Model("parallelogram", gravity=(0, -G * length))
    c, s = math.cos(theta), math.sin(theta)
    speed = omega * length
    turning = {"angle": theta, "velocity": (-s * speed / 2, c * speed / 2), "angular_velocity": omega}

    def at(x, y):
        return length * (x + away[0]), length * (y + away[1])

    def body(name, m, moment, x, y, **moving):
        return model.body(name, mass=m * mass, inertia=m * moment * mass * length**2, position=at(x, y), **moving)

    a = body("a", masses[0], 1 / 12, c / 2, s / 2, **turning)
    b = body("b", masses[1], 1 / 12, 2 + c / 2, s / 2, **turning)
    k = body("k", masses[2], 1 / 3, 1 + c, s, velocity=(-s * speed, c * speed))
    model.revolute("A", model.ground, a, at=at(0, 0))
    model.revolute("B", model.ground, b, at=at(2, 0))
    model.revolute("P", a, k, at=at(c, s))
    model.revolute("Q", k, b, at=at(2 + c, s))
    m1, m2, mc = masses
    J, weight = (m1 + m2) / 3 + mc, G * ((m1 + m2) / 2 + mc)
    return Passing(model, "a", lambda th: (J, 0.0), lambda th: weight * math.cos(th), (theta, omega))


def n_four_bar(N: int, omega: float = -5.0, theta: float = 1.2) -> Passing:
    """Cranks of 1, 2, …, N + 1 kg side by side: N rows are lost at once in the line."""
    model = da.Model("unequal", gravity=(0, -G))
    c, s = math.cos(theta), math.sin(theta)
    turning = {"angle": theta, "velocity": (-s * omega / 2, c * omega / 2), "angular_velocity": omega}
    masses = [1.0 + i for i in range(N + 1)]
    cranks = [
        model.body(f"crank{i}", mass=m, inertia=m / 12, position=(2 * i + c / 2, s / 2), **turning)
        for i, m in enumerate(masses)
    ]
    for i, crank in enumerate(cranks):
        model.revolute(f"foot{i}", model.ground, crank, at=(2 * i, 0))
    for i in range(N):
        at = (2 * i + 1 + c, s)
        bar = model.body(f"bar{i}", mass=1.0, inertia=1 / 3, position=at, velocity=(-s * omega, c * omega))
        model.revolute(f"left{i}", cranks[i], bar, at=(2 * i + c, s))
        model.revolute(f"right{i}", bar, cranks[i + 1], at=(2 * i + 2 + c, s))
    J, weight = sum(masses) / 3 + N, G * (sum(masses) / 2 + N)
    return Passing(model, "crank0", lambda th: (J, 0.0), lambda th: weight * math.cos(th), (theta, omega))


def slider_crank(theta: float = 0.7, omega: float = 6.0) -> Passing:
    """Crank and rod of 1 m: with the crank upright the rod lies on it, and the slider could stay while both turn."""
    model = da.Model("equal links", gravity=(0, -G))
    m1, m2, m3 = 1.0, 1.5, 2.0
    c, s = math.cos(theta), math.sin(theta)
    crank = model.body(
        "crank", mass=m1, inertia=m1 / 12, position=(c / 2, s / 2), angle=theta,
        velocity=(-s * omega / 2, c * omega / 2), angular_velocity=omega,
    )  # fmt: skip
    link = model.body(
        "rod", mass=m2, inertia=m2 / 12, position=(1.5 * c, 0.5 * s), angle=-theta,
        velocity=(-1.5 * s * omega, 0.5 * c * omega), angular_velocity=-omega,
    )  # fmt: skip
    slider = model.body("slider", mass=m3, inertia=0.02, position=(2 * c, 0), velocity=(-2 * s * omega, 0))
    model.revolute("main", model.ground, crank, at=(0, 0))
    model.revolute("big_end", crank, link, at=(c, s))
    model.revolute("small_end", link, slider, at=(2 * c, 0))
    model.prismatic("guide", model.ground, slider, at=(2 * c, 0), axis=(1, 0))

    def inertia(th):
        sine, cosine = math.sin(th), math.cos(th)
        J = m1 / 3 + m2 / 12 + m2 * (2.25 * sine**2 + 0.25 * cosine**2) + 4 * m3 * sine**2
        return J, (4 * m2 + 8 * m3) * sine * cosine

    return Passing(model, "crank", inertia, lambda th: G * (m1 + m2) / 2 * math.cos(th), (theta, omega))


@dataclass(frozen=True)
class Turning:
    """A machine whose points are all (a + b cos θ, d + e sin θ), for its reactions by Newton and Euler.

    `bodies`: name → (b, e, turns, mass, inertia) of centres of mass, and by how much of θ a body turns; `pins`: joint →
    (body i, body j, (a, b, d, e)); of a `guide` along x only a force along y and a torque are unknown.
    """

    bodies: dict[str, tuple[float, float, int, float, float]]
    pins: dict[str, tuple[str, str, tuple[float, float, float, float]]]
    centres: dict[str, tuple[float, float]]
    guide: str = ""

    def reactions(self, theta: float, omega: float) -> dict[str, tuple[float, float]]:
        """Force on body j of each joint, in 80 digits: m a and I α of every body are those of the only freedom."""
        with mpmath.workdps(80):
            c, s, w = (
                f(mpmath.mpf(float(theta))) for f in (mpmath.cos, mpmath.sin, lambda x: mpmath.mpf(float(omega)))
            )
            g, whole = mpmath.mpf(G), [tuple(map(mpmath.mpf, x)) for x in self.bodies.values()]
            J = sum(m * (b * b * s * s + e * e * c * c) + I * turns * turns for b, e, turns, m, I in whole)
            slope = sum(2 * m * (b * b - e * e) * s * c for b, e, _, m, _ in whole)
            alpha = -(slope / 2 * w * w + g * c * sum(m * e for _, e, _, m, _ in whole)) / J
            first, second = -s * alpha - c * w * w, c * alpha - s * w * w  # of cos θ and of sin θ, twice by time
            names, columns = list(self.bodies), [(j, k) for j in self.pins for k in range(2)]
            A, rhs = mpmath.zeros(3 * len(names), len(columns)), mpmath.zeros(3 * len(names), 1)
            for n, (b, e, turns, m, I) in enumerate(whole):
                rhs[3 * n], rhs[3 * n + 1], rhs[3 * n + 2] = m * b * first, m * (e * second + g), I * turns * alpha
            for k, (joint, component) in enumerate(columns):
                i, j, (pa, pb, pd, pe) = self.pins[joint]
                for sign, body in ((-1, i), (1, j)):
                    if body == "ground":
                        continue
                    n, (b, e, *_) = names.index(body), whole[names.index(body)]
                    if joint == self.guide and component == 0:  # its torque, in place of a force along x
                        A[3 * n + 2, k] = sign
                        continue
                    x, y = self.centres[body]
                    arm = (pa - x + (pb - b) * c, pd - y + (pe - e) * s)
                    A[3 * n + component, k] = sign
                    A[3 * n + 2, k] = sign * (arm[0] if component else -arm[1])
            # one equation more than unknowns: they agree, as the acceleration is the right one
            z = mpmath.lu_solve(A, rhs)  # by least squares
            found = {joint: [float(z[2 * k]), float(z[2 * k + 1])] for k, joint in enumerate(self.pins)}
        if self.guide:
            found[self.guide][0] = 0.0
        return {joint: (x, y) for joint, (x, y) in found.items()}


def turning_n_four_bar(N: int) -> Turning:
    """`n_four_bar` for its reactions."""
    bodies = {f"crank{i}": (0.5, 0.5, 1, 1.0 + i, (1.0 + i) / 12) for i in range(N + 1)}
    bodies |= {f"bar{i}": (1.0, 1.0, 0, 1.0, 1 / 3) for i in range(N)}
    centres = {f"crank{i}": (2.0 * i, 0.0) for i in range(N + 1)} | {f"bar{i}": (2.0 * i + 1, 0.0) for i in range(N)}
    pins = {f"foot{i}": ("ground", f"crank{i}", (2.0 * i, 0.0, 0.0, 0.0)) for i in range(N + 1)}
    for i in range(N):
        pins[f"left{i}"] = (f"crank{i}", f"bar{i}", (2.0 * i, 1.0, 0.0, 1.0))
        pins[f"right{i}"] = (f"bar{i}", f"crank{i + 1}", (2.0 * i + 2, 1.0, 0.0, 1.0))
    return Turning(bodies, pins, centres)


def turning_slider_crank() -> Turning:
    """`slider_crank` for its reactions."""
    bodies = {
        "crank": (0.5, 0.5, 1, 1.0, 1.0 / 12),
        "rod": (1.5, 0.5, -1, 1.5, 1.5 / 12),
        "slider": (2.0, 0.0, 0, 2.0, 0.02),
    }
    pins = {
        "main": ("ground", "crank", (0.0, 0.0, 0.0, 0.0)),
        "big_end": ("crank", "rod", (0.0, 1.0, 0.0, 1.0)),
        "small_end": ("rod", "slider", (0.0, 2.0, 0.0, 0.0)),
        "guide": ("ground", "slider", (0.0, 2.0, 0.0, 0.0)),
    }
    return Turning(bodies, pins, dict.fromkeys(bodies, (0.0, 0.0)), "guide")


def change_point(masses=(1.0, 1.5, 2.0), theta: float = 2.0, omega: float = 6.0) -> Passing:
    """Crank 1 m, coupler and rocker 2 m, pins 3 m apart: all in line at θ = π, where the coupler passes to the other
    side of the crank. J and its slope by automatic differentiation of the closed form of the poses."""
    foot = jnp.array([3.0, 0.0])

    def poses(th):
        pin = jnp.array([jnp.cos(th), jnp.sin(th)])
        across = jnp.array([pin[1], 3.0 - pin[0]]) / jnp.sqrt(10 - 6 * jnp.cos(th))
        knee = (pin + foot) / 2 + jnp.sqrt(3.0) * jnp.cos(th / 2) * across
        bars = ((jnp.zeros(2), pin), (pin, knee), (foot, knee))
        angles = [th, *(jnp.arctan2(b[1] - a[1], b[0] - a[0]) for a, b in bars[1:])]
        return jnp.stack([jnp.append((a + b) / 2, angle) for (a, b), angle in zip(bars, angles, strict=True)]), knee

    lengths = np.array([1.0, 2.0, 2.0])
    M = np.stack([masses, masses, np.asarray(masses) * lengths**2 / 12], axis=1)
    slope = jax.jacfwd(lambda th: poses(th)[0])
    inertia = jax.jit(lambda th: jnp.sum(M * slope(th) ** 2))
    torque = jax.jit(jax.grad(lambda th: G * jnp.sum(jnp.asarray(masses) * poses(th)[0][:, 1])))
    both = jax.jit(jax.value_and_grad(inertia))
    (at, knee), moving = poses(theta), omega * slope(theta)
    model, names = da.Model("change point", gravity=(0, -G)), ("crank", "coupler", "rocker")
    crank, coupler, rocker = (
        model.body(
            name, mass=m, inertia=J, position=tuple(x[:2]), angle=float(x[2]), velocity=tuple(v[:2]),
            angular_velocity=float(v[2]),
        )
        for name, m, J, x, v in zip(names, masses, M[:, 2], np.asarray(at), np.asarray(moving), strict=True)
    )  # fmt: skip
    model.revolute("A", model.ground, crank, at=(0, 0))
    model.revolute("B", crank, coupler, at=(math.cos(theta), math.sin(theta)))
    model.revolute("C", coupler, rocker, at=tuple(np.asarray(knee)))
    model.revolute("D", model.ground, rocker, at=(3, 0))
    return Passing(model, "crank", lambda th: tuple(map(float, both(th))), lambda th: float(torque(th)), (theta, omega))


def bennett(theta: float = 2.2) -> Passing:
    """The built-in loop of four skew revolutes, at rest at θ; its rows are dependent everywhere, with one rank.

    With the fourth link as the ground, link 1 turns by θ about z, and tan ½θ tan ½φ = sin ½(β+α)/sin ½(β−α)."""
    a, alpha, beta, m, across = 1.0, math.pi / 6, 4 * math.pi / 9, 1.0, 0.05
    b, ratio = a * math.sin(beta) / math.sin(alpha), math.sin((beta + alpha) / 2) / math.sin((beta - alpha) / 2)

    def turn(angle, i, j):
        c, s = jnp.cos(angle), jnp.sin(angle)
        return jnp.eye(3).at[jnp.array([i, i, j, j]), jnp.array([i, j, i, j])].set(jnp.array([c, -s, s, c]))

    def poses(th):
        phi, R, p, out = 2 * jnp.arctan2(ratio * jnp.cos(th / 2), jnp.sin(th / 2)), jnp.eye(3), jnp.zeros(3), []
        for angle, length, twist in ((th, a, alpha), (phi, b, beta), (-th, a, alpha)):
            R = R @ turn(angle, 0, 1)
            out.append((p + length / 2 * R[:, 0], R))
            p, R = p + length * R[:, 0], R @ turn(twist, 1, 2)
        return out

    @jax.jit
    def inertia(th):
        J = 0.0
        for length, (_, R), (dc, dR) in zip((a, b, a), poses(th), jax.jacfwd(poses)(th), strict=True):
            about, along = m * (length**2 + across**2) / 12, m * across**2 / 6  # a bar of square section
            J += m * dc @ dc + along * (dR[:, 1] @ R[:, 2]) ** 2
            J += about * ((dR[:, 2] @ R[:, 0]) ** 2 + (dR[:, 0] @ R[:, 1]) ** 2)
        return J

    both = jax.jit(jax.value_and_grad(inertia))
    torque = jax.jit(jax.grad(lambda th: G * m * sum(c[2] for c, _ in poses(th))))
    return Passing(
        da.mechanism("bennett"), "link1", lambda th: tuple(map(float, both(th))), lambda th: float(torque(th)),
        (theta, 0.0),
    )  # fmt: skip


def peaucellier(coordinates: str, omega: float):
    """The built-in one with its crank started at ω: (system, state)."""
    system = da.build(da.mechanism("peaucellier"), coordinates=coordinates)
    q = np.asarray(da.stabilise.consistent_state(system).q)
    free = np.linalg.svd(np.asarray(da.assemble(system, 0.0, q, 0 * q[: system.n]).C))[2][-1]
    return system, (q, omega * free / free[2 if coordinates == "absolute" else 0])


def peaucellier_by_hand(omega: float, times: np.ndarray) -> np.ndarray:
    """How far its crank has turned, by the equation of its only freedom.

    The near corner is d = 2c cos ½φ from the fixed point in the direction ½φ, the corners beside it are at ±β from that
    direction. (φ, β) run around a closed curve: with φ = φₘ sin u both are analytic in u, through the flat pose β = 0
    at φ = ±φₘ as elsewhere: sin² ½β = (s − L + d)(s + L − d)/4Ld, and s − L + d = 4c sin ¼(φₘ + φ) sin ¼(φₘ − φ).
    """
    L, s, c = 1.0, 0.4, 0.35
    largest = 2 * math.acos((L - s) / (2 * c))

    def points(u):
        phi = largest * jnp.sin(u)
        d, a = 2 * c * jnp.cos(phi / 2), largest / 4
        sines = jnp.sinc(a * (1 + jnp.sin(u)) / jnp.pi) * jnp.sinc(a * (1 - jnp.sin(u)) / jnp.pi)
        beta = 2 * jnp.arcsin(jnp.cos(u) * a * jnp.sqrt(sines * c * (s + L - d) / (L * d)))

        def at(r, angle):
            return r * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

        O, A = jnp.zeros(2), jnp.array([c, 0.0])
        near, far = at(d, phi / 2), at((L * L - s * s) / d, phi / 2)
        left, right = at(L, phi / 2 + beta), at(L, phi / 2 - beta)
        ends = ((A, near), (O, left), (O, right), (near, left), (near, right), (far, left), (far, right))
        return jnp.stack([jnp.stack(x) for x in ends])

    lengths = np.array([c, L, L, s, s, s, s])  # of 1 kg/m

    def inertia(u):
        p, q = jnp.moveaxis(jax.jacfwd(points)(u), 1, 0)
        return jnp.sum(lengths / 3 * jnp.sum(p * p + p * q + q * q, axis=1))

    both = jax.jit(jax.value_and_grad(inertia))
    torque = jax.jit(jax.grad(lambda u: -9.81 * jnp.sum(lengths * jnp.mean(points(u), axis=1)[:, 0])))

    def rate(_, y):
        J, dJ = map(float, both(y[0]))
        return y[1], -(0.5 * dJ * y[1] ** 2 + float(torque(y[0]))) / J

    u = math.asin(0.5 / largest)
    span, start = (0.0, float(times[-1])), (u, omega / (largest * math.cos(u)))
    found = solve_ivp(rate, span, start, "DOP853", times, rtol=1e-13, atol=1e-14, max_step=0.02)
    return largest * np.sin(found.y[0]) - 0.5


def drift(solution) -> float:
    """The largest change of the energy over the largest kinetic energy."""
    energies = solution.results.energies
    return float(np.max(np.abs(energies["drift"])) / np.max(energies["kinetic"]))
