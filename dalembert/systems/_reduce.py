"""2 · systems: families of rows with some of their rows removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dalembert.linalg import Group
from dalembert.systems._rows import Family


def some_rows(families: Sequence[Family], number: dict[int, int]) -> tuple[Family, ...]:
    """Each family split into parts whose members keep the same rows; `number` gives those kept their new numbers."""
    out = []
    for f in families:
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
    counts = int(upper.sum()), int(lower.sum())
    return Family(f.nature, names, group, *counts, _some(f.position, upper), _some(f.motion, lower), p, f.axes)


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
