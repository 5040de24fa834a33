"""Inputs and controllers: closed loops against closed forms, exact recursions and published models; wrong uses."""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm, solve_continuous_are
from test_mechanisms import C1, K0, K2
from test_mechanisms import M as M_BICYCLE

import dalembert as da

GAINS = {"goal": 0.5, "kp": 40.0, "kd": 20.0, "ki": 10.0}
MASS = 2.0
RATE = 20.0  # Hz, of the sampled controller


def cart() -> da.Model:
    """A mass on a rail that an input pushes."""
    m = da.Model("cart")
    body = m.body("cart", mass=MASS, inertia=1.0)
    rail = m.prismatic("rail", m.ground, body, at=(0, 0), axis=(1, 0))
    m.joint_force("push", rail, m.input("u", unit="N"))
    m.measure("x", "coordinate", rail)
    return m


@functools.cache
def controlled(coordinates: str, sampled: bool):
    m = cart()
    law = {"u": "kp*(goal - x) - kd*x.rate + ki*sum"}
    if sampled:
        updates = {"sum": f"sum + (goal - x)/{RATE}"}
        m.controller("pid", sample_rate=RATE, states={"sum": 0.0}, updates=updates, outputs=law, parameters=GAINS)
    else:
        m.controller("pid", states={"sum": 0.0}, rates={"sum": "goal - x"}, outputs=law, parameters=GAINS)
    return da.build(m, coordinates=coordinates)


def linear(A, b, t):
    """x(t) of ẋ = A x + b from rest, by the exponential of a matrix."""
    n = len(A)
    whole = np.zeros((n + 1, n + 1))
    whole[:n, :n], whole[:n, n] = A, b
    return expm(whole * t)[:n, n]


def continuous(t, kp=GAINS["kp"]):
    """Position, velocity and sum under the continuous law."""
    goal, kd, ki = GAINS["goal"], GAINS["kd"], GAINS["ki"]
    A = np.array([[0, 1, 0], [-kp / MASS, -kd / MASS, ki / MASS], [-1, 0, 0]])
    return linear(A, np.array([0, kp * goal / MASS, goal]), t)


def recursion(ticks: int, kp=GAINS["kp"]):
    """Positions, sums and efforts at the ticks, exactly: between them the force is constant."""
    T, goal = 1 / RATE, GAINS["goal"]
    x, total = np.zeros(2), 0.0
    positions, sums, efforts = [], [], []
    for _ in range(ticks):
        u = kp * (goal - x[0]) - GAINS["kd"] * x[1] + GAINS["ki"] * total
        total = total + (goal - x[0]) * T
        positions.append(x[0])
        sums.append(total)
        efforts.append(u)
        x = np.array([x[0] + T * x[1] + T * T / 2 * u / MASS, x[1] + T * u / MASS])
    return np.array(positions), np.array(sums), np.array(efforts)


# ---- against closed forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_a_continuous_pi_controlled_mass_follows_the_closed_form(coordinates):
    """To 1e-9 of half a metre; rtol 1e-10, whose steps add up to 9e-12 (measured)."""
    solution = da.simulate(controlled(coordinates, False), 3.0, rtol=1e-10, samples=31)
    exact = np.array([continuous(t) for t in solution.t])
    found = solution.measurements
    np.testing.assert_allclose(found["x"], exact[:, 0], atol=1e-9)
    np.testing.assert_allclose(found["x.rate"], exact[:, 1], atol=1e-9)
    np.testing.assert_allclose(found["pid.sum"], exact[:, 2], atol=1e-9)
    assert solution.restart.engine == "native"
    # the force does work, and nothing is lost
    assert solution.energy_drift < 1e-9


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_sampled_controller_is_exact_at_its_ticks(coordinates, engine):
    """A force held between ticks moves a mass on parabolas, which a Runge–Kutta method integrates exactly: to rounding
    of 60 steps, 1e-14 m, and its gain of 40 N/m in the effort."""
    system = controlled(coordinates, True)
    count = 61
    solution = da.simulate(system, (count - 1) / RATE, samples=np.arange(count) / RATE, engine=engine)
    positions, sums, efforts = recursion(count)
    found = solution.measurements
    np.testing.assert_allclose(found["x"], positions, atol=1e-14)
    np.testing.assert_allclose(found["pid.sum"], sums, atol=1e-14)
    np.testing.assert_allclose(found["u"], efforts, atol=1e-12)
    # ticks cut steps, but do not make them shorter than that: one a tick after the first few
    assert solution.stats["accepted"] < count + 20


def test_times_between_ticks_and_ticks_that_rounding_moves():
    """Saved between ticks the effort is that of the tick before; 3 · 0.05 is not 0.15, but is a tick."""
    system = controlled("absolute", True)
    _, sums, efforts = recursion(5)
    times = [0.0, 0.02, 0.05, 0.07, 0.1, 3 * 0.05, 0.19]
    found = da.simulate(system, 0.2, samples=times).measurements
    np.testing.assert_allclose(found["u"], efforts[[0, 0, 1, 1, 2, 3, 3]], atol=1e-12)
    np.testing.assert_allclose(found["pid.sum"], sums[[0, 0, 1, 1, 2, 3, 3]], atol=1e-14)


def test_a_sampled_run_goes_on_bit_for_bit_and_comes_back_from_a_file(tmp_path):
    system = controlled("absolute", True)
    whole = da.simulate(system, 3.0, samples=61)
    half = da.simulate(system, 1.234, samples=np.arange(25) / RATE)
    path = half.to_netcdf(tmp_path / "half.nc")
    again = da.open(path)
    np.testing.assert_array_equal(again.measurements["pid.sum"], half.measurements["pid.sum"])
    for start in (half, again):
        on = da.simulate(start.system, 3.0, after=start, samples=np.arange(25, 61) / RATE)
        np.testing.assert_array_equal(on.q, whole.q)


