"""edge · what MODEL means: a mechanism with its settings, and the system of it, with numbers changed by `--set`."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

from dalembert._results import ConversionWarning, DalembertError, did_you_mean
from dalembert.cli._values import numbers


def entry_of(name: str):
    """The meaning of MODEL: a file by its ending, a built-in mechanism by its name, else an existing file."""
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


def file_row(path: Path) -> dict:
    """The line of a model file in a list; one that cannot be read says why."""
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


def built(entry, coordinates: str, changes: list[str] | None, cut: tuple[str, ...] = ()):
    """The system of a model, with some of its numbers changed. A bad file is refused before JAX is loaded."""
    model = entry.model()
    from dalembert.systems import build

    system = build(model, coordinates=coordinates, cut=cut)
    return _changed(system, changes) if changes else system


def _changed(system, changes: list[str]):
    """The system with numbers set by `--set NAME=VALUE`."""
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
        given = numbers(value.replace(";", ","), who)
        shape = tuple(known[name].shape)
        size = math.prod(shape)
        if len(given) != size:
            wanted = "one number" if size == 1 else f"{size} numbers, with commas"
            raise DalembertError(f"{who}: {name} is {wanted}; this is {len(given)}.")
        import numpy as np

        values[name] = np.reshape(given, shape)
    return system.replace(values)
