"""One-sided joints: lift-off, impacts, stops, play, and time steps, against closed forms and an own time stepper."""

from __future__ import annotations

import functools
import itertools
import json
import math

import numpy as np
import pytest
from _helpers_cli import in_process

import dalembert as da
from dalembert._results import DalembertError, FileError, ModelError, SimulationError
from dalembert.io import text_of
from dalembert.linalg import impulses_of_contacts, least
from dalembert.simulation import IMPULSE_RULE, simulate_stepping
from dalembert.simulation._impacts import Instantly, terms_at
from dalembert.stabilise import assembled
from dalembert.systems import all_closed, gaps_of
from dalembert.view import scene_of

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


def test_of_several_multipliers_the_shortest_that_is_not_negative():
    """Against all supports enumerated: a face of {μ ≥ 0, Gᵀμ = x} for each set of rows that take part."""
    rng = np.random.default_rng(5)
    count = 0
    for _ in range(300):
        rows = rng.standard_normal((6, 2)) + [1.5, 0]
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        weight = rng.uniform(0, 1, 6) * (rng.random(6) < 0.5)
        y = rows.T @ weight
        if np.linalg.norm(y) < 0.1:
            continue
        # all rows are tight at y: G y = g
        x, mu, _, _ = least(rows, rows @ y, np.zeros((0, 2)), np.zeros(0))
        assert np.allclose(x, y, atol=1e-9)
        assert np.allclose(rows.T @ mu, y, atol=1e-9)
        best = np.inf
        for bits in range(1, 64):
            on = [k for k in range(6) if bits >> k & 1]
            own, *_ = np.linalg.lstsq(rows[on].T, y, rcond=None)
            if np.allclose(rows[on].T @ own, y, atol=1e-10) and own.min() > -1e-12:
                best = min(best, np.linalg.norm(own))
        assert np.linalg.norm(mu) == pytest.approx(best, rel=1e-8)
        count += np.min(np.linalg.lstsq(rows.T, y, rcond=None)[0]) < -1e-6
    assert count > 50  # where the shortest of any sign has negative ones


def test_what_nothing_meets_is_said():
    assert least(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, 1.0]), np.zeros((0, 2)), np.zeros(0)).x is None
    assert least(np.zeros((0, 2)), np.zeros(0), np.array([[1.0, 0], [1.0, 0]]), np.array([1.0, 2.0])).x is None


def test_rounding_of_rows_that_nothing_changes_is_no_contradiction():
    """Rows of zeros (of a loop that the tree keeps), and right-hand sides that are rounding of what they are of."""
    G = np.array([[0.6, 0.8]])
    found = least(G, np.array([1e-13]), np.zeros((2, 2)), np.array([0.0, 4e-18]), scale=1.0).x
    assert np.allclose(found, 1e-13 * G[0], atol=1e-25)
    same = np.array([[1.0, 0.0], [2.0, 0.0]])
    assert least(G[:0], np.zeros(0), same, np.array([0.0, 3e-16]), scale=1.0).x is not None
    assert least(G[:0], np.zeros(0), same, np.array([0.0, 3e-3]), scale=1.0).x is None


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


def table_with_an_arm(impact: str):
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
    return m


def door_on_a_table(impact: str):
    """A table on four legs with a door on two ball joints (redundant), whose latch has a stop and a chain."""
    m = da.Model("door", space="space", gravity=(0, 0, -G))
    law = {"one_sided": True, "impact": impact}
    top = m.body("top", mass=20, inertia=(1, 1, 2), position=(0.1, 0.05, 0.7))
    door = m.body("door", mass=6, inertia=(0.3, 0.4, 0.2), position=(0.4, 0.4, 1.2))
    for k, (x, y) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        m.point_in_plane(f"leg{k + 1}", m.ground, top, at=(x * 0.6, y * 0.4, 0), normal=(0, 0, 1), **law)
    for k, z in enumerate((0.8, 1.6)):
        m.spherical(f"ball{k + 1}", top, door, at=(0, 0.4, z))
    m.contact("latch", top, door, at=(0.8, 0.4, 1.2), point=(0.8, 0.4, 1.2), normal=(0, 1, 0), impact=impact)
    m.distance("chain", top, door, at_i=(0.5, 0, 0.7), at_j=(0.8, 0.4, 1.0), **law)
    return m


def braced_four_bar(impact: str):
    """A parallelogram with a third crank (redundant), with stops at the angles of all cranks and a foot."""
    m = da.Model("braced", gravity=DOWN)
    bar = m.body("bar", mass=3.0, inertia=0.4, position=(1.0, 0.8))
    for k, x in enumerate((0.0, 1.0, 2.0)):
        crank = m.body(f"crank{k}", mass=1.0, inertia=0.08, position=(x, 0.4))
        m.revolute(f"low{k}", m.ground, crank, at=(x, 0))
        m.revolute(f"high{k}", crank, bar, at=(x, 0.8))
        m.limit(f"stop{k}", f"low{k}", lower=-2.0, upper=2.0, restitution=0.5, impact=impact)
    m.contact("foot", m.ground, bar, at=(2.3, 0.8), point=(0, -5.0), normal=(0, 1), impact=impact)
    return m


@pytest.mark.parametrize("impact", ["newton", "poisson"])
@pytest.mark.parametrize("machine", [table_with_an_arm, door_on_a_table, braced_four_bar])
def test_random_impacts_never_gain_energy(machine, impact):
    """Impacts whose rows depend on each other, in several poses: energy, signs, momentum, and the law itself."""
    rng = np.random.default_rng(0)
    system = da.build(machine(impact))
    whole, count = all_closed(system).plain(), len(system.touches)
    free = system.with_closed((False,) * count).plain()
    worst, redundant, several = -np.inf, 0, 0
    for _ in range(4):
        q = assembled(free, np.asarray(system.q0) + 0.1 * rng.standard_normal(len(system.q0)), None).state.q
        M, h, C, Phi, _, Gamma = (np.asarray(x)[0] for x in terms_at(whole, np.zeros(1), q[None], whole.v0[None]))
        B = C[Instantly(system.touches, whole.m_holonomic, h, (M, h, C, Phi, C @ h, Gamma)).both]
        across = np.eye(len(M)) - np.linalg.pinv(B) @ B
        U, sizes, _ = np.linalg.svd(B.T)
        Q = U[:, : np.sum(sizes > 1e-9)]
        for n in range(90):
            v = across @ rng.standard_normal(len(M))
            at = Instantly(system.touches, whole.m_holonomic, v, (M, h, C, Phi, C @ v, Gamma))
            acting = (at.rate <= 0) & (rng.random(count) < 0.8)
            if not acting.any():
                continue
            held = C[np.concatenate([at.both, at.rows[acting]])]
            if np.linalg.matrix_rank(held, tol=1e-9) == len(held):
                continue
            redundant += 1
            eps = np.full(count, rng.uniform(0, 1))
            # Poisson's law needs the impulses, and refuses different restitutions where they are not unique
            if n % 2 and (impact == "newton" or at.struck(acting, 0 * eps).unique.all()):
                eps = rng.uniform(0, 1, count)
                several += 1
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
            assert np.max(np.abs(left - Q @ (Q.T @ left))) < 1e-9
    assert redundant > 170  # over three machines and two laws more than a thousand
    assert several > (50 if impact == "newton" else 0)
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
    assert first.rule == IMPULSE_RULE == s.dataset["impulse"].attrs["rule"]
    assert f"impulses that are not unique are {IMPULSE_RULE}" in str(s)
    # what is added along (1, −1, 1, −1) has no effect; the shortest of J_k √W_k, W_k = 1/m + y²/I_x + x²/I_y
    J = np.array([first.impulses.get(f"leg{k}", 0.0) for k in (1, 2, 3, 4)])
    W = [1 / 20 + (0.4 * y - 0.05) ** 2 + (0.6 * x - 0.15) ** 2 for x, y in [(1, 1), (-1, 1), (-1, -1), (1, -1)]]
    assert J.min() > 0
    assert abs(J @ (np.array(W) * [1, -1, 1, -1])) < 1e-9 * J.sum()
    assert sum(first.impulses.values()) == pytest.approx(20 * math.sqrt(2 * G * 0.1) * 1.1, rel=1e-12)
    assert s.energy_drift < 1e-10
    assert s.redundancy == 1
    with pytest.warns(da.errors.RedundancyWarning):
        forces = [s.reactions(f"leg{k}").force.values[-1, 2] for k in (1, 2, 3, 4)]
    assert sum(forces) == pytest.approx(20 * G)