def test_fixed_steps_must_end_at_the_ticks():
    system = controlled("absolute", True)
    found = da.simulate(system, 0.5, dt=0.01, integrator="rk4", samples=np.arange(11) / RATE).measurements
    np.testing.assert_allclose(found["x"], recursion(11)[0], atol=1e-14)
    with pytest.raises(
        da.errors.DalembertError, match="'pid' is sampled every 0.05 s, which is no whole number of steps"
    ):
        da.simulate(system, 0.5, dt=0.02)


MOTOR = {"U": 12.0, "R": 2.0, "L": 0.01, "k": 0.1}


def motor() -> da.Model:
    """A rotor with viscous friction whose torque is that of a current with inductance."""
    m = da.Model("motor")
    rotor = m.body("rotor", mass=1.0, inertia=1e-3)
    shaft = m.revolute("shaft", m.ground, rotor, at=(0, 0))
    m.joint_spring("friction", shaft, damping=1e-3)
    m.joint_force("torque", shaft, m.input("T", unit="N m"))
    m.controller(
        "winding",
        states={"current": 0.0},
        rates={"current": "(U - R*current - k*shaft.angle_rate)/L"},
        outputs={"T": "k*current"},
        scales={"current": 6.0},
        parameters=MOTOR,
    )
    m.measure("speed", "formula", "shaft.angle_rate", unit="rad/s")
    m.measure("heat", "formula", "R*winding.current^2", unit="W", parameters={"R": MOTOR["R"]})
    m.measure("given", "power", "torque")
    return m


def test_a_motor_with_current_follows_the_closed_form():
    """Two coupled first-order equations, to 1e-9 of 60 rad/s and 6 A."""
    solution = da.simulate(motor(), 0.2, rtol=1e-10, samples=21)
    A = np.array([[-MOTOR["R"] / MOTOR["L"], -MOTOR["k"] / MOTOR["L"]], [MOTOR["k"] / 1e-3, -1e-3 / 1e-3]])
    exact = np.array([linear(A, np.array([MOTOR["U"] / MOTOR["L"], 0.0]), t) for t in solution.t])
    found = solution.measurements
    np.testing.assert_allclose(found["winding.current"], exact[:, 0], atol=1e-9 * 6)
    np.testing.assert_allclose(found["speed"], exact[:, 1], atol=1e-9 * 60)
    np.testing.assert_allclose(found["heat"], MOTOR["R"] * exact[:, 0] ** 2, atol=1e-9 * 72)
    np.testing.assert_allclose(found["given"], MOTOR["k"] * exact[:, 0] * exact[:, 1], atol=1e-9 * 36)
    assert found["heat"].attrs["units"] == "W" and found["speed"].attrs["unique"]


def test_a_rider_at_1_kHz_keeps_the_bicycle_upright():
    """Whipple's bicycle at 2 m/s, which falls by itself, under a linear law on the steering torque, sampled at 1 kHz.

    For a small lean it must follow the published linear model [Meijaard et al. 2007] under the exact recursion of
    sampled feedback: to 1e-7 of its largest lean of 1.4e-5 rad (nonlinear terms are of its square; measured 3e-9).
    From a lean rate of 0.2 rad/s it must come upright.
    """
    speed, h = 2.0, 1e-3
    stiffness, damping = 9.81 * K0 + speed**2 * K2, speed * C1
    A = np.block(
        [[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(M_BICYCLE, stiffness), -np.linalg.solve(M_BICYCLE, damping)]]
    )
    b = np.concatenate([np.zeros(2), np.linalg.solve(M_BICYCLE, [0.0, 1.0])])
    assert np.max(np.linalg.eigvals(A).real) > 1.0  # it falls
    gains = b @ solve_continuous_are(A, b[:, None], np.diag([1e3, 1e2, 1e2, 1e1]), np.eye(1))
    step = expm(np.block([[A, b[:, None]], [np.zeros((1, 5))]]) * h)

    def ridden(lean_rate):
        m = da.mechanism("bicycle", speed=speed, lean_rate=lean_rate)
        m.measure("lean", "angle", m.ground, "frame", axis=(1, 0, 0))
        m.joint_force("hands", "head", m.input("u", unit="N m"))
        law = {"u": "-(k0*lean + k1*head.angle + k2*lean.rate + k3*head.angle_rate)"}
        m.controller("rider", sample_rate=1 / h, outputs=law, parameters={f"k{k}": x for k, x in enumerate(gains)})
        return da.simulate(da.build(m, coordinates="joint"), 2.0, samples=41)

    x = np.array([0.0, 0.0, 1e-4, 0.0])
    leans = [x[0]]
    for k in range(1, 2001):
        x = step[:4, :4] @ x - step[:4, 4] * (gains @ x)
        leans += [x[0]] if k % 50 == 0 else []
    small = ridden(1e-4)
    np.testing.assert_allclose(small.measurements["lean"], leans, atol=1e-7 * np.max(np.abs(leans)))
    assert small.stats["accepted"] < 2050
    upright = ridden(0.2).measurements
    assert np.max(np.abs(upright["lean"])) > 0.02
    assert abs(upright["lean"][-1]) < 0.02 * np.max(np.abs(upright["lean"]))


