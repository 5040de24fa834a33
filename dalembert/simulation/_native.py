"""6 · simulation: the march in machine code, without going back to Python between steps.

The functions of a march (`Problem.vector_field`, the end of a step, the step control, the states that are saved) are
those of `_march`, written out as scalars (`kernels`); around them stands one loop (`_loop`): stages of an explicit
Runge–Kutta method by its tableau, interpolation at the saved times, several members of a batch at once. It takes the
steps of the short program of a march, so a march that needs care pauses here too. It goes on with a kernel for the
states that need it (`Careful`), and where that needs singular values, with JAX.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import threading
import time
import weakref
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, Status
from dalembert._runtime import compile_stopwatch
from dalembert.kernels import (
    MOST,
    Compiled,
    Kernel,
    Unknown,
    describe,
    flat,
    remembered,
    widest,
)
from dalembert.simulation import _march
from dalembert.simulation._loop import BLOCK, loop, loop_code
from dalembert.simulation._march import March, Plan, Problem, Span
from dalembert.systems import without_names

# ---- the functions of the loop ---------------------------------------------------------------------------------


LIMITS = ("end", "pause_at", "pause_after", "most", "rtol", "atol")


def _field(problem: Problem, given):
    t, y = given
    return problem.vector_field(t, y, None)


def _close(problem: Problem, given):
    return _march.closed_step(problem, *given)


def _adapt(plan: Plan, order, problem: Problem, given):
    """The step control, and what Diffrax does with its answer."""
    t0, t1, y0, y1, error, state, limits = given
    end, pause_at, pause_after, most, rtol, atol = limits
    controller = _march.step_control(plan, rtol, atol)
    watched = _march.Watched(controller, problem, end, pause_at, pause_after, most)
    if error is not None:
        error = jax.tree_util.tree_map(lambda x: jnp.where(jnp.isnan(x), jnp.inf, x), error)
    keep, t, following, _, state, result = watched.adapt_step_size(t0, t1, y0, y1, None, error, order, state)
    t = jnp.minimum(t, end)
    cut = jnp.where(keep, end, t + 0.5 * (end - t))
    following = jnp.where(following > end, cut, following)
    return jnp.asarray(keep), t, following, result._value, state


def _saved(plan: Plan, problem: Problem, given):
    t, y = given
    q, v, work = problem.state(t, y)
    if plan.save == "times":
        q, v = problem.on_constraints(t, q, v)
    return q, v, work


def _with_derivatives(function, given_problem, y, changes):
    """`function(problem, y)`, and how it changes along all directions in which problem and y change."""
    problem, directions = given_problem
    rates = jax.vmap(lambda *change: changed_along(function, (problem, y), change))(directions, changes)
    return function(problem, y), rates


def changed_along(function, given: tuple, change: tuple):
    """How `function(*given)` changes; zero, not None, where it does not depend on what changes."""
    found, rates = eqx.filter_jvp(function, given, change)
    found = eqx.filter(found, eqx.is_inexact_array)
    return jax.tree_util.tree_map(
        lambda x, rate: None if x is None else jnp.zeros_like(x) if rate is None else rate,
        found,
        rates,
        is_leaf=lambda x: x is None,
    )


def _field_along(given_problem, given):
    t, (y, changes) = given
    return _with_derivatives(lambda p, y: p.vector_field(t, y, None), given_problem, y, changes)


def _close_along(given_problem, given):
    t, (y, changes), errors = given
    closed, error = _march.closed_step(given_problem[0], t, y, None if errors is None else errors[0])
    _, rates = _with_derivatives(lambda p, y: p.settle(t, y)[0], given_problem, y, changes)
    return (closed, rates), None if errors is None else (error, errors[1])


def _adapt_along(plan: Plan, order, given_problem, given):
    """Derivatives follow the motion: they do not control its steps."""
    t0, t1, (y0, _), (y1, _), errors, state, limits = given
    return _adapt(plan, order, given_problem[0], (t0, t1, y0, y1, None if errors is None else errors[0], state, limits))


def _saved_along(plan: Plan, given_problem, given):
    t, (y, changes) = given
    return _with_derivatives(lambda p, y: _saved(plan, p, (t, y)), given_problem, y, changes)


def _weights(solver, stages: int, _, share):
    """What y0, y1 and h·(each stage) count in the state at a share of the step: the interpolation of units."""
    unit = jnp.eye(2 + stages)
    between = solver.interpolation_cls(t0=0.0, t1=1.0, y0=unit[0], y1=unit[1], k=unit[2:])
    return between.evaluate(share)


# ---- machines ------------------------------------------------------------------------------------------------


class Machine:
    """The machine code of all marches of one structure: its kernels, the loop, and how to read its numbers."""

    def __init__(
        self,
        problem: Problem,
        span: Span,
        plan: Plan,
        lanes: int = 1,
        built_in: np.ndarray | None = None,
        directions: int = 0,
        most: int = MOST,
    ):
        # LLVM runs without Python's lock: the loop, a quarter of a second, is compiled while the functions are traced
        threading.Thread(target=loop_code, args=(lanes,)).start()
        solver: Any = _march.INTEGRATORS[plan.integrator]()
        tableau = solver.tableau
        self.stages, self.lanes, self.fixed = tableau.num_stages, lanes, plan.fixed
        S = self.stages
        self.A = np.zeros((S, S))
        for i, row in enumerate(tableau.a_lower):
            self.A[i + 1, : len(row)] = row
        self.c = np.concatenate([[0.0], tableau.c])
        self.b, self.e = (np.asarray(x, float) for x in (tableau.b_sol, tableau.b_error))
        assert span.resume is not None
        y, state = span.y0, span.resume[1]
        functions = (_field, _close, _adapt, _saved)
        given: Any = problem
        if directions:
            functions = (_field_along, _close_along, _adapt_along, _saved_along)
            changes, problems = (
                jax.tree_util.tree_map(
                    lambda x: np.zeros((directions, *np.shape(x))), eqx.filter(tree, eqx.is_inexact_array)
                )
                for tree in (y, problem)
            )
            y, given = (y, changes), (problem, problems)
        field, close, adapt, saved = functions
        self.y_tree, self.state_tree = _Row(y), _Row(state)
        self.noise = sum(np.size(x) for x in jax.tree_util.tree_leaves(span.y0[:2])) + 2  # work[2]
        t = np.zeros(())
        error = y if not plan.fixed or issubclass(type(solver), diffrax.AbstractAdaptiveSolver) else None
        limits = (t,) * len(LIMITS)
        order = solver.error_order(diffrax.ODETerm(lambda t, y, args: y))

        def of(name, function, parameters, given):
            chosen = None if parameters == () else built_in
            return Kernel.of(name, function, parameters, given, built_in=chosen, most=most)

        lanes_of = [
            of("field", field, given, (t, y)),
            of("close", close, given, (t, y, error)),
            of("adapt", lambda p, x: adapt(plan, order, p, x), given, (t, t, y, y, error, state, limits)),
        ]
        shown = of("saved", lambda p, x: saved(plan, p, x), given, (t, y))
        share = of("weights", lambda p, x: _weights(solver, S, p, x), (), t)
        self.size = sum(k.nodes for k in lanes_of)
        # states are saved in as many lanes as there are, whatever they are marched in: with the same bits
        self.many, self.shown, self.one = Compiled(lanes_of, lanes), Compiled([shown], widest()), Compiled([share], 1)
        self._connect()

    def _connect(self) -> None:
        """The loop, and its numbers for this machine."""
        self.loop = loop_code(self.lanes)
        types = [ctypes.c_int64 if kind == "Whole" else ctypes.c_void_p for kind in ARGUMENTS.values()]
        self.run = self.loop.function("loop", *types)
        self.parts = [(self.many, "field"), (self.many, "close"), (self.many, "adapt"), (self.shown, "saved")]
        self.saved, S, lanes, V = self.shown.kernels["saved"], self.stages, self.lanes, self.shown.lanes
        kf, kc, ka, ks = self.counts
        ny, ns, nl, W = self.y_tree.size, self.state_tree.size, len(LIMITS), lanes
        row = -(-ny * W // BLOCK) * BLOCK
        self.scratch = (kf + kc + ka + 8 + 8 * ny + 2 * ns + nl) * W + (S + 1) * row + S + 24
        self.scratch += V * (ks + ny + self.saved.outputs + 2)
        self.values: dict[str, int] = {"first": 0, "ny": ny, "ns": ns, "nl": nl, "nx": self.saved.outputs, "stages": S}
        # of a method whose last stage is at the end of the step, and counts neither there nor in the error
        self.values["late"] = int(self.b[-1] == self.e[-1] == 0.0 and np.array_equal(self.A[-1], self.b))
        self.values |= {"kf": kf, "kc": kc, "ka": ka, "ks": ks}
        self.values |= {k: getattr(self, k).ctypes.data for k in ("A", "b", "e", "c")}
        self.values |= {k: self.many.module.address(k) for k in ("field", "close", "adapt")}
        self.values |= {"saved": self.shown.module.address("saved"), "weights": self.one.module.address("weights")}
        self.values["kl"] = self.shown.lasting["saved"]
        self.values |= {"careful": self.values["field"], "care": 0, "kept_careful": 0, "noise": self.noise}

    def __getstate__(self) -> dict[str, Any]:
        written = (
            "stages",
            "lanes",
            "fixed",
            "A",
            "b",
            "e",
            "c",
            "y_tree",
            "state_tree",
            "size",
            "many",
            "shown",
            "one",
            "noise",
        )
        return {k: getattr(self, k) for k in written}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._connect()

    @property
    def kernels(self) -> dict[str, Kernel]:
        return self.many.kernels | self.shown.kernels | self.one.kernels

    @property
    def counts(self) -> list[int]:
        """How many numbers each kernel keeps."""
        return [compiled.kept[name] for compiled, name in self.parts]

    def forget(self) -> None:
        """Forget the graphs: they take more memory than the code that was made of them."""
        for kernel in self.kernels.values():
            kernel.drop_graph()

    def kept(self, parameters: np.ndarray) -> np.ndarray:
        """What the kernels keep, one row for each row of parameters."""
        return np.ascontiguousarray(np.concatenate([c.setup(name, parameters) for c, name in self.parts], axis=1))


class _Row:
    """A pytree as a row of numbers, and back with its types (as views of the row where they are floats)."""

    def __init__(self, tree):
        leaves, self.structure = jax.tree_util.tree_flatten(tree)
        leaves = [np.asarray(x) for x in leaves]
        ends = np.cumsum([0, *(x.size for x in leaves)]).tolist()
        self.parts = [(i, j, x.shape, x.dtype) for i, j, x in zip(ends, ends[1:], leaves, strict=False)]
        self.size = ends[-1]

    def __getstate__(self) -> dict[str, Any]:
        shown = jax.tree_util.tree_unflatten(self.structure, list(range(len(self.parts))))
        return vars(self) | {"structure": shown}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.structure = jax.tree_util.tree_structure(self.structure)

    def row(self, tree) -> np.ndarray:
        out = np.empty(self.size)
        for x, (i, j, shape, _) in zip(jax.tree_util.tree_leaves(tree), self.parts, strict=True):
            out[i:j] = np.reshape(x, -1) if shape else x
        return out

    def tree(self, row: np.ndarray):
        before = row.shape[:-1]
        out = [row[..., i:j].reshape(before + shape).astype(kind, copy=False) for i, j, shape, kind in self.parts]
        return jax.tree_util.tree_unflatten(self.structure, out)


ARGUMENTS = {k: p.annotation for k, p in inspect.signature(loop).parameters.items() if k not in ("W", "V")}
_MACHINES: dict[Any, Machine | Careful | str] = {}
KEPT = 64
"""Machines that stay in memory."""
AUTO_UP_TO = 300_000
"""Nodes of the largest kernel up to which engine="auto" marches natively; `engine="native"` goes on to `MOST`.

