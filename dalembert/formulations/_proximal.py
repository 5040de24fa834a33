"""5 · formulations: the default, which handles redundant constraints and singular positions."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox.internal import unvmap_any, while_loop

from dalembert._typing import Array, Rows, is_traced
from dalembert.equations import ROUNDED, Equations, assemble
from dalembert.formulations._base import AbstractFormulation, Acceleration, Motion, with_reaction, with_rhs
from dalembert.linalg import NEAR, RANK_TOLERANCE, SOLVED, Attempt, DenseSaddle

CORRECTIONS = 4
"""Most corrections of a state, which is first moved onto the constraints where it is near a singular position: a
violation e makes accelerations wrong by e/σ, and a step cannot separate that from the motion."""
FALLS = 1e-13
"""Below this violation another correction follows only if the last one halved it: else it is rounding."""
ASIDE = 3e-2
"""Distance at which accelerations beside a singular position are taken, in the machine's size (or radians). The
acceleration of a projected state has an error of rounding/σ³; that grows as fast towards the position as the error of
an interpolation, O(ASIDE¹⁰), falls."""
SIDES = (1, -1, 2, -2, 3, -3, 4, -4, 5, -5)
"""Places about the singular position, in units of `ASIDE`, taken pair by pair."""
GROWN = 3.0
"""An acceleration may exceed what loads and speed explain by this factor to be used as a first guess."""
SPREAD = 1e-6
"""Relative difference of two interpolations up to which it counts as rounding."""
CLOSED, DISAGREE = 1e-9, 1e-2
"""Largest violation of a side that counts, and largest relative difference of two interpolations that count."""
WORSE = 1e3
"""Sides do not count that disagree by more than this factor times the error of the state itself: as of a machine that
turns back beside a singular position, where some of them are beyond it. (The difference of two interpolations is larger
than the error of the better one.)"""
INSIDE = 0.8
"""Share of σ aside below which a state is between the first two sides."""
ACCURATE, AMPLIFIED = 0.03, 20.0
"""Share of the march's tolerance that the error of an acceleration beside a singular position may reach. At a state
that was moved onto the constraints it is rounding/σ³, since they hardly determine the state along the weakest
direction: measured 3 … 20 times the rounding of q, for one four-bar and for forty. Where that is too much it is taken
aside, from as many pairs of sides as the tolerance asks for. (Nearer sides do not pay at a loose tolerance: what the
stages of a step are off the constraints is amplified as well.)"""
PAIRS, PROBES, LAST = len(SIDES) // 2, 2, 3 + len(SIDES)


class Visit(eqx.Module):
    """Progress of an evaluation: at the state itself (place 0), a probe, a side, or at the state again."""

    going: jax.Array
    place: Array
    corrections: Array
    gap: Array  # the violation before the last correction
    at: tuple  # t, q, v
    tau: Array  # the time to one side
    shift: Array  # how far the state is from the singular position, in units of tau
    vdot: Array  # of the state, as computed so far
    spread: Array  # difference of two of the sums below
    totals: Array  # over the sides: from the first pair, the first two pairs, …
    outer: Array  # from all but the nearest pair
    roots: jax.Array  # weakest directions at the state and the two probes
    inside: Array  # whether the sides are taken


class Proximal(AbstractFormulation):
    """The augmented equations [M Cᵀ; C 0], solved so that dependent rows and singular positions are handled.

    Small systems eliminate v̇ (range space: Blajer, Bestle, Schiehlen 1994, eq. 35) and take a Cholesky of the scaled
    Delassus matrix; large ones factorise the sparse saddle-point matrix [Wojtyra, Fraczek 2013, eq. 11] with KLU. Their
    results are refined until they solve the equations; where that fails singular values are used. Beside a singular
    position, and with dependent rows, a stage of a step is first put onto the constraints. Where constraints
    contradict each other it gives the least-squares motion in the mass metric, and the march reports it. Cost O(m³)
    dense, about linear in the bodies when sparse.

    `kept` (1 or 0 per row) marks rows that represent all where others depend on them, `usual` are the pivots of these
    (`Attempt.pivots`) at generic states: where one is far below, a singular position is near. A light body makes some
    of them small everywhere. `simulate` finds both; without them, every row counts. `tolerance` is that of the march.
    """

    kept: Rows | None = None
    usual: Array | float = 1.0
    tolerance: Array | float = 0.0

    def with_tolerance(self, tolerance) -> Proximal:
        return dataclasses.replace(self, tolerance=jnp.asarray(tolerance, float))

    @property
    def known_rank(self) -> int | None:
        return None if self.kept is None or is_traced(self.kept) else int(np.sum(np.asarray(self.kept) > 0))

    @property
    def margin(self) -> Any:
        """The least of the usual pivots."""
        return jnp.min(self.usual) if is_traced(self.usual) else np.min(self.usual)

    def _near(self, found: Attempt):
        return ~(self._apart(found) > NEAR)

    def _apart(self, found: Attempt):
        """How independent the rows are; 1 for as usual."""
        return jnp.min(found.pivots * (1.0 / self.usual))  # not a division at each state

    def solve(self, equations: Equations) -> Acceleration:
        return with_reaction(equations, equations.factorise().solve(equations.h, equations.Gamma)[0])

    def motion(self, system, t, q, w, memory, rhs, *, exact: bool = False, loop: str = "lax") -> Motion:
        if system.m == 0:
            return super().motion(system, t, q, w, memory, rhs)
        t = jnp.asarray(t, float)
        if loop == "ask":
            equations, found = self._evaluate(system, t, q, w, rhs)
            good = self._solved(found) & ~(jnp.array(exact) & self._near(found))
            return Motion(equations, found.x, with_reaction(equations, found.x), jnp.where(good, 0.0, jnp.inf))
        inside, aside, spread = jnp.array(False), w, jnp.zeros(())
        if exact and loop != "none":  # else do not correct a drift that the method is meant to show
            visit, equations, found = self._visit(system, t, q, w, rhs, loop)
            inside, aside, spread = visit.inside, visit.vdot, visit.spread
        else:
            equations, found = self._evaluate(system, t, q, w, rhs)
        solved = self._solved(found) | inside
        quick = jnp.where(inside, aside, found.x)

        def otherwise():
            # directions that may be due to the violation itself are not used, if they are weaker than usual
            made = jnp.minimum(10 * equations.violation(system.scale()), 0.1 * jnp.sqrt(self.margin))
            cut = jnp.maximum(RANK_TOLERANCE, made)
            return jnp.where(solved, quick, equations.factorise().exact(equations.h, equations.Gamma, cut)[0])

        asks = loop == "aside"
        vdot = quick if asks else jax.lax.cond(unvmap_any(~solved), otherwise, lambda: quick)
        size = jnp.max(jnp.abs(vdot) / system.scale(), initial=0.0)
        noise = jnp.where(inside & (spread < SPREAD * size), spread, 0.0)
        near = inside if self.kept is not None else inside | self._near(found)
        noise = jnp.where(solved, noise, jnp.inf) if asks else noise
        marks = jax.lax.stop_gradient((noise, jnp.where(near, 1.0, 0.0)))
        return Motion(equations, vdot, with_reaction(equations, vdot), *marks)

    def _solved(self, found: Attempt):
        """Whether a quick solution can be taken: of dependent rows, only where the kept ones are independent."""
        solved = found.residual <= SOLVED
        return solved if self.kept is None else solved & ~self._near(found)

    def _evaluate(self, system, t, q, v, rhs) -> tuple[Equations, Attempt]:
        equations = with_rhs(assemble(system, t, q, v), rhs)
        return equations, equations.factorise(self.kept).attempt(equations.h, equations.Gamma)

    def _visit(self, system, t, q, w, rhs, loop: str) -> tuple[Visit, Equations, Attempt]:
        """An evaluation, at other places too where the state is near a singular position; one assembly serves all."""
        aside = loop in ("lax", "aside")
        # machine code has to move what a loop carries in each round: it does without the equations, which are assembled
        # once more at the end. A program of XLA takes longer to compile with two assemblies
        light = loop == "aside"

        def evaluate(carry):
            visit: Visit = carry[0]
            equations = with_rhs(assemble(system, *visit.at), rhs)
            factor, dense = equations.factorise(self.kept), equations.klu is None
            attempts = [lambda p=p: factor.attempt(equations.h, equations.Gamma, polished=p) for p in (False, True)]
            first, side = visit.place == 0, (visit.place > PROBES) & (visit.place < LAST)
            gap = equations.violation(system.scale())
            # a violation that is larger than rounding, or that still falls
            larger = (gap > FALLS) | (gap < 0.5 * visit.gap)
            # of a side as small as its acceleration, wrong by gap/σ², needs it
            weakest = 0.5 * (visit.roots[1] + visit.roots[2])
            fine = jnp.where(side, 0.1 * ACCURATE * self.tolerance * weakest**2, 0.0)
            more = (gap > jnp.maximum(ROUNDED, fine)) & (visit.corrections < CORRECTIONS) & larger
            waits = side & more  # a side is evaluated when it is on the constraints
            nothing = _zeros(jax.eval_shape(attempts[0]))
            now = first if dense else ~waits  # sparse solutions are always polished
            if light and not dense:  # accelerations are known from the sides: here only the equations are wanted
                now = now & ~((visit.place == LAST) & visit.inside)
            quick = jax.lax.cond(unvmap_any(now), attempts[0], lambda: nothing) if aside else attempts[0]()
            ended = dataclasses.replace(visit, going=jnp.array(False))
            special = ~first | self._near(quick)

            def onwards():
                found = quick
                if dense:
                    # on both equations: a light body leaves a side as weak as a singular position
                    found = jax.lax.cond(unvmap_any(~waits), attempts[1], lambda: quick)
                    found = _where(~waits, found, quick)
                near = self._near(found)
                weakest = self._weakest(equations, found, visit.place) if aside else jnp.ones(())
                direct = first & (self._accurate(system, q, weakest) if aside else True)
                last = (visit.place == LAST) | direct
                off = waits | (near & last & ~visit.inside & more)
                # with dependent rows some directions are mere rounding: do not reduce the damping
                measure = self.margin if self.kept is None else 1.0
                at = jax.lax.cond(
                    unvmap_any(off),
                    lambda: (visit.at[0], *equations.corrected(system, gap, off, measure)),
                    lambda: visit.at,
                )
                count = visit.corrections + 1
                corrected = dataclasses.replace(visit, at=at, corrections=count, gap=gap, going=off)
                if not aside:
                    return _where(special, corrected, ended), _where(special, found, quick)
                corrected = dataclasses.replace(corrected, place=jnp.where(direct, LAST, visit.place))

                def elsewhere():
                    guess = _guess(system, equations, found)
                    after = self._next(system, (t, *start), visit, near & ~direct, gap, found, guess, weakest)
                    return _where(off, corrected, after)

                after = jax.lax.cond(unvmap_any(~off), elsewhere, lambda: corrected)
                return _where(special, after, ended), _where(special, found, quick)

            after, found = jax.lax.cond(unvmap_any(special), onwards, lambda: (ended, quick))
            return (after, found) if light else (after, found, equations)

        zero, none, no = jnp.zeros((), int), jnp.zeros(()), jnp.array(False)
        start = (q, w)
        first = Visit(
            ~no, zero, zero, none + jnp.inf, (t, *start), none, none, 0 * w, none,
            jnp.zeros((PAIRS, len(w))), 0 * w, jnp.ones(3), no,
        )  # fmt: skip
        empty = _zeros(jax.eval_shape(lambda: evaluate((first, None, None))[1:]))
        most = (CORRECTIONS + 1) * (1 + (len(SIDES) if aside else 0)) + PROBES + 1
        kind = "lax" if aside else "bounded"
        done: Any = while_loop(lambda c: c[0].going, evaluate, (first, *empty), max_steps=most, kind=kind)
        visit, found = done[:2]
        return visit, with_rhs(assemble(system, *visit.at), rhs) if light else done[2], found

    def _accurate(self, system, q, weakest):
        """Whether an acceleration at the state itself is as accurate as the march: where rounding/σ³ is small."""
        return ACCURATE * jnp.asarray(self.tolerance) > self._lost(system, q, weakest)

    def _lost(self, system, q, weakest):
        """The relative error of an acceleration at a state itself, where σ of its weakest direction is `weakest`."""
        rounding = np.finfo(float).eps * jnp.max(jnp.abs(q) / system.coordinate_scale(), initial=1.0)
        return AMPLIFIED * rounding / jnp.maximum(weakest, 1e-100) ** 3

    def _weakest(self, equations: Equations, found: Attempt, place):
        """σ of the weakest direction of all rows, up to a factor; needed at the state and its probes only.

        The rows that stand for all may become dependent where all of them together do not: no singular position.
        """
        if self.kept is None:
            return jnp.sqrt(self._apart(found))
        rank = jnp.sum(jnp.asarray(self.kept) > 0)

        def among_all():
            factor = equations.factorise()
            assert isinstance(factor, DenseSaddle)  # large systems have no `kept`
            values = factor.singular_values()
            return values[jnp.clip(rank - 1, 0, len(values) - 1)]

        return jax.lax.cond(unvmap_any(place <= PROBES), among_all, lambda: jnp.ones(()))

    def _next(self, system, state, visit: Visit, near, gap, found: Attempt, guess, weakest) -> Visit:
        """The visit after an evaluation: at the next place, or at its end."""
        t, q, v = state
        place = visit.place
        first, side = place == 0, (place > PROBES) & (place < LAST)
        roots = jnp.where(jnp.arange(3) == place, weakest, visit.roots)
        base, plus, minus = roots
        inside = jnp.where(place == PROBES, base < INSIDE * 0.5 * (plus + minus), visit.inside)
        shift = jnp.where(place == PROBES, (plus - minus) / (plus + minus), visit.shift)
        which = jnp.clip(place - PROBES - 1, 0, len(SIDES) - 1)
        pairs = [_weights(shift, SIDES[: 2 * k + 2]) for k in range(PAIRS)]
        weights = jnp.stack([jnp.concatenate([x, jnp.zeros(len(SIDES) - len(x))]) for x in pairs])[:, which]
        totals = jnp.where(side, visit.totals + weights[:, None] * found.x, 0.0)
        fewer = jnp.concatenate([jnp.zeros(2), _weights(shift, SIDES[2:])])
        outer = jnp.where(side, visit.outer + fewer[which] * found.x, 0.0)
        # from all pairs so far, and from one pair less; after the last, from all but the nearest, which rounding spoils
        total, before = totals[0], totals[0] + jnp.inf
        for k in range(1, PAIRS):
            now = which == 2 * k + 1
            total, before = jnp.where(now, totals[k], total), jnp.where(now, totals[k - 1], before)
        final = which == len(SIDES) - 1
        before = jnp.where(final, outer, before)
        size, apart = (jnp.max(jnp.abs(x) / system.scale(), initial=0.0) for x in (total, total - before))
        # each pair brings it closer by much the same factor; after two pairs that is not known yet
        closer = jnp.where(which == 3, 0.1, jnp.clip(apart / jnp.where(visit.spread > 0, visit.spread, 1.0), 0.01, 1.0))
        whole = side & (final | (apart * closer < ACCURATE * self.tolerance * size))
        vdot = jnp.where(first, guess, jnp.where(whole, total, visit.vdot))
        spread = jnp.where(side & jnp.isfinite(apart), jnp.where(whole & ~final, apart * closer, apart), visit.spread)
        # a side that does not exist (beyond the reach of a driver), or sides that disagree
        # by far more than the state itself would be wrong: a side is near another singular position
        most = jnp.minimum(DISAGREE, WORSE * self._lost(system, q, base))
        inside = inside & ~(side & ~(gap < CLOSED)) & ~(whole & ~(spread < most * size))
        totals, outer = jnp.where(whole, 0.0, totals), jnp.where(whole, 0.0, outer)
        # the time in which the fastest coordinate moves that far
        speed, change = (jnp.max(jnp.abs(x) / system.scale(), initial=0.0) for x in (v, vdot))
        pace = speed + jnp.sqrt(speed**2 + 2 * ASIDE * 2.5 * change)  # the farthest side is 5 of them away
        tau = jnp.where(first, 2 * ASIDE / jnp.where(pace > 0, pace, 1.0), visit.tau)
        following = jnp.where(((place >= PROBES) & ~inside) | whole, LAST, place + 1)
        sides = jnp.asarray((0.0, 1.0, -1.0, *SIDES, 0.0))[jnp.minimum(following, LAST)]
        among = (following > PROBES) & (following < LAST)
        step = tau * (sides - jnp.where(among, shift, 0.0))
        moved = t + step, system.retract(q, step * (v + 0.5 * step * vdot)), v + step * vdot
        going = jnp.where(first, near & (pace > 0), place < LAST)
        at = tuple(jnp.where(following < LAST, x, y) for x, y in zip(moved, state, strict=True))
        at = _where(going, at, visit.at)
        zero, none = jnp.zeros((), int), jnp.array(jnp.inf)
        return Visit(going, following, zero, none, at, tau, shift, vdot, spread, totals, outer, roots, inside)


def _guess(system, equations: Equations, found: Attempt):
    """v̇ for the step to a side: as found, but not larger than loads and speed explain (a violation may enlarge it)."""
    size = system.scale()
    found_, free, fast = (
        jnp.max(jnp.abs(x) / size, initial=0.0) for x in (found.x, equations.mass.solve(equations.h), equations.v)
    )
    most = GROWN * (free + fast**2)
    return found.x * jnp.where(found_ > most, most / found_, 1.0)


def _weights(at, sides):
    """Weights of the values at the sides for the value at `at` between them (Lagrange)."""
    nodes = np.asarray(sides, float)
    apart = nodes[:, None] - nodes + np.eye(len(nodes))
    ratios = jnp.where(np.eye(len(nodes), dtype=bool), 1.0, (at - nodes)[None, :] / apart)
    return jnp.prod(ratios, axis=1)


def _zeros(shapes):
    return jax.tree_util.tree_map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def _where(which, a, b):
    return jax.tree_util.tree_map(lambda x, y: jnp.where(which, x, y), a, b)
