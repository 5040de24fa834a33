"""edge · pictures: ways to one motion, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.view._figure import check_figure, save_figure


def plot_comparison(table: dict, path=None) -> Any:
    """Error against run time, and violation and energy drift per method; saved to `path` if given."""
    check_figure(path)
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from dalembert.view._shown import Figure

    rows = [r for r in table["entries"] if r["error"] is not None]
    figure = Figure(figsize=(12, 1.5 + max(4.0, 0.28 * len(rows))), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(f"{table['name']}, {table['t_end']:g} s, {table['settings']}", fontsize=14)
    labels = [_label(r) for r in rows]
    for k, row in enumerate(rows):
        left.loglog(1e3 * row["run_s"], max(row["error"], 1e-17), "o", markersize=5, color=f"C{k % 10}")
        left.annotate(str(k + 1), (1e3 * row["run_s"], max(row["error"], 1e-17)), fontsize=8, xytext=(3, 3),
                      textcoords="offset points")  # fmt: skip
    if rows:
        left.set_xlim(*_decade([1e3 * r["run_s"] for r in rows]))
        left.set_ylim(*_decade([max(r["error"], 1e-17) for r in rows]))
    for axis in (left.xaxis, left.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    left.set_xlabel("run time (ms)")
    left.set_ylabel("largest error of a coordinate, of the machine's size")
    left.grid(True, which="both", alpha=0.3)
    places = np.arange(len(rows))
    for key, marker, text in (("position", "s", "Φ"), ("velocity", "^", "φ"), ("energy_drift", "x", "energy drift")):
        right.semilogx([max(r[key], 1e-18) for r in rows], places, marker, label=text, linestyle="none")
    right.set_yticks(places, [f"{k + 1}  {label}" for k, label in enumerate(labels)], fontsize=8)
    right.invert_yaxis()
    right.grid(True, alpha=0.3)
    right.set_xlabel("largest violation, relative")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8, frameon=False)
    if path is not None:
        save_figure(figure, path)
    return figure


def _decade(values: list[float]) -> tuple[float, float]:
    """Limits that hold all values and more than a decade, so that a logarithmic axis has ticks to read by."""
    low, high = 0.7 * min(values), 1.4 * max(values)
    wider = max(1.0, (20.0 * low / high) ** 0.5)
    return low / wider, high * wider


def _label(row: dict) -> str:
    on = "" if row["complement"] == "-" else f" on {row['complement']}"
    return f"{row['formulation']}{on}, {row['stabilisation']}"
