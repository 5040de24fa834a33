"""A person's own classes: joints and forces work in both coordinates, in files, in check, in reactions, in the picture;
items of a model can be changed and removed; bodies come from shapes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.view._scene import scene_of

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module", autouse=True)
def own_classes():
    """What is defined here is known to files here only."""
    known = dict(da.model.ELEMENTS)
    yield
    da.model.ELEMENTS.clear()
    da.model.ELEMENTS.update(known)


@pytest.fixture(scope="module")
def ellipse():
    """examples/30_own_joint.py, as a person's module."""
    spec = importlib.util.spec_from_file_location("own_joint", EXAMPLES / "30_own_joint.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_joint"] = module
    spec.loader.exec_module(module)
    return module


def on_an_arm(module) -> da.Model:
    """The bead of the example on an arm, so that in joint coordinates the ellipse closes a loop."""
    model = da.Model("on an arm", space="plane", gravity=(0, -9.81))
    arm = model.body("arm", mass=1.0, inertia=0.1, position=(1.0, 0.0))
    bead = model.body("bead", mass=0.5, inertia=0.01, position=(2.0, 0.0))
    model.revolute("pin", model.ground, arm, at=(0, 0))
    model.prismatic("slide", arm, bead, at=(2, 0), axis=(1, 0))
    model.add(module.PointOnEllipse("rim", model.ground, bead, a=2.0, b=1.0, at_i=(0, 0)))
    return model


def test_own_joint_in_both_coordinates(ellipse):
    """Against the motion by hand: r(θ) of an ellipse, one freedom, energy conserved; reactions agree."""
    model = on_an_arm(ellipse)
    runs = {c: da.simulate(da.build(model, coordinates=c), 0.6, rtol=1e-10, samples=7) for c in ("absolute", "joint")}
    angles = [run.dataset["angle"].sel(body="arm").values for run in runs.values()]
    # two integrations at 1e-10 over one swing
    assert np.max(np.abs(angles[0] - angles[1])) < 1e-8
    forces = [run.reactions("rim")["force"].values for run in runs.values()]
    assert np.max(np.abs(forces[0] - forces[1])) < 1e-6 * np.max(np.abs(forces[0]))
    x, y = runs["absolute"].dataset["position"].sel(body="bead").values.T
    assert np.max(np.abs((x / 2) ** 2 + y**2 - 1)) < 1e-12
    # kinetic energy from ½ J θ̇² + ½ m (ṙ² + r²θ̇²), r = r(θ), against the work of gravity
    data, g = runs["absolute"].dataset, 9.81
    th, w = data["angle"].sel(body="arm").values, data["angular_velocity"].sel(body="arm").values
    r = 1 / np.sqrt((np.cos(th) / 2) ** 2 + np.sin(th) ** 2)
    slope = r**3 * (0.25 - 1) * np.cos(th) * np.sin(th)
    kinetic = 0.5 * (0.1 + 1.0 + 0.01) * w**2 + 0.25 * (slope**2 + r**2) * w**2
    fallen = -g * (1.0 * np.sin(th) + 0.5 * r * np.sin(th))
    assert np.max(np.abs(kinetic - fallen)) < 1e-7 * np.max(kinetic)


def test_own_joint_is_checked_and_balances(ellipse):
    model = on_an_arm(ellipse)
    found = da.check(model)
    assert found.mobility == 1 and found.unique("rim") and found.joints["point on ellipse"] == 1
    assert "rim.a" in da.build(model).parameters()
    solution = da.simulate(model, 0.2, samples=3)
    data = solution.dataset
    # free-body balance of the bead: m a = weight + what both joints do to it
    total = solution.reactions("rim")["force"] + solution.reactions("slide")["force"]
    left = 0.5 * data["acceleration"].sel(body="bead").values - total.values - 0.5 * np.array([0, -9.81])
    assert np.max(np.abs(left)) < 1e-9


