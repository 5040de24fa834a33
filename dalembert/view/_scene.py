"""edge · pictures: `Scene`, one description of a machine in motion, from which page, films and pictures are made.

It is made from a labelled result alone (a solution's dataset, or one read from a file). In the plane the machine lies
in z = 0, neighbours in different layers. Units are the model's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.view import _shapes as shapes
from dalembert.view._symbols import symbol
from dalembert.view._undetermined import Window, determined, in_words, windows

BODY_COLOURS = ("#8fa6bd", "#c2ab86", "#93b5a0", "#b39dbd", "#c49a96", "#8fb3bd", "#b3b182", "#a3a9b8")
SOLVABILITY = {"unique": "#0072b2", "partly": "#f0a800", "open": "#c0392b"}
"""Blue, amber, red: apart in hue and in lightness, also for colour-blind eyes."""
SOLVABILITY_WORDS = {"unique": "unique", "partly": "partly unique", "open": "not determined"}
CURVES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#666666", "#8a6d3b")
MOST_CURVES = 6
STILL = 1e-9
"""Motions below this share of the machine's size, or of a radian, count as rest."""
MOST_TRACES = 3


@dataclass(frozen=True)
class Between:
    """How a thing is drawn that stretches from point to point."""

    colour: str
    radius: float  # in those of links
    ball: bool = False  # at the ground it ends in a ball


BETWEEN = {"spring": Between("#4c566a", 1.1, ball=True), "rod": Between("#9aa5b1", 0.35)}
"""By the word of a `look`."""
TANGLE = 30
"""A path so many times longer than it is wide is a tangle, and not drawn unless requested."""


@dataclass(frozen=True)
class Scene:
    """A machine in motion: T times, B bodies (the ground is number B), J joints. World axes.

    `windows` are the times at which reactions are not determined, or the position is singular.
    `places` (T, B + 1, 7) are positions and quaternions (w, x, y, z); `force`, `torque` (T, J, 3) act on body j at its
    marker; `in_joint` (T, J, 6) are the same along the joint's axes. Parts of bodies and joints: see `_shapes`.
    """

    title: str
    space: str
    up: np.ndarray
    notes: tuple[str, ...]
    windows: tuple[Window, ...]
    t: np.ndarray
    places: np.ndarray
    bodies: list[dict[str, Any]]
    joints: list[dict[str, Any]]
    links: list[dict[str, Any]]
    traces: list[dict[str, Any]]
    panels: list[dict[str, Any]]
    force: np.ndarray
    torque: np.ndarray
    in_joint: np.ndarray
    centre: np.ndarray
    reach: np.ndarray
    look: np.ndarray
    floor: float
    follow: bool
    lift: float
    typical: float

    @property
    def radius(self) -> float:
        """How far the machine reaches from `centre`."""
        return max(float(np.max(np.linalg.norm(self.reach, axis=1))), 1e-9)

    def world(self, body: int, point) -> np.ndarray:
        """A point of a body at all times (T, 3)."""
        return points_of(self.places[:, body], np.asarray(point, float))


def points_of(places: np.ndarray, point: np.ndarray) -> np.ndarray:
    """(T, 7) places and a point of the body → (T, 3)."""
    return places[:, :3] + np.einsum("tij,j->ti", rotations(places[:, 3:]), point)


