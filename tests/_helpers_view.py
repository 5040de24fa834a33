"""For tests of pictures: results without a simulation."""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

import dalembert as da
from dalembert.systems import geometry


def still(model, frames: int = 2) -> xr.Dataset:
    """A model's start, `frames` times over, as a result dataset: enough to draw it."""
    system = da.build(model)
    nb, d = len(system.body_names), system.kinematics.d
    q = np.broadcast_to(np.asarray(system.q0).reshape(nb, system.dq), (frames, nb, system.dq))
    return labelled(geometry(system), q[..., :d], q[..., d:])


def labelled(machine: dict, position: np.ndarray, turned: np.ndarray) -> xr.Dataset:
    """A result dataset from a geometry and motions (time, body, …); reactions are all 1, all unique."""
    T, d = position.shape[0], position.shape[-1]
    names = [j["name"] for j in machine["joints"]]
    tba, tja = ("time", "body", "axis"), ("time", "joint", "axis")
    coords = {
        "time": np.linspace(0.0, 1.0, T),
        "body": [b["name"] for b in machine["bodies"]],
        "axis": list("xyz"[:d]),
        "joint": names,
        "level": ["position", "velocity", "acceleration"],
    }
    force = np.ones((T, len(names), d))
    data = {
        "position": (tba, position),
        "geometry": ((), json.dumps(machine)),
        "solvability": ("joint", ["unique"] * len(names)),
        "violation": (("time", "level"), np.full((T, 3), 1e-16)),
    }
    data |= {f"energy_{k}": ("time", np.linspace(0, 1, T)) for k in ("kinetic", "potential", "total", "drift")}
    for suffix in ("", "_in_joint"):
        data[f"reaction_force{suffix}"] = (tja, force)
        data[f"unique_force{suffix}"] = (("joint", "axis"), np.ones((len(names), d), bool))
        dims = tja if d == 3 else tja[:2]
        data[f"reaction_torque{suffix}"] = (dims, force if d == 3 else force[..., 0])
        data[f"unique_torque{suffix}"] = (dims[1:], np.ones((len(names), d)[: len(dims) - 1], bool))
    if d == 2:
        data["angle"] = (tba[:2], turned[..., 0])
    else:
        data["quaternion"] = (("time", "body", "component"), turned)
    return xr.Dataset(data, coords=coords, attrs={"model": "still", "status": "done", "redundancy": 0})


def chain_in_motion(bodies: int, frames: int) -> xr.Dataset:
    """A chain of hinged bars in space that turns as a whole: a large result, made at once."""
    eye = np.eye(3).tolist()
    names = [f"bar{k}" for k in range(bodies)]
    machine = {
        "space": "space",
        "gravity": [0.0, 0.0, -9.81],
        "size": float(bodies),
        "bodies": [{"name": n, "mass": 1.0, "inertia": np.diag([1e-3, 0.1, 0.1]).tolist()} for n in names],
        "joints": [
            {"name": f"pin{k}", "kind": "revolute", "bodies": [names[k - 1] if k else "ground", names[k]],
             "points": [[0.5 if k else 0.0, 0.0, 0.0], [-0.5, 0.0, 0.0]], "frames": [eye, eye]}
            for k in range(bodies)
        ],
        "forces": [],
    }  # fmt: skip
    angle = np.linspace(0.0, 6.0, frames)
    along = np.stack([np.cos(angle), np.sin(angle), np.zeros(frames)], axis=-1)
    position = along[:, None, :] * (np.arange(bodies) + 0.5)[None, :, None]
    half = np.broadcast_to(angle[:, None] / 2, (frames, bodies))
    zero = np.zeros_like(half)
    return labelled(machine, position, np.stack([np.cos(half), zero, zero, np.sin(half)], axis=-1))
