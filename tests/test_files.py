"""Model files: what is written comes back equal, what is wrong is told with its place, the command line takes files."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from _helpers_cli import dalembert, in_process
from _helpers_files import library

import dalembert as da
from dalembert import functions
from dalembert._results import DalembertError, FileError
from dalembert.io import json_schema, read, starter, text_of
from dalembert.io._read import read_from_text
from dalembert.io._yaml import read_tree, resolve
from dalembert.mechanisms import FILES, mechanisms
from dalembert.model import ELEMENTS, TYPED, forms_of

ROOT = Path(__file__).parent.parent
HEAD = "dalembert: 1\nname: m\nspace: plane\n"
ROD = "bodies:\n  - {name: rod, mass: 1, inertia: 1}\n"


def complaints(tmp_path, text: str):
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        da.load(path)
    return caught.value.complaints


def loaded(tmp_path, text: str) -> da.Model:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    return da.load(path)


# ---- there and back ----------------------------------------------------------------------------------------------


def test_the_library_here_has_every_element_and_every_argument():
    used = {(s.key, key) for model in library().values() for s in model.statements for key in s.arguments}
    assert used == {(kind, key) for kind, element in ELEMENTS.items() for key in element.fields()}


@pytest.mark.parametrize("name", library())
def test_round_trip_of_every_element(name, tmp_path):
    model = library()[name]
    back = da.load(da.save(model, tmp_path / "model.yaml"))
    assert back == model
    told = [{k: [s.arguments for s in part] for k, part in m.sections().items()} for m in (back, model)]
    assert told[0] == told[1], "in order: only limits of measurements are read after these"
    assert text_of(back) == text_of(model)


def test_numbers_come_back_exactly(tmp_path):
    rng = np.random.default_rng(1)
    numbers = [*(rng.standard_normal(200) * 10.0 ** rng.integers(-30, 30, 200)), 5e-324, 0.1, 1 / 3, -0.0, 1e22, 2**53]
    model = da.Model("numbers")
    model.body("a", mass=1, inertia=1)
    for k, x in enumerate(numbers):
        model.marker(f"m{k}", "a", position=(x, -x))
    back = da.load(da.save(model, tmp_path / "n.yaml"))
    found = [back.markers[f"m{k}"].position[0] for k in range(len(numbers))]
    assert np.array(found).tobytes() == np.array(numbers).tobytes()


def test_odd_names_come_back(tmp_path):
    names = [
        "yes",
        "no",
        "1",
        "1e3",
        "null",
        "~",
        "a: b",
        "a #b",
        "Größe",
        '"',
        "\\",
        "- x",
        "[",
        "{a}",
        "'",
        "*a",
        "%",
        "t, u",
    ]
    model = da.Model("!tag & <<")
    for name in names:
        model.body(name, mass=1, inertia=1)
    assert list(da.load(da.save(model, tmp_path / "n.yaml")).bodies) == names


def test_python_functions_are_refused_by_name(tmp_path):
    model = da.Model("m")
    model.revolute("pin", model.ground, model.body("a", mass=1, inertia=1), at=(0, 0))
    model.driver("motor", "pin", lambda t: 2 * t)
    with pytest.raises(DalembertError, match="driver 'motor' has a Python function as motion"):
        da.save(model, tmp_path / "m.yaml")
    assert not list(tmp_path.iterdir())


def test_a_model_with_mistakes_is_not_written(tmp_path):
    model = da.Model("m")
    model.body("a", mass=-1, inertia=1)
    with pytest.raises(DalembertError, match="mass must be greater than zero"):
        da.save(model, tmp_path / "m.yaml")


def test_a_model_is_written_under_a_name_that_can_be_read(tmp_path):
    with pytest.raises(da.errors.DalembertError, match=r"x.txt': its name must end in .yaml or .yml"):
        da.save(da.Model("empty"), tmp_path / "x.txt")
    assert not list(tmp_path.iterdir())


def test_a_model_that_needs_another_order_is_not_written(tmp_path):
    """Bodies come first in a file; a joint on the rotor that a motor brings cannot be told before the motor."""
    model = da.Model("m")
    model.revolute("pin", model.ground, model.body("a", mass=1, inertia=1), at=(0, 0))
    model.motor("motor", "pin", torque=1, rotor_inertia=1)
    model.distance("rod", "motor_rotor", "a", at_i=(1, 0), at_j=(2, 0))
    with pytest.raises(DalembertError, match="motor_rotor"):
        da.save(model, tmp_path / "m.yaml")


def test_the_starter_is_good(tmp_path):
    path = tmp_path / "swing.yaml"
    path.write_text(starter("swing"))
    found = read(path)
    assert found.model.name == "swing" and list(found.model.bodies) == ["rod"] and found.run == {"t_end": 10}


# ---- built-in mechanisms -----------------------------------------------------------------------------------------


def test_there_are_no_other_files():
    assert {p.stem for p in FILES.glob("*.yaml")} == set(mechanisms()), "run: make files"


@pytest.mark.parametrize("name", mechanisms())
def test_every_mechanism_is_a_file(name):
    entry = mechanisms()[name]
    found = read(FILES / f"{name}.yaml")
    assert alike(found.model.sections(), entry.model().sections()), "run: make files"
    assert found.run == entry.settings() and found.summary == entry.summary
    ours, theirs = da.build(entry.model()), da.build(found.model)
    assert alike(ours.q0, theirs.q0) and alike(ours.v0, theirs.v0)
    assert alike(ours.parameters(), theirs.parameters())


def alike(a, b) -> bool:
    """Equal, numbers to the last bits: those of a few mechanisms are computed, and processors round differently."""
    if dataclasses.is_dataclass(a) and type(a) is type(b):
        return alike(vars(a), vars(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, str | bool | None) or callable(a):
        return a == b
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "fiu" or b.dtype.kind not in "fiu":
        return bool(np.all(a == b))
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= 1e-14 * (1.0 + np.abs(a))))


def test_numbers_in_formulas_keep_their_names():
    assert "drive.reach" in da.build(da.load(FILES / "mobile-robot.yaml")).parameters()
    fast = da.build(da.load(FILES / "slider-crank.yaml")).replace({"motor.speed": 1.0})
    assert float(fast.parameters()["motor.speed"]) == 1.0


# ---- the schema ----------------------------------------------------------------------------------------------------


def test_the_published_schema_is_current():
    published = json.loads((ROOT / "docs" / "model.schema.json").read_text())
    assert published == json_schema(), "run: make files"


def test_the_schema_describes_every_key_of_every_element():
    found = json_schema()
    for kind, element in ELEMENTS.items():
        keys = found["$defs"][kind]["properties"]
        wanted = set(element.fields()) | ({"type"} if element.section in TYPED else set())
        assert set(keys) == wanted and all(x.get("description") for x in keys.values())
        assert found["$defs"][kind]["description"] == element.summary()
        assert found["$defs"][kind]["additionalProperties"] is False
    text = json.dumps(found)
    assert all(f'"#/$defs/{ref}"' in text for ref in ("Motion", "body", "revolute"))


def test_every_argument_has_a_form():
    """What a file may hold comes from the annotation of each argument: check, schema and words."""
    for element in ELEMENTS.values():
        for key, form in forms_of(element).items():
            assert callable(form.check) and form.schema and form.words, (element.type, key)


# ---- what a scalar means -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-2", -2), ("+3", 3), ("1e-3", 1e-3), ("1E5", 1e5), (".5", 0.5), ("1.", 1.0), ("-1.5e+3", -1500.0),
        ("012", 12), ("9" * 400, math.inf), ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"), ("y", "y"), ("1:30", "1:30"), ("0x10", "0x10"),
        ("0o7", "0o7"), ("1_000", "1_000"), ("2024-01-01", "2024-01-01"), ("nan", "nan"), ("inf", "inf"),
        ("1e", "1e"), ("--1", "--1"), ("=", "="), (".", "."), (".inf", math.inf), ("-.INF", -math.inf),
    ],
)  # fmt: skip
def test_scalars(text, value):
    found = resolve(text)
    assert found == value and type(found) is type(value)


def test_any_number_may_be_a_formula(tmp_path):
    """Angles in degrees and sums where numbers stand; what is written afterwards is plain numbers."""
    path = tmp_path / "formulas.yaml"
    path.write_text("""
