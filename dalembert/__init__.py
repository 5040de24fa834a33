"""dalembert: the dynamics of constrained mechanical systems, on JAX.

Importing a numerical part switches JAX to float64 and points its compile cache at a user folder (see
`dalembert._runtime`). The names below are loaded when first used, so `import dalembert` itself is quick.
In the order in which data flows:

    Model ──build──▶ System ──assemble──▶ Equations ──formulation──▶ v̇, r ──simulate──▶ Solution
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "deg": "dalembert.model",
    "Model": "dalembert.model",
    "build": "dalembert.systems",
    "FunctionSystem": "dalembert.systems",
    "AbsoluteSystem": "dalembert.systems",
    "assemble": "dalembert.equations",
    "residuals": "dalembert.equations",
    "Equations": "dalembert.equations",
    "Proximal": "dalembert.formulations",
    "Projection": "dalembert.stabilise",
    "NoStabilisation": "dalembert.stabilise",
    "State": "dalembert.stabilise",
    "consistent_state": "dalembert.stabilise",
    "Unique": "dalembert.reactions",
    "Eliminated": "dalembert.reactions",
    "MinimumNorm": "dalembert.reactions",
    "PenaltyLimit": "dalembert.reactions",
    "Weighted": "dalembert.reactions",
    "Bar": "dalembert.reactions",
    "Beam": "dalembert.reactions",
    "Compliance": "dalembert.reactions",
    "simulate": "dalembert.simulation",
    "Solution": "dalembert.simulation",
    "check": "dalembert.analysis",
    "linearise": "dalembert.analysis",
    "load": "dalembert.io",
    "save": "dalembert.io",
    "mechanism": "dalembert.mechanisms",
    "Status": "dalembert._results",
    "DalembertError": "dalembert._results",
    "ModelError": "dalembert._results",
    "FileError": "dalembert._results",
    "AssemblyError": "dalembert._results",
    "AssemblyWarning": "dalembert._results",
    "SimulationError": "dalembert._results",
    "RedundancyWarning": "dalembert._results",
}
_ROOMS = ("model", "systems", "equations", "linalg", "formulations", "stabilise", "reactions", "simulation", "analysis")

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in (*_ROOMS, "functions", "io", "view", "mechanisms"):
        return importlib.import_module(f"dalembert.{name}")
    raise AttributeError(f"module 'dalembert' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS, "functions", "io", "view", "mechanisms"])


if TYPE_CHECKING:
    from dalembert._results import (
        AssemblyError,
        AssemblyWarning,
        DalembertError,
        FileError,
        ModelError,
        RedundancyWarning,
        SimulationError,
        Status,
    )
    from dalembert.analysis import check, linearise
    from dalembert.equations import Equations, assemble, residuals
    from dalembert.formulations import Proximal
    from dalembert.io import load, save
    from dalembert.mechanisms import mechanism
    from dalembert.model import Model, deg
    from dalembert.reactions import Bar, Beam, Compliance, Eliminated, MinimumNorm, PenaltyLimit, Unique, Weighted
    from dalembert.simulation import Solution, simulate
    from dalembert.stabilise import NoStabilisation, Projection, State, consistent_state
    from dalembert.systems import AbsoluteSystem, FunctionSystem, build
