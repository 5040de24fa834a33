"""The joint library against itself: formulations that must agree, loops, couplings and drivers through full turns."""

from __future__ import annotations

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_joints import JOINTS, PITCH, axes_of, curve_points, quiet_model, rotation, spot

import dalembert as da
from dalembert.model import COORDINATES, axis_angle, coordinates_of
from dalembert.systems._constraints import KINDS, kind_of

SPACES = ("plane", "space")
# one linear solve with a condition number of some 1e3, and 1e-9 for rows that are doubled (the proximal iteration
# stops there); measured 1e-12 and 1e-10
SAME = 1e-9


@eqx.filter_jit
def accelerations(system, t, q, v):
    """v̇, and the residuals that say whether (q, v) is allowed at all."""
    equations = da.assemble(system, t, q, v)
    return da.Proximal().solve(equations).vdot, equations.Phi, equations.phi


def test_kinds_are_the_same_in_model_and_systems():
    """What a model says of a kind's coordinates is what its rows' table measures, in name and order."""
    known = {(space, kind) for kind, spaces in COORDINATES.items() for space in spaces}
    assert known == {(space, kind) for space, kind in KINDS if ":" not in kind}
    for space in SPACES:
        for kind in (*(k for s, k in KINDS if s == space), *JOINTS[space]):
            found = kind_of(space, kind)
            assert (tuple(found.coordinates) if found else ()) == coordinates_of(space, kind)


# ---- twins: one joint written in several ways -----------------------------------------------------------------------


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


def point_twice(model, b, n, s, kind, **way):
    for k, shift in enumerate((0.0, 0.8)):
        getattr(model, kind)(n(f"p{k}"), "ground", b, at=s.at + shift * s.axis, **way)


def three_planes(model, b, n, s):
    third = np.cross(s.axis, s.across)
    for k, off in enumerate((0 * third, 0.7 * s.across, 0.6 * third)):
        model.point_in_plane(n(f"p{k}"), "ground", b, at=s.at + off, normal=s.axis)


def screw_by_coupling(model, b, n, s):
    model.cylindrical(n("c"), "ground", b, at=s.at, axis=s.axis)
    model.coupling(n("lead"), [(n("c"), "displacement", 1.0), (n("c"), "angle", -PITCH / (2 * math.pi))])


