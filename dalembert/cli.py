"""edge · the command line: list, check, statics, modes, run, kinematics, study, view, report, compare, …"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from dalembert import _streams
from dalembert._results import DalembertError, check_output

_STARTED = time.perf_counter()

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="dalembert: the dynamics of constrained mechanical systems.",
)


def _models(incomplete: str) -> list[str]:
    """For the shell: built-in mechanisms, model and robot files, folders. Loads nothing large."""
    built_in = sorted(p.stem for p in (Path(__file__).parent / "mechanisms" / "files").glob("*.yaml"))
    folder = Path(incomplete).parent if "/" in incomplete else Path()
    endings = (".yaml", ".yml", ".urdf", ".xml", ".mjcf")
    beside = [f"{p}/" if p.is_dir() else str(p) for p in folder.glob("[!.]*") if p.is_dir() or p.suffix in endings]
    return [name for name in (*built_in, *sorted(beside)) if name.startswith(incomplete)]


def _rules(incomplete: str) -> list[str]:
    from dalembert.model import RULES

    return [name for name in RULES if name.startswith(incomplete)]


def _kinds_of_coordinates(incomplete: str) -> list[str]:
    return [name for name in ("absolute", "joint") if name.startswith(incomplete)]


ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model file (.yaml), a robot (.urdf, .xml) or a built-in (`dalembert list`).",
        autocompletion=_models,
    ),
]
Coordinates = Annotated[
    str,
    typer.Option(
        help="absolute (each body's own) or joint (those of a spanning tree).", autocompletion=_kinds_of_coordinates
    ),
]
RuleName = Annotated[
    str | None,
    typer.Option(
        help="What picks reactions that are not unique: weighted, minimum_norm, eliminated, …", autocompletion=_rules
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a number of the model: crank.mass=2, B.point_j=0,1, drive.speed=90*deg. Repeat for several.",
    ),
]
Closing = Annotated[
    float | None,
    typer.Option("--tolerance", help="How far redundant joints may be from closing, of the machine's size."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def _show_version(asked: bool) -> None:
    if asked:
        import dalembert

        print(f"dalembert {dalembert.__version__}")
        raise typer.Exit()


@app.callback()
def _any_command(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


@app.command("list")
def list_(
    where: Annotated[
        str | None, typer.Argument(metavar="[MODEL or FOLDER]", help="A folder: its model files, a line each.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The built-in mechanisms, or the model files of a folder."""
    if where is None:
        from dalembert.mechanisms import mechanisms

        rows = [{"name": m.name, "summary": m.summary, "t_end": m.t_end} for m in mechanisms().values()]
    elif Path(where).is_dir():
        from dalembert.io import FILE_ENDINGS

        # links are left out, as they may lead anywhere
        files = (p for p in Path(where).iterdir() if p.name.endswith(FILE_ENDINGS) and not p.is_symlink())
        rows = [_file_row(path) for path in sorted(files)]
    else:
        entry = _entry(where)
        rows = [{"name": where, "summary": entry.summary, "t_end": entry.t_end}]
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print(f"There is no model file (.yaml, .yml) in {where}.")
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['name']:<{width}}  {row['summary']}".rstrip())


@app.command()
def check(
    model: ModelName,
    at: Annotated[float | None, typer.Option(help="Look at the state that the motion reaches at this time.")] = None,
    motion: Annotated[bool, typer.Option("--motion", help="Look along the whole motion as well.")] = False,
    changes: Changes = None,
    tolerance: Closing = None,
    coordinates: Coordinates = "absolute",
    as_json: AsJson = False,
) -> None:
    """Mobility, redundancy, contradictions, and which reactions can be believed."""
    entry = _entry(model)
    found = _check(_built(entry, coordinates, changes), entry.t_end, entry.run, at, motion, tolerance)
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        from rich.console import Console

        Console(highlight=False, soft_wrap=True).print(found)
    if not found.consistent:
        raise typer.Exit(1)


