"""Driven machines without integrating: closed forms, dead points, limits of reach, what is refused, derivatives."""

from __future__ import annotations

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_linkages import LENGTHS, four_bar, fourth, quick_return, slider_crank, turned

import dalembert as da

SPEED = 3.0
COORDINATES = ("absolute", "joint")
ROUNDING = 1e-12
"""What the bars of this room allow: positions, velocities and accelerations are a few units, closed to 1e-15."""


def driven(model: da.Model, joint: str = "O", speed: float = SPEED) -> da.Model:
    model.driver("motor", joint, da.functions.polynomial([0.0, speed]))
    return model


def jets(function, times) -> np.ndarray:
    """A function of time, its rate and its second rate, by automatic differentiation of the closed form."""
    one = jax.vmap(lambda t: jnp.stack([function(t), jax.grad(function)(t), jax.grad(jax.grad(function))(t)]))
    return np.asarray(jax.jit(one)(jnp.asarray(times, float)))


def slider_position(t, start=0.4, r=0.3, rod=1.0):
    angle = start + SPEED * t
    return r * jnp.cos(angle) + jnp.sqrt(rod**2 - (r * jnp.sin(angle)) ** 2)


def lever_angle(t, start=0.5, r=0.25, drop=0.6):
    angle = start + SPEED * t
    return jnp.arctan2(drop + r * jnp.sin(angle), r * jnp.cos(angle))


def rocker_angle(t, start=1.0, side=1):
    """The rocker's angle by the two circles about the ends of the crank and of the frame."""
    a, b, c, d = LENGTHS
    x, y = a * jnp.cos(start + SPEED * t), a * jnp.sin(start + SPEED * t)
    far2 = (d - x) ** 2 + y**2
    inner = jnp.arccos((c**2 + far2 - b**2) / (2 * c * jnp.sqrt(far2)))
    return jnp.arctan2(y, x - d) - side * inner


def rod_angle(t, start=0.4, r=0.3, rod=1.0):
    return -jnp.arcsin(r * jnp.sin(start + SPEED * t) / rod)


def coupler_angle(t):
    """Between the ends of the crank and of the rocker."""
    a, _, c, d = LENGTHS
    crank, rocker = 1.0 + SPEED * t, rocker_angle(t)
    return jnp.arctan2(c * jnp.sin(rocker) - a * jnp.sin(crank), d + c * jnp.cos(rocker) - a * jnp.cos(crank))


CLOSED = {
    "slider-crank": (slider_crank, ("slider", "position", slider_position), ("rod", "angle", rod_angle)),
    "quick-return": (quick_return, ("lever", "angle", lever_angle)),
    "four-bar": (four_bar, ("rocker", "angle", rocker_angle), ("coupler", "angle", coupler_angle)),
}


@functools.cache
def motion_of(name: str, coordinates: str) -> da.simulation.Solution:
    return da.kinematics(da.build(driven(CLOSED[name][0]()), coordinates=coordinates), 2.5, samples=41)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name, coordinates):
    """Position, velocity and acceleration of the output and the coupler over more than a turn, to 1e-12."""
    solution = motion_of(name, coordinates)
    for body, what, closed in CLOSED[name][1:]:
        data = solution.dataset.sel(body=body)
        names = ("position", "velocity", "acceleration") if what == "position" else (
            "angle", "angular_velocity", "angular_acceleration")  # fmt: skip
        expected = jets(closed, solution.t)
        for k, variable in enumerate(names):
            value = data[variable].sel(axis="x").values if what == "position" else data[variable].values
            off = value - expected[:, k]
            if variable == "angle":
                off = off - 2 * np.pi * np.round(off / (2 * np.pi))
            assert np.max(np.abs(off)) < ROUNDING, (body, variable)
    assert max(solution.violation.values()) < 1e-13


