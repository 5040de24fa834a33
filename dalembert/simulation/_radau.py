"""6 · simulation: Radau IIA of order 5 for stiff machines, as a Diffrax solver (Diffrax has none).

[Hairer, Wanner 1996, Solving Ordinary Differential Equations II, section IV.8]: three collocation points, L-stable and
stiffly accurate. Only what feeds back is in the nonlinear system, x = (q, w, integral); the work integrals are
quadratures. All is solved in units of the machine (x over its scale), so neither steps nor pivots depend on units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import lu_factor, lu_solve

FILTERED = 5.0
"""How many times its tolerance an error may be that is only in stiff components, which decay within the next step."""

ITERATIONS = 10
"""Newton iterations before a step is refused."""

FULL = 10
"""Steps that use the Jacobian of each stage once a single one has failed: springs that turn while they stay stiff."""

REUSE = 1e-2
"""Convergence rate of Newton below which the Jacobian is kept for the next step."""

EPS = float(np.finfo(float).eps)

ROUNDING = 1e3
"""Newton updates that no longer shrink are rounding when they are below this many units in the last place."""


def _tableau():
    """Collocation points c, matrix A, eigenvalues and eigenvectors of A⁻¹ (one real, one of the complex pair)."""
    s = np.sqrt(6.0)
    c = np.array([(4 - s) / 10, (4 + s) / 10, 1.0])
    A = np.array(
        [
            [(88 - 7 * s) / 360, (296 - 169 * s) / 1800, (-2 + 3 * s) / 225],
            [(296 + 169 * s) / 1800, (88 + 7 * s) / 360, (-2 - 3 * s) / 225],
            [(16 - s) / 36, (16 + s) / 36, 1 / 9],
        ]
    )
    mu, vectors = np.linalg.eig(np.linalg.inv(A))
    order = np.argsort(np.imag(mu))[[1, 2, 0]]  # the real one, then the pair
    mu, vectors = mu[order], vectors[:, order]
    return c, A, mu, vectors, np.linalg.inv(vectors)


C, A, _mu, _vectors, _inverse = _tableau()
MU, MU_PAIR = float(np.real(_mu[0])), complex(_mu[1])
V, V_PAIR = np.real(_vectors[:, 0]), _vectors[:, 1]
TI, TI_PAIR = np.real(_inverse[0]), _inverse[1]
ERROR = np.array([-13 - 7 * np.sqrt(6), -13 + 7 * np.sqrt(6), -1]) / 3  # [HW IV.8, eq. 8.18] over γ₀
POWERS = np.linalg.inv(C[:, None] ** np.arange(1, 4))  # stages → coefficients of θ, θ², θ³


class Collocation(diffrax.AbstractLocalInterpolation):
    """Dense output: the cubic through the start and the three collocation points [HW IV.8, after eq. 8.15]."""

    t0: Any
    t1: Any
    y0: Any
    stages: Any  # Y_i − y0, one after the other

    def evaluate(self, t0, t1=None, left=True):
        del left
        if t1 is not None:
            return jax.tree_util.tree_map(jnp.subtract, self.evaluate(t1), self.evaluate(t0))
        h = self.t1 - self.t0
        theta = jnp.where(h == 0, 0.0, (t0 - self.t0) / jnp.where(h == 0, 1.0, h))
        weights = _at(theta)
        return jax.tree_util.tree_map(lambda y, z: y + jnp.tensordot(weights, z, 1), self.y0, self.stages)


class Carried(eqx.Module):
    """The state passed from one step to the next."""

    J: jax.Array
    stages: jax.Array  # of the step before, for the first guess
    h: jax.Array  # its length, 0 before the first step
    level: jax.Array  # 0: keep J; 1: recompute it; above: Jacobians of each stage, for this many steps but one


class Newton(eqx.Module):
    """State of a simplified Newton iteration: stages z, last change, convergence rate θ."""

    z: jax.Array
    k: Any = eqx.field(default_factory=lambda: jnp.zeros((), int))
    size: Any = eqx.field(default_factory=lambda: jnp.zeros(()))
    theta: Any = eqx.field(default_factory=lambda: jnp.zeros(()))
    good: Any = eqx.field(default_factory=lambda: jnp.array(False))
    failed: Any = eqx.field(default_factory=lambda: jnp.array(False))


class Radau5(diffrax.AbstractAdaptiveSolver):
    """Radau IIA of order 5: few steps on stiff springs, dampers, bushings and contacts, where explicit steps are tiny.

    Simplified Newton in the transformed form, one real and one complex system of the size of x per step; the Jacobian
    of the constrained accelerations by forward differentiation, kept over steps while Newton converges fast. Where that
    fails at the steps worth taking, as with stiff springs that turn, each stage gets its own Jacobian (exact Newton).
    Costs some ten evaluations per step and a Jacobian now and then, so it loses where the motion itself sets the steps.
    """

    rtol: Any = 1e-8
    atol: Any = 1e-8
    scale: Callable[[Any], tuple] | None = None  # sizes of (q, w, work) at y; set by `march`
    scan_kind: str | None = eqx.field(static=True, default=None)

    term_structure: ClassVar = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Callable] = Collocation

    def order(self, terms):
        return 5

    def error_order(self, terms):
        return 4

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)

    def init(self, terms, t0, t1, y0, args):
        return fresh(y0, jnp)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        h = t1 - t0
        scale = _sizes(y0) if self.scale is None else jax.lax.stop_gradient(self.scale(y0))
        # Newton's way to the stages is not differentiated, only the equation they solve
        fixed = _without_derivative((terms, t0, h, y0, args, scale))
        found, state, estimate = self._solve(_Stages(*fixed), solver_state)
        stages = _Stages(terms, t0, h, y0, args, scale)
        z = jax.lax.custom_root(lambda z: stages.residual(z), found, lambda _, z: z, _linear_solve)
        # the work along the solved stages: the same collocation, without feedback; and the rates at the start
        times, points = t0 + jnp.concatenate([jnp.zeros(1), C]) * h, stages.x0 + jnp.pad(z, ((1, 0), (0, 0)))
        rates, power = jax.vmap(stages.rates)(times, points)
        power, error = power[1:], estimate(jax.lax.stop_gradient(rates[0]))
        increments = jax.vmap(stages.join)(z, h * A @ power)
        y1 = jax.tree_util.tree_map(lambda y, dz: y + dz[2], y0, increments)
        dense = {"y0": y0, "stages": increments}
        return y1, stages.join(error, jnp.zeros_like(y0[2])), dense, state, diffrax.RESULTS.successful

    def _solve(self, stages: _Stages, carried: Carried):
        """The stages, the state to pass on, the error estimate by the rates at the start [HW IV.8, eq. 8.19]; infinite
        if Newton failed."""
        t0, h, x0 = stages.t0, stages.h, stages.x0
        weights = jnp.maximum(self.atol + self.rtol * jnp.abs(x0), jnp.finfo(float).tiny)
        # a velocity is at best a rounded position over the step
        floor = EPS * (ROUNDING + 1.0 / h) * _norm((1.0 + jnp.abs(x0)) / weights)
        enough = jnp.maximum(10 * EPS / self.rtol, jnp.minimum(0.03, jnp.sqrt(self.rtol)))
        ratio = h / jnp.where(carried.h > 0, carried.h, 1.0)
        guess = jax.vmap(lambda c: (_at(1.0 + c * ratio) - _at(1.0)) @ carried.stages)(C)
        guess = jnp.where((carried.h > 0) & jnp.all(jnp.isfinite(guess)), guess, 0.0)
        eye = jnp.eye(x0.size)

        def f(t, x):
            return stages.rates(t, x)[0]

        def attempt(value):
            level, J, _, _ = value
            J = jax.lax.cond(level > 0, lambda: _jacobian(lambda x: f(t0, x), x0), lambda: J)
            real, pair = lu_factor(MU * eye - h * J), lu_factor(MU_PAIR * eye - h * J)
            newton = _newton(stages, Newton(guess), level > 1, real, pair, weights, floor, enough)
            return level + ~newton.good, J, newton, real

        def again(value):  # a failure of a cheaper level does not count against the step
            level, _, newton, _ = value
            return (newton.k == 0) | (~newton.good & (level < 3))

        start = jnp.minimum(carried.level, 2)
        nothing = (start, carried.J, Newton(guess), lu_factor(eye))
        level, J, newton, real = jax.lax.while_loop(again, attempt, nothing)
        z = newton.z
        simple = jnp.where(newton.theta < REUSE, 0, 1)
        full = jnp.where(carried.level > 1, carried.level - 1, FULL)
        state = Carried(J, z, h, jnp.where(level < 2, simple, full))

        def estimate(f0):
            part = ERROR @ z
            error = lu_solve(real, h * f0 + part)
            # where that refuses the step, filter the stiff components once more [HW IV.8, eq. 8.20]; an error hidden so
            # moves the next start off the slow motion and spoils its estimate: hide little, and shorten the next step
            size = _norm(error / weights)
            filtered = jax.lax.cond(~(size < 1.0), lambda: lu_solve(real, h * f(t0, x0 + error) + part), lambda: error)
            left = jnp.maximum(0.95, size / FILTERED)
            error = jnp.where((size < 1.0) | (_norm(filtered / weights) > left), filtered, error * (left / size))
            return jnp.where(newton.good, error, jnp.inf)

        return z, state, estimate


class _Stages(eqx.Module):
    """The collocation equations of one step in scaled variables: Z = h A F(x0 + Z) [HW IV.8, eq. 8.2]."""

    terms: Any
    t0: Any
    h: Any
    y0: tuple
    args: Any
    scale: tuple

    @property
    def x0(self) -> jax.Array:
        q, w, _, (_, integral) = self.y0
        return self._flat(q, w, integral)

    def _flat(self, q, w, integral) -> jax.Array:
        return ravel_pytree((q / self.scale[0], w / self.scale[1], integral))[0]

    def rates(self, t, x):
        """(ẋ, power) at (t, x)."""
        q, w, integral = self._unflat(x)
        qdot, wdot, power, (_, rate) = self.terms.vf(t, (q, w, self.y0[2], (self.y0[3][0], integral)), self.args)
        return self._flat(qdot, wdot, rate), power

    def residual(self, z):
        F = jax.vmap(lambda c, z: self.rates(self.t0 + c * self.h, self.x0 + z)[0])(C, z)
        return z - self.h * A @ F

    def _unflat(self, x):
        q, w, _, (_, integral) = self.y0
        q, w, integral = ravel_pytree((q, w, integral))[1](x)
        return q * self.scale[0], w * self.scale[1], integral

    def join(self, x, work):
        """A change of x and of the work as a change of y."""
        q, w, integral = self._unflat(x)
        return q, w, work, (jax.tree_util.tree_map(jnp.zeros_like, self.y0[3][0]), integral)


def _newton(stages: _Stages, newton: Newton, full, real, pair, weights, floor, enough) -> Newton:
    """Newton's method for the stages, simplified [HW IV.8, eqs. 8.4 and 8.10] or with the Jacobian of each stage."""
    t0, h, x0 = stages.t0, stages.h, stages.x0
    times, n = t0 + C * h, x0.size

    def f(t, x):
        return stages.rates(t, x)[0]

    def simplified(z, F):
        """In the eigenvectors of A⁻¹, one real and one complex system."""
        by_real = lu_solve(real, TI @ F - MU * (TI @ z))
        by_pair = lu_solve(pair, TI_PAIR @ F - MU_PAIR * (TI_PAIR @ z))
        return V[:, None] * by_real + 2.0 * jnp.real(V_PAIR[:, None] * by_pair)

    def exact(z, F):
        J = jax.vmap(lambda t, x: _jacobian(lambda x: f(t, x), x))(times, x0 + z)
        matrix = jnp.eye(3 * n) - h * jnp.einsum("ij,jab->iajb", A, J).reshape(3 * n, 3 * n)
        return jnp.linalg.solve(matrix, (A @ F - z).ravel()).reshape(3, n)

    def body(newton: Newton) -> Newton:
        F = h * jax.vmap(f)(times, x0 + newton.z)
        change = jax.lax.cond(full, exact, simplified, newton.z, F)
        size = _norm(change / weights)
        first = newton.k == 0
        rate = size / jnp.where(first, 1.0, newton.size)
        theta = jnp.where(full | (newton.k < 2), rate, jnp.sqrt(rate * newton.theta))
        rounding = ~first & (rate > 0.5) & (size <= floor)
        # never after one iteration: the rate of the step before is no guide where springs turn
        good = (size == 0) | (~first & (theta < 1.0) & (theta / (1.0 - theta) * size <= enough)) | rounding
        ahead = theta ** (ITERATIONS - 1 - newton.k) / (1.0 - theta) * size
        slow = jnp.where(full, theta >= 2.0, (theta >= 0.99) | (ahead > enough))
        failed = ~jnp.isfinite(size) | (~first & slow & ~good)
        return Newton(newton.z + change, newton.k + 1, size, jnp.where(first, 0.0, theta), good, failed)

    def going(newton: Newton):
        return ~newton.good & ~newton.failed & (newton.k < ITERATIONS)

    return jax.lax.while_loop(going, body, newton)


