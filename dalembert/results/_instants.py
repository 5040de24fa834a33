"""6b· results: what is reliable at each saved instant: rank, digits, and values at singular positions.

Two things are done where the rows are nearly dependent. A state is **perturbed by rounding**, projected onto the
constraints and observed again: the difference is lost to conditioning, whatever its cause. Where that is too much, and
where rounding hides in directions that a projection no longer resolves, values are continued from **both sides** of the
singular position (`_continued.py`): what the equations leave open at the instant, the motion determines.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from dalembert.linalg import RANK_TOLERANCE, WEAK
from dalembert.results._continued import BELIEVED, Sides, observed, sides_of, weakest
from dalembert.results._observe import Observation, observe_all
from dalembert.systems import compiled_for_each

SAFETY = 30.0
"""A perturbed state is one sample of what rounding does."""
PERTURBATION = 1e-14
"""Size of a perturbation, relative to the machine: the violation that projection leaves."""
SAFETY_OF_SIDES = 10.0
"""Polynomials through other sides are an estimate of the error of the best one."""
TURNED = 1e-7
"""Relative change of v̇ under perturbation above which it is continued from both sides."""
HIDDEN = 1e-3
"""Rounding/σ² from which on an instant's own values do not count beside better ones: rounding has moved the state by
e/σ along its weakest direction, as far as from the position, and a perturbation by e shows nothing of that."""
BETTER = 3.0
"""Ratio of σ beside an instant to its own that tells a singular position from bodies of very unlike mass."""


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
    weak = weakest(values, rank)
    rates = np.asarray(found.rates)
    ranks = np.full(len(t), rank)
    if rank and system.klu is None:
        ranks = np.minimum(np.sum(values > RANK_TOLERANCE * values[:, :1], axis=1), rank)
    lost_to = _lost_to(solution, weak)
    digits = np.clip(-np.log10(lost_to + 1e-16), 0.0, 15.0)
    shown = _shown(found)
    sure = {name: np.ones(x.shape, bool) for name, x in shown.items()}
    change = {name: np.zeros(x.shape) for name, x in shown.items()}
    lost = ranks < rank
    near = np.flatnonzero((weak < WEAK) & ~lost)
    turned = np.zeros(len(t))
    if near.size:
        for seed in range(3):
            seen = observed(solution, rule, t[near], *_perturbed(system, q[near], v[near], seed))
            turned[near] = np.maximum(turned[near], _share(np.asarray(seen.rates) - rates[near], rates[near]))
            for name, x in _shown(seen).items():
                change[name][near] = np.maximum(change[name][near], np.abs(x - shown[name][near]))
        for name, c in change.items():
            sure[name][near] = _within(SAFETY * c[near], shown[name][near], shown[name], _typical(solution, name))
        digits[near] = np.minimum(digits[near], _digits(change["multipliers"][near], shown["multipliers"][near]))
    open_ = ~np.all([np.all(x.reshape(len(t), -1), axis=1) for x in sure.values()], axis=0)
    silent = lost | (lost_to > HIDDEN)
    which = np.flatnonzero(silent | open_ | (turned > TURNED))
    if which.size:
        beside, sides = sides_of(solution, rule, found, which, rank)
        # values of a machine that is as badly conditioned beside the instant are those of its equations
        silent[which] &= lost[which] | (beside > BETTER * weak[which])
        for x in sure.values():
            x[silent] = False
        digits[silent] = 0.0
        if sides is not None:
            change = {name: np.where(_wide(silent, x), np.inf, x) for name, x in change.items()}
            found, known = _continued(solution, found, sides, change, sure)
            digits[sides.which] = np.where(np.isnan(known), digits[sides.which], known)
    multipliers = sure.pop("multipliers")
    return found, Instants(ranks, digits, sure, multipliers)


def _lost_to(solution, sigma: np.ndarray, which: Any = slice(None)) -> np.ndarray:
    """The share of a reaction that rounding of a state may be, by the smallest singular value."""
    q = np.asarray(solution.q)[which]
    away = np.max(np.abs(q) / np.asarray(solution.system.coordinate_scale()), axis=1, initial=1.0)  # from the origin
    return SAFETY * np.finfo(float).eps * away / np.maximum(sigma, 1e-100) ** 2


def _shown(found: Observation) -> dict[str, np.ndarray]:
    out: dict[str, Any] = {"multipliers": found.lam}
    if found.wrenches is not None:
        out |= {name: getattr(found.wrenches, name) for name in ("force", "torque", "joint_force", "joint_torque")}
    return out


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
    bodies = solution.system.bodies
    # not the largest of its scales: those of angles have no unit of length
    return twice if "torque" in name or bodies is None else twice / float(bodies.size)


def _state(solution) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(x) for x in (solution.t, solution.q, solution.v))


def _digits(change: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.clip(-np.log10(SAFETY * _share(change, value) + 1e-16), 0.0, 15.0)


def _perturbed(system, q: np.ndarray, v: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States moved by about the violation that projection leaves, with displacements of zero."""
    rng = np.random.default_rng(seed)
    scale, size = np.asarray(system.scale()), np.asarray(system.coordinate_scale())
    speed = np.max(np.abs(v) / scale, axis=1, initial=0.0)[:, None] * scale
    open_ = np.maximum(PERTURBATION * size, np.finfo(float).eps * np.abs(q))
    moved = q + open_ * rng.standard_normal(q.shape)
    return moved, v + PERTURBATION * speed * rng.standard_normal(v.shape), np.zeros_like(v)


def _continued(solution, found: Observation, sides: Sides, change: dict, sure: dict):
    """The observables with those beside singular positions continued from both sides, and how many digits of these are
    known (NaN where there are none); marks what has no value.

    `change`: of an instant's own values under perturbation, infinite where they do not count.
    """
    # where it turns back, or is near another position, the two sides do not fit together
    error, largest = sides.smooth(lambda o: o.rates)[1], np.max([np.abs(o.rates) for o in sides.at], axis=0)
    fits = np.max(error, axis=1) <= BELIEVED * np.max(largest, axis=1)
    which, out = sides.which, jax.tree_util.tree_map(np.array, found)
    for get in (lambda o: o.rates, lambda o: o.vdot):
        target = get(out)
        target[which] = np.where(_wide(fits, target), sides.smooth(get)[0], target[which])
    off = sides.unresolved + _lost_to(solution, sides.sigma, which)
    for name, x in _shown(out).items():
        by_sides, own = sides.estimate(lambda o, n=name: _shown(o)[n]), x[which].copy()
        error = SAFETY_OF_SIDES * by_sides.error + np.where(by_sides.grown > 0, by_sides.grown * _wide(off, own), 0.0)
        known = _within(error, by_sides.value, _shown(found)[name], _typical(solution, name)) & _wide(fits, own)
        agrees = np.abs(own - by_sides.value) <= SAFETY * change[name][which] + error
        before = sure[name][which]
        x[which] = np.where(_wide(fits, own) & (known | ~before), by_sides.value, own)
        sure[name][which] = np.where(known, agrees, before)
        if name == "multipliers":
            digits = np.clip(-np.log10(_share(error, by_sides.value) + 1e-16), 0.0, 15.0)
    return out, np.where(fits, digits, np.nan)


def _wide(flags: np.ndarray, like: np.ndarray) -> np.ndarray:
    return flags.reshape(-1, *[1] * (like.ndim - 1))


def _kinetic(system, t, q, v):
    return 0.5 * v @ system.mass(t, q).mv(v)


kinetic_all = compiled_for_each(_kinetic, 3)
"""The kinetic energy at many states."""
