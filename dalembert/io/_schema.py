"""edge · files: the schema of model files, made from the library itself.

Each element of `dalembert.model.ELEMENTS` becomes a pydantic class: its arguments are the keys, and the names their
annotations have in `model/_statements.py` define what each may hold (`KINDS` below). What depends on other values (the
number of components, signs, names that exist) is checked by `Model`.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Union

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationInfo, WithJsonSchema, create_model
from pydantic_core import PydanticCustomError

from dalembert._results import DalembertError, did_you_mean
from dalembert.model import (
    ELEMENTS,
    FORMULA_WORDS,
    LONGEST_NAME,
    RULES,
    SECTIONS,
    TYPED,
    inside_folder,
    name_mistake,
    title_mistake,
    value_of,
)

FORMAT = 1
LARGEST_NUMBER = 1e60  # in SI units nothing is larger, and its cube is still a number
MOST_STEPS = 2**31 - 1


class Wrong(Exception):
    """A value that is not what its key may hold: where inside the value, and the rest of a sentence.

    `key` is the unknown key that the sentence is about, where it is about one.
    """

    def __init__(self, path: tuple, text: str, key: str | None = None):
        self.path, self.text, self.key = path, text, key


def as_text(value: Any) -> str:
    """A value described in a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text '{value[:40]}{'…' if len(value) > 40 else ''}'"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "a mapping" + (f" with {', '.join(list(value)[:3])}" if value else "")
    return repr(value)


# ---- what an argument may hold ---------------------------------------------------------------------------------
#
# Each takes a value and its path, raises `Wrong`, and returns the value with its constant formulas as numbers.


