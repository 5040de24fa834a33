"""6b· results: what is reliable at each saved instant: rank, digits, and values at singular positions.

Two things are done where the rows are nearly dependent. A state is **perturbed by rounding**, projected onto the
constraints and observed again: the difference is lost to conditioning, whatever its cause. At an instant of lower rank
the equations leave open what the motion determines: v̇, and reactions that do not grow without bound, are continued
from **both sides of the instant** (means of the values at ±τ, ±2τ and ±3τ, extrapolated: error O(τ⁶)); what grows
towards the instant has no value there.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from dalembert.linalg import RANK_TOLERANCE, WEAK
from dalembert.results._observe import Observation, observe_all
from dalembert.simulation import project_all, qdot_all
from dalembert.systems import compiled_for_each

BELIEVED = 1e-6
"""Relative change under perturbation up to which a reaction component counts as known."""
SAFETY = 30.0
"""A perturbed state is one sample of what rounding does."""
PERTURBATION = 1e-14
"""Size of a perturbation, relative to the machine: the violation that projection leaves."""
TURNED = 1e-7
"""Relative change of v̇ under perturbation above which it is continued from both sides."""
ASIDE = 5e-3
"""τ, in units of the time in which the fastest coordinate moves by the machine's size (or a radian)."""


@dataclasses.dataclass(frozen=True)
class Instants:
    """For each saved time: the rank, reliable decimal digits of the reactions, and reliable components."""

    rank: np.ndarray
    digits: np.ndarray
    believed: dict[str, np.ndarray]  # "force", "torque", "joint_force", "joint_torque": (times, joints, …)
    multipliers: np.ndarray  # (times, rows)

    @property
    def marked(self) -> np.ndarray:
        """Times at which something is not reliable."""
        return ~np.all(self.multipliers, axis=1) if self.multipliers.size else np.zeros(len(self.rank), bool)


def look(solution, rule, rank: int) -> tuple[Observation, Instants]:
    """All observables at the saved times, corrected at singular positions, and which of them are reliable."""
    system = solution.system
    t, q, v = _state(solution)
    found = jax.tree_util.tree_map(np.asarray, observe_all(system, solution.formulation, rule, t, q, v))
    values = np.asarray(found.sigma)
    weakest = _weakest(values, rank)
    rates = np.asarray(found.rates)
    ranks = np.full(len(t), rank)
    if rank and system.klu is None:
        ranks = np.minimum(np.sum(values > RANK_TOLERANCE * values[:, :1], axis=1), rank)
    away = np.max(np.abs(q) / np.asarray(system.coordinate_scale()), axis=1, initial=1.0)  # from the origin, in sizes
    lost_to = SAFETY * np.finfo(float).eps * away / np.maximum(weakest, 1e-100) ** 2
    digits = np.clip(-np.log10(lost_to + 1e-16), 0.0, 15.0)
    shown = _shown(found)
    sure = {name: np.ones(x.shape, bool) for name, x in shown.items()}
    lost = np.flatnonzero(ranks < rank)
    near = np.setdiff1d(np.flatnonzero(weakest < WEAK), lost)
    if near.size:
        change = {name: np.zeros(x[near].shape) for name, x in shown.items()}
        turned = np.zeros(len(near))
        for seed in range(3):
            seen = _at(solution, rule, near, *_perturbed(system, q[near], v[near], seed))
            turned = np.maximum(turned, _share(np.asarray(seen.rates) - rates[near], rates[near]))
            other = _shown(seen)
            change = {name: np.maximum(c, np.abs(other[name] - shown[name][near])) for name, c in change.items()}
        for name, c in change.items():
            sure[name][near] = _within(SAFETY * c, shown[name][near], shown[name], _typical(solution, name))
        digits[near] = np.minimum(digits[near], _digits(change["multipliers"], shown["multipliers"][near]))
        # beside a singular position the acceleration itself is noise: it is continued as well
        lost = np.union1d(lost, near[turned > TURNED])
    if lost.size:
        found = _continued(solution, rule, found, lost, weakest, rank, sure)
        digits[lost] = np.where(np.all(sure["multipliers"][lost], axis=1), digits[lost], 0.0)
    multipliers = sure.pop("multipliers")
    return found, Instants(ranks, digits, sure, multipliers)


def _shown(found: Observation) -> dict[str, np.ndarray]:
    out: dict[str, Any] = {"multipliers": found.lam}
    if found.wrenches is not None:
        out |= {name: getattr(found.wrenches, name) for name in ("force", "torque", "joint_force", "joint_torque")}
    return out


def _weakest(values: np.ndarray, rank: int) -> np.ndarray:
    """The smallest singular value that belongs to the rank, relative to the largest."""
    return values[:, min(rank, values.shape[1]) - 1] / values[:, 0] if rank and values.size else np.ones(len(values))


def _share(change: np.ndarray, value: np.ndarray) -> np.ndarray:
    top = np.max(np.abs(value), axis=1, initial=0.0)
    return np.max(np.abs(change), axis=1, initial=0.0) / np.where(top > 0, top, 1.0)


def _within(change: np.ndarray, value: np.ndarray, everywhere: np.ndarray, typical: float) -> np.ndarray:
    """Whether a change is small against the value, or, for a value that is nearly zero, against a thousandth of the
    least, or a millionth of the median, of the largest value at each instant, or a thousandth of what is typical."""
    largest = np.max(np.abs(everywhere.reshape(len(everywhere), -1)), axis=1, initial=0.0)
    floor = max(1e-3 * np.min(largest), 1e-6 * np.median(largest), 1e-3 * typical) if len(largest) else 0.0
    return change <= BELIEVED * np.maximum(np.abs(value), floor)


