"""5 · formulations: the default, which takes redundant constraints and singular positions as they come."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from equinox.internal import unvmap_any, while_loop

from dalembert._typing import Rows
from dalembert.equations import ROUNDED, Equations, assemble
from dalembert.formulations._base import AbstractFormulation, Acceleration, Motion, with_reaction, with_rhs
from dalembert.linalg import NEAR, RANK_TOLERANCE, SOLVED

CORRECTIONS = 4
"""At most so many of a stage, which is moved onto the constraints first where the margin of the rows is below `NEAR`: a
violation e makes accelerations wrong by e/σ², and a step cannot tell that from the motion."""


class Proximal(AbstractFormulation):
    """The augmented equations [M Cᵀ; C 0], solved so that dependent rows and singular positions are normal.

    Small systems eliminate v̇ (range space: Blajer, Bestle, Schiehlen 1994, eq. 35) and take a Cholesky of the scaled
    Delassus matrix; large ones factorise the sparse saddle-point matrix [Wojtyra, Fraczek 2013, eq. 11] with KLU. What
    these give is refined until it solves the equations; where that fails singular values are taken. Beside a singular
    position, and with dependent rows, a stage of a step is first put onto the constraints. Where constraints
    contradict each other it gives the least-squares motion in the mass metric, and the march reports it. Cost O(m³)
    dense, about linear in the bodies when sparse.

    `kept` (1 or 0 a row) says which rows stand for all where others depend on them; the march then needs no correction
    of its stages as long as those are well apart. `simulate` finds them; without, every row counts.
    """

    kept: Rows | None = None

    def solve(self, equations: Equations) -> Acceleration:
        return with_reaction(equations, equations.factorise().solve(equations.h, equations.Gamma)[0])

    def motion(self, system, t, q, w, memory, rhs, *, exact: bool = False, loop: str = "lax") -> Motion:
        if system.m == 0:
            return super().motion(system, t, q, w, memory, rhs)

        def evaluate(carry):
            _, k, q, v, _, _, _ = carry
            equations = with_rhs(assemble(system, t, q, v), rhs)
            found = equations.factorise(self.kept).attempt(equations.h, equations.Gamma)
            gap = equations.violation(system.scale())
            off = (gap > ROUNDED) & ~(found.margin > NEAR)
            if not exact:  # a drift that the method is meant to show is not taken away
                return jnp.array(False), k + 1, q, v, equations, found, gap
            off = off & (k < CORRECTIONS)
            q, v = jax.lax.cond(unvmap_any(off), lambda: equations.corrected(system, gap, off), lambda: (q, v))
            return off, k + 1, q, v, equations, found, gap

        start = (jnp.array(True), jnp.zeros((), int), q, w)
        shapes = jax.eval_shape(lambda: evaluate((*start, None, None, None))[4:])
        empty = jax.tree_util.tree_map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        done: Any = while_loop(lambda c: c[0], evaluate, (*start, *empty), max_steps=CORRECTIONS + 1, kind=loop)
        *_, equations, found, gap = done
        solved = found.residual <= SOLVED
        if self.kept is not None:
            solved = solved & (found.margin > NEAR)

        def otherwise():
            # directions that the violation itself could have made are not trusted
            exact = equations.factorise().exact(equations.h, equations.Gamma, jnp.maximum(RANK_TOLERANCE, 10 * gap))[0]
            return jnp.where(solved, found.x, exact)

        vdot = jax.lax.cond(unvmap_any(~solved), otherwise, lambda: found.x)
        return Motion(equations, vdot, with_reaction(equations, vdot))
