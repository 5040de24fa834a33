"""Small linkages, most with closed forms, that several tests ask different things of."""

from __future__ import annotations

import numpy as np

import dalembert as da


def bar(model: da.Model, name: str, start, end, mass: float = 1.0):
    """A uniform rod between two points of the plane, its x axis along it."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    length = float(np.linalg.norm(b - a))
    angle = float(np.arctan2(*(b - a)[::-1]))
    return model.body(name, mass=mass, inertia=mass * length**2 / 12, position=(a + b) / 2, angle=angle)


def turned(angle: float) -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle)])


def fourth(A, D, coupler: float, rocker: float, side: int) -> np.ndarray:
    """The point at the distances `coupler` from A and `rocker` from D, on one side of the line between them."""
    f = np.asarray(D, float) - A
    d = float(np.linalg.norm(f))
    along = (coupler**2 - rocker**2 + d**2) / (2 * d)
    across = np.sqrt(coupler**2 - along**2)
    e = f / d
    return A + along * e + side * across * np.array([-e[1], e[0]])


LENGTHS = (1.0, 3.0, 2.5, 3.2)
"""Crank, coupler, rocker and ground of the four-bar: a crank and rocker (Grashof)."""


def four_bar(start: float = 1.0, side: int = 1) -> da.Model:
    """A crank-rocker; its tip is a point of the coupler off the line of its pins."""
    a, b, c, d = LENGTHS
    model = da.Model("crank-rocker", gravity=(0, -9.81))
    A, D = a * turned(start), np.array([d, 0.0])
    B = fourth(A, D, b, c, side)
    crank, coupler = bar(model, "crank", (0, 0), A), bar(model, "coupler", A, B, 2.0)
    rocker = bar(model, "rocker", D, B, 1.5)
    model.revolute("O", model.ground, crank, at=(0, 0))
    model.revolute("A", crank, coupler, at=A)
    model.revolute("B", coupler, rocker, at=B)
    model.revolute("C", model.ground, rocker, at=D)
    normal = np.array([-(B - A)[1], (B - A)[0]]) / b
    model.measure("tip", "point", coupler, at=(A + B) / 2 + 0.7 * normal)
    return model


def slider_crank(start: float = 0.4, crank: float = 0.3, rod: float = 1.0) -> da.Model:
    """A crank of 0.3 m and a rod of 1 m push a slider along x."""
    model = da.Model("slider-crank", gravity=(0, -9.81))
    A = crank * turned(start)
    B = np.array([A[0] + np.sqrt(rod**2 - A[1] ** 2), 0.0])
    first, second = bar(model, "crank", (0, 0), A), bar(model, "rod", A, B)
    slider = model.body("slider", mass=2.0, inertia=0.1, position=B)
    model.revolute("O", model.ground, first, at=(0, 0))
    model.revolute("A", first, second, at=A)
    model.revolute("B", second, slider, at=B)
    model.prismatic("S", model.ground, slider, at=B, axis=(1, 0))
    return model


def quick_return(start: float = 0.5, crank: float = 0.25, drop: float = 0.6) -> da.Model:
    """Whitworth's quick return: a crank about (0, drop) moves a block in the slot of a lever about the origin."""
    model = da.Model("quick-return", gravity=(0, -9.81))
    pivot = np.array([0.0, drop])
    P = pivot + crank * turned(start)
    angle = float(np.arctan2(P[1], P[0]))
    first = bar(model, "crank", pivot, P)
    lever = bar(model, "lever", (0, 0), 1.2 * turned(angle), 2.0)
    block = model.body("block", mass=0.3, inertia=0.002, position=P, angle=angle)
    model.revolute("O", model.ground, first, at=pivot)
    model.revolute("P", first, block, at=P)
    model.prismatic("slot", lever, block, at=P, axis=turned(angle))
    model.revolute("Q", model.ground, lever, at=(0, 0))
    return model


def cranks() -> da.Model:
    """Three hanging parallel cranks under one coupler, in the plane: one redundant row; at rest in equilibrium."""
    model = da.Model("cranks", gravity=(0, -9.81))
    bar = model.body("bar", mass=2.0, inertia=0.3, position=(1.0, -1.0))
    for k in range(3):
        crank = model.body(f"crank{k}", mass=1.0, inertia=0.1, position=(k, -0.5))
        model.revolute(f"top{k}", model.ground, crank, at=(k, 0))
        model.revolute(f"foot{k}", crank, bar, at=(k, -1))
    return model


def rotor(driver: str) -> da.Model:
    """A shaft in space that a driver turns, and a pendulum that hangs on its axis: steady motion."""
    model = da.Model("rotor", space="space", gravity=(0, 0, -9.81))
    disc = model.body("disc", mass=1.0, inertia=(0.1, 0.1, 0.2), angular_velocity=(0, 0, 2.0))
    model.revolute("axle", model.ground, disc, at=(0, 0, 0), axis=(0, 0, 1))
    model.driver(driver, "axle", da.functions.polynomial([0.0, 2.0]))
    bob = model.body("bob", mass=1.0, inertia=(0.02, 0.02, 0.01), position=(0, 0, -0.5), angular_velocity=(0, 0, 2.0))
    model.revolute("hinge", disc, bob, at=(0, 0, 0), axis=(1, 0, 0))
    return model


def oscillator(stiffness: float) -> da.Model:
    """A mass of 2 kg on a spring that is let go at 0.1: x(t) = 0.1 cos(√(k/m) t)."""
    model = da.Model("oscillator")
    model.body("mass", mass=2.0, inertia=1.0, position=(0.1, 0))
    model.prismatic("rail", model.ground, "mass", at=(0, 0), axis=(1, 0))
    model.spring_damper(
        "spring", model.ground, "mass", at_i=(-1.0, 0), at_j=(0.1, 0), stiffness=stiffness, damping=0.0, length=1.0
    )
    model.measure("place", "point", "mass")
    return model
