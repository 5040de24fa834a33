"""Which reactions are unique: the robot of Wojtyra and Fraczek, the doors, brute force on all machines and on 200 more.

Brute force: take multipliers without effect (a null vector of Cᵀ), add them to λ, and see which reactions change.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import scipy.linalg
from _helpers_thorough import everyday

import dalembert as da
from dalembert.analysis import b_matrices, by_qr, by_ranks, by_singular_values
from dalembert.analysis._solvability import Solver, solve_solvability
from dalembert.linalg import Dependence
from dalembert.mechanisms import find, mechanisms
from dalembert.reactions import joint_rows

# null vectors are exact to rounding over the least singular value that is not zero (0.02 and more in these models)
ZERO = 1e-9
# sizes at which each machine is still quick
SMALL = {"chain": {"N": 3}, "chain-in-space": {"N": 2}}


@functools.cache
def start(name: str, **numbers):
    """A machine, its equations at its start, and what is known of its joints there."""
    system = da.build(da.mechanism(name, **(SMALL.get(name, {}) | numbers)))
    state = da.stabilise.consistent_state(system)
    equations = da.assemble(system, 0.0, *state)
    return system, equations, joint_rows(system, equations)


@functools.cache
def checked(name: str):
    return da.check(start(name)[0])


def matrices(equations):
    return np.asarray(equations.C), np.asarray(equations.mass.blocks)


# ---- the mobile robot of Wojtyra and Fraczek (2013), section 4 -----------------------------------------------------

# eq. 38, with B_X of n × p = 21 × 2 numbers (the paper prints blocks that are one too wide); all others are zero
PRINTED = {"B": np.zeros((21, 2)), "C": np.zeros((21, 2))} | {f"W{k}": np.zeros((21, 2)) for k in (1, 2, 3, 4)}
PRINTED["B"][[1, 2, 4], 0] = 0.408, 0.082, -0.408
PRINTED["C"][[1, 2, 7], 0] = 0.408, -0.082, -0.408
PRINTED["W1"][4, 0] = PRINTED["W2"][7, 0] = 0.408
PRINTED["W3"][1] = -0.408, 0.707
PRINTED["W4"][1] = -0.408, -0.707


def test_robot_ranks():
    """Eqs. 35 and 36: rank Φ_q = 17, rank Ψ = 4, rank C = 20, p = 2."""
    found = checked("mobile-robot")
    assert (found.rank_holonomic, found.rank_nonholonomic, found.rank) == (17, 4, 20)
    assert (found.n, found.m, found.redundancy, found.mobility, found.gruebler) == (21, 22, 2, 1, -1)
    assert not found.singular and found.consistent


def test_robot_b_matrices_are_those_printed():
    """Columns of B_X are printed for one pair of null vectors; any other pair turns them: compare B_X B_Yᵀ."""
    _, equations, joints = start("mobile-robot")
    C, _ = matrices(equations)
    found = b_matrices(C, {j.name: j.rows for j in joints})
    for x in found:
        for y in found:
            printed = PRINTED.get(x, np.zeros((21, 2))) @ PRINTED.get(y, np.zeros((21, 2))).T
            # three digits are printed, of numbers up to 0.707
            assert np.max(np.abs(found[x] @ found[y].T - printed)) < 1e-3, (x, y)
    assert found["A"].shape == (21, 2)


def test_robot_unique_and_not_unique_as_published():
    found = checked("mobile-robot")
    unique = {j.name for j in found.solvability.joints if j.unique}
    assert unique == {"A", "D", "E", "F", "G", "H", "drive", "W5"}
    assert {j.name for j in found.solvability.joints} - unique == {"B", "C", "W1", "W2", "W3", "W4"}
    assert found.solvability.methods == ("ranks", "singular values", "qr") and found.solvability.agree
    # finer than the paper: along the robot B and C are unique, across it only sums are
    assert found.unique("B", "Fx") and not found.unique("B", "Fy")


RUN = {"integrator": "dopri8", "rtol": 1e-11, "samples": 41}
T_END = 9.0  # the robot steers from 2 s to 8 s
# rows 6 and 21 and so on of the paper, which counts from 1
VARIANTS = {"6, 21": (5, 20), "18, 21": (17, 20), "19, 21": (18, 20)}


@functools.cache
def robot_motion(variant: str | None):
    system = start("mobile-robot")[0]
    rule = None if variant is None else da.reactions.RowElimination(VARIANTS[variant])
    return da.simulate(system, T_END, rule=rule, **RUN)


@pytest.mark.parametrize("variant", everyday(VARIANTS, ()))
def test_robot_eliminations_move_alike_and_share_only_what_is_unique(variant):
    """Section 4.4: the same motion, the same reactions of A, D, E, F, G, H, driver, W5; different ones elsewhere."""
    one, two = robot_motion(None), robot_motion(variant)
    assert two.status is da.simulation.Status.done
    # of the robot's size (about 1 m): two exact treatments at rtol 1e-11
    assert np.max(np.abs(np.asarray(one.q) - np.asarray(two.q))) < 1e-9
    dropped = VARIANTS[variant]
    size = largest = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.RedundancyWarning)
        assert np.max(np.abs(two.multipliers[:, dropped])) == 0.0
        for joint in [o.name for o in one.system.owners]:
            a, b = (x.reactions(joint, frame="joint") for x in (one, two))
            gap = float(np.max(np.abs(a["force"] - b["force"])))
            size = max(size, float(np.max(np.abs(a["force"]))))
            if joint in ("A", "D", "E", "F", "G", "H", "drive", "W5"):
                assert a.attrs["rule"] == b.attrs["rule"] == "unique" and bool(a["unique_force"].all())
                assert gap < 1e-9, joint  # newtons; forces reach some tenths of one
            elif joint in ("W4", *(system_owner(dropped[0]),)):
                assert b.attrs["rule"].startswith("rows eliminated")
                largest = max(largest, gap)
    assert largest > 1e-2 * size  # the others do differ, by a visible part of the forces


def system_owner(row: int) -> str:
    return start("mobile-robot")[0].owner_of(row).name


def test_robot_all_along_its_path():
    """Eq. 35 "for any other nonsingular configuration": p = 2 and the same joints at 25 instants of the steering."""
    found = da.check(robot_motion(None))
    assert found.motion is not None
    assert found.motion.ranks == (20,) and found.motion.changing == () and found.motion.instants == 25
    assert found.motion.singular_positions == ()


# ---- the two doors -------------------------------------------------------------------------------------------------


def test_door_on_two_balls():
    """6 equations, rank 5; unique: Fx = ∓32.7 N, Fy, and Fz1 + Fz2 = 98.1 N; not unique: Fz1, Fz2."""
    found = da.check(da.mechanism("door-two-balls", swing=0.0))
    assert (found.m, found.rank, found.redundancy) == (6, 5, 1)
    for joint, Fx in (("top", -32.7), ("bottom", 32.7)):
        entry = found.solvability.joint(joint)
        assert entry.components == {"Fx": True, "Fy": True, "Fz": False}
        assert entry.values["Fx"] == pytest.approx(Fx, abs=1e-9) and entry.values["Fy"] == 0.0
    (total,) = found.solvability.sums
    assert [(t.joint, t.name) for t in total.terms] == [("top", "Fz"), ("bottom", "Fz")]
    assert [t.coefficient for t in total.terms] == pytest.approx([1, 1], abs=1e-12)
    assert total.value == pytest.approx(98.1, abs=1e-9)  # rounding
    (group,) = found.solvability.groups
    assert str(group) == "Fz of top with Fz of bottom"
    assert [(r.joint, r.directions) for r in found.solvability.releases] == [("bottom", ("Fz",))]


def test_door_on_two_hinges():
    """10 equations, rank 5; no single component is unique; force and moment of both together are."""
    found = da.check(da.mechanism("door-two-hinges", swing=0.0))
    assert (found.m, found.rank, found.redundancy) == (10, 5, 5)
    for joint in ("top", "bottom"):
        assert found.solvability.joint(joint).components == dict.fromkeys(("Fx", "Fy", "Fz", "Mx", "My"), False)
    sums = {str(s): s.value for s in found.solvability.sums}
    assert sums["Fz(top) + Fz(bottom)"] == pytest.approx(98.1, abs=1e-9)
    assert sums["Fx(top) + Fx(bottom)"] == 0.0
    # moment about the bottom hinge: 1.5 Fx + My + My = −49.05 N m, here over 1.5 m
    assert sums["Fx(top) + 0.6667·My(top) + 0.6667·My(bottom)"] == pytest.approx(-32.7, abs=1e-9)
    pairs = {str(g) for g in found.solvability.groups}
    assert {"Fz of top with Fz of bottom", "Mx of top with Mx of bottom", "My of top with My of bottom"} <= pairs
    assert sum(len(r.directions) for r in found.solvability.releases) == 5


# ---- brute force ---------------------------------------------------------------------------------------------------


def brute_force(C, M_blocks, joints):
    """Which joints' reactions C_Xᵀλ_X and which components change when λ changes along the null space of Cᵀ.

    The null space by SciPy, of rows brought to unit length with a plain scaling that knows nothing of masses.
    """
    scale = np.linalg.norm(C / np.max(np.abs(C), axis=0, initial=1e-300, where=True), axis=1)
    scale = np.where(scale > 0, scale, 1.0)
    null = scipy.linalg.null_space((C / scale[:, None]).T, rcond=1e-9) / scale[:, None]
    y = np.random.default_rng(1).standard_normal((null.shape[1], 3))
    change = null @ y  # three random sets of multipliers without effect
    assert np.max(np.abs(C.T @ change), initial=0.0) < 1e-8 * max(np.max(np.abs(change), initial=0.0), 1e-300) * max(
        np.max(np.abs(C)), 1
    )
    reactions, components = {}, {}
    for j in joints:
        rows = list(j.rows)
        own = C[rows].T @ change[rows]
        reactions[j.name] = np.max(np.abs(own), initial=0.0) <= 1e-7 * np.max(np.abs(C[rows]), initial=0.0) * np.max(
            np.abs(change), initial=0.0
        )
        for label, functional, there in zip(j.labels, j.functionals, j.transmitted, strict=True):
            if there:
                moved = np.max(np.abs(functional @ change[rows]), initial=0.0)
                size = np.max(np.abs(functional) @ np.max(np.abs(change), axis=1, initial=0.0)[rows], initial=0.0)
                all_ = np.max(np.abs(functional)) * np.max(np.abs(change), initial=0.0)
                components[j.name, label] = moved <= 1e-7 * max(size, all_)
    return null.shape[1], reactions, components


def agrees_with_brute_force(C, M_blocks, joints):
    """All three methods, the components, the sums, the groups and the releases; returns p."""
    dependence = Dependence(C, M_blocks)
    groups = {j.name: j.rows for j in joints}
    p, reactions, components = brute_force(C, M_blocks, joints)
    assert dependence.redundancy == p
    for method in (by_ranks, by_singular_values, by_qr):
        assert method(dependence.rows, groups) == reactions, method.__name__
    found = solve_solvability(joints, dependence, None)
    assert found.agree and {j.name: j.unique for j in found.joints} == reactions
    assert {(j.name, c): unique for j in found.joints for c, unique in j.components.items()} == components
    sums_are_unique_and_complete(found, joints, dependence, components)
    groups_are_minimal(found, joints, dependence, p)
    releases_free_nothing(found, joints, dependence, p)
    return p


def sums_are_unique_and_complete(found, joints, dependence, components):
    """No multiplier without effect changes a sum; there are as many as the open components leave."""
    named = {j.name: j for j in joints}
    null = dependence.null / dependence.sizes[:, None]

    def change(joint, label):
        j = named[joint]
        return j.functionals[j.labels.index(label)] @ null[list(j.rows)]

    for s in found.sums:
        parts = [t.coefficient * change(t.joint, t.name) for t in s.terms]
        assert np.max(np.abs(sum(parts))) < 1e-6 * max(np.max(np.abs(x)) for x in parts)
        assert len(s.terms) > 1
    open_ = [key for key, unique in components.items() if not unique]
    if open_:
        A = np.array([change(*key) for key in open_])
        A /= np.linalg.norm(A, axis=1, keepdims=True)
        assert len(found.sums) == len(open_) - np.linalg.matrix_rank(A, tol=1e-7)


def direction_rows(joints, dependence):
    """Each direction's row of C, in the mass metric and of unit size, by (joint, name)."""
    out = []
    for j in joints:
        for d in j.directions:
            row = d.rows @ (dependence.rows[list(j.rows)] * dependence.sizes[list(j.rows), None])
            out.append(((d.joint, d.name), row / max(np.linalg.norm(row), 1e-300)))
    return out


