"""The joint library against itself: formulations that must agree, loops, couplings and drivers through full turns."""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_joints import PITCH, axes_of, quiet_model, rotation, settled, solved, spot, tilted

import dalembert as da
from dalembert.model import axis_angle

SPACES = ("plane", "space")
# one linear solve with a condition number of some 1e3, and 1e-9 for rows that are doubled (the proximal iteration
# stops there); measured 1e-12 and 1e-10
SAME = 1e-9


# ---- twins: one joint written in several ways ----------------------------------------------------------------------


class Group:
    """Copies of one small machine side by side in a model; only the joint under test differs."""

    def __init__(self, model, name, seed, bodies=1):
        self.model, self.name, self.count = model, name, 0
        rng = np.random.default_rng(seed)
        d = model.dimension
        self.s = spot(model.space, rng)
        self.bodies = []
        for _ in range(bodies):
            pose = {"angle": rng.uniform(-3, 3)}
            inertia, spin = rng.uniform(0.1, 0.3), rng.uniform(-1, 1)
            if d == 3:
                A = axis_angle(rng.standard_normal(3), 1.0)
                pose = {"rotation": axis_angle(rng.standard_normal(3), rng.uniform(0.3, 2))}
                inertia, spin = A @ np.diag([0.2, 0.25, 0.32]) @ A.T, rng.uniform(-1, 1, 3)
            mass, position, velocity = rng.uniform(0.5, 2), rng.uniform(-1, 1, d), rng.uniform(-1, 1, d)
            self.bodies.append(
                {"mass": mass, "inertia": inertia, "position": position, "velocity": velocity, "angular_velocity": spin}
                | pose
            )

    def copy(self):
        """The next copy's bodies and a way to name its joints."""
        self.count += 1
        prefix = f"{self.name}{self.count}"
        made = [self.model.body(f"{prefix}_b{k}", **b) for k, b in enumerate(self.bodies)]
        return (*made, lambda what: f"{prefix}_{what}")


def generic(model, name, i, j, s, held):
    model.generic(name, i, j, at=s.at, axis=s.axis, held=held.split(","), **({} if len(s.at) == 2 else {"x": s.across}))


def point_twice(model, b, n, s, g, kind, **way):
    for k, shift in enumerate((0.0, 0.8)):
        getattr(model, kind)(n(f"p{k}"), g, b, at=s.at + shift * s.axis, **way)


def three_planes(model, b, n, s, g="ground"):
    third = np.cross(s.axis, s.across)
    for k, off in enumerate((0 * third, 0.7 * s.across, 0.6 * third)):
        model.point_in_plane(n(f"p{k}"), g, b, at=s.at + off, normal=s.axis)


def screw_by_coupling(model, b, n, s, g):
    model.cylindrical(n("c"), g, b, at=s.at, axis=s.axis)
    model.coupling(n("lead"), [(n("c"), "displacement", 1.0), (n("c"), "angle", -PITCH / (2 * math.pi))])


def sphere_by_hand(model, b, n, s, g):
    """Its centre at a fixed height, and the user's rows: no slip along two directions at the lowest point."""
    model.point_in_plane(n("p"), g, b, at=s.at, normal=s.axis)
    ways = axes_of(s)[:, :2]
    bodies = [model.ground if g == "ground" else g, b]
    foot = {"s": b.local_point(s.at), "up": bodies[0].local_rotation(0.4 * s.axis)}
    foot |= {"ways": bodies[0].local_rotation(ways)}
    model.pfaffian(n("f"), bodies, no_slip_of_a_sphere, size=2, parameters=foot)


def no_slip_of_a_sphere(t, frames, p):
    i, j = frames
    low = -(i.R @ p["up"])
    point = j.point(p["s"]) + low
    slip = j.point_velocity(p["s"]) + jnp.cross(j.w, low) - i.v - jnp.cross(i.w, point - i.p)
    return (i.R @ p["ways"]).T @ slip


