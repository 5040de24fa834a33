"""Joint coordinates against absolute ones: the same model, the same accelerations, the same motion."""

from __future__ import annotations

import warnings

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
FEW = ("four-bar", "bricard", "mobile-robot")
SKIP = {"n-four-bar"}  # at its start all loops are in line: a singular pose, taken up below


@eqx.filter_jit
def carried_acceleration(system: TreeSystem, t, q, u):
    """v̇_abs = J u̇ + J̇u from the joint accelerations."""
    udot = da.formulations.Proximal().solve(da.assemble(system, t, q, u)).vdot
    at = system.body_motion(q, u)
    return at.places, at.v, system.lift_rate(q, u, udot).reshape(at.v.shape)


@eqx.filter_jit
def absolute_acceleration(system, t, q, v):
    return da.formulations.Proximal().solve(da.assemble(system, t, q, v)).vdot


@pytest.mark.parametrize("name", everyday((n for n in mechanisms() if n not in SKIP), FEW))
def test_tree_and_absolute_agree_at_the_start(name):
    model = da.mechanism(name)
    absolute, tree = da.build(model), da.build(model, coordinates="joint")
    # a joint of the tree takes as many velocities away as rows
    assert tree.n - tree.m == absolute.n - absolute.m
    q, v = da.stabilise.consistent_state(absolute)
    x, u = (jnp.asarray(a) for a in da.stabilise.consistent_state(tree))
    places, velocity, acceleration = carried_acceleration(tree, jnp.asarray(0.0), x, u)
    np.testing.assert_allclose(places.p[:-1], absolute.places(q).p[:-1], atol=1e-12)
    np.testing.assert_allclose(places.R[:-1], absolute.places(q).R[:-1], atol=1e-12)
    np.testing.assert_allclose(velocity.ravel(), v, atol=1e-11 * (1 + np.max(np.abs(v))))
    expected = np.asarray(absolute_acceleration(absolute, jnp.asarray(0.0), jnp.asarray(q), jnp.asarray(v)))
    atol = ACCELERATIONS * max(np.max(np.abs(expected)), 1.0)
    np.testing.assert_allclose(np.asarray(acceleration).ravel(), expected, atol=atol)


def described(check: da.analysis.Check):
    """What a report says of reactions, without numbers."""
    found = check.solvability
    joints = {j.name: (j.unique, j.components) for j in found.joints}
    return joints, *([str(x) for x in part] for part in (found.sums, found.groups, found.releases))


@pytest.mark.parametrize("name", everyday(mechanisms(), FEW))
def test_the_same_solvability_report(name):
    """Null vectors of the closing rows, carried through the tree, against those of all rows in absolute coordinates."""
    model = da.mechanism(name)
    absolute, tree = (da.check(da.build(model, coordinates=c)) for c in ("absolute", "joint"))
    assert (tree.redundancy, tree.mobility, tree.gruebler, tree.singular) == (
        absolute.redundancy, absolute.mobility, absolute.gruebler, absolute.singular,
    )  # fmt: skip
    assert tree.solvability.agree
    assert described(tree) == described(absolute)
    loads = [abs(x) for j in absolute.solvability.joints for x in j.values.values()]
    for j in absolute.solvability.joints:
        for component, value in j.values.items():
            other = tree.solvability.joint(j.name).values[component]
            # two factorisations of well-conditioned systems; the chain's are ten links deep
            assert other == pytest.approx(value, abs=1e-10 * max(loads))


@pytest.mark.thorough
def test_the_same_solvability_whichever_joint_is_cut():
    model = da.mechanism("bricard")
    reports = [described(da.check(da.build(model, coordinates="joint", cut=[cut]))) for cut in ("R1", "R4")]
    assert reports[0] == reports[1]


CHAOTIC = {"chain": 2.0, "chain-in-space": 1.0}
"""Until when ten links that whirl remember their start to eight digits: rounding grows a thousandfold each second."""
MOTIONS = {name: CHAOTIC.get(name, min(5.0, entry.t_end)) for name, entry in mechanisms().items()}
"""5 s, less where the mechanism's own motion is shorter."""


