"""7 · analysis: which motions the constraints leave free, body by body, and which bodies have no joint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.equations import Equations
from dalembert.linalg import Dependence
from dalembert.systems import AbstractSystem, compiled_quickly

UP_TO = 600
"""Largest number of velocities for which free motions are computed: the null space would take too long."""
MOST = 60
"""Most free motions that are listed; for more the list is of no use."""
STILL = 1e-6
"""Share of the largest motion below which a body counts as at rest."""
SHOWN = 6
"""Bodies of one motion that are shown in text."""


class BodyMotion(NamedTuple):
    """How much a body turns (radians) and its centre moves (lengths of the model) in a free motion."""

    name: str
    turns: float
    moves: float

    def __str__(self) -> str:
        parts = [f"turns {self.turns:.3g}"] if self.turns else []
        return f"{self.name} {' '.join(parts + ([f'moves {self.moves:.3g}'] if self.moves else []))}"


@dataclass(frozen=True)
class FreeMotion:
    """A motion that the constraints leave free: the bodies that take part, the fastest turning by 1 rad.

    If nothing turns, the fastest moves by 1. Without bodies the coordinates by number, as "moves".
    """

    bodies: tuple[BodyMotion, ...]

    def __str__(self) -> str:
        more = f" and {len(self.bodies) - SHOWN} more" if len(self.bodies) > SHOWN else ""
        return ", ".join(map(str, self.bodies[:SHOWN])) + more


def free_motions(system: AbstractSystem, equations: Equations, dependence: Dependence) -> tuple[FreeMotion, ...]:
    """A basis of the velocities that all rows allow, each motion led by another coordinate, angles before lengths."""
    freedoms = system.n - dependence.rank
    if system.n > UP_TO or not 0 < freedoms <= MOST:
        return ()
    basis = np.eye(system.n)
    if len(dependence.rows):
        # x with Ĉ x = 0, then v = L⁻ᵀ x
        free = np.linalg.svd(dependence.rows)[2][dependence.rank :].T
        L = dependence.L.transpose(0, 2, 1)
        basis = np.linalg.solve(L, free.reshape(*L.shape[:2], -1)).reshape(system.n, -1)
    names, lengths, size = _parts(system)
    if system.machine is not system:  # as motions of the bodies
        basis = np.asarray(_pushed(system, jnp.asarray(equations.q), jnp.asarray(basis)))
    sized = basis / np.where(lengths, size, 1.0)[:, None]
    lead = _leading(np.linalg.qr(sized)[0], lengths)
    motions = basis @ np.linalg.inv(sized[lead])
    return tuple(_described(names, lengths.reshape(len(names), -1), size, motion) for motion in motions.T)


def motion_of(machine: AbstractSystem, v: np.ndarray) -> FreeMotion:
    """The bodies' shares of a motion of a machine."""
    names, lengths, size = _parts(machine)
    return _described(names, lengths.reshape(len(names), -1), size, v)


@compiled_quickly
def _pushed(system: AbstractSystem, q, basis):
    return jax.vmap(lambda u: system.push_forward(q, u), 1, 1)(basis)


def _parts(system: AbstractSystem) -> tuple[tuple[str, ...], np.ndarray, float]:
    """The names of the bodies, which of their velocities are translational, and the machine's size."""
    machine = system.bodies
    if machine is None:
        return tuple(f"coordinate {k}" for k in range(system.n)), np.ones(system.n, bool), 1.0
    one = np.arange(machine.dv) < machine.kinematics.d
    return machine.body_names, np.tile(one, len(machine.body_names)), float(machine.size)


def _leading(basis: np.ndarray, lengths: np.ndarray) -> list[int]:
    """As many independent coordinates as motions: the first that move well, angles before lengths."""
    left, out = basis.copy(), []
    order = np.argsort(lengths, kind="stable")
    for _ in range(basis.shape[1]):
        sizes = np.linalg.norm(left, axis=1)
        pick = next(int(k) for k in order if sizes[k] >= 0.5 * np.max(sizes))
        out.append(pick)
        direction = left[pick] / sizes[pick]
        left = left - np.outer(left @ direction, direction)
    return out


def _described(names: tuple[str, ...], lengths: np.ndarray, size: float, motion: np.ndarray) -> FreeMotion:
    """The bodies' shares of a motion, normalised."""
    v = motion.reshape(lengths.shape)
    turns, moves = (np.linalg.norm(np.where(which, v, 0.0), axis=1) for which in (~lengths, lengths))
    largest = max(np.max(turns), np.max(moves) / size)
    turns, moves = (np.where(x > STILL * largest * s, x, 0.0) for x, s in ((turns, 1.0), (moves, size)))
    by = np.max(turns) if np.any(turns) else np.max(moves)
    shares = zip(names, turns / by, moves / by, strict=True)
    return FreeMotion(tuple(BodyMotion(n, float(t), float(m)) for n, t, m in shares if t or m))


def unheld(system: AbstractSystem) -> tuple[str, ...]:
    """The bodies that no joint, driver, wheel or coupling holds."""
    machine = system.bodies
    if machine is None:
        return ()
    held = {int(b) for f in machine.families for b in np.unique(f.group.columns)}
    return tuple(name for b, name in enumerate(machine.body_names) if b not in held)
