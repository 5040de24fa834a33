"""linalg · sparse saddle-point matrices of a fixed pattern: KLU, and elimination in a fixed order.

The symbolic analysis of both is done once, and its handle is data, not a constant.
"""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt

from dalembert._typing import Array
from dalembert.linalg._blocks import BlockMass, BlockPattern, BlockRows, Keyed
from dalembert.linalg._elimination import Elimination, available, eliminated

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

    def solve(
        self,
        mass: BlockMass,
        rows: BlockRows,
        D: Float[Array, " m"],
        rhs: Float[Array, "nm r"],
        way: str = "pivots",
    ):
        """Solve [M Cᵀ; C −D] x = rhs, factorising once for all columns of rhs.

        `way`: "pivots" by KLU; "order" in a fixed order without pivots, three times as fast, where the caller looks at
        the residual; "rough" the same, where some digits are enough, which machine code makes use of (`kernels`).
        """
        p = self.pattern
        c = rows.data[p.rows.inside]
        values = jnp.concatenate([mass.blocks[:, p.mask].ravel(), c, c, -D])[p.order]
        if way != "pivots" and available():
            elimination = _analysis(p)[1]
            solve = solved_roughly if way == "rough" else solved_in_order
            return solve(p.i, p.j, values, rhs, self.handle, elimination.size, elimination.entries)
        return klu_solve(p.i, p.j, values, rhs, self.handle)


def klu_solve(i, j, values, rhs, handle):
    import klujax

    # the primitive itself: the public wrapper sorts the (already sorted) indices at run time
    i, j = jnp.asarray(i), jnp.asarray(j)
    return klujax.solve_with_symbol_f64.bind(i, j, values[None], rhs[None], handle[0])[0]


# `kernels` has a rule for functions of these names
@functools.partial(jax.jit, static_argnums=(5, 6))
def solved_in_order(i, j, values, rhs, handle, size: int, entries: int):
    """The solution by elimination in a fixed order."""
    return eliminated(values, rhs, handle[1], size, entries)


@functools.partial(jax.jit, static_argnums=(5, 6))
def solved_roughly(i, j, values, rhs, handle, size: int, entries: int):
    """The same where some digits are enough."""
    return eliminated(values, rhs, handle[1], size, entries)


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
