"""Applied forces: each law against a formula in NumPy, motions against closed forms or SciPy's own integration."""

from __future__ import annotations

import functools
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_joints import moved, rotation, rotation_2
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.formulations import all_formulations
from dalembert.functions import harmonic, polynomial, step
from dalembert.model import axis_angle

ROUNDING = 1e-12  # sums of products of numbers of order ten
G = 9.81


@eqx.filter_jit
def forces(system, t, q, v):
    """(h, potential) compiled."""
    return system.force(t, q, v), system.potential(t, q)


def shares(system, t, q, v):
    """h of each body."""
    h, _ = forces(system, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v))
    return dict(zip(system.body_names, np.asarray(h).reshape(-1, system.dv), strict=True))


def random_state(system, seed):
    rng = np.random.default_rng(seed)
    q = system.retract(jnp.asarray(system.q0), jnp.asarray(0.3 * rng.standard_normal(system.n)))
    return 0.37, np.asarray(q), rng.standard_normal(system.n)


# ---- the laws at an instant, in the plane --------------------------------------------------------------------------


def python_pull(t, length, rate, p):
    return p["k"] * (length - 1.0) ** 3 + 0.2 * rate * jnp.cos(t)


def python_effort(t, value, rate, p):
    return p["a"] * jnp.sin(3 * t) - value**3 - 0.3 * rate * jnp.abs(rate)


def python_law(t, frames, p):
    a, b = frames
    f = p["k"] * (b.p - a.p) + 0.1 * b.v
    return [(f, a.w * 0.2 * t), (-f, -(a.w * 0.2 * t))]


def pair(model, name, joint):
    """Two free bodies and a joint between them, whose rows play no part here."""
    rng = np.random.default_rng(sum(map(ord, name)))
    one = model.body(f"{name}_one", mass=1.0, inertia=0.2, position=rng.uniform(-1, 1, 2), angle=0.4)
    two = model.body(f"{name}_two", mass=1.5, inertia=0.3, position=rng.uniform(-1, 1, 2), angle=-0.9)
    if joint == "pin":
        model.revolute(f"{name}_joint", one, two, at=(0.1, 0.2))
    if joint == "slide":
        model.prismatic(f"{name}_joint", one, two, at=(0.1, 0.2), axis=(0.6, 0.8))
    return f"{name}_joint" if joint != "free" else (one, two)


K3, C3 = np.array([[50.0, 3, 1], [3, 40, -2], [1, -2, 7]]), np.diag([0.5, 0.4, 0.1])


@functools.cache
def plane_laws():
    model = da.Model("laws", space="plane", gravity=(0, 0))
    for word, along in (("fw", "world"), ("fb", "body")):
        b = model.body(word, mass=1.0, inertia=0.2, position=(0.3, 0.1), angle=0.7)
        model.force(f"{word}_f", b, [harmonic(2.0, 3.0), "a*t"], at=(0.5, 0.6), frame=along, parameters={"a": 1.5})
        model.torque(f"{word}_t", b, [polynomial([1.0, 2.0])], frame=along)
    b = model.body("drag", mass=1.0, inertia=0.2, position=(0.3, 0.1), angle=0.7)
    model.drag("drag_d", b, linear=0.3, quadratic=0.7, angular=0.2, at=(0.6, 0.5), wind=(0.4, -0.2))
    for word in ("pull", "pull_py"):
        one, two = pair(model, word.replace("_py", "a"), "free")
        law = "k*(length - 1)^3 + 0.2*rate*cos(t)" if word == "pull" else python_pull
        model.spring_damper(
            word, one, two, at_i=(0.1, 0.9), at_j=(0.7, -0.4), stiffness=3.0, damping=0.4, length=0.8, pull=law,
            parameters={"k": 2.0},
        )  # fmt: skip
    for word, joint in (("effort", "pin"), ("effort_py", "slide")):
        law = "a*sin(3*t) - value^3 - 0.3*rate*abs(rate)" if word == "effort" else python_effort
        model.joint_force(word, pair(model, word, joint), law, parameters={"a": 2.0})
    one, two = pair(model, "bush", "free")
    model.bushing("bushing", one, two, stiffness=K3, damping=C3, at=(0.2, 0.3), axis=(0.6, 0.8))
    for word, joint in (("pinned", "pin"), ("sliding", "slide")):
        joint = pair(model, word, joint)
        model.friction(
            f"{word}_friction", joint, normal=harmonic(3.0, 2.0, 0.5, 5.0), coulomb=0.2, static=0.35,
            stribeck_speed=0.4, transition_speed=0.3, viscous=0.15, radius=0.6,
        )  # fmt: skip
        model.stop(f"{word}_stop", joint, lower=-0.1, upper=0.1, stiffness=30.0, damping=2.0, depth=0.4)
        model.pd_control(f"{word}_pd", joint, step(0, 1, 0.2, 1.4), stiffness=8.0, damping=0.7, limit=2.0)
        model.motor(f"{word}_motor", joint, voltage=harmonic(6.0, 1.0), torque_constant=0.4, resistance=1.6, gear=3.0)
    law_a = {"force": ["k*(lb.x - la.x) + 0.1*lb.vx", "k*(lb.y - la.y) + 0.1*lb.vy"], "torque": "la.w*0.2*t"}
    law_b = {"force": ["-k*(lb.x - la.x) - 0.1*lb.vx", "-k*(lb.y - la.y) - 0.1*lb.vy"], "torque": ["-la.w*0.2*t"]}
    for word in ("l", "m"):
        model.body(f"{word}a", mass=1.0, inertia=0.1, position=(0.2, 0.1), angle=0.3)
        model.body(f"{word}b", mass=1.0, inertia=0.1, position=(-0.4, 0.5), angle=0.6)
        law = [law_a, law_b] if word == "l" else python_law
        model.force_law(f"{word}_law", [f"{word}a", f"{word}b"], law, parameters={"k": 2.0})
    return model, da.build(model)


