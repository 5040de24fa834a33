"""8 · studies: `Optimum`: the best design by name, what limits it, and what the limits cost."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dalembert._results import DalembertError
from dalembert.model import Model
from dalembert.simulation import Solution
from dalembert.studies._machine import Machine
from dalembert.studies._quantities import Bound, Quantity
from dalembert.systems import AbstractSystem

if TYPE_CHECKING:
    from dalembert.studies._optimise import Search

ACTIVE = 1e-5
"""Distance from a limit, as a share of its size, up to which a constraint is active."""


class Evaluation(NamedTuple):
    """A design that was looked at."""

    x: np.ndarray
    objective: float
    constraints: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best design found. `print` it; `best["crank.mass"]` is a value, `best.model` the improved model.

    `multipliers` say, for each active constraint or bound by name, how much the objective would improve for each unit
    by which the limit is relaxed. `optimality` is what is left of the gradient when they are subtracted, over the
    steepest gradient of the search: 0 at a stationary point (1e-6 is good). `history` has all designs
    that were looked at.
    """

    machine: Machine = field(repr=False)
    bounds: np.ndarray
    x: np.ndarray
    objective: Quantity
    maximised: bool
    value: float
    constraints: tuple[Bound, ...]
    values: tuple[float, ...]
    sizes: np.ndarray
    multipliers: dict[str, float]
    optimality: float
    history: tuple[Evaluation, ...]
    message: str
    method: str
    remarks: tuple[str, ...]
    wall_s: float

    @property
    def design(self) -> dict[str, float]:
        """The best values, by name."""
        return self.machine.design.named(self.x)

    def __getitem__(self, name: str) -> float:
        if name not in self.design:
            raise DalembertError(f"'{name}' was not varied; {', '.join(self.design)} were.")
        return self.design[name]

    @property
    def feasible(self) -> bool:
        """Whether all constraints are kept."""
        from dalembert.studies._optimise import KEPT

        off = (c.violation(v) / s for c, v, s in zip(self.constraints, self.values, self.sizes, strict=True))
        return all(x <= KEPT for x in off)

    @property
    def active(self) -> tuple[str, ...]:
        """The constraints and bounds that limit the design."""
        return active_of(self.machine.design.names, self.bounds, self.x, self.constraints, self.values, self.sizes)

    @functools.cached_property
    def system(self) -> AbstractSystem:
        """The best system."""
        return self.machine.at(self.x)

    @functools.cached_property
    def model(self) -> Model:
        """The model with the best values; refused by name where its statements cannot say them."""
        missing = "A system was optimised, not a model; the best one is result.system."
        return self.machine.stated(self.x, missing)

    @functools.cached_property
    def solution(self) -> Solution:
        """The motion of the best machine."""
        return self.machine.motion(self.machine.values(self.x), self.machine.closed(self.x))

    def summary(self) -> str:
        """The answer in words."""
        name, units = self.machine.system.name, self.machine.design.units()
        unit = self.objective.unit(self.machine.unit)
        goal = "Largest" if self.maximised else "Least"
        lines = [f"{goal} {self.objective.text} of '{name}': {self.value:.6g}{' ' + unit if unit else ''}"]
        if self.history:
            lines[0] += f" (first {self.history[0].objective:.6g})"
        if not self.feasible:
            lines.insert(0, "Infeasible: no design was found that keeps all constraints.")
        width = max(map(len, self.design))
        for (key, value), (least, most) in zip(self.design.items(), self.bounds, strict=True):
            shown = f"{value:.6g} {units[key]}".rstrip()
            lines.append(f"  {key:<{width}}  {shown:<16} of {least:g} … {most:g}{self._price(key)}")
        for c, value in zip(self.constraints, self.values, strict=True):
            state = "active" if c.text in self.active else "kept"
            if c.violation(value) > 0 and c.text not in self.active:
                state = "VIOLATED"
            lines.append(f"  {c.text}: {value:.6g}, {state}{self._price(c.text)}")
        lines.append(
            f"{self.message} {len(self.history)} designs, {self.wall_s:.1f} s, optimality {self.optimality:.1e}."
        )
        return "\n".join([*lines, *self.remarks])

    def _price(self, name: str) -> str:
        found = [v for k, v in self.multipliers.items() if k == name or k.startswith(f"{name} at its ")]
        bound = next((k[len(name) :] for k in self.multipliers if k.startswith(f"{name} at its ")), "")
        return f"{',' if bound else ''}{bound}, {found[0]:.4g} for each unit" if found else ""

    def __repr__(self) -> str:
        return self.summary()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "model": self.machine.system.name, "objective": self.objective.text, "maximised": self.maximised,
            "value": self.value, "design": self.design,
            "constraints": {c.text: v for c, v in zip(self.constraints, self.values, strict=True)},
            "active": list(self.active), "multipliers": self.multipliers, "optimality": self.optimality,
            "feasible": self.feasible, "message": self.message, "method": self.method, "remarks": list(self.remarks),
            "history": [{"design": e.x.tolist(), "objective": e.objective} for e in self.history],
        }  # fmt: skip


