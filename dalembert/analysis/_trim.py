"""7 · analysis: what is held at rest, by which efforts, and the parameters that hold it without any (trim)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, EquilibriumError
from dalembert._typing import is_traced
from dalembert.analysis._pose import solve_pose
from dalembert.analysis._rest import (
    START,
    Along,
    Balance,
    Held,
    Rest,
    Settled,
    Spring,
    Ways,
    balance,
    gaps,
    reached,
    settled,
    sizes,
    slope,
    stiff,
)
from dalembert.systems import AbstractSystem

HELD = 1e-10
"""Effort that may be left, of what holds the machine."""
TRIMS = 12
"""Most steps of Newton's method for unknown parameters; most of them enter linearly, and take two."""


def held_by(system: AbstractSystem, t, q, hold) -> tuple[dict[str, int], Held | None]:
    """The names that are held, with how many numbers each is, and their rows."""
    if isinstance(hold, str):
        hold = (hold,)
    if not hold:
        return {}, None
    names: dict[str, int] = {}
    channels: list[int] = []
    values = []
    for name in hold:
        own = system.channels_named(name)
        if not all(system.is_position(k) for k in own):
            raise DalembertError(
                f"hold: '{name}' is no position; at rest only positions can be held: joint coordinates, and what is "
                "measured of positions."
            )
        given = value = hold[name] if isinstance(hold, Mapping) else None
        if value is None:
            value = system.measured(t, jnp.asarray(q), jnp.zeros(system.n), only=own)
        try:
            value = jnp.atleast_1d(jnp.asarray(value, float))
        except (TypeError, ValueError):
            value = jnp.full(1, jnp.nan)
        if not is_traced(value) and not np.all(np.isfinite(value)):
            raise DalembertError(f"hold: '{name}' must be held at a number, not {given!r}.")
        if value.shape != (len(own),):
            raise DalembertError(f"hold: '{name}' has {len(own)} numbers; got {np.size(value)}.")
        names[name], values = len(own), [*values, value]
        channels += own
    angles = tuple(system.counts_no_turns(k) for k in channels)
    gathered = jnp.concatenate(values)
    return names, Held(tuple(channels), angles, gathered if is_traced(gathered) else np.asarray(gathered))


def named(names: Mapping[str, int], values) -> dict[str, Any]:
    """Numbers of what is held, by name."""
    out, start = {}, 0
    for name, count in names.items():
        out[name] = values[start] if count == 1 else values[start : start + count]
        start += count
    return out


def brought(rest: Rest, q, names: Mapping[str, int]):
    """The pose with what is held at its values: in short steps, or where these cannot begin (a stretched arm moves its
    tip neither in nor out) by the search of `solve_pose`."""
    start = q
    q, share = reached(rest, START, q)
    if is_traced(q):
        return q
    if share < 1.0 and rest.system.m == rest.system.m_holonomic:
        assert rest.held is not None
        values = named(names, np.asarray(rest.held.values))
        pose = solve_pose(rest.system, values, state=(start, None), t=rest.t, throw=False)
        found, far = reached(rest, START, np.asarray(pose.q))
        q, share = (found, far) if far == 1.0 else (q, share)
    if share < 1.0:
        assert rest.held is not None
        gap = np.asarray(gaps(rest, START, q))[rest.system.m :]
        off = ", ".join(f"'{n}' is still off by {np.max(np.abs(x)):.4g}" for n, x in named(names, gap).items())
        raise EquilibriumError(
            f"hold: '{rest.system.name}' cannot reach these values from its start; the joints allow "
            f"{share:.0%} of the way: {off}. Give values within reach, or a state that is nearer.",
            q,
        )
    at = balance(rest, START, q)
    extra = rest.rows - (at.basis != 0).any(axis=1).sum()
    own = balance(Rest(rest.system, rest.t), START, q) if extra else at
    if extra and rest.rows - rest.system.m > own.freedoms - at.freedoms:
        raise DalembertError(
            f"hold: {', '.join(repr(n) for n in names)} of '{rest.system.name}' cannot all be held: some of them "
            "follow from the joints, the drivers or each other, so their effort is not determined. Leave them out."
        )
    return q


