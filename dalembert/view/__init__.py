"""edge · pictures: one page of figures from a labelled result (matplotlib)."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from dalembert.view._comparison import plot_comparison

__all__ = ["plot_comparison", "plot_dataset"]

MOST = 8
"""Curves in one panel; with more, the largest are shown and the title says so."""


def plot_dataset(data, path=None) -> Any:
    """Motion, reactions, violation and energy of a result dataset; saved to `path` if given."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    name, status = data.attrs.get("model", ""), data.attrs.get("status", "")
    figure.suptitle(name if status == "done" else f"{name} ({status})", fontsize=14)
    _motion(axes[0, 0], data)
    _reactions(axes[0, 1], data)
    _violation(axes[1, 0], data)
    _energy(axes[1, 1], data)
    for axis in axes.flat:
        axis.set_xlabel("time (s)")
        axis.grid(True, alpha=0.3)
        axis.margins(x=0)
    if path is not None:
        figure.savefig(path, dpi=130)
    return figure


def _motion(axis, data) -> None:
    t = data["time"].values
    if "coordinate" in data:
        units = data["joint_coordinate_units"].values
        curves = {}
        for k, label in enumerate(data["joint_coordinate"].values):
            curves[f"{label} ({units[k]})"] = data["coordinate"].values[:, k]
        title = "joint coordinates"
    elif "position" in data:
        places = data["position"].stack(curve=("body", "axis"))
        curves = {f"{b}.{a} (m)": places.values[:, k] for k, (b, a) in enumerate(places["curve"].values)}
        title = "centres of mass"
    else:
        curves = {f"q{k}": x for k, x in enumerate(data["q"].values.T)}
        title = "coordinates"
    _curves(axis, t, curves, title, np.ptp)


def _reactions(axis, data) -> None:
    if "reaction_force" not in data:
        _curves(axis, data["time"].values, {}, "reactions", np.ptp)
        return
    size = np.linalg.norm(data["reaction_force"].values, axis=-1)
    curves = {str(j): size[:, k] for k, j in enumerate(data["joint"].values)}
    _curves(axis, data["time"].values, curves, "size of reaction forces", lambda x: np.max(np.abs(x)))
    axis.set_ylabel("N")
    if int(data.attrs.get("redundancy", 0)):
        rule = str(data.attrs["reaction_rule"])
        words = textwrap.fill(f"not all unique; picked by: {rule}", 72)
        axis.set_title(f"{axis.get_title()}\n{words}", fontsize=9)


def _violation(axis, data) -> None:
    for level in data["level"].values:
        values = np.maximum(data["violation"].sel(level=level).values, 1e-18)
        axis.semilogy(data["time"].values, values, label=str(level), linewidth=1)
    axis.set_title("constraint violation, relative to the machine's size")
    axis.set_ylim(1e-18, None)
    _legend(axis)


def _energy(axis, data) -> None:
    t = data["time"].values
    for name in ("energy_kinetic", "energy_potential", "energy_total"):
        axis.plot(t, data[name].values, label=name.removeprefix("energy_"), linewidth=1.2)
    scale = float(np.max(np.abs(data["energy_total"].values))) or 1.0
    for name, label in (("work", "work of forces"), ("work_of_constraints", "work of drivers")):
        if np.max(np.abs(data[name].values)) > 1e-6 * scale:
            axis.plot(t, data[name].values, "--", label=label, linewidth=1)
    axis.set_title("energy")
    axis.set_ylabel("J")
    _legend(axis)


def _curves(axis, t, curves: dict[str, np.ndarray], title: str, weight) -> None:
    ranked = sorted(curves, key=lambda c: -weight(curves[c]))[:MOST]
    shown = [c for c in curves if c in ranked]
    for label in shown:
        axis.plot(t, curves[label], label=label, linewidth=1.2)
    more = f" (the {MOST} largest of {len(curves)})" if len(curves) > MOST else ""
    axis.set_title(title + more)
    if shown:
        _legend(axis)


def _legend(axis) -> None:
    """Beside the axes, where it covers no curve."""
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
