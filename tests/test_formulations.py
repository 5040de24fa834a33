"""All exact formulations with all complements agree on every built-in mechanism; the inexact ones state their error."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_papers import four_bar as angle_four_bar
from _helpers_states import NAMES, at_states, case, exact_formulations
from _helpers_thorough import everyday

import dalembert as da
from dalembert.complements import all_complements
from dalembert.equations import matrices
from dalembert.formulations import all_formulations
from dalembert.stabilise import generic_ranks

# of each sort one, for the longest list of methods: plane, driven, rolling, redundant in space, redundant and mixed
LONGEST = ("four-bar", "slider-crank", "rolling-disc", "door-two-balls", "mobile-robot")
ORTHONORMAL = ("riemannian", "riemannian-current", "riemannian-recursion")


def everything(ranks, minimal):
    """v̇ and r of all exact formulations, and C D, WᵀM W and C X of all complements, at one instant."""
    forms = exact_formulations(ranks, minimal)
    complements = {k: c.with_rank(ranks.rows) for k, c in all_complements().items()}

    def at(system, equations):
        found = {k: f.solve(equations) for k, f in forms.items()}
        accelerations = {k: (a.vdot, a.r) for k, a in found.items()}
        bases = {}
        C, mass = equations.C, equations.mass
        rows = C / jnp.sqrt(jnp.maximum(equations.rows.weighted_square(mass.inverse), 1e-300))[:, None]
        for k, complement in complements.items():
            choice = complement.choose(C, mass)
            D, X = complement.complete(C, mass, choice)
            W = jnp.concatenate(complement.frame(C, mass, choice)[:2], axis=1) if k in ORTHONORMAL else D
            sizes = jnp.sqrt(jnp.diagonal(D.T @ equations.M @ D))
            # rows and columns of unit length in the mass metric: C D without units
            bases[k] = (rows @ D / sizes, W.T @ equations.M @ W, choice.quality, choice.pick(C) @ X)
        return accelerations, bases, (mass.solve(equations.h), equations.h), equations.b

    return at


# everyday driven, redundant and mixed; rolling in space below
@pytest.mark.parametrize("name", everyday(NAMES, ("slider-crank", "mobile-robot")))
def test_all_exact_methods_agree(name):
    """At 20 random consistent states. The bar is 1e-9, relative to the largest entry of v̇ and of what it is made of.

    v̇ = M⁻¹h + M⁻¹r is a difference: a table at rest, or a cardan shaft that barely speeds up, knows v̇ to rounding of
    M⁻¹h only (9.81 against 3e-5). The same for r = M v̇ − h.
    """
    system, ranks, states = case(name)
    found = jax.device_get(at_states(everything(ranks, name in LONGEST), system, states))
    accelerations, bases, parts, b = found
    agree(accelerations, parts, bases["riemannian-one-shot"][2] > 1e-3)
    for word, (CD, gram, quality, CX) in bases.items():
        if "one-shot" in word:
            continue  # may fail by design: its own tests catch it
        assert np.min(quality) > 1e-3, word
        # products of unit vectors: rounding times the conditioning of [Cᵀ E]
        assert np.max(np.abs(CD), initial=0.0) < 1e-12, word
        # the recursion is classical Gram–Schmidt: it loses the square of the conditioning, and no more
        lost = 1.0 / np.min(quality) ** 2 if word == "riemannian-recursion" else 1.0
        assert np.max(np.abs(CX - np.eye(ranks.rows)), initial=0.0) < max(1e-10, 1e-13 * lost), word
        if word in ORTHONORMAL:
            assert np.max(np.abs(gram - np.eye(system.n))) < max(1e-12, 1e-14 * lost), word
    if system.scleronomic:
        assert np.max(np.abs(b), initial=0.0) < 1e-13


# everyday one with quaternions, rolling, and a driven axle
def agree(accelerations, parts, one_shot):
    """All v̇ and r to 1e-9 of the default form's; those on the one-shot criterion where it did not fail."""
    reference = accelerations["proximal"]
    assert all(np.all(np.isfinite(x)) for x in reference) and np.max(np.abs(reference[1])) > 0
    for word, found in accelerations.items():
        for mine, theirs, part in zip(reference, found, parts, strict=True):
            size = np.maximum(np.max(np.abs(mine), axis=1), np.max(np.abs(part), axis=1))
            error = np.max(np.abs(mine - theirs), axis=1) / size
            assert np.max(error[one_shot] if "one-shot" in word else error, initial=0.0) < 1e-9, word


