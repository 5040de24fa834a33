"""7 · analysis: `Equilibrium`: a machine at rest, in numbers, with names and as text."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import Array, Coordinates, Rows, Velocities, is_traced
from dalembert.analysis._printed import Printed, reports
from dalembert.analysis._rest import Held, Rest
from dalembert.analysis._solvability import Solvability, solve_solvability
from dalembert.analysis._stability import Stability, stability_of
from dalembert.reactions import LABELS, AbstractReactionRule, Instant
from dalembert.results import Pose, labelled_poses, pose_of
from dalembert.stabilise import State
from dalembert.systems import AbstractSystem, compiled_quickly

if TYPE_CHECKING:
    import xarray as xr


class Equilibrium(eqx.Module, Printed):
    """A machine at rest. `print` it, or read the fields; `as_dict` is the JSON form.

    Under `jit`, `vmap` and `grad` use the arrays `q`, `lam`, `efforts`, `unknown`, `residual` and `step`. On the host
    the rest is computed on first use: `stability`, `reactions(joint)`, `solvability`, `dataset`, `plot(path)`.

    `residual` is the force that is left, over the machine's own (inside a program infinite where what is held is out of
    reach); `moved` how far it lies from the start, in machine sizes; `way` how it was found. `efforts` hold what
    `hold=` names: along each held number the force or torque that holds it there. `unknown` are the parameters that
    were found.
    `lam` are the multipliers of the system's own rows.
    """

    system: AbstractSystem
    t: Array
    q: Coordinates
    lam: Rows
    residual: Array
    step: Array
    moved: Array
    steps: Array
    freedoms: Array
    efforts: dict[str, Array]
    unknown: dict[str, Array]
    held: Held | None = None
    chosen: AbstractReactionRule | None = None
    way: str = eqx.field(static=True, default="Newton's method")
    remarks: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def state(self) -> State:
        """q, and v = 0."""
        return State(self.q, jnp.zeros(self.system.n))

    # ---- whether it stays there --------------------------------------------------------------------------

    @functools.cached_property
    def stability(self) -> Stability:
        """The reduced stiffness: its eigenvalues, and the motions that belong to them."""
        if is_traced(self):
            raise DalembertError(
                f"The stability of '{self.name}' is found on the host: inside jit, vmap and grad an equilibrium has q, "
                "lam, efforts, unknown, residual and step."
            )
        effort = np.concatenate([np.zeros(0), *(np.ravel(x) for x in self.efforts.values())])
        return stability_of(self.instant, self._rest, effort)

    @property
    def stable(self) -> bool:
        """Whether every small motion has to be forced; of a machine that cannot move, too."""
        return self.stability.word in ("stable", "fixed")

    @property
    def stiffness(self) -> np.ndarray:
        """Eigenvalues of the reduced stiffness in the mass metric, rising: ω² of small undamped motions, in 1/s²."""
        return self.stability.values

    @property
    def mobility(self) -> int:
        """Degrees of freedom; what is held has none."""
        return int(self.freedoms)

    # ---- what the joints bear ----------------------------------------------------------------------------

    @property
    def _rest(self) -> Rest:
        return Rest(self.system, np.asarray(self.t), self.held)

    @functools.cached_property
    def instant(self) -> Instant:
        """The machine at rest, with the efforts that hold it as forces: ranks and unique reactions."""
        applied = None
        if self.held is not None and any(np.any(np.asarray(x)) for x in self.efforts.values()):
            effort = np.concatenate([np.ravel(x) for x in self.efforts.values()])
            applied = np.asarray(_pull(self.held, self.system, np.asarray(self.t), np.asarray(self.q), effort))
        return Instant.at_rest(self.system, np.asarray(self.t), np.asarray(self.q), applied)

    @functools.cached_property
    def pose(self) -> Pose:
        """Multipliers, wrenches and joint coordinates under the rule."""
        return pose_of(self.instant, self.chosen)

    @property
    def rule(self) -> AbstractReactionRule:
        """The rule that picked reactions which are not unique; `RequireUnique` where all are."""
        return self.pose.rule

    @property
    def redundancy(self) -> int:
        """How many rows of the joints follow from the others."""
        return self.instant.among_joints.redundancy

    @functools.cached_property
    def solvability(self) -> Solvability:
        """Which reactions are unique, with their values, as `check` states it."""
        at = self.pose.instant
        return solve_solvability(at.joints, at.among_joints, self.pose.lam)

    def reactions(self, joint: str, *, frame: str = "world") -> xr.Dataset:
        """Force and torque of a joint **on its body j**, at marker j, in the "world" or the "joint" frame; with
        `unique_force` and `unique_torque`, and the attribute `rule`, as of a motion."""
        return reactions_in(self.dataset, joint, frame, self.rule.describe(self.system.machine))

    # ---- with names ----------------------------------------------------------------------------------------

    @property
    def coordinates(self) -> dict[str, float]:
        """The joint coordinates, by name."""
        data = self.dataset
        if "coordinate" not in data:
            return {}
        return dict(zip(map(str, data["joint_coordinate"].values), data["coordinate"].values.tolist(), strict=True))

    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        """Poses of the bodies, joint coordinates and reactions, with the names and units of a motion's dataset, and the
        eigenvalues of the stiffness."""
        return self._labelled.isel(case=0, drop=True)

    @functools.cached_property
    def _labelled(self) -> xr.Dataset:
        return labelled([self], "case", [self.name])

    def as_dict(self) -> dict:
        """Plain data, ready for JSON."""
        return as_dict(self)

    def summary(self) -> str:
        """What it is, in two or three lines."""
        return "\n".join(reports().statics_summary(self))

    def plot(self, path=None) -> Any:
        """A figure of the machine in this pose; saved to `path` if given."""
        return picture(self._labelled, "case", path, f"{self.name}, at rest")

    def to_netcdf(self, path) -> Path:
        """Write the dataset as netCDF-4."""
        from dalembert.io import write_netcdf

        return write_netcdf(self.dataset, path)

    def __rich__(self):
        return reports().statics_renderable(self)

    def __str__(self) -> str:
        return reports().plain(self) if not is_traced(self) else repr(self)

    def __repr__(self) -> str:
        return f"Equilibrium of '{self.name}' (being traced)" if is_traced(self) else self.summary()


class LoadCases(Printed, Mapping):
    """Equilibria by the names of their load cases. `print` it for a table; `dataset` has a dimension `case`."""

    def __init__(self, name: str, cases: Mapping[str, Equilibrium]):
        self.name, self._cases = name, dict(cases)

    def __getitem__(self, name: str) -> Equilibrium:
        return self._cases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cases)

    def __len__(self) -> int:
        return len(self._cases)

    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        """All cases, labelled."""
        found = list(self._cases.values())
        return labelled(found, "case", list(self._cases))

    def as_dict(self) -> dict:
        """Plain data, ready for JSON."""
        return {"name": self.name, "cases": {name: case.as_dict() for name, case in self._cases.items()}}

    def plot(self, path=None) -> Any:
        """A figure of the machine in its first case; saved to `path` if given."""
        return picture(self.dataset, "case", path, f"{self.name}, {next(iter(self._cases))}")

    def to_netcdf(self, path) -> Path:
        """Write the dataset as netCDF-4."""
        from dalembert.io import write_netcdf

        return write_netcdf(self.dataset, path)

    def __rich__(self):
        return reports().cases_renderable(self)


@compiled_quickly
def _pull(held: Held, system: AbstractSystem, t, q, effort) -> Velocities:
    """Efforts along held numbers as a force on the machine's velocities."""
    return held.pull(system.machine, t, system.lift(q, jnp.zeros(system.n)).q, effort)


