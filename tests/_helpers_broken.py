"""Robot files broken by chance, with a seed: one mutation each."""

from __future__ import annotations

import copy
import random
import xml.etree.ElementTree as ET
from collections.abc import Iterator

VALUES = (
    "nan", "NaN", "inf", "-inf", "1e400", "1e59", "-1e30", "-1", "0", "", " ", "abc", "1 2", "1 2 3 4 5", "0 0 0", "1e",
    "--1", "0x10", "1,5", "1;2;3", "${x}", "..", "/etc/passwd", "ground", "world", "x" * 5000, "é", "\u202e", "true",
    "1 nan 0", "1_0",
)  # fmt: skip
HARMLESS = ("comment", "spaces", "order", "crlf", "bom", "declaration")


def mutations(text: str, seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """`count` files, each the text with one thing changed: what was done, and the bytes."""
    rng = random.Random(seed)
    ways = [_delete, _duplicate, _rename, _drop_attribute, _rename_attribute, _value, _value, _value, _number, _nest,
            _swap, _insert, _truncate, _bytes, _encode, _harmless]  # fmt: skip
    for _ in range(count):
        yield rng.choice(ways)(text, rng)


def parse(text: str) -> ET.Element:
    return ET.fromstring(text)


def canonical(root: ET.Element):
    """A tree as plain data, without texts of spaces."""
    inside = tuple(canonical(child) for child in root)
    return root.tag, tuple(sorted(root.attrib.items())), (root.text or "").strip(), (root.tail or "").strip(), inside


def _written(root: ET.Element) -> bytes:
    return ET.tostring(root, encoding="utf-8")


def _pick(root: ET.Element, rng: random.Random) -> tuple[ET.Element, ET.Element]:
    return rng.choice([(parent, child) for parent in root.iter() for child in parent])


def _delete(text, rng):
    root = parse(text)
    parent, child = _pick(root, rng)
    parent.remove(child)
    return f"deleted <{child.tag} {child.attrib}>", _written(root)


def _duplicate(text, rng):
    root = parse(text)
    parent, child = _pick(root, rng)
    parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(child))
    return f"doubled <{child.tag} {child.attrib}>", _written(root)


def _rename(text, rng):
    root = parse(text)
    _, child = _pick(root, rng)
    before, tags = child.tag, sorted({e.tag for e in root.iter()})
    child.tag = rng.choice(
        [child.tag + "s", child.tag[:-1] or "q", child.tag.upper(), rng.choice(tags), "a:b", "include"]
    )
    return f"<{before}> is <{child.tag}>", _written(root)


def _attributed(root, rng):
    return rng.choice([e for e in root.iter() if e.attrib])


def _drop_attribute(text, rng):
    root = parse(text)
    element = _attributed(root, rng)
    key = rng.choice(sorted(element.attrib))
    del element.attrib[key]
    return f"<{element.tag}> without {key}", _written(root)


def _rename_attribute(text, rng):
    root = parse(text)
    element = _attributed(root, rng)
    key = rng.choice(sorted(element.attrib))
    other = rng.choice([key + "x", key.upper(), "name", "type", "file", "xyz"])
    element.attrib[other] = element.attrib.pop(key)
    return f"<{element.tag}> {key} is {other}", _written(root)


def _value(text, rng):
    root = parse(text)
    element = _attributed(root, rng)
    key = rng.choice(sorted(element.attrib))
    element.attrib[key] = rng.choice(VALUES)
    return f"<{element.tag}> {key}={element.attrib[key][:20]!r}", _written(root)


def _number(text, rng):
    """One number of a value."""
    root = parse(text)
    element = _attributed(root, rng)
    key = rng.choice(sorted(element.attrib))
    parts = element.attrib[key].split() or [""]
    parts[rng.randrange(len(parts))] = rng.choice(VALUES[:9])
    element.attrib[key] = " ".join(parts)
    return f"<{element.tag}> {key}={element.attrib[key][:30]!r}", _written(root)


def _nest(text, rng):
    root = parse(text)
    parent, child = _pick(root, rng)
    parent.remove(child)
    new = rng.choice([e for e in root.iter() if e is not child])
    new.insert(rng.randrange(len(new) + 1), child)
    return f"<{child.tag} {child.attrib}> moved into <{new.tag}>", _written(root)


def _swap(text, rng):
    root = parse(text)
    key = rng.choice(["name", "link", "joint", "type", "xyz", "axis", "pos", "rpy"])
    having = [e for e in root.iter() if key in e.attrib]
    if len(having) < 2:
        return _value(text, rng)
    a, b = rng.sample(having, 2)
    a.attrib[key], b.attrib[key] = b.attrib[key], a.attrib[key]
    return f"{key} of <{a.tag}> and <{b.tag}> swapped", _written(root)


def _insert(text, rng):
    root = parse(text)
    parent, _ = _pick(root, rng)
    new = ET.Element(
        rng.choice(["link", "joint", "body", "geom", "foo", "inertial", "include", "mesh", "default", "origin"])
    )
    for _ in range(rng.randrange(3)):
        new.attrib[rng.choice(["name", "file", "type", "value", "pos"])] = rng.choice(VALUES)
    parent.insert(rng.randrange(len(parent) + 1), new)
    return f"<{new.tag} {new.attrib}> inserted into <{parent.tag}>", _written(root)


def _truncate(text, rng):
    data = text.encode()
    cut = rng.randrange(len(data))
    return f"cut at {cut}", data[:cut]


def _bytes(text, rng):
    data = bytearray(text.encode())
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data))
        data[at] = rng.randrange(256)
    return "some bytes changed", bytes(data)


def _encode(text, rng):
    way = rng.choice(["utf-16", "utf-32", "latin-1", "cp500", "nul", "declared", "unknown"])
    bare = text[text.index("?>") + 2 :] if text.startswith("<?xml") else text
    if way == "nul":
        at = rng.randrange(len(text))
        return "a zero byte", (text[:at] + "\0" + text[at:]).encode()
    if way in ("declared", "unknown"):
        name = "UTF-16" if way == "declared" else "no-such-code"
        return f"said to be {name}", f'<?xml version="1.0" encoding="{name}"?>{bare}'.encode()
    if way == "latin-1":
        return "Latin-1", bare.replace('name="', 'name="é', 1).encode("latin-1")
    return way, text.encode(way)


def _harmless(text, rng):
    way = rng.choice(HARMLESS)
    if way == "comment":
        at = text.index(">", text.index("<robot") if "<robot" in text else text.index("<mujoco")) + 1
        return way, (text[:at] + "<!-- nothing -->" + text[at:]).encode()
    if way == "spaces":
        return way, text.replace("><", ">\n\n <").replace(' "', '  "').encode()
    if way == "crlf":
        return way, text.replace("\n", "\r\n").encode()
    if way == "bom":
        return way, b"\xef\xbb\xbf" + text.encode()
    if way == "declaration":
        bare = text[text.index("?>") + 2 :] if text.startswith("<?xml") else text
        return way, b'<?xml version="1.0" encoding="us-ascii" ?>' + bare.encode()
    root = parse(text)
    for element in root.iter():
        keys = list(element.attrib.items())
        rng.shuffle(keys)
        element.attrib.clear()
        element.attrib.update(keys)
    return way, _written(root)
