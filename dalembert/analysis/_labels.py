"""7 · analysis: poses as labelled data: places of bodies, joint coordinates and measurements, with names and units."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from dalembert.analysis._targets import joint_coordinates
from dalembert.results import add_positions
from dalembert.systems import AbstractSystem, compiled_for_each, geometry

if TYPE_CHECKING:
    import xarray as xr

AXES = ("x", "y", "z")


def _values(system, targets, q):
    return jnp.concatenate([jnp.zeros(0), *(x.value(system, 0.0, q) for x in targets)])


_values_all = compiled_for_each(_values, 1)


def _lifted(system, q):
    return system.lift(q, jnp.zeros(system.n))[0]


_lifted_all = compiled_for_each(_lifted, 1)


def coordinates_of(system: AbstractSystem, q: np.ndarray) -> dict[str, float]:
    """All joint coordinates of a pose by name."""
    named = joint_coordinates(system)
    values = np.asarray(_values_all(system, tuple(x.target for x in named), q[None]))[0]
    return {x.name: float(y) for x, y in zip(named, values, strict=True)}


def measurements_of(system: AbstractSystem, t, q: np.ndarray) -> dict[str, float]:
    """What a pose decides of the measurements, by name."""
    data, coords = {}, {}
    add_positions(system, t, q[None], "pose", data, coords)
    values = data["measurement"][1][0] if data else ()
    return {name: float(x) for name, x in zip(coords.get("channel", ()), values, strict=True)}


def labelled_poses(system: AbstractSystem, t, poses: np.ndarray) -> xr.Dataset:
    """Poses (a row for each) at time t as a Dataset along `pose`."""
    import xarray as xr

    bodies, count = system.bodies, len(poses)
    data: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    add_positions(system, t, poses, "pose", data, coords)
    if bodies is None:
        data["q"] = (("pose", "coordinate"), poses)
        return xr.Dataset(data, coords=coords, attrs={"model": system.name})
    d = bodies.kinematics.d
    q = np.asarray(_lifted_all(system, poses)).reshape(count, len(bodies.body_names), -1)
    along = ("pose", "body", "axis")
    data["position"] = (along, q[..., :d], {"units": "m", "long_name": "centre of mass"})
    coords |= {"body": list(bodies.body_names), "axis": list(AXES[:d])}
    if d == 2:
        data["angle"] = (along[:2], q[..., 2], {"units": "rad"})
    else:
        coords["component"] = ["w", "x", "y", "z"]
        text = {"units": "1", "long_name": "unit quaternion, body to world"}
        data["quaternion"] = ((*along[:2], "component"), q[..., 3:], text)
    named = joint_coordinates(system)
    if named:
        values = np.asarray(_values_all(system, tuple(x.target for x in named), poses))
        coords["joint_coordinate"] = [x.name for x in named]
        coords["joint_coordinate_units"] = ("joint_coordinate", [x.unit for x in named])
        data["coordinate"] = (("pose", "joint_coordinate"), values, {"long_name": "joint coordinate"})
    if system is not bodies:
        data["q"] = (("pose", "tree_coordinate"), poses)
    text = {"long_name": "bodies, joints and forces with their places, as JSON; for pictures"}
    data["geometry"] = ((), json.dumps(geometry(bodies)), text)
    return xr.Dataset(data, coords=coords, attrs={"model": system.name})
