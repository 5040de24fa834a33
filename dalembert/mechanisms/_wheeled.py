"""mechanisms · on wheels and edges: nonholonomic."""

from __future__ import annotations

import math

import numpy as np

from dalembert.mechanisms._registry import register
from dalembert.model import Model, axis_angle


@register("rolling-disc", "a thin disc rolling on a plane")
def rolling_disc(radius: float = 0.5, mass: float = 1.0, lean: float = 0.2, speed: float = 2.0, turn: float = 0.5):
    """A uniform thin disc that rolls along x at `speed`, leaning by `lean`, while its plane turns at `turn` rad/s."""
    model = Model("rolling-disc", space="space", gravity=(0, 0, -9.81))
    R = axis_angle((1, 0, 0), math.pi / 2 - lean)  # spin axis (z of the disc) nearly along −y
    centre = np.array([0.0, 0.0, radius * math.cos(lean)])
    contact = np.array([0.0, -radius * math.sin(lean), 0.0])
    axis = R[:, 2]
    if abs(contact @ axis - centre @ axis) > 1e-12:
        contact = -contact
    # roll about the disc's axis so that the contact point is at rest, plus the turn about the vertical
    spin = speed / radius
    omega = spin * axis + np.array([0, 0, turn])
    if np.cross(omega, centre - contact)[0] < 0:
        omega = -spin * axis + np.array([0, 0, turn])
    velocity = np.cross(omega, centre - contact)
    inertia = mass * radius**2 * np.array([0.25, 0.25, 0.5])
    disc = model.body(
        "disc", mass=mass, inertia=inertia, position=centre, rotation=R, velocity=velocity,
        angular_velocity=R.T @ omega,
    )  # fmt: skip
    model.rolling_disc("contact", model.ground, disc, radius=radius, axis=axis, normal=(0, 0, 1))
    return model


# The mobile robot of Wojtyra and Fraczek (2013), section 4 and appendix: four-wheel robot with a one-wheel trolley
ROBOT_A = 0.05
ROBOT_MASSES = (10.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.0)
ROBOT_INERTIAS = (0.25, 0.005, 0.005, 0.005, 0.005, 0.005, 0.05)
ROBOT_SPEED = 0.1


def robot_geometry() -> dict[str, float]:
    """Lengths of the appendix, table 3."""
    a = ROBOT_A
    phi = math.atan(0.25)
    bx, by = a * math.sin(phi), a * math.cos(phi)
    cx = 4 * a - bx
    cy = math.sqrt((5 * a) ** 2 - cx**2)
    return {"a": a, "bx": bx, "by": by, "cx": cx, "cy": cy}


# d(t) along joint H: right for the first part, straight, then left. Ours; the paper shows its own as a figure.
# Each turn is a smooth there-and-back displacement of the rack, a sin⁴ (three times differentiable).
ROBOT_STEERING = "reach*({} - {}) + offset".format(
    *(f"sin(pi*min(max((t - {start})/length, 0), 1))^4" for start in ("begin", "back"))
)


@register("mobile-robot", "the robot on knife edges of Wojtyra and Fraczek: 2 redundant rows", t_end=20.0)
def mobile_robot(reach: float = 0.015) -> Model:
    """Seven bodies, seven revolutes A–G, a slider H with its driver, five knife edges W1–W5; no forces.

    Rows come in the order of the paper's eqs. 29 and 33, so that its row numbers hold. Its bodies i and j are exchanged
    here, as our rows are j − i: the rows agree, but for the driver's, which has the opposite sign.
    """
    g = robot_geometry()
    a, bx, by, cx, cy = (g[k] for k in ("a", "bx", "by", "cx", "cy"))
    dx, dy = cx / 2, cy / 2 - by
    centres = [(20 * a, 0), (24 * a, 0), (16 * a, 0), (20 * a + dx, dy), (20 * a - dx, dy), (20 * a, 0), (5 * a, 0)]
    model = Model("mobile-robot")
    b = [
        model.body(f"body{k + 1}", mass=m, inertia=J, position=p, velocity=(ROBOT_SPEED, 0.0))
        for k, (m, J, p) in enumerate(zip(ROBOT_MASSES, ROBOT_INERTIAS, centres, strict=True))
    ]
    # table 3: joint, body i, body j, s_P in i, s_Q in j
    joints = [
        ("A", 7, 1, (7 * a, 0), (-8 * a, 0)),
        ("B", 2, 1, (0, 0), (4 * a, 0)),
        ("C", 3, 1, (0, 0), (-4 * a, 0)),
        ("D", 4, 2, (cx / 2, -cy / 2), (-bx, -by)),
        ("E", 5, 3, (-cx / 2, -cy / 2), (bx, -by)),
        ("F", 6, 4, (0, cy - by), (-cx / 2, cy / 2)),
        ("G", 6, 5, (0, cy - by), (cx / 2, cy / 2)),
    ]
    for name, i, j, s_i, s_j in joints:
        mi = model.marker(f"{name}_{i}", b[i - 1], position=s_i)
        mj = model.marker(f"{name}_{j}", b[j - 1], position=s_j)
        model.revolute(name, mj, mi)
    # slides along body 1's y axis: u = (0, 1), perpendicular to v = (1, 0)
    upright = np.array([[0.0, -1.0], [1.0, 0.0]])
    h6 = model.marker("H_6", b[5], position=(0, 10 * a), rotation=upright)
    h1 = model.marker("H_1", b[0], position=(0, -10 * a), rotation=upright)
    model.prismatic("H", h1, h6)
    # the paper's d(t) is (Q_1 − P_6)·u; our displacement is its negative
    numbers = {"reach": reach, "begin": 2.0, "back": 12.0, "length": 6.0, "offset": 20 * a}
    model.driver("drive", "H", ROBOT_STEERING, parameters=numbers)
    edges = [("W1", 2, (0, 0)), ("W2", 3, (0, 0)), ("W3", 1, (0, -4 * a)), ("W4", 1, (0, 4 * a)), ("W5", 7, (0, 0))]
    for name, i, s in edges:
        body = b[i - 1]
        model.knife_edge(name, model.ground, body, at=body.position + np.asarray(s), direction=(1, 0))
    return model
