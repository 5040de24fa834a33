"""8 · studies: what varies: grids, lists, points of a distribution, start states, load cases; made into a table of
cases, one row each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.systems import State

START = "start"
"""The name under which start states vary."""
MODEL = "model"
"""The name under which whole models vary."""
SAMPLINGS = ("latin", "sobol", "random")
"""How points are drawn: Latin hypercube, scrambled Sobol' sequence, independent."""
INSIDE = 1e-15
"""Points of the unit cube keep this distance from its faces, where a normal distribution is infinite."""


@dataclass(frozen=True)
class Uniform:
    """A number, or a vector with independent components, that is anywhere between two values with equal probability.

    >>> import dalembert as da
    >>> da.studies.Uniform(0.5, 2.0)
    Uniform(least=0.5, most=2.0)
    """

    least: Any
    most: Any

    def __post_init__(self):
        least, most = (np.asarray(x, float) for x in (self.least, self.most))
        if least.shape != most.shape or least.ndim > 1 or not np.all(np.isfinite(least) & np.isfinite(most)):
            raise DalembertError(f"{self!r}: least and most must be finite numbers, or vectors of one length.")
        if not np.all(least < most):
            raise DalembertError(f"{self!r}: least must be smaller than most.")

    @property
    def size(self) -> int:
        return int(np.size(self.least))

    def at(self, unit: np.ndarray) -> np.ndarray:
        """The values at points of the unit cube, (points, size)."""
        least, most = (np.asarray(x, float) for x in (self.least, self.most))
        return least + (most - least) * unit


@dataclass(frozen=True)
class Normal:
    """A number with a normal distribution, or several at once: `spread` is the standard deviation of a number, the
    standard deviations of a vector with independent components, or the covariance matrix of one with correlated
    components.

    Several parameters vary together under a tuple of their names:

    >>> import dalembert as da
    >>> vary = {("crank.mass", "rocker.mass"): da.studies.Normal([1.0, 2.0], [[0.01, 0.005], [0.005, 0.02]])}
    """

    mean: Any
    spread: Any

    def __post_init__(self):
        mean, spread = (np.asarray(x, float) for x in (self.mean, self.spread))
        square = mean.ndim == 1 and spread.shape == (len(mean), len(mean))
        if mean.ndim > 1 or not (spread.shape == mean.shape or square):
            raise DalembertError(
                f"{self!r}: the spread must be a standard deviation for each mean, or a covariance matrix of as many "
                "rows and columns."
            )
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(spread))):
            raise DalembertError(f"{self!r}: all numbers must be finite.")
        if not square:
            if np.any(spread <= 0):
                raise DalembertError(f"{self!r}: standard deviations must be greater than zero.")
        elif not np.allclose(spread, spread.T, rtol=1e-12, atol=0) or np.linalg.eigvalsh(spread)[0] < -1e-12 * np.trace(
            spread
        ):
            raise DalembertError(f"{self!r}: a covariance matrix is symmetric and has no negative eigenvalue.")

    @property
    def size(self) -> int:
        return int(np.size(self.mean))

    def at(self, unit: np.ndarray) -> np.ndarray:
        """The values at points of the unit cube, (points, size)."""
        from scipy.special import ndtri

        z = ndtri(np.clip(unit, INSIDE, 1 - INSIDE))
        mean, spread = (np.asarray(x, float) for x in (self.mean, self.spread))
        if spread.ndim < 2:
            return mean + spread * z
        values, vectors = np.linalg.eigh(spread)
        return mean + z @ (vectors * np.sqrt(np.clip(values, 0, None))).T


@dataclass(frozen=True)
class Cases:
    """The table of all cases: values of parameters (one row each), labels (load cases, models) and start states."""

    count: int
    values: dict[str, np.ndarray] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    states: State | None = None

    def part(self, which) -> Cases:
        """Some of the cases."""
        rows = np.arange(self.count)[which]
        states = None if self.states is None else State(*(x[rows] for x in self.states))
        values, labels = ({k: x[rows] for k, x in table.items()} for table in (self.values, self.labels))
        return Cases(len(rows), values, labels, states)

    def fingerprint(self) -> str:
        """A hash of every bit of it."""
        out = hashlib.sha256(str(self.count).encode())
        for name, x in sorted((self.values | self.labels).items()):
            data = np.ascontiguousarray(x, float).tobytes() if x.dtype.kind == "f" else "\0".join(x).encode()
            out.update(f"{name}{np.shape(x)}".encode() + data)
        for x in self.states or ():
            out.update(np.ascontiguousarray(x, float).tobytes())
        return out.hexdigest()


