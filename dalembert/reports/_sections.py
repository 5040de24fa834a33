"""edge · reports: the sections of a report: text, tables, figures and a motion, from a check and a solution."""

from __future__ import annotations

import functools
import json
import platform
from importlib.metadata import version
from typing import Any

import numpy as np

from dalembert._results import DalembertError, Status
from dalembert.analysis import Check, equilibrium, linearise
from dalembert.reactions import LABELS, UNITS, Known
from dalembert.reports._graph import plot_graph
from dalembert.reports._modes import damping_words, frequency_words, modes_summary, shares
from dalembert.reports._statics import statics_summary
from dalembert.reports._text import friction_lines, names_of, summary, valued, with_value
from dalembert.simulation import ContactPhases, Solution
from dalembert.stabilise import CHANGED
from dalembert.systems import AbstractSystem
from dalembert.view import (
    Lines,
    Mark,
    Motion,
    Picture,
    Section,
    Table,
    Words,
    in_words,
    literal,
    plot_dataset,
    windows,
)

PACKAGES = ("jax", "diffrax", "equinox", "numpy", "scipy", "matplotlib")
ROWS_ALONG = 200
"""Largest number of constraint rows for which rank and uniqueness are followed along the motion."""
GRAPH_UP_TO = 30
"""Largest number of joints for which the joint graph is readable."""
MARKS = {"unique": "unique", "partly": "partly unique", "open": "not unique"}
_listed = functools.partial(names_of, limit=12)
BANDS = 6
"""Joints whose possible reactions are drawn."""
INSTANTS = 41
"""Instants of a motion at which what a rule picked is compared with what is possible."""
IMPACTS = 40
"""Impacts that are listed."""
COUNTS = 7
"""Lines of one kind that are shown at first; the others unfold."""


def sections_of(
    found: Check, system: AbstractSystem, solution: Solution | None, known: Known | None = None
) -> list[Section]:
    """The parts of a report, from a check and a motion; `known` limits the possible reactions."""
    data = None if solution is None else _drawable(solution.dataset)
    out = [Section("In short", _in_short(found, solution))]
    if solution is not None and data is not None and "geometry" in data:
        out.append(Section("The mechanism", _mechanism(solution, data)))
    out.append(Section("Rank and redundancy", _redundancy(found)))
    if found.solvability is not None and found.solvability.joints:
        out.append(Section("Which reactions can be believed", _solvability(found, solution)))
    if solution is not None and data is not None:
        shown = [Motion(solution.results.shown(known))] if "geometry" in data else []
        out.append(Section("The motion", [Words(_ended(solution), _tone(solution.status)), *shown]))
        if solution.phases is not None and solution.phases.of_contacts:
            out.append(Section("Contacts", _contacts(solution.phases)))
        if "joint" in data:
            out.append(Section("Reactions", _reactions(found, solution, data, known)))
        if "measurement" in data or "input_value" in data:
            picture = Picture(plot_dataset(data, "measurements"), "measurements, inputs and states over time", 78)
            out.append(Section("Measurements", [picture]))
        kinds = {"coordinates": "joint coordinates", "energy": "energy", "violation": "constraint violation"}
        curves: list = [Picture(plot_dataset(data, kind), f"{text} over time", 78) for kind, text in kinds.items()]
        out.append(Section("Curves", curves))
    out.append(Section("Settings and versions", [Table(("", ""), _settings(system, solution))]))
    return out