Processor seconds of a first run of some steps, native and by JAX, and milliseconds of a step after it: 40 four-bars 3.8
and 4.4 s, 0.2 and 1.2 ms; 100 four-bars (259,000 nodes, n = 603) 6.4 and 4.1 s, 0.6 and 3.6 ms, so the native march is
ahead after 800 steps, and sooner where singular positions are passed, which JAX compiles a second program for; 200
four-bars 11 and 4.1 s, 1.6 and 7.1 ms; 400 four-bars (1,035,000 nodes) 21 and 4.3 s, 7.1 and 14 ms.
"""


def _most(plan: Plan) -> int:
    """Nodes that a kernel of this march may have."""
    return MOST if plan.engine == "native" else AUTO_UP_TO


def unfit(plan: Plan) -> str:
    """Why a march cannot be native, by its plan alone; empty if it can."""
    solver: Any = _march.INTEGRATORS[plan.integrator] if plan.solver is None else None
    if solver is None or not issubclass(solver, diffrax.AbstractERK):
        return "its integrator is not one of the explicit ones by name"
    if plan.controller is not None or plan.event is not None:
        return "it has a step-size controller or an event of Diffrax"
    return "samples='dense' needs the polynomials of JAX" if plan.save == "dense" else ""


def machine_for(
    problem: Problem,
    span: Span,
    plan: Plan,
    lanes: int = 1,
    built_in: np.ndarray | None = None,
    directions: int = 0,
    graphs: bool = False,
) -> Machine | str:
    """The machine code for this march, or why there is none: then JAX marches.

    `built_in`: see `Kernel.of`; `directions`: in how many the motion is differentiated; `graphs`: whether the graphs
    are needed for another device.
    """
    reason = unfit(plan)
    if reason:
        return reason
    number = describe(problem).number
    if number is None:
        return "a part of the system has no hash"
    state = jax.tree_util.tree_structure((span.y0, span.resume))
    own = None if built_in is None else built_in.tobytes()
    most = _most(plan)
    key = (number, state, plan.integrator, plan.fixed, plan.save, lanes, own, directions, graphs, most)
    if key not in _MACHINES:
        while len(_MACHINES) >= KEPT:
            _MACHINES.pop(next(iter(_MACHINES)))
        began, counted = time.perf_counter(), compile_stopwatch.seconds
        try:
            make = functools.partial(Machine, problem, span, plan, lanes, built_in, directions, most)
            if graphs:
                _MACHINES[key] = make()
            else:
                chosen = (plan.integrator, plan.fixed, plan.save, lanes, own, directions, most)
                _MACHINES[key] = remembered(loop, (problem, chosen), (span.y0, span.resume), make)
                _MACHINES[key].forget()  # pyright: ignore[reportAttributeAccessIssue]
        except Unknown as reason:
            _MACHINES[key] = f"its equations contain {reason}"
        compile_stopwatch.seconds = counted + time.perf_counter() - began  # JAX has counted its own part
    return _MACHINES[key]  # pyright: ignore[reportReturnType]


class Careful:
    """The machine code of ẏ where a state needs care: it passes singular positions."""

    def __init__(self, problem: Problem, y, most: int):
        kernel = Kernel.of("careful", _field, problem, (np.zeros(()), y), most=most)
        self.code = Compiled([kernel], 1)
        kernel.drop_graph()

    def ready(self, problem: Problem) -> tuple[int, np.ndarray]:
        """Its address, and what it keeps for this problem."""
        kept = self.code.setup("careful", flat(eqx.filter(problem, eqx.is_array)))[0]
        return self.code.module.address("careful"), np.append(kept, 0.0)


def careful_for(problem: Problem, span: Span, plan: Plan) -> Careful | str:
    """The machine code for states that need care, or why there is none."""
    state, most = jax.tree_util.tree_structure(span.y0), _most(plan)
    key = ("careful", describe(problem).number, state, most)
    if key not in _MACHINES:
        began, counted = time.perf_counter(), compile_stopwatch.seconds
        try:
            make = functools.partial(Careful, problem, span.y0, most)
            _MACHINES[key] = remembered(Careful.ready, (problem, most), span.y0, make)
        except Unknown as reason:
            _MACHINES[key] = f"its equations contain {reason}"
        compile_stopwatch.seconds = counted + time.perf_counter() - began
    return _MACHINES[key]  # pyright: ignore[reportReturnType]


_READY: dict[int, tuple[weakref.ref, dict[tuple, Any]]] = {}


def _known(problem: Problem) -> dict[tuple, Any]:
    """What was made for this problem; remembered as long as that lives."""
    number = id(problem)
    if number not in _READY:
        _READY[number] = weakref.ref(problem, lambda _: _READY.pop(number, None)), {}
    return _READY[number][1]


def _ready(problem: Problem, span: Span, plan: Plan) -> tuple[Machine, np.ndarray] | str:
    """The machine code and what its kernels keep for this problem."""
    reason = unfit(plan)
    if reason:
        return reason
    # how much may be written out counts too: what "auto" leaves to JAX, "native" marches
    known, key = _known(problem), (plan.integrator, plan.fixed, plan.save, _most(plan))
    if key not in known:
        nameless = without_names(_march.prepared(problem, span, plan, "ask"))
        found = machine_for(nameless, span, plan)
        kept = found if isinstance(found, str) else found.kept(flat(eqx.filter(nameless, eqx.is_array)))
        known[key] = kept if isinstance(kept, str) else (found, kept)  # pyright: ignore[reportArgumentType]
    return known[key]


def _ready_careful(problem: Problem, span: Span, plan: Plan) -> tuple[Careful, int, np.ndarray] | str:
    """The same for states that need care."""
    known, key = _known(problem), ("careful", plan.fixed or float(span.rtol), _most(plan))
    if key not in known:
        nameless = without_names(_march.prepared(problem, span, plan, "aside"))
        found = careful_for(nameless, span, plan)
        known[key] = found if isinstance(found, str) else (found, *found.ready(nameless))
    return known[key]


def march(problem: Problem, span: Span, plan: Plan, times: np.ndarray) -> March | None:
    """As `_march.march`, in machine code; None where JAX must do it."""
    found = _ready(problem, span, plan)
    if isinstance(found, str):
        if plan.engine == "native" and not plan.careful:
            raise DalembertError(f"engine='native' cannot march this: {found}. Use engine='auto'.")
        return None
    machine, kept = found
    careful = None
    if plan.careful:
        careful = _ready_careful(problem, span, plan)
        if isinstance(careful, str):
            return None
    limits = np.array([span.t1, span.pause_at, span.pause_after, span.most, span.rtol, span.atol], float)
    assert span.resume is not None
    y0, state = machine.y_tree.row(span.y0), machine.state_tree.row(span.resume[1])
    begin = np.concatenate([[float(span.t0), _first_end(span)], y0, state, np.zeros(4)])
    room = max(len(times) if plan.save == "times" else plan.max_steps, 1)
    outs = run(machine, kept, begin[None], limits, times, plan.save == "steps", room, careful)
    return _as_march(machine, problem, span, plan, times, *outs)


def _first_end(span: Span) -> float:
    """Where the first step ends, as Diffrax takes it."""
    assert span.dt0 is not None
    return float(min(span.t0 + span.dt0, span.t1))


def _aligned(count: int) -> np.ndarray:
    """So many zeros from where a line of the processor's cache begins: lanes that lie across two take twice as long."""
    room = np.zeros(count + 8)
    first = -room.__array_interface__["data"][0] % 64 // 8
    return room[first : first + count]


