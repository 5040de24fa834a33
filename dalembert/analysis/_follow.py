"""7 · analysis: a path of equilibria, followed by its arc length, past limit points.

A place of the path is a pose and a parameter s. With admissible displacements x of the mass metric, over the machine's
size, and σ for s, an equilibrium stays one along A (x, σ) = 0, A = [−K̂, r], where r is how the forces change with s:
the path's tangent is the null vector of A. A step goes along it, and Newton's method brings it back across it [Riks
1979; Keller 1977]. All is done on the host.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dalembert._typing import Array
from dalembert.analysis._rest import (
    FAR,
    NEUTRAL,
    OPEN,
    Rest,
    Ways,
    balance,
    closed,
    retracted,
    seen,
    sizes,
    slope,
    stiff,
)
from dalembert.analysis._stability import eigenmodes

LONGEST = 0.05
"""The longest step along a path, where s goes from 0 to 1 and displacements count in machine sizes."""
SHORTEST = 1e-7
BENT = 0.9
"""Cosine of the angle between two tangents below which a step was too long."""
STRAIGHT = 0.995
"""Cosine above which the next step may be twice as long."""
FARTHEST = 0.2
"""The longest displacement of a coordinate in a step, in machine sizes or radians."""
CORRECTIONS = 8
EXACT = 1e-12
"""Where along a step a limit point or a bifurcation lies, in lengths of the path."""


class Place:
    """A place on a path: pose, parameter, and what is needed to go on; `forward` is the tangent of the place before."""

    def __init__(self, rest: Rest, s: float, q: Array, forward: np.ndarray | None = None):
        self.rest, self.s, self.q = rest, float(s), np.asarray(q)
        self.at = at = balance(rest, np.asarray(s, float), q)
        self.own, self.reach, self.scale, _ = sizes(rest, np.asarray(s, float), q)
        self.K = stiff(rest, np.asarray(s, float), q, at.lam)
        self.X = _null(at.basis)  # admissible motions, orthonormal
        force, gap = slope(rest, np.asarray(s, float), q, at.lam)
        self.drag = -at.back @ gap  # how the joints are moved by s alone
        self.force_rate = force - self.K @ self.drag
        self.reduced = self.X.T @ at.reduced(self.K) @ self.X
        largest = np.max(np.abs(self.reduced), initial=0.0)
        self.rate = self.X.T @ at.force(self.force_rate)
        # at a critical place all but the change of the load may cancel
        self.force = self.own + largest * self.reach + float(np.linalg.norm(self.rate))
        self.typical = self.force / self.reach
        self.forward = forward

    @property
    def left(self) -> np.ndarray:
        """The force that is left, along admissible motions."""
        return self.X.T @ self.at.left

    @functools.cached_property
    def matrix(self) -> np.ndarray:
        """A, on displacements in sizes of the machine and σ; rows over the machine's own force."""
        return np.column_stack([-self.reduced * self.reach, self.rate]) / max(self.force, 1e-300)

    @functools.cached_property
    def tangent(self) -> np.ndarray:
        """The path's direction: (motion of all coordinates, σ) of unit length, forward.

        Of several directions (neutral motions, a bifurcation) the one that goes straight on.
        """
        A = self.matrix
        V, values = np.linalg.svd(A)[2], np.linalg.svd(A, compute_uv=False)
        rank = int(np.sum(values > NEUTRAL * max(np.max(values, initial=0.0), 1e-300)))
        N = V[rank:].T
        wanted = np.append(np.zeros(len(self.at.left)), 1.0) if self.forward is None else self.forward
        x = N @ (N.T @ self.across(wanted))
        if np.linalg.norm(x) < 1e-9:
            x = N[:, -1]
        return self.along(x / np.linalg.norm(x))

    def across(self, direction: np.ndarray) -> np.ndarray:
        """A direction (in the mass metric over the machine's size, σ) on the admissible motions at this place."""
        return np.append(self.X.T @ direction[:-1], direction[-1])

    def along(self, x: np.ndarray) -> np.ndarray:
        """The inverse of `across`."""
        return np.append(self.X @ x[:-1], x[-1])

    def displacement(self, direction: np.ndarray) -> np.ndarray:
        """δ of a direction: its own motion, and how the joints are moved by s."""
        return self.at.displacement(direction[:-1] * self.reach) + direction[-1] * self.drag

    @functools.cached_property
    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the reduced stiffness by rising real part, and their motions δ, one a column."""
        values, vectors = eigenmodes(self.reduced, 1e-9 * self.typical)
        return values, self.at.displacement(self.X @ np.real(vectors))

    @property
    def negative(self) -> int:
        """How many motions fall away."""
        return int(np.sum(np.real(self.modes[0]) < -NEUTRAL * self.typical))

    @property
    def flutters(self) -> bool:
        return bool(np.any(np.abs(np.imag(self.modes[0])) > 1e-7 * self.typical))

    @property
    def good(self) -> bool:
        """Whether the forces balance."""
        return bool(np.linalg.norm(self.left) <= 1e-9 * self.force)


class Event(NamedTuple):
    """A special place between two others."""

    what: str
    place: Place
    mode: np.ndarray  # the motion that becomes free


def _null(basis: Array) -> np.ndarray:
    """An orthonormal basis of what is across the rows."""
    rows = np.asarray(basis)[np.any(np.asarray(basis) != 0, axis=1)]
    if not len(rows):
        return np.eye(basis.shape[1])
    Q = np.linalg.qr(rows.T, mode="complete")[0]
    return Q[:, len(rows) :]


def stepped(place: Place, length: float, fixed: bool = False) -> Place | None:
    """The place of the path after a length along the tangent, or None if it cannot be found so; `fixed`: length is a
    change of s, and s is held."""
    rest, system = place.rest, place.rest.system
    tangent = place.tangent
    if fixed:
        way = tangent / tangent[-1] * length if abs(tangent[-1]) > 1e-6 else np.append(0 * tangent[:-1], length)
    else:
        way = tangent * length
    s = place.s + way[-1]
    q = retracted(system, place.q, place.displacement(way))
    q, gap = closed(Ways(False), rest, np.asarray(s), q, place.at, place.scale)
    if not gap < OPEN:
        return None
    before = np.inf
    for _ in range(CORRECTIONS):
        if not np.all(np.isfinite(q)) or np.max(np.abs(q)) > FAR * max(np.max(place.scale), 1.0):
            return None
        now = Place(rest, s, q, tangent)
        left = np.linalg.norm(now.left) / max(now.force, 1e-300)
        if left <= 1e-15 or (left <= 1e-11 and left > 0.3 * before):
            return now
        if left > max(2 * before, 1e-11):
            return None
        before = left
        border = np.append(np.zeros(len(now.left)), 1.0) if fixed else now.across(tangent)
        step, *_ = np.linalg.lstsq(
            np.vstack([now.matrix, border]), np.append(-now.left / max(now.force, 1e-300), 0.0), rcond=NEUTRAL
        )
        direction = now.along(step)
        s = s + direction[-1]
        q = retracted(system, q, now.displacement(direction))
        q, gap = closed(Ways(False), rest, np.asarray(s), q, now.at, now.scale)
        if not gap < OPEN:
            return None
    now = Place(rest, s, q, tangent)
    return now if now.good else None


class Ending(enum.Enum):
    """How a path ended."""

    reached = "The path reached its end."
    turned = "The path turned back, to {s:.3g} of the way."
    closed = "The path came back to its start: it is closed, and reaches at most {most:.4g} of the way."
    steps = "The path used all its {count} steps, at {s:.4g} of the way."
    stuck = (
        "The path could not be followed beyond {s:.4g} of the way: a joint cannot go on (a dead point, a limit of "
        "reach), or a force law jumps there."
    )


def follow(first: Place, longest: float, least: float, most: int) -> tuple[list[Place], list[Event], Ending]:
    """The places of a path up to s = 1 (or down to `least`), the special ones between them, and how it ended."""
    places, special, length = [first], [], 0.2 * longest
    for _ in range(most):
        place = places[-1]
        found, used, length = _next(place, length, longest)
        if found is None:
            return places, special, Ending.stuck
        if found.s >= 1.0:
            end = stepped(place, 1.0 - place.s, fixed=True)
            if end is not None and end.tangent[-1] * place.tangent[-1] > 0:
                special += _events(place, end, 1.0 - place.s, True)
                return [*places, end], special, Ending.reached
        special += _events(place, found, used)
        places.append(found)
        if len(places) > 2 and _returns(first, place, found):
            return places, special, Ending.closed
        if found.s < least:
            return places, special, Ending.turned
    return places, special, Ending.steps


def _returns(first: Place, a: Place, b: Place) -> bool:
    """Whether the path passes its first place between two others, in the same direction: it is closed. Full turns of
    bodies do not count."""
    if (a.s - first.s) * (b.s - first.s) > 0 or a.tangent[-1] * first.tangent[-1] <= 0:
        return False
    there = stepped(a, first.s - a.s, fixed=True)
    if there is None:
        return False
    return bool(np.max(np.abs(_seen(there) - _seen(first)), initial=0.0) < 1e-6)


def _seen(place: Place) -> np.ndarray:
    """Where the bodies are, whatever their coordinates."""
    system = place.rest.system
    return np.asarray(seen(system, place.q))


def _next(place: Place, length: float, longest: float) -> tuple[Place | None, float, float]:
    """The next place, the length that led to it, and the length to try after it."""
    while length > SHORTEST:
        size = np.max(np.abs(place.displacement(place.tangent)) / place.scale, initial=0.0)
        used = min(length, FARTHEST / max(size, 1e-300))
        found = stepped(place, used)
        if found is not None and (straight := float(place.tangent @ found.tangent)) > BENT:
            return found, used, min(longest, length * (2.0 if straight > STRAIGHT else 1.0))
        length = 0.4 * used
    return None, 0.0, length


def _events(a: Place, b: Place, length: float, fixed: bool = False) -> list[Event]:
    """The limit points and bifurcations between two places of a path, b one step from a."""
    out: list[Event] = []
    changes = b.negative - a.negative
    find = functools.partial(_root, a, length, fixed)
    if a.tangent[-1] * b.tangent[-1] < 0 and len(a.left):
        found = find(lambda p: p.tangent[-1])
        if found is not None:
            out.append(Event("limit point", found, found.displacement(found.tangent)))  # the path itself
            changes -= int(np.sign(changes))
    low = min(a.negative, b.negative)
    neutral = int(np.sum(np.abs(a.modes[0]) <= NEUTRAL * a.typical))  # motions that nothing resists anywhere

    def firm(p: Place) -> np.ndarray:
        """The numbers of the other motions, by rising stiffness."""
        values = np.real(p.modes[0])
        return np.sort(np.argsort(np.abs(values), kind="stable")[neutral:])

    for k in range(low, low + abs(changes)):
        found = find(lambda p, k=k: float(np.real(p.modes[0][firm(p)[k]])))
        if found is not None:
            out.append(Event("bifurcation", found, found.modes[1][:, firm(found)[k]]))
    if a.flutters != b.flutters and len(a.left):
        found = find(lambda p: 1.0 if p.flutters else -1.0, tolerance=1e-6)
        if found is not None:
            values, modes = found.modes
            out.append(Event("flutter", found, modes[:, int(np.argmax(np.abs(np.imag(values))))]))
    return out


def _root(
    a: Place, length: float, fixed: bool, value: Callable[[Place], float], tolerance: float = EXACT
) -> Place | None:
    """The place at which a number of places changes its sign, within a step from a."""
    from scipy.optimize import brentq  # not while a command starts: a tenth of a second

    seen: dict[float, Place] = {0.0: a}

    def at(x: float) -> float:
        found = seen.get(x) or stepped(a, x, fixed)
        if found is None:
            raise ArithmeticError
        seen[x] = found
        return value(found)

    try:
        root: Any = brentq(at, 0.0, length, xtol=tolerance)
        at(root)
    except (ArithmeticError, ValueError):
        return None
    return seen[root]