def test_a_filter_sets_nothing_and_may_read_an_acceleration(tmp_path):
    """A first-order filter of an acceleration sin t: z(t) in closed form, to 1e-9. And what is counted up: the work of
    the push, which is the kinetic energy; at 20 Hz the number of ticks. Also where nothing is measured, and from a
    file."""
    m = cart()
    m.replace("u", value="2*sin(t)")
    m.measure("power", "power", "push")
    m.controller("filter", states={"z": 0.0}, rates={"z": "(x.acceleration - z)/0.2"})
    m.controller("meter", states={"work": 0.0}, rates={"work": "power"})
    m.controller("clock", sample_rate=20.0, states={"n": 0.0}, updates={"n": "n + 1"})
    da.save(m, tmp_path / "filter.yaml")
    assert da.load(tmp_path / "filter.yaml") == m and repr(m.controllers["meter"]).endswith("of work")
    for coordinates in ("absolute", "joint"):
        solution = da.simulate(da.build(m, coordinates=coordinates), 2.0, rtol=1e-10, samples=11)
        t, tau, found = np.asarray(solution.t), 0.2, solution.measurements
        exact = (np.sin(t) - tau * np.cos(t) + tau * np.exp(-t / tau)) / (1 + tau**2)
        np.testing.assert_allclose(found["filter.z"], exact, atol=1e-9)
        np.testing.assert_allclose(found["meter.work"], 0.5 * MASS * (1 - np.cos(t)) ** 2, atol=1e-9)
        np.testing.assert_array_equal(found["clock.n"], 1 + np.round(20.0 * t))
    bare = da.Model("rotor")
    bare.body("rotor", mass=1.0, inertia=1.0, angular_velocity=3.0)
    bare.revolute("pin", bare.ground, "rotor", at=(0, 0))
    bare.controller("sum", states={"angle": 0.0}, rates={"angle": "pin.angle_rate"})
    found = da.simulate(bare, 1.0, samples=3).measurements
    np.testing.assert_allclose(found["sum.angle"], [0.0, 1.5, 3.0], atol=1e-12)


@functools.cache
def rows_of_the_how_to() -> dict[str, list[dict[str, str]]]:
    """States, rates and outputs of "other things with states", as they stand in the how-to."""
    page = Path(__file__).parents[1] / "docs" / "how_to" / "measurements_and_control.md"
    rows = (line.split("|")[1:-1] for line in page.read_text().splitlines() if line.startswith("|"))
    told = {name.strip(): [c.strip().strip("`") for c in cells] for name, *cells in rows if len(cells) == 3}
    return {n: [dict([c.split(": ", 1)]) for c in cells] for n, cells in told.items() if all(":" in c for c in cells)}


def stated(m: da.Model, row: str, **parameters) -> da.Model:
    """A model with one of these as its controller."""
    states, rates, outputs = rows_of_the_how_to()[row]
    m.controller("it", states={k: float(x) for k, x in states.items()}, rates=rates, outputs=outputs,
                 parameters=parameters)  # fmt: skip
    return m


def test_a_cylinder_with_oil_as_the_how_to_states_it():
    """p' = k/A (Q − A x'), m x'' = A p − d x' − c x: linear, by the exponential of a matrix to 1e-9 of 0.1 m."""
    stiffness, area, flow, damping, spring = 4e3, 2e-3, 1e-4, 30.0, 500.0
    m = da.Model("press")
    body = m.body("ram", mass=MASS, inertia=1.0)
    m.prismatic("rail", m.ground, body, at=(0, 0), axis=(1, 0))
    m.joint_spring("load", "rail", stiffness=spring, damping=damping)
    m.joint_force("oil", "rail", m.input("force", unit="N"))
    stated(m, "cylinder with oil", stiffness=stiffness, area=area, flow=flow)
    solution = da.simulate(m, 1.0, samples=11, rtol=1e-11)
    A = np.array([[0, 1, 0], [-spring / MASS, -damping / MASS, area / MASS], [0, -stiffness, 0]])
    exact = np.array([linear(A, np.array([0, 0, stiffness / area * flow]), t) for t in solution.t])
    found = solution.measurements
    np.testing.assert_allclose(found["it.p"], exact[:, 2], rtol=1e-9, atol=1e-9 * np.max(exact[:, 2]))
    np.testing.assert_allclose(solution.q[:, 0], exact[:, 0], atol=1e-9 * 0.1)


def test_the_other_rows_of_the_how_to():
    """A motor's current and speed by the exponential of a matrix; a filter in a loop, y = y∞ (1 − exp(−λt)) with
    λ = (1 + gain/m)/τ; bristles at a given speed, z = g/s₀ (1 − exp(−s₀ v t/g))."""
    m = da.Model("motor")
    m.body("rotor", mass=1.0, inertia=1e-3)
    m.revolute("shaft", m.ground, "rotor", at=(0, 0))
    m.joint_force("turn", "shaft", m.input("torque", unit="N m"))
    solution = da.simulate(stated(m, "motor with current", **MOTOR), 0.1, samples=6, rtol=1e-11)
    A = np.array([[-MOTOR["R"] / MOTOR["L"], -MOTOR["k"] / MOTOR["L"]], [MOTOR["k"] / 1e-3, 0.0]])
    exact = np.array([linear(A, np.array([MOTOR["U"] / MOTOR["L"], 0.0]), t) for t in solution.t])
    np.testing.assert_allclose(solution.measurements["it.i"], exact[:, 0], atol=1e-9 * 6)

    m = cart()
    m.force("load", "cart", (3.0, 0))
    solution = da.simulate(stated(m, "first-order filter", gain=4.0, tau=0.2), 1.0, samples=6, rtol=1e-11)
    rate, end = (1 + 4.0 / MASS) / 0.2, 3.0 / MASS / (1 + 4.0 / MASS)
    y = end * (1 - np.exp(-rate * np.asarray(solution.t)))
    np.testing.assert_allclose(solution.measurements["it.y"], y, atol=1e-9)

    m = cart()
    m.joint_force("rub", "rail", m.input("friction", unit="N"))
    m.speed_driver("drive", "rail", 0.1)
    m.measure("v", "formula", "rail.displacement_rate", unit="m/s")
    m.measure("needed", "effort", "drive")
    solution = da.simulate(stated(m, "bristles (LuGre)", s0=1e5, s2=0.4, g=3.0), 2e-3, samples=6, rtol=1e-11)
    force = 3.0 * (1 - np.exp(-1e5 * 0.1 / 3.0 * np.asarray(solution.t))) + 0.4 * 0.1
    np.testing.assert_allclose(solution.measurements["needed"], force, atol=1e-7)  # z by atol 1e-14 of 3e-5, times s₀


