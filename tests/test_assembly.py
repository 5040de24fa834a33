"""Pre-loads of parts that do not fit: against bushings that grow stiff, beam formulas and displacement methods."""

from __future__ import annotations

import json

import numpy as np
import pytest
from _helpers_cli import in_process

import dalembert as da
from dalembert.analysis import assembly
from dalembert.reactions import Beam, PossibleSet, Weighted

K, TURN = 2e4, 3e3  # N/m and N m/rad of every bushing
LOCKED = {
    ("plane", "revolute"): (K, K, 0),
    ("plane", "weld"): (K, K, TURN),
    ("space", "revolute"): (K, K, K, TURN, TURN, 0),
    ("space", "spherical"): (K, K, K, 0, 0, 0),
    ("space", "weld"): (K, K, K, TURN, TURN, TURN),
}


def machine(space, bodies, joints, elastic):
    """Bodies {name: centre} and joints (name, kind, i, j, at), rigid or each a bushing of the same stiffness."""
    d = 2 if space == "plane" else 3
    model = da.Model("built", space=space, gravity=(0, -9.81, 0)[:d])
    there = {"ground": model.ground}
    for name, at in bodies.items():
        there[name] = model.body(name, mass=3.0, inertia=0.4 if d == 2 else (0.4, 0.5, 0.6), position=at)
    for name, kind, i, j, at in joints:
        if elastic:
            model.bushing(name, there[i], there[j], at=at, stiffness=LOCKED[space, kind])
        else:
            axis = {"axis": (0, 0, 1)} if (space, kind) == ("space", "revolute") else {}
            getattr(model, kind)(name, there[i], there[j], at=at, **axis)
    return da.build(model)


MACHINES = {
    "pinned bar": ("plane", {"a": (0.5, 0)},
                   [("l", "revolute", "ground", "a", (0, 0)), ("r", "revolute", "ground", "a", (1, 0.2))]),
    "built-in bar": ("plane", {"a": (0.4, 0)},
                     [("l", "weld", "ground", "a", (0, 0)), ("r", "weld", "ground", "a", (1, 0))]),
    "arch with a prop": ("plane", {"a": (0.3, 0.4), "b": (0.8, 0.4)},
                         [("l", "revolute", "ground", "a", (0, 0)), ("top", "revolute", "a", "b", (0.5, 0.8)),
                          ("r", "weld", "ground", "b", (1.1, 0))]),
    "three balls": ("space", {"a": (0.3, 0.2, 0.1)},
                    [("p", "spherical", "ground", "a", (0, 0, 0)), ("q", "spherical", "ground", "a", (1, 0, 0)),
                     ("r", "spherical", "ground", "a", (0.2, 0.3, 0.9))]),
    "shaft": ("space", {"a": (0.1, 0, 0.4)},
              [("near", "weld", "ground", "a", (0, 0, 0)), ("far", "revolute", "ground", "a", (0, 0, 1))]),
    "frame": ("space", {"a": (0.5, 0, 0), "b": (1, 0, 0.5)},
              [("l", "weld", "ground", "a", (0, 0, 0)), ("mid", "revolute", "a", "b", (1, 0, 0)),
               ("r", "weld", "ground", "b", (1, 0, 1))]),
}  # fmt: skip
SIGNS = np.array([1.0, -0.7, 0.4])


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ("pinned bar", "frame") else [pytest.mark.thorough]) for n in MACHINES]
)
def test_bushings_that_grow_stiff_converge_to_the_formula(name):
    """Bushings s k, errors δ/s: forces stay, and what rigid joints leave out (deflections) falls with 1/s. The loads of
    gravity are the weighted ones."""
    space, bodies, joints = MACHINES[name]
    d = 2 if space == "plane" else 3
    rigid, soft = (machine(space, bodies, joints, elastic) for elastic in (False, True))
    last = joints[-1][0]
    errors = {f"{last}.point_j": 1e-3 * SIGNS[:d]}
    labels = da.reactions.LABELS[6 if d == 3 else 3]
    true = {n: dict(zip(labels, LOCKED[space, kind], strict=True)) for n, kind, *_ in joints}
    true = {n: {label: k for label, k in own.items() if k} for n, own in true.items()}
    found = assembly(rigid, errors=errors, stiffness=true)
    assert found.redundancy == da.check(rigid).redundancy > 0
    instant = da.reactions.Instant(rigid, 0.0, da.stabilise.consistent_state(rigid))
    rule = Weighted(true).prepare(rigid, instant.equations)
    lam = np.asarray(rule.multipliers(rigid, instant.equations, -np.asarray(instant.equations.h)))
    every = PossibleSet.at(instant, da.reactions.Known(), lam)

    gaps = []
    stiff = [1.0, 10.0, 100.0]
    for s in stiff:
        values = {f"{n}.stiffness": s * np.diag(np.array(LOCKED[space, kind], float)) for n, kind, *_ in joints}
        at = np.asarray(soft.parameters()[f"{last}.point_j"])
        there = soft.replace(values | {f"{last}.point_j": at + errors[f"{last}.point_j"] / s})
        rest = da.equilibrium(there)
        gap = 0.0
        for (n, *_), of in zip(joints, _bushing_forces(there, rest.q, len(joints)), strict=True):
            joint = [str(x) for x in found.load(n)["component"].values]
            expected = np.zeros(d)
            for k, label in enumerate(("Fx", "Fy", "Fz")[:d]):
                if label in joint:
                    expected[k] = float(found.load(n).sel(component=label)[0]) + (every.components(n) @ lam)[k]
            gap = max(gap, float(np.max(np.abs(of - expected))))
        gaps.append(gap)
    assert gaps[-1] < 1e-2 * abs(found.largest[0][1])
    np.testing.assert_allclose(np.divide(gaps[:-1], gaps[1:]), 10, rtol=0.25)  # the next term is 1/s² of s = 1


