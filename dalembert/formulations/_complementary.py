"""5 · formulations: on a complement D of C. The null-space form in v, and those in tangent velocities u.

While marching, the choice of the complement (E and the rows that represent all) is a memory that is kept as long as it
is well conditioned; it is made again, inside the compiled program, when its quality falls to `RENEW` of what it was.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array
from dalembert.complements import LU, AbstractComplement, Choice, Riemannian
from dalembert.equations import Equations, Matrices, assemble, matrices
from dalembert.formulations._base import AbstractFormulation, Motion, with_reaction, with_rhs
from dalembert.linalg import BlockMass, blocks_times

RENEW = 0.5
"""A choice is made again when its quality has fallen below this share of what it was when chosen."""


class _OnComplement(AbstractFormulation):
    """What all formulations on a complement share: its rank, and a choice that is kept while it is good."""

    complement: eqx.AbstractVar[AbstractComplement]
    needs_rank: ClassVar[bool] = True

    def with_ranks(self, ranks):
        return dataclasses.replace(self, complement=self.complement.with_rank(ranks.rows))

    def _at(self, system, t, q) -> Matrices:
        return matrices(system, t, q, joints=self.complement.uses_local)

    def _choose(self, at: Matrices) -> Choice:
        return self.complement.choose(at.C, at.mass, at.local)

    def _renewed(self, at: Matrices, choice: Choice) -> Choice:
        """The choice, made again if its conditioning requires it."""
        quality = self.complement.quality(at.C, at.mass, choice, at.local)
        good = quality >= RENEW * choice.quality
        return jax.lax.cond(good, lambda: choice, lambda: self._choose(at))


class NullSpace(_OnComplement):
    """[DᵀM; C] v̇ = [Dᵀh; Γ]: reaction-free equations mixed with the constraints, in all velocities.

    [Blajer, Bestle, Schiehlen 1994, eqs. 5, 6; Wojtyra, Frączek 2013, eq. 13]. Ḋ is not needed, and a change of D does
    not change the state. One n × n LU beside the complement.
    """

    complement: AbstractComplement = LU()

    def solve(self, equations):
        choice = self.complement.choose(equations.C, equations.mass, equations.local)
        return self._solve(equations, choice)

    def _solve(self, equations: Equations, choice: Choice):
        mass, C = equations.mass, equations.C
        D, _ = self.complement.complete(C, mass, choice, equations.local)
        s = jnp.sqrt(jnp.diagonal(mass.blocks, axis1=1, axis2=2).ravel())
        A = jnp.concatenate([choice.pick(C), blocks_times(mass.blocks, D).T]) / s
        rhs = jnp.concatenate([choice.pick(equations.Gamma), D.T @ equations.h])
        sizes = jnp.sqrt(jnp.sum(A * A, axis=1))
        vdot = jnp.linalg.solve(A / sizes[:, None], rhs / sizes) / s
        return with_reaction(equations, vdot)

    def pack(self, system, t, q, v):
        return v, self._choose(self._at(system, t, q))

    def repack(self, system, t, q, v, memory):
        return v, self._renewed(self._at(system, t, q), memory)

    def motion(self, system, t, q, w, memory, rhs, *, exact=False, loop="lax"):
        equations = with_rhs(assemble(system, t, q, w), rhs)
        if self.complement.uses_local:
            local = self._at(system, t, q).local
            equations = eqx.tree_at(lambda e: e.local, equations, local, is_leaf=lambda x: x is None)
        acceleration = self._solve(equations, memory)
        return Motion(equations, acceleration.vdot, acceleration)


class TangentMemory(eqx.Module):
    """The choice that u refers to, and a typical size of each u."""

    choice: Choice
    scale: Float[Array, " k"]


class _Tangent(_OnComplement):
    """Kinetic equations in tangent velocities u, v = D u − X b."""

    tangent: ClassVar[bool] = True

    @abstractmethod
    def _kinetic(self, D: Float[Array, "n k"], mass: BlockMass, force: Float[Array, " n"]) -> Float[Array, " k"]:
        """(DᵀMD)⁻¹Dᵀ force."""

    def solve(self, equations):
        C, mass = equations.C, equations.mass
        choice = self.complement.choose(C, mass, equations.local)
        D, X = self.complement.complete(C, mass, choice, equations.local)
        # at one instant any γ with C γ = Γ gives the same v̇; X Γ is the one of a basis that turns least
        bias = X @ choice.pick(equations.Gamma)
        vdot = D @ self._kinetic(D, mass, equations.h - mass.mv(bias)) + bias
        return with_reaction(equations, vdot)

    def pack(self, system, t, q, v):
        at = self._at(system, t, q)
        return self._expressed(system, at, v, self._choose(at))

    def repack(self, system, t, q, v, memory):
        at = self._at(system, t, q)
        return self._expressed(system, at, v, self._renewed(at, memory.choice))

    def _expressed(self, system, at: Matrices, v, choice: Choice):
        """u of v, (4.7) or (4.7a), and how large each u typically is."""
        completion = self.complement.complete(at.C, at.mass, choice, at.local)
        on = v + completion.X @ choice.pick(at.b)
        u = self.complement.tangential(completion, at.mass, on)
        scale = system.scale()
        each = jax.vmap(lambda x: self.complement.tangential(completion, at.mass, x), out_axes=1)(jnp.diag(scale))
        size = jax.lax.stop_gradient(jnp.sqrt(jnp.sum(each**2, axis=1)))
        return u, TangentMemory(choice, size)

    def unpack(self, system, t, q, w, memory):
        at = self._at(system, t, q)
        D, X = self.complement.complete(at.C, at.mass, memory.choice, at.local)
        return q, D @ w - X @ memory.choice.pick(at.b)

    def motion(self, system, t, q, w, memory, rhs, *, exact=False, loop="lax"):
        choice, complement = memory.choice, self.complement
        if isinstance(complement, Riemannian) and complement.algorithm == "householder" and system.constant_mass:
            return self._turned(system, t, q, w, choice, complement)
        if complement.holds_E(choice):
            at = self._at(system, t, q)
            D, X = complement.complete(at.C, at.mass, choice, at.local)
            equations = assemble(system, t, q, D @ w - X @ choice.pick(at.b))
            bias = X @ choice.pick(equations.Gamma)
        else:
            equations, D, bias = self._differentiated(system, t, q, w, choice)
        wdot = self._kinetic(D, equations.mass, equations.h - equations.mass.mv(bias))
        return Motion(equations, wdot, with_reaction(equations, D @ wdot + bias))

    def _differentiated(self, system, t, q, w, choice: Choice):
        """Ḋu − (X b)˙ by pushing Ċ, Ṁ and ḃ through the completion, u held."""

        def velocity(t, q):
            # in one function of (t, q), so that constant parts (a constant M) cost nothing
            at = self._at(system, t, q)
            b = None if system.scleronomic else at.b
            return self.complement.velocity(at.C, at.mass, choice, at.local, w, b)

        v, push, D = jax.linearize(velocity, jnp.asarray(t, float), q, has_aux=True)
        bias = push(jnp.ones(()), system.qdot(q, v))
        return assemble(system, t, q, v), D, bias

    def _turned(self, system, t, q, w, choice: Choice, complement: Riemannian) -> Motion:
        """The same for an orthonormal basis in a constant metric, in closed form: X Γ has no part along D."""

        def rows(t, q):
            at = self._at(system, t, q)
            return at.C, at

        C, along, at = jax.linearize(rows, jnp.asarray(t, float), q, has_aux=True)
        b = None if system.scleronomic else at.b
        v, basis, tangential = complement.moving(
            C, lambda v: along(jnp.ones(()), system.qdot(q, v)), at.mass, choice, w, b
        )
        equations = assemble(system, t, q, v)
        wdot = self._kinetic(basis.W_d, equations.mass, equations.h) - tangential
        vdot = basis.W_d @ (wdot + tangential) + basis.lifted(choice.pick(equations.Gamma))
        return Motion(equations, wdot, with_reaction(equations, vdot))

    def scale(self, system, memory):
        return memory.scale


class MinimalOrder(_Tangent):
    """M_u u̇ = Dᵀ(h − M Ḋu), v = D u, M_u = DᵀMD [Blajer 1995, eqs. 2.8, 2.10–2.12], with any complement.

    The fewest equations: k = n − rank C. Velocities meet the constraints by construction; positions drift (linearly)
    unless corrected. For rheonomic rows v = D u − X b.
    """

    complement: AbstractComplement = LU()

    def _kinetic(self, D, mass, force):
        return jax.scipy.linalg.cho_solve(_cholesky(D.T @ blocks_times(mass.blocks, D)), D.T @ force)


class Resolved(_Tangent):
    """u̇ = W_dᵀ(h − M Ẇ_d u), v = W_d u: the mass matrix is the identity [Blajer 1995, eqs. 4.3, 4.4].

    W_d is orthonormal in the mass metric (`Riemannian`); nothing is inverted, Ẇ_d is exact. T = ½ uᵀu.
    """

    complement: Riemannian = Riemannian()

    def __check_init__(self):
        if not isinstance(self.complement, Riemannian):
            raise DalembertError(
                f"Resolved needs a basis that is orthonormal in the mass metric: use Riemannian(…), not "
                f"{type(self.complement).__name__}; MinimalOrder takes any complement."
            )

    def _kinetic(self, D, mass, force):
        return D.T @ force


class IndependentMemory(eqx.Module):
    """The choice of independent velocities and that of independent positions, and a typical size of each velocity."""

    choice: Choice
    position: Choice
    scale: Float[Array, " k"]


class IndependentCoordinates(_OnComplement):
    """Only independent coordinates are integrated; the dependent ones are solved for [Wehage, Haug 1982].

    At each evaluation the positions are brought onto Φ = 0 with the independent ones held (Newton, `iterations` times
    with directions frozen), then v = D u with u the independent velocities. So both levels hold to rounding with no
    stabilisation. Independent positions and velocities are unit columns by `LU`; with nonholonomic rows there are more
    of the former. The dependent coordinates are kept as the start of the iteration.
    """

    complement: LU = LU()
    position: LU = LU()
    iterations: int = eqx.field(static=True, default=4)
    tangent: ClassVar[bool] = True

    def with_ranks(self, ranks):
        return dataclasses.replace(
            self, complement=self.complement.with_rank(ranks.rows), position=self.position.with_rank(ranks.holonomic)
        )

    @property
    def _minimal(self) -> MinimalOrder:
        return MinimalOrder(self.complement)

    def solve(self, equations):
        return self._minimal.solve(equations)

    def pack(self, system, t, q, v):
        u, memory = self._minimal.pack(system, t, q, v)
        at = matrices(system, t, q)
        position = self.position.choose(at.C[: system.m_holonomic], at.mass)
        return u, IndependentMemory(memory.choice, position, memory.scale)

    def repack(self, system, t, q, v, memory):
        u, tangent = self._minimal.repack(system, t, q, v, TangentMemory(memory.choice, memory.scale))
        at = matrices(system, t, q)
        C = at.C[: system.m_holonomic]
        good = self.position.quality(C, at.mass, memory.position) >= RENEW * memory.position.quality
        position = jax.lax.cond(good, lambda: memory.position, lambda: self.position.choose(C, at.mass))
        return u, IndependentMemory(tangent.choice, position, tangent.scale)

    def unpack(self, system, t, q, w, memory):
        q = self._dependent(system, t, q, memory.position)
        return self._minimal.unpack(system, t, q, w, TangentMemory(memory.choice, memory.scale))

    def motion(self, system, t, q, w, memory, rhs, *, exact=False, loop="lax"):
        q = self._dependent(system, t, q, memory.position)
        return self._minimal.motion(system, t, q, w, TangentMemory(memory.choice, memory.scale), rhs)

    def _dependent(self, system, t, q, choice: Choice):
        """Φ = 0 by moving the dependent coordinates only."""
        if system.m_holonomic == 0:
            return q
        at = matrices(system, t, q)
        X = self.position.complete(at.C[: system.m_holonomic], at.mass, choice).X
        for _ in range(self.iterations):
            q = system.retract(q, -X @ choice.pick(system.position_residual(t, q)))
        return q

    def scale(self, system, memory):
        return memory.scale


def _cholesky(A: Array) -> tuple[Array, bool]:
    return jnp.linalg.cholesky(A), True
