"""edge · pictures: the animated page, one HTML file with everything in it."""

from __future__ import annotations

import base64
import html
import json
from importlib.resources import files
from pathlib import Path

import numpy as np

from dalembert._disk import write_in_place
from dalembert.view._scene import CURVES, SOLVABILITY, SOLVABILITY_WORDS, Scene

SCRIPTS = ("scene", "vectors", "mesh", "gl", "motion", "draw", "plots", "controls")
"""The files of the page's program, joined in this order into one function: each uses names of those before it."""


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


def write_page(scene: Scene, path) -> Path:
    """The page as a file."""
    text = page_of(scene)
    return write_in_place(path, ".html", lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def plain(s: Scene) -> dict:
    """The scene for JSON: numbers over time as float32 in base64."""
    panels = [p | {"curves": [c | {"y": _base64(c["y"])} for c in p["curves"]]} for p in s.panels]
    as_it_is = ("title", "space", "notes", "radius", "floor", "lift", "bodies", "joints", "links", "traces")
    return {
        **{k: getattr(s, k) for k in as_it_is},
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
