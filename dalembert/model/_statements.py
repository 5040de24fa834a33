"""1 · model: the recorded builder calls of a model.

Each method of `Model` that adds something is marked `@element`. Its call is recorded as a `Statement`: the method's
name and its arguments as plain data. Two models are equal when their statements are; a model file is the list of
statements, and the arguments' annotations (the names below) are its schema.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.model._elements import Constraint, Force
from dalembert.model._frames import Body, Marker
from dalembert.model._functions import Function as TimeFunction

# What an argument is. Each name is an entry of the file schema; the checks themselves are in `_checks.py`.
Name = str
Place = Body | Marker | str  # a body or a marker, or its name
Places = Sequence[Place]
JointName = Constraint | str
Wheel = Constraint | Body | Marker | str  # the joint a wheel turns on; or the wheel, or a marker at its centre
Coordinate = str
Number = float
Positive = float
Whole = int
Flag = bool
Vector = Sequence[float] | np.ndarray  # 2 numbers in the plane, 3 in space
Vectors = Sequence[Vector] | np.ndarray
Quaternion = Sequence[float] | np.ndarray
Matrix = Sequence[Sequence[float]] | np.ndarray
Inertia = float | Sequence[float] | Matrix
Angular = float | Sequence[float] | np.ndarray  # a number in the plane, 3 numbers in space
Motion = float | str | Mapping | TimeFunction | Callable  # a function of time
Motions = Motion | Sequence[Motion]  # one per component
Formula = str | Mapping | TimeFunction | Callable  # of the variables that its element names
Formulas = str | Sequence[str] | Callable
Loads = Callable | Sequence[Mapping]
Parameters = Mapping[str, Any]
Terms = Sequence[Mapping | Sequence]
Directions = Sequence[str]
Sizes = Sequence[float] | np.ndarray
Colour = Sequence[float] | np.ndarray  # red, green, blue, opacity
MeshFile = str  # in the model file's folder
Rule = str

LONGEST_NAME = 100
LONGEST_TITLE = 300  # of the model's own name


def name_mistake(name: str) -> str | None:
    """What is wrong with the form of a name, as the end of a sentence; None if nothing is."""
    if len(name) > LONGEST_NAME or name != name.strip() or not name.isprintable():
        return f"must be one line of at most {LONGEST_NAME} characters, without spaces at its ends"
    return None


def title_mistake(name: str) -> str | None:
    """The same for a model's own name."""
    if len(name) > LONGEST_TITLE or not name.isprintable():
        return f"must be one line of at most {LONGEST_TITLE} characters"
    return None


SECTIONS = ("bodies", "markers", "joints", "forces", "limits", "shapes")
TYPED = ("joints", "forces")  # the sections with several kinds of elements


@dataclass(frozen=True)
class Statement:
    """One builder call of a model: the section it belongs to, its kind (the method's name) and its arguments."""

    section: str
    kind: str
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.arguments.get("name", ""))


class Mistake(str):
    """A message about a mistake, and the statement it is about."""

    statement: Statement | None

    def __new__(cls, text: str, statement: Statement | None = None):
        made = super().__new__(cls, text)
        made.statement = statement
        return made


@dataclass(frozen=True)
class Element:
    """A kind of statement: its section, its arguments as annotated, its first line of documentation."""

    section: str
    kind: str
    parameters: dict[str, inspect.Parameter]
    summary: str


ELEMENTS: dict[str, Element] = {}
"""All kinds of statements by name; the model file schema is made from this."""


def element(section: str):
    """Mark a method of `Model` that adds something."""

    def mark(method):
        signature = inspect.signature(method)
        parameters = {k: p for k, p in signature.parameters.items() if k != "self"}
        summary = (inspect.getdoc(method) or "").split("\n")[0]
        ELEMENTS[method.__name__] = Element(section, method.__name__, parameters, summary)

        @functools.wraps(method)
        def recorded(self, *args, **kwargs):
            if self._statement is not None:  # an element that is made of others: only the outer one is recorded
                return method(self, *args, **kwargs)
            if unknown := [k for k in kwargs if k not in parameters]:
                hint = did_you_mean(unknown[0], parameters)
                known = ", ".join(parameters)
                raise DalembertError(f"{method.__name__}: '{unknown[0]}' is unknown; known are {known}.{hint}")
            bound = signature.bind(self, *args, **kwargs).arguments
            arguments = {k: plain(x) for k, x in bound.items() if k != "self" and x is not None}
            self._statement = Statement(section, method.__name__, arguments)
            self.statements.append(self._statement)
            try:
                return method(self, *args, **kwargs)
            finally:
                self._statement = None

        return recorded

    return mark


def plain(value: Any) -> Any:
    """A value as plain data: names for things, lists for arrays; Python functions stay what they are."""
    if isinstance(value, Body | Marker | Constraint | Force):
        return value.name
    if isinstance(value, TimeFunction):
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
