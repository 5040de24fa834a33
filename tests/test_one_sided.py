"""One-sided joints: lift-off, impacts, stops, play, and time steps, against closed forms and an own time stepper."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import dalembert as da
from dalembert._results import DalembertError, ModelError, SimulationError
from dalembert.linalg import least
from dalembert.simulation import simulate_stepping
from dalembert.simulation._impacts import Instantly, terms_at
from dalembert.systems import all_closed

G = 9.81
DOWN = (0.0, -G)


# ---- the shortest vector ---------------------------------------------------------------------------------------------


def test_the_shortest_vector_meets_its_conditions():
    """Karush, Kuhn and Tucker's conditions, which are enough for this convex problem, with dependent rows."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        G_, E = rng.standard_normal((5, 6)), rng.standard_normal((2, 6))
        G_[4], E[1] = G_[:2].sum(0), 2 * E[0]
        g, e = G_ @ rng.standard_normal(6) - rng.uniform(0, 1, 5), np.array([0.3, 0.6])
        x, mu, nu, _ = least(G_, g, E, e)
        if x is None:
            continue
        assert np.all(G_ @ x - g > -1e-9)
        assert np.allclose(E @ x, e, atol=1e-9)
        assert np.all(mu >= 0)
        assert np.all(mu * (G_ @ x - g) < 1e-8 * (1 + mu.max()))
        assert np.allclose(x, G_.T @ mu + E.T @ nu, atol=1e-8)


def test_what_nothing_meets_is_said():
    assert least(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, 1.0]), np.zeros((0, 2)), np.zeros(0)).x is None
    assert least(np.zeros((0, 2)), np.zeros(0), np.array([[1.0, 0], [1.0, 0]]), np.array([1.0, 2.0])).x is None


# ---- the bouncing ball -----------------------------------------------------------------------------------------------


def ball(space="plane", unit=1.0, **contact) -> da.Model:
    """A ball of radius 0.1 that falls 1 m."""
    plane = space == "plane"
    up = np.eye(2 if plane else 3)[-1] * unit
    m = da.Model("ball", space=space, gravity=-G * up)
    b = m.body("ball", mass=1.0, inertia=0.1 if plane else (0.1, 0.1, 0.1), position=1.1 * up)
    numbers = {"radius": 0.1 * unit, "restitution": 0.5} | contact
    m.contact("floor", m.ground, b, point=0 * up, normal=up / unit, **numbers)
    return m


@pytest.mark.parametrize(("space", "coordinates", "impact", "unit"), [
    ("plane", "absolute", "newton", 1.0), ("space", "joint", "poisson", 1e3),
])  # fmt: skip
def test_bouncing_ball(space, coordinates, impact, unit):
    """Times, speeds and the accumulation point in closed form: flights of 2 v₀ εᵏ/g after √(2h/g)."""
    system = da.build(ball(space, unit, impact=impact), coordinates=coordinates)
    s = da.simulate(system, 2.0, samples=21)
    assert isinstance(system.closed, tuple)
    eps, v0 = 0.5, math.sqrt(2 * G)
    t1 = math.sqrt(2 / G)
    found = s.phases.impacts
    exact = [t1 + sum(2 * v0 * eps**k / G for k in range(1, n + 1)) for n in range(len(found))]
    assert np.allclose([i.t for i in found], exact, atol=1e-10)  # 22 flights, each to 1e-12
    speeds = [math.sqrt(2 * i.energy_before) / unit for i in found]
    assert np.allclose(speeds, [v0 * eps**k for k in range(len(found))], atol=1e-9)
    end = t1 + 2 * v0 / G * eps / (1 - eps)
    # bounces lower than 1e-13 of the machine are over: √(8e-13/g) is left of the time
    assert abs(found[-1].t - end) < 2e-6
    assert len(found) > 20
    closed = s.phases.of("floor")[-1]
    assert closed.state == "closed"
    assert closed.start == found[-1].t
    assert np.allclose(np.linalg.norm(s.reactions("floor").force.values[-1]), G * unit, rtol=1e-12)
    assert not s.reactions("floor").force.values[0].any()
    assert s.energy_drift < 1e-12
    # heights between the impacts, by marching again
    t = np.array([0.5, 0.9, 1.2])
    up = -2 if space == "plane" and coordinates == "absolute" else None
    heights = []
    for x in t:
        k = sum(1 for e in exact if e <= x) - 1
        dt = x - exact[k]
        heights.append(0.1 + v0 * eps ** (k + 1) * dt - G * dt**2 / 2)
    if up is not None:
        assert np.allclose(s.states(t).q[:, 1], heights, atol=1e-11)


