"""5b· singular positions that no motion leaves: taut ones, and velocities off every branch; on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dalembert._results import AssemblyError
from dalembert._typing import Velocities
from dalembert.equations import Equations, assemble_known
from dalembert.linalg import RANK_TOLERANCE, Dependence
from dalembert.systems import AbstractSystem, State

CURVED = 1e-6
"""Share of the size of Γ above which a combination of dependent rows has a curvature: rows that stay dependent leave
1e-12, beside a singular position up to 1e-8."""
LOADED = 1e-9
"""Share of the free acceleration above which the held directions count as loaded."""
TRIALS = 3
"""Velocities at which dependent rows are tested before their curvature is computed in all directions."""
UP_TO = 600
"""Largest number of velocities or rows for which dependent rows are looked for: it is dense and on the host."""
MOST = 150
"""Most free directions for which the curvature is computed: it takes one assembly for each pair of them."""

At = Callable[[Velocities], Equations]


@dataclass(frozen=True)
class Taut:
    """A position that the machine cannot leave although its joints allow velocities there.

    `directions`: how many independent velocities are allowed; `joints`: the items whose rows hold the machine;
    `loaded`: whether a force acts along these directions, which only infinite reactions could balance.
    """

    directions: int
    joints: tuple[str, ...]
    loaded: bool

    def __str__(self) -> str:
        ways = "1 direction" if self.directions == 1 else f"{self.directions} directions"
        return (
            "this position is taut, as a chain pulled straight between two supports: with "
            f"{_listed(self.joints)} closed it has velocities in {ways}, but no displacement"
        )


def taut(system: AbstractSystem, state: State, t: float = 0.0, at: At | None = None) -> Taut | None:
    """Whether a state that meets the constraints is isolated: no displacement, however small, meets them.

    For u with uᵀC = 0 and velocities v with C v = 0 a motion needs uᵀĊ(v)v = −uᵀΓ(v) = 0. If this quadratic form is
    definite for some u, then v = 0, and from rest v̇ = 0 [Connelly, Whiteley 1996: second-order rigidity]. A load along
    v then has nothing to balance it. Only a sufficient condition, exact for one dependent row.

    `at`: the equations at this position and other velocities, where a compiled program for them exists already.
    """
    bend = _Bend.of(system, state, t, at or (lambda v: assemble_known(system, t, state.q, v)))
    return None if bend is None else bend.taut()


def refuse_dead_end(system: AbstractSystem, state: State, t: float, at: At) -> None:
    """Refuse a singular start from which no motion exists: taut and loaded, or with a velocity off every branch."""
    bend = _Bend.of(system, state, t, at)
    if bend is None:
        return
    if (names := bend.off_branch()) is not None:
        raise AssemblyError(
            f"'{system.name}' starts in a singular position with velocities that no motion through it has: they meet "
            f"the joints, but accelerations at {names} would be infinite. Start beside this position, or with the "
            "velocities of one of the motions that cross there."
        )
    found = bend.taut()
    if found is not None and found.loaded:
        raise AssemblyError(
            f"'{system.name}': {found}. Forces act in these directions, so reactions would be infinite. Make a link a "
            "little longer, or let one of the joints give (a spring, a bushing)."
        )


@dataclass(frozen=True)
class _Bend:
    """Dependent rows at a state that do not stay dependent: Z with ZᵀĈ = 0 and ZᵀΓ(v) ≠ 0 for some allowed v."""

    system: AbstractSystem
    state: State
    at: At
    equations: Equations
    rows: Dependence
    free: np.ndarray  # allowed velocities as columns, orthonormal in the mass metric
    sizes: np.ndarray  # of each row: its length, of one that vanishes that of its terms
    size: float  # of Γ at velocities of unit length, by its terms

    @classmethod
    def of(cls, system: AbstractSystem, state: State, t: float, at: At) -> _Bend | None:
        if min(system.n, system.m) == 0 or max(system.n, system.m) > UP_TO:
            return None
        equations = at(state.v)
        d = equations.dependence()
        free = _free_velocities(d) if d.redundancy else np.zeros((0, 0))
        k = free.shape[1]
        # rows that move with time may release what they hold
        timed = [] if system.scleronomic else [r for o in system.owners if o.drives or o.of_the_user for r in o.rows]
        if not 0 < k <= MOST or np.max(np.abs(d.null[timed]), initial=0.0) > CURVED:
            return None
        trials = np.random.default_rng(1).standard_normal((TRIALS, k))
        # velocities along the rows times a turning rate; Γ itself may be nothing but rounding
        rate = np.max(np.abs(free) / np.asarray(system.scale())[:, None])
        terms = np.max(np.abs(d.C) @ np.abs(free), axis=1)
        gone = ~np.any(d.C != 0, axis=1)
        if gone.any():  # in joint coordinates: by what cancels
            terms = np.where(gone, _terms_on_bodies(system, state, t, free), terms)
        sizes = np.where(gone & (terms > 0), terms, d.sizes)
        seen = [np.asarray(at(free @ x / np.linalg.norm(x)).Gamma) / sizes for x in trials]
        size = float(np.max(terms / sizes) * rate)
        bent = max(float(np.max(np.abs(d.null.T @ x))) for x in seen)
        return cls(system, state, at, equations, d, free, sizes, size) if bent > CURVED * size else None

    def acceleration(self) -> np.ndarray:
        """What the forces alone would do, in the mass metric."""
        L = self.rows.L
        return np.linalg.solve(L, np.asarray(self.equations.h).reshape(*L.shape[:2], 1)).ravel()

    def off_branch(self) -> str | None:
        """The joints whose rows contradict each other in acceleration at the state's own velocity, or None."""
        Gamma = np.asarray(self.equations.Gamma) / self.sizes
        left = self.rows.null.T @ Gamma
        v = np.asarray(self.state.v)
        speed = float(v @ np.asarray(self.equations.mass.mv(v)))
        # rows count as dependent below the rank tolerance: so much of an acceleration they may make
        allowed = CURVED * self.size * speed + 10 * RANK_TOLERANCE * np.linalg.norm(self.acceleration())
        return _listed(self._joints(left)) if np.max(np.abs(left)) > allowed else None

    def taut(self) -> Taut | None:
        u = _definite(_forms(self.free, self.rows.null, lambda v: np.asarray(self.at(v).Gamma) / self.sizes))
        if u is None:
            return None
        load = np.linalg.norm(self.free.T @ np.asarray(self.equations.h))
        loaded = bool(load > LOADED * np.linalg.norm(self.acceleration()))
        return Taut(self.free.shape[1], self._joints(u), loaded)

    def _joints(self, u: np.ndarray) -> tuple[str, ...]:
        share = np.abs(self.rows.null @ u)
        return tuple(o.name for o in self.system.owners if np.max(share[list(o.rows)], initial=0) > 1e-3 * share.max())


