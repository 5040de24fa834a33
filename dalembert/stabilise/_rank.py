"""5b· the rank of the constraints at a state and at generic ones beside it, on the host."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from dalembert._typing import Array, Scalar
from dalembert.equations import Equations, assemble_known
from dalembert.formulations import AbstractFormulation, Proximal, Ranks
from dalembert.linalg import NEAR, RANK_TOLERANCE, WEAK, Dependence
from dalembert.stabilise._closing import neighbours
from dalembert.stabilise._start import Assembled, consistent_state, nearest
from dalembert.stabilise._taut import refuse_dead_end
from dalembert.systems import AbstractSystem, State, compiled_quickly

GAP = 3e-5
"""Singular values of a neighbour below this share may come from its own gap: beside a singular position a state
with a gap of e is √e off its branch."""


def prepared_at(
    formulation: AbstractFormulation, system: AbstractSystem, here: State, *, t: float = 0.0
) -> AbstractFormulation:
    """The formulation with the rank of this system's constraints at a state that meets them; on the host."""
    if not _needs_rank(formulation, system):
        return formulation
    if isinstance(formulation, Proximal):
        kept, usual = independent_rows(system, here, t=t)
        return dataclasses.replace(formulation, kept=kept, usual=usual)
    refuse_dead_end(system, here, t, lambda v: assemble_known(system, t, here.q, v))
    return formulation.with_ranks(_generic_ranks(system, here, t))


def _needs_rank(formulation: AbstractFormulation, system: AbstractSystem) -> bool:
    if isinstance(formulation, Proximal):
        return formulation.kept is None and system.m > 0
    return formulation.needs_rank


def independent_rows(system: AbstractSystem, here: State, *, t: float = 0.0) -> tuple[np.ndarray | None, np.ndarray]:
    """Rows that stand for all (1) and those that depend on them at generic states (0), or None if all are independent;
    and the pivots of those that stand for all (`Attempt.pivots`), the largest at the states examined."""
    at_time = np.asarray(t, float)
    equations, pivots = _examined(system, at_time, *here, None)
    pivots = np.asarray(pivots)
    # in joint coordinates a row may vanish at a singular position: it then has no pivot
    near = np.min(pivots) <= NEAR
    if near or (equations.share is not None and np.min(equations.share, initial=1.0) < RANK_TOLERANCE):
        refuse_dead_end(system, here, t, lambda v: _examined(system, at_time, here.q, v, None)[0])
    if not near or system.klu is not None:
        return None, pivots
    states, generic = _generic_states(system, here, t)
    kept = _standing_for_all(generic) if generic[0].redundancy else None
    return kept, np.max([_examined(system, at_time, *at, kept)[1] for at in states], axis=0)


def _standing_for_all(generic: list[Dependence]) -> np.ndarray:
    """1 for rows that stand for all, 0 for the others: of the choices that are best at one of the states, by pivoting,
    the one that is best at all of them. No row may be dropped that is needed a little farther on."""

    from scipy.linalg import qr  # a tenth of a second to load; most machines have no redundant rows

    def choice(d: Dependence) -> list[int]:
        factors: Any = qr(d.rows.T, mode="r", pivoting=True)
        return sorted(factors[1][: d.rank].tolist())

    def worst(rows: list[int]) -> float:
        return min(float(np.linalg.svd(d.rows[rows], compute_uv=False)[-1]) for d in generic)

    kept = np.zeros(len(generic[0].rows))
    kept[max(map(choice, generic), key=worst)] = 1.0
    return kept


def _generic_states(system: AbstractSystem, here: State, t: float) -> tuple[list[State], list[Dependence]]:
    """A state and others beside it, farther away where it is redundant or beside a singular position; and the rows at
    those of them that have the rank of generic states, the best first."""
    states, strict = [here], [assemble_known(system, t, *here).dependence()]
    found = list(strict)
    for sizes in ((0.02, 0.05), (0.1, 0.25, 0.5)):
        for at in neighbours(system, t, here, sizes):
            states.append(at)
            strict.append(assemble_known(system, t, *at).dependence())
            found.append(strict[-1].within(GAP))
        best, most = (max(each, key=lambda d: (d.rank, d.weakest)) for each in (found, strict))
        if best.rank == most.rank and best.weakest > WEAK and not best.redundancy:
            break
    # rows that are weak everywhere count; those that seem independent at single states only do so because of a gap
    if 2 * sum(d.rank == most.rank for d in strict) > len(strict):
        best, found = most, strict
    return states, [best, *(d for d in found if d is not best and d.rank == best.rank and d.weakest > GAP)]


def examined(system: AbstractSystem, t, q, v, kept) -> tuple[Equations, Array]:
    """The equations, and the pivots of the rows that stand for all (`Attempt.pivots`)."""
    equations = assemble_known(system, t, q, v)
    return equations, equations.factorise(kept).attempt(equations.h, equations.Gamma).pivots


_examined = compiled_quickly(examined)


def start_of(system: AbstractSystem, t, q, v, kept) -> tuple[Assembled, Array]:
    """The nearest start that meets the constraints, and the pivots there: what a run needs, as one function of JAX."""
    found = nearest(system, t, q, v, jnp.ones(system.n))
    return found, examined(system, t, *found.state, kept)[1] if system.m else jnp.zeros(0)


def generic_ranks(system: AbstractSystem, state: State | tuple | None = None, *, t: Scalar = 0.0) -> Ranks:
    """The largest rank, of all rows and of the holonomic ones, at a state and at generic ones beside it."""
    return _generic_ranks(system, consistent_state(system, state, t=t), t)


def _generic_ranks(system: AbstractSystem, here: State, t: Scalar) -> Ranks:
    m_h = system.m_holonomic
    found = []
    for k, at in enumerate((here, *neighbours(system, t, here))):
        equations, tolerance = assemble_known(system, np.asarray(t, float), *at), GAP if k else RANK_TOLERANCE
        whole = equations.dependence(tolerance=tolerance).rank
        found.append((whole, whole if m_h == system.m else equations.dependence(slice(m_h), tolerance).rank))
    return Ranks(*(max(column) for column in zip(*found, strict=True)))