def _in_short(found: Check, solution: Solution | None) -> list:
    tones = {"redundant: ": "open", "no redundant": "good", "singular": "open", "contradiction": "bad"}
    out = []
    for line in summary(found):
        text = line.strip().removeprefix(f"{found.name}: ")
        tone = next((t for words, t in tones.items() if text.startswith(words) or words in text), "")
        out.append(Words(f"{text[0].upper()}{text[1:]}.", tone))
    if found.solvability is not None and found.redundancy:
        by_joint = _components(found, solution)
        sure = [joint for joint, components in by_joint.items() if all(components.values())]
        open_ = [
            f"{joint} ({' '.join(c for c, unique in components.items() if not unique)})"
            for joint, components in by_joint.items()
            if not all(components.values())
        ]
        if sure:
            out.append(Words(f"Believe the reactions of {_listed(sure)}: the rigid-body model determines them."))
        out.append(Words(f"Not unique: {_listed(open_)}. Their values come from a rule, not from the model."))
    if solution is None:
        out += [Words(f"{x}.", "bad") for x in found.lifts]
        out.append(Words("There is no motion to show: the constraints cannot hold together at the start.", "bad"))
        return out
    out += [Words(f"{x}.", "bad") for x in solution.lifts or [f"{x}, at t = {found.t:.6g} s" for x in found.lifts]]
    if isinstance(solution.phases, ContactPhases):
        out.append(Words(f"{'; '.join(solution.phases.counted)}."))
    v = solution.violation
    out.append(Words(_ended(solution), _tone(solution.status)))
    out.append(
        Words(
            f"Constraints hold to {v['position']:.1e} (positions), {v['velocity']:.1e} (velocities) and "
            f"{v['acceleration']:.1e} (accelerations) of the machine's size; energy drifts by "
            f"{solution.energy_drift:.1e} of the energy that moves."
        )
    )
    return out


def _components(found: Check, solution: Solution | None) -> dict[str, dict[str, bool]]:
    """For each joint which of the components that it transmits are unique, in its own axes: over the motion if there is
    one (as its axes turn, more components are transmitted, or not unique, than at the start), else at the start."""
    if found.solvability is None:
        return {}
    by_joint = {j.name: dict(j.components) for j in found.solvability.joints}
    if solution is None or "unique_force_in_joint" not in solution.dataset:
        return by_joint
    for name, components in by_joint.items():
        sure, values = solution.unique(name), _wrench(solution, name)
        for k, label in enumerate(LABELS[len(sure)]):
            if label in components or np.any(values[:, k]):
                components[label] = bool(sure[k])
    return {name: dict(sorted(components.items())) for name, components in by_joint.items()}  # Fx Fy Fz Mx My Mz


def _wrench(solution: Solution, joint: str) -> np.ndarray:
    """Force and torque over time in the joint's axes; values far below all others are rounding, and set to zero."""
    data, parts = solution.dataset, []
    largest = {x: np.nanmax(np.abs(data[f"reaction_{x}_in_joint"].values), initial=0.0) for x in ("force", "torque")}
    # torques that are all rounding are small beside the forces on the arm of the machine
    reach = np.ptp(data["position"].values, axis=(0, 1)).max() if "position" in data else 0.0
    largest["torque"] = max(largest["torque"], largest["force"] * reach)
    for what, most in largest.items():
        values = data[f"reaction_{what}_in_joint"].sel(joint=joint).values.reshape(len(solution.t), -1)
        parts.append(np.where(np.abs(values) > 1e-10 * most, values, 0.0))
    return np.concatenate(parts, axis=1)


def _mechanism(solution: Solution, data) -> list:
    machine = json.loads(str(solution.dataset["geometry"].values))
    out: list = [Picture(plot_dataset(data, "mechanism"), f"{solution.system.name} at the start", 70)]
    gravity = ", ".join(f"{x:g}" for x in machine["gravity"])
    where = "in the plane" if machine["space"] == "plane" else "in space"
    out.append(Words(f"It moves {where}; gravity ({gravity}) m/s²."))
    bodies = [(b["name"], f"{b['mass']:.4g}", _inertia(b["inertia"])) for b in machine["bodies"]]
    out.append(Table(("body", "mass (kg)", "inertia about the centre of mass (kg m²)"), bodies, (1,), "Bodies"))
    solvability = [str(x) for x in data["solvability"].values] if "solvability" in data else []
    joints = [
        (j["name"], j["kind"], " – ".join(j["bodies"]), Mark(MARKS[word], word))
        for j, word in zip(machine["joints"], solvability, strict=True)
    ]
    if joints:
        out.append(Table(("joint", "kind", "between", "reaction"), joints, (), "Joints"))
    forces = [(f["name"], f["kind"], " – ".join(f["bodies"])) for f in machine["forces"]]
    if forces:
        out.append(Table(("force", "kind", "on"), forces, (), "Forces"))
    if 2 <= len(joints) <= GRAPH_UP_TO:
        out.append(Picture(plot_graph(solution), "bodies and joints as a graph", 50))
    return out


