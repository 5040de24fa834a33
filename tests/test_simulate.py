"""simulate: what it returns, how it ends, and that the constraints hold on every built-in mechanism."""

from __future__ import annotations

import os
import signal
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_cli import python_process
from _helpers_thorough import everyday

import dalembert as da
from dalembert.mechanisms import mechanisms
from dalembert.results._turns import counted
from dalembert.simulation import _host


@pytest.mark.parametrize("name", everyday(mechanisms(), ("four-bar",)))
def test_violation_with_default_settings_over_ten_seconds(name):
    """Position 1e-12 of the machine's size, velocity 1e-11, acceleration 1e-9 relative; Andrews turns in 0.03 s."""
    entry = mechanisms()[name]
    t_end = 0.03 if name == "andrews" else 10.0
    solution = da.simulate(entry.model(), t_end, **entry.run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.RedundancyWarning)
        violation = solution.violation
    assert solution.status is da.simulation.Status.done
    assert violation["position"] <= 1e-12
    assert violation["velocity"] <= 1e-11
    assert violation["acceleration"] <= 1e-9
    # what moves is accounted for, a hundred times the tolerance of 1e-8 (1e-7 for the governor)
    assert solution.energy_drift < 1e-5


def test_without_stabilisation_the_constraints_drift(four_bar):
    """The projection does the work: the same run without it leaves the manifold."""
    drifting = da.simulate(four_bar, 2.0, stabilisation=da.stabilise.NoStabilisation(), rtol=1e-4, integrator="tsit5")
    assert 1e-8 < drifting.violation["position"] < 1e-2


def test_saved_times_steps_and_dense_agree(four_bar, four_bar_motion):
    times = np.array([0.0, 0.31, 1.0, 1.7, 2.0])
    at_times = da.simulate(four_bar, 2.0, samples=times)
    dense = da.simulate(four_bar, 2.0, samples="dense")
    steps = da.simulate(four_bar, 2.0, samples="steps")
    np.testing.assert_array_equal(at_times.t, times)
    for k, t in enumerate(times):
        # the same steps and the same interpolation, then a projection: rounding
        np.testing.assert_allclose(dense.at(t).q, at_times.q[k], atol=1e-12)
        # a cubic between states 0.01 s apart: h⁴/384 · |q⁗| ≈ 1e-7
        np.testing.assert_allclose(four_bar_motion.at(t).q, at_times.q[k], atol=1e-6)
    assert len(steps.t) == steps.stats["accepted"] + 1
    assert steps.t[0] == 0.0 and steps.t[-1] == 2.0
    np.testing.assert_allclose(steps.q[-1], at_times.q[-1], atol=1e-12)
    with pytest.raises(da.errors.DalembertError, match="outside the motion"):
        dense.at(2.1)


def test_progress_changes_nothing(four_bar, four_bar_motion):
    shares = []
    watched = da.simulate(four_bar, 2.0, progress=shares.append)
    assert shares[-1] == 1.0 and shares == sorted(shares) and len(shares) > 5
    np.testing.assert_array_equal(watched.t, four_bar_motion.t)
    # pausing must not change a single step
    np.testing.assert_array_equal(watched.q, four_bar_motion.q)
    assert watched.stats["steps"] == four_bar_motion.stats["steps"]


@pytest.mark.parametrize(
    "options",
    [{"integrator": "tsit5"}, {"dt": 0.003, "integrator": "tsit5"}, {"integrator": "tsit5", "samples": "steps"},
     {"integrator": "tsit5", "max_steps": 50, "throw": False}],
)  # fmt: skip
def test_pausing_for_signals_changes_no_bit(monkeypatch, options):
    once = da.simulate(_bob, 1.0, **options)
    monkeypatch.setattr(_host._Pace, "STEPS", 1)  # then eight steps a call
    monkeypatch.setattr(_host._Pace, "SECONDS", 0.0)
    calls = []
    marched = _host.marched
    monkeypatch.setattr(_host, "marched", lambda *a: (calls.append(1), marched(*a))[1])
    paused = da.simulate(_bob, 1.0, **options)
    assert len(calls) > 5
    for what in ("t", "q", "v", "work", "t_end"):
        np.testing.assert_array_equal(getattr(paused, what), getattr(once, what))
    assert paused.status is once.status
    assert {k: paused.stats[k] for k in ("accepted", "rejected")} == {
        k: once.stats[k] for k in ("accepted", "rejected")
    }


