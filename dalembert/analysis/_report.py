"""7 · analysis: a `Check` as text that is read in ten seconds, and as plain data for JSON."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dalembert.analysis._redundancy import Check
    from dalembert.analysis._solvability import Solvability, Term

SHOWN = 8
"""Lines of one kind that are shown. Of more, the first few; the rest is counted (`as_dict` and the object have all)."""
FEW = 4


def summary(check: Check) -> list[str]:
    """Counts, rank, redundancy, pose: two to four lines."""
    bodies = "1 body" if check.bodies == 1 else f"{check.bodies} bodies"
    count = sum(check.joints.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in check.joints.items()) or "none"
    motions = "1 degree of freedom" if check.mobility == 1 else f"{check.mobility} degrees of freedom"
    lines = [
        f"{check.name}: {bodies}, {count} joint{'' if count == 1 else 's'} ({kinds})",
        f"  {motions}; n = {check.n} velocities, m = {check.m} constraint rows, rank {check.rank}",
    ]
    if check.holonomic < check.m:
        lines[1] += f" (holonomic {check.rank_holonomic}, nonholonomic {check.rank_nonholonomic})"
    if check.contradictions:
        pass  # where constraints exclude each other nothing can be said about their reactions
    elif check.redundancy:
        lines.append(
            f"  redundant: {check.redundancy} of the {check.m} rows (counting joints gives {check.gruebler} degrees "
            f"of freedom); {_what_is_unique(check)}"
        )
    else:
        lines.append("  no redundant rows: all reactions are unique")
    if check.singular:
        lines.append(f"  this pose is singular: the rank is {check.rank_here} here and {check.rank} beside it")
    lines += [f"  contradiction: {c} (residual {c.residual:.1e} of the machine's size)" for c in check.contradictions]
    return lines


def _what_is_unique(check: Check) -> str:
    if any(p.open for p in check.friction):
        return "not all reactions are unique, and friction makes the motion depend on them"
    return "the motion is unique, not all reactions are"


def renderable(check: Check):
    """The whole report for a rich console."""
    from rich.console import Group
    from rich.text import Text

    parts: list = []
    for k, line in enumerate(summary(check)):
        style = "bold" if k == 0 else "yellow" if "redundant: " in line or "singular" in line else ""
        parts.append(Text(line, "bold red" if "contradict" in line else "green" if "no redundant" in line else style))
    found = check.solvability
    if found is not None and check.redundancy:
        parts += [Text(""), _table(found)]
        parts += _listing("unique together", [with_value(s) for s in found.sums], "green")
        parts += _listing("depend on each other", [str(g) for g in found.groups], "yellow")
        if found.releases:
            text = ", ".join(map(str, found.releases))
            parts.append(Text(f"  to make it non-redundant, free: {text}", "cyan"))
        if not found.agree:
            odd = [j.name for j in found.joints if len(set(j.methods.values())) > 1]
            parts.append(Text(f"  the methods disagree about {', '.join(odd)}: near a change of rank", "red"))
    if check.solvability_here is not None:
        open_ = [j.name for j in check.solvability_here.joints if not j.unique]
        parts.append(Text(f"  in this singular pose these reactions are open: {names_of(open_)}", "yellow"))
    parts += [Text(line, style) for line, style in friction_lines(check)]
    parts += [Text(f"  {line}", "yellow") for line in check.remarks]
    if check.motion is not None:
        parts += _motion(check)
    if not len(check.singular_values) and check.m:
        parts.append(Text("  independent by a wide margin: singular values above 1e-4 (mass metric, unit rows)", "dim"))
    if len(check.singular_values):
        kept, lost = check.singular_values[: check.rank], check.singular_values[check.rank :]
        text = f"  singular values {kept[0]:.3g} … {kept[-1]:.2g}" if len(kept) else "  no singular values"
        if len(lost):
            text += f", then {lost[0]:.1e}"
        text += f"; below {check.tolerance:.0e} of the largest is zero (mass metric, unit rows)"
        parts.append(Text(text, "dim"))
    return Group(*parts)


def plain(check: Check) -> str:
    """The report without colours."""
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=118, color_system=None, highlight=False).print(renderable(check), soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


def _table(found: Solvability):
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    for heading, style in (("  reaction of", ""), ("", "dim"), ("unique", "green"), ("not unique", "red")):
        table.add_column(heading, style=style, no_wrap=heading == "  reaction of")
    whole = [j for j in found.joints if j.unique]
    alike: dict[tuple[str, ...], list[str]] = {}  # joints of which the same is to be said: one line
    for j in found.joints:
        if not j.unique:
            sure = [c for c, unique in j.components.items() if unique]
            open_ = [c for c, unique in j.components.items() if not unique]
            alike.setdefault((j.kind, values_of(j, sure) or "–", " ".join(open_)), []).append(j.name)
    for (kind, *columns), names in alike.items():
        table.add_row(f"  {names_of(names)}", kind, *columns)
    if whole:
        table.add_row(f"  {names_of([j.name for j in whole])}", "", "all", "–")
    return table


def values_of(joint, components) -> str:
    return " ".join(f"{c} = {joint.values[c]:.4g}" if c in joint.values else c for c in components)


def names_of(names: list[str], limit: int = 10) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def with_value(s) -> str:
    return str(s) if math.isnan(s.value) else f"{s} = {s.value:.4g}"


def _listing(title: str, lines: list[str], style: str) -> list:
    from rich.text import Text

    if not lines:
        return []
    count = len(lines) if len(lines) <= SHOWN else FEW
    out = [Text(f"  {title}:", "bold"), *(Text(f"    {line}", style) for line in lines[:count])]
    if len(lines) > count:
        out.append(Text(f"    … and {len(lines) - count} more (all of them: --json)", "dim"))
    return out


def friction_lines(check: Check) -> list[tuple[str, str]]:
    """What friction by joint loads asks for: a line each where it is open, one for all others."""
    out, sure = [], [p for p in check.friction if not p.open]
    for p in check.friction:
        if p.open and check.load_rule is None:
            why = "not unique: it needs a rule, or fewer constraints"
            out.append((f"  friction '{p.friction}' depends on {' '.join(p.open)} of {p.joint}, {why}", "bold red"))
        elif p.open:
            out.append((f"  friction '{p.friction}' depends on {' '.join(p.open)} of {p.joint}: {check.load_rule}", ""))
    if sure:
        names = names_of([f"'{p.friction}'" for p in sure])
        out.append((f"  friction {names} depends on joint loads that are unique", "green"))
    return out


def _motion(check: Check) -> list:
    from rich.text import Text

    m = check.motion
    assert m is not None
    ranks = ", ".join(map(str, m.ranks))
    out = [Text(f"  motion from {m.t0:g} to {m.t1:g} s: rank {ranks} at {m.instants} instants. {m.sentence}")]
    out += [Text(f"    {p.sentence}", "yellow") for p in m.singular_positions[:SHOWN]]
    if len(m.singular_positions) > SHOWN:
        out.append(Text(f"    … and {len(m.singular_positions) - SHOWN} more singular positions", "dim"))
    if m.changing:
        out.append(Text(f"    unique at some instants only: {', '.join(m.changing)}", "yellow"))
    return out


# ---- JSON ----------------------------------------------------------------------------------------------------------


def as_dict(check: Check) -> dict:
    """Plain data, ready for JSON."""
    left_out = ("singular_values", "contradictions", "solvability", "solvability_here", "friction", "motion")
    out = {k: getattr(check, k) for k in check.__dataclass_fields__ if k not in left_out}
    values = check.singular_values
    out["consistent"] = check.consistent
    out["smallest_singular_values"] = [float(x) for x in values[-min(6, len(values)) :]]
    out["largest_singular_value"] = float(values[0]) if len(values) else None
    out["contradictions"] = [
        {"level": c.level, "residual": c.residual, "terms": _terms(c.terms)} for c in check.contradictions
    ]
    out["friction"] = [p._asdict() for p in check.friction]
    if check.solvability is not None:
        out |= _solvability(check.solvability)
    if check.solvability_here is not None:
        out["in_this_pose"] = _solvability(check.solvability_here)
    if check.motion is not None:
        m = check.motion
        out["motion"] = {
            "t0": m.t0,
            "t1": m.t1,
            "instants": m.instants,
            "ranks": list(m.ranks),
            "singular_positions": [
                {"t": p.t, "rank": p.rank, "rank_elsewhere": p.rank_elsewhere, "joints": list(p.joints)}
                for p in m.singular_positions
            ],
            "changing": list(m.changing),
            "ended": m.sentence,
        }
    return out


def _terms(terms: tuple[Term, ...]) -> list[dict]:
    return [{"joint": t.joint, "component": t.name, "coefficient": t.coefficient} for t in terms]


def _solvability(found: Solvability) -> dict:
    return {
        "reactions": [
            {
                "joint": j.name,
                "kind": j.kind,
                "unique": j.unique,
                "components": j.components,
                "values": j.values,
                "methods": j.methods,
            }
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
