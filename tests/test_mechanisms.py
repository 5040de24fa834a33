"""Built-in mechanisms against what is known of them: published numbers, closed forms, conserved quantities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.mechanisms import _linkages

# ---- the bicycle: Meijaard, Papadopoulos, Ruina, Schwab (2007), q = (lean, steer) ---------------------------------

M = np.array([[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]])
C1 = np.array([[0, 33.86641391492494], [-0.85035641456978, 1.68540397397560]])
K0 = np.array([[-80.95, -2.59951685249872], [-2.59951685249872, -0.80329488458618]])
K2 = np.array([[0, 76.59734589573222], [0, 2.65431523794604]])
AT_5 = np.array([-14.07838969279820, -0.32286642900409, -0.77534188219585 + 4.46486771378823j])
UPRIGHT = 1e-9  # the published matrices have 14 digits, the worst eigenvalue is 1e3 times as sensitive


def bicycle_eigenvalues(speed: float, zeros: int = 6, coordinates: str = "absolute") -> np.ndarray:
    """Apart from the zeros: place (2), heading, two wheel angles, and how fast it goes."""
    model = da.mechanism("bicycle", speed=speed, lean_rate=0.0)
    found = da.linearise(da.build(model, coordinates=coordinates)).eigenvalues
    assert np.sum(found == 0.0) == zeros
    return np.sort_complex(found[found != 0.0])


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
@pytest.mark.parametrize("speed", range(11))
def test_bicycle_has_the_published_eigenvalues(speed, coordinates):
    stiffness, damping = 9.81 * K0 + speed**2 * K2, speed * C1
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(M, stiffness), -np.linalg.solve(M, damping)]])
    found = bicycle_eigenvalues(float(speed), coordinates=coordinates)
    np.testing.assert_allclose(found, np.sort_complex(np.linalg.eigvals(A)), rtol=UPRIGHT)


def test_bicycle_at_5_metres_a_second_has_the_printed_digits():
    found = bicycle_eigenvalues(5.0)
    for value in AT_5:
        assert np.min(np.abs(found - value)) < UPRIGHT


def test_bicycle_is_stable_between_weave_and_capsize():
    """At the published weave speed a real part vanishes to rounding, at the capsize speed an eigenvalue does."""
    assert np.min(np.abs(bicycle_eigenvalues(4.29238253634111).real)) < 1e-10
    assert len(bicycle_eigenvalues(6.02426201538837, zeros=7)) == 3


@pytest.mark.parametrize("name", ["jansen-leg", "delta-robot", "double-cardan"])
def test_velocities_that_a_mechanism_states_are_those_it_has(name):
    """Jansen's are differences of closed forms with a step of 1e-5: to 1e-9 of 10 rad/s times some metres."""
    system = da.build(da.mechanism(name))
    assert np.max(np.abs(da.equations.residuals(system, 0.0, system.q0, system.v0)[1])) < 1e-7
    assert np.max(np.abs(system.v0)) > 0.9


# ---- Jansen's leg -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [10.0, pytest.param(60.0, marks=pytest.mark.thorough)])
def test_jansen_leg_over_a_minute(span):
    solution = da.simulate(da.build(da.mechanism("jansen-leg")), span)
    assert solution.violation["position"] < 1e-12
    assert solution.energy_drift < 1e-6


def test_jansen_foot_walks_the_known_path():
    """Over a turn the foot's stride is flat below: the linkage's purpose; its links keep Jansen's lengths."""
    n = _linkages.JANSEN
    feet = []
    for crank in np.linspace(0, 2 * math.pi, 181):
        P = _linkages.jansen_points(crank)
        pairs = {"b": "ZY", "c": "ZV", "d": "ZU", "e": "YU", "f": "UW", "g": "VW", "j": "XY", "k": "XV"}
        for link, (p, q) in pairs.items():
            assert np.hypot(*(P[p] - P[q])) == pytest.approx(0.01 * n[link], abs=1e-12)
        feet.append(P["foot"])
    feet = np.array(feet)
    low = feet[:, 1] < feet[:, 1].min() + 0.02
    # on the ground for more than a third of the turn, over a stride of more than half a metre
    assert np.mean(low) > 1 / 3
    assert np.ptp(feet[low, 0]) > 0.5


# ---- wheels and edges ---------------------------------------------------------------------------------------------


