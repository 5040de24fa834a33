"""8 · studies: many machines: designs that are best, parameters that fit, and what depends on what."""

from dalembert.studies._identified import Identified
from dalembert.studies._identify import Experiment, identify
from dalembert.studies._optimise import optimise
from dalembert.studies._optimum import Optimum
from dalembert.studies._quantities import (
    Bound,
    Quantity,
    at_time,
    deviation,
    final,
    frequency,
    integral,
    largest,
    least,
    mean,
    over,
    parameter,
    peak,
    resting,
    rms,
)
from dalembert.studies._sensitivity import (
    Sensitivities,
    Uncertainty,
    WorstCase,
    sensitivities,
    uncertainty,
    worst_case,
)

__all__ = [
    "Bound", "Experiment", "Identified", "Optimum", "Quantity", "Sensitivities", "Uncertainty", "WorstCase", "at_time",
    "deviation", "final", "frequency", "identify", "integral", "largest", "least", "mean", "optimise", "over",
    "parameter", "peak", "resting", "rms", "sensitivities", "uncertainty", "worst_case",
]  # fmt: skip
