"""7 · questions: redundancy, mobility, contradictions, small motions, and which reactions are reliable."""

from dalembert.analysis._check import Check, MotionCheck
from dalembert.analysis._compare import Comparison, Entry, compare
from dalembert.analysis._contradictions import Contradiction
from dalembert.analysis._linear import Linearisation, linearise
from dalembert.analysis._redundancy import check
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
from dalembert.analysis._split import (
    ActuatorAuthority,
    Effort,
    Projectors,
    Split,
    actuator_authority,
    inverse_dynamics,
    projectors,
    split_motion,
)

__all__ = [
    "ActuatorAuthority", "Check", "Comparison", "Contradiction", "DependentGroup", "Effort", "Entry",
    "JointSolvability", "Linearisation", "MotionCheck", "Projectors", "Release", "Solvability", "Split", "Term",
    "UniqueSum", "actuator_authority", "b_matrices", "by_qr", "by_ranks", "by_singular_values", "check", "compare",
    "inverse_dynamics", "linearise", "projectors", "split_motion",
]  # fmt: skip
