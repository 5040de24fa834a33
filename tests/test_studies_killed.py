"""Studies whose processes are killed (−9) at some moment: nothing finished is lost or computed twice, no file is
unreadable, and in the end the dataset is that of an undisturbed run, bit by bit.

Once for each process in turn; with --thorough at 20 random moments each, from the making of the folder to the end.
DALEMBERT_TEST_CHANCE is the seed of all of them (0): another one tries other moments.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from _helpers_cli import in_process
from _helpers_studies import CASES, CHUNK, LOG, computed_once, log_of, masses, moving, pendulum, same, watched

import dalembert as da
from dalembert._results import DalembertError
from dalembert.studies import open_study, resume

HERE = Path(__file__).parent
PATIENCE = 120.0
"""Seconds until a process must have come to a point: all of them are slow when many tests run at once."""
MOMENTS = [0, *(pytest.param(k, marks=pytest.mark.thorough) for k in range(1, 20))]
FEW = [pytest.param(k, marks=pytest.mark.thorough) for k in range(3)]
CHANCE = int(os.environ.get("DALEMBERT_TEST_CHANCE", "0"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    os.environ[LOG] = str(folder / "log")
    return watched(folder / "study").dataset.load()


@pytest.fixture(scope="module")
def undisturbed_motions(tmp_path_factory):
    return moving(tmp_path_factory.mktemp("undisturbed") / "study").dataset.load()


@contextlib.contextmanager
def process(*command):
    """A process with a session of its own; all of it is gone afterwards."""
    found = subprocess.Popen(
        [sys.executable, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=HERE,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield found
    finally:
        killed_group(found.pid)
        found.communicate()


def members(group: int) -> list[int]:
    """The processes of a group that run; those that are dead and not yet collected do not."""
    out = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its = path.read_text().rpartition(")")[2].split()[:3]
            if int(its) == group and state != "Z":
                out.append(int(path.parent.name))
    return out


def until(condition, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.002)


def killed(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def killed_group(group: int, by: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, by)


def chance_of(seed: int) -> random.Random:
    return random.Random(20 * CHANCE + seed)


def moment(seed: int, run, folder, log) -> None:
    """Wait for a moment that chance picks: one in ten while the folder is made, one in ten when all cases are computed
    and the end is near, the others when some cases are computed; and a little longer."""
    chance = chance_of(seed)
    over = lambda: run.poll() is not None  # noqa: E731
    if seed % 10 == 1:
        until(lambda: folder.exists() or over(), "no folder was made")
    else:
        count = CASES if seed % 10 == 2 else chance.randrange(1, CASES - 5)
        until(lambda: computed(folder, log) >= count or over(), "too few cases were computed")
    time.sleep(chance.random() * 0.05)


def computed(folder, log) -> int:
    """How many cases are computed: those in the log, or without one those that are written."""
    return len(log_of(log)) if log.exists() else sum(1 for _ in (folder / "done").glob("[0-9]*.json"))


def check_and_go_on(folder, log, undisturbed, go_on=watched) -> None:
    """What is there is right; the rest is computed; what was finished is not computed again, and nothing is left
    over."""
    if (folder / "study.json").exists():
        part = open_study(folder)
        done, data, size = sorted(part.store.done()), part.dataset.load(), part.plan["chunk"]
        rows = np.array([size * k + one for k in done for one in range(size)], int)  # none, if it was killed at once
        assert np.all(data["status"].values[rows] != "waiting")
        same(undisturbed.isel(case=rows), data.isel(case=rows))
    before = {p: p.stat().st_mtime_ns for p in (folder / "done").glob("[0-9]*.json")}
    os.environ[LOG] = str(log)
    same(undisturbed, go_on(folder).dataset.load())
    assert all(p.stat().st_mtime_ns == t for p, t in before.items())
    if log.exists():
        computed_once(folder, log)
    assert not left_over(folder)


def left_over(folder) -> list[str]:
    """Files of which the study knows nothing, after it is complete."""
    return [str(p) for p in folder.rglob("*") if ".tmp" in p.name or p.name.startswith(".dalembert")]


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_killed_study(seed, undisturbed, tmp_path):
    """In one process: all of it is gone at once."""
    folder, log = tmp_path / "study", tmp_path / "log"
    with process("_helpers_studies.py", folder, log) as run:
        moment(seed, run, folder, log)
        killed(run.pid)
        run.wait()
    check_and_go_on(folder, log, undisturbed)


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_killed_worker(seed, undisturbed, tmp_path):
    """The study itself goes on, with another worker, and ends as if nothing had been."""
    folder, log = tmp_path / "study", tmp_path / "log"
    with process("_helpers_studies.py", folder, log, "--workers", 2) as run:
        moment(seed, run, folder, log)
        until(lambda: log_of(log) or run.poll() is not None, "no case was computed")
        killed(chance_of(seed).choice(log_of(log)).process)
        _, told = run.communicate(timeout=PATIENCE)
        assert run.returncode == 0, told
    same(undisturbed, open_study(folder).dataset.load())
    computed_once(folder, log)
    assert not left_over(folder)


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_killed_client(seed, undisturbed, tmp_path):
    """In whose process the scheduler is: its workers end by themselves."""
    folder, log = tmp_path / "study", tmp_path / "log"
    with process("_helpers_studies.py", folder, log, "--workers", 2) as run:
        moment(seed, run, folder, log)
        killed(run.pid)
        until(lambda: not members(run.pid), "workers go on without their client")
    check_and_go_on(folder, log, undisturbed)


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_killed_tree(seed, undisturbed, tmp_path):
    """The client, its scheduler and its workers at once."""
    folder, log = tmp_path / "study", tmp_path / "log"
    with process("_helpers_studies.py", folder, log, "--workers", 2) as run:
        moment(seed, run, folder, log)
        killed_group(run.pid)
        until(lambda: not members(run.pid), "something of it goes on")
    check_and_go_on(folder, log, undisturbed)


@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("what", ["study", "client", "tree"])
def test_killed_motions(what, seed, undisturbed_motions, tmp_path):
    """Real motions; they go on with the folder alone."""
    folder, log = tmp_path / "study", tmp_path / "log"
    workers = () if what == "study" else ("--workers", 2)
    with process("_helpers_studies.py", folder, log, "--simulate", *workers) as run:
        moment(seed, run, folder, log)
        (killed_group if what == "tree" else killed)(run.pid)
        until(lambda: not members(run.pid), "something of it goes on")
    check_and_go_on(folder, log, undisturbed_motions, resume if (folder / "study.json").exists() else moving)


@pytest.mark.parametrize("workers", [None, 2])
def test_ctrl_c(workers, undisturbed, tmp_path):
    """On a terminal it goes to all processes of the group: all of them end, soon."""
    folder, log = tmp_path / "study", tmp_path / "log"
    with process("_helpers_studies.py", folder, log, *(("--workers", workers) if workers else ())) as run:
        until(lambda: sum(1 for _ in (folder / "done").glob("[0-9]*.json")) >= 2, "no chunk was finished")
        killed_group(run.pid, signal.SIGINT)
        _, told = run.communicate(timeout=PATIENCE)
        assert run.returncode in (1, 130, -signal.SIGINT) and told.rstrip().endswith("KeyboardInterrupt"), told
        until(lambda: not members(run.pid), "something of it goes on")
    assert CHUNK * 2 <= open_study(folder).status()["done"] < CASES
    check_and_go_on(folder, log, undisturbed)


FILE = """\
study: 1
model: swing.yaml
t_end: 2.0
settings: {{rtol: 1e-8, samples: 21}}
vary: {{rod.mass: {masses}}}
measure: [final(tip.x), "peak(tip.vx, tip.vy)"]
chunk: 1
"""
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # also if it was started where that is ignored
from dalembert.cli import main
main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [None, 2])
def test_ctrl_c_of_the_command(workers, undisturbed_motions, tmp_path):
    """`dalembert study` ends in a word, with the code 130; `dalembert resume` does the rest."""
    da.save(pendulum(), tmp_path / "swing.yaml")
    (tmp_path / "a.yaml").write_text(FILE.format(masses=masses().tolist()))
    folder, own = tmp_path / "study", ("--workers", workers) if workers else ()
    with process("-c", COMMAND, "study", tmp_path / "a.yaml", "-o", folder, *own) as run:
        until(lambda: computed(folder, tmp_path / "log") >= 2 or run.poll() is not None, "no chunk was finished")
        killed_group(run.pid, signal.SIGINT)
        _, told = run.communicate(timeout=PATIENCE)
        assert run.returncode == 130 and told.rstrip().endswith("dalembert: stopped."), told
        assert workers or told.strip() == "dalembert: stopped."  # Dask's workers tell of theirs before
        until(lambda: not members(run.pid), "something of it goes on")
    assert 2 <= open_study(folder).status()["done"] < CASES
    go_on = lambda folder: in_process("resume", str(folder)) and open_study(folder)  # noqa: E731
    check_and_go_on(folder, tmp_path / "log", undisturbed_motions, go_on)


@contextlib.contextmanager
def own_cluster():
    """A scheduler and two workers in processes of their own: its address, the scheduler and what holds the workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = ("-m", "distributed.cli.dask_scheduler", "--port", port, "--host", "127.0.0.1", "--no-dashboard")
    worker = ("-m", "distributed.cli.dask_worker", address, "--nthreads", 1, "--nworkers", 2, "--no-dashboard")
    with process(*dask) as scheduler, process(*worker) as workers:
        yield address, scheduler, workers


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_killed_scheduler(seed, undisturbed, tmp_path, monkeypatch):
    """A cluster of its own, whose scheduler goes: the client tells so, in a sentence, unless it was done before."""
    folder, log = tmp_path / "study", tmp_path / "log"
    monkeypatch.setenv(LOG, str(log))  # the workers are no children of the study
    with own_cluster() as (address, scheduler, workers):
        with process("_helpers_studies.py", folder, log, "--scheduler", address) as run:
            moment(seed, run, folder, log)
            scheduler.kill()
            _, told = run.communicate(timeout=PATIENCE)
            gone = run.returncode == 1 and (
                "The scheduler of the Dask cluster is gone" in told or "There is no Dask scheduler at" in told
            )
            assert gone or (run.returncode == 0 and seed % 10 == 2), told[-800:]
        workers.terminate()
        workers.wait(timeout=PATIENCE)
    check_and_go_on(folder, log, undisturbed)