def three_feet() -> da.Model:
    """A table on three legs, its centre outside them."""
    m = da.Model("table", space="space", gravity=(0, 0, -G))
    top = m.body("top", mass=20, inertia=(1, 1, 2), position=(0.7, 0, 0.7))
    for k, (x, y) in enumerate([(-0.5, 0), (0.5, 0.4), (0.5, -0.4)]):
        m.point_in_plane(f"leg{k + 1}", m.ground, top, at=(x, y, 0), normal=(0, 0, 1), one_sided=True)
    return m


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_a_table_with_its_load_outside_its_base_lifts_off(coordinates):
    """Three legs; leg1 would have to pull. The table tips about the line of the others: its first acceleration."""
    s = da.simulate(da.build(three_feet(), coordinates=coordinates), 0.3, samples=4)
    assert [p.state for p in s.phases.of("leg1")] == ["open"]
    assert [p.state for p in s.phases.of("leg2")] == ["closed"]
    assert s.phases.lift_offs == [(0.0, "leg1")]
    assert "lift-offs: 'leg1' at t = 0 s" in str(s)
    assert "0 impacts, 1 lift-off" in scene_of(s.dataset).notes
    # frictionless legs: the centre falls straight, 20 z̈ = 2F − 20 g, z̈ = −0.2 ω̇, ω̇ = 0.2 · 2F / 1
    F = 20 * G / (1 + 20 * 0.2**2) / 2
    assert s.reactions("leg2").force.values[0, 2] == pytest.approx(F, rel=1e-12)
    assert not s.reactions("leg1").force.values.any()
    assert s.energy_drift < 1e-9


@pytest.mark.parametrize(("coordinates", "friction"), [("joint", 0.0), ("joint", 0.5), ("absolute", 0.0)])
def test_a_redundant_machine_lifts_off_alone(coordinates, friction):
    """A flap on two hinges, five rows too many, is pulled off its only foot by 10 t at its end: at m g/20, where the
    acceleration of the gap is zero, and so is everything that it is compared with."""
    m = da.Model("flap", space="space", gravity=(0, 0, -G))
    flap = m.body("flap", mass=2.0, inertia=(0.1, 0.2, 0.2), position=(0.5, 0, 0.3))
    for k, y in enumerate((-0.2, 0.2)):
        m.revolute(f"hinge{k}", m.ground, flap, at=(0, y, 0.3), axis=(0, 1, 0))
    m.contact("foot", m.ground, flap, at=(1.0, 0, 0), point=(0, 0, 0), normal=(0, 0, 1), friction=friction)
    m.force("lift", flap, (0, 0, "10*t"), at=(1.0, 0, 0.3))
    s = da.simulate(da.build(m, coordinates=coordinates), 1.2, samples=[1.2])
    assert s.phases.lift_offs == [(pytest.approx(2 * G / 20, abs=1e-8), "foot")]
    # a little later: (J + m/4) φ̈ = 10 t − m g/2, to first order
    tau = 1.2 - 2 * G / 20
    assert abs(s.dataset.angular_velocity.values[-1, 0, 1]) == pytest.approx(5 * tau**2 / 0.7, rel=1e-3)


def test_a_shared_force_lifts_off_when_no_share_is_left(tmp_path):
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
    # states in between, in both parts, of which only the first has redundant rows; after lift-off it tips
    between = s.states([1.0, 4.1])
    for k, end in enumerate((1.0, 4.1)):
        fresh = da.simulate(m, end, samples=[end])
        assert np.allclose(between.q[k], fresh.q[-1], atol=1e-9)  # the tolerance of both is 1e-8
        assert np.allclose(between.v[k], fresh.v[-1], atol=1e-8)
    assert abs(between.v[1]).max() > 1e-2
    assert s.formulation.kept is None  # as given: which rows are kept is a part's own
    assert da.check(s).motion.ranks == (2, 3)
    page = da.report(s, tmp_path / "table.html").read_text()
    assert "lift-offs: &#x27;leg2&#x27; and &#x27;leg3&#x27; at t = 3.924 s" in page
    assert "&#x27;leg3&#x27; at t = 3.924 s</li>" in page


def test_a_ball_on_a_table_that_shakes():
    """Flights between a floor that is driven, A sin ω t, and impacts relative to it: by roots of a parabola; without
    restitution it rides and is thrown off where the floor falls away with g."""
    from scipy.optimize import brentq

    A, w, eps, end = 0.02, 25.0, 0.6, 1.2
    m = da.Model("shaker", gravity=DOWN)
    floor = m.body("floor", mass=1.0, inertia=1.0, position=(0, 0))
    b = m.body("ball", mass=1.0, inertia=0.1, position=(0, 0.3))
    m.prismatic("rail", m.ground, floor, at=(0, 0), axis=(0, 1))
    m.driver("shake", "rail", f"{A}*sin({w}*t)")
    m.contact("hit", floor, b, point=(0, 0), normal=(0, 1), restitution=eps)
    t, y, v, hits = 0.0, 0.3, 0.0, []
    while True:

        def gap(x, t=t, y=y, v=v):
            return y + v * (x - t) - G * (x - t) ** 2 / 2 - A * math.sin(w * x)

        x = t + 1e-9 + np.arange(0, 1, 1e-3)
        k = next(k for k in range(len(x) - 1) if gap(x[k]) > 0 >= gap(x[k + 1]))
        at = brentq(gap, x[k], x[k + 1], xtol=1e-15)
        if at > end:
            break
        t, y, v = at, A * math.sin(w * at), (1 + eps) * A * w * math.cos(w * at) - eps * (v - G * (at - t))
        hits.append(t)
    s = da.simulate(da.build(m, coordinates="joint"), end, samples=[end])
    assert len(hits) == 3
    assert [i.t for i in s.phases.impacts] == pytest.approx(hits, abs=1e-12)
    place = y + v * (end - t) - G * (end - t) ** 2 / 2
    assert s.dataset.position.values[-1, 1, 1] == pytest.approx(place, abs=1e-12)
    m.replace("hit", restitution=0.0)
    ((thrown, _), *_) = da.simulate(m, 0.3, samples=2).phases.lift_offs
    assert A * w * w * math.sin(w * thrown) == pytest.approx(G, rel=1e-9)


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
    m.measure("fold", "angle", i=m.ground, j=bar, **({"axis": (0, 0, 1)} if z else {}))
    if what.startswith("seen"):  # from a cage that moves past it
        along = (1, 0, *z)
        cage = m.body("cage", mass=2.0, inertia=1.0 if not z else (1, 1, 1), position=(0, 2, *z), velocity=along)
        m.prismatic("rail", m.ground, cage, at=(0, 2, *z), axis=along)
        m.measure("seen", "point", body=bar, at=along, seen_from=cage)
    m.measure("work", "energy", body=bar)
    m.limit("end", measurement=what, **limit)
    return m


