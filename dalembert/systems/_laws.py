"""2 · systems: which law each force class has (`_forces.py`), registered for its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert import model as m
from dalembert._results import DalembertError
from dalembert.systems import _forces as laws
from dalembert.systems._constraints import coordinate_of
from dalembert.systems._positions import component_of

LABELS = {"plane": ("Fx", "Fy", "Mz"), "space": ("Fx", "Fy", "Fz", "Mx", "My", "Mz")}


def law_of(f: m.Force, space: str) -> Any:
    """The law of a force: the one it brings with it, else the one registered for its class or a base of it."""
    own = f.element.law_in(space)
    if own is not None:
        return own
    for cls in type(f.element).__mro__:
        if cls in LAWS:
            return LAWS[cls](f, space)
    raise DalembertError(f"Force '{f.name}': class {type(f.element).__name__} has no law; define law_in.")


def _on_coordinate(law: type[laws.OnCoordinate], winds: Callable[[m.Force], bool] = lambda f: True) -> Callable:
    def made(f: m.Force, space: str):
        assert f.target is not None
        around = f.is_angle and space == "space"  # in the plane angles count full turns
        return law(coordinate_of(f.target, space, f.coordinate), around and winds(f), *f.functions)

    return made


def _measured_stop(f: m.Force, space: str):
    measured: m.MeasuredPosition = f.element.measured  # pyright: ignore[reportAttributeAccessIssue]
    return laws.Stop(component_of(measured, space), measured.is_angle and space == "space")


def _joint_spring(f: m.Force, space: str):
    return _on_coordinate(laws.JointSpring)(f, space) if f.coordinate else laws.BallSpring(*f.functions[:1])


def _coordinate(f: m.Force, space: str) -> Callable | None:
    """The coordinate that a force acts on; None for a ball, about all its axes."""
    assert f.target is not None
    return coordinate_of(f.target, space, f.coordinate) if f.coordinate else None


def _bearing_friction(f: m.Force, space: str):
    assert f.target is not None
    bearing = f.target.element.bearing(space)
    assert bearing is not None
    parts = (tuple(map(LABELS[space].index, part)) for part in (bearing.forces, bearing.torques))
    return laws.BearingFriction(_coordinate(f, space), *parts)


def _dry_friction(f: m.Force, space: str):
    coordinate, turns = _coordinate(f, space), f.is_angle
    assert coordinate is not None
    if f.functions:
        return laws.DryFriction(coordinate, False, f.functions[0], turns)
    bearing = _bearing_friction(f, space)  # no load is given: the joint's own
    return laws.BearingDryFriction(coordinate, bearing.forces, bearing.torques, turns)


def _load(what: str) -> Callable:
    return lambda f, space: laws.Load(f.functions[0], what, f.element.frame)


def _winds(f: m.Force) -> bool:
    """Whether the user's effort(t, value, rate, p) depends on the value beyond a full turn."""
    # a parameter that is zero now may be replaced later
    effort, numbers = f.functions[0], {k: jnp.where(x == 0, 0.37, jnp.asarray(x, float)) for k, x in f.numbers.items()}
    value, rate, t = (x.ravel() for x in np.meshgrid(np.linspace(-3.1, 3.1, 63), (-1.3, 0.0, 0.7), (0.0, 0.31)))
    try:
        at = jax.vmap(lambda *x: jnp.reshape(jnp.asarray(effort(*x, numbers), float), ()))
        here, around = at(t, value, rate), at(t, value + 2 * np.pi, rate)
    except Exception:  # a mistake of the user's function is reported when the system is built
        return True
    return not bool(jnp.max(jnp.abs(around - here)) <= 1e-9 * jnp.max(jnp.abs(here), initial=1e-300))


LAWS: dict[type[m.AbstractForce], Callable[[m.Force, str], Any]] = {
    m.PointForce: _load("force"),
    m.Torque: _load("torque"),
    m.CentralGravity: lambda f, space: laws.CentralGravity(),
    m.Drag: lambda f, space: laws.Drag(),
    m.ForceLaw: lambda f, space: laws.UserLaw(f.functions[0]),
    m.SpringDamper: lambda f, space: laws.LineSpring(*f.functions),
    m.Bushing: lambda f, space: laws.Bushing(),
    m.Beam: lambda f, space: laws.Bushing(),
    m.Pretension: lambda f, space: laws.BeltTension(),
    m.JointSpring: _joint_spring,
    m.Armature: lambda f, space: laws.Armature(_coordinate(f, space)),
    m.JointForce: _on_coordinate(laws.JointForce, _winds),
    m.Stop: _on_coordinate(laws.Stop),
    m.MeasuredStop: _measured_stop,
    m.Friction: _on_coordinate(laws.Friction),
    m.PDControl: _on_coordinate(laws.PDControl),
    m.Motor: _on_coordinate(laws.Motor),
    m.BearingFriction: _bearing_friction,
    m.DryFriction: _dry_friction,
    m.Brake: _dry_friction,
}
"""For each force class the function that makes its law from the placed force."""
