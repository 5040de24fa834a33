"""6 · simulation: the native march inside programs of JAX: one primitive with its rules for jit, vmap and jvp.

`march` stands where `_march.march` would be traced. What is traced is only the start; the march itself is a call of
`Called`, whose arguments are rows (members, numbers), clocks (members, numbers) and directions (members, directions,
numbers). Under vmap members and directions are merged, so a batch is one call, and so is a Jacobian by columns
(`jax.jacfwd`) of each member of a batch. In reverse, and for second derivatives and those by times, JAX marches.

It is a primitive of its own rather than `jax.pure_callback`, which copies its arguments to arrays of JAX before the
call: on a single core that copy waits for the program that waits for the call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dalembert._results import DalembertError
from dalembert._typing import is_traced
from dalembert.equations import refuse_undecided
from dalembert.simulation import _native
from dalembert.simulation._called import AbstractCalled, Called, Found
from dalembert.simulation._march import March, Plan, Problem, Span

VALUES = len(Found._fields)


def unfit(problem: Problem, plan: Plan) -> str:
    """Why the march inside a program of JAX cannot be native; empty if it can."""
    if plan.derivative is not None and not isinstance(plan.derivative, diffrax.RecursiveCheckpointAdjoint):
        return f"derivative={type(plan.derivative).__name__}() differentiates the steps of JAX"
    if jax.default_backend() != "cpu":
        return "JAX runs on another device than the processor"
    reason = _native.unfit(plan)
    if not reason and hides_tracers(problem, set()):
        return "a function of the model contains numbers that are being traced; make them parameters of the model"
    return reason


def hides_tracers(x, seen: set[int]) -> bool:
    """Whether a function in here closes over a number that is being traced: its value never gets out of JAX."""
    if id(x) in seen or isinstance(x, jax.Array | np.ndarray | str | float | int):
        return False
    seen.add(id(x))
    if isinstance(x, Mapping):
        inside = list(x.values())
    elif isinstance(x, list | tuple | set | frozenset):
        inside = list(x)
    elif isinstance(x, functools.partial):
        inside = [x.func, *x.args, *x.keywords.values()]
    elif isinstance(x, types.MethodType):
        inside = [x.__self__, x.__func__]
    elif isinstance(x, types.FunctionType):
        held = [cell.cell_contents for cell in x.__closure__ or () if cell != types.CellType()]
        held += [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
        if is_traced(held):
            return True
        inside = held
    else:
        inside = list(vars(x).values()) if hasattr(x, "__dict__") and not isinstance(x, type) else []
    return any(hides_tracers(y, seen) for y in inside)


def march(problem: Problem, span: Span, plan: Plan, times, ready: bool) -> March:
    """As `_march.march` inside a program of JAX, where nothing is differentiated or what is wanted is forward.

    `ready`: whether the methods know their ranks (`prepare`); otherwise they are found when numbers are there.
    """
    refuse_undecided(problem.system)  # while tracing: an error of a call from a program is no longer a sentence
    called = Called(problem, span, plan, times, ready)
    row, clock = called.machine.row, called.clock.row
    native = functools.partial(bound, called)
    if plan.adjoint == "reverse":  # a function has a rule for one way only
        native = jax.custom_vjp(native)
        native.defvjp(lambda row, clock: jax.vjp(called.by_jax, row, clock), lambda pull, change: pull(change))
    found = native(row, clock)
    ts, ys, (t_end, status, accepted, rejected) = found.ts, (found.q, found.v, found.work), found.ends
    if plan.save == "steps":
        start = (span.t0, problem.state(span.t0, span.y0))
        ts, ys = jax.tree_util.tree_map(lambda a, b: jnp.concatenate([jnp.asarray(a)[None], b]), start, (ts, ys))
    return March(
        ts=ts,
        ys=ys,
        t_end=t_end,
        y_end=(),
        controller=(),
        solver_state=None,
        stats={"num_accepted_steps": accepted.astype(int), "num_rejected_steps": rejected.astype(int)},
        dense=None,
        status=status.astype(int),
        paused=jnp.array(False),
        engine="native",
    )


def bound(called: AbstractCalled, row, clock) -> Found:
    """What becomes of one member."""
    out = march_p.bind(row[None], clock[None], jnp.zeros((1, 0, len(row))), called=called)
    return Found(*(x[0] for x in out))


march_p = Primitive("dalembert_march")
march_p.multiple_results = True


@march_p.def_impl
def _now(rows, clocks, along, *, called: AbstractCalled):
    return [jnp.asarray(x) for x in called(rows, clocks, along)]


@march_p.def_abstract_eval
def _shapes(rows, clocks, along, *, called: AbstractCalled):
    return [rows.update(shape=shape) for shape in called.shapes(*along.shape[:2])]


def _lowered(ctx, *arguments, called: Called):
    given = {"has_side_effect": False, "returns_token": False}
    return mlir.emit_python_callback(ctx, called, None, list(arguments), ctx.avals_in, ctx.avals_out, **given)[0]


mlir.register_lowering(march_p, _lowered, platform="cpu", cacheable=False)


def _batched(arguments, axes, *, called: AbstractCalled):
    """More members; where only directions differ, more directions of the same members."""
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    rows, clocks, along = (
        x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(arguments, axes, strict=True)
    )
    if axes[0] is None and axes[1] is None:
        members, directions = along.shape[1:3]
        merged = jnp.moveaxis(along, 0, 1).reshape(members, size * directions, along.shape[3])
        out = march_p.bind(rows, clocks, merged, called=called)
        changes = [jnp.moveaxis(x.reshape(members, size, directions, *x.shape[2:]), 1, 0) for x in out[VALUES:]]
        return [*out[:VALUES], *changes], [None] * VALUES + [0] * len(changes)
    members = size * along.shape[-3]
    merged = []
    for x, axis in zip((rows, clocks, along), axes, strict=True):
        x = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else x
        merged.append(x.reshape(members, *x.shape[2:]))
    out = march_p.bind(*merged, called=called)
    return [x.reshape(size, members // size, *x.shape[1:]) for x in out], [0] * len(out)


batching.primitive_batchers[march_p] = _batched


def _changed(primals, tangents, *, called: AbstractCalled):
    """Changes along a direction of the rows; JAX marches for those by times, and for second derivatives."""
    rows, clocks, along = primals
    by_times = not isinstance(tangents[1], ad.Zero) and clocks.shape[1] > 0
    if along.shape[1] or by_times:
        given = tuple(map(ad.instantiate_zeros, tangents))
        return jax.jvp(jax.vmap(called.by_jax_along), primals, given)
    direction = ad.instantiate_zeros(tangents[0])
    out = march_p.bind(rows, clocks, direction[:, None], called=called)
    values, changes = out[:VALUES], [x[:, 0] for x in out[VALUES:]]
    if called.apart:
        values = march_p.bind(rows, clocks, along, called=called)
    still = [jnp.zeros_like(values[0]), *changes, jnp.zeros_like(values[-1])]
    return values, still


ad.primitive_jvps[march_p] = _changed


def _backwards(*_, called: AbstractCalled):
    raise DalembertError(called.backwards)


ad.primitive_transposes[march_p] = _backwards