def _bushing_forces(system, q, count):
    """Forces on body j of each bushing, in world axes (which are the markers' here), in the order of the model."""
    each = [np.asarray(x) for x in system.bodies.forces_each(0.0, q)]
    d = system.bodies.kinematics.d
    family = next(k for k, f in enumerate(system.bodies.forces) if f.label == "bushing")
    assert len(each[family]) == count
    return each[family][:, 1, :d]


def guide(**rail):
    """A carriage on two rails along x, one metre apart along y."""
    model = da.Model("guide", space="space", gravity=(0, 0, -9.81))
    carriage = model.body("carriage", mass=5.0, inertia=(1, 1, 1), position=(0, 0.5, 0))
    model.prismatic("left", model.ground, carriage, at=(0, 0, 0), axis=(1, 0, 0))
    model.prismatic("right", model.ground, carriage, at=(0, 1, 0), axis=(1, 0, 0))
    return da.build(model)


EA, EI, GJ, L = 4e6, 7e3, 5e3, 1.0
MISFIT = 1e-3
RAILS = {  # error of the right rail (displacement or turn) → its force and moment on the carriage, all in world axes
    "too far": ((0, 1, 0), None, (0, EA / L, 0), (0, 0, 0)),
    "too high": ((0, 0, 1), None, (0, 0, 12 * EI / L**3), (-6 * EI / L**2, 0, 0)),
    "twisted": (None, (0, 1, 0), (0, 0, 0), (0, GJ / L, 0)),
    "not parallel": (None, (0, 0, 1), (0, 0, 0), (0, 0, EI / L)),
    "rolled": (None, (1, 0, 0), (0, 0, -6 * EI / L**2), (4 * EI / L, 0, 0)),
}


