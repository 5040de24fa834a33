"""2 · the machine in coordinates: mass, force, qdot, position_residual, motion_residual.

Equations (2.1)–(2.8): docs/theory/systems.md.
"""

from dalembert import _runtime as _runtime  # float64 first
from dalembert.systems._absolute import AbsoluteSystem
from dalembert.systems._base import AbstractMultiplierRule, AbstractSystem, Constraints, Nature, RowOwner, State, Terms
from dalembert.systems._bodies import BodySystem, CoordinateView, JointView
from dalembert.systems._build import build, refuse_wound
from dalembert.systems._constraints import JointRows, rows_of, wrapped
from dalembert.systems._control import Control
from dalembert.systems._frames import Frame, marker_frames, moment
from dalembert.systems._functions import ConstrainedPoint, FunctionSystem
from dalembert.systems._geometry import geometry
from dalembert.systems._measure import Known, Loads, Measure
from dalembert.systems._names import (
    Named,
    Renaming,
    compiled,
    compiled_alone,
    compiled_for_each,
    compiled_quickly,
    with_fields,
    without_names,
)
from dalembert.systems._origin import Origin
from dalembert.systems._precision import in_double, require_float64
from dalembert.systems._prescribed import Prescription, jumps, prescription
from dalembert.systems._rows import Family
from dalembert.systems._sticking import friction_efforts
from dalembert.systems._switch import is_on, is_switchable, set_active, with_switches
from dalembert.systems._touching import INSIDE, TOUCHING, Touch, all_closed, gap_sizes, gaps_of, rows_among_all
from dalembert.systems._tree import TreeSystem

__all__ = [
    "INSIDE", "TOUCHING", "AbsoluteSystem", "AbstractMultiplierRule", "AbstractSystem", "BodySystem",
    "ConstrainedPoint", "Constraints", "Control", "CoordinateView", "Family", "Frame", "FunctionSystem", "JointRows",
    "JointView", "Known", "Loads", "Measure", "Named", "Nature", "Origin", "Prescription", "Renaming", "RowOwner",
    "State", "Terms", "Touch", "TreeSystem", "all_closed", "build", "compiled", "compiled_alone", "compiled_for_each",
    "compiled_quickly", "friction_efforts", "gap_sizes", "gaps_of", "geometry", "in_double", "is_on", "is_switchable",
    "jumps", "marker_frames", "moment", "prescription", "refuse_wound", "require_float64", "rows_among_all",
    "rows_of", "set_active", "with_fields", "with_switches", "without_names", "wrapped",
]  # fmt: skip