Held = Annotated[
    list[str] | None,
    typer.Option(
        "--hold",
        metavar="NAME[=VALUE]",
        help="Hold a joint coordinate or a measured position (as it is, or at a value) by an effort, which is told.",
    ),
]


@app.command()
def statics(
    model: ModelName,
    hold: Held = None,
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
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the result: .nc (netCDF).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a figure: .png, .pdf or .svg.")] = None,
    animate: Annotated[Path | None, typer.Option(help="Write the machine along its path: .html, .gif or .mp4.")] = None,
    as_json: AsJson = False,
) -> None:
    """Where a machine rests, whether it stays there, and what its joints bear; or along a changing load."""
    check_output(output, (".nc",))
    check_output(animate, (".html", ".gif", ".mp4"))
    _check_plot(plot)
    if animate is not None and not along:
        raise DalembertError("--animate shows a path; say what changes with --along NAME=FROM:TO.")
    if unknown and along:
        raise DalembertError("--unknown finds the parameters of one pose; leave out --along.")
    entry = _entry(model)
    system = _built(entry, coordinates, changes)
    from dalembert.analysis import equilibrium, quasistatic

    options: dict[str, Any] = {
        "t": at, "find": "nearest" if nearest else "stable", "hold": _held(hold), "rule": _rule(rule),
    }  # fmt: skip
    if along:
        found = quasistatic(system, dict(_span(text) for text in along), **options)
    else:
        found = equilibrium(system, unknown=unknown or (), **options)
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        from rich.console import Console

        Console(highlight=False, soft_wrap=True).print(found)
    written = [] if output is None else [found.to_netcdf(output)]
    if plot is not None:
        found.plot(path=plot)
        written.append(plot)
    if animate is not None:
        written.append(found.animate(animate))
    if not as_json:
        for path in written:
            print(f"  written: {path}")


