"""2 · systems: one-sided joints: which of their rows are closed, and how far the others are open.

A built system keeps all rows of its joints (`Contacts`). `with_closed` states which contacts are closed: these are rows
of C as any others, and the rest has no rows at all. So between two changes rank, reactions and what is unique are
those of a plain machine. The gap of a contact is its row, with the sign of its multiplier: both are never negative.
A contact with friction that sticks has all its rows; one that slides has its normal row and friction by its own load.
Equations: docs/theory/one_sided.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from dalembert.linalg import KLU, BlockPattern, Group
from dalembert.systems._base import AbstractSystem, RowOwner
from dalembert.systems._bodies import ForceFamily, JointView
from dalembert.systems._forces import SlidingFriction
from dalembert.systems._names import compiled_quickly
from dalembert.systems._rows import Family, some_rows

if TYPE_CHECKING:
    from dalembert.systems._absolute import AbsoluteSystem

TOUCHING = 1e-9
"""A gap, relative to the machine's size, up to which a contact is closed."""
INSIDE = 1e-6
"""How far, relative to the machine's size, bodies may start inside each other: rounded numbers."""


@dataclass(frozen=True)
class Touch:
    """A one-sided row: its name, the joint that owns it, its row among all rows, the sign of its multiplier, the rows
    that bear while it does (no slip), the law of its impacts, and whether its gap is an angle."""

    name: str
    joint: str
    row: int
    sign: int
    tied: tuple[int, ...]
    impact: str
    is_angle: bool = False


class Contacts(eqx.Module):
    """All rows of the joints of a machine with one-sided ones, as if all were closed."""

    families: tuple[Family, ...]
    joints: tuple[JointView, ...] = eqx.field(static=True)
    owners: tuple[RowOwner, ...] = eqx.field(static=True)
    m: int = eqx.field(static=True)
    m_holonomic: int = eqx.field(static=True)
    closed: tuple[bool, ...] = eqx.field(static=True)  # which of the contacts are closed now
    sliding: tuple[int, ...] = eqx.field(static=True, default=())  # and which of these slide


def touches_of(owners: Sequence[RowOwner], m_holonomic: int) -> tuple[Touch, ...]:
    """The one-sided rows of a machine with these owners of all its rows."""
    out = []
    for o in owners:
        rows = [k for k, sign in enumerate(o.signs) if sign]
        tied = tuple(r for r in o.rows if r >= m_holonomic)
        for number, k in enumerate(rows):
            name = o.name if len(rows) == 1 else f"{o.name}[{number + 1}]"
            out.append(Touch(name, o.name, o.rows[k], o.signs[k], tied, o.nature.impact, o.nature.gap_is_angle))
    return tuple(out)


def with_contacts(system: AbsoluteSystem) -> AbsoluteSystem:
    """A system that knows its contacts, all of them closed; the same if it has none."""
    count = len(touches_of(system.owners, system.m_holonomic))
    if not count:
        return system
    own = system.families, system.joints, system.owners, system.m, system.m_holonomic
    return replace(system, contacts=Contacts(*own, (True,) * count))


def _gone(touches: Sequence[Touch], closed: Sequence[bool], sliding: Sequence[int]) -> set[int]:
    """The rows that are not there with these contacts closed, and these of them sliding."""
    open_ = {r for t, on in zip(touches, closed, strict=True) if not on for r in (t.row, *t.tied)}
    return open_ | {r for k in sliding for r in touches[k].tied}


def rows_among_all(system: AbstractSystem, closed: Sequence[bool], sliding: Sequence[int] = ()) -> np.ndarray:
    """For each row of the machine with all contacts closed its number with these closed, and these of them sliding; −1
    for those that are not there."""
    open_ = _gone(system.touches, closed, sliding)
    count = all_closed(system).m
    kept = np.array([r for r in range(count) if r not in open_], int)
    out = np.full(count, -1)
    out[kept] = np.arange(len(kept))
    return out


def all_closed(system: AbstractSystem) -> AbstractSystem:
    """The system with the rows of all contacts."""
    return system.with_closed((True,) * len(system.touches))


