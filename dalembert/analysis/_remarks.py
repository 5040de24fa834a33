"""7 · analysis: what `check` remarks: joints that are nearly redundant, friction that sticks, contacts that slip, and
what is assumed about gears and belts."""

from __future__ import annotations

import numpy as np

from dalembert.linalg import LARGE
from dalembert.reactions import Instant
from dalembert.simulation import shared_efforts, slipping
from dalembert.stabilise import State
from dalembert.systems import AbstractSystem, BodySystem, compiled_quickly

HAIR, APART = 1e-3, 1e-2
"""Rows are nearly redundant if a singular value is below `HAIR` of the largest and `APART` below the one before it: a
long chain has small ones too, but they fall gradually."""


def nearly_redundant(instant: Instant) -> tuple[str, ...]:
    """A message if some rows are barely independent of the others: an axis that is meant to be parallel.

    In lengths and angles, not in the mass metric: there a light body alone makes its rows nearly alike. On bodies: in
    joint coordinates a row that is nearly nothing has no length to be measured by.
    """
    machine = instant.machine
    if machine.m >= LARGE or instant.among_joints.rank < 2:
        return ()
    rank = instant.among_joints.rank
    C = np.asarray(instant.on_bodies.C) * np.asarray(machine.scale())
    length = np.linalg.norm(C, axis=1)
    U, values, _ = np.linalg.svd(C / np.where(length > 0, length, 1.0)[:, None])
    kept = values[:rank] / values[0]
    weak = [k for k in range(1, rank) if kept[k] < HAIR and kept[k] < APART * kept[k - 1]]
    if not weak:
        return ()
    first = weak[0]
    shares = np.max(np.abs(U[:, first:rank]), axis=1)
    rows = np.flatnonzero(shares > 0.2 * np.max(shares))
    names = dict.fromkeys(machine.owner_of(int(row)).name for row in rows)
    count, named = rank - first, ", ".join(repr(n) for n in names)
    what = f"{count} rows are" if count > 1 else "1 row is"
    return (
        f"nearly redundant: {what} independent of the others by a hair only, at {named}: a singular value is "
        f"{kept[first]:.1e} of the largest, and below {instant.tolerance:.0e} it counts as zero. If axes or points "
        "were meant to agree, make them agree to all digits; else these reactions are what so small a difference makes "
        "of them",
    )


def assumptions(machine: BodySystem | None, held: dict[str, bool]) -> tuple[str, ...]:
    """What is assumed about gears, belts and couplings, one sentence each."""
    if machine is None:
        return ()
    loose = "the other joints do not hold the distance of the axes: the radial force is left out"
    found: dict[str, list[str]] = {}
    for f in machine.families:
        sided, several = "side" in f.p, f.group.columns.shape[1] > 2
        for name in f.names:
            if sided and not held.get(name, True):
                found.setdefault(loose, []).append(name)
            elif f.nature.assumption and (sided or several):
                found.setdefault(f.nature.assumption, []).append(name)
    return tuple(f"{', '.join(repr(n) for n in names)}: {words}" for words, names in found.items())


def sticking(system: AbstractSystem, t: float, state: State) -> tuple[str, ...]:
    """What dry friction that sticks means for a machine: whether its efforts are determined when all of it sticks."""
    if not system.sticking:
        return ()
    values = np.asarray(_values(system, *state))
    held = dict(zip(system.sticking, map(float, values), strict=True))
    shared = shared_efforts(system.with_phases(dict.fromkeys(held, 0), held), t, state)
    stuck = [n for n in shared if n in system.sticking]
    sure = [n for n in system.sticking if n not in stuck]
    out = []
    if sure:
        out.append(f"friction {_named(sure)} sticks and slips; while it sticks its effort is unique")
    if stuck:
        others = [n for n in shared if n not in stuck]
        among = f" with {_named(others)}" if others else ""
        out.append(
            f"friction {_named(stuck)} sticks and slips; while all of it sticks the rigid-body model does not "
            f"determine how the effort is shared{among}: it needs a rule, or less friction that sticks"
        )
    return tuple(out)


def slips(system: AbstractSystem, t: float, given: State) -> tuple[str, ...]:
    """Contacts that slip at the given velocities, which are rows here as if they stuck."""
    names = slipping(system, t, given)
    if not names:
        return ()
    return (
        f"contact {_named(list(names))} slips at these velocities and is looked at as if it stuck: what it bears while "
        "it slips is among the reactions of a motion (da.simulate)",
    )


def _named(names: list[str]) -> str:
    return ", ".join(repr(n) for n in names)


@compiled_quickly
def _values(system: AbstractSystem, q, v):
    return system.sticking_values(q)
