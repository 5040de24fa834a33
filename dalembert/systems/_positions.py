"""2 · systems: positions that are measured of two marker frames (of points, distances, angles, joint coordinates), and
the rows of rigid stops, which hold them in a range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp

from dalembert import model as m
from dalembert.systems._constraints import ROWS, JointRows, coordinate_of
from dalembert.systems._frames import Frame, back, dot


def _seen(i: Frame, j: Frame):
    """Where j is, from i, along i's axes."""
    return back(i.R, j.p - i.p)


def _distance(i: Frame, j: Frame):
    d = j.p - i.p
    return jnp.sqrt(jnp.maximum(dot(d, d), 1e-300))  # with a rate, zero, where it vanishes


def _angle_2(i: Frame, j: Frame):
    return j.angle - i.angle


def _angle_3(i: Frame, j: Frame):
    """About i's z axis, of j's x axis from i's."""
    return jnp.arctan2(dot(i.R[:, 1], j.R[:, 0]), dot(i.R[:, 0], j.R[:, 0]))


def _coordinate(x: m.Measurement, space: str) -> Callable:
    assert isinstance(x.target, m.Constraint)
    return coordinate_of(x.target, space, x.coordinate)


POSITIONS: dict[type, Callable[[m.Measurement, str], Callable]] = {
    m.MeasuredPoint: lambda x, space: _seen,
    m.MeasuredDistance: lambda x, space: _distance,
    m.MeasuredAngle: lambda x, space: _angle_2 if space == "plane" else _angle_3,
    m.MeasuredCoordinate: _coordinate,
}
"""For each class of measured positions the function (i, j) → its numbers; a class of your own that is derived from one
of them has the same."""


def position_of(x: m.Measurement, space: str) -> Callable:
    """What a measured position is of its two marker frames."""
    return next(POSITIONS[cls] for cls in type(x.element).__mro__ if cls in POSITIONS)(x, space)


@dataclass(frozen=True)
class Component:
    """One number of a measured position."""

    function: Callable
    number: int

    def __call__(self, i: Frame, j: Frame):
        return jnp.atleast_1d(self.function(i, j))[self.number]


def component_of(measured: m.MeasuredPosition, space: str) -> Callable:
    """The function (i, j) of a position that a stop holds."""
    return Component(position_of(measured.measurement, space), measured.number)


@dataclass(frozen=True)
class StopRows:
    """What is left of a position's range: below and above."""

    position: Callable

    def __call__(self, t, i, j, p):
        a = self.position(i, j)
        ways = {"lower": lambda: a - p["lower"], "upper": lambda: p["upper"] - a}
        return jnp.stack([way() for key, way in ways.items() if key in p])


def _stops(c: m.Constraint, space: str) -> JointRows:
    measured: m.MeasuredPosition | None = c.element.measured  # pyright: ignore[reportAttributeAccessIssue]
    if measured is not None:
        return JointRows(len(c.element.signs(space)), 0, StopRows(component_of(measured, space)))
    assert c.target is not None
    return JointRows(len(c.element.signs(space)), 0, StopRows(coordinate_of(c.target, space, c.coordinate)))


ROWS |= {(m.RigidStop, space): _stops for space in ("plane", "space")}