@pytest.mark.parametrize("name", RAILS)
def test_two_rail_guide_against_beam_formulas(name):
    """Rigid rails, an elastic carriage clamped to both; along the rails it slides."""
    shifted, turned, force, moment = RAILS[name]
    system = guide()
    R = np.asarray(system.parameters()["right.frame_i"])
    key, error = ("point_i", np.array(shifted)) if turned is None else ("frame_i", R.T @ turned)
    found = assembly(
        system, errors={f"right.{key}": MISFIT * error}, bodies={"carriage": Beam(("left", "right"), EA, EI, GJ)}
    )
    assert found.contradictions == ()
    load = found.load("right")
    got = dict(zip(map(str, load["component"].values), load.values[0], strict=True))
    world = [R @ [got.get(f"{x}{a}", 0.0) for a in "xyz"] for x in "FM"]
    np.testing.assert_allclose(world[0], MISFIT * np.array(force), atol=1e-9 * MISFIT * EA)
    np.testing.assert_allclose(world[1], MISFIT * np.array(moment), atol=1e-9 * MISFIT * EA)


def test_monte_carlo_agrees_with_the_variance():
    """Legs of unequal length under a table, each within its tolerance: 10⁵ tables by the displacement method."""
    rng = np.random.default_rng(11)
    system = da.build(da.mechanism("table", speed=0.0))
    k = np.array([3e5, 1e5, 2e5, 5e4])
    tolerances = {f"leg{i + 1}.point_j.z": t for i, t in enumerate((1e-3, 2e-3, 5e-4, 1e-3))}
    found = assembly(system, tolerances=tolerances, stiffness={f"leg{i + 1}": k[i] for i in range(4)})
    feet = np.array([(0.6 * x, 0.4 * y) for x, y in [(1, 1), (-1, 1), (-1, -1), (1, -1)]])
    G = np.column_stack([np.ones(4), feet])
    drawn = rng.uniform(-1, 1, (100_000, 4)) * np.array(list(tolerances.values()))
    placed = -np.linalg.solve(G.T @ (k[:, None] * G), G.T @ (k[:, None] * drawn.T))
    forces = (-k[:, None] * (G @ placed + drawn.T)).T
    std = found.dataset["std"].values[0]
    np.testing.assert_allclose(forces.std(axis=0), std, rtol=4 / np.sqrt(2 * 1e5))  # four standard errors
    worst = found.dataset["worst"].values[0]
    assert np.all(np.abs(forces).max(axis=0) <= worst * (1 + 1e-9)) and np.all(np.abs(forces).max(axis=0) > 0.8 * worst)
    corners = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T * np.array(list(tolerances.values()))
    placed = -np.linalg.solve(G.T @ (k[:, None] * G), G.T @ (k[:, None] * corners.T))
    np.testing.assert_allclose(np.abs(k[:, None] * (G @ placed + corners.T)).max(axis=1), worst, rtol=1e-9)


@pytest.fixture(scope="module")
def slider_crank():
    model = da.mechanism("slider-crank")
    return da.build(model)


def test_a_machine_that_is_not_redundant_has_no_preload(slider_crank):
    """Whatever the errors; its positions shift as those of the machine built so."""
    rng = np.random.default_rng(2)
    points = [x for x in slider_crank.parameters() if x.endswith(("point_i", "point_j"))]
    errors = {x: 1e-5 * rng.uniform(-1, 1, 2) for x in points}
    coordinates = [f"{j.name}.{name}" for j in slider_crank.bodies.joints for name, *_ in j.coordinates]
    held, told = coordinates[0], coordinates[1:]
    found = assembly(slider_crank, errors=errors, stiffness=1e6, measurements=told, hold=[held])
    assert found.redundancy == 0 and not found.largest and not found.releases
    assert np.all(found.dataset["by_dimension"].values == 0)
    assert "no joint is loaded, whatever the errors" in str(found)
    start = da.stabilise.consistent_state(slider_crank)
    values = slider_crank.parameters()

    def shown(scale):
        built = slider_crank.replace({x: np.asarray(values[x]) + scale * e for x, e in errors.items()})
        (number,) = slider_crank.channels_named(held)
        angle = float(slider_crank.measured(0.0, start.q, 0 * start.v, only=(number,))[0])
        pose = da.solve_pose(built, {held: angle}, state=start)
        numbers = [k for x in told for k in built.channels_named(x)]
        return np.asarray(built.measured(0.0, pose.q, 0 * start.v, only=numbers))

    # central differences: what is left is of third order, (1e-5)³ over 1e-5
    np.testing.assert_allclose(found.dataset["shift"].values[0], (shown(1) - shown(-1)) / 2, atol=1e-9)