def swing(unit=1.0, **end) -> da.Model:
    """A rod of 1 m on a hinge, let go when level, with a stop of the angle; in units of which a metre has `unit`."""
    m = da.Model("swing", gravity=(0, -G * unit))
    rod = m.body("rod", mass=1.0, inertia=unit**2 / 12, position=(0.5 * unit, 0))
    m.revolute("hinge", m.ground, rod, at=(0, 0))
    m.limit("stop", "hinge", restitution=0.4, **end)
    return m


def test_stops_of_angles_do_not_depend_on_the_unit_of_length():
    """Their gaps are radians, whatever the machine's size is: in micrometres, and for a machine of a micrometre."""
    want = [i.t for i in da.simulate(swing(lower=-1.0), 1.3, samples=2).phases.impacts]
    assert len(want) == 17
    for unit in (1e-6, 1e6):
        s = da.simulate(swing(unit, lower=-1.0), 1.3, samples=2)
        assert [i.t for i in s.phases.impacts] == pytest.approx(want, abs=1e-8)
        assert s.phases.of("stop")[-1].state == "closed"
        with pytest.raises(ModelError, match=r"'stop' starts 0.5 beyond its limit"):
            da.build(swing(unit, lower=0.5))
        above = da.simulate(swing(unit, lower=-5e-4), 0.02, samples=2)  # it starts above the stop, not on it
        assert above.phases.impacts[0].t == pytest.approx(math.sqrt(2 * 5e-4 / (1.5 * G)), rel=1e-6)
        steps = simulate_stepping(swing(unit, lower=-0.1), 0.1, dt=1e-3, every=10)
        free = simulate_stepping(swing(lower=-0.1), 0.1, dt=1e-3, every=10)
        np.testing.assert_allclose(steps.q[:, 2], free.q[:, 2], atol=1e-9)


@pytest.mark.parametrize(("space", "coordinates", "what", "end"), [
    ("plane", "absolute", "tip.y", {"lower": -0.5}),
    ("plane", "joint", "reach", {"upper": 2 * math.sin(math.pi / 12)}),
    ("space", "absolute", "turned", {"lower": -math.pi / 6}),
    ("space", "joint", "tip.y", {"lower": -0.5}),
    ("plane", "absolute", "fold", {"lower": -math.pi / 6}),
    ("plane", "absolute", "seen.y", {"lower": -2.5}),
    pytest.param("space", "absolute", "seen.y", {"lower": -2.5}, marks=pytest.mark.thorough),
    pytest.param("space", "absolute", "fold", {"lower": -math.pi / 6}, marks=pytest.mark.thorough),
])  # fmt: skip
def test_limits_of_measured_positions(space, coordinates, what, end, tmp_path):
    """ω² = 3 g sin α; the impulse p of a stop that a measured number s(α) has: p ds/dα = (1 + ε) ω/3."""
    down = math.cos(math.pi / 6)
    rate = {"tip.y": down, "seen.y": down, "reach": math.cos(math.pi / 12), "turned": 1.0, "fold": 1.0}[what]
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
    # an elastic one: at rest it yields until k δ^1.5 is its load
    soft = da.simulate(da.build(trapdoor(space, what, stiffness=1e5, damping=1e3, **end), coordinates=coordinates), 3.0)
    (limit,) = end.values()
    load = G / 2 * math.cos(math.pi / 6) / rate
    yields = (load / 1e5) ** (2 / 3)  # 1.3e-3, over which the load changes by as much
    assert abs(soft.measurements[what].values[-1] - limit) == pytest.approx(yields, rel=1e-2)


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


CAR = {"mass": 10.0, "pitch": 2.0, "wheel": 0.2, "bump": 1.0, "high": 0.05, "at": 1.5, "engine": 50.0}
"""Mass, inertia and wheels' radius of a car, its engine's force, and the radius, height and place of a hump."""


def car(speed: float) -> da.Model:
    """A car on four smooth wheels that drives onto two humps, one before each of its front wheels."""
    m = da.Model("car", space="space", gravity=(0, 0, -G))
    inertia = (1, CAR["pitch"], 2)
    body = m.body("car", mass=CAR["mass"], inertia=inertia, position=(0, 0, 0.5), velocity=(speed, 0, 0))
    for k, (x, y) in enumerate([(0.5, 0.4), (0.5, -0.4), (-0.5, 0.4), (-0.5, -0.4)]):
        at = {"at": (x, y, 0.2), "radius": CAR["wheel"]}
        m.contact(f"wheel{k + 1}", m.ground, body, normal=(0, 0, 1), **at)
        if x > 0:
            hump = {"point": (CAR["at"], y, CAR["high"] - CAR["bump"]), "radius_i": CAR["bump"]}
            m.contact(f"hump{k + 1}", m.ground, body, **at, **hump)
    m.force("engine", body, (CAR["engine"], 0, 0))
    return m


