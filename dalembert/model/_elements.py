"""1 · model: the things that connect bodies (joints, drivers, wheels, forces), as names and numbers.

What each kind *does* (its rows, its force law) is written in `systems/_constraints.py` and
`systems/_forces.py`; here is only what the user states about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dalembert.model._frames import Body, Marker


@dataclass(frozen=True, eq=False)
class Constraint:
    """Rows between the markers of two bodies, or over a list of bodies (user's rows).

    `kind` names the row family ("revolute", "driver:angle", …); `numbers` are parameters that may be
    swept or differentiated; `functions` are static callables (a driver's motion, a user's residual).
    A reaction is always the force and torque **on body j** at marker j; joint frame = marker i's axes.
    """

    name: str
    kind: str
    markers: tuple[Marker, ...]
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    functions: tuple = ()
    size: tuple[int, int] | None = None  # (holonomic, nonholonomic) rows, where the kind leaves it open
    drives: str | None = None  # for a driver: the joint whose coordinate it prescribes, or itself
    coupled: tuple[tuple[Marker, ...], ...] = ()  # for a coupling: the markers of each term's joint

    @property
    def bodies(self) -> tuple[Body, ...]:
        return tuple(m.body for m in self.markers)

    def __repr__(self) -> str:
        return _summary(self)


@dataclass(frozen=True, eq=False)
class Force:
    """An applied force element; the fields mean the same as in `Constraint`."""

    name: str
    kind: str
    markers: tuple[Marker, ...]
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    functions: tuple[Callable, ...] = ()
    joint: str | None = None  # for load-dependent friction: the joint
    rule: str | None = None  # and the rule that picks the load where it is not unique

    @property
    def bodies(self) -> tuple[Body, ...]:
        return tuple(m.body for m in self.markers)

    def __repr__(self) -> str:
        return _summary(self)


def _summary(item: Constraint | Force) -> str:
    """A line of text: kind, name, what it connects."""
    names = list(dict.fromkeys(b.name for b in item.bodies))
    where = f" between {' and '.join(names)}" if len(names) == 2 else f" on {', '.join(names)}" if names else ""
    return f"{item.kind.split(':')[0].replace('_', ' ')} '{item.name}'{where}"
