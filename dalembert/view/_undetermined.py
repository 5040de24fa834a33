"""edge · pictures: the saved times at which reactions of a result are not determined, or its position is singular."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST = 3
"""Windows that are named one by one; of more the first and the last time are given."""
MOST_JOINTS = 6
MARKS = "unique_force", "unique_torque", "unique_force_in_joint", "unique_torque_in_joint"


@dataclass(frozen=True)
class Window:
    """Neighbouring saved times `first` … `last`, drawn from `low` to `high`, half-way to those beside them.

    `joints` are those with reactions that are not determined then although they are at other times; none where all
    reactions have a limit. `singular`: the rank is lower than at other times.
    """

    first: float
    last: float
    low: float
    high: float
    joints: tuple[str, ...]
    singular: bool


def windows(data, joint: str | None = None) -> tuple[Window, ...]:
    """The windows of a labelled result, or those of one joint."""
    if "time" not in data.sizes:
        return ()
    t = data["time"].values.astype(float)
    names, lost = _lost(data)
    lower = _lower_rank(data, len(t))
    if joint is not None:
        lost, lower = lost & (np.array(names) == joint), np.zeros(len(t), bool)
    reached = np.isfinite(t) & (np.isfinite(data["digits"].values) if "digits" in data else True)  # of a batch
    some = np.flatnonzero((lost.any(axis=1) | lower) & reached)
    out = []
    for run in np.split(some, np.flatnonzero(np.diff(some) > 1) + 1) if len(some) else ():
        a, b = run[0], run[-1]
        low, high = 0.5 * (t[a] + t[max(a - 1, 0)]), 0.5 * (t[b] + t[min(b + 1, len(t) - 1)])
        mine = tuple(x for x, gone in zip(names, np.any(lost[run], axis=0).tolist(), strict=True) if gone)
        out.append(Window(float(t[a]), float(t[b]), float(low), float(high), mine, bool(lower[run].any())))
    return tuple(out)


def in_words(found: Sequence[Window]) -> list[str]:
    """A sentence about reactions that are not determined, and one about singular positions where they have a limit."""
    lost = [w for w in found if w.joints]
    out = []
    if lost:
        names = list(dict.fromkeys(x for w in lost for x in w.joints))
        listed = ", ".join(names[:MOST_JOINTS]) + (
            f" and {len(names) - MOST_JOINTS} more" if names[MOST_JOINTS:] else ""
        )
        reason = (
            "singular position" if all(w.singular for w in lost) else "a singular position, or bodies of unlike mass"
        )
        out.append(f"not determined at {when(lost)} ({reason}): reactions of {listed}")
    limits = [w for w in found if not w.joints]
    if limits:
        out.append(f"singular position at {when(limits)}: reactions there are limits")
    return out


def when(found: Sequence[Window]) -> str:
    """ "t = 0 s", "t = 0.1 … 0.12 s", "t = 0 and 1.5 s", or "12 times, t = 0.1 … 5.3 s"."""
    spans = [f"{w.first:.6g}" if w.first == w.last else f"{w.first:.6g} … {w.last:.6g}" for w in found]
    if len(spans) > MOST:
        return f"{len(spans)} times, t = {found[0].first:.6g} … {found[-1].last:.6g} s"
    return "t = " + ", ".join(spans[:-1]) + (" and " if spans[1:] else "") + spans[-1] + " s"


def determined(data, joint: str, name: str) -> np.ndarray:
    """Which components `name` ("unique_force", …) of a joint are determined, but at singular positions."""
    flags = data[name].sel(joint=joint)
    if "time" not in flags.dims:
        return np.atleast_1d(flags.values)
    fully = "solvability" in data and str(data["solvability"].sel(joint=joint).values) == "unique"
    return np.atleast_1d(flags.any("time").values) | fully


def _lost(data) -> tuple[list[str], np.ndarray]:
    """Joints and other owners of rows, and (times, owners): what is not determined then and is at other times."""
    T, found = data.sizes["time"], {}
    fully = {}  # of these all is determined wherever the position is not singular
    if "solvability" in data:
        fully = dict(zip(map(str, data["joint"].values), data["solvability"].values == "unique", strict=True))
    independent = int(data.attrs.get("redundancy", 0)) == 0

    def add(owner: str, known: np.ndarray) -> None:
        known = known.reshape(T, -1)
        lost = np.any(~known & (known.any(axis=0) | fully.get(owner, independent)), axis=1)
        found[owner] = found.get(owner, False) | lost

    for name in MARKS:
        if name in data and "time" in data[name].dims:
            values = data[name].transpose("time", "joint", ...).values
            for k, owner in enumerate(map(str, data["joint"].values)):
                add(owner, values[:, k])
    if "unique_multiplier" in data and "time" in data["unique_multiplier"].dims:
        for k, owner in enumerate(map(str, data["row_owner"].values)):
            add(owner, data["unique_multiplier"].values[:, k])
    return list(found), np.stack(list(found.values()), axis=1) if found else np.zeros((T, 0), bool)


def _lower_rank(data, T: int) -> np.ndarray:
    """Times of lower rank than others; of a motion in parts, whose rows come and go, none."""
    if "rank" not in data or "time" not in data["rank"].dims or "phase_start" in data or T == 0:
        return np.zeros(T, bool)
    rank = data["rank"].values
    return rank < rank.max()
