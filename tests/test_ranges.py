"""All possible reactions: least and greatest values with proofs, against values by hand and elastic machines."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from _helpers_cli import in_process

import dalembert as da
from dalembert.linalg import Cone, ConvexSet, analytic_centre, extremes
from dalembert.reactions import Known
from dalembert.reports._sections import sections_of
from dalembert.view import Words

LEGS = [f"leg{k}" for k in (1, 2, 3, 4)]
WEIGHT = 20 * 9.81
# statics of the table: N₁+N₄ = W(½ + 0.15/1.2), N₁+N₂ = W(½ + 0.05/0.8), ΣN = W; with N₁ = x the others follow
RIGHT, FRONT = WEIGHT * (0.5 + 0.125), WEIGHT * (0.5 + 0.0625)
TABLE = {  # N₂ = FRONT − x, N₄ = RIGHT − x, N₃ = W − FRONT − RIGHT + x, none negative
    "leg1": (FRONT + RIGHT - WEIGHT, FRONT),
    "leg2": (0.0, WEIGHT - RIGHT),
    "leg3": (0.0, WEIGHT - RIGHT),
    "leg4": (RIGHT - FRONT, WEIGHT - FRONT),
}


def found(model, **known):
    return da.check(model, ranges=Known(**known)).ranges


def standing(size=1.0, off=(0.15, 0.05)):
    """The table in other units of length."""
    half = (0.6 * size, 0.4 * size)
    model = da.mechanisms.mechanism("table", half=half, height=0.7 * size, off_centre=np.multiply(off, size), speed=0.0)
    model.gravity = (0, 0, -9.81 * size)
    return model


@pytest.fixture(scope="module")
def table():
    return found(da.mechanism("table"), push_only=LEGS)


def test_table_whose_legs_push(table):
    for leg, ends in TABLE.items():
        there = table.of(leg)["Fz"]
        np.testing.assert_allclose((there.lower, there.upper), ends, atol=1e-11 * WEIGHT)  # rounding
    published = {"leg1": (36.79, 110.36), "leg2": (0, 73.58), "leg3": (0, 73.58), "leg4": (12.26, 85.84)}
    for leg, ends in published.items():
        np.testing.assert_allclose((table.of(leg)["Fz"].lower, table.of(leg)["Fz"].upper), ends, atol=0.006)  # rounded
    assert table.gap < 1e-9


def test_ends_are_attained_by_loads_that_carry_the_table(table):
    for leg in LEGS:
        for lam, end in ((table.of(leg)["Fz"].at_lower, 0), (table.of(leg)["Fz"].at_upper, 1)):
            assert lam.min() >= -1e-12 * WEIGHT
            assert lam.sum() == pytest.approx(WEIGHT, rel=1e-12)
            assert lam[LEGS.index(leg)] == pytest.approx(TABLE[leg][end], abs=1e-11 * WEIGHT)
        assert table.worst(leg).found == pytest.approx(TABLE[leg][1], rel=1e-12) == table.worst(leg).at_most
    # the middle of the interval is where the product of the four forces is largest, not the mean of the ends
    x = np.linspace(*TABLE["leg1"], 200001)[1:-1]
    product = x * (FRONT - x) * (RIGHT - x) * (WEIGHT - FRONT - RIGHT + x)
    assert table.centre[0] == pytest.approx(x[np.argmax(product)], abs=4e-4 * WEIGHT / 200)


def test_elastic_beds_stay_inside_and_touch_the_ends(table):
    """Legs as springs that only push on a floor that is not even, each of 10⁴ machines solved for the table's position
    by trying all sets of legs that bear."""
    rng = np.random.default_rng(3)
    count = 10_000
    feet = np.array([(0.6 * x - 0.15, 0.4 * y - 0.05) for x, y in [(1, 1), (-1, 1), (-1, -1), (1, -1)]])
    G = np.column_stack([np.ones(4), feet])  # height of each foot over (height of the centre, two small turns)
    k = 10.0 ** rng.uniform(4, 7, (count, 4))
    uneven = rng.uniform(0, 1e-2, (count, 4)) * (rng.random((count, 1)) < 0.7)
    forces, energy = np.full((count, 4), np.nan), np.full(count, np.inf)
    weight = np.array([-WEIGHT, 0, 0])
    for on in map(np.array, itertools.product((0.0, 1.0), repeat=4)):
        if on.sum() < 3:  # two legs or one do not carry the table: its centre is over none of their lines
            continue
        K = np.einsum("ci,ia,ib->cab", k * on, G, G)
        right = weight - np.einsum("ci,ia,ci->ca", k * on, G, uneven)
        place = np.linalg.solve(K, right[..., None])[..., 0]
        sunk = -(place @ G.T + uneven)
        # what bears pushes, what does not is clear of the floor
        fits = np.all(np.where(on > 0, sunk, -sunk) >= -1e-12, axis=1)
        better = fits & (0.5 * np.sum(k * on * sunk**2, axis=1) - place @ weight < energy)
        forces[better] = (k * on * sunk)[better]
        energy[better] = (0.5 * np.sum(k * on * sunk**2, axis=1) - place @ weight)[better]
    assert not np.isnan(forces).any()  # all of them
    np.testing.assert_allclose(forces.sum(axis=1), WEIGHT, rtol=1e-9)
    np.testing.assert_allclose(forces @ feet, 0, atol=1e-9 * WEIGHT)
    for j, leg in enumerate(LEGS):
        low, high = TABLE[leg]
        there = table.of(leg)["Fz"]
        assert forces[:, j].min() >= there.lower - 1e-6 * WEIGHT
        assert forces[:, j].max() <= there.upper + 1e-6 * WEIGHT
        np.testing.assert_allclose((forces[:, j].min(), forces[:, j].max()), (low, high), atol=1e-6 * WEIGHT)


def test_nothing_known_is_unbounded_and_said():
    there = da.check(da.mechanism("table"), ranges=True)
    assert all(math.isinf(x.lower) and math.isinf(x.upper) for leg in LEGS for x in there.ranges.of(leg).values())
    assert "leg1: Fz unbounded" in str(there) and "nothing is known of the joints" in str(there)
    assert there.ranges.centre is None
    grows = there.ranges.of("leg2")["Fz"].at_upper  # a load without effect
    np.testing.assert_allclose(np.abs(grows) / abs(grows[1]), 1.0, rtol=1e-12)
    plain = json.loads(json.dumps(there.as_dict()))["ranges"]
    assert plain["ranges"][0] == {"joint": "leg1", "component": "Fz", "unique": False, "lower": None, "upper": None}


def test_ranges_do_not_depend_on_the_unit_of_length():
    metres, millimetres = (found(standing(size), push_only=LEGS, strength={"leg2": 50.0 * size}) for size in (1, 1000))
    for leg in LEGS:
        a, b = metres.of(leg)["Fz"], millimetres.of(leg)["Fz"]
        np.testing.assert_allclose((1000 * a.lower, 1000 * a.upper), (b.lower, b.upper), atol=1e-8)
    np.testing.assert_allclose(1000 * metres.centre, millimetres.centre, rtol=1e-6)  # Newton's last step


def test_a_load_that_legs_cannot_share_is_proven():
    there = found(da.mechanism("table"), push_only=LEGS, strength={"leg1": 30.0})
    assert not there.possible and np.isnan(there.of("leg1")["Fz"].lower)
    assert "leg3 only pushes" in there.conflicts[0] and "F of leg1 exceeds its strength" in there.conflicts[0]
    pulled = found(da.mechanism("table"), pull_only=LEGS)
    # N₁ + N₄ = RIGHT (and N₁ + N₂ = FRONT) whatever the sharing: the larger is the proof
    assert f"leg1 and leg4 cannot all pull: 0.5·leg1 + 0.5·leg4 = {RIGHT / 2:.4g} N" in pulled.conflicts[0]


def three_legs(**leg):
    model = da.Model("stool", space="space", gravity=(0, 0, -10.0))
    top = model.body("top", mass=100.0, inertia=(1, 1, 1), position=(1.0625, 0, 0.5))
    for k, (x, y) in enumerate([(-1, 0), (0.5, 0.8), (0.5, -0.8)]):
        model.point_in_plane(f"leg{k + 1}", model.ground, top, at=(x, y, 0), normal=(0, 0, 1), **leg)
    return model


# moments about the line of legs 2 and 3: N₁·1.5 = −W·0.5625
LIFTED = "leg1 would have to pull 375 N: it lifts off"


def test_a_support_that_would_have_to_pull_is_named(tmp_path):
    """The centre is 0.5625 outside the base: 1000 N · 0.5625/1.5; `check` alone says so, and in a shell."""
    there = da.check(three_legs(one_sided=True))
    assert there.lifts == (LIFTED,)
    assert LIFTED in str(there)
    da.save(three_legs(one_sided=True), tmp_path / "stool.yaml")
    assert LIFTED in in_process("check", str(tmp_path / "stool.yaml")).stdout
    assert da.check(three_legs()).lifts == ()  # two-sided as it was told
    assert found(three_legs(), push_only=["leg1"]).conflicts == (LIFTED,)
    assert found(three_legs(), push_only={"leg1": "-Fz"}).possible


@pytest.mark.parametrize("contacts", [False, True])
def test_ladder_slips_at_its_angle(contacts):
    """A ladder with its centre in the middle, the same friction at both ends: tan θ = (1 − μ²)/(2μ) at the limit."""
    mu = 0.4
    least = math.atan((1 - mu**2) / (2 * mu))

    def ladder(angle):
        model = da.Model("ladder", gravity=(0, -9.81))
        foot, head = np.array([2 * math.cos(angle), 0.0]), np.array([0.0, 2 * math.sin(angle)])
        bar = model.body("bar", mass=12.0, inertia=4.0, position=(foot + head) / 2)
        if contacts:
            for name, at, normal in (("floor", foot, (0, 1)), ("wall", head, (1, 0))):
                model.contact(name, model.ground, bar, at=at, point=(0, 0), normal=normal, friction=mu)
            return da.check(model, ranges=True).ranges
        model.revolute("floor", model.ground, bar, at=foot)
        model.revolute("wall", model.ground, bar, at=head)
        return found(model, friction={"floor": (mu, "Fy"), "wall": (mu, "Fx")})

    assert ladder(least + 1e-6).possible
    assert not ladder(least - 1e-3).possible
    steep = ladder(least + 0.2).of("wall")["Fy" if contacts else "Fx"]  # along its own axes: y is the normal
    assert steep.upper > steep.lower > 0
    # moments about the foot: T_w = W/2 − N_w tan θ; the head slips at |T_w| = μ N_w, the foot at N_w = μ (W − T_w)
    slope, W = math.tan(least + 0.2), 12 * 9.81
    ends = [W / 2 / (slope + mu), min(W / 2 / (slope - mu), mu * W / 2 / max(1 - mu * slope, 1e-9))]
    np.testing.assert_allclose((steep.lower, steep.upper), ends, rtol=1e-9)


def slope(friction, tilt=0.55) -> da.Model:
    """A block on two feet on an incline of this tangent."""
    a = math.atan(tilt)
    model = da.Model("incline", gravity=(9.81 * math.sin(a), -9.81 * math.cos(a)))
    block = model.body("block", mass=3.0, inertia=1.0, position=(0, 0.2))
    for k, x in enumerate((-0.5, 0.5)):
        model.contact(f"foot{k}", model.ground, block, at=(x, 0), point=(0, 0), normal=(0, 1), friction=friction)
    return model


def test_friction_of_contacts_limits_what_they_hold():
    """On both sides of the angle of friction. N₀ + N₁ = W cos α, T₀ + T₁ = −W sin α, moments about the centre."""
    there = da.check(slope(0.6), ranges=True)
    assert there.lifts == ()
    W, a = 3 * 9.81, math.atan(0.55)
    pull = W * math.sin(a)
    N0, N1 = W * math.cos(a) / 2 - 0.2 * pull, W * math.cos(a) / 2 + 0.2 * pull
    x = there.ranges.of("foot0")["Fx"]
    ends = max(-0.6 * N0, -pull - 0.6 * N1), min(0.6 * N0, -pull + 0.6 * N1)
    np.testing.assert_allclose((x.lower, x.upper), ends, rtol=1e-9)
    assert there.ranges.gap < 1e-9
    assert not [x for x in da.equilibrium(slope(0.56)).remarks if "slip" in x]
    for mu in (0.1, 0.54):
        slides = da.check(slope(mu), ranges=True)
        assert slides.lifts == da.check(slope(mu)).lifts == slides.ranges.conflicts
        assert f"foot0 would slip at a coefficient of friction of {mu}" in slides.lifts[0]
        assert [x for x in da.equilibrium(slope(mu)).remarks if f"at a coefficient of friction of {mu}" in x]


@pytest.mark.parametrize("tilt", [0.29, 0.31])
def test_cone_of_friction_in_space(tilt):
    """Three feet on an incline hold if its slope is below μ, however the load is shared: tan α = 0.3."""
    pytest.importorskip("clarabel")
    side = 9.81 * np.array([0.6, 0.8]) * math.sin(math.atan(tilt))
    model = da.Model("incline", space="space", gravity=(*side, -9.81 * math.cos(math.atan(tilt))))
    block = model.body("block", mass=3.0, inertia=(1, 1, 1), position=(0, 0, 0.2))
    feet = {"a": (1, 0, 0), "b": (-1, 1, 0), "c": (-1, -1, 0)}
    for name, at in feet.items():
        model.spherical(name, model.ground, block, at=at)
    there = found(model, friction=dict.fromkeys(feet, (0.3, "Fz")))
    assert there.possible == (tilt < 0.3)
    if there.possible:
        assert there.gap < 1e-9
        lam = there.of("a")["Fx"].at_upper.reshape(3, 3)
        assert np.all(np.linalg.norm(lam[:, :2], axis=1) <= 0.3 * lam[:, 2] + 1e-9 * 30)
        assert there.worst("a").found <= there.worst("a").at_most
        assert lam[:, 2].sum() == pytest.approx(3 * 9.81 * math.cos(math.atan(tilt)))


def test_door_on_two_balls_by_hand():
    """At rest each ball holds W/2·0.5/0.75 sideways; how the weight is shared is open, up to the strength S."""
    pytest.importorskip("clarabel")
    model = da.mechanism("door-two-balls", swing=0.0)
    W, S = 10 * 9.81, 120.0
    side = W * 0.5 / 1.5
    there = found(model, strength={"top": S, "bottom": S})
    up = math.sqrt(S**2 - side**2)
    np.testing.assert_allclose(
        (there.of("top")["Fz"].lower, there.of("top")["Fz"].upper), (W - up, up), rtol=1e-9
    )  # the gap
    assert there.of("top")["Fx"].lower == pytest.approx(-side) == there.of("top")["Fx"].upper
    assert there.gap < 1e-9 and there.worst("top").found == pytest.approx(S, rel=1e-9)
    assert not found(model, strength={"top": 30.0}).possible  # the side force alone is larger


def test_door_on_two_hinges_by_hand():
    """Hinges that bear moments up to m move the side force by 2m/1.5 either way; without, it is that of balls."""
    model = da.mechanism("door-two-hinges", swing=0.0)
    W, m = 10 * 9.81, 3.0
    weak = {"Mx": m, "My": m, "Fz": 80.0}
    there = found(model, strength={"top": weak, "bottom": weak})
    side = -W * 0.5 / 1.5
    for joint, middle in (("top", side), ("bottom", -side)):
        x = there.of(joint)
        np.testing.assert_allclose((x["Fx"].lower, x["Fx"].upper), (middle - 2 * m / 1.5, middle + 2 * m / 1.5))
        np.testing.assert_allclose((x["Fy"].lower, x["Fy"].upper), (-2 * m / 1.5, 2 * m / 1.5))
        np.testing.assert_allclose((x["Fz"].lower, x["Fz"].upper), (W - 80, 80))
        np.testing.assert_allclose((x["Mx"].lower, x["Mx"].upper), (-m, m))
    assert there.gap < 1e-9 and there.centre is not None
    loose = found(model, play={"top": ["Mx", "My", "Fz"], "bottom": ["Mx", "My"]})
    assert loose.of("top")["Fx"].unique and loose.of("top")["Fx"].lower == pytest.approx(side)
    assert loose.of("bottom")["Fz"].lower == pytest.approx(W)


def test_mobile_robot_by_hand():
    """Its wheels sideways: W1 = W2 = w and 2w + W3 + W4 = 0 on a straight way."""
    model = da.mechanism("mobile-robot")
    there = found(model, strength={"W1": 0.25, "W3": 1.0})
    ends = {"W1": 0.25, "W2": 0.25, "W3": 1.0, "W4": 1.5}
    for wheel, end in ends.items():
        np.testing.assert_allclose((there.of(wheel)["Fy"].lower, there.of(wheel)["Fy"].upper), (-end, end), rtol=1e-9)
    assert there.of("W5")["Fy"].unique and there.of("B")["Fy"].upper == pytest.approx(0.25)
    assert there.gap < 1e-9
    assert math.isinf(found(model, strength={"W1": 0.25}).of("W4")["Fy"].upper)


def test_joint_coordinates_say_the_same():
    model, weak = da.mechanism("door-two-hinges"), {"Mx": 3.0, "My": 3.0, "Fz": 80.0}
    known = Known(strength={"top": weak, "bottom": weak})
    a, b = (da.check(da.build(model, coordinates=c), ranges=known).ranges for c in ("absolute", "joint"))
    for joint in ("top", "bottom"):
        for label, x in a.of(joint).items():
            y = b.of(joint)[label]
            np.testing.assert_allclose((x.lower, x.upper), (y.lower, y.upper), atol=1e-8 * 100)


# ---- over a motion ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slid():
    return da.simulate(da.build(da.mechanism("table")), 1.0, samples=6)


def test_range_over_a_motion(slid):
    data = slid.range("leg4", known=Known(push_only=LEGS))
    np.testing.assert_allclose(data["lower"].sel(component="Fz"), TABLE["leg4"][0], rtol=1e-8)  # of the integration
    np.testing.assert_allclose(data["upper"].sel(component="Fz"), TABLE["leg4"][1], rtol=1e-8)
    assert data["possible"].all() and data["inside"].all() and data.attrs["duality_gap"] < 1e-9
    value = slid.results.observed.lam[:, 3]
    np.testing.assert_allclose(data["value"].sel(component="Fz"), value, rtol=1e-12)
    world = slid.range("leg4", known=Known(push_only=LEGS), frame="world", instants=2)
    assert world.sizes["time"] == 2
    figure = slid.plot("reactions", joint="leg4", known=Known(push_only=LEGS))
    assert "all values that are possible" in figure.axes[0].get_title(loc="left").replace("\n", " ")


def test_a_rule_that_leaves_the_set_is_said(slid):
    legs = ["leg1", "leg2", "leg3"]  # without the fourth the rows that are left carry all
    eliminated = slid.with_rule(da.reactions.RowElimination(("leg1",)))
    data = eliminated.range("leg3", known=Known(push_only=legs), instants=2)
    # leg1 = 0 leaves leg3 = W − FRONT − RIGHT < 0
    assert data["possible"].all() and not data["inside"].any()
    assert f"leg3 would have to pull {FRONT + RIGHT - WEIGHT:.4g} N" in data.attrs["rule_leaves"]


def test_lift_off_is_said_with_its_time():
    """A cart pushed harder and harder at its top: N_rear = W/2 − F with F = 100 t at height 1 over feet 1 apart."""

    def cart(**how):
        model = da.Model("cart", gravity=(0, -10.0))
        body = model.body("cart", mass=10.0, inertia=1.0, position=(0, 0))
        for name, x in (("rear", -0.5), ("front", 0.5)):
            model.point_on_line(name, model.ground, body, at=(x, 0), axis=(1, 0), **how)
        model.force("push", body, ("100*t", "0"), at=(0, 1.0))
        return da.build(model)

    held = da.simulate(cart(), 0.8, samples=9)
    data = held.range("rear", known=Known(push_only=["rear", "front"]))
    assert list(data["possible"].values) == [t < 0.55 for t in data["time"].values]
    assert data.attrs["conflicts"] == "rear would have to pull 10 N: it lifts off, first at t = 0.6 s"
    assert held.lifts == ()  # nothing is one-sided
    # the same motion of a machine that says so itself
    one_sided = dataclasses.replace(held, system=cart(one_sided=True))
    assert one_sided.lifts == ("rear would have to pull 10 N: it lifts off, first at t = 0.6 s",)
    with pytest.warns(da.errors.LiftOffWarning, match="rear would have to pull 10 N: it lifts off, first at t = 0.6"):
        one_sided.reactions("front")
    (text,) = da.check(cart(one_sided=True), t=0.7).lifts
    assert text == "rear would have to pull 20 N: it lifts off"


def test_every_support_that_lifts_off_is_named():
    """A cart that is pulled up at a quarter of its length: by hand N = W/2 − 3/4 F and W/2 − 1/4 F, F = 300 t. Names
    that begin with the same word are still two supports."""
    model = da.Model("cart", gravity=(0, -10.0))
    body = model.body("cart", mass=10.0, inertia=1.0, position=(0, 0))
    feet = {"left rear": -0.5, "left front": 0.5}
    for name, x in feet.items():
        model.point_on_line(name, model.ground, body, at=(x, 0), axis=(1, 0))
    model.force("pull", body, ("0", "300*t"), at=(0.25, 0))
    data = da.simulate(da.build(model), 0.8, samples=9).range("left rear", known=Known(push_only=list(feet)))
    assert data.attrs["conflicts"] == (
        "left front would have to pull 17.5 N: it lifts off, first at t = 0.3 s; "
        "left rear would have to pull 2.5 N: it lifts off, first at t = 0.7 s"
    )


def test_bearings_of_gears_on_feet_that_may_lift():
    """The tooth force of 5 N pushes the wheels apart by tan 20° of it: the ranges are those of the reactions."""
    m = da.Model("train", gravity=(0, -9.81))
    frame = m.body("frame", mass=10, inertia=1, position=(0, 0.5))
    for k, x in enumerate((-0.5, 0.0, 0.5)):
        m.point_on_line(f"foot{k}", m.ground, frame, at=(x, 0), axis=(1, 0), one_sided=True)
    for name, x, inertia in (("a", -0.1, 0.01), ("b", 0.2, 0.04)):
        m.body(name, mass=1, inertia=inertia, position=(x, 0.6))
        m.revolute(f"pin {name}", frame, name, at=(x, 0.6))
    m.gear("mesh", joint="pin a", other="pin b", ratio=2.0)
    m.torque("motor", "a", "1.0")  # radii 0.1 and 0.2; half of it turns each wheel
    motion, radial = da.simulate(m, 0.2, samples=2), 5 * math.tan(math.radians(20))
    for joint, force in (("pin a", (radial, 9.81 + 5)), ("mesh", (radial, 5))):
        there = motion.range(joint, frame="world").isel(time=-1)
        for end in ("lower", "upper", "value"):
            np.testing.assert_allclose(there[end].values[:2], force, rtol=1e-6)  # the frame leans by nothing


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({"push_only": ["leg9"]}, "There is no joint 'leg9'; the joints are leg1"),
        ({"push_only": "leg1"}, r"must be a list of joints, such as \['leg1'\]"),
        ({"push_only": {"leg1": "Fx"}}, "'leg1' does not transmit Fx; its components are Fz"),
        ({"strength": {"leg1": -1.0}}, "strength of F of 'leg1' must be a number that is not below 0"),
        ({"strength": {"leg1": {"Fz": (2, 1)}}}, r"must rise, not \(2, 1\)"),
        ({"strength": {"leg1": {"M": 1}}}, "transmits no M"),
        ({"friction": {"leg1": float("nan")}}, "friction of 'leg1' must be a number"),
        ({"play": ["leg1"]}, "play must be a dictionary"),
    ],
)
def test_mistakes_are_named(known, says):
    with pytest.raises(da.errors.DalembertError, match=says):
        found(da.mechanism("table"), **known)


def test_a_joint_of_several_rows_needs_a_component():
    with pytest.raises(da.errors.DalembertError, match="'top' has 3 rows on positions"):
        found(da.mechanism("door-two-balls"), push_only=["top"])


# ---- the programmes themselves ---------------------------------------------------------------------------------------


def test_polytopes_against_their_corners():
    """Random polytopes in three unknowns: all corners by solving every triple of limits."""
    rng = np.random.default_rng(8)
    for _ in range(5):
        A = rng.standard_normal((9, 3))
        A = np.vstack([A / np.linalg.norm(A, axis=1)[:, None], np.eye(3), -np.eye(3)])
        b = np.concatenate([rng.uniform(0.2, 1, 9), np.ones(6)])
        c = rng.standard_normal((4, 3))
        corners = []
        for rows in map(list, itertools.combinations(range(15), 3)):
            if abs(np.linalg.det(A[rows])) > 1e-9:
                y = np.linalg.solve(A[rows], -b[rows])
                if np.min(A @ y + b) > -1e-9:
                    corners.append(c @ y)
        ends = extremes(ConvexSet(3, A, b, np.zeros((0, 3)), np.zeros(0)), c, np.zeros(4))
        np.testing.assert_allclose(ends.lower, np.min(corners, axis=0), atol=1e-9)
        np.testing.assert_allclose(ends.upper, np.max(corners, axis=0), atol=1e-9)
        assert ends.gap < 1e-9


def test_a_ball_and_a_half_line():
    pytest.importorskip("clarabel")
    ball = Cone(np.vstack([np.zeros(2), np.eye(2)]), np.array([2.0, 0, 0]))
    none = np.zeros((0, 2)), np.zeros(0)
    ends = extremes(ConvexSet(2, *none, *none, (ball,)), np.array([[3.0, 4.0]]), np.array([1.0]))
    assert ends.upper[0] == pytest.approx(11.0, abs=1e-8) and ends.gap < 1e-9
    half = ConvexSet(2, np.array([[1.0, 0]]), np.array([-1.0]), *none)
    ends = extremes(half, np.eye(2), np.zeros(2))
    assert ends.lower[0] == pytest.approx(1.0) and ends.upper[0] == np.inf and ends.lower[1] == -np.inf


def test_proof_of_an_empty_set():
    A, b = np.array([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]), np.array([-3.0, 1.0, 1.0])  # x + y ≥ 3, x ≤ 1, y ≤ 1
    empty = extremes(ConvexSet(2, A, b, np.zeros((0, 2)), np.zeros(0)), np.eye(2), np.zeros(2)).empty
    assert empty is not None
    np.testing.assert_allclose(A.T @ empty.linear, 0, atol=1e-12)
    assert empty.linear.min() >= 0 and -b @ empty.linear == pytest.approx(empty.short) == 1 / 3


def test_centre_of_a_triangle():
    """Of x, y ≥ 0, x + y ≤ 1 the product of the distances is largest in (1/3, 1/3)."""
    A, b = np.array([[1.0, 0], [0, 1], [-1, -1]]), np.array([0.0, 0, 1])
    at = analytic_centre(ConvexSet(2, A, b, np.zeros((0, 2)), np.zeros(0)), np.array([0.1, 0.2]))
    np.testing.assert_allclose(at, 1 / 3, rtol=1e-9)


# ---- the command line and the report ------------------------------------------------------------------------------


def test_command_line():
    push = [x for leg in LEGS for x in ("--push-only", leg)]
    found = json.loads(in_process("check", "table", *push, "--json").stdout)["ranges"]
    assert found["possible"] and found["duality_gap"] < 1e-9
    for x in found["ranges"]:
        np.testing.assert_allclose((x["lower"], x["upper"]), TABLE[x["joint"]], atol=1e-9)
    text = in_process("check", "table", *push, "--strength", "leg1=30").stdout
    assert "the supports cannot carry the load" in text and "F of leg1 exceeds its strength" in text
    assert "Fz unbounded" in in_process("check", "table", "--ranges").stdout
    wrong = in_process("check", "table", "--play", "leg1")
    assert wrong.returncode == 2 and "write JOINT.COMPONENT" in wrong.stderr
    wrong = in_process("check", "table", "--friction", "leg9=0.5")
    assert wrong.returncode == 2 and "There is no joint 'leg9'" in wrong.stderr


def test_report_shows_bands_and_warnings(slid, tmp_path):
    page = da.report(slid.with_rule("eliminated"), tmp_path / "table.html", known=Known(push_only=LEGS)).read_text()
    assert "all values that are possible" in page and "36.79 … 110.4" in page
    # without leg 4 the rows that are left carry all: leg2 = FRONT − RIGHT < 0
    words = f"leave what is possible: leg2 would have to pull {RIGHT - FRONT:.4g} N: it lifts off, first at t = 0 s"
    assert words in page


def words_of(solution, known=None) -> str:
    """What stands in a report, without its pictures."""
    found = da.check(solution, ranges=known if known else False)
    blocks = [b for section in sections_of(found, solution.system, solution, known) for b in section.blocks]
    return " ".join(b.text for b in blocks if isinstance(b, Words))


def test_report_says_who_would_have_to_pull(slid):
    assert "leave what is possible" not in words_of(slid, Known(push_only=LEGS))
    tipping = da.simulate(da.build(three_legs(one_sided=True)).plain(), 0.1, samples=3)
    assert f"{LIFTED}, first at t = 0 s." in words_of(tipping)
    moved = da.simulate(three_legs(one_sided=True), 0.1, samples=3)
    assert f"{LIFTED}, at t = 0 s." in words_of(moved)
    assert "lift-offs: 'leg1' at t = 0 s." in words_of(moved)


def test_ranges_of_a_table_that_is_lifted():
    """Pulled up at leg 1 by 200 t: leg 1 lifts when the largest force it could have is gone, at FRONT/200 s; what a
    rule picks before that leaves the set, and it is said."""
    model = da.Model("table", space="space", gravity=(0, 0, -9.81))
    top = model.body("top", mass=20.0, inertia=(1.2, 2.5, 3.6), position=(0.15, 0.05, 0.7))
    for k, (x, y) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        at = (0.6 * x, 0.4 * y, 0)
        model.point_in_plane(f"leg{k + 1}", model.ground, top, at=at, normal=(0, 0, 1), one_sided=True)
    model.force("lift", top, (0, 0, "200*t"), at=(0.6, 0.4, 0.7))
    lifted = da.simulate(model, 0.7, samples=15)
    data = lifted.range("leg1")
    t, upper = data["time"].values, data["upper"].sel(component="Fz").values
    np.testing.assert_allclose(upper, np.maximum(FRONT - 200 * t, 0), atol=1e-7 * WEIGHT)  # of the event
    np.testing.assert_allclose(
        data["lower"].sel(component="Fz"), np.maximum(TABLE["leg1"][0] - 200 * t, 0), atol=1e-7 * WEIGHT
    )
    assert data["possible"].all() and lifted.lifts == ()
    assert list(data["inside"].values) == [not 0.43 < x < FRONT / 200 for x in t]
    assert "leg1 would have to pull" in data.attrs["rule_leaves"]