class At:
    """Poses and rates of the bodies of a plane model at a state, by hand."""

    def __init__(self, system, q, v):
        self.q = dict(zip(system.body_names, q.reshape(-1, 3), strict=True))
        self.v = dict(zip(system.body_names, v.reshape(-1, 3), strict=True))

    def point(self, marker):
        """Position and velocity of a marker's point, and its axes."""
        q, v = self.q[marker.body.name], self.v[marker.body.name]
        R = rotation_2(q[2])
        r = R @ marker.position
        return q[:2] + r, v[:2] + v[2] * np.array([-r[1], r[0]]), R @ marker.rotation


def load(at, marker, force, torque=0.0):
    """A force at a marker's point as the share of its body."""
    r = at.point(marker)[0] - at.q[marker.body.name][:2]
    return np.array([*force, torque + r[0] * force[1] - r[1] * force[0]])


def close(found, exact):
    assert np.max(np.abs(np.asarray(found) - exact)) < ROUNDING * max(1.0, np.max(np.abs(exact)))


def test_loads_in_world_and_body_axes_as_functions_of_time():
    model, system = plane_laws()
    t, q, v = random_state(system, 1)
    h, at = shares(system, t, q, v), At(system, q, v)
    f = np.array([2.0 * np.sin(3 * t), 1.5 * t])
    close(h["fw"], load(at, model.forces["fw_f"].markers[0], f, 1 + 2 * t))
    close(h["fb"], load(at, model.forces["fb_f"].markers[0], rotation_2(q_angle(at, "fb")) @ f, 1 + 2 * t))


def q_angle(at, body):
    return at.q[body][2]


def test_drag():
    model, system = plane_laws()
    t, q, v = random_state(system, 2)
    h, at = shares(system, t, q, v), At(system, q, v)
    marker = model.forces["drag_d"].markers[0]
    u = at.point(marker)[1] - [0.4, -0.2]
    close(h["drag"], load(at, marker, -(0.3 + 0.7 * np.linalg.norm(u)) * u, -0.2 * at.v["drag"][2]))


@pytest.mark.parametrize("word", ["pull", "pull_py"])
def test_line_spring_with_a_nonlinear_law(word):
    model, system = plane_laws()
    t, q, v = random_state(system, 3)
    h, at = shares(system, t, q, v), At(system, q, v)
    mi, mj = model.forces[word].markers
    (pi, vi, _), (pj, vj, _) = at.point(mi), at.point(mj)
    length = np.linalg.norm(pj - pi)
    e = (pj - pi) / length
    rate = e @ (vj - vi)
    pull = 3.0 * (length - 0.8) + 0.4 * rate + 2.0 * (length - 1) ** 3 + 0.2 * rate * np.cos(t)
    close(h[mi.body.name], load(at, mi, pull * e))
    close(h[mj.body.name], load(at, mj, -pull * e))


def joint_state(model, at, joint):
    """Value, rate and the shares of a unit effort (on i, on j) of a plane joint's coordinate."""
    mi, mj = model.constraints[joint].markers
    i, j = mi.body.name, mj.body.name
    if model.constraints[joint].type == "revolute":
        start = sum(s * math.atan2(m.start_rotation[1, 0], m.start_rotation[0, 0]) for s, m in ((1, mj), (-1, mi)))
        angle = (at.q[j][2] - start_angle(model, j)) - (at.q[i][2] - start_angle(model, i)) + start
        return angle, at.v[j][2] - at.v[i][2], np.array([0, 0, -1.0]), np.array([0, 0, 1.0])
    (pi, vi, A), (pj, vj, _) = at.point(mi), at.point(mj)
    a, d, w = A[:, 0], pj - pi, at.v[i][2]
    rate = a @ (vj - vi) + w * np.array([-a[1], a[0]]) @ d
    # the force −a on i acts at j's point, seen from i
    r = pj - at.q[i][:2]
    on_i = -np.array([*a, r[0] * a[1] - r[1] * a[0]])
    return a @ d, rate, on_i, load(at, mj, a)


def start_angle(model, body):
    R = model.bodies[body].rotation
    return math.atan2(R[1, 0], R[0, 0])


@pytest.mark.parametrize("word", ["effort", "effort_py"])
def test_joint_force_by_formula_and_by_python(word):
    model, system = plane_laws()
    t, q, v = random_state(system, 4)
    h, at = shares(system, t, q, v), At(system, q, v)
    x, rate, on_i, on_j = joint_state(model, at, f"{word}_joint")
    effort = 2.0 * np.sin(3 * t) - x**3 - 0.3 * rate * abs(rate)
    close(h[f"{word}_one"], effort * on_i)
    close(h[f"{word}_two"], effort * on_j)


@pytest.mark.parametrize("word", ["pinned", "sliding"])
@pytest.mark.parametrize("seed", [5, 6, 7, 8])
def test_friction_stop_control_and_motor_on_a_joint_coordinate(word, seed):
    """The sum of four laws, each by its documented formula; states on both sides of both stops occur."""
    model, system = plane_laws()
    t, q, v = random_state(system, seed)
    h, at = shares(system, t, q, v), At(system, q, v)
    x, w, on_i, on_j = joint_state(model, at, f"{word}_joint")
    mu = 0.2 + 0.15 * np.exp(-((w / 0.4) ** 2))
    effort = -mu * (5 + 3 * np.sin(2 * t + 0.5)) * 0.6 * np.tanh(w / 0.3) - 0.15 * w
    for over, closing, way in ((-0.1 - x, -w, 1), (x - 0.1, w, -1)):
        s = np.clip(over / 0.4, 0, 1)
        push = 30 * max(over, 0.0) ** 1.5 + 2.0 * (10 * s**3 - 15 * s**4 + 6 * s**5) * closing
        effort += way * max(push, 0.0)
    s = t
    r, r_rate = 0.2 + 1.2 * (10 * s**3 - 15 * s**4 + 6 * s**5), 1.2 * 30 * s**2 * (1 - s) ** 2
    effort += 2.0 * np.tanh((8.0 * (r - x) + 0.7 * (r_rate - w)) / 2.0)
    effort += 3.0 * 0.4 / 1.6 * (6 * np.sin(t) - 0.4 * 3.0 * w)
    close(h[f"{word}_one"], effort * on_i)
    close(h[f"{word}_two"], effort * on_j)


