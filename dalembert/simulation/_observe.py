"""6 · simulation: everything that is read off a state: accelerations, reactions, violation, energy, coordinates."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert._typing import Rows, Velocities
from dalembert.equations import assemble
from dalembert.formulations import AbstractFormulation
from dalembert.reactions import AbstractReactionRule, Wrenches, joint_wrenches
from dalembert.stabilise import row_sizes
from dalembert.systems import AbsoluteSystem, AbstractSystem


class Observation(eqx.Module):
    """What is known of the machine at one instant (or, with a leading axis, at many)."""

    vdot: Velocities
    r: Velocities
    lam: Rows
    wrenches: Wrenches | None
    coordinates: Float[Array, " joint_coordinates"]
    violation: Float[Array, " 3"]  # position, velocity, acceleration
    kinetic: Float[Array, ""]
    potential: Float[Array, ""]


def observe(
    system: AbstractSystem, formulation: AbstractFormulation, rule: AbstractReactionRule, t, q, v
) -> Observation:
    """All observables at one instant."""
    equations = assemble(system, t, q, v)
    acceleration = formulation.solve(equations)
    lam = rule.multipliers(system, equations, acceleration.r) if system.m else jnp.zeros(0)
    absolute = isinstance(system, AbsoluteSystem)
    return Observation(
        vdot=acceleration.vdot,
        r=acceleration.r,
        lam=lam,
        wrenches=joint_wrenches(system, equations, lam) if absolute else None,
        coordinates=_joint_coordinates(system, q) if absolute else jnp.zeros(0),
        violation=violation(system, equations, acceleration.vdot),
        kinetic=0.5 * v @ equations.mass.mv(v),
        potential=jnp.asarray(system.potential(t, q)),
    )


def _observe_all(system, formulation, rule, t, q, v) -> Observation:
    # one instant after the other: XLA's batched LAPACK kernels share its threads and have been seen to wait for
    # each other for ever on a machine with two cores
    return jax.lax.map(lambda state: observe(system, formulation, rule, *state), (t, q, v))


observe_all = eqx.filter_jit(_observe_all)
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
    typical = jnp.max(jnp.abs(vdot) / system.scale()) + jnp.max(jnp.abs(equations.Gamma) / sizes)
    top = [jnp.max(position, initial=0.0), jnp.max(jnp.abs(equations.phi) / sizes)]
    return jnp.stack([*top, jnp.max(gap) / jnp.maximum(typical, 1.0)])


def _joint_coordinates(system: AbsoluteSystem, q) -> Array:
    out = []
    for joint in system.joints:
        if joint.coordinates:
            i, j = system.joint_frames(joint, q)
            out += [function(i, j) for _, function in joint.coordinates]
    return jnp.stack(out) if out else jnp.zeros(0)


@eqx.filter_jit
def coordinate_rates(system: AbsoluteSystem, q, v) -> Float[Array, "times joint_coordinates"]:
    """Rates of the joint coordinates at many states."""

    def one(q, v):
        return jax.jvp(lambda x: _joint_coordinates(system, x), (q,), (system.qdot(q, v),))[1]

    return jax.vmap(one)(q, v)


def joint_coordinate_names(system: AbstractSystem) -> list[tuple[str, str]]:
    """(joint, coordinate) in the order of `Observation.coordinates`."""
    if not isinstance(system, AbsoluteSystem):
        return []
    return [(j.name, name) for j in system.joints for name, _ in j.coordinates]
