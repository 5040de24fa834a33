"""7 · analysis: the linear equations of small motions: one Jacobian in all coordinates, then minimal coordinates.

Small displacements (δq, δv), in the sense of `retract`, controllers' states δz and inputs δu change the accelerations,
the rates of the states and what is measured. Rows limit the displacements: C_h δq = 0 (holonomic rows) and
∂φ/∂q δq + C δv = 0 (all rows). With constant E_q, E_v and a largest set of independent rows

    [C_h; E_q] X_q = [0; 1],   [C; E_v] X_v = [0; 1],   [C; E_v] S = [−∂φ/∂q X_q; 0]
    δq = X_q x_q,   δv = S x_q + X_v x_v,   x = (E_q δq, E_v δv, δz)

are minimal coordinates that are smooth in all parameters. E_q and E_v are chosen on the host so that X_q and X_v are
orthonormal in the mass metric there. Equations: docs/theory/linearisation.md.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._typing import Array, Rows, Velocities
from dalembert.equations import Equations, assemble, residuals
from dalembert.formulations import Proximal
from dalembert.reactions import AbstractReactionRule, Instant, loads_of
from dalembert.stabilise import row_sizes
from dalembert.systems import AbstractSystem, Known, compiled_quickly


class Asked(eqx.Module):
    """Whose changes and what is asked for, by number: inputs of the model, measured positions along which an effort
    acts, measured numbers; `states` are the numbers at the end of q that move by themselves."""

    inputs: tuple[int, ...] = eqx.field(static=True, default=())
    efforts: tuple[int, ...] = eqx.field(static=True, default=())
    outputs: tuple[int, ...] = eqx.field(static=True, default=())
    states: tuple[int, ...] = eqx.field(static=True, default=())
    transmitted: bool = eqx.field(static=True, default=False)  # whether an output is one of reactions
    rule: AbstractReactionRule | None = None

    @property
    def width(self) -> int:
        """Number of inputs."""
        return len(self.inputs) + len(self.efforts)


class Jacobians(NamedTuple):
    """Derivatives by (δq, δv, δz, δu), and what they are derivatives of."""

    vdot: Float[Array, "n columns"]
    zdot: Float[Array, "states columns"]
    y: Float[Array, "outputs columns"]
    Phi: Float[Array, "holonomic n"]  # by δq
    phi: Float[Array, "m twon"]  # by (δq, δv)
    driven: Float[Array, "rows inputs"]  # of Φ and φ by δu: zero unless an input moves a driver
    M: Float[Array, "n n"]
    acceleration: Velocities
    free: Velocities  # the accelerations without constraints
    rates: Float[Array, " states"]
    values: Float[Array, " outputs"]
    held: Rows  # Φ and φ
    sizes: Rows  # of the rows
    kept: Rows  # 1 for rows that motions change; 0 for those that the joints of a tree satisfy by themselves


@compiled_quickly
def jacobians(system: AbstractSystem, asked: Asked, t, q, v) -> Jacobians:
    """All derivatives of a state; frames go with each body but do not spin with it (`spin_terms`)."""
    n, nz, picked = system.n, len(asked.states), np.array(asked.states, int)

    def moved(d):
        """The system, q and v after a change, and the efforts."""
        u = d[2 * n + nz :]
        own, z = system.split(system.retract(q, d[:n]))
        there = with_added(system, asked, u)
        return (
            there,
            system.and_states(own, jnp.asarray(z).at[picked].add(d[2 * n : 2 * n + nz]) if nz else z),
            v + d[n : 2 * n],
            u,
        )

    def changes(d):
        there, q, v, u = moved(d)
        equations, applied = _with_efforts(there, asked, assemble(there, t, q, v), u)
        vdot = Proximal().solve(equations).vdot
        known = Known(there, t, q, v, vdot)
        rates = there.control.rates(known)[picked] if nz else jnp.zeros(0)
        if not asked.outputs:
            return (vdot, rates, jnp.zeros(0)), equations
        loads = loads_of(there, equations, vdot, asked.rule, applied) if asked.transmitted else None
        return (vdot, rates, there.measured(t, q, v, vdot, loads, only=asked.outputs)), equations

    def held(d):
        there, q, v, _ = moved(d)
        return residuals(there, t, q, v)

    zero = jnp.zeros(2 * n + nz + asked.width)
    (acceleration, rates, values), equations = changes(zero)
    vdot, zdot, y = jax.jacfwd(lambda d: changes(d)[0])(zero)
    spin = system.spin_terms(v)
    if spin is not None:
        vdot = vdot.at[:, n : 2 * n].add(spin)
    Phi, phi = jax.jacfwd(held)(zero)
    driven = jnp.concatenate([Phi, phi])[:, 2 * n + nz :]
    return Jacobians(
        vdot, zdot, y, Phi[:, :n], phi[:, : 2 * n], driven, equations.M, acceleration,
        equations.mass.solve(equations.h), rates, values, jnp.concatenate(held(zero)),
        row_sizes(system, equations), jnp.any(equations.C != 0, axis=1).astype(float),
    )  # fmt: skip


def with_added(system: AbstractSystem, asked: Asked, u) -> AbstractSystem:
    """The system with its inputs changed."""
    if not asked.inputs:
        return system
    control = system.control
    added = jnp.zeros(len(control.sources)).at[np.array(asked.inputs)].add(u[: len(asked.inputs)])
    return system.with_control(dataclasses.replace(control, added=added))


def _with_efforts(system: AbstractSystem, asked: Asked, equations: Equations, u) -> tuple[Equations, Any]:
    """The equations with efforts along measured positions, and these as a force on the machine's velocities."""
    if not asked.efforts:
        return equations, None
    machine, q = system.machine, system.lift(equations.q, equations.v).q
    effort = u[len(asked.inputs) :]

    def work(delta):
        at = machine.retract(q, delta)
        return effort @ machine.measured(equations.t, at, jnp.zeros(machine.n), only=asked.efforts)

    # forward: the derivative of this by q is taken forward as well
    applied = jax.jacfwd(work)(jnp.zeros(machine.n))
    return dataclasses.replace(equations, h=equations.h + system.pull_back(equations.q, applied)), applied


