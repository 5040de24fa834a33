"""Friction of contacts, marched by events: sticking, slipping and impacts by Coulomb's law, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dalembert as da
from dalembert._results import SimulationError
from dalembert.linalg import Coulomb
from dalembert.simulation import simulate_stepping
from dalembert.simulation._impacts import Instantly

G = 9.81
DOWN = (0.0, -G)
THOROUGH = pytest.mark.thorough
BOTH = pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])


def states(solution, name: str) -> list[str]:
    return [p.state for p in solution.phases.of(name)]


# ---- the law at an instant -------------------------------------------------------------------------------------------


def breaks_the_law(A, u, mu, p, w) -> float:
    """By how much Coulomb's and Signorini's laws are not met, relative to the pushes and rates."""
    push, rate = np.max(np.abs(p), initial=1.0), np.max(np.abs(w), initial=1.0)
    left = [np.max(np.abs(w.ravel() - A @ (A.T @ p.ravel()) - u.ravel())) / (push + rate)]
    for k in range(len(mu)):
        force, slip = np.linalg.norm(p[k, 1:]), np.linalg.norm(w[k, 1:])
        left += [-p[k, 0] / push, -w[k, 0] / rate, abs(p[k, 0] * w[k, 0]) / (push * rate)]
        left += [(force - mu[k] * p[k, 0]) / push]
        left += [np.max(np.abs(p[k, 1:] * slip + mu[k] * p[k, 0] * w[k, 1:])) / (push * rate)]
    return max(left)


@pytest.mark.parametrize("width", [2, 3])
def test_what_is_found_meets_the_law(width):
    """Random contacts in the plane (2 rows each) and in space (3), a third of them dependent; one solution of each."""
    rng = np.random.default_rng(2)
    for n in range(40):
        count = 2 if width == 3 else 3
        rows = rng.standard_normal((count, width, 4))
        mu, u = rng.uniform(0, 0.5, count), rng.standard_normal((count, width))
        if n % 3 == 0:  # a second contact at the same place
            rows[1], u[1], mu[1] = rows[0], u[0], mu[0]
        (found,) = Coulomb(rows, -u, np.zeros((0, 4)), np.zeros(0), mu).solutions()
        # directions of slip are found to 1e-9
        assert breaks_the_law(rows.reshape(-1, 4), u, mu, found.p, found.w) < 1e-8
        assert found.shared[:2].all() or n % 3 or not found.p[:2, 0].any()


def test_many_contacts_are_guessed():
    """Eight contacts have 4⁸ choices: too many to try."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        rows, mu, u = rng.standard_normal((8, 2, 20)), rng.uniform(0, 0.5, 8), rng.standard_normal((8, 2))
        (found,) = Coulomb(rows, -u, np.zeros((0, 20)), np.zeros(0), mu).solutions()
        assert breaks_the_law(rows.reshape(-1, 20), u, mu, found.p, found.w) < 1e-8


