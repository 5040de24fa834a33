"""edge · files: results out, as netCDF or as a table."""

from __future__ import annotations

from pathlib import Path

from dalembert._disk import write_in_place


def write_netcdf(dataset, path) -> Path:
    """Write an xarray Dataset as netCDF-4."""
    return write_in_place(path, ".nc", lambda temporary: dataset.to_netcdf(temporary, engine="netcdf4"))


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
