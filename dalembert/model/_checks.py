"""1 · model: checks of all values given by the user. A wrong one is recorded, with its name, and replaced by a harmless
one, so that all mistakes of a model are found together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dalembert._results import DalembertError, did_you_mean, tell_single_precision
from dalembert.model._elements import Constraint, Force
from dalembert.model._frames import Body, Marker, axis_angle, frame_on_axis, rotation_matrix, turn
from dalembert.model._functions import Function, Shape, function_of
from dalembert.model._kinds import coordinates_of
from dalembert.model._statements import Mistake, Place, Statement, name_mistake

OF_MARKERS = frozenset(("point_i", "frame_i", "point_j", "frame_j"))
"""Keys of an element's numbers that place its markers in their bodies; the others are its parameters."""
OF_ROWS = OF_MARKERS | {"side", "active", "held_at"}
"""The same for rows, with the contact side of teeth and the switches of rows."""


class Checks:
    """The part of `Model` that checks values."""

    space: str
    ground: Body
    bodies: dict[str, Body]
    markers: dict[str, Marker]
    constraints: dict[str, Constraint]
    forces: dict[str, Force]
    limits: dict
    shapes: dict
    statements: list[Statement]
    _statement: Statement | None
    _mistakes: list[Mistake]

    @property
    def dimension(self) -> int:
        return 2 if self.space == "plane" else 3

    @property
    def _where(self) -> str:
        return "the plane" if self.space == "plane" else "space"

    def _wrong(self, text: str) -> None:
        self._mistakes.append(Mistake(text, self._statement))

    # ---- names -------------------------------------------------------------------------------------------

    def _register(self, table: dict, name: str, item, what: str) -> None:
        if not isinstance(name, str) or not name.strip():
            self._wrong(f"{what} without a name: give it a non-empty text.")
            return
        if "." in name:
            self._wrong(f"{what} '{name}': a name must not contain '.', it separates parameters.")
        if wrong := name_mistake(name):
            self._wrong(f"{what} '{_shown(name)}': a name {wrong}.")
        elif row := re.search(r"\[\d+\]$", name):
            self._wrong(f"{what} '{name}': a name must not end in '{row[0]}', which counts the rows of a joint.")
        tables = (self.bodies, self.markers, self.constraints, self.forces, self.limits, self.shapes)
        if name == "ground" or any(name in t for t in tables):
            self._wrong(f"{what} '{name}': this name is taken. Names are unique in a model.")
            return
        table[name] = item

    def _place(self, who: str, place: Place) -> Body | Marker:
        """A body or a marker of this model, by itself or by name."""
        if isinstance(place, str):
            if place == "ground":
                return self.ground
            for table in (self.bodies, self.markers):
                if place in table:
                    return table[place]
            hint = did_you_mean(place, [*self.bodies, *self.markers, "ground"])
            self._wrong(f"{who}: there is no body or marker '{place}'.{hint}")
            return self.ground
        body = place.body if isinstance(place, Marker) else place
        if not isinstance(body, Body):
            self._wrong(f"{who}: {place!r} is not a body; give a body, a marker or a name.")
            return self.ground
        if body is not self.ground and self.bodies.get(body.name) is not body:
            owner = "ground of" if body.is_ground else f"body '{body.name}' of"
            self._wrong(f"{who}: {owner} another model; use a body of this one.")
            return self.ground
        return place

    def _body(self, who: str, place: Place) -> Body:
        found = self._place(who, place)
        return found.body if isinstance(found, Marker) else found

    def _bodies(self, who: str, places) -> list[Body]:
        if isinstance(places, str | Body | Marker) or not isinstance(places, Sequence):
            self._wrong(f"{who}: bodies must be a list of bodies, not {places!r}.")
            return []
        return [self._body(who, b) for b in places]

    def _joint_of(self, who: str, joint) -> Constraint | None:
        name = joint.name if isinstance(joint, Constraint) else joint
        if isinstance(name, str) and name in self.constraints:
            return self.constraints[name]
        self._wrong(f"{who}: there is no joint '{name}'.{did_you_mean(str(name), self.constraints)}")
        return None

    def _coordinate_of(self, who: str, joint: Constraint, coordinate: str | None) -> str | None:
        """The name of the joint's coordinate, or None after recording what is wrong."""
        free = coordinates_of(self.space, joint.kind)
        if not free:
            self._wrong(f"{who}: joint '{joint.name}' ({joint.kind}) has no free coordinate to act on.")
        elif coordinate is None and len(free) > 1:
            self._wrong(f"{who}: joint '{joint.name}' has several coordinates; choose one with coordinate= {free}.")
        elif coordinate is not None and coordinate not in free:
            self._wrong(f"{who}: joint '{joint.name}' has no coordinate '{coordinate}', only {free}.")
        else:
            return coordinate if coordinate is not None else next(iter(free))
        return None

    def _target(self, who: str, joint, coordinate) -> tuple[Constraint, str] | None:
        """The joint and its coordinate that a driver or a force acts on."""
        found = self._joint_of(who, joint)
        which = None if found is None else self._coordinate_of(who, found, coordinate)
        return None if found is None or which is None else (found, which)

    # ---- numbers -----------------------------------------------------------------------------------------

    def _number(self, what: str, value, *, positive: bool = False, negative: bool = True) -> float:
        tell_single_precision(what, value, stacklevel=5)
        try:
            number = float(value)
        except (TypeError, ValueError):
            self._wrong(f"{what} must be a number, not {value!r}.")
            return 1.0
        if isinstance(value, bool | str):
            self._wrong(f"{what} must be a number, not {value!r}.")
            return 1.0
        if not np.isfinite(number):
            self._wrong(f"{what} must be finite, not {number}.")
            return 1.0
        if positive and number <= 0:
            self._wrong(f"{what} must be greater than zero, not {number:g}.")
            return 1.0
        if not negative and number < 0:
            self._wrong(f"{what} must not be negative, not {number:g}.")
            return 0.0
        return number

    def _array(self, what: str, value, shape: tuple[int, ...], words: str) -> np.ndarray:
        tell_single_precision(what, value, stacklevel=5)
        try:
            array = np.asarray(value, float)
        except (TypeError, ValueError):
            array = np.full(0, np.nan)
        if array.shape != shape:
            self._wrong(f"{what} must be {words}, not {value!r}.")
            return np.zeros(shape)
        if not np.all(np.isfinite(array)):
            self._wrong(f"{what} must be finite, not {value!r}.")
            return np.zeros(shape)
        return array

    def _vector(self, what: str, value, size: int) -> np.ndarray:
        return self._array(what, value, (size,), f"{size} numbers (the model is in {self._where})")

    def _matrix(self, what: str, value) -> np.ndarray:
        d = self.dimension
        tell_single_precision(what, value, stacklevel=5)
        try:
            R = np.asarray(value, float)
            good = R.shape == (d, d) and np.allclose(R.T @ R, np.eye(d), atol=1e-9) and np.linalg.det(R) > 0
        except (TypeError, ValueError):
            good = False
        if not good:
            self._wrong(f"{what} must be a {d}x{d} rotation matrix.")
            return np.eye(d)
        return R

    def _stiffness(self, what: str, value, size: int) -> np.ndarray:
        """A symmetric, positive semi-definite size × size matrix; from a list, its diagonal."""
        if value is None:
            return np.zeros((size, size))
        if np.ndim(np.asarray(value, dtype=object)) == 1:
            diagonal = self._array(what, value, (size,), f"{size} numbers or a {size}x{size} matrix")
            if np.any(diagonal < 0):
                self._wrong(f"{what} must not be negative: it would feed energy.")
            return np.diag(np.abs(diagonal))
        K = self._array(what, value, (size, size), f"{size} numbers or a {size}x{size} matrix")
        if not np.allclose(K, K.T, rtol=1e-9, atol=1e-12 * np.abs(K).max(initial=0.0)):
            self._wrong(f"{what} must be symmetric.")
        elif K.size and np.linalg.eigvalsh(K)[0] < -1e-9 * np.abs(K).max():
            self._wrong(f"{what} must not have negative eigenvalues: it would feed energy.")
        return K

    def _axis(self, what: str, value) -> np.ndarray:
        d = self.dimension
        if value is None:
            self._wrong(f"{what} is missing; give a vector in the start configuration.")
            return np.eye(d)[0]
        before = len(self._mistakes)
        vector = self._vector(what, value, d)
        length = np.linalg.norm(vector)
        if length < 1e-12:
            if len(self._mistakes) == before:  # else zeros replace what is wrong
                self._wrong(f"{what} has no direction (zero vector).")
            return np.eye(d)[0]
        return vector / length

    def _axis_frame(self, who: str, axis, x=None) -> np.ndarray:
        """In space the axis is the frame's z (and `x` lies in its x–z plane); in the plane its x."""
        a = self._axis(f"{who}: axis", axis)
        if self.dimension == 2:
            return np.array([[a[0], -a[1]], [a[1], a[0]]])
        if x is None:
            return frame_on_axis(a)
        across = self._axis(f"{who}: x", x)
        if abs(across @ a) > 1 - 1e-9:
            self._wrong(f"{who}: x is parallel to the axis; it must point across it.")
            return frame_on_axis(a)
        return frame_on_axis(a, across)

    def _orientation(self, who, angle, rotation, quaternion, axis) -> np.ndarray:
        if self.dimension == 2:
            if any(x is not None for x in (rotation, quaternion, axis)):
                self._wrong(f"{who}: in the plane give the orientation by angle= only.")
            return turn(self._number(f"{who}: angle", 0.0 if angle is None else angle))
        ways = [w for w, x in (("rotation", rotation), ("quaternion", quaternion), ("axis", axis)) if x is not None]
        if len(ways) > 1 or (angle is not None and ways != ["axis"]):
            self._wrong(f"{who}: give one of rotation=, quaternion=, or axis= with angle=.")
        if rotation is not None:
            return self._matrix(f"{who}: rotation", rotation)
        if quaternion is not None:
            q = self._vector(f"{who}: quaternion", quaternion, 4)
            if np.linalg.norm(q) < 1e-12:
                self._wrong(f"{who}: quaternion has no length.")
                return np.eye(3)
            return rotation_matrix(q)
        if axis is not None:
            a = self._axis(f"{who}: axis", axis)
            return axis_angle(a, self._number(f"{who}: angle", 0.0 if angle is None else angle))
        return np.eye(3)

    def _inertia(self, who: str, value) -> np.ndarray:
        if self.dimension == 2:
            return np.asarray([self._number(f"{who}: inertia", value, positive=True)])
        tell_single_precision(f"{who}: inertia", value, stacklevel=5)
        try:
            I = np.asarray(value, float)
        except (TypeError, ValueError):
            I = np.zeros(0)
        if I.shape == (3,):
            I = np.diag(I)
        if I.shape != (3, 3) or not np.all(np.isfinite(I)):
            self._wrong(f"{who}: inertia must be 3 principal moments or a finite 3x3 tensor, not {value!r}.")
            return np.eye(3)
        if not np.allclose(I, I.T, rtol=1e-9, atol=1e-12 * np.abs(I).max()):
            self._wrong(f"{who}: inertia must be a symmetric tensor.")
        moments = np.linalg.eigvalsh(0.5 * (I + I.T))
        if moments[0] <= 0:
            self._wrong(f"{who}: inertia must be positive definite; its principal moments are {moments}.")
            return np.eye(3)
        if moments[2] > (moments[0] + moments[1]) * (1 + 1e-9):
            self._wrong(
                f"{who}: inertia: no rigid body has the principal moments {moments}: "
                "the largest exceeds the sum of the others."
            )
        return 0.5 * (I + I.T)

    # ---- functions ---------------------------------------------------------------------------------------

    def _parameters(self, who: str, parameters) -> dict[str, np.ndarray]:
        made = {}
        if parameters is not None and not isinstance(parameters, Mapping):
            self._wrong(f"{who}: parameters must be names with numbers, not {parameters!r}.")
            return made
        for key, value in (parameters or {}).items():
            tell_single_precision(f"{who}: parameter '{key}'", value, stacklevel=5)
            try:
                array = np.asarray(value, float)
            except (TypeError, ValueError):
                self._wrong(f"{who}: parameter '{key}' must be numbers, not {value!r}.")
                continue
            if not np.all(np.isfinite(array)):
                self._wrong(f"{who}: parameter '{key}' must be finite.")
            made[key] = array
        return made

    def _without_own(self, who: str, numbers: Mapping, own: Iterable[str]) -> None:
        """Refuse parameters that have the name of one of the element's own numbers."""
        for key in sorted(numbers.keys() & set(own)):
            self._wrong(f"{who}: parameter '{key}': this word has its own meaning in this element; choose another.")

    def _motion(self, what: str, value, parameters=None, prefix: str = "") -> tuple[dict[str, np.ndarray], Callable]:
        """Numbers and a compiled function (t, p) of a function of time given in any of its forms."""
        who = what.split(":")[0]
        if callable(value) and not isinstance(value, Function):
            return self._parameters(who, parameters), with_parameters(value, parameters)
        try:
            if isinstance(value, str) and parameters:
                from dalembert.model._functions import expression

                numbers = self._parameters(who, parameters)
                several = [k for k, x in numbers.items() if x.ndim]
                if several:
                    raise DalembertError(f"parameter '{several[0]}' must be one number in a formula.")
                value = expression(value, {k: float(x) for k, x in numbers.items()})
            elif parameters:
                self._wrong(f"{who}: parameters belong to a Python function or a formula.")
            function = function_of(value)
        except DalembertError as error:
            self._wrong(f"{what}: {error}")
            function = function_of(0.0)
        return {f"{prefix}{k}": x for k, x in function.numbers.items()}, Timed(function.shape, prefix)

    def _motions(self, what: str, values, size: int, parameters=None) -> tuple[dict[str, np.ndarray], Callable]:
        """The same for `size` components: one Python function of all, or a list of functions of time."""
        if callable(values) and not isinstance(values, Function):
            return self._parameters(what.split(":")[0], parameters), with_parameters(values, parameters)
        given = list(values) if isinstance(values, list | tuple | np.ndarray) else [values]
        if len(given) != size:
            self._wrong(f"{what} must be {size} numbers or functions of time (the model is in {self._where}).")
            given = [0.0] * size
        if all(isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in given):
            return {"value": self._vector(what, given, size)}, constant_load
        numbers, parts = {}, []
        for x, letter in zip(given, "xyz", strict=False):
            own, part = self._motion(f"{what}: {letter}", x, parameters if isinstance(x, str) else None, f"{letter}_")
            numbers |= own
            parts.append(part)
        return numbers, TimedVector(tuple(parts))


