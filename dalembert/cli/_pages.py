"""edge · commands that show a machine on a page: view, report."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from dalembert._results import DalembertError, RedundancyWarning, check_output
from dalembert.cli._models import built, entry_of
from dalembert.cli._options import (
    Changes,
    Coordinates,
    EndTime,
    Friction,
    MostSteps,
    Play,
    PullOnly,
    PushOnly,
    RelativeTolerance,
    RuleName,
    Samples,
    Strength,
    model_names,
    rule_named,
)
from dalembert.cli._values import known_of, limits


def view(
    what: Annotated[
        str,
        typer.Argument(
            metavar="MODEL or RESULT",
            help="A model file or mechanism, or a result (.nc) of `run -o`.",
            autocompletion=model_names,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write it instead: .html (a page to send), .gif or .mp4.")
    ] = None,
    t_end: EndTime = None,
    samples: Samples = 401,
    changes: Changes = None,
    port: Annotated[int, typer.Option(help="Port on this machine; 0 picks a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Show a machine in motion: a page on this machine, read again whenever the file is saved."""
    from dalembert.io import read_netcdf
    from dalembert.view import Server, animate_dataset, need_matplotlib, page_of_dataset

    check_output(output, (".html", ".gif", ".mp4"))
    if output is not None and output.suffix != ".html":
        need_matplotlib()

    if changes and what.endswith(".nc"):
        raise DalembertError(f"--set changes a model; '{what}' is a result.")

    def read():
        return read_netcdf(Path(what)) if what.endswith(".nc") else _moved(what, t_end, samples, changes)

    first = _stamp(Path(what))
    data = read()
    if output is not None:
        print(f"Written: {animate_dataset(data, output)}")
        return
    page_of_dataset(data)  # reports what cannot be drawn

    def make(stamp: str) -> str:
        return page_of_dataset(data if stamp == first else read(), live=stamp)

    server = Server(make, lambda: _stamp(Path(what)), port)
    print(f"Showing {what} at {server.address} (stop with Ctrl-C).", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(server.address)
    server.run()


def _moved(name: str, t_end: float | None, samples: int, changes: list[str] | None = None):
    """The result of a model's run; one that ends early is shown as far as it came."""
    from dalembert.simulation import simulate

    warnings.simplefilter("ignore", RedundancyWarning)  # the page shows it
    entry = entry_of(name)
    end = entry.t_end if t_end is None else t_end
    solution = simulate(built(entry, "absolute", changes), end, samples=samples, throw=False, **entry.run)
    if len(solution.t) == 0:
        raise DalembertError(f"'{name}' does not move: {solution.status.message}")
    return solution.results.shown()


def _stamp(path: Path) -> str:
    """Changes when a file is saved again; a built-in mechanism never does."""
    try:
        return str(path.stat().st_mtime_ns)
    except OSError:
        return "-"


def report(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL or STUDY", help="As elsewhere, or the folder of a study.", autocompletion=model_names
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page that is written; default NAME-report.html.")
    ] = None,
    t_end: EndTime = None,
    rtol: RelativeTolerance = None,
    max_steps: MostSteps = None,
    rule: RuleName = None,
    samples: Samples = 401,
    changes: Changes = None,
    coordinates: Coordinates = "absolute",
    statics: Annotated[
        bool, typer.Option("--statics", help="Tell also where it rests, and what it bears there.")
    ] = False,
    modes: Annotated[bool, typer.Option("--modes", help="Tell also its modes, about its start or its rest.")] = False,
    push_only: PushOnly = None,
    pull_only: PullOnly = None,
    friction: Friction = None,
    strength: Strength = None,
    play: Play = None,
) -> None:
    """One page to send: the machine, its redundancy, its motion, reactions that can be believed, settings."""
    path = Path(f"{Path(model).stem or 'model'}-report.html") if output is None else output
    check_output(path, (".html",))
    if (Path(model) / "study.json").is_file():
        from dalembert.reports import report_study
        from dalembert.studies import open_study

        print(f"Written: {report_study(open_study(model), path)}")
        return
    settings = {"rtol": rtol, "max_steps": max_steps, "rule": rule_named(rule)}
    known = known_of(push_only, pull_only, friction, strength, play)
    entry = entry_of(model)
    machine = entry.model()
    from dalembert.reports import report as report_model

    warnings.simplefilter("ignore", RedundancyWarning)  # the page shows it
    chosen = entry.run | {k: v for k, v in settings.items() if v is not None}
    end = entry.t_end if t_end is None else t_end
    options = {"about": entry.summary, "samples": samples, "progress": True, "statics": statics, "modes": modes}
    if known:
        options["known"] = limits(known)
    if changes:  # the model as a file would not be what was simulated
        machine = built(entry, coordinates, changes)
        options["about"] = f"{entry.summary or machine.name}; changed: {', '.join(changes)}"
    else:
        options["coordinates"] = coordinates
    print(f"Written: {report_model(machine, path, t_end=end, **options, **chosen)}")