# for each joint the ways to write it: functions (model, body, namer, spot, base); the first is the joint itself
SPACE_TWINS = {
    "revolute": (
        lambda m, b, n, s, g="ground": m.revolute(n("r"), g, b, at=s.at, axis=s.axis),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "x,y,z,rx,ry"),
        lambda m, b, n, s, g="ground": point_twice(m, b, n, s, g, "spherical"),
        lambda m, b, n, s, g="ground": [
            m.cylindrical(n("c"), g, b, at=s.at, axis=s.axis),
            m.point_in_plane(n("p"), g, b, at=s.at, normal=s.axis),
        ],
        lambda m, b, n, s, g="ground": m.revolute(n("r"), b, g, at=s.at, axis=s.axis),
    ),
    "universal": (
        lambda m, b, n, s, g="ground": m.universal(n("u"), g, b, at=s.at, axis_i=s.across, axis_j=axes_of(s)[:, 1]),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "x,y,z,rz"),
        lambda m, b, n, s, g="ground": [
            m.spherical(n("s"), g, b, at=s.at),
            m.perpendicular_axes(n("p"), g, b, axis_i=s.across, axis_j=axes_of(s)[:, 1]),
        ],
    ),
    "weld": (
        lambda m, b, n, s, g="ground": m.weld(n("w"), g, b, at=s.at),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "x,y,z,rx,ry,rz"),
        lambda m, b, n, s, g="ground": m.frame_driver(n("f"), g, b, [0.0] * 3, [0.0] * 3, at=s.at),
        lambda m, b, n, s, g="ground": [
            m.spherical(n("s"), g, b, at=s.at),
            m.orientation_lock(n("o"), g, b),
        ],
    ),
    "prismatic": (
        lambda m, b, n, s, g="ground": m.prismatic(n("p"), g, b, at=s.at, axis=s.axis),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "x,y,rx,ry,rz"),
        lambda m, b, n, s, g="ground": [
            m.cylindrical(n("c"), g, b, at=s.at, axis=s.axis),
            m.driver(n("d"), n("c"), 0.0, coordinate="angle"),
        ],
    ),
    "cylindrical": (
        lambda m, b, n, s, g="ground": m.cylindrical(n("c"), g, b, at=s.at, axis=s.axis),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "x,y,rx,ry"),
        lambda m, b, n, s, g="ground": point_twice(m, b, n, s, g, "point_on_line", axis=s.axis),
    ),
    "screw": (
        lambda m, b, n, s, g="ground": m.screw(n("s"), g, b, at=s.at, axis=s.axis, pitch=PITCH),
        lambda m, b, n, s, g="ground": screw_by_coupling(m, b, n, s, g),
        lambda m, b, n, s, g="ground": m.screw(n("s"), b, g, at=s.at, axis=-s.axis, pitch=PITCH),
    ),
    "planar": (
        lambda m, b, n, s, g="ground": m.planar(n("p"), g, b, at=s.at, normal=s.axis),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "z,rx,ry"),
        three_planes,
    ),
    "pin_slot": (
        lambda m, b, n, s, g="ground": m.pin_slot(n("p"), g, b, at=s.at, slot=s.across, axis=s.axis),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "y,z,rx,ry"),
        lambda m, b, n, s, g="ground": [
            m.point_on_line(n("l"), g, b, at=s.at, axis=s.across),
            m.parallel_axes(n("a"), g, b, axis=s.axis),
        ],
    ),
    "spherical": (
        lambda m, b, n, s, g="ground": m.spherical(n("s"), g, b, at=s.at),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "x,y,z"),
        lambda m, b, n, s, g="ground": m.point_driver(n("d"), g, b, [0.0] * 3, at=s.at),
        lambda m, b, n, s, g="ground": [
            m.point_on_line(n("l"), g, b, at=s.at, axis=s.axis),
            m.point_in_plane(n("p"), g, b, at=s.at, normal=s.axis),
        ],
    ),
    "orientation_lock": (
        lambda m, b, n, s, g="ground": m.orientation_lock(n("o"), g, b),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "rx,ry,rz"),
        lambda m, b, n, s, g="ground": [
            m.parallel_axes(n("a"), g, b, axis=s.axis),
            m.perpendicular_axes(n("p"), g, b, axis_i=s.across, axis_j=axes_of(s)[:, 1]),
        ],
    ),
    "perpendicular_axes": (
        lambda m, b, n, s, g="ground": m.perpendicular_axes(n("p"), g, b, axis_i=s.across, axis_j=axes_of(s)[:, 1]),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "rz"),
        lambda m, b, n, s, g="ground": m.constant_angle(
            n("c"), g, b, axis_i=s.across, axis_j=axes_of(s)[:, 1], angle=math.pi / 2
        ),
    ),
    "parallel_axes": (
        lambda m, b, n, s, g="ground": m.parallel_axes(n("a"), g, b, axis=s.axis),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "rx,ry"),
        lambda m, b, n, s, g="ground": [
            m.perpendicular_axes(n(f"p{k}"), g, b, axis_i=axes_of(s)[:, k], axis_j=s.axis) for k in range(2)
        ],
    ),
    "point_on_line": (
        lambda m, b, n, s, g="ground": m.point_on_line(n("l"), g, b, at=s.at, axis=s.axis),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "x,y"),
    ),
    "point_in_plane": (
        lambda m, b, n, s, g="ground": m.point_in_plane(n("p"), g, b, at=s.at, normal=s.axis),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "z"),
    ),
    "constant_velocity": (
        lambda m, b, n, s, g="ground": m.constant_velocity(n("v"), g, b, at=s.at, axis_i=s.axis, axis_j=tilted(s, 0.4)),
        lambda m, b, n, s, g="ground": m.constant_velocity(n("v"), b, g, at=s.at, axis_i=tilted(s, 0.4), axis_j=s.axis),
    ),
    "distance": (
        lambda m, b, n, s, g="ground": m.distance(n("d"), g, b, at_i=s.at, at_j=s.off),
        lambda m, b, n, s, g="ground": m.distance(n("d"), b, g, at_i=s.off, at_j=s.at),
    ),
    "rolling_sphere": (
        lambda m, b, n, s, g="ground": m.rolling_sphere(n("r"), g, b, at=s.at, normal=s.axis, radius=0.4),
        lambda m, b, n, s, g="ground": sphere_by_hand(m, b, n, s, g),
    ),
    "rod": (
        lambda m, b, n, s, g="ground": m.revolute_spherical_rod(
            n("r"), g, b, at_i=s.at, at_j=s.at + 2 * s.across, axis=s.axis
        ),
        lambda m, b, n, s, g="ground": [
            m.distance(n("d"), g, b, at_i=s.at, at_j=s.at + 2 * s.across),
            m.point_in_plane(n("p"), g, b, at=s.at + 2 * s.across, normal=s.axis),
        ],
        lambda m, b, n, s, g="ground": [
            m.distance_driver(n("d"), g, b, 2.0, at_i=s.at, at_j=s.at + 2 * s.across),
            m.point_in_plane(n("p"), g, b, at=s.at + 2 * s.across, normal=s.axis),
        ],
        lambda m, b, n, s, g="ground": m.point_on_curve(
            n("c"), g, b, at=s.at + 2 * s.across, points=circle(s, 2.0), closed=True
        ),
    ),
}


