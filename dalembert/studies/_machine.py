"""8 · studies: a machine with what varies, prepared for its task: all that is found once, on the host."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import Array
from dalembert.analysis import equilibrium, kinematics, refuse_undriven
from dalembert.equations import assemble_known
from dalembert.linalg import RANK_TOLERANCE
from dalembert.model import Model
from dalembert.reactions import RULES, AbstractReactionRule
from dalembert.results import Results, unique_channels
from dalembert.simulation import Prepared, Solution, prepare, refuse_settings, simulate
from dalembert.stabilise import State, closed_near, consistent_state
from dalembert.studies._design import Design
from dalembert.studies._stated import stated
from dalembert.systems import AbstractSystem, build

T = TypeVar("T")
STATED = re.compile(r"([qv])\[(\d+)\]")
NUMBERS = ("integrator", "rtol", "atol", "dt", "max_steps")
OPTIONS = (*NUMBERS, "stepsize_controller", "tolerance", "engine", "singular")
"""Of `simulate`, that the motion of a design may have."""


@dataclass(frozen=True)
class Task:
    """How a machine is run: what `simulate`, `kinematics` and `equilibrium` are given."""

    t_end: float | None = None
    t0: float = 0.0
    samples: Any = 201
    driven: bool = False  # positions follow from drivers: `kinematics`
    state: Any = None
    hold: tuple[str, ...] = ()  # coordinates of bodies that keep their start
    inputs: Mapping[str, Any] = field(default_factory=dict)
    rule: AbstractReactionRule | str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of `simulate`: rtol, integrator, …

    @property
    def times(self) -> np.ndarray:
        assert self.t_end is not None
        if isinstance(self.samples, int | np.integer):
            return np.linspace(self.t0, self.t_end, int(self.samples))
        return np.asarray(self.samples, float)

    def refuse(self) -> None:
        """Refuse what no machine can be run with, by name, before one is."""
        for key in self.options:
            if key not in OPTIONS:
                raise DalembertError(
                    f"'{key}' is none of the options of a motion; there is {', '.join(OPTIONS)}."
                    f"{did_you_mean(key, OPTIONS)}"
                )
        if not (self.state is None or (isinstance(self.state, tuple) and len(self.state) == 2)):
            raise DalembertError(f"state= is a State (q, v), not {self.state!r}.")
        if not isinstance(self.inputs, Mapping):
            raise DalembertError(f"inputs= are numbers or functions by name, not {self.inputs!r}.")
        if self.t_end is None:
            return
        if isinstance(self.samples, str | bool | float):
            raise DalembertError(f"samples= is a number of times, or an array of times; got {self.samples!r}.")
        own = {k: x for k, x in self.options.items() if k in NUMBERS and "stepsize_controller" not in self.options}
        refuse_settings(self.t_end, t0=self.t0, samples=self.samples, **own)


def found_once(find: Callable[[Any], T]) -> functools.cached_property[T]:
    """What is found of a machine once, on plain numbers, also where a function that is traced asks for it first."""

    @functools.wraps(find)
    def on_numbers(machine: Any) -> T:
        with jax.ensure_compile_time_eval():
            return find(machine)

    return functools.cached_property(on_numbers)


class Machine:
    """A machine with what varies, prepared for its task: all that is found once, on the host."""

    def __init__(self, model: Model | AbstractSystem, names: Sequence[str], task: Task, through=None):
        self.given = tuple(names)
        self.model = model if isinstance(model, Model) else None
        self.plain: AbstractSystem = build(model) if isinstance(model, Model) else model
        if not isinstance(self.plain, AbstractSystem):
            raise DalembertError(f"A study needs a model or a system, not {type(model).__name__}.")
        self.design = Design(self.plain, names, model=self.model, through=through)
        self.system = self.plain.with_inputs(task.inputs) if task.inputs else self.plain
        self.task = task
        task.refuse()
        if task.driven:
            refuse_undriven(self.system, task.state, task.t0)

    @found_once
    def prepared(self) -> Prepared:
        return prepare(self.system, self.task.state, t=self.task.t0, rule=self.task.rule)

    @found_once
    def first(self) -> Solution:
        """The motion of the machine as it is given."""
        return self.motion({})

    @found_once
    def rest_rule(self) -> AbstractReactionRule:
        """What picks reactions of the machine at rest."""
        found = equilibrium(self.system, self.task.state, t=self.task.t0, rule=self.task.rule)
        return found.rule

    @found_once
    def rule(self) -> AbstractReactionRule:
        """What picks reactions: as results of the motion have it."""
        found = self.first.results
        assert isinstance(found, Results)
        return found.rule

    def motion(self, values: Mapping[str, Any], start: State | None = None, throw: bool = True) -> Solution:
        """The motion for given parameters, on the host."""
        if self.task.t_end is None:
            raise DalembertError("Give t_end=, the end of the motion: a quantity over a motion is asked.")
        machine: Any = self.system if self.alone else self.prepared
        machine = machine.replace(values) if values else machine
        common = {"t0": self.task.t0, "samples": self.task.times, "throw": throw}
        state = self.task.state if start is None else start
        if self.task.driven:
            return kinematics(machine, self.task.t_end, state, **common)
        rule = {"rule": self.task.rule} if self.alone else {}
        return simulate(machine, self.task.t_end, state, **common, **rule, **self.task.options)

    @property
    def alone(self) -> bool:
        """Whether a motion is found by `simulate` alone, event by event: contacts, dry friction that sticks. It has no
        derivatives then, and is in no batch."""
        return not self.task.driven and self.system.in_parts

    @found_once
    def free(self) -> np.ndarray | None:
        """1 for velocities whose coordinates close the joints, 0 for those that keep their start: what a person holds,
        or independent ones of the machine as it is given. A start is then a smooth function of the design; the nearest
        one in the mass metric (`consistent_state`) has derivatives on closed starts only. None: nothing to close."""
        system, t0 = self.system, self.task.t0
        free = np.ones(system.n)
        if self.task.hold:
            for name in self.task.hold:
                free[system.velocities_named(name)] = 0
            return free
        if not system.m_holonomic:
            return None
        state = consistent_state(system, self.task.state, t=t0)
        equations = assemble_known(system, t0, *state)
        scale = np.asarray(system.scale())
        C = np.asarray(equations.C)[: system.m_holonomic] * scale
        size = np.linalg.norm(C, axis=1, keepdims=True)
        C = C / np.where(size > 0, size, 1.0)
        rank = int(np.linalg.matrix_rank(C, tol=RANK_TOLERANCE * max(1.0, np.linalg.norm(C, 2))))
        order = scipy.linalg.qr(C, mode="r", pivoting=True)[-1]
        free[order[rank:]] = 0
        return free

    def start(self, x: Array, replaced: AbstractSystem) -> State:
        """Where a motion starts: with the bodies' points where they were, the joints closed by dependent coordinates
        alone."""
        return self.begin(x, replaced)[0]

    def begin(self, x: Array, replaced: AbstractSystem) -> tuple[State, Array]:
        """The start, and by how much its joints are open, relative to the machine's size."""
        state = State(replaced.q0, replaced.v0) if self.task.state is None else State(*self.task.state)
        shifts = self.design.shifts(x)
        if shifts:
            state = _shifted(replaced, state, shifts)
        if self.free is None:
            return state, jnp.zeros(())
        closed = closed_near(replaced, state.q, jnp.zeros(replaced.n), self.task.t0, self.free)
        return State(closed.state.q, state.v), jnp.max(jnp.abs(closed.position), initial=0.0)

    def values(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """The parameters of the system as plain numbers."""
        return {k: np.asarray(v) for k, v in self.design.parameters(np.asarray(x, float)).items()}

    def at(self, x: np.ndarray) -> AbstractSystem:
        """The system of a design."""
        return self.system.replace(self.values(x))

    def stated(self, x: np.ndarray, missing: str) -> Model:
        """The model of a design; refused by name where its statements cannot say it, and with the sentence `missing`
        where a system was given."""
        if self.model is None:
            raise DalembertError(missing)
        start = self.closed(x)
        assert start is not None
        return stated(self.model, self.at(x), start)

    def closed(self, x: np.ndarray) -> State | None:
        """The start of a design, on its constraints; None where there is no such machine."""
        try:
            system = self.at(x)
            start = self.start(np.asarray(x, float), system)
            q, v = consistent_state(system, start, t=self.task.t0)
        except DalembertError:
            return None
        return State(np.asarray(q), np.asarray(v)) if np.all(np.isfinite(q)) and np.all(np.isfinite(v)) else None

    # ---- channels ------------------------------------------------------------------------------------------------

    def column(self, name: str) -> tuple[str, int]:
        """Where a channel is found: among what is measured ("y"), or of the state ("q", "v"); an error by name."""
        if match := STATED.fullmatch(name):
            size = {"q": np.size(self.system.q0), "v": self.system.n}[match[1]]
            if int(match[2]) >= size:
                raise DalembertError(f"'{name}': system '{self.system.name}' has {size} of {match[1]}.")
            return match[1], int(match[2])
        found = self.system.channels_named(name)
        if len(found) != 1:
            names = ", ".join(f"'{self.system.channel(k).name}'" for k in found)
            raise DalembertError(f"'{name}' has several numbers; name them: {names}.")
        return "y", found[0]

    def columns(self, names: Sequence[str]) -> dict[str, tuple[str, int]]:
        """All channels of these names; of groups each of their channels."""
        return {n: self.column(n) for n in dict.fromkeys(names)}

    def unit(self, name: str) -> str:
        """The unit of a channel or of a variable."""
        if name in self.design.names:
            return self.design.units()[name]
        where, k = self.column(name)
        return self.system.channel(k).unit if where == "y" else ""

    def refuse_open(self, names: Sequence[str], rest: bool = False) -> tuple[str, ...]:
        """Refuse reactions that the rigid-body model leaves open unless a rule is named; remarks on those it picks."""
        columns = {n: k for n, (where, k) in self.columns(names).items() if where == "y"}
        loads = {n: k for n, k in columns.items() if transmits(self.system, k)}
        if not loads:
            return ()
        if rest:
            instant = equilibrium(self.system, self.task.state, t=self.task.t0).instant
            sure = dict(zip(loads, unique_channels(instant, list(loads.values())), strict=True))
        else:
            rules = list(map(str, self.first.dataset["channel_rule"].values))
            sure = {n: rules[k] == "unique" for n, k in loads.items()}
        rule = self.task.rule
        open_ = [n for n, unique in sure.items() if not unique]
        if open_ and rule is None:
            listed = ", ".join(f"'{n}'" for n in open_)
            raise DalembertError(
                f"{listed}: the rigid-body model of '{self.system.name}' does not determine this reaction (da.check "
                "shows why), so a number of it would be that of a rule. Name one, "
                f"rule='{next(iter(RULES))}' or an object of da.reactions, or measure a reaction that is unique."
            )
        picked = getattr(rule, "describe", None)
        words = picked(self.system.machine) if picked else str(rule)
        return tuple(f"'{n}' is not unique: the rule {words} picked it." for n in open_)


def transmits(system: AbstractSystem, k: int) -> bool:
    """Whether a channel is one of reactions."""
    return k < len(system.channels) and system.channel(k).level == 3


def _shifted(system: AbstractSystem, state: State, shifts: Mapping[str, Any]) -> State:
    """The same motion of the bodies as they were, with other points of them as their centres of mass."""
    bodies = system.bodies
    assert bodies is not None
    d, q, v = bodies.kinematics.d, jnp.asarray(state.q, float), jnp.asarray(state.v, float)
    own, rest = (jnp.asarray(x) for x in system.split(q))
    places = bodies.places(own)
    table, rates = own.reshape(len(bodies.body_names), -1), v.reshape(len(bodies.body_names), -1)
    for name, shift in shifts.items():
        k = list(bodies.body_names).index(name)
        R, spin = places.R[k], rates[k, d:]
        arm = jnp.stack([-spin[0] * shift[1], spin[0] * shift[0]]) if d == 2 else jnp.cross(spin, shift)
        table = table.at[k, :d].add(R @ shift)
        rates = rates.at[k, :d].add(R @ arm)
    return State(jnp.concatenate([table.ravel(), rest]), rates.ravel())