# ---- inputs --------------------------------------------------------------------------------------------------------


def test_an_input_is_a_number_a_formula_a_function_or_data():
    """The same push, said in every way; a polyline pushes by its own straight lines, whose integrals are known."""
    system = da.build(cart())
    t = np.linspace(0.0, 1.0, 5)
    for u in (3.0, "3", da.functions.constant(3.0), lambda t: 3.0 + 0.0 * t, jnp.asarray(3.0)):
        found = da.simulate(system, 1.0, samples=t, inputs={"u": u}).measurements
        np.testing.assert_allclose(found["x"], 3.0 / MASS * t**2 / 2, atol=1e-12)
    np.testing.assert_allclose(da.simulate(system.replace({"u": 3.0}), 1.0, samples=t).q[:, 0], 0.75 * t**2, atol=1e-12)
    found = da.simulate(system, 1.0, samples=t, inputs={"u": ([0.0, 0.5, 1.0], [0.0, 2.0, 0.0])}).measurements
    np.testing.assert_allclose(found["u"], [0.0, 1.0, 2.0, 1.0, 0.0], atol=1e-15)
    # a ramp of 4 N/s for half a second, and down again: m x = ∫∫ u dt²; the step control passes the bend to 1e-10
    s = np.maximum(t - 0.5, 0.0)
    exact = (4 * (t - s) ** 3 / 6 + 0.5 * s + s**2 - 4 * s**3 / 6) / MASS
    np.testing.assert_allclose(found["x"], exact, atol=1e-9)


def test_data_that_do_not_cover_a_run_are_told():
    """Beyond its ends a polyline goes on as it was: a ramp of 8 N/s up to 4 N is 8 N after a second, x = 8/(6 m)."""
    system = da.build(cart())
    with pytest.warns(da.errors.DataWarning, match="Input 'u': its data are from 0 to 0.5 s, the run from 0 to 1 s"):
        found = da.simulate(system, 1.0, samples=2, inputs={"u": ([0.0, 0.5], [0.0, 4.0])}).measurements
    np.testing.assert_allclose(found["x"][-1], 8 / 6 / MASS, atol=1e-12)


def test_a_parameter_called_breaks_is_no_data():
    """Data are known by what the function is, not by the names of its numbers."""
    push = {"expression": {"text": "breaks*t", "parameters": {"breaks": 8.0}}}
    found = da.simulate(da.build(cart()), 1.0, samples=2, inputs={"u": push}).measurements
    np.testing.assert_allclose(found["x"][-1], 8 / 6 / MASS, atol=1e-12)


def test_an_input_under_jit_and_its_derivative():
    machine = da.prepare(cart())

    def end(u):
        return da.simulate(machine, 1.0, samples=2, inputs={"u": u}, derivative="forward").q[-1, 0]

    np.testing.assert_allclose(jax.jit(jax.jacfwd(end))(3.0), 0.5 / MASS, rtol=1e-12)


def test_data_of_an_input_may_be_traced():
    """A triangle of height a in a second: its impulse is a/2, and by symmetry x(1) = a/4/m."""
    machine = da.prepare(cart())

    def end(a, times=(0.0, 0.5, 1.0)):
        data = (times, jnp.stack([0.0 * a, a, 0.0 * a]))
        return da.simulate(machine, 1.0, samples=2, inputs={"u": data}, rtol=1e-10, derivative="forward").q[-1, 0]

    value, slope = jax.jit(lambda a: jax.jvp(end, (a,), (1.0,)))(4.0)
    np.testing.assert_allclose([value, slope], [1.0 / MASS, 0.25 / MASS], rtol=1e-8)  # the step control finds the bend
    with pytest.raises(da.errors.DalembertError, match="'u' of system 'cart': inside jit, .* their times may not"):
        jax.jit(lambda a: end(1.0, jnp.stack([0.0, a, 1.0])))(0.5)
    with pytest.raises(da.errors.DalembertError, match="2 times and values of shape .* do not pair up"):
        jax.jit(lambda a: end(a, (0.0, 1.0)))(0.5)


def test_a_driver_by_an_input_has_its_rates(tmp_path):
    """A driver that follows an input: positions, speeds, accelerations and effort of the function itself."""
    m = da.Model("driven")
    body = m.body("slider", mass=MASS, inertia=1.0)
    rail = m.prismatic("rail", m.ground, body, at=(0, 0), axis=(1, 0))
    m.input("way", unit="m")
    m.driver("drive", rail, "1.5*way")
    m.measure("x", "coordinate", rail)
    m.measure("effort", "effort", "drive")
    m.measure("power", "power", "drive")
    move = da.functions.harmonic(0.2, 3.0, phase=np.pi / 2)
    for coordinates in ("absolute", "joint"):
        system = da.build(m, coordinates=coordinates).with_inputs({"way": move})
        solution = da.simulate(system, 1.0, samples=11, rtol=1e-10)
        t, found = np.asarray(solution.t), solution.measurements
        np.testing.assert_allclose(found["x"], 0.3 * np.cos(3 * t), atol=1e-12)
        np.testing.assert_allclose(found["x.rate"], -0.9 * np.sin(3 * t), atol=1e-11)
        np.testing.assert_allclose(found["x.acceleration"], -2.7 * np.cos(3 * t), atol=1e-10)
        np.testing.assert_allclose(found["effort"], -2.7 * MASS * np.cos(3 * t), atol=1e-9)
        np.testing.assert_allclose(found["power"], 2.7 * 0.9 * MASS * np.cos(3 * t) * np.sin(3 * t), atol=1e-9)
    again = da.open(solution.to_netcdf(tmp_path / "driven.nc"))  # the file holds the input that was given
    np.testing.assert_array_equal(again.system.parameters()["way.amplitude"], 0.2)
    with pytest.raises(da.errors.DalembertError, match="uses input 'way', which is linear between its points"):
        system.with_inputs({"way": ([0.0, 1.0], [0.0, 1.0])})


