"""The report: one page that says what was found, takes every name as a name, and asks no other machine."""

from __future__ import annotations

import base64
import html
import platform
import re

import jax
import numpy as np
import pytest
from _helpers_browser import Page, is_drawn, moved
from _helpers_view import chain_in_motion
from typer.testing import CliRunner

import dalembert as da
from dalembert.reports import report_study
from dalembert.view import Lines, Mark, Motion, Section, Table, Words, report_page

NAME = '<img src=x onerror=alert(1)> & "$x^$"'
BALL = '"><script>hurt=1</script>'
BODY = "<b>leaf</b> $y_$"


@pytest.fixture(scope="module")
def door():
    """A door on two balls with names that try to be markup and formulas: 6 rows of rank 5, one degree of freedom, and
    the two forces along the hinge line are unique only together."""
    model = da.Model(NAME, space="space", gravity=(0, 0, -9.81))
    moving = {"velocity": (0, 0.5, 0), "angular_velocity": (0, 0, 1)}
    leaf = model.body(BODY, mass=2.0, inertia=(0.7, 0.8, 0.2), position=(0.5, 0, 1), **moving)
    model.spherical(BALL, model.ground, leaf, at=(0, 0, 0.2))
    model.spherical("top", model.ground, leaf, at=(0, 0, 1.8))
    return model


@pytest.fixture(scope="module")
def written(door, tmp_path_factory):
    """The report of the door, as a file."""
    path = tmp_path_factory.mktemp("report") / "door.html"
    return da.report(door, path, t_end=1.0, samples=41, about="A door, hung twice", rtol=1e-7)


@pytest.fixture(scope="module")
def page(written):
    return written.read_text(encoding="utf-8")


def words_of(page: str) -> str:
    """What is read: the page around the motion, without markup."""
    around = re.sub(r'srcdoc="[^"]*"', "", page)
    return html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", around, flags=re.S)))


def test_it_says_what_was_found(page):
    text = re.sub(r"\s+", " ", words_of(page))
    for words in (
        "A door, hung twice",
        "1 body, 2 joints (2 spherical)",
        "1 degree of freedom; n = 6 velocities, m = 6 constraint rows, rank 5",
        "redundant rows m − rank 1",
        "counting joints gives n − m = 0",
        f"Not unique: {BALL} (Fz), top (Fz).",
        f"Fz({BALL}) + Fz(top) = 19.62",  # together they carry the weight m g, whatever each of them does
        "top Fz",
        "not unique: by the rule",
        "picked by: minimum norm",
        "The run reached its end. It covers 0 to 1 s.",
        "rtol 1e-07",
        "Proximal",
        "Projection",
        f"dalembert {da.__version__}",
        f"jax {jax.__version__}",
        f"numpy {np.__version__}",
        f"Python {platform.python_version()}",
    ):
        assert words in text, words


def reactions_in(page: str) -> dict[tuple[str, str], list[str]]:
    """The table of reactions: (joint, component) → least, largest, unit, determined."""
    rows = [
        [html.unescape(re.sub(r"<[^>]*>", "", c)) for c in re.findall(r"<td.*?</td>", row)]
        for row in re.findall(r"<tr>.*?</tr>", page, re.S)
    ]
    return {(row[0], row[1]): row[2:] for row in rows if len(row) == 6}


def test_the_table_of_reactions_holds_the_numbers_of_the_run(page):
    """The leaf turns at ω = 1 about a vertical line, its centre r = 0.5 m off. The balls, 1.6 m apart, hold
    m ω² r = 1 N and the moment m g r: along x ∓m g r/1.6 − 1/2 N at the start, less after. Printed to 4 digits."""
    found = reactions_in(page)
    assert {sure for (_, c), (*_, sure) in found.items() if c in ("Fx", "Fy")} == {"unique"}
    assert {sure for (_, c), (*_, sure) in found.items() if c == "Fz"} == {"not unique: by the rule"}
    couple = 2.0 * 9.81 * 0.5 / 1.6
    assert float(found["top", "Fx"][0]) == pytest.approx(-couple - 0.5, abs=1e-3)
    assert float(found[BALL, "Fx"][1]) == pytest.approx(couple - 0.5, abs=1e-3)


