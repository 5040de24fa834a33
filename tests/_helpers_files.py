"""Models that use every element of the library, each argument in every form a file can hold."""

from __future__ import annotations

import functools
import math

import numpy as np

import dalembert as da
from dalembert import functions as f


def plane_joints() -> da.Model:
    m = da.Model("plane-joints", gravity=(0.0, -9.81))
    a = m.body("a", mass=1.0, inertia=0.1, position=(0.5, 0.25), angle=0.3, velocity=(1, 0), angular_velocity=2.0)
    m.body("b", mass=2, inertia=1 / 3, position=np.array([1.5, 0.0]), angular_velocity=[0.5])
    m.body("c", mass=1e-3, inertia=2.5e-7)
    m.marker("tip", "a", at=(1.0, 0.0))
    m.marker("foot", "b", position=(-0.5, 0), axis=(1, 1))
    m.marker("head", "c", rotation=[[0.0, -1.0], [1.0, 0.0]])
    m.weld("weld", "a", "b", at=(1, 0))
    m.revolute("revolute", m.ground, a, at=(0, 0))
    m.revolute("by_markers", "tip", "foot")
    m.revolute("loose_pin", "b", "c", at=(0, 1), clearance=0.01, restitution=0.5, impact="poisson")
    m.prismatic("loose", "b", "c", at=(0, 1), axis=(1, 0), clearance=0.01, length=0.1, restitution=0, impact="poisson")
    m.prismatic("prismatic", "ground", "b", at=(1, 0), axis=(1, 0.5))
    m.pin_slot("pin_slot", "a", "b", at=(1, 0), slot=(0, 1))
    m.generic("generic", "b", "c", held=["x", "angle"], at=(0, 0))
    m.point_on_line("point_on_line", "a", "c", at=(0, 0), axis=(0, 1))
    m.point_on_curve("curve", "ground", "c", points=[(0, 0), (1, 0.2), (2, 0), (3, 0.5)], degree=3)
    ring = [(math.cos(x), math.sin(x)) for x in np.linspace(0, 2 * math.pi, 8)[:-1]]
    m.point_on_curve("ring", "ground", "a", points=ring, at=(1.0, 0.0), closed=True)
    m.distance("rod", "a", "c", at_i=(0.1, 0.2), at_j=(0, 0), length=0.75)
    m.distance("cable", "a", "c", length=0.8, one_sided=True, restitution=0.25, impact="poisson")
    m.point_on_line("ledge", "a", "c", at=(0, 0), axis=(0, 1), one_sided=True, restitution=1, impact="poisson")
    m.contact("floor", "ground", "c", at=(0, 1), normal=(0, 1), point=(0, 0), radius=0.1, restitution=0.5)
    m.contact("rough", "ground", "c", at=(0, 1), normal=(0, 1), point=(0, 0), friction=0.5)
    m.contact("rougher", "ground", "c", at=(0, 1), normal=(0, 1), point=(0, 0), slips=False)
    m.angle_lock("angle_lock", "a", "b", at=(1, 1))
    m.knife_edge("edge", "ground", "b", at=(1, 0), direction=(1, 0))
    m.rolling_disc("wheel", "ground", "a", radius=0.25, at=(0.5, 0.25), normal=(0, 1))
    m.rolling_disc("tyre", "ground", "a", radius=0.25, one_sided=True, restitution=0, impact="poisson")
    m.no_slip("rims", "a", "b", radius_i=0.5, radius_j=-0.2, at_i=(0.5, 0), at_j=(1.5, 0))
    return m


