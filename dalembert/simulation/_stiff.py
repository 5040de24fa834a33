"""6 · simulation: whether stability or accuracy set the steps of an explicit integrator, evaluated after a run."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from dalembert.simulation._march import Problem
from dalembert.simulation._radau import rates_jacobian
from dalembert.systems import compiled

STIFF = {
    "euler": (1.0, 1.0),
    "heun": (1.0, 1.0),
    "bosh3": (1.2, 1.5),
    "rk4": (1.0, 1.5),
    "tsit5": (0.9, 1.6),
    "dopri5": (0.9, 1.6),
    "dopri8": (2.4, 3.3),
}
"""h |λ| of a decay and of an oscillation above which stability sets the steps of the explicit integrators.

For a decay a quarter of the stable interval or more [HW IV.2], above which the step control fluctuates; for an
oscillation more than the step control allows where that frequency is resolved with rtol = 1e-3.
"""

MANY = 20_000
"""A run that reached its end is examined, too, from this number of steps on."""


def stiffness(problem: Problem, integrator: str, t, y, step) -> str:
    """A message if the step is as long as stability allows (the machine is stiff), else empty.

    The largest |λ| of the Jacobian of the march at (t, y), of motions that do not grow, is compared with the step.
    """
    if integrator not in STIFF:
        return ""
    J = np.asarray(_jacobian(problem, t, y))
    if not np.all(np.isfinite(J)):
        return ""
    rates = np.linalg.eigvals(J)
    decays = rates.real < -np.abs(rates.imag)
    swings = ~decays & (rates.real <= 0.1 * np.abs(rates))
    found = [
        np.max(np.abs(rates), where=kind, initial=0.0)
        for kind, limit in zip((decays, swings), STIFF[integrator], strict=True)
        if np.any(np.abs(rates[kind]) * float(step) > limit)
    ]
    if not found:
        return ""
    return (
        f"The model is stiff: a motion that decays or swings at {max(found):.2g} 1/s keeps the steps of "
        f"integrator='{integrator}' near {float(step):.2g} s, whatever the tolerance. Use integrator='radau5'."
    )


@compiled
def _jacobian(problem: Problem, t, y) -> jax.Array:
    scale = (problem.system.coordinate_scale(), problem.formulation.scale(problem.system, y[3][0]))
    return rates_jacobian(dataclasses.replace(problem, loop="none").vector_field, t, y, scale)
