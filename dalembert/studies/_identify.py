"""8 · studies: `identify`: the numbers of a machine that agree best with measured data, how sure they are, and which of
them the data determine at all."""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import Array
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule
from dalembert.stabilise import State
from dalembert.studies._consistent import Consistent
from dalembert.studies._evaluate import Context, quiet
from dalembert.studies._identified import Identified
from dalembert.studies._machine import Machine, Task, transmits
from dalembert.studies._vary import refuse_counts
from dalembert.studies._verdict import RANK, Verdict, verdict_of
from dalembert.systems import AbstractSystem, compiled_alone

if TYPE_CHECKING:
    import xarray as xr

RTOL = 1e-10
"""Tolerance of motions, where none is given: exact derivatives tell a dependence from a weak effect."""
EXACTLY = 1e-12
"""Least noise that is estimated, as a share of what is measured: rounding leaves that much of data without any."""
QUIET = 1e-6
"""Noise that is estimated, as a share of what is measured, below which names are not weighed against each other."""
WEIGHED = 20
"""How often they are weighed anew, at most."""
ALIKE = 1e-3
"""Change of all estimated noises by which they are the same."""
FITTED = 1e-10
"""Change of the scaled numbers, and of the sum of squares, below which the search ends."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """What was measured in one motion, and how the machine was run.

    `data`: times and measured numbers, {"time": …, "tip.x": …} or an `xarray.Dataset` along `time` (names: those that
    `model.measure` gave, or joint coordinates; NaN where a value is missing). `inputs`: what the inputs of the model
    were; `state`: where it started; both default to the model's. `t0`: the start of the motion, before the first time.
    """

    data: Mapping[str, Any] | xr.Dataset
    inputs: Mapping[str, Any] = field(default_factory=dict)
    state: State | tuple | None = None
    t0: float | None = None

    @functools.cached_property
    def course(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Times and values by name."""
        if "time" not in self.data:
            raise DalembertError("The data have no 'time': give {'time': times, 'tip.x': values, …}.")
        names: list[Any] = [n for n in (getattr(self.data, "data_vars", None) or self.data) if n != "time"]
        for n in names:
            if not isinstance(n, str):
                raise DalembertError(f"The data: {n!r} is no name of what was measured, such as 'tip.x'.")
        try:
            times = np.asarray(self.data["time"], float)
            values = {n: np.asarray(self.data[n], float) for n in names}
        except (TypeError, ValueError) as error:
            raise DalembertError(f"The data must be numbers: {error}.") from None
        if times.ndim != 1 or len(times) < 2 or not np.all(np.diff(times) > 0) or not np.all(np.isfinite(times)):
            raise DalembertError("The times of the data must be rising numbers, two at least.")
        if not values:
            raise DalembertError("The data have times but no measured numbers: {'time': times, 'tip.x': values}.")
        for name, x in values.items():
            if x.shape != times.shape:
                raise DalembertError(
                    f"The data of '{name}' must be {len(times)} numbers, one for each time, not {x.shape}."
                )
            if np.any(np.isinf(x)):
                raise DalembertError(f"The data of '{name}' are infinite; give NaN where a value is missing.")
            if not np.any(np.isfinite(x)):
                raise DalembertError(f"The data of '{name}' have no finite number.")
        return times, values


class Predictor:
    """The measured numbers of one experiment as a function of the variables, in units of their noise."""

    over_motion: tuple[str, ...]
    at_rest: tuple[str, ...] = ()

    def __init__(self, machine: Machine, names: Sequence[str]):
        self.machine, self.over_motion = machine, tuple(names)
        machine.columns(names)
        self.remarks = machine.refuse_open(names)
        if any(transmits(machine.system, k) for where, k in machine.columns(names).values() if where == "y"):
            _ = machine.rule

    @functools.cached_property
    def along(self) -> Callable:
        """`__call__` with derivatives by x that are found forward, whatever asks for them: optimistix linearises, which
        a march that carries its derivatives along has no rule for."""

        @jax.custom_jvp
        def predicted(x, home):
            return self(x, home)

        @predicted.defjvp
        def _(primals, tangents):
            x, home = primals

            def twice(x):
                y = self(x, home)
                return y, y

            J, y = jax.jacfwd(twice, has_aux=True)(x)
            return y, J @ tangents[0]

        return predicted

    def __call__(self, x: Array, home: Array | None = None) -> Array:
        """(times, channels); NaN where the machine does not get through its motion. `home` is a design that can be
        assembled, which is run where x cannot."""
        closed = jnp.asarray(True)
        if home is not None:
            closed = Context(self, x).closed  # type: ignore[arg-type]
            x = jnp.where(closed, x, home)
        at = Context(self, x)  # type: ignore[arg-type]
        _, y = at.course(self.over_motion)
        return jnp.where(functools.reduce(jnp.logical_and, at.fine) & closed, y, jnp.nan)

    @functools.cached_property
    def slopes(self) -> Callable:
        """Values, and derivatives (times, channels, variables)."""

        def both(x):
            def twice(x):
                y = self(x)
                return y, y

            return jax.jacfwd(twice, has_aux=True)(x)

        return compiled_alone(both)


