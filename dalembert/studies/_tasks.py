"""8 · studies: tasks: what is done with each case: a motion, a rest, a driven motion, small motions, or a function.

A task is made once in each process and computes chunks of cases. What it makes of a case does not depend on the others.
"""

from __future__ import annotations

import contextlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dalembert._results import BatchError, DalembertError, Status
from dalembert.analysis import at_rest, equilibrium, kinematics, linearise
from dalembert.kernels import device
from dalembert.model import Model
from dalembert.reactions import rule_of
from dalembert.simulation import DEVICES, Solution, prepare, refuse_settings, simulate, simulate_many
from dalembert.studies._measure import OF_COURSES, Courses, Measure, parsed, rows_of, within
from dalembert.studies._vary import Cases
from dalembert.systems import AbstractSystem, State, build

FAILED = "error"
"""Status of a case that was refused; the sentence says why."""
BATCH, SINGLE = "batch", "single"
"""How motions are computed: all of a chunk at once (`simulate_many`), or one by one (`simulate`)."""


@dataclass
class Found:
    """What was found of a chunk: a row of numbers for each case, how each ended, and a sentence where it failed."""

    numbers: dict[str, np.ndarray]
    status: list[str]
    message: list[str]

    @property
    def failed(self) -> int:
        return sum(s != Status.done.name for s in self.status)


class Task(ABC):
    """What is done with each case of one model."""

    word: ClassVar[str]
    words: ClassVar[Mapping[str, int]] = {}
    options: ClassVar[tuple[str, ...]] = ()  # the settings that it takes
    needs: ClassVar[tuple[str, ...]] = ()  # those that have no default
    at_once: ClassVar[int] = 32  # the largest chunk, unless one is asked for
    has_end: ClassVar[bool] = False
    words_are_channels: ClassVar[bool] = True  # what is measured names channels of the model

    def __init__(self, model: Model, settings: Mapping[str, Any], measure: tuple[Measure, ...], function=None):
        self.settings, self.measure, self.function = dict(settings), measure, function
        self.threads: int | None = None
        self.system = build(model, coordinates=self.settings.get("coordinates", "absolute"))
        if "rule" in self.options:
            rule_of(self.settings.get("rule"))
        self.prepare()

    def prepare(self) -> None:  # noqa: B027
        """What is found once; refuses what cannot be measured, by name."""

    @abstractmethod
    def one(self, system: AbstractSystem, start: State | None) -> tuple[dict[str, Any], str, str]:
        """Numbers, status and sentence of one case; a `DalembertError` is a case that failed."""

    def computed(self, cases: Cases) -> Found:
        """All cases of a chunk; a number that a case has not, though nothing failed, has a sentence as well."""
        found = self.compute(cases)
        for m in self.measure:
            numbers = found.numbers[m.name]
            for k in np.flatnonzero(np.isnan(numbers)) if numbers.ndim == 1 else ():
                if found.status[k] == Status.done.name:
                    found.message[k] = " ".join([found.message[k], f"There is no number '{m.name}'."]).strip()
        return found

    def compute(self, cases: Cases) -> Found:
        """The same, as a kind of task finds it."""
        found = self.empty(cases.count)
        for k in range(cases.count):
            self.fill(found, k, cases)
        return found

    def fill(self, found: Found, k: int, cases: Cases) -> None:
        """One case, alone."""
        with _quiet():
            try:
                system = self.system.replace({n: x[k] for n, x in cases.values.items()})
                start = None if cases.states is None else State(cases.states.q[k], cases.states.v[k])
                numbers, found.status[k], found.message[k] = self.one(system, start)
            except DalembertError as error:
                numbers, found.status[k], found.message[k] = {}, FAILED, _sentence(error)
        for name, x in numbers.items():
            found.numbers[name][k] = x

    # ---- what comes out --------------------------------------------------------------------------------------

    @property
    def times(self) -> np.ndarray | None:
        """The times of courses."""
        return None

    def layout(self) -> dict[str, tuple[tuple[str, ...], str, str]]:
        """The variables: dimensions besides `case`, kind of number, unit."""
        out: dict[str, tuple[tuple[str, ...], str, str]] = {}
        for m in self.measure:
            out[m.name] = (("time",) if m.course else (), "f8", self.unit(m))
        own = {f"unique {m.name}": ((), "?", "") for m in self.measure if self.may_be_open(m)}
        own |= {"reached": ((), "f8", "s")} if self.has_end else {}
        for name in own:
            if name in out:
                raise DalembertError(f"measure: '{name}' is what a study itself keeps; name it, {{'other name': …}}.")
        return out | own

    def unit(self, m: Measure) -> str:
        return ""

    def may_be_open(self, m: Measure) -> bool:
        """Whether the rigid-body model may leave it undetermined: then each case says so."""
        return False

    def empty(self, count: int) -> Found:
        """Room for a chunk: no number is known yet."""
        steps = 0 if self.times is None else len(self.times)
        numbers = {
            name: np.zeros(count, bool) if kind == "?" else np.full((count, *(steps for _ in dims)), np.nan)
            for name, (dims, kind, _) in self.layout().items()
        }
        return Found(numbers, ["waiting"] * count, [""] * count)

    def bytes_of_a_case(self) -> int:
        """How much memory a case takes while its chunk is computed."""
        return 8 * sum(1 if self.times is None or not dims else len(self.times) for dims, *_ in self.layout().values())


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Warnings are about single machines; what matters is in the status of a case, or in its numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _times(settings: Mapping[str, Any]) -> np.ndarray:
    samples, t0, t_end = settings.get("samples", 201), settings.get("t0", 0.0), settings["t_end"]
    whole = isinstance(samples, int) and not isinstance(samples, bool)
    if isinstance(samples, str | bool | float) or (whole and samples < 2):
        raise DalembertError(f"samples= is a number of times, 2 at least, or an array of times; got {samples!r}.")
    refuse_settings(t_end, t0=t0, samples=samples)
    return np.linspace(float(t0), float(t_end), samples) if whole else np.asarray(samples, float)


