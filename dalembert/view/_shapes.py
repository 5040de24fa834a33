"""edge · pictures: bodies drawn from their joints. Parts are plain data in a body's frame.

A part is a dict with its kind `t` and numbers; `page.js` builds meshes from it, `_movie.py` outlines:

    rod    a, b, r            round bar with round ends             cone   a, b, r
    ball   o, r                                                     tube   o, z, R0, R1, h  (hollow cylinder about z)
    plate  o, x, y, pts, r, h rounded convex outline of thickness h mesh   v, f
    ring   o, z, R, r         torus about z                         line   pts, r

`c` is its colour. In the plane everything lies near z = 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Part = dict[str, Any]

SUPPORT = "#6b7280"
DARK = "#3b4252"


def vec(x) -> np.ndarray:
    """A point of the plane or of space as a point of space."""
    x = np.asarray(x, float)
    return np.array([x[0], x[1], 0.0]) if x.shape == (2,) else x


def frame(R) -> np.ndarray:
    """A marker's frame, an angle in the plane, as a rotation in space."""
    R = np.asarray(R, float)
    if R.shape == (3, 3):
        return R
    if R.shape == (2, 2):
        R = np.arctan2(R[1, 0], R[0, 0])
    c, s = math.cos(float(R)), math.sin(float(R))
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def across(z) -> np.ndarray:
    """Axes (columns x, y, z) with z along `z`."""
    z = np.asarray(z, float)
    z = z / np.linalg.norm(z)
    x = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = x - z * (z @ x)
    x = x / np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


# ---- parts ---------------------------------------------------------------------------------------------------------


def rod(a, b, r, c=None) -> Part:
    return {"t": "rod", "a": num(a), "b": num(b), "r": num(r), "c": c}


def ball(o, r, c=None) -> Part:
    return {"t": "ball", "o": num(o), "r": num(r), "c": c}


def cone(a, b, r, c=None) -> Part:
    return {"t": "cone", "a": num(a), "b": num(b), "r": num(r), "c": c}


def ring(o, z, R, r, c=None) -> Part:
    return {"t": "ring", "o": num(o), "z": num(z), "R": num(R), "r": num(r), "c": c}


def tube(o, z, R0, R1, h, c=None) -> Part:
    return {"t": "tube", "o": num(o), "z": num(z), "R0": num(R0), "R1": num(R1), "h": num(h), "c": c}


def line(pts, r, c=None) -> Part:
    return {"t": "line", "pts": num(pts), "r": num(r), "c": c}


def plate(points, normal, r, h, c=None, along=None) -> Part:
    """The convex hull of points near a plane, rounded by r, of thickness h."""
    points = np.atleast_2d(np.asarray(points, float))
    R = across(normal)
    if along is not None:
        x = np.asarray(along, float) - R[:, 2] * (R[:, 2] @ along)
        x = x / np.linalg.norm(x)
        R = np.column_stack([x, np.cross(R[:, 2], x), R[:, 2]])
    o = points.mean(axis=0)
    flat = (points - o) @ R[:, :2]
    return {
        "t": "plate", "o": num(o), "x": num(R[:, 0]), "y": num(R[:, 1]), "pts": num(hull(flat)), "r": num(r),
        "h": num(h), "c": c,
    }  # fmt: skip


def box(o, R, size, c=None) -> Part:
    """A cuboid with its edges slightly rounded; its thinnest side is the plate's thickness."""
    size = np.asarray(size, float)
    order = np.argsort(-size)
    x, y = R[:, order[0]], R[:, order[1]]
    a, b, h = size[order]
    r = 0.08 * b
    corners = [(s * (a / 2 - r), t * (b / 2 - r)) for s in (1, -1) for t in (1, -1)]
    points = [np.asarray(o) + s * x + t * y for s, t in corners]
    return plate(points, np.cross(x, y), r, h, c, along=x)


def num(x):
    """Numbers for JSON, with the digits a picture needs."""
    x = np.asarray(x, float)
    x = np.where(np.isfinite(x), x, 0.0)
    if x.ndim == 0:
        return float(f"{float(x):.6g}")
    return [num(y) for y in x]


