"""Friction by a joint's own load: against hand solutions, against its own law, and refused where the load is open.

One rig in the plane and one in space hold all bearings, each on a body of its own, so that two compiled programs serve
all. The loads are implicit: friction changes the reaction that it depends on. Tolerances are those of two exact
solutions of one equation (1e-10 of the values) unless a line says otherwise.
"""

from __future__ import annotations

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.equations import assemble_known
from dalembert.reactions import joint_wrenches

G = 9.81
SAME = 1e-10


@eqx.filter_jit
def accelerations(system, t, q, v):
    """v̇, and the reactions of all joints along their axes (force, then torque)."""
    equations = da.assemble(system, t, q, v)
    found = da.formulations.Proximal().solve(equations)
    lam = (system.load_rule or da.reactions.RequireUnique()).multipliers(system, equations, found.r)
    w = joint_wrenches(system, equations, lam)
    return found.vdot, jnp.concatenate([w.joint_force, w.joint_torque], axis=1)


# ---- in the plane: a pendulum, a sled that leans, a rod on a line -----------------------------------------------

PENDULUM = {"mass": 2.0, "inertia": 0.3, "arm": 0.7, "radius": 0.05, "mu": 0.4, "v0": 0.05}
SLED = {"mass": 3.0, "height": 0.1, "pull": 60.0, "pull_height": 0.35, "length": 0.5, "mu": 0.3, "speed": 2.0}
ROD = {"mass": 1.5, "half": 0.5, "inertia": 1.5 / 12, "mu": 0.3, "angle": 1.1, "speed": 1.0, "turn": -0.4}


def plane_rig() -> da.Model:
    model = da.Model("rig", space="plane", gravity=(0, -G))
    p = PENDULUM
    bob = model.body("bob", mass=p["mass"], inertia=p["inertia"], position=(p["arm"], 0))
    model.revolute("pin", model.ground, bob, at=(0, 0))
    model.bearing_friction("pin_rubs", "pin", coulomb=p["mu"], radius=p["radius"], transition_speed=p["v0"])
    s = SLED
    sled = model.body("sled", mass=s["mass"], inertia=0.2, position=(0, 5 + s["height"]), velocity=(s["speed"], 0))
    model.prismatic("guide", model.ground, sled, at=(0, 5), axis=(1, 0))
    model.force("pull", sled, (s["pull"], 0), at=(0, 5 + s["pull_height"]))
    model.bearing_friction("guide_rubs", "guide", coulomb=s["mu"], length=s["length"])
    r = ROD
    along = r["half"] * np.array([np.cos(r["angle"]), np.sin(r["angle"])])
    start = {"position": along + (0, -5), "angle": r["angle"], "angular_velocity": r["turn"]}
    rod = model.body(
        "rod", mass=r["mass"], inertia=r["inertia"], **start,
        velocity=(r["speed"] - r["turn"] * along[1], r["turn"] * along[0]),
    )  # fmt: skip
    model.point_on_line("line", model.ground, rod, at=(0, -5), axis=(1, 0))
    model.bearing_friction("line_rubs", "line", coulomb=r["mu"], viscous=0.2)
    return model


@pytest.fixture(scope="module")
def plane():
    return da.prepare(da.build(plane_rig())).system


@pytest.fixture(scope="module")
def plane_motion(plane):
    return da.simulate(plane, 2.0, rtol=1e-11, samples=21)


def pendulum_acceleration(angle, speed, mu=PENDULUM["mu"]):
    """θ̈ from the moment about the pin, with the pin's force from the centre's acceleration: one implicit equation,
    J a + m g l cos θ + μ r |F(a)| tanh(θ̇/v₀) = 0, by Newton's iteration in plain numbers."""
    p = PENDULUM
    m, l = p["mass"], p["arm"]
    J, k = p["inertia"] + m * l**2, mu * p["radius"] * math.tanh(speed / p["v0"])
    outwards = m * (G * math.sin(angle) - l * speed**2)
    a = 0.0
    for _ in range(12):  # |k m l| is some 0.03 of J: it has converged after five
        across = m * (l * a + G * math.cos(angle))
        load = math.hypot(outwards, across)
        gap = J * a + m * G * l * math.cos(angle) + k * load
        a -= gap / (J + k * across * m * l / load)
    return a