def test_bushing_in_the_plane():
    """−K x − C ẋ along marker i's axes, the force acting at marker j's point on both bodies."""
    model, system = plane_laws()
    t, q, v = random_state(system, 9)
    h, at = shares(system, t, q, v), At(system, q, v)
    mi, mj = model.forces["bushing"].markers
    (pi, vi, A), (pj, vj, _) = at.point(mi), at.point(mj)
    i, j = mi.body.name, mj.body.name
    angle = (at.q[j][2] - start_angle(model, j)) - (at.q[i][2] - start_angle(model, i))
    d, w = pj - pi, at.v[i][2]
    x = np.array([*(A.T @ d), angle])
    rate = np.array([*(A.T @ (vj - vi - w * np.array([-d[1], d[0]]))), at.v[j][2] - w])
    f = -K3 @ x - C3 @ rate
    force = A @ f[:2]
    close(h[j], load(at, mj, force, f[2]))
    r = pj - at.q[i][:2]
    close(h[i], -np.array([*force, f[2] + r[0] * force[1] - r[1] * force[0]]))


def test_force_law_by_formulas_is_the_law_in_python():
    _, system = plane_laws()
    t, q, v = random_state(system, 10)
    q, v = q.copy(), v.copy()
    at = At(system, q, v)  # views of q and v
    # both pairs in the same state
    for a, b in (("la", "ma"), ("lb", "mb")):
        at.q[b][:], at.v[b][:] = at.q[a], at.v[a]
    h = shares(system, t, q, v)
    for a, b in (("la", "ma"), ("lb", "mb")):
        close(h[a], h[b])
    close(h["la"], [*(2.0 * (at.q["lb"] - at.q["la"])[:2] + 0.1 * at.v["lb"][:2]), at.v["la"][2] * 0.2 * t])


# ---- in space: balance, power, and closed forms of the linear range ------------------------------------------------

rng6 = np.random.default_rng(0)
A6 = rng6.standard_normal((6, 6))
K6, C6 = A6 @ A6.T + 5 * np.eye(6), np.diag([0.5, 0.4, 0.3, 0.1, 0.2, 0.15])
STEEL = {"E": 2.1e11, "area": 1e-4, "I_y": 2e-9, "I_z": 5e-9, "G": 8e10, "J": 3e-9}
TIP = 0.8


@functools.cache
def space_laws():
    model = da.Model("laws in space", space="space", gravity=(0, 0, 0))

    def body(name, seed):
        rng = np.random.default_rng(seed)
        pose = {"rotation": axis_angle(rng.standard_normal(3), 1.0), "position": rng.uniform(-1, 1, 3)}
        return model.body(name, mass=1.0, inertia=(0.2, 0.25, 0.3), **pose)

    for word, damping in (("elastic", None), ("viscous", C6)):
        one, two = body(f"{word}_one", 1), body(f"{word}_two", 2)
        model.bushing(word, one, two, stiffness=K6, damping=damping, at=(0.1, 0.2, 0.3), axis=(1, 2, 2), x=(0, 1, -1))
    tip = model.body("tip", mass=1.0, inertia=(0.1, 0.1, 0.1), position=(TIP, 0, 0))
    model.beam("beam", "ground", tip, at_i=(0, 0, 0), y=(0, 1, 0), **STEEL)
    for word, along in (("sw", "world"), ("sb", "body")):
        b = body(word, 3)
        model.torque(f"{word}_t", b, ["1 + t", 2.0, harmonic(1.0, 2.0)], frame=along)
        model.force(f"{word}_f", b, [0.5, "t^2", -1.0], at=(0.2, 0.7, 0.1), frame=along)
    for kind, way in (("cylindrical", {}), ("universal", {}), ("planar", {})):
        one, two = body(f"{kind}_one", 4), body(f"{kind}_two", 5)
        at = (0.3, -0.2, 0.4)
        if kind == "universal":
            model.universal(kind, one, two, at=at, axis_i=(1, 0, 0), axis_j=(0, 1, 0))
        elif kind == "planar":
            model.planar(kind, one, two, at=at, normal=(1, 1, 0))
        else:
            model.cylindrical(kind, one, two, at=at, axis=(1, 2, 2), **way)
    model.joint_force("f1", "cylindrical", "2 + value", coordinate="displacement")
    model.joint_spring("f2", "cylindrical", stiffness=3.0, damping=0.2, free=0.1, coordinate="angle")
    model.joint_force("f3", "universal", "cos(t) - rate", coordinate="angle_j")
    model.pd_control("f4", "planar", "t", stiffness=2.0, damping=0.5, coordinate="y")
    return model, da.build(model)


PAIRS = ("elastic", "viscous", "cylindrical", "universal", "planar")


@pytest.mark.parametrize("word", PAIRS)
def test_forces_between_two_bodies_balance(word):
    """No net force, and no net moment about the origin, at a random state."""
    _, system = space_laws()
    t, q, v = random_state(system, 11)
    h = shares(system, t, q, v)
    force, moment = np.zeros(3), np.zeros(3)
    for side in ("one", "two"):
        x = q.reshape(-1, 7)[list(system.body_names).index(f"{word}_{side}")]
        share = h[f"{word}_{side}"] + spin_terms(system, f"{word}_{side}", v)
        force += share[:3]
        moment += rotation(x[3:]) @ share[3:] + np.cross(x[:3], share[:3])
    size = np.max(np.abs(h[f"{word}_two"]))
    assert size > 0.1
    assert max(np.max(np.abs(force)), np.max(np.abs(moment))) < ROUNDING * max(size, 1.0)


