"""7 · analysis: `sweep_pose`: poses over a grid of coordinates: what is reachable, how well, and which reactions are
unique where.

The map is filled from the start outward: a grid point is reached from a neighbour that has a pose, in steps short
enough to stay on the same sheet (assembly). Where no neighbour leads to, other starts are tried; a pose that they find
begins another sheet.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import is_traced
from dalembert.analysis._assemblies import places_of, unwound
from dalembert.analysis._everywhere import EverywhereRelease, ranges_at, release_everywhere
from dalembert.analysis._labels import labelled_poses
from dalembert.analysis._pose import Posing, refuse_size, released_rows
from dalembert.analysis._search import Goal, rows_at, search_to_all
from dalembert.analysis._targets import asked_for, target_named
from dalembert.equations import assemble_known
from dalembert.linalg import unit_rows
from dalembert.model import Model
from dalembert.reactions import LABELS, Instant, Known
from dalembert.stabilise import EXACT
from dalembert.systems import AbstractSystem, State, build, compiled_for_each, in_double, require_float64

if TYPE_CHECKING:
    import xarray as xr

MOST = 200_000
"""Grid points of one sweep."""
SPREAD = 0.35
"""Largest distance between the poses of two steps, in machine sizes or as rotation matrices, for them to belong to one
sheet."""
STEPS = (1, 4, 16)
"""Steps in which a neighbouring grid point is reached: more if fewer leave the sheet."""
GAP = 3e-5
"""Singular values below this share of the largest count as zero: at a singular pose a gap of e moves it by √e."""
ELSEWHERE, STARTS = 60, 6
"""Grid points without a pose from which another sheet is searched for, and starts for each."""


@dataclass(frozen=True)
class Sweep:
    """Poses over a grid: `dataset`, with a dimension for each swept coordinate, and a picture of it, `plot()`.

    The dataset has, for each grid point, `reachable`, the number of its `sheet` (−1: not reachable), the places of the
    bodies, the joint coordinates and the measured positions; `mobility`, the freedoms that are left with the swept
    values held; `rank` and `redundancy` of the constraints; `conditioning`, the weakest singular value of the
    constraints and the swept coordinates over the largest (unit rows, in the mass metric): 0 where these coordinates do
    not decide the motion (a dead point); and for each joint, along its own axes, whether the rigid-body model
    determines the components of its reaction there (`unique_force`, `unique_torque`). `margin` is the weakest singular
    value of the constraints alone over the largest, how far a pose is from a singular one. With `ranges`, of the
    machine at rest: `range_lower` and `range_upper` of each component, `range_width`, the largest width of a joint as a
    force, and `possible`. `release` is what to free so that every reaction is unique wherever the machine was examined.
    """

    dataset: xr.Dataset
    system: AbstractSystem = field(repr=False)
    release: EverywhereRelease | None = None

    def plot(self, what: str = "conditioning", *, path=None):
        """A map (two coordinates) or curves (one) of "conditioning", "reachable", "mobility", "redundancy", "unique",
        "margin", "range_width", "sheet", or of a joint coordinate or a measured position by its name; saved to `path`
        if given."""
        from dalembert.view import plot_sweep

        return plot_sweep(self.dataset, what, path=path)

    def to_netcdf(self, path) -> Path:
        """Write the dataset as netCDF-4."""
        from dalembert.io import write_netcdf

        return write_netcdf(self.dataset, path)

    def as_dict(self) -> dict[str, Any]:
        """The map in a few numbers, ready for JSON."""
        data = self.dataset
        there = data["reachable"].values
        low = data["conditioning"].values[there]
        return {
            "model": self.system.name,
            "grid": {str(n): data[n].values.tolist() for n in data["reachable"].dims},
            "points": int(there.size),
            "reachable": int(there.sum()),
            "sheets": int(data["sheet"].max()) + 1,
            "conditioning": [float(low.min()), float(low.max())] if low.size else [],
            "margin": [float(f(data["margin"].values[there])) for f in (np.min, np.max)] if low.size else [],
            "measurements": self._measured(there),
            "release": None if self.release is None else [str(x) for x in self.release.releases],
            **{n: sorted({int(x) for x in data[n].values[there]}) for n in ("mobility", "rank", "redundancy")},
        }

    def _measured(self, there: np.ndarray) -> dict[str, list[float]]:
        """The least and the greatest of each measured number."""
        if "measurement" not in self.dataset or not there.any():
            return {}
        found, names = self.dataset["measurement"].values[there], self.dataset["channel"].values
        return {str(n): [float(np.min(x)), float(np.max(x))] for n, x in zip(names, found.T, strict=True)}

    def __str__(self) -> str:
        data = self.dataset
        size = " × ".join(f"{n} {name}" for name, n in data["reachable"].sizes.items())
        there = int(data["reachable"].sum())
        lines = [f"Sweep of '{self.system.name}': {size}; {there} of {data['reachable'].size} points are reachable"]
        if there:
            low = data["conditioning"].where(data["reachable"])
            least = low <= low.min() * (1 + 1e-9)  # of points that are alike but for rounding the first
            at = low.isel(least.argmax(...))  # pyright: ignore[reportArgumentType]
            where = ", ".join(f"{name} = {float(at[name]):.4g}" for name in data["reachable"].dims)
            lines.append(f"  conditioning {float(low.min()):.2g} … {float(low.max()):.2g}, least at {where}")
            for name in ("mobility", "redundancy"):
                values = np.unique(data[name].values[data["reachable"].values])
                lines.append(f"  {name} {' … '.join(str(int(x)) for x in values[[0, -1]][: len(values)])}")
            if "possible" in data and not (fine := data["possible"].values[data["reachable"].values]).all():
                lines.append(f"  at {int((~fine).sum())} of these points no reactions respect what is known")
        if self.release is not None:
            lines.append(f"  {self.release}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from dalembert.view import html_words

        return html_words(str(self)) + self.dataset._repr_html_()


def sweep_pose(
    system: AbstractSystem | Model,
    grid: Mapping[str, Any],
    *,
    state: State | tuple | None = None,
    t: float = 0.0,
    release: Sequence[str] | bool = (),
    reactions: bool = True,
    ranges: bool | Known = False,
) -> Sweep:
    """Poses over a grid of coordinates: a map of what a machine can reach, and how well.

    **Arguments**

    - `system`: a system, or a model.
    - `grid`: names and arrays of values, `{"crank.angle": np.linspace(0, 6.28, 91)}`; the names are those of single
      numbers among the targets of `solve_pose` ("tip.x", "elbow.angle", a driver). All combinations are tried.
    - `state`: a rough guess (q, v) of the pose from which the map is filled, which decides the assembly.
    - `t`: the time at which other drivers hold their coordinates; `release` names drivers to leave out (True: all). A
      driver whose coordinate is swept is left out.
    - `reactions`: find out which reactions are unique at every point; False saves that time for redundant machines.

    - `ranges`: True or a `reactions.Known`: the least and greatest possible reactions at every point, of the machine at
      rest (drivers hold it; what is free is let go).

    **Returns** a `Sweep`: its `dataset`, and `plot()`. On the host; inside programs use `solve_pose` under `jax.vmap`.

        >>> import numpy as np, dalembert as da
        >>> sweep = da.sweep_pose(da.mechanism("four-bar"), {"D.angle": np.linspace(-3, 3, 25)})
        >>> print(sweep)
        Sweep of 'four-bar': 25 D.angle; 13 of 25 points are reachable
          conditioning 0.015 … 0.14, least at D.angle = 0
          mobility 0
          redundancy 0
    """
    require_float64()
    system = build(system) if isinstance(system, Model) else system
    if is_traced(system, grid, state, t, jax.lax.neg(np.ones(()))):  # inside a jit all is traced
        raise DalembertError(
            "sweep_pose fills its map on the host and cannot be traced. Under jit and for derivatives map solve_pose "
            "over the values: jax.vmap(lambda x: da.solve_pose(system, {'A.angle': x}).q)(values)."
        )
    refuse_size(system, "sweep_pose")
    names, axes = _axes(system, grid)
    asked = asked_for(system, dict.fromkeys(names, 0.0), None)
    posing = Posing(system, asked, t, released_rows(system, asked, release))
    q = system.q0 if state is None or state[0] is None else in_double(f"q of system '{system.name}'", state[0])
    base = posing.reach(posing.goal(()), np.asarray(q))
    if base is None:
        base = _open_machine(posing, np.asarray(q))
    filled = _Map(posing, axes, base)
    filled.fill()
    data, instants, values = _labelled(posing, names, axes, filled, reactions or bool(ranges), ranges)
    return Sweep(data, system, release_everywhere(instants, values) if reactions else None)


def _axes(system: AbstractSystem, grid: Mapping) -> tuple[list[str], list[np.ndarray]]:
    if not isinstance(grid, Mapping) or not grid:
        raise DalembertError("grid must be a dictionary of names and arrays of values, such as {'A.angle': [0, 0.1]}.")
    names, axes = [], []
    for item, values in grid.items():
        named = target_named(system, item)
        if named.size != 1:
            raise DalembertError(f"'{named.name}' has {named.size} numbers; sweep over its components, one by one.")
        try:
            numbers = np.asarray(values, float)
        except (TypeError, ValueError):
            numbers = np.zeros(0)
        if numbers.ndim != 1 or not numbers.size or not np.all(np.isfinite(numbers)):
            raise DalembertError(f"The values of '{named.name}' must be an array of numbers, not {values!r}.")
        if named.name in names:
            raise DalembertError(f"'{named.name}' is swept twice.")
        names.append(named.name)
        axes.append(numbers)
    count = int(np.prod([len(a) for a in axes]))
    if count > MOST:
        raise DalembertError(f"This grid has {count} points; sweep_pose does up to {MOST}.")
    return names, axes


def _open_machine(posing: Posing, q: np.ndarray) -> np.ndarray:
    """The complaint about joints that cannot be closed."""
    return posing.solve(q, False, True).q  # pyright: ignore[reportReturnType]  # it raises


# ---- filling the map -----------------------------------------------------------------------------------------------


class _Map:
    """Poses of grid points, by their flat number."""

    def __init__(self, posing: Posing, axes: list[np.ndarray], base: np.ndarray):
        self.posing, self.system, self.axes, self.base = posing, posing.system, axes, base
        self.shape = tuple(len(a) for a in axes)
        self.values = np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)
        count = len(self.values)
        self.q = np.full((count, len(base)), np.nan)
        self.sheet = np.full(count, -1)
        self.goal = posing.goal(range(len(axes)))
        self.tried: set[tuple[int, int]] = set()

    def fill(self) -> None:
        start = self._start()
        if start is not None:
            self._spread(start, 0)
        for sheet in itertools.count(1):
            another = self._another()
            if another is None:
                return
            self._spread(another, sheet)

    def _start(self) -> int | None:
        """The grid point nearest to the start's own values that has a pose, which is kept."""
        goal = self.posing.goal(())
        own = np.concatenate([np.ravel(x) for x in self.posing.look(goal, self.base).values])
        scales = self.posing.asked.scales
        order = np.argsort(np.linalg.norm((self.values - own) / scales, axis=1), kind="stable")
        for k in order[: max(8, len(self.axes) * 4)]:
            found, good = self._walk(self.base[None], own[None], self.values[k][None])
            if good[0]:
                self.q[k] = unwound(self.system, found[0], self.base)
                return int(k)
        return None

    def _spread(self, start: int, sheet: int) -> None:
        """Give poses to all grid points that can be reached from one of them."""
        self.sheet[start] = sheet
        fresh: list[int] = [start]
        while True:
            # around what is new; where that leads no farther, once more around all
            pairs = self._pairs(sheet, fresh) or self._pairs(sheet, np.flatnonzero(self.sheet == sheet).tolist())
            if not pairs:
                return
            to, via = (np.array(x) for x in zip(*pairs.items(), strict=True))
            self.tried |= set(zip(to.tolist(), via.tolist(), strict=True))
            found, good = self._walk(self.q[via], self.values[via], self.values[to], self._before(to, via, sheet))
            self.q[to[good]], self.sheet[to[good]] = found[good], sheet
            fresh = to[good].tolist()

    def _pairs(self, sheet: int, points: list[int]) -> dict[int, int]:
        """Grid points without a pose, and for each a neighbour of these that has one and was not tried."""
        out = {}
        for j in points:
            for k in self._neighbours(j):
                if self.sheet[k] < 0 and (k, j) not in self.tried:
                    out.setdefault(k, j)
        return out

    def _neighbours(self, k: int) -> list[int]:
        at = np.unravel_index(k, self.shape)
        out = []
        for axis, length in enumerate(self.shape):
            for step in (-1, 1):
                there = list(at)
                there[axis] += step
                if 0 <= there[axis] < length:
                    out.append(int(np.ravel_multi_index(there, self.shape)))
        return out

    def _before(self, to: np.ndarray, via: np.ndarray, sheet: int) -> np.ndarray:
        """The poses on the other side of the neighbours, where there are: from both a pose is predicted."""
        at, there = (np.array(np.unravel_index(x, self.shape)) for x in (via, to))
        back = 2 * at - there
        inside = np.all((back >= 0) & (back < np.array(self.shape)[:, None]), axis=0)
        number = np.where(inside, np.ravel_multi_index(tuple(np.where(inside, back, 0)), self.shape), 0)
        known = inside & (self.sheet[number] == sheet)
        # a step may be longer than the one before
        ratio = np.ones(len(to))
        for axis, values in enumerate(self.axes):
            new = values[there[axis]] - values[at[axis]]
            old = values[at[axis]] - values[np.where(known, back, at)[axis]]
            ratio = np.where((old != 0) & known, new / np.where(old != 0, old, 1.0), ratio)
        return np.where(known[:, None], self.q[via] - ratio[:, None] * (self.q[via] - self.q[number]), self.q[via])

    def _walk(self, q: np.ndarray, start, end, before=None) -> tuple[np.ndarray, np.ndarray]:
        """From poses at some values to others, and whether each got there without leaving its sheet.

        `before` are poses as far before: each step begins where the last two lead to.
        """
        out, good = q.copy(), np.zeros(len(q), bool)
        before = q if before is None else before
        left = np.arange(len(q))
        for steps in STEPS:
            here, fine = q[left].copy(), np.ones(len(left), bool)
            change = (q - before)[left] / steps
            for k in range(1, steps + 1):
                some = np.flatnonzero(fine)
                if not some.size:
                    break
                wanted = start[left[some]] + (end - start)[left[some]] * (k / steps)
                guess = np.asarray(unit_all(self.system, here[some] + change[some]))
                found = search_to_all(self.system, self.posing.targets, self.goal, self.posing.t, wanted, guess)
                new = np.asarray(found.q)
                far = np.max(np.abs(places_of(self.system, new) - places_of(self.system, here[some])), axis=1)
                off = np.max(np.abs(places_of(self.system, new) - places_of(self.system, guess)), axis=1)
                change[some], here[some] = new - here[some], new
                fine[some] = (np.asarray(found.gap) < EXACT) & (np.minimum(far, 2 * off) < SPREAD)
            out[left[fine]], good[left[fine]] = here[fine], True
            left = left[~fine]
            if not left.size:
                break
        return out, good

    def _another(self) -> int | None:
        """A grid point without a pose that other starts give one."""
        missing = np.flatnonzero(self.sheet < 0)
        if not missing.size:
            return None
        picks = missing[np.unique(np.linspace(0, len(missing) - 1, ELSEWHERE).astype(int))]
        for k in picks:
            if (k, -1) in self.tried:
                continue
            self.tried.add((int(k), -1))
            goal = self.goal._replace(wanted=tuple(self.values[k][:, None]))
            closed = self.posing.tries(goal).closed(STARTS)
            if len(closed):
                self.q[k] = unwound(self.system, closed[0], self.base)
                return int(k)
        return None


