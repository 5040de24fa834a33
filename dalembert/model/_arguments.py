"""1 · model: what an argument of an element may be: its type in Python, its form in a model file, its JSON Schema.

An element (`_element.py`) is a dataclass whose fields are annotated with the names below. Each is a Python type with a
`Form`, from which pydantic checks what a model file gives, and makes the schema of model files. What depends on other
values (the number of components, names that exist) is checked when the element is placed in a model (`_placing.py`).
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import GetCoreSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from dalembert._results import DalembertError, did_you_mean
from dalembert.model._frames import Body, Marker
from dalembert.model._functions import FORMULA_WORDS, value_of
from dalembert.model._functions import Function as TimeFunction
from dalembert.model._placed import Constraint

LARGEST_NUMBER = 1e60  # in SI units nothing is larger, and its cube is still a number
LONGEST_NAME = 100
LONGEST_TITLE = 300  # of the model's own name
IMPACTS = ("newton", "poisson")
"""Laws of impact."""
RULES = ("minimum_norm", "weighted", "penalty_limit", "eliminated")
"""The reaction rules that can be given by name alone."""
COMPONENTS = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")
"""Of a joint's reaction: forces and torques along its axes; in the plane Fx, Fy, Mz."""
NEEDS = ("positions", "velocities", "accelerations", "reactions")
"""What a measurement depends on, by its level."""
SHAPES = ("box", "sphere", "cylinder", "capsule", "ellipsoid", "plane", "mesh")


def name_mistake(name: str) -> str | None:
    """What is wrong with the form of a name, as the end of a sentence; None if nothing is."""
    if len(name) > LONGEST_NAME or name != name.strip() or not name.isprintable():
        return f"must be one line of at most {LONGEST_NAME} characters, without spaces at its ends"
    return None


def title_mistake(name: str) -> str | None:
    """The same for a model's own name."""
    if len(name) > LONGEST_TITLE or not name.isprintable():
        return f"must be one line of at most {LONGEST_TITLE} characters"
    return None


def inside_folder(name: str) -> bool:
    """Whether a name is that of a file in a folder or below it, on any system: no drive, no way up, no address."""
    parts = name.split("/")
    plain = re.fullmatch(r"[^\\:*?\"<>|\x00-\x1f\x7f]{1,300}", name) is not None
    return plain and name.isprintable() and all(part not in ("", ".", "..") for part in parts)


class Wrong(Exception):
    """A value that is not what its key may hold: where inside the value, and the rest of a sentence.

    `key` is the unknown key that the sentence is about, where it is about one.
    """

    def __init__(self, path: tuple, text: str, key: str | None = None):
        self.path, self.text, self.key = path, text, key


@dataclass(frozen=True, eq=False)
class Form:
    """The form of an argument in a file: its check, which returns the value with constant formulas as numbers, the same
    in JSON Schema and as text, and a harmless value that stands in for a wrong one."""

    check: Callable
    schema: dict[str, Any]
    words: str
    stand_in: Any = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler):
        return core_schema.with_info_plain_validator_function(self._validate)

    def _validate(self, value: Any, info: core_schema.ValidationInfo) -> Any:
        try:
            found = self.check(value)
        except Wrong as wrong:
            given = {"text": wrong.text, "path": wrong.path, "key": wrong.key}
            raise PydanticCustomError("wrong", "{text}", given) from None
        if info.context is not None:  # kept also where another key is wrong
            info.context[info.field_name] = found
        return found


def as_text(value: Any) -> str:
    """A value of a file described in a message."""
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


# ---- checks: each takes a value and its path, raises `Wrong`, and returns the value -------------------------------


def number(value: Any, path: tuple = ()) -> int | float:
    """A finite number of a file, also as a formula such as 45*deg."""
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
        quotable = isinstance(value, int | float) and not isinstance(value, bool)
        raise Wrong(path, f"must be a text, not {as_text(value)}" + ("; put it in quotes" if quotable else ""))
    if not value.strip():
        raise Wrong(path, "must not be empty")
    return value