def tower(count: int, top: float, push: float) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of 1 kg on two feet each, on each other; the uppermost weighs `top` and is pushed by a share of its
    weight: the rows in the mass metric, and their accelerations without a contact."""
    masses, rows = np.append(np.ones(count - 1), top), []
    for k in range(count):
        for x in (-0.3, 0.3):
            normal, along = np.zeros((2, count, 3))
            normal[k], along[k] = (0, 1, x), (1, 0, 0.1)
            if k:
                normal[k - 1], along[k - 1] = (0, -1, -x), (-1, 0, 0.1)
            rows.append([normal.ravel(), along.ravel()])
    M = np.outer(masses, (1, 1, 0.01)).ravel()
    h = np.outer(masses, (0, -G, 0))
    h[-1, 0] = push * top * G
    A = np.array(rows) / np.sqrt(M)
    return A, A @ (h.ravel() / np.sqrt(M))


@pytest.mark.parametrize("top", [1.0, 1e3, 1e6])
def test_a_tower_sticks_as_long_as_it_can(top):
    """What does not slip sticks, though its feet may share friction up to its limit; pushed by more than μ of its
    weight the uppermost box alone slips, or all fall over; the law is met, however unlike the masses are."""
    for count in (3, 10):
        for push in (0.0, 0.49, 0.51):
            A, u = tower(count, top, push)
            mu = np.full(2 * count, 0.5)
            (found,) = Coulomb(A, -u, np.zeros((0, 3 * count)), np.zeros(0), mu).solutions()
            rounding = 1e-12 * top  # of accelerations: sums of pushes of 10 top, times rows squared, 11, of 1e-16 each
            assert breaks_the_law(A.reshape(-1, 3 * count), u, mu, found.p, found.w) < max(1e-8, rounding)
            stick = [x.stick for x in found.choices]
            if push == 0 or (top == 1 and push < 0.5):
                assert all(stick)
            elif top == 1:
                assert stick == [True] * (2 * count - 2) + [False] * 2


def test_painleves_rod_has_no_solution_or_two():
    """A rod that slides on its tip: Aₙₙ − μ Aₙₜ < 0 where friction wins: two solutions where it flies, else none."""
    # half length 1, mass 1, inertia 1/3, at the angle a
    a, mu = math.radians(60), 3.0
    c, s = math.cos(a), math.sin(a)
    rows = np.array([[[0, 1.0, -math.sqrt(3) * c], [1.0, 0, math.sqrt(3) * s]]])  # velocities (x, y, θ̇/√3)
    assert rows[0, 0] @ (rows[0, 0] + mu * rows[0, 1]) < 0  # friction along +x presses it down more than the push lifts
    for push, count in ((1.0, 2), (-1.0, 0)):
        way = np.array([[1.0]])  # friction along +x
        u = np.array([[push, 0.0]])
        found = Coulomb(rows, -u, np.zeros((0, 3)), np.zeros(0), np.array([mu]), way).solutions()
        assert len(found) == count


# ---- sliding and sticking --------------------------------------------------------------------------------------------


def block(mu=0.4, tan=0.0, speed=0.0, feet=(-0.5, 0.5), **more) -> da.Model:
    """A block of 1 kg on two feet on an incline, x downhill."""
    a = math.atan(tan)
    m = da.Model("block", gravity=(G * math.sin(a), -G * math.cos(a)))
    b = m.body("b", mass=1.0, inertia=10.0, position=(0, 0.1), velocity=(speed, 0))
    for k, x in enumerate(feet):
        m.contact(f"foot{k}", m.ground, b, at=(x, 0.0), point=(0, 0), normal=(0, 1), friction=mu, **more)
    return m


@BOTH
def test_a_block_starts_at_the_angle_of_friction(coordinates):
    """On both sides of tan = μ, by 1e-9; how its feet share the friction is not determined, whether it holds is."""
    stays = da.simulate(da.build(block(tan=0.4 * (1 - 1e-9)), coordinates=coordinates), 1.0, samples=3)
    assert states(stays, "foot0") == states(stays, "foot1") == ["stick"]
    assert abs(stays.q[-1, 0]) < 1e-15
    goes = da.simulate(da.build(block(tan=0.4 * (1 + 1e-9)), coordinates=coordinates), 1.0, samples=3)
    assert states(goes, "foot0") == states(goes, "foot1") == ["slip +"]
    a = math.atan(0.4 * (1 + 1e-9))
    assert goes.q[-1, 0] == pytest.approx(0.5 * G * (math.sin(a) - 0.4 * math.cos(a)), rel=1e-6)  # of 1e-9: rounding
    fast = da.simulate(da.build(block(tan=0.8), coordinates=coordinates), 1.0, samples=3)
    a = math.atan(0.8)
    assert fast.q[-1, 0] == pytest.approx(0.5 * G * (math.sin(a) - 0.4 * math.cos(a)), rel=1e-12)
    # reactions contain friction: of both feet μ m g cos a up the slope
    force = sum(fast.reactions(f"foot{k}").force.values for k in (0, 1))
    assert np.allclose(force, [-0.4 * G * math.cos(a), G * math.cos(a)], rtol=1e-12)
    assert fast.energy_drift < 1e-12
    assert fast.energy["work"].values[-1] == pytest.approx(-0.4 * G * math.cos(a) * fast.q[-1, 0], rel=1e-12)


def test_a_push_that_grows_makes_it_slip():
    """Stick → slip where the push reaches μ m g; then x = (t − t₁)³ k/6m."""
    m = block(mu=0.4)
    m.force("push", "b", ("2*t", "0"))
    s = da.simulate(m, 3.0, samples=4)
    (_, slip) = s.phases.of("foot0")
    t1 = 0.4 * G / 2
    assert states(s, "foot0") == ["stick", "slip +"]
    assert slip.start == pytest.approx(t1, abs=1e-9)  # the limit is known to 1e-10 of the load
    assert s.q[-1, 0] == pytest.approx(2 * (3 - t1) ** 3 / 6, rel=1e-8)
    assert list(s.dataset.contact_slips.values[:, 0]) == [False, False, True, True]


def test_a_thrown_block_stays_where_it_stops():
    """It slides v²/(2 μ g) for v/(μ g), and then stays for an hour."""
    s = da.simulate(block(speed=1.0), 3600.0, samples=5)
    assert s.phases.t == pytest.approx([0.0, 1 / (0.4 * G)], abs=1e-12)
    assert states(s, "foot0") == ["slip +", "stick"]
    where = 1 / (2 * 0.4 * G)
    assert np.allclose(s.q[1:, 0], where, atol=2e-12)  # a speed of 1e-16 would be 4e-13
    # friction on the feet at its height turns the load forward: N₁ − N₀ = μ m g · 0.1/0.5
    with pytest.warns(da.errors.RedundancyWarning):
        push = [s.reactions(f"foot{k}", rule="minimum_norm").force.values[0, 1] for k in (0, 1)]
    assert push == pytest.approx([G / 2 - 0.4 * G * 0.1, G / 2 + 0.4 * G * 0.1], rel=1e-12)
    assert "'foot0' is closed for 3600 s" in str(s.phases)


@BOTH
def test_time_steps_converge_to_the_march(coordinates):
    """Under constant forces a step is exact; one in which the block stops is off by less than g dt²."""
    model = block(speed=1.0, tan=0.1)
    exact = da.simulate(da.build(model, coordinates=coordinates), 0.5, samples=[0.3, 0.5])
    assert states(exact, "foot0") == ["slip +", "stick"]
    for dt in (4e-3, 1e-3):
        motion = simulate_stepping(model, 0.5, dt=dt, every=round(0.1 / dt))
        off = np.abs(np.asarray(motion.q)[[3, 5], 0] - exact.q[:, 0])
        assert off[0] < 1e-13
        assert off[1] < G * dt**2


def disc(mu: float, speed: float, spin=0.0, height=0.0, solid=0.5, **more) -> da.Model:
    """A disc of 2 kg and radius 0.2 on the floor, or above it."""
    m, r = da.Model("disc", gravity=DOWN), 0.2
    J = solid * 2 * r * r
    b = m.body("b", mass=2.0, inertia=J, position=(0, r + height), velocity=(speed, 0), angular_velocity=spin)
    m.contact("floor", m.ground, b, point=(0, 0), normal=(0, 1), radius=r, friction=mu, **more)
    return m


@BOTH
def test_a_sliding_disc_begins_to_roll(coordinates):
    """At v/(3 μ g) with 2v/3, which it keeps."""
    s = da.simulate(da.build(disc(0.3, 2.0), coordinates=coordinates), 1.0, samples=3)
    t1 = 2 / (3 * 0.3 * G)
    assert states(s, "floor") == ["slip +", "stick"]
    assert s.phases.t[1] == pytest.approx(t1, abs=1e-12)
    x = 2 * t1 - 0.5 * 0.3 * G * t1**2 + 4 / 3 * (1 - t1)
    assert s.dataset.position.values[-1, 0] == pytest.approx([x, 0.2], abs=1e-12)
    assert s.dataset.velocity.values[-1, 0] == pytest.approx([4 / 3, 0.0], abs=1e-12)
    assert s.reactions("floor").force.values[0] == pytest.approx([-0.3 * 2 * G, 2 * G], rel=1e-12)
    assert s.reactions("floor").force.values[-1] == pytest.approx([0.0, 2 * G], abs=1e-10)
    # friction acts at the rim: its moment about the centre
    assert s.reactions("floor").torque.values[0] == pytest.approx(-0.2 * 0.3 * 2 * G, rel=1e-12)
    assert s.energy_drift < 1e-12
    # states between the saved ones, by marching again
    t = 0.5 * t1
    assert s.states([t]).q[0][0] == pytest.approx(2 * t - 0.5 * 0.3 * G * t * t, abs=1e-12)


@pytest.mark.parametrize("law", ["newton", "poisson"])
@pytest.mark.parametrize("mu", [0.05, 0.9])
def test_a_ball_that_falls_with_speed_and_spin(mu, law):
    """Little friction: it slips through the impact with μ p; much: the contact stops, m J/(J + m r²) of the slip."""
    v, w, eps, r, J = 1.0, 3.0, 0.5, 0.2, 0.4 * 2 * 0.04
    s = da.simulate(disc(mu, v, w, 1.0, 0.4, restitution=eps, impact=law), 0.5, samples=[0.5])
    (impact,) = s.phases.impacts
    p = 2 * (1 + eps) * math.sqrt(2 * G)
    slip = v + r * w
    rub = -min(mu * p, slip / (1 / 2 + r * r / J))
    assert (abs(rub) < 0.99 * mu * p) == (mu == 0.9)
    assert impact.t == pytest.approx(math.sqrt(2 / G), abs=1e-12)
    assert impact.impulses == {"floor": pytest.approx(p, rel=1e-12)}
    assert impact.friction == {"floor": (pytest.approx(rub, rel=1e-10),)}
    assert s.v[-1][0] == pytest.approx(v + rub / 2, rel=1e-10)
    assert s.v[-1][2] == pytest.approx(w + rub * r / J, rel=1e-10)
    T = [0.5 * (2 * a * a + 2 * b * b + J * c * c) for a, b, c in (
        (v, math.sqrt(2 * G), w), (v + rub / 2, eps * math.sqrt(2 * G), w + rub * r / J))]  # fmt: skip
    assert impact.energy_lost == pytest.approx(T[0] - T[1], rel=1e-10)


@pytest.mark.parametrize(("mu", "coordinates"), [(0.2, "absolute"), pytest.param(0.2, "joint", marks=THOROUGH)])
def test_a_ladder_against_a_wall(mu, coordinates):
    """It slides at angles below that of tan α = (1 − μ²)/(2μ), and stands at greater ones."""
    limit = math.atan((1 - mu * mu) / (2 * mu))
    for angle, state in ((limit - 1e-6, "slip"), (limit + 1e-6, "stick")):
        m, c, s = da.Model("ladder", gravity=DOWN), math.cos(angle), math.sin(angle)
        b = m.body("b", mass=10.0, inertia=10 * 4 / 12, position=(c, s))
        m.contact("floor", m.ground, b, at=(2 * c, 0), point=(0, 0), normal=(0, 1), friction=mu)
        m.contact("wall", m.ground, b, at=(0, 2 * s), point=(0, 0), normal=(1, 0), friction=mu)
        found = da.simulate(da.build(m, coordinates=coordinates), 0.1, samples=2)
        assert all(states(found, name)[0].startswith(state) for name in ("floor", "wall"))
        assert found.energy_drift < 1e-6  # of a motion that is 1e-6 of a fall


@BOTH
def test_a_falling_rod_slips_where_friction_reaches_its_limit(coordinates):
    """On its foot, F/N = 3 sin θ (3 cos θ − 2)/(3 cos θ − 1)² at the angle θ from upright: it slips backwards first."""
    from scipy.optimize import brentq

    mu, start = 0.3, 0.1
    m = da.Model("rod", gravity=DOWN)
    b = m.body("b", mass=1.0, inertia=1 / 12, position=(0.5 * math.sin(start), 0.5 * math.cos(start)))
    m.contact("foot", m.ground, b, at=(0, 0), point=(0, 0), normal=(0, 1), friction=mu)

    def left(a):  # with ω² = 3 g (cos start − cos a) for a start at rest: ẍ and ÿ of the centre
        w2, acc = 3 * G * (math.cos(start) - math.cos(a)), 1.5 * G * math.sin(a)
        F = 0.5 * (acc * math.cos(a) - w2 * math.sin(a))
        N = G - 0.5 * (acc * math.sin(a) + w2 * math.cos(a))
        return mu * N - abs(F)

    angle = brentq(left, start, math.radians(40), xtol=1e-14)
    s = da.simulate(da.build(m, coordinates=coordinates), 1.0, samples=3, rtol=1e-10)
    assert states(s, "foot")[:2] == ["stick", "slip −"]
    assert start - s.phases.q[1][-1] == pytest.approx(angle, abs=1e-8)  # the last coordinate is the rod's angle
    assert s.energy_drift < 1e-8


def test_a_block_that_rocks_comes_to_rest():
    """Each impact leaves (1 − 3/2 sin²α) of the rate (Housner): infinitely many of them in a finite time."""
    a, tilt = 0.1, 0.05
    m, R = (
        da.Model("block", gravity=DOWN),
        np.array([[math.cos(tilt), -math.sin(tilt)], [math.sin(tilt), math.cos(tilt)]]),
    )
    b = m.body("b", mass=1.0, inertia=2 * a * a / 3, position=R @ [a, a], angle=tilt)
    for name, at in (("left", (0, 0)), ("right", R @ np.array([2 * a, 0]))):
        m.contact(name, m.ground, b, at=at, point=(0, 0), normal=(0, 1), friction=2.0)
    s = da.simulate(m, 2.0, samples=3)
    found = s.phases.impacts
    assert len(found) > 8
    assert [i.energy_after / i.energy_before for i in found[:8]] == pytest.approx([0.25**2] * 8, rel=1e-7)
    assert [p.state for p in (s.phases.of("left")[-1], s.phases.of("right")[-1])] == ["stick", "stick"]
    assert np.max(np.abs(s.v[-1])) < 1e-15
    assert s.q[-1][2] == pytest.approx(0.0, abs=1e-12)
    assert s.energy_drift < 1e-8


# ---- in space --------------------------------------------------------------------------------------------------------


@BOTH
def test_a_sliding_ball_begins_to_roll(coordinates):
    """Spinning about all axes: the slip keeps its direction and lasts 2|u|/(7 μ g); v loses 2/7 of the slip u."""
    v, w, r, mu = np.array([2.0, 0.5, 0]), np.array([3.0, -8.0, 5.0]), 0.2, 0.3
    m, J = da.Model("ball", space="space", gravity=(0, 0, -G)), 0.4 * 2 * r * r
    b = m.body("b", mass=2.0, inertia=(J, J, J), position=(0, 0, r), velocity=v, angular_velocity=w)
    m.contact("floor", m.ground, b, point=(0, 0, 0), normal=(0, 0, 1), radius=r, friction=mu)
    s = da.simulate(da.build(m, coordinates=coordinates), 1.0, samples=3)
    u = v + np.cross(w, [0, 0, -r])
    along, t1 = u / np.linalg.norm(u), 2 * np.linalg.norm(u) / (7 * mu * G)
    assert states(s, "floor") == ["slip", "stick"]
    assert s.phases.t[1] == pytest.approx(t1, abs=1e-11)
    end = v - 2 / 7 * u
    assert s.dataset.velocity.values[-1, 0] == pytest.approx(end, abs=1e-11)
    where = v * t1 - 0.5 * mu * G * t1**2 * along + end * (1 - t1)
    assert s.dataset.position.values[-1, 0] == pytest.approx(where + [0, 0, r], abs=1e-11)
    assert s.reactions("floor").force.values[0] == pytest.approx(2 * G * np.array([0, 0, 1]) - 2 * mu * G * along)
    assert s.energy_drift < 1e-9


def test_a_ball_without_spin_keeps_five_sevenths():
    m, r = da.Model("ball", space="space", gravity=(0, 0, -G)), 0.1
    J = 0.4 * r * r
    b = m.body("b", mass=1.0, inertia=(J, J, J), position=(0, 0, r), velocity=(0.6, 0.8, 0))
    m.contact("floor", m.ground, b, point=(0, 0, 0), normal=(0, 0, 1), radius=r, friction=0.2)
    s = da.simulate(m, 0.5, samples=2)
    assert s.dataset.velocity.values[-1, 0] == pytest.approx([5 / 7 * 0.6, 5 / 7 * 0.8, 0], abs=1e-12)


FEET, MASS, TURN, HEIGHT = np.array([(0.5, 0), (-0.3, 0.4), (-0.3, -0.4)]), 2.0, 0.2, 0.3


def stool() -> da.Model:
    m = da.Model("stool", space="space", gravity=(0, 0, -G))
    motion = {"velocity": (1.0, 0.3, 0), "angular_velocity": (0, 0, 2.0)}
    b = m.body("b", mass=MASS, inertia=(0.1, 0.1, TURN), position=(0, 0, HEIGHT), **motion)
    for k, at in enumerate(FEET):
        m.contact(f"leg{k}", m.ground, b, at=(*at, 0), point=(0, 0, 0), normal=(0, 0, 1), friction=0.3)
    return m


def stool_by_hand(_, y):
    """x, y, θ and their rates: three loads from the weight and from moments of friction at the height of the centre."""
    c, s = math.cos(y[2]), math.sin(y[2])
    r = FEET @ np.array([[c, s], [-s, c]])
    slip = y[3:5] + y[5] * np.column_stack([-r[:, 1], r[:, 0]])
    f = -0.3 * slip / np.linalg.norm(slip, axis=1)[:, None]
    N = np.linalg.solve([np.ones(3), r[:, 1] + HEIGHT * f[:, 1], r[:, 0] + HEIGHT * f[:, 0]], [MASS * G, 0, 0])
    F = N[:, None] * f
    turning = np.sum(r[:, 0] * F[:, 1] - r[:, 1] * F[:, 0]) / TURN
    return [*y[3:], *(F.sum(0) / MASS), turning]


def test_a_stool_slides_and_turns():
    """Three feet, thrown and spinning: slips turn. Against an integration by hand; all energy goes into friction."""
    from scipy.integrate import solve_ivp

    s = da.simulate(stool(), 1.0, samples=[0.0, 0.2, 1.0], rtol=1e-10)
    assert all(states(s, f"leg{k}") == ["slip", "stick"] for k in range(3))
    hand = solve_ivp(stool_by_hand, (0, 0.2), [0, 0, 0, 1.0, 0.3, 2.0], rtol=1e-11, atol=1e-12).y[:, -1]
    assert s.dataset.position.values[1, 0, :2] == pytest.approx(hand[:2], abs=1e-9)
    assert s.v[1][[0, 1, 5]] == pytest.approx(hand[3:], abs=1e-8)
    assert np.max(np.abs(s.v[-1])) < 1e-12
    assert s.energy["work"].values[-1] == pytest.approx(-(0.5 * MASS * 1.09 + 0.5 * TURN * 4), rel=1e-8)


@THOROUGH
def test_time_steps_of_a_stool_converge_to_the_march():
    where = da.simulate(stool(), 1.0, samples=[1.0]).q[-1]
    errors = [np.max(np.abs(np.asarray(simulate_stepping(stool(), 1.0, dt=dt).q)[-1] - where)) for dt in (4e-3, 1e-3)]
    assert errors[1] < 6e-3  # the speed of 1 m/s times some steps
    assert errors[1] < 0.5 * errors[0]


# ---- impacts ---------------------------------------------------------------------------------------------------------


def scaffold(impact: str) -> da.Model:
    """Two rods on a hinge above the floor, with a wheel: three contacts with friction."""
    m = da.Model("scaffold", gravity=DOWN)
    a = m.body("a", mass=2.0, inertia=0.2, position=(-0.4, 0.3))
    b = m.body("b", mass=1.0, inertia=0.1, position=(0.4, 0.3))
    m.revolute("hinge", a, b, at=(0, 0.6))
    law = {"point": (0, 0), "normal": (0, 1), "impact": impact}
    m.contact("left", m.ground, a, at=(-0.8, 0), friction=0.6, **law)
    m.contact("right", m.ground, b, at=(0.8, 0), friction=0.3, **law)
    m.contact("wheel", m.ground, b, at=(0.5, 0.1), radius=0.1, friction=0.9, **law)
    return m


def random_impacts(impact: str, count: int, restitution: float | None):
    """Impacts of the scaffold at random velocities: the instant, and what may happen."""
    from dalembert.simulation._impacts import terms_at
    from dalembert.systems import all_closed

    rng = np.random.default_rng(5)
    system = da.build(scaffold(impact))
    whole = all_closed(system).plain()
    M, h, C, Phi, _, Gamma = (
        np.asarray(x)[0] for x in terms_at(whole, np.zeros(1), whole.q0[None], whole.v0[None])
    )  # fmt: skip
    for _ in range(count):
        v = rng.standard_normal(len(M))
        at = Instantly(system.touches, whole.m_holonomic, v, (M, h, C, Phi, C @ v, Gamma), system.frictions())
        B = C[at.both]
        v = v - np.linalg.pinv(B) @ (B @ v)
        at = Instantly(system.touches, whole.m_holonomic, v, (M, h, C, Phi, C @ v, Gamma), system.frictions())
        acting = at.rate <= 0
        if acting.any():
            eps = np.full(len(acting), rng.uniform(0, 1) if restitution is None else restitution)
            yield C, at, acting, eps, at.struck_with_friction(acting, eps)[0]


@pytest.mark.parametrize(("impact", "restitution"), [("newton", 0.0), ("poisson", None)])
def test_random_impacts_with_friction_never_gain_energy(impact, restitution):
    """200 of them: a solution, no gain of energy, and Coulomb's law between impulses and the slip after the impact."""
    met = 0
    for C, at, acting, _, found in random_impacts(impact, 300, restitution):
        assert found
        for after in found:
            assert after.after <= after.before * (1 + 1e-12)
            assert np.all(np.linalg.norm(after.friction, axis=1) <= at.mu * after.impulse + 1e-9)
            if impact == "newton":
                slip = (C @ after.v)[at.tied[:, 0]]
                slips = acting & (np.abs(slip) > 1e-9)
                assert np.allclose((after.friction[:, 0] + np.sign(slip) * at.mu * after.impulse)[slips], 0, atol=1e-9)
        met += 1
    assert met >= 200


