"""Robot files: URDF against Pinocchio, MJCF against MuJoCo; what is taken over, what is told, there and back."""

from __future__ import annotations

import json
import shutil

import jax.numpy as jnp
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from _helpers_cli import dalembert, in_process
from _helpers_robots import ROBOTS, closed, evaluate, tree_of, velocity_names

import dalembert as da
from dalembert._results import DalembertError, FileError
from dalembert.io import read, text_of
from dalembert.io._urdf import LOOPS
from dalembert.model import axis_angle, quaternion_of, rotation_matrix
from dalembert.reactions import RequireUnique
from dalembert.results._observe import observe

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
    """A floating joint: our velocities are (centre of mass in the world, ω), Pinocchio's (origin, ω), both local."""
    _, system = tree_of("flyer.urdf")
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
    """v̇ by Pinocchio's constrained dynamics, M and bias of its tree; loops as (link, point, link, point)."""
    robot, data, order = peer(name, system)
    there, v, tau = (np.zeros(robot.nv) for _ in range(3))
    there[order], v[order], tau[order] = q, u, acting
    contacts = []
    for a, p, b, r in loops:
        fa, fb = (robot.frames[robot.getFrameId(n, pin.BODY)] for n in (a, b))
        ends = (
            fa.parentJoint,
            fa.placement * pin.SE3(np.eye(3), p),
            fb.parentJoint,
            fb.placement * pin.SE3(np.eye(3), r),
        )
        contacts.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, robot, *ends, pin.LOCAL))
    datas = [c.createData() for c in contacts]
    q_pin = pin.integrate(robot, pin.neutral(robot), there)
    pin.initConstraintDynamics(robot, data, contacts, datas)
    settings = pin.ProximalSettings(1e-14, 1e-12, 100)
    vdot = pin.constraintDynamics(robot, data, q_pin, v, tau, contacts, datas, settings)[order]
    M = pin.crba(robot, data, q_pin)
    M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
    return vdot, M, pin.nonLinearEffects(robot, data, q_pin, v)[order]


CLOSED = {
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
    acting = passive(model, system, u)
    expected, M, bias = loop_acceleration(name, system, q, u, acting, CLOSED[name])
    assert np.max(np.abs(expected)) > 1
    matches(at.M, M)
    matches(at.h, acting - bias)
    matches(at.vdot, expected, 1e-7)


def test_mimic_joints_are_pinocchios():
    """A chain of two, one with an offset: Pinocchio's tree without them, reduced by q = G crank + offset."""
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


# ---- MJCF against MuJoCo -----------------------------------------------------------------------------------------

# joints that stand for several of the file: MuJoCo's in the order of our coordinates, with signs
CHAINS = {
    "root_x_root_z_root_y": [("root_x", 1), ("root_z", 1), ("root_y", -1)],  # x × z is -y
    "hooke_a_hooke_b": [("hooke_a", 1), ("hooke_b", 1)],
    "sleeve_s_sleeve_t": [("sleeve_s", -1), ("sleeve_t", 1)],  # it slides against the axis it turns about
    "slot_s_slot_t": [("slot_s", 1), ("slot_t", 1)],
    "cross_t_cross_s": [("cross_t", 1), ("cross_s", 1)],
}


def mujoco_state(robot, system, q, u):
    """MuJoCo's data at our state, X with v_mj = X u, and Ẋu."""
    data = mujoco.MjData(robot)
    X, bias, seen = np.zeros((robot.nv, system.n)), np.zeros(robot.nv), {}
    tree = system.tree
    for k in range(tree.count):
        joint, a, b = tree.joints[k], tree.q_start[k], tree.v_start[k]
        if tree.links[k].freedom == 0:
            continue
        if joint in system.body_names:  # a free body: slides of the centre of mass, then a ball
            body = robot.body(joint)
            j = robot.jnt_dofadr[body.jntadr[0]]
            if not tree.ball[k]:
                X[j + seen.setdefault(joint, 0), b] = 1.0
                seen[joint] += 1
                continue
            w, c = u[b : b + 3], body.ipos
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, q[a : a + 4])
            R = R.reshape(3, 3)
            X[j : j + 3, b : b + 3] = R @ np.array([[0, -c[2], c[1]], [c[2], 0, -c[0]], [-c[1], c[0], 0]])
            X[j + 3 : j + 6, b : b + 3] = np.eye(3)
            bias[j : j + 3] = -R @ np.cross(w, np.cross(w, c))
            at = robot.jnt_qposadr[body.jntadr[0]]
            data.qpos[at : at + 3] = q[a - 3 : a] - R @ c
            data.qpos[at + 3 : at + 7] = q[a : a + 4]
            continue
        own = joint.removesuffix("_joint") if joint.endswith("_joint") else joint  # renamed where a body has its name
        name, sign = CHAINS.get(joint, [(own, 1)])[seen.setdefault(joint, 0)]
        seen[joint] += 1
        at, dof = robot.joint(name).qposadr[0], robot.joint(name).dofadr[0]
        size = tree.v_start[k + 1] - b
        if size == 1:
            X[dof, b], data.qpos[at] = sign, robot.qpos0[at] + sign * q[a]
            continue
        F = np.asarray(system.links["frame_j"][k])  # our ball counts along its marker's axes, MuJoCo's along the body's
        X[dof : dof + 3, b : b + 3] = F
        data.qpos[at : at + 4] = quaternion_of(F @ rotation_matrix(q[a : a + 4]) @ F.T)
    data.qvel[:] = X @ u
    mujoco.mj_forward(robot, data)
    return data, X, bias


