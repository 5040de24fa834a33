"""Many marches on an NVIDIA GPU: steps per second, seconds to compile, and the error against runs on the CPU.

    python benchmarks/gpu.py            all of it, some minutes
    python benchmarks/gpu.py --quick    one configuration of each machine

Float64, hard constraints, every step projected. A step is one of the classical Runge–Kutta method: four right-hand
sides and the projection. Every part is tried by itself, so that one failure does not hide the others.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import tempfile
import time
import traceback
from typing import Any

if __name__ == "__main__":  # compile everything anew, and leave the GPU's memory to these programs
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    os.environ["DALEMBERT_CACHE"] = tempfile.mkdtemp()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")

import equinox as eqx
import numpy as np

import dalembert as da
from dalembert.kernels import device, flat
from dalembert.simulation import _native
from dalembert.simulation._gpu import GpuMachine, GpuRun, march_many_on_gpu
from dalembert.systems import without_names

BARS = {"four-bar": 250e6, "bricard": 10e6}
"""Steps per second that are asked for, on one H200."""
COMPILE, ERROR = 60.0, 1e-10
"""Seconds to compile, and the largest relative error, that are asked for."""
MEMBERS = {"four-bar": 2**20, "bricard": 100_000}
STEPS = {"four-bar": 200, "bricard": 50}
DT = {"four-bar": 0.005, "bricard": 0.005}


def say(*words: Any) -> None:
    print(*words, flush=True)


@contextlib.contextmanager
def tried(what: str):
    """Go on after a failure, and print it."""
    try:
        yield
    except Exception:
        say(f"FAILED: {what}\n{traceback.format_exc(limit=4)}")


@dataclasses.dataclass
class Case:
    """What `simulate` marches of a mechanism."""

    name: str
    machine: _native.Machine
    parameters: np.ndarray
    row: np.ndarray
    limits: np.ndarray
    times: np.ndarray
    seconds: float  # to trace and write out the kernels

    def starts(self, count: int) -> np.ndarray:
        """Rows of members that start with other speeds."""
        _, w, *_ = self.machine.y_tree.tree(np.arange(2, 2 + self.machine.y_tree.size, dtype=float))
        ends = np.repeat(self.row[None], count, axis=0)
        fast = np.asarray(w, int)
        ends[:, fast] *= np.linspace(0.9, 1.1, count)[:, None]
        return ends


def case(name: str, t_end: float, **options: Any) -> Case:
    seen: list = []
    march = _native.march

    def note(*given):
        seen.append(given)
        return march(*given)

    system = da.build(da.mechanism(name))
    begin = time.perf_counter()
    _native.march = note
    try:
        da.simulate(system, t_end, **options)
    finally:
        _native.march = march
    problem, span, plan, times = seen[0]
    problem = without_names(dataclasses.replace(problem, loop="ask"))
    machine = _native.machine_for(problem, span, plan)
    assert not isinstance(machine, str), machine
    row = np.concatenate([[float(span.t0), _native._first_end(span)], flat(span.y0), flat(span.resume[1]), np.zeros(4)])
    limits = np.asarray([span.t1, np.inf, 1e9, span.most, span.rtol, span.atol], float)
    parameters = flat(eqx.filter(problem, eqx.is_array))
    seconds = time.perf_counter() - begin
    return Case(name, machine, parameters, row, limits, np.asarray(times, float), seconds)


def error_of(made: GpuMachine, it: Case, count: int = 16) -> float:
    """The largest difference between members on the GPU and one by one on the CPU, relative to their largest number."""
    ends = it.starts(count)
    found = march_many_on_gpu(made, it.parameters, ends, it.limits, it.times, max(len(it.times), 1))
    kept = it.machine.kept(it.parameters)
    room, ny = max(len(it.times), 1), it.machine.y_tree.size
    ones = [
        _native.run(it.machine, kept, ends[k : k + 1].copy(), it.limits, it.times, False, room) for k in range(count)
    ]
    expected = [np.concatenate(x) for x in zip(*ones, strict=True)]
    worst = 0.0
    for a, b in ((found[0][:, : 2 + ny], expected[0][:, : 2 + ny]), (found[2], expected[2][:, : found[2].shape[1]])):
        if a.size:
            worst = max(worst, float(np.max(np.abs(a - b)) / np.max(np.abs(b))))
    counts = found[0][:, -4:-1], expected[0][:, -4:-1]
    if not np.array_equal(*counts):
        say(f"  result, accepted, rejected differ: {counts[0][:3].tolist()} GPU, {counts[1][:3].tolist()} CPU")
    return worst


def sweep(name: str, quick: bool) -> None:
    gpu = device()
    say(f"\n{name}: {MEMBERS[name]:,} members, {STEPS[name]} steps of {DT[name]} s, rk4, only the end is saved")
    it = case(name, STEPS[name] * DT[name], dt=DT[name], integrator="rk4", samples=2)
    sizes = {n: len(k.written.graph.needed(k.written.outputs)) for n, k in it.machine.many.kernels.items()}
    say(f"  kernels traced and written out in {it.seconds:.1f} s; operations: {sizes}")
    best: tuple = (0.0,)
    say("  inline registers block threads | compile s (LLVM + driver) | registers local/B | seconds | M steps/s")
    usual = GpuMachine(it.machine, saves="end").inline
    for inline in (usual,) if quick else (usual, not usual):
        for registers in (None,) if quick else (None, 128, 168):
            with tried(f"{name} inline={inline} registers={registers}"):
                best = max(best, *one_program(it, gpu, inline, registers, quick), key=lambda x: x[0])
    if best[0]:
        verdict = "reached" if best[0] >= BARS[name] else "MISSED"
        say(f"  best: {best[0] / 1e6:.1f} M steps/s {best[1:]}; asked for {BARS[name] / 1e6:.0f} M: {verdict}")
    with tried("error"):
        for saves in ("end", "times"):
            error = error_of(GpuMachine(it.machine, saves=saves), it)
            say(f"  error of 16 members against one by one on the CPU ({saves}): {error:.1e}; asked for {ERROR:.0e}: "
                f"{'reached' if error <= ERROR else 'MISSED'}")  # fmt: skip
    with tried("own parameters"):
        own_parameters(it, gpu)


def one_program(it: Case, gpu, inline: bool, registers: int | None, quick: bool) -> list[tuple]:
    name, count = it.name, MEMBERS[it.name]
    made = GpuMachine(it.machine, saves="end", inline=inline)
    begin = time.perf_counter()
    made.ptx(gpu.capability)
    wrote = time.perf_counter() - begin
    program = made.program(gpu, registers)
    run = GpuRun(made, gpu, it.parameters[None], it.starts(count), it.limits, it.times, 1)
    figures = program.figures("march")
    out = []
    all_threads = (None, *(gpu.processors * n for n in (64, 128, 256)))
    combinations = (
        [(64, None)] if quick else [(b, None) for b in (32, 64, 128, 256)] + [(32, t) for t in all_threads[1:]]
    )
    for block, threads in combinations:
        with tried(f"{name} block={block}"):
            if not out:
                run.march(program, block, threads)  # the first start loads the program
                run.reset()
            seconds = run.march(program, block, threads)
            ends = run.results()[0] if not out else None
            run.reset()
            rate = count * STEPS[name] / seconds
            say(f"  {inline!s:6} {registers or '-':>9} {block:5} {threads or 'all':>7} | {wrote:5.1f} + "
                f"{program.seconds:5.1f} | {figures['registers']:4} {figures['local']:7} | {seconds:7.3f} | "
                f"{rate / 1e6:8.1f}")  # fmt: skip
            if ends is not None:
                done = (ends[:, -3] == STEPS[name]) & (ends[:, -4] == 0)
                say(f"    members that took all steps: {int(done.sum()):,} of {count:,}")
            out.append((rate, f"inline={inline}", f"registers={registers}", f"block={block}", f"threads={threads}"))
    if wrote + program.seconds > COMPILE:
        say(f"  compiled in {wrote + program.seconds:.0f} s, asked for {COMPILE:.0f} s: MISSED")
    return out or [(0.0,)]


def own_parameters(it: Case, gpu) -> None:
    """The same with parameters of its own for each member, and the time with all copies."""
    count = MEMBERS[it.name]
    sets = np.repeat(it.parameters[None], count, axis=0)
    ends = it.starts(count)
    made = GpuMachine(it.machine, saves="end")
    program = made.program(gpu)
    begin = time.perf_counter()
    run = GpuRun(made, gpu, sets, ends, it.limits, it.times, 1)
    there = time.perf_counter() - begin
    run.march(program)
    run.reset()
    seconds = run.march(program)
    begin = time.perf_counter()
    run.results()
    back = time.perf_counter() - begin
    say(f"  each member with parameters of its own: {count * STEPS[it.name] / seconds / 1e6:.1f} M steps/s; copying "
        f"there {there:.2f} s, back {back:.2f} s")  # fmt: skip


def adaptive(name: str) -> None:
    """Adaptive steps, states at 11 instants."""
    gpu = device()
    count = MEMBERS[name] // 8
    it = case(name, 1.0, rtol=1e-6, integrator="tsit5", samples=11)
    made = GpuMachine(it.machine, saves="times")
    program = made.program(gpu)
    run = GpuRun(made, gpu, it.parameters[None], it.starts(count), it.limits, it.times, len(it.times))
    run.march(program)
    run.reset()
    seconds = run.march(program)
    ends = run.results()[0]
    steps = float(np.sum(ends[:, -3:-1]))
    say(f"\n{name}: {count:,} members, tsit5, rtol 1e-6, 1 s, 11 instants: {seconds:.3f} s, "
        f"{steps / seconds / 1e6:.1f} M steps/s ({7 / 4 * steps / seconds / 1e6:.1f} M of 4 evaluations); "
        f"driver {program.seconds:.1f} s; "
        f"results {np.unique(ends[:, -4]).tolist()}; {program.figures('march')}")  # fmt: skip
    with tried("error"):
        say(f"  error of 16 members: {error_of(made, it):.1e} (the step control may round otherwise: tolerance 1e-6)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one configuration of each machine")
    parser.add_argument("names", nargs="*", default=[*BARS], help="mechanisms")
    given = parser.parse_args()
    gpu = device()
    say(f"GPU of compute capability {gpu.capability / 10}, {gpu.processors} multiprocessors, "
        f"{gpu.free_bytes() / 2**30:.0f} GiB free")  # fmt: skip
    begin = time.perf_counter()
    for name in given.names:
        with tried(name):
            sweep(name, given.quick)
    for name in given.names:
        with tried(f"adaptive {name}"):
            adaptive(name)
    say(f"\nall in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
