"""Files that mean harm, and files that mean nothing: refused, without a foreign exception, nothing read elsewhere."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _helpers_cli import dalembert, in_process
from _helpers_files import library

import dalembert as da
from dalembert._results import DalembertError, FileError
from dalembert.io import starter, text_of
from dalembert.mechanisms import FILES

ROOT = Path(__file__).parent.parent
HEAD = "dalembert: 1\nname: m\nspace: plane\n"
ROD = "bodies:\n  - {name: rod, mass: 1, inertia: 1}\n"
PIN = HEAD + ROD + "joints:\n  - {type: revolute, name: pin, i: ground, j: rod, at: [0, 0]}\n"


def driven(motion: str) -> str:
    return PIN + f"  - {{type: driver, name: d, joint: pin, motion: {motion}}}\n"


def curve(name: str) -> str:
    return PIN + f"  - {{type: point_on_curve, name: c, i: ground, j: rod, points: {{file: {name}}}}}\n"


LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 12))

# name → the file's content and what is said about it
ATTACKS: dict[str, tuple[str | bytes, str]] = {
    "billion laughs": (HEAD + LAUGHS, "anchors (&a0) are not allowed"),
    "alias to itself": (HEAD + "bodies: &x [*x]\n", "aliases (*x) are not allowed"),
    "merge key": (HEAD + "bodies:\n  - {<<: {mass: 1}, name: a, inertia: 1}\n", "merge keys (<<) are not allowed"),
    "python object": (HEAD + "bodies: !!python/object/apply:os.system ['touch hacked']\n", "tags (tag:yaml.org"),
    "python name": (HEAD + "bodies: !!python/name:os.system\n", "are not allowed"),
    "own tag": (HEAD + "bodies: !include /etc/passwd\n", "tags (!include) are not allowed"),
    "tag on a key": ("!!str dalembert: 1\n", "are not allowed"),
    "directive": ("%TAG ! tag:evil,2000:\n---\n" + PIN, "directives (%) are not allowed"),
    "two documents": (PIN + "---\n" + PIN, "a second document begins here"),
    "deep brackets": (HEAD + "bodies: " + "[" * 100_000, "more than 32 levels deep"),
    "deep mappings": (HEAD + "bodies: " + "{a: " * 50_000, "more than 32 levels deep"),
    "deep indentation": ("".join(f"{' ' * k}a:\n" for k in range(500)), "more than 32 levels deep"),
    "many values": (HEAD + "bodies: [" + "1," * 1_000_100 + "]\n", "more than 1,000,000 values"),
    "huge": (b"#" * 5_000_001, "at most 5 MB are read"),
    "zero bytes": (b"dalembert: 1\x00\nname: m\n", "the character U+0000 is not allowed"),
    "escape sequence": (HEAD.replace("m\n", '"\\e[2J"\n') + ROD, "the character U+001B is not allowed"),
    "UTF-16": (PIN.encode("utf-16"), "it is not a text in UTF-8"),
    "Latin-1": (PIN.replace("rod", "stäbe").encode("latin-1"), "it is not a text in UTF-8"),
    "tabs": (HEAD + "bodies:\n\t- {name: a}\n", "a tab cannot stand here; indent with spaces"),
    "long name": (PIN.replace("rod", "r" * 4000), "at most 100 characters"),
    "very long text": (PIN.replace("name: m", "name: " + "m" * 100_000), "a text of 100000 characters"),
    "long key": (HEAD + "? " + "k" * 4000 + "\n: 1\n", "is unknown; known are"),
    "list as key": (HEAD + "? [a, b]\n: 1\n", "a key must be a plain word"),
    "brackets in a formula": (driven('"' + "(" * 900 + "t" + ")" * 900 + '"'), "more than 40 levels of brackets"),
    "powers of powers": (driven("9**9**9**9"), "a part of it is no finite number"),
    "powers of t": (driven('"' + "t**" * 600 + 't"'), "powers of powers"),
    "long formula": (driven('"' + "+".join(["t"] * 2000) + '"'), "an expression may have 2000 characters"),
    "import in a formula": (driven("\"__import__('os').system('touch hacked')\""), "is not understood"),
    "import alone": (driven("__import__(1)"), "there is no function '__import__'"),
    "attribute in a formula": (driven('"t.__class__"'), "is unknown"),
    "lambda in a formula": (driven('"(lambda: 1)()"'), "lambda"),
    "path above": (curve("../secret.csv"), "must be the plain name of a .csv file beside the model file"),
    "absolute path": (curve("/etc/passwd"), "must be the plain name"),
    "path in quotes": (curve('"..\\\\secret.csv"'), "must be the plain name"),
    "path with a folder": (curve("inner/../../secret.csv"), "must be the plain name"),
    "home": (curve("~/secret.csv"), "must be the plain name"),
    "device": (curve("/dev/zero"), "must be the plain name"),
    "hidden": (curve(".secret.csv"), "must be the plain name"),
    "link out": (curve("link.csv"), "it is a link"),
    "pipe beside": (curve("pipe.csv"), "it is not a plain file"),
    "folder beside": (curve("folder.csv"), "it is a folder"),
    "huge beside": (curve("huge.csv"), "at most 5 MB are read"),
    "table link out": (driven("{table: {file: link.csv}}"), "it is a link"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The attack files, and beside them things that must not be opened."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.csv").write_text("0,0\n1,1\n2,2\n")
    inside = outside / "inside"
    inside.mkdir()
    (inside / "link.csv").symlink_to(outside / "secret.csv")
    os.mkfifo(inside / "pipe.csv")
    (inside / "folder.csv").mkdir()
    (inside / "huge.csv").write_bytes(b"0,0\n" * 1_300_000)
    (inside / "folder.yaml").mkdir()
    os.mkfifo(inside / "pipe.yaml")
    (inside / "zero.yaml").symlink_to("/dev/zero")
    (inside / "dead.yaml").symlink_to(inside / "nowhere")
    for k, (content, _) in enumerate(ATTACKS.values()):
        path = inside / f"attack{k}.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return inside


OTHERS = {
    "folder.yaml": "it is a folder",
    "pipe.yaml": "it is not a plain file",
    "zero.yaml": "it is not a plain file",
    "dead.yaml": "there is no such file",
    "/dev/stdin.yaml": "there is no such file",
    "/dev/full": "it is not a plain file",
    "a\0b.yaml": "it cannot be read",
    "x" * 5000 + ".yaml": "it cannot be read",
}
WATCH = """
import json, sys
sys.path.insert(0, sys.argv[1])
import dalembert as da
from dalembert._results import FileError
from dalembert.io import json_schema
from dalembert.mechanisms import FILES
json_schema()
for good in ("governor", "slider-crank", "mobile-robot"):  # what is imported when first used is imported now
    da.load(FILES / f"{good}.yaml")
