"""How the right-hand side grows: µs of one evaluation, seconds until it can be evaluated, and memory.

    python benchmarks/scaling.py n-four-bar 500         one machine, in this process: a line of JSON
    python benchmarks/scaling.py closed-chain 1000

N four-bars in a row and chains closed at both ends in absolute coordinates, each in a process of its own, by the
engine that `simulate` takes (machine code up to `AUTO_UP_TO` nodes, a program of JAX above) and by JAX, whose sparse
equations are eliminated in a fixed order, or by KLU; and open chains of N links in joint coordinates beside absolute
ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import equinox as eqx
import jax
import numpy as np

import dalembert as da
from dalembert.kernels import Compiled, Kernel, Unknown, flat
from dalembert.linalg import _klu
from dalembert.reactions import rule_of
from dalembert.simulation._begin import begin
from dalembert.simulation._native import AUTO_UP_TO
from dalembert.stabilise import EXACT
from dalembert.systems import without_names

SIZES = (1, 10, 40, 100, 400, 500, 1500, 5000)
CLOSED = (100, 1000)
MACHINES = {"n-four-bar": "N four-bars in a row", "closed-chain": "a chain of N links pinned at both ends"}
CHAINS = {"chain": "in the plane, hinges", "chain-in-space": "in space, Hooke joints"}
LINKS = (10, 200)
NATIVE = {"n-four-bar": (100, 400)}
"""Of which the whole native march is compiled too, whatever its size."""


def measure(sizes: dict[str, tuple[int, ...]] | None = None) -> list[dict]:
    """Each machine of each size in a fresh process, so that time and memory are its own."""
    sizes = {"n-four-bar": SIZES, "closed-chain": CLOSED} if sizes is None else sizes
    out = []
    for machine, several in sizes.items():
        for N in several:
            command = [sys.executable, __file__, machine, str(N)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            out.append(json.loads(done.stdout.splitlines()[-1]))
    return out


def one(machine: str, N: int, repeats: int = 9) -> dict:
    """Processor seconds of building, preparing (a consistent start, ranks) and compiling; median µs of one evaluation;
    peak memory of this process by then.

    By JAX: assembling and solving the equations of motion once, inside a loop. Natively: the vector field of a march,
    which besides that has the powers of forces.
    """
    before, start = peak_MB(), time.process_time()
    system = da.build(closed_chain(N) if machine == "closed-chain" else da.mechanism(machine, N=N))
    built = time.process_time()
    begun = begin(system, None, 0.0, None, None, rule_of(None), EXACT, False)
    row = {"machine": machine, "N": N, "n": system.n, "build_s": built - start, "engine": "native"}
    row["prepare_s"] = time.process_time() - built
    try:
        loop: Native | Loop = Native(begun)
    except Unknown:
        loop, row["engine"] = Loop(system), "JAX"
    row |= {"compile_s": loop.compile_s, "rhs_us": 1e6 * in_turns([loop], repeats)[0]}
    row["make_s"] = row["build_s"] + row["prepare_s"] + row["compile_s"]
    row |= {"before_MB": before, "peak_MB": peak_MB()}
    other = Loop(system) if isinstance(loop, Native) else loop
    row |= {"jax_compile_s": other.compile_s}
    row["jax_rhs_us"] = row["rhs_us"] if other is loop else 1e6 * in_turns([other], repeats)[0]
    if system.klu is not None:
        with by_klu():
            pivoting = Loop(system)
        row["jax_rhs_us"], row["klu_rhs_us"] = (1e6 * x for x in in_turns([other, pivoting], repeats))
    if N in NATIVE.get(machine, ()):
        start = time.process_time()
        da.simulate(system, 1e-6, samples=2, rtol=1e-6, engine="native")
        row["native_compile_s"] = time.process_time() - start
    return row


@contextlib.contextmanager
def by_klu():
    """Sparse equations are solved by KLU alone."""
    available, _klu.available = _klu.available, lambda: False
    jax.clear_caches()
    try:
        yield
    finally:
        _klu.available = available
        jax.clear_caches()


def peak_MB() -> float:
    """The most resident memory of this process so far.

    Linux counts what a process had before it was this one in `ru_maxrss`, that of its parent, but not in `VmHWM`.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(next(s.split()[1] for s in status.read_text().splitlines() if s.startswith("VmHWM"))) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def closed_chain(N: int) -> da.Model:
    """N uniform rods, 1 kg and 1 m in all, on a half circle below two pins at its ends, at rest: N − 2 free motions."""
    model = da.Model(f"closed-chain-{N}", gravity=(0, -9.81))
    turn, length = np.pi / N, 1.0 / N
    radius = length / (2 * np.sin(turn / 2))
    corners = radius * np.stack([-np.cos(turn * np.arange(N + 1)), -np.sin(turn * np.arange(N + 1))], axis=1)
    before = model.ground
    for k, (a, b) in enumerate(pairwise(corners)):
        link = model.rod(f"link{k}", tuple(a), tuple(b), mass=1.0 / N)
        model.revolute(f"pin{k}", before, link, at=tuple(a))
        before = link
    model.revolute(f"pin{N}", before, model.ground, at=tuple(corners[-1]))
    return model


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


def in_turns(loops: list, repeats: int) -> list[float]:
    """Median seconds of one evaluation of each, measured in turns."""
    turns = [[loop.clock() for loop in loops] for _ in range(repeats)]
    return [median(times) for times in zip(*turns, strict=True)]


class Native:
    """The vector field of a march in machine code, for many rows of states."""

    def __init__(self, begun, seconds: float = 0.05):
        # as the march makes it: positions that need care are left to JAX
        problem = without_names(dataclasses.replace(begun.problem, loop="ask"))
        state = (np.zeros(()), begun.pack(problem, np.zeros(())))
        start = time.process_time()
        kernel = Kernel.of("field", lambda p, x: p.vector_field(*x, None), problem, state, most=AUTO_UP_TO)
        self.code = Compiled([kernel])
        self.compile_s = time.process_time() - start
        self.parameters, self.rows = flat(eqx.filter(problem, eqx.is_array)), flat(state)[None]
        self.clock()
        self.rows = np.tile(self.rows, (max(20, min(20_000, int(seconds / self.clock()))), 1))

    def clock(self) -> float:
        """Processor seconds of one evaluation."""
        start = time.process_time()
        self.code.rows("field", self.parameters, self.rows)
        return (time.process_time() - start) / len(self.rows)


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


if __name__ == "__main__":
    print(json.dumps(one(sys.argv[1], int(sys.argv[2]))))