def sled_load():
    """N = 2|M|/length with M = height · μN + (pull_height − height) · pull: the sled leans on its two ends."""
    s = SLED
    load = 2 * (s["pull_height"] - s["height"]) * s["pull"] / (s["length"] - 2 * s["height"] * s["mu"])
    assert load > s["mass"] * G  # else the weight would press, not the moment
    return load


def rod_acceleration(angle, turn, slide, mu):
    """(ẍ of the tip, θ̈, N) of a rod whose tip slides on a rough line: Newton and Euler, three linear equations."""
    r = ROD
    c, s, l = np.cos(angle), np.sin(angle), r["half"]
    rub = -0.2 * slide
    # the centre: x = tip + l cos, y = l sin; friction −μ N (slide > 0, N > 0) + rub along x, N along y, at the tip
    A = [
        [r["mass"], -r["mass"] * l * s, mu],
        [0, r["mass"] * l * c, -1],
        [0, r["inertia"], l * c + mu * l * s],
    ]
    b = [
        r["mass"] * l * c * turn**2 + rub,
        r["mass"] * l * s * turn**2 - r["mass"] * G,
        l * s * rub,
    ]
    return np.linalg.solve(A, b)


def test_pendulum_with_a_rough_pin_moves_as_its_implicit_equation_says(plane_motion):
    """2 s against DOP853 on the scalar equation, each at its own tight tolerance (some 1e-10 together)."""
    t = np.asarray(plane_motion.t)
    exact = solve_ivp(
        lambda t, y: [y[1], pendulum_acceleration(*y)], (0, t[-1]), [0, 0],
        method="DOP853", rtol=1e-12, atol=1e-13, t_eval=t,
    )  # fmt: skip
    found = plane_motion.dataset.sel(body="bob")["angle"].values
    assert np.max(np.abs(found - exact.y[0])) < 1e-9
    assert abs(found[-1] - solve_ivp_without_friction(t[-1])) > 0.05  # friction matters


def solve_ivp_without_friction(t1):
    return solve_ivp(lambda t, y: [y[1], pendulum_acceleration(*y, mu=0.0)], (0, t1), [0, 0], rtol=1e-6).y[0, -1]


def test_a_sled_that_leans_on_its_ends_moves_uniformly_accelerated(plane_motion):
    """The load grows with the friction that it makes: closed form. tanh is 1 to rounding at these speeds."""
    s, t = SLED, np.asarray(plane_motion.t)
    a = (s["pull"] - s["mu"] * sled_load()) / s["mass"]
    found = plane_motion.dataset.sel(body="sled")["position"].values[:, 0]
    assert np.max(np.abs(found - (s["speed"] * t + 0.5 * a * t**2))) < 1e-9
    w = plane_motion.reactions("guide", frame="joint")
    assert np.allclose(2 * np.abs(w["torque"]) / s["length"], sled_load(), rtol=1e-9)


def test_a_rod_on_a_rough_line_obeys_newton_and_euler(plane):
    vdot, w = accelerations(plane, 0.0, plane.q0, plane.v0)
    tip, turn, load = rod_acceleration(ROD["angle"], ROD["turn"], ROD["speed"], ROD["mu"])
    rod = plane.body_names.index("rod")
    c, s, l = np.cos(ROD["angle"]), np.sin(ROD["angle"]), ROD["half"]
    x = tip - l * s * turn - l * c * ROD["turn"] ** 2
    y = l * c * turn - l * s * ROD["turn"] ** 2
    assert np.max(np.abs(np.asarray(vdot).reshape(-1, 3)[rod] - [x, y, turn])) < SAME * G
    assert abs(float(w[2, 1]) - load) < SAME * load


def test_work_and_constraints_are_kept(plane, plane_motion):
    """What friction takes is booked as work: the balance closes, and it only takes."""
    assert plane_motion.energy_drift < 1e-8  # of integration at rtol 1e-11 over hundreds of steps
    assert max(plane_motion.violation.values()) < 1e-12
    at = 0.0, plane.q0, plane.v0
    friction = np.asarray(da.assemble(plane, *at).h - plane.force(*at))
    assert friction @ plane.v0 < -SLED["mu"] * sled_load() * SLED["speed"]  # the sled's, and the rod's besides


