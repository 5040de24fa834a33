"""7 · analysis: forces with nothing moving: what of them the constraints balance, and where the rest of it leads.

At rest, drivers held at their time, M v̇ = h + Cᵀλ with C v̇ = 0 has v̇ = P M⁻¹h: P projects onto the admissible motions
in the mass metric. An equilibrium is where v̇ = 0. All is measured in that metric, x = Lᵀδ for a displacement δ and
f = L⁻¹h for a force with M = L Lᵀ, so that nothing depends on units.

One source for two ways to run: on the host, in NumPy, where only M, h, C and K are compiled; and inside a program
under jit, vmap and grad. Equations: docs/theory/statics.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._typing import Array, Coordinates, Rows, Scalar, Velocities, is_traced
from dalembert.equations import assemble_known, residuals, stiffness
from dalembert.linalg import RANK_TOLERANCE
from dalembert.stabilise import consistent_state, guarded
from dalembert.systems import AbstractSystem, compiled_quickly, wrapped

MOST = 200
"""Most steps of Newton's method."""
FIRST = 0.3
"""The first step is at most this long, in machine sizes or radians."""
STRAIGHT = 1e-2
"""Where a step leaves the forces as its linear equations say, to this share, the next may be four times as long."""
OVERSHOT = 0.8
"""A step is taken back if the forces at its end push back by more than this share of how they pushed at its start."""
TINY = 1e-6
"""Steps below this, in machine sizes, are the last ones: they go on as long as they halve the force."""
NEUTRAL = 1e-10
"""Directions with a stiffness and a force below this share of what meets in them are left as they are."""
LOST = 1e-13
"""And with a stiffness below this share of the largest one, in whose rounding it is lost."""
STIFF = 1e-4
"""Forces count by the loads, and by what a displacement of this share of the machine's size makes of its stiffness."""
FAR = 1e6
"""A machine that has moved by so many times its size is falling."""
OPEN = 1e-9
"""Largest gap of a joint after a step, of the machine's size; with a larger one the step was too long."""
START = np.zeros(())
"""The place of a machine on no path."""
RELAXATION = 3000
"""Steps of dynamic relaxation."""


# ---- what is asked -------------------------------------------------------------------------------------------------


class Held(eqx.Module):
    """Measured numbers (`system.measured`) that must have given values: one more row each."""

    channels: tuple[int, ...] = eqx.field(static=True)
    angles: tuple[bool, ...] = eqx.field(static=True)  # known up to full turns
    values: Float[Array, " held"]

    def gap(self, system: AbstractSystem, t, q, more=0.0) -> Float[Array, " held"]:
        """What is measured, off the values (and what is added to them)."""
        found = system.measured(t, q, jnp.zeros(system.n), only=self.channels) - (self.values + more)
        return jnp.where(np.array(self.angles), wrapped(found), found)

    def pull(self, system: AbstractSystem, t, q, effort) -> Velocities:
        """Gᵀμ: efforts along the held numbers as a force on the system's velocities."""

        def power(delta):
            return effort @ system.measured(t, system.retract(q, delta), jnp.zeros(system.n), only=self.channels)

        return jax.grad(power)(jnp.zeros(system.n))


class Along(eqx.Module):
    """How the numbers of a system, and the time, change with a path's parameter s: linearly."""

    rates: tuple[Array | None, ...]  # of the system's numbers, in the order of its leaves; None: not at all
    rate: Float[Array, ""]  # of time
    held: Float[Array, " held"] | None = None  # of the values that are held

    @classmethod
    def between(cls, first: AbstractSystem, last: AbstractSystem, duration: float = 0.0, held=None) -> Along:
        """From one system at s = 0 to another at s = 1, which differs in numbers only."""
        ends = (jax.tree_util.tree_leaves(eqx.filter(x, eqx.is_inexact_array)) for x in (first, last))
        rates = [_change(a, b) for a, b in zip(*ends, strict=True)]
        return cls(tuple(rates), np.asarray(duration, float), held)