dalembert: 1
name: formulas
space: plane
gravity: [0, -9.81*2]
run: {t_end: 2*pi}
bodies:
  - {name: a, mass: 2*0.3, inertia: 1/12, position: [0.5*cos(30*deg), "max(1, 2)"], angle: 45 deg, velocity: [0, 1/2]}
  - {name: b, mass: 1, inertia: 1, angular_velocity: -90°}
joints:
  - {type: revolute, name: pin, i: ground, j: a, at: [0, 1e-1 + .1]}
  - {type: revolute, name: other, i: ground, j: b, at: [0, 0]}
  - {type: coupling, name: c, terms: [[pin, 2*3], [other, 1]], constant: sqrt(4)}
forces:
  - {type: spring_damper, name: s, i: ground, j: a, stiffness: 2^3, length: 1 + 1}
  - {type: torque, name: m, body: a, torque: {harmonic: {amplitude: 2*2, omega: 2*pi}}}
  - {type: torque, name: f, body: a, torque: k*t, parameters: {k: 1/4}}
""")
    found = read(path)
    body = {s.name: s.arguments for s in found.model.statements}
    assert body["a"]["mass"] == 0.6 and body["a"]["inertia"] == 1 / 12 and body["a"]["angle"] == 45 * da.deg
    assert body["a"]["position"] == [0.5 * math.cos(30 * da.deg), 2] and body["b"]["angular_velocity"] == -90 * da.deg
    assert found.run == {"t_end": 2 * math.pi} and found.model.gravity[1] == -2 * 9.81
    assert body["pin"]["at"] == [0, 0.2] and body["c"]["constant"] == 2
    assert body["c"]["terms"] == [["pin", 6], ["other", 1]]
    assert (body["s"]["stiffness"], body["s"]["length"]) == (8, 2) and body["f"]["parameters"] == {"k": 0.25}
    assert body["m"]["torque"] == {"harmonic": {"amplitude": 4, "omega": 2 * math.pi}} and body["f"]["torque"] == "k*t"
    text = text_of(found.model)
    assert "deg" not in text and read_from_text(text, path).model == found.model


def test_quotes_make_a_text_and_keys_are_texts():
    tree, wrong = read_tree("a: '1'\nb: \"true\"\n1: 2\ntrue: 3\n'<<': 4\n")
    assert not wrong and tree is not None
    assert tree.plain() == {"a": "1", "b": "true", "1": 2, "true": 3, "<<": 4}


# ---- places --------------------------------------------------------------------------------------------------------


def test_all_mistakes_at_once_in_order(tmp_path):
    text = """\
