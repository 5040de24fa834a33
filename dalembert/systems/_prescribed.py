"""2 · systems: rows that prescribe motion or couple joints, and the user's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert import model as m
from dalembert._typing import Array, Scalar, is_traced
from dalembert.systems._base import AbstractSystem
from dalembert.systems._constraints import ROWS, JointRows, coordinate_of, locked, wrapped
from dalembert.systems._frames import Frame, back, dot, marker_frames, rate_of


def rotation_of(vector):
    """R of a rotation vector (Rodrigues), smooth through zero."""
    square = dot(vector, vector)
    small = square < 1e-8
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    a = jnp.where(small, 1.0 - square / 6, jnp.sin(angle) / angle)
    # half the angle: 1 − cos would lose digits, and twice as many in Γ
    b = jnp.where(small, 0.5 - square / 24, 0.5 * (jnp.sin(0.5 * angle) / (0.5 * angle)) ** 2)
    x, y, z = vector[0], vector[1], vector[2]
    K = jnp.stack([jnp.zeros(()), -z, y, z, jnp.zeros(()), -x, -y, x, jnp.zeros(())]).reshape(3, 3)
    return jnp.eye(3) + a * K + b * (K @ K)


@dataclass(frozen=True)
class PointMotion:
    """d along marker i's axes = motion(t)."""

    motion: Callable

    def __call__(self, t, i, j, p):
        d = j.p - i.p
        return back(i.R, d) - jnp.reshape(jnp.asarray(self.motion(t, p), float), d.shape)


@dataclass(frozen=True)
class FrameMotion:
    """d along marker i's axes = motion(t), and j turned against i by rotation(t)."""

    motion: Callable
    rotation: Callable

    def __call__(self, t, i, j, p):
        where = PointMotion(self.motion)(t, i, j, p)
        turn = jnp.atleast_1d(jnp.asarray(self.rotation(t, p), float))
        if where.shape[0] == 2:
            return jnp.append(where, j.angle - i.angle - turn[0])
        turned = Frame(i.p, jnp.sum(i.R[:, :, None] * rotation_of(turn), axis=1), i.angle)
        return jnp.concatenate([where, locked(turned, j)])


@dataclass(frozen=True)
class DistanceMotion:
    """|d| = length(t)."""

    motion: Callable

    def __call__(self, t, i, j, p):
        d = j.p - i.p
        return (jnp.sqrt(dot(d, d)) - jnp.asarray(self.motion(t, p), float)).reshape(1)


@dataclass(frozen=True)
class SpeedRow:
    """One nonholonomic rheonomic row: rate of a joint coordinate − speed(t) = 0."""

    coordinate: Callable
    speed: Callable

    def __call__(self, t, i, j, p):
        return jnp.reshape(rate_of(self.coordinate, i, j) - jnp.asarray(self.speed(t, p), float), (1,))


@dataclass(frozen=True)
class _Coupled:
    """A row over the coordinates of several joints; each term knows its two bodies."""

    space: str
    terms: tuple[tuple[Callable, tuple[int, int]], ...]

    def _frames(self, k, pair, places, p, twists=None):
        own = {key: p[f"{k}_{key}"] for key in ("point_i", "frame_i", "point_j", "frame_j")}
        twists = None if twists is None else [twists[b] for b in pair]
        return marker_frames(self.space, [places[b] for b in pair], own, twists)


@dataclass(frozen=True)
class CoupledPosition(_Coupled):
    """Σ factor · coordinate − constant = 0; `turns` (a parameter) is the change of the sum by full turns, and the gap
    is taken modulo that."""

    def __call__(self, t, places, p):
        total = -p["constant"]
        for k, (coordinate, pair) in enumerate(self.terms):
            total = total + p["factors"][k] * coordinate(*self._frames(k, pair, places, p))
        turns = jnp.where(p["turns"] > 0, p["turns"], 1.0)
        whole = jax.lax.stop_gradient(jnp.where(p["turns"] > 0, jnp.round(total / turns), 0.0))
        return jnp.reshape(total - turns * whole, (1,))


@dataclass(frozen=True)
class CoupledMotion(_Coupled):
    """Its rate."""

    def __call__(self, t, places, twists, p):
        total = 0.0
        for k, (coordinate, pair) in enumerate(self.terms):
            total = total + p["factors"][k] * rate_of(coordinate, *self._frames(k, pair, places, p, twists))
        return jnp.reshape(total, (1,))