def _change(a, b):
    if a is b:
        return None
    if is_traced(a, b):
        return b - a
    return None if np.array_equal(a, b) else np.asarray(b) - np.asarray(a)


class Rest(eqx.Module):
    """A system with nothing moving: drivers held at a time, some numbers held by efforts, along a path or not."""

    system: AbstractSystem
    t: Array
    held: Held | None = None
    along: Along | None = None

    def at(self, s) -> tuple[AbstractSystem, Any]:
        """The system and the time at a place of the path."""
        if self.along is None:
            return self.system, self.t
        numbers, others = eqx.partition(self.system, eqx.is_inexact_array)
        leaves, structure = jax.tree_util.tree_flatten(numbers)
        moved = [x if d is None else x + s * d for x, d in zip(leaves, self.along.rates, strict=True)]
        return eqx.combine(jax.tree_util.tree_unflatten(structure, moved), others), self.t + s * self.along.rate

    def off(self, system: AbstractSystem, t, s, q) -> Float[Array, " held"]:
        """What is off of the held numbers at a place of the path."""
        assert self.held is not None
        more = 0.0 if self.along is None or self.along.held is None else s * self.along.held
        return self.held.gap(system, t, q, more)

    @property
    def rows(self) -> int:
        """Number of rows: those of the system, then those held."""
        return self.system.m + (0 if self.held is None else len(self.held.channels))


class Look(NamedTuple):
    """What a system says of a pose with nothing moving, as dense arrays; rows are the system's, then those held."""

    h: Velocities
    C: Float[Array, "m n"]
    gap: Rows  # Φ and what is off of the held numbers; 0 for nonholonomic rows
    blocks: Float[Array, "nb d d"]  # of M
    share: Rows | None


def _look(rest: Rest, s, q) -> Look:
    system, t = rest.at(s)
    e = assemble_known(system, t, q, jnp.zeros(system.n))
    if rest.held is None:
        return Look(e.h, e.C, _padded(e.Phi, system.m), e.mass.blocks, e.share)
    G = jax.jacfwd(lambda d: rest.off(system, t, s, system.retract(q, d)))(jnp.zeros(system.n))
    share = None if e.share is None else _padded(e.share, rest.rows, 1.0)
    gap = jnp.concatenate([_padded(e.Phi, system.m), rest.off(system, t, s, q)])
    return Look(e.h, jnp.concatenate([e.C, G]), gap, e.mass.blocks, share)


def _padded(x, count: int, value: float = 0.0):
    return jnp.concatenate([x, jnp.full(count - len(x), value)])


def _gaps(rest: Rest, s, q) -> Rows:
    system, t = rest.at(s)
    Phi = _padded(residuals(system, t, q, jnp.zeros(system.n))[0], system.m)
    return Phi if rest.held is None else jnp.concatenate([Phi, rest.off(system, t, s, q)])


def _stiff(rest: Rest, s, q, lam: Rows) -> Float[Array, "n n"]:
    """K of the forces, and of the reactions and efforts held."""
    system, t = rest.at(s)
    held = rest.held
    K = stiffness(system, t, q, lam[: system.m])
    if held is None:
        return K
    pull = lambda d: held.pull(system, t, system.retract(q, d), lam[system.m :])  # noqa: E731
    return K - jax.jacfwd(pull)(jnp.zeros(system.n))


def _slope(rest: Rest, s, q, lam: Rows) -> tuple[Velocities, Rows]:
    """How h + Cᵀλ and the gaps change along the path while nothing moves."""

    def force(s):
        at = _look(rest, s, q)
        return at.h + lam @ at.C, at.gap

    return jax.jvp(force, (s,), (jnp.ones(()),))[1]


