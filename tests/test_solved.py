"""Solved means solved: accelerations and reactions to what the conditioning allows, or marked where it allows nothing.

Oracles: closed forms, and the saddle-point equations in 60 digits (mpmath).
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from _helpers_states import exact_formulations

import dalembert as da
from dalembert.formulations import Proximal, Ranks
from dalembert.reactions import RequireUnique
from dalembert.results._observe import observe

EPS = float(np.finfo(float).eps)
OBSERVE = eqx.filter_jit(observe)


def allowed(kappa: float) -> float:
    """What an error may be: the conditioning times rounding, with room for the number of operations."""
    return 1e-10 + 100 * EPS * kappa


# ---- regular machines of any conditioning ----------------------------------------------------------------------


def random_machine(kappa: float, rng) -> tuple[np.ndarray, ...]:
    """M, C, h, Γ whose rows have singular values from 1 to 1/κ in the mass metric, rows of unlike lengths."""
    n, m = 9, 5
    G = rng.standard_normal((n, n))
    M = G @ G.T + 0.3 * np.eye(n)
    U, V = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in (m, n))
    rows = U @ np.diag(np.geomspace(1.0, 1.0 / kappa, m)) @ V[:m]
    C = rows @ np.linalg.cholesky(M).T
    v = rng.standard_normal(n)
    return M, C, M @ rng.standard_normal(n), C @ v


def in_sixty_digits(M, C, h, Gamma) -> tuple[np.ndarray, np.ndarray]:
    """v̇ and λ of M v̇ − Cᵀλ = h, C v̇ = Γ."""
    n, m = len(M), len(C)
    with mpmath.workdps(60):
        K = mpmath.matrix(n + m, n + m)
        for i in range(n):
            for j in range(n):
                K[i, j] = mpmath.mpf(float(M[i, j]))
        for k in range(m):
            for j in range(n):
                K[n + k, j] = mpmath.mpf(float(C[k, j]))
                K[j, n + k] = -mpmath.mpf(float(C[k, j]))
        rhs = mpmath.matrix([mpmath.mpf(float(x)) for x in (*h, *Gamma)])
        z = mpmath.lu_solve(K, rhs)
        return np.array([float(x) for x in z[:n]]), np.array([float(x) for x in z[n:]])


def conditioned(M, C) -> float:
    """κ of the rows as the package scales them: unit length in the mass metric."""
    rows = np.linalg.solve(np.linalg.cholesky(M), C.T).T
    values = np.linalg.svd(rows / np.linalg.norm(rows, axis=1)[:, None], compute_uv=False)
    return values[0] / values[-1]


def solver(forms):
    """M, C, h, Γ ↦ v̇ by each formulation, and λ."""
    system = da.FunctionSystem(
        lambda t, q, p: p["M"],
        lambda t, q, v, p: p["h"],
        position=lambda t, q, p: p["C"] @ q - 0.5 * p["g"] * t**2,
        q0=np.zeros(9),
        parameters={"M": np.eye(9), "h": np.zeros(9), "C": np.eye(9)[:5], "g": np.zeros(5)},
    )

    def solved(M, C, h, g):
        own = system.replace({"M": M, "C": C, "h": h, "g": g})
        equations = da.assemble(own, 0.0, jnp.zeros(9), jnp.zeros(9))
        found = {k: f.solve(equations).vdot for k, f in forms.items()}
        lam = RequireUnique().multipliers(own, equations, Proximal().solve(equations).r)
        return found, lam

    return solved


def test_ill_conditioned_machines_side_by_side_in_a_batch():
    """Under vmap a member that needs singular values brings them for all: each is solved as it is alone."""
    rng, kappas = np.random.default_rng(11), (1.0, 1e6, 1e2, 1e5)
    machines = [random_machine(kappa, rng) for kappa in kappas]
    batch = jax.jit(jax.vmap(solver({"proximal": Proximal()})))
    found, multipliers = jax.device_get(batch(*(jnp.stack(x) for x in zip(*machines, strict=True))))
    for machine, vdot, lam in zip(machines, found["proximal"], multipliers, strict=True):
        exact, forces = in_sixty_digits(*machine)
        k = conditioned(*machine[:2])
        assert np.linalg.norm(vdot - exact) <= allowed(k) * np.linalg.norm(exact)
        assert np.linalg.norm(lam - forces) <= allowed(k * k) * np.linalg.norm(forces)


def test_random_machines_against_sixty_digits():
    """200 machines, conditioning of the rows up to 1e6 (of the saddle-point matrix: 1e12), every exact formulation."""
    solved = eqx.filter_jit(solver(exact_formulations(Ranks(5, 5))))
    rng = np.random.default_rng(7)
    worst: dict[str, float] = {}
    for kappa in np.geomspace(1.0, 1e6, 200):
        M, C, h, g = random_machine(kappa, rng)
        vdot, lam = in_sixty_digits(M, C, h, g)
        found, multipliers = jax.device_get(solved(M, C, h, g))
        k = conditioned(M, C)
        for name, value in found.items():
            error = float(np.linalg.norm(value - vdot) / np.linalg.norm(vdot))
            # the recursion of the papers loses κ², as its docstring says
            worst[name] = max(worst.get(name, 0.0), error / allowed(k * k if "recursion" in name else k))
        # λ is a least-squares solution: its conditioning is κ times the share of Cᵀλ, κ² that of M v̇
        error = float(np.linalg.norm(multipliers - lam) / np.linalg.norm(lam))
        worst["λ"] = max(worst.get("λ", 0.0), error / allowed(k * k))
    assert not {k: x for k, x in worst.items() if x > 1.0}


def scissor_lift(stages: int, angle: float = 0.35, bar: float = 15.0, load: float = 200.0) -> da.Model:
    """`stages` crossed pairs of 2 m bars with a platform on top, held by a cylinder at the lower roller."""
    model = da.Model("lift", gravity=(0, -9.81))
    c, s = 2.0 * math.cos(angle), 2.0 * math.sin(angle)
    left, right = [], []
    for k in range(stages):
        for name, side, tilt in (("up", left, angle), ("down", right, math.pi - angle)):
            at = (c / 2, (k + 0.5) * s)
            side.append(model.body(f"{name}{k}", mass=bar, inertia=bar * 4 / 12, position=at, angle=tilt))
    top = model.body("platform", mass=load, inertia=20.0, position=(c / 2, stages * s + 0.1))
    model.revolute("foot", model.ground, left[0], at=(0, 0))
    model.pin_slot("roller", model.ground, right[0], at=(c, 0), slot=(1, 0))
    for k in range(stages):
        model.revolute(f"middle{k}", left[k], right[k], at=(c / 2, (k + 0.5) * s))
        if k:
            model.revolute(f"left{k}", right[k - 1], left[k], at=(0, k * s))
            model.revolute(f"right{k}", left[k - 1], right[k], at=(c, k * s))
    model.revolute("top_pin", right[-1], top, at=(0, stages * s))
    model.pin_slot("top_roller", top, left[-1], at=(c, stages * s), slot=(1, 0))
    model.driver("cylinder", "roller", 0.0, coordinate="displacement")
    return model


THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    "stages, coordinates",
    [
        (40, "absolute"),
        (20, "joint"),
        *(pytest.param(n, how, marks=THOROUGH) for n in (10, 80, 160) for how in ("absolute", "joint")),
    ],
)
def test_the_cylinder_of_a_long_scissor_lift(stages, coordinates):
    """F = −(n W + n² m g)/tan θ by virtual work: every bar's middle and the platform rise with the stages."""
    system = da.build(scissor_lift(stages), coordinates=coordinates)
    found = OBSERVE(system, Proximal(), RequireUnique(), 0.0, system.q0, system.v0)
    joint = [j.name for j in system.machine.joints].index("cylinder")
    force = float(found.wrenches.joint_force[joint][0])
    by_hand = -(stages * 200 * 9.81 + stages**2 * 15 * 9.81) / math.tan(0.35)
    kappa = 1.0 / float(found.sigma[-1] / found.sigma[0])
    assert abs(force / by_hand - 1) <= allowed(kappa)
    np.testing.assert_allclose(found.vdot, 0.0, atol=1e-9)


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
def test_every_reaction_of_a_scissor_lift(coordinates):
    """All 62 multipliers of ten stages, and the wrenches made of them, against the same equations in 60 digits."""
    system = da.build(scissor_lift(10), coordinates=coordinates)
    found = OBSERVE(system, Proximal(), RequireUnique(), 0.0, system.q0, system.v0)
    e = da.assemble(system.machine, 0.0, *system.lift(system.q0, system.v0))
    _, lam = in_sixty_digits(*(np.asarray(x) for x in (e.M, e.C, e.h, e.Gamma)))
    bound = allowed(float(found.sigma[0] / found.sigma[-1])) * np.max(np.abs(lam))
    assert len(lam) == 63 and np.max(np.abs(np.asarray(found.lam) - lam)) <= bound
    # each body balances: what its joints exert on it is the load that it does not fall with
    pulls = np.asarray(e.C).T @ np.asarray(found.lam)
    np.testing.assert_allclose(pulls, -np.asarray(e.h), atol=10 * bound)