# ---- springs by inputs -------------------------------------------------------------------------------------------


def sprung(kind: str, stiffness, free) -> da.Model:
    """A mass on a rail with a spring whose stiffness and rest may be inputs k and w."""
    m = cart()
    m.input("k", "8")
    m.input("w", unit="m")
    if kind == "joint":
        m.joint_spring("spring", "rail", stiffness=stiffness, free=free)
    else:  # 5 m long where it rests at w = 0
        m.spring_damper("spring", m.ground, "cart", stiffness=stiffness, length=free, at_i=(-5, 0), at_j=(0, 0))
    m.measure("pull", "effort", "spring")
    m.measure("power", "power", "spring")
    return m


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
@pytest.mark.parametrize("kind", ["joint", "line"])
def test_springs_by_inputs(kind, coordinates, tmp_path):
    """Free length 0.3 sin 5t: a forced oscillation; stiffness m c/(1 + t)² with c = 3/16: from x = 1 on it is
    1.5 (1 + t)^¼ − ½ (1 + t)^¾ [Cauchy–Euler]. To 1e-9, of rtol 1e-10; from a file the same."""
    rest = "w" if kind == "joint" else "5 + w"
    model = sprung(kind, "k", rest)
    da.save(model, tmp_path / "spring.yaml")
    assert da.load(tmp_path / "spring.yaml") == model
    system = da.build(da.load(tmp_path / "spring.yaml"), coordinates=coordinates)
    motion = {"samples": 9, "rtol": 1e-10, "atol": 1e-12}
    solution = da.simulate(system, 2.0, inputs={"w": "0.3*sin(5*t)"}, **motion)
    t, found, w = np.asarray(solution.t), solution.measurements, 2.0  # ω² = 8/2
    x = 0.3 * w**2 / (w**2 - 25) * (np.sin(5 * t) - 5 / w * np.sin(w * t))
    np.testing.assert_allclose(found["x"], x, atol=1e-9)
    sign = 1 if kind == "joint" else -1  # along the coordinate, and as a pull
    effort = -8.0 * (x - 0.3 * np.sin(5 * t))
    np.testing.assert_allclose(sign * found["pull"], effort, atol=1e-8)
    np.testing.assert_allclose(found["power"], effort * found["x.rate"], atol=1e-8)
    assert solution.energy_drift < 1e-8 and float(solution.energy["potential"][-1]) == 0.0
    start = (np.array([1.0, 0, 0]), None) if coordinates == "absolute" else (np.array([1.0]), None)
    found = da.simulate(system, 2.0, start, inputs={"k": "2*(3/16)/(1 + t)^2"}, **motion).measurements
    np.testing.assert_allclose(found["x"], 1.5 * (1 + t) ** 0.25 - 0.5 * (1 + t) ** 0.75, atol=1e-9)


def test_a_spring_by_an_input_at_rest_its_derivative_and_its_rest_as_a_number(tmp_path):
    """x rests at w, which is found as the input that holds x; ∂x/∂k of x₀ cos √(k/m)t; "30 deg" stays a number."""
    system = da.build(sprung("joint", "k", "w"), coordinates="joint")
    assert da.equilibrium(system, inputs={"w": 0.2}).coordinates["rail.displacement"] == pytest.approx(0.2, abs=1e-12)
    held = da.equilibrium(system, hold={"rail.displacement": 0.35}, unknown=["w"])
    assert float(held.unknown["w"]) == pytest.approx(0.35, abs=1e-12)

    def end(k):
        found = da.simulate(
            system, 1.0, (np.array([1.0]), None), inputs={"k": k}, samples=2, rtol=1e-10, derivative="forward"
        )
        return found.measurements["x"][-1]  # fmt: skip

    value, slope = jax.jit(lambda k: jax.jvp(end, (k,), (1.0,)))(8.0)
    np.testing.assert_allclose([value, slope], [np.cos(2.0), -np.sin(2.0) / 8], atol=1e-8)  # d√(k/m)/dk = ω/(2k)
    da.save(sprung("joint", 8.0, 0.5), tmp_path / "spring.yaml")
    text = (tmp_path / "spring.yaml").read_text()
    assert "free: 0.5" in text
    (tmp_path / "spring.yaml").write_text(text.replace("free: 0.5", "free: 30 deg"))
    assert da.build(da.load(tmp_path / "spring.yaml")).parameters()["spring.free"] == pytest.approx(np.pi / 6)


def test_a_controller_moves_a_springs_rest_and_a_ball_stiffens():
    """The rest follows x's goal with a lag: linear, by the exponential of a matrix. A ball's spring J c/(1 + t)² about
    a fixed axis, from φ̇ = 0.1: φ = 0.2 ((1 + t)^¾ − (1 + t)^¼)."""
    m = sprung("joint", 8.0, "w")
    m.controller("lag", states={"z": 0.0}, rates={"z": "(1 - z - x)/0.5"}, outputs={"w": "z"})
    solution = da.simulate(m, 2.0, samples=5, rtol=1e-10)
    A = np.array([[0, 1, 0], [-4, 0, 4], [-2, 0, -2]])
    exact = np.array([linear(A, np.array([0, 0, 2.0]), t) for t in solution.t])
    np.testing.assert_allclose(solution.measurements["x"], exact[:, 0], atol=1e-9)
    ball = da.Model("ball", space="space")
    body = ball.body("body", mass=1.0, inertia=(0.5,) * 3, angular_velocity=(0.0, 0.06, 0.08))
    ball.spherical("centre", ball.ground, body, at=(0, 0, 0))
    ball.joint_spring("spring", "centre", stiffness=ball.input("k", "0.5*(3/16)/(1 + t)^2"))
    ball.measure("turn", "angle", ball.ground, body, axis=(0, 0.6, 0.8))
    for coordinates in ("absolute", "joint"):
        found = da.simulate(da.build(ball, coordinates=coordinates), 2.0, samples=5, rtol=1e-10).measurements
        s = 1 + found["time"].values
        np.testing.assert_allclose(found["turn"], 0.2 * (s**0.75 - s**0.25), atol=1e-9)


