"""The problems of the benchmark: one machine, one motion and one error measure each, in a form every engine can read.

The numbers come from the built-in mechanisms of dalembert. `tree_of` turns such a model into a tree of hinges with
loops cut open, which is what engines in joint coordinates want: all vectors in world axes of the start pose, all
joint angles zero there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import dalembert as da


@dataclass(frozen=True)
class Link:
    """A body on a hinge; `centre` is seen from its own hinge, `hinge` from that of its parent (−1: the origin)."""

    name: str
    mass: float
    inertia: np.ndarray  # (3, 3), about the centre
    centre: np.ndarray
    parent: int
    hinge: np.ndarray
    axis: np.ndarray
    rate: float  # speed of the hinge at the start


@dataclass(frozen=True)
class Closure:
    """A hinge that closes a loop: a point of link a meets a point of link b (−1: ground)."""

    a: int
    at_a: np.ndarray
    b: int
    at_b: np.ndarray
    axis: np.ndarray


@dataclass(frozen=True)
class Spring:
    """Between a fixed point and a point of a link."""

    link: int
    at: np.ndarray
    anchor: np.ndarray
    stiffness: float
    length: float


@dataclass(frozen=True)
class Tree:
    """Links in depth-first order (the order in which MuJoCo and Pinocchio number them)."""

    planar: bool
    links: tuple[Link, ...]
    closures: tuple[Closure, ...]
    gravity: np.ndarray
    torques: tuple[tuple[int, float], ...]
    springs: tuple[Spring, ...]
    body_order: np.ndarray  # link of each body of the model

    def __len__(self) -> int:
        return len(self.links)

    @property
    def rates(self) -> np.ndarray:
        return np.array([link.rate for link in self.links])

    def closing_points(self, closure: Closure, arm: float = 0.5) -> list[tuple[np.ndarray, np.ndarray]]:
        """Points that must meet: one in the plane, two on the axis in space (a hinge of two balls)."""
        shifts = [np.zeros(3)] if self.planar else [arm * closure.axis, -arm * closure.axis]
        return [(closure.at_a + s, closure.at_b + s) for s in shifts]

    def place(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hinge points (times, links, 3) and rotations (times, links, 3, 3) at joint angles (times, links)."""
        origin = np.zeros((len(angles), len(self), 3))
        R = np.zeros((len(angles), len(self), 3, 3))
        for k, link in enumerate(self.links):
            turn = _turns(link.axis, angles[:, k])
            if link.parent < 0:
                origin[:, k], R[:, k] = link.hinge, turn
            else:
                origin[:, k] = origin[:, link.parent] + R[:, link.parent] @ link.hinge
                R[:, k] = R[:, link.parent] @ turn
        return origin, R

    def samples(self, angles: np.ndarray, problem: Problem) -> Samples:
        """What is compared, from joint angles (times, links)."""
        origin, R = self.place(angles)
        k = self.body_order[problem.body_index]
        points = origin[:, k] + R[:, k] @ (problem.point - self.start_hinge(k))
        absolute = np.array(angles)
        for i, link in enumerate(self.links):
            if link.parent >= 0:
                absolute[:, i] += absolute[:, link.parent]
        return Samples(points, absolute[:, self.body_order] if self.planar else None)

    def start_hinge(self, k: int) -> np.ndarray:
        """Where the hinge of link k is at the start."""
        here = self.links[k].hinge
        while (k := self.links[k].parent) >= 0:
            here = here + self.links[k].hinge
        return here


@dataclass(frozen=True)
class Samples:
    """A motion at the sample times: the tracked point and, in the plane, how far each body has turned."""

    point: np.ndarray
    turned: np.ndarray | None


@dataclass(frozen=True)
class Problem:
    """A motion from 0 to t1, compared every `period` at one point of one body (world coordinates at the start)."""

    name: str
    title: str
    model: da.Model
    t1: float
    period: float
    body: str
    point: np.ndarray
    levels: dict[str, tuple[float, ...]]  # measure -> error levels
    rtols: tuple[float, ...]

    @property
    def times(self) -> np.ndarray:
        return self.period * np.arange(round(self.t1 / self.period) + 1)

    @property
    def body_index(self) -> int:
        return list(self.model.bodies).index(self.body)

    @property
    def is_large(self) -> bool:
        return len(self.model.bodies) > 20

    def errors(self, samples: Samples, reference: Samples) -> dict[str, float]:
        """Largest error over the sample times, by measure; infinite where a motion broke off."""
        out = {}
        for measure in self.levels:
            a, b = getattr(samples, measure), getattr(reference, measure)
            if a.shape != b.shape:
                out[measure] = np.inf
                continue
            size = np.linalg.norm(a - b, axis=1) if measure == "point" else np.max(np.abs(a - b), axis=1)
            error = float(np.max(size))
            out[measure] = error if np.isfinite(error) else np.inf
        return out


