"""5b· the rank of the constraints at a state and at generic ones beside it, on the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import qr

from dalembert._results import AssemblyError
from dalembert._typing import Scalar
from dalembert.equations import assemble
from dalembert.formulations import AbstractFormulation, Proximal, Ranks
from dalembert.linalg import NEAR, RANK_TOLERANCE, Dependence
from dalembert.stabilise._start import consistent_state
from dalembert.systems import AbstractSystem, State, compiled, compiled_quickly

BESIDE = 3e-5
"""Singular values of a neighbour below this share may come from its own gap: beside a singular position a state
with a gap of e is √e off its branch."""
ALONG = 0.05
"""Nudge, in the machine's size, above which neighbours are taken along the motion."""
WEAK = 0.03
"""Least singular value, as a share of the largest, of a generic state, as opposed to one beside a singular position."""


def prepared_at(
    formulation: AbstractFormulation, system: AbstractSystem, here: State, *, t: float = 0.0
) -> AbstractFormulation:
    """The formulation with the rank of this system's constraints at a state that meets them; on the host."""
    if not _needs_rank(formulation, system):
        return formulation
    if isinstance(formulation, Proximal):
        kept, usual = independent_rows(system, here, t=t)
        return dataclasses.replace(formulation, kept=kept, usual=usual)
    return formulation.with_ranks(_generic_ranks(system, here, t))


def _needs_rank(formulation: AbstractFormulation, system: AbstractSystem) -> bool:
    if isinstance(formulation, Proximal):
        return formulation.kept is None and system.m > 0
    return formulation.needs_rank


def _consistent(system: AbstractSystem, state: State | tuple | None, t: Scalar) -> State:
    return consistent_state(system, state, t=t)


def independent_rows(system: AbstractSystem, here: State, *, t: float = 0.0) -> tuple[np.ndarray | None, np.ndarray]:
    """Rows that stand for all (1) and those that depend on them at generic states (0), or None if all are independent;
    and the pivots of those that stand for all (`Attempt.pivots`), the largest at the states examined."""
    at_time = np.asarray(t, float)
    pivots = np.asarray(_pivots(system, at_time, *here, None))
    if np.min(pivots) > NEAR or system.klu is not None:
        return None, pivots
    states, generic = _generic_states(system, here, t)
    kept = _standing_for_all(generic) if generic[0].redundancy else None
    return kept, np.max([_pivots(system, at_time, *at, kept) for at in states], axis=0)


def _standing_for_all(generic: list[Dependence]) -> np.ndarray:
    """1 for rows that stand for all, 0 for the others: of the choices that are best at one of the states, by pivoting,
    the one that is best at all of them. No row may be dropped that is needed a little farther on."""

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
    states, strict = [here], [assemble(system, t, *here).dependence()]
    found = list(strict)
    for sizes in ((0.02, 0.05), (0.1, 0.25, 0.5)):
        for at in neighbours(system, t, here, sizes):
            states.append(at)
            strict.append(assemble(system, t, *at).dependence())
            found.append(strict[-1].within(BESIDE))
        best, most = (max(each, key=lambda d: (d.rank, _weakest(d))) for each in (found, strict))
        if best.rank == most.rank and _weakest(best) > WEAK and not best.redundancy:
            break
    # rows that are weak everywhere count; those that seem independent at single states only do so because of a gap
    if 2 * sum(d.rank == most.rank for d in strict) > len(strict):
        best, found = most, strict
    return states, [best, *(d for d in found if d is not best and d.rank == best.rank and _weakest(d) > BESIDE)]


def _weakest(dependence: Dependence) -> float:
    """The least singular value that counts, as a share of the largest."""
    values = dependence.singular_values
    return float(values[dependence.rank - 1] / values[0]) if dependence.rank else 0.0


@compiled_quickly
def _pivots(system: AbstractSystem, t, q, v, kept):
    equations = assemble(system, t, q, v)
    return equations.factorise(kept).attempt(equations.h, equations.Gamma).pivots


def generic_ranks(system: AbstractSystem, state: State | tuple | None = None, *, t: Scalar = 0.0) -> Ranks:
    """The largest rank, of all rows and of the holonomic ones, at a state and at generic ones beside it."""
    return _generic_ranks(system, _consistent(system, state, t), t)


def _generic_ranks(system: AbstractSystem, here: State, t: Scalar) -> Ranks:
    m_h = system.m_holonomic
    found = []
    for k, at in enumerate((here, *neighbours(system, t, here))):
        equations, tolerance = assemble(system, np.asarray(t, float), *at), BESIDE if k else RANK_TOLERANCE
        whole = equations.dependence(tolerance=tolerance).rank
        found.append((whole, whole if m_h == system.m else equations.dependence(slice(m_h), tolerance).rank))
    return Ranks(*(max(column) for column in zip(*found, strict=True)))


def neighbours(system: AbstractSystem, t: Scalar, state: State, sizes: Sequence[float] = (0.02, 0.05)) -> list[State]:
    """Consistent configurations some hundredths of the machine's size away, in fixed pseudo-random directions; for
    larger sizes along the velocity."""
    rng = np.random.default_rng(20130305)
    v = np.asarray(state.v) / np.asarray(system.scale())
    fastest = np.max(np.abs(v), initial=0.0)
    out = []
    for size in sizes:
        along = size > ALONG and fastest > 0
        nudge = size * (v / fastest if along else rng.standard_normal(system.n))
        try:
            out.append(consistent_state(system, (_nudged(system, state.q, nudge), state.v), t=t))
        except AssemblyError:
            continue  # this nudge left the branch; the others decide
    return out


@compiled
def _nudged(system: AbstractSystem, q, nudge):
    return system.retract(q, nudge * system.scale())
