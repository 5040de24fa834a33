"""linalg · the least and the greatest values of linear functions on a convex set, with certificates; on the host.

The set is {y : E y + e = 0, A y + b ≥ 0, s₀ ≥ |s₁, s₂, …| for each cone s = F y + f}. For the least value of c·y + c₀
the dual has multipliers z ≥ 0 (z in the same cones) with Aᵀz = c; then −b·z + c₀ is a lower bound of all values, and
what is left between both, the **gap**, is the proof that nothing was missed [Boyd, Vandenberghe 2004, chapter 5]. One
unknown is solved in closed form, linear limits by HiGHS, cones by Clarabel. All numbers are expected of size 1.
"""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

GAP = 1e-9
"""Duality gap up to which an end counts as proven."""
FEASIBLE = 1e-9
"""A set whose limits can be met up to this is not called empty: they are relaxed by what is missing."""
FLAT = 1e-9
"""Limits and functions that change by less than this along any unit step do not change."""


class Cone(NamedTuple):
    """s₀ ≥ |(s₁, s₂, …)| with s = F y + f."""

    F: np.ndarray
    f: np.ndarray


@dataclass(frozen=True)
class ConvexSet:
    """E y + e = 0, A y + b ≥ 0, and cones; `p` unknowns."""

    p: int
    A: np.ndarray
    b: np.ndarray
    E: np.ndarray
    e: np.ndarray
    cones: tuple[Cone, ...] = ()


class Conflict(NamedTuple):
    """A proof that the set is empty: with these weights (linear, cones, equations) Σ z·limit = −`short` for every y."""

    linear: np.ndarray
    cones: tuple[np.ndarray, ...]
    equal: np.ndarray
    short: float


@dataclass(frozen=True)
class Extremes:
    """For each function its least and greatest value (±inf where unbounded) and the y that attain them (for an
    unbounded end: a direction along which it grows); `gap` the largest duality gap; `inside` a point of the set."""

    lower: np.ndarray
    upper: np.ndarray
    at_lower: np.ndarray
    at_upper: np.ndarray
    gap: float
    inside: np.ndarray
    empty: Conflict | None = None
    bounded: bool = True


class MissingSolver(RuntimeError):
    """Cones need a package that is not installed."""


def solves_cones() -> bool:
    """Whether the package is installed that programmes with cones need."""
    return importlib.util.find_spec("clarabel") is not None


def extremes(on: ConvexSet, c: np.ndarray, c0: np.ndarray) -> Extremes:
    """The range of each function c_k·y + c0_k over the set.

    **Arguments** `on`: the set; `c` (k × p) and `c0` (k): the functions.

    **Returns** `Extremes`. An empty set has `empty`, a proof of that, and values that are not numbers.

        >>> import numpy as np
        >>> from dalembert.linalg import ConvexSet, extremes
        >>> square = ConvexSet(2, np.vstack([np.eye(2), -np.eye(2)]), np.ones(4), np.zeros((0, 2)), np.zeros(0))
        >>> extremes(square, np.array([[1.0, 2.0]]), np.array([0.5])).upper
        array([3.5])
    """
    k = len(c)
    start, N, conflict = _without_equations(on)
    if conflict is None:
        A, b = on.A @ N, on.b + on.A @ start
        cones = tuple(Cone(x.F @ N, x.f + x.F @ start) for x in on.cones)
        short, inside, weights = _most_inside(A, b, cones)
        if short > FEASIBLE:
            linear, of_cones = weights
            # what the equations contribute, so that the proof is about y itself
            slope = on.A.T @ linear + sum((x.F.T @ z for x, z in zip(on.cones, of_cones, strict=True)), np.zeros(on.p))
            equal = -np.linalg.lstsq(on.E.T, slope, rcond=None)[0] if len(on.E) else np.zeros(0)
            conflict = Conflict(linear, of_cones, equal, short)
    if conflict is not None:
        nan = np.full(k, np.nan)
        return Extremes(nan, nan, np.full((k, on.p), np.nan), np.full((k, on.p), np.nan), 0.0, start, conflict, False)
    relaxed = max(short, 0.0)
    b = b + relaxed
    cones = tuple(Cone(x.F, x.f + relaxed * (np.arange(len(x.f)) == 0)) for x in cones)
    costs = np.concatenate([c @ N, -(c @ N)])
    costs[np.linalg.norm(costs, axis=1) <= FLAT] = 0.0
    ends, at, gap = _ends(A, b, cones, costs, inside)
    fixed = c @ start + c0
    place = np.where(np.isfinite(ends)[:, None], start, 0.0) + at @ N.T
    return Extremes(
        ends[:k] + fixed,
        -ends[k:] + fixed,
        place[:k],
        place[k:],
        gap,
        start + N @ inside,
        bounded=bool(np.all(np.isfinite(ends))),
    )


