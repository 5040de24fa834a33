"""edge · pictures: frequency responses: size and phase, a column for each input, a row for each output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dalembert._results import DalembertError
from dalembert.view._figure import check_figure, save_figure
from dalembert.view._graph import literal
from dalembert.view._scene import CURVES

MOST = 6
"""Most inputs, and most outputs, in one figure."""


def plot_bode(response, marks: Sequence[float] = (), *, path=None) -> Any:
    """A figure of a frequency response (output, input, frequency); `marks` are natural frequencies in Hz."""
    check_figure(path)
    outputs, inputs = ([str(x) for x in response[k].values] for k in ("output", "input"))
    if len(outputs) > MOST or len(inputs) > MOST:
        raise DalembertError(
            f"A figure has room for {MOST} inputs and {MOST} outputs; there are {len(inputs)} and {len(outputs)}. "
            "Linearise with fewer of them."
        )
    from dalembert.view._shown import Figure

    f = response["frequency"].values
    tall = 2 * len(outputs)
    size = (max(7.5, 4.2 * len(inputs)), max(5.0, 1.6 * tall + 1.0))
    figure = Figure(figsize=size, layout="constrained")
    ratios = [2.0, 1.0] * len(outputs)
    axes = figure.subplots(tall, len(inputs), sharex=True, squeeze=False, gridspec_kw={"height_ratios": ratios})
    for o, output in enumerate(outputs):
        for i, name in enumerate(inputs):
            value = response.values[o, i]
            above, below = axes[2 * o, i], axes[2 * o + 1, i]
            sizes = np.abs(value)
            shown = np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.nan)
            if np.any(np.isfinite(shown)):
                above.loglog(f, shown, color=CURVES[0], linewidth=1.3)
            else:
                above.text(0.5, 0.5, "0", transform=above.transAxes, ha="center")
            phase = np.where(np.isfinite(shown), np.degrees(_unwrapped(value)), np.nan)
            below.semilogx(f, phase, color=CURVES[1], linewidth=1.1)
            below.yaxis.set_major_locator(_quarters(phase))
            for axis in (above, below):
                axis.grid(True, which="major", alpha=0.3)
                axis.margins(x=0)
                for mark in marks:
                    if f[0] <= mark <= f[-1]:
                        axis.axvline(mark, color="#9aa5b1", linewidth=0.7, linestyle=":")
            if i == 0:
                above.set_ylabel(_with_units(response, output, name, o, i))
                below.set_ylabel("phase (°)")
            elif str(response["input_units"].values[i]) != str(response["input_units"].values[0]):
                above.set_ylabel(_units(response, o, i))
            if o == 0:
                above.set_title(f"from {literal(name)}", fontsize=10)
    for axis in axes[-1]:
        axis.set_xlabel("frequency (Hz)")
    figure.suptitle(f"{literal(str(response.attrs.get('model', '')))}: frequency response", fontsize=12)
    if path is not None:
        save_figure(figure, path)
    return figure


def _unwrapped(value: np.ndarray) -> np.ndarray:
    """The phase without jumps, from −180° … 180° at the lowest frequency."""
    phase = np.unwrap(np.angle(np.where(np.isfinite(value), value, 0.0)))
    # of undamped modes the phase is ±180° by rounding alone: a jump by a full turn is none
    return phase - 2 * np.pi * np.round((phase[0] if len(phase) else 0.0) / (2 * np.pi))


def _quarters(phase: np.ndarray):
    """Marks at quarters of a turn, or halves where there are many."""
    from matplotlib.ticker import MultipleLocator

    good = phase[np.isfinite(phase)]
    spread = float(np.ptp(good)) if len(good) else 0.0
    return MultipleLocator(90.0 if spread < 400 else 180.0 if spread < 1000 else 360.0)


def _units(response, o: int, i: int) -> str:
    top, under = str(response["output_units"].values[o]) or "1", str(response["input_units"].values[i]) or "1"
    if under == "1":
        return top
    return f"{top}/({under})" if " " in under or "/" in under else f"{top}/{under}"


def _with_units(response, output: str, name: str, o: int, i: int) -> str:
    return f"{literal(output)}\n({_units(response, o, i)})"