def rotations(q: np.ndarray) -> np.ndarray:
    """(T, 4) quaternions → (T, 3, 3)."""
    w, x, y, z = (q / np.linalg.norm(q, axis=-1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def scene_of(data, *, traces=None, frames: int = 2000) -> Scene:
    """The scene of a result dataset. `traces` are (body, point in its frame) pairs, or body names.

    With more than `frames` saved times only every second, third, … one is shown.
    """
    machine = geometry_of(data)
    times = data["time"].values
    if len(times) == 0:
        raise DalembertError("This result holds no saved times: there is nothing to show.")
    found = windows(data) if "violation" in data else ()  # at all saved times; none of poses
    step = max(1, math.ceil(len(times) / frames))
    if step > 1:
        data = data.isel(time=np.unique(np.append(np.arange(0, len(times), step), len(times) - 1)))
    return _Maker(data, machine, found).scene(traces)


def geometry_of(data) -> dict[str, Any]:
    """The machine of a result, or an error with the reason why there is none."""
    if "geometry" not in data:
        raise DalembertError(
            "This result says nothing of bodies and joints, so there is no machine to draw (your own equations, or a "
            "file of an older version); plot() still works."
        )
    try:
        found = json.loads(str(data["geometry"].values))
        assert found["space"] in ("plane", "space") and isinstance(found["bodies"], list)
        for item in (*found["joints"], *found["forces"]):
            assert isinstance(item.setdefault("look", {}), dict)  # nothing is drawn of what says nothing of its look
    except (ValueError, KeyError, TypeError, AssertionError):
        raise DalembertError("The geometry of this result cannot be read; simulate again and save it anew.") from None
    return found


class _Maker:
    """The steps from a dataset to a scene."""

    def __init__(self, data, machine: dict[str, Any], found: tuple[Window, ...]):
        self.data, self.machine, self.windows = data, machine, found
        self.plane = machine["space"] == "plane"
        self.names = [b["name"] for b in machine["bodies"]]
        self.index = {name: k for k, name in enumerate([*self.names, "ground"])}
        self.t = data["time"].values.astype(float)
        self.places = self._places()
        self.up = self._up()
        for j in machine["joints"]:
            self._shift_hinge(j)
        self.rails = {j["name"]: self._rail(j) for j in machine["joints"]}
        self.points = self._points()
        self.sizes = self._sizes()
        self.layers = self._layers()

    def scene(self, traces) -> Scene:
        bodies, joints, links = self._bodies(), self._joints(), self._links()
        extents = [_extents(b["parts"]) for b in bodies]
        for body, parts in [(g["body"], g["parts"]) for j in joints for g in j["parts"]]:
            extents[body] += _extents(parts)
        for link in links:
            extents[link["i"]].append((np.array(link["a"]), link["r"], None))
            extents[link["j"]].append((np.array(link["b"]), link["r"], None))
        centre, reach, floor, follow = self._bounds(extents)
        force, torque, in_joint = self._reactions(joints)
        return Scene(
            title=str(self.data.attrs.get("model", "")),
            space=self.machine["space"],
            up=self.up,
            notes=self._notes(),
            windows=self.windows,
            t=self.t,
            places=self.places,
            bodies=bodies,
            joints=joints,
            links=links,
            traces=self._traces(traces),
            panels=self._panels(),
            force=force,
            torque=torque,
            in_joint=in_joint,
            centre=centre,
            reach=reach,
            look=self._look(),
            floor=floor,
            follow=follow,
            lift=1.6 * self.sizes.top,
            typical=self.sizes.typical,
        )

    # ---- where things are ----------------------------------------------------------------------------------

    def _places(self) -> np.ndarray:
        T, B = len(self.t), len(self.names)
        out = np.zeros((T, B + 1, 7))
        out[:, :, 3] = 1.0
        if B:
            position = self.data["position"].values
            out[:, :B, : position.shape[-1]] = position
            if self.plane:
                half = self.data["angle"].values / 2
                out[:, :B, 3], out[:, :B, 6] = np.cos(half), np.sin(half)
            else:
                out[:, :B, 3:] = self.data["quaternion"].values
        good = np.all(np.isfinite(out), axis=(1, 2))
        if not good.all():  # a run that blew up: the last good picture stays
            last = np.maximum.accumulate(np.where(good, np.arange(T), 0))
            out = out[last]
        return out

    def _up(self) -> np.ndarray:
        gravity = shapes.vec(self.machine["gravity"])
        size = np.linalg.norm(gravity)
        if size > 0:
            return -gravity / size
        return np.array([0.0, 1.0, 0.0]) if self.plane else np.array([0.0, 0.0, 1.0])

    def _shift_hinge(self, j) -> None:
        """A hinge between two bodies may be placed anywhere on its axis; one far from both is drawn nearer to them."""
        if not j["look"].get("movable") or "ground" in j["bodies"]:
            return
        middle = self.places[0, [self.index[b] for b in j["bodies"]], :3].mean(axis=0)
        i, own = self.places[:1, self.index[j["bodies"][0]]], shapes.frame(j["frames"][0])[:, 2]
        axis = rotations(i[:, 3:])[0] @ own
        away = float(axis @ (middle - points_of(i, shapes.vec(j["points"][0]))[0]))
        if abs(away) > 0.5 * self.machine["size"]:
            j["points"] = [
                (shapes.vec(p) + away * shapes.frame(R)[:, 2]).tolist()
                for p, R in zip(j["points"], j["frames"], strict=True)
            ]

    def _rail(self, j) -> tuple[float, float, np.ndarray] | None:
        """Where the sliding point of j runs along the axis of i; of a slider's markers only the line means anything."""
        look = j["look"]
        column = look.get("rail")
        if "points" not in j or column is None:
            return None
        i_, j_ = (self.index[b] for b in j["bodies"])
        p, R = [shapes.vec(x) for x in j["points"]], [shapes.frame(x) for x in j["frames"]]
        point = p[1]
        if not look.get("slot"):
            others = [
                np.linalg.norm(shapes.vec(x))
                for other in self.machine["joints"]
                for b, x in zip(other["bodies"], other.get("points", []), strict=False)
                if b == j["bodies"][1] and not _on_sleeve(other["look"])
            ]
            limit = 1.2 * max(others) if others else 0.25 * self.machine["size"]
            if j["bodies"][1] != "ground" and np.linalg.norm(p[1]) > limit:
                axis = R[1][:, column]
                point = p[1] - axis * (axis @ p[1])
        world = points_of(self.places[:, j_], point)
        home = points_of(self.places[:, i_], p[0])
        axis = np.einsum("tij,j->ti", rotations(self.places[:, i_, 3:]), R[0][:, column])
        along = np.einsum("ti,ti->t", world - home, axis)
        return float(along.min()), float(along.max()), point

    def _points(self) -> dict[str, list[np.ndarray]]:
        """For each body the points where something is fixed to it."""
        found: dict[str, list[np.ndarray]] = {name: [] for name in self.names}
        for j in self.machine["joints"]:
            sides = j["look"].get("sides", (0, 1))
            if "points" not in j or not sides:
                continue
            p = [shapes.vec(x) for x in j["points"]]
            rail = self.rails[j["name"]]
            for side, (body, point) in enumerate(zip(j["bodies"], p, strict=True)):
                if body == "ground" or side not in sides:
                    continue
                if rail is not None:
                    axis = shapes.frame(j["frames"][0])[:, j["look"]["rail"]]
                    point = rail[2] if side else point + axis * (rail[0] + rail[1]) / 2
                found[body].append(point)
        for f in self.machine["forces"]:
            if f["look"] and f["look"].get("sides", (0, 1)):
                for body, point in zip(f["bodies"], f.get("points", []), strict=False):
                    if body != "ground":
                        found[body].append(shapes.vec(point))
        return found

    def _sizes(self) -> shapes.Sizes:
        length = float(self.machine["size"]) or 1.0
        lengths = []
        for points in self.points.values():
            P = np.array([*points, np.zeros(3)])
            lengths.append(float(np.max(np.linalg.norm(P[:, None] - P[None], axis=-1))))
        lengths = [x for x in lengths if x > 1e-3 * length]
        gaps = []
        for points in self.points.values():
            P = shapes.distinct(points, 0.01 * length)
            gaps += [float(np.linalg.norm(p - q)) for k, p in enumerate(P) for q in P[:k]]
        return shapes.Sizes(
            length, float(np.median(lengths)) if lengths else length, min(gaps, default=length), self.plane
        )

    def _layers(self) -> dict[str, float]:
        """In the plane neighbours lie in different layers, so that links pass over each other."""
        if not self.plane:
            return dict.fromkeys(self.names, 0.0)
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(self.names)
        for j in self.machine["joints"]:
            moving = [b for b in j["bodies"] if b != "ground"]
            graph.add_edges_from((a, b) for a in moving for b in moving if a < b)
        # a plate would hide what lies beside it in its layer
        wide = [b for b, points in self.points.items() if _is_wide(points)]
        graph.add_edges_from((a, b) for a in wide for b in self.names if a != b)
        colours = nx.greedy_color(graph, strategy="smallest_last")
        extent = {c: max(_reach(self.points[b]) for b in colours if colours[b] == c) for c in set(colours.values())}
        order = {c: k for k, c in enumerate(sorted(extent, key=lambda c: -extent[c]))}  # large bodies lie low
        self.sizes.layers = len(order)
        return {b: 1.05 * self.sizes.thick * (order[c] - 0.5 * (len(order) - 1)) for b, c in colours.items()}

    def _bounds(self, extents) -> tuple[np.ndarray, np.ndarray, float, bool]:
        """What the camera looks at (T, 3), the points around it to be seen, the floor, whether it follows."""
        pick = np.unique(np.linspace(0, len(self.t) - 1, min(len(self.t), 120)).astype(int))
        clouds, heights = [], []
        for k, parts in enumerate(extents):
            for point, r, axis in parts:
                at = points_of(self.places[pick, k], point)
                clouds.append((at, r))
                drop = np.full(len(pick), r)
                if axis is not None:
                    z = np.einsum("tij,j->ti", rotations(self.places[pick, k, 3:]), axis)
                    drop = r * np.sqrt(np.clip(1 - (z @ self.up) ** 2, 0, 1))
                heights.append(float(np.min(at @ self.up - drop)))
        B = len(self.names)
        middle = self.places[:, :B, :3].mean(axis=1) if B else np.zeros((len(self.t), 3))
        moving = [
            (at, r) for (at, r), k in zip(clouds, [k for k, e in enumerate(extents) for _ in e], strict=True) if k < B
        ]
        own = max((float(np.max(np.linalg.norm(at - middle[pick], axis=1) + r)) for at, r in moving), default=1.0)
        travel = float(np.max(np.linalg.norm(middle - middle[0], axis=1)))
        floor = min(heights, default=0.0)
        if travel > 1.8 * own and self._is_loose():
            middle = middle + _middle([(at - middle[pick], r) for at, r in moving])
            return middle, _hull_points([(at - middle[pick], r) for at, r in moving]), floor, True
        centre = np.broadcast_to(_middle(clouds), (len(self.t), 3)).copy()
        return centre, _hull_points([(at - centre[0], r) for at, r in clouds]), floor, False

    def _is_loose(self) -> bool:
        """Whether nothing but wheels, edges and rails holds the machine to the ground: the camera may follow."""
        return not any(j["look"].get("holds", True) for j in self.machine["joints"] if "ground" in j["bodies"])

    def _look(self) -> np.ndarray:
        """The level direction in which the machine is thinnest: from there it shows most."""
        points = [points_of(self.places[:1, self.index[b]], p)[0] for b, ps in self.points.items() for p in ps]
        level = np.eye(3) - np.outer(self.up, self.up)
        cloud = np.array([*points, *self.places[0, :, :3]]) @ level
        spread = np.cov((cloud - cloud.mean(axis=0)).T)
        values, axes = np.linalg.eigh(spread + 10 * np.trace(spread) * np.outer(self.up, self.up))
        look = axes[:, 0] if values[0] < 0.6 * values[1] else level[:, int(np.argmax(np.diag(level)))]
        look = look / np.linalg.norm(look)
        return look if look @ (1.0, -1.2, 0.3) > 0 else -look

    # ---- what is drawn -------------------------------------------------------------------------------------

    def _bodies(self) -> list[dict[str, Any]]:
        out = []
        for k, body in enumerate(self.machine["bodies"]):
            colour = BODY_COLOURS[k % len(BODY_COLOURS)]
            given = [p for s in body.get("shapes", []) for p in shapes.shape_parts(s)]
            parts = given or self._drawn(body)
            parts = [shapes_shift(p, self.layers[body["name"]]) for p in parts]
            out.append({"name": body["name"], "color": colour, "parts": _coloured(parts, colour)})
        out.append({"name": "ground", "color": shapes.SUPPORT, "parts": self._ground()})
        for f in self.machine["forces"]:
            for side, part in symbol(f, self.sizes, None):
                out[self.index[f["bodies"][side]]]["parts"].append(part)
        return out

    def _drawn(self, body) -> list[shapes.Part]:
        wheels, hubs, rims = [], [], []
        for j in self.machine["joints"]:
            look, numbers = j["look"], j.get("numbers", {})
            for side, key in look.get("wheels", ()) if "points" in j else ():
                if j["bodies"][side] != body["name"]:
                    continue
                signed = [numbers.get(k, 0.0) for _, k in look["wheels"]]
                radius, o = abs(numbers.get(key, 0.0)), shapes.vec(j["points"][side])
                if (again := (*o, radius)) in rims:
                    continue  # a wheel that meshes twice
                rims.append(again)
                frame = shapes.frame(j["frames"][0 if look.get("axis_of_i") else side])
                hubs.append(o)
                if look.get("round"):
                    wheels.append(shapes.ball(o, radius))
                    wheels += [shapes.ring(o, z, radius, 0.035 * radius, shapes.DARK) for z in np.eye(3)]
                    continue
                spin = np.array([0.0, 0.0, 1.0]) if self.plane else frame[:, 2]
                if look.get("inside") and numbers.get(key, 0.0) > 0 > min(signed):  # a ring around its planet
                    wheels.append(shapes.ring(o, spin, radius, 0.4 * self.sizes.pin, shapes.DARK))
                else:
                    wheels += shapes.wheel(o, spin, radius, self.sizes)
        points = self.points[body["name"]]
        if wheels and all(any(np.linalg.norm(p - h) < 1e-6 * self.sizes.length for h in hubs) for p in points):
            return wheels
        drawn = any(j["look"].get("draws_j") and j["bodies"][1] == body["name"] for j in self.machine["joints"])
        if drawn and len(shapes.distinct(points, 2e-3 * self.sizes.length)) == 1:
            return wheels  # its sleeve is enough
        return wheels + shapes.body_parts(points, body, self.sizes)

    def _ground(self) -> list[shapes.Part]:
        parts, done = [], []
        for j in self.machine["joints"]:
            if "points" not in j or not j["look"].get("foot", True) or "ground" not in j["bodies"]:
                continue
            point = shapes.vec(j["points"][j["bodies"].index("ground")])
            if all(np.linalg.norm(point - q) > 1e-6 * self.sizes.length for q in done):
                parts += shapes.support(point, self.up, self.sizes)
                done.append(point)
        for f in self.machine["forces"]:
            stretches = BETWEEN.get(f["look"].get("between", ""))
            if stretches is not None and stretches.ball and "ground" in f["bodies"]:
                point = shapes.vec(f["points"][f["bodies"].index("ground")])
                lift = np.array([0.0, 0.0, 1.2 * self.sizes.top])
                parts.append(shapes.ball(point + lift, 0.6 * self.sizes.pin, shapes.DARK))
        return parts

    def _joints(self) -> list[dict[str, Any]]:
        solvability = dict.fromkeys([j["name"] for j in self.machine["joints"]], "unique")
        if "solvability" in self.data:
            solvability |= dict(
                zip(map(str, self.data["joint"].values), map(str, self.data["solvability"].values), strict=True)
            )
        out = []
        for j in self.machine["joints"]:
            colour = SOLVABILITY.get(solvability[j["name"]], SOLVABILITY["unique"])
            parts: dict[int, list] = {}
            for side, part in symbol(j, self.sizes, self.rails[j["name"]]):
                parts.setdefault(self.index[j["bodies"][side]], []).append(part)
            placed = "points" in j and len(j["bodies"]) == 2
            point = shapes.vec(j["points"][1]) if placed else np.zeros(3)
            rail = self.rails[j["name"]]
            out.append(
                {
                    "name": j["name"],
                    "kind": j["kind"],
                    "bodies": j["bodies"],
                    "solvability": solvability[j["name"]],
                    "j": self.index[j["bodies"][-1]],
                    "point": shapes.num(point if rail is None or j["look"].get("slot") else rail[2]),
                    "placed": placed,
                    "sure": self._sure(j["name"]),
                    "possible": self._possible(j["name"]),
                    "parts": [{"body": b, "parts": _coloured(p, colour)} for b, p in parts.items()],
                }
            )
        return out

    def _sure(self, joint: str) -> list[bool]:
        """Which of Fx … Mz, along the joint's axes, are unique."""
        if "unique_force_in_joint" not in self.data or joint not in self.data["joint"].values:
            return [True] * 6
        F, M = (determined(self.data, joint, f"unique_{x}_in_joint") for x in ("force", "torque"))
        return [bool(x) for x in ([*F, True, True, True, *M] if self.plane else [*F, *M])]

    def _possible(self, joint: str) -> dict[str, list[np.ndarray]]:
        """The least and the greatest possible value over time of those of Fx … Mz that are not unique, by number."""
        if "possible_lower" not in self.data or joint not in self.data["joint"].values:
            return {}
        ends = [self.data[f"possible_{x}"].sel(joint=joint).values for x in ("lower", "upper")]
        return {str(k): [x[:, k] for x in ends] for k in range(6) if not np.isnan(ends[0][:, k]).all()}

    def _links(self) -> list[dict[str, Any]]:
        """What stretches between two bodies: springs, and massless rods."""
        out = []
        lift = np.array([0.0, 0.0, 1.2 * self.sizes.top])
        for item in (*self.machine["joints"], *self.machine["forces"]):
            word = item["look"].get("between", "")
            drawn = BETWEEN.get(word)
            if drawn is None or len(item.get("points", [])) != 2:
                continue
            a, b = (shapes.num(shapes.vec(p) + lift) for p in item["points"])
            i, j = (self.index[name] for name in item["bodies"])
            place = {"name": item["name"], "t": word, "i": i, "j": j, "a": a, "b": b}
            out.append(place | {"r": shapes.num(drawn.radius * self.sizes.link), "c": drawn.colour})
        return out

    def _traces(self, wanted) -> list[dict[str, Any]]:
        if wanted is None:
            on_ground = {b for j in self.machine["joints"] for b in j["bodies"] if "ground" in j["bodies"]}
            chosen = [b for b in self.names if b not in on_ground] or self.names
            steps = np.linalg.norm(np.diff(self.places[:, :-1, :3], axis=0), axis=-1)
            way = dict(zip(self.names, steps.sum(axis=0).tolist(), strict=True))
            extent = dict(zip(self.names, np.ptp(self.places[:, :-1, :3], axis=0).max(axis=-1).tolist(), strict=True))
            chosen = [b for b in chosen if way[b] < TANGLE * extent[b]]
            # those that move most
            chosen = sorted(sorted(chosen, key=lambda b: -way[b])[:MOST_TRACES], key=self.names.index)
            wanted = chosen
        out = []
        for k, item in enumerate(wanted):
            body, point = (item, np.zeros(2 if self.plane else 3)) if isinstance(item, str) else item
            self.body_index(body)
            if np.shape(point) != ((2,) if self.plane else (3,)):
                raise DalembertError(f"The traced point of '{body}' must have {2 if self.plane else 3} numbers.")
            lift = np.array([0.0, 0.0, 1.6 * self.sizes.top])
            at = shapes.num(shapes.vec(point) + lift)
            out.append({"body": self.index[body], "point": at, "c": CURVES[(k + 3) % len(CURVES)]})
        return out

    def body_index(self, body: str) -> int:
        if body not in self.names:
            hint = did_you_mean(str(body), self.names)
            raise DalembertError(f"There is no body '{body}'; the bodies are {', '.join(self.names)}.{hint}")
        return self.index[body]

    # ---- numbers beside it ---------------------------------------------------------------------------------

    def _reactions(self, joints: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Forces and torques in world axes, and all six along the joint's, by the joints' names."""
        T, d = len(self.t), 2 if self.plane else 3
        force, torque, own = (np.zeros((T, len(joints), size)) for size in (3, 3, 6))
        names = [str(j) for j in self.data["joint"].values] if "reaction_force" in self.data else []
        pairs = [(k, names.index(j["name"])) for k, j in enumerate(joints) if j["name"] in names]
        if pairs:
            here, there = map(list, zip(*pairs, strict=True))
            force[:, here, :d] = self.data["reaction_force"].values[:, there]
            own[:, here, :d] = self.data["reaction_force_in_joint"].values[:, there]
            turning = slice(2, 3) if self.plane else slice(0, 3)
            for out, name in ((torque, "reaction_torque"), (own[..., 3:], "reaction_torque_in_joint")):
                value = self.data[name].values[:, there]
                out[:, here, turning] = value[..., None] if self.plane else value
        force, torque, own = (np.nan_to_num(x, posinf=0.0, neginf=0.0) for x in (force, torque, own))
        return force, torque, own

    def _notes(self) -> tuple[str, ...]:
        a = self.data.attrs
        out = []
        if "violation" not in self.data:  # poses, not a motion
            return ()
        if a.get("status", "done") != "done":
            out.append(f"ended: {a['status']}")
        redundancy = int(a.get("redundancy", 0))
        if redundancy:
            rows = "1 redundant row" if redundancy == 1 else f"{redundancy} redundant rows"
            out.append(f"{rows}: not all reactions are unique; picked by {a.get('reaction_rule', 'a rule')}")
        else:
            elsewhere = " at all other times" if any(w.joints for w in self.windows) else ""
            out.append(f"all reactions are unique{elsewhere}")
        out += in_words(self.windows)
        if "impact_time" in self.data:
            counts = {"impact": self.data.sizes["impact"], "lift-off": self.data.sizes.get("lift_off", 0)}
            out.append(", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items()))
        worst = self.data["violation"].values.max(axis=0)
        out.append(f"constraints held to {worst[0]:.0e} of the machine's size")
        return tuple(out)

    def _panels(self) -> list[dict[str, Any]]:
        panels = []
        if "coordinate" in self.data:
            units = self.data["joint_coordinate_units"].values
            for unit, word in (("rad", "joint angles"), ("m", "joint displacements")):
                mine = [k for k, u in enumerate(units) if u == unit]
                curves = {
                    str(self.data["joint_coordinate"].values[k]): self.data["coordinate"].values[:, k] for k in mine
                }
                curves = moving(curves, self.sizes.length if unit == "m" else 1.0)
                if curves:
                    panels.append(_panel(word, unit, curves))
        if not panels and self.names:
            stacked = self.data["position"].stack(curve=("body", "axis"))
            curves = {f"{b}.{a}": stacked.values[:, k] for k, (b, a) in enumerate(stacked["curve"].values)}
            curves = moving(curves, self.sizes.length)
            if curves:
                panels.append(_panel("centres of mass", "m", curves))
        for unit, curves in measured_curves(self.data).items():
            curves = {k: y for k, y in curves.items() if np.any(np.isfinite(y))}
            if curves:
                panels.append(_panel("measurements", unit, curves, by_rule=picked_channels(self.data)))
        if "violation" not in self.data:  # poses, not a motion
            return panels
        energy = {k: self.data[f"energy_{k}"].values for k in ("kinetic", "potential", "total")}
        panels.append(_panel("energy", "J", energy))
        violation = {str(level): self.data["violation"].sel(level=level).values for level in self.data["level"].values}
        panels.append(_panel("constraint violation", "1", violation) | {"log": True})
        return panels


def _on_sleeve(look: dict[str, Any]) -> bool:
    """Whether a joint slides on a rail, or drives one: its point on the slider may lie anywhere along it."""
    return (look.get("rail") is not None and not look.get("slot")) or not look.get("sides", (0, 1))


def measured_curves(data) -> dict[str, dict[str, np.ndarray]]:
    """Measurements, inputs and states of controllers over time: for each unit the curves by name."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for variable, names, units in (
        ("measurement", "channel", "channel_units"),
        ("input_value", "input", "input_units"),
        ("controller_value", "controller_state", None),
    ):
        if variable in data:
            for k, name in enumerate(map(str, data[names].values)):
                unit = "" if units is None else str(data[units].values[k])
                found.setdefault(unit, {}).setdefault(name, data[variable].values[:, k])
    return found


def picked_channels(data) -> set[str]:
    """The channels of measurements that the rigid-body model does not determine: a rule picked them."""
    if "channel_rule" not in data.coords:
        return set()
    rules = zip(data["channel"].values, data["channel_rule"].values, strict=True)
    return {str(x) for x, rule in rules if str(rule) != "unique"}


def moving(curves: dict[str, np.ndarray], size: float) -> dict[str, np.ndarray]:
    """The curves that move by more than rounding, `size` being the machine's (or a radian)."""
    return {k: y for k, y in curves.items() if np.ptp(np.nan_to_num(y)) > STILL * size}


def _is_wide(points) -> bool:
    P = np.array(points).reshape(-1, 3)
    if len(P) < 3:
        return False
    sizes = np.linalg.svd(P - P.mean(axis=0), compute_uv=False)
    return bool(sizes[1] > 0.1 * sizes[0])


def _reach(points) -> float:
    return float(max((np.linalg.norm(p) for p in points), default=0.0))


def _middle(clouds) -> np.ndarray:
    """The middle of the box around balls (at, r)."""
    low = np.min([np.min(at, axis=0) - r for at, r in clouds], axis=0) if clouds else -np.ones(3)
    high = np.max([np.max(at, axis=0) + r for at, r in clouds], axis=0) if clouds else np.ones(3)
    return (low + high) / 2


def _hull_points(clouds) -> np.ndarray:
    """The outermost points of balls (at, r), a few dozen of them."""
    grid = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) != (0, 0, 0)])
    out = []
    for way in grid / np.linalg.norm(grid, axis=1)[:, None]:
        best = [(float(np.max(at @ way)) + r, at[int(np.argmax(at @ way))] + r * way) for at, r in clouds]
        out.append(max(best, key=lambda b: b[0])[1] if best else way)
    return np.array(out)


