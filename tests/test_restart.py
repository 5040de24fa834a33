"""Runs that go on bit for bit, runs as files, and many runs in one solution."""

from __future__ import annotations

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from _helpers_passages import parallelogram

import dalembert as da
from dalembert.complements import all_complements
from dalembert.formulations import all_formulations
from dalembert.mechanisms import mechanisms
from dalembert.results._record import decode, encode
from dalembert.results._run_file import GROUP, _system_data
from dalembert.simulation._resume import same
from dalembert.stabilise import all_stabilisations

ARRAYS = ("t", "q", "v", "work")


def rod() -> da.Model:
    """A damped rod on a pin, driven by a torque: its work is no constant."""
    model = da.Model("rod", gravity=(0, -9.81))
    body = model.body("rod", mass=2.0, inertia=0.2, position=(0.5, 0.0))
    model.revolute("pin", model.ground, body, at=(0, 0))
    model.joint_spring("damper", "pin", damping=0.3)
    model.torque("drive", body, "size*sin(5*t)", parameters={"size": 1.5})
    return model


def slide() -> da.Model:
    """A block on two rails along one line: two rows too many."""
    model = da.Model("slide", gravity=(1.0, -9.81))
    block = model.body("block", mass=2.0, inertia=0.2, position=(0.5, 0.0))
    for name, x in (("left", 0.3), ("right", 0.7)):
        model.prismatic(name, model.ground, block, at=(x, 0), axis=(1, 0))
    model.spring_damper("spring", model.ground, block, at_i=(0, 0), at_j=(0.4, 0.1), stiffness=50.0, damping=0.2)
    return model


@pytest.fixture(scope="module")
def system():
    return da.build(rod())


QUICK = {"integrator": "tsit5", "rtol": 1e-6}


@pytest.fixture(scope="module")
def half(system):
    return da.simulate(system, 1.0, samples=21, **QUICK)


@pytest.fixture(scope="module")
def whole(system):
    return da.simulate(system, 2.0, samples=21, **QUICK)


# ---- going on ------------------------------------------------------------------------------------------------------


def assert_goes_on(system, half, **settings):
    """Half a run that goes on equals the whole one; 21 saved times in all calls, so that one program serves."""
    more = da.simulate(system, 2.0, after=half, samples=np.linspace(0, 2, 21)[11:])
    whole = da.simulate(system, 2.0, samples=21, **settings)
    shared = np.isin(more.t, whole.t)
    assert shared.sum() == 21 and len(more.t) == 31
    for name in ARRAYS:
        np.testing.assert_array_equal(np.asarray(getattr(more, name))[shared], getattr(whole, name))
    for count in ("accepted", "rejected", "steps"):
        assert int(more.stats[count]) == int(whole.stats[count])
    # the run was cut in the middle of a step, else nothing is shown
    assert float(half.restart.mark.t) < 1.0 and int(half.restart.mark.accepted) >= 1


@pytest.mark.parametrize(
    ("build", "settings"),
    [
        pytest.param({}, QUICK, id="adaptive"),
        pytest.param({}, {"dt": 0.013, "integrator": "tsit5"}, id="fixed"),
        pytest.param({"coordinates": "joint"}, QUICK, id="joint-coordinates"),
        pytest.param(
            {},
            QUICK
            | {"formulation": da.formulations.MinimalOrder(), "stabilisation": da.stabilise.PI(time_constant=0.05)},
            id="memory",
            marks=pytest.mark.thorough,
        ),
        pytest.param({}, {"integrator": "kvaerno3", "rtol": 1e-4}, id="implicit", marks=pytest.mark.thorough),
        pytest.param({}, {"integrator": "radau5", "rtol": 1e-4}, id="stiff", marks=pytest.mark.thorough),
    ],
)
def test_a_run_goes_on_as_if_it_had_not_stopped(build, settings):
    system = da.build(rod(), **build)
    assert_goes_on(system, da.simulate(system, 1.0, samples=21, **settings), **settings)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_run_goes_on_past_its_first_singular_position(engine):
    """Before it JAX marches a short program, after it a careful one, and a run that goes on takes the same; machine
    code marches on as before."""
    system, settings = da.build(parallelogram().model), QUICK | {"engine": engine}
    before, past = (da.simulate(system, t1, samples=11, **settings) for t1 in (0.05, 0.5))
    assert not before.restart.mark.careful and bool(past.restart.mark.careful) == (engine == "jax")
    assert past.restart.engine == engine
    for half in (before, past):
        more = da.simulate(system, 1.0, after=half, samples=np.array([0.7, 1.0]))
        whole = da.simulate(system, 1.0, samples=np.concatenate([half.t, [0.7, 1.0]]), **settings)
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(more, name), getattr(whole, name))
        assert int(more.stats["steps"]) == int(whole.stats["steps"])