def test_a_ball_that_keeps_its_energy():
    s = da.simulate(ball(restitution=1.0), 3.0, samples=31)
    times = [(2 * k + 1) * math.sqrt(2 / G) for k in range(3)]
    assert [i.t for i in s.phases.impacts] == pytest.approx(times, abs=1e-11)
    assert s.phases.lift_offs == []
    assert s.energy_drift < 1e-12


# ---- several contacts at once ----------------------------------------------------------------------------------------


@functools.cache
def bed(impact: str):
    """A table on five legs with an arm on two hinges (redundant), a foot and a cable."""
    m = da.Model("bed", space="space", gravity=(0, 0, -G))
    top = m.body("top", mass=20, inertia=(1, 1, 2), position=(0.15, 0.05, 0.7))
    arm = m.body("arm", mass=3, inertia=(0.1, 0.2, 0.2), position=(1.0, 0, 0.7))
    law = {"one_sided": True, "impact": impact}
    for k, (x, y) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1), (0, 0)]):
        m.point_in_plane(f"leg{k + 1}", m.ground, top, at=(x * 0.6, y * 0.4, 0), normal=(0, 0, 1), **law)
    for k, y in enumerate((0.2, -0.2)):
        m.revolute(f"hinge{k + 1}", top, arm, at=(0.6, y, 0.7), axis=(0, 1, 0))
    m.point_in_plane("tip", m.ground, arm, at=(1.4, 0, 0.7), normal=(0, 0, 1), **law)
    m.distance("cable", top, arm, at_i=(0, 0, 0.9), at_j=(1.2, 0, 0.7), **law)
    system = da.build(m)
    whole = all_closed(system).plain()
    found = terms_at(whole, np.zeros(1), whole.q0[None], whole.v0[None])
    return system, whole.m_holonomic, [np.asarray(x)[0] for x in found]


@pytest.mark.parametrize("impact", ["newton", "poisson"])
def test_random_impacts_never_gain_energy(impact):
    """500 impacts of a redundant machine for each law: energy, signs, momentum, and the law itself."""
    rng = np.random.default_rng(0)
    system, holonomic, (M, h, C, Phi, _, Gamma) = bed(impact)
    worst, met = -np.inf, 0
    for n in range(500):
        v = rng.standard_normal(len(M))
        first = Instantly(system.touches, holonomic, v, (M, h, C, Phi, C @ v, Gamma))
        B = C[first.both]
        v = v - np.linalg.pinv(B) @ (B @ v)
        at = Instantly(system.touches, holonomic, v, (M, h, C, Phi, C @ v, Gamma))
        acting = at.rate <= 0
        # Poisson's law refuses different restitutions where impulses are not unique
        several = bool(n % 2) and impact == "newton"
        eps = rng.uniform(0, 1, len(acting)) if several else np.full(len(acting), rng.uniform(0, 1))
        if not acting.any():
            continue
        met += 1
        after = at.struck(acting, eps)
        rate = at.signs * (C @ after.v)[at.rows]
        worst = max(worst, (after.after - after.before) / after.before)
        assert np.all(after.impulse >= 0)
        assert np.max(np.abs(B @ after.v)) < 1e-9
        bound = -eps * at.rate if impact == "newton" else 0 * eps
        assert np.all((rate - bound)[acting] > -1e-9)
        if impact == "newton":
            assert np.all(np.abs((rate - bound) * after.impulse)[acting] < 1e-7)
        # momentum changes by impulses of the rows alone
        left = M @ (after.v - v) - C[at.rows].T @ (at.signs * after.impulse)
        U, sizes, _ = np.linalg.svd(B.T)
        Q = U[:, : np.sum(sizes > 1e-9)]
        assert np.max(np.abs(left - Q @ (Q.T @ left))) < 1e-9
    assert met > 400
    assert worst < 1e-12


@pytest.mark.parametrize("impact", ["newton", "poisson"])
def test_newtons_cradle_of_three(impact):
    """Struck at once the two that touch leave together, with both laws: −1/3, 2/3, 2/3 of the speed; no wave passes."""
    m = da.Model("cradle", gravity=(0, 0))
    balls = []
    for k, x in enumerate((-0.5, 0.0, 0.2)):
        b = m.body(f"b{k}", mass=2.0, inertia=0.01, position=(x, 0), velocity=(1.0 if k == 0 else 0.0, 0))
        m.prismatic(f"rail{k}", m.ground, b, at=(x, 0), axis=(1, 0))
        balls.append(b)
    for k in (0, 1):
        touch = {"radius": 0.1, "radius_i": 0.1, "restitution": 1.0, "impact": impact}
        m.contact(f"c{k}", balls[k], balls[k + 1], **touch)
    s = da.simulate(m, 0.6, samples=3)
    (impact_,) = s.phases.impacts
    assert impact_.t == pytest.approx(0.3, abs=1e-12)
    assert np.allclose(s.v[-1][::3], [-1 / 3, 2 / 3, 2 / 3], atol=1e-10)
    assert impact_.impulses == pytest.approx({"c0": 8 / 3, "c1": 4 / 3})
    assert abs(impact_.energy_lost) < 1e-12


