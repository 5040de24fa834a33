"""The native march inside programs of JAX: jit, vmap and forward derivatives of `simulate` reach the machine code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.simulation import Status, _called

QUICK = {"rtol": 1e-7, "samples": 3}
TIGHT = {"rtol": 1e-11, "samples": 2, "derivative": "forward"}


@pytest.fixture
def calls(monkeypatch):
    """The shapes of what the native march is called with."""
    seen = []
    march = _called.Called.__call__
    monkeypatch.setattr(
        _called.Called, "__call__", lambda self, *given: (seen.append([x.shape for x in given]), march(self, *given))[1]
    )
    return seen


def _mass(t, q, p):
    return jnp.diag(jnp.array([p["mass"], 2.0]))


def _force(t, q, v, p):
    return jnp.array([-p["stiffness"] * q[0] - 0.3 * v[0], p["push"] / (1.0 - t * p["pole"])])


def _rows(t, q, p):
    return jnp.array([q[1] - p["slope"] * q[0] - jnp.sin(q[0])])


@pytest.fixture(scope="module")
def bead():
    """A bead on a curve, with a damper (work), and a push that has a pole at t = 1/pole."""
    given = {"mass": 1.5, "stiffness": 3.0, "slope": 0.4, "push": 1.0, "pole": 0.1}
    system = da.FunctionSystem(
        _mass, _force, position=_rows, q0=[0.3, 0.4 * 0.3 + np.sin(0.3)], v0=[0, 0], parameters=given
    )
    return da.prepare(system)


def run(machine, names, x, **options):
    """The end state and the work done, by parameters."""
    changed = machine.replace(dict(zip(names, x, strict=True)))
    return da.simulate(changed, 0.5, **options)


def end(machine, names, x, **options):
    solution = run(machine, names, x, **options)
    return jnp.concatenate([solution.q[-1], solution.v[-1], solution.work[-1]])


def differences(function, x, h=1e-4):
    """Central differences of fourth order: errors are h⁴ and 1e-11/h, 1e-7 of the largest."""
    columns = []
    for k in range(len(x)):
        near = [np.asarray(function(x + i * h * np.eye(len(x))[k])) for i in (-2, -1, 1, 2)]
        columns.append((8 * (near[2] - near[1]) - (near[3] - near[0])) / (12 * h))
    return np.stack(columns, axis=-1)


NAMES = ("mass", "stiffness", "slope")


def test_jit_and_vmap_change_no_bit(bead, calls):
    """The same start, the same machine code: equal to the run outside of JAX."""
    x = np.array([[1.5, 3.0, 0.4], [1.0, 2.0, 0.4], [2.0, 3.5, 0.4]])
    alone = [run(bead, NAMES, row, **QUICK) for row in x]
    one = jax.jit(lambda row: run(bead, NAMES, row, **QUICK))(x[0])
    together = jax.jit(jax.vmap(lambda row: run(bead, NAMES, row, **QUICK)))(x)
    assert [shape[0][0] for shape in calls] == [1, 3]
    np.testing.assert_array_equal(one.q, alone[0].q)
    assert int(one.stats["steps"]) == int(alone[0].stats["steps"])
    for k, solution in enumerate(alone):
        assert together[k].status is Status.done
        # in lanes sums of products may be rounded once instead of twice: 1e-16 in each step
        np.testing.assert_allclose(together.q[k], solution.q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(together.v[k], solution.v, rtol=0, atol=1e-12)
        np.testing.assert_allclose(together.work[k], solution.work, rtol=0, atol=1e-12)


def test_a_jacobian_is_one_march_and_exact(bead, calls):
    """By three parameters, of two members: against central differences, and the program of JAX."""
    x = np.array([[1.5, 3.0, 0.4], [1.0, 2.0, 0.4]])
    found = jax.jit(jax.vmap(jax.jacfwd(lambda row: end(bead, NAMES, row, **TIGHT))))(x)
    assert [shape[2][:2] for shape in calls] == [(2, 3)]
    for k in range(2):
        expected = differences(lambda row: end(bead, NAMES, row, **TIGHT), x[k])
        np.testing.assert_allclose(found[k], expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    by_jax = jax.jit(jax.jacfwd(lambda row: end(bead, NAMES, row, engine="jax", **TIGHT)))(x[0])
    np.testing.assert_allclose(found[0], by_jax, rtol=0, atol=1e-8)


def test_more_directions_than_one_machine_code_has(bead, monkeypatch):
    """They are shared out over lanes: the same derivatives."""
    x = np.array([1.5, 3.0, 0.4])
    jacobian = jax.jacfwd(lambda row: end(bead, NAMES, row, **TIGHT))
    once = jacobian(x)
    monkeypatch.setattr(_called, "DIRECTIONS", 2)
    np.testing.assert_allclose(jacobian(x), once, rtol=0, atol=1e-12)


def test_a_member_that_fails_leaves_the_others_alone(bead):
    """Bit for bit; it has a status, and no derivative."""
    poles = np.array([0.1, 3.0, 0.2, 0.3])
    options = {"rtol": 1e-6, "samples": 3, "derivative": "forward"}

    def both(pole):
        def value(p):
            solution = run(bead, ("pole",), (p,), **options)
            return solution.q[-1], (solution.q, solution.status_code)

        return jax.jacfwd(value, has_aux=True)(pole)

    batch = jax.vmap(both)
    slopes, (q, codes) = batch(poles)
    good = [0, 2, 3]
    slopes_alone, (q_alone, _) = batch(poles[good])
    np.testing.assert_array_equal(q[np.array(good)], q_alone)
    np.testing.assert_array_equal(slopes[np.array(good)], slopes_alone)
    assert [int(c) == Status.done.value for c in codes] == [True, False, True, True]
    assert np.all(np.isnan(slopes[1])) and not np.any(np.isfinite(q[1, -1]))


def test_limits_and_sample_times_may_differ(bead):
    """vmap over the end and the tolerance: each member has its own."""
    ends, rtol = np.array([0.3, 0.5, 0.3]), np.array([1e-6, 1e-7, 1e-6])
    together = jax.vmap(lambda t, r: da.simulate(bead, t, rtol=r, integrator="tsit5", samples=4))(ends, rtol)
    for k in range(3):
        alone = da.simulate(bead, ends[k], rtol=rtol[k], integrator="tsit5", samples=4)
        np.testing.assert_array_equal(together.t[k], alone.t)
        np.testing.assert_allclose(together.q[k], alone.q, rtol=0, atol=1e-12)


def test_the_end_may_be_differentiated():
    """By times JAX marches: dq/dt_end is the velocity. q̈ = −q from (1, 0): −sin t, at the solver's error of 1e-8."""
    swing = da.FunctionSystem(lambda t, q: jnp.eye(1), lambda t, q, v: -q, q0=[1.0], v0=[0.0])
    options = {"samples": 2, "derivative": "forward", "integrator": "tsit5"}
    slope = jax.jacfwd(lambda t: da.simulate(swing, t, **options).q[-1, 0])(0.4)
    assert float(slope) == pytest.approx(-np.sin(0.4), abs=1e-7)


