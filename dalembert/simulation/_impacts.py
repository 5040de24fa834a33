"""6 · simulation: one-sided joints at an instant: which of them bear, and what an impact does.

Everything is a shortest vector in the mass metric (`linalg.least`), x = Lᵀ δ with M = L Lᵀ: the accelerations nearest
to those of the free machine (Gauss), the velocities nearest to those before the impact (Moreau). With friction the
pushes of contacts meet Coulomb's law besides (`linalg.Coulomb`). Equations: docs/theory/one_sided.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dalembert._results import DalembertError
from dalembert.equations import assemble_known
from dalembert.linalg import Coulomb, Least, least
from dalembert.systems import AbstractSystem, Touch, compiled_for_each

LIFTS = 1e-9
"""A contact lifts off with an acceleration above this share of those by all forces."""


def _terms(system: AbstractSystem, t, q, v):
    e = assemble_known(system, t, q, v)
    return e.M, e.h, e.C, e.Phi, e.phi, e.Gamma


terms_at = compiled_for_each(_terms, 3)
"""M, h, C, Φ, φ and Γ at many instants."""


class Struck(NamedTuple):
    """An impact: the velocities after it, the impulse of each contact, whether it is unique, the kinetic energy
    relative to the constraints before and after, and the impulses of friction (contacts, tangential)."""

    v: np.ndarray
    impulse: np.ndarray
    unique: np.ndarray
    before: float
    after: float
    friction: np.ndarray


class Instantly:
    """A machine with all its rows, those of closed and of open contacts, at one instant."""

    def __init__(self, touches: Sequence[Touch], m_holonomic: int, v: np.ndarray, terms, frictions: Any = 0.0):
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
        # lengths in the mass metric, of which right-hand sides are differences
        self.speed, self.acceleration = float(np.linalg.norm(self.L.T @ v)), float(np.linalg.norm(self.free))
        own = {r for t in touches for r in (t.row, *t.tied)}
        self.both = np.array([r for r in range(len(phi)) if r not in own], int)
        # what rates and accelerations of contacts are differences of
        self.speeds = np.abs(C[self.rows]) @ np.abs(v) + np.abs(phi[self.rows] - C[self.rows] @ v)
        self.forces = np.linalg.norm(self.W[self.rows], axis=1) * np.linalg.norm(self.free) + np.abs(Gamma[self.rows])
        # tangential rows, −1 where there is none; what has them and no friction holds
        width = max((len(t.tied) for t in touches), default=0)
        self.tied = np.array([(*t.tied, *[-1] * (width - len(t.tied))) for t in touches], int)
        self.tied = self.tied.reshape(len(touches), width)
        self.mu = np.where((self.tied >= 0).any(1) & (np.asarray(frictions) == 0), np.inf, frictions)
        self.slip = self._tangential(phi)
        self.C = C

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
            wanted = self.Gamma[E] - self.W[E] @ self.free
            found = least(G, bias - G @ self.free, self.W[E], wanted, self.acceleration)
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
        wanted = self.Gamma[E] - self.W[E] @ self.free
        found = least(none, np.zeros(0), self.W[E], wanted, self.acceleration)
        x = self.free if found.x is None else self.free + found.x
        return self.signs * (self.W[self.rows] @ x - self.Gamma[self.rows])

    # ---- friction ----------------------------------------------------------------------------------------

    def _tangential(self, values: np.ndarray) -> np.ndarray:
        """Of each contact the entries of its tangential rows, 0 where it has none."""
        there = self.tied >= 0
        return np.where(there.reshape(*there.shape, *[1] * (values.ndim - 1)), values[self.tied], 0.0)

    def _all_rows(self, values: np.ndarray, which) -> np.ndarray:
        """Of some contacts the entries of all rows, the normal one first and with the sign of a push."""
        signs = self.signs.reshape(-1, *[1] * (values.ndim - 1))
        normal = (signs * values[self.rows])[:, None]
        return np.concatenate([normal, self._tangential(values)], axis=1)[which]

    @property
    def slip_speeds(self) -> np.ndarray:
        """What the slip of each contact is a difference of."""
        along = np.abs(self._tangential(self.C)) @ np.abs(self.v)
        b = np.abs(self._tangential(self.phi) - self._tangential(self.C) @ self.v)
        return np.max(along + b, axis=1, initial=0.0)

    def rubbing(self, which, way: np.ndarray, still: float = LIFTS) -> Coulomb:
        """The accelerations with these contacts, whose gaps and rates are zero; `way` are the directions in which they
        slip (NaN: they do not)."""
        G, Gamma = self._all_rows(self.W, which), self._all_rows(self.Gamma, which)
        E = self.both
        sizes = np.max(np.linalg.norm(G, axis=2), axis=1, initial=0.0)
        sizes = sizes * np.linalg.norm(self.free) + np.max(np.abs(Gamma), axis=1, initial=0.0)
        wanted = self.Gamma[E] - self.W[E] @ self.free
        right, still = Gamma - G @ self.free, still * sizes
        return Coulomb(G, right, self.W[E], wanted, self.mu[which], -way[which], still=still, scale=self.acceleration)

    # ---- impacts -----------------------------------------------------------------------------------------

    def struck_with_friction(self, acting: np.ndarray, restitution: np.ndarray) -> tuple[list[Struck], bool]:
        """What an impact of these contacts, some with friction, can do: nothing, one thing, or several; and whether
        friction would depend on a share of an impulse.

        Newton or Poisson along the normals; |Λ_T| ≤ μ Λ, against the slip after it (Poisson: after each of its parts).
        """
        which = np.flatnonzero(acting)
        E, G, rate, back = self.both, self._all_rows(self.W, which), self._all_rows(self.phi, which), restitution[which]
        still = LIFTS * np.maximum(self.speeds, self.slip_speeds)[which]
        mu = self.mu[which]
        wanted = -rate
        poisson = self._law(which, restitution) == "poisson"
        if not poisson:
            wanted[:, 0] -= back * np.minimum(rate[:, 0], 0.0)
        problem = Coulomb(G, wanted, self.W[E], -self.phi[E], mu, still=still, scale=self.speed)
        pressed = problem.solutions()
        if not poisson or len(pressed) != 1:
            return [self._after(which, x.x, x.p, ~x.shared) for x in pressed], problem.ambiguous
        first = pressed[0]
        if np.ptp(back[first.shared]) > 0 if first.shared.any() else False:
            raise self._shared_unlike(which[first.shared])
        # what is pushed back, at least: the impulses of compression times the restitution
        least, zero = back * np.maximum(first.p[:, 0], 0.0), np.zeros(len(E))
        right = -(rate + G @ first.x)
        problem = Coulomb(G, right, self.W[E], zero, mu, least=least, still=still, scale=self.speed)
        both = [(first.x + x.x, first.p + x.p, ~(first.shared | x.shared)) for x in problem.solutions()]
        return [self._after(which, *x) for x in both], problem.ambiguous

    def _after(self, which, x: np.ndarray, p: np.ndarray, unique: np.ndarray) -> Struck:
        """The velocities after these impulses of all rows of some contacts."""
        impulses, sure = np.zeros(len(self.touches)), np.ones(len(self.touches), bool)
        friction = np.zeros(self.tied.shape)
        impulses[which], sure[which], friction[which] = np.maximum(p[:, 0], 0.0), unique, p[:, 1:]
        v = self.v + np.linalg.solve(self.L.T, x)
        before, after = (float(0.5 * x @ self.M @ x) for x in (self.v, v))
        return Struck(v, impulses, sure, before, after, friction)

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
        pushes = np.column_stack([impulse, np.zeros((len(which), self.tied.shape[1]))])
        return self._after(which, x, pushes, unique)

    def _law(self, which, restitution) -> str:
        """By which law contacts have an impact together; "" where none bounces."""
        laws = {self.touches[k].impact for k in which if self.touches[k].impact and restitution[k]}
        if len(laws) > 1:
            names = " and ".join(f"'{self.touches[k].name}'" for k in which if restitution[k])
            raise DalembertError(f"{names} have an impact together, by different laws; give both the same impact=.")
        return next(iter(laws), "")

    def _shared_unlike(self, which) -> DalembertError:
        names = " and ".join(f"'{self.touches[k].name}'" for k in which)
        return DalembertError(
            f"{names} have an impact together, and the rigid-body model does not determine how they share it, as "
            "Poisson's law needs for different restitutions. Give them the same one, or impact='newton'."
        )

    def _impulses(self, which, held, restitution) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        E = self.equations(held)
        G, rate, back = self.sided(which), self.rate[which], restitution[which]
        if self._law(which, restitution) != "poisson":
            found = least(G, -rate - back * np.minimum(rate, 0.0), self.W[E], -self.phi[E], self.speed)
            return None if found.x is None else (found.x, found.mu, found.unique)
        pressed: Least = least(G, -rate, self.W[E], -self.phi[E], self.speed)
        if pressed.x is None:
            return None
        shared = ~pressed.unique
        if np.ptp(back[shared]) > 0 if shared.any() else False:
            raise self._shared_unlike(which[shared])
        zero = np.zeros(len(E))
        # what the impulses of expansion do to a machine whose other rows hold
        given = G.T @ (back * pressed.mu)
        held_back = least(np.zeros((0, len(given))), np.zeros(0), self.W[E], -self.W[E] @ given, self.speed)
        assert held_back.x is not None
        x = pressed.x + given + held_back.x
        more = least(G, -rate - G @ x, self.W[E], zero, self.speed)
        if more.x is None:
            return None
        return x + more.x, (1 + back) * pressed.mu + more.mu, pressed.unique & more.unique
