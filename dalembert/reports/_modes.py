"""edge · reports: the modes of a linear model as text, for people."""

from __future__ import annotations

from collections.abc import Mapping

from dalembert.analysis import Linearisation, Mode
from dalembert.reports._columns import Columns

SHOWN = 30
"""Modes that are listed; of more the first, the rest is counted."""
NAMED = 3
"""Items of a mode whose share of energy is named."""
KINDS = {"rigid-body": "rigid-body", "oscillating": "oscillating", "real": "real"}


def modes_summary(lin: Linearisation) -> list[str]:
    """What it is linear about, how many modes of which kind, and whether it is stable."""
    where = "about an equilibrium" if lin.resting else "about a steady motion"
    if not lin.steady:
        where = "at an instant (not steady)"
    kinds = [m.kind for m in lin.modes]
    counts = [f"{kinds.count(k)} {word}" for k, word in KINDS.items() if k in kinds]
    what = f"{', '.join(counts)} mode{'' if len(kinds) == 1 else 's'}" if counts else "nothing can move: no modes"
    lines = [f"{lin.name}: linear {where}; {what}"]
    if lin.remark:
        lines.append(f"  {lin.remark}")
    if lin.turning is not None:
        rate = ", ".join(f"{x:.4g}" for x in lin.turning)
        lines.append(f"  seen in axes that turn with the machine, at ({rate}) rad/s")
    growing = [m for m in lin.modes if m.eigenvalue.real > 0]
    for m in growing[:3]:
        lines.append(f"  unstable: mode {m.number} grows by a factor e in {m.time_constant:.4g} s")
    if len(growing) > 3:
        lines.append(f"  … and {len(growing) - 3} more modes that grow")
    if lin.inputs or lin.outputs:
        lines.append(f"  inputs: {', '.join(lin.inputs) or 'none'}; outputs: {', '.join(lin.outputs) or 'none'}")
    open_ = {
        r: [n for n, rule in zip(lin.outputs, lin.output_rules, strict=True) if rule == r] for r in lin.output_rules
    }
    for rule, names in open_.items():
        if rule != "unique":
            lines.append(f"  not unique, picked by {rule}: {', '.join(names)}")
    return lines


def frequency_words(mode: Mode) -> list[str]:
    """Frequency or rate of a mode."""
    if mode.rigid:
        return ["rigid-body"]
    if mode.oscillates:
        return [f"{mode.frequency:.6g} Hz"]
    return [f"{mode.eigenvalue.real:.5g} 1/s"]


def damping_words(mode: Mode) -> list[str]:
    """Damping ratio of an oscillating mode; for a real one whether it decays."""
    if mode.rigid:
        return ["–"]
    if mode.oscillates:
        return [f"{mode.damping_ratio:.4g}"]
    return ["decays" if mode.eigenvalue.real < 0 else "grows"]


def shares(energy: Mapping[str, float], count: int = NAMED) -> list[str]:
    """The largest shares of an energy: "engine 92 %"."""
    large = [(name, x) for name, x in energy.items() if abs(x) >= 0.005][:count]
    words = [f"{name} {100 * x:.0f} %" for name, x in large]
    return [f"{w}," for w in words[:-1]] + words[-1:] or ["–"]


def modes_renderable(lin: Linearisation):
    """The whole result for a rich console."""
    from rich.console import Group
    from rich.text import Text

    parts: list = []
    for k, line in enumerate(modes_summary(lin)):
        tone = "bold" if k == 0 else "bold red" if "unstable" in line else "yellow" if "not unique" in line else ""
        parts.append(Text(line, tone))
    if lin.modes:
        table = Columns(("mode", "damping ratio", "kinetic energy", "potential energy"), ("", "dim", "green", "green"))
        for m in lin.modes[:SHOWN]:
            first = [f"{m.number}", *frequency_words(m)]
            table.rows.append((first, damping_words(m), shares(m.kinetic), shares(m.potential)))
        parts += [Text(""), table]
        if len(lin.modes) > SHOWN:
            parts.append(Text(f"  … and {len(lin.modes) - SHOWN} more modes"))
    return Group(*parts)
