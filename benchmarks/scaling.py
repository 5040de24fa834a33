"""How the right-hand side grows: µs of one evaluation and seconds of compilation for N four-bars in a row."""

from __future__ import annotations

import time
from statistics import median

import equinox as eqx
import jax

import dalembert as da

SIZES = (1, 2, 5, 10, 20, 40, 100, 400)


def measure(sizes=SIZES, repeats: int = 9) -> list[dict[str, float]]:
    """Median time of assembling and solving the equations of motion once, inside one compiled loop.

    The sizes take turns, so that a busy moment of the machine does not fall on one of them.
    """
    loops = [Loop(N) for N in sizes]
    turns = [[loop.clock() for loop in loops] for _ in range(repeats)]
    return [
        {"N": loop.N, "n": loop.system.n, "rhs_us": 1e6 * median(times), "compile_s": loop.compile_s}
        for loop, times in zip(loops, zip(*turns, strict=True), strict=True)
    ]


class Loop:
    """A compiled loop over the right-hand side of N four-bars."""

    def __init__(self, N: int, seconds: float = 0.05):
        self.N = N
        self.system = system = da.build(da.mechanism("n-four-bar", N=N))
        self.leaves, static = eqx.partition(system, eqx.is_array)

        def loop(leaves, count, q, v):
            system = eqx.combine(leaves, static)

            def once(_, state):
                q, v = state
                vdot = da.Proximal().solve(da.assemble(system, 0.0, q, v)).vdot
                # a tiny step, so that no evaluation can be hoisted out of the loop
                return q + 1e-12 * system.qdot(q, v), v + 1e-12 * vdot

            return jax.lax.fori_loop(0, count, once, (q, v))

        start = time.perf_counter()
        program = jax.jit(loop).lower(self.leaves, 1, system.q0, system.v0)
        self.run = program.compile()
        self.compile_s = time.perf_counter() - start
        self.count = 100
        self.clock()
        # at least a hundred evaluations, and long enough for the clock
        self.count = max(100, int(seconds / self.clock()))

    def clock(self) -> float:
        """Processor seconds of one evaluation; all runs on one core."""
        start = time.process_time()
        jax.block_until_ready(self.run(self.leaves, self.count, self.system.q0, self.system.v0))
        return (time.process_time() - start) / self.count
