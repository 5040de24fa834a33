"""Stiff machines: Radau IIA takes few steps and is right, and a run that creeps says whether it is stiff."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da

STIFFNESS, DAMPING, G = 1e9, 1e5, 9.81


@pytest.fixture(scope="module")
def rod():
    """A bob on a rod that is a spring: rates of 1.1e4 and 8.9e4 1/s beside a swing of 2 s."""
    model = da.Model("rod", gravity=(0, -G))
    bob = model.body("bob", mass=1.0, inertia=1.0, position=(1.0, 0.0))
    model.spring_damper("rod", model.ground, bob, at_i=(0, 0), stiffness=STIFFNESS, damping=DAMPING, length=1.0)
    return da.build(model)


def pendulum_angle(t, start, pull=G):
    """Angle from the horizontal of a pendulum that starts at rest: θ̈ = −pull cos θ."""
    return solve_ivp(lambda t, y: [y[1], -pull * np.cos(y[0])], (0, t), [start, 0], rtol=1e-10, atol=1e-12).y[0, -1]


def test_a_stiff_rod_takes_few_steps(rod):
    """One bad step in ten at most, and the swing of the rigid rod but for its stretch m (g + v²/l)/k = 3e-8 m."""
    motion = da.simulate(rod, 1.0, rtol=1e-6, integrator="radau5", samples=21)
    angle = pendulum_angle(1.0, 0.0)
    np.testing.assert_allclose(motion.q[-1, :2], [np.cos(angle), np.sin(angle)], atol=1e-5)  # ten tolerances
    assert motion.stats["accepted"] <= 200  # explicit: 3e4; with one Jacobian for all stages: 1200
    assert motion.stats["rejected"] <= 0.1 * motion.stats["accepted"]
    assert motion.energy_drift < 1e-4


def test_the_fast_decay_itself_is_right(rod):
    """Stretched by 1 mm straight below: x¨ = −k x − c ẋ, resolved where the tolerance asks for it."""
    stretch, sag = 1e-3, G / STIFFNESS
    times = np.linspace(0.0, 3e-4, 21)  # as many as above: one program
    start = (np.array([0.0, -1.0 - sag - stretch, 0.0]), np.zeros(3))
    motion = da.simulate(rod, 3e-4, start, rtol=1e-6, integrator="radau5", samples=times)
    slow, fast = np.roots([1.0, DAMPING, STIFFNESS])[::-1]
    exact = stretch * (fast * np.exp(slow * times) - slow * np.exp(fast * times)) / (fast - slow)
    np.testing.assert_allclose(-motion.q[:, 1] - 1.0 - sag, exact, atol=1e-6)


def van_der_pol(mu):
    return da.FunctionSystem(
        lambda t, q, p: jnp.eye(1),
        lambda t, q, v, p: p["mu"] * (1 - q**2) * v - q,
        q0=[2.0],
        v0=[0.0],
        parameters={"mu": mu},
        name="van der Pol",
    )


def test_van_der_pol_at_a_thousand():
    """The IVP test set's vdpol (ε = 1e-6) in unscaled time: y(2) = 1.706167732170483, y′(2) = −0.8928097010247975."""
    motion = da.simulate(van_der_pol(1e3), 2000.0, rtol=1e-6, integrator="radau5", samples=2)
    np.testing.assert_allclose(motion.q[-1], 1.706167732170483, atol=1e-5)
    np.testing.assert_allclose(motion.v[-1], -0.8928097010247975e-3, atol=1e-6)
    assert motion.stats["accepted"] < 700  # Radau of SciPy: 616
    assert motion.stats["rejected"] < 0.1 * motion.stats["accepted"]


def test_order_five():
    exact = solve_ivp(
        lambda t, y: [y[1], (1 - y[0] ** 2) * y[1] - y[0]], (0, 2), [2, 0], method="DOP853", rtol=1e-13, atol=1e-14
    ).y[:, -1]

    def error(n):
        motion = da.simulate(van_der_pol(1.0), 2.0, dt=2.0 / n, rtol=1e-12, integrator="radau5", samples=2)
        return np.abs(np.array([motion.q[-1, 0], motion.v[-1, 0]]) - exact).max()

    assert 4.6 < np.log2(error(20) / error(40)) < 5.4


@pytest.mark.thorough
@pytest.mark.parametrize("integrator, error", [("radau5", 1e-6), ("kvaerno5", 5e-5)])
def test_fixed_implicit_steps_at_a_tolerance_near_rounding(four_bar, integrator, error):
    """With fixed steps rtol is Newton's alone: it must not ask for more than rounding gives."""
    exact = da.simulate(four_bar, 0.8, rtol=1e-12, samples=2).q[-1]
    motion = da.simulate(four_bar, 0.8, dt=0.8 / 24, rtol=1e-12, integrator=integrator, samples=2, throw=False)
    assert motion.status is da.simulation.Status.done
    np.testing.assert_allclose(motion.q[-1], exact, atol=error)  # of the method: 3e-7 and 1e-5


# ---- machines with constraints --------------------------------------------------------------------------------


def hammer(space: str) -> da.Model:
    """A handle on two coaxial hinges (one is redundant) and a head held by a stiff bushing: a physical pendulum."""
    plane = space == "plane"
    model = da.Model("hammer", space=space, gravity=(0, -G) if plane else (0, -G, 0))
    one = 0.1 if plane else 0.1 * np.eye(3)
    at = (lambda *x: x[:2]) if plane else (lambda *x: x)
    handle = model.body("handle", mass=1.0, inertia=one, position=at(0.5, 0, 0))
    head = model.body("head", mass=2.0, inertia=one, position=at(1.0, 0, 0))
    axis = {} if plane else {"axis": (0, 0, 1)}
    model.revolute("hinge", model.ground, handle, at=at(0, 0, 0), **axis)
    model.revolute("spare", model.ground, handle, at=at(0, 0, 0.2), **axis)
    size = 3 if plane else 6
    model.bushing("neck", handle, head, at=at(1.0, 0, 0), stiffness=1e9 * np.eye(size), damping=1e5 * np.eye(size))
    return model


