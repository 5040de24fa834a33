"""Robot files: URDF against Pinocchio, MJCF against MuJoCo; what is taken over, what is told, there and back."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pinocchio as pin
import pytest
from _helpers_robots import ROBOTS, closed, evaluate, tree_of, velocity_names
from test_cli import dalembert

import dalembert as da
from dalembert._results import DalembertError, FileError
from dalembert.io import read, text_of

# both sides sum the same few products in double precision: a thousand roundings of the largest number
EXACT = 1e-12
ACCELERATIONS = 1e-10  # times the condition of M, up to 1e3 here


def peer(name: str, system, **options):
    """Pinocchio's model of the same file, and for each velocity of ours the number of Pinocchio's."""
    model = pin.buildModelFromUrdf(str(ROBOTS / name), **options)
    names = [n.removesuffix("_joint") if n not in model.names else n for n in velocity_names(system)]
    return model, model.createData(), [model.joints[model.getJointId(n)].idx_v for n in names]


def matches(ours, theirs, tolerance=EXACT):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(theirs), initial=0.0)))


def passive(model: da.Model, system, u) -> np.ndarray:
    """What damping and friction of the file do, by the formulas of its format (friction made smooth)."""
    names, out = velocity_names(system), np.zeros(len(u))
    for f in model.forces.values():
        joint = next(s for s in model.statements if s.name == f.name).arguments["joint"]
        k = names.index(joint)
        out[k] -= f.numbers.get("damping", 0.0) * u[k]
        out[k] -= f.numbers.get("coulomb", 0.0) * np.tanh(u[k] / 1e-3)
    return out


# ---- URDF against Pinocchio --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["arm6.urdf", "scara.urdf"])
def test_tree_of_a_urdf_is_pinocchios(name):
    """M, bias and accelerations, moving, away from zero."""
    model, system = tree_of(name)
    rng = np.random.default_rng(3)
    robot, data, order = peer(name, system)
    assert sorted(order) == list(range(robot.nv))
    for _ in range(3):
        q, u = rng.uniform(-1, 1, system.n), rng.uniform(-2, 2, system.n)
        there, v = np.zeros(robot.nv), np.zeros(robot.nv)
        there[order], v[order] = q, u
        q_pin = pin.integrate(robot, pin.neutral(robot), there)
        at = evaluate(system, q, u)
        M = pin.crba(robot, data, q_pin)
        M = np.triu(M) + np.triu(M, 1).T
        matches(at.M, M[np.ix_(order, order)])
        acting = passive(model, system, u)
        assert np.any(acting)
        matches(at.h, acting - pin.nonLinearEffects(robot, data, q_pin, v)[order])
        tau = np.zeros(robot.nv)
        tau[order] = acting
        matches(at.vdot, pin.aba(robot, data, q_pin, v, tau)[order], ACCELERATIONS)


def test_a_flying_urdf_is_pinocchios():
    """A floating joint: our velocities of the hull are (centre of mass in the world, ω), Pinocchio's (origin, ω) local."""
    model, system = tree_of("flyer.urdf")
    robot = pin.buildModelFromUrdf(str(ROBOTS / "flyer.urdf"))
    data = robot.createData()
    rng = np.random.default_rng(4)
    q = np.asarray(system.q0) + np.concatenate([rng.uniform(-1, 1, 7), rng.uniform(-1, 1, 3)])
    q[3:7] /= np.linalg.norm(q[3:7])
    u = rng.uniform(-1, 1, 9)
    at = evaluate(system, q, u)
    names = velocity_names(system)
    rest = [robot.joints[robot.getJointId(n)].idx_v for n in names[6:]]
    c = np.array([0.02, 0.0, -0.01])  # of the file
    flight = robot.getJointId("flight")
    w, x, y, z = q[3:7]
    R = pin.Quaternion(w, x, y, z).toRotationMatrix()
    hull = robot.jointPlacements[flight].inverse() * pin.SE3(R, q[:3] - R @ c)
    q_pin = pin.integrate(robot, pin.neutral(robot), np.concatenate([np.zeros(6), q[7:][np.argsort(rest)]]))
    q_pin[:7] = pin.SE3ToXYZQUAT(hull)
    X = np.zeros((9, 9))  # v_pin = X u
    X[:3, :3], X[:3, 3:6], X[3:6, 3:6] = R.T, pin.skew(c), np.eye(3)
    X[rest, range(6, 9)] = 1.0
    M = pin.crba(robot, data, q_pin)
    M = np.triu(M) + np.triu(M, 1).T
    matches(at.M, X.T @ M @ X)
    vdot = pin.aba(robot, data, q_pin, X @ u, np.zeros(9))
    vdot[:3] += np.cross(u[3:6], R.T @ u[:3])  # X turns with the hull
    matches(at.vdot, np.linalg.solve(X, vdot), ACCELERATIONS)