def _text_without(mistake: Callable[[str], str | None]) -> Callable:
    def look(value: Any, path: tuple = ()) -> str:
        _text(value, path)
        if wrong := mistake(value):
            raise Wrong(path, wrong)
        return value

    return look


def _text_that(good: Callable[[str], Any], expected: str) -> Callable:
    return _text_without(lambda value: None if good(value) else f"must be {expected}, not {as_text(value)}")


_name, _title = _text_without(name_mistake), _text_without(title_mistake)
_mesh = _text_that(inside_folder, "the name of a file in the model file's folder")
_table_name = re.compile(r"\w[\w -]{0,90}(\.\w[\w-]{0,20})*\.csv")
_file = _text_that(_table_name.fullmatch, "the plain name of a .csv file beside the model file")


def title(value: Any, path: tuple = ()) -> str:
    """A title of a file: one line of text."""
    return _title(value, path)


def whole(most: int, words: str) -> Callable:
    """Whole numbers up to `most`; `words` end the sentence about a larger one."""

    def look(value: Any, path: tuple = ()) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(path, f"must be a whole number, not {as_text(value)}")
        if abs(value) > most:
            raise Wrong(path, words.format(value))
        return value

    return look


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


def _one_or(one: Callable, several: Callable) -> Callable:
    """A list, or one of its kind by itself."""
    return lambda value, path=(): (several if isinstance(value, list) else one)(value, path)


_vector = _list_of(number, "2 numbers in the plane, 3 in space, such as [0, 1]", (2, 3))
_quaternion = _list_of(number, "4 numbers [w, x, y, z]", (4,))
_numbers = _list_of(number, "a list of numbers")
_names = _list_of(_name, "a list of names")
_sizes = _list_of(number, "1 to 3 numbers", (1, 2, 3))
_colour = _list_of(number, "4 numbers: red, green, blue, opacity", (4,))
_some_numbers = _one_or(number, _numbers)


def _matrix(value: Any, path: tuple = ()) -> list:
    if not isinstance(value, list) or not value:
        raise Wrong(path, f"must be a matrix (a list of rows), not {as_text(value)}")
    return [_some_numbers(row, (*path, k)) for k, row in enumerate(value)]


def _inertia(value: Any, path: tuple = ()) -> Any:
    if isinstance(value, list) and len(value) == 3:
        return _matrix(value, path)
    if isinstance(value, list):
        raise Wrong(path, "must be a number in the plane; in space 3 principal moments or a 3x3 tensor")
    return number(value, path)


def _points(value: Any, path: tuple = ()) -> Any:
    if isinstance(value, dict):
        return _keys(value, path, {"file": _file}, {"file"})
    return _list_of(_vector, "a list of points, or {file: name.csv}")(value, path)


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
    for key, inside in value.items():
        if not re.fullmatch(r"[A-Za-z_]\w{0,99}", key, re.ASCII) or key in FORMULA_WORDS:
            raise Wrong(path, f": '{key[:40]}' cannot name a parameter; choose another word of letters and digits", key)
        found[key] = number(inside, (*path, key))
    return found


def _table(value: Any, path: tuple) -> dict:
    if isinstance(value, dict) and "file" in value:
        return _keys(value, path, {"file": _file, "degree": _whole}, {"file"})
    known = {"times": _numbers, "values": _numbers, "degree": _whole}
    return _keys(value, path, known, {"times", "values"})


def _mapping_of(needed: str, more: str) -> Callable:
    known = dict.fromkeys(f"{needed} {more}".split(), number)
    return lambda value, path: _keys(value, path, known, set(needed.split()))


def _parts(value: Any, path: tuple) -> list:
    return _list_of(_motion, "a list of functions of time")(value, path)


