"""kernels: functions of JAX as machine code of scalars."""

from __future__ import annotations

import ctypes
import pickle
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import klujax
import numpy as np
import pytest

import dalembert as da
from dalembert.equations import assemble
from dalembert.kernels import Compiled, Kernel, flat, widest
from dalembert.kernels._eliminate import Elimination, order
from dalembert.kernels._graph import Graph
from dalembert.kernels._llvm import code
from dalembert.linalg._saddle import ROUNDING
from dalembert.systems import without_names

# ---- larger machines: sparse equations, pieces -------------------------------------------------------------------


def saddle(seed: int, bodies: int = 12, rows: int = 20, shift: float = 1e-15) -> tuple[np.ndarray, int]:
    """A random [M Cᵀ; C −ε] with blocks of three velocities, each row between two neighbours; and the size of M."""
    random = np.random.default_rng(seed)
    n = 3 * bodies
    M, C = np.zeros((n, n)), np.zeros((rows, n))
    for k in range(bodies):
        root = random.normal(size=(3, 3))
        M[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = root @ root.T + np.eye(3)
    for row in range(rows):
        first = 3 * (row * (bodies - 1) // rows)
        C[row, first : first + 6] = random.normal(size=6)
    return np.block([[M, C.T], [C, -shift * np.eye(rows)]]), n


def sparse_kernel(A: np.ndarray, b: np.ndarray) -> tuple[Kernel, np.ndarray]:
    i, j = (x.astype(np.int32) for x in np.nonzero(A))

    def solve(_, given):
        values, b = given
        return klujax.solve_f64.bind(i, j, values[None], b[None])[0]

    return Kernel.of("solve", solve, (), (A[i, j], b)), flat((A[i, j], b))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_sparse_equations_as_numpy_solves_them(seed, symmetric):
    A, n = saddle(seed)
    if not symmetric:
        A[:n, n:] *= np.random.default_rng(seed).uniform(0.5, 1.5, (1, len(A) - n))  # pivots keep their signs
    b = np.random.default_rng(seed + 100).normal(size=(len(A), 2))
    kernel, given = sparse_kernel(A, b)
    x = Compiled([kernel]).call("solve", np.zeros(0), given).reshape(b.shape)
    expected = np.linalg.solve(A, b)
    # rounding, times the condition of the matrix (NumPy's own error)
    assert np.max(np.abs(x - expected)) < 1e-15 * np.linalg.cond(A) * np.max(np.abs(expected))


def test_a_first_solution_is_corrected_where_its_residual_asks_for_it():
    """Ten four-bars, up to 1e-4 s beside a singular position (t = 0.7203 s): what Cholesky of C M⁻¹Cᵀ loses there,
    rounding/σ², must not stay. Beside NumPy's singular values of the whole matrix, which lose rounding/σ."""
    system = without_names(da.build(da.mechanism("n-four-bar", N=10)))
    assert system.klu is not None

    def attempt(system, state):
        equations = assemble(system, 0.0, *state)
        found = equations.factorise().attempt(equations.h, equations.Gamma)
        return found.x, found.residual, found.margin

    kernel = Kernel.of("attempt", attempt, system, (system.q0, system.v0))
    compiled, parameters = Compiled([kernel]), flat(eqx.filter(system, eqx.is_array))
    times = np.array([0.0, 0.3, 0.6, 0.72, 0.7201, 0.7202, 0.7204, 0.7205, 0.721])
    solution = da.simulate(system, 1.0, rtol=1e-9, samples=times)
    rows = compiled.rows("attempt", parameters, np.concatenate([solution.q, solution.v], axis=1))
    assert np.min(rows[:, -1]) < 2e-8 < 1e-3 < np.max(rows[:, -1])
    for row, q, v in zip(rows, solution.q, solution.v, strict=True):
        x, (residual, margin) = row[: system.n], row[-2:]
        equations = assemble(system, 0.0, q, v)
        M, C = np.asarray(equations.M), np.asarray(equations.C)
        whole = np.block([[M, C.T], [C, np.zeros((len(C), len(C)))]])
        goal = np.concatenate([equations.h, equations.Gamma])
        expected = np.linalg.lstsq(whole, goal, rcond=1e-14)[0][: system.n]
        assert residual < ROUNDING
        assert np.max(np.abs(x - expected)) < 10 * ROUNDING / np.sqrt(margin) * np.max(np.abs(expected))


def test_a_multiplier_is_eliminated_after_the_velocities_of_its_row():
    A, n = saddle(0)
    i, j = np.nonzero(A)
    place = np.argsort(order(len(A), i, j)[0])
    assert sorted(place) == list(range(len(A)))
    for row in range(n, len(A)):
        assert np.all(place[np.flatnonzero(A[row, :n])] < place[row])


def test_elimination_fills_in_proportion_to_the_size():
    def filled(bodies):
        A, _ = saddle(0, bodies, 2 * bodies)
        i, j = np.nonzero(A)
        graph = Graph()
        values = [graph.input("input", k, graph.main) for k in range(len(i))]
        return sum(map(len, Elimination(graph, len(A), i, j, values).lower))

    assert filled(80) < 1.1 * 4 * filled(20)  # a chain: four times the bodies, four times the entries


def test_two_solutions_share_one_elimination():
    A, _ = saddle(0)
    i, j = (x.astype(np.int32) for x in np.nonzero(A))

    def solve(_, given):
        values, b = given
        first = klujax.solve_f64.bind(i, j, values[None], b[None])
        return klujax.solve_f64.bind(i, j, values[None], first)[0]

    kernel = Kernel.of("solve", solve, (), (A[i, j], np.ones((len(A), 1))))
    assert kernel.written.graph.op.count("div") == len(A)  # one for each pivot


def loops(parameters, given):
    """Loops in a loop, numbers that change places, a truth that is used much later, a test of several numbers."""
    x, y = given
    small = jnp.sum(x) < parameters[0]
    e = jnp.cos(x + y)  # computed before the loops, used in every round

    def inner(carry):
        a, b, p, q, k = carry
        return b, jnp.tanh(jnp.sin(a * e) + jnp.exp(-b * b)) + 0.5 * b + p * parameters[1], q, p, k + 1

    def going(carry):
        return (carry[-1] < 6) & (jnp.max(jnp.abs(carry[1])) < 3.0)

    def outer(_, carry):
        a, b, c = carry
        a, b, p, q, _ = jax.lax.while_loop(going, inner, (a, b, x, y, 0))
        return b + c * p, a + q, c

    a, b, c = jax.lax.fori_loop(0, 3, outer, (x, y, x * parameters[1]))
    d = jnp.where(small, jnp.cumsum(a) * b, jnp.maximum(a, c))
    return a, b, d @ d, jnp.abs(d), jnp.minimum(d, b), small


@pytest.mark.parametrize("lanes", [1, "widest"])
@pytest.mark.parametrize("effort", [0, 1])
@pytest.mark.parametrize("piece", [3, 20, 60, 10**9])
def test_pieces_compute_what_one_piece_computes(piece, effort, lanes):
    lanes = widest() if lanes == "widest" else 1
    random = np.random.default_rng(3)
    parameters = np.array([0.7, 0.3])
    inputs = random.normal(size=(lanes, 2, 5))
    kernel = Kernel.of("loops", loops, parameters, tuple(inputs[0]))
    compiled = Compiled([kernel], lanes, effort, piece)
    kept = np.ascontiguousarray(np.broadcast_to(compiled.setup("loops", parameters).T, (compiled.kept["loops"], lanes)))
    given, out = np.ascontiguousarray(inputs.reshape(lanes, -1).T), np.zeros((kernel.outputs, lanes))
    call = compiled.module.function("loops", *[ctypes.c_void_p] * 3)
    for _ in range(2):  # what a call leaves in its room does not change the next
        call(kept.ctypes.data, given.ctypes.data, out.ctypes.data)
        for lane in range(lanes):
            expected = flat(loops(parameters, tuple(inputs[lane])))
            np.testing.assert_allclose(out[:, lane], expected, rtol=1e-12, atol=1e-14)  # fused operations, 18 rounds


def branches(parameters, given):
    """A branch in a branch, a loop in one, numbers of before and of inside that are used after."""
    x, y = given
    e = jnp.sin(x) * y

    def deep(a):
        return jax.lax.fori_loop(0, 3, lambda _, b: jnp.cos(b) + e * jnp.exp(-b * b), a)

    def inside(a):
        b, c = jax.lax.cond(y[0] > 0.0, lambda: (deep(a), y), lambda: (jnp.tanh(a * e) * 3.0 - y, a * a))
        return b + jnp.cumsum(c), b

    def outside(a):
        return deep(jnp.sqrt(a * a + 1.0) * parameters[0]), jnp.cos(a) - y * parameters[1]

    a, b = jax.lax.cond(x[0] > 0.0, inside, outside, x)
    return a, b * e, jnp.where(y[0] > 0.0, a, b)


@pytest.mark.parametrize("lanes", [1, "widest"])
@pytest.mark.parametrize("piece", [3, 20, 10**9])
def test_branches_in_pieces_compute_what_one_piece_computes(piece, lanes):
    """Whether all lanes take the same side or not; no function is longer than its piece, so none needs much of a stack:
    that of 400 four-bars in lanes was 5 MB, and a process ended there."""
    lanes = widest() if lanes == "widest" else 1
    random, parameters = np.random.default_rng(5), np.array([0.7, 0.3])
    kernel = Kernel.of("branches", branches, parameters, tuple(np.ones((2, 4))))
    computed = [len(re.findall("= (f|select)", f)) for f in code(kernel.written, lanes, piece).text.split("define ")]
    assert max(computed) <= 4 * piece  # a truth or a sine are several operations
    compiled = Compiled([kernel], lanes, 0, piece)
    kept = compiled.setup("branches", parameters)
    kept = np.ascontiguousarray(np.broadcast_to(kept.T, (compiled.kept["branches"], lanes)))
    call = compiled.module.function("branches", *[ctypes.c_void_p] * 3)
    for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1), None):  # None: each lane another
        inputs = random.normal(size=(lanes, 2, 4))
        if signs:
            inputs[:, :, 0] = np.abs(inputs[:, :, 0]) * signs
        given, out = np.ascontiguousarray(inputs.reshape(lanes, -1).T), np.zeros((kernel.outputs, lanes))
        call(kept.ctypes.data, given.ctypes.data, out.ctypes.data)
        for lane in range(lanes):
            expected = flat(branches(parameters, tuple(jnp.asarray(inputs[lane]))))
            np.testing.assert_allclose(out[:, lane], expected, rtol=1e-12, atol=1e-14)  # fused operations


