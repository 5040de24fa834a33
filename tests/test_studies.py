"""Studies: what varies, what is measured, and that a dataset depends on neither chunks, processes nor interruptions."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import signal
import socket
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from _helpers_cli import in_process, python_process
from _helpers_studies import CASES, CHUNK, LOG, log_of, masses, moving, numbers, pendulum, same, watched

import dalembert as da
from dalembert._results import DalembertError, FileError
from dalembert.studies import Normal, Uniform, cases_of, open_study, resume, study

SETTINGS = {"rtol": 1e-7, "samples": 21}
MEASURE = ["final(tip.x)", "peak(tip.vx, tip.vy)", "tip.y"]
VARY = {"rod.mass": Uniform(-0.1, 2.0), "pin.point_j": Normal([-0.5, 0.0], [0.02, 0.02])}
COUNT = 64


def motions(folder, **options):
    """The study that most tests are about; some of its masses are negative, and refused."""
    return study(pendulum(), VARY, MEASURE, 1.0, out=folder, count=COUNT, **SETTINGS, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return motions(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def cluster():
    """Beside others: that the port of their page is taken is nobody's concern."""
    from dalembert.studies._run import local_cluster

    with contextlib.ExitStack() as here:
        with socket.socket() as other, warnings.catch_warnings():
            with contextlib.suppress(OSError):  # there are others
                other.bind(("", 8787))
                other.listen()
            warnings.simplefilter("error", UserWarning)
            client = here.enter_context(local_cluster(2))
        yield client


# ---- what varies -----------------------------------------------------------------------------------------------------


def test_lists_make_a_grid_or_go_together():
    vary = {"a": [1, 2], "b": [[1, 2], [3, 4], [5, 6]]}
    grid = cases_of(vary)
    assert grid.count == 6
    assert grid.values["a"].tolist() == [1, 1, 1, 2, 2, 2]
    assert grid.values["b"].tolist() == [[1, 2], [3, 4], [5, 6]] * 2
    together = cases_of({"a": [1, 2], "b": [5, 6]}, combine="list")
    assert together.values["a"].tolist() == [1, 2] and together.values["b"].tolist() == [5, 6]
    with pytest.raises(DalembertError, match="'a' has 2, 'b' has 3"):
        cases_of(vary, combine="list")
    mixed = cases_of({"a": [1, 2], "c": Uniform(0, 1)}, count=3)
    assert mixed.count == 6 and np.array_equal(mixed.values["c"][:3], mixed.values["c"][3:])


def test_load_cases_and_models_have_labels():
    loads = {"empty": {"m": 1.0, "k": 2.0}, "full": {"m": 9.0, "k": 3.0}}
    found = cases_of({"load": loads}, models=["a", "b"])
    assert found.labels["load"].tolist() == ["empty", "full"] * 2 and found.labels["model"].tolist() == [
        "a",
        "a",
        "b",
        "b",
    ]
    assert found.values["m"].tolist() == [1, 9, 1, 9]
    with pytest.raises(DalembertError, match=r"case 'full' and case 'empty' must set the same names; see 'k'"):
        cases_of({"load": {"empty": {"m": 1.0, "k": 1.0}, "full": {"m": 2.0}}})
    with pytest.raises(DalembertError, match="'m' varies twice"):
        cases_of({"load": loads, "m": [1, 2]})


@pytest.mark.parametrize("sampling", ["latin", "sobol", "random"])
def test_distributions_are_what_they_say(sampling):
    """Against scipy's distributions, by the Kolmogorov distance: for independent points it stays below 1.95/√N with a
    probability of 0.999; the others are more even. Correlations scatter by 1/√N; 4 of these."""
    count, covariance = 2048, np.array([[0.04, 0.03], [0.03, 0.09]])
    vary = {"u": Uniform(2, 5), "n": Normal(1.0, 0.5), ("x", "y"): Normal([0, 10], covariance)}
    found = cases_of(vary, count=count, sampling=sampling, seed=4).values
    for name, law in (("u", scipy.stats.uniform(2, 3)), ("n", scipy.stats.norm(1, 0.5)),
                      ("x", scipy.stats.norm(0, 0.2)), ("y", scipy.stats.norm(10, 0.3))):  # fmt: skip
        assert scipy.stats.kstest(found[name], law.cdf).statistic < 1.95 / np.sqrt(count)
    r = np.corrcoef([found["x"], found["y"], found["u"], found["n"]])
    assert abs(r[0, 1] - 0.5) < 4 / np.sqrt(count) and np.max(np.abs(r[:2, 2:])) < 4 / np.sqrt(count)
    again = cases_of(vary, count=count, sampling=sampling, seed=4)
    assert again.fingerprint() == cases_of(vary, count=count, sampling=sampling, seed=4).fingerprint()
    assert again.fingerprint() != cases_of(vary, count=count, sampling=sampling, seed=5).fingerprint()
    if sampling == "latin":  # one point in each of the N equal parts
        assert sorted(np.floor((found["u"] - 2) / 3 * count).astype(int)) == list(range(count))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Uniform(2, 1), "least must be smaller"),
        (lambda: Normal(1, 0), "greater than zero"),
        (lambda: Normal([0, 0], [[1, 2], [2, 1]]), "no negative eigenvalue"),
        (lambda: cases_of({"a": Uniform(0, 1)}), "count="),
        (lambda: cases_of({"a": [1]}, count=3), "none varies"),
        (lambda: cases_of({"a": [1, np.nan]}), "finite"),
        (lambda: cases_of({"a": 3}), "a list of values"),
        (lambda: cases_of({("a", "b"): Normal([0, 0, 0], [1, 1, 1])}, count=2), "2 names, but 3 means"),
        (lambda: cases_of({"a": [1]}, sampling="halton"), "'halton' is unknown"),
    ],
)
def test_what_cannot_vary_is_refused(make, words):
    with pytest.raises(DalembertError, match=re.escape(words)):
        make()


# ---- what is measured ------------------------------------------------------------------------------------------------


def test_numbers_are_those_of_single_runs(whole):
    """Each case again, by `simulate` and the motion's own labelled measurements. Batches and single runs agree to
    rounding, which an error of the integration multiplies: 1e-9 of numbers of size 1 to 10."""
    data = whole.dataset
    assert whole.status()["done"] == COUNT
    for k in (1, 17, 40):
        one = whole.simulate(k, samples=21).measurements
        assert abs(float(data["final(tip.x)"][k]) - float(one["tip.x"][-1])) < 1e-9
        np.testing.assert_allclose(data["tip.y"][k], one["tip.y"], atol=1e-9)
        speed = np.hypot(one["tip.vx"], one["tip.vy"]).values
        j = int(np.argmax(speed))
        if 0 < j < 20:  # the parabola through three points, by numpy
            p = np.polyfit(one["time"].values[j - 1 : j + 2] - one["time"].values[j], speed[j - 1 : j + 2], 2)
            top = p[2] - p[1] ** 2 / (4 * p[0])
        else:
            top = speed[j]
        assert abs(float(data["peak(tip.vx, tip.vy)"][k]) - top) < 1e-8


