"""7 · analysis: `kinematics`: the motion that drivers prescribe, with its reactions (kinetostatics), not integrated.

Where drivers leave no freedom, positions follow from Φ(t, q) = 0, velocities from C v = −b, accelerations from C v̇ = Γ,
and reactions from M v̇ = h + Cᵀλ, each instant by itself. The way through time serves one purpose: to stay on the same
assembly. A step predicts (q, v) from the last two states and is taken if closing it moves it but little; then the
closed state is the one near the prediction, also through positions where assemblies meet. [Haug 1989, section 3.4;
continuation: Allgower, Georg 1990.]
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import AssemblyWarning, DalembertError, SimulationError, SingularWarning, Status, warn_caller
from dalembert._runtime import compile_stopwatch
from dalembert._typing import is_traced
from dalembert.analysis._free import free_motions
from dalembert.analysis._search import Goal, look_at
from dalembert.analysis._targets import joint_coordinates, listed
from dalembert.equations import assemble, assemble_known
from dalembert.formulations import Proximal
from dalembert.linalg import LARGE, RANK_TOLERANCE
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule, Instant, RequireUnique, rule_of
from dalembert.results import observe_all
from dalembert.simulation import Prepared, Solution, owners_of, prepare, project_all, qdot_all
from dalembert.stabilise import (
    EXACT,
    Assembled,
    Projection,
    State,
    assembled,
    closed_near,
    correction_sentence,
    nearest,
    out_of_reach,
)
from dalembert.systems import AbstractSystem, build, compiled, compiled_for_each, compiled_quickly, refuse_wound

SAMPLES = 201
"""Saved times, where none are given."""
TRUSTED = 0.02
"""Distance, in machine sizes or radians, between a prediction and the closed state up to which a step is taken."""
INSIDE = 0.5 * (3.0 - np.sqrt(5.0))
"""Where within a step the motion is looked at: no common fraction, so that a driver that comes back to where it was by
the end of a step is noticed, also if saved times and its period go together."""
TURN = 1.0
"""The longest turn of a step, in radians, where laws depend on turns that are not counted."""
WEAK = 1e-3
"""Least singular value of unit rows in the mass metric, over the largest, below which a state lies so near a dead point
that closing loses the motion: velocities are known to rounding over its square."""
BESIDE = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
"""Where states beside a dead point are closed, to find the motion there between them: in steps of `NEAR`."""
NEAR = (0.01, 0.023, 0.053)
"""Lengths of these steps, in machine sizes or radians; the first that lie outside `WEAK`. A polynomial of degree 5 is
known between them to 1e-13 for the first, to 1e-9 for the last."""
SHORTEST = 1e-11
"""Shortest step, as a share of the whole time: where shorter ones would be needed the drivers have left the reach."""
BETWEEN = 4
"""Parts of the time between two saved ones under jit, vmap and grad, at whose ends the power is found (Boole)."""
ROUGH = 1e-3
"""Share of the largest power to which Boole's rule and Simpson's must agree there; else the work is NaN."""
MANY = 3
"""Steps of the motion in each of these parts up to which these rules may be believed."""
LOST = 0.05
"""Share of the velocities that closing may take away at the end of a step there."""
MOVED = 1e-4
"""Warn if closing moves a start by more than this fraction of the machine's size."""
SUSPECT = 0.3
"""Share of its largest value to which the weakest singular value must fall at a saved time for dead points to be
searched for: to pass zero between two times it falls before."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)
"""Gauss's rule, for the work on a step."""


