"""edge · commands about model files: list, new, convert, schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dalembert import _streams
from dalembert._results import DalembertError, check_output
from dalembert.cli._models import entry_of, file_row
from dalembert.cli._options import AsJson


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
        rows = [file_row(path) for path in sorted(files)]
    else:
        entry = entry_of(where)
        rows = [{"name": where, "summary": entry.summary, "t_end": entry.t_end}]
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print(f"There is no model file (.yaml, .yml) in {where}.")
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['name']:<{width}}  {row['summary']}".rstrip())


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
        entry = entry_of(like)
        model = entry.model()
        model.name = path.stem
        text = text_of(model, run=entry.settings(), summary=entry.summary)
    try:
        write_in_place(path, ".yaml", lambda name: Path(name).write_text(text, encoding="utf-8"), replace=False)
    except FileExistsError:
        raise DalembertError(f"'{path}' exists already; choose another name.") from None
    print(f"Written: {path}. Next: dalembert check {path}")


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


def schema() -> None:
    """The form of model files as JSON Schema, for editors."""
    from dalembert.io import json_schema

    print(json.dumps(json_schema(), indent=1, ensure_ascii=not _streams.speaks_unicode(sys.stdout)))
