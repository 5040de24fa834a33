"""jit, vmap and grad through everything numerical: a mass, a length, a start velocity, forward and reverse."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_solved import hinged_four_bar

import dalembert as da
from dalembert.complements import all_complements
from dalembert.formulations import all_formulations, on_complement
from dalembert.simulation._march import Problem
from dalembert.stabilise import all_stabilisations

T = 0.5
TIGHT = {"rtol": 1e-10, "integrator": "tsit5", "samples": 2, "max_steps": 1024}


def end_position(system, x, **more):
    """Where the coupler's centre is at the end, from a start assembled anew for the changed linkage.

    x: the crank's mass; where its pin sits on the coupler, whose shape does not follow: the linkage's length; a push
    on the crank's angle, made consistent by `simulate`."""
    mass, length, speed = x
    changed = system.replace({"crank.mass": mass, "B.point_j": jnp.stack([length, 0.0 * length])})
    v0 = jnp.zeros(system.n).at[2].set(speed)
    return da.simulate(changed, T, (changed.q0, v0), **more, **TIGHT).q[-1, 3:5] @ jnp.array([1.0, 0.7])


def test_gradient_through_simulate(four_bar):
    """By a mass, a length and a start velocity at once, forward and in reverse, against central differences: their
    own error is ~1e-8 relative (step 1e-4, solver noise 1e-11), the bar 1e-6."""
    x, h = jnp.array([1.0, -1.0, 0.5]), 1e-4
    reverse = jax.jit(jax.grad(lambda x: end_position(four_bar, x, derivative="reverse")))(x)
    forward = jax.jit(jax.jacfwd(lambda x: end_position(four_bar, x, derivative="forward")))(x)
    for k, name in enumerate(("mass", "length", "start velocity")):
        near = [float(end_position(four_bar, x.at[k].add(i * h))) for i in (-2, -1, 1, 2)]
        numeric = (8 * (near[2] - near[1]) - (near[3] - near[0])) / (12 * h)
        assert abs(numeric) > 1e-3, name  # a gradient that matters
        assert float(forward[k]) == pytest.approx(numeric, rel=1e-6), name
        assert float(reverse[k]) == pytest.approx(numeric, rel=1e-6), name


def test_vmap_over_a_parameter_equals_single_runs(four_bar):
    masses = jnp.array([0.5, 1.0, 2.0])
    run = jax.jit(jax.vmap(lambda m: da.simulate(four_bar.replace({"crank.mass": m}), T, **TIGHT).q[-1]))
    together = run(masses)
    for k, mass in enumerate(masses):
        alone = da.simulate(four_bar.replace({"crank.mass": mass}), T, **TIGHT).q[-1]
        # the same steps in another order of operations: rounding, amplified by the motion
        np.testing.assert_allclose(together[k], alone, atol=1e-10)


def test_gradient_in_a_redundant_model():
    """A derivative must not see the null space of the rows: the door's swing against its closed form."""
    system = da.build(da.mechanism("door-two-hinges"))

    def end(swing):
        v = jnp.array([0.0, 0.5, 0.0, 0.0, 0.0, 1.0]) * swing
        return da.simulate(system, T, (system.q0, v), derivative="forward", **TIGHT).q[-1, 1]

    # y of the centre = 0.5 sin(swing t): d/dswing = 0.5 t cos(swing t); the solver's error is 1e-10
    assert float(jax.jit(jax.jacfwd(end))(1.0)) == pytest.approx(0.5 * T * np.cos(T), rel=1e-7)


@pytest.mark.thorough
def test_sparse_and_dense_agree_and_are_differentiable(monkeypatch):
    """The same model through KLU and through the dense Cholesky: accelerations, projection, derivative."""
    from dalembert.systems import _build

    model = da.mechanism("n-four-bar", N=4)
    monkeypatch.setattr(_build, "SPARSE_FROM", 10**9)
    dense = da.build(model)
    monkeypatch.setattr(_build, "SPARSE_FROM", 0)
    sparse = da.build(model)
    assert dense.klu is None and sparse.klu is not None

    def acceleration(system, mass):
        e = da.assemble(system.replace({"rocker0.mass": mass}), 0.0, system.q0, system.v0)
        return da.formulations.Proximal().solve(e).vdot

    for a, b in zip(*(jax.jit(lambda m, s=s: (acceleration(s, m), jax.jacfwd(lambda x: acceleration(s, x))(m)))(1.0)
                      for s in (dense, sparse)), strict=True):  # fmt: skip
        np.testing.assert_allclose(a, b, atol=1e-9)  # what two and one refinements leave: (1e-9/σ)²
    reverse = jax.grad(lambda m: acceleration(sparse, m)[2])(1.0)
    forward = jax.jacfwd(lambda m: acceleration(sparse, m)[2])(1.0)
    assert float(reverse) == pytest.approx(float(forward), rel=1e-10)
    nudged = dense.q0 + 1e-4 * np.sin(np.arange(len(dense.q0)))
    states = [da.stabilise.consistent_state(s, (nudged, dense.v0)) for s in (dense, sparse)]
    np.testing.assert_allclose(states[0].q, states[1].q, atol=1e-12)
    np.testing.assert_allclose(states[0].v, states[1].v, atol=1e-11)


