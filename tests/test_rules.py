"""The rules that pick reactions which are not unique: elasticity, closed forms, units, and what no rule may change."""

from __future__ import annotations

import functools
import itertools
import warnings

import equinox as eqx
import numpy as np
import pytest
from _helpers_thorough import everyday
from test_units import MILLI, converted

import dalembert as da
from dalembert.reactions import joint_wrenches

LOCKED = {
    "revolute": (1, 1, 1, 1, 1, 0), "spherical": (1, 1, 1, 0, 0, 0), "prismatic": (1, 1, 0, 1, 1, 1),
    "cylindrical": (1, 1, 0, 1, 1, 0), "weld": (1, 1, 1, 1, 1, 1),
}  # fmt: skip
"""Directions along the axes of marker i that a joint locks; written here again, by hand, for the bushings."""


SOLVE = eqx.filter_jit(lambda equations: da.formulations.Proximal().solve(equations))


class Instant:
    """A machine at its start: equations, accelerations and the reaction r = M v̇ − h that the constraints must give."""

    def __init__(self, model):
        self.model = model
        self.system = da.build(model)
        q, v = da.stabilise.consistent_state(self.system)
        self.equations = da.assemble(self.system, 0.0, q, v)
        acceleration = SOLVE(self.equations)
        self.vdot, self.r = np.asarray(acceleration.vdot), np.asarray(acceleration.r)
        self.C, self.M = np.asarray(self.equations.C), np.asarray(self.equations.M)
        self.redundancy = self.system.m - np.linalg.matrix_rank(self.C)

    def wrenches(self, rule) -> dict[str, np.ndarray]:
        """Force and torque of each joint in its frame."""
        rule = rule.prepare(self.system, self.equations)
        lam = np.asarray(rule.multipliers(self.system, self.equations, self.r))
        # whatever the rule, it must give the reaction: rounding times the condition of some 1e3
        assert np.max(np.abs(self.C.T @ lam - self.r)) < 1e-9 * np.max(np.abs(self.r))
        found = joint_wrenches(self.system, self.equations, lam)
        parts = np.concatenate([found.joint_force, found.joint_torque], axis=1)
        return {j.name: parts[k] for k, j in enumerate(self.system.joints)}


# ---- the machines, p from 1 to 9 -----------------------------------------------------------------------------------


def door(*joints) -> da.Model:
    """The door of the references at rest on joints along its hinge line."""
    model = da.Model("door", space="space", gravity=(0, 0, -9.81))
    leaf = model.body("leaf", mass=10.0, inertia=(3.35, 4.17, 0.84), position=(0.5, 0, 0))
    for k, kind in enumerate(joints):
        more = {} if kind == "spherical" else {"axis": (0, 0, 1)}
        getattr(model, kind)(f"{kind}{k}", model.ground, leaf, at=(0, 0, 0.75 - 0.5 * k), **more)
    return model


MACHINES = {
    "two balls": (1, lambda: door("spherical", "spherical")),
    "bricard": (1, lambda: da.mechanism("bricard")),
    "bennett": (3, lambda: da.mechanism("bennett")),
    "spatial four-bar": (3, lambda: da.mechanism("spatial-four-bar")),
    "two hinges": (5, lambda: door("revolute", "revolute")),
    "three cranks": (7, lambda: da.mechanism("parallelogram-in-space")),
    "two hinges and a sleeve": (9, lambda: door("revolute", "revolute", "cylindrical")),
}


@functools.cache
def machine(name: str) -> Instant:
    return Instant(MACHINES[name][1]())


@functools.cache
def in_units(units) -> Instant:
    """The spatial four-bar; SI for `units` None."""
    if units is None:
        return machine("spatial four-bar")
    return Instant(converted(da.mechanism("spatial-four-bar"), units))


def random_stiffness(model) -> dict[str, np.ndarray]:
    """For each joint six stiffnesses within a decade: newtons a metre, newton metres a radian."""
    rng = np.random.default_rng(12)
    return {name: 1e6 * 10 ** rng.uniform(0, 1, 6) for name in model.constraints}


# ---- elasticity: constraints replaced by bushings ------------------------------------------------------------------


def cross_matrix(r):
    return np.array([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])


