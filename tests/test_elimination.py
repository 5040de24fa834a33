"""Elimination in a fixed order inside programs of XLA, against dense solutions and against KLU."""

from __future__ import annotations

import ctypes

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.kernels import _remember, available
from dalembert.linalg import SparseSaddle, _klu
from dalembert.linalg._elimination import Elimination, factorised, factorised_rows, solved, solved_rows
from dalembert.systems import without_names

pytestmark = pytest.mark.skipif(not available(), reason="the interface of this JAX to foreign functions was not tried")


def saddle(seed: int, bodies: int = 6, rows: int = 8, shift: float = 1e-15):
    """[M Cᵀ; C −shift] of a chain of blocks of three with rows that couple neighbours; its pattern, and a copy."""
    rng = np.random.default_rng(seed)
    n = 3 * bodies
    A = np.zeros((n + rows, n + rows))
    for b in range(bodies):
        G = rng.standard_normal((3, 3))
        A[3 * b : 3 * b + 3, 3 * b : 3 * b + 3] = G @ G.T + np.eye(3)
    for r in range(rows):
        b = r * (bodies - 1) // rows
        A[n + r, 3 * b : 3 * b + 6] = A[3 * b : 3 * b + 6, n + r] = rng.standard_normal(6)
        A[n + r, n + r] = -shift
    i, j = np.nonzero(A)
    return A, i.astype(np.int32), j.astype(np.int32)


def eliminated(A, i, j, b, refined):
    plan = Elimination(len(A), i, j)
    address = np.array(plan.address, np.uint64)

    def both(values, b):
        return solved(values, factorised(values, address, plan.size, plan.entries), b, address, refined, 1e-8)

    return jax.jit(both)(A[i, j], b)


@pytest.mark.parametrize("seed", range(4))
def test_it_solves_as_dense_elimination_does(seed):
    A, i, j = saddle(seed)
    b = np.random.default_rng(seed).standard_normal((len(A), 3))
    (found, lost), expected = eliminated(A, i, j, b, 2), np.linalg.solve(A, b)
    assert lost == 0
    found = np.asarray(found)
    # two columns are refined: rounding times the conditioning; the last is not, and has some digits fewer
    exact = 100 * np.finfo(float).eps * np.linalg.cond(A) * np.abs(expected).max()
    assert np.max(np.abs(found[:, :2] - expected[:, :2])) < exact
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-6, atol=1e-6)


def test_the_loop_runs_in_python_as_in_machine_code():
    A, i, j = saddle(0, 3, 3)
    plan = Elimination(len(A), i, j)
    b = np.arange(2.0 * len(A))
    x, factor, lost = np.zeros(2 * len(A)), np.zeros(plan.size + plan.entries), np.zeros(1)
    factorised_rows(A[i, j], plan.plan, factor)
    rest = np.zeros(len(A)), np.zeros(len(A)), lost
    solved_rows(A[i, j], b, factor, plan.plan, np.array([2.0, 1.0, 1e-8]), x, *rest)
    expected = np.asarray(eliminated(A, i, j, b.reshape(-1, 2), 1)[0])
    np.testing.assert_allclose(x.reshape(-1, 2), expected, rtol=1e-8, atol=1e-8)  # with and without fused products
    assert lost[0] == 0
    factor[2] *= 1 + 1e-3  # rows of another matrix
    solved_rows(A[i, j], b, factor, plan.plan, np.array([2.0, 0.0, 1e-8]), x, *rest)
    assert lost[0] > 0


def test_it_can_be_mapped():
    A, i, j = saddle(1)
    plan = Elimination(len(A), i, j)
    address = np.array(plan.address, np.uint64)
    factors = np.array([1.0, 2.0, 5.0])
    b = np.random.default_rng(1).standard_normal((len(A), 1))

    def one(s):
        values = s * jnp.asarray(A[i, j])
        return solved(values, factorised(values, address, plan.size, plan.entries), b, address, 1)[0]

    one = jax.vmap(one)
    np.testing.assert_allclose(
        jax.jit(one)(factors), np.linalg.solve(A, b) / factors[:, None, None], rtol=1e-9, atol=1e-9
    )


def test_the_plan_stays_where_it_is():
    """Compiled programs are given an address: the array behind it must not move or go."""
    system = da.build(da.mechanism("n-four-bar", N=20))
    assert system.klu is not None
    address = int(system.klu.handle[1])
    found = _klu._analysis(system.klu.pattern)[1]
    assert address == found.plan.ctypes.data
    assert ctypes.cast(address, ctypes.POINTER(ctypes.c_int32))[0] == found.size


