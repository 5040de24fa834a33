"""6 · simulation: one-sided joints at an instant: which of them bear, and what an impact does.

Everything is a shortest vector in the mass metric (`linalg.least`), x = Lᵀ δ with M = L Lᵀ: the accelerations nearest
to those of the free machine (Gauss), the velocities nearest to those before the impact (Moreau).
Equations: docs/theory/one_sided.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dalembert._results import DalembertError
from dalembert.equations import assemble_known
from dalembert.linalg import Least, least
from dalembert.systems import AbstractSystem, Touch, compiled_for_each

LIFTS = 1e-9
"""A contact lifts off with an acceleration above this share of those by all forces."""


def _terms(system: AbstractSystem, t, q, v):
    e = assemble_known(system, t, q, v)
    return e.M, e.h, e.C, e.Phi, e.phi, e.Gamma


terms_at = compiled_for_each(_terms, 3)
"""M, h, C, Φ, φ and Γ at many instants."""


class Struck(NamedTuple):
    """An impact: the velocities after it, the impulse of each contact, whether it is unique, and the kinetic energy
    relative to the constraints before and after."""

    v: np.ndarray
    impulse: np.ndarray
    unique: np.ndarray
    before: float
    after: float


class Instantly:
    """A machine with all its rows, those of closed and of open contacts, at one instant."""

    def __init__(self, touches: Sequence[Touch], m_holonomic: int, v: np.ndarray, terms):
        M, h, C, Phi, phi, Gamma = (np.asarray(x) for x in terms)
        self.touches, self.v, self.M = touches, v, M
        self.rows = np.array([t.row for t in touches], int)
        self.signs = np.array([t.sign for t in touches], float)
        self.gap = self.signs * Phi[self.rows]
        self.rate = self.signs * phi[self.rows]
        self.L = np.linalg.cholesky(M)
        self.W = np.linalg.solve(self.L, C.T).T  # rows in the mass metric
        self.free = np.linalg.solve(self.L, h)
        self.phi, self.Gamma = phi, Gamma
        own = {r for t in touches for r in (t.row, *t.tied)}
        self.both = np.array([r for r in range(len(phi)) if r not in own], int)
        # what rates and accelerations of contacts are differences of
        self.speeds = np.abs(C[self.rows]) @ np.abs(v) + np.abs(phi[self.rows] - C[self.rows] @ v)
        self.forces = np.linalg.norm(self.W[self.rows], axis=1) * np.linalg.norm(self.free) + np.abs(Gamma[self.rows])

    def equations(self, held) -> np.ndarray:
        """The rows that hold: those that are not one-sided, and the tied ones of these contacts."""
        tied = sorted({r for k in held for r in self.touches[k].tied})
        return np.concatenate([self.both, np.array(tied, int)])

    def sided(self, which) -> np.ndarray:
        """The rows of contacts in the mass metric, with the sign of a push."""
        return self.signs[which, None] * self.W[self.rows[which]]

    # ---- accelerations -----------------------------------------------------------------------------------

    def bearing(self, closed: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """With these contacts closed: the force of each contact (0 of an open one), the basis of what may be added to
        them without any effect, and whether the rows agree."""
        E = np.concatenate([self.equations(np.flatnonzero(closed)), self.rows[closed]])
        lam = np.zeros(len(self.touches))
        if not len(E):
            return lam, np.zeros((0, len(lam))), True
        W, wanted = self.W[E], self.Gamma[E] - self.W[E] @ self.free
        sizes = np.linalg.norm(W, axis=1)
        sizes = np.where(sizes > 0, sizes, 1.0)
        U, s, Vt = np.linalg.svd(W / sizes[:, None])
        rank = int(np.sum(s > 1e-10 * s[0]))
        x = (Vt[:rank].T / s[:rank]) @ (U[:, :rank].T @ (wanted / sizes))
        own = U[:, :rank] @ ((Vt[:rank] @ x) / s[:rank]) / sizes
        place = {int(r): k for k, r in enumerate(E)}
        at = [place[int(r)] for r in self.rows[closed]]
        lam[closed] = self.signs[closed] * own[at]
        null = np.zeros((U.shape[1] - rank, len(lam)))
        null[:, closed] = self.signs[closed] * (U[:, rank:].T / sizes)[:, at]
        return lam, null[np.linalg.norm(null * self._unit(closed), axis=1) > 1e-7], True

    def _unit(self, closed) -> np.ndarray:
        """The size of each contact's row, which makes multipliers comparable."""
        return np.where(closed, np.linalg.norm(self.W[self.rows], axis=1), 0.0)

    def lifting(self, resting: np.ndarray) -> np.ndarray | None:
        """Which of these contacts, whose gaps and rates are zero, lift off; None where nothing agrees."""
        held = list(np.flatnonzero(resting))
        which = np.flatnonzero(resting)
        while True:
            E = self.equations(held)
            G = self.sided(which)
            bias = self.signs[which] * self.Gamma[self.rows[which]]
            found = least(G, bias - G @ self.free, self.W[E], self.Gamma[E] - self.W[E] @ self.free)
            if found.x is None:
                return None
            up = G @ (found.x + self.free) - bias
            lifts = which[up > LIFTS * self.forces[which]]
            left = [k for k in held if not (k in lifts and self.touches[int(k)].tied)]
            if left == held:
                out = np.zeros(len(self.touches), bool)
                out[lifts] = True
                return out
            held = left

    def pressing(self, closed: np.ndarray) -> np.ndarray:
        """The acceleration of each gap with these contacts closed."""
        E = np.concatenate([self.equations(np.flatnonzero(closed)), self.rows[closed]])
        none = np.zeros((0, len(self.v)))
        found = least(none, np.zeros(0), self.W[E], self.Gamma[E] - self.W[E] @ self.free)
        x = self.free if found.x is None else self.free + found.x
        return self.signs * (self.W[self.rows] @ x - self.Gamma[self.rows])

    # ---- impacts -----------------------------------------------------------------------------------------

    def struck(self, acting: np.ndarray, restitution: np.ndarray) -> Struck | None:
        """The impact of these contacts, whose gaps are zero; None where nothing agrees.

        Newton: γ⁺ ≥ −ε γ⁻; Poisson: compression with γ ≥ 0, then expansion by ε times its impulses, or more.
        """
        which = np.flatnonzero(acting)
        held = list(which)
        while True:
            found = self._impulses(which, held, restitution)
            if found is None:
                return None
            x, impulse, unique = found
            after = self.rate[which] + self.sided(which) @ x
            idle = impulse <= 1e-12 * np.max(impulse, initial=0.0)
            gone = which[idle & (after > LIFTS * self.speeds[which])]
            left = [k for k in held if not (k in gone and self.touches[int(k)].tied)]
            if left == held:
                break
            held = left
        impulses, sure = np.zeros(len(self.touches)), np.ones(len(self.touches), bool)
        impulses[which], sure[which] = impulse, unique
        v = self.v + np.linalg.solve(self.L.T, x)
        energies = (float(0.5 * x @ self.M @ x) for x in (self.v, v))
        return Struck(v, impulses, sure, *energies)

    def _impulses(self, which, held, restitution) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        E = self.equations(held)
        G, rate, back = self.sided(which), self.rate[which], restitution[which]
        laws = {self.touches[k].impact for k in which if self.touches[k].impact and restitution[k]}
        if len(laws) > 1:
            names = " and ".join(f"'{self.touches[k].name}'" for k in which if restitution[k])
            raise DalembertError(f"{names} have an impact together, by different laws; give both the same impact=.")
        if laws != {"poisson"}:
            found = least(G, -rate - back * np.minimum(rate, 0.0), self.W[E], -self.phi[E])
            return None if found.x is None else (found.x, found.mu, found.unique)
        pressed: Least = least(G, -rate, self.W[E], -self.phi[E])
        if pressed.x is None:
            return None
        shared = ~pressed.unique
        if np.ptp(back[shared]) > 0 if shared.any() else False:
            names = " and ".join(f"'{self.touches[k].name}'" for k in which[shared])
            raise DalembertError(
                f"{names} have an impact together, and the rigid-body model does not determine how they share it, as "
                "Poisson's law needs for different restitutions. Give them the same one, or impact='newton'."
            )
        zero = np.zeros(len(E))
        # what the impulses of expansion do to a machine whose other rows hold
        given = G.T @ (back * pressed.mu)
        held_back = least(np.zeros((0, len(given))), np.zeros(0), self.W[E], -self.W[E] @ given)
        assert held_back.x is not None
        x = pressed.x + given + held_back.x
        more = least(G, -rate - G @ x, self.W[E], zero)
        if more.x is None:
            return None
        return x + more.x, (1 + back) * pressed.mu + more.mu, pressed.unique & more.unique