def _number(value: Any, path: tuple = ()) -> int | float:
    if isinstance(value, str):
        value = _constant(value, path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Wrong(path, f"must be a number, not {as_text(value)}")
    if not math.isfinite(value):
        raise Wrong(path, f"must be finite, not {value}")
    if abs(value) > LARGEST_NUMBER:
        raise Wrong(path, f"is too large ({value:.3g}); numbers are in SI units, up to {LARGEST_NUMBER:g}")
    return value


def _constant(text: str, path: tuple) -> float:
    """A number as a formula: 45*deg, 45 deg, 2*0.3, pi/3."""
    try:
        return value_of(text)
    except DalembertError as error:
        # a word is no formula; for what looks like one the mistake is located
        why = f"; {error}" if re.search(r"[-+*/^()0-9]", text) else ""
        raise Wrong(path, f"must be a number, not {as_text(text)}{why}".removesuffix(".")) from None


def _text(value: Any, path: tuple = ()) -> str:
    if not isinstance(value, str):
        raise Wrong(path, f"must be a text, not {as_text(value)}" + ("; put it in quotes" if _quotable(value) else ""))
    if not value.strip():
        raise Wrong(path, "must not be empty")
    return value


def _quotable(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(value: Any, path: tuple = ()) -> str:
    _text(value, path)
    if wrong := name_mistake(value):
        raise Wrong(path, wrong)
    return value


def _title(value: Any, path: tuple = ()) -> str:
    _text(value, path)
    if wrong := title_mistake(value):
        raise Wrong(path, wrong)
    return value


def _whole(value: Any, path: tuple = ()) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Wrong(path, f"must be a whole number, not {as_text(value)}")
    if abs(value) > 10**6:
        raise Wrong(path, f"is too large ({value})")
    return value


def _count(value: Any, path: tuple = ()) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Wrong(path, f"must be a whole number, not {as_text(value)}")
    if value > MOST_STEPS:
        raise Wrong(path, f"must be at most {MOST_STEPS}, not {value:.3g}")
    return value


def _flag(value: Any, path: tuple = ()) -> bool:
    if not isinstance(value, bool):
        raise Wrong(path, f"must be true or false, not {as_text(value)}")
    return value


def _list_of(check: Callable, words: str, sizes: tuple[int, ...] = ()) -> Callable:
    def look(value: Any, path: tuple = ()) -> list:
        if not isinstance(value, list) or (sizes and len(value) not in sizes):
            raise Wrong(path, f"must be {words}, not {as_text(value)}")
        return [check(x, (*path, k)) for k, x in enumerate(value)]

    return look


_vector = _list_of(_number, "2 numbers in the plane, 3 in space, such as [0, 1]", (2, 3))
_quaternion = _list_of(_number, "4 numbers [w, x, y, z]", (4,))
_numbers = _list_of(_number, "a list of numbers")
_names = _list_of(_name, "a list of names")


def _matrix(value: Any, path: tuple = ()) -> list:
    if not isinstance(value, list) or not value:
        raise Wrong(path, f"must be a matrix (a list of rows), not {as_text(value)}")
    return [(_numbers if isinstance(row, list) else _number)(row, (*path, k)) for k, row in enumerate(value)]


def _inertia(value: Any, path: tuple = ()) -> Any:
    if isinstance(value, list) and len(value) == 3:
        return _matrix(value, path)
    if isinstance(value, list):
        raise Wrong(path, "must be a number in the plane; in space 3 principal moments or a 3x3 tensor")
    return _number(value, path)


def _angular(value: Any, path: tuple = ()) -> Any:
    return (_numbers if isinstance(value, list) else _number)(value, path)


def _points(value: Any, path: tuple = ()) -> Any:
    if isinstance(value, dict):
        return _keys(value, path, {"file": _file}, {"file"})
    return _list_of(_vector, "a list of points, or {file: name.csv}")(value, path)


def _file(value: Any, path: tuple = ()) -> str:
    _text(value, path)
    if not re.fullmatch(r"\w[\w -]{0,90}(\.\w[\w-]{0,20})*\.csv", value):
        raise Wrong(path, f"must be the plain name of a .csv file beside the model file, not {as_text(value)}")
    return value


def _keys(value: Any, path: tuple, known: dict[str, Callable], needed: set[str]) -> dict:
    """A mapping with known keys."""
    if not isinstance(value, dict):
        raise Wrong(path, f"must be a mapping with {', '.join(known)}, not {as_text(value)}")
    found = {}
    for key, inside in value.items():
        if key not in known:
            text = f": '{key[:40]}' is unknown; known are {', '.join(known)}.{did_you_mean(key, known)}"
            raise Wrong(path, text, key)
        found[key] = known[key](inside, (*path, key))
    missing = [k for k in known if k in needed and k not in value]
    if missing:
        raise Wrong(path, f": {missing[0]} is missing")
    return found


def _parameters(value: Any, path: tuple = ()) -> dict:
    if not isinstance(value, dict):
        raise Wrong(path, f"must be names with numbers, such as {{speed: 2.0}}, not {as_text(value)}")
    found = {}
    for key, number in value.items():
        if not re.fullmatch(r"[A-Za-z_]\w{0,99}", key, re.ASCII) or key in FORMULA_WORDS:
            raise Wrong(path, f": '{key[:40]}' cannot name a parameter; choose another word of letters and digits", key)
        found[key] = _number(number, (*path, key))
    return found


def _table(value: Any, path: tuple) -> dict:
    if isinstance(value, dict) and "file" in value:
        return _keys(value, path, {"file": _file, "degree": _whole}, {"file"})
    known = {"times": _numbers, "values": _numbers, "degree": _whole}
    return _keys(value, path, known, {"times", "values"})


def _mapping_of(needed: str, more: str) -> Callable:
    known = dict.fromkeys(f"{needed} {more}".split(), _number)
    return lambda value, path: _keys(value, path, known, set(needed.split()))


def _parts(value: Any, path: tuple) -> list:
    return _list_of(_motion, "a list of functions of time")(value, path)


_MAKERS: dict[str, Callable] = {
    "constant": _number,
    "polynomial": _numbers,
    "harmonic": _mapping_of("amplitude omega", "phase offset"),
    "step": _mapping_of("begin end", "low high"),
    "table": _table,
    "expression": lambda value, path: _keys(value, path, {"text": _text, "parameters": _parameters}, {"text"}),
    "sum": _parts,
    "product": _parts,
}


def _motion(value: Any, path: tuple = ()) -> Any:
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, dict):
        if len(value) != 1:
            raise Wrong(path, f"must have exactly one of {', '.join(_MAKERS)}, not {as_text(value)}")
        ((kind, inside),) = value.items()
        if kind not in _MAKERS:
            known = f"known are {', '.join(_MAKERS)}"
            raise Wrong(path, f": '{kind[:40]}' is no function of time; {known}.{did_you_mean(kind, _MAKERS)}", kind)
        return {kind: _MAKERS[kind](inside, (*path, kind))}
    if isinstance(value, list) or value is None:
        raise Wrong(path, f"must be a number, a formula or a function of time, not {as_text(value)}")
    return _number(value, path)


def _motions(value: Any, path: tuple = ()) -> Any:
    return (_parts if isinstance(value, list) else _motion)(value, path)


def _formula_or_number(value: Any, path: tuple = ()) -> Any:
    return (_text if isinstance(value, str) else _number)(value, path)


def _formulas(value: Any, path: tuple = ()) -> Any:
    if isinstance(value, str):
        return _text(value, path)
    return _list_of(_formula_or_number, "a formula or a list of formulas")(value, path)


def _share(value: Any, path: tuple) -> dict:
    one_or_more = _list_of(_formula_or_number, "a list of formulas")
    torque = lambda x, p: (one_or_more if isinstance(x, list) else _formula_or_number)(x, p)  # noqa: E731
    return _keys(value, path, {"force": one_or_more, "torque": torque}, set())


def _term(value: Any, path: tuple) -> Any:
    if isinstance(value, list):
        if len(value) not in (2, 3):
            raise Wrong(path, "must be [joint, factor] or [joint, coordinate, factor]")
        names = [_name(x, (*path, k)) for k, x in enumerate(value[:-1])]
        return [*names, _number(value[-1], (*path, len(value) - 1))]
    return _keys(value, path, {"joint": _name, "coordinate": _name, "factor": _number}, {"joint", "factor"})


def _along(value: Any, path: tuple = ()) -> str:
    if value not in ("world", "body") or not isinstance(value, str):
        raise Wrong(path, f"must be world or body, not {as_text(value)}")
    return value


_SHAPES = ("box", "sphere", "cylinder", "capsule", "ellipsoid", "plane", "mesh")


def _shape(value: Any, path: tuple = ()) -> str:
    if not isinstance(value, str) or value not in _SHAPES:
        hint = did_you_mean(value, _SHAPES) if isinstance(value, str) else ""
        raise Wrong(path, f"must be one of {', '.join(_SHAPES)}, not {as_text(value)}.{hint}".removesuffix("."))
    return value


_sizes = _list_of(_number, "1 to 3 numbers", (1, 2, 3))
_colour = _list_of(_number, "4 numbers: red, green, blue, opacity", (4,))


def _mesh(value: Any, path: tuple = ()) -> str:
    _text(value, path)
    if not inside_folder(value):
        raise Wrong(path, f"must be the name of a file in the model file's folder, not {as_text(value)}")
    return value


def _rule(value: Any, path: tuple = ()) -> str:
    if value not in RULES or not isinstance(value, str):
        raise Wrong(path, f"must be one of {', '.join(RULES)}, not {as_text(value)}")
    return value


def _format(value: Any, path: tuple = ()) -> int:
    if type(value) is not int or value != FORMAT:
        raise Wrong(path, f"must be {FORMAT}, not {as_text(value)}")
    return value


class Kind(NamedTuple):
    """What an argument may hold: the check, which returns it, the same in JSON Schema and as text, and a default."""

    check: Callable
    schema: dict[str, Any]
    words: str
    stand_in: Any = None


_NUMBER: dict[str, Any] = {"$ref": "#/$defs/Number"}
_ABOVE_ZERO: dict[str, Any] = {"$ref": "#/$defs/Positive"}
_CONSTANT = {"type": "string", "pattern": r"^[-+*/^()., \w°]+$", "description": "a number as a formula, such as 45*deg"}
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "pattern": r"^[^.]+$"}
_REFERENCE: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_BESIDE: dict[str, Any] = {"type": "string", "pattern": r"\.csv$"}


