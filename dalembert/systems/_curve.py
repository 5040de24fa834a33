"""2 · systems: a point on a curve: the nearest point of a spline, with exact derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from dalembert.model import spline_jet
from dalembert.systems._frames import back, cross, dot

SAMPLES, NEWTON = 8, 12
"""Points sampled on each piece of a curve, and Newton steps from the nearest of them."""


@dataclass(frozen=True)
class OnCurve:
    """The point of j lies on a spline fixed in i: rows are its components across the curve at the nearest point.

    The nearest point s solves c′(s)·(x − c(s)) = 0. It is searched without derivatives; two more Newton steps then
    give the exact derivatives of s(x) up to the third order. The rows' gradient has no part along the curve, so the
    reaction does no work, whichever directions across it are chosen.
    """

    closed: bool

    def __call__(self, t, i, j, p):
        breaks, coefficients = p["breaks"], p["coefficients"]
        x = back(i.R, j.p - i.p)
        s = jax.lax.stop_gradient(self._nearest(breaks, coefficients, jax.lax.stop_gradient(x)))
        for _ in range(2):
            s = s + self._correction(breaks, coefficients, x, s)
        c, tangent, _ = self._curve(breaks, coefficients, s)
        gap, along = x - c, tangent / jnp.sqrt(dot(tangent, tangent))
        if x.shape[0] == 2:
            return (along[0] * gap[1] - along[1] * gap[0])[None]
        # two directions across the tangent; the first also across the axis of i least along it
        first = cross(along, jnp.eye(3)[jnp.argmin(jnp.abs(along))])
        first = first / jnp.sqrt(dot(first, first))
        return jnp.stack([dot(first, gap), dot(cross(along, first), gap)])

    def _curve(self, breaks, coefficients, s):
        """c, c′, c″; a closed curve goes round, an open one is extended by straight lines."""
        if self.closed:
            length = breaks[-1] - breaks[0]
            inside = breaks[0] + jnp.mod(s - breaks[0], length)
            inside = s + jax.lax.stop_gradient(inside - s)
        else:
            inside = jnp.clip(s, breaks[0], breaks[-1])

        point, tangent, bend = spline_jet(breaks, coefficients, inside)
        if self.closed:
            return point, tangent, bend
        beyond = s - inside
        return point + tangent * beyond, tangent, jnp.where(beyond == 0, bend, 0.0)

    def _correction(self, breaks, coefficients, x, s):
        c, tangent, bend = self._curve(breaks, coefficients, s)
        gap = x - c
        return dot(tangent, gap) / (dot(tangent, tangent) - dot(bend, gap))

    def _nearest(self, breaks, coefficients, x):
        share = (jnp.arange(SAMPLES) + 0.5) / SAMPLES
        tries = (breaks[:-1, None] + share * (breaks[1:] - breaks[:-1])[:, None]).ravel()
        found = jax.vmap(lambda s: self._curve(breaks, coefficients, s)[0])(tries)
        s = tries[jnp.argmin(jnp.sum((found - x) ** 2, axis=1))]
        reach = jnp.max(breaks[1:] - breaks[:-1]) / SAMPLES

        def newton(_, s):
            c, tangent, bend = self._curve(breaks, coefficients, s)
            gap, size = x - c, dot(tangent, tangent)
            curvature = jnp.maximum(size - dot(bend, gap), 0.1 * size)  # downhill, also far from the curve
            return s + jnp.clip(dot(tangent, gap) / curvature, -reach, reach)

        return jax.lax.fori_loop(0, NEWTON, newton, s)
