"""Shared by the tests against published numbers: tables, independent integration, plain rotations.

Tables lie in tests/data with their source. Integrations share no code with the package: closed forms, or hand-derived
equations in few coordinates, by scipy's DOP853 far tighter than the bar.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

from dalembert.simulation import Solution  # importing it switches JAX to float64

DATA = Path(__file__).parent / "data"
TIGHT = {"integrator": "dopri8", "rtol": 1e-11}


def table(name: str) -> dict:
    return json.loads((DATA / f"{name}.json").read_text())


def integrate(rhs, y0, times, rtol=1e-12, atol=1e-13) -> np.ndarray:
    """y at `times` by scipy's DOP853."""
    found = solve_ivp(rhs, (times[0], times[-1]), y0, "DOP853", t_eval=times, rtol=rtol, atol=atol)
    assert found.success
    return found.y


def worst(a, b) -> float:
    return float(np.max(np.abs(np.asarray(a) - np.asarray(b))))


def places(solution: Solution) -> np.ndarray:
    """Coordinates by body: (times, bodies, dq)."""
    return np.asarray(solution.q).reshape(len(solution.t), -1, solution.system.dq)


def rotations(quaternions) -> np.ndarray:
    """Rotation matrices (…, 3, 3) of quaternions (w, x, y, z)."""
    w, x, y, z = np.moveaxis(np.asarray(quaternions), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))
