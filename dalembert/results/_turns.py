"""6b· results: full turns of joint angles in space, where a rotation does not count them, from the angles' rates."""

from __future__ import annotations

import jax
import numpy as np

from dalembert.results._observe import rates_at
from dalembert.systems import BodySystem, compiled_for_each

SURE = 1.0
"""Largest deviation, in rad, of an angle from what its rates predict for its full turns to be known."""


def counted(t: np.ndarray, values: np.ndarray, rates: np.ndarray, accelerations: np.ndarray):
    """Angles from (−π, π] that count full turns (times first), and for each whether its turns are known.

    From one time to the next an angle grows by nearly what its rates and accelerations at both ends predict. Where they
    do not agree, with each other or with the value, the shorter way is taken.
    """
    h = np.diff(t)[:, None]
    by_rates = h * (rates[1:] + rates[:-1]) / 2
    correction = np.nan_to_num(h**2 * (accelerations[:-1] - accelerations[1:]) / 12)
    growth, step = by_rates + correction, np.diff(values, axis=0)
    off = growth - step
    off = np.abs(off - 2 * np.pi * np.round(off / (2 * np.pi)))
    known = ~((np.abs(correction) > SURE) | (off > SURE))
    return with_turns(values, np.where(known, growth, 0.0)), np.all(known, axis=0)


def with_turns(values: np.ndarray, growth: np.ndarray) -> np.ndarray:
    """Angles with the full turns that bring each step from one time to the next nearest to `growth`."""
    turns = np.round((growth - np.diff(values, axis=0)) / (2 * np.pi))
    count = np.cumsum(np.nan_to_num(turns), axis=0)
    out = values.copy()
    out[1:] = np.where(count == 0, values[1:], values[1:] + 2 * np.pi * count)
    return out


def _coordinate_motion(system: BodySystem, q, v, vdot):
    return jax.jvp(lambda q, v: rates_at(system, q, v), (q, v), (system.qdot(q, v), vdot))


coordinate_motion = compiled_for_each(_coordinate_motion, 3)
"""Rates and accelerations of the joint coordinates at many states."""
