"""edge · pictures: a result in motion: the animated page, one HTML file with everything in it, or a film."""

from __future__ import annotations

import base64
import html
import json
from importlib.resources import files
from pathlib import Path

import numpy as np

from dalembert._disk import write_in_place
from dalembert._results import check_output
from dalembert.view._scene import CURVES, SOLVABILITY, SOLVABILITY_WORDS, Scene, scene_of
from dalembert.view._undetermined import in_words

SCRIPTS = ("scene", "vectors", "mesh", "gl", "motion", "draw", "plots", "controls")
"""The files of the page's program, joined in this order into one function: each uses names of those before it."""
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
        text = page_of_dataset(data, traces=traces)
        return write_in_place(path, ".html", lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))
    from dalembert.view._movie import write_movie

    return write_movie(scene_of(data, traces=traces), path, speed=speed, fps=fps)


def page_of_dataset(data, *, traces=None, live: str | None = None, numbers: int = PAGE_NUMBERS) -> str:
    """The page as text, for a report, or with its server's stamp (`live`) for a `Server`."""
    return page_of(scene_of(data, traces=traces, frames=_frames(data, numbers)), live=live)


def _frames(data, numbers: int) -> int:
    """Times that fit into a page: 7 numbers per body, 12 per joint, some dozens of curves."""
    each = 7 * data.sizes.get("body", 0) + 12 * data.sizes.get("joint", 0) + 40
    return max(50, min(2000, numbers // each))


def page_of(scene: Scene, *, live: str | None = None) -> str:
    """The page as text. It fetches nothing; one with a `live` stamp polls its server for a newer one."""
    return page_with(plain(scene), live=live)


def page_with(scene: dict, *, live: str | None = None) -> str:
    """The page of a scene that was made `plain` before (and perhaps kept as JSON)."""
    folder = files("dalembert.view") / "page"
    script = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    text = (folder / "page.html").read_text(encoding="utf-8")
    if live is None:
        text = text.replace("; connect-src 'self'", "")
    # "<" cannot end the script element early, whatever a name holds
    data = json.dumps(scene | {"live": live}, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    for mark, value in (
        ("@STYLE@", (folder / "page.css").read_text(encoding="utf-8")),
        ("@SCRIPT@", f'(() => {{\n"use strict";\n{script}}})();'),
        ("@TITLE@", html.escape(scene["title"] or "dalembert")),
        ("@SCENE@", data),
    ):
        text = text.replace(mark, value, 1)
    return text


def plain(s: Scene) -> dict:
    """The scene for JSON: numbers over time as float32 in base64."""
    panels = [p | {"curves": [c | {"y": _base64(c["y"])} for c in p["curves"]]} for p in s.panels]
    links = [x | {"v": _base64(x["v"])} if "v" in x else x for x in s.links]
    as_it_is = ("title", "space", "notes", "radius", "floor", "lift", "bodies", "joints", "traces")
    doubts = [{"low": w.low, "high": w.high, "joints": w.joints, "text": "; ".join(in_words([w]))} for w in s.windows]
    return {
        **{k: getattr(s, k) for k in as_it_is},
        "doubts": [d for d in doubts if d["joints"]],
        **{k: getattr(s, k).tolist() for k in ("up", "look", "reach")},
        **{k: _base64(getattr(s, k)) for k in ("t", "centre", "force", "torque", "in_joint")},
        "cell": _nice(s.radius / 5),
        "arrow": 0.0085 * min(s.radius, 4.0 * s.typical),
        "arrow_length": 0.30 * min(s.radius, 4.0 * s.typical),
        "typical_force": _typical(s.force),
        "typical_torque": _typical(s.torque),
        "colours": SOLVABILITY,
        "words": SOLVABILITY_WORDS,
        "curve_colours": CURVES,
        "panels": panels,
        "links": links,
        "places": _base64(s.places[:, :-1]),
    }


def _base64(x) -> str:
    return base64.b64encode(np.ascontiguousarray(x, dtype="<f4").tobytes()).decode("ascii")


def _typical(values: np.ndarray) -> float:
    """A large, not the largest, size over the motion: spikes at singular positions do not set the scale."""
    sizes = np.linalg.norm(values, axis=-1).max(axis=1, initial=0.0)
    return float(np.percentile(sizes, 90)) if sizes.size and sizes.max() > 1e-12 else 0.0


def _nice(x: float) -> float:
    power = 10.0 ** np.floor(np.log10(x))
    return float(f"{power * min((1, 2, 5, 10), key=lambda m: abs(m - x / power)):.6g}")
