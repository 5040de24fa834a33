"""Nine joint histories with reactions by Adams (Project Chrono's test data)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from _helpers_references import integrate, rotations, table, worst
from _helpers_thorough import everyday

import dalembert as da
from dalembert.simulation import Solution  # importing it switches JAX to float64

# ---- ADAMS: one body on each kind of joint, with reactions ---------------------------------------------------

GRAVITY = np.array([0.0, 0.0, -9.80665])  # ACCGRAV of the .adm files
SPRINGS = {"rotational": (200.0, 10.0), "translational": (10.0, 0.5)}  # of the recorded columns: see adams.json
ADAMS_RUN = {"integrator": "dopri8", "rtol": 1e-10, "samples": np.linspace(0, 5, 51)}


def about_x(degrees: float) -> np.ndarray:
    """REULER = 180, a, 180 (body-fixed 3-1-3) is a turn by −a about x; 0, a, 0 one by +a."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def adams_model(position, R, inertia=(0.04, 0.1, 0.1)):
    """Part 2 of the .adm files: 1 kg, IP along the axes of its centre marker (which is our body frame)."""
    model = da.Model("adams", space="space", gravity=GRAVITY)
    return model, model.body("part", mass=1.0, inertia=inertia, position=position, rotation=R)


def adams_revolute_1():
    model, part = adams_model((2, 0, 0), about_x(-90))
    model.revolute("joint", model.ground, part, at=(0, 0, 0), axis=about_x(-90)[:, 2])
    return model


def adams_revolute_2():
    model, part = adams_model((3, 2, 3), about_x(-45))
    model.revolute("joint", model.ground, part, at=(1, 2, 3), axis=about_x(-45)[:, 2])
    return model


def adams_spherical():
    model, part = adams_model((2, 0, 0), np.eye(3))
    model.spherical("joint", model.ground, part, at=(0, 0, 0))
    return model


def adams_universal():
    # HOOKE: x of the ground's marker stays perpendicular to y of the part's, both turned +90° about x
    R = about_x(90)
    model, part = adams_model((0, 2, 0), R, inertia=(0.1, 0.1, 0.04))
    model.universal("joint", model.ground, part, at=(0, 0, 0), axis_i=R[:, 0], axis_j=R[:, 1])
    return model


def adams_cylindrical():
    model, part = adams_model((2, 0, 0), np.eye(3))
    model.cylindrical("joint", model.ground, part, at=(0, 0, 0), axis=(0, 0, 1))
    return model


def adams_prismatic():
    model, part = adams_model((3, 2, 3), about_x(-45))
    model.prismatic("joint", model.ground, part, at=(1, 2, 3), axis=about_x(-45)[:, 2])
    return model


def adams_distance():
    model, part = adams_model((0, 2, 0), np.eye(3))
    model.distance("joint", model.ground, part, at_i=(0, 0, 0), at_j=(0, 2, 0), length=2.0)
    return model


def adams_rotational_spring():
    model = adams_revolute_1()
    k, c = SPRINGS["rotational"]
    model.joint_spring("spring", "joint", stiffness=k, damping=c, free=0.0)
    return model


def adams_translational_spring():
    # all moves along z; the spring is hung 2 m above, since at length zero it would have no direction
    model, part = adams_model((0, 0, 0), np.eye(3))
    k, c = SPRINGS["translational"]
    model.spring_damper("spring", model.ground, part, at_i=(0, 0, 2), stiffness=k, damping=c, length=2.0)
    return model


# case → model, and the joint's marker on ground, where the recorded reaction acts
ADAMS = {
    "Revolute_Case01": (adams_revolute_1, (0, 0, 0)),
    "Revolute_Case02": (adams_revolute_2, (1, 2, 3)),
    "Spherical_Case01": (adams_spherical, (0, 0, 0)),
    "Universal_Case01": (adams_universal, (0, 0, 0)),
    "Cylindrical_Case01": (adams_cylindrical, (0, 0, 0)),
    "Prismatic_Case02": (adams_prismatic, (1, 2, 3)),
    "Distance_Case01": (adams_distance, (0, 0, 0)),
    "RotSpring_Case01": (adams_rotational_spring, (0, 0, 0)),
    "TranSpring_Case01": (adams_translational_spring, (0, 0, 0)),
}


DAILY = ("Revolute_Case01", "Universal_Case01", "Prismatic_Case02", "RotSpring_Case01", "TranSpring_Case01")


@pytest.fixture(scope="module", params=everyday(ADAMS, DAILY))
def adams(request):
    """(case, recorded columns, solution)."""
    recorded = {k: np.array(x) for k, x in table("adams")["cases"][request.param].items()}
    return request.param, recorded, da.simulate(ADAMS[request.param][0](), 5.0, **ADAMS_RUN)


def half_a_digit(values) -> np.ndarray:
    """What the columns leave open: half a unit of the sixth digit."""
    size = np.maximum(np.abs(values), 1e-12)
    return 0.5 * 10.0 ** (np.floor(np.log10(size)) - 5)


