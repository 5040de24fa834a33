"""Joint reactions: free bodies by hand, power, frames, closed forms, and the two doors."""

from __future__ import annotations

import functools
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_joints import (
    DRIVERS,
    JOINTS,
    MOVED,
    ORDERS,
    PRESCRIBED,
    SPEED_DRIVEN,
    SPEED_DRIVERS,
    add_joint,
    add_rows,
    motion,
    motion_rate,
    quiet_model,
    random_body,
    rotation,
    rotation_2,
    settled,
    spot,
)
from _helpers_thorough import everyday

import dalembert as da
from dalembert.model import axis_angle
from dalembert.reactions import joint_wrenches

SPACES = ("plane", "space")
# v̇ and λ come from one linear solve with a condition number of some 1e2–1e3: rounding, relative to the largest term
BALANCE = 1e-11


def kinds_of(space: str):
    drivers = [f"driver_{k}_{c}" for k, c in MOVED[space]] + [f"speed_driver_{k}_{c}" for k, c in SPEED_DRIVEN[space]]
    return (*JOINTS[space], *drivers, *PRESCRIBED)


CASES = [(space, kind, order) for space in SPACES for kind in kinds_of(space) for order in ORDERS]


# ---- plain mechanics from the dataset ------------------------------------------------------------------------------


class Motion:
    """What the dataset says of each body, in plain NumPy: pose and rates in world axes."""

    def __init__(self, model, data):
        self.model, self.data, self.plane = model, data, model.space == "plane"
        self.nt, d = data.sizes["time"], model.dimension
        self.still = np.zeros((self.nt, d)), np.zeros(self.nt) if self.plane else np.zeros((self.nt, 3))

    def of(self, body):
        """(centre, R, velocity, ω in world axes)."""
        if body.is_ground:
            R = np.broadcast_to(np.eye(self.model.dimension), (self.nt,) + (self.model.dimension,) * 2)
            return self.still[0], R, *self.still
        x = self.data.sel(body=body.name)
        R = rotation_2(x["angle"].values) if self.plane else rotation(x["quaternion"].values)
        w = x["angular_velocity"].values
        return x["position"].values, R, x["velocity"].values, w if self.plane else np.einsum("tij,tj->ti", R, w)

    def marker(self, m):
        """Point, axes of a marker."""
        p, R, *_ = self.of(m.body)
        return p + R @ m.position, R @ m.rotation

    def speed(self, body, point):
        """Velocity of the point of a body that is at `point`."""
        p, _, v, w = self.of(body)
        return v + self.turned(w, point - p)

    def turned(self, w, r):
        return w[:, None] * np.stack([-r[:, 1], r[:, 0]], 1) if self.plane else np.cross(w, r)

    def moment(self, r, f):
        return r[:, 0] * f[:, 1] - r[:, 1] * f[:, 0] if self.plane else np.cross(r, f)

    def needed(self, body):
        """Force and torque about the centre that the motion needs, less weight and applied loads (Newton, Euler)."""
        x = self.data.sel(body=body.name)
        force = body.mass * (x["acceleration"].values - self.model.gravity)
        if self.plane:
            torque = body.inertia[0] * x["angular_acceleration"].values
        else:
            R, w, a = self.of(body)[1], x["angular_velocity"].values, x["angular_acceleration"].values
            local = a @ body.inertia + np.cross(w, w @ body.inertia)
            torque = np.einsum("tij,tj->ti", R, local)
        for f in self.model.forces.values():
            load, moment = self.applied(f, body)
            force, torque = force - load, torque - moment
        return force, torque

    def applied(self, f, body):
        """Force and torque about the centre of a spring-damper or of a constant torque in the plane."""
        zero = np.zeros_like(self.still[0]), np.zeros_like(self.still[1])
        if body.name not in [b.name for b in f.bodies]:
            return zero
        if f.type == "torque" and f.element.frame == "world":
            return zero[0], zero[1] + (f.numbers["value"][0] if self.plane else f.numbers["value"])
        assert f.type == "spring_damper", f.type
        (pi, _), (pj, _) = (self.marker(m) for m in f.markers)
        d = pj - pi
        length = np.linalg.norm(d, axis=1)
        e = d / length[:, None]
        rate = np.sum(e * (self.speed(f.bodies[1], pj) - self.speed(f.bodies[0], pi)), axis=1)
        pull = f.numbers["stiffness"] * (length - f.numbers["length"]) + f.numbers["damping"] * rate
        first = f.bodies[0].name == body.name
        force = pull[:, None] * e * (1 if first else -1)
        return force, self.moment((pi if first else pj) - self.of(body)[0], force)