def run(machine: Machine, kept, ends, limits, times, steps: bool, room: int, careful: tuple | None = None):
    """Run the loop over all members in `ends`, here and now; (ends, times, states)."""
    # the loop reads plain rows: a column of a table, say, would be read with its neighbours
    times, limits, ends = (np.ascontiguousarray(x, float) for x in (times, limits, ends))
    members = len(ends)
    out_t, out = np.full((members, room), np.inf), np.zeros((members, room, machine.saved.outputs))
    scratch = _aligned(machine.scratch)
    # a copy: the kernels work behind what they keep
    kept = kept.copy() if len(kept) == members else np.array(np.broadcast_to(kept, (members, kept.shape[1])), order="C")
    values = machine.values | {"last": members, "ntimes": len(times), "steps": int(steps), "room": room}
    arrays = {"times": times, "limits": limits, "kept": kept, "ends": ends, "out_t": out_t, "out": out}
    arrays["scratch"] = scratch
    if careful is not None:
        values |= {"care": 1, "careful": careful[1]}
        arrays["kept_careful"] = careful[2]
    values |= {k: a.__array_interface__["data"][0] for k, a in arrays.items()}  # quicker than a.ctypes.data
    machine.run(*(values[k] for k in ARGUMENTS))
    return ends, out_t, out