def groups_are_minimal(found, joints, dependence, p):
    """p groups; in each the rows are dependent, and any of them can be left out to make the rest independent."""
    rows = dict(direction_rows(joints, dependence))
    assert len(found.groups) == p
    for g in found.groups:
        members = np.array([rows[t.joint, t.name] for t in g.terms])
        values = np.linalg.svd(members, compute_uv=False)
        assert (values[-1] if len(members) <= members.shape[1] else 0.0) < 1e-7
        assert len(members) == 1 or (values[-2] > 1e-7)  # nullity one: with all coefficients non-zero, minimal
        assert min(abs(t.coefficient) for t in g.terms) > 1e-7


def releases_free_nothing(found, joints, dependence, p):
    """Without the released directions the rank is the same and the rows are independent."""
    freed = {(r.joint, d) for r in found.releases for d in r.directions}
    kept = [row for key, row in direction_rows(joints, dependence) if key not in freed]
    assert len(freed) == p
    if kept:
        values = np.linalg.svd(np.array(kept), compute_uv=False)
        assert len(kept) == dependence.rank and values[-1] > 1e-6


# published or counted by hand: N cranks have 3N + 2 (plane) and 6N + 5 (space) independent rows
REDUNDANT = {
    "table": (1, 3), "parallelogram": (1, 1), "parallelogram-in-space": (7, 1), "bennett": (3, 1),
    "spatial-slider-crank": (3, 0), "double-cardan": (1, 1), "scott-russell": (1, 1), "omni-robot": (1, 0),
    "bricard": (1, 1), "spatial-four-bar": (3, 1), "door-two-balls": (1, 1), "door-two-hinges": (5, 1),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", everyday([*mechanisms(), "parallelogram 4", "parallelogram 5"], (*REDUNDANT, "mobile-robot", "four-bar"))
)
def test_methods_and_brute_force_on_every_mechanism(name):
    word, _, cranks = name.partition(" ")
    system, equations, joints = start(word, **({"cranks": int(cranks)} if cranks else {}))
    p = agrees_with_brute_force(*matrices(equations), joints)
    assert p == da.check(system, reactions=False).redundancy