def test_own_joint_in_files_and_pictures(ellipse, tmp_path):
    model = on_an_arm(ellipse)
    path = da.save(model, tmp_path / "own.yaml")
    assert "type: point_on_ellipse" in path.read_text()
    assert da.load(path) == model
    scene = scene_of(da.simulate(model, 0.1, samples=2).dataset)
    drawn = next(j for j in scene.joints if j["name"] == "rim")
    assert drawn["kind"] == "point on ellipse" and drawn["parts"]
    path.write_text(path.read_text().replace("a: 2.0", "a: -2.0"))
    with pytest.raises(da.errors.FileError, match="Joint 'rim': a must be greater than zero, not -2"):
        da.load(path)
    path.write_text(path.read_text().replace("a: -2.0", "a: wide"))
    with pytest.raises(da.errors.FileError, match="Joint 'rim': a must be a number, not the text 'wide'"):
        da.load(path)


def test_own_joint_is_not_timeless(ellipse):
    """Rows of a person's own may depend on time: their work is counted."""
    assert not da.build(on_an_arm(ellipse)).scleronomic


def test_a_name_is_taken_once():
    with pytest.raises(da.errors.DalembertError, match="'revolute' is dalembert.model._joints.Revolute already"):

        class Revolute(da.model.Joint):
            """Not ours."""


def test_a_joint_without_rows_is_named():
    class Nothing(da.model.Joint):
        """Says nothing."""

        at: da.model.Vector | None = None

    model = da.Model("m")
    model.add(Nothing("n", model.ground, model.body("a", mass=1, inertia=1), at=(0, 0)))
    with pytest.raises(da.errors.DalembertError, match="Joint 'n': class Nothing has no rows in plane; define rows_in"):
        da.build(model)


def thread_rows(t, i, j, p):
    """A screw: on the axis, parallel, and the advance that belongs to the angle."""
    d, B = i.R.T @ (j.p - i.p), i.R.T @ j.R
    lead = p["pitch"] / (2 * jnp.pi)
    turn = B[1, 0] * jnp.cos(d[2] / lead) - B[0, 0] * jnp.sin(d[2] / lead)
    return [d[0], d[1], B[0, 2], B[1, 2], lead * turn]


def thread(links) -> da.Model:
    class Thread(da.model.Joint):
        """A screw of a person's own."""

        pitch: da.model.Positive
        at: da.model.Vector | None = None
        axis: da.model.Vector | None = None

        def markers(self, on):
            return on.joint_markers("axis")

        def numbers(self, on):
            return {"pitch": np.asarray(on.positive("pitch"))}

        def links(self, space):
            return links

        def rows_in(self, space):
            return da.systems.JointRows(holonomic=5, position=thread_rows)

    del da.model.ELEMENTS["thread"]
    model = da.Model("thread", space="space", gravity=(0, 0, -9.81))
    nut = model.body("nut", mass=1.0, inertia=(0.1, 0.1, 0.2), position=(0, 0, 0.3))
    model.add(Thread("thread", model.ground, nut, pitch=0.4, at=(0, 0, 0), axis=(0, 0, 1)))
    return model


def test_own_screw_in_a_tree_is_ours():
    """a = −m g / (m + J/lead²), and its pitch can be changed in joint coordinates, too."""
    own = da.build(thread((da.model.Link(2, turns=True, pitch="pitch"),)), coordinates="joint")
    assert (own.n, own.m) == (1, 0)
    for system, pitch in ((own, 0.4), (own.replace({"thread.pitch": 0.8}), 0.8)):
        lead = pitch / (2 * np.pi)
        q, v = da.stabilise.consistent_state(system)
        rate = da.formulations.Proximal().solve(da.assemble(system, 0.0, q, v)).vdot
        assert float(rate[0]) * lead == pytest.approx(-9.81 / (1 + 0.2 / lead**2), rel=1e-12)
    assert float(own.parameters()["thread.pitch"]) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("links", "sentence"),
    [
        ((da.model.turn_about(2),), "its links allow a motion that its row 5 forbids"),
        ((da.model.turn_about(2), da.model.slide_along(2)), "its links have 2 freedoms, its rows hold 5 directions"),
        ((da.model.Link(2, turns=True, slides=True, pitch="pitch"),), None),
        ((da.model.Link(2, turns=True, pitch="lead"),), "a link has the pitch 'lead', which is none of its numbers"),
    ],
)
def test_links_that_are_not_the_rows_are_refused(links, sentence):
    """Each of these gave another motion in joint coordinates than in absolute ones, without a word."""
    model = thread(links)
    assert da.build(model).m == 5  # absolute coordinates do not use links
    if sentence is None:  # said twice, but the same screw
        assert da.build(model, coordinates="joint").n == 1
        return
    with pytest.raises(da.errors.DalembertError, match=f"Joint 'thread': class Thread: {sentence}"):
        da.build(model, coordinates="joint")


