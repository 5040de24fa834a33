"""The page in a browser (see `_helpers_browser`)."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers_browser import Page, is_drawn, moved
from _helpers_view import still

import dalembert as da
from dalembert.view import Server, animate_dataset, page_of_dataset


@pytest.fixture(scope="module")
def shown(browser, four_bar_motion, tmp_path_factory):
    """The four-bar's page, opened from its file."""
    path = animate_dataset(four_bar_motion.dataset, tmp_path_factory.mktemp("page") / "four_bar.html")
    watched = Page(browser, path.as_uri())
    yield watched
    watched.page.close()


def test_file_opens_offline_and_shows_the_machine(shown):
    assert is_drawn(shown.picture())
    assert shown.said == []
    assert all(url.startswith(("file:", "data:")) for url in shown.asked), shown.asked


def test_joints_stand_where_the_motion_says(shown, four_bar_motion):
    """A and D are fixed, 2 m apart (the ground link): they give pixels a metre, and B and C must follow. To 1 pixel."""
    data = four_bar_motion.dataset
    for k in (0, 60, 133):
        shown.seek(float(data["time"].values[k]))
        A, B, C, D = (shown.place(x) for x in "ABCD")
        scale = (D - A)[0] / 2.0
        assert scale > 50 and abs((D - A)[1]) < 1
        crank, rocker = data["position"].values[k, 0], data["position"].values[k, 2]
        for seen, expected in (
            (B - A, 2 * crank),
            (C - A, 2 * (rocker - [1.0, 0.0])),
        ):  # links are uniform: twice the centre
            np.testing.assert_allclose(seen, scale * expected * [1, -1], atol=1.0)


def test_play_and_pause(shown):
    shown.seek(0.0)
    before = shown.picture()
    shown.page.click("#play")
    shown.until("dalembert.state.time > 0.3")
    shown.page.click("#play")
    stopped = shown.time()
    shown.settle()
    assert shown.time() == stopped > 0.3
    assert moved(before, shown.picture()) > 0.005
    assert shown.page.evaluate("dalembert.frame()") > 0


def test_speed(shown):
    """At four times the speed four times the time passes: the program's own step, without the clock's jitter."""
    shown.page.select_option("#speed", index=5)
    assert shown.page.evaluate("dalembert.state.speed") == pytest.approx(4.0)
    shown.page.select_option("#speed", index=3)
    assert shown.page.evaluate("dalembert.state.speed") == pytest.approx(1.0)


def test_scrub_moves_the_machine_and_the_plots_follow(shown):
    shown.seek(0.0)
    before, plot = shown.picture(), shown.page.locator(".plot").first.screenshot()
    box = shown.page.locator("#scrub").bounding_box()
    shown.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    shown.settle()
    assert shown.time() == pytest.approx(1.0, abs=0.03)
    assert "1.0" in shown.page.inner_text("#clock")
    assert moved(before, shown.picture()) > 0.005
    assert shown.page.locator(".plot").first.screenshot() != plot
    box = shown.page.locator(".plot canvas").first.bounding_box()  # and a plot can be scrubbed, too
    shown.page.mouse.click(box["x"] + 42 + 0.25 * (box["width"] - 50), box["y"] + 40)
    assert shown.time() == pytest.approx(0.5, abs=0.03)


def test_keys_and_switches(shown):
    shown.seek(0.0)
    shown.page.locator("#view").click()
    shown.page.keyboard.press("ArrowRight")
    assert shown.time() > 0
    shown.settle()
    before = shown.picture()
    shown.page.get_by_role("button", name="bodies").click()
    shown.settle()
    assert moved(before, shown.picture()) > 0.01
    shown.page.get_by_role("button", name="bodies").click()
    shown.page.locator("#joints button", has_text="C").click()
    assert "of C on" in shown.page.inner_text("#plots")
    assert shown.said == []


def test_colours_tell_solvability(browser, four_bar_motion, tmp_path):
    """Red pixels appear when a joint's reaction is said to be open, and only then."""
    data = four_bar_motion.dataset
    counts = []
    for told in ("unique", "open"):
        changed = data.assign(solvability=("joint", [told, "unique", "unique", "unique"]))
        page = Page(browser, animate_dataset(changed, tmp_path / f"{told}.html").as_uri())
        page.page.evaluate("document.getElementById('legend').remove()")
        red, green, blue = np.moveaxis(page.picture(), -1, 0)
        counts.append(int(np.sum((red > 130) & (red - np.maximum(green, blue) > 70))))
        assert page.said == []
        page.page.close()
    assert counts[0] == 0 and counts[1] > 50


def test_live_page_in_space_reads_itself_again(browser):
    """From the loopback server: nothing but that server is asked, and a new stamp brings a new page."""
    from playwright.sync_api import expect

    stamp = ["1"]
    data = still(da.mechanism("bricard"))
    server = Server(lambda now: page_of_dataset(data.assign_attrs(model=f"version {now}"), live=now), lambda: stamp[0])
    server.start()
    try:
        watched = Page(browser, server.address)
        assert is_drawn(watched.picture())
        before = watched.picture()
        box = watched.page.locator("#view").bounding_box()
        watched.page.mouse.move(box["x"] + 300, box["y"] + 200)
        watched.page.mouse.down()
        watched.page.mouse.move(box["x"] + 420, box["y"] + 230, steps=3)
        watched.page.mouse.up()
        watched.settle()
        assert moved(before, watched.picture()) > 0.01  # the camera goes round
        stamp[0] = "2"
        expect(watched.page).to_have_title("version 2", timeout=20_000)
        assert watched.said == []
        assert all(url.startswith((server.address, "data:")) for url in watched.asked), watched.asked
        watched.page.close()
    finally:
        server.stop()
