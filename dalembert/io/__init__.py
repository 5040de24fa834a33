"""edge · files: models and results, in and out."""

from dalembert._disk import write_in_place
from dalembert.io._read import FILE_ENDINGS, ROBOT_ENDINGS, ModelFile, load, read, read_from_text
from dalembert.io._results import read_netcdf, write_csv, write_netcdf, write_runs
from dalembert.io._schema import json_schema
from dalembert.io._study import StudyFile, path_beside, read_study
from dalembert.io._write import save, starter, text_of

__all__ = [
    "FILE_ENDINGS", "ROBOT_ENDINGS", "ModelFile", "StudyFile", "json_schema", "load", "path_beside", "read",
    "read_from_text", "read_netcdf", "read_study", "save", "starter", "text_of", "write_csv", "write_in_place",
    "write_netcdf", "write_runs",
]  # fmt: skip
