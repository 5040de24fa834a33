"""8 · studies: `study`: a model, what varies, what is measured, and a folder that survives whatever happens."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dalembert._results import BatchError, DalembertError, did_you_mean
from dalembert.io import read_from_text, text_of
from dalembert.model import Model
from dalembert.studies._function import described
from dalembert.studies._measure import Measure
from dalembert.studies._run import Run, connected, local_cluster, machines_of
from dalembert.studies._store import FORMAT, MANIFEST, Store, need
from dalembert.studies._tasks import BATCH, COMMON, SINGLE, Machines, Simulation, measures, task_of
from dalembert.studies._vary import MODEL, START, Cases, Normal, Uniform, cases_of, check_names, refuse_client
from dalembert.systems import State, build

MEMORY = 256 * 2**20
"""Bytes that a chunk may take while it is computed."""
VERSIONED = ("jax", "numpy", "llvmlite")


def study(
    model: Model | Mapping[str, Model],
    vary: Mapping[Any, Any],
    measure: Sequence[str] | Mapping[str, str],
    t_end: float | None = None,
    *,
    out: str | Path,
    task: str | Callable = "simulate",
    count: int | None = None,
    sampling: str = "latin",
    combine: str = "grid",
    seed: int = 0,
    chunk: int | None = None,
    workers: int | None = None,
    client: Any = None,
    progress: bool | Callable[[int, int, int], None] = False,
    **settings: Any,
) -> Study:
    """Many machines: every case of what varies is computed, and its measured numbers are kept in a folder.

    **Arguments**

    - `model`: a model, or several alternative ones by name; all that varies is a parameter of each.
    - `vary`: by name of a parameter (`da.build(model).parameters()`) a list of values, or a distribution
      (`da.studies.Uniform`, `Normal`; correlated: a tuple of names with `Normal(means, covariance)`); under any other
      name load cases, {"load": {"empty": {"box.mass": 1.0}, "full": {"box.mass": 9.0}}}; under "start" start states, a
      `State` with one row of q and of v for each.
    - `measure`: what is kept of each case, as texts, or texts by names of your own. Of a motion "final(tip.x)",
      "peak(pin.Fx, pin.Fy)", "largest", "least", "mean", "rms", "integral", "at_time(tip.x, 0.3)", or a channel alone:
      its whole course. At rest: a channel, "stable", "residual", "stiffness(1)", "effort(name)". Of modes
      "frequency(1)", "damping(1)", "growth".
    - `task`: "simulate", "statics", "kinematics", "modes", or a function that takes the system of a case and returns
      the numbers named in `measure`.
    - `count`, `sampling` ("latin", "sobol", "random"), `seed`: how many points of the distributions, and which.
      `combine`: "grid" takes every combination of lists, "list" their first values together, then their second ones.
    - `t_end` and `settings`: of a motion `t0`, `samples`, `rtol`, `atol`, `dt`, `integrator`, `max_steps`, `rule` (by
      name), `coordinates`, `device`; `engine="single"` marches one by one, with any integrator; at rest `t`, `find`,
      `hold`, `rule`; of modes `t`, `rest`, `anywhere`, `rule`.
    - `out`: the folder. If it holds this study, what is missing is computed; if it holds another one, what differs is
      named, and nothing is touched.
    - `chunk`: cases that are computed and written together; by default as many as fit into 256 MiB, at most 2048.
    - `workers`: processes of this machine (in a script under `if __name__ == "__main__":`); `client`: a client of a
      Dask cluster. By default chunks run in this process, on all cores.
    - `progress`: True for a bar, or a function of the cases done, failed and of all.

    **Returns** a `Study`; its `dataset` has a dimension `case`. A case that fails has a status and a sentence, and no
    effect on the others. The dataset is the same, bit for bit, for any `chunk`, any number of processes and after any
    interruption (on processors of one kind).

        >>> import dalembert as da
        >>> from tempfile import mkdtemp
        >>> vary = {"crank.mass": [1.0, 2.0], "coupler.mass": [1.0, 2.0, 3.0]}
        >>> found = da.study(da.mechanism("four-bar"), vary, ["final(A.angle)"], 0.2, out=mkdtemp(), samples=3)
        >>> found
        Study 'four-bar': 6 of 6 cases are done, 0 failed
        >>> found.dataset["final(A.angle)"].shape
        (6,)
    """
    _refuse_places(out, workers, client, progress, chunk)
    models = _named(model)
    function = task if callable(task) else None
    word = "function" if function is not None else str(task)
    if t_end is not None:
        settings = {"t_end": t_end, **settings}
    plan = _plan(models, word, function, measure, settings)
    cases = cases_of(vary, models=list(models), count=count, sampling=sampling, combine=combine, seed=seed)
    varies = {"values": list(cases.values), "labels": list(cases.labels), "states": cases.states is not None}
    described = {_key(name): _described(given) for name, given in vary.items() if name != START}
    count = None if count is None else int(count)
    plan |= {
        "vary": described, "count": count, "sampling": sampling, "combine": combine, "seed": int(seed),
        "varies": varies, "cases": cases.count, "table": cases.fingerprint(),
    }  # fmt: skip
    store = Store(out)
    need("zarr")
    if store.exists:
        old = store.plan()
        _refuse_changes(old, plan, store)
        _refuse_edited(old, store)
        return _go(store, old, store.cases(), function, workers, client, progress)
    here = machines_of(plan, function)
    for t in here.tasks.values():
        check_names(cases, t.system, len(models) > 1)
    _refuse_clashes(cases, here)
    if word == Simulation.word and "engine" not in plan["settings"]:
        here_alone = {k: x for k, x in plan["settings"].items() if k != "device"}  # which only workers may have
        plan["settings"]["engine"] = _engine(machines_of(plan | {"settings": here_alone}, function), cases)
        here = machines_of(plan, function)
    plan["chunk"] = _chunk(chunk, here, cases.count)
    plan["hashes"] = _hashes(plan)
    with store.locked():
        if not store.exists:
            units = _units(here, cases)
            store.create(plan, cases, here.layout(), here.first.times, units)
    return _go(store, plan, cases, function, workers, client, progress)


def resume(
    folder: str | Path,
    *,
    workers: int | None = None,
    client: Any = None,
    progress: bool | Callable[[int, int, int], None] = False,
) -> Study:
    """Compute what is missing of the study in a folder.

    A study of a Python function goes on by calling `study` again with the same arguments: a folder holds data only.
    A manifest (study.json) that was edited is refused, by name of what changed.

    **Arguments**: `folder`; `workers`, `client`, `progress` as of `study`. **Returns** the `Study`.
    """
    _refuse_places(folder, workers, client, progress)
    store = Store(folder)
    plan = store.plan()
    _refuse_edited(plan, store)
    if plan["function"] is not None:
        raise DalembertError(
            f"The study in '{folder}' computes the Python function '{plan['function']['name']}', which is not in the "
            "folder; call da.study again with the same arguments."
        )
    return _go(store, plan, store.cases(), None, workers, client, progress)


def open_study(folder: str | Path) -> Study:
    """The study in a folder, as far as it is; it may be running.

    **Returns** a `Study`: `dataset`, `status()`, `best(name)`, `simulate(case)`.
    """
    store = Store(folder)
    return Study(store, store.plan())


class Study:
    """A study in its folder: `dataset` (labelled, along `case`), `status()`, `best(name)`, `simulate(case)`."""

    def __init__(self, store: Store, plan: Mapping[str, Any]):
        self.store, self.plan = store, dict(plan)

    @property
    def folder(self) -> Path:
        return self.store.folder

    @property
    def name(self) -> str:
        return self.plan["name"]

    @property
    def dataset(self):
        """What is measured, along `case`, with what varies as coordinates; `status` and `message` of each case. Cases
        that are not computed yet are NaN, with status "waiting"."""
        return self.store.dataset()

    @property
    def cases(self) -> Cases:
        """The table of what varies."""
        return self.store.cases()

    @property
    def models(self) -> dict[str, Model]:
        """The models, by name."""
        return {n: read_from_text(text, Path(f"{n}.yaml")).model for n, text in self.plan["models"].items()}

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What is measured."""
        return measures(self.plan["task"], self.plan["measure"])

    def status(self) -> dict[str, Any]:
        """How far it is: cases, done, failed, rate (cases a second), time_left (s), running."""
        return self.store.status()

    def best(self, name: str, count: int = 5, *, largest: bool = False) -> list[int]:
        """The cases with the smallest (or largest) values of what is measured, the best first."""
        data = self.dataset
        if name not in data or data[name].dims != ("case",) or data[name].dtype != float:
            scalars = [str(n) for n, x in data.data_vars.items() if x.dims == ("case",) and x.dtype.kind == "f"]
            raise DalembertError(
                f"'{name}' is no measured number of '{self.name}'; there is {', '.join(scalars)}."
                f"{did_you_mean(name, scalars)}"
            )
        x = np.asarray(data[name].values, float)
        known = np.flatnonzero(np.isfinite(x))
        order = known[np.argsort(-x[known] if largest else x[known], kind="stable")]
        return [int(k) for k in order[:count]]

    def system(self, case: int):
        """The system of a case, and its start (None: the model's own)."""
        cases = self.cases
        if not 0 <= case < cases.count:
            raise DalembertError(f"There are {cases.count} cases, numbered from 0; there is no case {case}.")
        name = str(cases.labels[MODEL][case]) if MODEL in cases.labels else next(iter(self.plan["models"]))
        system = build(self.models[name], coordinates=self.plan["settings"].get("coordinates", "absolute"))
        system = system.replace({n: x[case] for n, x in cases.values.items()})
        start = None if cases.states is None else State(cases.states.q[case], cases.states.v[case])
        return system, start

    @property
    def _settings(self) -> dict[str, Any]:
        return {"t_end": 1.0} | self.plan["settings"]

    def simulate(self, case: int, samples: Any = 201):
        """The motion of a case, with all that a solution can do."""
        from dalembert.simulation import simulate

        system, start = self.system(case)
        keys = ("t0", "integrator", "rtol", "atol", "dt", "max_steps", "rule")
        given = {k: self._settings[k] for k in keys if self._settings.get(k) is not None}
        return simulate(system, float(self._settings["t_end"]), start, samples=samples, throw=False, **given)

    def report(self, path) -> Path:
        """A page to send: parallel coordinates, scatter, sensitivities, the best designs in motion."""
        from dalembert.reports import report_study

        return report_study(self, path)

    def __repr__(self) -> str:
        s = self.status()
        return f"Study '{self.name}': {s['done']} of {s['cases']} cases are done, {s['failed']} failed"


