"""edge · reports: `report_study`: many machines on one page that can be sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dalembert.studies import Study


def report_study(study: Study, path, *, best: str | None = None, largest: bool = False, play: int = 2) -> Path:
    """Write a study as one HTML page that needs no network: how its cases ended, parallel coordinates, scatter, what
    depends on what, a table of the best cases and their motions, which play.

    **Arguments**: `study`; `path` (.html); `best`, the measured number by which cases are ranked (default: the first),
    smallest first, or `largest`; `play`, how many of the best are shown in motion. **Returns** the path.
    """
    from dalembert.reports._cases import study_page  # pictures take time to load

    return study_page(study, path, best, largest, play)