def test_what_is_measured_varies_too(tmp_path):
    """The measured point itself is varied, from a place that has a zero in it: at the start it is at centre + place."""
    places = np.array([[0.5, 0.0], [0.5, 0.3], [0.0, -0.2]])
    data = study(
        pendulum(), {"tip.point_j": places}, ["at_time(tip.x, 0)", "at_time(tip.y, 0)"], 0.1, out=tmp_path, samples=3
    ).dataset
    np.testing.assert_allclose(data["at_time(tip.x, 0)"], 0.5 + places[:, 0], atol=1e-14)
    np.testing.assert_allclose(data["at_time(tip.y, 0)"], places[:, 1], atol=1e-14)


def test_functions_of_a_course_are_what_they_say(tmp_path):
    """A pendulum that a driver turns at a constant rate: tip.x = cos ωt, on so many times that sums are integrals
    (trapezoidal rule: error h²/12 · ω² ≈ 4e-6)."""
    model = pendulum()
    model.driver("motor", "pin", da.functions.polynomial([0.0, np.pi]))
    words = ["final(tip.x)", "largest(tip.y)", "least(tip.x)", "mean(tip.y)", "rms(tip.x, tip.y)", "integral(tip.y)",
             "at_time(tip.y, 0.25)", "peak(tip.x)"]  # fmt: skip
    found = study(
        model, {"rod.mass": [1.0, 2.0]}, words, 1.0, task="kinematics", samples=401, out=tmp_path
    ).dataset.isel(case=1)
    wanted = [-1, 1, -1, 2 / np.pi, 1, 2 / np.pi, np.sin(np.pi / 4), 1]
    np.testing.assert_allclose([float(found[w]) for w in words], wanted, atol=6e-6)
    assert found["integral(tip.y)"].attrs["units"] == "m s"


def test_cases_that_fail_have_a_sentence_and_no_numbers(whole):
    data = whole.dataset
    mass = data["rod.mass"].values
    assert 3 <= np.sum(mass <= 0) <= 4
    assert np.array_equal(data["status"].values == "error", mass <= 0)
    for k in np.flatnonzero(mass <= 0):
        assert "'rod.mass' of system 'pendulum' must be greater than zero" in str(data["message"].values[k])
        assert np.isnan(data["final(tip.x)"][k])
    assert np.all(np.isfinite(data["final(tip.x)"][mass > 0])) and whole.status()["failed"] == np.sum(mass <= 0)


def test_a_motion_that_ends_early_keeps_its_course(tmp_path):
    """A loop that cannot close, steps that run out: others are not touched."""
    vary = {"D.point_i": [[2.0, 0.0], [9.0, 0.0], [2.1, 0.0]]}
    data = study(da.mechanism("four-bar"), vary, ["final(A.angle)", "A.angle"], 0.5, out=tmp_path, samples=6).dataset
    assert data["status"].values.tolist() == ["done", "not_assembled", "done"]
    assert "cannot be assembled" in str(data["message"].values[1])
    assert np.isfinite(data["final(A.angle)"]).values.tolist() == [True, False, True]
    short = study(
        pendulum(),
        {"rod.mass": [1.0]},
        ["final(tip.x)", "tip.x"],
        5.0,
        out=tmp_path / "short",
        samples=51,
        max_steps=20,
    ).dataset.isel(case=0)
    reached = float(short["reached"])
    assert str(short["status"].values) == "max_steps" and 0 < reached < 5 and np.isnan(short["final(tip.x)"])
    assert np.array_equal(np.isfinite(short["tip.x"]), short["time"] <= reached)


def test_reactions_say_whether_they_are_unique(tmp_path):
    """A door on two balls: along the line between them they share one load, across it each has its own."""
    model = da.mechanism("door-two-balls")
    names = list(model.constraints)
    model.measure("along", "reaction", names[0], component="Fz", frame="world")
    model.measure("across", "reaction", names[0], component="Fx", frame="world")
    body = next(iter(model.bodies))
    data = study(
        model, {f"{body}.mass": [10.0, 20.0]}, ["final(along)", "final(across)"], 0.1, out=tmp_path, samples=3
    ).dataset
    assert not data["unique final(along)"].any() and data["unique final(across)"].all()


def test_statics_modes_functions_and_start_states(tmp_path):
    """A mass on a spring: sag m g/k, ω² = k/m. A free pendulum that starts with its own speed keeps its energy."""
    model = da.Model("mass on a spring", gravity=(0, -9.81))
    block = model.body("block", mass=2.0, inertia=0.1, position=(0, 0))
    rail = model.prismatic("rail", model.ground, block, at=(0, 0), axis=(0, 1))
    model.measure("y", "coordinate", rail)
    model.joint_spring("spring", rail, stiffness=100.0, free=0.0)
    mass = np.array([1.0, 2.0, 4.0])
    rest = study(model, {"block.mass": mass}, ["y", "stable"], task="statics", out=tmp_path / "a").dataset
    np.testing.assert_allclose(rest["y"], -mass * 9.81 / 100, rtol=1e-8)
    assert rest["stable"].all()
    found = study(
        model, {"block.mass": mass}, ["frequency(1)", "damping(1)"], task="modes", rest=True, out=tmp_path / "b"
    ).dataset
    np.testing.assert_allclose(found["frequency(1)"], np.sqrt(100 / mass) / 2 / np.pi, rtol=1e-7)
    own = study(
        model, {"block.mass": mass}, ["double"], out=tmp_path / "c",
        task=lambda system: {"double": 2 * system.parameters()["block.mass"]},
    ).dataset  # fmt: skip
    assert own["double"].values.tolist() == [2, 4, 8]
    spin = np.array([0.0, 1.0, 2.0])
    starts = da.systems.State(np.tile([0.5, 0, 0], (3, 1)), spin[:, None] * [0, 0.5, 1])
    turned = study(pendulum(), {"start": starts}, ["at_time(pin.angle_rate, 0)"], 0.2, out=tmp_path / "d", samples=3)
    np.testing.assert_allclose(turned.dataset["at_time(pin.angle_rate, 0)"], spin, atol=1e-12)


