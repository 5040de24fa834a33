"""5c· reactions: which of them the rigid-body model determines [Wojtyra, Fraczek 2013], component by component.

All multipliers with the same reaction differ by S Z y, ĈᵀZ = 0 (`linalg.Dependence`). A number aᵀλ is unique if aᵀS Z
vanishes; the reaction of a joint X is unique if C_XᵀS_X Z_X does (their B_X, eq. 27).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import numpy as np

from dalembert._results import DalembertError
from dalembert.equations import Equations
from dalembert.linalg import ZERO, Dependence
from dalembert.systems import AbstractSystem, Nature, compiled_quickly

LABELS = {3: ("Fx", "Fy", "Mz"), 6: ("Fx", "Fy", "Fz", "Mx", "My", "Mz")}
"""Names of a wrench's components, in the plane and in space."""
UNITS = dict.fromkeys(("Fx", "Fy", "Fz"), "N") | dict.fromkeys(("Mx", "My", "Mz"), "N m")
"""Their units. Rows that are not one joint's have none."""


@dataclass(frozen=True)
class Direction:
    """One locked direction of a joint: its name, and the combination of the joint's rows that locks it."""

    joint: str
    name: str
    rows: np.ndarray  # coefficients on the joint's rows
    torque: bool
    main: str = ""  # the component it is nearest to


@dataclass(frozen=True)
class JointRows:
    """A joint (driver, wheel, user's rows): its rows of C and what they do.

    `wrench` (w × r) takes λ to force and torque on body j at marker j in the joint frame, whose axes are `axes`; for
    rows over three and more bodies (a coupling) on the last of them, at its centre; it is None without bodies.
    `length` makes torques comparable with forces.
    """

    name: str
    nature: Nature
    rows: tuple[int, ...]
    wrench: np.ndarray | None = None
    axes: np.ndarray | None = None
    length: float = 1.0
    bodies: int = 2

    @property
    def in_rows(self) -> bool:
        """Whether its components are its rows: a user's rows, and those over several bodies, are not one joint's."""
        return self.wrench is None or self.bodies > 2 or self.nature.own_rows

    @property
    def labels(self) -> tuple[str, ...]:
        if self.in_rows:
            return tuple(f"row {k + 1}" for k in range(len(self.rows))) if len(self.rows) > 1 else ("row",)
        assert self.wrench is not None
        return LABELS[len(self.wrench)]

    @functools.cached_property
    def functionals(self) -> np.ndarray:
        """Each component as a function of the joint's λ (components × r)."""
        return np.eye(len(self.rows)) if self.in_rows or self.wrench is None else self.wrench

    @functools.cached_property
    def units(self) -> np.ndarray:
        """Scale factors that turn each component into a force."""
        if self.in_rows or self.wrench is None:
            return np.ones(len(self.rows))
        d = 2 if len(self.wrench) == 3 else 3
        return np.where(np.arange(len(self.wrench)) < d, 1.0, 1.0 / self.length)

    @functools.cached_property
    def transmitted(self) -> np.ndarray:
        """Which components the joint can transmit at all."""
        if self.in_rows:
            return np.ones(len(self.rows), bool)
        return np.max(np.abs(self._unit_columns[0]), axis=1, initial=0.0) > ZERO

    @property
    def _unit_columns(self) -> tuple[np.ndarray, np.ndarray]:
        """The wrench of each row as forces, of unit length, and the lengths."""
        assert self.wrench is not None
        scaled = self.wrench * self.units[:, None]
        norms = np.linalg.norm(scaled, axis=0)
        return scaled / np.where(norms > 0, norms, 1.0), norms

    @functools.cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The locked directions, along the joint's axes where its rows allow it, however the rows are written."""
        count = len(self.rows)
        if self.in_rows or self.wrench is None:
            return tuple(Direction(self.name, self.labels[k], np.eye(count)[k], False) for k in range(count))
        columns, norms = self._unit_columns
        E, T, pivots = _column_echelon(columns)
        if len(pivots) < count:  # rows that lock nothing, or one thing twice
            return tuple(Direction(self.name, f"row {k + 1}", np.eye(count)[k], False) for k in range(count))
        d = 2 if len(self.wrench) == 3 else 3
        out = []
        for k in range(count):
            e = E[:, k] / np.linalg.norm(E[:, k])
            main = LABELS[len(e)][int(np.argmax(np.abs(e)))]
            out.append(Direction(self.name, _direction_name(e, d), T[:, k] / norms, bool(np.all(e[:d] == 0)), main))
        return tuple(out)


