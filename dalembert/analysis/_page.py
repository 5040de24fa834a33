"""7 · analysis: `report`: machine, redundancy, motion, reactions and settings as one page that can be sent."""

from __future__ import annotations

import datetime
import json
import platform
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dalembert._results import AssemblyError, DalembertError, Status, check_output
from dalembert.analysis._graph import plot_graph
from dalembert.analysis._redundancy import Check, check
from dalembert.analysis._report import friction_lines, summary, values_of, with_value
from dalembert.io import text_of, write_in_place
from dalembert.model import Model
from dalembert.reactions import LABELS
from dalembert.simulation import Solution, simulate
from dalembert.stabilise import CHANGED, State
from dalembert.systems import AbstractSystem, build
from dalembert.view import (
    Lines,
    Mark,
    Motion,
    Picture,
    Section,
    Source,
    Table,
    Words,
    need_matplotlib,
    plot_dataset,
    report_page,
)

PACKAGES = ("jax", "diffrax", "equinox", "numpy", "scipy", "matplotlib")
ROWS_ALONG = 200
"""Largest number of constraint rows for which rank and uniqueness are followed along the motion."""
GRAPH_UP_TO = 30
"""Largest number of joints for which the joint graph is readable."""
MARKS = {"unique": "unique", "partly": "partly unique", "open": "not unique"}
COUNTS = 7
"""Lines of one kind that are shown at first; the others unfold."""


def report(
    model: Model | AbstractSystem | Solution,
    path,
    *,
    t_end: float | None = None,
    coordinates: str = "absolute",
    about: str = "",
    samples: int = 401,
    progress: bool = False,
    **settings,
) -> Path:
    """Write a report as one HTML page that needs no network: the machine, its rank and redundancy, which reactions are
    unique, its motion (it plays), reactions with the rule that picked them, curves, settings and versions.

    A model or a system is simulated to `t_end` (default 10) with `settings` as for `simulate`; a `Solution` is reported
    as it is. `about` is a sentence under the title. A run that ends early is shown up to there, and constraints
    that contradict each other are named without a motion. Under 5 MB for a normal run.
    """
    if Path(path).suffix not in (".html", ".htm"):
        raise DalembertError(f"Cannot write '{path}': the name of a report must end in .html.")
    check_output(path, (".html", ".htm"))
    need_matplotlib()
    log = _log if progress else lambda text: None
    if isinstance(model, Solution):
        if settings or t_end is not None or coordinates != "absolute":
            raise DalembertError(
                "A solution is reported as it is; give t_end=, coordinates= and settings to da.simulate."
            )
        system, solution = model.system, model
    else:
        system = build(model, coordinates=coordinates) if isinstance(model, Model) else model
        log(f"{system.name}: simulating")
        solution = _moved(system, 10.0 if t_end is None else t_end, samples, progress, settings)
    log(f"{system.name}: rank, redundancy and reactions")
    found = _checked(system, solution)
    log(f"{system.name}: drawing")
    sections = _sections(found, system, solution)
    if isinstance(model, Model):
        with suppress(DalembertError):  # Python functions have no text
            sections[-1].blocks.append(Source("The model as a file", text_of(model, summary=about)))
    made = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    lead = f"{about[0].upper()}{about[1:].rstrip('.')}. Made on {made}." if about else f"Made on {made}."
    text = report_page(system.name, lead, sections)
    return write_in_place(path, ".html", lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def _checked(system: AbstractSystem, solution: Solution | None) -> Check:
    """The check along the motion; for many rows at its start alone, as ranks at many instants take minutes."""
    if solution is None:
        return check(system)
    if system.m < ROWS_ALONG:
        return check(solution)
    return check(system, State(solution.q[0], solution.v[0]), t=float(solution.t[0]))


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _moved(system: AbstractSystem, t_end: float, samples: int, progress: bool, settings: dict) -> Solution | None:
    """The motion up to its end; none where the constraints do not hold at the start."""
    try:
        solution = simulate(system, t_end, samples=samples, progress=progress, throw=False, **settings)
    except AssemblyError:
        if check(system, reactions=False).consistent:
            raise
        return None
    return solution if len(solution.t) else None


# ---- the parts -----------------------------------------------------------------------------------------------------


def _sections(found: Check, system: AbstractSystem, solution: Solution | None) -> list[Section]:
    data = None if solution is None else _drawable(solution.dataset)
    out = [Section("In short", _in_short(found, solution))]
    if solution is not None and data is not None and "geometry" in data:
        out.append(Section("The mechanism", _mechanism(solution, data)))
    out.append(Section("Rank and redundancy", _redundancy(found)))
    if found.solvability is not None and found.solvability.joints:
        out.append(Section("Which reactions can be believed", _solvability(found, solution)))
    if solution is not None and data is not None:
        shown = [Motion(solution.dataset)] if "geometry" in data else []
        out.append(Section("The motion", [Words(_ended(solution), _tone(solution.status)), *shown]))
        if "joint" in data:
            out.append(Section("Reactions", _reactions(found, solution, data)))
        kinds = {"coordinates": "joint coordinates", "energy": "energy", "violation": "constraint violation"}
        curves: list[Any] = [Picture(plot_dataset(data, kind), f"{text} over time", 78) for kind, text in kinds.items()]
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
        out.append(Words("There is no motion to show: the constraints cannot hold together at the start.", "bad"))
        return out
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
    parts = []
    for what in ("force", "torque"):
        everything = solution.dataset[f"reaction_{what}_in_joint"]
        values = everything.sel(joint=joint).values.reshape(len(solution.t), -1)
        parts.append(np.where(np.abs(values) > 1e-10 * np.nanmax(np.abs(everything.values)), values, 0.0))
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
        (j["name"], _kind(j["kind"]), " – ".join(j["bodies"]), Mark(MARKS[word], word))
        for j, word in zip(machine["joints"], solvability, strict=True)
    ]
    if joints:
        out.append(Table(("joint", "kind", "between", "reaction"), joints, (), "Joints"))
    forces = [(f["name"], _kind(f["kind"]), " – ".join(f["bodies"])) for f in machine["forces"]]
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
            Words("Of so many rows the rank is told at the start alone; da.check(solution) looks along a motion.")
        )
    if found.motion is not None:
        m = found.motion
        ranks = ", ".join(map(str, m.ranks))
        out.append(Words(f"Along the motion from {m.t0:g} to {m.t_end:g} s: rank {ranks} at {m.instants} instants."))
        out.append(Lines("Singular positions", [p.message for p in m.singular_positions], COUNTS))
    return out