def active_of(names, bounds, x, constraints, values, sizes) -> tuple[str, ...]:
    """The names of active constraints and bounds."""
    found = []
    for c, value, size in zip(constraints, values, sizes, strict=True):
        gap = min(abs(value - limit) for limit in (c.least, c.most) if np.isfinite(limit))
        if gap <= ACTIVE * size:
            found.append(c.text)
    for name, (least, most), value in zip(names, bounds, x, strict=True):
        for limit, word in ((least, "least"), (most, "most")):
            if abs(value - limit) <= ACTIVE * (most - least):
                found.append(f"{name} at its {word}")
    return tuple(found)


def multipliers_of(
    search: Search, x: np.ndarray, found: tuple[np.ndarray, np.ndarray]
) -> tuple[dict[str, float], float]:
    """Lagrange's multipliers of what is active, by least squares of the stationarity of the Lagrangian (those of
    inequalities not negative), and the share of the gradient that is left."""
    from scipy.optimize import nnls

    y, J = found
    parts, slopes = search.asked.parts(y), search.asked.parts(J.T)
    assert search.sizes is not None
    width = search.width
    columns, owner, sizes = [], [], []
    for c, p, s, size in zip(search.constraints, parts[1:], slopes[1:], search.sizes, strict=True):
        for limit, sign in ((c.most, 1.0), (c.least, -1.0)):
            for k in np.flatnonzero(np.abs(p - limit) <= ACTIVE * size) if np.isfinite(limit) else ():
                columns.append(sign * s[:, k] * width / size)
                owner.append(c.text)
                sizes.append(size)
    for j, (name, (least, most)) in enumerate(zip(search.design.names, search.bounds, strict=True)):
        for limit, sign, word in ((most, 1.0, "most"), (least, -1.0, "least")):
            if abs(x[j] - limit) <= ACTIVE * (most - least):
                columns.append(sign * np.eye(len(x))[j])
                owner.append(f"{name} at its {word}")
                sizes.append(most - least)
    top = parts[0]
    scale = float(np.max(np.abs(top))) or 1.0
    near = np.flatnonzero(np.max(top) - top <= ACTIVE * scale) if search.minimax else np.array([int(np.argmax(top))])
    gradients = search.sign * slopes[0][:, near] * width[:, None]
    whole = max(float(np.linalg.norm(g)) for g in gradients.T)
    if whole == 0:
        return {}, 0.0
    # of several equal tops any mean of their gradients: weights that add up to one
    A = np.concatenate([gradients, np.array(columns).T], axis=1) if columns else gradients
    unit = np.concatenate([np.ones(len(near)), np.zeros(len(columns))]) * whole
    weights, _ = nnls(np.concatenate([A / whole, HEAVY * unit[None] / whole]), np.append(np.zeros(len(x)), HEAVY))
    rest = A @ weights
    out: dict[str, float] = {}
    for name, size, w in zip(owner, sizes, weights[len(near) :], strict=True):
        out[name] = out.get(name, 0.0) + float(w) / size
    factor = 2 * float(np.max(top)) if search.squared else 1.0
    share = factor * float(np.linalg.norm(rest)) / (search.scale or 1.0) / (search.steepest or 1.0)
    return {k: v for k, v in out.items() if v > 0}, share


HEAVY = 1e3
"""Weight of the condition that the weights of equal tops add up to one."""
