"""7 · questions: redundancy and mobility, small motions."""

from dalembert.analysis._linear import Linearisation, linearise
from dalembert.analysis._redundancy import Check, check

__all__ = ["Check", "Linearisation", "check", "linearise"]
