"""dalembert: the dynamics of constrained mechanical systems, on JAX.

Importing it switches JAX to float64, for the whole process: by JAX_ENABLE_X64 where JAX is not imported yet, else at
once. Importing a numerical part points JAX's compile cache at a user folder (see `dalembert._runtime`). The names below
are loaded when first used, so `import dalembert` itself is quick.
In the order in which data flows:

    Model ──build──▶ System ──assemble──▶ Equations ──formulation──▶ v̇, r ──simulate──▶ Solution
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:  # read by JAX when it is imported: arrays made before the first name below is used are float64 as well
    os.environ["JAX_ENABLE_X64"] = "true"

__version__ = "0.1.0"

_HOMES = {
    "deg": "dalembert.model",
    "Model": "dalembert.model",
    "build": "dalembert.systems",
    "FunctionSystem": "dalembert.systems",
    "AbsoluteSystem": "dalembert.systems",
    "symbolic_complement": "dalembert.symbolic",
    "assemble": "dalembert.equations",
    "residuals": "dalembert.equations",
    "Equations": "dalembert.equations",
    "LocalPoint": "dalembert.systems",
    "LU": "dalembert.complements",
    "SVD": "dalembert.complements",
    "ZeroEigenvalues": "dalembert.complements",
    "QR": "dalembert.complements",
    "GramSchmidt": "dalembert.complements",
    "GramSchmidtByVectors": "dalembert.complements",
    "LocalCoordinates": "dalembert.complements",
    "Riemannian": "dalembert.complements",
    "check_choice": "dalembert.complements",
    "Proximal": "dalembert.formulations",
    "Augmented": "dalembert.formulations",
    "RangeSpace": "dalembert.formulations",
    "NullSpace": "dalembert.formulations",
    "MinimalOrder": "dalembert.formulations",
    "Resolved": "dalembert.formulations",
    "IndependentCoordinates": "dalembert.formulations",
    "Projector": "dalembert.formulations",
    "UdwadiaKalaba": "dalembert.formulations",
    "Penalty": "dalembert.formulations",
    "AugmentedLagrangian": "dalembert.formulations",
    "Projection": "dalembert.stabilise",
    "VelocityFilter": "dalembert.stabilise",
    "Baumgarte": "dalembert.stabilise",
    "PI": "dalembert.stabilise",
    "NoStabilisation": "dalembert.stabilise",
    "prepare": "dalembert.simulation",
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
    "ChosenEquations": "dalembert.reactions",
    "orthonormal_multipliers": "dalembert.reactions",
    "local_reactions": "dalembert.reactions",
    "simulate": "dalembert.simulation",
    "Solution": "dalembert.simulation",
    "open": "dalembert.results",
    "switchable": "dalembert.systems",
    "switched": "dalembert.systems",
    "Switch": "dalembert.simulation",
    "close_latch": "dalembert.simulation",
    "simulate_switching": "dalembert.simulation",
    "check": "dalembert.analysis",
    "linearise": "dalembert.analysis",
    "plot_graph": "dalembert.reports",
    "report": "dalembert.reports",
    "load": "dalembert.io",
    "save": "dalembert.io",
    "compare": "dalembert.analysis",
    "projectors": "dalembert.analysis",
    "split_motion": "dalembert.analysis",
    "inverse_dynamics": "dalembert.analysis",
    "actuation": "dalembert.analysis",
    "mechanism": "dalembert.mechanisms",
    "Status": "dalembert._results",
    "DalembertError": "dalembert._results",
    "ModelError": "dalembert._results",
    "FileError": "dalembert._results",
    "AssemblyError": "dalembert._results",
    "AssemblyWarning": "dalembert._results",
    "SimulationError": "dalembert._results",
    "RecordWarning": "dalembert._results",
    "RedundancyWarning": "dalembert._results",
    "SingularWarning": "dalembert._results",
    "PrecisionWarning": "dalembert._results",
    "RemarkWarning": "dalembert._results",
    "StiffnessWarning": "dalembert._results",
    "SlackBeltWarning": "dalembert._results",
}
_ROOMS = (
    "model", "linalg", "complements", "systems", "symbolic", "loads", "equations", "formulations", "stabilise",
    "reactions", "simulation", "results", "analysis", "reports",
)  # fmt: skip

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
        PrecisionWarning,
        RecordWarning,
        RedundancyWarning,
        RemarkWarning,
        SimulationError,
        SingularWarning,
        SlackBeltWarning,
        Status,
        StiffnessWarning,
    )
    from dalembert.analysis import (
        actuation,
        check,
        compare,
        inverse_dynamics,
        linearise,
        projectors,
        split_motion,
    )
    from dalembert.complements import (
        LU,
        QR,
        SVD,
        GramSchmidt,
        GramSchmidtByVectors,
        LocalCoordinates,
        Riemannian,
        ZeroEigenvalues,
        check_choice,
    )
    from dalembert.equations import Equations, assemble, residuals
    from dalembert.formulations import (
        Augmented,
        AugmentedLagrangian,
        IndependentCoordinates,
        MinimalOrder,
        NullSpace,
        Penalty,
        Projector,
        Proximal,
        RangeSpace,
        Resolved,
        UdwadiaKalaba,
    )
    from dalembert.io import load, save
    from dalembert.mechanisms import mechanism
    from dalembert.model import Model, deg
    from dalembert.reactions import (
        Bar,
        Beam,
        ChosenEquations,
        Compliance,
        Eliminated,
        MinimumNorm,
        PenaltyLimit,
        Unique,
        Weighted,
        local_reactions,
        orthonormal_multipliers,
    )
    from dalembert.reports import plot_graph, report
    from dalembert.results import open
    from dalembert.simulation import Solution, Switch, close_latch, prepare, simulate, simulate_switching
    from dalembert.stabilise import (
        PI,
        Baumgarte,
        NoStabilisation,
        Projection,
        State,
        VelocityFilter,
        consistent_state,
    )
    from dalembert.symbolic import symbolic_complement
    from dalembert.systems import AbsoluteSystem, FunctionSystem, LocalPoint, build, switchable, switched
