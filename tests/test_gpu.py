"""Many marches, as programs for a GPU (compiled for the CPU) and as one of XLA: they march as the native loop does."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from _helpers_gpu import case, run_on_cpu

from dalembert.errors import DalembertError
from dalembert.kernels import device
from dalembert.kernels._ptx import library_file
from dalembert.simulation import _native
from dalembert.simulation._gpu import GpuMachine, march_many_on_gpu
from dalembert.simulation._xla import march_many_by_xla

CLOSE = 1e-12
"""Both run the same kernels; the compiler may fuse other multiplications and additions around them: rounding, over a
motion so short that it does not grow."""

ESTIMATED = 1e-4
"""The step control remembers error estimates, which are differences of nearly equal numbers, and where it would go."""


def assert_same(found, expected, ny: int) -> None:
    """(ends, times, states) of two marches."""
    (ends, *rest), (other, *other_rest) = found, expected
    parts = np.split(ends, [2 + ny, -4], axis=1), np.split(other, [2 + ny, -4], axis=1)
    for (a, b), rtol in zip(zip(*parts, strict=True), (1e-9, ESTIMATED, 0.0), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=CLOSE)
    for a, b in zip(rest, other_rest, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=CLOSE)


CASES = {
    "fixed steps": {"dt": 0.005, "integrator": "heun"},
    "classical": {"dt": 0.005, "integrator": "rk4"},
    "adaptive": {"rtol": 1e-6, "integrator": "tsit5"},
    "order 8": {"rtol": 1e-5, "integrator": "dopri8"},  # tighter, its error estimates would be rounding
}


@pytest.mark.parametrize(
    "options",
    [pytest.param(x, id=k, marks=[pytest.mark.thorough] * (k in ("classical", "order 8"))) for k, x in CASES.items()],
)
def test_a_batch_marches_as_the_native_loop(monkeypatch, options):
    machine, parameters, ends, limits, times = case(monkeypatch, "four-bar", 0.1, samples=6, **options)
    expected = _native.run(machine, machine.kept(parameters), ends.copy(), limits, times, False, len(times))
    for found in (
        run_on_cpu(GpuMachine(machine), parameters, ends, limits, times, len(times)),
        march_many_by_xla(machine, parameters, ends, limits, times, False, len(times)),
    ):
        assert np.all(found[0][:, -3] > 5)  # they did march, each its own way
        assert np.all(np.ptp(found[0][:, 2:8], axis=0) > 1e-3)
        assert_same(found, expected, machine.y_tree.size)


def test_each_member_has_its_own_parameters(monkeypatch):
    machine, parameters, ends, limits, times = case(
        monkeypatch, "four-bar", 0.1, samples=3, dt=0.005, integrator="heun"
    )
    sets = np.repeat(parameters[None], 3, axis=0)
    sets[1:] *= np.where((sets[1:] == 0) | (np.abs(sets[1:]) == 1), 1.0, 1.0 + 1e-3)
    expected = _native.run(machine, machine.kept(sets), ends.copy(), limits, times, False, len(times))
    for found in (
        run_on_cpu(GpuMachine(machine), sets, ends, limits, times, len(times)),
        march_many_by_xla(machine, sets, ends, limits, times, False, len(times)),
    ):
        assert_same(found, expected, machine.y_tree.size)


@pytest.mark.parametrize("saves", ["steps", "end"])
def test_what_is_saved(monkeypatch, saves):
    machine, parameters, ends, limits, times = case(
        monkeypatch, "four-bar", 0.05, samples="steps", dt=0.005, integrator="heun"
    )
    expected = _native.run(machine, machine.kept(parameters), ends.copy(), limits, times, True, 16)
    for found in (
        run_on_cpu(GpuMachine(machine, saves=saves), parameters, ends, limits, times, 16),
        march_many_by_xla(machine, parameters, ends, limits, times, True, 16, saves == "steps"),
    ):
        last = None if saves == "steps" else -1  # states that were saved
        np.testing.assert_allclose(found[0][:, :last], expected[0][:, :last], rtol=1e-9, atol=CLOSE)
        assert found[2].shape[1] == (16 if saves == "steps" else 0)
        if saves == "steps":
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-15)
            np.testing.assert_allclose(found[2], expected[2], rtol=1e-9, atol=CLOSE)


@pytest.mark.parametrize("inline", [True, False])
def test_the_programs_are_ptx(monkeypatch, inline, tmp_path):
    machine, *_ = case(monkeypatch, "four-bar", 0.1, samples=3, dt=0.005, integrator="heun")
    try:
        library_file()
    except DalembertError:
        pytest.skip("NVIDIA's mathematical functions are not installed")
    text = GpuMachine(machine, inline=inline).ptx(90)
    for name in (b"march", b"prepare", b"save"):
        assert b".entry " + name + b"(" in text
    if shutil.which("ptxas"):
        file = tmp_path / "march.ptx"
        file.write_bytes(text.rstrip(b"\0"))
        subprocess.run(["ptxas", "-arch=sm_90", str(file), "-o", str(tmp_path / "march.cubin")], check=True)


def test_a_machine_without_a_gpu_says_so(monkeypatch):
    try:
        device()
    except DalembertError as error:
        assert "NVIDIA driver" in str(error) or "driver refused" in str(error)
    else:
        pytest.skip("this machine has a GPU")


def test_a_gpu_marches_as_the_native_loop(monkeypatch):
    try:
        device()
    except DalembertError:
        pytest.skip("this machine has no GPU")
    machine, parameters, ends, limits, times = case(monkeypatch, "four-bar", 0.1, samples=6, rtol=1e-6)
    expected = _native.run(machine, machine.kept(parameters), ends.copy(), limits, times, False, len(times))
    found = march_many_on_gpu(machine, parameters, ends, limits, times, False, len(times))
    assert_same(found, expected, machine.y_tree.size)