def test_monte_carlo_of_a_position():
    """Where the slider of a slider-crank stands at a held crank angle: 10⁵ of them in closed form, no redundant row.
    Off are the crank's pin, the rod's far end and the height of the guide."""
    a, L, angle = 0.3, 0.8, 0.9
    P = a * np.array([np.cos(angle), np.sin(angle)])
    Q = P + [np.sqrt(L**2 - P[1] ** 2), -P[1]]
    turn = np.arctan2(*(Q - P)[::-1])
    model = da.Model("slider-crank", gravity=(0, -9.81))
    crank = model.body("crank", mass=1.0, inertia=0.1, position=(0, 0), angle=angle)
    rod = model.body("rod", mass=1.0, inertia=0.1, position=P, angle=turn)
    slider = model.body("slider", mass=1.0, inertia=0.1, position=Q)
    model.revolute("main", model.ground, crank, at=(0, 0))
    model.revolute("big", crank, rod, at=P)
    model.revolute("small", rod, slider, at=Q)
    model.prismatic("guide", model.ground, slider, at=Q, axis=(1, 0))
    names = ("big.point_i.x", "big.point_i.y", "small.point_i.x", "small.point_i.y", "guide.point_i.y")
    within = np.array([1e-4, 2e-4, 5e-5, 1e-4, 3e-4])
    found = assembly(
        model,
        tolerances=dict(zip(names, within.tolist(), strict=True)),
        stiffness=1e6,
        measurements=["guide.displacement"],
        hold=["main.angle"],
    )

    def stands(e):
        """The slider's place along its guide; e (cases, 5)."""
        pin = (a + e[:, 0])[:, None] * [np.cos(angle), np.sin(angle)] + e[:, 1:2] * [-np.sin(angle), np.cos(angle)]
        return pin[:, 0] + np.sqrt((L + e[:, 2]) ** 2 + e[:, 3] ** 2 - (e[:, 4] - pin[:, 1]) ** 2) - Q[0]

    assert found.redundancy == 0
    drawn = stands(np.random.default_rng(4).uniform(-1, 1, (100_000, 5)) * within)
    std, worst = (float(found.dataset[f"shift_{x}"].sel(measurement="guide.displacement")[0]) for x in ("std", "worst"))
    assert drawn.std() == pytest.approx(std, rel=4 / np.sqrt(2 * 1e5))  # four standard errors
    corners = stands(np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1).T * within)
    assert np.abs(corners).max() == pytest.approx(worst, rel=2e-3)  # to first order: δ/L = 4e-4
    assert np.abs(drawn).max() < worst * (1 + 2e-3)
    assert f"standard deviation {std:.3g}" in str(found)


def test_preloads_over_a_motion_by_hand():
    """Three parallel cranks; the third foot is δ too far along x. Cranks carry forces along themselves alone, S (1, −2,
    1) by the bar's balance; of the misfit δ cos θ lies along them, and each has two pins of stiffness k in a row, so
    S (1 + 4 + 1) 2/k = δ cos θ."""
    model = da.Model("braced", gravity=(0, 0))
    bar = model.body("bar", mass=3.0, inertia=0.4, position=(1.0, 0.8), velocity=(-0.8, 0.0))
    for n, x in enumerate((0.0, 1.0, 2.0)):
        crank = model.body(f"crank{n}", mass=1.0, inertia=0.08, position=(x, 0.4), velocity=(-0.4, 0.0),
                           angular_velocity=1.0)  # fmt: skip
        model.revolute(f"low{n}", model.ground, crank, at=(x, 0))
        model.revolute(f"high{n}", crank, bar, at=(x, 0.8))
    motion = da.simulate(model, 1.0, samples=[0.4, 1.0])
    k, delta = 2e6, 1e-4
    found = assembly(motion, errors={"low2.point_i.x": delta}, stiffness=k)
    np.testing.assert_allclose(found.dataset["time"], [0.4, 1.0])
    for at, t in enumerate((0.4, 1.0)):
        theta = np.pi / 2 + t  # without gravity it turns at 1 rad/s
        along = np.array([np.cos(theta), np.sin(theta)])
        S = k * delta * np.cos(theta) / 12
        for joint, share in (("low0", 1), ("low1", -2), ("low2", 1)):
            load = [float(found.load(joint).sel(component=c)[at]) for c in ("Fx", "Fy")]
            np.testing.assert_allclose(np.abs(load), np.abs(share * S * along), rtol=1e-7)  # of the integration
        third = np.array([float(found.load("low2").sel(component=c)[at]) for c in ("Fx", "Fy")])
        assert third @ along * np.cos(theta) > 0  # the foot pushes its crank ahead


