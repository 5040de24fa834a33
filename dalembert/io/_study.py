"""edge · files: a study file: a model, what varies, what is measured. Mistakes are reported with line and column.

study: 1
model: four-bar.yaml            # or a built-in mechanism, or several: {light: a.yaml, heavy: b.yaml}
t_end: 2.0
vary:
  crank.mass: [1, 2, 3]                       # a list
  coupler.mass: {from: 1, to: 2, count: 5}    # equally spaced
  rocker.mass: {uniform: [0.5, 2]}            # a distribution, drawn count times
  D.point_i: {normal: [[2, 0], [0.01, 0.01]]} # mean and standard deviation
count: 64
measure: [final(A.angle), peak(A.angle_rate)]
out: study
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dalembert._results import Complaint, DalembertError, FileError, did_you_mean
from dalembert.io._disk import file_text
from dalembert.io._yaml import Node, read_tree
from dalembert.model import Wrong, as_text, number

STUDY_FORMAT = 1
_KEYS = ("study", "model", "task", "t_end", "settings", "vary", "together", "count", "sampling", "combine", "seed",
         "measure", "chunk", "out")  # fmt: skip
_NEEDED = {
    "study": f"write 'study: {STUDY_FORMAT}'", "model": "name a model", "measure": "name what is kept of each case",
}  # fmt: skip
_LAWS = {"uniform": "least and most", "normal": "mean and standard deviation"}


@dataclass(frozen=True)
class StudyFile:
    """The content of a study file: `models` by name as they are written, `arguments` of a study, what varies as plain
    data (`vary`: name → list of values, ("uniform", a, b), ("normal", mean, spread) or {case: {parameter: value}})."""

    path: Path
    models: dict[str, str]
    vary: dict[Any, Any]
    arguments: dict[str, Any]
    out: str | None
    tree: Node

    def wrong(self, *found: tuple[tuple, str]) -> FileError:
        """An error about what stands at some paths (keys and indices) of the file."""
        return FileError(self.path, [Complaint(*self.place(path), text) for path, text in found])

    def place(self, path: tuple) -> tuple[int, int]:
        """Line and column of a key, or of a value in a list."""
        around = self.tree
        for step in path[:-1]:
            around = around.value[step]
        return around.at_key(path[-1]) if isinstance(path[-1], str) else around.at(path[-1:])


def read_study(path) -> StudyFile:
    """A study file, or `FileError` with every mistake and its place. Nothing in a file is executed."""
    path = Path(path)
    tree, complaints = read_tree(file_text(path))
    if tree is None:
        raise FileError(path, complaints)
    reader = _Reader(tree, list(complaints))
    found = reader.read()
    if reader.complaints:
        raise FileError(path, reader.complaints)
    models, vary, arguments, out = found
    return StudyFile(path, models, vary, arguments, out, tree)


class _Reader:
    """Checks the tree from top to bottom."""

    def __init__(self, tree: Node, complaints: list[Complaint]):
        self.tree, self.complaints = tree, complaints

    def complain(self, place: tuple[int, int], text: str) -> None:
        self.complaints.append(Complaint(*place, text))

    def read(self) -> tuple:
        top = self.tree
        if not isinstance(top.value, dict):
            self.complain(top.place, f"a study file is a mapping that begins with 'study: {STUDY_FORMAT}'.")
            return {}, {}, {}, None
        for key in top.value:
            if key not in _KEYS:
                self.complain(
                    top.at_key(key),
                    f"there is no '{key}' in a study file.{did_you_mean(key, _KEYS)} There is {', '.join(_KEYS)}.",
                )
        for key, why in _NEEDED.items():
            if key not in top.value:
                self.complain(top.place, f"'{key}' is missing: {why}.")
        form = top.value.get("study")
        if form is not None and (form.value != STUDY_FORMAT or form.value is True):
            self.complain(form.place, f"study: must be {STUDY_FORMAT}, not {as_text(form.value)}.")
        arguments: dict[str, Any] = {}
        for key, check in _HEAD.items():
            if key in top.value:
                found = self._checked(key, top.value[key], check)
                if found is not None:
                    arguments[key] = found
        settings = top.value.get("settings")
        if settings is not None:
            arguments["settings"] = self._plain_mapping("settings", settings)
        out = top.value.get("out")
        folder = None if out is None else self._checked("out", out, _text)
        return self._models(), self._vary() | self._together(), arguments | self._measure(), folder

    def _checked(self, who: str, node: Node, check: Callable) -> Any:
        try:
            return check(node.plain())
        except Wrong as wrong:
            self.complain(node.at(wrong.path), f"{who}: {wrong.text}.")
            return None

    def _plain_mapping(self, who: str, node: Node) -> dict[str, Any]:
        if not isinstance(node.value, dict):
            self.complain(node.place, f"{who}: must be a mapping, not {as_text(node.plain())}.")
            return {}
        return node.plain()

    def _models(self) -> dict[str, str]:
        node = self.tree.value.get("model")
        if node is None:
            return {}
        table = node.value if isinstance(node.value, dict) else {"": node}
        if not table:
            self.complain(node.place, "model: there is none.")
        return {name: self._checked("model", x, _text) or "" for name, x in table.items()}

    def _measure(self) -> dict[str, Any]:
        node = self.tree.value.get("measure")
        if node is None:
            return {}
        if isinstance(node.value, str) and node.value:
            return {"measure": [node.value]}
        if not isinstance(node.value, list | dict) or not node.value:
            self.complain(node.place, "measure: must be a list of texts such as final(tip.x), or texts by names.")
            return {}
        pairs = node.value.items() if isinstance(node.value, dict) else enumerate(node.value)
        found = {key: self._checked("measure", x, _text) or "" for key, x in pairs}
        return {"measure": found if isinstance(node.value, dict) else list(found.values())}

    def _vary(self) -> dict[Any, Any]:
        node = self.tree.value.get("vary")
        if node is None:
            return {}
        if not isinstance(node.value, dict):
            self.complain(node.place, f"vary: must be a mapping of names, not {as_text(node.plain())}.")
            return {}
        return {name: self._varied(name, x) for name, x in node.value.items()}

    def _varied(self, name: str, node: Node) -> Any:
        given = node.value
        if isinstance(given, list):
            return self._checked(name, node, _numbers)
        if not isinstance(given, dict):
            self.complain(node.place, f"{name}: {_FORMS}, not {as_text(node.plain())}.")
            return None
        keys = set(given)
        if keys == {"from", "to", "count"}:
            ends = [self._checked(name, given[k], number) for k in ("from", "to")]
            steps = self._checked(name, given["count"], _count)
            return None if None in (*ends, steps) else [
                ends[0] + (ends[1] - ends[0]) * k / max(steps - 1, 1) for k in range(steps)
            ]  # fmt: skip
        for law, words in _LAWS.items():
            if keys == {law}:
                inner = given[law]
                if not isinstance(inner.value, list) or len(inner.value) != 2:
                    self.complain(inner.place, f"{name}: {law} is a list of two: {words}.")
                    return None
                pair = [self._checked(name, x, _number_or_numbers) for x in inner.value]
                return None if None in pair else (law, *pair)
        if keys == {"cases"}:
            return self._cases(name, given["cases"])
        if name == "start" and keys == {"q", "v"}:
            return tuple(self._checked(name, given[w], _numbers) for w in "qv")
        self.complain(node.place, f"{name}: {_FORMS}.")
        return None

    def _cases(self, name: str, node: Node) -> Any:
        out: dict[str, Any] = {}
        if not isinstance(node.value, dict) or not node.value:
            self.complain(node.place, f"{name}: cases are names, each with its parameters.")
            return None
        for label, x in node.value.items():
            if not isinstance(x.value, dict) or not x.value:
                self.complain(x.place, f"{name}: case '{label}' must be a mapping of parameters.")
                continue
            out[label] = {k: self._checked(k, y, _number_or_numbers) for k, y in x.value.items()}
        return out

    def _together(self) -> dict[Any, Any]:
        node = self.tree.value.get("together")
        if node is None:
            return {}
        out: dict[Any, Any] = {}
        for x in node.value if isinstance(node.value, list) else [node]:
            if not isinstance(x.value, dict) or set(x.value) != {"names", "mean", "covariance"}:
                self.complain(x.place, "together: each entry has names, mean and covariance.")
                continue
            names = x.value["names"].plain()
            if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
                self.complain(x.value["names"].place, "together: names is a list of parameters.")
                continue
            mean, spread = (self._checked("together", x.value[k], _numbers) for k in ("mean", "covariance"))
            if mean is not None and spread is not None:
                out[tuple(names)] = ("normal", mean, spread)
        return out


_FORMS = (
    "must be a list of values, {from, to, count}, {uniform: [least, most]}, {normal: [mean, standard deviation]} or "
    "{cases: {name: {parameter: value}}}"
)


def _text(value: Any, path: tuple = ()) -> str:
    if not isinstance(value, str) or not value:
        raise Wrong(path, f"must be a text, not {as_text(value)}")
    return value


def _count(value: Any, path: tuple = ()) -> int:
    if type(value) is not int or value < 1:
        raise Wrong(path, f"must be a whole number, 1 at least, not {as_text(value)}")
    return value


def _seed(value: Any, path: tuple = ()) -> int:
    if type(value) is not int or value < 0:
        raise Wrong(path, f"must be a whole number, not {as_text(value)}")
    return value


def _numbers(value: Any, path: tuple = ()) -> list:
    if not isinstance(value, list) or not value:
        raise Wrong(path, f"must be a list of numbers, not {as_text(value)}")
    return [_number_or_numbers(x, (*path, k)) for k, x in enumerate(value)]


def _number_or_numbers(value: Any, path: tuple = ()) -> Any:
    return _numbers(value, path) if isinstance(value, list) else float(number(value, path))


_HEAD: dict[str, Callable] = {
    "task": _text, "t_end": number, "count": _count, "sampling": _text, "combine": _text, "seed": _seed,
    "chunk": _count,
}  # fmt: skip


def path_beside(file: StudyFile, text: str) -> Path:
    """Where a file or a folder that is named in a study file lies: beside it."""
    if Path(text).is_absolute() or ".." in Path(text).parts:
        raise DalembertError(f"'{text}' lies outside of the folder of the study file; put it beside the study.")
    return file.path.parent / text
