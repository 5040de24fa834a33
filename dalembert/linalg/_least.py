"""linalg · the shortest x that meets inequalities and equations, with its multipliers: what pushes and cannot pull.

min ½ xᵀx with G x ≥ g and E x = e, so x = Gᵀμ + Eᵀν with 0 ≤ μ ⊥ G x − g ≥ 0. This is a linear complementarity problem
with the matrix G P Gᵀ, P the projector across E, which may be singular: x is unique all the same, μ is not. It is
solved as a problem of non-negative least squares, which ends after finitely many exchanges whatever the rank [Lawson,
Hanson 1974, chapter 23].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

DEPENDENT = 1e-10
"""A row counts as zero, or a direction as dependent, below this share."""
CHANGES = 1e-13
"""A column takes part if it shortens what is left by more than this."""
AGREES = 1e-7
"""Right-hand sides of dependent rows agree within this share of the largest."""
TIGHT = 1e-9
"""An inequality counts as tight within this share of the largest right-hand side."""


class Least(NamedTuple):
    """The shortest x, the multipliers of inequalities and equations, and whether those of inequalities are unique; x is
    None where nothing meets them all."""

    x: np.ndarray | None
    mu: np.ndarray
    nu: np.ndarray
    unique: np.ndarray


def least(G: np.ndarray, g: np.ndarray, E: np.ndarray, e: np.ndarray, scale: float = 0.0) -> Least:
    """The shortest x with G x ≥ g and E x = e; of several μ (of rows scaled to length 1) the shortest that is not
    negative. `scale`: the length of the vectors that the right-hand sides are differences of, whose rounding they
    contain."""
    n = G.shape[1]
    Z, inverse, dependent = across(E, n)
    x = inverse @ e
    none = Least(None, np.zeros(len(g)), np.zeros(len(e)), np.ones(len(g), bool))
    whole = lengths(G)
    size = max(largest(E, e), np.max(np.abs(g) / whole, initial=0.0), scale)
    if np.max(np.abs(dependent @ e), initial=0.0) > AGREES * size:
        return none
    A, b = G @ Z, g - G @ x
    norms = np.linalg.norm(A, axis=1)
    there = norms > DEPENDENT * whole
    if np.any((b / whole)[~there] > AGREES * size):
        return none
    y, mu, unique = np.zeros(A.shape[1]), np.zeros(len(g)), np.ones(len(g), bool)
    if there.any():
        scaled, wanted = A[there] / norms[there, None], b[there] / norms[there]
        found = _shortest(scaled, wanted)
        if found is None:
            return none
        y, own, sure = found
        mu[there], unique[there] = own / norms[there], sure
    x = x + Z @ y
    return Least(x, mu, inverse.T @ (x - G.T @ mu), unique)


def lengths(E: np.ndarray) -> np.ndarray:
    """The lengths of rows, 1 of those that are zero."""
    sizes = np.linalg.norm(E, axis=1)
    return np.where(sizes > 0, sizes, 1.0)


def largest(E: np.ndarray, e: np.ndarray) -> float:
    """The largest right-hand side of rows scaled to length 1, without those that are zero."""
    return float(np.max(np.abs(e / lengths(E))[np.any(E != 0, axis=1)], initial=0.0))


def across(E: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An orthonormal basis of the directions that E leaves free, its pseudo-inverse, and its left null vectors, of rows
    scaled to length 1.

    Rows of zeros have none: nothing that x does changes them (in joint coordinates the tree keeps them), and their
    right-hand sides are rounding."""
    there = np.any(E != 0, axis=1)
    if not there.any():
        return np.eye(n), np.zeros((n, len(E))), np.zeros((0, len(E)))
    sizes = lengths(E)[there]
    U, s, Vt = np.linalg.svd(E[there] / sizes[:, None])
    rank = int(np.sum(s > DEPENDENT * s[0]))
    inverse, null = np.zeros((n, len(E))), np.zeros((len(sizes) - rank, len(E)))
    inverse[:, there] = (Vt[:rank].T / s[:rank]) @ U[:, :rank].T / sizes
    null[:, there] = U[:, rank:].T / sizes
    return Vt[rank:].T, inverse, null


