"""7 · analysis: a motion by formulas of time: targets of a pose, each a function of t.

With g(t, q) = w(t) for the targets, q follows from Φ = 0 and g − w = 0 by Newton's method, v and v̇ from their first and
second derivatives by time [Haug 1989, section 3.4], each instant by itself; the way through time keeps the assembly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import Array, is_traced
from dalembert.analysis._kinematics import SAMPLES
from dalembert.analysis._pose import solve_pose
from dalembert.analysis._targets import Named, all_targets, joint_coordinates, listed, target_named
from dalembert.equations import assemble_known
from dalembert.linalg import dense_of_blocks, mass_root
from dalembert.model import Function, input_function
from dalembert.stabilise import row_sizes
from dalembert.systems import AbstractSystem, compiled_quickly

DEGREE = 5
"""Of the splines through given times and values: their second derivative is then smooth."""
TRUSTED = 0.02
"""Distance, in machine sizes or radians, between a prediction and the closed pose up to which a step is taken."""
SHORTEST = 1e-9
"""Shortest step, as a share of the whole time: where shorter ones would be needed the formulas leave the reach."""
RANK = 1e-8
"""Share of the largest singular value below which rows of unit length count as dependent."""
POSSIBLE = 1e-7
"""What formulas may leave of rows at velocity and acceleration level, as a share of the terms that meet in them."""


class Motion(NamedTuple):
    """Times, and at each of them q, v and v̇; `moved`: how far each was from the constraints as given."""

    t: Any
    q: Any
    v: Any
    vdot: Any
    moved: dict[str, float]


class Wanted(eqx.Module):
    """What a target shall be, as a function of time: formulas with their numbers, one for each or one for all."""

    functions: tuple = eqx.field(static=True)
    p: tuple[dict[str, Array], ...]
    rotation: bool = eqx.field(static=True)

    def __call__(self, t):
        parts = [jnp.ravel(jnp.asarray(f(t, p), float)) for f, p in zip(self.functions, self.p, strict=True)]
        found = jnp.concatenate(parts)
        return found / jnp.sqrt(jnp.sum(found**2)) if self.rotation else found


def _wanted(named: Named, value: Any) -> Wanted:
    """A target's formulas: one, or a list of as many as it has numbers; times and values are a spline."""
    pair = isinstance(value, tuple) and len(value) == 2 and all(np.ndim(x) == 1 for x in value)
    several = isinstance(value, list | tuple | np.ndarray) and not pair
    if several and len(value) != named.size:
        raise DalembertError(f"'{named.name}' has {named.size} number(s); give as many formulas, not {len(value)}.")
    made = []
    for one in value if several else [value]:
        if isinstance(one, tuple) and len(one) == 2 and all(np.ndim(x) == 1 for x in one):
            table = {"times": list(map(float, one[0])), "values": list(map(float, one[1])), "degree": DEGREE}
            one = {"table": table}
        made.append(input_function(named.name, one.item() if isinstance(one, np.generic) else one)[:2])
    vector = not several and callable(value) and not isinstance(value, Function)
    if not several and not vector and named.size != 1:
        raise DalembertError(f"'{named.name}' has {named.size} numbers; give a list of as many formulas of t.")
    found = Wanted(tuple(f for _, f in made), tuple(p for p, _ in made), named.rows != named.size)
    size = jax.eval_shape(found, jnp.zeros(())).shape
    if size != (named.size,):
        raise DalembertError(f"'{named.name}' has {named.size} number(s), the function of t gives {size[0]}.")
    return found


class _Look(NamedTuple):
    """All rows at an instant, the machine's first, over their sizes: residuals, Jacobian, rates with nothing moving,
    and what stands against v̇."""

    residual: Any
    A: Any
    rate: Any
    bias: Any
    root: Any


@compiled_quickly
def _look(system, targets, wanted, scales, t, q, v) -> _Look:
    at = assemble_known(system, t, q, v)
    sizes = jnp.concatenate([row_sizes(system, at), scales])

    def gaps(t, q):
        own = [x.gap(system, t, q, w(t)) for x, w in zip(targets, wanted, strict=True)]
        return jnp.concatenate(own)

    def rate(t, q, v):
        return jax.jvp(gaps, (t, q), (jnp.ones(()), system.qdot(q, v)))[1]

    t = jnp.asarray(t, float)
    still = rate(t, q, jnp.zeros(system.n))
    G = jax.jacfwd(lambda v: rate(t, q, v))(jnp.zeros(system.n))
    bend = jax.jvp(lambda t, q: rate(t, q, v), (t, q), (jnp.ones(()), system.qdot(q, v)))[1]
    none = jnp.zeros(system.m - system.m_holonomic)  # rows on velocities ask nothing of positions
    return _Look(
        jnp.concatenate([at.Phi, none, gaps(t, q)]) / sizes,
        jnp.concatenate([at.C, G]) / sizes[:, None],
        jnp.concatenate([at.b, still]) / sizes,
        jnp.concatenate([-at.Gamma, bend]) / sizes,
        dense_of_blocks(mass_root(at.mass)[1]),
    )