def _redundancy(found: Check) -> list:
    parts = "" if found.holonomic == found.m else f" ({found.holonomic} holonomic, {found.m - found.holonomic} not)"
    ranks = (
        ""
        if found.holonomic == found.m
        else f" (holonomic rows {found.rank_holonomic}, nonholonomic {found.rank_nonholonomic})"
    )
    rows = [
        ("velocities n", found.n, ""),
        ("constraint rows m", found.m, parts.strip(" ()")),
        ("rank of C", found.rank, ranks.strip(" ()")),
        ("redundant rows m − rank", found.redundancy, "each follows from the others"),
        ("degrees of freedom n − rank", found.mobility, f"counting joints gives n − m = {found.gruebler}"),
    ]
    out: list = [Table(("", "", ""), [(a, str(b), c) for a, b, c in rows], (1,))]
    if found.redundancy and found.consistent:
        effect = "The motion does not feel them, but"
        if any(p.open for p in found.friction):
            effect = "Friction makes the motion depend on loads that are not unique, and"
        text = f"{effect} they share load with the others in a way that rigid bodies leave open."
        out.append(Words(f"Redundant rows ask for what the others already hold. {text}", "open"))
    if found.singular:
        out.append(
            Words(f"The start is a singular pose: rank {found.rank_here} here and {found.rank} beside it.", "open")
        )
    out += [Words(f"Contradiction: {c} (residual {c.residual:.1e} of the machine's size).", "bad")
            for c in found.contradictions]  # fmt: skip
    if len(found.singular_values):
        kept, lost = found.singular_values[: found.rank_here], found.singular_values[found.rank_here :]
        text = f"Singular values of C {kept[0]:.3g} … {kept[-1]:.2g}" if len(kept) else "C has no singular values"
        text += f", then {lost[0]:.1e}" if len(lost) else ""
        out.append(Words(f"{text}; below {found.tolerance:.0e} of the largest is zero (mass metric, unit rows)."))
    if found.m >= ROWS_ALONG:
        out.append(
            Words("Of so many rows the rank is shown at the start alone; da.check(solution) looks along a motion.")
        )
    if found.motion is not None:
        m = found.motion
        ranks = ", ".join(map(str, m.ranks))
        out.append(Words(f"Along the motion from {m.t0:g} to {m.t_end:g} s: rank {ranks} at {m.instants} instants."))
        out.append(Lines("Singular positions", [p.message for p in m.singular_positions], COUNTS))
    return out


def _solvability(found: Check, solution: Solution | None) -> list:
    """Values at the instant of the largest load (at the start all may be zero); without a motion at the start."""
    result, along = found.solvability, _components(found, solution)
    assert result is not None
    at, values = _largest_load(found, solution)
    if not found.redundancy:
        rows = [(j.name, j.kind, " ".join(valued(values[j.name], along[j.name]))) for j in result.joints]
        out: list = _all_unique("All rows are independent: every reaction is unique", solution)
        out += _open_here(found)
        return [*out, Table(("reaction of", "", f"{at}, along the joint's axes"), rows)]
    rows = []
    for j in result.joints:
        sure, open_ = ([c for c, unique in along[j.name].items() if unique is wanted] for wanted in (True, False))
        cells = " ".join(valued(values[j.name], sure)) or "–", " ".join(open_) or "–"
        rows.append((j.name, j.kind, _mark(along[j.name].values()), *cells))
    when = "" if solution is None else "over the motion"
    methods = " and ".join(result.methods).replace("qr", "QR").replace(" and ", ", ", len(result.methods) - 2)
    agree = f"Found by {methods}, which agree." if result.agree else f"Found by {methods}, which do not all agree here."
    out = [
        Table(("reaction of", "", when, f"unique, {at}", "not unique"), rows),
        Words(f"Components are along the joint's own axes. {agree}", "" if result.agree else "bad"),
        Lines(
            "Unique together, though their parts are not (values at the start)",
            [with_value(s) for s in result.sums],
            COUNTS,
        ),
        Lines("Depend on each other", [str(g) for g in result.groups], COUNTS),
        Lines("To make it non-redundant, free", [str(r) for r in result.releases], COUNTS),
    ]
    out += _open_here(found)
    if found.motion is not None and found.motion.changing:
        out.append(Words(f"Unique at some instants of the motion only: {_listed(found.motion.changing)}.", "open"))
    out += [Words(line.strip(), "bad" if "red" in tone else "") for line, tone in friction_lines(found)]
    out += [Words(f"{line}.", "") for line in found.remarks]
    return out


