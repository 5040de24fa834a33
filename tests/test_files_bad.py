"""Hundreds of bad model files, made from good ones by one mistake each: refused with the right sentence, at its line.

The changed line ends in `# here`; that line, and no other, must be complained about, once.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from _helpers_files import library

from dalembert import model as m
from dalembert._results import FileError
from dalembert.io import text_of
from dalembert.io._read import read_from_text
from dalembert.model import ELEMENTS, forms_of, is_required

HERE = "  # here"


class Case(NamedTuple):
    label: str
    text: str
    sentence: str


@functools.cache
def lines_of(model: str) -> list[str]:
    return text_of(library()[model]).splitlines()


def entries() -> list[tuple[str, str, str, int, int]]:
    """One entry of each kind: model, kind, name, its first line and the line after its last."""
    found, seen = [], set()
    for model in library():
        lines = lines_of(model)
        kinds = {"bodies:": "body", "markers:": "marker", "limits:": "limit", "shapes:": "shape"}
        kinds |= {"inputs:": "input", "controllers:": "controller"}
        section = ""
        for k, line in enumerate(lines):
            section = line if line.endswith(":") and not line.startswith(" ") else section
            if not line.startswith("  - "):
                continue
            kind = kinds.get(section) or line.split(": ")[1]
            kind = f"measured_{kind}" if section == "measurements:" else kind
            end = next((n for n in range(k + 1, len(lines)) if not lines[n].startswith("    ")), len(lines))
            name = re.search(r"name: (.*)", "\n".join(lines[k:end]))[1]
            if kind not in seen:
                seen.add(kind)
                found.append((model, kind, name, k, end))
    return found


def key_line(lines: list[str], start: int, end: int, key: str) -> tuple[int, int] | None:
    """Where a key of an entry stands, and the line after its value."""
    for k in range(start, end):
        if re.match(rf'  [- ] "?{key}"?:', lines[k]):
            stop = next((n for n in range(k + 1, end) if not lines[n].startswith("     ") and lines[n] != "    ]"), end)
            return k, stop
    return None


def changed(model: str, start: int, stop: int, *new: str) -> str:
    lines = list(lines_of(model))
    if stop > start and lines[start].startswith("  - ") and new and new[0].startswith("    "):
        new = ("  - " + new[0][4:], *new[1:])
    return "\n".join([*lines[:start], *new, *lines[stop:]]) + "\n"


# for each kind of argument: wrong values, and what the sentence says
TEXT = ("oops", "must be a number, not the text 'oops'")
NUMBERS = [
    TEXT,
    (".nan", "must be finite, not nan"),
    (".inf", "must be finite, not inf"),
    ("true", "not true"),
    ("[1]", "not a list of 1"),
]
WRONG = {
    "Name": [
        ("12", "must be a text, not 12; put it in quotes"),
        ("[a]", "must be a text"),
        ("ground", "this name is taken"),
    ],
    "Place": [
        ("nobody", "there is no body or marker 'nobody'"),
        ("7", "must be a text, not 7"),
        ("[0, 0]", "must be a text"),
    ],
    "Places": [("a", "must be a list of names"), ("[nobody]", "there is no body or marker 'nobody'")],
    "JointName": [("no_joint", "there is no joint 'no_joint'"), ("{a: 1}", "must be a text, not a mapping")],
    "Wheel": [("no_wheel", "there is no joint 'no_wheel'"), ("{a: 1}", "must be a text, not a mapping")],
    "Coordinate": [("sideways", "has no coordinate 'sideways'"), ("1", "must be a text, not 1")],
    "Number": NUMBERS,
    "Positive": [*NUMBERS[:3], ("-1", "must be greater than zero, not -1"), ("0", "must be greater than zero, not 0")],
    "Whole": [("1.5", "must be a whole number, not 1.5"), ("one", "must be a whole number, not the text 'one'")],
    "Flag": [("yes", "must be true or false, not the text 'yes'"), ("1", "must be true or false, not 1")],
    "Impact": [("hertz", "must be one of newton, poisson, not the text 'hertz'"), ("1", "must be one of newton")],
    "bool": [("on", "must be true or false, not the text 'on'")],
    "Vector": [
        ("[1]", "must be 2 numbers in the plane, 3 in space"),
        ("5", "must be 2 numbers"),
        ("[0, x, 0]", "item 2 must be a number"),
        ("[.nan, 0, 1]", "item 1 must be finite"),
    ],
    "Vectors": [
        ("[[0, 0]]", "points must be"),
        ("7", "must be a list of points"),
        ("{file: /etc/passwd}", "must be the plain name of a .csv"),
    ],
    "Quaternion": [("[1, 0, 0]", "must be 4 numbers"), ("[0, 0, 0, 0]", "quaternion has no length")],
    "Matrix": [("7", "must be a matrix"), ("[[1, a]]", "item 1: item 2 must be a number")],
    "Inertia": [("-1", "inertia must be"), ("[1, 2]", "must be a number in the plane"), ("much", "must be a number")],
    "Angular": [("fast", "must be a number"), ("[1, 2, 3, 4]", "must be")],
    "Motion": [
        ("sin(t", "')' is missing"),
        ("{wave: 1}", "'wave' is no function of time"),
        ("{step: {begin: 0}}", "end is missing"),
        ("[1]", "must be a number, a formula"),
        ('"__import__(1)"', "there is no function '__import__'"),
        ("q + 1", "'q' is unknown"),
        ("true", "not true"),
    ],
    "Motions": [
        ("[1, 2, 3, 4, 5]", "must be"),
        ("[oops(t), 0, 0]", "must be 2 numbers|there is no function 'oops'|must be 1 numbers"),
        ("{harmonic: 3}", "must be a mapping with amplitude"),
    ],
    "Formula": [
        ("2 +", "it ends too early"),
        ("nothing_known", "'nothing_known' is unknown"),
        ("[1]", "must be a number, a formula"),
    ],
    "Formulas": [('"a.x +"', "it ends too early"), ("zz.x", "'zz.x' is unknown"), ("7", "must be a formula or a list")],
    "Loads": [
        ("[]", "law must be a function, or for each body"),
        ("[{push: 1}]", "'push' is unknown"),
        ("hard", "must be a list"),
    ],
    "Parameters": [
        ("{t: 1}", "'t' cannot name a parameter"),
        ("{k: x}", "must be a number"),
        ("[1]", "must be names with numbers"),
    ],
    "Terms": [
        ("[[pin_a, 1]]", "at least two terms"),
        ("[1, 2]", "must be a mapping with joint"),
        ("[[nope, 1], [pin_a, 1]]", "there is no joint 'nope'"),
    ],
    "Directions": [("[up]", "held must be some of"), ("x", "must be a list of names")],
    "ShapeKind": [("bax", "Did you mean 'box'?"), ("7", "must be one of box, sphere")],
    "Sizes": [
        ("[1, 2, 3, 4]", "must be 1 to 3 numbers"),
        ("[-1, 2]", "size must be"),
        ("[.nan, 1]", "item 1 must be finite"),
        ("big", "must be 1 to 3 numbers"),
    ],
    "Colour": [("[1, 1, 1]", "must be 4 numbers"), ("[2, 0, 0, 1]", "from 0 to 1"), ("red", "must be 4 numbers")],
    "MeshFile": [
        ("../hull.stl", "must be the name of a file in the model file's folder"),
        ("/etc/passwd", "must be the name of a file"),
        ("7", "must be a text"),
    ],
    "Unit": [("7", "must be a text, not 7; put it in quotes"), ("[m]", "must be a text")],
    "Component": [("Fq", "must be one of Fx"), ("Fz", "component must be one of Fx, Fy, Mz"), ("1", "must be one of")],
    "AxesOf": [("body", "must be joint or world, not the text 'body'")],
    "ItemName": [("nothing", "there is no joint, driver or force 'nothing'"), ("7", "must be a text, not 7")],
    "NamedFormulas": [
        ("[1]", "must be names with formulas"),
        ("{}", "must be names with formulas"),
        ("{nobody: 1}", "there is no input 'nobody'|there is no state 'nobody'"),
        ("{w: [1]}", "must be a number"),
        ("{w: 2 +, z: 2 +, sum: 2 +, n: 2 +}", "it ends too early"),
    ],
    "Readings": [("[nobody]", "'nobody' is unknown"), ("fold", "must be a list of names")],
    "Rule": [("fair", "must be one of"), (3, "must be one of")],
    "Along": [("sideways", "must be world or body, not the text 'sideways'")],
}


WRONG["Varying"] = [*WRONG["Motion"], ("oops", "'oops' is unknown"), *NUMBERS[1:3]]

ARGUMENTS = {getattr(m, name).__metadata__[0]: name for name in WRONG if hasattr(m, name)}
"""The names of arguments by their forms."""


def cases() -> list[Case]:
    made: list[Case] = []
    for model, kind, name, start, end in entries():
        lines = lines_of(model)

        def add(label, text, sentence, kind=kind):
            made.append(Case(f"{kind}-{label}", text, sentence))

        add(
            "unknown key", changed(model, end, end, f"    flavour: sweet{HERE}"), "'flavour' is unknown; known are name"
        )
        twice, _ = key_line(lines, start, end, "name")
        add(
            "double key",
            changed(model, end, end, f"    name: {name}{HERE}"),
            f"'name' is given twice here (first in line {twice + 1})",
        )
        add(
            "double name",
            changed(
                model,
                end,
                end,
                *(re.sub(r"^(  - |    )name: .*", rf"\1name: {name}{HERE}", x) for x in lines[start:end]),
            ),
            f"'{name}': this name is taken",
        )
        if kind not in ("body", "marker", "limit", "shape", "input", "controller"):
            word = ELEMENTS[kind].type
            add("type", changed(model, start, start + 1, f"  - type: {word}x{HERE}"), f"Did you mean '{word}'?")
            add(
                "no type",
                changed(model, start, start + 2, f"  - {lines[start + 1].strip()}{HERE}"),
                "type is missing; give one of",
            )
        for key, parameter in ELEMENTS[kind].fields().items():
            place = key_line(lines, start, end, key)
            if place is None:
                continue
            at, stop = place
            if is_required(parameter):
                gone = [x for n, x in enumerate(lines[start:end], start) if not at <= n < stop]
                gone[0] = "  - " + gone[0].strip().removeprefix("- ") + HERE
                add(f"no {key}", changed(model, start, end, *gone), f"{key} is missing; give ")
            misspelt = f"{key}q" if len(key) > 2 else f"{key}qqqq"
            if not is_required(parameter):
                add(f"misspelt {key}", changed(model, at, stop, f"    {misspelt}: 1{HERE}"), f"'{misspelt}' is unknown")
            for value, sentence in WRONG[ARGUMENTS[forms_of(ELEMENTS[kind])[key]]]:
                add(f"{key}={value}", changed(model, at, stop, f"    {key}: {value}{HERE}"), sentence)
    return made


CASES = cases()

PLANE, SPACE = (f"dalembert: 1\nname: m\nspace: {space}\n" for space in ("plane", "space"))
TWO = "bodies:\n  - {name: a, mass: 1, inertia: 1}\n  - {name: b, mass: 1, inertia: 1, position: [1, 0]}\n"
SOLID = TWO.replace("inertia: 1", "inertia: [1, 1, 1]").replace("[1, 0]", "[1, 0, 0]")
PIN = TWO + "joints:\n  - {type: revolute, name: pin, i: ground, j: a, at: [0, 0]}\n"


def body(space: str, **keys: str) -> str:
    said = {"name": "a", "mass": "1", "inertia": "1" if space == PLANE else "[1, 1, 1]"} | keys
    return space + "bodies:\n  - {" + ", ".join(f"{k}: {x}" for k, x in said.items()) + "}" + HERE + "\n"


def joint(space: str, entry: str) -> str:
    return space + (TWO if space == PLANE else SOLID) + f"joints:\n  - {{name: J, i: a, j: b, {entry}}}{HERE}\n"


def on_pin(entry: str, section: str = "") -> str:
    return PLANE + PIN + section + f"  - {{name: E, joint: pin, {entry}}}{HERE}\n"


FORCES = "forces:\n"
MEANINGS = [
    (body(PLANE, mass="-2"), "Body 'a': mass must be greater than zero, not -2"),
    (body(PLANE, mass="0"), "Body 'a': mass must be greater than zero, not 0"),
    (body(PLANE, mass="1e400"), "Body 'a': mass must be finite, not inf"),
    (body(PLANE, mass="1e99"), "mass is too large (1e+99)"),
    (body(PLANE, inertia="[1, 1, 1]"), "inertia must be a number"),
    (body(SPACE, inertia="1"), "inertia must be 3 principal moments or a finite 3x3 tensor"),
    (body(SPACE, inertia="[1, 1, 3]"), "the largest exceeds the sum of the others"),
    (body(SPACE, inertia="[1, -1, 1]"), "inertia must be positive definite"),
    (body(SPACE, inertia="[[1, 2, 0], [0, 1, 0], [0, 0, 1]]"), "inertia must be a symmetric tensor"),
    (body(SPACE, inertia="[[1, 0], [0, 1], [0, 0]]"), "inertia must be 3 principal moments"),
    (body(PLANE, position="[0, 0, 0]"), "position must be 2 numbers (the model is in the plane)"),
    (body(SPACE, position="[0, 0]"), "position must be 3 numbers (the model is in space)"),
    (body(PLANE, quaternion="[1, 0, 0, 0]"), "in the plane give the orientation by angle: only"),
    (body(SPACE, quaternion="[0, 0, 0, 0]"), "quaternion has no length"),
    (body(SPACE, axis="[0, 0, 0]", angle="1"), "axis has no direction (zero vector)"),
    (
        body(SPACE, axis="[0, 0, 1]", quaternion="[1, 0, 0, 0]"),
        "give one of rotation:, quaternion:, or axis: with angle:",
    ),
    (body(SPACE, rotation="[[1, 0, 0], [0, 1, 0], [0, 0, -1]]"), "rotation must be a 3x3 rotation matrix"),
    (body(SPACE, angular_velocity="1"), "angular_velocity must be 3 numbers"),
    (
        body(PLANE, angle="90 grad"),
        "angle must be a number, not the text '90 grad'; expression '90 grad': 'grad' is not expected; write 90*grad",
    ),
    (body(PLANE, angle="45*dge"), "expression '45*dge': 'dge' is no number"),
    (body(PLANE, angle="2*t"), "'t' is no number; it may use pi, deg, sin"),
    (body(PLANE, mass="2*(3"), "not the text '2*(3'; expression '2*(3': ')' is missing at the end"),
    (body(PLANE, mass="1 - 1"), "mass must be greater than zero, not 0"),
    (body(PLANE, mass="sqrt(-1)"), "it is no finite number"),
    (body(PLANE, mass="9^9^9^9"), "a part of it is no finite number"),
    (body(PLANE, mass='"step(1, 0, 2)"'), "step(…) is a function of time; it cannot stand in a number"),
    (body(PLANE, position="[1, 2*]"), "item 2 must be a number, not the text '2*'; expression '2*': it ends too"),
    (body(PLANE, name="a.b"), "a name must not contain '.'"),
    (body(PLANE, name='" a"'), "name must be one line of at most 100 characters"),
    (body(PLANE, name="a" * 101), "name must be one line of at most 100 characters"),
    (body(PLANE, name='""'), "name must not be empty"),
    (joint(PLANE, "type: revolute"), "say where it is: at: [...]"),
    (joint(PLANE, "type: prismatic, at: [0, 0]"), "give its axis, a vector"),
    (joint(PLANE, "type: prismatic, at: [0, 0], axis: [0, 0]"), "axis has no direction (zero vector)"),
    (joint(PLANE, "type: prismatic, at: [0, 0], axis: x"), "axis must be 2 numbers in the plane"),
    (
        joint(PLANE, "type: prismatic, at: [0, 0], axis: [1, 0, 0]"),
        "axis must be 2 numbers (the model is in the plane)",
    ),
    (joint(PLANE, "type: spherical, at: [0, 0]"), "a spherical joint exists only in space"),
    (joint(SPACE, "type: angle_lock"), "a angle_lock joint exists only in the plane"),
    (joint(SPACE, "type: revolute, at: [0, 0, 0]"), "give its axis"),
    (joint(SPACE, "type: screw, at: [0, 0, 0], axis: [0, 0, 1], pitch: 0"), "pitch is zero: that is a revolute joint"),
    (joint(SPACE, "type: universal, at: [0, 0, 0], axis_i: [1, 0, 0], axis_j: [1, 1, 0]"), "must be perpendicular"),
    (joint(SPACE, "type: planar, at: [0, 0, 0], normal: [0, 0, 1], x: [0, 0, 2]"), "x is parallel to the axis"),
    (joint(SPACE, "type: constant_angle, axis_i: [0, 0, 1], axis_j: [0, 0, 1]"), "the axes are parallel"),
    (joint(SPACE, "type: rolling_disc, radius: 1, axis: [0, 0, 1]"), "the disc lies flat"),
    (joint(PLANE, "type: generic, held: [x, x], at: [0, 0]"), "held must be some of x, y, angle, each once"),
    (joint(PLANE, "type: distance, length: -1"), "length must be greater than zero"),
    (joint(PLANE, "type: no_slip, radius_i: 0, radius_j: 1"), "radius_i must not be zero"),
    (joint(PLANE, "type: point_on_curve, points: [[0, 0]]"), "points must be at least two"),
    (joint(PLANE, "type: distance_driver, length: 1, at_i: [1, 1], at_j: [1, 1]"), "at_i and at_j are the same point"),
    (
        PLANE + TWO + f"joints:\n  - {{type: revolute, name: J, i: a, j: a, at: [0, 0]}}{HERE}\n",
        "connects body 'a' to itself",
    ),
    (
        PLANE + TWO + f"joints:\n  - {{type: weld, name: J, i: ground, j: ground}}{HERE}\n",
        "connects body 'ground' to itself",
    ),
    (
        PLANE
        + TWO
        + f"joints:\n  - {{type: revolute, name: J, i: ground, j: aa, at: [0, 0]}}{HERE}\n"
        + "  - {type: driver, name: D, joint: J, motion: t}\n"
        + "forces:\n  - {type: joint_spring, name: F, joint: J, damping: 1}\n",
        "Joint 'J': there is no body or marker 'aa'.",
    ),
    (on_pin("type: driver, motion: 9**9**9"), "a part of it is no finite number"),
    (on_pin("type: driver, motion: 1/(2-2)"), "a part of it is no finite number"),
    (
        on_pin("type: driver, motion: {table: {times: [0, 0], values: [1, 1], degree: 1}}"),
        "must rise from point to point",
    ),
    (on_pin("type: driver, motion: {table: {times: [0, 1], values: [1]}}"), "do not pair up"),
    (on_pin("type: driver, motion: {table: {times: [0, 1], values: [1, 2]}}"), "needs at least 4 points"),
    (
        on_pin("type: driver, motion: {table: {times: [0, 5e-324, 1, 2], values: [1, 1e60, 0, 1]}}"),
        "no spline goes through these points",
    ),
    (
        PLANE + PIN + f"  - {{type: pfaffian, name: R, bodies: [a], residual: a.vx, size: 3}}{HERE}\n",
        "these are 1 formulas, but size is 3",
    ),
    (f'dalembert: 1\nname: m\nsummary: "a\\nb"{HERE}\nspace: plane\n' + TWO, "summary must be one line"),
    (on_pin("type: driver, motion: {sum: []}"), "give at least one part"),
    (on_pin("type: driver, motion: {polynomial: []}"), "polynomial must be a list of finite numbers"),
    (on_pin("type: stop, stiffness: 1", FORCES), "give lower:, upper: or both"),
    (on_pin("type: stop, stiffness: 1, lower: 1, upper: 0", FORCES), "lower=1 must be less than upper=0"),
    (on_pin("type: stop, stiffness: 1, lower: 1, exponent: 0.5", FORCES), "exponent must be at least 1"),
    (on_pin("type: motor", FORCES), "give either torque: or voltage:"),
    (on_pin("type: motor, voltage: 1", FORCES), "voltage: needs torque_constant: and resistance:"),
    (on_pin("type: friction, coulomb: -1", FORCES), "coulomb must not be negative"),
    (
        PLANE + TWO + FORCES + f"  - {{type: bushing, name: F, i: a, j: b, at: [0, 0], stiffness: [1, -1, 1]}}{HERE}\n",
        "stiffness must not be negative",
    ),
    (
        PLANE + TWO + FORCES + f"  - {{type: beam, name: F, i: a, j: b, E: 1, area: 1}}{HERE}\n",
        "I is missing; a beam in plane needs E, area, I",
    ),
    (
        PLANE + TWO + FORCES + f"  - {{type: force, name: F, body: ground, force: [1, 0]}}{HERE}\n",
        "acts only on ground",
    ),
    (
        PLANE + TWO + FORCES + f"  - {{type: spring_damper, name: F, i: a, j: a}}{HERE}\n",
        "at_i and at_j are the same point",
    ),
    (f"dalembert: 2{HERE}\nname: m\nspace: plane\n" + TWO, "dalembert must be 1, not 2"),
    (f"dalembert: 1\nname: m\nspace: time{HERE}\n" + TWO, "space must be 'plane' or 'space', not the text 'time'"),
    (f"name: m{HERE}\nspace: plane\n" + TWO, "dalembert is missing; give"),
    (f"dalembert: 1{HERE}\nname: m\n" + TWO, "space is missing; give plane"),
    (PLANE + f"gravity: 9.81{HERE}\n" + TWO, "gravity must be 2 numbers in the plane"),
    (PLANE + f"gravity: [0, 0, -9.81]{HERE}\n" + TWO, "gravity must be 2 numbers (the model is in the plane)"),
    (PLANE + f"run: {{t_end: -1}}{HERE}\n" + TWO, "run: t_end must be greater than zero, not -1"),
    (PLANE + f"run: {{tol: 1}}{HERE}\n" + TWO, "run: 'tol' is unknown"),
    (PLANE + f"run: fast{HERE}\n" + TWO, "run must be a mapping"),
    (PLANE + f"joint: []{HERE}\n" + TWO, "'joint' is unknown; known are"),
    (PLANE + f"bodies: []{HERE}\n", "bodies: there is none"),
    (PLANE + f"bodies: {{a: 1}}{HERE}\n", "bodies must be a list"),
    (PLANE + f"bodies:\n  - a{HERE}\n", "bodies: item 1 must be a mapping with a name"),
    (
        PLANE + TWO + f"joints:\n  - {{type: force, name: F, body: a, force: [1, 0]}}{HERE}\n",
        "a force stands under forces",
    ),
    (f"- 1{HERE}\n", "a model file is a mapping"),
    (PLANE + f"bodies: ]{HERE}\n", "this is not YAML"),
    (PLANE + f"bodies:\n\t- a{HERE}\n", "a tab cannot stand here"),
]
MEANINGS = [Case(f"meaning {k}", text, sentence) for k, (text, sentence) in enumerate(MEANINGS)]


def test_there_are_enough():
    assert len({c.text for c in CASES}) >= 1000
    assert {c.label.split("-")[0] for c in CASES} == set(ELEMENTS)


@pytest.mark.parametrize("kind", ELEMENTS)
def test_one_mistake_one_sentence_one_place(kind):
    for case in CASES:
        if case.label.startswith(f"{kind}-"):
            look(case)


@pytest.mark.parametrize("case", MEANINGS, ids=[c.sentence[:50] for c in MEANINGS])
def test_values_that_cannot_be(case):
    look(case)


def look(case: Case) -> None:
    wanted = {n for n, line in enumerate(case.text.splitlines(), 1) if line.endswith(HERE)}
    with pytest.raises(FileError) as caught:
        read_from_text(case.text, Path("m.yaml"))
    found = caught.value.complaints
    sentence = "|".join(map(re.escape, case.sentence.split("|")))
    assert any(re.search(sentence, c.text) and c.line in wanted for c in found), (case.label, found)
    # where a name is gone, those who speak of it are told, too; nothing else follows from one mistake
    gone = ("there is no body or marker", "is unknown; it may", "there is no input", "there is no measurement")
    lines = {c.line for c in found if len(found) == 1 or not any(words in c.text for words in gone)}
    assert lines == wanted, (case.label, found)