def test_a_run_without_redundant_rows_goes_on():
    system, settings = da.build(slide()), QUICK | {"rule": da.reactions.RowElimination()}
    half = da.simulate(system, 1.0, samples=21, **settings)
    assert half.chosen.rows
    assert_goes_on(system, half, **settings)


def test_the_usual_call_goes_on_with_the_same_spacing(system, half, whole):
    more = da.simulate(rod(), 2.0, after=half)  # the model will do, too
    np.testing.assert_array_equal(more.t, np.linspace(0, 2, 41))
    np.testing.assert_array_equal(more.q[::2], whole.q)
    # and on, to an end that the spacing does not hit
    third = da.simulate(system, 2.22, after=more)
    assert third.t[-1] == 2.22 and third.t[-2] == pytest.approx(2.2)
    np.testing.assert_array_equal(third.q[:40], more.q[:40])  # the last of before ended a step that was cut


def test_a_run_goes_on_twice_within_one_step(system, half, whole):
    mark = half.restart.mark
    assert float(mark.next) > 1.0  # where the step that was cut would have ended
    again = da.simulate(system, 0.5 * (1.0 + float(mark.next)), after=half, samples=2)
    more = da.simulate(system, 2.0, after=again, samples=np.linspace(0, 2, 21)[11:])
    np.testing.assert_array_equal(more.q[np.isin(more.t, whole.t)], whole.q)
    assert int(more.stats["steps"]) == int(whole.stats["steps"])


def test_steps_go_on(system):
    half = da.simulate(system, 1.0, samples="steps", **QUICK)
    more = da.simulate(system, 2.0, after=half)
    whole = da.simulate(system, 2.0, samples="steps", **QUICK)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(more, name), getattr(whole, name))
    with pytest.raises(da.errors.DalembertError, match="goes on saving its steps"):
        da.simulate(system, 2.0, after=half, samples="dense")


def test_a_run_that_used_its_steps_goes_on(system, whole):
    short = da.simulate(system, 2.0, samples=21, max_steps=9, throw=False, **QUICK)
    assert short.status is da.simulation.Status.max_steps and len(short.t) < 21
    more = da.simulate(system, 2.0, after=short, samples=np.asarray(whole.t)[len(short.t) :])
    np.testing.assert_array_equal(more.q, whole.q)
    assert int(more.stats["steps"]) == int(whole.stats["steps"])


@pytest.mark.parametrize(
    ("change", "settings", "words"),
    [
        ({"rod.mass": 3.0}, {}, "'rod.mass' was 2, now 3"),
        ({}, {"rtol": 1e-9}, "rtol was 1e-06, now 1e-09"),
        ({}, {"dt": 0.01}, "dt was not given, now 0.01"),
        ({}, {"integrator": "dopri8"}, "integrator was tsit5, now dopri8"),
        ({}, {"formulation": da.formulations.RangeSpace()}, "formulation was Proximal.*, now RangeSpace"),
        ({}, {"stabilisation": da.stabilise.Baumgarte()}, "stabilisation was Projection.*, now Baumgarte"),
        ({}, {"state": ([0.0] * 3, [0.0] * 3)}, "state= cannot be given"),
        ({}, {"rule": "weighted"}, "rule= cannot be given"),
        ({}, {"samples": [0.5, 1.5]}, "rising times after 1 s"),
    ],
)
def test_what_has_changed_is_refused_by_name(system, half, change, settings, words):
    with pytest.raises(da.errors.DalembertError, match=words):
        da.simulate(system.replace(change), 2.0, after=half, **settings)


def test_other_machines_and_earlier_ends_are_refused(system, half):
    with pytest.raises(da.errors.DalembertError, match="the machine was 'rod', now 'slide'"):
        da.simulate(slide(), 2.0, after=half)
    with pytest.raises(da.errors.DalembertError, match=r"\(coordinates=\)"):
        da.simulate(da.build(rod(), coordinates="joint"), 2.0, after=half)
    with pytest.raises(da.errors.DalembertError, match="has reached 1 s"):
        da.simulate(system, 0.5, after=half)
    # the same, said again, is no change
    da.simulate(
        system, 2.0, after=half, samples=np.linspace(0, 2, 21)[11:], stabilisation=da.stabilise.Projection(), **QUICK
    )


