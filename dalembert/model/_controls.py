"""1 · model: inputs, which forces, drivers and laws call by name, and controllers, which set them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.model._arguments import Motion, NamedFormulas, Parameters, Positive, Readings, Unit
from dalembert.model._element import Cause, Element
from dalembert.model._functions import FORMULA_WORDS, FormulaError, Function, function_of
from dalembert.model._laws import INPUT, Plain, Timed, with_parameters
from dalembert.model._placed import Input
from dalembert.model._placing import Placing
from dalembert.model._readings import Reads


class InputEntry(Element):
    """An input: a number, by name, that forces, torques, drivers, springs and laws use in place of their values.

    `value` is a number, a formula of t, a function of time or data (`da.functions.table`), or a Python function of t;
    `da.simulate(…, inputs={"u": …})` gives another one; a controller sets it from measurements. In an element's formula
    it is called by its name: `model.force("push", body, ("u", 0))`, `pull="-k*u"`. A driver needs a function with two
    derivatives.
    """

    type = "input"
    section = "inputs"
    title = "Input"

    value: Motion = field(default=0.0, kw_only=False)
    unit: Unit = ""

    def place(self, on: Placing) -> Input:
        name, unit = self.name, self.unit
        if isinstance(name, str) and (not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in FORMULA_WORDS):
            on.wrong("formulas cannot call it so; choose a word of letters and digits.", "name", cause=Cause.NAME)
        if not isinstance(unit, str):
            on.wrong(f"unit must be a text, not {unit!r}.", "unit")
            unit = ""
        numbers, function = on.motion("value")
        if any(k.startswith(INPUT) for k in numbers):
            on.wrong("the value of an input cannot be another input; use that one.", "value")
            numbers, function = on.motion("value", 0.0)
        numbers = {k: np.asarray(x, float) for k, x in numbers.items()}
        return on.register(on.model.inputs, Input(name, f"{INPUT}{len(on.model.inputs)}", numbers, function, unit))


def input_function(name: str, value: Any) -> tuple[dict[str, np.ndarray], Callable, Any]:
    """Numbers, a function (t, p) and plain data of what an input is given: a number, a formula of t, a function of
    time, a Python function of t, or times and values, between which it is linear."""
    if isinstance(value, tuple) and len(value) == 2 and all(np.ndim(x) == 1 for x in value):
        value = {"table": {"times": list(map(float, value[0])), "values": list(map(float, value[1])), "degree": 1}}
    if callable(value) and not isinstance(value, Function):
        return {}, Plain(value), value
    try:
        found = function_of(value)
    except FormulaError as error:
        raise DalembertError(f"Input '{name}': {error}") from None
    return {k: np.asarray(x, float) for k, x in found.numbers.items()}, Timed(found.shape), found.data


@dataclass(frozen=True, eq=False, repr=False)
class Control:
    """A controller as placed in a model; its functions are `Reads`, in the order of its states and outputs."""

    name: str
    element: Controller
    states: dict[str, float]
    scales: dict[str, float | None]
    changes: tuple[Reads, ...]  # the rate of each state, or its next value
    outputs: dict[str, Reads]  # by the inputs they set
    numbers: dict[str, np.ndarray]
    sample_rate: float | None

    @property
    def sampled(self) -> bool:
        return self.sample_rate is not None

    def __repr__(self) -> str:
        how = f"sampled at {self.sample_rate:g} Hz" if self.sample_rate is not None else "continuous"
        return f"controller '{self.name}' ({how}) of {', '.join(self.outputs or self.states)}"


class Controller(Element):
    """A controller: sets inputs from measurements, with states of its own; continuous, or sampled at a rate.

    `outputs` gives each input that it sets as a formula of t, measurements ("tip.vx"), joint coordinates ("pin.angle",
    "pin.angle_rate"), inputs, its own states, other controllers' states ("motor.i") and its `parameters`. `states` are
    names with initial values; `scales` their typical sizes (default 1), for the error control. Continuous: `rates`
    gives the derivative of each state. Sampled (`sample_rate`, in Hz): at each tick, the first at the start of the
    run, the outputs are computed and held until the next, then `updates` gives the next value of each state.
    Controllers that tick together act in the order in which they are stated. Instead of a formula a Python function
    (t, y, z[, p]) by jax.numpy may be given, y what `reads` names, z the states; `rates` and `updates` may be one
    function for all states. Without `outputs` it only keeps its states: a filter, or work that is counted up.

        >>> import dalembert as da
        >>> model = da.Model("cart")
        >>> cart = model.body("cart", mass=2.0, inertia=1.0)
        >>> slide = model.prismatic("slide", model.ground, cart, at=(0, 0), axis=(1, 0))
        >>> model.input("u", unit="N")
        input 'u' in N
        >>> push = model.joint_force("push", slide, "u")
        >>> gains = {"goal": 0.5, "kp": 40.0, "kd": 20.0, "ki": 10.0}
        >>> model.controller(
        ...     "pid", states={"sum": 0.0}, rates={"sum": "goal - slide.displacement"}, parameters=gains,
        ...     outputs={"u": "kp*(goal - slide.displacement) - kd*slide.displacement_rate + ki*sum"})
        controller 'pid' (continuous) of u
    """

    section = "controllers"
    title = "Controller"

    outputs: NamedFormulas | None = None
    states: Parameters | None = None
    rates: NamedFormulas | None = None
    updates: NamedFormulas | None = None
    sample_rate: Positive | None = None
    reads: Readings | None = None
    scales: Parameters | None = None
    parameters: Parameters | None = None

    def place(self, on: Placing) -> Control:
        numbers, states = on.parameters(), self._states(on, "states")
        if taken := sorted(numbers.keys() & states.keys()):
            on.wrong(f"'{taken[0]}' is a state and a parameter; rename one of them.", ("states", taken[0]))
        sampled = self.sample_rate is not None
        rate = on.positive("sample_rate") if sampled else None
        given, wrong = ("updates", "rates") if sampled else ("rates", "updates")
        if on.given(wrong) is not None:
            text = "a sampled controller has updates, the next values of its states, not rates." if sampled else (
                "updates are those of a sampled controller: give sample_rate; a continuous one has rates.")  # fmt: skip
            on.wrong(text, wrong)
        readings = self._readings(on)
        changes = self._changes(on, given, states, numbers, readings)
        outputs = {}
        if self.outputs is None and not states:
            on.wrong("give outputs, the inputs that it sets, or states that it keeps.", "outputs")
        elif self.outputs is not None and (not isinstance(self.outputs, Mapping) or not self.outputs):
            on.wrong(f"outputs must be names of inputs with formulas, not {self.outputs!r}.", "outputs")
        for name, value in self.outputs.items() if isinstance(self.outputs, Mapping) else ():
            key = getattr(name, "name", name)
            if key not in on.model.inputs:
                on.missing(("outputs", key), "input", key, on.model.inputs)
                continue
            made = self._reads(on, ("outputs", key), value, states, numbers, readings)
            if made is not None:
                outputs[key] = made
        scales = {k: float(v) for k, v in self._states(on, "scales").items()}
        if unknown := sorted(scales.keys() - states.keys()):
            on.wrong(f"scales: there is no state '{unknown[0]}'.", ("scales", unknown[0]))
        if wrong := sorted(k for k, x in scales.items() if x <= 0):
            on.wrong(f"scales: that of '{wrong[0]}' must be greater than zero.", ("scales", wrong[0]))
        every = {k: scales.get(k) for k in states}
        return on.register(
            on.model.controllers, Control(self.name, self, states, every, changes, outputs, numbers, rate)
        )

    def _states(self, on: Placing, key: str) -> dict[str, float]:
        found = {}
        for name, value in on.parameters(key).items():
            if np.ndim(value):
                on.wrong(f"{key}: '{name}' must be one number.", (key, name))
            elif not re.fullmatch(r"[A-Za-z_]\w*", str(name), re.ASCII) or name in FORMULA_WORDS:
                on.wrong(f"{key}: formulas cannot call '{name}' so; choose a word of letters and digits.", (key, name))
            else:
                found[name] = float(value)
        return found

    def _readings(self, on: Placing) -> tuple[str, ...]:
        if self.reads is None:
            return ()
        if isinstance(self.reads, str) or not all(isinstance(x, str) for x in self.reads):
            on.wrong(f"reads must be a list of names of measurements, not {self.reads!r}.", "reads")
            return ()
        return tuple(self.reads)

    def _changes(self, on: Placing, key: str, states, numbers, readings) -> tuple[Reads, ...]:
        value = on.given(key)
        if value is None:
            other = on.given("rates" if key == "updates" else "updates")
            if states and other is None:  # else that is reported
                on.wrong(f"give {on.arg(key)} for its states {', '.join(states)}.", "states")
            return ()
        if callable(value):
            return (Reads(with_parameters(value, self.parameters), readings, ("reads",), len(states)),)
        if not isinstance(value, Mapping):
            on.wrong(f"{key} must be names of states with formulas, or a function, not {value!r}.", key)
            return ()
        for name in value:
            if name not in states:
                on.wrong(f"{key}: there is no state '{name}'.{did_you_mean(str(name), states)}", (key, name))
        made = []
        for name in states:
            if name not in value:
                on.wrong(f"{key}: that of state '{name}' is missing.", key)
                continue
            one = self._reads(on, (key, name), value[name], states, numbers, readings)
            made += [] if one is None else [one]
        return tuple(made)

    def _reads(self, on: Placing, path, value: Any, states, numbers, readings) -> Reads | None:
        if callable(value):
            return Reads(with_parameters(value, self.parameters), readings, ("reads",))
        return on.reading_formula(path, value, numbers, tuple(states))
