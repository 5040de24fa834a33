"""edge · files: models in and out, results out."""

from dalembert._disk import write_in_place
from dalembert.io._read import FILE_ENDINGS, ROBOT_ENDINGS, ModelFile, load, read
from dalembert.io._results import write_csv, write_netcdf
from dalembert.io._schema import json_schema
from dalembert.io._write import save, starter, text_of

__all__ = [
    "FILE_ENDINGS",
    "ROBOT_ENDINGS",
    "ModelFile",
    "json_schema",
    "load",
    "read",
    "save",
    "starter",
    "text_of",
    "write_csv",
    "write_in_place",
    "write_netcdf",
]
