"""Complements: their derivatives, how they choose, and where the one-shot criterion fails."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_papers import four_bar as angle_four_bar
from _helpers_papers import on_a_line
from _helpers_states import NAMES, at_states, case, random_states
from _helpers_thorough import everyday

import dalembert as da
from dalembert.complements import all_complements
from dalembert.complements._base import orthonormalised
from dalembert.complements._riemannian import reflected
from dalembert.equations import matrices
from dalembert.reactions import joint_wrenches
from dalembert.stabilise import generic_ranks

# plane, and (in angles) a mass matrix that changes; rolling, and quaternions with redundant rows, are thorough
DAILY = ["four-bar", "angles"]


TWINS = {"riemannian-recursion": da.complements.Riemannian()}  # the same basis, known better


def machine(name):
    if name != "angles":
        return case(name)
    system = angle_four_bar("a")
    return system, generic_ranks(system), random_states(system, 4)


@pytest.mark.parametrize(
    "name", [*DAILY, *(pytest.param(n, marks=pytest.mark.thorough) for n in NAMES if n not in DAILY)]
)
def test_derivatives_against_differences(name):
    """Ḋ and Ẋ along a motion, the choice held, to 1e-7, against central differences of fourth order.

    A step moves a coordinate by 3e-4 of the machine's size at most: of itself it is off by 1e-14, by rounding by 1e-11
    where a basis is known to rounding. The recursion knows its own only to the square of the conditioning, here told
    by what parts it from the reflections; its differences are known to no more than that over the step.
    """
    system, ranks, states = machine(name)

    def rates(system, e):
        at = matrices(system, e.t, e.q)
        dot = at.rates(system, e.t, e.q, e.v)
        h = 3e-4 / jnp.maximum(1.0, jnp.max(jnp.abs(e.v) / system.scale()))
        ways = (-2.0, -1.0, 1.0, 2.0)
        sides = [matrices(system, e.t + s * h, system.retract(e.q, s * h * e.v)) for s in ways]
        out = {}
        for word, complement in all_complements().items():
            complement = complement.with_rank(ranks.rows)
            choice = complement.choose(at.C, at.mass)
            _, exact = complement.derivative(at.C, dot.C, at.mass, dot.mass, choice)
            found = [complement.complete(s.C, s.mass, choice) for s in sides]
            numeric = jax.tree_util.tree_map(lambda a, b, c, d: (a - 8 * b + 8 * c - d) / (12 * h), *found)
            here, twin = (x.complete(at.C, at.mass, choice) for x in (complement, TWINS.get(word, complement)))
            noise = [jnp.max(jnp.abs(a - b), initial=0.0) / h for a, b in zip(here, twin, strict=True)]
            out[word] = ((exact.D, numeric.D, noise[0]), (exact.X, numeric.X, noise[1]))
        return out

    few = tuple(x[:4] for x in states)
    for word, found in jax.device_get(at_states(rates, system, few)).items():
        for exact, numeric, noise in found:
            scale = np.max(np.abs(exact), initial=1.0)
            bar = 1e-7 + 10 * np.max(noise, initial=0.0) / scale  # a stencil adds up a few such errors
            np.testing.assert_allclose(exact / scale, numeric / scale, atol=bar, err_msg=word)


def test_local_coordinates_with_free_directions():
    """κ > m: D̂ found and held. Ḋu enters the accelerations: all forms agree, at rounding."""
    system = on_a_line("a")
    q, v = da.stabilise.consistent_state(system, (None, (1.0, -0.4, 0.3)))
    form = da.prepare(system, formulation=da.formulations.MinimalOrder(da.complements.LocalCoordinates())).formulation
    u, memory = form.pack(system, 0.0, q, v)
    assert memory.choice.local.shape == (2, 1)
    np.testing.assert_allclose(form.unpack(system, 0.0, q, u, memory)[1], v, atol=1e-12)
    motion = form.motion(system, 0.0, q, u, memory, lambda e: e.Gamma)
    wanted = da.formulations.Proximal().solve(da.assemble(system, 0.0, q, v)).vdot
    np.testing.assert_allclose(motion.acceleration.vdot, wanted, atol=1e-10)


@pytest.mark.parametrize("name", everyday(NAMES, ("four-bar",)))
def test_local_coordinates_of_joints(name):
    """C = Ĉ J with the relative twists of all joints; Ĉᵀλ are the joints' wrenches; u are rates of joints.

    Products of numbers of size one: rounding. With these D, v and v̇ of a march are those of the default form.
    """
    system, ranks, states = case(name)
    complement = da.complements.LocalCoordinates().with_rank(ranks.rows)
    form = da.formulations.MinimalOrder(complement)

    def at(system, e):
        found = matrices(system, e.t, e.q, joints=True)
        local = found.local
        choice = complement.choose(found.C, found.mass, local)
        D, _ = complement.complete(found.C, found.mass, choice, local)
        lam = jnp.cos(jnp.arange(float(system.m)))
        wrenches = joint_wrenches(system, e, lam)
        u, memory = form.pack(system, e.t, e.q, e.v)
        motion = form.motion(system, e.t, e.q, u, memory, lambda e: e.Gamma)
        wanted = da.formulations.Proximal().solve(e).vdot
        size = jnp.maximum(jnp.max(jnp.abs(wanted)), jnp.max(jnp.abs(e.mass.solve(e.h))))
        return {
            "factors": jnp.max(jnp.abs(local.Chat @ local.J - found.C)) / jnp.max(jnp.abs(found.C)),
            "tangent": jnp.max(jnp.abs(found.C @ D), initial=0.0),
            "rates": jnp.max(jnp.abs((choice.local.T @ local.J + choice.E.T) @ D - jnp.eye(D.shape[1])), initial=0.0),
            "velocity": jnp.max(jnp.abs(motion.equations.v - e.v) / system.scale()),
            "acceleration": jnp.max(jnp.abs(motion.acceleration.vdot - wanted)) / size,
            "wrench": jnp.concatenate([wrenches.joint_force, wrenches.joint_torque], axis=1),
            "local": local.Chat.T @ lam,
            "bodies": jnp.sum(jnp.abs(choice.E)),
            "quality": choice.quality,
        }

    found = jax.device_get(at_states(at, system, tuple(x[:4] for x in states)))
    for word, bar in (
        ("factors", 1e-11),
        ("tangent", 1e-11),
        ("rates", 1e-11),
        ("velocity", 1e-10),
        ("acceleration", 1e-9),
    ):
        assert np.max(found[word]) < bar, word
    assert np.min(found["quality"]) > 1e-3
    if name in ("four-bar", "door-two-balls"):
        assert np.max(found["bodies"]) == 0.0  # the joints say all
    # family by family, where the joints of the list are found by name
    width, start = found["wrench"].shape[2], 0
    names = [j.name for j in system.joints]
    for f in system.families:
        for k, member in enumerate(f.names):
            if "point_j" not in f.p or f.group.columns.shape[1] != 2:
                continue
            here = found["local"][:, start + k * width : start + (k + 1) * width]
            np.testing.assert_allclose(here, found["wrench"][:, names.index(member)], atol=1e-11)
        twists = "point_j" in f.p and f.group.columns.shape[1] == 2
        start += len(f.names) * width if twists else f.group.rows.size


def two_loops(angles):
    """Two equal four-bars side by side, at two crank angles."""
    from dalembert.mechanisms._planar import four_bar_points, rod

    model = da.Model("two-loops", gravity=(0.0, -9.81))
    for k, angle in enumerate(angles):
        A, B, C, D = (p + np.array([5.0 * k, 0.0]) for p in four_bar_points((1.0, 2.0, 1.5, 2.0), angle))
        crank = rod(model, f"crank{k}", A, B)
        coupler = rod(model, f"coupler{k}", B, C, 2.0)
        rocker = rod(model, f"rocker{k}", D, C, 1.5)
        for name, i, j, at in (("A", model.ground, crank, A), ("B", crank, coupler, B), ("C", coupler, rocker, C),
                               ("D", model.ground, rocker, D)):  # fmt: skip
            model.revolute(f"{name}{k}", i, j, at=at)
    return da.build(model)


def test_one_shot_is_caught_on_two_loops_and_greedy_never_fails():
    """Two loops in different poses: the two largest sines can both belong to one of them, and then E is singular."""
    system = two_loops((0.5, 2.0))

    def qualities(q):
        at = matrices(system, 0.0, q)
        words = ("one-shot", "greedy", "current")
        return jnp.stack([da.complements.Riemannian(w).with_rank(16).choose(at.C, at.mass).quality for w in words])

    motion = da.simulate(system, 2.0, rtol=1e-7, samples=81)
    found = np.asarray(jax.jit(lambda q: jax.lax.map(qualities, q))(motion.q))
    caught = found[:, 0] < 1e-6
    assert np.any(caught)
    assert np.min(found[:, 1]) > 0.05 and np.min(found[:, 2]) > 0.05
    worst = int(np.flatnonzero(caught)[0])
    at = matrices(system, 0.0, motion.q[worst])
    choice = da.complements.Riemannian("one-shot").with_rank(16).choose(at.C, at.mass)
    assert np.linalg.matrix_rank(np.hstack([at.C.T, choice.E])) < 18
    with pytest.raises(da.errors.DalembertError, match="greedy"):
        da.complements.check_choice(choice)


def test_choice_does_not_depend_on_units():
    """In millimetres the same coordinates are chosen, with the same quality."""
    system, ranks, states = case("four-bar")
    at = matrices(system, 0.0, states[1][0])
    scale = jnp.tile(
        jnp.array([1e3, 1e3, 1.0]), 3
    )  # lengths grow by 1000, rows (lengths) too, M = kg mm² shrinks in scale
    C = 1e3 * at.C / scale
    blocks = at.mass.blocks / (scale.reshape(3, 3, 1) * scale.reshape(3, 1, 3)) * 1e6
    mass = type(at.mass)(blocks, jnp.linalg.inv(blocks))
    for word, complement in all_complements().items():
        complement = complement.with_rank(ranks.rows)
        here, there = complement.choose(at.C, at.mass), complement.choose(C, mass)
        np.testing.assert_allclose(here.quality, there.quality, rtol=1e-9, err_msg=word)


def test_re_expressed_velocities_are_the_same_velocity():
    """u changes with E, v does not: through pack and unpack with another choice (eqs. 4.7 and 4.7a)."""
    system, ranks, states = case("door-two-balls")
    t, q, v = (x[0] for x in states)
    for complement in (
        da.complements.LU(),
        da.complements.SVD(),
        da.complements.GramSchmidt(),
        da.complements.Riemannian(),
        da.complements.LocalCoordinates(),
    ):
        form = da.formulations.MinimalOrder(complement.with_rank(ranks.rows))
        u, memory = form.pack(system, t, q, v)
        np.testing.assert_allclose(form.unpack(system, t, q, u, memory)[1], v, atol=1e-11)


def test_reflections_applied_to_a_few_columns():
    """Q X and R without Q: against the QR itself, and the derivative in P and X against differences (h² is 1e-10)."""
    P, X, dP, dX = (jnp.array(np.random.default_rng(k).standard_normal((6, c))) for k, c in enumerate((6, 2, 6, 2)))
    Q, R = orthonormalised(P)
    for found, wanted in zip(reflected(P, X), (Q @ X, R), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-13)
    h = 1e-5
    rates = jax.jvp(reflected, (P, X), (dP, dX))[1]
    for k, rate in enumerate(rates):
        sides = [reflected(P + s * h * dP, X + s * h * dX)[k] for s in (-1.0, 1.0)]
        np.testing.assert_allclose(rate, (sides[1] - sides[0]) / (2 * h), atol=1e-7)