def kinematics(
    system: AbstractSystem | Model | Prepared,
    t_end: float,
    state: State | tuple | None = None,
    *,
    t0: float = 0.0,
    samples: Any = None,
    rule: AbstractReactionRule | str | None = None,
    throw: bool = True,
) -> Solution:
    """The motion of a machine that its drivers determine, from t0 to t_end, without integrating.

    Positions, velocities and accelerations hold to rounding at every saved time, whatever the time between them; the
    reactions, with the drivers' own forces, are those of that motion (kinetostatics).

    **Arguments**

    - `system`: a model, a system, or a prepared machine, with as many drivers of positions as it has freedoms.
    - `t_end`, `t0`: the end and the start, in seconds.
    - `state`: a rough guess (q, v) of the start, which decides the assembly; default: the model's.
    - `samples`: a number of equally spaced times (default 201), or an array of rising times.
    - `rule`: what picks reactions that are not unique (`da.reactions`), or its name.
    - `throw`: raise `SimulationError` where the drivers leave the machine's reach; else the motion ends there, with
      status `inconsistent`.

    **Returns** a `Solution`, as `simulate` does: `dataset`, `reactions(joint)`, `plot()`, `to_netcdf(path)`, … At its
    `at(t)` any time is as exact as a saved one. Dead points that the motion passes are named by a `SingularWarning`;
    `solution.singular_positions()` has their times and joints. A machine with freedoms left is refused, with their
    names. Works under `jit`, `vmap` and with derivatives by parameters and times (then nothing is raised; look at
    `status_code`; `work` is NaN where saved times are too far apart for it). Controllers with states are refused, as
    they must be integrated.

        >>> import dalembert as da
        >>> model = da.mechanism("four-bar")
        >>> _ = model.driver("motor", "A", da.functions.polynomial([0.0, 2.0]))
        >>> motion = da.kinematics(model, 3.0, samples=7)
        >>> motion.status.name, motion.violation["position"] < 1e-14
        ('done', True)

    Equations (7a.6)–(7a.7): docs/theory/kinematics.md.
    """
    ready = system if isinstance(system, Prepared) else None
    if ready is not None:
        if rule is not None:
            raise DalembertError("rule= cannot be given besides what da.prepare has fixed; give it to da.prepare.")
        system = ready.system
    machine = build(system) if isinstance(system, Model) else system
    assert isinstance(machine, AbstractSystem)
    _refuse_states(machine)
    times, skipped = _times(samples, t0, t_end)
    if is_traced(machine, state, times, jax.lax.neg(np.ones(()))):  # inside a jit all is traced
        return _traced(machine, ready, times, skipped, state, rule_of(rule))
    began, compiled_before = time.perf_counter(), compile_stopwatch.seconds
    found = assembled(machine, *((None, None) if state is None else state), t=float(times[0]))
    if found.moved > MOVED:
        warn_caller(f"{machine.name}: {correction_sentence(machine, found)}", AssemblyWarning)
    if times[0] == 0:
        refuse_wound(machine, found.state.q)
    _refuse_freedoms(machine, float(times[0]), found.state)
    ready = prepare(machine, found.state, t=float(times[0]), rule=rule) if ready is None else ready
    way = _follow(ready.system, found, times)
    clock = {"compile_s": compile_stopwatch.seconds - compiled_before, "start_moved": float(found.moved)}
    way = way._replace(saved=way.saved[skipped:])
    solution = _solution(ready, way, times, clock, began)
    if way.cause is not None:
        sentence = _end(ready.system, way, float(times[-1] - times[0]))
        if throw:
            raise SimulationError(sentence, solution)
    elif len(solution.t) > 1:
        _tell_dead_points(solution)
    return solution


def _times(samples, t0, t_end) -> tuple[Any, int]:
    """The times of a motion, from t0 on, and how many at its beginning are not saved: it starts at t0 whatever is saved
    first, because its start decides the assembly and the turns of its bodies."""
    for name, value in (("start", t0), ("end", t_end)):
        if not is_traced(value) and not (np.ndim(value) == 0 and np.isfinite(value)):
            raise DalembertError(f"The {name} of the motion must be a number, in seconds, not {value!r}.")
    if not is_traced(t0, t_end) and not t_end > t0:
        raise DalembertError(f"The end of the motion, {t_end:g} s, must be later than its start, {t0:g} s.")
    if samples is None or (isinstance(samples, int | np.integer) and not isinstance(samples, bool)):
        count = SAMPLES if samples is None else int(samples)
        if count < 2:
            raise DalembertError(f"samples={count}: give at least two times.")
        return (jnp if is_traced(t0, t_end) else np).linspace(t0, t_end, count), 0
    if is_traced(samples):
        return jnp.concatenate([jnp.reshape(jnp.asarray(t0, float), (1,)), samples]), 1
    try:
        times = np.asarray(samples, float)
    except (TypeError, ValueError):
        times = np.zeros(())
    if times.ndim != 1 or times.size == 0:
        raise DalembertError(f"samples={samples!r} is unknown; use a number of times, or an array of rising times.")
    if not is_traced(t0, t_end) and not (np.all(np.diff(times) > 0) and t0 <= times[0] and times[-1] <= t_end):
        raise DalembertError(f"samples= must be rising times within [{t0:g}, {t_end:g}].")
    if is_traced(t0):
        return jnp.concatenate([jnp.reshape(t0, (1,)), times]), 1
    return (times, 0) if times[0] == t0 else (np.concatenate([[float(t0)], times]), 1)