def test_a_table_that_falls_flat_says_what_is_not_unique():
    m = da.Model("table", space="space", gravity=(0, 0, -G))
    top = m.body("top", mass=20, inertia=(1, 1, 2), position=(0.15, 0.05, 0.8))
    floor = {"point": (0, 0, 0), "normal": (0, 0, 1), "restitution": 0.1}
    for k, (x, y) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        m.contact(f"leg{k + 1}", m.ground, top, at=(x * 0.6, y * 0.4, 0.1), **floor)
    s = da.simulate(m, 1.0, samples=5)
    first = s.phases.impacts[0]
    assert not any(first.unique.values())
    assert sum(first.impulses.values()) == pytest.approx(20 * math.sqrt(2 * G * 0.1) * 1.1, rel=1e-12)
    assert s.energy_drift < 1e-10
    assert s.redundancy == 1
    with pytest.warns(da.errors.RedundancyWarning):
        forces = [s.reactions(f"leg{k}").force.values[-1, 2] for k in (1, 2, 3, 4)]
    assert sum(forces) == pytest.approx(20 * G)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_a_table_with_its_load_outside_its_base_lifts_off(coordinates):
    """Three legs; leg1 would have to pull. The table tips about the line of the others: its first acceleration."""
    m = da.Model("table", space="space", gravity=(0, 0, -G))
    top = m.body("top", mass=20, inertia=(1, 1, 2), position=(0.7, 0, 0.7))
    for k, (x, y) in enumerate([(-0.5, 0), (0.5, 0.4), (0.5, -0.4)]):
        m.point_in_plane(f"leg{k + 1}", m.ground, top, at=(x, y, 0), normal=(0, 0, 1), one_sided=True)
    s = da.simulate(da.build(m, coordinates=coordinates), 0.3, samples=4)
    assert [p.state for p in s.phases.of("leg1")] == ["open"]
    assert [p.state for p in s.phases.of("leg2")] == ["closed"]
    # frictionless legs: the centre falls straight, 20 z̈ = 2F − 20 g, z̈ = −0.2 ω̇, ω̇ = 0.2 · 2F / 1
    F = 20 * G / (1 + 20 * 0.2**2) / 2
    assert s.reactions("leg2").force.values[0, 2] == pytest.approx(F, rel=1e-12)
    assert not s.reactions("leg1").force.values.any()
    assert s.energy_drift < 1e-9


def test_a_shared_force_lifts_off_when_no_share_is_left():
    """Four legs: a load that grows at one corner lifts the opposite leg when a support line passes the resultant."""
    m = da.Model("table", space="space", gravity=(0, 0, -G))
    top = m.body("top", mass=20, inertia=(1, 1, 2), position=(0, 0, 0.7))
    for k, (x, y) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        m.point_in_plane(f"leg{k + 1}", m.ground, top, at=(x, y, 0), normal=(0, 0, 1), one_sided=True)
    m.force("push", top, ("0", "0", "-100*t"), at=(1.5, 0, 0.7))
    s = da.simulate(m, 4.2, samples=3)
    # moments about the line x = 1 of legs 1 and 4: 20 g · 1 = 100 t · 0.5
    t = 20 * G / 50
    assert sorted(s.phases.lift_offs) == [(pytest.approx(t, abs=1e-7), "leg2"), (pytest.approx(t, abs=1e-7), "leg3")]


# ---- cables, stops, wheels -------------------------------------------------------------------------------------------


