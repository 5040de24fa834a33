"""Everything a model can say, in joint coordinates: joints that carry, joints that close, drivers, couplings, forces.

Each element stands in a small machine of its own; all of them together are one model, so that two compiled programs
serve them all. At a moving state far off the start the bodies must accelerate as they do in absolute coordinates.
"""

from __future__ import annotations

import contextlib
import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_joints import (
    JOINTS,
    PRESCRIBED,
    add_joint,
    motion,
    quiet_model,
    random_body,
    settled,
    solved,
    spot,
)

import dalembert as da
from dalembert.model import ELEMENTS, AbstractJoint, quaternion_of

T = 0.3  # s: drivers are on their way
AGREE = 1e-9  # of the largest acceleration of a machine: two factorisations, one of them sparse and regularised

CARRYING = {
    space: [
        word
        for word, cls in ELEMENTS.items()
        if issubclass(cls, AbstractJoint) and space in cls.spaces and cls.links(cls.__new__(cls), space) is not None
    ]
    for space in ("plane", "space")
}
FORCES = (
    "force", "force_body", "torque", "drag", "law", "spring_damper", "bushing", "beam", "joint_spring", "joint_force",
    "stop", "friction", "pd_control", "motor", "motor_rotor", "central_gravity",
)  # fmt: skip
OTHERS = {
    "plane": ("driver", "speed_driver", *PRESCRIBED, "coupling", "coupling_speeds", *FORCES, "free"),
    "space": ("driver", "speed_driver", *PRESCRIBED, "coupling", "coupling_speeds", *FORCES, "free"),
}


def words(space: str) -> list[str]:
    """Every machine of a space by name: `carry:…`, `close:…`, or the element it shows."""
    return [f"carry:{k}" for k in CARRYING[space]] + [f"close:{k}" for k in JOINTS[space]] + list(OTHERS[space])


# every run: a hinge closes, a disc rolls; a driver, a coupling, forces of two sorts. All that carry are in every run of
# `test_tree_pinocchio.py`
DAILY = [
    "carry:revolute", "close:revolute", "close:rolling_disc", "driver", "coupling", "spring_damper", "joint_spring",
    "free",
]  # fmt: skip


def add_machine(model, word: str, rng) -> str | None:
    """Add one machine; the joint that must close a loop, if any."""
    way, _, kind = word.partition(":")
    a, b = (random_body(model, f"{word}/{letter}", rng) for letter in "ab")
    if word == "free":
        return None
    s, t = spot(model.space, rng), spot(model.space, rng)
    ball = "spherical" if model.space == "space" else "revolute"
    if word == "carry:weld":
        add_joint(model, ball, f"{word}/hinge", model.ground, a, s)
        add_joint(model, "weld", f"{word}/1", b, a, t)
        return None
    if way == "carry":  # once named from the near body, once from the far one
        add_joint(model, kind, f"{word}/1", model.ground, a, s)
        add_joint(model, kind, f"{word}/2", b, a, t)
        return None
    if way == "close":  # ground, a, the joint, b, and back by b's own six freedoms
        add_joint(model, ball, f"{word}/hinge", model.ground, a, t)
        return add_joint(model, kind, f"{word}/1", a, b, s).name
    add_joint(model, "revolute", f"{word}/1", model.ground, a, s)
    if word in PRESCRIBED:
        return add_joint(model, word, word, a, b, t).name
    # two angles at an irrational ratio are coupled by their speeds
    add_joint(model, "revolute" if word == "coupling_speeds" else "prismatic", f"{word}/2", b, a, t)
    add_element(model, word, a, b, s, t)
    return None


