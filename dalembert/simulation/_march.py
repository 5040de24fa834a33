"""6 · simulation: marching by Diffrax, with packing, projection, and a status of our own.

The state is y = (q, w, work, memory): w are the velocities the formulation integrates (v, or tangent velocities u),
work[0] is the work done by all forces without a potential, work[1] that of the constraints (drivers), work[2] the
uncertainty of w due to rounding, work[3] the time spent beside singular positions; memory is the state of the
formulation and the stabilisation (a choice of basis, an integral). Three small wrappers:

- `_vector_field`: a formulation and a stabilisation as the right-hand side of an ordinary differential equation;
- `Projected`: any Diffrax solver, with the accepted state projected onto the constraints. A projected step must
  not reuse the stage computed before projection (FSAL), so to each step the state counts as one that has jumped;
- `Watched`: any Diffrax step-size controller, with dimensionless errors, that detects what Diffrax does not
  (numbers that are not finite, steps that vanish, eliminated rows that drift) and can pause the march, so that a
  progress bar and Ctrl-C need no callback (a callback would defeat the persistent compile cache).

There are two programs of a march: a short one, and a `careful` one, which passes singular positions. The short one
pauses before the first step that needs care; most machines never do, and their program is compiled in half the time.
In machine code (`_native`) a third function takes over at single states that need care ("aside").
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

import diffrax
import equinox as eqx
import equinox.internal
import jax
import jax.numpy as jnp
import numpy as np
import optimistix

from dalembert._results import Status
from dalembert._typing import Array
from dalembert.equations import Equations, assemble_known, residuals
from dalembert.formulations import AbstractFormulation
from dalembert.simulation._radau import Radau5, fresh
from dalembert.simulation._steps import DAMPING, FixedSteps, Predictive, ends
from dalembert.stabilise import AbstractStabilisation, State
from dalembert.systems import AbstractSystem, compiled, compiled_quickly, wrapped

R = TypeVar("R")

BAD_STEPS = 5
"""Steps that may end in numbers that are not finite before the run is stopped."""


COUNTED = 2**31 - 1
"""The most steps that Diffrax counts, in 32 bits."""


CARE = -1
"""Status of a march that has paused because its next step must be taken by the careful program."""


OPEN = 1e-7
"""A step is refused if a constraint has a larger relative gap after projection: contradiction, not rounding."""


NOISE = 10.0
"""Factor by which the error of a velocity may exceed the noise summed over a step by rounding alone."""


NEWTON_FLOOR = 1e-12
"""Smallest tolerance of the stages of Diffrax's implicit solvers: below it rounding keeps Newton from converging."""


def record(*static: str) -> Callable[[type[R]], type[R]]:
    """A dataclass that JAX can look into; `static` fields are not numbers. Made in a tenth of the time that an
    `equinox.Module` takes: a run makes a dozen of them."""

    def decorate(cls: type[R]) -> type[R]:
        fields: Any = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
        data = [f.name for f in fields if f.name not in static]
        return jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=list(static))

    return decorate


class Dropped(eqx.Module):
    """Rows that were eliminated as redundant: the system that still has them, and the drift allowed for each."""

    whole: AbstractSystem
    sizes: Array  # of all rows of the whole system
    rows: tuple[int, ...] = eqx.field(static=True)
    open: float = eqx.field(static=True, default=OPEN)  # how far

    def drift(self, t, q, v):
        """Violation of each eliminated row, in the machine's size."""
        Phi, phi = residuals(self.whole, t, q, v)
        gap = jnp.abs(phi) / self.sizes / (1.0 + jnp.max(jnp.abs(v) / self.whole.scale(), initial=0.0))
        h = self.whole.m_holonomic
        return gap.at[:h].max(jnp.abs(Phi) / self.sizes[:h])[jnp.array(self.rows)]