@pytest.mark.thorough  # a program of its own: half the time to compile
@pytest.mark.parametrize("name", [n for n in NAMES if n not in LONGEST])
def test_minimal_order_agrees_on_every_complement(name):
    """The rest of the product: at the same states, to the same bar."""
    system, ranks, states = case(name)
    forms = {
        k: f
        for k, f in exact_formulations(ranks).items()
        if isinstance(f, da.formulations.MinimalOrder | da.formulations.Proximal)
    }
    one_shot = da.complements.Riemannian("one-shot").with_rank(ranks.rows)

    def at(system, e):
        found = {k: f.solve(e) for k, f in forms.items()}
        accelerations = {k: (a.vdot, a.r) for k, a in found.items()}
        return accelerations, (e.mass.solve(e.h), e.h), one_shot.choose(e.C, e.mass).quality > 1e-3

    agree(*jax.device_get(at_states(at, system, states)))


@pytest.mark.parametrize("name", everyday(NAMES, ("rolling-disc",)))
def test_marching_evaluations_agree(name, request):
    """One evaluation while marching, the choice held: v, and v̇ with Ḋu and (X b)˙ in it; thorough on every complement.

    Ḋ may be large where v̇ is not: the bar is 1e-9 of v̇ and M⁻¹h.
    """
    system, ranks, states = case(name)
    thorough = request.config.getoption("--thorough")
    chosen = exact_formulations(ranks) if thorough else {k: f.with_ranks(ranks) for k, f in all_formulations().items()}
    forms = {k: f for k, f in chosen.items() if f.tangent and "one-shot" not in k}

    def motions(system, e):
        wanted = da.formulations.Proximal().solve(e).vdot
        size = jnp.maximum(jnp.max(jnp.abs(wanted)), jnp.max(jnp.abs(e.mass.solve(e.h))))
        out = {}
        for k, form in forms.items():
            w, memory = form.pack(system, e.t, e.q, e.v)
            motion = form.motion(system, e.t, e.q, w, memory, lambda e: e.Gamma)
            gap = jnp.max(jnp.abs(motion.acceleration.vdot - wanted)) / size
            out[k] = (gap, jnp.max(jnp.abs(motion.equations.v - e.v) / system.scale()), memory.choice.quality)
        return out

    few = tuple(x[:4] for x in states)
    for word, (acceleration, velocity, quality) in jax.device_get(at_states(motions, system, few)).items():
        # v → u → v needs WᵀMW = I, of which the recursion loses the square of the conditioning
        lost = 1.0 / np.min(quality) ** 2 if "recursion" in word else 1.0
        assert np.max(acceleration) < 1e-9 and np.max(velocity) < max(1e-10, 1e-13 * lost), word


@pytest.mark.parametrize("name", ["four-bar", "door-two-hinges"])
def test_inexact_ones_state_their_error(name):
    """What is left of the constraint acceleration, against α: falls as 1/α and as α^−(1 + iterations)."""
    system, _, states = case(name)
    alphas = (1e3, 1e5)

    def left(system, equations):
        sizes = jnp.sqrt(equations.rows.weighted_square(equations.mass.inverse))
        free = jnp.max(jnp.abs(equations.C @ equations.mass.solve(equations.h) - equations.Gamma) / sizes)

        def share(f):
            return jnp.max(jnp.abs(equations.C @ f.solve(equations).vdot - equations.Gamma) / sizes) / free

        once = [share(da.formulations.Penalty(a)) for a in alphas]
        twice = [share(da.formulations.AugmentedLagrangian(a, 1)) for a in alphas]
        return jnp.stack(once), jnp.stack(twice)

    once, twice = jax.device_get(at_states(left, system, states))
    # σ, the smallest eigenvalue of the scaled Delassus matrix, is a few hundredths here: a factor 100 above 1/α
    for k, alpha in enumerate(alphas):
        assert np.all(once[:, k] < 100 * da.formulations.Penalty(alpha).relative_error())
    np.testing.assert_allclose(once[:, 0] / once[:, 1], 100.0, rtol=0.3)
    assert np.all(twice[:, 0] < 1e4 * da.formulations.AugmentedLagrangian(1e3, 1).relative_error())
    assert np.all(twice < once)