def test_extremes_and_magnitudes_of_what_is_no_number():
    def function(_, given):
        a, b = given
        return jnp.maximum(a, b), jnp.minimum(a, b), jnp.abs(a)

    values = [np.nan, -np.inf, -1.0, 0.0, 2.0, np.inf]
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    kernel = Kernel.of("f", function, (), (a, b))
    found = Compiled([kernel]).call("f", np.zeros(0), flat((a, b)))
    np.testing.assert_array_equal(found, flat(function((), (a, b))))


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_largest_magnitude_is_that_of_jax(lanes):
    """Compared as bits: with signs, zeros of both signs, infinities, NaN of both signs, constants; in several pieces,
    in a loop and in a branch."""

    def function(_, x):
        largest = jnp.max(jnp.abs(x))
        floor = jnp.max(jnp.stack([jnp.abs(x[0]), 0.5, jnp.abs(x[1])]))
        mixed = jnp.maximum(jnp.maximum(jnp.abs(x[0]), -1.0), x[1])  # not all of these are without a sign
        rounds = jax.lax.fori_loop(0, 2, lambda _, c: jnp.maximum(jnp.abs(c), jnp.abs(x[2])), -jnp.abs(x[3]))
        chosen = jax.lax.cond(x[2] > 0.0, lambda: jnp.max(jnp.abs(x[:3])), lambda: jnp.abs(x[3]) + largest)
        return largest, floor, mixed, rounds, chosen

    random = np.random.default_rng(2)
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-300, -1.5, 0.25])
    inputs = random.choice(special, size=(200, 6))
    inputs[:100] = random.choice(special[4:], size=(100, 6))
    kernel = Kernel.of("f", function, (), inputs[0])
    for piece in (2, 1000):
        compiled, expected = Compiled([kernel], lanes, piece=piece), jax.jit(lambda x: function((), x))
        for x in inputs:
            np.testing.assert_array_equal(compiled.call("f", np.zeros(0), x), flat(expected(x)))