def _sizes(rest: Rest, s, q):
    """The size of the forces on the bodies, and of the machine itself, in the mass metric; sizes of v and of q."""
    system, t = rest.at(s)
    machine = system.machine
    e = assemble_known(machine, t, system.lift(q, jnp.zeros(system.n)).q, jnp.zeros(machine.n))
    scale = machine.scale()
    own, reach = jnp.sqrt(jnp.abs(e.h @ e.mass.solve(e.h))), jnp.sqrt(scale @ e.mass.mv(scale))
    return own, reach, system.scale(), system.coordinate_scale()


def _retracted(system: AbstractSystem, q, delta):
    return system.retract(q, delta)


def _seen(system: AbstractSystem, q):
    """Positions in sizes of the machine, and rotations, of the bodies; a user's own coordinates in their sizes."""
    bodies = system.bodies
    if bodies is None:
        return q / system.coordinate_scale()
    places = bodies.places(system.lift(q, jnp.zeros(system.n)).q)
    return jnp.concatenate([jnp.ravel(places.p) / bodies.size, jnp.ravel(places.R)])


# on the host these are programs that return NumPy arrays; inside a program they are parts of it
look = compiled_quickly(_look)
gaps = compiled_quickly(_gaps)
stiff = compiled_quickly(_stiff)
slope = compiled_quickly(_slope)
sizes = compiled_quickly(_sizes)
retracted = compiled_quickly(_retracted)
seen = compiled_quickly(_seen)


class Ways:
    """How to compute: by NumPy with Python's loops, or by JAX with its own."""

    def __init__(self, traced: bool):
        self.np: Any = jnp if traced else np
        self.loop: Callable = jax.lax.while_loop if traced else _loop


def _loop(going, step, carry):
    while going(carry):
        carry = step(carry)
    return carry


# ---- forces at a pose ----------------------------------------------------------------------------------------------


