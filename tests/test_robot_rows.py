"""Rows of the mobile robot against the appendix of its paper (Wojtyra, Fraczek 2013)."""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp
import numpy as np
from _helpers_joints import ROUNDING, close, rotation_2

import dalembert as da
from dalembert.linalg import Dependence
from dalembert.mechanisms import _wheeled

OMEGA = np.array([[0.0, -1.0], [1.0, 0.0]])


def table_3():
    """Joints of Wojtyra and Fraczek (2013), table 3: name, i, j, s_P in i, s_Q in j; a, b, c from below the table."""
    a = 0.05
    phi = math.atan(1 / 4)
    bx, by = a * math.sin(phi), a * math.cos(phi)
    cx = 4 * a - bx
    cy = math.sqrt((5 * a) ** 2 - cx**2)
    return [
        ("A", 7, 1, (7 * a, 0), (-8 * a, 0)),
        ("B", 2, 1, (0, 0), (4 * a, 0)),
        ("C", 3, 1, (0, 0), (-4 * a, 0)),
        ("D", 4, 2, (cx / 2, -cy / 2), (-bx, -by)),
        ("E", 5, 3, (-cx / 2, -cy / 2), (bx, -by)),
        ("F", 6, 4, (0, cy - by), (-cx / 2, cy / 2)),
        ("G", 6, 5, (0, cy - by), (cx / 2, cy / 2)),
    ]


SLIDER = (6, 1, np.array([0, 10 * 0.05]), np.array([0, -10 * 0.05]))  # H of table 3; v = (1, 0), u = (0, 1)
# table 1: edge, body, s_K; n_K = (0, 1) for all
EDGES = [(2, (0, 0)), (3, (0, 0)), (1, (0, -0.2)), (1, (0, 0.2)), (7, (0, 0))]


class Robot:
    """Eqs. 30, 31 and 40–47 at (q, q̇), with d, d_t, d_tt of the driver."""

    def __init__(self, q, v, d):
        self.r, self.angle = q.reshape(7, 3)[:, :2], q.reshape(7, 3)[:, 2]
        self.rate, self.w = v.reshape(7, 3)[:, :2], v.reshape(7, 3)[:, 2]
        self.R = rotation_2(self.angle)
        self.d = d

    def revolute(self, i, j, s_P, s_Q):
        """Eqs. 40, 44, 47."""
        i, j = i - 1, j - 1
        P, Q = self.R[i] @ s_P, self.R[j] @ s_Q
        C = np.zeros((2, 7, 3))
        C[:, i] = np.column_stack([np.eye(2), OMEGA @ P])
        C[:, j] = np.column_stack([-np.eye(2), -OMEGA @ Q])
        Phi = self.r[i] + P - self.r[j] - Q
        return Phi, C.reshape(2, 21), np.zeros(2), P * self.w[i] ** 2 - Q * self.w[j] ** 2

    def along(self, direction):
        """Row of eqs. 42 (v) and 43 (u), its derivatives 45, 46, and Γ of 47, without d(t)."""
        i, j, s_P, s_Q = SLIDER
        i, j = i - 1, j - 1
        P, n = self.R[i] @ s_P, self.R[j] @ direction
        C = np.zeros((7, 3))
        C[i] = [*(-n), -n @ OMEGA @ P]
        C[j] = [*n, -n @ OMEGA @ (self.r[j] - self.r[i] - P)]
        apart = self.r[j] + self.R[j] @ s_Q - self.r[i] - P
        curl = 2 * OMEGA @ (self.rate[j] - self.rate[i]) * self.w[j] + (self.r[j] - self.r[i]) * self.w[j] ** 2
        return apart @ n, C.ravel(), n @ (curl - P * (self.w[j] - self.w[i]) ** 2)

    def slider(self):
        """The translational joint H: eqs. 42, 45, 47; ψ = 0."""
        Phi, row, Gamma = self.along(np.array([1.0, 0.0]))
        turn = np.zeros((7, 3))
        turn[5, 2], turn[0, 2] = 1, -1
        gap = self.angle[5] - self.angle[0]
        return np.array([Phi, gap]), np.array([row, turn.ravel()]), np.zeros(2), np.array([Gamma, 0.0])

    def driver(self):
        """Eqs. 43, 46, 47."""
        Phi, row, Gamma = self.along(np.array([0.0, 1.0]))
        d, d_t, d_tt = self.d
        return np.array([Phi - d]), row[None], np.array([-d_t]), np.array([Gamma + d_tt])

    def edge(self, body, s):
        """Eqs. 30, 31."""
        i, n = body - 1, np.array([0.0, 1.0])
        C = np.zeros((7, 3))
        C[i] = [*(self.R[i] @ n), n @ OMEGA @ np.array(s)]
        return (
            np.zeros(0),
            C.reshape(1, 21),
            np.zeros(1),
            np.array([-(OMEGA @ self.R[i] @ n) @ self.rate[i] * self.w[i]]),
        )

    def rows(self):
        """Eqs. 29 and 33: A … G, H, driver, W1 … W5."""
        parts = [self.revolute(i, j, np.array(P), np.array(Q)) for _, i, j, P, Q in table_3()]
        parts += [self.slider(), self.driver(), *(self.edge(body, s) for body, s in EDGES)]
        return [np.concatenate([p[k] for p in parts]) for k in range(4)]


