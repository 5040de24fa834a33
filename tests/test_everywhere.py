"""Uniqueness over a whole workspace: what to free, how wide reactions range, how far a singular pose is."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dalembert as da
from dalembert.reactions import Known

ANGLES = np.linspace(-0.9, 0.9, 5)


@pytest.fixture(scope="module")
def slider():
    return da.sweep_pose(da.mechanism("spatial-slider-crank"), {"main.angle": ANGLES})


def test_release_that_keeps_every_reaction_unique(slider):
    """What it names is built: the machine with these joints has independent rows in every pose."""
    freed = {r.joint: set(r.directions) for r in slider.release.releases}
    assert sum(map(len, freed.values())) == 3 == int(slider.dataset["redundancy"].max())
    assert slider.release.poses == len(ANGLES) and slider.release.singular == 0
    assert str(slider).endswith(f"all reactions are unique in all {len(ANGLES)} poses examined")
    # the same sizes as the built-in machine
    arm, rod, start = 0.5, 1.2, np.pi / 4
    knee = np.array([arm * np.cos(start), 0, arm * np.sin(start)])
    end = np.array([knee[0] + np.sqrt(rod**2 - knee[2] ** 2), 0, 0])
    model = da.Model("released", space="space", gravity=(0, 0, -9.81))
    bodies = {n: model.body(n, mass=1.0, inertia=(0.1, 0.1, 0.1), position=at)
              for n, at in (("crank", knee / 2), ("rod", (knee + end) / 2), ("slider", end))}  # fmt: skip
    y = (0, 1, 0)
    pairs = {
        "main": (model.ground, bodies["crank"], (0, 0, 0)),
        "big_end": (bodies["crank"], bodies["rod"], knee),
        "small_end": (bodies["rod"], bodies["slider"], end),
    }
    for name, (i, j, at) in pairs.items():
        left = freed.get(name, set())
        if not left:
            model.revolute(name, i, j, at=at, axis=y)
        elif left == {"Mx", "My"}:
            model.spherical(name, i, j, at=at)
        else:  # one torque is free: a second axis, across the first (z of a revolute's frame is its axis)
            assert left in ({"Mx"}, {"My"}) and name == "small_end"
            model.universal(name, i, j, at=at, axis_i=y, axis_j=(0, 0, 1) if left == {"Mx"} else (1, 0, 0))
    model.prismatic("guide", model.ground, bodies["slider"], at=end, axis=(1, 0, 0))
    assert "guide" not in freed and "motor" not in freed
    built = da.sweep_pose(model, {"main.angle": ANGLES})
    assert built.dataset["reachable"].all() and int(built.dataset["redundancy"].max()) == 0
    assert built.release is None


def test_margin_is_how_far_a_singular_pose_is():
    """A parallelogram whose links fold onto one line: its rows lose rank there, and nowhere else."""
    model = da.mechanism("parallelogram", cranks=3, angle=-np.pi / 3)
    # the crank's angle counts from the start, −60°: at +60° it lies along the coupler
    sweep = da.sweep_pose(model, {"foot1.angle": np.array([-0.5, 0.0, 0.6, 1.0, np.pi / 3 - 1e-3])})
    margin = sweep.dataset["margin"].values
    assert np.all(np.diff(margin[1:]) < 0) and margin[-1] < 2e-3 < 0.1 < margin[1]
    found = da.check(model).singular_values  # the same measure in the start pose
    assert margin[1] == pytest.approx(found[10] / found[0], rel=1e-6)
    assert sweep.release is not None and json.dumps(sweep.as_dict())


def test_ranges_over_a_workspace():
    """The swung door at rest: by hand the same widths in every pose, and ends that turn with it."""
    weak = {"Mx": 3.0, "My": 3.0, "Fz": 80.0}
    known = Known(strength={"top": weak, "bottom": weak})
    grid = {"top.angle": np.array([0.0, 0.5, 1.0])}
    sweep = da.sweep_pose(da.mechanism("door-two-hinges", swing=0.0), grid, ranges=known)
    data = sweep.dataset
    assert data["possible"].all()
    np.testing.assert_allclose(data["range_width"], 2 * 80 - 98.1, rtol=1e-9)  # Fz: from W − 80 to 80
    side, half = -98.1 * 0.5 / 1.5, 2 * 3.0 / 1.5
    for k, angle in enumerate(grid["top.angle"]):
        at = data.isel({"top.angle": k}).sel(joint="top")
        for label, middle in (("Fx", side * np.cos(angle)), ("Fy", side * np.sin(angle))):
            ends = float(at["range_lower"].sel(reaction=label)), float(at["range_upper"].sel(reaction=label))
            np.testing.assert_allclose(ends, (middle - half, middle + half), atol=1e-7)
    sweep.plot("range_width")
    sweep.plot("margin")
    weaker = da.sweep_pose(da.mechanism("door-two-hinges", swing=0.0), grid, ranges=Known(strength={"top": {"Fz": 0}}))
    assert np.isinf(weaker.dataset["range_width"].values).all()  # torques stay open
    none = Known(strength={"top": {"Fz": 1.0}, "bottom": {"Fz": 1.0}})
    nothing = da.sweep_pose(da.mechanism("door-two-hinges", swing=0.0), grid, ranges=none)
    assert not nothing.dataset["possible"].any()
    assert "at 3 of these points no reactions respect what is known" in str(nothing)


def test_a_machine_that_is_not_redundant_needs_no_release():
    sweep = da.sweep_pose(da.mechanism("four-bar"), {"D.angle": np.array([0.1, 0.2])})
    assert sweep.release is None
    with pytest.raises(da.errors.DalembertError, match="run it with ranges=True"):
        sweep.plot("range_width")