def _solvability(found: Check, solution: Solution | None) -> list:
    result, along = found.solvability, _components(found, solution)
    assert result is not None
    if not found.redundancy:
        rows = [(j.name, j.kind, values_of(j, j.components)) for j in result.joints]
        out: list = [Words("All rows are independent: every reaction is unique.", "good")]
        return [*out, Table(("reaction of", "", "at the start, along the joint's axes"), rows)]
    rows = []
    for j in result.joints:
        sure, open_ = ([c for c, unique in j.components.items() if unique is wanted] for wanted in (True, False))
        rows.append((j.name, j.kind, _mark(along[j.name].values()), values_of(j, sure) or "–", " ".join(open_) or "–"))
    when = "" if solution is None else "over the motion"
    methods = " and ".join(result.methods).replace("qr", "QR").replace(" and ", ", ", len(result.methods) - 2)
    agree = f"Found by {methods}, which agree." if result.agree else f"Found by {methods}, which do not all agree here."
    out = [
        Table(("reaction of", "", when, "unique at the start", "not unique at the start"), rows),
        Words(f"Components are along the joint's own axes. {agree}", "" if result.agree else "bad"),
        Lines("Unique together, though their parts are not", [with_value(s) for s in result.sums], COUNTS),
        Lines("Depend on each other", [str(g) for g in result.groups], COUNTS),
        Lines("To make it non-redundant, free", [str(r) for r in result.releases], COUNTS),
    ]
    if found.solvability_here is not None:
        open_ = [j.name for j in found.solvability_here.joints if not j.unique]
        out.append(Words(f"In the singular pose at the start these reactions are open: {_listed(open_)}.", "open"))
    if found.motion is not None and found.motion.changing:
        out.append(Words(f"Unique at some instants of the motion only: {_listed(found.motion.changing)}.", "open"))
    out += [Words(line.strip(), "bad" if "red" in tone else "") for line, tone in friction_lines(found)]
    out += [Words(f"{line}.", "") for line in found.remarks]
    return out


def _reactions(found: Check, solution: Solution, data) -> list:
    """Least and largest values over the motion, component by component, along the joint's own axes."""
    rule = solution.rule.describe(solution.machine)
    words = (
        Words(f"Not all reactions are unique. Those that are not were picked by: {rule}.", "open")
        if solution.redundancy
        else Words("All reactions are unique: no rule was needed.", "good")
    )
    rows = []
    for joint, components in _components(found, solution).items():
        values = _wrench(solution, joint)
        for label, y in zip(LABELS[values.shape[1]], values.T, strict=True):
            if label in components:
                sure = Mark("unique", "unique") if components[label] else Mark("not unique: by the rule", "open")
                unit = "N" if label.startswith("F") else "N m"
                rows.append((joint, label, f"{y.min():.4g}", f"{y.max():.4g}", unit, sure))
    where = "Force and torque of the joint on its second body, at its marker, along the joint's axes; over the motion."
    table = Table(("joint", "", "least", "largest", "", "determined"), rows, (2, 3))
    return [words, Words(where), table, Picture(plot_dataset(data, "reactions"), "reaction forces over time", 100)]


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


def _kind(kind: str) -> str:
    return kind.split(":")[0].replace("_", " ")


def _listed(names, most: int = 12) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _inertia(value) -> str:
    I = np.asarray(value, float)
    if I.ndim == 0:
        return f"{float(I):.4g}"
    off = np.abs(I - np.diag(np.diag(I))).max() > 1e-12 * np.abs(I).max()
    diagonal = ", ".join(f"{x:.4g}" for x in np.diag(I))
    return f"{diagonal}; {', '.join(f'{I[a, b]:.4g}' for a, b in ((0, 1), (0, 2), (1, 2)))} beside" if off else diagonal


def _literal(text: str) -> str:
    r"""A name for matplotlib: a dollar sign does not begin a formula."""
    return text.replace("$", r"\$")


def _drawable(data) -> Any:
    """The dataset with names that figures show unchanged."""
    names = {k: [_literal(str(x)) for x in data[k].values] for k in ("body", "joint", "joint_coordinate") if k in data}
    out = data.assign_coords({k: x for k, x in names.items() if any("$" in text for text in x)})
    if "geometry" in out and "$" in str(out["geometry"].values):
        out["geometry"] = ((), str(out["geometry"].values).replace("$", r"\\$"))
    return out.assign_attrs(model=_literal(str(data.attrs.get("model", ""))))
