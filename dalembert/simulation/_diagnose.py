"""6 · simulation: why a motion has ended or has become slow, in words."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from dalembert._results import SingularWarning, Status, StiffnessWarning, warn_caller
from dalembert.equations import assemble, loads_at, residuals
from dalembert.loads import bearing_names
from dalembert.reactions import row_name
from dalembert.simulation._march import March, Plan, Problem
from dalembert.simulation._singular import beside
from dalembert.simulation._stiff import MANY, STIFF, stiffness
from dalembert.stabilise import State, open_rows, out_of_reach, row_sizes
from dalembert.systems import AbstractSystem, wrapped

NEAR_PARADOX = 1e-3
"""A march that cannot continue is reported as friction without a solution if det(1 − ∂N/∂s) is below this."""

BLOWN_UP = 1e6
"""Vanishing steps are reported as a diverging motion above this speed, in machine sizes (or radians) per second."""

LIGHT, LEFT, AT_LEAST = 1e-5, 2e-16, 1e-8
"""Usual margin of the rows (`Proximal.margin`) below which some bodies are so light beside their neighbours that a
passage through a singular position leaves an error whatever the tolerance: `LEFT` over the margin, `AT_LEAST` this.
Measured on a four-bar with cranks of 1e-6, 1e-8 and 1e-10 of its coupler's mass: 8e-9, 2e-8 and 9e-7."""

DIVERGING = 1e-6
"""Vanishing steps are reported as divergence if the speeds double within this share of the time since the start."""


def cause(problem: Problem, plan: Plan, marches: list[March], status: Status, t0: float) -> tuple[Status, str]:
    """The status of a run, examined where it failed, and the sentences that name its cause."""
    last, words = marches[-1], f"{status.message} "
    if status in (Status.step_too_small, Status.not_finite):
        status, words = _diagnose(problem, plan, last, status, float(last.t_end) - t0)
    elif status is Status.eliminated_drifts:
        words += _drifting(problem, last)
    elif status is Status.wound:
        away = wrapped(problem.system.windings(last.t_end, problem.state(last.t_end, last.y_end)[0]))
        far = np.abs(np.asarray(away)) > 0.5 * np.pi
        far |= ~np.any(far)  # a long step may have gone on to any angle
        names = dict.fromkeys(f"'{n}'" for n, out in zip(problem.system.wound, far, strict=True) if out)
        words += f"The law is {' or '.join(names)}. "
    return status, words + _stiffness(problem, plan, marches, t0, status)


def warn_of_light_bodies(problem: Problem, last: March, rtol: float) -> None:
    """Warn if a run was beside singular positions and light bodies cause an error above its tolerance there."""
    beside_for = float(last.y_end[2][3])
    if not beside_for > 0:
        return
    margin = float(getattr(problem.formulation, "margin", 1.0))
    left = max(LEFT / margin, AT_LEAST)
    if margin < LIGHT and left > rtol:
        warn_caller(
            f"{problem.system.name}: for {beside_for:.2g} s in all the motion was beside singular positions, and some "
            f"bodies are very light compared with their neighbours. That leaves an error of about {left:.0e} of the "
            "machine's size, which no smaller rtol removes: make light bodies heavier, or leave them out.",
            SingularWarning,
        )


def _stiffness(problem: Problem, plan: Plan, marches: list[March], t0: float, status: Status) -> str:
    """Whether stability kept the steps short, where relevant; for a run that reached its end it is a warning."""
    steps = sum(int(m.stats["num_accepted_steps"]) for m in marches)
    relevant = status in (Status.max_steps, Status.step_too_small) or (status is Status.done and steps >= MANY)
    if plan.fixed or not relevant or plan.integrator not in STIFF:
        return ""
    last, reached = marches[-1], [float(m.t_end) for m in marches]
    # at the limit of stability steps fluctuate: neither the last one nor the mean of a long run says it alone
    step = float(last.controller[2])
    mean = (reached[-1] - reached[-2]) if len(reached) > 1 else reached[0] - t0
    mean /= max(int(last.stats["num_accepted_steps"]), 1)
    step = min(max(step, mean), 2 * step)
    verdict = stiffness(problem, plan.integrator, last.t_end, last.y_end, step)
    if status is Status.done:
        if verdict:
            warn_caller(f"{problem.system.name}: {steps} steps. {verdict}", StiffnessWarning)
        return ""
    return (verdict or "It does not look stiff there, so integrator='radau5' would not help.") + " "


def _drifting(problem: Problem, last: March) -> str:
    """The eliminated rows that no longer hold."""
    dropped = problem.dropped
    assert dropped is not None
    q, v, _ = problem.state(last.t_end, last.y_end)
    gaps = np.asarray(dropped.drift(last.t_end, q, v))
    names = [
        f"'{row_name(dropped.whole, r)}' ({g:.1e} of the machine's size)"
        for r, g in zip(dropped.rows, gaps, strict=True)
        if g > dropped.open
    ]
    return f"{', '.join(names)}: keep it and drop another. "


