"""6b· results: values at an instant beside a singular position, from states on both sides of it.

Beside such a position the equations at the state are noise: rounding e of a state makes v̇ wrong by e/σ³. What the
motion determines there is smooth along the path through the position; a reaction that grows towards it has a pole
there. So the observables are taken at states along the motion, put onto the constraints, at distances u on both sides,
and fitted by

    f(u) = c₀ + c₁ u + … + c_d u^d [+ p/(u − u₀)]

in the least-squares sense, with weights |u − u₀|³ ~ 1/noise. u₀, the position, is where the smallest singular value,
with the sign of the side, is zero. What the sides are off the fit says how well c₀ and p are known.

A residue that is lost in its error may still be large beside a distance of 1e-8. Which components grow at all does not
depend on the loads, since λ grows along the vector that C loses: it is seen on a machine of other masses.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np
from numpy.typing import ArrayLike

from dalembert.results._observe import Observation, observe_all
from dalembert.simulation import project_all
from dalembert.systems import compiled_for_each

ASIDE = 1.2e-2
"""Distance of the nearest side, in units of the time in which the fastest coordinate moves by the machine's size (or a
radian)."""
FAR = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 5.5, 7.0, 9.0, 11.0, 13.5, 16.0, 20.0, 25.0])
NODES = np.concatenate([-FAR[::-1], FAR])
FITS = ((13, 12), (13, 18), (11, 8), (11, 14), (8, 6), (8, 10), (6, 5))
"""Pairs of sides and degrees: far sides know more digits, near ones need fewer terms. For each component that one
counts which the sides are least off."""
PROBE, INSIDE = 3.0, 0.8
"""Distance of the two sides that are looked at first, and the share of their σ below which a position is between."""
CLOSED = 1e-9
"""Largest violation of a side that counts, and of its rates relative to the speed."""
BELIEVED = 1e-6
"""Relative error up to which a reaction component counts as known."""
NO_POLE, POLE = 10.0, 1e3
"""A residue of up to so many times its own error is not seen, one of more than so many is one; between the two it
counts as an error, as what rounding of the machine's dimensions changes falls with the distance as well."""
OTHER = 0.3
"""Largest relative difference of the other masses."""
ROUNDED = 1e-12
"""A residue's error is at least this share of the largest one: rounding turns the direction in which reactions grow."""
MISSED = 3e-6
"""σ by which an instant may be off what its sides say: the violation of 1e-12 that a march leaves there, squared root,
and more. A motion that passes a position without meeting it has a larger one."""