def held_chain(links: int, length: float = 1.0, mass: float = 2.0) -> tuple[da.Model, np.ndarray]:
    """Rods between two supports, at rest: tan θ_k = (V_k − w/2)/H with V_k = (links/2 − k) w; the force of each pin."""
    weight = mass * 9.81
    H, V = 0.35 * links * weight, weight * (links / 2 - np.arange(links + 1))
    model = da.Model("held chain", gravity=(0, -9.81))
    point, before = np.zeros(2), model.ground
    for k in range(links):
        angle = math.atan2(-(V[k] - weight / 2), H)
        along = length * np.array([math.cos(angle), math.sin(angle)])
        rod = model.body(f"rod{k}", mass=mass, inertia=mass * length**2 / 12, position=point + along / 2, angle=angle)
        model.revolute(f"pin{k}", before, rod, at=point)
        point, before = point + along, rod
    model.revolute(f"pin{links}", model.ground, before, at=point)
    return model, np.stack(
        [np.where(np.arange(links + 1) < links, -H, H), np.where(np.arange(links + 1) < links, V, -V)], 1
    )


@pytest.mark.parametrize(
    "links, coordinates",
    [
        (400, "absolute"),
        *(pytest.param(*x, marks=THOROUGH) for x in ((400, "joint"), (2000, "absolute"), (2000, "joint"))),
    ],
)
def test_every_pin_of_a_chain_held_at_both_ends(links, coordinates):
    model, by_hand = held_chain(links)
    system = da.build(model, coordinates=coordinates)
    found = OBSERVE(system, Proximal(), RequireUnique(), 0.0, system.q0, system.v0)
    names = [j.name for j in system.machine.joints]
    forces = np.asarray(found.wrenches.force)[[names.index(f"pin{k}") for k in range(links + 1)]]
    kappa = float(found.sigma[0] / found.sigma[-1])
    assert np.max(np.abs(forces[:, :2] - by_hand)) <= allowed(kappa) * np.max(np.abs(by_hand))