def test_a_cable_goes_slack_and_snaps_taut():
    """Thrown up with 3 m/s it is slack for 2v/g and stops with the impulse m v; two bodies share their momentum."""
    m = da.Model("cable", gravity=DOWN)
    bob = m.body("bob", mass=2.0, inertia=0.1, position=(0, -1.0), velocity=(0, 3.0))
    m.distance("cable", m.ground, bob, at_i=(0, 0), length=1.0, one_sided=True)
    m.body("a", mass=1.0, inertia=0.1, position=(5, 0), velocity=(0.0, 0.0))
    m.body("b", mass=3.0, inertia=0.1, position=(5.5, 0), velocity=(2.0, 0.0))
    m.distance("tow", "a", "b", length=1.0, one_sided=True, restitution=0.5)
    s = da.simulate(m, 1.0, samples=11)
    taut = {name: i for i in s.phases.impacts for name in i.impulses}
    assert taut["cable"].t == pytest.approx(6 / G, abs=1e-12)
    assert taut["cable"].impulses == {"cable": pytest.approx(6.0, rel=1e-12)}
    assert taut["tow"].t == pytest.approx(0.25, abs=1e-12)
    # reduced mass 3/4, relative speed 2, restitution 1/2
    assert taut["tow"].impulses == {"tow": pytest.approx(0.75 * 2 * 1.5, rel=1e-12)}
    v = s.states([0.26]).v[0]
    assert 1.0 * v[3] + 3.0 * v[6] == pytest.approx(6.0, rel=1e-12)
    assert s.reactions("cable").force.values[-1, 1] == pytest.approx(2 * G, rel=1e-9)
    assert s.energy_drift < 1e-12


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_limits_are_stops(coordinates):
    """A slider between two stops: 1 s there, 1.5/0.8 s back, 1.5/0.64 s there again."""
    s = da.simulate(da.build(rail(restitution=0.8), coordinates=coordinates), 6.0, samples=7)
    assert [i.t for i in s.phases.impacts] == pytest.approx([1.0, 1 + 1.5 / 0.8, 1 + 1.5 / 0.8 + 1.5 / 0.64], abs=1e-11)
    assert s.phases.impacts[0].impulses == {"ends[2]": pytest.approx(3.6)}
    soft = da.simulate(rail(stiffness=1e6), 6.0, samples=7)
    assert np.allclose(np.abs(soft.v[:, 0]), 1.0, atol=1e-6)
    assert soft.phases is None
    assert da.simulate(rail(), 6.0, samples=3).v[-1, 0] == 1.0


def rail(**limit) -> da.Model:
    m = da.Model("rail", gravity=(0, 0))
    b = m.body("slider", mass=2.0, inertia=0.1, velocity=(1.0, 0))
    m.prismatic("rail", m.ground, b, at=(0, 0), axis=(1, 0))
    m.limit("ends", "rail", lower=-0.5, upper=1.0, **limit)
    return m


def trapdoor(space="plane", what="tip.y", **limit) -> da.Model:
    """A bar of 1 m and 1 kg on a hinge, let go when level; something measured of it has an end."""
    z = () if space == "plane" else (0.0,)
    m = da.Model("trapdoor", space=space, gravity=(0, -G, *z))
    bar = m.body("bar", mass=1.0, inertia=1 / 12 if space == "plane" else (1 / 12,) * 3, position=(0.5, 0, *z))
    m.revolute("hinge", m.ground, bar, at=(0, 0, *z), **({"axis": (0, 0, 1)} if z else {}))
    m.measure("tip", "point", body=bar, at=(1, 0, *z))
    m.measure("reach", "distance", i=m.ground, j=bar, at_i=(1, 0, *z), at_j=(1, 0, *z))
    m.measure("turned", "coordinate", joint="hinge")
    m.measure("work", "energy", body=bar)
    m.limit("end", measurement=what, **limit)
    return m


@pytest.mark.parametrize(("space", "coordinates", "what", "end"), [
    ("plane", "absolute", "tip.y", {"lower": -0.5}),
    ("plane", "joint", "reach", {"upper": 2 * math.sin(math.pi / 12)}),
    ("space", "absolute", "turned", {"lower": -math.pi / 6}),
    ("space", "joint", "tip.y", {"lower": -0.5}),
])  # fmt: skip
def test_limits_of_measured_positions(space, coordinates, what, end, tmp_path):
    """ω² = 3 g sin α; the impulse p of a stop that a measured number s(α) has: p ds/dα = (1 + ε) ω/3."""
    rate = {"tip.y": math.cos(math.pi / 6), "reach": math.cos(math.pi / 12), "turned": 1.0}[what]
    model = trapdoor(space, what, restitution=0.5, **end)
    system = da.build(model, coordinates=coordinates)
    first = da.simulate(system, 0.5, samples=6).phases.impacts[0]
    # α = π/6 cuts the fall: ∫ dα/√(3 g sin α), with α = u² smooth at 0
    u, weights = np.polynomial.legendre.leggauss(30)
    top = math.sqrt(math.pi / 6)
    u = (u + 1) / 2 * top
    exact = float(np.sum(weights / 2 * top * 2 * u / np.sqrt(3 * G * np.sin(u**2))))
    assert first.t == pytest.approx(exact, abs=1e-9)
    assert first.impulses == {"end": pytest.approx(1.5 * math.sqrt(1.5 * G) / 3 / rate, rel=1e-8)}
    da.save(model, tmp_path / "model.yaml")
    again = da.load(tmp_path / "model.yaml")
    assert da.simulate(da.build(again, coordinates=coordinates), 0.5, samples=6).phases.impacts[0].t == first.t
    # an elastic one: at rest it yields by the load over its stiffness, and a bit more for its smooth beginning
    soft = da.simulate(da.build(trapdoor(space, what, stiffness=1e5, damping=1e4, **end), coordinates=coordinates), 3.0)
    (limit,) = end.values()
    load = G / 2 * math.cos(math.pi / 6) / rate
    assert 0.5 < abs(soft.measurements[what].values[-1] - limit) / (load / 1e5) < 30