def _all_unique(text: str, solution: Solution | None) -> list:
    """That reactions are unique, and when in the motion they are not determined."""
    lost = in_words(windows(solution.dataset)) if solution is not None else []
    if not lost:
        return [Words(f"{text}.", "good")]
    return [Words(f"{text} where the position is not singular.", "good"), *(Words(f"{x}.", "open") for x in lost)]


def _open_here(found: Check) -> list:
    if found.solvability_here is None:
        return []
    open_ = [j.name for j in found.solvability_here.joints if not j.unique]
    return [Words(f"In the singular pose at the start these reactions are open: {_listed(open_)}.", "open")]


def _largest_load(found: Check, solution: Solution | None) -> tuple[str, dict[str, dict[str, float]]]:
    """When some joint carries the largest force of the motion, in words, and the components of all joints then."""
    assert found.solvability is not None
    if solution is None or "reaction_force_in_joint" not in solution.dataset:
        return "at the start", {j.name: j.values for j in found.solvability.joints}
    wrenches = {j.name: _wrench(solution, j.name) for j in found.solvability.joints}
    forces = {name: w[:, : 2 if w.shape[1] == 3 else 3] for name, w in wrenches.items()}
    if not any(np.any(np.nan_to_num(f)) for f in forces.values()):
        forces = wrenches  # torques alone
    k = int(np.argmax(np.max([np.linalg.norm(np.nan_to_num(f), axis=1) for f in forces.values()], axis=0)))
    at = f"at the largest load, t = {float(solution.t[k]):.4g} s"
    return at, {n: dict(zip(LABELS[w.shape[1]], w[k].tolist(), strict=True)) for n, w in wrenches.items()}


def _reactions(found: Check, solution: Solution, data, known: Known | None) -> list:
    """Least and largest values over the motion, component by component, along the joint's own axes; with limits also
    the least and largest that are possible."""
    rule = solution.rule.describe(solution.machine)
    words = (
        [Words(f"Not all reactions are unique. Those that are not were picked by: {rule}.", "open")]
        if solution.redundancy
        else _all_unique("All reactions are unique: no rule was needed", solution)
    )
    rows, pictures, leaves = [], [], ""
    ranged = found.ranges is not None and found.ranges.limited and solution.redundancy
    for joint, components in _components(found, solution).items():
        values = _wrench(solution, joint)
        possible = {}
        if ranged and not all(components.values()):
            possible = solution.results.bands(joint, known)
            leaves = leaves or str(solution.range(joint, known=known, instants=INSTANTS).attrs["rule_leaves"])
            if len(pictures) < BANDS:
                picture = solution.plot("reactions", joint=joint, known=known)
                pictures.append(Picture(picture, f"reaction of {joint}; shaded: all values that are possible", 78))
        for label, y in zip(LABELS[values.shape[1]], values.T, strict=True):
            if label in components:
                sure = Mark("unique", "unique") if components[label] else Mark("not unique: by the rule", "open")
                row = (joint, label, f"{y.min():.4g}", f"{y.max():.4g}", UNITS[label], sure)
                rows.append((*row, _possible(possible.get(label), components[label])) if ranged else row)
    where = "Force and torque of the joint on its second body, at its marker, along the joint's axes; over the motion."
    head = ("joint", "", "least", "largest", "", "determined")
    table = Table((*head, "possible") if ranged else head, rows, (2, 3))
    if leaves:
        words = [Words(f"{words[0].text} They leave what is possible: {leaves}.", "bad")]
    return [
        *words,
        Words(where),
        table,
        Picture(plot_dataset(data, "reactions"), "reaction forces over time", 100),
        *pictures,
    ]


