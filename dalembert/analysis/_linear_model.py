"""7 · analysis: `Linearisation`: a linear model with its names: modes, responses, pictures, other packages."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert.analysis._free import FreeMotion, motion_of
from dalembert.analysis._modes import Eigen, Mode, OnBodies, eigen, followed, kinetic_shares, potential_shares
from dalembert.analysis._printed import Printed, reports
from dalembert.analysis._state_space import Asked, Jacobians, Minimal, StateSpace, jacobians
from dalembert.analysis._statics import equilibrium
from dalembert.reactions import Instant
from dalembert.stabilise import State, consistent_state
from dalembert.systems import AbstractSystem, compiled_for_each, compiled_quickly

if TYPE_CHECKING:
    import xarray as xr

AMPLITUDE = 0.1
"""Largest displacement of an animated mode, in machine sizes or radians."""
FRAMES, CYCLES = 48, 2
"""Pictures in a period of an animated mode, and periods."""


@dataclass(frozen=True)
class Channels:
    """What goes in and comes out, by number (`asked`) and by name."""

    asked: Asked
    inputs: tuple[str, ...]
    input_units: tuple[str, ...]
    order: tuple[int, ...]  # of the columns
    outputs: tuple[str, ...]
    output_units: tuple[str, ...]
    output_rules: tuple[str, ...]


class LinearModel(eqx.Module):
    """A linear model for other parameters: arrays, under jit and with forward derivatives.

    `eigenvalues` are those of the same modes, in the order of `Linearisation.modes`, followed from there by Newton's
    method: of simple ones; zero for rigid-body modes, NaN for repeated ones. Meant for small changes and derivatives:
    after a large change a mode may be taken for a near one, and `linearise` is to be called anew.
    """

    A: jax.Array
    B: jax.Array
    C: jax.Array
    D: jax.Array
    eigenvalues: jax.Array
    state: State

    @property
    def frequencies(self) -> jax.Array:
        """Undamped natural frequencies |λ|/2π of the modes, in Hz."""
        value = self.eigenvalues
        square = jnp.real(value) ** 2 + jnp.imag(value) ** 2
        return jnp.sqrt(jnp.where(square > 0, square, 1.0)) * (square > 0) / (2 * np.pi)

    @property
    def damping_ratios(self) -> jax.Array:
        """−Re λ/|λ| of the modes; 0 for rigid-body modes."""
        size = 2 * np.pi * self.frequencies
        return -jnp.real(self.eigenvalues) / jnp.where(size > 0, size, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Linearisation(Printed):
    """ẋ = A x + B u, y = C x + D u for small motions that keep the constraints. `print` it for its modes.

    x are minimal coordinates: displacements and velocities, orthonormal in the mass metric (as many as there are
    freedoms), then states of controllers; `basis` gives what each does to (δq, δv, δz). `inputs`, `outputs` and their
    units name the columns of B and the rows of C; `output_rules` says what picked an output: "unique", or a rule.
    `steady`: whether the state is an equilibrium or a steady motion; where it is not (`anywhere=True`), `remark` states
    what accelerates, and the eigenvalues are those of an instant only, not of a motion. `turning` is the rate at which
    a steady motion turns as a whole; displacements are then seen in axes that turn with it.
    """

    system: AbstractSystem
    start: State
    t: float
    channels: Channels
    minimal: Minimal = field(repr=False)
    found: Jacobians = field(repr=False)
    instant: Instant = field(repr=False)
    steady: bool = True
    remark: str = ""
    turning: np.ndarray | None = None

    # ---- the matrices ------------------------------------------------------------------------------------

    @functools.cached_property
    def _matrices(self) -> StateSpace:
        A, B, C, D = map(np.asarray, self.minimal.matrices(self.found))
        order = list(self.channels.order)
        return StateSpace(A, B[:, order], C, D[:, order])

    @property
    def A(self) -> np.ndarray:
        return np.asarray(self._matrices.A)

    @property
    def B(self) -> np.ndarray:
        return np.asarray(self._matrices.B)

    @property
    def C(self) -> np.ndarray:
        return np.asarray(self._matrices.C)

    @property
    def D(self) -> np.ndarray:
        return np.asarray(self._matrices.D)

    @property
    def basis(self) -> np.ndarray:
        """(δq, δv, δz) of each state, one a column; δq in the sense of `system.retract`. Of a machine in joint
        coordinates with ball joints or free bodies: of its bodies."""
        X_q, X_v, S = map(np.asarray, self.minimal.bases(self.found))
        n, nz = X_q.shape[0], len(self.channels.asked.states)
        (nq, nv), out = self.minimal.counts, np.zeros((2 * n + nz, sum(self.minimal.counts) + nz))
        out[:n, :nq], out[n : 2 * n, :nq], out[n : 2 * n, nq : nq + nv] = X_q, S, X_v
        out[2 * n :, nq + nv :] = np.eye(nz)
        return out

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def state(self) -> State:
        """The state about which it is linear, in the coordinates of `basis`."""
        return self.instant.state

    @property
    def states(self) -> tuple[str, ...]:
        """Names of x."""
        nq, nv = self.minimal.counts
        labels, own = self.system.control.labels, self.channels.asked.states
        return (
            *(f"position {k + 1}" for k in range(nq)),
            *(f"velocity {k + 1}" for k in range(nv)),
            *(labels[k] for k in own),
        )

    inputs = property(lambda self: self.channels.inputs, doc="Names of u.")
    outputs = property(lambda self: self.channels.outputs, doc="Names of y.")
    input_units = property(lambda self: self.channels.input_units, doc="Units of u.")
    output_units = property(lambda self: self.channels.output_units, doc="Units of y.")
    output_rules = property(lambda self: self.channels.output_rules, doc='For each of y "unique", or its rule.')

    # ---- modes -------------------------------------------------------------------------------------------

    @property
    def resting(self) -> bool:
        """Whether nothing moves."""
        return self.turning is None and not np.any(np.asarray(self.instant.state.v))

    @functools.cached_property
    def _eigen(self) -> Eigen:
        bodies, load = on_bodies(self.minimal, self.found, np.asarray(self.instant.system.scale()))
        return eigen(self.A, *self.minimal.counts, self.resting, load, bodies)

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of A, in 1/s: zeros, then pairs σ − iω, σ + iω by frequency |λ|, then real ones by size."""
        return self._eigen.values

    @functools.cached_property
    def modes(self) -> tuple[Mode, ...]:
        """Rigid-body modes (zero), oscillating ones by frequency, then real ones by rate; numbered from 1."""
        found = self._eigen
        if not len(found.kinds):
            return ()
        machine, q = self.system.machine, np.asarray(self.instant.state.q)
        displaced = self.basis @ found.vectors
        n = self.instant.system.n
        moved, speeds = (_on_machine(self.instant.system, q, x) for x in (displaced[:n], displaced[n : 2 * n]))
        sizes = np.asarray(machine.scale())[:, None]
        largest = np.argmax(np.abs(moved) / sizes, axis=0)
        every = np.arange(len(largest))
        lead = moved[largest, every] / sizes[largest, 0]
        still = np.max(np.abs(moved) / sizes, axis=0) <= 1e-12 * np.max(np.abs(found.vectors), axis=0)
        lead = np.where(still | (lead == 0), 1.0, lead)
        shapes = np.where(still, 0.0, moved / lead)
        none: list[dict[str, float]] = [{} for _ in found.kinds]
        kinetic, potential = none, none
        bodies = machine.bodies
        if bodies is not None:
            own = np.asarray(self.instant.on_bodies.q)
            zero = np.array([kind == "rigid-body" for kind in found.kinds])
            kinetic = kinetic_shares(bodies, own, np.where(zero, moved, speeds) / lead)
            if self.resting and self.steady:
                e = self.instant.equations
                lam = np.asarray(self.instant.among_joints.multipliers(np.asarray(e.h), np.asarray(e.Gamma)))
                potential = potential_shares(self.instant, lam, shapes)
                potential = [{} if zero[k] else x for k, x in enumerate(potential)]
        return tuple(
            Mode(
                number=k + 1,
                kind=kind,
                eigenvalue=complex(found.of_modes[k]),
                state=found.vectors[:, k] / lead[k],
                shape=shapes[:, k],
                motion=FreeMotion(()) if still[k] else motion_of(machine, np.abs(shapes[:, k])),
                kinetic=kinetic[k],
                potential=potential[k],
            )
            for k, kind in enumerate(found.kinds)
        )

    def mode(self, number: int) -> Mode:
        """The mode of this number; they are numbered from 1."""
        if not isinstance(number, int | np.integer) or not 1 <= number <= len(self.modes):
            there = f"numbered 1 … {len(self.modes)}" if self.modes else "none: nothing can move"
            raise DalembertError(f"'{self.name}' has no mode {number}; its modes are {there}.")
        return self.modes[number - 1]

    @property
    def stable(self) -> bool:
        """Whether no eigenvalue has a positive real part."""
        return bool(np.all(np.real(self.eigenvalues) <= 0))

    @property
    def frequencies(self) -> np.ndarray:
        """Undamped natural frequencies of the oscillating modes, in Hz, rising."""
        values = self._eigen.of_modes
        return np.array([abs(x) / (2 * np.pi) for x, k in zip(values, self._eigen.kinds, strict=True) if k[0] == "o"])

    # ---- responses ---------------------------------------------------------------------------------------

    def frequency_response(self, frequencies: Any) -> xr.DataArray:
        """C (iω − A)⁻¹ B + D at frequencies in Hz: complex, by output, input and frequency."""
        import xarray as xr

        self._need_channels("frequency_response")
        f = np.atleast_1d(np.asarray(frequencies, float))
        if f.ndim != 1 or not np.all(np.isfinite(f)):
            raise DalembertError("frequency_response takes frequencies in Hz, a list of finite numbers.")
        one = np.eye(len(self.A))
        values = np.zeros((len(self.outputs), len(self.inputs), len(f)), complex)
        for k, x in enumerate(f):
            try:
                values[:, :, k] = self.C @ np.linalg.solve(2j * np.pi * x * one - self.A, self.B) + self.D
            except np.linalg.LinAlgError:  # an undamped mode, exactly
                values[:, :, k] = np.inf
        return xr.DataArray(
            values,
            dims=("output", "input", "frequency"),
            coords={
                "output": list(self.outputs), "input": list(self.inputs),
                "frequency": ("frequency", f, {"units": "Hz"}),
                "output_units": ("output", list(self.output_units)), "input_units": ("input", list(self.input_units)),
            },
            attrs={"model": self.name},
        )  # fmt: skip

    def bode(self, frequencies: Any = None, *, path=None) -> Any:
        """A figure of all frequency responses, size and phase; saved to `path` if given. Frequencies in Hz; default:
        three decades around the modes."""
        from dalembert.view import plot_bode

        self._need_channels("bode")
        marks = [m.frequency for m in self.modes if m.oscillates]
        rates = [abs(x) / (2 * np.pi) for x in self.eigenvalues if abs(x) > 0]
        if frequencies is None:
            low, high = (min(rates), max(rates)) if rates else (1.0, 1.0)
            grid = np.geomspace(0.1 * low, 10 * high, 1200)
            near = [f * (1 + s * 10.0**-k) for f in marks for k in np.linspace(0.5, 5, 10) for s in (-1, 1)]
            frequencies = np.unique(np.concatenate([grid, near]))
        return plot_bode(self.frequency_response(frequencies), marks, path=path)

    def _need_channels(self, who: str) -> None:
        if not self.inputs or not self.outputs:
            raise DalembertError(
                f"{who} needs inputs and outputs: da.linearise(model, at, inputs=['u'], outputs=['tip.x'])."
            )

    def to_scipy(self) -> Any:
        """A `scipy.signal.StateSpace`."""
        from scipy.signal import StateSpace as Signal

        self._need_channels("to_scipy")
        return Signal(self.A, self.B, self.C, self.D)

    def to_control(self) -> Any:
        """A `control.StateSpace` of python-control (extra `control`), with the names of inputs, outputs and states; in
        these dots and blanks become underscores."""
        self._need_channels("to_control")
        try:
            import control  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise DalembertError(
                "to_control() needs python-control, which is not installed: pip install 'dalembert[control]'. "
                "to_scipy() gives a scipy.signal.StateSpace without it."
            ) from None
        names = {"inputs": self.inputs, "outputs": self.outputs, "states": self.states}
        words = {k: [x.replace(".", "_").replace(" ", "_") for x in every] for k, every in names.items()}
        return control.ss(self.A, self.B, self.C, self.D, name=self.name.replace(".", "_"), **words)

    # ---- other parameters --------------------------------------------------------------------------------

    def replace(self, values: Mapping[str, Any], state: State | tuple | None = None) -> LinearModel:
        """The same linear model for other values of named parameters; under jit, vmap and with forward derivatives.

        A machine at rest is brought to its equilibrium for these values; one that moves keeps its state, but for its
        constraints, and `state` gives another one. Coordinates x stay the same functions of the displacements.

            >>> import dalembert as da, jax
            >>> model = da.Model("mass", gravity=(0, -9.81))
            >>> body = model.body("body", mass=2.0, inertia=1.0, position=(0, -1))
            >>> slide = model.prismatic("slide", model.ground, body, at=(0, -1), axis=(0, 1))
            >>> spring = model.spring_damper(
            ...     "spring", model.ground, body, at_i=(0, 0), at_j=(0, -1), stiffness=50.0, length=0.7)
            >>> lin = da.linearise(model, da.equilibrium(model))
            >>> f = lambda k: lin.replace({"spring.stiffness": k}).frequencies[0]
            >>> value, change = jax.jvp(f, (50.0,), (1.0,))
            >>> print(f"{value:.6f} Hz, {change:.6f} Hz a N/m")
            0.795775 Hz, 0.007958 Hz a N/m
        """
        if self.turning is not None:
            raise DalembertError(
                f"'{self.name}' turns as a whole, at a rate that depends on its parameters: linearise it anew for each."
            )
        system = self.system.replace(values)
        q, v = self._state_of(system, state)
        if system.displaces_bodies:
            q, v = system.lift(jnp.asarray(q), jnp.asarray(v))
            system = system.machine
        found = jacobians(system, self.channels.asked, jnp.asarray(self.t), q, v)
        A, B, C, D = map(jnp.asarray, self.minimal.matrices(found))
        order = np.array(self.channels.order, int)
        return LinearModel(A, B[:, order], C, D[:, order], self._followed(A), State(jnp.asarray(q), jnp.asarray(v)))

    def _state_of(self, system: AbstractSystem, state) -> State:
        if state is not None:
            return consistent_state(system, state, t=self.t)
        if not self.resting:
            return consistent_state(system, self.start, t=self.t)
        if system.control.size:
            raise DalembertError(
                f"'{self.name}' has controllers with states of their own, whose values at rest may depend on the "
                "parameters: give state=, for example state=lin.start where they do not."
            )
        return equilibrium(system, self.start, t=self.t, find="nearest").state

    @functools.cached_property
    def _left(self) -> np.ndarray:
        """Left eigenvectors of the modes."""
        columns = []
        for value in self._eigen.of_modes:
            columns.append(np.linalg.svd(self._sized(self.A) - value * np.eye(len(self.A)))[0][:, -1])
        return np.array(columns).T

    def _sized(self, A: Any) -> Any:
        """A with velocities measured by the machine's own time."""
        sizes = self._sizes
        return A * sizes / sizes[:, None]

    @functools.cached_property
    def _sizes(self) -> np.ndarray:
        nq, nv = self.minimal.counts
        sizes = np.ones(len(self.A))
        sizes[nq : nq + nv] = max(np.max(np.abs(self.eigenvalues), initial=0.0), 1e-300)
        return sizes

    def _followed(self, A: jax.Array) -> jax.Array:
        moving = np.array([k for k, kind in enumerate(self._eigen.kinds) if kind != "rigid-body"], int)
        out = jnp.zeros(len(self._eigen.kinds), complex)
        if not len(moving):
            return out
        right = self._eigen.vectors[:, moving] / self._sizes[:, None]
        return out.at[moving].set(followed(self._sized(A), self._eigen.of_modes[moving], right, self._left[:, moving]))

    # ---- pictures and words ------------------------------------------------------------------------------

    def motion_of_mode(self, number: int, amplitude: float = AMPLITUDE) -> xr.Dataset:
        """The bodies in a mode, for pictures: two periods of an oscillating mode, without its damping; three time
        constants of a real one; a rigid-body mode there and back.

        The coordinate that moves most moves by `amplitude` machine sizes or radians. Joints stay closed to first order.
        """
        from dalembert.results import moving_bodies

        mode = self.mode(number)
        if not np.any(mode.shape):
            raise DalembertError(f"In mode {number} of '{self.name}' no body moves: only states of controllers do.")
        if not (mode.rigid or mode.oscillates):
            t = np.linspace(0, 3 * mode.time_constant, FRAMES * CYCLES + 1)
            phase = np.exp(mode.eigenvalue.real * (t if mode.eigenvalue.real < 0 else t - t[-1]))
            word = f"{'decays' if mode.eigenvalue.real < 0 else 'grows'} in {mode.time_constant:.4g} s"
        else:
            period = 1.0 / mode.damped_frequency if mode.oscillates else 1.0
            t = np.linspace(0, CYCLES * period, FRAMES * CYCLES + 1)
            phase = np.exp(2j * np.pi * t / period)
            word = f"{mode.frequency:.4g} Hz" if mode.oscillates else "rigid-body"
        machine = self.system.machine
        deltas = amplitude * np.real(phase[:, None] * mode.shape)
        q = np.asarray(retracted(machine, np.asarray(self.instant.on_bodies.q), deltas))
        title = f"{self.name}, mode {number}: {word}; amplitude {amplitude:g} of its size or rad"
        return moving_bodies(machine, t, q, title)

    def animate(self, number: int, path, *, amplitude: float = AMPLITUDE, **options) -> Path:
        """Write a mode in motion: .html, one page that plays; .gif and .mp4. See `motion_of_mode`."""
        from dalembert.view import animate_dataset

        return animate_dataset(self.motion_of_mode(number, amplitude), path, **options)

    def plot(self, number: int = 1, path=None, *, amplitude: float = AMPLITUDE) -> Any:
        """A figure of the machine at its largest displacement in a mode; saved to `path` if given."""
        from dalembert.view import plot_dataset, save_figure

        data = self.motion_of_mode(number, amplitude)
        figure = plot_dataset(data.isel(time=[-1] if self.mode(number).eigenvalue.real > 0 else [0]), "mechanism")
        figure.axes[0].set_title(data.attrs["model"], loc="left", fontsize=9)
        if path is not None:
            save_figure(figure, path)
        return figure

    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        """The matrices and the modes, labelled."""
        import xarray as xr

        modes = self.modes
        per = lambda what: ("mode", np.array([getattr(m, what) for m in modes], float))  # noqa: E731
        values = np.array([[m.eigenvalue.real, m.eigenvalue.imag] for m in modes]).reshape(len(modes), 2)
        coords: dict[str, Any] = {
            "state": list(self.states), "input": list(self.inputs), "output": list(self.outputs),
            "input_units": ("input", list(self.input_units)), "output_units": ("output", list(self.output_units)),
            "output_rule": ("output", list(self.output_rules)), "mode": [m.number for m in modes],
            "kind": ("mode", [m.kind for m in modes]), "part": ["real", "imag"],
        }  # fmt: skip
        data: dict[str, Any] = {
            "A": (("state", "state_of"), self.A), "B": (("state", "input"), self.B),
            "C": (("output", "state_of"), self.C), "D": (("output", "input"), self.D),
            "eigenvalue": (("mode", "part"), values, {"units": "1/s"}),
            "frequency": (*per("frequency"), {"units": "Hz"}), "damping_ratio": (*per("damping_ratio"), {"units": "1"}),
        }  # fmt: skip
        for word, name in (("kinetic", "body"), ("potential", "element")):
            names = list(dict.fromkeys(x for m in modes for x in getattr(m, word)))
            coords[name] = names
            table = np.array([[getattr(m, word).get(x, 0.0) for x in names] for m in modes])
            text = {"units": "1", "long_name": f"share of the {word} energy"}
            data[f"{word}_share"] = (("mode", name), table.reshape(len(modes), len(names)), text)
        return xr.Dataset(data, coords=coords, attrs={"model": self.name, "remark": self.remark})

    def to_netcdf(self, path) -> Path:
        """Write the dataset as netCDF-4."""
        from dalembert.io import write_netcdf

        return write_netcdf(self.dataset, path)

    def as_dict(self) -> dict:
        """Plain data, ready for JSON."""
        return {
            "name": self.name,
            "t": self.t,
            "steady": self.steady,
            "remark": self.remark,
            "stable": self.stable,
            "turning": None if self.turning is None else self.turning.tolist(),
            "eigenvalues": [[x.real, x.imag] for x in self.eigenvalues.tolist()],
            "modes": [m.as_dict() for m in self.modes],
            "states": list(self.states),
            "inputs": [{"name": n, "unit": u} for n, u in zip(self.inputs, self.input_units, strict=True)],
            "outputs": [
                {"name": n, "unit": u, "rule": r}
                for n, u, r in zip(self.outputs, self.output_units, self.output_rules, strict=True)
            ],
            **{name: getattr(self, name).tolist() for name in "ABCD"},
        }

    def summary(self) -> str:
        """What it is and how many modes of which kind, in a few lines."""
        return "\n".join(reports().modes_summary(self))

    def __rich__(self):
        return reports().modes_renderable(self)


