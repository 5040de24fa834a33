"""7 · analysis: `check`: rank and mobility, structure or singular pose, contradictions, and unique reactions."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from dalembert._results import AssemblyError, DalembertError
from dalembert.analysis._check import Check, MotionCheck
from dalembert.analysis._contradictions import Contradiction, contradiction_of, find_contradictions
from dalembert.analysis._free import free_motions, unheld
from dalembert.analysis._remarks import assumptions, nearly_redundant, slips, sticking
from dalembert.analysis._solvability import Solvability, Solver, solve_solvability
from dalembert.linalg import LARGE, RANK_TOLERANCE
from dalembert.model import Model
from dalembert.reactions import Instant, Known, PossibleSet, decide_loads, one_sided_limits, pressing
from dalembert.simulation import Solution
from dalembert.stabilise import EXACT, NEARLY, Loosened, State, assembled, check_tolerance, loosened, taut
from dalembert.systems import AbstractSystem, build

INSTANTS = 25
"""Instants of a motion at which rank and uniqueness are evaluated again."""


def check(
    model: Model | AbstractSystem | Solution,
    state: State | tuple | None = None,
    *,
    t: float = 0.0,
    reactions: bool = True,
    ranges: bool | Known = False,
    tolerance: float = EXACT,
) -> Check:
    """What a model is and which of its reactions are reliable; for a `Solution` also along its motion.

    At a state (default: the start) and at generic configurations beside it: rows, rank, redundancy, mobility,
    contradictions; and, unless `reactions` is False, dependent equations, possible releases and the uniqueness of
    every reaction. Rank is read in the mass metric on dimensionless rows, so it does not change with units.

    **Arguments**

    - `model`: a model, a system, or a solution. `state`, `t`: where (q, v), and at which time of drivers and loads.
    - `reactions`: answer also which reactions are unique. Dense and on the host: about (rows/1000)³ × 5 s.
    - `ranges`: find the least and the greatest possible value of every reaction; a `reactions.Known` tells what is
      known of supports that only push, of friction, strength and play.
    - `tolerance` (relative to the machine's size): how far redundant joints may be from closing, as in `simulate`.

    **Returns** a `Check`, which prints itself.

        >>> import dalembert as da
        >>> found = da.check(da.mechanism("door-two-hinges"))
        >>> found.mobility, found.redundancy
        (1, 5)
    """
    if isinstance(model, Solution):
        first = State(model.q[0], model.v[0]) if state is None else state
        t = float(model.t[0]) if state is None else t
        found = check(model.system, first, t=t, reactions=reactions, ranges=ranges, tolerance=_stated(model, tolerance))
        return replace(found, motion=_along(model))
    system = build(model) if isinstance(model, Model) else model
    q, v = (None, None) if state is None else state
    tolerance = check_tolerance(tolerance)
    loose = None
    try:
        here, contradictions = assembled(system, q, v, t=t).state, ()
    except AssemblyError as error:
        with suppress(AssemblyError):  # a small gap: analyse the machine without the rows that do not fit
            loose = loosened(system, q, v, t=t, tolerance=max(tolerance, NEARLY))
        fits = loose is not None and loose.misfit <= tolerance
        here, contradictions = (None, ()) if fits else _contradictions(system, t, q, v)
        if not fits and not contradictions:
            raise error  # a start too rough to be closed, not contradictory constraints
        here = here if loose is None else loose.found.state
        assert here is not None  # only a loosened machine fits
    given = State(here.q, system.v0 if v is None else v)
    found = _check(system, t, here, contradictions, reactions, ranges, loose)
    return replace(found, remarks=(*slips(system, t, given), *found.remarks))


def _contradictions(system: AbstractSystem, t: float, q, v) -> tuple[State, tuple[Contradiction, ...]]:
    """Named among all joints: in joint coordinates the gap shows in the cut ones alone, wherever it comes from."""
    if system.machine is system:
        return find_contradictions(system, t, q, v)
    start = State(system.q0 if q is None else q, system.v0 if v is None else v)
    return start, find_contradictions(system.machine, t, *system.lift(*(jnp.asarray(x) for x in start)))[1]


def _stated(solution: Solution, tolerance: float) -> float:
    """The tolerance for a motion that was computed with one."""
    return max(tolerance, min(20 * float(solution.stats.get("misfit", 0.0)), NEARLY))


def _check(
    system: AbstractSystem,
    t: float,
    here: State,
    contradictions,
    reactions: bool,
    ranges: bool | Known = False,
    loose: Loosened | None = None,
) -> Check:
    contradictory = bool(contradictions) and loose is None  # then no further analysis is possible
    if not contradictory:
        with suppress(DalembertError):  # loads that are not unique: the report states it
            system = decide_loads(system, here, t=t)
    first = Instant(system, t, here, RANK_TOLERANCE if loose is None else loose.rank_tolerance)
    others, stuck = [], None
    if loose is None and not contradictions and first.dependence.redundancy:
        stuck = taut(system, here, t)
        others = [] if stuck else first.beside  # beside a taut pose others nearly close, but none does
    best = first.generic if others else first
    rank = best.dependence.rank
    singular = first.dependence.rank < rank
    h = system.m_holonomic
    if not contradictions and not singular and loose is None:
        contradictions = _contradictory_accelerations(first)
    found = found_here = possible = None
    lifts: tuple[str, ...] = ()
    contradictory = bool(contradictions) and loose is None
    if reactions and not contradictory:
        # at a singular pose the equations give no values, and those of a neighbour are not what was requested
        determined = not singular and not (stuck and stuck.loaded)
        found = _solvability(best, [i for i in (first, *others) if i is not best], values=determined)
        found_here = _solvability(first, [], values=False) if singular else None
        known = ranges if isinstance(ranges, Known) else Known()
        if determined and system.machine.m and (ranges or known or one_sided_limits(system.machine)):
            every = PossibleSet.at(first.loaded, known)
            lifts = tuple(x.text for x in every.empty())
            possible = every.found() if ranges or known else None
    friction, load_rule = (), None
    bodies = system.bodies
    if bodies is not None and bodies.bearings and not contradictory:
        friction = tuple(pressing(best))
        load_rule = None if bodies.load_rule is None else bodies.load_rule.describe(bodies)
    # for many independent rows they would take longer than all the rest
    values = first.dependence.singular_values if rank < system.m or system.m < LARGE or singular else np.zeros(0)
    return Check(
        name=system.name,
        n=system.n,
        m=system.m,
        holonomic=h,
        rank=rank,
        rank_here=first.dependence.rank,
        rank_holonomic=rank if h == system.m else best.part(slice(0, h)),
        rank_nonholonomic=0 if h == system.m else best.part(slice(h, system.m)),
        redundancy=system.m - rank,
        mobility=0 if stuck else system.n - rank,
        gruebler=system.n - system.m,
        singular=singular,
        beside=len(others),
        bodies=0 if bodies is None else len(bodies.body_names),
        joints=dict(Counter(o.nature.label for o in first.machine.owners)),
        t=float(t),
        singular_values=values,
        tolerance=best.dependence.tolerance,
        contradictions=tuple(contradictions),
        solvability=found,
        solvability_here=found_here,
        friction=friction,
        load_rule=load_rule,
        remarks=(
            *(() if stuck is None else (str(stuck),)),
            *(() if singular else nearly_redundant(best)),
            *(() if contradictory else sticking(system, t, here)),
            *assumptions(bodies, best.held),
        ),
        free_motions=() if contradictory or stuck else free_motions(system, best.equations, best.dependence),
        unheld=unheld(system),
        misfit={} if loose is None else loose.gaps,
        ranges=possible,
        lifts=lifts,
    )


def _solver(instant: Instant) -> Solver:
    return Solver(instant.loaded.joints, instant.loaded.among_joints)


def _solvability(instant: Instant, others: list[Instant], *, values: bool = True) -> Solvability:
    instant = instant.loaded
    lam = None
    if instant.machine.m and values:
        e = instant.equations
        lam = instant.among_joints.multipliers(np.asarray(e.h), np.asarray(e.Gamma))
    elsewhere = [_solver(i) for i in others if i.dependence.rank == instant.dependence.rank]
    if instant.dependence.redundancy == 0:
        elsewhere = []
    return solve_solvability(instant.joints, instant.among_joints, lam, elsewhere, instant.typical_force)


def _contradictory_accelerations(instant: Instant) -> tuple[Contradiction, ...]:
    """Rows whose dependency holds for positions and velocities but not for accelerations."""
    d, system = instant.dependence, instant.system
    Gamma = np.asarray(instant.equations.Gamma) / d.sizes
    left = d.null @ (d.null.T @ Gamma)
    # against rounding: the residual of Γ where all rows agree
    if d.redundancy == 0 or np.max(np.abs(left)) <= 1e-7 * max(np.max(np.abs(Gamma)), 1e-6):
        return ()
    if system.machine is not system:  # named among all joints
        lifted = system.lift(*(jnp.asarray(x) for x in instant.state))
        return _contradictory_accelerations(Instant(system.machine, instant.t, lifted))
    return (contradiction_of("accelerations", instant.joints, d, left * d.sizes, system, instant.equations),)


def _along(solution: Solution) -> MotionCheck:
    """Ranks and uniqueness at instants spread over a motion, and its singular positions."""
    system = solution.system
    picks = np.unique(np.linspace(0, len(solution.t) - 1, INSTANTS).astype(int))
    singular = solution.singular_positions()
    generic = system.m - solution.redundancy
    ranks, unique = set(), {}
    for k in picks:
        now = solution.results.instant(int(k))
        ranks.add(now.dependence.rank)
        if solution.redundancy and now.dependence.rank == generic:
            solver = _solver(now)
            for j in solver.joints:
                unique.setdefault(j.name, set()).add(solver.uniqueness.reaction(j.name))
    return MotionCheck(
        t0=float(solution.t[0]),
        t_end=float(solution.t_end),
        instants=len(picks),
        ranks=tuple(sorted(ranks | {p.rank for p in singular})),
        singular_positions=tuple(singular),
        changing=tuple(name for name, seen in unique.items() if len(seen) > 1),
        message=solution.status.message,
    )
