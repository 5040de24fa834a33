"""7 · analysis: which reactions are reliable, which equations depend on each other, and what could be released.

Three methods decide whether the reaction of a joint X is unique [Wojtyra, Fraczek 2013, section 3.3]; with C_X its rows
and C_Y all others:

    ranks             rank C_X + rank C_Y = rank C          (the space of reactions is a direct sum)
    singular values   C_Xᵀ U_X = 0, U the left singular vectors of C with σ = 0
    QR                B_X = C_Xᵀ Q_X = 0 (eq. 27), Q_X the last p columns of Q in C E = Q R, rows of X

All work on the same unit rows in the mass metric. Finer than that: each component in the joint's frame, and the
combinations of components that are unique although their parts are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dalembert.linalg import RANK_TOLERANCE, ZERO, Combination, Dependence, null_by_qr, removable, short_dependencies
from dalembert.reactions import JointRows, Uniqueness

METHODS = ("ranks", "singular values", "qr")
RANKS_UP_TO = 300
"""Largest number of rows for which the method of ranks is used too: it factorises C once for each joint."""

Groups = Mapping[str, Sequence[int]]


def by_ranks(C: np.ndarray, groups: Groups, tolerance: float = RANK_TOLERANCE) -> dict[str, bool]:
    """Unique where rank C_X + rank C_Y = rank C."""

    def rank(rows: np.ndarray) -> int:
        values = np.linalg.svd(rows, compute_uv=False) if rows.size else np.zeros(1)
        return int(np.sum(values > tolerance * values[0])) if values[0] > 0 else 0

    whole = rank(C)
    out = {}
    for name, rows in groups.items():
        others = np.setdiff1d(np.arange(len(C)), rows)
        out[name] = rank(C[list(rows)]) + rank(C[others]) == whole
    return out


def by_singular_values(C: np.ndarray, groups: Groups, tolerance: float = RANK_TOLERANCE) -> dict[str, bool]:
    """Unique where C_Xᵀ U_X = 0 with the left singular vectors of σ = 0."""
    U, values, _ = np.linalg.svd(C)
    rank = int(np.sum(values > tolerance * values[0]))
    return {name: _zero(C[list(rows)].T @ U[list(rows), rank:]) for name, rows in groups.items()}


def b_matrices(C: np.ndarray, groups: Groups, tolerance: float = RANK_TOLERANCE) -> dict[str, np.ndarray]:
    """B_X (n × p) of every group [Wojtyra, Fraczek 2013, eq. 27], by QR with column pivoting."""
    _, Q = null_by_qr(C, tolerance)
    return {name: C[list(rows)].T @ Q[list(rows)] for name, rows in groups.items()}


def by_qr(C: np.ndarray, groups: Groups, tolerance: float = RANK_TOLERANCE) -> dict[str, bool]:
    """Unique where B_X = 0."""
    return {name: _zero(B) for name, B in b_matrices(C, groups, tolerance).items()}


def _zero(B: np.ndarray) -> bool:
    return bool(np.max(np.abs(B), initial=0.0) <= ZERO)


# ---- the answers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JointSolvability:
    """One joint, driver, wheel or group of rows: is its reaction unique, and which components are.

    `components` lists what the joint can transmit, in the joint's frame; `values` the unique ones at this instant;
    `methods` the answer of each method.
    """

    name: str
    kind: str
    unique: bool
    components: dict[str, bool]
    values: dict[str, float]
    methods: dict[str, bool]


@dataclass(frozen=True)
class Term:
    """A component (or a direction) of a joint with a coefficient."""

    joint: str
    name: str
    coefficient: float


@dataclass(frozen=True)
class UniqueSum:
    """A combination of components that is unique although none of them is; `value` at this instant."""

    terms: tuple[Term, ...]
    value: float

    def __str__(self) -> str:
        return _sum(self.terms)


@dataclass(frozen=True)
class DependentGroup:
    """A minimal set of locked directions of which each follows from the others.

    The coefficients are also a set of reactions without any effect (torques over the characteristic length).
    """

    terms: tuple[Term, ...]

    @property
    def joints(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t.joint for t in self.terms))

    def __str__(self) -> str:
        parts = [f"{' '.join(t.name for t in self.terms if t.joint == j)} of {j}" for j in self.joints]
        return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} with {parts[-1]}"


@dataclass(frozen=True)
class Release:
    """Directions of one joint that may be freed without any new motion; `becomes` names the joint that remains."""

    joint: str
    directions: tuple[str, ...]
    becomes: str

    def __str__(self) -> str:
        return f"{' '.join(self.directions)} of {self.joint} ({self.becomes})"


@dataclass(frozen=True)
class Solvability:
    """All about reactions at one instant; see the fields' classes."""

    joints: tuple[JointSolvability, ...]
    sums: tuple[UniqueSum, ...]
    groups: tuple[DependentGroup, ...]
    clusters: tuple[tuple[str, ...], ...] = field(default=())
    releases: tuple[Release, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.joints[0].methods) if self.joints else ()

    @property
    def agree(self) -> bool:
        """Whether all methods agree on every joint."""
        return all(len(set(j.methods.values())) <= 1 for j in self.joints)

    def joint(self, name: str) -> JointSolvability:
        return next(j for j in self.joints if j.name == name)


