"""0 · the front door of dalembert: the dynamics of constrained mechanical systems, on JAX.

Importing it switches JAX to float64, for the whole process: by JAX_ENABLE_X64 where JAX is not imported yet, else at
once. Importing a numerical part points JAX's compile cache at a user folder (see `dalembert._runtime`). Names are
loaded when first used, so `import dalembert` itself is quick; `__init__.pyi` lists them, once, for this file and for
type checkers: what is typed every day, and the rooms (`da.formulations`, `da.reactions`, …), where all else is.

    Model ──build──▶ System ──assemble──▶ Equations ──formulation──▶ v̇, r ──simulate──▶ Solution
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:  # read by JAX when it is imported: arrays made before the first name below is used are float64 as well
    os.environ["JAX_ENABLE_X64"] = "true"

__version__ = "0.1.0"


def _listed() -> tuple[dict[str, str], tuple[str, ...]]:
    """The names at the door with their rooms, and the rooms: lines "from ROOM import NAME as NAME" of the stub."""
    lines = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    found = [line.split() for line in lines if line.startswith("from ")]
    rooms = tuple(name for _, room, _, name, *_ in found if room == "dalembert")
    return {name: room for _, room, _, name, *_ in found if room != "dalembert"}, rooms


_HOMES, _ROOMS = _listed()

_MOVED = {
    "complements": "LU SVD ZeroEigenvalues QR GramSchmidt GramSchmidtByVectors LocalCoordinates Riemannian "
    "check_choice",
    "formulations": "Proximal Augmented RangeSpace NullSpace MinimalOrder Resolved IndependentCoordinates Projector "
    "UdwadiaKalaba Penalty AugmentedLagrangian",
    "stabilise": "consistent_state Projection VelocityFilter Baumgarte PI NoStabilisation",
    "reactions": "MinimumNorm PenaltyLimit Weighted Bar Beam Compliance orthonormal_multipliers local_reactions "
    "Unique=RequireUnique Eliminated=RowElimination ChosenEquations=EquationSubset",
    "systems": "State AbsoluteSystem LocalPoint=ConstrainedPoint switchable=with_switches switched=set_active",
    "symbolic": "symbolic_complement",
    "equations": "residuals Equations",
    "simulation": "Solution Status Switch simulate_switching close_latch=close_constraint",
    "analysis": "compare projectors split_motion actuation=actuator_authority",
    "reports": "plot_graph",
    "errors": "DalembertError ModelError FileError AssemblyError AssemblyWarning SimulationError "
    "RecordWarning RedundancyWarning SingularWarning PrecisionWarning StiffnessWarning SlackBeltWarning "
    "RemarkWarning=ConversionWarning",
}
"""Names that were at the door (old=new where the name changed too): they go on working, and a warning says
where it is now."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(_loaded(_HOMES[name]), name)
    if name in _ROOMS:
        return _loaded(f"dalembert.{name}")
    for room, names in _MOVED.items():
        for old, _, new in (entry.partition("=") for entry in names.split()):
            if name == old:
                now = new or old
                warnings.warn(f"da.{name} is now da.{room}.{now}.", DeprecationWarning, stacklevel=2)
                return getattr(_loaded(f"dalembert.{room}"), now)
    raise AttributeError(f"module 'dalembert' has no attribute '{name}'", name=name)


def _loaded(module: str) -> ModuleType:
    """A room. While it loads Python does not look for garbage: modules stay, and to look at them again and again takes
    a fifth of the time."""
    if module in sys.modules or not gc.isenabled():
        return importlib.import_module(module)
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.enable()


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
