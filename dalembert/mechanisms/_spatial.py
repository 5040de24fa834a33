"""mechanisms · in space. SI units; gravity as each source states."""

from __future__ import annotations

import math

import numpy as np

from dalembert.mechanisms._registry import register
from dalembert.model import Body, Model, axis_angle, frame_on_axis


def cuboid_inertia(mass: float, sides) -> np.ndarray:
    """Principal moments of a uniform cuboid with sides (x, y, z)."""
    x, y, z = np.square(sides)
    return mass / 12 * np.array([y + z, x + z, x + y])


def bar(model: Model, name: str, start, end, mass: float, width: float, spin=(0.0, 0.0, 0.0), moving=None):
    """A uniform bar of square section between two points, its z axis along it.

    `spin` is its angular velocity, `moving` the velocity of its start; without that it turns about the origin."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    R = frame_on_axis(b - a)
    inertia = cuboid_inertia(mass, (width, width, float(np.linalg.norm(b - a))))
    velocity = np.cross(spin, (a + b) / 2) if moving is None else moving + np.cross(spin, (b - a) / 2)
    motion = {"velocity": velocity, "angular_velocity": R.T @ np.asarray(spin, float)}
    return model.body(name, mass=mass, inertia=inertia, position=(a + b) / 2, rotation=R, **motion)


@register("bricard", "Bricard's loop: six revolutes, five bars, one redundant row (IFToMM A04)")
def bricard() -> Model:
    """IFToMM benchmark A04: five bars of 1 m and 1 kg, section 0.1 m, gravity 9.81 along −y, at rest."""
    model = Model("bricard", space="space", gravity=(0, -9.81, 0))
    points = [(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)]
    axes = [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)]
    bars = [bar(model, f"bar{k + 1}", points[k], points[k + 1], 1.0, 0.1) for k in range(5)]
    links = [model.ground, *bars, model.ground]
    for k in range(6):
        model.revolute(f"R{k + 1}", links[k], links[k + 1], at=points[k], axis=axes[k])
    return model


@register("governor", "the flyball governor, stiff (IFToMM A05)", integrator="radau5", rtol=1e-7)
def governor(stiffness: float = 8e5, damping: float = 4e4) -> Model:
    """IFToMM benchmark A05: shaft, slider, two rods with 5 kg balls, two stiff spring-dampers; 2π rad/s about z.

    Each rod carries its ball at the far end as one body. The slider (0.5 m up) slides on the shaft and the rods
    are hinged at (±0.05, 0, 1), 30° below the level.
    """
    model = Model("governor", space="space", gravity=(0, 0, -9.81))
    density, length, section, cube, ball = 3000.0, 1.0, 0.01, 0.1, 5.0
    spin = 2 * math.pi
    rod_mass = density * length * section**2
    turn = (0, 0, spin)
    shaft_inertia = cuboid_inertia(rod_mass, (section, section, length))
    shaft = model.body("shaft", mass=rod_mass, inertia=shaft_inertia, position=(0, 0, 0.5), angular_velocity=turn)
    slider_mass = density * cube**3
    slider_inertia = cuboid_inertia(slider_mass, (cube,) * 3)
    slider = model.body("slider", mass=slider_mass, inertia=slider_inertia, position=(0, 0, 0.5), angular_velocity=turn)
    model.revolute("bearing", model.ground, shaft, at=(0, 0, 0), axis=(0, 0, 1))
    model.prismatic("sleeve", shaft, slider, at=(0, 0, 0.5), axis=(0, 0, 1))
    for side, word in ((1, "right"), (-1, "left")):
        hinge = np.array([0.05 * side, 0, 1.0])
        along = np.array([side * math.cos(math.pi / 6), 0, -math.sin(math.pi / 6)])
        # the rod (centre at half length) and its ball (at full length) as one body
        mass = rod_mass + ball
        reach = (rod_mass * 0.5 + ball) * length / mass
        across = rod_mass * length**2 / 12 + rod_mass * (reach - 0.5) ** 2 + ball * (length - reach) ** 2
        thin = rod_mass * section**2 / 6
        rod_inertia = rod_mass / 12 * (length**2 + section**2) - rod_mass * length**2 / 12 + across
        R = np.column_stack([along, [0, 1, 0], np.cross(along, [0, 1, 0])])
        centre = hinge + reach * along
        velocity = np.cross([0, 0, spin], centre)
        body = model.body(
            f"rod_{word}", mass=mass, inertia=(thin, rod_inertia, rod_inertia), position=centre, rotation=R,
            velocity=velocity, angular_velocity=R.T @ [0, 0, spin],
        )  # fmt: skip
        model.revolute(f"hinge_{word}", shaft, body, at=hinge, axis=(0, 1, 0))
        model.spring_damper(
            f"spring_{word}", slider, body, at_i=(0.05 * side, 0, 0.5), at_j=hinge + 0.5 * length * along,
            stiffness=stiffness, damping=damping, length=0.5,
        )  # fmt: skip
    return model


def _door(name: str, swing: float) -> tuple[Model, Body]:
    model = Model(name, space="space", gravity=(0, 0, -9.81))
    inertia = cuboid_inertia(10.0, (1.0, 0.05, 2.0))
    velocity, spin = (0, 0.5 * swing, 0), (0, 0, swing)
    leaf = model.body(
        "leaf", mass=10.0, inertia=inertia, position=(0.5, 0, 0), velocity=velocity, angular_velocity=spin
    )
    return model, leaf


@register("door-two-balls", "a door on two ball joints: 1 redundant row")
def door_two_balls(swing: float = 1.0) -> Model:
    """A door 1 × 0.05 × 2 m, 10 kg, on two ball joints at z = ±0.75 on its hinge line."""
    model, leaf = _door("door-two-balls", swing)
    model.spherical("top", model.ground, leaf, at=(0, 0, 0.75))
    model.spherical("bottom", model.ground, leaf, at=(0, 0, -0.75))
    return model


@register("door-two-hinges", "a door on two hinges: 5 redundant rows")
def door_two_hinges(swing: float = 1.0) -> Model:
    """The same door on two revolutes: ten rows of rank five."""
    model, leaf = _door("door-two-hinges", swing)
    model.revolute("top", model.ground, leaf, at=(0, 0, 0.75), axis=(0, 0, 1))
    model.revolute("bottom", model.ground, leaf, at=(0, 0, -0.75), axis=(0, 0, 1))
    return model


@register("spatial-four-bar", "a planar four-bar built of four spatial revolutes: 3 redundant rows")
def spatial_four_bar(lengths=(1.0, 2.0, 1.5, 2.0), crank_angle: float = math.pi / 6, tilt: float = 0.3) -> Model:
    """The four-bar with parallel revolutes in space, its plane tilted by `tilt` about the x axis."""
    from dalembert.mechanisms._planar import four_bar_points

    model = Model("spatial-four-bar", space="space", gravity=(0, 0, -9.81))
    R = axis_angle((1, 0, 0), math.pi / 2 + tilt)
    A, B, C, D = (R @ np.append(p, 0.0) for p in four_bar_points(lengths, crank_angle))
    normal = R @ np.array([0.0, 0, 1])
    crank = bar(model, "crank", A, B, lengths[0], 0.05)
    coupler = bar(model, "coupler", B, C, lengths[1], 0.05)
    rocker = bar(model, "rocker", D, C, lengths[2], 0.05)
    model.revolute("A", model.ground, crank, at=A, axis=normal)
    model.revolute("B", crank, coupler, at=B, axis=normal)
    model.revolute("C", coupler, rocker, at=C, axis=normal)
    model.revolute("D", model.ground, rocker, at=D, axis=normal)
    return model


@register("chain-in-space", "a hanging chain of N bars on universal joints", t_end=10.0)
def chain_in_space(N: int = 5, length: float = 1.0) -> Model:
    """N bars (1 kg and 1 m in all) on universal joints, released level, turning at 0.5 rad/s about the vertical."""
    model = Model(f"chain-in-space-{N}", space="space", gravity=(0, 0, -9.81))
    step, before = length / N, model.ground
    for k in range(N):
        start, end = (k * step, 0, 0), ((k + 1) * step, 0, 0)
        link = bar(model, f"link{k}", start, end, 1.0 / N, 0.02 * length, spin=(0, 0, 0.5))
        model.universal(f"joint{k}", before, link, at=start, axis_i=(0, 1, 0), axis_j=(0, 0, 1))
        before = link
    return model