def _unit(system, q):
    return system.retract(q, jnp.zeros(system.n))


unit_all = compiled_for_each(_unit, 1)
"""Coordinates with unit quaternions, at many poses."""


# ---- what is seen at each point ------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    C: Any  # unit rows of the machine, in the mass metric
    G: Any  # and of the swept coordinates


def _seen(system, targets, goal: Goal, t, q) -> _Seen:
    at = assemble_known(system, t, q, jnp.zeros(system.n))
    rows = rows_at(system, targets, goal, t, q)
    return _Seen(unit_rows(at.C, at.mass), unit_rows(rows.A[system.m_holonomic :], at.mass))


_seen_all = compiled_for_each(_seen, 1)


def _labelled(
    posing: Posing, names, axes, filled: _Map, reactions: bool, ranges: bool | Known
) -> tuple[xr.Dataset, list[Instant], np.ndarray]:
    """The dataset; and the redundant poses, with their values of the swept coordinates."""
    import xarray as xr

    system, shape = posing.system, filled.shape
    there = np.flatnonzero(filled.sheet >= 0)
    units = {x.name: x.unit for x in posing.asked.named}
    coords: dict[str, Any] = {n: (n, a, {"units": units[n]}) for n, a in zip(names, axes, strict=True)}
    dims = tuple(names)

    def on_grid(values: np.ndarray, missing):
        whole = np.full((len(filled.values), *values.shape[1:]), missing, values.dtype)
        whole[there] = values
        return whole.reshape(*shape, *values.shape[1:])

    data: dict[str, Any] = {"reachable": (dims, (filled.sheet >= 0).reshape(shape))}
    text = {"long_name": "which of the assemblies the pose belongs to; −1: none"}
    data["sheet"] = (dims, filled.sheet.reshape(shape), text)
    numbers = _numbers(posing, filled, there)
    for name, (values, missing, text) in numbers.items():
        data[name] = (dims, on_grid(values, missing), {"long_name": text})
    poses = labelled_poses(system, posing.t, filled.q[there] if len(there) else filled.base[None])
    for name, variable in poses.data_vars.items():
        if "pose" not in variable.dims:
            data[str(name)] = variable
            continue
        values = variable.values if len(there) else np.zeros((0, *variable.shape[1:]))
        data[str(name)] = ((*dims, *variable.dims[1:]), on_grid(values, np.nan), variable.attrs)
    coords |= {str(k): v for k, v in poses.coords.items() if "pose" not in v.dims}
    instants: list[Instant] = []
    redundant = np.zeros(0, int)
    if reactions and system.bodies is not None and system.bodies.joints:
        redundant = np.flatnonzero(numbers["redundancy"][0] > 0)
        instants = [_at_rest(posing, filled.q[there[i]]) for i in redundant]
        _add_unique(system, instants, redundant, len(there), dims, on_grid, data, coords)
    if ranges and "joint" in coords:
        _add_ranges(posing, filled.q[there], ranges if isinstance(ranges, Known) else Known(), dims, on_grid, data)
    dataset = xr.Dataset(data, coords=coords, attrs=poses.attrs | {"t": float(posing.t)})
    return dataset, instants, filled.values[there[redundant]]


