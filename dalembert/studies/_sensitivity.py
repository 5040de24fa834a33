"""8 · studies: what depends on what: `sensitivities` (derivatives, or Sobol' indices), `uncertainty` (first linear
covariance, or Monte Carlo with confidence bands) and `worst_case`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalembert._results import DalembertError
from dalembert.model import Model
from dalembert.studies._design import Design, bounds_of, names_of
from dalembert.studies._evaluate import Asked
from dalembert.studies._machine import Machine, Task
from dalembert.studies._optimise import Search, batch_of, best_of
from dalembert.studies._optimum import Optimum
from dalembert.studies._quantities import Quantity, quantity
from dalembert.studies._vary import Normal, Uniform, refuse_client, refuse_counts, refuse_seed
from dalembert.systems import AbstractSystem

CONFIDENCE = 0.95
"""Of all bands."""
TASK = ("t_end", "t0", "samples", "driven", "state", "hold", "inputs", "rule")


@dataclass(frozen=True)
class Spread:
    """How one number varies: a distribution of scipy.stats, or bounds (then it is uniform between them)."""

    law: Any

    @property
    def mean(self) -> float:
        return float(self.law.mean())

    @property
    def deviation(self) -> float:
        return float(self.law.std())

    def at(self, share: np.ndarray) -> np.ndarray:
        """Values below which these shares lie."""
        return np.asarray(self.law.ppf(share))


def spread_of(name: str, given: Any) -> Spread:
    """A distribution of one number, or (least, most)."""
    from scipy import stats

    if all(hasattr(given, word) for word in ("ppf", "mean", "std")):
        return Spread(given)
    if isinstance(given, Normal) and np.ndim(given.mean) == 0:
        return Spread(stats.norm(float(given.mean), float(given.spread)))
    if isinstance(given, Uniform) and np.ndim(given.least) == 0:
        given = (given.least, given.most)
    pair: Any = given
    try:
        least, most = (float(x) for x in pair)
    except (TypeError, ValueError):
        least, most = np.nan, np.nan
    if not (np.isfinite(least) and np.isfinite(most) and least < most):
        raise DalembertError(
            f"'{name}': say how it varies by (least, most), Normal(mean, deviation), Uniform(least, most) or "
            f"a distribution of scipy.stats, of one number; got {given!r}."
        )
    return Spread(stats.uniform(least, most - least))


class Varied:
    """A machine whose numbers vary, and quantities of it."""

    def __init__(
        self, model, vary: Mapping[str, Any], measure, task: Mapping[str, Any], correlation=None, through=None
    ):
        names = names_of(vary, '{"crank.mass": (0.5, 2.0)}')
        self.machine = Machine(model, names, task_of(task), through)
        self.design = self.machine.design
        listed = list(measure) if isinstance(measure, list | tuple) else [measure]
        if not listed:
            raise DalembertError('Say what to look at: measure=[final("tip.y"), peak("pin.Fx")].')
        self.quantities = [quantity(q) for q in listed]
        self.names = [q.text for q in self.quantities]
        self.spreads = [spread_of(n, s) for n, s in _each(self.design, vary)]
        self.asked = Asked(self.machine, self.quantities)
        self.mean = np.array([s.mean for s in self.spreads])
        self.deviation = np.array([s.deviation for s in self.spreads])
        self.correlation = _correlation(self.design, correlation)

    @property
    def covariance(self) -> np.ndarray:
        return self.correlation * np.outer(self.deviation, self.deviation)

    def drawn(self, shares: np.ndarray) -> np.ndarray:
        """Designs for points of the unit cube, correlated as given (by a Gaussian copula)."""
        from scipy.stats import norm

        if not np.array_equal(self.correlation, np.eye(len(self.design))):
            shares = norm.cdf(norm.ppf(shares) @ np.linalg.cholesky(self.correlation).T)
        return np.stack([s.at(shares[:, k]) for k, s in enumerate(self.spreads)], axis=1)

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        for name, mean, sd in zip(self.design.names, self.mean, self.deviation, strict=True):
            if not (np.isfinite(mean) and np.isfinite(sd)):
                raise DalembertError(f"'{name}': its distribution has no mean or no standard deviation.")
        found = self.asked.slopes(self.mean)
        if found is None:
            raise DalembertError(
                f"At the means '{self.machine.system.name}' has no such numbers: {self.asked.reason(self.mean)}"
            )
        return found

    def units(self) -> dict[str, str]:
        return {q.text: q.unit(self.machine.unit) for q in self.quantities}


def _each(design: Design, vary: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What each variable is given: of a vector the same for all components, or one for each."""
    out = []
    for name, value in vary.items():
        where = design.spread[name]
        several = isinstance(value, list) and len(value) == len(where) > 1
        out += [(design.names[k], value[i] if several else value) for i, k in enumerate(where)]
    return out