def hull(points: np.ndarray) -> np.ndarray:
    """The convex hull of points in the plane, counter-clockwise; of points on a line its ends."""
    from scipy.spatial import ConvexHull, QhullError

    points = np.unique(np.round(points, 12), axis=0)
    try:
        return points[ConvexHull(points).vertices]
    except (QhullError, ValueError):
        return points[[0, -1]] if len(points) > 1 else points


# ---- bodies --------------------------------------------------------------------------------------------------------


class Sizes:
    """Widths that suit a machine: `link` half the width of a link, `pin` the radius of a joint."""

    def __init__(self, length: float, typical: float, gap: float, plane: bool):
        self.length, self.typical = length, typical
        link = float(np.clip(0.075 * typical, 0.006 * length, 0.028 * length)) * (1.0 if plane else 0.72)
        self.link = max(min(link, 0.3 * gap), 0.003 * length)
        self.pin = self.link * (0.62 if plane else 1.25)
        self.thick = self.link * 0.7
        self.plane = plane
        self.layers = 1

    @property
    def top(self) -> float:
        """In the plane, the height of the upmost layer's face; in space nothing is lifted."""
        return 0.55 * self.layers * self.thick if self.plane else 0.0


def shape_parts(shape: dict[str, Any]) -> list[Part]:
    """The parts of a given shape: {"kind": …, "size": […]} with `position`, `rotation` in the body frame.

    box: its edges; sphere: radius; cylinder, capsule: radius, length along z (in the plane along x); ellipsoid: half
    axes; plane: edges; mesh: no size but `vertices`, `faces` (without them it is not drawn). `colour`: red, green,
    blue (0 … 1), optional.
    """
    o = vec(shape.get("position", (0.0, 0.0, 0.0)))
    turned = np.asarray(shape.get("rotation", np.eye(3)), float)
    R, flat = frame(turned), turned.shape != (3, 3)
    kind, size = shape.get("kind"), [float(x) for x in shape.get("size", ())]
    c = "#" + "".join(f"{round(255 * float(x)):02x}" for x in shape["colour"][:3]) if shape.get("colour") else None
    if kind == "box":
        return [box(o, R, [*size, 0.2 * min(size)][:3], c)]
    if kind == "plane":
        return [box(o, R, [*size, 0.01 * min(size)], c)]
    if kind == "sphere":
        return [ball(o, size[0], c)]
    if kind == "cylinder":
        return [tube(o, R[:, 2], 0.0, size[0], size[1], c)]
    if kind == "capsule":
        half = R[:, 0 if flat else 2] * size[1] / 2
        return [rod(o - half, o + half, size[0], c)]
    if kind == "ellipsoid":
        v, f = _sphere()
        return [{"t": "mesh", "v": num(o + (v * size) @ R.T), "f": f, "c": c}]
    if kind == "mesh" and "vertices" in shape:
        v = o + np.asarray(shape["vertices"], float) @ R.T
        return [{"t": "mesh", "v": num(v), "f": np.asarray(shape["faces"], int).tolist(), "c": c}]
    return []


def _sphere(rings: int = 13, steps: int = 24) -> tuple[np.ndarray, list[list[int]]]:
    """Vertices and faces of a unit sphere, from pole to pole."""
    b, a = np.meshgrid(
        np.linspace(-np.pi / 2, np.pi / 2, rings), np.linspace(0, 2 * np.pi, steps + 1)[:-1], indexing="ij"
    )
    v = np.stack([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)], axis=-1).reshape(-1, 3)
    at = lambda ring, k: ring * steps + k % steps  # noqa: E731
    return v, [[at(r, k), at(r, k + 1), at(r + 1, k + 1), at(r + 1, k)] for r in range(rings - 1) for k in range(steps)]


def wheel(o, z, radius, sizes: Sizes, c=None) -> list[Part]:
    """A tyre, a hub and spokes: its rotation is visible."""
    o, R, tyre = np.asarray(o, float), across(z), 0.09 * radius
    parts = [ring(o, z, radius - tyre, tyre, DARK), tube(o, z, 0.0, 0.16 * radius, 0.3 * radius, c)]
    for k in range(6):
        angle = k * math.pi / 3
        out = math.cos(angle) * R[:, 0] + math.sin(angle) * R[:, 1]
        parts.append(rod(o + 0.1 * radius * out, o + (radius - tyre) * out, 0.028 * radius, c))
    return parts


