"""edge · pictures: poses over a grid: curves over one coordinate, a map over two."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.view._figure import check_figure, save_figure
from dalembert.view._scene import CURVES

WHAT = {
    "conditioning": "conditioning (0: a dead point)",
    "margin": "distance to a singular pose (weakest singular value)",
    "range_width": "widest range of a possible reaction (N)",
    "reachable": "reachable",
    "mobility": "freedoms left",
    "redundancy": "redundant rows",
    "rank": "rank of the constraints",
    "sheet": "sheet (assembly)",
    "unique": "joints whose reaction is unique",
}
MISSING = "#e3e6ea"


def plot_sweep(data, what: str = "conditioning", *, path=None) -> Any:
    """A figure of a sweep by name: see `WHAT`, or a joint coordinate. Saved to `path` if given."""
    check_figure(path)
    dims = list(data["reachable"].dims)
    if len(dims) > 2:
        raise DalembertError(
            f"A picture has one or two coordinates; this sweep has {len(dims)}: {', '.join(dims)}. Take a part of its "
            f'dataset, dataset.isel({{"{dims[-1]}": 0}}), and draw it with da.view.plot_sweep.'
        )
    values, label = _values(data, what)
    from dalembert.view._shown import Figure

    figure = Figure(figsize=(7.5, 5.0), layout="constrained")
    axis = figure.subplots()
    (_curve if len(dims) == 1 else _map)(figure, axis, data, dims, values, label, what)
    figure.suptitle(f"{data.attrs.get('model', '')}: {label}", fontsize=12)
    if path is not None:
        save_figure(figure, path)
    return figure


def _values(data, what: str) -> tuple[np.ndarray, str]:
    there = data["reachable"].values
    if what == "unique":
        if "unique_force" not in data:
            raise DalembertError("This sweep does not know which reactions are unique: run it with reactions=True.")
        sure = data["unique_force"].all("axis").values
        turning = data["unique_torque"]
        sure = sure & (turning.all("axis").values if "axis" in turning.dims else turning.values)
        return np.where(there, sure.sum(axis=-1), np.nan), f"{WHAT[what]}, of {data.sizes['joint']}"
    if what == "range_width":
        if what not in data:
            raise DalembertError("This sweep does not know the possible reactions: run it with ranges=True.")
        widest = data[what].max("joint", skipna=False).values
        return np.where(there & np.isfinite(widest), widest, np.nan), WHAT[what]
    if what in WHAT:
        return np.where(there, data[what].values.astype(float), np.nan), WHAT[what]
    known = dict.fromkeys(WHAT, ("", "", 0))
    for values, names in (("measurement", "channel"), ("coordinate", "joint_coordinate")):
        if values in data:
            known |= {str(x): (values, names, k) for k, x in enumerate(data[names].values)}
    if what not in known:
        raise DalembertError(f"There is no plot {what!r}; there are {', '.join(known)}.{did_you_mean(what, known)}")
    values, names, k = known[what]
    return data[values].values[..., k], f"{what} ({data[f'{names}_units'].values[k]})"


def _named(data, name: str) -> str:
    unit = data[name].attrs.get("units", "")
    return f"{name} ({unit})" if unit else name


def _curve(figure, axis, data, dims, values, label, what) -> None:
    (name,) = dims
    x, there = data[name].values, data["reachable"].values
    if what == "reachable":
        values = there.astype(float)
    for sheet in np.unique(data["sheet"].values[there]):
        on = np.where(data["sheet"].values == sheet, values, np.nan)
        axis.plot(x, on, ".-", color=CURVES[int(sheet) % len(CURVES)], linewidth=1.3, markersize=4)
    edges = _edges(x)
    for k in np.flatnonzero(~there):
        axis.axvspan(edges[k], edges[k + 1], color=MISSING, linewidth=0)
    axis.set_xlabel(_named(data, name))
    axis.set_ylabel(label)
    axis.grid(True, alpha=0.3)
    axis.margins(x=0)
    if not there.all():
        axis.set_title("grey: not reachable", fontsize=9, color="#5b6775", loc="left")


def _map(figure, axis, data, dims, values, label, what) -> None:
    x, y = (data[name].values for name in dims)
    there = data["reachable"].values
    if what == "reachable":
        values = np.where(there, 1.0, np.nan)
    axis.set_facecolor(MISSING)
    whole = np.issubdtype(np.asarray(data[what].values).dtype if what in data else float, np.integer)
    picture = axis.pcolormesh(
        _edges(x), _edges(y), np.ma.masked_invalid(values.T), cmap="viridis" if not whole else "cividis", shading="flat"
    )
    if what != "reachable":
        figure.colorbar(picture, ax=axis, label=label)
    axis.set_xlabel(_named(data, dims[0]))
    axis.set_ylabel(_named(data, dims[1]))
    units = {data[name].attrs.get("units", "") for name in dims}
    if units == {"m"}:
        axis.set_aspect("equal")
    if not there.all():
        axis.set_title("grey: not reachable", fontsize=9, color="#5b6775", loc="left")


def _edges(x: np.ndarray) -> np.ndarray:
    """Limits of the cells around grid values."""
    if len(x) == 1:
        return np.array([x[0] - 0.5, x[0] + 0.5])
    middle = 0.5 * (x[1:] + x[:-1])
    return np.concatenate([[x[0] - (middle[0] - x[0])], middle, [x[-1] + (x[-1] - middle[-1])]])