@app.command()
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
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the result: .nc (netCDF).")] = None,
    mode: Annotated[int, typer.Option(help="The mode that --plot and --animate show.", min=1)] = 1,
    plot: Annotated[Path | None, typer.Option(help="Write a figure of a mode: .png, .pdf or .svg.")] = None,
    animate: Annotated[Path | None, typer.Option(help="Write a mode in motion: .html, .gif or .mp4.")] = None,
    bode: Annotated[Path | None, typer.Option(help="Write the frequency responses: .png, .pdf or .svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Small motions: modes with frequency, damping and energy; frequency responses from inputs to outputs."""
    check_output(output, (".nc",))
    check_output(animate, (".html", ".gif", ".mp4"))
    _check_plot(plot)
    _check_plot(bode)
    if bode is not None and not (inputs and outputs):
        raise DalembertError("--bode needs something that goes in and comes out: --input NAME --output-of NAME.")
    entry = _entry(model)
    system = _built(entry, coordinates, changes)
    from dalembert.analysis import equilibrium, linearise

    found = linearise(
        system, equilibrium(system, t=at) if rest else None, inputs=inputs or (), outputs=outputs or (),
        open=open_ or False, rule=_rule(rule), t=at, anywhere=anywhere,
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
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        from rich.console import Console

        Console(highlight=False, soft_wrap=True).print(found)
    _written(written, as_json)


def _numbers(text: str, who: str) -> Any:
    """A number, or several with commas."""
    from dalembert.model import value_of

    try:
        found = [value_of(part) for part in text.strip("[]() ").split(",")]
    except DalembertError as error:
        raise DalembertError(f"{who}: {error}") from None
    return found[0] if len(found) == 1 else found


def _held(hold: list[str] | None) -> dict[str, Any]:
    """What `--hold NAME=VALUE` names; None for what is held as it is."""
    out: dict[str, Any] = {}
    for text in hold or ():
        name, equals, value = text.partition("=")
        out[name.strip()] = _numbers(value, f"--hold {text}") if equals else None
    return out


def _span(text: str) -> tuple[str, tuple]:
    """The name and the two ends of `--along NAME=FROM:TO`."""
    name, equals, value = text.partition("=")
    ends = re.fullmatch(r"\s*([^:]+):([^:]+)", value)
    if not (equals and ends and name.strip()):
        raise DalembertError(f"--along {text}: write NAME=FROM:TO, such as load.value=0,0:0,-500 or t=0:10.")
    first, last = (_numbers(end, f"--along {text}") for end in ends.groups())
    return name.strip(), (first, last)


def _built(entry, coordinates: str, changes: list[str] | None, cut: tuple[str, ...] = ()):
    """The system of a model, with some of its numbers changed. A bad file is refused before JAX is loaded."""
    model = entry.model()
    from dalembert.systems import build

    system = build(model, coordinates=coordinates, cut=cut)
    return _changed(system, changes) if changes else system


def _changed(system, changes: list[str]):
    """The system with numbers set by `--set NAME=VALUE`."""
    from dalembert._results import did_you_mean
    from dalembert.model import value_of

    known, values = system.parameters(), {}
    for text in changes:
        name, equals, value = text.partition("=")
        name, who = name.strip(), f"--set {text}"
        if not equals or not name or not value.strip():
            example = next((k for k, x in known.items() if not x.shape), next(iter(known)))
            raise DalembertError(f"{who}: write NAME=VALUE, such as --set {example}=2.")
        if name not in known:
            item = name.partition(".")[0]
            of_item = [k for k in known if k.partition(".")[0] == item]
            listed = f" '{item}' has {', '.join(of_item)}." if of_item else ""
            raise DalembertError(
                f"{who}: '{system.name}' has no parameter '{name}'.{did_you_mean(name, known)}{listed}"
            )
        try:
            numbers = [value_of(part) for part in value.replace(";", ",").strip("[]() ").split(",")]
        except DalembertError as error:
            raise DalembertError(f"{who}: {error}") from None
        shape = tuple(known[name].shape)
        size = math.prod(shape)
        if len(numbers) != size:
            wanted = "one number" if size == 1 else f"{size} numbers, with commas"
            raise DalembertError(f"{who}: {name} is {wanted}; this is {len(numbers)}.")
        import numpy as np

        values[name] = np.reshape(numbers, shape)
    return system.replace(values)


def _check(system, t_end, settings, at, motion, tolerance=None):
    """The check of a system at its start, at a time of its motion, or along it."""
    from dalembert.analysis import check as check_model
    from dalembert.simulation import simulate

    settings = settings if tolerance is None else settings | {"tolerance": tolerance}
    closing = {"tolerance": settings["tolerance"]} if "tolerance" in settings else {}
    if not motion and at is None:
        return check_model(system, **closing)
    first = check_model(system, reactions=False, **closing)
    if not first.consistent:  # nothing moves
        return first
    if at is not None and at < 0:
        raise DalembertError(f"--at {at:g}: the motion begins at 0.")
    if not motion and at == 0:
        return check_model(system, **closing)
    end = max(t_end, at or 0.0) if motion or at is None else at
    solution = simulate(system, end, throw=False, **settings)
    if at is None:
        return check_model(solution, **closing)
    found = check_model(system, solution.at(at), t=at, **closing)
    return dataclasses.replace(found, motion=check_model(solution, reactions=False).motion) if motion else found


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The file NAME.yaml is written.")],
    like: Annotated[str | None, typer.Option(help="Begin with a built-in mechanism or another file.")] = None,
) -> None:
    """Write a model file to start from; an existing file is never touched."""
    from dalembert.io import FILE_ENDINGS, starter, text_of, write_in_place

    path = Path(name if name.endswith(FILE_ENDINGS) else f"{name}.yaml")
    if not path.stem.strip(" .") or "." in path.stem:
        raise DalembertError(f"'{name}' cannot name a model; use letters, digits, - and _.")
    if like is None:
        text = starter(path.stem)
    else:
        entry = _entry(like)
        model = entry.model()
        model.name = path.stem
        text = text_of(model, run=entry.settings(), summary=entry.summary)
    try:
        write_in_place(path, ".yaml", lambda name: Path(name).write_text(text, encoding="utf-8"), replace=False)
    except FileExistsError:
        raise DalembertError(f"'{path}' exists already; choose another name.") from None
    print(f"Written: {path}. Next: dalembert check {path}")


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A robot: URDF (.urdf) or MJCF (.xml, .mjcf).")],
    target: Annotated[Path, typer.Argument(metavar="OUT.yaml", help="The model file that is written.")],
    base: Annotated[str, typer.Option(help="URDF: the root is 'fixed' to the ground, or 'free'.")] = "fixed",
    loops: Annotated[Path | None, typer.Option(help="URDF: a side file with loops; default NAME.loops.yaml.")] = None,
    keyframe: Annotated[str | None, typer.Option(help="MJCF: the keyframe to start from.")] = None,
    stops: Annotated[float | None, typer.Option(help="Stiffness of end stops at the joints' limits.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse what is left out with a remark otherwise: odd pictures, …")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT.yaml if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read a robot file and write it as a model file; tells what was taken over and what was not."""
    from dalembert.io import FILE_ENDINGS, ROBOT_ENDINGS, read, save

    check_output(target, FILE_ENDINGS)
    if source.suffix not in ROBOT_ENDINGS:
        raise DalembertError(f"'{source}': the name of a robot file ends in {' or '.join(ROBOT_ENDINGS[:3])}.")
    if target.exists() and not force:
        raise DalembertError(f"'{target}' exists already; choose another name, or give --force.")
    options = {"base": base if base != "fixed" else None, "loops": loops, "keyframe": keyframe, "stops": stops}
    options["strict"] = strict or None
    found = read(source, **{k: x for k, x in options.items() if x is not None})
    remarks = list(found.remarks)
    if found.model.shapes and any(s.file for s in found.model.shapes.values()) and target.parent != source.parent:
        remarks.append(f"Meshes are looked for beside '{target}'; copy them there.")
    save(found.model, target, summary=found.summary)
    taken = _taken_over(found.model)
    if as_json:
        print(json.dumps({"written": str(target), "taken_over": taken, "remarks": remarks}))
        return
    print(f"{source} → {target}")
    for section, kinds in taken.items():
        total = sum(kinds.values())
        several = list(kinds) != [section.removesuffix("s")] and section not in ("bodies",)
        counts = ": " + ", ".join(f"{n} {kind}" for kind, n in kinds.items()) if several else ""
        print(f"  {section:<8} {total}{counts}")
    if remarks:
        print("Remarks")
        for remark in remarks:
            print(f"  - {remark}")


def _taken_over(model) -> dict[str, dict[str, int]]:
    """For each section, how many elements of each kind."""
    from collections import Counter

    found = {section: Counter(s.type for s in statements) for section, statements in model.sections().items()}
    return {section: dict(kinds) for section, kinds in found.items() if kinds}


@app.command()
def schema() -> None:
    """The form of model files as JSON Schema, for editors."""
    from dalembert.io import json_schema

    print(json.dumps(json_schema(), indent=1, ensure_ascii=not _streams.speaks_unicode(sys.stdout)))


@app.command()
def run(
    model: ModelName,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the result: .nc (netCDF) or .csv.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a page of figures: .png, .pdf or .svg.")] = None,
    t_end: Annotated[float | None, typer.Option(help="End of the motion, in seconds.")] = None,
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance of the integration.")] = None,
    integrator: Annotated[
        str | None, typer.Option(help="tsit5, dopri8, radau5 (stiff), …; default by tolerance.")
    ] = None,
    dt: Annotated[float | None, typer.Option(help="Take fixed steps of this length.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="The most steps that are taken.", min=1)] = None,
    rule: RuleName = None,
    samples: Annotated[int | None, typer.Option(help="Number of saved times; default 201.", min=2)] = None,
    changes: Changes = None,
    coordinates: Annotated[
        str | None, typer.Option(help="absolute (the default) or joint.", autocompletion=_kinds_of_coordinates)
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN.nc", help="Go on with this run, as if it had not stopped.")
    ] = None,
    tolerance: Closing = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
    as_json: AsJson = False,
) -> None:
    """Simulate a model and report how it went."""
    check_output(output, (".nc", ".csv"))
    _check_plot(plot)
    settings: dict = {"rtol": rtol, "integrator": integrator, "dt": dt, "max_steps": max_steps}
    settings |= {"rule": _rule(rule), "tolerance": tolerance}
    watched = progress and not as_json and sys.stderr.isatty()
    _simulate(model, output, plot, t_end, settings, samples, watched, as_json, coordinates, changes, resume)


@app.command()
def kinematics(
    model: ModelName,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the result: .nc (netCDF); of a motion also .csv, .html (a report)."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture: .png, .pdf or .svg.")] = None,
    t_end: Annotated[float | None, typer.Option(help="End of the motion, in seconds.")] = None,
    samples: Annotated[int | None, typer.Option(help="Number of saved times; default 201.", min=2)] = None,
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
    _check_plot(plot)
    entry = given = _entry(model)
    if drive:
        entry = dataclasses.replace(entry, make=lambda: _driven(given.model(), drive))
    system = _built(entry, coordinates, changes)
    names = () if not release else True if release == ["all"] else tuple(release)
    options = {"t": at, "release": names}
    if target:
        _pose(system, _assigned(target, "--target"), assemblies, options, output, plot, as_json)
    elif sweep:
        _sweep(system, {k: _range(k, v) for k, v in _assigned(sweep, "--sweep", False).items()}, options, output, plot,
               as_json)  # fmt: skip
    else:
        _kinematics(system, entry.t_end if t_end is None else t_end, samples, _rule(rule), output, plot, as_json)


def _assigned(texts: list[str], option: str, numbers: bool = True) -> dict[str, Any]:
    """NAME=VALUE, … as a dictionary; values are numbers, or texts."""
    from dalembert.model import value_of

    out: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (x.strip() for x in text.partition("="))
        if not (equals and name and value):
            raise DalembertError(f"{option} {text}: write NAME=VALUE.")
        try:
            found = [value_of(x) for x in value.strip("[]() ").split(",")] if numbers else [value]
        except DalembertError as error:
            raise DalembertError(f"{option} {text}: {error}") from None
        out[name] = found[0] if len(found) == 1 else found
    return out


def _range(name: str, text: str):
    """FROM:TO:COUNT as an array."""
    import numpy as np

    from dalembert.model import value_of

    parts = [x.strip() for x in str(text).split(sep=":")]
    if len(parts) != 3 or not parts[2].isdigit() or int(parts[2]) < 1:
        raise DalembertError(f"--sweep {name}={text}: write NAME=FROM:TO:COUNT, such as {name}=0:1:21.")
    try:
        return np.linspace(value_of(parts[0]), value_of(parts[1]), int(parts[2]))
    except DalembertError as error:
        raise DalembertError(f"--sweep {name}={text}: {error}") from None


def _driven(model, laws: list[str]):
    """The model with joint coordinates driven by formulas of time."""
    for k, (name, law) in enumerate(_assigned(laws, "--drive", False).items()):
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
    _written([None if output is None else write_netcdf(pose.dataset, output), _drawn(pose, plot)], as_json)
    if not pose.met:
        raise typer.Exit(1)


def _sweep(system, grid, options, output, plot, as_json: bool) -> None:
    from dalembert.analysis import sweep_pose

    found = sweep_pose(system, grid, **options)
    print(json.dumps(found.as_dict()) if as_json else found)
    _written([None if output is None else found.to_netcdf(output), _drawn(found, plot)], as_json)


def _drawn(thing, path: Path | None) -> Path | None:
    if path is not None:
        thing.plot(path=path)
    return path


def _written(paths: list[Path | None], quiet: bool) -> None:
    for path in paths:
        if path is not None and not quiet:
            print(f"  written    {path}")


def _kinematics(system, t_end: float, samples: int | None, rule, output, plot, as_json: bool) -> None:
    from dalembert._results import RedundancyWarning, SimulationError, SingularWarning
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
        print(json.dumps(_report(solution) | {"dead_points": points} | message))
    else:
        _print_report(_report(solution), solution)
        for p in dead:
            print(f"  dead point t = {p.t:.6g} s: rows of {', '.join(p.joints)} become dependent")
    if output is not None and output.suffix == ".html":
        from dalembert.reports import report as report_model

        _written([report_model(solution, output)], as_json)
        output = None
    _save(solution, output, plot, quiet=as_json)
    if failure:
        if not as_json:
            print(f"dalembert: {failure}", file=sys.stderr)
        raise typer.Exit(1)


def _check_plot(path: Path | None) -> None:
    """Refuse a figure that cannot be made before the work is done."""
    if path is not None:
        from dalembert.view import check_figure

        check_figure(path)


def _rule(name: str | None):
    """A reaction rule by its name, refused before the work is done."""
    if name is None:
        return None
    from dalembert.reactions import rule_of

    return rule_of(name)


@app.command()
def view(
    what: Annotated[
        str,
        typer.Argument(
            metavar="MODEL or RESULT",
            help="A model file or mechanism, or a result (.nc) of `run -o`.",
            autocompletion=_models,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write it instead: .html (a page to send), .gif or .mp4.")
    ] = None,
    t_end: Annotated[float | None, typer.Option(help="End of the motion, in seconds.")] = None,
    samples: Annotated[int, typer.Option(help="Number of saved times.", min=2)] = 401,
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
    from dalembert._results import RedundancyWarning
    from dalembert.simulation import simulate

    warnings.simplefilter("ignore", RedundancyWarning)  # the page shows it
    entry = _entry(name)
    end = entry.t_end if t_end is None else t_end
    solution = simulate(_built(entry, "absolute", changes), end, samples=samples, throw=False, **entry.run)
    if len(solution.t) == 0:
        raise DalembertError(f"'{name}' does not move: {solution.status.message}")
    return solution.dataset


def _stamp(path: Path) -> str:
    """Changes when a file is saved again; a built-in mechanism never does."""
    try:
        return str(path.stat().st_mtime_ns)
    except OSError:
        return "-"


@app.command()
def report(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL or STUDY", help="As elsewhere, or the folder of a study.", autocompletion=_models
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page that is written; default NAME-report.html.")
    ] = None,
    t_end: Annotated[float | None, typer.Option(help="End of the motion, in seconds.")] = None,
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance of the integration.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="The most steps that are taken.", min=1)] = None,
    rule: RuleName = None,
    samples: Annotated[int, typer.Option(help="Number of saved times.", min=2)] = 401,
    changes: Changes = None,
    coordinates: Coordinates = "absolute",
    statics: Annotated[
        bool, typer.Option("--statics", help="Tell also where it rests, and what it bears there.")
    ] = False,
    modes: Annotated[bool, typer.Option("--modes", help="Tell also its modes, about its start or its rest.")] = False,
) -> None:
    """One page to send: the machine, its redundancy, its motion, reactions that can be believed, settings."""
    path = Path(f"{Path(model).stem or 'model'}-report.html") if output is None else output
    check_output(path, (".html",))
    if (Path(model) / "study.json").is_file():
        from dalembert.reports import report_study
        from dalembert.studies import open_study

        print(f"Written: {report_study(open_study(model), path)}")
        return
    settings = {"rtol": rtol, "max_steps": max_steps, "rule": _rule(rule)}
    entry = _entry(model)
    machine = entry.model()
    from dalembert._results import RedundancyWarning
    from dalembert.reports import report as report_model

    warnings.simplefilter("ignore", RedundancyWarning)  # the page shows it
    chosen = entry.run | {k: v for k, v in settings.items() if v is not None}
    end = entry.t_end if t_end is None else t_end
    options = {"about": entry.summary, "samples": samples, "progress": True, "statics": statics, "modes": modes}
    if changes:  # the model as a file would not be what was simulated
        machine = _built(entry, coordinates, changes)
        options["about"] = f"{entry.summary or machine.name}; changed: {', '.join(changes)}"
    else:
        options["coordinates"] = coordinates
    print(f"Written: {report_model(machine, path, t_end=end, **options, **chosen)}")


@app.command()
def study(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.yaml", help="A study file: a model, what varies, what is kept.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder of the study; default as in the file.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes of this machine.", min=1)] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="tcp://HOST:PORT", help="Compute on this Dask cluster.")
    ] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
    as_json: AsJson = False,
) -> None:
    """Many machines: all cases of a study file, in a folder that survives; goes on where it was stopped."""
    from dalembert.mechanisms import find
    from dalembert.studies import study_file

    options: dict[str, Any] = _computing(workers, scheduler, progress, as_json) | (
        {} if output is None else {"out": output}
    )
    _tell_study(study_file(file, lambda name: find(name).model(), **options), as_json)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a study.")],
    workers: Annotated[int | None, typer.Option(help="Processes of this machine.", min=1)] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="tcp://HOST:PORT", help="Compute on this Dask cluster.")
    ] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
    as_json: AsJson = False,
) -> None:
    """Compute what is missing of a study."""
    from dalembert.studies import resume as go_on

    _tell_study(go_on(folder, **_computing(workers, scheduler, progress, as_json)), as_json)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a study.")],
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
    for sentence, count in _sentences(found).items():
        print(f"  {count} × {sentence}")


def _computing(workers: int | None, scheduler: str | None, progress: bool, quiet: bool) -> dict[str, Any]:
    if workers is not None and scheduler is not None:
        raise DalembertError("Give --workers (processes of this machine) or --scheduler (a Dask cluster), not both.")
    return {"workers": workers, "client": scheduler, "progress": progress and not quiet and sys.stderr.isatty()}


def _tell_study(found, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found.status() | {"folder": str(found.folder)}))
        return
    print(_status_line(found.status()))
    for sentence, count in _sentences(found).items():
        print(f"  {count} × {sentence}")
    print(f"  written    {found.folder}")


def _status_line(now: dict[str, Any]) -> str:
    line = f"{now['name']}: {now['done']} of {now['cases']} cases are done, {now['failed']} failed"
    if now["rate"]:
        line += f"; {now['rate']:.3g} cases a second"
    if now["rate"] and now["done"] < now["cases"]:
        left = f"about {now['time_left']:.0f} s left"
        line += f", {left}" if now["running"] else f", {left} if it goes on: dalembert resume"
    return line


def _sentences(found) -> dict[str, int]:
    """What was said of failed cases, and how often; the most frequent ones first."""
    from collections import Counter

    return dict(Counter(x for x in found.dataset["message"].values.tolist() if x).most_common(5))


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
    changes: Changes = None,
    as_json: AsJson = False,
) -> None:
    """One motion by every formulation, complement and stabilisation, side by side."""
    _check_plot(plot)
    from dalembert.analysis import compare as compare_ways
    from dalembert.complements import all_complements
    from dalembert.formulations import all_formulations
    from dalembert.stabilise import all_stabilisations

    def listed(text: str | None, table):
        return None if text is None else list(table) if text == "all" else [x.strip() for x in text.split(",")]

    entry = _entry(model)
    found = compare_ways(
        _built(entry, "absolute", changes),
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


def _simulate(
    name, output, plot, t_end, settings, samples, progress, as_json, coordinates=None, changes=None, resume=None
) -> None:
    from dalembert._results import RedundancyWarning, SimulationError, Status

    # the first run of a program includes its compilation
    began = time.perf_counter() if "dalembert.simulation" in sys.modules else _STARTED
    entry = _entry(name)
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
    system = _built(entry, coordinates or "absolute", changes, cut)
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
        if not as_json:
            _print_time(time.perf_counter() - began, float(report["wall_s"]), compile_stopwatch.seconds - compiled)
    if failure:
        if not as_json:
            print(f"dalembert: {failure}", file=sys.stderr)
        raise typer.Exit(1)


def _former(path: Path) -> Any:
    """The run in a file, to go on with."""
    from dalembert._results import RecordWarning
    from dalembert.results import RecordedRun, open_run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        found = open_run(path)
    if isinstance(found, RecordedRun):
        raise DalembertError(found.missing)
    return found


def _entry(name: str):
    """The meaning of MODEL: a file by its ending, a built-in mechanism by its name, else an existing file."""
    from dalembert._results import ConversionWarning
    from dalembert.io import FILE_ENDINGS, ROBOT_ENDINGS, read
    from dalembert.mechanisms import Mechanism, find

    path = Path(name)
    if not name.endswith(FILE_ENDINGS + ROBOT_ENDINGS) and path.parent == Path():
        try:
            return find(name)
        except DalembertError:
            if not name or "\0" in name or not path.exists():
                raise

    found = read(path)
    if found.remarks:
        warnings.warn(ConversionWarning(path, found.remarks), stacklevel=2)
    settings = dict(found.run)
    t_end = settings.pop("t_end", 10.0)
    return Mechanism(name, found.summary, lambda: found.model, t_end, settings)


def _file_row(path: Path) -> dict:
    from dalembert.io import read

    try:
        found = read(path)
    except DalembertError as error:
        mistakes = str(error).split("\n")
        why = mistakes[-1 if len(mistakes) == 2 else 0].strip(" :")
        return {"name": path.name, "summary": f"cannot be used: {why}"}
    model = found.model
    where = "in the plane" if model.space == "plane" else "in space"
    size = f"{len(model.bodies)} bodies, {len(model.constraints)} joints, {where}"
    summary = f"{found.summary} ({size})" if found.summary else size
    return {"name": path.name, "summary": summary, "t_end": found.run.get("t_end", 10.0)}


def _report(solution) -> dict:
    stats = {k: (float(v) if isinstance(v, float) else int(v)) for k, v in solution.stats.items()}
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
    }


def _print_report(report: dict, solution) -> None:
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
    if report["redundancy"]:
        print(f"  reactions  not all unique; picked by: {report['reaction_rule']}")


def _print_time(total: float, simulate: float, compile_: float) -> None:
    """The total time, and its parts."""
    rest = max(0.0, total - simulate - compile_)
    print(
        f"  time       {total:.1f} s: {simulate * 1e3:.0f} ms to simulate, {compile_:.1f} s to compile, "
        f"{rest:.1f} s to load, check, evaluate and write"
    )


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


def main() -> None:
    """Entry point: every error that is meant for users is one sentence, never a traceback."""
    _streams.carry_any_text()
    # a warning is one sentence, too, and printed once
    warnings.showwarning = lambda message, *_: print(f"dalembert: {message}", file=sys.stderr)
    warnings.simplefilter("once", UserWarning)
    sys.exit(_command() or _streams.finish())


def _command() -> int:
    """Run the command of the arguments; the exit code."""
    try:
        app()
    except SystemExit as end:
        if end.code == 130:  # typer has handled the Ctrl-C
            print("dalembert: stopped.", file=sys.stderr)
        code = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
        return _streams.finish() or code
    except DalembertError as error:
        print(f"dalembert: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dalembert: stopped.", file=sys.stderr)
        return 130
    except OSError as error:
        if error.filename is None:  # a print
            return _streams.refuse(error)
        print(f"dalembert: '{error.filename}': {error.strerror}.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    main()
