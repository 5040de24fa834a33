"""1 · model: functions of time and of variables as placed in a model: equal for equal statements, so that a compiler
meets the same function again; their numbers stand beside them, in p."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dalembert.model._formulas import FrameFormulas
from dalembert.model._functions import Shape


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


@dataclass(frozen=True)
class Shares:
    """Formulas for all bodies, split into (force, torque) per body."""

    formulas: FrameFormulas
    d: int
    size: int

    def __call__(self, t, frames, p):
        flat, d, size = self.formulas(t, frames, p), self.d, self.size
        return [(flat[k : k + d], flat[k + d : k + size]) for k in range(0, len(self.formulas.trees), size)]