def test_a_component_that_a_joint_carries_only_later_is_listed(tmp_path):
    """A skate of 1 kg turns at ω = 1 while it goes at v = 1 m/s: its edge pushes with m v ω = 1 N to its left, along
    (−sin t, cos t). At the start that is Fy alone; within a second Fx reaches −sin 1. Printed to 4 digits."""
    model = da.Model("skate", space="plane")
    blade = model.body("blade", mass=1.0, inertia=0.1, velocity=(1, 0), angular_velocity=1.0)
    model.knife_edge("edge", model.ground, blade, at=(0, 0), direction=(1, 0))
    page = da.report(model, tmp_path / "skate.html", t_end=1.0, samples=41).read_text(encoding="utf-8")
    found = reactions_in(page)
    assert float(found["edge", "Fx"][0]) == pytest.approx(-np.sin(1.0), abs=1e-4)
    assert float(found["edge", "Fy"][1]) == pytest.approx(1.0, abs=1e-4)


def test_values_are_those_of_the_largest_load(tmp_path):
    """A pendulum let go at the horizontal: its pin bears nothing at the start (a mass on a massless rod falls freely)
    and 3 m g at the bottom, the textbook value. To 1 %: an instant that was saved lies beside the bottom."""
    model = da.Model("falling", space="plane", gravity=(0, -9.81))
    bob = model.body("bob", mass=2.0, inertia=1e-9, position=(1.0, 0.0))
    model.revolute("pin", model.ground, bob, at=(0, 0))
    page = da.report(model, tmp_path / "falling.html", t_end=1.0, samples=201).read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", words_of(page))
    assert "at the start, along" not in text
    at, values = re.search(
        r"at the largest load, t = (\S+) s, along the joint's axes pin revolute (.*?) The motion", text
    ).groups()
    load = [float(x.split(" = ")[1].split()[0]) for x in re.split(r" (?=F|M)", values)]
    assert np.hypot(*load[:2]) == pytest.approx(3 * 2.0 * 9.81, rel=0.01)
    # a quarter of the period of a pendulum that swings by 90°: 1.8541 of sqrt(l/g) (complete elliptic integral)
    assert float(at) == pytest.approx(1.8541 * np.sqrt(1 / 9.81), abs=0.01)


def test_it_follows_the_readers_dark_mode(page):
    assert "prefers-color-scheme: dark" in page
    figures = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)
    assert figures
    for figure in figures:  # nothing white behind the curves: the page shows through
        first = re.search(r'<g id="patch_1">.*?</g>', base64.b64decode(figure).decode(), re.S)
        assert first is None or "fill: #ffffff" not in first[0]


def test_names_stay_names(page):
    """No name opens an element or leaves an attribute, in the page or in the motion inside it."""
    assert "<img src=x" not in page and "<script>hurt=" not in page and "<b>leaf" not in page
    assert html.escape(NAME) in page and html.escape(BALL) in page
    inside = html.unescape(re.search(r'srcdoc="([^"]*)"', page)[1])
    assert "<script>hurt=" not in inside and "<img src=x" not in inside


def test_it_names_no_other_machine(page):
    inside = html.unescape(re.search(r'srcdoc="([^"]*)"', page)[1])
    for text in (page, inside):
        addresses = set(re.findall(r"https?://[^\s'\"<>)]+", html.unescape(text)))
        assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, which nobody asks for
        assert "default-src 'none'" in text
    links = re.findall(r'(?:src|href)="(.{1,5})', re.sub(r'srcdoc="[^"]*"', "", page))
    assert links and all(x.startswith(("data:", "#")) for x in links)


def test_model_file_in_the_page_is_the_model(page, door, tmp_path):
    text = html.unescape(re.search(r"<pre>(.*?)</pre>", page, re.S)[1])
    (tmp_path / "door.yaml").write_text(text, encoding="utf-8")
    assert da.load(tmp_path / "door.yaml") == door


def test_report_of_a_solution_without_redundancy(four_bar_motion, tmp_path):
    path = da.report(four_bar_motion, tmp_path / "four_bar.html")
    text = re.sub(r"\s+", " ", words_of(path.read_text(encoding="utf-8")))
    assert "All reactions are unique: no rule was needed." in text and "not unique" not in text
    assert path.stat().st_size < 5e6


def test_a_run_that_ends_early_is_told(four_bar, tmp_path):
    path = da.report(four_bar, tmp_path / "early.html", t_end=2.0, samples=201, max_steps=5)
    assert '<p class="bad">The run used all its steps.' in path.read_text(encoding="utf-8")


