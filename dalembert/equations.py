"""3 · the narrow waist: `Equations` and `assemble`, whatever the system is.

A system gives its terms (`AbstractSystem.terms`); here they become the equations that any formulation solves. Friction
by joint loads is an applied force and part of h: `assemble` adds it, and refuses a system for which it has not been
checked whether these loads are unique. Equations (3.1)–(3.7): docs/theory/equations.md.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array, Coordinates, HolonomicRows, Rows, Scalar, Velocities, is_traced
from dalembert.complements import Local
from dalembert.linalg import (
    EPS,
    KLU,
    RANK_TOLERANCE,
    BlockMass,
    BlockRows,
    DenseSaddle,
    Dependence,
    SparseSaddle,
    factorise,
)
from dalembert.loads import Loads, bearing_names, solve_loads
from dalembert.systems import AbstractSystem, BodySystem, compiled, compiled_quickly, friction_efforts

ROUNDED = 3e-16
"""Violations below this, relative to the machine, are round-off and not corrected."""
SOFT, SOFTEST = 1.0, 1e-9
"""Damping over violation, and the largest damping."""
LEAST = 1e-11
"""Least damping of a correction in a march. A state is known to eps/σ and its tangent to eps/σ² along a direction of
size σ; along one that is always so weak a violation is as small as σ itself."""

ELSEWHERE = 1e-5
"""Share of the largest acceleration by loads anywhere in a machine that counts for each of its coordinates."""


def softened(gap: Scalar, least: Scalar | float = EPS, usual: Scalar | float = 1.0) -> Scalar:
    """The damping of a correction of a state that is off its constraints by `gap`, for rows of a `usual` margin."""
    return jnp.maximum(EPS, usual * jnp.maximum(least, jnp.minimum(SOFT * gap, SOFTEST)))


class Equations(eqx.Module):
    """All that any formulation needs at one instant: M v̇ = h + Cᵀλ, C v̇ = Γ, and the residuals Φ, φ.

    `mass` and `rows` are the structured M and C; `M` and `C` are the same as dense arrays, for small systems.
    """

    t: Scalar
    q: Coordinates
    v: Velocities
    mass: BlockMass
    h: Velocities  # applied forces and velocity-dependent inertia terms
    Phi: HolonomicRows
    rows: BlockRows
    phi: Rows
    Gamma: Rows
    klu: KLU | None
    local: Local | None = None  # C = Ĉ J, where the system provides the factors
    share: Rows | None = None  # norm of each row relative to that on bodies: `Constraints`

    @property
    def M(self) -> Float[Array, "n n"]:
        return self.mass.dense()

    @property
    def C(self) -> Float[Array, "m n"]:
        return self.rows.dense()

    @property
    def b(self) -> Rows:
        return self.phi - self.rows.mv(self.v)

    def dependence(self, rows: Any = slice(None), tolerance: float = RANK_TOLERANCE) -> Dependence:
        """Which rows depend on each other, all or some of them; on the host."""
        share = None if self.share is None else np.asarray(self.share)[rows]
        return Dependence(np.asarray(self.C)[rows], np.asarray(self.mass.blocks), tolerance, share)

    def violations(self, scale: Velocities) -> tuple[Scalar, Scalar]:
        """How far the state is off its constraints in position and in velocity: Φ and φ in the mass metric, relative
        to the machine (`scale`) and to its speed.

        So measured they compare with singular values of the rows: a violation e turns their directions by e/σ.
        """
        Phi, phi, v = self.Phi, self.phi, self.v
        S = self._row_scale()
        size = jnp.sqrt(scale @ self.mass.mv(scale))
        speed = jnp.sqrt(jnp.abs(v @ self.mass.mv(v)))
        position = jnp.max(jnp.abs(S[: len(Phi)] * Phi), initial=0.0) / size
        velocity = jnp.max(jnp.abs(S * phi), initial=0.0) / (size + speed)
        return jax.lax.stop_gradient((position, velocity))

    def violation(self, scale: Velocities) -> Scalar:
        """The larger of `violations`."""
        return jnp.maximum(*self.violations(scale))

    def corrected(
        self, system: AbstractSystem, gap: Scalar, wanted, usual: Scalar | float = 1.0
    ) -> tuple[Coordinates, Velocities]:
        """(q, v) after one correction towards the constraints, where `wanted`.

        Levenberg–Marquardt in the mass metric: a damping in proportion to the violation, and to the `usual` margin of
        the rows, keeps the step bounded beside a singular position and lets it converge quadratically elsewhere.
        """
        factor = self.factorise(shift=softened(gap, LEAST, usual))
        if len(self.Phi) == len(self.phi):  # one factorisation serves both
            dq, dv = -factor.correct(jnp.stack([self.Phi, self.phi], axis=1)).T
        else:
            positions = factor.leading(len(self.Phi))
            dq = -positions.correct(self.Phi[:, None])[:, 0] if len(self.Phi) else jnp.zeros(system.n)
            dv = -factor.correct(self.phi[:, None])[:, 0]
        position, velocity = self.violations(system.scale())
        q = system.retract(self.q, jnp.where(wanted & (position > ROUNDED), dq, 0.0))
        return jnp.where(wanted, q, self.q), jnp.where(wanted & (velocity > ROUNDED), self.v + dv, self.v)

    def _row_scale(self) -> Rows:
        """S: a row over it has length one (or `share`) in the mass metric."""
        squares = self.rows.weighted_square(self.mass.inverse)
        return (1.0 if self.share is None else self.share) / jnp.sqrt(jnp.where(squares > 0, squares, 1.0))

    def factorise(self, kept: Rows | None = None, **options) -> DenseSaddle | SparseSaddle:
        """The factorised saddle-point problem of M and C; with `kept` (1 or 0 per row) of some rows only."""
        share = kept if self.share is None else self.share if kept is None else self.share * kept
        return factorise(self.mass, self.rows, self.klu, share, **options)


def assemble(system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> Equations:
    """The equations of motion of a system at (t, q, v): M v̇ = h + Cᵀλ, C v̇ = Γ.

    **Arguments**: `system`; `t` a number; `q` (nq) and `v` (n), which need not meet the constraints.

    **Returns** an `Equations`; under jit, vmap and grad, too. A system with friction by joint loads must have been
    prepared (`prepare`): it is refused while it is not known whether these loads are unique. Docs: theory/equations.md.

        >>> import dalembert as da
        >>> system = da.build(da.mechanism("four-bar"))
        >>> at = da.assemble(system, 0.0, system.q0, system.v0)
        >>> at.M.shape, at.C.shape
        ((9, 9), (8, 9))
    """
    refuse_undecided(system)
    found = assemble_known(system, t, q, v)
    return jax.device_put(found) if isinstance(found.h, np.ndarray) else found


def refuse_undecided(system: AbstractSystem) -> None:
    """An error where h depends on friction whose joint load, or whose sticking, has not been decided."""
    bodies = system.bodies
    if bodies is not None and bodies.bearings and not bodies.loads_decided:
        raise DalembertError(
            f"Friction '{bearing_names(bodies)[0]}' depends on a joint's load, and it has not been checked whether "
            "that load is unique. Call system = da.prepare(system).system first, outside jit, vmap and grad."
        )
    if not system.phases_stated:
        raise DalembertError(
            f"Friction '{system.sticking[0]}' of '{system.name}' sticks or slips, which da.simulate finds along a "
            "motion; a single state does not decide it. State it (system.with_phases), or take friction or "
            "bearing_friction, which are regularised laws."
        )


def assemble_known(system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> Equations:
    """`assemble`, except that h lacks the friction by joint loads until these are known to be unique or have a rule:
    for whatever needs only M and the rows, and for finding out whether the loads are unique. Of numbers on the host it
    is made of NumPy arrays."""
    return _assemble(system, t if is_traced(t) else np.asarray(t, float), q, v)


# compiled, and so traced once for all callers: tracing is most of the waiting time
@compiled_quickly
def _assemble(system: AbstractSystem, t, q, v) -> Equations:
    equations = _without_loads(system, t, q, v)
    bodies = system.bodies
    if bodies is None or not bodies.bearings or not bodies.loads_decided:
        return equations
    # the loads of all joints are computed on the bodies
    on_bodies = equations if bodies is system else _without_loads(bodies, t, *system.lift(q, v))
    friction = system.pull_back(q, _loads(bodies, on_bodies).force)
    return dataclasses.replace(equations, h=equations.h + friction)


@compiled_quickly
def loads_at(system: AbstractSystem, t, q, v) -> Loads:
    """The loads of all bearings, and whether they could be found: to say why a motion has ended."""
    bodies = system.bodies
    assert bodies is not None  # they have bearings
    return _loads(bodies, _without_loads(bodies, t, *system.lift(q, v)))


class Rubbing(eqx.Module):
    """Dry friction that sticks at one instant, in the order of `system.sticking`: the coordinates, their rates and
    accelerations, the sizes of what these are differences of (`speeds`, `forces`), and `friction_efforts`."""

    value: Float[Array, " frictions"]
    rate: Float[Array, " frictions"]
    acceleration: Float[Array, " frictions"]
    speeds: Float[Array, " frictions"]
    forces: Float[Array, " frictions"]
    held: Float[Array, " frictions"]
    slipping: Float[Array, " frictions"]


def rubbing_at(system: AbstractSystem, equations: Equations, vdot: Velocities) -> Rubbing:
    """Where and how fast the coordinates with dry friction that sticks are, and what friction bears there."""
    t, q, v = equations.t, equations.q, equations.v

    def rates(q, v):
        return jax.jvp(system.sticking_values, (q,), (system.qdot(q, v),))[1]

    rate, acceleration = jax.jvp(rates, (q, v), (system.qdot(q, v), vdot))
    along = jnp.abs(jax.jacfwd(lambda v: rates(q, v))(v))
    loads, scale = jnp.abs(equations.mass.solve(equations.h)), system.scale()
    # a weight acts on a coordinate by reactions alone: its share is what rounding may be measured by
    typical = jnp.abs(vdot) + loads + ELSEWHERE * scale * jnp.max(loads / scale, initial=0.0)
    bodies = system.bodies
    assert bodies is not None  # they have friction
    at = system.lift(q, v)
    pressed = _loads(bodies, _without_loads(bodies, t, *at)).load if bodies.bearings else None
    efforts = friction_efforts(bodies.driven(t, *at), t, rate, pressed)
    return Rubbing(system.sticking_values(q), rate, acceleration, along @ jnp.abs(v), along @ typical, *efforts)


def _loads(system: BodySystem, equations: Equations) -> Loads:
    """The loads of all bearings; teeth and belts are in contact on the side given by the sign of their own force."""
    found = solve_loads(system, equations)
    for _ in range(2 if system.sided else 0):  # at first without knowing the sides, then without friction's share
        system = system.with_sides(bearing_sides(found.lam))
        found = solve_loads(system, _without_loads(system, equations.t, equations.q, equations.v))
    return found


def bearing_sides(lam: Rows) -> Rows:
    """+1 or −1 for each row, by the sign of its multiplier: see `AbstractSystem.with_sides`."""
    return jax.lax.stop_gradient(jnp.where(lam < 0, -1.0, 1.0))


def _without_loads(system: AbstractSystem, t, q, v) -> Equations:
    """The equations without the friction that depends on joint loads."""
    mass, force, c, local = system.terms(t, q, v)
    return Equations(t, q, v, mass, force, c.Phi, c.rows, c.phi, c.Gamma, system.klu, local, c.share)


class Matrices(eqx.Module):
    """What depends on (t, q) alone: M, C, b, and C = Ĉ J where the system provides it; or the rates of all these."""

    mass: BlockMass
    C: Float[Array, "m n"]
    b: Rows
    local: Local | None

    def rates(self, system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> Matrices:
        """Ṁ, Ċ, ḃ (and Ĵ, …) along the motion (1, N v)."""
        along = (jnp.ones(()), system.qdot(q, v))
        return jax.jvp(lambda t, q: matrices(system, t, q), (jnp.asarray(t, float), q), along)[1]


@compiled
def matrices(system: AbstractSystem, t: Scalar, q: Coordinates, joints: bool = False) -> Matrices:
    """M, C and b at (t, q), dense, with derivatives: what a complement is made of; with `joints` C = Ĉ J of a model."""
    return Matrices(*system.matrices(jnp.asarray(t, float), q, joints))


def stiffness(system: AbstractSystem, t: Scalar, q: Coordinates, lam: Rows) -> Float[Array, "n n"]:
    """K = −∂(h + Cᵀλ)/∂q with nothing moving and λ held: the stiffness of the forces, and the geometric one, by which
    reactions turn with the bodies that they act on. Columns are displacements in the sense of `retract`."""

    def force(delta):
        equations = assemble_known(system, t, system.retract(q, delta), jnp.zeros(system.n))
        return equations.h + equations.rows.rmv(lam)

    return -jax.jacfwd(force)(jnp.zeros(system.n))


def residuals(system: AbstractSystem, t: Scalar, q: Coordinates, v: Velocities) -> tuple[HolonomicRows, Rows]:
    """Φ(t, q) and φ(t, q, v) without C: what a correction needs after the directions are frozen."""
    if system.m == 0:
        return jnp.zeros(0), jnp.zeros(0)
    return _residuals(system, jnp.asarray(t, float), q, v)


@compiled_quickly
def _residuals(system: AbstractSystem, t, q, v) -> tuple[HolonomicRows, Rows]:
    return system.residuals(t, q, v)
