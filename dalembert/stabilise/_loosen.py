"""5b· loops that close only approximately: redundant rows dropped within a stated tolerance; on the host.

In a redundant loop with rounded numbers all rows hold approximately, never exactly. The rows that are redundant within
the tolerance are dropped: the rest is consistent, and moves as the exact machine does up to the misfit, which remains
in the dropped rows and is monitored along the motion.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dalembert._results import AssemblyError, DalembertError, Status
from dalembert.equations import assemble_known, residuals
from dalembert.linalg import RANK_TOLERANCE, removable
from dalembert.stabilise._start import EXACT, Assembled, assembled, by_owner, open_rows, row_sizes
from dalembert.systems import AbstractSystem

LARGEST = 1e-4
"""The largest tolerance: a larger gap is not rounding of given numbers."""


class Loosened(NamedTuple):
    """The system without the dropped rows, its start, and the relative gap of each joint of the whole system there."""

    system: AbstractSystem
    rows: tuple[int, ...]
    found: Assembled
    sizes: np.ndarray  # of all rows of the whole
    gaps: dict[str, float]  # the largest first
    tolerance: float
    rank_tolerance: float  # singular values below this share of the largest belong to rows that depend on each other

    @property
    def misfit(self) -> float:
        return max(self.gaps.values(), default=0.0)

    @property
    def message(self) -> str:
        names = ", ".join(f"'{name}' ({gap:.1e})" for name, gap in list(self.gaps.items())[:4])
        return (
            f"redundant joints close only to {self.misfit:.1e} of the machine's size, within the tolerance of "
            f"{self.tolerance:.0e}; what is superfluous of {names} is let go and stays open by that much."
        )


def check_tolerance(tolerance) -> float:
    """A tolerance for closing, or an error."""
    number = np.asarray(tolerance)
    if number.ndim or number.dtype.kind not in "iuf" or not 0 < number <= LARGEST:
        raise DalembertError(
            f"tolerance={tolerance} must be a number between 0 and {LARGEST:g}, of the machine's size."
        )
    return float(number)


def loosened(system: AbstractSystem, q=None, v=None, *, t: float = 0.0, tolerance: float) -> Loosened | None:
    """The system without the rows that do not fit; None if all rows fit exactly, or if no redundant row can be dropped.

    Raises `AssemblyError` if the gap of a dropped row exceeds the tolerance.
    """
    whole = assembled(system, q, v, t=t, tolerance=np.inf)
    left = max(float(np.max(np.abs(np.asarray(x)), initial=0.0)) for x in (whole.position, whole.velocity))
    if not EXACT < left < np.inf or system.bodies is None:
        return None
    at = np.asarray(t, float)
    # a loop with a gap of this size has singular values of this order where the exact one has zeros
    near = max(RANK_TOLERANCE, min(10 * left, tolerance))
    dependence = assemble_known(system, at, *whole.state).dependence(tolerance=near)
    rows = tuple(sorted(removable(dependence.null))) if dependence.redundancy else ()
    if not rows:
        return None
    reduced = system.without_rows(rows)
    start = assembled(reduced, q, v, t=t)
    sizes = np.asarray(row_sizes(system, assemble_known(system, at, *start.state)))
    Phi, phi = (np.asarray(x) for x in residuals(system, at, *start.state))
    speed = 1.0 + np.max(np.abs(np.asarray(start.state.v)) / np.asarray(system.scale()), initial=0.0)
    gap = np.abs(phi) / sizes / speed
    gap[: len(Phi)] = np.maximum(gap[: len(Phi)], np.abs(Phi) / sizes[: len(Phi)])
    if np.max(gap) > tolerance:
        raise AssemblyError(f"{Status.not_assembled.message} {open_rows(system, gap, tolerance)}")
    gaps = by_owner(system, gap, 0.01 * np.max(gap))
    return Loosened(reduced, rows, start, sizes, gaps, tolerance, near)