def _shown(name: str) -> str:
    """A name as one short line, whatever it contains."""
    text = repr(name)[1:-1]
    return text if len(text) <= 60 else f"{text[:60]}…"


@dataclass(frozen=True)
class Timed:
    """A `Shape` as a function (t, *variables, p) whose numbers stand in p under a prefix."""

    shape: Shape
    prefix: str = ""
    variables: tuple[str, ...] = ()

    def __call__(self, t, *values_and_p):
        *values, p = values_and_p
        own = under(self.prefix, p)
        return self.shape(t, own, dict(zip(self.variables, values, strict=True)))


@dataclass(frozen=True)
class TimedVector:
    """Several functions (t, p) as one with a vector's components."""

    parts: tuple[Callable, ...]

    def __call__(self, t, p):
        import jax.numpy as jnp

        return jnp.stack([jnp.asarray(f(t, p), float) for f in self.parts])


def under(prefix: str, p: Mapping) -> dict:
    """The numbers that stand in p under a prefix, without it."""
    return {k.removeprefix(prefix): x for k, x in p.items() if k.startswith(prefix)}


def constant_load(t, p):
    return p["value"]


@dataclass(frozen=True)
class Plain:
    """A user's function without parameters, given the `p` that all functions inside get."""

    function: Callable

    def __call__(self, *arguments):
        return self.function(*arguments[:-1])


def with_parameters(function, parameters):
    return function if parameters else Plain(function)
