"""Model: mistakes are collected, named, and say what to do."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import dalembert as da
from dalembert.functions import expression


def test_a_good_model_has_no_mistakes():
    model = da.mechanism("four-bar")
    assert model.mistakes() == []
    assert model.validate() is model


def test_all_mistakes_come_together():
    model = da.Model("bad", gravity=(0, -9.81, 0))
    a = model.body("a", mass=-1.0, inertia=1.0)
    model.body("a", mass=1.0, inertia=0.0)
    model.revolute("pin", a, a, at=(0, 0))
    model.revolute("lost", "crnak", a, at=(0, 0))
    model.spherical("ball", model.ground, a, at=(0, 0))
    model.driver("motor", "pinn", lambda t: t)
    with pytest.raises(da.errors.ModelError) as caught:
        da.build(model)
    text = str(caught.value)
    for sentence in (
        "gravity must be 2 numbers",
        "Body 'a': mass must be greater than zero, not -1.",
        "Body 'a': this name is taken.",
        "Body 'a': inertia must be greater than zero",
        "Joint 'pin' connects body 'a' to itself",
        "Joint 'lost': there is no body or marker 'crnak'.",
        "Joint 'ball': a spherical joint exists only in space",
        "Driver 'motor': there is no joint 'pinn'. Did you mean 'pin'?",
    ):
        assert sentence in text
    assert len(caught.value.mistakes) == len(text.splitlines()) - 1


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda m, b: m.revolute("j", m.ground, b, at=(0, 0, 0)), "give its axis"),
        (lambda m, b: m.revolute("j", m.ground, b, axis=(0, 0, 1)), "say where it is"),
        (lambda m, b: m.revolute("j", m.ground, b, at=(0, 0, 0), axis=(0, 0, 0)), "has no direction"),
        (lambda m, b: m.revolute("j", m.ground, b, at=(0, 0), axis=(0, 0, 1)), "at must be 3 numbers"),
        (lambda m, b: m.revolute("j", m.ground, b, at=(0, np.nan, 0), axis=(0, 0, 1)), "must be finite"),
        (lambda m, b: m.universal("j", m.ground, b, at=(0, 0, 0), axis_i=(1, 0, 0), axis_j=(1, 1, 0)), "perpendicular"),
        (lambda m, b: m.distance("j", m.ground, b), "length must be greater than zero"),
        (lambda m, b: m.rolling_disc("j", m.ground, b, radius=-1, axis=(0, 1, 0)), "radius must be greater"),
        (lambda m, b: m.rolling_disc("j", m.ground, b, radius=1, axis=(0, 0, 1)), "the disc lies flat"),
        (lambda m, b: m.holonomic("j", [b], "no function"), "residual must be a function"),
        (lambda m, b: m.holonomic("j", [], lambda t, f: 0.0), "name the bodies"),
        (lambda m, b: m.holonomic("j", [b], lambda t, f: f[0].nothing), "its function fails"),
        (lambda m, b: m.holonomic("j", [b], lambda t, f: f[0].p, size=2), "its function fails"),
        (lambda m, b: m.force_law("f", [b], lambda t, f: [(1.0, 2.0, 3.0)]), "its law fails"),
        (lambda m, b: m.force("f", m.ground, (0, 0, 1)), "acts only on ground"),
        (lambda m, b: m.force("f", b, (0, 0, 1), frame="wrold"), "frame='wrold' is unknown"),
        (lambda m, b: m.torque("f", b, (0, 0)), "torque must be 3 numbers"),
        (lambda m, b: m.driver("d", m.spherical("s", m.ground, b, at=(0, 0, 0)), 1.0), "no free coordinate"),
        (lambda m, b: m.driver("d", m.weld("s", m.ground, b), "fast"), "expression 'fast': 'fast' is unknown"),
        (lambda m, b: m.body("b.x", mass=1, inertia=(1, 1, 1)), "must not contain '.'"),
        (lambda m, b: m.body("c", mass=1, inertia=(1, 1, 3)), "no rigid body has the principal moments"),
        (lambda m, b: m.body("c", mass=1, inertia=[[1, 1, 0], [0, 1, 0], [0, 0, 1]]), "symmetric"),
        (lambda m, b: m.body("c", mass="heavy", inertia=(1, 1, 1)), "mass must be a number"),
        (lambda m, b: m.body("c", mass=1, inertia=(1, 1, 1), rotation=np.ones((3, 3))), "3x3 rotation matrix"),
        (lambda m, b: m.revolute("j", da.Model(space="space").ground, b, at=(0, 0, 0), axis=(0, 0, 1)), "another"),
    ],
)  # fmt: skip
def test_each_mistake_is_a_sentence(make, sentence):
    model = da.Model("bad", space="space")
    body = model.body("b", mass=1.0, inertia=(1, 1, 1))
    make(model, body)
    with pytest.raises(da.errors.ModelError, match=sentence.replace("(", r"\(").replace(".", r"\.")):
        da.build(model)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a" * 101, "Body 'a{60}…': a name must be one line of at most 100 characters"),
        ("a\nb", r"Body 'a\\nb': a name must be one line"),
        ("a\tb", "a name must be one line"),
        ("a\0b", r"Body 'a\\x00b': a name must be one line"),
        ("a ", "Body 'a ': a name must be one line of at most 100 characters, without spaces at its ends"),
        (" a", "without spaces at its ends"),
        ("J[1]", r"Body 'J\[1\]': a name must not end in '\[1\]', which counts the rows of a joint"),
    ],
)
def test_names_that_a_file_could_not_hold_are_refused(tmp_path, name, sentence):
    """The model and the reader of its file go by one rule."""
    model = da.Model("m")
    model.body(name, mass=1.0, inertia=1.0)
    with pytest.raises(da.errors.ModelError, match=sentence):
        model.validate()
    text = f"dalembert: 1\nname: m\nspace: plane\nbodies: [{{name: {json.dumps(name)}, mass: 1, inertia: 1}}]\n"
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(da.errors.FileError, match=r"must (be one line|not end in)|U\+0000 is not allowed"):
        da.load(tmp_path / "m.yaml")


def test_names_with_brackets_inside_are_kept():
    model = da.Model("m")
    for name in ("a" * 100, "[a]", "J[1]x", "J[k]", "a b"):
        model.body(name, mass=1.0, inertia=1.0)
    assert model.mistakes() == []


@pytest.mark.parametrize("name", ["a\nb", "a" * 301])
def test_a_models_own_name_is_one_line(name):
    model = da.Model(name)
    model.body("b", mass=1.0, inertia=1.0)
    assert model.mistakes() == ["The model's name must be one line of at most 300 characters."]


OWN = "this word has its own meaning in this element; choose another."
VARIABLE = "the formula calls a variable by this word; choose another."


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda m, p: _pull(m, "stiffness*t", p(stiffness=-6.0)), f"Force 'f': parameter 'stiffness': {OWN}"),
        (lambda m, p: _pull(m, lambda t, x, v, p: 1.0, p(damping=1.0)), f"Force 'f': parameter 'damping': {OWN}"),
        (lambda m, p: _pull(m, expression("damping*t", p(damping=1.0))), f"Force 'f': parameter 'damping': {OWN}"),
        (lambda m, p: _pull(m, "rate", p(rate=1.0)), f"Force 'f': pull: parameter 'rate': {VARIABLE}"),
        (lambda m, p: m.joint_force("f", "s", "6*value", parameters=p(value=1.0)),
         f"Force 'f': effort: parameter 'value': {VARIABLE}"),
        (lambda m, p: m.joint_force("f", "s", "point_i", parameters=p(point_i=1.0)),
         f"Force 'f': parameter 'point_i': {OWN}"),
        (lambda m, p: m.force("f", "b", lambda t, p: (1.0, 0.0), parameters=p(frame_i=1.0)),
         f"Force 'f': parameter 'frame_i': {OWN}"),
        (lambda m, p: m.driver("d", "s", "point_j*t", parameters=p(point_j=1.0)),
         f"Driver 'd': parameter 'point_j': {OWN}"),
        (lambda m, p: m.driver("d", "s", "side*t", parameters=p(side=1.0)), f"Driver 'd': parameter 'side': {OWN}"),
        (lambda m, p: m.holonomic("h", ["b"], "b.y - frame_j", parameters=p(frame_j=1.0)),
         f"Rows 'h': parameter 'frame_j': {OWN}"),
        (lambda m, p: m.holonomic("h", ["b"], "b.y", parameters={"b.y": 1.0}),
         f"Rows 'h': residual must be a function or formulas: parameter 'b.y': {VARIABLE}"),
    ],
)  # fmt: skip
def test_a_parameter_cannot_have_a_name_that_its_element_uses(make, sentence):
    model = da.Model("m")
    body = model.body("b", mass=1.0, inertia=1.0, position=(1, 0))
    model.prismatic("s", model.ground, body, at=(1, 0), axis=(1, 0))
    make(model, dict)
    assert model.mistakes() == [sentence]


def test_a_function_may_call_its_parameters_as_a_formula_may_not():
    """What stands in p of a Python function is apart from its arguments."""
    model = da.Model("m")
    body = model.body("b", mass=1.0, inertia=1.0, position=(1, 0))
    model.prismatic("s", model.ground, body, at=(1, 0), axis=(1, 0))
    model.joint_force("f", "s", lambda t, value, rate, p: p["value"], parameters={"value": 1.0})
    assert model.mistakes() == []


def _pull(model, pull, parameters=None):
    model.spring_damper("f", model.ground, "b", at_i=(0, 0), at_j=(1, 0), pull=pull, parameters=parameters)


def test_nothing_is_told_that_follows_from_another_mistake():
    model = da.Model("bad")
    crank = model.body("crank", mass=1, inertia=1)
    model.revolute("main", model.ground, "crnk", at=(0, 0))
    model.driver("motor", "main", "6*t")
    model.joint_spring("spring", "main", stiffness=1)
    model.prismatic("slide", model.ground, crank, at=(0, 0), axis="x")
    assert model.mistakes() == [
        "Joint 'main': there is no body or marker 'crnk'. Did you mean 'crank'?",
        "Joint 'slide': axis must be 2 numbers (the model is in the plane), not 'x'.",
    ]


def test_a_misspelt_argument_is_named():
    with pytest.raises(
        da.errors.DalembertError, match=r"body: 'masss' is unknown; known are name, mass.* Did you mean 'mass'"
    ):
        da.Model().body("b", masss=1, inertia=1)


def test_empty_model_and_unknown_space():
    with pytest.raises(da.errors.ModelError, match="There is no body"):
        da.build(da.Model("empty"))
    with pytest.raises(da.errors.ModelError, match="space='volume' is unknown"):
        da.Model("odd", space="volume").validate()


def test_quaternion_and_rotation_describe_the_same_pose():
    """Bar-Itzhack's extraction against Rodrigues' formula, at random rotations and at half turns."""
    from dalembert.model import axis_angle, quaternion_of, rotation_matrix

    rng = np.random.default_rng(1)
    cases = [(rng.standard_normal(3), rng.uniform(-np.pi, np.pi)) for _ in range(20)]
    cases += [((1, 0, 0), np.pi), ((0, 1, 0), np.pi), ((0, 0, 1), np.pi), ((1, 1, 0), np.pi)]
    for axis, angle in cases:
        R = axis_angle(axis, angle)
        np.testing.assert_allclose(rotation_matrix(quaternion_of(R)), R, atol=1e-14)  # a few roundings


# ---- functions of Python that cannot be compiled -------------------------------------------------------------

DECIDES = "it decides by a value .* write jnp.where"
ASKS = "it asks for the value of a number .* write it with jax.numpy"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda m: m.force_law("wind", ["b"], lambda t, f: [(np.ones(2) if t > 0.5 else np.zeros(2), 0.0)]),
         rf"Force 'wind': its law fails: {DECIDES}.* \(test_model.py, line \d+: .*t > 0.5"),
        (lambda m: m.force("push", "b", lambda t: (float(t), 0.0)), f"Force 'push': its law fails: {ASKS}"),
        (lambda m: m.force("push", "b", lambda t: (math.sin(t), 0.0)), f"Force 'push': its law fails: {ASKS}"),
        (lambda m: m.torque("turn", "b", lambda t: np.sin(t)), f"Force 'turn': its law fails: {ASKS}"),
        (lambda m: m.force_law("k", ["b"], lambda t, f, p: [(np.ones(2) * float(p["k"]), 0.0)], parameters={"k": 2.0}),
         f"Force 'k': its law fails: {ASKS}"),
        (lambda m: m.spring_damper("s", m.ground, "b", at_i=(3, 0), pull=lambda t, l, r: max(l - 1.0, 0.0)),
         f"Force 's': its law fails: {DECIDES}"),
        (lambda m: m.joint_force("j", "pin", lambda t, value, rate: -math.tanh(rate)), f"Force 'j': .*{ASKS}"),
        (lambda m: m.motor("w", "pin", torque=lambda t: np.cos(t)), f"Force 'w': .*{ASKS}"),
        (lambda m: m.driver("d", "pin", lambda t: math.sin(t)), f"Rows of 'd': its function fails: {ASKS}"),
        (lambda m: m.driver("d", "pin", lambda t: t if t < 1 else 1.0), f"Rows of 'd': its function fails: {DECIDES}"),
        (lambda m: m.speed_driver("d", "pin", lambda t: np.sin(t)), f"Rows of 'd': its function fails: {ASKS}"),
        (lambda m: m.distance_driver("d", m.ground, "b", lambda t: 1 + abs(math.sin(t))), f"Rows of 'd': .*{ASKS}"),
        (lambda m: m.holonomic("h", ["b"], lambda t, f: f[0].p[0] if f[0].p[1] > 0 else 0.0), f"'h': .*{DECIDES}"),
        (lambda m: m.pfaffian("h", ["b"], lambda t, f: np.hypot(*f[0].v)), f"Rows of 'h': .*{ASKS}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_a_function_that_cannot_be_compiled_is_named(make, sentence, coordinates):
    model = da.Model("bad")
    model.body("b", mass=1.0, inertia=1.0, position=(1, 0))
    model.revolute("pin", model.ground, "b", at=(0, 0))
    make(model)
    with pytest.raises(da.errors.ModelError, match=sentence):
        da.build(model, coordinates=coordinates)
