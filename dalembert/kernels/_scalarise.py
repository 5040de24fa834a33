"""0 · kernels: a function of JAX, written out as a graph of scalars.

The jaxpr of a function of small arrays is walked once. An array is an array of numbers of the `Graph`; what only moves
numbers is done by NumPy, what computes is written out element by element. Matrix factorisations are unrolled, and
structural zeros fold them to the sparsity of the machine. A primitive that is not known is refused by name (`Unknown`);
the caller then leaves the function to JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.extend import core
from jax.interpreters import partial_eval

from dalembert.kernels import _matrices, _moving
from dalembert.kernels._eliminate import Elimination
from dalembert.kernels._graph import BINARY, COMPARE, MINUS_ONE, ONE, UNARY, ZERO, Graph, Unknown

MOST = 2_000_000
"""Nodes of a graph up to which a function is written out: 0.6 kB of memory each until it is compiled."""
DENSE = 20_000
"""Products of numbers above which a product of matrices is a loop."""
MULTIPLYING = frozenset({"mul", "integer_pow", "pow", "square", "dot_general", "reduce_prod", "cumprod"})
"""What may make whole numbers too large for a float64 that stands for them."""
FEW = 16
"""Elements up to which a loop over an array takes less time than operations of NumPy on it."""
FLOAT64, BOOL = np.dtype(np.float64), np.dtype(np.bool_)


def write_out(
    graph: Graph, closed, arguments: list[np.ndarray], most: int = MOST, dense: int = DENSE
) -> list[np.ndarray]:
    """The results of a closed jaxpr for arguments that are arrays of numbers of the graph."""
    # a third of what is traced computes no result
    used, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return Walk(graph, most, dense).jaxpr(used, closed.consts, arguments)


class Walk:
    """One walk over a jaxpr, and its rules; a rule has the name of its primitive."""

    def __init__(self, graph: Graph, most: int, dense: int):
        self.graph, self.most, self.dense = graph, most, dense
        self.eliminated: dict[tuple, Elimination] = {}  # by pattern and numbers of the matrix
        self.scalars: dict[float, np.ndarray] = {}  # constants of no dimension
        self.arrays: dict[int, tuple[Any, np.ndarray]] = {}  # constants of arrays, which are kept, by their id

    def jaxpr(self, jaxpr, consts, arguments: list[np.ndarray]) -> list[np.ndarray]:
        known: dict[Any, np.ndarray] = {}
        known |= zip(jaxpr.constvars, (self.constants_once(c) for c in consts), strict=True)
        known |= zip(jaxpr.invars, arguments, strict=True)
        literal, nodes, most = core.Literal, self.graph.op, self.most

        def read(v) -> np.ndarray:
            return self.literal(v.val) if isinstance(v, literal) else known[v]

        for equation in jaxpr.eqns:
            values = [self.literal(v.val) if isinstance(v, literal) else known[v] for v in equation.invars]
            results = self.equation(equation, values)
            for v, result in zip(equation.outvars, results, strict=True):
                known[v] = result
            if len(nodes) > most:
                raise Unknown(f"more than {most:,} operations")
        return [read(v) for v in jaxpr.outvars]

    def closed(self, closed, arguments) -> list[np.ndarray]:
        return self.jaxpr(closed.jaxpr, closed.consts, arguments)

    def equation(self, equation, values: list[np.ndarray]) -> list[np.ndarray]:
        name, parameters = equation.primitive.name, equation.params
        rule = RULES.get(name)
        if rule is None:
            raise Unknown(f"the operation '{name}'")
        self.refuse_types(equation, values)
        out = rule(self, *values, **parameters) if name not in NEED_TYPES else rule(self, equation, *values)
        return out if equation.primitive.multiple_results else [out]

    def refuse_types(self, equation, values: list[np.ndarray]) -> None:
        """All numbers are float64 here: refuse those that would differ from it, computed ones that is."""
        for v in equation.outvars:
            kind = getattr(v.aval, "dtype", None)
            # equal, not the same object: an array that was pickled has a dtype of its own
            if kind is None or kind in (FLOAT64, BOOL) or equation.primitive.name in PASSING:
                continue
            if not np.issubdtype(kind, np.integer):
                raise Unknown(f"numbers of type {kind}")
            if all((x < 0).all() for x in values):  # constants: indices and sizes
                continue
            if equation.primitive.name in MOVING:
                continue
            if kind not in (np.int32, np.int64):
                raise Unknown(f"numbers of type {kind}")
            if equation.primitive.name in MULTIPLYING:
                raise Unknown("products of whole numbers that depend on the state")
            large = (abs(self.graph.value(c)) for x in values for c in x[x < 0].ravel().tolist())
            if equation.primitive.name in ("add", "sub") and any(c >= 2**31 for c in large):
                raise Unknown("large whole numbers")

    # ---- numbers ---------------------------------------------------------------------------------------------

    def constants(self, x) -> np.ndarray:
        """The constants of an array."""
        x = np.asarray(x)
        if x.dtype.kind not in "fiub":
            raise Unknown(f"numbers of type {x.dtype}")
        if x.size <= FEW:
            return np.array([self.graph.constant(v) for v in x.ravel().tolist()], int).reshape(x.shape)
        values, back = np.unique(x.astype(float).ravel(), return_inverse=True)
        ids = np.array([self.graph.constant(v) for v in values.tolist()], int)
        return ids[back].reshape(x.shape)

    def literal(self, x) -> np.ndarray:
        """The constant of a number that is written in a jaxpr."""
        if not isinstance(x, float | int):
            return self.constants_once(x)
        found = self.scalars.get(x)
        if found is None:
            found = self.scalars[x] = np.array(self.graph.constant(x), int)
        return found

    def constants_once(self, x) -> np.ndarray:
        """`constants` of an array that is met again: a part of a jaxpr is called many times."""
        found = self.arrays.get(id(x))
        if found is None:
            found = self.arrays[id(x)] = x, self.constants(x)
        return found[1]

    def values(self, a: np.ndarray) -> np.ndarray:
        """The whole numbers behind constants; refused for anything that is computed."""
        if (a >= 0).any():
            raise Unknown("an index that depends on the state")
        constants = self.graph.constants
        return np.array([constants[~x] for x in a.ravel().tolist()], float).astype(int).reshape(a.shape)

    def map(self, function: Callable, *arrays: np.ndarray) -> np.ndarray:
        """`function` of each element."""
        arrays = _broadcast(*arrays)
        out = list(map(function, *(a.ravel().tolist() for a in arrays)))
        return np.array(out, int).reshape(arrays[0].shape)

    def folded(self, function: Callable, fold: Callable, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """`function` of each pair; of a large array only where `fold` (arrays → result, where it is one) leaves it."""
        a, b = _broadcast(a, b)
        if a.size <= FEW:
            return np.array(list(map(function, a.ravel().tolist(), b.ravel().tolist())), int).reshape(a.shape)
        out, known = fold(self.graph, a, b)
        left = ~known
        out[left] = list(map(function, a[left].tolist(), b[left].tolist()))
        return out

    # ---- calls -----------------------------------------------------------------------------------------------

    def call(self, *values, jaxpr=None, call_jaxpr=None, fun_jaxpr=None, name="", **_) -> list[np.ndarray]:
        if name == "factor_in_order" and jaxpr is not None:  # of linalg, as the next two: `sparse_solve` has its own
            return [np.full(jaxpr.out_avals[0].shape, ZERO)]
        if name in ("solved_in_order", "solved_roughly"):
            i, j, entries, b, *_ = values
            if entries.ndim != 1 or b.ndim != 2:
                raise Unknown("sparse equations of a whole batch")
            return [_matrices.sparse_solve(self, i, j, entries[None], b[None], rough=name == "solved_roughly")[0]]
        inner = next(j for j in (jaxpr, call_jaxpr, fun_jaxpr) if j is not None)
        if hasattr(inner, "consts"):
            return self.closed(inner, list(values))
        return self.jaxpr(inner, [], list(values))

    def custom_linear_solve(self, *values, const_lengths, jaxprs) -> list[np.ndarray]:
        counts = [const_lengths.matvec, const_lengths.vecmat, const_lengths.solve, const_lengths.transpose_solve]
        ends = np.cumsum([c or 0 for c in counts])
        return self.closed(jaxprs.solve, [*values[ends[1] : ends[2]], *values[ends[3] :]])

    def platform_index(self, *, platforms, has_default=True, **_) -> np.ndarray:
        names = [p if isinstance(p, str) else (p or ("default",))[0] for p in platforms]
        found = [k for k, group in enumerate(platforms) if "cpu" in (group or ())]
        found = found or [k for k, group in enumerate(platforms) if group is None]
        return self.constants(np.array(found[0] if found else len(names)))

    def cond(self, index, *values, branches, **_) -> list[np.ndarray]:
        which = int(index.ravel()[0])
        if which < 0:
            return self.closed(branches[int(np.clip(self.graph.value(which), 0, len(branches) - 1))], list(values))
        if len(branches) == 2:
            shapes: list[np.ndarray] = []

            def make(branch) -> list[int]:
                shapes[:] = self.closed(branch, list(values))
                return self._flat(shapes)

            truth = self.graph.as_truth(which)
            truth = self.graph.assumed.get(truth, truth)
            if truth < 0:
                return self.closed(branches[int(truth == ONE)], list(values))
            found = self.graph.branch(truth, [lambda b=b: make(b) for b in branches])
            return self._unflat(found, shapes)
        outs = [self.closed(b, list(values)) for b in branches]
        merged = outs[-1]
        for k in range(len(branches) - 2, -1, -1):
            truth = self.graph.compare("le", which, self.graph.constant(k))
            merged = [self.map(lambda x, y, p=truth: self.graph.select(p, x, y), m, o)
                      for m, o in zip(merged, outs[k], strict=True)]  # fmt: skip
        return merged

    # ---- loops -----------------------------------------------------------------------------------------------

    def while_(self, *values, cond_nconsts, body_nconsts, cond_jaxpr, body_jaxpr) -> list[np.ndarray]:
        test_consts, values = list(values[:cond_nconsts]), values[cond_nconsts:]
        body_consts, carry = list(values[:body_nconsts]), list(values[body_nconsts:])

        def make(carried):
            now = self._unflat(carried, carry)
            (test,) = self.closed(cond_jaxpr, [*test_consts, *now])
            following = self.closed(body_jaxpr, [*body_consts, *now])
            if test.ndim:  # a batch: it goes on while one of it does, and the others stay as they are
                following = [
                    self.map(self.graph.select, np.broadcast_to(_leading(test, f.ndim), f.shape), old, f)
                    for f, old in zip(following, now, strict=True)
                ]
            tests = [self.graph.as_truth(x) for x in test.ravel().tolist()]
            return functools.reduce(lambda a, b: self.graph.logic("or", a, b), tests), self._flat(following)

        return self._unflat(self.graph.loop(self._flat(carry), make), carry)

    def scan(self, *values, num_consts, num_carry, jaxpr, length, reverse, **_) -> list[np.ndarray]:
        consts, carry = list(values[:num_consts]), list(values[num_consts : num_consts + num_carry])
        over = values[num_consts + num_carry :]
        if len(jaxpr.out_avals) == num_carry and not over and length > 1:

            def make(carried):
                return None, self._flat(self.closed(jaxpr, [*consts, *self._unflat(carried, carry)]))

            return self._unflat(self.graph.loop(self._flat(carry), make, length), carry)
        if not length:
            return [*carry, *(np.zeros((0, *a.shape), int) for a in jaxpr.out_avals[num_carry:])]
        kept = []
        for k in range(length)[:: -1 if reverse else 1]:
            out = self.closed(jaxpr, [*consts, *carry, *(x[k] for x in over)])
            carry = out[:num_carry]
            kept.append(out[num_carry:])
        stacked = [np.stack(x[:: -1 if reverse else 1]) for x in zip(*kept, strict=True)]
        return [*carry, *stacked]

    @staticmethod
    def _flat(arrays) -> list[int]:
        return [x for a in arrays for x in a.ravel().tolist()]

    @staticmethod
    def _unflat(numbers: list[int], like: list[np.ndarray]) -> list[np.ndarray]:
        ends = np.cumsum([0, *(a.size for a in like)])
        return [np.array(numbers[i:j], int).reshape(a.shape)
                for i, j, a in zip(ends, ends[1:], like, strict=False)]  # fmt: skip

    # ---- numbers of another type -----------------------------------------------------------------------------

    def convert_element_type(self, equation, a):
        new, old = equation.params["new_dtype"], equation.invars[0].aval.dtype
        if np.issubdtype(new, np.bool_):
            return self.map(self.graph.as_truth, a)
        if np.issubdtype(new, np.integer):
            g, limits = self.graph, np.iinfo(new)
            low, high = g.constant(float(limits.min)), g.constant(float(limits.max))

            def whole(x):  # NaN is 0, and what is too large the largest there is, as in JAX
                x = g.select(g.compare("eq", x, x), ZERO, g.unary("trunc", x))
                return g.binary("min", g.binary("max", x, low), high)

            return self.map(whole if np.issubdtype(old, np.floating) else g.as_number, a)
        if new != np.float64:
            raise Unknown(f"numbers of type {new}")
        return self.map(self.graph.as_number, a)

    def reduce_precision(self, a, *, exponent_bits, mantissa_bits):
        if (exponent_bits, mantissa_bits) != (11, 30):
            raise Unknown("the operation 'reduce_precision' but to 30 bits")
        return self.map(lambda x: self.graph.unary("round30", x), a)

    # ---- arithmetic ------------------------------------------------------------------------------------------

    def logic(self, op: str, equation, *values):
        if not np.issubdtype(equation.outvars[0].aval.dtype, np.bool_):
            raise Unknown(f"the operation '{op}' on whole numbers")
        if op == "not":
            return self.map(self.graph.negation, *values)
        return self.map(lambda a, b: self.graph.logic(op, a, b), *values)

    def div(self, equation, a, b):
        out = self.map(self.graph.div, a, b)
        if np.issubdtype(equation.outvars[0].aval.dtype, np.integer):
            return self.map(lambda x: self.graph.unary("trunc", x), out)
        return out

    def select_n(self, which, *cases):
        if len(cases) == 2:
            return self.map(self.graph.select, which, *cases)
        out = cases[-1]
        for k in range(len(cases) - 2, -1, -1):
            at = self.constants(np.full(which.shape, k))
            out = self.map(
                lambda w, n, x, y: self.graph.select(self.graph.compare("le", w, n), x, y), which, at, out, cases[k]
            )
        return out

    def clamp(self, low, x, high):
        return self.map(lambda a, b, c: self.graph.binary("min", self.graph.binary("max", a, b), c), low, x, high)

    def sign(self, a):
        g = self.graph

        def one(x):
            if x < 0:
                return g.constant(float(np.sign(g.value(x))))
            negative = g.select(g.compare("lt", x, ZERO), x, MINUS_ONE)  # of 0 and NaN: itself
            return g.select(g.compare("gt", x, ZERO), negative, ONE)

        return self.map(one, a)

    def round(self, a, *, rounding_method):
        if int(rounding_method) != 1:
            raise Unknown("the operation 'round' of halves away from zero")
        return self.map(lambda x: self.graph.unary("rint", x), a)

    def alone(self, a, *, combine: str):
        """A truth value or number of Equinox that is one for all of a batch."""
        g = self.graph
        parts = a.ravel().tolist()
        join = g.binary if combine == "max" else g.logic
        return np.array(functools.reduce(lambda x, y: join(combine, x, y), parts), int)

    def truths(self, equation, a, *, combine: str):
        if not np.issubdtype(equation.outvars[0].aval.dtype, np.bool_):
            raise Unknown("the bits of whole numbers")
        neutral = 1.0 if combine == "and" else 0.0
        return self.reduce(lambda x, y: self.graph.logic(combine, x, y), neutral, a, **equation.params)

    def is_finite(self, a):
        g = self.graph
        return self.map(lambda x: g.compare("lt", g.unary("abs", x), g.constant(np.inf)), a)

    def nextafter(self, a, b):
        raise Unknown("the operation 'nextafter'")

    def dot_general(self, a, b, *, dimension_numbers, **_):
        (ca, cb), (ba, bb) = dimension_numbers
        fa = [i for i in range(a.ndim) if i not in ca and i not in ba]
        fb = [i for i in range(b.ndim) if i not in cb and i not in bb]
        batch, left, right = ([x.shape[i] for i in axes] for x, axes in ((a, ba), (a, fa), (b, fb)))
        count = int(np.prod([a.shape[i] for i in ca]))
        a = a.transpose([*ba, *fa, *ca]).reshape(int(np.prod(batch)), int(np.prod(left)), count)
        b = b.transpose([*bb, *fb, *cb]).reshape(int(np.prod(batch)), int(np.prod(right)), count)
        out = np.full((a.shape[0], a.shape[1], b.shape[1]), ZERO)
        mul, add = self.graph.mul, self.graph.add
        # dense products are a loop: written out they would be most of the code
        full = min(np.mean(x != ZERO) if x.size else 0.0 for x in (a, b)) > 0.5
        if full and a.shape[1] * count * b.shape[1] > self.dense and count > 1:
            rows, columns = a.shape[1], b.shape[1]
            for n in range(a.shape[0]):
                numbers = [*a[n].ravel().tolist(), *b[n].T.ravel().tolist()]
                found = self.graph.external("product", numbers, rows, columns, count, rows * columns)
                out[n] = np.array(found, int).reshape(rows, columns)
            return out.reshape([*batch, *left, *right])
        for n in range(a.shape[0]):
            by_term = [[(j, x) for j, x in enumerate(column) if x != ZERO] for column in b[n].T.tolist()]
            for i, row in enumerate(a[n].tolist()):
                terms: dict[int, list[int]] = {}
                for x, others in zip(row, by_term, strict=True):
                    if x != ZERO:
                        for j, y in others:
                            terms.setdefault(j, []).append(mul(x, y))
                for j, some in terms.items():
                    out[n, i, j] = _joined(add, some)
        return out.reshape([*batch, *left, *right])

    def reduce(self, combine: Callable[[int, int], int], neutral: float, a, *, axes, **_):
        keep = [i for i in range(a.ndim) if i not in axes]
        shape = [a.shape[i] for i in keep]
        a = a.transpose([*keep, *axes]).reshape(int(np.prod(shape)), int(np.prod([a.shape[i] for i in axes])))
        if not a.shape[1]:
            return np.full(shape, self.graph.constant(neutral))
        return np.array([_joined(combine, row) for row in a.tolist()], int).reshape(shape)

    def best(self, op: str, a, *, axes, index_dtype):
        """The index of the largest ("gt") or smallest ("lt") element, the first one of several."""
        g, (axis,) = self.graph, axes
        rows = np.moveaxis(a, axis, -1)
        out = []
        for row in rows.reshape(-1, rows.shape[-1]).tolist():
            best, index = row[0], ZERO
            for k, x in enumerate(row[1:], 1):
                first_nan = g.logic("and", g.compare("ne", x, x), g.compare("eq", best, best))
                better = g.logic("or", g.compare(op, x, best), first_nan)
                best, index = g.select(better, best, x), g.select(better, index, g.constant(k))
            out.append(index)
        return np.array(out, int).reshape(rows.shape[:-1])

    def running(self, combine: Callable[[int, int], int], a, *, axis, reverse, **_):
        """A sum, product or extreme of all elements up to each."""
        rows = np.moveaxis(a, axis, -1)
        rows = rows[..., ::-1] if reverse else rows
        out = np.array(rows)
        for k in range(1, rows.shape[-1]):
            out[..., k] = self.map(combine, out[..., k - 1], rows[..., k])
        return np.moveaxis(out[..., ::-1] if reverse else out, -1, axis)


def _leading(truth: np.ndarray, rank: int) -> np.ndarray:
    """Truth values of a batch, for arrays of this rank: the batch is in front."""
    return truth.reshape([*truth.shape, *[1] * (rank - truth.ndim)])


def _broadcast(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """NumPy's `broadcast_arrays`, which takes longer than what is done with small arrays."""
    shape = arrays[0].shape
    return arrays if all(a.shape == shape for a in arrays) else np.broadcast_arrays(*arrays)