# ---- what a study is -------------------------------------------------------------------------------------------------


def _named(model: Any) -> dict[str, Model]:
    table = dict(model) if isinstance(model, Mapping) else {getattr(model, "name", ""): model}
    for name, x in table.items():
        if not isinstance(name, str):
            raise DalembertError(f"Alternative models have names: {{'light': a, 'heavy': b}}; got {name!r}.")
        if not isinstance(x, Model):
            raise DalembertError(
                f"A study needs models (da.Model), which its folder keeps as text; '{name}' is of type "
                f"{type(x).__name__}. Your own equations: vary them in a function of your own over a model's system."
            )
    if not table:
        raise DalembertError("A study needs a model.")
    return table


def _refuse_places(out, workers, client, progress, chunk=None) -> None:
    """Refuse where a study cannot be kept or computed, before anything is written."""
    if not isinstance(out, str | os.PathLike) or not str(out) or "\0" in str(out):
        raise DalembertError(f"out= is the folder of the study, 'my-study'; got {out!r}.")
    for name, count, what in (("workers", workers, "processes"), ("chunk", chunk, "cases")):
        if count is not None:
            _refuse_count(name, count, what)
    if workers is not None and client is not None:
        raise DalembertError("Give workers= (processes of this machine) or client= (a Dask cluster), not both.")
    if not isinstance(client, str):
        refuse_client(client)
    if not (isinstance(progress, bool) or callable(progress)):
        raise DalembertError(
            f"progress= is True, False, or a function of the cases done, failed and of all; got {progress!r}."
        )


