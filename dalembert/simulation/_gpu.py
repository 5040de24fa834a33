"""6 · simulation: many marches on an NVIDIA GPU, one thread for each member of a batch.

The kernels are those of the native march (`_native`), and `march_one` below is its loop for one member, written out so
that a small machine's state stays in registers. The stages of a step are a loop, so that the equations stand in the
program once. Numbers of all members lie side by side: number k of a member is element k·members + member, which a
GPU reads at once for neighbouring threads. States at saved times are stored as they are interpolated; a second program
(`save_one`) projects them, a thread for each. LLVM writes the programs and the graphics driver compiles them: a second
for a small machine, and no part of CUDA is needed but NVIDIA's mathematical functions (see `kernels`).
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable

import numpy as np

from dalembert.kernels import (
    Device,
    DeviceProgram,
    Function,
    Numbers,
    Whole,
    array,
    at,
    code,
    device,
    entry,
    translate,
    write_ptx,
)
from dalembert.simulation._gpu_run import BLOCK, GpuRun, Layout
from dalembert.simulation._native import LIMITS, Machine


def march_one(
    member: Whole,
    members: Whole,
    ny: Whole,
    ns: Whole,
    nl: Whole,
    stages: Whole,
    most: Whole,
    chain: Whole,
    embedded: Whole,
    keeps: Whole,
    steps: Whole,
    A: Numbers,
    b: Numbers,
    e: Numbers,
    c: Numbers,
    times: Numbers,
    ntimes: Whole,
    room: Whole,
    limits: Numbers,
    field: Function,
    close: Function,
    adapt: Function,
    weights: Function,
    kf: Whole,
    kc: Whole,
    kept: Numbers,
    own: Whole,
    stride: Whole,
    ends: Numbers,
    out_t: Numbers,
    out: Numbers,
):  # fmt: skip
    """March one member until it ends, pauses or fails; as `_loop.loop`.

    `chain`: each stage depends on the one before only (classical Runge–Kutta), so none is kept; `embedded`: the method
    estimates its error; `keeps`: stages are kept for interpolation; `most`: stages for which there is room; `own`: each
    member has its own parameters, else (0) one set is that of all.
    """
    given = array(2 + 3 * ny + ns + nl)  # of `adapt`: t0, t1, y0, y1, error, state, limits
    verdict = array(4 + ns)  # by `adapt`: keep, t, next, result, state
    x = array(1 + 2 * ny)  # of `field` and `close`: t, y, error
    slope = array(ny)  # ẏ at a stage
    total = array(2 * ny)  # of the stages: change of y, and error
    K = array(most * ny)
    raw = array(ny)  # y at the end of a step, before projection
    share = array(most + 2)  # of y0, y1 and each stage in an interpolated state
    place = array(1)
    y0 = at(given, 2)
    y1 = at(given, 2 + ny)
    state = at(given, 2 + 3 * ny)
    mine = at(kept, own * member)
    row = at(ends, member)
    for k in range(2 + ny):
        given[k] = row[k * members]
    for k in range(ns):
        state[k] = row[(2 + ny + k) * members]
    for k in range(nl):
        state[ns + k] = limits[k]
    result = 0.0
    accepted = row[(2 + ny + ns + 1) * members]
    rejected = row[(2 + ny + ns + 2) * members]
    count = int(row[(2 + ny + ns + 3) * members])
    while True:
        t0 = given[0]
        t1 = given[1]
        h = t1 - t0
        for k in range(ny):
            x[1 + k] = y0[k]
        for k in range(2 * ny):
            total[k] = 0.0
        for s in range(stages):
            x[0] = t0 + c[s] * h
            if chain == 0:
                for k in range(ny):
                    x[1 + k] = 0.0
                for j in range(s):
                    a = A[s * stages + j]
                    if a != 0.0:
                        Kj = at(K, j * ny)
                        for k in range(ny):
                            x[1 + k] = x[1 + k] + a * Kj[k]
                for k in range(ny):
                    x[1 + k] = y0[k] + h * x[1 + k]
            field(mine, stride, x, slope)
            bs = b[s]
            for k in range(ny):
                total[k] = total[k] + bs * slope[k]
            if embedded == 1:
                es = e[s]
                for k in range(ny):
                    total[ny + k] = total[ny + k] + es * slope[k]
            if keeps == 1:
                Ks = at(K, s * ny)
                for k in range(ny):
                    Ks[k] = slope[k]
            if chain == 1:
                step = h * A[s]  # of the next stage
                for k in range(ny):
                    x[1 + k] = y0[k] + step * slope[k]
        # the end of the step, and its error
        x[0] = t1
        for k in range(ny):
            x[1 + k] = y0[k] + h * total[k]
            x[1 + ny + k] = h * total[ny + k]
        if keeps == 1:
            for k in range(ny):
                raw[k] = x[1 + k]
        close(at(mine, kf * stride), stride, x, y1)
        adapt(at(mine, (kf + kc) * stride), stride, given, verdict)
        if verdict[0] != 0.0:
            accepted = accepted + 1.0
            if keeps == 1 and steps == 0:
                while count < ntimes and times[count] <= t1:
                    place[0] = (times[count] - t0) / h
                    weights(place, 1, place, share)
                    there = at(out, count * ny * members + member)
                    for k in range(ny):
                        between = share[0] * y0[k] + share[1] * raw[k]
                        for j in range(most):
                            between = between + h * share[2 + j] * K[j * ny + k]
                        there[k * members] = between
                    out_t[count * members + member] = times[count]
                    count += 1
            for k in range(ny):
                y0[k] = y1[k]
            if steps == 1 and count < room:
                there = at(out, count * ny * members + member)
                for k in range(ny):
                    there[k * members] = y0[k]
                out_t[count * members + member] = verdict[1]
                count += 1
        else:
            rejected = rejected + 1.0
        given[0] = verdict[1]
        given[1] = verdict[2]
        for k in range(ns):
            state[k] = verdict[4 + k]
        result = verdict[3]
        if result != 0.0 or given[0] >= limits[0]:
            break
    for k in range(2 + ny):
        row[k * members] = given[k]
    for k in range(ns):
        row[(2 + ny + k) * members] = state[k]
    row[(2 + ny + ns) * members] = result
    row[(2 + ny + ns + 1) * members] = accepted
    row[(2 + ny + ns + 2) * members] = rejected
    row[(2 + ny + ns + 3) * members] = float(count)


def save_one(
    number: Whole,
    number_of: Whole,
    members: Whole,
    ny: Whole,
    nx: Whole,
    before: Whole,
    saved: Function,
    kept: Numbers,
    own: Whole,
    stride: Whole,
    out_t: Numbers,
    out: Numbers,
    found: Numbers,
):
    """What is saved of one interpolated state, of instants × members; `before`: kept numbers of other kernels."""
    slot = number // members
    member = number - slot * members
    place = array(1 + ny)
    result = array(nx)
    place[0] = out_t[number]
    if place[0] < 1e300:  # not reached: infinite
        there = at(out, slot * ny * members + member)
        for k in range(ny):
            place[1 + k] = there[k * members]
        saved(at(kept, before * stride + own * member), stride, place, result)
        goal = at(found, slot * nx * members + member)
        for k in range(nx):
            goal[k * members] = result[k]


def prepare_one(
    member: Whole,
    sets: Whole,
    kf: Whole,
    kc: Whole,
    ka: Whole,
    field: Function,
    close: Function,
    adapt: Function,
    saved: Function,
    parameters: Numbers,
    kept: Numbers,
):
    """What the kernels keep for one set of parameters."""
    given = at(parameters, member)
    mine = at(kept, member)
    field(given, sets, mine)
    close(given, sets, at(mine, kf * sets))
    adapt(given, sets, at(mine, (kf + kc) * sets))
    saved(given, sets, at(mine, (kf + kc + ka) * sets))


# ---- programs ------------------------------------------------------------------------------------------------

INLINE = 6_000
"""Operations of a machine up to which its functions are written into the loop: their numbers fit into registers, more
or less. Larger ones are called."""


class GpuMachine:
    """The programs of all marches of one structure on a GPU."""

    def __init__(self, machine: Machine, *, saves: str = "times", inline: bool | None = None):
        """
        Arguments:
            machine: the kernels, as for the CPU.
            saves: "times", "steps" or "end": what is stored of the motion.
            inline: whether kernels are written into the loop; None decides by their size.
        """
        self.inline = machine.size <= INLINE if inline is None else inline
        kernels = machine.kernels
        used = 1 + max((k for n in kernels.values() for k in _parameters(n.written.graph)), default=-1)
        S, A = machine.stages, machine.A
        chain = not np.any(A - np.diag(np.diag(A, -1), -1))
        kf, kc, ka, ks = machine.counts
        sizes = {"ny": machine.y_tree.size, "ns": machine.state_tree.size, "nl": len(LIMITS), "kf": kf, "kc": kc}
        keeps = saves == "times" or not chain
        sizes |= {"most": S if keeps else 1, "chain": int(chain), "embedded": int(np.any(machine.e != 0))}
        sizes |= {"keeps": int(keeps), "steps": {"times": 0, "steps": 1, "end": 2}[saves]}
        names = {n: n for n in ("field", "close", "adapt", "weights", "saved")}
        setups = {n: f"{n}.setup" for n in ("field", "close", "adapt", "saved")}
        self.texts = [code(k.written, strided=True).text for k in kernels.values()]
        self.entries: list[str] = []
        self._add("march", march_one, sizes | names)
        self._add("prepare", prepare_one, {"kf": kf, "kc": kc, "ka": ka} | setups)
        if saves != "end":
            counts = {"ny": machine.y_tree.size, "nx": machine.saved.outputs, "before": kf + kc + ka}
            self._add("save", save_one, counts | names)
        next_step = np.append(np.diag(A, -1), 0.0) if chain else A
        self.layout = Layout(
            machine.y_tree.size, machine.saved.outputs, used, kf + kc + ka + ks, S, saves != "end",
            next_step, machine.b, machine.e, machine.c,
        )  # fmt: skip
        self._programs: weakref.WeakKeyDictionary[Device, dict] = weakref.WeakKeyDictionary()

    def _add(self, name: str, function, constants: dict) -> None:
        """An entry `name`, one thread for each number below its first argument."""
        kinds = inspect.signature(function).parameters
        rest = [k for k in kinds if k not in constants][1:]
        types = {"Numbers": "ptr", "Whole": "i64"}
        arguments = [f"{types[kinds[k].annotation]} %{k}" for k in rest]
        self.texts += [translate(function, unroll=True, **constants)]
        self.texts += [entry(name, function.__name__, arguments, f"%{rest[0]}")]
        self.entries.append(name)

    def ptx(self, capability: int = 90) -> bytes:
        """The programs in the language of NVIDIA GPUs."""
        return write_ptx(self.texts, self.entries, capability, self.inline)

    def program(self, gpu: Device, registers: int | None = None) -> DeviceProgram:
        """The programs on a GPU, compiled once."""
        known = self._programs.setdefault(gpu, {})
        if registers not in known:
            known[registers] = DeviceProgram(gpu, self.ptx(gpu.capability), registers)
        return known[registers]


def _parameters(graph) -> list[int]:
    """The numbers of a graph's parameters."""
    return [a[1] for op, a in zip(graph.op, graph.args, strict=True) if op == "input" and a[0] == "parameter"]