@record("loop")
@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """What is marched: a system under a formulation and a stabilisation."""

    system: AbstractSystem
    formulation: AbstractFormulation
    stabilisation: AbstractStabilisation
    sizes: Array  # of the constraint rows at the start: scales of their gaps
    dropped: Dropped | None = None
    loop: str = "lax"  # see `AbstractFormulation.motion`

    def vector_field(self, t, y, args):
        """ẏ at (t, y)."""
        return _vector_field(self, t, y)

    def pack(self, t, q, v):
        """y at a start."""
        return _pack(self, t, q, v)

    def state(self, t, y):
        """(q, v, work) behind y."""
        q, w, work, (memory, _) = y
        q, v = self.formulation.unpack(self.system, t, q, w, memory)
        return q, v, work[:2]

    def on_constraints(self, t, q, v):
        """An interpolated state projected onto the constraints, after those controllers that are sampled there."""
        q, v = self.stabilisation.project_saved(self.system, t, q, v)
        return sampled(self.system, self.formulation, t, q, v), v

    def settle(self, t, y):
        """y after a step, moved onto the constraints, and whether that succeeded."""
        return _settle(self, t, y)


# jitted although they only run inside a march: Diffrax traces its body several times, these are traced once
@compiled
def _vector_field(problem: Problem, t, y):
    system, formulation, stabilisation = problem.system, problem.formulation, problem.stabilisation
    q, w, _, (memory, integral) = y
    motion = formulation.motion(
        system, t, q, w, memory, stabilisation.rhs, exact=stabilisation.exact, loop=problem.loop
    )
    equations, acceleration = motion.equations, motion.acceleration
    q, v = equations.q, equations.v
    correction, integral_rate = stabilisation.kinematics(equations, integral, formulation.tangent)
    qdot = system.qdot(q, v if correction is None else v + correction)
    qdot = system.flow(t, q, v, acceleration.vdot, qdot)
    # rows that do not move do no work at a velocity that they allow
    idle = formulation.tangent and system.scleronomic
    power = powers(system, equations, qdot, None if idle else acceleration.r)
    # rounding changes sign from stage to stage, and so does its estimate; a march that asks for care has none
    noise = motion.noise if problem.loop == "ask" else motion.noise * jnp.cos(1e7 * jnp.asarray(t, float))
    noise = jnp.asarray(noise, float)
    rates = jnp.stack([*power, noise, jnp.asarray(motion.near, float)])
    held = jax.tree_util.tree_map(jnp.zeros_like, memory)
    return qdot, motion.wdot, rates, (held, integral_rate)


def powers(system: AbstractSystem, equations: Equations, qdot, r) -> tuple:
    """The power of all forces without a potential, and that of the reactions r (None: they have none)."""
    t, q, v = equations.t, equations.q, equations.v

    def stored(t, q):  # with v held: h holds the inertia terms of a mass matrix that changes, ½ v Ṁ v gives them back
        return system.potential(t, q) + 0.5 * v @ system.mass(t, q).mv(v)

    stored_rate = jax.jvp(stored, (jnp.asarray(t, float), q), (jnp.ones(()), qdot))[1]
    return equations.h @ v + stored_rate, jnp.zeros(()) if r is None else r @ v


@compiled_quickly
def _pack(problem: Problem, t, q, v):
    q, v = first_sample(problem.system, problem.formulation, t, State(q, v))
    w, memory = problem.formulation.pack(problem.system, t, q, v)
    return q, w, jnp.zeros(4), (memory, problem.stabilisation.memory(problem.system))


def sampled(system: AbstractSystem, formulation: AbstractFormulation, t, q, v, first: bool = False):
    """q after the controllers that are sampled at t have acted; what they read is what it was just before."""
    if not system.control.sampled:
        return q
    vdot = formulation.solve(assemble_known(system, t, q, v)).vdot if system.tick_needs_accelerations else None
    return system.tick(t, q, v, vdot, first=first)


def first_sample(system: AbstractSystem, formulation: AbstractFormulation, t, state: State) -> State:
    """A start after the first tick of all sampled controllers."""
    return State(sampled(system, formulation, t, *state, first=True), state.v)


