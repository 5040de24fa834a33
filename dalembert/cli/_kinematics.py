"""edge · poses and motions that are found without integrating: kinematics."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Annotated

import typer

from dalembert._results import DalembertError, RedundancyWarning, SimulationError, SingularWarning, check_output
from dalembert.cli._models import built, entry_of
from dalembert.cli._options import (
    AsJson,
    Changes,
    Coordinates,
    EndTime,
    ModelName,
    RuleName,
    SamplesIfGiven,
    check_plot,
    rule_named,
)
from dalembert.cli._shown import end_if_failed, print_summary, save_run, summary_of, tell_written
from dalembert.cli._values import assigned, number, texts_of


def kinematics(
    model: ModelName,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the result: .nc (netCDF); of a motion also .csv, .html (a report)."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture: .png, .pdf or .svg.")] = None,
    t_end: EndTime = None,
    samples: SamplesIfGiven = None,
    drive: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LAW", help="Drive a joint coordinate by a formula of t: A.angle=2*t. Repeatable."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A pose instead: A.angle=30*deg, tip.position=0.8,0.2. Repeatable."),
    ] = None,
    assemblies: Annotated[bool, typer.Option("--assemblies", help="With --target: list all other poses.")] = False,
    sweep: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FROM:TO:COUNT", help="Poses over a grid instead: A.angle=0:2*pi:91. Repeatable."),
    ] = None,
    release: Annotated[
        list[str] | None, typer.Option(metavar="DRIVER", help="For poses: leave out this driver, or 'all'.")
    ] = None,
    at: Annotated[float, typer.Option(help="For poses: the time at which drivers hold, in seconds.")] = 0.0,
    rule: RuleName = None,
    changes: Changes = None,
    coordinates: Coordinates = "absolute",
    as_json: AsJson = False,
) -> None:
    """The motion that drivers determine, without integrating; or a pose from targets, or poses over a grid."""
    if target and sweep:
        raise DalembertError("Give --target or --sweep, not both.")
    check_output(output, (".nc",) if target or sweep else (".nc", ".csv", ".html"))
    check_plot(plot)
    entry = given = entry_of(model)
    if drive:
        entry = dataclasses.replace(entry, make=lambda: _driven(given.model(), drive))
    system = built(entry, coordinates, changes)
    names = () if not release else True if release == ["all"] else tuple(release)
    options = {"t": at, "release": names}
    if target:
        _pose(system, assigned(target, "--target"), assemblies, options, output, plot, as_json)
    elif sweep:
        _sweep(system, {k: _range(k, v) for k, v in texts_of(sweep, "--sweep").items()}, options, output, plot, as_json)
    else:
        _kinematics(system, entry.t_end if t_end is None else t_end, samples, rule_named(rule), output, plot, as_json)


def _range(name: str, text: str):
    """FROM:TO:COUNT as an array."""
    import numpy as np

    parts = [x.strip() for x in text.split(sep=":")]
    if len(parts) != 3 or not parts[2].isdigit() or int(parts[2]) < 1:
        raise DalembertError(f"--sweep {name}={text}: write NAME=FROM:TO:COUNT, such as {name}=0:1:21.")
    first, last = (number(part, f"--sweep {name}={text}") for part in parts[:2])
    return np.linspace(first, last, int(parts[2]))


def _driven(model, laws: list[str]):
    """The model with joint coordinates driven by formulas of time."""
    for k, (name, law) in enumerate(texts_of(laws, "--drive").items()):
        joint, _, coordinate = name.rpartition(".") if name not in model.constraints else (name, "", "")
        if joint not in model.constraints:
            raise DalembertError(f"--drive {name}: there is no joint '{joint or name}' in '{model.name}'.")
        model.driver(f"drive{k + 1}", joint, law, **({"coordinate": coordinate} if coordinate else {}))
    return model


def _pose(system, targets, assemblies: bool, options, output, plot, as_json: bool) -> None:
    from dalembert.analysis import solve_pose
    from dalembert.io import write_netcdf

    pose = solve_pose(system, targets, assemblies=assemblies, throw=False, **options)
    if as_json:
        print(json.dumps(pose.as_dict()))
    else:
        print(pose)
        for k, each in enumerate((pose, *pose.others)):
            label = f"  pose {k}" if pose.others else "  joints"
            print(f"{label}  {', '.join(f'{n} = {x:.6g}' for n, x in each.coordinates.items())}")
    tell_written([None if output is None else write_netcdf(pose.dataset, output), _drawn(pose, plot)], as_json)
    if not pose.met:
        raise typer.Exit(1)


def _sweep(system, grid, options, output, plot, as_json: bool) -> None:
    from dalembert.analysis import sweep_pose

    found = sweep_pose(system, grid, **options)
    print(json.dumps(found.as_dict()) if as_json else found)
    tell_written([None if output is None else found.to_netcdf(output), _drawn(found, plot)], as_json)


def _drawn(thing, path: Path | None) -> Path | None:
    if path is not None:
        thing.plot(path=path)
    return path


def _kinematics(system, t_end: float, samples: int | None, rule, output, plot, as_json: bool) -> None:
    from dalembert.analysis import kinematics as follow

    for category in (RedundancyWarning, SingularWarning):
        warnings.simplefilter("ignore", category)  # reported below
    failure = None
    try:
        solution = follow(system, t_end, samples=samples, rule=rule)
    except SimulationError as error:
        failure, solution = str(error), error.solution
    assert solution is not None
    dead = [] if failure else solution.singular_positions()
    if as_json:
        points = [
            {"t": p.t, "rank": p.rank, "rank_elsewhere": p.rank_elsewhere, "joints": list(p.joints)} for p in dead
        ]
        message = {"message": failure} if failure else {}
        print(json.dumps(summary_of(solution) | {"dead_points": points} | message))
    else:
        print_summary(summary_of(solution), solution)
        for p in dead:
            print(f"  dead point t = {p.t:.6g} s: rows of {', '.join(p.joints)} become dependent")
    if output is not None and output.suffix == ".html":
        from dalembert.reports import report as report_model

        tell_written([report_model(solution, output)], as_json)
        output = None
    save_run(solution, output, plot, quiet=as_json)
    end_if_failed(failure, as_json)