def wrench(solution, joint, frame="world"):
    """Force and torque of a joint as arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.RedundancyWarning)  # balances hold whatever rule picked the values
        x = solution.reactions(joint, frame=frame)
    return x["force"].values, x["torque"].values


def body_gap(model, solution, body):
    """|what the motion needs − what the joints give| relative to the largest term, over force and torque."""
    now = Motion(model, solution.dataset)
    force, torque = now.needed(body)
    sizes = [np.max(np.abs(force)), np.max(np.abs(torque)), body.mass * np.linalg.norm(model.gravity)]
    centre = now.of(body)[0]
    for c in model.constraints.values():
        for sign, side in ((-1, 0), (1, 1)):
            if c.bodies[side] is not body:
                continue
            F, T = wrench(solution, c.name)
            point, _ = now.marker(c.markers[1])  # both bodies: about the point of marker j
            moment = T + now.moment(point - centre, F)
            force, torque = force - sign * F, torque - sign * moment
            sizes += [np.max(np.abs(F)), np.max(np.abs(T)), np.max(np.abs(moment))]
    return max(np.max(np.abs(force)), np.max(np.abs(torque))) / max(sizes)


def power(model, solution, joint):
    """Power of a joint's reaction on both bodies, and what it is small against."""
    c = model.constraints[joint]
    now = Motion(model, solution.dataset)
    F, T = wrench(solution, joint)
    point, _ = now.marker(c.markers[1])
    (i, j) = c.bodies
    slip, spin = now.speed(j, point) - now.speed(i, point), now.of(j)[3] - now.of(i)[3]
    total = np.sum(F * slip, axis=1) + (T * spin if now.plane else np.sum(T * spin, axis=1))
    # a joint on ground may stand still: speeds of the whole machine, of order one, are the measure
    size = (np.max(np.abs(F)) + np.max(np.abs(T))) * float(np.max(np.abs(solution.v)))
    return total, size


# ---- every kind, alone on its own bodies ---------------------------------------------------------------------------


def zoo(space: str, kind: str):
    """The model and the states that hold a kind's small mechanisms."""
    return states_of_zoo(space, is_nonholonomic(kind))


def is_nonholonomic(kind: str) -> bool:
    return kind.startswith(("knife_edge", "rolling", "pfaffian", "no_slip", "speed_driver"))


def make_zoo(space: str, kinds):
    """For every kind and order a small mechanism of its own (one or two bodies), all in one model."""
    rng = np.random.default_rng(5)
    model = quiet_model(space, "zoo")
    for kind in kinds:
        for order in ORDERS:
            name = f"{kind}_{order}"
            one = model.ground if order == "gb" else random_body(model, f"{name}_one", rng, moving=True)
            two = model.ground if order == "bg" else random_body(model, f"{name}_two", rng, moving=True)
            s = spot(space, rng)
            if kind in DRIVERS or kind in SPEED_DRIVERS:
                carrier, coordinate = (DRIVERS | SPEED_DRIVERS)[kind]
                add_joint(model, carrier, f"{name}_joint", one, two, s)
                drive = model.driver if kind in DRIVERS else model.speed_driver
                drive(name, f"{name}_joint", motion, coordinate=coordinate, parameters={"start": 0.0})
            elif kind in PRESCRIBED:
                add_rows(model, kind, name, one, two, s)
            else:
                add_joint(model, kind, name, one, two, s)
            # a spring that pulls off the centre, so that a floating pair turns and every reaction has work to refuse
            pulled = one if two.is_ground else two
            model.spring_damper(
                f"{name}_spring", model.ground, pulled, at_i=s.off, at_j=s.at, stiffness=20.0, damping=0.5
            )
    return model


