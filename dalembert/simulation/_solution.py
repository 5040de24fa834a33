"""6 · simulation: `Solution`: a motion and how it ended; what is computed from it is asked of the room `results`."""

from __future__ import annotations

import collections
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError, Status
from dalembert._typing import Array, is_traced
from dalembert.formulations import AbstractFormulation
from dalembert.reactions import AbstractReactionRule, Known
from dalembert.simulation import _batch
from dalembert.simulation._phases import ContactPhases, Phases
from dalembert.stabilise import AbstractStabilisation, State
from dalembert.systems import AbstractSystem, compiled, compiled_for_each

if TYPE_CHECKING:
    import xarray as xr

    from dalembert.results import BatchResults, Instants, Results, TracedResults


class Solution(eqx.Module):
    """A motion: times `t`, coordinates `q`, velocities `v`, and everything that follows from them, on demand.

    Under `jit`, `vmap` and `grad` use the arrays `t`, `q`, `v`, `work`, `status_code` and `vdot`, `multipliers`; and
    `measurements`, `energy`, `violation` and `reactions(joint)`, which there are dictionaries of arrays by name. On the
    host the rest is computed on first use: `dataset` (labelled), `plot()`, `to_netcdf(path)`, `to_csv(path)`. Units are
    those of the model (SI in all built-in mechanisms).

    What `vmap` returns is a batch: `solution[k]` is one run, `len(solution)` their number, `status` an array, and
    `dataset`, `energy` and `reactions(joint)` have a dimension `run`.
    """

    system: AbstractSystem
    formulation: AbstractFormulation
    stabilisation: AbstractStabilisation
    t: Float[Array, " times"]
    q: Float[Array, "times nq"]
    v: Float[Array, "times n"]
    work: Float[Array, "times 2"]
    status_code: Array
    t_end: Array
    stats: dict[str, Any]
    dense: Any
    integrator: str = eqx.field(static=True)
    chosen: AbstractReactionRule | None = None
    restart: Any = None  # what `simulate(…, after=solution)` goes on from (`Restart`)
    derivatives: Any = None  # of a batch, by parameters: `simulate_many`
    phases: Phases | ContactPhases | None = None  # of dry friction that sticks, or of one-sided joints

    @classmethod
    def of(cls, **fields) -> Solution:
        """A solution with its fields as given: without the checks of Equinox, which take a quarter of a short run."""
        made = object.__new__(cls)
        for name in cls.__dataclass_fields__:
            object.__setattr__(made, name, fields.get(name))
        return made

    # ---- how it ended ------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """How the run ended; `status.message` describes it. For a batch an array of them."""
        if _batch.is_batch(self) and not is_traced(self):
            return _batch.statuses(self)  # pyright: ignore[reportReturnType]
        _batch.need_one(self, "status")
        return Status(int(self.status_code))

    @property
    def state(self) -> State:
        """The last saved state; of a batch, of each run."""
        return State(self.q[..., -1, :], self.v[..., -1, :])

    @property
    def machine(self) -> AbstractSystem:
        """The system in which bodies and reactions are stated: in joint coordinates the absolute one of all joints."""
        return self.system.machine

    def __repr__(self) -> str:
        if is_traced(self):
            return f"Solution of '{self.system.name}' (being traced)"
        if _batch.is_batch(self):
            ends = collections.Counter(s.name for s in _batch.statuses(self).ravel())
            counts = ", ".join(f"{n} {name}" for name, n in ends.items())
            return f"Solution: a batch of {np.size(self.status_code)} runs of '{self.system.name}' ({counts})"
        first = f"{float(self.t[0]):g} … " if len(self.t) else ""
        stats = self.stats
        return (
            f"Solution of '{self.system.name}': {first}{float(self.t_end):g} s, {self.status.name}\n"
            f"  {len(self.t)} saved instants, {self.integrator}, {int(stats['accepted'])} steps "
            f"({int(stats['rejected'])} rejected)" + (f"\n  {self.phases}" if self.phases is not None else "")
        )

    # ---- the runs of a batch -----------------------------------------------------------------------------

    def __len__(self) -> int:
        if not _batch.is_batch(self):
            raise TypeError("This is one run, not a batch; it has len(solution.t) saved instants.")
        return len(self.status_code)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, k) -> Solution:
        """Run k of a batch, up to where it ended."""
        return _batch.member(self, k)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    # ---- at any time -------------------------------------------------------------------------------------

    def at(self, t: float) -> State:
        """The state at any time of the motion, on the constraints.

        With samples="dense" it is as exact as the integration; else a cubic between two saved states. With friction
        that sticks, and with one-sided joints, it is marched again.
        """
        q, v = self.states(np.array([t], float))
        return State(q[0], v[0])

    def states(self, times) -> State:
        """`at` for many times: q (times, nq) and v (times, n)."""
        _batch.need_one(self, "at(t)")
        times = np.asarray(times, float)
        first, end = float(self.t[0]), float(self.t_end)
        if times.size and not (first <= times.min() and times.max() <= end):
            raise DalembertError(
                f"t = {times.min():g} … {times.max():g} reaches outside the motion [{first:g}, {end:g}]."
            )
        if self.phases is not None:
            from dalembert.simulation._simulate import simulate
            from dalembert.simulation._sticking import states_between
            from dalembert.simulation._touching import touching_between

            between = touching_between if self.phases.of_contacts else states_between
            return between(simulate, self, times)
        q, v = (
            _evaluate_dense(self.system, self.formulation, self.dense, times)
            if self.dense is not None
            else self._hermite(times)
        )
        return State(*jax.device_get(project_all(self.system, self.stabilisation, times, q, v)))

    def _hermite(self, times: np.ndarray):
        """Cubics in q (with q̇ = N v) and in v (with v̇) between the saved states around each time."""
        saved, q, v = (np.asarray(x) for x in (self.t, self.q, self.v))
        k = np.clip(np.searchsorted(saved, times) - 1, 0, len(saved) - 2)
        h = (saved[k + 1] - saved[k])[:, None]
        s = (times[:, None] - saved[k][:, None]) / h
        a0, a1, b0, b1 = 2 * s**3 - 3 * s**2 + 1, -2 * s**3 + 3 * s**2, s**3 - 2 * s**2 + s, s**3 - s**2
        return tuple(
            a0 * x[k] + a1 * x[k + 1] + h * (b0 * rate[k] + b1 * rate[k + 1])
            for x, rate in ((q, self._qdot), (v, self.vdot))
        )

    @functools.cached_property
    def _qdot(self) -> np.ndarray:
        return np.asarray(qdot_all(self.system, self.q, self.v))

    # ---- what is computed from the motion ----------------------------------------------------------------

    @functools.cached_property
    def results(self) -> Results | BatchResults | TracedResults:
        """All that is computed from the motion, each on first use; everything below is taken from here.

        The one import of this room that runs upward, so that `simulate(…)` returns all that a person asks for.
        """
        from dalembert.results import results_of

        return results_of(self)

    @property
    def dataset(self) -> xr.Dataset:
        """All of it as an xarray Dataset with names and units; of a batch with a dimension `run`."""
        return self.results.dataset

    @property
    def measurements(self) -> xr.Dataset:
        """Measurements, inputs and states of controllers, each under its name ("tip.x", "u", "motor.current") with its
        unit; `unique` and `rule` state whether the model determines it, and what picked it where it does not."""
        return self.results.measurements  # pyright: ignore[reportReturnType]

    @property
    def energy(self) -> xr.Dataset:
        """Kinetic, potential, total energy; work done by forces without potential and by constraints; the balance.

        `drift` = total − total(0) − work − work_of_constraints: zero for an exact motion.
        """
        return self.results.energy  # pyright: ignore[reportReturnType]

    @property
    def energy_drift(self) -> float:
        """Largest |drift| relative to the energy that moves: the span of kinetic energy and of the work done.

        Not below 1e-8 of the machine's own energy (what it stores, or its loads over its size): energies are known to
        rounding, and a machine at rest moves none.
        """
        return self.results.energy_drift  # pyright: ignore[reportReturnType]

    @property
    def violation(self) -> dict[str, float]:
        """The largest constraint violation over the motion, by level: "position", "velocity" and "acceleration"."""
        return self.results.violation  # pyright: ignore[reportReturnType]

    @property
    def vdot(self) -> np.ndarray:
        """Accelerations v̇ (times, n)."""
        return self.results.vdot  # pyright: ignore[reportReturnType]

    @property
    def multipliers(self) -> np.ndarray:
        """λ (times, m) under `rule`; `unique_multipliers` marks those that do not depend on it."""
        return self.results.multipliers  # pyright: ignore[reportReturnType]

    @property
    def redundancy(self) -> int:
        """p = m − rank C at a generic instant of the motion (the largest rank seen at a few); rows that are switched
        off do not count."""
        return self.results.redundancy

    @property
    def rank(self) -> int:
        """The rank of C at a generic instant of the motion."""
        return self.results.rank

    @property
    def instants(self) -> Instants:
        """For each saved time the rank of C, the reliable digits of the reactions, and which of them are reliable."""
        return self.results.instants

    def singular_positions(self) -> list:
        """Where along the motion the constraint rank falls: time, rank, and the joints whose rows become dependent."""
        return self.results.singular_positions()

    @property
    def rule(self) -> AbstractReactionRule:
        """The rule that picked λ: `RequireUnique` when the rows are independent, else the chosen one, by default a
        minimum norm free of units."""
        return self.results.rule

    def with_rule(self, rule: AbstractReactionRule | str) -> Solution:
        """The same motion with its reactions under another rule."""
        return self.results.with_rule(rule)

    @property
    def unique_multipliers(self) -> np.ndarray:
        """For each row of C whether its multiplier is determined (at all of a few instants)."""
        return self.results.unique_multipliers

    def unique(self, joint: str, *, frame: str = "joint") -> np.ndarray:
        """Which components of a joint's reaction (force, then torque) the rigid-body model determines.

        In the "joint" or the "world" frame; True where it does at all of a few instants of the motion.
        """
        return self.results.unique(joint, frame=frame)

    def reactions(
        self, joint: str, *, frame: str = "world", rule: AbstractReactionRule | str | None = None
    ) -> xr.Dataset:
        """Force and torque of a joint **on its body j**, at marker j, in the "world" or the "joint" frame.

        `unique_force` and `unique_torque` state for each component whether the rigid-body model determines it (at all
        of a few instants). The attribute `rule` names what picked the values: "unique" if all of them are, else the
        rule's name, and a `RedundancyWarning` is given as well. With the rule `RequireUnique` values that are not
        unique are refused.
        """
        return self.results.reactions(joint, frame=frame, rule=rule)  # pyright: ignore[reportReturnType]

    def range(
        self, joint: str, *, known: Known | None = None, frame: str = "joint", instants: int | None = None
    ) -> xr.Dataset:
        """The least and the greatest possible value of each component of a joint's reaction, at all saved times (or
        at so many `instants` of them).

        Over all reactions that have the same effect and agree with what is known: what the model says of supports that
        only push or pull (`one_sided=True`), and `known` (`reactions.Known`: push only, friction, strength, play).
        `lower` and `upper` are ±inf where unbounded and not a number where nothing is possible (`possible`, and in
        words the attribute `conflicts`) or, at a singular position, nothing is known; `value` is what `rule` picked,
        and `inside` whether all that it picked lies in the set (the attribute `rule_leaves` says where it does not).
        `duality_gap` (relative to the load) is the proof of the ends.
        """
        return self.results.range(joint, known=known, frame=frame, instants=instants)

    @property
    def lifts(self) -> tuple[str, ...]:
        """Where one-sided supports would have to pull (cables: push), in words, each with its first time."""
        return self.results.lifts

    def to_netcdf(self, path) -> Path:
        """Write the dataset as netCDF-4, with the model and the state of the march: `da.open(path)` is this again.

        A half-written file never replaces a good one.
        """
        return self.results.to_netcdf(path)

    def to_csv(self, path) -> Path:
        """Write the dataset as one wide table, one row per time, with names and units in the header."""
        return self.results.to_csv(path)

    def plot(self, what=None, *, path=None, **options):
        """A matplotlib figure by its name; saved to `path` if given. Without a name, a page of four.

        "coordinates", "velocities", "measurements" (names=), "reactions" (joint=, frame=, known=), "violation",
        "energy", "phase" (coordinate=), "path" (body=, point=), "mechanism" (t=), "page". `plot("run.png")` saves the
        page.
        """
        return self.results.plot(what, path=path, **options)

    def animate(self, path, **options) -> Path:
        """Write the motion: .html, one page that plays offline; .gif or .mp4 for slides. See `animate_dataset`.

        `traces=["coupler", ("crank", (0.5, 0))]` names the points whose path is drawn; `speed`, `fps` are for films.
        """
        return self.results.animate(path, **options)

    def _repr_html_(self) -> str:
        """The page that moves, for a notebook; of a batch a table."""
        return self.results.html()


def _project(system, stabilisation, t, q, v):
    """States (t, q, v) projected onto the constraints: a row of each argument for each state."""
    return tuple(stabilisation.project_saved(system, t, q, v))


def _qdot(system, q, v):
    """q̇ at states (q, v): a row of each argument for each state."""
    return system.qdot(q, v)


project_all = compiled_for_each(_project, 3)
"""States projected onto the constraints."""
qdot_all = compiled_for_each(_qdot, 2)
"""q̇ at many states."""


@compiled
def _evaluate_dense(system, formulation, dense, times):
    def one(t):
        q, w, _, (memory, _) = dense.evaluate(t)
        return formulation.unpack(system, t, q, w, memory)

    return jax.vmap(one)(times)