# ---- changing a model ----------------------------------------------------------------------------------------------


def test_items_can_be_replaced_and_removed():
    model = da.mechanism("four-bar")
    fresh = da.mechanism("four-bar")
    model.replace("A", at=(0.1, 0.0))
    assert model != fresh and np.allclose(model.constraints["A"].markers[0].start_position, (0.1, 0.0))
    model.replace("A", at=fresh.statement("A").arguments["at"])
    assert model == fresh
    first = da.assemble(da.build(model), 0.0, *da.stabilise.consistent_state(model))
    second = da.assemble(da.build(fresh), 0.0, *da.stabilise.consistent_state(fresh))
    assert jnp.array_equal(first.C, second.C)
    with pytest.raises(
        da.errors.DalembertError, match="'crank' cannot be removed:\n  - Joint 'A': there is no body or marker"
    ):
        model.remove("crank")
    assert model == fresh  # nothing is half done
    model.remove("C")
    assert "C" not in model.constraints and da.check(model).mobility == 3
    with pytest.raises(da.errors.DalembertError, match="has no item 'Q'"):
        model.remove("Q")
    with pytest.raises(da.errors.DalembertError, match="revolute: 'axs' is unknown"):
        model.replace("A", axs=1)
    with pytest.raises(
        da.errors.DalembertError, match="'crank' cannot be changed so:\n  - Body 'crank': mass must be greater"
    ):
        model.replace("crank", mass=-1)


def test_a_body_kept_in_a_variable_stays_usable_after_a_change():
    model = da.Model("m")
    arm = model.body("arm", mass=1, inertia=1)
    model.replace("arm", mass=2.0)
    model.revolute("pin", model.ground, arm, at=(0, 0))
    assert not model.mistakes() and model.bodies["arm"].mass == 2.0


# ---- bodies from shapes --------------------------------------------------------------------------------------------


def test_bodies_from_shapes_have_the_inertia_of_text_books():
    """Cuboid m (b² + c²)/12, cylinder m (3 r² + h²)/12 and m r²/2, rod m L²/12 + m r²/4."""
    model = da.Model("solids", space="space")
    box = model.box("box", (1.0, 2.0, 3.0), density=10.0)
    assert box.mass == pytest.approx(60.0) and np.diag(box.inertia) == pytest.approx([65.0, 50.0, 25.0])
    can = model.cylinder("can", 0.5, 2.0, mass=3.0)
    assert np.diag(can.inertia) == pytest.approx([1.1875, 1.1875, 0.375])
    rod = model.rod("rod", (0, 0, 0), (0, 3, 4), mass=2.0, radius=0.1)
    assert np.allclose(rod.rotation[:, 2], (0, 0.6, 0.8)) and np.allclose(rod.position, (0, 1.5, 2))
    assert np.diag(rod.inertia) == pytest.approx([2 * (25 / 12 + 0.0025)] * 2 + [0.01])
    flat = da.Model("flat")
    plank = flat.box("plank", (3.0, 4.0), mass=12.0)
    assert plank.inertia[0] == pytest.approx(25.0)
    disc = flat.cylinder("disc", 2.0, density=1 / np.pi)
    assert disc.mass == pytest.approx(4.0) and disc.inertia[0] == pytest.approx(8.0)
    link = flat.rod("link", (0, 0), (0, 2), mass=3.0)
    assert link.inertia[0] == pytest.approx(1.0) and np.allclose(link.rotation[:, 0], (0, 1))
    assert not model.mistakes() and not flat.mistakes() and set(flat.shapes) == {f"{b}_shape" for b in flat.bodies}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda m: m.rod("r", (0, 0), (0, 0), mass=1), "start and end are the same point"),
        (lambda m: m.rod("r", (0, 0), (1, 0)), "give either mass= or density="),
        (lambda m: m.rod("r", (0, 0), (1, 0), density=1), "density= needs radius="),
        (lambda m: m.box("b", (1, -1), mass=1), "size must be greater than zero"),
        (lambda m: m.box("b", (1, 1, 1), mass=1), "size must be 2 finite numbers"),
        (lambda m: m.cylinder("c", 1, 2, mass=1), "in the plane a cylinder is a disc"),
        (lambda m: m.solid("s", "x.stl", density=1), "exists only in space"),
        (lambda m: m.actuator("a", "ground", "b", at_i=(0, 0), at_j=(1, 0), mass=1), "mass must be two numbers"),
    ],
)
def test_wrong_solids_get_a_sentence(make, sentence):
    with pytest.raises(da.errors.DalembertError, match=sentence):
        make(da.Model("m"))