def _whole(settings: Mapping[str, Any], key: str) -> None:
    """Refuse a setting that is not true or false."""
    if not isinstance(settings.get(key, False), bool):
        raise DalembertError(f"{key}= is True or False, not {settings[key]!r}.")


def _instant(settings: Mapping[str, Any]) -> None:
    """Refuse a time that is none."""
    t = settings.get("t", 0.0)
    if isinstance(t, bool) or not isinstance(t, int | float):
        raise DalembertError(f"t= is a time, in seconds, not {t!r}.")


class Motion(Task):
    """What tasks with courses in time share."""

    words = {name: takes for name, (takes, _) in OF_COURSES.items()}
    needs = ("t_end",)
    has_end = True

    def prepare(self) -> None:
        self.courses = Courses(self.system, [n for m in self.measure for n in m.names])
        self.courses.refuse_unlabelled(self.system)
        self._times = _times(self.settings)
        first, last = self._times[0], self._times[-1]
        for m in self.measure:
            if m.word == "at_time" and not within(m.number, first, last):
                raise DalembertError(
                    f"measure: '{m.name}': the motion is kept from {first:g} s to {last:g} s, not at {m.number:g} s."
                )

    @property
    def times(self) -> np.ndarray:
        return self._times

    def unit(self, m: Measure) -> str:
        unit = self.courses.units[m.names[0]]
        return f"{unit} s".strip() if m.word == "integral" else unit

    def may_be_open(self, m: Measure) -> bool:
        return any(n in self.courses.loads for n in m.names)

    def read(self, one: Solution) -> tuple[dict[str, Any], str, str]:
        """What is measured of one motion. Numbers of a motion that ended early are not known; its courses are, so far
        as it came."""
        out: dict[str, Any] = {"reached": float(one.t_end)}
        done = one.status is Status.done
        if len(one.t) and (done or self.keeps_courses):
            t = np.asarray(one.t, float)
            courses, unique = self.courses.of(one)
            for m in self.measure:
                if self.may_be_open(m):
                    out[f"unique {m.name}"] = all(unique.get(n, True) for n in m.names)
                if m.course:
                    x = np.full(len(self.times), np.nan)
                    x[: len(t)] = courses[m.names[0]]
                    out[m.name] = x
                elif done:
                    y = np.stack([courses[n] for n in m.names], axis=1)
                    out[m.name] = OF_COURSES[m.word][1](t[None], y[None], m.number)[0]
        return out, one.status.name, "" if done else one.status.message

    @property
    def keeps_courses(self) -> bool:
        return any(m.course for m in self.measure)

    def read_many(self, runs: Solution, which: np.ndarray, found: Found) -> None:
        """The same of a batch, where all channels are quick."""
        t, ends, codes = (np.asarray(x) for x in (runs.t, runs.t_end, runs.status_code))
        done = codes == Status.done.value
        there = np.sum(np.isfinite(t) & (t <= ends[:, None]), axis=1)
        lengths = np.where(done | self.keeps_courses, there, 0)
        y = self.courses.many(t, np.asarray(runs.q), np.asarray(runs.v), lengths, rows_of(runs.system))
        for m in self.measure:
            picked = np.ascontiguousarray(y[..., [self.courses.quick.index(n) for n in m.names]])
            if m.course:
                found.numbers[m.name][which] = picked[..., 0]
            elif np.any(done):
                found.numbers[m.name][which[done]] = OF_COURSES[m.word][1](t[done], picked[done], m.number)
        found.numbers["reached"][which] = ends
        for k, code in zip(which.tolist(), codes.tolist(), strict=True):
            found.status[k] = _WORDS[code][0]
            found.message[k] = _WORDS[code][1]


