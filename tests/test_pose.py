"""Poses from targets: all assemblies against polynomials, verdicts by name, weights, drivers, derivatives, units."""

from __future__ import annotations

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_linkages import LENGTHS, bar, four_bar, fourth, slider_crank, turned

import dalembert as da

COORDINATES = ("absolute", "joint")


def arm(links: int = 2, length: float = 1.0, gap: float = 0.3) -> da.Model:
    """A serial arm in the plane, bent a little, with its tip measured."""
    model = da.Model("arm", gravity=(0, -9.81))
    before, at = model.ground, np.zeros(2)
    for k in range(links):
        end = at + length * turned(gap * (k + 1))
        link = bar(model, f"link{k + 1}", at, end)
        model.revolute(("shoulder", "elbow", "wrist")[k], before, link, at=at)
        before, at = link, end
    model.measure("tip", "point", before, at=at)
    return model


@functools.cache
def system_of(make, coordinates: str = "absolute"):
    return da.build(make(), coordinates=coordinates)


def rotation(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


# ---- all assemblies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("angle", [0.3, 2.0, -1.2])
def test_both_assemblies_of_a_four_bar(angle, coordinates):
    """For a crank angle the coupler's end lies on two circles: two points, by the quadratic for their line."""
    a, b, c, d = LENGTHS
    pose = da.solve_pose(system_of(four_bar, coordinates), {"O.angle": angle - 1.0}, assemblies=True)
    assert pose.met and pose.freedoms == 0 and len(pose.others) == 1
    A, D = a * turned(angle), np.array([d, 0.0])
    expected = sorted(tuple((fourth(A, D, b, c, side) + D) / 2) for side in (1, -1))
    found = sorted(tuple(p.dataset["position"].sel(body="rocker").values[0]) for p in (pose, *pose.others))
    np.testing.assert_allclose(found, expected, atol=1e-12)


# base and platform of a planar 3-RPR with six assemblies [Gosselin, Sefrioui, Richard 1992, and others: base points
# (0, 0), (15.91, 0), (0, 10), platform sides 17.04 and 20.84 with 0.8822 rad between them, legs 14.98, 15.38, 12.00]
BASE = np.array([(0.0, 0.0), (15.91, 0.0), (0.0, 10.0)])
PLATFORM = np.array([(0.0, 0.0), (17.04, 0.0), tuple(20.84 * turned(0.8822))])
LEGS = np.array([14.98, 15.38, 12.0])


def platform_poses(legs) -> np.ndarray:
    """All (x, y, θ) of a 3-RPR by its polynomial: with the first leg's circle subtracted the others are linear in x
    and y; what is left is a trigonometric polynomial of degree 3 in θ, so of degree 6 in z = exp(iθ)."""

    def left(theta):
        w = [rotation(theta) @ PLATFORM[k] - BASE[k] for k in (1, 2)]
        right = np.array([legs[k] ** 2 - legs[0] ** 2 - w[k - 1] @ w[k - 1] for k in (1, 2)])
        (m11, m12), (m21, m22) = 2 * w[0], 2 * w[1]
        det = m11 * m22 - m12 * m21
        point = np.array([m22 * right[0] - m12 * right[1], m11 * right[1] - m21 * right[0]])
        return point @ point - (legs[0] * det) ** 2, point / det

    count = 16
    values = np.fft.fft([left(2 * np.pi * k / count)[0] for k in range(count)]) / count
    assert np.max(np.abs(values[4:-3])) < 1e-9 * np.max(np.abs(values))  # degree 3
    roots = np.roots(np.concatenate([values[-3:], values[:4]])[::-1])
    out = []
    for z in roots[np.abs(np.abs(roots) - 1) < 1e-6]:
        theta = float(np.angle(z))
        for _ in range(4):  # to rounding
            theta -= left(theta)[0] * 2e-6 / (left(theta + 1e-6)[0] - left(theta - 1e-6)[0])
        out.append((*left(theta)[1], theta))
    return np.array(out)


def three_rpr() -> da.Model:
    """A platform on three legs, each a cylinder and a rod, in the first of its assemblies."""
    model = da.Model("3-RPR")
    x, y, theta = platform_poses(LEGS)[0]
    corners = np.array([x, y]) + PLATFORM @ rotation(theta).T
    middle = np.mean(corners, axis=0)
    platform = model.body("platform", mass=2.0, inertia=100.0, position=middle, angle=theta)
    for k, (a, b) in enumerate(zip(BASE, corners, strict=True)):
        along = (b - a) / LEGS[k]
        cylinder, rod = bar(model, f"cylinder{k}", a, a + 6 * along), bar(model, f"rod{k}", b - 6 * along, b)
        model.revolute(f"A{k}", model.ground, cylinder, at=a)
        model.prismatic(f"P{k}", cylinder, rod, at=b, axis=along)
        model.revolute(f"B{k}", rod, platform, at=b)
    return model


def where_is_the_platform(pose) -> np.ndarray:
    data = pose.dataset.isel(pose=0).sel(body="platform")
    angle = float(data["angle"])
    first = data["position"].values - rotation(angle) @ np.mean(PLATFORM, axis=0)
    return np.array([*first, np.angle(np.exp(1j * angle))])


@pytest.mark.parametrize(("coordinates", "longer", "count"), [
    ("absolute", 0.0, 6), ("joint", 0.0, 6), ("absolute", 1.5, None), ("absolute", -1.0, None),
])  # fmt: skip
def test_all_assemblies_of_a_planar_platform(coordinates, longer, count):
    """As many as the sextic has real roots, and the same poses; six for the published legs."""
    legs = LEGS + longer
    expected = platform_poses(legs)
    assert count is None or len(expected) == count
    targets = {f"P{k}": longer for k in range(3)}
    pose = da.solve_pose(system_of(three_rpr, coordinates), targets, assemblies=True)
    found = np.array([where_is_the_platform(p) for p in (pose, *pose.others)])
    assert len(found) == len(expected)
    nearest = np.min(np.max(np.abs(found[:, None] - expected), axis=2), axis=1)
    assert np.max(nearest) < 1e-9  # of a machine of 20 m; roots are found to 1e-10 beside each other


def test_the_pose_near_the_start_is_the_first():
    """Of six assemblies the search from each of them returns that one."""
    system = system_of(three_rpr)
    targets = dict.fromkeys((f"P{k}" for k in range(3)), 0.0)
    all_of_them = da.solve_pose(system, targets, assemblies=True)
    for other in all_of_them.others:
        again = da.solve_pose(system, targets, state=(np.asarray(other.q) + 1e-3, None))
        np.testing.assert_allclose(again.q, other.q, atol=1e-10)


@pytest.mark.parametrize("coordinates", [pytest.param("absolute"), pytest.param("joint", marks=pytest.mark.thorough)])
def test_forward_pose_of_a_stewart_platform(coordinates):
    """100 random poses → leg lengths → the pose again, from the same start: all of them."""
    system = da.build(da.mechanism("stewart-platform"), coordinates=coordinates)
    rng = np.random.default_rng(1)
    for _ in range(100):
        position = np.array([0, 0, 1.2]) + rng.uniform(-1, 1, 3) * [0.2, 0.2, 0.15]
        axis = rng.standard_normal(3)
        half = 0.5 * rng.uniform(0, 0.4)
        turn = np.array([np.cos(half), *(np.sin(half) * axis / np.linalg.norm(axis))])
        legs = da.solve_pose(
            system, {"platform.position": position, "platform.rotation": turn}, release=True
        ).coordinates
        back = da.solve_pose(system, {f"P{k}": legs[f"P{k}.displacement"] for k in range(1, 7)})
        data = back.dataset.isel(pose=0).sel(body="platform")
        np.testing.assert_allclose(data["position"].values, position, atol=1e-11)
        quaternion = data["quaternion"].values
        np.testing.assert_allclose(quaternion * np.sign(quaternion @ turn), turn, atol=1e-11)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_no_joint_is_turned_over_in_space(coordinates):
    """A four-bar of hinges in space: rows of a hinge hold as well with its pin turned over, but there are two poses."""
    system = da.build(da.mechanism("spatial-four-bar"), coordinates=coordinates)
    pose = da.solve_pose(system, {"A.angle": 0.3}, assemblies=True)
    flat = da.solve_pose(da.mechanism("four-bar"), {"A.angle": 0.3}, assemblies=True)
    assert len(pose.others) == len(flat.others) == 1
    for found in (pose, *pose.others):
        joints = [found.coordinates[f"{x}.angle"] for x in "ABCD"]
        # the angles of a planar loop, passed round, add up to nothing but full turns
        total = joints[0] + joints[1] + joints[2] - joints[3]
        assert abs(total - 2 * np.pi * np.round(total / (2 * np.pi))) < 1e-9


def test_mirrored_assemblies_of_a_stewart_platform():
    """With both platforms flat, mirroring in the base plane gives a pose for each pose: their number is even, and the
    same places are found above and below (an independent count has at most 40 [Raghavan 1993])."""
    system = da.build(da.mechanism("stewart-platform"))
    pose = da.solve_pose(system, {f"P{k}": 0.02 * k for k in range(1, 7)}, assemblies=True)
    places = np.array([p.dataset["position"].sel(body="platform").values[0] for p in (pose, *pose.others)])
    assert len(places) % 2 == 0 and len(places) <= 40
    for x, y, z in places:
        assert np.min(np.max(np.abs(places - [x, y, -z]), axis=1)) < 1e-8


def robot() -> da.Model:
    """Six hinges in space: a shoulder with an offset, two links of 0.4 and 0.5 m, a wrist whose axes meet."""
    model = da.Model("robot", space="space", gravity=(0, 0, -9.81))
    joints = [((0, 0, 0), 2), ((0, 0, 0.4), 1), ((0, 0, 0.8), 1), ((0.4, 0.1, 0.8), 0), ((0.5, 0.1, 0.8), 1),
              ((0.6, 0.1, 0.8), 0)]  # fmt: skip
    centres = [(0, 0, 0.2), (0, 0.1, 0.6), (0.2, 0.1, 0.8), (0.45, 0.1, 0.8), (0.55, 0.1, 0.8), (0.9, 0.1, 0.8)]
    before = model.ground
    for k, ((at, axis), centre) in enumerate(zip(joints, centres, strict=True)):
        link = model.body(f"link {k + 1}", mass=1.0, inertia=(0.01, 0.02, 0.03), position=centre)
        model.revolute(f"J{k + 1}", before, link, at=at, axis=np.eye(3)[axis])
        before = link
    return model


def about(axis: int, angle: float) -> np.ndarray:
    R, (j, k) = np.eye(3), ((axis + 1) % 3, (axis + 2) % 3)
    R[[j, j, k, k], [j, k, j, k]] = np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)
    return R