def mass_of(robot, data):
    M = np.zeros((robot.nv, robot.nv))
    mujoco.mj_fullM(robot, data, M)
    return M


@pytest.mark.parametrize("name", ["double_pendulum.xml", "joints.xml"])
def test_tree_of_an_mjcf_is_mujocos(name):
    """Joints alone and several on a body; springs, damping, compensated gravity, a ball's spring."""
    _, system = tree_of(name)
    robot = mujoco.MjModel.from_xml_path(str(ROBOTS / name))
    robot.dof_frictionloss[:] = 0.0  # MuJoCo's is a constraint, ours smooth: taken out of both
    system = system.replace({k: 0.0 for k in system.parameters() if k.endswith("_friction.coulomb")})
    system = system.replace({k: 0.0 for k in system.parameters() if k.endswith("_friction.static")})
    robot.jnt_limited[:] = 0
    rng = np.random.default_rng(6)
    q = np.asarray(system.retract(jnp.asarray(system.q0), jnp.asarray(rng.uniform(-0.6, 0.6, system.n))))
    u = rng.uniform(-1, 1, system.n)
    at = evaluate(system, q, u)
    data, X, bias = mujoco_state(robot, system, q, u)
    assert robot.nv == system.n and system.m == 0
    matches(at.M, X.T @ mass_of(robot, data) @ X)
    matches(at.h, X.T @ (data.qfrc_passive - data.qfrc_bias - mass_of(robot, data) @ bias))
    matches(at.vdot, np.linalg.solve(X, data.qacc - bias), ACCELERATIONS)


def test_loops_of_an_mjcf_satisfy_mujocos_equations():
    """Our accelerations in MuJoCo's inverse dynamics: only forces of its equalities are missing, and those are met.

    MuJoCo's own accelerations are those of springs; its Jacobian and inverse dynamics are exact.
    """
    _, system = tree_of("leg.xml", cut=["heel"])
    robot = mujoco.MjModel.from_xml_path(str(ROBOTS / "leg.xml"))
    assert robot.dof_armature.any()
    robot.jnt_limited[:] = 0
    rng = np.random.default_rng(7)
    start = system.retract(jnp.asarray(system.q0), jnp.asarray(rng.uniform(-0.1, 0.1, system.n)))
    q, u = closed(system, np.asarray(start), rng.uniform(-1, 1, system.n))
    at = evaluate(system, q, u)
    data, X, _ = mujoco_state(robot, system, q, u)
    matches(at.M, X.T @ mass_of(robot, data) @ X)
    matches(at.h, X.T @ (data.qfrc_passive - data.qfrc_bias))

    def jacobian(qpos):
        there = mujoco.MjData(robot)
        there.qpos[:], there.qvel[:] = qpos, X @ u
        mujoco.mj_forward(robot, there)
        assert np.max(np.abs(there.efc_pos)) < 1e-4
        return there.efc_J.reshape(-1, robot.nv).copy()

    J = jacobian(data.qpos)
    assert len(J) == system.m == 4 and np.max(np.abs(data.efc_pos)) < 1e-12
    assert np.max(np.abs(J @ X @ u)) < 1e-12  # the same constraints on velocities
    robot.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EQUALITY)
    data.qacc[:] = X @ at.vdot
    mujoco.mj_inverse(robot, data)
    missing = np.array(data.qfrc_inverse)
    assert np.max(np.abs(missing)) > 0.1
    along = np.linalg.svd(J)[2][4:]  # a basis of what the equalities leave free
    matches(along @ missing, 0.0, 1e-10 * np.max(np.abs(missing)))
    robot.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_EQUALITY)
    h, ends = 1e-5, []
    for way in (h, -h):
        qpos = np.array(data.qpos)
        mujoco.mj_integratePos(robot, qpos, X @ u, way)
        ends.append(jacobian(qpos))
    Jdot = (ends[0] - ends[1]) / (2 * h)
    # differences of J leave 1e-11/h
    np.testing.assert_allclose(J @ X @ at.vdot, -Jdot @ X @ u, atol=1e-6)


