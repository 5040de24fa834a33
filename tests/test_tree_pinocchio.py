"""Joint coordinates against Pinocchio: M, h and accelerations of fifty random trees, and of a few closed loops.

And M and h against Lagrange's equations by automatic differentiation, which share with them only the places of bodies.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.model import axis_angle

pin = pytest.importorskip("pinocchio")
from _helpers_pinocchio import twin  # noqa: E402  # needs Pinocchio

EXACT = 1e-10  # of the largest entry: both sum products of a few dozen numbers of size one, M is well conditioned
PROXIMAL = 1e-9  # of the largest: Pinocchio regularises closed loops by 1e-10 and refines

# five trees: for each body its joint, which body carries it (−1 the ground), and whether the joint is named from far
TREES = {
    "chain": [
        ("revolute", -1, 0), ("prismatic", 0, 0), ("universal", 1, 0), ("revolute", 2, 1), ("cylindrical", 3, 0),
        ("screw", 4, 0), ("planar", 5, 0),
    ],
    "star": [
        ("planar", -1, 1), ("cylindrical", -1, 1), ("screw", 0, 1), ("universal", 0, 1), ("pin_slot", 1, 0),
        ("pin_slot", 1, 1), ("prismatic", 2, 1),
    ],
    "balls": [
        ("spherical", -1, 0), ("spherical", 0, 1), ("weld", 1, 0), ("spherical", 2, 0), ("revolute", 0, 0),
        ("weld", 4, 1), ("spherical", 5, 1),
    ],
    "free": [
        ("free", -1, 0), ("revolute", 0, 0), ("spherical", 0, 1), ("universal", 1, 1), ("prismatic", 2, 0),
        ("free", -1, 0), ("cylindrical", 5, 0),
    ],
    "branches": [
        ("revolute", -1, 0), ("revolute", 0, 1), ("revolute", 0, 0), ("planar", 1, 1), ("screw", 2, 0),
        ("spherical", 3, 0), ("universal", 4, 0),
    ],
}  # fmt: skip


def random_model(rng, tree) -> da.Model:
    """A model of this shape with random masses, inertias, poses, points and axes."""
    model = da.Model("random", space="space", gravity=rng.uniform(-10, 10, 3))
    bodies = []
    for k, (kind, parent, named_from_far) in enumerate(tree):
        R, A, F = (axis_angle(rng.standard_normal(3), rng.uniform(0.3, 2)) for _ in range(3))
        inertia = A @ np.diag(rng.uniform(0.2, 0.35, 3)) @ A.T
        body = model.body(
            f"b{k}", mass=rng.uniform(0.5, 2), inertia=inertia, position=rng.uniform(-1, 1, 3), rotation=R
        )
        bodies.append(body)
        if kind == "free":
            continue
        other = model.ground if parent < 0 else bodies[parent]
        arguments = {
            "weld": {}, "spherical": {}, "universal": {"axis_i": F[:, 0], "axis_j": F[:, 1]},
            "planar": {"normal": F[:, 2], "x": F[:, 0]}, "pin_slot": {"slot": F[:, 0], "axis": F[:, 2]},
            "screw": {"axis": F[:, 2], "pitch": rng.uniform(0.2, 0.8)},
        }.get(kind, {"axis": F[:, 2]})  # fmt: skip
        pair = (body, other) if named_from_far else (other, body)
        getattr(model, kind)(f"j{k}", *pair, at=rng.uniform(-1, 1, 3), **arguments)
    return model


@eqx.filter_jit
def ours(system, q, nudge, u):
    """At q ⊕ nudge: q, M, h, C and u̇."""
    q = system.retract(q, nudge)
    equations = da.assemble(system, 0.0, q, u)
    return q, equations.M, equations.h, equations.C, da.formulations.Proximal().solve(equations).vdot


def close(found, expected, share):
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * np.max(np.abs(expected)))


@pytest.mark.parametrize("name", TREES)
def test_ten_random_trees(name):
    """Ten machines of each shape, far off their start and moving; parameters are leaves: one program a shape."""
    rng = np.random.default_rng(list(TREES).index(name))
    for _ in range(10):
        model = random_model(rng, TREES[name])
        system = da.build(model, coordinates="joint")
        assert system.m == 0
        nudge, u = rng.uniform(-1.5, 1.5, system.n), rng.uniform(-2, 2, system.n)
        q, M, h, _, udot = ours(system, jnp.asarray(system.q0), jnp.asarray(nudge), jnp.asarray(u))
        M_pin, h_pin, udot_pin = twin(model, system).equations(q, u)
        close(M, M_pin, EXACT)
        close(h, h_pin, EXACT)
        close(udot, udot_pin, EXACT)


def energies(system, q, qdot):
    """T and V from the places of the bodies alone: velocities are derivatives of places, ω that of R."""
    places, rates = jax.jvp(system.places, (q,), (qdot,))
    spin = jnp.swapaxes(places.R, 1, 2) @ rates.R  # skew matrices of ω, body axes
    w = jnp.stack([spin[:-1, 2, 1], spin[:-1, 0, 2], spin[:-1, 1, 0]], axis=1)
    m, I = system.carrier.masses, system.carrier.inertias
    T = 0.5 * jnp.sum(m * jnp.sum(rates.p[:-1] ** 2, axis=1)) + 0.5 * jnp.einsum("bi,bij,bj", w, jnp.asarray(I), w)
    return T, -jnp.sum(m[:, None] * places.p[:-1] * system.carrier.gravity)


@eqx.filter_jit
def lagrange(system, q, u):
    """M = ∂²T/∂q̇², h = ∂(T − V)/∂q − (∂²T/∂q̇∂q) q̇: where all coordinates are angles and lengths, q̇ = u."""
    T = lambda q, u: energies(system, q, u)[0]  # noqa: E731
    M = jax.hessian(T, 1)(q, u)
    slope = jax.grad(lambda q: energies(system, q, u)[0] - energies(system, q, u)[1])(q)
    momentum_rate = jax.jvp(lambda q: jax.grad(T, 1)(q, u), (q,), (u,))[1]
    return M, slope - momentum_rate


@pytest.mark.parametrize("name", ["chain", pytest.param("star", marks=pytest.mark.thorough)])
def test_mass_and_bias_are_lagranges(name):
    rng = np.random.default_rng(100)
    for _ in range(3):
        system = da.build(random_model(rng, TREES[name]), coordinates="joint")
        nudge, u = jnp.asarray(rng.uniform(-1.5, 1.5, system.n)), jnp.asarray(rng.uniform(-2, 2, system.n))
        q, M, h, *_ = ours(system, jnp.asarray(system.q0), nudge, u)
        M_auto, h_auto = lagrange(system, q, u)
        close(M, M_auto, EXACT)
        close(h, h_auto, EXACT)


# ---- closed loops -------------------------------------------------------------------------------------------------


def ring(rng, hinges: int, closing: str) -> da.Model:
    """Bodies on hinges about random axes, the last one held by the ground; a branch hangs on the first."""
    model = random_model(rng, [("revolute", k - 1, 0) for k in range(hinges)] + [("spherical", 0, 0)])
    last = model.bodies[f"b{hinges - 1}"]
    arguments = {"axis": rng.standard_normal(3)} if closing == "revolute" else {}
    getattr(model, closing)("closing", model.ground, last, at=rng.uniform(-1, 1, 3), **arguments)
    return model


LOOPS = {
    "point": (lambda rng: ring(rng, 5, "spherical"), "closing", "CONTACT_3D"),
    "frame": (lambda rng: ring(rng, 8, "weld"), "closing", "CONTACT_6D"),
    "canadarm2": (lambda rng: da.mechanism("canadarm2"), "tip", "CONTACT_3D"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_closed_loops(name):
    make, joint, kind = LOOPS[name]
    rng = np.random.default_rng(7)
    model = make(rng)
    system = da.build(model, coordinates="joint", cut=[joint])
    assert [owner.name for owner in system.owners] == [joint]
    q, zero, u = jnp.asarray(system.q0), jnp.zeros(system.n), rng.uniform(-1, 1, system.n)
    C = np.asarray(ours(system, q, zero, zero)[3])
    u = u - np.linalg.pinv(C) @ (C @ u)  # closed at its start; now it stays closed
    q, *_, udot = ours(system, q, zero, jnp.asarray(u))
    expected = twin(model, system, [joint]).closed(q, u, joint, getattr(pin.ContactType, kind))
    close(udot, expected, PROXIMAL)