def _bob_mass(t, q):
    return jnp.eye(2)


def _bob_force(t, q, v):
    return jnp.array([0.0, -9.81])


def _bob_rod(t, q):
    return jnp.array([q @ q - 1.0])


_bob = da.FunctionSystem(_bob_mass, _bob_force, position=_bob_rod, q0=[1.0, 0.0])


def _rotor(space: str, spin: float, shaken: float) -> da.Model:
    """A rotor that starts with a spin and is shaken at 1030 rad/s."""
    model, torque, p = da.Model("rotor", space=space), "shaken*cos(1030*t)", {"shaken": shaken}
    if space == "plane":
        body = model.body("b", mass=1.0, inertia=1.0, angular_velocity=spin)
        model.revolute("pin", model.ground, body, at=(0, 0))
        model.torque("shaker", body, torque, parameters=p)
    else:
        body = model.body("b", mass=1.0, inertia=(1, 1, 1), angular_velocity=(0, 0, spin))
        model.revolute("pin", model.ground, body, at=(0, 0, 0), axis=(0, 0, 1))
        model.torque("shaker", body, ("0", "0", torque), parameters=p)
    return model


@pytest.mark.parametrize(("space", "coordinates"), [("plane", "absolute"), ("space", "absolute"), ("space", "joint")])
def test_angles_count_the_turns_between_saved_times(space, coordinates):
    """5 rad from one saved time to the next: more than half a turn."""
    solution = da.simulate(da.build(_rotor(space, 100.0, 0.0), coordinates=coordinates), 1.0, samples=21)
    with warnings.catch_warnings():
        warnings.simplefilter("error", da.errors.RecordWarning)
        angle = solution.dataset["coordinate"].sel(joint_coordinate="pin.angle").values
    # rtol 1e-8 of the integration, over 100 rad
    np.testing.assert_allclose(angle, 100.0 * np.asarray(solution.t), rtol=1e-7)


def test_turns_that_cannot_be_counted_are_told():
    """It swings by 0.01 rad, eight times between two saved times: rates and accelerations there tell nothing."""
    solution = da.simulate(_rotor("space", 0.0, 1e4), 1.0, samples=21)
    with pytest.warns(
        da.errors.RecordWarning, match=r"'rotor': .* too far apart .* joints 'pin': .* Save more often"
    ) as told:
        angle = solution.dataset["coordinate"].values
        solution.reactions("pin")
    assert len([w for w in told if w.category is da.errors.RecordWarning]) == 1
    np.testing.assert_array_equal(angle, solution.results.observed.coordinates)  # the shorter way


def test_angles_that_do_not_wrap_stay_as_they_are():
    t = np.linspace(0.0, 1.0, 11)
    still = np.stack([3.0 * np.sin(t), -0.0 * t], axis=1)
    rates = np.stack([3.0 * np.cos(t), 0.0 * t], axis=1)
    found, known = counted(t, still, rates, -still)
    assert found.tobytes() == still.tobytes() and known.all()
    lost = np.where(t[:, None] > 0.45, np.nan, still)  # a motion that ended in no numbers
    np.testing.assert_array_equal(counted(t, lost, rates, -lost)[0], lost)


def test_too_many_fixed_steps_end_a_compiled_run():
    # more than 32 bits can count, which no one can see before the run
    code = jax.jit(lambda dt: da.simulate(_bob, 0.1, dt=dt, integrator="heun", samples=2, max_steps=4).status_code)(
        1e-11
    )
    assert da.simulation.Status(int(code)) is da.simulation.Status.max_steps