def test_a_biped_with_rotors_balls_and_drives_is_mujocos():
    """M, bias and accelerations of the tree; then with its loops closed the same accelerations in absolute coordinates,
    where the rotors make M a full matrix. Its own joints carry: the connects are the rows."""
    controls = {"left-hip-motor": 0.5, "left-knee-servo": 0.3, "left-crank-speed": -0.2}
    model, system = tree_of("biped.xml", controls=controls)
    robot = mujoco.MjModel.from_xml_path(str(ROBOTS / "biped.xml"))
    assert (system.n, system.m) == (robot.nv, 6) and {o.name for o in system.owners} == {"left-heel", "left-toe"}
    rng = np.random.default_rng(11)
    q = np.asarray(system.retract(jnp.asarray(system.q0), jnp.asarray(rng.uniform(-0.3, 0.3, system.n))))
    u = rng.uniform(-1, 1, system.n)
    at = evaluate(system, q, u)
    robot.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EQUALITY)
    data, X, bias = mujoco_state(robot, system, q, u)
    data.ctrl[:] = list(controls.values())
    mujoco.mj_forward(robot, data)
    M = mass_of(robot, data)
    matches(at.M, X.T @ M @ X)
    matches(at.h, X.T @ (data.qfrc_passive + data.qfrc_actuator - data.qfrc_bias - M @ bias))
    matches(np.linalg.solve(at.M, at.h), np.linalg.solve(X, data.qacc - bias), ACCELERATIONS)
    assert np.max(np.abs(data.qfrc_actuator)) > 1 and robot.dof_armature[X[:, 7] != 0].any()
    q, u = closed(system, np.asarray(system.q0), u)
    at, absolute = evaluate(system, q, u), da.build(model)
    there = evaluate(absolute, *system.lift(jnp.asarray(q), jnp.asarray(u)))
    assert absolute.n == 6 * len(model.bodies) and np.max(np.abs(there.Phi)) < 1e-13
    carried = np.asarray(system.lift_rate(jnp.asarray(q), jnp.asarray(u), jnp.asarray(at.vdot)))
    matches(there.vdot, carried, ACCELERATIONS)


def test_inputs_of_actuators(tmp_path):
    """Numbers, formulas and functions of time; those of a keyframe; what drives no joint is named."""
    text = (ROBOTS / "biped.xml").read_text()
    path = tmp_path / "biped.xml"
    ten = " ".join(["0"] * 2 + ["1"] + ["1", "0", "0", "0"] + ["0"] + ["1", "0", "0", "0"] + ["0"] * 4)
    key = f'<keyframe><key name="push" qpos="{ten}" ctrl="1 2 3"/></keyframe>'
    site = '<general name="odd" joint="left-knee" dyntype="filter" gainprm="2"/></actuator>'
    path.write_text(text.replace("</actuator>", f"{site}{key.replace('1 2 3', '1 2 3 4')}"))
    found = read(path, keyframe="push", controls={"left-hip-motor": "sin(t)", "left-knee-servo": lambda t: 0.1 * t})
    assert found.model.forces["left-crank-speed"].numbers["control"] == 3.0
    assert "left-knee-servo_damping" in found.model.forces  # a control that moves has no rate in MuJoCo
    assert any("<actuator> general: 'odd'" in r for r in found.remarks)
    assert any("'left-crank-speed (3)'" in r for r in found.remarks)
    for controls, sentence in (
        ({"left-hip-moto": 1.0}, "no actuator 'left-hip-moto'.*Did you mean 'left-hip-motor'"),
        ({"left-hip-motor": [1.0]}, "a number, a formula of t or a function"),
        ({"odd": 1.0}, "'odd' is left out"),
    ):
        with pytest.raises(DalembertError, match=sentence):
            read(path, controls=controls)
    with pytest.raises(DalembertError, match="controls= is for MJCF"):
        read(ROBOTS / "arm6.urdf", controls={"x": 1.0})


@pytest.mark.parametrize(("name", "key"), [("double_pendulum.xml", "raised"), ("joints.xml", "tumbling")])
def test_a_keyframe_is_the_start(name, key):
    """Where bodies are and how they move, by MuJoCo; the joints fit together there, each by its own markers."""
    model = read(ROBOTS / name, keyframe=key).model
    robot = mujoco.MjModel.from_xml_path(str(ROBOTS / name))
    data = mujoco.MjData(robot)
    mujoco.mj_resetDataKeyframe(robot, data, 0)
    mujoco.mj_forward(robot, data)
    for body in model.bodies.values():
        k = robot.body(body.name).id
        np.testing.assert_allclose(body.position, data.xipos[k], atol=1e-14)
        np.testing.assert_allclose(body.rotation, data.xmat[k].reshape(3, 3), atol=1e-14)
        twist = np.zeros(6)  # angular, linear, at the centre of mass
        mujoco.mj_objectVelocity(robot, data, mujoco.mjtObj.mjOBJ_BODY, k, twist, 0)
        np.testing.assert_allclose(body.rotation @ body.angular_velocity, twist[:3], atol=1e-14)
        np.testing.assert_allclose(body.velocity, twist[3:], atol=1e-14)
    # coordinates are what the keyframe says: angles at the joints' own zero
    tree = da.build(model, coordinates="joint")
    start, _, _ = mujoco_state(robot, tree, np.asarray(tree.q0), np.asarray(tree.v0))
    for joint in range(robot.njnt):
        at, width = robot.jnt_qposadr[joint], {0: 7, 1: 4}.get(int(robot.jnt_type[joint]), 1)
        ours, theirs = start.qpos[at : at + width], data.qpos[at : at + width]
        if width > 1:  # a quaternion and its negative are the same turn
            np.testing.assert_allclose(rotation_matrix(ours[-4:]), rotation_matrix(theirs[-4:]), atol=1e-12)
            ours, theirs = ours[:-4], theirs[:-4]
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    np.testing.assert_allclose(start.qvel, data.qvel, atol=1e-12)