TIMES = np.array([0.0, 0.1, 0.25])


@functools.cache
def states_of_zoo(space: str, nonholonomic: bool):
    """The zoo at consistent states, at and off its start, which need no march: what is read off them is one solve."""
    model = make_zoo(space, [k for k in kinds_of(space) if is_nonholonomic(k) == nonholonomic])
    system = da.build(model)
    rng = np.random.default_rng(8)
    found = []
    for t in TIMES:
        q = system.retract(jnp.asarray(system.q0), jnp.asarray(0.6 * t * rng.standard_normal(system.n)))
        found.append(settled(system, q, np.asarray(system.v0), t))
    q, v = (np.array([x[k] for x in found]) for k in (0, 1))
    still = np.zeros((len(TIMES), 2))
    done = np.asarray(int(da.simulation.Status.done))
    solution = da.simulation.Solution(
        system,
        da.formulations.Proximal(),
        da.stabilise.Projection(),
        TIMES,
        q,
        v,
        still,
        done,
        TIMES[-1],
        {},
        None,
        integrator="none",
    )
    return model, solution


def test_sparse_model_with_nonholonomic_rows_assembles():
    """17 pairs of pinned bodies on knife edges, n = 102 and so sparse: positions and velocities must still close."""
    model = quiet_model("plane", "edges")
    rng = np.random.default_rng(6)
    for k in range(17):
        one, two = random_body(model, f"one{k}", rng, moving=True), random_body(model, f"two{k}", rng, moving=True)
        model.revolute(f"pin{k}", one, two, at=one.position)
        model.knife_edge(f"edge{k}", model.ground, two, at=two.position, direction=(1, 0.5))
    system = da.build(model)
    assert system.klu is not None
    q, v = da.stabilise.consistent_state(system)
    Phi, phi = da.equations.residuals(system, 0.0, q, v)
    assert max(np.max(np.abs(Phi)), np.max(np.abs(phi))) < 1e-12


@pytest.mark.parametrize("nonholonomic", [False, True])
@pytest.mark.parametrize("space", [pytest.param("plane", marks=pytest.mark.thorough), "space"])
def test_zoo_moves_and_its_reactions_are_unique(space, nonholonomic):
    model, solution = states_of_zoo(space, nonholonomic)
    assert solution.redundancy == 0
    assert np.max(np.abs(solution.v)) > 0.5
    for joint in model.constraints:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = solution.reactions(joint)
        assert found.attrs["rule"] == "unique"


@pytest.mark.parametrize(("space", "kind", "order"), CASES)
def test_free_body(space, kind, order):
    """Newton and Euler for each body: inertia − weight − springs = Σ ± joint wrenches (+ on j, − on i)."""
    model, solution = zoo(space, kind)
    for side in ("one", "two"):
        body = model.bodies.get(f"{kind}_{order}_{side}")
        if body is not None:
            assert body_gap(model, solution, body) < BALANCE


@pytest.mark.parametrize(("space", "kind", "order"), CASES)
def test_reactions_work_only_where_driven(space, kind, order):
    """Power over both bodies: zero for fixed geometry, −λ b for rows that depend on time."""
    model, solution = zoo(space, kind)
    name = f"{kind}_{order}"
    for joint in (name, f"{name}_joint"):
        if joint not in model.constraints:
            continue
        total, size = power(model, solution, joint)
        expected = np.zeros_like(total)
        if joint == name and kind in PRESCRIBED:  # what it drives along is written once more by hand
            expected = prescribed_power(model, solution, name, kind)
            assert np.max(np.abs(expected)) > 1e-4 * size
        if joint == name and kind.startswith(("driver", "speed_driver", "holonomic", "pfaffian")):
            expected = minus_lambda_b(model, solution, name, kind)
            assert np.max(np.abs(expected)) > 1e-4 * size  # it does work
        # a frame's ω was differenced with h = 1e-5: h² and ε/h
        differenced = 1e-9 if kind == "frame_driver" and space == "space" else 0.0
        assert np.max(np.abs(total - expected)) < (BALANCE + differenced) * size