def rigid_map(body, point, n_bodies, index):
    """(6, 6 n): displacement and rotation of a point of a body from those of all bodies, world axes."""
    out = np.zeros((6, 6 * n_bodies))
    if body.name in index:
        k = 6 * index[body.name]
        out[:3, k : k + 3], out[3:, k + 3 : k + 6] = np.eye(3), np.eye(3)
        out[:3, k + 3 : k + 6] = -cross_matrix(point - body.position)
    return out


def bushing_wrenches(instant: Instant, stiffness, s: float, beams=()) -> dict[str, np.ndarray]:
    """Reactions when every locked direction is a spring of stiffness s·k, by one dense solve in displacements.

    Unknowns are small displacements and rotations of all bodies (world axes), and for each flexible body those of the
    massless frames at its two ends. The bodies' loads are −r, what the constraints must carry; soft
    springs K₀ = M (over 1 s²) hold what no bushing holds. Written from the model's markers: knows nothing of C.
    """
    model = instant.model
    bodies = list(model.bodies.values())
    index = {b.name: k for k, b in enumerate(bodies)}
    n, extra = 6 * len(bodies), 12 * len(beams)
    K, load = np.zeros((n + extra, n + extra)), np.zeros(n + extra)
    ends = {}
    for k, (body, joints, arms) in enumerate(beams):
        R = np.kron(np.eye(2), model.bodies[body].rotation)
        for side, (joint, arm) in enumerate(zip(joints, arms, strict=True)):
            c = model.constraints[joint]
            marker = next(m for m in c.markers if m.body.name == body)
            own = np.zeros((6, n + extra))
            own[:, n + 12 * k + 6 * side :][:, :6] = np.eye(6)
            core = np.pad(rigid_map(marker.body, marker.start_position, len(bodies), index), ((0, 0), (0, extra)))
            D = own - core
            K += D.T @ (R @ (s * arm) @ R.T) @ D
            ends[body, joint] = own
    springs = {}
    for name, c in model.constraints.items():
        maps = []
        for m in c.markers:
            rigid = np.pad(rigid_map(m.body, m.start_position, len(bodies), index), ((0, 0), (0, extra)))
            maps.append(ends.get((m.body.name, name), rigid))
        A = c.markers[0].body.rotation @ c.markers[0].rotation
        D = np.kron(np.eye(2), A.T) @ (maps[1] - maps[0])
        k = s * np.asarray(stiffness[name]) * np.array(LOCKED[c.type])
        K += D.T @ (k[:, None] * D)
        springs[name] = (k, D)
    for b in bodies:
        k = 6 * index[b.name]
        # ours: rotations in world axes; the equations': in body axes
        K[k : k + 3, k : k + 3] += b.mass * np.eye(3)
        K[k + 3 : k + 6, k + 3 : k + 6] += b.rotation @ b.inertia @ b.rotation.T
        load[k : k + 3], load[k + 3 : k + 6] = -instant.r[k : k + 3], b.rotation @ -instant.r[k + 3 : k + 6]
    x = np.linalg.solve(K, load)
    return {name: -k * (D @ x) for name, (k, D) in springs.items()}


def gap(first, second, ell: float) -> float:
    """Largest difference of wrenches, torques over ℓ, relative to the largest force."""
    unit = np.array([1, 1, 1, 1 / ell, 1 / ell, 1 / ell])
    size = max(np.max(np.abs(w * unit)) for w in first.values())
    return max(np.max(np.abs((first[j] - second[j]) * unit)) for j in first) / size


def converges_at_first_order(rule_wrenches, bushings, ell):
    """error(s) = c/s: over a factor of 10 the error falls by 10 within a few per cent, until rounding stops it.

    1e-9 of the largest force is where rounding begins: springs of 1e7 against inertias of 1 and less.
    """
    errors = [gap(rule_wrenches, bushings(s), ell) for s in (1e-2, 1e-1, 1.0)]
    assert errors[0] > 1e-8, errors  # something to converge
    for a, b in itertools.pairwise(errors):
        assert b < 1e-9 or 8 < a / b < 12.5, errors
    assert errors[-1] < 1e-4, errors