def circle(s, radius: float, points: int = 64) -> np.ndarray:
    """Points of a circle about the spot, across its axis, from `across` on."""
    u = 2 * np.pi * np.arange(points)[:, None] / points
    x, y = (s.axis, s.across) if len(s.at) == 2 else axes_of(s)[:, :2].T
    return s.at + radius * (np.cos(u) * x + np.sin(u) * y)


PLANE_TWINS = {
    "revolute": (
        lambda m, b, n, s, g="ground": m.revolute(n("r"), g, b, at=s.at),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "x,y"),
        lambda m, b, n, s, g="ground": [
            m.point_on_line(n(f"l{k}"), g, b, at=s.at, axis=a) for k, a in enumerate((s.axis, s.across))
        ],
        lambda m, b, n, s, g="ground": m.point_driver(n("d"), g, b, [0.0, 0.0], at=s.at),
    ),
    "prismatic": (
        lambda m, b, n, s, g="ground": m.prismatic(n("p"), g, b, at=s.at, axis=s.axis),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "y,angle"),
        lambda m, b, n, s, g="ground": [
            m.pin_slot(n("s"), g, b, at=s.at, slot=s.axis),
            m.angle_lock(n("a"), g, b),
        ],
        lambda m, b, n, s, g="ground": point_twice(m, b, n, s, g, "point_on_line", axis=s.axis),
    ),
    "weld": (
        lambda m, b, n, s, g="ground": m.weld(n("w"), g, b, at=s.at),
        lambda m, b, n, s, g="ground": generic(m, n("g"), g, b, s, "x,y,angle"),
        lambda m, b, n, s, g="ground": m.frame_driver(n("f"), g, b, [0.0, 0.0], [0.0], at=s.at),
    ),
    "distance": (
        lambda m, b, n, s, g="ground": m.distance(n("d"), g, b, at_i=s.at, at_j=s.at + 2 * s.axis),
        lambda m, b, n, s, g="ground": m.distance_driver(n("d"), g, b, 2.0, at_i=s.at, at_j=s.at + 2 * s.axis),
        lambda m, b, n, s, g="ground": m.point_on_curve(
            n("c"), g, b, at=s.at + 2 * s.axis, points=circle(s, 2.0), closed=True
        ),
    ),
}
# a spline of degree five through 64 points of a circle of radius 2 has its curvature to h⁴ = (2π/64)⁴ = 9e-5 times a
# small constant: measured 3e-8 in accelerations
CURVED = 1e-6