def _shortest(A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The same for unit rows, without equations."""
    top = float(np.max(b))
    zero = np.zeros(len(b))
    if top <= 0:
        return np.zeros(A.shape[1]), zero, np.ones(len(b), bool)
    right = b / top
    y = _point(A, right)
    if y is None:
        return None
    tight = np.flatnonzero(A @ y - right <= TIGHT)
    mu, _, rank, _ = np.linalg.lstsq(A[tight].T, y, rcond=DEPENDENT)
    if np.min(mu, initial=0.0) < -TIGHT * np.max(np.abs(mu), initial=0.0):
        mu = _not_negative(A[tight].T, y, mu, int(rank))
    out, unique = zero.copy(), np.ones(len(b), bool)
    out[tight] = np.maximum(mu, 0.0)
    if rank < len(tight):  # those that take part in a dependency
        null = np.linalg.svd(A[tight].T)[2][rank:]
        unique[tight] = np.max(np.abs(null), axis=0) <= 1e-7
    return y * top, out * top, unique


def _point(A: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The shortest y with A y ≥ b, of which the largest is 1; None where nothing meets them all."""
    K, d = np.vstack([A.T, b]), np.append(np.zeros(A.shape[1]), 1.0)
    u = _not_negative_squares(K, d)
    if np.linalg.norm(K @ u - d) <= 1e-9:
        return None
    y = A.T @ u / (1.0 - b @ u)
    acting = u > 0
    sharp = np.linalg.lstsq(A[acting], b[acting], rcond=DEPENDENT)[0]
    better = np.all(A @ sharp >= b - TIGHT) and np.linalg.norm(sharp) <= np.linalg.norm(y) * (1 + 1e-7)
    return sharp if better else y


def _not_negative(A: np.ndarray, y: np.ndarray, mu: np.ndarray, rank: int) -> np.ndarray:
    """The shortest μ ≥ 0 with A μ = y; `mu` is the shortest of any sign, and A has this rank."""
    Z = np.linalg.svd(A)[2][rank:].T
    norms = np.linalg.norm(Z, axis=1)
    there = norms > DEPENDENT
    right = -mu[there] / norms[there]
    top = float(np.max(right, initial=0.0))
    w = _point(Z[there] / norms[there, None], right / top) if top > 0 else None
    if w is None:  # rounding at the border
        return _not_negative_squares(A, y)
    return mu + Z @ (top * w)


def _not_negative_squares(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The u ≥ 0 with the shortest A u − b [Lawson, Hanson 1974, algorithm 23.10]. (SciPy's can return a wrong one where
    columns depend on each other.)"""
    count = A.shape[1]
    u, taking, refused = np.zeros(count), np.zeros(count, bool), np.zeros(count, bool)
    for _ in range(30 * (count + 10)):
        gain = np.where(taking | refused, -np.inf, A.T @ (b - A @ u))
        j = int(np.argmax(gain)) if count else 0
        if not count or gain[j] <= CHANGES:
            break
        taking[j] = True
        while True:
            wanted = np.zeros(count)
            wanted[taking] = np.linalg.lstsq(A[:, taking], b, rcond=None)[0]
            if taking[j] and wanted[j] <= 0 and u[j] == 0:  # rounding: it gains nothing
                taking[j], refused[j] = False, True
                break
            below = taking & (wanted <= 0)
            if not below.any():
                u, refused = wanted, np.zeros(count, bool)
                break
            step = np.min(u[below] / (u[below] - wanted[below]))
            u = np.where(taking, u + step * (wanted - u), 0.0)
            taking &= ~(below & (u <= CHANGES * np.max(u)))
            u[~taking] = 0.0
    return u
