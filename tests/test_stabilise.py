"""Keeping the constraints: drift over 100 s as in Kövecses, Piedbœuf (2003), figures 3–6; each method by itself."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.simulation._march import Problem
from dalembert.stabilise import _start

EPS = np.finfo(float).eps

LONG, STEP = 100.0, 0.01
CASES = {
    "none": da.stabilise.NoStabilisation(),
    "baumgarte": da.stabilise.Baumgarte(),
    "pi": da.stabilise.PI(),
    "filter": da.stabilise.VelocityFilter(),
    "two corrections": da.stabilise.Projection(corrections=2, frozen=False),
}


@pytest.fixture(scope="module")
def drift(four_bar):
    """The four-bar for 100 s at a fixed step, with each method: violation of position and velocity at 2001 times."""
    table = {}
    for word, method in CASES.items():
        solution = da.simulate(four_bar, LONG, stabilisation=method, integrator="tsit5", dt=STEP, samples=2001)
        table[word] = solution.dataset["violation"].values[:, :2]
        print(f"{word:16s} Φ {table[word][:, 0].max():.1e}  φ {table[word][:, 1].max():.1e}")
    return table


def growth(violation) -> float:
    """The largest of the last quarter against that of the first."""
    quarter = len(violation) // 4
    return float(np.max(violation[-quarter:]) / np.max(violation[:quarter]))


def test_drift_of_a_four_bar(drift):
    """Two corrections hold both levels at ≤ 1e-13 throughout. Feedback bounds the drift that grows without it."""
    assert np.max(drift["two corrections"]) <= 1e-13
    assert growth(drift["none"][:, 0]) > 3.0 and np.max(drift["none"][:, 0]) > 1e-6
    for word in ("baumgarte", "pi"):
        assert growth(drift[word][:, 0]) < 2.0
        assert np.max(drift[word][:, 0]) < 0.1 * np.max(drift["none"][:, 0])
    # filtering holds the velocities; positions keep what the steps leave, far less than without
    assert np.max(drift["filter"][:, 1]) <= 1e-13 < np.max(drift["filter"][:, 0])
    assert np.max(drift["filter"][:, 0]) < 0.1 * np.max(drift["none"][:, 0])


@pytest.mark.thorough
def test_drift_of_a_chain():
    """A chain of three over 100 s, chaotic: two corrections still hold 1e-13."""
    system = da.build(da.mechanism("chain", N=3))
    solution = da.simulate(
        system, LONG, stabilisation=CASES["two corrections"], integrator="tsit5", dt=0.5 * STEP, samples=2001
    )
    assert solution.violation["position"] <= 1e-13 and solution.violation["velocity"] <= 1e-13


def test_feedback_in_tangent_velocities(four_bar):
    """q̇ with u integrated: φ = 0, and Φ̇ = −Φ/τ (Baumgarte) or −(2/τ)Φ − ∫Φ/τ² (PI) [Blajer 1995, eq. 4.6a], exactly."""
    tau, integral = 0.05, 1e-3 * np.arange(1.0, 9.0)
    q, v = off(four_bar)
    form = da.prepare(four_bar, formulation=da.formulations.Resolved()).formulation
    Phi = four_bar.position_residual(0.0, q)
    assert float(jnp.max(jnp.abs(Phi))) > 1e-4
    wanted = [
        (da.stabilise.NoStabilisation(), 0.0 * Phi),
        (da.stabilise.Baumgarte(tau), -Phi / tau),
        (da.stabilise.PI(tau), -2 * Phi / tau - integral / tau**2),
    ]
    kinetic = []
    for method, rate in wanted:
        problem = Problem(four_bar, form, method, np.ones(8))
        q_, w, work, (memory, own) = problem.pack(jnp.zeros(()), q, v)
        y = (q_, w, work, (memory, None if own is None else integral))
        qdot, wdot, _, (_, own_rate) = problem.vector_field(0.0, y, None)
        found = jax.jvp(lambda q: four_bar.position_residual(0.0, q), (q,), (qdot,))[1]
        np.testing.assert_allclose(found, rate, atol=1e-10)
        if own is not None:
            np.testing.assert_allclose(own_rate, Phi, atol=1e-15)
        kinetic.append(wdot)
    # the kinetic equations are not touched
    np.testing.assert_allclose(kinetic[1], kinetic[0], atol=1e-12)
    np.testing.assert_allclose(kinetic[2], kinetic[0], atol=1e-12)


def off(system, size=1e-3):
    """A state off the constraints by a thousandth of the machine's size."""
    rng = np.random.default_rng(5)
    q, v = da.stabilise.consistent_state(system)
    noise = size * rng.standard_normal((2, system.n)) * np.asarray(system.scale())
    return system.retract(q, noise[0]), v + noise[1]


