"""edge · pictures: the scene by matplotlib: one instant as a picture, many as a film (.gif, .mp4)."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dalembert._disk import write_in_place
from dalembert._results import DalembertError
from dalembert.view._figure import need_matplotlib
from dalembert.view._scene import SOLVABILITY, SOLVABILITY_WORDS, Scene, rotations
from dalembert.view._shapes import across, hull
from dalembert.view._undetermined import in_words

FPS = 25
LONGEST = 200
"""Frames of a film, at most, unless a speed is given."""


def draw(scene: Scene, axes, t: float | None = None) -> Drawing:
    """Draw the machine at a time (default: the first) into matplotlib axes."""
    drawing = Drawing(scene, axes)
    drawing.show(float(scene.t[0] if t is None else t))
    return drawing


def plot_mechanism(scene: Scene, t: float | None = None) -> Any:
    """A figure of the machine at one instant, with a legend of the colours of solvability."""
    from dalembert.view._shown import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    draw(scene, axes, t)
    now = float(scene.t[0] if t is None else t)
    lost = in_words([w for w in scene.windows if w.low <= now <= w.high])
    axes.set_title("\n".join([f"{scene.title}, t = {now:g} s", *(textwrap.fill(x, 72) for x in lost)]), loc="left")
    _legend(axes, scene)
    return figure


def write_movie(scene: Scene, path, *, speed: float | None = None, fps: int = FPS, dpi: int = 90) -> Path:
    """Film the scene as .gif or .mp4. `speed` is how many of the machine's seconds pass in one; chosen if not given."""
    path = Path(path)
    times = _times(scene, speed, fps)
    need_matplotlib()
    frames = _pictures(scene, times, dpi)
    if path.suffix == ".gif":
        save = _gif(frames, fps, _colours(scene))
        return write_in_place(path, ".gif", save)
    return write_in_place(path, ".mp4", lambda temporary: _write_mp4(temporary, frames, fps))


