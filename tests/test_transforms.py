"""jit, vmap and grad through everything numerical: a mass, a length, a start velocity, forward and reverse."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

T = 0.5
TIGHT = {"rtol": 1e-10, "integrator": "tsit5", "save": 2, "max_steps": 1024}
# the coupler is a body whose shape does not follow its pins: moving the pin changes the linkage's length
KNOBS = {"crank.mass": 1.0, "coupler.inertia": 2.0 * 4 / 12, "B.point_j": np.array([-1.0, 0.0])}


def end_position(system, values, v0, derivative):
    """Where the coupler's centre is at the end, from a start assembled anew for the changed linkage."""
    changed = system.replace(values)
    solution = da.simulate(changed, T, (changed.q0, v0), derivative=derivative, **TIGHT)
    return solution.q[-1, 3:5] @ jnp.array([1.0, 0.7])


def start_velocity(system, speed):
    """A push on the crank's angle; the start is made consistent by `simulate`."""
    return jnp.zeros(system.n).at[2].set(speed)


def of_mass(system, x, derivative):
    return end_position(system, {"crank.mass": x}, start_velocity(system, 0.5), derivative)


def of_length(system, x, derivative):
    return end_position(system, {"B.point_j": jnp.stack([x, 0.0 * x])}, start_velocity(system, 0.5), derivative)


def of_speed(system, x, derivative):
    return end_position(system, {}, start_velocity(system, x), derivative)


CASES = {"mass": (of_mass, 1.0), "length": (of_length, -1.0), "start velocity": (of_speed, 0.5)}


@pytest.mark.parametrize("name", CASES)
def test_gradient_through_simulate(four_bar, name):
    """Against central differences: their own error is ~1e-8 relative (step 1e-4, solver noise 1e-11), the bar 1e-6."""
    function, x = CASES[name]
    reverse = jax.jit(jax.grad(lambda x: function(four_bar, x, "reverse")))(x)
    forward = jax.jit(jax.jacfwd(lambda x: function(four_bar, x, "forward")))(x)
    value = jax.jit(lambda x: function(four_bar, x, "forward"))
    h = 1e-4
    numeric = (8 * (value(x + h) - value(x - h)) - (value(x + 2 * h) - value(x - 2 * h))) / (12 * h)
    assert abs(float(numeric)) > 1e-3  # a gradient that matters
    assert float(forward) == pytest.approx(float(numeric), rel=1e-6)
    assert float(reverse) == pytest.approx(float(numeric), rel=1e-6)


def test_vmap_over_a_parameter_equals_single_runs(four_bar):
    masses = jnp.array([0.5, 1.0, 2.0])
    run = jax.jit(jax.vmap(lambda m: da.simulate(four_bar.replace({"crank.mass": m}), T, **TIGHT).q[-1]))
    together = run(masses)
    for k, mass in enumerate(masses):
        alone = da.simulate(four_bar.replace({"crank.mass": mass}), T, **TIGHT).q[-1]
        # the same steps in another order of operations: rounding, amplified by the motion
        np.testing.assert_allclose(together[k], alone, atol=1e-10)


def test_gradient_in_a_redundant_model():
    """A derivative must not see the null space of the rows: the door's swing against its closed form."""
    system = da.build(da.mechanism("door-two-hinges"))

    def end(swing):
        v = jnp.array([0.0, 0.5, 0.0, 0.0, 0.0, 1.0]) * swing
        return da.simulate(system, T, (system.q0, v), derivative="forward", **TIGHT).q[-1, 1]

    # y of the centre = 0.5 sin(swing t): d/dswing = 0.5 t cos(swing t); the solver's error is 1e-10
    assert float(jax.jit(jax.jacfwd(end))(1.0)) == pytest.approx(0.5 * T * np.cos(T), rel=1e-7)


def test_sparse_and_dense_agree_and_are_differentiable(monkeypatch):
    """The same model through KLU and through the dense Cholesky: accelerations, projection, derivative."""
    from dalembert.systems import _build

    model = da.mechanism("n-four-bar", N=4)
    monkeypatch.setattr(_build, "SPARSE_FROM", 10**9)
    dense = da.build(model)
    monkeypatch.setattr(_build, "SPARSE_FROM", 0)
    sparse = da.build(model)
    assert dense.klu is None and sparse.klu is not None

    def acceleration(system, mass):
        e = da.assemble(system.replace({"rocker0.mass": mass}), 0.0, system.q0, system.v0)
        return da.Proximal().solve(e).vdot

    for a, b in zip(*(jax.jit(lambda m, s=s: (acceleration(s, m), jax.jacfwd(lambda x: acceleration(s, x))(m)))(1.0)
                      for s in (dense, sparse)), strict=True):  # fmt: skip
        np.testing.assert_allclose(a, b, atol=1e-9)  # what two and one refinements leave: (1e-9/σ)²
    reverse = jax.grad(lambda m: acceleration(sparse, m)[2])(1.0)
    forward = jax.jacfwd(lambda m: acceleration(sparse, m)[2])(1.0)
    assert float(reverse) == pytest.approx(float(forward), rel=1e-10)
    nudged = dense.q0 + 1e-4 * np.sin(np.arange(len(dense.q0)))
    states = [da.consistent_state(s, nudged, dense.v0) for s in (dense, sparse)]
    np.testing.assert_allclose(states[0].q, states[1].q, atol=1e-12)
    np.testing.assert_allclose(states[0].v, states[1].v, atol=1e-11)


def test_changing_a_parameter_never_recompiles(four_bar):
    from dalembert._runtime import compile_stopwatch

    # the same kinds of numbers, other values: no eager operation of the first call may be new in the second
    da.simulate(four_bar.replace({"crank.mass": 1.1, "gravity": (0, -1.6)}), 0.8 * T, **TIGHT)
    before = compile_stopwatch.seconds
    da.simulate(four_bar.replace({"crank.mass": 1.7, "gravity": (0, -3.7)}), 0.9 * T, **{**TIGHT, "rtol": 1e-9})
    assert compile_stopwatch.seconds == before
