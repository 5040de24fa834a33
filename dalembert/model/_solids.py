"""1 · model: bodies from their shapes, and an actuator between two points: mass, inertia, frame and picture follow.

What is made is stated as ordinary bodies, joints, forces and shapes, so a model file holds plain numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert._results import DalembertError
from dalembert.model._frames import Body, frame_on_axis
from dalembert.model._placed import Constraint

if TYPE_CHECKING:
    from dalembert.model._model import Model


class Solids:
    """The methods of `Model` that make bodies from shapes."""

    def rod(self: Model, name: str, start, end, *, mass=None, density=None, radius=None, **moving) -> Body:  # pyright: ignore[reportGeneralTypeIssues]
        """A uniform round rod from the world point `start` to `end`, of a `mass`, or of a `radius` and a `density`.

        In the plane its x axis points along it, in space its z axis. Without a radius it is thin (in space: of a
        hundredth of its length). `moving`: velocity and angular_velocity, as for `body`.
        """
        d = self.dimension
        a, b = (_numbers(f"Body '{name}': {word}", x, d) for word, x in (("start", start), ("end", end)))
        L = float(np.linalg.norm(b - a))
        if L <= 0:
            raise DalembertError(f"Body '{name}': start and end are the same point; a rod has a length.")
        r = (0.0 if d == 2 else 0.005 * L) if radius is None else _positive(f"Body '{name}': radius", radius)
        m = _mass(name, mass, density, np.pi * r**2 * L, "radius" if radius is None else "")
        along = (b - a) / L
        across = m * (L**2 / 12 + r**2 / 4)
        pose: dict[str, Any] = {"mass": m, "position": (a + b) / 2}
        if d == 2:
            pose |= {"inertia": across, "angle": float(np.arctan2(along[1], along[0]))}
        else:
            pose |= {"inertia": (across, across, m * r**2 / 2), "rotation": frame_on_axis(along)}
        return _shaped(self, name, "capsule" if d == 2 else "cylinder", (r or 0.01 * L, L), **pose, **moving)

    def box(self: Model, name: str, size, *, mass=None, density=None, **where) -> Body:  # pyright: ignore[reportGeneralTypeIssues]
        """A uniform cuboid with edges `size` along its axes (in the plane a rectangle; its density is then per area).

        `where`: position, orientation and velocities, as for `body`.
        """
        edges = _numbers(f"Body '{name}': size", size, self.dimension)
        if np.any(edges <= 0):
            raise DalembertError(f"Body '{name}': size must be greater than zero, not {size!r}.")
        m = _mass(name, mass, density, float(np.prod(edges)))
        squares = edges**2
        inertia = m * float(squares.sum()) / 12 if self.dimension == 2 else m * (squares.sum() - squares) / 12
        return _shaped(self, name, "box", edges, mass=m, inertia=inertia, **where)

    def cylinder(self: Model, name: str, radius, length=None, *, mass=None, density=None, **where) -> Body:  # pyright: ignore[reportGeneralTypeIssues]
        """A uniform cylinder about its z axis; in the plane a disc (without a length; its density is then per area)."""
        r = _positive(f"Body '{name}': radius", radius)
        if self.dimension == 2:
            if length is not None:
                raise DalembertError(f"Body '{name}': in the plane a cylinder is a disc; leave out length.")
            m = _mass(name, mass, density, np.pi * r**2)
            return _shaped(self, name, "sphere", (r,), mass=m, inertia=m * r**2 / 2, **where)
        if length is None:
            raise DalembertError(f"Body '{name}': length is missing; in space a cylinder has one.")
        h = _positive(f"Body '{name}': length", length)
        m = _mass(name, mass, density, np.pi * r**2 * h)
        across = m * (3 * r**2 + h**2) / 12
        return _shaped(self, name, "cylinder", (r, h), mass=m, inertia=(across, across, m * r**2 / 2), **where)

    def solid(
        self: Model,  # pyright: ignore[reportGeneralTypeIssues]
        name: str,
        file,
        *,
        density,
        scale: float = 1.0,
        position=None,
        rotation=None,
        **moving,
    ) -> Body:
        """A uniform body whose surface is a closed mesh (.stl, .obj, .ply, read by trimesh); an open one is refused.

        `position` and `rotation` place the mesh's own origin and axes in the world; the body's frame sits at the centre
        of mass, with the mesh's axes. `scale` multiplies the mesh's lengths (0.001 for millimetres).
        """
        if self.dimension == 2:
            raise DalembertError(f"Body '{name}': a solid from a mesh exists only in space.")
        mesh = _closed_mesh(name, file, _positive(f"Body '{name}': scale", scale))
        mesh.density = _positive(f"Body '{name}': density", density)
        R = np.eye(3) if rotation is None else np.asarray(rotation, float)
        at = (
            np.zeros(3) if position is None else _numbers(f"Body '{name}': position", position, 3)
        ) + R @ mesh.center_mass
        inertia = np.asarray(mesh.moment_inertia)
        return self.body(
            name, mass=float(mesh.mass), inertia=0.5 * (inertia + inertia.T), position=at, rotation=R, **moving
        )

    def actuator(
        self: Model,  # pyright: ignore[reportGeneralTypeIssues]
        name: str,
        i,
        j,
        *,
        at_i,
        at_j,
        mass: tuple[float, float],
        force=None,
        length=None,
        radius=None,
    ) -> Constraint:
        """A cylinder and its rod between the point `at_i` of i and `at_j` of j, with their masses: a hydraulic
        cylinder, a leg of a platform. Each part is a uniform rod over half of the length at the start.

        Pinned at both ends (in space a cardan joint at i, a ball at j). `force` pushes the ends apart: what a
        `joint_force` takes; or `length` prescribes the length as a function of time. Returns the sliding joint,
        '<name>_slide'; bodies '<name>_barrel' and '<name>_rod', joints '<name>_i', '<name>_j'.
        """
        d = self.dimension
        a, b = (_numbers(f"Actuator '{name}': {word}", x, d) for word, x in (("at_i", at_i), ("at_j", at_j)))
        if force is not None and length is not None:
            raise DalembertError(f"Actuator '{name}': give either force= or length=, not both.")
        if np.ndim(mass) != 1 or len(mass) != 2:
            raise DalembertError(
                f"Actuator '{name}': mass must be two numbers, of the barrel and of the rod, not {mass!r}."
            )
        middle, apart = (a + b) / 2, float(np.linalg.norm(b - a))
        barrel = self.rod(f"{name}_barrel", a, middle, mass=mass[0], radius=radius)
        rod = self.rod(f"{name}_rod", middle, b, mass=mass[1], radius=None if radius is None else 0.6 * radius)
        along = (b - a) / apart
        slide = self.prismatic(f"{name}_slide", barrel, rod, at=middle, axis=along)
        if d == 2:
            self.revolute(f"{name}_i", i, barrel, at=a)
            self.revolute(f"{name}_j", rod, j, at=b)
        else:
            frame = frame_on_axis(along)
            self.universal(f"{name}_i", i, barrel, at=a, axis_i=frame[:, 0], axis_j=frame[:, 1])
            self.spherical(f"{name}_j", rod, j, at=b)
        if force is not None:
            self.joint_force(f"{name}_force", slide, force)
        if length is not None:
            self.distance_driver(f"{name}_length", i, j, length, at_i=a, at_j=b)
        return slide


def _shaped(model: Model, name: str, kind: str, size, **how) -> Body:
    """A body with its picture."""
    made = model.body(name, **how)
    model.shape(f"{name}_shape", made, kind, size=size)
    return made


def _positive(what: str, value) -> float:
    number = float(_numbers(what, [value], 1)[0])
    if number <= 0:
        raise DalembertError(f"{what} must be greater than zero, not {value!r}.")
    return number


def _numbers(what: str, value, size: int) -> np.ndarray:
    try:
        found = np.asarray(value, float)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.shape != (size,) or not np.all(np.isfinite(found)):
        words = "a finite number" if size == 1 else f"{size} finite numbers"
        raise DalembertError(f"{what} must be {words}, not {value!r}.")
    return found


def _mass(name: str, mass, density, volume: float, missing: str = "") -> float:
    if (mass is None) == (density is None):
        raise DalembertError(f"Body '{name}': give either mass= or density=.")
    if mass is not None:
        return _positive(f"Body '{name}': mass", mass)
    if missing:
        raise DalembertError(f"Body '{name}': density= needs {missing}=.")
    return _positive(f"Body '{name}': density", density) * volume


def _closed_mesh(name: str, file, scale: float) -> Any:
    try:
        import trimesh
    except ImportError:
        raise DalembertError(
            f"Body '{name}': reading a mesh needs trimesh; install dalembert with its extra: dalembert[mesh]."
        ) from None
    if not Path(file).is_file():
        raise DalembertError(f"Body '{name}': there is no file '{file}'.")
    try:
        mesh: Any = trimesh.load(file, force="mesh")
        mesh.apply_scale(scale)
    except Exception as error:  # readers of meshes raise anything
        raise DalembertError(f"Body '{name}': '{file}' cannot be read as a mesh ({error}).") from None
    if not mesh.is_watertight or not mesh.is_winding_consistent or not mesh.volume > 0:
        raise DalembertError(
            f"Body '{name}': the surface in '{file}' is not closed, so it has no volume and no mass; close its holes, "
            "or give mass and inertia to body(…)."
        )
    return mesh
