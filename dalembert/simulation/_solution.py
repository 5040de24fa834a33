"""6 · simulation: `Solution`, the user's result: labelled, with names and units, saved and plotted in one call."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from dalembert._results import (
    DalembertError,
    RecordWarning,
    RedundancyWarning,
    SingularWarning,
    SlackBeltWarning,
    Status,
    did_you_mean,
    warn_caller,
)
from dalembert._typing import Array, is_traced
from dalembert.equations import assemble
from dalembert.formulations import AbstractFormulation
from dalembert.linalg import ZERO, mass_metric_rows
from dalembert.reactions import (
    LABELS,
    AbstractReactionRule,
    Instant,
    MinimumNorm,
    RequireUnique,
    Uniqueness,
    rule_of,
)
from dalembert.simulation import _batch
from dalembert.simulation._instants import Instants, look, project_all, qdot_all
from dalembert.simulation._observe import Observation, coordinate_rates, joint_coordinate_names
from dalembert.simulation._singular import owners_of
from dalembert.simulation._turns import coordinate_motion, counted, with_turns
from dalembert.stabilise import AbstractStabilisation, State
from dalembert.systems import AbstractSystem, BodySystem, compiled, compiled_quickly, geometry, is_angle

if TYPE_CHECKING:
    import xarray as xr

AXES = ("x", "y", "z")
AT_REST = 1e-8
"""Energies that change by less than this share of the machine's own count as rest: rounding (1e-16) then reads 1e-8."""
BAND_INSTANTS = 41
"""Instants at which the range of non-unique reactions is computed; linear between them."""


