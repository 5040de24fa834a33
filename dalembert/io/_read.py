"""edge · files: a model from a file. Every mistake is found in one reading and reported with its line and column."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from dalembert._results import Complaint, ConversionWarning, DalembertError, FileError, did_you_mean
from dalembert.io._disk import file_text, read_text
from dalembert.io._schema import FORMAT, HEAD, TOP, Head, Run
from dalembert.io._yaml import Node, read_tree, resolve
from dalembert.model import (
    ELEMENTS,
    SECTIONS,
    TYPED,
    Cause,
    Element,
    Mistake,
    Model,
    adapter,
    as_text,
    forms_of,
    is_required,
    sketching,
)

FILE_ENDINGS = (".yaml", ".yml")
ROBOT_ENDINGS = (".urdf", ".xml", ".mjcf", ".xacro")
ENOUGH = 60  # complaints after which a file is not checked any further
LONGEST = 600  # characters of one complaint


@dataclass(frozen=True)
class ModelFile:
    """The content of a file: the model, how it is usually run (t_end, rtol, integrator, dt, max_steps), a summary."""

    model: Model
    run: dict[str, Any]
    summary: str = ""
    remarks: tuple[str, ...] = ()  # on what was not imported unchanged from a robot file


def load(path, **options) -> Model:
    """The model in a file, or `FileError` with every mistake and its place. Nothing in a file is executed.

    **Arguments**: `path` of a model file (YAML) or a robot file, URDF or MJCF (.urdf, .xml, .mjcf). What is not
    imported unchanged is reported by a `ConversionWarning`. `options` of robot files: base="free" (URDF: the root is
    not fixed to ground), loops="side.yaml", start={joint: value}, keyframe="name" (MJCF), stops=stiffness (limits
    become end stops), controls={actuator: value} (MJCF; a number, a formula of t or a function of time), strict=True
    (what has no part in the motion and cannot be used is refused, not left out with a remark).

    **Returns** a `Model`, which may be changed.

        >>> import dalembert as da
        >>> path = da.save(da.mechanism("four-bar"), "four-bar.yaml")
        >>> da.load(path) == da.mechanism("four-bar")
        True
    """
    found = read(path, **options)
    if found.remarks:
        warnings.warn(ConversionWarning(path, found.remarks), stacklevel=2)
    return found.model


def read(path, **options) -> ModelFile:
    """A model file or a robot file with all its content; see `load`."""
    path = Path(path)
    if path.suffix in ROBOT_ENDINGS:
        from dalembert.io._import import read_robot

        return read_robot(path, **options)
    if options:
        raise DalembertError(f"{next(iter(options))}= is for robot files ({', '.join(ROBOT_ENDINGS[:3])}).")
    if path.suffix.lower() not in ("", *FILE_ENDINGS, ".json"):  # JSON is YAML, too
        endings = ", ".join(FILE_ENDINGS + ROBOT_ENDINGS[:3])
        raise DalembertError(f"'{path}' is not a model file: the name of one ends in {endings}.")
    return read_from_text(file_text(path), path)


def read_from_text(text: str, path: Path) -> ModelFile:
    """The same from the text of a file; `path` names it in messages and is where its tables are found."""
    tree, complaints = read_tree(text)
    if tree is None:
        raise FileError(path, complaints)
    reader = _Reader(tree, path.parent)
    reader.complaints += complaints
    with np.errstate(all="ignore"):
        found = reader.read()
    if reader.complaints or found is None:
        raise FileError(path, reader.complaints)
    return found


@dataclass
class _Entry:
    """One item of a section: its class, its arguments, and which keys are wrong."""

    section: str
    node: Node
    who: str
    cls: type[Element] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    usable: bool = True
    element: Element | None = None

    @property
    def name(self) -> str | None:
        name = self.arguments.get("name")
        return name if isinstance(name, str) else None


class _Reader:
    """Checks a tree from top to bottom: the head, each entry by its class, then all of it as a `Model`."""

    def __init__(self, tree: Node, folder: Path):
        self.tree, self.folder = tree, folder
        self.complaints: list[Complaint] = []
        self.lost: set[str] = set()  # names of entries that could not be used: others may refer to them

    def complain(self, place: tuple[int, int], text: str) -> None:
        if len(text) > LONGEST:
            text = f"{text[: LONGEST - 100]} … {text[-90:]}"
        self.complaints.append(Complaint(*place, text))

    def read(self) -> ModelFile | None:
        top = self.tree
        if not isinstance(top.value, dict):
            self.complain(top.place, f"a model file is a mapping that begins with 'dalembert: {FORMAT}'.")
            return None
        for key in top.value:
            if key not in TOP:
                self.complain(
                    top.at_key(key), f"'{key[:60]}' is unknown; known are {', '.join(TOP)}.{did_you_mean(key, TOP)}"
                )
        head = Node({k: x for k, x in top.value.items() if k in HEAD}, top.line, top.column, top.keys)
        wrong, values = self._check(Head, head, "")
        run = self._run()
        entries = _in_order([e for section in SECTIONS for e in self._section(section)])
        values = head.plain() | values
        if "space" in wrong or len(self.complaints) > ENOUGH:
            return None
        gravity = None if "gravity" in wrong else values.get("gravity")
        closing = None if "closing" in wrong else values.get("closing")
        name = "model" if "name" in wrong else str(values.get("name"))
        blank = functools.partial(Model, name, space=values["space"], gravity=gravity, closing=closing)
        with sketching() as left_out:
            model = self._add_all(blank(), entries)
        if left_out and not self.complaints:
            model = self._add_all(blank(), entries)
        return ModelFile(model, run, values.get("summary") or "") if not self.complaints else None

    # ---- by the schema ---------------------------------------------------------------------------------------

    def _check(self, cls: type, node: Node, who: str) -> tuple[set[str], dict[str, Any]]:
        """Complain about every key that does not fit its class; returns those keys, and the values of the others."""
        values: dict[str, Any] = {}
        typed = issubclass(cls, Element) and cls.section in TYPED
        given = {k: x for k, x in node.plain().items() if not typed or k != "type"}
        try:
            adapter(cls).validate_python(given, context=values)
        except ValidationError as error:
            found = error.errors(include_url=False)
        else:
            return set(), values
        start = f"{who}: " if who else ""
        known = list(forms_of(cls))
        for wrong in found:
            key = str(wrong["loc"][0])
            if wrong["type"] == "missing":
                self.complain(node.place, f"{start}{key} is missing; give {forms_of(cls)[key].words}.")
            elif wrong["type"] == "unexpected_keyword_argument":
                hint = did_you_mean(key, known)
                self.complain(node.at_key(key), f"{start}'{key[:60]}' is unknown; known are {', '.join(known)}.{hint}")
            else:
                self._wrong_value(node, start, key, wrong.get("ctx", {}))
        return {str(wrong["loc"][0]) for wrong in found}, values

    def _wrong_value(self, node: Node, start: str, key: str, context: dict) -> None:
        path = (key, *context["path"])
        place = node.at(path)
        if context["key"] is not None:
            inner = node
            for step in path:
                inner = inner.value[step]
            place = inner.at_key(context["key"])
        words = ": ".join(f"item {step + 1}" if isinstance(step, int) else str(step) for step in path)
        text = context["text"]
        end = "" if text.endswith("?") else "."
        self.complain(place, f"{start}{words}{'' if text.startswith(':') else ' '}{text}{end}")

    def _run(self) -> dict[str, Any]:
        node = self.tree.value.get("run")
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            self.complain(node.place, f"run must be a mapping such as {{t_end: 10}}, not {as_text(node.plain())}.")
            return {}
        return {k: x for k, x in self._check(Run, node, "run")[1].items() if x is not None}

    def _section(self, section: str) -> list[_Entry]:
        node = self.tree.value.get(section)
        if node is None or node.value is None:
            return []
        if not isinstance(node.value, list):
            self.complain(
                node.place, f"{section} must be a list, each item beginning with '- ', not {as_text(node.plain())}."
            )
            return []
        found = []
        for k, item in enumerate(node.value):
            if len(self.complaints) > ENOUGH:
                break
            if isinstance(item.value, dict):
                found.append(self._entry(section, item, k + 1))
            else:
                self.complain(
                    item.place, f"{section}: item {k + 1} must be a mapping with a name, not {as_text(item.plain())}."
                )
        return found

    def _entry(self, section: str, node: Node, number: int) -> _Entry:
        arguments = {k: x for k, x in node.plain().items() if x is not None}
        word = arguments.pop("type", None) if section in TYPED else None
        classes = {c.type: c for c in ELEMENTS.values() if c.section == section}
        cls = next(iter(classes.values())) if section not in TYPED else _known(classes, word)
        title = "Joint" if cls is None and section == "joints" else (cls or next(iter(classes.values()))).title
        name = arguments.get("name")
        known = isinstance(name, str) and name.strip()
        called = f"'{name[:100]}'" if isinstance(name, str) and known else f"number {number}"
        entry = _Entry(section, node, f"{title} {called}", cls, arguments)
        if cls is None:
            self._wrong_type(entry, word, list(classes))
            entry.usable = False
        else:
            entry.wrong, values = self._check(cls, node, entry.who)
            entry.arguments |= values
            self._repair(entry, cls)
            self._tables(entry)
        if not entry.usable and entry.name:
            self.lost.add(entry.name)
        return entry

    def _wrong_type(self, entry: _Entry, word: Any, words: list[str]) -> None:
        who, node = entry.who, entry.node
        if word is None:
            self.complain(node.place, f"{who}: type is missing; give one of {', '.join(words)}.")
        elif (other := _known(ELEMENTS, word)) is not None:
            self.complain(node.at(("type",)), f"{who}: a {word} stands under {other.section}, not here.")
        else:
            hint = did_you_mean(word, words) if isinstance(word, str) else ""
            known = hint or f" Known are {', '.join(words)}."
            known += (
                " If it is a class of your own, import its module before the file is read." if entry.cls is None else ""
            )
            self.complain(node.at(("type",)), f"{who}: {as_text(word)} is no type of {entry.section}.{known}")

    def _repair(self, entry: _Entry, cls: type[Element]) -> None:
        """Replace the value of a wrong key by a harmless one, so that the rest of the file can be checked as well."""
        parameters = cls.fields()
        values = {key: entry.arguments.pop(key, None) for key in sorted(entry.wrong)}
        missing = [key for key in parameters if key in entry.wrong and key not in entry.node.value]
        for key, value in values.items():
            if key not in parameters and isinstance(value, str):  # perhaps a missing key, misspelt
                candidates = [k for k in missing if did_you_mean(key, [k])]
                entry.arguments |= dict.fromkeys(candidates[:1], value)
        for key in entry.wrong & set(parameters) - set(entry.arguments):
            if is_required(parameters[key]):
                entry.arguments[key] = forms_of(cls)[key].stand_in
                entry.usable &= entry.arguments[key] is not None

    # ---- tables in files of their own ------------------------------------------------------------------------

    def _tables(self, entry: _Entry) -> None:
        for key, value in entry.arguments.items():
            if key in entry.wrong or not isinstance(value, dict | list):
                continue
            try:
                if key == "points" and isinstance(value, dict):
                    entry.arguments[key] = self._columns(value["file"])
                else:
                    self._timed(value)
            except DalembertError as error:
                self.complain(entry.node.at((key,)), f"{entry.who}: {key}: {error}")
                entry.wrong.add(key)
                entry.usable = False

    def _timed(self, value: Any) -> None:
        """Functions of time that are given by a file get its numbers, in place."""
        for inside in value.values() if isinstance(value, dict) else value:
            if (
                isinstance(inside, dict)
                and isinstance(value, dict)
                and inside is value.get("table")
                and "file" in inside
            ):
                rows = self._columns(name := inside.pop("file"))
                if len(rows[0]) != 2:
                    raise DalembertError(f"'{name}' must have two columns: time and value, not {len(rows[0])}.")
                inside |= {"times": [r[0] for r in rows], "values": [r[1] for r in rows]}
            elif isinstance(inside, dict | list):
                self._timed(inside)

    def _columns(self, name: str) -> list[list[float]]:
        """The numbers of a .csv beside the model file: a line each, by commas, after a header if it has one."""
        try:
            text = read_text(self.folder / name, follow=False)
        except DalembertError as error:
            raise DalembertError(f"'{name}': {error}") from None
        rows: list[list[float]] = []
        for number, line in enumerate(text.splitlines(), 1):
            cells = [resolve(cell.strip()) for cell in line.split(",")]
            if not line.strip() or (not rows and any(isinstance(x, str) for x in cells)):
                continue
            good = all(isinstance(x, int | float) and not isinstance(x, bool) and np.isfinite(x) for x in cells)
            if not good or (rows and len(cells) != len(rows[0])):
                raise DalembertError(f"'{name}', line {number}: it must be numbers, as many as in the line before.")
            rows.append([float(x) for x in cells])
        if not rows:
            raise DalembertError(f"'{name}': there is no line of numbers in it.")
        return rows

    # ---- as a model ------------------------------------------------------------------------------------------

    def _add_all(self, model: Model, entries: list[_Entry]) -> Model:
        """Add all usable entries to a model, and complain about what it finds wrong."""
        model.from_file = True
        entry_of: dict[int, _Entry] = {}
        for entry in entries:
            if not entry.usable or entry.cls is None:
                continue
            if entry.section == "bodies" and model.space == "space" and "inertia" in entry.wrong:
                entry.arguments["inertia"] = [1.0, 1.0, 1.0]
            before = len(model.recorded)
            element = entry.cls(**entry.arguments)
            try:
                model.add(element)
            except (ArithmeticError, np.linalg.LinAlgError) as error:
                self.complain(entry.node.place, f"{entry.who}: its numbers cannot be used ({error}).")
            entry_of[id(element)] = entry_of[id(model.statements[-1])] = entry
            entry.element = element  # kept, so that its id stays its own
            if len(model.recorded) > before and len(model.recorded) > ENOUGH:
                break
        self._doubts(model, entry_of)
        model.from_file = False
        return model

    def _doubts(self, model: Model, entry_of: dict[int, _Entry]) -> None:
        """Complain about what the model finds wrong, but not about what merely follows from another mistake."""
        mistakes, top = model.mistakes(), self.tree.value
        unsure = {id(entry_of.get(id(m.element))) for m in mistakes if m.cause in (Cause.MISSING, Cause.NAME)}
        for mistake in mistakes:
            entry = None if mistake.element is None else entry_of.get(id(mistake.element))
            if entry is not None:
                path = next((p for p in mistake.paths if entry.node.has(p)), ())
                doubtful = entry.wrong or id(entry) in unsure or self._refers_to_lost(entry)
                if doubtful and not self._stands_alone(mistake, entry, path):
                    continue
                self.complain(entry.node.at(path), mistake)
            elif mistake.cause is not Cause.EMPTY:
                self.complain(self.tree.at(("gravity",)), mistake)
            elif "bodies" not in top or not top["bodies"].value:
                self.complain(self.tree.at_key("bodies"), "bodies: there is none; add one.")

    def _stands_alone(self, mistake: Mistake, entry: _Entry, path: tuple) -> bool:
        """Whether a mistake is about one value that is wrong independently of others."""
        if mistake.cause is Cause.MISSING:
            return mistake.missing not in self.lost
        if mistake.cause in (Cause.NAME, Cause.SPACE):
            return True
        if not path or path[0] in entry.wrong:
            return False
        return mistake.cause is Cause.VALUE or (mistake.cause is Cause.FORM and not entry.wrong)

    def _refers_to_lost(self, entry: _Entry) -> bool:
        return bool(self.lost) and any(isinstance(x, str) and x in self.lost for x in entry.arguments.values())


def _in_order(entries: list[_Entry]) -> list[_Entry]:
    """Limits of measurements after these, and what is measured of such a limit's stop after it."""
    late = [e for e in entries if e.section == "limits" and "measurement" in e.arguments]
    names = [e.name for e in late]
    theirs = [
        e for e in entries if e.section == "measurements" and any(e.arguments.get(k) in names for k in ("joint", "of"))
    ]
    return [e for e in entries if not any(e is x for x in (*late, *theirs))] + late + theirs


def _known(classes: dict[str, type[Element]], word: Any) -> type[Element] | None:
    return classes.get(word) if isinstance(word, str) else None
