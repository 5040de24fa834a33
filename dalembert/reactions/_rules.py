"""5c· reactions: the rules that pick λ where the rigid-body model leaves it open."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import Array, Rows, Velocities, is_traced
from dalembert.equations import Equations
from dalembert.linalg import RANK_TOLERANCE, BlockRows, factorise, removable
from dalembert.reactions._flexible import AbstractFlexibility, check_flexible, marker_points
from dalembert.reactions._unique import LABELS, row_name, row_numbers
from dalembert.reactions._wrenches import wrenches_on_body
from dalembert.systems import (
    AbstractMultiplierRule,
    AbstractSystem,
    BodySystem,
    Renaming,
    compiled_quickly,
    with_fields,
)


class AbstractReactionRule(AbstractMultiplierRule):
    """A way to pick λ among all with Cᵀλ = r, with a name: `multipliers` and `describe`."""

    def prepare(self, system: AbstractSystem, equations: Equations) -> AbstractReactionRule:
        """The rule prepared for a system, on the host; refuses, with a message, what it cannot decide."""
        return self


class RequireUnique(AbstractReactionRule):
    """No rule at all: it picks nothing and refuses what is not unique. For independent rows λ solves Cᵀλ = r."""

    def multipliers(self, system, equations, r):
        # M x − Cᵀλ = −r with C x = 0 has x = 0
        return equations.factorise().solve(-r, jnp.zeros(system.m))[1]

    def describe(self, system):
        return "unique"

    def renamed(self, to):
        return self


class RowElimination(AbstractReactionRule):
    """Rows dropped until the rest is independent; the multipliers of dropped rows are zero.

    `rows`: numbers of rows of C (from 0), names of joints, or "C[1]" for the second row of joint C; without them the
    last rows that others make superfluous. What other programs do; it loads the remaining rows with the share of the
    dropped ones [Wojtyra, Fraczek 2013, section 3.1]. With `simulate(…, rule=RowElimination(…))` the motion itself is
    computed without these rows, and ends if one of them drifts.
    """

    rows: tuple[int | str, ...] = eqx.field(static=True, default=())

    def prepare(self, system, equations):
        dependence = equations.dependence()
        Z, p = dependence.null, dependence.redundancy
        if not self.rows:
            return RowElimination(tuple(removable(Z)))
        rows = row_numbers(system, self.rows)
        values = np.linalg.svd(Z[list(rows)], compute_uv=False) if p else np.zeros(0)
        effect = int(np.sum(values > 1e-6))
        names = ", ".join(row_name(system, r) for r in rows)
        if effect < len(rows):
            raise DalembertError(f"Dropping {names} would let the machine move in a new way: not all are redundant.")
        if effect < p:
            raise DalembertError(
                f"Dropping {names} leaves {p - effect} redundant row(s); {p} must go, for example "
                f"{', '.join(row_name(system, r) for r in removable(Z))}."
            )
        return RowElimination(rows)

    def multipliers(self, system, equations, r):
        rows = row_numbers(system, self.rows)
        dropped = np.isin(equations.rows.pattern.rows, rows)
        kept = BlockRows(equations.rows.pattern, jnp.where(dropped, 0.0, equations.rows.data))
        lam = factorise(equations.mass, kept, equations.klu).solve(-r, jnp.zeros(system.m))[1]
        return jnp.where(np.isin(np.arange(system.m), rows), 0.0, lam)  # 0, not −0 or rounding

    def describe(self, system):
        if not self.rows:
            return "rows eliminated automatically"
        names = ", ".join(row_name(system, r) for r in row_numbers(system, self.rows))
        return f"rows eliminated: {names}"

    def renamed(self, to):
        return RowElimination(
            tuple(r if isinstance(r, int | np.integer) else _row_renamed(str(r), to) for r in self.rows)
        )


class AbstractQuadraticRule(AbstractReactionRule):
    """The λ of least λᵀAλ with Cᵀλ = r. Dense: a pseudo-inverse of m × n numbers per instant."""

    @abstractmethod
    def compliance(self, system: AbstractSystem, equations: Equations) -> Float[Array, "m m"]:
        """A, symmetric; it must be positive on multipliers without effect."""

    def multipliers(self, system, equations, r):
        return least(self.compliance(system, equations), equations, r)


class MinimumNorm(AbstractQuadraticRule):
    """The λ whose joint forces and torques are smallest: min Σ |F|² + |T|²/ℓ² over the joints, Cᵀλ = r.

    ℓ is the machine's characteristic length (`system.size`), so the answer does not depend on the unit of length,
    on how a joint's rows are written, or on the choice of axes. For a `FunctionSystem`, which has no forces and
    torques, each named group of rows is measured in the mass metric instead, min Σ |C_jᵀλ_j|² in M⁻¹. It is a
    convention, not physics: it picks the part of the reaction that the rigid-body model leaves open.
    """

    def compliance(self, system, equations):
        bodies = system.bodies
        if bodies is None or bodies is not system:
            return _group_metric(system, equations)
        force, torque = _unit_compliance(bodies)
        counts = [len(f.names) for f in bodies.families]
        return _joint_energy(bodies, equations, [np.stack([force] * k) for k in counts], [torque] * len(counts))

    def describe(self, system):
        if system.bodies is not None:
            return f"minimum norm of joint forces and torques, characteristic length {float(system.bodies.size):.6g}"
        return "minimum norm of row groups in the mass metric"

    def renamed(self, to):
        return self


class PenaltyLimit(AbstractQuadraticRule):
    """The limit of a penalty method, λ = −α (C v̇ − Γ) with all α → ∞ in fixed proportion: least Σ λ²/α.

    `factors`: α by joint name, a number or one for each row, in the units of the rows ("*" for all others). Without
    them each α is 1/(C M⁻¹Cᵀ) of its own row, the effective inertia of the row, which does not depend on units.
    """

    factors: dict[str, Any] | None = None

    def compliance(self, system, equations):
        own = equations.rows.weighted_square(equations.mass.inverse)
        if self.factors is None:
            return jnp.diag(jnp.where(own > 0, own, 1.0))
        inverse = jnp.asarray(own)
        for owner in system.owners:
            given = self.factors.get(owner.name, self.factors.get("*"))
            if given is not None:
                inverse = inverse.at[jnp.array(owner.rows, int)].set(1.0 / jnp.asarray(given, float))
        return jnp.diag(inverse)

    def prepare(self, system, equations):
        _check_names(system, self.factors)
        for name, factor in (self.factors or {}).items():
            _check_positive(f"PenaltyLimit: the factor of '{name}'", factor)
        missing = [o.name for o in system.owners if self.factors and not {o.name, "*"} & set(self.factors)]
        if missing:
            raise DalembertError(f"PenaltyLimit: there are no factors for {', '.join(missing)}; add them, or '*'.")
        return self

    def describe(self, system):
        return "limit of penalties, " + ("as given" if self.factors else "each by the inertia that its row feels")

    def renamed(self, to):
        return PenaltyLimit(_keys_renamed(self.factors, to))


class Weighted(AbstractQuadraticRule):
    """The reactions of slightly elastic joints and bodies, in the limit of high stiffness [Gutiérrez-López et al.].

    min ½ λᵀAλ with Cᵀλ = r: the weighted minimum norm solution (CᵀW)μ = r, λ = W μ with W² = A⁻¹, where A is the
    compliance of the constrained directions. It is the sum of

    - `stiffness` of joints, by name ("*": all others; joints that are not named are rigid). A number k: k for forces,
      k ℓ² for torques, with ℓ = `length` (default `system.size`); a dict {"Fx": …, "Mz": …} ("F" and "M" for the
      rest, the others are rigid); w numbers or a w × w matrix along the joint's axes.
    - `bodies`: elasticity of bodies between their joints, by name: `Bar`, `Beam` or `Compliance`. A, and so W, is full.

    Without either all joints are equally stiff with ℓ as above, and `describe` states this. Only proportions matter.
    """

    stiffness: Any = None
    bodies: dict[str, AbstractFlexibility] | None = None
    length: float | None = None

    def compliance(self, system, equations):
        machine, system = system, system.bodies
        if system is None or system is not machine:
            if self.stiffness is not None or self.bodies:
                raise DalembertError("Weighted: a FunctionSystem has no joint frames; use PenaltyLimit(factors).")
            return _group_metric(machine, equations)
        given, by_length = zip(*(self._family(system, f.names) for f in system.families), strict=True)
        A = _joint_energy(system, equations, list(given), list(by_length), self.length)
        d = system.kinematics.d
        for name, flexible in (self.bodies or {}).items():
            body = system.body_names.index(name)
            c = flexible.compliance(marker_points(system, body, flexible.joints), d)
            w = d + system.kinematics.dw
            G = jnp.zeros((len(flexible.joints) * w, system.m))
            for k, joint in enumerate(flexible.joints):
                rows = next(o.rows for o in system.owners if o.name == joint)
                G = G.at[k * w : (k + 1) * w, jnp.array(rows)].set(wrenches_on_body(system, equations, body, joint))
            A = A + G.T @ c @ G
        return A

    def _family(self, system: BodySystem, names) -> tuple[Array, Array]:
        """Compliances of the members of a family: one part as given, one still to be divided by ℓ² in torques."""
        given, scaled = _unit_compliance(system)
        w = len(given)
        out = [], []
        for name in names:
            k = self._of(name)
            if k is None or (not isinstance(k, Mapping) and np.ndim(k) == 0):
                share = 0.0 if k is None else 1.0 / k
                out[0].append(share * given)
                out[1].append(share * scaled)
                continue
            out[0].append(_given_compliance(name, k, w))
            out[1].append(np.zeros((w, w)))
        return jnp.stack(out[0]), jnp.stack(out[1])

    def _of(self, name: str):
        if self.stiffness is None:
            return None if self.bodies else 1.0
        if isinstance(self.stiffness, Mapping):
            return self.stiffness.get(name, self.stiffness.get("*"))
        return self.stiffness

    def check(self, system: AbstractSystem) -> None:
        """Refuse joints and bodies that do not exist, and what is no stiffness, with a message."""
        if isinstance(self.stiffness, Mapping):
            _check_names(system, self.stiffness)
            for name, k in self.stiffness.items():
                _check_positive(f"Stiffness of '{name}'", k)
        elif self.stiffness is not None:
            _check_positive("Stiffness", self.stiffness)
        if self.length is not None:
            _check_positive("Weighted: length", self.length, finite=True)
        if self.bodies:
            if system.bodies is None:
                raise DalembertError("Weighted: a FunctionSystem has no bodies.")
            check_flexible(system.bodies, self.bodies)

    def compliance_at(self, system: AbstractSystem, equations: Equations) -> np.ndarray:
        """`compliance` on the host: metres and radians per newton and newton metre, where stiffness is given so."""
        return np.asarray(_compliance(self, system, equations))

    def prepare(self, system, equations):
        self.check(system)
        dependence = equations.dependence()
        A = np.asarray(_compliance(self, system, equations)) / np.outer(dependence.sizes, dependence.sizes)
        energy = dependence.null.T @ A @ dependence.null
        values, vectors = np.linalg.eigh(energy) if len(energy) else (np.ones(1), np.zeros((0, 1)))
        if values[0] <= 1e-12 * max(values[-1], np.finfo(float).tiny):
            share = np.abs(dependence.null @ vectors[:, 0])
            names = [o.name for o in system.owners if np.max(share[list(o.rows)]) > 0.1 * share.max()]
            raise DalembertError(
                f"Weighted: the given stiffness leaves the load between {', '.join(names)} open (all that share it are "
                "rigid). Give one of them a stiffness, or all others with '*'."
            )
        return self

    def describe(self, system):
        size = 1.0 if system.bodies is None else float(system.bodies.size)
        length = size if self.length is None else self.length
        if self.stiffness is None and not self.bodies:
            return f"weighted minimum norm, all joints equally stiff, characteristic length {length:.6g}"
        parts = []
        if self.stiffness is not None:
            given = self.stiffness if isinstance(self.stiffness, Mapping) else {"*": None}
            named = ", ".join("all others" if x == "*" else x for x in given) if len(given) > 1 else "all joints"
            if len(given) == 1 and "*" not in given:
                named = next(iter(given))
            parts.append(f"stiffness of {named}")
        if self.bodies:
            parts.append(f"flexible {', '.join(self.bodies)}")
        return f"weighted minimum norm, {' and '.join(parts)}"

    def renamed(self, to):
        stiffness = _keys_renamed(self.stiffness, to) if isinstance(self.stiffness, Mapping) else self.stiffness
        bodies = _keys_renamed(self.bodies, to)
        if bodies is not None:
            bodies = {name: with_fields(x, joints=to.all(x.joints)) for name, x in bodies.items()}
        return Weighted(stiffness, bodies, self.length)


def _keys_renamed(given, to: Renaming) -> dict | None:
    return None if given is None else {to(name): value for name, value in given.items()}


def _row_renamed(row: str, to: Renaming) -> str:
    """Of "C" or "C[1]"."""
    name, bracket, rest = row.rpartition("[")
    return to(row) if not bracket or row in to.table else f"{to(name)}[{rest}"


def least(A: Float[Array, "m m"], equations: Equations, r: Velocities) -> Rows:
    """The λ of least λᵀAλ with Cᵀλ = r, for dependent rows; A need be positive on multipliers without effect only.

    Both sides are measured (unit rows, mass metric), so that no small singular value comes from mixing units.
    """
    blocks = jnp.linalg.cholesky(equations.mass.blocks)

    def measured(right):
        return jax.lax.linalg.triangular_solve(
            blocks, right.reshape(*blocks.shape[:2], -1), left_side=True, lower=True
        ).reshape(right.shape)

    # r apart from C: of several r (under vmap) only one pseudo-inverse is taken
    Ct = measured(equations.C.T)
    sizes = jnp.sqrt(jnp.sum(Ct**2, axis=0))
    sizes = jnp.where(sizes > 0, sizes, 1.0)
    Ct = Ct / sizes
    inverse = jnp.linalg.pinv(Ct, rtol=RANK_TOLERANCE)
    some = inverse @ measured(r)
    # the part without effect is free: take it where the energy is least
    P = jnp.eye(len(sizes)) - inverse @ Ct
    P = 0.5 * (P + P.T)
    A = A / sizes[:, None] / sizes
    A = A / jnp.max(jnp.diagonal(A))
    return (some - P @ jnp.linalg.solve(P @ A @ P + jnp.eye(len(P)) - P, P @ (A @ some))) / sizes


@compiled_quickly
def _compliance(rule: AbstractQuadraticRule, system, equations):
    return rule.compliance(system, equations)


def _unit_compliance(system: BodySystem) -> tuple[np.ndarray, np.ndarray]:
    """Compliance 1 for forces, and 1 (over ℓ²) for torques."""
    d, dw = system.kinematics.d, system.kinematics.dw
    force = np.arange(d + dw) < d
    return np.diag(force.astype(float)), np.diag((~force).astype(float))


def _given_compliance(name: str, k, w: int) -> Array:
    """A joint's stiffness as given by the user → its compliance (w × w) along the joint's axes."""
    labels = LABELS[w]
    if isinstance(k, Mapping):
        unknown = set(k) - {*labels, "F", "M"}
        if unknown:
            raise DalembertError(
                f"Stiffness of '{name}': {', '.join(sorted(unknown))} is unknown; use {', '.join(labels)}, F, M."
            )
        return jnp.diag(jnp.stack([1.0 / jnp.asarray(k.get(x, k.get(x[0], np.inf)), float) for x in labels]))
    k = jnp.asarray(k, float)
    if k.shape == (w,):
        return jnp.diag(1.0 / k)
    if k.shape == (w, w):
        return jnp.linalg.inv(0.5 * (k + k.T))
    raise DalembertError(f"Stiffness of '{name}' must be a number, a dict, {w} numbers or a {w} x {w} matrix.")


def _joint_energy(system: BodySystem, equations, given, by_length, length=None) -> Float[Array, "m m"]:
    """A = Σ W_jᵀ c_j W_j over the joints, c = given + by_length/ℓ²."""
    size = system.size if length is None else length
    A = jnp.zeros((system.m, system.m))
    wrenches = system.row_wrenches(equations.q, equations.rows)
    for family, (W, _), c, scaled in zip(system.families, wrenches, given, by_length, strict=True):
        grams = jnp.einsum("krw,kwx,ksx->krs", W, c + scaled / size**2, W)
        rows = family.group.rows
        A = A.at[rows[:, :, None], rows[:, None, :]].set(grams)
    return A


def _group_metric(system: AbstractSystem, equations: Equations) -> Float[Array, "m m"]:
    """Blocks of C M⁻¹Cᵀ, one per named group of rows."""
    C = equations.C
    D = C @ jax.vmap(equations.mass.solve, 1, 1)(C.T)
    G = jnp.zeros((system.m, system.m))
    for owner in system.owners:
        rows = jnp.array(owner.rows, int)
        G = G.at[rows[:, None], rows].set(D[rows[:, None], rows])
    return G


def _check_names(system: AbstractSystem, names) -> None:
    known = [o.name for o in system.owners]
    for name in names or ():
        if name != "*" and name not in known:
            hint = did_you_mean(name, known)
            raise DalembertError(f"There is no joint '{name}'; the joints are {', '.join(known)}.{hint}")


def _check_positive(what: str, given: Any, *, finite: bool = False) -> None:
    """Refuse, with a message, numbers that are not greater than zero, and matrices that are not positive definite; what
    is infinite is rigid."""
    if isinstance(given, Mapping):
        for label, value in given.items():
            _check_positive(f"{what}, {label},", value, finite=finite)
        return
    if given is None or is_traced(given):
        return
    try:
        values = np.asarray(given, float)
    except (TypeError, ValueError):
        raise DalembertError(f"{what} must be a number, a dict, numbers or a matrix, not {given!r}.") from None
    if values.ndim == 2 and values.shape[0] == values.shape[1]:
        if not np.all(np.isfinite(values)) or np.linalg.eigvalsh(0.5 * (values + values.T))[0] <= 0:
            raise DalembertError(f"{what} must be a positive definite matrix.")
    elif not np.all(values > 0) or (finite and not np.all(np.isfinite(values))):
        wrong = values[~((values > 0) & (np.isfinite(values) if finite else True))].ravel()[0]
        raise DalembertError(f"{what} must be greater than zero{' and finite' if finite else ''}, not {wrong:g}.")