@pytest.mark.parametrize(
    "mass, coordinates",
    [
        (1e-9, "absolute"),
        *(pytest.param(m, "absolute", marks=THOROUGH) for m in (1e-6, 1e-12)),
        *(pytest.param(m, "joint", marks=THOROUGH) for m in (1e-6, 1e-9, 1e-12)),
    ],
)
def test_a_hexapod_on_legs_of_hardly_any_mass(mass, coordinates):
    """Every multiplier against 60 digits; with 1e-12 kg the weakest direction is 1e-7 of the strongest."""
    system = da.build(da.mechanism("stewart-platform"), coordinates=coordinates)
    legs = [b for b in system.machine.body_names if b != "platform"]
    new = {f"{b}.mass": mass for b in legs} | {f"{b}.inertia": mass * np.diag([0.1, 0.1, 0.01]) for b in legs}
    light = system.replace(new)
    found = OBSERVE(light, Proximal(), RequireUnique(), 0.0, light.q0, light.v0)
    state = (light.q0, light.v0) if coordinates == "absolute" else light.lift(light.q0, light.v0)
    e = da.assemble(light.machine, 0.0, *state)
    _, lam = in_sixty_digits(*(np.asarray(x) for x in (e.M, e.C, e.h, e.Gamma)))
    kappa = float(found.sigma[0] / found.sigma[-1])
    assert np.max(np.abs(np.asarray(found.lam) - lam)) <= allowed(kappa) * np.max(np.abs(lam))


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
def test_a_coupler_of_hardly_any_mass(coordinates):
    """Of a massless coupler the pins pull along its line, and both cranks turn as with a rod between them."""
    system = da.build(da.mechanism("four-bar"), coordinates=coordinates)
    reference, before = None, 1.0
    body = next(b for b in system.machine.body_names if "coupler" in b)
    for mass in (1e-3, 1e-6, 1e-9, 1e-12, 1e-14):
        light = system.replace({f"{body}.mass": mass, f"{body}.inertia": mass / 12})
        found = OBSERVE(light, Proximal(), RequireUnique(), 0.0, light.q0, light.v0)
        forces = np.asarray(found.wrenches.force)
        if reference is not None:
            # reactions come near their limit as the mass does; below that by what conditioning √(mass ratio) allows
            assert np.max(np.abs(forces - reference)) <= 20 * before + 1e3 * EPS / math.sqrt(mass)
        reference, before = forces, mass
    ends = []
    for mass in (1e-9, 1e-14):
        moved = da.simulate(system.replace({f"{body}.mass": mass, f"{body}.inertia": mass / 12}), 0.5, samples=3)
        assert int(moved.stats["steps"]) < 2000
        ends.append(np.asarray(moved.q[-1]))
    # they differ by the mass itself and by rounding over √mass
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-8)