# everyday those that the tests below need as well; all are in space
@pytest.mark.parametrize("name", everyday(MACHINES, ("spatial four-bar", "two hinges")))
def test_weighted_rule_is_the_limit_of_stiff_bushings(name):
    here = machine(name)
    assert here.redundancy == MACHINES[name][0]
    k = random_stiffness(here.model)
    ours = here.wrenches(da.reactions.Weighted(k))
    converges_at_first_order(ours, lambda s: bushing_wrenches(here, k, s), float(here.system.size))
    # and stiffness matters: equal stiffness picks other values
    assert gap(ours, here.wrenches(da.reactions.Weighted()), float(here.system.size)) > 1e-3


def cantilever(l, EA, EIy, EIz, GJ, outward, up):
    """Stiffness (6 × 6, body axes) of the free end of a Bernoulli beam: the textbook flexibility inverted."""
    f = np.zeros((6, 6))
    f[0, 0], f[3, 3] = l / EA, l / GJ
    f[1, 1], f[1, 5], f[5, 1], f[5, 5] = l**3 / (3 * EIz), l**2 / (2 * EIz), l**2 / (2 * EIz), l / EIz
    f[2, 2], f[2, 4], f[4, 2], f[4, 4] = l**3 / (3 * EIy), -(l**2) / (2 * EIy), -(l**2) / (2 * EIy), l / EIy
    z = np.asarray(up) - (np.asarray(up) @ outward) * outward
    z /= np.linalg.norm(z)
    T = np.kron(np.eye(2), np.column_stack([outward, np.cross(z, outward), z]))
    return T @ np.linalg.inv(f) @ T.T


def test_weighted_rule_with_flexible_bodies():
    """The spatial four-bar (p = 3), elastic joints, coupler and rocker as beams: against bushings and beam ends."""
    here = machine("spatial four-bar")
    k = random_stiffness(here.model)
    sections = {
        "coupler": (("B", "C"), {"EA": 2e7, "GJ": 3e5, "EIy": 1e5, "EIz": 4e5, "up": (1.0, 0.2, 0.0)}),
        "rocker": (("C", "D"), {"EA": 1e7, "GJ": 1e5, "EIy": 2e5, "EIz": 2e5, "up": (0.0, 1.0, 0.0)}),
    }
    bodies = {name: da.reactions.Beam(joints, **numbers) for name, (joints, numbers) in sections.items()}
    beams = []
    for name, (joints, numbers) in sections.items():
        markers = [next(m for m in here.model.constraints[j].markers if m.body.name == name) for j in joints]
        along = markers[1].position - markers[0].position
        l = np.linalg.norm(along) / 2
        outwards = (-along / (2 * l), along / (2 * l))
        order = [numbers[x] for x in ("EA", "EIy", "EIz", "GJ")]
        beams.append((name, joints, [cantilever(l, *order, out, numbers["up"]) for out in outwards]))
    ours = here.wrenches(da.reactions.Weighted(k, bodies))
    converges_at_first_order(ours, lambda s: bushing_wrenches(here, k, s, beams), float(here.system.size))
    assert gap(ours, here.wrenches(da.reactions.Weighted(k)), float(here.system.size)) > 1e-3  # the beams matter


def test_flexible_bodies_as_the_users_matrix():
    """A Beam given as its own matrix is the same beam; a Bar is a Beam that yields only along itself."""
    here = machine("spatial four-bar")
    beam = da.reactions.Beam(("B", "C"), EA=2e7, EI=1e5, GJ=3e5)
    points = [next(m for m in here.model.constraints[j].markers if m.body.name == "coupler").position for j in "BC"]
    own = da.reactions.Compliance(("B", "C"), np.asarray(beam.compliance(points, 3)))
    ell = float(here.system.size)
    k = random_stiffness(here.model)
    assert (
        gap(
            here.wrenches(da.reactions.Weighted(k, {"coupler": beam})),
            here.wrenches(da.reactions.Weighted(k, {"coupler": own})),
            ell,
        )
        < 1e-12
    )
    stiff = da.reactions.Beam(("B", "C"), EA=2e7, EI=1e25, GJ=1e25)
    bar = da.reactions.Bar(("B", "C"), EA=2e7)
    gap_ = gap(
        here.wrenches(da.reactions.Weighted(k, {"coupler": stiff})),
        here.wrenches(da.reactions.Weighted(k, {"coupler": bar})),
        ell,
    )
    assert gap_ < 1e-12


# ---- closed forms --------------------------------------------------------------------------------------------------


