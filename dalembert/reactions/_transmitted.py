"""5c· reactions: what the constraints transmit at an instant, as measurements read it."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from dalembert._typing import MachineVelocities, Velocities
from dalembert.equations import Equations
from dalembert.reactions._joints import on_bodies, reaction_on_bodies
from dalembert.reactions._rules import AbstractReactionRule, MinimumNorm
from dalembert.reactions._wrenches import joint_wrenches
from dalembert.systems import AbstractSystem, Loads


def loads_of(
    system: AbstractSystem,
    equations: Equations,
    vdot: Velocities,
    rule: AbstractReactionRule | None = None,
    applied: MachineVelocities | None = None,
) -> Loads:
    """What the constraints transmit, for `system.measured(t, q, v, vdot, loads)`; works under jit, vmap and grad.

    **Arguments**: `equations` of the system at the instant (`da.assemble`), `vdot` their solution; `rule` picks what is
    not unique (default: the minimum norm); `applied` a force on the machine's velocities that is in `equations` besides
    those of the system. **Returns** `Loads`.

        >>> import dalembert as da
        >>> model = da.Model("pendulum", gravity=(0, -9.81))
        >>> bob = model.body("bob", mass=2.0, inertia=0.1, position=(0, -1))
        >>> pin = model.revolute("pin", model.ground, bob, at=(0, 0))
        >>> load = model.measure("load", "reaction", pin, component="Fy", frame="world")
        >>> system = da.build(model)
        >>> equations = da.assemble(system, 0.0, system.q0, system.v0)
        >>> vdot = da.formulations.Proximal().solve(equations).vdot
        >>> loads = da.reactions.loads_of(system, equations, vdot)
        >>> print(f"{system.measured(0.0, system.q0, system.v0, vdot, loads)[0]:.6g}")
        19.62
    """
    there = on_bodies(system, equations)
    if applied is not None and there is not equations:
        there = dataclasses.replace(there, h=there.h + applied)
    _, r = reaction_on_bodies(system, equations, there, vdot, None)
    lam = (rule or MinimumNorm()).multipliers(system.machine, there, r) if system.machine.m else jnp.zeros(0)
    bodies = system.bodies
    if bodies is None:
        return Loads(r, lam, jnp.zeros((0, 0)), jnp.zeros((0, 0)))
    w = joint_wrenches(bodies, there, lam)
    pairs = ((w.force, w.torque), (w.joint_force, w.joint_torque))
    return Loads(r, lam, *(jnp.concatenate(pair, axis=1) for pair in pairs))
