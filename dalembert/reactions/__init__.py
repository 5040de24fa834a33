"""5c· r → λ and joint wrenches, each under a named rule, and which of them the rigid-body model determines.

Equations (5c.1)–(5c.9): docs/theory/reactions.md. Equations (5d.1)–(5d.12): docs/theory/ranges.md.

Signs, once: λ and r = Cᵀλ act on the bodies as forces. The reaction of a joint is the force and the torque
**on body j** (the second one named), the torque about marker j's point; body i gets the opposite force and the
opposite torque about that same point. World components are along the world axes, joint components along the
axes of marker i. A driver's reaction is what it exerts on body j.
"""

from dalembert.reactions._flexible import AbstractFlexibility, Bar, Beam, Compliance
from dalembert.reactions._instant import Instant
from dalembert.reactions._joints import on_bodies, reaction_on_bodies
from dalembert.reactions._known import Known, Limit, limits_of, one_sided_limits
from dalembert.reactions._loads import RULES, Pressing, decide_loads, named_rule, pressing, refusal, rule_of
from dalembert.reactions._multipliers import (
    EquationSubset,
    OrthonormalMultipliers,
    local_reactions,
    orthonormal_multipliers,
    solve_chosen,
)
from dalembert.reactions._ranges import PossibleSet, Range, ReactionRanges, Worst
from dalembert.reactions._rules import (
    AbstractQuadraticRule,
    AbstractReactionRule,
    MinimumNorm,
    PenaltyLimit,
    RequireUnique,
    RowElimination,
    Weighted,
)
from dalembert.reactions._transmitted import loads_of
from dalembert.reactions._unique import (
    LABELS,
    UNITS,
    Direction,
    JointRows,
    Uniqueness,
    joint_rows,
    row_name,
    row_numbers,
)
from dalembert.reactions._wrenches import Wrenches, joint_wrenches

__all__ = [
    "LABELS", "RULES", "UNITS", "AbstractFlexibility", "AbstractQuadraticRule", "AbstractReactionRule", "Bar", "Beam",
    "Compliance", "Direction", "EquationSubset", "Instant", "JointRows", "Known", "Limit", "MinimumNorm",
    "OrthonormalMultipliers", "PenaltyLimit", "PossibleSet", "Pressing", "Range", "ReactionRanges", "RequireUnique",
    "RowElimination", "Uniqueness", "Weighted", "Worst", "Wrenches", "decide_loads", "joint_rows", "joint_wrenches",
    "limits_of", "loads_of", "local_reactions", "named_rule", "on_bodies", "one_sided_limits",
    "orthonormal_multipliers", "pressing", "reaction_on_bodies", "refusal", "row_name", "row_numbers", "rule_of",
    "solve_chosen",
]  # fmt: skip