def _at_rest(posing: Posing, q: np.ndarray) -> Instant:
    return Instant.at_rest(posing.system, float(posing.t), q).loaded


def _numbers(posing: Posing, filled: _Map, there: np.ndarray) -> dict[str, tuple[np.ndarray, Any, str]]:
    """Ranks and the conditioning at the points that have a pose."""
    system, count = posing.system, len(there)
    machine = system.machine
    if count:
        seen = _seen_all(system, posing.targets, filled.goal, posing.t, filled.q[there])
        C, G = (np.asarray(x) for x in seen)
    else:
        C, G = np.zeros((0, system.m, system.n)), np.zeros((0, len(filled.axes), system.n))
    kept = np.ones(system.m)
    kept[posing.released] = 0.0
    own, held = _ranks(C), np.concatenate([C * kept[:, None], G], axis=1)
    values = np.linalg.svd(held, compute_uv=False) if held.size else np.zeros((count, 0))
    whole = _count(values)
    generic = int(np.max(whole, initial=0))
    weakest = values[:, generic - 1] / values[:, 0] if generic else np.ones(count)
    redundancy = machine.m - (machine.n - (system.n - own))
    alone = np.linalg.svd(C, compute_uv=False) if C.size else np.zeros((count, 0))
    most = int(np.max(own, initial=0))
    margin = alone[:, most - 1] / alone[:, 0] if most else np.ones(count)
    return {
        "mobility": (system.n - whole, -1, "freedoms that are left with the swept values held"),
        "rank": (machine.n - (system.n - own), -1, "rank of the constraints"),
        "redundancy": (redundancy, -1, "constraint rows that depend on others"),
        "margin": (margin, np.nan, "weakest singular value of the constraints over the largest; 0 at a singular pose"),
        "conditioning": (
            weakest,
            np.nan,
            "weakest singular value of constraints and swept coordinates over the largest; 0 at a dead point",
        ),
    }


