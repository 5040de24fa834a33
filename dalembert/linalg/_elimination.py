"""linalg · elimination in an order that is found once: a loop over indices in machine code, for large machines.

A = L D Lᵀ without pivoting, of a symmetric quasi-definite matrix [Vanderbei 1995], each row of C after its velocities
(`kernels.order`). What that loses one refinement restores; the caller looks at the residual. The factor is found once
and serves all right-hand sides of the same matrix. SciPy and KLU look for pivots anew at each factorisation, which
takes two to three times as long, and KLU keeps no factor between two calls inside a compiled program.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.kernels import Indices, Numbers, at, available, operation, order

FACTORISE, SOLVE = "dalembert.factorise", "dalembert.solve"


def factorised_rows(values: Numbers, plan: Indices, factor: Numbers):
    """The factor of A: 1/D, then the columns of L below the diagonal."""
    n = plan[0]
    entries = plan[1]
    pairs = plan[2]
    given = plan[3]
    first = at(plan, 4 + n)
    target = at(first, n + 1 + entries)
    place = at(target, pairs)
    for k in range(n + entries):
        factor[k] = 0.0
    for k in range(given):
        if place[k] >= 0:
            factor[place[k]] = factor[place[k]] + values[k]
    below = at(factor, n)
    count = 0
    for k in range(n):
        over = 1.0 / factor[k]
        factor[k] = over
        begin = first[k]
        end = first[k + 1]
        for s in range(begin, end):
            share = below[s] * over
            for t in range(s, end):
                factor[target[count]] = factor[target[count]] - share * below[t]
                count += 1
        for s in range(begin, end):
            below[s] = below[s] * over


def solved_rows(
    values: Numbers,
    rhs: Numbers,
    factor: Numbers,
    plan: Indices,
    shape: Numbers,
    x: Numbers,
    y: Numbers,
    gap: Numbers,
    lost: Numbers,
):
    """x with A x = rhs for shape[0] columns, of which the first shape[1] are refined once; lost[0] is the number of
    rows whose residual is more than shape[2] times their terms (with 0 nobody looks)."""
    n = plan[0]
    entries = plan[1]
    pairs = plan[2]
    given = plan[3]
    order = at(plan, 4)
    first = at(order, n)
    rows = at(first, n + 1)
    i = at(rows, entries + pairs + given)
    j = at(i, given)
    below = at(factor, n)
    columns = int(shape[0])
    lost[0] = 0.0
    for q in range(columns):
        for k in range(n):
            gap[k] = rhs[k * columns + q]
            x[k * columns + q] = 0.0
        turns = 1
        if q < int(shape[1]):
            turns = 2
        for turn in range(turns):
            if turn == 1:
                for k in range(given):
                    gap[i[k]] = gap[i[k]] - values[k] * x[j[k] * columns + q]
            for k in range(n):
                y[k] = gap[order[k]]
            for k in range(n):
                for s in range(first[k], first[k + 1]):
                    y[rows[s]] = y[rows[s]] - below[s] * y[k]
            for back in range(n):
                k = n - 1 - back
                total = y[k] * factor[k]
                for s in range(first[k], first[k + 1]):
                    total = total - below[s] * y[rows[s]]
                y[k] = total
            for k in range(n):
                x[order[k] * columns + q] = x[order[k] * columns + q] + y[k]
        if shape[2] > 0.0:
            for k in range(n):
                gap[k] = rhs[k * columns + q]
                y[k] = abs(gap[k])
            for k in range(given):
                term = values[k] * x[j[k] * columns + q]
                gap[i[k]] = gap[i[k]] - term
                y[i[k]] = y[i[k]] + abs(term)
            for k in range(n):
                if not abs(gap[k]) <= shape[2] * y[k]:  # what is not finite, too
                    lost[0] = lost[0] + 1.0


class Elimination:
    """The plan of all eliminations of one pattern; `address` is where it lies in the memory of this process."""

    def __init__(self, size: int, i: np.ndarray, j: np.ndarray):
        operation(FACTORISE, factorised_rows, 1)
        operation(SOLVE, solved_rows, 4)
        sequence, columns = order(size, i, j)
        number = np.empty(size, np.int64)
        number[sequence] = np.arange(size)
        rows = [np.sort(number[np.fromiter(columns[a], np.int64, len(columns[a]))]) for a in sequence]
        lengths = np.array([len(r) for r in rows])
        first = np.concatenate([[0], np.cumsum(lengths)])
        below = np.concatenate([np.zeros(0, np.int64), *rows])
        # where an entry (row, column) of the factor lies: diagonals first, then column by column
        keys = np.repeat(np.arange(size), lengths) * size + below

        def places(row, column):
            return np.where(row == column, row, size + np.searchsorted(keys, column * size + row))

        pairs = []
        for length in np.unique(lengths):
            a, b = np.triu_indices(length)
            of = np.flatnonzero(lengths == length)
            table = below[first[of][:, None] + np.arange(length)] if length else np.zeros((len(of), 0), np.int64)
            found = places(table[:, b], table[:, a])
            pairs.append((of, found))
        counts = lengths * (lengths + 1) // 2
        starts = np.concatenate([[0], np.cumsum(counts)])
        target = np.empty(starts[-1], np.int64)
        for of, found in pairs:
            target[starts[of][:, None] + np.arange(found.shape[1])] = found
        row, column = number[i], number[j]
        place = np.where(row >= column, places(np.maximum(row, column), np.minimum(row, column)), -1)
        head = [size, len(below), len(target), len(i)]
        self.size, self.entries = size, len(below)
        self.plan = np.concatenate([head, sequence, first, below, target, place, i, j]).astype(np.int32)

    @property
    def address(self) -> int:
        return self.plan.ctypes.data


def factorised(values, address, size: int, entries: int):
    """The factor of A, for `solved`."""
    call = jax.ffi.ffi_call(FACTORISE, jax.ShapeDtypeStruct((size + entries,), float), vmap_method="sequential")
    return call(values, address)


def solved(values, factor, rhs, address, refined: int, most: float = 0.0):
    """x with A x = rhs, its first columns refined once by the residual of A itself; and how many rows have a residual
    of more than `most` times their terms (0: nobody looks)."""
    size, columns = rhs.shape
    kinds = [jax.ShapeDtypeStruct(s, float) for s in ((size, columns), (size,), (size,), (1,))]
    call = jax.ffi.ffi_call(SOLVE, kinds, vmap_method="sequential")
    x, _, _, lost = call(values, rhs, factor, address, jnp.array([columns, refined, most], float))
    return x, lost[0]


__all__ = ["Elimination", "available", "factorised", "solved"]
