"""6 · simulation: many members, each a row of numbers, marched by one machine code in lanes and threads."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from dalembert.kernels import Compiled, Kernel, describe, flat
from dalembert.simulation import _native
from dalembert.simulation._host import fresh_state
from dalembert.simulation._march import Plan, Span

AT_ONCE = 256
"""Members that one thread takes at a time: enough to keep its lanes busy, few enough to share them out evenly."""


def first_rows(span: Span, plan: Plan, y: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The row of each member before its first step; `whole` is its y with what is marched along (derivatives)."""
    assert span.dt0 is not None
    state = flat(fresh_state(span, plan)[1])
    # the state of the step control contains y: found by changing it
    other = jax.tree_util.tree_map(lambda x: x + 1, span.y0)
    changed = flat(fresh_state(dataclasses.replace(span, y0=other), plan)[1]) != state
    states = np.tile(state, (len(y), 1))
    states[:, changed] = y
    head = np.tile([float(span.t0), float(min(span.t0 + span.dt0, span.t1))], (len(y), 1))
    return np.ascontiguousarray(np.concatenate([head, whole, states, np.zeros((len(y), 4))], axis=1))


def march_rows(
    code: _native.Machine,
    parameters: np.ndarray,
    begin: np.ndarray,
    limits: np.ndarray,
    times: np.ndarray,
    steps: bool,
    room: int,
    threads: int,
    report: Callable[[float], None] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """March all members, one row of parameters each, to their ends; (ends, times, states)."""
    kept = code.kept(parameters)
    outs: list[Any] = [None] * -(-len(begin) // AT_ONCE)

    def some(chunk: int):
        part = slice(chunk * AT_ONCE, (chunk + 1) * AT_ONCE)
        outs[chunk] = _native.run(code, kept[part], begin[part], limits, times, steps, room)

    parts = [_pool(max(1, int(threads))).submit(some, k) for k in range(len(outs))]
    try:
        for done, part in enumerate(parts, 1):
            part.result()
            if report is not None:
                report(done / len(outs))
    finally:
        for part in parts:  # after Ctrl-C, or an error, nothing more is begun
            part.cancel()
    ends, ts, saved = (np.concatenate(x) for x in zip(*outs, strict=True))
    return ends, ts, saved


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """So many threads, which stay. The C library gives new threads memory from one after the other of many arenas:
    with new ones for each batch a process would grow for a long time."""
    return ThreadPoolExecutor(threads, "march")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


_MADE: dict[tuple, tuple[Kernel, Compiled]] = {}


def code_for_rows(name: str, function, parameters, given, built_in, *own) -> tuple[Kernel, Compiled]:
    """A function of many rows as machine code; remembered for arguments of this structure, `own` being its others.

    Raises `Unknown` if it cannot be written out.
    """
    structure, shapes = jax.tree_util.tree_structure(given), [np.shape(x) for x in jax.tree_util.tree_leaves(given)]
    chosen = None if built_in is None else built_in.tobytes()
    key = (name, describe(parameters).number, structure, tuple(shapes), chosen, own)
    if key not in _MADE:
        kernel = Kernel.of(name, function, parameters, given, built_in=built_in)
        while len(_MADE) >= _native.KEPT:
            _MADE.pop(next(iter(_MADE)))
        _MADE[key] = kernel, Compiled([kernel], effort=0)
        kernel.drop_graph()
    return _MADE[key]


def cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
