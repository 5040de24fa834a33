"""6b· results: the reactions of a joint over time, and warnings about those that cannot be relied on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dalembert._results import (
    DalembertError,
    RedundancyWarning,
    SingularWarning,
    SlackBeltWarning,
    did_you_mean,
    warn_caller,
)
from dalembert.reactions import LABELS, RequireUnique
from dalembert.simulation import owners_of
from dalembert.systems import AbstractSystem, BodySystem

if TYPE_CHECKING:
    import xarray as xr

    from dalembert.results._results import Results

BAND_INSTANTS = 41
"""Instants at which the range of non-unique reactions is computed; linear between them."""
FRAMES = ("world", "joint")


def reactions(results: Results, joint: str, frame: str) -> xr.Dataset:
    """Force and torque of a joint, and which of their components are unique (`Solution.reactions`)."""
    need_frame(frame)
    sure = results.unique(joint, frame=frame)
    if not sure.all():
        _refuse(results, joint, frame, sure)
        warn_redundant(results)
    _warn_doubtful(results)
    picked = unique_words(results.dataset, joint) if sure.all() else results.rule.describe(results.machine)
    return of_joint(results.dataset, joint, frame, picked)


def need_frame(frame: str) -> None:
    """Refuse a frame that is not known."""
    if frame not in FRAMES:
        raise DalembertError(f"frame={frame!r} is unknown; use 'world' or 'joint'.")


def unique_words(dataset: xr.Dataset, joint: str | None = None) -> str:
    """That reactions (or those of one joint) are unique, and when they are not determined."""
    from dalembert.view import when, windows  # pictures are loaded by who asks for words about them

    found = [w for w in windows(dataset, joint) if w.joints]
    return f"unique, but not determined at {when(found)}" if found else "unique"


def of_joint(dataset: xr.Dataset, joint: str, frame: str, rule: str) -> xr.Dataset:
    """The reaction of one joint, out of the labelled data of a motion."""
    suffix = "" if frame == "world" else "_in_joint"
    names = {f"reaction_{x}{suffix}": x for x in ("force", "torque")}
    names |= {f"unique_{x}{suffix}": f"unique_{x}" for x in ("force", "torque")}
    found = dataset.sel(joint=joint)[list(names)].rename(names)
    return found.assign_attrs(rule=rule, frame=frame, joint=joint)


def need_joint(system: AbstractSystem, joint: str) -> BodySystem:
    """The bodies of a system that has this joint; a message if there is none of that name."""
    bodies = system.bodies
    if bodies is None:
        raise DalembertError("A FunctionSystem has no joint frames; use solution.multipliers (rows named by owners).")
    names = [o.name for o in system.machine.owners]
    if joint in names:
        return bodies
    force = next((f for f in bodies.forces if joint in f.names), None)
    if force is not None:
        raise DalembertError(
            f"'{joint}' is a force ({force.label}), not a joint: it holds by its own law, so it has no "
            "reaction. Evaluate that law at the solution's q and v."
        )
    known = f"the joints are {', '.join(names)}" if names else "this model has no joints"
    raise DalembertError(f"There is no joint '{joint}'; {known}.{did_you_mean(joint, names)}")


def _refuse(results: Results, joint: str, frame: str, sure: np.ndarray) -> None:
    if isinstance(results.solution.chosen, RequireUnique):
        open_ = ", ".join(x for x, good in zip(LABELS[len(sure)], sure, strict=True) if not good)
        raise DalembertError(
            f"The rigid-body model does not determine {open_} of '{joint}' (along the {frame} axes): "
            f"{results.redundancy} constraint row(s) are redundant. Name a rule that picks them, such as Weighted."
        )


def band(results: Results, joint: str, frame: str) -> dict[str, np.ndarray] | None:
    """For each component of a joint's reaction half the width of its undetermined range (`Uniqueness.width`)."""
    if frame not in FRAMES or results.unique(joint, frame=frame).all():
        return None
    t, lam = np.asarray(results.solution.t), np.asarray(results.observed.lam)
    picks = np.unique(np.linspace(0, len(t) - 1, min(len(t), BAND_INSTANTS)).astype(int))
    table = np.array([results.instant(int(k), loaded=True).uniqueness.width(joint, lam[k], frame) for k in picks])
    labels = LABELS.get(table.shape[1], ())
    return {x: np.interp(t, t[picks], table[:, k]) for k, x in enumerate(labels)}


# ---- warnings ----------------------------------------------------------------------------------------------------


def warn_redundant(results: Results) -> None:
    """Warn that a rule picked some of the values."""
    if results.redundancy > 0:
        warn_caller(
            f"'{results.system.name}' has {results.redundancy} redundant constraint row(s): the rigid-body model "
            f"does not determine all reactions. Values picked by: {results.rule.describe(results.machine)}.",
            RedundancyWarning,
        )


def _warn_doubtful(results: Results) -> None:
    """Once per motion: the times at which reactions are not reliable, and whose rows are the reason."""
    times = np.asarray(results.solution.t)[results.instants.marked]
    stats = results.solution.stats
    if len(times) and not stats.get("doubt_said"):
        stats["doubt_said"] = True
        warn_caller(f"'{results.system.name}': {_doubt(results, times)}", SingularWarning)


def _doubt(results: Results, times: np.ndarray) -> str:
    first = int(np.flatnonzero(results.instants.marked)[0])
    weak = np.linalg.svd(results.instant(first).dependence.rows)[0][:, : results.rank][:, -1:]
    names = ", ".join(f"'{x}'" for x in owners_of(results.system, weak))
    span = (
        f"t = {times[0]:.6g} s"
        if len(times) == 1
        else f"{len(times)} saved times, t = {times[0]:.6g} … {times[-1]:.6g} s"
    )
    return (
        f"at {span} the rows of {names} are dependent or nearly so (a singular position, or bodies of very unlike "
        "mass); reactions that cannot be believed there are marked in unique_force, unique_torque and digits."
    )


def warn_slack(results: Results) -> None:
    """Belts whose span tensions T₀ ± half of what they transmit would fall below zero."""
    machine = results.system.bodies
    if machine is None:
        return
    for belt, row, tension in machine.pretensions():
        slack = np.flatnonzero(np.abs(results.observed.lam[:, row]) > 2 * tension)
        if len(slack):
            warn_caller(
                f"Belt '{belt}' transmits more than twice its pretension of {tension:g} N, first at "
                f"t = {float(results.solution.t[slack[0]]):g} s: its slack span would be pushed, so in fact it "
                "slips. Give it more pretension.",
                SlackBeltWarning,
            )