def robot_angles(p, R) -> list[list[float]]:
    """All joint angles of the robot for a place and a rotation of its last link, in closed form: two shoulders, two
    elbows, two wrists [Pieper 1968]."""
    out = []
    x, y, z = p - R @ [0.4, 0, 0]  # where the axes of the wrist meet
    for side in (1, -1):
        out_by = side * np.sqrt(x * x + y * y - 0.1**2)
        q1 = np.arctan2(y, x) - np.arctan2(0.1, out_by)
        bend = np.arcsin((0.4**2 + 0.5**2 - out_by**2 - (z - 0.4) ** 2) / (2 * 0.4 * 0.5))
        for q3 in (bend, np.pi - bend):
            # both links turned by q2 come to (out_by, z − 0.4)
            a, b = 0.5 * np.cos(q3), 0.4 - 0.5 * np.sin(q3)
            q2 = np.arctan2(out_by, z - 0.4) - np.arctan2(a, b)
            W = (about(2, q1) @ about(1, q2 + q3)).T @ R
            for q5 in (np.arccos(W[0, 0]), -np.arccos(W[0, 0])):
                s = np.sign(q5)
                q4, q6 = np.arctan2(s * W[1, 0], -s * W[2, 0]), np.arctan2(s * W[0, 1], s * W[0, 2])
                out.append([q1, q2, q3, q4, q5, q6])
    return out


