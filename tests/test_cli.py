"""The command line: what it prints, what it writes, and that it never shows a traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
import xarray as xr


def dalembert(*arguments, timeout=240):
    command = [sys.executable, "-m", "dalembert.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def test_help():
    """That it loads nothing heavy, and so is quick, is tested with the architecture."""
    result = dalembert("--help")
    assert result.returncode == 0 and "check" in result.stdout and "demo" in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
def test_ctrl_c_while_it_loads_is_one_line():
    # the process tells that it has begun by the first thing that it imports, and is stopped in the middle of that
    code = (
        "import sys\n"
        "class First:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'typer':\n"
        "            print('loading', flush=True)\n"
        "            import time; time.sleep(60)\n"
        "sys.meta_path.insert(0, First())\n"
        "from dalembert.__main__ import main; main()"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code], **pipes)
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130 and told == "dalembert: stopped.\n"


def test_list_names_every_mechanism():
    from dalembert.mechanisms import mechanisms

    listed = json.loads(dalembert("list", "--json").stdout)
    assert [m["name"] for m in listed] == list(mechanisms())


def test_check_json_has_the_promised_keys():
    found = json.loads(dalembert("check", "bricard", "--json").stdout)
    assert {"n", "m", "rank", "redundancy", "mobility", "gruebler"} <= set(found)
    assert (found["redundancy"], found["mobility"], found["gruebler"]) == (1, 1, 0)


def test_run_json_and_files(tmp_path):
    out, table, picture = tmp_path / "run.nc", tmp_path / "run.csv", tmp_path / "run.png"
    result = dalembert("run", "four-bar", "--t-end", "1", "-o", str(out), "--plot", str(picture), "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert {"status", "steps", "compile_s", "wall_s", "violation", "energy_drift"} <= set(report)
    assert report["status"] == "done" and set(report["violation"]) == {"position", "velocity", "acceleration"}
    assert picture.stat().st_size > 20_000
    with xr.open_dataset(out) as data:
        assert list(data["body"].values) == ["crank", "coupler", "rocker"]
        assert data["position"].attrs["units"] == "m"
        assert data["reaction_force"].dims == ("time", "joint", "axis")
        assert data.attrs["reaction_rule"] == "unique"
    assert dalembert("run", "four-bar", "--t-end", "1", "-o", str(table)).returncode == 0
    header = table.read_text().splitlines()[0]
    assert header.startswith("time (s),") and "position[crank,x] (m)" in header


def test_run_says_what_a_person_wants_to_know():
    result = dalembert("run", "door-two-balls", "--t-end", "1")
    assert result.returncode == 0
    for words in (
        "redundant: 1 of the 6 rows",
        "steps",
        "violation",
        "energy",
        "not all unique; picked by: minimum norm",
    ):
        assert words in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "fourbar"), "There is no mechanism 'fourbar'. Did you mean four-bar"),
        (("run", "four-bar", "-o", "/no/such/folder/x.nc"), "the folder '/no/such/folder' does not exist"),
        (("run", "four-bar", "-o", "x.txt"), "its name must end in .nc or .csv"),
        (("run", "four-bar", "--rtol", "-1"), "rtol=-1.0 must be a positive number"),
        (("run", "four-bar", "--t-end", "0"), "The end of the run, 0 s, must be later than its start, 0 s."),
        (("run", "four-bar", "--rule", "wieghted"), "The rule 'wieghted' is unknown; use one of minimum_norm"),
        (("run", "four-bar", "--integrator", "magic"), "integrator='magic' is unknown"),
        (("check", ""), "There is no mechanism ''"),
        (("report", "four-bar", "-o", "x.pdf"), "its name must end in .html"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, sentence):
    result = dalembert(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr and "Traceback" not in result.stderr + result.stdout


def test_wrong_option_is_not_a_traceback():
    result = dalembert("run", "four-bar", "--t-end", "soon")
    assert result.returncode == 2 and "Traceback" not in result.stderr
