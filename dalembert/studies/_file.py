"""8 · studies: a study from a file: what is written there as arguments of `study`, mistakes with their place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dalembert._results import DalembertError, did_you_mean
from dalembert.io import FILE_ENDINGS, StudyFile, path_beside, read, read_study
from dalembert.model import Model
from dalembert.studies._study import Study, study
from dalembert.studies._tasks import COMMON, measures, task_of
from dalembert.studies._vary import START, Normal, Uniform
from dalembert.systems import State, build

_LAWS = {"uniform": Uniform, "normal": Normal}


def arguments_of(path, find: Callable[[str], Model] | None = None) -> tuple[dict[str, Any], Path]:
    """The arguments of `study` that a study file means, and the folder that it names (default: NAME-study beside it).

    **Arguments**: `path` of the file; `find`, which knows built-in mechanisms by name. Model files are found beside it.
    """
    file = read_study(path)
    models = {name: _model(file, name, text, find) for name, text in file.models.items()}
    named = models if "" not in models else {models[""].name: models[""]}
    given = dict(file.arguments)
    settings = given.pop("settings", {})
    word = given.get("task", "simulate")
    _check(file, word, settings, named)
    vary = {name: _varied(file, name, x) for name, x in file.vary.items()}
    try:
        out = path_beside(file, file.out or f"{file.path.stem}-study")
    except DalembertError as error:
        raise file.wrong((("out",), str(error))) from None
    model = models.get("", models)
    return {"model": model, "vary": vary, **given, **settings}, out


def study_file(path, find: Callable[[str], Model] | None = None, **options: Any) -> Study:
    """The study of a study file; `options` (workers, client, progress, out) as of `study`."""
    arguments, out = arguments_of(path, find)
    given: dict[str, Any] = {"out": out} | arguments | options
    return study(**given)


def _model(file: StudyFile, name: str, text: str, find) -> Model:
    path = ("model", name) if name else ("model",)
    try:
        if not text.endswith(FILE_ENDINGS) and find is not None:
            return find(text)
        return read(path_beside(file, text)).model
    except DalembertError as error:
        raise file.wrong((path, str(error))) from None


def _varied(file: StudyFile, name: Any, x: Any) -> Any:
    try:
        if isinstance(x, tuple) and x and isinstance(x[0], str):
            return _LAWS[x[0]](*x[1:])
        return State(*x) if name == START else x  # type: ignore[arg-type]
    except DalembertError as error:
        raise file.wrong((("vary", name) if isinstance(name, str) else ("together",), str(error))) from None


def _check(file: StudyFile, word: str, settings, models: dict[str, Model]) -> None:
    """Refuse names that are not there, with their place."""
    wrong: list[tuple[tuple, str]] = []
    try:
        kind = task_of(word)
        if word == "function":
            raise DalembertError("a file holds data only; a function of your own is given to da.study in Python.")
    except DalembertError as error:
        raise file.wrong((("task",), str(error))) from None
    for key in settings:
        if key not in (*kind.options, *COMMON):
            known = (*kind.options, *COMMON)
            wrong.append((("settings", key), f"there is no setting '{key}' here; there is {', '.join(known)}."))
    systems = {}
    for name, model in models.items():
        try:
            systems[name] = build(model, coordinates=settings.get("coordinates", "absolute"))
        except DalembertError as error:
            raise file.wrong((("model",), str(error))) from None
    for name, x in file.vary.items():
        names = name if isinstance(name, tuple) else (name,)
        if isinstance(x, dict):
            names = tuple(next(iter(x.values()), {}))
        for system in systems.values():
            known = system.parameters()
            for each in names:
                if each != START and each not in known:
                    place = ("vary", name) if isinstance(name, str) else ("together",)
                    wrong.append((place, f"'{system.name}' has no parameter '{each}'.{did_you_mean(each, known)}"))
    given = file.arguments["measure"]
    pairs = given.items() if isinstance(given, dict) else enumerate(given)
    alone = not isinstance(file.tree.value["measure"].value, list | dict)
    for key, text in pairs:
        place = ("measure",) if alone else ("measure", key)
        try:
            for m in measures(word, [text]):
                for system in systems.values() if kind.words_are_channels else ():
                    for name in m.names if m.word != "effort" else ():
                        system.channels_named(name)
        except DalembertError as error:
            wrong.append((place, str(error).removeprefix("measure: ")))
    if wrong:
        raise file.wrong(*wrong)
