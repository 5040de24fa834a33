"""edge · files: XML text as a tree with the place of every element. No DTD, no entities, nothing is fetched.

The parser is expat behind `defusedxml`, which refuses all that could make it expand or open another file.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from dalembert._results import Complaint, DalembertError, FileError, did_you_mean

DEEPEST, MOST_ELEMENTS, LONGEST = 200, 200_000, 5000
LARGEST_NUMBER = 1e60
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,9})?\Z", re.ASCII)
_ENCODING = re.compile(r"""\A\s*<\?xml[^>]*?encoding\s*=\s*["']([^"']*)["']""")


@dataclass(eq=False)
class Element:
    """An element with its place; `path` is the file it stands in."""

    tag: str
    attributes: dict[str, str]
    path: Path
    line: int
    column: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str) -> list[Element]:
        return [child for child in self.children if child.tag == tag]

    def walk(self) -> Iterator[Element]:
        """It and all below it, in the file's order."""
        waiting: list[Element] = [self]
        while waiting:
            here = waiting.pop()
            yield here
            waiting.extend(reversed(here.children))


class Complaints:
    """Mistakes of a file, collected; `raise_all` raises them."""

    def __init__(self, path: Path):
        self.path = path
        self.found: list[Complaint] = []

    def add(self, element: Element | None, text: str) -> None:
        if element is not None and element.path != self.path:
            text = f"{element.path.name}, line {element.line}: {text}"
            element = None
        line, column = (0, 0) if element is None else (element.line, element.column)
        self.found.append(Complaint(line, column, text if len(text) < 700 else f"{text[:600]} …"))

    def raise_all(self) -> None:
        if self.found:
            raise FileError(self.path, self.found)


def need_extra(module: str, what: str) -> None:
    """A clear message where the extra packages for robot files are missing."""
    import importlib.util

    if importlib.util.find_spec(module) is None:
        raise DalembertError(
            f"{what} needs the package '{module}', which is not installed: pip install 'dalembert[import]'."
        )


def read_xml(text: str, path: Path) -> Element:
    """The root element of an XML text, or `FileError`."""
    need_extra("defusedxml", "Reading XML")
    import xml.sax

    from defusedxml import DTDForbidden, EntitiesForbidden, ExternalReferenceForbidden
    from defusedxml.sax import make_parser

    declared = _ENCODING.match(text[:500])
    if declared is not None and declared[1].upper() not in ("UTF-8", "US-ASCII", "ASCII"):
        _refuse(path, 1, 1, f"the text says that it is encoded as '{declared[1][:40]}'; save it as UTF-8.")
    builder = _builder(path)
    parser = make_parser()
    parser.forbid_dtd = True
    parser.setContentHandler(builder)
    parser.setErrorHandler(xml.sax.ErrorHandler())
    try:
        source = xml.sax.InputSource()
        source.setByteStream(io.BytesIO(text.encode("utf-8")))
        parser.parse(source)
    except (DTDForbidden, EntitiesForbidden, ExternalReferenceForbidden):
        _refuse(path, *builder.place(), "a DTD or entities (<!DOCTYPE, <!ENTITY) are not allowed; remove them.")
    except xml.sax.SAXParseException as error:
        line, column = error.getLineNumber() or 1, (error.getColumnNumber() or 0) + 1
        _refuse(path, line, column, f"this is not XML: {error.getMessage()}.")
    except (ValueError, LookupError) as error:  # an encoding that Python does not support, lone surrogates
        _refuse(path, 1, 1, f"this is not XML: {str(error).split(chr(10))[0][:200]}.")
    if builder.root is None:
        _refuse(path, 1, 1, "the file is empty.")
    return builder.root


def _refuse(path: Path, line: int, column: int, text: str) -> NoReturn:
    raise FileError(path, [Complaint(line, column, text)])


def _builder(path: Path):
    from xml.sax.handler import ContentHandler

    class Builder(ContentHandler):
        """Keeps the open elements on a stack."""

        def __init__(self):
            super().__init__()
            self.root: Element | None = None
            self.stack: list[Element] = []
            self.count = 0
            self.locator = None

        def setDocumentLocator(self, locator):
            self.locator = locator

        def place(self) -> tuple[int, int]:
            if self.locator is None:
                return 1, 1
            return self.locator.getLineNumber() or 1, (self.locator.getColumnNumber() or 0) + 1

        def startElement(self, name, attrs):
            line, column = self.place()
            self.count += 1
            if len(self.stack) >= DEEPEST:
                _refuse(path, line, column, f"more than {DEEPEST} levels deep.")
            if self.count > MOST_ELEMENTS:
                _refuse(path, line, column, f"more than {MOST_ELEMENTS:,} elements.")
            attributes = dict(attrs.items())
            for key, value in attributes.items():
                if len(value) > 20 * LONGEST or len(key) > 100:
                    _refuse(path, line, column, f"<{name[:40]}>: attribute '{key[:40]}' is too long.")
            made = Element(name, attributes, path, line, column)
            if self.stack:
                self.stack[-1].children.append(made)
            else:
                self.root = made
            self.stack.append(made)

        def endElement(self, name):
            self.stack.pop()

        def characters(self, content):
            if self.stack and content.strip() and len(self.stack[-1].text) < 200:
                self.stack[-1].text += content.strip()

        def skippedEntity(self, name):
            _refuse(path, *self.place(), "entities are not allowed; write the text out.")

    return Builder()


