"""6 · simulation: one-sided joints by time steps, for many contacts at once and for batches: Moreau–Jean.

A step of fixed length takes the impulses of its whole time [Moreau 1988; Jean 1999]: half a step to q_m, there

    M (v⁺ − v) = h dt + C_BᵀΛ_B + C_NᵀΛ_N + C_TᵀΛ_T        C_B v⁺ + b = 0
    0 ≤ Λ_N ⊥ γ⁺ + ε γ⁻ ≥ 0   where the gap is closed at q_m        |Λ_T| ≤ μ Λ_N, against the slip

then half a step with v⁺, and a projection onto the rows that are not one-sided, and out of what overlaps. Impacts and
lift-offs are not located: the error is of the order of the step, at any number of contacts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, SimulationError
from dalembert._typing import Array, is_traced
from dalembert.equations import assemble_known
from dalembert.linalg import impulses_of_contacts
from dalembert.model import Model
from dalembert.stabilise import assembled
from dalembert.systems import AbstractSystem, all_closed, build, compiled, compiled_for_each

if TYPE_CHECKING:
    import xarray as xr

CLOSED = 1e-10
"""A gap up to this share of the machine's size is closed: rounding would open what rests for a step."""
SOLVED = 1e-4
"""The largest residual of a step that is taken."""
SINGULAR = 1e-10
"""Directions below this share of the largest are dependent."""


class Stepped(eqx.Module):
    """A motion by time steps: times, coordinates, velocities, and the impulses of each contact (as pushes) summed since
    the saved time before. `names` are those of the contacts, and `dataset` is all of it with names and units.

    `residual`: what the equations of impulses are off by, over the impulses, or the joints, over the machine's size,
    the largest since the saved time before. Outside jit and vmap a run that ends with more than 1e-4 is refused.
    """

    system: AbstractSystem
    t: Array
    q: Array
    v: Array
    impulse: Array
    residual: Array

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(x.name for x in self.system.touches)

    @property
    def dataset(self) -> xr.Dataset:
        """Positions, velocities, gaps and impulses by name, over the saved times; of one motion, not of a batch."""
        import xarray as xr

        if np.ndim(self.t) != 1:
            raise DalembertError("This is a batch of motions: take the arrays, or one motion after the other.")
        t, q, v = (np.asarray(x) for x in (self.t, self.q, self.v))
        bodies, count = self.system.bodies, len(t)
        q, v, Phi = (np.asarray(x) for x in _seen(all_closed(self.system).plain(), t, q, v))
        gaps = np.stack([x.sign * Phi[:, x.row] for x in self.system.touches], axis=1)
        coords: dict[str, Any] = {"time": ("time", t, {"units": "s"}), "contact": list(self.names)}
        text = {"units": "N s", "long_name": "push of each contact, summed since the saved time before"}
        data: dict[str, Any] = {"impulse": (("time", "contact"), np.asarray(self.impulse), text)}
        data["gap"] = (("time", "contact"), gaps, {"units": "m"})
        if bodies is None:
            data |= {"q": (("time", "coordinate"), q), "v": (("time", "speed"), v)}
        else:
            d, along = bodies.kinematics.d, ("time", "body", "axis")
            q = np.asarray(bodies.split(q)[0]).reshape(count, -1, bodies.dq)
            v = v.reshape(count, -1, bodies.dv)
            coords |= {"body": list(bodies.body_names), "axis": list("xyz"[:d])}
            data["position"] = (along, q[..., :d], {"units": "m", "long_name": "centre of mass"})
            data["velocity"] = (along, v[..., :d], {"units": "m/s"})
            turning = v[..., 2] if d == 2 else v[..., 3:]
            data["angular_velocity"] = (along[: turning.ndim], turning, {"units": "rad/s"})
            if d == 2:
                data["angle"] = (along[:2], q[..., 2], {"units": "rad"})
            else:
                coords["component"] = list("wxyz")
                text = {"units": "1", "long_name": "unit quaternion, body to world"}
                data["quaternion"] = (("time", "body", "component"), q[..., 3:], text)
        attrs = {"model": self.system.name, "method": "time steps (Moreau, Jean)"}
        return xr.Dataset(data, coords=coords, attrs=attrs)


def _where(system: AbstractSystem, t, q, v):
    """The coordinates and velocities of the machine's bodies, and the residuals of all rows."""
    return *system.lift(q, v), system.position_residual(t, q)


_seen = compiled_for_each(_where, 3)


