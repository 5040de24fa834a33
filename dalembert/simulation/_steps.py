"""6 · simulation: how long steps are, whatever the end of a run, and the mark from which it can be continued.

The last step of a run is cut so that it ends at t1. A run that is continued must not contain that step: `Mark` is the
state of the march before the first step that was cut, with the step that would have been natural.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

FIRST_STEP = 1e-4
"""First step of an adaptive run, in seconds: short for a machine; it grows two- to fourfold per step where it can."""
NEAR = 256 * np.finfo(float).eps
"""Within this share of the end no step is natural: it may be cut."""
AT_END = 100 * np.finfo(float).eps
"""Within this share of the end a step ends there."""
SAFETY = 0.9
"""Share of the step that the error estimate would allow."""
DAMPING = 0.4
"""That of explicit methods (`Predictive`): at their stability limit a tenth of the steps would be refused without."""


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


class Predictive(diffrax.AbstractStepSizeController):
    """Gustafsson's step control [HW IV.8, eq. 8.25]: follows the trend of the error, and shortens accepted steps, too.

    The controllers of Diffrax never do the latter, so that growing errors end in refused steps (of a four-bar, a fifth
    of all). With `damping` a step that follows one with room to spare grows less [Gustafsson 1991, PI control], as the
    errors of explicit methods near their stability limit ask for. After a refused step the step does not grow. State:
    1 over the last accepted error, its step (or 0), whether a step was refused since.
    """

    rtol: Any
    atol: Any
    norm: Callable[[Any], jax.Array]
    damping: float = eqx.field(static=True, default=0.0)

    def wrap(self, direction):
        return self

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        return t0 + dt0, jax.tree_util.tree_map(jnp.asarray, self.start())

    @staticmethod
    def start():
        """The state before the first step."""
        return np.ones(()), np.zeros(()), np.array(False)

    def adapt_step_size(self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state):
        last, last_h, refused = controller_state

        def relative(before, after, error):
            return error / (self.atol + self.rtol * jnp.maximum(jnp.abs(before), jnp.abs(after)))

        error = jax.lax.stop_gradient(self.norm(jax.tree_util.tree_map(relative, y0, y1_candidate, y_error)))
        h, keep = t1 - t0, error < 1.0
        plain = jnp.maximum(error, 1e-10) ** (-1.0 / error_order)
        longer = jax.lax.stop_gradient(h) / jnp.where(last_h > 0, last_h, 1.0)
        trend = longer * jnp.maximum(error * last, 1e-10) ** (-1.0 / error_order)
        room = last ** (-self.damping / error_order) if self.damping else 1.0
        factor = jnp.where(keep, plain * jnp.where(last_h > 0, jnp.minimum(room, trend), room), plain)
        factor = jnp.minimum(SAFETY * jnp.clip(factor, 0.25, 5.0), jnp.where(keep & refused, 1.0, 5.0))
        last = jnp.where(keep, 1.0 / jnp.maximum(error, 1e-2), last)
        state = (last, jnp.where(keep, jax.lax.stop_gradient(h), last_h), ~keep)
        start = jnp.where(keep, t1, t0)
        return keep, start, start + h * factor, jnp.array(False), state, diffrax.RESULTS.successful


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
