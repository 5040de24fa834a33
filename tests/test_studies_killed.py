"""Studies whose processes are killed (−9) at some moment: nothing finished is lost or computed twice, no file is
unreadable, and in the end the dataset is that of an undisturbed run, bit by bit.

Once for each process in turn; with --thorough at 20 random moments each.
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
from _helpers_studies import CASES, LOG, log_of, same, watched

from dalembert._results import DalembertError
from dalembert.studies import open_study

HERE = Path(__file__).parent
PATIENCE = 120.0
"""Seconds until a process must have come to a point: all of them are slow when many tests run at once."""
MOMENTS = [0, *(pytest.param(k, marks=pytest.mark.thorough) for k in range(1, 20))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    os.environ[LOG] = str(folder / "log")
    return watched(folder / "study").dataset.load()


@contextlib.contextmanager
def process(*command):
    found = subprocess.Popen(
        [sys.executable, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=HERE
    )
    try:
        yield found
    finally:
        found.kill()
        found.communicate()


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.002)


def killed(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def moment(seed: int, run, log) -> None:
    """Wait until some cases are computed, as many as chance has it, and a little longer."""
    chance = random.Random(seed)
    lines = chance.randrange(1, CASES - 5)
    until(lambda: len(log_of(log)) >= lines or run.poll() is not None, "no case was computed")
    time.sleep(chance.random() * 0.05)


def check_and_go_on(folder, log, undisturbed) -> None:
    """What is there is right; the rest is computed; what was there is not computed again."""
    if (folder / "study.json").exists():
        part, before = open_study(folder), len(log_of(log))
        done, data = sorted(part.store.done()), part.dataset.load()
        rows = np.array([4 * k + one for k in done for one in range(4)], int)  # none, if it was killed at once
        assert np.all(data["status"].values[rows] != "waiting")
        same(undisturbed.isel(case=rows), data.isel(case=rows))
        finished = set(data["rod.mass"].values[rows].tolist())
        os.environ[LOG] = str(log)
        whole = watched(folder)
        assert not finished & {mass for mass, _ in log_of(log)[before:]}
    else:
        os.environ[LOG] = str(log)
        whole = watched(folder)
    same(undisturbed, whole.dataset.load())
    assert not list(folder.rglob("*.tmp*")) or all(p.stat().st_size >= 0 for p in folder.rglob("*.tmp*"))


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_killed_study(seed, undisturbed, tmp_path):
    """In one process: all of it is gone at once."""
    folder, log = tmp_path / "study", tmp_path / "log"
    with process("_helpers_studies.py", folder, log) as run:
        moment(seed, run, log)
        killed(run.pid)
        run.wait()
    check_and_go_on(folder, log, undisturbed)


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_killed_worker(seed, undisturbed, tmp_path):
    """The study itself goes on, with another worker, and ends as if nothing had been."""
    folder, log = tmp_path / "study", tmp_path / "log"
    with process("_helpers_studies.py", folder, log, "--workers", 2) as run:
        moment(seed, run, log)
        killed(random.Random(seed).choice(log_of(log))[1])
        _, told = run.communicate(timeout=PATIENCE)
        assert run.returncode == 0, told
    same(undisturbed, open_study(folder).dataset.load())


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_killed_client_or_tree(seed, undisturbed, tmp_path):
    """The client, in whose process the scheduler is: its workers end by themselves. Or all of them at once."""
    folder, log = tmp_path / "study", tmp_path / "log"
    with process("_helpers_studies.py", folder, log, "--workers", 2) as run:
        moment(seed, run, log)
        workers = {pid for _, pid in log_of(log)}
        killed(run.pid)
        if seed % 2:
            for pid in workers:
                killed(pid)
        run.wait()
        until(lambda: not any(alive(pid) for pid in workers), "workers go on without their client")
    check_and_go_on(folder, log, undisturbed)


@pytest.mark.parametrize("seed", [pytest.param(k, marks=pytest.mark.thorough) for k in range(20)])
def test_a_killed_scheduler(seed, undisturbed, tmp_path, monkeypatch):
    """A cluster of its own, whose scheduler goes: the client tells so, in a sentence."""
    folder, log = tmp_path / "study", tmp_path / "log"
    monkeypatch.setenv(LOG, str(log))  # the workers are no children of the study
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = ("-m", "distributed.cli.dask_scheduler", "--port", port, "--host", "127.0.0.1", "--no-dashboard")
    worker = ("-m", "distributed.cli.dask_worker", address, "--nthreads", 1, "--nworkers", 2, "--no-dashboard")
    with process(*dask) as scheduler, process(*worker) as workers:
        with process("_helpers_studies.py", folder, log, "--scheduler", address) as run:
            moment(seed, run, log)
            scheduler.kill()
            _, told = run.communicate(timeout=PATIENCE)
            assert run.returncode == 1 and "The scheduler of the Dask cluster is gone" in told, told[-800:]
        workers.terminate()
        workers.wait(timeout=PATIENCE)
    check_and_go_on(folder, log, undisturbed)


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


@contextlib.contextmanager
def small_disk(folder: Path, size: str):
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)
    finally:
        subprocess.run(["umount", folder], check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system in memory")
def test_a_full_disk_and_a_read_only_one(undisturbed, tmp_path, monkeypatch):
    """A disk of 120 kB fills up in the middle; then it is read-only; then there is room."""
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    with small_disk(tmp_path / "disk", "120k") as remount:
        folder = tmp_path / "disk" / "study"
        with pytest.raises(DalembertError, match="No space left on device"):
            watched(folder)
        done = open_study(folder).status()["done"]
        assert 0 < done < CASES
        remount("ro")
        with pytest.raises(DalembertError, match="Read-only file system"):
            watched(folder)
        data = open_study(folder).dataset.load()
        assert np.sum(data["status"].values != "waiting") >= done
        remount("rw,size=16m")
        check_and_go_on(folder, tmp_path / "log", undisturbed)