def loop_acceleration(name: str, system, q, u, acting, loops):
    """v̇ by Pinocchio's constrained dynamics; loops as (link, point, link, point)."""
    robot, data, order = peer(name, system)
    there, v, tau = (np.zeros(robot.nv) for _ in range(3))
    there[order], v[order], tau[order] = q, u, acting
    contacts = []
    for a, p, b, r in loops:
        fa, fb = (robot.frames[robot.getFrameId(n, pin.BODY)] for n in (a, b))
        ends = (fa.parentJoint, fa.placement * pin.SE3(np.eye(3), p), fb.parentJoint, fb.placement * pin.SE3(np.eye(3), r))
        contacts.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, robot, *ends, pin.LOCAL))
    datas = [c.createData() for c in contacts]
    q_pin = pin.integrate(robot, pin.neutral(robot), there)
    pin.initConstraintDynamics(robot, data, contacts, datas)
    settings = pin.ProximalSettings(1e-14, 1e-12, 100)
    return pin.constraintDynamics(robot, data, q_pin, v, tau, contacts, datas, settings)[order]


LOOPS = {
    "five_bar.urdf": [("left_rod", np.array([0.3, 0, 0]), "right_rod", np.array([0.3, 0, 0]))],
    "four_bar.urdf": [("coupler", np.array([0, 0, 0.5]), "rocker", np.array([0, 0.03, 0.4]))],
}


@pytest.mark.parametrize("name", ["five_bar.urdf", pytest.param("four_bar.urdf", marks=pytest.mark.thorough)])
def test_loops_of_a_urdf_are_pinocchios(name):
    """By an element of the file, and by a side file. Both are redundant in space: Pinocchio iterates to 1e-9 or so."""
    model, system = tree_of(name)
    assert system.m > 0
    q, u = closed(system, np.asarray(system.q0), np.random.default_rng(5).uniform(-2, 2, system.n))
    at = evaluate(system, q, u)
    assert np.max(np.abs(at.Phi)) < 1e-12 and np.max(np.abs(at.C @ u)) < 1e-12
    expected = loop_acceleration(name, system, q, u, passive(model, system, u), LOOPS[name])
    assert np.max(np.abs(expected)) > 1
    matches(at.vdot, expected, 1e-7)


def test_mimic_joints_are_pinocchios():
    """A chain of two and one with an offset: Pinocchio's tree without them, reduced by the factors q = G crank + offset."""
    _, system = tree_of("gripper.urdf")
    names = velocity_names(system)
    factors = {"crank_joint": 1.0, "left_slide": 0.025, "right_slide": 0.025, "thumb_hinge": -0.5}
    offsets = {"crank_joint": 0.0, "left_slide": 0.004, "right_slide": 0.004, "thumb_hinge": 0.2}
    G = np.array([factors[n] for n in names])
    np.testing.assert_allclose(system.q0, [offsets[n] for n in names], atol=1e-15)
    robot, data, order = peer("gripper.urdf", system)
    q, u = G * 0.4 + np.array([offsets[n] for n in names]), G * 1.7
    at = evaluate(system, q, u)
    assert np.max(np.abs(at.Phi)) < 1e-12 and np.max(np.abs(at.C @ G)) < 1e-12
    there, v = np.zeros(4), np.zeros(4)
    there[order], v[order] = q, u
    M = pin.crba(robot, data, there)
    M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
    bias = pin.nonLinearEffects(robot, data, there, v)[order]
    matches(at.M, M)
    matches(at.vdot, G * (-(G @ bias) / (G @ M @ G)), 1e-9)
