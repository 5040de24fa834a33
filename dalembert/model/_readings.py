"""1 · model: what formulas of measurements and controllers read, by name, and what is wrong with it.

Names are resolved when a model is complete: a formula may name what is stated after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dalembert._results import did_you_mean
from dalembert.model._element import Element, Mistake, plain
from dalembert.model._functions import evaluate, names_in, parse
from dalembert.model._laws import renamed_in
from dalembert.model._placed import Force

if TYPE_CHECKING:
    from dalembert.model._model import Model

RATES = ("", "_rate", "_acceleration")
"""What may stand after a joint's coordinate: pin.angle, pin.angle_rate, pin.angle_acceleration."""


@dataclass(frozen=True)
class ReadFormula:
    """A formula as a function (t, y, z, p) of what it reads, of a controller's own states, and of parameters; without
    names but those of parameters, so that equal formulas are the same to a compiler."""

    tree: tuple
    reads: int
    states: int
    parameters: tuple[str, ...]

    def __call__(self, t, y, z, p):
        known = {"t": t} | {k: p[k] for k in self.parameters}
        known |= {f"y {k}": y[k] for k in range(self.reads)} | {f"z {k}": z[k] for k in range(self.states)}
        return evaluate(self.tree, known)


@dataclass(frozen=True)
class Reads:
    """A function (t, y, z, p) with the names of what y holds; `path` is where it was stated."""

    function: Callable
    names: tuple[str, ...]
    path: tuple = ()
    size: int | None = None  # how many numbers it returns; None: one
    own: tuple[str, ...] = ()  # states and parameters of its element that it names

    @classmethod
    def formula(cls, text: str, numbers: Iterable[str], states: tuple[str, ...], path: tuple) -> Reads:
        """A formula; raises `FormulaError` where it cannot be read."""
        tree = parse(text, numbers)
        names = tuple(sorted(names_in(tree) - {"t", *numbers, *states}))
        words = {name: f"y {k}" for k, name in enumerate(names)} | {name: f"z {k}" for k, name in enumerate(states)}
        made = ReadFormula(renamed_in(tree, words), len(names), len(states), tuple(numbers))
        return cls(made, names, path, own=tuple(sorted(names_in(tree) & {*numbers, *states})))


@dataclass(frozen=True)
class Reading:
    """Something with a name that formulas can read: its level (`Channel`), and what it depends on by itself."""

    level: int
    depends: tuple[str, ...] = ()


def readings(model: Model) -> dict[str, Reading]:
    """All that formulas can read, by name. The level of a formula is that of what it reads."""
    found: dict[str, Reading] = {}
    for x in model.measurements.values():
        depends = tuple(n for f in x.functions if isinstance(f, Reads) for n in f.names)
        if isinstance(x.target, Force):  # its effort or power, by the inputs that it uses
            depends += tuple(name for name, u in model.inputs.items() if u.key in x.target.numbers)
        found |= {name: Reading(c.level, depends) for name, c in zip(x.names, x.channels, strict=True)}
    for joint in model.constraints.values():
        for name in joint.element.coordinates(model.space):
            found |= {f"{joint.name}.{name}{word}": Reading(level) for level, word in enumerate(RATES)}
    for c in model.controllers.values():
        found |= {f"{c.name}.{state}": Reading(0) for state in c.states}
    setters = _setters(model)
    for name in model.inputs:
        by = [c for c in setters.get(name, ()) if not c.sampled]
        found[name] = Reading(0, tuple(n for c in by for n in c.outputs[name].names))
    return found


def _setters(model: Model) -> dict[str, list]:
    setters: dict[str, list] = {}
    for c in model.controllers.values():
        for name in c.outputs:
            setters.setdefault(name, []).append(c)
    return setters


def level_of(name: str, known: Mapping[str, Reading]) -> int:
    """The highest level of what a reading depends on; of a loop that of its parts."""
    return max(known[n].level for n in _closure([name], known))


def _closure(names: Iterable[str], known: Mapping[str, Reading]) -> list[str]:
    """The names and all that they depend on."""
    out, left = [], list(names)
    while left:
        name = left.pop()
        if name in known and name not in out:
            out.append(name)
            left += known[name].depends
    return out


def _loop(name: str, known: Mapping[str, Reading]) -> list[str] | None:
    """A way from a reading back to itself."""
    ways = [[name]]
    seen = set()
    while ways:
        way = ways.pop(0)
        for following in known[way[-1]].depends if way[-1] in known else ():
            if following == name:
                return [*way, name]
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return None


# ---- mistakes --------------------------------------------------------------------------------------------------------