PAUSED, EXHAUSTED = (int(r._value) for r in (diffrax.RESULTS.event_occurred, diffrax.RESULTS.max_steps_reached))
"""Results of the step control by which a march ends for a while, or because it may take no more steps."""


def status_of(result: int, status: int) -> int:
    """The status of a march from the result of its last step and the status of its step control."""
    if status == 0 and result == EXHAUSTED:
        return Status.max_steps.value
    if status == 0 and result not in (0, PAUSED):
        return Status.step_too_small.value
    return status


def _as_march(machine: Machine, problem, span: Span, plan: Plan, times, ends, out_t, out) -> March:
    assert span.resume is not None
    row, ny, ns = ends[0], machine.y_tree.size, machine.state_tree.size
    result, accepted, rejected, count = row[-4:]
    y, state = machine.y_tree.tree(row[2 : 2 + ny]), machine.state_tree.tree(row[2 + ny : 2 + ny + ns])
    t_end = np.asarray(row[0])
    result = int(result)
    paused = result == PAUSED
    status = status_of(result, int(state[3]))
    ys = tuple(map(np.ascontiguousarray, machine.saved.unflatten(out[0])))  # q, v, work: each for itself
    ts = out_t[0]
    if plan.save == "steps":
        start = jax.tree_util.tree_map(np.asarray, problem.state(span.t0, span.y0))
        ts = np.concatenate([[float(span.t0)], ts[: int(count)]])
        ys = jax.tree_util.tree_map(lambda a, b: np.concatenate([a[None], b[: int(count)]]), start, ys)
    return March(
        ts=ts,
        ys=ys,
        t_end=t_end,
        y_end=y,
        controller=state,
        solver_state=span.resume[0],
        stats={"num_accepted_steps": int(accepted), "num_rejected_steps": int(rejected)},
        dense=None,
        status=np.asarray(status),
        paused=np.asarray(paused),
        engine="native",
    )