def solve_solvability(
    joints: list[JointRows],
    dependence: Dependence,
    lam: np.ndarray | None,
    elsewhere: Sequence[Solver] = (),
    typical: float = 0.0,
) -> Solvability:
    """The whole analysis at one instant; λ (any that has the effect) gives the values of what is unique.

    `elsewhere` are other configurations, in which suggested releases must hold too. `typical` is the size of a force
    that the machine makes: far below it a value is zero.
    """
    solver = Solver(joints, dependence, lam, typical)
    methods = _methods(joints, dependence)
    rows = tuple(solver.joint(j, methods) for j in joints)
    clusters = short_dependencies(solver.directed_null)
    groups = [solver.group(c) for cluster in clusters for c in cluster]
    named = tuple(tuple(dict.fromkeys(j for g in map(solver.group, c) for j in g.joints)) for c in clusters)
    return Solvability(rows, solver.sums(), tuple(groups), named, solver.releases(elsewhere))


def _methods(joints: list[JointRows], dependence: Dependence) -> dict[str, dict[str, bool]]:
    groups = {j.name: j.rows for j in joints}
    C, tolerance = dependence.rows, dependence.tolerance
    if dependence.redundancy == 0:
        # full rank: Q and U have no columns left, and ranks add up; nothing to compute
        return {method: dict.fromkeys(groups, True) for method in METHODS}
    null = dependence.null
    out = {"singular values": {x: _zero(C[list(rows)].T @ null[list(rows)]) for x, rows in groups.items()}}
    Q = dependence.null_by_qr()
    out["qr"] = {x: _zero(C[list(rows)].T @ Q[list(rows)]) for x, rows in groups.items()}
    if len(C) <= RANKS_UP_TO:
        out["ranks"] = by_ranks(C, groups, tolerance)
    return {method: out[method] for method in METHODS if method in out}


