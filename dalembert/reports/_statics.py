"""edge · reports: machines at rest as text, for people."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dalembert.analysis import Equilibrium, LoadCases, Stability, StaticPath
from dalembert.reports._columns import Columns
from dalembert.reports._text import names_of

SHOWN = 12
"""Joints and coordinates that are listed; of more the first, the rest is counted."""


def statics_summary(found: Equilibrium) -> list[str]:
    """Whether it rests and stays, and how that was found: two to four lines."""
    motions = "1 degree of freedom" if found.mobility == 1 else f"{found.mobility} degrees of freedom"
    lines = [f"{found.name}: {verdict(found.stability)}; {motions}"]
    if found.redundancy:
        lines[0] += f", {found.redundancy} redundant row{'' if found.redundancy == 1 else 's'}"
    if found.mobility == 0:
        lines.append("  nothing can move: the pose is given, and the reactions are what its loads make of it")
    else:
        where = "the start itself" if found.way == "the start" else f"found by {found.way}"
        far = "" if found.way == "the start" else f", {float(found.moved):.2g} of the machine's size from the start"
        steps = "" if found.way == "the start" else f" in {int(found.steps)} steps"
        lines.append(f"  {where}{steps}{far}; force left {float(found.residual):.1e} of the machine's own")
    return lines + [f"  {line}" for line in stability_lines(found.stability)]


def verdict(stability: Stability) -> str:
    """The word for a pose."""
    words = {
        "stable": "at rest, stable",
        "indifferent": "at rest, indifferent",
        "unstable": "at rest, but unstable",
        "fixed": "at rest, nothing can move",
    }
    return words[stability.word]


def stability_lines(stability: Stability) -> list[str]:
    """What leaves the equilibrium, what is indifferent, and the softest motion."""
    out = []
    values, motions = stability.values, stability.motions
    for k in np.flatnonzero(stability.unstable)[:3]:
        if abs(np.imag(values[k])) > 0:
            out.append(f"flutters (ω² = {values[k]:.3g} 1/s²): {motions[k]}")
        else:
            out.append(f"falls away (ω² = {np.real(values[k]):.3g} 1/s²): {motions[k]}")
    zeros = np.flatnonzero(stability.zero)
    for k in zeros[:3]:
        out.append(f"nothing resists: {motions[k]}")
    if len(zeros) > 3:
        out.append(f"… and {len(zeros) - 3} more motions that nothing resists")
    firm = np.flatnonzero(~stability.zero & ~stability.unstable)
    if len(firm) and not stability.unstable.any():
        k = firm[0]
        out.append(f"softest motion, {stability.frequencies[k]:.4g} Hz: {motions[k]}")
    return out


def statics_renderable(found: Equilibrium):
    """The whole result for a rich console."""
    from rich.console import Group
    from rich.text import Text

    tones = {"stable": "green", "fixed": "green", "indifferent": "yellow", "unstable": "bold red"}
    parts: list = []
    for k, line in enumerate(statics_summary(found)):
        parts.append(Text(line, f"bold {tones[found.stability.word]}" if k == 0 else ""))
    parts += [Text(line) for line in number_lines(found)]
    table = reaction_table(found)
    if table.rows:
        parts += [Text(""), table]
        parts.append(Text("  along each joint's own axes (marker i); .reactions(joint) gives world axes", "dim"))
    if found.redundancy:
        rule = found.rule.describe(found.system.machine)
        parts.append(Text(f"  what is not unique was picked by: {rule}", "yellow"))
    parts += [Text(f"  {line}", "yellow") for line in found.remarks]
    return Group(*parts)


def number_lines(found: Equilibrium) -> list[str]:
    """Efforts, parameters that were found, and joint coordinates."""
    out = [f"  held by an effort: {_valued(found.efforts)}"] if found.efforts and not found.unknown else []
    if found.unknown:
        out.append(f"  held with {_valued(found.unknown)}")
    coordinates = found.coordinates
    if coordinates:
        listed = [f"{name} = {value:.5g}" for name, value in coordinates.items()]
        out.append(f"  joint coordinates: {names_of(listed, SHOWN)}")
    return out


def _valued(values: Mapping) -> str:
    parts = []
    for name, value in values.items():
        x = np.ravel(np.asarray(value))
        text = f"{x[0]:.6g}" if len(x) == 1 else f"({', '.join(f'{y:.6g}' for y in x)})"
        parts.append(f"{name} = {text}")
    return ", ".join(parts)


def reaction_table(found: Equilibrium) -> Columns:
    """Components of all reactions, those that are unique apart from those that a rule picked."""
    table = Columns(("reaction of", "", "unique", "by the rule"), ("", "dim", "green", "red"))
    reactions = found.as_dict().get("reactions", [])
    for r in reactions[:SHOWN]:
        largest = max((abs(x) for x in r["components"].values()), default=0.0)
        text = {c: f"{c} = {x if abs(x) > 1e-11 * largest else 0.0:.4g}" for c, x in r["components"].items()}
        sure = [text[c] for c in text if r["unique"][c]] or ["–"]
        open_ = [text[c] for c in text if not r["unique"][c]] or ["–"]
        table.rows.append((r["joint"].split(" "), r["kind"].split(" "), sure, open_))
    if len(reactions) > SHOWN:
        table.rows.append(([f"… and {len(reactions) - SHOWN} more"], [""], [""], [""]))
    return table


def cases_renderable(cases: LoadCases):
    """Load cases one after the other."""
    from rich.console import Group
    from rich.text import Text

    parts: list = [Text(f"{cases.name}: {len(cases)} load cases", "bold")]
    for name, found in cases.items():
        parts += [Text(""), Text(f"{name}", "bold"), statics_renderable(found)]
    return Group(*parts)


def path_summary(path: StaticPath) -> list[str]:
    """How far a path came, how stable it is, and its special points."""
    lines = [f"{path.name}: {len(path)} equilibria along {', '.join(path.values)}. {path.message}"]
    counts = {word: path.stability.count(word) for word in dict.fromkeys(path.stability)}
    lines.append("  " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    return lines + [f"  {p}" for p in path.special]


def path_renderable(path: StaticPath):
    """The whole path for a rich console."""
    from rich.console import Group
    from rich.text import Text

    parts: list = []
    for k, line in enumerate(path_summary(path)):
        tone = "" if path.reached else "yellow"
        parts.append(Text(line, f"bold {tone}".strip() if k == 0 else "yellow" if k > 1 else ""))
    table = Columns(("share of the way", "", "values", "stability"), ("", "dim", "", "green"))
    for k in np.unique(np.linspace(0, len(path) - 1, SHOWN).astype(int)):
        values = [f"{name} = {_one(x[k])}" for name, x in path.values.items()]
        values += [f"effort {name} = {_one(x[k])}" for name, x in path.efforts.items()]
        table.rows.append(([f"{path.s[k]:.4g}"], [""], values, [path.stability[k]]))
    parts += [Text(""), table]
    parts += [Text(f"  {line}", "yellow") for line in path.remarks]
    return Group(*parts)


def _one(x) -> str:
    x = np.ravel(np.asarray(x))
    return f"{x[0]:.5g}" if len(x) == 1 else f"({', '.join(f'{y:.5g}' for y in x)})"