def on_bodies(minimal: Minimal, found: Jacobians, scale: np.ndarray) -> tuple[OnBodies, float]:
    """What A is made of, and the loads over the machine's size and mass, in 1/s²."""
    M, free, inside = np.asarray(found.M), np.asarray(found.free), 2 * len(found.M) + len(found.zdot)
    load = np.sqrt(free @ M @ free / max(scale @ M @ scale, 1e-300)) if len(M) else 0.0
    rates = (np.asarray(x)[:, :inside] for x in (found.vdot, found.zdot))
    return OnBodies(np.asarray(minimal.bases(found)[0]), M, *rates), float(load)


def _on_machine(system: AbstractSystem, q: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Complex motions of a system, one a column, as motions of its machine."""
    if system.machine is system:
        return columns
    both = np.concatenate([np.real(columns), np.imag(columns)], axis=1)
    pushed = np.asarray(_pushed(system, q, both))
    half = columns.shape[1]
    return pushed[:, :half] + 1j * pushed[:, half:]


@compiled_quickly
def _pushed(system: AbstractSystem, q, columns):
    return jax.vmap(lambda u: system.push_forward(q, u), 1, 1)(columns)


def _retracted(machine: AbstractSystem, q, delta):
    return machine.retract(q, delta)


retracted = compiled_for_each(_retracted, 1)
"""q after many displacements."""