def space_joints() -> da.Model:
    m = da.Model("space-joints", space="space", gravity=(0, 0, -9.81))
    z = (0, 0, 1)
    m.body("a", mass=1.0, inertia=(0.1, 0.2, 0.25), position=(0.5, 0, 0), quaternion=(1, 0, 0, 0))
    tensor = [[1.0, 0.1, 0.0], [0.1, 1.5, 0.0], [0.0, 0.0, 1.2]]
    m.body("b", mass=2.0, inertia=tensor, position=(0, 1, 0), axis=z, angle=0.4, angular_velocity=(0, 0, 1))
    m.body("c", mass=3.0, inertia=[1, 1, 1], position=(0, 0, 1), rotation=np.eye(3), velocity=(1, 2, 3))
    m.marker("on_a", "a", at=(1, 0, 0), axis=(0, 1, 0), x=(1, 0, 0))
    m.marker("on_b", "b", position=(0, 0, 0.5))
    m.revolute("revolute", "ground", "a", at=(0, 0, 0), axis=z)
    m.prismatic("prismatic", "a", "b", at=(0, 0, 0), axis=(1, 1, 0))
    m.cylindrical("cylindrical", "b", "c", at=(0, 1, 0), axis=z)
    m.screw("screw", "ground", "c", pitch=0.01, at=(0, 0, 0), axis=z)
    m.spherical("spherical", "on_a", "on_b")
    m.spherical("loose_ball", "a", "c", at=(0, 0, 1), clearance=0.01, restitution=0.5, impact="poisson")
    m.cylindrical(
        "loose_rod", "a", "c", at=(0, 0, 1), axis=z, clearance=0.01, length=0.2, restitution=1, impact="poisson"
    )
    m.spherical("ball", "b", "c", at=(0, 1, 1))
    m.universal("universal", "a", "c", at=(0, 0, 0), axis_i=(1, 0, 0), axis_j=(0, 1, 0))
    m.constant_velocity("homokinetic", "a", "b", at=(0, 0, 0), axis_i=z, axis_j=(0, 0.2, 1))
    m.planar("planar", "ground", "b", at=(0, 0, 0), normal=z, x=(1, 0, 0))
    m.pin_slot("pin_slot", "a", "b", at=(0, 0, 0), slot=(1, 0, 0), axis=z)
    m.generic("generic", "a", "c", held=["x", "ry"], at=(0, 0, 0), axis=z, x=(0, 1, 0))
    m.point_on_line("point_on_line", "ground", "a", at=(0, 0, 0), axis=z)
    m.point_in_plane("point_in_plane", "ground", "b", at=(0, 0, 0), normal=z)
    m.point_in_plane("leg", "ground", "b", at=(0, 0, 0), normal=z, one_sided=True, restitution=0.1, impact="poisson")
    m.contact("in_hole", "b", "c", at=(0, 1, 0), radius=0.1, radius_i=-0.3, impact="poisson")
    m.contact("edge", "ground", "b", at=(0, 1, 2), normal=z, point=(0, 0, 0), radius=0.5, rim=True, axis=(1, 0, 0.5))
    m.rolling_sphere("marble", "ground", "c", radius=0.5, one_sided=True, restitution=0, impact="poisson")
    m.point_on_curve("curve", "ground", "c", points=np.arange(12.0).reshape(4, 3) ** 1.5, degree=3)
    m.revolute_spherical_rod("rod", "ground", "b", at_i=(0, 0, 0), at_j=(0, 1, 0), axis=z, length=1.0)
    m.parallel_axes("parallel", "a", "b", at=(0, 0, 0), axis=z)
    m.perpendicular_axes("perpendicular", "a", "c", at=(0, 0, 0), axis_i=z, axis_j=(1, 0, 0))
    m.constant_angle("constant_angle", "b", "c", at=(0, 0, 0), axis_i=z, axis_j=(0, 1, 1), angle=0.8)
    m.orientation_lock("orientation", "a", "b", at=(0, 0, 0))
    m.rolling_disc("disc", "ground", "a", radius=0.5, axis=(0, 1, 0))
    m.rolling_sphere("sphere", "ground", "c", radius=0.5, at=(0, 0, 1), normal=z)
    m.no_slip("rims", "a", "b", radius_i=1, radius_j=1, axis=z)
    m.revolute("wheel", "ground", "b", at=(2, 0, 0), axis=z)
    m.prismatic("rail", "ground", "c", at=(0, 1, 0), axis=(1, 0, 0))
    m.gear("mesh", "revolute", "wheel", radius=0.5, radius_other=1.5, pressure_angle=0.4, helix_angle=0.2, at=(0, 0, 1))
    m.belt("belt", "revolute", "wheel", radius=0.1, radius_other=0.2, pretension=50.0, at=(0, 0, 2))
    m.rack_and_pinion("rack", "wheel", "rail", radius=-0.1, pressure_angle=0.3, at=(0, 0, 0.5))
    return m