def test_constraints_that_exclude_each_other_are_named_without_a_motion(tmp_path):
    model = da.Model("torn", space="plane")
    bar = model.body("bar", mass=1.0, inertia=0.1, position=(0.5, 0))
    model.distance("rope", model.ground, bar, at_i=(0, 0), at_j=(0.5, 0), length=1.0)
    model.weld("nail", model.ground, bar, at=(0.5, 0))
    text = da.report(model, tmp_path / "torn.html", t_end=1.0).read_text(encoding="utf-8")
    assert '<p class="bad">Contradiction: ' in text and "rope" in text and "nail" in text
    assert "There is no motion to show" in text and "<iframe" not in text


def test_wrong_input_is_a_sentence(four_bar_motion, tmp_path):
    for call, words in (
        (lambda: da.report(four_bar_motion, tmp_path / "report.pdf"), "the name of a report must end in .html"),
        (lambda: da.report(four_bar_motion, tmp_path / "none" / "r.html"), "folder '.*none' does not exist"),
        (lambda: da.report(four_bar_motion, tmp_path / "r.html", t_end=3.0), "A solution is reported as it is"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            call()


def test_command_line(tmp_path, monkeypatch):
    """In this process: what it needs is compiled already. `make demo` runs it as a person does."""
    from dalembert.cli import app

    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["report", "four-bar", "--t-end", "2", "--samples", "201"])
    assert result.exit_code == 0, result.output
    assert "Written: four-bar-report.html" in result.output and "drawing" in result.output
    text = (tmp_path / "four-bar-report.html").read_text(encoding="utf-8")
    assert "A crank-rocker swinging under gravity. Made on " in text


def test_large_page_stays_under_5_mb():
    """20 bodies, 1000 times."""
    rows = [(f"joint {k}", Mark("unique", "unique"), "1.0") for k in range(200)]
    blocks = [
        Words("x"),
        Table(("a", "b", "c"), rows, (2,)),
        Lines("l", ["y"] * 300),
        Motion(chain_in_motion(20, 1000)),
    ]
    page = report_page("large", "", [Section("all", blocks)])
    assert 1e6 < len(page.encode()) < 3.5e6  # figures take the rest
    assert page.count("<tr>") == 201 and "200 rows" in page


def test_in_a_browser(browser, written):
    """It opens offline, nothing in it runs that was a name, the machine is drawn in its frame, and plays."""
    watched = Page(browser, written.as_uri(), framed=True)
    assert watched.page.title() == NAME and watched.page.inner_text("h1") == NAME
    assert is_drawn(watched.picture())
    before = watched.picture()
    watched.frame.click("#play")
    watched.until("dalembert.state.time > 0.5")
    watched.frame.click("#play")
    watched.settle()
    assert moved(before, watched.picture()) > 0.005
    for frame in watched.page.frames:
        assert frame.evaluate("window.hurt === undefined")
    broken = "[...document.images].filter(x => !(x.complete && x.naturalWidth > 100)).length"
    assert watched.page.evaluate("document.images.length") >= 5 and watched.page.evaluate(broken) == 0
    assert watched.said == []
    assert all(url.startswith(("file:", "data:", "about:")) for url in watched.asked), watched.asked
    watched.page.close()


def test_the_best_of_a_study_play(browser, tmp_path):
    """In the page of a study the machine of the best case is drawn, at its start and in its motion, and plays."""
    model = da.Model("pendulum", gravity=(0, -9.81))
    rod = model.body("rod", mass=1.0, inertia=0.1, position=(0.5, 0))
    model.revolute("pin", model.ground, rod, at=(0, 0))
    model.measure("tip", "point", rod, at=(1, 0))
    vary = {"rod.mass": [1.0, 2.0, 3.0, 4.0], "rod.inertia": [0.1, 0.2]}
    found = da.study(model, vary, ["final(tip.x)"], 1.0, out=tmp_path / "study", samples=11)
    page = report_study(found, tmp_path / "page.html", play=1)
    watched = Page(browser, page.as_uri(), framed=True)
    case = found.best("final(tip.x)", 1)[0]
    assert f"Case {case}, final(tip.x) = " in watched.page.inner_text("body")
    before = watched.picture()
    assert is_drawn(before)
    watched.frame.click("#play")
    watched.until("dalembert.state.time > 0.3")
    watched.frame.click("#play")
    watched.settle()
    assert moved(before, watched.picture()) > 0.005
    assert watched.said == []
    watched.page.close()