def trimmed(
    rest: Rest, q, names: Mapping[str, int], unknown: Sequence[str], stable: bool, find: Callable
) -> tuple[Rest, Settled, dict[str, Any]]:
    """The parameters for which no effort is needed to hold what is held: Newton's method on the efforts."""
    unknown = (unknown,) if isinstance(unknown, str) else tuple(unknown)
    if rest.held is None:
        raise DalembertError(
            f"unknown={list(unknown)}: name in hold= what these parameters must hold, for example "
            'hold=["elbow.angle"]; without it the loads are given and the pose is found.'
        )
    system = rest.system
    first = _parameters(system, unknown)
    count = sum(x.size for x in first.values())
    if count != len(rest.held.channels):
        raise DalembertError(
            f"unknown={list(unknown)} are {count} numbers, and hold= names {len(rest.held.channels)}: there must be as "
            "many unknown numbers as held ones."
        )
    ways = Ways(is_traced(rest, q))
    xp = ways.np
    y = xp.concatenate([xp.ravel(xp.asarray(x)) for x in first.values()])

    def at(y) -> Rest:
        values, start = {}, 0
        for name, x in first.items():
            values[name] = y[start : start + x.size].reshape(x.shape)
            start += x.size
        return Rest(system.replace(values), rest.t, rest.held)

    if is_traced(rest, q):
        return _trimmed_inside(at, y, q, stable, first)
    previous = np.inf
    for _ in range(TRIMS):
        now = at(y)
        found, _ = find(now, q, stable)
        effort = found.lam[system.m :]
        slopes, typical = effort_slopes(now, y, found, at)
        left = np.max(np.abs(effort)) / typical
        if left <= 1e-14 or (left <= HELD and left >= 0.5 * previous):
            return *_let_go(now, found), _unflattened(y, first)
        previous, q = left, found.q
        if np.linalg.cond(slopes / np.maximum(np.max(np.abs(slopes), axis=1, keepdims=True), 1e-300)) > 1e10:
            raise DalembertError(
                f"unknown={list(unknown)} cannot hold {', '.join(names)} of '{system.name}': in this pose they do not "
                "act on all of it."
            )
        y = y - np.linalg.solve(slopes, effort)
    raise EquilibriumError(f"No values of {list(unknown)} were found that hold {', '.join(names)}.", q)


def _let_go(rest: Rest, found: Settled) -> tuple[Rest, Settled]:
    """The same without efforts: nothing is held any more."""
    rest = Rest(rest.system, rest.t)
    m = rest.system.m
    return rest, found._replace(lam=found.lam[:m], freedoms=balance(rest, START, found.q).freedoms)


def _trimmed_inside(at: Callable, y, q, stable: bool, first):
    """The same inside a program, in a few steps."""

    def efforts(y):
        rest = at(y)
        found = settled(rest, START, q, stable)
        return found.lam[rest.system.m :], found

    def step(_, carry):
        y, _ = carry
        slopes, effort = jax.jacfwd(lambda y: 2 * (efforts(y)[0],), has_aux=True)(y)
        return jax.lax.stop_gradient((y - jnp.linalg.solve(slopes, effort), slopes))

    y, slopes = jax.lax.fori_loop(0, 4, step, (jax.lax.stop_gradient(y), jnp.zeros((len(y), len(y)))))
    last = jnp.linalg.solve(slopes, efforts(y)[0])
    y = y - (last - jax.lax.stop_gradient(last))
    return *_let_go(at(y), efforts(y)[1]), _unflattened(y, first)


def effort_slopes(rest: Rest, y, found: Settled, at) -> tuple[np.ndarray, float]:
    """∂μ/∂y of the efforts in an equilibrium, and a typical effort."""
    own, reach = sizes(rest, START, found.q)[:2]
    here = balance(rest, START, found.q)
    K = stiff(rest, START, found.q, here.lam)
    spring = Spring(np, here, K, own, reach)
    columns = []
    for k in range(len(y)):
        unit = max(abs(y[k]), 1.0)
        step = np.where(np.arange(len(y)) == k, unit, 0.0)
        along = Rest(rest.system, rest.t, rest.held, Along.between(rest.system, at(y + step).system))
        _, lam = path_slope(along, START, found.q, here, K, spring)
        columns.append(lam[rest.system.m :] / unit)
    slopes = np.array(columns).T
    rows = here.back[:, rest.system.m :]
    typical = np.max(np.abs(here.at.h) @ np.abs(rows), initial=0.0) + np.max(np.abs(slopes) @ np.abs(y), initial=0.0)
    return slopes, float(max(typical, 1e-300))


def path_slope(rest: Rest, s, q, here: Balance, K, spring: Spring) -> tuple[np.ndarray, np.ndarray]:
    """δq and δλ for a unit of s along a path of equilibria."""
    force, gap = slope(rest, s, q, here.lam)
    delta = -here.back @ gap
    delta = delta + here.displacement(here.admissible(spring.solve(here.force(force - K @ delta))))
    return delta, -(force - K @ delta) @ here.back


def _parameters(system: AbstractSystem, names: Sequence[str]) -> dict[str, Any]:
    known = system.parameters()
    for name in names:
        if name not in known:
            system.replace({name: 0.0})  # refuses it, with names that are near
    return {name: jnp.asarray(known[name]) for name in names}


def _unflattened(y, first: Mapping[str, Any]) -> dict[str, Any]:
    out, start = {}, 0
    for name, x in first.items():
        out[name] = y[start : start + x.size].reshape(x.shape)
        start += x.size
    return out
