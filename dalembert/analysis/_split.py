"""7 · analysis: motion split into admissible and constrained parts, efforts at an instant, actuators.

[Kövecses, Piedbœuf 2003]. W = L⁻¹(C L⁻¹)⁺ with M = LᵀL, P_c = W C, P_a = I − W C: M P_a and M P_c are symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array, Scalar
from dalembert.analysis._actuation import refuse_friction
from dalembert.equations import assemble, matrices
from dalembert.linalg import dense_of_blocks
from dalembert.model import Model
from dalembert.systems import AbstractSystem, State, build

TOLERANCE = 1e-8
"""Singular values below this share of the largest count as zero (rows of unit length in the mass metric)."""


class Projectors(eqx.Module):
    """P_a and P_c, the mass metric M they are orthogonal in, and W with P_c = W C."""

    P_a: Float[Array, "n n"]
    P_c: Float[Array, "n n"]
    M: Float[Array, "n n"]
    C: Float[Array, "m n"]
    W: Float[Array, "n m"]


def projectors(system: AbstractSystem | Model, state: State | tuple | None = None, *, t: Scalar = 0.0) -> Projectors:
    """The projectors onto admissible and constrained motion at (t, q) [Kövecses, Piedbœuf 2003, eq. 17].

    Redundant rows are normal. O(n m²) by singular values in the mass metric.
    """
    system, q, _ = _at(system, state)
    at = matrices(system, t, q)
    L = jnp.linalg.cholesky(at.mass.blocks)
    root = dense_of_blocks(jnp.linalg.inv(L).transpose(0, 2, 1))  # M⁻¹ = root rootᵀ
    rows = at.C @ root
    sizes = jnp.sqrt(jnp.sum(rows**2, axis=1))
    S = 1.0 / jnp.where(sizes > 0, sizes, 1.0)
    W = root @ jnp.linalg.pinv(S[:, None] * rows, rtol=TOLERANCE) * S
    P_c = W @ at.C
    return Projectors(jnp.eye(system.n) - P_c, P_c, dense_of_blocks(at.mass.blocks), at.C, W)


@dataclass(frozen=True)
class Split:
    """A velocity and its kinetic energy in two parts that do not couple: T = T_admissible + T_constrained."""

    admissible: np.ndarray
    constrained: np.ndarray
    energy_admissible: float
    energy_constrained: float


def split_motion(system: AbstractSystem | Model, state: State | tuple | None = None, *, t: float = 0.0) -> Split:
    """v = P_a v + P_c v and the kinetic energy of each part [Kövecses, Piedbœuf 2003, eqs. 21, 24].

    For a velocity that meets scleronomic rows the constrained part is zero; for rheonomic ones it is what the
    drivers impose.
    """
    system, q, v = _at(system, state)
    P = projectors(system, (q, v), t=t)
    a, c, M = (np.asarray(x) for x in (P.P_a @ v, P.P_c @ v, P.M))
    return Split(a, c, float(0.5 * a @ M @ a), float(0.5 * c @ M @ c))


@dataclass(frozen=True)
class Effort:
    """Actuator efforts for a motion: τ (`effort`), the generalised force B τ, and the constraint force r beside it."""

    effort: np.ndarray
    force: np.ndarray
    r: np.ndarray


def instant_efforts(
    system: AbstractSystem | Model, state: State | tuple | None, vdot, actuators, metric, t: float, tolerance: float
) -> Effort:
    """The efforts at one instant, with the actuators as columns B: see `inverse_dynamics`."""
    system, q, v = _at(system, state)
    refuse_friction(system)
    vdot = jnp.asarray(vdot, float)
    equations = assemble(system, t, q, v)
    P = projectors(system, (q, v), t=t)
    P_a, M, C, h = (np.asarray(x) for x in (P.P_a, P.M, P.C, equations.h))
    gap = C @ np.asarray(vdot) - np.asarray(equations.Gamma)
    # relative to the acceleration by the loads alone: a machine at rest has none to compare with
    typical = np.abs(np.asarray(vdot)) + np.abs(np.linalg.solve(M, h))
    reach = np.abs(C) @ typical + np.abs(np.asarray(equations.Gamma)) + np.finfo(float).tiny
    if system.m and np.max(np.abs(gap) / np.max(reach)) > max(tolerance, 1e-7):
        worst = system.owner_of(int(np.argmax(np.abs(gap)))).name
        raise DalembertError(f"The constraints do not allow this acceleration: the rows of '{worst}' are not met.")
    B = np.eye(system.n) if actuators is None else np.asarray(actuators, float)
    R = np.eye(B.shape[1]) if metric is None else np.asarray(metric, float)
    # scaled: forces in the metric M⁻¹, efforts in R
    root = np.linalg.inv(np.linalg.cholesky(M))
    half = np.linalg.inv(np.linalg.cholesky(R)).T
    A, needed = root @ P_a.T @ B @ half, root @ P_a.T @ (M @ np.asarray(vdot) - h)
    # the effect of an actuator along the constraints sets the scale: below it, it does not move the machine
    small = TOLERANCE * np.linalg.norm(root @ B @ half, 2) / max(np.linalg.norm(A, 2), np.finfo(float).tiny)
    effort = half @ (np.linalg.pinv(A, rcond=small) @ needed)
    left = needed - A @ np.linalg.solve(half, effort)
    size = np.linalg.norm(root @ M @ np.asarray(vdot)) + np.linalg.norm(root @ h)
    if np.linalg.norm(left) > max(tolerance, 1e-9) * max(size, np.finfo(float).tiny):
        freedoms = round(float(np.trace(P_a)))
        able = int(np.sum(np.linalg.svd(A, compute_uv=False) > TOLERANCE * np.linalg.norm(root @ B @ half, 2)))
        raise DalembertError(
            f"These actuators cannot make this motion: they move {able} of {freedoms} degrees of freedom, and "
            f"{np.linalg.norm(left) / size:.1e} of the needed force lies along the others. Add actuators."
        )
    force = B @ effort
    return Effort(effort, force, M @ np.asarray(vdot) - h - force)


@dataclass(frozen=True)
class ActuatorAuthority:
    """How well actuators move the admissible motion: singular values of P_aᵀB in the metric M⁻¹, largest first.

    `gains` are accelerations (in the mass metric) a unit effort makes; `able` of `freedoms` can be moved at all;
    `directions` are the admissible motions that go with them (columns, of unit energy norm).
    """

    gains: np.ndarray
    directions: np.ndarray
    able: int
    freedoms: int


def actuator_authority(
    system: AbstractSystem | Model, state: State | tuple | None, actuators, *, t: float = 0.0
) -> ActuatorAuthority:
    """P_aᵀM P_a and the actuator matrix B together [Kövecses, Piedbœuf 2003, below eq. 27]."""
    P = projectors(system, state, t=t)
    M, P_a = np.asarray(P.M), np.asarray(P.P_a)
    root = np.linalg.inv(np.linalg.cholesky(M))
    left, gains, _ = np.linalg.svd(root @ P_a.T @ np.asarray(actuators, float), full_matrices=False)
    freedoms = round(float(np.trace(P_a)))
    able = int(np.sum(gains > TOLERANCE * np.linalg.norm(root @ np.asarray(actuators, float), 2)))
    return ActuatorAuthority(gains, root.T @ left[:, :able], able, freedoms)


def _at(system: AbstractSystem | Model, state: State | tuple | None) -> tuple[AbstractSystem, Array, Array]:
    """The system, built if it is a model, and q and v; what is not given is that of its start."""
    system = build(system) if isinstance(system, Model) else system
    q, v = (None, None) if state is None else state
    q, v = system.q0 if q is None else q, system.v0 if v is None else v
    return system, jnp.asarray(q, float), jnp.asarray(v, float)