def spin_terms(system, body, v):
    """ω × I ω, which h carries with a minus sign."""
    w = v.reshape(-1, 6)[list(system.body_names).index(body), 3:]
    return np.array([0, 0, 0, *np.cross(w, np.array([0.2, 0.25, 0.3]) * w)])


def coordinate(system, joint, name, q):
    view = system.joint(joint)
    function = next(x.function for x in view.coordinates if x.name == name)
    return float(function(*system.joint_frames(view, jnp.asarray(q))))


EFFORTS = {
    "cylindrical": {
        "displacement": lambda t, x, w: 2 + x,
        "angle": lambda t, x, w: -3.0 * (x - 0.1) - 0.2 * w,
    },
    "universal": {"angle_j": lambda t, x, w: np.cos(t) - w},
    "planar": {"y": lambda t, x, w: 2.0 * (t - x) + 0.5 * (1 - w)},
}


@pytest.mark.parametrize("word", EFFORTS)
def test_power_of_a_law_on_a_coordinate_is_effort_times_rate(word):
    """For several velocities, so that the whole share is seen: h·v − what the gyroscopic terms do (nothing)."""
    _, system = space_laws()
    t, q, _ = random_state(system, 12)
    h = 1e-4
    for seed in range(12):
        v = np.random.default_rng(seed).standard_normal(system.n)
        share = shares(system, t, q, v)
        power, exact = 0.0, 0.0
        for side in ("one", "two"):
            k = list(system.body_names).index(f"{word}_{side}")
            power += share[f"{word}_{side}"] @ v.reshape(-1, 6)[k]
        for name, effort in EFFORTS[word].items():
            x = coordinate(system, word, name, q)
            ends = [coordinate(system, word, name, moved("space", q, v, s * h)) for s in (1, -1)]
            rate = (ends[0] - ends[1]) / (2 * h)
            exact += effort(t, x, rate) * rate
        assert abs(power - exact) < 1e-6 * max(1.0, abs(exact))  # the rate's central difference: h² times curvature


def test_bushing_force_is_minus_the_gradient_of_its_energy_and_damping_takes_power():
    """Undamped: power = −dV/dt at a large rotation. Damped: power − that = −ẋᵀ C ẋ ≤ 0."""
    _, system = space_laws()
    t, q, v = random_state(system, 13)
    v = v.reshape(-1, 6)
    names = list(system.body_names)
    # the beam at rest: its energy, millions of joules so far out, would drown the differences
    q, tip = q.copy(), names.index("tip")
    q[7 * tip : 7 * tip + 7] = np.asarray(system.q0)[7 * tip : 7 * tip + 7]
    for word in ("elastic", "viscous"):
        only = np.zeros_like(v)
        for side in ("one", "two"):
            only[names.index(f"{word}_{side}")] = v[names.index(f"{word}_{side}")]
        only = only.ravel()
        h = shares(system, t, q, only)
        power = sum(h[f"{word}_{s}"] @ only.reshape(-1, 6)[names.index(f"{word}_{s}")] for s in ("one", "two"))
        e = 1e-5
        V = [
            float(forces(system, jnp.asarray(t), moved("space", q, only, s * e), jnp.asarray(only))[1]) for s in (1, -1)
        ]
        stored = (V[0] - V[1]) / (2 * e)
        assert abs(stored) > 0.5
        if word == "elastic":
            assert abs(power + stored) < 1e-8 * abs(stored)  # difference: e² and ε/e
        else:
            assert power + stored < -0.01


def test_bushing_of_a_small_displacement_is_minus_K_x():
    """j alone displaced by x ≪ 1 along marker axes: the wrench on j at the marker is −K x to first order."""
    model, system = space_laws()
    _, mj = model.forces["elastic"].markers
    k = list(system.body_names).index("elastic_two")
    body, A = model.bodies["elastic_two"], mj.start_rotation
    size = 1e-5
    for e in np.eye(6):
        shift, turn = A @ e[:3] * size, A @ e[3:] * size
        q = np.asarray(system.q0).copy()
        R = (axis_angle(turn, size) if np.any(turn) else np.eye(3)) @ body.rotation
        arm = body.position - mj.start_position
        q[7 * k : 7 * k + 7] = [*(mj.start_position + shift + R @ body.rotation.T @ arm), *da.model.quaternion_of(R)]
        share = shares(system, 0.0, q, np.zeros(system.n))["elastic_two"]
        point = q[7 * k : 7 * k + 3] + R @ mj.position
        force = share[:3]
        torque = R @ share[3:] - np.cross(point - q[7 * k : 7 * k + 3], force)
        found = np.concatenate([A.T @ force, A.T @ torque]) / size
        assert np.max(np.abs(found + K6 @ e)) < 1e-4 * np.max(np.abs(K6))  # second order in the displacement


def test_bushing_of_a_large_rotation_pulls_with_its_angle():
    """j turned by 1.2 rad about an axis of marker i: the torque about it is −K of the angle, not of its sine."""
    model, system = space_laws()
    _, mj = model.forces["elastic"].markers
    k = list(system.body_names).index("elastic_two")
    body, axis, angle = model.bodies["elastic_two"], mj.start_rotation[:, 2], 1.2
    turn = axis_angle(axis, angle)
    R, q = turn @ body.rotation, np.asarray(system.q0).copy()
    p = mj.start_position + turn @ (body.position - mj.start_position)
    q[7 * k : 7 * k + 7] = [*p, *da.model.quaternion_of(R)]
    share = shares(system, 0.0, q, np.zeros(system.n))["elastic_two"]
    torque = R @ share[3:] - np.cross(mj.start_position - p, share[:3])
    assert abs(axis @ torque + K6[5, 5] * angle) < ROUNDING * K6[5, 5] * 10