@compiled
def _settle(problem: Problem, t, y):
    system, formulation = problem.system, problem.formulation
    q, v, _ = problem.state(t, y)
    (q, v), Phi, phi = problem.stabilisation.closed(system, t, q, v)
    if system.control.sampled:
        q = sampled(system, formulation, t, q, v)
        Phi, phi = residuals(system, t, q, v)
    _, _, work, (memory, integral) = y
    w, memory = formulation.repack(system, t, q, v, memory)
    y = (q, w, work, (memory, integral))
    if not problem.stabilisation.exact or system.m == 0:
        return y, jnp.array(True)
    speed = 1.0 + jnp.max(jnp.abs(v) / system.scale(), initial=0.0)
    gap = jnp.max(jnp.abs(phi) / problem.sizes) / speed
    if system.m_holonomic:
        gap = jnp.maximum(gap, jnp.max(jnp.abs(Phi) / problem.sizes[: system.m_holonomic]))
    return y, ~(gap > OPEN)  # NaN passes here and is detected elsewhere


def closed_step(problem: Problem, t1, y1, error):
    """The end of a step on the constraints, and its error: a step that cannot be closed is refused.

    With fixed steps, which have no error, only NaN can signal it.
    """
    y1, closed = problem.settle(t1, y1)

    def refused(tree, value):
        """The same with `value` in place of positions and velocities. Not of the work integrals: one of them asks for
        care at its stages, which would not help."""
        q, w, *rest = tree
        return (*jax.tree_util.tree_map(lambda x: jnp.where(closed, x, value), (q, w)), *rest)

    return (refused(y1, jnp.nan), None) if error is None else (y1, refused(error, jnp.inf))


class Projected(diffrax.AbstractWrappedSolver, diffrax.AbstractAdaptiveSolver):
    """A Diffrax solver whose steps end on the constraints."""

    solver: diffrax.AbstractSolver
    problem: Problem

    @property
    def scan_kind(self):
        return (
            getattr(self.solver, "scan_kind", None) or "checkpointed"
        )  # set by `march`; Diffrax reads but must not write

    @property
    def root_finder(self):
        return self.solver.root_finder  # pyright: ignore[reportAttributeAccessIssue]  # of an implicit solver; its tolerances are set by `march`

    @property
    def term_structure(self):
        return self.solver.term_structure

    @property
    def term_compatible_contr_kwargs(self):
        return self.solver.term_compatible_contr_kwargs

    @property
    def interpolation_cls(self) -> Callable:
        return self.solver.interpolation_cls

    def order(self, terms):
        return self.solver.order(terms)

    def strong_order(self, terms):
        return self.solver.strong_order(terms)

    def error_order(self, terms):
        return self.solver.error_order(terms)

    def func(self, terms, t0, y0, args):
        return self.solver.func(terms, t0, y0, args)

    def init(self, terms, t0, t1, y0, args):
        return self.solver.init(terms, t0, t1, y0, args)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        # each step begins with a state that was projected: a jump, after which no stage of the step before is reused
        y1, error, dense, state, result = self.solver.step(terms, t0, t1, y0, args, solver_state, True)
        y1, error = closed_step(self.problem, t1, y1, error)
        if isinstance(self.solver, Radau5):
            error = StepReport(error, state)
        return y1, error, dense, state, result


def until_tick(system: AbstractSystem, t, following):
    """Where a step from t ends: at the next tick of a sampled controller, if that comes first or is so near that the
    step after it would be tiny."""
    tick = system.control.next_tick(t)
    return jnp.where(following > tick - 1e-3 * (tick - t), tick, following)


class StepReport(NamedTuple):
    """What a step reports to the step control: its error, and the solver's state for the next step, for the mark."""

    error: Any
    carried: Any


def carried(plan: Plan, y):
    """The solver's state for the first step; None if it only reuses a stage."""
    return fresh(y) if plan.integrator == "radau5" else None