class Solver:
    """Null vectors of one instant, read in components and in directions."""

    def __init__(
        self, joints: list[JointRows], dependence: Dependence, lam: np.ndarray | None = None, typical: float = 0.0
    ):
        self.joints = joints
        self.lam = lam
        loads = [np.abs(j.functionals @ lam[list(j.rows)]) * j.units for j in joints] if lam is not None else []
        self.load = max((float(np.max(x, initial=0.0)) for x in loads), default=0.0)
        self.load = max(self.load, typical)
        self.uniqueness = Uniqueness(joints, dependence)
        self.dependence = dependence
        self.directions = [d for j in joints for d in j.directions]
        # λ = T λ' with λ' along the directions, in the size of a force
        null = dependence.null / dependence.sizes[:, None]
        parts: list[np.ndarray] = [np.zeros((0, null.shape[1]))]
        for j in joints:
            if j.rows:
                parts.append(np.linalg.solve(np.array([d.rows for d in j.directions]).T, null[list(j.rows)]))
        directed = np.concatenate(parts)
        self.directed_null = np.linalg.qr(directed)[0] if directed.size else directed

    def _value(self, value: float, unit: float) -> float:
        """A number, with rounding set to zero."""
        return value if abs(value) * unit > 1e-11 * self.load else 0.0

    def joint(self, j: JointRows, methods) -> JointSolvability:
        components = self.uniqueness.components(j.name)
        answers = {method: answer[j.name] for method, answer in methods.items()}
        values = {}
        if self.lam is not None:
            found = dict(zip(j.labels, zip(j.functionals @ self.lam[list(j.rows)], j.units, strict=True), strict=True))
            values = {x: self._value(*map(float, found[x])) for x, unique in components.items() if unique}
        return JointSolvability(j.name, j.nature.label, all(answers.values()), components, values, answers)

    def sums(self) -> tuple[UniqueSum, ...]:
        """Short combinations of non-unique components that multipliers without effect leave as they are."""
        d = self.dependence
        parts, rows = [], []
        for j in self.joints:
            for label, unique in self.uniqueness.components(j.name).items():
                if not unique:
                    k = j.labels.index(label)
                    a = np.zeros(len(d.rows))
                    a[list(j.rows)] = j.functionals[k]
                    parts.append((j.name, label, j.units[k]))
                    rows.append(a)
        if not parts:
            return ()
        units = np.array([unit for *_, unit in parts])
        A = np.array(rows)
        scaled = A * units[:, None] / d.sizes
        size = np.linalg.norm(scaled, axis=1)
        free = (scaled / size[:, None]) @ d.null
        U, s, _ = np.linalg.svd(free)
        rank = int(np.sum(s > ZERO * s[0]))
        fixed = U[:, rank:] / size[:, None]
        if fixed.shape[1] == 0:
            return ()
        out = []
        for cluster in short_dependencies(np.linalg.qr(fixed)[0]):
            for c in cluster:
                # back from sizes of forces to the components' own units; the first term leads
                weights = c.coefficients * units[list(c.members)]
                weights = weights / weights[0]
                value = float("nan")
                if self.lam is not None:
                    value = self._value(float(weights @ (A[list(c.members)] @ self.lam)), units[c.members[0]])
                terms = (Term(parts[k][0], parts[k][1], float(w)) for k, w in zip(c.members, weights, strict=True))
                out.append(UniqueSum(tuple(terms), value))
        return tuple(out)

    def group(self, c: Combination) -> DependentGroup:
        named = [self.directions[k] for k in c.members]
        return DependentGroup(
            tuple(Term(d.joint, d.name, float(x)) for d, x in zip(named, c.coefficients, strict=True))
        )

    def releases(self, elsewhere: Sequence[Solver]) -> tuple[Release, ...]:
        """p directions to free, torques of joints first, drivers and user's rows last."""
        if self.directed_null.shape[1] == 0:
            return ()
        kinds = {j.name: j for j in self.joints}
        preference = [_reluctance(kinds[d.joint], d.torque) for d in self.directions]
        together = [d.joint for d in self.directions]
        chosen = removable(self.directed_null, preference, 0.1, together)
        for other in elsewhere:
            there = other.directed_null
            if there.shape != self.directed_null.shape:
                continue  # a singular pose: not what the machine is elsewhere
            if np.linalg.svd(there[chosen], compute_uv=False)[-1] < 1e-6:
                chosen = removable(self.directed_null, preference, 0.9)
        freed = {k: self.directions[k] for k in chosen}
        out = []
        for j in self.joints:
            names = tuple(d.name for d in freed.values() if d.joint == j.name)
            if names:
                left = [d for k, d in enumerate(self.directions) if d.joint == j.name and k not in freed]
                out.append(Release(j.name, names, _what_is_left(j, left)))
        return tuple(out)


def _reluctance(j: JointRows, torque: bool) -> float:
    if j.nature.drives:
        return 4
    if j.in_rows:
        return 3
    if len(j.rows) == 1:
        return 2
    return 0 if torque else 1


_LEFT = {
    (6, 3, 3): "a weld",
    (6, 3, 2): "a revolute",
    (6, 2, 3): "a prismatic joint",
    (6, 3, 1): "a universal joint",
    (6, 2, 2): "a cylindrical joint",
    (6, 3, 0): "a ball joint",
    (6, 2, 0): "a ball in a groove",
    (6, 1, 0): "a point on a surface",
    (3, 2, 0): "a revolute",
    (3, 1, 0): "a pin in a slot",
}


def _what_is_left(j: JointRows, left) -> str:
    if not left:
        return "drop it"
    if j.wrench is None or j.bodies > 2:
        return f"{len(left)} of {len(j.rows)} rows stay"
    torques = sum(d.torque for d in left)
    word = _LEFT.get((len(j.wrench), len(left) - torques, torques))
    return f"leaves {word}" if word else f"leaves {' '.join(d.name for d in left)}"


def _sum(terms: Sequence[Term]) -> str:
    text = ""
    for k, t in enumerate(terms):
        size = abs(t.coefficient)
        factor = "" if abs(size - 1) < 1e-6 else f"{size:.4g}·"
        sign = ("−" if t.coefficient < 0 else "") if k == 0 else (" − " if t.coefficient < 0 else " + ")
        text += f"{sign}{factor}{t.name}({t.joint})"
    return text