def _panel(title: str, unit: str, curves: dict[str, np.ndarray], by_rule: Collection[str] = ()) -> dict[str, Any]:
    """A small plot: the curves that move most; dashed what a rule picked."""
    ranked = sorted(curves, key=lambda c: -float(np.ptp(np.nan_to_num(curves[c]))))[:MOST_CURVES]
    shown = [c for c in curves if c in ranked]
    more = f", {len(shown)} of {len(curves)}" if len(shown) < len(curves) else ""
    return {
        "title": title + more,
        "unit": unit,
        "curves": [
            {"label": f"{c} (by rule)" if c in by_rule else c, "y": curves[c], "c": CURVES[k % len(CURVES)]}
            | ({"dashed": True} if c in by_rule else {})
            for k, c in enumerate(shown)
        ],
    }


def _coloured(parts: list[shapes.Part], colour: str) -> list[shapes.Part]:
    return [p | {"c": p.get("c") or colour} for p in parts]


def shapes_shift(part: shapes.Part, z: float) -> shapes.Part:
    """The part moved along z: into its layer."""
    if z == 0.0:
        return part
    moved = {k: [*part[k][:2], part[k][2] + z] for k in ("a", "b", "o") if k in part}
    for k in ("pts", "v"):
        if k in part and part["t"] in ("line", "mesh"):
            moved[k] = [[p[0], p[1], p[2] + z] for p in part[k]]
    return part | moved