def _refuse_count(name: str, count: Any, what: str) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise DalembertError(f"{name}= is a number of {what}, 1 at least; got {count!r}.")


def _plan(models: Mapping[str, Model], word: str, function, measure, settings: Mapping[str, Any]) -> dict[str, Any]:
    import dalembert

    kind = task_of(word)
    known = (*kind.options, *COMMON)
    for key, value in settings.items():
        if key not in known:
            raise DalembertError(
                f"study: '{key}' is no setting of task '{word}'; there is {', '.join(known)}.{did_you_mean(key, known)}"
            )
        try:
            json.dumps(_plain(value), allow_nan=False)
        except (TypeError, ValueError):
            raise DalembertError(
                f"study: {key}={value!r} must be a number, a name or a list, as a folder keeps it."
            ) from None
    for key in kind.needs:
        if settings.get(key) is None:
            raise DalembertError(f"study: task '{word}' needs {key}=.")
    texts = _texts(measure)
    asked = {m.name: t for m, t in zip(measures(word, measure), texts, strict=True)}
    versions = {"dalembert": dalembert.__version__, "python": platform.python_version(), "machine": platform.machine()}
    return {
        "study": FORMAT,
        "name": " / ".join(models),
        "models": {name: text_of(model) for name, model in models.items()},
        "task": word,
        "function": None if function is None else described(function),
        "measure": asked,
        "settings": {k: _plain(v) for k, v in settings.items() if v is not None},
        "versions": versions | {name: _version(name) for name in VERSIONED},
    }