def own_car(speed: float) -> list[tuple[str, float, np.ndarray, np.ndarray]]:
    """The same by hand, in x, z and pitch: what happens, when, and q and v after it. Contacts: front on the hump, rear
    on the road, front on the road; of both wheels of an axle together."""
    from scipy.integrate import solve_ivp

    M = np.array([CAR["mass"], CAR["mass"], CAR["pitch"]])
    hump, reach = np.array([CAR["at"], CAR["high"] - CAR["bump"]]), CAR["bump"] + CAR["wheel"]

    def wheel(q, x):
        c, s = math.cos(q[2]), math.sin(q[2])
        arm = np.array([x * c + 0.3 * s, x * s - 0.3 * c])
        return q[:2] + arm, np.array([(1, 0, -arm[1]), (0, 1, arm[0])])

    def rows(q):
        (front, F), (rear, B) = wheel(q, 0.5), wheel(q, -0.5)
        away = front - hump
        far = np.linalg.norm(away)
        gaps = np.array([far - reach, rear[1] - CAR["wheel"], front[1] - CAR["wheel"]])
        return gaps, np.array([away / far @ F, B[1], F[1]])

    def motion(q, v, on):
        C, e = rows(q)[1][on], 1e-6
        bias = (rows(q + e * v)[1] - rows(q - e * v)[1])[on] @ v / (2 * e)
        force = np.array([CAR["engine"], -M[1] * G, 0])
        push = np.linalg.solve(C / M @ C.T, -bias - C @ (force / M)) if on else np.zeros(0)
        return (force + C.T @ push) / M, push

    def struck(q, v):
        gaps, C = rows(q)
        near = [k for k in range(3) if gaps[k] < 1e-9]
        for count in range(len(near) + 1):
            for held in map(list, itertools.combinations(near, count)):
                P = C[held]
                push = -np.linalg.solve(P / M @ P.T, P @ v)
                new = v + P.T @ push / M
                if np.all(push >= 0) and np.all(C[near] @ new > -1e-9):
                    return new, [k for k in near if abs(C[k] @ new) < 1e-9]
        raise AssertionError

    way = CAR["at"] - math.sqrt(reach**2 - (reach - CAR["high"]) ** 2) - 0.5
    faster = CAR["engine"] / CAR["mass"]
    t = (math.sqrt(speed**2 + 2 * faster * way) - speed) / faster
    q, v = np.array([way, 0.5, 0.0]), np.array([speed + faster * t, 0.0, 0.0])
    v, on = struck(q, v)
    assert np.all(motion(q, v, on)[1] > 0)  # it drives up
    out = [("strikes", t, q, v)]

    def pushes(t, y, k, on):
        return motion(y[:3], y[3:], on)[1][k]

    def gap(t, y, k, on):
        return rows(y[:3])[0][k]

    def rate(t, y, on):
        return np.concatenate([y[3:], motion(y[:3], y[3:], on)[0]])

    while len(out) < 3:
        events = []
        for of, k in [(pushes, k) for k in range(len(on))] + [(gap, k) for k in range(3) if k not in on]:
            event = functools.partial(of, k=k, on=on)
            event.terminal, event.direction = True, -1
            events.append(event)
        start = np.concatenate([q, v])
        found = solve_ivp(
            functools.partial(rate, on=on), (t, t + 2.0), start, "DOP853", rtol=1e-10, atol=1e-12, events=events
        )
        (which,) = [k for k, x in enumerate(found.t_events) if len(x)]
        t, q, v = found.t[-1], found.y[:3, -1], found.y[3:, -1]
        if which < len(on):
            name, on = ("hump", "rear", "front")[on[which]], [k for k in on if k != on[which]]
            out.append((f"{name} lifts off", t, q, v))
        else:
            v, on = struck(q, v)
            out.append(("strikes", t, q, v))
    return out


def test_a_car_on_a_bump_lifts_off_and_lands():
    """Its front wheels strike two humps, drive over them, lift off behind their tops and land: against an own
    integration; no reaction pulls, and at each impact the momenta change by the impulses."""
    own = own_car(1.6)
    assert [x[0] for x in own] == ["strikes", "hump lifts off", "strikes"]
    end = own[-1][1] + 5e-3
    after = [t + 1e-7 for _, t, *_ in own]
    s = da.simulate(car(1.6), end, samples=np.sort([*np.linspace(0, end, 40), *after]), rtol=1e-10, atol=1e-12)
    hits = s.phases.impacts
    assert [x.t for x in hits] == pytest.approx([own[0][1], own[2][1]], abs=1e-8)
    lifted = {name: t for t, name in s.phases.lift_offs}
    for k in (1, 2):
        assert lifted[f"hump{k}"] == pytest.approx(own[1][1], abs=1e-7)
        assert lifted[f"wheel{k}"] == pytest.approx(own[0][1], abs=1e-8)
    at = np.searchsorted(s.t, after)
    for k, (_, _, q, v) in zip(at, own, strict=True):
        assert np.allclose(s.q[k][[0, 2]], q[:2], atol=1e-6)
        assert np.allclose(s.v[k][[0, 2]], v[:2], atol=1e-5)
        assert s.v[k][4] == pytest.approx(-v[2], abs=1e-5)  # the pitch is about −y
    # at the landing the road alone pushes: momentum, and angular momentum about the car's centre
    before, later = s.states([hits[-1].t - 1e-9, hits[-1].t + 1e-9]).v
    jump = later - before
    landing = hits[-1].impulses
    assert set(landing) <= {f"wheel{k}" for k in (1, 2, 3, 4)}
    assert CAR["mass"] * jump[2] == pytest.approx(sum(landing.values()), abs=1e-6)
    front = landing["wheel1"] + landing["wheel2"]
    rear = sum(landing.values()) - front
    assert -CAR["pitch"] * jump[4] == pytest.approx(0.5 * (front - rear), abs=1e-6)  # its pitch is zero then
    assert s.results.observed.lam.min() >= -1e-9  # all rows push; left and right are alike
    assert s.results.observed.lam.max() > 24
    assert s.violation["position"] < 1e-9


def test_a_holding_contact_lands_without_slip():
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


@pytest.mark.parametrize("wheel", ["disc in the plane", "disc", "sphere"])
def test_rolling_wheels_land_and_lift_off(wheel):
    """m = 2, J = 0.04 about the axis, r = 0.2: it falls 0.3 m with 3 m/s ahead and lands without slip, which leaves
    m r v/(J + m r²) of turning; a force of 10 t upwards lifts it at m g/10."""
    plane = wheel == "disc in the plane"
    z = () if plane else (0.0,)
    m = da.Model("wheel", space="plane" if plane else "space", gravity=(0, -G, *z))
    J = 0.04 if plane else (0.04, 0.04, 0.04)
    w = m.body("w", mass=2.0, inertia=J, position=(0, 0.5, *z), velocity=(3.0, 0, *z))
    m.marker("road", m.ground, at=(0, 0, *z), **({} if plane else {"axis": (0, 1, 0)}))
    m.marker("hub", w, at=(0, 0.5, *z), **({} if plane else {"axis": (0, 0, 1)}))
    rolling = m.rolling_sphere if wheel == "sphere" else m.rolling_disc
    rolling("tyre", "road", "hub", radius=0.2, one_sided=True)
    m.force("lift", w, (0, "10*t", *z))
    # m ÿ = −m g + 10 t: it falls until y = −0.3
    fall = np.roots([10 / 12, -G / 2, 0, 0.3])
    fall = float(min(x.real for x in fall if abs(x.imag) < 1e-12 and x.real > 0))
    s = da.simulate(m, 2.1, samples=[0.5, 1.5, 2.1])
    (impact,) = s.phases.impacts
    assert impact.t == pytest.approx(fall, abs=1e-10)
    # angular momentum about the contact point: 2 · 3 · 0.2 = (0.04 + 2 · 0.04) ω
    speed = 0.2 * 2 * 3 * 0.2 / (0.04 + 2 * 0.04)
    assert np.allclose(s.v[:, 0], speed, atol=1e-9)
    assert np.allclose(np.abs(s.v[:, -1]), speed / 0.2, atol=1e-8)
    down = G * fall - 2.5 * fall**2
    assert impact.impulses == {"tyre": pytest.approx(2 * down, rel=1e-9)}
    before, after = 0.5 * 2 * (9 + down**2), 0.5 * 2 * speed**2 + 0.5 * 0.04 * (speed / 0.2) ** 2
    assert (impact.energy_before, impact.energy_after) == pytest.approx((before, after), rel=1e-9)
    ((at, name),) = s.phases.lift_offs
    assert (name, at) == ("tyre", pytest.approx(2 * G / 10, abs=1e-7))
    # 1/m ∫ (10 τ − m g)
    assert s.v[-1, 1] == pytest.approx(5 / 2 * (2.1 - 0.2 * G) ** 2, abs=1e-7)
    force = s.reactions("tyre").force.values
    assert force[:, 1] == pytest.approx([2 * G - 5.0, 2 * G - 15.0, 0.0], abs=1e-7)