def _correlation(design: Design, given) -> np.ndarray:
    k = len(design)
    R = np.eye(k)
    if isinstance(given, Mapping):
        for pair, value in given.items():
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(value, int | float | np.number)):
                raise DalembertError(f"correlation: say {{('a', 'b'): 0.5}} of two names; got {{{pair!r}: {value!r}}}.")
            a, b = pair
            for name in (a, b):
                if name not in design.names:
                    raise DalembertError(f"correlation: '{name}' is not among what varies: {', '.join(design.names)}.")
            i, j = design.names.index(a), design.names.index(b)
            R[i, j] = R[j, i] = value
    elif given is not None:
        try:
            R = np.asarray(given, float)
        except (TypeError, ValueError):
            R = np.zeros(0)
    if R.shape != (k, k) or not np.allclose(R, R.T) or not np.allclose(np.diag(R), 1) or np.linalg.eigvalsh(R)[0] <= 0:
        raise DalembertError(
            f"correlation must be a symmetric, positive definite {k} × {k} matrix with ones on its diagonal."
        )
    return R


# ---- sensitivities ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """How quantities depend on numbers, by name. `print` it.

    `first` and `total` are shares of the variance (quantities, variables): of "gradient" the share of each number in
    the first linear variance, of "sobol" Sobol' indices, with the half width of their 95 % band in `first_band` and
    `total_band`. `slopes` are derivatives at the means, where they were computed. `remark` says why there are none.
    """

    quantities: tuple[str, ...]
    names: tuple[str, ...]
    method: str
    first: np.ndarray
    total: np.ndarray
    first_band: np.ndarray | None
    total_band: np.ndarray | None
    slopes: np.ndarray | None
    count: int
    remark: str = ""

    def of(self, name: str) -> dict[str, float]:
        """The total index of each quantity on a variable."""
        if name not in self.names:
            raise DalembertError(f"'{name}' was not varied; {', '.join(self.names)} were.")
        return dict(zip(self.quantities, self.total[:, self.names.index(name)].tolist(), strict=True))

    def __repr__(self) -> str:
        lines = []
        width = max(map(len, self.names))
        for i, q in enumerate(self.quantities):
            what = "share of the linear variance" if self.method == "gradient" else "Sobol' indices, first and total"
            lines.append(f"{q}: {what}")
            for k in np.argsort(-self.total[i]):
                band = "" if self.total_band is None else f" ± {self.total_band[i, k]:.2g}"
                shares = f"{self.total[i, k]:.3f}{band}"
                shares = shares if self.method == "gradient" else f"{self.first[i, k]:.3f}  {shares}"
                slope = "" if self.slopes is None else f"  slope {self.slopes[i, k]:.4g}"
                lines.append(f"  {self.names[k]:<{width}}  {shares}{slope}")
        return "\n".join([*lines, *([self.remark] if self.remark else [])])


def sensitivities(
    model: Model | AbstractSystem,
    vary: Mapping[str, Any],
    measure: Quantity | Sequence[Quantity],
    *,
    method: str = "auto",
    count: int = 256,
    seed: int = 0,
    client: Any = None,
    through: Any = None,
    **task: Any,
) -> Sensitivities:
    """Which numbers of a machine matter for which quantities.

    **Arguments**: `vary` as in `uncertainty`; `measure`, quantities of `da.studies`; `method`: "gradient" (derivatives
    at the means: one run), "sobol" (Sobol' indices of the whole range: count · (variables + 2) runs, by Saltelli's
    scheme of SALib; `count` a power of two) or "auto": derivatives where there are, else Sobol' indices (contacts, dry
    friction that sticks, a quantity that does not change to first order). `task`: what the motion needs, as in
    `optimise`. `client`: a Dask client.

    **Returns** `Sensitivities`.

        >>> import dalembert as da
        >>> from dalembert.studies import resting, sensitivities
        >>> model = da.Model("balance", gravity=(0, -9.81))
        >>> bar = model.body("bar", mass=2.0, inertia=0.1, position=(0.5, 0), angle=0.0)
        >>> pin = model.revolute("pin", model.ground, bar, at=(0, 0))
        >>> spring = model.joint_spring("spring", "pin", stiffness=30.0)
        >>> vary = {"bar.mass": (1.9, 2.1), "spring.stiffness": (20.0, 40.0)}
        >>> found = sensitivities(model, vary, resting("pin.angle"))
        >>> round(found.of("spring.stiffness")["resting(pin.angle)"], 2)
        0.98

    [Saltelli et al. 2010.]
    """
    if method not in ("auto", "gradient", "sobol"):
        raise DalembertError(f"method={method!r} is unknown; use 'auto', 'gradient' or 'sobol'.")
    refuse_counts(count=count)
    refuse_seed(seed)
    refuse_client(client)
    varied = Varied(model, vary, measure, task, None, through)
    if method == "sobol":
        return _by_sobol(varied, count, seed, client)
    try:
        found, still = _by_slopes(varied)
    except DalembertError as error:
        if method == "gradient":
            raise
        return _by_sobol(varied, count, seed, client, f"There are no derivatives: {error}")
    if method == "auto" and still:
        remark = f"At the means {', '.join(still)} do{'es' * (len(still) == 1)} not change to first order."
        return _by_sobol(varied, count, seed, client, remark)
    return found


STILL = 1e-9
"""Linear deviation of a quantity, as a share of its value, that is rounding."""


def _by_slopes(varied: Varied) -> tuple[Sensitivities, list[str]]:
    """Shares of the first linear variance, and the quantities that have none."""
    y, J = varied.slopes()
    parts = (J * varied.deviation) ** 2
    whole = parts.sum(axis=1, keepdims=True)
    share = parts / np.where(whole > 0, whole, 1.0)
    still = [n for n, v, w in zip(varied.names, y, whole[:, 0], strict=True) if np.sqrt(w) <= STILL * abs(v)]
    names = tuple(varied.names), varied.design.names
    return Sensitivities(*names, "gradient", share, share, None, None, J, 1), still


def _by_sobol(varied: Varied, count: int, seed: int, client, remark: str = "") -> Sensitivities:
    """Sobol' indices of the whole range."""
    try:
        from SALib.analyze import sobol as analyse
        from SALib.sample import sobol as sample
    except ImportError:
        raise DalembertError(
            "Sobol' indices need SALib; install it with: pip install 'dalembert[studies]'. method='gradient' needs "
            "nothing."
        ) from None
    if count < 2 or count & (count - 1):
        raise DalembertError(f"count={count}: Sobol' points come in powers of two.")
    k = len(varied.design)
    problem = {"num_vars": k, "names": list(varied.design.names), "bounds": [[0.0, 1.0]] * k}
    shares = sample.sample(problem, count, calc_second_order=False, seed=seed)
    rows = batch_of(varied.asked, varied.drawn(np.clip(shares, 1e-12, 1 - 1e-12)), client)
    _refuse_failed(varied, rows, shares)
    found = [
        analyse.analyze(problem, y, calc_second_order=False, conf_level=CONFIDENCE, seed=seed)
        if np.ptp(y) > 0 else {w: np.zeros(k) for w in ("S1", "ST", "S1_conf", "ST_conf")}
        for y in rows.T
    ]  # fmt: skip
    first, total, first_band, total_band = (np.array([f[w] for f in found]) for w in ("S1", "ST", "S1_conf", "ST_conf"))
    names = tuple(varied.names), varied.design.names
    return Sensitivities(*names, "sobol", first, total, first_band, total_band, None, len(rows), remark)


