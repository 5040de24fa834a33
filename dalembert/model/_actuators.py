"""1 · model: actuators by name: a model in which each of them is an input that a force takes its effort from.

What a name may be: an input, a driver of one number, an actuator on a joint or along a line, or a joint's coordinate.
What stands in place of a driver or a force is registered for its class in `ACTUATED`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dalembert._results import DalembertError, did_you_mean
from dalembert.model._controls import InputEntry
from dalembert.model._drivers import AbstractCoordinateDriver, DistanceDriver
from dalembert.model._element import Element
from dalembert.model._forces import SpringDamper
from dalembert.model._functions import FORMULA_WORDS
from dalembert.model._joint_forces import JointForce, Motor, PDControl
from dalembert.model._measurements import MeasuredEffort, MeasuredPower, MeasuredReaction
from dalembert.model._model import Model

NAMED = 12
"""Names that are listed in a message."""


@dataclass(frozen=True)
class Actuator:
    """An actuator: its name, the input of the actuated model that is its effort, the unit, and what it does."""

    name: str
    input: str
    unit: str
    meaning: str


def _on_joint(stated: Any, effort: str) -> Element:
    """A force on the coordinate that a driver or an actuator acts on."""
    return JointForce(stated.name, stated.joint, effort, coordinate=stated.coordinate)


def _along_line(stated: Any, effort: str) -> Element:
    """A force that pushes two points apart, as the driver of their distance does."""
    return SpringDamper(stated.name, stated.i, stated.j, at_i=stated.at_i, at_j=stated.at_j, pull=f"-{effort}")


def _pull(stated: Any, effort: str) -> Element:
    return dataclasses.replace(stated, pull=effort, parameters=None)


def _shaft(stated: Any, effort: str) -> Element:
    return dataclasses.replace(stated, torque=effort, voltage=None, torque_constant=None, resistance=None)


PUSHES = "pushes the coordinate towards larger values"
ACTUATED: dict[type[Element], tuple[Callable[[Any, str], Element], str]] = {
    AbstractCoordinateDriver: (_on_joint, PUSHES),
    JointForce: (_on_joint, PUSHES),
    PDControl: (_on_joint, PUSHES),
    Motor: (_shaft, "torque at the motor's shaft"),
    DistanceDriver: (_along_line, "pushes the two points apart"),
    SpringDamper: (_pull, "draws the two points together, besides its spring and damper"),
}
"""For each class what is stated in its place, with the name of the input, and what the effort then does."""


def _actuated(stated: Element) -> tuple[Callable[[Any, str], Element], str] | None:
    return next((ACTUATED[cls] for cls in type(stated).__mro__ if cls in ACTUATED), None)


def actuated(
    model: Model, names: Sequence[str], release: Sequence[str] | bool = ()
) -> tuple[Model, tuple[Actuator, ...]]:
    """The model with an input for the effort of each actuator, and what they are.

    Drivers that are actuators become forces on what they prescribed; those in `release` (True: all others) are left
    out. A model whose actuators are inputs already is returned as it is.
    """
    if isinstance(names, str):
        names = [names]
    for name in names:
        if not isinstance(name, str):
            raise DalembertError(f"actuators must be names of '{model.name}', such as {_listed(_known(model))}.")
    if twice := sorted({n for n in names if list(names).count(n) > 1}):
        raise DalembertError(f"Actuator '{twice[0]}' is given twice.")
    model.validate()
    taken = {name for table in model.tables for name in table}
    found, instead, more = [], {}, []
    for name in names:
        if name in model.inputs:
            found.append(_of_input(model, name))
            continue
        stated = next((s for s in model.statements if s.name == name and _actuated(s) is not None), None)
        effort = _free_name(f"effort_{name}", taken)
        unit = ""
        if stated is not None:
            replacement, meaning = _actuated(stated)  # pyright: ignore[reportGeneralTypeIssues]
            instead[name] = [InputEntry(effort, unit=(unit := _unit(model, name))), replacement(stated, effort)]
            found.append(Actuator(name, effort, unit, meaning))
            continue
        joint, which = _coordinate(model, name)
        driving = [c.name for c in model.constraints.values() if _drives(c, joint, which)]
        instead |= {driver: [] for driver in driving}  # the actuator takes its place
        unit = model.constraints[joint].element.coordinates(model.space)[which].effort_unit
        force = _free_name(f"{joint} actuator", taken, spaces=True)
        more += [InputEntry(effort, unit=unit), JointForce(force, joint, effort, coordinate=which)]
        found.append(Actuator(f"{joint}.{which}", effort, unit, PUSHES))
    if twice := sorted({a.name for a in found if [b.name for b in found].count(a.name) > 1}):
        raise DalembertError(f"Actuator '{twice[0]}' is given twice.")
    instead |= {name: [] for name in released(model, release, instead)}
    return (model if not instead and not more else _restated(model, instead, more)), tuple(found)


def drivers_in(model: Model) -> list[str]:
    """The drivers of a model."""
    return [c.name for c in model.constraints.values() if c.element.drives]


def released(model: Model, release: Sequence[str] | bool, others: Any = ()) -> list[str]:
    """The drivers that `release` names."""
    known = [d for d in drivers_in(model) if d not in others]
    if release is True:
        return known
    if release is False or release is None:
        return []
    names = [release] if isinstance(release, str) else list(release)
    for name in names:
        if name not in known:
            why = " is an actuator" if name in others else " is no driver of it"
            there = f"its drivers are {_listed(known)}" if known else "it has no other drivers"
            raise DalembertError(f"release: '{name}'{why} in '{model.name}'; {there}.{did_you_mean(str(name), known)}")
    return names


def _of_input(model: Model, name: str) -> Actuator:
    setter = next((c.name for c in model.controllers.values() if name in c.outputs), None)
    if setter is not None:
        raise DalembertError(
            f"Input '{name}' of '{model.name}' is set by controller '{setter}'; remove the controller to ask what it "
            "would have to be."
        )
    return Actuator(name, name, model.inputs[name].unit, "input of the model")


def _coordinate(model: Model, name: str) -> tuple[str, str]:
    """Joint and coordinate that a name means, or an error with the actuators that there could be."""
    joint, _, which = name.rpartition(".")
    for key, word in ((joint, which), (name, None)):
        c = model.constraints.get(key)
        coordinates = {} if c is None else c.element.coordinates(model.space)
        if word in coordinates:
            return key, str(word)
        if word is None and len(coordinates) == 1:
            return key, next(iter(coordinates))
        if c is not None and coordinates and word is None:
            raise DalembertError(
                f"Joint '{name}' of '{model.name}' has several coordinates; name one: "
                f"{_listed([f'{name}.{x}' for x in coordinates])}."
            )
    known = _known(model)
    if name in model.forces or name in model.constraints:
        what = "prescribes several numbers" if name in drivers_in(model) else "has no effort of one number"
        raise DalembertError(
            f"'{name}' of '{model.name}' {what} and cannot be an actuator; name an input (model.input) that it uses, "
            f"or one of {_listed(known)}."
        )
    there = f"there are {_listed(known)}" if known else "it has neither drivers, joint coordinates nor inputs"
    hint = did_you_mean(name, [*known, *model.constraints])
    raise DalembertError(f"'{model.name}' has no actuator '{name}'; {there}.{hint}")


def _known(model: Model) -> list[str]:
    """All names that actuators may have: inputs, drivers and actuators, coordinates of joints."""
    free = [
        f"{c.name}.{x}" for c in model.constraints.values() if c.target is None
        for x in c.element.coordinates(model.space)
    ]  # fmt: skip
    return [*model.inputs, *(s.name for s in model.statements if _actuated(s) is not None), *free]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{n}'" for n in names[:NAMED]) + (" …" if len(names) > NAMED else "")


def _drives(c: Any, joint: str, which: str) -> bool:
    return c.element.drives and c.target is not None and (c.target.name, c.coordinate) == (joint, which)


def _unit(model: Model, name: str) -> str:
    placed = model.constraints.get(name) or model.forces[name]
    if isinstance(placed.element, Motor):
        return "N m"
    return "N m" if placed.is_angle else "N"


def _free_name(name: str, taken: set[str], *, spaces: bool = False) -> str:
    """A name that is not taken yet; one that formulas can use unless it may hold `spaces`."""
    name = name if spaces else re.sub(r"\W", "_", name, flags=re.ASCII)
    word, k = name, 1
    while word in taken or word in FORMULA_WORDS:
        k += 1
        word = f"{name}_{k}"
    taken.add(word)
    return word


ABOUT = (MeasuredEffort, MeasuredPower, MeasuredReaction)
"""Measurements of an item: they go with it."""


def _restated(model: Model, instead: dict[str, list[Element]], more: list[Element]) -> Model:
    """A copy of a model with other statements in place of some, and more at its end."""
    made = Model(model.name, space=model.space, gravity=model.gravity, closing=model.closing)
    gone = {name for name, others in instead.items() if not others}
    for s in model.statements:
        about: Any = getattr(s, "of", None) or getattr(s, "joint", None)
        if isinstance(s, ABOUT) and about in gone:
            continue
        for each in instead.get(s.name, [s]):
            made.add(each)
    for s in more:
        made.add(s)
    return made.validate()