@pytest.mark.parametrize("coordinates", [pytest.param("absolute", marks=pytest.mark.thorough), "joint"])
def test_all_eight_poses_of_a_robot_with_a_wrist(coordinates):
    """A wrist that is folded to the other side has all points where they were, and is another pose."""
    angles = [0.3, -0.5, 0.8, 0.4, 0.9, -0.2]
    R = functools.reduce(np.matmul, [about(k, x) for k, x in zip((2, 1, 1, 0, 1, 0), angles, strict=True)])
    elbow = [0.4 * np.sin(-0.5) + 0.5 * np.cos(0.3), 0.1, 0.4 + 0.4 * np.cos(-0.5) - 0.5 * np.sin(0.3)]
    place = about(2, 0.3) @ elbow + R @ [0.4, 0, 0]
    pose = da.solve_pose(
        da.build(robot(), coordinates=coordinates), {"link 6.position": place, "link 6.rotation": R}, assemblies=True
    )
    found = np.array([[p.coordinates[f"J{k}.angle"] for k in range(1, 7)] for p in (pose, *pose.others)])
    expected = np.array(robot_angles(place, R))
    assert len(found) == len(expected) == 8
    apart = np.abs(np.exp(1j * found[:, None]) - np.exp(1j * expected))
    assert np.max(np.min(np.max(apart, axis=2), axis=0)) < 1e-9
    assert np.min(np.max(np.abs(np.exp(1j * expected) - np.exp(1j * np.array(angles))), axis=1)) < 1e-12