def test_the_driver_does_the_work_of_the_energy():
    """Reactions without integrating: the driver's power, integrated, is what the energy gains, to rounding."""
    solution = motion_of("four-bar", "absolute")
    assert solution.energy_drift < 1e-12
    torque = solution.reactions("motor")["torque"].values
    spline = __import__("scipy.interpolate", fromlist=["x"]).CubicSpline(solution.t, SPEED * torque)
    gained = solution.energy["total"].values
    # a cubic through 41 values of the power: 1e-3 of what it swings by
    assert spline.integrate(0, 2.5) == pytest.approx(gained[-1] - gained[0], abs=1e-3 * np.ptp(gained))


def test_any_time_is_as_exact_as_a_saved_one():
    solution = motion_of("slider-crank", "absolute")
    q, v = solution.at(1.2345)
    assert abs(q[6] - slider_position(1.2345)) < ROUNDING
    assert abs(v[6] - jets(slider_position, [1.2345])[0, 1]) < ROUNDING


def test_tip_against_finite_differences():
    """Velocity and acceleration of a point of the coupler against central differences of its position: with h = 1e-4
    the error of the differences is h² times third and fourth derivatives, some 1e-6."""
    system, h = da.build(driven(four_bar())), 1e-4
    times = np.array([0.7 - h, 0.7, 0.7 + h])
    solution = da.kinematics(system, 1.0, samples=np.concatenate([[0.0], times]))
    found = [system.measured(t, q, v, vdot) for t, q, v, vdot in zip(
        solution.t, solution.q, solution.v, solution.vdot, strict=True)]  # fmt: skip
    before, here, after = (np.asarray(x) for x in found[1:])
    velocity, acceleration = (here[list(system.channels_named(f"tip.{x}"))] for x in ("velocity", "acceleration"))
    place = list(system.channels_named("tip.position"))
    np.testing.assert_allclose((after - before)[place] / (2 * h), velocity, atol=1e-6 * np.max(np.abs(velocity)))
    second = (after - 2 * here + before)[place] / h**2
    np.testing.assert_allclose(second, acceleration, atol=3e-6 * np.max(np.abs(acceleration)))


def test_the_integrated_motion_is_the_same():
    """simulate at 1e-10 against kinematics: motion, reactions, work."""
    model = driven(four_bar())
    one, other = da.kinematics(model, 1.0, samples=11), da.simulate(model, 1.0, samples=11, rtol=1e-10)
    np.testing.assert_allclose(one.q, other.q, atol=1e-8)
    for joint in ("O", "motor"):
        wrench, there = one.reactions(joint), other.reactions(joint)
        for what in ("force", "torque"):
            np.testing.assert_allclose(wrench[what].values, there[what].values, atol=1e-6)
    np.testing.assert_allclose(one.work[:, 1], other.work[:, 1], atol=1e-7)


def test_the_first_state_decides_the_assembly():
    for side in (1, -1):
        solution = da.kinematics(driven(four_bar(side=side)), 1.0, samples=5)
        away = solution.dataset["angle"].sel(body="rocker").values - [rocker_angle(t, side=side) for t in solution.t]
        assert np.max(np.abs(away - 2 * np.pi * np.round(away / (2 * np.pi)))) < ROUNDING


def test_few_samples_do_not_lose_the_assembly():
    """Two saved times, 2.5 rad of the crank apart: steps between keep the sheet."""
    solution = da.kinematics(driven(four_bar()), 2.5 / SPEED, samples=2)
    assert int(solution.stats["accepted"]) > 3
    away = float(solution.dataset["angle"].sel(body="rocker").values[-1]) - float(rocker_angle(solution.t[-1]))
    assert abs(away - 2 * np.pi * np.round(away / (2 * np.pi))) < ROUNDING