_WORDS = {s.value: (s.name, "" if s is Status.done else s.message) for s in Status}


class Simulation(Motion):
    """The motion of each case; a chunk is one batch of `simulate_many`, where that marches the machine."""

    word = "simulate"
    options = ("t_end", "t0", "samples", "integrator", "rtol", "atol", "dt", "max_steps", "rule", "device", "engine")
    at_once = 2048

    def prepare(self) -> None:
        super().prepare()
        keys = ("t0", "integrator", "rtol", "atol", "dt", "max_steps")
        self.given = {k: self.settings[k] for k in keys if self.settings.get(k) is not None}
        refuse_settings(self.settings["t_end"], samples=self.times, **self.given)
        self.machine = None
        device = self.settings.get("device", "cpu")
        for key, known in (("device", DEVICES), ("engine", (BATCH, SINGLE))):
            if self.settings.get(key, known[0]) not in known:
                listed = ", ".join(map(repr, known))
                raise DalembertError(f"{key}={self.settings[key]!r} is unknown; use one of {listed}.")
        if self.settings.get("engine", SINGLE if self.system.in_parts else BATCH) == BATCH:
            self.machine = prepare(self.system, rule=self.settings.get("rule"), t=self.given.get("t0", 0.0))
        elif device != "cpu":
            raise DalembertError(
                f"device={device!r}: motions of '{self.system.name}' are found one by one, on the processor."
            )

    def bytes_of_a_case(self) -> int:
        """Rows of numbers of the machine, and states at all times, several times over."""
        system = self.system
        own = 6 * sum(np.size(x) for x in system.parameters().values()) + 100 * system.n
        return super().bytes_of_a_case() + 8 * (own + 3 * len(self.times) * (len(np.asarray(system.q0)) + system.n + 5))

    def one(self, system: AbstractSystem, start: State | None) -> tuple[dict[str, Any], str, str]:
        rule = self.settings.get("rule")
        return self.read(
            simulate(system, self.times_end, start, samples=self.times, rule=rule, throw=False, **self.given)
        )

    @property
    def times_end(self) -> float:
        return float(self.settings["t_end"])

    def compute(self, cases: Cases) -> Found:
        if self.machine is None:
            return super().compute(cases)
        if self.settings.get("device") == "gpu":
            device()  # where there is none no case has failed: the study ends with a sentence
        found = self.empty(cases.count)
        good = self._possible(cases, found)
        if len(good):
            try:
                with _quiet():
                    self._batch(cases, good, found)
            except DalembertError:
                for k in good:  # one of them is refused: find out which
                    try:
                        with _quiet():
                            self._batch(cases, np.array([k]), found)
                    except BatchError:  # of the whole machine, not of this case
                        raise
                    except DalembertError as error:
                        found.status[k], found.message[k] = FAILED, _sentence(error)
        return found

    def _possible(self, cases: Cases, found: Found) -> np.ndarray:
        """The cases whose parameters a machine can have; the others are refused by name, each alone."""
        bad: dict[int, str] = {}
        for name, x in cases.values.items():
            look: Any = range(cases.count)
            if x.ndim == 1:  # what is refused is refused by a bound
                ends = (int(np.argmin(x)), int(np.argmax(x)))
                look = [] if all(self._refusal(name, x[k]) is None for k in ends) else look
            for k in look:
                refusal = self._refusal(name, x[k])
                if refusal is not None:
                    bad.setdefault(k, refusal)
        for k, sentence in bad.items():
            found.status[k], found.message[k] = FAILED, sentence
        return np.array([k for k in range(cases.count) if k not in bad], int)

    def _refusal(self, name: str, value: Any) -> str | None:
        try:
            self.system.replace({name: value})
        except DalembertError as error:
            return _sentence(error)
        return None

    def _batch(self, cases: Cases, which: np.ndarray, found: Found) -> None:
        assert self.machine is not None
        part = cases.part(which)
        # a machine of which nothing varies is one member with its own start
        states = part.states
        if not part.values and states is None:
            states = State(*(np.asarray(x, float)[None] for x in (self.system.q0, self.system.v0)))
            states = State(*(np.repeat(x, part.count, axis=0) for x in states))
        runs = simulate_many(
            self.machine, part.values, self.times_end, states=states, samples=self.times, threads=self.threads,
            device=self.settings.get("device", "cpu"), **self.given,
        )  # fmt: skip
        if not self.courses.slow:
            self.read_many(runs, which, found)
            return
        for j, k in enumerate(which):
            numbers, found.status[k], found.message[k] = self.read(runs[j])
            for name, x in numbers.items():
                found.numbers[name][k] = x