def test_changing_a_parameter_never_recompiles(four_bar):
    from dalembert._runtime import compile_stopwatch

    # the same kinds of numbers, other values: no eager operation of the first call may be new in the second
    da.simulate(four_bar.replace({"crank.mass": 1.1, "gravity": (0, -1.6)}), 0.8 * T, **TIGHT)
    before = compile_stopwatch.seconds
    da.simulate(four_bar.replace({"crank.mass": 1.7, "gravity": (0, -3.7)}), 0.9 * T, **{**TIGHT, "rtol": 1e-9})
    assert compile_stopwatch.seconds == before


# ---- every method ------------------------------------------------------------------------------------------

# everyday, each formulation once; the methods that keep the constraints are spread over them
SPREAD = {
    "proximal": "projection", "augmented": "baumgarte", "range-space": "pi", "projector": "velocity-filter",
    "udwadia-kalaba": "two-corrections",
}  # fmt: skip


def every_way():
    """Formulation, complement, stabilisation: all pairs of the first two; all of the last in v and in u."""
    for name, form in all_formulations().items():
        marks = () if name in ("proximal", "resolved", "null-space", "augmented") else pytest.mark.thorough
        yield pytest.param(name, None, SPREAD.get(name, "none"), marks=marks)
        for word, complement in all_complements().items():
            if on_complement(form, complement) is not None:
                yield pytest.param(name, word, "projection", marks=pytest.mark.thorough)
    for word in all_stabilisations():
        for name in ("proximal", "resolved"):
            if word != SPREAD.get(name, "none"):
                yield pytest.param(name, None, word, marks=pytest.mark.thorough)


def two_arms(x):
    """A state of the double pendulum whose elbow sits at (x, 0) on the second arm: consistent for every x."""

    def arm(angle, rate, root, speed, back, front):
        along = jnp.array([jnp.cos(angle), jnp.sin(angle)])
        across = jnp.array([-along[1], along[0]])
        centre, velocity = root - back * along, speed - back * rate * across
        tip = centre + front * along, velocity + front * rate * across
        return jnp.append(centre, angle), jnp.append(velocity, rate), tip

    q1, v1, elbow = arm(0.4, 1.0, jnp.zeros(2), jnp.zeros(2), -0.5, 0.5)
    q2, v2, _ = arm(-0.7, -2.0, *elbow, x, 0.0)
    return jnp.concatenate([q1, q2]), jnp.concatenate([v1, v2])


@pytest.fixture(scope="module")
def double_pendulum():
    return da.build(da.mechanism("double-pendulum"))


@pytest.mark.parametrize(("formulation", "complement", "stabilisation"), list(every_way()))
def test_gradient_through_every_method(double_pendulum, formulation, complement, stabilisation):
    """jit, vmap and reverse grad at once, through packing, 20 steps, settling and unpacking, against an arm's length.

    Central differences of fourth order with step 1e-3: h⁴ and rounding/h are 1e-12; the bar is 1e-6. Corrections are
    differentiated along frozen directions, which leaves what a step is off, dt³: hence midpoint steps with them.
    """
    form = all_formulations()[formulation]
    if complement is not None:
        form = on_complement(form, all_complements()[complement])
    form = da.prepare(double_pendulum, formulation=form).formulation
    dt, h, x = 1e-3, 1e-3, -0.5
    method = all_stabilisations()[stabilisation].with_time_scale(dt, 20 * dt)
    settles = stabilisation != "none"
    weights = np.cos(np.arange(12.0)).reshape(2, 6)

    def end(x):
        system = double_pendulum.replace({"elbow.point_j": jnp.stack([x, 0.0 * x])})
        problem = Problem(system, form, method, np.ones(system.m), loop="bounded")  # for derivatives in reverse

        def moved(y, rate, dt):
            return jax.tree_util.tree_map(lambda a, b: a + dt * b, y, rate)

        def step(y, t):
            rate = problem.vector_field(t, y, None)
            if not settles:
                return moved(y, rate, dt), None
            rate = problem.vector_field(t + 0.5 * dt, moved(y, rate, 0.5 * dt), None)
            return problem.settle(t + dt, moved(y, rate, dt))[0], None

        y, _ = jax.lax.scan(step, problem.pack(jnp.zeros(()), *two_arms(x)), dt * jnp.arange(20.0))
        q, v, _ = problem.state(20 * dt, y)
        return q @ weights[0] + v @ weights[1]

    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(end)))(x + h * jnp.arange(-2.0, 3.0))
    numeric = (8 * (values[3] - values[1]) - (values[4] - values[0])) / (12 * h)
    assert abs(float(numeric)) > 0.1
    assert float(gradients[2]) == pytest.approx(float(numeric), rel=1e-6)