def test_limits_of_measurements_are_refused_with_a_reason():
    for what, words, match in (
        ("tip", {"lower": 0.0}, r"measurement 'tip' is several numbers; name one: tip\.x, tip\.y"),
        ("tpi.y", {"lower": 0.0}, r"there is no measurement 'tpi\.y'.*tip\.y"),
        ("work.kinetic", {"upper": 1.0}, r"'work\.kinetic' is no position of a point, distance, angle or joint"),
        ("tip.vy", {"upper": 1.0}, r"'tip\.vy' is no position"),
        ("tip.y", {"lower": 0.0, "effort": 1.0}, r"effort belongs to the limit of a joint"),
        ("tip.y", {"lower": 0.5, "restitution": 0.5}, r"'end' starts 0\.5 beyond its limit"),
        ("tip.y", {"lower": 0.5, "upper": 0.1}, r"lower=0\.5 must not be greater than upper=0\.1"),
        ("tip.y", {"joint": "hinge", "lower": 0.1}, r"give the joint or the measurement that it limits, one of them"),
    ):
        with pytest.raises(DalembertError, match=match):
            da.build(trapdoor("plane", what, **words))
    with pytest.raises(ModelError, match=r"lower=-4 is out of reach: in space an angle is in \(−π, π\]"):
        da.build(trapdoor("space", "turned", lower=-4.0, restitution=0.5))
    assert da.simulate(trapdoor(lower=-0.5), 1.0).measurements["tip.y"].values.min() < -0.9  # information alone


def test_a_stop_with_one_end_is_not_passed_from_behind():
    """In space turns are not counted: half a turn on, the angle jumps past the stop."""
    m = trapdoor("space", "turned", upper=2.0, restitution=0.5)
    m.replace("bar", angular_velocity=(0, 0, -12.0), velocity=(0, -6.0, 0))
    with pytest.raises(SimulationError, match=r"the gap of 'end' jumps to .*passes half a turn there.*both ends"):
        da.simulate(m, 1.0)
    with pytest.raises(DalembertError, match=r"'end' of 'trapdoor' has one end, on an angle in space"):
        simulate_stepping(m, 1.0, dt=1e-3)


def test_a_wheel_lifts_and_lands():
    """A car of two axles; a plate under its front wheel drops away by ½ a t² with a > g: it flies, lands, and rolls."""
    m = da.Model("car", space="space", gravity=(0, 0, -G))
    car = m.body("car", mass=10, inertia=(1, 2, 2), position=(0, 0, 0.5))
    wheels = [(0.5, 0.4), (0.5, -0.4), (-0.5, 0.4), (-0.5, -0.4)]
    plate = m.body("plate", mass=1, inertia=(1, 1, 1), position=(0.5, 0.4, -0.1))
    m.prismatic("lift", m.ground, plate, at=(0.5, 0.4, -0.1), axis=(0, 0, 1))
    m.driver("bump", "lift", "0.05*sin(20*t)**2")
    for k, (x, y) in enumerate(wheels):
        under = plate if k == 0 else m.ground
        m.contact(f"wheel{k + 1}", under, car, at=(x, y, 0.2), radius=0.2, normal=(0, 0, 1))
    s = da.simulate(m, 0.4, samples=9)
    assert s.phases.lift_offs
    assert any("wheel1" in i.impulses for i in s.phases.impacts)  # it lands
    assert s.violation["position"] < 1e-9
    for name in ("wheel1", "wheel2", "wheel3", "wheel4"):
        assert np.all(s.reactions(name, rule="minimum_norm").force.values[:, 2] > -60)
    gaps = s.q[:, 2] - 0.5
    assert np.max(gaps) > 0.01


def test_rolling_wheels_land_without_slip():
    m = da.Model("wheel", gravity=DOWN)
    w = m.body("w", mass=2.0, inertia=0.04, position=(0, 0.5), velocity=(3.0, 0))
    m.rolling_disc("road", m.ground, w, radius=0.2, at=(0, 0.2), normal=(0, 1), one_sided=True)
    with pytest.raises(ModelError, match=r"restitution must be 0"):
        m2 = da.Model("x")
        b = m2.body("b", mass=1, inertia=1, position=(0, 1))
        m2.rolling_disc("road", m2.ground, b, radius=1, one_sided=True, restitution=0.5)
        da.build(m2)
    m.remove("road")
    m.contact("road", m.ground, w, at=(0, 0.5), point=(0, 0), radius=0.2, normal=(0, 1), slips=False)
    s = da.simulate(m, 0.5, samples=3)
    assert s.phases.impacts[0].t == pytest.approx(math.sqrt(0.6 / G), abs=1e-12)
    # angular momentum about the contact point: 2 · 3 · 0.2 = (0.04 + 2 · 0.04) ω
    assert s.v[-1] == pytest.approx([0.2 * 10.0, 0.0, -10.0], abs=1e-9)


