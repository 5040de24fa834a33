"""linalg · rank in the mass metric, on rows scaled to be dimensionless; on the host, in NumPy."""

from __future__ import annotations

import numpy as np

RANK_TOLERANCE = 1e-8
"""Singular values below this share of the largest count as zero: well above rounding (1e-15) and above what a
configuration closed to 1e-12 leaves, well below any designed lever ratio."""

WEAK = 3e-2
"""Singular values below this share of the largest are weak: the state is beside a singular position, or bodies are of
very unlike mass."""


def measured_rows(
    C: np.ndarray, M_blocks: np.ndarray, share: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(Ĉ, sizes, L): Ĉ = S C L⁻ᵀ with M = L Lᵀ, each row of length 1 (or `share`); `sizes` is the inverse of diag S."""
    nb, d, _ = M_blocks.shape
    L = np.linalg.cholesky(M_blocks)
    rows = C.reshape(len(C), nb, d).transpose(1, 2, 0)
    scaled = np.linalg.solve(L, rows).transpose(2, 0, 1).reshape(C.shape)
    norms = np.linalg.norm(scaled, axis=1)
    sizes = np.where(norms > 0, norms, 1.0)
    if share is not None:
        sizes = np.where((norms > 0) & (share > 0), sizes / np.where(share > 0, share, 1.0), 1.0)
    return scaled / sizes[:, None], sizes, L


def mass_metric_rows(C: np.ndarray, M_blocks: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
    """The rows of C measured in the mass metric.

    Its singular values do not change with the unit of length, mass or time, nor with the scale of a row.
    """
    return measured_rows(C, M_blocks, share)[0]