def test_three_parallel_bars_share_a_load_by_their_stiffness():
    """A plate on three vertical rods at x = −1, 0, 1 with a load in the middle: rigid plate, springs in parallel.

    Equal outer rods k, middle one κ: each outer carries W k/(2k + κ), the middle one W κ/(2k + κ) (textbook)."""
    model = da.Model("plate", gravity=(0, -9.81))
    plate = model.body("plate", mass=3.0, inertia=1.0, position=(0, 0))
    for name, x in (("left", -1.0), ("middle", 0.0), ("right", 1.0)):
        model.distance(name, model.ground, plate, at_i=(x, 2.0), at_j=(x, 0.0))
    here, W = Instant(model), 3.0 * 9.81
    for ratio in (0.1, 1.0, 7.0):
        found = here.wrenches(da.reactions.Weighted({"left": 2.0, "right": 2.0, "middle": 2.0 * ratio}))
        for name, share in (("left", 1), ("middle", ratio), ("right", 1)):
            assert np.linalg.norm(found[name][:2]) == pytest.approx(W * share / (2 + ratio), abs=1e-10 * W)
    # the rod as an elastic bar instead: EA/L is its stiffness; half of it lies on each side, both carry the same load
    with pytest.raises(da.errors.DalembertError, match="leaves the load between left, middle, right open"):
        here.wrenches(da.reactions.Weighted({"left": np.inf, "right": np.inf, "middle": np.inf}))


def legs(half, off, k, W):
    """Four springs under a rigid plate: N_i = k_i (α + β x_i + γ y_i), Σ N = W, Σ N x = W x₀, Σ N y = W y₀."""
    x = half[0] * np.array([1, -1, -1, 1])
    y = half[1] * np.array([1, 1, -1, -1])
    B = np.stack([np.ones(4), x, y])
    return k * (np.linalg.solve(B @ np.diag(k) @ B.T, W * np.array([1, *off])) @ B)


@pytest.mark.parametrize("k", [pytest.param((1.0, 1.0, 1.0, 1.0), marks=pytest.mark.thorough), (1.0, 2.0, 5.0, 0.5)])
def test_table_on_four_legs(k):
    """Equal legs: N_i = W (1/4 + x₀x_i/4a² + y₀y_i/4b²); unequal legs: the plate on four springs."""
    here = Instant(da.mechanism("table", speed=0.0))
    assert here.redundancy == 1
    half, off, W = (0.6, 0.4), (0.15, 0.05), 20.0 * 9.81
    exact = legs(half, off, np.array(k), W)
    if len(set(k)) == 1:
        closed = W / 4 * (1 + off[0] / half[0] * np.array([1, -1, -1, 1]) + off[1] / half[1] * np.array([1, 1, -1, -1]))
        assert np.allclose(exact, closed, rtol=1e-12)
    stiffness = {f"leg{i + 1}": {"Fz": x} for i, x in enumerate(k)}
    found = here.wrenches(da.reactions.Weighted(stiffness))
    assert [found[f"leg{i + 1}"][2] for i in range(4)] == pytest.approx(exact, abs=1e-10 * W)
    # the limit of penalties with the same factors is the same rule here: one row a leg
    lam = da.reactions.PenaltyLimit({f"leg{i + 1}": x for i, x in enumerate(k)}).multipliers(
        here.system, here.equations, here.r
    )
    assert np.asarray(lam) == pytest.approx(exact, abs=1e-10 * W)


def test_parallelogram_in_the_plane_is_as_stiff_as_its_middle_crank():
    """Three parallel cranks carry the coupler: along them the loads are those of three springs under a rigid beam.

    Coupler of 2 kg between x = 0 and 2, cranks with elastic length only (Bar): with the axial forces N_i on the
    coupler, Σ N and Σ N x are unique; compatibility of three bars k_i under a rigid beam gives the third equation."""
    here = Instant(da.mechanism("parallelogram"))
    EA = (1.0, 3.0, 2.0)
    bodies = {f"crank{i + 1}": da.reactions.Bar((f"foot{i + 1}", f"pin{i + 1}"), EA=x) for i, x in enumerate(EA)}
    found = here.wrenches(da.reactions.Weighted(bodies=bodies))
    any_other = here.wrenches(da.reactions.MinimumNorm())
    arm = np.array([0.5, -np.sqrt(3) / 2])  # along the cranks, at −60°

    def axial(wrenches):
        """Mean axial force of each crank: half of what its two ends carry (its own weight hangs in between)."""
        return np.array([
            0.5 * (wrenches[f"foot{i}"][:2] + wrenches[f"pin{i}"][:2]) @ arm for i in (1, 2, 3)
        ])  # fmt: skip

    N, other = axial(found), axial(any_other)
    assert abs(np.sum(N) - np.sum(other)) < 1e-9 and abs(N @ [0, 1, 2] - other @ [0, 1, 2]) < 1e-9  # unique sums
    # three points of a straight coupler: u₁ − 2 u₂ + u₃ = 0 with u = N/k
    assert abs(np.array([1, -2, 1]) @ (N / np.array(EA))) < 1e-9
    assert abs(np.array([1, -2, 1]) @ (other / np.array(EA))) > 1e-3


