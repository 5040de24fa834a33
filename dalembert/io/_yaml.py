"""edge · files: YAML text as a tree with the place of every value. No tags, anchors, aliases or merges.

The events are PyYAML's; what a scalar means is decided here, by YAML 1.2's core types: a number, true, false, null,
or else a text. So `on`, `no`, `1:30` and `2024-01-01` are texts, and nothing in a file can create an object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from dalembert._results import Complaint

DEEPEST, MOST_NODES, MOST_COMPLAINTS, LONGEST = 32, 1_000_000, 60, 5000
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,9})?\Z")
_WORDS: dict[str, Any] = {w: v for v, ws in (
    (True, ("true", "True", "TRUE")), (False, ("false", "False", "FALSE")), (None, ("", "~", "null", "Null", "NULL")),
    (float("inf"), (".inf", ".Inf", ".INF", "+.inf")), (float("-inf"), ("-.inf", "-.Inf", "-.INF")),
    (float("nan"), (".nan", ".NaN", ".NAN")),
) for w in ws}  # fmt: skip
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_UNPRINTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Node:
    """A value with its place. A mapping's value is {key: Node}, and `keys` has the places of its keys."""

    value: Any
    line: int
    column: int
    keys: dict[str, tuple[int, int]] | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.line, self.column

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {k: x.plain() for k, x in self.value.items()}
        if isinstance(self.value, list):
            return [x.plain() for x in self.value]
        return self.value

    def at(self, path) -> tuple[int, int]:
        """The place of what stands at `path` (keys and indices), or of the nearest thing around it."""
        return self._follow(path)[0].place

    def has(self, path) -> bool:
        """Whether something stands at `path`."""
        return self._follow(path)[1] == len(path)

    def _follow(self, path) -> tuple[Node, int]:
        """The node nearest to what stands at `path`, and how many of its steps lead there."""
        node = self
        for k, step in enumerate(path):
            try:
                node = node.value[step]
            except (KeyError, IndexError, TypeError):
                return node, k
        return node, len(path)

    def at_key(self, key: str) -> tuple[int, int]:
        return (self.keys or {}).get(key, self.place)


class _Stop(Exception):
    """Nothing after this place can be read."""

    def __init__(self, mark, text: str):
        self.complaint = Complaint(mark.line + 1, mark.column + 1, text)


def resolve(text: str) -> Any:
    """What a plain scalar means: a number, true, false, null, or the text itself."""
    if text[:1] in "+-.0123456789":
        if _INTEGER.match(text):
            return int(text)
        if _NUMBER.match(text):
            return float(text)
    return _WORDS.get(text, text)


def read_tree(text: str) -> tuple[Node | None, list[Complaint]]:
    """The tree of a YAML text and what is wrong with the text; no tree where it cannot be read to its end."""
    found = _CONTROL.search(text)
    if found is not None:
        before = text[: found.start()]
        line, column = before.count("\n") + 1, found.start() - before.rfind("\n")
        return None, [Complaint(line, column, f"the character U+{ord(found[0]):04X} is not allowed; remove it.")]
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except _Stop as stop:
        return None, [*builder.complaints, stop.complaint]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        return None, [*builder.complaints, Complaint(line, column, _syntax(error, text.split("\n")[line - 1 :][:1]))]
    except yaml.YAMLError as error:
        return None, [*builder.complaints, Complaint(1, 1, f"this is not YAML: {' '.join(str(error).split())}.")]
    if builder.root is None:
        return None, [Complaint(1, 1, "the file is empty; `dalembert new NAME` writes one to start from.")]
    return builder.root, builder.complaints


def _syntax(error: yaml.MarkedYAMLError, line: list[str]) -> str:
    problem = str(error.problem or error.context or "it cannot be read")
    if "cannot start any token" in problem and line and "\t" in line[0]:
        return "a tab cannot stand here; indent with spaces."
    around = f" {error.context}" if error.context and error.context != problem else ""
    return f"this is not YAML:{around}{',' if around else ''} {problem}; look at the indentation, brackets and quotes."