def test_there_is_no_such_keyframe():
    with pytest.raises(DalembertError, match="no keyframe 'home'; there are 'raised'"):
        read(ROBOTS / "double_pendulum.xml", keyframe="home")


# ---- what is taken over, and what is told --------------------------------------------------------------------------

FILES = sorted(p.name for p in ROBOTS.iterdir() if p.suffix in (".urdf", ".xml"))


@pytest.mark.parametrize("name", FILES)
def test_there_and_back(name, tmp_path):
    """A robot as a model file gives the same model, statement by statement."""
    model = read(ROBOTS / name).model
    back = da.load(da.save(model, tmp_path / "robot.yaml"))
    assert back == model and text_of(back) == text_of(model)
    for body, same in zip(model.bodies.values(), back.bodies.values(), strict=True):
        np.testing.assert_array_equal(body.inertia, same.inertia)
        np.testing.assert_array_equal(body.rotation, same.rotation)


def test_load_tells_its_remarks():
    with pytest.warns(da.errors.ConversionWarning, match="Left out, 1 <transmission>: 'drive_1'") as told:
        model = da.load(ROBOTS / "arm6.urdf")
    remarks = told[0].message.remarks
    for words in ("<gazebo>: 'base_link'", "<collision>: 'base_link'", "<safety_controller>: 'joint_4'", "not enforced",
                  "'tool0' (on 'wrist_3')", "'flange-tool0'", "kept by name: 'meshes/shoulder.stl'"):  # fmt: skip
        assert any(words in r for r in remarks), words
    assert len(model.limits) == 6 and model.limits["joint_2_limit"].effort == 150
    assert model.limits["joint_6_limit"].lower is None  # a continuous joint has no range
    # frames without mass: where the tool is at zero, by Pinocchio
    robot = pin.buildModelFromUrdf(str(ROBOTS / "arm6.urdf"))
    data = robot.createData()
    pin.framesForwardKinematics(robot, data, pin.neutral(robot))
    tool = data.oMf[robot.getFrameId("tool0")]
    np.testing.assert_allclose(model.markers["tool0"].start_position, tool.translation, atol=1e-14)
    np.testing.assert_allclose(model.markers["tool0"].start_rotation, tool.rotation, atol=1e-14)


def test_pictures_of_a_urdf():
    """In the body's frame, which sits at the centre of mass along the link's axes."""
    model = read(ROBOTS / "arm6.urdf").model
    box, shell, ball = (model.shapes[n] for n in ("forearm_visual", "shoulder_shell", "wrist_3_visual"))
    assert (box.kind, box.body.name, tuple(box.size)) == ("box", "forearm", (0.34, 0.08, 0.09))
    np.testing.assert_allclose(box.position, np.array([0.15, 0, 0]) - [0.14, 0.01, 0], atol=1e-15)
    assert (shell.kind, shell.file, tuple(shell.scale)) == ("mesh", "meshes/shoulder.stl", (0.001, 0.001, 0.001))
    np.testing.assert_allclose(shell.rotation, [[1, 0, 0], [0, 0, -1], [0, 1, 0]], atol=1e-15)
    assert tuple(shell.colour) == (0.95, 0.45, 0.1, 1)
    assert tuple(ball.colour) == (0.1, 0.2, 0.8, 1)  # a colour that another link defines


def test_limits_become_stops_when_asked():
    model = read(ROBOTS / "arm6.urdf", stops=1e3).model
    stop = model.forces["joint_2_stop"].numbers
    assert (stop["lower"], stop["upper"], stop["stiffness"]) == (-2.2, 1.4, 1e3)
    assert "joint_6_stop" not in model.forces


def test_a_base_may_be_free():
    fixed, free = (read(ROBOTS / "gripper.urdf", **o).model for o in ({}, {"base": "free"}))
    assert set(fixed.constraints) - set(free.constraints) == {"palm_to_ground"}
    assert list(free.bodies) == list(fixed.bodies)
    with pytest.raises(FileError, match="Link 'frame' is to be free and has no mass"):
        read(ROBOTS / "five_bar.urdf", base="free")