def test_all_exact_formulations_agree(plane):
    """Friction is part of h: every formulation sees the same."""
    from dalembert.formulations import all_formulations

    e = da.assemble(plane, 0.0, plane.q0, plane.v0)
    forms = [
        da.prepare(plane, formulation=all_formulations()[name]).formulation
        for name in ("proximal", "null-space", "resolved")
    ]
    exact, *others = (np.asarray(x) for x in eqx.filter_jit(lambda e: [f.solve(e).vdot for f in forms])(e))
    for found in others:
        assert np.max(np.abs(found - exact)) < 1e-9 * np.max(np.abs(exact))


def test_derivatives_go_through_the_implicit_load(plane):
    """∂θ̈/∂μ of the pendulum, reverse, and forward over a batch, against a central difference of the hand solution."""
    angle, speed, bob = 0.3, -1.7, plane.body_names.index("bob")
    arm = PENDULUM["arm"]
    q, v = np.array(plane.q0), np.array(plane.v0)
    q[3 * bob : 3 * bob + 3] = [arm * np.cos(angle), arm * np.sin(angle), angle]
    v[3 * bob : 3 * bob + 3] = [-arm * np.sin(angle) * speed, arm * np.cos(angle) * speed, speed]

    def turning(mu):
        changed = plane.replace({"pin_rubs.coulomb": mu, "pin_rubs.static": mu})
        return da.formulations.Proximal().solve(da.assemble(changed, 0.0, q, v)).vdot[3 * bob + 2]

    mu, h, many = 0.4, 1e-5, np.array([0.0, 0.2, 0.4])
    value, reverse = jax.jit(jax.value_and_grad(turning))(mu)
    batch, forward = jax.jit(jax.vmap(lambda mu: jax.jvp(turning, (mu,), (1.0,))))(many)
    exact = (pendulum_acceleration(angle, speed, mu + h) - pendulum_acceleration(angle, speed, mu - h)) / (2 * h)
    assert abs(float(value) - pendulum_acceleration(angle, speed, mu)) < SAME * G
    # a central difference with h = 1e-5 knows some nine digits
    assert abs(float(reverse) - exact) < 1e-7 * abs(exact) and abs(float(forward[2]) - exact) < 1e-7 * abs(exact)
    assert np.allclose(batch, [pendulum_acceleration(angle, speed, m) for m in many], rtol=1e-10)


# ---- in space: every bearing obeys its own law and balances its body --------------------------------------------

RADIUS, LENGTH, MU, V0 = 0.06, 0.4, 0.25, 0.5
KINDS = {
    "revolute": {"radius": RADIUS, "length": LENGTH},
    "prismatic": {"length": LENGTH},
    "spherical": {"radius": RADIUS},
}


def space_rig() -> da.Model:
    model = da.Model("rig-in-space", space="space", gravity=(0.5, -1.0, -G))
    rng = np.random.default_rng(4)
    axis = np.array([0.36, 0.48, 0.8])
    for k, (kind, numbers) in enumerate(KINDS.items()):
        at = np.array([3.0 * k, 0, 0])
        turn = {"revolute": 1.3 * axis, "prismatic": np.zeros(3), "spherical": np.array([0.4, -0.3, 0.9])}[kind]
        slide = 0.8 * axis if kind == "prismatic" else np.zeros(3)
        # a guide whose load has an arm beyond length/(2μ) jams: that is another test's
        arm = rng.normal(size=3) * (0.3 if kind == "prismatic" else 1.0)
        start = {"position": at + arm, "velocity": slide + np.cross(turn, arm), "angular_velocity": turn}
        model.body(kind, mass=2.0 + k, inertia=(0.5, 0.6, 0.7), **start)
        more = {} if kind == "spherical" else {"axis": axis}
        getattr(model, kind)(f"{kind}_joint", model.ground, kind, at=at, **more)
        model.bearing_friction(f"{kind}_rubs", f"{kind}_joint", coulomb=MU, transition_speed=V0, **numbers)
    return model


@pytest.fixture(scope="module")
def in_space():
    # its rows are independent (each body has one joint): nothing need be looked at
    system = dataclasses.replace(da.build(space_rig()), loads_decided=True)
    return system, *(np.asarray(x) for x in accelerations(system, 0.0, system.q0, system.v0))


