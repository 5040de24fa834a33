"""Many marches on an NVIDIA GPU: steps per second, seconds to compile, and the error against runs on the CPU.

    python benchmarks/gpu.py                all of it, some minutes
    python benchmarks/gpu.py --quick        one configuration of each machine
    python benchmarks/gpu.py --xla          the same as a program of JAX, too (with JAX for CUDA)
    python benchmarks/gpu.py --write FILE   on a machine without a GPU: write the programs and what they should answer
    python benchmarks/gpu.py --run FILE     on one with a GPU, where only NumPy and the driver are needed: run them
    python benchmarks/gpu.py --mjx          MJX (JAX for CUDA, `pip install mujoco-mjx`) on the same four-bars, too;
                                            also with --write, for a run that needs no dalembert
    python benchmarks/gpu.py --mjx-only 4   the same alone, with so many four-bars: a trial without a GPU

Float64, hard constraints, every step projected. A step is one of the classical Runge–Kutta method: four right-hand
sides and the projection. Every part is tried by itself, so that one failure does not hide the others.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import os
import pickle
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":  # compile everything anew, and leave the GPU's memory to these programs
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    os.environ["DALEMBERT_CACHE"] = tempfile.mkdtemp()
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if not {"--xla", "--mjx", "--mjx-only"} & set(sys.argv):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")

BARS = {"four-bar": 250e6, "bricard": 10e6}
"""Steps per second that are asked for, on one H200."""
COMPILE, ERROR = 60.0, 1e-10
"""Seconds to compile, and the largest relative error, that are asked for."""
MEMBERS = {"four-bar": 2**20, "bricard": 100_000}
STEPS = {"four-bar": 200, "bricard": 50}
DT = {"four-bar": 0.005, "bricard": 0.005}
STATES = 251
"""Starts, along one second of motion."""
COMPARED = 16
"""Members that run on the CPU as well."""


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
class Job:
    """A program, what it is given, and what it should answer."""

    name: str
    what: str  # "rk4" or "tsit5"
    saves: str
    inline: bool
    usual: bool  # whether this is how `march_many_on_gpu` would write it
    operations: dict[str, int]
    ptx: bytes
    traced: float  # seconds to trace and write out the kernels
    wrote: float  # seconds to write PTX
    layout: tuple
    row: np.ndarray
    at_speeds: int  # where velocities begin in a state
    states: np.ndarray  # (q, v) along a motion
    parameters: np.ndarray
    limits: np.ndarray
    times: np.ndarray
    expected: tuple[np.ndarray, np.ndarray]  # (ends, states) of the members that run on the CPU

    def starts(self, count: int) -> np.ndarray:
        """Rows of members that start at other positions of a motion, and up to a tenth faster or slower."""
        ends, n = np.repeat(self.row[None], count, axis=0), self.states.shape[1]
        faster = np.where(np.arange(n) < self.at_speeds, 1.0, np.linspace(0.9, 1.1, count)[:, None])
        ends[:, 2 : 2 + n] = self.states[np.arange(count) % len(self.states)] * faster
        return ends


# ---- writing ---------------------------------------------------------------------------------------------------


def seen(name: str, t_end: float, **options: Any) -> tuple:
    """What `simulate` marches: (machine, row, numbers of q, states, parameters, limits, times, seconds)."""
    import equinox as eqx

    import dalembert as da
    from dalembert.kernels import flat
    from dalembert.simulation import _native
    from dalembert.systems import without_names

    given: list = []
    march = _native.march

    def note(*these):
        given.append(these)
        return march(*these)

    system = da.build(da.mechanism(name))
    begin = time.perf_counter()
    _native.march = note
    try:
        da.simulate(system, t_end, **options)
    finally:
        _native.march = march
    problem, span, plan, times = given[0]
    problem = without_names(dataclasses.replace(problem, loop="ask"))
    machine = _native.machine_for(problem, span, plan, graphs=True)
    assert not isinstance(machine, str), machine
    row = np.concatenate([[float(span.t0), _native._first_end(span)], flat(span.y0), flat(span.resume[1]), np.zeros(4)])
    limits = np.asarray([span.t1, np.inf, 1e9, span.most, span.rtol, span.atol], float)
    parameters = flat(eqx.filter(problem, eqx.is_array))
    seconds = time.perf_counter() - begin
    motion = da.simulate(system, 1.0, samples=STATES)
    states = np.concatenate([motion.q, motion.v], axis=1)
    assert span.y0[1].shape == motion.v[0].shape  # the march integrates velocities
    return machine, row, motion.q.shape[1], states, parameters, limits, np.asarray(times, float), seconds


def jobs_of(name: str, what: str, capability: int, quick: bool) -> list[Job]:
    """The programs of a mechanism."""
    from dalembert.simulation import _native
    from dalembert.simulation._gpu import GpuMachine

    if what == "rk4":
        machine, *given, traced = seen(name, STEPS[name] * DT[name], dt=DT[name], integrator="rk4", samples=2)
    else:
        machine, *given, traced = seen(name, 1.0, rtol=1e-6, integrator="tsit5", samples=11)
    row, at_speeds, states, parameters, limits, times = given
    operations = {n: len(k.written.graph.needed(k.written.outputs)) for n, k in machine.many.kernels.items()}
    out: list[Job] = []
    usual = GpuMachine(machine, saves="end").inline
    kinds = [("end", usual), ("end", not usual), ("times", usual)] if what == "rk4" else [("times", usual)]
    for saves, inline in kinds[:: 2 if quick else 1]:
        made = GpuMachine(machine, saves=saves, inline=inline)
        begin = time.perf_counter()
        ptx = made.ptx(capability)
        wrote = time.perf_counter() - begin
        job = Job(
            name, what, saves, inline, inline == usual, operations, ptx, traced, wrote, tuple(made.layout), row,
            at_speeds, states, parameters, limits, times, (row, row),
        )  # fmt: skip
        kept, starts = machine.kept(parameters), job.starts(COMPARED)
        ones = [
            _native.run(machine, kept, starts[k : k + 1].copy(), limits, times, False, len(times))
            for k in range(COMPARED)
        ]
        job.expected = (np.concatenate([x[0] for x in ones]), np.concatenate([x[2] for x in ones]))
        out.append(job)
    return out


def write(names: list[str], capability: int, quick: bool) -> list[Job]:
    jobs: list[Job] = []
    for name in names:
        for what in ("rk4", "tsit5"):
            with tried(f"writing {name} {what}"):
                jobs += jobs_of(name, what, capability, quick)
                say(f"wrote the programs of {name}, {what}")
    return jobs


# ---- running ---------------------------------------------------------------------------------------------------


def lean(file: str, name: str) -> Any:
    """One file of the package, where the rest of it cannot be imported."""
    path = Path(__file__).parent.parent / "dalembert" / file
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Runner:
    """The GPU, and what marches on it."""

    def __init__(self, alone: bool):
        if alone:
            sys.path.insert(0, str(Path(__file__).parent.parent))
            cuda = lean("kernels/_cuda.py", "dalembert.kernels")
            run = lean("simulation/_gpu_run.py", "dalembert_gpu_run")
        else:
            from dalembert import kernels as cuda
            from dalembert.simulation import _gpu_run as run
        self.run, self.Program, self.gpu = run, cuda.DeviceProgram, cuda.device()
        self.programs: dict = {}

    def program(self, job: Job, registers: int | None = None) -> Any:
        """A program, compiled once."""
        key = (job.ptx, registers)
        if key not in self.programs:
            self.programs[key] = self.Program(self.gpu, job.ptx, registers)
        return self.programs[key]

    def batch(self, job: Job, count: int, own: bool = False) -> Any:
        sets = np.repeat(job.parameters[None], count if own else 1, axis=0)
        room = len(job.times)
        return self.run.GpuRun(
            self.run.Layout(*job.layout), self.gpu, sets, job.starts(count), job.limits, job.times, room
        )


def error_of(job: Job, runner: Runner, program) -> None:
    """The largest difference between members on the GPU and one by one on the CPU, relative to their largest number."""
    batch = runner.batch(job, COMPARED)
    batch.march(program)
    ends, _, states = batch.results()
    ny = job.layout[0]
    expected, expected_states = job.expected
    pairs = [(ends[:, : 2 + ny], expected[:, : 2 + ny])]
    pairs += [(states, expected_states)] if job.saves == "times" else []
    error = max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)
    verdict = "reached" if error <= ERROR else "MISSED"
    verdict = verdict if job.what == "rk4" else "the step control may round otherwise: rtol is 1e-6"
    say(f"  {job.what}, {job.saves}: error of {COMPARED} members against one by one on the CPU {error:.1e}; asked for "
        f"{ERROR:.0e}: {verdict}")  # fmt: skip
    counts = ends[:, -4:-1], expected[:, -4:-1]
    if not np.array_equal(*counts):
        say(f"    result, accepted, rejected: {counts[0][:3].tolist()} on the GPU, {counts[1][:3].tolist()} on the CPU")


def sweep(name: str, jobs: list[Job], runner: Runner, quick: bool) -> None:
    """Fixed steps: all configurations, the error, parameters of each member's own."""
    ends = [j for j in jobs if j.saves == "end"]
    say(f"\n{name}: {MEMBERS[name]:,} members, {STEPS[name]} steps of {DT[name]} s, rk4, only the end is saved")
    say(f"  kernels traced and written out in {ends[0].traced:.1f} s; operations: {ends[0].operations}")
    say("  inline registers block threads | compile s (LLVM + driver) | registers local/B | seconds | M steps/s")
    best: tuple = (0.0,)
    for job in ends:
        for registers in (None, 128, 168) if job.usual and not quick else (None,):
            with tried(f"{name} inline={job.inline} registers={registers}"):
                best = max(best, *configurations(job, runner, registers, quick), key=lambda x: x[0])
    verdict = "reached" if best[0] >= BARS[name] else "MISSED"
    say(f"  best: {best[0] / 1e6:.1f} M steps/s {best[1:]}; asked for {BARS[name] / 1e6:.0f} M: {verdict}")
    for job in jobs:
        if job.usual:
            with tried(f"error of {job.saves}"):
                error_of(job, runner, runner.program(job))
    with tried("own parameters"):
        own_parameters(next(j for j in ends if j.usual), runner)