def test_penalty_limit_is_the_limit_of_a_penalty_method():
    """λ(s) from (C M⁻¹Cᵀ + (sα)⁻¹) λ = Γ − C M⁻¹h, with s → ∞: first order in 1/s."""
    here = machine("bennett")
    rng = np.random.default_rng(3)
    factors = {o.name: 10 ** rng.uniform(0, 2, len(o.rows)) for o in here.system.owners}
    rule = da.reactions.PenaltyLimit(factors).prepare(here.system, here.equations)
    ours = np.asarray(rule.multipliers(here.system, here.equations, here.r))
    alpha = np.concatenate([factors[o.name] for o in here.system.owners])
    D = here.C @ np.linalg.solve(here.M, here.C.T)
    right = np.asarray(here.equations.Gamma) - here.C @ np.linalg.solve(here.M, np.asarray(here.equations.h))
    errors = [np.max(np.abs(np.linalg.solve(D + np.diag(1 / (s * alpha)), right) - ours)) for s in (1e3, 1e4, 1e5)]
    size = np.max(np.abs(ours))
    assert 8 < errors[0] / errors[1] < 12.5 and 8 < errors[1] / errors[2] < 12.5 and errors[2] < 1e-3 * size


def test_default_weighted_rule_is_equal_stiffness_and_says_so():
    """Without numbers: the same as one stiffness for all joints, k for forces and k ℓ² for torques."""
    here = machine("two hinges")
    ell = float(here.system.size)
    equal = dict.fromkeys(here.model.constraints, (5.0, 5.0, 5.0, 5.0 * ell**2, 5.0 * ell**2, 5.0 * ell**2))
    assert gap(here.wrenches(da.reactions.Weighted()), here.wrenches(da.reactions.Weighted(equal)), ell) < 1e-12
    assert da.reactions.Weighted().describe(here.system) == (
        f"weighted minimum norm, all joints equally stiff, characteristic length {ell:.6g}"
    )
    assert (
        gap(here.wrenches(da.reactions.Weighted()), here.wrenches(da.reactions.MinimumNorm()), ell) < 1e-12
    )  # the same metric
    twice = da.reactions.Weighted(length=2 * ell)
    assert gap(here.wrenches(twice), here.wrenches(da.reactions.Weighted()), ell) > 1e-2
    assert f"{2 * ell:.6g}" in twice.describe(here.system)


# ---- units ---------------------------------------------------------------------------------------------------------


def rules(model, length: float, mass: float):
    """Every rule, its numbers in units of `length` to the metre and `mass` to the kilogram (N/m is then `mass`)."""
    k = random_stiffness(model)
    unit = mass * np.array([1, 1, 1, length**2, length**2, length**2])
    return {
        "minimum norm": da.reactions.MinimumNorm(),
        "weighted by default": da.reactions.Weighted(),
        "weighted": da.reactions.Weighted({name: x * unit for name, x in k.items()}),
        "penalties": da.reactions.PenaltyLimit(),
        "eliminated": da.reactions.RowElimination(),
        "beam": da.reactions.Weighted({"*": 1e6 * mass}, {"coupler": da.reactions.Beam(("B", "C"),
                            EA=2e7 * mass * length, EI=1e5 * mass * length**3, GJ=3e5 * mass * length**3)}),
    }  # fmt: skip


