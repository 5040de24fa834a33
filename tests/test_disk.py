"""Files are written whole or not at all: a full disk leaves the older file, one sentence, and nothing else."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dalembert as da
from dalembert import _disk
from dalembert._disk import write_in_place


@pytest.fixture(autouse=True)
def programs_stay_in_memory():
    """Compiled programs are files, too: none may be cut by `little_room`."""
    import jax

    before = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    yield
    jax.config.update("jax_enable_compilation_cache", before)


@contextlib.contextmanager
def little_room(size: int):
    """No file may grow beyond this: what a full disk does, with another reason."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_on_the_disk_before_it_takes_its_place_and_its_name_after(tmp_path, monkeypatch):
    """A power failure at any time leaves the older file or the whole new one: fsync, rename, fsync of the folder."""
    path, done = tmp_path / "run.txt", []
    path.write_text("older")
    fsync, replace = os.fsync, os.replace

    def synced(handle):
        found = os.fstat(handle)
        if os.path.samestat(found, os.stat(tmp_path)):
            done.append(("folder", path.read_text()))
        else:
            done.append(("file", os.pread(handle, 100, 0).decode(), path.read_text()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append(("put in place",)), replace(a, b)))
    write_in_place(path, ".txt", lambda temporary: Path(temporary).write_text("newer"))
    assert done == [("file", "newer", "older"), ("put in place",), ("folder", "newer")]


@pytest.mark.skipif(os.name != "posix", reason="errors of fsync as POSIX has them")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EINVAL, errno.ENOTSUP])
def test_a_disk_that_cannot_take_a_file_is_told_one_that_cannot_wait_is_not(number, tmp_path, monkeypatch):
    """Some file systems report only at fsync that they are full; others have no fsync at all."""
    path = tmp_path / "run.txt"
    path.write_text("older")

    def failing(handle):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", failing)
    told = number in (errno.ENOSPC, errno.EIO)
    refused = pytest.raises(da.errors.DalembertError, match="Cannot write.*run.txt")
    with refused if told else contextlib.nullcontext():
        write_in_place(path, ".txt", lambda temporary: Path(temporary).write_text("newer"))
    assert path.read_text() == ("older" if told else "newer") and os.listdir(tmp_path) == ["run.txt"]


WRITERS = {
    "run.nc": lambda motion, path: motion.to_netcdf(path),
    "run.csv": lambda motion, path: motion.to_csv(path),
    "run.png": lambda motion, path: motion.plot(path=path),
    "run.svg": lambda motion, path: motion.plot(path=path),
    "run.pdf": lambda motion, path: motion.plot(path=path),
    "graph.png": lambda motion, path: da.reports.plot_graph(motion.system, path, reactions=False),
    "page.html": lambda motion, path: motion.animate(path),
    "film.gif": lambda motion, path: motion.animate(path),
    "film.mp4": lambda motion, path: motion.animate(path),
    "model.yaml": lambda motion, path: da.save(da.mechanism("bricard"), path),
}


@pytest.mark.parametrize("name", list(WRITERS))
def test_no_room_leaves_the_older_file(name, four_bar_motion, tmp_path):
    if name.endswith(".mp4"):
        pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / name
    path.write_text("older")
    assert four_bar_motion.dataset is not None  # compiled before: programs are files, too
    with (
        little_room(1000),
        pytest.raises(da.errors.DalembertError, match=f"^Cannot write '.*{name}': .*[.]$") as caught,
    ):
        WRITERS[name](four_bar_motion, path)
    assert "\n" not in str(caught.value)
    assert path.read_text() == "older" and os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", list(WRITERS))
def test_a_folder_in_the_way_is_told(name, four_bar_motion, tmp_path):
    path = tmp_path / name
    path.mkdir()
    with pytest.raises(da.errors.DalembertError, match="it is a folder"):
        WRITERS[name](four_bar_motion, path)
    assert os.listdir(tmp_path) == [name]


def test_full_disk_is_told_as_such(tmp_path):
    """A library that hides the reason (netCDF says 'HDF error') does not hide it from the reader."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("a small disk can be mounted by root only")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        path = disk / "run.nc"
        path.write_text("older")

        def write(name):
            with contextlib.suppress(OSError), open(name, "wb") as file:
                file.write(b"x" * 100_000)
            raise RuntimeError("NetCDF: HDF error")

        with pytest.raises(da.errors.DalembertError, match="No space left on device"):
            write_in_place(path, ".nc", write)
        assert path.read_text() == "older" and os.listdir(disk) == ["run.nc"]
        (disk / "filler").write_bytes(b"x" * (os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
        # the command line: no traceback, and no empty file that then "exists already"
        result = subprocess.run(
            [sys.executable, "-m", "dalembert.cli", "new", disk / "machine"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 2 and "No space left on device" in result.stderr
        assert "Traceback" not in result.stderr and sorted(os.listdir(disk)) == ["filler", "run.nc"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_read_only_folder_is_told_before_the_work(four_bar_motion, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(da.errors.DalembertError, match="is read-only for you"):
        four_bar_motion.animate(tmp_path / "film.gif")


def test_new_files_do_not_replace(tmp_path):
    path = tmp_path / "machine.yaml"
    write_in_place(path, ".yaml", lambda name: Path(name).write_text("first"), replace=False)
    with pytest.raises(FileExistsError):
        write_in_place(path, ".yaml", lambda name: Path(name).write_text("second"), replace=False)
    assert path.read_text() == "first" and os.listdir(tmp_path) == ["machine.yaml"]


def test_permissions_of_a_replaced_file_stay(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("older")
    path.chmod(0o600)
    write_in_place(path, ".csv", lambda name: Path(name).write_text("newer"))
    assert path.read_text() == "newer" and (os.name != "posix" or path.stat().st_mode & 0o777 == 0o600)


@pytest.mark.skipif(os.name != "posix", reason="processes cannot be asked for")
def test_temporaries_of_killed_runs_are_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    now, long_ago, host = time.time(), time.time() - 2 * _disk.LEFT_BEHIND, _disk._HOST
    ages = {
        f".dalembert-{host}-{gone.pid}-abc.tmp.nc": (long_ago, False),  # killed
        f".dalembert-{host}-{gone.pid}-young.tmp.nc": (now, True),
        f".dalembert-{host}-{os.getpid()}-abc.tmp.nc": (long_ago, True),  # still at work
        f".dalembert-00000000-{gone.pid}-abc.tmp.nc": (long_ago, True),  # on another machine
        ".dalembert-00000000-1-abc.tmp.nc": (now - 2 * _disk.FORGOTTEN, False),
        ".dalembert-notes.nc": (0.0, True),  # not ours
        "dalembert-1-abc.tmp.nc": (0.0, True),
    }
    for name, (stamp, _) in ages.items():
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (stamp, stamp))
    write_in_place(tmp_path / "run.csv", ".csv", lambda name: Path(name).write_text("x"))
    assert set(os.listdir(tmp_path)) == {name for name, (_, stays) in ages.items() if stays} | {"run.csv"}


def test_a_killed_run_leaves_a_name_that_is_recognised(tmp_path):
    names = []
    write_in_place(tmp_path / "run.csv", ".csv", lambda name: names.append(os.path.basename(name)))
    assert _disk._TEMPORARY.fullmatch(names[0])