def identify(
    model: Model | AbstractSystem,
    data: Mapping[str, Any] | xr.Dataset | Experiment | Sequence[Experiment],
    parameters: Sequence[str] | Mapping[str, Any],
    *,
    noise: Mapping[str, float] | float | None = None,
    driven: bool = False,
    hold: Sequence[str] = (),
    rule: AbstractReactionRule | str | None = None,
    through: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    sensors: Mapping[str, float] | Sequence[str] = (),
    experiments: Mapping[str, Experiment] | None = None,
    max_steps: int = 100,
    **options: Any,
) -> Identified:
    """The parameters of a machine for which its motion agrees best with data, and what the data say about them.

    **Arguments**

    - `model`: a model or a system, with its numbers as first guesses. `data`: one `Experiment`, or several; or plain
      data, {"time": …, "tip.x": …} or an `xarray.Dataset`.
    - `parameters`: names as in `optimise`: "crank.mass", "rod.inertia", "B.point_j.x", "rod.centre"; or with first
      guesses, {"crank.mass": 2.0}. Masses, inertias and other numbers that must be positive stay so; the tensor of a
      body stays that of a real one (log-Cholesky factors of its density).
    - `noise`: the standard deviation of each measured number, by name or one for all; where none is given those of all
      names are estimated from what is left, each by its own.
    - `driven`: drivers determine the motion (`da.kinematics`). `hold`, `rule`, `through`: as in `optimise`; `options`
      as for `da.simulate`. `max_steps`: the most steps of the search.
    - `sensors`: numbers that could be measured besides, with their noise; `experiments`: motions that could be measured
      besides (their data give times and names; values are not used). The verdict says which of them would determine
      what the data leave open.

    **Returns** an `Identified`: values, covariance, and for each parameter whether the data determine it, only in a
    combination with others, or not at all.

        >>> import numpy as np
        >>> import dalembert as da
        >>> from dalembert.studies import identify
        >>> model = da.Model("swing", gravity=(0, -9.81))
        >>> bob = model.body("bob", mass=2.0, inertia=0.3, position=(0.5, 0))
        >>> pin = model.revolute("pin", model.ground, bob, at=(0, 0))
        >>> times = np.linspace(0.1, 1.0, 10)
        >>> angle = da.simulate(model, 1.0, samples=times).dataset.coordinate.values[:, 0]
        >>> found = identify(model, {"time": times, "pin.angle": angle}, {"bob.mass": 2.0, "bob.inertia": 0.2})
        >>> found.verdict["bob.mass"].word
        'in a combination'
        >>> round(found["bob.inertia"] / found["bob.mass"], 6)
        0.15

    Levenberg's and Marquardt's method on exact derivatives. [Wensing, Kim, Slotine 2018; Rucker, Wensing 2022:
    physically consistent inertias; Gautier, Khalil 1990: base parameters.]
    """
    began = time.perf_counter()
    runs = _experiments(data)
    refuse_counts(max_steps=max_steps)
    parameters = [parameters] if isinstance(parameters, str) else parameters
    if not isinstance(parameters, Mapping | Sequence):
        raise DalembertError(f"parameters: name what is sought, ['crank.mass']; got {parameters!r}.")
    guesses = dict(parameters) if isinstance(parameters, Mapping) else {}
    names = list(parameters)
    hold = (hold,) if isinstance(hold, str) else tuple(hold)
    options = dict(options) if driven else {"rtol": RTOL, **options}

    def predictor(run: Experiment, channels: Sequence[str]) -> Predictor:
        times, _ = run.course
        t0 = min(0.0, float(times[0])) if run.t0 is None else run.t0
        task = Task(float(times[-1]), t0, times, driven, run.state, hold, dict(run.inputs), rule, options)
        return Predictor(Machine(model, names, task, through), channels)

    sigma = _noises(noise, runs)
    made = [predictor(run, list(run.course[1])) for run in runs]
    design = made[0].machine.design
    sensed = _sensed(sensors, made[0].machine)
    for label, run in (experiments or {}).items():
        if not isinstance(run, Experiment):
            raise DalembertError(f"experiments: '{label}' must be an Experiment, not {run!r}.")
        made[0].machine.columns(list(run.course[1]))
    wanted = [np.stack(list(run.course[1].values()), axis=1) for run in runs]
    scaled = [np.array([1.0 if sigma is None else sigma[n] for n in run.course[1]]) for run in runs]
    first = design.start
    given = design.given(guesses, "parameters") if guesses else np.full(len(design), np.nan)
    first = np.where(np.isfinite(given), given, first)
    if not np.all(np.isfinite(first)):
        raise DalembertError("With through= give a first guess for each name: parameters={'length': 0.5}.")
    design.checked(first)
    for p in made:
        if p.machine.closed(first) is None:
            raise DalembertError(f"'{p.machine.system.name}' cannot be assembled with the first guesses; give others.")
    if noise is None:  # all channels alike, each as large as it moves
        sizes = {n: _size([run.course[1][n] for run in runs if n in run.course[1]]) for r in runs for n in r.course[1]}
        scaled = [np.array([sizes[n] for n in run.course[1]]) for run in runs]
    consistent = Consistent(design, first)
    fit = Fit(made, wanted, scaled, consistent, first, max_steps, noise is None)
    found = answered(fit, runs, began)
    _tell_candidates(found.verdict, made[0], found.x, sensed, experiments or {}, predictor, consistent)
    return found


