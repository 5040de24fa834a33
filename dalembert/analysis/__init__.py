"""7 · questions: redundancy and mobility."""

from dalembert.analysis._redundancy import Check, check

__all__ = ["Check", "check"]