# ---- the rocking block -----------------------------------------------------------------------------------------------


def block(**contact) -> da.Model:
    """A block of half sizes a, h on its left corner, turning towards its right one."""
    a, h, tilt, rate = 0.1, 0.4, 0.05, -0.5
    m = da.Model("block", gravity=DOWN)
    R = np.array([[math.cos(tilt), -math.sin(tilt)], [math.sin(tilt), math.cos(tilt)]])
    c = R @ np.array([a, h])
    motion = {"velocity": (-rate * c[1], rate * c[0]), "angular_velocity": rate}
    b = m.body("block", mass=1.0, inertia=(a * a + h * h) / 3, position=c, angle=tilt, **motion)
    for name, at in (("left", (0, 0)), ("right", R @ np.array([2 * a, 0]))):
        m.contact(name, m.ground, b, at=at, point=(0, 0), normal=(0, 1), **contact)
    return m


def test_rocking_block():
    """Housner's ratio of the energies, (1 − 3/2 sin²α)², and the time of a swing by its energy integral."""
    s = da.simulate(block(slips=False), 1.0, samples=11)
    found = s.phases.impacts
    ratio = (1 - 1.5 * math.sin(math.atan2(0.1, 0.4)) ** 2) ** 2
    assert [i.energy_after / i.energy_before for i in found] == pytest.approx([ratio] * 3, rel=1e-9)
    assert [list(i.impulses) for i in found] == [["right"], ["left"], ["right"]]
    assert s.energy_drift < 1e-7  # of the integration, at its tolerance of 1e-8
    # between the first two it swings up and back over the right corner: ω² = ω₀² − 2 m g (Δheight)/J
    J, R, alpha = 4 / 3 * 0.17, math.sqrt(0.17), math.atan2(0.1, 0.4)
    w0 = math.sqrt(2 * found[0].energy_after / J)
    top = alpha - math.acos(math.cos(alpha) + 0.5 * J * w0**2 / (G * R))
    u = (np.arange(4000) + 0.5) / 4000 * math.pi / 2  # θ = top sin u removes the singular end
    theta = top * np.sin(u)
    speed = np.sqrt(w0**2 - 2 * G * R / J * (np.cos(alpha - theta) - math.cos(alpha)))
    swing = 2 * np.sum(top * np.cos(u) / speed) * (math.pi / 2 / 4000)
    assert found[1].t - found[0].t == pytest.approx(swing, rel=1e-6)


def test_time_steps_converge_to_the_events():
    """Moreau–Jean with friction that holds, first order: the error falls with the step."""
    exact = da.simulate(block(slips=False), 0.4, samples=[0.4]).q[-1]
    errors = []
    for dt in (1e-3, 2.5e-4):
        motion = simulate_stepping(block(friction=5.0), 0.4, dt=dt, every=int(0.4 / dt))
        errors.append(np.max(np.abs(np.asarray(motion.q)[-1] - exact)))
    assert errors[1] < 2e-3
    assert errors[1] < 0.6 * errors[0]


def test_time_steps_in_batches():
    """One program for many restitutions; each as alone."""
    import jax

    system = da.build(ball())
    values = np.array([0.0, 0.5, 0.9])

    def run(e):
        return simulate_stepping(system.replace({"floor.restitution": e}), 0.8, dt=2e-3, every=400).q[-1, 1]

    together = jax.vmap(run)(values)
    assert np.allclose(together, [float(run(e)) for e in values], atol=1e-12)
    t1, v0 = math.sqrt(2 / G), math.sqrt(2 * G)
    dt = 0.8 - t1
    exact = [0.1, *(0.1 + v0 * e * dt - G * dt**2 / 2 for e in (0.5, 0.9))]
    assert np.allclose(together, exact, atol=2e-2)  # first order: v₀ dt = 9e-3


def test_coulomb_friction_by_time_steps():
    """A block thrown along the floor slides v²/(2 μ g) and stays."""
    m = da.Model("slide", gravity=DOWN)
    b = m.body("b", mass=1.0, inertia=10.0, position=(0, 0.1), velocity=(1.0, 0))
    for k, x in enumerate((-0.5, 0.5)):
        m.contact(f"foot{k}", m.ground, b, at=(x, 0.0), point=(0, 0), normal=(0, 1), friction=0.4)
    motion = simulate_stepping(m, 0.5, dt=1e-3, every=500)
    assert np.asarray(motion.q)[-1, 0] == pytest.approx(1 / (2 * 0.4 * G), abs=1e-3)
    assert abs(np.asarray(motion.v)[-1, 0]) < 1e-10
    assert np.asarray(motion.q)[-1, 0] == pytest.approx(da.simulate(m, 0.5, samples=[0.5]).q[-1, 0], abs=1e-3)


