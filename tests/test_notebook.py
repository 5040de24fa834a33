"""What a notebook, or a Python prompt, shows of models, checks and runs."""

from __future__ import annotations

import html
import sys
import types
import warnings

import numpy as np
import pytest

import dalembert as da
from dalembert.view import scene_of


@pytest.fixture(scope="module")
def data(four_bar_motion):
    return four_bar_motion.dataset


def test_figures_show_themselves_without_pyplot(four_bar_motion, data):
    for figure in (
        four_bar_motion.plot("energy"),
        four_bar_motion.plot("mechanism"),
        da.reports.plot_graph(da.mechanism("bricard")),
    ):
        picture = figure._repr_png_()
        assert picture[:8] == b"\x89PNG\r\n\x1a\n" and len(picture) > 5000


def test_what_a_prompt_prints_is_short(four_bar, four_bar_motion):
    model = da.mechanism("four-bar")
    assert repr(model) == "Model 'four-bar' in the plane: 3 bodies, 4 joints"
    crank = next(iter(model.bodies.values()))
    assert repr(crank).startswith(f"body '{crank.name}': mass ")
    assert repr(model.ground) == "ground"
    joint = next(iter(model.constraints.values()))
    assert repr(joint) == f"revolute '{joint.name}' between {joint.bodies[0].name} and {joint.bodies[1].name}"
    assert repr(joint.markers[1]).startswith("marker of ")
    assert repr(four_bar) == "AbsoluteSystem 'four-bar': n = 9 velocities, m = 8 constraint rows"
    shown = repr(four_bar_motion)
    assert shown.startswith("Solution of 'four-bar': 0 … 2 s, done") and shown.count("\n") <= 2
    assert repr(da.check(four_bar_motion.system, reactions=False)).startswith(
        "four-bar: 3 bodies, 4 joints (4 revolute)"
    )


def test_a_model_and_a_check_are_tables(four_bar):
    text = da.mechanism("four-bar")._repr_html_()
    assert text.count("<tr>") == 2 + 3 + 4 and "revolute" in text
    model = da.Model("<b>", space="plane")
    model.body("<script>", mass=1.0, inertia=1.0)
    assert "<script>" not in model._repr_html_() and "<b>" not in model._repr_html_()
    found = da.check(four_bar, reactions=False)
    assert "all reactions are unique" in found._repr_html_() and found._repr_html_().startswith("<pre")


def test_a_joint_and_a_force_are_tables():
    """Its two bodies with its point in the frame of each, and its numbers; names are escaped."""
    model = da.Model("m", space="space")
    rod = model.body("<rod>", mass=1.0, inertia=(1.0, 1.0, 1.0), position=(1.0, 0, 0))
    pin = model.revolute("pin", "ground", rod, at=(0.5, 0, 0), axis=(0, 1, 0))
    text = pin._repr_html_()
    assert repr(pin) in html.unescape(text) and "<rod>" not in text and text.count("<tr>") >= 3
    assert "0.5, 0, 0" in text and "-0.5, 0, 0" in text and "0, 1, 0" in text
    spring = model.spring_damper("spring", model.ground, rod, at_i=(0, 0, 0), stiffness=3.5)
    assert "stiffness" in spring._repr_html_() and "3.5" in spring._repr_html_()
    flat = da.mechanism("slider-crank")
    for item in (*flat.constraints.values(), *flat.forces.values()):
        assert item._repr_html_().startswith("<pre")


def test_a_solution_is_its_page_in_a_frame(four_bar_motion, data, monkeypatch):
    text = four_bar_motion._repr_html_()
    assert text.count("<iframe") == 1 and 'sandbox="allow-scripts"' in text
    inside = html.unescape(text.split('srcdoc="')[1].split('"')[0])
    assert inside.lower().startswith("<!doctype html>") and len(inside) > 10_000
    assert len(text) < 3_100_000
    # too long for a notebook: a picture
    monkeypatch.setattr("dalembert.view._notebook.PAGE", 1000)
    assert 'src="data:image/png;base64,' in four_bar_motion._repr_html_()


def test_progress_in_a_notebook_asks_for_nothing(monkeypatch):
    """A stand-in for IPython: the bar is a line of HTML that is written anew, without ipywidgets."""
    shown = []
    place = types.SimpleNamespace(update=shown.append)
    module = types.ModuleType("IPython.display")
    module.HTML, module.display = str, lambda x, display_id: (shown.append(x), place)[1]
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    from dalembert.simulation._progress import Bar

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bar = Bar()
        bar(0.5)
        bar.close()
    assert "simulating" in shown[0] and "50%" in shown[1]


def test_what_moves_by_rounding_has_no_curve(data):
    still = data.copy(deep=True)
    labels = [str(x) for x in data["joint_coordinate"].values]
    noise = 1e-13 * np.random.default_rng(1).standard_normal(len(data["time"]))
    still["coordinate"][:, 1] = 0.3 + noise
    panels = scene_of(still).panels
    assert [c["label"] for c in panels[0]["curves"]] == [x for x in labels if x != labels[1]]
    figure = da.view.plot_dataset(still, "coordinates")
    assert labels[1] not in [line.get_label() for line in figure.axes[0].get_lines()]
    # asked for by its name, it is drawn
    assert da.view.plot_dataset(still, "coordinates", names=labels[1]).axes[0].get_lines()
    still["coordinate"][:] = noise[:, None]
    assert [p["title"].split(",")[0] for p in scene_of(still).panels] == [
        "centres of mass",
        "energy",
        "constraint violation",
    ]
    assert "stand still" in da.view.plot_dataset(still).axes[0].get_title()
