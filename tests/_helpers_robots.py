"""Robot files of the tests as systems in joint coordinates, and as Pinocchio and MuJoCo see them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.io import read

ROBOTS = Path(__file__).parent / "data" / "robots"


class At(NamedTuple):
    """One evaluation of the equations of motion, as NumPy arrays."""

    M: np.ndarray
    h: np.ndarray
    vdot: np.ndarray
    C: np.ndarray
    Phi: np.ndarray
    Gamma: np.ndarray


@eqx.filter_jit
def _evaluate(system, t, q, u):
    equations = da.assemble(system, t, q, u)
    vdot = da.formulations.Proximal().solve(equations).vdot
    return equations.M, equations.h, vdot, equations.C, equations.Phi, equations.Gamma


def evaluate(system, q, u) -> At:
    return At(*(np.asarray(x) for x in _evaluate(system, jnp.asarray(0.0), jnp.asarray(q), jnp.asarray(u))))


def tree_of(name: str, cut=(), **options):
    """A robot file as a model, and in joint coordinates."""
    model = read(ROBOTS / name, **options).model
    return model, da.build(model, coordinates="joint", cut=cut)


def velocity_names(system) -> list[str]:
    """The joint (or free body) that each velocity belongs to."""
    return [system.tree.joints[k] for k in system.tree.link_of]


def closed(system, q, u):
    """The nearest (q, u) that meets the rows, by Newton."""
    for _ in range(20):
        at = evaluate(system, q, u)
        if at.Phi.size == 0 or np.max(np.abs(at.Phi)) < 1e-14:
            break
        step = -np.linalg.pinv(at.C, rcond=1e-9)[:, : len(at.Phi)] @ at.Phi
        q = np.asarray(system.retract(jnp.asarray(q), jnp.asarray(step)))
    at = evaluate(system, q, u)
    u = u - np.linalg.pinv(at.C, rcond=1e-9) @ (at.C @ u) if len(at.C) else u
    return q, u
