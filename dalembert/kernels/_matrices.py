"""0 · kernels: matrices in scalars: factorisations, triangular and sparse equations."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from dalembert.kernels import _lapack
from dalembert.kernels._eliminate import Elimination
from dalembert.kernels._graph import ONE, ZERO, Unknown

if TYPE_CHECKING:
    from dalembert.kernels._scalarise import Walk


def cholesky(walk: Walk, a, **_):
    return _each_matrix(functools.partial(_cholesky, walk), a)


def _cholesky(walk: Walk, a):
    """L by way of U D⁻¹ Uᵀ: a column then waits for one division, not for a root and a division."""
    g, m = walk.graph, len(a)
    lower = [[ZERO] * m for _ in range(m)]
    rows: list[list[tuple[int, int]]] = [[] for _ in range(m)]  # (column, number) that are not zero
    inverse: list[int] = []
    for j in range(m):
        pivot = int(a[j, j])
        shares = [(k, x, g.mul(x, inverse[k])) for k, x in rows[j]]
        for _, x, share in shares:
            pivot = g.sub(pivot, g.mul(x, share))
        inverse.append(g.div(ONE, pivot))
        lower[j][j] = g.unary("sqrt", pivot)
        over = g.mul(lower[j][j], inverse[j])  # 1/√d, without another division
        mine = {k: share for k, _, share in shares}
        for i in range(j + 1, m):
            x = int(a[i, j])
            for k, y in rows[i]:
                if k in mine:
                    x = g.sub(x, g.mul(y, mine[k]))
            if x != ZERO:
                lower[i][j] = g.mul(x, over)
                rows[i].append((j, x))
    return np.array(lower, int).reshape(m, m)


def triangular_solve(walk: Walk, a, b, *, left_side, lower, transpose_a, unit_diagonal, **_):
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, shape + a.shape[-2:]), np.broadcast_to(b, shape + b.shape[-2:])
    if not left_side:
        a, b, lower = a.swapaxes(-1, -2), b.swapaxes(-1, -2), not lower
    if transpose_a:
        a, lower = a.swapaxes(-1, -2), not lower
    out = _each_matrix(lambda x, y: _triangular(walk, x, y, lower, unit_diagonal), a, b)
    return out if left_side else out.swapaxes(-1, -2)


def _triangular(walk: Walk, a, b, lower, unit):
    g, m = walk.graph, len(a)
    order = range(m) if lower else range(m - 1, -1, -1)
    rows = [[(k, int(a[i, k])) for k in (range(i) if lower else range(i + 1, m)) if a[i, k] != ZERO]
            for i in range(m)]  # fmt: skip
    out = np.full(b.shape, ZERO)
    over = [ONE if unit else g.div(ONE, int(a[i, i])) for i in range(m)]
    for c in range(b.shape[1]):
        x = [ZERO] * m
        for i in order:
            total = int(b[i, c])
            for k, l in rows[i]:
                total = g.sub(total, g.mul(l, x[k]))
            x[i] = g.mul(total, over[i])
        out[:, c] = x
    return out


def svd(walk: Walk, a, *, full_matrices, compute_uv, subset_by_index=None, **_):
    if subset_by_index is not None or not a.size:
        raise Unknown("the operation 'svd' of a part")
    if a.ndim > 2:
        return _stacked(lambda x: svd(walk, x, full_matrices=full_matrices, compute_uv=compute_uv), a)
    m, n = a.shape
    k = min(m, n)
    way = _lapack.SINGULAR_VALUES if not compute_uv else _lapack.WHOLE if full_matrices else _lapack.THIN
    wide = (m, n) if full_matrices else (k, k)
    count = k + (m * wide[0] + wide[1] * n if compute_uv else 0)
    out = np.array(walk.graph.external("svd", a.T.ravel().tolist(), m, n, way, count), int)
    if not compute_uv:
        return [out]
    U, Vt = np.split(out[k:], [m * wide[0]])
    return [out[:k], U.reshape(wide[0], m).T, Vt.reshape(n, wide[1]).T]


def eigh(walk: Walk, a, *, lower, subset_by_index=None, **_):
    if subset_by_index is not None or not a.size:
        raise Unknown("the operation 'eigh' of a part")
    if a.ndim > 2:
        return _stacked(lambda x: eigh(walk, x, lower=lower), a)
    n = len(a)
    given = a.T if lower else a  # by columns, the lower triangle
    out = np.array(walk.graph.external("eigh", given.ravel().tolist(), n, n, 0, n * n + n), int)
    return [out[: n * n].reshape(n, n).T, out[n * n :]]


def lu(walk: Walk, a, **_):
    if a.ndim > 2:
        return _stacked(functools.partial(lu, walk), a)
    if not a.size:
        raise Unknown("the operation 'lu' of an empty matrix")
    g, (m, n) = walk.graph, a.shape
    k = min(m, n)
    out = np.array(g.external("lu", a.T.ravel().tolist(), m, n, 0, m * n + k), int)
    pivots = out[m * n :].tolist()
    order = [g.constant(i) for i in range(m)]
    for i, p in enumerate(pivots):  # rows i and p change places
        at = [g.compare("eq", p, g.constant(j)) for j in range(m)]
        there = order[i]
        for j in range(i + 1, m):
            there = g.select(at[j], there, order[j])
        order = [there if j == i else order[j] if j < i else g.select(at[j], order[j], order[i]) for j in range(m)]
    return [out[: m * n].reshape(n, m).T, np.array(pivots, int), np.array(order, int)]


def _stacked(function, a) -> list[np.ndarray]:
    """The results of `function` for each matrix of an array of them."""
    before = a.shape[:-2]
    found = [function(x) for x in a.reshape(int(np.prod(before)), *a.shape[-2:])]
    return [np.stack(x).reshape([*before, *x[0].shape]) for x in zip(*found, strict=True)]


def sparse_solve(walk: Walk, i, j, values, b, *_, rough: bool = False, **__):
    """KLU's solution of A x = b for each matrix of a batch, several right-hand sides each.

    It is corrected once by its residual, unless it is `rough` or within a loop: that is an iteration, which does
    so by itwalk.
    """
    i, j, out = walk.values(i), walk.values(j), np.full(b.shape, ZERO)
    for k in range(b.shape[0]):
        key = (i.tobytes(), j.tobytes(), values[k].tobytes(), id(walk.graph.lowest))
        if key not in walk.eliminated:
            walk.eliminated[key] = Elimination(walk.graph, b.shape[1], i, j, values[k].tolist())
        factors = walk.eliminated[key]
        refined = walk.graph.now is walk.graph.main and not rough
        solve = factors.refined if refined else factors.solve
        for c in range(b.shape[2]):
            out[k, :, c] = solve(b[k, :, c].tolist())
    return out


def _each_matrix(function, *arrays):
    """The result of `function` for each matrix of arrays of them."""
    shape = arrays[0].shape[:-2]
    if not shape:
        return function(*arrays)
    flat = [a.reshape(int(np.prod(shape)), *a.shape[-2:]) for a in arrays]
    out = np.stack([function(*x) for x in zip(*flat, strict=True)]) if len(flat[0]) else flat[-1]
    return out.reshape([*shape, *out.shape[1:]])