def configurations(job: Job, runner: Runner, registers: int | None, quick: bool) -> list[tuple]:
    gpu, count, steps = runner.gpu, MEMBERS[job.name], STEPS[job.name]
    program = runner.program(job, registers)
    figures = program.figures("march")
    batch = runner.batch(job, count)
    fewer = [(32, gpu.processors * n) for n in (32, 64, 128, 256)]
    combinations = [(64, None)] if quick else [(b, None) for b in (32, 64, 128, 256)] + fewer
    out: list[tuple] = []
    for block, threads in combinations:
        with tried(f"{job.name} block={block} threads={threads}"):
            if not out:
                batch.march(program, block, threads)  # the first start loads the program
                batch.reset()
            seconds = batch.march(program, block, threads)
            rate = count * steps / seconds
            say(f"  {job.inline!s:6} {registers or '-':>9} {block:5} {threads or 'all':>7} | {job.wrote:5.1f} + "
                f"{program.seconds:5.1f} | {figures['registers']:4} {figures['local']:7} | {seconds:7.3f} | "
                f"{rate / 1e6:8.1f}")  # fmt: skip
            if not out:
                ends = batch.results()[0]
                done = (ends[:, -3] == steps) & (ends[:, -4] == 0)
                say(f"    members that took all steps: {int(done.sum()):,} of {count:,}")
            batch.reset()
            out.append((rate, f"inline={job.inline}", f"registers={registers}", f"block={block}", f"threads={threads}"))
    if job.wrote + program.seconds > COMPILE:
        say(f"  compiled in {job.wrote + program.seconds:.0f} s, asked for {COMPILE:.0f} s: MISSED")
    return out or [(0.0,)]


