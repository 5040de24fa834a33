"""How the right-hand side grows: µs of one evaluation and seconds of compilation.

N four-bars in a row in absolute coordinates, and chains of N links in joint coordinates beside absolute ones.
"""

from __future__ import annotations

import dataclasses
import time
from statistics import median

import equinox as eqx
import jax
import numpy as np

import dalembert as da

SIZES = (1, 2, 5, 10, 20, 40, 100, 400)
CHAINS = {"chain": "in the plane, hinges", "chain-in-space": "in space, Hooke joints"}
LINKS = (10, 50, 200)


def measure(sizes=SIZES, repeats: int = 9) -> list[dict[str, float]]:
    """Median time of assembling and solving the equations of motion once, inside one compiled loop.

    The sizes take turns, so that a busy moment of the machine does not fall on one of them.
    """
    loops = [Loop(da.build(da.mechanism("n-four-bar", N=N))) for N in sizes]
    return [
        {"N": N, "n": loop.system.n, "rhs_us": 1e6 * seconds, "compile_s": loop.compile_s}
        for N, loop, seconds in zip(sizes, loops, in_turns(loops, repeats), strict=True)
    ]


def chains(sizes=LINKS, repeats: int = 9) -> list[dict]:
    """The same for chains: joint coordinates, absolute dense and absolute sparse, in turns."""
    out = []
    for name, title in CHAINS.items():
        rows, loops = [], []
        for N in sizes:
            for way, system in ways(da.mechanism(name, N=N)).items():
                rows.append({"chain": name, "title": title, "N": N, "way": way, "n": system.n})
                loops.append(Loop(system))
        for row, loop, seconds in zip(rows, loops, in_turns(loops, repeats), strict=True):
            out.append(row | {"rhs_us": 1e6 * seconds, "compile_s": loop.compile_s})
    return out


def ways(model) -> dict:
    """One model as three systems."""
    absolute = da.build(model)
    dense = dataclasses.replace(absolute, klu=None)
    found = {"joint": da.build(model, coordinates="joint"), "absolute dense": dense}
    return found | ({"absolute sparse": absolute} if absolute.klu is not None else {})


def in_turns(loops: list[Loop], repeats: int) -> list[float]:
    """Median seconds of one evaluation of each, measured in turns."""
    turns = [[loop.clock() for loop in loops] for _ in range(repeats)]
    return [median(times) for times in zip(*turns, strict=True)]


class Loop:
    """A compiled loop over the right-hand side of a system."""

    def __init__(self, system, seconds: float = 0.05):
        self.system = system
        # parameters are arguments, as they are for a person who calls `simulate`
        self.leaves, static = eqx.partition(system, lambda x: isinstance(x, np.ndarray | jax.Array))

        def loop(leaves, count, q, v):
            system = eqx.combine(leaves, static)

            def once(_, state):
                q, v = state
                vdot = da.formulations.Proximal().solve(da.assemble(system, 0.0, q, v)).vdot
                # a tiny step, so that no evaluation can be hoisted out of the loop
                return q + 1e-12 * system.qdot(q, v), v + 1e-12 * vdot

            return jax.lax.fori_loop(0, count, once, (q, v))

        start = time.process_time()  # all threads: a busy machine does not count
        program = jax.jit(loop).lower(self.leaves, 1, system.q0, system.v0)
        self.run = program.compile()
        self.compile_s = time.process_time() - start
        self.count = 1
        self.clock()
        # long enough for the clock, and a hundred evaluations where they are short
        self.count = 20 if self.clock() < seconds else 1
        self.count = max(1, min(100, int(20 * seconds / self.clock())), int(seconds / self.clock()))

    def clock(self) -> float:
        """Processor seconds of one evaluation; all runs on one core."""
        start = time.process_time()
        jax.block_until_ready(self.run(self.leaves, self.count, self.system.q0, self.system.v0))
        return (time.process_time() - start) / self.count