# ---- freedoms ------------------------------------------------------------------------------------------------------


def _refuse_states(system: AbstractSystem) -> None:
    """States of controllers follow from no position: their inputs would act as they were at the start."""
    if system.control.size:
        raise DalembertError(
            f"'{system.name}' has controllers with states of their own ({', '.join(system.control.labels[:4])}), which "
            "must be integrated with the motion. Use da.simulate, or leave these controllers out."
        )


def refuse_undriven(system: AbstractSystem, state: State | tuple | None = None, t0: float = 0.0) -> None:
    """Refuse a machine that `kinematics` refuses, where that is traced and looks at no numbers."""
    _refuse_states(system)
    found = assembled(system, *((None, None) if state is None else state), t=float(t0))
    _refuse_freedoms(system, float(t0), found.state)


def _refuse_freedoms(system: AbstractSystem, t: float, state: State) -> None:
    """Refuse a machine that its drivers do not determine, with what is free."""
    here, h = Instant(system, t, state).generic, system.m_holonomic
    free = system.n - here.dependence.rank
    if free == 0 and (h == system.m or here.part(slice(0, h)) == system.n):
        return
    drivers = [o.name for o in system.owners if o.drives and o.rows[0] < h]
    if free == 0:
        names = [o.name for o in system.owners if any(r >= h for r in o.rows)]
        raise DalembertError(
            f"The positions of '{system.name}' do not follow from its drivers: {listed(names)} prescribe{_s(names)} "
            "velocities (a speed driver, rolling), which must be integrated. Use da.simulate."
        )
    count = "1 degree of freedom" if free == 1 else f"{free} degrees of freedom"
    lead = f"The drivers {listed(drivers)}" if len(drivers) > 1 else f"The driver '{drivers[0]}'" if drivers else ""
    left = (
        f"{lead} leave{_s(drivers)} '{system.name}' {count}"
        if drivers
        else f"'{system.name}' has {count} and no driver"
    )
    motions = "; ".join(str(m) for m in free_motions(system, here.equations, here.dependence)[:4])
    drive = _drivable(system, t, here.state, free)
    advice = f"Drive {listed(drive)} (model.driver), or use da.simulate" if drive else "Drive them, or use da.simulate"
    raise DalembertError(f"{left}{f' ({motions})' if motions else ''}: its motion is not determined. {advice}.")


def _s(names) -> str:
    return "s" if len(names) == 1 else ""


def _drivable(system: AbstractSystem, t: float, state: State, free: int) -> list[str]:
    """As many joint coordinates as there are freedoms, which drivers could prescribe: one after the other the first of
    those that the motions that are still free move well."""
    named = joint_coordinates(system)
    if len(named) < free:
        return []
    scales = np.array([x.scale for x in named])
    zero = np.zeros(len(named))
    goal = Goal(np.ones(system.m_holonomic + len(named)), zero, tuple(zero[:, None]), scales)
    rows = look_at(system, tuple(x.target for x in named), goal, np.asarray(t, float), np.asarray(state.q)).rows
    own, others = rows[system.m_holonomic :], rows[: system.m_holonomic]
    size = np.linalg.norm(others, axis=1, keepdims=True)
    values, V = np.linalg.svd(others / np.where(size > 0, size, 1.0))[1:]
    left = own @ V[int(np.sum(values > RANK_TOLERANCE * np.max(values, initial=0.0))) :].T
    picked, least = [], 1e-6 * np.max(np.linalg.norm(left, axis=1))
    for _ in range(free):
        size = np.linalg.norm(left, axis=1)
        if np.max(size) <= least:
            return []
        k = int(np.argmax(size > 0.3 * np.max(size)))
        picked.append(named[k].name)
        left = left - np.outer(left @ left[k], left[k]) / size[k] ** 2
    return picked


