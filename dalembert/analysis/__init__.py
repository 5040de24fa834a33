"""7 · questions: redundancy, mobility, contradictions, poses, rest, small motions, and which reactions are reliable.

Equations (7.1)–(7.7): docs/theory/statics.md. Equations (7a.1)–(7a.8): docs/theory/kinematics.md.
Equations (7b.1)–(7b.5): docs/theory/inverse_dynamics.md. Equations (7c.1)–(7c.9): docs/theory/linearisation.md.
"""

from dalembert.analysis._assembly import Assembly, ReleaseEffect, assembly
from dalembert.analysis._check import Check, MotionCheck
from dalembert.analysis._compare import Comparison, Entry, compare
from dalembert.analysis._compensation import gravity_compensation
from dalembert.analysis._contradictions import Contradiction
from dalembert.analysis._efforts import InverseDynamics
from dalembert.analysis._equilibrium import Equilibrium, LoadCases
from dalembert.analysis._everywhere import EverywhereRelease
from dalembert.analysis._inverse import inverse_dynamics
from dalembert.analysis._kinematics import kinematics, refuse_undriven
from dalembert.analysis._linear import linearise
from dalembert.analysis._linear_model import Linearisation, LinearModel
from dalembert.analysis._modes import Mode
from dalembert.analysis._pose import Pose, Verdict, solve_pose
from dalembert.analysis._quasistatic import SpecialPoint, StaticPath, quasistatic
from dalembert.analysis._redundancy import check
from dalembert.analysis._solvability import (
    DependentGroup,
    JointSolvability,
    Release,
    Solvability,
    Term,
    UniqueSum,
    b_matrices,
    by_qr,
    by_ranks,
    by_singular_values,
)
from dalembert.analysis._split import (
    ActuatorAuthority,
    Effort,
    Projectors,
    Split,
    actuator_authority,
    projectors,
    split_motion,
)
from dalembert.analysis._stability import Stability
from dalembert.analysis._statics import at_rest, equilibrium
from dalembert.analysis._sweep import Sweep, sweep_pose

__all__ = [
    "ActuatorAuthority", "Assembly", "Check", "Comparison", "Contradiction", "DependentGroup", "Effort", "Entry",
    "Equilibrium", "EverywhereRelease", "InverseDynamics", "JointSolvability", "LinearModel", "Linearisation",
    "LoadCases", "Mode", "MotionCheck", "Pose", "Projectors", "Release", "ReleaseEffect", "Solvability",
    "SpecialPoint", "Split", "Stability", "StaticPath", "Sweep", "Term", "UniqueSum", "Verdict",
    "actuator_authority", "assembly", "at_rest", "b_matrices", "by_qr", "by_ranks", "by_singular_values", "check",
    "compare", "equilibrium", "gravity_compensation", "inverse_dynamics", "kinematics", "linearise", "projectors",
    "quasistatic", "refuse_undriven", "solve_pose", "split_motion", "sweep_pose",
]  # fmt: skip
