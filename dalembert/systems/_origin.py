"""2 · systems: what a system was built from, carried along so that a file can hold it; nothing is computed from it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from dalembert.model import Model, Statement

if TYPE_CHECKING:
    from dalembert.systems._absolute import AbsoluteSystem
    from dalembert.systems._base import AbstractSystem


class Origin:
    """The statements of a model as they were when it was built, and how it was built.

    It is a static part of a system, and all origins are equal, so that no compiled program depends on one.
    """

    def __init__(self, model: Model | None = None, coordinates: str = "absolute", cut=()):
        self.coordinates, self.cut = coordinates, tuple(cut)
        self.known = model is not None
        if model is not None:
            self.name, self.space, self.gravity = model.name, model.space, np.array(model.gravity)
            self.closing = tuple(model.closing)
            self.statements: tuple[Statement, ...] = tuple(model.statements)

    def __eq__(self, other) -> bool:
        return isinstance(other, Origin)

    def __hash__(self) -> int:
        return hash(Origin)

    def __repr__(self) -> str:
        return f"Origin({self.name if self.known else None!r})"

    def model(self) -> Model:
        """The model, told again."""
        model = Model(self.name, space=self.space, gravity=self.gravity, closing=self.closing)
        for s in self.statements:
            getattr(model, s.kind)(**s.arguments)
        return model


def with_loads_of(old: AbstractSystem, new: AbstractSystem) -> AbstractSystem:
    """`new` with its friction by joint loads decided as in `old`, a system of the same type."""

    def decided(old: AbsoluteSystem, new: AbsoluteSystem):
        return dataclasses.replace(new, load_rule=old.load_rule, loads_decided=old.loads_decided)

    if hasattr(new, "loads_decided"):
        return decided(old, new)  # pyright: ignore[reportArgumentType]
    if new.machine is not new:  # joint coordinates
        return dataclasses.replace(new, absolute=decided(old.machine, new.machine))  # pyright: ignore[reportArgumentType, reportCallIssue]
    return new
