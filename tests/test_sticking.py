"""Dry friction that sticks, and brakes: phases, times and efforts against closed forms and independent integrations."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import dalembert as da
from dalembert.simulation._along import event_time

G = 9.81
THOROUGH = pytest.mark.thorough  # of another structure: compiling takes most of the time
BOTH = pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])


def times_of(solution, name=None) -> np.ndarray:
    """When the phases of a friction begin, without the start."""
    phases = list(solution.phases) if name is None else solution.phases.of(name)
    return np.array([p.start for p in phases])[1:]


def states_of(solution, name=None) -> list[str]:
    return [p.state for p in (solution.phases if name is None else solution.phases.of(name))]


def slider(name="slider", mass=2.0, velocity=0.0, position=0.0) -> da.Model:
    """A mass on a rail along x."""
    model = da.Model(name, gravity=(0, -G))
    block = model.body("block", mass=mass, inertia=0.1, position=(position, 0), velocity=(velocity, 0))
    model.prismatic("rail", model.ground, block, at=(0, 0), axis=(1, 0))
    return model


# ---- closed forms ----------------------------------------------------------------------------------------------------

M, K, N, STATIC, KINETIC, BELT = 1.3, 25.0, 4.0, 0.9, 0.5, 0.2


def belt() -> da.Model:
    """A mass on a belt of constant speed, held by a spring: the stick–slip oscillator."""
    model = da.Model("belt", gravity=(0, 0))
    band = model.body("band", mass=1.0, inertia=1.0, velocity=(BELT, 0))
    mass = model.body("mass", mass=M, inertia=0.1, velocity=(BELT, 0))
    model.prismatic("drive", model.ground, band, at=(0, 0), axis=(1, 0))
    model.driver("motor", "drive", da.functions.polynomial([0.0, BELT]))
    model.prismatic("contact", band, mass, at=(0, 0), axis=(1, 0))
    model.spring_damper("spring", model.ground, mass, at_i=(-1, 0), at_j=(0, 0), stiffness=K, length=1.0)
    model.dry_friction("rub", "contact", coulomb=KINETIC, static=STATIC, normal=N)
    return model


def belt_motion(end: float, mass=M, stiffness=K, kinetic=KINETIC, speed=BELT) -> tuple[np.ndarray, float, float]:
    """It sticks until K x = STATIC N, then M ẍ = KINETIC N − K x until ẋ is the speed of the belt again: when that
    changes, and where and how fast the mass is at an end at which it slips."""
    w, top, middle = np.sqrt(stiffness / mass), STATIC * N / stiffness, kinetic * N / stiffness
    A, B = top - middle, speed / w

    def slip(s):
        return -A * w * np.sin(w * s) + B * w * np.cos(w * s) - speed

    lasts = brentq(slip, 0.6 * np.pi / w, 2 * np.pi / w - 1e-6, xtol=1e-15)
    back = middle + A * np.cos(w * lasts) + B * np.sin(w * lasts)
    out = [top / speed]
    while out[-1] < end:
        out += [out[-1] + lasts, out[-1] + lasts + (top - back) / speed]
    times = np.array([t for t in out if t < end])
    s = end - times[-1]
    return times, middle + A * np.cos(w * s) + B * np.sin(w * s), speed + slip(s)


@BOTH
def test_stick_slip_oscillator(coordinates):
    solution = da.simulate(da.build(belt(), coordinates=coordinates), 12.0, samples=121, rtol=1e-10)
    wanted = belt_motion(12.0)[0]
    assert len(wanted) > 10
    np.testing.assert_allclose(times_of(solution), wanted, atol=1e-8)  # errors of rtol add up over the cycles
    assert states_of(solution) == ["stick", *["slip −", "stick"] * 20][: len(wanted) + 1]
    # the mass follows the belt to rounding while it sticks
    data = solution.dataset
    stuck = data["friction_side"].values[:, 0] == 0
    gap = data["velocity"].sel(body="mass", axis="x").values - BELT
    assert stuck.sum() > 40 and np.max(np.abs(gap[stuck])) < 1e-14
    # while it sticks friction balances the spring, and does no work on the belt beyond what the motor gives
    x = data["position"].sel(body="mass", axis="x").values
    effort = data["friction_effort"].values[:, 0]
    np.testing.assert_allclose(effort[stuck], (K * x)[stuck], atol=1e-8)
    np.testing.assert_allclose(effort[~stuck], KINETIC * N, rtol=1e-14)
    assert solution.energy_drift < 1e-9 and solution.violation["position"] < 1e-14


def sprung(stiffness=0.0, position=0.0, velocity=0.0, mass=2.0, load=None, coordinates="absolute", **friction):
    """A mass on a spring that is at rest at x = 0, with friction."""
    model = slider(mass=mass, position=position, velocity=velocity)
    model.joint_spring("spring", "rail", stiffness=stiffness, free=0.0 - position)  # zero at the start
    load = {} if load is None else {"normal": load}
    model.dry_friction("rub", "rail", **load, **friction)
    return da.build(model, coordinates=coordinates)


@pytest.mark.parametrize(
    ("coordinates", "own"),
    [("absolute", False), *(pytest.param(c, o, marks=THOROUGH) for c, o in (("absolute", True), ("joint", True)))],
)
def test_coulomb_damped_oscillator(coordinates, own):
    """Half swings of π/ω that shrink by 2F/K each, then it sticks; F by a given load, or by the rail's `own`."""
    load, half = 0.25 * M * G, np.pi / np.sqrt(K / M)
    given = {} if own else {"load": M * G}
    system = sprung(K, 1.0, mass=M, coulomb=0.25, coordinates=coordinates, **given)
    solution = da.simulate(system, 4.0, samples=[0.0, 1.0, 4.0], rtol=1e-10)
    amplitude, count = 1.0, 0
    while K * abs(amplitude) > load:
        amplitude, count = -(amplitude - np.sign(amplitude) * 2 * load / K), count + 1
    assert count == 4
    # it starts at rest beyond what friction can hold, and slips at once
    assert states_of(solution) == ["slip −", "slip +", "slip −", "slip +", "stick"]
    np.testing.assert_allclose(times_of(solution), half * np.arange(1, count + 1), atol=1e-9)
    end = solution.dataset["position"].sel(body="block", axis="x").values[-1]
    np.testing.assert_allclose(end, amplitude, atol=1e-9)
    lost = 0.5 * K * (1.0 - amplitude**2)
    way = sum(2 * (1.0 - 2 * load / K * k) - 2 * load / K for k in range(count))
    np.testing.assert_allclose(lost, load * way, rtol=1e-12)  # of the closed form itself
    np.testing.assert_allclose(-solution.energy["work"].values[-1], lost, rtol=1e-8)
    np.testing.assert_allclose(np.ptp(solution.energy["total"].values), lost, rtol=1e-8)


