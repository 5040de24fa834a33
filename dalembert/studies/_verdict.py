"""8 · studies: which parameters data determine: alone, only in combinations, or not at all.

With J the derivatives of all measured numbers, each by its amplitude, and S the sizes of the parameters, a change δp
leaves no trace in the data if J δp = 0 (rank of J S). A parameter is determined if no such change moves it, and not at
all if it can change alone. The combinations that are determined span the row space of J: each is stated with as
few members as possible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dalembert.linalg import ZERO, short_dependencies
from dalembert.studies._design import Design

RANK = 1e-7
"""Singular values of J S below this share of the largest are zero: derivatives are exact to about 1e-9."""
LEAK = 1e-5
"""Share of a parameter in a change that leaves no trace, up to which it counts as fixed."""
ROUGH = 0.5
"""A parameter whose standard deviation is above this share of its value is determined roughly only."""

ALONE, TOGETHER, NOT = "determined", "in a combination", "not at all"


class Judgement(NamedTuple):
    """What the data say about one parameter."""

    word: str  # "determined", "in a combination" or "not at all"
    deviation: float  # infinite where it is not determined
    combinations: tuple[str, ...]
    rough: bool = False

    def __str__(self) -> str:
        if self.word == TOGETHER:
            return f"only in the combination{'s' if len(self.combinations) > 1 else ''} {'; '.join(self.combinations)}"
        return self.word if not self.rough else f"{self.word}, but only roughly"


class Base(NamedTuple):
    """A combination that is determined (a base parameter): Σ coefficients · parameters, its value and deviation."""

    text: str
    names: tuple[str, ...]
    coefficients: np.ndarray
    value: float
    deviation: float


@dataclass(eq=False)
class Verdict:
    """What the data determine. `verdict["crank.mass"]` is a judgement; `base` lists the determined combinations."""

    names: tuple[str, ...]
    rank: int
    singular_values: np.ndarray
    null: np.ndarray  # changes of the parameters that leave no trace, a column each, in their own units
    covariance: np.ndarray  # infinite where not determined
    judgements: dict[str, Judgement]
    base: tuple[Base, ...]
    rows: np.ndarray = field(repr=False)  # J in units of the noise
    amplitudes: np.ndarray = field(repr=False)  # of the data, in the same units
    candidates: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Judgement:
        return self.judgements[name]

    @property
    def determined(self) -> tuple[str, ...]:
        return tuple(n for n, j in self.judgements.items() if j.word == ALONE)

    @property
    def complete(self) -> bool:
        """Whether every parameter is determined."""
        return len(self.determined) == len(self.names)

    def sentences(self) -> list[str]:
        """The verdict in words."""
        if self.complete:
            return [f"The data determine all {len(self.names)} parameters."]
        lines = [f"The data determine {self.rank} of {len(self.names)} numbers."]
        none = [n for n, j in self.judgements.items() if j.word == NOT]
        if none:
            lines.append(f"Not at all: {', '.join(none)}.")
        together = [b for b in self.base if len(b.names) > 1]
        if together:
            lines.append("Only in combinations: " + "; ".join(b.text for b in together) + ".")
        for name, more in self.candidates.items():
            if more:
                lines.append(f"{name[0].upper()}{name[1:]} would determine {', '.join(more)}.")
            elif self.ranks.get(name):
                count = self.ranks[name]
                lines.append(
                    f"{name[0].upper()}{name[1:]} would determine {count} more combination{'s' * (count > 1)}."
                )
            else:
                lines.append(f"{name[0].upper()}{name[1:]} would add nothing.")
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.sentences())


def verdict_of(design: Design, x: np.ndarray, rows: np.ndarray, sizes: np.ndarray, amplitudes: np.ndarray) -> Verdict:
    """The verdict on the variables x of a design, from the derivatives of data in units of their noise (`rows`);
    `amplitudes` are the sizes of the data in the same units: what is determined at all does not depend on noise."""
    k = len(x)
    shares = rows * sizes / amplitudes[:, None]
    triangle: Any = np.linalg.qr(shares, mode="r")  # of many rows only what they have in common
    _, values, Vt = np.linalg.svd(triangle, full_matrices=True)
    values = np.concatenate([values, np.zeros(max(k - len(values), 0))])
    rank = int(np.sum(values > RANK * values[0])) if values[0] > 0 else 0
    span, null = Vt[:rank].T, Vt[rank:].T
    leak = np.linalg.norm(null, axis=1)
    seen: Any = np.linalg.qr((rows * sizes) @ span, mode="r") if rank else np.zeros((0, 0))
    half = np.linalg.solve(seen.T, span.T) if rank else np.zeros((0, k))
    inverse = half.T @ half
    covariance = inverse * np.outer(sizes, sizes)
    alone = leak <= LEAK
    hidden = 1 - leak**2 <= LEAK**2  # a unit vector of the null space
    clean = np.where((alone | hidden)[:, None], 0.0, span)
    bases: list[Base] = []
    among = np.flatnonzero(~alone & ~hidden)
    if len(among):
        left, s, _ = np.linalg.svd(clean[among], full_matrices=False)
        left = left[:, s > LEAK]
        for cluster in short_dependencies(np.where(np.abs(left) < ZERO, 0.0, left)):
            for c in cluster:
                members = among[list(c.members)]
                coefficients = c.coefficients / sizes[members]
                shares = np.abs(c.coefficients)  # of those as good as equal the last leads, whatever rounding says
                lead = coefficients[np.flatnonzero(shares > 0.999 * np.max(shares))[-1]]
                coefficients = coefficients / lead
                full = np.zeros(k)
                full[members] = coefficients
                names = tuple(design.names[m] for m in members)
                bases.append(
                    Base(_text(names, coefficients), names, coefficients, float(full @ x),
                         float(np.sqrt(max(full @ covariance @ full, 0.0))))
                )  # fmt: skip
    judged: dict[str, Judgement] = {}
    for j, name in enumerate(design.names):
        if alone[j]:
            deviation = float(np.sqrt(covariance[j, j]))
            judged[name] = Judgement(ALONE, deviation, (), bool(deviation > ROUGH * abs(x[j])))
            bases.append(Base(name, (name,), np.ones(1), float(x[j]), deviation))
        elif hidden[j]:
            judged[name] = Judgement(NOT, np.inf, ())
        else:
            judged[name] = Judgement(TOGETHER, np.inf, tuple(b.text for b in bases if name in b.names))
    whole = covariance.copy()
    whole[~alone, :] = whole[:, ~alone] = np.nan
    whole[~alone, ~alone] = np.inf
    return Verdict(design.names, rank, values, null * sizes[:, None], whole, judged, tuple(bases), rows, amplitudes)


def _text(names: tuple[str, ...], coefficients: np.ndarray) -> str:
    """A sum in words: crank.inertia + 0.25 crank.mass."""
    out = ""
    for name, c in sorted(zip(names, coefficients, strict=True), key=lambda p: -float(p[1] == 1.0)):
        sign = " - " if c < 0 else " + " if out else ""
        size = f"{abs(c):.4g}"
        out += f"{sign if out else sign.strip()}{'' if size == '1' else size + ' '}{name}"
    return out
