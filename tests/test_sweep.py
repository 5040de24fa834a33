"""Poses over a grid: reach against closed forms, dead points, unique reactions, pictures."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from _helpers_linkages import LENGTHS, four_bar, slider_crank
from test_pose import arm

import dalembert as da


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_workspace_of_an_arm(coordinates):
    """Links of 1 m: all points within 2 m and no others (the grid has none nearer than 1e-3 to the rim)."""
    system = da.build(arm(), coordinates=coordinates)
    x, y = np.linspace(-2.2, 2.21, 12), np.linspace(-2.3, 2.2, 11)
    sweep = da.sweep_pose(system, {"tip.x": x, "tip.y": y})
    radius = np.hypot(*np.meshgrid(x, y, indexing="ij"))
    assert np.min(np.abs(radius - 2)) > 1e-3
    data = sweep.dataset
    np.testing.assert_array_equal(data["reachable"].values, radius < 2)
    assert data["reachable"].dims == ("tip.x", "tip.y")
    # the elbow follows from the radius
    bend = data["coordinate"].sel(joint_coordinate="elbow.angle").values
    there = radius < 2
    # what is measured of a pose is in the map, and is what was wanted of it
    measured = data["measurement"]
    assert list(data["channel"].values) == ["tip.x", "tip.y"] and list(data["channel_units"].values) == ["m", "m"]
    for k, wanted in enumerate(np.meshgrid(x, y, indexing="ij")):
        np.testing.assert_allclose(measured[..., k].values[there], wanted[there], atol=1e-12)
    assert np.all(np.isnan(measured.values[~there]))
    np.testing.assert_allclose(sweep.as_dict()["measurements"]["tip.x"], [x[there.any(1)][0], x[there.any(1)][-1]])
    np.testing.assert_allclose(np.cos(bend + 0.3)[there], (radius[there] ** 2 - 2) / 2, atol=1e-9)
    assert np.all(data["mobility"].values[there] == 0) and np.all(data["redundancy"].values[there] == 0)
    assert np.all(np.isnan(data["conditioning"].values[~there]))
    assert data["unique_force"].values[there].all()


def test_swing_of_a_rocker():
    """A rocker's swing between the positions where crank and coupler are in line."""
    a, b, c, d = LENGTHS
    system = da.build(four_bar())
    start = float(da.solve_pose(system, {"O.angle": 0.0}).dataset["angle"].sel(body="rocker").values[0])
    angles = np.linspace(-np.pi, np.pi, 90)
    data = da.sweep_pose(system, {"rocker.angle": angles}).dataset
    low, high = sorted(np.pi - np.arccos((c**2 + d**2 - s**2) / (2 * c * d)) for s in (b + a, b - a))
    # and the same mirrored in the line of the frame: the other sheet
    inside = [(x > low and x < high) or (x > -high and x < -low) for x in angles]
    np.testing.assert_array_equal(data["reachable"].values, inside)
    assert low < start % (2 * np.pi) < high
    assert set(np.unique(data["sheet"].values)) == {-1, 0, 1}
    # worst beside its ends: the dead points
    on = data["conditioning"].where(data["sheet"] == 0).dropna("rocker.angle").values
    assert int(np.argmin(on)) in (0, len(on) - 1)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_where_reactions_are_unique(coordinates):
    """Three parallel cranks: which reactions are unique is what `check` says at each pose; flat, the rank falls."""
    system = da.build(da.mechanism("parallelogram"), coordinates=coordinates)
    angles = np.array([0.0, 0.3, np.pi / 3, 1.4])
    data = da.sweep_pose(system, {"foot1.angle": angles}).dataset
    assert data["redundancy"].values.tolist() == [1, 1, 2, 1]
    assert data["mobility"].values.tolist() == [0, 0, 1, 0]
    assert float(data["conditioning"][2]) < 1e-5 < 1e-2 < float(data["conditioning"][1])
    for k in (0, 1, 3):
        q = da.solve_pose(system, {"foot1.angle": angles[k]}).state
        found = da.check(system, q)
        for joint in ("foot1", "pin2"):
            sure = [found.unique(joint, x) for x in ("Fx", "Fy")]
            assert data["unique_force"][k].sel(joint=joint).values.tolist() == sure
    assert np.max(np.abs(data["angle"].sel(body="coupler").values)) < 1e-5  # it does not turn


