"""linalg · contacts with Coulomb's law at one instant: which push, which of them stick, and which way the others slip.

The shortest x with E x = e that is pushed by contacts, x = x₀ + Gᵀp, where for each of them, w = G x − g,

    0 ≤ pₙ − least ⊥ wₙ ≥ 0        |pₜ| ≤ μ pₙ        pₜ = −μ pₙ wₜ/|wₜ|  where wₜ ≠ 0

The first row of a contact in G is its normal, the others are tangential. x are accelerations, or jumps of velocities;
friction whose slip is given has pₜ = μ pₙ e with a known e. The problem is not symmetric, so it may have no solution or
several [Painlevé 1895]. All choices of what opens, sticks and slips are tried for few contacts, for many those
that a search meets; each of them is a system of linear equations (in space, where directions of slip are unknown, with
these as unknowns).
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import numpy as np

from dalembert.linalg._least import AGREES, DEPENDENT, across, largest

PRESSED = 1e-10
"""Share of the largest right-hand side by which a contact may pull, or friction exceed its limit: rounding."""
SAME = 1e-7
"""Two solutions are one where they differ by less than this share."""
TURNED = 1e-9
"""Sine of the angle between friction and slip that counts as zero."""
SWEEPS = 200
"""Of Gauss–Seidel, for a guess of directions in space."""
EXCHANGES = 60
"""Choices that are tried from one guess."""
CUTS = 60
"""Tangents to friction cones that are added while the best share of a load is looked for."""


class Choice(NamedTuple):
    """Of one contact: whether its gap stays closed (`tight`), and whether it sticks; the direction of the friction of
    one that slips, in units of μ pₙ (None: to be found)."""

    tight: bool
    stick: bool = False
    e: tuple[float, ...] | None = ()


OPEN, STICK = Choice(False), Choice(True, True)


class Pushed(NamedTuple):
    """A solution: x, pushes and rates of all rows of all contacts, what was chosen, the basis of what may be added to
    the pushes without an effect (shared, contacts, rows), and how far the best share of them is from its limits."""

    x: np.ndarray
    p: np.ndarray
    w: np.ndarray
    choices: tuple[Choice, ...]
    null: np.ndarray
    margin: float

    @property
    def shared(self) -> np.ndarray:
        """Of which contacts the pushes are not unique."""
        return np.any(np.abs(self.null) > DEPENDENT, axis=(0, 2))


class Coulomb:
    """The problem: G (contacts, 1 + tangential, n), g, E, e; μ of each contact (inf: it holds while it pushes), `given`
    directions of friction (NaN: unknown), the `least` pushes, and rates below `still` that count as zero (contacts);
    `scale` as of `least`."""

    def __init__(self, G, g, E, e, mu, given=None, least=None, still: np.ndarray | float = 0.0, scale: float = 0.0):
        count, width, n = G.shape
        self.Z, inverse, dependent = across(E, n)
        self.x0 = inverse @ e
        A, u = G @ self.Z, G @ self.x0 - g
        self.size = np.max(np.linalg.norm(A, axis=2), axis=1, initial=0.0)
        self.size = np.where(self.size > 0, self.size, 1.0)
        self.A, self.u = A / self.size[:, None, None], u / self.size[:, None]
        self.mu, self.count, self.width = np.asarray(mu, float), count, width
        self.given = np.full((count, width - 1), np.nan) if given is None else given
        self.least = np.zeros(count) if least is None else least * self.size
        self.still = still / self.size if count else np.zeros(0)
        self.top = float(max(np.max(np.abs(self.u), initial=0.0), np.max(self.least, initial=0.0)))
        self.ambiguous = False  # whether friction was met that depends on a share of a load
        self.scale = scale
        size = max(self.top, largest(E, e), scale)
        self.agrees = float(np.max(np.abs(dependent @ e), initial=0.0)) <= AGREES * size

    # ---- choices -------------------------------------------------------------------------------------------

    def choices(self, k: int) -> list[Choice]:
        """What one contact may do, best first."""
        if self.mu[k] == 0 or not np.isnan(self.given[k]).any():  # smooth, or it slips as it does
            e = (0.0,) * (self.width - 1) if self.mu[k] == 0 else tuple(self.given[k])
            return [Choice(True, False, e), Choice(False, False, e)]
        if np.isinf(self.mu[k]):
            return [STICK, OPEN]
        ways: list[tuple[float, ...] | None] = [(1.0,), (-1.0,)] if self.width == 2 else [None]
        out = [STICK, *(Choice(True, False, e) for e in ways)]
        if self.least[k] > 0:
            return [*out, Choice(False, True), *(Choice(False, False, e) for e in ways)]
        return [*out, OPEN]

    def solutions(self, banned=(), most: int = 2000) -> list[Pushed]:
        """All that are different, those with contacts that stick first; none of what is `banned` (contact, choice: its
        first two entries). With too many choices the first one that is found."""
        if not self.agrees:
            return []
        each = [[x for x in self.choices(k) if (k, *x[:2]) not in banned] for k in range(self.count)]
        if int(np.prod([float(len(x)) for x in each], initial=1.0)) > most:
            one = self.searched(each)
            return [] if one is None else [one]
        found: list[Pushed] = []
        for choices in itertools.product(*each):
            new = self.accepted(self._tried(choices))
            if new is not None and not any(self.same(new, old) for old in found):
                found.append(new)
        return found

    def accepted(self, found: Pushed | None) -> Pushed | None:
        """A solution of one choice, with the best share, if it meets the whole law."""
        if found is None or not self.meets(found, False):
            return None
        found = self.shared_best(found)
        return found if self.meets(found) else None

    def same(self, a: Pushed, b: Pushed) -> bool:
        gap = np.max(np.abs(a.w - b.w) / self.size[:, None], initial=0.0)
        return bool(gap <= SAME * self.top + 4 * np.max(self.still, initial=0.0))

    def searched(self, each) -> Pushed | None:
        """One solution: of guesses, each improved as long as that leads to another choice (Newton's method on the law
        as equations, whose derivative is that of one choice). What does not slip in it sticks, if it can."""
        for guess in self.guesses(each):
            choices, seen = guess, set()
            while choices not in seen and len(seen) < EXCHANGES:
                seen.add(choices)
                tried = self._tried(choices)
                found = self.accepted(tried)
                if found is not None:
                    return self.held(each, found)
                if tried is None:
                    break
                tried = self.shared_best(tried)
                choices = self.read_off(each, tried.p * self.size[:, None], tried.w / self.size[:, None])
        return None

    def held(self, each, found: Pushed) -> Pushed:
        """The same with all contacts sticking that do not slip, if that meets the law."""
        still = np.linalg.norm(found.w[:, 1:], axis=1) / self.size <= self.still + PRESSED * self.top
        choices = tuple(STICK if x.tight and still[k] and STICK in each[k] else x for k, x in enumerate(found.choices))
        other = self.accepted(self._tried(choices)) if choices != found.choices else None
        return found if other is None else other

    def guesses(self, each):
        """All that may stick does; then choices read off Gauss–Seidel's sweeps over the contacts, more and more."""
        yield tuple(x[0] for x in each)
        p = np.zeros((self.count, self.width))
        for sweeps in (10, 100, 1000):
            p = self.swept(p, sweeps)
            yield self.read_off(each, p, np.zeros_like(p))

    def read_off(self, each, p: np.ndarray, w: np.ndarray) -> tuple[Choice, ...]:
        """What pushes and rates of contacts suggest that each of them does."""
        p = p - w  # rows are of length 1
        chosen = []
        for k in range(self.count):
            force = float(np.linalg.norm(p[k, 1:]))
            tight = p[k, 0] > self.least[k] + 1e-9 * self.top
            holds = force < self.mu[k] * p[k, 0] * (1 - 1e-9) if p[k, 0] > 0 else False
            fits = [x for x in each[k] if x.tight == tight and (x.stick == holds or len(each[k]) == 2)]
            along = [x for x in fits if not x.e or float(np.dot(x.e, p[k, 1:])) >= 0]
            chosen.append((along or fits or each[k])[0])
        return tuple(chosen)

    def swept(self, p: np.ndarray, sweeps: int) -> np.ndarray:
        """Pushes after some sweeps: each contact in turn onto its half line and its cone."""
        p, A = p.copy(), self.A.reshape(self.count * self.width, self.A.shape[2])
        diagonal = np.sum(self.A**2, axis=2)
        for _ in range(sweeps):
            for k in range(self.count):
                w = self.A[k] @ (A.T @ p.ravel()) + self.u[k]
                p[k, 0] = max(self.least[k], p[k, 0] - w[0] / max(diagonal[k, 0], 1e-300))
                limit = self.mu[k] * p[k, 0] if p[k, 0] > 0 else 0.0
                if not np.isnan(self.given[k]).any():
                    p[k, 1:] = limit * self.given[k]
                elif limit > 0:
                    w = self.A[k] @ (A.T @ p.ravel()) + self.u[k]
                    wanted = p[k, 1:] - w[1:] / max(float(np.sum(diagonal[k, 1:])), 1e-300)
                    length = float(np.linalg.norm(wanted))
                    p[k, 1:] = wanted * min(1.0, limit / length if length > 0 else 1.0)
                else:
                    p[k, 1:] = 0.0
        return p

    @functools.cached_property
    def rough_guess(self) -> np.ndarray:
        return self.swept(np.zeros((self.count, self.width)), SWEEPS)

    # ---- one choice ----------------------------------------------------------------------------------------

    def solved(self, choices: tuple[Choice, ...]) -> Pushed | None:
        """Pushes and rates with one choice, whatever the law says of them; None where its rows contradict."""
        found = self._tried(choices)
        return None if found is None else self.shared_best(found)

    def shared_best(self, found: Pushed) -> Pushed:
        """With the best share of what several contacts share."""
        if not len(found.null):
            return found
        size = self.size[:, None]
        p, margin = self.best_share(found.choices, found.p * size, found.null * size)
        return found._replace(p=p / size, margin=margin)

    def _tried(self, choices: tuple[Choice, ...]) -> Pushed | None:
        open_ = [k for k, x in enumerate(choices) if x.e is None]
        return self._linear(choices) if not open_ else self._turned(choices, open_)

    def _linear(self, choices) -> Pushed | None:
        base, columns, rows = np.zeros(self.count * self.width), [], []
        for k, x in enumerate(choices):
            at = k * self.width
            tangential = range(at + 1, at + self.width)
            slide = np.zeros(len(base))
            slide[at] = 1.0
            if not x.stick and x.e and self.mu[k] > 0:
                slide[at + 1 : at + self.width] = self.mu[k] * np.asarray(x.e)
            base += 0.0 if x.tight else self.least[k] * slide
            if x.tight:
                columns.append(slide)
                rows.append(at)
            if x.stick:
                columns += [np.eye(len(base))[r] for r in tangential]
                rows += tangential
        A = self.A.reshape(len(base), self.A.shape[2])
        u = self.u.ravel()
        P = np.array(columns).reshape(len(columns), len(base)).T
        p, null, pushed = base, np.zeros((0, len(base))), A.T @ base
        if rows:
            wanted = -(u[rows] + A[rows] @ pushed)
            U, s, Vt = np.linalg.svd(A[rows], full_matrices=False)
            kept = s > DEPENDENT * max(s[0], 1e-300)
            U, s, Vt = U[:, kept], s[kept], Vt[kept]
            coarse = (U.T @ wanted) / s
            if np.max(np.abs(wanted - U @ (s * coarse)), initial=0.0) > 1e-8 * max(self.top, self.scale) + np.max(
                self.still
            ):
                return None
            K = Vt @ (A.T @ P)
            left, size, right = np.linalg.svd(K)
            rank = int(np.sum(size > DEPENDENT * max(size[0], 1e-300))) if len(size) else 0
            y = (right[:rank].T / size[:rank]) @ (left[:, :rank].T @ coarse)
            if np.max(np.abs(K @ y - coarse), initial=0.0) > 1e-8 * max(
                self.top, self.scale, np.max(np.abs(coarse), initial=0.0)
            ):
                return None
            p = base + P @ y
            null = (P @ right[rank:].T).T
            # what has an effect although it does not show in these rows: friction that follows an undetermined load
            if len(null) and np.max(np.abs(A.T @ null.T)) > 1e-7:
                self.ambiguous = True
                return None
            pushed = A.T @ p
        w = (A @ pushed + u).reshape(self.count, self.width)
        p, null = p.reshape(w.shape), null.reshape(len(null), *w.shape)
        x = self.x0 + self.Z @ pushed
        size = self.size[:, None]
        return Pushed(x, p / size, w * size, choices, null / size, 0.0)

    def _turned(self, choices, open_: list[int]) -> Pushed | None:
        """In space: friction against the slip, whose directions are found, first those of the forces that stick."""
        from scipy.optimize import root  # takes a second to import

        def with_angles(angles):
            new = list(choices)
            for k, a in zip(open_, angles, strict=True):
                new[k] = new[k]._replace(e=(float(np.cos(a)), float(np.sin(a))))
            return self._linear(tuple(new))

        def turned(angles):
            found = with_angles(angles)
            if found is None:
                return np.full(len(angles), 1.0)
            w = found.w[open_, 1:] / self.size[open_, None]
            return (w[:, 0] * np.sin(angles) - w[:, 1] * np.cos(angles)) / max(self.top, 1e-300)

        held = self._linear(tuple(STICK if k in open_ and x.tight else x for k, x in enumerate(choices)))
        starts = []
        if held is not None:
            starts.append(np.arctan2(held.p[open_, 2], held.p[open_, 1]))
        starts.append(np.arctan2(self.rough_guess[open_, 2], self.rough_guess[open_, 1]))
        starts.append(np.arctan2(-self.u[open_, 2], -self.u[open_, 1]))
        best = None
        for angles in starts:
            now = angles
            if np.max(np.abs(turned(now)), initial=0.0) > 1e-14:
                now = np.asarray(root(turned, now, tol=1e-15).x)
            found = with_angles(now)
            if found is None or np.max(np.abs(turned(now)), initial=0.0) > TURNED:
                continue
            best = found
            if self.meets(found, False):
                return found
        return best

    # ---- the law -------------------------------------------------------------------------------------------

    def meets(self, found: Pushed, with_shares: bool = True) -> bool:
        """Whether a solution of one choice is one of the whole law."""
        p, w, few = found.p * self.size[:, None], found.w / self.size[:, None], PRESSED * self.top
        shared = found.shared
        if with_shares and shared.any() and found.margin < -few:
            return False
        for k, x in enumerate(found.choices):
            if x.tight and not shared[k] and p[k, 0] < self.least[k] - few:
                return False
            if not x.tight and w[k, 0] < -self.still[k] - few:
                return False
            if x.stick and not shared[k] and np.linalg.norm(p[k, 1:]) > self.limit(k, p[k, 0]) + few:
                return False
            free = self.mu[k] > 0 and np.isnan(self.given[k]).any()
            if free and not x.stick and x.e and float(np.dot(w[k, 1:], x.e)) > self.still[k] + few:
                return False
        return True

    def limit(self, k: int, push: float) -> float:
        return np.inf if np.isinf(self.mu[k]) else self.mu[k] * push

    def best_share(self, choices, p, null) -> tuple[np.ndarray, float]:
        """Of pushes that several contacts share those that are farthest from all limits, and how far."""
        from scipy.optimize import linprog  # takes a second to import

        count = len(null)
        among = [k for k in range(self.count) if np.any(np.abs(null[:, k]) > DEPENDENT)]
        A, b = [], []
        for k in among:
            if choices[k].tight:
                A.append(null[:, k, 0])
                b.append(p[k, 0] - self.least[k])
        cones = [k for k in among if choices[k].stick and np.isfinite(self.mu[k])]
        if not A and not cones:
            return p, 0.0
        rounded = [self.limit(k, p[k, 0]) - float(np.linalg.norm(p[k, 1:])) for k in cones]
        least = min([*b, *rounded])
        if least > 0:  # this share will do
            return p, least

        def cut(k, e):
            A.append(self.mu[k] * null[:, k, 0] - null[:, k, 1:] @ e)
            b.append(self.mu[k] * p[k, 0] - e @ p[k, 1:])

        for k in cones:
            for e in np.vstack([np.eye(self.width - 1), -np.eye(self.width - 1)]):
                cut(k, e)
        top = max(float(np.max(np.abs(p))), 1e-300)
        own, margin = p, 0.0
        for _ in range(CUTS):
            table = np.hstack([-np.array(A), np.ones((len(A), 1))])
            found = linprog(
                np.append(np.zeros(count), -1.0), A_ub=table, b_ub=np.array(b) / top,
                bounds=[(None, None)] * count + [(None, 1.0)], method="highs",
            )  # fmt: skip
            if found.status != 0:
                break
            margin = float(-found.fun) * top  # at most so much, as tangents are outside their cones
            own = p + np.tensordot(found.x[:-1] * top, null, 1)
            left = [self.mu[k] * own[k, 0] - float(np.linalg.norm(own[k, 1:])) for k in cones]
            inside = min([margin, *left])
            if inside >= margin - 1e-13 * top or inside > 0.1 * margin > 0:
                return own, inside
            for k, gap in zip(cones, left, strict=True):
                if gap < margin:
                    cut(k, own[k, 1:] / np.linalg.norm(own[k, 1:]))
        return own, margin
