"""edge · what commands print and write: an answer, how a motion went, the files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer


def show(found, as_json: bool) -> None:
    """An answer as one JSON object, or in colours where the terminal has them."""
    if as_json:
        print(json.dumps(found.as_dict()))
        return
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(found)


def tell_written(paths: list[Path | None], quiet: bool) -> None:
    """A line for each file; None stands for one that nobody asked for."""
    for path in paths:
        if path is not None and not quiet:
            print(f"  written    {path}")


def summary_of(solution) -> dict:
    """How a motion went: what `--json` prints of it."""
    stats = {k: (float(v) if isinstance(v, float) else int(v)) for k, v in solution.stats.items()}
    phases = solution.phases
    contact = {}
    if phases is not None and phases.of_contacts:
        lifted = [{"t": t, "contact": name} for t, name in phases.lift_offs]
        impacts = [
            {"t": x.t, "impulses": x.impulses, "unique": x.unique, "rule": x.rule, "energy_lost": x.energy_lost}
            for x in phases.impacts
        ]
        contact = {"lift_offs": lifted, "impacts": impacts}
    return {
        "model": solution.system.name,
        "status": solution.status.name,
        **stats,
        "integrator": solution.integrator,
        "t_end": float(solution.t_end),
        "violation": solution.violation,
        "energy_drift": solution.energy_drift,
        "redundancy": solution.redundancy,
        "reaction_rule": solution.rule.describe(solution.machine),
        "not_determined": _not_determined(solution),
        **contact,
    }


def _not_determined(solution) -> list[str]:
    """When which reactions are not determined; pictures and tables are loaded only to say so."""
    if not solution.results.instants.marked.any():
        return []
    from dalembert.view import in_words, windows

    return in_words(windows(solution.dataset))


def print_summary(report: dict, solution) -> None:
    """The same in words."""
    from dalembert.stabilise import CHANGED

    v = report["violation"]
    rejected = f"{report['rejected']} rejected" if report["rejected"] else "none rejected"
    print(f"  {report['status']} at t = {report['t_end']:g} s with {report['integrator']}")
    if report["start_moved"] > 1e-9:
        print(f"  start      moved by {report['start_moved']:.1e} of the machine's size to close its joints")
    share = report["start_velocity_changed"]
    if share > CHANGED:
        print(f"  start      velocities changed by up to {share:.0%} of the largest, to what the joints allow")
    print(f"  steps      {report['accepted']} ({rejected})")
    print(
        f"  violation  position {v['position']:.1e}, velocity {v['velocity']:.1e}, "
        f"acceleration {v['acceleration']:.1e} (relative to the machine's size)"
    )
    print(f"  energy     drift {report['energy_drift']:.1e} of the energy that moves")
    if solution.phases is not None and solution.phases.of_contacts:
        for line in solution.phases.counted:
            print(f"  contact    {line}")
    if report["redundancy"]:
        print(f"  reactions  not all unique; picked by: {report['reaction_rule']}")
    for line in report["not_determined"]:
        print(f"  reactions  {line}")


def save_run(solution, output, plot, *, quiet: bool) -> None:
    """Write a motion and its page of figures, and tell where they are."""
    written: list[Path | None] = []
    if output is not None:
        written.append(solution.to_csv(output) if output.suffix == ".csv" else solution.to_netcdf(output))
    if plot is not None:
        solution.plot(plot)
        written.append(plot)
    tell_written(written, quiet)


def end_if_failed(failure: str | None, as_json: bool) -> None:
    """A motion that was not finished ends the command with 1; in JSON its sentence stands already."""
    if failure:
        if not as_json:
            print(f"dalembert: {failure}", file=sys.stderr)
        raise typer.Exit(1)