@pytest.mark.parametrize("rule", ["minimum norm", "weighted by default", "weighted", "penalties", "eliminated", "beam"])
def test_metres_or_millimetres(rule):
    """Forces and torques in newtons and newton metres, to 1e-9 of the largest, whatever the unit of length and mass."""
    out = []
    for units in (None, MILLI):
        here = in_units(units)
        L, m = (1.0, 1.0) if units is None else (units.length, units.mass)
        found = here.wrenches(rules(here.model, L, m)[rule])
        out.append({j: w / (m * L * np.array([1, 1, 1, L, L, L])) for j, w in found.items()})
    assert gap(*out, ell=3.0) < 1e-9


def test_plain_minimum_norm_depends_on_the_unit():
    """The least norm of raw multipliers changes with the unit of length, on the same machine, by far more than 1e-9."""
    out = []
    for units in (None, MILLI):
        here = in_units(units)
        L, m = (1.0, 1.0) if units is None else (units.length, units.mass)
        lam = np.linalg.lstsq(here.C.T, here.r, rcond=1e-12)[0]
        found = joint_wrenches(here.system, here.equations, lam)
        parts = np.concatenate([found.joint_force, found.joint_torque], axis=1)
        scale = m * L * np.array([1, 1, 1, L, L, L])
        out.append({j.name: parts[k] / scale for k, j in enumerate(here.system.joints)})
    assert gap(*out, ell=3.0) > 1e-2


# ---- what no rule may change ---------------------------------------------------------------------------------------

T_END = {"spatial-slider-crank": 0.6, "bricard": 0.6, "omni-robot": 2.0}
CHOSEN = {
    "weighted": da.reactions.Weighted({"*": {"F": 1.0, "M": 20.0}}),
    "penalties": da.reactions.PenaltyLimit(),
    "eliminated": da.reactions.RowElimination(),
}
RUN = {"integrator": "tsit5", "rtol": 1e-13, "samples": 7}


@functools.cache
def moving(name: str):
    model = da.mechanism(name)
    if name == "spatial-slider-crank":
        model.gravity = np.array([0.0, 4.0, -9.0])  # across its plane too, so that what is open is loaded
    return da.build(model)


@functools.cache
def motion(name: str, rule: str | None):
    return da.simulate(moving(name), T_END[name], rule=None if rule is None else CHOSEN[rule], **RUN)


def reaction(solution, joint):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.RedundancyWarning)
        return solution.reactions(joint, frame="joint")


# everyday each machine and each rule once
DAILY = (("bricard", "penalties"), ("omni-robot", "eliminated"))
PAIRS = [
    (name, rule) if (name, rule) in DAILY else pytest.param(name, rule, marks=pytest.mark.thorough)
    for name in T_END
    for rule in CHOSEN
]


@pytest.mark.parametrize(("name", "rule"), PAIRS)
def test_motion_and_unique_reactions_do_not_depend_on_the_rule(name, rule):
    """Holonomic (Bricard), rheonomic (driven slider-crank) and nonholonomic rheonomic (omni-robot), all redundant."""
    plain, ruled = motion(name, None), motion(name, rule)
    # of the machine's size: rounding, or for eliminated rows two exact integrations at rtol 1e-13
    assert np.max(np.abs(np.asarray(plain.q) - np.asarray(ruled.q))) < 1e-9
    differ = 0.0
    for o in plain.system.owners:
        a, b = reaction(plain, o.name), reaction(ruled, o.name)
        for what in ("force", "torque"):
            values = [np.asarray(x[what].values).reshape(len(plain.t), -1) for x in (a, b)]
            unique = np.atleast_1d(a[f"unique_{what}"].all("time").values)
            size = max(np.max(np.abs(plain.dataset["reaction_force"].values)), 1.0)
            change = np.max(np.abs(values[0] - values[1]), axis=0) / size
            assert np.all(change[unique] < 1e-9), (o.name, what)
            differ = max(differ, np.max(change[~unique], initial=0.0))
    # the omni-robot's four equal wheels are weighted alike by all but the elimination
    assert differ > 1e-3 or (name == "omni-robot" and rule != "eliminated")


def test_unique_refuses_what_is_not_unique():
    solution = motion("spatial-slider-crank", None)
    found = solution.reactions("motor", rule=da.reactions.RequireUnique())
    assert found.attrs["rule"] == "unique" and bool(found["unique_torque"].all())
    with pytest.raises(da.errors.DalembertError, match="does not determine Fz, Mx, My of 'main'"):
        solution.reactions("main", frame="joint", rule=da.reactions.RequireUnique())


