"""Pictures: figures, the scene, the page as a file and as served, films. What a browser makes of the page is in
test_view_browser.py."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from _helpers_view import chain_in_motion, still
from matplotlib.backends.backend_agg import FigureCanvasAgg

import dalembert as da
from dalembert.mechanisms import mechanisms
from dalembert.systems import geometry
from dalembert.view import (
    Server,
    animate_dataset,
    in_words,
    page_of_dataset,
    plot_dataset,
    scene_of,
    when,
    windows,
)
from dalembert.view._plots import KINDS
from dalembert.view._shapes import hull


@pytest.fixture(scope="module")
def data(four_bar_motion):
    return four_bar_motion.dataset


@pytest.fixture(scope="module")
def door():
    """A door on two balls: along its axis the two forces are open, across it they are not."""
    with pytest.warns(da.errors.RedundancyWarning):
        solution = da.simulate(da.mechanism("door-two-balls"), 1.0, samples=21)
        solution.multipliers  # noqa: B018
    return solution


def scene_in(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="scene">(.*?)</script>', page, re.S)[1])


# ---- figures -------------------------------------------------------------------------------------------------------


def measured_motion():
    model = da.mechanism("four-bar")
    model.measure("tip", "point", "coupler")
    return da.simulate(model, 0.5, samples=21)


@pytest.mark.parametrize("what", list(KINDS))
def test_every_figure_is_drawn_and_its_legends_cover_no_curve(four_bar_motion, what, tmp_path):
    solution = measured_motion() if what == "measurements" else four_bar_motion
    figure = solution.plot(what, path=tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for axes in figure.axes:
        if axes.get_legend() is not None:
            assert axes.get_legend().get_window_extent(renderer).x0 >= axes.get_window_extent(renderer).x1 - 1


def test_a_file_name_alone_saves_the_page(four_bar_motion, tmp_path):
    assert len(four_bar_motion.plot(tmp_path / "run.png").axes) == 4
    assert len(four_bar_motion.plot(str(tmp_path / "run.pdf")).axes) == 4
    assert (tmp_path / "run.pdf").stat().st_size > 10_000


def test_what_is_not_there_is_told_with_what_is(four_bar_motion):
    for call, words in (
        (
            lambda: four_bar_motion.plot("reaktions"),
            "There is no plot 'reaktions'; .*'coordinates'.*Did you mean 'reac",
        ),
        (lambda: four_bar_motion.plot("reactions", joint="Z"), "no joint 'Z'; the joints are A, B, C, D"),
        (lambda: four_bar_motion.plot("reactions", frame="moon"), "frame='moon' is unknown"),
        (lambda: four_bar_motion.plot("phase", coordinate="A.x"), "no coordinate 'A.x'; there are A.angle"),
        (lambda: four_bar_motion.plot("path", body="crnk"), "no body 'crnk'.*Did you mean 'crank'"),
        (lambda: four_bar_motion.plot("path", body="crank", point=(0, 0, 0)), "must have 2 numbers"),
        (lambda: four_bar_motion.plot("coordinates", names="Q"), "no 'Q' here; there are A.angle"),
        (lambda: four_bar_motion.plot("mechanism", t=99.0), "outside the motion"),
        (lambda: four_bar_motion.plot("energy", joint="A"), "does not take this: .*'joint'"),
        (lambda: four_bar_motion.plot("run.xyz"), "Cannot write 'run.xyz': its name must end in .png or .pdf or .svg"),
        (lambda: four_bar_motion.plot("energy", path="run.xyz"), "its name must end in .png or .pdf or .svg"),
        (lambda: four_bar_motion.animate("run.avi"), "must end in .html or .gif or .mp4"),
        (lambda: four_bar_motion.animate("nowhere/run.html"), "folder 'nowhere' does not exist"),
        (lambda: four_bar_motion.animate("run.html", traces=["crnk"]), "no body 'crnk'"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            call()


def test_phase_plot_shows_the_coordinate_and_its_rate(four_bar_motion, data):
    """Against differences of the saved angles, whose error is of the order of the step squared: (0.01 s)² × 1000/s³."""
    x, y = four_bar_motion.plot("phase", coordinate="A.angle").axes[0].get_lines()[0].get_data()
    np.testing.assert_array_equal(x, data["coordinate"].sel(joint_coordinate="A.angle").values)
    slope = np.gradient(x, data["time"].values)
    np.testing.assert_allclose(y[1:-1], slope[1:-1], atol=0.02 * np.max(np.abs(y)))


def test_path_of_the_crank_pin_is_a_circle(four_bar_motion):
    """The crank of 1 m turns about A at the origin; its pin B lies half a metre from its centre of mass."""
    x, y = four_bar_motion.plot("path", body="crank", point=(0.5, 0.0)).axes[0].get_lines()[0].get_data()
    np.testing.assert_allclose(np.hypot(x, y), 1.0, rtol=1e-12)


def test_reactions_solid_where_unique_dashed_where_a_rule_picked(door):
    figure = door.plot(
        "reactions", joint="top" if "top" in door.dataset["joint"] else str(door.dataset["joint"].values[0])
    )
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    styles = {label[:2]: (line.get_linestyle(), "by rule" in label) for label, line in lines.items()}
    assert styles == {"Fx": ("-", False), "Fy": ("-", False), "Fz": ("--", True)}
    assert len(figure.axes[0].collections) == 1  # the band of Fz
    assert "minimum norm" in figure.axes[0].get_title(loc="left")


def test_the_band_is_what_self_stress_as_large_as_the_load_does(door):
    """Two balls on one axis: (+f, −f) along it is the only self-stress. Its size and the load's are measured on unit
    rows in the mass metric; f with the load's size is the band, at both joints, and nothing moves across the axis."""
    from dalembert.equations import assemble

    first, second = (str(j) for j in door.dataset["joint"].values)
    equations = assemble(door.system, door.t[0], door.q[0], door.v[0])
    C, Minv = np.asarray(equations.C), np.linalg.inv(np.asarray(equations.mass.blocks)[0])
    sizes = np.sqrt(np.einsum("ri,ij,rj->r", C, Minv, C))
    null = np.array([0, 0, 1, 0, 0, -1.0])  # along z of both balls, which is vertical
    assert np.max(np.abs(C.T @ null)) < 1e-12
    lam = door.results.observed.lam[0] * sizes
    unit = null * sizes / np.linalg.norm(null * sizes)
    load = np.linalg.norm(lam - unit * (unit @ lam))
    f = load / np.linalg.norm(null * sizes)
    for joint in (first, second):
        band = door.results.band(joint, "joint")
        assert band["Fz"][0] == pytest.approx(f, rel=1e-9)
        assert max(np.max(band[k]) for k in ("Fx", "Fy", "Mx", "My", "Mz")) < 1e-9 * f