def joint_rows(system: AbstractSystem, equations: Equations) -> list[JointRows]:
    """All joints of a system with the wrenches of their rows at one instant."""
    bodies = system.bodies
    if bodies is None:
        return [JointRows(o.name, o.nature, o.rows) for o in system.owners]
    found = {}
    for family, (wrenches, axes) in zip(bodies.families, _row_wrenches(bodies, equations), strict=True):
        count = family.group.columns.shape[1]
        wrenches, axes = np.asarray(wrenches), np.asarray(axes)  # all at once: indexing a JAX array is slow
        for k, name in enumerate(family.names):
            rows = tuple(int(r) for r in family.group.rows[k])
            frame = wrenches[k].T, axes[k]
            found[name] = JointRows(name, family.nature, rows, *frame, float(bodies.size), count)
    return [found[o.name] for o in system.owners]


@compiled_quickly
def _row_wrenches(bodies, equations: Equations):
    return bodies.row_wrenches(equations.q, equations.rows)


class Uniqueness:
    """Answers at one instant: `reaction(joint)`, `component(joint, label)`, `mask(joint, frame)`."""

    def __init__(self, joints: list[JointRows], dependence: Dependence):
        self.joints = {j.name: j for j in joints}
        self.dependence = dependence

    def freedom(self, joint: str, functional: np.ndarray) -> float:
        """How much aᵀλ, a on the joint's rows, can change by multipliers without effect; 0 if unique, at most 1."""
        rows = list(self.joints[joint].rows)
        a = functional / self.dependence.sizes[rows]
        size = np.linalg.norm(a)
        return float(np.linalg.norm(a @ self.dependence.null[rows]) / size) if size > 0 else 0.0

    def reaction(self, joint: str) -> bool:
        """Whether the whole reaction C_Xᵀλ_X is unique."""
        rows = list(self.joints[joint].rows)
        B = self.dependence.rows[rows].T @ self.dependence.null[rows]
        return bool(np.max(np.abs(B), initial=0.0) <= ZERO)

    def component(self, joint: str, label: str) -> bool:
        j = self.joints[joint]
        return self.freedom(joint, j.functionals[j.labels.index(label)]) <= ZERO

    def components(self, joint: str) -> dict[str, bool]:
        """The components that the joint transmits, and whether each is unique."""
        j = self.joints[joint]
        return {x: self.component(joint, x) for x, there in zip(j.labels, j.transmitted, strict=True) if there}

    def width(self, joint: str, lam: np.ndarray, frame: str = "joint") -> np.ndarray:
        """How far multipliers without effect, as large as λ's part that has one, move each component either way.

        Sizes of multipliers are those of the unit rows in the mass metric, so no unit enters.
        """
        d = self.dependence
        rows, scaled = list(self.joints[joint].rows), lam * d.sizes
        load = np.linalg.norm(scaled - d.null @ (d.null.T @ scaled))
        return load * np.linalg.norm(self.wrench(joint, frame) / d.sizes[rows] @ d.null[rows], axis=1)

    def wrench(self, joint: str, frame: str) -> np.ndarray:
        """The joint's components as functions of its λ, in the joint's or in the world's axes."""
        j = self.joints[joint]
        if j.wrench is None or j.axes is None or frame == "joint":
            return j.functionals if j.wrench is None else j.wrench
        d, W = len(j.axes), j.wrench
        return np.concatenate([j.axes @ W[:d], W[d:] if d == 2 else j.axes @ W[d:]])

    def mask(self, joint: str, frame: str = "joint") -> np.ndarray:
        """Unique or not for all components, in the joint's or in the world's axes; what is always zero is unique."""
        j = self.joints[joint]
        if j.wrench is None or j.axes is None:
            return np.full(len(j.labels), self.reaction(joint))
        d, W = len(j.axes), self.wrench(joint, frame)
        # round-off of a component that is not transmitted must not count as freedom; compared per multiplier of a unit
        # row and as forces, so that no unit enters
        scaled = W / self.dependence.sizes[list(j.rows)]
        sizes = np.linalg.norm(scaled, axis=1) / np.where(np.arange(len(W)) < d, 1.0, j.length)
        transmitted = sizes > ZERO * np.max(sizes, initial=0.0)
        return np.array([not c or self.freedom(joint, a) <= ZERO for a, c in zip(W, transmitted, strict=True)])


