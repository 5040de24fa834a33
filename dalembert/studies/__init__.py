"""8 · studies: many machines: what varies, what is measured of each, a folder that survives whatever happens; designs
that are best, parameters that fit, and what depends on what."""

from dalembert.studies._file import arguments_of, study_file
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
from dalembert.studies._run import connected
from dalembert.studies._sensitivity import (
    Sensitivities,
    Uncertainty,
    WorstCase,
    sensitivities,
    uncertainty,
    worst_case,
)
from dalembert.studies._study import Study, open_study, resume, study
from dalembert.studies._vary import Normal, Uniform, cases_of

open = open_study

__all__ = [
    "Bound", "Experiment", "Identified", "Normal", "Optimum", "Quantity", "Sensitivities", "Study", "Uncertainty",
    "Uniform", "WorstCase", "arguments_of", "at_time", "cases_of", "connected", "deviation", "final", "frequency",
    "identify", "integral", "largest", "least", "mean", "open", "open_study", "optimise", "over", "parameter", "peak",
    "resting", "resume", "rms", "sensitivities", "study", "study_file", "uncertainty", "worst_case",
]  # fmt: skip