STOPPING = {"velocity": 3.0, "load": 8.0, "coulomb": 0.5, "viscous": 0.7}
STOPS = 2.0 / 0.7 * np.log(1 + 0.7 * 3.0 / 4.0)  # m v̇ = −F − c v


@functools.cache
def stopping() -> da.simulation.Solution:
    return da.simulate(sprung(**STOPPING), 3.0, samples=7)


@BOTH
def test_viscous_and_given_load(coordinates):
    solution = da.simulate(sprung(**STOPPING, coordinates=coordinates), 3.0, samples=4, rtol=1e-10)
    np.testing.assert_allclose(times_of(solution), [STOPS], rtol=1e-9)
    assert states_of(solution) == ["slip +", "stick"]


# ---- the angle of friction -------------------------------------------------------------------------------------------


def incline(space: str) -> da.Model:
    """A block at the pivot of a plank that is tilted at a constant rate: it starts at tan α = static exactly."""
    plane = space == "plane"
    out = (lambda x, y: (x, y)) if plane else (lambda x, y: (x, 0.0, y))
    model = da.Model("incline", space=space, gravity=out(0, -G))
    I = 0.1 if plane else (0.1, 0.2, 0.3)
    rate = 0.5 if plane else (0, -0.5, 0)
    plank = model.body("plank", mass=5.0, inertia=I, position=out(0, 0), angular_velocity=rate)
    block = model.body("block", mass=2.0, inertia=I, position=out(0, 0), angular_velocity=rate)
    axis = {} if plane else {"axis": (0, -1, 0)}
    model.revolute("pivot", model.ground, plank, at=out(0, 0), **axis)
    model.driver("tilt", "pivot", da.functions.polynomial([0.0, 0.5]))
    model.prismatic("slope", plank, block, at=out(0, 0), axis=out(-1, 0))
    model.dry_friction("rub", "slope", coulomb=0.3, static=0.4)
    return model