def test_families_where_motions_are_left():
    """A 3R arm with its tip held is a four-bar of sides 1, 1, 1, r: one family of poses for r = 1.39, as
    1 + 1.39 > 1 + 1 (Grashof), two for r = 0.5, where the shortest side goes full circle."""
    for coordinates in COORDINATES:
        system = da.build(arm(3), coordinates=coordinates)
        one = da.solve_pose(system, {"tip.position": (1.2, 0.7)}, assemblies=True)
        assert one.freedoms == 1 and not one.others
        assert len(da.solve_pose(system, {"tip.position": (0.5, 0.0)}, assemblies=True).others) == 1
    assert "families" in str(one) and "1 motion is left free" in str(one)


# ---- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_inverse_kinematics_of_an_arm(coordinates):
    """Elbow up and down by the law of cosines."""
    system = da.build(arm(), coordinates=coordinates)
    pose = da.solve_pose(system, {"tip.position": (1.1, 0.6)}, assemblies=True)
    bend = np.arccos((1.1**2 + 0.6**2 - 2) / 2)
    found = sorted(p.coordinates["elbow.angle"] for p in (pose, *pose.others))
    np.testing.assert_allclose(found, [-bend - 0.3, bend - 0.3], atol=1e-12)  # coordinates count from the start
    assert np.max(np.abs(pose.gaps)) < 1e-14 and np.max(np.abs(pose.open), initial=0.0) < 1e-14
    verdict = pose.verdicts["tip.position"]
    assert verdict.met and verdict.exact and verdict.off < 1e-14 and not verdict.conflict


def test_all_names_of_a_target():
    """A joint by name or coordinate, a body's place and angle, a point of it, a measurement and its components."""
    system = da.build(arm())
    wanted = da.solve_pose(system, {"shoulder": 0.2, "elbow.angle": 0.5})
    assert wanted.coordinates == pytest.approx({"shoulder.angle": 0.2, "elbow.angle": 0.5}, abs=1e-14)
    place = wanted.dataset.isel(pose=0).sel(body="link2")
    x, y = place["position"].values
    tip = np.array([x, y]) + 0.5 * turned(float(place["angle"]))
    for targets in (
        {"link2": (x, y)}, {"link2.position": (x, y)}, {"link2.x": x, "link2.y": y},
        {"link2.angle": float(place["angle"]), "link1.angle": 0.5}, {("link2", (0.5, 0.0)): tip},
        {"tip": tip}, {"tip.x": tip[0], "tip.y": tip[1]},
    ):  # fmt: skip
        found = da.solve_pose(system, targets, state=(wanted.q + 0.01, None))
        np.testing.assert_allclose(found.q, wanted.q, atol=1e-10)


