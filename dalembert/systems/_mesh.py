"""2 · systems: toothed wheels, belts and racks: one row each, whose force acts where the teeth or the belt act.

Two wheels i and j turn about parallel axes z; d = p_j − p_i is the line of centres, D its length, n = d/D, t = z × n.
With signed radii (a ring positive and its planet negative; of an open belt the second pulley negative) and θ the
wheels' angles against the line of centres,

    Φ = r_i θ_i + r_j θ_j + s k (D − D₀)

Its rate is the slip of the pitch circles (the belt), its gradient the force: λ, in newton, is the tangential force.
Wheel j gets −λ (r_i + r_j)/D along t, λ s k along n and the torque λ r_j; for teeth, r_i + r_j = D, this is the force
−λ t + λ s k n at the pitch point. k = tan α for teeth of pressure angle α (−tan α in a ring), and for the tight span of
a belt k = −cos β, sin β = (r_i + r_j)/D. s is the side in contact: the sign of λ, so that teeth push and belts pull, or
0, without the radial force. The centres are held by other joints; then s has no effect on the motion, only on
the reactions: a system is made with s = 0, and `with_sides` sets it where reactions are stated. A helix adds the axial
force k_a λ at the pitch point.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from dalembert.systems._frames import Frame, cross, dot, rate_of


def centre_axes(frames):
    """x along the line of centres (radial), y across it (tangential), z along the axis: how wheels state reactions."""
    i, j = frames
    d = j.p - i.p
    if d.shape[0] == 2:
        n = d / jnp.sqrt(dot(d, d))
        return jnp.stack([n, jnp.stack([-n[1], n[0]])], axis=1)
    z = i.R[:, 2]
    across = cross(z, d)
    t = across / jnp.sqrt(dot(across, across))
    return jnp.stack([cross(t, z), t, z], axis=1)


def rack_axes(frames):
    """x along the rack, y from the pinion to it, z along the pinion's axis."""
    return frames[1].R


def _closed(gap, turns):
    """The gap modulo the change by full turns (0: they are counted)."""
    period = jnp.where(turns > 0, turns, 1.0)
    return gap - period * jax.lax.stop_gradient(jnp.where(turns > 0, jnp.round(gap / period), 0.0))


def _radial(p, distance):
    """The part of a row that makes the radial force."""
    return p["side"] * p["slope"] * (distance - p["distance"]) if "side" in p else 0.0


def wheels_2(t, i: Frame, j: Frame, p):
    """Two wheels in the plane, where their angles count full turns and that of the line of centres does not."""
    d = j.p - i.p
    line = jnp.arctan2(d[1], d[0])
    gap = p["radius_i"] * (i.angle - line) + p["radius_j"] * (j.angle - line)
    return (_closed(gap, p["turns"]) + _radial(p, jnp.sqrt(dot(d, d))))[None]


def wheels_3(t, i: Frame, j: Frame, p):
    """Two wheels in space; all angles are known up to full turns."""
    d = j.p - i.p

    def against_line(wheel: Frame):
        return -jnp.arctan2(dot(wheel.R[:, 1], d), dot(wheel.R[:, 0], d))

    gap = _closed(p["radius_i"] * against_line(i) + p["radius_j"] * against_line(j), p["turns"])
    if "helix" in p:  # in proportion to the radii: the axial force acts at the pitch point
        along = p["radius_i"] * dot(i.R[:, 2], d) + p["radius_j"] * dot(j.R[:, 2], d)
        gap = gap + p["helix"] * along / p["distance"]
    across = cross(i.R[:, 2], d)
    return (gap + _radial(p, jnp.sqrt(dot(across, across))))[None]


def wheel_speeds_3(t, i: Frame, j: Frame, p):
    """The same as a row on speeds, where full turns of the two radii add up to anything."""
    return rate_of(lambda i, j: wheels_3(t, i, j, p)[0], i, j)[None]


def rack(t, i: Frame, j: Frame, p):
    """A pinion i on a rack j, whose marker has x along the teeth and y from the pinion's centre to the pitch line."""
    d = j.p - i.p
    x, y = j.R[:, 0], j.R[:, 1]
    angle = i.angle - j.angle if d.shape[0] == 2 else jnp.arctan2(dot(y, i.R[:, 0]), dot(x, i.R[:, 0]))
    gap = dot(x, d) + p["radius"] * angle
    return (_closed(gap, p["turns"]) + _radial(p, dot(y, d)))[None]
