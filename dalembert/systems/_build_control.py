"""2 · systems: from a model to measurements, inputs and controllers: names become numbers of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dalembert.model import Model, Reads, level_of, readings
from dalembert.systems._bodies import JointView
from dalembert.systems._control import Control, Controller, Part, Source, refuse_failing
from dalembert.systems._measure import Measure, law_of_measurement, numbered


def controls_of(
    model: Model, index: dict[str, int], joints: Sequence[JointView], placed: Callable
) -> tuple[tuple[Measure, ...], Control]:
    """The measurements of a model, and its inputs and controllers; `placed` gives the numbers of two markers."""
    coordinates = [f"{j.name}.{name}" for j in joints for name, *_ in j.coordinates]
    states = []
    for c in model.controllers.values():
        states += [f"{c.name}.{k}" for k in (*c.states, *(c.outputs if c.sampled else ()))]
    names = [x.names for x in model.measurements.values()]
    number = numbered(names, coordinates, states, tuple(model.inputs))
    measures, known = [], readings(model) if model.measurements else {}
    for x in model.measurements.values():
        blocks = tuple(index[b.name] for b in x.bodies)
        target = "" if x.target is None else x.target.name
        numbers: dict = dict(x.numbers) | (placed(model.space, x.markers) if len(x.markers) == 2 and not target else {})
        law = law_of_measurement(x, model.space, number.__getitem__)
        channels = tuple(c._replace(level=level_of(name, known)) for name, c in zip(x.names, x.channels, strict=True))
        arrays: dict = {k: np.asarray(value, float) for k, value in numbers.items()}  # a batch has a row of each
        measures.append(Measure(x.name, channels, x.groups, law, blocks, arrays, target))
    return tuple(measures), _control(model, number)


def start_of(model: Model) -> np.ndarray:
    """The states of all controllers at the start, with zeros for outputs that are held: the first tick sets them."""
    parts = [[*c.states.values(), *[0.0] * (len(c.outputs) if c.sampled else 0)] for c in model.controllers.values()]
    return np.array([x for part in parts for x in part], float)


def _control(model: Model, number: dict[str, int]) -> Control:
    inputs = list(model.inputs)
    controllers, setters = [], {}

    def part(reads: Reads) -> Part:
        return Part(reads.function, tuple(number[name] for name in reads.names), reads.size)

    for k, c in enumerate(model.controllers.values()):
        sets = tuple(inputs.index(name) for name in c.outputs)
        for f in (*c.changes, *c.outputs.values()):
            known = 0.0, np.zeros(len(f.names)), np.zeros(len(c.states)), c.numbers
            refuse_failing(f"Controller '{c.name}'", f.function, *known, size=1 if f.size is None else f.size)
        setters |= {which: (k, output) for output, which in enumerate(sets)}
        controllers.append(
            Controller(
                name=c.name,
                states=tuple(c.states),
                changes=tuple(map(part, c.changes)),
                outputs=tuple(map(part, c.outputs.values())),
                sets=sets,
                p=dict(c.numbers),
                scales=np.array([1.0 if x is None else x for x in c.scales.values()]),
                rate=None if c.sample_rate is None else np.asarray(c.sample_rate, float),
            )
        )
    sources = []
    for k, x in enumerate(model.inputs.values()):
        refuse_failing(f"Input '{x.name}'", x.function, 0.0, x.numbers)
        sources.append(Source(x.name, x.unit, x.function, dict(x.numbers), setters.get(k)))
    return Control(tuple(sources), tuple(controllers), np.zeros(()))