@dataclass(frozen=True)
class DriverRow:
    """One rheonomic row: joint coordinate − motion(t) = 0 [Wojtyra, Fraczek 2013, eq. 43]."""

    coordinate: Callable
    motion: Callable
    angle: bool

    def __call__(self, t, i, j, p):
        gap = self.coordinate(i, j) - jnp.asarray(self.motion(t, p), float)
        return jnp.reshape(wrapped(gap) if self.angle else gap, (1,))


@dataclass(frozen=True)
class UserRows:
    """The user's own rows over a list of body frames; `size` of them."""

    residual: Callable
    size: int

    def __call__(self, t, frames, p):
        return jnp.reshape(jnp.asarray(self.residual(t, frames, p), float), (self.size,))


# ---- what a driver asks for ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prescription:
    """Where the motion that a driver prescribes stands: among the machine's row families, by number."""

    family: int
    member: int

    def asked(self, machine: AbstractSystem, t: Scalar) -> Float[Array, " numbers"]:
        """What it asks for at a time, in the model's units."""
        family, motion = (found := machine.row_families[self.family]), _motion(found)
        assert motion is not None
        p = jax.tree_util.tree_map(lambda a: a[self.member], family.p)
        return jnp.ravel(jnp.asarray(motion(jnp.asarray(t, float), p), float))


def prescription(machine: AbstractSystem, name: str) -> Prescription | None:
    """What a driver of positions prescribes; None for others, and for one that prescribes a rotation besides."""
    for number, family in enumerate(machine.row_families):
        if name in family.names and family.position is not None and _motion(family) is not None:
            found = Prescription(number, family.names.index(name))
            size = jax.eval_shape(lambda found=found: found.asked(machine, 0.0)).shape[0]
            return found if size == family.holonomic else None
    return None


def _motion(family) -> Callable | None:
    return getattr(getattr(family.position, "rows", None), "motion", None)


BISECTED = 50
"""A jump is followed into ever smaller intervals, to within rounding of its time."""
INTERVALS = 1000
"""In as many parts of a run the functions of drivers are searched for jumps."""


def jumps(machine: AbstractSystem, t0: float, t_end: float) -> list[str]:
    """A sentence for each driver whose formula makes its speed (or its value) jump between two times: a jump of speed
    takes an impact, which a motion by smooth steps does not have, and which they would pass over."""
    found: dict[str, float] = {}
    for family in machine.row_families:
        rows = [row for f in (family.position, family.motion) if (row := getattr(f, "rows", None)) is not None]
        functions = [(getattr(row, name, None), order) for row in rows for name, order in ASKED.items()]
        for function, order in [x for x in functions if x[0] is not None]:
            for k, owner in enumerate(family.names):
                p = jax.tree_util.tree_map(lambda a, k=k: a[k], family.p)
                given = [machine.control.sources[int(key.removeprefix(m.INPUT))] for key in p if m.is_input(key)]
                for part, numbers in [(x.function, x.p) for x in given] if given else [(function, p)]:
                    if is_traced(numbers) or not _may_bend(part, numbers):
                        continue
                    if owner not in found and (at := _jump(part, numbers, order, t0, t_end)) is not None:
                        found[owner] = at
    return [
        f"Driver '{owner}' of '{machine.name}': the speed that it asks for jumps at t = {at:.6g} s. Only an impact "
        "does that, and a run by smooth steps would pass over it: round the corner off (da.functions.step, or a "
        "spline by da.functions.table)."
        for owner, at in found.items()
    ]


ASKED = {"motion": 1, "rotation": 1, "speed": 0}
"""Functions of time in the rows of drivers, each with its derivative that must not jump."""
BENDING = frozenset(("abs", "sign", "max", "min", "clamp", "select_n", "floor", "ceil", "round", "rem"))
"""Operations of JAX that make corners."""


def _may_bend(function, p) -> bool:
    """Whether a function of time may have corners that steps do not know: a formula with abs, sign, min or max,
    straight lines between data, or a function of a person's own with such operations."""
    parts = getattr(function, "parts", (function,))
    if all(isinstance(x, m.Timed) for x in parts):
        straight = any(key.endswith("coefficients") and min(np.shape(x)) <= 2 for key, x in p.items())
        return straight or any(x.shape.may_bend for x in parts)
    leaves, form = jax.tree_util.tree_flatten(p)
    return _has_bends(function, form, tuple(map(np.shape, leaves)))