def test_loads_in_space_in_world_and_body_axes():
    model, system = space_laws()
    t, q, _ = random_state(system, 14)
    h = shares(system, t, q, np.zeros(system.n))
    torque, force = np.array([1 + t, 2.0, np.sin(2 * t)]), np.array([0.5, t**2, -1.0])
    for word in ("sw", "sb"):
        R = rotation(q.reshape(-1, 7)[list(system.body_names).index(word), 3:])
        f, m = (force, R.T @ torque) if word == "sw" else (R @ force, torque)
        r = R @ model.forces[f"{word}_f"].markers[0].position
        close(h[word], [*f, *(m + R.T @ np.cross(r, f))])


# tip load (force, torque) → deflection and rotation of a clamped beam of length L, as books on strength have it
E, Iy, Iz, L = STEEL["E"], STEEL["I_y"], STEEL["I_z"], TIP
BEAM = {
    "pull": ([1e3, 0, 0, 0, 0, 0], [1e3 * L / (E * STEEL["area"]), 0, 0, 0, 0, 0]),
    "bend up": ([0, 2.0, 0, 0, 0, 0], [0, 2 * L**3 / (3 * E * Iz), 0, 0, 0, 2 * L**2 / (2 * E * Iz)]),
    "bend aside": ([0, 0, 2.0, 0, 0, 0], [0, 0, 2 * L**3 / (3 * E * Iy), 0, -2 * L**2 / (2 * E * Iy), 0]),
    "couple about z": ([0, 0, 0, 0, 0, 1.0], [0, L**2 / (2 * E * Iz), 0, 0, 0, L / (E * Iz)]),
    "couple about y": ([0, 0, 0, 0, 1.0, 0], [0, 0, -(L**2) / (2 * E * Iy), 0, L / (E * Iy), 0]),
    "twist": ([0, 0, 0, 1.0, 0, 0], [0, 0, 0, L / (STEEL["G"] * STEEL["J"]), 0, 0]),
}


@pytest.mark.parametrize("case", BEAM)
def test_cantilever_in_space(case):
    """Displaced as the closed form says, the beam pushes back with the load (10⁻² of it, so that it stays small)."""
    _, system = space_laws()
    wanted, x = (1e-2 * np.array(a) for a in BEAM[case])
    k = list(system.body_names).index("tip")
    q = np.asarray(system.q0).copy()
    angle = np.linalg.norm(x[3:])
    R = axis_angle(x[3:] / angle, angle) if angle else np.eye(3)
    q[7 * k : 7 * k + 7] = [*(np.array([TIP, 0, 0]) + x[:3]), *da.model.quaternion_of(R)]
    share = shares(system, 0.0, q, np.zeros(system.n))["tip"]
    found = -np.concatenate([share[:3], R @ share[3:]])
    # rotations of 1e-4 rad act as second-order errors against the axial stiffness, 1e5 times that of bending
    assert np.max(np.abs(found - wanted)) < 1e-3 * np.max(np.abs(wanted))


def test_cantilever_in_the_plane():
    """At an oblique angle: tip force across gives F L³/3EI and F L²/2EI, a couple M L²/2EI and M L/EI."""
    a = 0.6
    along, across = np.array([np.cos(a), np.sin(a)]), np.array([-np.sin(a), np.cos(a)])
    model = da.Model("cantilever", space="plane", gravity=(0, 0))
    model.body("tip", mass=1.0, inertia=0.1, position=TIP * along, angle=0.3)
    model.beam("beam", "ground", "tip", at_i=(0, 0), E=E, area=1e-4, I=Iz)
    system = da.build(model)
    for F, M, w, slope in (
        (0.02, 0.0, 0.02 * L**3 / (3 * E * Iz), 0.02 * L**2 / (2 * E * Iz)),
        (0.0, 0.01, 0.01 * L**2 / (2 * E * Iz), 0.01 * L / (E * Iz)),
    ):
        q = np.array([*(TIP * along + w * across), 0.3 + slope])
        found = -shares(system, 0.0, q, np.zeros(3))["tip"]
        exact = np.array([*(F * across), M])
        assert np.max(np.abs(found - exact)) < 1e-6 * np.max(np.abs(exact))  # linear in x along marker i: exact


def test_a_negative_bushing_diagonal_is_refused():
    model = da.Model("wrong", space="plane")
    model.body("b", mass=1.0, inertia=1.0)
    model.bushing("held", "ground", "b", at=(0, 0), stiffness=[1.0, -2.0, 3.0])
    with pytest.raises(da.errors.ModelError, match="must not be negative"):
        da.build(model)


# ---- motions in the plane ------------------------------------------------------------------------------------------

T1 = 0.4
TIGHT = 1e-7  # integrated at rtol 1e-9; some hundred steps
ALPHA, MU, CREEP = 0.1, 0.3, 2e-3
MOTOR = {"J": 3e-3, "gear": 5.0, "load": 0.4}