COIN = (0.4, 0.05, 0.02)  # mass, radius, thickness


def coin(restitution=0.0, **motion) -> da.Model:
    """A coin that falls tilted onto the edge of its lower face."""
    mass, radius, thick = COIN
    m = da.Model("coin", space="space", gravity=(0, 0, -G))
    J = mass * (radius**2 / 4 + thick**2 / 12)
    tilt = {"axis": (1, 0, 0), "angle": 0.6}
    start = {"position": (0, 0, 0.2), "angular_velocity": (1.0, 2.0, 30.0)} | motion
    b = m.body("coin", mass=mass, inertia=(J, J, mass * radius**2 / 2), **tilt, **start)
    spin = np.array([0, -math.sin(0.6), math.cos(0.6)])
    for name, way in (("lower", -1), ("upper", 1)):
        at = np.array(start["position"]) + way * thick / 2 * spin
        m.contact(name, m.ground, b, at=at, point=(0, 0, 0), normal=(0, 0, 1), radius=radius, rim=True, axis=spin,
                  restitution=restitution)  # fmt: skip
    return m


def own_coin(v0: np.ndarray, t_end: float, restitution: float) -> tuple[np.ndarray, list[float]]:
    """By hand: a symmetrical body keeps p_φ and p_ψ on a smooth floor, which leaves its height z and its tilt θ with
    A θ̈ = −V'(θ), V = (p_φ − p_ψ cos θ)²/(2 A sin² θ). Returns (z, θ) at the end and the times of impacts."""
    from scipy.integrate import solve_ivp

    mass, radius, thick = COIN
    A, C = mass * (radius**2 / 4 + thick**2 / 12), mass * radius**2 / 2
    tilt, w = 0.6, v0[3:]  # in the body's axes: θ̇, φ̇ sin θ, φ̇ cos θ + ψ̇
    p_psi = C * w[2]
    p_phi = A * w[1] * math.sin(tilt) + p_psi * math.cos(tilt)

    def torque(x):
        rest = p_phi - p_psi * math.cos(x)
        return -(rest * p_psi / math.sin(x) - rest**2 * math.cos(x) / math.sin(x) ** 3) / A

    def low(x, way):  # of the rim of a face below the centre, and its derivatives
        c, s, h = math.cos(x), math.sin(x), way * thick / 2
        return -h * c + radius * s, h * s + radius * c, h * c - radius * s

    def flying(t, y):
        return [y[2], y[3], -G, torque(y[1]) / A]

    def held(y):
        _, f1, f2 = low(y[1], -1)
        turning = (torque(y[1]) - mass * f1 * (G + f2 * y[3] ** 2)) / (A + mass * f1**2)
        return turning, f1 * turning + f2 * y[3] ** 2

    def resting(t, y):
        turning, rising = held(y)
        return [y[2], y[3], rising, turning]

    def gap(way):
        def of(t, y):
            return y[0] - low(y[1], way)[0]

        of.terminal, of.direction = True, -1
        return of

    def pull(t, y):
        return held(y)[1] + G

    pull.terminal, pull.direction = True, -1
    t, y, hits, closed = 0.0, np.array([0.2, tilt, v0[2], w[0]]), [], False
    while True:
        events = [pull, gap(1)] if closed else [gap(-1), gap(1)]
        found = solve_ivp(resting if closed else flying, (t, t_end), y, "DOP853", rtol=1e-11, atol=1e-13, events=events)
        t, y = found.t[-1], found.y[:, -1]
        if found.status == 0:
            return y[:2], hits
        if closed:
            assert len(found.t_events[0])  # the other rim does not strike here
            closed = False
            continue
        way = -1 if len(found.t_events[0]) else 1
        hits.append(t)
        f1 = low(y[1], way)[1]
        push = -(1 + restitution) * (y[2] - f1 * y[3]) / (1 / mass + f1**2 / A)
        y[2:] += push / mass, -f1 * push / A
        closed = restitution == 0.0 and way == -1 and held(y)[1] > -G


@pytest.mark.parametrize(("coordinates", "restitution"), [
    ("absolute", 0.8), ("joint", 0.0), pytest.param("joint", 0.8, marks=pytest.mark.thorough),
    pytest.param("absolute", 0.0, marks=pytest.mark.thorough),
])  # fmt: skip
def test_a_coin_lands_on_its_edge(coordinates, restitution):
    """Against an own integration in two coordinates."""
    system = da.build(coin(restitution), coordinates=coordinates)
    t_end = 0.3
    (z, tilt), hits = own_coin(np.asarray(da.build(coin()).v0), t_end, restitution)
    s = da.simulate(system, t_end, samples=[t_end], rtol=1e-10, atol=1e-12)
    assert [i.t for i in s.phases.impacts] == pytest.approx(hits, abs=1e-8)
    data = s.dataset.isel(time=-1)
    assert float(data["position"].sel(axis="z")[0]) == pytest.approx(z, abs=1e-7)
    _, x, y, _ = data["quaternion"].values[0]
    assert 1 - 2 * (x * x + y * y) == pytest.approx(math.cos(tilt), abs=1e-6)
    assert s.energy_drift < 1e-9


def test_rims_are_refused_with_a_reason():
    for words, match in (
        ({"radius": 0.0}, "a rim needs its radius"),
        ({"axis": (0, 0, 1)}, "axis is parallel to normal: the disc lies flat"),
        ({"radius_i": 0.3, "normal": None}, "a rim touches a plane"),
        ({"rim": False}, "axis belongs to a rim; give rim too"),
    ):
        with pytest.raises(DalembertError, match=match):
            coin().replace("lower", **words)
    m = ball()
    with pytest.raises(DalembertError, match="in the plane a disc is round as it is"):
        m.replace("floor", rim=True)


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


