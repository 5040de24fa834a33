"""2 · systems: constraints that are switched on and off. Switches are numbers, so no size ever changes.

A switchable family has `active` (0 or 1 for each row) and `held_at` (what each holonomic row is held at) among its
parameters: Φ becomes active · (Φ − held_at). A row that is off is zero at all levels and has no reaction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import is_traced
from dalembert.systems._base import AbstractSystem
from dalembert.systems._rows import Family


@dataclass(frozen=True)
class GatedPosition:
    """Holonomic rows behind a switch."""

    rows: Callable

    def __call__(self, t, places, p):
        value = self.rows(t, places, p)
        return (value - p["held_at"]) * p["active"][: value.shape[0]]


@dataclass(frozen=True)
class GatedMotion:
    """Nonholonomic rows behind a switch; `skip` holonomic rows come before them."""

    rows: Callable
    skip: int

    def __call__(self, t, places, twists, p):
        return self.rows(t, places, twists, p) * p["active"][self.skip :]


def with_switches(system: AbstractSystem, *names: str) -> AbstractSystem:
    """The system with these constraints (all of their kind) behind switches, which are on."""
    if system.touches:
        raise DalembertError(
            f"Joint '{system.touches[0].joint}' of '{system.name}' is one-sided, and opens and closes by itself: it is "
            "not marched with constraints that are switched. Take system.plain(), whose contacts stay as they are."
        )
    for name in names:
        system = system.with_rows_of(name, lambda f, mine: f if is_switchable(f) else _gated(f))
    return system


def is_switchable(family: Family) -> bool:
    """Whether a family's rows are behind switches."""
    return "active" in family.p


def set_active(system: AbstractSystem, name: str, on, *, held_at=None) -> AbstractSystem:
    """The system with a constraint switched on or off; `on` may be traced.

    `held_at` are the values its holonomic rows are held at from now on (a latch that closes at the present pose);
    without it they are held where they were.
    """

    def change(f: Family, mine: np.ndarray) -> Family:
        if not is_switchable(f):
            raise DalembertError(
                f"Constraint '{name}' has no switch; make the system with with_switches(system, '{name}')."
            )
        xp = jnp if is_traced(on, f.p["active"], held_at) else np
        p = dict(f.p)
        p["active"] = xp.where(mine, xp.asarray(on, float), p["active"])
        if held_at is not None and f.holonomic:
            place = np.zeros(f.group.rows.shape, int)
            place[mine] = np.arange(mine.sum())
            values = xp.append(xp.asarray(held_at, float), xp.zeros(mine.sum()))  # nonholonomic rows hold nothing
            here = mine[:, : f.holonomic]
            p["held_at"] = xp.where(here, values[place[:, : f.holonomic]], p["held_at"])
        return dataclasses.replace(f, p=p)

    return system.with_rows_of(name, change)


def is_on(system: AbstractSystem, name: str) -> bool:
    """Whether a constraint is switched on (on the host)."""
    rows = system.owner_named(name).rows
    for f in system.row_families:
        mine = np.isin(f.group.rows, rows)
        if mine.any():
            return not is_switchable(f) or bool(np.all(np.asarray(f.p["active"])[mine] > 0))
    return True


def _gated(f: Family) -> Family:
    count = f.group.rows.shape[0]
    p = dict(f.p) | {
        "active": np.ones((count, f.holonomic + f.nonholonomic)),
        "held_at": np.zeros((count, f.holonomic)),
    }
    return dataclasses.replace(
        f,
        position=None if f.position is None else GatedPosition(f.position),
        motion=None if f.motion is None else GatedMotion(f.motion, f.holonomic),
        p=p,
    )
