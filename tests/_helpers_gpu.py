"""The programs for a GPU, run on the CPU, one thread after the other: the same text, compiled for another machine."""

from __future__ import annotations

import ctypes
import dataclasses
import re
from typing import Any

import equinox as eqx
import numpy as np

import dalembert as da
from dalembert.kernels import compile_text, flat
from dalembert.simulation import _native
from dalembert.simulation._gpu import GpuMachine
from dalembert.simulation._gpu_run import GpuRun
from dalembert.systems import without_names


def case(monkeypatch, name: str, t_end: float, **options):
    """(machine, parameters, ends of three members, limits, times) of what `simulate` marches natively.

    The members start where the motion is after some time, each at another instant.
    """
    given = []

    def seen(problem, span, plan, times):
        given.append((problem, span, plan, times))
        return march(problem, span, plan, times)

    march = _native.march
    monkeypatch.setattr(_native, "march", seen)
    solution = da.simulate(da.build(da.mechanism(name)), t_end, **options)
    monkeypatch.setattr(_native, "march", march)
    problem, span, plan, times = given[0]
    problem = without_names(dataclasses.replace(problem, loop="ask"))
    machine = _native.machine_for(problem, span, plan, graphs=True)
    assert not isinstance(machine, str), machine
    first = [float(span.t0), _native._first_end(span)]
    row = np.concatenate([first, flat(span.y0), flat(span.resume[1]), np.zeros(4)])
    limits = np.asarray([span.t1, np.inf, 1e9, span.most, span.rtol, span.atol], float)
    states = np.concatenate([solution.q, solution.v], axis=1)[-3:]
    ends = np.repeat(row[None], len(states), axis=0)
    ends[:, 2 : 2 + states.shape[1]] = states
    return machine, flat(eqx.filter(problem, eqx.is_array)), ends, limits, np.asarray(times, float)


class CpuDevice:
    """Stands for a GPU: its memory is that of the CPU."""

    capability = 90

    def __init__(self):
        self.arrays: dict[int, np.ndarray] = {}

    def enter(self) -> None:
        pass

    def wait(self) -> None:
        pass

    def call(self, name: str, *arguments) -> None:
        if name == "cuMemAlloc_v2":
            address, size = arguments
            memory = np.full(size.value // 8, np.nan)
            self.arrays[memory.ctypes.data] = memory
            address._obj.value = memory.ctypes.data
        else:
            to, source, size = (getattr(a, "value", a) for a in arguments)
            assert name in ("cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2")
            ctypes.memmove(to, source, size)

    @property
    def driver(self):
        class Driver:
            cuMemFree_v2 = staticmethod(lambda address: self.arrays.pop(address.value))

        return Driver()


class CpuProgram:
    """The entries of a GPU machine, as loops over the threads."""

    def __init__(self, made: GpuMachine):
        texts = [t for t in made.texts if "ptx_kernel" not in t]
        self.module = compile_text(texts, 1, 1, passes=True)
        self.functions = {}
        for text in texts:
            found = re.search(r"define void @(march|prepare|save)_one\((.*?)\) \{", text)
            if found:
                kinds = [ctypes.c_int64 if a.startswith("i64") else ctypes.c_void_p for a in found[2].split(", ")]
                self.functions[found[1]] = self.module.function(f"{found[1]}_one", *kinds)

    def start(self, name: str, threads: int, block: int, *arguments) -> None:
        numbers = [a if isinstance(a, int) else a.address.value for a in arguments]
        for thread in range(threads):
            self.functions[name](thread, *numbers)


def run_on_cpu(made: GpuMachine, parameters, ends, limits, times, room: int):
    """(ends, times, states), as `march_many_on_gpu` returns them."""
    gpu: Any = CpuDevice()
    program: Any = CpuProgram(made)
    run = GpuRun(made.layout, gpu, np.atleast_2d(parameters), ends, limits, times, room)
    run.march(program)
    return run.results()