def analytic_centre(on: ConvexSet, inside: np.ndarray) -> np.ndarray:
    """The point with the largest product of distances to all limits, from one inside; Newton's method. It depends
    neither on the units of the limits nor on the basis of y. A set without interior, or unbounded, keeps `inside`."""
    start, N, _ = _without_equations(on)
    A, b = on.A @ N, on.b + on.A @ start
    cones = tuple(Cone(x.F @ N, x.f + x.F @ start) for x in on.cones)
    w = N.T @ (inside - start)

    def barrier(w):
        slack = A @ w + b
        value = -np.sum(np.log(slack)) if np.all(slack > 0) else np.inf
        for x in cones:
            s = x.F @ w + x.f
            margin = s[0] ** 2 - s[1:] @ s[1:]
            value += -np.log(margin) if s[0] > 0 and margin > 0 else np.inf
        return value

    value = barrier(w)
    if not np.isfinite(value) or N.shape[1] == 0:
        return inside
    for _ in range(60):
        slack = A @ w + b
        gradient, H = -A.T @ (1 / slack), (A / slack[:, None] ** 2).T @ A
        for x in cones:
            s = x.F @ w + x.f
            J = np.diag([1.0, *(-np.ones(len(s) - 1))])
            margin = s @ J @ s
            g = x.F.T @ (J @ s)
            gradient = gradient - 2 * g / margin
            H = H + 4 * np.outer(g, g) / margin**2 - 2 * x.F.T @ J @ x.F / margin
        step = -np.linalg.lstsq(H, gradient, rcond=1e-13)[0]
        decrement = -gradient @ step
        if decrement < 1e-20:
            break
        length = 1.0
        while barrier(w + length * step) > value - 0.25 * length * decrement and length > 1e-12:
            length *= 0.5
        w = w + length * step
        value = barrier(w)
        if not np.isfinite(value) or np.linalg.norm(w) > 1e8:
            return inside
    return start + N @ w


def _without_equations(on: ConvexSet) -> tuple[np.ndarray, np.ndarray, Conflict | None]:
    """(y₀, N): all y = y₀ + N w solve the equations; or why there is none."""
    if not len(on.E):
        return np.zeros(on.p), np.eye(on.p), None
    U, s, Vt = np.linalg.svd(on.E)
    rank = int(np.sum(s > FLAT))
    start = -Vt[:rank].T @ ((U[:, :rank].T @ on.e) / s[:rank])
    left = on.E @ start + on.e
    size = float(np.linalg.norm(left))
    if size > FEASIBLE:
        none = tuple(np.zeros(len(x.f)) for x in on.cones)
        return start, Vt[rank:].T, Conflict(np.zeros(len(on.b)), none, -left / size, size)
    return start, Vt[rank:].T, None


