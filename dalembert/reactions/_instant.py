"""5c· reactions: a system at one instant: rank, dependent rows and unique reactions, for all callers."""

from __future__ import annotations

import dataclasses
import functools
from typing import Self

import jax.numpy as jnp
import numpy as np

from dalembert._typing import Coordinates, MachineVelocities, Scalar
from dalembert.equations import Equations, assemble_known, bearing_sides
from dalembert.linalg import RANK_TOLERANCE, Dependence, mass_metric_rows
from dalembert.reactions._joints import dependence_on_bodies
from dalembert.reactions._unique import JointRows, Uniqueness, joint_rows
from dalembert.stabilise import State, free_neighbours
from dalembert.systems import AbstractSystem


class Instant:
    """A system at one state: its equations, which rows depend on each other, and which reactions are unique; each is
    computed on first use, on the host.

    `dependence` is that of the system's own rows; reactions are stated on the rows of all joints, `machine` and
    `among_joints`, which in joint coordinates are more. `equations` are those of `assemble_known`: an `Instant` is what
    decides whether the loads of friction are unique.
    """

    def __init__(self, system: AbstractSystem, t: Scalar, state: State, tolerance: float = RANK_TOLERANCE):
        self.system, self.t, self.state = system, t, state
        self.tolerance = max(tolerance, RANK_TOLERANCE)
        self.equations: Equations = assemble_known(system, np.asarray(t, float), *state)
        self.applied: MachineVelocities | None = None

    @classmethod
    def at_rest(
        cls, system: AbstractSystem, t: Scalar, q: Coordinates, applied: MachineVelocities | None = None
    ) -> Self:
        """The system with nothing moving and its drivers held at their time, so that Γ = 0 as well; `applied` is a
        force on the bodies besides those of the system."""
        made = cls(system, t, State(q, jnp.zeros(system.n)))
        made.applied = np.zeros(system.machine.n) if applied is None else np.asarray(applied)
        e = made.equations
        own = np.asarray(system.pull_back(jnp.asarray(q), jnp.asarray(made.applied))) if made.applied.any() else 0.0
        made.equations = dataclasses.replace(e, h=np.asarray(e.h) + own, Gamma=np.zeros(system.m))
        return made

    @functools.cached_property
    def dependence(self) -> Dependence:
        """Which of the system's own rows depend on each other."""
        return self.equations.dependence(tolerance=self.tolerance)

    @property
    def machine(self) -> AbstractSystem:
        return self.system.machine

    @property
    def on_bodies(self) -> Equations:
        """The machine's equations."""
        return self.equations if self.machine is self.system else self._on_bodies[0]

    @property
    def among_joints(self) -> Dependence:
        return self._on_bodies[1]

    @functools.cached_property
    def _on_bodies(self) -> tuple[Equations, Dependence]:
        return dependence_on_bodies(self.system, self.equations, self.dependence, self.applied)

    @functools.cached_property
    def beside(self) -> list[Instant]:
        """The system at a few configurations beside this one, along motions that it can make; none where all rows are
        independent, as no neighbour can have a larger rank."""
        if self.dependence.redundancy == 0:
            return []
        found = free_neighbours(self.system, self.t, self.state, self.equations)
        return [Instant(self.system, self.t, at, self.tolerance) for at in found]

    @property
    def generic(self) -> Instant:
        """Of this instant and those beside it the one of the largest rank: what holds for a whole motion, where this
        pose itself may be singular."""
        return max([self, *self.beside], key=lambda i: i.dependence.rank)

    def part(self, rows: slice) -> int:
        """The rank of some rows."""
        return self.equations.dependence(rows, self.tolerance).rank

    @functools.cached_property
    def joints(self) -> list[JointRows]:
        """All joints with the wrenches of their rows."""
        return joint_rows(self.machine, self.on_bodies)

    @functools.cached_property
    def uniqueness(self) -> Uniqueness:
        return Uniqueness(self.joints, self.among_joints)

    @functools.cached_property
    def typical_force(self) -> float:
        """The force that turns the machine's momentum at its own rate: the scale of rounding."""
        e, scale = self.equations, np.asarray(self.system.scale())
        v = np.asarray(e.v)
        rate = np.max(np.abs(v) / scale, initial=0.0)
        size = 1.0 if self.system.bodies is None else float(self.system.bodies.size)
        return float(np.max(np.abs(np.asarray(e.mass.mv(v))) * scale, initial=0.0) * rate / size)

    @functools.cached_property
    def held(self) -> dict[str, bool]:
        """For each pair of teeth or belt whether the other rows hold the distance of its axes."""
        if not self.machine.sided:
            return {}
        e, d = self.on_bodies, self.among_joints
        rows = [row for _, row in self.machine.sided]
        pushed = assemble_known(self.machine.with_sides(jnp.ones(self.machine.m)), e.t, e.q, e.v)
        radial = mass_metric_rows(np.asarray(pushed.C)[rows] - np.asarray(e.C)[rows], np.asarray(e.mass.blocks))
        V = np.linalg.svd(d.rows, full_matrices=False)[2][: d.rank]
        left = np.linalg.norm(radial - (radial @ V.T) @ V, axis=1)
        return {name: bool(x < 1e-6) for (name, _), x in zip(self.machine.sided, left, strict=True)}

    @functools.cached_property
    def loaded(self) -> Instant:
        """The same instant with teeth and belts in contact on the side of their load."""
        if not self.machine.sided:
            return self
        lam = self.among_joints.multipliers(np.asarray(self.equations.h), np.asarray(self.equations.Gamma))
        sides = np.asarray(bearing_sides(jnp.asarray(lam))).copy()
        sides[[row for name, row in self.machine.sided if not self.held[name]]] = 0.0
        system = self.system.with_sides(jnp.asarray(sides))
        if self.applied is None:
            made = Instant(system, self.t, self.state)
        else:
            made = Instant.at_rest(system, self.t, self.state.q, self.applied)
        made.loaded = made
        return made