class Watched(diffrax.AbstractStepSizeController):
    """A step-size controller with a status: its state is (inner state, bad steps, next step, status, mark, steps taken,
    end of the next step); the inner state is that of the controller inside, with ticks also the step that it wants.

    Errors are measured relative to the machine's own size (`scale`), so no step depends on the unit of length.
    Bad steps are those that ended in numbers that are not finite; a good step as long as the last bad one clears
    them, shorter ones do not, so that slowly approaching a pole is detected as well.
    """

    controller: diffrax.AbstractStepSizeController
    problem: Problem
    end: jax.Array  # of the march
    pause_at: jax.Array
    pause_after: jax.Array
    most: jax.Array
    foreign: bool = eqx.field(static=True, default=False)  # whether the controller is the caller's own

    def wrap(self, direction):
        return eqx.tree_at(lambda s: s.controller, self, self.controller.wrap(direction))

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        tnext, inner = self.controller.init(terms, t0, t1, y0, dt0, args, func, error_order)
        if self.ticking and not isinstance(self.controller, FixedSteps):
            inner, tnext = (inner, tnext - t0), until_tick(self.problem.system, t0, tnext)
        zero = jnp.zeros((), int)
        return self._cut(tnext), (inner, (zero, jnp.zeros(())), tnext - t0, zero, None, zero, tnext)

    def adapt_step_size(self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state):
        inner, (bad, bad_step), _, _, mark, taken, _ = controller_state
        y_error, handed = y_error if isinstance(y_error, StepReport) else (y_error, None)
        asked = self.problem.loop == "ask"
        care = asked & ~_all_finite((y1_candidate[2][2], y_error[2][2] if asked and y_error is not None else ()))
        fixed = isinstance(self.controller, FixedSteps | diffrax.StepTo)
        # with fixed steps an infinite error (a step that cannot be closed) is as final as a NaN
        checked = (y1_candidate, y_error) if fixed else y1_candidate
        finite = _all_finite(checked)
        # a step that ends in NaN must be refused, whatever its error estimate is
        safe = jax.tree_util.tree_map(lambda a, b: jnp.where(finite, a, b), y1_candidate, y0)
        if y_error is not None:
            y_error = jax.tree_util.tree_map(lambda e: jnp.where(finite, e, jnp.inf), y_error)
        ticking = self.ticking and not fixed
        inner, natural = inner if ticking else (inner, 0.0)
        before, scale = y0, self.scale(y0)
        y0, safe = (_relative(y, scale) for y in (y0, safe))
        error = None if y_error is None else _beyond_noise(_relative(y_error, scale))
        if self.foreign:  # its norm is over all it is given: the work integrals do not control the step
            y0, safe, error = (None if y is None else y[:2] for y in (y0, safe, error))
        keep, tprev, tnext, jump, inner, result = self.controller.adapt_step_size(
            t0, t1, y0, safe, args, error, error_order, inner
        )
        if not (fixed or self.foreign):
            # the compiler computes tnext twice, with and without a fused multiplication, and a run that pauses would go
            # on one bit away: a step of 30 bits is the same for both, but for one in a million
            tnext = tprev + jax.lax.reduce_precision(tnext - tprev, 11, 30)
        if ticking:  # a step that a tick cut says little about the next one, which is as long as that would have been
            step = jnp.where(keep & (t1 - t0 < 0.999 * natural), jnp.maximum(tnext - tprev, natural), tnext - tprev)
            inner, tnext = (inner, step), until_tick(self.problem.system, tprev, tprev + step)
        cleared = finite & (t1 - t0 >= bad_step)
        bad = jnp.where(finite, jnp.where(cleared, 0, bad), bad + 1)
        bad_step = jnp.where(finite, jnp.where(cleared, 0.0, bad_step), t1 - t0)
        if fixed:  # nothing can be tried again
            keep, bad = keep & finite, jnp.where(finite, 0, BAD_STEPS)
        step = tnext - tprev
        dropped = self.problem.dropped
        if dropped is not None:
            q, v, _ = self.problem.state(t1, y1_candidate)
            drifts = keep & (jnp.max(dropped.drift(t1, q, v)) > dropped.open)
        wound = jnp.array(False)
        if self.problem.system.wound:  # an angle that jumps has passed half a turn
            before_it, after_it = (self._windings(*at) for at in ((t0, before), (t1, y1_candidate)))
            wound = keep & (jnp.max(jnp.abs(after_it - before_it)) > jnp.pi)
        smallest = 1e3 * jnp.finfo(float).eps * jnp.maximum(jnp.abs(tprev), jnp.abs(t1 - t0))
        status = jnp.where(~keep & (step < smallest), Status.step_too_small.value, 0)
        status = jnp.where(bad >= BAD_STEPS, Status.not_finite.value, status)
        if dropped is not None:
            status = jnp.where(drifts, Status.eliminated_drifts.value, status)
        status = jnp.where(wound, Status.wound.value, status)
        result = diffrax.RESULTS.where(status > 0, diffrax.RESULTS.dt_min_reached, result)
        taken = taken + 1
        pause = keep & ((tprev >= self.pause_at) | (taken >= self.pause_after)) & (status == 0)
        result = diffrax.RESULTS.where(pause, diffrax.RESULTS.event_occurred, result)
        exhausted = (taken >= self.most) & (tprev < self.end) & (status == 0)
        result = diffrax.RESULTS.where(exhausted, diffrax.RESULTS.max_steps_reached, result)
        if mark is not None:
            y = jax.tree_util.tree_map(lambda a, b: jnp.where(keep, a, b), y1_candidate, before)
            # Diffrax converts all of the error estimate to floats
            handed = jax.tree_util.tree_map(lambda a, b: jnp.where(keep, a, b).astype(b.dtype), handed, mark.carried)
            mark = mark.after(keep, tprev, y, tnext, inner, (bad, bad_step), self.end, handed, not asked)
        state = (inner, (bad, bad_step), step, status, mark, taken, tnext)
        if asked:  # as if this step had not been tried
            result = diffrax.RESULTS.where(care, diffrax.RESULTS.event_occurred, result)
            waiting = (*controller_state[:3], jnp.array(CARE), *controller_state[4:])
            keep, tprev, tnext, state = jax.tree_util.tree_map(
                lambda a, b: jnp.where(care, a, b), (False, t0, t1, waiting), (keep, tprev, tnext, state)
            )
        return keep, tprev, jnp.where(keep, self._cut(tnext), tnext), jump, state, result

    @property
    def ticking(self) -> bool:
        """Whether steps end at the ticks of sampled controllers."""
        return self.problem.system.control.sampled

    def _cut(self, t):
        return jnp.where(ends(t, self.end), self.end, t)

    def _windings(self, t, y):
        return wrapped(self.problem.system.windings(t, self.problem.state(t, y)[0]))

    def scale(self, y) -> tuple:
        system = self.problem.system
        return system.coordinate_scale(), self.problem.formulation.scale(system, y[3][0]), jnp.ones(4)