def minus_lambda_b(model, solution, name, kind):
    """−λ b with b by hand: a driver's is −motion'(t); the user's rows' from their formulas."""
    data = solution.dataset
    (row,) = next(o.rows for o in solution.system.owners if o.name == name)
    lam, t = data["multiplier"].values[:, row], data["time"].values
    if kind.startswith("driver"):
        return lam * motion_rate(t)
    if kind.startswith("speed_driver"):
        return lam * np.array([float(motion(x, {"start": 0.0})) for x in t])
    c, now = model.constraints[name], Motion(model, data)
    length = c.numbers.get("length")
    if kind == "holonomic":
        return lam * length * 0.2 * np.cos(2 * t)
    ends = []
    for body, s in zip(c.bodies, (c.numbers["s_i"], c.numbers["s_j"]), strict=True):
        p, R, *_ = now.of(body)
        ends.append(p + R @ s)
    gap = ends[1] - ends[0]
    return lam * 0.3 * np.cos(2 * t) * (1 + np.sum(gap * gap, axis=1))


def prescribed_power(model, solution, name, kind):
    """λ times the prescribed rates, by hand; a frame's turn in space is its angular velocity along marker i."""
    rows = list(next(o.rows for o in solution.system.owners if o.name == name))
    lam, t = solution.dataset["multiplier"].values[:, rows], np.asarray(solution.t)
    if kind == "distance_driver":
        return lam[:, 0] * model.constraints[name].numbers["a"] * 0.2 * np.cos(2 * t)
    d = model.dimension
    if kind == "point_driver":
        return np.sum(lam * 0.4 * t[:, None] * np.arange(1.0, d + 1), axis=1)
    rates = np.stack([0.6 * t, *[0.6 * np.cos(3 * t)] * (d - 1)], 1)
    power = np.sum(lam[:, :d] * rates, axis=1)
    if d == 2:
        return power + lam[:, 2] * 1.2 * np.cos(2 * t)
    # met rows: marker j turned by exp[θ(t)] against i; ω along i from the rotation at t ± h, plain matrices
    h = 1e-5
    _, T = wrench(solution, name, "joint")
    for k, now in enumerate(t):
        A, B, C = (axis_angle_of([0.6 * np.sin(2 * x), 0.3 * x * x, -0.4 * x]) for x in (now - h, now, now + h))
        W = (C - A) / (2 * h) @ B.T
        power[k] += T[k] @ [W[2, 1], W[0, 2], W[1, 0]]
    return power


def axis_angle_of(vector):
    angle = np.linalg.norm(vector)
    return np.eye(3) if angle == 0 else axis_angle(np.array(vector) / angle, angle)


@pytest.mark.parametrize(("space", "kind", "order"), CASES)
def test_joint_frame_is_the_world_turned_into_marker_i(space, kind, order):
    model, solution = zoo(space, kind)
    name = f"{kind}_{order}"
    F, T = wrench(solution, name)
    local_F, local_T = wrench(solution, name, "joint")
    _, A = Motion(model, solution.dataset).marker(model.constraints[name].markers[0])
    size = max(np.max(np.abs(F)), np.max(np.abs(T)), 1e-9)
    assert np.max(np.abs(np.einsum("tji,tj->ti", A, F) - local_F)) < 1e-13 * size
    turned = T if space == "plane" else np.einsum("tji,tj->ti", A, T)
    assert np.max(np.abs(turned - local_T)) < 1e-13 * size


