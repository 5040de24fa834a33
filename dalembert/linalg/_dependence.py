"""linalg · which rows of C depend on each other: null spaces, and dependencies with few members; on the host.

Everything is read from Ĉ = S C L⁻ᵀ (unit rows in the mass metric, M = L Lᵀ), so that nothing depends on units. A vector
z with zᵀĈ = 0 is a dependency among rows, and at the same time a set of multipliers without any effect: λ + S z gives
the same reaction Cᵀλ.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dalembert.linalg._rank import RANK_TOLERANCE, measured_rows

ZERO = 1e-7
"""Below this share of its natural size a number counts as zero in a null vector: null vectors of well separated
singular values are exact to 1e-12 and better, designed ratios of lengths are far above."""
LARGE = 150
"""From this number of rows on, full rank is first tested by a sparse factorisation."""
SEARCHED = 150
"""Largest group of dependent rows in which short dependencies are searched for."""


class Dependence:
    """Ĉ = U Σ Vᵀ and what follows from it: `rank`, `null` (m × p, orthonormal, ĈᵀZ = 0), `sizes` (λ = λ̂/sizes)."""

    def __init__(
        self, C: np.ndarray, M_blocks: np.ndarray, tolerance: float = RANK_TOLERANCE, share: np.ndarray | None = None
    ):
        self.C = np.asarray(C, float)
        self.tolerance = tolerance
        self.rows, self.sizes, self.L = measured_rows(self.C, np.asarray(M_blocks, float), share)

    def within(self, tolerance: float) -> Dependence:
        """The same rows under another threshold."""
        _ = self.singular_values  # computed once for both
        other = copy.copy(self)
        other.tolerance = tolerance
        for found in ("rank", "null"):
            other.__dict__.pop(found, None)
        return other

    @functools.cached_property
    def _left(self) -> np.ndarray:
        """U (m × m)."""
        return np.linalg.svd(self.rows)[0] if self.rows.size else np.eye(len(self.rows))

    @functools.cached_property
    def singular_values(self) -> np.ndarray:
        return np.linalg.svd(self.rows, compute_uv=False) if self.rows.size else np.zeros(0)

    @functools.cached_property
    def _sparse(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """The solver of [I Ĉᵀ; Ĉ 0] where many rows are independent by a wide margin; else None (use dense algebra)."""
        return solver_if_independent(self.rows) if len(self.rows) >= LARGE else None

    @functools.cached_property
    def rank(self) -> int:
        if self._sparse is not None:
            return len(self.rows)
        s = self.singular_values
        return int(np.sum(s > self.tolerance * s[0])) if s.size and s[0] > 0 else 0

    @property
    def redundancy(self) -> int:
        return len(self.rows) - self.rank

    @property
    def weakest(self) -> float:
        """The least singular value that counts, as a share of the largest."""
        s = self.singular_values
        return float(s[self.rank - 1] / s[0]) if self.rank else 0.0

    @functools.cached_property
    def null(self) -> np.ndarray:
        """Z by singular values."""
        if self.redundancy == 0:
            return np.zeros((len(self.rows), 0))
        return self._left[:, self.rank :]

    def null_by_qr(self) -> np.ndarray:
        """Z by QR with column pivoting, another basis of the same space."""
        return null_by_qr(self.rows, self.tolerance)[1]

    def multipliers(self, h: np.ndarray, Gamma: np.ndarray) -> np.ndarray:
        """One λ with M v̇ = h + Cᵀλ, C v̇ = Γ (of least norm in Ĉ's measure): enough to compute what is unique."""
        free = np.linalg.solve(self.L, h.reshape(*self.L.shape[:2], 1)).ravel()
        if self._sparse is not None:  # x̂ = free + Ĉᵀy, Ĉ x̂ = right
            return -self._sparse(np.concatenate([free, Gamma / self.sizes]))[len(free) :] / self.sizes
        # on an orthonormal basis of the rows' combinations the rows are independent: Bᵀ = Q R
        basis = self._left[:, : self.rank] if self.redundancy else None
        B = self.rows if basis is None else basis.T @ self.rows
        right = Gamma / self.sizes if basis is None else basis.T @ (Gamma / self.sizes)
        Q, R = np.linalg.qr(B.T)
        y = np.linalg.solve(R, np.linalg.solve(R.T, right) - Q.T @ free)
        return (y if basis is None else basis @ y) / self.sizes


def solver_if_independent(rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """The solver of [I Ĉᵀ; Ĉ 0], if unit rows are independent by a wide margin (σ > 1e-4): one sparse factorisation.

    None only means that dense algebra must decide.
    """
    import scipy.sparse
    from scipy.sparse.linalg import splu

    m, n = rows.shape
    if m > n:
        return None
    C = scipy.sparse.csc_array(rows)
    K = scipy.sparse.block_array([[scipy.sparse.eye_array(n), C.T], [C, None]], format="csc")
    try:
        solve = splu(K).solve
    except RuntimeError:  # exactly singular
        return None
    # the eigenvalue of K nearest to zero is −σ² of the least singular value: inverse iteration
    x = np.random.default_rng(7).standard_normal(n + m)
    growth = 0.0
    for _ in range(12):
        x /= np.linalg.norm(x)
        x = solve(x)
        growth = float(np.linalg.norm(x))
        if not np.isfinite(growth) or growth > 1e8:
            return None

    def refined(right: np.ndarray) -> np.ndarray:
        x = solve(right)
        return x + solve(right - K @ x)

    return refined


def null_by_qr(rows: np.ndarray, tolerance: float = RANK_TOLERANCE) -> tuple[int, np.ndarray]:
    """(rank, last p columns of Q) of C E = Q R with column pivoting [Wojtyra, Fraczek 2013, eqs. 21, 27]."""
    if rows.size == 0:
        return 0, np.eye(len(rows))
    from scipy.linalg import qr

    factors: Any = qr(rows, pivoting=True)
    Q, R, _ = factors
    diagonal = np.abs(np.diagonal(R))
    rank = int(np.sum(diagonal > tolerance * diagonal[0])) if diagonal[0] > 0 else 0
    return rank, Q[:, rank:]


class Combination(NamedTuple):
    """A linear relation Σ coefficients · rows[members] = 0 that needs all of its members; the largest is ±1."""

    members: tuple[int, ...]
    coefficients: np.ndarray


def short_dependencies(null: np.ndarray) -> list[list[Combination]]:
    """A basis of the column space of `null` (k × d) made of vectors with few members, cluster by cluster.

    Each is a minimal dependent group (a circuit of the rows' matroid); clusters are groups of rows that no dependency
    connects. The clusters are unique; of the many bases one of short members is picked by linear programmes
    (least sum of absolute values with one member held at 1) and always the same one.
    """
    echelon = _echelon(null)
    out = []
    for rows, columns in _clusters(echelon):
        found = [_combination(rows, column) for column in echelon[np.ix_(rows, columns)].T]
        if len(columns) > 1 and len(rows) <= SEARCHED:
            found = _shortest(rows, echelon[np.ix_(rows, columns)], found)
        out.append(found)
    return out


def _echelon(null: np.ndarray) -> np.ndarray:
    """The same column space with an identity at pivot rows; rounding is set to zero.

    At each step the row with the largest share in what is left of the space: a choice that does not depend on the
    basis the space is given in. Of rows as good as equal it is the first, so that rounding cannot change it.
    """
    left = np.linalg.qr(null)[0] if null.size else np.array(null, float)
    basis, pivots = left.copy(), []
    for _ in range(left.shape[1]):
        size = np.linalg.norm(left, axis=1)
        row = int(np.argmax(size > 0.999 * size.max()))
        along = left[row] / size[row]
        left = left - np.outer(left @ along, along)
        left[row] = 0
        pivots.append(row)
    E = np.linalg.solve(basis[pivots].T, basis.T).T if pivots else basis
    E[np.abs(E) < ZERO] = 0
    return E


def _clusters(echelon: np.ndarray) -> list[tuple[list[int], list[int]]]:
    """Rows and columns of the blocks into which an echelon form falls apart."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    k, d = echelon.shape
    if d == 0:
        return []
    row, column = np.nonzero(echelon)
    link = csr_array((np.ones(len(row)), (row, k + column)), shape=(k + d, k + d))
    components: Any = connected_components(link, directed=False)
    label = components[1]
    touched = np.flatnonzero(np.any(echelon != 0, axis=1))
    names = dict.fromkeys(label[touched])  # in the order of their first rows
    return [(np.flatnonzero(label[:k] == x).tolist(), np.flatnonzero(label[k:] == x).tolist()) for x in names]


def _combination(rows: Sequence[int], column: np.ndarray) -> Combination:
    support = np.flatnonzero(np.abs(column) > ZERO * np.max(np.abs(column)))
    values = column[support]
    lead = values[int(np.argmax(np.abs(values) > 0.999 * np.max(np.abs(values))))]
    return Combination(tuple(int(rows[int(i)]) for i in support), values / lead)


def _shortest(rows, basis: np.ndarray, found: list[Combination]) -> list[Combination]:
    candidates = {c.members: c for c in found}
    for held in range(len(rows)):
        vector = _sparse_vector(basis, held)
        if vector is not None:
            c = _combination(rows, vector)
            candidates.setdefault(c.members, c)
    chosen: list[Combination] = []
    span = np.zeros((len(rows), 0))
    index = {row: i for i, row in enumerate(rows)}
    for c in sorted(candidates.values(), key=lambda c: (len(c.members), c.members)):
        vector = np.zeros(len(rows))
        vector[[index[r] for r in c.members]] = c.coefficients
        rest = vector - span @ (span.T @ vector)
        rest -= span @ (span.T @ rest)
        if np.linalg.norm(rest) > 1e-6 * np.linalg.norm(vector):
            span = np.column_stack([span, rest / np.linalg.norm(rest)])
            chosen.append(c)
        if len(chosen) == basis.shape[1]:
            break
    return chosen


def _sparse_vector(basis: np.ndarray, held: int) -> np.ndarray | None:
    """The vector of least Σ|z| in the span with z[held] = 1, brought to exact zeros."""
    from scipy.linalg import null_space
    from scipy.optimize import linprog

    k, d = basis.shape
    weight = 1 + 1e-3 * np.arange(k) / k  # ties go to the first rows
    # z = B y = a − b with a, b ≥ 0
    cost = np.concatenate([np.zeros(d), weight, weight])
    equal = np.block([[basis, -np.eye(k), np.eye(k)], [basis[held], np.zeros(2 * k)]])
    bounds = [(None, None)] * d + [(0, None)] * (2 * k)
    answer = linprog(cost, A_eq=equal, b_eq=np.append(np.zeros(k), 1.0), bounds=bounds, method="highs-ds")
    if not answer.success:
        return None
    z = basis @ answer.x[:d]
    zero = np.abs(z) <= 1e-6 * np.max(np.abs(z))
    free = null_space(basis[zero], rcond=1e-9) if zero.any() else np.eye(d)
    if free.shape[1] != 1:
        return None  # not a vertex: another row's programme finds the parts
    return basis @ free[:, 0]


def removable(
    null: np.ndarray,
    preference: Sequence[float] | None = None,
    share: float = 0.3,
    together: Sequence[object] | None = None,
) -> list[int]:
    """p rows whose removal leaves the rank as it is and the rest independent, of the least preference numbers.

    At each step, of the rows whose share in what is left of the null space is within `share` of the largest, the one
    of least preference number (default: the last row), so that the rest stays well conditioned. Rows that are
    `together` (equal entries) with a chosen one come before others of their preference.
    """
    left = np.array(null, float)
    order = -np.arange(len(left), dtype=float) if preference is None else np.array(preference, float)
    chosen: list[int] = []
    for _ in range(left.shape[1]):
        size = np.linalg.norm(left, axis=1)
        good = np.flatnonzero(size >= share * size.max())
        # in each class of preference the largest share, and of equal ones the last
        best = good[order[good] == order[good].min()]
        row = int(best[np.flatnonzero(size[best] > 0.999 * size[best].max())[-1]])
        along = left[row] / size[row]
        left -= np.outer(left @ along, along)
        left[row] = 0
        chosen.append(row)
        if together is not None:
            order[[k for k, x in enumerate(together) if x == together[row] and order[k] == order[row]]] -= 0.5
    return sorted(chosen)
