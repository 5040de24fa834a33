"""7 · questions: redundancy and mobility."""

from dalembert.analysis._compare import Comparison, Entry, compare
from dalembert.analysis._redundancy import Check, check
from dalembert.analysis._split import (
    Actuation,
    Effort,
    Projectors,
    Split,
    actuation,
    inverse_dynamics,
    projectors,
    split_motion,
)

__all__ = [
    "Actuation",
    "Check",
    "Comparison",
    "Effort",
    "Entry",
    "Projectors",
    "Split",
    "actuation",
    "check",
    "compare",
    "inverse_dynamics",
    "projectors",
    "split_motion",
]