# ---- through time --------------------------------------------------------------------------------------------------


class _Way(NamedTuple):
    """The steps of a motion: their ends, and which of them are saved times; `cause` if it ended early."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    saved: np.ndarray
    rejected: int
    cause: Status | None


def _follow(system: AbstractSystem, start: Assembled, times: np.ndarray) -> _Way:
    """Closed states from one saved time to the next, in steps short enough not to lose the assembly."""
    scale, size = np.asarray(system.coordinate_scale()), np.asarray(system.scale())
    t, q, v = float(times[0]), *(np.asarray(x) for x in start.state)
    rate = np.zeros(system.n)  # of v, from the last step
    ts, qs, vs, saved = [t], [q], [v], [0]

    def way(cause: Status | None = None) -> _Way:
        return _Way(np.array(ts), np.array(qs), np.array(vs), np.array(saved), rejected, cause)

    span, rejected, step = float(times[-1] - times[0]), 0, np.inf
    turns = np.asarray(_windings(system, t, q)) if system.wound else None
    for end in times[1:]:
        while t < end:
            h = end - t if t + 1.001 * step >= end else step
            if turns is not None:  # a step that turns less than half a turn: turns are counted from step to step
                h = min(h, TURN / max(np.max(np.abs(v) / size), 1e-300))
            guess_q, guess_v = _ahead(system, q, h * v + 0.5 * h * h * rate, v, h * rate)
            arrives = end if h == end - t else t + h
            found = closed_near(system, guess_q, guess_v, arrives)
            new_q, new_v = (np.asarray(x) for x in found.state)
            across = _across(system, (t, q, v, rate), arrives, np.asarray(guess_v), new_q)
            if across is not None:
                t = arrives
                q, v, rate = across
                ts.append(t)
                qs.append(q)
                vs.append(v)
                turns = None if turns is None else np.asarray(_windings(system, t, q))
                continue
            off = max(
                np.max(np.abs(new_q - guess_q) / scale, initial=0.0),
                h * np.max(np.abs(new_v - guess_v) / size, initial=0.0),
            )
            if _closed(found, new_v, size) and off < TRUSTED:
                between = _between(system, (t, q, v), (t + h, new_q, new_v))
                off = max(off, np.max(np.abs(between) / scale, initial=0.0))
            if not (_closed(found, new_v, size) and off < TRUSTED):
                rejected += 1
                step = h * (0.25 if not off < np.inf else max(0.2, min(0.5, 0.8 * np.sqrt(TRUSTED / off))))
                if step < SHORTEST * max(span, abs(t)):
                    return way(Status.inconsistent)
                continue
            rate = (new_v - v) / h
            t, q, v = arrives, new_q, new_v
            ts.append(t)
            qs.append(q)
            vs.append(v)
            step = h * min(3.0, 0.8 * np.sqrt(TRUSTED / max(off, 1e-12)))
            if turns is not None:
                before, turns = turns, np.asarray(_windings(system, t, q))
                if np.max(np.abs(turns - before)) > np.pi:
                    return way(Status.wound)
        saved.append(len(ts) - 1)
    return way()


def _across(system: AbstractSystem, start: tuple, t: float, v: np.ndarray, q: np.ndarray) -> tuple | None:
    """The motion (q, v and the rate of v) so near a dead point that it does not follow from its own instant: by a
    polynomial through closed states on both sides. None where (t, q) is no such place, or the motion does not pass it.

    `start` is a state before it with the rate of v, `v` what that predicts at t.
    """
    size, scale = np.asarray(system.scale()), np.asarray(system.coordinate_scale())
    speed = np.max(np.abs(v) / size, initial=0.0)
    if system.n == 0 or speed == 0 or not np.all(np.isfinite(q)) or _weakest(system, t, q, v) > WEAK:
        return None
    for near in NEAR:
        states, (at, here_q, here_v, rate) = [], start
        for k in BESIDE:
            there = t + k * near / speed
            h = there - at
            guess_q, guess_v = _ahead(system, here_q, h * here_v + 0.5 * h * h * rate, here_v, h * rate)
            found = closed_near(system, guess_q, guess_v, there)
            new_q, new_v = (np.asarray(x) for x in found.state)
            off = np.max(np.abs(new_q - guess_q) / scale, initial=0.0)
            if not (_closed(found, new_v, size) and off < 0.5 * near and _weakest(system, there, new_q, new_v) > WEAK):
                break
            rate, at, here_q, here_v = (new_v - here_v) / h if states else rate, there, new_q, new_v
            states.append((new_q, new_v))
        else:
            apart = BESIDE[:, None] - BESIDE + np.eye(len(BESIDE))
            weights = np.prod(np.where(np.eye(len(BESIDE), dtype=bool), 1.0, -BESIDE / apart), axis=1)
            q, v = (weights @ np.array(x) for x in zip(*states, strict=True))
            rate = (states[3][1] - states[2][1]) * speed / (2 * near)
            return *_strongly_closed(system, t, q, v), rate
    return None


def _weakest(system: AbstractSystem, t: float, q, v) -> float:
    """How well the rows determine a motion: their n-th singular value over the first."""
    d = assemble_known(system, np.asarray(t, float), q, v).dependence(np.arange(system.m_holonomic))
    if len(d.rows) >= LARGE and d.rank == len(d.rows):  # found without singular values: independent by a wide margin
        return 1.0
    values = d.singular_values
    return float(values[system.n - 1] / values[0]) if len(values) >= system.n and values[0] > 0 else 0.0


def _strongly_closed(system: AbstractSystem, t: float, q, v) -> tuple[np.ndarray, np.ndarray]:
    """A state closed along the directions that the rows determine well; the others stay as they are."""
    for velocities in (False, False, True):
        e = assemble_known(system, np.asarray(t, float), q, v)
        d = e.dependence(np.arange(system.m_holonomic))
        U, values, Vt = np.linalg.svd(d.rows, full_matrices=False)
        weights = np.where(values > WEAK * values[0], 1.0 / np.where(values > 0, values, 1.0), 0.0)
        gap = np.asarray(e.phi)[: system.m_holonomic] if velocities else np.asarray(e.Phi)
        y = -Vt.T @ (weights * (U.T @ (gap / d.sizes)))
        delta = np.linalg.solve(d.L.transpose(0, 2, 1), y.reshape(*d.L.shape[:2], 1)).ravel()
        q, v = (q, v + delta) if velocities else (np.asarray(_ahead(system, q, delta, v, 0.0 * v)[0]), v)
    return q, v


def _between(system: AbstractSystem, start: tuple, end: tuple) -> np.ndarray:
    """How far closing moves the state inside a step that Hermite's cubic through both ends gives; infinite where it
    cannot be closed."""
    (t, q, v), (t_end, q_end, v_end) = start, end
    s, h = INSIDE, t_end - t
    qdot, qdot_end = np.asarray(qdot_all(system, np.stack([q, q_end]), np.stack([v, v_end])))
    cubic = s * s * (3 - 2 * s)
    guess = (1 - cubic) * q + cubic * q_end + h * s * (1 - s) * ((1 - s) * qdot - s * qdot_end)
    found = closed_near(system, guess, (1 - s) * v + s * v_end, t + s * h)
    new_q, new_v = (np.asarray(x) for x in found.state)
    return new_q - guess if _closed(found, new_v, np.asarray(system.scale())) else np.full_like(q, np.inf)


def _closed(found: Assembled, v: np.ndarray, size: np.ndarray) -> bool:
    speed = 1.0 + np.max(np.abs(v) / size, initial=0.0)
    gap = max(np.max(np.abs(found.position), initial=0.0), np.max(np.abs(found.velocity), initial=0.0) / speed)
    return bool(gap <= EXACT) and bool(np.all(np.isfinite(v)))


def _displaced(system, q, delta, v, change):
    return system.retract(q, delta), v + change


_ahead = compiled_quickly(_displaced)


@compiled_quickly
def _windings(system, t, q):
    return system.windings(t, q)


def _end(system: AbstractSystem, way: _Way, span: float) -> str:
    """Why a motion ended early, with time, driver and joints."""
    t, q, v = float(way.t[-1]), way.q[-1], way.v[-1]
    assert way.cause is not None
    if way.cause is Status.wound:
        return f"{way.cause.message} It stopped at t = {t:.6g} s."
    drivers = out_of_reach(system, t + 1e-4 * span, q, v)
    d = Instant(system, t, State(q, v)).dependence
    weak = np.linalg.svd(d.rows)[0][:, : len(d.singular_values)][:, -1:]
    return (
        f"The drivers leave the reach of '{system.name}' at t = {t:.6g} s: a dead point, where the rows of "
        f"{listed(owners_of(system, weak))} become dependent. {drivers}The motion ends there."
    )


def _tell_dead_points(solution: Solution) -> None:
    sigma, rank = np.asarray(solution.results.observed.sigma), solution.rank
    weakest = sigma[:, min(rank, sigma.shape[1]) - 1] if rank else np.ones(len(sigma))
    if np.min(weakest) > SUSPECT * np.max(weakest):
        return
    found = solution.singular_positions()
    if found:
        places = "; ".join(f"t = {p.t:.6g} s ({', '.join(repr(j) for j in p.joints)})" for p in found[:6])
        more = f" and {len(found) - 6} more" if len(found) > 6 else ""
        warn_caller(
            f"'{solution.system.name}' passes dead points, where drivers do not decide its motion, at {places}{more}. "
            "It goes on smoothly; values beside them are less exact.",
            SingularWarning,
        )


# ---- work, and the solution ----------------------------------------------------------------------------------------


def _powers(system: AbstractSystem, t, q, v, vdot):
    """The power of forces without a potential, and that of the rows, r = M v̇ − h: rates of `Solution.work`."""
    h, M = system.force(t, q, v), system.mass(t, q)
    if system.bodies is not None and system.bodies.bearings:  # friction by loads is no part of that force
        h = assemble(system, t, q, v).h

    def stored(t, q):  # with v held: h holds the inertia terms of a mass matrix that changes
        return system.potential(t, q) + 0.5 * v @ system.mass(t, q).mv(v)

    rate = jax.jvp(stored, (jnp.asarray(t, float), q), (jnp.ones(()), system.qdot(q, v)))[1]
    return jnp.stack([h @ v + rate, (M.mv(vdot) - h) @ v])


_powers_all = compiled_for_each(_powers, 4)


def _work(ready: Prepared, way: _Way) -> np.ndarray:
    """Work up to the end of each step, by Gauss's rule; states between are closed as those at the ends."""
    h = np.diff(way.t)
    if not len(h) or ready.system.n == 0:
        return np.zeros((len(way.t), 2))
    s = 0.5 * (1 + NODES)
    qdot = np.asarray(qdot_all(ready.system, way.q, way.v))
    weights = np.stack([2 * s**3 - 3 * s**2 + 1, -2 * s**3 + 3 * s**2, s**3 - 2 * s**2 + s, s**3 - s**2])
    ends = np.stack([way.q[:-1], way.q[1:], h[:, None] * qdot[:-1], h[:, None] * qdot[1:]])
    q = np.einsum("ks,kij->isj", weights, ends).reshape(h.size * s.size, -1)
    v = ((1 - s)[:, None] * way.v[:-1, None] + s[:, None] * way.v[1:, None]).reshape(-1, way.v.shape[1])
    t = (way.t[:-1, None] + h[:, None] * s).ravel()
    # as many at a time as there are saved times: the programs that look at those serve here, too
    count = max(len(way.saved), 1)
    t, q, v = (np.concatenate([x, np.repeat(x[-1:], -len(x) % count, axis=0)]) for x in (t, q, v))
    power = [_power_at(ready, *(x[k : k + count] for x in (t, q, v))) for k in range(0, len(t), count)]
    power = np.concatenate(power)[: h.size * s.size].reshape(len(h), len(s), 2)
    done = 0.5 * h[:, None] * np.einsum("s,isk->ik", WEIGHTS, power)
    return np.concatenate([np.zeros((1, 2)), np.cumsum(done, axis=0)])