class Kinematics(Motion):
    """The motion that drivers determine, of each case."""

    word = "kinematics"
    options = ("t_end", "t0", "samples", "rule")

    def one(self, system: AbstractSystem, start: State | None) -> tuple[dict[str, Any], str, str]:
        t0, rule = self.settings.get("t0", 0.0), self.settings.get("rule")
        return self.read(
            kinematics(system, float(self.settings["t_end"]), start, t0=t0, samples=self.times, rule=rule, throw=False)
        )


class Statics(Task):
    """Where each case rests: channels and joint coordinates there, "stable", "residual", "moved", "stiffness(k)",
    "effort(name)"."""

    word = "statics"
    words = {"stable": 0, "residual": 0, "moved": 0, "stiffness": -3, "effort": 1}
    options = ("t", "find", "hold", "rule")

    def prepare(self) -> None:
        self.numbers = {}
        _instant(self.settings)
        at_rest(self.system, self.settings.get("find", "stable"))
        hold = self.settings.get("hold") or ()
        hold = (hold,) if isinstance(hold, str) else tuple(hold)
        for name in hold:
            self.system.channels_named(name)
        for m in self.measure:
            if m.word == "effort" and m.names[0] not in hold:
                raise DalembertError(f"measure: '{m.names[0]}' is not held; name it in hold=.")
            if m.course:
                found = self.system.channels_named(m.names[0])
                if len(found) != 1:
                    inside = ", ".join(self.system.channel(k).name for k in found)
                    raise DalembertError(f"measure: '{m.names[0]}' has several numbers; name them: {inside}.")
                self.numbers[m.name] = int(found[0])

    def layout(self):
        return {k: ((), kind, unit) for k, (_, kind, unit) in super().layout().items()}

    def unit(self, m: Measure) -> str:
        return self.system.channel(self.numbers[m.name]).unit if m.course else {"stiffness": "1/s2"}.get(m.word, "")

    def may_be_open(self, m: Measure) -> bool:
        return m.course and self.system.channel(self.numbers[m.name]).level == 3

    def one(self, system: AbstractSystem, start: State | None) -> tuple[dict[str, Any], str, str]:
        options = {k: self.settings[k] for k in self.options if self.settings.get(k) is not None}
        rest = equilibrium(system, start, **options)
        out: dict[str, Any] = {}
        for m in self.measure:
            if m.course:
                data = rest.dataset
                name, whole = system.channel(self.numbers[m.name]).name, m.names[0]
                if "channel" in data and name in data["channel"].values:
                    out[m.name] = float(data["measurement"].sel(channel=name))
                    if self.may_be_open(m):
                        out[f"unique {m.name}"] = bool(data["unique_measurement"].sel(channel=name))
                elif whole in rest.coordinates:
                    out[m.name] = rest.coordinates[whole]
                else:
                    raise DalembertError(f"measure: '{whole}' is not known of a machine at rest.")
            elif m.word == "effort":
                if m.names[0] not in rest.efforts:
                    raise DalembertError(f"measure: '{m.names[0]}' is not held; name it in hold=.")
                out[m.name] = float(np.ravel(rest.efforts[m.names[0]])[0])
            elif m.word == "stiffness":
                k = int(m.number) - 1
                if 0 <= k < len(rest.stiffness):
                    out[m.name] = float(np.real(rest.stiffness[k]))
            else:
                out[m.name] = float(getattr(rest, m.word))
        return out, Status.done.name, ""


