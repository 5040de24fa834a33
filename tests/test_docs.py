"""What the docs show is what the commands and the code print, and what they claim is what the code computes."""

from __future__ import annotations

import base64
import contextlib
import doctest
import importlib
import io
import json
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import pytest

import dalembert as da

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "examples").glob("*.md")) + sorted((DOCS / "how_to").glob("*.md"))
ALL_PAGES = sorted(DOCS.rglob("*.md"))
THEORY = sorted((DOCS / "theory").glob("[a-z]*.md"))
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
        pytest.param(
            p, id=p.stem, marks=[pytest.mark.thorough] if p.stem in ("linkages", "stewart_legs", "optimise") else []
        )
        for p in PAGES
        if ">>>" in p.read_text()
    ],
)
def test_code_gives_what_the_pages_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some pages write files
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.RedundancyWarning)  # that a load is open is the page's subject
        found = doctest.testfile(str(page), module_relative=False, globs={"da": da}, encoding="utf-8")
    assert found.attempted and not found.failed


def test_every_how_to_has_an_example_and_a_place_in_the_list():
    pages = [p for p in (DOCS / "how_to").glob("*.md") if p.stem != "README"]
    assert len(pages) == 15
    listed = (DOCS / "how_to" / "README.md").read_text()
    for page in pages:
        assert ">>>" in page.read_text() and f"({page.name})" in listed, page.name


def test_links_lead_somewhere():
    for page in ALL_PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


# ---- getting started -----------------------------------------------------------------------------------------------


def test_getting_started_word_for_word(tmp_path, monkeypatch):
    """In an empty folder: the blocks, one after the other; each prints what stands below it."""
    page = (DOCS / "getting_started.md").read_text()
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", page, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    names, printed, compared = {}, io.StringIO(), 0
    for kind, text in blocks:
        if kind == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile(text, "slider_crank.py", "exec"), names)
            continue
        assert printed.getvalue() == text
        printed, compared = io.StringIO(), compared + 1
    assert compared == 4 and not printed.getvalue()
    assert "<canvas" in (tmp_path / "slider_crank.html").read_text() and (tmp_path / "big_end.png").exists()
    # the file says the same machine: the first answer again, from the command line's own words
    first = next(text for kind, text in blocks if kind == "text")
    assert f"{da.check(da.load('slider_crank.yaml'))}\n" == first
    commands = [c for block in re.findall(r"^```console\n(.*?)^```", page, re.M | re.S) for c in block.split("\n") if c]
    assert {"$ dalembert check slider_crank.yaml", "$ dalembert view slider_crank.yaml"} <= set(commands)


# ---- theory --------------------------------------------------------------------------------------------------------


def numbers_of(page: Path) -> list[str]:
    """Equation numbers at the ends of lines of formulas."""
    return re.findall(r"^ {4}.*\((\d[a-z]?\.\d+)\)$", page.read_text(), re.M)


@pytest.mark.parametrize("page", THEORY, ids=lambda p: p.stem)
def test_equations_are_numbered_in_order_and_cited_by_the_code(page):
    found = numbers_of(page)
    room = found[0].split(".")[0]
    assert found == [f"{room}.{k + 1}" for k in range(len(found))]
    analysis = dict.fromkeys(("statics", "kinematics", "inverse_dynamics", "linearisation"), "analysis")
    marching = dict.fromkeys(("switching", "sticking", "one_sided"), "simulation")
    home = ({"ranges": "reactions"} | marching | analysis).get(page.stem, page.stem)
    cited = f"({found[0]})–({found[-1]}): docs/theory/{page.name}"
    assert cited in (importlib.import_module(f"dalembert.{home}").__doc__ or "")


def test_equations_named_anywhere_exist():
    known = {number for page in THEORY for number in numbers_of(page)}
    for page in (*THEORY, *(DOCS / "papers").glob("*.md")):
        # ours have a letter, or stand in a link to a theory page; a paper's own stand in [brackets] or tables
        for number in re.findall(r"\((\d[a-z]\.\d+)\)", page.read_text()):
            assert number in known, f"{page.name}: ({number})"
        for text in re.findall(r"\[([^\]]*)\]\(\.\./theory/", page.read_text()):
            assert set(re.findall(r"\((\d[a-z]?\.\d+)\)", text)) <= known, f"{page.name}: {text}"