def _sensed(sensors, machine: Machine) -> dict[str, float | None]:
    """Numbers that could be measured besides, with their noise where it is known; refused by name."""
    given = (sensors,) if isinstance(sensors, str) else sensors
    noises = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given)
    machine.columns(list(noises))
    for name, s in noises.items():
        if s is not None and not _is_noise(s):
            raise DalembertError(f"sensors: the noise of '{name}' must be a positive number, not {s!r}.")
    return noises


def _is_noise(s: Any) -> bool:
    number = isinstance(s, int | float | np.number) and not isinstance(s, bool)
    return bool(number and np.isfinite(s) and s > 0)


def answered(fit: Fit, runs: Sequence[Experiment], began: float) -> Identified:
    """The answer to a sum of squares; `runs` are the experiments it is made of."""
    made, design = fit.made, fit.made[0].machine.design
    x, steps, message = fit.search()
    y, J = fit.slopes(x)
    names = [list(run.course[1]) for run in runs]
    for _ in range(WEIGHED if fit.estimated else 0):
        scaled = fit.weighed(names, x, y, J)
        if scaled is None:
            break
        fit = fit.of(fit.wanted, scaled)
        x, more, message = fit.search(x)
        y, J = fit.slopes(x)
        steps += more
    left = fit.misfits(x, y)
    count = int(sum(np.sum(np.isfinite(w)) for w in fit.wanted))
    spread = 1.0
    if fit.estimated:
        spread = max(float(np.sqrt(np.sum(left**2) / max(count - fit.rank(x, J), 1))), EXACTLY)
    weighted = np.concatenate([j.reshape(-1, len(design)) for j in J]) / spread
    large = np.concatenate([_amplitudes(v, s * spread) for v, s in zip(y, fit.scaled, strict=True)])
    return Identified(
        machine=made[0].machine, x=x, first=fit.first,
        verdict=verdict_of(design, x, weighted, fit.consistent.sizes(x), large), predicted=tuple(y),
        experiments=tuple(runs), residual=float(np.sqrt(np.sum(left**2) / max(count, 1))),
        noise={n: float(s * spread) for run, row in zip(runs, fit.scaled, strict=True)
               for n, s in zip(run.course[1], row, strict=True)},
        estimated=fit.estimated, count=count, steps=steps, message=message,
        remarks=tuple(dict.fromkeys(r for p in made for r in p.remarks)), wall_s=time.perf_counter() - began, fit=fit,
    )  # fmt: skip


def repeated_by(found: Identified, data) -> Identified:
    """The answer to other data of the same experiments; nothing is compiled anew."""
    began, runs = time.perf_counter(), _experiments(data)
    if len(runs) != len(found.experiments):
        raise DalembertError(f"again: give data of {len(found.experiments)} experiments, as before; got {len(runs)}.")
    again = []
    for old, new in zip(found.experiments, runs, strict=True):
        (times, values), (before, names) = new.course, old.course
        if not np.array_equal(times, before) or set(values) != set(names):
            raise DalembertError(
                f"again: the data must have the same times and names as before ({', '.join(names)}); call identify for "
                "other ones."
            )
        again.append(dataclasses.replace(old, data={"time": times, **{n: values[n] for n in names}}))
    wanted = [np.stack(list(run.course[1].values()), axis=1) for run in again]
    return answered(found.fit.of(wanted, found.fit.given), again, began)