def test_chaplygin_sleigh_is_the_closed_form():
    """u̇ = a ω², (J + m a²) ω̇ = −m a ω u (u: speed of the edge): u = U tanh(U(t − t₀)/c·…), ω falls as sech.

    With E = m u² + (J + m a²) ω² constant, U² = E/m, and k² = (J + m a²)/m: u = U tanh(aU(t − t₀)/k²).
    """
    mass, inertia, a = 1.5, 0.4, 0.3
    solution = da.simulate(da.mechanism("chaplygin-sleigh"), 10.0, rtol=1e-10)
    t, q, v = (np.asarray(x) for x in (solution.t, solution.q, solution.v))
    c, s = np.cos(q[:, 2]), np.sin(q[:, 2])
    u, w = c * v[:, 0] + s * v[:, 1], v[:, 2]
    k2 = (inertia + mass * a**2) / mass
    U = math.sqrt(u[0] ** 2 + k2 * w[0] ** 2)
    t0 = -k2 / (a * U) * math.atanh(u[0] / U)
    np.testing.assert_allclose(u, U * np.tanh(a * U * (t - t0) / k2), atol=1e-8)  # a hundred times the tolerance
    np.testing.assert_allclose(w, U / math.sqrt(k2) / np.cosh(a * U * (t - t0) / k2), atol=1e-8)


def test_rolling_ball_circles_at_two_sevenths():
    """On a plate turning at Ω the centre of a uniform ball obeys v̇ = (2/7) Ω n × v (Routh)."""
    solution = da.simulate(da.mechanism("rolling-sphere"), 10.0, rtol=1e-10)
    t = np.asarray(solution.t)
    ball = np.asarray(solution.v)[:, 6:8]
    rate = 2 / 7 * 3.0
    expected = 0.5 * np.column_stack([-np.sin(rate * t), np.cos(rate * t)])
    np.testing.assert_allclose(ball, expected, atol=1e-8)


def test_snakeboard_is_its_reduced_equation():
    """Opposite steering lets the board move only along itself, θ̇ = k v with k = (2/l) tan φ; then d'Alembert gives
    (m + J k²) v̇ + J k k̇ v = −k J_r ψ̈, one equation, integrated here by SciPy."""
    length, steering, omega, swing = 0.5, 0.4, 2.0, 0.8
    mass, J_rotor = 6.0 + 2.0 + 2 * 0.5, 0.4
    J = 0.3 + 0.4 + 2 * (0.01 + 0.5 * (length / 2) ** 2)

    def rate(t, y):
        heading, v = y[2:]
        phi, phi_rate = steering * math.sin(omega * t), steering * omega * math.cos(omega * t)
        k, k_rate = 2 / length * math.tan(phi), 2 / length * phi_rate / math.cos(phi) ** 2
        twist = -swing * omega**2 * math.sin(omega * t)
        return [
            v * math.cos(heading), v * math.sin(heading), k * v,
            -(J * k * k_rate * v + k * J_rotor * twist) / (mass + J * k**2),
        ]  # fmt: skip

    solution = da.simulate(da.mechanism("snakeboard"), 10.0, rtol=1e-10)
    t = np.asarray(solution.t)
    found = solve_ivp(rate, (0, 10), [0.0, 0.0, 0.0, 0.0], method="DOP853", rtol=1e-12, atol=1e-12, t_eval=t)
    np.testing.assert_allclose(np.asarray(solution.q)[:, :3], found.y[:3].T, atol=1e-7)
    assert abs(found.y[0, -1]) > 0.1  # it goes somewhere without a push


# ---- linkages -----------------------------------------------------------------------------------------------------


def test_peaucellier_draws_a_straight_line():
    model = da.mechanism("peaucellier")
    solution = da.simulate(model, 3.0)
    k = list(model.bodies).index("far1")
    x, y, angle = np.asarray(solution.q)[:, 3 * k : 3 * k + 3].T
    far = np.column_stack([x - 0.2 * np.cos(angle), y - 0.2 * np.sin(angle)])  # half a short bar from the middle
    assert np.ptp(far[:, 1]) > 0.2
    # the inverse of a circle through the centre: the line x = (long² − short²)/(2 crank)
    np.testing.assert_allclose(far[:, 0], (1.0 - 0.16) / 0.7, atol=1e-12)


@pytest.mark.thorough
def test_groove_moves_the_slider_by_its_radius():
    model = da.mechanism("groove-cam")
    solution = da.simulate(model, 3.0)
    q = np.asarray(solution.q)
    turn, pin = np.mod(-q[:, 2], 2 * math.pi), q[:, 3] - 0.2
    s = np.clip(np.mod(turn, math.pi) / (math.pi / 2) - 0.5, 0, 1)
    step = s**4 * (35 - 84 * s + 70 * s**2 - 20 * s**3)
    reach = 0.25 + 0.1 * np.where(turn < math.pi, step, 1 - step)
    # the spline through 72 points follows the groove's formula, whose fourth derivative jumps at the rests
    np.testing.assert_allclose(pin, reach, atol=5e-5)
    still = (turn > 0.1) & (turn < math.pi / 4 - 0.1)
    assert np.sum(still) > 5 and np.ptp(pin[still]) < 1e-4