def test_solvability_is_part_of_the_result(door, data):
    assert list(door.dataset["solvability"].values) == ["partly", "partly"]
    assert list(data["solvability"].values) == ["unique"] * 4


def test_graph_tells_loops_and_names():
    figure = da.reports.plot_graph(da.mechanism("four-bar"), reactions=False)
    assert figure.axes[0].get_title() == "four-bar: 3 bodies, 4 joints, 1 loop"
    texts = {t.get_text() for t in figure.axes[0].texts}
    assert {"ground", "crank", "coupler", "rocker", "A\nrevolute"} <= texts
    figure = da.reports.plot_graph(da.mechanism("slider-crank"), reactions=False)
    assert any("(motor)" in t.get_text() for t in figure.axes[0].texts)  # a driver is named at its joint
    title = da.reports.plot_graph(da.mechanism("double-pendulum"), reactions=False).axes[0].get_title()
    assert title.endswith("no loop")


def test_windows_are_of_what_is_known_at_other_times(data):
    """Marks of single components make windows with their joints; what a rule picks at all times, or what a run did not
    reach, makes none; a lower rank makes one without joints, where all reactions have a limit."""
    marked = data.copy(deep=True)
    t = data["time"].values
    first, second = (str(x) for x in data["joint"].values[:2])
    marked["unique_force"][3:5, 0, 0] = False
    marked["unique_torque"][5, 1] = False
    marked["rank"][8] -= 1
    found = windows(marked)
    assert [(w.first, w.last, w.joints, w.singular) for w in found] == [
        (t[3], t[5], (first, second), False), (t[8], t[8], (), True),
    ]  # fmt: skip
    assert (found[0].low, found[0].high) == ((t[2] + t[3]) / 2, (t[5] + t[6]) / 2)
    assert in_words(found) == [
        f"not determined at t = {t[3]:g} … {t[5]:g} s (a singular position, or bodies of unlike mass): reactions of "
        f"{first}, {second}",
        f"singular position at t = {t[8]:g} s: reactions there are limits",
    ]
    assert [w.joints for w in windows(marked, second)] == [(second,)]
    assert when(windows(marked) * 3).startswith(f"6 times, t = {t[3]:g} … ")
    # a component that is open at all times is a rule's, of a joint that is said to be partly known
    picked = data.copy(deep=True).assign_attrs(redundancy=1)
    picked["unique_force"][:, 0, 0] = False
    picked["solvability"][0] = "partly"
    assert windows(picked) == ()
    missed = marked.copy(deep=True)
    missed["digits"][:] = np.nan
    assert windows(missed) == windows(data) == ()


