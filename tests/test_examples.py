"""Every example runs, and stays short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("[0-9]*.py"))
# each takes a quarter of a minute and more, and what it shows is tested elsewhere
LONG = (
    "02_redundant_door", "04_gradient", "05_sweep", "06_driven_slider_crank", "07_canadarm2",
    "20_mobile_robot_reactions", "21_elastic_supports", "22_bearing_friction", "23_robot_file",
)  # fmt: skip
MARKED = [pytest.param(p, marks=pytest.mark.thorough) if p.stem in LONG else p for p in EXAMPLES]


@pytest.mark.parametrize("path", MARKED, ids=lambda p: p.stem)
def test_example_runs(path, tmp_path):
    assert len(path.read_text().splitlines()) <= 80
    result = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