def test_frozen_and_moving_directions(four_bar):
    """Error e after k corrections: frozen e^(k+1) [2003, eq. 35], moving e^(2^k) [eq. 36]; to a tolerance it stops."""
    q, v = off(four_bar)

    def left(method):
        state = method.project(four_bar, 0.0, q, v)
        return float(jnp.max(jnp.abs(da.equations.residuals(four_bar, 0.0, *state)[0])))

    frozen, moving = ([left(da.stabilise.Projection(k, frozen=f)) for k in (1, 2, 3)] for f in (True, False))
    assert frozen[0] == pytest.approx(moving[0]) and 1e-8 < frozen[0] < 1e-5
    assert 1e-12 < frozen[1] < 1e-7 and moving[1] < 1e-10
    assert frozen[2] < 1e-3 * frozen[1] and moving[2] < 1e-14
    assert frozen[0] == pytest.approx(left(da.stabilise.Projection(5, tolerance=1e-4)))
    assert left(da.stabilise.Projection(6, tolerance=1e-13)) < 1e-12


def test_velocity_filter_with_drivers():
    """[2003, eq. 33] with the b term: without it a driven crank would be stopped."""
    system = da.build(da.mechanism("slider-crank"))
    q, v = da.stabilise.consistent_state(system)
    nudged = v + 0.1 * np.random.default_rng(2).standard_normal(9)
    filtered = da.stabilise.VelocityFilter().project(system, 0.0, q, nudged)
    np.testing.assert_allclose(filtered.v, v, atol=1e-12)  # no freedom: the drivers say all
    equations = da.assemble(system, 0.0, q, nudged)
    without = nudged - equations.factorise().correct((equations.C @ nudged)[:, None])[:, 0]
    assert np.max(np.abs(without - v)) > 1.0


def test_time_constants(four_bar):
    """From the step, from the span, or as given; one that is no time is refused."""
    assert float(da.stabilise.Baumgarte().with_time_scale(0.01, 1.0).time_constant) == pytest.approx(0.05)
    assert float(da.stabilise.PI().with_time_scale(None, 10.0).time_constant) == pytest.approx(0.02)
    assert float(da.stabilise.PI(0.3).with_time_scale(0.01, 10.0).time_constant) == pytest.approx(0.3)
    with pytest.raises(da.errors.DalembertError, match="positive"):
        da.simulate(four_bar, 0.1, stabilisation=da.stabilise.Baumgarte(-1.0))


WAYS = {
    "null space": (da.formulations.NullSpace(da.complements.QR()), da.stabilise.Projection()),
    "resolved, PI": (da.formulations.Resolved(), da.stabilise.PI(0.05)),
    "independent": (da.formulations.IndependentCoordinates(), da.stabilise.NoStabilisation()),
    "augmented, Baumgarte": (da.formulations.Augmented(), da.stabilise.Baumgarte(0.05)),
}


@pytest.mark.thorough  # everyday: each method in test_transforms.py, and the default through `simulate`
@pytest.mark.parametrize("word", WAYS)
def test_gradient_of_a_motion(four_bar, word):
    """jit, vmap and grad through a march: against a link's length, reverse mode; central differences of fourth order,
    step 1e-3 (their error h⁴ ~ 1e-12 times the fifth derivative); the bar is 1e-6."""
    form, method = WAYS[word]
    form = da.prepare(four_bar, formulation=form).formulation

    def end(x):
        changed = four_bar.replace({"B.point_j": jnp.stack([x, 0.0 * x])})
        run = {"formulation": form, "stabilisation": method, "integrator": "tsit5", "dt": 0.005, "samples": 2}
        return da.simulate(changed, 0.2, max_steps=64, **run).q[-1, 3:5] @ jnp.array([1.0, 0.7])

    h = 1e-3
    values = jax.jit(jax.vmap(end))(-1.0 + h * jnp.array([-2.0, -1.0, 1.0, 2.0]))
    numeric = (8 * (values[2] - values[1]) - (values[3] - values[0])) / (12 * h)
    exact = jax.jit(jax.grad(end))(-1.0)
    assert abs(float(numeric)) > 1e-3
    assert float(exact) == pytest.approx(float(numeric), rel=1e-6)


