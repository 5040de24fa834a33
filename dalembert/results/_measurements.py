"""6b· results: measurements, inputs and states of controllers over a motion, with names, units and whether they are
unique."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import Array, is_traced
from dalembert.model import Channel
from dalembert.results._observe import Observation
from dalembert.results._turns import counted
from dalembert.systems import AbstractSystem, Known, Loads, Measure, compiled_for_each

if TYPE_CHECKING:
    import xarray as xr

    from dalembert.results._results import Results
    from dalembert.simulation import Solution


def _measure(system: AbstractSystem, t, q, v, vdot, lam, sides, world, joint) -> tuple[Array, Array]:
    """All channels and all inputs at one instant."""
    loads = _loads(system, t, q, v, lam, sides, world, joint)
    known = Known(system, t, q, v, vdot, loads)
    return system.measured(t, q, v, vdot, loads), system.control.jets(known)[:, 0]


def _loads(system: AbstractSystem, t, q, v, lam, sides, world, joint) -> Loads:
    machine = system.machine
    r = jnp.zeros(machine.n)
    if machine.m and any(c.level == 3 for x in system.measures for c in x.channels):
        loaded = system.with_sides(sides).machine if machine.sided else machine
        r = loaded.terms(t, *system.lift(q, v)).constraints.rows.rmv(lam)
    return Loads(r, lam, world, joint)


def loads_observed(system: AbstractSystem, t, q, v, o: Observation) -> Loads:
    """What the constraints transmit at an observed instant, for `system.measured`; it may be traced."""
    world = joint = jnp.zeros((0, 0))
    if (w := o.wrenches) is not None:
        world, joint = (jnp.concatenate(x, axis=1) for x in ((w.force, w.torque), (w.joint_force, w.joint_torque)))
    return _loads(system, t, q, v, o.lam, o.sides, world, joint)


measure_all = compiled_for_each(_measure, 8)
"""The channels at many instants."""


def add_measurements(results: Results, data: dict[str, Any], coords: dict[str, Any]) -> None:
    """Add measurements, inputs and states of controllers to labelled data."""
    system = results.system
    control = system.control
    if not system.measures and not control.sources and not control.size:
        return
    values, inputs = (np.array(x) for x in values_at(results.solution, results.observed))
    if system.measures:
        channels: list[Channel] = [c for x in system.measures for c in x.channels]
        coords["channel"] = list(system.channels)
        coords["channel_units"] = ("channel", [c.unit for c in channels])
        coords["channel_rule"] = ("channel", _rules(results))
        data["measurement"] = (("time", "channel"), _with_turns(results, values), {"long_name": "measurement"})
        text = {"long_name": "whether the rigid-body model determines it at this instant"}
        data["unique_measurement"] = (("time", "channel"), _unique(results), text)
    if control.sources:
        coords["input"] = [x.name for x in control.sources]
        coords["input_units"] = ("input", [x.unit for x in control.sources])
        data["input_value"] = (("time", "input"), inputs, {"long_name": "input"})
    if control.size:
        coords["controller_state"] = list(control.labels)
        states = np.asarray(system.split(np.asarray(results.solution.q))[1])
        data["controller_value"] = (("time", "controller_state"), states, {"long_name": "state of a controller"})


def values_at(solution: Solution, o: Observation) -> tuple[Array, Array]:
    """All channels and all inputs at the saved times; they may be traced."""
    s, system = solution, solution.system
    count = np.shape(s.t)[0]
    joined: Any = jnp.concatenate if is_traced(o) else np.concatenate
    wrenches: list[Array] = [np.zeros((count, 0, 0))] * 2
    if (w := o.wrenches) is not None:
        wrenches = [joined(x, axis=2) for x in ((w.force, w.torque), (w.joint_force, w.joint_torque))]
    sides = o.sides if system.machine.sided else np.zeros((count, 0))
    at = (s.t, s.q, s.v, o.rates, o.lam, sides, *wrenches)
    return measure_all(system, *(at if is_traced(at) else (np.asarray(x, float) for x in at)))


def _with_turns(results: Results, values: np.ndarray) -> np.ndarray:
    """Angles in space with their full turns: those of joints as the joints' own, others by their rates."""
    system, t, start = results.system, np.asarray(results.solution.t), 0
    for x in system.measures:
        if x.channels[0].angle and len(t) > 1:
            values[:, start] = counted(t, *(values[:, start + k : start + k + 1] for k in range(3)))[0][:, 0]
        start += len(x.channels)
    return values


