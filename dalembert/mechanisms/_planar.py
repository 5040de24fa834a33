"""mechanisms · in the plane. SI units; gravity 9.81 m/s² along −y unless a source says otherwise."""

from __future__ import annotations

import math

import numpy as np

from dalembert.mechanisms._registry import register
from dalembert.model import Model

G = (0.0, -9.81)


def rod(model: Model, name: str, start, end, mass: float = 1.0, **motion):
    """A uniform slender rod between two points."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    length = float(np.linalg.norm(b - a))
    angle = math.atan2(b[1] - a[1], b[0] - a[0])
    return model.body(name, mass=mass, inertia=mass * length**2 / 12, position=(a + b) / 2, angle=angle, **motion)


@register("pendulum", "a point mass on a massless rod (IFToMM A01)")
def pendulum(length: float = 1.0, mass: float = 1.0) -> Model:
    """IFToMM benchmark A01: 1 kg on a massless bar of 1 m, released level at (−1, 0)."""
    model = Model("pendulum", gravity=G)
    # the rod holds only the point: the body's own turning is free and does not matter
    bob = model.body("bob", mass=mass, inertia=0.1 * mass * length**2, position=(-length, 0.0))
    model.distance("rod", model.ground, bob, at_i=(0.0, 0.0), at_j=(-length, 0.0))
    return model


@register("double-pendulum", "two uniform rods")
def double_pendulum(length: float = 1.0, mass: float = 1.0) -> Model:
    model = Model("double-pendulum", gravity=G)
    upper = rod(model, "upper", (0, 0), (length, 0), mass)
    lower = rod(model, "lower", (length, 0), (length, -length), mass)
    model.revolute("shoulder", model.ground, upper, at=(0, 0))
    model.revolute("elbow", upper, lower, at=(length, 0))
    return model


@register("physical-pendulum", "a uniform rod on a pin")
def physical_pendulum(length: float = 1.0, mass: float = 1.0, angle: float = 0.0) -> Model:
    model = Model("physical-pendulum", gravity=G)
    end = (length * math.cos(angle), length * math.sin(angle))
    model.revolute("pin", model.ground, rod(model, "rod", (0, 0), end, mass), at=(0, 0))
    return model


def four_bar_points(lengths, crank_angle: float) -> list[np.ndarray]:
    """Joint points A, B, C, D of a four-bar (crank, coupler, rocker, ground), open branch."""
    a, b, c, g = lengths
    B = a * np.array([math.cos(crank_angle), math.sin(crank_angle)])
    D = np.array([g, 0.0])
    across = D - B
    d = float(np.linalg.norm(across))
    turn = math.acos((b * b + d * d - c * c) / (2 * b * d))
    direction = math.atan2(across[1], across[0]) + turn
    C = B + b * np.array([math.cos(direction), math.sin(direction)])
    return [np.zeros(2), B, C, D]


@register("four-bar", "a crank-rocker swinging under gravity")
def four_bar(lengths=(1.0, 2.0, 1.5, 2.0), masses=(1.0, 2.0, 1.5), crank_angle: float = math.pi / 6) -> Model:
    """A Grashof crank-rocker of uniform rods (crank, coupler, rocker, ground), released at rest."""
    model = Model("four-bar", gravity=G)
    A, B, C, D = four_bar_points(lengths, crank_angle)
    crank = rod(model, "crank", A, B, masses[0])
    coupler = rod(model, "coupler", B, C, masses[1])
    rocker = rod(model, "rocker", D, C, masses[2])
    model.revolute("A", model.ground, crank, at=A)
    model.revolute("B", crank, coupler, at=B)
    model.revolute("C", coupler, rocker, at=C)
    model.revolute("D", model.ground, rocker, at=D)
    return model


@register("slider-crank", "a crank driven at constant speed, with a spring on the slider")
def slider_crank(crank: float = 0.5, rod_length: float = 1.2, speed: float = 2 * math.pi) -> Model:
    """A slider-crank whose crank turns once a second; a spring-damper holds the slider to ground."""
    model = Model("slider-crank", gravity=G)
    arm = rod(model, "crank", (0, 0), (crank, 0), 1.0)
    link = rod(model, "rod", (crank, 0), (crank + rod_length, 0), 1.5)
    slider = model.body("slider", mass=2.0, inertia=0.02, position=(crank + rod_length, 0))
    model.revolute("main", model.ground, arm, at=(0, 0))
    model.revolute("big_end", arm, link, at=(crank, 0))
    model.revolute("small_end", link, slider, at=(crank + rod_length, 0))
    model.prismatic("guide", model.ground, slider, at=(crank + rod_length, 0), axis=(1, 0))
    model.driver("motor", "main", "speed*t", parameters={"speed": speed})
    wall = (crank + rod_length + 1.0, 0)
    model.spring_damper("buffer", model.ground, slider, at_i=wall, stiffness=200.0, damping=5.0, length=1.0)
    return model


@register("n-four-bar", "N four-bars in a row, through singular positions (IFToMM A02)")
def n_four_bar(N: int = 1) -> Model:
    """IFToMM benchmark A02: 2N+1 uniform rods of 1 m and 1 kg, upright, the tops moving at 1 m/s along x."""
    model = Model(f"n-four-bar-{N}", gravity=G)
    turning = {"velocity": (0.5, 0.0), "angular_velocity": -1.0}
    rockers = [rod(model, f"rocker{i}", (i, 0), (i, 1), **turning) for i in range(N + 1)]
    couplers = [rod(model, f"coupler{i}", (i, 1), (i + 1, 1), velocity=(1.0, 0.0)) for i in range(N)]
    for i, rocker in enumerate(rockers):
        model.revolute(f"foot{i}", model.ground, rocker, at=(i, 0))
    for i, coupler in enumerate(couplers):
        model.revolute(f"left{i}", rockers[i], coupler, at=(i, 1))
        model.revolute(f"right{i}", coupler, rockers[i + 1], at=(i + 1, 1))
    return model


# Andrews' squeezing mechanism: data of the Test Set for IVP Solvers 2.4 (Mazzia, Magherini 2008)
ANDREWS = {
    "m": (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498),
    "I": (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5),
    "A": (-0.06934, -0.00227),
    "B": (-0.03635, 0.03273),
    "C": (0.014, 0.072),
    "c0": 4530.0, "l0": 0.07785, "mom": 0.033, "d": 28e-3, "da": 115e-4, "e": 2e-2, "ea": 1421e-5, "rr": 7e-3,
    "ra": 92e-5, "ss": 35e-3, "sa": 1874e-5, "sb": 1043e-5, "sc": 18e-3, "sd": 2e-2, "ta": 2308e-5, "tb": 916e-5,
    "u": 4e-2, "ua": 1228e-5, "ub": 449e-5, "zf": 2e-2, "zt": 4e-2, "fa": 1421e-5,
    # beta, theta, gamma, phi, delta, omega, epsilon
    "q0": (
        -0.0617138900142764496358948458001,
        0.0,
        0.455279819163070380255912382449,
        0.222668390165885884674473185609,
        0.487364979543842550225598953530,
        -0.222668390165885884674473185609,
        1.23054744454982119249735015568,
    ),
}  # fmt: skip


@register("andrews", "Andrews' squeezing mechanism, seven bodies, very fast", t_end=0.03)
def andrews() -> Model:
    """Seven bodies, ten revolutes, a spring and a motor of 0.033 N m; no gravity. Bodies K1 … K7 as in the source."""
    D = ANDREWS
    beta, theta, gamma, phi, delta, omega, epsilon = D["q0"]
    A, B, C, O = (np.array(x) for x in (D["A"], D["B"], D["C"], (0.0, 0.0)))

    def turned(angle, x, y):
        c, s = math.cos(angle), math.sin(angle)
        return np.array([c * x - s * y, s * x + c * y])

    angles = (beta, beta + theta, gamma, phi + delta, delta, omega + epsilon, epsilon)
    tip1 = O + turned(angles[0], D["rr"], 0)  # K1–K2
    F = tip1 + turned(angles[1], -D["d"], 0)  # where K2, K3, K4 and K6 meet
    tip5 = A + turned(delta, D["zt"], 0)  # K5–K4
    tip7 = A + turned(epsilon, 0, -D["u"])  # K7–K6
    centres = (
        O + turned(angles[0], D["ra"], 0),
        tip1 + turned(angles[1], -D["da"], 0),
        B + turned(angles[2], D["sb"], -D["sa"]),
        tip5 + turned(angles[3], 0, -(D["e"] - D["ea"])),
        A + turned(angles[4], D["ta"], D["tb"]),
        tip7 + turned(angles[5], D["zf"] - D["fa"], 0),
        A + turned(angles[6], -D["ub"], -D["ua"]),
    )
    model = Model("andrews")
    K = [
        model.body(f"K{k + 1}", mass=D["m"][k], inertia=D["I"][k], position=centres[k], angle=angles[k])
        for k in range(7)
    ]
    model.revolute("O", model.ground, K[0], at=O)
    model.revolute("K1K2", K[0], K[1], at=tip1)
    model.revolute("K2K3", K[1], K[2], at=F)
    model.revolute("B", model.ground, K[2], at=B)
    model.revolute("K2K4", K[1], K[3], at=F)
    model.revolute("K4K5", K[3], K[4], at=tip5)
    model.revolute("A5", model.ground, K[4], at=A)
    model.revolute("K2K6", K[1], K[5], at=F)
    model.revolute("K6K7", K[5], K[6], at=tip7)
    model.revolute("A7", model.ground, K[6], at=A)
    model.torque("motor", K[0], D["mom"])
    hook = B + turned(gamma, D["sd"], -D["sc"])
    model.spring_damper("spring", model.ground, K[2], at_i=C, at_j=hook, stiffness=D["c0"], length=D["l0"])
    return model


@register("chain", "a hanging chain of N rods in the plane")
def chain(N: int = 10, length: float = 1.0) -> Model:
    """N uniform rods of equal length and mass (1 kg and 1 m in all), released from a quarter turn."""
    model = Model(f"chain-{N}", gravity=G)
    step, before = length / N, model.ground
    for k in range(N):
        link = rod(model, f"link{k}", (k * step, 0), ((k + 1) * step, 0), 1.0 / N)
        model.revolute(f"pin{k}", before, link, at=(k * step, 0))
        before = link
    return model