def body_parts(points: list[np.ndarray], body: dict[str, Any], sizes: Sizes) -> list[Part]:
    """A body drawn from the points where something is fixed to it, its mass and its inertia.

    Rods between two points, plates over three and more; a body without points that differ shows its inertia.
    """
    P = distinct(points, 2e-3 * sizes.length)
    spread = float(max((np.linalg.norm(p - q) for p in P for q in P), default=0.0))
    if spread == 0.0:
        limit = 0.2 if len(P) else 1.5
        return _one_point(P[0] if len(P) else np.zeros(3), body, sizes, limit * sizes.length)
    line_end = P[int(np.argmax(np.linalg.norm(P - P[0], axis=1)))]
    start = P[int(np.argmax(np.linalg.norm(P - line_end, axis=1)))]
    along = (line_end - start) / np.linalg.norm(line_end - start)
    solid = None if sizes.plane else _cuboid(body)
    if _deviation(P, start, along) < 0.06 * spread:
        off = _deviation(np.zeros((1, 3)), start, along)
        if off < 0.1 * spread:
            return [_link(start, line_end, solid, sizes)]
        if solid is not None and _thin(solid[1]) and _reaches(P, solid, 0.1):
            return [box(np.zeros(3), *solid)]
        return [_hull_plate(np.vstack([P, np.zeros(3)]), sizes)]
    centre = P.mean(axis=0)
    _, s, axes = np.linalg.svd(P - centre)
    flat = s[-1] <= 0.12 * s[0]
    if flat and (sizes.plane or abs(axes[-1] @ centre) < 0.15 * spread):
        return [_hull_plate(P, sizes)]
    if solid is not None and _thin(solid[1]) and solid[1].max() < 2.0 * spread:
        return [box(np.zeros(3), *solid), *(rod(p, _nearest(p, solid), 0.6 * sizes.link) for p in P)]
    hub = np.zeros(3) if np.linalg.norm(centre) < spread else centre
    return [ball(hub, 1.6 * sizes.link), *(rod(hub, p, 0.8 * sizes.link) for p in P)]


def _one_point(p, body, sizes: Sizes, limit: float) -> list[Part]:
    mass, I = float(body["mass"]), np.asarray(body["inertia"], float)
    reach = float(np.linalg.norm(p))
    largest = float(I) if I.ndim == 0 else float(np.linalg.eigvalsh(I)[-1])
    rod_length = math.sqrt(max(12.0 * largest / mass, 0.0))
    if reach < 2e-3 * sizes.length:
        return _solid(body, sizes, limit)
    along = p / reach
    if 0.9 * reach <= rod_length / 2 <= 3.0 * reach:  # as of a uniform rod that is held somewhere along it
        end = max(rod_length / 2, reach)
        return [_link(-along * rod_length / 2, along * end, None if sizes.plane else _cuboid(body), sizes)]
    bob = float(np.clip(math.sqrt(largest / mass), 1.8 * sizes.link, 0.3 * reach))
    if sizes.plane:
        return [_link(np.zeros(3), p, None, sizes, 0.5), plate([np.zeros(3)], (0, 0, 1), bob, 1.3 * sizes.thick)]
    return [rod(np.zeros(3), p, 0.6 * sizes.link), ball(np.zeros(3), bob)]


