"""6 · simulation: steps that do not depend on where a run ends, and the mark from which it can be continued.

The last step of a run is cut so that it ends at t1. A run that is continued must not contain that step: `Mark` is the
state of the march before the first step that was cut, with the step that would have been natural.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

FIRST_STEP = 1e-4
"""First step of an adaptive run, in seconds: short for a machine; it grows fivefold per step where it can."""
NEAR = 256 * np.finfo(float).eps
"""Within this share of the end no step is natural: it may be cut."""
AT_END = 100 * np.finfo(float).eps
"""Within this share of the end a step ends there."""


def first_step(t0, t1, xp):
    """The first step of an adaptive run: the same for all that last a millisecond or more, so that they begin alike."""
    shortest = 1e6 * np.finfo(float).eps * xp.abs(t0)  # still distinguishable from t0
    return xp.maximum(xp.minimum(FIRST_STEP, 0.1 * (t1 - t0)), shortest)


class FixedSteps(diffrax.AbstractStepSizeController):
    """Steps of one length: the k-th ends at t0 + k dt, wherever the run ends; only the last one may be shorter."""

    def wrap(self, direction):
        return self

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        return t0 + dt0, self.start(t0, dt0)

    @staticmethod
    def start(t0, dt):
        """The state before the first step: steps that are done when it is, start, length."""
        return np.ones((), int), t0, dt

    def adapt_step_size(self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state):
        done, start, dt = controller_state
        done = done + 1
        return True, t1, start + done * dt, False, (done, start, dt), diffrax.RESULTS.successful


class Mark(NamedTuple):
    """Where a march can be continued: the last state before a step was cut to hit the end.

    `next` is where the next step would end by itself; `controller` and `bad` are what the step control remembers,
    `carried` is the solver's state passed from step to step (its Jacobian), if any.
    """

    t: Any
    y: Any
    next: Any
    controller: Any
    bad: Any
    natural: Any  # whether the step under way, and all before it, end where the step control wants
    accepted: Any  # steps since
    rejected: Any
    carried: Any = None
    careful: Any = np.array(True)  # whether the program was that which passes singular positions

    @classmethod
    def at(cls, t, y, next_, controller, bad, end, carried=None, careful=True) -> Mark:
        """A mark here; `end` determines whether the next step will be cut."""
        none = np.zeros((), int)
        natural = _uncut(next_, end)
        return cls(t, y, next_, controller, bad, natural, none, none, carried, np.array(careful, bool))

    def after(self, keep, t, y, next_, controller, bad, end, carried=None, careful=True) -> Mark:
        """The mark after a step was tried: moved here unless that step was cut."""
        count = (self.accepted + keep, self.rejected + ~jnp.asarray(keep))
        here = (t, y, next_, controller, bad, carried, careful)
        there = (self.t, self.y, self.next, self.controller, self.bad, self.carried, self.careful)
        moved = jax.tree_util.tree_map(lambda a, b: jnp.where(self.natural, a, b), here, there)
        accepted, rejected = (jnp.where(self.natural, 0, c) for c in count)
        natural = self.natural & _uncut(next_, end)
        t, y, next_, controller, bad, carried, careful = moved
        return Mark(t, y, next_, controller, bad, natural, accepted, rejected, carried, careful)


def _uncut(next_, end):
    return next_ <= end - NEAR * abs(end)


def ends(t, end):
    """Whether a step to t is so near to the end of the march that it ends there."""
    return t > end - AT_END * abs(end)


def step_to(t: float, next_: float, end: float) -> float:
    """The dt0 with which Diffrax, which takes t + dt0, ends its first step at `next_`, or at the end if it is there."""
    if ends(next_, end):
        return 2 * (end - t)
    step = next_ - t
    for way in (np.inf, -np.inf):
        trial = step
        for _ in range(3):
            if t + trial == next_:
                return float(trial)
            trial = np.nextafter(trial, way)
    return float(step)