def gear_twins(model, twins):
    """Two discs on pins of a moving carrier, geared by angles or by rims that do not slip."""
    group = Group(model, "gears", 3, bodies=3)
    s, shared = group.s, {} if model.space == "plane" else {"axis": group.s.axis}
    side = s.across if model.space == "space" else s.axis
    for way in range(3):
        carrier, one, two, n = group.copy()
        model.revolute(n("pivot"), "ground", carrier, at=s.at - 0.4 * side, **shared)
        model.revolute(n("p1"), carrier, one, at=s.at, **shared)
        model.revolute(n("p2"), carrier, two, at=s.at + 1.0 * side, **shared)
        if way == 0:
            model.gear(n("mesh"), n("p1"), n("p2"), ratio=0.6 / 0.4)
        elif way == 1:
            model.no_slip(n("mesh"), one, two, radius_i=0.4, radius_j=0.6, at_i=s.at, at_j=s.at + side, **shared)
        else:
            model.belt(n("mesh"), n("p1"), n("p2"), radius=0.4, radius_other=0.6, crossed=True)
    twins["gears"] = group


def ring_twins(model, twins):
    """A disc inside a ring: an internal gear, or rims with the disc's radius negative; an open belt turns alike."""
    group = Group(model, "ring", 4, bodies=2)
    s, shared = group.s, {} if model.space == "plane" else {"axis": group.s.axis}
    side = s.across if model.space == "space" else s.axis
    for way in range(3):
        ring, disc, n = group.copy()
        model.revolute(n("p1"), "ground", ring, at=s.at, **shared)
        model.revolute(n("p2"), "ground", disc, at=s.at + 0.5 * side, **shared)
        if way == 0:
            model.gear(n("mesh"), n("p1"), n("p2"), ratio=-0.5 / 1.0)
        elif way == 1:
            model.no_slip(
                n("mesh"), ring, disc, radius_i=1.0, radius_j=-0.5, at_i=s.at, at_j=s.at + 0.5 * side, **shared
            )
        else:
            model.belt(n("mesh"), n("p1"), n("p2"), radius=1.0, radius_other=0.5)
    twins["ring"] = group


def rack_twins(model, twins):
    """A pinion on a pin over a sliding rack: a coupling, or the pinion rolling on the rack."""
    group = Group(model, "rack", 5, bodies=2)
    s = group.s
    plane = model.space == "plane"
    along, up = (s.axis, s.across) if plane else (s.across, np.cross(s.axis, s.across))
    shared = {} if plane else {"axis": s.axis}
    for way in range(2):
        pinion, rack, n = group.copy()
        model.revolute(n("pin"), "ground", pinion, at=s.at, **shared)
        model.prismatic(n("slide"), "ground", rack, at=s.at, axis=along)
        if way == 0:
            # seen along the axis the pinion turns from `along` to `up`: its lowest point moves with +radius · angle
            model.rack_and_pinion(n("mesh"), n("pin"), n("slide"), radius=0.35)
        else:
            model.rolling_disc(n("mesh"), rack, pinion, radius=0.35, at=s.at, normal=up, **shared)
    twins["rack"] = group


