"""Measurements by name: what they are in every kind of coordinates, against finite differences and closed forms."""

from __future__ import annotations

import functools
import json
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

COORDINATES = ("absolute", "joint")


def arm() -> da.Model:
    """A double pendulum in the plane that moves."""
    m = da.Model("arm", gravity=(0, -9.81))
    upper = m.body("upper", mass=1.0, inertia=0.1, position=(0.5, 0.0), velocity=(0, 0.5), angular_velocity=1.0)
    lower = m.body("lower", mass=0.7, inertia=0.05, position=(1.4, 0.0), velocity=(0, 0.6), angular_velocity=-1.0)
    m.revolute("shoulder", m.ground, upper, at=(0, 0))
    m.revolute("elbow", upper, lower, at=(1, 0))
    m.measure("tip", "point", lower, at=(1.8, 0.1))
    m.measure("seen", "point", lower, at=(1.8, 0.1), seen_from=upper)
    m.measure("reach", "distance", m.ground, lower, at_i=(0.2, -0.3), at_j=(1.8, 0.0))
    m.measure("fold", "angle", upper, lower)
    m.measure("bend", "coordinate", "elbow")
    m.joint_spring("coil", "elbow", stiffness=3.0, damping=0.4, free=0.2)
    m.torque("wind", lower, "0.3*t")
    return m


def wrist() -> da.Model:
    """A disc on a turning axle, and a pendulum on it about a skew axis, in space."""
    m = da.Model("wrist", space="space", gravity=(0, 0, -9.81))
    disc = m.body("disc", mass=1.0, inertia=(0.1, 0.1, 0.2), angular_velocity=(0, 0, 2.0))
    bob = m.body("bob", mass=1.0, inertia=(0.02, 0.03, 0.01), position=(0.3, 0, -0.5), axis=(1, 2, 0), angle=0.4)
    m.revolute("axle", m.ground, disc, at=(0, 0, 0), axis=(0, 0, 1))
    m.revolute("hinge", disc, bob, at=(0.3, 0, 0), axis=(1, 0.3, 0))
    m.measure("tip", "point", bob, at=(0.3, 0.1, -0.9))
    m.measure("seen", "point", bob, at=(0.3, 0.1, -0.9), seen_from=disc)
    m.measure("reach", "distance", m.ground, bob, at_i=(0.2, -0.3, 0.1), at_j=(0.3, 0.0, -0.8))
    m.measure("turn", "angle", m.ground, bob, axis=(0.1, 0.2, 1.0))
    m.measure("swing", "coordinate", "hinge")
    return m


def loaded() -> da.Model:
    """The arm with its shoulder driven: what is measured of forces and constraints."""
    m = arm()
    m.driver("motor", "shoulder", "t + 0.2*t^2")
    for joint in ("shoulder", "elbow"):
        m.measure(f"{joint}_load", "reaction", joint)
    m.measure("up", "reaction", "shoulder", component="Fy", frame="world")
    m.measure("effort", "effort", "motor")
    m.measure("coiled", "effort", "coil")
    m.measure("drive_power", "power", "motor")
    m.measure("coil_power", "power", "coil")
    m.measure("wind_power", "power", "wind")
    for body in ("upper", "lower"):
        m.measure(f"{body}_energy", "energy", body)
    m.measure("all_energy", "formula", "upper_energy.total + lower_energy.total + 0.5*k*(bend - 0.2)^2",
              parameters={"k": 3.0}, unit="J")  # fmt: skip
    m.measure("newton", "function", balance, size=2)
    m.measure("half", "function", lambda t, q, v, vdot, r, p: p["h"] * q[3], needs="positions", parameters={"h": 0.5})
    return m


def balance(t, q, v, vdot, r):
    """Newton's law of the lower body: what the constraints do to it, from its acceleration and its weight."""
    return 0.7 * vdot[3:5] + jnp.array([0.0, 0.7 * 9.81]) - r[3:5]


MACHINES = {"arm": arm, "wrist": wrist, "loaded": loaded}
KINEMATIC = ("arm", "wrist")


@functools.cache
def system_of(name: str, coordinates: str):
    return da.build(MACHINES[name](), coordinates=coordinates)


def accelerations(system, t, q, v):
    return da.formulations.Proximal().solve(da.assemble(system, t, q, v)).vdot