# ---- marches -------------------------------------------------------------------------------------------------

SHARE = 0.8
"""Share of the GPU's free memory that one part of a batch may use."""


_MADE: weakref.WeakKeyDictionary[Machine, dict[str, GpuMachine]] = weakref.WeakKeyDictionary()


def gpu_machine(machine: Machine, saves: str) -> GpuMachine:
    """The programs of a machine, written once."""
    known = _MADE.setdefault(machine, {})
    if saves not in known:
        known[saves] = GpuMachine(machine, saves=saves)
    return known[saves]


def march_many_on_gpu(
    machine: Machine,
    parameters,
    ends,
    limits,
    times,
    steps: bool,
    room: int,
    saves: bool = True,
    block: int = BLOCK,
    report: Callable[[float], None] | None = None,
):
    """Run the loop over all members in `ends` on the GPU of this machine, in parts if its memory asks for it.

    Arguments:
        machine: the kernels, as for the CPU.
        parameters: rows of parameters, one for each member, or one for all.
        ends: a row for each member, as of `_native.run`.
        limits: what the step control has to know (`LIMITS`).
        times: instants to save.
        steps: whether the end of each step is saved instead.
        room: instants that are saved of a member at most.
        saves: whether anything is.
        block: threads of a block.
        report: is called with the share of the members that are done, after each part.

    Returns:
        (ends, times, states), as `_native.run` does.
    """
    gpu = device()
    gpu.enter()
    made = gpu_machine(machine, "end" if not saves else "steps" if steps else "times")
    program = made.program(gpu)
    parameters, members = np.atleast_2d(parameters), len(ends)
    each = made.layout.bytes_of_member(ends.shape[1], room, len(parameters) > 1)
    most = max(int(SHARE * gpu.free_bytes() / each), 1)
    parts = []
    for first in range(0, members, most):
        some = slice(first, first + most)
        own = parameters[some] if len(parameters) > 1 else parameters
        run = GpuRun(made.layout, gpu, own, ends[some], limits, times, room)
        run.march(program, block)
        parts.append(run.results())
        if report is not None:
            report(min(first + most, members) / members)
    return tuple(np.concatenate(x) for x in zip(*parts, strict=True))