def _all_finite(tree) -> jax.Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree_util.tree_leaves(tree)]))


def _relative(y, scale: tuple) -> tuple:
    """q, w and work over their sizes; the memory has no error."""
    return tuple(a * (1.0 / s) for a, s in zip(y[:3], scale, strict=True))  # 1/s is computed once


def _beyond_noise(error: tuple) -> tuple:
    """The error of a step less the effect of rounding on its velocities beside a singular position."""
    q, w, work = error
    noise = NOISE * jnp.where(jnp.isfinite(work[2]), jnp.abs(work[2]), 0.0)  # a step that failed has an infinite error
    less = jax.tree_util.tree_map(lambda e: jnp.sign(e) * jnp.maximum(jnp.abs(e) - noise, 0.0), w)
    return q, less, work


# ---- integrators -------------------------------------------------------------------------------------------


class RK4(diffrax.AbstractERK):
    """The classical Runge–Kutta method of order 4 [Kutta 1901]: four stages, no error estimate, so for fixed steps.

    Between steps it is interpolated by a cubic through both ends; the slope at the end is that of the last stage, which
    errs by h³, so the states between err by h⁴ as those at the ends do.
    """

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
        b_sol=np.array([1.0, 2.0, 2.0, 1.0]) / 6.0,
        b_error=np.zeros(4),
        c=np.array([0.5, 0.5, 1.0]),
    )
    interpolation_cls: ClassVar[Callable] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms):
        return 4


