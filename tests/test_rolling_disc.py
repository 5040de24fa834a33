"""The rolling disc against its reduced equations."""

from __future__ import annotations

import math

import numpy as np
from _helpers_references import TIGHT, integrate, rotations, worst

import dalembert as da

# ---- the rolling disc ------------------------------------------------------------------------------------------


def rolling_disc_reduced(times, radius=0.5, lean=0.2, speed=2.0, turn=0.5, g=9.81):
    """Centre (times, 3) and rotation of a thin disc that rolls: Euler's equations about the centre, contact force out.

    Axes: e1 level along the heading ψ, e2 up in the disc, e3 its axis, at θ from the vertical; ω = ω1 e1 + ω2 e2 +
    ω3 e3, θ̇ = ω1, ψ̇ = ω2/sin θ; contact at −r e2, so v = r (ω1 e3 − ω3 e1). With A = ¼ m r², C = ½ m r²,
    Ω3 = ω2 cot θ the axes' own turning about e3, and the moment of m (v̇ − g) about the centre:
    (A + m r²) ω̇1 = A Ω3 ω2 − (C + m r²) ω2 ω3 − m g r cos θ;  A ω̇2 = C ω1 ω3 − A Ω3 ω1;  (C + m r²) ω̇3 = m r² ω1 ω2.
    """
    A, C, r = 0.25, 0.5, radius  # divided by m r²

    def axes(theta, psi):
        e1 = np.array([np.cos(psi), np.sin(psi), 0 * psi])
        n = np.array([np.sin(psi), -np.cos(psi), 0 * psi])
        z = np.array([0 * psi, 0 * psi, 1 + 0 * psi])
        return e1, np.sin(theta) * z - np.cos(theta) * n, np.cos(theta) * z + np.sin(theta) * n

    def rhs(t, y):
        theta, psi, _, w1, w2, w3 = y[:6]
        O3 = w2 / math.tan(theta)
        e1, _, e3 = axes(theta, psi)
        v = r * (w1 * e3 - w3 * e1)
        return [
            w1, w2 / math.sin(theta), w3 - O3,
            (A * O3 * w2 - (C + 1) * w2 * w3 - g / r * math.cos(theta)) / (A + 1),
            (C * w1 * w3 - A * O3 * w1) / A,
            w1 * w2 / (C + 1),
            v[0], v[1],
        ]  # fmt: skip

    theta = math.pi / 2 - lean
    # the disc rolls towards +x, that is by −speed/radius about e3, and all turns about the vertical besides
    start = [theta, 0, 0, 0, turn * math.sin(theta), -speed / r + turn * math.cos(theta), 0, 0]
    y = integrate(rhs, start, times)
    e1, e2, e3 = axes(y[0], y[1])
    b1, b2 = np.cos(y[2]) * e1 + np.sin(y[2]) * e2, -np.sin(y[2]) * e1 + np.cos(y[2]) * e2
    centre = np.column_stack([y[6], y[7], r * np.sin(y[0])])
    return centre, np.stack([b1.T, b2.T, e3.T], axis=-1)


def test_rolling_disc():
    solution = da.simulate(da.mechanism("rolling-disc"), 10.0, samples=201, **TIGHT)
    centre, R = rolling_disc_reduced(np.asarray(solution.t))
    disc = solution.dataset.sel(body="disc")
    # the bar asked of an independent route: 1e-6 m, and 1e-6 in every entry of the rotation
    assert worst(disc["position"].values, centre) < 1e-6
    assert worst(rotations(disc["quaternion"].values), R) < 1e-6
    total = solution.energy["total"].values
    # no forces do work: rolling conserves energy; rtol 1e-11 a step
    assert worst(total, total[0]) < 1e-8 * abs(total[0])
    assert worst(solution.energy["work_of_constraints"], 0.0) < 1e-8 * abs(total[0])
