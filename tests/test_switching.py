"""Constraints that come and go: two pendulums lock and unlock, against a hand calculation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.functions import harmonic

LENGTHS, MASSES = (1.0, 0.7), (1.0, 2.0)
INERTIAS = [m * l**2 / 3 for m, l in zip(MASSES, LENGTHS, strict=True)]  # of uniform rods about the common pin


def same_angle(t, frames):
    return (frames[1].angle - frames[0].angle)[None]


def pair(gravity=0.0):
    """Two rods on one pin, with a clutch between their angles; its switch is open at first."""
    model = da.Model("pair", gravity=(0.0, -gravity))
    bodies = []
    for k, (length, mass, angle) in enumerate(zip(LENGTHS, MASSES, (-0.4, -1.3), strict=True)):
        centre = 0.5 * length * np.array([np.cos(angle), np.sin(angle)])
        bodies.append(model.body(f"rod{k}", mass=mass, inertia=mass * length**2 / 12, position=centre, angle=angle))
        model.revolute(f"pin{k}", model.ground, bodies[k], at=(0.0, 0.0))
    model.holonomic("clutch", bodies, same_angle, size=1)
    return da.systems.set_active(da.systems.with_switches(da.build(model), "clutch"), "clutch", 0.0)


def turning(system, speeds):
    q = np.asarray(system.q0)
    v = np.zeros(6)
    for k, w in enumerate(speeds):
        v[3 * k : 3 * k + 3] = w * np.array([-q[3 * k + 1], q[3 * k], 1.0])
    return q, v


def test_locking_is_the_hand_calculation():
    """ω⁺ = (J₁ω₁ + J₂ω₂)/(J₁ + J₂); the clutch's impulse is the reduced inertia times the difference; T is lost so."""
    system = pair()
    w1, w2 = 3.0, -1.0
    closed, (_, v), jump = da.simulation.close_constraint(system, "clutch", turning(system, (w1, w2)))
    J1, J2 = INERTIAS
    together = (J1 * w1 + J2 * w2) / (J1 + J2)
    reduced = J1 * J2 / (J1 + J2)
    np.testing.assert_allclose([v[2], v[5]], together, atol=1e-12)
    # λ of the row θ₂ − θ₁ acts as +λ on rod 2
    np.testing.assert_allclose(jump.impulses["clutch"], reduced * (w1 - w2), atol=1e-11)
    assert jump.energy_lost == pytest.approx(0.5 * reduced * (w1 - w2) ** 2, abs=1e-11)
    # angular momentum about the pin is kept; each pin's impulse balances the jump of its rod's momentum
    before = turning(system, (w1, w2))[1]
    momentum = [sum(J * x for J, x in zip(INERTIAS, ws, strict=True)) for ws in ((w1, w2), (v[2], v[5]))]
    assert float(momentum[0]) == pytest.approx(float(momentum[1]), abs=1e-12)
    for k, mass in enumerate(MASSES):
        np.testing.assert_allclose(
            jump.wrenches[f"pin{k}"][0], mass * (np.asarray(v) - before)[3 * k : 3 * k + 2], atol=1e-11
        )
    # no size has changed, the clutch holds the angle where it closed
    assert closed.m == system.m and closed.n == system.n
    np.testing.assert_allclose(closed.position_residual(0.0, closed.q0), 0.0, atol=1e-15)


def test_kinetic_energy_never_grows():
    """Under any velocities: 50 at random, in one batch."""
    system = da.systems.set_active(pair(), "clutch", 1.0)
    from dalembert.simulation._switch import _jump

    speeds = np.random.default_rng(1).normal(size=(50, 2))
    v = jnp.stack([turning(system, w)[1] for w in speeds])
    _, _, before, after, _ = jax.vmap(lambda v: _jump(system, jnp.zeros(()), jnp.asarray(system.q0), v))(v)
    assert np.all(after <= before * (1 + 1e-14)) and np.all(after >= 0)
    w = speeds @ np.array(INERTIAS) / sum(INERTIAS)
    np.testing.assert_allclose(after, 0.5 * sum(INERTIAS) * w**2, atol=1e-12)