@pytest.mark.parametrize("name", REDUNDANT)
def test_redundancy_and_mobility_of_the_classics(name):
    found = da.check(start(name)[0], reactions=False)
    assert (found.redundancy, found.mobility) == REDUNDANT[name]
    assert found.m - found.n == found.redundancy - found.mobility == -found.gruebler and not found.singular


@pytest.mark.parametrize(("cranks", "name", "p"), [(4, "parallelogram", 2), (5, "parallelogram", 3)])
def test_more_cranks(cranks, name, p):
    found = da.check(da.mechanism(name, cranks=cranks), reactions=False)
    assert (found.redundancy, found.mobility) == (p, 1)


# ---- 200 random over-constrained models ----------------------------------------------------------------------------


def random_rotation(rng):
    Q, R = np.linalg.qr(rng.standard_normal((3, 3)))
    Q = Q * np.sign(np.diagonal(R))
    return Q if np.linalg.det(Q) > 0 else Q[:, [1, 0, 2]]


def body(model, name, rng):
    if model.space == "plane":
        return model.body(
            name, mass=rng.uniform(0.5, 3), inertia=rng.uniform(0.1, 1), position=rng.uniform(-1, 1, 2),
            angle=rng.uniform(-3, 3),
        )  # fmt: skip
    half = rng.uniform(0.3, 1, 3)
    inertia = rng.uniform(0.5, 3) * np.array([half[1] + half[2], half[0] + half[2], half[0] + half[1]])
    return model.body(
        name, mass=rng.uniform(0.5, 3), inertia=inertia, position=rng.uniform(-1, 1, 3), rotation=random_rotation(rng)
    )