def test_alternative_models(tmp_path):
    """Each case by its own model: the same as each model alone."""
    light, heavy = pendulum(), pendulum()
    heavy.gravity *= 2
    vary = {"rod.mass": [1.0, 2.0]}
    both = study(
        {"light": light, "heavy": heavy}, vary, ["final(tip.x)"], 0.5, out=tmp_path / "both", **SETTINGS
    ).dataset
    assert both["model"].values.tolist() == ["light", "light", "heavy", "heavy"]
    for name, model, rows in (("light", light, [0, 1]), ("heavy", heavy, [2, 3])):
        alone = study(model, vary, ["final(tip.x)"], 0.5, out=tmp_path / name, **SETTINGS).dataset
        assert alone["final(tip.x)"].values.tobytes() == both["final(tip.x)"].values[rows].tobytes()
    assert abs(both["final(tip.x)"][0] - both["final(tip.x)"][2]) > 1e-3


def test_what_alternative_models_measure(tmp_path):
    """A number that is a reaction in one model and none in another is unique there; other units are refused."""
    models = {"pin": pendulum(), "formula": pendulum()}
    models["pin"].measure("load", "reaction", "pin", component="Fx", frame="world")
    models["formula"].measure("load", "formula", "3.0 * tip.x", unit="N")
    for names in (("pin", "formula"), ("formula", "pin")):
        both = {name: models[name] for name in names}
        found = study(both, {"rod.mass": [1.0]}, ["final(load)"], 0.1, out=tmp_path / names[0], samples=3).dataset
        assert found["unique final(load)"].values.tolist() == [True, True]
        assert found["final(load)"].attrs["units"] == "N" and np.all(np.isfinite(found["final(load)"]))
    models["formula"].measure("push", "formula", "3.0 * tip.x", unit="m")
    models["pin"].measure("push", "formula", "3.0 * tip.x", unit="N")
    with pytest.raises(DalembertError, match="'final.push.' is in m in model 'formula', in N in others"):
        study(models, {"rod.mass": [1.0]}, ["final(push)"], 0.1, out=tmp_path / "x", samples=3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"vary": {"rod.mas": [1]}},
            "'rod.mas' cannot vary: 'pendulum' has no such parameter. Did you mean 'rod.mass'?",
        ),
        ({"vary": {"pin.point_j": [1.0]}}, "'pin.point_j' has shape (2,)"),
        ({"measure": []}, "Nothing is measured"),
        ({"measure": ["finl(tip.x)"]}, "there is no 'finl' here"),
        ({"measure": ["final(tipp.x)"]}, "no measurement or joint coordinate 'tipp.x'"),
        ({"measure": ["final(tip.position)"]}, "has several numbers; name them: tip.x, tip.y"),
        ({"measure": ["at_time(tip.x, soon)"]}, "soon"),
        ({"rtoll": 1e-3}, "'rtoll' is no setting of task 'simulate'"),
        ({"task": "dance"}, "task='dance' is unknown"),
        ({"t_end": None}, "task 'simulate' needs t_end="),
        ({"chunk": 0}, "chunk= is a number of cases"),
        ({"workers": 0}, "workers= is a number of processes"),
        ({"measure": {"rod.mass": "final(tip.x)"}}, "'rod.mass' is also the name of what varies"),
        ({"measure": {"reached": "final(tip.x)"}}, "'reached' is what a study itself keeps"),
        ({"measure": {"..": "final(tip.x)"}}, "'..' is no name that a file can have"),
        ({"vary": {"time": {"early": {"rod.mass": 1.0}}}}, "'time' cannot be kept: the dataset has another 'time'"),
        ({"vary": {"a/b": {"x": {"rod.mass": 1.0}}, "a_b": {"y": {"rod.inertia": 1.0}}}}, "has another 'a_b'"),
        ({"vary": {"model": {"x": {"rod.mass": 1.0}}}}, "'model' is the name under which whole models vary"),
        # what no case could be computed with is refused at once, not of each case
        ({"t_end": "soon"}, "The end of the run must be a number, in seconds, not 'soon'"),
        ({"t_end": -1.0}, "The end of the run, -1 s, must be later than its start"),
        ({"t0": 1.0}, "must be later than its start, 1 s"),
        ({"samples": "x"}, "samples= is a number of times, 2 at least"),
        ({"samples": 2.5}, "samples= is a number of times, 2 at least"),
        ({"samples": [0.1, 0.05]}, "samples= must be rising times within [0, 0.1]; number 2 of them is 0.05"),
        ({"samples": [0.0, 5.0]}, "number 2 of them is 5"),
        ({"rtol": -1}, "rtol=-1 must be a positive number"),
        ({"integrator": "foo"}, "integrator='foo' is unknown"),
        ({"dt": 0}, "dt=0 must be a positive number"),
        ({"max_steps": 2.5}, "max_steps=2.5 must be a positive whole number"),
        ({"device": "tpu"}, "device='tpu' is unknown"),
        ({"engine": "fast"}, "engine='fast' is unknown"),
        ({"measure": ["at_time(tip.x, 7)"]}, "the motion is kept from 0 s to 0.1 s, not at 7 s"),
        ({"measure": 3}, "measure: name what to keep of each case"),
        ({"vary": None}, "vary: name what varies and its values"),
        ({"vary": {"load": {"a": {"rod.mass": "x"}}}}, "'load': case 'a': 'rod.mass' must be finite numbers, not 'x'"),
        ({"vary": {"start": (np.full((1, 3), np.nan), np.zeros((1, 3)))}}, "one row of finite numbers"),
        ({"vary": {"rod.mass": Uniform(1, 2)}, "count": "a"}, "Distributions need count="),
        ({"seed": "x"}, "seed= is a whole number, 0 or more; got 'x'"),
        ({"seed": -1}, "seed= is a whole number, 0 or more; got -1"),
        ({"chunk": np.nan}, "chunk= is a number of cases"),
        ({"workers": "2"}, "workers= is a number of processes"),
        ({"workers": 2, "client": "tcp://127.0.0.1:1"}, "not both"),
        ({"client": 3}, "client= is a distributed.Client; got 3"),
        ({"progress": 3}, "progress= is True, False, or a function"),
        ({"task": "statics", "t_end": None, "measure": ["tip.x"], "find": "best"}, "find='best' is unknown"),
        ({"task": "statics", "t_end": None, "measure": ["tip.x"], "hold": ["pinn"]}, "joint coordinate 'pinn'"),
        ({"task": "statics", "t_end": None, "measure": ["effort(pin)"]}, "'pin' is not held; name it in hold="),
        ({"task": "statics", "t_end": None, "measure": ["tip.x"], "t": "now"}, "t= is a time, in seconds, not 'now'"),
        ({"task": "modes", "t_end": None, "measure": ["growth"], "rest": "yes"}, "rest= is True or False, not 'yes'"),
    ],
)
def test_mistakes_are_told_by_name(given, words, tmp_path):
    """Before anything is written."""
    chosen = {"vary": {"rod.mass": [1.0]}, "measure": ["final(tip.x)"], "t_end": 0.1} | given
    with pytest.raises(DalembertError, match=re.escape(words)):
        study(pendulum(), out=tmp_path / "x", **chosen)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("folder", ["", None, 3, "\0"])