def test_newtons_law_with_friction_may_gain_energy_and_is_refused():
    """As Kane and Levinson (1985) found: then the run ends with a sentence, and Poisson's law is taken."""
    worst = max(random_impacts("newton", 240, 0.9), key=lambda x: max(a.after / a.before for a in x[4]))
    assert max(a.after / a.before for a in worst[4]) > 1.001
    m, a = da.Model("rod", gravity=(0, 0)), math.radians(55)
    c, s = math.cos(a), math.sin(a)
    m.body("b", mass=1.0, inertia=1 / 12, position=(0.5 * c, 0.5 * s + 0.01), velocity=(-0.3, -1.0))
    law = {"restitution": 0.9, "friction": 0.7}
    m.contact("tip", m.ground, "b", at=(0, 0.01), point=(0, 0), normal=(0, 1), **law)
    gains = False
    for vx in np.linspace(-2, 2, 41):
        m.replace("b", velocity=(float(vx), -1.0))
        try:
            da.simulate(m, 0.02, samples=2)
        except SimulationError as error:
            assert "would gain energy" in str(error) and "impact='poisson'" in str(error)
            gains = True
            break
    assert gains
    m.replace("tip", impact="poisson")
    assert da.simulate(m, 0.02, samples=2).phases.impacts[0].energy_lost >= 0


