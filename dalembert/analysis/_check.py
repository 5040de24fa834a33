"""7 · analysis: `Check`: what a model is, in numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dalembert.analysis._contradictions import Contradiction
from dalembert.analysis._free import FreeMotion
from dalembert.analysis._printed import Printed, reports
from dalembert.analysis._solvability import Solvability, Term
from dalembert.reactions import Pressing, ReactionRanges
from dalembert.simulation import SingularPosition


@dataclass(frozen=True)
class MotionCheck:
    """Rank and uniqueness along a motion: results at a number of instants, and where the rank falls."""

    t0: float
    t_end: float
    instants: int
    ranks: tuple[int, ...]  # the values that the rank took, rising
    singular_positions: tuple[SingularPosition, ...]
    changing: tuple[str, ...]  # joints whose reaction is unique at some instants only
    message: str  # how the motion ended


@dataclass(frozen=True, repr=False)
class Check(Printed):
    """What a model is, in numbers. `print` it, or read the fields; `as_dict` is the JSON form.

    `n` velocities, `m` rows (`holonomic` of them on positions), `rank` of C at generic configurations beside the
    given one, `redundancy` p = m − rank, `mobility` n − rank, `gruebler` n − m (Grübler's count).
    In a taut position, which allows velocities but no displacement, `mobility` is 0, and a remark states it.
    `singular`: the given pose itself has a lower rank (`rank_here`) than its neighbours; `beside` is the
    number of neighbours that were examined (none if all rows are independent here, or nothing can move).
    `rank_holonomic` and `rank_nonholonomic` are those of the two parts of C. `contradictions` are constraints that
    cannot hold together. `solvability`: which reactions are unique, which equations depend on each other, and what
    could be released: of the structure, that is beside a singular pose; `solvability_here` is
    that of the singular pose itself. At a singular pose neither holds values: they follow from the motion through it
    (`simulate`). `friction` lists the loads of friction by joint loads, and `load_rule` the rule that
    picks those that are not unique, if one is named. `motion` is filled for a `Solution`. `free_motions` are as many
    independent motions as there are degrees of freedom (none for large machines), and `unheld` names the bodies that
    no joint holds. `misfit` is how far redundant joints are from closing (relative to the machine's size), where
    they do so only approximately. Components of reactions are along the joints' own axes (marker i).
    `ranges` are the least and greatest possible values of all reactions here (`check(…, ranges=True)`), and
    `lifts` says which supports that only push (or pull) cannot carry the load as the model holds them.
    `remarks` state which joints are nearly redundant (barely independent), and what is assumed about gears, belts and
    couplings: couplings that leave out the force of teeth or belts, the flank in contact.
    """

    name: str
    n: int
    m: int
    holonomic: int
    rank: int
    rank_here: int
    rank_holonomic: int
    rank_nonholonomic: int
    redundancy: int
    mobility: int
    gruebler: int
    singular: bool
    beside: int
    bodies: int
    joints: dict[str, int]
    t: float
    singular_values: np.ndarray = field(repr=False)
    tolerance: float = 0.0
    contradictions: tuple[Contradiction, ...] = ()
    solvability: Solvability | None = field(default=None, repr=False)
    solvability_here: Solvability | None = field(default=None, repr=False)
    friction: tuple[Pressing, ...] = ()
    load_rule: str | None = None
    motion: MotionCheck | None = None
    remarks: tuple[str, ...] = ()
    free_motions: tuple[FreeMotion, ...] = ()
    unheld: tuple[str, ...] = ()
    misfit: dict[str, float] = field(default_factory=dict)
    ranges: ReactionRanges | None = field(default=None, repr=False)
    lifts: tuple[str, ...] = ()

    @property
    def consistent(self) -> bool:
        """Whether all constraints can hold together."""
        return not self.contradictions

    def unique(self, joint: str, component: str | None = None) -> bool:
        """Whether a joint's reaction, or one component of it in the joint's frame, is unique."""
        assert self.solvability is not None, "ask check(…) for reactions"
        found = self.solvability.joint(joint)
        return found.unique if component is None else found.components.get(component, True)

    def as_dict(self) -> dict:
        """Plain data, ready for JSON."""
        below = {"singular_values", "contradictions", "friction", "free_motions"}
        below |= {"solvability", "solvability_here", "motion", "ranges"}
        out = {k: getattr(self, k) for k in self.__dataclass_fields__ if k not in below}
        values = self.singular_values
        out["consistent"] = self.consistent
        out["smallest_singular_values"] = [float(x) for x in values[-min(6, len(values)) :]]
        out["largest_singular_value"] = float(values[0]) if len(values) else None
        out["contradictions"] = [
            {"level": c.level, "residual": c.residual, "terms": _terms(c.terms)} for c in self.contradictions
        ]
        out["friction"] = [p._asdict() for p in self.friction]
        out["free_motions"] = [[b._asdict() for b in m.bodies] for m in self.free_motions]
        if self.ranges is not None:
            out["ranges"] = self.ranges.as_dict()
        if self.solvability is not None:
            out |= _solvability(self.solvability)
        if self.solvability_here is not None:
            out["in_this_pose"] = _solvability(self.solvability_here)
        if self.motion is not None:
            m = self.motion
            out["motion"] = {
                "t0": m.t0,
                "t_end": m.t_end,
                "instants": m.instants,
                "ranks": list(m.ranks),
                "singular_positions": [
                    {"t": p.t, "rank": p.rank, "rank_elsewhere": p.rank_elsewhere, "joints": list(p.joints)}
                    for p in m.singular_positions
                ],
                "changing": list(m.changing),
                "ended": m.message,
            }
        return out

    def summary(self) -> str:
        """The counts, in two to four lines."""
        return "\n".join(reports().summary(self))

    def __rich__(self):
        return reports().renderable(self)


def _terms(terms: tuple[Term, ...]) -> list[dict]:
    return [{"joint": t.joint, "component": t.name, "coefficient": t.coefficient} for t in terms]


def _solvability(found: Solvability) -> dict:
    return {
        "axes": "joint",  # of all components: the joint's own (marker i), not the world's
        "reactions": [
            {"joint": j.name} | {k: getattr(j, k) for k in ("kind", "unique", "components", "values", "methods")}
            for j in found.joints
        ],
        "unique_sums": [
            {"terms": _terms(s.terms), "value": None if math.isnan(s.value) else s.value} for s in found.sums
        ],
        "dependent_groups": [_terms(g.terms) for g in found.groups],
        "clusters": [list(c) for c in found.clusters],
        "releases": [
            {"joint": r.joint, "directions": list(r.directions), "becomes": r.becomes} for r in found.releases
        ],
    }