class _Builder:
    """Takes events, one after the other, and keeps the open lists and mappings on a stack."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.complaints: list[Complaint] = []
        self.stack: list[Node] = []
        self.keys: list[tuple[str, bool] | None] = []  # for each open mapping: the key without a value so far
        self.documents = self.nodes = 0

    def complain(self, mark, text: str) -> None:
        self.complaints.append(Complaint(mark.line + 1, mark.column + 1, text))
        if len(self.complaints) >= MOST_COMPLAINTS:
            raise _Stop(mark, "too many mistakes; the rest of the file was not read.")

    def take(self, event) -> None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._mind(event)
            self._add(self._scalar(event), event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._mind(event)
            self._open(event, kind is yaml.MappingStartEvent)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self.stack.pop()
            self.keys.pop()
        elif kind is yaml.AliasEvent:
            self.complain(event.start_mark, f"aliases (*{event.anchor[:40]}) are not allowed; write the value out.")
            self._add(None, event)
        elif kind is yaml.DocumentStartEvent:
            self.documents += 1
            if self.documents > 1:
                raise _Stop(event.start_mark, "a second document begins here; a file holds one model.")
            if event.version or event.tags:
                self.complain(event.start_mark, "directives (%) are not allowed; remove the line.")

    def _mind(self, event) -> None:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise _Stop(event.start_mark, f"the file has more than {MOST_NODES:,} values; put long tables into a .csv.")
        if event.anchor is not None:
            self.complain(event.start_mark, f"anchors (&{event.anchor[:40]}) are not allowed; remove it.")
        if event.tag is not None:
            self.complain(event.start_mark, f"tags ({event.tag[:60]}) are not allowed; remove it.")

    def _open(self, event, mapping: bool) -> None:
        if len(self.stack) >= DEEPEST:
            raise _Stop(event.start_mark, f"more than {DEEPEST} levels deep.")
        if self._waits_for_key():
            raise _Stop(event.start_mark, "a key must be a plain word, not a list or a mapping.")
        self.stack.append(self._add({} if mapping else [], event))
        self.keys.append(None)

    def _scalar(self, event) -> Any:
        text = event.value
        if len(text) > LONGEST:
            self.complain(event.start_mark, f"a text of {len(text)} characters; at most {LONGEST} are read.")
            text = ""
        if not text.isprintable() and (bad := _UNPRINTED.search(text)) is not None:
            self.complain(event.start_mark, f"the character U+{ord(bad[0]):04X} is not allowed; remove it.")
            text = _UNPRINTED.sub("?", text)
        if self._waits_for_key():
            return text
        return text if event.style else resolve(text)

    def _waits_for_key(self) -> bool:
        return bool(self.stack) and self.stack[-1].keys is not None and self.keys[-1] is None

    def _add(self, value: Any, event) -> Node:
        mark = event.start_mark
        node = Node(value, mark.line + 1, mark.column + 1, {} if isinstance(value, dict) else None)
        if not self.stack:
            self.root = node
            return node
        parent = self.stack[-1]
        if parent.keys is None:
            parent.value.append(node)
        elif (waiting := self.keys[-1]) is None:
            self.keys[-1] = self._key(parent.keys, node, event)
        else:
            self.keys[-1] = None
            if not waiting[1]:
                parent.value[waiting[0]] = node
        return node

    def _key(self, keys: dict[str, tuple[int, int]], node: Node, event) -> tuple[str, bool]:
        """A mapping's next key, and whether its value is to be left out."""
        key = "" if node.value is None else str(node.value)
        if key == "<<" and not getattr(event, "style", None):
            self.complain(event.start_mark, "merge keys (<<) are not allowed; write the values out.")
            return key, True
        if key in keys:
            first = keys[key][0]
            self.complain(event.start_mark, f"'{key[:60]}' is given twice here (first in line {first}); remove one.")
            return key, True
        keys[key] = node.place
        return key, False
