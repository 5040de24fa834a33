"""1 · model: `Placing`, the checks of an element's values while it is placed in a model.

A wrong value is recorded, with the element and the argument, and replaced by a harmless one, so that all mistakes of a
model are found together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dalembert._results import DalembertError, did_you_mean, tell_single_precision
from dalembert.model._arguments import name_mistake
from dalembert.model._element import Cause, Element, Mistake
from dalembert.model._frames import Body, Marker, axis_angle, frame_on_axis, rotation_matrix, turn
from dalembert.model._functions import FormulaError, Function, Shape, expression, function_of, names_in, parse
from dalembert.model._laws import (
    OfTime,
    Timed,
    TimedVector,
    constant_effort,
    constant_load,
    renamed_in,
    with_parameters,
)
from dalembert.model._placed import Constraint, Force, Input, JointCoordinate
from dalembert.model._readings import Reads

if TYPE_CHECKING:
    from dalembert.model._model import Model

T = TypeVar("T")

OF_MARKERS = frozenset(("point_i", "frame_i", "point_j", "frame_j"))
"""Keys of an element's numbers that place its markers in their bodies; the others are its parameters."""
OF_ROWS = OF_MARKERS | {"side", "active", "held_at"}
"""The same for rows, with the contact side of teeth and the switches of rows."""