def _experiments(data) -> list[Experiment]:
    runs: Any = [data] if isinstance(data, Experiment) else data
    if isinstance(runs, Mapping) or hasattr(runs, "data_vars"):
        runs = [Experiment(runs)]
    runs = list(runs) if isinstance(runs, Sequence) else []
    if not runs or any(not isinstance(r, Experiment) for r in runs):
        raise DalembertError("data: give {'time': times, 'tip.x': values}, a Dataset, or a list of Experiment.")
    return runs


def _size(values: list[np.ndarray]) -> float:
    spread = float(np.nanstd(np.concatenate(values)))
    return spread or float(np.nanmax(np.abs(np.concatenate(values)))) or 1.0


def _noises(noise, runs: Sequence[Experiment]) -> dict[str, float] | None:
    """The standard deviation of each measured number."""
    if noise is None:
        return None
    names = list(dict.fromkeys(n for run in runs for n in run.course[1]))
    given: dict[str, Any] = dict(noise) if isinstance(noise, Mapping) else dict.fromkeys(names, noise)
    for n in names:
        if n not in given:
            raise DalembertError(f"noise: say the standard deviation of '{n}' as well.")
        value = given[n]
        if not _is_noise(value):
            raise DalembertError(f"noise: that of '{n}' must be a positive number, not {value!r}.")
    return {n: float(given[n]) for n in names}