@pytest.mark.parametrize("name", everyday(MOTIONS, ()))
def test_tree_and_absolute_move_alike(name):
    """Motion to 1e-8 of the machine's size and reactions to 1e-7 of the largest, under one rule.

    The four-bar with links of equal length passes singular positions, at which a row vanishes in joint coordinates.
    """
    entry = mechanisms()[name]
    model = entry.model()
    settings = {"rtol": 1e-12, "samples": 6, "integrator": "dopri8"}
    t1 = MOTIONS[name]
    a, b = (da.simulate(da.build(model, coordinates=c), t1, **settings) for c in ("absolute", "joint"))
    assert b.violation["position"] < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.RedundancyWarning)
        one, other = a.dataset, b.dataset
    np.testing.assert_allclose(other["position"], one["position"], atol=1e-8 * float(a.system.size))
    for what in ("reaction_force", "reaction_torque"):
        if what in one:
            largest = np.max(np.abs(one["reaction_force"].values))
            largest *= 1.0 if what == "reaction_force" else float(a.system.size)
            np.testing.assert_allclose(other[what], one[what], atol=1e-7 * max(largest, 1e-3))
    np.testing.assert_array_equal(other["unique_force"], one["unique_force"])


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


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(k, marks=pytest.mark.thorough) for k in (3, 4, 5))])
def test_random_trees(seed):
    """Off their start, moving: M by composite bodies is JᵀMJ, and J̇u is the rate of v_abs with u held."""
    rng = np.random.default_rng(seed)
    model = random_tree(rng)
    tree, absolute = da.build(model, coordinates="joint"), da.build(model)
    assert tree.m == 0
    q = tree.retract(jnp.asarray(tree.q0), jnp.asarray(rng.uniform(-0.4, 0.4, tree.n)))
    u = jnp.asarray(rng.uniform(-1, 1, tree.n))
    h = 1e-5

    @jax.jit  # one program instead of one for every operation
    def found(q, u):
        J = jax.jacfwd(lambda u: tree.body_motion(q, u).v.ravel())(u)
        beside = jax.vmap(lambda h: tree.body_motion(tree.retract(q, h * u), u).v)(jnp.array([-h, h]))
        return tree.mass(0.0, q).dense(), J, tree.body_motion(q, u).bias, beside

    M, J, bias, beside = map(np.asarray, found(q, u))
    blocks = np.asarray(absolute.mass(0.0, absolute.q0).dense())
    np.testing.assert_allclose(M, J.T @ blocks @ J, atol=1e-12)
    # J̇u against the derivative of v_abs along the motion with u held
    np.testing.assert_allclose(bias, (beside[1] - beside[0]) / (2 * h), atol=1e-8)


def test_a_loop_is_cut_in_its_middle():
    """Four bars: both cranks hang on the ground, and a joint of the coupler closes [Blajer et al. 1994]."""
    carriers = spanning_tree(da.mechanism("four-bar"))
    assert [(body, joint.name) for body, (_, joint) in carriers.items()] == [
        ("crank", "A"),
        ("rocker", "D"),
        ("coupler", "B"),
    ]
    assert da.build(da.mechanism("four-bar"), coordinates="joint", cut=["B"]).owners[0].name == "B"
    with pytest.raises(da.errors.DalembertError, match="there is no joint 'Q'"):
        da.build(da.mechanism("four-bar"), coordinates="joint", cut=["Q"])


def test_parameters_of_a_tree_are_those_of_the_model():
    tree = da.build(da.mechanism("four-bar"), coordinates="joint")
    assert float(tree.parameters()["crank.mass"]) == 1.0
    with pytest.raises(da.errors.DalembertError, match="'crank.mass' .* must be greater than zero"):
        tree.replace({"crank.mass": 0.0})
    heavier = tree.replace({"crank.mass": 2.0, "A.point_j": (-0.6, 0.0)})
    assert float(heavier.parameters()["crank.mass"]) == 2.0
    np.testing.assert_allclose(heavier.parameters()["A.point_j"], (-0.6, 0.0))


def test_parameters_of_a_joint_that_is_carried_by_its_second_body():
    """Both coordinates follow when the marker of a backward joint is moved."""
    model = da.Model("backward", space="plane", gravity=(0, -9.81))
    body = model.body("bob", mass=1.0, inertia=0.1, position=(1.0, 0.0))
    model.revolute("hinge", body, model.ground, at=(0, 0))
    absolute, tree = (
        da.build(model, coordinates=c).replace({"hinge.point_i": (-0.5, 0.2)}) for c in ("absolute", "joint")
    )
    np.testing.assert_allclose(tree.parameters()["hinge.point_i"], (-0.5, 0.2))
    np.testing.assert_allclose(tree.absolute.parameters()["hinge.point_i"], absolute.parameters()["hinge.point_i"])
    # the same pendulum, of length |(−0.5, 0.2)|, about the same point
    q, _ = tree.lift(jnp.asarray(tree.q0), jnp.zeros(1))
    np.testing.assert_allclose(absolute.position_residual(0.0, q), 0.0, atol=1e-15)