# which components, in the joint's own frame, a joint can transmit at all: force (x, y[, z]) and torque
TRANSMITS = {
    ("plane", "revolute"): ("11", "0"), ("plane", "prismatic"): ("01", "1"), ("plane", "rolling_disc"): ("11", None),
    ("plane", "driver_revolute_angle"): ("00", "1"), ("plane", "driver_prismatic_displacement"): ("10", "0"),
    ("space", "revolute"): ("111", "110"), ("space", "prismatic"): ("110", "111"),
    ("space", "cylindrical"): ("110", "110"), ("space", "spherical"): ("111", "000"),
    ("space", "distance"): (None, "000"), ("space", "knife_edge"): (None, "000"),
    ("space", "driver_revolute_angle"): ("000", "001"), ("space", "driver_cylindrical_angle"): ("000", "001"),
    ("space", "driver_prismatic_displacement"): ("001", "000"),
    ("space", "driver_cylindrical_displacement"): ("001", "000"),
    ("plane", "pin_slot"): ("01", "0"), ("plane", "point_on_line"): ("01", "0"), ("plane", "angle_lock"): ("00", "1"),
    ("plane", "point_on_curve"): (None, "0"), ("plane", "point_on_curve:closed"): (None, "0"),
    ("plane", "generic:x"): ("10", "0"), ("plane", "generic:y,angle"): ("01", "1"),
    ("plane", "point_driver"): ("11", "0"), ("plane", "distance_driver"): (None, "0"),
    ("plane", "speed_driver_revolute_angle"): ("00", "1"),
    ("space", "planar"): ("001", "110"), ("space", "pin_slot"): ("011", "110"),
    ("space", "point_on_line"): ("110", "000"),
    ("space", "point_in_plane"): ("001", "000"), ("space", "point_on_curve"): (None, "000"),
    ("space", "point_on_curve:closed"): (None, "000"), ("space", "parallel_axes"): ("000", "110"),
    ("space", "perpendicular_axes"): ("000", None), ("space", "constant_angle"): ("000", None),
    ("space", "orientation_lock"): ("000", "111"), ("space", "revolute_spherical_rod"): (None, "000"),
    ("space", "constant_velocity"): ("111", None), ("space", "rolling_sphere"): ("111", "110"),
    ("space", "generic:rx"): ("000", None), ("space", "generic:x,ry"): ("100", None),
    ("space", "generic:y,z,rz"): ("011", None), ("space", "generic:rx,ry"): ("000", "110"),
    ("space", "generic:z,rx,rz"): ("001", "101"), ("space", "generic:x,ry,rz"): ("100", "011"),
    ("space", "generic:rx,ry,rz"): ("000", "111"), ("space", "point_driver"): ("111", "000"),
    ("space", "distance_driver"): (None, "000"), ("space", "driver_planar_x"): ("100", "000"),
}  # fmt: skip


@pytest.mark.parametrize(("space", "kind"), TRANSMITS)
def test_a_joint_gives_nothing_along_its_free_directions(space, kind):
    _, solution = zoo(space, kind)
    for order in ORDERS:
        F, T = wrench(solution, f"{kind}_{order}", "joint")
        size = max(np.max(np.abs(F)), np.max(np.abs(T)))
        for values, mask in ((F, TRANSMITS[space, kind][0]), (np.reshape(T, (len(T), -1)), TRANSMITS[space, kind][1])):
            for k, sign in enumerate(mask or ""):
                if sign == "0":
                    assert np.max(np.abs(values[:, k])) < BALANCE * size, (order, k)


# ---- built-in mechanisms: the same free bodies on the dense path and under a redundancy rule -----------------------


@functools.cache
def built_in(name: str, t1: float = 0.3, **numbers):
    model = da.mechanism(name, **numbers)
    return model, da.simulate(model, t1, samples=7)


# the robot drives straight on, free of forces, until its steering begins at 2 s
MECHANISMS = {"four-bar": 0.3, "slider-crank": 0.3, "rolling-disc": 0.3, "mobile-robot": 4.0, "bricard": 0.3}
MECHANISMS |= {"door-two-hinges": 0.3}