def test_a_motion_starts_at_t0_whatever_the_first_saved_time():
    """The start decides the assembly and the turns: a motion of which only the end is saved has them from t0."""
    model = driven(four_bar())
    whole, late = da.kinematics(model, 3.0, samples=31), da.kinematics(model, 3.0, samples=[2.9, 3.0])
    assert np.max(np.abs(late.q - whole.q[-2:])) < ROUNDING  # the crank after 8.7 rad, more than a turn
    system = da.build(model)
    compiled = jax.jit(lambda times: da.kinematics(system, 3.0, samples=times).q)
    for first in (0.0, 0.25):  # under jit nobody knows whether the first saved time is the start
        times = [first, 0.5, 0.75]
        assert np.max(np.abs(compiled(jnp.array(times)) - da.kinematics(system, 3.0, samples=times).q)) < ROUNDING


def arm_on_a_cylinder(length: str) -> da.Model:
    model = da.Model("arm on a cylinder")
    arm = model.body("arm", mass=1.0, inertia=0.1, position=(0.5, 0))
    model.revolute("pin", model.ground, arm, at=(0, 0))
    model.distance_driver("cylinder", model.ground, arm, length, at_i=(0, 1), at_j=(1, 0))
    return model


def test_drivers_are_followed_between_saved_times():
    """Saved at whole periods of its driver a machine stands still; on the way it leaves its reach, 2 m, or turns."""
    there_and_back = arm_on_a_cylinder("sqrt(2) + 0.9*(1 - cos(2*pi*t))")
    reached = np.arccos(1 - (2 - np.sqrt(2)) / 0.9) / (2 * np.pi)
    with pytest.raises(da.errors.SimulationError, match=f"at t = {reached:.4f}"):
        da.kinematics(there_and_back, 2.0, samples=3)
    turning = four_bar()
    turning.driver("motor", "O", "2*pi*t - sin(2*pi*t)")  # a turn in each second, at rest at its end
    angle = da.kinematics(turning, 2.0, samples=3).dataset["angle"].sel(body="crank").values
    assert np.max(np.abs(angle - angle[0] - 2 * np.pi * np.arange(3))) < ROUNDING


def test_turns_between_saved_times_that_a_spring_cannot_count_are_not_passed_over():
    """In joint coordinates a step of many turns is exact; the spring on the angle would see what is left of them."""
    model = da.Model("rotor", space="space")
    rotor = model.body("rotor", mass=1.0, inertia=(0.1, 0.1, 0.1))
    model.revolute("pin", model.ground, rotor, at=(0, 0, 0), axis=(0, 0, 1))
    model.driver("motor", "pin", "20*t")
    model.joint_spring("spring", "pin", stiffness=1.0)
    with pytest.raises(da.errors.SimulationError, match="half a turn"):
        da.kinematics(da.build(model, coordinates="joint"), 2.0, samples=3)


def test_redundant_and_through_dead_points():
    """Three parallel cranks, one redundant row: where they lie flat assemblies meet; the motion stays on its own."""
    model = da.mechanism("parallelogram")
    model.driver("motor", "foot1", da.functions.polynomial([0.0, 2.0]))
    with pytest.warns(da.errors.SingularWarning, match="dead points"):
        solution = da.kinematics(model, 5.0, samples=61)
    # flat where the cranks, which start at 60° from the line of the feet, have turned by 60° and half turns more
    found = [p.t for p in solution.singular_positions()]
    np.testing.assert_allclose(found, (np.pi / 3 + np.pi * np.arange(3)) / 2, atol=1e-6)
    angle = solution.dataset["angle"].sel(body="coupler").values
    assert np.max(np.abs(angle - angle[0])) < 1e-9  # a coupler of parallel cranks does not turn; √ of rounding beside
    assert solution.redundancy == 1
    assert not solution.unique("foot1").all()