_whole = whole(10**6, "is too large ({})")
_MAKERS: dict[str, Callable] = {
    "constant": number,
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
    return number(value, path)


def _motion_or_number(value: Any, path: tuple = ()) -> Any:
    """A function of time; a formula of numbers alone is its number."""
    if isinstance(value, str):
        with contextlib.suppress(DalembertError):
            value = value_of(value)
    return _motion(value, path)


def _formula_or_number(value: Any, path: tuple = ()) -> Any:
    return (_text if isinstance(value, str) else number)(value, path)


def _formulas(value: Any, path: tuple = ()) -> Any:
    if isinstance(value, str):
        return _text(value, path)
    return _list_of(_formula_or_number, "a formula or a list of formulas")(value, path)


def _named_formulas(value: Any, path: tuple = ()) -> dict:
    if not isinstance(value, dict) or not value:
        raise Wrong(path, f"must be names with formulas, such as {{u: -2*x}}, not {as_text(value)}")
    return {key: _formula_or_number(inside, (*path, key)) for key, inside in value.items()}


def _share(value: Any, path: tuple) -> dict:
    several = _list_of(_formula_or_number, "a list of formulas")
    return _keys(value, path, {"force": several, "torque": _one_or(_formula_or_number, several)}, set())


def _term(value: Any, path: tuple) -> Any:
    if isinstance(value, list):
        if len(value) not in (2, 3):
            raise Wrong(path, "must be [joint, factor] or [joint, coordinate, factor]")
        names = [_name(x, (*path, k)) for k, x in enumerate(value[:-1])]
        return [*names, number(value[-1], (*path, len(value) - 1))]
    return _keys(value, path, {"joint": _name, "coordinate": _name, "factor": number}, {"joint", "factor"})


def _one_of(words: Sequence[str], spoken: str = "", hinted: bool = False) -> Callable:
    spoken = spoken or f"one of {', '.join(words)}"

    def look(value: Any, path: tuple = ()) -> str:
        if not isinstance(value, str) or value not in words:
            hint = f".{did_you_mean(value, words)}" if hinted and isinstance(value, str) else ""
            raise Wrong(path, f"must be {spoken}, not {as_text(value)}{hint}".removesuffix("."))
        return value

    return look


# ---- the same in JSON Schema ---------------------------------------------------------------------------------------

NUMBER: dict[str, Any] = {"$ref": "#/$defs/Number"}
ABOVE_ZERO: dict[str, Any] = {"$ref": "#/$defs/Positive"}
TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_CONSTANT = {"type": "string", "pattern": r"^[-+*/^()., \w°]+$", "description": "a number as a formula, such as 45*deg"}
_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "pattern": r"^[^.]+$"}
_REFERENCE: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_BESIDE: dict[str, Any] = {"type": "string", "pattern": r"\.csv$"}


def _array(items: dict, *sizes: int) -> dict[str, Any]:
    return {"type": "array", "items": items} | ({"minItems": sizes[0], "maxItems": sizes[-1]} if sizes else {})