@pytest.mark.parametrize("name", everyday(MECHANISMS, ("four-bar", "bricard")))
def test_free_bodies_of_a_mechanism(name):
    model, solution = built_in(name, MECHANISMS[name])
    for body in model.bodies.values():
        assert body_gap(model, solution, body) < BALANCE


def test_pin_force_of_a_physical_pendulum():
    """Uniform rod from rest, level: with ψ the angle fallen, energy gives ω² = 3g sin ψ/l, so the pin pulls
    (5/2) m g sin ψ along the rod and pushes (1/4) m g cos ψ across it (a textbook result)."""
    _, solution = built_in("physical-pendulum", 0.8)
    F, T = wrench(solution, "pin")
    theta = solution.dataset["angle"].values[:, 0]
    psi, weight = -theta, 1.0 * 9.81
    along, across = np.stack([np.cos(theta), np.sin(theta)], 1), np.stack([np.sin(psi), np.cos(psi)], 1)
    exact = -2.5 * weight * np.sin(psi)[:, None] * along + 0.25 * weight * np.cos(psi)[:, None] * across
    # ω² comes from the integration (rtol 1e-8, a few steps), the rest is linear algebra
    assert np.max(np.abs(F - exact)) < 1e-6 * weight
    assert np.max(np.abs(T)) < 1e-12 * weight
    assert np.allclose(exact[0], [0, 0.25 * weight], atol=1e-12) and psi[-1] > 1.2


def test_reactions_of_a_mechanism_without_redundancy_are_unique():
    _, solution = built_in("four-bar")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solution.reactions("B").attrs["rule"] == "unique"


# ---- the doors: 1 × 0.05 × 2 m, 10 kg, centre 0.5 m off the hinge line, supports at z = ±0.75 ----------------------

WEIGHT = 10.0 * 9.81
LEVER = WEIGHT * 0.5  # moment of the weight about the hinge line's foot: 49.05 N m
REST = 1e-9  # a door at rest: rounding of one solve, times the condition of the rule's pseudo-inverse


@pytest.mark.parametrize(("name", "redundancy"), [("door-two-balls", 1), ("door-two-hinges", 5)])
def test_doors_warn_and_name_their_rule(name, redundancy):
    _, solution = built_in(name, swing=0.0)
    assert solution.redundancy == redundancy
    for joint in ("top", "bottom"):
        with pytest.warns(da.errors.RedundancyWarning, match=f"{redundancy} redundant"):
            found = solution.reactions(joint)
        assert found.attrs["rule"].startswith("minimum norm of joint forces and torques")


def test_door_on_two_balls_at_rest():
    """Moments about the bottom: 1.5 Fx = −49.05, so Fx = ∓32.7 N (top, bottom); the sum of Fz is the weight."""
    _, solution = built_in("door-two-balls", swing=0.0)
    (top, torque), (bottom, _) = wrench(solution, "top"), wrench(solution, "bottom")
    for F, sign in ((top, -1), (bottom, 1)):
        assert np.max(np.abs(F[:, 0] - sign * 32.7)) < REST * WEIGHT
        assert np.max(np.abs(F[:, 1])) < REST * WEIGHT
    assert np.max(np.abs(top[:, 2] + bottom[:, 2] - 98.1)) < REST * WEIGHT
    # not unique; by the rule the two alike balls share it
    assert np.max(np.abs(top[:, 2] - bottom[:, 2])) < REST * WEIGHT
    assert np.max(np.abs(torque)) < REST * WEIGHT