@functools.cache
def robot():
    return da.build(da.mechanism("mobile-robot"))


def steering(t):
    """The paper's d(t) = (Q_1 − P_6)·u: minus our displacement; its derivatives by hand from sin⁴ of the two bumps."""
    reach, length = 0.015, 6.0
    value = np.array([20 * 0.05, 0.0, 0.0])
    for start, sign in ((2.0, 1), (12.0, -1)):
        s = (t - start) / length
        if not 0 <= s <= 1:
            continue
        x, k = math.pi * s, math.pi / length
        sin, cos = math.sin(x), math.cos(x)
        value += sign * reach * np.array([sin**4, 4 * k * sin**3 * cos, 4 * k**2 * (3 * sin**2 * cos**2 - sin**4)])
    return -value


# our rows are the paper's, in its order; only the driver's row has the other sign (our displacement is −(Q_1 − P_6)·u)
SIGNS = np.ones(22)
SIGNS[16] = -1


def compare_robot(t, q, v):
    e = da.assemble(robot(), t, jnp.asarray(q), jnp.asarray(v))
    Phi, C, b, Gamma = Robot(np.asarray(q), np.asarray(v), steering(t)).rows()
    assert close(e.C, SIGNS[:, None] * C, ROUNDING)
    assert close(e.b, SIGNS * b, ROUNDING)
    assert close(e.Gamma, SIGNS * Gamma, 10 * ROUNDING)
    assert close(e.Phi, SIGNS[:17] * Phi, ROUNDING)
    return e


def test_robot_geometry_is_table_3():
    g = _wheeled.robot_geometry()
    assert g["a"] == 0.05 and abs(g["cx"] + g["bx"] - 0.2) < 1e-16


def test_robot_at_q0_is_the_appendix():
    """At q0 of eq. 34, moving along x: the ranks of the errata's list, which the paper states for this pose."""
    system = robot()
    e = compare_robot(0.0, system.q0, system.v0)
    C, blocks = np.asarray(e.C), np.asarray(e.mass.blocks)
    assert C.shape == (22, 21) and system.m_holonomic == 17
    assert Dependence(C[:17], blocks).rank == 17
    assert Dependence(C[17:], blocks).rank == 4
    assert Dependence(C, blocks).rank == 20
    found = da.check(system)
    assert (found.redundancy, found.mobility) == (2, 1)


def test_robot_along_its_motion_is_the_appendix():
    """Consistent states while it turns right (3–7 s) and left (13–17 s), reached by holding the constraints."""
    system = robot()
    rng = np.random.default_rng(3)
    for t in (3.2, 5.0, 6.9, 13.1, 16.4):
        # the platform turned and moved at random, the rest following by the constraints
        q = np.asarray(system.q0).reshape(7, 3).copy()
        angle = rng.uniform(-1, 1)
        q[:, :2] = q[:, :2] @ rotation_2(angle).T + rng.uniform(-1, 1, 2)
        q[:, 2] += angle
        v = np.asarray(system.v0).reshape(7, 3).copy()
        v[:, :2] = v[:, :2] @ rotation_2(angle).T
        state = da.stabilise.consistent_state(system, (q.ravel(), v.ravel()), t=t)
        e = compare_robot(t, state.q, state.v)
        assert np.max(np.abs(e.Phi)) < 1e-12 and np.max(np.abs(e.phi)) < 1e-12
        assert np.max(np.abs(e.Gamma)) > 1e-5  # a state that turns, or the comparison of Γ says nothing
        rank = Dependence(np.asarray(e.C), np.asarray(e.mass.blocks)).rank
        assert rank == 20


def test_robot_off_its_constraints_is_the_appendix():
    """The formulas hold at any pose and velocity."""
    system = robot()
    rng = np.random.default_rng(4)
    for t in (0.5, 4.0, 14.2):
        compare_robot(t, np.asarray(system.q0) + 0.3 * rng.standard_normal(21), rng.standard_normal(21))
