"""0 · kernels: a function of JAX → a graph of scalars → machine code.

Numbers of `parameters` are arguments of the machine code, but those that are 0, 1 or −1 are built in (most of a
machine's geometry is), so machines that differ in other numbers share their code.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dalembert.kernels._graph import Graph, Unknown
from dalembert.kernels._llvm import LONG_PIECE, PIECE, THOROUGH_UP_TO, Written, code
from dalembert.kernels._module import Module, compile_text, fused, object_code
from dalembert.kernels._native import Function, Numbers, Whole, at, translate
from dalembert.kernels._scalarise import DENSE, MOST, write_out


class Kernel:
    """A function written out as scalars: `size` numbers in, `outputs` out."""

    def __init__(self, written: Written, size: int, structure: Any, like: list[Any]):
        self.written, self.size, self.structure = written, size, structure
        self.like = [(tuple(x.shape), x.dtype) for x in like]
        self.ends = np.cumsum([0, *(int(np.prod(shape)) for shape, _ in self.like)]).tolist()
        self.name, self.outputs = written.name, len(written.outputs)

    @classmethod
    def of(
        cls,
        name: str,
        function: Callable,
        parameters: Any,
        inputs: Any,
        *,
        built_in: np.ndarray | None = None,
        most: int = MOST,
        dense: int = DENSE,
    ) -> Kernel:
        """`function(parameters, inputs)`, all pytrees; raises `Unknown` if it cannot be written out.

        `built_in` says which numbers of the parameters are constants; by default zeros and ones are (`fixed`).
        """
        traced, static = eqx.partition(parameters, eqx.is_array)
        leaves, tree = jax.tree_util.tree_flatten(traced)
        numbers = [np.asarray(x) for x in leaves]

        def inner(leaves, inputs):
            return function(eqx.combine(jax.tree_util.tree_unflatten(tree, leaves), static), inputs)

        closed, shape = jax.make_jaxpr(inner, return_shape=True)(numbers, inputs)
        graph = Graph()
        arguments, offset = [], 0
        for x in numbers:
            own = fixed(x) if built_in is None else built_in[offset : offset + x.size]
            arguments.append(_parameters(graph, x, own, offset))
            offset += x.size
        offset = 0
        for x in jax.tree_util.tree_leaves(inputs):
            arguments.append(_inputs(graph, np.shape(x), offset))
            offset += np.size(x)
        try:
            results = write_out(graph, closed, arguments, most, dense)
        except Unknown:
            raise
        except Exception as error:  # a rule that does not fit: JAX does it
            raise Unknown(f"something that its rules do not fit ({type(error).__name__}: {error})") from error
        outputs = [graph.as_number(a) for r in results for a in r.ravel().tolist()]
        like, structure = jax.tree_util.tree_flatten(shape)
        return cls(Written(name, graph, outputs), offset, structure, like)

    def __getstate__(self) -> dict[str, Any]:
        """Without its graph, to be written: the structure of its outputs is that of a tree of numbers."""
        numbers = list(range(len(self.like)))
        shown = jax.tree_util.tree_unflatten(self.structure, numbers)
        return vars(self) | {"structure": shown, "written": Written(self.name, Graph(), [])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.structure = jax.tree_util.tree_structure(self.structure)

    @property
    def nodes(self) -> int:
        """How large it is."""
        return len(self.written.graph.op)

    def drop_graph(self) -> None:
        """Forget the graph once it is compiled: it takes hundreds of times the memory of the code."""
        self.written = Written(self.name, Graph(), [])

    def unflatten(self, numbers: np.ndarray) -> Any:
        """The outputs as the function returns them, from rows of numbers."""
        before = numbers.shape[:-1]
        parts = [
            numbers[..., i:j].reshape([*before, *shape]).astype(kind, copy=False)
            for i, j, (shape, kind) in zip(self.ends, self.ends[1:], self.like, strict=False)
        ]
        return jax.tree_util.tree_unflatten(self.structure, parts)


def fixed(x: np.ndarray) -> np.ndarray:
    """Which numbers of a parameter are built in: all that count or choose, and zeros and ones.

    Not handles, which mean nothing in another process: machine code is kept for that too.
    """
    if x.dtype == np.uint64:
        return np.zeros(x.shape, bool)
    if not np.issubdtype(x.dtype, np.floating):
        return np.ones(x.shape, bool)
    return (x == 0) | (np.abs(x) == 1)


def flat(tree: Any) -> np.ndarray:
    """All numbers of a pytree in one row."""
    leaves = [np.asarray(x, float).ravel() for x in jax.tree_util.tree_leaves(tree) if eqx.is_array_like(x)]
    return np.concatenate([np.zeros(0), *leaves])


def _parameters(graph: Graph, x: np.ndarray, built_in: np.ndarray, offset: int) -> np.ndarray:
    values = zip(x.ravel().tolist(), built_in.ravel().tolist(), strict=True)
    out = [
        graph.constant(value) if constant else graph.input("parameter", offset + k, graph.setup)
        for k, (value, constant) in enumerate(values)
    ]
    return np.array(out, int).reshape(x.shape)


def _inputs(graph: Graph, shape: tuple[int, ...], offset: int) -> np.ndarray:
    size = int(np.prod(shape))
    return np.array([graph.input("input", offset + k, graph.main) for k in range(size)], int).reshape(shape)


def each(
    members: Whole,
    every: Whole,
    np_: Whole,
    ni: Whole,
    no: Whole,
    setup: Function,
    kernel: Function,
    parameters: Numbers,
    inputs: Numbers,
    outputs: Numbers,
    kept: Numbers,
):
    """A kernel for each row of its inputs; `every` rows in turn have the same parameters."""
    row = 0
    left = 0
    for member in range(members):
        if left == 0:
            setup(at(parameters, row * np_), kept)
            row = row + 1
            left = every
        left = left - 1
        kernel(kept, at(inputs, member * ni), at(outputs, member * no))


@functools.cache
def _each():
    module = compile_text([translate(each)], 1, 2, passes=True)
    return module.function("each", *[ctypes.c_int64] * 5, *[ctypes.c_void_p] * 6)


class Compiled:
    """Kernels as machine code, of one number or of `lanes` numbers at a time.

    `effort` of LLVM (0 to 3) and nodes of a `piece`: without them by the size of the kernels.
    """

    def __init__(self, kernels: list[Kernel], lanes: int = 1, effort: int | None = None, piece: int | None = None):
        small = sum(k.nodes for k in kernels) <= THOROUGH_UP_TO
        effort = int(small) if effort is None else effort
        piece = piece or (LONG_PIECE if effort else PIECE)
        codes = [code(k.written, lanes, piece, fused=fused()) for k in kernels]
        self.lanes, self.kernels = lanes, {k.name: k for k in kernels}
        self.kept = {c.name: c.kept for c in codes}
        self.lasting = {c.name: c.lasting for c in codes}  # of those, what does not change from call to call
        self._load(*object_code([c.text for c in codes], lanes, effort))

    def _load(self, code: bytes, lapack: bool) -> None:
        self.object_code: tuple[bytes, bool] = code, lapack
        self.module = Module(code, lapack)
        pointer = ctypes.c_void_p
        self._setups = {n: self.module.function(f"{n}.setup", pointer, pointer) for n in self.kept}
        self._calls = {n: self.module.function(n, pointer, pointer, pointer) for n in self.kept}
        self._addresses = {n: (self.module.address(f"{n}.setup"), self.module.address(n)) for n in self.kept}

    def __getstate__(self) -> dict[str, Any]:
        written = ("lanes", "kernels", "kept", "lasting", "object_code")
        return {k: getattr(self, k) for k in written}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._load(*state["object_code"])

    def setup(self, name: str, parameters: np.ndarray) -> np.ndarray:
        """What the function keeps for these parameters: a row of numbers for each row of them."""
        rows = np.atleast_2d(parameters)
        kept = np.zeros((len(rows), self.kept[name]))
        for first in range(0, len(rows), self.lanes):
            some = rows[first : first + self.lanes]
            given = np.ascontiguousarray(np.resize(some, (self.lanes, rows.shape[1])).T)
            found = np.zeros((max(self.kept[name], 1), self.lanes))
            self._setups[name](given.ctypes.data, found.ctypes.data)
            kept[first : first + self.lanes] = found.T[: len(some), : self.kept[name]]
        return kept

    def call(self, name: str, parameters: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """The outputs for one row of parameters and one of inputs."""
        kept = self._lanes(self.setup(name, parameters)[0])
        out = np.zeros((max(self.kernels[name].outputs, 1), self.lanes))
        given = self._lanes(inputs)
        self._calls[name](kept.ctypes.data, given.ctypes.data, out.ctypes.data)
        return out[: self.kernels[name].outputs, 0]

    def rows(self, name: str, parameters: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """The outputs for many rows of inputs; as many of them in turn as there are for each row of parameters have the
        same parameters."""
        parameters, inputs = (np.ascontiguousarray(np.atleast_2d(x), float) for x in (parameters, inputs))
        out = np.zeros((len(inputs), self.kernels[name].outputs))
        kept = np.zeros(self.kept[name] + 1)
        every = max(len(inputs) // len(parameters), 1)
        counts = (len(inputs), every, parameters.shape[1], inputs.shape[1], out.shape[1])
        arrays = (x.ctypes.data for x in (parameters, inputs, out, kept))
        _each()(*counts, *self._addresses[name], *arrays)
        return out

    def _lanes(self, row: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.broadcast_to(np.append(row, 0.0)[:, None], (len(row) + 1, self.lanes)))
