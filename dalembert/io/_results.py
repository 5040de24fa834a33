"""edge · files: results out and in, as netCDF, or out as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dalembert._disk import write_in_place
from dalembert._results import DalembertError, Status


def write_netcdf(dataset, path, groups: Mapping[str, Any] | None = None) -> Path:
    """Write an xarray Dataset as netCDF-4, with further ones in groups of their own."""

    def write(temporary: str) -> None:
        dataset.to_netcdf(temporary, engine="netcdf4")
        for name, data in (groups or {}).items():
            data.to_netcdf(temporary, engine="netcdf4", mode="a", group=name)

    return write_in_place(path, ".nc", write)


def write_runs(path, parts: Iterable[Any], parameters: Mapping[str, Any]) -> Path:
    """Write batches of runs, one after the other, into one netCDF-4 file; only one of them is in memory at a time."""
    import netCDF4

    def write(temporary: str) -> None:
        with netCDF4.Dataset(temporary, "w") as file:
            file.createDimension("run", None)
            done = 0
            for batch in parts:
                if not done:
                    _declare(file, batch, parameters)
                some = slice(done, done + len(batch))
                for name in ("q", "v", "work"):
                    file[name][some] = getattr(batch, name)
                file["t_end"][some], file["status_code"][some] = batch.t_end, batch.status_code
                for name in ("accepted", "rejected"):
                    file[name][some] = batch.stats[name]
                for name, values in parameters.items():
                    file[name][some] = values[some]
                done += len(batch)

    return write_in_place(path, ".nc", write)


def _declare(file, batch, parameters: Mapping[str, Any]) -> None:
    """The variables of a file of runs, with their units and meaning."""
    sizes = {"time": batch.t.shape[1], "coordinate": batch.q.shape[2], "velocity": batch.v.shape[2], "kind": 2}
    for name, size in sizes.items():
        file.createDimension(name, size)
    every = int(np.argmax(np.sum(np.isfinite(batch.t), axis=1)))  # a run that got farthest
    time = file.createVariable("time", "f8", ("time",))
    time[:], time.units = np.where(np.isfinite(batch.t[every]), batch.t[every], np.nan), "s"
    for name, rest in (("q", ("time", "coordinate")), ("v", ("time", "velocity")), ("work", ("time", "kind"))):
        file.createVariable(name, "f8", ("run", *rest), zlib=True)
    file.createVariable("t_end", "f8", ("run",)).units = "s"
    for name in ("status_code", "accepted", "rejected"):
        file.createVariable(name, "i8", ("run",))
    file["status_code"].meaning = ", ".join(f"{s.value} {s.name}" for s in Status)
    for name, values in parameters.items():
        extra = [f"{name} {k}" for k in range(values.ndim - 1)]
        for dimension, size in zip(extra, values.shape[1:], strict=True):
            file.createDimension(dimension, size)
        file.createVariable(name, "f8", ("run", *extra))


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
        units = dataset[f"{others[0]}_units"].values if others in (["channel"], ["input"]) else ()  # each its own
        for k, label in enumerate(stacked["column"].values):
            own = f" ({units[k]})" if len(units) and np.issubdtype(variable.dtype, np.floating) and units[k] else tail
            columns[f"{name}[{','.join(map(str, label))}]{own}"] = stacked.values[:, k]
    table = pd.DataFrame(columns, index=pd.Index(dataset["time"].values, name="time (s)"))
    return write_in_place(path, ".csv", lambda temporary: table.to_csv(temporary, float_format="%.17g"))
