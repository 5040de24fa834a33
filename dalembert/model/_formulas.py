"""1 · model: formulas of the bodies' coordinates and velocities, for rows and forces written in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dalembert.model._functions import FormulaError, evaluate, names_in, parse


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
