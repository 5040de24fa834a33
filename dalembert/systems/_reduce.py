"""2 · systems: a system with some of its rows left out; bodies, forces and coordinates stay."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dalembert._results import DalembertError
from dalembert.linalg import KLU, BlockPattern, Group
from dalembert.systems._absolute import AbsoluteSystem
from dalembert.systems._base import AbstractSystem, Family, RowOwner
from dalembert.systems._tree import TreeSystem


def without_rows(system: AbstractSystem, rows: Sequence[int]) -> AbsoluteSystem | TreeSystem:
    """The same machine without these rows of C; items that lose all their rows are gone from its lists."""
    if isinstance(system, TreeSystem):  # `absolute`, in which reactions are stated, keeps them
        carrier = without_rows(system.carrier, rows)
        assert isinstance(carrier, AbsoluteSystem)
        group = [Group([range(carrier.m)], [[0]])] if carrier.m else []
        pattern = BlockPattern(carrier.m, 1, system.tree.nv, group)
        return dataclasses.replace(
            system, carrier=carrier, pattern=pattern, m_holonomic=carrier.m_holonomic, owners=carrier.owners
        )
    if not isinstance(system, AbsoluteSystem):
        raise DalembertError("Rows can be left out of a built model only; write a FunctionSystem without them.")
    kept = np.setdiff1d(np.arange(system.m), rows)
    number = {int(old): new for new, old in enumerate(kept)}
    families = _families(system, number)
    where = {name: (f, k) for f, family in enumerate(families) for k, name in enumerate(family.names)}
    owners = [RowOwner(o.name, o.kind, tuple(number[r] for r in o.rows if r in number)) for o in system.owners]
    joints = tuple(
        dataclasses.replace(j, family=where[j.name][0], member=where[j.name][1])
        for j in system.joints
        if j.name in where
    )
    pattern = BlockPattern(len(kept), system.pattern.blocks, system.pattern.width, [f.group for f in families])
    mask = system.kinematics.mass_mask()
    return dataclasses.replace(
        system,
        families=families,
        joints=joints,
        owners=tuple(o for o in owners if o.rows),
        pattern=pattern,
        m_holonomic=int(np.sum(kept < system.m_holonomic)),
        klu=KLU.analyse(pattern, mask) if system.klu is not None and len(kept) else None,
    )


def _families(system: AbsoluteSystem, number: dict[int, int]) -> tuple[Family, ...]:
    """Each family split into parts whose members keep the same rows."""
    out = []
    for f in system.families:
        parts: dict[tuple[bool, ...], list[int]] = defaultdict(list)
        for k, rows in enumerate(f.group.rows):
            parts[tuple(int(r) in number for r in rows)].append(k)
        for keep, members in parts.items():
            if any(keep):
                out.append(_part(f, np.array(keep), members, number))
    return tuple(out)


def _part(f: Family, keep: np.ndarray, members: list[int], number: dict[int, int]) -> Family:
    rows = [[number[int(r)] for r in f.group.rows[k][keep]] for k in members]
    upper, lower = keep[: f.holonomic], keep[f.holonomic :]
    names = tuple(f.names[k] for k in members)
    group = Group(rows, f.group.columns[members])
    p = {key: value[np.array(members)] for key, value in f.p.items()}
    return Family(
        f.kind, names, group, int(upper.sum()), int(lower.sum()), _some(f.position, upper), _some(f.motion, lower), p
    )


def _some(rows: Callable | None, keep: np.ndarray) -> Callable | None:
    if rows is None or not keep.any():
        return None
    return rows if keep.all() else SomeRows(rows, tuple(int(k) for k in np.flatnonzero(keep)))


@dataclass(frozen=True)
class SomeRows:
    """Some of the rows that a row function states."""

    rows: Callable
    keep: tuple[int, ...]

    def __call__(self, *arguments):
        return self.rows(*arguments)[np.array(self.keep)]
