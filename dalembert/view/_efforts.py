"""edge · pictures: efforts of actuators over time, by unit, and their power."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.view._figure import check_figure, save_figure
from dalembert.view._scene import CURVES


def plot_efforts(data, *, path=None) -> Any:
    """A figure of efforts (one part for each unit), their power, and what is not followed; saved to `path` if given."""
    check_figure(path)
    from dalembert.view._shown import Figure

    units = [str(x) for x in data["effort_units"].values]
    names, t = [str(x) for x in data["actuator"].values], data["time"].values
    parts = list(dict.fromkeys(units))
    followed = bool(data.attrs.get("followed", 1))
    rows = len(parts) + (1 if followed else 2)
    figure = Figure(figsize=(8.0, 1.0 + 2.3 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, 1, sharex=True))
    colours = [CURVES[k % len(CURVES)] for k in range(len(names))]
    styles = ["-", "--", ":", "-."]
    for axis, unit in zip(axes, parts, strict=False):
        for k in [k for k, u in enumerate(units) if u == unit]:
            style = styles[(k // len(CURVES)) % len(styles)]
            axis.plot(t, data["effort"].values[:, k], style, color=colours[k], linewidth=1.4, label=names[k])
            if "limit" in data:
                for sign in (-1.0, 1.0):
                    axis.axhline(
                        sign * float(data["limit"].values[k]), color=colours[k], linewidth=0.8, linestyle=(0, (1, 3))
                    )
        axis.set_ylabel(f"effort ({unit})" if unit else "effort")
        _legend(axis, sum(u == unit for u in units))
    power = axes[len(parts)]
    for k, name in enumerate(names):
        style = styles[(k // len(CURVES)) % len(styles)]
        power.plot(t, data["power"].values[:, k], style, color=colours[k], linewidth=1.4, label=name)
    power.set_ylabel("power (W)")
    if not followed:
        _missing(axes[-1], data, t)
    for axis in axes:
        axis.axhline(0.0, color="#9aa4b0", linewidth=0.7)
        axis.grid(True, alpha=0.3)
        axis.margins(x=0)
    axes[-1].set_xlabel("time (s)")
    rule = str(data.attrs.get("rule", ""))
    title = f"{data.attrs.get('model', '')}: efforts of the actuators"
    figure.suptitle(title if rule == "unique" else f"{title}\n{rule}", fontsize=12)
    if path is not None:
        save_figure(figure, path)
    return figure


def _missing(axis, data, t) -> None:
    """The accelerations that cannot be made: the four largest."""
    values = data["missing"].values
    order = np.argsort(-np.max(np.abs(values), axis=0), kind="stable")[:4]
    for place, k in enumerate(order):
        colour = CURVES[place % len(CURVES)]
        axis.plot(t, values[:, k], color=colour, linewidth=1.4, label=str(data["coordinate"].values[k]))
    axis.set_ylabel("not followed\n(rad/s², m/s²)")
    _legend(axis, len(order))


def _legend(axis, count: int) -> None:
    """Beside the curves: they would hide it, or it them."""
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False, ncols=1 + (count - 1) // 10)