# ---- the scene -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(mechanisms()))
def test_every_mechanism_can_be_drawn(name):
    """Every body shows, every number is finite, and joints of all kinds but couplings and user's rows have a sign."""
    scene = scene_of(still(mechanisms()[name].model()))
    text = json.dumps([scene.bodies, scene.joints, scene.links, scene.traces], allow_nan=False)
    assert "null" not in text.replace('"solvability": null', "")
    shown = {g["body"] for j in scene.joints for g in j["parts"]}
    for k, body in enumerate(scene.bodies[:-1]):
        assert body["parts"] or k in shown, body["name"]
    for joint in scene.joints:
        assert joint["parts"] or joint["kind"] in ("coupling", "pfaffian", "holonomic", "driver", "speed driver")
    assert np.isfinite(scene.radius) and scene.radius < 50 * scene_size(scene)


def scene_size(scene) -> float:
    return float(np.max(np.ptp(scene.places[0, :, :3], axis=0))) or 1.0


def test_gravity_points_down_and_vehicles_are_followed():
    assert list(scene_of(still(da.mechanism("bicycle"))).up) == [0, 0, -1]  # its z axis points down
    assert list(scene_of(still(da.mechanism("bricard"))).up) == [0, 1, 0]
    assert list(scene_of(still(da.mechanism("mobile-robot"))).up) == [0, 1, 0]  # no gravity: y is up in the plane
    frames = 30
    going = still(da.mechanism("mobile-robot"), frames)
    going["position"] = going["position"] + np.linspace(0, 30, frames).reshape(-1, 1, 1)
    assert scene_of(going).follow
    assert not scene_of(still(da.mechanism("four-bar"), frames)).follow


