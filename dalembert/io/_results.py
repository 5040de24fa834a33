"""edge · files: results out and in, as netCDF, or out as a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dalembert._disk import write_in_place
from dalembert._results import DalembertError


def write_netcdf(dataset, path, groups: Mapping[str, Any] | None = None) -> Path:
    """Write an xarray Dataset as netCDF-4, with further ones in groups of their own."""

    def write(temporary: str) -> None:
        dataset.to_netcdf(temporary, engine="netcdf4")
        for name, data in (groups or {}).items():
            data.to_netcdf(temporary, engine="netcdf4", mode="a", group=name)

    return write_in_place(path, ".nc", write)


def read_netcdf(path, group: str | None = None):
    """A dataset of a netCDF file, in memory; None where there is no such group."""
    import xarray as xr

    path = Path(path)
    if not path.exists():
        raise DalembertError(f"There is no file '{path}'.")
    try:
        with xr.open_dataset(path, engine="netcdf4", group=group) as data:
            return data.load()
    except (OSError, ValueError, RuntimeError, KeyError, IndexError, TypeError, AttributeError) as error:
        if group is not None and "group not found" in str(error):
            return None
        why = str(getattr(error, "strerror", None) or error)[:200].rstrip(".")
        raise DalembertError(f"'{path}' is not a result that can be read: {why}.") from None


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
    return write_in_place(path, ".csv", lambda temporary: table.to_csv(temporary, float_format="%.17g"))