def _power_at(ready: Prepared, t, q, v) -> np.ndarray:
    q, v = project_all(ready.system, ready.stabilisation, t, q, v)
    vdot = observe_all(ready.system, ready.formulation, RequireUnique(), t, q, v).rates
    return np.asarray(_powers_all(ready.system, t, q, v, vdot))


def _solution(ready: Prepared, way: _Way, times: np.ndarray, clock: dict[str, float], began: float) -> Solution:
    work, saved = _work(ready, way), way.saved
    if way.cause and (not len(saved) or saved[-1] != len(way.t) - 1):  # where it ends is worth seeing
        saved = np.append(saved, len(way.t) - 1)
    steps = len(way.t) - 1
    stats = {"accepted": steps, "rejected": way.rejected, "steps": steps + way.rejected, "start_velocity_changed": 0.0}
    stats |= clock | {"wall_s": time.perf_counter() - began - clock["compile_s"]}
    return Solution(
        system=ready.system,
        formulation=ready.formulation,
        stabilisation=ready.stabilisation,
        t=way.t[saved],
        q=way.q[saved],
        v=way.v[saved],
        work=work[saved],
        status_code=np.asarray((way.cause or Status.done).value),
        t_end=np.asarray(way.t[-1] if way.cause else times[-1]),
        stats=stats,
        dense=None,
        integrator="kinematics",
        chosen=ready.rule,
    )