def test_fixed_steps_end_where_they_say(system):
    found = da.simulate(system, 0.1, dt=0.03, integrator="tsit5", samples="steps")
    np.testing.assert_array_equal(found.t, [0.0, 0.03, 0.06, 0.09, 0.1])


# ---- files ---------------------------------------------------------------------------------------------------------


def test_a_file_is_the_solution_again(system, half, tmp_path):
    path = half.to_netcdf(tmp_path / "run.nc")
    back = da.open(path)
    xr.testing.assert_identical(back.dataset, half.dataset)
    computed = dataclasses.replace(back)  # without what was read
    xr.testing.assert_identical(computed.dataset, half.dataset)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(back, name), getattr(half, name))
    assert back.status is half.status and back.rule.describe(back.machine) == half.rule.describe(half.machine)
    assert same(back.formulation, half.formulation) and same(back.stabilisation, half.stabilisation)
    np.testing.assert_array_equal(back.at(0.33).q, half.at(0.33).q)
    assert back.animate(tmp_path / "run.html").stat().st_size > 10_000
    # it goes on, saved a second time as well
    again = da.open(back.to_netcdf(tmp_path / "again.nc"))
    save = np.linspace(0, 2, 21)[11:]
    mine, theirs = (da.simulate(x.system, 2.0, after=x, samples=save) for x in (half, again))
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))


def test_a_file_holds_what_was_done_to_the_system_and_reactions_by_any_rule(tmp_path):
    system = da.systems.with_switches(da.build(slide()), "left").replace({"spring.stiffness": 60.0, "block.mass": 2.5})
    run = da.simulate(system, 0.5, samples=21, rule=da.reactions.Weighted({"left": 1e6, "*": 2e6}), **QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.RedundancyWarning)
        back = da.open(run.to_netcdf(tmp_path / "run.nc"))
        assert float(back.system.parameters()["spring.stiffness"]) == 60.0
        assert same(back.system, system) and same(back.chosen, run.chosen)
        for rule in (None, "minimum_norm"):
            xr.testing.assert_identical(back.reactions("left", rule=rule), run.reactions("left", rule=rule))
    with pytest.raises(da.errors.DalembertError, match="another system: .*'block.mass' was 2.5, now 2"):
        da.open(tmp_path / "run.nc", system=da.build(slide()).replace({"spring.stiffness": 60.0}))


def test_what_a_file_cannot_hold_is_said_by_name(tmp_path):
    model = rod()
    model.force_law("breeze", ["rod"], lambda t, frames: [(jnp.array([0.1, 0.0]), 0.0)])
    run = da.simulate(model, 1.0, samples=21, **QUICK)
    path = run.to_netcdf(tmp_path / "run.nc")
    with pytest.warns(
        da.errors.RecordWarning, match=r"not its model: .*force_law 'breeze' has a Python function"
    ) as heard:
        back = da.open(path)
    assert heard[0].filename == __file__
    xr.testing.assert_identical(back.dataset, run.dataset)
    assert back.status is da.simulation.Status.done and back.plot("energy").axes
    xr.testing.assert_identical(
        back.reactions("pin").drop_attrs(deep=False), run.reactions("pin").drop_attrs(deep=False)
    )
    for ask in (lambda: back.with_rule("weighted"), lambda: back.q, lambda: da.simulate(model, 2.0, after=back)):
        with pytest.raises(da.errors.DalembertError, match=r"da.open\(path, system=…\)"):
            ask()
    assert not hasattr(back, "_repr_png_")
    again = da.open(path, system=run.system)
    np.testing.assert_array_equal(again.q, run.q)
    assert da.simulate(run.system, 2.0, after=again, samples=np.linspace(0, 2, 21)[11:]).t[-1] == 2.0
    with pytest.raises(da.errors.DalembertError, match="another system: 'rod.mass' was 2, now 5"):
        da.open(path, system=run.system.replace({"rod.mass": 5.0}))


