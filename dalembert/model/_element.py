"""1 · model: `Element`, what a person can say about a machine: one class for each joint, driver, wheel and force.

An element is a frozen record: its fields are its arguments, annotated with the names of `_arguments.py`. A subclass is
a dataclass by itself (its own fields are keyword arguments) and is known to model files under its name in snake case:
`class PointOnLine` is `type: point_on_line`. It states what it is in a tree, which of its reactions load a bearing and
how it looks; its rows or its law are registered in `systems/`, or come with it (`rows_in`, `law_in`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import inspect
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from dalembert._results import DalembertError
from dalembert.model._arguments import ANYTHING, IMPACTS, Flag, Form, Impact, JointName, Name, Number, Place, Positive
from dalembert.model._frames import Body, Marker
from dalembert.model._functions import Function
from dalembert.model._placed import Bearing, Constraint, Input, JointCoordinate, Link, Look, Placed

if TYPE_CHECKING:
    from dalembert.model._placing import Placing

SECTIONS = (
    "bodies", "markers", "inputs", "joints", "forces", "limits", "shapes", "measurements", "controllers"
)  # fmt: skip
TYPED = ("joints", "forces", "measurements")  # the sections with several types of elements
ELEMENTS: dict[str, type[Element]] = {}
"""All elements by their word in model files, after the `family` of their section where it has one."""


class Cause(enum.Enum):
    """Why something is wrong; decides whether it is reported where other things of the same item are wrong as well."""

    VALUE = "one value by itself"
    FORM = "the form of one value, which another key may explain"
    NAME = "the item's own name"
    MISSING = "a name that is not there"
    SPACE = "an item of the plane in space, or the reverse"
    EMPTY = "a model without bodies"
    RELATION = "values that do not fit together"


class Mistake(str):
    """A sentence about a mistake, with the element, where in it (the first of `paths` that was given) and its cause."""

    element: Element | None
    paths: tuple[tuple, ...]
    cause: Cause
    missing: str  # the name that is not there

    def __new__(cls, text, element=None, paths=(), cause=Cause.RELATION, missing=""):
        made = super().__new__(cls, text)
        made.element, made.paths, made.cause, made.missing = element, tuple(paths), cause, missing
        return made


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False, field_specifiers=(field,))
@dataclass(frozen=True, eq=False, repr=False)
class Element:
    """Base of everything that can be added to a model; see the head of this file."""

    name: Name

    type: ClassVar[str] = ""
    section: ClassVar[str] = ""
    title: ClassVar[str] = ""  # how messages call it: Joint, Driver, Force, …
    family: ClassVar[str] = ""  # what stands before the word in `ELEMENTS`, so that sections may use the same word
    key: ClassVar[str] = ""  # its word in `ELEMENTS`
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    def __init_subclass__(cls, abstract: bool = False) -> None:
        super().__init_subclass__()
        _evaluate_annotations(cls)
        dataclass(frozen=True, eq=False, kw_only=True, repr=False)(cls)
        if abstract:  # a base of others
            return
        word = vars(cls).get("type") or re.sub(r"(?<!^)(?=[A-Z][a-z])", "_", cls.__name__).lower()
        key = f"{cls.family}{word}"
        known = ELEMENTS.get(key)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise DalembertError(
                f"class {cls.__name__}: '{word}' is {known.__module__}.{known.__qualname__} already; give another name."
            )
        cls.type, cls.key, ELEMENTS[key] = word, key, cls

    def place(self, on: Placing) -> Any:
        """Check the values and add what they mean to the model."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What it is, in words for tables."""
        return self.type.replace("_", " ")

    @classmethod
    def fields(cls) -> dict[str, dataclasses.Field]:
        """The arguments by name."""
        return {f.name: f for f in dataclasses.fields(cls)}

    @classmethod
    def summary(cls) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(cls) or "").split("\n")[0]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as plain data, without those that are None or as by default."""
        given = {}
        for f in dataclasses.fields(self):
            value = plain(getattr(self, f.name))
            if value is not None and (f.default is dataclasses.MISSING or value != plain(f.default)):
                given[f.name] = value
        return given

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and self.arguments == other.arguments

    def __hash__(self) -> int:
        return hash((type(self), str(self.name)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={x!r}' for k, x in self.arguments.items())})"


def is_required(argument: dataclasses.Field) -> bool:
    """Whether an argument has no default."""
    return argument.default is dataclasses.MISSING


@functools.cache
def adapter(cls: type) -> TypeAdapter:
    """pydantic's check of what a file gives for a class: an element, or another part of the file."""
    return TypeAdapter(cls)


