"""5b· the rank of the constraints at a state and at generic ones beside it, on the host."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.linalg import qr

from dalembert._results import AssemblyError
from dalembert.equations import assemble
from dalembert.formulations import AbstractFormulation, Proximal, Ranks
from dalembert.linalg import NEAR
from dalembert.stabilise._base import State
from dalembert.stabilise._start import consistent_state
from dalembert.systems import AbstractSystem, compiled, compiled_quickly


def prepared(
    formulation: AbstractFormulation, system: AbstractSystem, state: State | tuple | None = None, *, t: float = 0.0
) -> AbstractFormulation:
    """The formulation with the rank of this system's constraints, which must be known before compiling.

    `simulate` does this by itself, except under jit, vmap and grad, where numbers cannot be looked at.
    """
    if isinstance(formulation, Proximal) and formulation.kept is None and system.m:
        kept, usual = independent_rows(system, state, t=t)
        return dataclasses.replace(formulation, kept=kept, usual=usual)
    if not formulation.needs_rank:
        return formulation
    return formulation.sized(generic_ranks(system, state, t=t))


def independent_rows(
    system: AbstractSystem, state: State | tuple | None = None, *, t: float = 0.0
) -> tuple[np.ndarray | None, np.ndarray]:
    """Rows that stand for all (1) and those that depend on them at generic states (0), or None if all are independent;
    and the margin between those that stand for all, at the best of the states looked at."""
    q, v = (None, None) if state is None else state
    here, at_time = consistent_state(system, q, v, t=t), np.asarray(t, float)
    margin = float(_margin(system, at_time, *here, None))
    if margin > NEAR or system.klu is not None:
        return None, np.asarray(margin)
    states = [here, *neighbours(system, t, here)]
    found = [assemble(system, at_time, *at).dependence() for at in states]
    best = max(found, key=lambda d: d.rank)
    kept = None
    if best.redundancy:
        # rows by pivoting: the first `rank` are the best apart
        factors: Any = qr(best.rows.T, mode="r", pivoting=True)
        kept = np.zeros(system.m)
        kept[factors[1][: best.rank]] = 1.0
    return kept, np.asarray(max(float(_margin(system, at_time, *at, kept)) for at in states))


@compiled_quickly
def _margin(system: AbstractSystem, t, q, v, kept):
    equations = assemble(system, t, q, v)
    return equations.factorise(kept).attempt(equations.h, equations.Gamma).margin


def generic_ranks(system: AbstractSystem, state: State | tuple | None = None, *, t: float = 0.0) -> Ranks:
    """The largest rank, of all rows and of the holonomic ones, at a state and at generic ones beside it."""
    q, v = (None, None) if state is None else state
    here = consistent_state(system, q, v, t=t)
    m_h = system.m_holonomic
    found = []
    for at in (here, *neighbours(system, t, here)):
        equations = assemble(system, np.asarray(t, float), *at)
        whole = equations.dependence().rank
        found.append((whole, whole if m_h == system.m else equations.dependence(slice(m_h)).rank))
    return Ranks(*(max(column) for column in zip(*found, strict=True)))


def neighbours(system: AbstractSystem, t: float, state: State, count: int = 2) -> list[State]:
    """Consistent configurations a few hundredths of the machine's size away, in fixed pseudo-random directions."""
    rng = np.random.default_rng(20130305)
    out = []
    for size in (0.02, 0.05)[:count]:
        nudge = size * rng.standard_normal(system.n)
        try:
            out.append(consistent_state(system, _nudged(system, state.q, nudge), state.v, t=t))
        except AssemblyError:
            continue  # this nudge left the branch; the others decide
    return out


@compiled
def _nudged(system: AbstractSystem, q, nudge):
    return system.retract(q, nudge * system.scale())
