"""mechanisms · parallel robots, a slider-crank and a gear train in space. SI units."""

from __future__ import annotations

import math

import numpy as np

from dalembert.mechanisms._registry import register
from dalembert.mechanisms._spatial import bar, cuboid_inertia
from dalembert.model import Model, axis_angle, frame_on_axis


@register("slider-crank-in-space", "a slider-crank in space: revolute, ball, Hooke joint, slider")
def slider_crank_in_space(crank: float = 0.1, rod_length: float = 0.3, speed: float = 6.0) -> Model:
    """The crank turns about x at height 0.1, the slider runs along x; the rod has a ball at the crank, a Hooke joint at
    the slider. After the spatial slider-crank of Haug, Computer Aided Kinematics and Dynamics (1989), section 12.2,
    with rigid lengths of our own. One degree of freedom, no redundant row."""
    model = Model("slider-crank-in-space", space="space", gravity=(0, 0, -9.81))
    hub, pin = np.array([0.0, 0.1, 0.12]), np.array([0.0, 0.1, 0.12 + crank])
    slider_at = np.array([math.sqrt(rod_length**2 - pin[1] ** 2 - pin[2] ** 2), 0.0, 0.0])
    arm = bar(model, "crank", hub, pin, 0.12, 0.02)
    rod = bar(model, "rod", pin, slider_at, 0.5, 0.02)
    slider = model.body("slider", mass=2.0, inertia=(1e-3, 1e-3, 1e-3), position=slider_at)
    model.revolute("axle", model.ground, arm, at=hub, axis=(1, 0, 0))
    model.spherical("ball", arm, rod, at=pin)
    along = (slider_at - pin) / rod_length
    across = np.cross(along, (1, 0, 0))
    across /= np.linalg.norm(across)
    model.universal("cross", rod, slider, at=slider_at, axis_i=across, axis_j=np.cross(across, along))
    model.prismatic("guide", model.ground, slider, at=slider_at, axis=(1, 0, 0))
    model.driver("drive", "axle", {"polynomial": [0.0, speed]})
    return model


@register("stewart-platform", "Stewart's platform: six driven legs hold its six degrees of freedom", t_end=5.0)
def stewart_platform(base: float = 1.0, top: float = 0.6, height: float = 1.2, stroke: float = 0.1) -> Model:
    """Each leg: Hooke joint on the base, cylinder and rod in a slider, ball under the platform; the sliders are driven.

    Base and platform are hexagons of two angles each, in the usual 6–6 arrangement; numbers are ours.
    """
    model = Model("stewart-platform", space="space", gravity=(0, 0, -9.81))
    platform = model.body("platform", mass=20.0, inertia=cuboid_inertia(20.0, (1.0, 1.0, 0.1)), position=(0, 0, height))
    down = np.deg2rad([-15.0, 15.0, 105.0, 135.0, 225.0, 255.0])
    up = np.deg2rad([-45.0, 45.0, 75.0, 165.0, 195.0, 285.0])
    for k in range(6):
        foot = base * np.array([math.cos(down[k]), math.sin(down[k]), 0.0])
        head = np.array([top * math.cos(up[k]), top * math.sin(up[k]), height])
        along = (head - foot) / np.linalg.norm(head - foot)
        middle = (foot + head) / 2
        cylinder = bar(model, f"cylinder{k + 1}", foot, middle, 2.0, 0.06)
        piston = bar(model, f"piston{k + 1}", middle, head, 1.0, 0.03)
        across = frame_on_axis(along)[:, 0]
        model.universal(f"U{k + 1}", model.ground, cylinder, at=foot, axis_i=across, axis_j=np.cross(along, across))
        model.prismatic(f"P{k + 1}", cylinder, piston, at=middle, axis=along)
        model.spherical(f"S{k + 1}", piston, platform, at=head)
        push = {"product": [{"step": {"begin": 0.0, "end": 1.0}},
                            {"harmonic": {"amplitude": stroke, "omega": 2.0, "phase": k * math.pi / 3}}]}  # fmt: skip
        model.driver(f"push{k + 1}", f"P{k + 1}", push)
    return model