@functools.lru_cache(maxsize=1000)
def _has_bends(function, form, shapes) -> bool:
    """Traced once for each function, not for each run."""
    p = jax.tree_util.tree_unflatten(form, [jax.ShapeDtypeStruct(shape, float) for shape in shapes])
    return not BENDING.isdisjoint(_operations(jax.make_jaxpr(function)(0.0, p).jaxpr))


def _operations(jaxpr) -> set[str]:
    """The names of all operations of a program."""
    found = {e.primitive.name for e in jaxpr.eqns}
    inner = [getattr(x, "jaxpr", x) for e in jaxpr.eqns for x in e.params.values()]
    return found.union(*(_operations(x) for x in inner if hasattr(x, "eqns")))


def _jump(function, p, order: int, t0: float, t_end: float) -> float | None:
    """The time at which a function of time, or its rate, jumps: changes alike across ever shorter times."""

    def values(t):
        value = lambda x: jnp.ravel(jnp.asarray(function(x, p), float))  # noqa: E731
        with jax.ensure_compile_time_eval():  # a person's own program may be being traced around this
            both = jax.vmap(lambda x: jax.jvp(value, (x,), (jnp.ones(()),)))(jnp.asarray(t))
        return np.concatenate([np.asarray(x) for x in both[: order + 1]], axis=1)

    low = np.linspace(t0, t_end, INTERVALS + 1)
    there = values(low)
    sizes = np.max(np.abs(there), axis=0, initial=0.0)
    low, high, left, right = low[:-1], low[1:], there[:-1], there[1:]
    for _ in range(BISECTED):
        middle = 0.5 * (low + high)
        here = values(middle)
        first = np.max(np.abs(here - left), axis=1) >= np.max(np.abs(right - here), axis=1)
        low, high = np.where(first, low, middle), np.where(first, middle, high)
        left, right = np.where(first[:, None], left, here), np.where(first[:, None], here, right)
    far = np.any(np.abs(right - left) > 1e-6 * np.maximum(sizes, 1e-300), axis=1)
    return float(high[np.argmax(far)]) if np.any(far) else None


# ---- registered for their classes ------------------------------------------------------------------------------------


def _driver(c: m.Constraint, space: str) -> JointRows:
    assert c.target is not None
    coordinate = coordinate_of(c.target, space, c.coordinate)
    return JointRows(1, 0, DriverRow(coordinate, c.functions[0], c.is_angle))


def _speed_driver(c: m.Constraint, space: str) -> JointRows:
    assert c.target is not None
    return JointRows(0, 1, None, SpeedRow(coordinate_of(c.target, space, c.coordinate), c.functions[0]))


def coupling_rows(c: m.Constraint, space: str) -> JointRows:
    """The row of a coupling, over the coordinates of all its terms."""
    terms = tuple((coordinate_of(t.joint, space, t.coordinate), t.pair) for t in c.terms)
    if c.speeds:
        return JointRows(0, 1, None, CoupledMotion(space, terms), on_places=True)
    return JointRows(1, 0, CoupledPosition(space, terms), on_places=True)


def _user(c: m.Constraint, space: str) -> JointRows:
    rows = UserRows(c.functions[0], c.size)
    if isinstance(c.element, m.Holonomic):
        return JointRows(c.size, 0, rows, listed=True)
    return JointRows(0, c.size, None, rows, listed=True)


for _space, _d in (("plane", 2), ("space", 3)):
    ROWS |= {
        (m.Driver, _space): _driver,
        (m.SpeedDriver, _space): _speed_driver,
        (m.PointDriver, _space): lambda c, space, d=_d: JointRows(d, 0, PointMotion(*c.functions)),
        (m.FrameDriver, _space): lambda c, space, d=_d: JointRows(3 * (d - 1), 0, FrameMotion(*c.functions)),
        (m.DistanceDriver, _space): lambda c, space: JointRows(1, 0, DistanceMotion(*c.functions)),
        (m.AbstractCoupling, _space): coupling_rows,
        (m.AbstractOwnRows, _space): _user,
    }