# ---- labelled --------------------------------------------------------------------------------------------------------


def labelled(found: Sequence[Equilibrium], dimension: str, labels: Sequence[Any]) -> xr.Dataset:
    """Equilibria along a dimension as a Dataset."""
    data = labelled_poses([e.pose for e in found], dimension, labels, {"statics": "equilibrium"})
    modes = max((len(e.stiffness) for e in found), default=0)
    values = np.full((len(found), modes), np.nan)
    for k, e in enumerate(found):
        values[k, : len(e.stiffness)] = np.real(e.stiffness)
    text = {"units": "1/s2", "long_name": "eigenvalues of the reduced stiffness in the mass metric"}
    data = data.assign(stiffness=((dimension, "mode"), values, text))
    data = data.assign(stability=(dimension, [e.stability.word for e in found]))
    data = data.assign(residual=(dimension, [float(e.residual) for e in found], {"units": "1"}))
    for word in ("efforts", "unknown"):
        for name in getattr(found[0], word):
            column = np.array([np.asarray(getattr(e, word)[name]) for e in found])
            dims = (dimension, *(f"{name}_{k}" for k in range(column.ndim - 1)))
            title = "effort" if word == "efforts" else "unknown"
            data = data.assign({f"{title} {name}": (dims, column)})
    return data