def _contacts(phases) -> list:
    """Lift-offs and impacts, with their times, impulses, and which rule picked those that are not unique."""
    out: list = [Words(f"{'; '.join(phases.counted)}.")]
    lifted = [f"'{name}' at t = {t:.6g} s" for t, name in phases.lift_offs]
    out.append(Lines("Lift-offs", lifted, COUNTS))
    rows, impacts = [], phases.impacts
    for x in impacts[:IMPACTS]:
        for name, value in x.impulses.items():
            sure = Mark("unique", "unique") if x.unique[name] else Mark("not unique: by the rule", "open")
            rows.append((f"{x.t:.6g}", name, f"{value:.4g}", sure, f"{x.energy_lost:.4g}"))
    if rows:
        heads = ("t (s)", "contact", "impulse (N s; N m s at an angle)", "determined", "energy lost (J)")
        out.append(Table(heads, rows, (0, 2, 4), "Impacts"))
    if len(impacts) > IMPACTS:
        out.append(Words(f"These are the first {IMPACTS} of {len(impacts)} impacts; solution.phases.impacts has all."))
    return out


def _possible(ends: tuple[np.ndarray, np.ndarray] | None, sure: bool) -> str:
    """The least and the greatest possible value over the motion."""
    if sure or ends is None:
        return ""
    low, high = np.nanmin(ends[0], initial=np.inf), np.nanmax(ends[1], initial=-np.inf)
    if np.isinf(low) and np.isinf(high):
        return "nothing" if low > high else "unbounded"
    return f"{low:.4g} … {high:.4g}".replace("inf", "∞")


def _settings(system: AbstractSystem, solution: Solution | None) -> list[tuple[str, str]]:
    import dalembert

    rows = [("model", system.name), ("coordinates", system.coordinates)]
    if solution is not None:
        s = solution.stats
        complement = getattr(solution.formulation, "complement", None)
        on = "" if complement is None else f" on {type(complement).__name__}"
        tolerance = f"rtol {s['rtol']:g}, atol {s['atol']:g}" if "rtol" in s else ""
        if "dt" in s:
            tolerance = f"fixed step {s['dt']:g} s"
        rows += [
            ("time", f"{float(solution.t[0]):g} to {float(solution.t_end):g} s, {len(solution.t)} times saved"),
            ("integrator", f"{solution.integrator}, {tolerance}".rstrip(", ")),
            ("formulation", f"{type(solution.formulation).__name__}{on}"),
            ("stabilisation", type(solution.stabilisation).__name__),
            ("reaction rule", solution.rule.describe(solution.machine)),
            ("steps", f"{int(s['accepted'])} taken, {int(s['rejected'])} rejected"),
        ]
        if "wall_s" in s:
            rows.append(("computing", f"{1e3 * s['wall_s']:.0f} ms, and {s['compile_s']:.1f} s to compile"))
            rows.append(("start", f"moved by {s['start_moved']:.1e} of the machine's size to close its joints"))
            changed = f"velocities changed by up to {s['start_velocity_changed']:.0%} of the largest to fit its joints"
            rows += [("start", changed)] if s["start_velocity_changed"] > CHANGED else []
    rows.append(("dalembert", dalembert.__version__))
    rows += [(name, version(name)) for name in PACKAGES]
    rows.append(("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"))
    return rows


# ---- words and numbers ---------------------------------------------------------------------------------------------


def _ended(solution: Solution) -> str:
    return f"{solution.status.message} It covers {float(solution.t[0]):g} to {float(solution.t_end):g} s."