@functools.cache
def twin_states(space: str):
    """The model of all twins, states that the first of each group meets, and every copy's body blocks at them."""
    model = quiet_model(space, "twins")
    twins = {}
    for k, (name, ways) in enumerate((SPACE_TWINS if space == "space" else PLANE_TWINS).items()):
        group = twins[name] = Group(model, name, 40 + k)
        for way in ways:
            body, n = group.copy()
            way(model, body, n, group.s)
        # the joint written twice, and once more through a body that is welded to ground: it then closes a loop
        body, n = group.copy()
        ways[0](model, body, n, group.s)
        ways[0](model, body, lambda what, n=n: n(f"{what}_again"), group.s)
        body, n = group.copy()
        base = model.body(
            n("base"), mass=1.0, inertia=1.0 if space == "plane" else (1.0, 1.0, 1.0), position=body.position
        )
        model.weld(n("fast"), "ground", base, at=base.position)
        ways[0](model, body, n, group.s)
        ways[0](model, body, lambda what, n=n: n(f"{what}_again"), group.s, base)
    for make in (gear_twins, ring_twins, rack_twins):
        make(model, twins)
    system = da.build(model)
    leaders = leader_blocks(system, twins)
    rng = np.random.default_rng(9)
    out = []
    for size in (0.0, 0.15):
        delta = (size * rng.standard_normal((len(system.body_names), system.dv)))[leaders]
        delta[[name.endswith("_base") for name in system.body_names]] = (
            0.0  # a screw's two paths must agree on its turn
        )
        q = system.retract(jnp.asarray(system.q0), jnp.asarray(delta.ravel()))
        q, v = settled(system, q, np.asarray(system.v0))
        # all copies where their leader is
        q = np.asarray(q).reshape(-1, system.dq)[leaders].ravel()
        v = np.asarray(v).reshape(-1, system.dv)[leaders].ravel()
        out.append((q, v, *map(np.asarray, solved(system, jnp.zeros(()), jnp.asarray(q), jnp.asarray(v)))))
    return system, twins, out


def leader_blocks(system, twins) -> np.ndarray:
    """For each body the index of its twin in the first copy of its group."""
    names = list(system.body_names)
    out = np.arange(len(names))
    for name, group in twins.items():
        for copy in range(1, group.count + 1):
            for b in range(len(group.bodies)):
                out[names.index(f"{name}{copy}_b{b}")] = names.index(f"{name}1_b{b}")
    return out


TWINS = [pytest.param("space", k, marks=pytest.mark.thorough) for k in (*SPACE_TWINS, "gears", "ring", "rack")]
TWINS += [("plane", k) for k in (*PLANE_TWINS, "gears", "ring", "rack")]


@pytest.mark.parametrize(("space", "name"), TWINS)
def test_formulations_of_one_joint_agree(space, name):
    """At one allowed state all ways to write a joint are met, and give the same accelerations: so the same motion."""
    system, twins, states = twin_states(space)
    names, group = list(system.body_names), twins[name]
    for _, v, vdot, Phi, phi in states:
        a = vdot.reshape(-1, system.dv)
        size = max(np.max(np.abs(a)), 1.0)
        assert np.max(np.abs(v)) > 0.3
        for copy in range(1, group.count + 1):
            on_curve = any(c.nature.label == "point on curve" for c in owners_of(system, f"{name}{copy}_"))
            bar = CURVED if on_curve else SAME
            for b in range(len(group.bodies)):
                mine, first = names.index(f"{name}{copy}_b{b}"), names.index(f"{name}1_b{b}")
                assert np.max(np.abs(a[mine] - a[first])) < bar * size, (copy, b)
            for owner in owners_of(system, f"{name}{copy}_"):
                rows = [r for r in owner.rows if r < system.m_holonomic]
                assert np.max(np.abs(Phi[rows]), initial=0.0) < (1e-6 if on_curve else 1e-9), owner.name
                assert np.max(np.abs(phi[list(owner.rows)])) < (1e-6 if on_curve else 1e-9), owner.name