def test_drivers_are_swept_by_name():
    model = slider_crank()
    model.driver("motor", "O", da.functions.polynomial([0.0, 1.0]))
    data = da.sweep_pose(model, {"motor": np.linspace(0, 6, 9)}).dataset
    assert data["reachable"].all() and "O.angle" in data.dims
    angle = 0.4 + np.linspace(0, 6, 9)
    expected = 0.3 * np.cos(angle) + np.sqrt(1 - (0.3 * np.sin(angle)) ** 2)
    np.testing.assert_allclose(data["position"].sel(body="slider", axis="x").values, expected, atol=1e-12)


def test_own_equations():
    system = da.FunctionSystem(
        lambda t, q: np.eye(2), lambda t, q, v: np.zeros(2), position=lambda t, q: (q @ q - 1.0)[None], q0=[1.0, 0.0]
    )
    data = da.sweep_pose(system, {"q[0]": np.linspace(-1.5, 1.5, 13)}).dataset
    x = data["q[0]"].values
    inside = np.abs(x) <= 1
    np.testing.assert_array_equal(data["reachable"].values, inside)
    np.testing.assert_allclose(np.sum(data["q"].values[inside] ** 2, axis=1), 1.0, atol=1e-12)


def test_pictures_and_files(tmp_path):
    sweep = da.sweep_pose(four_bar(), {"O.angle": np.linspace(0, 6, 9)})
    for what in ("conditioning", "reachable", "unique", "sheet", "C.angle", "tip.y"):
        assert sweep.plot(what, path=tmp_path / "curve.png")
    with xr.open_dataset(sweep.to_netcdf(tmp_path / "sweep.nc")) as data:
        assert int(data["reachable"].sum()) == 9
    flat = da.sweep_pose(arm(), {"tip.x": np.linspace(0.5, 2.5, 5), "tip.y": np.linspace(0.0, 1.0, 4)})
    for what in ("conditioning", "reachable", "mobility"):
        assert flat.plot(what, path=tmp_path / "map.png")
    assert "points are reachable" in str(flat) and flat.as_dict()["points"] == 20
    with pytest.raises(da.errors.DalembertError, match="There is no plot 'conditionin'.*Did you mean 'conditioning'"):
        sweep.plot("conditionin")


def test_mistakes_get_a_sentence():
    for wrong, words in (
        ({}, "must be a dictionary"), ({"tip": [1.0]}, "2 numbers; sweep over its components"),
        ({"elbow": []}, "array of numbers"), ({"elbow": [[0.1]]}, "array of numbers"),
        ({"elbow": [0.1], "elbow.angle": [0.2]}, "swept twice"), ({"nobody": [0.1]}, "no target 'nobody'"),
    ):  # fmt: skip
        with pytest.raises(da.errors.DalembertError, match=words):
            da.sweep_pose(arm(), wrong)
    system, reach = da.build(arm()), [0.5, 1.0]
    for traced, at in (
        (lambda x: da.sweep_pose(system, {"tip.x": x, "tip.y": [0.1]}).dataset["tip.x"].size, jnp.array(reach)),
        (lambda m: da.sweep_pose(system.replace({"link1.mass": m}), {"elbow": reach}).dataset["elbow.angle"].size, 1.0),
        (lambda x: da.sweep_pose(system, {"elbow": reach}).dataset["elbow.angle"].size, 1.0),
    ):
        with pytest.raises(da.errors.DalembertError, match=r"cannot be traced.*jax\.vmap\(lambda x: da\.solve_pose"):
            jax.eval_shape(traced, at)
    three = da.sweep_pose(arm(3), {"shoulder": [0.1], "elbow": [0.1], "wrist": [0.1]})
    with pytest.raises(da.errors.DalembertError, match="one or two coordinates"):
        three.plot()
