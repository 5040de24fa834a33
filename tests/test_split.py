"""Motion split, inverse dynamics and actuation [Kövecses, Piedbœuf 2003]; multipliers by chosen equations."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da


@pytest.fixture(scope="module")
def moving(four_bar):
    """The four-bar in motion: state, exact acceleration, equations."""
    q, v = da.stabilise.consistent_state(four_bar, (None, np.eye(9)[2]))
    equations = da.assemble(four_bar, 0.0, q, v)
    return q, v, da.formulations.Proximal().solve(equations), equations


def test_velocity_and_energy_split_without_coupling(four_bar, moving):
    """Eqs. 21, 24: any velocity in two parts whose energies add up; an allowed one has no constrained part."""
    q, v, _, equations = moving
    wild = np.random.default_rng(0).standard_normal(9)
    parts = da.analysis.split_motion(four_bar, (q, wild))
    np.testing.assert_allclose(parts.admissible + parts.constrained, wild, atol=1e-12)
    total = 0.5 * wild @ np.asarray(equations.M) @ wild
    assert parts.energy_admissible + parts.energy_constrained == pytest.approx(total, rel=1e-12)
    assert da.analysis.split_motion(four_bar, (q, v)).energy_constrained < 1e-24


def test_projectors_with_redundant_rows():
    """A door on two hinges: ten rows of rank five leave one admissible direction."""
    system = da.build(da.mechanism("door-two-hinges"))
    P = da.analysis.projectors(system, da.stabilise.consistent_state(system))
    assert float(jnp.trace(P.P_a)) == pytest.approx(1.0, abs=1e-10)
    np.testing.assert_allclose(P.C @ P.P_a, 0.0, atol=1e-12)


def test_inverse_dynamics(four_bar, moving):
    """One motor on the crank: the torque for twice the free acceleration, against the forward problem with it."""
    q, v, free, equations = moving
    motor = np.eye(9)[:, 2:3]
    # the admissible acceleration of the motion that is asked for: free + 3 along the only freedom
    P = da.analysis.projectors(four_bar, (q, None))
    asked = np.asarray(free.vdot + 3.0 * P.P_a @ np.eye(9)[2])
    found = da.inverse_dynamics(four_bar, (q, v), asked, actuators=motor)
    forced = equations.h + motor @ found.effort
    lam = np.linalg.lstsq(np.asarray(equations.C).T, found.r, rcond=None)[0]
    np.testing.assert_allclose(np.asarray(equations.M) @ asked, forced + np.asarray(equations.C).T @ lam, atol=1e-9)
    # with the free motion itself nothing is needed
    assert abs(da.inverse_dynamics(four_bar, (q, v), free.vdot, actuators=motor).effort[0]) < 1e-9


def test_too_many_and_too_few_actuators(four_bar, moving):
    """Too many: least effort in the stated metric; too few, or none that helps: refused with the reason."""
    q, v, free, _ = moving
    P = da.analysis.projectors(four_bar, (q, None))
    asked = np.asarray(free.vdot + 3.0 * P.P_a @ np.eye(9)[2])
    two = np.eye(9)[:, [2, 8]]
    plain = da.inverse_dynamics(four_bar, (q, v), asked, actuators=two).effort
    dear = da.inverse_dynamics(four_bar, (q, v), asked, actuators=two, metric=np.diag([1.0, 100.0])).effort
    assert abs(dear[1]) < abs(plain[1])
    # least effort: τ is R⁻¹Bᵀ times an admissible direction, so τ₂/τ₁ goes down by the ratio of the prices
    assert dear[1] / dear[0] == pytest.approx(plain[1] / plain[0] / 100.0, rel=1e-9)
    with pytest.raises(da.errors.DalembertError, match="0 of 1 degrees of freedom"):
        da.inverse_dynamics(four_bar, (q, v), asked, actuators=np.asarray(P.C).T[:, :2])
    with pytest.raises(da.errors.DalembertError, match="do not allow this acceleration"):
        da.inverse_dynamics(four_bar, (q, v), asked + 1.0, actuators=two)


def test_actuation(four_bar, moving):
    """How well each actuator moves the freedom: a torque on the crank does, a force along a constraint does not."""
    q, _, _, equations = moving
    found = da.analysis.actuator_authority(four_bar, (q, None), np.eye(9)[:, 2:3])
    assert found.able == 1 and found.freedoms == 1 and found.gains[0] > 0.1
    along = da.analysis.actuator_authority(four_bar, (q, None), np.asarray(equations.C).T[:, :1])
    assert along.gains[0] < 1e-12


def test_multipliers_agree_where_they_are_unique(four_bar, moving):
    """λ by (35), by chosen equations of (4.9), and through λ_w of (4.10)."""
    _, _, free, equations = moving
    direct = da.reactions.RequireUnique().multipliers(four_bar, equations, free.r)
    np.testing.assert_allclose(
        da.reactions.EquationSubset().multipliers(four_bar, equations, free.r), direct, atol=1e-9
    )
    np.testing.assert_allclose(da.reactions.orthonormal_multipliers(four_bar, equations).lam, direct, atol=1e-9)


def test_physical_reactions_in_directions_of_your_own(four_bar, moving):
    """λ_f of (4.9): each pin's force along and across a direction of its own is the pin's (x, y) force, turned back."""
    _, _, free, equations = moving
    found = da.reactions.orthonormal_multipliers(four_bar, equations)
    np.testing.assert_allclose(found.r, free.r, atol=1e-9)
    angles = np.array([0.3, 1.1, -0.8, 2.0])
    turn = np.zeros((8, 8))
    for k, (c, s) in enumerate(zip(np.cos(angles), np.sin(angles), strict=True)):
        turn[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[c, -s], [s, c]]
    lam_f = found.physical(equations.C.T @ turn)
    direct = da.reactions.RequireUnique().multipliers(four_bar, equations, free.r)
    np.testing.assert_allclose(lam_f, turn.T @ direct, atol=1e-9)
    assert np.max(np.abs(lam_f - direct)) > 1.0
    with pytest.raises(da.errors.DalembertError, match="column for each reaction"):
        found.physical(equations.C.T[:, :3])