TETRAHEDRON = """
v 0 0 0
v 1 0 0
v 0 1 0
v 0 0 1
f 1 3 2
f 1 2 4
f 1 4 3
f 2 3 4
"""


def test_a_body_from_a_mesh(tmp_path):
    """A corner tetrahedron of unit edges: volume 1/6, centre at 1/4; its moments by hand below."""
    pytest.importorskip("trimesh")
    path = tmp_path / "corner.obj"
    path.write_text(TETRAHEDRON)
    model = da.Model("m", space="space")
    body = model.solid("corner", path, density=6.0, position=(1, 0, 0))
    assert body.mass == pytest.approx(1.0) and np.allclose(body.position, (1.25, 0.25, 0.25))
    # ∫x² = m/10 about the corner, so ∫y² + ∫z² = m/5, less 2 m/16 at the centre
    assert np.diag(body.inertia) == pytest.approx([0.2 - 0.125] * 3)
    path.write_text(TETRAHEDRON.replace("f 2 3 4\n", ""))
    with pytest.raises(da.errors.DalembertError, match="Body 'open': the surface in .* is not closed"):
        model.solid("open", path, density=6.0)
    with pytest.raises(da.errors.DalembertError, match="there is no file"):
        model.solid("gone", tmp_path / "gone.stl", density=6.0)


@pytest.mark.parametrize("space", ["plane", "space"])
def test_an_actuator_between_two_points(space):
    """It holds a rod at rest with the force that statics gives; the leg itself is not redundant."""
    flat = space == "plane"
    at = (lambda x, y: (x, y)) if flat else (lambda x, y: (x, 0.0, y))
    model = da.Model("crane", space=space, gravity=at(0, -9.81))
    arm = model.rod("arm", at(0, 0), at(2, 0), mass=10.0)
    if flat:
        model.revolute("pin", model.ground, arm, at=at(0, 0))
    else:
        model.revolute("pin", model.ground, arm, at=at(0, 0), axis=(0, 1, 0))
    # light halves: the torque of gravity is 10 · 9.81 · 1, the arm of the force 1/√2 at (1, 0) from (0, -1)
    model.actuator("jack", model.ground, arm, at_i=at(0, -1), at_j=at(1, 0), mass=(1e-9, 1e-9), length=np.sqrt(2.0))
    found = da.check(model)
    assert found.mobility == 0 and found.redundancy == 0
    solution = da.simulate(model, 0.01, samples=2)
    # the driver holds the length: its force along the leg is the jack's
    force = np.linalg.norm(solution.reactions("jack_length")["force"].values[0])
    assert force == pytest.approx(98.1 * np.sqrt(2.0), rel=1e-6)