def _most_inside(A, b, cones) -> tuple[float, np.ndarray, tuple[np.ndarray, tuple[np.ndarray, ...]]]:
    """(s, w, weights): the least s with A w + b + s ≥ 0 (and of cones), s ≥ −1: negative where the set has an interior.

    The weights prove a positive s: Aᵀz = 0, Σ z = 1, −b·z = s.
    """
    p = A.shape[1]
    flat = np.linalg.norm(A, axis=1) <= FLAT if len(A) else np.zeros(0, bool)
    moving = ~flat
    none = tuple(np.zeros(len(x.f)) for x in cones)
    if np.any(flat) and np.min(b[flat]) < -FEASIBLE:  # decided by itself: named alone
        worst = int(np.flatnonzero(flat)[np.argmin(b[flat])])
        return float(-b[worst]), np.zeros(p), (np.eye(len(b))[worst], none)
    if p == 0 or not (np.any(moving) or cones):
        # what is fixed may be short by rounding; cones have no unknowns either
        short = [float(-b[flat].min())] if np.any(flat) else []
        short += [float(np.linalg.norm(x.f[1:]) - x.f[0]) for x in cones]
        worst = max(short, default=-1.0)
        weights = list(none)
        for k, x in enumerate(cones):
            size = np.linalg.norm(x.f[1:])
            if worst > 0 and size - x.f[0] == worst:
                weights[k] = np.concatenate([[1.0], -x.f[1:] / size])
                break
        return worst, np.zeros(p), (np.zeros(len(b)), tuple(weights))
    if p == 1 and not cones:
        return _most_inside_one(A[:, 0], b, moving)
    wide = np.column_stack([A, np.ones(len(A))])[moving]
    wide = np.vstack([wide, np.append(np.zeros(p), 1.0)])
    right = np.append(b[moving], 1.0)
    up = tuple(Cone(np.column_stack([x.F, np.arange(len(x.f)) == 0]), x.f) for x in cones)
    cost = np.append(np.zeros(p), 1.0)
    w, z, of_cones, value = _least(wide, right, up, cost)
    weights = np.zeros(len(b))
    weights[moving] = z[:-1]
    fixed = float(-b[flat].min()) if np.any(flat) else -1.0
    return max(float(value), fixed), w[:p], (weights, of_cones)


def _most_inside_one(a, b, moving) -> tuple[float, np.ndarray, tuple[np.ndarray, tuple[np.ndarray, ...]]]:
    """`_most_inside` of one unknown: the middle of its interval, or the two limits that exclude each other."""
    up, down = np.flatnonzero(moving & (a > 0)), np.flatnonzero(moving & (a < 0))
    least = np.max(-b[up] / a[up], initial=-np.inf)
    greatest = np.min(-b[down] / a[down], initial=np.inf)
    weights = np.zeros(len(b))
    if least <= greatest:
        ends = [x for x in (least, greatest) if np.isfinite(x)]
        away = 1.0 if np.isfinite(least) else -1.0
        inside = 0.5 * (ends[0] + ends[1]) if len(ends) == 2 else ends[0] + away if ends else 0.0
        return -1.0, np.array([inside]), (weights, ())
    rise, fall = 1 / a[up], -1 / a[down]
    short = -(b[up] * rise)[:, None] - (b[down] * fall)[None]
    short = short / (rise[:, None] + fall[None])
    i, j = np.unravel_index(int(np.argmax(short)), short.shape)
    weights[up[i]], weights[down[j]] = rise[i] / (rise[i] + fall[j]), fall[j] / (rise[i] + fall[j])
    return float(short[i, j]), np.array([0.5 * (least + greatest)]), (weights, ())


def _ends(A, b, cones, costs, inside) -> tuple[np.ndarray, np.ndarray, float]:
    """The least value of each cost, where, and the largest gap."""
    k, p = costs.shape
    ends, at = np.zeros(k), np.tile(inside, (k, 1)) if p else np.zeros((k, 0))
    open_ = np.flatnonzero(np.any(costs != 0, axis=1))
    if p == 0 or not open_.size:
        return ends, at, 0.0
    keep = np.linalg.norm(A, axis=1) > FLAT if len(A) else np.zeros(0, bool)
    A, b = A[keep], b[keep]
    if p == 1 and not cones:
        return _interval(A[:, 0], b, costs, ends, at)
    sizes = np.linalg.norm(costs[open_], axis=1)
    falls, along = _recession(A, cones, costs[open_] / sizes[:, None])
    gap = 0.0
    ends[open_[falls]], at[open_[falls]] = -np.inf, along[falls]
    bounded = open_[~falls]
    if not bounded.size:
        return ends, at, gap
    if cones:
        for j in bounded:
            w, z, of_cones, _ = _least(A, b, cones, costs[j])
            ends[j], at[j] = costs[j] @ w, w
            gap = max(gap, _gap(A, b, cones, costs[j], w, z, of_cones))
        return ends, at, gap
    W, Z = _linear(A, b, costs[bounded])
    ends[bounded], at[bounded] = np.sum(costs[bounded] * W, axis=1), W
    for j, w, z in zip(bounded, W, Z, strict=True):
        gap = max(gap, _gap(A, b, (), costs[j], w, z, ()))
    return ends, at, gap