# ---- nearly redundant -------------------------------------------------------------------------------------------


def hinged_four_bar(tilt: float) -> da.Model:
    """A planar four-bar of four hinges in space; the axis of the last is turned out of parallel by `tilt`."""
    model = da.Model("tilted", space="space", gravity=(0, -9.81, 0))
    points = {"A": (0.0, 0.0, 0.0), "B": (0.3, 0.8, 0.0), "C": (1.6, 1.0, 0.0), "D": (1.5, 0.0, 0.0)}
    bodies = [model.ground]
    for name, (i, j) in {"crank": "AB", "coupler": "BC", "rocker": "CD"}.items():
        middle = np.add(points[i], points[j]) / 2
        bodies.append(model.body(name, mass=1.0, inertia=(0.1, 0.1, 0.1), position=middle))
    bodies.append(model.ground)
    for k, name in enumerate("ABCD"):
        axis = (0.0, math.sin(tilt), math.cos(tilt)) if name == "D" else (0.0, 0.0, 1.0)
        model.revolute(name, bodies[k], bodies[k + 1], at=points[name], axis=axis)
    return model


@pytest.mark.parametrize(
    "tilt, coordinates",
    [
        *((tilt, "absolute") for tilt in (0.0, 1e-9, 1e-6, 1e-4, 1e-2)),
        (1e-9, "joint"),
        *(pytest.param(tilt, "joint", marks=THOROUGH) for tilt in (0.0, 1e-6, 1e-4, 1e-2)),
        *(
            pytest.param(tilt, how, marks=THOROUGH)
            for tilt in (1e-12, 1e-8, 1e-7, 1e-3)
            for how in ("absolute", "joint")
        ),
    ],
)
def test_check_and_motion_tell_one_story_of_a_tilted_axis(tilt, coordinates):
    """Nearly parallel it moves and has 3 superfluous rows; else it is locked, does not creep, and is called nearly
    redundant as long as the tilt is one nobody would draw. The threshold is one for both, `RANK_TOLERANCE`."""
    system = da.build(hinged_four_bar(tilt), coordinates=coordinates)
    found = da.check(system)
    solution = da.simulate(system, 0.5, samples=3)
    moved = float(np.max(np.abs(np.asarray(solution.q)[-1] - np.asarray(solution.q)[0])))
    nearly = any(line.startswith("nearly redundant") for line in found.remarks)
    # σ is 0.13 of the tilt in absolute coordinates: 1e-7 is at the threshold, and either side of it is one story
    assert tilt == 1e-7 or found.mobility == (1 if tilt < 1e-7 else 0)
    if found.mobility:
        assert (found.redundancy, found.mobility, nearly) == (3, 1, False)
        assert moved > 0.1
    else:
        assert (found.redundancy, found.mobility, nearly) == (2, 0, tilt < 1e-2)
        # a locked machine moves by rounding over the weakest direction at most
        assert moved < 1e-12 / tilt
        assert not nearly or "'D'" in found.remarks[0]
