"""Shared by all tests: shapes are checked while testing, and plots never open a window."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("Agg")


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