# ---- where no derivative exists ------------------------------------------------------------------------------------


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=pytest.mark.thorough)])
def test_no_derivative_where_redundant_joints_contradict_each_other(coordinates):
    """Two hinges of a door: moving one point along the axis contradicts the other hinge, moving both
    points of one hinge or those of both hinges on the door does not; the closed machine itself says the same."""
    system = da.build(da.mechanism("door-two-hinges"), coordinates=coordinates)
    names = ["top.point_i", "top.point_j", "bottom.point_i", "bottom.point_j"]
    points = {name: np.asarray(system.parameters()[name]) for name in names}

    def height(up):
        moved = system.replace({name: jnp.asarray(points[name]).at[2].add(up[k]) for k, name in enumerate(names)})
        q = da.stabilise.consistent_state(moved).q
        return q[2] if coordinates == "absolute" else q[0] + moved.lift(q, moved.v0)[0][2]  # its angle stays

    single, together = np.eye(4), np.array([[0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]], float)
    along = jax.jit(jax.vmap(lambda e: jax.jvp(height, (jnp.zeros(4),), (e,))[1]))
    assert np.all(np.isnan(along(single)))
    np.testing.assert_allclose(along(together), [-1, 1, 0, 0], atol=1e-9)
    # where all four may move, reverse derivatives cannot know which are asked for together: only such sums make sense
    gradient = np.asarray(jax.jit(jax.grad(height))(jnp.zeros(4)))
    assert np.all(np.abs(gradient) > 1e6)
    np.testing.assert_allclose(together @ gradient, [-1, 1, 0, 0], atol=1e-7)
    for up in single:
        with pytest.raises(da.errors.AssemblyError):
            height(1e-3 * up)
    np.testing.assert_allclose([height(1e-3 * up) - height(0 * up) for up in together], [-1e-3, 1e-3, 0, 0], atol=1e-12)


@pytest.mark.parametrize("moving, exact", [
    (["top.point_j"], np.nan), (["top.point_j", "bottom.point_j"], -1.0),
    *(pytest.param(*x, marks=pytest.mark.thorough) for x in (
        (["bottom.point_i"], np.nan), (["top.point_i", "bottom.point_i"], 1.0), (["top.point_i", "top.point_j"], 0.0))),
])  # fmt: skip
@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=pytest.mark.thorough)])
def test_reverse_derivatives_by_what_contradicts_alone_are_nan(moving, exact, coordinates):
    """The height of the door by a shift of some points along its axis: of one hinge alone it has no derivative, however
    the program of JAX is nested; of points that move together it has one, by the closed machine."""
    system = da.build(da.mechanism("door-two-hinges"), coordinates=coordinates)
    points = {name: np.asarray(system.parameters()[name]) for name in moving}

    def height(x):
        moved = system.replace({n: jnp.asarray(p) + x * jnp.array([0.0, 0.0, 1.0]) for n, p in points.items()})
        q = da.stabilise.consistent_state(moved).q
        return q[2] if coordinates == "absolute" else q[0] + moved.lift(q, moved.v0)[0][2]  # its angle stays

    np.testing.assert_allclose(jax.jit(jax.grad(jax.jit(height)))(0.0), exact, atol=1e-8)


