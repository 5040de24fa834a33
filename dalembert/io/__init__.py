"""edge · files: results out; written beside and moved into place, so nothing is ever half-written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from dalembert._results import DalembertError

__all__ = ["write_csv", "write_netcdf"]


def write_netcdf(dataset, path) -> Path:
    """Write an xarray Dataset as netCDF-4."""
    return _in_place(path, ".nc", lambda temporary: dataset.to_netcdf(temporary, engine="netcdf4"))


def write_csv(dataset, path) -> Path:
    """Write the time-dependent variables as one table; columns are `variable[label,label] (unit)`."""
    import pandas as pd

    columns = {}
    for name, variable in dataset.data_vars.items():
        if "time" not in variable.dims:
            continue
        others = [d for d in variable.dims if d != "time"]
        unit = variable.attrs.get("units")
        tail = f" ({unit})" if unit else ""
        if not others:
            columns[f"{name}{tail}"] = variable.values
            continue
        stacked = variable.stack(column=others)
        for k, label in enumerate(stacked["column"].values):
            columns[f"{name}[{','.join(map(str, label))}]{tail}"] = stacked.values[:, k]
    table = pd.DataFrame(columns, index=pd.Index(dataset["time"].values, name="time (s)"))
    return _in_place(path, ".csv", lambda temporary: table.to_csv(temporary, float_format="%.17g"))


def _in_place(path, suffix: str, write: Callable[[str], object]) -> Path:
    path = Path(path)
    if not path.parent.is_dir():
        raise DalembertError(f"Cannot write '{path}': the folder '{path.parent}' does not exist.")
    if path.is_dir():
        raise DalembertError(f"Cannot write '{path}': it is a folder.")
    try:
        handle, temporary = tempfile.mkstemp(suffix=suffix, prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise DalembertError(f"Cannot write '{path}': {error.strerror}.") from None
    try:
        write(temporary)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        raise DalembertError(f"Cannot write '{path}': {error.strerror}.") from None
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path