# ---- derivatives and batches -------------------------------------------------------------------------------------


def test_a_motors_end_current_by_its_resistance():
    """Under jit and jacfwd, against the exponential of a matrix and its differences (1e-9): 1e-6."""
    machine, k, drag, J = da.prepare(motor()), MOTOR["k"], 1e-3, 1e-3

    def end(R):
        solution = da.simulate(machine.replace({"winding.R": R}), 0.05, samples=2, rtol=1e-11, derivative="forward")
        return solution.measurements["winding.current"][-1]

    def exact(R):
        A = np.array([[-R / MOTOR["L"], -k / MOTOR["L"]], [k / J, -drag / J]])
        return linear(A, np.array([MOTOR["U"] / MOTOR["L"], 0.0]), 0.05)[0]

    near, h = [exact(2.0 + n * 1e-3) for n in (-2, -1, 1, 2)], 1e-3
    np.testing.assert_allclose(jax.jit(end)(2.0), exact(2.0), rtol=1e-8)
    numeric = (8 * (near[2] - near[1]) - (near[3] - near[0])) / (12 * h)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(end))(2.0), numeric, rtol=1e-6)


@pytest.mark.parametrize("way", ["forward", pytest.param("reverse", marks=pytest.mark.thorough)])
def test_a_derivative_of_a_measurement_by_a_gain_of_a_sampled_controller(way):
    """Against differences of the exact recursion, 1e-6."""
    machine, h = da.prepare(controlled("absolute", True)), 1e-4

    def end(kp):
        changed = machine.replace({"pid.kp": kp})
        s = da.simulate(changed, 0.5, samples=2, rtol=1e-10, max_steps=200, derivative=way)
        return changed.system.measured(s.t[-1], s.q[-1], s.v[-1], only=(0,))[0]

    slope = (recursion(11, 40.0 + h)[0][-1] - recursion(11, 40.0 - h)[0][-1]) / (2 * h)
    found = jax.jit((jax.jacfwd if way == "forward" else jax.grad)(end))(40.0)
    np.testing.assert_allclose(found, slope, rtol=1e-6)


def test_derivatives_by_a_gain_of_a_continuous_controller():
    runs = da.simulate_many(
        controlled("absolute", False), {"pid.kp": [40.0]}, 1.0, samples=5, derivatives=["pid.kp"], rtol=1e-10
    )
    slope = [(continuous(t, 40.0 + 1e-4) - continuous(t, 40.0 - 1e-4))[[0, 2]] / 2e-4 for t in runs.t[0]]
    np.testing.assert_allclose(runs.derivatives.q[0, 0][:, [0, 3]], slope, atol=1e-9)


def test_many_sampled_runs_and_their_derivatives():
    gains = np.array([30.0, 40.0, 50.0])
    runs = da.simulate_many(
        controlled("absolute", True), {"pid.kp": gains}, 1.0, samples=21, derivatives=["pid.kp"], rtol=1e-10
    )
    for k, kp in enumerate(gains):
        np.testing.assert_allclose(runs.q[k, :, 0], recursion(21, kp)[0], atol=1e-14)
        slope = (recursion(21, kp + 1e-4)[0] - recursion(21, kp - 1e-4)[0]) / 2e-4
        np.testing.assert_allclose(runs.derivatives.q[k, 0, :, 0], slope, atol=1e-9)
    assert runs.measurements.sizes == {"run": 3, "time": 21}
    with pytest.raises(da.errors.DalembertError, match="must be the same for all members"):
        da.simulate_many(controlled("absolute", True), {"pid.sample_rate": gains}, 1.0)


# ---- a person's own equations ------------------------------------------------------------------------------------


def test_a_function_system_has_inputs_measurements_and_controllers():
    m = da.model
    controls = [
        m.InputEntry("u", unit="N"),
        m.MeasuredFunction("x", lambda t, q, v, vdot, r: q[0], needs="positions", unit="m"),
        m.MeasuredFunction("w", lambda t, q, v, vdot, r: v[0], needs="velocities"),
        m.MeasuredFunction("pull", lambda t, q, v, vdot, r: r[0]),
        m.MeasuredFormula("off", "0.5 - x"),
        m.Controller("pid", states={"sum": 0.0}, rates={"sum": "off"}, outputs={"u": "40*off - 20*w + 10*sum"}),
    ]
    system = da.FunctionSystem(
        lambda t, q, p: MASS * np.eye(1), lambda t, q, v, p: p["u"][None], q0=[0.0], controls=controls, name="own"
    )
    solution = da.simulate(system, 3.0, rtol=1e-10, samples=7)
    exact = np.array([continuous(t) for t in solution.t])
    found = solution.measurements
    np.testing.assert_allclose(found["x"], exact[:, 0], atol=1e-9)
    np.testing.assert_allclose(found["pid.sum"], exact[:, 2], atol=1e-9)
    np.testing.assert_array_equal(found["pull"], 0.0)
    with pytest.raises(da.errors.DalembertError, match=r"MeasuredPoint\(.*needs bodies"):
        da.FunctionSystem(lambda t, q: np.eye(1), lambda t, q, v: q, q0=[0.0], controls=[m.MeasuredPoint("p", "b")])


