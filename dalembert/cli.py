"""edge · the command line: list, check, run, demo. Heavy imports happen inside the commands."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="dalembert: the dynamics of constrained mechanical systems.",
)

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="A built-in mechanism; `dalembert list` shows them.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """The built-in mechanisms."""
    from dalembert.mechanisms import mechanisms

    table = mechanisms()
    if as_json:
        print(json.dumps([{"name": m.name, "summary": m.summary, "t_end": m.t_end} for m in table.values()]))
        return
    width = max(map(len, table))
    for m in table.values():
        print(f"{m.name:<{width}}  {m.summary}")


@app.command()
def check(
    model: ModelName,
    at: Annotated[float | None, typer.Option(help="Look at the state that the motion reaches at this time.")] = None,
    motion: Annotated[bool, typer.Option("--motion", help="Look along the whole motion as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """Mobility, redundancy, contradictions, and which reactions can be believed."""
    from dalembert.mechanisms import find

    entry = find(model)
    found = _check(entry.model(), entry.t_end, entry.run, at, motion)
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        from rich.console import Console

        Console(highlight=False, soft_wrap=True).print(found)
    if not found.consistent:
        raise typer.Exit(1)


def _check(model, t_end, settings, at, motion):
    """The check of a model at its start, at a time of its motion, or along it."""
    from dalembert._results import DalembertError
    from dalembert.analysis import check as check_model
    from dalembert.simulation import simulate
    from dalembert.systems import build

    system = build(model)
    if not motion and at is None:
        return check_model(system)
    first = check_model(system, reactions=False)
    if not first.consistent:  # nothing moves
        return first
    if at is not None and at < 0:
        raise DalembertError(f"--at {at:g}: the motion begins at 0.")
    if not motion and at == 0:
        return check_model(system)
    end = at if not motion else max(t_end, at or 0.0)
    solution = simulate(system, end, throw=False, **settings)
    if at is None:
        return check_model(solution)
    found = check_model(system, solution.at(at), t=at)
    return dataclasses.replace(found, motion=check_model(solution, reactions=False).motion) if motion else found


@app.command()
def run(
    model: ModelName,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the result: .nc (netCDF) or .csv.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a page of figures: .png, .pdf or .svg.")] = None,
    t_end: Annotated[float | None, typer.Option(help="End of the motion, in seconds.")] = None,
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance of the integration.")] = None,
    integrator: Annotated[str | None, typer.Option(help="tsit5, dopri8, kvaerno5, …; default by tolerance.")] = None,
    dt: Annotated[float | None, typer.Option(help="Take fixed steps of this length.")] = None,
    samples: Annotated[int, typer.Option(help="Number of saved times.", min=2)] = 201,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
    as_json: AsJson = False,
) -> None:
    """Simulate a model and report how it went."""
    _check_output(output, (".nc", ".csv"))
    _check_output(plot, (".png", ".pdf", ".svg"))
    settings = {"rtol": rtol, "integrator": integrator, "dt": dt}
    _simulate(model, output, plot, t_end, settings, samples, progress and not as_json and sys.stderr.isatty(), as_json)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where the files go.")] = Path("out"),
) -> None:
    """The main job on a built-in mechanism: describe, simulate, report, save, plot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("four-bar", "bricard"):
        _simulate(name, folder / f"{name}.nc", folder / f"{name}.png", None, {}, 501, True, False)
        print()
    print(f"Look at the pictures in {folder}/, and try: dalembert run mobile-robot --plot {folder}/robot.png")


def _simulate(name, output, plot, t_end, settings, samples, progress, as_json) -> None:
    from dalembert._results import RedundancyWarning, SimulationError, Status

    warnings.simplefilter("ignore", RedundancyWarning)  # said in words below, once
    from dalembert.analysis import check as check_model
    from dalembert.mechanisms import find
    from dalembert.simulation import simulate
    from dalembert.systems import build

    entry = find(name)
    system = build(entry.model())
    if not as_json:
        print(check_model(system, reactions=False).summary(), flush=True)
    chosen = entry.run | {k: v for k, v in settings.items() if v is not None}
    failure = None
    try:
        solution = simulate(system, entry.t_end if t_end is None else t_end, save=samples, progress=progress, **chosen)
    except SimulationError as error:
        failure, solution = str(error), error.solution
    enough = solution is not None and len(solution.t) > 0
    report = (
        _report(solution)
        if enough
        else {"status": Status.not_assembled.name if solution is None else solution.status.name}
    )
    if as_json:
        print(json.dumps(report | ({"message": failure} if failure else {})))
    elif enough:
        _print_report(report, solution)
    if enough:
        _save(solution, output, plot, quiet=as_json)
    if failure:
        if not as_json:
            print(f"dalembert: {failure}", file=sys.stderr)
        raise typer.Exit(1)


def _report(solution) -> dict:
    stats = {k: (float(v) if k.endswith("_s") else int(v)) for k, v in solution.stats.items()}
    return {
        "model": solution.system.name,
        "status": solution.status.name,
        **stats,
        "integrator": solution.integrator,
        "t_end": float(solution.t_end),
        "violation": solution.violation,
        "energy_drift": solution.energy_drift,
        "redundancy": solution.redundancy,
        "reaction_rule": solution.rule.describe(solution.system),
    }


def _print_report(report: dict, solution) -> None:
    v = report["violation"]
    rejected = f"{report['rejected']} rejected" if report["rejected"] else "none rejected"
    print(f"  {report['status']} at t = {report['t_end']:g} s with {report['integrator']}")
    print(f"  steps      {report['accepted']} ({rejected})")
    print(f"  time       {report['wall_s'] * 1e3:.0f} ms to simulate, {report['compile_s']:.1f} s to compile")
    print(
        f"  violation  position {v['position']:.1e}, velocity {v['velocity']:.1e}, "
        f"acceleration {v['acceleration']:.1e} (relative to the machine's size)"
    )
    print(f"  energy     drift {report['energy_drift']:.1e} of the energy that moves")
    if report["redundancy"]:
        print(f"  reactions  not all unique; picked by: {report['reaction_rule']}")


def _save(solution, output, plot, *, quiet: bool) -> None:
    written = []
    if output is not None:
        written.append(solution.to_csv(output) if output.suffix == ".csv" else solution.to_netcdf(output))
    if plot is not None:
        solution.plot(plot)
        written.append(plot)
    if not quiet:
        for path in written:
            print(f"  written    {path}")


def _check_output(path: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse a file that cannot be written before the work is done, not after."""
    if path is None:
        return
    from dalembert._results import DalembertError

    if path.suffix not in endings:
        raise DalembertError(f"Cannot write '{path}': its name must end in {' or '.join(endings)}.")
    if not path.parent.is_dir():
        raise DalembertError(f"Cannot write '{path}': the folder '{path.parent}' does not exist.")


def main() -> None:
    """Entry point: every error that is meant for a person is one sentence, never a traceback."""
    from dalembert._results import DalembertError

    try:
        app()
    except DalembertError as error:
        print(f"dalembert: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("dalembert: stopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