class Modes(Task):
    """Small motions of each case: "frequency(k)" in Hz and "damping(k)" of the k-th mode that oscillates, lowest first,
    "growth", the largest real part of an eigenvalue in 1/s. `rest`: about its equilibrium, else about its start."""

    word = "modes"
    words_are_channels = False
    words = {"frequency": -3, "damping": -3, "growth": 0}
    options = ("t", "rest", "anywhere", "rule")

    def prepare(self) -> None:
        _instant(self.settings)
        for key in ("rest", "anywhere"):
            _whole(self.settings, key)
        for m in self.measure:
            if m.course:
                raise DalembertError(
                    f"measure: '{m.name}' is none of modes; there is frequency(1), damping(1), growth."
                )
            if m.number != int(m.number) or (m.word != "growth" and m.number < 1):
                raise DalembertError(f"measure: '{m.name}': modes are numbered from 1.")

    def unit(self, m: Measure) -> str:
        return {"frequency": "Hz", "growth": "1/s"}.get(m.word, "")

    def one(self, system: AbstractSystem, start: State | None) -> tuple[dict[str, Any], str, str]:
        t, rule = self.settings.get("t", 0.0), self.settings.get("rule")
        at: Any = equilibrium(system, start, t=t) if self.settings.get("rest") else start
        found = linearise(system, at, t=t, rule=rule, anywhere=bool(self.settings.get("anywhere")))
        swinging = sorted((m for m in found.modes if m.oscillates), key=lambda m: m.frequency)
        out: dict[str, Any] = {}
        for m in self.measure:
            if m.word == "growth":
                out[m.name] = float(max((mode.eigenvalue.real for mode in found.modes), default=0.0))
            elif m.number <= len(swinging):
                mode = swinging[int(m.number) - 1]
                out[m.name] = float(mode.frequency if m.word == "frequency" else mode.damping_ratio)
        return out, Status.done.name, ""


