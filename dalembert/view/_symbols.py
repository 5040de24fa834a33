"""edge · pictures: the symbols of joints and forces, by the word that a thing's `look` has for it.

A symbol is a function of a `Spot` that returns parts (`_shapes.py`), each with the side (0: i, 1: j) of the body it is
fixed to. To draw a new thing, add a function of that name to `SYMBOLS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalembert.view._shapes import Part, Sizes, across, ball, box, cone, frame, line, plate, ring, rod, tube, vec

Drawn = list[tuple[int, Part]]
FORCE = "#c0392b"


@dataclass(frozen=True)
class Spot:
    """Where a symbol is drawn: the points and frames of markers i and j in their bodies, numbers, and sizes.

    `rail`: along the axis of a sliding joint in i, from where to where, and the point of j that slides.
    """

    item: dict[str, Any]
    p: list[np.ndarray]
    R: list[np.ndarray]
    sizes: Sizes
    rail: tuple[float, float, np.ndarray] | None

    @property
    def g(self) -> float:
        """The radius of a pin."""
        return self.sizes.pin

    @property
    def plane(self) -> bool:
        return self.sizes.plane

    @property
    def z(self) -> np.ndarray:
        return self.R[0][:, 2]

    @property
    def lift(self) -> np.ndarray:
        """In the plane, above all bodies."""
        return np.array([0.0, 0.0, 1.3 * self.sizes.top if self.plane else 0.0])

    @property
    def axis(self) -> np.ndarray:
        """Along which it slides."""
        column = self.item["look"].get("rail")
        return self.R[0][:, (0 if self.plane else 2) if column is None else column]

    def number(self, key: str) -> float:
        return self.item.get("numbers", {}).get(key, 10 * self.g)

    def travel(self) -> tuple[float, float, np.ndarray]:
        return self.rail if self.rail is not None else (-3 * self.g, 3 * self.g, self.p[1])


def symbol(item: dict[str, Any], sizes: Sizes, rail) -> Drawn:
    """The parts of a joint's or a force's symbol; none where it has no symbol or no two places."""
    draw = SYMBOLS.get(item["look"].get("symbol", ""))
    if draw is None or "points" not in item or len(item["points"]) != len(item["bodies"]):
        return []
    spot = Spot(item, [vec(x) for x in item["points"]], [frame(x) for x in item["frames"]], sizes, rail)
    return draw(spot)


def hinge(s: Spot) -> Drawn:
    p, z, g = s.p[0], s.z, s.g
    if s.plane:
        rim = tube(p, z, 0.42 * g, g, 2.4 * s.sizes.top)
        return [(0, rim), (0, tube(p, z, 0, 0.43 * g, 2.3 * s.sizes.top, "#f8fafc"))]
    ends = [tube(p + way * 1.7 * g * z, z, 0, 0.85 * g, 0.4 * g) for way in (1, -1)]
    return [(0, tube(p, z, 0, 0.62 * g, 3.4 * g)), *((0, end) for end in ends)]


def sleeve(s: Spot) -> Drawn:
    """A block that slides on a rail, or between two."""
    g, plane, axis = s.g, s.plane, s.axis
    low, high, point = s.travel()
    side = s.R[0][:, 1] if plane else s.R[0][:, 0]
    half = (2.2 if plane else 1.6) * g
    size = (2 * half, 2.3 * g, 2.1 * s.sizes.top) if plane else (2.1 * g, 2.1 * g, 2 * half)
    offset, radius, ways = (1.45 * g, 0.26 * g, (1, -1)) if plane else (0.0, 0.42 * g, (0,))
    ends = (s.p[0] + (low - half) * axis, s.p[0] + (high + half) * axis)
    rails = [(0, rod(ends[0] + k * offset * side, ends[1] + k * offset * side, radius)) for k in ways]
    return [(1, box(point, s.R[1], size)), *rails]


def rod_in_sleeve(s: Spot) -> Drawn:
    g, axis = s.g, s.axis
    low, high, point = s.travel()
    ends = (s.p[0] + (low - 2 * g) * axis, s.p[0] + (high + 2 * g) * axis)
    return [(1, tube(point, s.R[1][:, 2], 0.5 * g, 1.1 * g, 3.2 * g)), (0, rod(*ends, 0.45 * g))]


def screw(s: Spot) -> Drawn:
    g, axis = s.g, s.axis
    low, high, _ = s.travel()
    start, end = s.p[0] + (low - 2 * g) * axis, s.p[0] + (high + 2 * g) * axis
    count = int(np.clip((high - low + 4 * g) / (0.9 * g), 4, 40))
    turns = [(0, ring(start + (end - start) * k / count, axis, 0.5 * g, 0.13 * g)) for k in range(count + 1)]
    return [*rod_in_sleeve(s), *turns]


def slot(s: Spot) -> Drawn:
    """A pin between two rails."""
    if s.rail is None:
        return []
    g, axis = s.g, s.axis
    low, high, _ = s.rail
    side = s.R[0][:, 1] if s.plane or s.item["look"].get("rail") == 0 else s.R[0][:, 0]
    start, end = s.p[0] + low * axis, s.p[0] + high * axis
    rails = [(0, rod(start + way * g * side, end + way * g * side, 0.22 * g)) for way in (1, -1)]
    return [*rails, (1, ball(s.p[1] + s.lift, 0.75 * g))]


def ball_joint(s: Spot) -> Drawn:
    return [(0, ball(s.p[0], 1.15 * s.g))]


def ball_in_ring(s: Spot) -> Drawn:
    return [*ball_joint(s), (1, ring(s.p[1], s.R[1][:, 2], 1.2 * s.g, 0.3 * s.g))]


def cross(s: Spot) -> Drawn:
    g, arms = s.g, [(0, s.R[0][:, 0], s.p[0]), (1, s.R[1][:, 1], s.p[1])]
    return [(0, ball(s.p[0], 0.62 * g)), *((k, rod(o - 1.5 * g * a, o + 1.5 * g * a, 0.36 * g)) for k, a, o in arms)]


def block(s: Spot) -> Drawn:
    return [(0, box(s.p[0], s.R[0], np.full(3, 1.8 * s.g)))]


def corner(s: Spot) -> Drawn:
    """A cube that stands on its corner: it holds orientation alone."""
    return [(1, box(s.p[1] + s.lift, s.R[1] @ across((1.0, 1.0, 1.0)).T, np.full(3, 1.5 * s.g)))]


def rod_ends(s: Spot) -> Drawn:
    return [(0, ball(s.p[0] + s.lift, 0.8 * s.g)), (1, ball(s.p[1] + s.lift, 0.8 * s.g))]


def blade(s: Spot) -> Drawn:
    x, o = s.R[1][:, 0], s.p[1] + s.lift
    return [(1, plate([o - 1.5 * s.g * x, o + 1.5 * s.g * x], s.R[1][:, 2], 0.75 * s.g, s.sizes.thick))]


def hub(s: Spot) -> Drawn:
    spin = np.array([0.0, 0.0, 1.0]) if s.plane else s.R[1][:, 2]
    return [(1, ring(s.p[1], spin, 0.16 * s.number("radius"), 0.06 * s.number("radius")))]


def band(s: Spot) -> Drawn:
    radius = s.number("radius")
    return [(1, ring(s.p[1], s.R[1][:, 2], radius, 0.05 * radius))]


def hubs(s: Spot) -> Drawn:
    """The hubs of two wheels; a wheel that is part of the ground is drawn as its rim."""
    radii = [abs(s.number(f"radius_{k}")) for k in "ij"]
    rims = [(k, ring(s.p[k], s.z, r, 0.4 * s.g)) for k, r in enumerate(radii) if s.item["bodies"][k] == "ground"]
    return [(k, tube(s.p[k], s.z, 0.0, 0.18 * r, 0.36 * r)) for k, r in enumerate(radii)] + rims


def rack(s: Spot) -> Drawn:
    radius = s.number("radius")
    teeth = [s.p[1] + s.lift + way * 3 * radius * s.R[1][:, 0] for way in (-1, 1)]
    return [(0, tube(s.p[0], s.z, 0.0, 0.18 * radius, 0.36 * radius)), (1, line(teeth, 0.3 * s.g))]


def pad(s: Spot) -> Drawn:
    return [(1, plate([s.p[1]], s.R[1][:, 2], 2.2 * s.g, 0.25 * s.g)), (1, ball(s.p[1], 0.9 * s.g))]


def curve(s: Spot) -> Drawn:
    points = [s.p[0] + s.R[0] @ vec(x) + s.lift for x in s.item.get("curve", [])]
    drawn: Drawn = [(0, line(points, 0.3 * s.g))] if points else []
    return [*drawn, (1, ball(s.p[1] + s.lift, s.g))]


def drive(s: Spot) -> Drawn:
    return [(0, ring(s.p[0] + s.lift, s.z, 2.1 * s.g, 0.28 * s.g))]


def collar(s: Spot) -> Drawn:
    return [(1, ring(s.p[1] + s.lift, s.R[1][:, 2], 1.6 * s.g, 0.28 * s.g))]


def bushing(s: Spot) -> Drawn:
    """A sleeve of rubber around a pin."""
    soft = "#4c566a"
    return [(0, tube(s.p[0], s.z, 0.7 * s.g, 1.3 * s.g, max(2.4 * s.sizes.top, 1.6 * s.g), soft)),
            (1, tube(s.p[1], s.R[1][:, 2], 0.0, 0.6 * s.g, max(2.5 * s.sizes.top, 2.0 * s.g), "#c9d1db"))]  # fmt: skip


def mark(s: Spot) -> Drawn:
    """Where a force acts whose direction does not turn with the body."""
    return [(0, ball(s.p[0] + s.lift, 0.5 * s.g, FORCE))]


def arrow(s: Spot) -> Drawn:
    """A force along the axes of its body."""
    value = vec(s.item.get("value", np.zeros(3)))
    size = np.linalg.norm(value)
    if size == 0.0:
        return mark(s)
    along, tip = value / size, s.p[0] + s.lift
    shaft = rod(tip - 7 * s.g * along, tip - 2.2 * s.g * along, 0.25 * s.g, FORCE)
    return [(0, shaft), (0, cone(tip - 2.4 * s.g * along, tip, 0.7 * s.g, FORCE))]


_NAMED: tuple[Callable[[Spot], Drawn], ...] = (
    hinge, sleeve, rod_in_sleeve, screw, slot, ball_in_ring, cross, block, corner, rod_ends, blade, hub, band, hubs,
    rack, pad, curve, drive, collar, bushing, mark, arrow,
)  # fmt: skip
SYMBOLS = {"ball": ball_joint} | {draw.__name__: draw for draw in _NAMED}
"""The symbols by their words in `model.Look`."""
