"""edge · the command line: list, check, run, compare, demo. Heavy imports happen inside the commands."""

from __future__ import annotations

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
def check(model: ModelName, as_json: AsJson = False) -> None:
    """What a model is: rows, rank, redundancy, mobility."""
    from dalembert.analysis import check as check_model
    from dalembert.mechanisms import find

    found = check_model(find(model).model())
    print(json.dumps(found.as_dict()) if as_json else found)


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
def compare(
    model: ModelName,
    formulations: Annotated[str | None, typer.Option(help="Names with commas; default: all.")] = None,
    complements: Annotated[
        str | None, typer.Option(help="Names with commas, or 'all'; default: the usual ones.")
    ] = None,
    stabilisations: Annotated[str, typer.Option(help="Names with commas, or 'all'.")] = "projection",
    t_end: Annotated[float, typer.Option(help="End of the motion, in seconds.")] = 1.0,
    rtol: Annotated[float, typer.Option(help="Relative tolerance of the integration.")] = 1e-8,
    integrator: Annotated[str | None, typer.Option(help="tsit5, dopri8, …; default by tolerance.")] = None,
    dt: Annotated[float | None, typer.Option(help="Take fixed steps of this length.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a figure: .png, .pdf or .svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """One motion by every formulation, complement and stabilisation, side by side."""
    _check_output(plot, (".png", ".pdf", ".svg"))
    from dalembert.analysis import compare as compare_ways
    from dalembert.complements import all_complements
    from dalembert.formulations import all_formulations
    from dalembert.mechanisms import find
    from dalembert.stabilise import all_stabilisations

    def listed(text: str | None, table):
        return None if text is None else list(table) if text == "all" else [x.strip() for x in text.split(",")]

    entry = find(model)
    found = compare_ways(
        entry.model(),
        t_end,
        formulations=listed(formulations, all_formulations()),
        complements=listed(complements, all_complements()),
        stabilisations=listed(stabilisations, all_stabilisations()),
        integrator=integrator or entry.run.get("integrator"),
        rtol=rtol,
        dt=dt,
    )
    print(json.dumps(found.as_dict()) if as_json else found)
    if plot is not None:
        found.plot(plot)


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
        print(check_model(system), flush=True)
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
