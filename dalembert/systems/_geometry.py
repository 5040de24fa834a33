"""2 · systems: where a machine's bodies, joints and forces sit, as plain data: what pictures are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.systems._absolute import AbsoluteSystem
from dalembert.systems._build_tree import QUARTER
from dalembert.systems._tree import CHAINS, TreeSystem

NUMBERS = ("radius", "radius_i", "radius_j", "length", "pitch")
"""What the picture of a joint needs besides its markers."""
CURVE_POINTS = 241


def geometry(system: AbsoluteSystem | TreeSystem) -> dict[str, Any]:
    """Bodies (mass, inertia), joints and forces (kind, bodies, markers in the bodies' frames), ready for JSON.

    Frames are angles in the plane and rotation matrices in space. It follows `system.replace`. In joint coordinates
    the joints of the tree come first, then those that close loops.
    """
    if isinstance(system, TreeSystem):
        found = geometry(system.carrier)
        return found | {"joints": [*_tree_joints(system), *found["joints"]]}
    names = (*system.body_names, "ground")
    bodies = [
        {"name": name, "mass": float(system.masses[k]), "inertia": _plain(_inertia(system, k))}
        for k, name in enumerate(system.body_names)
    ]
    joints = []
    for j in system.joints:
        p = {key: np.asarray(value[j.member]) for key, value in system.families[j.family].p.items()}
        joints.append(_placed(j.name, j.kind, [names[k] for k in j.blocks], p))
    forces = []
    for f in system.forces:
        for member, name in enumerate(f.names):
            p = {key: np.asarray(value[member]) for key, value in f.p.items()}
            forces.append(_placed(name, f.kind, [names[k] for k in f.group.columns[member]], p))
    return {
        "space": system.space,
        "gravity": _plain(system.gravity),
        "size": float(system.size),
        "bodies": bodies,
        "joints": joints,
        "forces": forces,
    }


def _tree_joints(system: TreeSystem) -> list[dict[str, Any]]:
    """The joints that carry the tree, read off its links; a free body hangs on none."""
    tree, links = system.tree, {k: np.asarray(x) for k, x in system.links.items()}
    names, body_of = system.body_names, {int(link): b for b, link in enumerate(tree.bodies)}
    out = []
    for b, last in enumerate(tree.bodies):
        chain = [int(last)]
        while (parent := int(tree.parents[chain[0]])) >= 0 and parent not in body_of:
            chain.insert(0, parent)
        kind, axes = _kind_of(system.space, [tree.kinds[k] for k in chain], links, chain)
        if kind is None:
            continue
        first, end = chain[0], chain[-1]
        carrier = names[body_of[parent]] if parent >= 0 else "ground"
        sides = [
            (carrier, links["point_i"][first], links["frame_i"][first] @ QUARTER[axes[0]].T),
            (names[b], links["point_j"][end], links["frame_j"][end] @ QUARTER[axes[-1]].T),
        ]
        if any(links[way][k] < 0 for way in ("turn", "slide") for k in chain):
            sides.reverse()  # the joint was told from the other side
        plane = system.space == "plane"
        out.append(
            {
                "name": tree.joints[end],
                "kind": kind,
                "bodies": [s[0] for s in sides],
                "points": [_plain(s[1][:2] if plane else s[1]) for s in sides],
                "frames": [float(np.arctan2(s[2][1, 0], s[2][0, 0])) if plane else _plain(s[2]) for s in sides],
            }
        )
    return out


def _kind_of(space: str, kinds: list[str], links, chain: list[int]) -> tuple[str | None, list[int]]:
    """The joint with these links, and their axes; of two with the same links the axes of all but the last decide."""
    for (where, kind), found in CHAINS.items():
        for way in (found, found[::-1]):
            if where != space or kind == "free" or [link.kind for link in way] != kinds:
                continue
            axes = [2 if link.kind == "ball" else link.axis for link in way]
            inner = zip(axes[:-1], chain[:-1], strict=True)
            if all(np.allclose(links["frame_j"][k], QUARTER[axis]) for axis, k in inner):
                return kind, axes
    return None, []


def _inertia(system: AbsoluteSystem, k: int):
    return system.inertias[k] if system.space == "space" else system.inertias[k, 0, 0]


def _placed(name: str, kind: str, bodies: list[str], p: dict[str, np.ndarray]) -> dict[str, Any]:
    out: dict[str, Any] = {"name": name, "kind": kind, "bodies": bodies}
    if "point_i" in p:
        sides = ("i", "j")[: len(bodies)]
        out["points"] = [_plain(p[f"point_{s}"]) for s in sides]
        out["frames"] = [_plain(p[f"frame_{s}"]) for s in sides]
    numbers = {key: float(p[key]) for key in NUMBERS if key in p and p[key].ndim == 0}
    if numbers:
        out["numbers"] = numbers
    if "breaks" in p and "coefficients" in p and kind.startswith("point_on_curve"):
        from scipy.interpolate import PPoly

        s = np.linspace(p["breaks"][0], p["breaks"][-1], CURVE_POINTS)
        out["curve"] = _plain(np.round(PPoly(p["coefficients"], p["breaks"])(s), 9))
    return out


def _plain(x):
    return np.asarray(x, float).tolist()