@functools.cache
def forms_of(cls: type) -> dict[str, Form]:
    """What each argument of a class may hold in a file."""
    hints = {f.name: f.type for f in dataclasses.fields(cls)}
    if any(isinstance(x, str) for x in hints.values()):
        known = typing.get_type_hints(cls, include_extras=True)
        hints = {key: known[key] for key in hints}
    return {key: _form(hint) for key, hint in hints.items()}


def _evaluate_annotations(cls: type) -> None:
    """Annotations as objects, once for all: nothing is evaluated when a file is read."""
    own = vars(cls).get("__annotations__", {})
    with contextlib.suppress(NameError):  # a class inside a function may name what only that function knows
        known = typing.get_type_hints(cls, include_extras=True)
        cls.__annotations__ = {key: known[key] for key in own}


def _form(hint: Any) -> Form:
    """The form in an annotation; of `Vector | None` that of `Vector`."""
    found = [x for part in (hint, *getattr(hint, "__args__", ())) for x in getattr(part, "__metadata__", ())]
    return next((x for x in found if isinstance(x, Form)), ANYTHING)


_evaluate_annotations(Element)
for _field in Element.__dataclass_fields__.values():  # decorated before: its fields still name their types
    _field.type = Element.__annotations__[_field.name]


class AbstractJoint(Element, abstract=True):
    """Anything that adds constraint rows: joints, wheels, drivers, couplings, rows.

    Its rows are a function of two marker frames, registered for its class in `systems/_constraints.py`; a class of your
    own brings them with it as `rows_in`.
    """

    section = "joints"
    title = "Joint"
    spaces: ClassVar[tuple[str, ...]] = ("plane", "space")
    drives: ClassVar[bool] = False  # it prescribes a motion in time
    has_effort: ClassVar[bool] = False  # it prescribes one number: its effort can be measured
    own_rows: ClassVar[bool] = False  # its rows are a person's functions of bodies, without a joint frame
    assumption: ClassVar[str] = ""  # what `check` says of the force it transmits, as the end of a sentence
    # what `coordinates`, `links` and `look` answer where it is the same in the plane and in space
    free_coordinates: ClassVar[Mapping[str, JointCoordinate]] = {}
    tree_links: ClassVar[tuple[Link, ...] | None] = None
    drawn_as: ClassVar[Look] = Look()

    def coordinates(self, space: str) -> Mapping[str, JointCoordinate]:
        """The coordinates it leaves free, in order: angles and lengths (`angle_about`, `length_along`)."""
        return self.free_coordinates

    def links(self, space: str) -> tuple[Link, ...] | None:
        """What it is in a tree of joint coordinates; None: always rows."""
        return self.tree_links

    def link_values(self, links: tuple[Link, ...], d: np.ndarray, B: np.ndarray, numbers: Mapping) -> list:
        """The value of each link (of a ball: the rotation), from p_j − p_i along i's axes and the rotation of j."""
        values: list = []
        for link in links:
            if link.pitch:
                values.append(float(2 * np.pi * d[2] / numbers[link.pitch]))
            elif link.turns:
                values.append(float(np.arctan2(B[1, 0], B[0, 0])))
            else:
                values.append(float(d[link.axis]) if link.slides else B)
        return values

    def guides(self, space: str) -> bool:
        """Whether a rack may slide on it."""
        return False

    def signs(self, space: str) -> tuple[int, ...]:
        """For each of its holonomic rows the sign that its multiplier must have: +1 where it may only push j along the
        row, −1 where it may only pull; 0 for both. Empty: all rows do both."""
        return ()

    @property
    def impact_law(self) -> str:
        """Of a one-sided joint the law of its impacts."""
        return ""

    def bearing(self, space: str) -> Bearing | None:
        """Which reactions press where it rubs; None: it has no bearing."""
        return None

    def look(self, space: str) -> Look:
        """How it is drawn."""
        return self.drawn_as

    def look_of(self, placed: Constraint, space: str) -> Look:
        """The same for the joint as placed."""
        return self.look(space)

    def rows_in(self, space: str) -> Any:
        """The rows of a class of your own, as `systems.JointRows`; None for those registered in `systems/`."""
        return None