# ---- under jit, vmap and grad --------------------------------------------------------------------------------------


def _traced(system: AbstractSystem, ready: Prepared | None, times, skipped: int, state, rule) -> Solution:
    """The same as a function of JAX, which does not pass a dead point at a saved time; the first `skipped` are not
    saved."""
    q, v = (None, None) if state is None else state
    q, v = system.q0 if q is None else q, system.v0 if v is None else v
    if ready is None:
        ready = Prepared(system, Proximal(), Projection(), rule)
    q, v, work, closed = _followed(system, ready.formulation, jnp.asarray(times, float), q, v)
    good = jnp.all(closed)
    status = jnp.where(good, Status.done.value, Status.inconsistent.value)
    count = (len(times) - 1) * BETWEEN
    stats: dict[str, Any] = {"accepted": count, "rejected": 0, "steps": count}
    return Solution(
        system=system,
        formulation=ready.formulation,
        stabilisation=ready.stabilisation,
        t=jnp.asarray(times, float)[skipped:],
        q=q[skipped:],
        v=v[skipped:],
        work=work[skipped:],
        status_code=status,
        t_end=jnp.asarray(times, float)[-1],
        stats=stats,
        dense=None,
        integrator="kinematics",
        chosen=ready.rule,
    )


class _Going(NamedTuple):
    """A motion on its way to a time, inside a program: its last closed state, and the length of the next step."""

    t: Any
    q: Any
    v: Any
    rate: Any
    step: Any
    taken: Any  # steps


