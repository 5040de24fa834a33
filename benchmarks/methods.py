"""Speed of the formulations side by side, in one run: one evaluation of the vector field of a march, on small systems.

    python benchmarks/methods.py

Bars: resolved, null space and projector within 2 times of the augmented form; resolved by Householder reflections at
least 5 times faster than by the recursion. Measured in turns, so that a busy machine slows all alike; the best of many
rounds.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.simulation._march import Problem
from dalembert.stabilise import row_sizes

SYSTEMS = ("four-bar", "slider-crank", "rolling-disc")
WAYS = {
    "augmented": da.Augmented(),
    "null-space": da.NullSpace(da.QR()),
    "resolved": da.Resolved(),
    "projector": da.Projector(),
    "proximal": da.Proximal(),
    "range-space": da.RangeSpace(),
    "minimal-order": da.MinimalOrder(),
    "udwadia-kalaba": da.UdwadiaKalaba(),
    "resolved, recursion": da.Resolved(da.Riemannian(algorithm="recursion")),
}
EVALUATIONS, ROUNDS = 400, 15


def stepper(system, form):
    """A compiled program of many evaluations, each feeding the next by a tiny step, and its start."""
    q, v = da.consistent_state(system)
    form = da.prepared(form, system, (q, v))
    equations = da.assemble(system, 0.0, q, v)
    problem = Problem(system, form, da.NoStabilisation(), row_sizes(system, equations))

    @eqx.filter_jit
    def run(problem, y):
        def body(k, y):
            rate = problem.vector_field(1e-9 * k, y, None)
            return jax.tree_util.tree_map(lambda a, b: a + 1e-9 * b, y, rate)

        return jax.lax.fori_loop(0, EVALUATIONS, body, y)

    y0 = problem.pack(jnp.zeros(()), q, v)
    return lambda: jax.block_until_ready(run(problem, y0))


def main() -> None:
    for name in SYSTEMS:
        system = da.build(da.mechanism(name))
        runs = {word: stepper(system, form) for word, form in WAYS.items()}
        for run in runs.values():
            run()
        times: dict[str, list[float]] = {word: [] for word in runs}
        for _ in range(ROUNDS):
            for word, run in runs.items():
                start = time.perf_counter()
                run()
                times[word].append((time.perf_counter() - start) / EVALUATIONS)
        best = {word: float(np.min(x)) for word, x in times.items()}
        base = best["augmented"]
        print(f"{name} (n = {system.n}, m = {system.m}): µs an evaluation, and against the augmented form")
        for word, x in best.items():
            print(f"  {word:20s} {1e6 * x:8.2f}  {x / base:5.2f}")
        print(f"  recursion / Householder {best['resolved, recursion'] / best['resolved']:.1f}", flush=True)


if __name__ == "__main__":
    main()