def _tone(status: Status) -> str:
    return "" if status in (Status.done, Status.event) else "bad"


def _mark(sure) -> Mark:
    sure = list(sure)
    name = "unique" if all(sure) else "partly" if any(sure) else "open"
    return Mark(MARKS[name], name)


def _inertia(value) -> str:
    I = np.asarray(value, float)
    if I.ndim == 0:
        return f"{float(I):.4g}"
    off = np.abs(I - np.diag(np.diag(I))).max() > 1e-12 * np.abs(I).max()
    diagonal = ", ".join(f"{x:.4g}" for x in np.diag(I))
    return f"{diagonal}; {', '.join(f'{I[a, b]:.4g}' for a, b in ((0, 1), (0, 2), (1, 2)))} beside" if off else diagonal


def _drawable(data) -> Any:
    """The dataset with names that figures show unchanged."""
    words = ("body", "joint", "joint_coordinate", "channel", "input", "controller_state")
    names = {k: [literal(str(x)) for x in data[k].values] for k in words if k in data}
    out = data.assign_coords({k: x for k, x in names.items() if any("$" in text for text in x)})
    if "geometry" in out and "$" in str(out["geometry"].values):
        out["geometry"] = ((), str(out["geometry"].values).replace("$", r"\\$"))
    return out.assign_attrs(model=literal(str(data.attrs.get("model", ""))))


def rest_section(system: AbstractSystem) -> Section:
    """Where a machine rests, as a part of a report; a sentence where it does not."""
    try:
        found = equilibrium(system)
    except DalembertError as error:
        return Section("At rest", [Words(str(error), "open")])
    tone = {"stable": "good", "fixed": "good", "indifferent": "open", "unstable": "bad"}[found.stability.word]
    lines = [line.strip().removeprefix(f"{found.name}: ") for line in statics_summary(found)]
    blocks: list = [Words(f"{line[0].upper()}{line[1:]}.", tone if k == 0 else "") for k, line in enumerate(lines)]
    reactions = found.as_dict().get("reactions", [])
    if reactions:
        blocks.append(Picture(found.plot(), f"{found.name} at rest", 60))
        rows = [
            (r["joint"], c, f"{x:.4g}", UNITS[c],
             Mark("unique", "unique") if r["unique"][c] else Mark("not unique: by the rule", "open"))
            for r in reactions for c, x in r["components"].items()
        ]  # fmt: skip
        blocks.append(Table(("joint", "", "value", "", "determined"), rows, (2,), "Reactions along the joints' axes"))
    blocks += [Words(f"{line}.") for line in found.remarks]
    return Section("At rest", blocks)


SHAPES = 6
"""Modes that are drawn in a report."""


def modes_section(system: AbstractSystem) -> Section:
    """The modes of a machine about its start or, where that is not steady, about its equilibrium."""
    try:
        try:
            lin = linearise(system)
        except DalembertError:
            lin = linearise(system, equilibrium(system))
    except DalembertError as error:
        return Section("Modes", [Words(str(error), "open")])
    lines = [line.strip().removeprefix(f"{lin.name}: ") for line in modes_summary(lin)]
    tone = "good" if lin.stable else "bad"
    blocks: list = [Words(f"{line[0].upper()}{line[1:]}.", tone if k == 0 else "") for k, line in enumerate(lines)]
    rows = [
        (str(m.number), " ".join(frequency_words(m)), " ".join(damping_words(m)),
         " ".join(shares(m.kinetic)), " ".join(shares(m.potential)))
        for m in lin.modes
    ]  # fmt: skip
    if rows:
        heads = ("mode", "frequency or rate", "damping ratio", "kinetic energy", "potential energy")
        blocks.append(Table(heads, rows, (0,), "Modes"))
    drawn = [m for m in lin.modes if np.any(m.shape) and m.oscillates] if system.bodies is not None else []
    for m in drawn[:SHAPES]:
        blocks.append(Picture(lin.plot(m.number), f"mode {m.number}: {' '.join(frequency_words(m))}", 48))
    return Section("Modes", blocks)
