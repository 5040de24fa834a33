"""Objects of Diffrax in `simulate`: solvers, step-size controllers, events, adjoints; what does not fit is refused."""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
import pytest

import dalembert as da


@pytest.fixture(scope="module")
def pendulum():
    """A point mass of 1 kg on a rod of 1 m, in Cartesian coordinates; g = 9.81 m/s²."""
    return da.FunctionSystem(
        q0=jnp.array([1.0, 0.0]),
        mass=lambda t, q: jnp.eye(2),
        force=lambda t, q, v: jnp.array([0.0, -9.81]),
        position=lambda t, q: jnp.array([0.5 * (q @ q - 1.0)]),
    )


@pytest.fixture(scope="module")
def tight(pendulum):
    return np.asarray(da.simulate(pendulum, 1.0, rtol=1e-12).q)


def test_a_named_solver_is_its_object(pendulum):
    """diffrax.Tsit5() says what "tsit5" says: the same program, the same numbers."""
    by_name, by_object = (da.simulate(pendulum, 1.0, integrator=i) for i in ("tsit5", diffrax.Tsit5()))
    np.testing.assert_array_equal(by_name.q, by_object.q)
    assert by_object.integrator == "tsit5" and by_object.restart is not None


@pytest.mark.parametrize("solver", [diffrax.Ralston(), diffrax.Kvaerno4()], ids=repr)
def test_solvers_of_diffrax_march(pendulum, tight, solver):
    solution = da.simulate(pendulum, 1.0, integrator=solver, rtol=1e-5)
    assert solution.integrator == type(solver).__name__
    # errors of steps add up: a hundred times the tolerance
    np.testing.assert_allclose(solution.q, tight, atol=1e-3)
    assert solution.violation["position"] < 1e-9  # projected, whatever the solver
    with pytest.raises(da.errors.DalembertError, match="cannot go on"):
        da.simulate(pendulum, 2.0, after=solution)


def test_implicit_euler_is_of_first_order(pendulum, tight):
    """Half the step, half the error; terms of second order change that by some percent at these steps."""
    runs = [da.simulate(pendulum, 1.0, integrator=diffrax.ImplicitEuler(), dt=dt) for dt in (4e-3, 2e-3)]
    coarse, fine = (np.max(np.abs(np.asarray(run.q) - tight)) for run in runs)
    assert 1.8 < coarse / fine < 2.2


def test_a_root_finder_of_ones_own(pendulum, tight):
    solver = diffrax.Kvaerno5(root_finder=optimistix.Newton(rtol=1e-9, atol=1e-9))
    solution = da.simulate(pendulum, 1.0, integrator=solver, rtol=1e-6)
    assert solution.integrator == "Kvaerno5"
    np.testing.assert_allclose(solution.q, tight, atol=1e-4)


@pytest.mark.parametrize(
    "solver",
    [diffrax.LeapfrogMidpoint(), diffrax.SemiImplicitEuler(), diffrax.KenCarp4(), diffrax.ReversibleHeun()],
    ids=repr,
)
def test_solvers_that_cannot_be_projected_are_refused_by_name(pendulum, solver):
    with pytest.raises(da.errors.DalembertError, match=type(solver).__name__):
        da.simulate(pendulum, 1.0, integrator=solver)


def test_wrong_objects_are_refused(pendulum):
    for given, words in (
        ({"integrator": diffrax.Tsit5}, "is a class"),
        ({"integrator": 5}, "is unknown"),
        ({"integrator": diffrax.Euler()}, "no error estimate"),
        ({"stepsize_controller": "pid"}, "is unknown"),
        ({"stepsize_controller": diffrax.ConstantStepSize()}, "give dt="),
        ({"stepsize_controller": diffrax.PIDController(rtol=1e-6, atol=1e-6), "rtol": 1e-3}, "rtol= cannot be given"),
        ({"event": lambda t, y, args: t}, "diffrax.Event"),
        ({"derivative": diffrax.BacksolveAdjoint()}, "BacksolveAdjoint"),
        ({"derivative": diffrax.ImplicitAdjoint()}, "ImplicitAdjoint"),
        ({"derivative": "sideways"}, "is unknown"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            da.simulate(pendulum, 1.0, **given)


def test_controllers_set_the_steps(pendulum, tight):
    limited = diffrax.PIDController(rtol=1e-8, atol=1e-8, dtmax=0.01)
    solution = da.simulate(pendulum, 1.0, stepsize_controller=limited, samples="steps")
    assert np.max(np.diff(solution.t)) <= 0.01 * (1 + 1e-12)
    ts = np.linspace(0.0, 1.0, 101)
    stepped = da.simulate(pendulum, 1.0, integrator="dopri8", stepsize_controller=diffrax.StepTo(ts), samples=201)
    assert int(stepped.stats["steps"]) == 100
    # 100 steps of order 8: 1e-8 is loose
    np.testing.assert_allclose(stepped.q, tight, atol=1e-8)
    fixed, plain = (
        da.simulate(pendulum, 1.0, integrator="tsit5", dt=0.01, **more)
        for more in ({"stepsize_controller": diffrax.ConstantStepSize()}, {})
    )
    np.testing.assert_array_equal(fixed.q, plain.q)


def test_an_event_ends_a_motion(pendulum):
    """The rod is vertical when v = √(2 g l) (energy): found to the tolerance of the root finder."""
    event = diffrax.Event(lambda t, state, args, **_: state.q[0], optimistix.Newton(1e-10, 1e-10))
    solution = da.simulate(pendulum, 5.0, rtol=1e-10, event=event)
    assert solution.status is da.simulation.Status.event and float(solution.t_end) == solution.t[-1]
    q, v = solution.state
    # the interpolation between two steps is of order 7: a hundred tolerances
    np.testing.assert_allclose(q, [0.0, -1.0], atol=1e-8)
    np.testing.assert_allclose(v, [-np.sqrt(2 * 9.81), 0.0], atol=1e-7)
    never = diffrax.Event(lambda t, state, args, **_: state.q[1] > 2.0)
    assert da.simulate(pendulum, 0.5, event=never).status is da.simulation.Status.done
    slow = da.simulate(pendulum, 5.0, rtol=1e-10, event=event, progress=lambda share: None)  # with pauses
    np.testing.assert_allclose(slow.t_end, solution.t_end, rtol=1e-12)


@pytest.mark.parametrize(
    "derivative",
    [
        pytest.param(diffrax.RecursiveCheckpointAdjoint(checkpoints=20), marks=pytest.mark.thorough),
        diffrax.DirectAdjoint(),
    ],
    ids=repr,
)
def test_adjoints(pendulum, derivative):
    """dq/dv0 by reverse mode is that by central differences: 1e-6 is what these leave at h = 1e-4 and rtol 1e-8."""

    def end(speed):
        state = (pendulum.q0, jnp.array([0.0, 1.0]) * speed)
        return da.simulate(pendulum, 0.2, state, rtol=1e-8, samples=2, max_steps=64, derivative=derivative).q[-1, 0]

    h = 1e-4
    expected = (end(1.0 + h) - end(1.0 - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(end)(1.0), expected, atol=1e-6)