dalembert: 1
name: rig
space: plane
gravty: [0, -9.81]
bodies:
  - name: crank
    mass: heavy
    inertia: -1
    positon: [0, 0]
  - nmae: rod
    mass: -1.0
    inertia: .nan
  - name: wheel
    mass: 1.0
    mass: 2.0
    inertia: 1
joints:
  - type: revolut
    name: A
    i: ground
    j: crank
  - {type: revolute, name: B, i: wheel, j: crnk, at: [0, 1]}
  - {type: driver, name: C, joint: B, motion: {harmonic: {amplitude: 1, omga: 2}}}
  - {type: driver, name: D, joint: A, motion: "sin(t"}
  - {type: point_driver, name: E, i: ground, j: wheel, motion: [1, {step: {begin: 1, end: 0}}]}
"""
    found = complaints(tmp_path, text)
    assert [(c.line, c.column) for c in found] == [
        (4, 1), (7, 11), (8, 14), (9, 5), (10, 5), (10, 5), (11, 11), (12, 14), (15, 5), (18, 11), (22, 44), (23, 73),
        (24, 47), (25, 91),
    ]  # fmt: skip
    words = [
        "'gravty' is unknown", "Body 'crank': mass must be a number, not the text 'heavy'", "inertia must be greater",
        "Did you mean 'position'", "'nmae' is unknown", "name is missing", "Body 'rod': mass must be greater than zero",
        "inertia must be finite", "'mass' is given twice", "Did you mean 'revolute'", "Did you mean 'crank'",
        "'omga' is unknown", "')' is missing at the end", "end=0 must be later than begin=1",
    ]  # fmt: skip
    for complaint, word in zip(found, words, strict=True):
        assert word in complaint.text


def test_an_unknown_body_hides_no_other_mistake(tmp_path):
    """What is wrong whatever body was meant is told with it; what may follow from it is not."""
    text = """dalembert: 1