class StateSpace(NamedTuple):
    """ẋ = A x + B u, y = C x + D u."""

    A: Float[Array, "x x"]
    B: Float[Array, "x inputs"]
    C: Float[Array, "outputs x"]
    D: Float[Array, "outputs inputs"]


class Minimal(eqx.Module):
    """The choice of minimal coordinates x = (E_q δq, E_v δv, δz) and of independent rows, made once on the host."""

    E_q: Float[Array, "positions n"]
    E_v: Float[Array, "velocities n"]
    sizes: Rows
    holonomic: tuple[int, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)
    turned: Float[Array, "n n"] | None = None  # rates by which displacements turn with the machine

    @classmethod
    def of(cls, instant: Instant, found: Jacobians, turned: np.ndarray | None = None) -> Minimal:
        """Coordinates that are orthonormal in the mass metric at this state."""
        h, e = instant.system.m_holonomic, instant.equations
        every, M = instant.dependence, np.asarray(found.M)
        L = np.linalg.cholesky(M)
        sizes = np.asarray(every.sizes)

        def chosen(rows: np.ndarray, rank: int) -> tuple[np.ndarray, tuple[int, ...]]:
            """Eᵀ = M X of a basis X, and independent rows."""
            import scipy.linalg

            if len(rows) == 0 or len(M) == 0:
                return L.T, ()
            scaled = scipy.linalg.solve_triangular(L, (rows / sizes[: len(rows), None]).T, lower=True).T
            pivots = scipy.linalg.qr(scaled.T, mode="economic", pivoting=True)[-1]
            null = np.linalg.svd(scaled)[2][rank:]
            return null @ L.T, tuple(sorted(int(k) for k in pivots[:rank]))

        C = np.asarray(found.phi)[:, len(M) :]
        E_v, rows = chosen(C, every.rank)
        if h == len(C):
            return cls(E_v, E_v, sizes, rows, rows, turned)
        E_q, holonomic = chosen(C[:h], e.dependence(slice(h), instant.tolerance).rank if h else 0)
        return cls(E_q, E_v, sizes, holonomic, rows, turned)

    def rotated(self, U: np.ndarray) -> Minimal:
        """The same with the displacements X U, for positions and for velocities; U is orthonormal."""
        return dataclasses.replace(self, E_q=U.T @ np.asarray(self.E_q), E_v=U.T @ np.asarray(self.E_v))

    @property
    def counts(self) -> tuple[int, int]:
        """Number of positions and of velocities in x."""
        return self.E_q.shape[0], self.E_v.shape[0]

    def bases(self, found: Jacobians) -> tuple[Array, Array, Array]:
        """X_q, X_v and S."""
        xp = np if isinstance(found.M, np.ndarray) else jnp
        n = found.M.shape[0]
        nq, nv = self.counts
        scale = self.sizes[:, None]
        picked, held = np.array(self.rows, int), np.array(self.holonomic, int)
        all_rows = xp.concatenate([(found.phi[:, n:] / scale)[picked], self.E_v])
        X_v = xp.linalg.solve(all_rows, xp.concatenate([xp.zeros((len(picked), nv)), xp.eye(nv)]))
        if self.holonomic == self.rows and nq == nv:
            X_q = X_v
        else:
            some = xp.concatenate([(found.Phi / scale[: len(found.Phi)])[held], self.E_q])
            X_q = xp.linalg.solve(some, xp.concatenate([xp.zeros((len(held), nq)), xp.eye(nq)]))
        change = (found.phi[:, :n] / scale)[picked] @ X_q
        S = xp.linalg.solve(all_rows, xp.concatenate([-change, xp.zeros((nv, nq))]))
        return X_q, X_v, S

    def matrices(self, found: Jacobians) -> StateSpace:
        """A, B, C and D."""
        xp = np if isinstance(found.M, np.ndarray) else jnp
        n, nz = found.M.shape[0], found.zdot.shape[0]
        nq, nv = self.counts
        X_q, X_v, S = self.bases(found)
        none = xp.zeros
        shape = xp.concatenate(
            [
                xp.concatenate([X_q, none((n, nv + nz))], axis=1),
                xp.concatenate([S, X_v, none((n, nz))], axis=1),
                xp.concatenate([none((nz, nq + nv)), xp.eye(nz)], axis=1),
            ]
        )
        inside = 2 * n + nz
        upward = self.E_q @ shape[n : 2 * n]
        if self.holonomic == self.rows and nq == nv:  # E_q X_v is the identity, without rounding
            upward = xp.concatenate([self.E_q @ S, xp.eye(nq), none((nq, nz))], axis=1)
        across = self.E_v @ (found.vdot[:, :inside] @ shape)
        if self.turned is not None:
            upward = upward - self.E_q @ self.turned @ shape[:n]
            across = across - self.E_v @ self.turned @ shape[n : 2 * n]
        width = found.vdot.shape[1] - inside
        return StateSpace(
            xp.concatenate([upward, across, found.zdot[:, :inside] @ shape]),
            xp.concatenate([none((nq, width)), self.E_v @ found.vdot[:, inside:], found.zdot[:, inside:]]),
            found.y[:, :inside] @ shape,
            found.y[:, inside:],
        )
