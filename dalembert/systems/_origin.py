"""2 · systems: what a system was built from, stored so that a file can hold it; nothing is computed from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from dalembert.model import Element, Model


class Origin:
    """The statements of a model as they were when it was built, and how it was built.

    It is a static part of a system, and all origins are equal, so that no compiled program depends on one.
    """

    def __init__(self, model: Model | None = None, coordinates: str = "absolute", cut=()):
        self.coordinates, self.cut = coordinates, tuple(cut)
        self.known = model is not None
        if model is not None:
            self.name, self.gravity = model.name, np.array(model.gravity)
            self.space: Literal["plane", "space"] = model.space
            self.closing = tuple(model.closing)
            self.statements: tuple[Element, ...] = tuple(model.statements)

    def with_inputs(self, values: Mapping[str, Any]) -> Origin:
        """The same with other values of inputs."""
        if not self.known:
            return self
        made = Origin(self.model(), self.coordinates, self.cut)
        made.statements = tuple(
            dataclasses.replace(s, value=values[s.name]) if s.section == "inputs" and s.name in values else s  # pyright: ignore[reportCallIssue]
            for s in self.statements
        )
        return made

    def __eq__(self, other) -> bool:
        return isinstance(other, Origin)

    def __hash__(self) -> int:
        return hash(Origin)

    def __repr__(self) -> str:
        return f"Origin({self.name if self.known else None!r})"

    def model(self) -> Model:
        """The model, rebuilt from its statements."""
        model = Model(self.name, space=self.space, gravity=self.gravity, closing=self.closing)
        for s in self.statements:
            model.add(s)
        return model