@functools.cache
def motion_of(name: str, coordinates: str) -> da.simulation.Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.AssemblyWarning)  # the bob takes part in the disc's turning
        return da.simulate(system_of(name, coordinates), 0.4, samples="dense", rtol=1e-11, progress=False)


@pytest.mark.parametrize("name", KINEMATIC)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_rates_are_those_of_finite_differences_along_the_motion(name, coordinates):
    """Of every measurement the velocity and the acceleration, at a state in motion. Central differences of 4th order
    with h = 1e-3 err by h⁴ f⁽⁵⁾/30 ≈ 1e-10 and by the motion's 1e-11/h; measured 3e-9."""
    system, solution = system_of(name, coordinates), motion_of(name, coordinates)
    t, h = 0.23, 1e-3
    q, v = solution.at(t)
    now = np.asarray(system.measured(t, q, v, accelerations(system, t, q, v)))
    around = {k: np.asarray(system.measured(t + k * h, *solution.at(t + k * h))) for k in (-2, -1, 1, 2)}
    slope = (around[-2] - 8 * around[-1] + 8 * around[1] - around[2]) / (12 * h)
    start, seen = 0, 0
    for x in system.measures:
        size = len(x.channels) // 3
        for level in (0, 1):
            at = slice(start + level * size, start + (level + 1) * size)
            then = slice(start + (level + 1) * size, start + (level + 2) * size)
            np.testing.assert_allclose(slope[at], now[then], rtol=2e-8, atol=2e-8, err_msg=f"{x.name}, level {level}")
            seen += size
        start += 3 * size
    assert np.all(np.isfinite(now)) and seen == 2 * len(now) // 3


@pytest.mark.parametrize("name", KINEMATIC)
def test_coordinates_do_not_change_what_is_measured(name):
    """Absolute and joint coordinates of one state: to rounding of the closed joints, 1e-12."""
    joint, absolute = system_of(name, "joint"), system_of(name, "absolute")
    q, v = motion_of(name, "joint").at(0.3)
    there = joint.lift(q, v)
    vdot = accelerations(joint, 0.3, q, v)
    one = joint.measured(0.3, q, v, vdot)
    other = absolute.measured(0.3, *there, joint.lift_rate(q, v, vdot))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_names_and_numbers():
    system = system_of("arm", "joint")
    assert system.channels[:6] == ("tip.x", "tip.y", "tip.vx", "tip.vy", "tip.ax", "tip.ay")
    assert system.channels_named("tip") == system.channels_named("tip.position") == (0, 1)
    assert system.channels_named("tip.velocity") == (2, 3) and system.channels_named("tip.ay") == (5,)
    q, v = motion_of("arm", "joint").at(0.1)
    whole = system.measured(0.1, q, v)
    # a joint's coordinate is known without a measurement, and is the same as one
    for word, level in (("", ""), ("_rate", ".rate")):
        (one,) = system.measured(0.1, q, v, only=system.channels_named(f"elbow.angle{word}"))
        np.testing.assert_allclose(one, whole[system.channels.index(f"bend{level}")], rtol=1e-14)
    some = (*system.channels_named("tip.velocity"), *system.channels_named("fold"))
    np.testing.assert_array_equal(system.measured(0.1, q, v, only=some), whole[np.array(some)])
    with pytest.raises(da.errors.DalembertError, match="no measurement or joint coordinate 'tpi'.*Did you mean 'tip'"):
        system.channels_named("tpi")


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_under_jit_vmap_and_grad_and_with_parameters(coordinates):
    """∂/∂q by autodiff is the rate along q̇ (v held), and the derivative by a named parameter that of differences."""
    system = system_of("wrist", coordinates)
    q, v = (jnp.asarray(x) for x in motion_of("wrist", coordinates).at(0.2))
    only = system.channels_named("tip.position")
    J = jax.jit(jax.jacfwd(lambda q: system.measured(0.2, q, v, only=only)))(q)
    rate = system.measured(0.2, q, v, only=system.channels_named("tip.velocity"))
    np.testing.assert_allclose(J @ system.qdot(q, v), rate, rtol=1e-10, atol=1e-12)
    twice = jax.vmap(lambda t: system.measured(t, q, v, only=only))(jnp.array([0.1, 0.2]))
    np.testing.assert_allclose(twice[0], twice[1], rtol=0)

    def reach(x):
        moved = system.replace({"reach.point_j": jnp.array([0.1, 0.2, 0.3]) * x})
        return moved.measured(0.2, q, v, only=moved.channels_named("reach"))[0]

    h = 1e-5
    np.testing.assert_allclose(jax.grad(reach)(1.0), (reach(1 + h) - reach(1 - h)) / (2 * h), rtol=1e-8)