def test_a_study_needs_a_folder(folder):
    with pytest.raises(DalembertError, match="out= is the folder of the study"):
        study(pendulum(), {"rod.mass": [1.0]}, ["final(tip.x)"], 0.1, out=folder)


def test_numbers_of_numpy_are_numbers(tmp_path):
    """As counts and seeds, which a manifest keeps."""
    given = {"count": np.int64(3), "seed": np.int64(5), "chunk": np.int64(2)}
    task = lambda system: float(system.parameters()["rod.mass"])  # noqa: E731
    found = study(pendulum(), {"rod.mass": Uniform(1.0, 2.0)}, ["x"], task=task, out=tmp_path, **given)
    assert found.status()["done"] == 3 and (found.plan["count"], found.plan["seed"], found.plan["chunk"]) == (3, 5, 2)


def test_a_number_that_is_not_there_has_a_sentence(tmp_path):
    """Nothing failed, and the others are there: a pendulum at rest has one freedom, and a function may know no number
    of a case."""
    rest = study(pendulum(), {"rod.mass": [1.0, 2.0]}, ["tip.y", "stiffness(2)"], task="statics", out=tmp_path / "a")
    data = rest.dataset
    assert data["status"].values.tolist() == ["done"] * 2 and np.all(np.isnan(data["stiffness(2)"]))
    np.testing.assert_allclose(data["tip.y"], -1)
    assert data["message"].values.tolist() == ["There is no number 'stiffness(2)'."] * 2
    root = lambda system: float(np.emath.log(2.0 - system.parameters()["rod.mass"]).real) if (  # noqa: E731
        system.parameters()["rod.mass"] < 2) else float("nan")  # fmt: skip
    found = study(pendulum(), {"rod.mass": [1.0, 3.0]}, ["log"], task=root, out=tmp_path / "b")
    assert found.dataset["message"].values.tolist() == ["", "There is no number 'log'."]
    assert found.status()["failed"] == 0 and found.best("log") == [0]
    told = in_process("status", str(tmp_path / "b"))
    assert told.returncode == 0 and "1 × There is no number 'log'." in told.stdout
    assert in_process("report", str(tmp_path / "b"), "-o", str(tmp_path / "b.html")).returncode == 0
    assert "There is no number 'log'." in (tmp_path / "b.html").read_text().replace("&#x27;", "'")


FACTOR = 2.0


def scaled(x):
    return FACTOR * x


def of_mass(system, offset=0.0):
    return scaled(float(system.parameters()["rod.mass"])) + offset


class OfMass:
    def __init__(self, offset):
        self.offset, self.calls = offset, []

    def __call__(self, system):
        self.calls.append(1)  # not plain data: it may change
        return of_mass(system, self.offset)


def surrounded(offset):
    return lambda system: of_mass(system) + offset


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (lambda: partial(of_mass, offset=1.0), lambda: partial(of_mass, offset=2.0), "'offset' (was '1.0', is '2.0')"),
        (lambda: OfMass(1.0), lambda: OfMass(2.0), "'offset' (was '1.0', is '2.0')"),
        (lambda: surrounded(1.0), lambda: surrounded(2.0), "'offset' (was '1.0', is '2.0')"),
        (lambda: of_mass, lambda: partial(of_mass, offset=2.0), "'offset' (was '0.0', is '2.0')"),
        (lambda: of_mass, None, "'FACTOR' (was '2.0', is '3.0')"),
    ],
)
def test_a_function_is_recognised_by_what_it_refers_to(one, other, words, tmp_path, monkeypatch):
    """Half of the cases of one function and half of another would be one dataset: it is refused, by name."""
    of = lambda f: study(pendulum(), {"rod.mass": [1.0, 2.0]}, ["x"], task=f, out=tmp_path, chunk=1)  # noqa: E731
    of(one())
    (tmp_path / "done" / "000001.json").unlink()
    assert of(one()).status()["done"] == 2  # the same is not refused
    if other is None:
        monkeypatch.setattr(f"{__name__}.FACTOR", 3.0)
    with pytest.raises(DalembertError, match=re.escape(words)):
        of((other or one)())