def test_a_link_without_mass_between_two_hinges_is_a_universal_joint(tmp_path):
    """As robots' wrists are often written; with an axis askew there is no such joint, and that is told."""
    text = """<robot name="wrist"><link name="arm"/><link name="cross"/><link name="hand"><inertial>
    <origin xyz="0 0 0.1"/><mass value="1"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.001"/>
    </inertial></link>
    <joint name="roll" type="continuous"><origin xyz="0 0 1" rpy="0.3 0 0"/><parent link="arm"/><child link="cross"/>
    <axis xyz="1 0 0"/></joint>
    <joint name="pitch" type="continuous"><parent link="cross"/><child link="hand"/><axis xyz="0 1 0"/></joint>
    </robot>"""
    path = tmp_path / "wrist.urdf"
    path.write_text(text)
    found = read(path)
    (joint,) = found.model.constraints.values()
    assert joint.type == "universal" and joint.name == "roll_pitch"
    np.testing.assert_allclose(joint.markers[0].start_position, [0, 0, 1], atol=1e-15)
    assert any("Link 'cross' has no mass: joints 'roll', 'pitch' act as one" in r for r in found.remarks)
    path.write_text(text.replace('xyz="0 1 0"', 'xyz="1 1 0"'))
    with pytest.raises(FileError, match="joints 'roll', 'pitch' .turn, then turn. act together as no joint"):
        read(path, strict=True)
    askew = read(path)
    assert [c.type for c in askew.model.constraints.values()] == ["revolute"] * 2
    assert any("stands body 'hand_between1', with 1e-11 of its mass" in r for r in askew.remarks)
    assert not any("act as one" in r for r in askew.remarks)


SOFT = """<mujoco model="soft"><compiler angle="radian"/><worldbody>
  <body name="base" pos="0 0 1"><inertial pos="0.1 0 0" mass="2" diaginertia="0.03 0.02 0.04"/>
    <joint name="root" axis="0 1 0"/>
    <body name="toe" pos="0.3 0 0.02" euler="0.1 0.2 0">
      <inertial pos="0.2 0.05 0.01" mass="0.7" diaginertia="3e-3 2e-3 4e-3"/>
      <joint name="first" pos="-0.05 0 0" damping="0.3" armature="0.002" stiffness="1.5" springref="0.2"/>
      <joint name="second" pos="0.04 0.02 0" damping="0.1"/>
      <joint name="askew" axis="0.6 0 0.8" pos="0.1 0 0" range="-1 1"/>
      <body name="nail" pos="0.3 0 0"><inertial pos="0.05 0 0" mass="0.2" diaginertia="1e-4 2e-4 3e-4"/>
        <joint name="slide" type="slide" axis="1 0 0"/><joint name="tilt" axis="1 1 0" pos="0 0.1 0"/>
  </body></body></body></worldbody></mujoco>"""


def test_joints_on_one_body_that_are_no_joint_of_the_library_are_mujocos(tmp_path):
    """Parallel hinges at different points, a third askew, a slide and a hinge askew: light links between them. M, h and
    accelerations to 1e-10, and in absolute coordinates the same accelerations."""
    path = tmp_path / "soft.xml"
    path.write_text(SOFT)
    found = read(path)
    system = da.build(found.model, coordinates="joint")
    robot = mujoco.MjModel.from_xml_path(str(path))
    robot.jnt_limited[:] = 0
    assert (system.n, system.m) == (robot.nv, 0) == (6, 0)
    assert list(found.model.bodies) == ["base", "toe_between1", "toe_between2", "toe", "nail_between1", "nail"]
    assert sum("stands body" in r for r in found.remarks) == 3
    rng = np.random.default_rng(5)
    q = np.asarray(system.retract(jnp.asarray(system.q0), jnp.asarray(rng.uniform(-0.6, 0.6, system.n))))
    u = rng.uniform(-1, 1, system.n)
    at = evaluate(system, q, u)
    data, X, bias = mujoco_state(robot, system, q, u)
    M = mass_of(robot, data)
    matches(at.M, X.T @ M @ X, 1e-10)
    matches(at.h, X.T @ (data.qfrc_passive - data.qfrc_bias - M @ bias), 1e-10)
    matches(at.vdot, np.linalg.solve(X, data.qacc - bias), 1e-8)  # times the condition of M, some 100 here
    absolute = da.build(found.model)
    there = evaluate(absolute, *(np.asarray(x) for x in system.lift(jnp.asarray(q), jnp.asarray(u))))
    own = observe(system, da.formulations.Proximal(), RequireUnique(), 0.0, jnp.asarray(q), jnp.asarray(u))
    # rows are known to rounding over the weakest direction, √1e-11 of the strongest
    matches(there.vdot, np.asarray(own.vdot), 1e-8)


BOX = "\n".join(
    [f"v {x} {y} {z}" for x in (0, 0.2) for y in (0, 0.3) for z in (0, 0.5)]
    + [f"f {n // 100} {n // 10 % 10} {n % 10}" for n in (124, 143, 578, 586, 156, 162, 348, 387, 137, 175, 268, 284)]
)