class Solution(eqx.Module):
    """A motion: times `t`, coordinates `q`, velocities `v`, and everything that follows from them, on demand.

    Under `jit`, `vmap` and `grad` use the arrays `t`, `q`, `v`, `work`, `status_code`. On the host the rest is
    computed on first use: `dataset` (labelled), `reactions(joint)`, `energy`, `violation`, `plot()`,
    `to_netcdf(path)`, `to_csv(path)`. Units are those of the model (SI in all built-in mechanisms).

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

    # ---- how it went -------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """How the run ended; `status.message` describes it. For a batch an array of them."""
        if _batch.is_batch(self):
            return _batch.statuses(self)  # pyright: ignore[reportReturnType]
        return Status(int(self.status_code))

    def __len__(self) -> int:
        if not _batch.is_batch(self):
            raise TypeError("This is one run, not a batch; it has len(solution.t) saved instants.")
        return len(self.status_code)

    def __bool__(self) -> bool:
        return True

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
            f"({int(stats['rejected'])} rejected)"
        )

    def _repr_html_(self) -> str:
        """The page that moves, for a notebook; of a batch a table."""
        from dalembert.view import html_run, html_table, html_words

        if is_traced(self) or (not _batch.is_batch(self) and len(self.t) == 0):
            return html_words(repr(self))
        if _batch.is_batch(self):
            ends = zip(_batch.statuses(self).ravel(), np.ravel(self.t_end), strict=True)
            rows = [(k, s.name, f"{float(t):g} s") for k, (s, t) in enumerate(ends)]
            return html_words(repr(self)) + html_table(("run", "status", "reached"), rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RedundancyWarning)  # the page shows it
            return html_run(self.dataset, repr(self))

    def __getitem__(self, k) -> Solution:
        """Run k of a batch, up to where it ended."""
        return _batch.member(self, k)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    @property
    def state(self) -> State:
        """The last saved state; of a batch, of each run."""
        return State(self.q[..., -1, :], self.v[..., -1, :])

    @property
    def machine(self) -> AbstractSystem:
        """The system in which bodies and reactions are stated: in joint coordinates the absolute one of all joints."""
        return self.system.machine

    def _instant(self, k: int, loaded: bool = False) -> Instant:
        """The system at a saved time; `loaded`: with teeth and belts in contact on the side of their load, as reactions
        are stated."""
        system = self.system.with_sides(self._observed.sides[k]) if loaded and self.machine.sided else self.system
        return Instant(system, self.t[k], State(self.q[k], self.v[k]))

    @functools.cached_property
    def _generic(self) -> dict[int, Instant]:
        """A few instants of the motion, those of the largest rank, by their number."""
        _batch.need_one(self, "redundancy, .rank, .rule, …")
        picks = sorted({0, len(self.t) // 3, (2 * len(self.t)) // 3, len(self.t) - 1})
        found = {k: self._instant(k) for k in picks}
        rank = max((i.dependence.rank for i in found.values()), default=0)
        return {k: i for k, i in found.items() if i.dependence.rank == rank}

    @functools.cached_property
    def redundancy(self) -> int:
        """p = m − rank C at a generic instant of the motion (the largest rank seen at a few); rows that are switched
        off do not count."""
        seen = [i.among_joints for i in self._generic.values()]
        if not seen:
            return self.system.m
        off = 0
        if self.machine is self.system:  # in joint coordinates a row can be zero because the tree satisfies it
            off = int(np.sum(np.all([np.all(d.C == 0, axis=1) for d in seen], axis=0)))
        return seen[0].redundancy - off

    @property
    def rank(self) -> int:
        """The rank of C at a generic instant of the motion."""
        return max((i.dependence.rank for i in self._generic.values()), default=0)

    @functools.cached_property
    def unique_multipliers(self) -> np.ndarray:
        """For each row of C whether its multiplier is determined (at all of a few instants)."""
        out = np.ones(self.machine.m, bool)
        for instant in self._generic.values() if self.redundancy else ():
            out &= np.linalg.norm(instant.among_joints.null, axis=1) <= ZERO
        return out

    @functools.cached_property
    def _uniqueness(self) -> list[Uniqueness]:
        loaded = bool(self.machine.sided)
        return [(self._instant(k, loaded=True) if loaded else i).uniqueness for k, i in self._generic.items()]

    def unique(self, joint: str, *, frame: str = "joint") -> np.ndarray:
        """Which components of a joint's reaction (force, then torque) the rigid-body model determines.

        In the "joint" or the "world" frame; True where it does at all of a few instants of the motion.
        """
        self._joint_index(joint)
        if self.redundancy == 0:
            assert self.system.bodies is not None  # checked by `_joint_index`
            return np.ones(self.system.bodies.dv, bool)
        return np.all([u.mask(joint, frame) for u in self._uniqueness], axis=0)

    @functools.cached_property
    def rule(self) -> AbstractReactionRule:
        """The rule that picked λ: `RequireUnique` when the rows are independent, else the chosen one, by default a
        minimum norm free of units."""
        if self.redundancy == 0:
            return RequireUnique()
        return MinimumNorm() if self.chosen is None or isinstance(self.chosen, RequireUnique) else self.chosen

    def with_rule(self, rule: AbstractReactionRule | str) -> Solution:
        """The same motion with its reactions under another rule."""
        _batch.need_one(self, "under(rule)")
        chosen = rule_of(rule)
        if chosen is not None:
            chosen = chosen.prepare(self.machine, assemble(self.machine, self.t[0], *self._body_state(0)))
        return dataclasses.replace(self, chosen=chosen)

    def _body_state(self, k: int) -> State:
        """A saved state in the machine's coordinates."""
        return State(*_lift(self.system, self.q[k], self.v[k]))

    @functools.cached_property
    def _examined(self) -> tuple[Observation, Instants]:
        _batch.need_one(self, "dataset, .vdot, .multipliers, …")
        if len(self.t) == 0:
            raise DalembertError("This solution holds no saved times; run again with samples= a number or times.")
        return look(self, self.rule, self.rank)

    @property
    def _observed(self) -> Observation:
        return self._examined[0]

    @property
    def instants(self) -> Instants:
        """For each saved time the rank of C, the reliable digits of the reactions, and which of them are reliable."""
        return self._examined[1]

    @property
    def vdot(self) -> np.ndarray:
        """Accelerations v̇ (times, n)."""
        return np.asarray(self._observed.rates)

    @property
    def multipliers(self) -> np.ndarray:
        """λ (times, m) under `rule`; `unique_multipliers` marks those that do not depend on it."""
        if isinstance(self.chosen, RequireUnique) and not self.unique_multipliers.all():
            raise DalembertError(
                f"{int(np.sum(~self.unique_multipliers))} of the {self.machine.m} multipliers are not unique. Name a "
                "rule that picks them, or ask for reactions that are."
            )
        self._warn_redundant()
        return np.asarray(self._observed.lam)

    @property
    def violation(self) -> dict[str, float]:
        """The largest constraint violation over the motion at the three levels (see `violation` for the measure)."""
        if _batch.is_batch(self):
            levels = ("position", "velocity", "acceleration")
            return {x: _batch.for_each(self, lambda one, x=x: one.violation[x]) for x in levels}  # pyright: ignore[reportReturnType]
        worst = np.max(self._observed.violation, axis=0)
        return dict(zip(("position", "velocity", "acceleration"), map(float, worst), strict=True))

    @functools.cached_property
    def _energies(self) -> dict[str, np.ndarray]:
        T, V, W = self._observed.kinetic, self._observed.potential, np.asarray(self.work)
        total = T + V
        work, driven = W[:, 0] - W[0, 0], W[:, 1] - W[0, 1]
        drift = total - total[0] - work - driven
        values = {"kinetic": T, "potential": V, "total": total, "work": work, "work_of_constraints": driven}
        return values | {"drift": drift}

    @property
    def energy(self) -> xr.Dataset:
        """Kinetic, potential, total energy; work done by forces without potential and by constraints; the balance.

        `drift` = total − total(0) − work − work_of_constraints: zero for an exact motion.
        """
        import xarray as xr

        if _batch.is_batch(self):
            return _batch.together(self, lambda one: one.energy, "energy")
        named = {k: ("time", x, {"units": "J"}) for k, x in self._energies.items()}
        return xr.Dataset(named, coords={"time": self._time()})

    @property
    def energy_drift(self) -> float:
        """Largest |drift| relative to the energy that moves: the span of kinetic energy and of the work done.

        Not below `AT_REST` of the machine's own energy (what it stores, or its loads over its size): energies are
        known to rounding, and a machine at rest moves none.
        """
        if _batch.is_batch(self):
            return _batch.for_each(self, lambda one: one.energy_drift)  # pyright: ignore[reportReturnType]
        e = self._energies
        kinds = ("kinetic", "potential", "work", "work_of_constraints")
        moving = max(np.max(e["kinetic"]), *(np.ptp(e[k]) for k in kinds))
        force = np.asarray(assemble(self.system, self.t[0], self.q[0], self.v[0]).force)
        own = max(
            float(np.sum(np.abs(force) * np.asarray(self.system.scale()))), *(np.max(np.abs(e[k])) for k in kinds)
        )
        return float(np.max(np.abs(e["drift"])) / max(moving, AT_REST * own, np.finfo(float).tiny))

    # ---- reactions ---------------------------------------------------------------------------------------

    def reactions(
        self, joint: str, *, frame: str = "world", rule: AbstractReactionRule | str | None = None
    ) -> xr.Dataset:
        """Force and torque of a joint **on its body j**, at marker j, in the "world" or the "joint" frame.

        `unique_force` and `unique_torque` state for each component whether the rigid-body model determines it (at all
        of a few instants). The attribute `rule` names what picked the values: "unique" if all of them are, else the
        rule's name, and a `RedundancyWarning` is given as well. With the rule `RequireUnique` values that are
        not unique are refused.
        """
        if frame not in ("world", "joint"):
            raise DalembertError(f"frame={frame!r} is unknown; use 'world' or 'joint'.")
        self._joint_index(joint)
        if _batch.is_batch(self):
            return _batch.together(self, lambda one: one.reactions(joint, frame=frame, rule=rule), "reactions(joint)")
        if rule is not None:
            return self.with_rule(rule).reactions(joint, frame=frame)
        sure = self.unique(joint, frame=frame)
        if not sure.all():
            self._refuse(joint, frame, sure)
            self._warn_redundant()
        self._warn_doubtful()
        data = self.dataset.sel(joint=joint)
        suffix = "" if frame == "world" else "_in_joint"
        names = {f"reaction_{x}{suffix}": x for x in ("force", "torque")}
        names |= {f"unique_{x}{suffix}": f"unique_{x}" for x in ("force", "torque")}
        picked = "unique" if sure.all() else self.rule.describe(self.machine)
        return data[list(names)].rename(names).assign_attrs(rule=picked, frame=frame, joint=joint)

    def _refuse(self, joint: str, frame: str, sure: np.ndarray) -> None:
        if isinstance(self.chosen, RequireUnique):
            labels = ("Fx", "Fy", "Mz") if len(sure) == 3 else ("Fx", "Fy", "Fz", "Mx", "My", "Mz")
            open_ = ", ".join(x for x, good in zip(labels, sure, strict=True) if not good)
            raise DalembertError(
                f"The rigid-body model does not determine {open_} of '{joint}' (along the {frame} axes): "
                f"{self.redundancy} constraint row(s) are redundant. Name a rule that picks them, such as Weighted."
            )

    def _joint_index(self, joint: str) -> int:
        names = [o.name for o in self.machine.owners]
        if self.system.bodies is None:
            raise DalembertError(
                "A FunctionSystem has no joint frames; use solution.multipliers (rows named by owners)."
            )
        if joint not in names:
            force = next((f for f in self.system.bodies.forces if joint in f.names), None)
            if force is not None:
                kind = force.kind.split(":")[0].replace("_", " ")
                raise DalembertError(
                    f"'{joint}' is a force ({kind}), not a joint: it holds by its own law, so it has no "
                    "reaction. Evaluate that law at the solution's q and v."
                )
            known = f"the joints are {', '.join(names)}" if names else "this model has no joints"
            raise DalembertError(f"There is no joint '{joint}'; {known}.{did_you_mean(joint, names)}")
        return names.index(joint)

    def _warn_redundant(self) -> None:
        if self.redundancy > 0:
            warn_caller(
                f"'{self.system.name}' has {self.redundancy} redundant constraint row(s): the rigid-body model "
                f"does not determine all reactions. Values picked by: {self.rule.describe(self.machine)}.",
                RedundancyWarning,
            )

    def _warn_doubtful(self) -> None:
        """Once per motion: the times at which reactions are not reliable, and whose rows are the reason."""
        times = np.asarray(self.t)[self.instants.marked]
        if len(times) and not self.stats.get("doubt_said"):
            self.stats["doubt_said"] = True
            warn_caller(f"'{self.system.name}': {self._doubt(times)}", SingularWarning)

    def _doubt(self, times: np.ndarray) -> str:
        first = int(np.flatnonzero(self.instants.marked)[0])
        equations = assemble(self.system, self.t[first], self.q[first], self.v[first])
        rows = mass_metric_rows(
            np.asarray(equations.C), np.asarray(equations.mass.blocks),
            None if equations.share is None else np.asarray(equations.share),
        )  # fmt: skip
        weak = np.linalg.svd(rows)[0][:, : self.rank][:, -1:]
        names = ", ".join(f"'{x}'" for x in owners_of(self.system, weak))
        span = (
            f"t = {times[0]:.6g} s"
            if len(times) == 1
            else f"{len(times)} saved times, t = {times[0]:.6g} … {times[-1]:.6g} s"
        )
        return (
            f"at {span} the rows of {names} are dependent or nearly so (a singular position, or bodies of very unlike "
            "mass); reactions that cannot be believed there are marked in unique_force, unique_torque and digits."
        )

    def _warn_slack(self) -> None:
        """Belts whose span tensions T₀ ± half of what they transmit would fall below zero."""
        machine = self.system.bodies
        if machine is None:
            return
        rows = {o.name: o.rows[0] for o in machine.owners if o.kind.split(":")[0] == "belt"}
        for f in machine.forces:
            if f.kind != "belt_tension":
                continue
            for name, tension in zip(f.names, np.asarray(f.p["tension"]), strict=True):
                belt = name.removesuffix("_pretension")
                slack = np.flatnonzero(np.abs(self._observed.lam[:, rows[belt]]) > 2 * tension)
                if len(slack):
                    warn_caller(
                        f"Belt '{belt}' transmits more than twice its pretension of {tension:g} N, first at "
                        f"t = {float(self.t[slack[0]]):g} s: its slack span would be pushed, so in fact it "
                        "slips. Give it more pretension.",
                        SlackBeltWarning,
                    )

    # ---- labelled data -----------------------------------------------------------------------------------

    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        """All of it as an xarray Dataset with names and units; of a batch with a dimension `run`."""
        import xarray as xr

        if _batch.is_batch(self):
            return _batch.together(self, lambda one: one.dataset, "dataset")
        self._warn_slack()
        o = self._observed
        data: dict[str, Any] = {}
        coords: dict[str, Any] = {"time": self._time(), "level": ["position", "velocity", "acceleration"]}
        machine = self.machine
        if (bodies := self.system.bodies) is not None:
            self._body_data(bodies, data, coords)
            self._joint_data(bodies, data, coords)
            text = {"long_name": "bodies, joints and forces with their places, as JSON; for pictures"}
            data["geometry"] = ((), json.dumps(geometry(bodies)), text)
        if bodies is not self.system:
            names, labels = "coordinate", self.system.coordinate_labels()
            if labels is not None:  # where "coordinate" holds all joints'
                names = "tree_coordinate"
                coords[names] = list(labels)
            data |= {"q": (("time", names), np.asarray(self.q)), "v": (("time", "speed"), np.asarray(self.v))}
            data["vdot"] = (("time", "speed"), o.rates)
        owner = {row: o.name for o in machine.owners for row in o.rows}
        coords |= {"row": np.arange(machine.m), "row_owner": ("row", [owner[row] for row in range(machine.m)])}
        data["multiplier"] = (("time", "row"), o.lam, {"long_name": "Lagrange multiplier"})
        text = {"long_name": "whether the constraints determine the multiplier"}
        data["unique_multiplier"] = (("time", "row"), self.unique_multipliers & self.instants.multipliers, text)
        text = {"long_name": "rank of the constraints at this instant"}
        data["rank"] = ("time", self.instants.rank, text)
        text = {"units": "1", "long_name": "decimal digits of the reactions that can be believed"}
        data["digits"] = ("time", self.instants.digits, text)
        text = {"units": "1", "long_name": "constraint violation, relative to the machine's size"}
        data["violation"] = (("time", "level"), o.violation, text)
        for name, value in self._energies.items():
            label = name if name.startswith("work") else f"energy_{name}"
            data[label] = ("time", value, {"units": "J"})
        return xr.Dataset(data, coords=coords, attrs=self._attributes())

    def _time(self):
        return ("time", np.asarray(self.t), {"units": "s"})

    def _attributes(self) -> dict[str, Any]:
        import dalembert

        keep = {k: float(x) if isinstance(x, float) else int(x) for k, x in self.stats.items() if k != "doubt_said"}
        return {
            "model": self.system.name,
            "status": self.status.name,
            "reaction_rule": self.rule.describe(self.machine),
            "redundancy": self.redundancy,
            "integrator": self.integrator,
            "formulation": type(self.formulation).__name__,
            "stabilisation": type(self.stabilisation).__name__,
            "dalembert_version": dalembert.__version__,
            **keep,
        }

    def _body_data(self, system: BodySystem, data, coords) -> None:
        o = self._observed
        d, nt, nb = system.kinematics.d, len(self.t), len(system.body_names)
        q = o.q.reshape(nt, nb, system.dq)
        v = o.v.reshape(nt, nb, system.dv)
        a = o.vdot.reshape(nt, nb, system.dv)
        coords |= {"body": list(system.body_names), "axis": list(AXES[:d])}
        tba = ("time", "body", "axis")
        data["position"] = (tba, q[..., :d], {"units": "m", "long_name": "centre of mass"})
        data["velocity"] = (tba, v[..., :d], {"units": "m/s"})
        data["acceleration"] = (tba, a[..., :d], {"units": "m/s2"})
        if d == 2:
            tb = ("time", "body")
            data["angle"] = (tb, q[..., 2], {"units": "rad"})
            data["angular_velocity"] = (tb, v[..., 2], {"units": "rad/s"})
            data["angular_acceleration"] = (tb, a[..., 2], {"units": "rad/s2"})
        else:
            coords["component"] = ["w", "x", "y", "z"]
            text = {"units": "1", "long_name": "unit quaternion, body to world"}
            data["quaternion"] = (("time", "body", "component"), _continuous(np.asarray(q[..., 3:])), text)
            data["angular_velocity"] = (tba, v[..., 3:], {"units": "rad/s", "long_name": "in the body frame"})
            data["angular_acceleration"] = (tba, a[..., 3:], {"units": "rad/s2", "long_name": "in the body frame"})

    def _joint_data(self, system: BodySystem, data, coords) -> None:
        o = self._observed
        assert o.wrenches is not None
        names = joint_coordinate_names(system)
        if names:
            values = self._counting_turns(system, names)
            coords["joint_coordinate"] = [f"{joint}.{what}" for joint, what in names]
            units = ["rad" if is_angle(what) else "m" for _, what in names]
            coords["joint_coordinate_units"] = ("joint_coordinate", units)
            data["coordinate"] = (("time", "joint_coordinate"), values, {"long_name": "joint coordinate"})
        if not system.joints:
            return
        coords["joint"] = [j.name for j in system.joints]
        turning = ("time", "joint", "axis") if system.kinematics.d == 3 else ("time", "joint")
        for suffix, force, torque in (
            ("", o.wrenches.force, o.wrenches.torque),
            ("_in_joint", o.wrenches.joint_force, o.wrenches.joint_torque),
        ):
            where = "world axes" if not suffix else "axes of marker i"
            note = f"on body j, at marker j, {where}; rule: {self.rule.describe(system)}"
            data[f"reaction_force{suffix}"] = (("time", "joint", "axis"), force, {"units": "N", "long_name": note})
            value = torque if system.kinematics.d == 3 else torque[..., 0]
            data[f"reaction_torque{suffix}"] = (turning, value, {"units": "N m", "long_name": note})
            d = system.kinematics.d
            sure = np.array([self.unique(j.name, frame="joint" if suffix else "world") for j in system.joints])
            text = {"long_name": f"whether the rigid-body model determines it at this instant, {where}"}
            known = self.instants.believed
            prefix = "joint_" if suffix else ""
            believed_force, believed_torque = known[f"{prefix}force"], known[f"{prefix}torque"]
            data[f"unique_force{suffix}"] = (("time", "joint", "axis"), sure[:, :d] & believed_force, text)
            turned = sure[:, d:] if d == 3 else sure[:, d]
            data[f"unique_torque{suffix}"] = (
                turning,
                turned & (believed_torque if d == 3 else believed_torque[..., 0]),
                text,
            )

        text = {"long_name": "how much of the joint's reaction the rigid-body model determines"}
        data["solvability"] = ("joint", [self._solvability(j.name) for j in system.joints], text)

    def _counting_turns(self, system: BodySystem, names: list[tuple[str, str]]) -> np.ndarray:
        """The joint coordinates with angles that count full turns, as they do in the plane; in space they come from
        (−π, π], and full turns follow from joint coordinates q or from the angles' own rates."""
        o = self._observed
        values = np.array(o.coordinates)
        angles = [k for k, (_, what) in enumerate(names) if is_angle(what)]
        if system.space == "plane" or not angles or len(values) < 2:
            return values
        own = self.system.angles_in_q()
        for k in angles:
            if names[k] in own:
                q = np.asarray(self.q)[:, own[names[k]]]
                values[:, k] = with_turns(values[:, k], np.diff(q))
        rest = [k for k in angles if names[k] not in own]
        if rest:
            rates, accelerations = (np.asarray(x)[:, rest] for x in coordinate_motion(system, o.q, o.v, o.vdot))
            values[:, rest], known = counted(np.asarray(self.t), values[:, rest], rates, accelerations)
            self._warn_uncounted([names[k][0] for k, sure in zip(rest, known, strict=True) if not sure])
        return values

    def _warn_uncounted(self, joints: list[str]) -> None:
        if joints:
            warn_caller(
                f"'{self.system.name}': the saved times are too far apart to count full turns at the joints "
                f"{', '.join(repr(j) for j in dict.fromkeys(joints))}: their angles in the dataset may be wrong by "
                "multiples of 2π. Save more often, with a larger samples=.",
                RecordWarning,
            )

    def _solvability(self, joint: str) -> str:
        """ "unique", "partly" or "open": all, some or none of the joint's components are determined."""
        if self.redundancy == 0:
            return "unique"
        components = [u.components(joint) for u in self._uniqueness]
        sure = [all(t.get(c, True) for t in components) for c in {c for t in components for c in t}]
        return "unique" if all(sure) else "partly" if any(sure) else "open"

    def singular_positions(self) -> list:
        """Where along the motion the constraint rank falls: time, rank, and the joints whose rows become dependent."""
        from dalembert.simulation._singular import singular_positions

        _batch.need_one(self, "singular_positions()")
        return singular_positions(self)

    # ---- any time, files, pictures -----------------------------------------------------------------------

    def at(self, t: float) -> State:
        """The state at any time of the motion, on the constraints.

        With samples="dense" it is as exact as the integration; else a cubic between two saved states.
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

    def to_netcdf(self, path) -> Path:
        """Write the dataset as netCDF-4, with the model and the state of the march: `da.open(path)` is this again.

        A half-written file never replaces a good one.
        """
        from dalembert.simulation._run_file import write_run

        return write_run(self, path)

    def to_csv(self, path) -> Path:
        """Write the dataset as one wide table, one row per time, with names and units in the header."""
        from dalembert.io import write_csv

        _batch.need_one(self, "to_csv(path)")
        return write_csv(self.dataset, path)

    def plot(self, what=None, *, path=None, **options):
        """A matplotlib figure by its name; saved to `path` if given. Without a name, a page of four.

        "coordinates", "velocities" (names=), "reactions" (joint=, frame=), "violation", "energy",
        "phase" (coordinate=), "path" (body=, point=), "mechanism" (t=), "page". `plot("run.png")` saves the page.
        """
        from dalembert.view import plot_dataset

        _batch.need_one(self, "plot()")
        if what is not None and path is None and Path(what).suffix:
            what, path = None, what
        data = self.dataset
        bodies = self.machine.bodies
        if what in ("velocities", "phase") and "coordinate" in data and bodies is not None:
            rates = np.asarray(coordinate_rates(bodies, self._observed.q, self._observed.v))
            data = data.assign(coordinate_rate=(("time", "joint_coordinate"), rates))
        joint, frame = options.get("joint"), options.get("frame", "joint")
        if what == "reactions" and joint is not None and joint in data.get("joint", ()) and "band" not in options:
            options["band"] = self._band(joint, frame)
        return plot_dataset(data, what, path=path, **options)

    def _band(self, joint: str, frame: str) -> dict[str, np.ndarray] | None:
        """For each component of a joint's reaction half the width of its undetermined range (`Uniqueness.width`)."""
        if frame not in ("world", "joint") or self.unique(joint, frame=frame).all():
            return None
        t, lam = np.asarray(self.t), np.asarray(self._observed.lam)
        picks = np.unique(np.linspace(0, len(t) - 1, min(len(t), BAND_INSTANTS)).astype(int))
        widths = []
        for k in picks:
            widths.append(self._instant(int(k), loaded=True).uniqueness.width(joint, lam[k], frame))
        table = np.array(widths)
        labels = LABELS.get(table.shape[1], ())
        return {x: np.interp(t, t[picks], table[:, k]) for k, x in enumerate(labels)}

    def animate(self, path, **options) -> Path:
        """Write the motion: .html, one page that plays offline; .gif or .mp4 for slides. See `animate_dataset`.

        `traces=["coupler", ("crank", (0.5, 0))]` names the points whose path is drawn; `speed`, `fps` are for films.
        """
        from dalembert.view import animate_dataset

        _batch.need_one(self, "animate(path)")
        return animate_dataset(self.dataset, path, **options)


def _continuous(quaternions: np.ndarray) -> np.ndarray:
    """Of the two quaternions of each rotation the one nearer to that of the instant before (times first)."""
    same = np.sum(quaternions[1:] * quaternions[:-1], axis=-1) >= 0
    sign = np.cumprod(np.where(same, 1.0, -1.0), axis=0)
    return np.concatenate([quaternions[:1], quaternions[1:] * sign[..., None]])


@compiled_quickly
def _lift(system: AbstractSystem, q, v):
    return system.lift(q, v)


@compiled
def _evaluate_dense(system, formulation, dense, times):
    def one(t):
        q, w, _, (memory, _) = dense.evaluate(t)
        return formulation.unpack(system, t, q, w, memory)

    return jax.vmap(one)(times)
