"""`linearise`: equilibria and steady motions with closed forms; states that are neither are refused by name."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dalembert as da
from dalembert.formulations import Proximal

G = 9.81
CLOSED = 1e-6  # how steady a state must be; the closed forms agree to this times a few


def rod(angle: float, rate: float = 0.0) -> da.Model:
    """A slender rod of 1 m and 1 kg on a pin."""
    model = da.Model("rod", gravity=(0, -G))
    c, s = math.cos(angle), math.sin(angle)
    body = model.body(
        "bar", mass=1.0, inertia=1 / 12, position=(0.5 * c, 0.5 * s), angle=angle,
        velocity=(-0.5 * rate * s, 0.5 * rate * c), angular_velocity=rate,
    )  # fmt: skip
    model.revolute("pin", model.ground, body, at=(0, 0))
    return model


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_only_equilibria_of_a_rod_are_linearised(coordinates):
    """Hanging: ±i √(3g/2L). Level and at rest it falls; hanging it swings on: neither has eigenvalues."""
    hanging, level, swinging = (
        da.build(rod(*of), coordinates=coordinates) for of in ((-math.pi / 2,), (0.0,), (-math.pi / 2, 0.2))
    )
    found = da.linearise(hanging)
    assert found.steady and not found.remark
    np.testing.assert_allclose(found.eigenvalues.imag, [-math.sqrt(1.5 * G), math.sqrt(1.5 * G)], rtol=1e-9)
    who = "'bar'" if coordinates == "absolute" else "'pin.angle"
    # 3g/2L, the angular acceleration of a rod that is let go
    with pytest.raises(
        da.errors.DalembertError, match=rf"neither at rest nor in steady motion; .*{who}.*by -14\.7 a second"
    ):
        da.linearise(level)
    with pytest.raises(da.errors.DalembertError, match=rf"not in steady motion: .* later .*{who}.* accelerates by"):
        da.linearise(swinging)
    anyway = da.linearise(level, anywhere=True)
    assert not anyway.steady and "-14.7" in anyway.remark
    np.testing.assert_allclose(anyway.eigenvalues, 0.0, atol=1e-6)


def test_what_is_steady_does_not_depend_on_units():
    """The same rod in millimetres and grams; off its equilibrium by 1e-8 rad it still counts, by 1e-4 it does not."""
    for length, mass in ((1.0, 1.0), (1e3, 1e3)):
        for off, steady in ((1e-8, True), (1e-4, False)):
            model = da.Model("rod", gravity=(0, -G * length))
            x, y = 0.5 * length * math.sin(off), -0.5 * length * math.cos(off)
            body = model.body("bar", mass=mass, inertia=mass * length**2 / 12, position=(x, y), angle=off - math.pi / 2)
            model.revolute("pin", model.ground, body, at=(0, 0))
            assert da.linearise(model, anywhere=True).steady is steady


def test_a_force_that_grows_with_time_is_no_equilibrium():
    """Nothing moves or pushes at this instant, but a moment later something does."""
    system = da.FunctionSystem(
        lambda t, q: np.eye(1), lambda t, q, v: -4.0 * q + t, q0=np.zeros(1), name="pushed"
    )  # fmt: skip
    with pytest.raises(da.errors.DalembertError, match="later coordinate 0 accelerates"):
        da.linearise(system)
    assert not da.linearise(system, anywhere=True).steady


@pytest.mark.thorough
def test_conical_pendulum():
    """ν = Ω √(1 + 3 cos² θ) about the steady circle [Goldstein]; its bodies accelerate all the time, v̇ = Ω × v."""
    theta, length = 0.6, 1.3
    rate = math.sqrt(G / (length * math.cos(theta)))
    model = da.Model("conical", space="space", gravity=(0, 0, -G))
    r = length * math.sin(theta)
    bob = model.body(
        "bob", mass=2.0, inertia=(0.1,) * 3, position=(r, 0, -length * math.cos(theta)), velocity=(0, rate * r, 0)
    )
    model.distance("rope", model.ground, bob, at_i=(0, 0, 0), at_j=bob.position)
    found = da.linearise(model)
    np.testing.assert_allclose(found.turning, [0, 0, rate], atol=1e-9)
    expected = rate * math.sqrt(1 + 3 * math.cos(theta) ** 2)
    assert np.min(np.abs(found.eigenvalues - 1j * expected)) < CLOSED * expected
    np.testing.assert_allclose(found.eigenvalues.real, 0.0, atol=CLOSED * expected)
    # a little slower it is no circle
    system = da.build(model)
    with pytest.raises(da.errors.DalembertError, match="'bob'"):
        da.linearise(system, (system.q0, 0.99 * np.asarray(system.v0)))


def test_arm_on_a_driven_shaft():
    """Watt's governor: cos θ = g/(LΩ²), ν² = Ω² sin² θ · mL²/(mL² + J) for a ball with J about its centre."""
    length, theta, mass, J = 0.8, 0.9, 3.0, 0.05
    rate = math.sqrt(G / (length * math.cos(theta)))
    model = da.Model("governor", space="space", gravity=(0, 0, -G))
    spin = (0, 0, rate)
    shaft = model.body("shaft", mass=1.0, inertia=(0.1,) * 3, position=(0, 0, 0), angular_velocity=spin)
    r = length * math.sin(theta)
    ball = model.body(
        "ball", mass=mass, inertia=(J,) * 3, position=(r, 0, -length * math.cos(theta)), velocity=(0, rate * r, 0),
        angular_velocity=spin,
    )  # fmt: skip
    model.revolute("bearing", model.ground, shaft, at=(0, 0, 0), axis=(0, 0, 1))
    model.revolute("hinge", shaft, ball, at=(0, 0, 0), axis=(0, 1, 0))
    model.driver("motor", "bearing", lambda t: rate * t)
    expected = rate * math.sin(theta) * math.sqrt(mass * length**2 / (mass * length**2 + J))
    for coordinates in ("absolute", "joint"):
        found = da.linearise(da.build(model, coordinates=coordinates)).eigenvalues
        np.testing.assert_allclose(np.sort(found.imag), [-expected, expected], rtol=1e-9)


