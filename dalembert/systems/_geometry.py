"""2 · systems: positions of a machine's bodies, joints and forces as plain data, from which pictures are drawn."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from dalembert._results import DalembertError
from dalembert.model import Look, Shape
from dalembert.systems._base import AbstractSystem
from dalembert.systems._bodies import BodySystem

NUMBERS = ("radius", "radius_i", "radius_j", "length", "pitch")
"""What the picture of a joint needs besides its markers."""
CURVE_POINTS = 241


def geometry(machine: AbstractSystem) -> dict[str, Any]:
    """Bodies (mass, inertia, shapes), joints and forces (what they are, how they look, their bodies, markers in the
    bodies' frames), ready for JSON.

    Frames are angles in the plane and rotation matrices in space. It follows `system.replace`.
    """
    system = machine.bodies
    if system is None:
        raise DalembertError(f"'{machine.name}' has no bodies to draw.")
    names = (*system.body_names, "ground")
    bodies: list[dict[str, Any]] = [
        {"name": name, "mass": float(system.masses[k]), "inertia": _plain(_inertia(system, k))}
        for k, name in enumerate(system.body_names)
    ]
    for body, shape in system.shapes:
        bodies[body].setdefault("shapes", []).append(_shape(shape))
    joints = []
    for j in system.joints:
        p = {key: np.asarray(value[j.member]) for key, value in system.families[j.family].p.items()}
        joints.append(_placed(j.name, j.nature.label, j.look, [names[k] for k in j.blocks], p))
    forces = []
    for f in system.forces:
        for member, name in enumerate(f.names):
            p = {key: np.asarray(value[member]) for key, value in f.p.items()}
            forces.append(_placed(name, f.label, f.look, [names[k] for k in f.group.columns[member]], p))
    return {
        "space": system.space,
        "gravity": _plain(system.gravity),
        "size": float(system.size),
        "bodies": bodies,
        "joints": joints,
        "forces": forces,
    }


def _inertia(system: BodySystem, k: int):
    return system.inertias[k] if system.space == "space" else system.inertias[k, 0, 0]


def _shape(shape: Shape) -> dict[str, Any]:
    R = shape.rotation
    turned = _plain(R) if len(R) == 3 else math.atan2(R[1, 0], R[0, 0])
    out = {"kind": shape.kind, "size": _plain(np.ravel(shape.size)), "position": _plain(shape.position)}
    colour = {} if shape.colour is None else {"colour": _plain(np.ravel(shape.colour))}
    return out | {"rotation": turned} | colour


def _placed(name: str, label: str, look: Look, bodies: list[str], p: dict[str, np.ndarray]) -> dict[str, Any]:
    given = {f.name: x for f in dataclasses.fields(look) if (x := getattr(look, f.name)) != f.default}
    out: dict[str, Any] = {"name": name, "kind": label, "look": given, "bodies": bodies}
    if "point_i" in p:
        sides = ("i", "j")[: len(bodies)]
        out["points"] = [_plain(p[f"point_{s}"]) for s in sides]
        out["frames"] = [_plain(p[f"frame_{s}"]) for s in sides]
    numbers = {key: float(p[key]) for key in NUMBERS if key in p and p[key].ndim == 0}
    if numbers:
        out["numbers"] = numbers
    if "value" in p and p["value"].ndim == 1:  # of a constant force
        out["value"] = _plain(p["value"])
    if look.curve:
        from scipy.interpolate import PPoly

        s = np.linspace(p["breaks"][0], p["breaks"][-1], CURVE_POINTS)
        out["curve"] = _plain(np.round(PPoly(p["coefficients"], p["breaks"])(s), 9))
    return out


def _plain(x):
    return np.asarray(x, float).tolist()
