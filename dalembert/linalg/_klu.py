"""linalg · sparse saddle-point matrices of a fixed pattern: KLU, and elimination in a fixed order.

The symbolic analysis of both is done once, and its handle is data, not a constant.
"""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox.internal import unvmap_any
from jaxtyping import Float, UInt

from dalembert._typing import Array
from dalembert.linalg._blocks import BlockMass, BlockPattern, BlockRows, Keyed
from dalembert.linalg._elimination import Elimination, available, factorised, solved

LOST = 1e-8
"""Residual of a row, relative to its terms, from which on a solution without pivots is thrown away: far above rounding,
and still eight digits in each iteration that uses it."""
# symbolic analyses live as long as the process: a handle in a compiled program must never dangle
_ANALYSES: dict[tuple, tuple] = {}


class SaddlePattern(Keyed):
    """Row-major order of the entries of [M Cᵀ; C −D]; static, equal by content."""

    def __init__(self, rows: BlockPattern, mass_mask: np.ndarray):
        self.rows, self.mask = rows, np.asarray(mass_mask, bool)
        n, m, nb, d = rows.n, rows.m, rows.blocks, rows.width
        a, b = np.nonzero(self.mask)
        base = np.arange(nb)[:, None] * d
        c_row, c_col = rows.rows[rows.inside] + n, rows.cols[rows.inside]
        i = np.concatenate([(base + a).ravel(), c_col, c_row, np.arange(n, n + m)])
        j = np.concatenate([(base + b).ravel(), c_row, c_col, np.arange(n, n + m)])
        self.order = np.lexsort((j, i))
        self.i, self.j = i[self.order].astype(np.int32), j[self.order].astype(np.int32)
        self.key = (rows.key, self.mask.tobytes())


class KLU(eqx.Module):
    """The saddle pattern with the handles of its symbolic analyses, a leaf: compiled programs stay reusable."""

    pattern: SaddlePattern = eqx.field(static=True)
    handle: UInt[Array, "2"]  # of KLU; where the plan of the elimination lies

    @classmethod
    def analyse(cls, rows: BlockPattern, mass_mask: np.ndarray) -> KLU:
        pattern = SaddlePattern(rows, mass_mask)
        return cls(pattern, _handles(pattern))

    def __getstate__(self):
        return {"pattern": self.pattern}  # a handle means nothing in another process

    def __setstate__(self, state):
        object.__setattr__(self, "pattern", state["pattern"])
        object.__setattr__(self, "handle", _handles(state["pattern"]))

    def factorise(self, mass: BlockMass, rows: BlockRows, D: Float[Array, " m"]) -> Factor:
        """[M Cᵀ; C −D], ready to be solved for several right-hand sides."""
        p = self.pattern
        c = rows.data[p.rows.inside]
        values = jnp.concatenate([mass.blocks[:, p.mask].ravel(), c, c, -D])[p.order]
        factor = None
        if available():
            elimination = _analysis(p)[1]
            factor = factor_in_order(values, self.handle, elimination.size, elimination.entries)
        return Factor(self, values, factor)


class Factor(eqx.Module):
    """A factorised saddle-point matrix: by elimination in a fixed order, and where that does not do, by KLU."""

    klu: KLU
    values: Float[Array, " entries"]
    factor: Float[Array, " factor"] | None  # of the elimination, where that is available

    def solve(self, rhs: Float[Array, "nm r"]) -> Float[Array, "nm r"]:
        """x for each column of rhs: of the elimination where its residual is small, else of KLU with pivots."""
        p, handle = self.klu.pattern, self.klu.handle
        if self.factor is None:
            return klu_solve(p.i, p.j, self.values, rhs, handle)
        return solved_in_order(p.i, p.j, self.values, rhs, self.factor, handle)

    def solve_roughly(self, rhs: Float[Array, "nm r"]) -> Float[Array, "nm r"]:
        """The same without a look at the residual, which the caller takes; the last column is not refined, either:
        machine code (`kernels`) refines none."""
        p, handle = self.klu.pattern, self.klu.handle
        if self.factor is None:
            return klu_solve(p.i, p.j, self.values, rhs, handle)
        return solved_roughly(p.i, p.j, self.values, rhs, self.factor, handle)


def klu_solve(i, j, values, rhs, handle):
    import klujax

    # the primitive itself: the public wrapper sorts the (already sorted) indices at run time
    i, j = jnp.asarray(i), jnp.asarray(j)
    return klujax.solve_with_symbol_f64.bind(i, j, values[None], rhs[None], handle[0])[0]


# `kernels` has a rule for functions of these names
@functools.partial(jax.jit, static_argnums=(2, 3))
def factor_in_order(values, handle, size: int, entries: int):
    """The factor of the elimination in a fixed order."""
    return factorised(values, handle[1], size, entries)


@jax.jit
def solved_in_order(i, j, values, rhs, factor, handle):
    """The solution by elimination in a fixed order; by KLU where its residual says that pivots are needed."""
    x, lost = solved(values, factor, rhs, handle[1], rhs.shape[1], LOST)
    return jax.lax.cond(unvmap_any(lost > 0), lambda: klu_solve(i, j, values, rhs, handle), lambda: x)


@jax.jit
def solved_roughly(i, j, values, rhs, factor, handle):
    """The solution by elimination in a fixed order, whatever it is."""
    return solved(values, factor, rhs, handle[1], max(1, rhs.shape[1] - 1))[0]


def _handles(pattern: SaddlePattern) -> np.ndarray:
    symbols, elimination = _analysis(pattern)
    return np.array([int(symbols.raw), 0 if elimination is None else elimination.address], np.uint64)


def _analysis(pattern: SaddlePattern) -> tuple:
    import klujax

    if pattern.key not in _ANALYSES:
        size = pattern.rows.n + pattern.rows.m
        with jax.ensure_compile_time_eval():
            symbols = klujax.analyze(jnp.asarray(pattern.i), jnp.asarray(pattern.j), size)
        elimination = Elimination(size, pattern.i, pattern.j) if available() else None
        _ANALYSES[pattern.key] = symbols, elimination
    return _ANALYSES[pattern.key]