def _ranks(rows: np.ndarray) -> np.ndarray:
    return _count(np.linalg.svd(rows, compute_uv=False)) if rows.size else np.zeros(len(rows), int)


def _count(values: np.ndarray) -> np.ndarray:
    if not values.size:
        return np.zeros(len(values), int)
    return np.sum(values > GAP * np.maximum(values[:, :1], 1e-300), axis=1)


def _add_unique(
    system, instants: list[Instant], redundant: np.ndarray, count: int, dims, on_grid, data, coords
) -> None:
    """Which components of each joint's reaction are unique at each point, along the joint's axes."""
    bodies = system.bodies
    assert bodies is not None
    d, joints = bodies.kinematics.d, bodies.joints
    sure = np.ones((count, len(joints), bodies.dv), bool)
    for i, instant in zip(redundant, instants, strict=True):
        sure[i] = [instant.uniqueness.mask(j.name) for j in joints]
    coords["joint"] = [j.name for j in joints]
    text = {"long_name": "whether the rigid-body model determines it, along the joint's axes; False where no pose is"}
    data["unique_force"] = ((*dims, "joint", "axis"), on_grid(sure[..., :d], False), text)
    torque = sure[..., d:] if d == 3 else sure[..., d]
    data["unique_torque"] = ((*dims, "joint", *(("axis",) if d == 3 else ())), on_grid(torque, False), text)


def _add_ranges(posing: Posing, q: np.ndarray, known: Known, dims, on_grid, data) -> None:
    """The ends of all possible reactions at each point."""
    bodies = posing.system.bodies
    assert bodies is not None
    names = [j.name for j in bodies.joints]
    found = ranges_at([_at_rest(posing, x) for x in q], known, names, bodies.dv)
    for end in ("lower", "upper"):
        text = {"long_name": f"{end} end of the possible reaction at rest, along the joint's axes"}
        data[f"range_{end}"] = ((*dims, "joint", "reaction"), on_grid(found[end], np.nan), text)
    data["reaction"] = ("reaction", list(LABELS[bodies.dv]))
    text = {"long_name": "largest width of the possible reactions of a joint, as a force", "units": "N"}
    data["range_width"] = ((*dims, "joint"), on_grid(found["width"], np.nan), text)
    text = {"long_name": "whether any reactions respect what is known"}
    data["possible"] = (dims, on_grid(found["possible"], False), text)
