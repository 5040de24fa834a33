"""7 · analysis: a machine in which the effort of each named actuator is an input, and how efforts are measured where
they are not unique."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import is_traced
from dalembert.analysis._targets import listed
from dalembert.loads import bearing_names
from dalembert.model import Actuator, Model, actuated, drivers_in
from dalembert.systems import AbstractSystem, build


def actuated_system(
    system: AbstractSystem, actuators: Sequence[str] | None, release: Sequence[str] | bool
) -> tuple[AbstractSystem, tuple[Actuator, ...]]:
    """The system in which the effort of each actuator is an input; default: all drivers, or else all inputs."""
    bodies = system.bodies
    model = bodies.origin.model() if bodies is not None and bodies.origin.known else None
    if actuators is None:
        actuators = usual_actuators(system, model)
    if isinstance(actuators, str):
        actuators = [actuators]
    if model is None:
        return system, _of_own(system, actuators, release)
    made, found = actuated(model, list(actuators), release)
    if made is model:
        return system, found
    assert bodies is not None
    with jax.ensure_compile_time_eval():  # its numbers are known, also inside a jit
        new = build(made, coordinates=bodies.origin.coordinates, cut=bodies.origin.cut)
    # parameters may have been replaced since the system was built
    own, known = system.parameters(), new.parameters()
    kept = {k: x for k, x in own.items() if k in known and np.shape(x) == np.shape(known[k])}
    changed = {k: x for k, x in kept.items() if is_traced(x) or not np.array_equal(x, known[k])}
    return (new.replace(changed) if changed else new), found


def usual_actuators(system: AbstractSystem, model: Model | None) -> list[str]:
    """The actuators that are meant where none are named: all drivers, or else all inputs."""
    if model is not None and drivers_in(model):
        return drivers_in(model)
    inputs = [x.name for x in system.control.sources if x.setter is None]
    if not inputs:
        raise DalembertError(
            f"Name the actuators of '{system.name}': actuators=[…], names of joint coordinates, drivers, joint forces "
            "or inputs; it has neither drivers nor inputs that could be meant."
        )
    return inputs


def _of_own(system: AbstractSystem, names: Sequence[str], release) -> tuple[Actuator, ...]:
    """Actuators of a system without a model: its inputs."""
    known = [x.name for x in system.control.sources]
    if release not in ((), [], False, None):
        raise DalembertError(f"System '{system.name}' has no drivers that could be released.")
    found = []
    for name in names:
        if name not in known:
            there = f"its inputs are {', '.join(known)}" if known else "it has no inputs (controls=)"
            raise DalembertError(
                f"'{system.name}' has no actuator '{name}'; the actuators of a person's own equations are inputs, and "
                f"{there}.{did_you_mean(str(name), known)}"
            )
        source = system.control.sources[known.index(name)]
        if source.setter is not None:
            by = system.control.controllers[source.setter[0]].name
            raise DalembertError(f"Input '{name}' of '{system.name}' is set by controller '{by}'.")
        found.append(Actuator(name, name, source.unit, "input of the system"))
    return tuple(found)


def inputs_of(system: AbstractSystem, actuators: Sequence[Actuator]) -> tuple[int, ...]:
    """The numbers of the inputs that are the efforts."""
    names = [x.name for x in system.control.sources]
    return tuple(names.index(a.input) for a in actuators)


def measured_by(
    system: AbstractSystem, actuators: tuple[Actuator, ...], metric, limits: Mapping[str, float] | None
) -> tuple[np.ndarray, str]:
    """H with τ = H x, |x|² least, and the name of that rule."""
    count, names = len(actuators), [a.name for a in actuators]
    if metric is not None and limits is not None:
        raise DalembertError("Give metric= or limits=, not both: each says which efforts are least.")
    if limits is not None:
        for name in limits:
            if name not in names:
                raise DalembertError(f"limits names '{name}', which is no actuator here.{did_you_mean(name, names)}")
        missing = [n for n in names if n not in limits]
        if missing:
            raise DalembertError(f"limits has no number for the actuator {listed(missing[:1])}; give one for each.")
        values = np.array([limits[n] for n in names], float)
        for name, x in zip(names, values, strict=True):
            if not (np.isfinite(x) and x > 0):
                raise DalembertError(f"The limit of '{name}' must be a number greater than zero, not {x:g}.")
        return np.diag(values), "least share of the limits, Σ(effort/limit)²"
    if metric is not None:
        R = np.asarray(metric, float)
        if R.shape != (count, count) or not np.allclose(R, R.T) or np.linalg.eigvalsh(R)[0] <= 0:
            raise DalembertError(f"metric= must be a symmetric positive matrix, {count} × {count}, a row per actuator.")
        return np.linalg.inv(np.linalg.cholesky(R)).T, "least τᵀRτ with the metric given"
    units = {a.unit for a in actuators}
    bodies = system.bodies
    if {"N", "N m"} <= units and bodies is not None:
        size = float(bodies.size) if not is_traced(bodies.size) else 1.0
        return np.diag([size if a.unit == "N m" else 1.0 for a in actuators]), (
            f"minimum norm, torques over the machine's size ({size:.4g})"
        )
    return np.eye(count), "minimum norm"


def refuse_friction(system: AbstractSystem, moving: bool = True) -> None:
    """Refuse friction by joint loads, which the efforts would change, and for a machine that may move dry friction that
    sticks, whose effort is not a function of the motion."""
    if system.bodies is not None and system.bodies.bearings:
        raise DalembertError(
            f"The efforts asked for would change the joint loads, by which friction "
            f"{listed(bearing_names(system.bodies)[:6])} of '{system.name}' rubs: leave it out here (model.remove), or "
            "take friction by a given load."
        )
    if moving and not system.phases_stated:
        raise DalembertError(
            f"'{system.name}' has friction that sticks or slips, {listed(system.sticking[:6])}: its effort does not "
            "follow from a motion. Leave it out here (model.remove), or take friction, which is a regularised law."
        )