@pytest.mark.parametrize(
    "space, coordinates",
    [
        ("plane", "joint"),
        *(pytest.param("space", x, marks=pytest.mark.thorough) for x in ("absolute", "joint")),
        pytest.param("plane", "absolute", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.thorough
def test_a_stiff_bushing_on_a_redundant_hinge(space, coordinates):
    system = da.build(hammer(space), coordinates=coordinates)
    motion = da.simulate(system, 0.5, rtol=1e-6, integrator="radau5", samples=2)
    # (m₁/4 + m₂ + 2 · 0.1) θ̈ = −(m₁/2 + m₂) g cos θ
    angle = pendulum_angle(0.5, 0.0, G * 2.5 / (0.25 + 2.0 + 0.2))
    q = motion.q[-1] if coordinates == "absolute" else system.lift(motion.q[-1], motion.v[-1])[0]
    where = np.asarray(q)[3:5] if space == "plane" else np.asarray(q)[7:9]
    np.testing.assert_allclose(where, [np.cos(angle), np.sin(angle)], atol=1e-5)
    assert motion.stats["accepted"] < 200 and motion.stats["rejected"] < 0.1 * motion.stats["accepted"] + 3


# ---- transforms, pauses, dense output --------------------------------------------------------------------------


def damped(k):
    """Overdamped, nonlinear and driven: rates of k and 1 1/s."""
    return da.FunctionSystem(
        lambda t, q, p: jnp.eye(1),
        lambda t, q, v, p: -p["k"] * (q + 1.1 * v) + p["k"] * jnp.sin(q) * jnp.sin(t),
        q0=[1.0],
        v0=[0.0],
        parameters={"k": k},
        name="damped",
    )


def end(k, derivative):
    motion = da.simulate(
        damped(k), 1.0, rtol=1e-9, integrator="radau5", samples=2, derivative=derivative, max_steps=4096
    )
    return motion.q[-1, 0]


def test_derivatives_and_batches():
    """Forward, reverse and a batch against central differences of a run at rtol 1e-12."""
    base, step = 1e3, 1.0
    rows = [
        solve_ivp(
            lambda t, y, k=k: [y[1], -k * (y[0] + 1.1 * y[1]) + k * np.sin(y[0]) * np.sin(t)],
            (0, 1), [1.0, 0.0], method="Radau", rtol=1e-12, atol=1e-13,
        ).y[0, -1]
        for k in (base - step, base, base + step)
    ]  # fmt: skip
    slope = (rows[2] - rows[0]) / (2 * step)
    along = jax.jit(jax.vmap(lambda k: jax.jvp(lambda k: end(k, "forward"), (k,), (1.0,))))
    batch, forward = along(jnp.array([base - step, base, base + step]))
    np.testing.assert_allclose(batch, rows, atol=1e-8)
    reverse = jax.jit(jax.grad(lambda k: end(k, "reverse")))(base)
    np.testing.assert_allclose(forward[1], slope, rtol=1e-3)
    np.testing.assert_allclose(reverse, forward[1], rtol=1e-9)


def test_pauses_and_dense_output_change_nothing():
    system = damped(1e3)
    settings = {"rtol": 1e-7, "integrator": "radau5"}
    times = np.linspace(0, 1, 11)
    plain = da.simulate(system, 1.0, samples=times, **settings)
    shares = []
    paused = da.simulate(system, 1.0, samples=times, progress=shares.append, **settings)
    assert len(shares) > 5 and paused.stats["steps"] == plain.stats["steps"]
    np.testing.assert_array_equal(paused.q, plain.q)
    dense = da.simulate(system, 1.0, samples="dense", **settings)
    np.testing.assert_allclose([dense.at(t).q[0] for t in times], plain.q[:, 0], atol=1e-14)
    # the collocation polynomial between the steps, against steps that are not skipped
    fine = da.simulate(system, 1.0, samples=times, **(settings | {"rtol": 1e-11}))
    np.testing.assert_allclose(plain.q, fine.q, atol=1e-6)


# ---- which advice a run gives -------------------------------------------------------------------------------


def test_a_run_that_creeps_says_that_it_is_stiff(rod):
    with pytest.raises(
        da.errors.SimulationError, match=r"The model is stiff: .* 8\.9e\+04 1/s .* Use integrator='radau5'"
    ):
        da.simulate(rod, 1.0, rtol=1e-6, integrator="tsit5", max_steps=3000, samples=21)
    with pytest.warns(da.errors.StiffnessWarning, match=r"rod: \d+ steps\. The model is stiff"):
        done = da.simulate(rod, 0.8, rtol=1e-6, integrator="tsit5", samples=21)
    assert done.status is da.simulation.Status.done


def test_a_run_with_too_few_steps_is_not_called_stiff(four_bar):
    with pytest.raises(da.errors.SimulationError, match="It does not look stiff there"):
        da.simulate(four_bar, 10.0, max_steps=20)
    # a swing that is resolved, however many steps that takes
    spring = da.FunctionSystem(lambda t, q: jnp.eye(1), lambda t, q, v: -1e6 * q, q0=[1.0], v0=[0.0], name="swing")
    with warnings.catch_warnings():
        warnings.simplefilter("error", da.errors.StiffnessWarning)
        with pytest.raises(da.errors.SimulationError, match="It does not look stiff there"):
            da.simulate(spring, 100.0, rtol=1e-4, max_steps=2000, samples=2)