def law(kind, w, R, speed):
    """Friction force and torque on body j at the joint's point, world axes, from the joint's wrench as stated."""
    F, M = R.T @ w[:3], R.T @ w[3:]
    if kind == "spherical":
        size = np.linalg.norm(speed)
        return np.zeros(3), -MU * RADIUS * np.linalg.norm(F) * np.tanh(size / V0) * speed / size
    F[2] = M[2] = 0
    lean = np.cross(M, [0, 0, 1]) / LENGTH
    push = MU * (np.linalg.norm(F / 2 + lean) + np.linalg.norm(F / 2 - lean))
    along = -R[:, 2] * np.tanh(speed / V0)
    return (push * along, np.zeros(3)) if kind == "prismatic" else (np.zeros(3), push * RADIUS * along)


@pytest.mark.parametrize("kind", KINDS)
def test_bearings_in_space_obey_their_law_and_balance_their_bodies(in_space, kind):
    """Newton and Euler for the body with the reaction that is reported and the friction that the law makes of it."""
    system, vdot, wrenches = in_space
    k = list(KINDS).index(kind)
    body = space_rig().bodies[kind]
    frames = system.joint_frames(system.joint(f"{kind}_joint"), system.q0)
    R, w = np.asarray(frames[0].R), wrenches[k]
    w = np.concatenate([R @ w[:3], R @ w[3:]])
    spin = body.angular_velocity
    speed = {"revolute": R[:, 2] @ spin, "prismatic": R[:, 2] @ body.velocity, "spherical": spin}[kind]
    force, torque = law(kind, w, R, speed)
    arm = np.asarray(frames[1].p) - body.position
    a, alpha = vdot.reshape(-1, 6)[k, :3], vdot.reshape(-1, 6)[k, 3:]
    gravity = body.mass * np.array([0.5, -1.0, -G])
    assert np.max(np.abs(w[:3] + force + gravity - body.mass * a)) < SAME * body.mass * G
    left = w[3:] + torque + np.cross(arm, w[:3] + force) - body.inertia @ alpha - np.cross(spin, body.inertia @ spin)
    assert np.max(np.abs(left)) < SAME * body.mass * G
    assert np.linalg.norm(np.concatenate([force, torque])) > 0.1  # it does something


# ---- where the load is not unique -------------------------------------------------------------------------------


def door(**rubbing) -> da.Model:
    model = da.mechanism("door-two-hinges")
    for hinge in ("top", "bottom"):
        model.bearing_friction(f"{hinge}_rubs", hinge, coulomb=0.5, radius=0.03, **rubbing)
    return model


def test_a_load_that_is_not_unique_is_refused_with_its_joint_and_what_to_do():
    sentence = r"Friction 'top_rubs' depends on Fx, Fy of joint 'top'.*not determine.*dalembert check.*name a rule"
    with pytest.raises(da.errors.DalembertError, match=sentence):
        da.simulate(door(), 1.0)
    with pytest.raises(da.errors.DalembertError, match=sentence):
        da.prepare(da.build(door()), rule=da.reactions.RequireUnique())


@pytest.mark.thorough
def test_only_the_components_that_press_must_be_unique():
    """Two balls leave only the share of the weight open, and a ball is pressed by all of its force."""
    balls = da.mechanism("door-two-balls")
    balls.bearing_friction("rubs", "top", coulomb=0.1, radius=0.01)
    with pytest.raises(da.errors.DalembertError, match="depends on Fz of joint 'top'"):
        da.prepare(da.build(balls))


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_check_says_that_friction_needs_a_rule(coordinates):
    found = da.check(da.build(door(), coordinates=coordinates))
    assert [p.open for p in found.friction] == [("Fx", "Fy"), ("Fx", "Fy")]
    assert "friction 'top_rubs' depends on Fx Fy of top, not unique: it needs a rule" in str(found)
    assert "friction makes the motion depend on them" in str(found)
    assert found.as_dict()["friction"][0]["joint"] == "top"


@pytest.mark.thorough
def test_check_names_the_rule_or_says_that_none_is_needed():
    named = da.check(door(rule="weighted"))
    assert "of top: weighted minimum norm, all joints equally stiff" in str(named)
    assert "'pin_rubs', 'guide_rubs', 'line_rubs' depends on joint loads that are unique" in str(da.check(plane_rig()))