def _extents(parts: list[shapes.Part]) -> list[tuple[np.ndarray, float, np.ndarray | None]]:
    """Points with a radius (a ball, or a disc across an axis) that hold the parts."""
    out: list[tuple[np.ndarray, float, np.ndarray | None]] = []
    for p in parts:
        if p["t"] in ("rod", "cone"):
            out += [(np.array(p[k]), p["r"] if p["t"] == "rod" else 0.0, None) for k in ("a", "b")]
        elif p["t"] == "ball":
            out.append((np.array(p["o"]), p["r"], None))
        elif p["t"] == "ring":
            z = np.array(p["z"]) / np.linalg.norm(p["z"])
            out.append((np.array(p["o"]), p["R"] + p["r"], z))
        elif p["t"] == "tube":
            z = np.array(p["z"]) / np.linalg.norm(p["z"])
            out += [(np.array(p["o"]) + s * p["h"] / 2 * z, p["R1"], z) for s in (1, -1)]
        elif p["t"] == "plate":
            x, y, o = (np.array(p[k]) for k in ("x", "y", "o"))
            z = np.cross(x, y)
            for u, w in p["pts"]:
                out += [(o + u * x + w * y + s * p["h"] / 2 * z, p["r"], z) for s in (1, -1)]
        else:
            points = np.array(p["v"] if p["t"] == "mesh" else p["pts"]).reshape(-1, 3)
            out += [(q, 0.0, None) for q in points[:: max(1, len(points) // 200)]]
    return out