# ---- a slider with play in its guide ---------------------------------------------------------------------------------

L1, L2, PLAY, SPEED, LONG = 0.153, 0.306, 1e-3, 150.0, 0.05
MASSES, INERTIAS = (0.038, 0.038, 0.076), (7.4e-5, 5.9e-4, 2.7e-6)


def crank() -> da.Model:
    """Lengths, play, speed and restitution of the slider-crank of Flores, Leine, Glocker (2010), without friction."""
    m = da.Model("crank", gravity=DOWN)
    w2 = -SPEED * L1 / L2 * 1.0
    starts = ((L1 / 2, 0), SPEED * L1 / 2, SPEED), ((L1 + L2 / 2, 0), SPEED * L1 / 2, w2), ((L1 + L2, 0), 0.0, 0.0)
    A, B, C = (
        m.body(name, mass=mass, inertia=J, position=at, velocity=(0, up), angular_velocity=w)
        for name, mass, J, (at, up, w) in zip(("crank", "rod", "slider"), MASSES, INERTIAS, starts, strict=True)
    )
    m.revolute("main", m.ground, A, at=(0, 0))
    m.revolute("big", A, B, at=(L1, 0))
    m.revolute("small", B, C, at=(L1 + L2, 0))
    m.prismatic("guide", m.ground, C, at=(L1 + L2, 0), axis=(1, 0), clearance=PLAY, length=LONG, restitution=0.4)
    return m


def own_stepper(t_end: float, dt: float) -> np.ndarray:
    """The same in three angles, by hand: Moreau's midpoint with Gauss–Seidel; returns the angles at the end."""
    th, w = np.zeros(3), np.array([SPEED, -SPEED * L1 / L2, 0.0])
    g = np.array([0.0, -G])
    for _ in range(round(t_end / dt)):
        th = th + 0.5 * dt * w
        e = np.stack([np.cos(th), np.sin(th)], 1)
        n = np.stack([-np.sin(th), np.cos(th)], 1)
        M, h = np.diag(np.array(INERTIAS)), np.zeros(3)
        for m, (a, b) in zip(MASSES, ((L1 / 2, 0.0), (L1, L2 / 2), (L1, L2)), strict=True):
            J = np.stack([a * n[0], b * n[1], np.zeros(2)], 1)
            M = M + m * J.T @ J
            h += m * J.T @ (g + a * w[0] ** 2 * e[0] + b * w[1] ** 2 * e[1])
        new = w + dt * np.linalg.solve(M, h)
        y, half = L1 * e[0, 1] + L2 * e[1, 1], LONG / 2
        ends = [(r, s) for r in (1, -1) for s in (1, -1)]
        rows = np.array([[-s * L1 * e[0, 0], -s * L2 * e[1, 0], -s * r * half * e[2, 0]] for r, s in ends])
        gaps = np.array([PLAY - s * (y + r * half * e[2, 1]) for r, s in ends])
        on = gaps <= 0
        if on.any():
            N = rows[on]
            W, before, free = N @ np.linalg.solve(M, N.T), N @ w, N @ new
            lam = np.zeros(len(N))
            for _ in range(200):
                for k in range(len(N)):
                    rate = W[k] @ lam + free[k] + 0.4 * min(before[k], 0.0)
                    lam[k] = max(0.0, lam[k] - rate / W[k, k])
            new = new + np.linalg.solve(M, N.T @ lam)
        w = new
        th = th + 0.5 * dt * w
    return th


def test_slider_in_a_guide_with_play():
    """Until its bounces pile up, against an independent time stepper of first order at a short step."""
    t = 8e-3
    s = da.simulate(crank(), t, samples=[t])
    times = [i.t for i in s.phases.impacts]
    assert len(times) == 3
    assert s.energy_drift < 1e-9
    angles = s.q[-1].reshape(3, 3)[:, 2]
    coarse, fine = (np.max(np.abs(own_stepper(t, dt) - angles)) for dt in (8e-6, 2e-6))
    assert fine < 1e-3
    assert fine < coarse
    # the slider's height in its play
    y = s.q[-1].reshape(3, 3)[2, 1]
    assert abs(y) < PLAY