def test_every_method_has_its_place_in_the_theory():
    from dalembert.complements import all_complements
    from dalembert.formulations import all_formulations
    from dalembert.stabilise import all_stabilisations

    for room, methods in (
        ("complements", all_complements()), ("formulations", all_formulations()), ("stabilise", all_stabilisations()),
    ):  # fmt: skip
        text = (DOCS / "theory" / f"{room}.md").read_text()
        for method in methods.values():
            assert f"`{type(method).__name__}" in text, f"{room}.md does not tell of {type(method).__name__}"


def test_names_in_the_theory_are_names_of_the_code():
    rooms = [importlib.import_module(f"dalembert.{room}") for room in (*da._ROOMS, "io", "mechanisms")]
    places = (da, da.simulation.Solution, da.systems.AbsoluteSystem, jax, *rooms)
    data = da.simulate(da.mechanism("pendulum"), 0.1, samples=2).dataset
    labels = {*data.variables, *data.attrs}
    for page in (*THEORY, *(DOCS / "papers").glob("*.md")):
        for name in re.findall(r"`(?:da\.)?([A-Za-z_]\w*)(?:\([^`]*\))?`", page.read_text()):
            assert name in labels or any(hasattr(place, name) for place in places), f"{page.name}: {name}"


FORMULAS = {
    "M v̇ = h + Cᵀλ": "Mv̇=h+CTλ",
    "[C; Eᵀ] D = [0; I]": "[CET]D=[0I]",
    "φ = ∂Φ/∂t + Ψ(t, q) v": "φ=∂Φ∂t+Ψ(t,q)v",
    "Λ = J₁J₂/(J₁ + J₂) (ω₁ − ω₂)": "Λ=J1J2J1+J2(ω1−ω2)",
    "v*_i = p*_i − Σ_{j<i} (w_jᵀp*_i) w*_j": "vi*=pi*−Σj<i(wjTpi*)wj*",
}


def test_formulas_are_typeset(maker):
    """Whatever a page writes as a formula becomes MathML that is well formed and loses no letter; code stays code."""
    from xml.etree import ElementTree

    typeset = importlib.import_module("make_formulas")
    for text, letters in FORMULAS.items():
        element = ElementTree.fromstring(f"<math>{typeset.mathml(text)}</math>")
        italic = {chr(0x1D44E + k): chr(ord("a") + k) for k in range(26)}
        assert "".join(italic.get(c, c) for c in "".join(element.itertext())).replace(" ", "") == letters
    count = 0
    for page in ALL_PAGES:
        found = typeset.typeset(page.read_text())
        for block in re.findall(r'<div class="formula">.*?</div>', found, re.S):
            ElementTree.fromstring(block)
            count += 1
        if page in THEORY:  # every equation with a number, once
            numbers = re.findall(r"<span>\((.*?)\)</span>", found)
            assert numbers == re.findall(r"^ {4}.*\((\d[a-z]?\.\d+[a-z]?)\)$", page.read_text(), re.M), page.name
        for code in ("model.gear(", "dalembert view", "──build──▶"):
            assert page.read_text().count(code) == found.count(code), page.name
    assert count > 50


# ---- pages made by the code ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def maker():
    """docs/make_pages.py and docs/make_gallery.py."""
    sys.path.insert(0, str(DOCS))
    try:
        yield importlib.import_module("make_pages"), importlib.import_module("make_gallery")
    finally:
        sys.path.remove(str(DOCS))


@pytest.mark.parametrize(
    "name",
    [
        "blajer_bestle_schiehlen",
        "blajer",
        "kovecses_piedboeuf",
        "wojtyra_fraczek",
        pytest.param("gutierrez_lopez", marks=pytest.mark.thorough),  # test_rules.py holds the rule in every run
    ],
)
def test_the_papers_numbers_are_those_of_the_code(maker, name):
    """The table is made again: equal to the letter, or `python docs/make_pages.py papers` was forgotten."""
    pages, _ = maker
    assert pages.read(DOCS / "papers" / f"{name}.md", name) == pages.quick(name)