@pytest.mark.parametrize("mode", ["clip", "fill", "drop"])
def test_places_out_of_range_are_those_of_jax(mode):
    rows = np.array([[0, 2], [3, -1], [9, 1], [1, 7]])

    def function(_, a):
        b = a[1:3, :2]
        taken = a.at[rows[:, 0], rows[:, 1]].get(mode=mode, fill_value=-5.0)
        if mode == "fill":
            return taken
        return taken, a.at[rows[:, 0], rows[:, 1]].add(b.ravel(), mode=mode), a.at[rows[:, 0]].set(7.0, mode=mode)

    a = np.random.default_rng(0).normal(size=(5, 4))
    kernel = Kernel.of("f", function, (), a)
    np.testing.assert_array_equal(
        Compiled([kernel]).call("f", np.zeros(0), flat(a)), flat(function((), jnp.asarray(a)))
    )


def test_what_computes_no_result_is_left_out():
    """`sort` has no rule: where nobody needs its result it is no reason to refuse, and no code is made for the rest."""

    def function(_, x):
        unused = jnp.sort(x)
        return x[0] * 2.0, jax.jit(lambda y: (y + 1.0, jnp.sin(unused) * y))(x)[0]

    kernel = Kernel.of("used", function, (), np.arange(3.0))
    assert "sin" not in kernel.written.graph.op and "mul" in kernel.written.graph.op
    doubled, more = kernel.unflatten(Compiled([kernel]).call("used", np.zeros(0), np.array([3.0, 1.0, 2.0])))
    assert doubled == 6.0 and more.tolist() == [4.0, 2.0, 3.0]


