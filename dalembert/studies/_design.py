"""8 · studies: `Design`: which numbers of a machine vary, by name and component, as one vector.

A variable is a named parameter of the system ("crank.mass"), a component of one ("B.point_j.x", "link.inertia.xx"), the
place of a body's centre of mass ("crank.centre.x": how far it is from where the model has it, along the body's axes;
all that is fixed in the body stays where it is), or, with `through`, any name that a function turns into parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import Array
from dalembert.model import Model
from dalembert.systems import AbstractSystem

AXES = "xyz"
SHIFTED = ("point_i", "point_j")
"""Numbers of an element that are points of a body, seen from its centre of mass."""


class Entry(NamedTuple):
    """Where a variable stands: a parameter and the entry of its array."""

    parameter: str
    index: tuple[int, ...] = ()


def component_names(shape: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
    """The words of the components of a parameter, and their indices; a tensor by its upper half."""
    if not shape:
        return [("", ())]
    if len(shape) == 1 and shape[0] <= 3:
        return [(AXES[k], (k,)) for k in range(shape[0])]
    if shape == (3, 3):
        return [(AXES[i] + AXES[j], (i, j)) for i in range(3) for j in range(i, 3)]
    return [("[" + ",".join(map(str, index)) + "]", index) for index in np.ndindex(*shape)]


def names_of(given: Any, example: str) -> list[str]:
    """The names of a table of what varies; anything else is refused."""
    if not isinstance(given, Mapping) or not all(isinstance(n, str) for n in given):
        raise DalembertError(f"vary: name what varies and how, {example}; got {given!r}.")
    return list(given)


class Design:
    """The variables of a study: their names, where they stand, and what they make of a system.

    **Arguments**: `model`, a model or its system; `names` of variables (vectors are spread over their components);
    `through`, a function of the variables' values by name that returns parameters by name (with `jax.numpy`): the names
    are then free.
    """

    def __init__(
        self,
        system: AbstractSystem,
        names: Sequence[str],
        *,
        model: Model | None = None,
        through: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    ):
        if through is not None and not callable(through):
            raise DalembertError(f"through= is a function from values by name to parameters by name, not {through!r}.")
        for name in names:
            if not isinstance(name, str):
                raise DalembertError(f"{name!r} is no name of a parameter, such as 'crank.mass'.")
        self.system, self.model, self.through = system, model, through
        self.known = {k: np.asarray(x, float) for k, x in system.parameters().items()}
        self.centres = {} if model is None else _points_of_bodies(model, self.known)
        self.names: tuple[str, ...] = ()
        self.entries: tuple[Entry, ...] = ()
        self.spread: dict[str, tuple[int, ...]] = {}  # of each given name the numbers of its variables
        for name in names:
            found = [(name, Entry(name))] if through is not None else self._find(name)
            first = len(self.names)
            self.names += tuple(n for n, _ in found)
            self.entries += tuple(e for _, e in found)
            self.spread[name] = tuple(range(first, len(self.names)))
        if len(set(self.names)) < len(self.names):
            twice = next(n for n in self.names if self.names.count(n) > 1)
            raise DalembertError(f"'{twice}' is named twice among what varies.")
        if not self.names:
            raise DalembertError('Nothing varies: name parameters with their bounds, {"crank.mass": (0.5, 2.0)}.')

    def __len__(self) -> int:
        return len(self.names)

    def _find(self, name: str) -> list[tuple[str, Entry]]:
        shapes = {k: x.shape for k, x in self.known.items()} | {
            f"{body}.centre": (len(self.system.parameters()["gravity"]),) for body in self.centres
        }
        if name in shapes:
            return [
                (f"{name}.{word}" if word and word[0] != "[" else f"{name}{word}", Entry(name, index))
                for word, index in component_names(shapes[name])
            ]
        whole, _, word = name.rpartition(".")
        if whole not in shapes and (match := re.fullmatch(r"(.*)(\[[\d, ]+\])", name)):
            whole, word = match[1], match[2].replace(" ", "")
        for own, index in component_names(shapes.get(whole, ())) if whole in shapes else ():
            if own == word:
                return [(name, Entry(whole, index))]
        hint = did_you_mean(name, [*shapes, *(f"{k}.{w}" for k, s in shapes.items() for w, _ in component_names(s))])
        if name.partition(".")[2].startswith("centre") and not self.centres:
            hint = " Centres of mass vary in a model only (da.Model), not in a system that was built."
        raise DalembertError(f"System '{self.system.name}' has no parameter '{name}'.{hint}")

    # ---- values ----------------------------------------------------------------------------------------------

    @property
    def start(self) -> np.ndarray:
        """The values that the machine has; of centres of mass zero. Unknown (NaN) with `through`."""
        if self.through is not None:
            return np.full(len(self), np.nan)
        return np.array([self.known[e.parameter][e.index] if e.parameter in self.known else 0.0 for e in self.entries])

    def units(self) -> dict[str, str]:
        """The unit of each variable by name, "" where it is not known."""
        found = ("" if self.through is not None else self.unit(e.parameter) for e in self.entries)
        return dict(zip(self.names, found, strict=True))

    def unit(self, parameter: str) -> str:
        """The unit of a parameter, by its word and what it acts on."""
        item, _, key = parameter.rpartition(".")
        turning = False
        if self.model is not None:
            force = self.model.forces.get(item)
            turning = force is not None and force.is_angle
        return (UNITS_OF_ANGLES if turning else UNITS).get(key or item, "")

    def parameters(self, x: Array) -> dict[str, Any]:
        """The parameters of the system, by name, for values of the variables; traced or not."""
        if self.through is not None:
            found = self.through({name: x[k] for k, name in enumerate(self.names)})
            if not isinstance(found, Mapping):
                raise DalembertError(f"through= must return parameters by name, {{'crank.mass': …}}; got {found!r}.")
            return dict(found)
        changed: dict[str, Any] = {}
        shifts: dict[str, Any] = {}
        for k, (name, index) in enumerate(self.entries):
            table = changed if name in self.known else shifts
            size = self.known[name].shape if name in self.known else (len(self.known["gravity"]),)
            old = table.get(name, self.known.get(name, np.zeros(size)))
            table[name] = jnp.asarray(old, float).at[index].set(x[k]) if index else jnp.asarray(x[k])
            if len(index) == 2 and size == (3, 3):
                table[name] = table[name].at[index[::-1]].set(x[k])
        for name, shift in shifts.items():
            for point in self.centres[name.rpartition(".")[0]]:
                changed[point] = jnp.asarray(changed.get(point, self.known[point])) - shift
        return changed

    def shifts(self, x: Array) -> dict[str, Any]:
        """How far each body's centre of mass is moved, along the body's axes."""
        out: dict[str, Any] = {}
        for k, (name, index) in enumerate(self.entries):
            if self.through is None and name not in self.known:
                body = name.rpartition(".")[0]
                out[body] = jnp.asarray(out.get(body, np.zeros(len(self.known["gravity"])))).at[index].set(x[k])
        return out

    def checked(self, x: np.ndarray) -> None:
        """Refuse values that no machine has, and names that it has not, by name."""
        self.system.replace({k: np.asarray(v) for k, v in self.parameters(np.asarray(x, float)).items()})

    def named(self, x: np.ndarray) -> dict[str, float]:
        """Values by the names of the variables."""
        return {n: float(v) for n, v in zip(self.names, x, strict=True)}

    def given(self, values: Mapping[str, Any], what: str) -> np.ndarray:
        """Numbers that are given by name, for whole parameters or for components, as a vector; NaN where none is."""
        out = np.full(len(self), np.nan)
        if not isinstance(values, Mapping):
            raise DalembertError(f"{what}: give numbers by name, {{'{self.names[0]}': 1.0}}; got {values!r}.")
        for name, value in values.items():
            where = self.spread.get(name, (self.names.index(name),) if name in self.names else ())
            if not where:
                raise DalembertError(
                    f"{what}: '{name}' is not among what varies: {', '.join(self.names)}."
                    f"{did_you_mean(name, self.names)}"
                )
            try:
                own = np.ravel(np.asarray(value, float))
            except (TypeError, ValueError):
                own = np.zeros(0)
            if len(own) not in (1, len(where)) or not np.all(np.isfinite(own)):
                count = "a number" if len(where) == 1 else f"{len(where)} numbers"
                raise DalembertError(f"{what}: '{name}' must be {count}, not {value!r}.")
            out[list(where)] = own
        return out


UNITS = {
    "mass": "kg", "inertia": "kg m2", "point_i": "m", "point_j": "m", "frame_i": "rad", "frame_j": "rad", "length": "m",
    "centre": "m", "stiffness": "N/m", "damping": "N s/m", "gravity": "m/s2", "radius": "m", "distance": "m",
}  # fmt: skip
UNITS_OF_ANGLES = UNITS | {"stiffness": "N m/rad", "damping": "N m s/rad", "rest": "rad"}


def _points_of_bodies(model: Model, known: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """For each body the parameters that are points of it, seen from its centre of mass."""
    out: dict[str, list[str]] = {name: [] for name in model.bodies}
    for table in (model.constraints, model.forces, model.measurements):
        for item in table.values():
            for marker, key in zip(item.markers, SHIFTED, strict=False):
                name = f"{item.name}.{key}"
                if not marker.body.is_ground and name in known:
                    out[marker.body.name].append(name)
    return out


def bounds_of(design: Design, given: Mapping[str, Any]) -> np.ndarray:
    """The bounds of all variables, a row (least, most) for each; or a refusal with the name."""
    out = np.zeros((len(design), 2))
    for name, value in given.items():
        where = list(design.spread[name])
        try:
            pair = np.asarray(value, float)
        except (TypeError, ValueError):
            pair = np.zeros(0)
        if pair.shape == (2,):
            pair = np.broadcast_to(pair, (len(where), 2))
        if pair.shape != (len(where), 2):
            words = "(least, most)" if len(where) == 1 else f"(least, most), or {len(where)} such pairs"
            raise DalembertError(f"The bounds of '{name}' must be {words}, not {value!r}.")
        out[where] = pair
    for name, (least, most) in zip(design.names, out, strict=True):
        if not (np.isfinite(least) and np.isfinite(most) and least < most):
            raise DalembertError(f"The bounds of '{name}' must be finite and rise; got ({least:g}, {most:g}).")
    return out
