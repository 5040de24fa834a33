"""5b· keeping the constraints: derivatives where changes of redundant rows may contradict each other: there are none
then."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dalembert._typing import Array
from dalembert.linalg import RANK_TOLERANCE

UNSOLVABLE = 1e-6
"""A change of the constraints contradicts them if its share in combinations of rows that no motion changes is above
this: rounding leaves 1e-12, a change of one of two redundant joints a good part of 1."""
POISON = 1e7
"""What a reverse derivative adds along such combinations, in sizes of the cotangent. In a sum over consistent
changes it cancels, at a loss of accuracy of 1e-9; in a single contradictory one it remains."""


def stuck(system, t, q, null, sizes, parameters) -> list[Array]:
    """For each of some parameters whether every change of these that keeps redundant rows consistent leaves it alone.

    Φ changes by D δp; what no motion can make up for is Zᵀ D δp. A number of p is left alone by all δp with Zᵀ D δp = 0
    if its unit vector lies in the span of the rows of ZᵀD.
    """

    def residual(values):
        there = system
        for slots, value in zip(parameters, values, strict=True):
            for slot in slots:
                there = slot.set(there, value)
        return there.position_residual(t, q) / sizes

    values = [slots[0].get(system) for slots in parameters]
    flat, back = ravel_pytree(values)
    D = jax.jacfwd(lambda x: residual(back(x)))(flat)
    A, lengths = null.T @ D, jnp.linalg.norm(D, axis=0)
    # a change that the rows do not notice, or of which only rounding is left, contradicts nothing
    A = jnp.where(jnp.max(jnp.abs(A), axis=0) > UNSOLVABLE * lengths, A / jnp.where(lengths > 0, lengths, 1.0), 0.0)
    _, s, Vt = jnp.linalg.svd(A, full_matrices=False)
    kept = jnp.where((s > UNSOLVABLE * jnp.max(s, initial=0.0))[:, None], Vt, 0.0)
    alone = jnp.sum(kept**2, axis=0) > 1 - UNSOLVABLE
    return [jnp.all(x) for x in jax.tree_util.tree_leaves(back(jnp.where(alone, 1.0, 0.0)))]


def nan_in_reverse(when, x):
    """x; its cotangent is NaN where `when` is."""
    shape = jnp.shape(x)
    return jax.lax.custom_linear_solve(
        lambda y: y,
        jnp.ravel(x),
        lambda _, y: y,
        lambda _, y: jnp.where(when, jnp.nan, y),
    ).reshape(shape)


def guarded(nulls: list, states: list, rows: list, given: Array) -> Sequence[Array]:
    """Changes of a state that follow from changes of rows, where these do not contradict each other.

    `nulls` holds for each change of rows an orthonormal basis Z of the combinations that no motion changes (a column
    for each row, some of them zero), `given` the changes of all that is given: what rounding is measured by.
    """
    # in one vector: to transpose it, JAX needs all or none of the changes to depend on what is differentiated
    changes = (*states, *rows, given)
    lengths = np.cumsum([len(x) for x in changes])[:-1].tolist()

    def in_parts(function):
        def whole(_, x):
            parts = jnp.split(x, lengths)
            count = len(states)
            own, others = function(nulls, parts[:count], parts[count:-1], parts[-1])
            return jnp.concatenate([*own, *others, parts[-1]])

        return whole

    x = jax.lax.custom_linear_solve(
        lambda x: x, jnp.concatenate(changes), in_parts(_unless_contradicting), in_parts(_poisoned)
    )
    return jnp.split(x, lengths)[: len(states)]


def _unless_contradicting(nulls, states, rows, given):
    """The changes of the state, or NaN where the changes of the rows contradict each other."""
    rounding = 1e-6 * jnp.max(jnp.abs(given), initial=0.0)
    bad = jnp.array(False)
    for Z, d in zip(nulls, rows, strict=True):
        size = jnp.max(jnp.abs(d), initial=0.0) + rounding
        bad = bad | (jnp.max(jnp.abs(Z.T @ d), initial=0.0) > UNSOLVABLE * size)
    return [jnp.where(bad, jnp.nan, x) for x in states], rows


def _poisoned(nulls, states, rows, given):
    """Cotangents of the state as they are; to rows, along combinations that no motion changes, a large multiple."""
    size = POISON * jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=0.0) for x in states]))
    return states, [
        w + size * Z @ (1.0 + 0.5 * jnp.sin(jnp.arange(Z.shape[1]) + 1.0)) for Z, w in zip(nulls, rows, strict=True)
    ]


def left_null(system, C, sizes):
    """Z (m × m) with ZᵀĈ = 0 on rows Ĉ over their sizes: an orthonormal basis; its other columns are zero."""
    if not len(C):
        return jnp.zeros((0, 0))
    U, values, _ = jnp.linalg.svd(C * system.scale() / sizes[:, None])
    values = jnp.concatenate([values, jnp.zeros(len(C))])[: len(C)]
    return U * (values <= RANK_TOLERANCE * jnp.max(values))