def _followed_to(system: AbstractSystem, span, start) -> _Going:
    """`_follow` to one time, in as many steps as that takes; not differentiated. Ends before it where none is short
    enough."""
    (begin, end), (q, v, rate), free = span, start, jnp.ones(system.n)
    scale, size = system.coordinate_scale(), system.scale()

    def close(carry, inside):
        """The state at the end of the step, then the one inside it that Hermite's cubic through both ends gives."""
        at, h, closed, _ = carry
        s = jnp.where(inside, INSIDE, 1.0)
        cubic = s * s * (3 - 2 * s)
        middle = (1 - cubic) * at.q + cubic * closed.q
        middle = middle + h * s * (1 - s) * ((1 - s) * system.qdot(at.q, at.v) - s * system.qdot(closed.q, closed.v))
        ahead = system.retract(at.q, h * at.v + 0.5 * h * h * at.rate)
        guess_q = jnp.where(inside, middle, ahead)
        guess_v = jnp.where(inside, (1 - s) * at.v + s * closed.v, at.v + h * at.rate)
        found = nearest(system, at.t + s * h, guess_q, guess_v, free)
        q, v = found.state
        speed = 1.0 + jnp.max(jnp.abs(v) / size, initial=0.0)
        gap = jnp.maximum(
            jnp.max(jnp.abs(found.position), initial=0.0), jnp.max(jnp.abs(found.velocity), initial=0.0) / speed
        )
        off = jnp.maximum(
            jnp.max(jnp.abs(q - guess_q) / scale, initial=0.0),
            jnp.where(inside, 0.0, h * jnp.max(jnp.abs(v - guess_v) / size, initial=0.0)),
        )
        # at a dead point closing stops the motion, however short the step
        before, now = (jnp.max(jnp.abs(x) / size, initial=0.0) for x in (at.v, v))
        lost = ~inside & (now < before) & (jnp.max(jnp.abs(v - guess_v) / size, initial=0.0) > LOST * before)
        off = jnp.where((gap <= EXACT) & ~lost, off, jnp.inf)
        end = closed._replace(t=at.t + s * h, q=q, v=v)
        return (at, h, _either(inside, closed, end), jnp.maximum(carry[3], off)), None

    def step(at: _Going) -> _Going:
        left = end - at.t
        h = jnp.where(left <= 1.001 * at.step, left, at.step)
        (_, _, closed, off), _ = jax.lax.scan(close, (at, h, at, jnp.zeros(())), jnp.array([False, True]))
        good = off < TRUSTED
        longer = h * jnp.minimum(3.0, 0.8 * jnp.sqrt(TRUSTED / jnp.maximum(off, 1e-12)))
        shorter = h * jnp.where(jnp.isfinite(off), jnp.clip(0.8 * jnp.sqrt(TRUSTED / off), 0.2, 0.5), 0.25)
        t = jnp.where(h == left, end, at.t + h)
        there = closed._replace(t=t, rate=(closed.v - at.v) / h, step=longer, taken=at.taken + 1)
        return _either(good, there, at._replace(step=shorter))

    def going(at: _Going):
        return (at.t < end) & (at.step > SHORTEST * jnp.maximum(end - begin, jnp.abs(end)))

    return jax.lax.while_loop(going, step, _Going(begin, q, v, rate, end - begin, jnp.zeros((), int)))