def unit(rng, d=3):
    a = rng.standard_normal(d)
    return a / np.linalg.norm(a)


def hinges(rng):
    """A body on two hinges and a ball: on one line (5 + 5 + 3 rows of rank 5) or astray (rank 6)."""
    model = da.Model("random", space="space")
    b = body(model, "b", rng)
    point, axis = rng.uniform(-1, 1, 3), unit(rng)
    line = rng.random() < 0.7
    for k, kind in enumerate(("revolute", "revolute", "spherical")):
        at = point + rng.uniform(-2, 2) * axis if line else rng.uniform(-1, 1, 3)
        more = {} if kind == "spherical" else {"axis": axis if line or rng.random() < 0.5 else unit(rng)}
        getattr(model, kind)(f"J{k}", model.ground, b, at=at, **more)
    return model


def two_bodies(rng):
    """Two bodies joined to each other by a sleeve and a ball on its axis, and each to the ground by a ball and rods."""
    model = da.Model("random", space="space")
    a, b = body(model, "a", rng), body(model, "b", rng)
    point, axis = rng.uniform(-1, 1, 3), unit(rng)
    model.cylindrical("sleeve", a, b, at=point, axis=axis)
    at = point + axis if rng.random() < 0.5 else rng.uniform(-1, 1, 3)
    model.spherical("ball", a, b, at=at)
    model.spherical("foot", model.ground, a, at=rng.uniform(-1, 1, 3))
    for k in range(3):
        model.distance(f"rod{k}", model.ground, b, at_i=rng.uniform(-2, 2, 3), at_j=rng.uniform(-1, 1, 3))
    return model


