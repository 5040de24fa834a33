"""Which mechanisms every run goes through where each one costs a compilation; the others run with --thorough."""

from __future__ import annotations

import pytest

# plane, driven, in space, redundant, rolling on edges and wheels
EVERYDAY = (
    "four-bar", "slider-crank", "spatial-four-bar", "bricard", "door-two-balls", "rolling-disc", "mobile-robot",
)  # fmt: skip


def everyday(names, chosen=EVERYDAY):
    """Parameters for a test over mechanisms: those not among the chosen ones are marked thorough."""
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.thorough) for name in names]
