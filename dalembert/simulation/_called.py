"""6 · simulation: the march that a program of JAX calls: rows of numbers in, marched in machine code, rows out.

Each member of a batch is a row: the numbers of its problem and of its start that were traced. Members march side by
side in lanes and threads, with derivatives along any number of directions; one that needs care (a singular position)
is marched alone, as `simulate` does it outside of JAX. No array of JAX is touched here unless JAX itself must march: a
program of JAX that waits for the copy of such an array while it waits for us would stand still on a single core.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, Status
from dalembert._typing import is_traced
from dalembert.formulations import Proximal
from dalembert.kernels import Unknown, flat, widest
from dalembert.linalg import NEAR
from dalembert.simulation import _march, _native
from dalembert.simulation._host import fresh_state, march_on_host
from dalembert.simulation._march import March, Plan, Problem, Span
from dalembert.simulation._prepare import with_ranks
from dalembert.simulation._rows import code_for_rows, cores, first_rows, march_rows
from dalembert.stabilise import State, examined
from dalembert.systems import compiled, without_names

DIRECTIONS = 8
"""Most directions that one machine code marches along with a motion; more are shared out over several lanes."""


class Numbers:
    """A pytree of which some numbers are traced, as a row of these, and back; on the host those that are `chosen`."""

    def __init__(self, tree, chosen: Callable[[Any], bool] = is_traced):
        arrays, self.static = eqx.partition(tree, eqx.is_array)
        leaves, self.structure = jax.tree_util.tree_flatten(arrays)
        self.traced = [chosen(x) for x in leaves]
        self.known = [None if traced else np.asarray(x) for x, traced in zip(leaves, self.traced, strict=True)]
        self.like = [(np.shape(x), np.dtype(x.dtype)) for x in leaves]
        xp = jnp if is_traced(leaves) else np
        parts = (xp.ravel(x).astype(float) for x, traced in zip(leaves, self.traced, strict=True) if traced)
        self.row = xp.concatenate([xp.zeros(0), *parts])
        sizes = [int(np.prod(shape)) for shape, _ in self.like]
        self.ends = np.cumsum([0, *sizes]).tolist()
        self.where = np.repeat(self.traced, sizes).astype(bool)  # of all numbers those that are in the row

    def tree(self, row):
        """The pytree with the numbers of a row, of NumPy or of JAX."""
        leaves, k = [], 0
        for known, (shape, kind) in zip(self.known, self.like, strict=True):
            if known is None:
                size = int(np.prod(shape))
                known, k = row[k : k + size].reshape(shape).astype(kind), k + size
            leaves.append(known)
        return eqx.combine(jax.tree_util.tree_unflatten(self.structure, leaves), self.static)

    def whole(self, rows: np.ndarray) -> np.ndarray:
        """All numbers, one row for each row of those that were traced."""
        out = np.zeros((*rows.shape[:-1], self.ends[-1]))
        for known, first, last in zip(self.known, self.ends, self.ends[1:], strict=False):
            if known is not None:
                out[..., first:last] = known.astype(float).ravel()
        out[..., self.where] = rows
        return out

    def changes(self, along: np.ndarray) -> np.ndarray:
        """Changes of the row as changes of all numbers."""
        out = np.zeros((*along.shape[:-1], self.ends[-1]))
        out[..., self.where] = along
        return out


class Clock(NamedTuple):
    """When a march begins, ends and saves, and its tolerances."""

    t0: Any
    t1: Any
    dt0: Any
    rtol: Any
    atol: Any
    times: Any


class Found(NamedTuple):
    """What becomes of the members: one row of each; `ends` are (end, status, accepted, rejected)."""

    ts: Any
    q: Any
    v: Any
    work: Any
    ends: Any


class AbstractCalled(abc.ABC):
    """What a program of JAX calls: rows of numbers in, marched on the host, rows out."""

    backwards: str
    """Why there is no way back."""
    apart: bool = False
    """Whether values and changes are two calls: only then `jax.grad` gets to the sentence that refuses it."""
    machine: Numbers
    clock: Numbers
    room: int
    """Instants that are saved at most."""
    sizes: list[int]
    """Of q, v and work."""

    def shapes(self, members: int, directions: int) -> tuple[tuple[int, ...], ...]:
        """Of `Found`, and with directions of the changes of q, v and work."""
        states = [(self.room, n) for n in self.sizes]
        found = [(members, self.room), *((members, *s) for s in states), (members, 4)]
        return tuple(found + [(members, directions, *s) for s in states if directions])

    def nothing(self, members: int, directions: int) -> list[np.ndarray]:
        """The rows before anything is marched."""
        return [np.full(shape, np.nan if k > 4 else np.inf) for k, shape in enumerate(self.shapes(members, directions))]

    @abc.abstractmethod
    def __call__(self, rows, clocks, along) -> tuple[np.ndarray, ...]:
        """March all members; their changes are NaN where the end is not reached."""

    @abc.abstractmethod
    def by_jax_along(self, row, clock, along) -> tuple:
        """One member and its changes along all directions as a program of JAX, or a sentence that there is none."""


class Called(AbstractCalled):
    """All that is known of a march while it is traced, and how its numbers are marched.

    On the host the same for numbers that are there (`chosen`); `varied` marks those that get no machine code of their
    own where they are zero or one, or do not change. `directions`: the most that one machine code marches along.
    """

    backwards = "derivative='forward' is for jax.jvp and jax.jacfwd; inside jax.grad use derivative='reverse'."

    def __init__(
        self,
        problem: Problem,
        span: Span,
        plan: Plan,
        times,
        ready: bool,
        *,
        chosen: Callable[[Any], bool] = is_traced,
        varied: np.ndarray | None = None,
        directions: int = DIRECTIONS,
    ):
        self.plan, self.ready, self.varied, self.directions = plan, ready, varied, directions
        self.machine = Numbers((without_names(problem), span.y0), chosen)
        self.clock = Numbers(Clock(span.t0, span.t1, span.dt0, span.rtol, span.atol, times))
        self.room = len(times) if plan.save == "times" else plan.max_steps
        self.sizes = [x.shape[-1] for x in jax.eval_shape(lambda: problem.state(span.t0, span.y0))]

    # ---- by JAX ------------------------------------------------------------------------------------------------

    def by_jax(self, row, clock) -> Found:
        """The march of one member as a program of JAX."""
        (problem, y0), when = self.machine.tree(row), self.clock.tree(clock)
        span = Span(when.t0, when.t1, when.dt0, y0, when.rtol, when.atol, jnp.asarray(np.inf), None)
        out = _march.march(problem, span, self.plan, when.times)
        (ts, ys), stats = (out.ts, out.ys), out.stats
        if self.plan.save == "steps":  # the start is added by the caller
            ts, ys = jax.tree_util.tree_map(lambda x: x[1:], (ts, ys))
        ends = [out.t_end, out.status, stats["num_accepted_steps"], stats["num_rejected_steps"]]
        q, v, work = ys
        return Found(ts, q, v, work, jnp.stack([jnp.asarray(x, float) for x in ends]))

    def by_jax_along(self, row, clock, along) -> tuple:
        """The same, and its changes along all directions."""

        def changed(direction):
            return jax.jvp(lambda r: self.by_jax(r, clock)[1:4], (row,), (direction,))[1]

        return *self.by_jax(row, clock), *(jax.vmap(changed)(along) if len(along) else ())

    @functools.cached_property
    def jitted_along(self):
        return compiled(self.by_jax_along)

    # ---- on the host -------------------------------------------------------------------------------------------

    def __call__(self, rows, clocks, along) -> tuple[np.ndarray, ...]:
        rows, clocks, along = (np.asarray(x) for x in (rows, clocks, along))
        out = self.nothing(*along.shape[:2])
        # members with the same limits and sample times march together
        _, first, group = np.unique(clocks, axis=0, return_index=True, return_inverse=True)
        for k, one in enumerate(first):
            _Members(self, np.flatnonzero(group.ravel() == k), rows, clocks[one], along, out).march()
        return tuple(out)


class _Members:
    """The members of one call that have a common clock."""

    def __init__(self, called: Called, who: np.ndarray, rows, clock: np.ndarray, along, out: list[np.ndarray]):
        self.called, self.who, self.rows, self.along = called, who, rows, along
        self.clock, self.when = clock, called.clock.tree(clock)
        self.out, self.changes = Found(*out[:5]), out[5:]
        self.plan = dataclasses.replace(called.plan, adjoint="forward", derivative=None, careful=False)

    def march(self) -> None:
        if len(self.rows) == 1 and not self.along.shape[1]:
            self._alone(0)
            return
        whole = self.called.machine.whole(self.rows[self.who])
        problem, y0 = self.called.machine.tree(self.rows[self.who[0]])
        for chosen, methods, own in self._ranked(problem, y0, whole):
            self._together(chosen, methods, own, problem, y0, whole[chosen])

    def _span(self, y0) -> Span:
        w, most = self.when, np.asarray(self.plan.max_steps)
        span = Span(w.t0, w.t1, w.dt0, y0, w.rtol, w.atol, np.asarray(np.inf), None, most=most)
        return dataclasses.replace(span, resume=fresh_state(span, self.plan))

    # ---- one by one --------------------------------------------------------------------------------------------

    def _alone(self, k: int) -> None:
        """As `simulate` marches it outside of JAX."""
        problem, y0 = self.called.machine.tree(self.rows[k])
        formulation, stabilisation = self._examined(problem, y0)
        problem = dataclasses.replace(problem, formulation=formulation, stabilisation=stabilisation)
        plan = dataclasses.replace(self.plan, careful=not _march.waits(self.plan))
        span = dataclasses.replace(self._span(y0), resume=None)
        self._write(k, march_on_host(problem, span, plan, np.asarray(self.when.times), None))
        if self.along.shape[1]:
            self._changes_by_jax(k)

    def _examined(self, problem: Problem, y0):
        """The methods with the rank and the margin of the rows at the start, unless the machine was prepared."""
        methods, state = (problem.formulation, problem.stabilisation), problem.state(self.when.t0, y0)[:2]
        if self.called.ready or not all(np.all(np.isfinite(x)) for x in state):
            return methods
        try:
            return with_ranks(problem.system, State(*state), float(self.when.t0), *methods)
        except DalembertError:  # a dead end: nothing is raised inside a program of JAX, the status says what follows
            return methods

    def _write(self, k: int, parts: list[March]) -> None:
        ts, ys = jax.tree_util.tree_map(lambda *x: np.concatenate(x), *((p.ts, p.ys) for p in parts))
        first, out = 1 if self.plan.save == "steps" else 0, self.out
        for x, new in zip(out[:4], (ts, *ys), strict=True):
            x[k] = np.inf
            x[k, : len(ts) - first] = new[first:]
        accepted, rejected = (sum(int(p.stats[f"num_{w}_steps"]) for p in parts) for w in ("accepted", "rejected"))
        repeated = sum(int(p.status) == _march.CARE for p in parts) if len(parts) > 1 else 0  # steps tried twice
        out.ends[k] = float(parts[-1].t_end), int(parts[-1].status), accepted, rejected - repeated

    def _changes_by_jax(self, k: int) -> None:
        """The changes of one member, where machine code has none."""
        for x, new in zip(
            self.changes, self.called.jitted_along(self.rows[k], self.clock, self.along[k])[5:], strict=True
        ):
            x[k] = np.asarray(new)

    # ---- together ----------------------------------------------------------------------------------------------

    def _ranked(self, problem: Problem, y0, whole: np.ndarray):
        """Numbers of members that share their machine code, their methods, and the numbers of these, one row each
        (None: as traced).

        Margins of rows were not known while tracing, unless the machine was prepared: they are found here, as
        `simulate` finds them outside of JAX. A member that starts beside a singular position is marched alone.
        """
        everyone, given = np.arange(len(whole)), problem.formulation
        if self.called.ready or not isinstance(given, Proximal) or not problem.system.m or given.kept is not None:
            return [(everyone, (given, problem.stabilisation), None)]
        groups: dict[Any, list] = {}
        for k, usual in enumerate(self._pivots(problem, y0, whole)):
            method = dataclasses.replace(given, usual=usual)
            if not np.min(usual) > NEAR:
                one = self.called.machine.tree(self.rows[self.who[k]])
                method: Any = self._examined(*one)[0]
                if method.kept is None and np.all(np.isfinite(usual)):
                    self._alone(int(self.who[k]))
                    continue
            kept = None if method.kept is None else np.asarray(method.kept).tobytes()
            methods = (method, problem.stabilisation.with_margin(method.margin))
            groups.setdefault(kept, []).append((k, methods, flat(eqx.filter(methods, eqx.is_array))))
        return [
            (np.array([k for k, *_ in group]), group[0][1], np.stack([row for *_, row in group]))
            for group in groups.values()
        ]

    def _pivots(self, problem: Problem, y0, whole: np.ndarray) -> np.ndarray:
        """How independent the rows of each member are at its start (`Attempt.pivots`)."""
        system, given = problem.system, (np.zeros(()), *y0[:2])
        before, state = (flat(eqx.filter(x, eqx.is_array)).size for x in (system, y0[:2]))
        first = whole.shape[1] - flat(y0).size
        built_in = _built_in(_arrays(system), whole[:, :before])
        system = generic(system, whole[0, :before], built_in)
        try:
            _, code = code_for_rows(
                "pivots", lambda s, x: examined(s, x[0], x[1], x[2], None)[1], system, given, built_in
            )
        except Unknown:
            return np.zeros((len(whole), 1))
        inputs = np.concatenate(
            [np.full((len(whole), 1), float(self.when.t0)), whole[:, first : first + state]], axis=1
        )
        return code.rows("pivots", whole[:, :before], inputs)

    def _together(self, chosen, methods, own, problem: Problem, y0, whole: np.ndarray) -> None:
        """March the members `chosen` in lanes and threads."""
        members, wanted = self.who[chosen], self.along.shape[1]
        layout = _Layout(problem, methods, own, y0)
        several = -(-wanted // self.called.directions)
        each = -(-wanted // several) if wanted else 0
        changes = np.zeros((len(members), max(several, 1) * each, whole.shape[1]))
        changes[:, :wanted] = self.called.machine.changes(self.along[members])
        shared = [np.repeat(x, max(several, 1), axis=0) for x in (layout.parameters(whole), layout.start(whole))]
        changes = changes.reshape(len(shared[0]), each, whole.shape[1])
        parameters, y = shared
        slopes, own_in = layout.slopes(changes), layout.built_in(parameters)
        still = np.all(slopes == 0, axis=0)
        if self.called.varied is not None:
            varied = self.called.varied[None].astype(float)
            own_in &= layout.parameters(varied)[0] == 0
            still &= layout.slopes(np.repeat(varied[None], each, axis=1))[0] == 0
        span = self._span(jax.tree_util.tree_map(np.zeros_like, y0))
        built_in = np.concatenate([own_in, still])
        code = _native.machine_for(
            generic(layout.problem, parameters[0], own_in), span, self.plan, widest(), built_in, each
        )
        if isinstance(code, str):
            if self.plan.engine == "native":
                raise DalembertError(f"engine='native' cannot march this: {code}. Use engine='auto'.")
            for k in members:
                self._alone(int(k))
            return
        begin = first_rows(span, self.plan, y, np.concatenate([y, layout.start_slopes(changes)], axis=1))
        limits = np.array([span.t1, np.inf, _march.COUNTED, self.plan.max_steps, span.rtol, span.atol], float)
        rows, times = np.concatenate([parameters, slopes], axis=1), np.asarray(self.when.times)
        steps, room = self.plan.save == "steps", self.called.room
        self._read(code, members, *march_rows(code, rows, begin, limits, times, steps, room, cores()))

    def _read(self, code: _native.Machine, members: np.ndarray, ends, ts, saved) -> None:
        wanted, ny, out = self.along.shape[1], code.y_tree.size, self.out
        several = len(ends) // len(members)  # lanes of one member, for some directions each
        codes = code.state_tree.tree(ends[:, 2 + ny : 2 + ny + code.state_tree.size])[3]
        found: Any = code.saved.unflatten(saved)
        states, changes = found if wanted else (found, ())
        reached = np.isfinite(ts[::several])
        for x, new in zip(out[:4], (ts, *states), strict=True):
            new = new[::several]
            x[members] = np.where(reached.reshape(reached.shape + (1,) * (new.ndim - 2)), new, np.inf)
        status = [_native.status_of(int(r), int(s)) for r, s in zip(ends[::several, -4], codes[::several], strict=True)]
        out.ends[members] = np.stack([ends[::several, 0], status, *ends[::several, -3:-1].T], axis=1)
        new: Any
        for x, new in zip(self.changes, changes, strict=True):
            new = np.moveaxis(new, 2, 1)  # lane, direction, time, coordinate
            new = new.reshape(len(members), -1, *new.shape[2:])[:, :wanted]
            good = np.array(status)[:, None, None, None] == Status.done.value
            x[members] = np.where(good, new, np.nan)
        for k in members[np.array(status) == _march.CARE]:  # a singular position
            self._alone(int(k))


class _Layout:
    """Where the numbers of a problem and of its start stand in a row, before and after its methods were prepared."""

    def __init__(self, problem: Problem, methods, own: np.ndarray | None, y0):
        self.own, self.y0 = own, y0
        self.problem = dataclasses.replace(problem, formulation=methods[0], stabilisation=methods[1], loop="ask")
        given = (problem.formulation, problem.stabilisation)
        rest = (problem.sizes, problem.dropped)
        sizes = [flat(eqx.filter(x, eqx.is_array)).size for x in (problem.system, given, rest, y0)]
        self.ends = np.cumsum(sizes)
        self.leaves = _arrays(self.problem)

    def parameters(self, whole: np.ndarray) -> np.ndarray:
        system, given, rest, _ = np.split(whole, self.ends[:-1], axis=1)
        return np.concatenate([system, given if self.own is None else self.own, rest], axis=1)

    def start(self, whole: np.ndarray) -> np.ndarray:
        return whole[:, self.ends[2] :]

    def slopes(self, changes: np.ndarray) -> np.ndarray:
        """Changes (lanes, directions, numbers) of a problem as the machine code takes them.

        Sizes and margins measure errors; nothing is differentiated through them.
        """
        system, given, rest, _ = np.split(changes, self.ends[:-1], axis=2)
        if self.own is not None:
            given = np.zeros((*changes.shape[:2], self.own.shape[1]))
        return _by_leaf(self.leaves, np.concatenate([system, given, 0.0 * rest], axis=2))

    def start_slopes(self, changes: np.ndarray) -> np.ndarray:
        return _by_leaf(jax.tree_util.tree_leaves(self.y0), changes[:, :, self.ends[2] :])

    def built_in(self, parameters: np.ndarray) -> np.ndarray:
        return _built_in(self.leaves, parameters)


def _by_leaf(leaves, changes: np.ndarray) -> np.ndarray:
    """(lanes, directions, numbers) as one row for each lane: for each leaf that can change, all directions."""
    ends = np.cumsum([0, *(np.size(x) for x in leaves)])
    return np.concatenate(
        [np.zeros((len(changes), 0))]
        + [
            changes[:, :, i:j].reshape(len(changes), -1)
            for x, i, j in zip(leaves, ends, ends[1:], strict=False)
            if _is_real(x)
        ],
        axis=1,
    )


def _built_in(leaves, rows: np.ndarray) -> np.ndarray:
    """Which numbers are built in: zeros and ones that all members share, and all that count or choose."""
    flags = np.concatenate([np.zeros(0, bool), *(np.full(np.size(x), not _is_real(x)) for x in leaves)])
    first = rows[0]
    return np.all(rows == first, axis=0) & (flags | (first == 0) | (np.abs(first) == 1))


def generic(tree, row: np.ndarray, built_in: np.ndarray):
    """A pytree with the numbers that are built in; all others are one half, so that it is the same for all members."""
    arrays, static = eqx.partition(tree, eqx.is_array)
    leaves, structure = jax.tree_util.tree_flatten(arrays)
    numbers, ends = np.where(built_in, row, 0.5), np.cumsum([0, *(np.size(x) for x in leaves)])
    parts = [
        numbers[i:j].reshape(np.shape(x)).astype(np.asarray(x).dtype)
        for x, i, j in zip(leaves, ends, ends[1:], strict=False)
    ]
    return eqx.combine(jax.tree_util.tree_unflatten(structure, parts), static)


def _is_real(x) -> bool:
    return np.issubdtype(np.asarray(x).dtype, np.floating)


def _arrays(tree) -> list[Any]:
    return jax.tree_util.tree_leaves(eqx.filter(tree, eqx.is_array))
