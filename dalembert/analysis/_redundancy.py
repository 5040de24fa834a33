"""7 · analysis: `check`: rank and mobility, structure or singular pose, contradictions, and unique reactions."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
import numpy as np

from dalembert._results import AssemblyError, DalembertError
from dalembert.analysis._closing import Closing, Contradiction, contradiction_of, find_contradictions
from dalembert.analysis._free import FreeMotion, free_motions, unheld
from dalembert.analysis._solvability import Solvability, Solver, readable, solve_solvability
from dalembert.linalg import LARGE, RANK_TOLERANCE
from dalembert.model import Model
from dalembert.reactions import Instant, Pressing, decide_loads, pressing
from dalembert.simulation import SingularPosition, Solution
from dalembert.stabilise import EXACT, NEARLY, Loosened, State, check_tolerance, consistent_state, loosened, taut
from dalembert.systems import AbstractSystem, BodySystem, build, compiled

INSTANTS = 25
"""Instants of a motion at which rank and uniqueness are evaluated again."""


@dataclass(frozen=True)
class MotionCheck:
    """Rank and uniqueness along a motion: results at a number of instants, and where the rank falls."""

    t0: float
    t1: float
    instants: int
    ranks: tuple[int, ...]  # the values that the rank took, rising
    singular_positions: tuple[SingularPosition, ...]
    changing: tuple[str, ...]  # joints whose reaction is unique at some instants only
    sentence: str  # how the motion ended


@dataclass(frozen=True)
class Check:
    """What a model is, in numbers. `print` it, or read the fields; `as_dict` is the JSON form.

    `n` velocities, `m` rows (`holonomic` of them on positions), `rank` of C at generic configurations beside the
    given one, `redundancy` p = m − rank, `mobility` n − rank, `gruebler` n − m (Grübler's count).
    In a taut position, which allows velocities but no displacement, `mobility` is 0, and a remark states it.
    `singular`: the given pose itself has a lower rank (`rank_here`) than its neighbours; `beside` is the
    number of neighbours that were examined (none if all rows are independent here, or nothing can move).
    `rank_holonomic` and `rank_nonholonomic` are those of the two parts of C. `contradictions` are constraints that
    cannot hold together. `solvability`: which reactions are unique, which equations depend on each other, and what
    could be released: of the structure, that is beside a singular pose; `solvability_here` is
    that of the singular pose itself. At a singular pose neither holds values: they follow from the motion through it
    (`simulate`). `friction` lists the loads of friction by joint loads, and `load_rule` the rule that
    picks those that are not unique, if one is named. `motion` is filled for a `Solution`. `free_motions` are as many
    independent motions as there are degrees of freedom (none for large machines), and `unheld` names the bodies that
    no joint holds. `misfit` is how far redundant joints are from closing (relative to the machine's size), where
    they do so only approximately. Components of reactions are along the joints' own axes (marker i).
    `remarks` state which joints are nearly redundant (barely independent), and what is assumed about gears, belts and
    couplings: couplings that leave out the force of teeth or belts, the flank in contact.
    """

    name: str
    n: int
    m: int
    holonomic: int
    rank: int
    rank_here: int
    rank_holonomic: int
    rank_nonholonomic: int
    redundancy: int
    mobility: int
    gruebler: int
    singular: bool
    beside: int
    bodies: int
    joints: dict[str, int]
    t: float
    singular_values: np.ndarray = field(repr=False)
    tolerance: float = 0.0
    contradictions: tuple[Contradiction, ...] = ()
    solvability: Solvability | None = field(default=None, repr=False)
    solvability_here: Solvability | None = field(default=None, repr=False)
    friction: tuple[Pressing, ...] = ()
    load_rule: str | None = None
    motion: MotionCheck | None = None
    remarks: tuple[str, ...] = ()
    free_motions: tuple[FreeMotion, ...] = ()
    unheld: tuple[str, ...] = ()
    misfit: dict[str, float] = field(default_factory=dict)

    @property
    def consistent(self) -> bool:
        """Whether all constraints can hold together."""
        return not self.contradictions

    def unique(self, joint: str, component: str | None = None) -> bool:
        """Whether a joint's reaction, or one component of it in the joint's frame, is unique."""
        assert self.solvability is not None, "ask check(…) for reactions"
        found = self.solvability.joint(joint)
        return found.unique if component is None else found.components.get(component, True)

    def as_dict(self) -> dict:
        from dalembert.analysis._report import as_dict

        return as_dict(self)

    def summary(self) -> str:
        """The counts, in two to four lines."""
        from dalembert.analysis._report import summary

        return "\n".join(summary(self))

    def __rich__(self):
        from dalembert.analysis._report import renderable

        return renderable(self)

    def __str__(self) -> str:
        from dalembert.analysis._report import plain

        return plain(self)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from dalembert.view import html_console

        return html_console(self)


def check(
    model: Model | AbstractSystem | Solution,
    state: State | tuple | None = None,
    *,
    t: float = 0.0,
    reactions: bool = True,
    tolerance: float = EXACT,
) -> Check:
    """What a model is and which of its reactions are reliable; for a `Solution` also along its motion.

    At a state (default: the start) and at generic configurations beside it: rows, rank, redundancy, mobility,
    contradictions; and, unless `reactions` is False, dependent equations, possible releases and the uniqueness of
    every reaction. Rank is read in the mass metric on dimensionless rows, so it does not change with units. `tolerance`
    (relative to the machine's size) is how far redundant joints may be from closing, as in `simulate`.
    Dense and on the host: about (rows/1000)³ × 5 s.
    """
    if isinstance(model, Solution):
        first = State(model.q[0], model.v[0]) if state is None else state
        t = float(model.t[0]) if state is None else t
        found = check(model.system, first, t=t, reactions=reactions, tolerance=_stated(model, tolerance))
        return replace(found, motion=_along(model))
    system = build(model) if isinstance(model, Model) else model
    q, v = (None, None) if state is None else state
    tolerance = check_tolerance(tolerance)
    loose = None
    try:
        here, contradictions = consistent_state(system, q, v, t=t), ()
    except AssemblyError as error:
        with suppress(AssemblyError):  # a small gap: analyse the machine without the rows that do not fit
            loose = loosened(system, q, v, t=t, tolerance=max(tolerance, NEARLY))
        fits = loose is not None and loose.misfit <= tolerance
        here, contradictions = (None, ()) if fits else _contradictions(system, t, q, v)
        if not fits and not contradictions:
            raise error  # a start too rough to be closed, not contradictory constraints
        here = here if loose is None else loose.found.state
    return _check(system, t, here, contradictions, reactions, loose)


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
    system: AbstractSystem, t: float, here: State, contradictions, reactions: bool, loose: Loosened | None = None
) -> Check:
    contradictory = bool(contradictions) and loose is None  # then no further analysis is possible
    if not contradictory:
        with suppress(DalembertError):  # loads that are not unique: the report states it
            system = decide_loads(system, here, t=t)
    first = Instant(system, t, here, RANK_TOLERANCE if loose is None else loose.rank_tolerance)
    others, stuck = [], None
    if loose is None and not contradictions and first.dependence.redundancy:
        # else no neighbouring pose can have a larger rank
        stuck = taut(system, here, t)
        # beside a taut pose others nearly close, but none does
        others = [] if stuck else [Instant(system, t, s) for s in _neighbours(system, t, here, first)]
    best = max([first, *others], key=lambda i: i.dependence.rank)
    rank = best.dependence.rank
    singular = first.dependence.rank < rank
    h = system.m_holonomic
    if not contradictions and not singular and loose is None:
        contradictions = _contradictory_accelerations(first)
    found = found_here = None
    contradictory = bool(contradictions) and loose is None
    if reactions and not contradictory:
        # at a singular pose the equations give no values, and those of a neighbour are not what was requested
        determined = not singular and not (stuck and stuck.loaded)
        found = _solvability(best, [i for i in (first, *others) if i is not best], values=determined)
        found_here = _solvability(first, [], values=False) if singular else None
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
        joints=dict(Counter(readable(o.kind) for o in first.machine.owners)),
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
            *(() if singular else _nearly(best)),
            *_remarks(bodies, best.held),
        ),
        free_motions=() if contradictory or stuck else free_motions(system, best.equations, best.dependence),
        unheld=unheld(system),
        misfit={} if loose is None else loose.gaps,
    )


HAIR, APART = 1e-3, 1e-2
"""Rows are nearly redundant if a singular value is below `HAIR` of the largest and `APART` below the one before it: a
long chain has small ones too, but they fall gradually."""


def _nearly(instant: Instant) -> tuple[str, ...]:
    """A message if some rows are barely independent of the others: an axis that is meant to be parallel.

    In lengths and angles, not in the mass metric: there a light body alone makes its rows nearly alike. On bodies: in
    joint coordinates a row that is nearly nothing has no length to be measured by.
    """
    machine = instant.machine
    if machine.m >= LARGE or instant.among_joints.rank < 2:
        return ()
    rank = instant.among_joints.rank
    C = np.asarray(instant.on_bodies.C) * np.asarray(machine.scale())
    length = np.linalg.norm(C, axis=1)
    U, values, _ = np.linalg.svd(C / np.where(length > 0, length, 1.0)[:, None])
    kept = values[:rank] / values[0]
    weak = [k for k in range(1, rank) if kept[k] < HAIR and kept[k] < APART * kept[k - 1]]
    if not weak:
        return ()
    first = weak[0]
    shares = np.max(np.abs(U[:, first:rank]), axis=1)
    rows = np.flatnonzero(shares > 0.2 * np.max(shares))
    names = dict.fromkeys(machine.owner_of(int(row)).name for row in rows)
    count, named = rank - first, ", ".join(repr(n) for n in names)
    what = f"{count} rows are" if count > 1 else "1 row is"
    return (
        f"nearly redundant: {what} independent of the others by a hair only, at {named}: a singular value is "
        f"{kept[first]:.1e} of the largest, and below {instant.tolerance:.0e} it counts as zero. If axes or points "
        "were meant to agree, make them agree to all digits; else these reactions are what so small a difference makes "
        "of them",
    )


def _remarks(machine: BodySystem | None, held: dict[str, bool]) -> tuple[str, ...]:
    """What is assumed about gears, belts and couplings, one sentence each."""
    if machine is None:
        return ()
    motors = {name for f in machine.forces if f.kind.startswith("motor:") for name in f.names}
    found: dict[str, list[str]] = {word: [] for word in ("coupling", "teeth", "belt", "loose")}
    for f in machine.families:
        word, sided = f.kind.split(":")[0], "side" in f.p
        for name in f.names:
            if word == "coupling" and f.group.columns.shape[1] > 2 and name.removesuffix("_gear") not in motors:
                found["coupling"].append(name)
            elif sided and not held.get(name, True):
                found["loose"].append(name)
            elif sided:
                found["belt" if word == "belt" else "teeth"].append(name)
    sentences = {
        "coupling": "tied by their coordinates alone, without the force of teeth or a belt, which the bearings would "
        "bear; gear, rack_and_pinion and belt have it",
        "teeth": "the tooth force acts on the flank that is loaded, so it pushes the wheels apart either way",
        "belt": "no pretension is given: the tight span bears all, the slack one nothing",
        "loose": "the other joints do not hold the distance of the axes: the radial force is left out",
    }
    return tuple(f"{', '.join(repr(n) for n in names)}: {sentences[word]}" for word, names in found.items() if names)


def _solver(instant: Instant) -> Solver:
    return Solver(instant.loaded.joints, instant.loaded.among_joints)


def _solvability(instant: Instant, others: list[Instant], *, values: bool = True) -> Solvability:
    instant = instant.loaded
    lam = None
    if instant.machine.m and values:
        e = instant.equations
        lam = instant.among_joints.multipliers(np.asarray(e.force), np.asarray(e.Gamma))
    elsewhere = [_solver(i) for i in others if i.dependence.rank == instant.dependence.rank]
    if instant.dependence.redundancy == 0:
        elsewhere = []
    return solve_solvability(instant.joints, instant.among_joints, lam, elsewhere, _typical_force(instant))


def _typical_force(instant: Instant) -> float:
    """The force that turns the machine's momentum at its own rate: the scale of rounding."""
    e, system = instant.equations, instant.system
    v, scale = np.asarray(e.v), np.asarray(system.scale())
    rate = np.max(np.abs(v) / scale, initial=0.0)
    size = 1.0 if system.bodies is None else float(system.bodies.size)
    return float(np.max(np.abs(np.asarray(e.mass.mv(v))) * scale, initial=0.0) * rate / size)


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


def _neighbours(system: AbstractSystem, t: float, here: State, first: Instant) -> list[State]:
    """Configurations on the constraints a few hundredths of the machine's size away, along motions it can make.

    Rows that depend on time are dropped for this: with a driver held a machine has no neighbours, yet its pose may be
    singular for the driver's own coordinate.
    """
    if system.m == 0 or system.n == 0:
        return []
    rng = np.random.default_rng(20130305)
    closing = Closing(system, t, timeless=True)
    out = []
    for size in (0.02, 0.05):
        nudge = closing.admissible(first.equations, rng.standard_normal(system.n))
        if np.max(np.abs(nudge)) < 1e-6:
            return []  # it cannot move at all
        found = closing.close(_nudged(system, here.q, size * nudge), here.v)
        # back where it began (a motion of first order only), or far off: no neighbour
        away = np.max(np.abs(np.asarray(found.q) - np.asarray(here.q)) / np.asarray(system.coordinate_scale()))
        if found.gap < 1e-9 and 1e-4 < away < 1.0:
            out.append(State(found.q, here.v))
    return out


@compiled
def _nudged(system: AbstractSystem, q, nudge):
    return system.retract(q, nudge * system.scale())


def _along(solution: Solution) -> MotionCheck:
    """Ranks and uniqueness at instants spread over a motion, and its singular positions."""
    system = solution.system
    picks = np.unique(np.linspace(0, len(solution.t) - 1, INSTANTS).astype(int))
    singular = solution.singular_positions()
    generic = system.m - solution.redundancy
    ranks, unique = set(), {}
    for k in picks:
        now = Instant(system, solution.t[k], State(solution.q[k], solution.v[k]))
        ranks.add(now.dependence.rank)
        if solution.redundancy and now.dependence.rank == generic:
            solver = _solver(now)
            for j in solver.joints:
                unique.setdefault(j.name, set()).add(solver.uniqueness.reaction(j.name))
    return MotionCheck(
        t0=float(solution.t[0]),
        t1=float(solution.t_end),
        instants=len(picks),
        ranks=tuple(sorted(ranks | {p.rank for p in singular})),
        singular_positions=tuple(singular),
        changing=tuple(name for name, seen in unique.items() if len(seen) > 1),
        sentence=solution.status.sentence,
    )