def _refuse_failed(varied: Varied, rows: np.ndarray, shares: np.ndarray) -> None:
    failed = np.flatnonzero(~np.all(np.isfinite(rows), axis=1))
    if len(failed):
        x = varied.drawn(np.clip(shares[failed[:1]], 1e-12, 1 - 1e-12))[0]
        where = ", ".join(f"{n} = {v:.6g}" for n, v in varied.design.named(x).items())
        raise DalembertError(
            f"{len(failed)} of {len(rows)} machines lack these numbers, the first at {where}. {varied.asked.reason(x)}"
            " Indices of what is left would be wrong; narrow what varies."
        )


# ---- uncertainty -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How quantities spread. `print` it.

    `mean`, `deviation` and `covariance` of the quantities; of "monte-carlo" besides `quantiles` (2.5, 50, 97.5 %), the
    half width of the 95 % bands of mean and deviation, all `values` (a row for each machine) and the designs; `failed`
    machines have no numbers and are left out.
    """

    quantities: tuple[str, ...]
    units: tuple[str, ...]
    method: str
    mean: np.ndarray
    deviation: np.ndarray
    covariance: np.ndarray
    mean_band: np.ndarray | None = None
    deviation_band: np.ndarray | None = None
    quantiles: np.ndarray | None = None
    values: np.ndarray | None = field(default=None, repr=False)
    designs: np.ndarray | None = field(default=None, repr=False)
    failed: int = 0
    remark: str = ""

    def __repr__(self) -> str:
        lines = []
        for k, (name, unit) in enumerate(zip(self.quantities, self.units, strict=True)):
            line = f"{name}: {self.mean[k]:.6g} ± {self.deviation[k]:.3g}{' ' + unit if unit else ''}"
            if self.quantiles is not None and self.mean_band is not None:
                low, _, high = self.quantiles[:, k]
                line += f", 95 % within {low:.5g} … {high:.5g}; mean known to ± {self.mean_band[k]:.2g}"
            lines.append(line)
        return "\n".join([*lines, *([self.remark] if self.remark else [])])


def uncertainty(
    model: Model | AbstractSystem,
    vary: Mapping[str, Any],
    measure: Quantity | Sequence[Quantity],
    *,
    method: str = "linear",
    count: int = 1000,
    seed: int = 0,
    correlation: Any = None,
    client: Any = None,
    through: Any = None,
    **task: Any,
) -> Uncertainty:
    """How quantities spread when numbers of a machine do.

    **Arguments**

    - `vary`: {"crank.mass": Normal(1.0, 0.05), "rod.length": (0.9, 1.1), …}: a normal distribution, bounds of a
      uniform one, or any distribution of `scipy.stats`. `correlation`: {("a", "b"): 0.5}, or a matrix.
    - `measure`: quantities. `method`: "linear" (J Σ Jᵀ by derivatives at the means: one run) or "monte-carlo" (`count`
      machines). `task`: what the motion needs, as in `optimise`. `client`: a Dask client.

    **Returns** an `Uncertainty`.

        >>> import dalembert as da
        >>> from dalembert.studies import Normal, resting, uncertainty
        >>> model = da.Model("balance", gravity=(0, -9.81))
        >>> bar = model.body("bar", mass=2.0, inertia=0.1, position=(0.5, 0), angle=0.0)
        >>> pin = model.revolute("pin", model.ground, bar, at=(0, 0))
        >>> spring = model.joint_spring("spring", "pin", stiffness=30.0)
        >>> found = uncertainty(model, {"spring.stiffness": Normal(30.0, 0.3)}, resting("pin.angle"))
        >>> round(float(found.deviation[0]), 5)
        0.00283
    """
    refuse_counts(count=count)
    refuse_seed(seed)
    refuse_client(client)
    varied = Varied(model, vary, measure, task, correlation, through)
    names, units = tuple(varied.names), tuple(varied.units().values())
    if method == "linear":
        y, J = varied.slopes()
        C = J @ varied.covariance @ J.T
        return Uncertainty(names, units, method, y, np.sqrt(np.diag(C)), C)
    if method != "monte-carlo":
        raise DalembertError(f"method={method!r} is unknown; use 'linear' or 'monte-carlo'.")
    if count < 10:
        raise DalembertError(f"count={count}: take ten machines at least.")
    X = varied.drawn(np.random.default_rng(seed).random((count, len(varied.design))))
    rows = batch_of(varied.asked, X, client)
    fine = np.all(np.isfinite(rows), axis=1)
    values, n = rows[fine], int(np.sum(fine))
    if n < 10:
        raise DalembertError(f"Only {n} of {count} machines have such numbers: {varied.asked.reason(X[~fine][0])}")
    from scipy import stats

    C = np.atleast_2d(np.cov(values.T))
    sd = np.sqrt(np.diag(C))
    width = float(stats.norm.ppf(0.5 + CONFIDENCE / 2))
    fourth = np.mean((values - values.mean(axis=0)) ** 4, axis=0)
    variance_band = width * np.sqrt(np.maximum(fourth - sd**4, 0.0) / n)
    remark = ""
    if n < count:
        remark = (
            f"{count - n} of {count} machines have no such numbers and are left out: {varied.asked.reason(X[~fine][0])}"
        )
    tails = [50 * (1 - CONFIDENCE), 50.0, 50 * (1 + CONFIDENCE)]
    return Uncertainty(
        names, units, method, values.mean(axis=0), sd, C, width * sd / np.sqrt(n),
        variance_band / (2 * np.where(sd > 0, sd, 1.0)), np.percentile(values, tails, axis=0), values, X[fine],
        count - n, remark,
    )  # fmt: skip


# ---- worst cases -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The least and the largest value of a quantity within bounds, with the designs that have them."""

    least: Optimum
    largest: Optimum

    def __repr__(self) -> str:
        def at(best: Optimum) -> str:
            return ", ".join(f"{n} = {v:.6g}" for n, v in best.design.items())

        unit = self.least.objective.unit(self.least.machine.unit)
        unit = f" {unit}" if unit else ""
        return "\n".join([
            f"{self.least.objective.text} is at least {self.least.value:.6g}{unit}, at {at(self.least)}",
            f"and at most {self.largest.value:.6g}{unit}, at {at(self.largest)}.",
        ])  # fmt: skip


