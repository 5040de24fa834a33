"""Gears, racks and belts: where their force acts, by hand; planets by Willis; couplings that leave the force out."""

from __future__ import annotations

import functools
import json
import math
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert._results import ModelError
from dalembert.results._observe import observe_all

SPACES = ("plane", "space")
COORDINATES = ("absolute", "joint")
TAN = math.tan(20 * da.deg)
ROUNDING = 1e-9  # relative to loads of some ten newton; solved to rounding, times arms of some metres


class Bench:
    """Writes the same machines in the plane and in space, across the z axis."""

    def __init__(self, name: str, space: str):
        self.model = da.Model(name, space=space)
        self.plane = space == "plane"
        self.hinge = {} if self.plane else {"axis": (0, 0, 1)}

    def at(self, x, y=0.0):
        return (x, y) if self.plane else (x, y, 0.0)

    def about_z(self, value):
        return value if self.plane else (0.0, 0.0, value)

    def body(self, name, x=0.0, y=0.0, inertia=0.3, **motion):
        inertia = inertia if self.plane else (inertia, inertia, inertia)
        return self.model.body(name, mass=1.5, inertia=inertia, position=self.at(x, y), **motion)

    def wheel(self, name, x=0.0, y=0.0, on="ground", **motion):
        self.body(name, x, y, **motion)
        self.model.revolute(f"{name}_pin", on, name, at=self.at(x, y), **self.hinge)

    def pair(self, word, y, distance, torque):
        """Two wheels on the ground, the first held, a torque on the second."""
        self.wheel(f"{word}_a", 0.0, y)
        self.wheel(f"{word}_b", distance, y)
        self.model.driver(f"{word}_held", f"{word}_a_pin", 0.0)
        self.model.torque(f"{word}_load", f"{word}_b", self.about_z(torque))
        return f"{word}_a_pin", f"{word}_b_pin"

    def planets(self, count: int, **motion):
        """A sun (radius 1) and planets (0.5) on an arm in a fixed ring (2); the load is in balance: 10 × (1 + 2/1)."""
        self.wheel("sun", **motion)
        self.wheel("arm")
        for k in range(count):
            a = 2 * math.pi * k / count
            self.wheel(f"p{k}", 1.5 * math.cos(a), 1.5 * math.sin(a), on="arm")
            self.model.gear(f"sun_mesh{k}", "sun_pin", f"p{k}_pin", radius=1.0, radius_other=0.5)
            self.model.gear(f"ring_mesh{k}", "arm_pin", f"p{k}_pin", ratio=-0.5 / 2.0)  # the ring is the ground
        self.model.torque("in", "sun", self.about_z(10.0))
        self.model.torque("out", "arm", self.about_z(-30.0))


def stand(space: str) -> da.Model:
    """One of each, at rest under a load."""
    bench = Bench("stand", space)
    m = bench.model
    m.gear("spur", *bench.pair("spur", 0, 3.0, 20.0), ratio=2.0)
    m.gear("back", *bench.pair("back", 10, 3.0, -20.0), ratio=2.0)
    m.gear("flat", *bench.pair("flat", 20, 3.0, 20.0), radius=1.0, radius_other=2.0, pressure_angle=0.0)
    m.gear("ring", *bench.pair("ring", 30, 2.0, 10.0), radius=3.0, radius_other=1.0)
    m.belt("open", *bench.pair("open", 40, 2.0, 6.0), radius=1.0, radius_other=0.5)
    m.belt("tense", *bench.pair("tense", 50, 2.0, 6.0), radius=1.0, radius_other=0.5, pretension=20.0)
    m.belt("cross", *bench.pair("cross", 60, 2.0, 6.0), radius=0.5, radius_other=0.5, crossed=True)
    bench.wheel("pinion", 0, 70)
    bench.body("rack", 0.3, 65)
    m.driver("pinion_held", "pinion_pin", 0.0)
    m.prismatic("slide", "ground", "rack", at=bench.at(0, 65), axis=bench.at(1, 0))
    m.rack_and_pinion("teeth", "pinion_pin", "slide", radius=0.5)
    m.force("push", "rack", bench.at(8.0))
    bench.planets(1)
    if space == "space":
        m.gear("helix", *bench.pair("helix", 80, 3.0, 20.0), ratio=2.0, helix_angle=15 * da.deg)
    return m