def add_element(model, word: str, a, b, s, t) -> None:
    """A driver, coupling or force on a crank (joint 1) that carries a slider (joint 2, named from the far body)."""
    d = model.dimension
    crank, slide = f"{word}/1", f"{word}/2"
    stiff = np.linspace(20.0, 30.0, 3 if d == 2 else 6)
    turn = 0.3 if d == 2 else (0.3, -0.2, 0.4)
    section = {"I": 1e-3} if d == 2 else {"I_y": 1e-3, "I_z": 2e-3, "G": 400.0, "J": 1e-3}
    add = {
        "driver": lambda: model.driver(word, slide, motion, parameters={"start": 0.1}),
        "speed_driver": lambda: model.speed_driver(word, crank, "0.4 + 0.3*t"),
        "coupling": lambda: model.coupling(word, [(crank, 0.4), (slide, 1.0)]),
        "coupling_speeds": lambda: model.coupling(word, [(crank, 1.0), (slide, math.sqrt(2))]),
        "force": lambda: model.force(word, b, np.arange(1.0, d + 1), at=t.at),
        "force_body": lambda: model.force(word, b, ["sin(3*t)"] + [1.0] * (d - 1), at=t.at, frame="body"),
        "torque": lambda: model.torque(word, b, turn),
        "drag": lambda: model.drag(word, b, linear=0.5, quadratic=0.2, angular=0.1, at=t.at),
        "law": lambda: model.force_law(word, [a, b], pull_together),
        "spring_damper": lambda: model.spring_damper(word, a, b, at_i=s.off, at_j=t.at, stiffness=50.0, damping=2.0),
        "bushing": lambda: model.bushing(word, a, b, at=t.at, stiffness=stiff, damping=0.1 * stiff),
        "beam": lambda: model.beam(word, model.ground, b, at_i=s.off, at_j=t.at, E=1e3, area=0.1, **section),
        "joint_spring": lambda: model.joint_spring(word, crank, stiffness=8.0, damping=0.3, free=0.2),
        "joint_force": lambda: model.joint_force(word, slide, "2*sin(t) - value - 0.1*rate"),
        "stop": lambda: model.stop(word, slide, stiffness=300.0, upper=-0.5, damping=3.0),
        "friction": lambda: model.friction(word, crank, normal=5.0, coulomb=0.2, static=0.3, transition_speed=0.1),
        "pd_control": lambda: model.pd_control(word, crank, "0.5*t", stiffness=10.0, damping=1.0),
        "motor": lambda: model.motor(word, crank, voltage=4.0, torque_constant=0.2, resistance=1.0, gear=5.0),
        "motor_rotor": lambda: model.motor(word, crank, torque=0.2, gear=5.0, rotor_inertia=0.01),
        "central_gravity": lambda: model.central_gravity(word, 2.0, at=np.full(d, 3.0)),
    }
    add[word]()


def pull_together(t, frames):
    gap = frames[1].p - frames[0].p
    force = (3.0 + t) * gap - 0.2 * (frames[1].v - frames[0].v)
    none = jnp.zeros(1 if len(gap) == 2 else 3)
    return [(force, none), (-force, none + 0.1)]


@eqx.filter_jit
def carried(system, q, u, udot):
    """Places, velocities and v̇_abs = J u̇ + J̇u of the bodies."""
    at, along = jax.jvp(lambda u: system.body_motion(q, u), (u,), (udot,))
    return at.places, at.v, along.v + at.bias


class Compared:
    """One model of many machines in both coordinates at the same moving state."""

    def __init__(self, space: str, machines):
        rng = np.random.default_rng(11)
        self.model = model = quiet_model(space)
        cut = [name for word in machines if (name := add_machine(model, word, rng))]
        cut = [name for name in cut if model.constraints[name].element.links(space) is not None]
        self.tree, self.absolute = da.build(model, coordinates="joint", cut=cut), da.build(model)
        nudge, u = rng.uniform(-0.3, 0.3, self.tree.n), rng.uniform(-1, 1, self.tree.n)
        start = np.asarray(self.tree.retract(jnp.asarray(self.tree.q0), jnp.asarray(nudge)))
        q, u = settled(self.tree, start, u, T)
        state = jnp.asarray(q), jnp.asarray(u)
        udot = solved(self.tree, jnp.asarray(T), *state)[0]
        places, v, vdot = carried(self.tree, *state, udot)
        p, R = np.asarray(places.p)[:-1], np.asarray(places.R)[:-1]
        turns = np.asarray(places.angle)[:-1, None] if space == "plane" else np.array([quaternion_of(A) for A in R])
        at = jnp.asarray(np.hstack([p, turns]).ravel()), jnp.ravel(v)
        expected, self.Phi, self.phi = solved(self.absolute, jnp.asarray(T), *at)
        self.found, self.expected = np.asarray(vdot), np.asarray(expected).reshape(len(p), -1)
        self.moved = np.linalg.norm(p - np.array([b.position for b in model.bodies.values()]), axis=1)

    def bodies(self, word: str) -> list[int]:
        return [k for k, name in enumerate(self.model.bodies) if name.split("/")[0] == word]


