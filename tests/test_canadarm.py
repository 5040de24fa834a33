"""Canadarm2 on the floating station: the closed loop of Kövecses and Piedbœuf (2003), section 4, figures 3–6."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.equations import residuals

ANGLES = (-26.4, -42.2, -18.6, -93.4, -97.1, 19.1, 52.5)  # degrees, as printed
STEPS = {"integrator": "bosh3", "samples": 161}  # third order, fixed steps: one program for coarse and fine
TWICE = da.stabilise.Projection(corrections=2, frozen=False)


@pytest.fixture(scope="module")
def tree():
    return da.build(da.mechanism("canadarm2"), coordinates="joint", cut=["tip"])


@eqx.filter_jit
def violations(system, t, q, v):
    """|Φ| and |φ| of the tip at each saved time, in m and m/s."""
    Phi, phi = jax.vmap(lambda t, q, v: residuals(system, t, q, v))(t, q, v)
    return jnp.linalg.norm(Phi, axis=1), jnp.linalg.norm(phi, axis=1)


def tip_violations(solution):
    arrays = (jnp.asarray(a) for a in (solution.t, solution.q, solution.v))
    return [np.asarray(a) for a in violations(solution.system, *arrays)]


def test_thirteen_coordinates_three_rows_ten_freedoms(tree):
    assert (tree.n, tree.m, tree.n - tree.m) == (13, 3, 10)
    assert [owner.name for owner in tree.owners] == ["tip"]
    np.testing.assert_allclose(np.degrees(tree.q0[7:]), ANGLES, atol=1e-12)
    absolute = da.build(da.mechanism("canadarm2"))
    assert (absolute.n, absolute.n - absolute.m) == (54, 10)  # no row is redundant: ten freedoms


@pytest.mark.thorough
def test_without_correction_the_loop_opens(tree):
    """Figures 3 and 4: fixed steps of third order, nothing corrected."""
    solution = da.simulate(tree, 80.0, stabilisation=da.stabilise.NoStabilisation(), dt=0.2, **STEPS)
    gap, speed = tip_violations(solution)
    # it grows: in the last twenty seconds a hundred times what it was in the first ten
    assert np.max(gap[120:]) > 100 * np.max(gap[:21]) > 0
    assert np.max(gap) > 1e-7 and np.max(speed) > 1e-8
    # at half the step a third-order method leaves an eighth, at most some more
    finer = da.simulate(tree, 80.0, stabilisation=da.stabilise.NoStabilisation(), dt=0.1, **STEPS)
    assert 5 < np.max(gap) / np.max(tip_violations(finer)[0]) < 13


def test_two_corrections_and_one_filter_close_it(tree):
    """Figures 5 and 6: 1e-14 … 1e-15 over the whole 80 s [Kövecses, Piedbœuf 2003, eqs. 33, 36]."""
    solution = da.simulate(tree, 80.0, stabilisation=TWICE, dt=0.2, **STEPS)
    gap, speed = tip_violations(solution)
    # a place 14 m from the origin is rounded by 2e-15 m, a few times in a row
    assert np.max(gap) < 2e-14 and np.max(speed) < 1e-15
    # and the arm does move: every joint by more than five degrees
    assert np.min(np.ptp(np.degrees(solution.q[:, 7:]), axis=0)) > 5


@pytest.mark.thorough  # its accelerations are compared with Pinocchio's in every run
def test_the_same_motion_in_absolute_coordinates(tree):
    """Over the 80 s; steps of 0.1 s leave some 1e-7 m in either (the loop opened by 1e-6 m at 0.2 s)."""
    absolute = da.build(da.mechanism("canadarm2"))
    a, b = (da.simulate(s, 80.0, stabilisation=TWICE, dt=0.1, **STEPS) for s in (absolute, tree))
    places = eqx.filter_jit(lambda s, q: jax.vmap(s.places)(q))
    p, r = places(absolute, jnp.asarray(a.q)), places(tree, jnp.asarray(b.q))
    assert np.max(np.ptp(np.asarray(p.p)[:, 1:], axis=0)) > 1.0  # m: the arm has moved
    np.testing.assert_allclose(p.p, r.p, atol=1e-6)
    np.testing.assert_allclose(p.R, r.R, atol=1e-6)