def rolling(tilt: float, spin: float, turn: float, mass=2.0, radius=0.4) -> da.Model:
    """A thin disc on the ground, leaning by `tilt`, spinning at `spin` about its axis, turning about z."""
    model = da.Model("disc", space="space", gravity=(0, 0, -G))
    c, s = math.cos(tilt), math.sin(tilt)
    R = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])  # its axis is its own y
    omega = np.array([0.0, spin, 0.0]) + R.T @ [0, 0, turn]
    contact = R @ [0, 0, -radius]
    thin = 0.25 * mass * radius**2
    body = model.body(
        "disc", mass=mass, inertia=(thin, 2 * thin, thin), position=-contact, rotation=R,
        velocity=-np.cross(R @ omega, contact), angular_velocity=omega,
    )  # fmt: skip
    model.rolling_disc("contact", model.ground, body, radius=radius, axis=R[:, 1], normal=(0, 0, 1))
    return model


@pytest.mark.thorough
def test_disc_rolling_straight_and_in_a_circle():
    """Straight: ν² = (12 ω² − 4 g/r)/5 for a thin disc [Greenwood 1988: stable if ω² > g/(3r)]."""
    radius, spin = 0.4, 6.0
    found = da.linearise(rolling(0.0, spin, 0.0)).eigenvalues
    expected = math.sqrt((12 * spin**2 - 4 * G / radius) / 5)
    found = np.sort(found.imag)
    np.testing.assert_allclose(found[[0, -1]], [-expected, expected], rtol=CLOSED)
    # in a circle ω̇ = Ω × ω; with the lean and Ω held, what is left of it is linear in the spin
    tilt, turn = -0.2, 1.7
    system = da.build(rolling(tilt, 0.0, turn))
    left = []
    for x in (0.0, 1.0):
        start = da.build(rolling(tilt, x, turn))
        omega = np.asarray(start.v0)[3:]
        about = np.array([0.0, math.sin(tilt), math.cos(tilt)]) * turn  # Ω along the disc's axes
        vdot = Proximal().solve(da.assemble(system, 0.0, start.q0, start.v0)).vdot
        left.append(float(vdot[3] - np.cross(about, omega)[0]))
    steady = left[0] / (left[0] - left[1])
    found = da.linearise(rolling(tilt, steady, turn))
    np.testing.assert_allclose(found.turning, [0, 0, turn], atol=1e-6)
    with pytest.raises(da.errors.DalembertError, match="'disc'"):
        da.linearise(rolling(tilt, 1.01 * steady, turn))


def test_a_singular_position_is_refused():
    """A parallelogram in line may fold two ways: there are no eigenvalues that mean anything."""
    from _helpers_passages import parallelogram

    model = parallelogram((1.0, 1.0, 1.0), 0.0, 0.0).model
    with pytest.raises(
        da.errors.DalembertError, match="'parallelogram' cannot be linearised here: this is a singular position"
    ):
        da.linearise(model, anywhere=True)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_a_sleeping_top(coordinates):
    """A s² − i C ω s − m g l = 0 for the lean x + i y of a top that spins upright, A about its point of support."""
    inertia, spin, length, C, omega = 0.01, 0.02, 0.1, 0.02, 200.0
    model = da.Model("top", space="space", gravity=(0, 0, -G))
    top = model.body(
        "top", mass=1.0, inertia=(inertia, inertia, spin), position=(0, 0, length), angular_velocity=(0, 0, omega)
    )
    model.spherical("tip", model.ground, top, at=(0, 0, 0))
    A = inertia + length**2
    root = math.sqrt((C * omega) ** 2 - 4 * A * G * length)
    expected = [(C * omega - root) / (2 * A), (C * omega + root) / (2 * A)]
    found = da.linearise(da.build(model, coordinates=coordinates)).eigenvalues
    assert np.max(np.abs(found.real)) < 1e-9 * omega
    turning = np.sort(found.imag[found.imag > 1e-3])  # besides, the spin itself: twice zero
    np.testing.assert_allclose(turning, expected, rtol=1e-9)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_a_machine_that_turns_about_its_own_axis_without_accelerating(coordinates):
    """A pendulum on a driven shaft, its hinge through the axis: A φ̈ = −(m g l − (A − C) Ω²) φ about its pin."""
    rate, inertia, slender, length = 2.0, 0.02, 0.01, 0.5
    model = da.Model("rotor", space="space", gravity=(0, 0, -G))
    disc = model.body("disc", mass=1.0, inertia=(0.1, 0.1, 0.2), angular_velocity=(0, 0, rate))
    model.revolute("axle", model.ground, disc, at=(0, 0, 0), axis=(0, 0, 1))
    model.driver("motor", "axle", da.functions.polynomial([0.0, rate]))
    bob = model.body(
        "bob", mass=1.0, inertia=(inertia, inertia, slender), position=(0, 0, -length), angular_velocity=(0, 0, rate)
    )
    model.revolute("hinge", disc, bob, at=(0, 0, 0), axis=(1, 0, 0))
    A = inertia + length**2
    expected = math.sqrt((G * length - (A - slender) * rate**2) / A)
    found = da.linearise(da.build(model, coordinates=coordinates)).eigenvalues
    np.testing.assert_allclose(np.max(found.imag), expected, rtol=1e-9)
