"""`simulate_many`: each member as `simulate` marches it alone, whatever else is in the batch."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import dalembert as da
from dalembert.kernels import Kernel, Unknown
from dalembert.results import _batch
from dalembert.results._batch import together
from dalembert.simulation import Status
from dalembert.simulation._rows import AT_ONCE


@pytest.fixture(scope="module")
def four_bar():
    return da.build(da.mechanism("four-bar"))


MASSES = np.linspace(0.8, 1.5, 11)


@pytest.fixture(scope="module")
def runs(four_bar):
    return da.simulate_many(four_bar, {"crank.mass": MASSES}, 1.0, rtol=1e-6, samples=6)


@pytest.mark.parametrize("k", [0, 7, 10])
def test_a_member_is_what_simulate_gives(four_bar, runs, k):
    one = da.simulate(four_bar.replace({"crank.mass": MASSES[k]}), 1.0, rtol=1e-6, samples=6)
    np.testing.assert_allclose(runs[k].q, one.q, rtol=0, atol=1e-12)  # the same steps: rounding only
    np.testing.assert_allclose(runs[k].v, one.v, rtol=0, atol=1e-11)
    assert int(runs.stats["accepted"][k]) == int(one.stats["accepted"])
    assert max(runs[k].violation.values()) < 1e-12


def test_the_batch_does_not_matter(four_bar):
    """Bit for bit: alone, across two chunks, in another order, by one thread or three. More than two chunks of members,
    so that threads have something to share."""
    masses = np.linspace(0.8, 1.5, 601)
    assert len(masses) > 2 * AT_ONCE
    given = {"rtol": 1e-6, "samples": 3}
    runs = da.simulate_many(four_bar, {"crank.mass": masses}, 0.5, **given)
    across = slice(AT_ONCE - 3, AT_ONCE + 4)
    for chosen, threads in (
        (slice(300, 301), None),
        (across, None),
        (slice(None, None, -1), None),
        (slice(None), 1),
        (slice(None), 3),
    ):
        again = da.simulate_many(four_bar, {"crank.mass": masses[chosen]}, 0.5, threads=threads, **given)
        np.testing.assert_array_equal(again.q, runs.q[chosen])
        np.testing.assert_array_equal(again.work, runs.work[chosen])
        np.testing.assert_array_equal(again.stats["accepted"], runs.stats["accepted"][chosen])


def test_progress_reaches_the_end(four_bar):
    """A share for each chunk of members, rising to 1; also where another device marches."""
    masses = np.linspace(0.8, 1.5, AT_ONCE + 1)
    for device, members in (("cpu", masses), ("jax", MASSES[:3])):
        shares = []
        da.simulate_many(
            four_bar, {"crank.mass": members}, 1.0, rtol=1e-6, samples=6, device=device, progress=shares.append
        )
        assert shares[-1] == 1.0 and shares == sorted(shares)
        assert len(shares) == (2 if device == "cpu" else 1)


def test_an_unknown_operation_is_refused_by_name():
    """Sorting has no rule: the kernel, a batch and engine='native' name it and what to do; by itself JAX marches."""

    def force(t, q, v):
        return -jnp.sort(q)

    with pytest.raises(Unknown, match="the operation 'sort'"):
        Kernel.of("force", lambda _, q: force(0.0, q, q), (), np.ones(2))
    system = da.FunctionSystem(lambda t, q: jnp.eye(2), force, q0=[0.5, 0.2])
    with pytest.raises(da.errors.DalembertError, match="the operation 'sort'.*Use jax.vmap over da.simulate"):
        da.simulate_many(system, (np.ones((2, 2)), np.zeros((2, 2))), 0.1)
    with pytest.raises(da.errors.DalembertError, match="the operation 'sort'.*engine='auto'"):
        da.simulate(system, 0.1, engine="native")
    assert da.simulate(system, 0.1, samples=2).restart.engine == "jax"


def one_by_one(monkeypatch):
    """Queries of a batch are asked run by run."""
    monkeypatch.setattr(_batch, "ask_all", lambda *_: None)


@pytest.mark.parametrize("frame", ["world", "joint"])
def test_violation_and_reactions_of_all_runs_at_once(four_bar, frame, monkeypatch):
    """As run by run, to rounding, with all labels; a run that does not begin holds NaN."""
    points = np.tile(four_bar.parameters()["D.point_i"], (4, 1))
    points[2] += 100.0
    members = {"crank.mass": np.linspace(0.8, 1.5, 4), "D.point_i": points}
    with pytest.warns(da.errors.AssemblyWarning, match="starts were moved"):
        runs = da.simulate_many(four_bar, members, 0.5, rtol=1e-6, samples=4)
    asked = []
    monkeypatch.setattr(_batch, "together", lambda *given: asked.append(given) or together(*given))
    violation, found = runs.violation, runs.reactions("A", frame=frame)
    assert not asked  # no run by itself
    one_by_one(monkeypatch)
    again = runs[:]
    expected, slow = again.violation, again.reactions("A", frame=frame)
    assert len(asked) == 1
    for level, values in expected.items():
        np.testing.assert_allclose(violation[level], values, rtol=0, atol=1e-14)
    assert np.isnan(violation["position"][2]) and not np.isnan(violation["position"][3])
    xr.testing.assert_allclose(found, slow, rtol=1e-11)
    assert found.attrs == slow.attrs and list(found.coords) == list(slow.coords)
    assert {k: (x.dims, x.attrs, x.dtype) for k, x in found.variables.items()} == {
        k: (x.dims, x.attrs, x.dtype) for k, x in slow.variables.items()
    }


def test_reactions_of_runs_with_dependent_rows_are_asked_one_by_one(monkeypatch):
    """A parallelogram passes its line position, where reactions of rockers of different masses grow without limit:
    those runs that get there are looked at as ever."""
    system = da.build(da.mechanism("n-four-bar", N=1)).replace({"rocker1.mass": 3.0})
    start = da.stabilise.consistent_state(system)
    angle = da.simulate(system, 0.8, samples=np.linspace(0.6, 0.8, 201), rtol=1e-10)
    passed = float(np.interp(0.0, -np.asarray(angle.q)[:, 2], angle.t))
    speeds = np.array([1.0, 0.0, 1.0])[:, None]
    times = passed + np.array([-0.6, -0.1, -1e-6, 0.0, 1e-6, 0.1])
    starts = np.tile(start.q, (3, 1)), speeds * np.asarray(start.v)
    runs = da.simulate_many(system, starts, times[-1], samples=times, rtol=1e-8)
    found = runs.reactions("foot0")
    one_by_one(monkeypatch)
    slow = runs[:].reactions("foot0")
    xr.testing.assert_allclose(found, slow, rtol=1e-9)
    unique = found["unique_force"].values.all(axis=2)
    assert unique[1].all() and unique[:, [0, 1, 5]].all() and not unique[::2, 2:5].any()
    assert found.attrs == slow.attrs


def test_threads_that_march_stay(four_bar):
    """Batches of several parts are marched by the same threads: each new one would take memory of its own."""
    masses = np.linspace(0.8, 1.5, 2 * AT_ONCE + 1)

    def march():
        found = da.simulate_many(four_bar, {"crank.mass": masses}, 0.02, rtol=1e-4, samples=2, threads=2)
        assert np.all(found.status_code == Status.done.value)
        return {t.ident for t in threading.enumerate() if t.name.startswith("march")}

    assert march() and march() == march()


def test_labelled_data_and_reactions_have_a_run(runs):
    data = runs.reactions("A")
    assert data.sizes["run"] == 11
    assert runs.dataset.sizes["run"] == 11


def test_a_member_says_its_own_numbers(runs, tmp_path):
    """Tolerance and seconds of a member, which a batch holds as arrays, are no whole numbers in its data or file."""
    one = runs[1]
    assert one.dataset.attrs["rtol"] == float(one.stats["rtol"]) > 0
    assert isinstance(one.dataset.attrs["steps"], int)
    assert da.open(one.to_netcdf(tmp_path / "one.nc")).stats["rtol"] == float(one.stats["rtol"])


def test_starts_vary(four_bar):
    start = da.stabilise.consistent_state(four_bar)
    speeds = np.array([0.5, 1.0, 2.0])
    starts = (np.tile(start.q, (3, 1)), speeds[:, None] * np.asarray(start.v) + 0.0)
    runs = da.simulate_many(four_bar, starts, 0.5, samples=3)
    for k in range(3):
        one = da.simulate(four_bar, 0.5, (starts[0][k], starts[1][k]), samples=3)
        np.testing.assert_allclose(runs.q[k], one.q, rtol=0, atol=1e-12)


def _mass(t, q, p):
    return jnp.eye(1)


def _force(t, q, v, p):
    return jnp.array([p["push"] / (1.0 - t * p["pole"])])


@pytest.mark.parametrize("dt", [None, 0.01])
def test_a_member_that_fails_leaves_the_others_alone(dt):
    """A force with a pole at t = 1/pole: the member stops there, the others are the same bit for bit."""
    system = da.FunctionSystem(_mass, _force, q0=[0.0], v0=[0.0], parameters={"push": 1.0, "pole": 0.1})
    given = {"rtol": 1e-6} if dt is None else {"dt": dt, "integrator": "tsit5"}
    poles = np.array([0.1, 2.0, 0.2, 0.3, 0.4])
    runs = da.simulate_many(system, {"pole": poles}, 1.0, samples=11, **given)
    good = [0, 2, 3, 4]
    alone = da.simulate_many(system, {"pole": poles[good]}, 1.0, samples=11, **given)
    np.testing.assert_array_equal(runs.q[good], alone.q)
    assert [s is Status.done for s in runs.status] == [True, False, True, True, True]
    assert np.all(np.isnan(runs.q[1][~np.isfinite(runs.t[1])]))
    one = da.simulate(system.replace({"pole": 2.0}), 1.0, samples=11, throw=False, **given)
    assert runs.t_end[1] == pytest.approx(float(one.t_end), abs=1e-6)
    # ∫∫ 1/(1 − p t): q = t/p + (1 − p t) ln(1 − p t)/p²
    t, p = runs.t[0], poles[0]
    exact = t / p + (1 - p * t) * np.log(1 - p * t) / p**2
    np.testing.assert_allclose(runs.q[0, :, 0], exact, atol=1e-6)


def test_a_start_that_does_not_close_is_that_members_alone(four_bar):
    lengths = {n: x for n, x in four_bar.parameters().items() if np.ndim(x) == 1}
    name = next(n for n in lengths if n.startswith("C."))
    points = np.tile(lengths[name], (3, 1))
    points[1] += 100.0
    with pytest.warns(da.errors.AssemblyWarning, match="starts were moved"):
        runs = da.simulate_many(four_bar, {name: points}, 0.2, samples=3)
    assert [s.name for s in runs.status] == ["done", "not_assembled", "done"]
    assert np.all(np.isnan(runs.q[1]))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"crank.mas": MASSES}, "has no parameter 'crank.mas'.*'crank.mass'"),
        ({"crank.mass": 1.0}, "one value for each member"),
        ({"crank.mass": MASSES, "coupler.mass": MASSES[:3]}, "'crank.mass' has 11, 'coupler.mass' has 3"),
        ({"crank.mass": [1.0, np.nan]}, "'crank.mass' of member 1 is not a finite number"),
        ({"crank.mass": [1.0, -1.0]}, "must be greater than zero"),
        ({}, "needs members"),
    ],
)
def test_wrong_members_are_refused_by_name(four_bar, members, words):
    with pytest.raises(da.errors.DalembertError, match=words):
        da.simulate_many(four_bar, members, 1.0)


def test_saved_steps_are_refused(four_bar):
    with pytest.raises(da.errors.DalembertError, match="common times"):
        da.simulate_many(four_bar, {"crank.mass": MASSES}, 1.0, samples="steps")


def test_a_batch_by_xla_is_the_same(four_bar, runs):
    """The same scalars as a program of XLA, with the same steps: rounding."""
    other = da.simulate_many(four_bar, {"crank.mass": MASSES[:3]}, 1.0, rtol=1e-6, samples=6, device="jax")
    np.testing.assert_allclose(other.q, runs.q[:3], rtol=0, atol=1e-10)


def test_without_a_gpu_it_is_said(four_bar):
    from dalembert.kernels import device

    try:
        device()
    except da.errors.DalembertError:
        with pytest.raises(da.errors.DalembertError, match="no NVIDIA driver"):
            da.simulate_many(four_bar, {"crank.mass": MASSES}, 0.1, device="gpu")
    with pytest.raises(da.errors.DalembertError, match="device='tpu' is unknown"):
        da.simulate_many(four_bar, {"crank.mass": MASSES}, 0.1, device="tpu")


@pytest.mark.parametrize("name", ["four-bar", pytest.param("slider-crank", marks=pytest.mark.thorough)])
def test_derivatives_of_a_batch(name):
    """Against central differences of runs at 1e-12 with a relative change of 1e-4: their error is 1e-8 of the value."""
    system = da.build(da.mechanism(name))
    names = [n for n, x in system.parameters().items() if n.endswith(".mass") and np.ndim(x) == 0][:2]
    values = system.parameters()
    runs = da.simulate_many(
        system, {names[0]: float(values[names[0]]) * np.array([1.0, 1.2])}, 0.5, rtol=1e-9, samples=3, derivatives=names
    )
    base = system.replace({names[0]: 1.2 * float(values[names[0]])})
    for k, parameter in enumerate(names):
        x = float(base.parameters()[parameter])
        after, before = (
            da.simulate(base.replace({parameter: x * (1 + e)}), 0.5, rtol=1e-12, samples=3) for e in (1e-4, -1e-4)
        )
        for got, word in zip(runs.derivatives, ("q", "v", "work"), strict=True):
            expected = (getattr(after, word) - getattr(before, word)) / (2e-4 * x)
            scale = 1e-6 * (1 + np.max(np.abs(expected)))
            np.testing.assert_allclose(got[1, k], expected, rtol=0, atol=scale)


def test_a_file_as_it_comes(four_bar, runs, tmp_path):
    path = da.simulation.write_many(
        tmp_path / "runs.nc", four_bar, {"crank.mass": MASSES}, 1.0, at_once=4, rtol=1e-6, samples=6
    )
    with xr.open_dataset(path) as data:
        np.testing.assert_array_equal(data["q"], runs.q)
        np.testing.assert_array_equal(data["crank.mass"], MASSES)
        assert set(data["status_code"].values) == {Status.done.value}


def test_derivatives_without_constraints():
    """x = cos(s), s = √k t: ∂x/∂k = −t sin s/(2√k); the work of the force is W = ½ k sin² s."""
    system = da.FunctionSystem(
        lambda t, q, p: jnp.eye(1), lambda t, q, v, p: -p["k"] * q, q0=[1.0], parameters={"k": 1.0}
    )
    k = np.array([1.0, 2.0])
    runs = da.simulate_many(system, {"k": k}, 1.0, samples=3, derivatives=["k"])
    s = np.sqrt(k)
    np.testing.assert_allclose(runs.derivatives.q[:, 0, -1, 0], -np.sin(s) / (2 * s), atol=1e-8)
    expected = 0.5 * np.sin(s) ** 2 + 0.5 * s * np.sin(s) * np.cos(s)
    np.testing.assert_allclose(runs.derivatives.work[:, 0, -1, 0], expected, atol=1e-8)


def test_reactions_and_work_of_a_batch_are_differentiated():
    """By `jit(vmap(jacfwd))` over `simulate`, as docs/how_to/batches.md has it, against central differences of batches
    at 1e-12 with a relative change of 1e-4: their error is 1e-8 of the value. The work by `derivatives=`, too."""
    model = da.Model("swing", gravity=(0, -9.81))
    arm = model.body("arm", mass=1.0, inertia=1 / 12, position=(0.5, 0))
    model.joint_spring("damper", model.revolute("pin", model.ground, arm, at=(0, 0)), damping=0.1)
    machine = da.prepare(model)
    values, along = np.array([1.0, 2.0]), {"rtol": 1e-10, "samples": 2}

    def outcome(mass):
        changed = machine.replace({"arm.mass": mass})
        run = da.simulate(changed, 0.4, derivative="forward", **along)
        now = da.assemble(changed.system, 0.4, run.q[-1], run.v[-1])
        lam = da.reactions.RequireUnique().multipliers(changed.system, now, changed.formulation.solve(now).r)
        return da.reactions.joint_wrenches(changed.system, now, lam).force[0], run.work[-1]

    force, work = jax.jit(jax.vmap(jax.jacfwd(outcome)))(values)
    ends = [
        da.simulate_many(machine, {"arm.mass": values * (1 + e)}, 0.4, rtol=1e-12, samples=2) for e in (1e-4, -1e-4)
    ]
    step = 2e-4 * values[:, None]
    forces = [x.reactions("pin")["force"].values[:, -1] for x in ends]
    np.testing.assert_allclose(force, (forces[0] - forces[1]) / step, rtol=1e-6, atol=1e-6)
    expected = (ends[0].work[:, -1] - ends[1].work[:, -1]) / step
    np.testing.assert_allclose(work, expected, rtol=0, atol=1e-6 * np.max(np.abs(expected)))
    batch = da.simulate_many(machine, {"arm.mass": values}, 0.4, derivatives=["arm.mass"], **along)
    np.testing.assert_allclose(batch.derivatives.work[:, 0, -1], expected, rtol=0, atol=1e-6 * np.max(np.abs(expected)))
    assert np.max(np.abs(expected)) > 1e-3


@pytest.mark.thorough
def test_a_machine_that_is_weak_everywhere_has_derivatives():
    """The governor's rows are weak at its start as elsewhere; central differences as above."""
    system, name = da.build(da.mechanism("governor")), "slider.mass"
    x = float(system.parameters()[name])
    runs = da.simulate_many(system, {name: np.array([x])}, 0.01, samples=3, derivatives=[name])
    after, before = (da.simulate(system.replace({name: x * (1 + e)}), 0.01, samples=3) for e in (1e-4, -1e-4))
    expected = (after.v - before.v) / (2e-4 * x)
    np.testing.assert_allclose(runs.derivatives.v[0, 0], expected, rtol=0, atol=1e-5 * np.max(np.abs(expected)))


