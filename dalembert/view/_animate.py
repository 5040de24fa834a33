"""edge · pictures: a result as a page or a film, by the name of the file."""

from __future__ import annotations

from pathlib import Path

from dalembert._results import check_output
from dalembert.view._scene import scene_of

ENDINGS = (".html", ".gif", ".mp4")
PAGE_NUMBERS = 850_000
"""Numbers over time in one page, which keep it under 5 MB; of a longer or larger run fewer times are shown."""


def animate_dataset(data, path, *, traces=None, speed: float | None = None, fps: int = 25) -> Path:
    """Write a result in motion: .html, one page that plays and needs no network; .gif and .mp4 for slides.

    `traces` are the points whose path is drawn: names of bodies (their centres of mass) or (body, point in its frame).
    `speed` and `fps` are for films: how many seconds of the motion pass in one, and pictures in a second.
    """
    path = Path(path)
    check_output(path, ENDINGS)
    if path.suffix == ".html":
        from dalembert.view._page import write_page

        return write_page(scene_of(data, traces=traces, frames=_frames(data)), path)
    from dalembert.view._movie import write_movie

    return write_movie(scene_of(data, traces=traces), path, speed=speed, fps=fps)


def page_of_dataset(data, *, traces=None, live: str | None = None, numbers: int = PAGE_NUMBERS) -> str:
    """The page as text, for a report, or with its server's stamp (`live`) for a `Server`."""
    from dalembert.view._page import page_of

    return page_of(scene_of(data, traces=traces, frames=_frames(data, numbers)), live=live)


def _frames(data, numbers: int = PAGE_NUMBERS) -> int:
    """Times that fit into a page: 7 numbers per body, 12 per joint, some dozens of curves."""
    each = 7 * data.sizes.get("body", 0) + 12 * data.sizes.get("joint", 0) + 40
    return max(50, min(2000, numbers // each))
