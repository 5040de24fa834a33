"""0 · kernels: a graph of scalars as a function of JAX over many members at once, each scalar an array of them.

For devices that have no machine code here: XLA compiles it for any of them, and joins the operations that it meets into
few programs; the equations of a machine then run several times as fast as those of small matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dalembert.kernels._graph import BOOLEAN, Branch, Graph, Loop, Region, Unknown
from dalembert.kernels._llvm import Written, kept_nodes

OPERATIONS: dict[str, Callable[..., jax.Array]] = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "neg": lax.neg,
    "lt": lax.lt,
    "le": lax.le,
    "gt": lax.gt,
    "ge": lax.ge,
    "eq": lax.eq,
    "ne": lax.ne,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "not": lax.bitwise_not,
    "select": lambda truth, otherwise, then: lax.select(truth, then, otherwise),
    "sqrt": lax.sqrt,
    "sin": lax.sin,
    "cos": lax.cos,
    "tan": lax.tan,
    "exp": lax.exp,
    "expm1": lax.expm1,
    "log": lax.log,
    "log1p": lax.log1p,
    "tanh": lax.tanh,
    "sinh": lax.sinh,
    "cosh": lax.cosh,
    "asin": lax.asin,
    "acos": lax.acos,
    "atan": lax.atan,
    "asinh": lax.asinh,
    "cbrt": lax.cbrt,
    "floor": lax.floor,
    "ceil": lax.ceil,
    "rint": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "trunc": jnp.trunc,
    "abs": lax.abs,
    "round30": lambda x: lax.reduce_precision(x, 11, 30),
    "max": lax.max,
    "min": lax.min,
    "pow": lax.pow,
    "atan2": lax.atan2,
    "rem": lax.rem,
    "copysign": jnp.copysign,
    "hypot": jnp.hypot,
}
"""What each operation of the graph is in JAX."""


def as_jax(written: Written) -> tuple[Callable, Callable]:
    """The function of JAX that a graph is.

    Returns:
        `setup(parameters)` and `main(kept, inputs)`: sequences of arrays, one for each number, each of the shape of the
        members; `setup` returns what `main` keeps, in the order of the machine code, `main` the outputs.
    """
    function = _Function(written)
    return function.setup, function.main


class _Function:
    def __init__(self, written: Written):
        self.graph: Graph = written.graph
        self.outputs = [self.graph.as_number(a) for a in written.outputs]
        self.live = self.graph.needed(self.outputs)
        self.kept = kept_nodes(self.graph, self.outputs, self.live)

    def setup(self, parameters: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        values = _Values(self.graph, jnp.shape(parameters[0]) if len(parameters) else ())
        self._run(self.graph.setup, self.live, values, parameters)
        return tuple(values.number(a) for a in self.kept)

    def main(self, kept: Sequence[jax.Array], inputs: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        values = _Values(self.graph, jnp.shape(inputs[0]) if len(inputs) else ())
        for k, a in enumerate(self.kept):
            number = jnp.broadcast_to(kept[k], values.shape)
            values.known[a] = number != 0 if self.graph.op[a] in BOOLEAN else number
        self._run(self.graph.main, self.live, values, inputs)
        return tuple(values.number(a) for a in self.outputs)

    def _run(self, region: Region, wanted: set[int], values: _Values, given: Sequence[jax.Array] = ()) -> None:
        """All nodes of a region, in their order."""
        graph, known = self.graph, values.known
        for a in region.nodes:
            if a not in wanted or a in known:
                continue
            op, args = graph.op[a], graph.args[a]
            if op == "input":
                known[a] = given[args[1]]
            elif op == "loop":
                known[a] = self._loop(args[0], values)
            elif op == "branch":
                known[a] = self._branch(args[0], values)
            elif op == "external":
                raise Unknown(f"LAPACK's '{args[0].name}', which is not on this device")
            elif op == "result":
                known[a] = known[args[0]][args[1]]
            elif op in ("and", "or", "not"):
                known[a] = OPERATIONS[op](*map(values.truth, args))
            elif op == "select":
                known[a] = lax.select(values.truth(args[0]), values.number(args[2]), values.number(args[1]))
            else:
                known[a] = OPERATIONS[op](*map(values.number, args))

    def _branch(self, branch: Branch, values: _Values) -> tuple[jax.Array, ...]:
        """Both parts, for all members; each takes its own."""
        found = []
        for region, results in zip(branch.regions, branch.results, strict=True):
            inside = _Values(self.graph, values.shape, dict(values.known))
            self._run(region, self.live, inside)
            found.append([inside.number(a) for a in results])
        truth = values.truth(branch.truth)
        return tuple(lax.select(truth, then, otherwise) for then, otherwise in zip(*found, strict=True))

    def _loop(self, loop: Loop, outside: _Values) -> tuple[jax.Array, ...]:
        """carried ← following, a number of times, or while a test holds, for each member by itself."""

        def inside(carried: tuple) -> _Values:
            values = _Values(self.graph, outside.shape, dict(outside.known))
            values.known |= zip(loop.carried, carried, strict=True)
            return values

        def following(carried: tuple) -> tuple:
            values = inside(carried)
            self._run(loop.body, self.live, values)
            after = tuple(values.number(a) for a in loop.following)
            if loop.test is None:
                return after
            going = values.truth(loop.test)
            return tuple(lax.select(going, new, old) for new, old in zip(after, carried, strict=True))

        def going(carried: tuple) -> jax.Array:
            values = inside(carried)
            assert loop.test is not None
            self._run(loop.body, self.graph.needed([loop.test]) & self.live, values)
            return jnp.any(values.truth(loop.test))

        start = tuple(outside.number(a) for a in loop.start)
        if loop.test is None:
            return lax.fori_loop(0, loop.count, lambda _, carried: following(carried), start)
        return lax.while_loop(going, following, start)


class _Values:
    """What is known of the nodes of a graph: an array for each, of the members."""

    def __init__(self, graph: Graph, shape: tuple[int, ...], known: dict[int, Any] | None = None):
        self.graph, self.shape = graph, shape
        self.known = {} if known is None else known

    def number(self, a: int) -> jax.Array:
        if a < 0:
            return lax.full(self.shape, self.graph.value(a), jnp.float64)
        value = self.known[a]
        return lax.convert_element_type(value, jnp.float64) if self.graph.op[a] in BOOLEAN else value

    def truth(self, a: int) -> jax.Array:
        if a < 0:
            return lax.full(self.shape, self.graph.value(a) != 0, bool)
        value = self.known[a]
        return value if self.graph.op[a] in BOOLEAN else lax.ne(value, lax.full_like(value, 0.0))