def test_arrays_that_were_pickled():
    """An array that comes from another process has a dtype of its own, equal to that of others: no reason to refuse
    it, and leave the machine to XLA, which rounds otherwise."""
    a = pickle.loads(pickle.dumps(np.array([2.0, 3.0])))
    assert a.dtype == np.dtype(float) and a.dtype is not np.dtype(float)
    kernel = Kernel.of("pickled", lambda p, x: p * jnp.sin(x), a, a)
    found = kernel.unflatten(Compiled([kernel]).call("pickled", a, a))
    np.testing.assert_allclose(found, a * np.sin(a), rtol=1e-15)


@pytest.mark.parametrize("operation", [jnp.add, jnp.subtract, jnp.multiply])
def test_zeros_ones_and_what_is_not_finite_in_long_arrays(operation):
    """Long arrays are folded as a whole, short ones number by number: both as JAX (0 times infinity is NaN)."""
    special = np.array([0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan])
    a, b = (x.ravel() for x in np.meshgrid(special, special, indexing="ij"))
    with np.errstate(invalid="ignore"):
        for some in (slice(0, 5), slice(None)):
            kernel = Kernel.of("folded", lambda _, x, s=some: operation(a[s], b[s]) + x, (), 0.0)
            found = kernel.unflatten(Compiled([kernel]).call("folded", np.zeros(0), np.zeros(1)))
            np.testing.assert_array_equal(found, np.asarray(operation(a[some], b[some])))
    # with a number that is computed: 0 x is 0 and 1 x is x for all that is finite
    three = np.full(len(a), 3.0)
    kernel = Kernel.of("mixed", lambda _, x: (operation(a, x), operation(x, a)), (), three)
    found = kernel.unflatten(Compiled([kernel]).call("mixed", np.zeros(0), three))
    np.testing.assert_array_equal(found, np.asarray([operation(a, three), operation(three, a)]))