# ---- drivers that ask for too much ---------------------------------------------------------------------------------


def pulled(start: float) -> da.Model:
    """A slider-crank (0.5 m and 1 m, the pin between them at (0.4, 0.3)) whose slider is pulled out at 0.5 m/s."""
    model = da.Model("pulled", gravity=(0, -9.81))
    x = 0.4 + math.sqrt(1 - 0.09)
    crank = model.body("crank", mass=1.0, inertia=0.1, position=(0.2, 0.15), angle=math.atan2(0.3, 0.4))
    link = model.body("rod", mass=1.0, inertia=0.1, position=((0.4 + x) / 2, 0.15), angle=-math.asin(0.3))
    slider = model.body("slider", mass=1.0, inertia=0.1, position=(x, 0))
    model.revolute("main", model.ground, crank, at=(0, 0))
    model.revolute("big", crank, link, at=(0.4, 0.3))
    model.revolute("small", link, slider, at=(x, 0))
    model.prismatic("guide", model.ground, slider, at=(x, 0), axis=(1, 0))
    model.driver("pull", "guide", lambda t: start + 0.5 * t)
    return model


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=pytest.mark.thorough)])
def test_a_driver_out_of_reach_is_named_first(coordinates):
    """Stretched out, crank and rod reach 1.5 m: 1.5 − 0.4 − √0.91 = 0.146061 beyond the start."""
    system = da.build(pulled(0.0), coordinates=coordinates)
    with pytest.raises(
        da.errors.AssemblyError, match=r"'pull' asks for 1 at t = 2 s, .* nearest is 0\.146061.*These can"
    ):
        da.stabilise.consistent_state(system, t=2.0)
    with pytest.raises(
        da.errors.SimulationError, match=r"'pull' asks for 0\.146061 at t = 0\.292.* s, .*These cannot close"
    ):
        da.simulate(system, 1.0)


def test_a_driver_is_not_blamed_for_a_loop_that_is_open_without_it():
    model = pulled(0.0)
    model.distance("strut", "ground", "slider", length=9.0, at_i=(0, 0), at_j=(0.4 + math.sqrt(1 - 0.09), 0))
    with pytest.raises(da.errors.AssemblyError) as told:
        da.stabilise.consistent_state(da.build(model))
    assert "asks for" not in str(told.value) and "'strut'" in str(told.value)


@pytest.mark.parametrize(
    ("name", "coordinates", "met"),
    [
        ("four-bar", "absolute", True),
        ("four-bar", "joint", True),
        ("bennett", "joint", True),  # in space, redundant
        ("rolling-disc", "absolute", True),  # nonholonomic; its quaternion is not of length one to the last digit
        ("slider-crank", "absolute", False),  # a driver whose speed the start velocities lack
        ("jansen-leg", "joint", False),  # velocities are off by 5e-12
    ],
)
def test_a_start_that_meets_its_constraints_is_taken_as_it_is(name, coordinates, met):
    """Where a quick look shows that: the state of the whole correction, to the rounding of a quaternion."""
    system = da.build(da.mechanism(name), coordinates=coordinates)
    (looked, found), t, free = _start._as_given(system, 0.0, system.q0, system.v0), np.zeros(()), np.ones(system.n)
    assert bool(found) is met
    corrected = _start._consistent(system, t, system.q0, system.v0, free)
    taken = _start.assembled(system)
    np.testing.assert_allclose(taken.state.q, corrected.state.q, rtol=0, atol=4 * EPS)
    np.testing.assert_array_equal(taken.state.v, corrected.state.v)
    if met:
        np.testing.assert_array_equal(taken.state.q, looked.state.q)
        np.testing.assert_allclose(taken.sizes, corrected.sizes, rtol=1e-14)
        assert float(taken.moved) <= 4 * EPS and np.max(np.abs(taken.velocity)) <= 1e-14