da.functions.table([0, 1, 2, 3], [0, 1, 0, 1])
seen, on = [], False
def watch(event, arguments):
    if on and event.split(".")[0] in ("open", "exec", "compile", "import", "socket", "subprocess", "os", "ctypes",
                                      "shutil", "pickle", "code", "marshal", "urllib"):
        seen.append((event, str(arguments[0]) if arguments else ""))
sys.addaudithook(watch)
found = {}
for path in json.load(sys.stdin):
    seen.clear()
    on = True
    try:
        da.load(path)
        text = "loaded"
    except FileError as error:
        text = str(error)
    on = False
    found[path] = (text, list(seen))
json.dump(found, sys.stdout)
"""


def test_there_are_enough():
    assert len(ATTACKS) >= 25


def test_attacks_are_refused_and_nothing_else_is_touched(folder):
    """An audit hook of Python sees every file that is opened, all that is compiled, executed, imported or sent."""
    paths = {str(folder / f"attack{k}.yaml"): said for k, (_, said) in enumerate(ATTACKS.values())}
    paths |= {name if name.startswith("/dev") else str(folder / name): said for name, said in OTHERS.items()}
    before = sorted(p.name for p in folder.iterdir())
    run = subprocess.run(
        [sys.executable, "-c", WATCH, str(ROOT)], input=json.dumps(list(paths)), capture_output=True, text=True,
        timeout=120, check=False, cwd=folder,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    beside = {str(folder / "huge.csv")}
    for path, said in paths.items():
        text, seen = found[path]
        assert said in text and "\x1b" not in text, (path, said, text[:300])
        assert len(text) < 20_000
        opened = {name for event, name in seen if event == "open" and not name.isdigit()}  # a digit: opened before
        assert opened <= {path} | beside, (path, seen)
        assert {event for event, _ in seen} <= {"open"}, (path, seen)
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize("number", [0, 3, 9, 12, 13, 14, 31])
def test_attacks_on_the_command_line(folder, number):
    ask = dalembert if number == 0 else in_process  # one as a person starts it
    result = ask("check", str(folder / f"attack{number}.yaml"))
    assert result.returncode == 2 and "Traceback" not in result.stderr + result.stdout
    assert list(ATTACKS.values())[number][1] in result.stderr


def test_list_opens_no_links(folder):
    result = in_process("list", str(folder))
    assert result.returncode == 0 and "Traceback" not in result.stderr
    listed = {line.split()[0] for line in result.stdout.splitlines()}
    assert "pipe.yaml" in listed and not {"zero.yaml", "dead.yaml"} & listed
    assert result.stdout.count("cannot be used") == len(listed)


# ---- random changes ----------------------------------------------------------------------------------------------

TOKENS = [
    "[", "]", "{", "}", ":", ": ", "- ", ",", "\n", "  ", "#", '"', "'", "&a", "*a", "!!x ", "<<", "|", ">", "%", "@",
    "?", "null", "~", "true", "no", ".nan", "-.inf", "1e999", "-1", "0", "1e-320", "1e59", "9" * 30, "t", "sin(", ")",
    "**", "ground", "name: ", "type: ", "mass: 0", "\t", "\r", "\x00", "\x85", "\u2028", "é", "😀", "---\n", "...",
    "[]", "{}", "[[1, 2], [3]]", "{file: x.csv}", "{table: 1}", "[0, 0]", "[0, 0, 0]", "1e60", "''", "a" * 200,
]  # fmt: skip
WORD = re.compile(r"[\w.+-]+|\s+|.", re.S)


def texts_in(value) -> set[str]:
    if isinstance(value, dict | list):
        return set().union(*map(texts_in, value.values() if isinstance(value, dict) else value), set())
    return {value} if isinstance(value, str) else set()


@functools.cache
def good_files() -> list[str]:
    """Small ones: the library's entries, a few at a time with what they speak of; some mechanisms; the starter."""
    names = ("pendulum", "slider-crank", "door-two-hinges", "rolling-disc", "governor")
    files = [starter("starter"), *((FILES / f"{name}.yaml").read_text() for name in names)]
    for model in library().values():
        said = model.sections()
        rest = [*said["joints"], *said["forces"]]
        for k in range(0, len(rest), 4):
            some = rest[k : k + 4]
            named = set().union(*(texts_in(s.arguments) for s in some))
            needed = [s for s in said["joints"] if s not in some and s.name in named]
            small = da.Model(model.name, space=model.space, gravity=model.gravity)
            for s in (*said["bodies"], *said["markers"], *said["inputs"], *needed, *some):
                small.add(s)
            files.append(text_of(small))
    return files