def test_machines_that_differ_in_a_built_in_number_do_not_share_their_code():
    """0, 1 and −1 are part of the code: gravity upwards must not run the code of gravity downwards."""

    def moved(gravity, engine):
        model = da.mechanism("four-bar")
        model.gravity = (0.0, gravity)
        return np.asarray(da.simulate(da.build(model), 0.1, engine=engine).q)[-1]

    down, up = moved(-1.0, "native"), moved(1.0, "native")
    assert np.max(np.abs(up - down)) > 1e-3
    np.testing.assert_allclose(up, moved(1.0, "jax"), rtol=0, atol=1e-9)  # the same steps but for rounding


@pytest.mark.parametrize(("name", "numbers"), [("stewart-platform", {}), ("n-four-bar", {"N": 10})])
def test_sparse_machines_march_natively_as_with_jax(name, numbers):
    """Both march at 1e-12 relative, so they agree to 1e-10: rounding differs, steps may."""
    system = da.build(da.mechanism(name, **numbers))
    assert system.klu is not None
    # the four-bars pass a singular position at 0.71 s, where rounding is magnified
    native, jaxed = (da.simulate(system, 0.6, rtol=1e-12, atol=1e-12, engine=e) for e in ("native", "jax"))
    assert native.restart.engine == "native"
    for a, b in ((native.q, jaxed.q), (native.v, jaxed.v)):
        assert np.max(np.abs(np.asarray(a) - np.asarray(b))) < 1e-10 * max(1.0, np.max(np.abs(b)))


@pytest.mark.parametrize("lanes", [1, 4])
def test_sines_and_cosines_are_right_to_the_last_digits(lanes):
    """Written out, not called: within 1.5 units in the last place of the C library (whose own error is below 0.6), near
    multiples of π/2, of large angles, of zero with its sign, and where there is none."""
    kernel = Kernel.of("turn", lambda p, x: (jnp.sin(x), jnp.cos(x)), np.zeros(0), np.zeros(()))
    compiled = Compiled([kernel], lanes)
    rng = np.random.default_rng(20130305)
    beside = np.arange(-40, 40) * np.pi / 2
    some = [0.0, -0.0, 1e-300, -1e-20, 1e9, 2.0**30, 2.0**30 + 1, -1e12, 1e22, np.inf, np.nan]
    angles = np.concatenate([rng.uniform(-10, 10, 300), rng.uniform(-1e6, 1e6, 300), beside, beside + 1e-9, some])
    found = np.array([compiled.call("turn", np.zeros(0), np.array([x])) for x in angles])
    with np.errstate(invalid="ignore"):
        known = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(known))
    np.testing.assert_array_equal(np.signbit(found[:-1]), np.signbit(known[:-1]))
    good = np.isfinite(known[:, 0])
    apart = np.abs(found - known)[good] / np.spacing(np.abs(known[good]))
    assert np.max(apart) <= 2.0  # units are whole here: 1.5 is 2


# ---- branches ----------------------------------------------------------------------------------------------------


def test_in_a_branch_its_test_is_known():
    """Choices by a test, its negation, and what follows from it, are made on each side; outside they stay."""

    def function(_, x):
        one, two = x > 0.0, x < 5.0
        both = one & two

        def inside():
            again = jax.lax.cond(both, lambda: 3 * x, lambda: 0 * x)
            return jnp.where(one, x, 7.0) + jnp.where(~two, 8.0, 2 * x) + again

        def outside():
            return jnp.where(both, 9.0, -x)

        return jax.lax.cond(both, inside, outside) + jnp.where(one, 100.0, 200.0)

    kernel = Kernel.of("function", function, (), np.array(1.0))
    graph = kernel.written.graph
    live = [graph.op[a] for a in graph.needed(kernel.written.outputs)]
    assert live.count("branch") == 1 and live.count("select") == 1
    code = Compiled([kernel])
    for x in (-1.0, 1.0, 6.0):
        found = code.call("function", np.zeros(0), np.array([x]))[0]
        assert found == pytest.approx(float(function((), jnp.array(x))), rel=1e-15)
