"""5c· reactions: what determines the joint loads for friction: the constraints alone, or a named rule."""

from __future__ import annotations

from typing import NamedTuple

from dalembert._results import DalembertError, did_you_mean
from dalembert.reactions._instant import Instant
from dalembert.reactions._rules import (
    AbstractReactionRule,
    MinimumNorm,
    PenaltyLimit,
    RequireUnique,
    RowElimination,
    Weighted,
)
from dalembert.reactions._unique import LABELS
from dalembert.stabilise import State, consistent_state
from dalembert.systems import AbstractSystem, BodySystem

RULES: dict[str, type[AbstractReactionRule]] = {
    "minimum_norm": MinimumNorm,
    "weighted": Weighted,
    "penalty_limit": PenaltyLimit,
    "eliminated": RowElimination,
}
"""The rules that a model file, or a user, can name."""


def rule_of(rule: AbstractReactionRule | str | None) -> AbstractReactionRule | None:
    """A rule, or the rule of that name."""
    if not isinstance(rule, str):
        return rule
    if rule not in RULES:
        raise DalembertError(f"The rule '{rule}' is unknown; use one of {', '.join(RULES)}.{did_you_mean(rule, RULES)}")
    return RULES[rule]()


class Pressing(NamedTuple):
    """The load of one bearing's friction: its joint's components, and those that are not unique."""

    friction: str
    joint: str
    components: tuple[str, ...]
    open: tuple[str, ...]


def decide_loads(
    system: AbstractSystem,
    state: State | tuple | None = None,
    *,
    t: float = 0.0,
    rule: AbstractReactionRule | str | None = None,
) -> AbstractSystem:
    """The system with its friction by joint loads prepared: the loads are unique, or `rule` picks them.

    Without a rule, here or in the friction elements, a load that is not unique is refused with its joint and
    components. `simulate` does this itself, except under jit, vmap and grad, where values are not available.
    A system without such friction is returned as it is.
    """
    rule = rule_of(rule)
    bodies = system.bodies
    if bodies is None or not bodies.bearings or (bodies.loads_decided and rule is None):
        return system
    rule = named_rule(bodies) if rule is None else rule
    here = consistent_state(system, state, t=t)
    instant = Instant(system, t, here).generic
    if rule is None or isinstance(rule, RequireUnique):
        for p in pressing(instant):
            if p.open:
                raise DalembertError(refusal(p))
        rule = None
    else:
        rule = rule.prepare(bodies, instant.on_bodies)
    return system.with_loads(rule)


def named_rule(system: BodySystem) -> AbstractReactionRule | None:
    """The rule named by the friction elements."""
    return next((rule_of(f.rule) for f in system.bearings if f.rule is not None), None)


def pressing(instant: Instant) -> list[Pressing]:
    """The loads of the friction of every bearing, at one instant."""
    bodies = instant.system.bodies
    if bodies is None:
        return []
    unique = instant.uniqueness
    out = []
    for f in bodies.bearings:
        used = f.law.forces + (f.law.torques if "length" in f.p else ())  # pyright: ignore[reportFunctionMemberAccess]
        for name, joint in zip(f.names, f.joints, strict=True):
            sure = unique.mask(joint)
            labels = LABELS[len(sure)]
            open_ = tuple(labels[k] for k in used if not sure[k])
            out.append(Pressing(name, joint, tuple(labels[k] for k in used), open_))
    return out


def refusal(p: Pressing) -> str:
    """Why friction cannot be computed, and what to do."""
    return (
        f"Friction '{p.friction}' depends on {', '.join(p.open)} of joint '{p.joint}', which the rigid-body model does "
        "not determine: the constraints are redundant, and the motion would follow from an arbitrary choice. Free "
        "the directions that `dalembert check` suggests, or name a rule that picks the load: "
        "rule=da.reactions.Weighted(…) with the joints' stiffness is the physical one (in a file: rule: weighted)."
    )
