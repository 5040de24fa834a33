"""2 · systems: which links make up a tree of joints, and the indices of each; all static."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from dalembert.model import Link
from dalembert.systems._names import Renaming


class Tree:
    """Topology of the spanning tree; static, compared by content, hashed once.

    Links are numbered so that a parent comes before its children. `parents[k]` is the parent of link k (or −1),
    `bodies[b]` the link that is body b. A ball has three velocities, a weld none, every other link one.
    Joints that are `backward` have body j as the parent.
    """

    def __init__(self, parents, links: Sequence[Link], bodies, joints: Sequence[str], backward: Sequence[str] = ()):
        self.parents = np.asarray(parents, int)
        self.links = tuple(links)
        self.bodies = np.asarray(bodies, int)
        self.joints = tuple(joints)  # for each link, the joint it belongs to (a free body's own name)
        self.backward = frozenset(backward)
        self.carrying = {self.joints[k]: b for b, k in enumerate(self.bodies)}  # of each joint, its child body
        count = len(self.parents)
        self.count = count
        self.ball = np.array([x.ball for x in links], bool).reshape(count)
        self.slides = np.array([x.slides and not x.pitch for x in links], bool).reshape(count)
        self.q_sizes = [4 if x.ball else x.freedom for x in links]
        # coordinates and velocities: the indices of each link in q and v; one past the end means none
        q_sizes, v_sizes = self.q_sizes, [x.freedom for x in links]
        self.nq, self.nv = sum(q_sizes), sum(v_sizes)
        self.q_index = self._index(q_sizes, 4, self.nq)
        self.v_index = self._index(v_sizes, 3, self.nv)
        self.q_start = np.concatenate([[0], np.cumsum(q_sizes)]).astype(int)
        self.v_start = np.concatenate([[0], np.cumsum(v_sizes)]).astype(int)
        # for each velocity: its link, and which of the link's axes it is
        self.link_of = np.repeat(np.arange(count), v_sizes)
        self.axis_of = np.concatenate([np.arange(s) for s in v_sizes]).astype(int) if count else np.zeros(0, int)
        above = np.zeros((count, count), bool)  # above[i, k]: link i is k or one of its ancestors
        for k, parent in enumerate(self.parents):
            above[k, k] = True
            if parent >= 0:
                above[:, k] |= above[:, parent]
        self.above = above
        self.moved_by = above[self.link_of][:, self.bodies].T.astype(float)  # (bodies, velocities)
        self.axes_above = above[self.link_of][:, self.link_of]
        self.jumps = self._jumps()
        # q̇ is picked from (v, 0, the balls' quaternion rates), and each quaternion scaled by its own length
        self.balls = np.flatnonzero(self.ball)
        self.rate_of = np.full(self.nq, self.nv)
        self.ball_of = np.full(self.nq, len(self.balls))
        straight = np.flatnonzero((np.array(v_sizes) > 0) & ~self.ball)
        self.rate_of[self.q_index[straight, 0]] = self.v_index[straight, 0]
        quaternions = self.q_index[self.balls]
        self.rate_of[quaternions] = self.nv + 1 + np.arange(quaternions.size).reshape(quaternions.shape)
        self.ball_of[quaternions] = np.arange(len(self.balls))[:, None]
        self._set_key()

    def _set_key(self) -> None:
        key = (self.parents.tobytes(), self.links, self.bodies.tobytes(), self.joints, self.backward)
        self._key, self._hash = key, hash(key)

    def renamed(self, to: Renaming) -> Tree:
        """The same tree under other names; its tables are shared."""
        other = copy.copy(self)
        other.joints, other.backward = to.all(self.joints), frozenset(to.all(self.backward))
        other.carrying = {to(name): body for name, body in self.carrying.items()}
        other._set_key()
        return other

    def __getstate__(self):
        state = {k: x for k, x in vars(self).items() if k not in ("_key", "_hash")}
        return state | {"backward": sorted(self.backward)}  # in one order, whatever the process

    def __setstate__(self, state):
        vars(self).update(state | {"backward": frozenset(state["backward"])})
        self._set_key()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other) -> bool:
        return self is other or (isinstance(other, Tree) and self._key == other._key)

    @staticmethod
    def _index(sizes, width: int, none: int) -> np.ndarray:
        table, start = np.full((len(sizes), width), none), 0
        for k, size in enumerate(sizes):
            table[k, :size] = np.arange(start, start + size)
            start += size
        return table

    def _jumps(self) -> list[np.ndarray]:
        """Parent, grandparent, four up, …: until all have reached the ground (number `count`)."""
        jump = np.where(self.parents < 0, self.count, self.parents)
        out = []
        while np.any(jump < self.count):
            out.append(jump)
            jump = np.append(jump, self.count)[jump]
        return out