# ---- chunks, processes, interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_the_dataset_does_not_depend_on_chunks(whole, chunk, tmp_path):
    found = motions(tmp_path, chunk=chunk)
    assert found.status()["chunks_done"] == -(-COUNT // chunk)
    same(whole.dataset, found.dataset)


@pytest.mark.parametrize(
    "chunk", [pytest.param(1, marks=pytest.mark.thorough), 7, pytest.param(64, marks=pytest.mark.thorough)]
)
def test_nor_on_processes(whole, cluster, chunk, tmp_path):
    same(whole.dataset, motions(tmp_path, chunk=chunk, client=cluster).dataset)


@pytest.mark.parametrize(
    "chunk", [pytest.param(1, marks=pytest.mark.thorough), 7, pytest.param(64, marks=pytest.mark.thorough)]
)
def test_nor_on_processes_of_its_own(whole, chunk, tmp_path):
    same(whole.dataset, motions(tmp_path, chunk=chunk, workers=2).dataset)


def loops(folder, **options):
    """A machine with a closed loop, and what is measured through its equations: the force in a pin."""
    model = da.mechanism("four-bar")
    model.measure("pin", "reaction", "B")
    vary = {"crank.mass": Uniform(0.5, 2.0), "B.point_j": Normal([-0.5, 0.0], [0.01, 0.01])}
    measure = ["peak(pin.Fx, pin.Fy)", "final(A.angle)", "pin.Fx"]
    return study(model, vary, measure, 0.3, out=folder, count=COUNT, samples=6, **options)


@pytest.fixture(scope="module")
def whole_loops(tmp_path_factory):
    return loops(tmp_path_factory.mktemp("loops"))


@pytest.mark.parametrize("chunk", [pytest.param(1, marks=pytest.mark.thorough), 7, 64])
def test_a_closed_loop_in_chunks(whole_loops, chunk, tmp_path):
    """Its start is closed anew for each case, and its forces are found by the formulation."""
    data = whole_loops.dataset
    assert data["status"].values.tolist().count("done") > COUNT / 2
    assert np.ptp(data["peak(pin.Fx, pin.Fy)"].values[data["status"].values == "done"]) > 1.0
    same(data, loops(tmp_path, chunk=chunk).dataset)


@pytest.mark.thorough
@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize("where", ["cluster", "own"])
def test_a_closed_loop_on_processes(whole_loops, request, where, chunk, tmp_path):
    given = {"client": request.getfixturevalue("cluster")} if where == "cluster" else {"workers": 2}
    same(whole_loops.dataset, loops(tmp_path, chunk=chunk, **given).dataset)


def lamp() -> da.Model:
    """A bar on a spring about its pin."""
    model = da.Model("lamp", gravity=(0, -9.81))
    bar = model.body("bar", mass=3.0, inertia=0.2, position=(0.4, 0))
    pin = model.revolute("pin", model.ground, bar, at=(0, 0))
    model.joint_spring("spring", pin, stiffness=40.0)
    model.measure("load", "reaction", pin, frame="world")
    model.measure("end", "point", bar, at=(0.8, 0.1))
    return model


def driven_lamp() -> da.Model:
    model = lamp()
    model.driver("motor", "pin", da.functions.polynomial([0.0, 1.0]))
    model.measure("effort", "effort", "motor")
    return model


TASKS = {
    "statics": (lamp, ["end.x", "load.Fy", "stable", "stiffness(1)"], {"task": "statics"}),
    "modes": (lamp, ["frequency(1)", "damping(1)", "growth"], {"task": "modes", "rest": True}),
    "kinematics": (driven_lamp, ["rms(effort)", "final(end.ax)", "effort"], {"task": "kinematics", "t_end": 0.5}),
    "one by one": (lamp, ["final(end.x)", "peak(load.Fx, load.Fy)"], {"t_end": 0.3, "engine": "single"}),
    "at once": (lamp, ["final(end.x)", "peak(load.Fx, load.Fy)", "end.ax"], {"t_end": 0.3}),
}


@pytest.mark.parametrize(
    "task", [*list(TASKS)[:1], *(pytest.param(name, marks=pytest.mark.thorough) for name in list(TASKS)[1:])]
)
def test_other_tasks_on_processes(cluster, task, tmp_path):
    """Vectors vary, which come to a worker as arrays that were pickled."""
    make, measure, options = TASKS[task]
    vary = {"bar.mass": Uniform(2.0, 4.0), "pin.point_j": Normal([-0.4, 0.0], [0.02, 0.02])}
    options |= {"count": 8, **({"samples": 6} if "t_end" in options else {})}
    one, two, three = (
        study(make(), vary, measure, out=tmp_path / name, **options, **given).dataset.load()
        for name, given in (("one", {}), ("two", {"chunk": 3}), ("three", {"chunk": 3, "client": cluster}))
    )
    assert one["status"].values.tolist() == ["done"] * 8
    same(one, two)
    same(one, three)


def test_the_device_arrives(tmp_path, monkeypatch):
    """A study asks for batches on the device that it is given (here a processor stands in its place)."""
    from dalembert.studies import _tasks

    real, asked = _tasks.simulate_many, []

    def many(*args, device, **options):
        asked.append(device)
        return real(*args, device="cpu", **options)

    monkeypatch.setattr(_tasks, "simulate_many", many)
    monkeypatch.setattr(_tasks, "device", lambda: None)
    masses = {"rod.mass": [1.0, 2.0, 3.0]}
    found = study(pendulum(), masses, ["final(tip.x)"], 0.5, out=tmp_path / "a", chunk=2, device="gpu", **SETTINGS)
    assert asked == ["cpu", "gpu", "gpu"] and found.plan["settings"]["device"] == "gpu"
    asked.clear()
    same(found.dataset, study(pendulum(), masses, ["final(tip.x)"], 0.5, out=tmp_path / "b", **SETTINGS).dataset)
    assert set(asked) == {"cpu"}


def no_gpu() -> bool:
    from dalembert.kernels import device

    try:
        device()
    except DalembertError:
        return True
    return False


@pytest.mark.skipif(not no_gpu(), reason="this machine has a GPU")
def test_workers_without_a_gpu_fail_no_case(cluster, tmp_path):
    """The client needs none; where a worker lacks it no case is marked, and the study can go on elsewhere."""
    masses = {"rod.mass": [1.0, 2.0, 3.0]}
    with pytest.raises(DalembertError, match="NVIDIA"):
        study(pendulum(), masses, ["final(tip.x)"], 0.5, out=tmp_path, device="gpu", client=cluster, **SETTINGS)
    found = open_study(tmp_path)
    assert found.status()["done"] == 0 and found.dataset["status"].values.tolist() == ["waiting"] * 3


@pytest.mark.skipif(no_gpu(), reason="this machine has no GPU")
@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_gpu_workers(cluster, chunk, tmp_path):
    """Bit for bit what this process computes on the GPU; what a processor computes but for rounding, which grows."""
    gpu = motions(tmp_path / "here", device="gpu").dataset
    same(gpu, motions(tmp_path / "there", device="gpu", chunk=chunk, client=cluster).dataset)
    own = motions(tmp_path / "cpu").dataset
    np.testing.assert_allclose(gpu["final(tip.x)"], own["final(tip.x)"], atol=1e-9)


@pytest.mark.thorough
def test_another_device_on_workers(cluster, tmp_path):
    """A program of XLA in the place of a GPU's: the device arrives at the workers, and their numbers come back."""
    own, there = (
        study(
            pendulum(), {"rod.mass": [1.0, 2.0, 3.0]}, ["final(tip.x)"], 0.5, out=tmp_path / name, **given, **SETTINGS
        )
        for name, given in (("a", {}), ("b", {"device": "jax", "client": cluster, "chunk": 2}))
    )
    np.testing.assert_allclose(there.dataset["final(tip.x)"], own.dataset["final(tip.x)"], atol=1e-9)
    assert there.status()["done"] == 3 and there.status()["failed"] == 0


def test_a_chunk_fits_into_memory():
    """The more times are saved, the fewer cases are computed at once: rows of times, q and v at each."""
    from dalembert.studies._study import MEMORY, _chunk
    from dalembert.studies._tasks import machines

    sizes = {}
    for samples in (21, 2001, 20001, 2000001):
        here = machines("simulate", {"pendulum": pendulum()}, {"t_end": 1.0, "samples": samples}, ["final(tip.x)"])
        sizes[samples] = _chunk(None, here, 100_000)
        assert sizes[samples] == 1 or sizes[samples] * samples * 8 * (1 + 3 + 3) <= MEMORY
    assert sizes[21] == 2048 > sizes[2001] > 8 * sizes[20001] > sizes[2000001] >= 1
    assert _chunk(None, here, 100_000) <= 2 and _chunk(7, here, 100_000) == 7


def test_a_study_goes_on_where_it_was(whole, tmp_path):
    """Ctrl-C after two chunks; the rest by `resume`, which has the folder alone. What was finished is not touched."""

    def stop(done, failed, count):
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        motions(tmp_path, chunk=10, progress=stop)
    half = open_study(tmp_path)
    assert half.status()["done"] == 20 and half.status()["running"] is False
    assert half.dataset["status"].values.tolist().count("waiting") == COUNT - 20
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "done").iterdir()}
    same(whole.dataset, resume(tmp_path).dataset)
    assert all(p.stat().st_mtime_ns == t for p, t in before.items())


