"""Shared: every built-in mechanism at random consistent states, and all methods at them in one compiled program."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import numpy as np

import dalembert as da
from dalembert.complements import all_complements
from dalembert.formulations import (
    AugmentedLagrangian,
    MinimalOrder,
    NullSpace,
    Penalty,
    all_formulations,
    on_complement,
)
from dalembert.mechanisms import mechanisms
from dalembert.stabilise import generic_ranks

# shorter versions of those that come in any length, so that compiling stays short
SMALLER = {"chain": {"N": 4}, "chain-in-space": {"N": 3}, "n-four-bar": {"N": 2}}
NAMES = list(mechanisms())
STATES = 20


@functools.lru_cache(maxsize=4)
def case(name: str):
    """The built mechanism, its ranks, and 20 random consistent states (t, q, v)."""
    system = da.build(da.mechanism(name, **SMALLER.get(name, {})))
    return system, generic_ranks(system), random_states(system)


def random_states(system, count: int = STATES, seed: int = 7):
    """States a few hundredths of the machine's size beside the start, with speeds of the order of 1 size a second."""
    rng = np.random.default_rng(seed)
    scale = np.asarray(system.scale())
    out = []
    while len(out) < count:
        t = float(rng.uniform(0.0, 0.5))
        start = da.stabilise.consistent_state(system, t=t)  # a driven machine is somewhere else at t
        nudge = 0.05 * scale * rng.standard_normal(system.n)
        try:
            q = _retracted(system, start.q, nudge)
            out.append((t, *da.stabilise.consistent_state(system, (q, scale * rng.standard_normal(system.n)), t=t)))
        except da.errors.AssemblyError:
            continue
    return tuple(np.stack([np.asarray(x) for x in column]) for column in zip(*out, strict=True))


@eqx.filter_jit
def _retracted(system, q, nudge):
    return system.retract(q, nudge)


def exact_formulations(ranks, minimal: bool = True) -> dict:
    """All exact formulations, those on a complement with every complement (in minimal order only if asked for)."""
    found = {k: f for k, f in all_formulations().items() if not isinstance(f, Penalty | AugmentedLagrangian)}
    for word, complement in all_complements().items():
        for form in (NullSpace(), MinimalOrder()) if minimal else (NullSpace(),):
            found[f"{type(form).__name__} on {word}"] = on_complement(form, complement)
    return {k: f.with_ranks(ranks) for k, f in found.items()}


@eqx.filter_jit
def at_states(function, system, states):
    """function(system, equations) at all states, one after the other, in one program."""
    return jax.lax.map(lambda s: function(system, da.assemble(system, *s)), states)
