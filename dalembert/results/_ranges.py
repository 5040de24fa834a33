"""6b· results: the possible reactions over a motion, and where a support would have to pull."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert._results import DalembertError, LiftOffWarning, warn_caller
from dalembert.reactions import LABELS, UNITS, Known, PossibleSet, one_sided_limits
from dalembert.results._reactions import BAND_INSTANTS, FRAMES, need_joint

if TYPE_CHECKING:
    import xarray as xr

    from dalembert.results._results import Results

NOTHING = Known()
ROWS_SHOWN = 60
"""Rows of a machine up to which all its possible reactions are found for its page."""


def possible_at(results: Results, k: int, known: Known) -> tuple[PossibleSet, np.ndarray] | None:
    """All possible reactions at a saved time, and the multipliers that the rule picked; None at a singular position,
    where the equations do not hold them. Joints that are open then are none of it."""
    key = k, repr(known)
    if key not in results.possible_sets:
        instant = results.instant(k, loaded=True)
        found = None
        if instant.dependence.rank >= results.rank_at(k):
            rows, lam = results.rows_at(k), np.zeros(instant.machine.m)
            lam[rows[rows >= 0]] = np.asarray(results.observed.lam[k], float)[rows >= 0]
            absent = {o.name for o in results.machine.owners} - {o.name for o in instant.machine.owners}
            found = PossibleSet.at(instant, known.without(absent), lam), lam
        results.possible_sets[key] = found
    return results.possible_sets[key]


def ranged(results: Results, joint: str, known: Known | None, frame: str, instants: int | None = None) -> xr.Dataset:
    """The least and the greatest possible value of each component of a joint's reaction (`Solution.range`)."""
    import xarray as xr

    if frame not in FRAMES:
        raise DalembertError(f"frame={frame!r} is unknown; use 'world' or 'joint'.")
    known = NOTHING if known is None else known
    if results.system.bodies is not None:
        need_joint(results.system, joint)
    elif joint not in (names := [o.name for o in results.machine.owners]):
        raise DalembertError(f"There are no rows '{joint}'; the names are {', '.join(names)}.")
    if results.friction_shares_load:
        raise DalembertError("Friction that sticks shares the load with joints here; their ranges are not stated then.")
    t = np.asarray(results.solution.t)
    if instants is not None and not (instants == int(instants) and instants >= 1):
        raise DalembertError(f"instants={instants!r} must be a whole number, 1 at least.")
    count = len(t) if instants is None else min(len(t), int(instants))
    picks = np.unique(np.linspace(0, len(t) - 1, count).astype(int))
    labels: tuple[str, ...] = ()
    tables: dict[str, list] = {"lower": [], "upper": [], "value": []}
    possible, inside, gap = np.zeros(len(picks), bool), np.ones(len(picks), bool), 0.0
    none: dict[str, str] = {}
    left: dict[str, str] = {}
    for i, k in enumerate(picks):
        at = possible_at(results, int(k), known)
        if at is None:
            continue
        there, lam = at
        rows, units = np.zeros((0, len(lam))), np.zeros(0)
        if joint in there.joints:
            rows, units = there.components(joint, frame), there.joints[joint].units
            labels = there.joints[joint].labels
        ends = there.ends(rows, units)
        possible[i], gap = ends.empty is None, max(gap, ends.gap)
        for name, values in (("lower", ends.lower), ("upper", ends.upper), ("value", rows @ lam / there.load * units)):
            small = np.abs(values) <= 1e-11
            tables[name].append((i, np.where(small, 0.0, values) * there.load / units))
        outside = there.violated(lam)
        inside[i] = not outside
        for joints, text in there.sentences(ends.empty) if ends.empty is not None else outside:
            found_in = left if ends.empty is None else none
            found_in.setdefault(joints[0], f"{text}, first at t = {float(t[k]):.6g} s")
    data: dict[str, Any] = {}
    size = len(labels)
    for name, found in tables.items():
        table = np.full((len(picks), size), np.nan)
        for i, values in found:
            table[i] = values if len(values) else 0.0  # an open contact
        data[name] = (("time", "component"), table)
    data["possible"], data["inside"] = ("time", possible), ("time", inside)
    coords = {"time": ("time", t[picks], {"units": "s"}), "component": list(labels)}
    coords["component_units"] = ("component", [UNITS.get(x, "") for x in labels])
    rule = results.rule.describe(results.machine)
    attrs = {"joint": joint, "frame": frame, "rule": rule, "duality_gap": gap}
    attrs |= {"conflicts": "; ".join(none.values()), "rule_leaves": "; ".join(left.values())}
    return xr.Dataset(data, coords=coords, attrs=attrs)


