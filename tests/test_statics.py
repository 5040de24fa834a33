"""`equilibrium` and `quasistatic`: closed forms, other routes to the same numbers, and sentences for wrong uses."""

from __future__ import annotations

import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_linkages import cranks, slider_crank
from scipy.optimize import brentq

import dalembert as da

G = 9.81
BOTH = pytest.mark.parametrize("coordinates", ["absolute", "joint"])
USUALLY_JOINT = pytest.mark.parametrize("coordinates", [pytest.param("absolute", marks=pytest.mark.thorough), "joint"])


# ---- closed forms ----------------------------------------------------------------------------------------------------


LINKS, SPAN = 43, 0.6


def hung_chain() -> da.Model:
    """43 equal links of 1 m and 1 kg in all, from (0, 0) to (0.6, 0), started as a V, far from the catenary."""
    model = da.Model("chain", gravity=(0, -G))
    a = 1 / LINKS
    steep = math.acos((SPAN - a) / (1 - a))
    at, former = np.zeros(2), model.ground
    for k in range(LINKS):
        angle = steep * np.sign(k - LINKS // 2)
        e = np.array([math.cos(angle), math.sin(angle)])
        link = model.body(f"link{k}", mass=a, inertia=a**3 / 12, position=at + a / 2 * e, angle=angle)
        model.revolute(f"pin{k}", former, link, at=at)
        at, former = at + a * e, link
    model.revolute(f"pin{LINKS}", former, model.ground, at=at)
    return model


@BOTH
def test_a_chain_is_the_discrete_catenary(coordinates):
    """tan θₖ = w (k − (N − 1)/2)/H from the moments of each link, H from the span: angles and reactions to 1e-10."""
    weight = G / LINKS

    def angles(H):
        return np.arctan(weight * (np.arange(LINKS) - (LINKS - 1) / 2) / H)

    H = brentq(lambda H: np.sum(np.cos(angles(H))) / LINKS - SPAN, 1e-3, 1e3, xtol=1e-14)
    rest = da.equilibrium(da.build(hung_chain(), coordinates=coordinates))
    assert rest.stable and rest.mobility == LINKS - 2 and rest.redundancy == 0
    np.testing.assert_allclose(rest.dataset["angle"].values, angles(H), atol=1e-10)
    force = rest.dataset["reaction_force"].values
    np.testing.assert_allclose(np.abs(force[:, 0]), H, rtol=1e-10)
    np.testing.assert_allclose(np.ptp(np.abs(force[:, 0])), 0.0, atol=1e-10 * H)
    np.testing.assert_allclose(np.abs(force[0, 1]), G / 2, rtol=1e-10)  # half the weight at each end


def balanced_arm(angle: float, share: float = 1.0) -> da.Model:
    """An arm with a spring of zero free length from (0, b) to a point a along it, k a b = m g l: balanced everywhere
    [French, Widden 2000]; `share` of that stiffness is given."""
    length, a, b, mass = 0.7, 0.4, 0.5, 3.0
    model = da.Model("balanced", gravity=(0, -G))
    e = np.array([math.cos(angle), math.sin(angle)])
    arm = model.body("arm", mass=mass, inertia=0.2, position=length * e, angle=angle)
    model.revolute("pin", model.ground, arm, at=(0, 0))
    stiffness = share * mass * G * length / (a * b)
    model.spring_damper("spring", model.ground, arm, stiffness=stiffness, length=0.0, at_i=(0, b), at_j=a * e)
    return model


@BOTH
@pytest.mark.parametrize("angle", [-1.3, 0.2, 1.2, 2.6])
def test_a_balanced_arm_is_indifferent_in_every_pose(coordinates, angle):
    rest = da.equilibrium(da.build(balanced_arm(angle), coordinates=coordinates))
    assert rest.way == "the start" and rest.residual < 1e-12
    assert rest.stability.word == "indifferent" and rest.stiffness.tolist() == [0.0]
    # a little less spring, and it falls: the stiffness is known to be zero, not just small
    other = da.equilibrium(da.build(balanced_arm(math.pi / 2, 1 - 1e-6), coordinates=coordinates))
    assert other.way == "the start" and other.stability.word == "unstable"


def column() -> da.Model:
    """Two links of 1 m, one on the other, with a spring between them, the top guided: buckles at P = 2 k/L."""
    model = da.Model("column")
    low = model.body("low", mass=1.0, inertia=1 / 12, position=(0, 0.5))
    high = model.body("high", mass=1.0, inertia=1 / 12, position=(0, 1.5))
    model.revolute("foot", model.ground, low, at=(0, 0))
    model.revolute("knee", low, high, at=(0, 1))
    model.point_on_line("guide", model.ground, high, at=(0, 2), axis=(0, 1))
    model.joint_spring("spring", "knee", stiffness=5.0)
    model.force("load", high, (0, -3.0), at=(0, 2))
    return model


@BOTH
def test_a_column_buckles_at_its_load(coordinates):
    """Energy 2 k θ² − 2 P L (1 − cos θ): P = 2 k/L; k = 5 and L = 1."""
    path = da.quasistatic(da.build(column(), coordinates=coordinates), {"load.value": ((0, 0), (0, -30))})
    assert path.reached and not path.limits
    (point,) = path.bifurcations
    np.testing.assert_allclose(point.values["load.value"], [0, -10], atol=1e-9)
    moving = {b.name: b.turns for b in point.motion.bodies}
    np.testing.assert_allclose([moving["low"], moving["high"]], 1.0, atol=1e-9)
    assert path.stability[0] == "stable" and path.stability[-1] == "unstable"
    # a little off the line it follows the bent branch, which is stable: P sin θ/θ = 2 k/L
    system = da.build(column(), coordinates=coordinates).replace({"load.value": (0, -12.0)})
    q = np.array(system.q0)
    q[0 if coordinates == "joint" else 2] += 0.1
    bent = da.equilibrium(system, (q, None))
    theta = brentq(lambda x: 12 * math.sin(x) / x - 10, 0.1, 3)
    assert bent.stable and bent.way == "Newton's method"
    np.testing.assert_allclose(abs(bent.coordinates["foot.angle"]), theta, rtol=1e-12)


A, HIGH, STIFF = 1.0, 0.4, 500.0
FREE = math.hypot(A, HIGH)


def truss(guided: bool = True) -> da.Model:
    """Two springs from (±1, 0) to an apex at (0, 0.4) that is pushed down [von Mises 1923]."""
    model = da.Model("truss")
    apex = model.body("apex", mass=2.0, inertia=0.1, position=(0, HIGH))
    if guided:
        model.prismatic("guide", model.ground, apex, at=(0, 0), axis=(0, 1))
    for name, x in (("left", -A), ("right", A)):
        model.spring_damper(
            name, model.ground, apex, stiffness=STIFF, length=FREE, at_i=(x, 0), at_j=(0, HIGH)
        )  # fmt: skip
    model.force("load", apex, (0, 0), at=(0, HIGH))
    return model


def truss_load(y):
    return 2 * STIFF * y * (FREE / np.hypot(A, y) - 1)


@pytest.mark.parametrize(("guided", "coordinates"), [(True, "absolute"), (True, "joint"), (False, "absolute")])
def test_a_truss_snaps_through_both_limit_points(guided, coordinates):
    """P(y) = 2 k y (l/√(a² + y²) − 1) along the whole path; dP/dy = 0 where (a² + y²)^(3/2) = l a²."""
    y = math.sqrt((FREE * A**2) ** (2 / 3) - A**2)
    most = truss_load(y)
    path = da.quasistatic(da.build(truss(guided), coordinates=coordinates), {"load.value": ((0, 0), (0, -2 * most))})
    assert path.reached and not path.bifurcations
    first, second = path.limits
    np.testing.assert_allclose(
        [first.values["load.value"][1], second.values["load.value"][1]], [-most, most], rtol=1e-11
    )
    heights = path.dataset["position"].values[:, 0, 1]
    np.testing.assert_allclose(-path.values["load.value"][:, 1], truss_load(heights), atol=1e-9 * most)
    assert [b.name for b in first.motion.bodies] == ["apex"] and "snaps" in str(first)
    # it lands on the other branch, at nearly the same load
    landed = brentq(lambda y: truss_load(y) - most, -3 * HIGH, -HIGH)
    lands = first.lands[1] if coordinates == "absolute" else first.lands[0] + HIGH
    np.testing.assert_allclose(lands, landed, atol=1e-3)
    words = set(path.stability)
    assert "unstable" in words and path.stability[0] == path.stability[-1] != "unstable"
    if not guided:  # its rotation is free all the way
        assert path.stability[0] == "indifferent"


def test_a_flat_truss_is_pushed_sideways_at_a_bifurcation():
    """A steep truss leaves its axis before its limit point: with free apex the lateral stiffness is
    2 k (1 − l/L + l a²/L³), L² = a² + y²; it vanishes at the load that is found."""
    high = 3.0
    free = math.hypot(A, high)
    model = da.Model("steep")
    apex = model.body("apex", mass=2.0, inertia=0.1, position=(0, high))
    for name, x in (("left", -A), ("right", A)):
        model.spring_damper(name, model.ground, apex, stiffness=STIFF, length=free, at_i=(x, 0), at_j=(0, high))
    model.force("load", apex, (0, 0), at=(0, high))

    def lateral(y):
        L = math.hypot(A, y)
        return 1 - free / L + free * A**2 / L**3

    y = brentq(lateral, 1.2, high)
    load = 2 * STIFF * y * (free / math.hypot(A, y) - 1)
    path = da.quasistatic(model, {"load.value": ((0, 0), (0, -1.5 * load))})
    np.testing.assert_allclose(path.bifurcations[0].values["load.value"][1], -load, rtol=1e-10)


# ---- reactions, stiffness and derivatives by other routes ------------------------------------------------------------


def reach(loaded: bool = False) -> da.Model:
    """Two links with springs at their joints, a motor, and a measured tip."""
    model = da.Model("arm", gravity=(0, -G))
    upper = model.body("upper", mass=2.0, inertia=0.06, position=(0.3, 0.0))
    fore = model.body("fore", mass=1.0, inertia=0.02, position=(0.8, 0.0))
    model.revolute("shoulder", model.ground, upper, at=(0, 0))
    model.revolute("elbow", upper, fore, at=(0.6, 0))
    model.joint_spring("k1", "shoulder", stiffness=30.0)
    model.joint_spring("k2", "elbow", stiffness=8.0)
    model.torque("motor", fore, 1.0)
    model.measure("tip", "point", fore, at=(1.0, 0))
    return model


@functools.cache
def arm(coordinates: str):
    return da.build(reach(), coordinates=coordinates)


def test_stiffness_is_that_of_the_linear_motion():
    """ω² of the undamped small motions that `linearise` finds by differentiating accelerations: another route; also
    for rows that are redundant, and whichever way λ was picked."""
    for model in (reach(), cranks()):
        rest = da.equilibrium(model)
        roots = da.linearise(rest.system, rest.state).eigenvalues
        found = np.sort(roots.imag[roots.imag > 0]) ** 2
        np.testing.assert_allclose(rest.stiffness, found, rtol=1e-9)


@BOTH
def test_reactions_at_rest_are_those_of_the_motion_that_begins_there(coordinates):
    """A run from the equilibrium stays there; its reactions at the start, by the march's own way, are these."""
    rest = da.equilibrium(da.build(cranks(), coordinates=coordinates), rule="minimum_norm")
    motion = da.simulate(rest.system, 0.01, rest.state, samples=2, rule="minimum_norm")
    for name in ("reaction_force", "reaction_torque_in_joint"):
        np.testing.assert_allclose(rest.dataset[name].values, motion.dataset[name].values[0], atol=1e-9)
    assert rest.redundancy == 1 and not bool(rest.reactions("foot0")["unique_force"].all())
    assert rest.reactions("foot0").attrs["rule"].startswith("minimum norm")
    check = da.check(rest.system, rest.state)
    assert {j.name: j.unique for j in check.solvability.joints} == {j.name: j.unique for j in rest.solvability.joints}


def differences(f, x: float, h: float = 1e-4):
    """Central differences of fourth order: 1e-9 relative."""
    near = [np.asarray(f(x + k * h)) for k in (-2, -1, 1, 2)]
    return (8 * (near[2] - near[1]) - (near[3] - near[0])) / (12 * h)


@USUALLY_JOINT
def test_derivatives_of_poses_efforts_and_unknowns(coordinates):
    """Under jit, by a mass, against differences: bar 1e-6; their own error is 1e-9."""
    system = arm(coordinates)

    def pose(m):
        return da.equilibrium(system.replace({"fore.mass": m})).q

    def effort(m):
        held = da.equilibrium(system.replace({"fore.mass": m}), hold={"elbow.angle": 0.2})
        return jnp.stack([held.efforts["elbow.angle"], *held.lam])

    x = 1.0
    forward = jax.jit(jax.jacfwd(lambda m: (pose(m), effort(m))))(x)
    for found, f in zip(forward, (pose, effort), strict=True):
        numeric = differences(f, x)
        assert np.max(np.abs(numeric)) > 1e-3
        np.testing.assert_allclose(found, numeric, atol=1e-6 * np.max(np.abs(numeric)))


def test_unknown_parameters_and_their_derivatives():
    """The motor's torque that puts the tip at a height: by the moments about both joints; and its derivative."""
    system = arm("joint")

    def torque(m):
        found = da.equilibrium(system.replace({"fore.mass": m}), hold={"tip.y": 0.05}, unknown=["motor.value"])
        return found.unknown["motor.value"][0]

    rest = da.equilibrium(system, hold={"tip.y": 0.05}, unknown=["motor.value"])
    a, b = rest.coordinates["shoulder.angle"], rest.coordinates["elbow.angle"]
    np.testing.assert_allclose(0.6 * math.sin(a) + 0.4 * math.sin(a + b), 0.05, atol=1e-12)
    # about the elbow: motor − 8 b = 9.81 · 0.2 cos(a + b)
    np.testing.assert_allclose(rest.unknown["motor.value"][0], 8 * b + G * 0.2 * math.cos(a + b), rtol=1e-11)
    # about the shoulder: motor − 30 a = weights
    moment = G * (2 * 0.3 * math.cos(a) + 0.6 * math.cos(a) + 0.2 * math.cos(a + b))
    np.testing.assert_allclose(rest.unknown["motor.value"][0], 30 * a + moment, rtol=1e-11)
    assert rest.stable and rest.mobility == 2 and not rest.efforts
    np.testing.assert_allclose(jax.jit(jax.jacfwd(torque))(1.0), differences(torque, 1.0), rtol=1e-6)


def levered() -> da.Model:
    """A bob of 2 kg at 0.5 m on a pin that an input turns."""
    model = da.Model("lever", gravity=(0, -G))
    bob = model.body("bob", mass=2.0, inertia=0.1, position=(0.5, 0.0))
    model.revolute("pin", model.ground, bob, at=(0, 0))
    model.torque("turn", bob, model.input("u", unit="N m"))
    return model


@USUALLY_JOINT
def test_trim_by_an_input(coordinates):
    """u = m g l cos a holds the lever at a, and m g l cos a = u is where it hangs under u; ∂u/∂m = g l cos a."""
    system = da.build(levered(), coordinates=coordinates)
    held = da.equilibrium(system, hold={"pin.angle": 0.3}, unknown=["u"])
    np.testing.assert_allclose(held.unknown["u"], 2.0 * G * 0.5 * math.cos(0.3), rtol=1e-12)
    assert not held.efforts and not held.stable  # above the pin's height it falls either way
    hung = da.equilibrium(system, inputs={"u": 1.0})
    assert hung.stable and hung.coordinates["pin.angle"] == pytest.approx(-math.acos(1 / (2.0 * G * 0.5)), abs=1e-12)
    again = da.equilibrium(system, (held.q, None), inputs={"u": float(held.unknown["u"])}, find="nearest")
    assert again.coordinates["pin.angle"] == pytest.approx(0.3, abs=1e-9)

    if coordinates == "absolute":
        return

    def found(mass):
        changed = system.replace({"bob.mass": mass})
        return da.equilibrium(changed, hold={"pin.angle": 0.3}, unknown=["u"]).unknown["u"]

    np.testing.assert_allclose(jax.jit(jax.jacfwd(found))(2.0), G * 0.5 * math.cos(0.3), rtol=1e-10)


@pytest.mark.thorough  # a hundred equilibria
def test_a_path_along_an_input():
    """u = m g l cos a all the way; more than m g l it cannot carry: up over both limit points it comes back."""
    most = 2.0 * G * 0.5
    path = da.quasistatic(da.build(levered(), coordinates="joint"), {"u": (1.0, 1.2 * most)})
    assert not path.reached and "came back to its start" in path.message
    np.testing.assert_allclose(path.values["u"], most * np.cos(path.measured("pin.angle")), atol=1e-11)
    np.testing.assert_allclose([x.values["u"] for x in path.limits], [most, -most], rtol=1e-12)
    assert "beyond, it finds no rest" in str(path) and len(path.special) == 2


@BOTH
def test_an_effort_holds_what_it_must(coordinates):
    """Work: the effort along a held number is the slope of the energy along it, here of the tip's height."""
    system = arm(coordinates)

    def energy(y):
        rest = da.equilibrium(system, hold={"tip.y": y})
        a, b = rest.coordinates["shoulder.angle"], rest.coordinates["elbow.angle"]
        weights = G * (2 * 0.3 * math.sin(a) + 0.6 * math.sin(a) + 0.2 * math.sin(a + b))
        return weights + 15 * a**2 + 4 * b**2 - 1.0 * (a + b)

    held = da.equilibrium(system, hold={"tip.y": 0.1})
    np.testing.assert_allclose(held.efforts["tip.y"], differences(energy, 0.1, 1e-3), rtol=1e-8)
    assert held.mobility == 1


def in_space() -> da.Model:
    """A body on a ball joint, drawn by two springs, in no symmetric pose."""
    model = da.Model("hung", space="space", gravity=(0, 0, -G))
    body = model.body("body", mass=2.0, inertia=(0.1, 0.2, 0.15), position=(0.5, 0.1, 0.3))
    model.spherical("ball", model.ground, body, at=(0, 0, 0))
    model.spring_damper("a", model.ground, body, stiffness=80.0, length=0.3, at_i=(1, 1, 1), at_j=(0.7, 0.2, 0.3))
    model.spring_damper("b", model.ground, body, stiffness=50.0, length=0.2, at_i=(0, -1, 1), at_j=(0.4, -0.2, 0.4))
    return model


def stretched_arm() -> da.Model:
    model = da.Model("arm", gravity=(0, -G))
    upper = model.body("upper", mass=2.0, inertia=0.2, position=(0.5, 0))
    fore = model.body("fore", mass=1.0, inertia=0.1, position=(1.5, 0))
    model.revolute("shoulder", model.ground, upper, at=(0, 0))
    model.revolute("elbow", upper, fore, at=(1, 0))
    model.measure("tip", "point", fore, at=(2, 0))
    return model


def test_what_is_held_is_reached_from_a_stretched_start():
    """No short step moves the tip of a stretched arm inwards. Efforts at its tip by virtual work, Jᵀf = dV/dangles."""
    rest = da.equilibrium(stretched_arm(), hold={"tip.position": (1.2, 0.7)})
    a, b = rest.coordinates["shoulder.angle"], rest.coordinates["elbow.angle"]
    np.testing.assert_allclose([np.cos(a) + np.cos(a + b), np.sin(a) + np.sin(a + b)], [1.2, 0.7], atol=1e-12)
    J = np.array([[-np.sin(a) - np.sin(a + b), -np.sin(a + b)], [np.cos(a) + np.cos(a + b), np.cos(a + b)]])
    slope = G * np.array([2 * 0.5 * np.cos(a) + np.cos(a) + 0.5 * np.cos(a + b), 0.5 * np.cos(a + b)])
    np.testing.assert_allclose(rest.efforts["tip.position"], np.linalg.solve(J.T, slope), rtol=1e-11)
    refused(lambda: da.equilibrium(stretched_arm(), hold={"tip.x": 3.0}), "cannot reach these values", "'tip.x'")
    refused(lambda: da.equilibrium(stretched_arm(), hold={"tip.x": "far"}), "'tip.x' must be held at a number", "'far'")


def test_held_values_inside_a_program_are_reached_or_the_residual_is_infinite():
    """The rocker of a four-bar, held within its swing and far outside it; only the value is traced."""
    system = da.build(da.mechanism("four-bar"))

    @jax.jit
    def held(value):
        rest = da.equilibrium(system, hold={"D.angle": value})
        return rest.residual, rest.efforts["D.angle"]

    residual, effort = held(0.2)
    np.testing.assert_allclose(effort, da.equilibrium(system, hold={"D.angle": 0.2}).efforts["D.angle"], rtol=1e-10)
    assert residual < 1e-12
    assert np.isinf(held(3.0)[0])
    with pytest.raises(da.errors.DalembertError, match="stability of 'four-bar' is found on the host"):
        jax.jit(lambda x: da.equilibrium(system, hold={"D.angle": x}).stiffness)(0.2)


def test_in_space_both_coordinates_find_the_same_rest():
    """Places, reactions and stiffness; and ∂/∂k of the place against differences, in both."""
    rests = {c: da.equilibrium(da.build(in_space(), coordinates=c)) for c in ("absolute", "joint")}
    one, other = rests.values()
    assert one.stable and one.mobility == 3
    np.testing.assert_allclose(one.dataset["position"], other.dataset["position"], atol=1e-12)
    np.testing.assert_allclose(one.dataset["reaction_force"], other.dataset["reaction_force"], atol=1e-9)
    np.testing.assert_allclose(one.stiffness, other.stiffness, rtol=1e-9)
    system = one.system

    def place(k):
        return da.equilibrium(system.replace({"a.stiffness": k})).q[:3]

    found = jax.jit(jax.jacfwd(place))(80.0)
    np.testing.assert_allclose(found, differences(place, 80.0, 1e-2), atol=1e-6 * float(jnp.max(jnp.abs(found))))


def test_units_do_not_matter():
    """The same arm in millimetres and grams: angles and frequencies stay, steps too."""
    one = da.equilibrium(reach())
    model = da.Model("arm", gravity=(0, -G * 1e3))
    upper = model.body("upper", mass=2e3, inertia=0.06e9, position=(300, 0.0))
    fore = model.body("fore", mass=1e3, inertia=0.02e9, position=(800, 0.0))
    model.revolute("shoulder", model.ground, upper, at=(0, 0))
    model.revolute("elbow", upper, fore, at=(600, 0))
    model.joint_spring("k1", "shoulder", stiffness=30.0e9)
    model.joint_spring("k2", "elbow", stiffness=8.0e9)
    model.torque("motor", fore, 1.0e9)
    other = da.equilibrium(model)
    assert abs(int(one.steps) - int(other.steps)) <= 1  # the last ones only find that nothing improves
    assert one.stability.word == other.stability.word
    np.testing.assert_allclose(list(other.coordinates.values()), list(one.coordinates.values()), rtol=1e-12)
    np.testing.assert_allclose(other.stiffness, one.stiffness, rtol=1e-10)


@BOTH
def test_a_soft_direction_beside_a_very_stiff_one(coordinates):
    """A pendulum that a torque of 1 N m lifts, below a slide of 1 g on a spring of 1e12 N/m: m g l sin a = 1, and
    ∂a/∂torque = 1/(m g l cos a); 1e13 between both stiffnesses."""
    model = da.Model("stiff", gravity=(0, -G))
    mount = model.body("mount", mass=1e-3, inertia=1.0)
    model.prismatic("slide", model.ground, mount, at=(0, 0), axis=(1, 0))
    model.joint_spring("spring", "slide", stiffness=1e12)
    bob = model.body("bob", mass=0.5, inertia=0.01, position=(0, -0.8))
    model.revolute("pin", mount, bob, at=(0, 0))
    model.torque("twist", bob, 1.0)
    system, moment = da.build(model, coordinates=coordinates), 0.5 * G * 0.8
    rest = da.equilibrium(system)
    assert rest.coordinates["pin.angle"] == pytest.approx(math.asin(1 / moment), abs=1e-12)

    def turned(torque):
        return da.equilibrium(system.replace({"twist.value": torque})).q[-1]

    refused(lambda: da.quasistatic(system, {"twist.value": (0, 1)}), "cannot be followed", "a motion of 'bob' is less")
    slope = jax.jit(jax.jacfwd(turned))(1.0)
    np.testing.assert_allclose(slope, 1 / (moment * math.cos(math.asin(1 / moment))), rtol=1e-9)


def test_pushed_where_nothing_resists_a_pose_has_no_derivative():
    """With another spring the balanced arm rests nowhere near: NaN, not zero. Its inertia changes nothing."""
    system = da.build(balanced_arm(0.7), coordinates="joint")

    def pose(x):
        return da.equilibrium(system.replace({"spring.stiffness": x[0], "arm.inertia": x[1]})).q[0]

    at = jnp.array([float(system.parameters()[name]) for name in ("spring.stiffness", "arm.inertia")])
    by_stiffness, by_inertia = (jax.jvp(pose, (at,), (e,))[1] for e in jnp.eye(2))
    assert np.isnan(by_stiffness) and by_inertia == 0.0


# ---- all kinds of machines, and what is said of them -----------------------------------------------------------------


def test_a_driven_machine_has_reactions_at_rest():
    """No freedom is left: the pose is the driver's, and its effort is the moment of the weight, at any time."""
    model = da.Model("crane", gravity=(0, -G))
    jib = model.body("jib", mass=100.0, inertia=30.0, position=(1.0, 0))
    model.revolute("pivot", model.ground, jib, at=(0, 0))
    model.driver("winch", "pivot", da.functions.polynomial([0.2, 0.1, 0.05]))
    rest = da.equilibrium(model, t=2.0)
    assert rest.mobility == 0 and rest.stability.word == "fixed" and rest.stable
    # neither the driver's speed nor its acceleration is there
    moment = rest.reactions("winch", frame="joint")["torque"].values
    np.testing.assert_allclose(moment, 100 * G * math.cos(0.2 + 0.2 + 0.2), rtol=1e-12)
    assert "nothing can move" in str(rest) and "held where they are at t = 2 s: 'winch'" in str(rest)
    path = da.quasistatic(model, {"t": (0.0, 4.0)})
    np.testing.assert_allclose(path.values["t"][[0, -1]], [0.0, 4.0])
    angle = 0.2 + 0.1 * path.values["t"] + 0.05 * path.values["t"] ** 2
    np.testing.assert_allclose(path.reactions("winch", frame="joint")["torque"], 100 * G * np.cos(angle), atol=1e-9 * G)


def test_a_follower_load_flutters():
    """Ziegler's double pendulum (1952) with masses 2 m and m at its joints and a load that turns with it: between
    P l/k = 7/2 ∓ √2 its motions flutter; without a potential the stiffness is not symmetric."""
    model = da.Model("ziegler")
    tiny = 1e-9
    low = model.body("low", mass=2.0, inertia=tiny, position=(0, 1.0))
    high = model.body("high", mass=1.0, inertia=tiny, position=(0, 2.0))
    model.revolute("foot", model.ground, low, at=(0, 0))
    model.revolute("knee", low, high, at=(0, 1))
    model.joint_spring("k1", "foot", stiffness=1.0)
    model.joint_spring("k2", "knee", stiffness=1.0)
    model.force("load", high, (0, -1.0), at=(0, 2), frame="body")
    for load, word in ((2.0, "stable"), (2.2, "unstable"), (4.8, "unstable")):
        rest = da.equilibrium(da.build(model).replace({"load.value": (0, -load)}))
        assert rest.stability.word == word
        assert bool(np.any(np.abs(np.imag(rest.stiffness)) > 0)) is (word == "unstable")
    path = da.quasistatic(model, {"load.value": ((0, 0), (0, -3.0))})
    onset = next(p for p in path.special if p.what == "flutter")
    np.testing.assert_allclose(-onset.values["load.value"][1], 3.5 - math.sqrt(2), atol=1e-5)


def test_load_cases_in_one_call():
    cases = da.equilibrium(reach(), cases={"empty": {}, "heavy": {"fore.mass": 3.0}})
    assert list(cases) == ["empty", "heavy"] and cases["heavy"].stable
    data = cases.dataset
    assert data.sizes["case"] == 2 and list(data["case"].values) == ["empty", "heavy"]
    alone = da.equilibrium(da.build(reach()).replace({"fore.mass": 3.0}))
    np.testing.assert_allclose(data["angle"].sel(case="heavy"), alone.dataset["angle"], atol=1e-14)
    assert "2 load cases" in str(cases) and "heavy" in str(cases)
    assert json.loads(json.dumps(cases.as_dict()))["cases"]["heavy"]["stable"] is True
    with pytest.raises(
        da.errors.DalembertError, match="Load case 'odd': System 'arm' has no parameter 'fore.mas'. Did you"
    ):
        da.equilibrium(reach(), cases={"odd": {"fore.mas": 1.0}})


def test_dynamic_relaxation_is_the_last_resort(monkeypatch):
    """Where Newton's method gives up, the machine is let go and stopped until it rests; the result says so."""
    from dalembert.analysis import _statics

    plain = da.equilibrium(arm("joint"))
    real, calls = _statics.settled, []

    def lame(rest, s, q, stable=True, most=200):
        calls.append(most)
        return real(rest, s, q, stable, 1 if len(calls) == 1 else most)

    monkeypatch.setattr(_statics, "settled", lame)
    rest = da.equilibrium(arm("joint"))
    assert "dynamic relaxation" in rest.way and "dynamic relaxation" in rest.summary()
    np.testing.assert_allclose(rest.q, plain.q, atol=1e-12)


@pytest.mark.thorough  # thousands of steps
def test_a_wound_spring_is_found_by_dynamic_relaxation():
    """A crank that a motor winds against a spring: Newton's steps, kept short by the closed loop, do not come so far;
    let go, it arrives, where 400 − 2 φ is the moment of the weights, m g r cos(0.4 + φ) of crank and half the rod."""
    model = slider_crank()
    model.joint_force("motor", "O", 400.0)
    model.joint_spring("spring", "O", stiffness=2.0)
    rest = da.equilibrium(model)
    assert rest.way.startswith("dynamic relaxation") and "dynamic relaxation" in rest.summary() and rest.stable
    turned = rest.coordinates["O.angle"]
    assert 199 < turned < 201
    np.testing.assert_allclose(400 - 2 * turned, G * 0.3 * math.cos(0.4 + turned), atol=1e-9)


def test_a_motor_that_is_too_strong_has_no_rest(monkeypatch):
    """The same crank without a spring turns for ever, which is said; fewer steps than usual show it."""
    from dalembert.analysis import _statics

    settled, relaxed = _statics.settled, _statics.relaxed
    monkeypatch.setattr(_statics, "settled", lambda rest, s, q, stable: settled(rest, s, q, stable, 20))
    monkeypatch.setattr(_statics, "relaxed", lambda rest, s, q: relaxed(rest, s, q, 50))
    model = slider_crank()
    model.joint_force("motor", "O", 400.0)
    refused(lambda: da.equilibrium(model), "dynamic relaxation body 'crank' is still turning", "find='nearest'")


def test_an_unstable_equilibrium_is_kept_or_found_when_asked_for():
    model = da.Model("pendulum", gravity=(0, -G))
    bob = model.body("bob", mass=1.0, inertia=0.1, position=(0.0, 1.0))
    model.revolute("pin", model.ground, bob, at=(0, 0))
    up = da.equilibrium(model)
    assert up.way == "the start" and not up.stable and "falls away" in up.summary()
    system = da.build(model, coordinates="joint")
    near = da.equilibrium(system, ([0.3], None), find="nearest")
    np.testing.assert_allclose(near.q, [0.0], atol=1e-12)
    down = da.equilibrium(system, ([0.3], None))
    assert down.stable
    np.testing.assert_allclose(down.q, [math.pi], atol=1e-12)


def test_wheels_leave_a_continuum_and_friction_a_range():
    """A wheelset on a turntable spring: it comes to rest without sliding; and friction is named."""
    model = da.Model("sleigh")
    body = model.body("body", mass=1.0, inertia=0.1, position=(0.0, 0.0), angle=0.4)
    model.knife_edge("blade", model.ground, body, at=(0, 0), direction=(math.cos(0.4), math.sin(0.4)))
    model.spring_damper("pull", model.ground, body, stiffness=2.0, length=0.0, at_i=(2.0, 1.0), at_j=(0, 0))
    rest = da.equilibrium(model)
    assert any("continuum of 1 dimension" in r for r in rest.remarks) and "'blade'" in str(rest)
    # across the blade the spring may pull: along it, nothing is left
    q = np.asarray(rest.q)
    along = np.array([math.cos(q[2]), math.sin(q[2])])
    np.testing.assert_allclose((np.array([2.0, 1.0]) - q[:2]) @ along, 0.0, atol=1e-9)
    dry = da.Model("dry", gravity=(0, -G))
    bob = dry.body("bob", mass=1.0, inertia=0.1, position=(0.3, -0.9))
    dry.revolute("pin", dry.ground, bob, at=(0, 0))
    dry.bearing_friction("rub", "pin", coulomb=0.2, radius=0.05, transition_speed=0.1)
    assert "without the friction 'rub'" in str(da.equilibrium(dry))


def refused(ask, *words):
    with pytest.raises(da.errors.DalembertError) as error:
        ask()
    for word in words:
        assert word in str(error.value), str(error.value)


def test_wrong_uses_get_a_sentence():
    stone = da.Model("stone", gravity=(0, -G))
    stone.body("stone", mass=1.0, inertia=1.0, position=(0, 0))
    refused(lambda: da.equilibrium(stone), "nothing resists body 'stone' falling")
    wheel = da.Model("wheel")
    disc = wheel.body("disc", mass=1.0, inertia=1.0, position=(0, 0))
    wheel.revolute("axle", wheel.ground, disc, at=(0, 0))
    wheel.torque("twist", disc, 2.0)
    refused(lambda: da.equilibrium(wheel), "nothing resists body 'disc' turning")
    wheel.speed_driver("spin", "axle", 1.0)
    refused(lambda: da.equilibrium(wheel), "'wheel' cannot be at rest: 'spin' prescribes a speed at t = 0 s")
    system = arm("joint")
    refused(lambda: da.equilibrium(system, find="best"), "find='best' is unknown")
    refused(
        lambda: da.equilibrium(system, hold={"tip.position": (3.0, 0.0)}), "cannot reach these values", "'tip.position'"
    )
    refused(lambda: da.equilibrium(system, hold={"tip.vx": 0.0}), "'tip.vx' is no position")
    refused(lambda: da.equilibrium(system, hold={"elbo.angle": 0.0}), "no measurement or joint coordinate 'elbo.angle'")
    refused(lambda: da.equilibrium(system, hold={"tip.position": 1.0}), "'tip.position' has 2 numbers; got 1")
    refused(lambda: da.equilibrium(system, hold=["tip.position", "elbow.angle"]), "cannot all be held")
    refused(lambda: da.equilibrium(system, unknown=["motor.value"]), "name in hold=")
    held = {"hold": ["elbow.angle"]}
    refused(lambda: da.equilibrium(system, unknown=["moto.value"], **held), "no parameter 'moto.value'", "motor.value")
    refused(lambda: da.equilibrium(system, unknown=["gravity"], **held), "2 numbers, and hold= names 1")
    refused(lambda: da.equilibrium(system, unknown=["fore.inertia"], **held), "cannot hold elbow.angle", "do not act")
    refused(lambda: da.equilibrium(system, cases={}), "cases= are load cases by name")
    refused(lambda: da.quasistatic(system, {}), "say what changes")
    refused(lambda: da.quasistatic(system, {"motor.value": 3.0}), "needs two values")
    refused(lambda: da.quasistatic(system, {"moto.value": (0, 1)}), "'moto.value'", "Did you mean 'motor.value'?")
    refused(lambda: da.quasistatic(system, {"motor.value": (0, float("nan"))}), "'motor.value' goes from a number to a")
    refused(lambda: da.quasistatic(system, {"gravity": ((0, 0), (1, 2, 3))}), "'gravity' goes from a number to a")
    refused(lambda: da.quasistatic(system, {"motor.value": (0, 1)}, longest=0), "longest=0 must be a share of the way")
    refused(
        lambda: system.replace({"motor.value": "much"}), "'motor.value'", "must be a number or an array, not 'much'"
    )
    refused(lambda: system.replace({"motor.value": None}), "must be a number or an array, not None")
    refused(lambda: da.equilibrium(system).reactions("elbo"), "There is no joint 'elbo'", "Did you mean 'elbow'?")
    with pytest.raises(da.errors.DalembertError, match="cannot be traced"):
        jax.jit(lambda m: da.quasistatic(system.replace({"fore.mass": m}), {"motor.value": (0, 1)}).q)(1.0)


def test_a_path_of_held_numbers_and_its_pictures(tmp_path):
    """The effort that turns the elbow slowly: the spring's and the weight's moment; drawn, animated, saved."""
    path = da.quasistatic(arm("absolute"), {"elbow.angle": (0.0, 1.2)}, hold=["shoulder.angle"])
    assert path.reached and set(path.stability) == {"fixed"}
    angle = path.measured("elbow.angle")
    np.testing.assert_allclose(angle[[0, -1]], [0.0, 1.2], atol=1e-12)
    expected = 8 * angle + G * 0.2 * np.cos(path.measured("shoulder.angle") + angle) - 1.0
    np.testing.assert_allclose(path.efforts["elbow.angle"], expected, atol=1e-10)
    assert json.loads(json.dumps(path.as_dict()))["reached"] is True
    assert path.plot(tmp_path / "path.png") and (tmp_path / "path.png").stat().st_size > 1000
    assert path.animate(tmp_path / "path.html").stat().st_size > 1000
    assert path.to_netcdf(tmp_path / "path.nc").stat().st_size > 1000
    rest = path[3]
    assert rest.plot(tmp_path / "rest.png") and "<" in rest._repr_html_() and "<" in path._repr_html_()
    np.testing.assert_allclose(rest.efforts["elbow.angle"], expected[3], atol=1e-10)


# ---- on the command line and in reports ------------------------------------------------------------------------------


def test_the_command_line(tmp_path):
    from _helpers_cli import in_process

    shown = in_process("statics", "four-bar", "--plot", str(tmp_path / "rest.png"), "-o", str(tmp_path / "rest.nc"))
    assert shown.returncode == 0 and "four-bar: at rest, stable; 1 degree of freedom" in shown.stdout
    assert (tmp_path / "rest.png").exists() and (tmp_path / "rest.nc").exists()
    found = json.loads(in_process("statics", "four-bar", "--hold", "A.angle=0.1", "--json").stdout)
    assert found["stability"] == "fixed" and found["coordinates"]["A.angle"] == pytest.approx(0.1, abs=1e-12)
    along = ("--along", "A.angle=0:10*deg", "--animate", str(tmp_path / "path.html"))
    assert "The path reached its end." in in_process("statics", "four-bar", *along).stdout
    assert (tmp_path / "path.html").exists()
    da.save(levered(), tmp_path / "lever.yaml")
    trimmed = in_process("statics", str(tmp_path / "lever.yaml"), "--hold", "pin.angle=0.3", "--unknown", "u", "--json")
    needed = json.loads(trimmed.stdout)["unknown"]["u"]
    assert needed == pytest.approx(2.0 * G * 0.5 * math.cos(0.3), rel=1e-12)
    wrong = {
        ("--along", "A.angle=3"): "write NAME=FROM:TO",
        ("--hold", "A.angle=two"): "--hold A.angle=two",
        ("--animate", "path.html"): "say what changes with --along",
        ("--unknown", "gravity"): "name in hold=",
        ("--set", "crank.mas=2"): "no parameter 'crank.mas'",
    }
    for arguments, words in wrong.items():
        refusal = in_process("statics", "four-bar", *arguments)
        assert refusal.returncode == 2 and words in refusal.stderr, refusal.stderr


def test_measurements_of_a_door_at_rest_carry_their_rule():
    """As JSON, too: the load of one of two hinges is not unique, its angle is."""
    model = da.mechanism("door-two-hinges")
    model.measure("load", "reaction", "top", component="Fz", frame="world")
    model.measure("turn", "coordinate", "top")
    load, turn = (da.equilibrium(model).as_dict()["measurements"][name] for name in ("load", "turn"))
    weight = float(da.build(model).parameters()["leaf.mass"]) * G
    assert not load["unique"] and "minimum norm" in load["rule"] and load["unit"] == "N"
    assert load["value"] == pytest.approx(weight / 2, rel=1e-12)
    assert turn == {"value": pytest.approx(0.0, abs=1e-12), "unit": "rad", "unique": True, "rule": "unique"}
    path = da.quasistatic(model, {"leaf.mass": (10.0, 20.0)})  # along a path, too
    np.testing.assert_allclose(path.measured("load")[[0, -1]], [5 * G, 10 * G], rtol=1e-12)


def test_in_a_report(four_bar_motion, tmp_path):
    page = da.report(four_bar_motion, tmp_path / "page.html", statics=True).read_text()
    assert "At rest" in page and "softest motion" in page.lower()
    free = da.Model("stone", gravity=(0, -G))
    free.body("stone", mass=1.0, inertia=1.0, position=(0, 0))
    from dalembert.reports._sections import rest_section

    assert "nothing resists body" in rest_section(da.build(free)).blocks[0].text