def owners_of(system, prefix):
    return [o for o in system.owners if o.name.startswith(prefix)]


# ---- shafts, screws and gears through full turns, against closed forms ---------------------------------------------

BEND, SPIN = 0.5, 1.7
RATIO = 1.5


@functools.cache
def turning():
    """Machines without freedom, all driven by t: what they do is geometry. And spheres on a table and on a slope."""
    model = da.Model("turning", space="space", gravity=(0, 0, -9.81))
    z1, z2 = np.array([0, 0, 1.0]), np.array([math.sin(BEND), 0, math.cos(BEND)])

    def shaft(name, at, axis, angle=None):
        pose = {} if abs(axis[0]) < 1e-12 else {"axis": (0, 1, 0), "angle": BEND}
        model.body(name, mass=1.0, inertia=(0.2, 0.2, 0.3), position=at, **pose)
        model.revolute(f"{name}_pin", "ground", name, at=at, axis=axis)
        if angle is not None:
            model.driver(f"{name}_drive", f"{name}_pin", angle)

    one = np.zeros(3)
    for word in ("cv", "cross", "double"):
        shaft(f"{word}_in", one, z1, "t")
        if word != "double":
            shaft(f"{word}_out", one, z2)
    model.constant_velocity("cv", "cv_in", "cv_out", at=one, axis_i=z1, axis_j=z2)
    model.universal("cross", "cross_in", "cross_out", at=one, axis_i=(1, 0, 0), axis_j=(0, 1, 0))
    two = one + 0.5 * z2
    model.body("double_mid", mass=1.0, inertia=(0.2, 0.2, 0.3), position=0.5 * two, axis=(0, 1, 0), angle=BEND)
    shaft("double_out", two, z1)
    model.universal("double_1", "double_in", "double_mid", at=one, axis_i=(1, 0, 0), axis_j=(0, 1, 0))
    model.universal("double_2", "double_mid", "double_out", at=two, axis_i=(0, 1, 0), axis_j=(1, 0, 0))
    # a screw of left hand, driven by its angle; gears of a rational and of an irrational ratio
    model.body("nut", mass=1.0, inertia=(0.2, 0.2, 0.3), position=(0.3, 0, 0))
    model.screw("thread", "ground", "nut", at=(0, 0, 0), axis=z1, pitch=-0.4)
    model.driver("thread_drive", "thread", "t", coordinate="angle")
    for word, ratio in (("rational", RATIO), ("irrational", math.sqrt(2))):
        shaft(f"{word}_1", one, z1, "t")
        shaft(f"{word}_2", (1.0, 0, 0), z1)
        model.gear(f"{word}_gear", f"{word}_1_pin", f"{word}_2_pin", ratio=ratio)
    # a differential: the cage turns at the mean of both sides
    shaft("left", one, z1, "t")
    shaft("right", one, z1, "0.3*t")
    shaft("cage", one, z1)
    model.coupling("differential", [("cage_pin", 2.0), ("left_pin", -1.0), ("right_pin", -1.0)])
    # spheres: on a turning table, and on a slope of 0.2 rad
    shaft("table", one, z1, f"{SPIN}*t")
    solid = {"mass": 2.0, "inertia": (0.4 * 2 * 0.3**2,) * 3}
    model.body("ball", position=(0.7, 0.2, 0.3), velocity=(0.4, -0.9, 0), **solid)
    model.rolling_sphere("on_table", "table", "ball", radius=0.3, normal=z1)
    up = np.array([math.sin(0.2), 0, math.cos(0.2)])
    model.body("slope_ball", position=0.3 * up, velocity=(0.2, 0.5, 0), angular_velocity=(0, 0, 0.7), **solid)
    model.rolling_sphere("on_slope", "ground", "slope_ball", radius=0.3, normal=up)
    system = da.build(model)
    q, v = np.asarray(system.q0), np.asarray(system.v0)
    out = []
    for t in np.arange(0, 9.1, 0.35):  # below half a turn of the faster gear a step
        q, v = settled(system, q, v, t)
        vdot = np.asarray(solved(system, jnp.asarray(t), jnp.asarray(q), jnp.asarray(v))[0])
        out.append(
            (t, *(dict(zip(system.body_names, x.reshape(-1, n), strict=True)) for x, n in ((q, 7), (v, 6), (vdot, 6))))
        )
    return out


