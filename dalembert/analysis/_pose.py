"""7 · analysis: `solve_pose`: a pose from targets, exact or weighted, with a verdict for each of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import AssemblyError, DalembertError, PoseError, Status, did_you_mean
from dalembert._typing import Array, Coordinates, Scalar, is_traced
from dalembert.analysis._assemblies import Starts, Tries, all_assemblies, places_of, unwound
from dalembert.analysis._search import (
    Found,
    Goal,
    Looked,
    look_at,
    polished_quickly,
    search,
    search_quickly,
    settled,
)
from dalembert.analysis._targets import Asked, Named, asked_for, listed
from dalembert.linalg import RANK_TOLERANCE
from dalembert.model import Model
from dalembert.stabilise import EXACT, open_rows
from dalembert.systems import AbstractSystem, State, build, compiled, in_double, require_float64

UP_TO = 1500
"""Largest number of velocities: rows are dense here."""
AGAIN, FEW = 24, 8
"""Other starts that are tried where targets are not reached from the given one; and where it is asked why not."""
LIGHT = 1e-3
"""Weight of weighted targets beside exact ones that cannot all be met."""
TINY = 1e-15
"""Numbers below this are shown as zero."""
MOVED = 1e-8
"""Share of a target's gradient along the motions that are left, below which nothing moves it."""


@dataclass(frozen=True)
class Verdict:
    """One target: what was wanted and what it is, by how much it is off (a distance, or an angle), and why.

    `met`: reached to rounding; of a weighted target it may be False without anything being wrong. `conflict` names the
    other targets or drivers with which it cannot be had together; `reason` is the verdict as text.
    """

    name: str
    wanted: np.ndarray
    reached: np.ndarray
    off: float
    unit: str
    exact: bool
    met: bool
    reason: str
    conflict: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class Pose(eqx.Module):
    """A pose: coordinates `q` at which the joints are closed, with the values of the targets.

    Under `jit`, `vmap` and `grad` use the arrays `q`, `values` (one array for each target), `gaps` (of all targets end
    to end, in units of the model) and `open` (the rows of the machine, relative to its size). On the host `verdicts`
    says for each target whether it is met and why not, `others` holds the other assemblies, `freedoms` is how many
    independent motions the targets leave, and `print(pose)` shows all of it. `state` starts a run from here.
    """

    system: AbstractSystem
    t: Scalar
    q: Coordinates
    values: tuple[Array, ...]
    wanted: tuple[Array, ...]
    gaps: Float[Array, " target_rows"]
    open: Float[Array, " holonomic"]
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)
    exact: tuple[bool, ...] = eqx.field(static=True)
    reasons: tuple[tuple[str, tuple[str, ...]], ...] = eqx.field(static=True, default=())
    others: tuple[Pose, ...] = ()
    freedoms: int = eqx.field(static=True, default=-1)
    tried: int = eqx.field(static=True, default=0)

    @property
    def state(self) -> State:
        """The machine at rest in this pose."""
        return State(self.q, np.zeros(self.system.n))

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """For each target whether it is met, by how much it is off, and why."""
        if not self.reasons:
            raise DalembertError("This pose was found under jit, vmap or grad; look at its gaps, q and open.")
        out, start = {}, 0
        for k, name in enumerate(self.names):
            own = np.asarray(self.gaps[start : start + self.rows[k]])
            start += self.rows[k]
            reason, conflict = self.reasons[k]
            met = reason in (MET, EXACTLY)
            off = float(np.linalg.norm(own))
            numbers = np.asarray(self.wanted[k]), np.asarray(self.values[k])
            out[name] = Verdict(name, *numbers, off, self.units[k], self.exact[k], met, reason, conflict)
        return out

    @property
    def met(self) -> bool:
        """Whether all exact targets are met."""
        return all(v.met for v in self.verdicts.values() if v.exact)

    @functools.cached_property
    def coordinates(self) -> dict[str, float]:
        """All joint coordinates by name, in m and rad."""
        from dalembert.analysis._labels import coordinates_of

        return coordinates_of(self.system, np.asarray(self.q))

    @functools.cached_property
    def measurements(self) -> dict[str, float]:
        """What the pose decides of the measurements (positions), by name, in their units."""
        from dalembert.analysis._labels import measurements_of

        return measurements_of(self.system, self.t, np.asarray(self.q))

    @property
    def dataset(self):
        """Bodies, joint coordinates and measured positions of this pose and of the other assemblies, labelled, as an
        xarray Dataset."""
        from dalembert.analysis._labels import labelled_poses

        return labelled_poses(self.system, self.t, np.stack([np.asarray(p.q) for p in (self, *self.others)]))

    def plot(self, path=None):
        """A picture of the machine in this pose; saved to `path` if given."""
        from dalembert.analysis._labels import labelled_poses
        from dalembert.view import plot_dataset

        data = labelled_poses(self.system, self.t, np.asarray(self.q)[None]).rename(pose="time")
        return plot_dataset(data.assign_coords(time=[float(self.t)]), "mechanism", path=path)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "model": self.system.name,
            "t": float(self.t),
            "met": self.met,
            "targets": [
                {
                    "name": v.name,
                    "wanted": v.wanted.tolist(),
                    "reached": v.reached.tolist(),
                    "unit": v.unit,
                    "off": v.off,
                    "exact": v.exact,
                    "met": v.met,
                    "verdict": v.reason,
                    "conflict": list(v.conflict),
                }
                for v in self.verdicts.values()
            ],
            "freedoms": self.freedoms,
            **self._numbers(),
            "others": [p._numbers() for p in self.others],
            "tried": self.tried,
        }

    def _numbers(self) -> dict[str, Any]:
        return {"coordinates": self.coordinates, "measurements": self.measurements, "q": np.asarray(self.q).tolist()}

    def __str__(self) -> str:
        if not self.reasons:
            return f"Pose of '{self.system.name}' (found under jit, vmap or grad: q, values, gaps, open)"
        width = max(len(n) for n in self.names)
        lines = [f"Pose of '{self.system.name}' at t = {float(self.t):g} s"]
        for v in self.verdicts.values():
            lines.append(f"  {v.name:<{width}}  {_shown(v.reached, v.unit)}: {v.reason}")
        if self.freedoms > 0:
            words = "1 motion is" if self.freedoms == 1 else f"{self.freedoms} independent motions are"
            lines.append(f"  {words} left free: the pose is the one near the start")
        if self.tried:
            more = f"{len(self.others)} other{'' if len(self.others) == 1 else 's'}" if self.others else "no other"
            kind = "families of poses" if self.freedoms > 0 else "assemblies"
            lines.append(f"  {kind}: this one and {more} ({self.tried} starts)")
        return "\n".join(lines)

    __repr__ = __str__