def test_reactions_of_carrying_joints_are_those_of_a_free_body():
    """The rocker's weight and inertia against what its two joints give it [free body]."""
    solution = da.simulate(da.build(da.mechanism("four-bar"), coordinates="joint"), 1.0, samples=5)
    data = solution.dataset
    assert list(data["tree_coordinate"].values) == ["A.angle_z", "D.angle_z", "B.angle_z"]
    mass = float(solution.system.parameters()["rocker.mass"])
    inertial = mass * (data["acceleration"].sel(body="rocker").values - np.array([0.0, -9.81]))
    model = da.mechanism("four-bar")
    total = np.zeros_like(inertial)
    for name, joint in model.constraints.items():
        for sign, marker in ((-1, joint.markers[0]), (1, joint.markers[1])):
            if marker.body.name == "rocker":
                total = total + sign * data["reaction_force"].sel(joint=name).values
    np.testing.assert_allclose(total, inertial, atol=1e-10 * np.max(np.abs(inertial)))


def test_a_latch_in_joint_coordinates():
    """A cut joint can be switched, and all joints feel the same impulses as in absolute coordinates."""
    model = da.mechanism("four-bar")
    jumps = []
    for coordinates in ("absolute", "joint"):
        system = da.systems.set_active(
            da.systems.with_switches(da.build(model, coordinates=coordinates), "C"), "C", 0.0
        )
        state = da.stabilise.consistent_state(system)
        v = np.zeros(system.n)
        v[-1] = 1.0  # the coupler's own turning, about its centre or about B
        if coordinates == "joint":
            turned = np.asarray(system.lift(jnp.asarray(state.q), jnp.asarray(v))[1])
        jumps.append((system, state, v))
    jumps[0] = (*jumps[0][:2], turned)
    one, other = (
        da.simulation.close_constraint(system, "C", (state.q, v), hold=False)[2] for system, state, v in jumps
    )
    assert other.energy_lost == pytest.approx(one.energy_lost, rel=1e-10)
    for joint in ("A", "B", "C", "D"):
        np.testing.assert_allclose(other.wrenches[joint][0], one.wrenches[joint][0], atol=1e-10)
    with pytest.raises(da.errors.DalembertError, match="'A' carries the tree"):
        da.systems.with_switches(jumps[1][0], "A")


@pytest.mark.parametrize(("space", "rows"), [("plane", 2), pytest.param("space", 5, marks=pytest.mark.thorough)])
def test_a_tree_that_cannot_move(space, rows):
    """A body welded to the ground, and a joint beside: no joint coordinate is left, and all questions have answers."""
    model = da.Model("still", space=space, gravity=(0, -9.81) if space == "plane" else (0, -9.81, 0))
    flat = space == "plane"
    at, axis = ((1, 0), {}) if flat else ((1, 0, 0), {"axis": (0, 0, 1)})
    inertia, middle = (0.1, (0.5, 0)) if flat else ((0.1, 0.1, 0.1), (0.5, 0, 0))
    model.body("b", mass=1.0, inertia=inertia, position=middle)
    model.weld("w", model.ground, "b")
    model.revolute("r", model.ground, "b", at=at, **axis)
    system = da.build(model, coordinates="joint")
    assert (system.n, system.m) == (0, rows)
    found = da.check(system)
    assert found.redundancy == da.check(model).redundancy == rows and found.mobility == 0
    if not flat:
        return
    solution = da.simulate(system, 0.1, samples=3)
    assert solution.status == da.simulation.Status.done and solution.q.shape == (3, 0)
    np.testing.assert_allclose(solution.dataset["position"].values, np.tile([0.5, 0.0], (3, 1, 1)), atol=1e-15)
    with pytest.warns(da.errors.RedundancyWarning):
        together = sum(solution.reactions(joint)["force"].values[-1] for joint in "wr")
    np.testing.assert_allclose(together, [0.0, 9.81], atol=1e-12)
    assert da.linearise(system).A.shape == (0, 0)


def test_joint_coordinates_are_held_and_named():
    """`hold=` takes a joint's name or one of its coordinates, and what had to change is told by that name."""
    tree = da.build(da.mechanism("four-bar"), coordinates="joint")
    label = tree.velocity_label(0)
    rough = np.array(tree.q0) + np.array([0.0, 0.02, -0.01])
    for item in (label, label.split(".")[0]):
        q, _ = da.stabilise.consistent_state(tree, (rough, None), hold=[item])
        assert q[0] == rough[0] and np.max(np.abs(tree.position_residual(0.0, q))) < 1e-12
    with pytest.raises(
        da.errors.DalembertError, match=rf"hold: 'nobody' is no coordinate of the tree .* use one of {label}"
    ):
        da.stabilise.consistent_state(tree, hold=["nobody"])
    v = np.zeros(tree.n)
    v[0] = 8.0
    with pytest.warns(da.errors.AssemblyWarning, match=rf"'{label}' from 8 to .*hold=\['{label}'\]"):
        da.simulate(tree, 0.01, (tree.q0, v), samples=2)