def test_given_shapes_are_drawn_instead(data):
    machine = json.loads(str(data["geometry"].values))
    machine["bodies"][0]["shapes"] = [
        {"kind": "box", "size": [1.0, 0.2, 0.1]},
        {"kind": "sphere", "size": [0.1], "position": [0.5, 0, 0], "colour": [1, 0, 0, 1]},
        {"kind": "cylinder", "size": [0.1, 0.3]},
        {"kind": "capsule", "size": [0.1, 0.3]},
        {"kind": "mesh", "vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0]], "faces": [[0, 1, 2]]},
        {"kind": "ellipsoid", "size": [0.3, 0.2, 0.1]},
        {"kind": "plane", "size": [1.0, 2.0]},
        {"kind": "mesh", "file": "not_read.stl"},
    ]
    parts = scene_of(data.assign(geometry=((), json.dumps(machine)))).bodies[0]["parts"]
    assert [p["t"] for p in parts] == ["plate", "ball", "tube", "rod", "mesh", "mesh", "plate"]
    assert parts[1]["c"] == "#ff0000"
    half_axes = np.max(np.abs(np.array(parts[5]["v"])), axis=0)
    np.testing.assert_allclose(half_axes - [0, 0, abs(half_axes[2] - 0.1)], [0.3, 0.2, 0.1], rtol=1e-3)


def test_joint_coordinates_tell_the_same_machine():
    whole, tree = (geometry(da.build(da.mechanism("delta-robot"), coordinates=c)) for c in ("absolute", "joint"))
    assert tree == whole


def test_shapes_of_a_model_reach_the_picture():
    model = da.Model("shaped", space="space")
    arm = model.body("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
    model.shape("look", arm, "box", size=(0.1, 0.2, 0.3), position=(1.0, 0.0, 0.0), colour=(1, 0, 0, 1))
    model.shape("floor", model.ground, "plane", size=(1, 1))
    (told,) = geometry(da.build(model))["bodies"][0]["shapes"]
    assert (told["kind"], told["size"], told["position"]) == ("box", [0.1, 0.2, 0.3], [1.0, 0.0, 0.0])


def test_hull_against_scipy():
    from scipy.spatial import ConvexHull

    points = np.random.default_rng(3).normal(size=(40, 2))
    expected = {tuple(np.round(p, 12)) for p in points[ConvexHull(points).vertices]}
    assert {tuple(p) for p in hull(points)} == expected


def test_no_machine_no_scene(data):
    with pytest.raises(da.errors.DalembertError, match="says nothing of bodies and joints"):
        scene_of(data.drop_vars("geometry"))
    with pytest.raises(da.errors.DalembertError, match="cannot be read"):
        scene_of(data.assign(geometry=((), "{}")))


def test_long_results_are_thinned_and_keep_their_end(data):
    scene = scene_of(data, frames=50)
    assert len(scene.t) <= 52 and scene.t[-1] == data["time"].values[-1]


# ---- the page ------------------------------------------------------------------------------------------------------


def test_page_holds_the_motion_and_nothing_from_elsewhere(data, tmp_path):
    path = animate_dataset(data, tmp_path / "four_bar.html")
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:)|https?://(?!www\.w3\.org/2000/svg)""", text)
    assert "default-src 'none'" in text and "connect-src" not in text
    scene = scene_in(text)
    places = np.frombuffer(base64.b64decode(scene["places"]), "<f4").reshape(len(data["time"]), 3, 7)
    np.testing.assert_allclose(places[:, :, :2], data["position"].values, atol=1e-6)
    np.testing.assert_allclose(2 * np.arctan2(places[:, 0, 6], places[:, 0, 3]) % (2 * np.pi),
                               data["angle"].values[:, 0] % (2 * np.pi), atol=1e-5)  # fmt: skip


def test_the_pages_program_is_in_lines_that_can_be_read():
    """As in Python: 120 columns; and every file of the folder is part of the page."""
    from dalembert.view._page import SCRIPTS

    folder = Path(da.view.__file__).parent / "page"
    assert {p.stem for p in folder.glob("*.js")} == set(SCRIPTS)
    for path in (*folder.glob("*.js"), *folder.glob("*.css")):
        assert max(map(len, path.read_text(encoding="utf-8").split("\n"))) <= 120, path.name


def test_large_page_is_small_and_quick(tmp_path):
    """The bar: 20 bodies × 1000 frames under 5 s and under 5 MB."""
    large = chain_in_motion(20, 1000)
    start = time.perf_counter()
    path = animate_dataset(large, tmp_path / "large.html")
    assert time.perf_counter() - start < 5.0
    assert path.stat().st_size < 5e6
    assert len(scene_in(path.read_text())["t"]) == 4 * -(-4 * 1000 // 3)  # all its times: float32 in base64


def test_larger_runs_show_fewer_times_in_a_page():
    page = page_of_dataset(chain_in_motion(100, 1000))
    assert 2e6 < len(page) < 5e6


def test_names_cannot_become_code(data):
    evil = "</script><script>alert(1)</script>"
    page = page_of_dataset(data.assign_attrs(model=evil))
    assert evil not in page and page.count("</script>") == 2
    assert scene_in(page)["title"] == evil


def test_server_shows_the_page_on_loopback_only_and_again_when_it_changes(data):
    latest, made = ["1"], []

    def make(stamp):
        made.append(1)
        if stamp == "2":
            raise da.errors.DalembertError("Joint 'A' <b>is</b> missing.")
        return page_of_dataset(data, live=stamp)

    server = Server(make, lambda: latest[0])
    server.start()
    try:
        assert server.address.startswith("http://127.0.0.1:") and server._server.server_address[0] == "127.0.0.1"
        first = _get(server.address)
        assert 'id="scene"' in first and _get(server.address) == first and len(made) == 1
        assert _get(server.address + "stamp") == "1"
        latest[0] = "2"
        assert "Joint &#x27;A&#x27; &lt;b&gt;is" in _get(server.address) and len(made) == 2
        assert _get(server.address + "?x", "LocalHost:1") == _get(server.address)
        for path, host, code in (("etc/passwd", None, 404), ("", "example.org", 403), ("", "localhost.org", 403)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                _get(server.address + path, host)
            assert caught.value.code == code
    finally:
        server.stop()


def test_server_drops_who_does_not_ask_and_bears_who_goes_away(monkeypatch, capfd):
    from dalembert.view import _serve

    monkeypatch.setattr(_serve, "PATIENCE", 1.0)
    monkeypatch.setattr(_serve, "MOST", 8)
    server = Server(lambda stamp: "x" * 10_000_000)
    before = threading.active_count()
    server.start()
    place = ("127.0.0.1", int(server.address.split(":")[-1].strip("/")))
    try:
        # half-open connections, more than there is room for: one says nothing, one drips
        idle = [socket.create_connection(place, timeout=20) for _ in range(30)]
        slow = idle[0]
        time.sleep(0.3)
        assert threading.active_count() - before <= 9  # eight and the server itself
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 10:
                slow.sendall(b"G")
                time.sleep(0.2)
        assert time.monotonic() - began < 6
        for other in idle[1:]:
            with contextlib.suppress(ConnectionError):
                assert other.recv(1) == b""
            other.close()
        # a reader that resets in the midst of an answer
        for _ in range(3):
            gone = socket.create_connection(place, timeout=20)
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
            gone.recv(10)
            gone.close()
        assert len(_get(server.address)) == 10_000_000
    finally:
        server.stop()
    assert "Traceback" not in capfd.readouterr().err


def _get(address: str, host: str | None = None) -> str:
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read().decode()


def test_view_command_on_a_result(four_bar_motion, tmp_path, capsys):
    """In this process: starting another one costs more than the command."""
    from dalembert import cli

    four_bar_motion.to_netcdf(tmp_path / "run.nc")
    cli.view(str(tmp_path / "run.nc"), output=tmp_path / "run.html")
    assert "run.html" in capsys.readouterr().out
    assert scene_in((tmp_path / "run.html").read_text())["title"] == "four-bar"
    with pytest.raises(da.errors.DalembertError, match="There is no file"):
        cli.view(str(tmp_path / "other.nc"))
    (tmp_path / "bad.nc").write_text("not a result")
    with pytest.raises(da.errors.DalembertError, match="not a result that can be read"):
        cli.view(str(tmp_path / "bad.nc"))


def test_a_file_saved_before_the_page_was_opened_is_read_again(four_bar_motion, tmp_path, monkeypatch):
    from dalembert import cli
    from dalembert.view import Server

    path, pages = tmp_path / "run.nc", []
    four_bar_motion.to_netcdf(path)

    def run(server):
        four_bar_motion.dataset.assign_attrs(model="another").to_netcdf(path)
        os.utime(path, ns=(1, 1))
        pages.append(server.page().decode())

    monkeypatch.setattr(Server, "run", run)
    cli.view(str(path), browser=False, samples=2, port=0)
    assert scene_in(pages[0])["title"] == "another"


# ---- films ---------------------------------------------------------------------------------------------------------


def test_films_have_their_frames_and_move(data, tmp_path):
    """Two seconds at five pictures a second."""
    from PIL import Image

    with Image.open(animate_dataset(data, tmp_path / "run.gif", fps=5)) as film:
        assert film.n_frames == 10
        first = np.asarray(film.convert("RGB")).astype(int)
        film.seek(5)
        later = np.asarray(film.convert("RGB")).astype(int)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 20
    assert np.mean(np.any(np.abs(first - later) > 60, axis=-1)) > 0.01
    with pytest.raises(da.errors.DalembertError, match="speed=0 must be a positive"):
        animate_dataset(data, tmp_path / "run.gif", speed=0)


def test_mp4(data, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    path = animate_dataset(data, tmp_path / "run.mp4", fps=5, speed=2.0)
    assert ffmpeg.count_frames_and_secs(str(path))[0] == 5


def test_a_figure_without_a_name_and_unknown_data(data):
    assert len(plot_dataset(data).axes) == 4


def test_what_stands_still_is_drawn_level(four_bar_motion):
    """A reaction that only rounds is no zigzag: the axis spans a share of the value."""
    data = four_bar_motion.dataset
    trembling = 67.0 + 1e-13 * np.cos(np.arange(data["reaction_force_in_joint"].size))
    data = data.assign(
        reaction_force_in_joint=(
            data["reaction_force_in_joint"].dims,
            trembling.reshape(data["reaction_force_in_joint"].shape),
        )
    )
    low, high = plot_dataset(data, "reactions", joint="A").axes[0].get_ylim()
    assert high - low > 1.0