@dataclass(frozen=True)
class _Sides:
    """Which rows are what: those that are not one-sided, those of contacts with their signs, the tied ones, and which
    gaps are angles."""

    both: tuple[int, ...]
    normal: tuple[int, ...]
    signs: tuple[int, ...]
    tied: tuple[tuple[int, ...], ...]
    angles: tuple[bool, ...]


def simulate_stepping(
    system: AbstractSystem | Model, t_end: float, *, dt: float, state=None, t0: float = 0.0, every: int = 1
) -> Stepped:
    """The motion of a machine with one-sided joints by steps of a fixed length dt (Moreau–Jean).

    Takes any number of contacts at once, friction of contacts too, works under jit and in batches under vmap, and is of
    first order. `simulate` finds lift-offs, impacts, sticking and slipping to rounding instead.

    **Arguments**: `system`: a model or a system; `t_end`, `t0`, `dt`: in seconds (the last step ends at or after
    t_end); `state`: the start (q, v); `every`: of how many steps one is saved.

    **Returns** `Stepped`: t, q, v, impulses, residual, and `dataset` with names and units.

        >>> import dalembert as da
        >>> from dalembert.simulation import simulate_stepping
        >>> model = da.Model("ball", gravity=(0, -9.81))
        >>> ball = model.body("ball", mass=1, inertia=0.1, position=(0, 0.5))
        >>> _ = model.contact("floor", "ground", ball, point=(0, 0), normal=(0, 1), restitution=0.5)
        >>> motion = simulate_stepping(model, 0.4, dt=1e-3, every=100)
        >>> motion.q.shape
        (5, 3)
    """
    system = build(system) if isinstance(system, Model) else system
    if not system.touches:
        raise DalembertError(f"'{system.name}' has no one-sided joints; march it by da.simulate.")
    if system.control.sampled or not system.phases_stated or (system.bodies is not None and system.bodies.bearings):
        raise DalembertError(
            f"'{system.name}' has sampled controllers, or friction that sticks or depends on a joint's load: time "
            "steps do not take these. Take friction of contacts, or friction with a given load."
        )
    _refuse_open_angles(system)
    if is_traced(t_end, t0, dt):
        raise DalembertError("t_end=, t0= and dt= decide how many steps there are: they must be known numbers.")
    if not (np.isfinite(dt) and dt > 0 and t_end > t0 and every >= 1 and every == int(every)):
        raise DalembertError(
            f"dt={dt:g} must be positive, every={every} a whole number from 1 on, and t_end={t_end:g} later than "
            f"t0={t0:g}."
        )
    count = max(1, int(np.ceil((t_end - t0) / float(dt) / every - 1e-9)))
    if is_traced(system, state):
        q, v = (system.q0, system.v0) if state is None else state
    else:
        given = (None, None) if state is None else state
        q, v = assembled(system.with_closed((False,) * len(system.touches)).plain(), *given, t=t0).state
    mu, restitution = system.frictions(), system.restitutions()
    # what does not slip has no limit
    holding = [0.0 if not t.tied else 1.0 for t in system.touches]
    mu = jnp.where((jnp.asarray(holding) > 0) & (jnp.asarray(mu) == 0), jnp.inf, jnp.asarray(mu))
    whole = all_closed(system).plain()
    own = {r for t in system.touches for r in (t.row, *t.tied)}
    touches = system.touches
    sides = _Sides(
        tuple(r for r in range(whole.m) if r not in own),
        tuple(t.row for t in touches),
        tuple(t.sign for t in touches),
        tuple(t.tied for t in touches),
        tuple(t.is_angle for t in touches),
    )
    numbers = (jnp.asarray(t0, float), jnp.asarray(dt, float), jnp.asarray(q, float), jnp.asarray(v, float))
    found = Stepped(system, *_marched(whole, sides, count, every, *numbers, mu, jnp.asarray(restitution)))
    if not is_traced(found.residual):
        _refuse_unsolved(found)
    return found


def _refuse_unsolved(found: Stepped) -> None:
    """Refuse a motion of which a step was not solved."""
    wrong = np.flatnonzero(~(np.asarray(found.residual) <= SOLVED))
    if not len(wrong):
        return
    t, after = np.asarray(found.t), int(wrong[0])
    raise SimulationError(
        f"'{found.system.name}': between t = {t[after - 1]:.6g} s and {t[after]:.6g} s no impulses of the contacts and "
        "no places of the bodies were found that meet all rows: a driver moves on against them, friction jams, or dt "
        "is too long. Give a shorter dt=, or look at the contacts there.",
        found,
    )


