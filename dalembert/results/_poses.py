"""6b· results: machines at rest: joint wrenches of a pose under a rule, and poses with names and units."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from dalembert.linalg import ZERO
from dalembert.reactions import AbstractReactionRule, Instant, MinimumNorm, RequireUnique, Wrenches, joint_wrenches
from dalembert.results._observe import coordinate_views, joint_coordinates
from dalembert.systems import (
    AbstractSystem,
    BodySystem,
    Known,
    Loads,
    Measure,
    compiled_for_each,
    compiled_quickly,
    geometry,
)

if TYPE_CHECKING:
    import xarray as xr

AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Pose:
    """A machine at rest: its coordinates, the multipliers under a rule, the joints' wrenches, and which of their
    components are unique (by joint, in joint and world axes)."""

    instant: Instant
    rule: AbstractReactionRule
    q: np.ndarray
    lam: np.ndarray
    wrenches: Wrenches | None
    coordinates: np.ndarray
    unique: dict[str, np.ndarray]  # "joint" and "world": (joints, d + dw)
    solvability: tuple[str, ...]
    measured: np.ndarray  # all channels
    inputs: np.ndarray

    @property
    def bodies(self) -> BodySystem | None:
        return self.instant.system.bodies


def pose_of(instant: Instant, rule: AbstractReactionRule | None = None) -> Pose:
    """What is known of a machine at rest (`Instant.at_rest`); `rule` picks multipliers that are not unique."""
    loaded = instant.loaded
    e, d, machine = loaded.on_bodies, loaded.among_joints, loaded.machine
    lam = d.multipliers(np.asarray(loaded.equations.h), np.asarray(loaded.equations.Gamma))
    if d.redundancy == 0:
        rule = RequireUnique()
    else:
        rule = MinimumNorm() if rule is None or isinstance(rule, RequireUnique) else rule
        rule = rule.prepare(machine, e)
        lam = np.asarray(_picked(rule, machine, e, jnp.asarray(lam)))
    bodies = loaded.system.bodies
    wrenches, coordinates, measured = _measured(loaded.system, loaded.t, jnp.asarray(loaded.state.q), e, lam)
    numbers = np.asarray(coordinates), *map(np.asarray, measured)
    if bodies is None:
        return Pose(loaded, rule, np.asarray(e.q), lam, None, numbers[0], {}, (), *numbers[1:])
    unique = {
        frame: np.array([loaded.uniqueness.mask(j.name, frame) for j in bodies.joints]) for frame in ("joint", "world")
    }
    words = []
    for j in bodies.joints:
        sure = list(loaded.uniqueness.components(j.name).values())
        words.append("unique" if all(sure) else "partly" if any(sure) else "open")
    return Pose(loaded, rule, np.asarray(e.q), lam, wrenches, numbers[0], unique, tuple(words), *numbers[1:])


@compiled_quickly
def _picked(rule: AbstractReactionRule, machine, equations, lam):
    return rule.multipliers(machine, equations, equations.rows.rmv(lam))


@compiled_quickly
def _measured(system: AbstractSystem, t, q, equations, lam):
    """Wrenches and joint coordinates of the bodies, and all that is measured, with its inputs."""
    bodies, v = system.bodies, jnp.zeros(system.n)
    wrenches, coordinates, parts = None, jnp.zeros(0), (jnp.zeros((0, 0)),) * 2
    if bodies is not None:
        wrenches, coordinates = joint_wrenches(bodies, equations, lam), joint_coordinates(bodies, equations.q)
        w = wrenches
        parts = tuple(jnp.concatenate(x, axis=1) for x in ((w.force, w.torque), (w.joint_force, w.joint_torque)))
    loads = Loads(equations.rows.rmv(lam), lam, *parts)
    known = Known(system, t, q, v, v, loads)
    return wrenches, coordinates, (system.measured(t, q, v, v, loads), system.control.jets(known)[:, 0])


def unique_channels(instant: Instant, which: Sequence[int] | None = None) -> np.ndarray:
    """For each measured number (or those in `which`, by number) whether the rigid-body model determines it."""
    system, found = instant.system, {}
    starts = np.cumsum([0, *(len(x.channels) for x in system.measures)])

    def sure(k: int) -> bool:
        if k not in found:
            found[k] = True  # what is no measurement (a coordinate, an input) is
            of = int(np.searchsorted(starts, k, side="right")) - 1
            if of < len(system.measures):
                x = system.measures[of]
                found[k] = _transmitted_uniquely(instant, x, k - int(starts[of])) and all(map(sure, x.law.reads))
        return found[k]

    return np.array([sure(k) for k in (range(len(system.channels)) if which is None else which)], bool)


def _transmitted_uniquely(instant: Instant, x: Measure, at: int) -> bool:
    what = x.law.transmitted
    if what is None:
        return True
    if what == "rows":
        rows = list(instant.machine.owner_named(x.target).rows)
        return bool(np.all(np.linalg.norm(instant.among_joints.null[rows], axis=1) <= ZERO))
    return bool(instant.uniqueness.mask(x.target, what)[x.law.components[at]])


def labelled_poses(
    poses: Sequence[Pose], dimension: str, labels: Sequence[Any], attrs: Mapping[str, Any]
) -> xr.Dataset:
    """Poses along a dimension (cases, steps of a path) as a Dataset with the names and units of a motion's."""
    import xarray as xr

    first = poses[0]
    machine, bodies = first.instant.machine, first.bodies
    data: dict[str, Any] = {}
    coords: dict[str, Any] = {dimension: list(labels)}
    q = np.array([machine.split(p.q)[0] for p in poses])
    if bodies is None:
        data["q"] = ((dimension, "coordinate"), q)
    else:
        _bodies(bodies, q, dimension, data, coords)
        _joints(bodies, poses, dimension, data, coords)
        text = {"long_name": "bodies, joints and forces with their places, as JSON; for pictures"}
        data["geometry"] = ((), json.dumps(geometry(bodies)), text)
    _measurements(poses, dimension, data, coords)
    owner = {row: o.name for o in machine.owners for row in o.rows}
    coords |= {"row": np.arange(machine.m), "row_owner": ("row", [owner[row] for row in range(machine.m)])}
    lam = np.array([p.lam for p in poses]).reshape(len(poses), machine.m)
    data["multiplier"] = ((dimension, "row"), lam, {"long_name": "Lagrange multiplier"})
    rule = next((p.rule for p in poses if not isinstance(p.rule, RequireUnique)), first.rule)
    redundancy = max(p.instant.among_joints.redundancy for p in poses)
    found = {"model": first.instant.system.name, "reaction_rule": rule.describe(machine), "redundancy": redundancy}
    return xr.Dataset(data, coords=coords, attrs=found | dict(attrs))


