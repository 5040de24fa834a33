"""7 · analysis: a `Check` as plain data, for JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dalembert.analysis._check import Check
    from dalembert.analysis._solvability import Solvability, Term


def as_dict(check: Check) -> dict:
    """Plain data, ready for JSON."""
    below = {"singular_values", "contradictions", "friction", "free_motions"}
    below |= {"solvability", "solvability_here", "motion"}
    out = {k: getattr(check, k) for k in check.__dataclass_fields__ if k not in below}
    values = check.singular_values
    out["consistent"] = check.consistent
    out["smallest_singular_values"] = [float(x) for x in values[-min(6, len(values)) :]]
    out["largest_singular_value"] = float(values[0]) if len(values) else None
    out["contradictions"] = [
        {"level": c.level, "residual": c.residual, "terms": _terms(c.terms)} for c in check.contradictions
    ]
    out["friction"] = [p._asdict() for p in check.friction]
    out["free_motions"] = [[b._asdict() for b in m.bodies] for m in check.free_motions]
    if check.solvability is not None:
        out |= _solvability(check.solvability)
    if check.solvability_here is not None:
        out["in_this_pose"] = _solvability(check.solvability_here)
    if check.motion is not None:
        m = check.motion
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