def problems() -> list[Problem]:
    """All problems, small ones first."""
    fine = tuple(10.0 ** -(k / 2) for k in range(4, 27))
    four_bar = da.mechanism("four-bar")
    bricard = da.mechanism("bricard")
    andrews = da.mechanism("andrews")
    F = _start(andrews.constraints["K2K3"].markers[0].start_position)
    out = [
        Problem(
            "four-bar", "four-bar, 10 s", four_bar, 10.0, 0.1, "coupler",
            _start(four_bar.bodies["coupler"].position), {"point": (1e-3, 1e-6, 1e-8)}, fine,
        ),
        Problem(
            "bricard", "Bricard, 10 s", bricard, 10.0, 0.1, "bar3", np.array([1.0, -1.0, 1.0]),
            {"point": (1e-4, 1e-6)}, fine[:-4],
        ),
        # a point of this machine moves by centimetres and its crank by fifteen radians: both are of interest
        Problem(
            "andrews", "Andrews, 0.03 s", andrews, 0.03, 0.001, "K2", F,
            {"point": (1e-3, 1e-6), "turned": (1e-3, 1e-6)}, fine[:-4],
        ),
    ]  # fmt: skip
    for N in (40, 100):
        out.append(
            Problem(
                f"n-four-bar-{N}", f"{N}-four-bar, 10 s", da.mechanism("n-four-bar", N=N), 10.0, 0.1, "rocker0",
                np.array([0.0, 1.0, 0.0]), {"point": (1e-4, 1e-6)}, tuple(10.0 ** -(k / 2) for k in range(9, 24)),
            )
        )  # fmt: skip
    return out


def tree_of(model: da.Model) -> Tree:
    """The spanning tree of a model of revolutes, with the joints that close loops cut."""
    names = list(model.bodies)
    parents, closing = _span(model)
    order = _depth_first(names, parents)
    number = {name: k for k, name in enumerate(order)} | {"ground": -1}
    hinges = {name: _start(joint.markers[0].start_position) for name, (_, joint) in parents.items()}
    hinges["ground"] = np.zeros(3)
    links = []
    for name in order:
        above, joint = parents[name]
        body = model.bodies[name]
        spin = _spin(body) - (_spin(model.bodies[above]) if above != "ground" else 0.0)
        axis = _axis(joint)
        links.append(
            Link(
                name, body.mass, _inertia(body), _start(body.position) - hinges[name], number[above],
                hinges[name] - hinges[above], axis, float(axis @ spin),
            )
        )  # fmt: skip
    closures = []
    for joint in closing:
        a, b = (body.name for body in joint.bodies)
        if a == "ground":
            a, b = b, a
        at = _start(joint.markers[0].start_position)
        closures.append(Closure(number[a], at - hinges[a], number[b], at - hinges[b], _axis(joint)))
    torques, springs = _loads(model, number, hinges)
    order_of_bodies = np.array([number[name] for name in names])
    return Tree(
        model.space == "plane", tuple(links), tuple(closures), _start(model.gravity), torques, springs, order_of_bodies
    )


def _span(model) -> tuple[dict, list]:
    """Parent and joint of each body, breadth first from ground (short branches), and the joints left over."""
    parents: dict = {}
    used: set[str] = set()
    queue = ["ground"]
    for here in queue:
        for joint in model.constraints.values():
            ends = [body.name for body in joint.bodies]
            if here not in ends:
                continue
            there = ends[1 - ends.index(here)]
            if there != "ground" and there not in parents:
                parents[there] = (here, joint)
                used.add(joint.name)
                queue.append(there)
    return parents, [j for j in model.constraints.values() if j.name not in used]


def _depth_first(names, parents) -> list[str]:
    order, stack = [], [n for n in reversed(names) if parents[n][0] == "ground"]
    while stack:
        here = stack.pop()
        order.append(here)
        stack += [n for n in reversed(names) if parents[n][0] == here]
    return order


def _loads(model, number, hinges):
    torques, springs = [], []
    for force in model.forces.values():
        body = force.bodies[-1].name
        if force.type == "torque":
            torques.append((number[body], float(np.ravel(next(iter(force.numbers.values())))[0])))
        else:
            anchor, hook = (_start(m.start_position) for m in force.markers)
            stiffness, length = float(force.numbers["stiffness"]), float(force.numbers["length"])
            springs.append(Spring(number[body], hook - hinges[body], anchor, stiffness, length))
    return tuple(torques), tuple(springs)


def _start(vector) -> np.ndarray:
    """A vector of the plane or of space as one of space."""
    vector = np.asarray(vector, float)
    return np.append(vector, 0.0) if len(vector) == 2 else vector


def _axis(joint) -> np.ndarray:
    R = joint.markers[0].start_rotation
    return np.array([0.0, 0.0, 1.0]) if R.shape == (2, 2) else R[:, 2]


def _spin(body) -> np.ndarray:
    spin = np.atleast_1d(np.asarray(body.angular_velocity, float))
    return np.array([0.0, 0.0, spin[0]]) if spin.size == 1 else body.rotation @ spin


def _inertia(body) -> np.ndarray:
    """In world axes; in the plane the moment about the normal stands for all three."""
    inertia = np.asarray(body.inertia, float)
    return float(inertia.ravel()[0]) * np.eye(3) if inertia.size == 1 else body.rotation @ inertia @ body.rotation.T


def _turns(axis, angles) -> np.ndarray:
    """Rotations (times, 3, 3) about a fixed axis (Rodrigues)."""
    x, y, z = axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    s, c = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    return np.eye(3) + s * K + (1 - c) * (K @ K)
