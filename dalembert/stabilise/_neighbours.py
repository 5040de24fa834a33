"""5b· generic configurations beside a state, in fixed pseudo-random directions: there a singular pose shows its
structure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dalembert._results import AssemblyError
from dalembert._typing import Scalar
from dalembert.equations import Equations
from dalembert.stabilise._closing import Closing, retracted
from dalembert.stabilise._start import consistent_state
from dalembert.systems import AbstractSystem, State

SEED = 20130305
BESIDE = (0.02, 0.05)
"""How far away neighbours are, in the machine's size."""
ALONG = 0.05
"""Distance, in the machine's size, above which neighbours are taken along the motion."""


def neighbours(system: AbstractSystem, t: Scalar, here: State, sizes: Sequence[float] = BESIDE) -> list[State]:
    """Configurations beside a state at which all rows hold at time t; for larger sizes along the velocity."""
    rng, scale = np.random.default_rng(SEED), np.asarray(system.scale())
    v = np.asarray(here.v) / scale
    fastest = np.max(np.abs(v), initial=0.0)
    out = []
    for size in sizes:
        along = size > ALONG and fastest > 0
        nudge = size * (v / fastest if along else rng.standard_normal(system.n))
        try:
            out.append(consistent_state(system, (retracted(system, here.q, nudge * scale), here.v), t=t))
        except AssemblyError:
            continue  # this nudge left the branch; the others decide
    return out


def free_neighbours(system: AbstractSystem, t: Scalar, here: State, equations: Equations) -> list[State]:
    """Configurations beside a state along motions that the machine can make when nothing drives it.

    Rows that depend on time are dropped for this: with a driver held a machine has no neighbours, yet its pose may be
    singular for the driver's own coordinate. `equations` are those of the state.
    """
    if system.m == 0 or system.n == 0:
        return []
    rng, scale = np.random.default_rng(SEED), np.asarray(system.scale())
    closing = Closing(system, t, timeless=True)
    out = []
    for size in BESIDE:
        nudge = closing.admissible(equations, rng.standard_normal(system.n))
        if np.max(np.abs(nudge)) < 1e-6:
            return []  # it cannot move at all
        found = closing.close(retracted(system, here.q, size * nudge * scale), here.v)
        # back where it began (a motion of first order only), or far off: no neighbour
        away = np.max(np.abs(np.asarray(found.q) - np.asarray(here.q)) / np.asarray(system.coordinate_scale()))
        if found.gap < 1e-9 and 1e-4 < away < 1.0:
            out.append(State(found.q, here.v))
    return out