def own_parameters(job: Job, runner: Runner) -> None:
    """The same with parameters of its own for each member, and the time with all copies."""
    count = MEMBERS[job.name]
    program = runner.program(job)
    begin = time.perf_counter()
    batch = runner.batch(job, count, own=True)
    there = time.perf_counter() - begin
    batch.march(program)
    batch.reset()
    seconds = batch.march(program)
    begin = time.perf_counter()
    batch.results()
    back = time.perf_counter() - begin
    rate = count * STEPS[job.name] / seconds
    say(f"  each member with its own parameters: {rate / 1e6:.1f} M steps/s; copying there {there:.2f} s, back "
        f"{back:.2f} s")  # fmt: skip


def adaptive(name: str, job: Job, runner: Runner) -> None:
    """Adaptive steps, states at 11 instants."""
    count = MEMBERS[name] // 8
    program = runner.program(job)
    batch = runner.batch(job, count)
    batch.march(program)
    batch.reset()
    seconds = batch.march(program)
    ends = batch.results()[0]
    rate = float(np.sum(ends[:, -3:-1])) / seconds
    say(f"\n{name}: {count:,} members, tsit5, rtol 1e-6, 1 s, {len(job.times)} instants: {seconds:.3f} s, "
        f"{rate / 1e6:.1f} M steps/s ({7 / 4 * rate / 1e6:.1f} M of four right-hand sides); compile {job.wrote:.1f} + "
        f"{program.seconds:.1f} s; results {np.unique(ends[:, -4]).tolist()}; {program.figures('march')}")  # fmt: skip
    with tried("error"):
        error_of(job, runner, program)


