"""7 · analysis: a `Check` as a short text, and as plain data for JSON."""

from __future__ import annotations

import io
import math
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dalembert.analysis._redundancy import Check
    from dalembert.analysis._solvability import Solvability, Term

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
        lines.append("  no redundant rows: all reactions are unique")
    if check.singular:
        lines.append(f"  this pose is singular: the rank is {check.rank_here} here and {check.rank} beside it")
    if check.misfit:
        gap = max(check.misfit.values())
        worst = ", ".join(f"{n} {g:.1e}" for n, g in sorted(check.misfit.items(), key=lambda x: -x[1])[:FEW])
        lines.append(f"  closes only to {gap:.1e} of the machine's size ({worst}); the rest is said without that gap")
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


def plain(check: Check) -> str:
    """The report without colours, as wide as the terminal, between 60 and 118 characters."""
    from rich.console import Console

    out = io.StringIO()
    width = min(max(shutil.get_terminal_size((WIDE, 24)).columns, 60), WIDE)
    Console(file=out, width=width, color_system=None, highlight=False).print(renderable(check), soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


GAP = 2  # blanks between columns
NARROW = 16  # least width of a column of names while others can still shrink


class _Table:
    """Rows of cells in columns that are always all shown: text that is too wide is broken inside its column."""

    def __init__(self, headings: tuple[str, ...], styles: tuple[str, ...]):
        self.headings, self.styles = headings, styles
        self.rows: list[tuple[list[str], ...]] = []  # of each cell its words: a break comes between them

    def __rich_console__(self, console, options):
        from rich.text import Text

        lines = self.lines(options.max_width)
        for k, cells in enumerate(lines):
            out = Text("  ")
            for cell, style in zip(cells, self.styles, strict=True):
                out.append(cell, "bold" if k == 0 else style)
            out.rstrip()
            yield out

    def lines(self, width: int) -> list[tuple[str, ...]]:
        """The text line by line, each cell filled up to its column's width."""
        widths = self._widths(width - 2)
        out = [self._filled(self.headings, widths)]
        for row in self.rows:
            cells = [_broken(words, w) for words, w in zip(row, widths, strict=True)]
            for k in range(max(map(len, cells))):
                out.append(self._filled([c[k] if k < len(c) else "" for c in cells], widths))
        return out

    def _filled(self, cells, widths) -> tuple[str, ...]:
        gaps = [GAP] * (len(widths) - 1) + [0]
        return tuple(c.ljust(w) + " " * g for c, w, g in zip(cells, widths, gaps, strict=True))

    def _widths(self, width: int) -> list[int]:
        columns = list(zip(*self.rows, strict=True))
        widths = [
            max(len(h), *(len(" ".join(c)) for c in cells)) for h, cells in zip(self.headings, columns, strict=True)
        ]
        words = [
            max(len(h), *(max(map(len, c), default=0) for c in cells))
            for h, cells in zip(self.headings, columns, strict=True)
        ]
        least = [max(len(h), 4) for h in self.headings]
        room = width - GAP * (len(widths) - 1)
        # names shrink first, then values between their words, then the rest
        for column, lowest in (
            (0, NARROW),
            (2, words[2]),
            (3, words[3]),
            (0, least[0]),
            (1, least[1]),
            (2, 10),
            (3, 10),
        ):
            over = sum(widths) - room
            if over > 0:
                widths[column] = max(widths[column] - over, min(widths[column], max(lowest, least[column])))
        return widths


def _broken(words: list[str], width: int) -> list[str]:
    """Words on lines of a width; a word that is longer is cut."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + (lines[-1] != "") <= width:
            lines[-1] += (" " if lines[-1] else "") + word
            continue
        pieces = [word[k : k + width] for k in range(0, len(word), width)] or [""]
        lines = [*lines, *pieces] if lines[-1] else [*lines[:-1], *pieces]
    return lines


def _table(found: Solvability) -> _Table:
    table = _Table(("reaction of", "", "unique", "not unique"), ("", "dim", "green", "red"))
    whole = [j for j in found.joints if j.unique]
    alike: dict[tuple, list[str]] = {}  # joints with the same text: one line
    for j in found.joints:
        if not j.unique:
            sure = [c for c, unique in j.components.items() if unique]
            open_ = [c for c, unique in j.components.items() if not unique]
            alike.setdefault((j.kind, tuple(_values(j, sure)) or ("–",), tuple(open_)), []).append(j.name)
    for (kind, sure, open_), names in alike.items():
        table.rows.append((names_of(names).split(" "), kind.split(" "), list(sure), list(open_)))
    if whole:
        table.rows.append((names_of([j.name for j in whole]).split(" "), [""], ["all"], ["–"]))
    return table


def _values(joint, components) -> list[str]:
    return [f"{c} = {joint.values[c]:.4g}" if c in joint.values else c for c in components]


def values_of(joint, components) -> str:
    return " ".join(_values(joint, components))


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


# ---- JSON ----------------------------------------------------------------------------------------------------------


def as_dict(check: Check) -> dict:
    """Plain data, ready for JSON."""
    left_out = (
        "singular_values",
        "contradictions",
        "solvability",
        "solvability_here",
        "friction",
        "motion",
        "free_motions",
    )
    out = {k: getattr(check, k) for k in check.__dataclass_fields__ if k not in left_out}
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
