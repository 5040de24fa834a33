"""7 · questions: redundancy and mobility."""

from dalembert.analysis._redundancy import Check, check
from dalembert.analysis._split import Actuation, Effort, Projectors, Split, actuation, inverse_dynamics, projectors, split_motion

__all__ = [
    "Actuation",
    "Check",
    "Effort",
    "Projectors",
    "Split",
    "actuation",
    "check",
    "inverse_dynamics",
    "projectors",
    "split_motion",
]
