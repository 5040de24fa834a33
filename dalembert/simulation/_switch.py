"""6 · simulation: constraints that are switched on and off during a motion (a latch, a clutch, a docking).

[Blajer, Bestle, Schiehlen 1994, section 5]. Between two switchings the motion is a plain one; when a constraint closes,
the velocities jump by the projection in the mass metric, v⁺ = v⁻ − M⁻¹Cᵀ(C M⁻¹Cᵀ)⁺φ, which loses kinetic energy
and never gains any; Λ = −(C M⁻¹Cᵀ)⁺φ are the impulses. No size changes: rows are switched by numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert.equations import assemble_known
from dalembert.reactions import joint_wrenches, on_bodies
from dalembert.simulation._simulate import simulate
from dalembert.simulation._solution import Solution
from dalembert.stabilise import State
from dalembert.systems import AbstractSystem, compiled, set_active


@dataclass(frozen=True)
class Switch:
    """When to close and open constraints: at a time, or `when` a function of (t, q, v) passes zero.

    `rising` looks at one direction only (+1: from below, −1: from above, 0: both). With `hold` a closing constraint is
    held where the machine is at that instant; without it, where its rows are zero (else it cannot assemble).
    """

    close: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    at: float | None = None
    when: Callable[[float, Any, Any], Any] | None = None
    rising: int = 0
    hold: bool = True

    def __post_init__(self):
        for word in ("close", "open"):
            value = getattr(self, word)
            object.__setattr__(self, word, (value,) if isinstance(value, str) else tuple(value))
        if (self.at is None) == (self.when is None):
            raise DalembertError("A Switch needs a time (at=) or an event (when=), one of the two.")


@dataclass(frozen=True)
class Jump:
    """What happened at a switching: time, energies before and after, and the impulses Λ by constraint.

    `wrenches` holds for each joint of a model the impulsive force and torque on its body j, in world axes, at marker j.
    """

    t: float
    closed: tuple[str, ...]
    opened: tuple[str, ...]
    energy_before: float
    energy_after: float
    impulses: dict[str, np.ndarray] = field(repr=False)
    wrenches: dict[str, tuple[np.ndarray, np.ndarray]] = field(repr=False)

    @property
    def energy_lost(self) -> float:
        return self.energy_before - self.energy_after


def close_constraint(
    system: AbstractSystem, names: str | Sequence[str], state: State | tuple, *, t: float = 0.0, hold: bool = True
) -> tuple[AbstractSystem, State, Jump]:
    """Switch constraints on at a state: the system, the state after the jump, and the jump."""
    names = (names,) if isinstance(names, str) else tuple(names)
    q, v = (jnp.asarray(x, float) for x in state)
    for name in names:
        system = set_active(system, name, 1.0)
        if hold:
            rows = [r for r in _rows(system, name) if r < system.m_holonomic]
            open_ = set_active(system, name, 1.0, held_at=np.zeros(len(rows)))
            Phi = np.asarray(open_.position_residual(t, q))
            system = set_active(system, name, 1.0, held_at=Phi[rows])
    after, lam, before_T, after_T, wrenches = _jump(system, np.asarray(t, float), q, v)
    impulses = {o.name: np.asarray(lam)[list(o.rows)] for o in system.machine.owners}
    by_joint = {}
    if wrenches is not None and system.bodies is not None:
        for k, joint in enumerate(system.bodies.joints):
            by_joint[joint.name] = (np.asarray(wrenches.force[k]), np.asarray(wrenches.torque[k]))
    jump = Jump(float(t), names, (), float(before_T), float(after_T), impulses, by_joint)
    return system, State(q, after), jump


@compiled
def _jump(system: AbstractSystem, t, q, v):
    equations = assemble_known(system, t, q, v)
    saddle, phi, after, lam = equations.factorise(), equations.phi, v, jnp.zeros(system.m)
    for _ in range(2):  # the second removes rounding
        delta, more = saddle.solve(None, -phi)
        after, lam = after + delta, lam + more
        phi = equations.rows.mv(after) + equations.b
    energies = 0.5 * v @ equations.mass.mv(v), 0.5 * after @ equations.mass.mv(after)
    there = on_bodies(system, equations)  # the impulses of all joints, from the bodies' own jumps
    jump = system.push_forward(q, after - v)
    lam = system.multipliers_of_machine(there.q, there.rows, there.mass.mv(jump), lam)
    wrenches = None if system.bodies is None else joint_wrenches(system.bodies, there, lam)
    return after, lam, *energies, wrenches


@dataclass(frozen=True)
class SwitchedSolution:
    """A motion in segments, with the jumps between them. `t`, `q`, `v` are those of all segments in turn."""

    segments: list[Solution]
    jumps: list[Jump]

    def _joined(self, what: str) -> np.ndarray:
        return np.concatenate([np.asarray(getattr(s, what)) for s in self.segments])

    @property
    def t(self) -> np.ndarray:
        return self._joined("t")

    @property
    def q(self) -> np.ndarray:
        return self._joined("q")

    @property
    def v(self) -> np.ndarray:
        return self._joined("v")

    @property
    def system(self) -> AbstractSystem:
        """The system as it is at the end."""
        return self.segments[-1].system

    @property
    def energy_balance(self) -> float:
        """Energy at the end − at the start − work done + energy lost in the jumps: zero for an exact motion."""
        first, last = (s.energy for s in (self.segments[0], self.segments[-1]))
        work = sum(float(s.energy["work"][-1] + s.energy["work_of_constraints"][-1]) for s in self.segments)
        lost = sum(j.energy_lost for j in self.jumps)
        return float(last["total"][-1]) - float(first["total"][0]) - work + lost


def simulate_switching(
    system: AbstractSystem,
    t_end: float,
    switches: Sequence[Switch],
    state: State | tuple | None = None,
    *,
    t0: float = 0.0,
    samples: int = 101,
    **settings,
) -> SwitchedSolution:
    """The motion of a system whose constraints close and open; `settings` are those of `simulate`.

    The constraints that switch must have switches: `with_switches(system, name)`. Each `Switch` acts once.
    """
    if system.control.sampled:
        raise DalembertError(
            f"'{system.name}' has sampled controllers: constraints that switch are not marched with them."
        )
    if not system.phases_stated:
        raise DalembertError(
            f"'{system.name}' has friction '{system.sticking[0]}' that sticks: constraints that switch are not marched "
            "with it. Take friction or bearing_friction, which are regularised laws."
        )
    waiting, segments, jumps = list(switches), [], []
    t, now = float(t0), state
    while True:
        end = min([s.at for s in waiting if s.at is not None and s.at > t] + [float(t_end)])
        acting = [s for s in waiting if s.at is not None and s.at <= end and end < t_end]
        events = [s for s in waiting if s.when is not None]
        if events:
            found = _first_event(system, t, end, now, events, settings)
            if found is not None:
                end, acting = found[0], [found[1]]
        part = simulate(system, end, now, t0=t, samples=samples, **_within(settings, end - t))
        segments.append(part)
        if not acting or end >= t_end:
            return SwitchedSolution(segments, jumps)
        t, now = end, part.state
        for switch in acting:
            waiting.remove(switch)
            for name in switch.open:
                system = set_active(system, name, 0.0)
            system, now, jump = close_constraint(system, switch.close, now, t=t, hold=switch.hold)
            jumps.append(Jump(t, switch.close, switch.open, *_of(jump)))


def _within(settings: dict, span: float) -> dict:
    """The settings of a segment, which may be shorter than a fixed step."""
    dt = settings.get("dt")
    return settings if dt is None else settings | {"dt": min(dt, span)}


def _of(jump: Jump) -> tuple:
    return jump.energy_before, jump.energy_after, jump.impulses, jump.wrenches


def _first_event(system, t, end, state, events, settings):
    """(time, switch) of the first crossing in (t, end), by bisection on the dense motion."""
    motion = simulate(system, end, state, t0=t, samples="dense", **_within(settings, end - t))
    grid = np.interp(np.arange(4 * (len(motion.t) - 1) + 1) / 4, np.arange(len(motion.t)), np.asarray(motion.t))
    first = None
    for switch in events:
        values = _values(switch, motion, grid)
        for k in np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0):
            if switch.rising and np.sign(values[k + 1]) != switch.rising:
                continue
            time = _bisect(switch, motion, grid[k], grid[k + 1])
            if first is None or time < first[0]:
                first = (time, switch)
            break
    return first


def _bisect(switch: Switch, motion: Solution, low: float, high: float) -> float:
    while True:
        grid = np.linspace(low, high, 17)
        values = _values(switch, motion, grid)
        k = int(np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) <= 0)[0])
        if grid[k + 1] - grid[k] < 1e-13 * max(1.0, abs(high)) or values[k] == values[k + 1]:
            return float(grid[k + 1])
        low, high = grid[k], grid[k + 1]


def _values(switch: Switch, motion: Solution, times: np.ndarray) -> np.ndarray:
    assert switch.when is not None
    q, v = motion.states(times)
    return np.array([float(switch.when(t, q[k], v[k])) for k, t in enumerate(times)])


def _rows(system: AbstractSystem, name: str) -> tuple[int, ...]:
    return next(o.rows for o in system.owners if o.name == name)
