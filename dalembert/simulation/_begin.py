"""6 · simulation: where a run begins: a start on the constraints, loads and rule decided, the rank of rows known."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import is_traced
from dalembert.reactions import AbstractReactionRule, RowElimination, row_numbers
from dalembert.simulation._march import Dropped, Problem
from dalembert.simulation._prepare import with_ranks, with_rule
from dalembert.stabilise import (
    CHANGED,
    EXACT,
    Assembled,
    Loosened,
    State,
    assembled,
    check_tolerance,
    correction_sentence,
    loosened,
    velocity_change,
)
from dalembert.systems import AbstractSystem, refuse_wound

MOVED = 1e-4
"""Warn if projection moves a start by more than this fraction of the machine's size."""

REMEMBERED = 8
"""Starts that are remembered: a machine is often run again with another tolerance or end."""


@dataclasses.dataclass(eq=False)
class Begun:
    """A run before its first step; `warnings` are sentences about the start."""

    problem: Problem
    rule: AbstractReactionRule | None
    found: Assembled
    changed: float
    loose: Loosened | None
    warnings: tuple[str, ...]
    traced: bool
    packed: Any = None

    def pack(self, problem: Problem, t) -> Any:
        """The state of the march (`Problem.pack`)."""
        if self.traced or problem is not self.problem:
            return problem.pack(t, *self.found.state)
        if self.packed is None:
            self.packed = problem.pack(t, *self.found.state)
        return self.packed


_BEGUN: collections.OrderedDict[tuple, tuple[Begun, tuple]] = collections.OrderedDict()


def begin(system: AbstractSystem, state, t0, formulation, stabilisation, rule, tolerance: float, ready: bool) -> Begun:
    """The start of a run; of the same system and state it is found once."""
    given = (system, formulation, stabilisation, rule)
    if is_traced(state, t0):
        return _begin(*given, state, t0, tolerance, ready, True)
    numbers = (
        () if state is None else tuple(None if x is None else (np.asarray(x).tobytes(), np.shape(x)) for x in state)
    )
    key = (*map(id, given), numbers, float(t0), tolerance, ready)
    known = _BEGUN.get(key)
    if known is not None:
        with contextlib.suppress(KeyError):  # another thread has just removed it
            _BEGUN.move_to_end(key)
        return known[0]  # of objects that are not traced: only such are remembered
    begun = _begin(*given, state, t0, tolerance, ready, is_traced(given))
    if begun.traced:
        return begun
    _BEGUN[key] = begun, given  # they live as long as their ids are in the key
    while len(_BEGUN) > REMEMBERED:
        _BEGUN.popitem(last=False)
    return begun


def _begin(system, formulation, stabilisation, rule, state, t0, tolerance: float, ready: bool, traced: bool) -> Begun:
    q, v = (None, None) if state is None else state
    given = system.v0 if v is None else v
    warnings, loose = [], None
    if not traced and check_tolerance(tolerance) > EXACT:
        loose = loosened(system, q, v, t=t0, tolerance=tolerance)
    if loose is not None:
        warnings.append(loose.message)
    found = assembled(system, q, v, t=t0) if loose is None else loose.found
    (q, v), sizes = found.state, found.sizes
    changed, traced = 0.0, traced or is_traced(found)  # inside a jit all that is computed is traced
    if not traced:
        sentences, changed = start_warnings(system, found, given, t0)
        warnings += sentences
    whole, rule = (system, rule) if ready else _ruled(system, State(q, v), t0, rule)
    system, dropped = whole, None
    if loose is not None:
        reduced = whole.without_rows(loose.rows)  # with its loads decided
        system = reduced.with_loads(None) if reduced.bodies is reduced else reduced  # its rows are independent
        dropped = Dropped(whole, jnp.asarray(loose.sizes), loose.rows, 10 * tolerance)
    elif isinstance(rule, RowElimination) and whole.bodies is whole:  # a tree satisfies most rows by itself
        rows = row_numbers(whole, rule.rows)
        system, dropped = whole.without_rows(rows).with_loads(None), Dropped(whole, sizes, rows)
        sizes = sizes[np.setdiff1d(np.arange(whole.m), rows)]
    if not ready or formulation is None or stabilisation is None:
        formulation, stabilisation = with_ranks(system, State(q, v), t0, formulation, stabilisation)
    problem = Problem(system, formulation, stabilisation, sizes, dropped)
    return Begun(problem, rule, found, changed, loose, tuple(warnings), traced)


def start_warnings(system: AbstractSystem, found: Assembled, given, t0) -> tuple[list[str], float]:
    """The warnings about a start that was closed, and how much its velocities were changed; `given` are those
    before."""
    q, v = found.state
    out = []
    if found.moved > MOVED:
        out.append(correction_sentence(system, found))
    if t0 == 0:  # later, earlier full turns are not known
        refuse_wound(system, q)
    changed, sentence = velocity_change(system, given, v)
    if changed > CHANGED:
        out.append(sentence)
    return out, changed


def _ruled(system: AbstractSystem, state: State, t0, rule) -> tuple[AbstractSystem, AbstractReactionRule | None]:
    """The system with its joint loads decided, and the rule prepared; under jit, vmap and grad both as given."""
    if not is_traced(system, state, t0):
        return with_rule(system, state, t0, rule)
    if isinstance(rule, RowElimination) and not rule.rows:
        raise DalembertError(
            "RowElimination() looks at numbers to find the rows to drop, which it cannot do under jit, vmap and grad. "
            "Say machine = da.prepare(system, rule=da.reactions.RowElimination()) outside, and simulate that; or name "
            "the rows: RowElimination(('C[1]', …))."
        )
    bodies = system.bodies
    if bodies is not None and bodies.bearings and rule is not None:
        raise DalembertError(
            "Under jit, vmap and grad the rule for joint loads must be decided before: machine = "
            "da.prepare(system, rule=…), then simulate that without rule=."
        )
    if bodies is None or rule is not None:
        return system, rule
    return system, cast(AbstractReactionRule | None, bodies.load_rule)  # as `decide_loads` made it
