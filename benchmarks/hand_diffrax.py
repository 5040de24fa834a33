"""The limit: the four-bar written by hand for Diffrax, as an expert would for this one machine and nothing else.

Absolute angles of the three rods, the 5 × 5 augmented equations by `jnp.linalg.solve`, Dopri8, no projection.
"""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from problems import Problem, Samples

VERSION = diffrax.__version__
LENGTHS = np.array([1.0, 2.0, 1.5])
MASSES = np.array([1.0, 2.0, 1.5])
GROUND, GRAVITY = 2.0, 9.81
# how far along rod k the centre of rod i lies: crank and coupler hang on A, the rocker on D
REACH = np.array([[0.5, 0.0, 0.0], [1.0, 0.5, 0.0], [0.0, 0.0, 0.5]]) * LENGTHS
LOOP = np.array([1.0, 1.0, -1.0]) * LENGTHS


def ladders(problem: Problem) -> dict[str, tuple[float, ...]]:
    """Tolerances, coarse to fine; only the four-bar was written by hand."""
    return {"dopri8": problem.rtols} if problem.name == "four-bar" else {}


class Simulation:
    """The four-bar at one tolerance; compiled once for all."""

    def __init__(self, problem: Problem, kind: str, rtol: float):
        self.times, self.rtol = jnp.asarray(problem.times), jnp.asarray(rtol)
        self.start = jnp.asarray(_start_angles(problem))

    def reset(self) -> None:
        pass

    def run(self) -> None:
        self.states = np.asarray(_solve(self.start, self.times, self.rtol))

    def samples(self) -> Samples:
        phi = self.states[:, :3]
        with np.errstate(invalid="ignore"):
            x, y = np.cos(phi) @ REACH[1], np.sin(phi) @ REACH[1]
        return Samples(np.stack([x, y, 0 * x], axis=1), None)


def _start_angles(problem: Problem) -> np.ndarray:
    rotations = [body.rotation for body in problem.model.bodies.values()]
    return np.array([np.arctan2(R[1, 0], R[0, 0]) for R in rotations] + [0.0] * 3)


def _vector_field(t, y, args):
    phi, w = y[:3], y[3:]
    c, s = jnp.cos(phi), jnp.sin(phi)
    difference = c[:, None] * c + s[:, None] * s  # cosines of the angles between rods
    skew = s[:, None] * c - c[:, None] * s
    coupling = REACH.T @ (MASSES[:, None] * REACH)
    M = coupling * difference + jnp.diag(MASSES * LENGTHS**2 / 12)
    h = -(coupling * skew) @ w**2 - GRAVITY * c * (MASSES @ REACH)
    C = jnp.stack([-LOOP * s, LOOP * c])
    Gamma = jnp.stack([(LOOP * c) @ w**2, (LOOP * s) @ w**2])
    K = jnp.block([[M, C.T], [C, jnp.zeros((2, 2))]])
    return jnp.concatenate([w, jnp.linalg.solve(K, jnp.concatenate([h, Gamma]))[:3]])


@jax.jit
def _solve(start, times, rtol):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(_vector_field),
        diffrax.Dopri8(scan_kind="lax"),
        0.0,
        times[-1],
        1e-3,
        start,
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=rtol),
        saveat=diffrax.SaveAt(ts=times),
        adjoint=diffrax.ForwardMode(),
        max_steps=10_000,
        throw=False,  # without projection the coarsest tolerances drift apart: that shows in the error
    ).ys