def planar_loop(rng):
    """A loop of spatial revolutes with parallel axes (3 redundant) or one of them askew, and a driver."""
    model = da.Model("random", space="space")
    R = random_rotation(rng)
    corners = [R @ np.append(rng.uniform(-1, 1, 2), 0.0) for _ in range(5)]
    links = [model.ground, *(body(model, f"b{k}", rng) for k in range(4)), model.ground]
    askew = rng.integers(0, 8)  # 5 and above: none
    for k in range(5):
        model.revolute(f"J{k}", links[k], links[k + 1], at=corners[k], axis=unit(rng) if k == askew else R[:, 2])
    model.driver("motor", "J0", 0.0)
    return model


def cranks(rng):
    """Three cranks and a coupler in the plane: parallel (1 redundant) or of any shape (a structure)."""
    model = da.Model("random")
    coupler = body(model, "coupler", rng)
    arm, parallel = rng.uniform(-1, 1, 2), rng.random() < 0.6
    for k in range(3):
        crank = body(model, f"crank{k}", rng)
        foot = rng.uniform(-2, 2, 2)
        tip = foot + (arm if parallel else rng.uniform(-1, 1, 2))
        model.revolute(f"foot{k}", model.ground, crank, at=foot)
        model.revolute(f"tip{k}", crank, coupler, at=tip)
    return model


def edges(rng):
    """A wheeled pair in the plane: edges on one axle (redundant) or anywhere, a pin and a slider between two bodies."""
    model = da.Model("random")
    a, b = body(model, "a", rng), body(model, "b", rng)
    pin, along = rng.uniform(-1, 1, 2), unit(rng, 2)
    model.revolute("pin", a, b, at=pin)
    model.prismatic("slot", a, b, at=rng.uniform(-1, 1, 2), axis=unit(rng, 2))
    axle = rng.uniform(-1, 1, 2)
    across = np.array([-along[1], along[0]])
    for k in range(4):
        shared = rng.random() < 0.6
        at = axle + rng.uniform(-1, 1) * across if shared else rng.uniform(-1, 1, 2)
        model.knife_edge(f"W{k}", model.ground, a if k < 2 else b, at=at, direction=along if shared else unit(rng, 2))
    return model


def welded(rng):
    """Two bodies welded to each other twice over, on a universal joint and a prismatic one."""
    model = da.Model("random", space="space")
    a, b = body(model, "a", rng), body(model, "b", rng)
    model.weld("first", a, b, at=rng.uniform(-1, 1, 3))
    x = unit(rng)
    y = np.cross(x, unit(rng))
    model.universal("hooke", model.ground, a, at=rng.uniform(-1, 1, 3), axis_i=x, axis_j=y)
    model.prismatic("guide", model.ground, b, at=rng.uniform(-1, 1, 3), axis=unit(rng))
    model.revolute("second", a, b, at=rng.uniform(-1, 1, 3), axis=unit(rng))
    return model