def test_every_reaction_carries_unique_and_rule():
    solution = motion("spatial-slider-crank", "weighted")
    with pytest.warns(da.errors.RedundancyWarning, match="3 redundant"):
        main = solution.reactions("main", frame="joint")
    everywhere = np.ones((len(solution.t), 1), bool)  # at each saved time
    assert (main["unique_force"].values == everywhere * [True, True, False]).all()
    # nothing about its own axis: zero is unique
    assert (main["unique_torque"].values == everywhere * [False, False, True]).all()
    assert main.attrs["rule"].startswith("weighted minimum norm, stiffness of all joints")
    data = solution.dataset
    assert data["unique_force_in_joint"].dims == ("time", "joint", "axis")
    assert data.attrs["reaction_rule"] == main.attrs["rule"]
    # of the 21 multipliers those of Fx, Fy of three hinges, Fy and Mx of the guide, and the motor's are unique
    assert (data["unique_multiplier"].sum("row") == 9).all()
    assert (
        solution.with_rule("weighted").rule.describe(solution.machine).startswith("weighted minimum norm, all joints")
    )
    with pytest.raises(
        da.errors.DalembertError, match="The rule 'heavy' is unknown; use one of minimum_norm, weighted"
    ):
        solution.reactions("main", rule="heavy")
    with pytest.raises(da.errors.DalembertError, match="no joint 'mian'; the joints are .* Did you mean 'main'"):
        solution.reactions("mian")
    with pytest.raises(da.errors.DalembertError, match="12 of the 21 multipliers are not unique"):
        solution.with_rule(da.reactions.RequireUnique()).multipliers  # noqa: B018


# ---- elimination ---------------------------------------------------------------------------------------------------


def test_eliminated_rows_are_named_and_checked():
    system = da.build(da.mechanism("door-two-balls"))
    e = da.assemble(system, 0.0, system.q0, system.v0)
    rule = da.reactions.RowElimination().prepare(system, e)
    assert rule.describe(system) == "rows eliminated: bottom[2]"  # its Fz
    assert da.reactions.RowElimination(("top[2]",)).prepare(system, e).rows == (2,)
    with pytest.raises(da.errors.DalembertError, match=r"Dropping top\[0\] would let the machine move in a new way"):
        da.reactions.RowElimination((0,)).prepare(system, e)
    with pytest.raises(da.errors.DalembertError, match="There are no rows 'tip'"):
        da.reactions.RowElimination(("tip",)).prepare(system, e)
    hinges = da.build(da.mechanism("door-two-hinges"))
    e = da.assemble(hinges, 0.0, hinges.q0, hinges.v0)
    with pytest.raises(da.errors.DalembertError, match=r"leaves 4 redundant row\(s\); 5 must go, for example"):
        da.reactions.RowElimination(("top[2]",)).prepare(hinges, e)


def test_an_eliminated_row_that_drifts_ends_the_run():
    """A four-bar in line has one row too many only there: dropped, it opens as soon as the machine moves."""
    model = da.Model("in line", gravity=(0, -9.81))
    rods = []
    for k, (a, b) in enumerate([((0, 0), (1, 0)), ((1, 0), (3, 0)), ((3, 0), (2, 0))]):
        middle = (np.array(a) + np.array(b)) / 2
        rods.append(model.body(f"rod{k}", mass=1.0, inertia=0.1, position=middle))
    around = [model.ground, *rods, model.ground]
    for k, at in enumerate([(0, 0), (1, 0), (3, 0), (2, 0)]):
        model.revolute(f"J{k}", around[k], around[k + 1], at=at)
    with pytest.raises(da.errors.SimulationError, match="eliminated as redundant no longer holds. 'J") as caught:
        da.simulate(model, 1.0, rule=da.reactions.RowElimination(), integrator="tsit5", rtol=1e-8)
    assert caught.value.solution.status is da.simulation.Status.eliminated_drifts
    # it ends with the step that opens it, between saved times (every 0.005 s) or not
    assert float(caught.value.solution.t_end) < 0.1


RULED = eqx.filter_jit(lambda system, rule: da.simulate(system, 0.2, samples=3, rule=rule, integrator="tsit5"))


def test_rows_to_drop_cannot_be_found_under_jit():
    with pytest.raises(da.errors.DalembertError, match=r"looks at numbers.*name the rows"):
        RULED(da.build(da.mechanism("door-two-balls")), da.reactions.RowElimination())