def _terms_on_bodies(system: AbstractSystem, state: State, t: float, free: np.ndarray) -> np.ndarray:
    """The size of the terms of each row, those of the bodies' velocities, at free velocities as columns."""
    machine, out = system.machine, np.zeros(system.m)
    if machine is system:
        return out
    q, still = (np.asarray(x) for x in system.lift(np.asarray(state.q), np.zeros(system.n)))
    moved = np.stack([np.abs(np.asarray(system.lift(np.asarray(state.q), x)[1]) - still) for x in free.T], axis=1)
    # by the fastest motion of all: a row of a direction in which nothing moves but by rounding has no less of it
    scale = np.asarray(machine.scale())
    fastest = np.max(moved / scale[:, None])
    rows = np.abs(np.asarray(assemble_known(machine, t, q, still).C))
    named = {o.name: o for o in machine.owners}
    for o in system.owners:
        own = named.get(o.name)
        if own is not None and len(own.rows) == len(o.rows) > 0:
            out[list(o.rows)] = rows[list(own.rows)] @ scale * fastest
    return out


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names[:6]) + (" …" if len(names) > 6 else "")


def _free_velocities(d: Dependence) -> np.ndarray:
    """An orthonormal basis (in the mass metric) of the velocities that the rows allow, as columns."""
    free = np.linalg.svd(d.rows)[2][d.rank :].T
    blocks = free.reshape(*d.L.shape[:2], -1)
    return np.linalg.solve(d.L.transpose(0, 2, 1), blocks).reshape(free.shape)


def _forms(free: np.ndarray, null: np.ndarray, rates) -> np.ndarray:
    """The quadratic forms uᵀΓ(v) on the free velocities, one for each u, by polarisation: p × k × k."""
    k, p = free.shape[1], null.shape[1]
    forms = np.zeros((p, k, k))
    for i in range(k):
        forms[:, i, i] = null.T @ rates(free[:, i])
    for i in range(k):
        for j in range(i):
            both = null.T @ rates(free[:, i] + free[:, j])
            forms[:, i, j] = forms[:, j, i] = 0.5 * (both - forms[:, i, i] - forms[:, j, j])
    return forms


def _definite(forms: np.ndarray) -> np.ndarray | None:
    """c for which Σ c Q is positive definite, or None if none was found (by subgradients of its least eigenvalue)."""
    c = np.einsum("pii->p", forms)
    if not np.any(c):
        return None
    c /= np.linalg.norm(c)
    for step in range(1 if len(c) == 1 else 200):
        values, vectors = np.linalg.eigh(np.einsum("p,pij->ij", c, forms))
        if values[0] > CURVED * abs(values[-1]):
            return c
        slope = np.einsum("i,pij,j->p", vectors[:, 0], forms, vectors[:, 0])
        c = c + slope / max(float(np.linalg.norm(slope)), 1e-300) / (2.0 + step)
        c /= np.linalg.norm(c)
    return None
