"""edge · files: the form of model files as checks and as JSON Schema, from the element classes of `dalembert.model`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict

from dalembert.model import (
    ELEMENTS,
    SECTIONS,
    TYPED,
    Element,
    Form,
    Name,
    Places,
    Vector,
    Wrong,
    adapter,
    as_text,
    forms_of,
    is_required,
    number,
    shared_schemas,
    title,
    whole,
)

FORMAT = 1
MOST_STEPS = 2**31 - 1


def _format(value: Any, path: tuple = ()) -> int:
    if type(value) is not int or value != FORMAT:
        raise Wrong(path, f"must be {FORMAT}, not {as_text(value)}")
    return value


def _space(value: Any, path: tuple = ()) -> str:
    if value not in ("plane", "space") or not isinstance(value, str):
        raise Wrong(path, f"must be 'plane' or 'space', not {as_text(value)}")
    return value


def _positive(check: Callable) -> Callable:
    def look(value: Any, path: tuple = ()) -> Any:
        value = check(value, path)
        if value <= 0:
            raise Wrong(path, f"must be greater than zero, not {value:g}")
        return value

    return look


def _as(argument: Any, words: str) -> Form:
    """An argument of elements, with words of its own."""
    form = next(x for x in argument.__metadata__ if isinstance(x, Form))
    return Form(form.check, form.schema, words)


_count = _positive(whole(MOST_STEPS, f"must be at most {MOST_STEPS}, not {{:.3g}}"))
_POSITIVE = {"$ref": "#/$defs/Positive"}
_TEXT = {"type": "string", "minLength": 1}
_STEPS = {"type": "integer", "minimum": 1, "maximum": MOST_STEPS}


@dataclass(frozen=True)
class Head:
    """A dalembert model file; SI units."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    dalembert: Annotated[int, Form(_format, {"const": FORMAT}, f"the form of the file, {FORMAT}")]
    name: Annotated[str, Form(title, _TEXT, "the model's name")]
    space: Annotated[str, Form(_space, {"enum": ["plane", "space"]}, "plane (2 dimensions) or space (3)")]
    summary: Annotated[str, Form(title, _TEXT, "what it is, in a line")] | None = None
    gravity: Annotated[Any, _as(Vector, "acceleration of gravity, in m/s²")] | None = None
    closing: (
        Annotated[Any, _as(Places, "joints that close loops in joint coordinates, where the others carry")] | None
    ) = None


@dataclass(frozen=True)
class Run:
    """How `dalembert run` runs it."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    t_end: Annotated[float, Form(_positive(number), _POSITIVE, "end of the motion, in seconds")] | None = None
    tolerance: (
        Annotated[
            float,
            Form(_positive(number), _POSITIVE, "how far redundant joints may be from closing, of the machine's size"),
        ]
        | None
    ) = None
    rtol: Annotated[float, Form(_positive(number), _POSITIVE, "relative tolerance of the integration")] | None = None
    integrator: Annotated[str, _as(Name, "tsit5, dopri8, radau5 (stiff models), …")] | None = None
    dt: Annotated[float, Form(_positive(number), _POSITIVE, "fixed steps of this length, in seconds")] | None = None
    max_steps: Annotated[int, Form(_count, _STEPS, "the most steps that are taken")] | None = None


for _part in (Head, Run):
    adapter(_part)  # here, so that nothing is evaluated while a file is read
HEAD = tuple(forms_of(Head))
TOP = (*HEAD, "run", *SECTIONS)


# ---- JSON Schema ---------------------------------------------------------------------------------------------------


def _schema(cls: type, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """The form of a class in JSON Schema, with `more` keys before its own."""
    words = (cls.__doc__ or "").strip().split("\n")[0]
    properties, required = dict(more or {}), list(more or {})
    for argument in dataclasses.fields(cls):
        form = forms_of(cls)[argument.name]
        if is_required(argument):
            properties[argument.name] = {"description": form.words} | form.schema
            required.append(argument.name)
        else:
            properties[argument.name] = {"description": form.words, "anyOf": [form.schema, {"type": "null"}]}
    found = {"type": "object", "description": words, "properties": properties, "additionalProperties": False}
    return found | ({"required": required} if required else {})


def _element_schema(cls: type[Element]) -> dict[str, Any]:
    word = {"type": {"const": cls.type, "description": cls.summary()}} if cls.section in TYPED else {}
    return _schema(cls, word)


def json_schema() -> dict[str, Any]:
    """The form of model files as JSON Schema, for editors and other programs."""
    top, run = _schema(Head), _schema(Run)
    definitions = {word: _element_schema(cls) for word, cls in sorted(ELEMENTS.items())}
    top["properties"]["run"] = {"description": "how `dalembert run` runs it", "anyOf": [run, {"type": "null"}]}
    for section in SECTIONS:
        refs = [{"$ref": f"#/$defs/{word}"} for word, cls in ELEMENTS.items() if cls.section == section]
        items = {"type": "array", "items": {"oneOf": refs} if len(refs) > 1 else refs[0]}
        top["properties"][section] = {"description": f"the {section} of the model", "anyOf": [items, {"type": "null"}]}
    top["$defs"] = shared_schemas() | definitions
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top}