@register("delta-robot", "Clavel's Delta robot: three arms, six rods, a plate that cannot turn", t_end=5.0)
def delta_robot(
    base: float = 0.2, plate: float = 0.05, arm: float = 0.25, rod: float = 0.5, width: float = 0.1
) -> Model:
    """Each arm holds two parallel rods, each by a Hooke joint above and a ball below; the arms carry spring torques.

    After Clavel, Delta, a fast robot with parallel geometry (1988); numbers are ours. Three degrees of freedom, and
    no redundant row: the plate's three rotations are held by the rods.
    """
    model = Model("delta-robot", space="space", gravity=(0, 0, -9.81))
    tilt = 0.3  # of the arms below the level, at the start
    reach = base + arm * math.cos(tilt) - plate
    drop = -arm * math.sin(tilt) - math.sqrt(rod**2 - reach**2)
    moving = np.array([1.0, 0.4, 0.3])
    tool = model.body("plate", mass=0.5, inertia=(5e-4, 5e-4, 1e-3), position=(0, 0, drop), velocity=moving)
    for k in range(3):
        angle = 2 * math.pi * k / 3
        out, side = (
            np.array([math.cos(angle), math.sin(angle), 0.0]),
            np.array([-math.sin(angle), math.cos(angle), 0.0]),
        )
        shoulder = base * out
        elbow = shoulder + arm * (math.cos(tilt) * out - math.sin(tilt) * np.array([0.0, 0.0, 1.0]))
        along = (tool.position + plate * out - elbow) / rod
        # the elbow moves across its arm, and along a rod both ends are equally fast
        turning = (moving @ along) / (np.cross(side, elbow - shoulder) @ along) * side
        upper = bar(model, f"arm{k + 1}", shoulder, elbow, 0.3, 0.03, turning, np.zeros(3))
        model.revolute(f"R{k + 1}", model.ground, upper, at=shoulder, axis=side)
        model.joint_spring(f"torque{k + 1}", f"R{k + 1}", stiffness=30.0, damping=0.05, free=-0.05)
        for letter, way in (("a", 0.5), ("b", -0.5)):
            top, bottom = elbow + way * width * side, tool.position + plate * out + way * width * side
            above = np.cross(turning, elbow - shoulder)
            link = bar(
                model, f"rod{k + 1}{letter}", top, bottom, 0.08, 0.01, np.cross(along, moving - above) / rod, above
            )
            model.universal(f"U{k + 1}{letter}", upper, link, at=top, axis_i=side, axis_j=np.cross(along, side))
            model.spherical(f"S{k + 1}{letter}", link, tool, at=bottom)
    return model


@register("differential", "a bevel differential: the carrier turns at the mean of both half shafts")
def differential(ratio: float = 1.5, torque: float = 2.0) -> Model:
    """Carrier, two half shafts on one axis (x), and a planet pinned in the carrier across it; `ratio` = teeth of a side
    gear over teeth of the planet. A torque drives the carrier, a damper brakes the left shaft."""
    model = Model("differential", space="space")
    carrier = model.body("carrier", mass=4.0, inertia=(0.08, 0.06, 0.06), position=(0, 0, 0))
    left = model.body("left", mass=1.0, inertia=(0.01, 0.02, 0.02), position=(0, 0, 0))
    right = model.body("right", mass=1.0, inertia=(0.01, 0.02, 0.02), position=(0, 0, 0))
    planet = model.body("planet", mass=0.3, inertia=(4e-4, 4e-4, 6e-4), position=(0, 0, 0.05))
    model.revolute("bearing", model.ground, carrier, at=(0, 0, 0), axis=(1, 0, 0))
    model.revolute("left_shaft", carrier, left, at=(0, 0, 0), axis=(1, 0, 0))
    model.revolute("right_shaft", carrier, right, at=(0, 0, 0), axis=(1, 0, 0))
    model.revolute("planet_pin", carrier, planet, at=(0, 0, 0.05), axis=(0, 0, 1))
    model.coupling("left_mesh", [("left_shaft", ratio), ("planet_pin", 1.0)])
    model.coupling("right_mesh", [("right_shaft", ratio), ("planet_pin", -1.0)])
    model.torque("engine", carrier, (torque, 0.0, 0.0))
    model.drag("brake", left, angular=0.2)
    return model


