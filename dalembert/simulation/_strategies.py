"""6 · simulation: objects of Diffrax that `simulate` takes: a solver, a step-size controller, an event, an adjoint.

An object that says the same as one of our names (`diffrax.Tsit5()` is "tsit5") becomes that name: the same program,
the same motion bit for bit. Objects that do not work with projected steps are refused by name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import equinox as eqx

from dalembert._results import DalembertError, did_you_mean
from dalembert.simulation._march import INTEGRATORS

ONE_STEP = (diffrax.AbstractERK, diffrax.AbstractDIRK, diffrax.Euler, diffrax.ImplicitEuler)
"""Solvers that need nothing but the state at the start of a step: it may be projected between steps."""

DERIVATIVES = ("reverse", "forward")


class Strategies(NamedTuple):
    """What was asked for, sorted: names where a name says it all, otherwise the objects."""

    integrator: str | None
    derivative: str
    solver: diffrax.AbstractSolver | None
    controller: diffrax.AbstractStepSizeController | None
    event: diffrax.Event | None
    adjoint: diffrax.AbstractAdjoint | None

    @property
    def restartable(self) -> bool:
        """Whether a run can be continued by `after=`: its march is known by names alone."""
        return self.solver is None and self.controller is None and self.event is None


def strategies(integrator, controller, event, derivative, dt, rtol, atol) -> Strategies:
    """The choices of `simulate`, checked; each is refused by name where it cannot be used."""
    name, solver = _solver(integrator)
    if controller is not None:
        controller = _controller(controller, dt, rtol, atol)
    if event is not None and not isinstance(event, diffrax.Event):
        raise DalembertError(
            f"event={event!r} is unknown; use a diffrax.Event, whose condition is a function of t and (q, v)."
        )
    derivative, adjoint = _adjoint(derivative)
    return Strategies(name, derivative, solver, controller, event, adjoint)


def _solver(integrator) -> tuple[str | None, diffrax.AbstractSolver | None]:
    if integrator is None or isinstance(integrator, str):
        if integrator is not None and integrator not in INTEGRATORS:
            hint = did_you_mean(integrator, INTEGRATORS)
            raise DalembertError(f"integrator={integrator!r} is unknown; use one of {', '.join(INTEGRATORS)}.{hint}")
        return integrator, None
    if isinstance(integrator, type) and issubclass(integrator, diffrax.AbstractSolver):
        raise DalembertError(f"integrator={integrator.__name__} is a class; give an object: {integrator.__name__}().")
    if not isinstance(integrator, diffrax.AbstractSolver):
        raise DalembertError(
            f"integrator={integrator!r} is unknown; use one of {', '.join(INTEGRATORS)}, or a solver of Diffrax."
        )
    word = type(integrator).__name__
    if not isinstance(integrator, ONE_STEP):
        raise DalembertError(
            f"integrator={word}() cannot be used: a step must need nothing but one right-hand side and (q, v) at its "
            "start, because states are projected onto the constraints between steps. Use an explicit or a diagonally "
            f"implicit Runge–Kutta method of Diffrax (Tsit5, Dopri8, Kvaerno5, …), or one of {', '.join(INTEGRATORS)}."
        )
    for name, kind in INTEGRATORS.items():
        if type(integrator) is kind and _by_default(integrator, kind()):
            return name, None
    return word, integrator


def _by_default(given, default) -> bool:
    """Whether an object is as its class makes it."""
    return eqx.tree_equal(given, default) is True


def _controller(controller, dt, rtol, atol) -> diffrax.AbstractStepSizeController | None:
    if not isinstance(controller, diffrax.AbstractStepSizeController):
        raise DalembertError(
            f"stepsize_controller={controller!r} is unknown; use one of Diffrax, such as diffrax.PIDController(…)."
        )
    word = type(controller).__name__
    if isinstance(controller, diffrax.ConstantStepSize):
        if dt is None:
            raise DalembertError("stepsize_controller=ConstantStepSize() needs the length of a step: give dt=.")
        return None  # the same as dt= alone
    given: dict[str, Any] = {"dt": dt, "rtol": rtol, "atol": atol}
    for name, value in given.items():
        if value is not None:
            raise DalembertError(
                f"{name}= cannot be given besides stepsize_controller={word}(…), which sets the steps."
            )
    return controller


def _adjoint(derivative) -> tuple[str, diffrax.AbstractAdjoint | None]:
    if isinstance(derivative, str):
        if derivative not in DERIVATIVES:
            raise DalembertError(f"derivative={derivative!r} is unknown; use 'forward' or 'reverse'.")
        return derivative, None
    if not isinstance(derivative, diffrax.AbstractAdjoint):
        raise DalembertError(
            f"derivative={derivative!r} is unknown; use 'forward', 'reverse' or an adjoint of Diffrax."
        )
    word = type(derivative).__name__
    if isinstance(derivative, diffrax.BacksolveAdjoint):
        raise DalembertError(
            f"derivative={word}() cannot be used: it integrates backwards without the projections, so its derivatives "
            "would be wrong. Use RecursiveCheckpointAdjoint(checkpoints=…) to bound memory."
        )
    if isinstance(derivative, diffrax.ImplicitAdjoint):
        raise DalembertError(f"derivative={word}() is for steady states, not for motions; use 'reverse' or 'forward'.")
    if isinstance(derivative, diffrax.ForwardMode):
        return "forward", None
    if isinstance(derivative, diffrax.RecursiveCheckpointAdjoint) and derivative.checkpoints is None:
        return "reverse", None
    return "reverse", derivative