def test_angles_are_met_up_to_full_turns():
    """Seven radians are 0.717: the pose is the near one, not a turn away."""
    pose = da.solve_pose(arm(), {"elbow": 7.0, "link1.angle": 0.3 - 4 * np.pi})
    assert pose.met and pose.coordinates["elbow.angle"] == pytest.approx(7.0 - 2 * np.pi, abs=1e-12)


def test_out_of_reach_says_by_how_much():
    """The nearest point of a disc of radius 2 to a point outside: on the ray to it."""
    point = np.array([3.0, 1.5])
    with pytest.raises(
        da.errors.PoseError, match=r"'tip.position' is out of reach of the machine; the nearest is"
    ) as told:
        da.solve_pose(arm(), {"tip.position": point})
    verdict = told.value.pose.verdicts["tip.position"]
    far = np.linalg.norm(point)
    np.testing.assert_allclose(verdict.reached, 2 * point / far, atol=1e-9)
    assert verdict.off == pytest.approx(far - 2, abs=1e-9) and not verdict.met
    pose = da.solve_pose(arm(), {"tip.position": point}, throw=False)
    assert not pose.met and "out of reach" in str(pose)


def test_targets_in_conflict_name_each_other():
    pose = da.solve_pose(four_bar(), {"O.angle": 0.3, "C.angle": 0.5, "tip.x": 0.5}, throw=False)
    verdicts = pose.verdicts
    assert "C.angle" in verdicts["O.angle"].conflict and "O.angle" in verdicts["C.angle"].conflict
    assert "can be reached alone, but not together with" in verdicts["O.angle"].reason
    pose = da.solve_pose(arm(), {"tip.position": (1.0, 0.5), "elbow.angle": 0.1}, throw=False)
    assert pose.verdicts["tip.position"].conflict == ("elbow.angle",)


def test_what_nothing_moves():
    model = slider_crank()
    fixed = bar(model, "frame", (0, -1), (1, -1))
    model.weld("bolts", model.ground, fixed, at=(0, -1))
    with pytest.raises(da.errors.PoseError, match=r"'slider.y' cannot be moved: the joints hold it at 0 m"):
        da.solve_pose(model, {"slider.y": 0.2})
    with pytest.raises(da.errors.PoseError, match=r"'frame.x' cannot be moved"):
        da.solve_pose(model, {"frame.x": 0.7})
    assert da.solve_pose(model, {"slider.y": 0.0}).met  # it is there already


def test_drivers_hold_unless_they_are_asked_or_released():
    model = slider_crank()
    model.driver("motor", "O", da.functions.polynomial([0.0, 2.0]))
    held = da.solve_pose(model, {"slider.y": 0.0}, t=0.25)
    assert held.coordinates["O.angle"] == pytest.approx(0.5) and held.freedoms == 0
    for name in ("O.angle", "O", "motor"):
        assert da.solve_pose(model, {name: -0.4}).coordinates["O.angle"] == pytest.approx(-0.4)
    with pytest.raises(da.errors.PoseError, match=r"the driver 'motor' holds the machine at t = 0 s.*release="):
        da.solve_pose(model, {"slider.x": 1.2})
    for release in (True, "motor", ["motor"]):
        assert da.solve_pose(model, {"slider.x": 1.2}, release=release).met
    with pytest.raises(
        da.errors.DalembertError, match="no driver 'mottor'; its drivers are motor. Did you mean 'motor'"
    ):
        da.solve_pose(model, {"slider.x": 1.2}, release=["mottor"])


def test_a_driver_of_a_distance_is_a_target():
    """An arm whose tip a winch holds at a distance: its name asks for another one."""
    model = arm()
    model.distance_driver("winch", model.ground, "link2", 1.5, at_i=(0, 0), at_j=turned(0.3) + turned(0.6))
    pose = da.solve_pose(model, {"winch": 1.7, "shoulder": 0.0})
    x, y = da.solve_pose(model, {"winch": 1.7, "shoulder": 0.0}).dataset["position"].sel(body="link2").values[0]
    tip = np.array([x, y]) + 0.5 * turned(float(pose.dataset["angle"].sel(body="link2").values[0]))
    assert np.linalg.norm(tip) == pytest.approx(1.7, abs=1e-12)


