"""7 · analysis: the search for a pose: exact rows are closed, weighted ones are made as small as the exact ones allow.

Levenberg and Marquardt's method in the mass metric, on the manifold of the exact rows. With all rows over their sizes,
A (rows × n) and residuals ρ, and K = A M⁻¹Aᵀ, a step is

    δ = −M⁻¹Aᵀ(K + D)⁻¹ρ

with a small D on exact rows and μ/w² on rows of weight w: of all δ that close the exact rows to first order it makes
Σ w²(ρ + Aδ)² + μ δᵀM δ least. A step along the manifold is closed again before it is judged by what it has done to the
weighted rows. Where exact rows cannot all hold, the search ends where their sum of squares is least; there Aᵀρ = 0.

[Levenberg 1944; Marquardt 1963; the closing of a step as in Absil, Mahony, Sepulchre 2008, retractions.]
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._typing import Array, Coordinates, Scalar
from dalembert.analysis._targets import AbstractTarget
from dalembert.equations import assemble_known
from dalembert.linalg import RANK_TOLERANCE, BlockMass, DenseSaddle, blocks_times, mass_root
from dalembert.stabilise import guarded, row_sizes
from dalembert.systems import AbstractSystem, compiled_for_each, compiled_quickly

CLOSED = 1e-11
"""Norm of the exact rows, in machine sizes, below which a search counts them as closed; they are then closed to
rounding."""
LONGEST = 0.5
"""Longest step, in machine sizes or radians."""
STEPS = 300
"""Most steps of a search."""
FALLS, STALE = 0.9, 40
"""A gap that does not fall below this share within so many steps will not close."""
CLOSING = 12
"""Steps within which a move along the manifold must be closed again, else it is made shorter."""
LEAST = 1e-13
"""Damping of exact rows: dependent ones do no harm, and directions of size 1e-5 are not affected."""
STILL = 1e-13
"""A step of this size, in machine sizes or radians, ends a search."""


class Goal(NamedTuple):
    """What is searched for: which rows are exact (those of the machine first, then of the targets), the weights of the
    targets' rows (0: none), the targets' wanted values, and the typical sizes of their rows."""

    exact: Float[Array, " rows"]
    weight: Float[Array, " target_rows"]
    wanted: tuple[Array, ...]
    scales: Float[Array, " target_rows"]

    def without_targets(self, holonomic: int) -> Goal:
        """The goal of a closed machine alone."""
        exact = np.array(self.exact)
        exact[holonomic:] = 0.0
        return self._replace(exact=exact, weight=np.zeros(len(self.weight)))


class Found(NamedTuple):
    """Where a search ended: q, all residuals in machine sizes, the norms of exact and of weighted ones, its steps."""

    q: Coordinates
    residual: Float[Array, " rows"]
    gap: Float[Array, ""]
    misfit: Float[Array, ""]
    steps: Array


class Rows(NamedTuple):
    """All rows at a configuration over their sizes."""

    residual: Float[Array, " rows"]
    A: Float[Array, "rows n"]
    mass: BlockMass


def rows_at(system: AbstractSystem, targets: tuple[AbstractTarget, ...], goal: Goal, t: Scalar, q: Coordinates) -> Rows:
    """The holonomic rows of the machine and those of the targets."""
    h, v = system.m_holonomic, jnp.zeros(system.n)
    at = assemble_known(system, t, q, v)
    sizes = jnp.concatenate([row_sizes(system, at)[:h], goal.scales])

    def gaps(delta):
        moved = system.retract(q, delta)
        own = [x.gap(system, t, moved, w) for x, w in zip(targets, goal.wanted, strict=True)]
        return jnp.concatenate([jnp.zeros(0), *own])

    G = jax.jacfwd(gaps)(v) if targets else jnp.zeros((0, system.n))
    residual = jnp.concatenate([at.Phi, gaps(v)]) / sizes
    return Rows(residual, jnp.concatenate([at.C[:h], G]) / sizes[:, None], at.mass)


# ---- the search ----------------------------------------------------------------------------------------------------


class _At(NamedTuple):
    """A search on its way. `q` is looked at next: a fresh one, or with `again` one that was looked at before and that
    is gone on from with more damping."""

    q: Array
    base: tuple[Array, Array]  # the last point while closing, and its residuals
    base_gap: Array
    kept: tuple[Array, Array]  # the last closed point, and its residuals
    misfit: Array
    closing: Array  # damping while closing
    moving: Array  # and of a move along the manifold
    again: Array
    count: Array  # steps since the last move
    mark: Array  # a gap, and the steps since it was reached without a clearly smaller one
    stale: Array
    k: Array
    done: Array


def search(system: AbstractSystem, targets: tuple[AbstractTarget, ...], goal: Goal, t: Scalar, q: Coordinates) -> Found:
    """The pose that a goal means, from a rough guess: exact rows to rounding; not differentiated."""
    system, targets, goal, t, q = jax.lax.stop_gradient((system, targets, goal, t, q))
    scale, h = system.scale(), system.m_holonomic
    weight = jnp.concatenate([jnp.zeros(h), goal.weight])
    soft = jnp.any(weight > 0)

    def step(at: _At) -> _At:
        rho, A, mass = rows_at(system, targets, goal, t, at.q)
        gap, misfit = jnp.linalg.norm(goal.exact * rho), jnp.linalg.norm(weight * rho)
        closed = gap < CLOSED
        known = jnp.isfinite(at.misfit)  # a closed point
        better = closed & (at.again | ~soft | (misfit < (1 - 1e-10) * at.misfit))
        given_up = ~closed & (at.count > CLOSING) & known
        falls = ~closed & ~given_up & (at.again | (gap < at.base_gap))
        back = (closed & ~better) | given_up  # to the last closed point
        rises = ~(better | falls | back)
        moving = jnp.where(better & ~at.again, jnp.maximum(at.moving / 5, LEAST), jnp.where(back, 8.0, 1.0) * at.moving)
        closing = jnp.where(falls & ~at.again, jnp.maximum(at.closing / 10, LEAST), at.closing)
        closing = jnp.where(rises, jnp.maximum(10 * closing, 1e-6), jnp.where(better, LEAST, closing))
        delta = _step(mass, A, rho, goal.exact, weight, jnp.where(better, LEAST, closing), moving, better & soft)
        size = jnp.max(jnp.abs(delta) / scale, initial=0.0)
        moved = system.retract(at.q, delta * jnp.minimum(1.0, LONGEST / jnp.where(size > 0, size, 1.0)))
        goes = better | falls
        clearly = ~closed & (gap < FALLS * at.mark)
        stale = jnp.where(clearly | closed, 0, at.stale + 1)
        ready = better & (jnp.where(soft, misfit < 1e-15, known))  # without weights: a step after it was closed
        return _At(
            q=jnp.where(goes, moved, jnp.where(back, at.kept[0], at.base[0])),
            base=_either(falls, (at.q, rho), _either(better, (moved, rho), at.base)),
            base_gap=jnp.where(falls, gap, jnp.where(better, jnp.inf, at.base_gap)),
            kept=_either(better, (at.q, rho), at.kept),
            misfit=jnp.where(better, misfit, at.misfit),
            closing=closing,
            moving=moving,
            again=~goes,
            count=jnp.where(better | back, 0, at.count + 1),
            mark=jnp.where(clearly, gap, jnp.where(better, jnp.inf, at.mark)),
            stale=stale,
            k=at.k + 1,
            done=ready | (goes & (size < STILL)) | (moving > 1e12) | (closing > 1e12) | (stale > STALE),
        )

    zero, inf = jnp.zeros((), int), jnp.asarray(jnp.inf)
    first = jnp.asarray(LEAST), jnp.asarray(1e-3)
    here = (q, jnp.full(len(goal.exact), jnp.inf))
    start = _At(q, here, inf, here, inf, *first, jnp.array(False), zero, inf, zero, zero, jnp.array(False))
    end = jax.lax.while_loop(lambda at: ~at.done & (at.k < STEPS), step, start)
    q, rho = _either(jnp.isfinite(end.misfit), end.kept, end.base)
    return Found(q, rho, jnp.linalg.norm(goal.exact * rho), jnp.linalg.norm(weight * rho), end.k)


def _either(condition, these, others):
    return jax.tree_util.tree_map(lambda a, b: jnp.where(condition, a, b), these, others)


def _step(mass: BlockMass, A, rho, exact, weight, closing, moving, with_weights):
    """δ by one Cholesky factor; rows that do not take part have an empty row."""
    softly = jnp.where(with_weights & (weight > 0), 1.0, 0.0)
    part = jnp.maximum(exact, softly)
    A, rho = A * part[:, None], rho * part
    B = mass.solve_rows(A)
    K = B @ A.T
    typical = jnp.sum(jnp.diagonal(K)) / jnp.maximum(jnp.sum(part), 1.0)
    typical = jnp.where(typical > 0, typical, 1.0)
    D = jnp.where(exact > 0, closing, moving / jnp.where(weight > 0, weight, 1.0) ** 2) * typical
    D = jnp.where(part > 0, D, typical)
    S = 1.0 / jnp.sqrt(jnp.diagonal(K) + D)
    factor = jnp.linalg.cholesky(S[:, None] * K * S + jnp.diag(jnp.maximum(S**2 * D, 1e-14)))
    z = S * jax.scipy.linalg.cho_solve((factor, True), S * rho)
    return -jnp.where(jnp.isfinite(z), z, 0.0) @ B


search_quickly = compiled_quickly(search)
"""One search, compiled."""
search_all = compiled_for_each(search, 1)
"""Searches from many guesses, compiled: the last argument has a row for each."""


def _search_to(system, targets, goal: Goal, t, wanted, q) -> Found:
    return search(system, targets, goal._replace(wanted=tuple(wanted[:, None])), t, q)


search_to_all = compiled_for_each(_search_to, 2)
"""Searches for many values of single numbers, each from its own guess: the last two arguments have a row for each."""


# ---- to rounding, with derivatives ---------------------------------------------------------------------------------


def settled(system, targets, goal: Goal, t, q, weighted: bool) -> Coordinates:
    """The pose from where a search has ended, as a differentiable function: derivatives are those of the pose."""
    return _differentiable(system, targets, goal, t, q, weighted)


@eqx.filter_custom_jvp
def _differentiable(system, targets, goal, t, q, weighted):
    return _settled(system, targets, goal, t, q, weighted)[0]


def _settled(system, targets, goal: Goal, t, q, weighted: bool):
    """`settled`, with the exact rows at its end and their residual before the last correction."""
    held = jax.lax.stop_gradient((system, targets, goal, t, q))
    return (_newton if weighted else _closed)(system, targets, goal, t, polished(*held) if weighted else held[-1])


def polished(system, targets, goal: Goal, t, q) -> Coordinates:
    """A pose with weighted targets to rounding, from where a search has ended."""
    return jax.lax.fori_loop(0, 3, lambda _, q: _newton(system, targets, goal, t, q)[0], q)


polished_quickly = compiled_quickly(polished)
"""`polished`, compiled."""


def _closed(system, targets, goal: Goal, t, q):
    """One correction of the exact rows: the least one in the mass metric."""
    at = rows_at(system, targets, goal, t, q)
    rho, A = at.residual * goal.exact, at.A * goal.exact[:, None]
    delta = DenseSaddle.factorise(at.mass, jax.lax.stop_gradient(A)).solve(None, -rho)[0]
    return system.retract(q, delta), (rho, A)


def _newton(system, targets, goal: Goal, t, q):
    """One step of Newton's method on the conditions for a minimum: w²ρ·∂ρ + z·∂ρ_exact = 0, ρ_exact = 0.

    Second derivatives of the rows matter where a target stays away from its wanted value. In coordinates y of unit
    mass; what neither exact nor weighted rows decide is left as it is.
    """
    h = system.m_holonomic
    weight = jnp.concatenate([jnp.zeros(h), goal.weight])
    here = jax.lax.stop_gradient(rows_at(system, targets, goal, t, q))
    root = mass_root(here.mass)[1]  # blocks of L⁻¹

    def displaced(y):
        return blocks_times(root.transpose(0, 2, 1), y[:, None])[:, 0]

    def parts(y, system, targets, goal, t):
        at = rows_at(system, targets, goal, t, system.retract(q, displaced(y)))
        return at.residual, blocks_times(root, at.A.T).T

    y = jnp.zeros(system.n)
    rho, A = jax.lax.stop_gradient(parts(y, system, targets, goal, t))
    # multipliers: what of the weighted rows' gradient the exact ones take
    z = -jnp.linalg.pinv((goal.exact[:, None] * A).T, rtol=RANK_TOLERANCE) @ (A.T @ (weight**2 * rho))

    def conditions(y, *arguments):
        rho, A = parts(y, *arguments)
        return A.T @ (weight**2 * rho + goal.exact * z), goal.exact * rho, A

    arguments = (system, targets, goal, t)
    H = jax.jacfwd(lambda y: conditions(y, *jax.lax.stop_gradient(arguments))[0])(y)
    # not symmetric: sizes of rows move, too, and what that adds along exact rows their multipliers take up
    C, m = goal.exact[:, None] * A, len(rho)
    J = jnp.block([[H, C.T], [C, jnp.zeros((m, m))]])
    gradient, exact, _ = conditions(y, *arguments)
    inverse = jax.lax.stop_gradient(jnp.linalg.pinv(J, rtol=1e-10))
    delta = -(inverse @ jnp.concatenate([gradient, exact]))[: system.n]
    return system.retract(q, displaced(delta)), (exact, C)


@_differentiable.def_jvp
def _settled_jvp(primals, tangents):
    """Where a change of parameters makes redundant exact rows contradict each other there is no derivative: NaN."""
    (q, (rho, A)), (dq, (drho, _)) = eqx.filter_jvp(_settled, primals, tangents)
    if dq is None or drho is None:
        return q, dq
    system = primals[0]
    given = [jnp.ravel(x) for x in jax.tree_util.tree_leaves(tangents) if eqx.is_inexact_array(x)]
    given = jnp.concatenate(given) / jnp.minimum(jnp.min(system.scale()), 1.0)
    U, values, _ = jnp.linalg.svd(jax.lax.stop_gradient(A * system.scale()))
    values = jnp.concatenate([values, jnp.zeros(len(rho))])[: len(rho)]
    null = U * (values <= RANK_TOLERANCE * jnp.max(values, initial=0.0))
    # rows that do not take part are no contradiction; an exact one that nothing moves, as at full stretch, is
    null = null * (primals[2].exact > 0)[:, None]
    (dq,) = guarded([null], [dq], [drho], given)
    return q, dq


class Looked(NamedTuple):
    """A pose as it is looked at: values of the targets, residuals and rows in the mass metric (unit mass)."""

    values: tuple[Array, ...]
    residual: Float[Array, " rows"]
    rows: Float[Array, "rows n"]


def _looked(system: AbstractSystem, targets, goal: Goal, t, q) -> Looked:
    at = rows_at(system, targets, goal, t, q)
    values = tuple(x.value(system, t, q) for x in targets)
    return Looked(values, at.residual, blocks_times(mass_root(at.mass)[1], at.A.T).T)


look_at = compiled_quickly(_looked)
"""What is seen of a pose, compiled."""
look_at_all = compiled_for_each(_looked, 1)
"""The same of many poses."""