name: m
space: plane
bodies:
  - {name: rod, mass: 1, inertia: 1}
joints:
  - {type: prismatic, name: slide, i: grund, j: rd, at: [0, 0, 0], axis: [0, 0]}
  - {type: spherical, name: ball, i: ground, j: rd, at: [0, 0]}
  - {type: driver, name: drive, joint: slied, motion: 2*s}
forces:
  - {type: force, name: push, body: rd, force: [1, 2, 3]}
"""
    found = [(c.line, c.text.split(".")[0]) for c in complaints(tmp_path, text)]
    assert found == [
        (7, "Joint 'slide': there is no body or marker 'grund'"),
        (7, "Joint 'slide': there is no body or marker 'rd'"),
        (7, "Joint 'slide': at must be 2 numbers (the model is in the plane), not [0, 0, 0]"),
        (7, "Joint 'slide': axis has no direction (zero vector)"),
        (8, "Joint 'ball': a spherical joint exists only in space; this model is in the plane"),
        (8, "Joint 'ball': there is no body or marker 'rd'"),
        (9, "Driver 'drive': there is no joint 'slied'"),
        (9, "Driver 'drive': motion: expression '2*s': 's' is unknown; it may use t and numbers"),
        (11, "Force 'push': there is no body or marker 'rd'"),
        (11, "Force 'push': force must be 2 numbers or functions of time (the model is in the plane)"),
    ]


def test_the_error_reads_well(tmp_path):
    path = tmp_path / "rig.yaml"
    path.write_text(HEAD + "bodies:\n  - {name: a, mass: -1, inertia: 1}\n")
    with pytest.raises(FileError) as caught:
        da.load(path)
    line = f"  {path}:5:21: Body 'a': mass must be greater than zero, not -1."
    assert str(caught.value) == f"{path} has 1 mistake:\n{line}"
    assert caught.value.mistakes == ["Body 'a': mass must be greater than zero, not -1."]


def test_very_many_mistakes_are_not_all_shown(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(HEAD + "bodies:\n" + "".join(f"  - {{name: b{k}, mass: -1, inertia: 1}}\n" for k in range(5000)))
    with pytest.raises(FileError, match="more than 50 mistakes") as caught:
        da.load(path)
    assert str(caught.value).count("\n") == 51


# ---- tables in files -------------------------------------------------------------------------------------------------


def test_tables_and_points_from_csv(tmp_path):
    (tmp_path / "cam.csv").write_text("time, value\n0, 0\n1, 2.5\n\n2, 1e-1\n3, 4\n")
    (tmp_path / "path.csv").write_text("0,0\n1,0.5\n2,0\n3,1\n")
    text = HEAD + ROD + "joints:\n"
    text += "  - {type: point_on_curve, name: c, i: ground, j: rod, points: {file: path.csv}, degree: 3}\n"
    text += "  - {type: revolute, name: pin, i: ground, j: rod, at: [0, 0]}\n"
    text += "  - {type: driver, name: d, joint: pin, motion: {sum: [1, {table: {file: cam.csv}}]}}\n"
    model = loaded(tmp_path, text)
    same = da.Model("m")
    same.body("rod", mass=1, inertia=1)
    same.point_on_curve("c", "ground", "rod", points=[[0, 0], [1, 0.5], [2, 0], [3, 1]], degree=3)
    same.revolute("pin", "ground", "rod", at=(0, 0))
    table = {"table": {"times": [0, 1, 2, 3], "values": [0, 2.5, 0.1, 4]}}
    same.driver("d", "pin", {"sum": [1, table]})
    assert model == same
    assert abs(float(functions.table(**table["table"])(1.0)) - 2.5) < 1e-12


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "there is no line of numbers"),
        ("a,b\nc,d\n", "there is no line of numbers"),
        ("0,1\n1\n", "line 2: it must be numbers, as many as in the line before"),
        ("0,1\n1,x\n", "line 2: it must be numbers"),
        ("0,1\n1,.nan\n", "line 2: it must be numbers"),
        ("0,1,2\n1,2,3\n", "must have two columns"),
        ("0,1\n0,2\n1,2\n3,4\n", "must rise from point to point"),
        (None, "there is no such file"),
    ],
)
def test_bad_tables(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "t.csv").write_text(content)
    text = HEAD + ROD + "joints:\n  - {type: revolute, name: pin, i: ground, j: rod, at: [0, 0]}\n"
    text += "  - type: driver\n    name: d\n    joint: pin\n    motion: {table: {file: t.csv}}\n"
    (found,) = complaints(tmp_path, text)
    assert found.line == 11 and found.text.startswith("Driver 'd': motion: ") and sentence in found.text


# ---- the command line --------------------------------------------------------------------------------------------


def test_new_check_run_list(tmp_path):
    name = str(tmp_path / "swing")
    made = dalembert("new", name)
    assert made.returncode == 0 and f"{name}.yaml" in made.stdout
    again = in_process("new", name)
    assert again.returncode == 2 and "exists already" in again.stderr
    checked = json.loads(in_process("check", f"{name}.yaml", "--json").stdout)
    assert checked["mobility"] == 1
    report = json.loads(in_process("run", f"{name}.yaml", "--json", "--samples", "2").stdout)
    assert report["status"] == "done" and report["t_end"] == 10.0
    (tmp_path / "broken.yml").write_text("dalembert: 2\n")
    (tmp_path / "notes.txt").write_text("no model")
    listed = in_process("list", str(tmp_path))
    lines = listed.stdout.splitlines()
    assert listed.returncode == 0 and len(lines) == 2
    assert lines[0].startswith("broken.yml") and "cannot be used" in lines[0]
    assert "a rod on a pin (1 bodies, 1 joints, in the plane)" in lines[1]
    assert "a rod on a pin" in in_process("list", f"{name}.yaml").stdout


def test_new_like_a_mechanism(tmp_path):
    assert in_process("new", str(tmp_path / "mine"), "--like", "slider-crank").returncode == 0
    model, wanted = da.load(tmp_path / "mine.yaml"), da.mechanism("slider-crank")
    assert model.name == "mine" and model.sections() == wanted.sections()


def test_schema_command():
    assert json.loads(in_process("schema").stdout) == json_schema()


BAD = HEAD + "bodies:\n  - {name: a, mass: -1, inertia: 1}\n"
OPEN = (
    HEAD
    + ROD
    + """\