@pytest.mark.thorough  # test_canadarm.py holds the numbers in every run
def test_the_arms_numbers_are_those_of_the_code(maker):
    pages, _ = maker
    ours, shown = (
        text.split("\n") for text in (pages.arm_table(), pages.read(DOCS / "papers/kovecses_piedboeuf.md", "arm"))
    )
    assert ours[2:4] == shown[2:4]  # the last line is rounding


def verified(maker, name: str) -> list[tuple[str, float, float, float, float]]:
    """(what, published, ours, difference, bar) of a table of verification.md."""
    pages, _ = maker
    rows = pages.read(DOCS / "verification.md", name).split("\n")[2:]
    cells = [[c.strip() for c in row.strip("|").split("|")] for row in rows]
    return [(c[0], *map(float, c[1:])) for c in cells]


@pytest.mark.parametrize(("name", "count"), [("andrews", 27), ("pendulum", 8), ("n-four-bar", 8), ("bicycle", 4)])
def test_the_verification_page_is_right_in_itself(maker, name, count):
    """Published digits are those of the tests, the difference is that of the two columns, and below the bar."""
    from test_references_andrews import ANDREWS

    rows = verified(maker, name)
    assert len(rows) == count
    for what, published, ours, off, bar in rows:
        assert off < bar
        size = abs(published) if name == "andrews" else 1.0 if name != "bicycle" else None
        if size is not None:
            # the columns have as many digits as were published, the difference two
            assert abs(published - ours) / size == pytest.approx(
                off, rel=0.06, abs=2e-15 if name == "andrews" else 1e-6
            )
        if name == "andrews":
            key = {"q": "q", "q̇": "qd", "q̈": "qdd", "λ": "lam"}[what[:-1]]
            assert published == ANDREWS[key][int(what[-1]) - 1]


@pytest.mark.thorough  # the reference tests hold the same numbers in every run
@pytest.mark.parametrize("name", ["andrews", "pendulum", "n-four-bar", "bicycle"])
def test_the_verification_page_is_what_the_code_computes(maker, name):
    pages, _ = maker
    for row, (what, published, ours, _, bar) in zip(pages.VERIFIED[name](), verified(maker, name), strict=True):
        assert row.what == what and float(row.published) == published
        assert abs(row.ours - ours) <= bar * row.size


def test_every_name_is_on_an_api_page(maker):
    """Or `python docs/make_pages.py api` was forgotten."""
    pages, _ = maker
    assert {p.name: p.read_text() for p in (DOCS / "api").glob("*.md")} == pages.api_pages()


def test_every_mechanism_is_in_the_gallery(maker):
    """Or `python docs/make_gallery.py NAME` was forgotten."""
    _, gallery = maker
    assert (DOCS / "gallery.md").read_text() == gallery.page()
    for name in da.mechanisms.mechanisms():
        still = gallery.STILLS / f"{name}.png"
        assert still.exists() and still.stat().st_size < gallery.LARGEST, name
        motion = gallery.MOTIONS / f"{name}.json"
        assert motion.exists() and motion.stat().st_size < gallery.LARGEST_MOTION, name
        scene = json.loads(motion.read_text())
        assert scene["bodies"] and len(base64.b64decode(scene["places"])) == 28 * (len(scene["bodies"]) - 1) * times(
            scene
        )


def times(scene) -> int:
    return len(base64.b64decode(scene["t"])) // 4


@pytest.mark.parametrize(
    "name",
    ["four_bar", *(pytest.param(n, marks=pytest.mark.thorough) for n in ("redundant_door", "mobile_robot"))],
)
def test_notebooks_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        runpy.run_path(str(DOCS / "notebooks" / f"{name}.py"))
    assert len(capsys.readouterr().out.split("\n")) > 5