class Fit:
    """The sum of squares of all experiments."""

    def __init__(
        self, made: list[Predictor], wanted: list[np.ndarray], scaled: list[np.ndarray], consistent: Consistent,
        first: np.ndarray, most: int, estimated: bool,
    ):  # fmt: skip
        """`wanted` are the data, each in units of `scaled` (`estimated`: noise is so many of these units); the search
        begins at `first` and takes `most` steps."""
        self.made, self.wanted, self.scaled, self.consistent = made, wanted, scaled, consistent
        self.given = scaled
        self.first, self.most, self.estimated = first, most, estimated

    def of(self, wanted: list[np.ndarray], scaled: list[np.ndarray] | None = None) -> Fit:
        """The same for other data, or other units of them; what is compiled is shared."""
        other = copy.copy(self)
        other.wanted, other.scaled = wanted, self.scaled if scaled is None else scaled
        return other

    def _hats(self, x: np.ndarray, J: list[np.ndarray]) -> np.ndarray:
        """An orthonormal basis of what the variables can change in the data: as many columns as they determine."""
        rows = np.concatenate([j.reshape(-1, len(x)) for j in J]) * self.consistent.sizes(x)
        U, values, _ = np.linalg.svd(rows, full_matrices=False)
        return U[:, values > RANK * np.max(values, initial=0.0)]

    def rank(self, x: np.ndarray, J: list[np.ndarray]) -> int:
        """How many numbers the data determine."""
        return self._hats(x, J).shape[1]

    def weighed(self, names: list[list[str]], x: np.ndarray, y: list[np.ndarray], J: list[np.ndarray]):
        """Units of the data in which each name has the noise that is left of it, so that all count by how sure they
        are; None where these are the units already, or nothing is known of one name."""
        used = np.sum(self._hats(x, J) ** 2, axis=1)  # of each number the part that the variables take up
        left, there = self.misfits(x, y), np.concatenate([np.isfinite(w).ravel() for w in self.wanted])
        owner = np.concatenate([np.tile(own, len(w)) for own, w in zip(names, self.wanted, strict=True)])
        ratio, share = {}, {}
        now, first = ({n: s for own, row in zip(names, rows, strict=True) for n, s in zip(own, row, strict=True)}
                      for rows in (self.scaled, self.given))  # fmt: skip
        for name in now:
            own = (owner == name) & there
            free = float(np.sum(own) - np.sum(used[own]))
            if free < 0.5 * np.sum(own):  # the variables follow its noise
                return None
            ratio[name] = float(np.sqrt(np.sum(left[own] ** 2) / free))
            share[name] = ratio[name] * now[name] / first[name]
        if max(share.values()) < QUIET:
            return None
        new = {n: max(share[n], QUIET) * first[n] for n in now}
        change = np.array([new[n] / now[n] for n in now])
        if np.ptp(change) <= ALIKE * np.max(change):
            return None
        return [np.array([new[n] for n in own]) for own in names]

    @functools.cached_property
    def _solve(self) -> Callable:
        import optimistix

        solver = optimistix.LevenbergMarquardt(rtol=FITTED, atol=FITTED)

        def misfits(z, args):
            home, wanted, scaled = args
            x = self.consistent.of(z)
            out = [
                jnp.where(jnp.isfinite(w), (p.along(x, home) - jnp.nan_to_num(w)) / s, 0.0).ravel()
                for p, w, s in zip(self.made, wanted, scaled, strict=True)
            ]
            return jnp.concatenate(out)

        def solve(z, home, wanted, scaled, most):
            found = optimistix.least_squares(
                misfits, solver, z, (home, wanted, scaled), options={"jac": "fwd"}, max_steps=most, throw=False
            )
            return found.value, found.stats["num_steps"], found.result == optimistix.RESULTS.successful

        return compiled_alone(solve, static=[4])

    def search(self, first: np.ndarray | None = None) -> tuple[np.ndarray, int, str]:
        """The least sum of squares, from `first` on; how many steps that took, and how it ended."""
        first, most = self.first if first is None else first, self.most
        with quiet():
            z, steps, fine = self._solve(self.consistent.start(first), first, self.wanted, self.scaled, most)
        x = np.asarray(self.consistent.of(np.asarray(z)))
        if not np.all(np.isfinite(x)):
            raise DalembertError("The search left the numbers that a machine can have; give better first guesses.")
        word = "converged" if bool(fine) else f"stopped after {most} steps without converging"
        return x, int(steps), f"Levenberg and Marquardt's method {word} ({int(steps)} steps)."

    def slopes(self, x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What is predicted, and its derivatives in units of the noise; zero where nothing was measured."""
        values, slopes = [], []
        for p, w, s in zip(self.made, self.wanted, self.scaled, strict=True):
            with quiet():
                J, y = p.slopes(x)
            J, y = np.asarray(J), np.asarray(y)
            if not np.all(np.isfinite(y)) or not np.all(np.isfinite(J)):
                raise DalembertError(
                    f"The motion of '{p.machine.system.name}' has no derivatives at the estimate: it passes a singular "
                    "position, or does not reach its end. Give other first guesses, or data of another motion."
                )
            values.append(y)
            slopes.append(np.where(np.isfinite(w)[:, :, None], J, 0.0) / s[:, None])
        return values, slopes

    def misfits(self, x: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        out = [((y - w) / s).ravel() for y, w, s in zip(values, self.wanted, self.scaled, strict=True)]
        return np.nan_to_num(np.concatenate(out))


def _tell_candidates(
    found: Verdict, first: Predictor, x, noises: Mapping[str, float | None], experiments, predictor, consistent
) -> None:
    """Which sensors and experiments would determine what the data leave open."""
    design = first.machine.design
    if found.complete or not (noises or experiments):
        return
    candidates: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def looked_at(p: Predictor) -> tuple[np.ndarray, np.ndarray]:
        with quiet():
            J, y = p.slopes(x)
        return np.asarray(J), np.asarray(y)

    if noises:
        J, y = looked_at(Predictor(first.machine, list(noises)))
        for k, (name, s) in enumerate(noises.items()):
            s = np.array([s or float(np.std(y[:, k])) or 1.0])
            candidates[f"a sensor of '{name}'"] = J[:, k] / s, _amplitudes(y[:, k : k + 1], s)
    for label, run in experiments.items():
        J, y = looked_at(predictor(run, list(run.course[1])))
        s = np.where(np.std(y, axis=0) > 0, np.std(y, axis=0), 1.0)
        candidates[f"the experiment '{label}'"] = (J / s[:, None]).reshape(-1, len(design)), _amplitudes(y, s)
    for name, (rows, large) in candidates.items():
        if np.all(np.isfinite(rows)):
            both = np.concatenate([found.rows, rows]), np.concatenate([found.amplitudes, large])
            more = verdict_of(design, x, both[0], consistent.sizes(x), both[1])
            found.candidates[name] = tuple(n for n in more.determined if n not in found.determined)
            found.ranks[name] = more.rank - found.rank


def _amplitudes(y: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    """The size of each measured number's course, in units of its noise, for each row of derivatives."""
    top = np.max(np.abs(y), axis=0)
    return np.ravel(np.broadcast_to(np.where(top > 0, top, 1.0) / scaled, y.shape))