joints:
  - {type: distance, name: near, i: ground, j: rod, at_i: [0, 0], at_j: [1, 0], length: 1}
  - {type: distance, name: far, i: ground, j: rod, at_i: [0, 1], at_j: [1, 0], length: 9}
"""
)


@pytest.mark.parametrize(
    ("arguments", "content", "sentence"),
    [
        (("check", "m.yaml"), BAD, "m.yaml:5:21: Body 'a': mass must be greater than zero"),
        (("run", "m.yaml"), BAD, "m.yaml:5:21: Body 'a': mass must be greater than zero"),
        (("list", "m.yaml"), BAD, "m.yaml:5:21: Body 'a': mass must be greater than zero"),
        (("new", "x", "--like", "m.yaml"), BAD, "m.yaml:5:21: Body 'a': mass must be greater than zero"),
        (("check", "no.yaml"), BAD, "no.yaml: there is no such file"),
        (("compare", "no.yaml"), BAD, "no.yaml: there is no such file"),
        (("check", "page.html"), BAD, "'page.html' is not a model file: the name of one ends in .yaml, .yml, .urdf"),
        (("check", "folder/no"), BAD, "there is no such file"),
        (("list", "nothing"), BAD, "There is no mechanism 'nothing'"),
        (("new", "no/folder/x"), BAD, "Cannot write"),
        (("new", "a.b"), BAD, "cannot name a model"),
        (("new", ""), BAD, "cannot name a model"),
        (("run", "m.yaml"), OPEN, "cannot be assembled"),
        (("run", "m.yaml"), HEAD + "run: {integrator: magic}\n" + ROD, "integrator='magic' is unknown"),
        (("run", "m.yaml"), HEAD + "run: {dt: 1.0e-3, max_steps: 7}\n" + ROD, "more than max_steps=7"),
        (("run", "m.yaml", "--max-steps", "5"), HEAD + "run: {dt: 1.0e-3, max_steps: 7}\n" + ROD, "max_steps=5"),
        (("run", "m.yaml"), HEAD + "run: {max_steps: 1.5}\n" + ROD, "must be a whole number, not 1.5"),
    ],
)
def test_bad_files_are_sentences_on_the_command_line(tmp_path, monkeypatch, arguments, content, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "m.yaml").write_text(content)
    (tmp_path / "page.html").write_text("<p>a: b: c</p>")
    # two of them as a person starts it: before and after the model is read
    started = arguments == ("check", "no.yaml") or content == OPEN
    result = dalembert(*arguments) if started else in_process(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr and "Traceback" not in result.stderr + result.stdout


def ten_thousand_bodies() -> str:
    """A chain of bodies on hinges, as a file."""
    lines = [HEAD.rstrip(), "bodies:"]
    lines += [f"  - {{name: b{k}, mass: 1, inertia: 0.1, position: [{k}.5, 0]}}" for k in range(10_000)]
    lines += ["joints:"]
    ends = [(f"b{k - 1}" if k else "ground", f"b{k}") for k in range(10_000)]
    lines += [f"  - {{type: revolute, name: j{k}, i: {i}, j: {j}, at: [{k}, 0]}}" for k, (i, j) in enumerate(ends)]
    return "\n".join(lines) + "\n"


def test_a_file_of_ten_thousand_bodies_loads(tmp_path):
    (tmp_path / "chain.yaml").write_text(ten_thousand_bodies())
    model = da.load(tmp_path / "chain.yaml")
    assert len(model.bodies) == len(model.constraints) == 10_000
    last = model.constraints["j9999"]
    assert [b.name for b in last.bodies] == ["b9998", "b9999"]
    assert last.markers[0].position.tolist() == [0.5, 0.0] and last.markers[1].position.tolist() == [-0.5, 0.0]


def test_a_bad_file_is_refused_without_jax(tmp_path, monkeypatch):
    """So that it takes a fraction of a second and little memory."""
    import subprocess
    import sys

    curve = "joints:\n  - {type: point_on_curve, name: c, i: ground, j: a, points: [[0, 0], [1, 1], [2, 0]]}\n"
    (tmp_path / "m.yaml").write_text(BAD + curve)
    code = (
        "import sys; sys.argv[1:] = ['check', 'm.yaml']\n"
        "from dalembert.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code, 'jax' in sys.modules, 'scipy' in sys.modules)"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["2", "False", "False"]