@pytest.fixture(scope="module")
def turning_door():
    """The door's angular acceleration and its hinges' loads under a rule."""

    def found(rule):
        system = da.prepare(da.build(door()), rule=rule).system
        vdot, w = accelerations(system, 0.0, system.q0, system.v0)
        return float(vdot[5]), np.hypot(w[:, 0], w[:, 1])

    return found


@pytest.mark.parametrize(
    "rule",
    [
        da.reactions.Weighted({"top": 1.0, "bottom": 3.0}),
        pytest.param(da.reactions.RowElimination(), marks=pytest.mark.thorough),
        pytest.param(da.reactions.MinimumNorm(), marks=pytest.mark.thorough),
    ],
    ids=lambda r: type(r).__name__,
)
def test_with_a_rule_the_door_turns_as_its_loads_say(turning_door, rule):
    """J θ̈ = −Σ μ r N: J about the hinge line. The rule picks N, and so the motion."""
    turn, loads = turning_door(rule)
    leaf = da.mechanism("door-two-hinges").bodies["leaf"]
    J = leaf.inertia[2, 2] + leaf.mass * float(leaf.position[:2] @ leaf.position[:2])
    assert abs(J * turn + 0.5 * 0.03 * np.sum(loads)) < 1e-9 * np.sum(loads)
    if isinstance(rule, da.reactions.RowElimination):
        # the upper hinge alone bears the centripetal force, and tilting by torques, which do not rub here
        assert loads[1] == 0.0 and loads[0] < 0.5 * np.sum(turning_door(da.reactions.MinimumNorm())[1])


def test_a_rule_in_the_file_or_given_to_simulate(tmp_path):
    """The rule travels with the file; the motion and the reported reactions are those of the rule."""
    da.save(door(rule="weighted"), tmp_path / "door.yaml")
    model = da.load(tmp_path / "door.yaml")
    assert model == door(rule="weighted")
    system = da.prepare(da.build(model)).system
    assert isinstance(system.load_rule, da.reactions.Weighted)


@pytest.mark.thorough
def test_the_motion_is_that_of_the_rule():
    solution = da.simulate(door(rule="weighted"), 0.5, samples=3, integrator="tsit5")
    assert solution.status is da.simulation.Status.done
    assert solution.rule.describe(solution.system).startswith("weighted minimum norm")
    assert solution.energy_drift < 1e-6  # at the default tolerance


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=pytest.mark.thorough)])
def test_dry_friction_by_a_load_that_is_not_unique(coordinates):
    """Refused with the joint and its components; under a rule J θ̈ = −Σ μ r N with the loads of that rule, until the
    door sticks. To the march's 1e-8 in v, which N and so θ̈ follow."""
    model = da.mechanism("door-two-hinges")
    for hinge in ("top", "bottom"):
        model.dry_friction(f"{hinge}_rubs", hinge, coulomb=0.5, radius=0.3)
    system = da.build(model, coordinates=coordinates)
    with pytest.raises(da.errors.DalembertError, match=r"'top_rubs' depends on Fx, Fy of joint 'top'.*name a rule"):
        da.simulate(system, 1.0)
    solution = da.simulate(system, 3.0, rule="weighted", samples=31, rtol=1e-8)
    (slips, sticks) = solution.phases.of("top_rubs")
    assert [slips.state, sticks.state] == ["slip +", "stick"] and 0.1 < sticks.start < 2.9
    data, leaf = solution.dataset, model.bodies["leaf"]
    moving = np.asarray(solution.t) < sticks.start
    loads = np.linalg.norm(data["reaction_force_in_joint"].sel(axis=["x", "y"]).values, axis=2)[moving]
    J = leaf.inertia[2, 2] + leaf.mass * float(leaf.position[:2] @ leaf.position[:2])
    spin = data["angular_acceleration"].sel(body="leaf", axis="z").values
    np.testing.assert_allclose(J * spin[moving], -0.5 * 0.3 * np.sum(loads, axis=1), rtol=1e-6)
    np.testing.assert_allclose(spin[~moving], 0.0, atol=1e-9)
    assert solution.rule.describe(solution.machine).startswith("weighted minimum norm")


@pytest.mark.thorough
def test_the_motion_depends_on_the_rule():
    """Without friction it would not; that is why no rule is taken silently."""
    ends = [
        da.simulate(door(), 0.5, samples=3, rule=rule).q[-1]
        for rule in (da.reactions.Weighted(), da.reactions.RowElimination())
    ]
    assert np.max(np.abs(ends[1] - ends[0])) > 1e-3