def test_a_slider_pushes_its_crank_through_the_dead_centres():
    """The slider is driven by the law that a uniform crank gives it: the crank turns uniformly through both centres."""
    model = slider_crank()
    law = f"0.3*cos(0.4 + {SPEED}*t) + sqrt(1 - (0.3*sin(0.4 + {SPEED}*t))**2) - {float(slider_position(0.0))!r}"
    model.driver("push", "S", law)
    loop = r"\('O', 'A', 'B', 'push'\)"  # what pushes along the line; the guide only across it
    with pytest.warns(da.errors.SingularWarning, match=f"dead points.* at t = 0.91.* {loop}; t = 1.96.* {loop}"):
        solution = da.kinematics(model, 2.0, samples=60)
    turn = solution.dataset["angle"].sel(body="crank").values
    np.testing.assert_allclose(turn, 0.4 + SPEED * solution.t, atol=1e-9)
    # the crank lies along x
    expected = (np.pi * np.array([1, 2]) - 0.4) / SPEED
    found = solution.singular_positions()
    np.testing.assert_allclose([p.t for p in found], expected, atol=1e-6)
    assert {p.joints for p in found} == {("O", "A", "B", "push")}


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_a_dead_point_may_be_a_saved_time(coordinates):
    """The same through both dead centres at the very instant, and 1e-9 s and 1e-5 s beside: closing alone loses the
    velocity there and the crank turns back. The uniform motion to 1e-9, as known on both sides by a polynomial."""
    model = slider_crank()
    law = f"0.3*cos(0.4 + {SPEED}*t) + sqrt(1 - (0.3*sin(0.4 + {SPEED}*t))**2) - {float(slider_position(0.0))!r}"
    model.driver("push", "S", law)
    centres = (np.pi * np.array([1, 2]) - 0.4) / SPEED
    times = np.sort(np.concatenate([[0.0, 2.0], centres, centres - 1e-9, centres + 1e-5]))
    with pytest.warns(da.errors.SingularWarning, match="dead points"):
        solution = da.kinematics(da.build(model, coordinates=coordinates), 2.0, samples=times)
    data = solution.dataset.sel(body="crank")
    np.testing.assert_allclose(data["angle"].values, 0.4 + SPEED * solution.t, atol=1e-9)
    np.testing.assert_allclose(data["angular_velocity"].values, SPEED, atol=1e-8)
    # 1e-5 s beside a centre the acceleration is known from both sides to some 1e-7 (measured: 1e-7)
    np.testing.assert_allclose(data["angular_acceleration"].values, 0.0, atol=1e-5)
    assert max(solution.violation[name] for name in ("position", "velocity")) < 1e-12


def test_states_of_controllers_do_not_follow_from_positions():
    """A controller that integrates sets a torque, which the driver must balance: its state cannot stand still."""
    model = driven(slider_crank())
    model.joint_force("spin", "O", model.input("u", unit="N m"))
    model.controller("pi", states={"sum": 0.0}, rates={"sum": "1"}, outputs={"u": "5*sum"})
    with pytest.raises(
        da.errors.DalembertError, match=r"controllers with states of their own \(pi.sum\).* Use da.simulate"
    ):
        da.kinematics(model, 1.0)
    with pytest.raises(da.errors.DalembertError, match="must be integrated"):
        jax.jit(lambda t: da.kinematics(model, t, samples=2).q)(1.0)
    model.remove("pi")
    model.controller("p", outputs={"u": "5*O.angle"})  # without states it acts by what is known
    model.measure("effort", "effort", "motor")
    free, held = da.kinematics(driven(slider_crank()), 1.0, samples=3), da.kinematics(model, 1.0, samples=3)
    torque = free.reactions("motor")["torque"].values - 5 * SPEED * free.t
    np.testing.assert_allclose(held.measurements["effort"], torque, atol=1e-9)