@functools.cache
def standing(space: str, coordinates: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Force and torque of every joint of the stand at rest, on its body j, in world axes."""
    system = da.build(stand(space), coordinates=coordinates)
    start = (jnp.zeros(1), jnp.asarray(system.q0)[None], jnp.asarray(system.v0)[None])
    found = observe_all(system, da.formulations.Proximal(), da.reactions.RequireUnique(), *start)
    assert np.max(np.abs(found.rates)) < 1e-9
    force, torque = np.asarray(found.wrenches.force)[0], np.asarray(found.wrenches.torque)[0]
    return {j.name: (force[k], torque[k]) for k, j in enumerate(system.machine.joints)}


def of(space, coordinates, joint):
    """Force in the plane of the wheels, and torque about z."""
    force, torque = standing(space, coordinates)[joint]
    if space == "space" and not joint.startswith("helix"):
        assert np.max(np.abs([force[2], *torque[:2]])) < ROUNDING * 20
    return force[:2], torque[-1]


def close(a, b):
    return np.max(np.abs(np.asarray(a) - np.asarray(b))) < ROUNDING * 20


# everyday each space and each set of coordinates once
MOVED = [("plane", "absolute"), ("space", "joint")]
BOTH = MOVED + [pytest.param(*x, marks=pytest.mark.thorough) for x in (("plane", "joint"), ("space", "absolute"))]
ONE = [MOVED[0], pytest.param(*MOVED[1], marks=pytest.mark.thorough), *BOTH[2:]]


@pytest.mark.parametrize(("space", "coordinates"), ONE)
@pytest.mark.parametrize(("word", "tooth"), [
    # 20 N m on a wheel of radius 2 are 10 N on its left, upwards if the torque is positive; the teeth push it to the
    # right whichever way the load
    ("spur", (10 * TAN, 10.0)), ("back", (10 * TAN, -10.0)), ("flat", (0.0, 10.0)),
    # a wheel of radius 1 in a ring touches it on its right and is pushed to the left
    ("ring", (-10 * TAN, -10.0)),
])  # fmt: skip
def test_bearings_bear_the_tooth_force(space, coordinates, word, tooth):
    load = {"back": -20.0, "ring": 10.0}.get(word, 20.0)
    force, torque = of(space, coordinates, word)
    assert close(force, tooth) and close(torque, -load)
    assert close(of(space, coordinates, f"{word}_b_pin")[0], np.negative(tooth))
    assert close(of(space, coordinates, f"{word}_a_pin")[0], tooth)


@pytest.mark.parametrize(("space", "coordinates"), ONE)
def test_rack_and_pinion_push_each_other_apart(space, coordinates):
    """8 N on the rack, which lies below its pinion of radius 0.5: with displacement = radius · angle it must."""
    assert close(of(space, coordinates, "teeth")[0], (-8.0, -8 * TAN))
    assert close(of(space, coordinates, "pinion_pin")[0], (-8.0, -8 * TAN))
    force, torque = of(space, coordinates, "slide")
    # the teeth act on the rack at (0, 69.5): about marker j, (0, 65), their moment is −4.5 · −8, that of the push is 0
    assert close(force, (0.0, 8 * TAN)) and close(torque, -4.5 * 8.0)
    assert close(of(space, coordinates, "pinion_held")[1], -0.5 * 8.0)


def spans(radius_a, radius_b, distance, crossed):
    """Unit vectors from pulley b to pulley a along both spans, and where the spans leave b; a is at the origin.

    A span touches the pulleys at r_a w and d ± r_b w, w across it: d · w = r_a − r_b (crossed: + r_b)."""
    sign = -1.0 if crossed else 1.0
    x = (radius_a - sign * radius_b) / distance
    out = []
    for y in (math.sqrt(1 - x**2), -math.sqrt(1 - x**2)):
        w = np.array([x, y])
        end = np.array([distance, 0.0]) + sign * radius_b * w
        way = radius_a * w - end
        out.append((way / np.linalg.norm(way), end - [distance, 0.0]))
    return out


@pytest.mark.parametrize(("space", "coordinates"), BOTH)
@pytest.mark.parametrize(("word", "radii", "rest"), [
    ("open", (1.0, 0.5), 0.0), ("tense", (1.0, 0.5), 20.0), ("cross", (0.5, 0.5), 0.0),
])  # fmt: skip
def test_bearings_bear_the_spans_of_a_belt(space, coordinates, word, radii, rest):
    """6 N m on a pulley of 0.5 m: the spans differ by 12 N; the one that turns it back is the tight one."""
    pulls = np.zeros(2)
    for way, arm in spans(*radii, 2.0, word == "cross"):
        tight = arm[0] * way[1] - arm[1] * way[0] < 0
        pulls += way * (rest + (6.0 if tight else -6.0) if rest else 12.0 * tight)
    assert close(of(space, coordinates, f"{word}_b_pin")[0], -pulls)
    assert close(of(space, coordinates, f"{word}_a_pin")[0], pulls)
    assert close(of(space, coordinates, word)[1], -6.0)


@pytest.mark.parametrize(("space", "coordinates"), BOTH)
def test_a_planet_pin_bears_twice_the_tangential_force(space, coordinates):
    """10 N m on the sun (radius 1): 10 N on either side of the planet, whose radial forces cancel; the arm bears 20."""
    assert close(of(space, coordinates, "p0_pin")[0], (0.0, -20.0))
    assert close(of(space, coordinates, "arm_pin")[0], (0.0, -20.0))
    assert close(of(space, coordinates, "sun_pin")[0], (10 * TAN, 10.0))
    assert close(of(space, coordinates, "sun_mesh0")[0], (10 * TAN, 10.0))
    # of the ring, which is body i: on the planet 10 N at its outer side, 20 N m on the ring: 10 + 20 = 30
    force, torque = of(space, coordinates, "ring_mesh0")
    assert close(force, (-10 * TAN, 10.0)) and close(torque, 0.5 * 10.0)


@pytest.mark.parametrize("coordinates", [pytest.param("absolute", marks=pytest.mark.thorough), "joint"])
def test_a_helix_pushes_along_the_axis(coordinates):
    """A right-hand driver turning about +z is thrust along +z, as the right hand says; α is of the normal section."""
    tilt = 15 * da.deg
    force, _ = standing("space", coordinates)["helix"]
    # wheel a is pushed down at its right, as if it drove with +ω: its thrust is along +z, that of b along −z
    assert close(force, (10 * TAN / math.cos(tilt), 10.0, -10 * math.tan(tilt)))
    # both bearings bear it at the pitch point, radii 1 and 2 off
    for pin, arm, sign in (("helix_a_pin", 1.0, 1.0), ("helix_b_pin", -2.0, -1.0)):
        thrust, moment = standing("space", coordinates)[pin]
        assert close(thrust, sign * force)
        # the tooth force −sign·F at arm along x: its moment about y is −arm F_z
        assert close(moment[1], sign * -arm * force[2]) and close(moment[[0, 2]], 0.0)


# ---- in motion -----------------------------------------------------------------------------------------------------


@functools.cache
def gearbox(space: str, coordinates: str):
    """A gearbox with one planet, started by its sun and loaded out of balance."""
    bench = Bench("gearbox", space)
    bench.planets(1, angular_velocity=2.0 if space == "plane" else (0, 0, 2.0))
    bench.model.torque("more", "sun", bench.about_z(4.0))
    system = da.build(bench.model, coordinates=coordinates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.AssemblyWarning)
        return da.simulate(system, 3.0, samples=31)


@pytest.mark.parametrize(("space", "coordinates"), ONE[:2])
def test_planets_turn_as_willis_says(space, coordinates):
    """(ω_sun − ω_arm)/(ω_ring − ω_arm) = −2, ring at rest: ω_arm = ω_sun/3, ω_planet = ω_arm − 4 ω_arm; turns too."""
    solution = gearbox(space, coordinates)
    data = solution.dataset
    spin = data["angular_velocity"] if space == "plane" else data["angular_velocity"].sel(axis="z")
    sun, arm, planet = (spin.sel(body=b).values for b in ("sun", "arm", "p0"))
    assert np.max(np.abs(sun)) > 10
    assert np.max(np.abs(sun - 3 * arm)) < 1e-9 * np.max(np.abs(sun))
    assert np.max(np.abs(planet + 3 * arm)) < 1e-9 * np.max(np.abs(sun))
    angle = {j: data["coordinate"].sel(joint_coordinate=f"{j}_pin.angle").values for j in ("sun", "arm", "p0")}
    assert np.ptp(angle["sun"]) > 4 * math.pi
    for joint, ratio in (("arm", 3.0), ("p0", -0.75)):  # of the planet against the arm
        turned = angle["sun"] - angle["sun"][0] - ratio * (angle[joint] - angle[joint][0])
        assert np.max(np.abs(turned)) < 1e-8
    assert solution.violation["position"] < 1e-10 and solution.energy_drift < 1e-6


@pytest.mark.parametrize(("space", "coordinates"), MOVED)
def test_every_body_of_a_gearbox_is_in_balance(space, coordinates):
    """Forces of its joints and of its mesh on each body are M v̇ − h, without the weight there is none but inertia."""
    solution = gearbox(space, coordinates)
    machine, data = solution.machine, solution.dataset
    k = 20
    q = jnp.asarray(solution.results.observed.q[k])
    names = list(machine.body_names)
    total = {b: np.zeros(3) for b in names}
    for joint in machine.joints:
        point = np.asarray(machine.joint_frames(joint, q)[-1].p)
        force = data["reaction_force"].sel(joint=joint.name).values[k]
        torque = data["reaction_torque"].sel(joint=joint.name).values[k]
        for block, sign in zip(joint.blocks, (-1, 1), strict=True):
            if block < len(names):
                arm = point - data["position"].sel(body=names[block]).values[k]
                moment = (torque if space == "plane" else torque[2]) + arm[0] * force[1] - arm[1] * force[0]
                total[names[block]] += sign * np.array([force[0], force[1], moment])
    applied = {"sun": 14.0, "arm": -30.0, "p0": 0.0}
    for body in names:
        a = data["acceleration"].sel(body=body).values[k]
        turn = data["angular_acceleration"].sel(body=body).values[k]
        turn = turn if space == "plane" else turn[2]
        exact = [1.5 * a[0], 1.5 * a[1], 0.3 * turn - applied[body]]
        assert np.max(np.abs(total[body] - exact)) < 1e-8 * 30, body


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=pytest.mark.thorough)])
def test_a_bearing_rubs_under_the_tooth_force(coordinates):
    """Wheel b turns against its load of 20 N m: 2 F = 20 + μ r F/cos α; with other bearing loads absent N = F/cos α.

    Besides, a pull of 5 N to the right, against which the teeth push: without the flank N would be another."""
    bench = Bench("rubbing", "plane")
    bench.wheel("a")
    bench.wheel("b", 3.0, angular_velocity=-0.5)
    bench.model.driver("turning", "a_pin", "t")
    bench.model.torque("load", "b", 20.0)
    bench.model.force("pull", "b", (5.0, 0.0))
    bench.model.gear("mesh", "a_pin", "b_pin", ratio=2.0)
    bench.model.bearing_friction("rub", "b_pin", coulomb=0.4, radius=0.5, transition_speed=1e-3)
    system = da.build(bench.model, coordinates=coordinates)
    state = da.stabilise.consistent_state(system, (system.q0, system.v0))
    system = da.prepare(system, state).system
    found = observe_all(
        system, da.formulations.Proximal(), da.reactions.RequireUnique(), jnp.zeros(1), state.q[None], state.v[None]
    )
    F = 10.0
    for _ in range(60):  # contracts by 0.1
        F = (20.0 + 0.2 * math.hypot(F, F * TAN + 5.0)) / 2.0
    force = dict(zip((j.name for j in system.machine.joints), np.asarray(found.wrenches.force)[0], strict=True))
    assert close(force["mesh"], (F * TAN, F)) and close(force["b_pin"], (-F * TAN - 5.0, -F))


# ---- redundant machines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "coordinates"), [("plane", "absolute"), pytest.param("plane", "joint", marks=pytest.mark.thorough)]
)
def test_three_planets_share_the_load_by_a_rule(space, coordinates):
    """Which planet bears how much is not determined; the least norm shares alike, and the bearings of sun and arm then
    bear nothing. What all planets bear together is: torque balance."""
    bench = Bench("three", space)
    bench.planets(3)
    solution = da.simulate(da.build(bench.model, coordinates=coordinates), 0.01, samples=2)
    assert solution.redundancy == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.RedundancyWarning)
        data = solution.dataset
        assert data["unique_force"].sel(joint=["p1_pin", "sun_mesh1"]).values.sum() == 0
        force = data["reaction_force"].isel(time=0)
        assert np.allclose(np.linalg.norm(force.sel(joint=[f"p{k}_pin" for k in range(3)]), axis=1), 20 / 3)
        assert np.max(np.abs(force.sel(joint=["sun_pin", "arm_pin"]))) < 1e-9
        turning = data["reaction_torque"].isel(time=0).sel(joint=[f"sun_mesh{k}" for k in range(3)])
    assert abs(float(turning.sum()) + 0.5 * 10.0) < 1e-9  # 10 N in all, at half a metre


def coupled(space: str) -> da.Model:
    """A wheel on two hinges in one, coupled to another: redundant."""
    bench = Bench("coupled", space)
    bench.wheel("a")
    bench.wheel("b", 1.0)
    bench.model.revolute("again", "ground", "a", at=bench.at(0), **bench.hinge)
    bench.model.gear_ratio("tie", "a_pin", "b_pin", ratio=2.0)
    bench.model.torque("push", "a", bench.about_z(3.0))
    return bench.model


@pytest.mark.parametrize(("space", "coordinates"), ONE[:2])
def test_a_redundant_machine_with_a_coupling_gives_results(space, coordinates, tmp_path):
    solution = da.simulate(da.build(coupled(space), coordinates=coordinates), 0.1, samples=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.RedundancyWarning)
        data = solution.dataset
        assert solution.to_netcdf(tmp_path / "run.nc").exists()
        tie = solution.reactions("tie")
        for path in (tmp_path / "run.png", tmp_path / "reactions.png", tmp_path / "page.html", tmp_path / "film.gif"):
            if path.suffix == ".png":
                solution.plot("reactions" if path.stem == "reactions" else "page", path=path)
            else:
                solution.animate(path)
            assert path.stat().st_size > 5000
        assert "tie" in da.reports.report(solution, tmp_path / "report.html").read_text(encoding="utf-8")
    assert list(data["solvability"].values) == ["open", "unique", "open", "unique"]
    assert tie.attrs["rule"] == "unique"
    # I α = 3 + f, I α/(−2) = 2 f of the multiplier f: on b, the last body, 2 f = −I α_a/2
    turn = 3.0 / (0.3 + 0.3 / 4)
    assert np.allclose(np.ravel(tie["torque"].values[-1])[-1], -0.3 * turn / 2)


def test_check_says_what_couplings_and_gears_are_taken_to_be():
    found = da.check(coupled("plane"))
    assert len(found.remarks) == 1 and "'tie': tied by their coordinates alone" in str(found)
    assert json.loads(json.dumps(found.as_dict()))["remarks"] == list(found.remarks)
    # a wheel whose axis only a spring holds: the teeth could push it away
    bench = Bench("loose", "plane")
    bench.wheel("a")
    bench.body("b", 1.0)
    bench.model.gear("mesh", "a_pin", "b", ratio=1.0)
    assert any("'mesh': the other joints do not hold the distance" in x for x in da.check(bench.model).remarks)


def test_a_belt_that_transmits_too_much_is_reported():
    bench = Bench("slack", "plane")
    pins = bench.pair("slack", 0, 2.0, 6.0)
    bench.model.belt("belt", *pins, radius=1.0, radius_other=0.5, pretension=5.0)
    solution = da.simulate(da.build(bench.model), 0.01, samples=2)
    with pytest.warns(da.errors.SlackBeltWarning, match="Belt 'belt' transmits more than twice its pretension of 5 N"):
        solution.reactions("belt")


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("space", "make", "sentence"), [
    ("plane", lambda m: m.gear("g", "a_pin", "b_pin"), "give ratio="),
    ("plane", lambda m: m.gear("g", "a_pin", "b_pin", ratio=2, radius=1), "not both"),
    ("plane", lambda m: m.gear("g", "a_pin", "b_pin", radius=1, radius_other=1), "the axes are 3 apart"),
    ("plane", lambda m: m.gear("g", "a_pin", "b_pin", ratio=2, pressure_angle=20), "20 is|in radians"),
    ("plane", lambda m: m.gear("g", "a_pin", "b_pin", ratio=2, helix_angle=0.1), "only in space"),
    ("plane", lambda m: m.gear("g", "a_pin", "a2_pin", ratio=2), "about the same axis"),
    ("plane", lambda m: m.gear("g", "a_pin", "slide", ratio=2), "does not bear a wheel"),
    ("plane", lambda m: m.gear("g", "a_pin", "ground", ratio=2), "ground has no centre"),
    ("plane", lambda m: m.belt("g", "a_pin", "b_pin", radius=5, radius_other=1), "no open belt fits"),
    ("plane", lambda m: m.rack_and_pinion("g", "a_pin", "b_pin", radius=1), "does not guide a rack"),
    ("space", lambda m: m.gear("g", "a_pin", "tilted", ratio=2), "bevel, worm and crossed gears are not supported"),
])  # fmt: skip
def test_what_is_no_contact_is_refused_by_name(space, make, sentence):
    bench = Bench("wrong", space)
    bench.wheel("a")
    bench.wheel("a2")
    bench.wheel("b", 3.0)
    bench.body("c", 0, 1)
    bench.model.prismatic("slide", "ground", "c", at=bench.at(0, 1), axis=bench.at(1, 0))
    if space == "space":
        bench.body("d", 1, 1)
        bench.model.revolute("tilted", "ground", "d", at=(1, 1, 0), axis=(0, 1, 1))
    make(bench.model)
    with pytest.raises(ModelError, match=rf"Coupling 'g': .*({sentence})"):
        bench.model.validate()


def test_wheels_are_named_by_joint_body_or_marker():
    """A planet around a sun that is the ground, said in three ways: the same rows between the same two bodies."""
    made = []
    for way in ("joint", "marker", "body"):
        bench = Bench(way, "plane")
        bench.wheel("arm")
        bench.wheel("planet", 1.5, on="arm")
        bench.model.marker("centre", "ground", at=(0, 0))
        sun = "arm_pin" if way == "joint" else "centre"
        made.append(bench.model.gear("mesh", sun, "planet" if way == "body" else "planet_pin", ratio=0.5))
        bench.model.validate()
    for c in made:
        assert [b.name for b in c.bodies] == ["ground", "planet"]
        assert math.isclose(c.numbers["radius_i"], 1.0) and math.isclose(c.numbers["radius_j"], 0.5)