@pytest.mark.parametrize("seed", [pytest.param(k, marks=pytest.mark.thorough) for k in range(20)])
@pytest.mark.parametrize("what", ["client", "worker"])
def test_killed_on_a_cluster_of_its_own(what, seed, undisturbed, tmp_path, monkeypatch):
    """The cluster outlives its client, and the study goes on there, whatever of the first client's is still computed;
    or a worker goes, and the cluster starts another one."""
    folder, log = tmp_path / "study", tmp_path / "log"
    monkeypatch.setenv(LOG, str(log))
    with own_cluster() as (address, _, _):
        with process("_helpers_studies.py", folder, log, "--scheduler", address) as run:
            moment(seed, run, folder, log)
            if what == "worker":
                until(lambda: log_of(log) or run.poll() is not None, "no case was computed")
                killed(chance_of(seed).choice(log_of(log)).process)
                _, told = run.communicate(timeout=PATIENCE)
                assert run.returncode == 0, told[-800:]
            else:
                killed(run.pid)
                run.wait()
        before = {p: p.stat().st_mtime_ns for p in (folder / "done").glob("[0-9]*.json")}
        with process("_helpers_studies.py", folder, log, "--scheduler", address) as again:
            _, told = again.communicate(timeout=PATIENCE)
            assert again.returncode == 0, told[-800:]
    same(undisturbed, open_study(folder).dataset.load())
    assert all(p.stat().st_mtime_ns == t for p, t in before.items()) and not left_over(folder)


