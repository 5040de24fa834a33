"""6 · simulation: `Phases`, when dry friction stuck and slipped, and `ContactPhases`, when contacts were closed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dalembert._results import DalembertError
from dalembert.simulation._march import record

STATES = {0: "stick", 1: "slip +", -1: "slip −"}
"""A phase by its side, the sign of the rate."""
IMPULSE_RULE = "the shortest impulses without a pull, in the mass metric"
"""What picks impulses that are not unique (`linalg.least`)."""

OF_PARTS = ("t", "side", "held_at", "moves", "q", "v")
"""What `Phases` has of each part."""


class Phase(NamedTuple):
    """From `start` to `end` the friction of this name sticks or slips: "stick", "slip +" or "slip −"."""

    friction: str
    joint: str
    state: str
    start: float
    end: float


@record("names", "joints")
@dataclasses.dataclass(frozen=True, eq=False)
class Phases:
    """The phases of all dry friction that sticks: `for phase in solution.phases`, or `solution.phases.of(name)`.

    A part of the motion lies between two changes of any friction: `t` are the starts of the parts, `side` the sign of
    the rate in each (0: it sticks), `held_at` the value of a coordinate that sticks. A friction that has reached its
    limit while another holds the same coordinate has a side and no speed (`moves` is False): it sticks.
    """

    of_contacts: ClassVar[bool] = False

    names: tuple[str, ...]
    joints: tuple[str, ...]
    t: Any
    side: Any  # (parts, frictions)
    held_at: Any
    moves: Any
    q: Any  # states at the starts
    v: Any
    t_end: Any

    def parts(self, times) -> np.ndarray:
        """The number of the part in which each time lies; at a change the later one."""
        return np.clip(np.searchsorted(np.asarray(self.t), np.asarray(times), side="right") - 1, 0, None)

    @property
    def shown(self) -> np.ndarray:
        """The sign of the rate (parts, frictions), 0 where nothing moves."""
        return np.where(np.asarray(self.moves), np.asarray(self.side), 0).astype(int)

    @classmethod
    def together(cls, runs: Sequence[Phases]) -> Phases:
        """Those of the runs of a batch: a row for each, as long as the longest; there is nothing after the end."""
        longest = max(len(one.t) for one in runs)

        def rows(name: str) -> np.ndarray:
            parts = [np.asarray(getattr(one, name)) for one in runs]
            fill = np.inf if name == "t" else 0
            return np.stack([np.concatenate([x, np.full((longest - len(x), *x.shape[1:]), fill)]) for x in parts])

        ends = np.array([float(one.t_end) for one in runs])
        return dataclasses.replace(runs[0], **{name: rows(name) for name in OF_PARTS}, t_end=ends)

    def of_one(self) -> Phases:
        """Without what fills up a row of a batch."""
        return self.first(int(np.sum(np.isfinite(np.asarray(self.t)))))

    def first(self, count: int = 1) -> Phases:
        """Those of the first parts."""
        return dataclasses.replace(self, **{name: np.asarray(getattr(self, name))[:count] for name in OF_PARTS})

    def of(self, name: str) -> list[Phase]:
        """The phases of one friction, in turn."""
        if name not in self.names:
            raise DalembertError(f"There is no friction '{name}' that sticks; there is {', '.join(self.names)}.")
        k, ends = self.names.index(name), np.append(np.asarray(self.t)[1:], float(self.t_end))
        out: list[Phase] = []
        for side, start, end in zip(self.shown[:, k], np.asarray(self.t), ends, strict=True):
            state = STATES[int(side)]
            if out and out[-1].state == state:
                out[-1] = out[-1]._replace(end=float(end))
            else:
                out.append(Phase(name, self.joints[k], state, float(start), float(end)))
        return out

    def __iter__(self) -> Iterator[Phase]:
        return iter(sorted((p for name in self.names for p in self.of(name)), key=lambda p: (p.start, p.friction)))

    def __len__(self) -> int:
        return sum(len(self.of(name)) for name in self.names)

    def __str__(self) -> str:
        """One line: how long each friction stuck."""
        out = []
        for name in self.names:
            own = self.of(name)
            stuck = [p.end - p.start for p in own if p.state == "stick"]
            count = len(own) - len(stuck)
            slips = "1 time" if count == 1 else f"{count} times"
            out.append(f"'{name}' sticks for {sum(stuck):.6g} s in all and slips {slips}")
        return "friction: " + "; ".join(out)

    def __repr__(self) -> str:
        return "\n".join(f"{p.start:12.6g} … {p.end:<12.6g} s  {p.state:7} {p.friction} ({p.joint})" for p in self)


class ContactPhase(NamedTuple):
    """From `start` to `end` the contact of this name is "closed" or "open"; one with friction is closed when it sticks
    ("stick") or slips ("slip +" or "slip −" along the plane's x axis, in space "slip")."""

    contact: str
    joint: str
    state: str
    start: float
    end: float


class Impact(NamedTuple):
    """An impact: its time, the impulse at each contact that took part (a push on j along its row, in N s), whether the
    rigid-body model determines it, the kinetic energy before and after, and the impulse of friction at each of these
    contacts that has some: along the x axis (in space x and y) of its plane. `rule` names what picked the impulses:
    "unique" if all are, else `IMPULSE_RULE`; velocities do not depend on it."""

    t: float
    impulses: dict[str, float]
    unique: dict[str, bool]
    energy_before: float
    energy_after: float
    friction: dict[str, tuple[float, ...]]

    @property
    def rule(self) -> str:
        return "unique" if all(self.unique.values()) else IMPULSE_RULE

    @property
    def energy_lost(self) -> float:
        return self.energy_before - self.energy_after


@record("names", "joints")
@dataclasses.dataclass(frozen=True, eq=False)
class ContactPhases:
    """When one-sided joints were closed: `for phase in solution.phases`, `solution.phases.of(name)`; and `impacts`.

    A part of the motion lies between two changes: `t` are the starts of the parts, `closed` which contacts are closed
    in each, `way` the directions in which those with friction (`rough`) slip, 0 where they stick; `rested` which
    contacts touched without a rate when the motion began.
    """

    of_contacts: ClassVar[bool] = True

    names: tuple[str, ...]
    joints: tuple[str, ...]
    t: Any
    closed: Any  # (parts, contacts)
    way: Any  # (parts, contacts, tangential)
    rough: Any  # (contacts)
    q: Any  # states at the starts
    v: Any
    t_end: Any
    impact_t: Any
    impulse: Any  # (impacts, contacts)
    unique: Any
    energy: Any  # (impacts, before and after)
    friction: Any  # (impacts, contacts, tangential)
    rested: Any

    parts = Phases.parts

    def states(self, k: int) -> list[str]:
        """The state of one contact in each part."""
        closed, way = np.asarray(self.closed)[:, k], np.asarray(self.way)[:, k]
        if not np.asarray(self.rough)[k]:
            return ["closed" if on else "open" for on in closed]
        slips = [STATES[int(x[0])] if len(x) == 1 else "slip" if np.any(x) else "stick" for x in way]
        return [x if on else "open" for on, x in zip(closed, slips, strict=True)]

    @property
    def impacts(self) -> list[Impact]:
        """All impacts in turn."""
        out = []
        rows, rough = (self.impact_t, self.impulse, self.unique, self.energy, self.friction), np.asarray(self.rough)
        for t, impulse, unique, energy, friction in zip(*map(np.asarray, rows), strict=True):
            acting = np.flatnonzero(impulse > 0)
            impulses = {self.names[k]: float(impulse[k]) for k in acting}
            sure = {self.names[k]: bool(unique[k]) for k in acting}
            rubs = {self.names[k]: tuple(map(float, friction[k])) for k in acting if rough[k]}
            out.append(Impact(float(t), impulses, sure, float(energy[0]), float(energy[1]), rubs))
        return out

    @property
    def lift_offs(self) -> list[tuple[float, str]]:
        """Time and contact where one that was closed opened; at the start one that rested as it was placed."""
        out = []
        for k, name in enumerate(self.names):
            own = self.of(name)
            if np.asarray(self.rested)[k] and own[0].state == "open":
                out.append((own[0].start, name))
            out += [(b.start, name) for a, b in itertools.pairwise(own) if a.state != "open" and b.state == "open"]
        return sorted(out)

    def energy_lost(self, times) -> np.ndarray:
        """The kinetic energy lost in all impacts until each time."""
        energy = np.asarray(self.energy)
        lost = np.append(0.0, np.cumsum(energy[:, 0] - energy[:, 1]))
        return lost[np.searchsorted(np.asarray(self.impact_t), np.asarray(times), side="left")]

    def of(self, name: str) -> list[ContactPhase]:
        """The phases of one contact, in turn."""
        if name not in self.names:
            raise DalembertError(f"There is no contact '{name}'; there is {', '.join(self.names)}.")
        k, ends = self.names.index(name), np.append(np.asarray(self.t)[1:], float(self.t_end))
        out: list[ContactPhase] = []
        struck = np.asarray(self.impact_t)[np.asarray(self.impulse)[:, k] > 0]
        for state, start, end in zip(self.states(k), np.asarray(self.t), ends, strict=True):
            if out and out[-1].state == state and not (state == "open" and np.any(struck == start)):
                out[-1] = out[-1]._replace(end=float(end))
            else:
                out.append(ContactPhase(name, self.joints[k], state, float(start), float(end)))
        return out

    def __iter__(self) -> Iterator[ContactPhase]:
        return iter(sorted((p for name in self.names for p in self.of(name)), key=lambda p: (p.start, p.contact)))

    def __len__(self) -> int:
        return sum(len(self.of(name)) for name in self.names)

    def __str__(self) -> str:
        """One line: impacts, how long each contact was closed, and what lifted off."""
        out = [self.counted[0]]
        for name in self.names:
            shut = sum(p.end - p.start for p in self.of(name) if p.state != "open")
            out.append(f"'{name}' is closed for {shut:.6g} s in all")
        return "contact: " + "; ".join([*out, *self.counted[1:]])

    @property
    def counted(self) -> list[str]:
        """In words: how many impacts, what they took and which rule picked their impulses, and what lifted off."""
        count, lifted = len(np.asarray(self.impact_t)), self.lift_offs
        out = ["1 impact" if count == 1 else f"{count} impacts"]
        if count:
            out.append(f"{float(self.energy_lost([np.inf])[0]):.4g} J are lost in impacts")
        if not np.asarray(self.unique).all():
            out.append(f"impulses that are not unique are {IMPULSE_RULE}")
        if lifted:
            first = [name for t, name in lifted if t == lifted[0][0]]
            more = f" and {len(lifted) - len(first)} more later" if len(lifted) > len(first) else ""
            few = " and ".join(f"'{name}'" for name in first[:4]) + (" …" if len(first) > 4 else "")
            out.append(f"lift-offs: {few} at t = {lifted[0][0]:.6g} s{more}")
        return out

    def __repr__(self) -> str:
        return "\n".join(f"{p.start:12.6g} … {p.end:<12.6g} s  {p.state:7} {p.contact}" for p in self)
