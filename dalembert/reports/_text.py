"""edge · reports: a `Check` as text, for people."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence

from dalembert.analysis import Check, Solvability
from dalembert.reports._columns import Columns

SHOWN = 8
"""Lines of one kind that are shown. Of more, the first few; the rest is counted (`as_dict` and the object have all)."""
FEW = 4
WIDE = 118


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
    if check.contradictions and not check.misfit:
        pass  # with contradictory constraints there is no answer about their reactions
    elif check.redundancy:
        lines.append(
            f"  redundant: {check.redundancy} of the {check.m} rows (counting joints gives {check.gruebler} degrees "
            f"of freedom); {_what_is_unique(check)}"
        )
    else:
        where = " beside this pose" if check.singular else ""
        lines.append(f"  no redundant rows: all reactions are unique{where}")
    if check.singular:
        lines.append(f"  this pose is singular: the rank is {check.rank_here} here and {check.rank} beside it")
    if check.misfit:
        gap = max(check.misfit.values())
        worst = ", ".join(f"{n} {g:.1e}" for n, g in sorted(check.misfit.items(), key=lambda x: -x[1])[:FEW])
        lines.append(f"  closes only to {gap:.1e} of the machine's size ({worst}); what follows leaves that gap out")
        if check.contradictions:
            enough = 10.0 ** math.ceil(math.log10(2 * gap))
            lines.append(
                f"  if that is rounding of given numbers: tolerance={enough:.0e} (--tolerance), or free what is "
                "named below"
            )
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
    parts += [Text(line) for line in motion_lines(check)]
    found = check.solvability
    if found is not None and check.redundancy:
        parts += [Text(""), _table(found)]
        parts.append(Text("  along each joint's own axes (marker i); solution.reactions gives world axes", "dim"))
        parts += _listing("unique together", [with_value(s) for s in found.sums], "green")
        parts += _listing("depend on each other", [str(g) for g in found.groups], "yellow")
        if found.releases:
            text = ", ".join(map(str, found.releases))
            parts.append(Text(f"  to make it non-redundant, free: {text}", "cyan"))
        if not found.agree:
            odd = [j.name for j in found.joints if len(set(j.methods.values())) > 1]
            parts.append(Text(f"  the methods disagree about {', '.join(odd)}: near a change of rank", "red"))
    parts += [Text(line, style) for line, style in range_lines(check)]
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
        kept, lost = check.singular_values[: check.rank_here], check.singular_values[check.rank_here :]
        text = f"  singular values {kept[0]:.3g} … {kept[-1]:.2g}" if len(kept) else "  no singular values"
        if len(lost):
            text += f", then {lost[0]:.1e}"
        text += f"; below {check.tolerance:.0e} of the largest is zero (mass metric, unit rows)"
        parts.append(Text(text, "dim"))
    return Group(*parts)


def plain(found) -> str:
    """What a rich console shows, without colours, as wide as the terminal, between 60 and 118 characters."""
    from rich.console import Console

    out = io.StringIO()
    width = min(max(shutil.get_terminal_size((WIDE, 24)).columns, 60), WIDE)
    Console(file=out, width=width, color_system=None, highlight=False).print(found, soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


def _table(found: Solvability) -> Columns:
    table = Columns(("reaction of", "", "unique", "not unique"), ("", "dim", "green", "red"))
    whole = [j for j in found.joints if j.unique]
    alike: dict[tuple, list[str]] = {}  # joints with the same text: one line
    for j in found.joints:
        if not j.unique:
            sure = [c for c, unique in j.components.items() if unique]
            open_ = [c for c, unique in j.components.items() if not unique]
            alike.setdefault((j.kind, tuple(valued(j.values, sure)) or ("–",), tuple(open_)), []).append(j.name)
    for (kind, sure, open_), names in alike.items():
        table.rows.append((names_of(names).split(" "), kind.split(" "), list(sure), list(open_)))
    if whole:
        table.rows.append((names_of([j.name for j in whole]).split(" "), [""], ["all"], ["–"]))
    return table


def valued(values: Mapping[str, float], components: Iterable[str]) -> list[str]:
    """Components of a reaction, with their values where these are known."""
    return [f"{c} = {values[c]:.4g}" if c in values else c for c in components]


def names_of(names: Sequence[str], limit: int = 10) -> str:
    """Names as a list in text."""
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


def motion_lines(check: Check) -> list[str]:
    """What is free: a line for each of a few motions, and the bodies that no joint holds."""
    out = []
    few = check.free_motions if len(check.free_motions) <= FEW else check.free_motions[: FEW - 1]
    for k, motion in enumerate(few):
        number = f" {k + 1}" if len(check.free_motions) > 1 else ""
        out.append(f"  free motion{number}{' beside this pose' if check.singular else ''}: {motion}")
    if len(check.free_motions) > len(few):
        out.append(f"  … and {len(check.free_motions) - len(few)} more free motions (all of them: --json)")
    if check.unheld:
        out.append(f"  held by no joint: {names_of(list(check.unheld))}")
    return out


def friction_lines(check: Check) -> list[tuple[str, str]]:
    """The loads of friction by joint loads: one line each where not unique, one for all others."""
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


def range_lines(check: Check) -> list[tuple[str, str]]:
    """All possible reactions, or why there are none."""
    found = check.ranges
    if check.lifts:
        at = "" if check.motion is None else f" at t = {check.t:.6g} s"
        head = f"  the supports cannot carry the load{at}:"
        return [(head, "bold red"), *((f"    {x}", "red") for x in check.lifts)]
    if found is None:
        return []
    lines = [
        f"    {name}: {', '.join(map(str, of.values()))}"
        for name, of in found.ranges.items()
        if any(not x.unique for x in of.values())
    ]
    if not lines:
        return [("  the joints can carry these reactions", "green")] if found.limited else []
    head = "  possible reactions, along the joints' own axes" + (
        f" ({'' if found.proven else 'only '}proven to {max(found.gap, 1e-16):.0e} of the load):"
        if found.known
        else " (nothing is known of the joints):"
    )
    few = lines if len(lines) <= SHOWN else [*lines[:FEW], f"    … and {len(lines) - FEW} more (all of them: --json)"]
    return [(head, "bold"), *((x, "") for x in few)]


def _motion(check: Check) -> list:
    from rich.text import Text

    m = check.motion
    assert m is not None
    ranks = ", ".join(map(str, m.ranks))
    out = [Text(f"  motion from {m.t0:g} to {m.t_end:g} s: rank {ranks} at {m.instants} instants. {m.message}")]
    out += [Text(f"    {p.message}", "yellow") for p in m.singular_positions[:SHOWN]]
    if len(m.singular_positions) > SHOWN:
        out.append(Text(f"    … and {len(m.singular_positions) - SHOWN} more singular positions", "dim"))
    if m.changing:
        out.append(Text(f"    unique at some instants only: {', '.join(m.changing)}", "yellow"))
    return out
