"""linalg · the shortest x that meets inequalities and equations, with its multipliers: what pushes and cannot pull.

min ½ xᵀx with G x ≥ g and E x = e, so x = Gᵀμ + Eᵀν with 0 ≤ μ ⊥ G x − g ≥ 0. This is a linear complementarity problem
with the matrix G P Gᵀ, P the projector across E, which may be singular: x is unique all the same, μ is not. It is
solved as a problem of non-negative least squares, which ends after finitely many exchanges whatever the rank [Lawson,
Hanson 1974, chapter 23]; SciPy has that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

DEPENDENT = 1e-10
"""A row counts as zero, or a direction as dependent, below this share."""
TIGHT = 1e-9
"""An inequality counts as tight within this share of the largest right-hand side."""


class Least(NamedTuple):
    """The shortest x, the multipliers of inequalities and equations, and whether those of inequalities are unique; x is
    None where nothing meets them all."""

    x: np.ndarray | None
    mu: np.ndarray
    nu: np.ndarray
    unique: np.ndarray


def least(G: np.ndarray, g: np.ndarray, E: np.ndarray, e: np.ndarray) -> Least:
    """The shortest x with G x ≥ g and E x = e; of several μ the shortest that is not negative, if there is one so."""
    n = G.shape[1]
    Z, inverse, dependent = across(E, n)
    x = inverse @ e
    none = Least(None, np.zeros(len(g)), np.zeros(len(e)), np.ones(len(g), bool))
    size = max(np.max(np.abs(e), initial=0.0), np.max(np.abs(g), initial=0.0))
    if len(e) and np.max(np.abs(dependent @ e), initial=0.0) > 1e-7 * size:
        return none
    A, b = G @ Z, g - G @ x
    norms = np.linalg.norm(A, axis=1)
    whole = np.linalg.norm(G, axis=1)
    there = norms > DEPENDENT * np.where(whole > 0, whole, 1.0)
    if np.any(b[~there] > 1e-7 * size):
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


def across(E: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An orthonormal basis of the directions that E leaves free, its pseudo-inverse, and its left null vectors."""
    if not len(E):
        return np.eye(n), np.zeros((n, 0)), np.zeros((0, 0))
    sizes = np.linalg.norm(E, axis=1)
    sizes = np.where(sizes > 0, sizes, 1.0)
    U, s, Vt = np.linalg.svd(E / sizes[:, None])
    rank = int(np.sum(s > DEPENDENT * s[0])) if len(s) else 0
    inverse = (Vt[:rank].T / s[:rank]) @ U[:, :rank].T / sizes
    return Vt[rank:].T, inverse, U[:, rank:].T / sizes


def _shortest(A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The same for unit rows, without equations."""
    from scipy.optimize import nnls  # takes a second to import

    top = float(np.max(b))
    zero = np.zeros(len(b))
    if top <= 0:
        return np.zeros(A.shape[1]), zero, np.ones(len(b), bool)
    right = b / top
    u, left = nnls(np.vstack([A.T, right]), np.append(np.zeros(A.shape[1]), 1.0), maxiter=100 * (len(b) + 10))
    if left <= 1e-9:  # nothing meets them all
        return None
    y = A.T @ u / (1.0 - right @ u)
    acting = u > 0
    sharp = np.linalg.lstsq(A[acting], right[acting], rcond=DEPENDENT)[0]
    if np.all(A @ sharp >= right - TIGHT) and np.linalg.norm(sharp) <= np.linalg.norm(y) * (1 + 1e-7):
        y = sharp
    tight = np.flatnonzero(A @ y - right <= TIGHT)
    mu, _, rank, _ = np.linalg.lstsq(A[tight].T, y, rcond=DEPENDENT)
    if np.min(mu, initial=0.0) < -TIGHT * np.max(np.abs(mu), initial=0.0):
        mu = nnls(A[tight].T, y, maxiter=100 * (len(tight) + 10))[0]
    out, unique = zero.copy(), np.ones(len(b), bool)
    out[tight] = np.maximum(mu, 0.0)
    if rank < len(tight):  # those that take part in a dependency
        null = np.linalg.svd(A[tight].T)[2][rank:]
        unique[tight] = np.max(np.abs(null), axis=0) <= 1e-7
    return y * top, out * top, unique
