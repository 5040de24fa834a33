"""8 · studies: a model stated anew with the numbers of a changed system, in the pose in which that starts."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dalembert._results import DalembertError
from dalembert.model import Body, Element, Model
from dalembert.stabilise import State
from dalembert.systems import AbstractSystem, build

ALIKE = 1e-7
"""Relative difference up to which a parameter of the model stated anew is the one that was asked for."""


def stated(model: Model, system: AbstractSystem, start: State) -> Model:
    """The model whose system has the parameters of `system`: plain numbers by their arguments; where points or centres
    of mass changed, bodies in the pose of the start, and points and axes of the world where they are then. What cannot
    be stated so is refused by name."""
    other = Model(model.name, space=model.space, gravity=model.gravity, closing=model.closing)
    old = {k: np.asarray(v) for k, v in build(model).parameters().items()}
    new = {k: np.asarray(v) for k, v in system.parameters().items()}
    changed = {k for k, v in new.items() if not np.array_equal(v, old[k])}
    if "gravity" in changed:
        other.gravity = new["gravity"]
    moved = any(k.rpartition(".")[2] in ("point_i", "point_j") for k in changed)
    poses = _poses(model, system, start) if moved else {}
    for element in model.statements:
        numbers: dict[str, Any] = {
            k.rpartition(".")[2]: _plain(new[k]) for k in changed if k.rpartition(".")[0] == element.name
        }
        fields = type(element).fields()
        given = {k: v for k, v in numbers.items() if k in fields}
        named = getattr(element, "parameters", None)
        if isinstance(named, dict) and any(k in numbers for k in named):
            given["parameters"] = {k: numbers.get(k, v) for k, v in named.items()}
        if moved:
            given |= _placed(model, element, poses, new, fields)
        other.add(dataclasses.replace(element, **given) if given else element)
    found = {k: np.asarray(v) for k, v in build(other).parameters().items()}
    sizes = {k: max(float(np.max(np.abs(v), initial=0.0)), 1e-6) for k, v in new.items()}
    wrong = [
        k for k, v in new.items()
        if k.rpartition(".")[2] not in ("frame_i", "frame_j")
        and (k not in found or np.max(np.abs(found[k] - v), initial=0.0) > ALIKE * sizes[k])
    ]  # fmt: skip
    if wrong:
        listed = ", ".join(f"'{k}'" for k in wrong[:4])
        raise DalembertError(
            f"The statements of model '{model.name}' cannot be given these values of {listed}: what it states there "
            "does not follow from points in the world. Use result.system, which has them."
        )
    return other


def _plain(x: np.ndarray) -> Any:
    return float(x) if x.ndim == 0 else x.tolist()


def _poses(model: Model, system: AbstractSystem, start: State) -> dict[str, tuple[np.ndarray, np.ndarray, Any]]:
    """Position, rotation and velocities of each body at the start."""
    bodies = system.bodies
    assert bodies is not None
    q, v = system.lift(np.asarray(start.q), np.asarray(start.v))
    own = system.machine.split(np.asarray(q))[0] if system.machine is system else q
    places = bodies.places(own)
    rates = np.asarray(v).reshape(len(bodies.body_names), -1)
    return {
        name: (np.asarray(places.p[k]), np.asarray(places.R[k]), rates[k]) for k, name in enumerate(bodies.body_names)
    }


def _placed(model: Model, element: Element, poses, new: dict[str, np.ndarray], fields) -> dict[str, Any]:
    """Arguments that are places and directions in the world, in the new pose."""
    d = model.dimension
    out: dict[str, Any] = {}
    if element.name in poses and element.section == "bodies":
        p, R, rates = poses[element.name]
        out["position"] = p.tolist()
        out |= {"velocity": rates[:d].tolist(), "angular_velocity": rates[d:].tolist() if d == 3 else float(rates[2])}
        if d == 2:
            angle, old = float(np.arctan2(R[1, 0], R[0, 0])), float(getattr(element, "angle", None) or 0.0)
            out["angle"] = angle + 2 * np.pi * round((old - angle) / (2 * np.pi))
        else:
            out |= {"rotation": R.tolist(), "quaternion": None, "axis": None, "angle": None}
        return out
    item = next((t[element.name] for t in model.tables if element.name in t), None)
    markers = getattr(item, "markers", ())

    def world(k: int) -> np.ndarray:
        marker = markers[k]
        local = new.get(f"{element.name}.point_{'ij'[k]}", marker.position)
        if marker.body.is_ground:
            return np.asarray(local)
        p, R, _ = poses[marker.body.name]
        return p + R @ np.asarray(local)

    def turned(body: Body, direction) -> list[float]:
        if body.is_ground:
            return np.asarray(direction, float).tolist()
        return (poses[body.name][1] @ body.rotation.T @ np.asarray(direction, float)).tolist()

    for key, k in (("at", len(markers) - 1), ("at_i", 0), ("at_j", 1)):
        if key in fields and getattr(element, key) is not None and 0 <= k < len(markers):
            out[key] = world(k).tolist()
    for key in ("axis", "x"):
        value = getattr(element, key, None)
        if key in fields and value is not None and np.ndim(value) == 1 and markers:
            out[key] = turned(markers[0].body, value)
    return out
