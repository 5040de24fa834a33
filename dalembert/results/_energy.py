"""6b· results: energies along a motion, their balance, and how far it drifts."""

from __future__ import annotations

import numpy as np

from dalembert.equations import Equations
from dalembert.results._observe import Observation
from dalembert.systems import AbstractSystem

AT_REST = 1e-8
"""Energies that change by less than this share of the machine's own count as rest: rounding (1e-16) then reads 1e-8."""


def energies(observed: Observation, work) -> dict[str, np.ndarray]:
    """Kinetic, potential and total energy, work done, and `drift`: what the balance is off by; of one motion."""
    T, V, W = np.asarray(observed.kinetic), np.asarray(observed.potential), np.asarray(work)
    total = T + V
    work, driven = W[:, 0] - W[0, 0], W[:, 1] - W[0, 1]
    values = {"kinetic": T, "potential": V, "total": total, "work": work, "work_of_constraints": driven}
    return values | {"drift": total - total[0] - work - driven}


def energy_drift(energies: dict[str, np.ndarray], start: Equations, system: AbstractSystem) -> float:
    """The largest |drift| relative to the energy that moves, or to `AT_REST` of the machine's own."""
    kinds = ("kinetic", "potential", "work", "work_of_constraints")
    moving = max(np.max(energies["kinetic"]), *(np.ptp(energies[k]) for k in kinds))
    loads = float(np.sum(np.abs(np.asarray(start.h)) * np.asarray(system.scale())))
    own = max(loads, *(np.max(np.abs(energies[k])) for k in kinds))
    return float(np.max(np.abs(energies["drift"])) / max(moving, AT_REST * own, np.finfo(float).tiny))