def _fold_sum(graph: Graph, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b where one of them is 0, and where that is."""
    none = a == ZERO
    return np.where(none, b, a), none | (b == ZERO)


def _fold_difference(graph: Graph, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.array(a), b == ZERO


def _fold_product(graph: Graph, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a b where one of them is 0 or 1, and where that is; 0 times what is not finite is left."""
    none, one = (a == ZERO) | (b == ZERO), a == ONE
    known = none | one | (b == ONE)
    for wild in graph.not_finite:
        known &= (a != wild) & (b != wild)
    return np.where(none, ZERO, np.where(one, b, a)), known


FOLDS = {"add": _fold_sum, "sub": _fold_difference, "mul": _fold_product}


def _elementwise(name: str) -> Callable:
    """An operation of the graph, on each element."""
    if name in FOLDS:
        return lambda walk, a, b, **_: walk.folded(getattr(walk.graph, name), FOLDS[name], a, b)
    return lambda walk, *values, **_: walk.map(getattr(walk.graph, name), *values)


def _by_name(of: str, op: str) -> Callable:
    """An operation that the graph knows by name: "unary", "binary" or "compare"."""
    return lambda walk, *values, **_: walk.map(functools.partial(getattr(walk.graph, of), op), *values)


def _logic(op: str) -> Callable:
    return lambda walk, equation, *values: walk.logic(op, equation, *values)


def _scatter(combine: Callable[[Graph], Callable[[int, int], int]]) -> Callable:
    return lambda walk, *values, **rest: _moving.scatter(walk, combine(walk.graph), *values, **rest)


CHAIN = 4
"""Terms of a sum that are added one after the other. Each waits for the one before, and processors do several additions
at a time: longer sums are two chains or more, joined at their ends."""


def _joined(combine: Callable[[int, int], int], terms: list[int]) -> int:
    if len(terms) <= CHAIN:
        return functools.reduce(combine, terms)
    half = (len(terms) + 1) // 2
    return combine(_joined(combine, terms[:half]), _joined(combine, terms[half:]))


def _reduce(combine: Callable[[Graph], Callable[[int, int], int]], neutral: float) -> Callable:
    return lambda walk, a, **rest: walk.reduce(combine(walk.graph), neutral, a, **rest)


def _running(combine: Callable[[Graph], Callable[[int, int], int]]) -> Callable:
    return lambda walk, a, **rest: walk.running(combine(walk.graph), a, **rest)


def _same(walk: Walk, *values, **_):
    return values[0]


def _larger(g: Graph):
    return lambda a, b: g.binary("max", a, b)


def _smaller(g: Graph):
    return lambda a, b: g.binary("min", a, b)


CALLS = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "remat",
    "remat2",
    "checkpoint",
)
SCATTERS: dict[str, Callable[[Graph], Callable[[int, int], int]]] = {
    "scatter": lambda g: lambda old, new: new,
    "scatter-add": lambda g: g.add,
    "scatter_add": lambda g: g.add,
    "scatter-mul": lambda g: g.mul,
    "scatter_mul": lambda g: g.mul,
    "scatter-max": _larger,
    "scatter-min": _smaller,
}