@compiled_quickly
def _moved(system, q, delta):
    return system.retract(q, delta)


class _Formulas:
    """A machine with as many targets as it has freedoms, each a function of time."""

    def __init__(self, system: AbstractSystem, motion: Mapping):
        if not motion:
            raise DalembertError('A motion by formulas names what moves, such as {"hip.angle": "0.3*sin(t)"}.')
        if is_traced(system):
            raise DalembertError(
                "A motion by formulas cannot be found under jit, vmap and grad; prescribe it by drivers "
                "(da.kinematics)."
            )
        if system.control.size:
            raise DalembertError(
                f"'{system.name}' has controllers with states ({', '.join(system.control.labels[:4])}), whose motion "
                "formulas do not prescribe; give a Solution of it, or remove the controllers."
            )
        table = all_targets(system)
        self.system, self.named = system, [target_named(system, item, table) for item in motion]
        for x in self.named:
            if [y.name for y in self.named].count(x.name) > 1:
                raise DalembertError(f"'{x.name}' is given twice.")
            if x.released:
                raise DalembertError(
                    f"'{x.name}' is what driver {listed(x.released)} prescribes; name the driver as an actuator, or "
                    "leave it out with release=."
                )
        self.wanted = tuple(_wanted(x, f) for x, f in zip(self.named, motion.values(), strict=True))
        self.targets = tuple(x.target for x in self.named)
        self.scales = np.concatenate([np.full(x.rows, x.scale) for x in self.named])
        self.scale = np.asarray(system.scale())
        self.positions = np.r_[0 : system.m_holonomic, system.m : system.m + len(self.scales)]

    def look(self, t: float, q, v=None) -> _Look:
        v = np.zeros(self.system.n) if v is None else v
        found = _look(self.system, self.targets, self.wanted, self.scales, np.asarray(t, float), q, v)
        return _Look(*(np.asarray(x) for x in found))

    def start(self, t: float) -> np.ndarray:
        """The pose of the first instant."""
        values = {x.name: np.asarray(w(np.asarray(t))) for x, w in zip(self.named, self.wanted, strict=True)}
        for name, value in values.items():
            if not np.all(np.isfinite(value)):
                raise DalembertError(f"The formula of '{name}' is not finite at t = {t:g} s.")
        one = {k: float(x[0]) if len(x) == 1 else x for k, x in values.items()}
        return np.asarray(solve_pose(self.system, one, t=t).q)

    def solve(self, look: _Look, right: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """The smallest x in the mass metric with A x = right, or the nearest."""
        A = look.A[rows] @ look.root.T
        size = np.linalg.norm(A, axis=1)
        size = np.where(size > 0, size, 1.0)
        return look.root.T @ np.linalg.lstsq(A / size[:, None], right[rows] / size, rcond=RANK)[0]

    def closed(self, t: float, q: np.ndarray) -> tuple[np.ndarray, bool]:
        """The pose near q at which rows and targets hold, and whether it was found."""
        last = np.inf
        for _ in range(12):
            look = self.look(t, q)
            if not np.all(np.isfinite(look.residual)):
                return q, False
            delta = self.solve(look, -look.residual, self.positions)
            step = float(np.max(np.abs(delta) / self.scale, initial=0.0))
            if step >= 0.5 * last and step < 1e-11:  # at rounding
                break
            q, last = np.asarray(_moved(self.system, q, delta)), step
            if step < 1e-15:
                break
        gap = float(np.max(np.abs(self.look(t, q).residual[self.positions]), initial=0.0))
        return q, gap < 1e-11

    def moving(self, t: float, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v and v̇ at a pose; refused where formulas or rows on velocities contradict each other."""
        look = self.look(t, q)
        v = self.solve(look, -look.rate)
        self._possible(look.A @ v + look.rate, np.abs(look.A) @ np.abs(v) + np.abs(look.rate), t, "velocities")
        look = self.look(t, q, v)
        vdot = self.solve(look, -look.bias)
        total = np.abs(look.A) @ np.abs(vdot) + np.abs(look.bias) + np.max(np.abs(v) / self.scale, initial=0.0) ** 2
        self._possible(look.A @ vdot + look.bias, total, t, "accelerations")
        return v, vdot

    def _possible(self, off, size, t: float, what: str) -> None:
        share = np.abs(off) / max(float(np.max(size, initial=0.0)), 1e-300)
        if np.max(share, initial=0.0) <= POSSIBLE:
            return
        raise DalembertError(
            f"This motion is not possible: at t = {t:.6g} s its {what} do not meet "
            f"{self._owner(int(np.argmax(share)))}."
        )

    def _owner(self, row: int) -> str:
        if row < self.system.m:
            return f"the rows of '{self.system.owner_of(row).name}'"
        k = row - self.system.m
        for x in self.named:
            if k < x.rows:
                return f"the formula of '{x.name}'"
            k -= x.rows
        raise AssertionError

    def refuse_freedoms(self, t: float, q: np.ndarray) -> None:
        """Refuse formulas that leave the machine free, with the joint coordinates that are open."""
        look = self.look(t, q)
        A = look.A[self.positions] @ look.root.T
        A = A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-300)
        values, V = np.linalg.svd(A)[1:]
        rank = int(np.sum(values > RANK * np.max(values, initial=0.0)))
        free = self.system.n - rank
        if free == 0:
            return
        names = [x for x in joint_coordinates(self.system) if x.name not in [y.name for y in self.named]]
        open_: list[str] = []
        if names:
            others = tuple(x.target for x in names)
            still = tuple(Wanted((_zero,) * x.size, ({},) * x.size, False) for x in names)
            every = np.asarray(
                _look(self.system, others, still, np.array([x.scale for x in names]), np.asarray(t, float), q,
                      np.zeros(self.system.n)).A
            )[self.system.m :]  # fmt: skip
            seen = every @ look.root.T @ V[rank:].T
            sizes = np.linalg.norm(seen, axis=1)
            open_ = [x.name for x, s in zip(names, sizes, strict=True) if s > 1e-6 * np.max(sizes)]
        count = "1 freedom" if free == 1 else f"{free} freedoms"
        holds = self.system.m > self.system.m_holonomic
        more = f": name {'also' if len(open_) == 1 else 'some of'} {listed(open_[:6])}" if open_ else ""
        rolling = (
            " Rows on velocities (rolling, speed drivers) do not decide positions: give all of these, or a run."
            if holds
            else ""
        )
        raise DalembertError(
            f"These formulas leave '{self.system.name}' {count}, so its motion is not decided{more}.{rolling}"
        )


def _zero(t, p):
    return jnp.zeros(())


def by_formulas(system: AbstractSystem, motion: Mapping, t0: float, t_end: Any, samples: Any) -> Motion:
    """The motion that formulas of time prescribe, at equally spaced times or at those given."""
    if t_end is None and not (samples is not None and np.ndim(samples) == 1):
        raise DalembertError("A motion by formulas needs its end: give t_end=, in seconds.")
    if samples is not None and np.ndim(samples) == 1:
        times = np.asarray(samples, float)
    else:
        count = SAMPLES if samples is None else int(samples)
        assert t_end is not None
        times = np.linspace(t0, t_end, count)
    if len(times) < 2 or not np.all(np.isfinite(times)) or not np.all(np.diff(times) > 0):
        raise DalembertError("The times of a motion must rise, from t0 to t_end, and be at least two.")
    machine = _Formulas(system, motion)
    t = float(times[0])
    q, good = machine.closed(t, machine.start(t))
    machine.refuse_freedoms(t, q)
    if not good:
        raise DalembertError(f"'{system.name}' cannot follow these formulas at its start, t = {t:g} s.")
    v, vdot = machine.moving(t, q)
    out, step = [(q, v, vdot)], np.inf
    span = float(times[-1] - times[0])
    for end in times[1:]:
        while t < end:
            h = end - t if t + 1.001 * step >= end else step
            guess = np.asarray(_moved(system, q, h * v + 0.5 * h * h * vdot))
            new, good = machine.closed(end if h == end - t else t + h, guess)
            off = float(np.max(np.abs(new - guess) / np.asarray(system.coordinate_scale()), initial=0.0))
            if not good or not off < TRUSTED:
                step = 0.3 * h
                if step < SHORTEST * span:
                    raise DalembertError(
                        f"The motion leaves the reach of '{system.name}' at t = {t:.6g} s: from there on its joints "
                        f"cannot follow {listed([x.name for x in machine.named])}."
                    )
                continue
            t, q = (end if h == end - t else t + h), new
            v, vdot = machine.moving(t, q)
            step = h * min(3.0, 0.8 * (TRUSTED / max(off, 1e-12)) ** (1 / 3))
        out.append((q, v, vdot))
    q, v, vdot = (np.array(x) for x in zip(*out, strict=True))
    return Motion(times, q, v, vdot, {})