def drivers() -> da.Model:
    m = da.Model("drivers")
    for k, name in enumerate("abcdefg"):
        m.body(name, mass=1.0, inertia=1.0, position=(k, 0))
        m.revolute(f"pin_{name}", "ground", name, at=(k, 0))
    m.body("slide", mass=1.0, inertia=1.0)
    m.prismatic("guide", "ground", "slide", at=(0, 0), axis=(1, 0))
    m.driver("by_number", "pin_a", 0.25)
    m.driver("by_formula", "pin_b", "speed*t + sin(2*pi*t)", parameters={"speed": 2.0}, coordinate="angle")
    m.driver("by_polynomial", "pin_c", f.polynomial([0, 1, 0.5]))
    m.speed_driver("by_sum", "pin_d", f.harmonic(1, 2, phase=0.1) + f.step(0, 1, 0, 2) * 3.0)
    table = f.table([0, 1, 2, 3], [0, 1, 0, -1]) * f.expression("a*t", {"a": 2.0})
    m.driver("by_table", "pin_e", table)
    m.driver("by_line", "pin_f", f.table([0, 1], [0, 2], degree=1))
    m.point_driver("point", "ground", "g", ["0.1*t", f.harmonic(1, 2)], at=(6, 1))
    m.point_driver("still", "ground", "g", [0, 0.5])
    m.point_driver("swing", "ground", "g", ["k*t", 0], parameters={"k": 0.1})
    m.speed_driver("spin", "guide", "k", coordinate="displacement", parameters={"k": 1.0})
    m.frame_driver("frame", "ground", "slide", motion=[0.0, "t"], rotation=[f.harmonic(0.2, 3.0)], at=(0, 0))
    m.distance_driver("pull", "a", "b", {"constant": 1.0}, at_i=(0, 1), at_j=(1, 1))
    m.distance_driver("winch", "a", "c", "1 + k*t", parameters={"k": 0.1})
    m.coupling("differential", [("pin_a", 1.0), ("pin_b", "angle", -2.0), ("pin_c", 0.5)], constant=0.1)
    m.coupling(
        "mixed", [{"joint": "pin_a", "factor": 1}, {"joint": "guide", "coordinate": "displacement", "factor": 2}]
    )
    m.gear_ratio("ratio", "pin_a", "pin_c", ratio=-1.5)
    m.gear("gear", "pin_c", "pin_d", ratio=2.0)
    m.rack_and_pinion("rack", "pin_e", "guide", radius=0.1)
    m.belt("belt", "pin_e", "pin_f", radius=0.1, radius_other=0.2, crossed=True)
    m.holonomic("rows", ["a", "b"], ["a.x + k*b.y - cos(t)", "a.y - b.x"], size=2, parameters={"k": 1.5})
    m.pfaffian("speeds", ["a"], ["a.vx*sin(a.angle) - a.vy", "a.w - k"], size=2, parameters={"k": 1})
    return m


