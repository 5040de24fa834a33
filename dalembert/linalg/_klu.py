"""linalg · KLU on a fixed pattern: the symbolic analysis is done once and its handle is data, not a constant."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt

from dalembert._typing import Array
from dalembert.linalg._blocks import BlockMass, BlockPattern, BlockRows

# symbolic analyses live as long as the process: a handle in a compiled program must never dangle
_ANALYSES: dict[tuple, object] = {}


class SaddlePattern:
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
        self._hash = hash(self.key)

    def __getstate__(self):
        return {k: x for k, x in vars(self).items() if k != "_hash"}

    def __setstate__(self, state):
        vars(self).update(state)
        self._hash = hash(self.key)  # of this process

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other) -> bool:
        return self is other or (
            isinstance(other, SaddlePattern) and self._hash == other._hash and self.key == other.key
        )


class KLU(eqx.Module):
    """The saddle pattern with the handle of its symbolic analysis, a leaf: compiled programs stay reusable."""

    pattern: SaddlePattern = eqx.field(static=True)
    handle: UInt[Array, ""]

    @classmethod
    def analyse(cls, rows: BlockPattern, mass_mask: np.ndarray) -> KLU:
        pattern = SaddlePattern(rows, mass_mask)
        return cls(pattern, np.array(_analysis(pattern), np.uint64))

    def __getstate__(self):
        return {"pattern": self.pattern}  # a handle means nothing in another process

    def __setstate__(self, state):
        object.__setattr__(self, "pattern", state["pattern"])
        object.__setattr__(self, "handle", np.array(_analysis(state["pattern"]), np.uint64))

    def solve(
        self,
        mass: BlockMass,
        rows: BlockRows,
        D: Float[Array, " m"],
        rhs: Float[Array, "nm r"],
        rough: bool = False,
    ):
        """Solve [M Cᵀ; C −D] x = rhs, factorising once for all columns of rhs; `rough`: the caller looks at the
        residual, or needs some digits only, which machine code makes use of (`kernels`)."""
        p = self.pattern
        c = rows.data[p.rows.inside]
        values = jnp.concatenate([mass.blocks[:, p.mask].ravel(), c, c, -D])[p.order]
        i, j = jnp.asarray(p.i), jnp.asarray(p.j)
        solve = klu_rough if rough else klu_solve
        return solve(i, j, values[None], rhs[None], self.handle)[0]


def klu_solve(i, j, values, rhs, handle):
    import klujax

    # the primitive itself: the public wrapper sorts the (already sorted) indices at run time
    return klujax.solve_with_symbol_f64.bind(i, j, values, rhs, handle)


@jax.jit
def klu_rough(i, j, values, rhs, handle):
    """The same; `kernels` has a rule for a function of this name."""
    return klu_solve(i, j, values, rhs, handle)


def _analysis(pattern: SaddlePattern) -> int:
    import klujax

    if pattern.key not in _ANALYSES:
        with jax.ensure_compile_time_eval():
            size = pattern.rows.n + pattern.rows.m
            _ANALYSES[pattern.key] = klujax.analyze(jnp.asarray(pattern.i), jnp.asarray(pattern.j), size)
    return int(_ANALYSES[pattern.key].raw)  # type: ignore[attr-defined]