def _positions(system: AbstractSystem, t, q):
    return system.measured(t, q, jnp.zeros(system.n), only=positional_channels(system))


_positions_all = compiled_for_each(_positions, 1)


def positional_channels(system: AbstractSystem) -> tuple[int, ...]:
    """The measured numbers that a pose alone decides, by number."""
    return tuple(k for k in range(len(system.channels)) if system.is_position(k))


def add_positions(system: AbstractSystem, t, q: np.ndarray, dimension: str, data, coords) -> None:
    """Add what poses alone (a row of q for each) decide of the measurements to labelled data."""
    which = positional_channels(system)
    if not which:
        return
    coords["channel"] = [system.channels[k] for k in which]
    coords["channel_units"] = ("channel", [system.channel(k).unit for k in which])
    values = np.asarray(_positions_all(system, np.asarray(t, float), np.asarray(q, float)))
    data["measurement"] = ((dimension, "channel"), values, {"long_name": "measurement"})


def moving_bodies(system: AbstractSystem, t: np.ndarray, q: np.ndarray, title: str) -> xr.Dataset:
    """Bodies of a machine at given coordinates over time, for pictures: nothing else is known of the motion."""
    import xarray as xr

    bodies = system.bodies
    data: dict[str, Any] = {"geometry": ((), json.dumps(geometry(system)))}  # refuses a machine without bodies
    coords: dict[str, Any] = {"time": ("time", np.asarray(t, float), {"units": "s"})}
    assert bodies is not None
    _bodies(bodies, np.asarray(system.machine.split(q)[0]), "time", data, coords)
    return xr.Dataset(data, coords=coords, attrs={"model": title})


