"""6b· results: everything computed from a state: accelerations, reactions, violation, energy, coordinates."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._typing import Array, Coordinates, MachineRows, MachineVelocities, Rows, Velocities
from dalembert.equations import Equations, assemble, bearing_sides
from dalembert.formulations import AbstractFormulation
from dalembert.reactions import (
    AbstractReactionRule,
    RequireUnique,
    Wrenches,
    joint_wrenches,
    on_bodies,
    reaction_on_bodies,
)
from dalembert.stabilise import row_sizes
from dalembert.systems import AbstractSystem, BodySystem, CoordinateView, compiled_for_each

AT_REST = 1e-8
"""Energies that change by less than this share of the machine's own count as rest: rounding (1e-16) then reads 1e-8."""
HELD = 1e-6
"""Share of all reactions that may be left unbalanced by the radial forces of teeth and belts."""


class Observation(eqx.Module):
    """What is known of the machine at one instant (or, with a leading axis, at many).

    `rates` is v̇ of the system's own velocities; q, v, `vdot` and `lam` are those of the machine in which reactions are
    stated: in joint coordinates its bodies' and all its joints'.
    """

    rates: Velocities
    vdot: MachineVelocities
    lam: MachineRows
    sides: MachineRows  # the contact side of each row, 0 for all but teeth and belts
    wrenches: Wrenches | None
    coordinates: Float[Array, " joint_coordinates"]
    violation: Float[Array, " 3"]  # position, velocity, acceleration
    kinetic: Float[Array, ""]
    potential: Float[Array, ""]
    sigma: Float[Array, " values"]  # singular values of the rows in the mass metric (large systems: 1, least)
    q: Coordinates
    v: MachineVelocities


def observe(
    system: AbstractSystem, formulation: AbstractFormulation, rule: AbstractReactionRule, t, q, v
) -> Observation:
    """All observables at one instant."""
    equations = assemble(system, t, q, v)
    own = formulation.solve(equations)
    machine, there = system.machine, on_bodies(system, equations)  # in which reactions are stated
    vdot, r = reaction_on_bodies(system, equations, there, own.vdot, own.r)
    cut = jnp.zeros(0)
    if machine is not system and isinstance(rule, RequireUnique) and system.m:
        cut = rule.multipliers(system, equations, own.r)
    lam = _multipliers(system, rule, there, r, cut)
    sides = jnp.zeros(machine.m)
    bodies = system.bodies
    wrenches = None if bodies is None else joint_wrenches(bodies, there, lam)
    if machine.sided:
        sides, (lam, wrenches) = _on_sides(system, rule, there, r, cut, lam, wrenches)
    return Observation(
        rates=own.vdot,
        vdot=vdot,
        lam=lam,
        sides=sides,
        wrenches=wrenches,
        coordinates=jnp.zeros(0) if bodies is None else joint_coordinates(bodies, there.q),
        violation=violation(machine, there, vdot),
        kinetic=0.5 * v @ equations.mass.mv(v),
        potential=jnp.asarray(system.potential(t, q)),
        sigma=_singular_values(equations),
        q=there.q,
        v=there.v,
    )


def _singular_values(equations) -> Array:
    if equations.rows.pattern.m == 0:
        return jnp.ones(1)
    saddle = equations.factorise()
    if equations.klu is not None:
        margin = saddle.attempt(equations.h, equations.Gamma).margin
        return jnp.stack([jnp.ones(()), jnp.sqrt(jnp.clip(margin, 0.0, 1.0))])
    return saddle.singular_values()


def _multipliers(system: AbstractSystem, rule: AbstractReactionRule, bodies: Equations, r, cut) -> Rows:
    """λ of the machine's rows; `cut` are those of the joints that close loops, where they are unique."""
    if system.machine is not system and isinstance(rule, RequireUnique):
        return system.multipliers_of_machine(bodies.q, bodies.rows, r, cut)
    return rule.multipliers(system.machine, bodies, r) if system.machine.m else jnp.zeros(0)


