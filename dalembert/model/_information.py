"""1 · model: what has no effect on the motion: pictures of bodies, and stated limits of joints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dalembert.model._elements import Constraint
from dalembert.model._forces import Forces
from dalembert.model._frames import Body, Marker
from dalembert.model._statements import (
    Colour,
    Coordinate,
    JointName,
    MeshFile,
    Name,
    Number,
    Place,
    Quaternion,
    Sizes,
    Vector,
    element,
)

ShapeKind = Literal["box", "sphere", "cylinder", "capsule", "ellipsoid", "plane", "mesh"]

SIZES: dict[str, dict[str, str]] = {
    "box": {"plane": "x y", "space": "x y z"},
    "sphere": {"plane": "radius", "space": "radius"},
    "cylinder": {"space": "radius length"},
    "capsule": {"plane": "radius length", "space": "radius length"},
    "ellipsoid": {"space": "x y z"},
    "plane": {"space": "x y"},
    "mesh": {"space": ""},
}
"""The kinds of shapes and their sizes: full edges of a box and a plane, half axes of an ellipsoid. A cylinder lies
along its z axis; so does a capsule (in the plane along x), whose length is that of its straight part."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A picture of a body: `position` and `rotation` in the body frame, `colour` as red, green, blue, opacity (0 … 1).

    A mesh is the name of a file beside the model file, and `scale` what its numbers are multiplied by. Nothing is
    computed from a shape.
    """

    name: str
    body: Body
    kind: str
    size: np.ndarray
    position: np.ndarray
    rotation: np.ndarray
    file: str = ""
    scale: np.ndarray | None = None
    colour: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Limit:
    """Stated limits of a joint coordinate; information, not enforced (a `stop` does that)."""

    name: str
    joint: Constraint
    coordinate: str
    lower: float | None = None
    upper: float | None = None
    effort: float | None = None
    velocity: float | None = None


class Information(Forces):
    """The part of `Model` that adds shapes and limits."""

    shapes: dict[str, Shape]
    limits: dict[str, Limit]

    @element("limits")
    def limit(
        self,
        name: Name,
        joint: JointName,
        *,
        lower: Number | None = None,
        upper: Number | None = None,
        effort: Number | None = None,
        velocity: Number | None = None,
        coordinate: Coordinate | None = None,
    ) -> Limit | None:
        """What a joint coordinate is said to allow: its range, largest effort and speed. Information, not enforced."""
        who = f"Limit '{name}'"
        target = self._target(who, joint, coordinate)
        words = {"lower": lower, "upper": upper, "effort": effort, "velocity": velocity}
        given = {
            k: self._number(f"{who}: {k}", x, negative=k in ("lower", "upper"))
            for k, x in words.items()
            if x is not None
        }
        if not given:
            self._wrong(f"{who}: give lower=, upper=, effort= or velocity=.")
        if given.get("lower", -np.inf) > given.get("upper", np.inf):
            self._wrong(f"{who}: lower={given['lower']:g} must not be greater than upper={given['upper']:g}.")
        if target is None:
            return None
        made = Limit(name, *target, **given)
        self._register(self.limits, name, made, "Limit")
        return made

    @element("shapes")
    def shape(
        self,
        name: Name,
        body: Place,
        kind: ShapeKind,
        *,
        size: Sizes | None = None,
        position: Vector | None = None,
        angle: Number | None = None,
        quaternion: Quaternion | None = None,
        file: MeshFile | None = None,
        scale: Vector | None = None,
        colour: Colour | None = None,
    ) -> Shape:
        """A picture of a body, in its frame (or in a marker's): box, sphere, cylinder, capsule, ellipsoid, plane, mesh.

        `size`: the edges of a box (2 in the plane), the radius of a sphere, radius and length of a cylinder or capsule,
        half axes of an ellipsoid, edges of a plane. A mesh is the name of a `file` in the model file's folder, with a
        `scale`. Nothing is computed from a shape.
        """
        who, d = f"Shape '{name}'", self.dimension
        place = self._place(who, body)
        if kind not in SIZES or self.space not in SIZES[kind]:
            known = [k for k, spaces in SIZES.items() if self.space in spaces]
            self._wrong(f"{who}: kind must be one of {', '.join(known)}, not {kind!r}.")
            kind, size = "sphere", [1.0]
        R = self._orientation(who, angle, None, quaternion, None)
        p = np.zeros(d) if position is None else self._vector(f"{who}: position", position, d)
        if isinstance(place, Marker):
            p, R = place.position + place.rotation @ p, place.rotation @ R
        made = Shape(
            name=name,
            body=place.body if isinstance(place, Marker) else place,
            kind=kind,
            size=self._sizes(who, kind, size),
            position=p,
            rotation=R,
            file=self._mesh_file(who, kind, file),
            scale=self._scale(who, kind, scale),
            colour=None if colour is None else self._colour(who, colour),
        )
        self._register(self.shapes, name, made, "Shape")
        return made

    def _sizes(self, who: str, kind: str, size) -> np.ndarray:
        words = SIZES[kind][self.space].split()
        if not words:
            if size is not None:
                self._wrong(f"{who}: a {kind} has no size; it has a scale.")
            return np.zeros(0)
        if size is None:
            self._wrong(f"{who}: size is missing; a {kind} has {', '.join(words)}.")
            return np.ones(len(words))
        sizes = self._array(f"{who}: size", size, (len(words),), f"{len(words)} numbers ({', '.join(words)})")
        if np.shape(size) == sizes.shape and np.any(np.asarray(size) <= 0):
            self._wrong(f"{who}: size must be greater than zero, not {size!r}.")
        return sizes

    def _mesh_file(self, who: str, kind: str, file) -> str:
        if kind != "mesh":
            if file is not None:
                self._wrong(f"{who}: only a mesh has a file.")
            return ""
        if not isinstance(file, str) or not inside_folder(file):
            self._wrong(f"{who}: file must be the name of a file in the model file's folder, not {file!r}.")
            return ""
        return file

    def _scale(self, who: str, kind: str, scale) -> np.ndarray | None:
        if kind != "mesh":
            if scale is not None:
                self._wrong(f"{who}: only a mesh has a scale.")
            return None
        if scale is None:
            return np.ones(3)
        factors = self._vector(f"{who}: scale", scale, 3)
        if np.any(factors == 0):
            self._wrong(f"{who}: scale must not be zero, not {scale!r}.")
        return factors

    def _colour(self, who: str, colour) -> np.ndarray:
        found = self._array(f"{who}: colour", colour, (4,), "4 numbers: red, green, blue, opacity")
        if np.any((found < 0) | (found > 1)):
            self._wrong(f"{who}: colour must be numbers from 0 to 1, not {colour!r}.")
        return found


def inside_folder(name: str) -> bool:
    """Whether a name is that of a file in a folder or below it, on any system: no drive, no way up, no address."""
    parts = name.split("/")
    plain = re.fullmatch(r"[^\\:*?\"<>|\x00-\x1f\x7f]{1,300}", name) is not None
    return plain and name.isprintable() and all(part not in ("", ".", "..") for part in parts)
