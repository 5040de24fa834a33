"""2 · systems: `compiled`, the entry to every compiled program; names stay outside, so that no name causes compilation.

Names of a machine, its bodies and its joints are static data of a system, and JAX recompiles for static data that it
has not seen. So every function that the package compiles is called through `compiled`: it replaces the names in its
arguments by numbers, in the order in which the system lists them. Machines of the same structure then
share their programs whatever their names are. Programs return arrays; what has names, such as a system, may not be
returned.

A user's own `jax.jit` still sees names: a function that calls `system.replace({"crank.mass": …})` depends on them.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import get_opaque_trace_state

from dalembert._runtime import compile_stopwatch
from dalembert._typing import is_traced
from dalembert.kernels import Program
from dalembert.systems._precision import require_float64

P = ParamSpec("P")
R = TypeVar("R")

ANONYMOUS = "\0"
"""The name of every system inside a compiled program; a body's or joint's is this and a number."""
OURS = frozenset({"dalembert", "diffrax", "equinox", "lineax", "optimistix", "jax", "jaxlib"})
"""Packages whose classes use only the names that `renamed` gave them; a user's own class may use others."""


class Renaming:
    """Names → numbers, or back; results are kept, because a large machine has thousands of names."""

    def __init__(self, table: dict[str, str]):
        self.table = table
        self._kept: dict[Any, Any] = {}

    def __call__(self, name: str) -> str:
        return self.table.get(name, name)

    def all(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.table.get(n, n) for n in names)

    def once(self, key: Any, change: Callable[[Any], R]) -> R:
        """`change(key)`, computed once for equal keys."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = change(key)
        return found


class Named(eqx.Module):
    """An object with names in static fields that may be an argument of a compiled function."""

    constant: ClassVar[bool] = False
    """Whether its numbers are mostly the same from call to call, as those of a system are."""

    def names(self) -> tuple[str, ...]:
        """All names but that of a system itself, in an order that depends on the structure alone."""
        return ()

    def renamed(self, to: Renaming) -> Self | None:
        """A copy under other names; None if it is not known which names it uses (a user's own class): then it, and
        all other arguments of the call, keep their names and are compiled for them."""
        return None


def with_fields(module, **fields):
    """A copy of a module with some fields changed, static ones too; not through __init__, which may be a user's own."""
    copy = object.__new__(type(module))
    for key, value in vars(module).items():
        object.__setattr__(copy, key, fields.get(key, value))
    return copy


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function, compiled once for each structure of its arguments (`equinox.filter_jit`), whatever their names."""
    program: Callable[..., R] = eqx.filter_jit(function)
    return _without_their_names(function, lambda arguments: program)


def compiled_quickly(function: Callable[P, R]) -> Callable[P, R]:
    """`compiled`, for what runs a few times for each machine (a start, a check), on one state.

    Small programs are written out as machine code (`kernels`), in a tenth of the time that XLA takes, and return NumPy
    arrays: a run without any program of XLA need not wait until XLA has started. What is refused there XLA compiles
    with its lowest effort.
    """
    program = eqx.filter_jit(function)
    return _quickly(function, function, program, Program(function, _is_constant, jitted=program))


def compiled_for_each(function: Callable[..., R], mapped: int) -> Callable[..., R]:
    """The function at many instants, compiled quickly: its last `mapped` arguments have a row for each, as its results.

    One instant after the other: XLA's batched LAPACK kernels share its threads and have been seen to deadlock on a
    machine with two cores.
    """

    @functools.wraps(function)
    def each(*args):
        common, rows = args[:-mapped], args[-mapped:]
        return jax.lax.map(lambda row: function(*common, *row), rows)

    return _quickly(function, each, eqx.filter_jit(each), Program(function, _is_constant, mapped), mapped)


def compiled_alone(function: Callable[P, R], static: Sequence[int] = ()) -> Callable[P, R]:
    """A function of plain numbers that holds its machine itself, compiled with XLA's lowest effort and kept as long as
    the function: for a study of one machine, which calls it many times. `static`: arguments that are no arrays."""
    require_float64()
    return jax.jit(function, static_argnums=tuple(static), compiler_options=quick_options())


def _quickly(function, whole, program, native: Program, mapped: int = 0) -> Callable:
    """`native`, or where that refuses `whole` by XLA; `program` as a part of other programs, and for many numbers."""

    @functools.cache
    def quick() -> Callable:  # queries XLA, so not while modules are imported
        options: Any = {"compiler_options": quick_options()}
        return eqx.filter_jit(whole, **options)

    def small(*args, **kwargs) -> Any:
        found = native(*args, **kwargs)
        if found is not None:
            return found
        by_xla = quick() if not mapped or len(args[-1]) <= INSTANTS else program
        _keep(by_xla)
        return by_xla(*args, **kwargs)

    return _without_their_names(function, lambda arguments: small if _is_small(arguments, mapped) else program)


def _is_constant(x) -> bool:
    """Whether most numbers of an argument are the same from call to call."""
    return isinstance(x, Named) and x.constant


def _without_their_names(function: Callable[P, R], program_for) -> Callable[P, R]:
    """`function` by the program for its arguments, which sees numbers instead of names."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        require_float64()
        program = program_for((args, kwargs))
        _keep(program)
        plain, back = _without_names((args, kwargs))
        if back is None:
            return program(*args, **kwargs)
        try:
            out = program(*plain[0], **plain[1])
        except jax.errors.JaxRuntimeError:
            raise  # of the running program: out of memory and the like
        except Exception:
            out = back = None
        if back is None:  # a mistake found while tracing: once more under the real names, so that its message has them
            return program(*args, **kwargs)
        return _nameless(out)

    return call


KEPT = 150
"""Compiled programs that stay in memory, some 10 MB each and 6 for a machine. JAX would keep them for ever; a process
that needs more clears them, and reads those it needs again from the cache on disk."""
_PROGRAMS: dict[int, Any] = {}
_counted = [0]


def _keep(program) -> None:
    """Remember that this function has programs; where all functions together have more than `KEPT`, clear them."""
    cache = getattr(program, "_cached", None)  # JAX's own function inside Equinox's
    if not hasattr(cache, "_cache_size") or not hasattr(cache, "clear_cache"):
        return  # another version: keep all
    _PROGRAMS[id(cache)] = cache
    if compile_stopwatch.programs == _counted[0]:
        return
    _counted[0] = compile_stopwatch.programs
    if sum(c._cache_size() for c in _PROGRAMS.values()) > KEPT:
        for c in _PROGRAMS.values():
            c.clear_cache()


SMALL = 30_000
"""Numbers in the arguments of a program, at one instant, up to which it runs faster than it is compiled."""
INSTANTS = 10_000
"""Instants up to which XLA is to compile quickly: what `results` observes of a Stewart platform it then compiles in 5 s
instead of 12 s, and computes in 0.8 ms an instant instead of 0.4 ms."""


_ONE = np.ones(())
with jax.ensure_compile_time_eval():  # this file may be imported while something is traced
    _UNTRACED = get_opaque_trace_state()


def _is_small(arguments, mapped: int) -> bool:
    """Whether a program runs by itself, not as a part of another one, and on few numbers at one instant."""
    (args, kwargs), end = arguments, len(arguments[0]) - mapped
    leaves = [x for x in jax.tree_util.tree_leaves((args[:end], kwargs)) if eqx.is_array_like(x)]
    if is_traced(leaves, args[end:]) or _inside_a_jit():
        return False
    return sum(map(np.size, leaves)) + sum(np.size(x) // max(len(x), 1) for x in args[end:]) <= SMALL


def _inside_a_jit() -> bool:
    """Whether even a number is traced here; without any program of XLA where nothing is traced at all."""
    return get_opaque_trace_state() != _UNTRACED and is_traced(jax.lax.neg(_ONE))


@functools.cache
def quick_options() -> dict[str, Any]:
    """Options of XLA to compile in a third of the time: those that it supports (JAX 0.11 knows the first one only)."""
    if jax.default_backend() != "cpu":
        return {}
    first: dict[str, Any] = {"xla_backend_optimization_level": 0}
    for options in (first | {"xla_cpu_use_fusion_emitters": False}, first):
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            jax.jit(lambda x: x + 1.0, compiler_options=options)(0.0)
            return options
    return {}


def without_names(arguments: R) -> R:
    """The arguments under numbers, as compiled programs see them."""
    return _without_names(arguments)[0]


def _without_names(arguments) -> tuple[Any, Renaming | None]:
    """The arguments under numbers, and the inverse map; (arguments, None) if nothing is renamed."""
    foreign = False

    def is_named(x) -> bool:
        nonlocal foreign
        foreign = foreign or _is_foreign(type(x))
        return isinstance(x, Named)

    leaves, structure = jax.tree_util.tree_flatten(arguments, is_leaf=is_named)
    named = [x for x in leaves if isinstance(x, Named)]
    if foreign or not named:
        return arguments, None
    plain, back = _plain(named)
    if back is None:
        return arguments, None
    others = iter(plain)
    return jax.tree_util.tree_unflatten(structure, [next(others) if isinstance(x, Named) else x for x in leaves]), back


_PLAIN: dict[tuple[int, ...], tuple[list[weakref.ref], list, Renaming | None]] = {}


def _plain(named: list[Named]) -> tuple[list, Renaming | None]:
    """The same under numbers, and the inverse map; cached while they live: most calls are for the same machine."""
    key = tuple(map(id, named))
    if key in _PLAIN:
        return _PLAIN[key][1:]
    names = tuple(n for x in named for n in x.names())
    plain, back = [], None
    if not (names and names[0].startswith(ANONYMOUS)):
        to, back = _numbered(names)
        plain = [x.renamed(to) for x in named]
        back = None if any(x is None for x in plain) else back
    # an id is reused only after its owner is deleted, and its entry with it
    _PLAIN[key] = [weakref.ref(x, lambda _: _PLAIN.pop(key, None)) for x in named], plain, back
    return plain, back


@functools.lru_cache(maxsize=64)
def _numbered(names: tuple[str, ...]) -> tuple[Renaming, Renaming]:
    table = {name: f"{ANONYMOUS}{k}" for k, name in enumerate(dict.fromkeys(names))}
    return Renaming(table), Renaming({number: name for name, number in table.items()})


@functools.cache
def _is_foreign(kind: type) -> bool:
    return issubclass(kind, eqx.Module) and kind.__module__.partition(".")[0] not in OURS


def _nameless(out: R) -> R:
    """What a compiled function returned, unless there are names in it, which stayed outside."""
    for x in jax.tree_util.tree_leaves(out, is_leaf=lambda x: isinstance(x, Named)):
        if isinstance(x, Named):
            raise TypeError(f"A compiled function returned a {type(x).__name__}, whose names stayed outside.")
    return out
