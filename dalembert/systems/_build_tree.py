"""2 · systems: from a model to joint coordinates: which joints are in the spanning tree, and where it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import Array
from dalembert.linalg import BlockPattern, Group
from dalembert.model import FREE, AbstractJoint, Body, Constraint, Link, Marker, Model, axis_angle, quaternion_of
from dalembert.systems._absolute import AbsoluteSystem
from dalembert.systems._build_control import start_of
from dalembert.systems._constraints import rows_of
from dalembert.systems._frames import Frame
from dalembert.systems._names import compiled_quickly
from dalembert.systems._topology import Tree
from dalembert.systems._tree import TreeSystem

QUARTER = {
    0: np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0.0]]),
    1: np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0.0]]),
    2: np.eye(3),
}
"""Frames whose z axis is x, y or z."""


def spanning_tree(model: Model, cut: Sequence[str] = ()) -> dict[str, tuple[str, Constraint | None]]:
    """For each body its parent body and the joint between them, nearest to the ground first.

    Levels are those of the shortest way to the ground, so a loop is cut in its middle [Blajer, Bestle, Schiehlen
    1994, section 4]; of several joints to the level below, the one with the fewest coordinates is taken. A body
    without a path of joints to the ground is free, and is the root of the bodies connected to it.
    """
    import networkx as nx

    unknown = [name for name in cut if name not in model.constraints]
    if unknown:
        raise DalembertError(f"cut: there is no joint '{unknown[0]}'.")
    graph = nx.MultiGraph()
    graph.add_nodes_from(["ground", *model.bodies])
    for c in model.constraints.values():
        if c.element.links(model.space) is not None and len(c.markers) == 2 and c.name not in cut:
            graph.add_edge(c.markers[0].body.name, c.markers[1].body.name, key=c.name)
    carriers: dict[str, tuple[str, Constraint | None]] = {}
    for part in nx.connected_components(graph):
        root = "ground" if "ground" in part else next(b for b in model.bodies if b in part)
        if root != "ground":
            carriers[root] = ("ground", None)
        levels = nx.single_source_shortest_path_length(graph, root)
        order = [b for b in model.bodies if b in part and b != root]
        for name in sorted(order, key=lambda b: levels[b]):
            ways = [
                (_freedom(model, model.constraints[key]), list(model.constraints).index(key), other, key)
                for other in graph[name]
                if levels[other] == levels[name] - 1
                for key in graph[name][other]
            ]
            _, _, other, key = min(ways)
            carriers[name] = (other, model.constraints[key])
    return carriers


def _freedom(model: Model, c: Constraint) -> int:
    return sum(link.freedom for link in c.element.links(model.space) or ())


def tree_system(
    model: Model, carrier: AbsoluteSystem, absolute: AbsoluteSystem, carriers: dict[str, tuple[str, Constraint | None]]
) -> TreeSystem:
    """Joint coordinates of a model whose cut joints are the rows of `carrier`, and all joints those of `absolute`."""
    for _, joint in carriers.values():
        if joint is not None:
            check_links(joint, model.space)
    parents, kept, owners, q0 = [], [], [], []
    backward: list[str] = []
    tables: dict[str, list] = {
        k: [] for k in ("point_i", "frame_i", "point_j", "frame_j", "turn", "slide", "start_angle")
    }
    link_of = {"ground": -1}
    names: list[str] = []
    for body_name, (parent, joint) in carriers.items():
        body = model.bodies[body_name]
        chain = FREE[model.space] if joint is None else joint.element.links(model.space)
        assert chain is not None
        if joint is None:
            ends = (_in_space(Marker(model.ground, np.zeros(model.dimension), np.eye(model.dimension))),
                    _in_space(Marker(body, np.zeros(model.dimension), np.eye(model.dimension))))  # fmt: skip
            pair = (model.ground, body)
            reverse = False
        else:
            reverse = joint.markers[1].body.name == parent
            i, j = joint.markers
            ends, pair = (_in_space(i), _in_space(j)), (i.body, j.body)
        values = _start_values(model, joint, chain, pair, ends)
        steps = list(zip(chain, values, strict=True))
        if reverse:
            assert joint is not None
            steps, ends = steps[::-1], ends[::-1]
            backward.append(joint.name)
        here = link_of[parent]
        for k, (link, value) in enumerate(steps):
            first, last = k == 0, k == len(steps) - 1
            turn_to = np.eye(3) if link.ball else QUARTER[link.axis]
            way = -1.0 if reverse else 1.0
            lead = joint.numbers[link.pitch] / (2 * math.pi) if joint is not None and link.pitch else 0.0
            tables["point_i"].append(ends[0][0] if first else np.zeros(3))
            tables["frame_i"].append((ends[0][1] if first else np.eye(3)) @ turn_to)
            tables["point_j"].append(ends[1][0] if last else np.zeros(3))
            tables["frame_j"].append((ends[1][1] if last else np.eye(3)) @ turn_to)
            tables["turn"].append(way if link.turns else 0.0)
            tables["slide"].append(way * lead if link.pitch else way if link.slides else 0.0)
            start = (angle_of(ends[0][1]) if first else 0.0) - (angle_of(ends[1][1]) if last else 0.0)
            tables["start_angle"].append(start if model.space == "plane" else 0.0)
            parents.append(here)
            kept.append(link)
            owners.append(body_name if joint is None else joint.name)
            here = len(parents) - 1
            if link.ball:
                value = quaternion_of(value.T if reverse else value)
            q0 += list(np.atleast_1d(value)) if link.freedom else []
            names += _names(owners[-1], link)
        link_of[body_name] = here
    tree = Tree(parents, kept, [link_of[b] for b in model.bodies], owners, backward)
    pattern = BlockPattern(carrier.m, 1, tree.nv, [Group([range(carrier.m)], [[0]])] if carrier.m else [])
    links: dict[str, Array] = {k: np.array(x, float) for k, x in tables.items()}
    if model.space == "plane":
        links["start_angle"] = _whole_turns(model, tree, links, np.array(q0, float))
    system = TreeSystem(
        carrier=carrier,
        absolute=absolute,
        links=links,
        q0=np.concatenate([np.array(q0, float), start_of(model)]),
        v0=np.zeros(tree.nv),
        tree=tree,
        pattern=pattern,
        m_holonomic=carrier.m_holonomic,
        owners=carrier.owners,
        name=model.name,
        coordinate_names=tuple(names),
        klu=None,
    )
    if not np.any(carrier.v0):
        return system  # at rest: nothing to compile
    v0 = np.asarray(_rates(system, jnp.asarray(system.q0), jnp.asarray(carrier.v0).reshape(len(model.bodies), -1)))
    return eqx.tree_at(lambda s: s.v0, system, v0)


@compiled_quickly
def _rates(system: TreeSystem, q, v):
    """The joint rates whose motion is nearest, in the mass metric, to given absolute velocities."""
    chains = system.chains(q)
    momentum = system._pull(chains, system.carrier.mass_mv(system.body_places(q, chains), v))
    return jax.scipy.linalg.solve(system.mass_matrix(chains), momentum, assume_a="pos")


def check_links(joint: Constraint, space: str) -> None:
    """Refuse a class of a person's own whose links move where its rows forbid, or leave free what its rows hold.

    The tree does not use the rows of a joint that carries, so the two must say the same.
    """
    links, element = joint.element.links(space), joint.element
    if links is None or type(element).rows_in is AbstractJoint.rows_in:
        return
    who, rows = f"Joint '{joint.name}': class {type(element).__name__}", rows_of(joint, space)
    missing = [link.pitch for link in links if link.pitch and link.pitch not in joint.numbers]
    if missing:
        raise DalembertError(f"{who}: a link has the pitch '{missing[0]}', which is none of its numbers.")
    freedom, whole = sum(link.freedom for link in links), 3 if space == "plane" else 6
    if rows.motion is not None or rows.position is None or freedom + rows.holonomic != whole:
        raise DalembertError(
            f"{who}: its links have {freedom} freedoms, its rows hold {rows.holonomic + rows.nonholonomic} directions; "
            f"together they must be {whole}. Without links it closes a loop, which any joint can."
        )
    rng, size = np.random.default_rng(1), 3 if space == "space" else 2
    still = Frame(jnp.zeros(size), jnp.eye(size), jnp.zeros(()))
    for _ in range(3):
        p, R, angle = np.zeros(3), np.eye(3), 0.0
        for link in links:
            x = float(rng.uniform(-0.7, 0.7))
            lead = float(joint.numbers[link.pitch]) / (2 * math.pi) if link.pitch else 1.0
            if link.slides or link.pitch:
                p = p + R[:, link.axis] * x * lead
            if link.turns:
                R, angle = R @ axis_angle(np.eye(3)[link.axis], x), angle + x
            if link.ball:
                R = R @ axis_angle(rng.standard_normal(3), x)
        moved = Frame(jnp.asarray(p[:size]), jnp.asarray(R[:size, :size]), jnp.asarray(angle))
        gap = np.abs(np.asarray(rows.position(jnp.zeros(()), still, moved, joint.numbers)))
        if not np.max(gap) < 1e-9:
            raise DalembertError(
                f"{who}: its links allow a motion that its row {int(np.argmax(gap)) + 1} forbids; give a link for each "
                "freedom, in order from i to j (a screw is one link: Link(turns=True, pitch=…))."
            )


def _whole_turns(model: Model, tree: Tree, links, q0) -> np.ndarray:
    """Start angles such that each body's angle is the one the model states, not one that differs by full turns."""
    start = links["start_angle"].copy()
    turns = np.append(q0, 0.0)[tree.q_index[:, 0]] * links["turn"]
    for b, body in zip(tree.bodies, model.bodies.values(), strict=True):
        total = float(np.sum((turns + start)[tree.above[:, b]]))
        wanted = angle_of(body.rotation)
        start[b] += 2 * math.pi * round((wanted - total) / (2 * math.pi))
    return start


