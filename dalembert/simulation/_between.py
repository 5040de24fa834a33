"""6 · simulation: instants between those of a march at which something passes zero and comes back.

A march takes steps that its coordinates allow; where nothing moves they are as long as the run, while a load changes in
between. So gaps, numbers that are positive while a part lasts, are looked at ever closer: wherever the value
in the middle of an interval is not what its neighbours say, or the interval may have a minimum below zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CLOSER = 30
"""Times that an interval is halved at most."""
MOST = 200_000
"""Instants that are looked at in one stretch at most, besides those asked for."""
LEVEL = 1e-10
"""Share of its size by which a gap may vary in an interval and count as constant there."""
SURE = 8.0
"""How much larger than the error in the middle of an interval that in all of it may be."""
FLAT = 0.02
"""A minimum this close to an end of an interval, as a share of it, is the end's."""


class Crowded(Exception):
    """A stretch has more to look at than fits."""


def first_suspect(
    look: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]],
    t: np.ndarray,
    states: np.ndarray,
    more: np.ndarray,
) -> tuple[float, float] | None:
    """The first instant that seems to have a negative gap, and the last one before it that has none; None without one.

    `look(t, states)` gives gaps, the sizes that they are differences of, and whether they count as negative, each
    (times, gaps); `states` (times, …) are known at the times `t`, and interpolated between them; `more` are instants at
    which the machine is looked at in any case. The gaps at `t` count as positive.
    """
    apart = np.append(True, np.diff(t) > 1e-9 * (t[-1] - t[0]))
    t, states = t[apart], states[apart]
    if len(t) < 2:
        return None

    def at(times):
        return look(times, interpolated(t, states, times))

    gap, size, _ = look(t, states)
    times, bad = t, np.zeros(gap.shape, bool)
    more = np.setdiff1d(more[(more > t[0]) & (more < t[-1])], t)
    if more.size:
        times, (gap, size, bad) = _merged(times, (gap, size, bad), more, at(more))
    open_, known = np.ones(len(times) - 1, bool), len(times)
    least = 16 * np.spacing(np.max(np.abs(t)))
    for _ in range(CLOSER):
        until = int(np.argmax(bad.any(axis=1))) if bad.any() else len(times)
        open_[until:] = False  # what comes after the first is of no interest
        open_ &= np.diff(times) > least
        left = np.flatnonzero(open_)
        if not left.size:
            break
        if len(times) + len(left) - known > MOST:
            raise Crowded
        middle = 0.5 * (times[left] + times[left + 1])
        found = at(middle)
        settled = _settled(times, gap, size, left, middle, found[0])
        grown = np.repeat(open_, 1 + open_)  # each open interval becomes two
        grown[np.repeat(open_, 1 + open_)] = np.repeat(~settled, 2)
        times, (gap, size, bad) = _merged(times, (gap, size, bad), middle, found)
        open_ = grown
    if not bad.any():
        return None
    k = int(np.argmax(bad.any(axis=1)))
    return float(times[k - 1]), float(times[k])


def interpolated(t: np.ndarray, values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Values (t, …) between their instants, by cubics through four of them."""
    out = np.zeros((len(times), *values.shape[1:]))
    width = min(4, len(t))
    first = np.clip(np.searchsorted(t, times, side="right") - width // 2, 0, len(t) - width)
    for j in range(width):
        weight = np.ones(len(times))
        for k in range(width):
            if k != j:
                weight *= (times - t[first + k]) / (t[first + j] - t[first + k])
        out += weight[:, None] * values[first + j]
    return out


def _settled(times, gap, size, left: np.ndarray, middle: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Whether the intervals beginning at `left` have no gap that may be negative between what is known of them."""
    three = np.stack([gap[left], found, gap[left + 1]])
    error = SURE * np.abs(found - interpolated(times, gap, middle))
    low, spread = three.min(axis=0), np.ptp(three, axis=0) + error
    level = spread <= LEVEL * size[left]
    bend = three[0] - 2 * three[1] + three[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = 0.5 + 0.25 * (three[0] - three[2]) / bend
    outside = ~(bend > 0) | ~((vertex > FLAT) & (vertex < 1 - FLAT))
    rising = outside & (error <= 0.25 * spread)
    return np.all((low > spread) | level | rising, axis=1)


def _merged(times, known, more, found):
    """Instants in order with what is known at them."""
    both = np.concatenate([times, more])
    order = np.argsort(both, kind="stable")
    return both[order], tuple(np.concatenate([a, b])[order] for a, b in zip(known, found, strict=True))