# ---- forces, constraints, energies, formulas -------------------------------------------------------------------------


@functools.cache
def loaded_motion(coordinates: str) -> da.Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.AssemblyWarning)  # the driver sets the speed of the shoulder
        return da.simulate(system_of("loaded", coordinates), 0.5, samples=41, rtol=1e-10, progress=False)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_what_forces_and_constraints_do(coordinates):
    """Each against another route to the same number; the work integrals of the march have its tolerance."""
    solution = loaded_motion(coordinates)
    found, t = solution.measurements, np.asarray(solution.t)
    for joint in ("shoulder", "elbow"):
        reaction = solution.reactions(joint, frame="joint")
        for k, axis in enumerate("xy"):
            np.testing.assert_allclose(found[f"{joint}_load.F{axis}"], reaction["force"][:, k], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found[f"{joint}_load.Mz"], reaction["torque"], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["up"], solution.reactions("shoulder")["force"][:, 1], rtol=1e-12)
    # a driver of a pin's angle turns body j with its effort
    np.testing.assert_allclose(found["effort"], solution.reactions("motor")["torque"], rtol=1e-12)
    np.testing.assert_allclose(found["drive_power"], found["effort"] * (1 + 0.4 * t), rtol=1e-10)
    coil = -3.0 * (found["bend"] - 0.2) - 0.4 * found["bend.rate"]
    np.testing.assert_allclose(found["coiled"], coil, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["coil_power"], coil * found["bend.rate"], rtol=1e-10, atol=1e-12)
    spin = solution.dataset["angular_velocity"].sel(body="lower").values
    np.testing.assert_allclose(found["wind_power"], 0.3 * t * spin, atol=1e-12)
    np.testing.assert_allclose(found["all_energy"], solution.energy["total"], rtol=1e-12)
    np.testing.assert_allclose(found["newton.0"], 0.0, atol=1e-9)
    np.testing.assert_allclose(found["half"], 0.5 * solution.dataset["position"].sel(body="lower")[:, 0], rtol=1e-14)
    # power is the rate of work: by Simpson's rule, whose error here is 1e-9
    for power, work in (("drive_power", "work_of_constraints"),):
        p, h = found[power].values, t[1] - t[0]
        simpson = h / 3 * (p[0] + p[-1] + 4 * np.sum(p[1:-1:2]) + 2 * np.sum(p[2:-1:2]))
        np.testing.assert_allclose(simpson, solution.energy[work][-1], rtol=1e-6)
    assert all(x.attrs["unique"] and x.attrs["rule"] == "unique" for x in found.values() if "rule" in x.attrs)
    units = {name: found[name].attrs["units"] for name in ("up", "effort", "drive_power", "all_energy", "tip.ax")}
    assert units == {"up": "N", "effort": "N m", "drive_power": "W", "all_energy": "J", "tip.ax": "m/s2"}