@functools.cache
def plane_motion():
    model = da.Model("motions", space="plane", gravity=(0, -G))

    def slider(name, axis=(1.0, 0.0), speed=0.0, mass=2.0):
        b = model.body(name, mass=mass, inertia=1.0, velocity=speed * np.array(axis))
        model.prismatic(f"{name}_joint", "ground", b, at=(0, 0), axis=axis)
        return f"{name}_joint"

    def wheel(name, speed=0.0):
        b = model.body(name, mass=1.0, inertia=MOTOR["load"], angular_velocity=speed)
        model.revolute(f"{name}_joint", "ground", b, at=(0, 0))
        return f"{name}_joint"

    model.body("falling", mass=1.5, inertia=1.0)
    model.drag("air", "falling", quadratic=0.9)
    model.body("blown", mass=1.5, inertia=0.5, velocity=(2.0, 0), angular_velocity=3.0)
    model.drag("wind", "blown", linear=1.2, angular=0.7, wind=(-1.0, 0))
    model.friction("braking", slider("braked", speed=2.0), normal=2.0 * G, coulomb=MU)
    tilt = (math.cos(ALPHA), math.sin(ALPHA))
    model.friction(
        "sticking", slider("stuck", tilt), normal=2.0 * G * math.cos(ALPHA), coulomb=MU, transition_speed=CREEP
    )
    model.stop("wall", slider("bouncing", speed=-1.0), lower=-0.05, stiffness=2.0 * (10 * np.pi) ** 2, exponent=1.0)
    model.motor("plain", wheel("plain_wheel"), torque=0.7, gear=MOTOR["gear"])
    joint = wheel("heavy_wheel")
    model.motor("geared", joint, torque=0.7, gear=MOTOR["gear"], rotor_inertia=MOTOR["J"])
    joint = wheel("dc_wheel")
    model.motor(
        "dc", joint, voltage=12.0, torque_constant=0.3, resistance=2.0, gear=MOTOR["gear"], rotor_inertia=MOTOR["J"]
    )
    model.pd_control("follow", wheel("pd_wheel"), "40*t + 0.5*sin(8*t)", stiffness=300.0, damping=15.0)
    joint = slider("lifted", (0.0, 1.0))
    model.motor("winch", joint, torque=1.2, gear=20.0, rotor_inertia=MOTOR["J"])  # 20 turns (rad) a metre
    return model, da.simulate(model, T1, samples=9, rtol=1e-9)


def body_motion(solution, body):
    x = solution.dataset.sel(body=body)
    angle = {k: x[k].values for k in ("angle", "quaternion") if k in x}
    return x["position"].values, x["velocity"].values, x["angular_velocity"].values, angle, x["time"].values


def test_terminal_speed():
    """m v̇ = −m g + k v²: v = −v_t tanh(g t/v_t), v_t² = m g/k."""
    _, v, _, _, t = body_motion(plane_motion()[1], "falling")
    v_t = math.sqrt(1.5 * G / 0.9)
    assert np.max(np.abs(v[:, 1] + v_t * np.tanh(G * t / v_t))) < TIGHT * v_t


def test_linear_drag_against_the_wind():
    _, v, w, _, t = body_motion(plane_motion()[1], "blown")
    assert np.max(np.abs(v[:, 0] - (-1 + 3 * np.exp(-1.2 / 1.5 * t)))) < TIGHT * 3
    assert np.max(np.abs(w - 3 * np.exp(-0.7 / 0.5 * t))) < TIGHT * 3


def test_sliding_friction_brakes_uniformly():
    """v = v0 − μ g t, as long as v exceeds the transition speed (1e-3) many times."""
    _, v, _, _, t = body_motion(plane_motion()[1], "braked")
    assert np.max(np.abs(v[:, 0] - (2 - MU * G * t))) < TIGHT * 2


def test_sticking_friction_creeps_as_its_law_says():
    """On a slope below μ: μ m g cos α tanh(v/v_t) = m g sin α after some m v_t/(μ m g) = 0.7 ms."""
    _, v, _, _, _ = body_motion(plane_motion()[1], "stuck")
    exact = -CREEP * math.atanh(math.tan(ALPHA) / MU)
    along = v @ [math.cos(ALPHA), math.sin(ALPHA)]
    assert abs(exact) < 0.4 * CREEP
    assert np.max(np.abs(along[1:] - exact)) < 1e-5 * abs(exact) + TIGHT * 1e-2


def test_a_linear_stop_gives_the_speed_back():
    """Touches at 0.05 s, leaves half a period π√(m/k) = 0.1 s later, with its speed reversed."""
    x, v, _, _, t = body_motion(plane_motion()[1], "bouncing")
    after = t > 0.151
    assert np.any(after) and np.any(t < 0.05)
    assert np.max(np.abs(v[after, 0] - 1.0)) < 10 * TIGHT  # two kinks of the force
    assert np.max(np.abs(x[after, 0] - (-0.05 + (t[after] - 0.15)))) < 10 * TIGHT
    inside = (t > 0.05) & (t < 0.15)
    assert np.max(np.abs(x[inside, 0] + 0.05 + np.sin(10 * np.pi * (t[inside] - 0.05)) / (10 * np.pi))) < 10 * TIGHT


def test_motor_with_and_without_rotor():
    """(I + gear² J) α = gear τ; on a slide (m + gear² J) a = gear τ − m g."""
    g, J, I = MOTOR["gear"], MOTOR["J"], MOTOR["load"]
    _, _, w, _, t = body_motion(plane_motion()[1], "plain_wheel")
    assert np.max(np.abs(w - g * 0.7 / I * t)) < TIGHT * np.max(w)
    _, _, w, _, t = body_motion(plane_motion()[1], "heavy_wheel")
    assert np.max(np.abs(w - g * 0.7 / (I + g * g * J) * t)) < TIGHT * np.max(w)
    _, _, rotor, _, _ = body_motion(plane_motion()[1], "geared_rotor")
    assert np.max(np.abs(rotor - g * w)) < TIGHT * np.max(rotor)
    _, v, _, _, t = body_motion(plane_motion()[1], "lifted")
    assert np.max(np.abs(v[:, 1] - (20 * 1.2 - 2 * G) / (2 + 400 * J) * t)) < TIGHT * np.max(np.abs(v))


def test_direct_current_motor():
    """(I + g² J) ω̇ = g k/R (U − k g ω): an exponential towards U/(k g)."""
    g, J, I = MOTOR["gear"], MOTOR["J"], MOTOR["load"]
    _, _, w, _, t = body_motion(plane_motion()[1], "dc_wheel")
    end, rate = 12.0 / (0.3 * g), (0.3 * g) ** 2 / 2.0 / (I + g * g * J)
    assert np.max(np.abs(w - end * (1 - np.exp(-rate * t)))) < TIGHT * end


