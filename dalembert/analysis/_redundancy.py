"""7 · analysis: how many of the constraints are independent, and how many ways the machine can move."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from dalembert.model import Model
from dalembert.stabilise import State, consistent_state, neighbours, rank_at
from dalembert.systems import AbsoluteSystem, AbstractSystem, build


@dataclass(frozen=True)
class Check:
    """What a model is, in numbers. `print` it, or read the fields; `as_dict` is the JSON form.

    `n` velocities, `m` rows (`holonomic` of them on positions), `rank` of C at generic configurations beside the
    given one, `redundancy` p = m − rank, `mobility` n − rank, `gruebler` n − m (what counting joints says).
    `singular` tells that the given pose itself has a lower rank (`rank_here`) than its neighbours.
    """

    name: str
    n: int
    m: int
    holonomic: int
    rank: int
    rank_here: int
    redundancy: int
    mobility: int
    gruebler: int
    singular: bool
    bodies: int
    joints: dict[str, int]
    singular_values: np.ndarray = field(repr=False)
    tolerance: float = 0.0

    def as_dict(self) -> dict:
        out = {k: getattr(self, k) for k in self.__dataclass_fields__ if k != "singular_values"}
        values = self.singular_values
        return out | {"smallest_singular_values": [float(x) for x in values[-min(6, len(values)) :]]}

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.joints.items()) or "none"
        motions = "1 degree of freedom" if self.mobility == 1 else f"{self.mobility} degrees of freedom"
        lines = [
            f"{self.name}: {self.bodies} bodies, {sum(self.joints.values())} joints ({kinds})",
            f"  {motions}; n = {self.n} velocities, m = {self.m} constraint rows, rank {self.rank}",
        ]
        if self.redundancy:
            lines.append(
                f"  redundant: {self.redundancy} of the {self.m} rows (counting joints gives {self.gruebler} degrees "
                "of freedom); the motion is unique, not all reactions are"
            )
        else:
            lines.append("  no redundant rows: all reactions are unique")
        if self.singular:
            lines.append(f"  this pose is singular: the rank is {self.rank_here} here and {self.rank} beside it")
        return "\n".join(lines)


def check(model: Model | AbstractSystem, state: State | None = None, *, t: float = 0.0) -> Check:
    """Count rows, rank, redundancy and mobility at a state (default: the start) and at generic ones beside it.

    Rank is read in the mass metric on dimensionless rows, so it does not change with units.
    """
    system = build(model) if isinstance(model, Model) else model
    q, v = (None, None) if state is None else state
    here = consistent_state(system, q, v, t=t)
    first = rank_at(system, t, here)
    ranks = [first, *(rank_at(system, t, s) for s in neighbours(system, t, here))]
    best = max(ranks, key=lambda r: r.rank)
    joints = Counter(_readable(o.kind) for o in system.owners)
    return Check(
        name=system.name,
        n=system.n,
        m=system.m,
        holonomic=system.m_holonomic,
        rank=best.rank,
        rank_here=first.rank,
        redundancy=system.m - best.rank,
        mobility=system.n - best.rank,
        gruebler=system.n - system.m,
        singular=first.rank < best.rank,
        bodies=len(system.body_names) if isinstance(system, AbsoluteSystem) else 0,
        joints=dict(joints),
        singular_values=best.singular_values,
        tolerance=best.tolerance,
    )


def _readable(kind: str) -> str:
    return kind.split(":")[0].replace("_", " ")
