"""edge · commands of many machines: study, resume, status."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from dalembert._results import DalembertError
from dalembert.cli._options import AsJson, Progress

Workers = Annotated[int | None, typer.Option(help="Processes of this machine.", min=1)]
Scheduler = Annotated[str | None, typer.Option(metavar="tcp://HOST:PORT", help="Compute on this Dask cluster.")]
StudyFolder = Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a study.")]


def study(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.yaml", help="A study file: a model, what varies, what is kept.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder of the study; default as in the file.")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    progress: Progress = True,
    as_json: AsJson = False,
) -> None:
    """Many machines: all cases of a study file, in a folder that survives; goes on where it was stopped."""
    from dalembert.mechanisms import find
    from dalembert.studies import study_file

    options: dict[str, Any] = _computing(workers, scheduler, progress, as_json) | (
        {} if output is None else {"out": output}
    )
    _tell_study(study_file(file, lambda name: find(name).model(), **options), as_json)


def resume(
    folder: StudyFolder,
    workers: Workers = None,
    scheduler: Scheduler = None,
    progress: Progress = True,
    as_json: AsJson = False,
) -> None:
    """Compute what is missing of a study."""
    from dalembert.studies import resume as go_on

    _tell_study(go_on(folder, **_computing(workers, scheduler, progress, as_json)), as_json)


def status(
    folder: StudyFolder,
    live: Annotated[bool, typer.Option("--live", help="Go on telling until it is done.")] = False,
    as_json: AsJson = False,
) -> None:
    """How far a study is: done, failed, rate, time left. It may be running, also on another machine."""
    from dalembert.studies import open_study

    found = open_study(folder)
    if as_json:
        print(json.dumps(found.status()))
        return
    print(_status_line(found.status()))
    while live and (now := found.status())["done"] < now["cases"]:
        time.sleep(1.0)
        print(_status_line(found.status()), flush=True)
    _tell_failures(found)


def _computing(workers: int | None, scheduler: str | None, progress: bool, quiet: bool) -> dict[str, Any]:
    if workers is not None and scheduler is not None:
        raise DalembertError("Give --workers (processes of this machine) or --scheduler (a Dask cluster), not both.")
    return {"workers": workers, "client": scheduler, "progress": progress and not quiet and sys.stderr.isatty()}


def _tell_study(found, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found.status() | {"folder": str(found.folder)}))
        return
    print(_status_line(found.status()))
    _tell_failures(found)
    print(f"  written    {found.folder}")


def _status_line(now: dict[str, Any]) -> str:
    line = f"{now['name']}: {now['done']} of {now['cases']} cases are done, {now['failed']} failed"
    if now["rate"]:
        line += f"; {now['rate']:.3g} cases a second"
    if now["rate"] and now["done"] < now["cases"]:
        left = f"about {now['time_left']:.0f} s left"
        line += f", {left}" if now["running"] else f", {left} if it goes on: dalembert resume"
    return line


def _tell_failures(found) -> None:
    """The messages of failed cases, and how often; the most frequent ones first."""
    from collections import Counter

    for sentence, count in Counter(x for x in found.dataset["message"].values.tolist() if x).most_common(5):
        print(f"  {count} × {sentence}")
