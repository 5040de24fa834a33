"""edge · pictures: a matplotlib figure that shows itself in a notebook, whatever its backend."""

from __future__ import annotations

import io

from matplotlib.figure import Figure as _Figure


class Figure(_Figure):
    """A figure of matplotlib without pyplot: no window opens, none must be closed, and a notebook shows it."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=100)
        return out.getvalue()