def _typical(solution, name: str) -> float:
    """The torque, or the force, that turns the machine's momentum at its own rate; 0 for multipliers of mixed units."""
    if name == "multipliers":
        return 0.0
    twice = 2 * float(np.median(np.asarray(kinetic_all(solution.system, *_state(solution)))))
    return twice if "torque" in name else twice / float(np.max(np.asarray(solution.system.scale()), initial=0.0) or 1.0)


def _state(solution) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(x) for x in (solution.t, solution.q, solution.v))


def _digits(change: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.clip(-np.log10(SAFETY * _share(change, value) + 1e-16), 0.0, 15.0)


def _perturbed(system, q: np.ndarray, v: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States moved by about the violation that projection leaves."""
    rng = np.random.default_rng(seed)
    scale, size = np.asarray(system.scale()), np.asarray(system.coordinate_scale())
    speed = np.max(np.abs(v) / scale, axis=1, initial=0.0)[:, None] * scale
    open_ = np.maximum(PERTURBATION * size, np.finfo(float).eps * np.abs(q))
    return q + open_ * rng.standard_normal(q.shape), v + PERTURBATION * speed * rng.standard_normal(v.shape)


def _at(solution, rule, which: np.ndarray, q: np.ndarray, v: np.ndarray, dt: np.ndarray | float = 0.0) -> Observation:
    """Observables at given states for some of the saved times, projected onto the constraints.

    Padded to all saved times, so that no new program is compiled.
    """
    fill = _fill(which, solution)
    times = np.asarray(solution.t)[which][fill] + dt
    state = project_all(solution.system, solution.stabilisation, times, q[fill], v[fill])
    found = observe_all(solution.system, solution.formulation, rule, times, *(np.asarray(x) for x in state))
    return jax.tree_util.tree_map(lambda x: np.asarray(x)[: len(which)], found)


def _continued(solution, rule, found: Observation, lost: np.ndarray, weakest, rank: int, sure: dict) -> Observation:
    """The observables with those at instants of lower rank continued from both sides; marks what has no value."""
    system = solution.system
    q, v = np.asarray(solution.q)[lost], np.asarray(solution.v)[lost]
    speed = np.max(np.abs(v) / np.asarray(system.scale()), axis=1, initial=0.0)
    tau = ASIDE / np.where(speed > 0, speed, 1.0)
    sides = {}
    moving = speed > 0
    vdot = found.rates[lost]
    for _ in range(2):  # the second time with the acceleration found by the first
        for k in (-3, -2, -1, 1, 2, 3):
            step = (k * tau)[:, None]
            ahead = np.asarray(qdot_all(system, q, v + 0.5 * step * vdot))
            sides[k] = _at(solution, rule, lost, q + step * ahead, v + step * vdot, k * tau[_fill(lost, solution)])
        vdot = np.where(moving[:, None], _mean(sides, lambda o: o.rates), vdot)
    # only where the two sides are better conditioned
    beside = np.min([_weakest(np.asarray(side.sigma), rank) for side in sides.values()], axis=0)
    moving = moving & (beside > 3 * weakest[lost])

    out = jax.tree_util.tree_map(np.array, found)
    for get in (lambda o: o.rates, lambda o: o.vdot, lambda o: o.lam):
        target = get(out)
        target[lost] = np.where(_wide(moving, target), _mean(sides, get), target[lost])
    if out.wrenches is not None:
        for name in ("force", "torque", "joint_force", "joint_torque"):
            target = getattr(out.wrenches, name)
            mean = _mean(sides, lambda o, name=name: getattr(o.wrenches, name))
            target[lost] = np.where(_wide(moving, target), mean, target[lost])
    for name in sure:
        left, right = (_shown(sides[k])[name] for k in (-1, 1))
        far_left, far_right = (_shown(sides[k])[name] for k in (-2, 2))
        # smooth through the instant: the difference of the two sides halves with τ and does not grow
        value = _shown(out)[name][lost]
        grows = np.abs(right - left) > 0.75 * np.abs(far_right - far_left) + BELIEVED * np.abs(value)
        # the two extrapolations must agree
        by_three, by_two = (_mean(sides, lambda o, n=name: _shown(o)[n], order) for order in (3, 2))
        spread = np.abs(by_three - by_two)
        small = _within(SAFETY * spread, value, _shown(out)[name], _typical(solution, name))
        smooth = ~grows & small & _wide(moving, _shown(out)[name])
        still = sure[name][lost] & _wide(weakest[lost] > RANK_TOLERANCE, value)
        sure[name][lost] = np.where(_wide(moving, value), smooth, still)
    return out


def _mean(sides: dict[int, Observation], get, order: int = 3) -> np.ndarray:
    """The even part of f(kτ) extrapolated to 0, from two or three pairs."""
    m = [0.5 * (get(sides[k]) + get(sides[-k])) for k in (1, 2, 3)]
    return (15 * m[0] - 6 * m[1] + m[2]) / 10 if order == 3 else (4 * m[0] - m[1]) / 3


def _fill(which: np.ndarray, solution) -> np.ndarray:
    return np.resize(np.arange(len(which)), len(np.asarray(solution.t)))


def _wide(flags: np.ndarray, like: np.ndarray) -> np.ndarray:
    return flags.reshape(-1, *[1] * (like.ndim - 1))


def _kinetic(system, t, q, v):
    return 0.5 * v @ system.mass(t, q).mv(v)


kinetic_all = compiled_for_each(_kinetic, 3)
"""The kinetic energy at many states."""