def test_moving_pendulum_keeps_its_level_momentum():
    """No force acts along the guide; x₂ = ρ sin x₃ [Blajer 1995, eq. 6.2]."""
    solution = da.simulate(da.mechanism("moving-pendulum"), 10.0)
    q, v = np.asarray(solution.q), np.asarray(solution.v)
    np.testing.assert_allclose(v[:, 0], v[0, 0], atol=1e-12)
    np.testing.assert_allclose(q[:, 1], 0.5 * np.sin(q[:, 2]), atol=1e-14)


# ---- in space -----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_delta_plate_does_not_turn():
    solution = da.simulate(da.mechanism("delta-robot"), 2.0)
    q = np.asarray(solution.q)[:, :7]
    assert np.max(np.ptp(q[:, :3], axis=0)) > 0.01
    np.testing.assert_allclose(q[:, 4:], 0.0, atol=1e-12)


def test_differential_turns_its_carrier_at_the_mean():
    solution = da.simulate(da.mechanism("differential"), 3.0)
    v = np.asarray(solution.v).reshape(len(solution.t), 4, 6)
    carrier, left, right = v[:, 0, 3], v[:, 1, 3], v[:, 2, 3]
    np.testing.assert_allclose(carrier, (left + right) / 2, atol=1e-10)
    assert right[-1] > 5 * left[-1] > 0  # the braked side stays behind


@pytest.mark.thorough
def test_stewart_platform_follows_its_legs():
    """The distance between the ends of each leg is what its slider was told, and the platform moves."""
    model = da.mechanism("stewart-platform")
    solution = da.simulate(model, 3.0)
    legs = [np.asarray(solution.dataset["coordinate"].sel(joint_coordinate=f"P{k}.displacement")) for k in range(1, 7)]
    t = np.asarray(solution.t)
    ramp = np.clip(t, 0, 1)
    ramp = ramp**3 * (10 - 15 * ramp + 6 * ramp**2)
    for k, leg in enumerate(legs):
        np.testing.assert_allclose(leg, ramp * 0.1 * np.sin(2 * t + k * math.pi / 3), atol=1e-12)
    assert np.max(np.ptp(np.asarray(solution.q)[:, :3], axis=0)) > 0.02


@pytest.mark.thorough
def test_spatial_slider_crank_by_pythagoras():
    solution = da.simulate(da.mechanism("slider-crank-in-space"), 2.0)
    t, q = np.asarray(solution.t), np.asarray(solution.q).reshape(-1, 3, 7)
    pin = np.column_stack([0 * t, 0.1 - 0.1 * np.sin(6 * t), 0.12 + 0.1 * np.cos(6 * t)])
    slider = q[:, 2, 0]
    np.testing.assert_allclose(slider, np.sqrt(0.3**2 - pin[:, 1] ** 2 - pin[:, 2] ** 2), atol=1e-10)


# ---- a start that is off -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-6, 1e-2])
def test_a_start_that_is_off_is_closed_and_said(size):
    system = da.build(da.mechanism("four-bar"))
    q = system.q0 + size * np.random.default_rng(0).standard_normal(system.n)
    if size < 1e-4:
        solution = da.simulate(system, 0.1, (q, system.v0))
    else:
        with pytest.warns(da.errors.AssemblyWarning, match="to close its joints; open before: 'C' by"):
            solution = da.simulate(system, 0.1, (q, system.v0))
    assert 0.1 * size < solution.stats["start_moved"] < 10 * size
    assert solution.violation["position"] < 1e-14


def test_an_impossible_start_names_its_joints():
    model = da.Model("too-short")
    a = model.body("a", mass=1, inertia=1, position=(1, 0))
    b = model.body("b", mass=1, inertia=1, position=(3, 0))
    model.distance("first", "ground", a, at_i=(0, 0), at_j=(1, 0))
    model.distance("middle", a, b, at_i=(1, 0), at_j=(3, 0), length=0.5)
    model.distance("last", "ground", b, at_i=(5, 0), at_j=(3, 0), length=1.0)
    with pytest.raises(da.errors.AssemblyError, match="These cannot close: 'middle'"):
        da.simulate(model, 1.0)