INTEGRATORS: dict[str, type[diffrax.AbstractSolver]] = {
    "euler": diffrax.Euler,
    "heun": diffrax.Heun,
    "bosh3": diffrax.Bosh3,
    "rk4": RK4,
    "tsit5": diffrax.Tsit5,
    "dopri5": diffrax.Dopri5,
    "dopri8": diffrax.Dopri8,
    "kvaerno3": diffrax.Kvaerno3,
    "kvaerno5": diffrax.Kvaerno5,
    "radau5": Radau5,
}
"""By name: explicit of rising order, and three stiffly accurate implicit ones."""


def estimates_error(kind: type[diffrax.AbstractSolver]) -> bool:
    """Whether a solver can control its steps."""
    return issubclass(kind, diffrax.AbstractAdaptiveSolver) and not issubclass(kind, RK4)


def _error_norm(y) -> jax.Array:
    """Root mean square over positions and velocities; the work integrals do not control the step."""
    q, w, *_ = y
    return optimistix.rms_norm((q, w))


def _controlled_error(y) -> jax.Array:
    """The same for the step control, not below rounding level.

    The first steps are so short that their error estimate is noise; without a floor the controller's memory would
    pass it on to all later steps, and the motion would change (within tolerance) with the unit of length.
    """
    return jnp.maximum(_error_norm(y), 1e-4)


LOCAL = 5e-3
"""Share of the tolerance that one explicit step may err by: a minute of motion has thousands of steps, and
their errors add up to a few times the tolerance, not to hundreds of it."""


def _local(tolerance) -> jax.Array:
    """The tolerance of one step, not below what rounding allows."""
    return jnp.maximum(LOCAL * tolerance, jnp.minimum(tolerance, 1e-13))


@record()
@dataclasses.dataclass(frozen=True, eq=False)
class Span:
    """Start state and time of a march, and its numbers: all leaves, so that no change of a number recompiles."""

    t0: Array
    t1: Array
    dt0: Array | None  # None: the step-size controller knows
    y0: tuple
    rtol: Array
    atol: Array
    pause_at: Array  # a time
    resume: tuple | None  # solver and controller state of a paused march
    pause_after: Array | int = COUNTED  # steps, since the march began
    most: Array | int = COUNTED  # steps of all parts of a march together; Diffrax counts those of one