class Placing:
    """An element on its way into a model: reads its arguments by name, checks them, and adds what it becomes.

    Arguments are named by `key`; the value is the element's own unless it is passed.
    """

    def __init__(self, model: Model, element: Element):
        self.model, self.element = model, element
        self.space = model.space
        self.dimension = 2 if model.space == "plane" else 3
        self.name = element.name
        self.who = f"{element.title} '{element.name}'"

    @property
    def where(self) -> str:
        return "the plane" if self.space == "plane" else "space"

    def arg(self, key: str, value: str = "") -> str:
        """How an argument is written: `at=(...)`, or in a model file `at: [...]`."""
        if self.model.from_file:
            return f"{key}: [{value}]" if value else f"{key}:"
        return f"{key}=({value})" if value else f"{key}="

    def wrong(self, sentence: str, *paths, cause: Cause = Cause.RELATION, missing: str = "") -> None:
        """Record a mistake. `paths` are the arguments it is about: keys, or tuples of keys and indices."""
        found = tuple(p if isinstance(p, tuple) else (p,) for p in paths)
        self.model.record(Mistake(f"{self.who}: {sentence}", self.element, found, cause, missing))

    def _bad(self, path, sentence: str, cause: Cause = Cause.VALUE) -> None:
        words = [str(x) if isinstance(x, str) else "xyz"[x] for x in (path if isinstance(path, tuple) else (path,))]
        self.wrong(f"{': '.join(words)} {sentence}", path, cause=cause)

    def given(self, key: str) -> Any:
        if key not in type(self.element).fields():
            kind = type(self.element).__name__
            raise DalembertError(f"{self.who}: class {kind} has no field '{key}'; add it, or define markers(on).")
        return getattr(self.element, key)

    # ---- what it becomes ---------------------------------------------------------------------------------------

    def register(self, table: dict, item: T) -> T:
        """Put an item into a table of the model under the element's name, which must be free; returns the item."""
        name, title = self.name, self.element.title
        if not isinstance(name, str) or not name.strip():
            text = f"{title} without a name: give it a non-empty text."
            self.model.record(Mistake(text, self.element, (("name",),), Cause.NAME))
            return item
        if "." in name:
            self.wrong("a name must not contain '.', it separates parameters.", "name", cause=Cause.NAME)
        if wrong := name_mistake(name):
            text = f"{title} '{_shown(name)}': a name {wrong}."
            self.model.record(Mistake(text, self.element, (("name",),), Cause.NAME))
        elif row := re.search(r"\[\d+\]$", name):
            text = f"a name must not end in '{row[0]}', which counts the rows of a joint."
            self.wrong(text, "name", cause=Cause.NAME)
        if name == "ground" or any(name in t for t in self.model.tables):
            self.wrong("this name is taken. Names are unique in a model.", "name", cause=Cause.NAME)
        else:
            table[name] = item
        return item

    def constraint(self, markers: Iterable[Marker], numbers=None, functions=(), **more) -> Constraint:
        """Add the constraint that the element is."""
        element: Any = self.element
        for name, x in element.coordinates(self.space).items():
            if not isinstance(x, JointCoordinate):
                raise DalembertError(
                    f"class {type(element).__name__}: its coordinate '{name}' is {x!r}; "
                    "state angle_about(axis) or length_along(axis), of da.model."
                )
        more = self._acting_on(more)
        made = Constraint(self.name, element, tuple(markers), _arrays(numbers), tuple(functions), **more)
        self._without_words(made.numbers, OF_ROWS)
        return self.register(self.model.constraints, made)

    def force(self, markers: Iterable[Marker], numbers=None, functions=(), **more) -> Force:
        """Add the force that the element is."""
        more = self._acting_on(more)
        made = Force(self.name, self.element, tuple(markers), _arrays(numbers), tuple(functions), **more)  # pyright: ignore[reportArgumentType]
        self._without_words(made.numbers, OF_MARKERS)
        return self.register(self.model.forces, made)

    def _acting_on(self, more: dict[str, Any]) -> dict[str, Any]:
        """The same, knowing whether the coordinate that it acts on is an angle."""
        if more.get("target") is None or not more.get("coordinate"):
            return more
        return more | {"is_angle": self.free(more["target"], more["coordinate"]).is_angle}

    def _without_words(self, numbers: Mapping, words: Iterable[str]) -> None:
        """Refuse a person's parameters that have the name of a number that all elements have."""
        if getattr(self.element, "parameters", None) is not None:
            self.without_own(numbers, words)

    def without_own(self, numbers: Mapping, own: Iterable[str]) -> None:
        """Refuse parameters that have the name of one of the element's own numbers."""
        for key in sorted(numbers.keys() & set(own)):
            text = f"parameter '{key}': this word has its own meaning in this element; choose another."
            self.wrong(text, ("parameters", key))

    # ---- names -------------------------------------------------------------------------------------------------

    def place(self, path, place=None) -> Body | Marker:
        """A body or a marker of the model, by itself or by name."""
        place = self.given(path) if place is None else place
        model = self.model
        if isinstance(place, str):
            if place == "ground":
                return model.ground
            for table in (model.bodies, model.markers):
                if place in table:
                    return table[place]
            hint = did_you_mean(place, [*model.bodies, *model.markers, "ground"])
            text = f"there is no body or marker '{place}'.{hint}"
            self.wrong(text, path, cause=Cause.MISSING, missing=place)
            return model.ground
        body = place.body if isinstance(place, Marker) else place
        if not isinstance(body, Body):
            self.wrong(f"{place!r} is not a body; give a body, a marker or a name.", path)
            return model.ground
        if body is not model.ground and model.bodies.get(body.name) is not body:
            if body in model.former and body.name in model.bodies:  # of this model, before an item was changed
                table = model.markers if isinstance(place, Marker) else model.bodies
                return table.get(place.name, model.bodies[body.name])
            owner = "ground of" if body.is_ground else f"body '{body.name}' of"
            self.wrong(f"{owner} another model; use a body of this one.", path)
            return model.ground
        return place

    def body(self, path, place=None) -> Body:
        found = self.place(path, place)
        return found.body if isinstance(found, Marker) else found

    def bodies(self, key: str = "bodies") -> list[Body]:
        places = self.given(key)
        if isinstance(places, str | Body | Marker) or not isinstance(places, Sequence):
            self.wrong(f"{key} must be a list of bodies, not {places!r}.", key)
            return []
        return [self.body((key, k), b) for k, b in enumerate(places)]

    def joint(self, path: Any = "joint", joint=None) -> Constraint | None:
        """A joint of the model, by itself or by name."""
        joint = self.given(path) if joint is None else joint
        name = joint.name if isinstance(joint, Constraint) else joint
        known = self.model.constraints
        if isinstance(name, str) and name in known:
            return known[name]
        text = f"there is no joint '{name}'.{did_you_mean(str(name), known)}"
        self.wrong(text, path, cause=Cause.MISSING, missing=str(name))
        return None

    def coordinate(
        self, joint: Constraint, which: str | None, path: Any = "coordinate", of: Any = "joint"
    ) -> str | None:
        """The name of the joint's coordinate, or None after recording what is wrong."""
        free = tuple(joint.element.coordinates(self.space))
        if not free:
            self.wrong(f"joint '{joint.name}' ({joint.type}) has no free coordinate to act on.", of)
        elif which is None and len(free) > 1:
            text = f"joint '{joint.name}' has several coordinates; choose one with {self.arg('coordinate')} {free}."
            self.wrong(text, of)
        elif which is not None and which not in free:
            self.wrong(f"joint '{joint.name}' has no coordinate '{which}', only {free}.", path)
        else:
            return which if which is not None else next(iter(free))
        return None

    def free(self, joint: Constraint, which: str) -> JointCoordinate:
        """A coordinate of a joint by its name."""
        return joint.element.coordinates(self.space)[which]

    def target(
        self, path: Any = "joint", joint=None, which=None, at: Any = "coordinate"
    ) -> tuple[Constraint, str] | None:
        """The joint and its coordinate that a driver or a force acts on."""
        found = self.joint(path, joint)
        if which is None and joint is None:
            which = self.given("coordinate")
        chosen = None if found is None else self.coordinate(found, which, at, path)
        return None if found is None or chosen is None else (found, chosen)

    def item(self, path: Any) -> Constraint | Force | None:
        """A joint, driver or force of the model, by itself or by name."""
        given = self.given(path)
        name = given.name if isinstance(given, Constraint | Force) else given
        for table in (self.model.constraints, self.model.forces):
            if isinstance(name, str) and name in table:
                return table[name]
        self.missing(path, "joint, driver or force", name, (*self.model.constraints, *self.model.forces))
        return None

    def missing(self, path: Any, what: str, name: Any, known: Iterable[str]) -> None:
        """Record a name that is not there."""
        text = f"there is no {what} '{name}'.{did_you_mean(str(name), known)}"
        self.wrong(text, path, cause=Cause.MISSING, missing=str(name))

    # ---- numbers -----------------------------------------------------------------------------------------------

    def number(self, path, value=None, *, default=None, positive: bool = False, negative: bool = True) -> float:
        """A finite number; `default` where none is given."""
        value = self.given(path) if value is None else value
        value = default if value is None else value
        tell_single_precision(self._words(path), value)
        try:
            found = None if isinstance(value, bool | str) else float(value)  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError):
            found = None
        if found is None:
            self._bad(path, f"must be a number, not {value!r}.", Cause.RELATION)
            return 1.0
        if not np.isfinite(found):
            self._bad(path, f"must be finite, not {found}.")
            return 1.0
        if positive and found <= 0:
            self._bad(path, f"must be greater than zero, not {found:g}.")
            return 1.0
        if not negative and found < 0:
            self._bad(path, f"must not be negative, not {found:g}.")
            return 0.0
        return found

    def positive(self, path, default=None) -> float:
        return self.number(path, default=default, positive=True)

    def _words(self, path) -> str:
        return f"{self.who}: {path if isinstance(path, str) else path[0]}"

    def array(self, path, value, shape: tuple[int, ...], words: str) -> np.ndarray:
        tell_single_precision(self._words(path), value)
        try:
            found = np.asarray(value, float)
        except (TypeError, ValueError):
            found = np.full(0, np.nan)
        if found.shape != shape:
            self._bad(path, f"must be {words}, not {value!r}.", Cause.FORM)
            return np.zeros(shape)
        if not np.all(np.isfinite(found)):
            self._bad(path, f"must be finite, not {value!r}.")
            return np.zeros(shape)
        return found

    def vector(self, path, value=None, *, default=None, size: int | None = None) -> np.ndarray:
        """`size` numbers, as many as the space has dimensions; `default` (zeros) where none are given."""
        size = self.dimension if size is None else size
        value = self.given(path) if value is None else value
        if value is None:
            return np.zeros(size) if default is None else np.asarray(default, float)
        return self.array(path, value, (size,), f"{size} numbers (the model is in {self.where})")

    def rotation(self, key: str) -> np.ndarray:
        d, value = self.dimension, self.given(key)
        tell_single_precision(self._words(key), value)
        try:
            R = np.asarray(value, float)
            good = R.shape == (d, d) and np.allclose(R.T @ R, np.eye(d), atol=1e-9) and np.linalg.det(R) > 0
        except (TypeError, ValueError):
            good = False
        if not good:
            self._bad(key, f"must be a {d}x{d} rotation matrix.", Cause.RELATION)
            return np.eye(d)
        return R

    def stiffness(self, key: str, size: int) -> np.ndarray:
        """A symmetric, positive semi-definite size × size matrix; from a list, its diagonal."""
        value = self.given(key)
        if value is None:
            return np.zeros((size, size))
        words = f"{size} numbers or a {size}x{size} matrix"
        if np.ndim(np.asarray(value, dtype=object)) == 1:
            diagonal = self.array(key, value, (size,), words)
            if np.any(diagonal < 0):
                self._bad(key, "must not be negative: it would feed energy.")
            return np.diag(np.abs(diagonal))
        K = self.array(key, value, (size, size), words)
        if not np.allclose(K, K.T, rtol=1e-9, atol=1e-12 * np.abs(K).max(initial=0.0)):
            self._bad(key, "must be symmetric.", Cause.RELATION)
        elif K.size and np.linalg.eigvalsh(K)[0] < -1e-9 * np.abs(K).max():
            self._bad(key, "must not have negative eigenvalues: it would feed energy.", Cause.RELATION)
        return K

    def axis(self, key: str, value=None) -> np.ndarray:
        """A unit vector."""
        value = self.given(key) if value is None else value
        if value is None:
            self._bad(key, "is missing; give a vector in the start configuration.", Cause.RELATION)
            return np.eye(self.dimension)[0]
        before = len(self.model.recorded)
        found = self.vector(key, value)
        length = np.linalg.norm(found)
        if length < 1e-12:
            if len(self.model.recorded) == before:  # else zeros replace what is wrong
                self._bad(key, "has no direction (zero vector).")
            return np.eye(self.dimension)[0]
        return found / length

    def not_perpendicular(self, one: str, other: str) -> None:
        text = f"{one} and {other} must be perpendicular in the start configuration."
        self.wrong(text, one, other, cause=Cause.FORM)

    def axis_frame(self, key: str = "axis", x: str | None = None) -> np.ndarray:
        """In space the axis is the frame's z (and `x` lies in its x–z plane); in the plane its x."""
        a = self.axis(key)
        if self.dimension == 2:
            return np.array([[a[0], -a[1]], [a[1], a[0]]])
        if x is None or self.given(x) is None:
            return frame_on_axis(a)
        across = self.axis(x)
        if abs(across @ a) > 1 - 1e-9:
            self.wrong(f"{x} is parallel to the axis; it must point across it.", x)
            return frame_on_axis(a)
        return frame_on_axis(a, across)

    def orientation(self, *ways: str) -> np.ndarray:
        """A rotation by `angle`; in space by one of the ways rotation, quaternion, or axis with angle."""
        angle = self.given("angle")
        given = [w for w in ways if self.given(w) is not None]
        if self.dimension == 2:
            if given:
                self.wrong(f"in the plane give the orientation by {self.arg('angle')} only.", "angle", *given)
            return turn(self.number("angle", default=0.0))
        if len(given) > 1 or (angle is not None and given != ["axis"]):
            rotation, quaternion, axis = (self.arg(w) for w in ("rotation", "quaternion", "axis"))
            text = f"give one of {rotation}, {quaternion}, or {axis} with {self.arg('angle')}."
            self.wrong(text, "rotation", "quaternion", "axis", "angle")
        if "rotation" in given:
            return self.rotation("rotation")
        if "quaternion" in given:
            q = self.vector("quaternion", size=4)
            if np.linalg.norm(q) < 1e-12:
                self.wrong("quaternion has no length.", "quaternion")
                return np.eye(3)
            return rotation_matrix(q)
        if "axis" in given:
            return axis_angle(self.axis("axis"), self.number("angle", default=0.0))
        return np.eye(3)

    # ---- markers -----------------------------------------------------------------------------------------------

    def fixed(self, body: Body, point, frame=None) -> Marker:
        """A marker fixed in a body, from a point and a frame in the world."""
        frame = np.eye(self.dimension) if frame is None else frame
        return Marker(body, body.local_point(point), body.local_rotation(frame))

    def centre(self, body: Body) -> Marker:
        return Marker(body, np.zeros(self.dimension), np.eye(self.dimension))

    def pair(self) -> tuple[Marker, Marker] | None:
        """The two markers i and j that place a joint, if it was placed so."""
        markers = self.model.markers
        pair = tuple(markers.get(p, p) if isinstance(p, str) else p for p in (self.given("i"), self.given("j")))
        if isinstance(pair[0], Marker) and isinstance(pair[1], Marker):
            for key, place in zip("ij", pair, strict=True):
                self.place(key, place)
            return pair[0], pair[1]
        if isinstance(pair[0], Marker) or isinstance(pair[1], Marker):
            at, axis = self.arg("at"), self.arg("axis")
            self.wrong(f"give two markers, or two bodies with {at} (and {axis}).", "at", "axis", "i", "j")
        return None

    def joint_markers(
        self,
        axis: str | None = None,
        *,
        needs_axis: bool = True,
        needs_point: bool = True,
        axis_is_x: bool = False,
        x: str | None = None,
        frame=None,
        frame_j=None,
    ) -> tuple[Marker, Marker]:
        """The markers of a joint at `at` with its frame on the argument named by `axis`, or in a given frame."""
        along = None if axis is None else self.given(axis)
        if (pair := self.pair()) is not None:
            if self.given("at") is not None or along is not None:
                at, other = self.arg("at"), self.arg(axis or "axis")
                text = f"two markers place the joint already; leave out {at} and {other}."
                self.wrong(text, "at", axis or "axis")
            return pair
        bi, bj = self.body("i"), self.body("j")
        if self.given("at") is None and needs_point:
            self.wrong(f"say where it is: {self.arg('at', '...')}, a point in the start configuration.", "at")
        point = self.vector("at", default=(bj if bi.is_ground else bi).position)
        if frame is None:
            frame = np.eye(self.dimension)
            if axis is not None and along is None and needs_axis:
                self.wrong(f"give its {axis}, a vector in the start configuration.", axis)
            elif axis is not None and along is not None and axis_is_x and self.dimension == 3:
                z, unit = np.array([0.0, 0.0, 1.0]), self.axis(axis)
                frame = frame_on_axis(z, unit) if abs(unit @ z) < 1 - 1e-12 else np.eye(3)
            elif axis is not None and along is not None:
                frame = self.axis_frame(axis, x)
        frame_j = frame if frame_j is None else frame_j
        return self.fixed(bi, point, frame), self.fixed(bj, point, frame_j)

    def point_markers(self) -> tuple[Marker, Marker]:
        """Markers at the points at_i of i and at_j of j (by default their centres of mass)."""
        made = []
        for key, at in (("i", "at_i"), ("j", "at_j")):
            found = self.place(key)
            if isinstance(found, Marker):
                made.append(found)
                continue
            made.append(self.fixed(found, self.vector(at, default=found.position), found.rotation))
        return made[0], made[1]

    def hinged(self, mi: Marker) -> Marker:
        """Marker i with its frame on `axis`, unless it was given as a marker."""
        if isinstance(self.place("i"), Marker):
            return mi
        return Marker(mi.body, mi.position, mi.body.local_rotation(self.axis_frame()))

    def length(self, mi: Marker, mj: Marker) -> float:
        """The argument `length`, by default the distance at the start."""
        apart = float(np.linalg.norm(mj.start_position - mi.start_position))
        return self.positive("length", apart)

    # ---- functions ---------------------------------------------------------------------------------------------

    def parameters(self, key: str = "parameters") -> dict[str, np.ndarray]:
        """Named numbers that a function or a formula uses."""
        given, made = self.given(key), {}
        if given is not None and not isinstance(given, Mapping):
            self.wrong(f"parameters must be names with numbers, not {given!r}.", key)
            return made
        for name, value in (given or {}).items():
            tell_single_precision(f"{self.who}: parameter '{name}'", value)
            try:
                array = np.asarray(value, float)
            except (TypeError, ValueError):
                self.wrong(f"parameter '{name}' must be numbers, not {value!r}.", (key, name))
                continue
            if not np.all(np.isfinite(array)):
                self.wrong(f"parameter '{name}' must be finite.", (key, name))
            made[name] = array
        return made

    def motion(self, path, value=None, *, default=None, prefix: str = "", parameters: bool = False):
        """Numbers and a compiled function (t, p) of a function of time given in any of its forms; with `parameters` it
        may use those of the element."""
        value = self.given(path) if value is None else value
        value = default if value is None else value
        value = value.name if isinstance(value, Input) else value
        named = self.given("parameters") if parameters else None
        if used := self.inputs_in(value):
            return self._of_inputs(path, str(value), used, prefix, self.parameters() if parameters else {})
        if callable(value) and not isinstance(value, Function):
            return (self.parameters() if parameters else {}), with_parameters(value, named)
        try:
            if isinstance(value, str) and named:
                numbers = self.parameters()
                several = [k for k, x in numbers.items() if x.ndim]
                if several:
                    raise FormulaError(f"parameter '{several[0]}' must be one number in a formula.")
                value = expression(value, {k: float(x) for k, x in numbers.items()})
            elif named:
                self.wrong("parameters belong to a Python function or a formula.", "parameters")
            function = function_of(value)
        except FormulaError as error:
            self.formula_mistake(path, error)
            function = function_of(0.0)
        return {f"{prefix}{k}": x for k, x in function.numbers.items()}, Timed(function.shape, prefix)

    def varying(self, key: str, default: float | None = None):
        """Numbers, and a function (t, p) of them if it is a function of time or an input; None if it is a number."""
        value = self.given(key)
        if isinstance(value, str | Mapping | Input | Function) or callable(value):
            return self.motion(key, prefix=f"{key}_")
        return {key: self.number(key, default=default)}, None

    @property
    def inputs(self) -> dict[str, str]:
        """The inputs of the model, each with its key among an element's numbers."""
        return {name: x.key for name, x in self.model.inputs.items()}

    def inputs_in(self, value) -> dict[str, str]:
        """The inputs that a formula names; none of what is no formula."""
        if not isinstance(value, str) or not self.model.inputs:
            return {}
        try:
            names = names_in(parse(value))
        except FormulaError:  # reported by those who read it
            return {}
        return {name: key for name, key in self.inputs.items() if name in names}

    def _of_inputs(self, path, text: str, used: dict[str, str], prefix: str, numbers, variables: tuple[str, ...] = ()):
        """Numbers and a compiled function (t, *variables, p) of a formula that names inputs."""
        made = {k: np.zeros(3) for k in used.values()}
        try:
            if taken := sorted(used.keys() & {*numbers, *variables}):
                raise FormulaError(f"'{taken[0]}' is an input and a word of this formula; rename one of them.")
            tree = parse(text, numbers)
            unknown = sorted(names_in(tree) - {"t", *variables, *numbers, *used})
            if unknown:
                allowed = ", ".join(("t", *variables, *numbers, *self.model.inputs))
                raise FormulaError(
                    f"expression '{text}': '{unknown[0]}' is unknown; it may use {allowed}.", unknown=True
                )
        except FormulaError as error:
            self.formula_mistake(path, error)
            tree, numbers = ("number", 0.0), {}
        shape = Shape("expression", tree=renamed_in(tree, used), names=tuple(numbers))
        timed = Timed(shape, prefix, variables, tuple(used.values()))
        return {f"{prefix}{k}": x for k, x in numbers.items()} | made, timed

    def reading_formula(self, path: Any, value: Any, numbers: Mapping, states: tuple[str, ...] = ()) -> Reads | None:
        """A formula of measurements and the like; whether they exist is found when the model is complete."""
        path = path if isinstance(path, tuple) else (path,)
        value = value.name if isinstance(value, Input) else value
        if isinstance(value, int | float | np.number) and not isinstance(value, bool):
            value = repr(float(value))
        try:
            if several := [k for k, x in numbers.items() if np.ndim(x)]:
                raise FormulaError(f"parameter '{several[0]}' must be one number in a formula.")
            return Reads.formula(value, tuple(numbers), states, path)  # pyright: ignore[reportArgumentType]
        except FormulaError as error:
            self.formula_mistake(path, error)
            return None

    def formula_mistake(self, path, error: FormulaError, words: str = "") -> None:
        """Record what is wrong with a formula or a function of time."""
        path = path if isinstance(path, tuple) else (path,)
        names = ": ".join(x if isinstance(x, str) else "xyz"[x] for x in path)
        cause = Cause.VALUE if error.syntax else Cause.FORM if error.unknown else Cause.RELATION
        self.wrong(
            f"{names}{words}: {error}", *((*path, *error.path[:k]) for k in range(len(error.path), -1, -1)), cause=cause
        )

    def motions(self, key: str, size: int, *, parameters: bool = False) -> tuple[dict[str, np.ndarray], Callable]:
        """The same for `size` components: one Python function of all, or a list of functions of time."""
        values = self.given(key)
        values = values.name if isinstance(values, Input) else values
        if callable(values) and not isinstance(values, Function):
            named = self.given("parameters") if parameters else None
            return (self.parameters() if parameters else {}), with_parameters(values, named)
        given = list(values) if isinstance(values, list | tuple | np.ndarray) else [values]
        if len(given) != size:
            text = f"must be {size} numbers or functions of time (the model is in {self.where})."
            self._bad(key, text, Cause.FORM)
            given = [0.0] * size
        if all(isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in given):
            return {"value": self.vector(key, given, size=size)}, constant_load
        numbers, parts = {}, []
        for k, (x, letter) in enumerate(zip(given, "xyz", strict=False)):
            path = (key, k) if isinstance(values, list | tuple | np.ndarray) else (key,)
            own, part = self.motion(
                path, 0.0 if x is None else x, prefix=f"{letter}_", parameters=parameters and isinstance(x, str | Input)
            )
            numbers |= own
            parts.append(part)
        return numbers, TimedVector(tuple(parts))

    def formula(self, key: str, variables: tuple[str, ...]) -> tuple[dict[str, Any], Callable]:
        """Numbers and a function (t, *variables, p) from a number, a formula of the variables, or a JAX function."""
        value, numbers = self.given(key), self.parameters()
        value = value.name if isinstance(value, Input) else value
        if used := self.inputs_in(value):
            return self._of_inputs(key, str(value), used, "", numbers, variables)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"effort": self.number(key)}, constant_effort
        if isinstance(value, Function | dict):
            own, function = self.motion(key)
            return own, OfTime(function)
        if callable(value):
            return numbers, with_parameters(value, self.given("parameters"))
        try:
            tree = parse(value, numbers)
            if taken := numbers.keys() & set(variables):
                raise FormulaError(
                    f"parameter '{min(taken)}': the formula calls a variable by this word; choose another."
                )
            unknown = sorted(names_in(tree) - {"t", *variables} - set(numbers))
            if unknown:
                allowed = ", ".join(("t", *variables, *numbers))
                raise FormulaError(
                    f"expression '{value}': '{unknown[0]}' is unknown; it may use {allowed}.", unknown=True
                )
        except FormulaError as error:
            self.formula_mistake(key, error)
            return {"effort": 0.0}, constant_effort
        return numbers, Timed(Shape("expression", tree=tree, names=tuple(numbers)), "", variables)


def _arrays(numbers: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """An element's numbers, plain ones as arrays."""
    return {k: np.asarray(x) if isinstance(x, float) else x for k, x in (numbers or {}).items()}


def _shown(name: str) -> str:
    """A name as one short line, whatever it contains."""
    text = repr(name)[1:-1]
    return text if len(text) <= 60 else f"{text[:60]}…"