def _texts(measure) -> list[str]:
    if isinstance(measure, str):
        return [measure]
    if not isinstance(measure, Mapping | Sequence):
        raise DalembertError(f"measure: name what to keep of each case, ['final(tip.x)']; got {measure!r}.")
    return list(measure.values()) if isinstance(measure, Mapping) else list(measure)


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, np.ndarray | np.number):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _key(name: Any) -> str:
    return name if isinstance(name, str) else ", ".join(map(str, name))


def _described(given: Any) -> Any:
    """What varies, for people who read the manifest; the table of cases is what counts."""
    if isinstance(given, Uniform):
        return {"uniform": [_plain(given.least), _plain(given.most)]}
    if isinstance(given, Normal):
        return {"normal": [_plain(given.mean), _plain(given.spread)]}
    return {"cases": _plain(given)} if isinstance(given, Mapping) else _plain(np.asarray(given, float))


def _refuse_clashes(cases: Cases, here: Machines) -> None:
    """Refuse what could not stand in one dataset: names that are there twice, or that no file may have."""
    taken = {"case", "time", "status", "message", *([f"{START} q", f"{START} v"] if cases.states is not None else [])}
    for name in (*cases.values, *cases.labels):
        own = name.replace("/", "_")
        if own in taken:
            raise DalembertError(
                f"vary: '{name}' cannot be kept: the dataset has another '{own}'. Give one another name."
            )
        if not own.strip(". ") or own == "zarr.json":
            raise DalembertError(f"vary: '{name}' is no name that a file can have; give it another one.")
        taken.add(own)
    for name in here.layout():
        if name in taken:
            raise DalembertError(f"measure: '{name}' is also the name of what varies; name it, {{'other name': …}}.")
        if not name.strip(". ") or name == "zarr.json":
            raise DalembertError(f"measure: '{name}' is no name that a file can have; give it another one.")


