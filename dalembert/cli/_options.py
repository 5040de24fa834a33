"""edge · options and arguments that several commands share, what the shell completes, and what is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def model_names(incomplete: str) -> list[str]:
    """For the shell: built-in mechanisms, model and robot files, folders. Loads nothing large."""
    built_in = sorted(p.stem for p in (Path(__file__).parents[1] / "mechanisms" / "files").glob("*.yaml"))
    folder = Path(incomplete).parent if "/" in incomplete else Path()
    endings = (".yaml", ".yml", ".urdf", ".xml", ".mjcf")
    beside = [f"{p}/" if p.is_dir() else str(p) for p in folder.glob("[!.]*") if p.is_dir() or p.suffix in endings]
    return [name for name in (*built_in, *sorted(beside)) if name.startswith(incomplete)]


def rule_names(incomplete: str) -> list[str]:
    """For the shell: the rules that pick reactions."""
    from dalembert.model import RULES

    return [name for name in RULES if name.startswith(incomplete)]


def kinds_of_coordinates(incomplete: str) -> list[str]:
    """For the shell."""
    return [name for name in ("absolute", "joint") if name.startswith(incomplete)]


ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model file (.yaml), a robot (.urdf, .xml) or a built-in (`dalembert list`).",
        autocompletion=model_names,
    ),
]
Coordinates = Annotated[
    str,
    typer.Option(
        help="absolute (each body's own) or joint (those of a spanning tree).", autocompletion=kinds_of_coordinates
    ),
]
RuleName = Annotated[
    str | None,
    typer.Option(
        help="What picks reactions that are not unique: weighted, minimum_norm, eliminated, …",
        autocompletion=rule_names,
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
PushOnly = Annotated[
    list[str] | None,
    typer.Option(
        "--push-only", metavar="JOINT", help="A support that cannot pull: leg1, or a component, foot.Fz (foot.-Fz)."
    ),
]
PullOnly = Annotated[list[str] | None, typer.Option("--pull-only", metavar="JOINT", help="A cable: it cannot push.")]
Friction = Annotated[
    list[str] | None,
    typer.Option("--friction", metavar="JOINT=MU", help="A support that holds sideways by friction: foot.Fz=0.5."),
]
Strength = Annotated[
    list[str] | None,
    typer.Option(
        "--strength", metavar="JOINT=MOST", help="What a joint can bear: bolt=500, bolt.Mz=20, bolt.Fx=-9,30."
    ),
]
Play = Annotated[
    list[str] | None,
    typer.Option("--play", metavar="JOINT.COMPONENT", help="What a joint's play takes up: hinge.Mx."),
]
NetcdfFile = Annotated[Path | None, typer.Option("-o", "--output", help="Write the result: .nc (netCDF).")]
FigureFile = Annotated[Path | None, typer.Option(help="Write a figure: .png, .pdf or .svg.")]
EndTime = Annotated[float | None, typer.Option(help="End of the motion, in seconds.")]
RelativeTolerance = Annotated[float | None, typer.Option(help="Relative tolerance of the integration.")]
FixedStep = Annotated[float | None, typer.Option(help="Take fixed steps of this length.")]
MostSteps = Annotated[int | None, typer.Option(help="The most steps that are taken.", min=1)]
SamplesIfGiven = Annotated[int | None, typer.Option(help="Number of saved times; default 201.", min=2)]
Samples = Annotated[int, typer.Option(help="Number of saved times.", min=2)]
Progress = Annotated[bool, typer.Option(help="Show a progress bar.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def check_plot(path: Path | None) -> None:
    """Refuse a figure that cannot be made before the work is done."""
    if path is not None:
        from dalembert.view import check_figure

        check_figure(path)


def rule_named(name: str | None):
    """A reaction rule by its name, refused before the work is done."""
    if name is None:
        return None
    from dalembert.reactions import rule_of

    return rule_of(name)