# The recorded swings of these two are wrong by 8.3e-4 m (`test_adams_swing`); Chrono's own bar is 1e-3
ADAMS_POSITION = {"Spherical_Case01": 1e-3, "Universal_Case01": 1e-3}


def test_adams_motion(adams):
    case, recorded, solution = adams
    part = solution.dataset.sel(body="part")
    position, R = part["position"].values, rotations(part["quaternion"].values)
    # recorded positions are good to 5e-6 of 2 m; the long falls are printed coarser than the bar
    bar = ADAMS_POSITION.get(case, 1e-4)
    assert np.all(np.abs(position - recorded["pos"]) < bar + half_a_digit(recorded["pos"]))
    assert worst(R, rotations(recorded["quat"])) < bar
    # a phase error makes an error in speed that is larger by ω, which stays below 5 rad/s
    assert np.all(np.abs(part["velocity"].values - recorded["vel"]) < 5 * bar + half_a_digit(recorded["vel"]))
    spin = np.einsum("tij,tj->ti", R, part["angular_velocity"].values)
    assert worst(spin, recorded["avel"]) < 5 * bar


SWINGS = {"Revolute_Case01": 0, "Spherical_Case01": 0, "Universal_Case01": 1}  # case → level axis


@pytest.mark.parametrize("adams", SWINGS, indirect=True)
def test_adams_swing(adams):
    """Three of the cases are one and the same swing of 2 m, which tells the quality of the recorded columns."""
    case, recorded, solution = adams
    # (I + m L²) a'' = m g L cos a, with a from the level
    angle = integrate(lambda t, y: [y[1], 2 * 9.80665 * math.cos(y[0]) / 4.1], [0, 0], np.asarray(solution.t))[0]
    exact = np.zeros((len(angle), 3))
    exact[:, SWINGS[case]], exact[:, 2] = 2 * np.cos(angle), -2 * np.sin(angle)
    # rtol 1e-10 over 5 s
    assert worst(solution.dataset["position"].sel(body="part").values, exact) < 1e-7
    off = worst(recorded["pos"], exact)
    assert 8e-4 < off < 9e-4 if case in ADAMS_POSITION else off < 6e-6


def reaction_on_ground(case: str, solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    """Force and torque on the ground about its marker, world axes: of the joint, and of a spring on it."""
    part = solution.dataset.sel(body="part")
    if case == "TranSpring_Case01":
        k, c = SPRINGS["translational"]
        fall, speed = -part["position"].values[:, 2], -part["velocity"].values[:, 2]
        force = np.zeros((len(fall), 3))
        force[:, 2] = -(k * fall + c * speed)
        return force, np.zeros_like(force)
    wrench = solution.reactions("joint")
    force, torque = wrench["force"].values, wrench["torque"].values
    # ours is on the part, about its marker, which has moved away from the ground's on a sliding joint
    start = np.array(ADAMS[case][1], float)
    marker = solution.system.q0[:3]
    R, R0 = rotations(part["quaternion"].values), rotations(np.asarray(solution.system.q0[3:7]))
    arm = start if case != "Distance_Case01" else np.array([0.0, 2, 0])
    local = R0.T @ (arm - np.asarray(marker))
    at = part["position"].values + R @ local
    torque = torque + np.cross(at - start, force)
    if case == "RotSpring_Case01":
        k, c = SPRINGS["rotational"]
        angle = solution.dataset["coordinate"].sel(joint_coordinate="joint.angle").values
        rate = np.einsum("tij,tj->ti", R, part["angular_velocity"].values)
        torque = torque - np.outer(k * angle, [0.0, 1, 0]) - c * rate
    return -force, -torque


def test_adams_reactions(adams):
    case, recorded, solution = adams
    force, torque = reaction_on_ground(case, solution)
    # 5e-3 of the largest recorded one: five times the recorded forces' own error (1e-3 on a case with a closed
    # form); where there is none (a free fall), of the part's weight and its moment at 2 m
    weight = 9.80665
    for ours, theirs, floor in ((force, recorded["rforce"], weight), (torque, recorded["rtorque"], 2 * weight)):
        largest = np.max(np.abs(theirs))
        assert worst(ours, theirs) < 5e-3 * (largest if largest > 1e-6 else floor)


def test_adams_spring_constants_are_those_of_the_columns():
    """The constants used are not those of the stored .adm files: the recorded columns alone determine them."""
    cases = {name: {k: np.array(x) for k, x in c.items()} for name, c in table("adams")["cases"].items()}
    turn = cases["RotSpring_Case01"]
    angle = np.arctan2(-turn["pos"][:, 2], turn["pos"][:, 0])
    fall = cases["TranSpring_Case01"]
    for kind, columns, load in (
        ("rotational", [angle, turn["avel"][:, 1]], turn["rtorque"][:, 1]),
        ("translational", [-fall["pos"][:, 2], -fall["vel"][:, 2]], -fall["rforce"][:, 2]),
    ):
        A = np.column_stack(columns)
        found = np.linalg.lstsq(A, load, rcond=None)[0]
        # 7 recorded digits of up to 31 N m and 18 N
        np.testing.assert_allclose(found, SPRINGS[kind], rtol=1e-5)
        assert worst(A @ found, load) < 2e-4