def test_limits_of_reach_have_a_time_and_joints():
    """A rocker that is driven beyond its swing stops where crank and coupler are in line."""
    a, b, c, d = LENGTHS
    model = four_bar()
    model.driver("push", "C", da.functions.polynomial([0.0, 0.2]))
    with pytest.raises(da.errors.SimulationError, match="leave the reach of 'crank-rocker' at t = ") as told:
        da.kinematics(model, 10.0, samples=21)
    text, solution = str(told.value), told.value.solution
    # crank and coupler folded or stretched: by the law of cosines for the rocker's angle at the frame
    start = float(rocker_angle(0.0))
    limits = [np.pi - np.arccos((c**2 + d**2 - s**2) / (2 * c * d)) for s in (b + a, b - a)]
    expected = min(x - start for x in limits if x > start) / 0.2
    assert float(solution.t_end) == pytest.approx(expected, abs=1e-7)  # steps end at 1e-11 of the whole time
    assert solution.status is da.simulation.Status.inconsistent
    assert all(word in text for word in ("'O'", "'A'", "'push'", "out of reach", "the nearest is"))
    assert float(solution.t[-1]) == float(solution.t_end)
    assert da.kinematics(model, 10.0, samples=21, throw=False).status is da.simulation.Status.inconsistent


def test_what_is_not_determined_is_refused_by_name():
    with pytest.raises(
        da.errors.DalembertError, match=r"'crank-rocker' has 1 degree of freedom and no driver .*'O.angle'"
    ):
        da.kinematics(four_bar(), 1.0)
    model = da.mechanism("double-pendulum")
    first = next(iter(model.constraints))
    model.driver("motor", first, da.functions.polynomial([0.0, 1.0]))
    with pytest.raises(da.errors.DalembertError, match="The driver 'motor' leaves .* 1 degree of freedom"):
        da.kinematics(model, 1.0)
    model = four_bar()
    model.speed_driver("pace", "O", 1.0)
    with pytest.raises(da.errors.DalembertError, match="'pace' prescribes velocities .* da.simulate"):
        da.kinematics(model, 1.0)
    for wrong, words in (({"t_end": 0.0}, "later"), ({"t_end": np.nan}, "number"), ({"samples": 1}, "at least two"),
                         ({"samples": [0.5, 0.2]}, "rising"), ({"samples": "steps"}, "unknown")):  # fmt: skip
        with pytest.raises(da.errors.DalembertError, match=words):
            da.kinematics(driven(four_bar()), **({"t_end": 1.0} | wrong))


def test_a_structure_stands_still():
    """A machine without freedoms and drivers: its reactions are those of statics. A beam on a pin and a rod: half its
    weight at each."""
    model = da.Model("beam", gravity=(0, -10.0))
    beam = model.body("beam", mass=2.0, inertia=0.5, position=(0.5, 0))
    model.revolute("pin", model.ground, beam, at=(0, 0))
    model.distance("rod", model.ground, beam, at_i=(1.0, 1.0), at_j=(1.0, 0.0))
    solution = da.kinematics(model, 1.0, samples=3)
    assert np.all(solution.v == 0)
    np.testing.assert_allclose(solution.reactions("pin")["force"].values, [[0.0, 10.0]] * 3, atol=1e-12)


def test_in_space_both_coordinates_agree():
    """A driven slider-crank in space: bodies and reactions do not depend on the coordinates."""
    model = da.mechanism("slider-crank-in-space")
    one, other = (da.kinematics(da.build(model, coordinates=c), 1.0, samples=4).dataset for c in COORDINATES)
    np.testing.assert_allclose(other["position"].values, one["position"].values, atol=1e-12)
    np.testing.assert_allclose(other["acceleration"].values, one["acceleration"].values, atol=1e-10)
    size = np.max(np.abs(one["reaction_force"].values))
    np.testing.assert_allclose(other["reaction_force"].values, one["reaction_force"].values, atol=1e-9 * size)


