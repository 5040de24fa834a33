"""edge · files: a robot as robot files describe it: links, and joints with their motions from parent to child."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dalembert import model
from dalembert.io._xml import Element
from dalembert.model import axis_angle, frame_on_axis, rotation_matrix

SMALL = 1e-9  # cosines and distances (of the robot's size) up to which axes are at right angles, or meet


@dataclass(frozen=True, eq=False)
class Pose:
    """A frame in another: p_outer = p + R p_inner."""

    R: np.ndarray = field(default_factory=lambda: np.eye(3))
    p: np.ndarray = field(default_factory=lambda: np.zeros(3))

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(self.R @ other.R, self.p + self.R @ other.p)

    @property
    def inverse(self) -> Pose:
        return Pose(self.R.T, -self.R.T @ self.p)

    def point(self, p) -> np.ndarray:
        return self.p + self.R @ np.asarray(p, float)


@dataclass(eq=False)
class Picture:
    """A visual shape in a link's frame."""

    name: str
    kind: str
    pose: Pose
    size: tuple[float, ...] = ()
    file: str = ""
    scale: tuple[float, ...] | None = None
    colour: tuple[float, ...] | None = None


@dataclass(eq=False)
class Link:
    """A rigid part. `inertia` is about its centre of mass, along the link's axes; `frames` are named places on it."""

    name: str
    element: Element | None
    mass: float = 0.0
    centre: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    pictures: list[Picture] = field(default_factory=list)
    frames: list[tuple[str, Pose]] = field(default_factory=list)
    lift: float = 0.0  # the share of its weight that is taken off


@dataclass(eq=False)
class Motion:
    """One motion of a joint: a "turn" about or a "slide" along `axis` through `point`, a "ball" or "free".

    Axis and point are in the child link's frame where the joint is at zero. `start` is its value at the start, a Pose
    for a ball (R) or a free link (the link in the world); `rate` likewise 1, 3 or 6 numbers.
    """

    name: str
    kind: str
    axis: np.ndarray = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    point: np.ndarray = field(default_factory=lambda: np.zeros(3))
    start: Any = 0.0
    rate: Any = 0.0
    stiffness: float = 0.0
    damping: float = 0.0
    rest: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    limit: dict[str, float] = field(default_factory=dict)
    element: Element | None = None

    def moved(self, pose: Pose) -> Motion:
        """The same seen from another frame of the child's side."""
        return replace(self, axis=pose.R @ self.axis, point=pose.point(self.point))

    @property
    def acts(self) -> bool:
        return bool(self.stiffness or self.damping or self.friction or self.armature)


@dataclass(eq=False)
class Joint:
    """What holds a child link to its parent: where the child is at zero, and the motions it has, in order."""

    name: str
    parent: str
    child: str
    pose: Pose
    motions: list[Motion]
    element: Element | None


@dataclass(eq=False)
class Loop:
    """A joint that closes a loop: the frames that coincide, one in each link (z is the axis), by a kind of `Model`."""

    name: str
    kind: str
    first: tuple[str, Pose]
    second: tuple[str, Pose]
    length: float | None = None
    element: Element | None = None


@dataclass(eq=False)
class Tie:
    """value = factor · other's value + offset; without another it is held at `offset`."""

    name: str
    joint: str
    other: str | None
    factor: float
    offset: float
    element: Element | None


@dataclass(eq=False)
class Actuator:
    """A drive of a joint's value x: effort = gear · (gain · control + bias · (1, gear · x, gear · ẋ)).

    `control` is a number, a formula of t or a function of time; `reference` is x where the joint is at zero.
    """

    name: str
    kind: str
    joint: str
    gear: float
    gain: float
    bias: tuple[float, float, float]
    control: Any = 0.0
    reference: float = 0.0
    element: Element | None = None


@dataclass(eq=False)
class Robot:
    """All of it. `roots` are links without a parent: fixed to the ground at their pose, unless free."""

    name: str
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    links: dict[str, Link] = field(default_factory=dict)
    joints: list[Joint] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    ties: list[Tie] = field(default_factory=list)
    actuators: list[Actuator] = field(default_factory=list)
    free_base: bool = False
    lumps: bool = False  # a fixed link with a broken inertia is lumped with the body it is fixed to
    remarks: list[str] = field(default_factory=list)