@record("integrator", "fixed", "save", "max_steps", "adjoint", "careful", "engine", "ticks")
@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The static choices of a march."""

    integrator: str
    fixed: bool
    save: str  # "times", "steps" or "dense"
    max_steps: int
    adjoint: str
    careful: bool = True  # else pause before the first step that needs it
    engine: str = "auto"  # "native", "jax", or "auto": native where it fits
    ticks: bool = False  # whether steps end at the ticks of sampled controllers
    # objects of Diffrax that were given; None: what the names above say
    solver: diffrax.AbstractSolver | None = None
    controller: diffrax.AbstractStepSizeController | None = None
    event: diffrax.Event | None = None
    derivative: diffrax.AbstractAdjoint | None = None


@record("engine")
@dataclasses.dataclass(frozen=True, eq=False)
class March:
    """What a march returns."""

    ts: Array
    ys: tuple
    t_end: Array
    y_end: tuple
    controller: tuple
    solver_state: object
    stats: dict
    dense: object
    status: Array
    paused: Array
    engine: str = "jax"


def march(problem: Problem, span: Span, plan: Plan, times: jax.Array) -> March:
    """One call of Diffrax, from t0 until t1, a pause or a failure; `times` is used when plan.save is "times"."""
    solver = _solver(plan)
    implicit = isinstance(solver, diffrax.AbstractImplicitSolver | Radau5)
    # an implicit step evaluates at states that are as good as its end
    loop = "none" if implicit else "lax" if plan.adjoint == "forward" else "bounded"
    loop = loop if plan.careful else "ask"
    problem = prepared(problem, span, plan, loop)
    controller = step_control(plan, span.rtol, span.atol, implicit) if plan.controller is None else plan.controller
    if isinstance(solver, diffrax.AbstractImplicitSolver) and _default_roots(solver):
        # the VeryChord of Diffrax gives up on stiff dampers and takes 50 times the steps
        rtol, atol = (jnp.maximum(0.01 * x, NEWTON_FLOOR) for x in (span.rtol, span.atol))
        roots: Any = optimistix.Chord
        roots = roots(rtol=rtol, atol=atol, norm=_error_norm)  # numbers that may be traced
        solver = eqx.tree_at(lambda s: s.root_finder, solver, roots, is_leaf=lambda x: x is None)
    limits = (jnp.asarray(x) for x in (span.t1, span.pause_at, span.pause_after, span.most))
    watched = Watched(controller, problem, *map(jax.lax.stop_gradient, limits), foreign=plan.controller is not None)
    if isinstance(solver, Radau5):
        solver = Radau5(span.rtol, span.atol, watched.scale)
    saves = [diffrax.SubSaveAt(t1=True)]
    if plan.save == "times":
        saves.append(diffrax.SubSaveAt(ts=times, fn=lambda t, y, args: problem.state(t, y)))
    else:
        saves.append(diffrax.SubSaveAt(t0=True, steps=True, fn=lambda t, y, args: problem.state(t, y)))
    resume = span.resume if span.resume is not None else (None, None)
    with _lean():
        solution: Any = diffrax.diffeqsolve(
            diffrax.ODETerm(problem.vector_field),
            Projected(solver, problem),
            span.t0,
            span.t1,
            span.dt0,
            span.y0,
            saveat=diffrax.SaveAt(
                subs=saves, dense=plan.save == "dense", solver_state=True, controller_state=True, made_jump=False
            ),
            stepsize_controller=watched,
            adjoint=_adjoint(plan),
            event=_event(plan, problem),
            max_steps=plan.max_steps,
            throw=False,
            solver_state=resume[0],
            controller_state=resume[1],
        )
    status = solution.controller_state[3]
    exhausted = solution.result == diffrax.RESULTS.max_steps_reached
    status = jnp.where((status == 0) & exhausted, Status.max_steps.value, status)
    status = jnp.where((status == 0) & _failed(solution.result), Status.step_too_small.value, status)
    happened = jnp.zeros((), bool)
    if plan.event is not None:
        happened = jnp.any(jnp.stack(jax.tree_util.tree_leaves(solution.event_mask))) & (status == 0)
        status = jnp.where(happened, Status.event.value, status)
    ts, ys = solution.ts[1], solution.ys[1]
    ys = _project_saved(problem, ts, ys) if plan.save == "times" else ys
    good = (status == Status.done.value) | (status == Status.event.value)
    t_end, y_end = solution.ts[0][0], jax.tree_util.tree_map(lambda a: a[0], solution.ys[0])
    if plan.event is not None:  # the state at an event is interpolated, and off the constraints
        y_end = jax.lax.cond(happened, lambda: problem.settle(t_end, y_end)[0], lambda: y_end)
    return March(
        ts=ts,
        ys=_unless_failed(ys, jax.lax.stop_gradient(good)),
        t_end=t_end,
        y_end=y_end,
        controller=solution.controller_state,
        solver_state=solution.solver_state,
        stats=solution.stats,
        dense=solution.interpolation,
        status=status,
        paused=(solution.result == diffrax.RESULTS.event_occurred) & ~happened,
    )


def prepared(problem: Problem, span: Span, plan: Plan, loop: str) -> Problem:
    """The problem for this kind of loop, with its tolerance where that matters."""
    formulation = problem.formulation
    if loop != "ask" and not plan.fixed:
        formulation = formulation.with_tolerance(span.rtol)
    return dataclasses.replace(problem, loop=loop, formulation=formulation)


def step_control(plan: Plan, rtol, atol, implicit: bool = False) -> diffrax.AbstractStepSizeController:
    """The step control of a march."""
    if plan.fixed:
        return FixedSteps()
    rtol, atol = (rtol, atol) if implicit else (_local(x) for x in (rtol, atol))
    return Predictive(rtol, atol, _controlled_error, 0.0 if implicit else DAMPING)


@jax.custom_jvp
def _unless_failed(ys, good):
    """ys; their derivatives are NaN where the run failed: values not reached must not have a zero derivative."""
    return ys


@_unless_failed.defjvp
def _unless_failed_jvp(primals, tangents):
    ys, good = primals
    factor = jnp.where(good, 1.0, jnp.nan)
    return ys, jax.tree_util.tree_map(lambda x: factor * x, tangents[0])


def _project_saved(problem: Problem, ts, ys):
    """Interpolated states are off the constraints by the interpolation error: project what was saved."""

    def one(saved):
        t, (q, v, work) = saved
        reached = jnp.isfinite(t)
        state = jax.lax.cond(reached, lambda: problem.on_constraints(t, q, v), lambda: (q, v))
        return *state, work

    return jax.lax.map(one, (ts, ys))


@contextlib.contextmanager
def _lean():
    """While tracing, two parts of Diffrax are left out. With another version of it they are not, and all still works.

    It checks its arguments by callbacks into Python, and a program with a callback is never kept in the persistent
    compile cache; `simulate` has checked them already. And it inlines the computation of the previous floating-point
    number a hundred times, a third of the program, to find steps that end at t1: `Watched` does that.
    """
    from diffrax import _integrate
    from equinox import _errors

    with contextlib.ExitStack() as stack:
        for module, name, lean in ((_errors, "EQX_ON_ERROR", "off"), (_integrate, "eqxi", _Internal())):
            if hasattr(module, name):
                stack.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, lean)
        yield


class _Internal:
    """Equinox's tools for Diffrax, without the computation of the previous floating-point number."""

    def __getattr__(self, name: str):
        return (lambda t: t) if name == "prevbefore" else getattr(equinox.internal, name)