def row_numbers(system: AbstractSystem, rows) -> tuple[int, ...]:
    """Rows of C from numbers (from 0), joints' names ("W4": all its rows) or "C[1]" (the second row of C)."""
    owners = {o.name: o.rows for o in system.owners}
    out: list[int] = []
    for item in rows:
        if isinstance(item, int | np.integer):
            if not 0 <= item < system.m:
                raise DalembertError(f"There is no row {item}; rows are numbered 0 … {system.m - 1}.")
            out.append(int(item))
            continue
        match = None if item in owners else re.fullmatch(r"(.*)\[(\d+)\]", str(item))
        name, index = (match[1], int(match[2])) if match else (str(item), None)
        if name not in owners or (index is not None and index >= len(owners[name])):
            raise DalembertError(
                f"There are no rows '{item}'; name a joint ({', '.join(owners)}) or 'joint[k]', k from 0."
            )
        out += owners[name] if index is None else [owners[name][index]]
    return tuple(sorted(set(out)))


def row_name(system: AbstractSystem, row: int) -> str:
    """The name of a row: its joint, and if that has several its place in it, as `row_numbers` reads it."""
    owner = system.owner_of(row)
    return owner.name if len(owner.rows) == 1 else f"{owner.name}[{owner.rows.index(row)}]"


def _column_echelon(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """(E, T, pivots) with A T = E, an identity at the first pivot rows that allow it; rounding set to zero."""
    E, T = np.array(A, float), np.eye(A.shape[1])
    pivots: list[int] = []
    for row in range(len(E)):
        k = len(pivots)
        if k == E.shape[1]:
            break
        column = k + int(np.argmax(np.abs(E[row, k:])))
        if abs(E[row, column]) < 1e-6:
            continue
        for X in (E, T):
            X[:, [k, column]] = X[:, [column, k]]
        scale = E[row, k]
        E[:, k] /= scale
        T[:, k] /= scale
        for j in range(E.shape[1]):
            if j != k:
                share = E[row, j]
                E[:, j] -= share * E[:, k]
                T[:, j] -= share * T[:, k]
        pivots.append(row)
    E[np.abs(E) < ZERO] = 0
    return E, T, pivots


def _direction_name(e: np.ndarray, d: int) -> str:
    labels = LABELS[len(e)]
    there = np.flatnonzero(e)
    if len(there) == 1:
        return labels[there[0]]
    if np.all(e[d:] == 0):
        return f"F({', '.join(f'{x:.2g}' for x in e[:d])})"
    if np.all(e[:d] == 0):
        return f"M({', '.join(f'{x:.2g}' for x in e[d:])})"
    return "".join(f"{'+' if e[k] > 0 else '−'}{labels[k]}" for k in there).lstrip("+")