def _in_space(marker: Marker) -> tuple[np.ndarray, np.ndarray]:
    """A marker's point and frame in its body, with a third axis in the plane."""
    if len(marker.position) == 3:
        return marker.position, marker.rotation
    R = np.eye(3)
    R[:2, :2] = marker.rotation
    return np.append(marker.position, 0.0), R


def angle_of(R) -> float:
    """The angle of a rotation in the plane, or about z."""
    return math.atan2(R[1, 0], R[0, 0])


def _start_values(model: Model, joint, chain: tuple[Link, ...], pair: tuple[Body, Body], ends) -> list:
    """The joint's coordinates in the start configuration, link by link (for a ball: the rotation matrix)."""

    def world(body: Body, point, frame):
        p, R = np.zeros(3), np.eye(3)
        d = len(body.position)
        p[:d], R[:d, :d] = body.position, body.rotation
        return p + R @ point, R @ frame

    (p_i, F_i), (p_j, F_j) = (world(b, *e) for b, e in zip(pair, ends, strict=True))
    d, B = F_i.T @ (p_j - p_i), F_i.T @ F_j
    if joint is None:
        return [float(d[0]), float(d[1]), angle_of(B)] if model.space == "plane" else [*map(float, d), B]
    return joint.element.link_values(chain, d, B, joint.numbers)


def _names(owner: str, link: Link) -> list[str]:
    letter = "xyz"[link.axis]
    if link.ball:
        return [f"{owner}.q{k}" for k in "wxyz"]
    if link.turns:
        return [f"{owner}.angle" if link.pitch else f"{owner}.angle_{letter}"]
    return [f"{owner}.{letter}"] if link.slides else []
