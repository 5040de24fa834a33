"""6 · simulation: how a motion that is marched in parts changes along directions of its numbers.

Each part is the motion of a plain machine, whose changes are marched along with it. A part ends where a function g of
time and state passes zero; along a direction that happens earlier or later by δt, and the rates ẋ jump there:

    δt = −δg/ġ        δx⁺ = δx⁻ + (ẋ⁻ − ẋ⁺) δt

with δ at a fixed time, and ẋ of coordinates, velocities and work. Equations (6c.6)–(6c.8): docs/theory/sticking.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert.kernels import Unknown, fixed, flat
from dalembert.simulation._begin import begin
from dalembert.simulation._called import Called, generic
from dalembert.simulation._march import Plan, Span
from dalembert.simulation._native import changed_along
from dalembert.simulation._prepare import Prepared
from dalembert.simulation._rows import code_for_rows
from dalembert.simulation._steps import first_step
from dalembert.stabilise import EXACT, State
from dalembert.systems import compiled, without_names

TOGETHER = 1e-6
"""Events count as one along a direction if their times change by the same, up to this share."""


class Change(NamedTuple):
    """Of a state and of the work done until then, one row for each direction."""

    q: np.ndarray
    v: np.ndarray
    work: np.ndarray

    def after(self, later: np.ndarray, rates: Change) -> Change:
        """Across an event whose time changes by `later`, where the rates fall by `rates`."""
        return Change(*(x + later[:, None] * rate for x, rate in zip(self, rates, strict=True)))


class Leg(NamedTuple):
    """One part of a motion, as it is marched along directions: its limits, its state at the start, and its machine,
    with the changes of its numbers (directions, numbers), and which of all its numbers differ from part to part."""

    start: float
    end: float
    state: State
    ready: Prepared
    system: np.ndarray
    varied: np.ndarray


def with_numbers(tree, row):
    """The pytree with other numbers where they can change smoothly, of NumPy or of JAX; its others are None."""
    leaves, structure = jax.tree_util.tree_flatten(eqx.filter(tree, eqx.is_inexact_array))
    ends = np.cumsum([0, *(np.size(x) for x in leaves)])
    parts = [row[i:j].reshape(np.shape(x)) for i, j, x in zip(ends, ends[1:], leaves, strict=False)]
    return jax.tree_util.tree_unflatten(structure, parts)


def event_time(change: np.ndarray, rate: np.ndarray, least: np.ndarray) -> np.ndarray:
    """How much later functions that pass zero downwards do so: (functions, directions) → directions.

    NaN where a function only touches zero (its rate is above −least), and where those that pass zero together would
    no longer do so.
    """
    later = -change / np.where(rate < -least, rate, np.nan)[:, None]
    spread = np.ptp(later, axis=0)
    return np.where(spread <= TOGETHER * np.max(np.abs(later), axis=0), later[0], np.nan)


def marched_along(leg: Leg, plan: Plan, tolerances: tuple, dt, change: Change, times: np.ndarray) -> Change:
    """The changes at some times of a part, from those at its start; work counts from there."""
    ready, start = leg.ready, np.asarray(leg.start, float)
    given = (ready.system, leg.state, start, ready.formulation, ready.stabilisation, ready.rule)
    begun = begin(*given, EXACT, True)
    stabilisation = begun.problem.stabilisation
    stabilisation = type(stabilisation).with_time_scale(stabilisation, dt, leg.end - leg.start)
    problem = dataclasses.replace(begun.problem, stabilisation=stabilisation)
    first = first_step(start, leg.end, np) if dt is None else min(dt, leg.end - leg.start)
    y0 = begun.pack(problem, start)
    rtol, atol = tolerances
    span = Span(start, np.asarray(leg.end), np.asarray(first), y0, rtol, atol, np.asarray(np.inf), None)
    plan = dataclasses.replace(plan, save="times", adjoint="forward", derivative=None, careful=False)
    directions = len(change.q)

    def packed(problem, given):
        t, q, v, row = given
        nq, n = np.shape(q)[0], np.shape(v)[0]
        moved = dataclasses.replace(
            jax.tree_util.tree_map(jnp.zeros_like, eqx.filter(problem, eqx.is_inexact_array)),
            system=with_numbers(problem.system, row[nq + n :]),
        )
        return changed_along(lambda p, q, v: p.pack(t, q, v), (problem, q, v), (moved, row[:nq], row[nq : nq + n]))

    along = np.concatenate([change.q, change.v, leg.system], axis=1)
    varied = np.concatenate(
        [leg.varied, np.zeros(flat(eqx.filter(problem, eqx.is_array)).size - leg.varied.size, bool)]
    )
    nameless, given = without_names(problem), (start, *(np.asarray(x, float) for x in leg.state))
    moved = for_each("packed", packed, nameless, varied, given, along)
    moved = np.concatenate([np.asarray(x).reshape(directions, -1) for x in jax.tree_util.tree_leaves(moved)], axis=1)
    varied = np.concatenate([varied, np.zeros(flat(eqx.filter(y0, eqx.is_array)).size, bool)])
    # one direction in each lane: the same machine code for any number of them
    own = {"chosen": eqx.is_inexact_array, "varied": varied, "directions": 1}
    called = Called(problem, span, plan, times, True, **own)
    row = called.machine.row
    rest = np.zeros((directions, len(row) - leg.system.shape[1] - moved.shape[1]))
    rows = np.concatenate([leg.system, rest, moved], axis=1)
    return Change(*(x[0] for x in called(row[None], called.clock.row[None], rows[None])[5:]))


def for_each(name: str, function: Callable, parameters, varied: np.ndarray, given: tuple, rows: np.ndarray, *own):
    """`function(parameters, (*given, row))` for each row, in machine code if that can be made, else by JAX.

    `varied`: of all numbers of the parameters those that get no code of their own where they are zero or one; `own`:
    what else the function depends on.
    """
    leaves = [np.asarray(x) for x in jax.tree_util.tree_leaves(eqx.filter(parameters, eqx.is_array))]
    built_in = np.concatenate([np.zeros(0, bool), *(fixed(x).ravel() for x in leaves)]) & ~varied
    numbers = flat(eqx.filter(parameters, eqx.is_array))
    one: Any = (*given, rows[0])
    try:
        kernel, code = code_for_rows(name, function, generic(parameters, numbers, built_in), one, built_in, *own)
    except Unknown:
        by_jax = compiled(lambda parameters, rows: jax.lax.map(lambda row: function(parameters, (*given, row)), rows))
        return jax.tree_util.tree_map(np.asarray, by_jax(parameters, rows))
    common = np.concatenate([np.asarray(x, float).ravel() for x in given])
    inputs = np.concatenate([np.tile(common, (len(rows), 1)), rows], axis=1)
    return kernel.unflatten(code.rows(name, numbers, inputs))
