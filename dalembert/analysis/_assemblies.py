"""7 · analysis: searches from many starts, and the assemblies that they find.

Starts are pseudo-random, always the same ones: every second of them is closed as a machine before it goes to the
targets. How many are enough is decided by Bayes' rule for multistart methods [Boender,
Rinnooy Kan 1987]: after N searches that found w different poses, all equally likely beforehand, the expected number of
poses is w(N − 1)/(N − w − 2); the search ends when that is below w + 0.1.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np

from dalembert._typing import Scalar
from dalembert.analysis._search import Found, Goal, search_all, search_quickly
from dalembert.analysis._targets import AbstractTarget, OfAxes, OfPoints, OfPose
from dalembert.reactions import Instant
from dalembert.stabilise import EXACT, State
from dalembert.systems import AbstractSystem, build, compiled_for_each, compiled_quickly

SEED = 20130305
OVER = 1e-3
"""Distance of two directions that a joint keeps parallel above which it counts as turned over: they are opposite."""
BATCH = 96
"""Starts that are tried at a time."""
MOST = 3840
"""Starts after which a search for assemblies ends in any case."""
MORE = 0.1
"""Expected number of poses that are not found yet, at which the search ends."""
SAME = 1e-5
"""Poses whose centres of mass and joint points are nowhere farther apart than this, in machine sizes, and whose hinges
are turned alike, are the same one: full turns, the sign of a quaternion, and a leg between balls or universal joints
that is turned about its own axis make no difference."""
FAR = np.pi
"""Starts are displaced by up to this much, in machine sizes or radians: all over the space of poses. Of a planar 3-RPR
they then find each of its six poses in 9 to 23 of 100 searches."""


WHOLE, POINTS = OfPose(), OfPoints()
"""What two poses are compared by."""


def _displaced(system, q, delta):
    return system.retract(q, delta)


def _lifted(system, q):
    return system.lift(q, jnp.zeros(system.n))[0]


_displaced_all, _lifted_all = compiled_for_each(_displaced, 2), compiled_for_each(_lifted, 1)


class Starts:
    """Rough guesses all over the space of poses, always the same ones.

    In space they are made in joint coordinates, along a spanning tree of the machine's joints: rows of hinges and
    guides hold as well where a joint is turned over, and from bodies thrown anywhere most searches would end there.
    """

    def __init__(self, system: AbstractSystem, q: np.ndarray, t: Scalar):
        self.system, self.q, self.t = system, q, t

    @functools.cached_property
    def tree(self) -> AbstractSystem | None:
        return _tree(self.system)

    @functools.cached_property
    def axes(self) -> OfAxes | None:
        return kept_axes(self.system, self.t, self.q)

    def some(self, first: int, count: int) -> np.ndarray:
        """Guesses number `first` and on."""
        made, q = (self.system, self.q) if self.tree is None else (self.tree, np.asarray(self.tree.q0))
        scale = np.asarray(made.scale())
        away = [FAR * np.random.default_rng([SEED, k]).uniform(-1, 1, made.n) for k in range(first, first + count)]
        out = np.asarray(_displaced_all(made, np.broadcast_to(q, (count, len(q))), np.array(away) * scale))
        return out if self.tree is None else np.asarray(_lifted_all(self.tree, out))

    def turned_over(self, poses: np.ndarray) -> np.ndarray:
        """Which poses have a joint turned over."""
        bodies, none = self.system.bodies, np.zeros(len(poses), bool)
        if bodies is None or bodies.kinematics.d == 2 or not len(poses):
            return none
        # no joint is, where no body has turned by 60° since the start
        far = np.abs(places_of(self.system, poses) - places_of(self.system, self.q[None]))
        if np.max(far[:, 3 * len(bodies.body_names) :]) < 0.5 or self.axes is None:
            return none
        return np.max(np.abs(places_of(self.system, poses, self.axes)), axis=1) > OVER


def _tree(system: AbstractSystem) -> AbstractSystem | None:
    """The machine in joint coordinates, where it is one of bodies in space with coordinates of their own."""
    bodies = system.bodies
    if bodies is None or bodies is not system or bodies.kinematics.d == 2 or not bodies.origin.known:
        return None
    return build(bodies.origin.model(), coordinates="joint")


def kept_axes(system: AbstractSystem, t: Scalar, q: np.ndarray) -> OfAxes | None:
    """The axes that joints in space keep parallel, read off their rows at a closed pose; None if there are none.

    Rows of orientation are products of directions that vanish, so they hold as well where a joint is turned over, which
    no machine can do. Combinations of a joint's rows without a force lock rotations; the axis that is left free by two
    of them, or two axes where all three are locked, are the same in both bodies.
    """
    from scipy.linalg import null_space  # not while a command starts: a tenth of a second

    bodies = system.bodies
    if bodies is None or bodies.kinematics.d == 2:
        return None
    here = Instant(system, t, State(q, np.zeros(system.n)))
    R = np.asarray(_rotations(system, q))
    views = {j.name: j for j in bodies.joints}
    first, second, own, others = [], [], [], []
    for joint in here.joints:
        view = views[joint.name]
        if joint.in_rows or joint.nature.drives or joint.wrench is None or joint.axes is None or len(view.blocks) != 2:
            continue
        force, torque = joint.wrench[:3], joint.wrench[3:] / joint.length
        free_of_force = null_space(force, rcond=1e-8)
        U, values = np.linalg.svd(torque @ free_of_force)[:2] if free_of_force.size else (np.eye(3), np.zeros(0))
        locked = int(np.sum(values > 1e-6 * max(np.max(np.abs(torque), initial=0.0), 1e-300)))
        for axis in {2: [U[:, 2]], 3: [U[:, 0], U[:, 1]]}.get(locked, ()):
            world = joint.axes @ axis
            i, j = view.blocks
            first.append(i)
            second.append(j)
            own.append(R[i].T @ world)
            others.append(R[j].T @ world)
    return OfAxes(tuple(first), tuple(second), np.array(own), np.array(others)) if first else None


@compiled_quickly
def _rotations(system, q):
    return system.bodies.places(system.lift(q, jnp.zeros(system.n))[0]).R


class Tries:
    """Searches for one goal from the starts, a batch at a time."""

    def __init__(self, starts: Starts, targets: tuple[AbstractTarget, ...], goal: Goal, t: Scalar):
        self.starts, self.system, self.t = starts, starts.system, np.asarray(t, float)
        self.targets, self.goal = targets, goal
        self.tried = 0

    def more(self, count: int = BATCH) -> Found:
        """The next batch of searches, as arrays with a row for each; the gap of one that turned a joint over is
        infinite."""
        guesses = self.starts.some(self.tried, count)
        self.tried += count
        # every second one as a closed machine, from which the targets are reached along its own motions
        machine = self.goal.without_targets(self.system.m_holonomic)
        closed = np.asarray(search_all(self.system, self.targets, machine, self.t, guesses).q)
        guesses = np.where((np.arange(count) % 2 == 0)[:, None], closed, guesses)
        found = Found(*map(np.asarray, search_all(self.system, self.targets, self.goal, self.t, guesses)))
        return found._replace(gap=np.where(self.starts.turned_over(np.asarray(found.q)), np.inf, found.gap))

    def closed(self, count: int = BATCH) -> np.ndarray:
        """The poses of the next batch at which all exact rows hold."""
        found = self.more(count)
        return np.asarray(found.q)[np.asarray(found.gap) < EXACT]


def places_of(system: AbstractSystem, poses, of: AbstractTarget = WHOLE) -> np.ndarray:
    """The places of all bodies in machine sizes, a row for each pose: equal for equal poses."""
    poses = np.asarray(poses)
    return np.asarray(_places(system, of, poses)) if len(poses) else np.zeros((0, 1))


def _place(system, target, q):
    return target.value(system, 0.0, q)


_places = compiled_for_each(_place, 1)


class Assemblies:
    """Different poses, in the order in which they were found."""

    def __init__(self, tries: Tries, first: np.ndarray):
        self.tries, self.system = tries, tries.system
        self.poses = [np.asarray(first)]
        self.places = places_of(self.system, self.poses, POINTS)
        self.searches = 1

    def add(self, poses: np.ndarray) -> None:
        """Take up those that are new."""
        for pose, place in zip(poses, places_of(self.system, poses, POINTS), strict=True):
            self.searches += 1
            if np.min(np.max(np.abs(self.places - place), axis=1)) > SAME:
                self.poses.append(pose)
                self.places = np.vstack([self.places, place])

    @property
    def enough(self) -> bool:
        """Whether another pose is unlikely [Boender, Rinnooy Kan 1987]."""
        w, N = len(self.poses), self.searches
        return w + 2 < N and w * (N - 1) / (N - w - 2) < w + MORE

    def in_order(self) -> list[np.ndarray]:
        """The others, nearest to the first one first."""
        far = np.linalg.norm(self.places - self.places[0], axis=1)
        return [self.poses[k] for k in np.argsort(far, kind="stable")[1:]]


class Families(Assemblies):
    """Of poses with motions left free: two belong together if one comes to the other on the way on which their distance
    falls, all exact rows held; and so do those that are linked by others. `poses` are the first of each family."""

    def __init__(self, tries, first):
        super().__init__(tries, first)
        self.members, self.family = self.places, [0]

    def add(self, poses):
        for pose, place in zip(poses, places_of(self.system, poses, POINTS), strict=True):
            self.searches += 1
            linked = sorted({x for x in set(self.family) if self._leads_to(pose, place, x)})
            own = linked[0] if linked else max(self.family) + 1
            if not linked:
                self.poses.append(pose)
                self.places = np.vstack([self.places, place])
            self.family = [own if x in linked else x for x in self.family]
            self.members, self.family = np.vstack([self.members, place]), [*self.family, own]
            firsts = [self.family.index(x) for x in dict.fromkeys(self.family)]
            kept = [k for k, x in enumerate(self.places) if any(np.array_equal(x, self.members[i]) for i in firsts)]
            self.poses, self.places = [self.poses[k] for k in kept], self.places[kept]

    def _leads_to(self, pose, place, family: int) -> bool:
        """Whether a pose leads to the nearest one of a family that is known."""
        own = self.members[[x == family for x in self.family]]
        there = own[np.argmin(np.linalg.norm(own - place, axis=1))]
        if np.max(np.abs(there - place)) <= SAME:
            return True
        goal, size = self.tries.goal, len(place)
        exact = np.concatenate([goal.exact, np.zeros(size)])
        weight, scales = (np.concatenate([x, np.ones(size)]) for x in (goal.weight, goal.scales))
        goal = Goal(exact, weight, (*goal.wanted, there), scales)
        targets = (*self.tries.targets, POINTS)
        return bool(search_quickly(self.system, targets, goal, self.tries.t, pose).misfit < SAME)


def unwound(system: AbstractSystem, pose: np.ndarray, near: np.ndarray) -> np.ndarray:
    """The same pose with the angles that count full turns within half a turn of another one's; only where no body is
    elsewhere then."""
    count = len(pose)
    turned = places_of(system, np.concatenate([pose[None], pose + 2 * np.pi * np.eye(count)]))
    free = np.max(np.abs(turned[1:] - turned[0]), axis=1) < 1e-9
    return np.where(free, pose - 2 * np.pi * np.round((pose - near) / (2 * np.pi)), pose)


def all_assemblies(tries: Tries, first: np.ndarray, *, families: bool) -> Assemblies:
    """All poses of a goal that are found, beginning with a known one; of families of poses one of each."""
    found = (Families if families else Assemblies)(tries, first)
    while not found.enough and tries.tried < MOST:
        found.add(tries.closed())
    return found