class Joint(AbstractJoint, abstract=True):
    """A joint between two places: bodies or markers i and j."""

    frame_axis: ClassVar[str | None] = None  # the argument that its frame stands on; without one it has world axes
    needs_point: ClassVar[bool] = True  # its point must be given: it is not that of a body

    i: Place = field(kw_only=False)
    j: Place = field(kw_only=False)

    def place(self, on: Placing) -> Constraint:
        return on.constraint(self.markers(on), self.numbers(on))

    def markers(self, on: Placing) -> tuple[Marker, Marker]:
        """Where it sits in its two bodies."""
        return on.joint_markers(self.frame_axis, needs_point=self.needs_point)

    def numbers(self, on: Placing) -> dict[str, Any]:
        """Its parameters."""
        return {}


class AbstractTouching(Joint, abstract=True):
    """A joint that may be one-sided: its first rows then only push (a cable: pulls), open and close again.

    `restitution`, from 0 to 1, is that of its impacts, and `impact` their law: "newton" (speeds) or "poisson"
    (impulses).
    """

    restitution: Number | None = None
    impact: Impact = "newton"
    pushes: ClassVar[int] = 1  # the sign of the multiplier of its first row
    bounces: ClassVar[bool] = True  # it may have a restitution
    by: ClassVar[str] = ""  # the argument that makes it one-sided

    def touches(self, space: str) -> bool:
        """Whether it is one-sided."""
        return True

    @property
    def impact_law(self):
        return self.impact

    def signs(self, space):
        return (self.pushes,) if self.touches(space) else ()

    def restituted(self, on: Placing) -> dict[str, Any]:
        """The number of its impacts, checked; none of a joint that is not one-sided."""
        if not self.touches(on.space):
            if self.restitution is not None or self.impact != "newton":
                key = "impact" if self.restitution is None else "restitution"
                on.wrong(f"{key} belongs to a one-sided joint; give {on.arg(self.by)} too.", key)
            return {}
        if self.impact not in IMPACTS:
            on.wrong(f"impact={self.impact!r} is unknown; use 'newton' or 'poisson'.", "impact")
        found = on.number("restitution", default=0.0, negative=False)
        if found > 1:
            on.wrong(f"restitution must be from 0 to 1, not {found:g}: an impact gives no energy.", "restitution")
        if found and not self.bounces:
            on.wrong(
                "restitution must be 0: it lands without slip, and such an impact could give energy.", "restitution"
            )
        return {"restitution": min(found, 1.0)}


class AbstractOneSided(AbstractTouching, abstract=True):
    """A joint that is one-sided if it says so."""

    one_sided: Flag = False
    by = "one_sided"

    def touches(self, space):
        return self.one_sided


class AbstractPlay(AbstractTouching, abstract=True):
    """A joint that may have play: with a `clearance` its pin moves in its hole, as far as that from the middle."""

    clearance: Positive | None = None
    by = "clearance"

    def touches(self, space):
        return self.clearance is not None

    def links(self, space):
        return None if self.touches(space) else self.free_links(space)

    def free_links(self, space: str) -> tuple[Link, ...] | None:
        """What it is in a tree without play."""
        return self.tree_links

    def signs(self, space):
        return (1,) * self.gaps(space) if self.touches(space) else ()

    def gaps(self, space: str) -> int:
        """How many places it can touch at."""
        return 1

    def numbers(self, on):
        found = self.restituted(on)
        return found | {"clearance": on.positive("clearance")} if self.touches(on.space) else found


class AbstractForce(Element, abstract=True):
    """Anything that applies forces without constraining. Its law is registered for its class in `systems/_build.py`;
    a class of your own brings it with it as `law_in`."""

    section = "forces"
    title = "Force"
    on_every_body: ClassVar[bool] = False  # it acts on all bodies alike, at their centres
    has_effort: ClassVar[bool] = False  # it acts on one coordinate: its effort can be measured
    has_power: ClassVar[bool] = True  # what it does is known by itself
    drawn_as: ClassVar[Look] = Look()

    def look(self, space: str) -> Look:
        """How it is drawn."""
        return self.drawn_as

    def law_in(self, space: str) -> Any:
        """The law of a class of your own, (t, frames, p) → [(force, torque) of each marker, world axes, at its point];
        None for those registered in `systems/`."""
        return None


class OnJoint(AbstractForce, abstract=True):
    """A force on a coordinate of a joint."""

    joint: JointName = field(kw_only=False)


def plain(value: Any) -> Any:
    """A value as plain data: names for things, lists for arrays; Python functions stay what they are."""
    if isinstance(value, Body | Marker | Placed | Input):
        return value.name
    if isinstance(value, Function):
        return value.data
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): plain(x) for k, x in value.items()}
    if isinstance(value, list | tuple):
        return [plain(x) for x in value]
    return value
