"""7 · analysis: `assembly`: what joints have to bear because the parts of a redundant machine do not quite fit.

Small errors δp of dimensions move the rows by e = (∂Φ/∂p) δp. Elastic joints and bodies of compliance A take up what
rigid ones cannot: C δ + e = −A λ with Cᵀλ = 0. With the null vectors N of Cᵀ

    λ = −N (NᵀA N)⁻¹ Nᵀ e,      C δ = −(e + A λ)

Rows that are independent (N empty) carry nothing: the machine only stands elsewhere. Where Nᵀe lies in rigid directions
(u with uᵀNᵀA N u = 0) no elasticity closes the gap, and rows on velocities that contradict each other slip on and on.
Equations and what is left out: docs/theory/ranges.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dalembert._results import DalembertError
from dalembert.analysis._dimensions import Dimension, Sensitivities, numbers_of, sensitivities
from dalembert.analysis._solvability import Release, Solver
from dalembert.linalg import RANK_TOLERANCE, ZERO
from dalembert.model import Model
from dalembert.reactions import UNITS, AbstractFlexibility, Instant, JointRows, Weighted
from dalembert.simulation import Solution
from dalembert.stabilise import State, assembled
from dalembert.systems import AbstractSystem, build

if TYPE_CHECKING:
    import xarray as xr

INSTANTS = 41
"""Instants of a motion at which it is evaluated."""
RIGID = 1e-12
"""Share of the largest compliance below which a direction is rigid."""
STILL = 1e-13
"""A velocity below this share of the given ones is rounding."""
FITS = 1e-9
"""Share of the errors below which a misfit is rounding."""
ROUNDING = 1e-11
"""Share of the largest pre-load below which one is zero."""
UNIFORM = 1 / np.sqrt(3.0)
"""Standard deviation of an error that is uniform within its tolerance, over the tolerance."""


@dataclass(frozen=True)
class ReleaseEffect:
    """A release that `check` suggests, and the share of the largest pre-load that is left after it alone."""

    release: Release
    left: float

    def __str__(self) -> str:
        left = "no load is left" if self.left <= FITS else f"{100 * self.left:.3g} % of the largest load is left"
        return f"free {self.release}: {left}"


@dataclass(frozen=True)
class Assembly:
    """What dimensions that are off do to the joints and to what is measured.

    `dataset` has, by time and component of each joint (along the joint's own axes, `component` = "hinge:Fz"):
    `by_dimension`, the pre-load of each number of each dimension; `load`, that of all `errors` together; with
    `tolerances` the `worst` case and the standard deviation `std` of independent errors, uniform within them. The same
    of measured positions: `shift_by_dimension`, `shift`, `shift_worst`, `shift_std` by `measurement`.
    `harmless` names the dimensions that load no joint; `releases` what would remove the load; `contradictions` gaps
    that no elasticity closes: the loads and shifts of their dimensions are not numbers.
    """

    dataset: xr.Dataset
    harmless: tuple[str, ...]
    releases: tuple[ReleaseEffect, ...]
    contradictions: tuple[str, ...]
    redundancy: int
    name: str
    system: AbstractSystem = field(repr=False)

    def load(self, joint: str) -> xr.DataArray:
        """The pre-load of one joint by time and component: of all errors, or the worst case of tolerances."""
        what = "load" if "load" in self.dataset else "worst"
        joints = list(map(str, self.dataset["component_joint"].values))
        if joint not in joints:
            raise DalembertError(f"There is no joint '{joint}'; the joints are {', '.join(dict.fromkeys(joints))}.")
        found = self.dataset[what].isel(component=[k for k, x in enumerate(joints) if x == joint])
        return found.assign_coords(component=found["component_label"].values)

    @property
    def largest(self) -> list[tuple[str, float, float]]:
        """Components in falling order of what they have to bear: name, the largest value over the motion, and when."""
        what = self.dataset["load" if "load" in self.dataset else "worst"]
        out = []
        for name in map(str, what["component"].values):
            values = np.nan_to_num(what.sel(component=name).values)
            k = int(np.argmax(np.abs(values)))
            out.append((name, float(values[k]), float(what["time"].values[k])))
        size = dict(zip(map(str, what["component"].values), what["force_size"].values.tolist(), strict=True))
        return sorted((x for x in out if x[1] != 0.0), key=lambda x: -abs(x[1]) * size[x[0]])

    def as_dict(self) -> dict[str, Any]:
        """The answer in plain data, ready for JSON."""
        data = self.dataset
        tables = {str(k): _table(x) for k, x in data.data_vars.items() if "time" in x.dims}
        return {
            "model": self.name,
            "redundancy": self.redundancy,
            "time": data["time"].values.tolist(),
            "dimensions": [str(x) for x in data["dimension"].values],
            "components": [str(x) for x in data["component"].values],
            "measurements": [str(x) for x in data["measurement"].values],
            **tables,
            "harmless": list(self.harmless),
            "contradictions": list(self.contradictions),
            "releases": [
                {"joint": x.release.joint, "directions": list(x.release.directions), "left": x.left}
                for x in self.releases
            ],
        }

    def __str__(self) -> str:
        data = self.dataset
        lines = [f"{self.name}: {data.sizes['dimension']} numbers of dimensions are off"]
        lines += [f"  contradiction: {x}" for x in self.contradictions]
        word = "pre-load" if "load" in data else "worst case"
        found = self.largest
        if not self.redundancy:
            lines.append("  no rows on positions are redundant: no joint is loaded, whatever the errors")
        elif not found and not self.contradictions:
            lines.append("  it fits: no joint is loaded")
        units = dict(zip(map(str, data["component"].values), map(str, data["component_units"].values), strict=True))
        for name, value, t in found[:8]:
            std = f" (standard deviation {float(data['std'].sel(component=name).max()):.3g})" if "std" in data else ""
            when = f", largest at t = {t:.4g} s" if data.sizes["time"] > 1 else ""
            part = data["by_dimension"].sel(component=name)
            most = str(data["dimension"].values[int(np.nanargmax(np.max(np.abs(part.values), axis=0)))])
            joint, label = (str(part[f"component_{x}"].values) for x in ("joint", "label"))
            lines.append(f"  {word} {label} of {joint} {value:.4g} {units[name]}{std}, most by {most}{when}")
        if len(found) > 8:
            lines.append(f"  … and {len(found) - 8} more components")
        shifts = data["shift" if "shift" in data else "shift_worst"]
        for name in map(str, data["measurement"].values):
            value = float(np.abs(shifts.sel(measurement=name)).max())
            if np.isnan(value):
                continue
            std = f" (standard deviation {float(data['shift_std'].sel(measurement=name).max()):.3g})" if (
                "shift_std" in data) else ""  # fmt: skip
            lines.append(f"  {name} is off by up to {value:.4g}{std}")
        if self.harmless and self.redundancy:
            few = ", ".join(self.harmless[:8]) + (
                f" and {len(self.harmless) - 8} more" if len(self.harmless) > 8 else ""
            )
            lines.append(f"  load no joint: {few}")
        lines += [f"  {x}" for x in self.releases]
        return "\n".join(lines)

    __repr__ = __str__


def assembly(
    model: Model | AbstractSystem | Solution,
    *,
    errors: Mapping[str, Any] | None = None,
    tolerances: Mapping[str, Any] | None = None,
    stiffness: Any = None,
    bodies: Mapping[str, AbstractFlexibility] | None = None,
    length: float | None = None,
    measurements: Sequence[str] | None = None,
    hold: Sequence[str] = (),
    state: State | tuple | None = None,
    t: float = 0.0,
    instants: int = INSTANTS,
) -> Assembly:
    """Which dimension that is off loads which joint by how much.

    **Arguments**

    - `model`: a model or a system (at `state`, default its start, and at `t`), or a `Solution`: over its motion, at
      `instants` of it, with the contacts that are closed then.
    - `errors`: {"hinge2.point_j": (0, 0, 1e-4)} or by number {"hinge2.point_j.z": 1e-4}: how far dimensions are off, in
      the units of `system.parameters()`; of a frame in space three small turns (rx, ry, rz) about its own axes.
    - `tolerances`: {"hinge2.point_j": 1e-4}: limits of independent errors, for the worst case and the variance (of
      errors uniform within them); one number holds for each part.
    - `stiffness`, `bodies`, `length`: as of `reactions.Weighted`, but with true values: newton per metre (a number k is
      k for forces and k `length`² for torques), `Bar`, `Beam`, `Compliance` of bodies. Joints not named are rigid.
    - `measurements`: measured positions and joint coordinates whose shift is wanted (default: all measured positions);
      a machine that can move is moved least, in the mass metric, or with the coordinates in `hold` as they were.

    **Returns** an `Assembly`. Linear in the errors; loads of the motion and friction come besides.

        >>> import dalembert as da
        >>> door = da.mechanism("door-two-hinges")
        >>> found = da.assembly(door, errors={"bottom.point_j.z": 1e-4}, stiffness=1e7)
        >>> float(found.load("top").sel(component="Fz")[0])  # two springs of 1e7 N/m in a row, 0.1 mm apart
        500.0...
    """
    if (errors is None) == (tolerances is None):
        raise DalembertError("Give assembly either errors= (how far dimensions are off) or tolerances= (limits).")
    if stiffness is None and not bodies:
        raise DalembertError(
            "assembly needs true stiffness, stiffness={'*': 1e7} (newton per metre of every joint) or bodies= with "
            "Beam, Bar or Compliance: between rigid parts a misfit has no size."
        )
    times, moments = _moments(model, state, t, instants)
    system = model.system if isinstance(model, Solution) else moments[0][0]
    machine = system.machine
    if machine.bodies is None:
        raise DalembertError("A FunctionSystem has no joints and dimensions; assembly needs a model of bodies.")
    given, what = (errors, "errors") if tolerances is None else (tolerances, "tolerances")
    chosen = numbers_of(machine, given or {}, what)
    dimensions, sizes = [d for d, _ in chosen.values()], np.array([x for _, x in chosen.values()])
    rule = Weighted(stiffness, None if bodies is None else dict(bodies), length)
    rule.check(machine)
    outputs, held = _outputs(machine, measurements, hold)
    fitted: dict[int, _Fitted] = {}
    for plain, picks in _alike(moments):
        lifted = [jax.device_get(plain.lift(*(np.asarray(x) for x in moments[k][1]))) for k in picks]
        q, v = (np.stack(x) for x in zip(*lifted, strict=True))
        seen = sensitivities(plain.machine, dimensions, times[picks], q, v, (*outputs, *held))
        for n, (k, at) in enumerate(zip(picks, lifted, strict=True)):
            instant = Instant(plain.machine, float(times[k]), State(*at))
            fitted[k] = _Fitted(instant, rule, n, seen, len(outputs), sizes)
    found = [fitted[k] for k in range(len(times))]
    return _answer(system, times, found, dimensions, sizes, errors is not None, outputs)


def _moments(model, state, t: float, instants: int) -> tuple[np.ndarray, list[tuple[AbstractSystem, State]]]:
    """Times, and at each the machine and its state: of a motion the plain machine that moves then, in which contacts
    that are open bear nothing."""
    if isinstance(model, Solution):
        picks = np.unique(np.linspace(0, len(model.t) - 1, max(1, instants)).astype(int))
        return np.asarray(model.t)[picks], [
            (model.results.system_at(int(k)), State(model.q[k], model.v[k])) for k in picks
        ]
    system = build(model) if isinstance(model, Model) else model
    q, v = (None, None) if state is None else state
    found = assembled(system, q, v, t=t).state
    # of a start that its rows stop only rounding is left, which is no velocity
    given, moving = (
        np.abs(np.asarray(x)) / np.asarray(system.scale()) for x in (system.v0 if v is None else v, found.v)
    )
    still = moving <= STILL * np.max(given, initial=0.0)
    return np.array([t], float), [(system, State(found.q, np.where(still, 0.0, np.asarray(found.v))))]


def _alike(moments: Sequence[tuple[AbstractSystem, State]]) -> list[tuple[AbstractSystem, list[int]]]:
    """Each different machine with the numbers of its moments."""
    out: dict[int, tuple[AbstractSystem, list[int]]] = {}
    for k, (system, _) in enumerate(moments):
        out.setdefault(id(system), (system, []))[1].append(k)
    return list(out.values())


def _outputs(machine: AbstractSystem, measurements, hold) -> tuple[list[int], list[int]]:
    """Numbers of the measured positions, and of those that are held."""
    if measurements is None:
        outputs = [k for k in range(len(machine.channels)) if machine.is_position(k)]
    else:
        outputs = [k for name in measurements for k in machine.channels_named(name)]
    held = [k for name in ([hold] if isinstance(hold, str) else hold) for k in machine.channels_named(name)]
    for k in (*outputs, *held):
        if not machine.is_position(k):
            raise DalembertError(f"'{machine.channel(k).name}' is not a position; assembly tells how positions shift.")
    return outputs, held


class _Part(NamedTuple):
    name: str
    label: str
    row: np.ndarray
    unit: float  # over it the component is a force


class _Fitted:
    """One instant: pre-loads and shifts by each dimension, per unit."""

    def __init__(self, instant: Instant, rule: Weighted, k: int, seen: Sensitivities, outputs: int, sizes: np.ndarray):
        self.instant, machine = instant, instant.machine
        h = machine.m_holonomic
        e, d = instant.equations, instant.dependence
        held = d if h == machine.m else e.dependence(slice(0, h), instant.tolerance)
        self.joints: list[JointRows] = instant.joints
        self.parts = [
            _Part(j.name, j.labels[i], _spread(j, i, machine.m), float(j.units[i]))
            for j in self.joints
            for i in range(len(j.labels))
            if j.transmitted[i]
        ]
        self.forces = np.array([p.row * p.unit for p in self.parts]).reshape(len(self.parts), machine.m)
        null = np.zeros((machine.m, held.redundancy))
        null[:h] = held.null / held.sizes[:, None]
        # orthonormal in the forces that they are: nothing depends on units
        _, s, Vt = np.linalg.svd(self.forces @ null, full_matrices=False)
        nonzero = s > ZERO * s[0] if s.size and s[0] > 0 else np.zeros(len(s), bool)
        self.N = null @ (Vt[nonzero].T / s[nonzero])
        self.misfit = np.zeros((machine.m, len(sizes)))
        self.misfit[:h] = seen.Phi_p[k]
        self.A = rule.compliance_at(machine, e)
        self.lam, self.lost = self._loads(self.N)
        self.by_dimension = self.forces @ self.lam
        self.slipping = self._slip(seen.phi_p[k] * sizes)
        self.shift = self._shift(held, h, seen, k, outputs)

    @property
    def redundancy(self) -> int:
        return self.N.shape[1]

    def _loads(self, N: np.ndarray) -> tuple[np.ndarray, dict[int, tuple[str, ...]]]:
        """λ by each dimension per unit (m × k), and for those that nothing elastic takes up the joints between."""
        gap = N.T @ self.misfit
        if not N.shape[1]:
            return np.zeros(self.misfit.shape), {}
        values, vectors = np.linalg.eigh(N.T @ self.A @ N)
        soft = values > RIGID * max(float(values[-1]), np.finfo(float).tiny)
        lam = -N @ vectors[:, soft] @ ((vectors[:, soft].T @ gap) / values[soft, None])
        stiff = vectors[:, ~soft]
        left, size = np.abs(stiff.T @ gap), np.abs(N.T) @ np.abs(self.misfit)
        lost = {}
        for k in np.flatnonzero(np.max(left, axis=0, initial=0.0) > FITS * np.max(size, axis=0)):
            along = np.abs(self.forces @ (N @ (stiff @ (stiff.T @ gap[:, k]))))
            names = dict.fromkeys(p.name for p, x in zip(self.parts, along, strict=True) if x > 0.1 * along.max())
            lost[int(k)] = tuple(names)
        small = np.abs(gap) <= FITS * size  # rounding is no misfit
        lam[:, np.all(small, axis=0)] = 0.0
        return lam, lost

    def _slip(self, rates: np.ndarray) -> dict[int, tuple[float, tuple[str, ...]]]:
        """Rows on velocities that contradict each other with the errors: how fast, and whose."""
        d, h = self.instant.dependence, self.instant.machine.m_holonomic
        if not rates.size or not np.any(rates) or not d.redundancy:
            return {}
        wrong = np.zeros((len(d.sizes), rates.shape[1]))
        wrong[h:] = rates
        left = d.null @ (d.null.T @ (wrong / d.sizes[:, None])) * d.sizes[:, None]
        out = {}
        for k in np.flatnonzero(np.max(np.abs(left), axis=0) > FITS * np.max(np.abs(wrong), axis=0)):
            share = np.abs(left[:, k])
            names = [o.name for o in self.instant.machine.owners if np.max(share[list(o.rows)]) > 0.1 * share.max()]
            out[int(k)] = float(share.max()), tuple(names)
        return out

    def _shift(self, held, h: int, seen: Sensitivities, k: int, outputs: int) -> np.ndarray:
        """What is measured moves: outputs × dimensions, per unit."""
        if not outputs:
            return np.zeros((0, self.misfit.shape[1]))
        y_q, y_p = seen.y_q[k], seen.y_p[k]
        # unit rows in the mass metric: δ = L⁻ᵀ x, C δ = −(e + A λ), and what is held stays
        blocks = held.L
        n = blocks.shape[0] * blocks.shape[1]
        inverse = np.zeros((n, n))
        width = blocks.shape[1]
        for b, L in enumerate(blocks):
            inverse[b * width : (b + 1) * width, b * width : (b + 1) * width] = np.linalg.inv(L).T
        rows = [held.rows, y_q[outputs:] @ inverse]
        right = [-(self.misfit + self.A @ self.lam)[:h] / held.sizes[:, None], -y_p[outputs:]]
        size = np.linalg.norm(rows[1], axis=1)
        scale = np.where(size > 0, size, 1.0)[:, None]
        R, b = np.vstack([rows[0], rows[1] / scale]), np.vstack([right[0], right[1] / scale])
        x = np.linalg.lstsq(R, b, rcond=RANK_TOLERANCE)[0]
        left = b - R @ x
        if len(rows[1]) and np.max(np.abs(left[h:]), initial=0.0) > 1e-6 * np.max(np.abs(b), initial=0.0):
            raise DalembertError("hold: these coordinates cannot all be held; drivers and joints move them already.")
        return y_q[:outputs] @ inverse @ x + y_p[:outputs]

    def released(self, release: Release, sizes: np.ndarray) -> np.ndarray:
        """The pre-loads in forces by each dimension with some directions of a joint freed."""
        j = next(x for x in self.joints if x.name == release.joint)
        along = np.linalg.solve(np.array([d.rows for d in j.directions]).T, self.N[list(j.rows)])
        freed = along[[k for k, d in enumerate(j.directions) if d.name in release.directions]]
        _, s, Vt = np.linalg.svd(freed)
        rank = int(np.sum(s > ZERO * s[0])) if s.size and s[0] > 0 else 0
        return self.forces @ self._loads(self.N @ Vt[rank:].T)[0] * sizes


def _spread(j: JointRows, i: int, m: int) -> np.ndarray:
    out = np.zeros(m)
    out[list(j.rows)] = j.functionals[i]
    return out


def _answer(
    system: AbstractSystem,
    times: np.ndarray,
    fitted: list[_Fitted],
    dimensions: list[Dimension],
    sizes: np.ndarray,
    as_errors: bool,
    outputs: list[int],
) -> Assembly:
    import xarray as xr

    names = [d.name for d in dimensions]
    units = {(p.name, p.label): p.unit for x in fitted for p in x.parts}
    components, lengths = list(units), np.array(list(units.values()))
    loads = np.zeros((len(times), len(names), len(components)))
    for k, x in enumerate(fitted):
        where = [components.index((p.name, p.label)) for p in x.parts]
        loads[k][:, where] = (x.by_dimension / np.array([p.unit for p in x.parts])[:, None] * sizes).T
        for lost in (*x.lost, *x.slipping):
            loads[k, lost] = np.nan
    force = np.abs(loads) * lengths
    rounding = ROUNDING * float(np.nanmax(force, initial=0.0))
    loads, force = (np.where(force <= rounding, 0.0, x) for x in (loads, force))
    shifts = np.stack([(x.shift * sizes).T for x in fitted])
    for k, x in enumerate(fitted):  # what cannot be put together stands nowhere
        shifts[k, list(x.lost)] = np.nan
    channels = [system.machine.channel(k) for k in outputs]
    coords: dict[str, Any] = {
        "time": ("time", times, {"units": "s"}),
        "dimension": names,
        "component": [f"{joint}:{label}" for joint, label in components],
        "component_joint": ("component", [joint for joint, _ in components]),
        "component_label": ("component", [label for _, label in components]),
        "measurement": [c.name for c in channels],
        "error" if as_errors else "tolerance": ("dimension", sizes),
        "component_units": ("component", [UNITS.get(label, "") for _, label in components]),
        "force_size": ("component", lengths),
        "measurement_units": ("measurement", [c.unit for c in channels]),
    }
    data: dict[str, Any] = {
        "by_dimension": (("time", "dimension", "component"), loads),
        "shift_by_dimension": (("time", "dimension", "measurement"), shifts),
    }
    for name, values, last in (("load", loads, "component"), ("shift", shifts, "measurement")):
        if as_errors:
            data[name] = (("time", last), values.sum(axis=1))
        else:
            worst, std = ("worst", "std") if name == "load" else ("shift_worst", "shift_std")
            data[worst] = (("time", last), np.abs(values).sum(axis=1))
            data[std] = (("time", last), UNIFORM * np.sqrt(np.sum(values**2, axis=1)))
    largest = np.nan_to_num(force, nan=np.inf).max(axis=(0, 2), initial=0.0)
    top = float(np.max(largest[np.isfinite(largest)], initial=0.0))
    harmless = tuple(n for n, x in zip(names, largest, strict=True) if x <= FITS * top)
    attrs = {"model": system.name, "axes": "joint"}
    return Assembly(
        dataset=xr.Dataset(data, coords=coords, attrs=attrs),
        harmless=harmless,
        releases=_releases(fitted, sizes, force) if top > 0 else (),
        contradictions=_contradictions(fitted, times, names, sizes),
        redundancy=max(x.redundancy for x in fitted),
        name=system.name,
        system=system,
    )


def _releases(fitted: list[_Fitted], sizes: np.ndarray, force: np.ndarray) -> tuple[ReleaseEffect, ...]:
    """What `check` suggests, each by itself, at the instant of the largest load."""
    k = int(np.argmax(np.nan_to_num(force).sum(axis=1).max(axis=1)))
    at = fitted[k]
    elsewhere = [Solver(x.joints, x.instant.dependence) for x in (fitted[0], fitted[-1]) if x is not at]
    found = Solver(at.joints, at.instant.dependence).releases(elsewhere)
    whole = np.abs(at.by_dimension * sizes).sum(axis=1).max()
    return tuple(ReleaseEffect(r, float(np.abs(at.released(r, sizes)).sum(axis=1).max() / whole)) for r in found)


def _contradictions(fitted: list[_Fitted], times, names: list[str], sizes: np.ndarray) -> tuple[str, ...]:
    """Gaps that no elasticity closes, in words, with the first time."""
    out: dict[str, str] = {}
    for x, t in zip(fitted, times, strict=True):
        when = f" (at t = {float(t):.4g} s)" if len(times) > 1 else ""
        for k, joints in x.lost.items():
            text = (
                f"{names[k]} = {sizes[k]:.4g} leaves a gap between {', '.join(joints)}, which are rigid along it: no "
                f"elasticity closes it{when}; give one of them a stiffness"
            )
            out.setdefault(f"{names[k]} gap", text)
        for k, (speed, joints) in x.slipping.items():
            text = (
                f"{names[k]} = {sizes[k]:.4g} makes velocities of {', '.join(joints)} contradict each other: they slip "
                f"at {speed:.3g}{when}, and no elasticity closes that"
            )
            out.setdefault(f"{names[k]} slip", text)
    return tuple(out.values())


def _table(values) -> list:
    return [[_plain(x) for x in row] if np.ndim(row) == 1 else _table(row) for row in np.asarray(values)]


def _plain(x) -> float | None:
    return float(x) if np.isfinite(x) else None
