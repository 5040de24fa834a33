"""6b· results: settings and states as plain data, for files. Nothing in a file is ever executed.

A value becomes JSON, its arrays go beside it; a formulation, a rule and the like become the name of their class and
their fields. Only the classes of `KNOWN` are restored, from data that fit them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from dalembert import complements, formulations, reactions, stabilise
from dalembert._results import DalembertError
from dalembert.complements import Choice
from dalembert.formulations import IndependentMemory, TangentMemory
from dalembert.simulation import Carried

FORMER = {"Unique": "RequireUnique", "Eliminated": "RowElimination"}
"""Names of classes in files of version 0.1, and what they are called now."""


def _known() -> dict[str, type]:
    found: dict[str, type] = {c.__name__: c for c in (Choice, IndependentMemory, TangentMemory, Carried)}
    bases = (
        formulations.AbstractFormulation,
        complements.AbstractComplement,
        stabilise.AbstractStabilisation,
        reactions.AbstractReactionRule,
        reactions.AbstractFlexibility,
    )
    for room in (formulations, complements, stabilise, reactions):
        for name in room.__all__:
            thing = getattr(room, name)
            if isinstance(thing, type) and issubclass(thing, bases) and not name.startswith("Abstract"):
                found[name] = thing
    return found | {old: found[new] for old, new in FORMER.items()}


KNOWN = _known()
"""The classes whose objects a file can hold, by name."""


class NotPlain(DalembertError):
    """A value that a file cannot hold, by its name."""


def encode(value: Any, arrays: list[np.ndarray]) -> Any:
    """A value as JSON; its arrays are added to `arrays`."""
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, float | np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise NotPlain(f"an array of {array.dtype}")
        arrays.append(array)
        return {"float" if isinstance(value, float) and not isinstance(value, np.generic) else "array": len(arrays) - 1}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return {"tuple": [encode(x, arrays) for x in value]}
    if isinstance(value, list):
        return {"list": [encode(x, arrays) for x in value]}
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
        return {"dict": [[k, encode(x, arrays)] for k, x in value.items()]}
    cls: Any = type(value)
    if KNOWN.get(cls.__name__) is not cls:
        what = "a Python function" if callable(value) and not isinstance(value, type) else "an object of your own"
        raise NotPlain(f"{what}, {getattr(value, '__name__', cls.__name__)}")
    fields = {f.name: encode(getattr(value, f.name), arrays) for f in dataclasses.fields(cls) if f.init}
    return {"kind": cls.__name__, "fields": fields}


def decode(data: Any, arrays: Sequence[np.ndarray]) -> Any:
    """The value again; data that are not of the form that `encode` makes are refused."""
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if not isinstance(data, dict):
        raise DalembertError("its record is not of the form that is written here.")
    if set(data) == {"kind", "fields"}:
        cls = KNOWN.get(data["kind"]) if isinstance(data["kind"], str) else None
        names = {f.name for f in dataclasses.fields(cls) if f.init} if cls is not None else set()
        if cls is None or not isinstance(data["fields"], dict) or not set(data["fields"]) <= names:
            raise DalembertError(f"it names '{str(data['kind'])[:60]}', which is not known here.")
        return cls(**{k: decode(x, arrays) for k, x in data["fields"].items()})
    if len(data) == 1:
        ((form, inside),) = data.items()
        if form in ("array", "float") and isinstance(inside, int) and 0 <= inside < len(arrays):
            return float(arrays[inside]) if form == "float" else arrays[inside]
        if form in ("tuple", "list") and isinstance(inside, list):
            return (tuple if form == "tuple" else list)(decode(x, arrays) for x in inside)
        if form == "dict" and isinstance(inside, list):
            return {str(k): decode(x, arrays) for k, x in inside}
    raise DalembertError("its record is not of the form that is written here.")