def own_block(t_end: float, dt: float) -> np.ndarray:
    """The same by an own stepper (Moreau's midpoint): of all sets of corners that stop, the first that fits."""
    a, h, tilt, rate = 0.1, 0.4, 0.05, -0.5
    J, corners = np.array([1.0, 1.0, (a * a + h * h) / 3]), np.array([(-a, -h), (a, -h)])
    turned = np.array([[math.cos(tilt), -math.sin(tilt)], [math.sin(tilt), math.cos(tilt)]])
    c = turned @ [a, h]
    q, v = np.array([*c, tilt]), np.array([-rate * c[1], rate * c[0], rate])
    for _ in range(round(t_end / dt)):
        q = q + 0.5 * dt * v
        cos, sin = math.cos(q[2]), math.sin(q[2])
        arms = corners @ [[cos, sin], [-sin, cos]]
        free = v + dt * np.array([0, -G, 0])
        on = [k for k in (0, 1) if q[1] + arms[k, 1] <= 0]
        up = np.array([(0, 1, arms[k, 0]) for k in on]).reshape(-1, 3)
        for held in ([], *([k] for k in on), on):
            rows = np.array([row for k in held for row in ((1, 0, -arms[k, 1]), (0, 1, arms[k, 0]))]).reshape(-1, 3)
            push = -np.linalg.pinv(rows / J @ rows.T, rcond=1e-9) @ (rows @ free)
            v = free + rows.T @ push / J
            if np.all(push[1::2] >= 0) and np.all(up @ v >= -1e-9):
                break
        q = q + 0.5 * dt * v
    return q


def test_rocking_block_against_an_own_stepper():
    """Through its first three impacts, the time of which an error of the energy would move."""
    s = da.simulate(block(slips=False), 0.6, samples=[0.6])
    assert len(s.phases.impacts) == 2
    coarse, fine = (np.max(np.abs(own_block(0.6, dt) - s.q[-1])) for dt in (4e-4, 5e-5))
    assert fine < 1e-3
    assert fine < 0.5 * coarse


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


def long_table(friction=0.0, **start) -> da.Model:
    """A top on two hinged halves with twelve feet in two rows: far more contacts than it needs."""
    m = da.Model("long", space="space", gravity=(0, 0, -G))
    halves = [
        m.body(name, mass=6, inertia=(0.4, 0.5, 0.8), position=(x, 0, 0.55), **start)
        for name, x in (("left", -0.5), ("right", 0.5))
    ]
    for k, y in enumerate((-0.2, 0.2)):
        m.spherical(f"hinge{k}", *halves, at=(0, y, 0.5))
    for half, ends in zip(halves, ((-1.0, -0.6, -0.2), (0.2, 0.6, 1.0)), strict=True):
        for k, x in enumerate(ends):
            for side in (-0.3, 0.3):
                floor = {"point": (0, 0, 0), "normal": (0, 0, 1), "friction": friction}
                m.contact(f"{half.name}{k}{'+' if side > 0 else '-'}", m.ground, half, at=(x, side, 0.05), **floor)
    return m


@pytest.mark.thorough
def test_time_steps_of_many_redundant_contacts():
    """Twelve feet that fall flat onto the floor and are pushed sideways at one end: against the events."""
    m = long_table(velocity=(0.3, 0, 0))
    m.force("push", "right", (0, 0, "-40*t"), at=(1.2, 0, 0.5))
    s = da.simulate(m, 0.5, samples=[0.05, 0.3, 0.5])
    assert s.redundancy >= 9
    motion = simulate_stepping(m, 0.5, dt=5e-4, every=100)
    assert np.allclose(np.asarray(motion.t)[[1, 6, 10]], [0.05, 0.3, 0.5])
    assert np.max(np.abs(np.asarray(motion.q)[[1, 6, 10]] - s.q)) < 1e-3  # of first order: v dt = 5e-4
    # all the impulses are the weight's and the push's, and what stops the fall
    lasting = motion.dataset["impulse"].sum()
    assert float(lasting) == pytest.approx(12 * G * 0.5 + 40 * 0.5**2 / 2, rel=1e-3)


def test_time_steps_do_not_drift():
    """Two seconds with friction: the feet stay above the floor, the hinges closed, and it comes to rest."""
    m = long_table(friction=0.4, velocity=(1.0, 0.3, 0))
    motion = simulate_stepping(m, 2.0, dt=2e-3, every=10)
    data = motion.dataset
    assert float(data["gap"].min()) > -1e-9
    free = motion.system.with_closed((False,) * len(motion.names)).plain()
    open_ = max(np.max(np.abs(np.asarray(free.position_residual(0.0, q)))) for q in np.asarray(motion.q)[::10])
    assert open_ < 1e-9
    assert np.max(np.abs(np.asarray(motion.v)[-1])) < 1e-6
    assert float(data["impulse"].isel(time=-1).sum()) == pytest.approx(12 * G * 0.02, rel=1e-6)
    assert list(data["contact"].values) == list(motion.names)
    assert data["position"].sel(body="left").shape == (101, 3)
    # it flies while it falls 0.05 m, loses μ v_z when it lands, and slides v²/(2 μ g)
    fall, speed = math.sqrt(0.1 / G), math.hypot(1.0, 0.3)
    sliding = speed * fall + (speed - 0.4 * G * fall) ** 2 / (2 * 0.4 * G)
    way = data["position"].isel(time=-1) - data["position"].isel(time=0)
    assert np.hypot(*way.sel(body="left").values[:2]) == pytest.approx(sliding, rel=1e-2)


@pytest.mark.parametrize("law", ["smooth", "rough"])
def test_time_steps_of_what_is_heavy_on_light_ones(law):
    """A heavy block on three light ones on each other: it rests, and each contact bears what is above it. (Sweeps
    over the contacts alone come near by a share of the light masses over the heavy one each.)"""
    m, masses = da.Model("stack", gravity=DOWN), np.array([1.0, 1.0, 1.0, 1e4])
    below = m.ground
    for k, mass in enumerate(masses):
        b = m.body(f"b{k}", mass=mass, inertia=mass / 100, position=(0, 0.1 + 0.2 * k))
        for n, x in enumerate((-0.3, 0.3) if law == "rough" else (0.0,)):
            place = {"at": (x, 0.2 * k), "point": (0, 0.2 * k), "normal": (0, 1)}
            m.contact(f"foot{k}{n}", below, b, **place, friction=0.5 if law == "rough" else 0.0)
        below = b
    motion = simulate_stepping(m, 0.1, dt=1e-3, every=50)
    impulse = motion.dataset["impulse"].isel(time=-1).values.reshape(4, -1).sum(axis=1)
    assert np.allclose(impulse, 0.05 * G * np.cumsum(masses[::-1])[::-1], rtol=1e-7)
    assert np.max(np.abs(motion.v)) < 1e-6
    assert np.max(np.abs(motion.q - motion.q[0])) < 1e-9
    assert np.max(motion.residual) < 1e-9


def test_time_steps_that_no_impulse_solves_end_with_a_sentence():
    """A driver that moves on against a stop, where the stop or the driver would have to give way."""
    m = rail(restitution=0.0)
    m.replace("slider", velocity=(2.0, 0))
    m.driver("motor", "rail", "2*t")
    with pytest.raises(SimulationError, match=r"between t = 0.5 s and 0.6 s no impulses") as caught:
        simulate_stepping(m, 1.0, dt=1e-2, every=10)
    before = caught.value.solution
    assert np.allclose(before.q[:6, 0], 2 * before.t[:6])


