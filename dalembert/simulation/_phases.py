"""6 · simulation: `Phases`: when dry friction stuck and when it slipped along a motion."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dalembert._results import DalembertError
from dalembert.simulation._march import record

STATES = {0: "stick", 1: "slip +", -1: "slip −"}
"""A phase by its side, the sign of the rate."""


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
