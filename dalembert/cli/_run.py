"""edge · commands that simulate and tell how it went: run, compare, demo."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from dalembert._results import DalembertError, RecordWarning, RedundancyWarning, SimulationError, Status, check_output
from dalembert.cli._app import STARTED
from dalembert.cli._models import built, entry_of
from dalembert.cli._options import (
    AsJson,
    Changes,
    Closing,
    EndTime,
    FigureFile,
    FixedStep,
    ModelName,
    MostSteps,
    Progress,
    RelativeTolerance,
    RuleName,
    SamplesIfGiven,
    check_plot,
    kinds_of_coordinates,
    rule_named,
)
from dalembert.cli._pages import report
from dalembert.cli._shown import end_if_failed, print_summary, save_run, summary_of


def run(
    model: ModelName,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the result: .nc (netCDF) or .csv.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a page of figures: .png, .pdf or .svg.")] = None,
    t_end: EndTime = None,
    rtol: RelativeTolerance = None,
    integrator: Annotated[
        str | None, typer.Option(help="tsit5, dopri8, radau5 (stiff), …; default by tolerance.")
    ] = None,
    dt: FixedStep = None,
    max_steps: MostSteps = None,
    rule: RuleName = None,
    samples: SamplesIfGiven = None,
    changes: Changes = None,
    coordinates: Annotated[
        str | None, typer.Option(help="absolute (the default) or joint.", autocompletion=kinds_of_coordinates)
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN.nc", help="Go on with this run, as if it had not stopped.")
    ] = None,
    tolerance: Closing = None,
    progress: Progress = True,
    as_json: AsJson = False,
) -> None:
    """Simulate a model and report how it went."""
    check_output(output, (".nc", ".csv"))
    check_plot(plot)
    settings: dict = {"rtol": rtol, "integrator": integrator, "dt": dt, "max_steps": max_steps}
    settings |= {"rule": rule_named(rule), "tolerance": tolerance}
    watched = progress and not as_json and sys.stderr.isatty()
    _simulate(model, output, plot, t_end, settings, samples, watched, as_json, coordinates, changes, resume)


def _simulate(
    name, output, plot, t_end, settings, samples, progress, as_json, coordinates=None, changes=None, resume=None
) -> None:
    # the first run of a program includes its compilation
    began = time.perf_counter() if "dalembert.simulation" in sys.modules else STARTED
    entry = entry_of(name)
    warnings.simplefilter("ignore", RedundancyWarning)  # reported once below
    from dalembert._runtime import compile_stopwatch
    from dalembert.analysis import check as check_model
    from dalembert.simulation import simulate

    compiled = compile_stopwatch.seconds
    given: dict[str, Any] = {k: v for k, v in settings.items() if v is not None}
    chosen: dict[str, Any] = {**entry.run, **given, "samples": samples or 201}
    rule, cut = None, ()
    if resume is not None:
        former = _former(resume)
        # settings of the model's file may have been overridden: use those of the run itself
        chosen, rule = given | {"samples": samples, "after": former}, given.pop("rule", None)
        chosen.pop("rule", None)
        origin = former.system.machine.origin
        coordinates, cut = coordinates or origin.coordinates, origin.cut
    closing = {"tolerance": chosen["tolerance"]} if "tolerance" in chosen else {}
    if resume is not None and former.restart is not None:
        closing = {"tolerance": former.restart.tolerance}
    system = built(entry, coordinates or "absolute", changes, cut)
    if not as_json:
        print(check_model(system, reactions=False, **closing).summary(), flush=True)
    failure = None
    try:
        solution = simulate(system, entry.t_end if t_end is None else t_end, progress=progress, **chosen)
        solution = solution if rule is None else solution.with_rule(rule)
    except SimulationError as error:
        failure, solution = str(error), error.solution
    enough = solution is not None and len(solution.t) > 0
    report = (
        summary_of(solution)
        if enough
        else {"status": Status.not_assembled.name if solution is None else solution.status.name}
    )
    if as_json:
        print(json.dumps(report | ({"message": failure} if failure else {})))
    elif enough:
        print_summary(report, solution)
    if enough:
        save_run(solution, output, plot, quiet=as_json)
        if not as_json:
            _print_time(time.perf_counter() - began, float(report["wall_s"]), compile_stopwatch.seconds - compiled)
    end_if_failed(failure, as_json)


def _former(path: Path) -> Any:
    """The run in a file, to go on with."""
    from dalembert.results import RecordedRun, open_run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        found = open_run(path)
    if isinstance(found, RecordedRun):
        raise DalembertError(found.missing)
    return found


def _print_time(total: float, simulate: float, compile_: float) -> None:
    """The total time, and its parts."""
    rest = max(0.0, total - simulate - compile_)
    print(
        f"  time       {total:.1f} s: {simulate * 1e3:.0f} ms to simulate, {compile_:.1f} s to compile, "
        f"{rest:.1f} s to load, check, evaluate and write"
    )


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
    dt: FixedStep = None,
    plot: FigureFile = None,
    changes: Changes = None,
    as_json: AsJson = False,
) -> None:
    """One motion by every formulation, complement and stabilisation, side by side."""
    check_plot(plot)
    from dalembert.analysis import compare as compare_ways
    from dalembert.complements import all_complements
    from dalembert.formulations import all_formulations
    from dalembert.stabilise import all_stabilisations

    def listed(text: str | None, table):
        return None if text is None else list(table) if text == "all" else [x.strip() for x in text.split(",")]

    entry = entry_of(model)
    found = compare_ways(
        built(entry, "absolute", changes),
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


def demo(folder: Annotated[Path, typer.Option(help="Where the files go.")] = Path("out")) -> None:
    """The main job on built-in mechanisms: describe, simulate, save, plot, and a report to send."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DalembertError(f"Cannot make the folder '{folder}': {reason}.") from None
    for name in ("four-bar", "bricard"):
        _simulate(name, folder / f"{name}.nc", folder / f"{name}.png", None, {}, 501, True, False)
        print()
    page = folder / "mobile-robot.html"
    report("mobile-robot", page)
    print(f"\nLook at the pictures in {folder}/, open {page} in a browser, and try: dalembert view bricard")
