"""edge · pictures: loading matplotlib, and a figure as a file."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from dalembert._disk import write_in_place
from dalembert._results import FIGURES, DalembertError, check_output


def check_figure(path) -> None:
    """Refuse a figure that cannot be drawn or written before the work is done, not after."""
    check_output(path, FIGURES)
    need_matplotlib()


def need_matplotlib() -> None:
    """matplotlib reads `MPLBACKEND` when it is imported, though no window is opened here."""
    try:
        import matplotlib.figure  # noqa: F401
    except ValueError as error:
        backend = os.environ.get("MPLBACKEND")
        if backend is None:
            raise
        raise DalembertError(
            f"matplotlib cannot be used: MPLBACKEND='{backend}' names none of its backends. Unset it, or set it to agg."
        ) from error


def save_figure(figure: Any, path) -> Path:
    """Drawn in memory first: a full disk is then reported by the write, not by an error of a backend."""
    path, out = Path(path), io.BytesIO()
    figure.savefig(out, format=path.suffix[1:], dpi=130)
    return write_in_place(path, path.suffix, lambda temporary: Path(temporary).write_bytes(out.getvalue()))
