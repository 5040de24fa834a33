"""6 · simulation: a batch in the memory of a GPU, and its march there; needs the driver and NumPy only."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from dalembert.kernels import Buffer, Device, DeviceProgram

BLOCK = 64
"""Threads of a block."""


class Layout(NamedTuple):
    """What the programs of a march expect in memory, and their tableau."""

    ny: int  # numbers of y
    nx: int  # numbers of a saved state
    p: int  # parameters that are read
    wide: int  # numbers that the kernels keep
    stages: int
    saves: bool  # whether any state is saved
    A: np.ndarray  # or, where each stage depends on the one before only, the factors of the next stages
    b: np.ndarray
    e: np.ndarray
    c: np.ndarray

    def bytes_of_member(self, width: int, room: int, own: bool) -> int:
        """Memory for a member: its row of so many numbers, its saved states, and parameters if it has its own."""
        saved = room * (1 + self.nx + self.ny) if self.saves else 0
        return 8 * (width + saved + (self.wide + self.p if own else 0))


class GpuRun:
    """A batch in the memory of a GPU; arguments as of `march_many_on_gpu`."""

    def __init__(self, layout: Layout, gpu: Device, parameters: np.ndarray, ends: np.ndarray, limits, times, room: int):
        self.layout, self.gpu, self.room = layout, gpu, room if layout.saves else 0
        self.members, self.sets = len(ends), len(parameters)
        gpu.enter()
        self.parameters = Buffer(gpu, np.ascontiguousarray(parameters[:, : max(layout.p, 1)].T))
        self.kept = Buffer(gpu, layout.wide * self.sets)
        self.start = np.ascontiguousarray(ends.T)
        self.ends = Buffer(gpu, self.start)
        times = np.append(np.asarray(times, float), np.inf)
        self.tables = [Buffer(gpu, np.asarray(x, float)) for x in (layout.A, layout.b, layout.e, layout.c, times)]
        self.ntimes = len(times) - 1
        self.limits = Buffer(gpu, np.asarray(limits, float))
        self.out_t = Buffer(gpu, np.full(self.room * self.members, np.inf))
        self.out = Buffer(gpu, self.room * layout.ny * self.members)
        self.found = Buffer(gpu, np.zeros(self.room * layout.nx * self.members))

    def reset(self) -> None:
        """Back to the start."""
        self.ends.put(self.start)

    def march(self, program: DeviceProgram, block: int = BLOCK, threads: int | None = None) -> float:
        """March all members, in `threads` at a time (None: all, as many as the GPU takes); the seconds that took."""
        self.gpu.enter()
        begin = time.perf_counter()
        program.start("prepare", self.sets, block, self.sets, self.parameters, self.kept)
        own = int(self.sets > 1)
        A, b, e, c, times = self.tables
        threads = self.members if threads is None else min(threads, self.members)
        program.start("march", threads, block, self.members, self.layout.stages, A, b, e, c, times, self.ntimes,
                      self.room, self.limits, self.kept, own, self.sets, self.ends, self.out_t, self.out)  # fmt: skip
        if self.room:
            count = self.members * self.room
            program.start("save", count, block, count, self.members, self.kept, own, self.sets, self.out_t, self.out,
                          self.found)  # fmt: skip
        self.gpu.wait()
        return time.perf_counter() - begin

    def results(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ends, times, states), a row for each member."""
        ends = self.ends.get(*self.start.shape).T
        out_t = self.out_t.get(self.room, self.members).T
        return ends, out_t, self.found.get(self.room, self.layout.nx, self.members).transpose(2, 0, 1)
