"""The page in a browser (see `_helpers_browser`)."""

from __future__ import annotations

import dataclasses

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
    glass, hidden = [], []
    for _ in range(3):  # transparent, hidden, shown
        shown.page.locator("#all").click()
        shown.settle()
        glass.append(shown.page.locator("#all").get_attribute("aria-pressed"))
        hidden.append(moved(before, shown.picture()))
    assert glass == ["mixed", "false", "true"]
    assert hidden[1] > hidden[0] > 0.01 and hidden[2] == 0
    shown.page.locator("#joints button", has_text="C").click()
    assert "of C on" in shown.page.inner_text("#plots")
    assert shown.said == []


def test_one_body_is_made_transparent_and_hidden(shown):
    """By clicks on its name; the others stay. Its pixels turn lighter, then vanish."""
    shown.seek(0.0)
    pictures = [shown.picture()]
    crank = shown.page.locator("#bodies button", has_text="crank")
    for word in ("transparent", "hidden", "shown"):
        crank.click()
        shown.settle()
        assert crank.get_attribute("data-shown") == word
        pictures.append(shown.picture())
    solid, glass, hidden, again = pictures
    assert moved(solid, hidden) > moved(solid, glass) > 0.002
    assert moved(solid, again) == 0
    assert shown.page.evaluate("dalembert.state.bodies") == [0, 0, 0, 0]
    assert shown.page.locator("#bodies button").all_inner_texts() == ["crank", "coupler", "rocker", "ground"]


@pytest.mark.parametrize("width, height", [(1400, 900), (1000, 640), (390, 844), (320, 568)])
def test_writing_never_covers_the_picture_and_the_width_fits(shown, width, height):
    """Only names of joints and a message of failure may lie on the canvas, and a phone need not scroll sideways."""
    shown.page.set_viewport_size({"width": width, "height": height})
    shown.settle()
    view = shown.page.locator("#view").bounding_box()
    assert view["width"] > 300 and view["height"] > 150
    for part in ("header", "#legend", "#axes", "footer", "aside"):
        box = shown.page.locator(part).bounding_box()
        beside = box["x"] >= view["x"] + view["width"] - 1 or box["x"] + box["width"] <= view["x"] + 1
        above_or_below = box["y"] >= view["y"] + view["height"] - 1 or box["y"] + box["height"] <= view["y"] + 1
        assert beside or above_or_below, (part, box, view)
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    for part in ("#play", "#speed", "#tools button:last-child"):
        box = shown.page.locator(part).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width, part
    shown.page.set_viewport_size({"width": 1000, "height": 640})
    shown.settle()


def test_axes_are_drawn(shown):
    """x to the right in red, y upwards in green: the plane's own axes."""
    drawn = """(() => { const c = document.getElementById("axes"), g = c.getContext("2d"), w = c.width;
        const d = g.getImageData(0, 0, w, w).data, out = {};
        for (let k = 0; k < w * w; k++) if (d[4 * k + 3] > 200) {
          const name = d[4 * k] > d[4 * k + 1] ? "x" : "y", box = out[name] ||= [w, w, 0, 0], x = k % w, y = k / w | 0;
          out[name] = [Math.min(box[0], x), Math.min(box[1], y), Math.max(box[2], x), Math.max(box[3], y)]; }
        return out; })()"""
    found = shown.page.evaluate(drawn)
    assert set(found) == {"x", "y"}
    left, upper, right, lower = found["x"]
    assert right - left > 2 * (lower - upper)
    left, upper, right, lower = found["y"]
    assert lower - upper > 2 * (right - left)


def test_alone_in_another_page(browser, four_bar_motion, tmp_path):
    """#bare leaves the machine and its time bar, #play starts it."""
    path = animate_dataset(four_bar_motion.dataset, tmp_path / "four_bar.html")
    page = Page(browser, path.as_uri() + "#bare,play")
    page.until("dalembert.state.time > 0.1")
    assert not page.page.locator("aside").is_visible() and not page.page.locator("#tools").is_visible()
    assert page.page.locator("#play").is_visible() and page.said == []
    page.page.close()


def test_forces_of_the_machine_are_drawn_as_arrows(browser, tmp_path):
    """A link of kind "force": an arrow at a point of a body, along numbers over time, on the scale of reactions."""
    from dalembert.view import scene_of
    from dalembert.view._page import page_of

    scene = scene_of(still(da.mechanism("pendulum")))
    force = np.broadcast_to([0.0, 2.0, 0.0], (len(scene.t), 3))
    pushed = {"name": "push", "t": "force", "i": 0, "j": 0, "a": [0, 0, 0], "b": [0, 0, 0], "c": "#ff00ff", "v": -force}
    pictures = []
    for links in ([], [pushed]):
        path = tmp_path / f"{len(links)}.html"
        path.write_text(
            page_of(dataclasses.replace(scene, links=links, force=np.broadcast_to(force[:, None], scene.force.shape)))
        )
        page = Page(browser, path.as_uri())
        pictures.append(page.picture())
        assert page.said == []
        page.page.close()
    assert moved(*pictures) > 0.0005


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


def test_the_page_marks_times_at_which_reactions_are_not_determined(browser, four_bar_motion, tmp_path):
    """In the note, on the time line, in the plots and beside the joint; and it says along which axes reactions are."""
    data = four_bar_motion.dataset.copy(deep=True)
    t = data["time"].values
    for name in ("unique_force", "unique_force_in_joint"):
        data[name][20, :2] = False
    page = Page(browser, animate_dataset(data, tmp_path / "page.html").as_uri())
    ask = page.page.evaluate
    first, second = (str(x) for x in data["joint"].values[:2])
    assert f"not determined at t = {t[20]:g} s" in ask("document.getElementById('notes').textContent")
    assert "along the joint's own axes" in ask("document.getElementById('legend').textContent")
    (mark,) = ask("[...document.querySelectorAll('#doubts i')].map(e => [e.style.left, e.title])")
    assert (
        abs(float(mark[0].rstrip("%")) - 100 * (t[19] + t[20]) / 2 / t[-1]) < 1e-3 and f"{first}, {second}" in mark[1]
    )
    said = {}
    for when in (t[5], t[20]):
        page.seek(float(when))
        said[when] = ask("[...document.querySelectorAll('#joints output')].map(e => e.textContent)")
    assert "not determined" not in said[t[5]]
    assert said[t[20]][:2] == ["not determined"] * 2 and "not determined" not in said[t[20]][2:]
    # the band in the plot of the reaction of a joint: a column of pixels that are all half transparent
    column = """(() => { const c = document.querySelectorAll(".plot canvas")[1], g = c.getContext("2d"), w = c.width;
        const d = g.getImageData(0, 0, w, c.height).data, count = new Array(w).fill(0);
        for (let k = 0; k < w * c.height; k++) if (d[4 * k + 3] > 40 && d[4 * k + 3] < 140) count[k % w]++;
        return [count.slice(0, w / 2).findIndex(n => n > 60), w]; })()"""
    found = []
    for joint in (0, 2):
        ask(f"dalembert.select({joint})")
        page.seek(float(t[-1]))  # the line of the time is at the right
        found.append(ask(column))
    (at, width), (none, _) = found
    page.said = [x for x in page.said if "getImageData" not in x]  # that we read the picture twice
    assert abs(at - (42 + (width - 50) * (t[19] + t[20]) / 2 / t[-1])) < 2 and none == -1
    assert page.said == []
    page.page.close()


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
