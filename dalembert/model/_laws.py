"""1 · model: functions of time and of variables as placed in a model: equal for equal statements, so that a compiler
meets the same function again; their numbers stand beside them, in p."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dalembert.model._functions import FormulaError, Shape, evaluate, names_in, parse


@dataclass(frozen=True)
class Timed:
    """A `Shape` as a function (t, *variables, p) whose numbers stand in p under a prefix."""

    shape: Shape
    prefix: str = ""
    variables: tuple[str, ...] = ()

    def __call__(self, t, *values_and_p):
        *values, p = values_and_p
        own = under(self.prefix, p)
        return self.shape(t, own, dict(zip(self.variables, values, strict=True)))


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


def under(prefix: str, p: Mapping) -> dict:
    """The numbers that stand in p under a prefix, without it."""
    return {k.removeprefix(prefix): x for k, x in p.items() if k.startswith(prefix)}


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

    @classmethod
    def read(cls, texts, space: str, bodies: Sequence[str], numbers: Mapping, velocities: bool) -> FrameFormulas:
        if not isinstance(texts, Sequence) or isinstance(texts, str) or not texts:
            raise FormulaError(f"give a formula or a list of formulas, not {texts!r}.")
        plain = [str(x) if isinstance(x, int | float) and not isinstance(x, bool) else x for x in texts]
        trees = tuple(parse(x, numbers) for x in plain)
        known = frame_variables(space, velocities)
        if taken := {f"{b}.{k}" for b in bodies for k in known}.intersection(numbers):
            raise FormulaError(f"parameter '{min(taken)}': the formula calls a variable by this word; choose another.")
        variables = {}
        for text, tree in zip(texts, trees, strict=True):
            for name in sorted(names_in(tree) - {"t"} - set(numbers)):
                body, _, which = name.partition(".")
                if body not in bodies or which not in known:
                    raise FormulaError(
                        f"expression '{text}': '{name}' is unknown; it may use t, the parameters and "
                        f"{', '.join(f'{b}.{k}' for b in bodies[:2] for k in known)}{' …' if len(bodies) > 2 else ''}."
                    )
                variables[name] = (list(bodies).index(body), which)
        # bodies by number: formulas that differ in names alone are the same to a compiler
        trees = tuple(_by_number(tree, variables) for tree in trees)
        numbered = tuple(sorted((f"{k}.{which}", k, which) for k, which in variables.values()))
        return cls(trees, numbered, tuple(k for k in numbers))

    def __call__(self, t, frames, p):
        import jax.numpy as jnp

        known = {"t": t} | {k: p[k] for k in self.parameters}
        known |= {name: _value(frames[k], which) for name, k, which in self.variables}
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