def driven_wrist() -> da.Model:
    """The wrist with both joints driven, and what is measured of its loads."""
    m = wrist()
    m.driver("turner", "axle", "t + 0.2*t^2")
    m.driver("swinger", "hinge", "0.4*sin(2*t)")
    m.measure("bears", "reaction", "hinge", frame="world")
    m.measure("bears_along", "reaction", "hinge")
    for driver in ("turner", "swinger"):
        m.measure(f"{driver}_effort", "effort", driver)
        m.measure(f"{driver}_power", "power", driver)
    for body in ("disc", "bob"):
        m.measure(f"{body}_energy", "energy", body)
    return m


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_loads_in_space_by_newton_and_euler(coordinates):
    """Reaction, efforts, powers, energies of the driven wrist against the equations of each body in plain NumPy, from
    places, velocities and accelerations alone: rounding of some 10 N and N m."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.AssemblyWarning)  # the drivers set the speeds
        solution = da.kinematics(da.build(driven_wrist(), coordinates=coordinates), 1.5, samples=7)
    found, data, t = solution.measurements, solution.dataset, np.asarray(solution.t)
    inertia = {"disc": np.diag([0.1, 0.1, 0.2]), "bob": np.diag([0.02, 0.03, 0.01])}

    def whole(name, body):
        return data[name].sel(body=body).values

    def rotation(w, x, y, z):
        return np.array([
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ])  # fmt: skip

    force, momentum = {}, {}
    for body, J in inertia.items():
        R = np.array([rotation(*q) for q in whole("quaternion", body)])
        w, alpha, v = (whole(x, body) for x in ("angular_velocity", "angular_acceleration", "velocity"))
        force[body] = whole("acceleration", body) + [0, 0, 9.81]  # both masses are 1 kg
        momentum[body] = np.einsum("tij,tj->ti", R, alpha @ J + np.cross(w, w @ J))
        kinetic = 0.5 * np.sum(v * v, axis=1) + 0.5 * np.sum(w * (w @ J), axis=1)
        np.testing.assert_allclose(found[f"{body}_energy.kinetic"], kinetic, rtol=1e-12)
        height = whole("position", body)[:, 2]
        np.testing.assert_allclose(found[f"{body}_energy.total"], kinetic + 9.81 * height, rtol=1e-11)
    # the hinge's point and axis turn with the disc
    turned = t + 0.2 * t**2
    c, s, zero = np.cos(turned), np.sin(turned), 0 * t
    point = 0.3 * np.stack([c, s, zero], axis=1)
    axis = np.stack([c - 0.3 * s, s + 0.3 * c, zero], axis=1) / np.hypot(1, 0.3)
    torque = momentum["bob"] + np.cross(whole("position", "bob") - point, force["bob"])
    effort = np.sum(axis * torque, axis=1)
    bears = np.stack([found[f"bears.{x}"] for x in ("Fx", "Fy", "Fz", "Mx", "My", "Mz")], axis=1)
    np.testing.assert_allclose(bears[:, :3], force["bob"], atol=1e-10)
    np.testing.assert_allclose(bears[:, 3:], torque - effort[:, None] * axis, atol=1e-10)
    along = np.stack([found[f"bears_along.{x}"] for x in ("Fx", "Fy", "Fz", "Mx", "My", "Mz")], axis=1)
    for part in (slice(3), slice(3, 6)):
        np.testing.assert_allclose(*(np.linalg.norm(x[:, part], axis=1) for x in (bears, along)), atol=1e-10)
    np.testing.assert_allclose(along[:, 2], np.sum(axis * force["bob"], axis=1), atol=1e-10)
    np.testing.assert_allclose(along[:, 5], 0.0, atol=1e-10)  # a hinge bears no torque about its axis
    np.testing.assert_allclose(found["swinger_effort"], effort, atol=1e-10)
    np.testing.assert_allclose(found["swinger_power"], effort * 0.8 * np.cos(2 * t), atol=1e-10)
    moment = sum(momentum[b] + np.cross(whole("position", b), whole("acceleration", b)) for b in inertia)[:, 2]
    np.testing.assert_allclose(found["turner_effort"], moment, atol=1e-10)
    np.testing.assert_allclose(found["turner_power"], moment * (1 + 0.4 * t), atol=1e-10)
    assert np.ptp(moment) > 0.1 and np.ptp(effort) > 0.1


def test_loads_for_measurements_at_one_instant():
    """`loads_of` gives `measured` what results compute, under jit."""
    solution = loaded_motion("joint")
    system = solution.system

    @jax.jit
    def at(t, q, v):
        equations = da.assemble(system, t, q, v)
        vdot = da.formulations.Proximal().solve(equations).vdot
        return system.measured(t, q, v, vdot, da.reactions.loads_of(system, equations, vdot))

    k = 17
    now = at(solution.t[k], jnp.asarray(solution.q[k]), jnp.asarray(solution.v[k]))
    np.testing.assert_allclose(now, solution.dataset["measurement"][k], rtol=1e-8, atol=1e-8)
    # without them reactions are NaN, and nothing else is
    bare = system.measured(solution.t[k], solution.q[k], solution.v[k], solution.vdot[k])
    without = {n.partition(".")[0] for n, x in zip(system.channels, np.asarray(bare), strict=True) if np.isnan(x)}
    assert without == {"shoulder_load", "elbow_load", "up", "effort", "drive_power", "newton"}


def test_full_turns_of_angles_in_space_are_counted():
    m = da.Model("rotor", space="space")
    disc = m.body("disc", mass=1.0, inertia=(0.1, 0.1, 0.2), angular_velocity=(0, 0, 20.0))
    m.revolute("axle", m.ground, disc, at=(0, 0, 0), axis=(0, 0, 1))
    m.measure("turn", "angle", m.ground, disc, axis=(0, 0, 1))
    m.measure("own", "coordinate", "axle")
    for coordinates in COORDINATES:
        found = da.simulate(da.build(m, coordinates=coordinates), 1.0, samples=51).measurements
        np.testing.assert_allclose(found["turn"], 20.0 * found["time"], atol=1e-8)
        np.testing.assert_allclose(found["own"], 20.0 * found["time"], atol=1e-8)


def test_a_measurement_at_a_singular_position_is_marked_as_the_reaction_is():
    """The four-bar lies flat at some instant: forces along its bars, y of the joint there, cannot be believed."""
    m = da.mechanism("n-four-bar")
    m.measure("load", "reaction", "left0", component="Fy")
    flat = da.simulate(m, 1.0, samples=81).singular_positions()[0].t
    solution = da.simulate(m, 1.0, samples=[0.0, flat - 1e-6, flat, 1.0])
    data = solution.dataset
    mark = data["unique_force_in_joint"].sel(joint="left0")[:, 1].values
    assert mark[0] and mark[-1] and not mark.all()
    np.testing.assert_array_equal(data["unique_measurement"].sel(channel="load").values, mark)
    forces = data["reaction_force_in_joint"].sel(joint="left0")[:, 1]
    np.testing.assert_array_equal(solution.measurements["load"], forces)
    assert not solution.measurements["load"].attrs["unique"]


# ---- in every result -------------------------------------------------------------------------------------------------


def test_measurements_are_in_files_tables_pictures_pages_and_reports(tmp_path):
    solution = motion_of("wrist", "joint")
    path = solution.to_netcdf(tmp_path / "run.nc")
    again = da.open(path)
    np.testing.assert_array_equal(again.measurements["tip.vx"], solution.measurements["tip.vx"])
    header = solution.to_csv(tmp_path / "run.csv").read_text().splitlines()[0]
    assert "measurement[tip.vx] (m/s)" in header and "measurement[turn] (rad)" in header
    figure = solution.plot("measurements", names=["tip", "turn.rate"])
    assert sorted(axis.get_ylabel() for axis in figure.axes) == ["m", "m/s", "m/s2", "rad/s"]
    with pytest.raises(da.errors.DalembertError, match="There is no 'tipp' here.*Did you mean"):
        solution.plot("measurements", names="tipp")
    page = solution.animate(tmp_path / "run.html").read_text()
    assert "measurements" in page and "tip.vx" in page
    report = da.report(solution, tmp_path / "report.html").read_text()
    assert "Measurements" in report


def test_what_a_rule_picked_is_marked_wherever_it_is_shown(tmp_path):
    """A door on two hinges: the upright load of one is open, its load across is not. The rule stands beside the number
    in data, in the file, in the figure; the page and its curves say that a rule picked it."""
    m = da.mechanism("door-two-hinges")
    m.measure("up", "reaction", "top", component="Fz", frame="world")
    m.measure("both", "formula", "2*up + 1", unit="N")
    m.measure("energy", "energy", "leaf")
    solution = da.simulate(m, 0.5, samples=5)
    rule = solution.rule.describe(solution.machine)
    again = da.open(solution.to_netcdf(tmp_path / "run.nc"))
    for found in (solution.measurements, again.measurements):
        for name, sure in (("up", False), ("both", False), ("energy.kinetic", True)):
            assert found[name].attrs["unique"] is sure
            assert found[name].attrs["rule"] == ("unique" if sure else rule)
    figure = solution.plot("measurements")
    styles = {line.get_label(): line.get_linestyle() for axis in figure.axes for line in axis.get_lines()}
    assert {name for name, style in styles.items() if style == "--"} == {"up", "both"}
    assert rule.split(",")[0] in figure.axes[0].get_title(loc="left")
    page = solution.animate(tmp_path / "run.html").read_text()
    scene = json.loads(re.search(r'<script type="application/json" id="scene">(.*?)</script>', page, re.S)[1])
    curves = {
        c["label"]: c.get("dashed", False) for p in scene["panels"] if "measure" in p["title"] for c in p["curves"]
    }
    assert curves == {"up (by rule)": True, "both (by rule)": True} | {
        f"energy.{x}": False for x in ("kinetic", "potential", "total")
    }
    assert any(rule in note for note in scene["notes"])