def test_lock_and_unlock_on_the_way():
    """Two swinging pendulums lock when their angles meet, swing as one, unlock; energy is accounted to 1e-9."""
    system = pair(gravity=9.81)
    lock = da.simulation.Switch(close="clutch", when=lambda t, q, v: q[5] - q[2])
    unlock = da.simulation.Switch(open="clutch", at=1.5)
    solution = da.simulation.simulate_switching(system, 2.5, [lock, unlock], rtol=1e-11, samples=51)
    assert len(solution.segments) == 3 and len(solution.jumps) == 2
    jump, release = solution.jumps
    apart, locked, free = solution.segments
    J1, J2 = INERTIAS
    # at the event the angles meet (bisection on a dense motion of rtol 1e-11), and the jump is that of the hand
    assert abs(float(apart.q[-1, 5] - apart.q[-1, 2])) < 1e-9
    w1, w2 = float(apart.v[-1, 2]), float(apart.v[-1, 5])
    assert jump.energy_lost == pytest.approx(0.5 * J1 * J2 / (J1 + J2) * (w1 - w2) ** 2, rel=1e-8)
    assert jump.energy_lost > 1e-3 and abs(release.energy_lost) < 1e-12
    np.testing.assert_allclose(locked.q[:, 5] - locked.q[:, 2], locked.q[0, 5] - locked.q[0, 2], atol=1e-12)
    assert np.max(np.abs(free.q[:, 5] - free.q[:, 2])) > 1e-3
    scale = max(float(np.ptp(s.energy["kinetic"].values)) for s in solution.segments)
    assert abs(solution.energy_balance) < 1e-9 * scale
    # an open clutch is no redundancy and has no reaction
    assert apart.redundancy == 0 and locked.redundancy == 0
    np.testing.assert_allclose(apart.multipliers[:, 4], 0.0, atol=1e-12)


def test_switch_by_name_under_jit_and_grad():
    """`system.replace` sets the switch too, and accelerations are differentiable through an open row."""
    system = pair(gravity=9.81)
    q, v = turning(system, (1.0, 2.0))

    def angular(on, mass):
        changed = system.replace({"clutch.active": on, "rod0.mass": mass})
        return da.formulations.Proximal().solve(da.assemble(changed, 0.0, q, v)).vdot[jnp.array([2, 5])]

    free, locked = (jax.jit(angular)(on, 1.0) for on in (0.0, 1.0))
    assert abs(float(free[0] - free[1])) > 1.0 and abs(float(locked[0] - locked[1])) < 1e-9
    numeric = (angular(0.0, 1.0 + 1e-6) - angular(0.0, 1.0 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.jit(jax.jacfwd(angular, 1))(0.0, 1.0), numeric, atol=1e-7)


def test_mistakes_are_named():
    system = pair()
    with pytest.raises(da.errors.DalembertError, match="no constraint 'clutsch'"):
        da.systems.set_active(system, "clutsch", 1.0)
    with pytest.raises(da.errors.DalembertError, match="has no switch"):
        da.systems.set_active(system, "pin0", 0.0)
    with pytest.raises(da.errors.DalembertError, match="a time .* or an event"):
        da.simulation.Switch(close="clutch")


def test_a_switch_leaves_the_numbers_of_a_motion_alone():
    """A harmonic driver has an offset of its own: behind a switch it must stay what it was."""
    model = da.mechanism("four-bar")
    hinge = next(iter(model.constraints))
    model.driver("motor", hinge, harmonic(0.2, 3.0, offset=0.3), coordinate="angle")
    system = da.build(model)
    given = (0.4, system.q0, system.v0)
    for before, after in zip(
        da.equations.residuals(system, *given),
        da.equations.residuals(da.systems.with_switches(system, "motor"), *given),
        strict=True,
    ):
        np.testing.assert_array_equal(before, after)