@dataclass(frozen=True)
class _Axis:
    """One thing that varies: how many values it takes, and the part of the table that they are."""

    name: str
    cases: Cases


def cases_of(
    vary: Mapping[Any, Any],
    *,
    models: Sequence[str] = (),
    count: int | None = None,
    sampling: str = "latin",
    combine: str = "grid",
    seed: int = 0,
) -> Cases:
    """The table of cases.

    **Arguments**: `vary` as `study` has it; `models`, the names of alternative models, which vary first; `count` points
    of the distributions, drawn by `sampling` with `seed`; `combine`: "grid" takes every combination of lists (and of
    models and points), "list" takes their first values together, then their second ones, …
    """
    if not isinstance(vary, Mapping):
        raise DalembertError(f"vary: name what varies and its values, {{'crank.mass': [1.0, 2.0]}}; got {vary!r}.")
    refuse_seed(seed)
    if combine not in ("grid", "list"):
        raise DalembertError(f"combine={combine!r} is unknown; use 'grid' or 'list'.")
    if sampling not in SAMPLINGS:
        raise DalembertError(f"sampling={sampling!r} is unknown; use 'latin', 'sobol' or 'random'.")
    listed, drawn = [], {}
    for name, given in vary.items():
        if isinstance(given, Uniform | Normal):
            drawn[name] = given
        else:
            listed.append(_listed(name, given))
    axes = _together(listed) if combine == "list" and listed else listed
    if len(models) > 1:
        axes = [_Axis(MODEL, Cases(len(models), labels={MODEL: np.array(list(models), object)})), *axes]
    if drawn:
        axes = [*axes, _Axis("points", _drawn(drawn, count, sampling, seed))]
    elif count is not None:
        raise DalembertError(
            "count= is the number of points of distributions (da.studies.Uniform, Normal); none varies."
        )
    _refuse_twice(axes)
    return _product(axes)


def _refuse_twice(axes: Sequence[_Axis]) -> None:
    seen: set[str] = set()
    for axis in axes:
        for name in (*axis.cases.values, *axis.cases.labels):
            if name in seen:
                raise DalembertError(f"'{name}' varies twice; name it once.")
            seen.add(name)


def _listed(name: Any, given: Any) -> _Axis:
    if name == START:
        return _Axis(START, _states(given))
    if not isinstance(name, str):
        raise DalembertError(
            f"{name!r}: several names together need a distribution, da.studies.Normal(mean, covariance)."
        )
    if isinstance(given, Mapping):
        return _Axis(name, _loads(name, given))
    try:
        values = np.asarray(given, float)
    except (TypeError, ValueError):
        values = np.zeros(())
    if not values.ndim or not len(values):
        raise DalembertError(
            f"'{name}' varies over a list of values, a distribution (da.studies.Uniform, Normal) or named cases "
            f"{{'name': {{parameter: value}}}}; got {given!r}."
        )
    if not np.all(np.isfinite(values)):
        raise DalembertError(f"'{name}': all values must be finite.")
    return _Axis(name, Cases(len(values), {name: values}))


def _states(given: Any) -> Cases:
    try:
        q, v = (np.asarray(x, float) for x in given)
    except (TypeError, ValueError):
        q = v = np.zeros(0)
    if (
        q.ndim != 2
        or v.ndim != 2
        or len(q) != len(v)
        or not len(q)
        or not (np.all(np.isfinite(q)) and np.all(np.isfinite(v)))
    ):
        raise DalembertError(
            "Start states vary as a State (q, v) with one row of finite numbers of each for each start."
        )
    labels = {START: np.array([str(k) for k in range(len(q))], object)}
    return Cases(len(q), labels=labels, states=State(q, v))


def _loads(name: str, given: Mapping) -> Cases:
    """Named sets of parameters; what one set leaves out it has to say too, as all of them have the same names."""
    if not given:
        raise DalembertError(f"'{name}': there is no case in it.")
    if name == MODEL:
        raise DalembertError(f"'{MODEL}' is the name under which whole models vary; give the cases another one.")
    first = next(iter(given))
    columns: dict[str, list] = {}
    for label, values in given.items():
        if not isinstance(label, str) or not isinstance(values, Mapping) or not values:
            raise DalembertError(f"'{name}': each case is a name with its parameters, 'empty': {{'box.mass': 1.0}}.")
        if set(values) != set(given[first]):
            other = sorted(set(values) ^ set(given[first]))[0]
            raise DalembertError(f"'{name}': case '{label}' and case '{first}' must set the same names; see '{other}'.")
        for parameter, value in values.items():
            try:
                own = np.asarray(value, float)
            except (TypeError, ValueError):
                own = np.asarray(np.nan)
            if not np.all(np.isfinite(own)):
                raise DalembertError(f"'{name}': case '{label}': '{parameter}' must be finite numbers, not {value!r}.")
            columns.setdefault(parameter, []).append(own)
    try:
        table = {k: np.stack(x) for k, x in columns.items()}
    except ValueError:
        raise DalembertError(f"'{name}': a parameter must have the same number of components in all cases.") from None
    return Cases(len(given), table, {name: np.array(list(given), object)})