def followed(times, inertia, start=(0.0, 0.0)):
    """I ä = k (r − a) + c (ṙ − ȧ) with r = 40 t + 0.5 sin 8t, by SciPy; r − a stays below half a turn."""

    def rate(t, y):
        r, r_t = 40 * t + 0.5 * np.sin(8 * t), 40 + 4 * np.cos(8 * t)
        return [y[1], (300 * (r - y[0]) + 15 * (r_t - y[1])) / inertia]

    return solve_ivp(rate, (0, times[-1]), start, t_eval=times, rtol=1e-11, atol=1e-11).y


def test_control_follows_through_full_turns_in_the_plane():
    _, _, w, turned, t = body_motion(plane_motion()[1], "pd_wheel")
    exact = followed(t, MOTOR["load"])
    assert exact[0, -1] > 4 * np.pi
    assert np.max(np.abs(turned["angle"] - exact[0])) < TIGHT * 20
    assert np.max(np.abs(w - exact[1])) < TIGHT * 100


# ---- motions in space ----------------------------------------------------------------------------------------------

MU_SUN, ECCENTRIC = 40.0, 0.3
SUN = np.array([5.0, 1.0, -2.0])
PERIOD = 2 * np.pi * (1 / (1 - ECCENTRIC)) ** 1.5 / math.sqrt(MU_SUN)


@functools.cache
def space_motion():
    """A planet from its nearest point, a body on a soft bushing turned far, and a controlled wheel with a rotor."""
    model = da.Model("motions in space", space="space", gravity=(0, 0, 0))
    out, along = axis_angle((1, 2, 3), 0.7)[:, :2].T
    speed = math.sqrt(MU_SUN * (1 + ECCENTRIC))
    model.central_gravity("sun", MU_SUN, at=SUN)
    model.body("planet", mass=0.3, inertia=(0.1, 0.1, 0.1), position=SUN + out, velocity=speed * along)
    model.body("held", mass=1.0, inertia=(0.1, 0.2, 0.25), angular_velocity=(3.0, -2.0, 4.0), velocity=(1.0, 0, 0))
    model.bushing("bushing", "ground", "held", at=(0.1, 0.2, 0), stiffness=[60, 50, 40, 6, 5, 4], axis=(1, 1, 0))
    wheel = model.body(
        "wheel", mass=1.0, inertia=(0.3, 0.3, 0.4), rotation=axis_angle((0, 1, 0), 0.5), angular_velocity=(0, 0, 1.0)
    )
    model.revolute("hub", "ground", wheel, at=(0, 0, 0), axis=axis_angle((0, 1, 0), 0.5)[:, 2])
    model.pd_control("follow", "hub", "40*t + 0.5*sin(8*t)", stiffness=300.0, damping=15.0)
    model.motor("motor", "hub", torque=0.0, gear=2.5, rotor_inertia=0.02)
    return model, da.simulate(model, PERIOD, samples=9, rtol=1e-9)


@pytest.mark.thorough
def test_a_planet_comes_back_after_its_period():
    """Kepler: T = 2π a^(3/2)/√μ; energy and angular momentum on the way."""
    _, solution = space_motion()
    x, v, *_ = body_motion(solution, "planet")
    assert np.max(np.abs(x[-1] - x[0])) < 10 * TIGHT
    r = x - SUN
    energy = 0.5 * np.sum(v * v, axis=1) - MU_SUN / np.linalg.norm(r, axis=1)
    assert np.max(np.abs(energy + MU_SUN * (1 - ECCENTRIC) / 2)) < TIGHT * MU_SUN
    turning = np.cross(r, v)
    assert np.max(np.abs(turning - turning[0])) < TIGHT * np.linalg.norm(turning[0])
    far = np.max(np.linalg.norm(r, axis=1))  # at half the period, which is a saved time
    assert abs(far - (1 + ECCENTRIC) / (1 - ECCENTRIC)) < 10 * TIGHT


@pytest.mark.thorough
def test_energy_of_bushing_planet_and_control_balances_at_large_rotation():
    _, solution = space_motion()
    q = solution.dataset.sel(body="held")["quaternion"].values
    turned = 2 * np.arccos(np.clip(np.abs(q @ q[0]), 0, 1))
    assert np.max(turned) > 0.5
    assert solution.energy_drift < 1e-7


def test_control_follows_through_full_turns_in_space_with_a_rotor():
    """The inertia is that of the wheel about its hub and gear² that of the rotor; the start is one for both."""
    _, solution = space_motion()
    _, _, w, _, t = body_motion(solution, "wheel")
    exact = followed(t, 0.4 + 2.5**2 * 0.02, (0.0, w[0, 2]))
    assert exact[0, -1] > 4 * np.pi
    hub = solution.dataset["coordinate"].sel(joint_coordinate="hub.angle").values
    gap = (hub - exact[0] + np.pi) % (2 * np.pi) - np.pi
    assert np.max(np.abs(gap)) < TIGHT * 50
    assert np.max(np.abs(w[:, 2] - exact[1])) < TIGHT * 500


def test_a_rotor_starts_as_its_joint_turns():
    """The hub was said to turn at 1 rad/s: geared to it, the rotor turns from the start, and takes none of it away."""
    _, solution = space_motion()
    assert abs(solution.dataset.sel(body="wheel")["angular_velocity"].values[0, 2] - 1.0) < 1e-9
    assert abs(solution.dataset.sel(body="motor_rotor")["angular_velocity"].values[0, 2] - 2.5) < 1e-9


# ---- inertia on a joint coordinate -----------------------------------------------------------------------------------