def test_files_and_going_on(tmp_path):
    solution = motion_of("slider-crank", "absolute")
    again = da.open(solution.to_netcdf(tmp_path / "run.nc"))
    np.testing.assert_array_equal(again.q, solution.q)
    assert again.integrator == "kinematics"
    assert solution.plot("coordinates", path=tmp_path / "run.png")
    with pytest.raises(da.errors.DalembertError, match="kinematics"):
        da.simulate(solution.system, 3.0, after=solution)


def test_forward_derivatives_and_jit():
    """By a named parameter (a length of the coupler) and a driver's speed, against central differences: 1e-6."""
    system = da.build(driven(four_bar()))
    start, speed = (np.asarray(system.parameters()[k]) for k in ("B.point_i", "motor.coefficients"))

    def last(x):
        changed = system.replace({
            "B.point_i": start + jnp.array([x, 0.5 * x]), "motor.coefficients": speed + jnp.array([0.0, x]),
        })  # fmt: skip
        solution = da.kinematics(changed, 0.8, samples=4)
        return jnp.concatenate([solution.q[-1], solution.v[-1]])

    value, rate = jax.jvp(last, (0.01,), (1.0,))
    h = 1e-5
    with pytest.warns(da.errors.AssemblyWarning):  # the changed machine is closed first
        differences = (np.asarray(last(0.01 + h)) - np.asarray(last(0.01 - h))) / (2 * h)
    np.testing.assert_allclose(rate, differences, atol=1e-6 * np.max(np.abs(differences)))
    np.testing.assert_allclose(jax.jit(last)(0.01), value, atol=1e-12)


def measured_arm() -> da.Model:
    """An arm that a cylinder lifts, with what is measured of it."""
    model = arm_on_a_cylinder("sqrt(2) + 0.2*t")
    model.measure("push", "effort", "cylinder")
    model.measure("tip", "point", "arm", at=(1, 0))
    return model


@pytest.mark.parametrize("coordinates", [pytest.param("absolute", marks=pytest.mark.thorough), "joint"])
def test_kinetostatics_inside_programs(coordinates):
    """q, v, v̇, effort, a reaction, a measured acceleration and the kinetic energy under jvp and jit, by a mass and by
    where the cylinder is fixed, against central differences of the host's (h⁴ and rounding over h: 1e-9); bar 1e-6."""
    system = da.build(measured_arm(), coordinates=coordinates)

    def found(x):
        changed = system.replace({"arm.mass": x[0], "cylinder.point_i": jnp.stack([0.0 * x[1], x[1]])})
        s = da.kinematics(changed, 1.0, samples=3)
        force, measured = s.reactions("pin")["force"], s.measurements
        columns = s.q, s.v, s.vdot, getattr(force, "values", force), s.multipliers
        rows = measured["push"], measured["tip.ax"], s.energy["kinetic"]
        return jnp.concatenate([jnp.asarray(x) for x in (*columns, *(jnp.asarray(r)[:, None] for r in rows))], axis=1)

    at, along, h = np.array([1.2, 1.1]), np.array([0.7, 0.4]), 1e-4
    value, rate = jax.jit(lambda x: jax.jvp(found, (x,), (along,)))(at)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.AssemblyWarning)  # the changed machine is closed first
        host, near = found(at), [found(at + k * h * along) for k in (-2, -1, 1, 2)]
    np.testing.assert_allclose(value, host, rtol=1e-11, atol=1e-12)
    differences = (8 * (near[2] - near[1]) - (near[3] - near[0])) / (12 * h)
    sizes = np.max(np.abs(differences), axis=0)
    assert np.all(sizes[-3:] > 1e-3)
    sizes = np.maximum(sizes, 1e-3)
    np.testing.assert_allclose(rate / sizes, differences / sizes, rtol=0, atol=1e-6)