def _array(items: dict, *sizes: int) -> dict[str, Any]:
    return {"type": "array", "items": items} | ({"minItems": sizes[0], "maxItems": sizes[-1]} if sizes else {})


def _object(needed: dict[str, Any], more: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": needed | (more or {}), "additionalProperties": False}
    return found | ({"required": list(needed)} if needed else {})


def _function_schema() -> dict[str, Any]:
    me = {"$ref": "#/$defs/Motion"}
    parameters = {"type": "object", "additionalProperties": _NUMBER}
    degree = {"degree": {"type": "integer", "minimum": 1, "maximum": 5}}
    table = [
        _object({"times": _array(_NUMBER), "values": _array(_NUMBER)}, degree),
        _object({"file": _BESIDE}, degree),
    ]
    makers = {
        "constant": _NUMBER,
        "polynomial": _array(_NUMBER),
        "harmonic": _object({"amplitude": _NUMBER, "omega": _NUMBER}, {"phase": _NUMBER, "offset": _NUMBER}),
        "step": _object({"begin": _NUMBER, "end": _NUMBER}, {"low": _NUMBER, "high": _NUMBER}),
        "table": {"anyOf": table},
        "expression": _object({"text": _TEXT}, {"parameters": parameters}),
        "sum": _array(me),
        "product": _array(me),
    }
    return {"anyOf": [_NUMBER, _TEXT, *(_object({kind: inside}) for kind, inside in makers.items())]}


_VECTOR = _array(_NUMBER, 2, 3)
_ROWS = _array(_array(_NUMBER))
_MOTION = {"$ref": "#/$defs/Motion"}
_FORMULA = {"anyOf": [_TEXT, _NUMBER]}
_SHARE = _object({}, {"force": _array(_FORMULA), "torque": {"anyOf": [_FORMULA, _array(_FORMULA)]}})
_TERM = {
    "anyOf": [
        _object({"joint": _REFERENCE, "factor": _NUMBER}, {"coordinate": _TEXT}),
        {"type": "array", "minItems": 2, "maxItems": 3},
    ]
}
KINDS: dict[str, Kind] = {
    "Name": Kind(_name, _NAME, "a name of its own in the model"),
    "Place": Kind(_name, _REFERENCE, "a body or a marker, by name, or ground"),
    "Places": Kind(_names, _array(_REFERENCE), "bodies, by name"),
    "JointName": Kind(_name, _REFERENCE, "a joint, by name"),
    "Wheel": Kind(_name, _REFERENCE, "a wheel: the joint it turns on, its body, or a marker at its centre, by name"),
    "Coordinate": Kind(_name, _TEXT, "which coordinate of the joint, where it has several"),
    "Number": Kind(_number, _NUMBER, "a number, also as a formula such as 45*deg", 1.0),
    "Positive": Kind(_number, _ABOVE_ZERO, "a number greater than zero", 1.0),
    "Whole": Kind(_whole, {"type": "integer"}, "a whole number"),
    "Flag": Kind(_flag, {"type": "boolean"}, "true or false", False),
    "bool": Kind(_flag, {"type": "boolean"}, "true or false", False),
    "Vector": Kind(_vector, _VECTOR, "2 numbers in the plane, 3 in space"),
    "Vectors": Kind(_points, {"anyOf": [_array(_VECTOR), _object({"file": _BESIDE})]}, "a list of points"),
    "Quaternion": Kind(_quaternion, _array(_NUMBER, 4), "4 numbers [w, x, y, z]"),
    "Matrix": Kind(_matrix, {"anyOf": [_ROWS, _array(_NUMBER)]}, "a matrix, as a list of rows"),
    "Inertia": Kind(
        _inertia,
        {"anyOf": [_ABOVE_ZERO, _array(_NUMBER, 3), _array(_array(_NUMBER, 3), 3)]},
        "a number in the plane; in space 3 principal moments or a 3x3 tensor",
        1.0,
    ),
    "Angular": Kind(_angular, {"anyOf": [_NUMBER, _array(_NUMBER, 1, 3)]}, "a number in the plane, 3 in space"),
    "Motion": Kind(_motion, _MOTION, "a number, a formula of t, or a function of time", 0.0),
    "Motions": Kind(_motions, {"anyOf": [_MOTION, _array(_MOTION)]}, "a function of time for each component"),
    "Formula": Kind(_motion, _MOTION, "a number, a formula, or a function of time", 0.0),
    "Formulas": Kind(_formulas, {"anyOf": [_TEXT, _array(_FORMULA)]}, "a formula or a list of formulas"),
    "Loads": Kind(_list_of(_share, "a list"), _array(_SHARE), "for each body {force: [...], torque: ...} by formulas"),
    "Parameters": Kind(
        _parameters, {"type": "object", "additionalProperties": _NUMBER}, "numbers that formulas call by name"
    ),
    "Terms": Kind(_list_of(_term, "a list of terms"), _array(_TERM), "terms {joint, coordinate, factor}"),
    "Directions": Kind(_names, _array(_TEXT), "directions by name"),
    "ShapeKind": Kind(_shape, {"enum": list(_SHAPES)}, f"one of {', '.join(_SHAPES)}"),
    "Sizes": Kind(_sizes, _array(_ABOVE_ZERO, 1, 3), "1 to 3 numbers, by the kind"),
    "Colour": Kind(_colour, _array({"type": "number", "minimum": 0, "maximum": 1}, 4), "red, green, blue, opacity"),
    "MeshFile": Kind(_mesh, _TEXT, "the name of a file in the model file's folder"),
    "Rule": Kind(_rule, {"enum": list(RULES)}, "what picks a load that is not unique", RULES[0]),
    "Along": Kind(_along, {"enum": ["world", "body"]}, "world or body", "world"),
}
"""By the names that annotations have in `model/_statements.py`."""


def kind_of(annotation: Any) -> Kind:
    """The entry of an annotation such as "Vector | None"."""
    return KINDS[str(annotation).split("|")[0].strip()]


# ---- the classes -----------------------------------------------------------------------------------------------


class Strict(BaseModel):
    """No key besides the known ones."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


def _field(kind: Kind, default: Any, words: str = "") -> tuple[Any, Any]:
    def look(value: Any, info: ValidationInfo) -> Any:
        if value is None and default is not ...:
            return None  # an empty key is one that was not given
        try:
            found = kind.check(value)
        except Wrong as wrong:
            raise PydanticCustomError(
                "wrong", "{text}", {"text": wrong.text, "path": wrong.path, "key": wrong.key}
            ) from None
        if info.context is not None:  # kept also where another key is wrong
            info.context[info.field_name] = found
        return found

    schema = kind.schema if default is ... else {"anyOf": [kind.schema, {"type": "null"}]}
    annotation = Annotated[Any, PlainValidator(look), WithJsonSchema({"inside": json.dumps(schema)})]
    return annotation, Field(default, description=words or kind.words)


def _limited(check: Callable, *, positive: bool = False) -> Callable:
    def look(value: Any, path: tuple = ()) -> Any:
        value = check(value, path)
        if positive and value <= 0:
            raise Wrong(path, f"must be greater than zero, not {value:g}")
        return value

    return look


@functools.cache
def element_class(kind: str) -> type[BaseModel]:
    """The class of an element's entries: its keys are the arguments of the method of that name."""
    element = ELEMENTS[kind]
    fields: dict[str, Any] = {}
    if element.section in TYPED:
        fields["type"] = (Literal[kind], Field(description=element.summary))
    for name, parameter in element.parameters.items():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = _field(kind_of(parameter.annotation), default)
    return create_model(kind, __base__=Strict, __doc__=element.summary, **fields)


_POSITIVE = Kind(_limited(_number, positive=True), KINDS["Positive"].schema, "a number greater than zero")
_COUNT = Kind(_limited(_count, positive=True), {"type": "integer", "minimum": 1, "maximum": MOST_STEPS}, "")
_SUMMARY = Kind(_title, _TEXT, "")


@functools.cache
def run_class() -> type[BaseModel]:
    fields: dict[str, Any] = {
        "t_end": _field(_POSITIVE, None, "end of the motion, in seconds"),
        "tolerance": _field(_POSITIVE, None, "how far redundant joints may be from closing, of the machine's size"),
        "rtol": _field(_POSITIVE, None, "relative tolerance of the integration"),
        "integrator": _field(KINDS["Name"], None, "tsit5, dopri8, radau5 (stiff models), …"),
        "dt": _field(_POSITIVE, None, "fixed steps of this length, in seconds"),
        "max_steps": _field(_COUNT, None, "the most steps that are taken"),
    }
    return create_model("run", __base__=Strict, __doc__="How `dalembert run` runs it.", **fields)


def _head_fields() -> dict[str, Any]:
    return {
        "dalembert": _field(Kind(_format, {"const": FORMAT}, ""), ..., f"the form of the file, {FORMAT}"),
        "name": _field(_SUMMARY, ..., "the model's name"),
        "summary": _field(_SUMMARY, None, "what it is, in a line"),
        "space": (Literal["plane", "space"], Field(description="plane (2 dimensions) or space (3)")),
        "gravity": _field(KINDS["Vector"], None, "acceleration of gravity, in m/s²"),
        "closing": _field(
            KINDS["Places"], None, "joints that close loops in joint coordinates, where the others carry"
        ),
    }


HEAD = tuple(_head_fields())
TOP = (*HEAD, "run", *SECTIONS)


@functools.cache
def head_class() -> type[BaseModel]:
    """The class of what stands above the sections."""
    return create_model("head", __base__=Strict, **_head_fields())


def json_schema() -> dict[str, Any]:
    """The form of model files as JSON Schema, for editors and other programs."""
    classes: dict[str, list[type[BaseModel]]] = {section: [] for section in SECTIONS}
    for kind, element in ELEMENTS.items():
        classes[element.section].append(element_class(kind))
    fields: dict[str, Any] = _head_fields() | {
        "run": (run_class() | None, Field(None, description="how `dalembert run` runs it"))
    }
    for section, members in classes.items():
        item = Annotated[Union[tuple(members)], Field(discriminator="type")] if len(members) > 1 else members[0]  # noqa: UP007
        fields[section] = (list[item] | None, Field(None, description=f"the {section} of the model"))
    made = create_model("model", __base__=Strict, __doc__="A dalembert model file; SI units.", **fields)
    found = _unwrapped(made.model_json_schema())
    for name, number in (("Number", {"type": "number"}), ("Positive", {"type": "number", "exclusiveMinimum": 0})):
        found["$defs"][name] = {"description": KINDS[name].words, "anyOf": [number, _CONSTANT]}
    found["$defs"]["Motion"] = {"description": KINDS["Motion"].words} | _function_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def _unwrapped(schema: Any) -> Any:
    """Our own schemas, which pydantic was not to look into, in their places."""
    if isinstance(schema, list):
        return [_unwrapped(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("inside"), str):
        schema = {k: x for k, x in schema.items() if k not in ("inside", "title")} | json.loads(schema["inside"])
    return {k: _unwrapped(x) for k, x in schema.items()}