@pytest.mark.parametrize("name", ["Baumgarte", "VelocityFilter", "PI"])
def test_other_stabilisations(four_bar, name):
    method = getattr(da.stabilise, name)()
    runs = da.simulate_many(four_bar, {"crank.mass": [1.0, 1.2]}, 0.3, rtol=1e-6, samples=3, stabilisation=method)
    one = da.simulate(four_bar.replace({"crank.mass": 1.2}), 0.3, rtol=1e-6, samples=3, stabilisation=method)
    np.testing.assert_allclose(runs.q[1], one.q, rtol=0, atol=1e-12)


def test_starts_are_looked_at_as_by_simulate(four_bar):
    start = da.stabilise.consistent_state(four_bar)
    with pytest.raises(da.errors.DalembertError, match=r"q of the starts of 'four-bar' must have shape \(2, 9\)"):
        da.simulate_many(four_bar, (np.zeros((2, 8)), np.zeros((2, 9))), 0.1)
    v = np.zeros((2, 9))
    v[1, 2] = 1.0  # the crank alone: the other bodies must move too, and it slower
    with pytest.warns(da.errors.AssemblyWarning, match="start velocities of 1 of 2 members were changed"):
        da.simulate_many(four_bar, (np.tile(start.q, (2, 1)), v), 0.1, samples=2)
    with pytest.raises(da.errors.DalembertError, match="RowElimination"):
        da.simulate_many(da.mechanism("bricard"), {"link1.mass": [1.0]}, 0.1, rule=da.reactions.RowElimination())