def reactions_in(data: xr.Dataset, joint: str, frame: str, rule: str) -> xr.Dataset:
    """The reaction of one joint, out of labelled poses."""
    if frame not in ("world", "joint"):
        raise DalembertError(f"frame={frame!r} is unknown; use 'world' or 'joint'.")
    if "joint" not in data:
        raise DalembertError("There are no joint frames here; the multipliers are in dataset['multiplier'].")
    joints = [str(j) for j in data["joint"].values]
    if joint not in joints:
        raise DalembertError(
            f"There is no joint '{joint}'; the joints are {', '.join(joints)}.{did_you_mean(joint, joints)}"
        )
    suffix = "" if frame == "world" else "_in_joint"
    names = {
        f"{a}_{b}{suffix}": f"{c}{b}" for a, c in (("reaction", ""), ("unique", "unique_")) for b in ("force", "torque")
    }
    found = data.sel(joint=joint)[list(names)].rename(names)
    sure = all(bool(found[f"unique_{x}"].all()) for x in ("force", "torque"))
    return found.assign_attrs(rule="unique" if sure else rule, frame=frame, joint=joint)


def picture(data: xr.Dataset, dimension: str, path, title: str) -> Any:
    """A figure of the machine in the first of some poses."""
    from dalembert.view import plot_dataset

    figure = plot_dataset(moving(data.isel({dimension: [0]}), dimension), "mechanism")
    figure.axes[0].set_title(title, loc="left")
    if path is not None:
        from dalembert.view import save_figure

        save_figure(figure, path)
    return figure


def moving(data: xr.Dataset, dimension: str) -> xr.Dataset:
    """Poses as a motion that passes through them, for pictures."""
    count = data.sizes[dimension]
    data = data.drop_vars([n for n in (dimension, "stability", "stiffness", "residual") if n in data])
    return data.rename({dimension: "time"}).assign_coords(time=("time", np.arange(count, dtype=float), {"units": "1"}))


def as_dict(found: Equilibrium) -> dict:
    """Plain data of an equilibrium."""
    stability, pose = found.stability, found.pose
    bodies = found.system.bodies
    out: dict[str, Any] = {
        "name": found.name,
        "t": float(found.t),
        "stability": stability.word,
        "stable": found.stable,
        "mobility": found.mobility,
        "redundancy": found.redundancy,
        "stiffness": [_number(x) for x in stability.values],
        "frequencies": [None if np.isnan(x) else float(x) for x in stability.frequencies],
        "motions": [[b._asdict() for b in m.bodies] for m in stability.motions],
        "found_by": found.way,
        "steps": int(found.steps),
        "moved": float(found.moved),
        "residual": float(found.residual),
        "q": [float(x) for x in np.asarray(found.q)],
        "coordinates": found.coordinates,
        "efforts": {k: _plain(x) for k, x in found.efforts.items()},
        "unknown": {k: _plain(x) for k, x in found.unknown.items()},
        "rule": found.rule.describe(found.system.machine),
        "multipliers": pose.lam.tolist(),
        "remarks": list(found.remarks),
    }
    if found.system.channels:
        data = found.dataset
        values, sure, rules = (data[x].values for x in ("measurement", "unique_measurement", "channel_rule"))
        out["measurements"] = {
            name: {"value": _number(x), "unit": str(unit), "unique": bool(known), "rule": str(rule)}
            for name, x, unit, known, rule in zip(
                map(str, data["channel"].values), values, data["channel_units"].values, sure, rules, strict=True
            )
        }
    if bodies is not None:
        data = found.dataset
        what = "angle" if bodies.space == "plane" else "quaternion"
        out["bodies"] = {
            str(b): {
                "position": data["position"].sel(body=b).values.tolist(),
                what: data[what].sel(body=b).values.tolist(),
            }
            for b in bodies.body_names
        }
        out["axes"] = "joint"
        out["reactions"] = [reaction_dict(found, j) for j in range(len(bodies.joints))]
    return out


def reaction_dict(found: Equilibrium, j: int) -> dict:
    """The reaction of one joint, along its own axes: its components, and which of them are unique."""
    bodies, pose = found.system.bodies, found.pose
    assert bodies is not None and pose.wrenches is not None
    name = bodies.joints[j].name
    values = np.concatenate([np.asarray(pose.wrenches.joint_force)[j], np.asarray(pose.wrenches.joint_torque)[j]])
    sure = pose.instant.uniqueness.components(name)
    table = dict(zip(LABELS[len(values)], values.tolist(), strict=True))
    transmitted = [x for x in table if x in sure] if sure and set(sure) <= set(table) else list(table)
    return {
        "joint": name,
        "kind": bodies.joints[j].nature.label,
        "components": {x: table[x] for x in transmitted},
        "unique": {
            x: bool(u) for x, u in zip(LABELS[len(values)], pose.unique["joint"][j], strict=True) if x in transmitted
        },
    }


def _number(x) -> Any:
    return float(x) if np.isreal(x) else [float(x.real), float(x.imag)]


def _plain(x) -> Any:
    x = np.asarray(x)
    return float(x) if x.ndim == 0 else x.tolist()
