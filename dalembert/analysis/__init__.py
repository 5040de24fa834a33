"""7 · questions: redundancy, mobility, contradictions, small motions, and which reactions can be believed."""

from dalembert.analysis._closing import Contradiction
from dalembert.analysis._linear import Linearisation, linearise
from dalembert.analysis._redundancy import Check, MotionCheck, check
from dalembert.analysis._solvability import (
    DependentGroup,
    JointSolvability,
    Release,
    Solvability,
    Term,
    UniqueSum,
    b_matrices,
    by_qr,
    by_ranks,
    by_singular_values,
)

__all__ = [
    "Check",
    "Contradiction",
    "DependentGroup",
    "JointSolvability",
    "Linearisation",
    "MotionCheck",
    "Release",
    "Solvability",
    "Term",
    "UniqueSum",
    "b_matrices",
    "by_qr",
    "by_ranks",
    "by_singular_values",
    "check",
    "linearise",
]