def test_python_functions_in_place_of_formulas():
    m = cart()

    def law(t, y, z, p):
        return p["kp"] * (p["goal"] - y[0]) - p["kd"] * y[1] + p["ki"] * z[0]

    m.controller(
        "pid",
        reads=["x", "x.rate"],
        states={"sum": 0.0},
        rates=lambda t, y, z, p: [p["goal"] - y[0]],
        outputs={"u": law},
        parameters=GAINS,
    )
    solution = da.simulate(m, 1.0, rtol=1e-10, samples=3)
    np.testing.assert_allclose(solution.measurements["x"][-1], continuous(1.0)[0], atol=1e-9)
    with pytest.raises(da.errors.DalembertError, match="controller 'pid' has a Python function as outputs"):
        da.save(m, "pid.yaml")


# ---- wrong uses --------------------------------------------------------------------------------------------------


def control(**arguments) -> da.Model:
    m = cart()
    m.controller("c", **({"outputs": {"u": "-x"}} | arguments))
    return m


def measure(*what, **arguments) -> da.Model:
    m = cart()
    m.measure("new", *what, **arguments)
    return m


def two_controllers():
    m = control()
    m.controller("d", outputs={"u": "1"})
    return m


def loop():
    m = cart()
    m.measure("a", "formula", "b + 1")
    m.measure("b", "formula", "2*a")
    return m


def driven():
    m = cart()
    m.input("w")
    m.driver("drive", "rail", "w")
    m.controller("c", outputs={"w": "x.rate"})
    return m


def own_effort():
    m = cart()
    m.measure("felt", "effort", "push")
    m.controller("c", outputs={"u": "1 - 0.1*felt"})
    return m


def named_t():
    m = cart()
    m.measure("t", "coordinate", "rail")
    return m


