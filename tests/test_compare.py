"""Every way to one motion, side by side: the table, its JSON form, its picture, the command line."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

import dalembert as da
from dalembert.cli import app

WAYS = ["proximal", "resolved"]


@pytest.fixture(scope="module")
def table(four_bar):
    return da.analysis.compare(
        four_bar, 0.3, formulations=WAYS, stabilisations=["projection", "none"], integrator="tsit5", samples=7
    )  # fmt: skip


def test_all_combinations_are_there_and_agree(table):
    assert [(e.formulation, e.stabilisation) for e in table.entries] == [
        (w, s) for w in WAYS for s in ("projection", "none")
    ]
    for e in table.entries:
        # rtol 1e-8 over 0.3 s: the error of the integration, a few times the tolerance
        assert e.status == "done" and e.error < 1e-6 and e.evaluations >= 6 * e.steps > 0
        # Φ at rounding with corrections, at the integration error without
        assert e.position < (1e-14 if e.stabilisation == "projection" else 1e-6)
    assert table.best("error").error == min(e.error for e in table.entries)
    text = str(table)
    assert "resolved" in text and "four-bar, 0.3 s" in text and len(text.splitlines()) == 2 + len(table.entries)


def test_picture_and_dict(table, tmp_path):
    path = tmp_path / "ways.png"
    table.plot(path)
    assert path.stat().st_size > 10_000
    assert json.loads(json.dumps(table.as_dict()))["entries"][0]["formulation"] == "proximal"


def test_unknown_names_are_refused(four_bar):
    with pytest.raises(da.errors.DalembertError, match="no formulation 'kkt'"):
        da.analysis.compare(four_bar, 0.1, formulations=["kkt"])


@pytest.mark.thorough
def test_command_line():
    options = [
        "--formulations",
        "null-space",
        "--complements",
        "qr,riemannian",
        "--t-end",
        "0.2",
        "--integrator",
        "tsit5",
        "--json",
    ]
    found = CliRunner().invoke(app, ["compare", "pendulum", *options])
    assert found.exit_code == 0
    rows = json.loads(found.stdout)["entries"]
    assert [r["complement"] for r in rows] == ["qr", "riemannian"]
    assert all(r["error"] < 1e-6 and math.isfinite(r["run_s"]) for r in rows)
