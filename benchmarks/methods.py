"""Speed of the formulations side by side, in one run.

    python benchmarks/methods.py [system …]

Bars: resolved, null space and projector within 2 times of the augmented form on small systems; resolved by Householder
reflections at least 5 times faster than by the recursion. The second holds on the four-bar and on
larger machines; on the smallest, and with no freedom left, most of an evaluation is what both share: assembling.
Two measures, in µs:

- whole: one evaluation of the vector field of a march, assembling and energy included;
- basis: what a resolved form adds to the assembled M, C, Ċ, b, h: W, Ẇ_d u, v and u̇. The recursion is there twice,
  with its derivative as the paper writes it (3.5) and by automatic differentiation, as the march runs it.

One core, processor time, all in turns, so that a busy machine slows all alike; a ratio is the median over the rounds of
that within a round, a time the best of all rounds.
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import sys
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.complements import recursion_rates
from dalembert.equations import matrices
from dalembert.simulation._march import Problem
from dalembert.stabilise import row_sizes

SYSTEMS = ("four-bar", "double-pendulum", "slider-crank", "rolling-disc", "andrews", "bricard")
RECURSION = da.complements.Riemannian(algorithm="recursion")
WAYS = {
    "augmented": da.formulations.Augmented(),
    "null-space": da.formulations.NullSpace(da.complements.QR()),
    "resolved": da.formulations.Resolved(),
    "projector": da.formulations.Projector(),
    "proximal": da.formulations.Proximal(),
    "range-space": da.formulations.RangeSpace(),
    "minimal-order": da.formulations.MinimalOrder(),
    "udwadia-kalaba": da.formulations.UdwadiaKalaba(),
    "resolved, recursion": da.formulations.Resolved(RECURSION),
}
EVALUATIONS, ROUNDS = 1000, 40


def main() -> None:
    for name in sys.argv[1:] or SYSTEMS:
        system = da.build(da.mechanism(name))
        state = da.stabilise.consistent_state(system)
        print(f"{name} (n = {system.n}, m = {system.m}); load {os.getloadavg()[0]:.1f}")
        whole = measure({word: vector_field(system, state, form) for word, form in WAYS.items()})
        report("whole, against the augmented form", whole, "augmented")
        recursion = ratio(whole, "resolved, recursion", "resolved")
        print(f"    recursion / Householder {recursion:.1f}")
        report("basis, against Householder", measure(bases(system, state)), "Householder")
        print(flush=True)


def report(title: str, times: dict[str, np.ndarray], base: str) -> None:
    print(f"  {title}")
    for word in times:
        print(f"    {word:22s} {1e6 * np.min(times[word]):8.2f} µs  {ratio(times, word, base):5.2f}")


def ratio(times: dict[str, np.ndarray], one: str, other: str) -> float:
    return float(np.median(times[one] / times[other]))


def measure(programs: dict[str, Callable]) -> dict[str, np.ndarray]:
    """Processor seconds an evaluation, for each round."""
    for run in programs.values():
        run()
    times: dict[str, list[float]] = {word: [] for word in programs}
    for _ in range(ROUNDS):
        for word, run in programs.items():
            start = time.process_time()
            run()
            times[word].append((time.process_time() - start) / EVALUATIONS)
    return {word: np.array(x) for word, x in times.items()}


def looped(rate: Callable, y0) -> Callable:
    """A compiled program of many evaluations, each feeding the next by a tiny step."""

    @eqx.filter_jit
    def run(y):
        def body(_, y):
            return jax.tree_util.tree_map(lambda a, b: a + 1e-9 * b, y, rate(y))

        return jax.lax.fori_loop(0, EVALUATIONS, body, y)

    return lambda: jax.block_until_ready(run(y0))


def vector_field(system, state, form) -> Callable:
    """One evaluation while marching."""
    q, v = state
    form = da.prepare(system, (q, v), formulation=form).formulation
    sizes = row_sizes(system, da.assemble(system, 0.0, q, v))
    problem = Problem(system, form, da.stabilise.NoStabilisation(), sizes)
    return looped(lambda y: problem.vector_field(0.0, y, None), problem.pack(jnp.zeros(()), q, v))


def bases(system, state) -> dict[str, Callable]:
    """The resolved forms' own share, from assembled matrices."""
    q, v = state
    house, twin = (
        da.prepare(system, (q, v), formulation=da.formulations.Resolved(c)).formulation.complement
        for c in (da.complements.Riemannian(), RECURSION)
    )
    at = matrices(system, 0.0, q)
    dot = at.rates(system, 0.0, q, v)
    choice = house.choose(at.C, at.mass)
    u = house.tangential(house.complete(at.C, at.mass, choice), at.mass, v)
    still = system.scleronomic
    y0 = (at.C, dot.C, da.assemble(system, 0.0, q, v).h, u, at.b)

    def fed(y, v, udot):
        """Everything depends on what was found, so that nothing is moved out of the loop."""
        C, Cdot, h, _, b = y
        return C + v, Cdot + v, h + v, udot, b + jnp.sum(v)

    def householder(y):
        C, Cdot, h, u, b = y
        v, frame, tangential = house.moving(C, lambda v: Cdot, at.mass, choice, u, None if still else b)
        return fed(y, v, frame.W_d.T @ h - tangential)

    def written(y):
        C, Cdot, h, u, b = y
        zero = jnp.zeros_like(at.mass.inverse)
        (W, R), (Wdot, Rdot) = recursion_rates(choice.pick(C), choice.pick(Cdot), choice.E, at.mass.inverse, zero)
        r = R.shape[0]
        v, bias = W[:, r:] @ u, Wdot[:, r:] @ u
        if not still:
            up = jax.lax.linalg.triangular_solve(R, choice.pick(b)[:, None], left_side=True, transpose_a=True)
            moved = choice.pick(dot.b)[:, None] - Rdot.T @ up
            up_dot = jax.lax.linalg.triangular_solve(R, moved, left_side=True, transpose_a=True)
            v = v - (W[:, :r] @ up)[:, 0]
            bias = bias - (Wdot[:, :r] @ up + W[:, :r] @ up_dot)[:, 0]
        return fed(y, v, W[:, r:].T @ (h - at.mass.mv(bias)))

    def differentiated(y):
        C, Cdot, h, u, b = y
        own = (C,) if still else (C, b)
        along = (Cdot,) if still else (Cdot, dot.b)

        def velocity(C, b=None):
            return twin.velocity(C, at.mass, choice, None, u, b)

        v, push, W_d = jax.linearize(velocity, *own, has_aux=True)
        return fed(y, v, W_d.T @ (h - at.mass.mv(push(*along))))

    ways = {"Householder": householder, "recursion, (3.5)": written, "recursion, by AD": differentiated}
    return {word: looped(rate, y0) for word, rate in ways.items()}


if __name__ == "__main__":
    main()