def test_your_own_equations_are_said_by_name(tmp_path):
    swing = da.FunctionSystem(lambda t, q: jnp.eye(1), lambda t, q, v: -9.0 * q, q0=[0.1], name="swing")
    run = da.simulate(swing, 1.0, samples=21, **QUICK)
    with pytest.warns(da.errors.RecordWarning, match="Python functions .FunctionSystem 'swing'"):
        da.open(run.to_netcdf(tmp_path / "run.nc"))
    np.testing.assert_array_equal(da.open(tmp_path / "run.nc", system=swing).v, run.v)


def test_files_that_cannot_be_opened_are_told(half, tmp_path):
    good = half.to_netcdf(tmp_path / "good.nc").read_bytes()
    broken, other, text = (tmp_path / f"{x}.nc" for x in ("broken", "other", "text"))
    broken.write_bytes(good[: len(good) // 2])
    xr.Dataset({"x": ("n", [1.0])}).to_netcdf(other)
    text.write_text("time, angle\n0, 1\n")
    for path, words in (
        (tmp_path / "none.nc", "There is no file"),
        (broken, "not a result that can be read"),
        (text, "not a result that can be read"),
        (other, "was not written by dalembert"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            da.open(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: g.assign_attrs(format=99), "has format 99, written by dalembert .*; this version reads up to"),
        (lambda g: g.assign(floats=g["floats"] + 1e-9), "broken: its numbers do not fit their checksum"),
        (lambda g: g.assign(model=((), str(g["model"].values).replace("2.0", "3.0"))), "checksum"),
        (lambda g: g.drop_vars("record"), "broken: its record cannot be read"),
    ],
)
def test_changed_records_are_refused(half, tmp_path, change, words):
    path = half.to_netcdf(tmp_path / "run.nc")
    with xr.open_dataset(path, group=GROUP) as group:
        changed = change(group.load())
    half.dataset.to_netcdf(path)
    changed.to_netcdf(path, mode="a", group=GROUP)
    with pytest.raises(da.errors.DalembertError, match=words):
        da.open(path)


def test_files_of_before_hold_their_data(half, tmp_path):
    half.dataset.to_netcdf(tmp_path / "old.nc")
    with pytest.warns(da.errors.RecordWarning, match="it was written without it"):
        back = da.open(tmp_path / "old.nc")
    xr.testing.assert_identical(back.dataset, half.dataset)


@pytest.mark.parametrize("name", [n for n in mechanisms() if n not in ("n-four-bar", "chain", "chain-in-space")])
def test_every_mechanism_fits_into_a_file(name):
    """The text of the model gives the very same system, in both coordinates where it has them."""
    model = mechanisms()[name].model()
    for coordinates in ("absolute", "joint"):
        data = _system_data(da.build(model, coordinates=coordinates), [])[1]
        assert data["changed"] == {}


def test_every_method_is_data():
    """What comes back is equal; what is not known is refused, by its name."""
    rules = [
        da.reactions.RequireUnique(),
        da.reactions.MinimumNorm(),
        da.reactions.RowElimination((1, "C[1]")),
        da.reactions.PenaltyLimit({"A": 2.0, "*": np.array([1.0, 2.0])}),
        da.reactions.Weighted({"A": {"F": 1e5}, "*": 1e6}, {"b": da.reactions.Bar(("A", "B"), 1e7)}, 0.3),
    ]
    methods = [*all_formulations().values(), *all_complements().values(), *all_stabilisations().values(), *rules]
    for method in [
        *methods,
        da.formulations.MinimalOrder(da.complements.Riemannian(rank=3)),
        da.stabilise.PI(time_constant=np.float64(0.1)),
    ]:
        arrays: list[np.ndarray] = []
        assert same(decode(encode(method, arrays), arrays), method)

    class Mine(da.reactions.MinimumNorm):
        pass

    with pytest.raises(da.errors.DalembertError, match="an object of your own, Mine"):
        encode(Mine(), [])
    for bad in ({"kind": "Path", "fields": {}}, {"kind": "Unique", "fields": {"x": 1}}, {"eval": "1"}, [1]):
        with pytest.raises(da.errors.DalembertError):
            decode(bad, [])


def test_files_of_version_0_1_name_rules_by_their_former_names():
    for old, new in (("Unique", da.reactions.RequireUnique()), ("Eliminated", da.reactions.RowElimination((3,)))):
        arrays: list = []
        data = encode(new, arrays)
        assert same(decode(data | {"kind": old}, arrays), new)


def test_the_command_line_goes_on(tmp_path, capsys, monkeypatch):
    from typer.testing import CliRunner

    from dalembert.cli import app

    monkeypatch.chdir(tmp_path)
    da.save(rod(), "rod.yaml", run={"t_end": 1.0, "rtol": 1e-3})

    def run(*arguments):
        return CliRunner().invoke(app, ["run", "rod.yaml", *arguments, "--no-progress"], catch_exceptions=False)

    # settings that overruled the file's are kept
    run("--rtol", "1e-6", "--integrator", "tsit5", "--samples", "21", "-o", "a.nc")
    assert run("--t-end", "2", "--resume", "a.nc", "-o", "b.nc").exit_code == 0
    run("--t-end", "2", "--rtol", "1e-6", "--integrator", "tsit5", "--samples", "41", "-o", "c.nc")
    b, c = (da.open(f"{x}.nc") for x in "bc")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(b, name), getattr(c, name))
    with pytest.raises(da.errors.DalembertError, match="rtol was 1e-06, now 1e-05"):
        run("--t-end", "2", "--resume", "a.nc", "--rtol", "1e-5")


# ---- batches -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def batch(system):
    """Three runs; the second cannot go through a torque that grows without bound at 0.9 s, which is no saved time."""
    model = rod()
    model.torque("blow", "rod", "push/(0.9 - t)", parameters={"push": 0.0})
    built = da.build(model)

    def run(push):
        return da.simulate(built.replace({"blow.x_push": push}), 1.25, samples=6, max_steps=400, **QUICK)

    return jax.vmap(run)(jnp.array([0.0, 5.0, 0.0]))


def test_a_batch_has_members_and_their_status(batch):
    assert len(batch) == 3
    assert [s is da.simulation.Status.done for s in batch.status] == [True, False, True]
    np.testing.assert_array_equal(batch.status == da.simulation.Status.done, [True, False, True])
    one, stopped = batch[0], batch[1]
    assert one.status is da.simulation.Status.done and len(one.t) == 6
    assert len(stopped.t) == 4 and stopped.t[-1] == 0.75 and np.all(np.isfinite(stopped.q))
    assert len(batch[1:]) == 2 and len(list(batch)) == 3
    np.testing.assert_array_equal(batch.state.q[0], one.state.q)
    with pytest.raises(IndexError, match="there is no run 3"):
        batch[3]
    with pytest.raises(TypeError, match="one run, not a batch"):
        len(one)


def test_a_batch_is_one_labelled_dataset(batch, tmp_path):
    data = batch.dataset
    assert data.sizes["run"] == 3 and data.sizes["time"] == 6
    assert list(data["status"].values)[::2] == ["done", "done"]
    one = batch[0].dataset
    for name in ("position", "energy_kinetic", "reaction_force"):
        np.testing.assert_allclose(data[name].sel(run=0), one[name], atol=1e-14)
    gone = data["angle"].sel(run=1, body="rod").values
    assert np.all(np.isfinite(gone[:4])) and np.all(np.isnan(gone[4:]))
    assert batch.energy["total"].dims == ("run", "time")
    force = batch.reactions("pin")["force"]
    np.testing.assert_allclose(force.sel(run=2), one["reaction_force"].sel(joint="pin"), atol=1e-14)
    assert batch.energy_drift.shape == (3,) and batch.violation["position"].shape == (3,)
    with pytest.warns(da.errors.RecordWarning, match="batch of runs"):
        back = da.open(batch.to_netcdf(tmp_path / "batch.nc"))
    assert list(back.status) == list(batch.status)


def test_what_is_of_one_run_says_so(batch):
    asked = [
        lambda: batch.plot(),
        lambda: batch.animate("x.html"),
        lambda: batch.at(0.1),
        lambda: batch.vdot,
        lambda: batch.redundancy,
        lambda: batch.with_rule("weighted"),
        lambda: batch.to_csv("x.csv"),
        lambda: batch.singular_positions(),
    ]
    for ask in asked:
        with pytest.raises(da.errors.DalembertError, match=r"batch of 3 runs; take one of them: solution\[0\]"):
            ask()
    with pytest.raises(da.errors.DalembertError, match=r"after=solution\[0\]"):
        da.simulate(rod(), 2.0, after=batch)
    assert repr(batch) == "Solution: a batch of 3 runs of 'rod' (2 done, 1 step_too_small)"
    assert "step_too_small" in batch._repr_html_()