def test_what_a_motion_does_not_have_inside_programs_is_said():
    """Not with a raw error of JAX; the inputs and states of simulate are there by name, too."""
    system = da.build(measured_arm())
    asked = {
        "dataset": lambda s: s.dataset, "status": lambda s: s.status, r"at\(t\)": lambda s: s.at(0.5), "unique":
        lambda s: s.unique("pin"), "plot": lambda s: s.plot(),
    }  # fmt: skip
    for name, ask in asked.items():
        with pytest.raises(da.errors.DalembertError, match=f"solution.{name} needs numbers.*measurements"):
            jax.eval_shape(lambda t, ask=ask: (ask(da.kinematics(system, t, samples=2)), 0)[1], 1.0)
    for rule, ask in (("eliminated", lambda s: s.vdot), (None, lambda s: s.reactions("pin", rule="weighted"))):
        with pytest.raises(da.errors.DalembertError, match=r"da\.prepare"):
            jax.eval_shape(lambda t, rule=rule, ask=ask: ask(da.kinematics(system, t, samples=2, rule=rule)), 1.0)


def test_measurements_of_integrated_motions_inside_programs():
    """A mass pushed by a controller with a state: its position, its input and its state, and their derivative."""
    model = da.Model("cart")
    cart = model.body("cart", mass=2.0, inertia=1.0)
    model.prismatic("rail", model.ground, cart, at=(0, 0), axis=(1, 0))
    model.joint_force("push", "rail", model.input("u", unit="N"))
    model.measure("x", "coordinate", "rail")
    model.controller("ramp", states={"sum": 0.0}, rates={"sum": "6"}, outputs={"u": "sum"})
    system = da.build(model)

    def end(mass):
        found = da.simulate(system.replace({"cart.mass": mass}), 1.0, samples=3, derivative="forward").measurements
        return jnp.stack([found[name][-1] for name in ("x", "x.rate", "x.acceleration", "u", "ramp.sum")])

    value, rate = jax.jit(lambda m: jax.jvp(end, (m,), (1.0,)))(2.0)
    np.testing.assert_allclose(value, [0.5, 1.5, 3.0, 6.0, 6.0], atol=1e-8)  # x = 6 t³/(6 m)
    np.testing.assert_allclose(rate, [-0.25, -0.75, -1.5, 0.0, 0.0], atol=1e-8)


def test_saved_times_far_apart_inside_a_program():
    """Three turns of the crank between saved times: the assembly is kept as on the host, by steps of the motion's own
    length, and work that two rules do not agree on is NaN."""
    machine, times = da.prepare(driven(four_bar())), [0.0, 0.1, 6.5]
    found = jax.jit(lambda t: (lambda s: (s.q, s.v, s.work, s.status_code))(da.kinematics(machine, t, samples=times)))(
        6.5
    )
    host = da.kinematics(machine, 6.5, samples=times)
    np.testing.assert_allclose(found[0], host.q, atol=1e-11)
    np.testing.assert_allclose(found[1], host.v, atol=1e-10)
    np.testing.assert_allclose(found[2][1], host.work[1], atol=1e-5 * np.max(np.abs(host.work)))
    assert np.all(np.isnan(found[2][2, 1])) and int(found[3]) == da.simulation.Status.done.value


def test_a_batch_by_vmap():
    system = da.build(driven(slider_crank()))

    def at(speed):
        return da.kinematics(system.replace({"motor.coefficients": jnp.array([0.0, speed])}), 1.0, samples=3)

    found = jax.vmap(at)(jnp.array([1.0, SPEED]))
    assert len(found) == 2 and all(s is da.simulation.Status.done for s in found.status)
    assert abs(float(found.q[1, -1, 6]) - float(slider_position(1.0))) < ROUNDING


def test_the_helpers_close():
    """The independent construction of the four-bar's coupler: the tests above rest on it."""
    a, b, c, d = LENGTHS
    A, D = a * turned(0.3), np.array([d, 0.0])
    B = fourth(A, D, b, c, 1)
    assert np.linalg.norm(B - A) == pytest.approx(b) and np.linalg.norm(B - D) == pytest.approx(c)