def plane_forces() -> da.Model:
    m = da.Model("plane-forces", gravity=(0, -9.81))
    m.body("a", mass=1.0, inertia=1.0, position=(1, 0))
    m.body("b", mass=1.0, inertia=1.0, position=(2, 0))
    m.body("c", mass=1.0, inertia=1.0, position=(3, 0))
    m.revolute("pin", "ground", "a", at=(0, 0))
    m.prismatic("guide", "ground", "b", at=(2, 0), axis=(1, 0))
    m.pin_slot("slot", "ground", "c", at=(3, 0), slot=(1, 0))
    m.force("push", "a", (1.0, -2.0), at=(1, 1), frame="body")
    m.force("shake", "a", ["k*sin(t)", 0], parameters={"k": 3.0})
    m.torque("twist", "b", {"harmonic": {"amplitude": 1.0, "omega": 2.0}})
    m.torque("pulse_torque", "b", "k*t", parameters={"k": 1.0})
    m.central_gravity("sun", 1.3e20, at=(1e11, 0))
    m.drag("air", "b", linear=0.1, quadratic=0.2, angular=0.3, at=(2, 0.1), wind=(1, 0))
    law = [{"force": ["-k*a.x", 0], "torque": "-a.w"}, {"force": ["k*a.x", "0"]}]
    m.force_law("law", ["a", "b"], law, parameters={"k": 10.0})
    m.spring_damper("spring", "a", "b", at_i=(1, 0), at_j=(2, 0), stiffness=100.0, damping=1.0, length=0.9)
    m.spring_damper("bow", "b", "c", pull="k*(length - 1)^3 + rate", parameters={"k": 5.0})
    m.bushing("bushing", "a", "c", stiffness=[1e3, 1e3, 10.0], damping=np.eye(3), at=(2, 0), axis=(1, 0))
    m.beam("beam", "a", "b", at_i=(1, 0), at_j=(2, 0), E=2.1e11, area=1e-4, I=1e-8, damping=1e-3)
    m.joint_spring("coil", "pin", stiffness=2.0, damping=0.1, free=0.5, coordinate="angle")
    m.armature("rotor", "pin", 0.02, coordinate="angle")
    m.joint_force("actuator", "slot", "-k*value - 0.1*rate + t", coordinate="angle", parameters={"k": 2})
    m.joint_force("constant", "guide", 3.0)
    m.joint_force("pulse", "guide", f.step(0, 1))
    m.stop(
        "stop",
        "guide",
        stiffness=1e5,
        lower=-1.0,
        upper=1,
        damping=10.0,
        exponent=2,
        depth=1e-3,
        coordinate="displacement",
    )
    m.friction("rub", "slot", normal="10*t", coulomb=0.3, static=0.4, viscous=0.1, coordinate="displacement")
    m.friction("dry", "pin", coulomb=0.1, stribeck_speed=0.01, transition_speed=1e-4, radius=0.05)
    m.bearing_friction("bearing", "pin", coulomb=0.1, static=0.2, stribeck_speed=0.1, radius=0.02, rule="weighted")
    m.bearing_friction("slide", "guide", coulomb=0.1, length=0.3, transition_speed=0.01, viscous=1.0)
    m.dry_friction("sticks", "pin", coulomb=0.1, static=0.2, stribeck_speed=0.1, radius=0.02, rule="weighted")
    m.dry_friction("wedge", "slot", normal="10*t", coulomb=0.3, viscous=1.0, coordinate="displacement")
    m.brake("brake", "pin", "5*t", sliding=0.5, coordinate="angle", rule="weighted")
    m.dry_friction("jaw", "guide", coulomb=0.1, length=0.3)
    m.pd_control("servo", "pin", f.step(0, 1), stiffness=10.0, damping=1.0, limit=5.0, coordinate="angle")
    m.motor("motor", "pin", torque=0.2, gear=10.0, rotor_inertia=1e-4)
    m.motor("volts", "pin", voltage="12*t", torque_constant=0.1, resistance=2.0)
    m.limit("range", "slot", lower=-1.0, upper=2.0, effort=10.0, velocity=3.0, coordinate="displacement")
    m.limit("torque", "pin", effort=5.0)
    m.limit("rigid_range", "pin", lower=-1.0, restitution=0.5, impact="poisson")
    m.limit("soft_range", "pin", upper=1.0, stiffness=1e4, damping=2.0)
    m.shape("plate", "a", "box", size=(1.0, 0.1), position=(0.1, 0.0), angle=0.2, colour=(0.8, 0.1, 0.1, 1))
    return m


