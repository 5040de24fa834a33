"""edge · files: robots from URDF and MJCF files as models, with remarks on all that was not imported unchanged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dalembert._results import Complaint, DalembertError, FileError
from dalembert.io._disk import file_text
from dalembert.io._read import ModelFile
from dalembert.io._robot import Robot
from dalembert.io._tell import model_of
from dalembert.io._urdf import read_urdf
from dalembert.io._xml import Complaints, Element, read_xml
from dalembert.io._yaml import read_tree

SIDE = ".loops.yaml"


def read_robot(
    path: Path,
    *,
    base: str = "fixed",
    loops: str | Path | None = None,
    start: Mapping[str, float] | None = None,
    keyframe: str | None = None,
    stops: float | None = None,
    controls: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> ModelFile:
    """The model of a robot file, which is URDF or MJCF by its root element; nothing outside its folder is opened.

    `base` is "fixed" or "free" (URDF: whether the root link stands on the ground), `loops` a side file (default:
    NAME.loops.yaml beside the file, where there is one), `start` values of joints (URDF) and `keyframe` a key (MJCF) to
    start from, `stops` the stiffness of end stops at the joints' limits, `controls` inputs of actuators (MJCF), by
    name: a number, a formula of t or a function of time. What has no part in the motion and cannot be used is left out
    with a remark; `strict` refuses it.
    """
    if path.suffix == ".xacro":
        raise FileError(path, [Complaint(0, 0, "this is a xacro file, a program that writes a URDF; run xacro on it.")])
    _check_options(base, start, stops)
    root, complaints = read_xml(file_text(path), path), Complaints(path)
    if root.tag == "robot":
        if keyframe is not None:
            raise DalembertError("A URDF has no keyframes; give start= with values of joints.")
        if controls is not None:
            raise DalembertError("controls= is for MJCF; a URDF has no actuators. Add forces to the model.")
        robot = _urdf(root, complaints, base, loops, dict(start or {}), strict)
    elif root.tag == "mujoco":
        given = {"base": base != "fixed", "loops": loops is not None, "start": start is not None}
        if any(given.values()):
            word = next(k for k, x in given.items() if x)
            raise DalembertError(f"{word}= is for URDF; an MJCF file says it itself (freejoint, equality, key).")
        from dalembert.io._mjcf import read_mjcf

        robot = read_mjcf(root, complaints, keyframe=keyframe, controls=controls, strict=strict)
    else:
        complaints.add(root, f"<{root.tag[:40]}> is no robot: a URDF begins with <robot>, an MJCF with <mujoco>.")
        robot = Robot("")
    complaints.raise_all()
    try:
        with np.errstate(all="ignore"):
            model = model_of(robot, complaints, stops, strict=strict)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        complaints.add(None, f"its numbers cannot be used ({error}).")
        model = None
    complaints.raise_all()
    assert model is not None
    return ModelFile(model, {}, f"from {path.name}"[:300], tuple(robot.remarks))


def _check_options(base: str, start: Mapping[str, float] | None, stops: float | None) -> None:
    if base not in ("fixed", "free"):
        raise DalembertError(f"base={base!r} is unknown; use 'fixed' or 'free'.")
    numbers: dict[str, Any] = {f"start: '{k}'": x for k, x in (start or {}).items()}
    for what, value in numbers.items():
        if isinstance(value, bool | str) or not np.isscalar(value) or not math.isfinite(value):  # pyright: ignore
            raise DalembertError(f"{what} must be a number, not {value!r}.")
    if stops is not None and (isinstance(stops, bool | str) or not math.isfinite(stops) or stops <= 0):
        raise DalembertError(f"stops= is the stiffness of end stops, a number greater than zero, not {stops!r}.")


def _urdf(root: Element, complaints: Complaints, base: str, loops, start: dict[str, float], strict: bool) -> Robot:
    beside = root.path.with_suffix(SIDE)
    side = Path(loops) if loops is not None else beside if beside.exists() else None
    if side is not None:
        more, own = read_side(side, follow=loops is not None)
        root.children += more
        start = own | start
    robot = read_urdf(root, complaints, start=start, strict=strict)
    robot.free_base = base == "free"
    if side is not None:
        robot.remarks.insert(0, f"Loops and start values of '{side.name}' were read, too.")
    return robot


# ---- the side file -----------------------------------------------------------------------------------------------


def read_side(path: Path, *, follow: bool) -> tuple[list[Element], dict[str, float]]:
    """A side file's loops, as the elements they could be in the URDF, and its start values.

    loops:
      - {name: close, type: revolute, link1: {link: a, xyz: [0.3, 0, 0]}, link2: {link: b}, axis: [0, 0, 1]}
    start: {shoulder: 0.4}
    """
    tree, wrong = read_tree(file_text(path, follow=follow))
    if tree is None or wrong:
        raise FileError(path, wrong)

    def need(good: bool, place: tuple, text: str) -> None:
        if not good:
            raise FileError(path, [Complaint(*tree.at(place), text)])

    found = tree.plain()
    known = isinstance(found, dict) and set(found) <= {"loops", "start"}
    need(known, (), "a side file is a mapping with loops and start, and no more.")
    loops, start = found.get("loops") or [], found.get("start") or {}
    mappings = isinstance(loops, list) and all(isinstance(x, dict) for x in loops)
    need(mappings, ("loops",), "loops must be a list of mappings.")
    need(isinstance(start, dict), ("start",), "start must be joints with numbers.")
    for key, value in start.items():
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        need(good, ("start", key), f"start: '{key}' must be a finite number.")
    made = [_loop_element(entry, path, *tree.at(("loops", k))) for k, entry in enumerate(loops)]
    return made, {k: float(x) for k, x in start.items()}


def _loop_element(entry: dict[str, Any], path: Path, line: int, column: int) -> Element:
    loop = Element("loop_joint", {}, path, line, column)
    for key, value in entry.items():
        if isinstance(value, dict):
            child = Element(key, {k: _attribute(x) for k, x in value.items()}, path, line, column)
            loop.children.append(child)
        elif key == "axis":
            loop.children.append(Element("axis", {"xyz": _attribute(value)}, path, line, column))
        else:
            loop.attributes[key] = _attribute(value)
    return loop


def _attribute(value: Any) -> str:
    """A value as XML writes it: numbers one after the other."""
    if isinstance(value, list):
        return " ".join(_attribute(x) for x in value)
    return repr(value) if isinstance(value, float) else str(value)
