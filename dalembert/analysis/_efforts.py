"""7 · analysis: `InverseDynamics`: the efforts of actuators along a motion, in numbers, with names and as text."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from dalembert._results import ActuationWarning, DalembertError, did_you_mean, warn_caller
from dalembert._typing import Array, is_traced
from dalembert.model import Actuator, Model
from dalembert.simulation import Solution, simulate
from dalembert.systems import AbstractSystem, State, compiled_for_each

if TYPE_CHECKING:
    import xarray as xr

UNFOLLOWED = 1e-7
"""A motion counts as not followed from this share of the forces along freedoms that no actuator moves."""
LOOSE = 1e-6
"""An effort is not unique from this share of it in the null space of the actuators."""
FINER = 16
"""Points between two times at which power is looked at for the work done in one sense."""


class InverseDynamics(eqx.Module):
    """Efforts of actuators along a motion. `print` it, or read the fields; `as_dict` is the JSON form.

    Under `jit` and `jvp` use the arrays: `effort` (times, actuators), `speed` (what each works on, Bᵀv), `missing`
    (accelerations that cannot be made, of the system's velocities), `left` (their size relative to the forces), `loose`
    (0 where an effort is unique). On the host `dataset`, `peak`, `rms`, `power`, `energy`, `unique`, `followed`,
    `missing_by_coordinate`, `plot()`, `to_netcdf(path)`, `as_inputs()`, `forward()`.

    `rule` names what picked efforts that are not unique. `system` is the machine in which each effort is an input, as
    is `model`; `moved` how far recorded data were from the constraints.
    """

    system: AbstractSystem
    t: Float[Array, " times"]
    q: Float[Array, "times nq"]
    v: Float[Array, "times n"]
    vdot: Float[Array, "times n"]
    effort: Float[Array, "times actuators"]
    loose: Float[Array, "times actuators"]
    speed: Float[Array, "times actuators"]
    missing: Float[Array, "times n"]
    left: Float[Array, " times"]
    able: Float[Array, " times"]
    freedoms: Float[Array, " times"]
    actuators: tuple[Actuator, ...] = eqx.field(static=True)
    rule: str = eqx.field(static=True)
    limits: tuple[float, ...] | None = eqx.field(static=True, default=None)
    moved: tuple[tuple[str, float], ...] = eqx.field(static=True, default=())

    # ---- what they are -----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def names(self) -> tuple[str, ...]:
        """The actuators, in order."""
        return tuple(a.name for a in self.actuators)

    @property
    def units(self) -> dict[str, str]:
        """The unit of each effort."""
        return {a.name: a.unit for a in self.actuators}

    def __getitem__(self, actuator: str) -> np.ndarray:
        """The effort of one actuator over time."""
        if actuator not in self.names:
            raise DalembertError(
                f"There is no actuator '{actuator}'; there are {', '.join(self.names)}."
                f"{did_you_mean(str(actuator), self.names)}"
            )
        return np.asarray(self.effort)[:, self.names.index(actuator)]

    @property
    def start(self) -> State:
        """The first state of the motion."""
        return State(np.asarray(self.q)[0], np.asarray(self.v)[0])

    @property
    def model(self) -> Model:
        """The model in which each effort is an input; drivers that are actuators are forces, released ones are gone."""
        bodies = self.system.bodies
        if bodies is None or not bodies.origin.known:
            raise DalembertError(f"'{self.name}' was not built from a model; simulate its `system`.")
        return bodies.origin.model()

    # ---- sizes --------------------------------------------------------------------------------------------

    def _each(self, values: np.ndarray) -> dict[str, float]:
        return {name: float(x) for name, x in zip(self.names, values, strict=True)}

    @property
    def peak(self) -> dict[str, float]:
        """The largest |effort| of each actuator at the times of the motion."""
        return self._each(np.max(np.abs(np.asarray(self.effort)), axis=0))

    @property
    def rms(self) -> dict[str, float]:
        """The root of the mean square of each effort over time."""
        t, tau = np.asarray(self.t), np.asarray(self.effort)
        if len(t) < 2:
            return self._each(np.abs(tau[0]))
        return self._each(np.sqrt(np.maximum(_integrated(t, tau**2), 0.0) / (t[-1] - t[0])))

    @property
    def power(self) -> Any:
        """The power of each actuator over time, effort · speed, (times, actuators); in W."""
        return self.effort * self.speed

    @property
    def energy(self) -> dict[str, float]:
        """The work of each actuator over the whole motion, in J: what it gives less what it takes back."""
        return self._each(_integrated(np.asarray(self.t), np.asarray(self.power)))

    @property
    def energy_given(self) -> dict[str, float]:
        """The same without what is taken back: the work while the power is positive."""
        t, power = np.asarray(self.t), np.asarray(self.power)
        if len(t) < 2:
            return self._each(np.zeros(len(self.names)))
        steps = np.arange(len(t) - 1)[:, None] + np.arange(FINER) / FINER
        fine = np.append(np.interp(steps.ravel(), np.arange(len(t)), t), t[-1])
        values = np.maximum(_spline(t, power)(fine), 0.0)
        return self._each(np.trapezoid(values, fine, axis=0))

    # ---- how sure they are -----------------------------------------------------------------------------------

    @property
    def unique(self) -> dict[str, bool]:
        """For each actuator whether its effort is the only one that makes this motion, at all times; what the rule has
        picked is not."""
        return self._each_flag(np.max(np.asarray(self.loose), axis=0) < LOOSE)

    def _each_flag(self, values) -> dict[str, bool]:
        return {name: bool(x) for name, x in zip(self.names, values, strict=True)}

    @property
    def followed(self) -> bool:
        """Whether the actuators can make the motion at all its times."""
        return bool(np.max(np.asarray(self.left), initial=0.0) <= UNFOLLOWED)

    @functools.cached_property
    def missing_by_coordinate(self) -> dict[str, np.ndarray]:
        """For each joint coordinate (without joints: each velocity) the acceleration that is asked for and that the
        actuators cannot make, over time; largest first, those without any left out."""
        labels, values, scales = self._missing
        largest = np.max(np.abs(values) / scales, axis=0, initial=0.0)
        wanted = np.max(np.abs(np.asarray(self.vdot)) / np.asarray(self.system.scale()), initial=0.0)
        loads = np.max(np.abs(np.asarray(self.missing)) / np.asarray(self.system.scale()), initial=0.0)
        if self.followed:
            return {}
        order = [k for k in np.argsort(-largest, kind="stable") if largest[k] > 1e-7 * max(wanted, loads)]
        return {labels[k]: values[:, k] for k in order}

    @functools.cached_property
    def _missing(self) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Names, missing accelerations (times, names) and typical sizes, of joint coordinates or of velocities."""
        bodies, system = self.system.bodies, self.system
        values, scales = np.asarray(self.missing), np.asarray(system.scale())
        labels = [system.velocity_label(k) for k in range(system.n)]
        if bodies is None:
            return labels, values, scales
        free = {f"{j.name}.{x.name}": x.is_angle for j in bodies.joints for x in j.coordinates if not j.driven}
        if not free:
            return labels, values, scales
        only = tuple(system.channels_named(f"{name}_rate")[0] for name in free)
        t, q = np.asarray(self.t), np.asarray(self.q)
        moved = np.asarray(_rates_all(system, only, t, q, values))
        size = float(bodies.size)
        return list(free), moved, np.array([1.0 if angle else size for angle in free.values()])

    def warn(self) -> None:
        """Say that the motion is not followed, and where."""
        warn_caller(self._unfollowed(), ActuationWarning)

    def _unfollowed(self) -> str:
        worst, k = list(self.missing_by_coordinate)[:4], int(np.argmax(np.asarray(self.left)))
        where = f", most of it at {', '.join(repr(x) for x in worst)}" if worst else ""
        able, freedoms = (round(float(np.max(x))) for x in (self.able, self.freedoms))
        return (
            f"These actuators cannot make this motion of '{self.name}': they move {able} of {freedoms} freedoms, and "
            f"{float(np.max(self.left)):.1e} of the forces lies along the others{where} (largest at "
            f"t = {float(self.t[k]):.6g} s). The efforts are those whose accelerations come nearest in the mass metric."
        )

    # ---- forward again ---------------------------------------------------------------------------------------

    def as_inputs(self, degree: int = 5) -> dict[str, Any]:
        """The efforts as functions of time, by the names of the inputs of `model` (and `system`): splines through the
        values, for `da.simulate(found.model, t_end, found.start, inputs=found.as_inputs())`."""
        from dalembert.functions import table

        t, tau = np.asarray(self.t), np.asarray(self.effort)
        if len(t) < 2:
            raise DalembertError("One instant makes no function of time; give a motion of several times.")
        degree = min(degree, len(t) - 1)
        return {a.input: table(t.tolist(), tau[:, k].tolist(), degree=degree) for k, a in enumerate(self.actuators)}

    def forward(self, **options) -> Solution:
        """The motion that the efforts make, integrated from the first state (`da.simulate` with `as_inputs`): the check
        of the inverse. `options` are those of `simulate`; default: at the times of the motion, rtol 1e-10."""
        options = {"samples": np.asarray(self.t), "rtol": 1e-10, "progress": False} | options
        return simulate(
            self.system, float(self.t[-1]), self.start, t0=float(self.t[0]), inputs=self.as_inputs(), **options
        )

    # ---- with names --------------------------------------------------------------------------------------------

    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        """All of it over time, labelled: `effort`, `power`, `speed` and `unique` by actuator, with units; `missing` by
        joint coordinate; the attribute `rule`."""
        import xarray as xr

        labels, missing, _ = self._missing
        both = ("time", "actuator")
        coords = {
            "time": ("time", np.asarray(self.t), {"units": "s"}),
            "actuator": list(self.names),
            "effort_units": ("actuator", [a.unit for a in self.actuators]),
            "input": ("actuator", [a.input for a in self.actuators]),
            "coordinate": labels,
        }
        note = f"rule: {self.rule}"
        data: dict[str, Any] = {
            "effort": (both, np.asarray(self.effort), {"long_name": note}),
            "power": (both, np.asarray(self.power), {"units": "W"}),
            "speed": (both, np.asarray(self.speed), {"long_name": "what the effort works on"}),
            "unique": (
                both,
                np.asarray(self.loose) < LOOSE,
                {"long_name": "whether no other effort makes this motion"},
            ),
            "missing": (("time", "coordinate"), missing, {"long_name": "accelerations that cannot be made"}),
            "left": ("time", np.asarray(self.left), {"units": "1", "long_name": "share of the forces not made"}),
            "peak": ("actuator", list(self.peak.values())),
            "rms": ("actuator", list(self.rms.values())),
            "energy": ("actuator", list(self.energy.values()), {"units": "J"}),
        }
        if self.limits is not None:
            data["limit"] = ("actuator", list(self.limits))
        attributes = {"model": self.name, "rule": self.rule_shown, "followed": int(self.followed)}
        return xr.Dataset(data, coords=coords, attrs=attributes)

    @property
    def rule_shown(self) -> str:
        """The rule, or "unique" where it picked nothing."""
        return "unique" if all(self.unique.values()) else self.rule

    def as_dict(self) -> dict:
        """Plain data, ready for JSON."""
        peak, rms, energy, given, unique = self.peak, self.rms, self.energy, self.energy_given, self.unique
        power = np.asarray(self.power)
        return {
            "name": self.name,
            "t": np.asarray(self.t).tolist(),
            "rule": self.rule_shown,
            "followed": self.followed,
            "freedoms": round(float(np.max(self.freedoms))),
            "able": round(float(np.max(self.able))),
            "left": float(np.max(self.left)),
            "moved": dict(self.moved),
            "actuators": [
                {
                    "name": a.name,
                    "input": a.input,
                    "unit": a.unit,
                    "meaning": a.meaning,
                    "unique": unique[a.name],
                    "peak": peak[a.name],
                    "rms": rms[a.name],
                    "peak_power": float(np.max(np.abs(power[:, k]))),
                    "energy": energy[a.name],
                    "energy_given": given[a.name],
                    "limit": None if self.limits is None else self.limits[k],
                    "effort": self[a.name].tolist(),
                    "power": power[:, k].tolist(),
                }
                for k, a in enumerate(self.actuators)
            ],
            "missing": {name: x.tolist() for name, x in self.missing_by_coordinate.items()},
        }

    def plot(self, path=None) -> Any:
        """A figure of efforts and power over time; saved to `path` if given."""
        from dalembert.view import plot_efforts

        return plot_efforts(self.dataset, path=path)

    def to_netcdf(self, path) -> Path:
        """Write the dataset as netCDF-4."""
        from dalembert.io import write_netcdf

        return write_netcdf(self.dataset, path)

    def to_csv(self, path) -> Path:
        """Write efforts and power over time as one table."""
        from dalembert.io import write_csv

        return write_csv(self.dataset, path)

    def __str__(self) -> str:
        if is_traced(self):
            return repr(self)
        t, power = np.asarray(self.t), np.abs(np.asarray(self.power))
        head = f"Inverse dynamics of '{self.name}': {t[0]:g} … {t[-1]:g} s, {len(t)} instants"
        head += f", {round(float(np.max(self.freedoms)))} freedoms, {len(self.names)} actuators"
        columns = [("actuator", *self.names), ("unit", *(a.unit for a in self.actuators))]
        for word, values in (("peak", self.peak), ("RMS", self.rms)):
            columns.append((word, *(f"{x:.5g}" for x in values.values())))
        columns.append(("peak power (W)", *(f"{x:.5g}" for x in np.max(power, axis=0))))
        columns.append(("work (J)", *(f"{x:.5g}" for x in self.energy.values())))
        columns.append(("unique", *("yes" if x else "no" for x in self.unique.values())))
        if self.limits is not None:
            share = [p / x for p, x in zip(self.peak.values(), self.limits, strict=True)]
            columns.append(("of limit", *(f"{100 * x:.3g} %" for x in share)))
        widths = [max(map(len, c)) for c in columns]
        lines = [head]
        for row in zip(*columns, strict=True):
            cells = [x.ljust(w) if k < 2 else x.rjust(w) for k, (x, w) in enumerate(zip(row, widths, strict=True))]
            lines.append(("  " + "  ".join(cells)).rstrip())
        if not all(self.unique.values()):
            lines.append(f"  where efforts are not unique they are picked by: {self.rule}")
        if not self.followed:
            lines.append(f"  {self._unfollowed()}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        if is_traced(self):
            return f"InverseDynamics of '{self.name}' (being traced)"
        return f"InverseDynamics of '{self.name}': {len(self.t)} instants, actuators {', '.join(self.names)}"

    def _repr_html_(self) -> str:
        from dalembert.view import html_words

        return html_words(str(self))


def _rates(system, only, t, q, v):
    return system.measured(t, q, v, only=only)


_rates_all = compiled_for_each(_rates, 3)


def _spline(t: np.ndarray, values: np.ndarray):
    from scipy.interpolate import make_interp_spline

    return make_interp_spline(t, values, k=min(5, len(t) - 1))


def _integrated(t: np.ndarray, values: np.ndarray) -> np.ndarray:
    """∫ values dt over the whole time, by the spline through them."""
    if len(t) < 2:
        return np.zeros(values.shape[1:])
    whole = _spline(t, values).antiderivative()
    return whole(t[-1]) - whole(t[0])
