"""5c· reactions: those of the joints that carry a tree, which have no multiplier in joint coordinates.

Let C_T be the rows of the tree's joints in absolute velocities, C_c those that close loops, λ_T and λ_c their
multipliers. The tree's joints are independent (C_T has full row rank) and v_abs = J u spans the motions they allow
(C_T J = 0). Cut the machine above a body: what its joint transmits balances all that hangs below,

    wrench of C_Tᵀλ_T on the body = Σ over all below (M v̇ − h − C_cᵀλ_c)                                          (a)

of which the part along the joint's free axes is zero by the equations of motion; the joint's rows take the rest.

**Which reactions are unique.** [Wojtyra, Fraczek 2013] leave this open for relative coordinates. If
C_Tᵀλ_T + C_cᵀλ_c = 0, then (C_c J)ᵀλ_c = 0, on multiplying by Jᵀ. Conversely, if (C_c J)ᵀλ_c = 0, then C_cᵀλ_c is
orthogonal to all J u, that is to the null space of C_T; so it lies in the range of C_Tᵀ, and one λ_T balances it: that
of (a) with M v̇ − h = 0. So carrying the null vectors of the loops' own matrix C_c J through the tree by (a) gives all
null vectors of C, one for one: the redundancy p is the same, and the reaction of any joint X, cut or not, is unique if
and only if C_XᵀZ_X of the carried vectors Z vanishes.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert._typing import Rows
from dalembert.equations import Equations, assemble
from dalembert.linalg import Dependence, null_by_qr
from dalembert.reactions._wrenches import row_wrenches
from dalembert.systems import Family, TreeSystem, compiled_quickly, marker_frames, moment


def lifted(system: TreeSystem, equations: Equations) -> Equations:
    """The equations of the same state in absolute coordinates, with all joints' rows."""
    return assemble(system.absolute, equations.t, *system.lift(equations.q, equations.v))


def lifted_reaction(
    system: TreeSystem, equations: Equations, absolute: Equations, udot
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """v̇ and r = M v̇ − h of the bodies, from joint accelerations."""
    vdot = system.accelerations(system.carried(equations.q, equations.v), udot).ravel()
    return vdot, absolute.mass.mv(vdot) - absolute.h


def carried_multipliers(system: TreeSystem, absolute: Equations, r: Float[Array, " n"], lam: Rows) -> Rows:
    """λ of all rows of `system.absolute` from those of the cut joints, by (a); r = M v̇ − h of all bodies."""
    tree = system.tree
    whole = jnp.zeros(system.absolute.m).at[closing_rows(system)].set(lam)
    loads = (r - absolute.rows.rmv(whole)).reshape(-1, system.absolute.dv)
    places = system.absolute.places(absolute.q)
    # forces, and torques about each body's centre, in world axes; then sums over all that hangs on each body
    force, torque = jax.vmap(system.absolute.kinematics.wrench)(
        jax.tree_util.tree_map(lambda a: a[:-1], places), places.p[:-1], loads
    )
    below = jnp.asarray(tree.above[np.ix_(tree.bodies, tree.bodies)].astype(float))
    F, p = below @ force, places.p[:-1]
    # about the origin: Σ (torque + p × force)
    T = below @ (torque + jax.vmap(moment)(p, force))
    for f, (wrenches, axes) in zip(system.absolute.families, row_wrenches(system.absolute, absolute), strict=True):
        members = [k for k, name in enumerate(f.names) if name in tree.carrying]
        if members:
            body = np.array([tree.carrying[f.names[k]] for k in members])
            sign = np.array([-1.0 if f.names[k] in tree.backward else 1.0 for k in members])
            point = _marker_j(system, f, places)[np.array(members)]
            here = np.array(members)
            solve = jax.vmap(functools.partial(_on_rows, system.absolute.size))
            found = solve(wrenches[here], axes[here], point, sign[:, None] * F[body], sign[:, None] * T[body])
            whole = whole.at[f.group.rows[here].ravel()].set(found.ravel())
    return whole


def _on_rows(size, wrenches: Float[Array, "r w"], axes, point, F, T) -> Float[Array, " r"]:
    """The multipliers of one joint's rows that make up a force and a torque about the origin, on its body j."""
    torque = T - moment(point, F)
    target = jnp.concatenate([axes.T @ F, (torque if axes.shape[0] == 2 else axes.T @ torque) / size])
    d = len(F)
    A = jnp.concatenate([wrenches[:, :d], wrenches[:, d:] / size], axis=1).T
    lengths = jnp.sqrt(jnp.sum(A * A, axis=0))
    A = A / lengths
    # what the rows can't take is zero, so the normal equations solve it exactly; A has unit columns along few axes
    return jnp.linalg.solve(A.T @ A, A.T @ target) / lengths


def _marker_j(system: TreeSystem, family: Family, places) -> Float[Array, "count d"]:
    return jax.vmap(lambda at, p: marker_frames(system.space, at, p)[-1].p)(family.gather(places), family.p)


def closing_rows(system: TreeSystem) -> np.ndarray:
    """Where the rows of the cut joints stand among those of `system.absolute`."""
    rows = {o.name: o.rows for o in system.absolute.owners}
    out = np.zeros(system.m, int)
    for o in system.owners:
        out[list(o.rows)] = rows[o.name]
    return out


class CarriedDependence(Dependence):
    """The dependencies among all joints' rows, from those among the rows that close loops, by (a)."""

    def __init__(self, system: TreeSystem, equations: Equations, closing: Dependence):
        absolute = _lifted(system, equations)
        super().__init__(np.asarray(absolute.C), np.asarray(absolute.mass.blocks), closing.tolerance)
        self.system, self.equations, self.absolute, self.closing = system, equations, absolute, closing

    @property
    def rank(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.rows) - self.closing.redundancy

    @functools.cached_property
    def null(self) -> np.ndarray:
        return self._carried(self.closing.null)

    def null_by_qr(self) -> np.ndarray:
        return self._carried(null_by_qr(self.closing.rows, self.tolerance)[1])

    def _carried(self, null: np.ndarray) -> np.ndarray:
        if null.shape[1] == 0:
            return np.zeros((len(self.rows), 0))
        carried = np.asarray(_carry_all(self.system, self.absolute, null / self.closing.sizes[:, None]))
        return np.linalg.qr(carried * self.sizes[:, None])[0]

    def multipliers(self, h: np.ndarray, Gamma: np.ndarray) -> np.ndarray:
        """One λ of all rows; `h` and `Gamma` are those of the joint coordinates."""
        lam = self.closing.multipliers(h, Gamma) if len(self.closing.rows) else np.zeros(0)
        return np.asarray(_loaded(self.system, self.equations, self.absolute, lam))


_lifted = compiled_quickly(lifted)


@compiled_quickly
def _loaded(system: TreeSystem, equations: Equations, absolute: Equations, lam):
    udot = equations.mass.solve(equations.h + equations.rows.rmv(lam))
    _, r = lifted_reaction(system, equations, absolute, udot)
    return carried_multipliers(system, absolute, r, lam)


@compiled_quickly
def _carry_all(system: TreeSystem, absolute: Equations, null):
    nothing = jnp.zeros(system.absolute.n)
    return jax.vmap(lambda lam: carried_multipliers(system, absolute, nothing, lam), 1, 1)(null)