@functools.cache
def compared(space: str, daily: bool) -> Compared:
    return Compared(space, DAILY if daily else [w for w in words(space) if space == "plane" or w not in DAILY])


def check(space: str, word: str, daily: bool) -> None:
    case = compared(space, daily)
    rows = case.bodies(word)
    assert len(rows) >= 2 and np.min(case.moved[rows]) > 1e-3
    np.testing.assert_allclose(
        case.found[rows], case.expected[rows], rtol=0, atol=AGREE * max(1.0, np.max(np.abs(case.expected[rows])))
    )
    closing = {owner.name for owner in case.tree.owners}
    way = word.split(":")[0]
    # what can carry does, unless it was cut; what was cut, and what cannot carry, is a row
    assert (f"{word}/1" in closing) == (way == "close") and f"{word}/2" not in closing


@pytest.mark.parametrize("word", DAILY)
def test_elements_in_space(word):
    check("space", word, True)


@pytest.mark.thorough
@pytest.mark.parametrize("word", [w for w in words("space") if w not in DAILY])
def test_more_elements_in_space(word):
    check("space", word, False)


@pytest.mark.thorough
@pytest.mark.parametrize("word", words("plane"))
def test_elements_in_the_plane(word):
    check("plane", word, False)


def test_the_state_is_one_that_both_accept():
    case = compared("space", True)
    assert max(np.max(np.abs(np.asarray(case.Phi))), np.max(np.abs(np.asarray(case.phi)))) < 1e-10


def test_every_kind_that_can_carry_is_tried():
    listed = {"weld", "revolute", "prismatic", "cylindrical", "screw", "universal", "spherical", "planar"}
    assert listed <= set(CARRYING["space"]) <= set(JOINTS["space"])
    assert {"weld", "revolute", "prismatic"} <= set(CARRYING["plane"]) <= set(JOINTS["plane"])


def _slide(extra) -> da.Model:
    model = da.Model("slide", gravity=(0, 0))
    block = model.body("block", mass=2.0, inertia=0.1)
    model.prismatic("rail", model.ground, block, at=(0, 0), axis=(1, 0))
    model.measure("x", "coordinate", "rail")
    extra(model)
    return model


def test_what_acts_on_a_coordinate_moves_with_its_joint():
    """A joint's place is moved by its name alone: its spring, its driver and its coupling read the same coordinate."""
    place = {"rail.point_j": np.array([0.1, 0.0])}
    for coordinates in ("absolute", "joint"):
        sprung = da.build(_slide(lambda m: m.joint_spring("k", "rail", stiffness=8.0)), coordinates=coordinates)
        equations = da.assemble(sprung.replace(place), 0.0, sprung.q0, sprung.v0)
        x = 0.1 if coordinates == "absolute" else 0.0  # in a tree q is the coordinate itself
        np.testing.assert_allclose(equations.h[0], -8.0 * x, atol=1e-15)
        driven = da.build(_slide(lambda m: m.driver("d", "rail", "t")), coordinates=coordinates).replace(place)
        with pytest.warns(UserWarning, match="moved") if coordinates == "absolute" else contextlib.nullcontext():
            run = da.simulate(driven, 0.5, samples=2)
        np.testing.assert_allclose(run.measurements["x"].values, [0.0, 0.5], atol=1e-12)
        np.testing.assert_allclose(run.dataset["position"].values[:, 0, 0], [-0.1, 0.4], atol=1e-12)


def test_a_place_that_is_given_for_one_element_is_its_own():
    system = da.build(_slide(lambda m: m.joint_spring("k", "rail", stiffness=8.0)))
    for names in (("rail.point_j", "k.point_j"), ("k.point_j", "rail.point_j")):
        changed = system.replace({name: [0.3 if name[0] == "k" else 0.1, 0.0] for name in names}).parameters()
        assert (float(changed["k.point_j"][0]), float(changed["rail.point_j"][0])) == (0.3, 0.1)


def test_the_terms_of_a_coupling_move_with_their_joints():
    def coupled(model):
        other = model.body("other", mass=1.0, inertia=1.0, position=(0, 1))
        model.prismatic("beside", model.ground, other, at=(0, 1), axis=(1, 0))
        model.coupling("rod", [("rail", 1.0), ("beside", -1.0)])

    system = da.build(_slide(coupled)).replace({"rail.point_j": np.array([0.1, 0.0])})
    assert float(system.position_residual(0.0, system.q0)[-1]) == pytest.approx(0.1)