def waits(plan: Plan) -> bool:
    """Whether the short program of a march can detect that it needs care: that of explicit steps can."""
    kind = INTEGRATORS[plan.integrator] if plan.solver is None else type(plan.solver)
    return not issubclass(kind, diffrax.AbstractImplicitSolver | Radau5)


def _solver(plan: Plan) -> diffrax.AbstractSolver:
    """The solver, with the loop over its stages that its derivatives need.

    A plain loop is fastest and runs forward derivatives; reverse ones need checkpoints, both ways bounds.
    """
    solver = INTEGRATORS[plan.integrator]() if plan.solver is None else plan.solver
    loop = "bounded" if isinstance(plan.derivative, diffrax.DirectAdjoint) else None
    loop = "lax" if plan.adjoint == "forward" else loop
    if isinstance(solver, diffrax.AbstractRungeKutta) and solver.scan_kind is None and loop is not None:
        solver = eqx.tree_at(lambda s: s.scan_kind, solver, loop, is_leaf=lambda x: x is None)
    return solver


def _default_roots(solver: diffrax.AbstractImplicitSolver) -> bool:
    """Whether an implicit solver has the root finder that Diffrax gives it."""
    return eqx.tree_equal(solver.root_finder, type(solver)().root_finder) is True


def _adjoint(plan: Plan) -> diffrax.AbstractAdjoint:
    if plan.derivative is not None:
        return plan.derivative
    return diffrax.ForwardMode() if plan.adjoint == "forward" else diffrax.RecursiveCheckpointAdjoint()


def _event(plan: Plan, problem: Problem) -> diffrax.Event | None:
    """The caller's event, whose conditions are functions of t and State(q, v), as one of the march's own state."""
    if plan.event is None:
        return None

    def of_march(condition):
        return lambda t, y, args, **rest: condition(t, State(*problem.state(t, y)[:2]), args, **rest)

    given = plan.event
    conditions = jax.tree_util.tree_map(of_march, given.cond_fn, is_leaf=callable)
    return diffrax.Event(conditions, given.root_finder, given.direction)


def _failed(result) -> jax.Array:
    good = (diffrax.RESULTS.successful, diffrax.RESULTS.event_occurred, diffrax.RESULTS.max_steps_reached)
    return ~jnp.any(jnp.stack([result == g for g in good]))


def default_integrator(rtol) -> str:
    """Tsitouras 5(4) for everyday tolerances, Dormand–Prince 8(7) for tight ones, where its 13 stages pay."""
    return "dopri8" if np.asarray(rtol) < 3e-5 else "tsit5"
