"""1 · model: `Model`, the list of the user's statements, and the checks of a whole model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from dalembert._results import ModelError, did_you_mean
from dalembert.model._elements import Constraint, Force
from dalembert.model._frames import Body, Marker
from dalembert.model._information import Information, Limit, Shape
from dalembert.model._kinds import COORDINATES
from dalembert.model._statements import SECTIONS, Mistake, Statement, plain, title_mistake

Space = Literal["plane", "space"]


class Model(Information):
    """A mechanism: bodies, joints, drivers, wheels and forces, in the plane or in space.

    Nothing is refused while the model is being written: `validate` (which `da.build` calls) collects every
    mistake and raises them together. All points and axes given by `at` and `axis` are in the world frame, in
    the start configuration that the bodies' poses describe. Units: any consistent set (SI in all examples).
    Two models are equal when their `statements` are equal.

    `closing` names joints that close loops: in joint coordinates they are rows, and the others form the tree. Without
    it `da.build` chooses.
    """

    def __init__(
        self, name: str = "model", *, space: Space = "plane", gravity=None, closing: Sequence[str] | None = None
    ):
        self.name = name if isinstance(name, str) else repr(name)
        self.closing = tuple(closing or ())
        self.space: Space = space
        self.statements: list[Statement] = []
        self._statement: Statement | None = None
        self._mistakes: list[Mistake] = []
        if space not in ("plane", "space"):
            self._wrong(f"space={space!r} is unknown; use 'plane' or 'space'.")
            self.space = "plane"
        if not isinstance(name, str) or not name.strip():
            self._wrong("The model has no name: give it a non-empty text.")
        elif wrong := title_mistake(name):
            self._wrong(f"The model's name {wrong}.")
        d = self.dimension
        self.gravity = np.zeros(d) if gravity is None else self._vector("gravity", gravity, d)
        zero = np.zeros(1 if d == 2 else 3)
        self.ground = Body("ground", 0.0, zero, np.zeros(d), np.eye(d), np.zeros(d), zero, is_ground=True)
        self.bodies: dict[str, Body] = {}
        self.markers: dict[str, Marker] = {}
        self.constraints: dict[str, Constraint] = {}
        self.forces: dict[str, Force] = {}
        self.limits: dict[str, Limit] = {}
        self.shapes: dict[str, Shape] = {}

    def __eq__(self, other) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        return (self.name, self.space, plain(self.gravity), self.closing, self.sections()) == (
            other.name, other.space, plain(other.gravity), other.closing, other.sections(),
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.name, self.space))

    def __repr__(self) -> str:
        parts = [_counted(len(self.bodies), "body", "bodies"), _counted(len(self.constraints), "joint", "joints")]
        parts += [_counted(len(self.forces), "force", "forces")] if self.forces else []
        return f"Model '{self.name}' in {self._where}: {', '.join(parts)}"

    def _repr_html_(self) -> str:
        from dalembert.view import html_table, html_words

        out = html_words(repr(self))
        rows = [
            (b.name, f"{b.mass:.6g}", ", ".join(f"{x + 0.0:.4g}" for x in b.position)) for b in self.bodies.values()
        ]
        out += html_table(("body", "mass", "at"), rows) if rows else ""
        for word, items in (("joint", self.constraints), ("force", self.forces)):
            named = [(x.name, x.kind.split(":")[0], ", ".join(b.name for b in x.bodies)) for x in items.values()]
            out += html_table((word, "kind", "on"), named) if named else ""
        return out

    def sections(self) -> dict[str, list[Statement]]:
        """The statements, by section, in order."""
        return {section: [s for s in self.statements if s.section == section] for section in SECTIONS}

    # ---- validation -----------------------------------------------------------------------------------

    def mistakes(self) -> list[Mistake]:
        """All that is wrong with the model, each a sentence with the name of the item and what to do."""
        found = list(self._mistakes)
        by_name = {s.name: s for s in reversed(self.statements)}  # of two with one name the first is kept
        if not self.bodies:
            found.append(Mistake("There is no body. Add one with model.body(...)."))
        for name in self.closing:
            if name not in self.constraints:
                hint = did_you_mean(name, self.constraints)
                found.append(Mistake(f"closing: there is no joint '{name}'.{hint}"))
        # ground replaces an unknown name: mistakes that follow from that are not reported
        unknown = {id(m.statement) for m in self._mistakes if ": there is no body or marker '" in m}
        for c in self.constraints.values():
            if c.drives not in (None, c.name):  # those of the joint are reported
                continue
            texts = self._constraint_mistakes(c) if id(by_name.get(c.name)) not in unknown else []
            found += [Mistake(text, by_name.get(c.name)) for text in (*texts, *self._kind_mistakes(c))]
        for f in self.forces.values():
            moving = [b for b in f.bodies if not b.is_ground]
            of_joint = f.name in by_name and "joint" in by_name[f.name].arguments  # whose own mistake it is
            if f.markers and not moving and not of_joint and id(by_name.get(f.name)) not in unknown:
                found.append(Mistake(f"Force '{f.name}' acts only on ground; name a body.", by_name.get(f.name)))
        rules = sorted({f.rule for f in self.forces.values() if f.rule is not None})
        if len(rules) > 1:
            found.append(Mistake(f"Bearing friction names the rules {' and '.join(rules)}; name one for all."))
        return found

    def validate(self) -> Model:
        """Raise `ModelError` with every mistake, or return the model."""
        found = self.mistakes()
        if found:
            raise ModelError(self.name, found)
        return self

    def _constraint_mistakes(self, c: Constraint) -> list[str]:
        what = "Driver" if c.drives else "Joint"
        found = []
        names = [b.name for b in c.bodies]
        for n in sorted({n for n in names if names.count(n) > 1}):
            found.append(f"{what} '{c.name}' connects body '{n}' to itself; it needs two different bodies.")
        if c.markers and all(b.is_ground for b in c.bodies) and len(set(names)) == len(names):
            found.append(f"{what} '{c.name}' holds only ground; name a body.")
        return found

    def _kind_mistakes(self, c: Constraint) -> list[str]:
        what, kind = "Driver" if c.drives else "Joint", c.kind.split(":")[0]
        if kind not in COORDINATES or self.space in COORDINATES[kind]:
            return []
        other = "space" if self.space == "plane" else "the plane"
        return [f"{what} '{c.name}': a {kind} joint exists only in {other}; this model is in {self._where}."]


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


# pyright: reportArgumentType=false, reportReturnType=false
