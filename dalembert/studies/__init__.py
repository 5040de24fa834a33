"""8 · studies: many machines: what varies, what is measured of each, and a folder that survives whatever happens."""

from dalembert.studies._file import arguments_of, study_file
from dalembert.studies._run import connected
from dalembert.studies._study import Study, open_study, resume, study
from dalembert.studies._vary import Normal, Uniform, cases_of

open = open_study

__all__ = [
    "Normal", "Study", "Uniform", "arguments_of", "cases_of", "connected", "open", "open_study",
    "resume", "study", "study_file",
]  # fmt: skip
