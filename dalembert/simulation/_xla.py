"""6 · simulation: many marches as one program of JAX, for devices that have no machine code here.

The same loop as `_loop.loop` and `_gpu.march_one`, on arrays of all members: a step is taken by all that have not
ended, and the others are left as they are. XLA compiles it for any device; slower than `_gpu` on those of NVIDIA.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dalembert.kernels import as_jax
from dalembert.simulation._native import LIMITS, Machine
from dalembert.systems import compiled


class _Batch(NamedTuple):
    """All members between two steps; the last axis is theirs."""

    t: jax.Array
    next: jax.Array
    y: jax.Array
    state: jax.Array  # of the step control
    result: jax.Array
    accepted: jax.Array
    rejected: jax.Array
    count: jax.Array  # saved states
    going: jax.Array
    out_t: jax.Array
    out: jax.Array


class _Step(NamedTuple):
    """A step of all members: where it began, its length, its end before projection, and its stages."""

    t0: jax.Array
    t1: jax.Array
    y0: jax.Array
    raw: jax.Array
    K: jax.Array


class _Program:
    """The march of one structure as a function of JAX."""

    def __init__(self, machine: Machine):
        self.machine = machine
        kernels = machine.kernels
        self.functions = {name: as_jax(k.written) for name, k in kernels.items()}
        self.run = compiled(self._run)

    def call(self, name: str, kept: dict, *inputs: jax.Array) -> jax.Array:
        """A kernel of all members; the inputs are arrays of rows, a row for each number."""
        rows = [row for x in inputs for row in jnp.atleast_2d(x)]
        found = self.functions[name][1](kept.get(name, ()), rows)
        return jnp.stack(found) if found else jnp.zeros((0, *rows[0].shape))

    def _run(self, parameters, ends, limits, times, *, room: int, steps: bool):
        machine = self.machine
        ny, ns, members = machine.y_tree.size, machine.state_tree.size, ends.shape[1]
        names = ("field", "close", "adapt", "saved")
        kept = {name: self.functions[name][0](list(parameters)) for name in names}
        batch = _Batch(
            t=ends[0],
            next=ends[1],
            y=ends[2 : 2 + ny],
            state=ends[2 + ny : 2 + ny + ns],
            result=jnp.zeros(members),
            accepted=ends[-3],
            rejected=ends[-2],
            count=ends[-1].astype(int),
            going=jnp.full(members, True),
            out_t=jnp.full((room, members), jnp.inf),
            out=jnp.zeros((room, machine.saved.outputs, members)),
        )
        body = functools.partial(self._step, kept, limits, times, steps)
        end = lax.while_loop(lambda b: jnp.any(b.going), body, batch)
        last = [end.result, end.accepted, end.rejected, end.count.astype(float)]
        return jnp.concatenate([end.t[None], end.next[None], end.y, end.state, jnp.stack(last)]), end.out_t, end.out

    def _step(self, kept: dict, limits, times, steps: bool, now: _Batch) -> _Batch:
        ny, members = now.y.shape
        step, error = self._stages(kept, now)
        closed = self.call("close", kept, step.t1, step.raw, error)
        limits_of_each = jnp.broadcast_to(limits[:, None], (len(LIMITS), members))
        verdict = self.call("adapt", kept, now.t, now.next, now.y, closed, now.state, limits_of_each)
        keep = now.going & (verdict[0] != 0)
        after = now._replace(
            t=verdict[1],
            next=verdict[2],
            y=jnp.where(keep, closed[:ny], now.y),
            state=verdict[4:],
            result=verdict[3],
            accepted=now.accepted + keep,
            rejected=now.rejected + ~keep,
            going=(verdict[3] == 0) & (verdict[1] < limits[0]),
        )
        shown = ("out_t", "out", "count")
        after = after._replace(**{n: getattr(now, n) for n in shown})
        merged = [jnp.where(now.going, new, old) for new, old in zip(after, now, strict=True)]
        return self._save(kept, times, steps, keep, step, _Batch(*merged))

    def _stages(self, kept: dict, now: _Batch) -> tuple[_Step, jax.Array]:
        """The stages of a step, its end, and its error."""
        machine, h = self.machine, now.next - now.t
        A, b, e, c = (jnp.asarray(x) for x in (machine.A, machine.b, machine.e, machine.c))

        def stage(s, K):
            x = now.y + h * jnp.tensordot(A[s], K, 1)  # later stages are zero
            return K.at[s].set(self.call("field", kept, now.t + c[s] * h, x))

        K = lax.fori_loop(0, machine.stages, stage, jnp.zeros((machine.stages, *now.y.shape)))
        raw, error = (h * jnp.tensordot(weights, K, 1) for weights in (b, e))
        return _Step(now.t, now.next, now.y, now.y + raw, K), error

    def _save(self, kept: dict, times, steps: bool, keep, step: _Step, batch: _Batch) -> _Batch:
        """Store the states that are due."""
        room, members = batch.out_t.shape
        if room == 0:
            return batch

        def store(due, t, y, batch: _Batch) -> _Batch:
            found = self.call("saved", kept, t, y)
            place, everyone = jnp.minimum(batch.count, room - 1), jnp.arange(members)
            out_t = batch.out_t.at[place, everyone].set(jnp.where(due, t, batch.out_t[place, everyone]))
            old = batch.out[place, :, everyone]
            out = batch.out.at[place, :, everyone].set(jnp.where(due[:, None], found.T, old))
            return batch._replace(out_t=out_t, out=out, count=batch.count + due)

        if steps:
            return store(keep & (batch.count < room), batch.t, batch.y, batch)

        def coming(batch: _Batch):
            t = times[jnp.minimum(batch.count, len(times) - 1)]
            return t, keep & (batch.count < len(times)) & (t <= step.t1)

        def one(batch: _Batch) -> _Batch:
            t, due = coming(batch)
            h = step.t1 - step.t0
            share = self.call("weights", {}, (t - step.t0) / h)
            between = share[0] * step.y0 + share[1] * step.raw + h * jnp.sum(share[2:, None] * step.K, axis=0)
            return store(due, t, between, batch)

        return lax.while_loop(lambda b: jnp.any(coming(b)[1]), one, batch)


@functools.lru_cache(maxsize=8)
def _program(machine: Machine) -> _Program:
    return _Program(machine)


def march_many_by_xla(
    machine: Machine,
    parameters,
    ends,
    limits,
    times,
    steps: bool,
    room: int,
    saves: bool = True,
    report: Callable[[float], None] | None = None,
):
    """Run the loop over all members in `ends` on the device of JAX; as `_native.run`.

    Arguments and results are those of `_gpu.march_many_on_gpu`. All members are one part.
    """
    parameters = np.atleast_2d(parameters)
    rows: Any = parameters[0] if len(parameters) == 1 else parameters.T
    room = room if saves and (steps or len(times)) else 0
    found = _program(machine).run(rows, np.ascontiguousarray(ends.T), limits, times, room=room, steps=steps)
    ends, out_t, out = (np.asarray(x) for x in found)
    if report is not None:
        report(1.0)
    return ends.T, out_t.T, out.transpose(2, 0, 1)