def gaps_of(system: AbstractSystem, t, q) -> np.ndarray:
    """The gaps of all contacts, never negative where bodies do not overlap; on the host."""
    touches = system.touches
    Phi = np.asarray(_positions(all_closed(system), t, q))
    return np.array([x.sign * Phi[x.row] for x in touches])


def gap_sizes(touches: Sequence[Touch], size: float) -> np.ndarray:
    """What the gap of each contact is measured by: the machine's size, or one radian."""
    return np.array([1.0 if x.is_angle else size for x in touches])


@compiled_quickly
def _positions(system: AbstractSystem, t, q):
    return system.position_residual(t, q)


def with_closed(
    system: AbsoluteSystem, closed: Sequence[bool], slides: Mapping[int, np.ndarray] | None = None
) -> AbsoluteSystem:
    """The system with the rows of these contacts, and of all that is not one-sided; `slides` gives the direction of
    the slip of those of them that slide, by their number."""
    contacts = system.contacts
    assert contacts is not None
    closed, slides = tuple(bool(x) for x in closed), slides or {}
    if closed == contacts.closed and not slides and not contacts.sliding:
        return system
    touches = touches_of(contacts.owners, contacts.m_holonomic)
    open_ = _gone(touches, closed, tuple(slides))
    kept = [r for r in range(contacts.m) if r not in open_]
    number = {old: new for new, old in enumerate(kept)}
    families = list(some_rows(contacts.families, number))
    where = {name: (f, k) for f, family in enumerate(families) for k, name in enumerate(family.names)}
    for f in contacts.families:  # what is open keeps its place in the machine, without rows
        gone = [k for k, name in enumerate(f.names) if name not in where]
        if gone:
            where |= {f.names[k]: (len(families), n) for n, k in enumerate(gone)}
            families.append(_without_rows(f, gone))
    joints = tuple(replace(j, family=where[j.name][0], member=where[j.name][1]) for j in contacts.joints)
    owners = tuple(o.renumbered(number) for o in contacts.owners)  # those of open ones without rows
    fixed = (f for f in system.forces if not isinstance(f.law, SlidingFriction))
    pattern = BlockPattern(len(kept), system.pattern.blocks, system.pattern.width, [f.group for f in families])
    klu = None if system.klu is None else KLU.analyse(pattern, system.kinematics.mass_mask())
    return replace(
        system,
        families=tuple(families),
        forces=(*fixed, *(_sliding(system, contacts, touches[k].joint, slides[k]) for k in sorted(slides))),
        joints=joints,
        owners=owners,
        pattern=pattern,
        m_holonomic=sum(r < contacts.m_holonomic for r in kept),
        klu=klu if kept else None,
        contacts=replace(contacts, closed=closed, sliding=tuple(sorted(slides))),
        loads_decided=system.loads_decided and not slides,
    )


def _sliding(system: AbsoluteSystem, contacts: Contacts, name: str, direction) -> ForceFamily:
    """The friction of one contact, which slides in a direction."""
    f = next(f for f in contacts.families if name in f.names)
    k, d = f.names.index(name), system.kinematics.d
    assert f.motion is not None  # it has friction
    p: dict[str, Any] = {key: np.asarray(x)[k : k + 1] for key, x in f.p.items()}
    p |= {"direction": np.reshape(np.asarray(direction, float), (1, d - 1)), "least": np.zeros(1)}
    group = Group(np.zeros((1, 0)), f.group.columns[k : k + 1])
    law: Any = SlidingFriction(None, (d - 1,), (), f.motion)
    return ForceFamily("friction of a contact", (name,), group, law, p, (name,))


def _without_rows(f: Family, members: list[int]) -> Family:
    group = Group(np.zeros((len(members), 0)), f.group.columns[members])
    p: dict[str, Any] = {key: np.asarray(x)[np.array(members)] for key, x in f.p.items()}
    return Family(f.nature, tuple(f.names[k] for k in members), group, 0, 0, None, None, p, f.axes)