def _on_sides(system: AbstractSystem, rule, bodies: Equations, r, cut, lam, wrenches):
    """The same with teeth and belts in contact on the side of their load: the sides, and λ and wrenches."""
    wanted = np.zeros(len(lam))
    wanted[[row for _, row in system.machine.sided]] = 1.0
    sides = wanted * bearing_sides(lam)
    loaded = system.with_sides(sides)
    rows = assemble(loaded.machine, bodies.t, bodies.q, bodies.v)
    there = _multipliers(loaded, rule, rows, r, cut)
    # where the wheels' centres are not held the radial force would have no counterpart
    scale = system.machine.scale()
    left, whole = ((x * scale) @ (x * scale) for x in (r - rows.rows.rmv(there), r))
    held = left <= HELD**2 * whole
    assert loaded.bodies is not None
    found = (there, joint_wrenches(loaded.bodies, rows, there))
    picked = jax.tree_util.tree_map(lambda a, b: jnp.where(held, a, b), found, (lam, wrenches))
    return jnp.where(held, sides, 0.0), picked


observe_all = compiled_for_each(observe, 3)
"""`observe` at many instants, compiled."""


def violation(system: AbstractSystem, equations, vdot) -> Float[Array, " 3"]:
    """The largest violation at the three levels, each row measured by the machine's own size.

    Position: |Φ|/size. Velocity: |φ|/size, in 1/s. Acceleration: |C v̇ − Γ|/size, relative to the largest
    acceleration in the same measure (to 1 where nothing accelerates).
    """
    if system.m == 0:
        return jnp.zeros(3)
    sizes = row_sizes(system, equations)
    position = jnp.abs(equations.Phi) / sizes[: system.m_holonomic]
    gap = jnp.abs(equations.rows.mv(vdot) - equations.Gamma) / sizes
    typical = jnp.max(jnp.abs(vdot) / system.scale(), initial=0.0) + jnp.max(jnp.abs(equations.Gamma) / sizes)
    top = [jnp.max(position, initial=0.0), jnp.max(jnp.abs(equations.phi) / sizes)]
    return jnp.stack([*top, jnp.max(gap) / jnp.maximum(typical, 1.0)])


def joint_coordinates(system: BodySystem, q) -> Array:
    """The coordinates of all joints, in the order of `coordinate_views`."""
    out = []
    for joint in system.joints:
        if joint.coordinates:
            i, j = system.joint_frames(joint, q)
            out += [x.function(i, j) for x in joint.coordinates]
    return jnp.stack(out) if out else jnp.zeros(0)


def rates_at(system: BodySystem, q, v) -> Float[Array, " joint_coordinates"]:
    """Rates of the joint coordinates at one state."""
    return jax.jvp(lambda x: joint_coordinates(system, x), (q,), (system.qdot(q, v),))[1]


coordinate_rates = compiled_for_each(rates_at, 2)
"""Rates of the joint coordinates at many states."""


def coordinate_views(system: AbstractSystem) -> list[tuple[str, CoordinateView]]:
    """Joints and their coordinates, in the order of `Observation.coordinates`."""
    return [] if system.bodies is None else [(j.name, x) for j in system.bodies.joints for x in j.coordinates]


def energies(observed: Observation, W) -> dict[str, Any]:
    """Kinetic, potential and total energy, work done (from `W`), and `drift`: what the balance is off by; of one
    motion, which may be traced."""
    T, V = observed.kinetic, observed.potential
    total = T + V
    work, driven = W[:, 0] - W[0, 0], W[:, 1] - W[0, 1]
    values = {"kinetic": T, "potential": V, "total": total, "work": work, "work_of_constraints": driven}
    return values | {"drift": total - total[0] - work - driven}


def energy_drift(energies: dict[str, np.ndarray], start: Equations, system: AbstractSystem) -> float:
    """The largest |drift| relative to the energy that moves, or to `AT_REST` of the machine's own."""
    kinds = ("kinetic", "potential", "work", "work_of_constraints")
    moving = max(np.max(energies["kinetic"]), *(np.ptp(energies[k]) for k in kinds))
    loads = float(np.sum(np.abs(np.asarray(start.h)) * np.asarray(system.scale())))
    own = max(loads, *(np.max(np.abs(energies[k])) for k in kinds))
    return float(np.max(np.abs(energies["drift"])) / max(moving, AT_REST * own, np.finfo(float).tiny))
