"""0 · kernels: a whole function as machine code, called like the function itself.

    program = Program(function, is_parameter)
    program(*args, **kwargs)          # NumPy arrays; None if it cannot be written out, then JAX must do it

Arguments for which `is_parameter` holds (a system) have numbers that rarely change: zeros and ones among them are
built in. All other arrays are inputs. Compiled with the least effort: these programs run a few times for each machine.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from dalembert.kernels._graph import Unknown
from dalembert.kernels._kernel import Compiled, Kernel, fixed
from dalembert.kernels._remember import remembered

QUICK, QUICK_FOR_EACH = 100_000, 300_000
"""Operations up to which a program that runs a few times is made here (half a second of work for LLVM), and one for
many instants. What `results` observes of a Stewart platform has 287,000: that takes as long to make as XLA needs for it
with its lowest effort, then runs ten times as fast, and the next process need not trace it."""

LOOPED = 300
"""Products of numbers above which a product of matrices is a loop here."""

_NUMBERED: dict[Hashable, int] = {}
_DESCRIBED: dict[int, tuple[weakref.ref, Description]] = {}


class Description(NamedTuple):
    """What machine code is made for (`number`: the same for all that can share it), and the numbers it is given."""

    number: int | None  # None: something in it has no hash
    numbers: np.ndarray


def describe(tree: Any) -> Description:
    """A pytree as the code that it needs, and its numbers."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    key: list[Any] = [structure]
    numbers = [np.zeros(0)]
    for x in leaves:
        if not eqx.is_array(x):
            key.append(x)
            continue
        x = np.asarray(x)
        built_in = fixed(x)
        key.append((x.shape, x.dtype.str, built_in.tobytes(), x[built_in].tobytes()))
        numbers.append(x.astype(float).ravel())
    try:
        number = _NUMBERED.setdefault(tuple(key), len(_NUMBERED))
    except TypeError:
        number = None
    return Description(number, np.concatenate(numbers))


def described(module: eqx.Module) -> Description:
    """`describe`, kept as long as the module lives: most calls are for the same machine."""
    found = _DESCRIBED.get(id(module))
    if found is None:
        number = id(module)
        # an id is given again only after its owner is deleted, and its entry with it
        reference = weakref.ref(module, lambda _: _DESCRIBED.pop(number, None))
        found = _DESCRIBED[number] = (reference, describe(module))
    return found[1]


class Program:
    """A function as machine code for each structure of its arguments."""

    def __init__(
        self,
        function: Callable,
        is_parameter: Callable[[Any], bool],
        mapped: int = 0,
        jitted: Callable | None = None,
    ):
        """`jitted`: the function as it is called inside others, so that it is traced once for them and for this."""
        self.function, self.is_parameter, self.mapped = function, is_parameter, mapped
        self._jitted = jitted or function
        self._made: dict[Hashable, _Made | None] = {}

    def __call__(self, *args, **kwargs) -> Any:
        rows = None
        if self.mapped:  # the last arguments have a row for each call
            common, each = args[: -self.mapped], args[-self.mapped :]
            if any(not eqx.is_array(x) for x in each):
                return None
            rows = [np.asarray(x) for x in each]
            args = (*common, *(x[0] if len(x) else np.zeros(x.shape[1:]) for x in rows))
        leaves, structure = jax.tree_util.tree_flatten((args, kwargs), is_leaf=self.is_parameter)
        parameters = [x for x in leaves if self.is_parameter(x)]
        descriptions = [described(x) for x in parameters]
        key: list[Any] = [structure, *(d.number for d in descriptions)]
        inputs = []
        for x in leaves:
            if eqx.is_array(x):
                x = np.asarray(x)
                inputs.append(x)
                key.append((x.shape, x.dtype.str))
            elif not self.is_parameter(x):
                key.append(x)
        try:
            known = tuple(key) in self._made
        except TypeError:
            return None
        if any(d.number is None for d in descriptions):
            return None
        if not known:
            self._made[tuple(key)] = self._make(leaves, structure, parameters, inputs)
        made = self._made[tuple(key)]
        if made is None:
            return None
        numbers = np.concatenate([np.zeros(0), *(d.numbers for d in descriptions)])
        return made(numbers, inputs) if rows is None else made.each(numbers, inputs[: -self.mapped], rows)

    def _make(self, leaves, structure, parameters, inputs) -> _Made | None:
        is_parameter, most = self.is_parameter, QUICK_FOR_EACH if self.mapped else QUICK

        def function(parameters, inputs):
            own, given = iter(parameters), iter(inputs)
            filled = [next(own) if is_parameter(x) else next(given) if eqx.is_array(x) else x for x in leaves]
            args, kwargs = jax.tree_util.tree_unflatten(structure, filled)
            return self._jitted(*args, **kwargs)

        def make() -> _Made | None:
            try:
                return _Made(Kernel.of("program", function, parameters, inputs, most=most, dense=LOOPED))
            except Unknown:
                return None  # remembered as well: to find out takes seconds for a large machine

        others = [x for x in leaves if not (is_parameter(x) or eqx.is_array(x))]
        shape = jax.tree_util.tree_unflatten(structure, [None if is_parameter(x) else 0 for x in leaves])
        try:
            return remembered(self.function, (parameters, others), (shape, inputs), make)
        except TypeError:  # a result that is no array
            return None


class _Made:
    """The machine code of a program."""

    def __init__(self, kernel: Kernel):
        self.kernel, self.code = kernel, Compiled([kernel], effort=0)
        kernel.drop_graph()

    def __call__(self, parameters: np.ndarray, inputs: list[np.ndarray]) -> Any:
        given = np.concatenate([np.zeros(0), *(x.astype(float).ravel() for x in inputs)])
        return self.kernel.unflatten(self.code.call("program", parameters, given))

    def each(self, parameters: np.ndarray, inputs: list[np.ndarray], rows: list[np.ndarray]) -> Any:
        """The outputs for each row, stacked."""
        count = len(rows[0])
        common = np.concatenate([np.zeros(0), *(x.astype(float).ravel() for x in inputs)])
        parts = [np.broadcast_to(common, (count, len(common))), *(x.astype(float).reshape(count, -1) for x in rows)]
        return self.kernel.unflatten(self.code.rows("program", parameters, np.concatenate(parts, axis=1)))