# ---- what is unique --------------------------------------------------------------------------------------------------


def _unique(results: Results) -> np.ndarray:
    """For each time and channel whether the rigid-body model determines it."""
    system, count = results.system, len(np.asarray(results.solution.t))
    columns: dict[int, np.ndarray] = {}
    return np.stack(
        [_sure(results, k, columns, count) for k in range(len(system.channels))] or [np.ones(count, bool)], axis=1
    )[:, : len(system.channels)]


def _sure(results: Results, k: int, columns: dict[int, np.ndarray], count: int) -> np.ndarray:
    """Whether one channel is unique, at all times."""
    if k not in columns:
        system = results.system
        starts = np.cumsum([0, *(len(x.channels) for x in system.measures)])
        which = int(np.searchsorted(starts, k, side="right")) - 1
        columns[k] = np.ones(count, bool)
        if which < len(system.measures):
            x = system.measures[which]
            columns[k] = columns[k] & _sure_of(results, x, k - int(starts[which]), count)
            for other in getattr(x.law, "reads", ()):
                columns[k] = columns[k] & _sure(results, other, columns, count)
    return columns[k]


def _sure_of(results: Results, x: Measure, at: int, count: int) -> np.ndarray:
    transmitted = x.law.transmitted
    if transmitted is None:
        return np.ones(count, bool)
    if transmitted == "rows":
        rows = list(results.machine.owner_named(x.target).rows)
        return np.all((results.unique_multipliers & results.instants.multipliers)[:, rows], axis=1)
    frame, component = transmitted, x.law.components[at]
    bodies = results.system.bodies
    assert bodies is not None
    joint = [j.name for j in bodies.joints].index(x.target)
    d, prefix = bodies.kinematics.d, "" if frame == "world" else "joint_"
    word, of = ("force", component) if component < d else ("torque", component - d)
    generic = results.unique(x.target, frame=frame)[component]
    return generic & results.instants.believed[f"{prefix}{word}"][:, joint, of]


def _rules(results: Results) -> list[str]:
    """For each channel the rule that picked it: "unique" where the model determines it in general."""
    system, columns = results.system, {}
    if results.redundancy == 0:
        return ["unique"] * len(system.channels)
    rule, count = results.rule.describe(results.machine), len(np.asarray(results.solution.t))
    return ["unique" if np.any(_sure(results, k, columns, count)) else rule for k in range(len(system.channels))]


# ---- one by one ------------------------------------------------------------------------------------------------------


def named(data: xr.Dataset) -> xr.Dataset:
    """Measurements, inputs and states of labelled data, each under its own name."""
    import xarray as xr

    out: dict[str, Any] = {}
    for variable, names, units in (
        ("measurement", "channel", "channel_units"),
        ("input_value", "input", "input_units"),
        ("controller_value", "controller_state", ""),
    ):
        if variable not in data:
            continue
        for k, name in enumerate(map(str, data[names].values)):
            one = data[variable].isel({names: k}).reset_coords(drop=True)
            attributes: dict[str, Any] = {"units": str(data[units].values[k]) if units else ""}
            if variable == "measurement":
                attributes["rule"] = str(data["channel_rule"].values[k])
                attributes["unique"] = bool(np.all(data["unique_measurement"].isel(channel=k).values))
            out.setdefault(name, one.assign_attrs(attributes))
    if not out:
        raise DalembertError(
            "Nothing is measured in this motion; say model.measure(name, what, …) before it is simulated."
        )
    return xr.Dataset(out)