PASSING = {*CALLS, "while", "cond", "copy", "stop_gradient", "nonbatchable", "select_if_vmap"}
"""Operations that compute nothing: numbers of any type pass."""
MOVING = {"slice", "dynamic_slice", "squeeze", "broadcast_in_dim", "reshape"}
"""So do whole numbers here (KLU's handle, which no rule reads)."""

RULES: dict[str, Callable] = {
    **{name: _elementwise(name) for name in ("add", "sub", "mul", "neg")},
    **{name: _by_name("unary", name) for name in UNARY},
    **{name: _by_name("binary", name) for name in BINARY},
    **{name: _by_name("compare", name) for name in COMPARE},
    **{name: _logic(name) for name in ("and", "or", "not")},
    **{name: _scatter(combine) for name, combine in SCATTERS.items()},
    **dict.fromkeys(CALLS, Walk.call),
    **dict.fromkeys(
        ("stop_gradient", "copy", "copy_p", "device_put", "sharding_constraint", "real", "nonbatchable"), _same
    ),
    "select_if_vmap": lambda walk, _, a, __, **___: a,  # Equinox: a choice only where the test is batched
    "add_any": _elementwise("add"),
    "lt_to": _by_name("compare", "lt"),
    "le_to": _by_name("compare", "le"),
    "div": Walk.div,
    "square": lambda walk, a, **_: walk.map(lambda x: walk.graph.mul(x, x), a),
    "integer_pow": lambda walk, a, *, y, **_: walk.map(lambda x: walk.graph.power(x, y), a),
    "rsqrt": lambda walk, a, **_: walk.map(lambda x: walk.graph.div(ONE, walk.graph.unary("sqrt", x)), a),
    "logistic": lambda walk, a, **_: walk.map(
        lambda x: walk.graph.div(ONE, walk.graph.add(ONE, walk.graph.unary("exp", walk.graph.neg(x)))), a
    ),
    "round": Walk.round,
    "unvmap_any": lambda walk, a, **_: walk.alone(a, combine="or"),
    "unvmap_all": lambda walk, a, **_: walk.alone(a, combine="and"),
    "unvmap_max": lambda walk, a, **_: walk.alone(a, combine="max"),
    "sign": Walk.sign,
    "is_finite": Walk.is_finite,
    "clamp": Walk.clamp,
    "select_n": Walk.select_n,
    "convert_element_type": Walk.convert_element_type,
    "reduce_precision": Walk.reduce_precision,
    "optimization_barrier": lambda walk, *values, **_: list(values),
    "platform_index": Walk.platform_index,
    "cond": Walk.cond,
    "while": Walk.while_,
    "scan": Walk.scan,
    "custom_linear_solve": Walk.custom_linear_solve,
    "dot_general": Walk.dot_general,
    "cholesky": _matrices.cholesky,
    "triangular_solve": _matrices.triangular_solve,
    "svd": _matrices.svd,
    "eigh": _matrices.eigh,
    "lu": _matrices.lu,
    "solve_f64": _matrices.sparse_solve,
    "solve_with_symbol_f64": _matrices.sparse_solve,
    "reduce_sum": _reduce(lambda g: g.add, 0.0),
    "reduce_prod": _reduce(lambda g: g.mul, 1.0),
    "reduce_max": _reduce(_larger, -np.inf),
    "reduce_min": _reduce(_smaller, np.inf),
    "reduce_and": lambda walk, equation, a: walk.truths(equation, a, combine="and"),
    "reduce_or": lambda walk, equation, a: walk.truths(equation, a, combine="or"),
    "argmax": lambda walk, a, **rest: walk.best("gt", a, **rest),
    "argmin": lambda walk, a, **rest: walk.best("lt", a, **rest),
    "cumsum": _running(lambda g: g.add),
    "cumprod": _running(lambda g: g.mul),
    "cummax": _running(_larger),
    "cummin": _running(_smaller),
    "iota": _moving.iota,
    "broadcast_in_dim": _moving.broadcast_in_dim,
    "reshape": lambda walk, a, *_, new_sizes, **__: a.reshape(new_sizes),
    "squeeze": lambda walk, a, *, dimensions: a.squeeze(tuple(dimensions)),
    "expand_dims": lambda walk, a, *, dimensions: np.expand_dims(a, dimensions),
    "transpose": lambda walk, a, *, permutation: a.transpose(permutation),
    "rev": lambda walk, a, *, dimensions: np.flip(a, dimensions),
    "concatenate": lambda walk, *values, dimension: np.concatenate(values, axis=dimension),
    "stack": lambda walk, *values, axis=0, **_: np.stack(values, axis=axis),
    "tile": lambda walk, a, *, reps, **_: np.tile(a, reps),
    "split": _moving.split,
    "unstack": _moving.unstack,
    "slice": lambda walk, a, *, start_indices, limit_indices, strides: a[
        tuple(slice(*x) for x in zip(start_indices, limit_indices, strides or [1] * a.ndim, strict=True))
    ],
    "gather": _moving.gather,
    "dynamic_slice": _moving.dynamic_slice,
    "dynamic_update_slice": _moving.dynamic_update_slice,
    "pad": _moving.pad,
}
"""What is known, by the name of the primitive."""

NEED_TYPES = frozenset({"and", "or", "not", "div", "convert_element_type", "reduce_and", "reduce_or"})
"""Rules that look at the types of what they are given."""