MET, EXACTLY = "met", "met, although it is weighted"


def solve_pose(
    system: AbstractSystem | Model,
    targets: Mapping,
    *,
    weights: Mapping | None = None,
    state: State | tuple | None = None,
    t: Scalar = 0.0,
    release: Sequence[str] | bool = (),
    assemblies: bool = False,
    throw: bool = True,
) -> Pose:
    """A pose in which the joints are closed and targets have wanted values: of joint coordinates, points, measurements.

    **Arguments**

    - `system`: a system, or a model.
    - `targets`: names and values, `{"tip.position": (0.8, 0.2), "elbow.angle": 0.3}`. A name is that of a joint's
      coordinate ("elbow.angle", or "elbow" if it has one), a measurement ("tip.position", "tip.x"), a body's place
      ("cup", "cup.x", in the plane "cup.angle", in space "cup.rotation": a quaternion or a matrix), a point of a body
      `("cup", (0.1, 0))` in its frame, or a driver ("motor": what it prescribes); "q[0]" of a `FunctionSystem`. Angles
      are met up to full turns.
    - `weights`: of targets that need not be met: these are met as well as the others allow, in the sense of least
      squares Σ (weight × gap)², lengths in machine sizes and angles in radians. All others are exact.
    - `state`: a rough guess (q, v) to start from, of which q is used; default: the model's start. Of many poses the one
      is found to which short steps lead from there, in the mass metric.
    - `t`: the time at which drivers hold their coordinates. A driver whose own coordinate is a target is left out;
      `release` names others to leave out (True: all).
    - `assemblies`: search for all other poses that meet the same exact targets (`pose.others`), from many starts.
      Where motions are left free there are families of poses: then one of each.
    - `throw`: raise `PoseError` if an exact target is not reached; else look at `pose.verdicts`.

    **Returns** a `Pose`. Rows on velocities (rolling, speed drivers) have no say in it. Works under `jit`, `vmap` and
    with derivatives, with respect to parameters of the system and wanted values: they are those of the pose itself
    (implicit). Where motions are left free, that is the smallest change in the mass metric. Then nothing is raised:
    look at `gaps` and `open`.

        >>> import dalembert as da
        >>> pose = da.solve_pose(da.mechanism("four-bar"), {"A.angle": 0.3}, assemblies=True)
        >>> print(pose)
        Pose of 'four-bar' at t = 0 s
          A.angle  0.3 rad: met
          assemblies: this one and 1 other (96 starts)
        >>> round(pose.coordinates["D.angle"], 6) != round(pose.others[0].coordinates["D.angle"], 6)
        True

    Equations (7a.1)–(7a.5): docs/theory/kinematics.md.
    """
    require_float64()
    system = build(system) if isinstance(system, Model) else system
    refuse_size(system, "solve_pose")
    asked = asked_for(system, targets, weights)
    q = system.q0 if state is None or state[0] is None else in_double(f"q of system '{system.name}'", state[0])
    if q.shape != system.q0.shape:
        raise DalembertError(f"q of system '{system.name}' must have shape {system.q0.shape}, got {q.shape}.")
    posing = Posing(system, asked, t, released_rows(system, asked, release))
    if is_traced(system, asked.values, asked.weights, t, q, jax.lax.neg(np.ones(()))):  # inside a jit all is traced
        return posing.traced(q)
    return posing.solve(np.asarray(q), assemblies, throw)