# ---- where there is no answer -----------------------------------------------------------------------------------


def test_friction_without_an_answer_is_told(plane):
    """Painlevé's rod: det(1 − ∂N/∂s) of the hand solution is 1 + (m l²/J) cos θ (cos θ − μ sin θ) over the
    frictionless one, which is negative for this μ, and the motion ends with a sentence and the friction's name."""
    strong = plane.replace({"line_rubs.coulomb": 6.0, "line_rubs.static": 6.0})
    with pytest.raises(da.errors.SimulationError, match=r"Painlevé.*'line_rubs'") as caught:
        da.simulate(strong, 2.0, rtol=1e-11, samples=21)
    assert caught.value.solution.status is da.simulation.Status.no_load
    e = da.assemble(strong, 0.0, strong.q0, strong.v0)
    assert not np.isfinite(np.asarray(e.h)).all()


# ---- what cannot be said ----------------------------------------------------------------------------------------


def test_mistakes_get_a_sentence():
    model = plane_rig()
    model.weld("stuck", "bob", "sled", at=(0, 0))
    for name, joint, numbers in (
        ("f1", "stuck", {}),
        ("f2", "pin", {}),
        ("f3", "guide", {"radius": 0.1}),
        ("f4", "line", {"length": 0.1}),
        ("f5", "guide", {"rule": "mine"}),
        ("f6", "nowhere", {}),
    ):
        model.bearing_friction(name, joint, coulomb=0.1, **numbers)
    model.bearing_friction("f7", "guide", coulomb=0.1, rule="weighted")
    with pytest.raises(da.errors.ModelError) as caught:
        da.build(model)
    text = str(caught.value)
    for sentence in (
        "'f1': joint 'stuck' (weld) has no bearing whose load could rub",
        "'f2': radius is missing",
        "'f3': a sliding joint rubs with μ · load; it has no radius",
        "'f4': joint 'line' carries no torque",
        "'f5': rule='mine' is unknown; use one of minimum_norm, weighted",
        "'f6': there is no joint 'nowhere'",
        "Friction names the rules mine and weighted; name one for all",
    ):
        assert sentence in text, text


def test_what_cannot_be_computed_is_refused(plane):
    with pytest.raises(da.errors.DalembertError, match="efforts asked for would change the joint loads.*'pin_rubs'"):
        da.inverse_dynamics(plane, (plane.q0, plane.v0), np.zeros(plane.n))
    undecided = dataclasses.replace(plane, loads_decided=False)
    with pytest.raises(da.errors.DalembertError, match=r"da\.prepare\(system\)\.system first, outside jit"):
        da.assemble(undecided, 0.0, plane.q0, plane.v0)
    at = 0.0, plane.q0, plane.v0
    known = np.asarray(assemble_known(undecided, *at).h)
    np.testing.assert_allclose(known, plane.force(*at), rtol=1e-13)  # without friction; compiled twice, so to rounding

    def end(mu):
        return da.simulate(undecided.replace({"pin_rubs.coulomb": mu}), 0.1, samples=2).q[-1]

    with pytest.raises(da.errors.DalembertError, match="outside jit, vmap and grad"):
        jax.jit(end)(0.1)


@pytest.mark.thorough
def test_joint_coordinates_rub_alike():
    """The loads of carrying joints (pin, guide) and of a closing one (line), found on the bodies."""
    model = plane_rig()
    absolute, tree = (da.prepare(da.build(model, coordinates=c)).system for c in ("absolute", "joint"))
    assert [o.name for o in tree.owners] == ["line"]
    q, u = (jnp.asarray(x) for x in da.stabilise.consistent_state(tree))
    udot = da.formulations.Proximal().solve(da.assemble(tree, 0.0, q, u)).vdot
    expected = da.formulations.Proximal().solve(da.assemble(absolute, 0.0, *tree.lift(q, u))).vdot
    found = tree.lift_rate(q, u, udot)
    np.testing.assert_allclose(found, expected, atol=1e-11 * np.max(np.abs(expected)))
    undecided = da.build(model, coordinates="joint")
    with pytest.raises(da.errors.DalembertError, match=r"da\.prepare\(system\)\.system first"):
        da.assemble(undecided, 0.0, undecided.q0, undecided.v0)
