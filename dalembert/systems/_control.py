"""2 · systems: inputs and the controllers that set them, at an instant: functions of (t, q, v), by number, not by name.

An input is a number that elements find among their own (`p`), as value, rate and second rate by time: rows are
differentiated twice. Its source is a function of time, or a controller. States of controllers are first-order: they
stand at the end of q, after the coordinates, with

    ż = f(t, q, v, v̇, z)  (continuous)        z⁺ = f(t, q, v, v̇, z) at the ticks begins + k/rate  (sampled)

followed, for a sampled controller, by its outputs, which it holds from tick to tick. So (t, q, v) still says all, and
whoever saves, restarts, differentiates or linearises a motion finds them in q.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import Array, is_traced
from dalembert.model import Timed, input_function
from dalembert.systems._names import Renaming, with_fields
from dalembert.systems._user import user_mistake

if TYPE_CHECKING:
    from dalembert.systems._measure import Known

NEAR_TICK = 1e-6
"""Share of a period within which a time is a tick: rounding of times, not more."""


class Part(NamedTuple):
    """A function (t, y, z, p) of a controller, the numbers of the channels that y holds, and how many it returns."""

    function: Callable
    reads: tuple[int, ...]
    size: int | None = None  # None: one number


class Source(eqx.Module):
    """An input: a function (t, p) of time, unless a controller sets it."""

    name: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    function: Callable = eqx.field(static=True)
    p: dict[str, Array]
    setter: tuple[int, int] | None = eqx.field(static=True, default=None)  # a controller, and which of its outputs

    def renamed(self, to: Renaming) -> Self:
        return with_fields(self, name=to(self.name), unit="")

    def jet(self, t) -> Float[Array, " 3"]:
        """Its value at t, its rate and its second rate."""
        t = jnp.asarray(t, float)

        def value(t):
            return jnp.reshape(jnp.asarray(self.function(t, self.p), float), ())

        def rate(t):
            return jax.jvp(value, (t,), (jnp.ones_like(t),))

        (now, first), (_, second) = jax.jvp(rate, (t,), (jnp.ones_like(t),))
        return jnp.stack([now, first, second])


def _traced_line(who: str, name: str, times: Any, values: Any) -> tuple[dict[str, Any], Callable]:
    """Numbers and function of data between which an input is linear, where the values are being traced."""
    if is_traced(times):
        raise DalembertError(f"{who}: inside jit, vmap and grad the values of data may change, their times may not.")
    values = jnp.asarray(values, float)
    if values.shape != np.shape(times):
        raise DalembertError(f"{who}: {np.size(times)} times and values of shape {values.shape} do not pair up.")
    numbers, function, _ = input_function(name, (times, np.zeros(values.shape)))
    slopes = jnp.diff(values) / np.diff(np.asarray(times, float))
    return dict(numbers) | {"coefficients": jnp.stack([slopes, values[:-1]])}, function


def refuse_failing(who: str, function: Callable, *arguments: Any, size: int = 1) -> None:
    """Call a user's function once, on the shapes of these arguments only, so that its mistakes are reported with its
    name."""
    shapes = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct(np.shape(x), float), arguments)
    try:
        found = jax.eval_shape(lambda *x: jnp.asarray(function(*x), float), *shapes)
    except Exception as error:  # a user's function may raise anything
        raise DalembertError(f"{who}: its function fails: {user_mistake(error)}") from error
    if found.size != size:
        raise DalembertError(f"{who}: its function fails: it returns {found.size} number(s), not {size}.")


class Controller(eqx.Module):
    """States, what changes them, and what they put out."""

    name: str = eqx.field(static=True)
    states: tuple[str, ...] = eqx.field(static=True)
    changes: tuple[Part, ...] = eqx.field(static=True)
    outputs: tuple[Part, ...] = eqx.field(static=True)
    sets: tuple[int, ...] = eqx.field(static=True)  # inputs
    p: dict[str, Array]
    scales: Float[Array, " states"]
    rate: Array | None = None  # ticks in a second; None: continuous

    def renamed(self, to: Renaming) -> Self:
        return with_fields(self, name=to(self.name), states=("",) * len(self.states))

    @property
    def sampled(self) -> bool:
        return self.rate is not None

    @property
    def size(self) -> int:
        """Numbers that it has at the end of q: states, and outputs that it holds."""
        return len(self.states) + (len(self.sets) if self.sampled else 0)

    def spread(self) -> Float[Array, " size"]:
        """Their typical sizes: that of an output is not known, and it does not err between ticks."""
        return jnp.concatenate([jnp.asarray(self.scales), jnp.ones(self.size - len(self.states))])

    def output(self, known: Known, k: int, z: Array) -> Array:
        """Output k at this instant."""
        return _value(self.outputs[k], known, z, self.p)

    def change(self, known: Known, z: Array) -> Float[Array, " states"]:
        """The rates of its states, or, sampled, their next values."""
        found = [jnp.atleast_1d(_value(part, known, z, self.p)) for part in self.changes]
        return jnp.concatenate(found) if found else jnp.zeros(0)


def _value(part: Part, known: Known, z: Array, p) -> Array:
    y = jnp.stack([known.channel(k) for k in part.reads]) if part.reads else jnp.zeros(0)
    shape = () if part.size is None else (part.size,)
    return jnp.reshape(jnp.asarray(part.function(known.t, y, z, p), float), shape)


class Control(eqx.Module):
    """All inputs of a system and all controllers."""

    sources: tuple[Source, ...] = ()
    controllers: tuple[Controller, ...] = ()
    begins: Array = eqx.field(default_factory=lambda: np.zeros(()))  # when the first ticks are
    added: Float[Array, " inputs"] | None = None  # to the value of each input, whoever sets it

    def renamed(self, to: Renaming) -> Self:
        return with_fields(
            self,
            sources=tuple(x.renamed(to) for x in self.sources),
            controllers=tuple(x.renamed(to) for x in self.controllers),
        )

    def names(self) -> tuple[str, ...]:
        return (*(x.name for x in self.sources), *(x.name for x in self.controllers))

    def with_inputs(self, system: str, values: Mapping[str, Any]) -> Self:
        """A copy whose inputs are given; see `AbstractSystem.with_inputs`."""
        sources, known = list(self.sources), [x.name for x in self.sources]
        for name, value in values.items():
            if name not in known:
                there = f"it has {', '.join(known)}" if known else "it has none"
                raise DalembertError(
                    f"System '{system}' has no input '{name}'; {there}.{did_you_mean(str(name), known)}"
                )
            source = sources[known.index(name)]
            if source.setter is not None:
                by = self.controllers[source.setter[0]].name
                raise DalembertError(f"Input '{name}' of system '{system}' is set by controller '{by}'.")
            if isinstance(value, tuple) and len(value) == 2 and is_traced(*value):
                numbers, function = _traced_line(f"Input '{name}' of system '{system}'", name, *value)
            elif is_traced(value):
                if np.ndim(value):
                    raise DalembertError(f"Input '{name}' of system '{system}' is one number, not {np.shape(value)}.")
                numbers, function, _ = input_function(name, 0.0)
                numbers: dict[str, Any] = dict(numbers) | {"value": value}
            else:
                numbers, function, _ = input_function(name, value)
                refuse_failing(f"Input '{name}'", function, 0.0, numbers)
            sources[known.index(name)] = dataclasses.replace(source, function=function, p=numbers)
        return dataclasses.replace(self, sources=tuple(sources))

    def not_covered(self, t0: float, t_end: float) -> list[str]:
        """A sentence for each input whose data do not reach from t0 to t_end."""
        found = []
        for x in self.sources:
            span = x.function.data_span(x.p) if isinstance(x.function, Timed) else None
            if span is None or x.setter is not None or is_traced(span):
                continue
            first, last, slack = float(span[0]), float(span[1]), 1e-6 * (t_end - t0)
            if t0 < first - slack or t_end > last + slack:
                found.append(
                    f"Input '{x.name}': its data are from {first:g} to {last:g} s, the run from {t0:g} to {t_end:g} s; "
                    "beyond their ends they go on in a straight line."
                )
        return found

    def opened(self, which: Collection[int], values: Any) -> Self:
        """A copy in which the inputs that these controllers set have given values (one for each input) instead; the
        controllers stay, with their numbers at the end of q."""
        sources = list(self.sources)
        for k, source in enumerate(sources):
            if source.setter is not None and source.setter[0] in which:
                numbers, function, _ = input_function(source.name, 0.0)
                p: dict[str, Any] = dict(numbers) | {"value": values[k]}
                sources[k] = dataclasses.replace(source, function=function, p=p, setter=None)
        return dataclasses.replace(self, sources=tuple(sources))

    @property
    def size(self) -> int:
        """Numbers at the end of q."""
        return sum(c.size for c in self.controllers)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states, in the order of q; held outputs are called by their inputs."""
        out = []
        for c in self.controllers:
            out += [f"{c.name}.{state}" for state in c.states]
            out += [f"{c.name}.{self.sources[k].name}" for k in c.sets] if c.sampled else []
        return tuple(out)

    def spread(self) -> Float[Array, " size"]:
        """Typical sizes of the numbers at the end of q."""
        return jnp.concatenate([jnp.zeros(0), *(c.spread() for c in self.controllers)])

    def place_of(self, controller: int) -> int:
        """Where the numbers of a controller begin at the end of q."""
        return sum(c.size for c in self.controllers[:controller])

    def timed(self, t) -> Float[Array, "inputs 3"]:
        """The inputs by functions of time; zero where a controller sets them."""
        found = [jnp.zeros(3) if x.setter is not None else x.jet(t) for x in self.sources]
        return self._with_added(jnp.stack(found)) if found else jnp.zeros((0, 3))

    def _with_added(self, jets: Float[Array, "inputs 3"]) -> Float[Array, "inputs 3"]:
        return jets if self.added is None else jnp.asarray(jets).at[:, 0].add(self.added)

    def jets(self, known: Known) -> Float[Array, "inputs 3"]:
        """All inputs. The rates of those that a controller sets count as zero: only rows need them, and have none."""
        found = [known.input(k) for k in range(len(self.sources))]
        return jnp.stack(found) if found else jnp.zeros((0, 3))

    def jet(self, known: Known, k: int) -> Float[Array, " 3"]:
        """One input."""
        jet = self._jet(known, k)
        return jet if self.added is None else jnp.asarray(jet).at[0].add(self.added[k])

    def _jet(self, known: Known, k: int) -> Float[Array, " 3"]:
        source = self.sources[k]
        if source.setter is None:
            return source.jet(known.t)
        number, output = source.setter
        c, at = self.controllers[number], self.place_of(number)
        if c.sampled:
            value = known.z[at + len(c.states) + output]
        else:
            value = c.output(known, output, known.z[at : at + len(c.states)])
        return jnp.zeros(3).at[0].set(value)

    def rates(self, known: Known) -> Float[Array, " size"]:
        """ż at the end of q: nothing of a sampled controller moves between ticks."""
        out: list[Array] = [jnp.zeros(0)]
        at = 0
        for c in self.controllers:
            z = known.z[at : at + len(c.states)]
            out.append(jnp.zeros(c.size) if c.sampled else c.change(known, z))
            at += c.size
        return jnp.concatenate(out)

    # ---- ticks -------------------------------------------------------------------------------------------

    @property
    def sampled(self) -> bool:
        """Whether there are ticks."""
        return any(c.sampled for c in self.controllers)

    def next_tick(self, t) -> Array:
        """The first tick after t."""
        rates: list[Any] = [c.rate for c in self.controllers if c.rate is not None]
        after = [self.begins + (jnp.floor((t - self.begins) * r + NEAR_TICK) + 1) / r for r in rates]
        return jnp.min(jnp.stack(after))

    def at_ticks(self, times: Any, xp: Any = np) -> Any:
        """Times, with those that are ticks but for rounding made exactly so."""
        for c in self.controllers:
            if c.rate is not None:
                count = xp.round((times - self.begins) * c.rate)
                tick = self.begins + count / c.rate
                times = xp.where(xp.abs(times - tick) * c.rate < NEAR_TICK, tick, times)
        return times

    def is_tick(self, c: Controller, t) -> Array:
        """Whether t is a tick of a controller, but not the first: that is at the start of a run."""
        count = (t - self.begins) * c.rate  # pyright: ignore[reportOperatorIssue]
        return (jnp.abs(count - jnp.round(count)) < NEAR_TICK) & (jnp.round(count) >= 1)

    def ticked(self, look: Callable[[Array], Known], z: Float[Array, " size"], t, first: bool) -> Float[Array, " size"]:
        """The end of q after those controllers have acted whose tick is at t, one after the other in the order in which
        they are stated; `look` gives what is known with given states."""
        z = jnp.asarray(z)
        for number, c in enumerate(self.controllers):
            if not c.sampled:
                continue
            at, known = self.place_of(number), look(z)
            states = z[at : at + len(c.states)]
            held = [jnp.atleast_1d(c.output(known, k, states)) for k in range(len(c.sets))]
            new = z.at[at : at + c.size].set(jnp.concatenate([c.change(known, states), *held]))
            z = new if first else jnp.where(self.is_tick(c, t), new, z)
        return z


NO_CONTROL = Control()
