"""edge · files: a model as a readable file, from which the same model can be loaded."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dalembert._disk import write_in_place
from dalembert._results import DalembertError, check_output
from dalembert.io._read import FILE_ENDINGS, read_from_text
from dalembert.io._schema import FORMAT
from dalembert.io._yaml import resolve
from dalembert.model import TYPED, Element, Model

WIDTH = 110
_PLAIN = re.compile(r"[A-Za-z_][\w ./+*^()=-]*\Z", re.ASCII)


def save(model: Model, path, *, run: Mapping[str, Any] | None = None, summary: str = "") -> Path:
    """Write a model as YAML; `load` gives an equal one.

    **Arguments**: `model`; one with mistakes, or with Python functions, is refused: a file holds data only. `path` ends
    in .yaml or .yml. `run`: how `dalembert run` runs it, by t_end, rtol, integrator, dt, max_steps and tolerance.
    `summary`: a sentence at the head of the file.

    **Returns** the path.

        >>> import dalembert as da
        >>> da.save(da.mechanism("pendulum"), "pendulum.yaml", run={"t_end": 2.0}, summary="A point on a rod.").name
        'pendulum.yaml'
    """
    check_output(path, FILE_ENDINGS)
    text = text_of(model, run=run, summary=summary)
    return write_in_place(path, ".yaml", lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def text_of(model: Model, *, run: Mapping[str, Any] | None = None, summary: str = "") -> str:
    """The text of the file that `save` writes."""
    model.validate()
    for statement in model.statements:
        _need_data(model, statement)
    head: dict[str, Any] = {"dalembert": FORMAT, "name": model.name}
    head |= {"summary": summary} if summary else {}
    head |= {"space": model.space}
    gravity = model.gravity.tolist()
    head |= {"gravity": gravity} if any(gravity) else {}
    head |= {"closing": list(model.closing)} if model.closing else {}
    head |= {"run": dict(run)} if run else {}
    lines = ["# A dalembert model: SI units, angles in radians."]
    for key, value in head.items():
        lines += _pair(key, value, 0)
    for section, statements in model.sections().items():
        if not statements:
            continue
        lines += ["", f"{section}:"]
        for statement in statements:
            lines += _entry(statement)
    text = "\n".join(lines) + "\n"
    back = read_from_text(text, Path(f"{model.name}.yaml")).model
    if back != model:
        raise DalembertError(f"Model '{model.name}' cannot be written as a file that gives the same model.")
    return text


def _need_data(model: Model, statement: Element) -> None:
    for key, value in statement.arguments.items():
        if _holds_function(value):
            raise DalembertError(
                f"Model '{model.name}' cannot be written as a file: {statement.type} '{statement.name}' has a Python "
                f"function as {key}; give a formula or a function of da.functions."
            )


def _holds_function(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_function(x) for x in value.values())
    if isinstance(value, list):
        return any(_holds_function(x) for x in value)
    return callable(value)


# ---- the text ----------------------------------------------------------------------------------------------------


def _entry(statement: Element) -> list[str]:
    keys = ({"type": statement.type} if statement.section in TYPED else {}) | statement.arguments
    lines = [line for key, value in keys.items() for line in _pair(key, value, 4)]
    return [f"  - {lines[0].strip()}", *lines[1:]]


def _pair(key: str, value: Any, indent: int) -> list[str]:
    """`key: value`, on one line if it fits, else below it."""
    start = f"{' ' * indent}{_scalar(key)}:"
    line = f"{start} {_flow(value)}"
    rows = isinstance(value, list) and any(isinstance(x, list | dict) for x in value)
    if not isinstance(value, list | dict) or not value or (len(line) <= WIDTH and not (rows and len(line) > 60)):
        return [line]
    if isinstance(value, dict):
        return [start, *(row for k, x in value.items() for row in _pair(k, x, indent + 2))]
    if rows:
        return [start, *(row for x in value for row in _item(x, indent + 2))]
    return [start + " [", *_wrapped(value, indent + 2), " " * indent + "]"]


def _item(value: Any, indent: int) -> list[str]:
    line = f"{' ' * indent}- {_flow(value)}"
    if not isinstance(value, list | dict) or not value or len(line) <= WIDTH:
        return [line]
    if isinstance(value, dict):
        rows = [row for k, x in value.items() for row in _pair(k, x, indent + 2)]
    elif any(isinstance(x, list | dict) for x in value):
        rows = [row for x in value for row in _item(x, indent + 2)]
    else:
        return [f"{' ' * indent}- [", *_wrapped(value, indent + 2), " " * (indent + 2) + "]"]
    return [f"{' ' * indent}- {rows[0].strip()}", *rows[1:]]


def _wrapped(values: list, indent: int) -> list[str]:
    """A long list of scalars over several lines."""
    lines, line = [], " " * indent
    for value in values:
        word = _flow(value) + ","
        if len(line) + len(word) + 1 > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = " " * indent
        line += word + " "
    return [*lines, line.rstrip()]


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(x)}" for k, x in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(x) for x in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DalembertError(f"{value} cannot be written: a file holds finite numbers only.")
        return repr(value)
    text = str(value)
    # words that some programs read as true or false are quoted, too
    tame = _PLAIN.match(text) and text == text.strip() and isinstance(resolve(text), str)
    if tame and text.lower() not in ("y", "n", "yes", "no", "on", "off"):
        return text
    return '"' + "".join(_escaped(c) for c in text) + '"'


def _escaped(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    if c.isprintable():
        return c
    return {"\n": "\\n", "\t": "\\t"}.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")


def starter(name: str) -> str:
    """A file to start from: a pendulum, and other elements in comments."""
    return _STARTER.replace("NAME", _scalar(name))


_STARTER = """\
# A dalembert model: SI units, angles in radians; any number may be a formula: 45*deg, 2*0.3, sqrt(2)/2.
#   dalembert check FILE      looks at it: every mistake with its line, then rows, rank, redundancy, mobility
#   dalembert run FILE        simulates it
#   dalembert schema          prints the form of these files as JSON Schema, for an editor that helps while typing
dalembert: 1
name: NAME
summary: a rod on a pin
space: plane            # or space: then points and vectors have 3 numbers
gravity: [0, -9.81]
run: {t_end: 10}        # also rtol, integrator, dt, max_steps, tolerance

bodies:
  - name: rod
    mass: 1.0
    inertia: 0.0833     # about the centre of mass; in space 3 principal moments or a 3x3 tensor
    position: [0.5, 0]  # of the centre of mass, at the start
    angle: 0            # or 45*deg; in space: quaternion, rotation, or axis with angle
    # velocity: [0, 0]
    # angular_velocity: 0

# Frames fixed in a body, for joints that are placed by two of them:
# markers:
#   - {name: tip, body: rod, at: [1, 0]}

joints:
  - type: revolute      # weld, prismatic, distance, point_on_curve, driver, gear, rolling_disc, …
    name: pin
    i: ground           # every model has a ground
    j: rod
    at: [0, 0]          # in the world, at the start; in space with an axis
  # - type: driver      # prescribes a coordinate of a joint: a number, a formula of t, or a function of time
  #   name: drive
  #   joint: pin
  #   motion: speed*t
  #   parameters: {speed: 6.28}

forces:
  - type: joint_spring  # force, torque, spring_damper, bushing, stop, friction, motor, pd_control, …
    name: bearing
    joint: pin
    damping: 0.05
  # - type: torque
  #   name: wind
  #   body: rod
  #   torque: {harmonic: {amplitude: 0.2, omega: 3.0}}
"""
