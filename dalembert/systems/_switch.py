"""2 · systems: constraints that come and go. Rows are switched by numbers, so no size ever changes.

A switchable family carries `active` (0 or 1 for each row) and `held_at` (what each holonomic row is held at) among its
parameters: Φ becomes active · (Φ − held_at). A row that is off is zero at all levels and has no reaction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import is_traced
from dalembert.systems._base import AbstractSystem, Family
from dalembert.systems._tree import TreeSystem


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


def switchable(system: AbstractSystem, *names: str) -> AbstractSystem:
    """The system with these constraints (all of their kind) behind switches, which are on."""
    wanted = {row for name in names for row in _owner(system, name).rows}
    if isinstance(system, TreeSystem):
        return _in_both(system, lambda part: switchable(part, *names))
    families = []
    for f in system.families:
        if wanted & set(f.group.rows.ravel().tolist()) and not is_switchable(f):
            f = _gated(f)
        families.append(f)
    return _set(system, families)


def is_switchable(family: Family) -> bool:
    """Whether a family's rows are behind switches."""
    return "active" in family.p


def switched(system: AbstractSystem, name: str, on, *, held_at=None) -> AbstractSystem:
    """The system with a constraint switched on or off; `on` may be traced.

    `held_at` are the values its holonomic rows are held at from now on (a latch that closes where the machine is);
    without it they are held where they were.
    """
    owner = _owner(system, name)
    if isinstance(system, TreeSystem):
        return _in_both(system, lambda part: switched(part, name, on, held_at=held_at))
    families = list(system.families)
    for k, f in enumerate(families):
        mine = np.isin(f.group.rows, owner.rows)
        if not mine.any():
            continue
        if not is_switchable(f):
            raise DalembertError(
                f"Constraint '{name}' has no switch; make the system with switchable(system, '{name}')."
            )
        traced = is_traced(on, f.p["active"], held_at)
        xp = jnp if traced else np
        p = dict(f.p)
        p["active"] = xp.where(mine, xp.asarray(on, float), p["active"])
        if held_at is not None and f.holonomic:
            place = np.zeros(f.group.rows.shape, int)
            place[mine] = np.arange(mine.sum())
            values = xp.append(xp.asarray(held_at, float), xp.zeros(mine.sum()))  # nonholonomic rows hold nothing
            here = mine[:, : f.holonomic]
            p["held_at"] = xp.where(here, values[place[:, : f.holonomic]], p["held_at"])
        families[k] = dataclasses.replace(f, p=p)
    return _set(system, families)


def is_on(system: AbstractSystem, name: str) -> bool:
    """Whether a constraint is switched on (on the host)."""
    owner = _owner(system, name)
    if isinstance(system, TreeSystem):
        return is_on(system.carrier, name)
    for f in system.families:
        mine = np.isin(f.group.rows, owner.rows)
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


def _set(system: AbstractSystem, families) -> AbstractSystem:
    """A copy with other families; not through __init__, which a user's system may have of its own."""
    return eqx.tree_at(lambda s: s.families, system, tuple(families), is_leaf=lambda x: isinstance(x, Family))


def _in_both(system: TreeSystem, change: Callable) -> TreeSystem:
    """A tree with its closing rows and the rows of all its joints changed alike."""
    return dataclasses.replace(system, carrier=change(system.carrier), absolute=change(system.absolute))


def _owner(system: AbstractSystem, name: str):
    for owner in system.owners:
        if owner.name == name:
            return owner
    if isinstance(system, TreeSystem) and name in system.tree.carrying:
        raise DalembertError(
            f"Joint '{name}' carries the tree and cannot be switched; build with cut=['{name}'], and it closes a loop."
        )
    names = ", ".join(o.name for o in system.owners)
    raise DalembertError(f"System '{system.name}' has no constraint '{name}'; it has {names}.")
