"""edge · commands that ask about a machine without letting it run: check, statics, modes, assembly."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from dalembert._results import DalembertError, check_output
from dalembert.cli._models import built, entry_of
from dalembert.cli._options import (
    AsJson,
    Changes,
    Closing,
    Coordinates,
    FigureFile,
    Friction,
    ModelName,
    NetcdfFile,
    Play,
    PullOnly,
    PushOnly,
    RuleName,
    Strength,
    check_plot,
    rule_named,
)
from dalembert.cli._shown import show, tell_written
from dalembert.cli._values import assigned, known_of, limits, one_or_several, split_component


def check(
    model: ModelName,
    at: Annotated[float | None, typer.Option(help="Look at the state that the motion reaches at this time.")] = None,
    motion: Annotated[bool, typer.Option("--motion", help="Look along the whole motion as well.")] = False,
    changes: Changes = None,
    tolerance: Closing = None,
    ranges: Annotated[
        bool, typer.Option("--ranges", help="The least and the greatest possible value of every reaction.")
    ] = False,
    push_only: PushOnly = None,
    pull_only: PullOnly = None,
    friction: Friction = None,
    strength: Strength = None,
    play: Play = None,
    coordinates: Coordinates = "absolute",
    as_json: AsJson = False,
) -> None:
    """Mobility, redundancy, contradictions, and which reactions can be believed."""
    known = known_of(push_only, pull_only, friction, strength, play)
    entry = entry_of(model)
    system = built(entry, coordinates, changes)
    found = _check(system, entry.t_end, entry.run, at, motion, tolerance, limits(known) if known else ranges)
    show(found, as_json)
    if not found.consistent:
        raise typer.Exit(1)


def _check(system, t_end, settings, at, motion, tolerance=None, ranges: Any = False):
    """The check of a system at its start, at a time of its motion, or along it."""
    from dalembert.analysis import check as check_model
    from dalembert.simulation import simulate

    settings = settings if tolerance is None else settings | {"tolerance": tolerance}
    closing = {"tolerance": settings["tolerance"]} if "tolerance" in settings else {}
    if not motion and at is None:
        return check_model(system, ranges=ranges, **closing)
    first = check_model(system, reactions=False, **closing)
    if not first.consistent:  # nothing moves
        return first
    if at is not None and at < 0:
        raise DalembertError(f"--at {at:g}: the motion begins at 0.")
    if not motion and at == 0:
        return check_model(system, ranges=ranges, **closing)
    end = max(t_end, at or 0.0) if motion or at is None else at
    solution = simulate(system, end, throw=False, **settings)
    if at is None:
        return check_model(solution, ranges=ranges, **closing)
    found = check_model(system, solution.at(at), t=at, ranges=ranges, **closing)
    return dataclasses.replace(found, motion=check_model(solution, reactions=False).motion) if motion else found


def statics(
    model: ModelName,
    hold: Annotated[
        list[str] | None,
        typer.Option(
            "--hold",
            metavar="NAME[=VALUE]",
            help="Hold a joint coordinate or a measured position (as it is, or at a value) by an effort, "
            "which is printed.",
        ),
    ] = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option("--unknown", metavar="NAME", help="Find this parameter, so that no effort is needed to hold it."),
    ] = None,
    along: Annotated[
        list[str] | None,
        typer.Option(
            "--along",
            metavar="NAME=FROM:TO",
            help="Follow a parameter, a held number or the time t: load.value=0,0:0,-500. Repeat for several.",
        ),
    ] = None,
    at: Annotated[float, typer.Option(help="The time at which drivers and loads are held.")] = 0.0,
    nearest: Annotated[bool, typer.Option("--nearest", help="The nearest equilibrium, also an unstable one.")] = False,
    rule: RuleName = None,
    changes: Changes = None,
    coordinates: Coordinates = "absolute",
    output: NetcdfFile = None,
    plot: FigureFile = None,
    animate: Annotated[Path | None, typer.Option(help="Write the machine along its path: .html, .gif or .mp4.")] = None,
    as_json: AsJson = False,
) -> None:
    """Where a machine rests, whether it stays there, and what its joints bear; or along a changing load."""
    check_output(output, (".nc",))
    check_output(animate, (".html", ".gif", ".mp4"))
    check_plot(plot)
    if animate is not None and not along:
        raise DalembertError("--animate shows a path; say what changes with --along NAME=FROM:TO.")
    if unknown and along:
        raise DalembertError("--unknown finds the parameters of one pose; leave out --along.")
    system = built(entry_of(model), coordinates, changes)
    from dalembert.analysis import equilibrium, quasistatic

    options: dict[str, Any] = {
        "t": at, "find": "nearest" if nearest else "stable", "hold": _held(hold), "rule": rule_named(rule),
    }  # fmt: skip
    if along:
        found = quasistatic(system, dict(_span(text) for text in along), **options)
    else:
        found = equilibrium(system, unknown=unknown or (), **options)
    show(found, as_json)
    written = [] if output is None else [found.to_netcdf(output)]
    if plot is not None:
        found.plot(path=plot)
        written.append(plot)
    if animate is not None:
        written.append(found.animate(animate))
    if not as_json:
        for path in written:
            print(f"  written: {path}")


def _held(hold: list[str] | None) -> dict[str, Any]:
    """What `--hold NAME=VALUE` names; None for what is held as it is."""
    out: dict[str, Any] = {}
    for text in hold or ():
        name, equals, value = text.partition("=")
        out[name.strip()] = one_or_several(value, f"--hold {text}") if equals else None
    return out


def _span(text: str) -> tuple[str, tuple]:
    """The name and the two ends of `--along NAME=FROM:TO`."""
    name, equals, value = text.partition("=")
    ends = re.fullmatch(r"\s*([^:]+):([^:]+)", value)
    if not (equals and ends and name.strip()):
        raise DalembertError(f"--along {text}: write NAME=FROM:TO, such as load.value=0,0:0,-500 or t=0:10.")
    first, last = (one_or_several(end, f"--along {text}") for end in ends.groups())
    return name.strip(), (first, last)


def modes(
    model: ModelName,
    rest: Annotated[bool, typer.Option("--rest", help="Let it come to rest first: about its equilibrium.")] = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME", help="An input, or a joint coordinate along which an effort acts."),
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--output-of", metavar="NAME", help="A measured number or joint coordinate.")
    ] = None,
    open_: Annotated[
        list[str] | None, typer.Option("--open", metavar="NAME", help="Hold the outputs of this controller.")
    ] = None,
    at: Annotated[float, typer.Option(help="The time at which drivers and loads are taken.")] = 0.0,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="Also where the state is not steady.")] = False,
    rule: RuleName = None,
    changes: Changes = None,
    coordinates: Coordinates = "absolute",
    output: NetcdfFile = None,
    mode: Annotated[int, typer.Option(help="The mode that --plot and --animate show.", min=1)] = 1,
    plot: Annotated[Path | None, typer.Option(help="Write a figure of a mode: .png, .pdf or .svg.")] = None,
    animate: Annotated[Path | None, typer.Option(help="Write a mode in motion: .html, .gif or .mp4.")] = None,
    bode: Annotated[Path | None, typer.Option(help="Write the frequency responses: .png, .pdf or .svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Small motions: modes with frequency, damping and energy; frequency responses from inputs to outputs."""
    check_output(output, (".nc",))
    check_output(animate, (".html", ".gif", ".mp4"))
    check_plot(plot)
    check_plot(bode)
    if bode is not None and not (inputs and outputs):
        raise DalembertError("--bode needs something that goes in and comes out: --input NAME --output-of NAME.")
    system = built(entry_of(model), coordinates, changes)
    from dalembert.analysis import equilibrium, linearise

    found = linearise(
        system, equilibrium(system, t=at) if rest else None, inputs=inputs or (), outputs=outputs or (),
        open=open_ or False, rule=rule_named(rule), t=at, anywhere=anywhere,
    )  # fmt: skip
    written: list[Path | None] = []
    if plot is not None:
        found.plot(mode, path=plot)
        written.append(plot)
    if animate is not None:
        written.append(found.animate(mode, animate))
    if bode is not None:
        found.bode(path=bode)
        written.append(bode)
    if output is not None:
        written.append(found.to_netcdf(output))
    show(found, as_json)
    tell_written(written, as_json)