def worst_case(
    model: Model | AbstractSystem,
    vary: Mapping[str, Any],
    measure: Quantity,
    *,
    starts: int = 4,
    seed: int = 0,
    max_iterations: int = 200,
    through: Any = None,
    **task: Any,
) -> WorstCase:
    """The extremes of a quantity while numbers stay within bounds: searched by gradients from several designs.

    **Arguments**: `vary`, bounds as in `optimise`; `starts`, designs to begin from; `task`: what the motion needs,
    as in `optimise`.

        >>> import dalembert as da
        >>> from dalembert.studies import resting, worst_case
        >>> model = da.Model("balance", gravity=(0, -9.81))
        >>> bar = model.body("bar", mass=2.0, inertia=0.1, position=(0.5, 0), angle=0.0)
        >>> pin = model.revolute("pin", model.ground, bar, at=(0, 0))
        >>> spring = model.joint_spring("spring", "pin", stiffness=30.0)
        >>> found = worst_case(model, {"spring.stiffness": (20.0, 40.0)}, resting("pin.angle"), starts=1)
        >>> round(found.least["spring.stiffness"], 6), round(found.largest["spring.stiffness"], 6)
        (20.0, 40.0)
    """
    began = time.perf_counter()
    refuse_counts(starts=starts, max_iterations=max_iterations)
    refuse_seed(seed)
    machine = Machine(model, names_of(vary, '{"crank.mass": (0.5, 2.0)}'), task_of(task), through)
    bounds, sought = bounds_of(machine.design, vary), quantity(measure)
    found, asked = [], None
    for sign in (1.0, -1.0):
        search = Search(machine, bounds, sought, (), sign, asked)
        asked = search.asked
        x, message = best_of(search, search.first(None), "slsqp", starts, seed, max_iterations)
        found.append(search.optimum(x, message, "slsqp", began))
    return WorstCase(*found)


def task_of(given: Mapping[str, Any]) -> Task:
    """The task that is meant by keyword arguments; what is none of its own is an option of `simulate`."""
    own = {k: given[k] for k in TASK if k in given}
    hold = own.pop("hold", ())
    own["hold"] = (hold,) if isinstance(hold, str) else tuple(hold)
    own["inputs"] = own.get("inputs") or {}
    return Task(**own, options={k: v for k, v in given.items() if k not in TASK})