def test_resolved_refuses_another_metric():
    with pytest.raises(da.errors.DalembertError, match="orthonormal in the mass metric"):
        da.formulations.Resolved(da.complements.LU())


def test_rank_must_be_known_before_compiling(four_bar):
    equations = da.assemble(four_bar, 0.0, four_bar.q0, four_bar.v0)
    with pytest.raises(da.errors.DalembertError, match="da.prepare"):
        da.formulations.NullSpace().solve(equations)
    assert da.prepare(four_bar, formulation=da.formulations.NullSpace()).formulation.complement.rank == 8
    assert np.all(
        np.isfinite(da.prepare(four_bar, formulation=da.formulations.NullSpace()).formulation.solve(equations).vdot)
    )


MARCHES = {
    "null space": da.formulations.NullSpace(),
    "minimal order on lu": da.formulations.MinimalOrder(da.complements.LU()),
    "minimal order on gram-schmidt": da.formulations.MinimalOrder(da.complements.GramSchmidt()),
    "minimal order on local": da.formulations.MinimalOrder(da.complements.LocalCoordinates()),
    "resolved": da.formulations.Resolved(),
    "independent": da.formulations.IndependentCoordinates(),
}


@pytest.mark.parametrize(
    "word",
    everyday(MARCHES, ("null space", "resolved")),
)
def test_marches_in_other_variables_agree(word):
    """A four-bar in angles, M(q), swinging through all positions where two links are parallel, several times each.

    There J' of a fixed choice is singular [Blajer, Bestle, Schiehlen 1994, below eq. 25b]; the choice is made anew in
    time. Against the default form at a tighter tolerance. rtol 1e-10 over 4 s leaves 1e-8 where all velocities are
    controlled, and up to 6 times that where one angle stands for all: the bar is 2e-7.
    """
    system = angle_four_bar("a", v0=(3.0, 0.0, 0.0))
    reference = reference_swings()
    for i, j in ((0, 1), (1, 2), (0, 2)):
        across = np.sin(np.asarray(reference.q[:, i] - reference.q[:, j]))
        assert np.sum(np.diff(np.sign(across)) != 0) >= 6
    solution = da.simulate(system, 4.0, formulation=MARCHES[word], rtol=1e-10, samples=101)
    np.testing.assert_allclose(solution.q, reference.q[::10], atol=2e-7)
    assert solution.violation["position"] < 1e-13 and solution.violation["velocity"] < 1e-12


def reference_swings(found=[]):  # noqa: B006  # computed once
    if not found:
        system = angle_four_bar("a", v0=(3.0, 0.0, 0.0))
        found.append(da.simulate(system, 4.0, rtol=1e-12, samples=1001))
    return found[0]


def test_a_choice_that_is_never_renewed_is_lost():
    """The quality of the first choice falls to nothing along that motion: the renewal is what saves the march."""
    system = angle_four_bar("a", v0=(3.0, 0.0, 0.0))
    q = reference_swings().q
    complement = da.complements.LocalCoordinates().with_rank(2)

    def along(q):
        at = matrices(system, 0.0, q)
        return complement.choose(at.C, at.mass, at.local), at

    choice, _ = along(q[0])

    def qualities(q):
        renewed, at = along(q)
        return complement.quality(at.C, at.mass, choice, at.local), renewed.quality

    kept, renewed = jax.jit(lambda q: jax.lax.map(qualities, q))(q)
    assert np.min(kept) < 0.02 and np.min(renewed) > 0.2


def test_generic_ranks_of_mixed_rows():
    """Errata of Wojtyra and Fraczek: rank Φ_q = 17, rank C = 20 for the robot."""
    ranks = generic_ranks(da.build(da.mechanism("mobile-robot")))
    assert (ranks.holonomic, ranks.rows) == (17, 20)
