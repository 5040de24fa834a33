"""5c· reactions: those of the tree joints, which have no multiplier in joint coordinates.

Let C_T be the rows of the tree's joints in absolute velocities, C_c those that close loops, λ_T and λ_c their
multipliers. The tree's joints are independent (C_T has full row rank) and v_abs = J u spans the motions they allow
(C_T J = 0). Cut the machine above a body: what its joint transmits balances the whole subtree below,

    wrench of C_Tᵀλ_T on the body = Σ over all below (M v̇ − h − C_cᵀλ_c)                                          (a)

of which the part along the joint's free axes is zero by the equations of motion; the joint's rows take the rest
(`AbstractSystem.multipliers_of_machine`).

**Which reactions are unique.** [Wojtyra, Fraczek 2013] leave this open for relative coordinates. If
C_Tᵀλ_T + C_cᵀλ_c = 0, then (C_c J)ᵀλ_c = 0, on multiplying by Jᵀ. Conversely, if (C_c J)ᵀλ_c = 0, then C_cᵀλ_c is
orthogonal to all J u, that is to the null space of C_T; so it lies in the range of C_Tᵀ, and one λ_T balances it: that
of (a) with M v̇ − h = 0. So mapping the null vectors of the loops' own matrix C_c J through the tree by (a) gives all
null vectors of C, one for one: the redundancy p is the same, and the reaction of any joint X, cut or not, is unique if
and only if C_XᵀZ_X of the mapped vectors Z vanishes.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._typing import MachineVelocities, Velocities
from dalembert.equations import Equations, assemble_known
from dalembert.linalg import Dependence, null_by_qr
from dalembert.systems import AbstractSystem, compiled_quickly


def on_bodies(system: AbstractSystem, equations: Equations) -> Equations:
    """The equations of the same state on the machine, with all joints' rows."""
    if system.machine is system:
        return equations
    return assemble_known(system.machine, equations.t, *system.lift(equations.q, equations.v))


def reaction_on_bodies(
    system: AbstractSystem, equations: Equations, bodies: Equations, vdot: Velocities, r: Velocities | None
) -> tuple[MachineVelocities, MachineVelocities]:
    """v̇ and r = M v̇ − h of the machine, from those of the system."""
    if r is not None and system.machine is system:
        return vdot, r
    vdot = system.lift_rate(equations.q, equations.v, vdot)
    return vdot, bodies.mass.mv(vdot) - bodies.h


def dependence_on_bodies(
    system: AbstractSystem,
    equations: Equations,
    own: Dependence | None = None,
    at_rest: MachineVelocities | None = None,
) -> tuple[Equations, Dependence]:
    """The machine's equations, and which of all joints' rows depend on each other; on the host. `own` is the
    dependence of the system's own rows; `at_rest`: of a machine at rest (`Instant.at_rest`), a force on its bodies."""
    own = equations.dependence() if own is None else own
    if system.machine is system:
        return equations, own
    dependence = TreeDependence(system, equations, own, at_rest)
    return dependence.bodies, dependence


class TreeDependence(Dependence):
    """The dependencies among all joints' rows, from those among the rows that close loops, by (a)."""

    def __init__(
        self,
        system: AbstractSystem,
        equations: Equations,
        closing: Dependence,
        at_rest: MachineVelocities | None = None,
    ):
        bodies = _on_bodies(system, equations)
        if at_rest is not None:
            bodies = dataclasses.replace(bodies, h=bodies.h + at_rest, Gamma=jnp.zeros(bodies.Gamma.shape))
        super().__init__(np.asarray(bodies.C), np.asarray(bodies.mass.blocks), closing.tolerance)
        self.system, self.equations, self.bodies, self.closing = system, equations, bodies, closing

    @property
    def rank(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.rows) - self.closing.redundancy

    @functools.cached_property
    def null(self) -> np.ndarray:
        return self._mapped(self.closing.null)

    def null_by_qr(self) -> np.ndarray:
        return self._mapped(null_by_qr(self.closing.rows, self.tolerance)[1])

    def _mapped(self, null: np.ndarray) -> np.ndarray:
        if null.shape[1] == 0:
            return np.zeros((len(self.rows), 0))
        mapped = np.asarray(_map_all(self.system, self.bodies, null / self.closing.sizes[:, None]))
        return np.linalg.qr(mapped * self.sizes[:, None])[0]

    def multipliers(self, h: np.ndarray, Gamma: np.ndarray) -> np.ndarray:
        """One λ of all rows; `h` and `Gamma` are those of the joint coordinates."""
        lam = self.closing.multipliers(h, Gamma) if len(self.closing.rows) else np.zeros(0)
        return np.asarray(_loaded(self.system, self.equations, self.bodies, lam))


_on_bodies = compiled_quickly(on_bodies)


@compiled_quickly
def _loaded(system: AbstractSystem, equations: Equations, bodies: Equations, lam):
    vdot = equations.mass.solve(equations.h + equations.rows.rmv(lam))
    _, r = reaction_on_bodies(system, equations, bodies, vdot, None)
    return system.multipliers_of_machine(bodies.q, bodies.rows, r, lam)


@compiled_quickly
def _map_all(system: AbstractSystem, bodies: Equations, null):
    nothing = jnp.zeros(bodies.v.shape)
    return jax.vmap(lambda lam: system.multipliers_of_machine(bodies.q, bodies.rows, nothing, lam), 1, 1)(null)
