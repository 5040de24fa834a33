"""edge · pictures: a path of equilibria: one number over the share of the way, with its special points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dalembert.view._figure import check_figure, save_figure
from dalembert.view._scene import CURVES


def plot_path(
    title: str, s: np.ndarray, x: np.ndarray, name: str, stability: Sequence[str], marked: Sequence[tuple], path=None
) -> Any:
    """A figure of a path: x over s, solid where it is stable; `marked` are (kind, s, x) of special points."""
    from dalembert.view._shown import Figure

    check_figure(path)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    firm = np.array([word != "unstable" for word in stability])
    for good, style, label in ((True, "-", "stable"), (False, "--", "unstable")):
        # a piece takes in the points beside it, so that no gap is left
        near = (firm == good) | np.roll(firm == good, 1) if good else firm == good
        values = np.where(near, x, np.nan)
        if np.any(np.isfinite(values)):
            axis.plot(s, values, style, color=CURVES[0 if good else 1], label=label)
    for k, kind in enumerate(dict.fromkeys(kind for kind, _, _ in marked)):
        points = np.array([(a, b) for what, a, b in marked if what == kind])
        axis.plot(*points.T, "os^"[k % 3], color=CURVES[2 + k], label=kind)
    axis.set_xlabel("share of the way")
    axis.set_ylabel(name)
    axis.set_title(title, loc="left")
    axis.grid(True, alpha=0.3)
    axis.legend(fontsize=8, frameon=False)
    if path is not None:
        save_figure(figure, path)
    return figure
