"""1 · model: joints and forces placed in a model, the links that a joint is in a tree, and how a thing looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dalembert.model._frames import Body, Marker, few

if TYPE_CHECKING:
    from dalembert.model._element import AbstractForce, AbstractJoint


class Link(NamedTuple):
    """One step of a joint in a tree: a turn about or a slide along an axis (0, 1, 2 for x, y, z of the joint's frame),
    a screw (a turn that also slides; `pitch` names the number of its advance in a turn), a ball, or, with none of
    these, a weld."""

    axis: int = 2
    turns: bool = False
    slides: bool = False
    ball: bool = False
    pitch: str = ""

    @property
    def freedom(self) -> int:
        """Velocities it has."""
        return 3 if self.ball else int(self.turns or self.slides)


def turn_about(axis: int = 2) -> Link:
    """A link that turns about an axis (0, 1, 2 for x, y, z) of the joint's frame."""
    return Link(axis, turns=True)


def slide_along(axis: int = 2) -> Link:
    """A link that slides along an axis (0, 1, 2 for x, y, z) of the joint's frame."""
    return Link(axis, slides=True)


WELD, BALL = Link(), Link(ball=True)
SCREW = Link(turns=True, pitch="pitch")
FREE = {
    "plane": (slide_along(0), slide_along(1), turn_about()),
    "space": (slide_along(0), slide_along(1), slide_along(2), BALL),
}
"""What carries a body that no joint carries."""


@dataclass(frozen=True)
class Look:
    """How a joint or a force is drawn, and what the picture around it has to know.

    `symbol` names its drawing in `view/_symbols.py`; without one nothing is drawn at its place.
    """

    symbol: str = ""
    rail: int | None = None  # the axis of marker i along which marker j slides
    slot: bool = False  # of such a one: a pin in a slot, not a sleeve on a rail
    sides: tuple[int, ...] = (0, 1)  # whose bodies reach to its points: 0 for i, 1 for j
    foot: bool = True  # at the ground it stands on a foot
    holds: bool = True  # it keeps a body from travelling away
    wheels: tuple[tuple[int, str], ...] = ()  # bodies that are wheels: which side, and the number that is its radius
    round: bool = False  # they are spheres
    inside: bool = False  # of two wheels one may be a ring around the other
    axis_of_i: bool = False  # both wheels turn about the z axis of marker i
    between: str = ""  # what is drawn from point to point: "rod", "spring"
    movable: bool = False  # it may be drawn anywhere along its z axis
    curve: bool = False  # its numbers are those of a spline fixed in i


@dataclass(frozen=True)
class Bearing:
    """The reaction components that form the normal load of a joint's friction: forces (across the axis; all of a ball),
    and torques, which load the two ends of a bearing with a length."""

    forces: tuple[str, ...]
    torques: tuple[str, ...] = ()
    ball: bool = False  # friction acts on the relative angular velocity, not on a coordinate


@dataclass(frozen=True, eq=False)
class Input:
    """An input as placed in a model: a number that forces, drivers and laws call by its name.

    Its value is a function (t, p) of time, unless a controller sets it.
    """

    name: str
    key: str  # where its value stands among the numbers of an element that uses it
    numbers: dict[str, np.ndarray]
    function: Callable
    unit: str = ""

    def __repr__(self) -> str:
        return f"input '{self.name}'{f' in {self.unit}' if self.unit else ''}"


@dataclass(frozen=True, eq=False, repr=False)
class Placed:
    """What a joint and a force have in common once they are placed in a model.

    `element` is what was stated; `numbers` are parameters that may be swept or differentiated; `functions` are static
    callables (a driver's motion, a user's residual or law).
    """

    name: str
    element: AbstractJoint | AbstractForce
    markers: tuple[Marker, ...]
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    functions: tuple[Callable, ...] = ()
    target: Constraint | None = None  # of a driver or a force: the joint on whose coordinate it acts
    coordinate: str = ""  # and which; none of a force on a ball: about all its axes

    @property
    def type(self) -> str:
        """The word of model files for what it is."""
        return self.element.type

    @property
    def bodies(self) -> tuple[Body, ...]:
        return tuple(m.body for m in self.markers)

    def __repr__(self) -> str:
        names = list(dict.fromkeys(b.name for b in self.bodies))
        where = f" between {' and '.join(names)}" if len(names) == 2 else f" on {', '.join(names)}" if names else ""
        return f"{self.element.label} '{self.name}'{where}"

    def _repr_html_(self) -> str:
        from dalembert.view import html_table, html_words

        sides = [
            ("ground" if m.body.is_ground else m.body.name, few(m.position), *(few(z) for z in m.rotation.T[2:]))
            for m in self.markers
        ]
        numbers = [(name, few(x)) for name, x in self.numbers.items()]
        out = html_words(repr(self))
        out += html_table(("on", "at, in its frame", "z axis")[: len(sides[0])], sides) if sides else ""
        return out + (html_table(("number", "value"), numbers) if numbers else "")


class Term(NamedTuple):
    """A term of a coupling: the joint, its coordinate, and which of the coupling's bodies are its i and j."""

    joint: Constraint
    coordinate: str
    pair: tuple[int, int]


@dataclass(frozen=True, eq=False, repr=False)
class Constraint(Placed):
    """A joint, driver, coupling or rows as placed in a model: between markers of two bodies, or over several bodies.

    A reaction is always the force and torque **on body j** at marker j; joint frame = marker i's axes.
    """

    element: AbstractJoint
    size: int = 1  # of rows whose number the element leaves open
    speeds: bool = False  # it closes speeds alone: full turns add up to anything
    terms: tuple[Term, ...] = ()  # of a coupling


@dataclass(frozen=True, eq=False, repr=False)
class Force(Placed):
    """An applied force as placed in a model."""

    element: AbstractForce
    rule: str | None = None  # for load-dependent friction: what picks the load where it is not unique