def load_or_refuse(path: Path) -> bool:
    try:
        da.load(path)
    except DalembertError as error:
        assert isinstance(error, FileError) and error.complaints and len(str(error)) < 50_000
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_of_bytes(tmp_path, seed):
    rng = random.Random(seed)
    files = [text.encode() for text in good_files()]
    path, good = tmp_path / "m.yaml", 0
    for _ in range(1250):
        data = bytearray(rng.choice(files))
        for _ in range(rng.choice((1, 1, 2, 5, 20))):
            at = rng.randrange(len(data))
            action = rng.randrange(4)
            if action == 0:
                data[at] = rng.randrange(256)
            elif action == 1:
                del data[at : at + rng.randrange(1, 20)]
            elif action == 2:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 4)))
            else:
                data[at:at] = data[rng.randrange(len(data)) :][: rng.randrange(60)]
            data = data or bytearray(b"x")
        path.write_bytes(data)
        good += load_or_refuse(path)
    assert good < 1250


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_of_words(tmp_path, seed):
    rng = random.Random(100 + seed)
    files = [WORD.findall(text) for text in good_files()]
    path, good = tmp_path / "m.yaml", 0
    for _ in range(1250):
        words = list(rng.choice(files))
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            at = rng.randrange(len(words))
            action = rng.randrange(5)
            if action == 0:
                words[at] = rng.choice(TOKENS)
            elif action == 1:
                words[at] = rng.choice(rng.choice(files))
            elif action == 2:
                words.insert(at, rng.choice(TOKENS))
            elif action == 3:
                del words[at : at + rng.randrange(1, 6)]
            else:
                other = rng.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            words = words or ["x"]
        path.write_text("".join(words), newline="")
        good += load_or_refuse(path)
    assert good < 1250
