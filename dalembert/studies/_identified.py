"""8 · studies: `Identified`: estimated parameters by name, with their covariance and the verdict on them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert._results import DalembertError
from dalembert.model import Model
from dalembert.studies._machine import Machine
from dalembert.studies._verdict import ALONE, Verdict
from dalembert.systems import AbstractSystem

if TYPE_CHECKING:
    from dalembert.studies._identify import Experiment, Fit


@dataclass(frozen=True, eq=False)
class Identified:
    """Estimated parameters. `print` it; `found["crank.mass"]` is a value, `found.deviation["crank.mass"]` its standard
    deviation (infinite where the data do not determine it), `found.verdict` says what they determine.

    `residual` is the root mean square of what is left, in units of the noise (1 where model and noise are right);
    `noise` the standard deviation of each measured number, given or (`estimated`) taken from what is left.
    """

    machine: Machine = field(repr=False)
    x: np.ndarray
    first: np.ndarray
    verdict: Verdict
    predicted: tuple[np.ndarray, ...] = field(repr=False)
    experiments: tuple[Experiment, ...] = field(repr=False)
    residual: float
    noise: dict[str, float]
    estimated: bool
    count: int
    steps: int
    message: str
    remarks: tuple[str, ...]
    wall_s: float
    fit: Fit = field(repr=False)

    @property
    def values(self) -> dict[str, float]:
        """The estimates, by name; of what is not determined the value near the first guess."""
        return self.machine.design.named(self.x)

    def __getitem__(self, name: str) -> float:
        if name not in self.values:
            raise DalembertError(f"'{name}' was not asked for; {', '.join(self.values)} were.")
        return self.values[name]

    @property
    def deviation(self) -> dict[str, float]:
        """Standard deviations, by name."""
        return {n: self.verdict[n].deviation for n in self.values}

    @property
    def covariance(self) -> np.ndarray:
        """Of the estimates, in the order of `values`; infinite or NaN for what is not determined."""
        return self.verdict.covariance

    def repeated(self, count: int, seed: int = 0) -> np.ndarray:
        """Estimates from data as these would have been with other noise (a parametric bootstrap): predictions plus
        normal noise, `count` times; a row each, in the order of `values`. Their spread tests the covariance, which
        is linear."""
        rng, out = np.random.default_rng(seed), []
        for _ in range(count):
            wanted = []
            for run, y, own in zip(self.experiments, self.predicted, self.fit.wanted, strict=True):
                sigma = np.array([self.noise[n] for n in run.course[1]])
                wanted.append(np.where(np.isfinite(own), y + sigma * rng.standard_normal(y.shape), np.nan))
            out.append(self.fit.of(wanted).search()[0])
        return np.array(out)

    def again(self, data) -> Identified:
        """The estimates from other data of the same experiments (the same times and names; inputs and starts stay),
        with their own covariance and verdict. Nothing is compiled anew."""
        from dalembert.studies._identify import repeated_by

        return repeated_by(self, data)

    @functools.cached_property
    def system(self) -> AbstractSystem:
        """The system with the estimates."""
        return self.machine.at(self.x)

    @functools.cached_property
    def model(self) -> Model:
        """The model with the estimates; refused by name where its statements cannot say them."""
        missing = "A system was identified, not a model; the one with the estimates is result.system."
        return self.machine.stated(self.x, missing)

    def summary(self) -> str:
        """The answer in words."""
        units = self.machine.design.units()
        lines = [f"Parameters of '{self.machine.system.name}' from {self.count} measured numbers:"]
        width = max(map(len, self.values))
        for name, value in self.values.items():
            judged = self.verdict[name]
            if judged.word == ALONE:
                shown = f"{value:.6g} ± {judged.deviation:.2g} {units[name]}".rstrip()
                lines.append(f"  {name:<{width}}  {shown}{' (roughly)' if judged.rough else ''}")
            else:
                lines.append(f"  {name:<{width}}  {judged}")
        for b in self.verdict.base:
            if len(b.names) > 1:
                lines.append(f"  {b.text} = {b.value:.6g} ± {b.deviation:.2g}")
        lines += self.verdict.sentences()
        scale = "estimated noise" if self.estimated else "noise"
        lines.append(f"What is left is {self.residual:.3g} of the {scale}. {self.message}" if not self.estimated else
                     f"Noise estimated from what is left. {self.message}")  # fmt: skip
        return "\n".join([*lines, *self.remarks])

    def __repr__(self) -> str:
        return self.summary()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "model": self.machine.system.name, "values": self.values,
            "deviation": {n: (d if np.isfinite(d) else None) for n, d in self.deviation.items()},
            "verdict": {n: self.verdict[n].word for n in self.values},
            "combinations": [
                {"text": b.text, "value": b.value, "deviation": b.deviation} for b in self.verdict.base
            ],
            "candidates": {k: list(v) for k, v in self.verdict.candidates.items()}, "noise": self.noise,
            "residual": self.residual, "message": self.message, "remarks": list(self.remarks),
        }  # fmt: skip