def assembly(
    model: ModelName,
    errors: Annotated[
        list[str] | None,
        typer.Option(
            "--error",
            metavar="DIMENSION=VALUE",
            help="How far a dimension is off: hinge.point_j=0,0,1e-4 or hinge.point_j.z=1e-4. Repeat for several.",
        ),
    ] = None,
    tolerances: Annotated[
        list[str] | None,
        typer.Option("--within", metavar="DIMENSION=VALUE", help="The tolerance of a dimension: hinge.point_j=1e-4."),
    ] = None,
    stiffness: Annotated[
        list[str] | None,
        typer.Option(
            "--stiffness",
            metavar="JOINT=VALUE",
            help="In N/m: a number for all joints, hinge=1e7 or hinge.Fx=1e7; joints not named are rigid. "
            "Default: 1e8 for all, which is stated.",
        ),
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option("--measure", metavar="NAME", help="A measured position or joint coordinate.")
    ] = None,
    hold: Annotated[
        list[str] | None, typer.Option("--hold", metavar="NAME", help="A position that stays as it is.")
    ] = None,
    motion: Annotated[bool, typer.Option("--motion", help="Over the whole motion.")] = False,
    changes: Changes = None,
    coordinates: Coordinates = "absolute",
    output: NetcdfFile = None,
    as_json: AsJson = False,
) -> None:
    """What joints have to bear because the parts do not quite fit: which dimension loads which joint by how much."""
    check_output(output, (".nc",))
    given = [assigned(x, option) for x, option in ((errors or [], "--error"), (tolerances or [], "--within"))]
    if bool(given[0]) == bool(given[1]):
        raise DalembertError("Say how far dimensions are off, --error hinge.point_j.x=1e-4, or within what they are, "
                             "--within hinge.point_j=1e-4.")  # fmt: skip
    stiff = _stiffness(stiffness)
    entry = entry_of(model)
    system = built(entry, coordinates, changes)
    from dalembert.analysis import assembly as assembled
    from dalembert.io import write_netcdf
    from dalembert.simulation import simulate

    found = assembled(
        simulate(system, entry.t_end, throw=False, **entry.run) if motion else system,
        errors=given[0] or None, tolerances=given[1] or None, stiffness=1e8 if stiff is None else stiff,
        measurements=measure, hold=hold or (),
    )  # fmt: skip
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        print(found)
        if stiff is None:
            print("  every joint is taken as elastic with 1e8 N/m; say what it is with --stiffness")
    tell_written([None if output is None else write_netcdf(found.dataset, output)], as_json)
    if found.contradictions:
        raise typer.Exit(1)


def _stiffness(texts: list[str] | None):
    """What `--stiffness` says: one number for all joints, or by joint and component."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return one_or_several(texts[0], f"--stiffness {texts[0]}")
    out: dict[str, Any] = {}
    for name, value in assigned(texts, "--stiffness").items():
        joint, component = split_component(name)
        if not component:
            out[joint] = value
        elif isinstance(out.setdefault(joint, {}), dict):
            out[joint][component] = value
        else:
            raise DalembertError(f"--stiffness {name}: '{joint}' has one number for all its components already.")
    return out
