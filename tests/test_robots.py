"""Robot files: URDF against Pinocchio, MJCF against MuJoCo; what is taken over, what is told, there and back."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from _helpers_robots import ROBOTS, closed, evaluate, tree_of, velocity_names

import dalembert as da
from dalembert._results import DalembertError
from dalembert.io import read
from dalembert.model import quaternion_of, rotation_matrix

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


# ---- MJCF against MuJoCo -----------------------------------------------------------------------------------------

# joints that stand for several of the file: MuJoCo's in the order of our coordinates, with signs
CHAINS = {
    "root_x_root_z_root_y": [("root_x", 1), ("root_z", 1), ("root_y", -1)],  # x × z is -y
    "hooke_a_hooke_b": [("hooke_a", 1), ("hooke_b", 1)],
    "sleeve_s_sleeve_t": [("sleeve_s", -1), ("sleeve_t", 1)],  # it slides against the axis it turns about
    "slot_s_slot_t": [("slot_s", 1), ("slot_t", 1)],
    "cross_t_cross_s": [("cross_t", 1), ("cross_s", 1)],
    "ball_joint": [("ball", 1)],
    "toe_joint": [("toe", 1)],
}


def mujoco_state(robot, system, q, u):
    """MuJoCo's data at our state, X with v_mj = X u, and Ẋu."""
    data = mujoco.MjData(robot)
    X, bias, seen = np.zeros((robot.nv, system.n)), np.zeros(robot.nv), {}
    tree = system.tree
    for k in range(tree.count):
        joint, a, b = tree.joints[k], tree.q_start[k], tree.v_start[k]
        if joint in system.body_names:  # a free body: slides of the centre of mass, then a ball
            body = robot.body(joint)
            j = robot.jnt_dofadr[body.jntadr[0]]
            if tree.kinds[k] != "ball":
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
        name, sign = CHAINS.get(joint, [(joint, 1)])[seen.setdefault(joint, 0)]
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
    import jax.numpy as jnp

    q = np.asarray(system.retract(jnp.asarray(system.q0), jnp.asarray(rng.uniform(-0.6, 0.6, system.n))))
    u = rng.uniform(-1, 1, system.n)
    at = evaluate(system, q, u)
    data, X, bias = mujoco_state(robot, system, q, u)
    assert robot.nv == system.n and system.m == 0
    matches(at.M, X.T @ mass_of(robot, data) @ X)
    matches(at.h, X.T @ (data.qfrc_passive - data.qfrc_bias - mass_of(robot, data) @ bias))
    matches(at.vdot, np.linalg.solve(X, data.qacc - bias), ACCELERATIONS)


def test_loops_of_an_mjcf_satisfy_mujocos_equations():
    """Our accelerations in MuJoCo's inverse dynamics: what is missing are forces of its equalities alone, and they are met.

    MuJoCo's own accelerations are those of springs; its Jacobian and inverse dynamics are exact.
    """
    import jax.numpy as jnp

    _, system = tree_of("leg.xml", cut=["heel"])
    robot = mujoco.MjModel.from_xml_path(str(ROBOTS / "leg.xml"))
    robot.dof_armature[:] = 0.0
    robot.jnt_limited[:] = 0
    rng = np.random.default_rng(7)
    start = system.retract(jnp.asarray(system.q0), jnp.asarray(rng.uniform(-0.1, 0.1, system.n)))
    q, u = closed(system, np.asarray(start), rng.uniform(-1, 1, system.n))
    at = evaluate(system, q, u)
    data, X, _ = mujoco_state(robot, system, q, u)

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


def test_a_keyframe_is_the_start():
    model = read(ROBOTS / "double_pendulum.xml", keyframe="raised").model
    robot = mujoco.MjModel.from_xml_path(str(ROBOTS / "double_pendulum.xml"))
    data = mujoco.MjData(robot)
    mujoco.mj_resetDataKeyframe(robot, data, 0)
    mujoco.mj_forward(robot, data)
    for name, body in model.bodies.items():
        k = robot.body(name).id
        np.testing.assert_allclose(body.position, data.xipos[k], atol=1e-14)
        twist = np.zeros(6)  # angular, linear, at the centre of mass
        mujoco.mj_objectVelocity(robot, data, mujoco.mjtObj.mjOBJ_BODY, k, twist, 0)
        np.testing.assert_allclose(body.rotation @ body.angular_velocity, twist[:3], atol=1e-14)
        np.testing.assert_allclose(body.velocity, twist[3:], atol=1e-14)
    tree = da.build(model, coordinates="joint")
    np.testing.assert_allclose(tree.q0, [0.7, -0.4], atol=1e-14)
    np.testing.assert_allclose(tree.v0, [0.5, 1.0], atol=1e-13)
    with pytest.raises(DalembertError, match="no keyframe 'home'; there are 'raised'"):
        read(ROBOTS / "double_pendulum.xml", keyframe="home")
