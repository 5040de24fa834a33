"""linalg · rank in the mass metric, on rows scaled to be dimensionless; on the host, in NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RANK_TOLERANCE = 1e-8
"""Singular values below this share of the largest count as zero: well above rounding (1e-15) and above what a
configuration closed to 1e-12 leaves, well below any designed lever ratio."""


class Rank(NamedTuple):
    """The rank of C, the singular values it was read from, and the tolerance."""

    rank: int
    singular_values: np.ndarray
    tolerance: float


def mass_metric_rows(C: np.ndarray, M_blocks: np.ndarray) -> np.ndarray:
    """S C L⁻ᵀ with M = L Lᵀ and S making each row a unit vector: the rows of C measured in the mass metric.

    Its singular values do not change with the unit of length, mass or time, nor with the scale of a row.
    """
    nb, d, _ = M_blocks.shape
    L = np.linalg.cholesky(M_blocks)
    rows = C.reshape(len(C), nb, d).transpose(1, 2, 0)
    scaled = np.linalg.solve(L, rows).transpose(2, 0, 1).reshape(C.shape)
    norms = np.linalg.norm(scaled, axis=1)
    return scaled / np.where(norms > 0, norms, 1.0)[:, None]


def rank_of(C: np.ndarray, M_blocks: np.ndarray, tolerance: float = RANK_TOLERANCE) -> Rank:
    """The rank of C by singular values in the mass metric."""
    if C.size == 0:
        return Rank(0, np.zeros(0), tolerance)
    values = np.linalg.svd(mass_metric_rows(C, M_blocks), compute_uv=False)
    return Rank(int(np.sum(values > tolerance * values[0])) if values[0] > 0 else 0, values, tolerance)