def test_reverse_derivatives_by_what_keeps_a_redundant_loop_are_right():
    """A pin of a planar four-bar of hinges in space: moved in the plane it changes a length, out of it contradicts the
    others. By a shift in the plane, and by a mass beside it, the derivative is that of finite differences."""
    system = da.build(hinged_four_bar(0.0))
    point = np.asarray(system.parameters()["B.point_j"])

    def place(x):
        there = {"B.point_j": jnp.asarray(point) + x * jnp.array([1.0, 0.0, 0.0]), "crank.mass": 1.0 + x}
        return da.stabilise.consistent_state(system.replace(there)).q[0]

    # differences of 1e-6 are known to 1e-10 of a position; poison that cancels leaves 1e-9
    by_differences = (place(1e-6) - place(-1e-6)) / 2e-6
    np.testing.assert_allclose(jax.jit(jax.grad(place))(0.0), by_differences, atol=1e-7)
    assert abs(float(by_differences)) > 1e-2


def test_a_run_that_fails_has_no_derivative():
    """Not zero: that would be a wrong number."""
    system = da.build(da.mechanism("physical-pendulum"))

    def end(swing):
        return da.simulate(
            system, 5.0, (system.q0, 0 * system.v0 + swing), max_steps=4, derivative="forward", samples=2
        ).q[-1, 2]

    value, slope = jax.jit(lambda x: jax.jvp(end, (x,), (jnp.ones(()),)))(0.0)
    assert not np.isfinite(float(value)) and np.isnan(float(slope))


@pytest.mark.thorough
def test_a_prepared_machine_marches_under_vmap():
    """`da.prepare` looks at numbers once: a redundant machine on a complement, under a rule, with friction by load."""
    model = da.mechanism("parallelogram")
    pin = next(name for name, joint in model.constraints.items() if joint.type == "revolute")
    model.bearing_friction("rubs", pin, coulomb=0.2, radius=0.05)
    machine = da.prepare(model, formulation=da.formulations.NullSpace(), rule=da.reactions.RowElimination())
    name = next(n for n in machine.system.parameters() if n.endswith(".mass"))
    masses = jnp.array([1.0, 2.0]) * machine.system.parameters()[name]

    def end(mass):
        return da.simulate(machine.replace({name: mass}), 0.05, samples=2).q[-1]

    found = jax.vmap(end)(masses)
    for k, mass in enumerate(masses):
        alone = da.simulate(machine.replace({name: float(mass)}), 0.05, samples=2)
        np.testing.assert_allclose(found[k], alone.q[-1], atol=1e-9)  # two programs of one motion
    with pytest.raises(
        da.errors.DalembertError, match=r"formulation= cannot be given besides what da\.prepare has fixed"
    ):
        da.simulate(machine, 0.05, formulation=da.formulations.Proximal())


def test_a_prepared_machine_with_friction_by_load_under_jit_and_grad():
    """The friction of a pin depends on its own load, which depends on the mass: value by jit, slope by differences of
    the same fixed steps (h = 1e-4: both errors, h² and 1e-15/h, are below 1e-7)."""
    model = da.Model("rubbing", gravity=(0, -9.81))
    bob = model.body("bob", mass=2.0, inertia=0.3, position=(0.7, 0.0))
    model.revolute("pin", model.ground, bob, at=(0, 0))
    model.bearing_friction("rubs", "pin", coulomb=0.3, radius=0.1)
    model.force("push", bob, (0.0, 4.0))
    machine = da.prepare(model)

    def end(mass):
        return da.simulate(machine.replace({"bob.mass": mass}), 0.1, dt=0.01, samples=2).q[-1, 2]

    value, slope = jax.jit(jax.value_and_grad(end))(2.0)
    low, middle, high = (float(end(mass)) for mass in (2.0 - 1e-4, 2.0, 2.0 + 1e-4))
    np.testing.assert_allclose(value, middle, rtol=1e-12)
    assert abs(slope) > 1e-4  # more of it is weight, less is push
    np.testing.assert_allclose(slope, (high - low) / 2e-4, rtol=1e-6)
    without = da.simulate(da.prepare(machine.system.replace({"rubs.coulomb": 0.0})), 0.1, dt=0.01, samples=2).q[-1, 2]
    # 1.28 kg m² about the pin turn by 15.62 N × 0.7 m, so the pin bears 3.66 N at first; that times μ r = 0.03 m turns
    # them by 4.3e-4 rad less in 0.1 s, and by a little more as the load grows with the speed
    np.testing.assert_allclose(middle - without, 0.5 * 0.03 * 3.66 / 1.28 * 0.1**2, rtol=0.05)
