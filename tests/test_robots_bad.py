"""Robot files that are broken or mean harm: a clear refusal, or a model with all that the file says; never another end."""

from __future__ import annotations

import os
import time
import xml.etree.ElementTree as ET
from collections import Counter

import mujoco
import numpy as np
import pytest
from _helpers_broken import HARMLESS, canonical, mutations, parse
from _helpers_robots import ROBOTS
from test_cli import dalembert

from dalembert._results import DalembertError, FileError
from dalembert.io import ModelFile, read

URDF = ("arm6", "scara", "gripper", "five_bar", "flyer", "four_bar")
MJCF = ("double_pendulum", "leg", "joints")
EACH = 40  # mutations of each file: 360 in all


def original(name: str) -> str:
    return (ROBOTS / name).read_text()


# ---- nothing is lost -----------------------------------------------------------------------------------------------


def said_or_told(found: ModelFile) -> set[str]:
    """Every name that the model has, or that a remark speaks of in quotes."""
    told = {word for remark in found.remarks for word in remark.split("'")[1::2]}
    return {s.name for s in found.model.statements} | told


def nothing_lost_in_urdf(data: bytes, found: ModelFile) -> None:
    """Counted by another parser: masses, names, mimic joints, pictures, limits, damping."""
    root = ET.fromstring(data)
    model, known = found.model, said_or_told(found) | {"world"}
    links, joints = root.findall("link"), root.findall("joint")
    masses = [float(m.get("value", "nan")) for m in root.findall("link/inertial/mass")]
    assert sum(b.mass for b in model.bodies.values()) == pytest.approx(sum(masses), rel=1e-12)
    for element in (*links, *joints, *root.findall("loop_joint"), *root.findall("constraint")):
        assert element.get("name").strip().replace(".", "_") in known | {n.replace(".", "_") for n in known}, (
            element.attrib
        )
    assert len(joints) + len(root.findall("loop_joint")) <= len(links) + len(root.findall("loop_joint"))
    for element in root.findall("joint/mimic/.."):
        assert f"{element.get('name').strip()}_mimic".replace(".", "_") in known
    counts = Counter(s.section for s in model.statements)
    shapes = [g for g in root.findall("link/visual/geometry/*")]
    assert counts["shapes"] == len(shapes) - sum("of size zero" in r for r in found.remarks)
    one = [j for j in joints if j.get("type", "").strip() in ("revolute", "continuous", "prismatic")]
    # a limit without attributes says nothing
    assert counts["limits"] == sum(1 for j in one if j.find("limit") is not None and _limits(j))
    assert counts["forces"] == sum(float(d.get(k, 0)) > 0 for j in one for d in j.findall("dynamics") for k in d.keys())
    for tag in ("transmission", "gazebo", "link/collision", "joint/safety_controller"):
        if root.findall(tag):
            assert any(f"<{tag.split('/')[-1]}>" in r for r in found.remarks)


def _limits(joint: ET.Element) -> bool:
    given = set(joint.find("limit").keys())
    return bool(given & {"effort", "velocity"}) if joint.get("type").strip() == "continuous" else True


def nothing_lost_in_mjcf(text: str, found: ModelFile) -> None:
    """Counted by MuJoCo itself: masses, gravity, joints, equalities."""
    model, known = found.model, said_or_told(found)
    robot = mujoco.MjModel.from_xml_string(text)
    assert sum(b.mass for b in model.bodies.values()) == pytest.approx(np.sum(robot.body_mass[1:]), rel=1e-12)
    assert len(model.bodies) == np.count_nonzero(robot.body_mass[1:])
    off = robot.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    np.testing.assert_array_equal(model.gravity, np.zeros(3) if off else robot.opt.gravity)
    for kind, count in (("joint", robot.njnt), ("equality", robot.neq), ("body", robot.nbody), ("site", robot.nsite)):
        names = [getattr(robot, kind)(k).name for k in range(count)]
        for name in names:
            if name and name != "world":
                assert any(name.replace(".", "_") in n.replace(".", "_") for n in known), (kind, name, found.remarks)
    moving = sum({0: 6, 1: 3}.get(int(k), 1) for k in robot.jnt_type)
    held = Counter(c.kind.split(":")[0] for c in model.constraints.values())
    freedom = {
        "revolute": 1,
        "prismatic": 1,
        "cylindrical": 2,
        "universal": 2,
        "pin_slot": 2,
        "planar": 3,
        "generic": 2,
    }
    balls = held["spherical"] - sum(robot.eq_active0[k] for k in range(robot.neq) if robot.eq_type[k] == 0)
    free = len([j for j in robot.jnt_type if j == 0]) * 6
    if not any("left out" in r and "Equality" in r for r in found.remarks):
        assert moving == sum(freedom.get(k, 0) * n for k, n in held.items()) + 3 * balls + free
    for section in ("actuator", "sensor"):
        if list(ET.fromstring(text).iterfind(f"{section}/*")):
            assert any(f"<{section}>" in r for r in found.remarks)


def look(path, name: str, what: str, data: bytes, good) -> str:
    """What became of a file: "refused", "equal", "other" (it says something else, and all of that was taken over)."""
    path.write_bytes(data)
    begin = time.perf_counter()
    try:
        found = read(path)
    except DalembertError as error:
        said = str(error)
        assert isinstance(error, FileError) and len(said.splitlines()) >= 2 and "Traceback" not in said, (what, said)
        assert what not in HARMLESS, (what, said)
        return "refused"
    finally:
        assert time.perf_counter() - begin < 5.0
    assert not found.model.mistakes()
    if canonical(ET.fromstring(data)) == canonical(parse(original(name))):
        assert found.model == good.model and found.remarks == good.remarks, what
        return "equal"
    try:
        if name.endswith(".urdf"):
            nothing_lost_in_urdf(data, found)
        else:
            nothing_lost_in_mjcf(data.decode("utf-8-sig"), found)
    except AssertionError as error:
        raise AssertionError(f"{name}: {what}: {error}") from error
    return "equal" if found.model == good.model else "other"


@pytest.mark.parametrize("name", [*(f"{n}.urdf" for n in URDF), *(f"{n}.xml" for n in MJCF)])
def test_broken_by_chance(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mujoco.set_mju_user_warning(lambda text: None)
    path = tmp_path / name
    path.write_text(original(name))
    good = read(path)
    ends = Counter()
    for what, data in mutations(original(name), seed=len(name), count=EACH):
        ends[look(path, name, what, data, good)] += 1
    assert ends["refused"] >= 10 and ends["equal"] >= 1, ends
    assert os.listdir(tmp_path) == [name]  # nothing was written