def test_the_programme_of_time_steps_does_not_grow_with_the_contacts():
    import jax

    def size(n: int) -> int:
        numbers = [np.eye(3 * n), np.zeros(3 * n), np.zeros(n), np.ones(n, bool), *np.zeros((2, n)), np.zeros(3 * n)]
        tied = tuple((2 * k, 2 * k + 1) for k in range(n))
        return str(jax.make_jaxpr(lambda *x: impulses_of_contacts(*x, tied))(*numbers)).count(
            " = "
        )  # lines also hold sizes

    assert size(4) == size(40)


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

L1, L2, PLAY, SPEED, HALF, THICK = 0.153, 0.306, 1e-3, 150.0, 0.05, 0.025
MASSES, INERTIAS = (0.038, 0.038, 0.076), (7.4e-5, 5.9e-4, 2.7e-6)


def crank(corners: bool, friction=0.0) -> da.Model:
    """The slider-crank of Flores, Leine, Glocker (2010), Multibody System Dynamics 23, 165–190, table 1 (lengths,
    masses, inertias, half sizes of the slider, play, restitution, friction; the crank begins at 150 rad/s), with the
    four corners of its slider as contacts, or the slider without height as a joint with play."""
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
    if not corners:
        m.prismatic(
            "guide", m.ground, C, at=(L1 + L2, 0), axis=(1, 0), clearance=PLAY, length=2 * HALF, restitution=0.4
        )
        return m
    for r in (1, -1):
        for s in (1, -1):
            place = {"at": (L1 + L2 + r * HALF, s * THICK), "point": (0, s * (THICK + PLAY)), "normal": (0, -s)}
            m.contact(f"corner{r}{s}", m.ground, C, **place, restitution=0.4, friction=friction)
    return m


def own_stepper(t_end: float, dt: float, thick=0.0, mu=0.0) -> np.ndarray:
    """The same in three angles, by hand: Moreau's midpoint with Gauss–Seidel; returns angles and speeds
    after each step."""
    th, w = np.zeros(3), np.array([SPEED, -SPEED * L1 / L2, 0.0])
    g = np.array([0.0, -G])
    ends = np.array([(r * HALF, s * thick, s) for r in (1, -1) for s in (1.0, -1.0)])
    states = []
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
        places = L1 * e[0] + L2 * e[1] + ends[:, :1] * e[2] + ends[:, 1:2] * n[2]
        on = PLAY + thick - ends[:, 2] * places[:, 1] <= 0
        if on.any():
            arms = ends[on, :1] * n[2] - ends[on, 1:2] * e[2]  # of the corner's velocity by the third angle
            moves = np.stack([np.tile(L1 * n[0], (len(arms), 1)), np.tile(L2 * n[1], (len(arms), 1)), arms], axis=2)
            N, T = -ends[on, 2, None] * moves[:, 1], moves[:, 0]
            R = np.concatenate([N, T])
            W, before, free = R @ np.linalg.solve(M, R.T), N @ w, R @ new
            count = len(N)
            lam = np.zeros(2 * count)
            for _ in range(2000):  # light sliders with long arms: it converges slowly
                former = lam.copy()
                for k in range(count):
                    rate = W[k] @ lam + free[k] + 0.4 * min(before[k], 0.0)
                    lam[k] = max(0.0, lam[k] - rate / W[k, k])
                    j = count + k
                    lam[j] = np.clip(lam[j] - (W[j] @ lam + free[j]) / W[j, j], -mu * lam[k], mu * lam[k])
                if np.max(np.abs(lam - former)) <= 1e-13 * np.max(lam):
                    break
            new = new + np.linalg.solve(M, R.T @ lam)
        w = new
        th = th + 0.5 * dt * w
        states.append((th, w))
    return np.array(states)


def test_slider_in_a_guide_with_play():
    """Until its bounces pile up, against an independent time stepper of first order at a short step."""
    t = 8e-3
    s = da.simulate(crank(corners=False), t, samples=[t])
    times = [i.t for i in s.phases.impacts]
    assert len(times) == 3
    assert s.energy_drift < 1e-9
    angles = s.q[-1].reshape(3, 3)[:, 2]
    coarse, fine = (np.max(np.abs(own_stepper(t, dt)[-1, 0] - angles)) for dt in (8e-6, 2e-6))
    assert fine < 1e-3
    assert fine < coarse
    # the slider's height in its play
    y = s.q[-1].reshape(3, 3)[2, 1]
    assert abs(y) < PLAY


def test_slider_crank_of_flores_leine_and_glocker():
    """With its friction, by events against an own time stepper, until two corners rest on the guide for the first time
    after 14 impacts; and time steps of the package against both."""
    dt, until, every = 4e-6, 9.2e-3, 750
    at = np.array([3e-3, 6e-3, 9e-3, 9.14e-3])
    s = da.simulate(crank(corners=True, friction=0.01), until, samples=at)
    rest = s.phases.of("corner11")[-1]
    assert rest.state == "slip +"
    assert at[-1] < rest.start < until
    assert len(s.phases.impacts) == 14
    assert all(i.energy_lost > 0 for i in s.phases.impacts)
    assert s.energy_drift < 1e-9
    angles, speeds = (x.reshape(-1, 3, 3)[:, :, 2] for x in (s.q, s.v))
    coarse, own = (own_stepper(at[-1] + h, h, THICK, 0.01)[np.rint(at / h).astype(int) - 1] for h in (4 * dt, dt))
    assert np.max(np.abs(own[:, 0] - angles)) < 2e-4  # at most 1e-3 was asked for
    assert np.max(np.abs(own[:, 0] - angles)) < 0.5 * np.max(np.abs(coarse[:, 0] - angles))
    # friction is felt by the crank's speed
    smooth = own_stepper(at[0], dt, THICK, 0.0)[-1, 1, 0]
    assert abs(own[0, 1, 0] - speeds[0, 0]) < 0.5 * abs(smooth - speeds[0, 0])
    motion = simulate_stepping(crank(corners=True, friction=0.01), at[2], dt=dt, every=every)
    stepped = np.asarray(motion.q)[1:].reshape(-1, 3, 3)[:, :, 2]
    assert np.max(np.abs(stepped - own[:3, 0])) < 2e-4
    assert np.max(np.abs(stepped - angles[:3])) < 5e-4


def pin_in_play(kind: str, space: str) -> da.Model:
    """A body of 2 kg on a joint with play, its pin beside the middle of its hole, where it touches."""
    plane = space == "plane"
    down, side = np.eye(2 if plane else 3)[-1], np.eye(2 if plane else 3)[0]
    axis = {} if plane or kind == "spherical" else {"axis": (0, 1, 0)}
    m = da.Model("loose", space=space, gravity=-G * down)
    b = m.body("b", mass=2.0, inertia=0.1 if plane else (0.1, 0.2, 0.3), position=PLAY * side)
    m.marker("hole", m.ground, at=0 * side, **axis)
    m.marker("pin", b, at=PLAY * side, **axis)
    length = {"length": 0.2} if kind in ("cylindrical", "prismatic") else {}
    getattr(m, kind)("joint", "hole", "pin", clearance=PLAY, **length)
    return m