class Function(Task):
    """A function of your own: given the system of a case, it returns the numbers that `measure` names, by name."""

    word = "function"
    words_are_channels = False

    def prepare(self) -> None:
        if not all(m.course for m in self.measure):
            raise DalembertError("measure names what the function returns: plain names, ['mass', 'height'].")

    def layout(self):
        return {m.name: ((), "f8", "") for m in self.measure}

    def one(self, system: AbstractSystem, start: State | None) -> tuple[dict[str, Any], str, str]:
        if start is not None:
            raise DalembertError("A function is given the system alone; start states do not vary there.")
        assert self.function is not None
        try:
            given = self.function(system)
        except DalembertError:
            raise
        except Exception as error:
            raise DalembertError(f"The function failed: {type(error).__name__}: {error}") from None
        given = given if isinstance(given, Mapping) else {self.measure[0].name: given}
        try:
            out = {m.name: float(given[m.name]) for m in self.measure}
        except KeyError as error:
            raise DalembertError(f"The function returned no {error}.") from None
        except (TypeError, ValueError) as error:
            raise DalembertError(f"What the function returned is no number: {error}.") from None
        return out, Status.done.name, ""


TASKS: dict[str, type[Task]] = {t.word: t for t in (Simulation, Statics, Kinematics, Modes, Function)}
"""What can be done with each case, by name."""
COMMON = ("coordinates",)
"""Settings of every task."""


def task_of(word: str) -> type[Task]:
    """A kind of task by its name."""
    if word not in TASKS:
        raise DalembertError(
            f"task={word!r} is unknown; use {', '.join(map(repr, TASKS))}, or a function of the system."
        )
    return TASKS[word]


@dataclass(frozen=True)
class Machines:
    """The tasks of all models of a study, in one process."""

    tasks: dict[str, Task] = field(default_factory=dict)

    @property
    def first(self) -> Task:
        return next(iter(self.tasks.values()))

    def layout(self) -> dict[str, tuple[tuple[str, ...], str, str]]:
        """The variables of all models; what has another unit in another model is refused by name."""
        out: dict[str, tuple[tuple[str, ...], str, str]] = {}
        for model, task in self.tasks.items():
            for name, kind in task.layout().items():
                unit, other = out.setdefault(name, kind)[2], kind[2]
                if unit != other:
                    raise DalembertError(
                        f"measure: '{name}' is in {other or '1'} in model '{model}', in {unit or '1'} in others; "
                        "measure the same in all of them."
                    )
        return out

    def empty(self, count: int) -> Found:
        """Room for a chunk; what a model does not ask (whether a number is unique) is so."""
        found = self.first.empty(count)
        for name, (_, kind, _) in self.layout().items():
            if kind == "?":
                found.numbers[name] = np.zeros(count, bool)
        return found

    def compute(self, cases: Cases, threads: int | None = None) -> Found:
        """All cases of a chunk, each by its own model."""
        for task in self.tasks.values():
            task.threads = threads
        if len(self.tasks) == 1:
            return self.first.computed(cases)
        found = self.empty(cases.count)
        for name, task in self.tasks.items():
            rows = np.flatnonzero(cases.labels["model"] == name)
            part = task.computed(cases.part(rows)) if len(rows) else None
            for j, k in enumerate(rows if part else ()):
                assert part is not None
                for key in found.numbers:
                    known = part.numbers.get(key)  # a model of which it is no question determines it
                    found.numbers[key][k] = known[j] if known is not None else part.status[j] == Status.done.name
                found.status[k], found.message[k] = part.status[j], part.message[j]
        return found


def measures(word: str, measure) -> tuple[Measure, ...]:
    """What a kind of task measures."""
    return parsed(measure, task_of(word).words)


def machines(
    word: str, models: Mapping[str, Model], settings: Mapping[str, Any], measure, function: Callable | None = None
) -> Machines:
    """The tasks of some models."""
    asked = measures(word, measure)
    return Machines({name: task_of(word)(model, settings, asked, function) for name, model in models.items()})
