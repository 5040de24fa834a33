"""5c· r → λ and joint wrenches, each under a named rule, and which of them the rigid-body model determines.

Signs, once: λ and r = Cᵀλ act on the bodies as forces. The reaction of a joint is the force and the torque
**on body j** (the second one named), the torque about marker j's point; body i gets the opposite force and the
opposite torque about that same point. World components are along the world axes, joint components along the
axes of marker i. A driver's reaction is what it exerts on body j.
"""

from dalembert.reactions._flexible import AbstractFlexibility, Bar, Beam, Compliance
from dalembert.reactions._multipliers import (
    ChosenEquations,
    OrthonormalMultipliers,
    local_reactions,
    orthonormal_multipliers,
    solve_chosen,
)
from dalembert.reactions._rules import (
    AbstractReactionRule,
    Eliminated,
    MinimumNorm,
    PenaltyLimit,
    Unique,
    Weighted,
)
from dalembert.reactions._unique import (
    LABELS,
    Direction,
    JointRows,
    Uniqueness,
    joint_rows,
    require_unique,
    row_name,
    row_numbers,
    uniqueness,
)
from dalembert.reactions._wrenches import Wrenches, joint_wrenches

__all__ = [
    "LABELS",
    "AbstractFlexibility",
    "AbstractReactionRule",
    "Bar",
    "Beam",
    "ChosenEquations",
    "Compliance",
    "Direction",
    "Eliminated",
    "JointRows",
    "MinimumNorm",
    "OrthonormalMultipliers",
    "PenaltyLimit",
    "Unique",
    "Uniqueness",
    "Weighted",
    "Wrenches",
    "joint_rows",
    "joint_wrenches",
    "local_reactions",
    "orthonormal_multipliers",
    "require_unique",
    "row_name",
    "row_numbers",
    "solve_chosen",
    "uniqueness",
]