def test_what_was_finished_is_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setenv(LOG, str(tmp_path / "log"))

    def stop(done, failed, count):
        if done >= 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watched(tmp_path / "s", progress=stop)
    watched(tmp_path / "s")
    watched(tmp_path / "s")
    assert sorted(line.mass for line in log_of(tmp_path / "log")) == masses().tolist()
    data = open_study(tmp_path / "s").dataset
    assert (
        data["message"].values.tolist().count("The function failed: ValueError: too heavy")
        == open_study(tmp_path / "s").status()["failed"]
    )
    with pytest.raises(DalembertError, match=r"computes the Python function 'numbers', which is not in the folder"):
        resume(tmp_path / "s")


def test_a_disk_that_is_full_at_any_write(tmp_path, monkeypatch):
    """Every write of a small study fails once. What can be read then is right, and the study goes on from there."""
    import dalembert._disk as disk

    vary, measure = {"rod.mass": [1.0, 2.0, 3.0, 4.0]}, ["mass"]
    task = lambda system: {"mass": system.parameters()["rod.mass"]}  # noqa: E731
    wanted = study(pendulum(), vary, measure, task=task, out=tmp_path / "whole", chunk=2).dataset
    real, calls = disk._to_disk, [0, -1]

    def failing(path):
        calls[0] += not os.path.isdir(path)
        if calls[0] == calls[1] and not os.path.isdir(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path)

    monkeypatch.setattr(disk, "_to_disk", failing)
    for k in range(1, 20):
        calls[:] = [0, k]
        folder = tmp_path / str(k)
        try:
            study(pendulum(), vary, measure, task=task, out=folder, chunk=2)
            break
        except DalembertError as error:
            assert "No space left on device" in str(error)
        calls[1] = -1
        if (folder / "study.json").exists():
            part = open_study(folder)
            data = part.dataset.load()
            there = data["status"].values == "done"
            assert np.array_equal(data["mass"].values[there], wanted["mass"].values[there])
            assert there.sum() >= part.status()["done"]
        same(wanted, study(pendulum(), vary, measure, task=task, out=folder, chunk=2).dataset)
    assert k == 8  # the manifest, then for each of two chunks its mass, its states and its line; no case has a message


def test_what_is_read_while_it_is_written_is_whole(tmp_path, monkeypatch):
    """After each file that is written: a case with a status has its numbers and its sentence, in a dataset that was
    opened now, and in one that was opened before."""
    from dalembert.studies._store import Store

    vary, real, before = {"rod.mass": [1.0, 2.0, 3.0]}, Store._write_bytes, []
    task = lambda system: {1.0: 5.0, 3.0: 7.0}[float(system.parameters()["rod.mass"])]  # noqa: E731
    wanted = study(pendulum(), vary, ["x"], task=task, out=tmp_path / "whole", chunk=1).dataset.load()
    assert wanted["status"].values.tolist() == ["done", "error", "done"]

    def looked_at(store, path, data):
        before.extend([open_study(store.folder).dataset] if store.exists else [])
        real(store, path, data)
        for found in (open_study(store.folder).dataset, *before[-1:]):
            found = found.load()
            there = np.flatnonzero(found["status"].values != "waiting")
            same(wanted.isel(case=there), found.isel(case=there))

    monkeypatch.setattr(Store, "_write_bytes", looked_at)
    study(pendulum(), vary, ["x"], task=task, out=tmp_path / "seen", chunk=1)
    assert len(before) == 9  # two numbers, a sentence, three states and three lines


def test_another_study_is_refused_by_what_changed(tmp_path, monkeypatch):
    def of(model=None, vary=None, measure=None, **other):
        settings = {"rtol": 1e-6, "samples": 5} | other
        return study(
            model or pendulum(),
            vary or {"rod.mass": [1.0, 2.0]},
            measure or ["final(tip.x)"],
            0.1,
            out=tmp_path,
            **settings,
        )

    of()
    changed = pendulum()
    changed.body("bob", mass=1.0, inertia=1.0)
    for given, words in (
        ({"rtol": 1e-7}, "setting 'rtol' (was 1e-06, is 1e-07)"),
        ({"dt": 1e-3}, "setting 'dt' (was not there, is 0.001)"),
        ({"measure": ["final(tip.y)"]}, "measure 'final(tip.x)' (was 'final(tip.x)', is not there)"),
        ({"vary": {"rod.mass": [1.0, 2.5]}}, "vary 'rod.mass' (was [1.0, 2.0], is [1.0, 2.5])"),
        ({"model": changed}, "'bob' of model 'pendulum'"),
        ({"seed": 3}, "seed (was 0, is 3)"),
    ):
        with pytest.raises(DalembertError, match=re.escape(words)):
            of(**given)
    assert of().status()["done"] == 2
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    with pytest.raises(DalembertError, match="is not the folder of a study, and not empty"):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "thesis.tex").write_text("do not touch")
        watched(tmp_path / "other")
    assert sorted(p.name for p in (tmp_path / "other").iterdir() if p.name != "lock") == ["thesis.tex"]