def test_a_mesh_of_an_mjcf_is_a_picture_with_its_inertia(tmp_path):
    """A box of 0.2 × 0.3 × 0.5 at a corner, 1000 kg/m³, through an include and a folder of assets."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "block.obj").write_text(BOX)
    (tmp_path / "parts.xml").write_text(
        '<mujocoinclude><asset><mesh name="m" file="block.obj"/></asset></mujocoinclude>'
    )
    path = tmp_path / "robot.xml"
    path.write_text(
        '<mujoco><compiler meshdir="assets"/><include file="parts.xml"/><worldbody><body name="b" pos="1 0 0">'
        '<freejoint/><geom type="mesh" mesh="m" pos="0.1 0 0"/></body></worldbody></mujoco>'
    )
    model = read(path).model
    body, shape = model.bodies["b"], next(iter(model.shapes.values()))
    m = 1000 * 0.2 * 0.3 * 0.5
    # MuJoCo keeps the points of a mesh in single precision
    np.testing.assert_allclose(body.mass, m, rtol=1e-6)
    np.testing.assert_allclose(body.position, [1.2, 0.15, 0.25], atol=1e-6)
    moments = m / 12 * np.array([0.3**2 + 0.5**2, 0.2**2 + 0.5**2, 0.2**2 + 0.3**2])
    np.testing.assert_allclose(body.rotation @ body.inertia @ body.rotation.T, np.diag(moments), atol=1e-6)
    # the file's own numbers, moved: its corner is at (1.1, 0, 0)
    assert (shape.kind, shape.file) == ("mesh", "assets/block.obj")
    np.testing.assert_allclose(body.position + body.rotation @ shape.position, [1.1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(body.rotation @ shape.rotation, np.eye(3), atol=1e-6)


CUBE = "0 0 0  1 0 0  1 1 0  0 1 0  0 0 1  1 0 1  1 1 1  0 1 1"
FACES = ("0 2 1", "0 3 2", "4 5 6", "4 6 7", "0 1 5", "0 5 4", "1 2 6", "1 6 5", "2 3 7", "2 7 6", "3 0 4", "3 4 7")
GIVEN = '<inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/>'


def cube(faces, asset: str = "", body: str = "", geom: str = "") -> str:
    mesh = f'<mesh name="m" vertex="{CUBE}" face="{"  ".join(faces)}" {asset}/>'
    inside = f'<freejoint/>{body}<geom type="mesh" mesh="m" {geom}/>'
    return f'<mujoco><asset>{mesh}</asset><worldbody><body name="b">{inside}</body></worldbody></mujoco>'


def test_a_mesh_with_holes_gives_no_mass(tmp_path):
    """Without two faces MuJoCo makes 804 kg of the cube's 1000; turned inside out it is the same cube."""
    path = tmp_path / "cube.xml"
    inside_out = [" ".join(reversed(f.split())) for f in FACES]
    for faces in (FACES, inside_out):
        path.write_text(cube(faces))
        body = read(path).model.bodies["b"]
        assert body.mass == pytest.approx(1000, rel=1e-6)
        np.testing.assert_allclose(np.linalg.eigvalsh(body.inertia), 1000 / 6, rtol=1e-6)
    for geom in ("", 'mass="3"'):
        path.write_text(cube(FACES[:-2], geom=geom))
        with pytest.raises(FileError, match="Mesh 'm' is not closed: 4 of its edges .* body 'b' a mass"):
            read(path)
    for mass, more in ((2.0, {"body": GIVEN}), (1000.0, {"asset": 'inertia="convex"'})):  # which need no volume
        path.write_text(cube(FACES[:-2], **more))
        assert read(path).model.bodies["b"].mass == pytest.approx(mass)


def test_a_mesh_that_is_not_there_is_a_picture_where_inertia_is_given(tmp_path):
    path = tmp_path / "r.xml"
    for file, given in (("none.obj", GIVEN), ("../secret.stl", GIVEN), ("none.obj", "")):
        path.write_text(cube(FACES, body=given).replace(f'vertex="{CUBE}" face="{"  ".join(FACES)}"', f'file="{file}"'))
        if given:
            found = read(path)
            assert "Left out, 1 <mesh> that cannot be read (a picture only): 'm'." in found.remarks
            assert found.model.bodies["b"].mass == 2.0 and not found.model.shapes
        for strict in (True,) if given else (True, False):
            with pytest.raises(FileError, match="there is no such file|leads out of the folder"):
                read(path, strict=strict)


def test_what_an_mjcf_says_besides_is_told():
    found = read(ROBOTS / "double_pendulum.xml")
    for words in (
        "Taken over, 1 <actuator>: 'drive'. Inputs that were not given (controls=): 'drive (0)'.",
        "<sensor> jointpos: 'angle'",
        "<light>",
        "keyframes: 'raised'",
        "Friction",
    ):
        assert any(words in r for r in found.remarks), words
    assert read(ROBOTS / "leg.xml").model.forces["knee_armature"].numbers["inertia"] == 0.02
    assert found.model.limits["pivot_limit"].upper == 2.0
    assert {"floor", "bracket"} <= {s.name for s in found.model.statements}  # a site is a marker


