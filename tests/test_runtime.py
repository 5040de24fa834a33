"""The folder of compiled programs: what is spoilt heals, and what cannot be kept is told once; and a quick start."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import warnings

import pytest

from dalembert._runtime import ProgramFiles


@pytest.fixture
def files(tmp_path):
    kept = ProgramFiles(tmp_path)
    kept.put("a", b"program a")
    kept.put("b", b"program b")
    return kept


def test_what_was_put_comes_back(files, tmp_path):
    assert files.get("a") == b"program a" and files.get("other") is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.program", "b.program"]  # nothing half-written


@pytest.mark.parametrize("spoil", [lambda x: x[:-3], lambda x: x[:5], lambda x: b"", lambda x: b"X" + x[1:]])
def test_spoilt_entries_are_removed_and_told_once(files, tmp_path, spoil):
    for name in ("a", "b"):
        path = tmp_path / f"{name}.program"
        path.write_bytes(spoil(path.read_bytes()))
    with pytest.warns(UserWarning, match="were spoilt in .* and are made anew") as told:
        assert files.get("a") is None and files.get("b") is None
    assert len(told) == 1 and not list(tmp_path.iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files.put("a", b"again")
        assert files.get("a") == b"again"


def test_a_full_folder_is_told_once_and_stays_clean(files, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="cannot be kept in .*No space left.*DALEMBERT_CACHE") as told:
        files.put("c", b"program c")
        files.put("d", b"program d")
    assert len(told) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.program", "b.program"]


def test_a_run_heals_its_cache(tmp_path):
    """The folder is JAX's own, so JAX must have asked ours: programs of one run are found by the next."""
    code = (
        "import dalembert._runtime, jax, jax.numpy as jnp\n"
        "found = []\n"
        "jax.monitoring.register_event_listener(lambda name, **_: found.append(name))\n"
        "assert jax.jit(lambda x: jnp.sin(x) + 1)(0.0) == 1.0\n"
        "print(found.count('/jax/compilation_cache/cache_hits') > 0)"
    )

    def run():
        settings = {"DALEMBERT_CACHE": str(tmp_path), "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | settings)

    assert run().stdout == "False\n" and list(tmp_path.glob("*.program"))
    for path in tmp_path.glob("*.program"):
        path.write_bytes(path.read_bytes()[:-9])
    healed = run()
    assert healed.stdout == "False\n" and healed.stderr.count("UserWarning") == 1
    again = run()
    assert again.stdout == "True\n" and again.stderr == ""


def test_a_run_in_machine_code_does_not_start_xla(tmp_path):
    """`dalembert run` of a machine that machine code can march compiles nothing by XLA, whose start alone takes as long
    as a warm run may, and loads neither pictures nor tables. A second process reads the code that the first has kept:
    it writes no function out as scalars."""
    code = (
        "import sys\n"
        "from dalembert.kernels import _kernel\n"
        "written, write_out = [], _kernel.write_out\n"
        "_kernel.write_out = lambda *given: written.append(1) or write_out(*given)\n"
        "from dalembert import cli\n"
        "sys.argv = ['dalembert', 'run', 'four-bar', '--t-end', '0.1']\n"
        "assert cli._command() == 0\n"
        "from dalembert._runtime import compile_stopwatch\n"
        "heavy = {'matplotlib', 'xarray', 'pandas', 'networkx', 'dalembert.view'} & set(sys.modules)\n"
        "print(compile_stopwatch.programs, sorted(heavy), bool(written), file=sys.stderr)"
    )
    for word in ("cold", "warm"):
        command, settings = [sys.executable, "-c", code], os.environ | {"DALEMBERT_CACHE": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)
        assert done.stderr == f"0 [] {word == 'cold'}\n", done.stderr
    assert not list(tmp_path.glob("jit*")) and list(tmp_path.glob("code*"))