def test_mistakes_get_a_sentence():
    for wrong, words in (
        ({}, "must be a dictionary"), ({"tip": 1.0}, "2 numbers"), ({"tip": (1.0, np.nan)}, "2 numbers"),
        ({"elbow": "a"}, "one number"), ({"elbow": 0.1, "elbow.angle": 0.2}, "given twice"),
        ({"elbo": 0.1}, "Did you mean 'elbow'"), ({"tip.vx": 1.0}, "not decided by positions"),
        ({("link9", (0, 0)): (1, 1)}, "the bodies are link1, link2"), ({("link1", (0, 0, 0)): (1, 1)}, "2 numbers"),
    ):  # fmt: skip
        with pytest.raises(da.errors.DalembertError, match=words):
            da.solve_pose(arm(), wrong)
    for weights, words in (({"elbow": -1.0}, "greater than zero"), ({"elbow": "a"}, "greater than zero"),
                           (2.0, "weights must be a dictionary")):  # fmt: skip
        with pytest.raises(da.errors.DalembertError, match=words):
            da.solve_pose(arm(), {"elbow": 0.1}, weights=weights)
    with pytest.raises(da.errors.DalembertError, match="no target here"):
        da.solve_pose(arm(), {"elbow": 0.1}, weights={"tip": 1.0})
    with pytest.raises(da.errors.DalembertError, match="must have shape"):
        da.solve_pose(arm(), {"elbow": 0.1}, state=(np.zeros(3), None))
    with pytest.raises(da.errors.DalembertError, match="exact targets"):
        da.solve_pose(arm(), {"elbow": 0.1}, weights={"elbow": 1.0}, assemblies=True)
    model = arm()
    model.distance("rope", model.ground, "link2", at_i=(9, 0), at_j=turned(0.3) + turned(0.6))
    model.distance("other", model.ground, "link2", at_i=(-9, 0), at_j=turned(0.3) + turned(0.6))
    system = da.build(model).replace({"rope.length": 3.0})
    with pytest.raises(da.errors.AssemblyError, match="These cannot close: .*rope"):
        da.solve_pose(system, {"elbow": 0.1})


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_weighted_targets_are_a_least_squares_problem():
    """Two weighted targets on an arm against scipy's minimum over its two angles (to 1e-8, its own tolerance)."""
    from scipy.optimize import least_squares

    system = da.build(arm())
    weights = {"tip": 1.0, "elbow": 0.3}
    pose = da.solve_pose(system, {"tip": (1.6, 0.9), "elbow": 0.9}, weights=weights)
    size = float(system.size)

    def residuals(x):
        tip = turned(0.3 + x[0]) + turned(0.6 + x[0] + x[1])
        return np.array([*(weights["tip"] * (tip - [1.6, 0.9]) / size), weights["elbow"] * (x[1] - 0.9)])

    best = least_squares(residuals, [0.0, 0.0], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    angles = [pose.coordinates[f"{x}.angle"] for x in ("shoulder", "elbow")]
    np.testing.assert_allclose(angles, best.x, atol=1e-8)
    assert pose.met  # nothing exact is asked for
    assert "off, as its weight has it" in str(pose) and not pose.verdicts["tip.position"].met


def test_exact_before_weighted():
    """An exact tip leaves one angle of a 3R arm; the weighted one has it (against a scan along the free motion)."""
    pose = da.solve_pose(arm(3), {"tip": (1.5, 1.0), "wrist": 0.4}, weights={"wrist": 1.0})
    assert pose.verdicts["tip.position"].met and pose.verdicts["wrist.angle"].met
    assert pose.coordinates["wrist.angle"] == pytest.approx(0.4, abs=1e-9)
    # the elbow cannot be 2.9 with the tip there: as near as it gets, the tip stays
    pose = da.solve_pose(arm(3), {"tip": (1.5, 1.0), "elbow": 2.9}, weights={"elbow": 1.0})
    assert pose.verdicts["tip.position"].met and not pose.verdicts["elbow.angle"].met
    r = np.hypot(1.5, 1.0)
    least = np.inf
    for other in np.linspace(-np.pi, np.pi, 20001):  # the last link's direction; the first two then have a distance
        d = np.linalg.norm(np.array([r, 0.0]) - turned(other))
        if 0 < d <= 2:
            bend = np.arccos((d * d - 2) / 2) - 0.3
            least = min(least, abs(2.9 - bend), abs(2.9 + bend + 0.6))
    assert abs(pose.coordinates["elbow.angle"] - 2.9) == pytest.approx(least, abs=1e-6)


# ---- derivatives -----------------------------------------------------------------------------------------------------


def difference(f, x: float, h: float = 1e-5) -> np.ndarray:
    return (np.asarray(f(x + h)) - np.asarray(f(x - h))) / (2 * h)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_forward_derivatives(coordinates):
    """By a length of a body and a wanted value together, against central differences of the pose: 1e-6."""
    system = system_of(four_bar, coordinates)
    start = np.asarray(system.parameters()["A.point_j"])

    def exact(x):
        changed = system.replace({"A.point_j": start + jnp.array([x, -0.5 * x])})
        return da.solve_pose(changed, {"O.angle": 0.3 + x}).q

    rate = jax.jvp(exact, (0.01,), (1.0,))[1]
    np.testing.assert_allclose(rate, difference(exact, 0.01), atol=1e-6 * np.max(np.abs(rate)))
    np.testing.assert_allclose(jax.jit(exact)(0.01), exact(0.01), atol=1e-12)


def test_derivatives_of_weighted_poses():
    """With a misfit that stays, so that second derivatives of the rows matter; reverse, too."""
    system = system_of(four_bar)
    start = np.asarray(system.parameters()["A.point_j"])

    def weighted(x):
        changed = system.replace({"A.point_j": start + jnp.array([x, -0.5 * x])})
        return da.solve_pose(changed, {"tip": (1.5, 3.5 + x)}, weights={"tip": 1.0}).q

    misfit = da.solve_pose(system, {"tip": (1.5, 3.5)}, weights={"tip": 1.0}).verdicts["tip.position"].off
    assert misfit > 0.1
    rate = jax.jvp(weighted, (0.01,), (1.0,))[1]
    np.testing.assert_allclose(rate, difference(weighted, 0.01), atol=1e-6 * np.max(np.abs(rate)))
    back = jax.grad(lambda x: weighted(x)[8])(0.01)
    assert float(back) == pytest.approx(float(rate[8]), abs=1e-10)


def test_contradicting_changes_have_no_derivative():
    """One of three parallel cranks made longer: there is no pose, so forward derivatives are NaN."""
    model = da.mechanism("parallelogram")
    system = da.build(model)
    start = np.asarray(system.parameters()["pin3.point_i"])

    def pose(x, both=False):
        names = [f"pin{k}.point_i" for k in ((1, 2, 3) if both else (3,))]
        return da.solve_pose(system.replace({n: start + jnp.array([x, 0.0]) for n in names}), {"foot1": 0.2}).q

    assert np.all(np.isnan(jax.jvp(pose, (0.0,), (1.0,))[1]))
    rate = jax.jvp(lambda x: pose(x, True), (0.0,), (1.0,))[1]
    np.testing.assert_allclose(rate, difference(lambda x: pose(x, True), 0.0), atol=1e-6)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_a_stretched_arm_has_no_derivative(coordinates):
    """Its tip moves neither in nor out to first order: x(bend) = 2 − bend²/4, so d bend/dx is infinite."""
    system = da.build(arm(gap=0.0), coordinates=coordinates)
    rate = jax.jvp(lambda x: da.solve_pose(system, {"tip.position": (x, 0.0)}).q, (2.0,), (1.0,))[1]
    assert np.all(np.isnan(rate))
    _, rate = jax.jvp(lambda y: da.solve_pose(system, {"elbow.angle": y}).q, (0.0,), (1.0,))
    assert np.all(np.isfinite(rate))


def test_many_wanted_values_by_vmap():
    system = system_of(four_bar)
    angles = jnp.linspace(0.0, 1.0, 5)
    found = jax.vmap(lambda x: da.solve_pose(system, {"O.angle": x}))(angles)
    assert "under jit, vmap or grad" in str(found) and np.max(np.abs(found.gaps)) < 1e-12
    with pytest.raises(da.errors.DalembertError, match="look at its gaps"):
        _ = found.verdicts
    for angle, q in zip(angles, found.q, strict=True):
        np.testing.assert_allclose(q, da.solve_pose(system, {"O.angle": float(angle)}).q, atol=1e-12)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_derivatives_of_a_map_by_vmap(coordinates):
    """What replaces a sweep inside programs: the elbow of two links over a grid of the tip, by the wanted place and by
    where the elbow sits on the first link, against cos(bend) = (r² − a² − 1)/(2a) of links a and 1; closed to 1e-12."""
    system = system_of(arm, coordinates)
    grid, first = jnp.array([[1.0, 0.6], [0.3, 1.2], [-0.8, 0.9]]), system.parameters()["elbow.point_i"]

    def bend(x):
        longer = system.replace({"elbow.point_i": first + jnp.array([x[2] - 1.0, 0.0])})
        return da.solve_pose(longer, {"tip.position": x[:2]}).q, longer

    def measured(x):
        q, longer = bend(x)
        return longer.measured(0.0, q, jnp.zeros(longer.n), only=longer.channels_named("elbow.angle"))[0]

    def closed(x):
        return jnp.arccos((x[0] ** 2 + x[1] ** 2 - x[2] ** 2 - 1) / (2 * x[2]))

    at = jnp.concatenate([grid, jnp.ones((3, 1))], axis=1)
    found = jax.jit(jax.vmap(jax.jacfwd(lambda x: jnp.cos(measured(x) + 0.3))))(at)  # the start's bend counts as 0
    expected = jax.vmap(jax.jacfwd(lambda x: jnp.cos(closed(x))))(at)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_measurements_of_a_pose(coordinates):
    """In its labelled data, as plain numbers and in JSON: the tip where it was wanted, to closing; both assemblies."""
    model = arm()
    model.measure("lift", "formula", "2*tip.y + t", unit="m")
    model.measure("speed", "formula", "tip.vx", unit="m/s")  # no pose decides it
    pose = da.solve_pose(da.build(model, coordinates=coordinates), {"tip.position": (0.8, 0.2)}, t=0.5, assemblies=True)
    data = pose.dataset
    assert list(data["channel"].values) == ["tip.x", "tip.y", "lift"]
    assert list(data["channel_units"].values) == ["m"] * 3
    np.testing.assert_allclose(data["measurement"].values, [[0.8, 0.2, 0.9]] * 2, atol=1e-12)
    found = json.loads(json.dumps(pose.as_dict()))
    for numbers in (pose.measurements, found["measurements"], found["others"][0]["measurements"]):
        assert numbers == pytest.approx({"tip.x": 0.8, "tip.y": 0.2, "lift": 0.9}, abs=1e-12)


# ---- and that it is free of units ------------------------------------------------------------------------------------


def test_units_of_length_make_no_difference():
    """The same arm in millimetres: the same angles, verdicts and number of starts."""
    one = da.solve_pose(arm(), {"tip": (1.1, 0.6)}, assemblies=True)
    other = da.solve_pose(arm(length=1000.0), {"tip": (1100.0, 600.0)}, assemblies=True)
    assert other.tried == one.tried and len(other.others) == len(one.others)
    assert other.coordinates == pytest.approx(one.coordinates, abs=1e-9)


def test_what_is_printed_drawn_and_written(tmp_path):
    pose = da.solve_pose(four_bar(), {"O.angle": 0.3}, assemblies=True)
    assert "O.angle  0.3 rad: met" in str(pose) and "this one and 1 other" in repr(pose)
    assert pose.plot(tmp_path / "pose.png") and (tmp_path / "pose.png").stat().st_size > 5000
    plain = pose.as_dict()
    assert plain["met"] and len(plain["others"]) == 1 and plain["targets"][0]["wanted"] == [0.3]
    q, v = da.stabilise.consistent_state(four_bar(), pose.state)
    np.testing.assert_allclose(q, pose.q, atol=1e-14)
    assert np.all(v == 0)
