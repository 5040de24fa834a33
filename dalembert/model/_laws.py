"""1 · model: functions of time and of variables as placed in a model: equal for equal statements, so that a compiler
meets the same function again; their numbers stand beside them, in p."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dalembert.model._functions import FormulaError, Shape, evaluate, names_in, parse

INPUT = "input "
"""Begins the keys under which the values of inputs stand in p; then comes the input's number."""


def is_input(key: str) -> bool:
    """Whether a number in p is the value of an input, which is no parameter of the element."""
    return key.startswith(INPUT)


def input_at(t, jet):
    """The value of an input at t from its value, rate and second rate at this t, so that derivatives by t are right:
    rows are differentiated twice."""
    import jax

    dt = t - jax.lax.stop_gradient(t)
    return jet[0] + dt * (jet[1] + 0.5 * dt * jet[2])


@dataclass(frozen=True)
class Timed:
    """A `Shape` as a function (t, *variables, p) whose numbers stand in p under a prefix, its inputs without one."""

    shape: Shape
    prefix: str = ""
    variables: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    def __call__(self, t, *values_and_p):
        *values, p = values_and_p
        own = under(self.prefix, p)
        known = dict(zip(self.variables, values, strict=True)) | {k: input_at(t, p[k]) for k in self.inputs}
        return self.shape(t, own, known)

    def corners(self, p) -> list:
        """Times at which it is not smooth, of one element or of several whose numbers are stacked."""
        return self.shape.corners(under(self.prefix, p))

    def data_span(self, p):
        """First and last time of its data; None of what has none."""
        return self.shape.data_span(under(self.prefix, p))


@dataclass(frozen=True)
class TimedVector:
    """Several functions (t, p) as one with a vector's components."""

    parts: tuple[Callable, ...]

    def __call__(self, t, p):
        import jax.numpy as jnp

        return jnp.stack([jnp.asarray(f(t, p), float) for f in self.parts])


@dataclass(frozen=True)
class Prefixed:
    """A function (t, p) whose numbers stand in p under a prefix."""

    function: Callable
    prefix: str

    def __call__(self, t, p):
        return self.function(t, under(self.prefix, p))

    def corners(self, p) -> list:
        return corners_in(self.function, under(self.prefix, p))


def corners_in(law, p) -> list:
    """Times at which the functions of time inside a law are not smooth; it says so itself, or its parts do."""
    if hasattr(law, "corners"):
        return law.corners(p)
    parts = law if isinstance(law, tuple) else ()
    if dataclasses.is_dataclass(law):
        parts = [getattr(law, f.name) for f in dataclasses.fields(law)]
    return [x for part in parts for x in corners_in(part, p)]


def under(prefix: str, p: Mapping) -> dict:
    """The numbers that stand in p under a prefix, without it; inputs have none."""
    return {k.removeprefix(prefix): x for k, x in p.items() if k.startswith(prefix) or is_input(k)}


def renamed_in(tree: tuple, names: Mapping[str, str]) -> tuple:
    """The tree of a formula with other names."""
    if tree[0] == "name":
        return ("name", names.get(tree[1], tree[1]))
    return tuple(renamed_in(x, names) if isinstance(x, tuple) else x for x in tree)


@dataclass(frozen=True)
class OfTime:
    """A function (t, p) where one of (t, variables, p) is expected."""

    function: Callable

    def __call__(self, t, *values_and_p):
        return self.function(t, values_and_p[-1])


@dataclass(frozen=True)
class Plain:
    """A user's function without parameters, given the `p` that all functions inside get."""

    function: Callable

    def __call__(self, *arguments):
        return self.function(*arguments[:-1])


def with_parameters(function, parameters):
    """A user's function as one that is given p."""
    return function if parameters else Plain(function)


def constant_load(t, p):
    return p["value"]


def constant_effort(t, *values_and_p):
    return values_and_p[-1]["effort"]


# ---- formulas of the bodies' coordinates and velocities -----------------------------------------------------------