def _solid(body, sizes: Sizes, limit: float) -> list[Part]:
    """A disc, ball, cylinder or cuboid with the body's inertia, not larger than `limit` (half its size)."""
    mass, I = float(body["mass"]), np.asarray(body["inertia"], float)
    if I.ndim == 0:
        r = float(np.clip(math.sqrt(2 * float(I) / mass), 1.5 * sizes.link, limit))
        spoke = rod((0.5 * r, 0, 0.5 * sizes.thick), (0.9 * r, 0, 0.5 * sizes.thick), 0.025 * r, DARK)
        return [plate([np.zeros(3)], (0, 0, 1), r, sizes.thick), spoke]
    found = _cuboid(body)
    R, size = found if found is not None else (np.eye(3), np.full(3, 3 * sizes.link))
    scale = min(1.0, 2.5 * sizes.length / float(size.max()))
    size = np.maximum(size * scale, 0.5 * sizes.link)
    if np.ptp(size) < 0.02 * size.max():
        r = 0.645 * float(size.mean())  # 2/5 m r² of a ball against m a²/6 of a cube
        return [ball(np.zeros(3), r), *(ring(np.zeros(3), z, r, 0.03 * r, DARK) for z in np.eye(3)[:2])]
    pairs = [(abs(size[k] - size[k - 1]), k) for k in range(3)]
    gap, k = min(pairs)
    if gap < 0.02 * size.max():  # round about the third axis: m r²/2 against m a²/6
        axis = 3 - k - (k - 1) % 3
        r, z = float(size[k]) / math.sqrt(3), R[:, axis]
        mark = across(z)[:, 0]
        top = 0.5 * float(size[axis]) * z
        spoke = rod(top + 0.5 * r * mark, top + 0.9 * r * mark, 0.025 * r, DARK)
        return [tube(np.zeros(3), z, 0.0, r, size[axis]), spoke]
    return [box(np.zeros(3), R, size)]


def _link(a, b, solid, sizes: Sizes, width: float = 1.0) -> Part:
    if sizes.plane:
        return plate([a, b], (0, 0, 1), width * sizes.link, sizes.thick)
    r = width * sizes.link
    if solid is not None:  # thickness from its inertia
        r = float(np.clip(np.sort(solid[1])[1] / 2, 0.55 * r, 1.5 * r))
    return rod(a, b, r)


def _hull_plate(P, sizes: Sizes) -> Part:
    P = np.asarray(P, float)
    normal = (0, 0, 1) if sizes.plane else np.linalg.svd(P - P.mean(axis=0))[2][-1]
    return plate(P, normal, sizes.link, sizes.thick if sizes.plane else 1.1 * sizes.link)


def _cuboid(body) -> tuple[np.ndarray, np.ndarray] | None:
    """Axes and sizes of the uniform cuboid with the body's mass and inertia: m a²/12 = (I_b + I_c − I_a)/2."""
    values, R = np.linalg.eigh(np.asarray(body["inertia"], float))
    squares = 6.0 * (values.sum() - 2 * values) / float(body["mass"])
    if squares.max() <= 0:
        return None
    if np.linalg.det(R) < 0:
        R = R * [1, 1, -1]
    return R, np.sqrt(np.maximum(squares, 1e-4 * squares.max()))


def _thin(size) -> bool:
    ordered = np.sort(size)
    return bool(ordered[0] < 0.25 * ordered[1])


def _reaches(P, solid, slack: float) -> bool:
    R, size = solid
    return bool(np.all(np.abs(P @ R) <= size / 2 + slack * size.max()))


def _nearest(p, solid) -> np.ndarray:
    R, size = solid
    return R @ np.clip(p @ R, -size / 2, size / 2)


def _deviation(P, start, along) -> float:
    away = P - start
    return float(np.max(np.linalg.norm(away - np.outer(away @ along, along), axis=1)))


def distinct(points, tolerance: float) -> np.ndarray:
    kept: list[np.ndarray] = []
    for p in points:
        if all(np.linalg.norm(p - q) > tolerance for q in kept):
            kept.append(np.asarray(p, float))
    return np.array(kept).reshape(-1, 3)


# ---- the ground ---------------------------------------------------------------------------------------------------


def support(point, up, sizes: Sizes) -> list[Part]:
    """Where a joint is fixed to the ground: a foot below it."""
    g, down = sizes.pin, -np.asarray(up, float)
    if sizes.plane:
        side = np.cross(down, (0, 0, 1))
        back = np.array([0.0, 0.0, -sizes.top - 0.2 * sizes.thick])
        base = point + 3.0 * g * down + back
        corners = [point + back, base + 1.7 * g * side, base - 1.7 * g * side]
        low = base + 0.7 * g * down
        foot = plate(corners, (0, 0, 1), 0.5 * g, sizes.thick, SUPPORT)
        return [foot, plate([low - 2.9 * g * side, low + 2.9 * g * side], (0, 0, 1), 0.35 * g, sizes.thick, DARK)]
    base = point + 3.4 * g * down
    return [cone(base, point + 0.4 * g * down, 1.5 * g, SUPPORT), tube(base, down, 0, 2.1 * g, 0.5 * g, DARK)]
