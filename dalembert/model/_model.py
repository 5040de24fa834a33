"""1 · model: `Model`, the list of what a person said, and all that can be wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from dalembert._results import ModelError
from dalembert.model._elements import Constraint, Force
from dalembert.model._frames import Body, Marker, axis_angle, frame_on_axis, rotation_matrix, turn

Space = Literal["plane", "space"]
Place = Body | Marker | str

# the coordinates a joint leaves free, in the order its frame states them; what a driver or a spring may act on
COORDINATES: dict[str, dict[Space, tuple[str, ...]]] = {
    "weld": {"plane": (), "space": ()},
    "revolute": {"plane": ("angle",), "space": ("angle",)},
    "prismatic": {"plane": ("displacement",), "space": ("displacement",)},
    "cylindrical": {"space": ("displacement", "angle")},
    "spherical": {"space": ()},
    "universal": {"space": ("angle_i", "angle_j")},
    "distance": {"plane": (), "space": ()},
    "knife_edge": {"plane": (), "space": ()},
    "rolling_disc": {"plane": (), "space": ()},
}


class Model:
    """A mechanism: bodies, joints, drivers, wheels and forces, in the plane or in space.

    Nothing is refused while the model is being written: `validate` (which `da.build` calls) collects every
    mistake and raises them together. All points and axes given by `at` and `axis` are in the world frame, in
    the start configuration that the bodies' poses describe. Units: any consistent set (SI in all examples).
    """

    def __init__(self, name: str = "model", *, space: Space = "plane", gravity=None):
        self.name = name
        self.space: Space = space
        self._mistakes: list[str] = []
        if space not in ("plane", "space"):
            self._mistakes.append(f"space={space!r} is unknown; use 'plane' or 'space'.")
            self.space = "plane"
        d = self.dimension
        self.gravity = np.zeros(d) if gravity is None else self._vector("gravity", gravity, d)
        zero = np.zeros(1 if d == 2 else 3)
        self.ground = Body("ground", 0.0, zero, np.zeros(d), np.eye(d), np.zeros(d), zero, is_ground=True)
        self.bodies: dict[str, Body] = {}
        self.markers: dict[str, Marker] = {}
        self.constraints: dict[str, Constraint] = {}
        self.forces: dict[str, Force] = {}

    @property
    def dimension(self) -> int:
        return 2 if self.space == "plane" else 3

    # ---- bodies and markers ---------------------------------------------------------------------------

    def body(
        self,
        name: str,
        *,
        mass: float,
        inertia,
        position=None,
        angle: float | None = None,
        rotation=None,
        quaternion=None,
        axis=None,
        velocity=None,
        angular_velocity=None,
    ) -> Body:
        """Add a rigid body; `position` is its centre of mass, where its frame sits.

        In the plane: `inertia` a number, orientation by `angle`. In space: `inertia` (3,) principal moments or
        a (3, 3) tensor in the body frame; orientation by `rotation` (3, 3), `quaternion` (w, x, y, z), or
        `axis` with `angle`. `velocity` is in the world frame, `angular_velocity` in the body frame.
        """
        who, d = f"Body '{name}'", self.dimension
        R = self._orientation(who, angle, rotation, quaternion, axis)
        dw = 1 if d == 2 else 3
        body = Body(
            name=name,
            mass=self._number(f"{who}: mass", mass, positive=True),
            inertia=self._inertia(who, inertia),
            position=self._vector(f"{who}: position", np.zeros(d) if position is None else position, d),
            rotation=R,
            velocity=self._vector(f"{who}: velocity", np.zeros(d) if velocity is None else velocity, d),
            angular_velocity=self._vector(
                f"{who}: angular_velocity",
                np.zeros(dw) if angular_velocity is None else np.atleast_1d(angular_velocity),
                dw,
            ),
        )
        self._register(self.bodies, name, body, "Body")
        return body

    def marker(self, name: str, body: Place, *, at=None, position=None, axis=None, rotation=None) -> Marker:
        """Add a frame fixed in `body`: at a world point (`at`) or at a point of the body frame (`position`).

        `rotation` is the frame in world axes; `axis` alone sets its z axis (in the plane its x axis).
        """
        who = f"Marker '{name}'"
        b = self._body(who, body)
        d = self.dimension
        if at is not None and position is not None:
            self._mistakes.append(f"{who}: give either at= (world) or position= (body frame), not both.")
        point = b.position if at is None else self._vector(f"{who}: at", at, d)
        local = b.local_point(point) if position is None else self._vector(f"{who}: position", position, d)
        R = np.eye(d) if rotation is None else self._matrix(f"{who}: rotation", rotation)
        if rotation is None and axis is not None:
            R = self._axis_frame(who, axis)
        marker = Marker(b, local, b.local_rotation(R), name)
        self._register(self.markers, name, marker, "Marker")
        return marker

    # ---- joints ---------------------------------------------------------------------------------------

    def weld(self, name: str, i: Place, j: Place, *, at=None) -> Constraint:
        """Bodies i and j move as one."""
        return self._joint("weld", name, i, j, at)

    def revolute(self, name: str, i: Place, j: Place, *, at=None, axis=None) -> Constraint:
        """A hinge at `at`; in space about `axis` (marker z axes). Coordinate: angle of j against i."""
        return self._joint("revolute", name, i, j, at, axis, needs_axis=self.space == "space")

    def prismatic(self, name: str, i: Place, j: Place, *, at=None, axis=None) -> Constraint:
        """j slides along `axis` of i without turning. Coordinate: displacement."""
        return self._joint("prismatic", name, i, j, at, axis, needs_axis=True)

    def cylindrical(self, name: str, i: Place, j: Place, *, at=None, axis=None) -> Constraint:
        """j slides along and turns about `axis` of i. Coordinates: displacement, angle."""
        return self._joint("cylindrical", name, i, j, at, axis, needs_axis=True)

    def spherical(self, name: str, i: Place, j: Place, *, at=None) -> Constraint:
        """A ball joint at `at`."""
        return self._joint("spherical", name, i, j, at)

    def universal(self, name: str, i: Place, j: Place, *, at=None, axis_i=None, axis_j=None) -> Constraint:
        """A Hooke joint at `at`: `axis_i` fixed in i stays perpendicular to `axis_j` fixed in j.

        By markers: x axis of marker i, y axis of marker j. Coordinates: angle_i about axis_i, angle_j about axis_j.
        """
        if isinstance(i, Marker) and isinstance(j, Marker):
            return self._joint("universal", name, i, j, at)
        who = f"Joint '{name}'"
        x = self._axis(f"{who}: axis_i", axis_i)
        y = self._axis(f"{who}: axis_j", axis_j)
        if abs(x @ y) > 1e-9:
            self._mistakes.append(f"{who}: axis_i and axis_j must be perpendicular in the start configuration.")
            return self._joint("universal", name, i, j, at)
        return self._joint("universal", name, i, j, at, frame=np.column_stack([x, y, np.cross(x, y)]))

    def distance(self, name: str, i: Place, j: Place, *, at_i=None, at_j=None, length=None) -> Constraint:
        """A massless rod of fixed length between a point of i and a point of j (default: centres of mass)."""
        who = f"Joint '{name}'"
        mi, mj = self._point_markers(who, i, j, at_i, at_j)
        if length is None:
            length = float(np.linalg.norm(mj.start_position - mi.start_position))
        length = self._number(f"{who}: length", length, positive=True)
        return self._constraint(name, "distance", (mi, mj), {"length": np.asarray(length)})

    def knife_edge(self, name: str, i: Place, j: Place, *, at=None, direction=None) -> Constraint:
        """The point `at` of j moves against i only along `direction` (fixed in j): a blade or a thin wheel.

        By markers: the x axis of marker j is the edge. The row says that the relative velocity along marker
        j's y axis is zero; in space the edge's sideways direction y is taken perpendicular to i's marker z axis.
        """
        return self._joint("knife_edge", name, i, j, at, direction, needs_axis=True, axis_is_x=True)

    def rolling_disc(self, name: str, i: Place, j: Place, *, radius: float, at=None, axis=None, normal=None):
        """A thin disc on body j (centre `at`, spin axis `axis`) rolls without slip on a plane fixed in i.

        The plane passes under the disc at the start, with `normal` pointing to the disc's side. In the plane
        the disc rolls on a line. One holonomic row (contact) and no-slip rows (1 in the plane, 2 in space).
        By markers: z axis of marker i is the normal (y axis in the plane), z axis of marker j the spin axis.
        """
        who, d = f"Joint '{name}'", self.dimension
        radius = self._number(f"{who}: radius", radius, positive=True)
        numbers = {"radius": np.asarray(radius)}
        if isinstance(i, Marker) and isinstance(j, Marker):
            return self._constraint(name, "rolling_disc", (i, j), numbers)
        bi, bj = self._body(who, i), self._body(who, j)
        centre = bj.position if at is None else self._vector(f"{who}: at", at, d)
        up = self._axis(f"{who}: normal", np.eye(d)[-1] if normal is None else normal)
        if d == 2:
            Ri, Rj = np.column_stack([[up[1], -up[0]], up]), np.eye(2)
            foot = centre - radius * up
        else:
            spin = self._axis(f"{who}: axis", axis)
            across = 1.0 - (up @ spin) ** 2
            if across < 1e-12:
                self._mistakes.append(f"{who}: axis is parallel to normal: the disc lies flat. Tilt it up.")
                across = 1.0
            Ri, Rj = frame_on_axis(up), frame_on_axis(spin)
            foot = centre - radius * (up - (up @ spin) * spin) / np.sqrt(across)
        mi = Marker(bi, bi.local_point(foot), bi.local_rotation(Ri))
        mj = Marker(bj, bj.local_point(centre), bj.local_rotation(Rj))
        return self._constraint(name, "rolling_disc", (mi, mj), numbers)

    def driver(self, name: str, joint, motion, *, coordinate: str | None = None, parameters=None) -> Constraint:
        """Prescribe a joint coordinate: coordinate = motion(t), or motion(t, p) with named `parameters`.

        `motion` is a JAX function of time or a number. Angles are followed through full turns.
        """
        who = f"Driver '{name}'"
        target = self._joint_of(who, joint)
        numbers = self._parameters(who, parameters)
        if isinstance(motion, int | float):
            numbers, motion = {"value": np.asarray(self._number(f"{who}: motion", motion))}, _constant_motion
        elif not callable(motion):
            self._mistakes.append(f"{who}: motion must be a function of time or a number, not {motion!r}.")
            motion = _constant_motion
        if target is None:
            return self._constraint(name, "driver:revolute:angle", (), numbers, (motion,), drives=str(joint))
        if motion is not _constant_motion:
            motion = _with_parameters(motion, parameters)
        which = self._coordinate_of(who, target, coordinate)
        kind = f"driver:{target.kind}:{which}"
        return self._constraint(name, kind, target.markers, numbers, (motion,), drives=target.name)

    def holonomic(self, name: str, bodies: Sequence[Place], residual: Callable, *, size: int = 1, parameters=None):
        """Your own rows g(t, frames) = 0, or g(t, frames, p) with named `parameters`.

        `frames` has one entry a body: `.p` position of the centre of mass, `.R` rotation, `.point(s)` the world
        position of a body-fixed point. Return `size` numbers. Write it with jax.numpy.
        """
        return self._user_rows("holonomic", name, bodies, residual, (size, 0), parameters)

    def pfaffian(self, name: str, bodies: Sequence[Place], residual: Callable, *, size: int = 1, parameters=None):
        """Your own rows A v + b = 0, as a function linear in the velocities: residual(t, frames) (or (t, frames, p)).

        Besides what `holonomic` gives, each frame has `.v` (velocity of the centre of mass, world), `.w`
        (angular velocity, world axes; a number in the plane) and `.point_velocity(s)`.
        """
        return self._user_rows("pfaffian", name, bodies, residual, (0, size), parameters)

    # ---- forces ---------------------------------------------------------------------------------------

    def force(self, name: str, body: Place, force, *, at=None, frame: str = "world", parameters=None) -> Force:
        """A force on `body` at the body-fixed point that is at `at` at the start: a vector or a function of time.

        `frame` says whether its components are along the "world" axes or turn with the "body".
        """
        return self._load("force", name, body, force, self.dimension, at, frame, parameters)

    def torque(self, name: str, body: Place, torque, *, frame: str = "world", parameters=None) -> Force:
        """A torque on `body`: a vector (in the plane a number) or a function of time."""
        size = 1 if self.dimension == 2 else 3
        return self._load("torque", name, body, torque, size, None, frame, parameters)

    def spring_damper(
        self, name, i: Place, j: Place, *, at_i=None, at_j=None, stiffness=0.0, damping=0.0, length=None
    ) -> Force:
        """A spring-damper along the line between a point of i and a point of j; `length` is its free length."""
        who = f"Force '{name}'"
        mi, mj = self._point_markers(who, i, j, at_i, at_j)
        if length is None:
            length = float(np.linalg.norm(mj.start_position - mi.start_position))
        numbers = {
            "stiffness": np.asarray(self._number(f"{who}: stiffness", stiffness)),
            "damping": np.asarray(self._number(f"{who}: damping", damping)),
            "length": np.asarray(self._number(f"{who}: length", length)),
        }
        return self._force(name, "spring_damper", (mi, mj), numbers)

    def joint_spring(self, name, joint, *, stiffness=0.0, damping=0.0, free=0.0, coordinate=None) -> Force:
        """A torsional (on a sliding joint: linear) spring-damper on a joint coordinate; `free` is its rest value."""
        who = f"Force '{name}'"
        target = self._joint_of(who, joint)
        numbers = {
            "stiffness": np.asarray(self._number(f"{who}: stiffness", stiffness)),
            "damping": np.asarray(self._number(f"{who}: damping", damping)),
            "free": np.asarray(self._number(f"{who}: free", free)),
        }
        if target is None:
            return self._force(name, "joint_spring:revolute:angle", (), numbers)
        which = self._coordinate_of(who, target, coordinate)
        return self._force(name, f"joint_spring:{target.kind}:{which}", target.markers, numbers)

    def force_law(self, name: str, bodies: Sequence[Place], law: Callable, *, parameters=None) -> Force:
        """Your own law(t, frames) or law(t, frames, p): for each body (force, torque), world axes, at its centre."""
        who = f"Force '{name}'"
        markers = tuple(self._centre(self._body(who, b)) for b in bodies)
        if not callable(law):
            self._mistakes.append(f"{who}: law must be a function, not {law!r}.")
        functions = (_with_parameters(law, parameters),)
        return self._force(name, "law", markers, self._parameters(who, parameters), functions)

    # ---- validation -----------------------------------------------------------------------------------

    def mistakes(self) -> list[str]:
        """All that is wrong with the model, each a sentence with the name of the item and what to do."""
        found = list(self._mistakes)
        if not self.bodies:
            found.append("There is no body. Add one with model.body(...).")
        for c in self.constraints.values():
            found += self._constraint_mistakes(c)
        for f in self.forces.values():
            moving = [b for b in f.bodies if not b.is_ground]
            if f.markers and not moving:
                found.append(f"Force '{f.name}' acts only on ground; name a body.")
        return found

    def validate(self) -> Model:
        """Raise `ModelError` with every mistake, or return the model."""
        found = self.mistakes()
        if found:
            raise ModelError(self.name, found)
        return self

    def _constraint_mistakes(self, c: Constraint) -> list[str]:
        what = "Driver" if c.drives else "Joint"
        found = []
        names = [b.name for b in c.bodies]
        for n in sorted({n for n in names if names.count(n) > 1}):
            found.append(f"{what} '{c.name}' connects body '{n}' to itself; it needs two different bodies.")
        if c.markers and all(b.is_ground for b in c.bodies) and len(set(names)) == len(names):
            found.append(f"{what} '{c.name}' holds only ground; name a body.")
        kind = c.kind.split(":")[0]
        if kind in COORDINATES and self.space not in COORDINATES[kind]:
            other = "space" if self.space == "plane" else "plane"
            found.append(f"{what} '{c.name}': a {kind} joint exists only in {other}; this model is in {self.space}.")
        return found

    # ---- helpers: every one records a mistake and returns something harmless -----------------------------

    def _register(self, table: dict, name: str, item, what: str) -> None:
        if not isinstance(name, str) or not name.strip():
            self._mistakes.append(f"{what} without a name: give it a non-empty text.")
            return
        if "." in name:
            self._mistakes.append(f"{what} '{name}': a name must not contain '.', it separates parameters.")
        if name == "ground" or any(name in t for t in (self.bodies, self.constraints, self.forces)):
            self._mistakes.append(f"{what} '{name}': this name is taken. Names are unique in a model.")
            return
        table[name] = item

    def _constraint(self, name, kind, markers, numbers=None, functions=(), size=None, drives=None) -> Constraint:
        made = Constraint(name, kind, tuple(markers), dict(numbers or {}), tuple(functions), size, drives)
        self._register(self.constraints, name, made, "Driver" if drives else "Joint")
        return made

    def _force(self, name, kind, markers, numbers=None, functions=()) -> Force:
        made = Force(name, kind, tuple(markers), dict(numbers or {}), tuple(functions))
        self._register(self.forces, name, made, "Force")
        return made

    def _joint(self, kind, name, i, j, at, axis=None, *, needs_axis=False, axis_is_x=False, frame=None) -> Constraint:
        who = f"Joint '{name}'"
        if isinstance(i, Marker) and isinstance(j, Marker):
            if at is not None or axis is not None:
                self._mistakes.append(f"{who}: two markers place the joint already; leave out at= and axis=.")
            return self._constraint(name, kind, (i, j))
        if isinstance(i, Marker) or isinstance(j, Marker):
            self._mistakes.append(f"{who}: give two markers, or two bodies with at= (and axis=).")
        bi, bj = self._body(who, i), self._body(who, j)
        d = self.dimension
        if at is None and kind != "weld":
            self._mistakes.append(f"{who}: say where it is: at=(...), a point in the start configuration.")
        point = (bj if bi.is_ground else bi).position if at is None else self._vector(f"{who}: at", at, d)
        if frame is None:
            frame = np.eye(d)
            if needs_axis and axis is None:
                word = "direction" if axis_is_x else "axis"
                self._mistakes.append(f"{who}: give its {word}, a vector in the start configuration.")
            elif axis is not None and axis_is_x and d == 3:
                x = self._axis(f"{who}: direction", axis)
                z = np.array([0.0, 0.0, 1.0])
                frame = frame_on_axis(z, x) if abs(x @ z) < 1 - 1e-12 else np.eye(3)
            elif axis is not None:
                frame = self._axis_frame(who, axis)
        mi = Marker(bi, bi.local_point(point), bi.local_rotation(frame))
        mj = Marker(bj, bj.local_point(point), bj.local_rotation(frame))
        return self._constraint(name, kind, (mi, mj))

    def _user_rows(self, kind, name, bodies, residual, size, parameters) -> Constraint:
        who = f"Rows '{name}'"
        markers = tuple(self._centre(self._body(who, b)) for b in bodies)
        if not markers:
            self._mistakes.append(f"{who}: name the bodies whose coordinates enter the rows.")
        if not callable(residual):
            self._mistakes.append(f"{who}: residual must be a function, not {residual!r}.")
        if not isinstance(sum(size), int) or sum(size) < 1:
            self._mistakes.append(f"{who}: size must be a positive whole number, not {sum(size)!r}.")
        numbers = self._parameters(who, parameters)
        return self._constraint(name, kind, markers, numbers, (_with_parameters(residual, parameters),), size)

    def _load(self, kind, name, body, value, size, at, frame, parameters) -> Force:
        who = f"Force '{name}'"
        b = self._body(who, body)
        if frame not in ("world", "body"):
            self._mistakes.append(f"{who}: frame={frame!r} is unknown; use 'world' or 'body'.")
            frame = "world"
        point = b.position if at is None else self._vector(f"{who}: at", at, self.dimension)
        marker = Marker(b, b.local_point(point), np.eye(self.dimension))
        numbers = self._parameters(who, parameters)
        if callable(value):
            function = _with_parameters(value, parameters)
        else:
            numbers = {"value": self._vector(f"{who}: {kind}", np.atleast_1d(value), size)}
            function = _constant_load
        return self._force(name, f"{kind}:{frame}", (marker,), numbers, (function,))

    def _body(self, who: str, place: Place) -> Body:
        if isinstance(place, Marker):
            place = place.body
        if isinstance(place, str):
            if place == "ground":
                return self.ground
            if place in self.bodies:
                return self.bodies[place]
            close = difflib.get_close_matches(place, [*self.bodies, "ground"], n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            self._mistakes.append(f"{who}: there is no body '{place}'.{hint}")
            return self.ground
        if isinstance(place, Body):
            if place is not self.ground and self.bodies.get(place.name) is not place:
                owner = "ground of" if place.is_ground else f"body '{place.name}' of"
                self._mistakes.append(f"{who}: {owner} another model; use a body of this one.")
                return self.ground
            return place
        self._mistakes.append(f"{who}: {place!r} is not a body; give a body, a marker or a name.")
        return self.ground

    def _joint_of(self, who: str, joint) -> Constraint | None:
        name = joint.name if isinstance(joint, Constraint) else joint
        if name in self.constraints:
            return self.constraints[name]
        close = difflib.get_close_matches(str(name), list(self.constraints), n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        self._mistakes.append(f"{who}: there is no joint '{name}'.{hint}")
        return None

    def _coordinate_of(self, who: str, joint: Constraint, coordinate: str | None) -> str:
        free: tuple[str, ...] = COORDINATES.get(joint.kind, {}).get(self.space, ())
        if len(free) == 0:
            self._mistakes.append(f"{who}: joint '{joint.name}' ({joint.kind}) has no free coordinate to act on.")
            return "angle"
        if coordinate is None:
            if len(free) > 1:
                self._mistakes.append(
                    f"{who}: joint '{joint.name}' has several coordinates; choose one with coordinate= {free}."
                )
            return free[0]
        if coordinate not in free:
            self._mistakes.append(f"{who}: joint '{joint.name}' has no coordinate '{coordinate}', only {free}.")
            return free[0]
        return coordinate

    def _point_markers(self, who, i, j, at_i, at_j) -> tuple[Marker, Marker]:
        made = []
        for place, at, word in ((i, at_i, "at_i"), (j, at_j, "at_j")):
            if isinstance(place, Marker):
                made.append(place)
                continue
            b = self._body(who, place)
            point = b.position if at is None else self._vector(f"{who}: {word}", at, self.dimension)
            made.append(Marker(b, b.local_point(point), np.eye(self.dimension)))
        return made[0], made[1]

    def _centre(self, body: Body) -> Marker:
        return Marker(body, np.zeros(self.dimension), np.eye(self.dimension))

    def _number(self, what: str, value, *, positive: bool = False) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            self._mistakes.append(f"{what} must be a number, not {value!r}.")
            return 1.0
        if not np.isfinite(number):
            self._mistakes.append(f"{what} must be finite, not {number}.")
            return 1.0
        if positive and number <= 0:
            self._mistakes.append(f"{what} must be greater than zero, not {number:g}.")
            return 1.0
        return number

    def _vector(self, what: str, value, size: int) -> np.ndarray:
        try:
            vector = np.asarray(value, float)
        except (TypeError, ValueError):
            self._mistakes.append(f"{what} must be {size} numbers, not {value!r}.")
            return np.zeros(size)
        if vector.shape != (size,):
            self._mistakes.append(f"{what} must be {size} numbers (the model is in {self.space}), not {value!r}.")
            return np.zeros(size)
        if not np.all(np.isfinite(vector)):
            self._mistakes.append(f"{what} must be finite, not {value!r}.")
            return np.zeros(size)
        return vector

    def _matrix(self, what: str, value) -> np.ndarray:
        d = self.dimension
        try:
            R = np.asarray(value, float)
            good = R.shape == (d, d) and np.allclose(R.T @ R, np.eye(d), atol=1e-9) and np.linalg.det(R) > 0
        except (TypeError, ValueError):
            good = False
        if not good:
            self._mistakes.append(f"{what} must be a {d}x{d} rotation matrix.")
            return np.eye(d)
        return R

    def _axis(self, what: str, value) -> np.ndarray:
        d = self.dimension
        if value is None:
            self._mistakes.append(f"{what} is missing; give a vector in the start configuration.")
            return np.eye(d)[0]
        vector = self._vector(what, value, d)
        length = np.linalg.norm(vector)
        if length < 1e-12:
            self._mistakes.append(f"{what} has no direction (zero vector).")
            return np.eye(d)[0]
        return vector / length

    def _axis_frame(self, who: str, axis) -> np.ndarray:
        """In space the axis is the frame's z; in the plane its x."""
        a = self._axis(f"{who}: axis", axis)
        if self.dimension == 3:
            return frame_on_axis(a)
        return np.array([[a[0], -a[1]], [a[1], a[0]]])

    def _orientation(self, who, angle, rotation, quaternion, axis) -> np.ndarray:
        if self.dimension == 2:
            if any(x is not None for x in (rotation, quaternion, axis)):
                self._mistakes.append(f"{who}: in the plane give the orientation by angle= only.")
            return turn(self._number(f"{who}: angle", 0.0 if angle is None else angle))
        ways = [w for w, x in (("rotation", rotation), ("quaternion", quaternion), ("axis", axis)) if x is not None]
        if len(ways) > 1 or (angle is not None and ways != ["axis"]):
            self._mistakes.append(f"{who}: give one of rotation=, quaternion=, or axis= with angle=.")
        if rotation is not None:
            return self._matrix(f"{who}: rotation", rotation)
        if quaternion is not None:
            q = self._vector(f"{who}: quaternion", quaternion, 4)
            if np.linalg.norm(q) < 1e-12:
                self._mistakes.append(f"{who}: quaternion has no length.")
                return np.eye(3)
            return rotation_matrix(q)
        if axis is not None:
            a = self._axis(f"{who}: axis", axis)
            return axis_angle(a, self._number(f"{who}: angle", 0.0 if angle is None else angle))
        return np.eye(3)

    def _inertia(self, who: str, value) -> np.ndarray:
        if self.dimension == 2:
            return np.asarray([self._number(f"{who}: inertia", value, positive=True)])
        try:
            I = np.asarray(value, float)
        except (TypeError, ValueError):
            I = np.zeros(0)
        if I.shape == (3,):
            I = np.diag(I)
        if I.shape != (3, 3) or not np.all(np.isfinite(I)):
            self._mistakes.append(f"{who}: inertia must be 3 principal moments or a finite 3x3 tensor.")
            return np.eye(3)
        if not np.allclose(I, I.T, rtol=1e-9, atol=1e-12 * np.abs(I).max()):
            self._mistakes.append(f"{who}: inertia must be a symmetric tensor.")
        moments = np.linalg.eigvalsh(0.5 * (I + I.T))
        if moments[0] <= 0:
            self._mistakes.append(f"{who}: inertia must be positive definite; its principal moments are {moments}.")
            return np.eye(3)
        if moments[2] > (moments[0] + moments[1]) * (1 + 1e-9):
            self._mistakes.append(
                f"{who}: no rigid body has the principal moments {moments}: the largest exceeds the sum of the others."
            )
        return 0.5 * (I + I.T)

    def _parameters(self, who: str, parameters) -> dict[str, np.ndarray]:
        made = {}
        for key, value in (parameters or {}).items():
            try:
                array = np.asarray(value, float)
            except (TypeError, ValueError):
                self._mistakes.append(f"{who}: parameter '{key}' must be numbers, not {value!r}.")
                continue
            if not np.all(np.isfinite(array)):
                self._mistakes.append(f"{who}: parameter '{key}' must be finite.")
            made[key] = array
        return made


def _constant_motion(t, p):
    return p["value"] + 0.0 * t


def _constant_load(t, p):
    return p["value"]


class _Plain:
    """A user's function without parameters, given the `p` that all functions inside get (equal to its like)."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return self.function(*arguments[:-1])

    def __eq__(self, other):
        return isinstance(other, _Plain) and self.function == other.function

    def __hash__(self):
        return hash(self.function)


def _with_parameters(function, parameters):
    return function if parameters else _Plain(function)
