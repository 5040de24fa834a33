"""7 · analysis: modes of a linear model: eigenvalues in order, shapes, and where a mode has its energy.

Order: rigid-body modes (zero), oscillating ones by frequency, then those that only decay or grow, by rate. Without
damping and gyroscopic terms eigenvalues come from the symmetric stiffness, as exact pairs ±iω; elsewhere real parts
within the rounding error of an eigenvalue are zero. Equations: docs/theory/linearisation.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.analysis._free import FreeMotion
from dalembert.reactions import Instant
from dalembert.systems import BodySystem, compiled_quickly

ZERO = 1e-11
"""Share of the terms that meet in it below which a stiffness is zero, and of the largest singular value of A, made
dimensionless by the machine's own time: forces that cancel leave 1e-16 of it, a state that is known to 1e-13 some
1e-13."""
SOFT = 1e-4
"""Above this share of the largest eigenvalue of K the others are found beside it."""
EVEN = 1e-9
"""Share of the largest stiffness by which it may be uneven, and of the largest rate by which a motion may be damped, to
count as conservative: rounding of derivatives."""
ROUNDING = 100 * np.finfo(float).eps
"""Error of an eigenvalue over its condition number and the size of A."""
SMALL = 1e-12
"""Shares of energy below this are left out."""


@dataclass(frozen=True)
class Mode:
    """One mode: x(t) = Re(state · exp(eigenvalue · t)); of a pair the eigenvalue with the positive imaginary part.

    `kind` is "rigid-body" (zero: nothing resists), "oscillating" or "real" (it decays or grows). `shape` is the motion
    of the bodies (of a user's own equations: of v), whose largest coordinate moves by one machine size or one radian.
    `kinetic` are the shares of bodies (and rotors) in the kinetic energy, `potential` those of springs and of joints
    (whose reactions turn with the bodies: weights act by them) in the potential energy of a machine at rest; each
    add up to 1. Shares of joints whose reactions are not unique one by one stand together.
    """

    number: int
    kind: str
    eigenvalue: complex
    state: np.ndarray = field(repr=False)
    shape: np.ndarray = field(repr=False)
    motion: FreeMotion = field(repr=False)
    kinetic: dict[str, float] = field(default_factory=dict)
    potential: dict[str, float] = field(default_factory=dict)

    @property
    def rigid(self) -> bool:
        """Whether it is a rigid-body mode: its eigenvalue is zero."""
        return self.eigenvalue == 0

    @property
    def oscillates(self) -> bool:
        """Whether its eigenvalue is one of a pair."""
        return self.eigenvalue.imag != 0

    @property
    def frequency(self) -> float:
        """The undamped natural frequency |λ|/2π of an oscillating mode, in Hz; 0 for the others."""
        return abs(self.eigenvalue) / (2 * math.pi) if self.oscillates else 0.0

    @property
    def damped_frequency(self) -> float:
        """Im λ/2π, in Hz."""
        return abs(self.eigenvalue.imag) / (2 * math.pi)

    @property
    def damping_ratio(self) -> float:
        """−Re λ/|λ|: 0 undamped, below 0 growing, ±1 for real modes; NaN for rigid-body modes."""
        size = abs(self.eigenvalue)
        return -self.eigenvalue.real / size + 0.0 if size > 0 else math.nan

    @property
    def time_constant(self) -> float:
        """Time in which it decays or grows by a factor e, in s; infinite for what does neither."""
        return 1.0 / abs(self.eigenvalue.real) if self.eigenvalue.real else math.inf

    def as_dict(self) -> dict:
        """Plain data, ready for JSON."""
        return {
            "number": self.number,
            "kind": self.kind,
            "eigenvalue": [self.eigenvalue.real, self.eigenvalue.imag],
            "frequency": self.frequency,
            "damped_frequency": self.damped_frequency,
            "damping_ratio": None if math.isnan(self.damping_ratio) else self.damping_ratio,
            "time_constant": None if math.isinf(self.time_constant) else self.time_constant,
            "kinetic": self.kinetic,
            "potential": self.potential,
            "motion": [b._asdict() for b in self.motion.bodies],
        }


# ---- eigenvalues -----------------------------------------------------------------------------------------------------


class Eigen(NamedTuple):
    """Eigenvalues in order and, for each mode, its kind, its eigenvalue and its vector x."""

    values: np.ndarray
    kinds: tuple[str, ...]
    of_modes: np.ndarray
    vectors: np.ndarray  # (x, modes)


class OnBodies(NamedTuple):
    """What A of a machine at rest is made of, in coordinates in which stiff and soft parts do not mix: A of minimal
    coordinates has the error of the stiffest part everywhere."""

    X: np.ndarray  # (n, positions): displacements, orthonormal in the mass metric
    M: np.ndarray
    vdot: np.ndarray  # accelerations by (δq, δv, δz)
    zdot: np.ndarray

    def stiffness(self, U: np.ndarray) -> np.ndarray:
        """K of the displacements X U."""
        W = self.X @ U
        return -(self.M @ W).T @ (self.vdot[:, : len(W)] @ W)

    def grain(self, U: np.ndarray) -> np.ndarray:
        """The sizes of the terms that meet in the diagonal of `stiffness`."""
        W = np.abs(self.X @ U)
        return np.sum((np.abs(self.M) @ W) * (np.abs(self.vdot[:, : len(W)]) @ W), axis=0)

    def matrix(self, U: np.ndarray) -> np.ndarray:
        """A of the displacements X U, their rates, and the states."""
        W, k, z = self.X @ U, U.shape[1], len(self.zdot)
        n, none = len(W), np.zeros
        T = np.block([[W, none((n, k + z))], [none((n, k)), W, none((n, z))], [none((z, 2 * k)), np.eye(z)]])
        upper = np.concatenate([none((k, k)), np.eye(k), none((k, z))], axis=1)
        return np.concatenate([upper, (self.M @ W).T @ (self.vdot @ T), self.zdot @ T])


def eigen(
    A: np.ndarray, positions: int, velocities: int, resting: bool, load: float, bodies: OnBodies | None = None
) -> Eigen:
    """Eigenvalues and modes of A; x are positions, velocities, states. `resting`: nothing moves, so that A has the
    form [0 1; −K −D]; `load` are the machine's loads over its size and mass, in 1/s². `bodies`: where A is from."""
    n = positions + velocities
    if resting and positions == velocities and bodies is not None and positions:
        squares, U, zero = peeled(bodies, load)
        R = np.eye(len(A))
        R[:positions, :positions] = R[positions:n, positions:n] = U
        A = bodies.matrix(U)  # graded
        K, D = -A[positions:n, :positions], -A[positions:n, positions:n]
        size = np.max(np.abs(K), initial=0.0)
        even = np.max(np.abs(K - K.T), initial=0.0) <= EVEN * size
        if n == len(A) and even and np.max(np.abs(D), initial=0.0) <= EVEN * math.sqrt(size) * 1e-3:
            return _conservative(squares, U, zero)
        # each displacement has a time of its own: so none is lost beside faster ones
        own = np.maximum(np.sqrt(np.abs(squares)), np.abs(np.diagonal(D)))
        sizes = np.ones(len(A))
        sizes[positions:n] = np.where(own > 0, own, np.max(own, initial=0.0) or 1.0)
        alone = even and n == len(A)
        found = _general(A * sizes / sizes[:, None], sizes, int(np.sum(zero)) if alone else None)
        return found._replace(vectors=R @ found.vectors)
    # the machine's own time makes positions and velocities comparable
    rate = math.sqrt(max(np.max(np.abs(A[positions:n, :positions]), initial=0.0), load))
    rate = max(rate, np.max(np.abs(A[positions:n, positions:n]), initial=0.0)) or 1.0
    sizes = np.ones(len(A))
    sizes[positions:n] = rate
    return _general(A * sizes / sizes[:, None], sizes)


def peeled(bodies: OnBodies, load: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues of K, its vectors as columns, and which are zero.

    The softest are lost in the rounding of the stiffest: these are taken out, and K of what is left is made anew from
    the bodies, where soft parts have their own, small, numbers."""
    left = np.eye(bodies.X.shape[1])
    squares, vectors, zeros = [], [], []
    while left.shape[1]:
        K = bodies.stiffness(left)
        values, U = np.linalg.eigh(0.5 * (K + K.T))
        size = np.abs(values)
        taken = size >= SOFT * np.max(size)
        own = left @ U
        squares.append(values[taken])
        vectors.append(own[:, taken])
        zeros.append(size[taken] <= ZERO * (bodies.grain(own[:, taken]) + load))
        left = own[:, ~taken]
    values, U, zero = np.concatenate(squares), np.concatenate(vectors, axis=1), np.concatenate(zeros)
    order = np.argsort(values, kind="stable")
    return values[order], U[:, order], zero[order]


def _conservative(squares: np.ndarray, U: np.ndarray, zero: np.ndarray) -> Eigen:
    """ü = −K u with a symmetric K, by its eigenvalues and vectors."""
    omega = np.sqrt(np.abs(squares))
    swings, falls = np.flatnonzero(~zero & (squares > 0)), np.flatnonzero(~zero & (squares < 0))[::-1]
    nothing = np.zeros((len(U), int(np.sum(zero))))
    columns = [np.concatenate([U[:, zero], nothing])]
    columns += [np.concatenate([U[:, [k]], 1j * omega[k] * U[:, [k]]]) for k in swings]
    real = [s * omega[k] for k in falls for s in (-1.0, 1.0)]
    columns += [np.concatenate([U[:, [k]], s * omega[k] * U[:, [k]]]) for k in falls for s in (-1.0, 1.0)]
    kinds = ("rigid-body",) * int(np.sum(zero)) + ("oscillating",) * len(swings) + ("real",) * len(real)
    of_modes = np.concatenate([np.zeros(int(np.sum(zero))), 1j * omega[swings], real])
    pairs = np.stack([-1j * omega[swings], 1j * omega[swings]], axis=1).ravel()
    values = np.concatenate([np.zeros(2 * int(np.sum(zero))), pairs, real]).astype(complex)
    return Eigen(values, kinds, of_modes, np.concatenate(columns, axis=1).astype(complex))


def _general(A: np.ndarray, sizes: np.ndarray, nullity: int | None = None) -> Eigen:
    """Any A; `nullity` is how many of its eigenvectors belong to zero, where that is known. Displacements that change
    nothing (where a vehicle stands) make zeros that belong to chains (how fast it goes): rounding would spread them.
    They are removed first, null space by null space [Golub, Wilkinson 1976]."""
    import scipy.linalg

    levels, B, zeros, largest = [], A, 0, 0.0
    while len(B):
        _, sigma, Vt = np.linalg.svd(B)
        largest = largest or max(np.max(sigma), 1e-300)
        rank = int(np.sum(sigma > ZERO * largest)) if levels or nullity is None else len(B) - nullity
        if rank == len(B):
            break
        N, Q = Vt[rank:].T, Vt[:rank].T
        levels.append((N, Q, N.T @ B @ Q))
        B, zeros = Q.T @ B @ Q, zeros + len(B) - rank
    still = levels[0][0] if levels else np.zeros((len(A), 0))
    none: Any = (np.zeros(0, complex), np.zeros((0, 0)), np.zeros((0, 0)))
    solved: Any = scipy.linalg.eig(B, left=True, right=True) if len(B) else none
    values, left, right = solved
    # real parts within the error of their eigenvalue are zero
    condition = 1.0 / np.maximum(np.abs(np.sum(left.conj() * right, axis=0)), 1e-300) if len(B) else np.zeros(0)
    small = np.abs(values.real) <= ROUNDING * condition * np.linalg.norm(B)
    values = np.where(small & (values.imag != 0), 1j * values.imag, values)
    for N, Q, coupling in reversed(levels):
        right = Q @ right + N @ (coupling @ right) / values
    right = right * sizes[:, None]
    swings = np.flatnonzero(values.imag > 0)
    swings = swings[np.lexsort((-values[swings].real, np.abs(values[swings])))]
    reals = np.flatnonzero(values.imag == 0)
    reals = reals[np.lexsort((values[reals].real, np.abs(values[reals].real)))]
    pairs = np.stack([values[swings].conj(), values[swings]], axis=1).ravel()
    every = np.concatenate([np.zeros(zeros), pairs, values[reals]]).astype(complex)
    kinds = ("rigid-body",) * still.shape[1] + ("oscillating",) * len(swings) + ("real",) * len(reals)
    of_modes = np.concatenate([np.zeros(still.shape[1]), values[swings], values[reals]]).astype(complex)
    vectors = np.concatenate([still * sizes[:, None], right[:, swings], right[:, reals]], axis=1)
    return Eigen(every, kinds, of_modes, vectors.astype(complex))


def followed(A: jax.Array, values: np.ndarray, right: np.ndarray, left: np.ndarray, steps: int = 12) -> jax.Array:
    """Simple eigenvalues of A that belong to nearby ones of another matrix, whose vectors are given: Newton's method on
    A x = λ x, wᴴx = 1 [Ruhe 1973], then the quotient yᴴA x/yᴴx, whose derivative is that of the eigenvalue."""
    frozen = jax.lax.stop_gradient(A)
    one = jnp.eye(A.shape[0])

    def solve(A, value, x):
        w = x

        def step(_, carry):
            value, x = carry
            K = jnp.block([[A - value * one, -x[:, None]], [w.conj()[None], jnp.zeros((1, 1))]])
            change = jnp.linalg.solve(K, jnp.concatenate([value * x - A @ x, 1.0 - (w.conj() @ x)[None]]))
            return value + change[-1], x + change[:-1]

        return jax.lax.fori_loop(0, steps, step, (value, x))

    def one_value(value, x, y):
        value, x = solve(frozen, value, x)
        _, y = solve(frozen.T.conj(), value.conj(), y)
        x, y = jax.lax.stop_gradient((x, y))
        return (y.conj() @ (A @ x)) / (y.conj() @ x)

    unit = lambda X: X / np.linalg.norm(X, axis=0)  # noqa: E731
    if not len(values):
        return jnp.zeros(0, complex)
    return jax.vmap(one_value, (0, 1, 1))(jnp.asarray(values), jnp.asarray(unit(right)), jnp.asarray(unit(left)))


# ---- energies --------------------------------------------------------------------------------------------------------


def kinetic_shares(bodies: BodySystem, q: np.ndarray, shapes: np.ndarray) -> list[dict[str, float]]:
    """For each shape (n, modes) the bodies' and rotors' shares of its kinetic energy."""
    d, names = bodies.kinematics.d, bodies.body_names
    u = shapes.reshape(len(names), -1, shapes.shape[1])
    masses, inertias = np.asarray(bodies.masses), np.asarray(bodies.inertias)
    each = masses[:, None] * np.sum(np.abs(u[:, :d]) ** 2, axis=1)
    each = each + np.real(np.einsum("bim,bij,bjm->bm", u[:, d:].conj(), inertias, u[:, d:]))
    labels = list(names)
    if bodies.armatures:
        G, inertia = map(np.asarray, _armatures(bodies, q))
        rates = np.abs(G.reshape(len(G), -1) @ shapes) ** 2 * inertia[:, None]
        owners = [n for f in bodies.armatures for n in f.names]
        owners = list(np.repeat(owners, len(G) // len(owners)))
        each, labels = np.concatenate([each, rates]), labels + owners
    return _shares(labels, each)


@compiled_quickly
def _armatures(bodies: BodySystem, q):
    return bodies.armature_rows(bodies.places(q))


def potential_shares(instant: Instant, lam: np.ndarray, shapes: np.ndarray) -> list[dict[str, float]]:
    """For each shape (n, modes) the shares of springs and joints in δᵀK δ, K = −∂(h + Cᵀλ)/∂q of a machine at rest."""
    bodies = instant.system.bodies
    assert bodies is not None
    at = instant.on_bodies
    turned = np.concatenate([np.real(shapes), np.imag(shapes)], axis=1).T
    forces, joints = _stored(bodies, np.asarray(instant.t, float), np.asarray(at.q), lam, turned)
    labels = [n for f in bodies.forces for n in f.names]
    alone = {o.name for o in instant.machine.owners if instant.uniqueness.reaction(o.name)}
    together = [o.name for o in instant.machine.owners if o.name not in alone]
    shared = " + ".join(together[:4]) + (f" + {len(together) - 4} more" if len(together) > 4 else "")
    labels += [n if n in alone else shared for f in bodies.families for n in f.names]
    each = np.concatenate([np.zeros((0, len(turned))), *(np.asarray(x).T for x in (*forces, *joints))])
    half = shapes.shape[1]
    return _shares(labels, each[:, :half] + each[:, half:])


@compiled_quickly
def _stored(bodies: BodySystem, t, q, lam, directions):
    """−δ·dF(δ) of each force and of each joint's reaction with λ held, for all directions δ."""

    def along(delta):
        u = jnp.concatenate([delta.reshape(-1, bodies.dv), jnp.zeros((1, bodies.dv))])

        def shares(s):
            return bodies.forces_each(t, bodies.retract(q, s * delta)), bodies.reactions_each(
                t, bodies.retract(q, s * delta), lam
            )

        forces, joints = jax.jvp(shares, (jnp.zeros(()),), (jnp.ones(()),))[1]
        energy = lambda f, x: -jnp.sum(x * u[f.group.columns], axis=(1, 2))  # noqa: E731
        return (
            [energy(f, x) for f, x in zip(bodies.forces, forces, strict=True)],
            [energy(f, x) for f, x in zip(bodies.families, joints, strict=True)],
        )

    return jax.vmap(along)(directions)


def _shares(labels: Sequence[str], energies: np.ndarray) -> list[dict[str, float]]:
    """Energies (items, modes) as shares of their sum by name; nothing where the sum is zero."""
    out = []
    for column in energies.T:
        found: dict[str, float] = {}
        for name, x in zip(labels, column, strict=True):
            found[name] = found.get(name, 0.0) + float(x)
        size, total = sum(map(abs, found.values())), sum(found.values())
        if abs(total) <= 1e-9 * size or size == 0.0:
            out.append({})
            continue
        kept = {name: x / total for name, x in found.items() if abs(x) > SMALL * size}
        # by size; equal ones, as of symmetric machines, in the order of the model whatever their rounding
        out.append(dict(sorted(kept.items(), key=lambda item: -round(abs(item[1]), 6))))
    return out