def test_ctrl_c_acts_in_the_middle_of_a_long_march():
    code = (
        "import dalembert as da, jax.numpy as jnp\n"
        "system = da.FunctionSystem(lambda t, q: jnp.eye(1), lambda t, q, v: -q, q0=[1.0])\n"
        "da.simulate(system, 1.0, integrator='tsit5', max_steps=10**9)\n"
        "print('ready', flush=True)\n"
        "da.simulate(system, 1e8, integrator='tsit5', max_steps=10**9)"
    )
    resource = pytest.importorskip("resource")
    if not Path("/proc/self/stat").exists():
        pytest.skip("there is no /proc here, which says what a running process has used")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    before = children.ru_utime + children.ru_stime
    with python_process(code) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(1.0)
        used = processor_time_of(process.pid)
        process.send_signal(signal.SIGINT)
        began = time.perf_counter()
        _, told = process.communicate(timeout=60)
    assert time.perf_counter() - began < 10.0  # a quarter of a second on an idle machine
    assert told.rstrip().endswith("KeyboardInterrupt")
    # on a loaded machine a process waits; what it still computes does not depend on that
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.ru_utime + ended.ru_stime - before - used < 1.0


def processor_time_of(process: int) -> float:
    """Seconds that a running process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_fixed_steps_converge_with_their_order(four_bar):
    exact = da.simulate(four_bar, 0.5, rtol=1e-12, samples=2).q[-1]

    def error(h):
        return np.abs(da.simulate(four_bar, 0.5, dt=h, integrator="tsit5", samples=2).q[-1] - exact).max()

    assert 4.5 < np.log2(error(0.025) / error(0.0125)) < 6.5  # order 5, errors 2e-8 and 5e-10


def test_classical_runge_kutta_is_of_order_four(four_bar):
    """At the ends of steps and, by its cubic interpolation, between them."""
    times = np.linspace(0.0, 0.7, 48)  # some ends of steps, most between
    exact = da.simulate(four_bar, 0.7, rtol=1e-12, samples=times).q

    def error(h):
        return np.abs(da.simulate(four_bar, 0.7, dt=h, integrator="rk4", samples=times).q - exact).max()

    # 3e-6 and 6e-10; over three halvings, as one alone depends on where in a step the instants are
    assert 3.7 < np.log2(error(0.02) / error(0.0025)) / 3 < 4.3


def test_few_steps_are_refused(four_bar):
    """A step is shortened before the error grows too large: 7 % are refused. By PI control that never shortens accepted
    steps, as of Diffrax, 16 %."""
    stats = da.simulate(four_bar, 10.0, rtol=1e-6, integrator="dopri8", samples=2).stats
    assert stats["rejected"] <= 0.1 * stats["steps"]


@pytest.mark.parametrize("integrator", ["tsit5", "dopri8"])
def test_few_steps_are_refused_at_the_stability_limit(integrator):
    """A damper sets the steps: 7 % at most are refused, by control without damping 16 to 20 %."""
    model = da.Model("damped", gravity=(0, -9.81))
    first, second = (model.body(n, mass=1.0, inertia=1 / 12, position=(x, 0)) for n, x in (("a", 0.5), ("b", 1.5)))
    model.revolute("A", model.ground, first, at=(0, 0))
    model.revolute("B", first, second, at=(1, 0))
    model.spring_damper("damper", model.ground, second, at_i=(2, 1), at_j=(1.9, 0), stiffness=3e4, damping=3e3)
    stats = da.simulate(model, 1.0, rtol=1e-3, integrator=integrator, samples=2).stats
    assert stats["steps"] > 500  # a thousand: accuracy alone asks for fifty
    assert stats["rejected"] <= 0.1 * stats["steps"]


@pytest.mark.thorough
def test_implicit_integrator_agrees(four_bar):
    explicit = da.simulate(four_bar, 0.5, rtol=1e-9, samples=2).q[-1]
    implicit = da.simulate(four_bar, 0.5, rtol=1e-8, integrator="kvaerno5", samples=2)
    assert implicit.status is da.simulation.Status.done
    np.testing.assert_allclose(implicit.q[-1], explicit, atol=1e-5)  # a hundred tolerances


def test_stiff_model_needs_few_implicit_steps():
    """A pendulum on a spring of 1e8 N/m with heavy damping: the implicit method steps over the fast decay."""
    model = da.Model("stiff", gravity=(0, -9.81))
    bob = model.body("bob", mass=1.0, inertia=0.1, position=(1.0, 0.0))
    model.spring_damper("rod", model.ground, bob, at_i=(0, 0), stiffness=1e8, damping=1e6, length=1.0)
    solution = da.simulate(model, 0.5, integrator="kvaerno5", rtol=1e-6)
    assert solution.stats["steps"] < 300  # an explicit method needs ~1e5
    # like a rigid pendulum but for the sag m g/k = 1e-7 m
    from scipy.integrate import solve_ivp

    rigid = solve_ivp(lambda t, y: [y[1], -9.81 * np.cos(y[0])], (0, 0.5), [0, 0], rtol=1e-10, atol=1e-12).y[0, -1]
    np.testing.assert_allclose(solution.q[-1, :2], [np.cos(rigid), np.sin(rigid)], atol=1e-4)


# ---- how a run can end ------------------------------------------------------------------------------------


def ball(law) -> da.Model:
    model = da.Model("ball")
    body = model.body("ball", mass=1.0, inertia=1.0, position=(1.0, 1.0))
    model.force_law("law", [body], law)
    return model


def test_nan_is_found_within_five_steps():
    model = ball(lambda t, f: [(jnp.where(t > 0.5, jnp.nan, 1.0) * jnp.ones(2), 0.0)])
    with pytest.raises(da.errors.SimulationError, match="no longer finite") as caught:
        da.simulate(model, 2.0)
    solution = caught.value.solution
    assert solution.status is da.simulation.Status.not_finite
    assert solution.stats["rejected"] <= 5
    assert 0.0 < float(solution.t_end) <= 0.5 and np.all(np.isfinite(solution.q))
    fixed = da.simulate(model, 2.0, dt=0.01, integrator="tsit5", throw=False)
    assert fixed.status is da.simulation.Status.not_finite and float(fixed.t_end) == pytest.approx(0.5, abs=0.011)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_a_force_that_is_not_finite_is_laid_to_its_own_body(coordinates):
    """The second of two rods on a chain; in joint coordinates the first joint carries its force too."""
    model = da.Model("chain")
    upper = model.body("upper", mass=1.0, inertia=0.1, position=(0.5, 0))
    lower = model.body("lower", mass=1.0, inertia=0.1, position=(1.5, 0))
    model.revolute("A", model.ground, upper, at=(0, 0))
    model.revolute("B", upper, lower, at=(1, 0))
    model.force_law("law", [lower], lambda t, f: [(jnp.where(t > 0.05, jnp.nan, 1.0) * jnp.ones(2), 0.0)])
    with pytest.raises(da.errors.SimulationError, match="The force on body 'lower' is the first that is not finite"):
        da.simulate(da.build(model, coordinates=coordinates), 0.2, integrator="tsit5")


def test_blow_up_is_told():
    solution = da.simulate(ball(lambda t, f: [(1e3 * f[0].p * jnp.sum(f[0].p ** 2), 0.0)]), 20.0, throw=False)
    assert solution.status is da.simulation.Status.not_finite


@pytest.mark.parametrize("coordinates", [pytest.param("absolute", marks=pytest.mark.thorough), "joint"])
def test_blow_up_is_told_with_the_body_before_speeds_are_beyond_measure(coordinates):
    """A torque as ω³ on the second of two wheels: ω = 1/√(1 − 2t), infinite at half a second."""
    model = da.Model("wheels", space="plane", gravity=(0, 0))
    for name, speed in (("slow", 0.5), ("fast", 1.0)):
        model.body(name, mass=1.0, inertia=1.0, angular_velocity=speed)
        model.revolute(f"pin of {name}", model.ground, name, at=(0, 0))
    model.force_law("push", ["fast"], lambda t, f: [(jnp.zeros(2), f[0].w ** 3)])
    sentence = r"blows up: the speed of body 'fast' grows without bound .* It stopped at t = 0\.5 s"
    with pytest.raises(da.errors.SimulationError, match=sentence) as caught:
        da.simulate(da.build(model, coordinates=coordinates), 1.0, integrator="tsit5")
    assert caught.value.solution.status is da.simulation.Status.not_finite


def test_a_fixed_step_that_is_too_long_is_told_as_such(four_bar):
    with pytest.raises(da.errors.SimulationError, match="the fixed step dt is too long"):
        da.simulate(four_bar, 2.0, dt=2.0, integrator="tsit5", samples=2)


def test_all_steps_used(four_bar):
    with pytest.raises(da.errors.SimulationError, match="used all its steps"):
        da.simulate(four_bar, 10.0, max_steps=20)


def test_contradicting_drivers_are_named():
    model = da.Model("two drivers")
    arm = model.body("arm", mass=1.0, inertia=1.0, position=(1.0, 0.0))
    model.revolute("A", model.ground, arm, at=(0, 0))
    model.driver("first", "A", lambda t: t)
    model.driver("second", "A", lambda t: t + jnp.where(t > 0.3, (t - 0.3) ** 3, 0.0))
    with pytest.raises(
        da.errors.SimulationError, match="contradict each other.*('second'.*'first'|'first'.*'second')"
    ) as caught:
        da.simulate(model, 2.0)
    assert caught.value.solution.status is da.simulation.Status.inconsistent
    # the gap (t − 0.3)³ reaches 1e-7 of the size at 0.305 s
    assert float(caught.value.solution.t_end) == pytest.approx(0.3, abs=0.01)


def test_impossible_assembly_names_its_joints():
    model = da.Model("impossible")
    arm = model.body("arm", mass=1.0, inertia=0.1, position=(0.5, 0.0))
    model.revolute("pin", model.ground, arm, at=(0, 0))
    model.distance("rod", model.ground, arm, at_i=(3, 0), at_j=(1, 0), length=1.0)
    with pytest.raises(
        da.errors.AssemblyError, match="cannot be assembled.*'pin'.*'rod'|cannot be assembled.*'rod'.*'pin'"
    ):
        da.simulate(model, 1.0)


def test_singular_positions_are_found_and_can_stop_a_run():
    """The N-four-bar upright at 1 m/s: its rods are first in line when θ = 90°, by the closed form of IFToMM A02."""
    from scipy.integrate import solve_ivp

    system = da.build(da.mechanism("n-four-bar", N=1))
    level = lambda t, y: y[0] - np.pi / 2  # noqa: E731
    level.terminal = True
    closed = solve_ivp(
        lambda t, y: [y[1], 1.2 * 9.81 * np.sin(y[0])], (0, 2), [0, 1], events=level, rtol=1e-12, atol=1e-12
    )
    passed = da.simulate(system, 1.0).singular_positions()
    assert [p.rank for p in passed] == [7] and passed[0].rank_elsewhere == 8
    assert passed[0].t == pytest.approx(closed.t_events[0][0], abs=1e-6)  # error of the motion at rtol 1e-8
    with pytest.raises(da.errors.SimulationError, match="rank fell from 8 to 7 at t = 0.708") as caught:
        da.simulate(system, 1.0, singular="stop")
    assert caught.value.solution.status is da.simulation.Status.rank_change


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"integrator": "rk45"}, "integrator='rk45' is unknown"),
        ({"rtol": -1.0}, "rtol=-1.0 must be a positive number"),
        ({"dt": float("nan")}, "dt=nan must be a positive number"),
        ({"samples": "all"}, "samples='all' is unknown"),
        ({"samples": [0.0, 3.0]}, "rising times within"),
        ({"samples": [1.0, 0.5]}, "rising times within"),
        ({"samples": 0}, "samples=0 must be a positive number of times"),
        ({"samples": -3}, "samples=-3 must be a positive number of times"),
        ({"samples": []}, r"samples=\[\] is unknown; use a number of times, an array of times \(not empty\)"),
        ({"samples": 0.5}, "samples=0.5 is unknown"),
        ({"samples": True}, "samples=True is unknown"),
        ({"samples": [[0.0, 1.0]]}, "samples=.* is unknown"),
        ({"samples": ["first", "last"]}, "samples=.* is unknown"),
        ({"samples": [0.5, float("nan")]}, r"rising times within \[0, 2\]; number 2 of them is nan"),
        ({"samples": [-1.0, 1.0]}, "number 1 of them is -1"),
        ({"atol": -1.0}, "atol=-1.0 must be a positive number"),
        ({"atol": float("nan")}, "atol=nan must be a positive number"),
        ({"atol": float("inf")}, "atol=inf must be a positive number"),
        ({"rtol": 0.0}, "rtol=0.0 must be a positive number"),
        ({"rtol": float("nan")}, "rtol=nan must be a positive number"),
        ({"dt": 0.0}, "dt=0.0 must be a positive number"),
        ({"dt": 2.5}, "dt=2.5 s is longer than the whole run of 2 s"),
        ({"max_steps": 0}, "max_steps=0 must be a positive whole number"),
        ({"max_steps": -5}, "max_steps=-5 must be a positive whole number"),
        ({"max_steps": 1e6}, "max_steps=1000000.0 must be a positive whole number"),
        ({"t0": 5.0}, "The end of the run, 2 s, must be later than its start, 5 s"),
        ({"t0": "0"}, "The start of the run must be a number, in seconds, not '0'"),
        ({"rtol": "fine"}, "rtol=fine must be a positive number"),
        ({"rule": "weigthed"}, "The rule 'weigthed' is unknown; use one of minimum_norm, .* Did you mean 'weighted'"),
        ({"integrator": "euler"}, "no error estimate"),
        ({"integrator": "rk4"}, "no error estimate"),
        ({"derivative": "backward"}, "derivative='backward' is unknown"),
        ({"singular": "explode"}, "singular='explode' is unknown"),
        ({"state": (np.zeros(3), np.zeros(9))}, "must have shape"),
        ({"dt": 1e-11}, "takes 200,000,000,000 steps, more than max_steps=10,000,000. Take a longer dt, or raise"),
        ({"dt": 1e-17}, "more than max_steps=10,000,000"),
        ({"dt": 1e-3, "max_steps": 100}, "takes 2,000 steps, more than max_steps=100"),
        ({"max_steps": 2**31}, "max_steps=2147483648 must be a positive whole number, at most 2147483647"),
        ({"max_steps": 2.5}, "max_steps=2.5 must be a positive whole number"),
    ],
)
def test_wrong_arguments_get_a_sentence(four_bar, options, sentence):
    with pytest.raises(da.errors.DalembertError, match=sentence):
        da.simulate(four_bar, 2.0, **options)


def test_the_end_must_be_a_number(four_bar):
    for end in ("2", None, np.inf, np.nan, [1.0, 2.0]):
        with pytest.raises(da.errors.DalembertError, match="The end of the run must be a number, in seconds, not"):
            da.simulate(four_bar, end)


# ---- a consistent start -------------------------------------------------------------------------------------


def test_consistent_state_from_a_rough_guess(four_bar):
    rng = np.random.default_rng(3)
    rough = np.asarray(four_bar.q0) + 0.1 * rng.standard_normal(9)
    q, v = da.stabilise.consistent_state(four_bar, (rough, rng.standard_normal(9)))
    Phi, phi = da.equations.residuals(four_bar, 0.0, q, v)
    assert np.abs(Phi).max() < 1e-13 and np.abs(phi).max() < 1e-13  # rounding


def test_held_coordinates_do_not_move(four_bar):
    rough = np.asarray(four_bar.q0).copy()
    rough[2] += 0.3
    q, _ = da.stabilise.consistent_state(four_bar, (rough, None), hold=["crank.angle"])
    assert q[2] == rough[2]
    assert np.abs(da.equations.residuals(four_bar, 0.0, q, np.zeros(9))[0]).max() < 1e-13
    with pytest.raises(da.errors.DalembertError, match="there is no body 'crnk'"):
        da.stabilise.consistent_state(four_bar, hold=["crnk"])
    with pytest.raises(da.errors.DalembertError, match="'crank.q' is unknown"):
        da.stabilise.consistent_state(four_bar, hold=["crank.q"])


def test_velocity_filter_is_the_mass_metric_projection(four_bar):
    """v − v_rough must be M⁻¹Cᵀμ: the admissible part is kept [Kövecses, Piedbœuf 2003, eq. 33]."""
    rough = np.random.default_rng(4).standard_normal(9)
    q, v = da.stabilise.consistent_state(four_bar, (None, rough))
    e = da.assemble(four_bar, 0.0, q, v)
    impulse = np.asarray(e.M) @ (np.asarray(v) - rough)
    null = np.linalg.svd(np.asarray(e.C))[2][8:]
    assert np.abs(null @ impulse).max() < 1e-13  # rounding


def test_start_velocities_that_the_joints_do_not_allow_are_told(four_bar):
    """Only the crank is said to turn: the nearest motion has it slower, which nobody should find out by chance."""
    v = np.zeros(four_bar.n)
    v[2] = 8.0
    with pytest.warns(da.errors.AssemblyWarning, match=r"'crank.angle' from 8 to .*hold=\['crank.angle'\]"):
        solution = da.simulate(four_bar, 0.05, (four_bar.q0, v), samples=2)
    assert solution.stats["start_velocity_changed"] > 0.1
    held = da.stabilise.consistent_state(four_bar, (None, v), hold=["crank.angle"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = da.simulate(four_bar, 0.05, held, samples=2)
    assert solution.v[0, 2] == pytest.approx(8.0, abs=1e-9)
    assert solution.stats["start_velocity_changed"] < 1e-9


@pytest.fixture(scope="module")
def door_at_rest():
    """A door on two hinges with an upright axis, and a bushing besides: nothing moves, two hinges share the weight."""
    model = da.Model("door at rest", space="space", gravity=(0, 0, -9.81))
    door = model.body("door", mass=10.0, inertia=(1.0, 2.0, 3.0), position=(0.5, 0, 30.0))
    for name, z in (("low_hinge", 29.5), ("high_hinge", 30.5)):
        model.revolute(name, model.ground, door, at=(0, 0, z), axis=(0, 0, 1))
    model.bushing("low", model.ground, door, stiffness=[1.0] * 6, at=(1, 0, 29.5))
    return da.simulate(model, 1.0, samples=21)


def test_energy_of_a_machine_at_rest_does_not_drift(door_at_rest):
    """What moves is rounding of 2943 J: told against the machine's own energy, not against itself."""
    assert np.max(np.abs(door_at_rest.v)) < 1e-12
    assert door_at_rest.energy_drift < 1e-6


def test_a_bushing_has_no_reaction(door_at_rest):
    with pytest.raises(da.errors.DalembertError, match=r"'low' is a force \(bushing\), not a joint"):
        door_at_rest.reactions("low")


def test_warnings_point_at_the_line_that_asked(door_at_rest):
    for ask in (
        lambda: door_at_rest.reactions("low_hinge"),
        lambda: door_at_rest.reactions("low_hinge", rule="minimum_norm"),
        lambda: door_at_rest.multipliers,
    ):
        with pytest.warns(da.errors.RedundancyWarning) as heard:
            ask()
        assert {w.filename for w in heard} == {__file__}