DEADLY = """
import os, sys
import dalembert as da
from _helpers_studies import pendulum
from dalembert.studies import study

def deadly(system):
    mass = float(system.parameters()["rod.mass"])
    if mass == 3.0:
        os.kill(os.getpid(), 9)
    return {"mass": mass}

if __name__ == "__main__":
    study(pendulum(), {"rod.mass": [1.0, 2.0, 3.0, 4.0]}, ["mass"], task=deadly, out=sys.argv[1], chunk=4)
"""


@pytest.mark.thorough
def test_a_case_that_kills_the_study_itself(tmp_path):
    """Without workers it takes the study with it, twice; the third time its chunk has a process of its own."""
    (tmp_path / "deadly.py").write_text(f"import sys\nsys.path.insert(0, {str(HERE)!r})\n{DEADLY}")
    for wanted in (-9, -9, 0):
        with process(tmp_path / "deadly.py", tmp_path / "study") as run:
            _, told = run.communicate(timeout=2 * PATIENCE)
            assert run.returncode == wanted, told
    assert open_study(tmp_path / "study").dataset["status"].values.tolist() == ["done", "done", "killed", "done"]


@pytest.mark.thorough
def test_a_script_that_each_process_would_run_anew(tmp_path):
    """Without the line that Python asks for, its processes end at once: a sentence says so."""
    text = DEADLY.replace('if __name__ == "__main__":\n    ', "").replace("chunk=4", "chunk=4, workers=1")
    (tmp_path / "script.py").write_text(f"import sys\nsys.path.insert(0, {str(HERE)!r})\n{text}")
    with process(tmp_path / "script.py", tmp_path / "study") as run:
        _, told = run.communicate(timeout=PATIENCE)
        assert run.returncode == 1 and 'must stand under `if __name__ == "__main__":`' in told, told