def spin_of(axis, name, q, v):
    """Angular velocity of a body along an axis of the world."""
    return float(axis @ (rotation(q[name][3:]) @ v[name][3:]))


Z1, Z2 = np.array([0, 0, 1.0]), np.array([math.sin(BEND), 0, math.cos(BEND)])
GEOMETRY = 1e-9  # Newton's last step: 1e-13 in the rows, times the arms of nearly redundant shafts


def test_a_constant_velocity_joint_turns_both_shafts_alike():
    for t, q, v, _ in turning():
        assert abs(spin_of(Z1, "cv_in", q, v) - 1) < GEOMETRY
        assert abs(spin_of(Z2, "cv_out", q, v) - 1) < GEOMETRY, t
        # and the angle itself: about its own axis by t from its start, which was z1 tilted about y
        R = axis_angle(Z2, t) @ axis_angle((0, 1, 0), BEND)
        assert np.max(np.abs(rotation(q["cv_out"][3:]) - R)) < GEOMETRY


def test_a_universal_joint_turns_the_other_shaft_unevenly():
    """tan φ = tan θ/cos β from the fork in the plane of the shafts: φ̇ = cos β/(1 − sin²β cos²θ)."""
    for t, q, v, _ in turning():
        exact = math.cos(BEND) / (1 - (math.sin(BEND) * math.cos(t)) ** 2)
        assert abs(spin_of(Z2, "cross_out", q, v) - exact) < GEOMETRY


def test_two_universal_joints_in_line_are_a_constant_velocity_joint():
    for t, q, v, _ in turning():
        assert abs(spin_of(Z1, "double_out", q, v) - 1) < GEOMETRY, t
        assert np.max(np.abs(rotation(q["double_out"][3:]) - axis_angle(Z1, t))) < GEOMETRY


def test_a_screw_counts_its_turns():
    for t, q, v, _ in turning():
        assert abs(q["nut"][2] + 0.4 * t / (2 * math.pi)) < GEOMETRY
        assert np.max(np.abs(q["nut"][:2] - 0.3 * np.array([math.cos(t), math.sin(t)]))) < GEOMETRY
        assert abs(v["nut"][2] + 0.4 / (2 * math.pi)) < GEOMETRY


def test_gears_and_differential_through_full_turns():
    for t, q, v, _ in turning():
        assert abs(spin_of(Z1, "rational_2", q, v) + 1 / RATIO) < GEOMETRY
        assert np.max(np.abs(rotation(q["rational_2"][3:]) - axis_angle(Z1, -t / RATIO))) < GEOMETRY
        assert abs(spin_of(Z1, "irrational_2", q, v) + 1 / math.sqrt(2)) < GEOMETRY
        assert abs(spin_of(Z1, "cage", q, v) - 0.65) < GEOMETRY
        assert np.max(np.abs(rotation(q["cage"][3:]) - axis_angle(Z1, 0.65 * t))) < GEOMETRY


def test_a_sphere_on_a_turntable_circles_with_two_sevenths_of_its_speed():
    """A solid sphere on a table turning at Ω: v̇ = (2/7) Ω ẑ × v (a classic result); on a slope (5/7) g sin α."""
    for _, _, v, a in turning():
        exact = 2 / 7 * SPIN * np.cross(Z1, v["ball"][:3])
        assert np.max(np.abs(a["ball"][:3] - exact)) < SAME * max(1.0, np.max(np.abs(exact)))
        down = np.array([math.cos(0.2), 0, -math.sin(0.2)])
        assert np.max(np.abs(a["slope_ball"][:3] - 5 / 7 * 9.81 * math.sin(0.2) * down)) < SAME * 9.81