def test_the_manifest(whole):
    """All that another person needs to compute it again, and what guards it."""
    plan = json.loads((whole.folder / "study.json").read_text())
    model = whole.models["pendulum"]
    assert plan["models"] == {"pendulum": da.io.text_of(model)} and model.bodies["rod"].mass == 1.0
    assert plan["hashes"]["model 'pendulum'"] == hashlib.sha256(plan["models"]["pendulum"].encode()).hexdigest()
    for part in ("setting 'rtol'", "measure 'tip.y'", "vary 'rod.mass'", "task", "seed", "chunk", "table"):
        assert re.fullmatch("[0-9a-f]{64}", plan["hashes"][part])
    assert plan["settings"] == {"t_end": 1.0, "rtol": 1e-7, "samples": 21, "engine": "batch"}
    assert (plan["task"], plan["seed"], plan["count"], plan["sampling"]) == ("simulate", 0, COUNT, "latin")
    assert plan["measure"] == {name: name for name in MEASURE}
    assert plan["vary"]["rod.mass"] == {"uniform": [-0.1, 2.0]}
    versions = plan["versions"]
    assert versions["dalembert"] == da.__version__ and versions["jax"] == importlib.metadata.version("jax")
    assert set(versions) == {"dalembert", "python", "machine", "jax", "numpy", "llvmlite"}


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda plan: plan["settings"].update(rtol=1e-3), "setting 'rtol'"),
        (lambda plan: plan["settings"].update(dt=1e-3), "setting 'dt'"),
        (
            lambda plan: plan["models"].update(pendulum=plan["models"]["pendulum"].replace("-9.81", "-1.62")),
            "model 'pendulum'",
        ),
        (lambda plan: plan["measure"].update({"tip.y": "tip.x"}), "measure 'tip.y'"),
        (lambda plan: plan["vary"].pop("rod.mass"), "vary 'rod.mass'"),
        (lambda plan: plan.update(task="statics", seed=3), "task, seed"),
        (lambda plan: plan.update(chunk=13), "chunk"),
        (lambda plan: plan["hashes"].pop("setting 'samples'"), "setting 'samples'"),
        (lambda plan: plan.pop("hashes"), None),
    ],
)
def test_an_edited_manifest_is_refused_by_what_changed(whole, edit, words, tmp_path):
    """Half of the cases are computed; the others must not be those of another machine."""
    shutil.copytree(whole.folder, tmp_path / "study")
    (tmp_path / "study" / "done" / "000000.json").unlink()
    path = tmp_path / "study" / "study.json"
    plan = json.loads(path.read_text())
    edit(plan)
    path.write_text(json.dumps(plan))
    told = f"was edited since the study began: {words}." if words else "study.json' cannot be read"
    with pytest.raises(DalembertError, match=re.escape(told)):
        resume(tmp_path / "study")
    assert not (tmp_path / "study" / "done" / "000000.json").exists()


def test_other_versions_are_told(whole, tmp_path, monkeypatch):
    """A study that began with another version goes on, with a warning."""
    shutil.copytree(whole.folder, tmp_path / "study")
    of, was = importlib.metadata.version, importlib.metadata.version("numpy")
    monkeypatch.setattr("dalembert.studies._study._version", lambda name: "99.1" if name == "numpy" else of(name))
    with pytest.warns(UserWarning, match=re.escape(f"begun with other versions (numpy {was} → 99.1): what is")):
        resume(tmp_path / "study")


def test_one_process_at_a_time(tmp_path):
    from dalembert.studies._store import Store

    of = lambda: study(pendulum(), {"rod.mass": [1.0]}, ["mass"], task=lambda s: 1.0, out=tmp_path)  # noqa: E731
    of()
    with Store(tmp_path).locked():
        assert open_study(tmp_path).status()["running"]
        with pytest.raises(DalembertError, match="Another process is computing the study"):
            of()


def test_what_is_written_is_wanted_no_more(cluster, tmp_path, monkeypatch):
    """When a chunk is written the cluster has been told that its numbers have arrived: if the worker that has computed
    them is killed then, they are not computed again."""
    from dalembert.studies._run import Run

    real, wanted, before = Run.finish, [], set(cluster.futures)  # of other studies on this cluster

    def finish(run, chunk, *given):
        mine = lambda: set(cluster.futures) - before  # noqa: E731
        held = lambda: [k for k in mine() if str(k).split("-")[2:3] == [str(chunk)]]  # noqa: E731
        end = time.monotonic() + 3
        while held() and time.monotonic() < end:  # another thread tells it
            time.sleep(0.01)
        wanted.extend(held())
        real(run, chunk, *given)

    monkeypatch.setattr(Run, "finish", finish)
    task = lambda system: float(system.parameters()["rod.mass"])  # noqa: E731
    found = study(pendulum(), {"rod.mass": [1.0, 2.0, 3.0]}, ["x"], task=task, out=tmp_path, chunk=1, client=cluster)
    assert found.status()["done"] == 3 and wanted == []


def test_a_case_that_kills_its_worker_stands_alone(cluster, tmp_path):
    """Case 5 ends the process that computes it; all others have their numbers, though they were in one chunk."""

    def deadly(system):
        mass = float(system.parameters()["rod.mass"])
        if mass == 6.0:
            os.kill(os.getpid(), 9)
        return {"mass": mass}

    data = study(
        pendulum(), {"rod.mass": np.arange(1.0, 9.0)}, ["mass"], task=deadly, out=tmp_path, chunk=8, client=cluster
    ).dataset
    status = data["status"].values.tolist()
    assert status == ["done"] * 5 + ["killed"] + ["done"] * 2
    assert data["mass"].values[:5].tolist() == [1, 2, 3, 4, 5] and np.isnan(data["mass"][5])
    assert "ends with it, 3 times, alone" in str(data["message"].values[5])


# ---- files, command line, page ---------------------------------------------------------------------------------------

FILE = """\
study: 1
model: swing.yaml
t_end: 0.5
settings: {rtol: 1e-6, samples: 11}
vary:
  rod.mass: {uniform: [0.5, 2]}
  rod.inertia: {from: 0.1, to: 0.2, count: 2}
  load: {cases: {left: {"pin.point_j": [-0.5, 0]}, right: {"pin.point_j": [-0.45, 0]}}}
count: 4
sampling: sobol
seed: 7
measure: [final(tip.x), peak(tip.vx)]
"""