def _bodies(bodies: BodySystem, q: np.ndarray, dimension: str, data, coords) -> None:
    d = bodies.kinematics.d
    q = q.reshape(len(q), len(bodies.body_names), bodies.dq)
    coords |= {"body": list(bodies.body_names), "axis": list(AXES[:d])}
    data["position"] = ((dimension, "body", "axis"), q[..., :d], {"units": "m", "long_name": "centre of mass"})
    if d == 2:
        data["angle"] = ((dimension, "body"), q[..., 2], {"units": "rad"})
    else:
        coords["component"] = ["w", "x", "y", "z"]
        text = {"units": "1", "long_name": "unit quaternion, body to world"}
        data["quaternion"] = ((dimension, "body", "component"), q[..., 3:], text)


def _joints(bodies: BodySystem, poses: Sequence[Pose], dimension: str, data, coords) -> None:
    views = coordinate_views(bodies)
    if views:
        coords["joint_coordinate"] = [f"{joint}.{x.name}" for joint, x in views]
        coords["joint_coordinate_units"] = ("joint_coordinate", [x.unit for _, x in views])
        values = np.array([p.coordinates for p in poses])
        data["coordinate"] = ((dimension, "joint_coordinate"), values, {"long_name": "joint coordinate"})
    if not bodies.joints:
        return
    coords["joint"] = [j.name for j in bodies.joints]
    d, along = bodies.kinematics.d, (dimension, "joint", "axis")
    turning, turns = (along, lambda x: x) if d == 3 else (along[:2], lambda x: x[..., 0])
    for suffix, prefix, frame in (("", "", "world"), ("_in_joint", "joint_", "joint")):
        where = "world axes" if frame == "world" else "axes of marker i"
        for what, dims, cut, part in (
            ("force", along, lambda x: x, slice(d)),
            ("torque", turning, turns, slice(d, None)),
        ):
            values = np.array([getattr(p.wrenches, f"{prefix}{what}") for p in poses])
            unit, note = "N" if what == "force" else "N m", f"on body j, at marker j, {where}"
            data[f"reaction_{what}{suffix}"] = (dims, cut(values), {"units": unit, "long_name": note})
            sure = np.array([p.unique[frame][:, part] for p in poses])
            text = {"long_name": f"whether the rigid-body model determines it, {where}"}
            data[f"unique_{what}{suffix}"] = (dims, cut(sure), text)
    worst = {"open": 2, "partly": 1, "unique": 0}
    words = [max(x, key=lambda w: worst[w]) for x in zip(*(p.solvability for p in poses), strict=True)]
    text = {"long_name": "how much of the joint's reaction the rigid-body model determines"}
    data["solvability"] = ("joint", words, text)


def _measurements(poses: Sequence[Pose], dimension: str, data, coords) -> None:
    system = poses[0].instant.system
    if system.measures:
        channels = [c for x in system.measures for c in x.channels]
        rules = {p.rule.describe(p.instant.machine) for p in poses if not isinstance(p.rule, RequireUnique)}
        sure = np.array([unique_channels(p.instant) for p in poses])
        coords["channel"] = list(system.channels)
        coords["channel_units"] = ("channel", [c.unit for c in channels])
        coords["channel_rule"] = ("channel", ["unique" if x else ", ".join(rules) for x in np.all(sure, axis=0)])
        values = np.array([p.measured for p in poses])
        data["measurement"] = ((dimension, "channel"), values, {"long_name": "measurement"})
        text = {"long_name": "whether the rigid-body model determines it"}
        data["unique_measurement"] = ((dimension, "channel"), sure, text)
    if system.control.sources:
        coords["input"] = [x.name for x in system.control.sources]
        coords["input_units"] = ("input", [x.unit for x in system.control.sources])
        data["input_value"] = ((dimension, "input"), np.array([p.inputs for p in poses]), {"long_name": "input"})