def test_options_belong_to_their_format(tmp_path):
    for name, options, sentence in (
        ("arm6.urdf", {"keyframe": "home"}, "no keyframes"),
        ("leg.xml", {"base": "free"}, "base= is for URDF"),
        ("arm6.urdf", {"base": "loose"}, "use 'fixed' or 'free'"),
        ("arm6.urdf", {"stops": -1.0}, "greater than zero"),
        ("arm6.urdf", {"start": {"joint_9": 1.0}}, "no turning or sliding joint 'joint_9'. Did you mean 'joint_"),
        ("arm6.urdf", {"start": {"joint_1": "x"}}, "must be a number"),
        ("gripper.urdf", {"start": {"thumb_hinge": 1.0}}, "follows 'crank'; give the start of that one"),
    ):
        with pytest.raises(DalembertError, match=sentence):
            read(ROBOTS / name, **options)
    model = da.Model("m")
    model.body("a", mass=1, inertia=1)
    with pytest.raises(DalembertError, match="base= is for robot files"):
        da.load(da.save(model, tmp_path / "m.yaml"), base="free")


def test_convert_says_what_it_took_and_what_not(tmp_path):
    out = tmp_path / "leg.yaml"
    result = dalembert("convert", str(ROBOTS / "leg.xml"), str(out), "--stops", "100")
    assert result.returncode == 0, result.stderr
    for words in ("bodies   8", "1 prismatic, 6 revolute, 2 spherical, 1 coupling", "1 stop", "1 armature"):
        assert words in result.stdout
    assert da.load(out) == read(ROBOTS / "leg.xml", stops=100.0).model
    again = in_process("convert", str(ROBOTS / "leg.xml"), str(out))
    assert again.returncode == 2 and "exists already" in again.stderr and "Traceback" not in again.stderr
    found = json.loads(in_process("convert", str(ROBOTS / "leg.xml"), str(out), "--force", "--json").stdout)
    assert found["taken_over"]["bodies"] == {"body": 8} and found["remarks"]


def test_a_robot_file_is_a_model_on_the_command_line(tmp_path):
    for name in ("four_bar.urdf", "four_bar.loops.yaml"):
        shutil.copy(ROBOTS / name, tmp_path)
    result = in_process("list", str(tmp_path / "four_bar.urdf"))
    assert result.returncode == 0 and "from four_bar.urdf" in result.stdout
    assert "Loops and start values of 'four_bar.loops.yaml'" in result.stderr