class Balance(NamedTuple):
    """Forces at one pose: what the constraints leave of them, and the factors they were found with.

    `left` is P f and `lam` the multipliers that balance the rest: h + Cᵀλ = L · left. `basis` (k × n) has orthonormal
    rows along the constraints, those of dependent ones zero; `back` (n × m) closes gaps, δ = −back · gap, and its
    transpose balances forces, λ = −backᵀ h.
    """

    at: Look
    left: Velocities
    lam: Rows
    basis: Float[Array, "k n"]
    back: Float[Array, "n m"]
    inverse: Float[Array, "nb d d"]  # blocks of L⁻¹

    def admissible(self, x: Any) -> Any:
        """P x."""
        for _ in range(2):  # the second removes rounding
            x = x - self.basis.T @ (self.basis @ x)
        return x

    def displacement(self, x: Any) -> Any:
        """δ = L⁻ᵀ x."""
        return _times(self.inverse.transpose(0, 2, 1), x)

    def force(self, f: Any) -> Any:
        """P L⁻¹ f: what the constraints leave of a force."""
        return self.admissible(_times(self.inverse, f))

    def reduced(self, K: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """P L⁻¹ K L⁻ᵀ P: a stiffness among admissible displacements, in 1/s²."""
        K = _times(self.inverse, _times(self.inverse, K).T).T
        return self.admissible(self.admissible(K).T).T

    @property
    def freedoms(self) -> Any:
        """Number of independent admissible motions."""
        return self.at.h.shape[0] - (self.basis != 0).any(axis=1).sum()


def _times(blocks, A):
    """B A for block-diagonal B; A a vector or a matrix."""
    nb, d, _ = blocks.shape
    return (blocks @ A.reshape(nb, d, -1)).reshape(A.shape)


def balance(rest: Rest, s: Scalar, q: Coordinates) -> Balance:
    """The forces of a pose; rows may be redundant."""
    at = look(rest, s, q)
    xp = jnp if is_traced(at) else np
    inverse = xp.linalg.inv(xp.linalg.cholesky(at.blocks))
    f = _times(inverse, at.h)
    m, n = at.C.shape
    if m == 0:
        return Balance(at, f, xp.zeros(0), xp.zeros((0, n)), xp.zeros((n, 0)), inverse)
    rows = _times(inverse, at.C.T).T
    norms = xp.sqrt(xp.sum(rows * rows, axis=1))
    S = (1.0 if at.share is None else at.share) / xp.where(norms > 0, norms, 1.0)
    U, values, Vt = _singular_values(xp, S[:, None] * rows)
    kept = values > RANK_TOLERANCE * values[0]
    weight = xp.where(kept, 1.0 / xp.where(kept, values, 1.0), 0.0)
    basis = xp.where(kept[:, None], Vt, 0.0)
    found = Balance(at, f, xp.zeros(m), basis, xp.zeros((n, m)), inverse)
    back = found.displacement(basis.T @ (weight[:, None] * U.T) * S)
    return found._replace(left=found.admissible(f), lam=-at.h @ back, back=back)


def _singular_values(xp, A):
    try:
        return xp.linalg.svd(A, full_matrices=False)
    except np.linalg.LinAlgError:  # LAPACK's quick way may fail where many singular values are zero
        import scipy.linalg

        return scipy.linalg.svd(A, full_matrices=False, lapack_driver="gesvd")


class Spring:
    """A reduced stiffness, solved for displacements: K x = f, or |K| x = f with the eigenvalues of its symmetric part.

    Directions in which nothing resists (and those along the constraints) are left out of both. Forces are measured
    direction by direction (`share`): beside a very stiff one a soft one keeps its own measure.
    """

    def __init__(self, xp, at: Balance, K, own, reach):
        self.xp, self.at, self.whole = xp, at, K
        self.K = at.reduced(K)
        even, rows, loads = 0.5 * (self.K + self.K.T), at.basis, own / reach
        # along the constraints a stiffness above all others, so that these directions do not mix with soft ones
        lift = 3.0 * xp.maximum(xp.max(xp.sum(xp.abs(even), axis=1)), loads)
        self.locks = xp.where(lift > 0, lift, 1.0) * (rows.T @ rows)
        self.values, self.vectors = xp.linalg.eigh(even + self.locks)
        locked = xp.sum((rows @ self.vectors) ** 2, axis=0) > 0.5
        sizes = xp.where(locked, 0.0, xp.abs(self.values))
        largest = xp.max(sizes)
        self.typical = xp.maximum(largest, loads)
        self.forces = own + STIFF * xp.abs(self.values) * reach  # the sizes of the machine's own, by direction
        moved = xp.abs(at.displacement(xp.where(locked, 0.0, self.vectors)))
        grain = xp.sum(moved * (xp.abs(K) @ moved), axis=0)  # what may cancel in each stiffness
        self.soft = ~locked & ((sizes <= NEUTRAL * (loads + grain)) | (sizes <= LOST * largest))

    @property
    def aside(self):
        """The directions in which nothing resists, one a column; the other columns are zero."""
        return self.vectors * self.soft

    def share(self, f):
        """The size of a force over the machine's own."""
        sizes = self.xp.where(self.forces > 0, self.forces, 1.0)
        return self.xp.linalg.norm((self.vectors.T @ f) / sizes)

    def solve(self, f):
        """x with K x = f. The reduced K has the rounding of its stiffest part everywhere, the bodies' own K has not:
        two corrections by that one make soft directions exact."""
        xp, aside = self.xp, self.aside
        typical = xp.where(self.typical > 0, self.typical, 1.0)
        A = self.K + self.locks + typical * (aside @ aside.T)

        def firm(x):
            return x - aside @ (aside.T @ x)

        x = firm(self._solved(A, firm(f)))
        for _ in range(2):
            left = f - self.at.force(self.whole @ self.at.displacement(x))
            x = x + firm(self._solved(A, firm(left)))
        return x

    def _solved(self, K, f):
        try:
            return self.xp.linalg.solve(K, f)
        except np.linalg.LinAlgError:  # K of forces without a potential may be singular where its symmetric part is not
            return np.full_like(f, np.nan)  # as JAX says it: there is no such step

    def descend(self, f, damping):
        """x with (|K| + damping) x = f, a column for each damping."""
        xp, along = self.xp, self.vectors.T @ f
        along = xp.where(self.soft & (xp.abs(along) < NEUTRAL * self.forces), 0.0, along)
        values = xp.maximum(xp.abs(self.values), 1e-13 * self.typical)[:, None] + damping
        return self.vectors @ (along[:, None] / xp.where(values > 0, values, 1.0))

    @property
    def circulates(self):
        """Whether the forces have no potential."""
        xp = self.xp
        return xp.max(xp.abs(self.K - self.K.T)) > 1e-9 * self.typical


# ---- Newton's method -----------------------------------------------------------------------------------------------


class Settled(NamedTuple):
    """Where a machine has come to rest: q and λ, and how well and how it got there."""

    q: Coordinates
    lam: Rows
    residual: Any  # the force that is left over the machine's own; infinite where joints or held numbers are off
    step: Any  # the last step, in machine sizes
    moved: Any  # the largest displacement of a coordinate, in machine sizes
    steps: Any  # how many were taken
    freedoms: Any


class _Carry(NamedTuple):
    q: Coordinates
    at: Balance
    radius: Scalar
    step: Scalar
    done: Any
    k: Any


def settled(rest: Rest, s: Scalar, q: Coordinates, stable: bool = True, most: int = MOST) -> Settled:
    """The equilibrium that a pose leads to, by Newton's method on the manifold of the constraints, in the mass metric.

    `stable`: K counts by its absolute values, |K| x = P f, so that each step goes where the forces push, whatever the
    sign of the stiffness [Dauphin et al. 2014], within a region that is trusted [Absil, Baker, Gallivan 2007]; a step
    counts by the work of the forces at its two ends, so no potential is needed. Else Newton's own direction, cut until
    the force falls: that finds an equilibrium of any kind that is near. Derivatives are those of the equilibrium that
    was found (implicit differentiation), forward and reverse.
    """
    traced = is_traced(rest, s, q)
    held = jax.lax.stop_gradient((rest, s, q)) if traced else (rest, s, q)
    found, last, steps = _newton(*held, stable, most)
    return _finish(rest, s, q, found, last, steps)


def _newton(rest: Rest, s, q, stable: bool, most: int):
    ways = Ways(is_traced(rest, s, q))
    xp, system = ways.np, rest.system
    own, reach, scale, coordinate_scale = sizes(rest, s, q)

    def step(c: _Carry) -> _Carry:
        at = c.at
        spring = Spring(xp, at, stiff(rest, s, c.q, at.lam), own, reach)
        x = _direction(xp, at, spring, stable, c.radius, scale)
        delta = at.displacement(x)
        size = xp.max(xp.abs(delta) / scale)
        short = xp.minimum(1.0, c.radius / xp.where(size > 0, size, 1.0))
        delta, x, size = short * delta, short * x, short * size
        q, gap = closed(ways, rest, s, retracted(system, c.q, delta), at, scale)
        there = balance(rest, s, q)
        now, left = spring.share(at.left), spring.share(there.left)
        first, last = at.left @ x, (there.at.h + at.lam @ there.at.C) @ delta
        straight = spring.share(there.left - (at.left - spring.K @ x)) <= STRAIGHT * now
        small = size <= TINY
        good = (last >= -OVERSHOT * first) if stable else (left < now)
        good = xp.where(small, left <= now, good) & xp.isfinite(left) & (gap < OPEN)
        radius = xp.where(good, xp.where(straight, 4.0, xp.where(last > 0, 1.5, 1.0)), 0.3) * c.radius
        q, there = jax.tree_util.tree_map(lambda new, old: xp.where(good, new, old), (q, there), (c.q, at))
        far = xp.max(xp.abs(q) / coordinate_scale) > FAR
        end = (small & (left > 0.5 * now)) | (now <= 1e-17) | (radius < 1e-14)
        return _Carry(q, there, radius, size, end | far | ~xp.isfinite(size), c.k + 1)

    start = _Carry(q, balance(rest, s, q), xp.asarray(FIRST), xp.asarray(xp.inf), xp.asarray(False), xp.asarray(0))
    end = ways.loop(lambda c: ~c.done & (c.k < most), step, start)
    return end.q, end.step, end.k


def _direction(xp, at: Balance, spring: Spring, stable: bool, radius, scale) -> Velocities:
    """Newton's direction, or where it must lead downhill that of |K|, damped as Levenberg and Marquardt do until it is
    no longer than the radius."""
    own = at.admissible(spring.solve(at.left))
    if not stable:
        return own
    # several dampings at once: the least of them that is enough
    steps = 10.0 ** xp.arange(-8.0, 8.0)
    damping = spring.typical * xp.concatenate([xp.zeros(1), steps])
    tried = at.admissible(spring.descend(at.left, damping))
    lengths = xp.max(xp.abs(at.displacement(tried)) / scale[:, None], axis=0)
    down = tried[:, xp.argmax(lengths <= 2 * radius)]
    # without a potential |K| of the symmetric part is not exact: Newton's own direction, if it is short and downhill
    short = xp.max(xp.abs(at.displacement(own)) / scale) <= radius
    return xp.where(spring.circulates & short & (own @ at.left > 0), own, down)


def closed(ways: Ways, rest: Rest, s, q, at: Balance, scale) -> tuple[Coordinates, Scalar]:
    """The pose with its joints closed, along the directions of a pose beside it, and the largest gap that is left."""
    xp = ways.np
    if rest.rows == 0:
        return q, xp.asarray(0.0)
    lengths = _lengths(xp, at, scale)

    def largest(gap):
        return xp.max(xp.abs(gap) / lengths)

    def correct(carry):
        q, gap, _, k = carry
        q = retracted(rest.system, q, -at.back @ gap)
        return q, gaps(rest, s, q), largest(gap), k + 1

    def going(carry):
        _, gap, before, k = carry
        return (largest(gap) > 1e-15) & (largest(gap) < 0.9 * before) & (k < 40)

    q, gap, _, _ = ways.loop(going, correct, (q, gaps(rest, s, q), xp.asarray(xp.inf), xp.asarray(0)))
    return q, largest(gap)


def _lengths(xp, at: Balance, scale):
    """By how much each row changes under displacements of the machine's size."""
    lengths = xp.sqrt(xp.sum((at.at.C * scale) ** 2, axis=1))
    return xp.where(lengths > 0, lengths, 1.0)


def _finish(rest: Rest, s, q, found, last, steps) -> Settled:
    """One last step through which derivatives flow: joints close as parameters change, then forces balance."""
    traced = is_traced(rest, s, q)
    xp = Ways(traced).np
    held, fixed = jax.lax.stop_gradient(((rest, s), found)) if traced else ((rest, s), found)
    own, reach, scale, coordinate_scale = sizes(*held, fixed)
    at = balance(*held, fixed)
    K = stiff(*held, fixed, at.lam)
    spring = Spring(xp, at, K, own, reach)
    lam = at.lam
    if traced:
        system, t = rest.at(s)
        found = consistent_state(system, (fixed, jnp.zeros(system.n)), t=t).q
        there = look(rest, s, found)
        delta = -at.back @ jnp.where(np.arange(rest.rows) < system.m, 0.0, there.gap)  # of what is held
        force = there.h + at.lam @ there.C
        pull = at.force(force - K @ delta)
        delta = delta + at.displacement(at.admissible(spring.solve(pull)))
        # their values are rounding: only the derivatives count. Pushed where nothing resists, a machine rests nowhere
        # near: there is none then
        delta, pull, raw = (x - jax.lax.stop_gradient(x) for x in (delta, pull, _times(at.inverse, force)))
        (delta,) = guarded([spring.aside], [delta], [pull], raw)
        found = system.retract(found, delta)
        push = (force - K @ delta) @ at.back
        lam = lam - (push - jax.lax.stop_gradient(push))
    moved = xp.max(xp.abs(fixed - q) / coordinate_scale) if len(fixed) else xp.asarray(0.0)
    residual = spring.share(at.left)
    if rest.rows:  # a pose that keeps its joints open, or does not have what is held, is none
        residual = xp.where(xp.max(xp.abs(at.at.gap) / _lengths(xp, at, scale)) < OPEN, residual, xp.inf)
    return Settled(found, lam, residual, last, moved, steps, at.freedoms)


# ---- from far away -------------------------------------------------------------------------------------------------


def reached(rest: Rest, s, q) -> tuple[Coordinates, Scalar]:
    """A pose in which the held numbers have their values, by moving them there step by step; and how much of the way
    was done (1: all of it)."""
    ways = Ways(is_traced(rest, s, q))
    xp, held = ways.np, rest.held
    if held is None:
        return q, xp.asarray(1.0)
    scale = sizes(rest, s, q)[2]
    m = rest.system.m
    first = gaps(rest, s, q)[m:]

    def towards(share) -> Rest:
        """The values after a share of the way."""
        return eqx.tree_at(lambda r: r.held.values, rest, held.values + (1.0 - share) * first)

    def step(carry):
        q, share, stride, k = carry
        goal = xp.minimum(share + stride, 1.0)
        there = towards(goal)
        at = balance(there, s, q)
        trial, gap = closed(ways, there, s, retracted(rest.system, q, -at.back @ at.at.gap), at, scale)
        moved = xp.max(xp.abs(trial - q) / xp.max(scale))
        good = (gap < OPEN) & (moved < 0.5) & xp.isfinite(gap)
        stride = xp.where(good, 2.0, 0.4) * stride
        return xp.where(good, trial, q), xp.where(good, goal, share), stride, k + 1

    def going(carry):
        _, share, stride, k = carry
        return (share < 1.0) & (stride > 1e-4) & (k < 100)

    q, share, _, _ = ways.loop(going, step, (q, xp.asarray(0.0), xp.asarray(1.0), xp.asarray(0)))
    return q, share


def relaxed(rest: Rest, s, q: Array, steps: int = RELAXATION) -> Array:
    """Where the machine comes to rest when it is let go and stopped at each peak of its kinetic energy: dynamic
    relaxation with kinetic damping [Cundall 1976; Barnes 1999], in the machine's own masses. On the host; the last
    resort, since it needs many steps, but it asks nothing of the stiffness."""
    ways = Ways(False)
    own, reach, scale, coordinate_scale = sizes(rest, s, q)
    x, energy, rate = np.zeros(rest.system.n), 0.0, 1.0
    for k in range(steps):
        at = balance(rest, s, q)
        if k % 50 == 0:
            values = np.linalg.eigvals(at.reduced(stiff(rest, s, q, at.lam)))
            rate = np.sqrt(max(np.max(np.abs(values)), own / reach, 1e-300))
        if np.linalg.norm(at.left) <= 1e-9 * (own + rate**2 * reach):
            break
        x = at.admissible(x + at.left * (0.5 / rate))
        now = float(x @ x)
        if now < energy:  # past a peak: stop
            x, now = np.zeros_like(x), 0.0
        energy = now
        delta = at.displacement(x * (0.5 / rate))
        short = min(1.0, 0.1 / max(float(np.max(np.abs(delta) / scale)), 1e-300))
        trial, gap = closed(ways, rest, s, retracted(rest.system, q, short * delta), at, scale)
        if gap > OPEN or not np.all(np.isfinite(trial)):
            x, energy = np.zeros_like(x), 0.0
            continue
        q = trial
        if np.max(np.abs(q) / coordinate_scale) > FAR:
            break
    return q