def _either(condition, these, others):
    return jax.tree_util.tree_map(lambda a, b: jnp.where(condition, a, b), these, others)


@compiled
def _followed(system, formulation, times, q, v):
    """q, v and work at the saved times, and whether each step closed. Derivatives are those of the closed states: what
    goes from one to the next is a guess."""
    free, size = jnp.ones(system.n), system.scale()
    first = nearest(system, times[0], q, v, free)
    # Boole's rule on each span: times at its quarters
    ends = times[:-1, None] + jnp.diff(times)[:, None] * jnp.arange(1, BETWEEN + 1) / BETWEEN
    grid = jnp.concatenate([times[:1], ends.ravel()])

    def step(carry, span):
        way = _followed_to(*jax.lax.stop_gradient((system, span, carry)))
        found = nearest(system, span[1], way.q, way.v, free)
        q, v = found.state
        gap = jnp.max(jnp.abs(found.position), initial=0.0)
        speed = 1.0 + jnp.max(jnp.abs(v) / size, initial=0.0)
        closed = (gap <= EXACT) & (jnp.max(jnp.abs(found.velocity), initial=0.0) <= EXACT * speed)
        return jax.lax.stop_gradient((q, v, way.rate)), (q, v, closed & (way.t >= span[1]), way.taken)

    start = jax.lax.stop_gradient((*first.state, jnp.zeros(system.n)))
    _, (qs, vs, closed, taken) = jax.lax.scan(step, start, (grid[:-1], grid[1:]))
    qs, vs = (jnp.concatenate([x[None], y]) for x, y in zip(first.state, (qs, vs), strict=True))

    def powers(at):
        t, q, v = at
        return _powers(system, t, q, v, formulation.solve(assemble(system, t, q, v)).vdot)

    power = jax.lax.map(powers, (grid, qs, vs))
    spans = power[:-1].reshape(-1, BETWEEN, 2), power[BETWEEN::BETWEEN]
    inner = jnp.einsum("s,isk->ik", jnp.array([7.0, 32.0, 12.0, 32.0]), spans[0]) + 7.0 * spans[1]
    # where Simpson's rule on the halves says otherwise, or the motion took many steps, saved times are too far apart
    coarse = jnp.einsum("s,isk->ik", jnp.array([1.0, 4.0, 2.0, 4.0]), spans[0]) + spans[1]
    largest = jnp.max(jnp.abs(power), axis=0)
    good = jnp.abs(inner / 90.0 - coarse / 12.0) <= ROUGH * largest
    good = good & (jnp.max(taken.reshape(-1, BETWEEN), axis=1) <= MANY)[:, None]
    inner = jnp.where(good, inner, jnp.nan)
    work = jnp.concatenate([jnp.zeros((1, 2)), jnp.cumsum(jnp.diff(times)[:, None] * inner / 90.0, axis=0)])
    return qs[::BETWEEN], vs[::BETWEEN], work, closed