def test_fixed_steps_and_all_steps_are_saved(bead):
    fixed = {"dt": 0.01, "integrator": "rk4", "samples": "steps", "max_steps": 60}
    inside = jax.jit(lambda m: run(bead, ("mass",), (m,), **fixed))(1.5)
    outside = run(bead, ("mass",), (1.5,), **fixed)
    assert inside.t.shape == (61,)  # the start and room for all steps
    count = len(outside.t)
    np.testing.assert_array_equal(inside.t[:count], outside.t)
    np.testing.assert_array_equal(inside.q[:count], outside.q)
    assert np.all(np.isinf(inside.t[count:]))


def test_what_cannot_be_native_is_refused_where_that_is_asked_for(bead):
    with pytest.raises(da.errors.DalembertError, match=r"engine='native' cannot march this: its integrator"):
        jax.jit(lambda m: run(bead, ("mass",), (m,), engine="native", integrator="radau5").q)(1.5)


def test_numbers_that_a_function_closes_over_stay_in_jax():
    """A system made inside of jit, whose functions hold traced numbers: JAX marches. x̂ = v₀ t + p t²/2."""

    def reached(push):
        system = da.FunctionSystem(lambda t, q: jnp.eye(1), lambda t, q, v: push * jnp.ones(1), q0=[0.0], v0=[1.0])
        return da.simulate(system, 0.5, samples=2, integrator="tsit5").q[-1, 0]

    assert float(jax.jit(reached)(3.0)) == pytest.approx(0.5 + 3.0 * 0.125, rel=1e-9)


def test_where_no_machine_code_can_be_made_jax_marches_each_member(monkeypatch):
    """And differentiates it: q̈ = −p q from (1, 0), q = cos √p t, at the solver's error of 1e-8."""
    swing = da.FunctionSystem(
        lambda t, q, p: jnp.eye(1), lambda t, q, v, p: -p["rate"] * q, q0=[1.0], v0=[0.0], parameters={"rate": 1.0}
    )
    monkeypatch.setattr(_called._native, "machine_for", lambda *_: "none today")
    options = {"samples": 2, "derivative": "forward", "integrator": "tsit5"}
    slope = jax.jacfwd(lambda p: da.simulate(swing.replace({"rate": p}), 0.4, **options).q[-1, 0])(1.0)
    assert float(slope) == pytest.approx(-0.2 * np.sin(0.4), abs=1e-7)
