"""What the pages of docs/examples show is what the commands and the code print."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import dalembert as da

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "examples").glob("*.md"))
# a check compiles for some seconds where no other test has done so
EVERYDAY = {"mobile-robot", "door-two-balls", "table", "bricard", "omni-robot"}


def console_blocks():
    """(page, command, lines shown) of every console block."""
    for page in PAGES:
        for block in re.findall(r"^```console\n\$ (.*?)^```", page.read_text(), re.M | re.S):
            command, *lines = block.rstrip("\n").split("\n")
            yield page.stem, command, lines


def checks():
    for page, command, lines in console_blocks():
        if match := re.fullmatch(r"dalembert check (\S+)", command):
            marks = [] if match[1] in EVERYDAY else [pytest.mark.thorough]
            yield pytest.param(match[1], lines, id=f"{page}-{match[1]}", marks=marks)


def shown_in(lines, text: str) -> None:
    """Every line shown is a line of the text, in this order; between two … there may be others, else there are none."""
    rest, gap = text.split("\n"), True
    for line in lines:
        if line == "…":
            gap = True
            continue
        assert line in rest, f"not printed (any more): {line}"
        at = rest.index(line)
        assert gap or at == 0, f"lines are missing before: {line}"
        rest, gap = rest[at + 1 :], False


@pytest.mark.parametrize(("name", "lines"), list(checks()))
def test_checks_print_what_the_pages_show(name, lines):
    shown_in(lines, str(da.check(da.mechanism(name))))


def test_every_console_block_is_a_check_or_an_example():
    commands = {command for _, command, _ in console_blocks()}
    examples = {c for c in commands if not c.startswith("dalembert check ")}
    assert examples == {"python examples/20_mobile_robot_reactions.py"} and len(commands) > 10


@pytest.mark.thorough
def test_the_robot_example_prints_what_its_page_shows(tmp_path):
    lines = next(lines for _, command, lines in console_blocks() if command.startswith("python"))
    path = ROOT / "examples" / "20_mobile_robot_reactions.py"
    done = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, check=True)
    shown_in(lines, done.stdout)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, id=p.stem, marks=[pytest.mark.thorough] if p.stem == "linkages" else [])
        for p in PAGES
        if ">>>" in p.read_text()
    ],
)
def test_code_gives_what_the_pages_show(page):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.RedundancyWarning)  # that a load is open is the page's subject
        found = doctest.testfile(str(page), module_relative=False, globs={"da": da}, encoding="utf-8")
    assert found.attempted and not found.failed


def test_links_lead_somewhere():
    for page in (*PAGES, ROOT / "docs" / "reactions.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