def _pictures(scene: Scene, times, dpi: int):
    """One picture (height, width, 3) per time; what does not move is drawn once."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 5.4), dpi=dpi, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_title(scene.title, loc="left")
    _legend(axes, scene)
    clock = axes.text(0.99, 0.98, "", transform=axes.transAxes, ha="right", va="top", family="monospace", fontsize=9)
    drawing = Drawing(scene, axes)
    drawing.show(times[0])
    moving = [*drawing.artists, clock]
    for artist in moving:
        artist.set_animated(True)
    canvas.draw()
    figure.set_layout_engine("none")
    still = canvas.copy_from_bbox(figure.bbox)
    digits = max(1, 2 - math.floor(math.log10(max(float(np.ptp(scene.t)), 1e-9))))
    for t in times:
        drawing.show(t)
        clock.set_text(f"t = {t:.{digits}f} s")
        if scene.follow:  # the camera follows: everything moves
            canvas.draw()
        else:
            canvas.restore_region(still)
        for artist in moving:
            axes.draw_artist(artist)
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _colours(scene: Scene) -> list[tuple[float, float, float]]:
    parts = [p["c"] for b in scene.bodies for p in b["parts"]]
    parts += [p["c"] for j in scene.joints for g in j["parts"] for p in g["parts"]]
    parts += [x["c"] for x in (*scene.traces, *scene.links)]
    return [_rgb(c) for c in dict.fromkeys(parts)]


def _gif(pictures, fps: int, colours) -> Callable[[str], None]:
    """What saves the film. One palette for all frames, with every colour of the scene in it, however small its part."""
    from PIL import Image

    frames: list[Any] = []
    palette: Any = None
    for picture in pictures:
        if palette is None:
            swatch = np.zeros((12 * len(colours), picture.shape[1], 3), np.uint8)
            for k, colour in enumerate(colours):
                swatch[12 * k : 12 * (k + 1)] = np.round(255 * np.array(colour))
            sample = Image.fromarray(np.vstack([picture, swatch]))
            palette = sample.quantize(160, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        frames.append(Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE))
    options = {"save_all": True, "duration": round(1000 / fps), "loop": 0, "disposal": 1}
    return lambda name: frames[0].save(name, append_images=frames[1:], **options)


def _write_mp4(path: str, pictures, fps: int) -> None:
    try:
        from imageio_ffmpeg import count_frames_and_secs, write_frames
    except ImportError:
        raise DalembertError(
            "A film in .mp4 needs ffmpeg, which is not here. Install it (pip install 'dalembert[view]'), or use .gif."
        ) from None
    film, count = None, 0
    for picture in pictures:
        even = np.ascontiguousarray(picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2])
        if film is None:
            size = (even.shape[1], even.shape[0])
            film = write_frames(path, size, fps=fps, macro_block_size=2, quality=7, ffmpeg_log_level="quiet")
            with warnings.catch_warnings():  # the child that is forked becomes ffmpeg at once: threads do not matter
                warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
                film.send(None)
        film.send(even)
        count += 1
    if film is not None:
        film.close()
    # ffmpeg's exit code is not available: count the frames it has written
    if count_frames_and_secs(path)[0] != count:
        raise RuntimeError("ffmpeg did not write the film to its end")


def _times(scene: Scene, speed: float | None, fps: int) -> np.ndarray:
    if speed is not None and not speed > 0:
        raise DalembertError(f"speed={speed!r} must be a positive number: how many seconds of the motion pass in one.")
    start, span = float(scene.t[0]), float(np.ptp(scene.t))
    if span == 0.0:
        return np.array([start])
    if speed is None:
        count = round(span * fps) if 1.5 <= span <= LONGEST / fps else LONGEST
    else:
        count = round(span / speed * fps)
    return start + span * np.arange(max(count, 2)) / max(count - 1, 1)


def _legend(axes, scene: Scene) -> None:
    from matplotlib.lines import Line2D

    shown = [k for k in SOLVABILITY if any(j["solvability"] == k for j in scene.joints)]
    dots = [
        Line2D([], [], marker="o", linestyle="none", color=SOLVABILITY[k], label=SOLVABILITY_WORDS[k]) for k in shown
    ]
    if dots and scene.notes:  # of a pose nothing is known of reactions
        axes.legend(
            handles=dots, title="reactions", loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False
        )


class Drawing:
    """Parts as filled outlines, far ones first, in matplotlib axes; `show(t)` moves them."""

    def __init__(self, scene: Scene, axes):
        from matplotlib.collections import PolyCollection

        self.scene, self.axes = scene, axes
        self.plane = scene.space == "plane"
        self.right, self.top, self.out = _camera(scene)
        groups = [(k, p) for k, b in enumerate(scene.bodies) for p in b["parts"]]
        groups += [(g["body"], p) for j in scene.joints for g in j["parts"] for p in g["parts"]]
        self.parts = [(body, *_outline(part), part["c"]) for body, part in groups]
        self.links = scene.links
        axes.set_aspect("equal")
        axes.set_facecolor("#fbfcfd")
        axes.grid(True, color="#e3e8ee", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8, colors="#5b6775", length=0, labelbottom=self.plane, labelleft=self.plane)
        for side in axes.spines.values():
            side.set_color("#dfe4ea")
        self.paths = []
        for trace in scene.traces:
            flat = self._flat(scene.world(trace["body"], trace["point"]))
            axes.plot(*flat.T, color=trace["c"], linewidth=1, alpha=0.25, zorder=1)
            self.paths.append((flat, axes.plot([], [], color=trace["c"], linewidth=1.4, zorder=4)[0]))
        self.collection = axes.add_collection(PolyCollection([], linewidths=0.7, zorder=3), autolim=False)
        self.springs = [
            axes.plot([], [], color=k["c"], linewidth=1.3 if k["t"] == "spring" else 2, zorder=3.5)[0]
            for k in self.links
        ]
        self.artists = [self.collection, *self.springs, *(artist for _, artist in self.paths)]
        reach = self._flat(scene.reach)
        self.low, self.high = reach.min(axis=0), reach.max(axis=0)
        margin = 0.06 * float(np.max(self.high - self.low))
        self.low, self.high = self.low - margin, self.high + margin

    def _flat(self, points) -> np.ndarray:
        points = np.asarray(points)
        return np.stack([points @ self.right, points @ self.top], axis=-1)

    def show(self, t: float) -> None:
        places = at_time(self.scene, t)
        R = rotations(places[:, 3:])
        verts, colours, depth = [], [], []
        for body, points, convex, order, colour in self.parts:
            world = places[body, :3] + points @ R[body].T
            flat = self._flat(world)
            verts.append(hull(flat) if convex else flat)
            colours.append(_rgb(colour))
            heights = world @ self.out
            depth.append(float(heights.max() if self.plane else heights.mean()) + order)
        rank = np.argsort(depth)
        self.collection.set_verts([verts[k] for k in rank])
        self.collection.set_facecolors([colours[k] for k in rank])
        self.collection.set_edgecolors([_darker(colours[k]) for k in rank])
        for link, artist in zip(self.links, self.springs, strict=True):
            a, b = (places[link[s], :3] + R[link[s]] @ np.array(link[e]) for s, e in (("i", "a"), ("j", "b")))
            start, end = self._flat([a, b])
            artist.set_data(*_coil(start, end, link["r"] if link["t"] == "spring" else 0.0).T)
        k = int(np.searchsorted(self.scene.t, t))
        for flat, artist in self.paths:
            artist.set_data(*flat[: k + 1].T)
        index = min(k, len(self.scene.t) - 1)
        centre = self._flat(self.scene.centre[index])
        self.axes.set_xlim(centre[0] + self.low[0], centre[0] + self.high[0])
        self.axes.set_ylim(centre[1] + self.low[1], centre[1] + self.high[1])


def at_time(scene: Scene, t: float) -> np.ndarray:
    """Places (B + 1, 7) between two saved times: straight lines, and the shorter way between quaternions."""
    k = int(np.clip(np.searchsorted(scene.t, t) - 1, 0, max(len(scene.t) - 2, 0)))
    n = min(k + 1, len(scene.t) - 1)
    gap = scene.t[n] - scene.t[k]
    s = float(np.clip((t - scene.t[k]) / gap, 0, 1)) if gap > 0 else 0.0
    a, b = scene.places[k], scene.places[n].copy()
    b[:, 3:] *= np.where(np.sum(a[:, 3:] * b[:, 3:], axis=1) < 0, -1.0, 1.0)[:, None]
    out = (1 - s) * a + s * b
    out[:, 3:] /= np.linalg.norm(out[:, 3:], axis=1, keepdims=True)
    return out


def _camera(scene: Scene) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Directions to the right, upwards and towards the eye; in space from a little above and aside."""
    up = scene.up
    if scene.space == "plane":
        return np.cross(up, (0.0, 0.0, 1.0)), up, np.array([0.0, 0.0, 1.0])
    level = np.cos(0.5) * scene.look + np.sin(0.5) * np.cross(up, scene.look)
    out = np.cos(0.36) * level + np.sin(0.36) * up
    right = np.cross(up, out)
    right = right / np.linalg.norm(right)
    return right, np.cross(out, right), out


