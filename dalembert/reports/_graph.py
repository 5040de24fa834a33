"""edge · reports: the joint graph of a model: how bodies are connected, and which joints close loops."""

from __future__ import annotations

from typing import Any

from dalembert.analysis import check
from dalembert.model import Model
from dalembert.simulation import Solution
from dalembert.systems import AbstractSystem


def plot_graph(model: Model | AbstractSystem | Solution, path=None, *, reactions: bool = True) -> Any:
    """A figure of bodies (nodes) and joints (edges), coloured by solvability; joints that close a loop are dashed.

    `reactions=False` leaves out the analysis, and the colours. Drivers are named at the joint they drive.
    """
    from dalembert.view import draw_graph

    system: Any = model.system if isinstance(model, Solution) else model
    name, bodies, items = _items(system)
    solvability: dict[str, str] = {}
    if reactions and isinstance(model, Solution) and "solvability" in model.dataset:  # along the whole motion
        data = model.dataset
        solvability = dict(zip(map(str, data["joint"].values), map(str, data["solvability"].values), strict=True))
    elif reactions:
        found = check(system).solvability
        for j in found.joints if found is not None else ():
            sure = list(j.components.values())
            solvability[j.name] = "unique" if j.unique else "partly" if any(sure) else "open"
    joints: dict[str, dict[str, Any]] = {}
    for item, kind, ends, driven in items:
        if driven in joints:
            joints[driven]["driven"].append(item)
        else:
            joints[item] = {
                "name": item,
                "kind": kind,
                "bodies": ends,
                "driven": [],
                "solvability": solvability.get(item),
            }
    return draw_graph(name, bodies, list(joints.values()), path)


def _items(system) -> tuple[str, list[str], list[tuple[str, str, list[str], str]]]:
    """Name, bodies, and (joint, what it is, its bodies, the joint it drives) of a model or of a system."""
    if isinstance(system, Model):
        found = []
        for c in system.constraints.values():
            ends = list(dict.fromkeys(b.name for b in c.bodies))
            found.append((c.name, c.element.label, ends, "" if c.target is None else c.target.name))
        return system.name, list(system.bodies), found
    system = system.bodies
    names = (*system.body_names, "ground")
    found = [(j.name, j.nature.label, list(dict.fromkeys(names[k] for k in j.blocks)), j.target) for j in system.joints]
    return system.name, list(system.body_names), found