@pytest.mark.thorough
def test_a_robot_runs():
    """The loop of the side file stays closed."""
    result = in_process("run", str(ROBOTS / "four_bar.urdf"), "--t-end", "0.2", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["status"] == "done" and report["violation"]["position"] < 1e-12


LOOP = """<robot name="loop"><link name="base"/><link name="a">{inertia}</link><link name="b">{inertia}</link>
<joint name="j" type="floating"><origin xyz="1 0 0" rpy="0.4 0 0"/><parent link="base"/><child link="a"/></joint>
<joint name="k" type="floating"><origin xyz="0 1 0"/><parent link="base"/><child link="b"/></joint>
<{tag} name="close" type="{kind}"><link1 link="a" xyz="0.1 0.2 0.3" rpy="0 0.5 0"/><link2 link="b" xyz="0 0 1"/>
{axis}</{tag}></robot>"""
INERTIAL = """<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>"""


@pytest.mark.parametrize("kind", LOOPS)
def test_loops_of_every_type(kind, tmp_path):
    """The frames that meet are where the file puts them, with the axis along z."""
    path = tmp_path / "loop.urdf"
    tag = "constraint" if kind == "fixed" else "loop_joint"
    axis = '<axis xyz="0 1 0"/>' if kind in ("revolute", "continuous", "prismatic", "cylindrical", "planar") else ""
    path.write_text(LOOP.format(inertia=INERTIAL, tag=tag, kind=kind, axis=axis))
    loop = read(path).model.constraints["close"]
    assert loop.type == LOOPS[kind]
    i, j = loop.markers
    R = axis_angle((1, 0, 0), 0.4)
    np.testing.assert_allclose(i.start_position, [1, 0, 0] + R @ [0.1, 0.2, 0.3], atol=1e-15)
    np.testing.assert_allclose(j.start_position, [0, 1, 1], atol=1e-15)
    if axis:
        np.testing.assert_allclose(i.start_rotation[:, 2], R @ [0, 1, 0], atol=1e-15)
        np.testing.assert_allclose(j.start_rotation[:, 2], [0, 1, 0], atol=1e-15)


KINDS = {
    "fixed": "weld", "revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic", "planar": "planar",
    "floating": None,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_joints_of_every_type(kind, tmp_path):
    """A URDF's axis is in the joint's frame; a planar joint's is its normal."""
    path = tmp_path / "joint.urdf"
    limit = '<limit lower="-1" upper="1" effort="1" velocity="1"/>' if kind in ("revolute", "prismatic") else ""
    axis = '<axis xyz="0 1 0"/>' if kind not in ("fixed", "floating") else ""
    path.write_text(
        f"""<robot name="r"><link name="base"/><link name="a">{INERTIAL}</link><joint name="j" type="{kind}">
        <origin xyz="0 0 2" rpy="0.4 0 0"/><parent link="base"/><child link="a"/>{axis}{limit}</joint></robot>"""
    )
    model = read(path).model
    np.testing.assert_allclose(model.bodies["a"].position, [0, 0, 2])
    if KINDS[kind] is None:
        assert not model.constraints
        return
    joint = model.constraints["j"]
    assert joint.type == KINDS[kind]
    if axis:
        np.testing.assert_allclose(joint.markers[0].start_position, [0, 0, 2], atol=1e-15)
        np.testing.assert_allclose(joint.markers[0].start_rotation[:, 2], axis_angle((1, 0, 0), 0.4)[:, 1], atol=1e-15)


def test_equalities_of_an_mjcf(tmp_path):
    """A weld as the bodies stand, one by a given pose, a ball by sites, a joint held, and one switched off."""
    path = tmp_path / "robot.xml"
    inside = '<freejoint/><geom size="0.1"/><site name="s{0}" pos="0.1 0 0"/>'
    body = f'<body name="{{0}}" pos="{{1}}" euler="0 0 {{2}}">{inside}</body>'
    bodies = "".join(
        body.format(*x) for x in (("a", "0 0 0", 0), ("b", "1 0 0", 90), ("c", "0 2 0", 0), ("d", "0 0 3", 0))
    )
    path.write_text(
        f"""<mujoco><worldbody>{bodies}<body name="e" pos="5 0 0"><joint name="h" ref="30"/><geom size="0.1"/></body>
        </worldbody><equality>
        <weld name="w" body1="a" body2="b"/><weld name="p" body1="a" body2="c" relpose="0 1 0 1 0 0 0"/>
        <connect name="s" site1="sc" site2="sd"/><joint name="held" joint1="h" polycoef="0.2 0 0 0 0"/>
        <connect name="off" body1="a" body2="d" anchor="0 0 0" active="false"/></equality></mujoco>"""
    )
    found = read(path)
    model = found.model
    w, p, s = (model.constraints[k].markers for k in "wps")
    np.testing.assert_allclose(w[0].start_position, w[1].start_position, atol=1e-15)
    np.testing.assert_allclose(w[0].start_rotation, w[1].start_rotation, atol=1e-15)
    np.testing.assert_allclose(p[1].start_position - p[0].start_position, [0, 1, 0], atol=1e-15)  # 2 where 1 is wanted
    np.testing.assert_allclose(s[0].start_position, [0.1, 2, 0], atol=1e-15)
    assert (model.constraints["held"].type, model.constraints["s"].type) == ("driver", "spherical")
    assert "off" not in model.constraints and any("Equality 'off' is switched off" in r for r in found.remarks)
    assert any("30" not in r and "'h' counts from its reference: 0.523599" in r for r in found.remarks)


def test_names_are_made_unique(tmp_path):
    """Links and joints may share names in a URDF, and may be called ground; not here."""
    path = tmp_path / "names.urdf"
    path.write_text(
        f"""<robot name="a.b">
        <link name="ground">{INERTIAL}</link><link name="x.y">{INERTIAL}</link><link name="x_y">{INERTIAL}</link>
        <joint name="x.y" type="continuous"><parent link="ground"/><child link="x.y"/></joint>
        <joint name="{"n" * 150}" type="continuous"><parent link="ground"/><child link="x_y"/></joint></robot>"""
    )
    found = read(path)
    assert list(found.model.bodies) == ["ground_link", "x_y", "x_y_link"]
    assert list(found.model.constraints) == ["ground_to_ground", "x_y_joint", "n" * 90]
    (told,) = (r for r in found.remarks if r.startswith("Renamed"))
    assert all(
        words in told for words in ("link 'ground' → 'ground_link'", "link 'x.y' → 'x_y'", "joint 'x.y' → 'x_y_joint'")
    )
    assert da.load(da.save(found.model, tmp_path / "names.yaml")) == found.model


def test_names_that_look_like_rows_are_changed(tmp_path):
    """finger[1] stands for a row of joint finger; some programs number parts so."""
    path = tmp_path / "numbered.urdf"
    path.write_text(
        f"""<robot name="hand"><link name="tip[0]">{INERTIAL}</link><link name="tip[1]">{INERTIAL}</link>
        <joint name="finger[1]" type="continuous"><parent link="tip[0]"/><child link="tip[1]"/></joint></robot>"""
    )
    found = read(path)
    assert list(found.model.bodies) == ["tip_0", "tip_1"] and "finger_1" in found.model.constraints
    (told,) = (r for r in found.remarks if r.startswith("Renamed"))
    assert "link 'tip[0]' → 'tip_0'" in told and "joint 'finger[1]' → 'finger_1'" in told