def test_door_on_two_hinges_at_rest_by_the_rule():
    """Alike hinges carry Fx = ∓a and torque τ with 1.5a + 2τ = 49.05; least 2a² + 2τ²/ℓ²: a = 0.375μ, τ = ℓ²μ/2,
    μ = 49.05/(0.5625 + ℓ²). ℓ² = 0.5² + 1.5² = 2.5, the box around the hinges and the centre of mass."""
    _, solution = built_in("door-two-hinges", swing=0.0)
    assert abs(float(solution.system.size) ** 2 - 2.5) < 1e-14
    mu = LEVER / (0.5625 + 2.5)
    for joint, sign in (("top", -1), ("bottom", 1)):
        F, T = wrench(solution, joint)
        exact = np.array([sign * 0.375 * mu, 0, WEIGHT / 2])
        assert np.max(np.abs(F - exact)) < REST * WEIGHT
        # each hinge turns the leaf by −τ about y: it holds up the outer edge
        assert np.max(np.abs(T - [0, -1.25 * mu, 0])) < REST * WEIGHT


def test_door_that_swings_needs_the_centripetal_force():
    """Turning at 1 rad/s about the vertical, no torque about it: Σ F = weight upwards and m ω² r = 5 N inwards."""
    _, solution = built_in("door-two-balls")
    F = wrench(solution, "top")[0] + wrench(solution, "bottom")[0]
    centre = solution.dataset["position"].values[:, 0]
    exact = np.column_stack([-10.0 * centre[:, :2], np.full(len(F), WEIGHT)])
    assert np.max(np.abs(F - exact)) < 1e-6 * WEIGHT  # ω from the integration at rtol 1e-8


# ---- couplings -----------------------------------------------------------------------------------------------------


def test_free_bodies_of_a_coupled_train():
    """A torque on wheel a, coupled 2 : 1 to wheel b, and that to a slide: each body by itself, in closed form.

    The reaction of a coupling is what it exerts on the last body of its terms; on the others it acts in proportion to
    their factors. Wheels and rack are balanced by hand, so C, λ and the shares are all in it.
    """
    T, ratio, radius, I_a, I_b, m_r = 5.0, 2.0, 0.4, 0.3, 0.7, 1.5
    model = da.Model("train", gravity=(0, -9.81))
    a = model.body("a", mass=1.0, inertia=I_a, position=(0, 0))
    b = model.body("b", mass=2.0, inertia=I_b, position=(1, 0))
    rack = model.body("rack", mass=m_r, inertia=0.1, position=(0, 2))
    model.revolute("A", model.ground, a, at=(0, 0))
    model.revolute("B", model.ground, b, at=(1, 0))
    model.prismatic("R", model.ground, rack, at=(0, 2), axis=(1, 0))
    model.gear_ratio("gear", "A", "B", ratio=ratio)
    model.coupling("teeth", [("R", 1.0), ("B", -radius)])
    model.torque("push", a, T)
    system = da.build(model)
    e = da.assemble(system, 0.0, system.q0, system.v0)
    found = da.formulations.Proximal().solve(e)
    lam = da.reactions.RequireUnique().multipliers(system, e, found.r)
    torque = dict(zip((j.name for j in system.joints), joint_wrenches(system, e, lam).torque[:, 0], strict=True))
    turn_a = T / (I_a + I_b / ratio**2 + m_r * (radius / ratio) ** 2)
    turn_b = -turn_a / ratio
    on_rack = m_r * radius * turn_b  # force of the pinion on the rack
    on_b = I_b * turn_b + radius * on_rack  # torque of the gear on wheel b: its inertia and what the rack takes
    assert np.allclose(np.asarray(found.vdot)[[2, 5, 6]], [turn_a, turn_b, radius * turn_b], rtol=BALANCE)
    assert abs(torque["gear"] - on_b) < BALANCE * T and abs(torque["teeth"] + radius * on_rack) < BALANCE * T
    # on wheel a the gear acts with the share 1 : ratio, and nothing but it and the push turns the wheel
    gear, teeth = (float(lam[system.owners[k].rows[0]]) for k in (3, 4))
    assert abs(I_a * turn_a - T - gear) < BALANCE * T and abs(ratio * gear - on_b) < BALANCE * T
    assert abs(teeth - on_rack) < BALANCE * T