def bands(results: Results, joint: str, known: Known | None, frame: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each component both ends over the motion, at a number of instants and linear between them."""
    t = np.asarray(results.solution.t)
    found = ranged(results, joint, known, frame, BAND_INSTANTS)
    at = found["time"].values

    def between(values: np.ndarray) -> np.ndarray:
        good = ~np.isnan(values)
        return np.interp(t, at[good], values[good]) if good.any() else np.full(len(t), np.nan)

    return {
        str(x): (between(found["lower"].values[:, k]), between(found["upper"].values[:, k]))
        for k, x in enumerate(found["component"].values)
    }


def all_bands(results: Results, known: Known | None) -> dict[str, Any]:
    """Both ends of the components of all joints over the motion, for the dataset; nothing where no limits are known,
    where all is unique, and for machines of so many rows that it would take long."""
    data, labels = results.dataset, LABELS[6]
    wanted = results.redundancy and is_limited(results, known) and "joint" in data.coords
    if not wanted or results.friction_shares_load or results.machine.m > ROWS_SHOWN:
        return {}
    joints = [str(x) for x in data["joint"].values]
    table = np.full((2, data.sizes["time"], len(joints), len(labels)), np.nan)
    for k, joint in enumerate(joints):
        if not results.unique(joint).all():
            for label, ends in bands(results, joint, known, "joint").items():
                table[:, :, k, labels.index(label)] = ends
    if np.isnan(table).all():
        return {}
    along, text = ("time", "joint", "reaction"), "possible value of the component along the joint's axes"
    return {
        f"possible_{end}": (along, values, {"long_name": f"{word} {text}"})
        for end, word, values in zip(("lower", "upper"), ("least", "greatest"), table, strict=True)
    } | {"reaction": list(labels)}


def is_limited(results: Results, known: Known | None) -> bool:
    """Whether anything limits the reactions."""
    return bool(known) or bool(one_sided_limits(results.machine))


def lifts(results: Results, known: Known | None = None) -> tuple[str, ...]:
    """Where over the motion supports cannot carry the load, in words, each with the first time."""
    known = NOTHING if known is None else known
    if not is_limited(results, known):
        return ()
    t, lam = np.asarray(results.solution.t), np.asarray(results.observed.lam)
    times = range(len(t))
    if not known:  # multipliers of a rule that satisfy all limits prove that some do
        limits = one_sided_limits(results.machine)
        left = [lam @ x.rows[0] - np.linalg.norm(lam @ x.rows[1:].T, axis=1) for x in limits]
        times = np.flatnonzero(np.min(left, axis=0) < 0)
    worst: dict[str, tuple[float, str]] = {}
    for k in times:
        at = possible_at(results, int(k), known)
        for joints, text in at[0].empty() if at is not None else ():
            worst.setdefault(joints[0], (float(t[k]), text))
    return tuple(f"{text}, first at t = {at:.6g} s" for at, text in sorted(worst.values()))


def warn_lifts(results: Results) -> None:
    """Once per motion: supports that would have to do what they cannot."""
    stats = results.solution.stats
    if not stats.get("lifts_said") and (found := results.lifts):
        stats["lifts_said"] = True
        warn_caller(
            f"'{results.system.name}': {'; '.join(found)}. The motion holds it closed all the same.", LiftOffWarning
        )