# for each joint the ways to write it: functions (model, body, namer, spot); the first is the joint itself
SPACE_TWINS = {
    "revolute": (
        lambda m, b, n, s: m.revolute(n("r"), "ground", b, at=s.at, axis=s.axis),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "x,y,z,rx,ry"),
        lambda m, b, n, s: point_twice(m, b, n, s, "spherical"),
        lambda m, b, n, s: [
            m.cylindrical(n("c"), "ground", b, at=s.at, axis=s.axis),
            m.point_in_plane(n("p"), "ground", b, at=s.at, normal=s.axis),
        ],
        lambda m, b, n, s: m.revolute(n("r"), b, "ground", at=s.at, axis=s.axis),
    ),
    "universal": (
        lambda m, b, n, s: m.universal(n("u"), "ground", b, at=s.at, axis_i=s.across, axis_j=axes_of(s)[:, 1]),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "x,y,z,rz"),
        lambda m, b, n, s: [
            m.spherical(n("s"), "ground", b, at=s.at),
            m.perpendicular_axes(n("p"), "ground", b, axis_i=s.across, axis_j=axes_of(s)[:, 1]),
        ],
    ),
    "weld": (
        lambda m, b, n, s: m.weld(n("w"), "ground", b, at=s.at),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "x,y,z,rx,ry,rz"),
        lambda m, b, n, s: m.frame_driver(n("f"), "ground", b, [0.0] * 3, [0.0] * 3, at=s.at),
        lambda m, b, n, s: [
            m.spherical(n("s"), "ground", b, at=s.at),
            m.orientation_lock(n("o"), "ground", b),
        ],
    ),
    "prismatic": (
        lambda m, b, n, s: m.prismatic(n("p"), "ground", b, at=s.at, axis=s.axis),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "x,y,rx,ry,rz"),
        lambda m, b, n, s: [
            m.cylindrical(n("c"), "ground", b, at=s.at, axis=s.axis),
            m.driver(n("d"), n("c"), 0.0, coordinate="angle"),
        ],
    ),
    "cylindrical": (
        lambda m, b, n, s: m.cylindrical(n("c"), "ground", b, at=s.at, axis=s.axis),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "x,y,rx,ry"),
        lambda m, b, n, s: point_twice(m, b, n, s, "point_on_line", axis=s.axis),
    ),
    "screw": (
        lambda m, b, n, s: m.screw(n("s"), "ground", b, at=s.at, axis=s.axis, pitch=PITCH),
        lambda m, b, n, s: screw_by_coupling(m, b, n, s),
        lambda m, b, n, s: m.screw(n("s"), b, "ground", at=s.at, axis=-s.axis, pitch=PITCH),
    ),
    "planar": (
        lambda m, b, n, s: m.planar(n("p"), "ground", b, at=s.at, normal=s.axis),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "z,rx,ry"),
        three_planes,
    ),
    "pin_slot": (
        lambda m, b, n, s: m.pin_slot(n("p"), "ground", b, at=s.at, slot=s.across, axis=s.axis),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "y,z,rx,ry"),
        lambda m, b, n, s: [
            m.point_on_line(n("l"), "ground", b, at=s.at, axis=s.across),
            m.parallel_axes(n("a"), "ground", b, axis=s.axis),
        ],
    ),
    "spherical": (
        lambda m, b, n, s: m.spherical(n("s"), "ground", b, at=s.at),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "x,y,z"),
        lambda m, b, n, s: m.point_driver(n("d"), "ground", b, [0.0] * 3, at=s.at),
        lambda m, b, n, s: [
            m.point_on_line(n("l"), "ground", b, at=s.at, axis=s.axis),
            m.point_in_plane(n("p"), "ground", b, at=s.at, normal=s.axis),
        ],
    ),
    "orientation_lock": (
        lambda m, b, n, s: m.orientation_lock(n("o"), "ground", b),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "rx,ry,rz"),
        lambda m, b, n, s: [
            m.parallel_axes(n("a"), "ground", b, axis=s.axis),
            m.perpendicular_axes(n("p"), "ground", b, axis_i=s.across, axis_j=axes_of(s)[:, 1]),
        ],
    ),
    "perpendicular_axes": (
        lambda m, b, n, s: m.perpendicular_axes(n("p"), "ground", b, axis_i=s.across, axis_j=axes_of(s)[:, 1]),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "rz"),
        lambda m, b, n, s: m.constant_angle(
            n("c"), "ground", b, axis_i=s.across, axis_j=axes_of(s)[:, 1], angle=math.pi / 2
        ),
    ),
    "parallel_axes": (
        lambda m, b, n, s: m.parallel_axes(n("a"), "ground", b, axis=s.axis),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "rx,ry"),
        lambda m, b, n, s: [
            m.perpendicular_axes(n(f"p{k}"), "ground", b, axis_i=axes_of(s)[:, k], axis_j=s.axis) for k in range(2)
        ],
    ),
    "rod": (
        lambda m, b, n, s: m.revolute_spherical_rod(
            n("r"), "ground", b, at_i=s.at, at_j=s.at + 2 * s.across, axis=s.axis
        ),
        lambda m, b, n, s: [
            m.distance(n("d"), "ground", b, at_i=s.at, at_j=s.at + 2 * s.across),
            m.point_in_plane(n("p"), "ground", b, at=s.at + 2 * s.across, normal=s.axis),
        ],
        lambda m, b, n, s: [
            m.distance_driver(n("d"), "ground", b, 2.0, at_i=s.at, at_j=s.at + 2 * s.across),
            m.point_in_plane(n("p"), "ground", b, at=s.at + 2 * s.across, normal=s.axis),
        ],
        lambda m, b, n, s: m.point_on_curve(
            n("c"), "ground", b, at=s.at + 2 * s.across, points=circle(s, 2.0), closed=True
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
        lambda m, b, n, s: m.revolute(n("r"), "ground", b, at=s.at),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "x,y"),
        lambda m, b, n, s: [
            m.point_on_line(n(f"l{k}"), "ground", b, at=s.at, axis=a) for k, a in enumerate((s.axis, s.across))
        ],
        lambda m, b, n, s: m.point_driver(n("d"), "ground", b, [0.0, 0.0], at=s.at),
    ),
    "prismatic": (
        lambda m, b, n, s: m.prismatic(n("p"), "ground", b, at=s.at, axis=s.axis),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "y,angle"),
        lambda m, b, n, s: [
            m.pin_slot(n("s"), "ground", b, at=s.at, slot=s.axis),
            m.angle_lock(n("a"), "ground", b),
        ],
        lambda m, b, n, s: point_twice(m, b, n, s, "point_on_line", axis=s.axis),
    ),
    "weld": (
        lambda m, b, n, s: m.weld(n("w"), "ground", b, at=s.at),
        lambda m, b, n, s: generic(m, n("g"), "ground", b, s, "x,y,angle"),
        lambda m, b, n, s: m.frame_driver(n("f"), "ground", b, [0.0, 0.0], [0.0], at=s.at),
    ),
    "distance": (
        lambda m, b, n, s: m.distance(n("d"), "ground", b, at_i=s.at, at_j=s.at + 2 * s.axis),
        lambda m, b, n, s: m.distance_driver(n("d"), "ground", b, 2.0, at_i=s.at, at_j=s.at + 2 * s.axis),
        lambda m, b, n, s: m.point_on_curve(n("c"), "ground", b, at=s.at + 2 * s.axis, points=circle(s, 2.0), closed=True),
    ),
}  # fmt: skip
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
            model.no_slip(
                n("mesh"), one, two, radius_i=0.4, radius_j=0.6, at_i=s.at, at_j=s.at + side, **shared
            )
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
            model.no_slip(n("mesh"), ring, disc, radius_i=1.0, radius_j=-0.5, at_i=s.at, at_j=s.at + 0.5 * side, **shared)
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
    for make in (gear_twins, ring_twins, rack_twins):
        make(model, twins)
    system = da.build(model)
    leaders = leader_blocks(system, twins)
    rng = np.random.default_rng(9)
    out = []
    for size in (0.0, 0.15):
        delta = (size * rng.standard_normal((len(system.body_names), system.dv)))[leaders].ravel()
        q = system.retract(jnp.asarray(system.q0), jnp.asarray(delta))
        q, v = da.consistent_state(system, q, system.v0)
        # all copies where their leader is
        q = np.asarray(q).reshape(-1, system.dq)[leaders].ravel()
        v = np.asarray(v).reshape(-1, system.dv)[leaders].ravel()
        out.append((q, v, *map(np.asarray, accelerations(system, jnp.zeros(()), q, v))))
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


TWINS = [("space", k) for k in (*SPACE_TWINS, "gears", "ring", "rack")]
TWINS += [("plane", k) for k in (*PLANE_TWINS, "gears", "ring", "rack")]


@pytest.mark.parametrize(("space", "name"), TWINS)
def test_formulations_of_one_joint_agree(space, name):
    """At one allowed state all ways to write a joint are met, and give the same accelerations: so the same motion."""
    system, twins, states = twin_states(space)
    names, group = list(system.body_names), twins[name]
    for q, v, vdot, Phi, phi in states:
        a = vdot.reshape(-1, system.dv)
        size = max(np.max(np.abs(a)), 1.0)
        assert np.max(np.abs(v)) > 0.3
        for copy in range(1, group.count + 1):
            on_curve = any(c.kind.startswith("point_on_curve") for c in owners_of(system, f"{name}{copy}_"))
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