@pytest.mark.parametrize(
    ("space", "coordinates"),
    [
        ("space", "joint"),
        *(
            pytest.param(s, c, marks=THOROUGH)
            for s, c in (("space", "absolute"), ("plane", "absolute"), ("plane", "joint"))
        ),
    ],
)
def test_block_starts_at_the_angle_of_friction(space, coordinates):
    solution = da.simulate(da.build(incline(space), coordinates=coordinates), 1.0, samples=41)
    np.testing.assert_allclose(times_of(solution), [np.arctan(0.4) / 0.5], rtol=1e-12)
    assert states_of(solution) == ["stick", "slip +"]
    data = solution.dataset
    t, side = np.asarray(solution.t), data["friction_side"].values[:, 0]
    stuck = side == 0
    np.testing.assert_allclose(data["friction_effort"].values[stuck, 0], -2.0 * G * np.sin(0.5 * t[stuck]), rtol=1e-10,
                               atol=1e-12)  # fmt: skip
    np.testing.assert_allclose(data["friction_limit"].values[stuck, 0], 0.4 * 2.0 * G * np.cos(0.5 * t[stuck]))
    s = data["coordinate"].sel(joint_coordinate="slope.displacement").values
    assert np.max(np.abs(s[stuck])) < 1e-15 and s[-1] > 1e-2
    # s̈ = g sin α + s α̇² − 0.3 |g cos α + 2 α̇ ṡ …|: integrated by itself
    a = 0.5

    def rates(t, y):
        return [y[1], G * np.sin(a * t) + a**2 * y[0] - 0.3 * (G * np.cos(a * t) - 2 * a * y[1])]

    ref = solve_ivp(rates, (np.arctan(0.4) / a, 1.0), [0.0, 0.0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(s[-1], ref.y[0, -1], rtol=1e-6)


# ---- brakes ----------------------------------------------------------------------------------------------------------


def arm(space: str, capacity, **more) -> da.Model:
    """An arm of 3 kg with its centre 0.4 m from a horizontal axis, and a brake on it."""
    model = da.Model("arm", space=space, gravity=(0, -G) if space == "plane" else (0, -G, 0))
    if space == "plane":
        body = model.body("arm", mass=3.0, inertia=0.2, position=(0.4, 0), **more)
        model.revolute("hinge", model.ground, body, at=(0, 0))
    else:
        body = model.body("arm", mass=3.0, inertia=(0.1, 0.1, 0.2), position=(0.4, 0, 0), **more)
        model.revolute("hinge", model.ground, body, at=(0, 0, 0), axis=(0, 0, 1))
    if capacity is not None:
        model.brake("brake", "hinge", capacity)
    return model


@pytest.mark.parametrize("space", ["plane", pytest.param("space", marks=THOROUGH)])
def test_brake_holds_for_an_hour_without_creep(space):
    solution = da.simulate(da.build(arm(space, "12.0 + 0*t")), 3600.0, samples=61)
    assert states_of(solution) == ["stick"] and solution.phases.of("brake")[0].end == 3600.0
    assert np.max(np.abs(np.asarray(solution.q) - np.asarray(solution.q)[0])) < 1e-15
    np.testing.assert_allclose(solution.dataset["friction_effort"].values[:, 0], 3.0 * G * 0.4, rtol=1e-12)


@THOROUGH
@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
@pytest.mark.parametrize("space", ["plane", "space"])
def test_brake_stops_a_turning_arm_and_releases_it(space, coordinates):
    """Without weight: I ω̇ = −τ stops after I ω₀/τ, past half a turn in space; then it holds for good."""
    spin = 9.0 if space == "plane" else (0, 0, 9.0)
    moving = (0, 3.6) if space == "plane" else (0, 3.6, 0)
    model = arm(space, "12.0 + 0*t", angular_velocity=spin, velocity=moving)
    model.gravity = np.zeros(len(moving))
    inertia = 0.2 + 3.0 * 0.4**2
    solution = da.simulate(da.build(model, coordinates=coordinates), 1.0, samples=11)
    np.testing.assert_allclose(times_of(solution), [inertia * 9.0 / 12.0], rtol=1e-8)
    turned = solution.dataset["coordinate"].values[-1, 0]
    np.testing.assert_allclose(turned, 0.5 * inertia * 81.0 / 12.0, rtol=1e-7)
    assert solution.energy_drift < 1e-7


@THOROUGH
def test_brake_by_an_input_slips_when_it_cannot_hold():
    """The capacity falls with the input: it gives way at m g l, and drags with its share of it."""
    model = arm("plane", None)
    model.input("pedal", 1.0)
    model.brake("brake", "hinge", "20*pedal", sliding=0.8)
    pedal = (np.array([0.0, 1.0, 3.0]), np.array([1.0, 1.0, 0.0]))
    solution = da.simulate(model, 2.2, samples=23, inputs={"pedal": pedal})
    np.testing.assert_allclose(times_of(solution), [3.0 - 2.0 * 3.0 * G * 0.4 / 20.0], rtol=1e-12)
    data = solution.dataset
    slips = data["friction_side"].values[:, 0] != 0
    level = np.interp(np.asarray(solution.t), *pedal)
    np.testing.assert_allclose(data["friction_effort"].values[slips, 0], 0.8 * 20.0 * level[slips], rtol=1e-12)
    np.testing.assert_allclose(data["friction_limit"].values[:, 0], 20.0 * level, rtol=1e-12)


# ---- loads that change while nothing moves ---------------------------------------------------------------------------


def pushed(size: float) -> da.Model:
    """2 kg on a rail that holds up to 4 N, pushed by 3 rad/s: it gives way at each crest, by the excess alone."""
    model = slider("pushed")
    model.joint_force("push", "rail", f"{size!r}*sin(3*t)")
    model.dry_friction("rub", "rail", coulomb=1.0, normal=4.0)
    return model


@pytest.mark.parametrize("excess", [1e-5, pytest.param(1e-3, marks=THOROUGH), pytest.param(0.1, marks=THOROUGH)])
def test_no_crest_of_a_load_is_passed_over(excess):
    """Steps grow while all sticks; a crest lasts 3 ms at 1e-5. It begins with friction and load in balance."""
    solution = da.simulate(pushed(4.0 * (1 + excess)), 10.0, samples=2)
    slips = np.array([p.start for p in solution.phases if p.state != "stick"])
    wanted = (np.arcsin(1 / (1 + excess)) + np.pi * np.arange(10)) / 3.0
    np.testing.assert_allclose(slips, wanted[wanted < 10.0], atol=1e-10)
    assert states_of(solution)[:5] == ["stick", "slip +", "stick", "slip −", "stick"]


def test_a_short_pulse_in_the_data_of_a_long_hold_is_seen():
    """0.2 s out of an hour, at a time that no step meets: t = 0.05 s after it begins the load is 4 N."""
    model = slider("pulse")
    model.joint_force("push", "rail", model.input("u"))
    model.dry_friction("rub", "rail", coulomb=1.0, normal=4.0)
    data = (np.array([0.0, 1723.27, 1723.37, 1723.47, 3600.0]), np.array([0.0, 0.0, 8.0, 0.0, 0.0]))
    solution = da.simulate(model, 3600.0, inputs={"u": data}, samples=2)
    # u − 4 is a triangle of 0.1 s and 4 N; then it is below, by 80 N/s until 1723.47 and by 4 N after that
    impulse = 0.5 * 0.1 * 4.0 - 0.5 * 0.05 * 4.0
    first, last = 1723.32, 1723.47 + impulse / 4.0
    np.testing.assert_allclose(times_of(solution), [first, last], atol=1e-9)


def test_corners_are_those_of_functions_of_time():
    """Of tables, steps and sums of them; not of a person's numbers, whatever their names; nor of curves in space."""
    from dalembert.simulation._sticking import corners

    model = da.Model("corners", gravity=(0, -G))
    for k, name in enumerate(("first", "second")):
        block = model.body(name, mass=1.0, inertia=0.1, position=(0.0, float(k)))
        model.prismatic(f"rail_{name}", model.ground, block, at=(0, k), axis=(1, 0))
    step = da.functions.step(0.3, 0.7)
    model.driver("motor", "rail_first", step + da.functions.table([0.0, 0.4, 2.0], [0.0, 1.0, 1.0], degree=1))
    numbers = {"x_end": 5.0, "breaks": 6.0, "begin": 7.0}
    model.joint_force(
        "push", "rail_second", lambda t, x, v, p: p["x_end"] * p["breaks"] * p["begin"], parameters=numbers
    )
    model.force("blow", "second", (da.functions.step(1.1, 1.3), 0.0))
    model.input("u", step)
    np.testing.assert_array_equal(corners(da.build(model)), [0.0, 0.3, 0.4, 0.7, 1.1, 1.3, 2.0])


# ---- the joint's own load --------------------------------------------------------------------------------------------

SWUNG = {"mass": 2.0, "arm": 0.6, "inertia": 0.1, "radius": 0.12, "low": 0.5, "high": 0.6}


def journal(space: str) -> da.Model:
    """A pendulum that is let go level, on a thick journal that rubs by its load."""
    x, plane = SWUNG, space == "plane"
    pad = (lambda *p: p) if plane else (lambda *p: (*p, 0.0))
    model = da.Model("journal", space=space, gravity=pad(0, -G))
    I = x["inertia"] if plane else (0.07, 0.05, x["inertia"])
    rod = model.body("rod", mass=x["mass"], inertia=I, position=pad(x["arm"], 0))
    model.revolute("pin", model.ground, rod, at=pad(0, 0), **({} if plane else {"axis": (0, 0, 1)}))
    model.dry_friction("rub", "pin", coulomb=x["low"], static=x["high"], radius=x["radius"])
    return model


def journal_reference() -> tuple[list[float], float]:
    """When it turns, and where it stops: (J + m l²) ä = −m g l cos a − σ μ ρ |m (a_c + g)|, for ä at each instant."""
    m, l, rho = (SWUNG[k] for k in ("mass", "arm", "radius"))

    def second(a, w, side):
        def gap(x):
            load = m * np.hypot(-l * np.sin(a) * x - l * np.cos(a) * w**2, l * np.cos(a) * x - l * np.sin(a) * w**2 + G)
            return (SWUNG["inertia"] + m * l**2) * x + m * G * l * np.cos(a) + side * SWUNG["low"] * rho * load

        return brentq(gap, -100.0, 100.0, xtol=1e-14)

    times, y, t, side = [], [0.0, 0.0], 0.0, -1.0
    while True:
        turn = lambda t, y, begun=t, side=side: y[1] + (side * 1e-9 if t < begun + 1e-6 else 0.0)  # noqa: E731
        turn.terminal, turn.direction = True, -side
        found = solve_ivp(lambda t, y, s=side: [y[1], second(*y, s)], (t, 20.0), y, method="DOP853", rtol=1e-11,
                          atol=1e-12, events=turn)  # fmt: skip
        t, y = found.t[-1], [found.y[0, -1], 0.0]
        times.append(t)
        side = -np.sign(np.cos(y[0]))
        if abs(l * np.cos(y[0])) <= SWUNG["high"] * rho:
            return times, y[0]


@pytest.mark.parametrize(
    ("space", "coordinates"),
    [("plane", "absolute"), *(pytest.param("space", c, marks=THOROUGH) for c in ("absolute", "joint"))],
)
def test_pendulum_on_its_journal_against_an_independent_integration(space, coordinates):
    """Its weight turns it by the reaction of the pin alone: no load acts on the angle in absolute coordinates."""
    times, angle = journal_reference()
    solution = da.simulate(da.build(journal(space), coordinates=coordinates), 8.0, samples=3, rtol=1e-10)
    np.testing.assert_allclose(times_of(solution), times, atol=1e-8)
    assert states_of(solution) == ["slip −", "slip +"] * 3 + ["stick"]
    np.testing.assert_allclose(solution.dataset["coordinate"].values[-1, 0], angle, atol=1e-8)
    # while it hangs still the journal bears its weight, by friction as well
    effort = solution.dataset["friction_effort"].values[-1, 0]
    np.testing.assert_allclose(effort, SWUNG["mass"] * G * SWUNG["arm"] * np.cos(angle), rtol=1e-7)


# ---- several at once -------------------------------------------------------------------------------------------------

MASSES, LEVELS, SPRING = (1.0, 1.5), ((3.0, 4.0), (2.0, 2.5)), 40.0  # (slipping, sticking)


def double_slider() -> da.Model:
    """Two masses on one rail with a spring between them; the first is pushed to and fro."""
    model = da.Model("double", gravity=(0, 0))
    for k, (x, mass) in enumerate(zip((0.0, 1.0), MASSES, strict=True)):
        body = model.body(f"b{k}", mass=mass, inertia=0.1, position=(x, 0))
        model.prismatic(f"rail{k}", model.ground, body, at=(x, 0), axis=(1, 0))
        low, high = LEVELS[k]
        model.dry_friction(f"rub{k}", f"rail{k}", coulomb=low, static=high, normal=1.0)
    model.spring_damper("spring", "b0", "b1", stiffness=SPRING, length=1.0)
    model.joint_force("push", "rail0", "9*sin(2*t)")
    return model


def double_reference(end: float) -> list[tuple[float, tuple[int, int]]]:
    """An event-driven integration by itself: (time, sides) of each part."""
    y, t, out = np.zeros(4), 0.0, []

    def forces(t, y):
        pull = SPRING * (y[1] - y[0])
        return np.array([9 * np.sin(2 * t) + pull, -pull])

    def decide(t, y, resting, leaving):
        side = np.sign(y[2:]).astype(int)
        f = forces(t, y)
        for k in range(2):
            if resting[k]:
                side[k] = 0 if abs(f[k]) <= LEVELS[k][1] and k != leaving else int(np.sign(f[k]))
        return side

    side = decide(0.0, y, [True, True], None)
    out.append((0.0, tuple(map(int, side))))
    while t < end:
        low = np.array([x[0] for x in LEVELS])

        def rates(t, y, side=side, low=low):
            a = np.where(side == 0, 0.0, (forces(t, y) - side * low) / np.array(MASSES))
            return np.concatenate([y[2:], a])

        events = []
        for k in range(2):
            if side[k] == 0:
                events.append(lambda t, y, k=k: LEVELS[k][1] - abs(forces(t, y)[k]))
            else:
                events.append(lambda t, y, k=k, s=side[k], a=t: s * y[2 + k] + (1e-12 if t < a + 1e-9 else 0.0))
            events[-1].terminal, events[-1].direction = True, -1
        found = solve_ivp(rates, (t, end), y, method="DOP853", rtol=1e-12, atol=1e-13, events=events, max_step=0.01)
        t, y = found.t[-1], found.y[:, -1]
        if t >= end:
            return out
        k = next(k for k in range(2) if len(found.t_events[k]))
        leaving = k if side[k] == 0 else None
        resting = [side[j] == 0 or j == k for j in range(2)]
        y[2 + k] = 0.0
        side = decide(t, y, resting, leaving)
        out.append((t, tuple(map(int, side))))
    return out


@BOTH
def test_two_that_stick_against_an_independent_integration(coordinates):
    solution = da.simulate(da.build(double_slider(), coordinates=coordinates), 6.0, samples=31, rtol=1e-10)
    wanted = double_reference(6.0)
    assert len(wanted) > 12 and {s for _, s in wanted} >= {(0, 0), (1, 0), (1, 1)}
    phases = solution.phases
    np.testing.assert_allclose(phases.t, [t for t, _ in wanted], atol=1e-7)
    assert [tuple(map(int, s)) for s in phases.side] == [s for _, s in wanted]
    assert solution.energy_drift < 1e-8


def shared(rule=None) -> da.Model:
    """Two brakes on one coordinate, pushed by 1 N/s."""
    model = slider("shared")
    model.brake("left", "rail", 7.0, rule=rule)
    model.brake("right", "rail", 3.0)
    model.joint_force("push", "rail", "t")
    return model


def test_efforts_that_are_not_unique_are_refused_or_ruled():
    with pytest.raises(da.errors.DalembertError, match=r"'left' and 'right' stick .* rule"):
        da.simulate(shared(), 1.0)
    assert "does not determine how the effort is shared" in str(da.check(shared()))
    for solution in (da.simulate(shared(), 12.0, rule="minimum_norm"), da.simulate(shared("minimum_norm"), 12.0)):
        # shared in halves until one is at its limit; together they hold the sum of both
        first, second = (solution.phases.of(n) for n in ("left", "right"))
        assert [p.state for p in first] == [p.state for p in second] == ["stick", "slip +"]
        np.testing.assert_allclose([first[1].start, second[1].start], 10.0, rtol=1e-9)
        effort = solution.dataset["friction_effort"].values
        t = np.asarray(solution.t)
        early, late = t < 6.0, (t > 6.0) & (t < 10.0)
        np.testing.assert_allclose(effort[early], -0.5 * t[early, None] * np.ones(2), atol=1e-9)
        np.testing.assert_allclose(effort[late], np.stack([3.0 - t[late], -3.0 + 0 * t[late]], axis=1), atol=1e-9)
        assert not solution.dataset["unique_friction"].values[1].any()


@THOROUGH
def test_a_driven_coordinate():
    """Friction on a coordinate that is driven turns with its speed; where it is held the effort is shared."""
    model = slider("driven", velocity=1.0)
    model.driver("motor", "rail", "sin(t)")
    model.dry_friction("rub", "rail", coulomb=1.0, normal=3.0)
    model.measure("force", "effort", "motor")
    solution = da.simulate(model, 6.0, samples=25)
    np.testing.assert_allclose(times_of(solution), [0.5 * np.pi, 1.5 * np.pi], rtol=1e-9)
    t = np.asarray(solution.t)
    wanted = -2.0 * np.sin(t) + 3.0 * np.sign(np.cos(t))
    np.testing.assert_allclose(solution.measurements["force"].values, wanted, atol=1e-7)
    model = slider("held")
    model.driver("motor", "rail", "0*t")
    model.dry_friction("rub", "rail", coulomb=1.0, normal=3.0)
    with pytest.raises(da.errors.DalembertError, match=r"'rub' sticks .* shares the effort with 'motor'"):
        da.simulate(model, 1.0)


# ---- inside programs of JAX, and derivatives through the changes -----------------------------------------------------


def close(a, b) -> None:
    """Derivatives to 1e-6 of the largest."""
    np.testing.assert_allclose(a, b, atol=1e-6 * np.max(np.abs(b)))


def differences(function, x: np.ndarray, steps) -> np.ndarray:
    """Central differences of a function of several numbers, a column for each."""
    units = np.diag(steps)
    return np.stack([(function(x + u) - function(x - u)) / (2 * h) for u, h in zip(units, steps, strict=True)], axis=-1)


def test_derivatives_of_the_stick_slip_oscillator():
    """Its end, while it slips for the second time, depends on all times before. The belt begins faster than the mass,
    which then sticks at once."""
    system, end = da.build(belt()), 2.6

    def marched(x):
        mass, stiffness, kinetic, speed = x
        values = {"mass.mass": mass, "spring.stiffness": stiffness, "rub.coulomb": kinetic}
        values["motor.coefficients"] = jnp.array([0.0, 1.0]) * speed
        run = da.simulate(system.replace(values), end, samples=[0.5, 1.0, end], rtol=1e-10)
        return jnp.stack([run.q[-1, 3], run.v[-1, 3], run.q[0, 3]])

    def exact(x):
        return np.array([*belt_motion(end, *x)[1:], 0.5 * x[3]])

    x = np.array([M, K, KINETIC, BELT])
    assert len(belt_motion(end)[0]) == 3
    slopes = jax.jacfwd(marched)(x)
    close(slopes, differences(exact, x, 1e-5 * x))


@pytest.mark.thorough
def test_derivatives_of_a_block_with_a_brake():
    """It stops after m v²/2F, by its start velocity too; the brake takes m v²/2."""
    model = slider(velocity=3.0)
    model.brake("brake", "rail", 8.0)
    system = da.build(model)

    def stopped(x):
        mass, capacity, speed = x
        changed = system.replace({"block.mass": mass, "brake.normal_value": capacity})
        state = (system.q0, jnp.asarray(system.v0).at[0].set(speed))
        run = da.simulate(changed, 1.0, state, samples=2, rtol=1e-10)
        return jnp.array([run.q[-1, 0], run.v[-1, 0], run.work[-1, 0]])

    def exact(mass, capacity, speed):
        way = mass * speed**2 / (2 * capacity)
        slopes = [
            [way / mass, -way / capacity, 2 * way / speed],
            [0.0, 0.0, 0.0],
            [-0.5 * speed**2, 0.0, -mass * speed],
        ]
        return np.array([way, 0.0, -0.5 * mass * speed**2]), np.array(slopes)

    # a batch under jit: each member with its own changes, and the plain run to the last bit; the last does not stop
    several = np.array([[2.0, 8.0, 3.0], [2.2, 8.8, 3.3], [2.0, 4.0, 5.0]])
    rows, slopes = jax.jit(jax.vmap(lambda x: (stopped(x), jax.jacfwd(stopped)(x))))(several)
    for row, one in zip(rows, several, strict=True):
        np.testing.assert_array_equal(row, stopped(one))
    for row, slope, one in list(zip(rows, slopes, several, strict=True))[:2]:
        np.testing.assert_allclose(row, exact(*one)[0], atol=1e-8)
        close(slope, exact(*one)[1])
    np.testing.assert_allclose(slopes[2, 1], [4.0 / 2.0**2, -0.5, 1.0], rtol=1e-7)  # v − F t/m


def swinging(coordinates: str):
    """A cart on a rail that rubs by its load, with a spring, and a pendulum on it: two coordinates."""
    model = da.Model("cart", gravity=(0, -G))
    cart = model.body("cart", mass=2.0, inertia=0.1, position=(0.1, 0))
    bob = model.body("bob", mass=1.0, inertia=0.01, position=(0.6, 0.0))
    model.prismatic("rail", model.ground, cart, at=(0.1, 0), axis=(1, 0))
    model.revolute("pin", cart, bob, at=(0.1, 0))
    model.joint_spring("spring", "rail", stiffness=30.0)
    model.dry_friction("rub", "rail", coulomb=0.12, static=0.15)
    return da.build(model, coordinates=coordinates)


@THOROUGH  # how_to/friction.md has such a derivative, too
@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_derivatives_where_friction_depends_on_the_load(coordinates):
    system, names = swinging(coordinates), ["bob.mass", "rub.coulomb", "rub.static", "spring.stiffness"]
    x = np.array([float(system.parameters()[n]) for n in names])

    def end(x, rtol=1e-11):
        run = da.simulate(system.replace(dict(zip(names, x, strict=True))), 1.6, samples=3, rtol=rtol)
        if run.phases is not None:
            seen.append(states_of(run))
        return jnp.concatenate([run.q[-1], run.v[-1], run.work[-1]])

    seen: list[list[str]] = []
    wanted = differences(lambda x: np.asarray(end(tuple(map(float, x)), 1e-13)), x, 1e-4 * x)
    assert all(states == seen[0] for states in seen) and "stick" in seen[0][:-1] and len(seen[0]) > 3
    close(jax.jacfwd(end)(x), wanted)


def test_a_batch_is_marched_one_by_one():
    """Members with other numbers of phases, and what a batch tells of each."""
    system, masses = stopping().system, np.array([2.0, 20.0])
    runs = da.simulate_many(system, {"block.mass": masses}, 3.0, samples=7, derivatives=["rub.viscous"])
    alone = da.simulate(system.replace({"block.mass": 20.0}), 3.0, samples=7)
    np.testing.assert_array_equal(runs.q[0], stopping().q)
    np.testing.assert_array_equal(runs[1].v, alone.v)
    assert [len(runs[k].phases) for k in range(2)] == [2, 1] and states_of(runs[1]) == states_of(alone) == ["slip +"]
    assert runs.derivatives.q.shape == (2, 1, 7, 3)
    # the way until it stops, m v/c − m F/c² ln(1 + c v/F)
    m, c, v, F = 2.0, 0.7, 3.0, 4.0
    log = np.log(1 + c * v / F)
    slope = -m * v / c**2 + 2 * m * F / c**3 * log - m * F / c**2 * (v / F) / (1 + c * v / F)
    np.testing.assert_allclose(runs.derivatives.q[0, 0, -1, 0], slope, rtol=1e-6)
    table = runs.dataset
    assert table["friction_effort"].dims == ("run", "time", "friction") and "phase" not in table.dims
    np.testing.assert_allclose(table["friction_effort"].values[0], stopping().dataset["friction_effort"].values)


def test_where_there_is_no_derivative():
    """A start from rest beyond what friction holds may begin either way; a run of which no rule picks the efforts."""
    system = sprung(K, 1.0, mass=M, load=M * G, coulomb=0.25)

    def end(stiffness, speed):
        state = (system.q0, jnp.asarray(system.v0).at[0].set(speed))
        run = da.simulate(system.replace({"spring.stiffness": stiffness}), 1.0, state, samples=2)
        return run.q[-1, 0]

    slope = jax.jacfwd(end, argnums=(0, 1))(K, 0.0)
    assert np.isfinite(slope[0]) and np.isnan(slope[1])
    twice = da.build(shared())
    run = jax.jit(lambda m: da.simulate(twice.replace({"block.mass": m}), 1.0))(1.0)
    assert run.status is da.simulation.Status.no_load and run.phases is None
    # times of events: of two at once only if they change alike; none where the rate vanishes
    found = event_time(np.array([[1.0, 2.0], [2.0, 2.0]]), np.array([-1.0, -1.0]), np.zeros(2))
    np.testing.assert_array_equal(found, [np.nan, 2.0])
    assert np.isnan(event_time(np.ones((1, 1)), np.array([-1e-12]), np.array([1e-9]))[0])


@THOROUGH
def test_derivatives_where_a_rule_picks_the_efforts():
    """Two brakes give way together at 10 N of a push of 1 N/s: v = (t − t₀)²/2m, with t₀ the sum of both."""
    system = da.build(shared())

    def end(x):
        values = {"block.mass": x[0], "left.normal_value": x[1]}
        return da.simulate(system.replace(values), 12.0, samples=2, rule="minimum_norm", rtol=1e-10).v[-1, 0]

    np.testing.assert_allclose(jax.jacfwd(end)(np.array([2.0, 7.0])), [-0.5, -1.0], rtol=1e-6)


# ---- what is kept, and what is refused -------------------------------------------------------------------------------


def test_phases_in_text_dataset_and_file(tmp_path):
    solution = stopping()
    assert "friction: 'rub' sticks for" in repr(solution)
    table = solution.dataset
    assert list(table["phase_state"].values) == ["slip +", "stick"] and table["friction_units"].values[0] == "N"
    assert table["phase_end"].values[0] == table["phase_start"].values[1] == times_of(solution)[0]
    again = da.open(solution.to_netcdf(tmp_path / "run.nc"))
    assert list(again.phases) == list(solution.phases)
    np.testing.assert_array_equal(again.at(1.0).q, solution.at(1.0).q)
    np.testing.assert_allclose(again.results.rubbed.effort, table["friction_effort"].values)
    # between the saved times each part is marched again
    v = 3.0 * np.exp(-0.35 * 0.3) - 4.0 / 0.7 * (1 - np.exp(-0.35 * 0.3))
    np.testing.assert_allclose(solution.at(0.3).v[0], v, rtol=1e-7)
    with pytest.raises(da.errors.DalembertError, match="'rub' sticks"):
        da.simulate(solution.system, 4.0, after=solution)
    # from its last state it goes on sticking where it is
    more = da.simulate(solution.system, 4.0, solution.state, t0=3.0, samples=3)
    assert states_of(more) == ["stick"] and abs(float(more.q[-1][0] - solution.q[-1][0])) < 1e-15


def test_steps_can_be_saved():
    solution = da.simulate(stopping().system, 3.0, samples="steps")
    t = np.asarray(solution.t)
    assert np.all(np.diff(t) > 0) and t[-1] == 3.0 and times_of(solution)[0] in t


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: jax.grad(lambda m: da.simulate(s.replace({"block.mass": m}), 1.0).q[-1, 0])(1.0),
        lambda s: jax.jit(jax.grad(lambda m: da.simulate(s.replace({"block.mass": m}), 1.0).q[-1, 0]))(1.0),
        lambda s: jax.jacfwd(lambda t: da.simulate(s, t).q[-1])(1.0),
        lambda s: jax.jit(lambda m: da.simulate(s.replace({"block.mass": m}), 1.0, samples="steps").q)(1.0),
        lambda s: da.simulate_many(s, {"block.mass": [1.0, 2.0]}, 1.0, device="gpu"),
        lambda s: da.assemble(s, 0.0, s.q0, s.v0),
        lambda s: da.prepare(s),
        lambda s: da.linearise(s),
        lambda s: da.simulation.simulate_switching(s, 1.0, []),
        lambda s: da.inverse_dynamics(s, None, np.zeros(3)),
        lambda s: da.simulate(s, 1.0, samples="dense"),
        lambda s: da.simulate(s, 1.0, rule="eliminated"),
    ],
)
def test_refused_by_name(ask):
    with pytest.raises(da.errors.DalembertError, match="'rub'"):
        ask(stopping().system)


def test_bad_input():
    model = slider()
    model.dry_friction("a", "rail", coulomb=0.5, static=0.4)
    model.dry_friction("b", "rail", coulomb=0.5, radius=0.1)
    model.dry_friction("c", "rail", coulomb=0.5, normal=1.0, length=0.1)
    model.brake("d", "rail", 3.0, sliding=1.5)
    model.brake("e", "rail", 3.0, rule="none")
    found = " ".join(map(str, model.mistakes()))
    for text in ("'a': static=0.4 must not be less", "'b'", "'c'", "'d': sliding=1.5", "'e': rule='none' is unknown"):
        assert text in found
    model = da.Model("ball", space="space")
    body = model.body("b", mass=1.0, inertia=(1, 1, 1))
    model.spherical("ball", model.ground, body, at=(0, 0, 0))
    model.dry_friction("rub", "ball", coulomb=0.5, radius=0.1)
    assert "no coordinate that could stick" in str(model.mistakes()[0])


def test_check_says_that_the_effort_is_unique():
    assert "friction 'rub' sticks and slips; while it sticks its effort is unique" in str(da.check(belt()))