@pytest.mark.parametrize(("kind", "space", "coordinates"), [
    ("revolute", "plane", "joint"), ("spherical", "space", "absolute"), ("cylindrical", "space", "absolute"),
    pytest.param("revolute", "space", "absolute", marks=pytest.mark.thorough),
    pytest.param("prismatic", "space", "joint", marks=pytest.mark.thorough),
])  # fmt: skip
def test_a_pin_slides_in_its_hole_as_a_pendulum(kind, space, coordinates):
    """A pendulum as long as its play, from level: √(l/g) K(sin 45°) down, with 3 m g there and nothing at both ends."""
    quarter = math.sqrt(PLAY / G) * 1.8540746773013719  # K: Gradshteyn, Ryzhik, 8.112 with k² = 1/2
    system = da.build(pin_in_play(kind, space), coordinates=coordinates)
    s = da.simulate(system, 9 * quarter, samples=quarter * np.arange(10))
    place, *_, height = s.dataset["position"].isel(body=0).values.T / PLAY
    assert np.allclose(height[1::2], -1, atol=1e-6)
    assert np.allclose(height[2::2], 0, atol=1e-5)  # at 1e-8, over nine quarters
    assert np.allclose(place[2::2], [-1, 1, -1, 1], atol=1e-6)
    force = s.reactions("joint").force.values[:, -1] / (2 * G)
    assert np.allclose(force[1::2], 3, atol=1e-5)
    assert np.allclose(force[2::2], 0, atol=1e-5)
    assert len(s.phases.impacts) == 0
    assert [p.state for p in s.phases.of(s.phases.names[0])] == ["closed"]


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
    (impact,) = back.phases.impacts
    assert impact.rule == "unique" == back.dataset["impulse"].attrs["rule"]
    assert back.dataset["lift_off_time"].size == 0


def test_the_command_line_tells_of_contacts(tmp_path):
    da.save(three_feet(), tmp_path / "table.yaml")
    words = in_process("run", str(tmp_path / "table.yaml"), "--t-end", "0.1").stdout
    assert "contact    0 impacts" in words
    assert "contact    lift-offs: 'leg1' at t = 0 s" in words
    plain = json.loads(in_process("run", str(tmp_path / "table.yaml"), "--t-end", "0.1", "--json").stdout)
    assert plain["lift_offs"] == [{"t": 0.0, "contact": "leg1"}]
    assert plain["impacts"] == []


def test_bad_input_gets_a_sentence():
    with pytest.raises(DalembertError, match=r"restitution must be from 0 to 1, not 1.5"):
        ball().replace("floor", restitution=1.5)
    for law in ("hertz", None):
        with pytest.raises(DalembertError, match=rf"impact={law!r} is unknown; use 'newton' or 'poisson'"):
            ball().replace("floor", impact=law)
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
        ({"lower": -1.0, "restitution": 0.5, "impact": "hertz"}, r"impact='hertz' is unknown"),
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
    for march in (da.simulate, functools.partial(simulate_stepping, dt=1e-3)):  # steps gave NaN, without a word
        with pytest.raises(DalembertError, match=r"v\[1\] of system 'ball' is nan: no start can have it"):
            march(ball(), 0.01, state=([0.0, 1.0, 0.0], [0.0, math.nan, 0.0]))
    with pytest.raises(DalembertError, match=r"every=1.5 a whole number from 1 on"):
        simulate_stepping(ball(), 0.01, dt=1e-3, every=1.5)


def test_nothing_is_lost_by_bad_input(tmp_path):
    """What is refused leaves the model as it was; mistakes come together, in a file each with its place."""
    m = rail(restitution=0.5)
    m.measure("place", "point", body="slider", at=(0.2, 0))
    m.limit("fence", measurement="place.x", lower=-2.0, restitution=0.25)
    ball_ = m.body("ball", mass=1.0, inertia=0.1, position=(0, 3.0))
    m.contact("floor", m.ground, ball_, radius=0.1, point=(0, 0), normal=(0, 1), restitution=0.75)
    m.revolute("pin", "slider", m.body("arm", mass=1.0, inertia=0.1, position=(0, 1)), at=(0, 0.5), clearance=1e-3)
    before = text_of(m)
    for name, words, match in (
        ("ends", {"lower": 2.0}, "lower=2 must not be greater than upper=1"),
        ("ends", {"stiffness": 1e5}, "not both"),
        ("ends", {"restitution": None, "impact": "poisson"}, "impact belongs to rigid stops"),
        ("pin", {"clearance": -1e-3}, "clearance must be greater than zero, not -0.001"),
        ("floor", {"restitution": 1.5}, "restitution must be from 0 to 1, not 1.5"),
        ("floor", {"restitution": float("nan")}, "restitution"),
        ("fence", {"measurement": "plac.x"}, "there is no measurement 'plac.x'"),
        ("place", {"body": "nobody"}, "nobody"),
    ):
        with pytest.raises(DalembertError, match=match):
            m.replace(name, **words)
        assert text_of(m) == before
    with pytest.raises(DalembertError, match=r"'place' cannot be removed(.|\n)*measurement 'place\.x'"):
        m.remove("place")
    assert text_of(m) == before
    system = da.build(m)
    names = [x.name for x in system.touches]
    gap = dict(zip(names, gaps_of(system, 0.0, system.q0), strict=True))
    assert gap == pytest.approx({"ends[1]": 0.5, "ends[2]": 1.0, "fence": 2.2, "floor": 2.9, "pin": 1e-3})
    m.replace("place", at=(0.7, 0))  # followed
    system = da.build(m)
    assert gaps_of(system, 0.0, system.q0)[names.index("fence")] == pytest.approx(2.7)
    m.replace("ball", position=(0, -1.0))
    with pytest.raises(ModelError, match=r"'floor' starts 1.1 beyond its limit"):
        da.build(m)
    m.replace("ball", position=(0, 3.0))
    da.build(m)

    wrong = before
    for good, bad in (("clearance: 0.001", "clearance: -0.001"), ("measurement: place.x", "measurement: plac.x"),
                      ("lower: -0.5", "lower: 1.5"), ("restitution: 0.75", "restitution: 1.25")):  # fmt: skip
        assert wrong.count(good) == 1
        wrong = wrong.replace(good, bad)
    (tmp_path / "wrong.yaml").write_text(wrong)
    with pytest.raises(FileError) as caught:
        da.load(tmp_path / "wrong.yaml")
    lines = wrong.splitlines()
    for words, place in (
        ("clearance must be greater than zero", "clearance: -0.001"),
        ("there is no measurement 'plac.x'", "measurement: plac.x"),
        ("lower=1.5 must not be greater than upper=1", "lower: 1.5"),
        ("restitution must be from 0 to 1, not 1.25", "restitution: 1.25"),
    ):
        (found,) = [c for c in caught.value.complaints if words in c.text]
        assert place in lines[found.line - 1]
        assert found.column > 1


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
