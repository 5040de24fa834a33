"""6b· results: `Results`: everything that is computed from one motion, on the host, each on first use and once."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dalembert._results import DalembertError, RedundancyWarning
from dalembert._typing import is_traced
from dalembert.linalg import ZERO
from dalembert.reactions import AbstractReactionRule, Instant, Known, MinimumNorm, RequireUnique, Uniqueness, rule_of
from dalembert.results import _ranges, _reactions
from dalembert.results._instants import Instants, look
from dalembert.results._measurements import named
from dalembert.results._observe import Observation, coordinate_rates, energies, energy_drift
from dalembert.simulation import SingularPosition, Solution, singular_positions
from dalembert.stabilise import State
from dalembert.systems import AbstractSystem

if TYPE_CHECKING:
    import xarray as xr

LEVELS = ("position", "velocity", "acceleration")


class Results:
    """What follows from a motion: numbers, ranks, unique reactions, labelled data, files and pictures.

    `Solution` passes on what it is asked; `solution.results` is this object. It is no part of the solution's data:
    a solution that goes through `jit`, `vmap` or `dataclasses.replace` computes its results anew.
    """

    def __init__(self, solution: Solution):
        self.solution = solution

    @property
    def system(self) -> AbstractSystem:
        return self.solution.system

    @property
    def machine(self) -> AbstractSystem:
        """The system in which reactions are stated."""
        return self.solution.system.machine

    # ---- rank and uniqueness -----------------------------------------------------------------------------

    def instant(self, k: int, *, loaded: bool = False) -> Instant:
        """The system at a saved time; `loaded`: with teeth and belts in contact on the side of their load, as reactions
        are stated."""
        s, system = self.solution, self.system_at(k)
        if loaded and system.machine.sided:
            rows = self.rows_at(k)
            sides = np.zeros(system.machine.m)
            sides[rows[rows >= 0]] = np.asarray(self.observed.sides[k])[rows >= 0]
            system = system.with_sides(sides)
        return Instant(system, s.t[k], State(s.q[k], s.v[k]))

    def system_at(self, k: int) -> AbstractSystem:
        """The plain machine that moves at a saved time."""
        return self.solution.system

    @functools.cached_property
    def generic(self) -> dict[int, Instant]:
        """A few instants of the motion, those of the largest rank, by their number.

        All of them may be singular positions; where their rank is not what the run has found at its start, it is
        looked for beside one of them.
        """
        count = len(self.solution.t)
        picks = sorted({0, count // 3, (2 * count) // 3, count - 1}) if count else ()
        found = {k: self.instant(k) for k in picks}
        rank = max((i.dependence.rank for i in found.values()), default=0)
        found = {k: i for k, i in found.items() if i.dependence.rank == rank}
        if count and rank < self.system.m and rank != self.solution.formulation.known_rank:
            k, here = next(iter(found.items()))
            if here.generic is not here:
                return {k: here.generic}
        return found

    @property
    def rank(self) -> int:
        return max((i.dependence.rank for i in self.generic.values()), default=0)

    @functools.cached_property
    def redundancy(self) -> int:
        seen = [i.among_joints for i in self.generic.values()]
        if not seen:
            return self.system.m
        off = 0
        if self.machine is self.system:  # in joint coordinates a row can be zero because the tree satisfies it
            off = int(np.sum(np.all([np.all(d.C == 0, axis=1) for d in seen], axis=0)))
        return seen[0].redundancy - off

    @functools.cached_property
    def unique_multipliers(self) -> np.ndarray:
        out = np.ones(self.machine.m, bool)
        for instant in self.generic.values() if self.redundancy else ():
            out &= np.linalg.norm(instant.among_joints.null, axis=1) <= ZERO
        return out

    @functools.cached_property
    def uniqueness(self) -> list[Uniqueness]:
        """Which reactions are unique at the generic instants."""
        if not self.machine.sided:
            return [i.uniqueness for i in self.generic.values()]
        # a pose beside the motion has no load of its own at a saved time
        own = {k: np.array_equal(i.state.q, self.solution.q[k]) for k, i in self.generic.items()}
        return [(self.instant(k, loaded=True) if own[k] else i.loaded).uniqueness for k, i in self.generic.items()]

    def unique(self, joint: str, *, frame: str = "joint") -> np.ndarray:
        bodies = _reactions.need_joint(self.system, joint)
        if self.redundancy == 0:
            return np.ones(bodies.dv, bool)
        return np.all([u.mask(joint, frame) for u in self.uniqueness], axis=0)

    def solvability(self, joint: str) -> str:
        """ "unique", "partly" or "open": all, some or none of the joint's components are determined."""
        if self.redundancy == 0:
            return "unique"
        components = [u.components(joint) for u in self.uniqueness]
        sure = [all(t.get(c, True) for t in components) for c in {c for t in components for c in t}]
        return "unique" if all(sure) else "partly" if any(sure) else "open"

    def singular_positions(self) -> list[SingularPosition]:
        return singular_positions(self.solution)

    # ---- numbers at the saved times ----------------------------------------------------------------------

    @functools.cached_property
    def rule(self) -> AbstractReactionRule:
        if self.redundancy == 0:
            return RequireUnique()
        chosen = self.solution.chosen
        return MinimumNorm() if chosen is None or isinstance(chosen, RequireUnique) else chosen

    def with_rule(self, rule: AbstractReactionRule | str) -> Solution:
        chosen = rule_of(rule)
        if chosen is not None:
            here = self.instant(0)  # where contacts are open: the machine without their rows
            chosen = chosen.prepare(here.machine, here.on_bodies)
        return dataclasses.replace(self.solution, chosen=chosen)

    @functools.cached_property
    def _examined(self) -> tuple[Observation, Instants]:
        if len(self.solution.t) == 0:
            raise DalembertError("This solution holds no saved times; run again with samples= a number or times.")
        return look(self.solution, self.rule, self.rank)

    @property
    def observed(self) -> Observation:
        """All observables at the saved times."""
        return self._examined[0]

    @property
    def instants(self) -> Instants:
        return self._examined[1]

    @property
    def vdot(self) -> np.ndarray:
        return np.asarray(self.observed.rates)

    @property
    def multipliers(self) -> np.ndarray:
        if isinstance(self.solution.chosen, RequireUnique) and not self.unique_multipliers.all():
            raise DalembertError(
                f"{int(np.sum(~self.unique_multipliers))} of the {self.machine.m} multipliers are not unique. Name a "
                "rule that picks them, or ask for reactions that are."
            )
        _reactions.warn_redundant(self)
        return np.asarray(self.observed.lam)

    @property
    def violation(self) -> dict[str, float]:
        worst = np.max(self.observed.violation, axis=0)
        return dict(zip(LEVELS, map(float, worst), strict=True))

    @functools.cached_property
    def energies(self) -> dict[str, np.ndarray]:
        return energies(self.observed, np.asarray(self.solution.work))

    @property
    def energy_drift(self) -> float:
        return energy_drift(self.energies, self.instant(0).equations, self.system)

    # ---- with names and units ----------------------------------------------------------------------------

    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        from dalembert.results._labels import labelled

        return labelled(self)

    @property
    def measurements(self) -> xr.Dataset:
        return named(self.dataset)

    @property
    def energy(self) -> xr.Dataset:
        import xarray as xr

        named = {k: ("time", x, {"units": "J"}) for k, x in self.energies.items()}
        return xr.Dataset(named, coords={"time": ("time", np.asarray(self.solution.t), {"units": "s"})})

    def reactions(
        self, joint: str, *, frame: str = "world", rule: AbstractReactionRule | str | None = None
    ) -> xr.Dataset:
        picked = self if rule is None else self.with_rule(rule).results
        assert isinstance(picked, Results)  # one motion stays one motion
        _ranges.warn_lifts(self)
        return _reactions.reactions(picked, joint, frame)

    def band(self, joint: str, frame: str) -> dict[str, np.ndarray] | None:
        """For each component of a joint's reaction half the width of its undetermined range; None if it is unique."""
        return _reactions.band(self, joint, frame)

    # ---- all that are possible ----------------------------------------------------------------------------

    @property
    def friction_shares_load(self) -> bool:
        """Whether rows that hold what sticks are redundant with those of joints."""
        return False

    def rank_at(self, k: int) -> int:
        """The rank at a saved time if its pose is not singular."""
        return self.rank

    def rows_at(self, k: int) -> np.ndarray:
        """For each row of the machine its number among those of `instant(k)`; −1 where it is open then."""
        return np.arange(self.machine.m)

    @functools.cached_property
    def possible_sets(self) -> dict:
        """By saved time and what is known: all possible reactions, kept for all joints."""
        return {}

    def range(
        self, joint: str, *, known: Known | None = None, frame: str = "joint", instants: int | None = None
    ) -> xr.Dataset:
        return _ranges.ranged(self, joint, known, frame, instants)

    def bands(self, joint: str, known: Known | None = None, frame: str = "joint") -> dict:
        """Both ends of each component over the motion, from a number of instants."""
        return _ranges.bands(self, joint, known, frame)

    @functools.cached_property
    def lifts(self) -> tuple[str, ...]:
        return _ranges.lifts(self)

    def shown(self, known: Known | None = None) -> xr.Dataset:
        """The dataset for pictures that move: where limits are known, with all reactions that are possible."""
        return self.dataset.assign(_ranges.all_bands(self, known))

    # ---- files and pictures ------------------------------------------------------------------------------

    def to_netcdf(self, path) -> Path:
        from dalembert.results._run_file import write_run

        return write_run(self.solution, path)

    def to_csv(self, path) -> Path:
        from dalembert.io import write_csv

        return write_csv(self.dataset, path)

    def plot(self, what=None, *, path=None, **options):
        from dalembert.view import plot_dataset

        if what is not None and path is None and Path(what).suffix:
            what, path = None, what
        data, bodies = self.dataset, self.machine.bodies
        if what in ("velocities", "phase") and bodies is not None and "coordinate" in data:
            rates = np.asarray(coordinate_rates(bodies, self.observed.q, self.observed.v))
            data = data.assign(coordinate_rate=(("time", "joint_coordinate"), rates))
        joint, frame, known = options.get("joint"), options.get("frame", "joint"), options.pop("known", None)
        if what == "reactions" and joint is not None and joint in data.get("joint", ()) and "band" not in options:
            limited = _ranges.is_limited(self, known) and not self.unique(joint, frame=frame).all()
            options["band"] = _ranges.bands(self, joint, known, frame) if limited else self.band(joint, frame)
        return plot_dataset(data, what, path=path, **options)

    def animate(self, path, **options) -> Path:
        from dalembert.view import animate_dataset

        known = options.pop("known", None)
        return animate_dataset(self.shown(known) if Path(path).suffix == ".html" else self.dataset, path, **options)

    def html(self) -> str:
        """The page that moves, for a notebook."""
        from dalembert.view import html_run, html_words

        if is_traced(self.solution) or len(self.solution.t) == 0:
            return html_words(repr(self.solution))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RedundancyWarning)  # the page shows it
            return html_run(self.shown(), repr(self.solution))