def _together(axes: list[_Axis]) -> list[_Axis]:
    lengths = {a.name: a.cases.count for a in axes}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"'{n}' has {k}" for n, k in lengths.items())
        raise DalembertError(f"With combine='list' all lists need the same length: {counts}.")
    _refuse_twice(axes)
    values, labels = ({k: x for a in axes for k, x in getattr(a.cases, t).items()} for t in ("values", "labels"))
    states = next((a.cases.states for a in axes if a.cases.states is not None), None)
    return [_Axis("list", Cases(axes[0].cases.count, values, labels, states))]


def _drawn(drawn: Mapping[Any, Uniform | Normal], count: int | None, sampling: str, seed: int) -> Cases:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise DalembertError(f"Distributions need count=, how many points are drawn; got {count!r}.")
    from scipy.stats import qmc

    size = sum(d.size for d in drawn.values())
    how: dict[str, Any] = {"seed": seed}  # in newer versions of scipy also called rng
    if sampling == "latin":
        unit = qmc.LatinHypercube(size, **how).random(count)
    elif sampling == "sobol":  # a power of two is drawn whole, or SciPy warns of its balance
        power = max(int(count) - 1, 0).bit_length()
        unit = qmc.Sobol(size, **how).random_base2(power)[:count]
    else:
        unit = np.random.default_rng(seed).random((count, size))
    values, first = {}, 0
    for name, law in drawn.items():
        found = law.at(unit[:, first : first + law.size])
        first += law.size
        if isinstance(name, str):
            several = np.ndim(law.mean if isinstance(law, Normal) else law.least)
            values[name] = found if several else found[:, 0]
            continue
        if len(name) != law.size:
            raise DalembertError(f"{', '.join(map(str, name))}: {len(name)} names, but {law.size} means.")
        for k, one in enumerate(name):
            if one in values:
                raise DalembertError(f"'{one}' varies twice; name it once.")
            values[one] = found[:, k]
    return Cases(int(count), values)


def _product(axes: Sequence[_Axis]) -> Cases:
    """Every combination, the last axis fastest."""
    sizes = [a.cases.count for a in axes]
    total = int(np.prod(sizes)) if sizes else 1
    if not axes:
        return Cases(1)
    picks = np.unravel_index(np.arange(total), sizes)
    parts = [a.cases.part(pick) for a, pick in zip(axes, picks, strict=True)]
    values, labels = ({k: x for p in parts for k, x in getattr(p, t).items()} for t in ("values", "labels"))
    return Cases(total, values, labels, next((p.states for p in parts if p.states is not None), None))


def refuse_counts(**counts: Any) -> None:
    """Refuse counts that are no whole numbers, 1 at least, by name."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise DalembertError(f"{name}= is a whole number, 1 at least; got {count!r}.")


def refuse_seed(seed: Any) -> None:
    """Refuse a seed that would draw nothing, or something else each time."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DalembertError(f"seed= is a whole number, 0 or more; got {seed!r}.")


def refuse_client(client: Any) -> None:
    """Refuse what is no client of a Dask cluster."""
    if client is not None and not all(hasattr(client, word) for word in ("submit", "gather", "scheduler_info")):
        raise DalembertError(f"client= is a distributed.Client; got {client!r}.")


def check_names(cases: Cases, system, many: bool) -> None:
    """Refuse names that a system does not have and values of another shape, by name."""
    known = system.parameters()
    for name, x in cases.values.items():
        whose = f" of model '{system.name}'" if many else ""
        if name not in known:
            raise DalembertError(
                f"'{name}' cannot vary: '{system.name}' has no such parameter.{did_you_mean(name, known)} "
                "da.build(model).parameters() lists them."
            )
        if x.shape[1:] != np.shape(known[name]):
            raise DalembertError(
                f"'{name}'{whose} has shape {np.shape(known[name])}; the values that vary have {x.shape[1:]}."
            )
    if cases.states is not None:
        for word, given, own in (("q", cases.states.q, system.q0), ("v", cases.states.v, system.v0)):
            if np.shape(given)[1:] != np.shape(own):
                raise DalembertError(
                    f"{word} of the start states must have {len(np.asarray(own))} numbers each for '{system.name}'; "
                    f"got {np.shape(given)[1:]}."
                )