def _refuse_open_angles(system: AbstractSystem) -> None:
    """Refuse stops that a step would pass from behind: of angles in space, which jump at half a turn."""
    bodies, names = all_closed(system).bodies, [t.joint for t in system.touches]
    if bodies is None or bodies.space == "plane":
        return
    angles = {j.name for j in bodies.joints if j.is_angle}
    for name in names:
        if name in angles and names.count(name) == 1:
            raise DalembertError(
                f"Stop '{name}' of '{system.name}' has one end, on an angle in space, where turns are not counted: "
                "time steps would pass it at half a turn. Give it both ends (lower and upper)."
            )


@compiled
def _marched(system, sides: _Sides, count: int, every: int, t0, dt, q, v, mu, restitution):
    def one(carry, _):
        t, q, v, total, most, former = carry
        q, v, impulse, left = _step(system, sides, t, dt, q, v, mu, restitution, former)
        return (t + dt, q, v, total + impulse[: len(sides.normal)], jnp.maximum(most, left), impulse), None

    def saved(carry, _):
        carry = (*carry[:3], nothing, jnp.zeros(()), carry[5])
        carry, _ = jax.lax.scan(one, carry, length=every)
        return carry, carry[:5]

    nothing = jnp.zeros(len(sides.normal))
    start = (t0, q, v, nothing, jnp.zeros(()))
    first = jnp.zeros(len(sides.normal) + sum(map(len, sides.tied)))
    _, found = jax.lax.scan(saved, (*start, first), length=count)
    return tuple(jnp.concatenate([a[None], b]) for a, b in zip(start, found, strict=True))


def _inverse(S):
    """The pseudo-inverse of a symmetric matrix that is not negative."""
    if not S.shape[0]:
        return S
    size = jnp.sqrt(jnp.clip(jnp.diagonal(S), 1e-300))
    w, V = jnp.linalg.eigh(S / size[:, None] / size)
    return (V * jnp.where(w > SINGULAR * w[-1], 1.0 / jnp.where(w > 0, w, 1.0), 0.0)) @ V.T / size[:, None] / size


def _step(system, sides: _Sides, t, dt, q, v, mu, restitution, former):
    """One step; the search for its impulses begins at those of the step before."""
    middle = system.retract(q, 0.5 * dt * v)
    e = assemble_known(system, t + 0.5 * dt, middle, v)
    M, C, phi = e.M, e.C, e.phi
    Minv = jnp.linalg.inv(M)
    b = phi - C @ v
    free = v + dt * (Minv @ e.h)
    both, normal, sign = np.array(sides.both, int), np.array(sides.normal, int), np.array(sides.signs, float)
    CB = C[both]
    S = _inverse(CB @ Minv @ CB.T)
    P = Minv - Minv @ CB.T @ S @ CB @ Minv  # what impulses do while the other rows hold
    free = free - Minv @ CB.T @ (S @ (CB @ free + b[both]))
    order = np.concatenate([normal, *[np.array(x, int) for x in sides.tied]])
    signs = np.concatenate([sign, np.ones(len(order) - len(normal))])
    G = signs[:, None] * C[order]
    W, offset = G @ P @ G.T, G @ free + signs * b[order]
    before = sign * phi[normal]
    size = 1.0 if system.bodies is None else system.bodies.size
    active = sign * e.Phi[normal] <= CLOSED * jnp.where(np.array(sides.angles), 1.0, size)
    lam, left = impulses_of_contacts(W, offset, before, active, mu, restitution, former, sides.tied)
    after = free + P @ (G.T @ lam)
    q = system.retract(middle, 0.5 * dt * after)
    for _ in range(2):  # what drifts open, and what overlaps
        e = assemble_known(system, t + dt, q, after)
        gap = sign * e.Phi[normal]
        wanted = jnp.zeros(len(e.phi)).at[both].set(1.0).at[normal].set(jnp.where(gap < 0, 1.0, 0.0))
        wanted = wanted[: len(e.Phi)]
        C = wanted[:, None] * e.C[: len(e.Phi)]
        Minv = jnp.linalg.inv(e.M)
        S = C @ Minv @ C.T + jnp.diag(1.0 - wanted)
        q = system.retract(q, -Minv @ C.T @ (_inverse(S) @ (wanted * e.Phi)))
        open_ = jnp.max(jnp.abs(e.Phi[both[both < len(e.Phi)]]), initial=0.0) / size  # before the last correction
    return q, after, lam, jnp.maximum(left, open_)
