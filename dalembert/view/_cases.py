"""edge · pictures: many cases: parallel coordinates, scatter, and what depends on what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dalembert.view._figure import check_figure, save_figure
from dalembert.view._scene import CURVES

LINES = 2000
"""At most so many cases are drawn, spread evenly over all of them."""
PANELS = 5
"""At most so many rows and columns of a scatter plot."""
EDGE = 0.02


def plot_parallel(data, varied: Sequence[str], measured: str, *, path=None) -> Any:
    """Each case as a line through its parameters to what is measured of it, which also colours it."""
    check_figure(path)
    from dalembert.view._shown import Figure

    names = [*varied, measured]
    table = np.array([np.asarray(data[n].values, float) for n in names])
    table = table[:, np.all(np.isfinite(table), axis=0)]
    figure = Figure(figsize=(max(6.0, 1.6 * len(names)), 4.2), layout="constrained")
    axis = figure.subplots()
    low, high = (f(table, axis=1) if table.size else np.zeros(len(names)) for f in (np.min, np.max))
    span = np.where(high > low, high - low, 1.0)
    shown = table[:, _spread(table.shape[1])]
    colours = _colours(shown[-1], low[-1], span[-1])
    for column, colour in zip(((shown - low[:, None]) / span[:, None]).T, colours, strict=True):
        axis.plot(range(len(names)), column, color=colour, linewidth=0.6, alpha=0.5)
    axis.set_xticks(range(len(names)), [_named(data, n) for n in names], rotation=20, ha="right")
    axis.set_yticks([])
    axis.set_xlim(-EDGE, len(names) - 1 + EDGE)
    for k in range(len(names)):
        axis.axvline(k, color="#888888", linewidth=0.8)
        axis.text(k, -0.02, f"{low[k]:.4g}", ha="center", va="top", fontsize=8)
        axis.text(k, 1.02, f"{high[k]:.4g}", ha="center", va="bottom", fontsize=8)
    axis.tick_params(axis="x", pad=14)
    for side in axis.spines.values():
        side.set_visible(False)
    return _saved(figure, path)


def plot_scatter(data, varied: Sequence[str], measured: Sequence[str], *, path=None) -> Any:
    """A point for each case: what is measured (up) over what varies (to the right)."""
    check_figure(path)
    from dalembert.view._shown import Figure

    varied, measured = varied[:PANELS], measured[:PANELS]
    size = (2.4 * len(varied) + 0.8, 2.0 * len(measured) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(measured), len(varied), squeeze=False, sharex="col", sharey="row")
    for i, y in enumerate(measured):
        for j, x in enumerate(varied):
            a, b = (np.asarray(data[n].values, float) for n in (x, y))
            there = np.flatnonzero(np.isfinite(a) & np.isfinite(b))
            there = there[_spread(len(there))]
            axes[i, j].plot(a[there], b[there], ".", color=CURVES[i % len(CURVES)], markersize=2.5)
            if i == len(measured) - 1:
                axes[i, j].set_xlabel(_named(data, x))
            if j == 0:
                axes[i, j].set_ylabel(_named(data, y))
    return _saved(figure, path)


def plot_dependence(names: Sequence[str], measured: Sequence[str], values: np.ndarray, *, path=None) -> Any:
    """A bar for each parameter: its rank correlation with each measured number, (measured, names)."""
    check_figure(path)
    from dalembert.view._shown import Figure

    figure = Figure(figsize=(7.5, 0.8 + 0.32 * len(names) * len(measured)), layout="constrained")
    axis = figure.subplots()
    height = 0.8 / max(len(measured), 1)
    for i, name in enumerate(measured):
        at = np.arange(len(names)) + (i - (len(measured) - 1) / 2) * height
        axis.barh(at, np.nan_to_num(values[i]), height=0.9 * height, color=CURVES[i % len(CURVES)], label=name)
    axis.set_yticks(range(len(names)), list(names))
    axis.invert_yaxis()
    axis.set_xlim(-1, 1)
    axis.axvline(0, color="#888888", linewidth=0.8)
    axis.set_xlabel("rank correlation")
    axis.legend(fontsize=8, loc="best")
    return _saved(figure, path)


def _spread(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, LINES)).astype(int)) if count else np.zeros(0, int)


def _colours(x: np.ndarray, low: float, span: float) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](1 - (x - low) / span)


def _named(data, name: str) -> str:
    unit = data[name].attrs.get("units", "")
    return f"{name} ({unit})" if unit else name


def _saved(figure, path) -> Any:
    if path is not None:
        save_figure(figure, path)
    return figure