@contextlib.contextmanager
def small_disk(folder: Path, size: str):
    """A file system in memory; None where none can be mounted."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
    )
    try:
        yield (
            None
            if made.returncode
            else lambda options: subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)
        )
    finally:
        subprocess.run(["umount", folder], capture_output=True, check=False)


INSIDE = "DALEMBERT_TEST_MOUNTS"
"""Set where this file runs in a namespace of its own."""


def in_a_namespace(test: str, skip_loudly) -> None:
    """The same test where everybody may mount; skipped where there is no such place."""
    own = ["unshare", "--map-root-user", "--mount"]
    try:
        possible = subprocess.run([*own, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        possible = False
    if not possible or INSIDE in os.environ:
        skip_loudly("mount is refused, and so is unshare --map-root-user --mount")
    command = [
        *own,
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-q",
        "--thorough",
        f"{__file__}::{test}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, INSIDE: "1"})
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout[-3000:] + done.stderr[-1000:]


ROOM = ["120k", *(pytest.param(f"{k}k", marks=pytest.mark.thorough) for k in (28, 60, 68, 84, 104, 160, 200))]
"""Of a small disk: the least of them holds no manifest, the others more and more chunks."""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system in memory")
@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("room", ROOM)
def test_a_full_disk_and_a_read_only_one(request, skip_loudly, room, workers, undisturbed, tmp_path, monkeypatch):
    """A small disk fills up in the middle; then it is read-only; then there is room."""
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    with small_disk(tmp_path / "disk", room) as remount:
        if remount is None:
            in_a_namespace(request.node.name, skip_loudly)
            return
        folder = tmp_path / "disk" / "study"
        with pytest.raises(DalembertError, match="No space left on device"):
            watched(folder, workers=workers)
        begun = (folder / "study.json").exists()
        done = open_study(folder).status()["done"] if begun else 0
        assert done < CASES
        assert done > 0 or room != "120k"
        remount("ro")
        with pytest.raises(DalembertError, match="Read-only file system"):
            watched(folder, workers=workers)
        if begun:
            data = open_study(folder).dataset.load()
            there = np.flatnonzero(data["status"].values != "waiting")
            assert len(there) >= done
            same(undisturbed.isel(case=there), data.isel(case=there))
        remount("rw,size=16m")
        check_and_go_on(folder, tmp_path / "log", undisturbed)