def xla(name: str, count: int = 2**17, steps: int = 20) -> None:
    """A program of JAX, for comparison."""
    import jax

    from dalembert.simulation._xla import march_many_by_xla

    machine, row, _, _, parameters, limits, times, _ = seen(
        name, steps * DT[name], dt=DT[name], integrator="rk4", samples=2
    )
    ends, spent = np.repeat(row[None], count, axis=0), []
    for _ in range(2):
        begin = time.perf_counter()
        march_many_by_xla(machine, parameters, ends, limits, times, False, 1, saves=False)
        spent.append(time.perf_counter() - begin)
    say(f"\n{name} by XLA on {jax.devices()[0]}: {count:,} members, {count * steps / spent[1] / 1e6:.1f} M steps/s "
        f"with all copies; compiled in {spent[0] - spent[1]:.0f} s")  # fmt: skip


MJX_STEPS = (5e-3, 2.5e-3, 1.25e-3)
"""Lengths of the classical Runge–Kutta steps of MJX, in seconds: its error comes near ours, or does not."""
MJX_MEMBERS = 2**18
"""As many as fill the GPU with MJX's arrays."""
TIGHT = {"integrator": "dopri8", "rtol": 1e-12}


@dataclasses.dataclass
class MjxJob:
    """Four-bars that MJX marches from where ours start, and as long."""

    seconds: float
    forms: dict[float, str]  # MuJoCo's model of each length of a step
    start: np.ndarray  # angles of hinges
    rates: np.ndarray
    link: int  # which carries the tracked point
    offset: np.ndarray  # from its hinge, at the start
    tight: np.ndarray  # where the tracked point of the first members is at the end, by a tight run
    error: float  # of dalembert's classical steps


def mjx_job(count: int, steps: int = STEPS["four-bar"], lengths: tuple[float, ...] = MJX_STEPS) -> MjxJob:
    """What MJX is asked: needs dalembert, and no GPU."""
    import peers_mujoco
    from problems import problems, tree_of

    import dalembert as da

    problem = next(p for p in problems() if p.name == "four-bar")
    tree, system, seconds = tree_of(problem.model), da.build(problem.model), steps * DT["four-bar"]
    motion = da.simulate(system, 1.0, samples=STATES)
    q, v = (np.asarray(x)[np.arange(count) % STATES] for x in (motion.q, motion.v))
    v = v * np.linspace(0.9, 1.1, count)[:, None]
    some = min(count, COMPARED)

    def hinges(turned: np.ndarray) -> np.ndarray:
        """Angles of hinges from those of bodies in the plane, in the order of the tree's links."""
        turned = turned[:, np.argsort(tree.body_order)]
        parents = np.array([link.parent for link in tree.links])
        return turned - np.where(parents < 0, 0.0, turned[:, parents])

    ways: dict[str, dict[str, Any]] = {"tight": TIGHT, "rk4": {"dt": DT["four-bar"], "integrator": "rk4"}}
    ends = {}
    for way, options in ways.items():
        runs = da.simulate_many(system, (q[:some], v[:some]), seconds, samples=2, **options)
        ends[way] = tree.samples(hinges(runs.q[:, -1, 2::3] - np.asarray(system.q0)[2::3]), problem).point
    link = int(tree.body_order[problem.body_index])
    return MjxJob(
        seconds, {h: peers_mujoco.xml_of(tree, "RK4", h) for h in lengths},
        hinges(q[:, 2::3] - np.asarray(system.q0)[2::3]), hinges(v[:, 2::3]),
        link, problem.point - tree.start_hinge(link), ends["tight"],
        float(np.max(np.linalg.norm(ends["rk4"] - ends["tight"], axis=1))),
    )  # fmt: skip