def test_where_nothing_was_found_without_pivots_klu_is_asked(monkeypatch):
    """Numbers that are not finite must not go on: with pivots the equations are solved."""
    system = da.build(da.mechanism("n-four-bar", N=20))
    equations = da.assemble(system, 0.0, system.q0, system.v0)
    expected = da.formulations.Proximal().solve(equations).vdot
    saddle = equations.factorise()
    g = np.random.default_rng(3).standard_normal((saddle.D.shape[0], 1))
    correction = np.asarray(saddle.correct(g))
    for spoilt in (np.nan, 1e3):
        # whatever the elimination finds
        monkeypatch.setattr(_klu, "factorised", lambda *given, s=spoilt: jnp.full(sum(given[2:]), s))
        jax.clear_caches()
        found = da.formulations.Proximal().solve(da.assemble(system, 0.0, system.q0, system.v0)).vdot
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
        jax.clear_caches()
        again = da.assemble(system, 0.0, system.q0, system.v0).factorise()
        np.testing.assert_allclose(again.correct(g), correction, rtol=0, atol=1e-9 * np.max(np.abs(correction)))
    monkeypatch.undo()
    jax.clear_caches()


def test_one_factor_serves_refinements_and_corrections(monkeypatch):
    """Neither a right-hand side nor a correction asks KLU, and each factorises once."""
    system = da.build(da.mechanism("n-four-bar", N=20))
    asked, made, factorised = [], [], _klu.factorised
    monkeypatch.setattr(_klu, "klu_solve", lambda *given: asked.append(given) or given[3])
    monkeypatch.setattr(_klu, "factorised", lambda *given: made.append(given) or factorised(*given))
    jax.clear_caches()
    equations = da.assemble(system, 0.0, system.q0, system.v0)
    saddle = equations.factorise()
    assert isinstance(saddle, SparseSaddle)
    attempt = jax.jit(lambda s, a, g: s.attempt(a, g))
    text = attempt.lower(saddle, equations.h, equations.Gamma).as_text()
    assert text.count("@dalembert.factorise") == 1 and len(made) == 1
    found = attempt(saddle, equations.h, equations.Gamma)
    assert float(found.residual) < 1e-12
    monkeypatch.undo()
    jax.clear_caches()


def test_without_the_interface_klu_does_it(monkeypatch):
    monkeypatch.setattr(_klu, "available", lambda: False)
    monkeypatch.setattr(_klu, "_ANALYSES", {})
    system = da.build(da.mechanism("n-four-bar", N=21))
    assert int(system.klu.handle[1]) == 0
    equations = da.assemble(system, 0.0, system.q0, system.v0)
    found = da.formulations.Proximal().solve(equations).vdot
    # both equations in one, by singular values
    M, C = np.asarray(equations.M), np.asarray(equations.C)
    whole = np.block([[M, C.T], [C, np.zeros((len(C), len(C)))]])
    goal = np.concatenate([equations.h, equations.Gamma])
    expected = np.linalg.lstsq(whole, goal, rcond=1e-14)[0][: system.n]
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.max(np.abs(expected)))


def test_a_large_machine_can_be_linearised():
    """Its hanging chain in absolute coordinates, with rows solved by elimination, against the same in angles."""
    model = da.mechanism("chain", N=16)
    found = {}
    for coordinates in ("absolute", "joint"):
        system = da.build(model, coordinates=coordinates)
        assert coordinates == "joint" or system.klu is not None
        rest = da.equilibrium(system)
        found[coordinates] = np.sort(np.abs(da.linearise(system, rest).eigenvalues.imag))
    np.testing.assert_allclose(found["absolute"], found["joint"], rtol=1e-7)  # 16 pairs within a factor of 50


def test_machine_code_is_kept_whatever_the_addresses_of_a_process():
    """Another process has its plan of the elimination elsewhere: what it finds on disk must have the same name."""
    system = da.build(da.mechanism("n-four-bar", N=20))
    elsewhere = eqx.tree_at(lambda s: s.klu.handle, system, system.klu.handle + np.uint64(4096))
    here = _remember._name(da.assemble, without_names(system), ())
    assert here is not None and here == _remember._name(da.assemble, without_names(elsewhere), ())