def listed(names, most: int = 12) -> str:
    """Names as a list in text."""
    names = list(dict.fromkeys(names))
    shown = ", ".join(f"'{n}'" for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


# ---- joints that act as one --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Combined:
    """A joint of the library, or None where the child is free: its class, its frame in the child at zero, and for each
    motion its coordinate and sign."""

    joint: type[model.Joint] | None
    frame: Pose
    coordinates: tuple[tuple[str, float] | None, ...]
    swapped: bool = False  # marker i sits on the child
    held: tuple[str, ...] = ()


def combined(motions: list[Motion], size: float) -> Combined | None:
    """The one joint of the library that moves as these motions do, one after the other; None where there is none."""
    kinds = " ".join(m.kind for m in motions)
    axes = [m.axis for m in motions]
    points = [m.point for m in motions]
    square = all(abs(a @ b) < SMALL for a, b in itertools.combinations(axes, 2))
    frame = np.column_stack([axes[0], axes[1], np.cross(axes[0], axes[1])]) if len(axes) > 1 else np.eye(3)
    if kinds == "":
        return Combined(model.Weld, Pose(), ())
    if kinds == "turn":
        return Combined(model.Revolute, Pose(frame_on_axis(axes[0]), points[0]), (("angle", 1.0),))
    if kinds == "slide":
        return Combined(model.Prismatic, Pose(frame_on_axis(axes[0]), points[0]), (("displacement", 1.0),))
    if kinds == "ball":
        return Combined(model.Spherical, Pose(np.eye(3), points[0]), (None,))
    if kinds in ("free", "slide slide slide ball", "slide slide slide turn turn turn"):
        slides, turns = motions[:3], motions[3:]
        whole = kinds == "free" or abs(np.linalg.det(np.column_stack([m.axis for m in slides]))) > 1e-3
        if not whole or (len(turns) == 3 and _meeting(turns, size) is None):
            return None
        return Combined(None, Pose(), (None,) * len(motions))
    if kinds == "turn turn" and square and (at := _meeting(motions, size)) is not None:
        return Combined(model.Universal, Pose(frame, at), (("angle_i", 1.0), ("angle_j", 1.0)))
    if kinds in ("turn slide", "slide turn"):
        return _turn_and_slide(motions, turn_first=kinds == "turn slide", square=square)
    if kinds == "slide slide" and square:
        coordinates = (("x", 1.0), ("y", 1.0))
        return Combined(model.Generic, Pose(frame, points[0]), coordinates, held=("z", "rx", "ry", "rz"))
    if kinds == "slide slide turn" and square:
        sign = float(np.sign(frame[:, 2] @ axes[2]))
        return Combined(model.Planar, Pose(frame, points[2]), (("x", 1.0), ("y", 1.0), ("angle", sign)))
    if kinds == "slide slide slide" and square:
        coordinates = (("x", 1.0), ("y", 1.0), ("z", float(np.sign(frame[:, 2] @ axes[2]))))
        return Combined(model.OrientationLock, Pose(frame, points[0]), coordinates)
    if kinds == "turn turn turn" and (at := _meeting(motions, size)) is not None:
        return Combined(model.Spherical, Pose(np.eye(3), at), (None, None, None))
    return None


def _turn_and_slide(motions: list[Motion], *, turn_first: bool, square: bool) -> Combined | None:
    turn, slide = motions if turn_first else motions[::-1]
    order = slice(None) if turn_first else slice(None, None, -1)
    along = turn.axis @ slide.axis
    if abs(along) > 1 - SMALL**2 / 2 or np.linalg.norm(np.cross(turn.axis, slide.axis)) < SMALL:
        frame = Pose(frame_on_axis(turn.axis), turn.point)
        return Combined(model.Cylindrical, frame, (("angle", 1.0), ("displacement", float(np.sign(along))))[order])
    if not square:
        return None
    # the slot is fixed in the part before the slide: that is the child's side where the turn comes first
    way = -1.0 if turn_first else 1.0
    frame = Pose(frame_on_axis(way * turn.axis, way * slide.axis), turn.point)
    return Combined(model.PinSlot, frame, (("angle", 1.0), ("displacement", 1.0))[order], swapped=turn_first)


def _meeting(motions: list[Motion], size: float) -> np.ndarray | None:
    """The point where the axes of turns meet, each turned against the next; None where they do not."""
    rows, values = [], []
    for m in motions:
        across = np.eye(3) - np.outer(m.axis, m.axis)
        rows.append(across)
        values.append(across @ m.point)
    at = np.linalg.lstsq(np.vstack(rows), np.concatenate(values), rcond=None)[0]
    off = max(np.linalg.norm(np.cross(m.axis, at - m.point)) for m in motions)
    parallel = any(np.linalg.norm(np.cross(a.axis, b.axis)) < 1e-3 for a, b in itertools.pairwise(motions))
    return None if parallel or off > SMALL * max(size, 1e-3) else at


# ---- poses ---------------------------------------------------------------------------------------------------------


def rpy(angles) -> np.ndarray:
    """R of roll, pitch, yaw: turns about the fixed x, then y, then z axes."""
    roll, pitch, yaw = angles
    R = axis_angle((0, 0, 1), yaw) @ axis_angle((0, 1, 0), pitch) @ axis_angle((1, 0, 0), roll)
    return np.where(np.abs(R) < 1e-16, 0.0, R)


def pose_of(position, quaternion) -> Pose:
    """From numbers as MuJoCo keeps them."""
    return Pose(rotation_matrix(quaternion), np.asarray(position, float))
