"""Redundant models move exactly as their hand-reduced twins: no option set but a tight tolerance.

Each redundant mechanism is run beside a model of the same machine whose rows are independent (checked by
`da.check`). Both are integrated with the same settings, so what differs is the treatment of the redundant rows.
"""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from _helpers_passages import bennett

import dalembert as da
from dalembert.mechanisms import find

RUN = {"integrator": "dopri8", "rtol": 1e-11, "samples": 61}
# of the machine's size: two exact treatments at rtol 1e-11 differ by the integration error of a few hundred steps
BAR = 1e-9


def moved(model, t1, **more):
    """Positions (times, bodies, d), and rotations or angles, of a run."""
    solution = da.simulate(model, t1, **(RUN | more))
    assert solution.status.name == "done"
    data = solution.dataset
    turning = data["quaternion"].values if "quaternion" in data else data["angle"].values
    return np.asarray(solution.t), data["position"].values, turning, solution


def apart(a, b) -> float:
    """Largest difference in positions, angles or quaternions (whose sign means nothing)."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape[-1] == 4:
        return float(np.max(np.minimum(np.max(np.abs(a - b), -1), np.max(np.abs(a + b), -1))))
    return float(np.max(np.abs(a - b)))


def same_machine(redundant, reduced, p: int) -> None:
    """The redundant model has p redundant rows, the reduced one none, and both the same mobility."""
    one, two = da.check(redundant), da.check(reduced)
    assert (one.redundancy, two.redundancy) == (p, 0)
    assert one.mobility == two.mobility


# ---- doors ------------------------------------------------------------------------------------------------------


def door_on_one_hinge() -> da.Model:
    model = find("door-two-hinges").model()
    del model.constraints["bottom"]
    return model


@pytest.fixture(scope="module")
def one_hinge():
    return moved(door_on_one_hinge(), 3.0)


@pytest.mark.parametrize(
    ("name", "p"), [("door-two-hinges", 5), pytest.param("door-two-balls", 1, marks=pytest.mark.thorough)]
)
def test_door(name, p, one_hinge):
    model = da.mechanism(name)
    same_machine(model, door_on_one_hinge(), p)
    t, position, quaternion, solution = moved(model, 3.0)
    assert apart(position, one_hinge[1]) < BAR
    assert apart(quaternion, one_hinge[2]) < BAR
    # gravity acts along the hinge line: the leaf swings at the constant rate of 1 rad/s
    exact = 0.5 * np.stack([np.cos(t), np.sin(t), 0 * t], axis=1)
    assert apart(position[:, 0], exact) < BAR
    assert apart(quaternion[:, 0], np.stack([np.cos(t / 2), 0 * t, 0 * t, np.sin(t / 2)], axis=1)) < BAR
    assert apart(solution.vdot[:, 5], 0.0) < 1e-9


# ---- Bricard ----------------------------------------------------------------------------------------------------


def bricard_reduced() -> da.Model:
    """The last revolute without one of its two rows about the axis: a universal joint, point and one right angle."""
    model = da.mechanism("bricard")
    del model.constraints["R6"]
    model.universal("R6", "bar5", model.ground, at=(0, 0, 1), axis_i=(1, 0, 0), axis_j=(0, 0, 1))
    return model


@pytest.mark.thorough  # everyday: the four-bar in space, and Bricard's own motion in test_references_iftomm.py
def test_bricard():
    model, reduced = da.mechanism("bricard"), bricard_reduced()
    same_machine(model, reduced, 1)
    _, position, quaternion, _ = moved(model, 5.0)
    _, position_2, quaternion_2, _ = moved(reduced, 5.0)
    assert apart(position, position_2) < BAR
    assert apart(quaternion, quaternion_2) < BAR


# ---- the planar four-bar in space -------------------------------------------------------------------------------

TILT = 0.3


def four_bar_with_free_joints() -> da.Model:
    """Revolutes at A and B, a ball at C and a cylinder at D: 5 + 5 + 3 + 4 = 17 independent rows."""
    model = da.mechanism("spatial-four-bar", tilt=TILT)
    C, D = model.constraints.pop("C"), model.constraints.pop("D")
    for name, kind, old in (("C", model.spherical, C), ("D", model.cylindrical, D)):
        i, j = old.markers
        # the joint frames are kept: the markers' names are new
        kind(
            name,
            model.marker(f"{name}_i", i.body, position=i.position, rotation=i.body.rotation @ i.rotation),
            model.marker(f"{name}_j", j.body, position=j.position, rotation=j.body.rotation @ j.rotation),
        )
    return model


def planar_twin() -> da.Model:
    """The same bars in their own plane: gravity's component 9.81 cos(tilt), inertia of the bar about the normal."""
    plane = find("four-bar").model()
    model = da.Model("four-bar", gravity=(0.0, -9.81 * math.cos(TILT)))
    for name, body in plane.bodies.items():
        length = {"crank": 1.0, "coupler": 2.0, "rocker": 1.5}[name]
        angle = math.atan2(body.rotation[1, 0], body.rotation[0, 0])
        # mass = length; square section of 0.05 m
        inertia = length * (length**2 + 0.05**2) / 12
        model.body(name, mass=length, inertia=inertia, position=body.position, angle=angle)
    for name, joint in plane.constraints.items():
        i, j = (("ground" if m.body.is_ground else m.body.name) for m in joint.markers)
        model.revolute(name, i, j, at=joint.markers[0].start_position)
    return model


@pytest.fixture(scope="module")
def four_bar():
    return moved(da.mechanism("spatial-four-bar", tilt=TILT), 5.0)