@pytest.mark.thorough
def test_rules_under_jit():
    """Rows that are named are dropped in compiled code too, and watched."""
    system = da.build(da.mechanism("door-two-balls"))
    found = RULED(system, da.reactions.RowElimination(("bottom[2]",)))
    assert found.status is da.simulation.Status.done and found.system.m == system.m
    with pytest.warns(da.errors.RedundancyWarning):
        force = [found.reactions(joint)["force"].sel(axis="z").values for joint in ("top", "bottom")]
    # the weight, to the rounding of a solution with forces of that size
    assert np.max(np.abs(force[0] - 98.1)) < 1e-9 and np.max(np.abs(force[1])) == 0.0


# ---- mistakes ----------------------------------------------------------------------------------------------------


def test_wrong_numbers_get_a_sentence():
    here = machine("two hinges")
    for rule, sentence in (
        (da.reactions.Weighted({"nowhere": 1.0}), "There is no joint 'nowhere'"),
        (da.reactions.Weighted({"*": {"Fq": 1.0}}), "Fq is unknown; use Fx, Fy"),
        (da.reactions.Weighted({"*": np.ones(4)}), "must be a number, a dict, 6 numbers or a 6 x 6 matrix"),
        (
            da.reactions.Weighted(bodies={"leaf": da.reactions.Bar(("nowhere", "revolute0"), EA=1.0)}),
            "There is no joint 'nowhere'",
        ),
        (
            da.reactions.Weighted(bodies={"door": da.reactions.Bar(("revolute1", "revolute0"), EA=1.0)}),
            "There is no body 'door'",
        ),
        (
            da.reactions.Weighted(bodies={"leaf": da.reactions.Beam(("revolute1", "revolute0"), EA=1.0)}),
            "A Beam needs EA and EI",
        ),
        (da.reactions.PenaltyLimit({"revolute0": 1.0}), "there are no factors for revolute1"),
        (da.reactions.PenaltyLimit({"*": -1.0}), r"factor of '\*' must be greater than zero, not -1"),
        (da.reactions.Weighted({"revolute0": -1.0, "*": 1.0}), "of 'revolute0' must be greater than zero, not -1"),
        (da.reactions.Weighted({"*": {"Fz": 0.0}}), r"of '\*', Fz, must be greater than zero, not 0"),
        (da.reactions.Weighted(np.nan), "Stiffness must be greater than zero, not nan"),
        (da.reactions.Weighted({"*": "stiff"}), "must be a number, a dict, numbers or a matrix, not 'stiff'"),
        (da.reactions.Weighted({"*": -np.eye(6)}), "must be a positive definite matrix"),
        (da.reactions.Weighted({"*": 1.0}, length=-1.0), "length must be greater than zero and finite, not -1"),
        (
            da.reactions.Weighted(bodies={"leaf": da.reactions.Bar(("revolute1", "revolute0"), EA=-1.0)}),
            "The elasticity of 'leaf' must be",
        ),
    ):
        with pytest.raises(da.errors.DalembertError, match=sentence):
            rule.prepare(here.system, here.equations)


@pytest.mark.filterwarnings("ignore::dalembert.errors.RedundancyWarning")
def test_rules_of_a_machine_with_contacts():
    """A door beside a ball that lands: the rule is that of the door, whether the ball is in the air or down."""
    model = da.mechanism("door-two-balls")
    ball = model.body("ball", mass=1.0, inertia=(0.1,) * 3, position=(0, 0, 0.3))
    model.contact("floor", model.ground, ball, point=(0, 0, 0), normal=(0, 0, 1), radius=0.1)
    run = da.simulate(model, 0.5, samples=3)
    assert [p.state for p in run.phases.of("floor")] == ["open", "closed"]
    for rule in (da.reactions.Weighted({"top": 3.0, "*": 1.0}), da.reactions.PenaltyLimit({"top": 3.0, "*": 1.0})):
        force = run.reactions("top", rule=rule)["force"].sel(axis="z")
        np.testing.assert_allclose(force, 0.75 * 9.81 * model.bodies["leaf"].mass, rtol=1e-9)
        floor = run.reactions("floor", rule=rule)["force"].sel(axis="z")
        np.testing.assert_allclose(floor, [0, 9.81, 9.81], rtol=1e-9)