def _outline(part) -> tuple[np.ndarray, bool, float]:
    """Points of a part, whether their hull is its outline, and what brings small things before large ones."""
    kind = part["t"]
    turn = np.linspace(0, 2 * np.pi, 33)[:-1]
    if kind in ("ball", "rod", "line"):
        if kind == "ball":
            ends, r = [part["o"]], part["r"]
        elif kind == "rod":
            ends, r = [part["a"], part["b"]], part["r"]
        else:
            points = np.array(part["pts"]).reshape(-1, 3)
            return np.vstack([points, points[::-1] + 1e-12]), False, 1e-3
        sphere = np.array([[np.cos(a) * np.cos(b), np.sin(a) * np.cos(b), np.sin(b)]
                           for b in (-1.57, -0.8, 0.0, 0.8, 1.57) for a in turn[::2]])  # fmt: skip
        return np.vstack([np.array(e) + r * sphere for e in ends]), True, 0.3 * r
    if kind in ("tube", "cone", "ring"):
        z = np.array(part["z"]) if "z" in part else np.array(part["b"]) - np.array(part["a"])
        F = across(z)
        circle = np.cos(turn)[:, None] * F[:, 0] + np.sin(turn)[:, None] * F[:, 1]
        if kind == "ring":  # outer edge and back along the inner one
            o, R, r = np.array(part["o"]), part["R"], part["r"]
            closed = np.vstack([circle, circle[:1]])
            return np.vstack([o + (R + r) * closed, o + (R - r) * closed[::-1]]), False, 0.3 * r
        if kind == "cone":
            return np.vstack([np.array(part["a"]) + part["r"] * circle, [part["b"]]]), True, 0.0
        o, half = np.array(part["o"]), part["h"] / 2 * F[:, 2]
        return np.vstack([o + half + part["R1"] * circle, o - half + part["R1"] * circle]), True, 0.2 * part["R1"]
    if kind == "plate":
        x, y, o = (np.array(part[k]) for k in ("x", "y", "o"))
        corners = np.array(part["pts"]).reshape(-1, 2)
        rim = (corners[:, None] + part["r"] * np.stack([np.cos(turn), np.sin(turn)], -1)).reshape(-1, 2)
        rim = hull(rim)
        flat = o + rim[:, :1] * x + rim[:, 1:] * y
        z = part["h"] / 2 * np.cross(x, y)
        return np.vstack([flat + z, flat - z]), True, 0.0
    return np.array(part["v"]), True, 0.0


def _coil(a, b, r: float) -> np.ndarray:
    s = np.linspace(0, 1, 121)
    along = b - a
    length = float(np.linalg.norm(along)) or 1.0
    side = np.array([-along[1], along[0]]) / length
    on = ((s > 0.1) & (s < 0.9)) * r
    return a + s[:, None] * along + (on * np.sin(2 * np.pi * 9 * (s - 0.1) / 0.8))[:, None] * side


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue


def _darker(rgb) -> tuple[float, float, float]:
    return tuple(0.62 * x for x in rgb)  # type: ignore[return-value]
