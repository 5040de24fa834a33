"""0 · kernels: the solution of sparse linear equations, written out as scalars.

Elimination without pivoting in an order that is found once from the pattern. The saddle-point matrix [M Cᵀ; C −ε] is
quasi-definite (M positive definite, ε > 0), so every order has a factor LDLᵀ [Vanderbei 1995]; but a pivot −ε alone
would lose all digits. A row of C is therefore eliminated only after all velocities that it contains: its pivot is then
one of the Delassus matrix C M⁻¹ Cᵀ + ε, as in its Cholesky factor, and what that loses one refinement restores.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np

from dalembert.kernels._graph import ONE, ZERO, Graph


def order(size: int, i: np.ndarray, j: np.ndarray) -> tuple[list[int], list[set[int]]]:
    """A fill-reducing order: always the row with the fewest neighbours that are left (minimum degree); and for each
    row those neighbours, which are the entries of its column in the factor.

    The last rows of the matrix that are not coupled with each other wait for all their neighbours: of a saddle-point
    matrix these are the rows of C. SciPy's orderings (those of SuperLU) know no such condition.
    """
    around: list[set[int]] = [set() for _ in range(size)]
    for a, b in zip(i.tolist(), j.tolist(), strict=True):
        if a != b:
            around[a].add(b)
            around[b].add(a)
    first = size
    while first > 0 and (not around[first - 1] or max(around[first - 1]) < first):
        first -= 1

    def waits(a: int) -> bool:
        return a >= first and any(b < first for b in around[a])

    heap = [(len(around[a]), a) for a in range(size) if not waits(a)]
    heapq.heapify(heap)
    done, out = [False] * size, []
    while heap:
        degree, a = heapq.heappop(heap)
        if done[a] or degree != len(around[a]):
            continue  # an older entry
        done[a] = True
        out.append(a)
        near = around[a]
        for b in near:
            others = around[b]
            others |= near
            others.discard(a)
            others.discard(b)
        for b in near:
            others = around[b]
            if not waits(b):
                heapq.heappush(heap, (len(others), b))
    return out, around


class Elimination:
    """A = L U of numbers of the graph, with unit L; U = D Lᵀ if the numbers of A are symmetric."""

    def __init__(self, graph: Graph, size: int, i: np.ndarray, j: np.ndarray, values: Iterable[int]):
        self.graph, self.order = graph, order(size, i, j)[0]
        rows: list[dict[int, int]] = [{} for _ in range(size)]
        for a, b, x in zip(i.tolist(), j.tolist(), values, strict=True):
            x = graph.add(rows[a][b], x) if b in rows[a] else x
            if x != ZERO:
                rows[a][b] = x
        self.rows = [list(row.items()) for row in rows]
        columns: list[dict[int, int]] = [{} for _ in range(size)]
        for a, row in enumerate(rows):
            for b, x in row.items():
                columns[b][a] = x
        self.over: list[int] = [ONE] * size
        self.lower: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        self.upper: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        if all(rows[a] == columns[a] for a in range(size)):
            self._symmetric(rows)
        else:
            self._general(rows, columns)

    def _symmetric(self, rows: list[dict[int, int]]) -> None:
        g = self.graph
        place = {p: k for k, p in enumerate(self.order)}
        for p in self.order:
            over = self.over[p] = g.div(ONE, rows[p].pop(p, ZERO))
            left = sorted(rows[p].items(), key=lambda entry: place[entry[0]])
            self.lower[p] = [(a, g.mul(x, over)) for a, x in left]
            self.upper[p] = self.lower[p]
            for k, (a, share) in enumerate(self.lower[p]):
                row = rows[a]
                del row[p]
                for b, x in left[k:]:
                    row[b] = rows[b][a] = g.sub(row.get(b, ZERO), g.mul(share, x))

    def _general(self, rows: list[dict[int, int]], columns: list[dict[int, int]]) -> None:
        g = self.graph
        for p in self.order:
            over = self.over[p] = g.div(ONE, rows[p].get(p, ZERO))
            below = [(a, g.mul(x, over)) for a, x in sorted(columns[p].items()) if a != p]
            right = [(b, x) for b, x in sorted(rows[p].items()) if b != p]
            self.lower[p], self.upper[p] = below, [(b, g.mul(x, over)) for b, x in right]
            for a, _ in below:
                del rows[a][p]
            for b, _ in right:
                del columns[b][p]
            for a, share in below:
                for b, x in right:
                    rows[a][b] = columns[b][a] = g.sub(rows[a].get(b, ZERO), g.mul(share, x))

    def refined(self, b: list[int]) -> list[int]:
        """x with A x = b, corrected once by its residual: as accurate as with pivoting, or better."""
        g, x = self.graph, self.solve(b)
        gap = list(b)
        for a, row in enumerate(self.rows):
            for k, entry in row:
                gap[a] = g.sub(gap[a], g.mul(entry, x[k]))
        return [g.add(*both) for both in zip(x, self.solve(gap), strict=True)]

    def solve(self, b: list[int]) -> list[int]:
        """x with A x = b, from the factors alone."""
        g, x = self.graph, list(b)
        for p in self.order:
            if x[p] != ZERO:
                for a, share in self.lower[p]:
                    x[a] = g.sub(x[a], g.mul(share, x[p]))
        for p in reversed(self.order):
            total = g.mul(x[p], self.over[p])
            for a, share in self.upper[p]:
                total = g.sub(total, g.mul(share, x[a]))
            x[p] = total
        return x
