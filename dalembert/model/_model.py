"""1 · model: `Model`, the list of a person's statements about a machine, and the checks of a whole model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from dalembert._results import DalembertError, ModelError, did_you_mean
from dalembert.model import (
    _bodies,
    _controls,
    _drivers,
    _forces,
    _gears,
    _information,
    _joint_forces,
    _joints,
    _points,
)
from dalembert.model._arguments import title_mistake
from dalembert.model._controls import Control
from dalembert.model._element import ELEMENTS, SECTIONS, AbstractJoint, Cause, Element, Mistake, plain
from dalembert.model._frames import Body, Marker
from dalembert.model._information import Limit, Shape
from dalembert.model._measurements import AbstractMeasurement, MeasuredFunction, Measurement
from dalembert.model._placed import Constraint, Force, Input
from dalembert.model._placing import Placing
from dalembert.model._readings import reading_mistakes
from dalembert.model._solids import Solids

Space = Literal["plane", "space"]
P = ParamSpec("P")
T = TypeVar("T")


def _adds(cls: Callable[P, Any], made: type[T]) -> Callable[Concatenate[Model, P], T]:
    """A method of `Model` that adds an element of a class, with the arguments of that class."""
    element: Any = cls

    @functools.wraps(element.__init__)
    def add(self, *args, **kwargs):
        return self.add(made_of(element, *args, **kwargs))

    add.__name__, add.__qualname__, add.__doc__ = element.type, f"Model.{element.type}", element.__doc__
    add.element = element  # pyright: ignore[reportAttributeAccessIssue]
    return add  # pyright: ignore[reportReturnType]


def made_of(cls: type[Element], *args, **kwargs) -> Element:
    """An element of a class; an unknown argument gets a sentence."""
    known = cls.fields()
    if unknown := [k for k in kwargs if k not in known]:
        hint = did_you_mean(unknown[0], known)
        raise DalembertError(f"{cls.type}: '{unknown[0]}' is unknown; known are {', '.join(known)}.{hint}")
    return cls(*args, **kwargs)


class Model(Solids):
    """A mechanism: bodies, joints, drivers, wheels and forces, in the plane or in space.

    Nothing is refused while the model is being written: `validate` (which `da.build` calls) collects every
    mistake and raises them together. All points and axes given by `at` and `axis` are in the world frame, in
    the start configuration that the bodies' poses describe. Units: any consistent set (SI in all examples).
    Two models are equal when their `statements` are equal.

    **Arguments**: `name`; `space`, "plane" or "space"; `gravity`, a vector (default: none); `closing`, the names of
    joints that close loops: in joint coordinates they are rows, and the others form the tree. Without it `da.build`
    chooses.

        >>> import dalembert as da
        >>> model = da.Model("pendulum", gravity=(0, -9.81))
        >>> rod = model.body("rod", mass=2.0, inertia=0.1, position=(0.5, 0))
        >>> model.revolute("pin", model.ground, rod, at=(0, 0))
        revolute 'pin' between ground and rod
        >>> da.check(model).mobility
        1

    `model.revolute("pin", i, j, at=(0, 0))` is short for `model.add(Revolute("pin", i, j, at=(0, 0)))`, and so for all
    elements; a class of your own is added with `add` (docs/extending.md).
    """

    def __init__(
        self, name: str = "model", *, space: Space = "plane", gravity=None, closing: Sequence[str] | None = None
    ):
        self.name = name if isinstance(name, str) else repr(name)
        self.closing = tuple(closing or ())
        self.space: Space = space
        self.statements: list[Element] = []
        self.from_file = False  # messages then write arguments as a model file does
        self.recorded: list[Mistake] = []
        self.former: list[Body] = []  # bodies from before an item was changed: they stand for those of the same name
        self._outer: Element | None = None  # the statement that is being added
        if space not in ("plane", "space"):
            self.record(Mistake(f"space={space!r} is unknown; use 'plane' or 'space'."))
            self.space = "plane"
        if not isinstance(name, str) or not name.strip():
            self.record(Mistake("The model has no name: give it a non-empty text."))
        elif wrong := title_mistake(name):
            self.record(Mistake(f"The model's name {wrong}."))
        d = self.dimension
        self.gravity = np.zeros(d) if gravity is None else self._gravity(gravity)
        zero = np.zeros(1 if d == 2 else 3)
        self.ground = Body("ground", 0.0, zero, np.zeros(d), np.eye(d), np.zeros(d), zero, is_ground=True)
        self._clear()

    def _clear(self) -> None:
        self.bodies: dict[str, Body] = {}
        self.markers: dict[str, Marker] = {}
        self.constraints: dict[str, Constraint] = {}
        self.forces: dict[str, Force] = {}
        self.limits: dict[str, Limit] = {}
        self.shapes: dict[str, Shape] = {}
        self.measurements: dict[str, Measurement] = {}
        self.inputs: dict[str, Input] = {}
        self.controllers: dict[str, Control] = {}

    @property
    def tables(self) -> tuple[dict, ...]:
        """All that has a name."""
        return (
            self.bodies, self.markers, self.constraints, self.forces, self.limits, self.shapes, self.measurements,
            self.inputs, self.controllers,
        )  # fmt: skip

    @property
    def dimension(self) -> int:
        return 2 if self.space == "plane" else 3

    def _gravity(self, value) -> np.ndarray:
        d, where = self.dimension, "the plane" if self.space == "plane" else "space"
        try:
            found = np.asarray(value, float)
        except (TypeError, ValueError):
            found = np.zeros(0)
        if found.shape != (d,):
            self.record(Mistake(f"gravity must be {d} numbers (the model is in {where}), not {value!r}."))
            return np.zeros(d)
        if not np.all(np.isfinite(found)):
            self.record(Mistake(f"gravity must be finite, not {value!r}."))
            return np.zeros(d)
        return found

    # ---- adding and changing ---------------------------------------------------------------------------------

    def add(self, element: Element) -> Any:
        """Add an element; returns what it becomes: a body, a marker, a constraint, a force, …"""
        if not isinstance(element, Element):
            raise DalembertError(f"{element!r} is no element of a model; give one of the classes of da.model.")
        if self._outer is not None:  # an element that is made of others: only the outer one is a statement
            return element.place(Placing(self, element))
        self._outer = element
        self.statements.append(element)
        try:
            return element.place(Placing(self, element))
        finally:
            self._outer = None
            self.statements[-1] = _by_names(element)

    def record(self, mistake: Mistake) -> None:
        """Add a mistake to those that `validate` reports."""
        if self._outer is not None:
            mistake.element = self._outer
        self.recorded.append(mistake)

    def statement(self, name: str) -> Element:
        """What was stated under a name."""
        for element in self.statements:
            if element.name == name:
                return element
        hint = did_you_mean(str(name), [e.name for e in self.statements])
        raise DalembertError(f"Model '{self.name}' has no item '{name}'.{hint}")

    def remove(self, name: str) -> None:
        """Take an item out of the model. Refused, with the names, where others refer to it."""
        gone = self.statement(name)
        self._restate([s for s in self.statements if s is not gone], f"'{name}' cannot be removed")

    def replace(self, name: str, **arguments) -> None:
        """State an item anew with some of its arguments changed: `model.replace("pin", at=(0, 1))`.

        What was made of the model's items before (bodies, joints in variables) stays usable by name.
        """
        old = self.statement(name)
        known = type(old).fields()
        if unknown := [k for k in arguments if k not in known]:
            hint = did_you_mean(unknown[0], known)
            raise DalembertError(f"{old.type}: '{unknown[0]}' is unknown; known are {', '.join(known)}.{hint}")
        new = _by_names(dataclasses.replace(old, **arguments))
        self._restate([new if s is old else s for s in self.statements], f"'{name}' cannot be changed so")

    def _restate(self, statements: list[Element], refusal: str) -> None:
        before = set(map(str, self.mistakes()))
        other = Model(self.name, space=self.space, gravity=self.gravity, closing=self.closing)
        other.from_file = self.from_file
        for s in statements:
            other.add(s)
        wrong = [m for m in other.mistakes() if str(m) not in before]
        if wrong:
            raise DalembertError(f"{refusal}:\n" + "\n".join(f"  - {m}" for m in wrong))
        self.former += self.bodies.values()
        self._clear()
        self.recorded, self.statements = [m for m in self.recorded if m.element is None], []
        for s in statements:
            self.add(s)

    # ---- the elements ----------------------------------------------------------------------------------------

    body = _adds(_bodies.BodyEntry, Body)
    marker = _adds(_bodies.MarkerEntry, Marker)

    weld = _adds(_joints.Weld, Constraint)
    revolute = _adds(_joints.Revolute, Constraint)
    prismatic = _adds(_joints.Prismatic, Constraint)
    cylindrical = _adds(_joints.Cylindrical, Constraint)
    screw = _adds(_joints.Screw, Constraint)
    spherical = _adds(_joints.Spherical, Constraint)
    universal = _adds(_joints.Universal, Constraint)
    constant_velocity = _adds(_joints.ConstantVelocity, Constraint)
    planar = _adds(_joints.Planar, Constraint)
    pin_slot = _adds(_joints.PinSlot, Constraint)
    generic = _adds(_joints.Generic, Constraint)
    parallel_axes = _adds(_joints.ParallelAxes, Constraint)
    perpendicular_axes = _adds(_joints.PerpendicularAxes, Constraint)
    constant_angle = _adds(_joints.ConstantAngle, Constraint)
    orientation_lock = _adds(_joints.OrientationLock, Constraint)
    angle_lock = _adds(_joints.AngleLock, Constraint)

    point_on_line = _adds(_points.PointOnLine, Constraint)
    point_in_plane = _adds(_points.PointInPlane, Constraint)
    point_on_curve = _adds(_points.PointOnCurve, Constraint)
    contact = _adds(_points.Contact, Constraint)
    distance = _adds(_points.Distance, Constraint)
    revolute_spherical_rod = _adds(_points.RevoluteSphericalRod, Constraint)
    knife_edge = _adds(_points.KnifeEdge, Constraint)
    rolling_disc = _adds(_points.RollingDisc, Constraint)
    rolling_sphere = _adds(_points.RollingSphere, Constraint)
    no_slip = _adds(_points.NoSlip, Constraint)

    driver = _adds(_drivers.Driver, Constraint)
    speed_driver = _adds(_drivers.SpeedDriver, Constraint)
    point_driver = _adds(_drivers.PointDriver, Constraint)
    frame_driver = _adds(_drivers.FrameDriver, Constraint)
    distance_driver = _adds(_drivers.DistanceDriver, Constraint)
    coupling = _adds(_drivers.Coupling, Constraint)
    gear_ratio = _adds(_drivers.GearRatio, Constraint)
    gear = _adds(_gears.Gear, Constraint)
    belt = _adds(_gears.Belt, Constraint)
    rack_and_pinion = _adds(_gears.RackAndPinion, Constraint)
    holonomic = _adds(_drivers.Holonomic, Constraint)
    pfaffian = _adds(_drivers.Pfaffian, Constraint)

    force = _adds(_forces.PointForce, Force)
    torque = _adds(_forces.Torque, Force)
    central_gravity = _adds(_forces.CentralGravity, Force)
    drag = _adds(_forces.Drag, Force)
    force_law = _adds(_forces.ForceLaw, Force)
    spring_damper = _adds(_forces.SpringDamper, Force)
    bushing = _adds(_forces.Bushing, Force)
    beam = _adds(_forces.Beam, Force)
    joint_spring = _adds(_joint_forces.JointSpring, Force)
    armature = _adds(_joint_forces.Armature, Force)
    joint_force = _adds(_joint_forces.JointForce, Force)
    stop = _adds(_joint_forces.Stop, Force)
    friction = _adds(_joint_forces.Friction, Force)
    bearing_friction = _adds(_joint_forces.BearingFriction, Force)
    dry_friction = _adds(_joint_forces.DryFriction, Force)
    brake = _adds(_joint_forces.Brake, Force)
    pd_control = _adds(_joint_forces.PDControl, Force)
    motor = _adds(_joint_forces.Motor, Force)

    limit = _adds(_information.LimitEntry, Limit)
    shape = _adds(_information.ShapeEntry, Shape)

    input = _adds(_controls.InputEntry, Input)
    controller = _adds(_controls.Controller, Control)

    def measure(self, name: str, what: str, *args, **kwargs) -> Measurement:
        """Measure something in every motion, by name: `model.measure("tip", "point", rod, at=(1, 0))`.

        `what` is one of point, distance, angle, coordinate, reaction, effort, power, energy, formula, function; the
        rest are the arguments of its class in `da.model` (`MeasuredPoint`, `MeasuredDistance`, …).
        """
        known = [cls for cls in ELEMENTS.values() if issubclass(cls, AbstractMeasurement)]
        kinds = {cls.type: cls for cls in (*known, MeasuredFunction)}
        if what not in kinds:
            hint = did_you_mean(str(what), kinds)
            raise DalembertError(f"measure: '{what}' is unknown; known are {', '.join(kinds)}.{hint}")
        return self.add(made_of(kinds[what], name, *args, **kwargs))

    # ---- as a whole ------------------------------------------------------------------------------------------

    def __eq__(self, other) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        return self._content() == other._content()

    def _content(self) -> tuple:
        stated = {k: [(s.type, s.arguments) for s in part] for k, part in self.sections().items()}
        return self.name, self.space, plain(self.gravity), self.closing, stated

    def __hash__(self) -> int:
        return hash((self.name, self.space))

    def __repr__(self) -> str:
        parts = [_counted(len(self.bodies), "body", "bodies"), _counted(len(self.constraints), "joint", "joints")]
        parts += [_counted(len(self.forces), "force", "forces")] if self.forces else []
        where = "the plane" if self.space == "plane" else "space"
        return f"Model '{self.name}' in {where}: {', '.join(parts)}"

    def _repr_html_(self) -> str:
        from dalembert.view import html_table, html_words

        out = html_words(repr(self))
        rows = [
            (b.name, f"{b.mass:.6g}", ", ".join(f"{x + 0.0:.4g}" for x in b.position)) for b in self.bodies.values()
        ]
        out += html_table(("body", "mass", "at"), rows) if rows else ""
        for word, items in (("joint", self.constraints), ("force", self.forces)):
            named = [(x.name, x.type, ", ".join(b.name for b in x.bodies)) for x in items.values()]
            out += html_table((word, "kind", "on"), named) if named else ""
        return out

    def sections(self) -> dict[str, list[Element]]:
        """The statements, by section, in order."""
        return {section: [s for s in self.statements if s.section == section] for section in SECTIONS}

    def bearing_types(self) -> list[str]:
        """The joints whose own load can cause friction."""
        joints = [cls for cls in ELEMENTS.values() if issubclass(cls, AbstractJoint) and self.space in cls.spaces]
        return [cls.type for cls in joints if cls.bearing(cls.__new__(cls), self.space) is not None]

    # ---- validation ------------------------------------------------------------------------------------------

    def mistakes(self) -> list[Mistake]:
        """All that is wrong with the model, each a sentence with the name of the item and what to do."""
        found = list(self.recorded)
        by_name = {s.name: s for s in reversed(self.statements)}  # of two with one name the first is kept
        if not self.bodies:
            found.append(Mistake("There is no body. Add one with model.body(...).", cause=Cause.EMPTY))
        for name in self.closing:
            if name not in self.constraints:
                hint = did_you_mean(name, self.constraints)
                found.append(Mistake(f"closing: there is no joint '{name}'.{hint}"))
        # ground replaces an unknown name: mistakes that follow from that are not reported
        unknown = {m.element.name for m in self.recorded if m.element is not None and m.cause is Cause.MISSING}
        for c in self.constraints.values():
            if c.target is not None:  # those of the joint are reported
                continue
            stated = by_name.get(c.name)
            found += [Mistake(text, stated) for text in (self._constraint_mistakes(c) if c.name not in unknown else [])]
            found += [Mistake(text, stated, (), Cause.SPACE) for text in self._space_mistakes(c)]
        for f in self.forces.values():
            moving = [b for b in f.bodies if not b.is_ground]
            if f.markers and not moving and f.target is None and f.name not in unknown:
                found.append(Mistake(f"Force '{f.name}' acts only on ground; name a body.", by_name.get(f.name)))
        if not any(m.cause is Cause.MISSING for m in found):  # else a formula may name what could not be placed
            found += reading_mistakes(self)
        rules = sorted({f.rule for f in self.forces.values() if f.rule is not None})
        if len(rules) > 1:
            found.append(Mistake(f"Friction names the rules {' and '.join(rules)}; name one for all."))
        return found

    def validate(self) -> Model:
        """Raise `ModelError` with every mistake, or return the model."""
        found = self.mistakes()
        if found:
            raise ModelError(self.name, found)
        return self

    def _constraint_mistakes(self, c: Constraint) -> list[str]:
        what = "Driver" if c.element.drives else "Joint"
        found = []
        names = [b.name for b in c.bodies]
        for n in sorted({n for n in names if names.count(n) > 1}):
            found.append(f"{what} '{c.name}' connects body '{n}' to itself; it needs two different bodies.")
        if c.markers and all(b.is_ground for b in c.bodies) and len(set(names)) == len(names):
            found.append(f"{what} '{c.name}' holds only ground; name a body.")
        return found

    def _space_mistakes(self, c: Constraint) -> list[str]:
        if self.space in c.element.spaces:
            return []
        here, other = ("the plane", "space") if self.space == "plane" else ("space", "the plane")
        return [f"Joint '{c.name}': a {c.type} joint exists only in {other}; this model is in {here}."]


NAMED = (Body, Marker, Constraint, Force, Input)
"""What an element may be given in place of its name."""


def _by_names(element: Element) -> Element:
    """The element with names in place of the bodies, markers, joints, forces and inputs that it was given."""
    named = {}
    for f in dataclasses.fields(element):
        value = getattr(element, f.name)
        if isinstance(value, NAMED) and value.name:
            named[f.name] = value.name
        elif isinstance(value, list | tuple) and any(isinstance(x, NAMED) for x in value):
            named[f.name] = [x.name if isinstance(x, NAMED) else x for x in value]
        elif isinstance(value, Mapping) and any(isinstance(x, NAMED) for x in value):
            named[f.name] = {x.name if isinstance(x, NAMED) else x: y for x, y in value.items()}
    return dataclasses.replace(element, **named) if named else element


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
