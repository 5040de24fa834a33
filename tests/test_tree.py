"""Joint coordinates against absolute ones: the same model, the same accelerations, the same motion."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_thorough import everyday

import dalembert as da
from dalembert.mechanisms import mechanisms
from dalembert.model import axis_angle
from dalembert.systems import TreeSystem
from dalembert.systems._build_tree import spanning_tree

ACCELERATIONS = 1e-10  # of the largest: two factorisations of well-conditioned systems of up to a hundred rows
SKIP = {"n-four-bar"}  # at its start all loops are in line: a singular pose, taken up below


@eqx.filter_jit
def carried_acceleration(system: TreeSystem, t, q, u):
    """v̇_abs = J u̇ + J̇u from the joint accelerations."""
    udot = da.Proximal().solve(da.assemble(system, t, q, u)).vdot
    along = jax.jvp(lambda u: system.carried(q, u).v, (u,), (udot,))[1]
    at = system.carried(q, u)
    return at.places, at.v, along + at.bias


@eqx.filter_jit
def absolute_acceleration(system, t, q, v):
    return da.Proximal().solve(da.assemble(system, t, q, v)).vdot


@pytest.mark.parametrize("name", everyday(n for n in mechanisms() if n not in SKIP))
def test_tree_and_absolute_agree_at_the_start(name):
    model = da.mechanism(name)
    absolute, tree = da.build(model), da.build(model, coordinates="joint")
    # a joint of the tree takes as many velocities away as rows
    assert tree.n - tree.m == absolute.n - absolute.m
    q, v = da.consistent_state(absolute)
    x, u = (jnp.asarray(a) for a in da.consistent_state(tree))
    places, velocity, acceleration = carried_acceleration(tree, jnp.asarray(0.0), x, u)
    np.testing.assert_allclose(places.p[:-1], absolute.places(q).p[:-1], atol=1e-12)
    np.testing.assert_allclose(places.R[:-1], absolute.places(q).R[:-1], atol=1e-12)
    np.testing.assert_allclose(velocity.ravel(), v, atol=1e-11 * (1 + np.max(np.abs(v))))
    expected = np.asarray(absolute_acceleration(absolute, jnp.asarray(0.0), jnp.asarray(q), jnp.asarray(v)))
    atol = ACCELERATIONS * max(np.max(np.abs(expected)), 1.0)
    np.testing.assert_allclose(np.asarray(acceleration).ravel(), expected, atol=atol)


MOTIONS = ("four-bar", "spatial-four-bar", "slider-crank-in-space", "snakeboard", "rolling-disc", "governor")


@pytest.mark.parametrize("name", everyday(MOTIONS))
def test_tree_and_absolute_move_alike(name):
    model = da.mechanism(name)
    absolute, tree = da.build(model), da.build(model, coordinates="joint")
    t1 = 0.2 if name == "governor" else 1.0
    settings = {"rtol": 1e-11, "save": 6, "integrator": "dopri8"}
    a, b = da.simulate(absolute, t1, **settings), da.simulate(tree, t1, **settings)
    places = eqx.filter_jit(lambda s, q: jax.vmap(s.places)(q))
    p, r = places(absolute, jnp.asarray(a.q)), places(tree, jnp.asarray(b.q))
    # a hundred times the tolerance, in units of the machine
    np.testing.assert_allclose(p.p, r.p, atol=1e-8 * float(absolute.size))
    assert b.violation["position"] < 1e-12
    assert b.energy_drift < 1e-7


def random_tree(rng, bodies: int = 6):
    """A model whose joints span every kind that can carry, some named from the far body to the near one."""
    model = da.Model("random", space="space", gravity=(0.3, -0.2, -9.81))
    kinds = ["revolute", "prismatic", "cylindrical", "screw", "universal", "spherical", "planar", "pin_slot", "weld"]
    made = [model.ground]
    for k in range(bodies):
        R, A = (axis_angle(rng.standard_normal(3), rng.uniform(0.3, 2)) for _ in range(2))
        body = model.body(
            f"b{k}", mass=rng.uniform(0.5, 2), inertia=A @ np.diag([0.2, 0.25, 0.32]) @ A.T,
            position=rng.uniform(-1, 1, 3), rotation=R, velocity=rng.uniform(-1, 1, 3),
            angular_velocity=rng.uniform(-1, 1, 3),
        )  # fmt: skip
        other = made[rng.integers(len(made))]
        pair = (other, body) if rng.random() < 0.5 else (body, other)
        F = axis_angle(rng.standard_normal(3), 1.0)
        at, kind = rng.uniform(-1, 1, 3), kinds[rng.integers(len(kinds))]
        arguments = {
            "weld": {}, "spherical": {}, "universal": {"axis_i": F[:, 0], "axis_j": F[:, 1]},
            "planar": {"normal": F[:, 2], "x": F[:, 0]}, "pin_slot": {"slot": F[:, 0], "axis": F[:, 2]},
            "screw": {"axis": F[:, 2], "pitch": 0.3},
        }.get(kind, {"axis": F[:, 2]})  # fmt: skip
        getattr(model, kind)(f"j{k}", *pair, at=at, **arguments)
        made.append(body)
    return model


@pytest.mark.parametrize("seed", range(6))
def test_random_trees(seed):
    """Off their start, moving: M by composite bodies is JᵀMJ, and J̇u is the rate of v_abs with u held."""
    rng = np.random.default_rng(seed)
    model = random_tree(rng)
    tree, absolute = da.build(model, coordinates="joint"), da.build(model)
    assert tree.m == 0
    q = tree.retract(jnp.asarray(tree.q0), jnp.asarray(rng.uniform(-0.4, 0.4, tree.n)))
    u = jnp.asarray(rng.uniform(-1, 1, tree.n))
    M = np.asarray(tree.mass(0.0, q).dense())
    J = np.asarray(jax.jacfwd(lambda u: tree.carried(q, u).v.ravel())(u))
    blocks = np.asarray(absolute.mass(0.0, absolute.q0).dense())
    np.testing.assert_allclose(M, J.T @ blocks @ J, atol=1e-12)
    # J̇u against the derivative of v_abs along the motion with u held
    step = lambda h: np.asarray(tree.carried(tree.retract(q, h * u), u).v)  # noqa: E731
    h = 1e-5
    np.testing.assert_allclose(np.asarray(tree.carried(q, u).bias), (step(h) - step(-h)) / (2 * h), atol=1e-8)


def test_a_loop_is_cut_in_its_middle():
    """Four bars: both cranks hang on the ground, and a joint of the coupler closes [Blajer et al. 1994]."""
    carriers = spanning_tree(da.mechanism("four-bar"))
    assert [(body, joint.name) for body, (_, joint) in carriers.items()] == [
        ("crank", "A"),
        ("rocker", "D"),
        ("coupler", "B"),
    ]
    assert da.build(da.mechanism("four-bar"), coordinates="joint", cut=["B"]).owners[0].name == "B"
    with pytest.raises(da.DalembertError, match="there is no joint 'Q'"):
        da.build(da.mechanism("four-bar"), coordinates="joint", cut=["Q"])


def test_parameters_of_a_tree_are_those_of_the_model():
    tree = da.build(da.mechanism("four-bar"), coordinates="joint")
    assert float(tree.parameters()["crank.mass"]) == 1.0
    heavier = tree.replace({"crank.mass": 2.0, "A.point_j": (-0.6, 0.0)})
    assert float(heavier.parameters()["crank.mass"]) == 2.0
    np.testing.assert_allclose(heavier.parameters()["A.point_j"], (-0.6, 0.0))