def fresh(y0, xp=np) -> Carried:
    """The state for the first step."""
    q, w, _, (_, integral) = y0
    n = sum(int(np.prod(np.shape(leaf))) for leaf in jax.tree_util.tree_leaves((q, w, integral)))
    return Carried(xp.zeros((n, n)), xp.zeros((3, n)), xp.zeros(()), xp.ones((), int))


def rates_jacobian(vector_field: Callable, t, y, scale: tuple) -> jax.Array:
    """∂ẋ/∂x of a march at (t, y), in the scaled variables of this file."""
    stages = _Stages(diffrax.ODETerm(vector_field), t, 0.0, y, None, scale)
    return _jacobian(lambda x: stages.rates(t, x)[0], stages.x0)


def _jacobian(f: Callable, x: jax.Array) -> jax.Array:
    """∂f/∂x column by column; `jax.jacfwd` refuses functions whose loops make their values depend on the column."""
    return jax.vmap(lambda column: jax.jvp(f, (x,), (column,))[1], out_axes=-1)(jnp.eye(x.size))


def _at(theta):
    """Weights of the three stages in the collocation polynomial at θ."""
    return theta ** jnp.arange(1, 4) @ POWERS


def _norm(x) -> jax.Array:
    return jnp.sqrt(jnp.mean(x**2))


def _without_derivative(tree):
    numbers, rest = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(jax.lax.stop_gradient(numbers), rest)


def _linear_solve(g, y):
    """Derivatives of the stages, by the exact Jacobian at the solution."""
    matrix = _jacobian(lambda x: g(x.reshape(y.shape)).ravel(), jnp.zeros(y.size))
    return jnp.linalg.solve(matrix, y.ravel()).reshape(y.shape)


def _sizes(y0) -> tuple:
    return tuple(jax.tree_util.tree_map(jnp.ones_like, part) for part in y0[:3])