def mjx(job: MjxJob) -> None:
    """MJX on these four-bars, with the error of both beside the speed.

    The error is the largest distance of the tracked point at the end from a tight run, over the first members. Loops
    are as stiff as MuJoCo allows (`peers_mujoco.py`), float64, as ours.
    """
    import jax
    import mujoco
    from mujoco import mjx

    jax.config.update("jax_enable_x64", True)
    count = len(job.start)
    say(f"\nfour-bar by MJX on {jax.devices()[0]}: {count:,} members, {job.seconds:g} s of motion; dalembert's "
        f"classical steps of {DT['four-bar']} s have an error of {job.error:.1e} m")  # fmt: skip
    for h, form in job.forms.items():
        with tried(f"MJX, steps of {h} s"):
            plain = mujoco.MjModel.from_xml_string(form)
            model, several = mjx.put_model(plain), round(job.seconds / h)
            empty = mjx.make_data(model)

            def march(qpos, qvel, model=model, several=several, empty=empty):
                data = empty.replace(qpos=qpos, qvel=qvel)
                return jax.lax.fori_loop(0, several, lambda _, d: mjx.step(model, d), data).qpos

            begin = time.perf_counter()
            program = jax.jit(jax.vmap(march)).lower(job.start, job.rates).compile()
            compiled = time.perf_counter() - begin
            jax.block_until_ready(program(job.start, job.rates))
            begin = time.perf_counter()
            found = np.asarray(jax.block_until_ready(program(job.start, job.rates)))
            spent = time.perf_counter() - begin
            placed, points = mujoco.MjData(plain), []
            for qpos in found[: len(job.tight)]:
                placed.qpos[:] = qpos
                mujoco.mj_kinematics(plain, placed)
                points.append(placed.xpos[job.link + 1] + placed.xmat[job.link + 1].reshape(3, 3) @ job.offset)
            error = np.max(np.linalg.norm(np.array(points) - job.tight, axis=1))
            say(f"  RK4, {h} s: error {error:.1e} m; {count * several / spent / 1e6:.3g} M steps/s, "
                f"{count * job.seconds / spent:.4g} s of motion a second; compiled in {compiled:.0f} s; numbers are "
                f"{found.dtype}")  # fmt: skip


def measure(jobs: list[Job], runner: Runner, quick: bool) -> None:
    gpu = runner.gpu
    say(f"GPU of compute capability {gpu.capability / 10}, {gpu.processors} multiprocessors, "
        f"{gpu.free_bytes() / 2**30:.0f} GiB free")  # fmt: skip
    for name in dict.fromkeys(j.name for j in jobs):
        mine = [j for j in jobs if j.name == name]
        with tried(name):
            sweep(name, [j for j in mine if j.what == "rk4"], runner, quick)
        for job in (j for j in mine if j.what == "tsit5"):
            with tried(f"adaptive {name}"):
                adaptive(name, job, runner)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one configuration of each machine")
    parser.add_argument("--xla", action="store_true", help="a program of JAX, too")
    parser.add_argument("--mjx", action="store_true", help="MJX, too")
    parser.add_argument("--mjx-only", type=int, metavar="COUNT", help="MJX alone: members; a tenth of the steps")
    parser.add_argument("--write", type=Path, help="write the programs to this file, and run nothing")
    parser.add_argument("--run", type=Path, help="run what was written to this file")
    parser.add_argument("--capability", type=int, default=90, help="of the GPU, times ten")
    parser.add_argument("names", nargs="*", default=[*BARS], help="mechanisms")
    given = parser.parse_args()
    begin = time.perf_counter()
    if given.mjx_only:
        mjx(mjx_job(given.mjx_only, STEPS["four-bar"] // 10, MJX_STEPS[:2]))
        return
    if given.run:
        jobs, asked = pickle.loads(given.run.read_bytes())
    else:
        jobs = write(given.names, given.capability, given.quick)
        asked = mjx_job(MJX_MEMBERS) if given.mjx else None
    if given.write:
        given.write.write_bytes(pickle.dumps((jobs, asked)))
        return
    measure(jobs, Runner(alone=given.run is not None), given.quick)
    for name in given.names if given.xla else ():
        with tried(f"xla {name}"):
            xla(name)
    if asked:
        with tried("MJX"):
            mjx(asked)
    say(f"\nall in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
