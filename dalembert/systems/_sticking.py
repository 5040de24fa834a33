"""2 · systems: dry friction that sticks: which coordinates are held, which slip, and what friction may bear.

A system is built free, with friction of no side. `with_phases` states for each friction whether it sticks (side 0) or
slips (the sign of its rate). A coordinate that sticks is a row of C like a joint's, Φ = a − a₀, whose multiplier is the
friction effort; a coordinate that slips has no row, and its friction is a smooth force of a known sign. So rank,
reactions and what is unique of them are those of a plain machine at any time. Equations: docs/theory/sticking.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._typing import Array
from dalembert.linalg import KLU, BlockPattern, Group
from dalembert.systems._base import Nature, RowOwner
from dalembert.systems._bodies import PLACES, BodySystem, ForceFamily, JointView
from dalembert.systems._constraints import wrapped
from dalembert.systems._forces import Sticking
from dalembert.systems._frames import marker_frames
from dalembert.systems._rows import Family, some_rows

if TYPE_CHECKING:
    from dalembert.systems._absolute import AbsoluteSystem

NATURE = Nature("sticking friction")
"""What a held coordinate is in tables."""


@dataclass(frozen=True)
class HeldRow:
    """One holonomic row: a joint coordinate − the value it is held at = 0."""

    space: str
    coordinate: Callable
    angle: bool

    def __call__(self, t, places, p):
        gap = self.coordinate(*marker_frames(self.space, places, p)) - p["held_at"]
        return jnp.reshape(wrapped(gap) if self.angle else gap, (1,))


def sticking_members(forces: tuple[ForceFamily, ...]) -> list[tuple[int, int]]:
    """Family and member of each friction that may stick, in the order of `AbstractSystem.sticking`."""
    return [(k, i) for k, f in enumerate(forces) if isinstance(f.law, Sticking) for i in range(len(f.names))]


def with_phases(system: AbsoluteSystem, sides: Mapping[str, int], held_at: Mapping[str, float]) -> AbsoluteSystem:
    """A system built free, with a row for each friction whose side is 0, after its holonomic rows."""
    forces, held = list(system.forces), []
    for k, i in sticking_members(system.forces):
        f = forces[k]
        side = np.array(f.p["side"])
        side[i] = sides[f.names[i]]
        forces[k] = replace(f, p=f.p | {"side": side})
        if sides[f.names[i]] == 0:
            held.append((f, i))
    h = system.m_holonomic
    number = {r: r if r < h else r + len(held) for r in range(system.m)}
    families = list(some_rows(system.families, number))
    joints, owners = list(system.joints), []
    for own in system.owners:
        owners.append(own.renumbered(number))
    for row, (f, i) in enumerate(held, start=h):
        joints.append(_view(f, i, len(families)))
        families.append(_family(system.space, f, i, row, held_at[f.names[i]]))
        owners.append(RowOwner(f.names[i], NATURE, (row,)))
    m = system.m + len(held)
    pattern = BlockPattern(m, system.pattern.blocks, system.pattern.width, [f.group for f in families])
    klu = None if system.klu is None else KLU.analyse(pattern, system.kinematics.mass_mask())
    return replace(
        system,
        forces=tuple(forces),
        families=tuple(families),
        joints=tuple(joints),
        owners=tuple(owners),
        pattern=pattern,
        m_holonomic=h + len(held),
        klu=klu,
        phases_known=True,
    )


def _family(space: str, f: ForceFamily, i: int, row: int, held_at: float) -> Family:
    law: Any = f.law
    p: dict[str, Any] = {key: np.asarray(f.p[key])[i : i + 1] for key in PLACES} | {
        "held_at": np.array([held_at], float)
    }
    group = Group([[row]], f.group.columns[i : i + 1])
    return Family(NATURE, (f.names[i],), group, 1, 0, HeldRow(space, law.coordinate, law.turns), None, p)


def _view(f: ForceFamily, i: int, family: int) -> JointView:
    return JointView(f.names[i], NATURE, tuple(map(int, f.group.columns[i])), family, 0, (), target=f.joints[i])


def sticking_values(system: BodySystem, places) -> Float[Array, " frictions"]:
    """The coordinates of all frictions that may stick, of bodies at given places."""
    out = []
    for k, i in sticking_members(system.forces):
        f = system.forces[k]
        law: Any = f.law
        here = [jax.tree_util.tree_map(lambda a, b=int(b): a[b], places) for b in f.group.columns[i]]
        out.append(law.coordinate(*marker_frames(system.space, here, {key: f.p[key][i] for key in PLACES})))
    return jnp.stack(out)


def friction_efforts(
    system: BodySystem, t, rates: Float[Array, " frictions"], loads: Float[Array, " bearings"] | None
) -> tuple[Float[Array, " frictions"], Float[Array, " frictions"]]:
    """Of each friction what it can bear while it sticks, without a sign, and its effort at its rate while it slips.

    `system` has the values of its inputs; `loads` are those of its bearings (`loads.py`), in their order."""
    first, count = {}, 0
    for f in system.bearings:
        first[f.names] = count
        count += len(f.names)
    held, slipping = [], []
    for (k, i), rate in zip(sticking_members(system.forces), rates, strict=True):
        f = system.forces[k]
        law: Any = f.law
        p = {key: jnp.asarray(x)[i] for key, x in f.p.items()}
        if f.names in first:
            assert loads is not None
            load = loads[first[f.names] + i]
        else:
            load = law.load_at(t, p)
        held.append(p["static"] * load * p["radius"])
        slipping.append(-p["side"] * law.coefficient(rate, p) * load * p["radius"] - p["viscous"] * rate)
    return jnp.stack(held), jnp.stack(slipping)