# ---- what is said ----------------------------------------------------------------------------------------------------


def table(height: float, speed: float, spin=0.0) -> da.Model:
    m = da.Model("table", space="space", gravity=(0, 0, -G))
    body = {"position": (0, 0, 0.3 + height), "velocity": (speed, 0, 0), "angular_velocity": (0, 0, spin)}
    b = m.body("b", mass=2.0, inertia=(0.1, 0.1, 0.2), **body)
    for k, (x, y) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        m.contact(f"leg{k}", m.ground, b, at=(x, y, height), point=(0, 0, 0), normal=(0, 0, 1), friction=0.3)
    return m


def test_friction_by_a_load_that_is_not_determined_is_refused():
    """Four feet in space share the load, and the turning moment of their friction depends on the shares."""
    with pytest.raises(da.errors.DalembertError, match=r"'leg0'.*the rigid-body model does not determine"):
        da.simulate(table(0.0, 1.0), 0.1)
    with pytest.raises(SimulationError, match=r"At t = 0.04.* s: Friction 'leg0'.*does not determine"):
        da.simulate(table(0.01, 1.0), 0.1)
    with pytest.raises(SimulationError, match=r"'leg0' and .* depends on a load .* contacts share it"):
        da.simulate(table(0.01, 1.0, 1.0), 0.1)
    # while it does not turn its feet's shares make no difference: a rule picks them
    s = da.simulate(table(0.0, 1.0), 0.1, rule="minimum_norm", samples=2)
    assert s.q[-1][0] == pytest.approx(0.1 - 0.5 * 0.3 * G * 0.01, abs=1e-10)
    m = table(0.0, 0.0)  # at rest no share is needed
    m.force("push", "b", (0.29 * 2 * G, 0, 0))
    s = da.simulate(m, 0.1, samples=2)
    assert states(s, "leg0") == ["stick"]


def test_a_rod_that_jams_ends_with_a_sentence():
    """Painlevé's rod, pushed along the floor onto its tip."""
    m, a = da.Model("rod", gravity=DOWN), math.radians(60)
    b = m.body("b", mass=1.0, inertia=1 / 12, position=(-0.5 * math.cos(a), 0.5 * math.sin(a)), velocity=(1.0, 0))
    m.contact("tip", m.ground, b, at=(0, 0), point=(0, 0), normal=(0, 1), friction=3.0)
    with pytest.raises(SimulationError, match=r"No choice of .* contacts 'tip' meets Coulomb's law at t = 0 s"):
        da.simulate(m, 0.1)


def test_files_of_a_motion(tmp_path):
    s = da.simulate(disc(0.9, 1.0, 3.0, 0.2, restitution=0.3), 0.5, samples=4)
    back = da.open(s.to_netcdf(tmp_path / "run.nc"))
    assert repr(back.phases) == repr(s.phases)
    assert back.phases.impacts == s.phases.impacts