Get = Callable[[Observation], ArrayLike]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A component at each instant, and how far it may be off: by itself, and for each relative error of the distance to
    the position (its size, where it has a pole)."""

    value: np.ndarray
    error: np.ndarray
    grown: np.ndarray


@dataclasses.dataclass(frozen=True)
class Sides:
    """The observables at the sides of some instants. An instant is at 0; the unit of distance is the nearest side's."""

    which: np.ndarray  # numbers of the saved times
    at: list[Observation]  # for each node
    nodes: np.ndarray  # (nodes, instants)
    reach: np.ndarray  # how many pairs of sides count
    position: np.ndarray  # u₀
    sigma: np.ndarray  # the smallest σ at the instant, from its sides
    unresolved: np.ndarray  # the relative error of the distance to the position
    path: _Path

    @functools.cached_property
    def of_other_masses(self) -> list[Observation] | None:
        """The observables of a machine of other masses on the same path; None of one without named masses."""
        system = self.path.solution.system
        names = [name for name in system.slots() if name.endswith(".mass")]
        if not names:
            return None
        now = system.parameters()
        other = {name: np.asarray(now[name]) * (1.0 + OTHER * np.cos(1.0 + k * k)) for k, name in enumerate(names)}
        return self.path.of(system.replace(other)).along(self.nodes)

    def smooth(self, get: Get) -> tuple[np.ndarray, np.ndarray]:
        """What has no pole: its value and error."""
        return _fitted(self.nodes, self._values(get), self.reach, 3, self.position)[0]

    def estimate(self, get: Get) -> Estimate:
        """What may have a pole."""
        value, error = self.smooth(get)
        (with_pole, off), (residue, open_) = self._with_pole(self._values(get))
        away = _wide(np.maximum(np.abs(self.position), 1e-300), residue)
        part = np.abs(residue) / away
        pole = (np.abs(residue) > POLE * open_) & (part > error)
        known = pole & _wide(self.unresolved < 1.0, residue)
        unseen = np.maximum(part, NO_POLE * open_ / away)
        matters = ~pole & (unseen > BELIEVED * np.abs(value))
        grows = self.grows(get) if matters.any() else matters
        error = np.where(pole, off, np.maximum(error, np.where(matters & grows, unseen, NO_POLE * open_)))
        value = np.where(known, with_pole, value)
        return Estimate(value, np.where(pole & ~known, np.inf, error), np.where(known, part, 0.0))

    def grows(self, get: Get) -> np.ndarray:
        """Components that grow towards the position under some loads."""
        if self.of_other_masses is None:
            return np.ones(np.shape(get(self.at[0])), bool)
        residue, open_ = self._with_pole(np.stack([np.asarray(get(x)) for x in self.of_other_masses]))[1]
        return np.abs(residue) > NO_POLE * open_

    def _with_pole(self, values: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Value and residue, each with its error."""
        found, (residue, open_) = _fitted(self.nodes, values, self.reach, 3, self.position, pole=True)
        largest = np.max(np.abs(residue.reshape(len(residue), -1)), axis=1, initial=0.0)
        return [found, (residue, np.maximum(open_, _wide(ROUNDED * largest, residue)))]

    def _values(self, get: Get) -> np.ndarray:
        return np.stack([np.asarray(get(x)) for x in self.at])


def sides_of(solution, rule, found: Observation, which: np.ndarray, rank: int) -> tuple[np.ndarray, Sides | None]:
    """The smallest σ of the two nearest sides of some instants, and all sides of those that have a position between
    them."""
    path = _Path(solution, rule, which, found, rank)
    base = weakest(np.asarray(found.sigma)[which], rank)
    minus, plus = path.pair()
    beside = np.minimum(minus, plus)
    path = path.only((path.speed > 0) & (base < INSIDE * 0.5 * (minus + plus)))
    if not len(path.which):
        return beside, None
    minus, plus = path.pair()  # with the acceleration of the first
    base = weakest(np.asarray(found.sigma)[path.which], rank)
    shift = PROBE * (plus - minus) / np.maximum(plus + minus, 1e-300)
    inside = path.closed & (base < INSIDE * 0.5 * (minus + plus))
    path, nodes = path.only(inside), NODES[:, None] - shift[inside]
    if not len(path.which):
        return beside, None
    at = path.along(nodes)
    values = np.stack([weakest(np.asarray(x.sigma), rank) for x in at])
    signed = np.sign(NODES)[:, None] * values
    # sides count from the nearest to the first that is not closed, or where σ no longer grows
    closed = np.stack([path.are_closed(x) for x in at])
    grows = np.diff(signed, axis=0) > 0
    counts = closed & np.concatenate([grows[: len(FAR)], grows[len(FAR) - 1 :]])
    reach = np.sum(np.cumprod(counts[len(FAR) :] & counts[: len(FAR)][::-1], axis=0), axis=0)
    zero = np.zeros(len(path.which))
    position, apart = _fitted(signed, nodes, reach, 1, zero)[0]
    sigma, _ = _fitted(nodes, signed, reach, 1, position)[0]
    square, its_error = _fitted(nodes - position, values**2, reach, 0, zero)[0]
    missed = (np.abs(square) + its_error) / np.maximum(sigma**2, 1e-300)
    unresolved = apart / np.maximum(np.abs(position), 1e-300) + missed
    good = np.isfinite(apart + its_error) & (np.abs(position) < PROBE) & (base[inside] < 2 * np.abs(sigma) + MISSED)
    if not good.any():
        return beside, None
    at = [jax.tree_util.tree_map(lambda x: x[good], x) for x in at]
    reach, position, sigma, unresolved = (x[good] for x in (reach, position, np.abs(sigma), unresolved))
    path, nodes = path.only(good), nodes[:, good]
    return beside, Sides(path.which, at, nodes, reach, position, sigma, unresolved, path)


def weakest(values: np.ndarray, rank: int) -> np.ndarray:
    """The smallest singular value that belongs to the rank, relative to the largest."""
    return values[:, min(rank, values.shape[1]) - 1] / values[:, 0] if rank and values.size else np.ones(len(values))


class _Path:
    """States along the motion about some instants: from each by its rates and accelerations, then projected."""

    def __init__(self, solution, rule, which: np.ndarray, found: Observation, rank: int):
        self.solution, self.rule, self.which, self.rank = solution, rule, which, rank
        self.t, self.q, self.v = (np.asarray(x)[which] for x in (solution.t, solution.q, solution.v))
        self.scale = np.asarray(solution.system.scale())
        self.speed = self._size(self.v)
        self.vdot = np.zeros_like(self.v)
        self.closed = np.ones(len(which), bool)
        # a machine at rest: the way that it is about to go
        rates = np.asarray(found.rates)[which]
        at_rest = rates / np.maximum(self._size(rates), 1e-300)[:, None]
        self.heading = np.where(self.speed[:, None] > 0, self.v, at_rest)

    def of(self, system) -> _Path:
        """The same path of a machine of other numbers."""
        out = copy.copy(self)
        out.solution = dataclasses.replace(self.solution, system=system)
        return out

    def only(self, these: np.ndarray) -> _Path:
        out = copy.copy(self)
        for name in ("which", "t", "q", "v", "speed", "vdot", "closed", "heading"):
            setattr(out, name, getattr(self, name)[these])
        return out

    @property
    def tau(self) -> np.ndarray:
        """The time in which the fastest coordinate moves by `ASIDE`, on the average over a few of them."""
        pace = self.speed + np.sqrt(self.speed**2 + 5 * ASIDE * self._size(self.vdot))
        return 2 * ASIDE / np.where(pace > 0, pace, 1.0)

    def pair(self) -> tuple[np.ndarray, np.ndarray]:
        """σ at the nearest two sides, which give the acceleration between them."""
        sides = self.along(np.array([[-PROBE], [PROBE]]) + 0.0 * self.t)
        self.closed = self.are_closed(sides[0]) & self.are_closed(sides[1])
        self.vdot = 0.5 * (np.asarray(sides[0].rates) + np.asarray(sides[1].rates))
        minus, plus = (weakest(np.asarray(x.sigma), self.rank) for x in sides)
        return minus, plus

    def along(self, nodes: np.ndarray) -> list[Observation]:
        """The observables at each of the nodes (nodes, instants)."""
        step = nodes * self.tau
        t, (many, one) = self.t + step, (step.shape, step[:, :, None])
        delta = one * (self.heading + 0.5 * one * self.vdot)
        v = self.v + one * self.vdot
        q = np.broadcast_to(self.q, (*many, self.q.shape[1]))
        found = observed(self.solution, self.rule, *(x.reshape(-1, *x.shape[2:]) for x in (t, q, v, delta)))
        return [jax.tree_util.tree_map(lambda x, k=k: x.reshape(*many, *x.shape[1:])[k], found) for k in range(many[0])]

    def are_closed(self, side: Observation) -> np.ndarray:
        off = np.asarray(side.violation)
        return (off[:, 0] < CLOSED) & (off[:, 1] < CLOSED * np.maximum(self.speed, 1e-300))

    def _size(self, rates: np.ndarray) -> np.ndarray:
        return np.max(np.abs(rates) / self.scale, axis=1, initial=0.0)


def observed(solution, rule, t, q, v, delta) -> Observation:
    """The observables at states moved by `delta` and projected onto the constraints; as many at a time as there are
    saved times, so that no new program is compiled."""
    count, system, out = len(np.asarray(solution.t)), solution.system, []
    for first in range(0, len(t), count):
        these = np.minimum(np.arange(first, first + count), len(t) - 1)
        moved = np.asarray(retract_all(system, q[these], delta[these]))
        state = project_all(system, solution.stabilisation, t[these], moved, v[these])
        found = observe_all(system, solution.formulation, rule, t[these], *(np.asarray(x) for x in state))
        out.append(jax.tree_util.tree_map(np.asarray, found))
    return jax.tree_util.tree_map(lambda *x: np.concatenate(x)[: len(t)], *out)


def _retract(system, q, delta):
    """States moved by a displacement: a row of each argument for each state."""
    return system.retract(q, delta)


retract_all = compiled_for_each(_retract, 2)


def _fitted(
    nodes: np.ndarray, values: np.ndarray, reach: np.ndarray, power: int, position: np.ndarray, pole: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The value at 0 of the fit through values at nodes (nodes, instants), weighted by that power of their distance to
    the position, and its error; with a pole there also its residue, and that one's error. Each by the fit of `FITS`
    that knows it best."""
    found = [_fit(nodes, values, *fit, power, position, pole) for fit in FITS]
    out = []
    for k in range(2 if pole else 1):
        best, errors = (np.stack([f[k][j] for f in found]) for j in range(2))
        enough = reach >= np.array([[pairs] for pairs, _ in FITS])
        errors = np.where(_wide(enough, errors) & np.isfinite(errors), errors, np.inf)
        least = np.argmin(errors, axis=0)[None]
        out.append(tuple(np.take_along_axis(x, least, 0)[0] for x in (best, errors)))
    return out


def _fit(nodes, values, pairs: int, degree: int, power: int, position, pole: bool):
    near = slice(len(FAR) - pairs, len(FAR) + pairs)
    x, y = nodes[near].T, np.moveaxis(values[near], 0, 1)  # (instants, nodes), (instants, nodes, …)
    away = x - position[:, None]
    size = np.maximum(np.max(np.abs(x), axis=1, keepdims=True), 1e-300)
    basis = np.polynomial.chebyshev.chebvander(x / size, degree)
    there = np.broadcast_to(np.polynomial.chebyshev.chebvander(np.zeros(1), degree), (len(x), degree + 1))
    wanted = [there]
    if pole:
        basis = np.concatenate([basis, (1.0 / away)[:, :, None]], axis=2)
        resolved = np.where(np.abs(position) > 1e-150, position, 1e-150)
        wanted = [np.concatenate([there, -1.0 / resolved[:, None]], axis=1)]
        wanted.append(np.concatenate([0.0 * there, np.ones((len(x), 1))], axis=1))
    trust = np.abs(away / size)[:, :, None] ** power
    Q, R = np.linalg.qr(trust * basis)
    flat = trust * y.reshape(*y.shape[:2], -1)
    along = np.swapaxes(Q, 1, 2) @ flat
    left = flat - Q @ along
    spread = np.sqrt(np.sum(left**2, axis=1) / (basis.shape[1] - basis.shape[2]))
    out = []
    for each in wanted:
        by = np.linalg.solve(np.swapaxes(R, 1, 2), each[:, :, None])
        value = np.sum(by * along, axis=1)
        error = np.linalg.norm(by, axis=1) * spread
        out.append(tuple(x.reshape(len(value), *y.shape[2:]) for x in (value, error)))
    return out


def _wide(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    return x.reshape(*x.shape, *[1] * (like.ndim - x.ndim))