def test_play_in_space():
    """A pin, a ball, a rod in a sleeve and a slider fall through their play and come to rest in it."""
    m = da.Model("play", space="space", gravity=(0, 0, -G))
    loose = {"clearance": 1e-3}
    bodies = [m.body(n, mass=1.0, inertia=(0.1, 0.2, 0.3), position=(0, k, 0)) for k, n in enumerate("abcd")]
    m.spherical("ball", m.ground, bodies[0], at=(0, 0, 0), **loose)
    m.revolute("pin", m.ground, bodies[1], at=(0, 1, 0), axis=(0, 1, 0), **loose)
    m.cylindrical("rod", m.ground, bodies[2], at=(0, 2, 0), axis=(1, 0, 0), length=0.2, **loose)
    m.prismatic("slider", m.ground, bodies[3], at=(0, 3, 0), axis=(1, 0, 0), length=0.2, **loose)
    s = da.simulate(m, 0.1, samples=3)
    assert s.phases.impacts[0].t == pytest.approx(math.sqrt(2e-3 / G), abs=1e-12)
    assert set(s.phases.impacts[0].impulses) == {"ball", "pin", "rod[1]", "rod[2]", "slider[1]", "slider[2]"}
    assert np.allclose(s.q[-1].reshape(4, 7)[:, 2], -1e-3, atol=1e-12)
    for name in ("ball", "pin", "rod", "slider"):
        assert s.reactions(name).force.values[-1, 2] == pytest.approx(G, rel=1e-9)


# ---- what is asked of it besides -------------------------------------------------------------------------------------


def test_files_of_a_motion(tmp_path):
    s = da.simulate(ball(restitution=0.0), 0.8, samples=5)
    back = da.open(s.to_netcdf(tmp_path / "run.nc"))
    assert repr(back.phases) == repr(s.phases)
    assert np.array_equal(back.q, s.q)
    assert list(s.dataset.contact.values) == ["floor"]
    assert "1 impact; 'floor' is closed for" in str(s)
    steps = da.simulate(ball(restitution=0.0), 0.8, samples="steps")
    assert np.sum(steps.t == s.phases.impacts[0].t) == 2  # before and after the jump


def test_bad_input_gets_a_sentence():
    with pytest.raises(DalembertError, match=r"restitution must be from 0 to 1, not 1.5"):
        ball().replace("floor", restitution=1.5)
    with pytest.raises(ModelError, match=r"'floor' starts 0.3 beyond its limit"):
        m = ball()
        m.replace("ball", position=(0, -0.2))
        da.build(m)
    for words, match in (
        ({"lower": 1.0, "upper": -1.0, "restitution": 0.5}, r"lower=1 must not be greater than upper=-1"),
        ({"restitution": 0.5}, r"a stop needs its place"),
        ({"lower": 0.5, "upper": 1.0, "restitution": 0.5}, r"'ends' starts 0.5 beyond its limit"),
        ({"lower": -1.0, "restitution": 2.0}, r"restitution must be from 0 to 1, not 2"),
        ({"lower": -1.0, "restitution": 0.5, "stiffness": 1.0}, r"not both"),
    ):
        m = rail()
        with pytest.raises((ModelError, DalembertError), match=match):
            m.remove("ends")
            m.limit("ends", "rail", **words)
            da.build(m)
    m = da.Model("play")
    b = m.body("b", mass=1, inertia=1)
    m.revolute("pin", m.ground, b, at=(0, 0), clearance=-1e-3)
    with pytest.raises(ModelError, match=r"clearance must be greater than zero, not -0.001"):
        da.build(m)
    with pytest.raises(DalembertError, match=r"starts 0.1 beyond the limit of its one-sided joint 'floor'"):
        da.simulate(ball(), 1.0, state=([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]))


def test_contradictions_end_with_a_sentence():
    """A driver that moves on against a stop; laws that do not go together."""
    m = rail(restitution=0.0)
    m.replace("slider", velocity=(2.0, 0))
    m.driver("motor", "rail", "2*t")
    with pytest.raises(SimulationError, match=r"no impulse stops them: a driver moves on"):
        da.simulate(m, 1.0)


def test_what_one_sided_joints_are_not_marched_with():
    import jax

    system = da.build(ball())
    for words, match in (
        ({"tolerance": 1e-6}, r"tolerance= cannot be given"),
        ({"samples": "dense"}, r"samples='dense'"),
    ):
        with pytest.raises(DalembertError, match=match):
            da.simulate(system, 1.0, **words)
    with pytest.raises(DalembertError, match=r"not under jit, vmap and grad"):
        jax.jit(lambda e: da.simulate(system.replace({"floor.restitution": e}), 1.0).q)(0.5)
    s = da.simulate(system, 0.8, samples=3)
    with pytest.raises(DalembertError, match=r"cannot go on: joint 'floor' is one-sided"):
        da.simulate(system, 1.0, after=s)
    with pytest.raises(DalembertError, match=r"no one-sided joints"):
        simulate_stepping(da.mechanism("four-bar"), 1.0, dt=1e-3)
    # without knowing of contacts it is the plain machine of its start
    assert da.simulate(system.plain(), 0.8, samples=[0.8]).q[-1, 1] == pytest.approx(1.1 - G * 0.32, rel=1e-12)
