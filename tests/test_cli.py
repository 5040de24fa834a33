"""The command line: what it prints, what it writes, and that it never shows a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import xarray as xr
from _helpers_cli import dalembert, in_process, python_process

import dalembert as da


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
    with python_process(code) as process:
        assert process.stdout is not None and process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
        assert process.returncode == 130 and told == "dalembert: stopped.\n"


@pytest.mark.parametrize(("words", "code"), [(["list"], 0), (["check", "nonsense"], 2)])
def test_the_process_ends_at_once_but_not_before_what_is_to_be_done_at_its_end(words, code):
    text = (
        "import atexit, os, sys\n"
        "from dalembert import cli\n"
        "from dalembert.__main__ import main\n"
        "class Late:\n"
        "    def __del__(self, write=os.write): write(1, b'deleted')\n"
        "def run(of_cli=cli.main):\n"
        "    atexit.register(print, 'last words')\n"
        "    of_cli()\n"
        f"late, cli.main, sys.argv = Late(), run, ['dalembert', *{words!r}]\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == code and done.stdout.endswith("last words\n")


def test_list_names_every_mechanism():
    from dalembert.mechanisms import mechanisms

    listed = json.loads(in_process("list", "--json").stdout)
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
    assert in_process("run", "four-bar", "--t-end", "1", "-o", str(table)).returncode == 0
    header = table.read_text().splitlines()[0]
    assert header.startswith("time (s),") and "position[crank,x] (m)" in header


def test_kinematics_motion_pose_and_sweep(tmp_path):
    """A motion by a driver that is added, a pose with its assemblies, a map; each as JSON, file and picture."""
    out, picture = tmp_path / "run.nc", tmp_path / "run.png"
    files = ("-o", str(out), "--plot", str(picture), "--json")
    result = in_process("kinematics", "four-bar", "--drive", "A.angle=2*t", "--t-end", "1", "--samples", "11", *files)
    report = json.loads(result.stdout)
    assert result.returncode == 0 and report["status"] == "done" and report["dead_points"] == []
    assert picture.stat().st_size > 20_000 and len(da.open(out).t) == 11
    page = tmp_path / "page.html"
    result = in_process(
        "kinematics", "four-bar", "--drive", "A=2*t", "--t-end", "1", "--samples", "11", "-o", str(page)
    )
    assert result.returncode == 0 and "kinematics" in page.read_text()
    result = in_process("kinematics", "four-bar", "--target", "A.angle=30*deg", "--assemblies", *files)
    found = json.loads(result.stdout)
    assert (
        found["met"] and len(found["others"]) == 1 and found["targets"][0]["reached"] == pytest.approx([0.5235987756])
    )
    result = in_process("kinematics", "four-bar", "--sweep", "A=0:2*pi:9", *files)
    assert json.loads(result.stdout)["reachable"] == 9
    with xr.open_dataset(out) as data:
        assert data["reachable"].dims == ("A.angle",)


def test_kinematics_says_what_is_wrong():
    for arguments, code, words in (
        ((), 2, "has 1 degree of freedom and no driver"),
        (("--drive", "A=2*t", "--drive", "B"), 2, "write NAME=VALUE"),
        (("--drive", "Q=2*t"), 2, "no joint 'Q'"),
        (("--target", "A=1", "--sweep", "A=0:1:3"), 2, "not both"),
        (("--target", "A=x"), 2, "'x' is no number"),
        (("--sweep", "A=0:1"), 2, "NAME=FROM:TO:COUNT"),
        (("--drive", "D=-t", "--t-end", "1"), 1, "leave the reach of 'four-bar'"),
    ):
        result = in_process("kinematics", "four-bar", *arguments)
        assert result.returncode == code and words in result.stderr, (arguments, result.stderr)
    result = in_process("kinematics", "four-bar", "--target", "A=0.3", "--target", "D=0.9")
    assert result.returncode == 1 and "not together with 'D.angle'" in result.stdout


def test_run_says_what_a_person_wants_to_know():
    result = in_process("run", "door-two-balls", "--t-end", "1")
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
        (("view", "run.nc", "--set", "crank.mass=2"), "--set changes a model; 'run.nc' is a result."),
        (("report", "four-bar", "-o", "x.pdf"), "its name must end in .html"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, sentence):
    started = arguments[-1] in ("fourbar", "-1")  # one before and one after the model is built
    result = dalembert(*arguments) if started else in_process(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr and "Traceback" not in result.stderr + result.stdout


def test_wrong_option_is_not_a_traceback():
    result = in_process("run", "four-bar", "--t-end", "soon")
    assert result.returncode == 2 and "Traceback" not in result.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_streams_that_are_not_unicode(encoding):
    """Pipes of Windows, terminals without UTF-8: other signs for the same words, and JSON that means the same."""
    from dalembert.io import json_schema

    result = dalembert("schema", PYTHONIOENCODING=encoding)
    assert result.returncode == 0 and result.stderr == ""
    assert json.loads(result.stdout) == json_schema()


def test_every_text_finds_signs_that_a_stream_can_carry():
    from dalembert import _streams  # noqa: F401  knows the signs

    text = "Φ = −3 … 4 · x → Größe ≤ 1°, \udcff 中"
    plain = text.encode("ascii", "dalembert-plain").decode()
    assert plain == "Phi = -3 ... 4 * x -> Gro?e <= 1 deg, \\xff ?"
    assert "−2 · Größe".encode("latin-1", "dalembert-plain").decode("latin-1") == "-2 · Größe"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_output_that_cannot_be_written_is_one_sentence():
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "dalembert.cli", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr == "dalembert: The output cannot be written: No space left on device.\n"


@pytest.mark.skipif(os.name != "posix", reason="pipes differ")
def test_a_closed_pipe_needs_no_words():
    process = subprocess.Popen(
        [sys.executable, "-m", "dalembert.cli", "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 1
    process.stderr.close()


def test_a_backend_that_is_none_is_told_before_the_work(tmp_path):
    result = dalembert("run", "pendulum", "--plot", str(tmp_path / "x.png"), MPLBACKEND="nonsense")
    assert result.returncode == 2 and result.stdout == "" and "MPLBACKEND='nonsense'" in result.stderr
    assert "Traceback" not in result.stderr


def test_version():
    result = dalembert("--version")
    assert result.returncode == 0 and result.stdout == f"dalembert {da.__version__}\n"


def test_numbers_of_a_model_are_set_by_name(four_bar):
    """In this process: another one would only start more slowly."""
    from dalembert.cli import _changed

    changed = _changed(
        four_bar, ["crank.mass=2", "gravity=0, -9.81*2", "B.frame_j=90*deg", "crank.mass=3"]
    ).parameters()
    assert changed["crank.mass"] == 3 and changed["gravity"][1] == -19.62 and changed["coupler.mass"] == 2
    assert changed["B.frame_j"] == pytest.approx(1.5707963267948966)
    hinge = da.build(da.mechanism("door-two-balls"))
    name = next(k for k in hinge.parameters() if k.endswith(".frame_i"))
    turned = _changed(hinge, [f"{name}=0,-1,0; 1,0,0; 0,0,1"]).parameters()[name]
    assert turned.tolist() == [[0, -1, 0], [1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("crank.mas=2", "'four-bar' has no parameter 'crank.mas'. Did you mean 'crank.mass'? 'crank' has crank.mass"),
        ("crank.mass=two", "--set crank.mass=two: expression 'two': 'two' is no number"),
        ("crank.mass=1e", "--set crank.mass=1e: expression '1e': 'e' is not expected"),
        ("crank.mass=-1", "must be greater than zero"),
        ("crank.mass=1,2", "--set crank.mass=1,2: crank.mass is one number; this is 2."),
        ("B.point_j=1", "--set B.point_j=1: B.point_j is 2 numbers, with commas; this is 1."),
        ("crank.mass", "write NAME=VALUE, such as --set crank.mass=2"),
        ("=2", "write NAME=VALUE"),
    ],
)
def test_numbers_that_cannot_be_set(four_bar, change, sentence):
    from dalembert.cli import _changed

    with pytest.raises(da.errors.DalembertError) as caught:
        _changed(four_bar, [change])
    assert sentence in str(caught.value)


def test_the_shell_completes_models_and_rules(tmp_path):
    """As the shell asks, by the variables it sets."""

    def asked(*words):
        line = " ".join(("dalembert", *words))
        code = "import sys; sys.argv[0] = 'dalembert'; from dalembert.cli import main; main()"
        variables = {"_DALEMBERT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
            env={**os.environ, **variables},
        )  # fmt: skip
        return result.stdout.split()

    (tmp_path / "four-legs.yaml").write_text("")
    (tmp_path / "four.txt").write_text("")
    assert asked("run", "four") == ["four-bar", "four-legs.yaml"]
    assert asked("run", "four-bar", "--rule", "wei") == ["weighted"]