def arm_with_rotor(space: str, inertia: float = 0.7) -> da.Model:
    """A rod with an armature on its hinge, which a turning base carries about the same point."""
    flat = space == "plane"
    model = da.Model("rotor", space=space, gravity=(0, -9.81) if flat else (0, -9.81, 0))

    def at(*p):
        return p if flat else (*p, 0.0)

    more = {} if flat else {"axis": (0, 0, 1)}
    model.body("base", mass=3.0, inertia=0.2 if flat else (0.2, 0.2, 0.2), position=at(0.0, 0.0))
    model.body("rod", mass=2.0, inertia=0.1 if flat else (0.01, 0.1, 0.1), position=at(0.5, 0.0))
    model.revolute("hinge", model.ground, "base", at=at(0, 0), **more)
    model.revolute("elbow", "base", "rod", at=at(0, 0), **more)
    model.armature("rotor", "elbow", inertia)
    return model


@pytest.mark.parametrize("space", ["plane", "space"])
def test_a_rotor_on_a_joint_is_the_closed_form(space):
    """Two turns about one point: M = [I_b + I_o, I_o; I_o, I_o + a] in (hinge, elbow), I_o = I + m l^2, in all
    coordinates; its energy is ½ a ȧ², and no row or freedom is added."""
    model, a, I_o, I_b = arm_with_rotor(space), 0.7, 0.1 + 2.0 * 0.25, 0.2
    M = np.array([[I_b + I_o, I_o], [I_o, I_o + a]])
    moving = np.array([0.3, -0.8])
    weight = np.full(2, -2.0 * 9.81 * 0.5)

    @eqx.filter_jit
    def look(system, q, v):
        equations = da.assemble(system, 0.0, q, v)
        return (
            equations.M,
            da.formulations.Proximal().solve(equations).vdot,
            0.5 * v @ equations.mass.mv(v),
            system.force(0.0, q, v),
        )

    tree = da.build(model, coordinates="joint")
    q, v = jnp.asarray(tree.q0), jnp.asarray(moving)
    mass, udot, energy, force = look(tree, q, v)
    np.testing.assert_allclose(mass, M, atol=1e-14)
    np.testing.assert_allclose(force, weight, atol=1e-13)
    expected = np.linalg.solve(M, weight)
    np.testing.assert_allclose(udot, expected, atol=1e-12)
    assert float(energy) == pytest.approx(0.5 * moving @ M @ moving, rel=1e-14)
    system = da.build(model)
    assert system.m == (4 if space == "plane" else 10) and not system.constant_mass
    vdot, energy = look(system, *tree.lift(q, v))[1:3]
    turning = np.asarray(vdot).reshape(2, -1)[:, -1]
    np.testing.assert_allclose(turning, [expected[0], expected[0] + expected[1]], atol=1e-12)
    assert float(energy) == pytest.approx(0.5 * moving @ M @ moving, rel=1e-14)
    # it is a parameter like any other
    heavier = look(system.replace({"rotor.inertia": 2 * a}), *tree.lift(q, v))[1]
    M[1, 1] = I_o + 2 * a
    np.testing.assert_allclose(np.asarray(heavier).reshape(2, -1)[0, -1], np.linalg.solve(M, weight)[0], atol=1e-12)


def test_what_is_asked_of_a_machine_with_a_rotor():
    """Counting, reactions, frequencies and efforts: all of them from M, in both kinds of coordinates."""
    model = arm_with_rotor("plane")
    free = {k: da.check(s).mobility for k, s in (("absolute", model), ("joint", da.build(model, coordinates="joint")))}
    assert free == {"absolute": 2, "joint": 2}
    still = da.Model("still", space="plane", gravity=(0, -9.81))
    still.body("rod", mass=2.0, inertia=0.1, position=(0.0, -0.5))
    still.revolute("hinge", still.ground, "rod", at=(0, 0))
    still.armature("rotor", "hinge", 0.4)
    omega = np.sqrt(2.0 * 9.81 * 0.5 / (0.1 + 0.5 + 0.4))
    for coordinates in ("absolute", "joint"):
        system = da.build(still, coordinates=coordinates)
        found = np.linalg.eigvals(da.linearise(system).A)
        np.testing.assert_allclose(np.sort(found.imag), [-omega, omega], rtol=1e-9)
        # turned by 1 rad/s² from rest: the whole moment of inertia, the rotor's with it
        turning = [1.0] if coordinates == "joint" else [0.5, 0.0, 1.0]
        motor = np.array([[1.0]] if coordinates == "joint" else [[0.0], [0.0], [1.0]])
        effort = da.inverse_dynamics(system, (system.q0, system.v0), turning, actuators=motor).effort
        np.testing.assert_allclose(effort, [0.1 + 0.5 + 0.4], rtol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize("name", all_formulations())
def test_every_formulation_takes_the_full_mass_matrix_of_a_rotor(name):
    model = arm_with_rotor("plane")
    tree, system = da.build(model, coordinates="joint"), da.build(model)
    formulation = da.prepare(system, formulation=all_formulations()[name]).formulation
    q, v = tree.lift(jnp.asarray(tree.q0) + 0.3, jnp.asarray([0.3, -0.8]))

    @eqx.filter_jit
    def accelerate(formulation, q, v):
        w, memory = formulation.pack(system, 0.0, q, v)
        return formulation.motion(system, 0.0, q, w, memory, lambda e: e.Gamma).acceleration.vdot

    expected = accelerate(da.formulations.Proximal(), q, v)
    tolerance = {"penalty": 1e-5, "augmented-lagrangian": 1e-6}.get(name, 1e-11)  # as far as these converge
    np.testing.assert_allclose(accelerate(formulation, q, v), expected, atol=tolerance * np.max(np.abs(expected)))


def test_a_rotor_is_said_and_refused_clearly():
    model = arm_with_rotor("plane")
    assert "type: armature" in da.io.text_of(model)  # which reads it back, and compares
    model.armature("none", "elbow", 0.0)
    model.armature("nowhere", "no", 1.0)
    told = "\n".join(model.mistakes())
    assert "Force 'none': inertia must be greater than zero, not 0." in told and "'no'" in told