@pytest.mark.thorough
def test_four_bar_against_free_joints(four_bar):
    model = da.mechanism("spatial-four-bar", tilt=TILT)
    same_machine(model, four_bar_with_free_joints(), 3)
    _, position, quaternion, _ = moved(four_bar_with_free_joints(), 5.0)
    # of its size, 2 m
    assert apart(position, four_bar[1]) < 2 * BAR
    assert apart(quaternion, four_bar[2]) < BAR


def test_four_bar_against_plane(four_bar):
    same_machine(da.mechanism("spatial-four-bar", tilt=TILT), planar_twin(), 3)
    _, flat, _, _ = moved(planar_twin(), 5.0)
    a = math.pi / 2 + TILT  # the plane is turned by this about x
    basis = np.array([[1, 0, 0], [0, math.cos(a), math.sin(a)]])
    assert apart(flat @ basis, four_bar[1]) < 2 * BAR


# ---- the mobile robot -------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_mobile_robot():
    entry = find("mobile-robot")
    reduced = entry.model()
    del reduced.constraints["W4"], reduced.constraints["W1"]
    same_machine(entry.model(), reduced, 2)
    # 9 s: most of a steering manoeuvre; its size is about 1 m
    _, position, angle, _ = moved(entry.model(), 9.0)
    _, position_2, angle_2, _ = moved(reduced, 9.0)
    assert apart(position, position_2) < BAR
    assert apart(angle, angle_2) < BAR


# ---- loops that close only nearly ----------------------------------------------------------------------------------


def tilted(angle: float) -> da.Model:
    """The planar four-bar of four spatial hinges, the axis of one half of its last hinge tilted out of parallel."""
    model = da.mechanism("spatial-four-bar")
    hinge = model.constraints["D"]
    c, s = np.cos(angle), np.sin(angle)
    half = dataclasses.replace(
        hinge.markers[1], rotation=np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ hinge.markers[1].rotation
    )
    model.constraints["D"] = dataclasses.replace(hinge, markers=(hinge.markers[0], half))
    return model


@pytest.mark.parametrize(("coordinates", "angles"), [
    ("joint", (1e-7,)),
    *(pytest.param(x, (1e-9, 1e-7, 1e-5), marks=pytest.mark.thorough) for x in ("absolute", "joint")),
])  # fmt: skip
def test_a_stated_tolerance_lets_a_nearly_closed_loop_move(coordinates, angles):
    """It moves as the exact one, to 1e-3 of the tilt and the integration's 1e-8; what does not fit is named."""
    exact = da.simulate(da.build(tilted(0.0), coordinates=coordinates), 0.5, samples=3)
    for angle in angles:
        system = da.build(tilted(angle), coordinates=coordinates)
        if angle > 1e-8:
            with pytest.raises(da.errors.AssemblyError, match=r"rounding in the numbers.*say tolerance=1e-0\d"):
                da.stabilise.consistent_state(system)
            with pytest.warns(da.errors.AssemblyWarning, match=r"close only to .*superfluous of '[CD]'"):
                found = da.simulate(system, 0.5, samples=3, tolerance=1e-5)
            assert 1e-2 * angle < found.stats["misfit"] < angle
        else:
            found = da.simulate(system, 0.5, samples=3)
        assert found.status is da.simulation.Status.done
        np.testing.assert_allclose(found.q, exact.q, atol=angle + 1e-7)
        assert found.energy_drift < 1e-6


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_check_of_a_nearly_closed_loop_keeps_its_table_and_its_advice(coordinates):
    exact = da.check(da.build(tilted(0.0), coordinates=coordinates))
    system = da.build(tilted(1e-6), coordinates=coordinates)
    refused, found = da.check(system), da.check(system, tolerance=1e-6)
    assert not refused.consistent and "tolerance=1e-06" in str(refused)
    assert found.consistent and 1e-8 < max(found.misfit.values()) < 1e-6
    for said in (refused, found):
        assert (said.rank, said.redundancy, said.mobility) == (exact.rank, 3, 1)
        assert "closes only to" in str(said) and "not unique" in str(said)
        assert "to make it non-redundant, free: Mx My of A" in str(said)
    json.dumps(found.as_dict())


def test_a_tolerance_must_be_small_and_a_larger_gap_is_refused():
    for bad in (0.0, 1e-3, "much"):
        with pytest.raises(da.errors.DalembertError, match="tolerance"):
            da.check(tilted(0.0), tolerance=bad)
    with pytest.raises(da.errors.AssemblyError, match="cannot close"):
        da.simulate(tilted(1e-5), 0.1, tolerance=1e-8)


@pytest.mark.parametrize("coordinates", ["joint", pytest.param("absolute", marks=pytest.mark.thorough)])
def test_bennett_by_its_closed_form(coordinates):
    """Folded into a line, at θ = π, the rows that stand for all become dependent, but all rows together do not:
    no singular position, and nothing to interpolate."""
    machine, times = bennett(), np.linspace(0.0, 3.0, 31)
    theta = machine.by_hand(times)[0]
    assert theta[0] < np.pi < theta[-1]
    solution = da.simulate(da.build(machine.model, coordinates=coordinates), 3.0, rtol=1e-10, samples=times)
    by_hand = 0.5 * np.stack([np.cos(theta), np.sin(theta), 0 * theta], axis=1)
    # some hundred steps within 1e-10 each; by interpolation it was 1e-6 off, whatever the tolerance
    np.testing.assert_allclose(solution.dataset["position"].sel(body="link1"), by_hand, rtol=0, atol=3e-9)
    assert solution.stats["steps"] < 500  # 163 and 245 as measured; 540 and 2408 by interpolation