# ---- values ------------------------------------------------------------------------------------------------------


class Reader:
    """Checks elements strictly: unknown attributes and children are reported. Wrong values are replaced by harmless
    ones, so that all mistakes are found in one reading."""

    def __init__(self, complaints: Complaints):
        self.complaints = complaints

    def wrong(self, element: Element | None, text: str) -> None:
        self.complaints.add(element, text)

    def look(self, who: str, element: Element, attributes: str, children: str = "") -> None:
        """Only these attributes, and only these children; those that end in '*' may stand several times."""
        known = attributes.split()
        for key in element.attributes:
            if key not in known and not key.startswith("xmlns"):
                words = f"known are {', '.join(known)}" if known else "it has none"
                text = f"{who}: <{element.tag}>: '{key}' is unknown; {words}.{did_you_mean(key, known)}"
                self.unknown(who, element, key, known, text)
        several = {word.removesuffix("*"): word.endswith("*") for word in children.split()}
        seen: dict[str, Element] = {}
        for child in element.children:
            if child.tag not in several:
                words = f"known are {', '.join(several)}" if several else "nothing may stand there"
                hint = did_you_mean(child.tag, several)
                text = f"{who}: <{child.tag}> in <{element.tag}> is unknown; {words}.{hint}"
                self.unknown(who, child, None, list(several), text)
            elif child.tag in seen and not several[child.tag]:
                first = seen[child.tag].line
                self.wrong(child, f"{who}: a second <{child.tag}> (the first is in line {first}); remove one.")
            seen.setdefault(child.tag, child)
        if element.text.strip():
            text = f"{who}: <{element.tag}>: the text '{element.text.strip()[:40]}' has no meaning there."
            self.unknown(who, element, "text", [], text)

    def unknown(self, who: str, element: Element, key: str | None, known: list[str], text: str) -> None:
        """What to do with an unknown attribute (`key`) or element."""
        self.wrong(element, text)

    def one(self, who: str, element: Element, tag: str, *, needed: bool = False) -> Element | None:
        found = element.all(tag)
        if not found and needed:
            self.wrong(element, f"{who}: <{tag}> is missing in <{element.tag}>.")
        return found[0] if found else None

    def text(self, who: str, element: Element, key: str, default: str | None = None) -> str:
        value = element.attributes.get(key)
        if value is None or not value.strip():
            if value is not None or default is None:
                what = "is missing" if value is None else "is empty"
                self.wrong(element, f"{who}: <{element.tag}>: {key} {what}.")
            return default or ""
        return value.strip()

    def numbers(self, who: str, element: Element, key: str, count: int, default=None) -> list[float]:
        """`count` numbers of an attribute."""
        value = element.attributes.get(key)
        if value is None:
            if default is None:
                self.wrong(element, f"{who}: <{element.tag}>: {key} is missing; give {_words(count)}.")
            return list(default or [0.0] * count)
        parts = value.split()
        if len(parts) != count:
            self.wrong(element, f"{who}: <{element.tag}>: {key} must be {_words(count)}, not '{value[:60]}'.")
            return list(default or [0.0] * count)
        found = [self._number(who, element, key, part) for part in parts]
        known = [x for x in found if x is not None]
        return known if len(known) == count else list(default or [0.0] * count)

    def number(self, who: str, element: Element, key: str, default: float | None = None) -> float:
        return self.numbers(who, element, key, 1, None if default is None else [default])[0]

    def _number(self, who: str, element: Element, key: str, part: str) -> float | None:
        number = float(part) if _NUMBER.match(part) else None
        if number is None:
            self.wrong(element, f"{who}: <{element.tag}>: {key} must be a number, not '{part[:40]}'.")
        elif not math.isfinite(number) or abs(number) > LARGEST_NUMBER:
            self.wrong(element, f"{who}: <{element.tag}>: {key} is too large ({part[:20]}); numbers are in SI units.")
            number = None
        return number


def _words(count: int) -> str:
    return "a number" if count == 1 else f"{count} numbers"