def space_forces() -> da.Model:
    m = da.Model("space-forces", space="space")
    m.body("a", mass=1.0, inertia=(1, 1, 1), position=(1, 0, 0))
    m.body("b", mass=1.0, inertia=(1, 1, 1), position=(2, 0, 0))
    m.marker("m_a", "a")
    m.marker("m_b", "b")
    m.cylindrical("sleeve", "a", "b", at=(1, 0, 0), axis=(1, 0, 0))
    m.torque("spin", "a", ["sin(t)", 0, f.harmonic(1, 1)], frame="body")
    m.bushing("bushing", "m_a", "m_b", stiffness=np.diag([1e3, 1e3, 1e3, 10, 10, 10.0]))
    m.bushing("pad", "a", "b", stiffness=[1, 1, 1, 1, 1, 1], at=(1, 0, 0), axis=(0, 0, 1), x=(1, 0, 0))
    m.beam("beam", "a", "b", E=2.1e11, area=1e-4, I_y=1e-8, I_z=2e-8, G=8e10, J=1e-8, y=(0, 1, 0))
    m.bearing_friction("bearing", "sleeve", coulomb=0.1, radius=0.02, length=0.1, coordinate="angle")
    m.motor("motor", "sleeve", torque="t", rotor_inertia=1e-4, rotor_mass=0.1, coordinate="angle")
    m.shape("hull", "a", "mesh", file="meshes/hull.stl", scale=(0.001, 0.001, -0.001))
    m.shape("tube", "m_b", "cylinder", size=[0.1, 2.0], position=(0, 0, 1), quaternion=(1, 0, 1, 0))
    return m


def measured() -> da.Model:
    m = da.Model("measured", gravity=(0, -9.81))
    m.body("a", mass=1.0, inertia=1.0, position=(1, 0))
    m.body("b", mass=1.0, inertia=1.0, position=(2, 0))
    m.revolute("pin", "ground", "a", at=(0, 0))
    m.revolute("elbow", "a", "b", at=(1.5, 0))
    m.measure("tip", "point", "b", at=(2.5, 0), seen_from="a")
    m.measure("reach", "distance", "ground", "b", at_i=(0, 0), at_j=(2.5, 0))
    m.measure("fold", "angle", "a", "b")
    m.measure("swing", "coordinate", "pin", coordinate="angle")
    m.limit("ceiling", measurement="tip.y", upper=3.0, restitution=0.5)
    m.limit("folded", measurement="fold", lower=-1.0, stiffness=1e4)
    m.input("u", "2*sin(t)", unit="N m")
    m.input("w")
    m.joint_force("turn", "pin", "u - k*value", parameters={"k": 0.5})
    m.torque("twist", "b", "w")
    m.driver("drive", "elbow", "0.1*u")
    m.measure("load", "reaction", "pin", component="Fx", frame="world")
    m.measure("held", "reaction", "elbow")
    m.measure("needed", "effort", "drive")
    m.measure("given", "power", "turn")
    m.measure("stored", "energy", "b")
    m.measure("mixed", "formula", "k*tip.vx + u - pid.sum", unit="m/s", parameters={"k": 2.0})
    m.controller(
        "pid",
        states={"sum": 0.1, "last": 0.0},
        rates={"sum": "swing - last", "last": 0},
        outputs={"w": "-k*swing.rate + sum"},
        scales={"sum": 0.1},
        parameters={"k": 3.0},
    )
    m.input("z")
    m.force("push", "a", ["z", 0])
    m.controller(
        "slow", sample_rate=100.0, states={"n": 0}, updates={"n": "n + 1"}, outputs={"z": "n*fold"}, reads=["fold"]
    )
    return m


def measured_in_space() -> da.Model:
    m = da.Model("measured-in-space", space="space")
    m.body("a", mass=1.0, inertia=(1, 1, 1), position=(1, 0, 0))
    m.measure("turn", "angle", "ground", "a", axis=(0, 0, 1))
    return m


@functools.cache
def library() -> dict[str, da.Model]:
    makers = (plane_joints, space_joints, drivers, plane_forces, space_forces, measured, measured_in_space)
    return {make.__name__: make().validate() for make in makers}