WRONG = {
    "there is no body or marker 'crat'. Did you mean 'cart'?": lambda: measure("point", "crat"),
    "Measurement 'new': 'y' is unknown; it may read measurements": lambda: measure("formula", "2*y"),
    "there is no joint 'rial'": lambda: measure("coordinate", "rial"),
    "there is no joint, driver or force 'pull'": lambda: measure("power", "pull"),
    "'rail' (prismatic) acts on no single coordinate": lambda: measure("effort", "rail"),
    "component must be one of Fx, Fy, Mz": lambda: measure("reaction", "rail", component="Mx"),
    "Controller 'c': there is no input 'v'. ": lambda: control(outputs={"v": "1"}),
    "Controller 'c': 'xx' is unknown; it may read": lambda: control(outputs={"u": "xx"}),
    "Measurement 'a' depends on itself (a → b → a): an algebraic loop": loop,
    "Controller 'c' reads what it sets (u → u): an algebraic loop": lambda: control(outputs={"u": "x + u"}),
    "Controller 'c' reads what it sets (felt → u → felt): an algebraic loop": own_effort,
    "Controller 'c' sets 'u' by 'x.acceleration', an acceleration": lambda: control(outputs={"u": "-x.acceleration"}),
    "sample_rate must be greater than zero, not 0": lambda: control(sample_rate=0.0),
    "sample_rate must be greater than zero, not -10": lambda: control(sample_rate=-10.0),
    "a sampled controller has updates": lambda: control(sample_rate=1.0, states={"z": 0}, rates={"z": "x"}),
    "updates are those of a sampled controller": lambda: control(states={"z": 0}, updates={"z": "x"}),
    "give rates= for its states z": lambda: control(states={"z": 0}),
    "give outputs, the inputs that it sets, or states that it keeps": lambda: control(outputs=None),
    "outputs must be names of inputs with formulas, not {}": lambda: control(outputs={}),
    "rates: that of state 'w' is missing": lambda: control(states={"z": 0, "w": 0}, rates={"z": "x"}),
    "rates: there is no state 'y'": lambda: control(states={"z": 0}, rates={"z": "x", "y": "x"}),
    "'z' is a state and a parameter": lambda: control(states={"z": 0}, rates={"z": "x"}, parameters={"z": 1}),
    "Input 'u' is set by two controllers, 'c' and 'd'": two_controllers,
    "Driver 'drive' uses input 'w', which controller 'c' sets": driven,
    "Controller 'c': 'x' is its own state or parameter, and a measurement": lambda: control(parameters={"x": 1.0}),
    "Controller 'c': 'u' is its own state": lambda: control(states={"u": 0}, rates={"u": "1"}, outputs={"u": "2*u"}),
    "Measurement 'new': 'x' is its own": lambda: measure("formula", "2*x", parameters={"x": 1.0}),
    "Measurement 't': formulas would take it for their own word": named_t,
    "outputs: u: expression 'x +': it ends too early": lambda: control(outputs={"u": "x +"}),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_uses_get_a_sentence(sentence):
    with pytest.raises(da.errors.ModelError) as caught:
        da.build(WRONG[sentence]())
    assert sentence.strip() in str(caught.value)
    assert len(caught.value.mistakes) == 1


def test_wrong_uses_of_built_systems_get_a_sentence():
    system = controlled("absolute", False)
    with pytest.raises(
        da.errors.DalembertError, match="measure: 'pint' is unknown; known are point.*Did you mean 'point'"
    ):
        cart().measure("p", "pint", "cart")
    with pytest.raises(da.errors.DalembertError, match="point: 'att' is unknown.*Did you mean 'at'"):
        cart().measure("p", "point", "cart", att=(0, 0))
    with pytest.raises(da.errors.DalembertError, match="Input 'u' of system 'cart' is set by controller 'pid'"):
        da.simulate(system, 1.0, inputs={"u": 1.0})
    with pytest.raises(da.errors.DalembertError, match="has no input 'w'; it has u"):
        da.simulate(cart(), 1.0, inputs={"w": 1.0})
    with pytest.raises(da.errors.DalembertError, match="has no input 'w'; it has none"):
        da.simulate(da.mechanism("pendulum"), 1.0, inputs={"w": 1.0})
    with pytest.raises(da.errors.DalembertError, match="Input 'u'.*sin\\(t"):
        da.simulate(cart(), 1.0, inputs={"u": "sin(t"})
    for wrong, words in (
        (lambda t: np.sin(t), "its function fails: it asks for the value of a number.*jax.numpy"),
        (lambda: 4.0, "its function fails: TypeError"), (lambda t: "a", "its function fails"),
        (lambda t: jnp.stack([t, t]), "its function fails: it returns 2 number\\(s\\), not 1"),
        (jnp.zeros(2), "is not a function of time"),
    ):  # fmt: skip
        with pytest.raises(da.errors.DalembertError, match=f"Input 'u'.*{words}"):
            da.simulate(cart(), 1.0, inputs={"u": wrong})
    for wrong, words in (
        (measure("function", lambda t, q, v, vdot, r: np.sin(q[0])), "Measurement 'new': its function fails: it asks"),
        (measure("function", lambda t, q, v, vdot, r: q[:2]), "Measurement 'new': its function fails: it returns 2"),
        (control(outputs={"u": lambda t, y: y[0]}), "Controller 'c': its function fails: TypeError"),
        (control(states={"a": 0, "b": 0}, rates=lambda t, y, z: [1.0]), "it returns 1 number\\(s\\), not 2"),
    ):  # fmt: skip
        with pytest.raises(da.errors.DalembertError, match=words):
            da.build(wrong)
    with pytest.raises(da.errors.DalembertError, match="the last 1 of them states of its controllers; got 3"):
        system.places(np.zeros(3))
    with pytest.raises(da.errors.DalembertError, match="Nothing is measured"):
        _ = da.simulate(da.mechanism("pendulum"), 0.1, samples=2).measurements


def test_a_start_may_leave_out_the_states_of_controllers():
    system = controlled("absolute", False)
    q = da.stabilise.consistent_state(system, (np.array([0.1, 0.0, 0.0]), np.zeros(3))).q
    np.testing.assert_allclose(q, [0.1, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "motion",
    ["abs(t - 0.3) - 0.3", lambda t: jnp.maximum(t, 0.3) - 0.3, da.functions.table([0, 0.3, 1], [0, 1, 0], degree=1)],
    ids=["formula", "own function", "straight lines"],
)
def test_a_driver_whose_speed_jumps_is_refused(motion):
    """Steps would pass over the corner: the end of an undriven link then depends on where they happened to fall."""
    model = da.Model("pair")
    upper = model.body("upper", mass=2.0, inertia=0.2, position=(0.5, 0))
    lower = model.body("lower", mass=1.0, inertia=0.1, position=(1.5, 0))
    model.revolute("shoulder", model.ground, upper, at=(0, 0))
    model.revolute("elbow", upper, lower, at=(1, 0))
    model.driver("drive", "shoulder", motion)
    with pytest.raises(da.errors.DalembertError, match=r"'drive' of 'pair': the speed .* jumps at t = 0\.3 s"):
        da.simulate(model, 1.0, samples=2)
    with pytest.raises(da.errors.DalembertError, match=r"'drive' of 'pair': the speed .* jumps at t = 0\.3 s"):
        da.simulate_many(model, {"lower.mass": [1.0, 2.0]}, 1.0, samples=2)


def test_drivers_are_looked_at_inside_programs():
    """A program that is being traced around the run does not keep drivers from being looked at, nor fails there."""
    model = da.Model("slide")
    block = model.body("block", mass=2.0, inertia=1.0)
    model.prismatic("rail", model.ground, block, at=(0, 0), axis=(1, 0))
    model.driver("drive", "rail", "max(0, t - 0.3)^2")
    smooth = da.build(model)
    model.replace("drive", motion="abs(t - 0.3) - 0.3")
    bent = da.build(model)

    def end(system, mass):
        return da.simulate(system.replace({"block.mass": mass}), 1.0, dt=0.1, samples=2).q[-1, 0]

    ends = jax.jit(jax.vmap(lambda mass: end(smooth, mass)))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(ends, 0.49, rtol=1e-12)
    with pytest.raises(da.errors.DalembertError, match="jumps at t = 0.3 s"):
        jax.jit(lambda mass: end(bent, mass))(1.0)


def test_only_jumps_of_the_speed_are_refused():
    """A corner of the speed is none of the position; a corner outside of the run is none of the run; inputs count."""
    model = da.Model("slide")
    block = model.body("block", mass=2.0, inertia=1.0)
    model.prismatic("rail", model.ground, block, at=(0, 0), axis=(1, 0))
    model.input("way")
    model.driver("drive", "rail", "way")
    for smooth in ("max(0, t - 0.3)^2", "abs(t - 5) - 5"):
        assert da.simulate(model, 1.0, samples=2, inputs={"way": smooth}).status == da.simulation.Status.done
    with pytest.raises(da.errors.DalembertError, match="jumps at t = 0.3 s"):
        da.simulate(model, 1.0, samples=2, inputs={"way": "abs(t - 0.3) - 0.3"})
    model.remove("drive")
    model.speed_driver("drive", "rail", "abs(t - 0.3)")
    assert da.simulate(model, 1.0, samples=2).status == da.simulation.Status.done
    model.replace("drive", speed="sign(t - 0.3)")
    with pytest.raises(da.errors.DalembertError, match="jumps at t = 0.3 s"):
        da.simulate(model, 1.0, samples=2)