def refuse_size(system: AbstractSystem, asking: str) -> None:
    """Refuse a machine without coordinates, or with too many for dense rows."""
    if system.n == 0:
        raise DalembertError(f"'{system.name}' has no coordinates that could move: all its bodies are held fast.")
    if system.n > UP_TO:
        raise DalembertError(f"'{system.name}' has {system.n} velocities; {asking} works with up to {UP_TO}.")


def released_rows(system: AbstractSystem, asked: Asked, release: Sequence[str] | bool) -> np.ndarray:
    """The holonomic rows of drivers that are left out."""
    drivers = {o.name: o for o in system.owners if o.drives and o.rows[0] < system.m_holonomic}
    if isinstance(release, bool):
        names = list(drivers) if release else []
    else:
        names = [release] if isinstance(release, str) else list(release)
    for name in names:
        if name not in drivers:
            known = f"its drivers are {', '.join(drivers)}" if drivers else "it has none that prescribes positions"
            raise DalembertError(
                f"release: '{system.name}' has no driver '{name}'; {known}.{did_you_mean(str(name), drivers)}"
            )
    names += [name for x in asked.named for name in x.released]
    return np.array(sorted({row for name in names for row in drivers[name].rows}), int)


class Posing:
    """A system and what is asked of its pose."""

    def __init__(self, system: AbstractSystem, asked: Asked, t: Scalar, released: np.ndarray):
        self.system, self.asked = system, asked
        self.t = t if is_traced(t) else np.asarray(t, float)
        self.released = released
        self.targets = asked.targets
        self.wanted = tuple(asked.values[asked.of_values(k)] for k in range(len(asked.named)))

    def goal(self, exact: Sequence[int], weights: Array | None = None, free: Sequence[int] = ()) -> Goal:
        """Some targets exact, some weighted; rows in `free` are left out besides those that are released."""
        rows = np.ones(self.system.m_holonomic)
        rows[self.released] = 0.0
        rows[list(free)] = 0.0
        own = np.zeros(len(self.asked.scales))
        for k in exact:
            own[self.asked.of_rows(k)] = 1.0
        weight = np.zeros(len(own)) if weights is None else weights
        return Goal(np.concatenate([rows, own]), weight, self.wanted, self.asked.scales)

    @property
    def exact(self) -> list[int]:
        return [k for k, is_exact in enumerate(self.asked.exact) if is_exact]

    @property
    def weighted(self) -> bool:
        return not all(self.asked.exact)

    # ---- under jit, vmap and grad ----------------------------------------------------------------------------

    def traced(self, q) -> Pose:
        goal = self.goal(self.exact, self.asked.weights)
        arguments = (self.system, self.targets, goal, jnp.asarray(self.t, float), q)
        q, values, gaps, opened = _found_pose(*arguments, self.weighted)
        return self._pose(q, values, gaps, opened, ())

    def _pose(self, q, values, gaps, opened, reasons, **more) -> Pose:
        named = self.asked.named
        return Pose(
            system=self.system,
            t=self.t,
            q=q,
            values=tuple(values),
            wanted=self.wanted,
            gaps=gaps,
            open=opened,
            names=tuple(x.name for x in named),
            units=tuple(x.unit for x in named),
            rows=tuple(x.rows for x in named),
            exact=self.asked.exact,
            reasons=tuple(reasons),
            **more,
        )

    # ---- on the host -----------------------------------------------------------------------------------------

    def solve(self, start: np.ndarray, assemblies: bool, throw: bool) -> Pose:
        """The pose with its verdicts."""
        weights = np.asarray(self.asked.weights)
        goal = self.goal(self.exact, weights)
        found = self.reach(goal, start)
        if found is None:
            return self._not_reached(start, throw)
        q = self._unwound(goal, self._polished(goal, found), start)
        seen = self.look(goal, q)
        reasons = [self._met(k, seen) for k in range(len(self.asked.named))]
        pose = self._finished(goal, q, seen, reasons)
        if assemblies:
            if self.weighted:
                raise DalembertError("assemblies=True is for exact targets; leave out weights.")
            pose = self._with_assemblies(goal, pose, start)
        return pose

    def reach(self, goal: Goal, q: np.ndarray, again: int = AGAIN) -> np.ndarray | None:
        """A pose at which the exact rows of a goal hold: from q, else from other starts, the nearest of those found."""
        first = self._search(goal, q)
        if first.gap < EXACT and not self.starts.turned_over(np.asarray(first.q)[None])[0]:
            return np.asarray(first.q)
        tries = self.tries(goal)
        closed = tries.closed(again) if again else np.zeros((0, len(q)))
        if not len(closed):
            return None
        places = places_of(self.system, np.concatenate([q[None], closed]))
        return closed[np.argmin(np.linalg.norm(places[1:] - places[0], axis=1))]

    def _search(self, goal: Goal, q: np.ndarray) -> Found:
        return search_quickly(self.system, self.targets, goal, self.t, q)

    def tries(self, goal: Goal) -> Tries:
        """Searches from other starts."""
        return Tries(self.starts, self.targets, goal, self.t)

    @functools.cached_property
    def starts(self) -> Starts:
        return Starts(self.system, np.asarray(self._search(self.goal(()), np.asarray(self.system.q0)).q), self.t)

    def _unwound(self, goal: Goal, q: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Without needless full turns, where all exact rows still hold (a gear counts turns)."""
        found = unwound(self.system, q, near)
        if np.array_equal(found, q):
            return q
        return found if np.linalg.norm(goal.exact * self.look(goal, found).residual) < EXACT else q

    def _polished(self, goal: Goal, q: np.ndarray) -> np.ndarray:
        """With weights the search is exact to half the digits only."""
        if not np.any(goal.weight):
            return q
        found = np.asarray(polished_quickly(self.system, self.targets, goal, self.t, q))
        before, after = (self.look(goal, x) for x in (q, found))
        # Newton's method may leave for a saddle where a search ended early
        return found if _misfit(goal, after) <= (1 + 1e-6) * _misfit(goal, before) + 1e-12 else q

    def look(self, goal: Goal, q: np.ndarray) -> Looked:
        return look_at(self.system, self.targets, goal, self.t, q)

    def off(self, k: int, seen: Looked) -> float:
        """How far target k is from its wanted value, in machine sizes or radians."""
        return float(np.linalg.norm(seen.residual[self.system.m_holonomic :][self.asked.of_rows(k)]))

    def _met(self, k: int, seen: Looked) -> tuple[str, tuple[str, ...]]:
        named = self.asked.named[k]
        if self.asked.exact[k]:
            return MET, ()
        if self.off(k, seen) <= EXACT:
            return EXACTLY, ()
        return f"{_shown(self.off(k, seen) * named.scale, named.unit)} off, as its weight has it", ()

    def _finished(self, goal: Goal, q, seen: Looked, reasons, **more) -> Pose:
        h = self.system.m_holonomic
        gaps = seen.residual[h:] * self.asked.scales
        held = np.maximum(goal.exact, np.append(np.zeros(h), goal.weight) > 0)
        freedoms = self.system.n - _rank(_unit(held[:, None] * seen.rows))
        opened = seen.residual[:h] * np.asarray(goal.exact)[:h]
        return self._pose(q, seen.values, gaps, opened, reasons, freedoms=int(freedoms), **more)

    def _with_assemblies(self, goal: Goal, pose: Pose, start: np.ndarray) -> Pose:
        tries = self.tries(goal)
        found = all_assemblies(tries, np.asarray(pose.q), families=pose.freedoms > 0)
        others = []
        for q in found.in_order():
            q = self._unwound(goal, q, start)
            seen = self.look(goal, q)
            others.append(self._finished(goal, q, seen, [self._met(k, seen) for k in range(len(self.targets))]))
        return dataclasses.replace(pose, others=tuple(others), tried=tries.tried)

    # ---- what is not reached ---------------------------------------------------------------------------------

    def _not_reached(self, q: np.ndarray, throw: bool) -> Pose:
        """The nearest pose, with the reason for each target that is not met."""
        machine = self.goal(())
        base = self.reach(machine, q)
        if base is None:
            left = np.asarray(self._search(machine, q).residual * machine.exact)[: self.system.m_holonomic]
            raise AssemblyError(f"{Status.not_assembled.message} {open_rows(self.system, left, EXACT)}")
        weights = LIGHT * np.asarray(self.asked.weights)
        for k in self.exact:
            weights[self.asked.of_rows(k)] = 1.0
        goal = self.goal((), weights)
        q = self.nearest(goal, base)
        seen = self.look(goal, q)
        causes = _Causes(self, base)
        reasons = []
        for k, named in enumerate(self.asked.named):
            if not self.asked.exact[k] or self.off(k, seen) <= EXACT:
                reasons.append(self._met(k, seen))
                continue
            reasons.append(causes.of(k, named, seen))
        pose = self._finished(goal, q, seen, reasons)
        if throw:
            unmet = [v for v in pose.verdicts.values() if v.exact and not v.met]
            raise PoseError(" ".join(f"Target '{v.name}' {v.reason}." for v in unmet), pose)
        return pose

    def nearest(self, goal: Goal, base: np.ndarray, again: int = AGAIN) -> np.ndarray:
        """The pose of the least misfit that is found, from a closed pose and from other starts."""
        best = self._search(goal, base)
        if best.misfit > EXACT and again:
            more = self.tries(goal).more(again)
            misfit = np.where(more.gap < EXACT, more.misfit, np.inf)
            k = int(np.argmin(misfit))
            if misfit[k] < (1 - 1e-6) * best.misfit:
                best = Found(*(x[k] for x in more))
        return self._polished(goal, np.asarray(best.q))


class _Causes:
    """Why exact targets cannot be met, by leaving things out."""

    def __init__(self, posing: Posing, base: np.ndarray):
        self.posing, self.base = posing, base
        system = posing.system
        left = set(posing.released)
        self.drivers = [
            o for o in system.owners if o.drives and o.rows[0] < system.m_holonomic and not left & set(o.rows)
        ]

    def of(self, k: int, named: Named, seen: Looked) -> tuple[str, tuple[str, ...]]:
        """The verdict on one target, and what it is in conflict with."""
        posing = self.posing
        here = f"is {_shown(seen.values[k], named.unit)} here, {self._off(k, named, seen)} off"
        if self._reached([k]):
            return self._among_targets(k, here)
        drivers = self._drivers(k)
        time = f"at t = {float(posing.t):g} s"
        nearest = posing.goal((), self._alone(k))
        alone = posing.look(nearest, posing.nearest(nearest, self.base, FEW))
        value, off = _shown(alone.values[k], named.unit), self._off(k, named, alone)
        if not self._moves(k):
            if drivers:
                return (
                    f"cannot be moved while {_the_drivers(drivers)} {_hold(drivers)} the machine {time}; it stays at "
                    f"{value}. Say release={drivers!r}, or another t="
                ), tuple(drivers)
            return f"cannot be moved: the joints hold it at {value}, whatever the machine does", ()
        if drivers:
            return (
                f"is out of reach while {_the_drivers(drivers)} {_hold(drivers)} the machine {time}; the nearest is "
                f"{value}, {off} off. Say release={drivers!r}, or another t="
            ), tuple(drivers)
        return f"is out of reach of the machine; the nearest is {value}, {off} off", ()

    def _off(self, k: int, named: Named, seen: Looked) -> str:
        return _shown(self.posing.off(k, seen) * named.scale, named.unit)

    def _alone(self, k: int) -> np.ndarray:
        weight = np.zeros(len(self.posing.asked.scales))
        weight[self.posing.asked.of_rows(k)] = 1.0
        return weight

    def _reached(self, exact: Sequence[int], free: Sequence[int] = ()) -> bool:
        return self.posing.reach(self.posing.goal(exact, None, free), self.base, FEW) is not None

    def _among_targets(self, k: int, here: str) -> tuple[str, tuple[str, ...]]:
        names = [x.name for x in self.posing.asked.named]
        exact = self.posing.exact
        others = [i for i in exact if i != k]
        to_blame = [i for i in others if self._reached([j for j in exact if j != i])]
        if not to_blame:  # more than one must be left out
            to_blame = [i for i in others if not self._reached([i, k])] or others
        conflict = tuple(names[i] for i in to_blame)
        return f"can be reached alone, but not together with {listed(conflict)}; it {here}", conflict

    def _drivers(self, k: int) -> list[str]:
        """The drivers without which the target could be met."""
        rows = [r for o in self.drivers for r in o.rows]
        if not rows or not self._reached([k], rows):
            return []
        alone = [o.name for o in self.drivers if self._reached([k], o.rows)]
        return alone or [o.name for o in self.drivers]

    def _moves(self, k: int) -> bool:
        """Whether a motion of the machine changes the target, here or at other poses, of the largest rank."""
        posing = self.posing
        goal, h = posing.goal(()), posing.system.m_holonomic
        others = posing.tries(goal).closed(FEW)
        seen = [posing.look(goal, np.asarray(q)) for q in (self.base, *others)]
        kept = [_unit(np.asarray(goal.exact)[:, None] * x.rows) for x in seen]
        ranks = [_rank(x) for x in kept]
        for x, rows, rank in zip(seen, kept, ranks, strict=True):
            own = x.rows[h:][posing.asked.of_rows(k)]
            free = np.linalg.svd(rows)[2][rank:]
            if rank == max(ranks) and np.linalg.norm(own @ free.T) > MOVED * np.linalg.norm(own):
                return True
        return False


@compiled
def _found_pose(system, targets, goal: Goal, t, q, weighted: bool):
    """Search and derivatives as one function of JAX: q, values, gaps and the machine's residuals."""
    q = settled(system, targets, goal, t, search(system, targets, goal, t, q).q, weighted)
    values = tuple(x.value(system, t, q) for x in targets)
    gaps = jnp.concatenate([jnp.ravel(x.gap(system, t, q, w)) for x, w in zip(targets, goal.wanted, strict=True)])
    opened = system.position_residual(t, q) * goal.exact[: system.m_holonomic]
    return q, values, gaps, opened


def _misfit(goal: Goal, seen: Looked) -> float:
    return float(np.linalg.norm(goal.weight * seen.residual[len(seen.residual) - len(goal.weight) :]))


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows of unit length; those that are zero stay so."""
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(size > 0, size, 1.0)


def _rank(rows: np.ndarray) -> int:
    """The rank of unit rows in the mass metric."""
    values = np.linalg.svd(rows, compute_uv=False) if rows.size else np.zeros(0)
    return int(np.sum(values > RANK_TOLERANCE * np.max(values, initial=0.0)))


def _the_drivers(names: Sequence[str]) -> str:
    return f"the driver {listed(names)}" if len(names) == 1 else f"the drivers {listed(names)}"


def _hold(names: Sequence[str]) -> str:
    return "holds" if len(names) == 1 else "hold"


def _shown(value, unit: str) -> str:
    numbers = np.atleast_1d(np.asarray(value, float))
    if unit == "rad" and len(numbers) > 1:  # a rotation as a quaternion
        unit = ""
    text = ", ".join(f"{x if abs(x) > TINY else 0.0:.6g}" for x in numbers)
    return f"{text if len(numbers) == 1 else f'({text})'} {unit}".rstrip()