def _units(here: Machines, cases: Cases) -> dict[str, str]:
    known = {"mass": "kg", "point_i": "m", "point_j": "m", "gravity": "m/s2", "length": "m"}
    return {n: known.get(n.rpartition(".")[2], "") for n in cases.values}


def _chunk(chunk: int | None, here: Machines, count: int) -> int:
    if chunk is not None:
        return int(chunk)
    fits = min(MEMORY // max(t.bytes_of_a_case(), 1) for t in here.tasks.values())
    return int(max(1, min(fits, min(t.at_once for t in here.tasks.values()), count)))


def _engine(here: Machines, cases: Cases) -> str:
    """Whether the machines can be marched in batches: tried with the models themselves."""
    for task in here.tasks.values():
        assert isinstance(task, Simulation)
        known = task.system.parameters()
        own = State(*(np.asarray(x, float)[None] for x in (task.system.q0, task.system.v0)))
        one = Cases(1, {n: np.asarray(known[n], float)[None] for n in cases.values}, {}, own)
        if task.machine is None:
            return SINGLE
        try:
            task.compute(one)
        except BatchError:
            return SINGLE
    return BATCH


# ---- what has changed ------------------------------------------------------------------------------------------------


def _refuse_changes(old: Mapping[str, Any], new: Mapping[str, Any], store: Store) -> None:
    """Refuse to go on with another study, by name of what differs."""
    found: list[str] = []
    for name in {**old["models"], **new["models"]}:
        a, b = (plan["models"].get(name) for plan in (old, new))
        if a is None or b is None:
            found.append(f"model '{name}' is {'new' if a is None else 'gone'}")
        elif a != b:
            found += [f"{x} of model '{name}'" for x in _elements_changed(a, b)]
    found += _keys_changed("setting", old["settings"], {"engine": old["settings"].get("engine")} | new["settings"])
    found += _keys_changed("measure", old["measure"], new["measure"])
    for key in ("task", "count", "sampling", "combine", "seed"):
        if old[key] != new[key]:
            found.append(f"{key} (was {old[key]!r}, is {new[key]!r})")
    a, b = (x["function"] or {"name": None, "hash": "", "refers": {}} for x in (old, new))
    if a["name"] != b["name"]:
        found.append(f"function (was {a['name']!r}, is {b['name']!r})")
    else:
        found += [f"function '{a['name']}' has another source"] if a["hash"] != b["hash"] else []
        found += _keys_changed(f"what function '{a['name']}' refers to,", a["refers"], b["refers"])
    if old["table"] != new["table"]:
        found += _keys_changed("vary", old["vary"], new["vary"]) or ["the table of cases"]
    if found:
        raise DalembertError(
            f"The folder '{store.folder}' holds another study. Changed: {'; '.join(found)}. Give another out=, or the "
            "study as it was."
        )


EACH = {"models": "model", "settings": "setting", "measure": "measure", "vary": "vary"}
"""Tables of the manifest, and what one of their entries is called."""


def _hashes(plan: Mapping[str, Any]) -> dict[str, str]:
    """The sha256 of each part of a manifest, by what it is called: "model 'four-bar'" (of its text), "setting 'rtol'",
    "seed", …"""
    parts: dict[str, Any] = {k: x for k, x in plan.items() if k not in (*EACH, "hashes")}
    parts |= {f"{what} '{name}'": x for key, what in EACH.items() for name, x in plan[key].items()}
    texts = {k: x if isinstance(x, str) else json.dumps(x, sort_keys=True) for k, x in parts.items()}
    return {k: hashlib.sha256(text.encode()).hexdigest() for k, text in texts.items()}


def _refuse_edited(plan: Mapping[str, Any], store: Store) -> None:
    """Refuse a manifest that is not as it was written, by name of what changed: finished cases are of the old one."""
    try:
        was, now = plan["hashes"], _hashes(plan)
    except (KeyError, AttributeError) as error:
        raise DalembertError(f"'{store.folder / MANIFEST}' cannot be read ({type(error).__name__}: {error}).") from None
    changed = [k for k in {**was, **now} if was.get(k) != now.get(k)]
    if changed:
        raise DalembertError(
            f"'{store.folder / MANIFEST}' was edited since the study began: {', '.join(changed)}. What is finished was "
            "computed as it was; undo that, or begin another study in another folder."
        )


def _keys_changed(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    out = []
    for key in {**old, **new}:
        a, b = old.get(key), new.get(key)
        if a != b:
            out.append(f"{what} '{key}' (was {_short(a)}, is {_short(b)})")
    return out


def _short(x: Any) -> str:
    text = "not there" if x is None else repr(x)
    return text if len(text) < 60 else text[:57] + "…"


def _elements_changed(old: str, new: str) -> list[str]:
    """The names of the elements in which two texts of a model differ."""
    a, b = (read_from_text(text, Path("model.yaml")).model for text in (old, new))
    tables = [{(s.section, s.name): s.arguments for x in m.sections().values() for s in x} for m in (a, b)]
    out = [f"'{name}'" for (section, name) in {**tables[0], **tables[1]}
           if repr(tables[0].get((section, name))) != repr(tables[1].get((section, name)))]  # fmt: skip
    for word in ("space", "gravity", "closing"):
        if repr(getattr(a, word)) != repr(getattr(b, word)):
            out.append(word)
    return out or ["the text"]


def _warn_of_versions(plan: Mapping[str, Any]) -> None:
    import dalembert

    now = {"dalembert": dalembert.__version__, "machine": platform.machine()} | {n: _version(n) for n in VERSIONED}
    other = [f"{n} {plan['versions'].get(n)} → {v}" for n, v in now.items() if plan["versions"].get(n) != v]
    if other:
        warnings.warn(
            f"The study was begun with other versions ({', '.join(other)}): what is computed now may differ from them "
            "in the last digits.",
            stacklevel=4,
        )


# ---- computing it ----------------------------------------------------------------------------------------------------


def _go(store: Store, plan, cases: Cases, function, workers, client, progress) -> Study:
    _warn_of_versions(plan)
    with store.locked():
        status = store.status()
        report = _reporter(progress, plan["name"], status)
        try:
            run = Run(store, plan, cases, machines_of(plan, function), function, report)
            if not run.pending:
                pass
            elif isinstance(client, str):
                with connected(client) as found:
                    run.on(found)
            elif client is not None:
                run.on(client)
            elif workers is not None:
                with local_cluster(int(workers)) as found:
                    run.on(found)
            else:
                run.in_this_process()
        finally:
            getattr(report, "close", lambda: None)()
    return Study(store, plan)


class _Bar:
    """A bar on the terminal, a step for each chunk."""

    def __init__(self, name: str, status: Mapping[str, Any]):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        words = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]} failed"),
        )
        self.failed = status["failed"]
        self.bar = Progress(*words, TimeRemainingColumn(), console=Console(file=sys.stderr))
        self.bar.start()
        self.task = self.bar.add_task(name, total=status["cases"], completed=status["done"], failed=self.failed)

    def __call__(self, count: int, failed: int) -> None:
        self.failed += failed
        self.bar.update(self.task, advance=count, failed=self.failed)

    def close(self) -> None:
        self.bar.stop()


def _reporter(progress, name: str, status: Mapping[str, Any]) -> Callable[[int, int], None]:
    if progress is True:
        return _Bar(name, status)
    if not callable(progress):
        return lambda count, failed: None
    so_far = [status["done"], status["failed"]]

    def report(count: int, failed: int) -> None:
        so_far[0] += count
        so_far[1] += failed
        progress(so_far[0], so_far[1], status["cases"])

    return report
