"""6b· results: one question asked of all saved instants of all runs of a batch at once, in machine code.

The runs differ in numbers, so each instant comes with the numbers of its run. Cores share the instants.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dalembert.kernels import Unknown, describe, fixed
from dalembert.reactions import RequireUnique
from dalembert.results._observe import observe
from dalembert.simulation import Solution, code_for_rows, cores
from dalembert.systems import without_names

INSTANTS = 4096
"""Instants that one thread takes at a time: memory for the numbers of their machines does not grow with the batch."""


def violated(system, formulation, t, q, v):
    """The violation at the three levels."""
    return observe(system, formulation, RequireUnique(), t, q, v).violation


def borne(system, formulation, t, q, v):
    """The singular values of the rows, and all reactions, which are right where the rows are independent."""
    found = observe(system, formulation, RequireUnique(), t, q, v)
    return found.sigma, found.wrenches


def ask_all(solution: Solution, question: Callable, reached: np.ndarray) -> Any:
    """`question(system, formulation, t, q, v)` at the first `reached` instants of each run: arrays (runs, times, …)
    with NaN elsewhere. None where machine code cannot answer it."""
    methods = (solution.system, solution.formulation)
    leaves = [np.asarray(x) for x in jax.tree_util.tree_leaves(eqx.filter(methods, eqx.is_array))]
    runs, times = np.shape(solution.t)
    rows = [x.reshape(runs, -1) for x in leaves]
    varied = [np.any(x != x[0], axis=0) for x in rows]
    if any(v.any() for x, v in zip(leaves, varied, strict=True) if x.dtype.kind != "f"):
        return None  # what counts or chooses is a part of the code
    numbers = np.concatenate([np.zeros((runs, 0)), *rows], axis=-1)
    shared = ~np.concatenate([np.zeros(0, bool), *varied])
    first = without_names(jax.tree_util.tree_map(lambda x: np.asarray(x)[0], methods))
    if describe(first).number is None:
        return None
    t, q, v = (np.asarray(x) for x in (solution.t, solution.q, solution.v))
    given = (t[0, 0], q[0, 0], v[0, 0])

    def coded(built_in: np.ndarray):
        return code_for_rows(question.__name__, lambda m, at: question(*m, *at), first, given, built_in)

    def own(run: int) -> np.ndarray:
        """What is built in where a run is asked alone."""
        return np.concatenate([np.zeros(0, bool), *(fixed(x[run]) for x in rows)])

    try:
        kernel, code = coded(own(0) & shared)
        which, when = np.nonzero(np.arange(times) < reached[:, None])
        out = np.full((runs, times, kernel.outputs), np.nan)

        def some(code, run, at) -> None:
            states = np.concatenate([t[run, at][:, None], q[run, at], v[run, at]], axis=1)
            out[run, at] = code.rows(question.__name__, numbers[run], states)

        with ThreadPoolExecutor(cores()) as pool:
            parts = [slice(begin, begin + INSTANTS) for begin in range(0, len(which), INSTANTS)]
            list(pool.map(lambda part: some(code, which[part], when[part]), parts))
        # 0/0 is zero where the first zero is built in: as alone, so in a batch
        for run in np.unique(which[~np.all(np.isfinite(out[which, when]), axis=1)]):
            some(coded(own(run))[1], which[which == run], when[which == run])
    except Unknown:
        return None
    return kernel.unflatten(out)