def frame_variables(space: str, velocities: bool) -> tuple[str, ...]:
    """The quantities of a body in a formula, after the dot: world components at the centre of mass."""
    if space == "plane":
        return ("x", "y", "angle") + (("vx", "vy", "w") if velocities else ())
    return ("x", "y", "z") + (("vx", "vy", "vz", "wx", "wy", "wz") if velocities else ())


def _value(frame, which: str):
    if which == "angle":
        return frame.angle
    if which == "w":
        return frame.w
    array = frame.p if len(which) == 1 else (frame.v if which[0] == "v" else frame.w)
    return array["xyz".index(which[-1])]


def _by_number(tree: tuple, variables: Mapping[str, tuple[int, str]]) -> tuple:
    """The tree of a formula with "crank.x" written as "0.x"."""
    if tree[0] == "name":
        name = tree[1]
        return ("name", "{}.{}".format(*variables[name])) if name in variables else tree
    return tuple(_by_number(x, variables) if isinstance(x, tuple) else x for x in tree)


@dataclass(frozen=True)
class FrameFormulas:
    """Formulas as one function (t, frames, p) → a vector; equal for equal formulas."""

    trees: tuple[tuple, ...]
    variables: tuple[tuple[str, int, str], ...]  # name in the trees, number of the body, which of its numbers
    parameters: tuple[str, ...]
    inputs: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, texts, space: str, bodies: Sequence[str], numbers: Mapping, velocities: bool, inputs: Mapping[str, str]
    ) -> FrameFormulas:
        """`inputs` are those of the model, each with its key in p."""
        if not isinstance(texts, Sequence) or isinstance(texts, str) or not texts:
            raise FormulaError(f"give a formula or a list of formulas, not {texts!r}.")
        plain = [str(x) if isinstance(x, int | float) and not isinstance(x, bool) else x for x in texts]
        trees = tuple(parse(x, numbers) for x in plain)
        inputs = {k: x for k, x in inputs.items() if k not in numbers}
        used = sorted({inputs[n] for tree in trees for n in names_in(tree) if n in inputs})
        known = frame_variables(space, velocities)
        if taken := {f"{b}.{k}" for b in bodies for k in known}.intersection(numbers):
            raise FormulaError(f"parameter '{min(taken)}': the formula calls a variable by this word; choose another.")
        variables = {}
        for text, tree in zip(texts, trees, strict=True):
            for name in sorted(names_in(tree) - {"t"} - set(numbers) - set(inputs)):
                body, _, which = name.partition(".")
                if body not in bodies or which not in known:
                    raise FormulaError(
                        f"expression '{text}': '{name}' is unknown; it may use t, the parameters and "
                        f"{', '.join(f'{b}.{k}' for b in bodies[:2] for k in known)}{' …' if len(bodies) > 2 else ''}."
                    )
                variables[name] = (list(bodies).index(body), which)
        # bodies by number: formulas that differ in names alone are the same to a compiler
        trees = tuple(renamed_in(_by_number(tree, variables), inputs) for tree in trees)
        numbered = tuple(sorted((f"{k}.{which}", k, which) for k, which in variables.values()))
        return cls(trees, numbered, tuple(k for k in numbers), tuple(used))

    def __call__(self, t, frames, p):
        import jax.numpy as jnp

        known = {"t": t} | {k: p[k] for k in self.parameters}
        known |= {name: _value(frames[k], which) for name, k, which in self.variables}
        known |= {k: input_at(t, p[k]) for k in self.inputs}
        return jnp.stack([jnp.asarray(evaluate(tree, known), float) for tree in self.trees])


@dataclass(frozen=True)
class Shares:
    """Formulas for all bodies, split into (force, torque) per body."""

    formulas: FrameFormulas
    d: int
    size: int

    def __call__(self, t, frames, p):
        flat, d, size = self.formulas(t, frames, p), self.d, self.size
        return [(flat[k : k + d], flat[k + d : k + size]) for k in range(0, len(self.formulas.trees), size)]