@pytest.mark.parametrize("shape", [hinges, two_bodies, planar_loop, cranks, edges, welded])
def test_methods_and_brute_force_on_random_models(shape, request):
    """34 models a shape, 204 in all (every day 12 a shape); alike but for their numbers, so that one compiled program
    serves each shape."""
    seen = set()
    for seed in range(34 if request.config.getoption("--thorough") else 12):
        model = shape(np.random.default_rng([seed, 7]))
        system = da.build(model)
        equations = da.assemble(system, 0.0, system.q0, system.v0)
        p = agrees_with_brute_force(*matrices(equations), joint_rows(system, equations))
        seen.add(p)
    assert max(seen) >= 1 and (len(seen) > 1 or shape is welded)


def test_names_do_not_depend_on_how_rows_are_written():
    """Directions come from the rows' wrenches: a joint turned by a quarter about its axis swaps Fx and Fy only."""
    _, _, joints = start("spatial-four-bar")
    for j in joints:
        assert [d.name for d in j.directions] == ["Fx", "Fy", "Fz", "Mx", "My"]
    _, _, joints = start("spatial-slider-crank")
    guide = next(j for j in joints if j.name == "guide")
    assert [d.name for d in guide.directions] == ["Fx", "Fy", "Mx", "My", "Mz"]
    _, _, joints = start("pendulum")
    assert [d.name for d in joints[0].directions] == ["Fx"]  # the rod lies along x


def test_user_functions_are_named_by_rows():
    """A FunctionSystem has no forces: its rows are the components. Two equal rows and a third: only their sum is."""
    import jax.numpy as jnp

    system = da.FunctionSystem(
        mass=lambda t, q: jnp.eye(2), force=lambda t, q, v: jnp.array([0.0, -9.81]), q0=[0.0, 0.0],
        position=lambda t, q: jnp.stack([q[1], 2 * q[1], q[0]]), joints={"floor": 1, "carpet": 1, "wall": 1},
    )  # fmt: skip
    found = da.check(system)
    assert found.redundancy == 1 and found.unique("wall") and not found.unique("floor")
    (s,) = found.solvability.sums
    # λ1 + 2 λ2 carries the weight of 1 kg
    assert s.value == pytest.approx(9.81) and [t.coefficient for t in s.terms] == pytest.approx([1.0, 2.0])


def test_one_deterministic_answer():
    """Two calls, and a model written anew, give the same text."""
    texts = {str(da.check(find("parallelogram-in-space").model())) for _ in range(2)}
    assert len(texts) == 1


def test_solver_directions_span_the_rows():
    _, equations, joints = start("double-cardan")
    solver = Solver(joints, Dependence(*matrices(equations)))
    assert len(solver.directions) == 18 and solver.directed_null.shape == (18, 1)


def test_many_independent_rows_are_solved_without_dense_algebra(monkeypatch):
    """A chain: rank and multipliers by one sparse factorisation, the same as the dense ones."""
    bodies, rng = 80, np.random.default_rng(3)
    C = np.zeros((2 * bodies, 3 * bodies))
    for k in range(bodies):  # each joint touches its two bodies
        C[2 * k : 2 * k + 2, max(3 * k - 3, 0) : 3 * k + 3] = rng.standard_normal((2, 6 if k else 3))
    M = np.stack([np.diag(1.0 + rng.random(3)) for _ in range(bodies)])
    h, Gamma = rng.standard_normal(3 * bodies), rng.standard_normal(2 * bodies)
    dense = Dependence(C, M)
    monkeypatch.setattr(dense, "_sparse", None, raising=False)
    expected = dense.multipliers(h, Gamma)
    sparse = Dependence(C, M)
    for name in ("svd", "qr"):
        monkeypatch.setattr(np.linalg, name, lambda *_, **__: pytest.fail("dense algebra of all rows"))
    assert sparse.rank == 2 * bodies
    # both exact to rounding times the square of the condition number, about 1e3
    np.testing.assert_allclose(sparse.multipliers(h, Gamma), expected, rtol=1e-9, atol=1e-9 * np.max(np.abs(expected)))
