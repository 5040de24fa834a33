"""Graphs of scalars as functions of JAX over many members: the same numbers as the machine code and as the function."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_gpu import case

from dalembert.kernels import Compiled, Kernel, as_jax
from dalembert.kernels._graph import BINARY, BOOLEAN, UNARY, Graph
from dalembert.kernels._jax import OPERATIONS
from dalembert.kernels._llvm import Written

ROUNDING = 1e-13
"""The same operations on the same numbers; compilers fuse some of them, and libraries round otherwise."""
MEMBERS = 5


def compare(function, parameters, inputs, rtol=ROUNDING):
    """The function, its machine code and its graph in JAX, for members whose inputs differ."""
    kernel = Kernel.of("f", function, parameters, inputs)
    setup, main = as_jax(kernel.written)
    machine = Compiled([kernel])
    factors = np.linspace(0.8, 1.2, MEMBERS)
    numbers = np.concatenate([np.ravel(x) for x in jax.tree_util.tree_leaves(parameters)] or [np.zeros(0)])
    flat = np.concatenate([np.ravel(x) for x in jax.tree_util.tree_leaves(inputs)])
    rows = flat[:, None] * factors
    kept = setup([jnp.asarray(x) for x in numbers])
    found = np.stack(jax.jit(lambda k, x: main(k, list(x)))(kept, jnp.asarray(rows)))
    expected = np.stack([machine.call("f", numbers, rows[:, k].copy()) for k in range(MEMBERS)], axis=1)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=ROUNDING)
    leaves, tree = jax.tree_util.tree_flatten(inputs)
    for k in range(MEMBERS):
        scaled = jax.tree_util.tree_unflatten(tree, [np.asarray(x) * factors[k] for x in leaves])
        out = jax.tree_util.tree_leaves(function(parameters, scaled))
        np.testing.assert_allclose(found[:, k], np.concatenate([np.ravel(x) for x in out]), rtol=rtol, atol=ROUNDING)


def test_every_operation_is_known():
    """Against the functions that fold constants, which are Python's and NumPy's."""
    assert OPERATIONS.keys() >= {*UNARY, *BINARY, *BOOLEAN, "add", "sub", "mul", "div", "neg", "select"}
    graph = Graph()
    x, y = (graph.input("input", k, graph.main) for k in range(2))
    outputs = [graph.node(op, x) for op in UNARY] + [graph.node(op, x, y) for op in BINARY]
    _, main = as_jax(Written("all", graph, outputs))
    xs, ys = np.array([0.13, 0.77, 0.5]), np.array([-0.31, 0.29, -2.5])
    found = np.asarray(main((), [jnp.asarray(xs), jnp.asarray(ys)]))
    pairs = list(zip(xs.tolist(), ys.tolist(), strict=True))
    expected = [[f(a) for a, _ in pairs] for f in UNARY.values()] + [[f(*ab) for ab in pairs] for f in BINARY.values()]
    np.testing.assert_allclose(found, expected, rtol=ROUNDING)


def test_arithmetic_and_truth():
    def f(p, x):
        a = jnp.where((x > p["a"]) & ~(x > 2.0) | (x < 0.3), jnp.sin(x) * p["a"], jnp.sqrt(x) / x)
        rest = jnp.stack([jnp.max(x), jnp.floor(3 * x[0]), jnp.round(2.6 * x[1]), jnp.trunc(-3.3 * x[2]), x[0] % x[1]])
        more = jnp.stack([jnp.arctan2(x[0], -x[1]), x[1] ** 1.7])
        return a, rest, more, jnp.asarray(x[0] > p["a"]), jax.lax.reduce_precision(x, 11, 30)

    compare(f, {"a": np.array(0.37)}, np.array([0.21, 0.77, 2.4]))


def test_loops_end_for_each_member_by_itself():
    def f(p, x):
        counted = jax.lax.fori_loop(0, 3, lambda _, y: jnp.cos(y) * p, x)
        halved, count = jax.lax.while_loop(lambda s: s[0] > p, lambda s: (0.5 * s[0], s[1] + 1.0), (x[0], 0.0))
        return counted, halved, count

    compare(f, np.array(0.7), np.array([40.0, 0.3]))


@pytest.mark.parametrize("name", ["field", "close", "adapt", "saved"])
def test_kernels_of_a_march(monkeypatch, name):
    """Each kernel of an adaptive march of the four-bar, at its start, against the machine code."""
    machine, parameters, (row, *_), limits, _ = case(
        monkeypatch, "four-bar", 0.1, samples=6, rtol=1e-6, integrator="tsit5"
    )
    compiled = next(c for c in (machine.many, machine.shown, machine.one) if name in c.kernels)
    kernel = compiled.kernels[name]
    ny, ns = machine.y_tree.size, machine.state_tree.size
    y, state = row[2 : 2 + ny], row[2 + ny : 2 + ny + ns]
    inputs = {
        "field": [0.1, *y],
        "saved": [0.1, *y],
        "close": [0.1, *y, *(1e-5 * y)],
        "adapt": [0.0, 0.1, *y, *(1.001 * y), *(1e-9 * y), *state, *np.minimum(limits, 1e9)],
    }[name]
    setup, main = as_jax(kernel.written)
    kept = jax.jit(setup)(list(jnp.asarray(parameters)))
    np.testing.assert_allclose(np.asarray(kept), compiled.setup(name, parameters)[0], rtol=ROUNDING)
    found = jax.jit(main)(kept, [jnp.full(MEMBERS, x) for x in inputs])
    expected = compiled.call(name, parameters, np.asarray(inputs, float))
    # an acceleration is the solution of equations whose condition is some thousands
    np.testing.assert_allclose(np.asarray(found), np.repeat(expected[:, None], MEMBERS, 1), rtol=1e-9, atol=1e-9)