def test_legs_that_have_lifted_off_bear_no_preload():
    """Four legs of 10⁵ N/m, one 1 mm off: k δ/4 each, until two lift off and nothing is redundant."""
    model = da.Model("table", space="space", gravity=(0, 0, -9.81))
    top = model.body("top", mass=20.0, inertia=(1.2, 2.5, 3.6), position=(0.15, 0.05, 0.7))
    for k, (x, y) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        at = (0.6 * x, 0.4 * y, 0)
        model.point_in_plane(f"leg{k + 1}", model.ground, top, at=at, normal=(0, 0, 1), one_sided=True)
    model.force("lift", top, (0, 0, "200*t"), at=(0.6, 0.4, 0.7))
    motion = da.simulate(model, 0.7, samples=[0.5, 0.6, 0.7])
    assert motion.phases.lift_offs[0][0] == pytest.approx(0.5518, abs=1e-4)
    found = assembly(motion, errors={"leg2.point_j.z": 1e-3}, stiffness=1e5)
    np.testing.assert_allclose(found.dataset["load"], [[25, -25, 25, -25], [0] * 4, [0] * 4], rtol=1e-12, atol=1e-9)


def test_door_whose_lower_hinge_is_high():
    """0.1 mm between two hinges of 10⁷ N/m in a row: 500 N, up at the top and down at the bottom."""
    found = assembly(da.mechanism("door-two-hinges"), errors={"bottom.point_j.z": 1e-4}, stiffness=1e7)
    load = found.load("top").sel(component="Fz"), found.load("bottom").sel(component="Fz")
    np.testing.assert_allclose([float(x[0]) for x in load], (500, -500), rtol=1e-12)
    assert len(found.largest) == 2  # nothing but those
    assert {r.release.joint: round(r.left, 9) for r in found.releases} == {"top": 1.0, "bottom": 0.0}
    assert "free Fz Mx My of bottom (leaves a ball in a groove): no load is left" in str(found)
    json.dumps(found.as_dict())


def test_harmless_tolerances_are_named():
    found = assembly(
        da.mechanism("door-two-hinges"), tolerances={"bottom.point_j": 1e-4, "bottom.frame_j": 1e-3}, stiffness=1e7
    )
    assert found.harmless == ("bottom.frame_j.rz",)  # about the hinge line
    assert found.dataset["std"].sel(component="top:Fz")[0] == pytest.approx(500 / np.sqrt(3))


def test_units_of_length_do_not_matter():
    """The same table in metres and in millimetres (N → kg mm/s² is 1000 times)."""
    found = [
        assembly(
            da.mechanism("table", half=(0.6 * s, 0.4 * s), height=0.7 * s, off_centre=(0.15 * s, 0.05 * s), speed=0.0),
            errors={"leg2.point_j.z": 1e-3 * s},
            stiffness=1e5,
        )
        .dataset["load"]
        .values
        for s in (1.0, 1000.0)
    ]
    np.testing.assert_allclose(found[1], 1000 * found[0], rtol=1e-9)


