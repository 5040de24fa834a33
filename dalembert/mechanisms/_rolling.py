"""mechanisms · that roll or slide on edges: the bicycle, the sleigh, the sphere, the snakeboard. SI units."""

from __future__ import annotations

import math

import numpy as np

from dalembert.mechanisms._registry import register
from dalembert.model import Model

# Benchmark bicycle: Meijaard, Papadopoulos, Ruina and Schwab (2007), table 1; x forward, z down
BICYCLE = {
    "w": 1.02, "c": 0.08, "tilt": math.pi / 10, "g": 9.81,
    "rR": 0.3, "mR": 2.0, "IR": (0.0603, 0.12),
    "xB": 0.3, "zB": -0.9, "mB": 85.0, "IB": (9.2, 11.0, 2.8, 2.4),
    "xH": 0.9, "zH": -0.7, "mH": 4.0, "IH": (0.05892, 0.06, 0.00708, -0.00756),
    "rF": 0.35, "mF": 3.0, "IF": (0.1405, 0.28),
}  # fmt: skip


@register("bicycle", "the Whipple bicycle, rolling upright (Meijaard et al. 2007)", t_end=5.0)
def bicycle(speed: float = 5.0, lean_rate: float = 0.2) -> Model:
    """Rear wheel, rear frame with rider, front frame, front wheel; x forward, z down, both wheels roll without slip."""
    n = BICYCLE
    model = Model("bicycle", space="space", gravity=(0, 0, n["g"]))
    forward, leaning = np.array([speed, 0.0, 0.0]), np.array([lean_rate, 0.0, 0.0])

    def part(name, mass, inertia, position, spin=0.0):
        # upright and straight; leaning about the line on the ground through both contacts
        position = np.asarray(position, float)
        omega = leaning + np.array([0.0, spin, 0.0])
        velocity = forward + np.cross(leaning, position)
        return model.body(
            name, mass=mass, inertia=inertia, position=position, velocity=velocity, angular_velocity=omega
        )

    def tensor(xx, yy, zz, xz):
        return [[xx, 0.0, xz], [0.0, yy, 0.0], [xz, 0.0, zz]]

    rear_centre, front_centre = (0.0, 0.0, -n["rR"]), (n["w"], 0.0, -n["rF"])
    wheel = lambda I: (I[0], I[1], I[0])  # noqa: E731  # symmetric about its axle, y
    rear = part("rear_wheel", n["mR"], wheel(n["IR"]), rear_centre, -speed / n["rR"])
    frame = part("frame", n["mB"], tensor(*n["IB"]), (n["xB"], 0.0, n["zB"]))
    fork = part("fork", n["mH"], tensor(*n["IH"]), (n["xH"], 0.0, n["zH"]))
    front = part("front_wheel", n["mF"], wheel(n["IF"]), front_centre, -speed / n["rF"])
    steer = (math.sin(n["tilt"]), 0.0, math.cos(n["tilt"]))
    model.revolute("rear_axle", frame, rear, at=rear_centre, axis=(0, 1, 0))
    model.revolute("head", frame, fork, at=(n["w"] + n["c"], 0.0, 0.0), axis=steer)
    model.revolute("front_axle", fork, front, at=front_centre, axis=(0, 1, 0))
    model.rolling_disc("rear_contact", model.ground, rear, radius=n["rR"], axis=(0, 1, 0), normal=(0, 0, -1))
    model.rolling_disc("front_contact", model.ground, front, radius=n["rF"], axis=(0, 1, 0), normal=(0, 0, -1))
    return model


@register("chaplygin-sleigh", "a body on a knife edge behind its centre of mass (Chaplygin)")
def chaplygin_sleigh(
    mass: float = 1.5, inertia: float = 0.4, offset: float = 0.3, speed: float = -1.0, turning: float = 1.2
) -> Model:
    """The edge lies `offset` behind the centre of mass; it starts at `speed` along the edge, turning.

    However it starts, it ends up running straight with the edge behind (Neimark and Fufaev, Dynamics of Nonholonomic
    Systems, 1972).
    """
    model = Model("chaplygin-sleigh")
    sleigh = model.body(
        "sleigh", mass=mass, inertia=inertia, position=(offset, 0.0), velocity=(speed, turning * offset),
        angular_velocity=turning,
    )  # fmt: skip
    model.knife_edge("edge", model.ground, sleigh, at=(0, 0), direction=(1, 0))
    return model


@register("rolling-sphere", "a ball rolling on a turning plate: it goes round in circles")
def rolling_sphere(
    mass: float = 1.0, radius: float = 0.1, turning: float = 3.0, speed: float = 0.5, plate_inertia: float = 1.0
) -> Model:
    """A uniform ball on a level plate kept turning at `turning` rad/s; its centre runs a circle at 2/7 of that rate."""
    model = Model("rolling-sphere", space="space", gravity=(0, 0, -9.81))
    plate = model.body(
        "plate", mass=10.0, inertia=(plate_inertia / 2, plate_inertia / 2, plate_inertia), position=(0, 0, 0),
        angular_velocity=(0, 0, turning),
    )  # fmt: skip
    centre = np.array([0.4, 0.0, radius])
    velocity = np.array([0.0, speed, 0.0])
    # no slip: v + ω × (−r n) = Ω n × x, with no spin about the normal
    slip = velocity - np.cross((0, 0, turning), centre * (1, 1, 0))
    omega = np.cross((0, 0, 1), slip) / radius
    ball = model.body(
        "ball", mass=mass, inertia=(0.4 * mass * radius**2,) * 3, position=centre, velocity=velocity,
        angular_velocity=omega,
    )  # fmt: skip
    model.revolute("axle", model.ground, plate, at=(0, 0, 0), axis=(0, 0, 1))
    model.speed_driver("drive", "axle", turning)
    model.rolling_sphere("contact", plate, ball, radius=radius, normal=(0, 0, 1))
    return model


@register("snakeboard", "a board on two steered edges, driven by a turning rotor")
def snakeboard(
    length: float = 0.5, steering: float = 0.4, frequency: float = 2.0, swing: float = 0.8, speed: float = 0.0
) -> Model:
    """Board, two trucks steered opposite to each other, and a rotor on the board; no wheel pushes.

    After Ostrowski, Lewis, Murray and Burdick, Nonholonomic mechanics and locomotion: the snakeboard example (1994):
    the rotor turns as swing · sin(ωt), the trucks as ±steering · sin(ωt). Numbers are ours.
    """
    model = Model("snakeboard")
    velocity = (speed, 0.0)
    board = model.body("board", mass=6.0, inertia=0.3, position=(0, 0), velocity=velocity)
    rotor = model.body("rotor", mass=2.0, inertia=0.4, position=(0, 0), velocity=velocity)
    model.revolute("spine", board, rotor, at=(0, 0))
    for name, side in (("front", 1.0), ("back", -1.0)):
        truck = model.body(name, mass=0.5, inertia=0.01, position=(side * length / 2, 0.0), velocity=velocity)
        model.revolute(f"{name}_pivot", board, truck, at=truck.position)
        model.knife_edge(f"{name}_wheels", model.ground, truck, at=truck.position, direction=(1, 0))
        turn = {"harmonic": {"amplitude": side * steering, "omega": frequency}}
        model.driver(f"{name}_steering", f"{name}_pivot", turn)
    model.driver("twist", "spine", {"harmonic": {"amplitude": swing, "omega": frequency}})
    return model
