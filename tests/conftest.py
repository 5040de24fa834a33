"""Shared by all tests: shapes are checked while testing, and plots never open a window."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from importlib.metadata import version
from pathlib import Path

import matplotlib
import pytest
from jaxtyping import install_import_hook

matplotlib.use("Agg")

# most of a test's time is spent on polishing programs that run for milliseconds: left out, unless the run is thorough
QUICK = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
if version("jax").startswith("0.10."):  # newer ones end the process at a flag that they do not know
    QUICK.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(QUICK))
# a folder of the tests' own: a user's compiled programs are neither used nor crowded out
os.environ.setdefault("DALEMBERT_CACHE", str(Path(__file__).parent.parent / "out" / "test-programs"))
# the rooms that compute; elsewhere a check at each call costs time and finds nothing
SHAPED = (
    "linalg", "complements", "systems", "equations", "loads", "formulations", "stabilise", "reactions", "simulation",
    "results", "analysis",
)  # fmt: skip
# before the package is imported: shapes in its annotations are checked at every call
if os.environ.get("DALEMBERT_SHAPES", "1") != "0":
    install_import_hook([f"dalembert.{room}" for room in SHAPED], "_helpers_shapes.shapes")
# tracing makes objects by the million and hardly any garbage: to look for it often takes a twentieth of the time
gc.set_threshold(50_000, 20, 20)


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="run also the tests marked thorough (make test-thorough)")


def pytest_collection_finish():
    """Modules and tests live until the end: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    """What is marked thorough repeats a test on more mechanisms; it runs when asked for."""
    if config.getoption("--thorough"):
        return
    left = [item for item in items if item.get_closest_marker("thorough")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


# bytes that may be added before compiled programs are dropped
ROOM = 0.15 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1.5e9
MAPPINGS = 40_000  # Linux allows 65,530
kept = {"resident": 1e9}  # what was still there after the last time: not all of it comes back


@pytest.fixture(autouse=True)
def bounded_memory():
    """JAX keeps compiled programs for ever; hundreds of them exhaust memory or its mappings. Drop them in time."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    if resident() > kept["resident"] + ROOM or maps.read_text().count("\n") > MAPPINGS:
        import jax

        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)  # what was freed goes back to the machine
        kept["resident"] = resident()


def resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.fixture(scope="session")
def four_bar():
    """The built four-bar: most tests need some mechanism, and one compiled program serves them all."""
    import dalembert as da

    return da.build(da.mechanism("four-bar"))


@pytest.fixture(scope="session")
def four_bar_motion(four_bar):
    """Two seconds of the four-bar with default settings."""
    import dalembert as da

    return da.simulate(four_bar, 2.0)


NO_BROWSER, NO_DISK = "no browser: ", "no small disk: "


@pytest.fixture
def skip_loudly():
    """Skip a test that needs a disk of its own, and tell so at the end."""
    return lambda why: pytest.skip(NO_DISK + why)


@pytest.fixture(scope="module")
def browser():
    """Chromium, headless; skipped with a reason where there is none (or no Playwright)."""
    from _helpers_browser import CHROMIUM, FLAGS

    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip(NO_BROWSER + "Playwright for Python is not installed (pip install playwright)")
    if CHROMIUM is None:
        pytest.skip(NO_BROWSER + "there is no Chromium on this machine (Debian, Ubuntu: apt-get install chromium)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


def pytest_terminal_summary(terminalreporter):
    """Tests that were skipped for want of a browser or of a disk are named at the end, with the way to get one."""
    reasons = [r.longrepr[2] for r in terminalreporter.stats.get("skipped", []) if isinstance(r.longrepr, tuple)]
    for want, what in ((NO_BROWSER, "tests of the page and the report"), (NO_DISK, "tests of a full disk")):
        missing = [reason.removeprefix("Skipped: ") for reason in reasons if want in reason]
        if missing:
            text = f"{len(missing)} {what} did NOT run, {missing[0]}"
            terminalreporter.write_sep("!", f"{want.split()[-1].rstrip(':')} tests skipped", yellow=True, bold=True)
            terminalreporter.write_line(text, yellow=True, bold=True)