def _diagnose(problem: Problem, plan: Plan, last: March, status: Status, elapsed: float) -> tuple[Status, str]:
    """The cause of a failure, as text: diverging numbers, or constraints that cannot be met after the last state."""
    system = problem.system
    q, v, _ = problem.state(last.t_end, last.y_end)

    def with_cause(status: Status, detail: str) -> tuple[Status, str]:
        singular = beside(system, last.t_end, q, v, float(last.controller[2]))
        return status, f"{status.message} {detail}{singular}"

    rates = problem.vector_field(last.t_end, last.y_end, None)
    if system.bodies is not None and system.bodies.bearings:
        unsettled = _without_load(system, last, q, v, rates)
        if unsettled:
            return with_cause(Status.no_load, unsettled)
    if not all(bool(jnp.all(jnp.isfinite(r))) for r in rates[:2]):
        return with_cause(Status.not_finite, _first_bad_force(system, last.t_end, q, v))
    fastest = np.max(np.abs(np.asarray(v)) / np.asarray(system.scale()), initial=0.0)
    t = last.t_end + 1e-6 * jnp.maximum(jnp.abs(last.t_end), 1e-3)
    q_last, v_last = q, v
    q, v = problem.stabilisation.project(system, t, q, v)
    Phi, phi = residuals(system, t, q, v)
    sizes = np.asarray(row_sizes(system, assemble(system, t, q, v)))
    for residual in (np.asarray(Phi) / sizes[: len(Phi)], np.asarray(phi) / sizes):
        if residual.size and np.max(np.abs(residual)) > 1e-9:
            cause = out_of_reach(system, float(t), q_last, v_last)
            opened = open_rows(system, residual, 0.1 * np.max(np.abs(residual)))
            return with_cause(Status.inconsistent, f"{cause}{opened} ")
    if fastest > BLOWN_UP or _doubling_time(problem, last, rates) < DIVERGING * elapsed:
        return Status.not_finite, _blow_up(system, *problem.state(last.t_end, last.y_end)[:2])
    if plan.fixed:
        return with_cause(status, "All is finite at its last state: the fixed step dt is too long for what follows. ")
    if status is Status.not_finite:  # the run stops before what is not finite
        ahead = (float(last.controller[2]) * 4.0**k for k in range(6))
        found = (_first_bad_force(system, last.t_end + dt, q_last + dt * rates[0], v_last) for dt in ahead)
        return with_cause(status, next(filter(None, found), ""))
    return with_cause(status, "")


def _doubling_time(problem: Problem, last: March, rates) -> float:
    """In how many seconds the velocities would double at their present growth; infinite where they do not grow."""
    w, wdot = np.asarray(last.y_end[1]), np.asarray(rates[1])
    scale = np.asarray(problem.formulation.scale(problem.system, last.y_end[3][0]))
    growth = np.sum(w * wdot / scale**2)
    return float(np.sum((w / scale) ** 2) / growth) if growth > 0 else np.inf


def _blow_up(system: AbstractSystem, q, v) -> str:
    """A message with the body, or the coordinate, that is fastest for the machine's size."""
    v, machine, bodies = _lifted(system, State(q, v)).v, system.machine, system.bodies
    fastest = int(np.argmax(np.abs(np.asarray(v)) / np.asarray(machine.scale())))
    what = f"velocity {fastest + 1} (v[{fastest}])"
    if bodies is not None:
        what = f"body '{bodies.body_names[fastest // bodies.dv]}'"
    return (
        f"The motion blows up: the speed of {what} grows without bound (it has reached {abs(float(v[fastest])):.2g}); "
        "look at the forces that grow with it. "
    )


def _without_load(system: AbstractSystem, last: March, q, v, rates) -> str:
    """The bearing whose load cannot be found at the last good state, or a few steps on."""
    wdot, bodies = rates[1], system.bodies
    assert bodies is not None
    known = all(bool(jnp.all(jnp.isfinite(r))) for r in rates[:2]) and wdot.shape == v.shape
    step = float(last.controller[2])
    for ahead in (0.0, *(step * 4.0**k for k in range(6))) if known else (0.0,):
        moved = (q + ahead * rates[0], v + ahead * wdot) if ahead else (q, v)
        loads = loads_at(system, last.t_end + ahead, *moved)
        if not loads.settled or loads.margin < NEAR_PARADOX:
            return f"The friction is '{bearing_names(bodies)[loads.culprit()]}'. "
    return ""


def _first_bad_force(system: AbstractSystem, t, q, v) -> str:
    bodies = system.bodies
    if bodies is None:
        return ""
    bad = np.flatnonzero(~np.isfinite(np.asarray(bodies.force(t, *system.lift(q, v)))))
    if not bad.size:
        return ""
    return f"The force on body '{bodies.body_names[bad[0] // bodies.dv]}' is the first that is not finite. "


def _lifted(system: AbstractSystem, state: State) -> State:
    return system.lift(*(jnp.asarray(x, float) for x in state))