def test_a_study_of_a_file(tmp_path):
    """The same as the study in Python; status, report and resume by the command line."""
    da.save(pendulum(), tmp_path / "swing.yaml")
    (tmp_path / "a.yaml").write_text(FILE)
    ran = in_process("study", str(tmp_path / "a.yaml"), "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["cases"], told["done"], told["failed"]) == (16, 16, 0)
    vary = {
        "rod.mass": Uniform(0.5, 2.0), "rod.inertia": [0.1, 0.2],
        "load": {"left": {"pin.point_j": [-0.5, 0]}, "right": {"pin.point_j": [-0.45, 0]}},
    }  # fmt: skip
    own = study(
        pendulum(), vary, ["final(tip.x)", "peak(tip.vx)"], 0.5, out=tmp_path / "own", count=4, sampling="sobol",
        seed=7, rtol=1e-6, samples=11,
    )  # fmt: skip
    same(own.dataset, open_study(told["folder"]).dataset)
    line = in_process("status", told["folder"])
    assert line.stdout.startswith("pendulum: 16 of 16 cases are done, 0 failed")
    assert in_process("resume", told["folder"]).returncode == 0
    page = tmp_path / "page.html"
    assert in_process("report", told["folder"], "-o", str(page)).returncode == 0
    text = page.read_text()
    for part in ("16 of 16 cases are done", "parallel coordinates", "Rank correlation", "The best", "<iframe"):
        assert part in text


def test_mistakes_in_a_file_have_places(tmp_path):
    da.save(pendulum(), tmp_path / "swing.yaml")
    bad = FILE.replace("rod.mass: {", "rod.mas: {").replace("peak(tip.vx)", "peek(tip.vx)").replace("rtol", "rtl")
    (tmp_path / "a.yaml").write_text(bad)
    ran = in_process("study", str(tmp_path / "a.yaml"))
    assert ran.returncode == 2 and "Traceback" not in ran.stderr
    for words in ("a.yaml:6:3: 'pendulum' has no parameter 'rod.mas'. Did you mean 'rod.mass'?",
                  "a.yaml:4:12: there is no setting 'rtl'",
                  "a.yaml:12:25: 'peek(tip.vx)': there is no 'peek'"):  # fmt: skip
        assert words in ran.stderr
    (tmp_path / "b.yaml").write_text(
        FILE.replace("t_end: 0.5", "t_end: soon").replace("{uniform: [0.5, 2]}", "{unifrm: [0.5, 2]}") + "extra: 1\n"
    )
    with pytest.raises(FileError) as caught:
        da.studies.study_file(tmp_path / "b.yaml")
    assert [c[:2] for c in caught.value.complaints] == [(3, 8), (6, 13), (13, 1)]
    for text in (
        "study: 2\nmodel: a\nmeasure: [x]\n",
        "[]",
        "",
        "study: 1\nmodel: ../x.yaml\nmeasure: [x]\n",
        "model: 1\n",
    ):
        (tmp_path / "c.yaml").write_text(text)
        ran = in_process("study", str(tmp_path / "c.yaml"))
        assert ran.returncode == 2 and "Traceback" not in ran.stderr and "c.yaml" in ran.stderr


def test_processes_by_the_command_line(tmp_path, monkeypatch):
    """`--workers 2` gives what one process gives; a scheduler that is not there is told in a sentence."""
    monkeypatch.setattr("dalembert.studies._run.ANSWERS", 0.5)
    da.save(pendulum(), tmp_path / "swing.yaml")
    (tmp_path / "a.yaml").write_text(FILE)
    one, two = (str(tmp_path / name) for name in ("one", "two"))
    assert in_process("study", str(tmp_path / "a.yaml"), "-o", one).returncode == 0
    ran = in_process("study", str(tmp_path / "a.yaml"), "-o", two, "--workers", "2")
    assert ran.returncode == 0 and "16 of 16 cases are done" in ran.stdout, ran.stderr
    same(open_study(one).dataset, open_study(two).dataset)
    (Path(two) / "done" / "000000.json").unlink()
    for address in ("tcp://127.0.0.1:1", "nowhere"):
        ran = in_process("resume", two, "--scheduler", address)
        assert ran.returncode == 2 and "Traceback" not in ran.stderr, address
        assert f"There is no Dask scheduler at {address}" in ran.stderr and "dask scheduler" in ran.stderr
    ran = in_process("resume", two, "--scheduler", address, "--workers", "2")
    assert ran.returncode == 2 and "not both" in ran.stderr


def test_a_half_finished_study_by_the_command_line(tmp_path):
    def stop(done, failed, count):
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        moving(tmp_path / "study", progress=stop)
    told = in_process("status", str(tmp_path / "study"))
    assert told.returncode == 0 and told.stdout.startswith(f"pendulum: 20 of {CASES} cases are done, 0 failed")
    assert "if it goes on: dalembert resume" in told.stdout
    told = in_process("resume", str(tmp_path / "study"), "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["done"] == CASES
    same(moving(tmp_path / "whole").dataset, open_study(tmp_path / "study").dataset)


def test_a_bar_on_a_terminal(tmp_path, monkeypatch):
    """A step for each chunk, with the failed cases; where stderr is no terminal there is none."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    task = lambda system: {1.0: 1.0, 3.0: 3.0}[float(system.parameters()["rod.mass"])]  # noqa: E731
    with contextlib.redirect_stderr(shown):
        study(pendulum(), {"rod.mass": [1.0, 2.0, 3.0]}, ["x"], task=task, out=tmp_path / "a", chunk=1, progress=True)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())
    assert "pendulum" in text and "3/3" in text and "1 failed" in text and "━" in text
    (tmp_path / "a" / "done" / "000000.json").unlink()
    moving(tmp_path / "b")
    (tmp_path / "b" / "done" / "000007.json").unlink()
    assert "━" not in in_process("resume", str(tmp_path / "b")).stderr


@pytest.mark.skipif(os.name != "posix", reason="stops a process and lets it go on")
def test_a_study_that_runs_is_looked_at(tmp_path):
    """`status --live` until it is done, and its dataset opened while another process writes: what is there is right."""
    folder, log = tmp_path / "study", tmp_path / "log"
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r}); sys.argv = ["", {str(folder)!r}, {str(log)!r}]
import _helpers_studies
_helpers_studies.main()
"""
    os.environ[LOG] = str(tmp_path / "own")
    wanted = watched(tmp_path / "undisturbed").dataset.load()
    with python_process(code) as run:
        end = time.monotonic() + 120
        while not list((folder / "done").glob("[0-9]*.json")):
            assert run.poll() is None and time.monotonic() < end
            time.sleep(0.002)
        seen = set()
        while run.poll() is None and len(seen) < 8:
            data = open_study(folder).dataset.load()
            there = np.flatnonzero(data["status"].values != "waiting")
            same(wanted.isel(case=there), data.isel(case=there))
            seen.add(len(there))
            if len(there) >= 4 * CHUNK:
                break
        run.send_signal(signal.SIGSTOP)
        assert open_study(folder).status()["done"] < CASES
        threading.Timer(1.5, lambda: run.send_signal(signal.SIGCONT)).start()
        told = in_process("status", str(folder), "--live")
        assert run.wait(60) == 0
    lines = [line for line in told.stdout.splitlines() if line.startswith("pendulum: ")]
    assert told.returncode == 0 and len(lines) >= 2 and len(seen) >= 1
    first, last = (int(line.split()[1]) for line in (lines[0], lines[-1]))
    assert 0 < first < last == CASES and "s left" in lines[0] and "dalembert resume" not in lines[0]
    assert "× The function failed: ValueError: too heavy" in told.stdout


def test_best_and_what_is_not_there(whole):
    x = whole.dataset["final(tip.x)"].values
    best = whole.best("final(tip.x)", 3)
    assert best == list(np.argsort(np.where(np.isfinite(x), x, np.inf), kind="stable")[:3])
    with pytest.raises(DalembertError, match=re.escape("'final(tip.z)' is no measured number")):
        whole.best("final(tip.z)")
    with pytest.raises(DalembertError, match="there is no case 999"):
        whole.simulate(999)


def test_without_the_extra(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(DalembertError, match=re.escape("pip install 'dalembert[studies]'")):
        motions(tmp_path / "x")


_ = numbers