# mass, (Ixx, Iyy, Izz, Ixy) about the link's frame, axis and place in that frame of the joint to the next link
SSRMS = (
    ("B1", 243.66, (9.336, 44.413, 44.413, 0.0), "shoulder_roll", (1, 0, 0), (1.3589, 0, 0)),
    ("B2", 105.98, (12.19, 12.13, 3.061, 0.0), "shoulder_yaw", (0, 0, 1), (0, 0, 0.7026)),
    ("B3", 105.98, (8.088, 3.061, 8.446, 0.0), "shoulder_pitch", (0, 1, 0), (0, -0.5692, 0)),
    ("B4", 314.88, (15.41, 2094.71, 2103.19, 49.52), "elbow_pitch", (0, 1, 0), (7.11, -0.475, 0)),
    ("B5", 279.2, (9.522, 1966.28, 1966.28, -39.95), "wrist_pitch", (0, 1, 0), (7.11, 0, 0)),
    ("B6", 105.98, (8.305, 3.061, 8.0386, 0.0), "wrist_yaw", (0, 0, 1), (0, -0.5692, 0)),
    ("B7", 105.98, (12.13, 12.13, 3.061, 0.0), "wrist_roll", (1, 0, 0), (0, 0, -0.7026)),
    ("B8", 243.66, (9.336, 44.41, 44.41, 0.0), "tip", (), (1.3589, 0, 0)),
)
"""Nguyen, Hughes: Teleoperation: from the Space Shuttle to the Space Station (1994)."""
SSRMS_ANGLES = (-26.4, -42.2, -18.6, -93.4, -97.1, 19.1, 52.5)
"""Degrees, in the closed loop [Kövecses, Piedbœuf 2003]."""


# it moves by centimetres a second and is 30 m large, which tolerances are relative to
@register("canadarm2", "the space station's arm, holding on to the station at both ends", t_end=80.0, rtol=1e-10)
def canadarm2(docking: float = 1000.0, control: float = 30e3) -> Model:
    """Canadarm2 with its base fixed to the station and its tip on a ball there [Kövecses, Piedbœuf 2003, figs. 2–6].

    Links by Nguyen and Hughes (1994); their centres of mass are not published and sit at the links' frames here, Ixy
    is taken as an entry of the inertia matrix. Station: 419455 kg (NASA, Facts and Figures), inertia of Betts,
    Practical Methods for Optimal Control (2010), example 6.11, there in slug ft². Ours: where the arm stands, and the
    loads. A visitor pushes the forward port (`docking` newtons for 3 s: what 100 t at 3 cm/s bring) and thrusters
    turn the station to and fro (`control` newton metres about each axis). All joints of the arm are free. Cut at the
    tip, `da.build(model, coordinates="joint", cut=["tip"])`, it has 13 coordinates, 3 rows and 10 freedoms.
    """
    model = Model("canadarm2", space="space")
    inertia = np.array([[38.06e6, 0.654e6, -23.28e6], [0.654e6, 129.0e6, 0.0817e6], [-23.28e6, 0.0817e6, 103.8e6]])
    station = model.body("station", mass=419455.0, inertia=inertia, position=(0, 0, 0))
    p, R = np.array([12.0, 0.0, 4.0]), frame_on_axis((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))  # the arm's x stands up
    links = []
    for k, (name, mass, (xx, yy, zz, xy), _, _, offset) in enumerate(SSRMS):
        if k > 0:
            joint, axis = SSRMS[k - 1][3:5]
            near, far = frame_on_axis(axis), axis_angle(axis, math.radians(SSRMS_ANGLES[k - 1]))
            model.marker(f"{joint}_near", links[-1], at=p, rotation=R @ near)
            R = R @ far
        tensor = np.array([[xx, xy, 0.0], [xy, yy, 0.0], [0.0, 0.0, zz]])
        links.append(model.body(name, mass=mass, inertia=tensor, position=p, rotation=R))
        if k > 0:
            model.marker(f"{joint}_far", links[-1], at=p, rotation=R @ near)
            model.revolute(joint, f"{joint}_near", f"{joint}_far")
        p = p + R @ offset
    model.weld("base", station, links[0])
    model.spherical("tip", station, links[-1], at=p)
    on, off = ({"step": {"begin": t, "end": t + 1.0, "high": high}} for t, high in ((5.0, -docking), (8.0, docking)))
    model.force("docking", station, [{"sum": [on, off]}, 0.0, 0.0], at=(25.5, 0.0, 1.0))
    begins = {"step": {"begin": 10.0, "end": 15.0}}
    turns = [{"product": [begins, {"harmonic": {"amplitude": control, "omega": w}}]} for w in (0.3, 0.4, 0.5)]
    model.torque("attitude", station, turns, frame="body")
    return model