def _interval(a, b, costs, ends, at) -> tuple[np.ndarray, np.ndarray, float]:
    """One unknown: the largest lower and the least upper limit; the limit that attains it is the certificate."""
    least = np.max(-b[a > 0] / a[a > 0], initial=-np.inf)
    greatest = np.min(-b[a < 0] / a[a < 0], initial=np.inf)
    if least > greatest:  # by rounding: a point
        least = greatest = 0.5 * (least + greatest)
    for j in np.flatnonzero(costs[:, 0]):
        y = least if costs[j, 0] > 0 else greatest
        ends[j] = costs[j, 0] * y if np.isfinite(y) else -np.inf
        at[j] = y if np.isfinite(y) else -np.sign(costs[j, 0])
    return ends, at, 0.0


def _recession(A, cones, costs) -> tuple[np.ndarray, np.ndarray]:
    """For each cost whether it falls without end, and the direction: least c·d with A d ≥ 0, −1 ≤ d ≤ 1."""
    p = A.shape[1]
    box = np.vstack([A, np.eye(p), -np.eye(p)])
    right = np.concatenate([np.zeros(len(A)), np.ones(2 * p)])
    if cones:
        flat = tuple(Cone(x.F, np.zeros(len(x.f))) for x in cones)
        found = np.array([_least(box, right, flat, c)[0] for c in costs])
    else:
        found = _linear(box, right, costs)[0]
    # an interior-point method leaves its tolerance on directions that do not exist
    return np.sum(costs * found, axis=1) < (-1e-5 if cones else -FLAT), found


def _least(A, b, cones, c) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...], float]:
    """(w, z, z of cones, c·w) of least c·w."""
    if not cones:
        W, Z = _linear(A, b, c[None])
        return W[0], Z[0], (), float(c @ W[0])
    try:
        import clarabel
    except ImportError as error:
        raise MissingSolver from error
    from scipy.sparse import csc_matrix

    p = len(c)
    G = np.vstack([A, *(x.F for x in cones)])
    g = np.concatenate([b, *(x.f for x in cones)])
    settings: Any = clarabel.DefaultSettings()  # pyright: ignore[reportAttributeAccessIssue]
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    settings.tol_ktratio = 1e-10
    kinds: list[Any] = [clarabel.NonnegativeConeT(len(b))] if len(b) else []  # pyright: ignore[reportAttributeAccessIssue]
    kinds += [clarabel.SecondOrderConeT(len(x.f)) for x in cones]  # pyright: ignore[reportAttributeAccessIssue]
    solver = clarabel.DefaultSolver(csc_matrix((p, p)), c, csc_matrix(-G), g, kinds, settings)  # pyright: ignore[reportAttributeAccessIssue]
    found = solver.solve()
    w, z = np.array(found.x), np.array(found.z)
    cuts = np.cumsum([len(b), *(len(x.f) for x in cones)])
    return w, z[: len(b)], tuple(z[i:j] for i, j in itertools.pairwise(cuts)), float(c @ w)


def _linear(A, b, costs) -> tuple[np.ndarray, np.ndarray]:
    """Least c·w with A w + b ≥ 0 for several c at once: one programme of independent blocks; (w, z) of each."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, kron

    k, p = costs.shape
    answer: Any = linprog(
        costs.ravel(),
        A_ub=csr_array(kron(eye_array(k), csr_array(-A))),
        b_ub=np.tile(b, k),
        bounds=(None, None),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        raise RuntimeError(f"linear programme: {answer.message}")
    W, Z = answer.x.reshape(k, p), np.clip(-answer.ineqlin.marginals.reshape(k, len(b)), 0.0, None)
    return W, Z


def _gap(A, b, cones, c, w, z, of_cones) -> float:
    """What the dual leaves unproven: difference of both values, and what limits and dual are violated by."""
    slope, dual = A.T @ z - c, b @ z
    outside = max(0.0, float(-np.min(A @ w + b, initial=0.0)))
    for x, y in zip(cones, of_cones, strict=True):
        slope, dual = slope + x.F.T @ y, dual + x.f @ y
        s = x.F @ w + x.f
        outside = max(outside, float(np.linalg.norm(s[1:]) - s[0]), float(np.linalg.norm(y[1:]) - y[0]))
    size = max(1.0, float(np.linalg.norm(w)), float(np.linalg.norm(c)))
    return float(abs(c @ w + dual) + np.linalg.norm(slope) * np.linalg.norm(w) + outside) / size