def reading_mistakes(model: Model) -> Iterator[Mistake]:
    """What is wrong with names that formulas read, with loops among them, and with who sets an input."""
    stated: dict[str, Element] = {s.name: s for s in reversed(model.statements)}
    known = readings(model)
    for x in model.measurements.values():
        for f in x.functions:
            if isinstance(f, Reads):
                yield from _unknown(f"Measurement '{x.name}'", f, known, stated[x.name])
    for c in model.controllers.values():
        for f in (*c.changes, *c.outputs.values()):
            yield from _unknown(f"Controller '{c.name}'", f, known, stated[c.name])
    yield from _loops(model, known, stated)
    yield from _setting(model, known, stated)


def _unknown(who: str, f: Reads, known: Mapping[str, Reading], element: Element) -> Iterator[Mistake]:
    for name in f.names:
        if name not in known:
            near = did_you_mean(name, known)
            text = f"{who}: '{name}' is unknown; it may read measurements, joint coordinates, inputs, states.{near}"
            yield Mistake(text, element, (f.path,))
            return
    for name in f.own:
        if name in known:
            text = f"{who}: '{name}' is its own state or parameter, and a measurement or input; rename one of them."
            yield Mistake(text, element, (f.path,))
            return


def _loops(model: Model, known: Mapping[str, Reading], stated: Mapping[str, Element]) -> Iterator[Mistake]:
    reported: set[str] = set()
    for name in (*(n for x in model.measurements.values() for n in x.names), *model.inputs):
        way = _loop(name, known) if name not in reported else None
        if way is None:
            continue
        reported |= set(way)
        steps = itertools.pairwise(way)
        by = [c for a, b in steps for c in _setters(model).get(a, ()) if not c.sampled and b in c.outputs[a].names]
        setter = next(iter(by), None)
        shown = " → ".join(way)
        if setter is None:
            text = f"Measurement '{name}' depends on itself ({shown}): an algebraic loop has no value; break it."
            yield Mistake(text, stated.get(name.partition(".")[0]), (("formula",),))
        else:
            text = (
                f"Controller '{setter.name}' reads what it sets ({shown}): an algebraic loop. Pass it through a state "
                "(rates), or sample it (sample_rate)."
            )
            yield Mistake(text, stated[setter.name], (("outputs",),))


def _setting(model: Model, known: Mapping[str, Reading], stated: Mapping[str, Element]) -> Iterator[Mistake]:
    setters = _setters(model)
    for name, by in setters.items():
        if len(by) > 1:
            text = f"Input '{name}' is set by two controllers, '{by[0].name}' and '{by[1].name}'; one may set it."
            yield Mistake(text, stated[by[1].name], (("outputs", name),))
        if "value" in stated[name].arguments:
            text = f"Input '{name}' has a value, and controller '{by[0].name}' sets it; leave one of them out."
            yield Mistake(text, stated[name], (("value",),))
        for c in _rows_with(model, name):
            text = (
                f"{c.element.title} '{c.name}' uses input '{name}', which controller '{by[0].name}' sets: its rows "
                "need two derivatives by time, which a controller does not give. Let it act by a force."
            )
            yield Mistake(text, stated.get(c.name))
    for name in model.inputs:
        if not is_smooth(plain(getattr(stated[name], "value", 0.0))):
            for c in _rows_with(model, name):
                yield Mistake(bent(c.element.title, c.name, name), stated[name], (("value",),))
    for c in model.controllers.values():
        parts = [(f"sets '{k}' by", f, 2 if c.sampled else 1) for k, f in c.outputs.items()]
        parts += [("changes a state by", f, 2) for f in c.changes]
        for words, f, most in parts:
            for name in f.names:
                level = level_of(name, known) if name in known and _loop(name, known) is None else 0
                if level > most:
                    yield Mistake(_too_high(c, words, name, level), stated[c.name], (f.path,))
                    break


def _rows_with(model: Model, name: str) -> list:
    """The constraints that use an input."""
    return [c for c in model.constraints.values() if model.inputs[name].key in c.numbers]


def bent(title: str, row: str, name: str) -> str:
    """The mistake of a driver whose input has no second derivative."""
    return (
        f"{title} '{row}' uses input '{name}', which is linear between its points: a driver needs two derivatives. "
        "Give it as da.functions.table(times, values), a spline."
    )


def is_smooth(data) -> bool:
    """Whether a function of time, as data, has two derivatives: a polyline has none where it bends."""
    if isinstance(data, Mapping):
        table = data.get("table")
        low = isinstance(table, Mapping) and table.get("degree", 3) < 3
        return not low and all(is_smooth(x) for x in data.values())
    return all(map(is_smooth, data)) if isinstance(data, list | tuple) else True


def _too_high(c, words: str, name: str, level: int) -> str:
    if level == 2:
        return (
            f"Controller '{c.name}' {words} '{name}', an acceleration, which depends on what it sets: an algebraic "
            "loop. Pass it through a state (rates), or sample it (sample_rate)."
        )
    return (
        f"Controller '{c.name}' {words} '{name}', which needs reactions: they are found after the motion. Read the "
        "effort of a force, or give a function of your own with needs='velocities'."
    )