def test_joint_coordinates_and_a_motion_say_the_same():
    model = da.mechanism("parallelogram")
    given = {"tolerances": {"pin2.point_i": 1e-4, "foot1.point_i": 1e-4}, "stiffness": 1e7, "instants": 3}
    found = [
        assembly(da.simulate(da.build(model, coordinates=c), 0.5, samples=3), **given).dataset
        for c in ("absolute", "joint")
    ]
    for name in ("worst", "std"):
        a, b = (x[name] for x in found)
        assert list(a["component"].values) and np.ptp(a.values, axis=0).max() > 1  # it changes along the motion
        np.testing.assert_allclose(a.values, b.sel(component=a["component"]).values, rtol=1e-6)  # two integrations


# ---- what no elasticity closes, and what is refused -----------------------------------------------------------------


def test_a_gap_between_rigid_joints_is_a_contradiction():
    door = da.mechanism("door-two-hinges")
    door.measure("edge", "point", body="leaf")
    found = assembly(door, errors={"bottom.point_j.z": 1e-4}, stiffness={"top": {"Fx": 1e7, "M": 1e5}})
    assert np.isnan(found.dataset["shift"].values).all()  # it cannot be put together
    assert (
        "leaves a gap between top, bottom, which are rigid along it: no elasticity closes it" in found.contradictions[0]
    )
    assert np.isnan(found.dataset["load"].values).all()
    across = assembly(
        da.mechanism("door-two-hinges"), errors={"bottom.point_j.x": 1e-4}, stiffness={"top": {"Fx": 1e7, "M": 1e5}}
    )
    assert across.contradictions == () and across.largest


def test_wheels_that_disagree_slip_on_and_on():
    found = assembly(da.mechanism("omni-robot"), errors={"wheel1.speed": 1e-2}, stiffness=1e7)
    assert "makes velocities of" in found.contradictions[0] and "no elasticity closes that" in found.contradictions[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"errors": {"top.point_j": 1e-4}}, "needs true stiffness"),
        ({"errors": {"top.point_j": 1e-4}, "stiffness": 1e7}, "errors: 'top.point_j' needs 3 numbers"),
        ({"errors": {"top.pointj.x": 1e-4}, "stiffness": 1e7}, "'top.pointj.x' is not a dimension"),
        ({"errors": {"leaf.mass": 1.0}, "stiffness": 1e7}, "'leaf.mass' is not a dimension"),
        ({"errors": {"top.point_j.q": 1.0}, "stiffness": 1e7}, "has no part 'q'; it has x, y, z"),
        ({"tolerances": {"top.point_j": -1e-4}, "stiffness": 1e7}, "must not be negative"),
        ({"stiffness": 1e7}, "either errors= .* or tolerances="),
        ({"errors": {"top.point_j.x": 1e-4}, "stiffness": {"to": 1e7}}, "There is no joint 'to'"),
        ({"errors": {"top.point_j.x": float("nan")}, "stiffness": 1e7}, "needs 1 numbers"),
    ],
)
def test_mistakes_are_named(given, says):
    with pytest.raises(da.errors.DalembertError, match=says):
        assembly(da.mechanism("door-two-hinges"), **given)


# ---- the command line -----------------------------------------------------------------------------------------------


def test_command_line():
    error = ("assembly", "door-two-hinges", "--error", "bottom.point_j.z=1e-4", "--stiffness")
    found = in_process(*error, "1e7", "--json")
    assert found.returncode == 0
    data = json.loads(found.stdout)
    load = dict(zip(data["components"], data["load"][0], strict=True))
    assert load["top:Fz"] == pytest.approx(500) and data["releases"][-1]["left"] < 1e-9
    text = in_process(*error[:-1], "--within", "top.point_j=1e-4")
    assert text.returncode == 2 and "Say how far dimensions are off" in text.stderr
    default = in_process(*error[:-1]).stdout
    assert "pre-load Fz of top 5000 N" in default and "elastic with 1e8 N/m" in default
    rigid = in_process(*error, "top.Fx=1e7")
    assert rigid.returncode == 1 and "no elasticity closes it" in rigid.stdout
