"""Joint coordinates of long chains: the program does not grow with the bodies, and large mass matrices are solved well.

Compile time itself is measured by `make bench`; here its cause is held: the number of operations that are compiled.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import dalembert as da
from dalembert.linalg import BlockMass


def right_hand_side(system, t, q, v):
    equations = da.assemble(system, t, q, v)
    vdot = da.formulations.Proximal().solve(equations).vdot
    state = da.stabilise.Projection().project(system, t, system.retract(q, v), v + vdot)
    return system.qdot(q, v), vdot, state.q, state.v


def operations(system) -> int:
    """How many primitive operations a right-hand side and a projection compile to, inner programs included."""

    def count(jaxpr) -> int:
        return sum(1 + sum(count(inner) for inner in jaxprs_in_params(e.params)) for e in jaxpr.eqns)

    made, _, _ = eqx.filter_make_jaxpr(right_hand_side)(
        system, jnp.zeros(()), jnp.asarray(system.q0), jnp.asarray(system.v0)
    )
    return count(made.jaxpr)


def ball_chain(N: int) -> da.Model:
    """N bars on balls, the last one held by a ball on the ground: quaternions, and a loop to close."""
    model = da.Model("balls", space="space", gravity=(0, 0, -9.81))
    before = model.ground
    for k in range(N):
        link = model.body(f"link{k}", mass=1.0, inertia=(0.1, 0.1, 0.1), position=(k + 0.5, 0, 0))
        model.spherical(f"ball{k}", before, link, at=(k, 0, 0))
        before = link
    model.spherical("last", model.ground, before, at=(N, 0, 0))
    return model


CHAINS = {
    "hinges in the plane": lambda N: da.mechanism("chain", N=N),
    "balls in a loop": ball_chain,
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_longer_chain_is_the_same_program(name):
    """Poses are found by doubling: an operation or ten more for each doubling of the depth, none for each body."""
    sizes = (30, 240)  # both above the size from which a factor is not inverted any more
    short, long = (da.build(CHAINS[name](N), coordinates="joint") for N in sizes)
    doublings = len(long.tree.jumps) - len(short.tree.jumps)
    assert doublings == math.log2(sizes[1] / sizes[0])
    few, many = operations(short), operations(long)
    # a doubling is 24 operations, in the four places that ask for poses
    assert few < many <= few + 100 * doublings
    assert many < 1.25 * few


def test_a_large_mass_matrix_is_solved_by_its_factor():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((50, 50))
    M, x, C = A @ A.T + 50 * np.eye(50), rng.standard_normal(50), rng.standard_normal((7, 50))
    mass = BlockMass.dense_one(jnp.asarray(M))
    assert mass.factor is not None
    np.testing.assert_allclose(mass.solve(jnp.asarray(x)), np.linalg.solve(M, x), rtol=1e-12)
    np.testing.assert_allclose(mass.solve_rows(jnp.asarray(C)), np.linalg.solve(M, C.T).T, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(mass.inverse[0] @ M, np.eye(50), atol=1e-13)
    # d(M⁻¹x) = −M⁻¹ dM M⁻¹x
    dM = np.diag(rng.uniform(1, 2, 50))
    _, slope = jax.jvp(lambda M: BlockMass.dense_one(M).solve(jnp.asarray(x)), (jnp.asarray(M),), (jnp.asarray(dM),))
    np.testing.assert_allclose(slope, -np.linalg.solve(M, dM @ np.linalg.solve(M, x)), rtol=1e-10, atol=1e-15)


def test_quaternions_of_many_balls():
    """q̇ and q ⊕ δ of all balls at once against one ball at a time, written out."""
    tree = da.build(ball_chain(4), coordinates="joint", cut=["last"])
    rng = np.random.default_rng(2)
    q = rng.standard_normal((4, 4))
    q /= np.linalg.norm(q, axis=1)[:, None]
    w = rng.standard_normal((4, 3))
    # q̇ = ½ q ∘ (0, ω), ω along the ball's own axes
    scalar = -np.sum(q[:, 1:] * w, axis=1)
    vector = q[:, :1] * w + np.cross(q[:, 1:], w)
    expected = 0.5 * np.column_stack([scalar, vector])
    np.testing.assert_allclose(tree.qdot(jnp.asarray(q.ravel()), jnp.asarray(w.ravel())), expected.ravel(), atol=1e-15)
    moved = np.asarray(tree.retract(jnp.asarray(q.ravel()), jnp.asarray(0.1 * w.ravel()))).reshape(4, 4)
    there = q + 0.1 * expected
    np.testing.assert_allclose(moved, there / np.linalg.norm(there, axis=1)[:, None], atol=1e-15)