def _object(needed: dict[str, Any], more: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": needed | (more or {}), "additionalProperties": False}
    return found | ({"required": list(needed)} if needed else {})


_VECTOR = _array(NUMBER, 2, 3)
_MOTION = {"$ref": "#/$defs/Motion"}
_FORMULA = {"anyOf": [TEXT, NUMBER]}
_SHARE = _object({}, {"force": _array(_FORMULA), "torque": {"anyOf": [_FORMULA, _array(_FORMULA)]}})
_TERM = {
    "anyOf": [
        _object({"joint": _REFERENCE, "factor": NUMBER}, {"coordinate": TEXT}),
        {"type": "array", "minItems": 2, "maxItems": 3},
    ]
}
_WORDS = {
    "Number": "a number, also as a formula such as 45*deg",
    "Positive": "a number greater than zero",
    "Motion": "a number, a formula of t, or a function of time",
}


def shared_schemas() -> dict[str, Any]:
    """What the schemas of arguments refer to: Number, Positive and Motion."""
    parameters = {"type": "object", "additionalProperties": NUMBER}
    degree = {"degree": {"type": "integer", "minimum": 1, "maximum": 5}}
    table = [_object({"times": _array(NUMBER), "values": _array(NUMBER)}, degree), _object({"file": _BESIDE}, degree)]
    makers = {
        "constant": NUMBER,
        "polynomial": _array(NUMBER),
        "harmonic": _object({"amplitude": NUMBER, "omega": NUMBER}, {"phase": NUMBER, "offset": NUMBER}),
        "step": _object({"begin": NUMBER, "end": NUMBER}, {"low": NUMBER, "high": NUMBER}),
        "table": {"anyOf": table},
        "expression": _object({"text": TEXT}, {"parameters": parameters}),
        "sum": _array(_MOTION),
        "product": _array(_MOTION),
    }
    forms = {
        "Number": [{"type": "number"}, _CONSTANT],
        "Positive": [{"type": "number", "exclusiveMinimum": 0}, _CONSTANT],
        "Motion": [NUMBER, TEXT, *(_object({kind: inside}) for kind, inside in makers.items())],
    }
    return {name: {"description": _WORDS[name], "anyOf": form} for name, form in forms.items()}


# ---- the arguments -----------------------------------------------------------------------------------------------

Name = Annotated[str, Form(_name, _NAME, "a name of its own in the model")]
Place = Annotated[Body | Marker | str, Form(_name, _REFERENCE, "a body or a marker, by name, or ground")]
Places = Annotated[Sequence[Body | Marker | str], Form(_names, _array(_REFERENCE), "bodies, by name")]
JointName = Annotated[Constraint | str, Form(_name, _REFERENCE, "a joint, by name")]
Wheel = Annotated[
    Constraint | Body | Marker | str,
    Form(_name, _REFERENCE, "a wheel: the joint it turns on, its body, or a marker at its centre, by name"),
]
ChannelName = Annotated[str, Form(_name, _REFERENCE, "a measurement of a position, by name")]
Coordinate = Annotated[str, Form(_name, TEXT, "which coordinate of the joint, where it has several")]
Number = Annotated[float, Form(number, NUMBER, _WORDS["Number"], 1.0)]
Positive = Annotated[float, Form(number, ABOVE_ZERO, _WORDS["Positive"], 1.0)]
Whole = Annotated[int, Form(_whole, {"type": "integer"}, "a whole number")]
Flag = Annotated[bool, Form(_flag, {"type": "boolean"}, "true or false", False)]
Vector = Annotated[Sequence[float] | np.ndarray, Form(_vector, _VECTOR, "2 numbers in the plane, 3 in space")]
Vectors = Annotated[
    Sequence[Sequence[float]] | np.ndarray,
    Form(_points, {"anyOf": [_array(_VECTOR), _object({"file": _BESIDE})]}, "a list of points"),
]
Quaternion = Annotated[Sequence[float] | np.ndarray, Form(_quaternion, _array(NUMBER, 4), "4 numbers [w, x, y, z]")]
Matrix = Annotated[
    Sequence[Sequence[float]] | Sequence[float] | np.ndarray,
    Form(_matrix, {"anyOf": [_array(_array(NUMBER)), _array(NUMBER)]}, "a matrix, as a list of rows"),
]
Inertia = Annotated[
    float | Sequence[float] | Sequence[Sequence[float]] | np.ndarray,
    Form(
        _inertia,
        {"anyOf": [ABOVE_ZERO, _array(NUMBER, 3), _array(_array(NUMBER, 3), 3)]},
        "a number in the plane; in space 3 principal moments or a 3x3 tensor",
        1.0,
    ),
]
Angular = Annotated[
    float | Sequence[float] | np.ndarray,
    Form(_some_numbers, {"anyOf": [NUMBER, _array(NUMBER, 1, 3)]}, "a number in the plane, 3 in space"),
]
Motion = Annotated[float | str | Mapping | TimeFunction | Callable, Form(_motion, _MOTION, _WORDS["Motion"], 0.0)]
Varying = Annotated[
    float | str | Mapping | TimeFunction | Callable, Form(_motion_or_number, _MOTION, _WORDS["Motion"], 0.0)
]
Motions = Annotated[
    float | str | Mapping | TimeFunction | Callable | Sequence | np.ndarray,
    Form(_one_or(_motion, _parts), {"anyOf": [_MOTION, _array(_MOTION)]}, "a function of time for each component"),
]
Formula = Annotated[
    float | str | Mapping | TimeFunction | Callable,
    Form(_motion, _MOTION, "a number, a formula, or a function of time", 0.0),
]
Formulas = Annotated[
    str | Sequence[str] | Callable,
    Form(_formulas, {"anyOf": [TEXT, _array(_FORMULA)]}, "a formula or a list of formulas"),
]
Loads = Annotated[
    Callable | Sequence[Mapping],
    Form(_list_of(_share, "a list"), _array(_SHARE), "for each body {force: [...], torque: ...} by formulas"),
]
Parameters = Annotated[
    Mapping[str, Any],
    Form(_parameters, {"type": "object", "additionalProperties": NUMBER}, "numbers that formulas call by name"),
]
NamedFormulas = Annotated[
    Mapping[str, Any],
    Form(
        _named_formulas,
        {"type": "object", "minProperties": 1, "additionalProperties": _FORMULA},
        "for each name a formula",
    ),
]
Readings = Annotated[Sequence[str], Form(_names, _array(TEXT), "measurements, by name")]
Unit = Annotated[str, Form(_name, TEXT, "its unit, such as N or rad/s")]
Component = Annotated[
    str,
    Form(_one_of(COMPONENTS), {"enum": list(COMPONENTS)}, f"one of {', '.join(COMPONENTS)}", COMPONENTS[0]),
]
AxesOf = Annotated[
    str, Form(_one_of(("joint", "world"), "joint or world"), {"enum": ["joint", "world"]}, "joint or world", "joint")
]
Needs = Annotated[str, Form(_one_of(NEEDS), {"enum": list(NEEDS)}, f"one of {', '.join(NEEDS)}", NEEDS[-1])]
ItemName = Annotated[Any, Form(_name, _REFERENCE, "a driver or a force, by name")]
Terms = Annotated[
    Sequence[Mapping | Sequence],
    Form(_list_of(_term, "a list of terms"), _array(_TERM), "terms {joint, coordinate, factor}"),
]
Directions = Annotated[str | Sequence[str], Form(_names, _array(TEXT), "directions by name")]
ShapeKind = Annotated[str, Form(_one_of(SHAPES, hinted=True), {"enum": list(SHAPES)}, f"one of {', '.join(SHAPES)}")]
Sizes = Annotated[Sequence[float] | np.ndarray, Form(_sizes, _array(ABOVE_ZERO, 1, 3), "1 to 3 numbers, by the kind")]
Colour = Annotated[
    Sequence[float] | np.ndarray,
    Form(_colour, _array({"type": "number", "minimum": 0, "maximum": 1}, 4), "red, green, blue, opacity"),
]
MeshFile = Annotated[str, Form(_mesh, TEXT, "the name of a file in the model file's folder")]
Rule = Annotated[str, Form(_one_of(RULES), {"enum": list(RULES)}, "what picks a load that is not unique", RULES[0])]
Impact = Annotated[
    str, Form(_one_of(IMPACTS), {"enum": list(IMPACTS)}, "the law of its impacts: newton or poisson", IMPACTS[0])
]
Along = Annotated[
    str, Form(_one_of(("world", "body"), "world or body"), {"enum": ["world", "body"]}, "world or body", "world")
]
ANYTHING = Form(lambda value, path=(): value, {}, "a value")
"""Of an argument without a form of its own, in a class that files do not know."""
