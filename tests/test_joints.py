"""Rows of every joint kind: C, b and Γ against finite differences and against forms derived by hand."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_joints import (
    ANGLE,
    BEND,
    DRIVEN,
    DRIVERS,
    JOINTS,
    ORDERS,
    PITCH,
    PRESCRIBED,
    RADII,
    RADIUS,
    ROD,
    ROUNDING,
    SPEED_DRIVEN,
    SPEED_DRIVERS,
    Spot,
    add_joint,
    add_rows,
    axes_of,
    close,
    curve_points,
    motion,
    moved,
    quiet_model,
    random_body,
    rotation,
    rotation_2,
    rows_of,
    spot,
    tilted,
)

import dalembert as da
from dalembert.linalg import Dependence
from dalembert.model import ELEMENTS, AbstractJoint, axis_angle, frame_on_axis
from dalembert.systems import rows_of as system_rows

SPACES = ("plane", "space")
EYE3 = np.eye(3)
STEP = 5e-4
# The 4-point central difference errs by h⁴|f⁽⁵⁾|/30 ≈ 2e-15 |f⁽⁵⁾| and by 1.5 ε|f|/h ≈ 1e-12; the fifth
# derivatives here (some rad/s, angles by arctan2) reach 1e4 times the value. Halving h cuts the error 16 times.
DIFFERENCE = 2e-10

COUPLINGS = ("coupling_mixed", "coupling_three", "coupling_irrational")


def labels(space: str):
    """All elements with rows: joints, drivers of their coordinates, other prescribed motions, couplings."""
    drivers = [f"driver_{k}_{c}" for k, c in DRIVEN[space]] + [f"speed_driver_{k}_{c}" for k, c in SPEED_DRIVEN[space]]
    return (*JOINTS[space], *drivers, *PRESCRIBED, *COUPLINGS)


NAMES = [(space, f"{kind}_{order}") for space in SPACES for kind in labels(space) for order in ORDERS]
DRIVER_NAMES = [(s, n) for s, n in NAMES if n.startswith(("driver", "speed_driver"))]


def driven(name: str):
    """(joint, coordinate, order) of a driver's name."""
    label, _, order = name.rpartition("_")
    kind, coordinate = (DRIVERS | SPEED_DRIVERS)[label]
    return f"{kind}_{order}", coordinate, order


def add_couplings(model, order: str):
    """Two terms of mixed kind; three on shared bodies with rational factors; an irrational ratio."""
    a, b, c = f"revolute_{order}", f"prismatic_{order}", "pin_slot_bb"
    model.coupling(f"coupling_mixed_{order}", [(a, 0.5), (b, "displacement", -2.0)])
    model.coupling(
        f"coupling_three_{order}",
        [(a, 1.0), {"joint": c, "coordinate": "angle", "factor": -1.5}, (b, 0.3)],
        constant=0.2,
    )
    model.coupling(f"coupling_irrational_{order}", [(a, 1.0), (c, "angle", math.sqrt(2.0))])


@functools.cache
def everything(space: str):
    """A model with every joint kind in every order between two bodies and ground, and each joint's spot."""
    rng = np.random.default_rng(7)
    model = quiet_model(space)
    one, two = random_body(model, "one", rng), random_body(model, "two", rng)
    pairs = {"bb": (one, two), "gb": (model.ground, two), "bg": (one, model.ground)}
    spots = {}
    for kind in JOINTS[space]:
        for order in ORDERS:
            s = spots[f"{kind}_{order}"] = spot(space, rng)
            add_joint(model, kind, f"{kind}_{order}", *pairs[order], s)
    for order in ORDERS:
        for kind, coordinate in DRIVEN[space]:
            name, joint = f"driver_{kind}_{coordinate}_{order}", f"{kind}_{order}"
            model.driver(name, joint, motion, coordinate=coordinate, parameters={"start": 0.2})
        for kind, coordinate in SPEED_DRIVEN[space]:
            name, joint = f"speed_driver_{kind}_{coordinate}_{order}", f"{kind}_{order}"
            model.speed_driver(name, joint, motion, coordinate=coordinate, parameters={"start": 0.2})
        for kind in PRESCRIBED:
            s = spots[f"{kind}_{order}"] = spot(space, rng)
            add_rows(model, kind, f"{kind}_{order}", *pairs[order], s)
        add_couplings(model, order)
    return model, da.build(model), spots


def states(system, count: int = 4):
    """Random times, poses off the constraints, and velocities; within half a radian of the start, off branch cuts."""
    rng = np.random.default_rng(11)
    for _ in range(count):
        q = system.retract(system.q0, jnp.asarray(0.35 * rng.standard_normal(system.n)))
        yield rng.uniform(0.2, 1.5), np.asarray(q), 1.5 * rng.standard_normal(system.n)


def difference(f, h: float = STEP):
    """f'(0) by the 4-point central difference."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


STENCIL = ((1, 8), (-1, -8), (2, -1), (-2, 1))  # (f(h) − f(−h)) 8/12h − (f(2h) − f(−2h)) 1/12h


def probes(space, system, t, q, v):
    """All (t, q, v) at which the rows are wanted around one state, by purpose."""
    n = system.n
    zero, eye = np.zeros(n), np.eye(n)
    displaced = jax.vmap(lambda d: system.retract(jnp.asarray(q), d))
    moves = np.concatenate([k * STEP * eye for k, _ in STENCIL])
    return {
        "Phi_q": [(t, x, zero) for x in np.asarray(displaced(moves))],
        "Phi_t": [(t + k * STEP, q, zero) for k, _ in STENCIL],
        "phi_rate": [(t + k * STEP, moved(space, q, v, k * STEP), v) for k, _ in STENCIL],
        "on_units": [(t, q, e) for e in eye],
        "at_rest": [(t, q, zero)],
    }


def by_stencil(values):
    """Values at the stencil's points, point after point → the derivative."""
    values = np.reshape(values, (len(STENCIL), -1, values.shape[-1]))
    return sum(w * x for (_, w), x in zip(STENCIL, values, strict=True)) / (12 * STEP)


@functools.cache
def measured(space: str):
    """Per state: the assembled equations and the same things by finite differences or by plain evaluation."""
    _, system, _ = everything(space)
    given = list(states(system))
    asked = [probes(space, system, *x) for x in given]
    points = [p for a in asked for group in a.values() for p in group]
    # one compiled batch for all points
    Phi, phi = jax.jit(jax.vmap(lambda *x: da.equations.residuals(system, *x)))(
        *(np.array(x) for x in zip(*points, strict=True))
    )
    Phi, phi = iter(np.asarray(Phi)), iter(np.asarray(phi))
    out = []
    for (t, q, v), groups in zip(given, asked, strict=True):
        e = da.assemble(system, t, q, v)
        got = {}
        for key, group in groups.items():
            pairs = [(next(Phi), next(phi)) for _ in group]
            got[key] = np.array([p[0] if key.startswith("Phi") else p[1] for p in pairs])
        out.append(
            {key: np.asarray(getattr(e, key)) for key in ("C", "b", "Gamma", "phi", "Phi")}
            | {
                "t": t,
                "q": q,
                "v": v,
                "Phi_q": by_stencil(got["Phi_q"]).T,
                "Phi_t": by_stencil(got["Phi_t"])[0],
                "phi_rate": by_stencil(got["phi_rate"])[0],
                "at_rest": got["at_rest"][0],
                "on_units": (got["on_units"] - got["at_rest"]).T,
            }
        )
    return out


# ---- every kind, every order: against finite differences ------------------------------------------------------


@pytest.mark.parametrize(("space", "name"), NAMES)
def test_C_is_the_derivative_of_the_rows(space, name):
    """Holonomic rows: C = ∂Φ/∂q N by displacements q ⊕ εe; all rows: φ − φ(v=0) = C v, linear in v."""
    _, system, _ = everything(space)
    rows = rows_of(system, name)
    holonomic = [r for r in rows if r < system.m_holonomic]
    for x in measured(space):
        assert close(x["C"][holonomic], x["Phi_q"][holonomic], DIFFERENCE)
        assert close(x["C"][rows], x["on_units"][rows], ROUNDING)
        assert close(x["phi"][rows], x["C"][rows] @ x["v"] + x["at_rest"][rows], 10 * ROUNDING)


@pytest.mark.parametrize(("space", "name"), NAMES)
def test_b_is_the_rate_at_rest(space, name):
    """b = φ(t, q, 0), and for holonomic rows ∂Φ/∂t."""
    _, system, _ = everything(space)
    rows = rows_of(system, name)
    holonomic = [r for r in rows if r < system.m_holonomic]
    for x in measured(space):
        assert close(x["b"][rows], x["at_rest"][rows], 10 * ROUNDING)
        assert close(x["b"][holonomic], x["Phi_t"][holonomic], DIFFERENCE)
    rheonomic = name.startswith(("driver", "speed_driver", "holonomic", "pfaffian", *PRESCRIBED))
    assert np.any(np.abs(measured(space)[0]["b"][rows]) > 0.01) == rheonomic


# rows of constant coefficients have Γ = 0: the plane's angle, driven (Γ is then that of motion(t)) or held or coupled
CONSTANT_ROWS = {("plane", k) for k in ("angle_lock", "generic:angle", "coupling_irrational")}


@pytest.mark.parametrize(("space", "name"), NAMES)
def test_Gamma_is_minus_the_rate_of_phi_with_v_held(space, name):
    _, system, _ = everything(space)
    rows = rows_of(system, name)
    for x in measured(space):
        assert close(x["Gamma"][rows], -x["phi_rate"][rows], DIFFERENCE)
    if (space, name.rsplit("_", 1)[0]) not in CONSTANT_ROWS:
        assert np.max(np.abs(measured(space)[0]["Gamma"][rows])) > 1e-3


@pytest.mark.parametrize(("space", "name"), [x for x in NAMES if x[1].endswith("_bb") and "coupling" not in x[1]])
def test_rows_see_relative_motion_only(space, name):
    """Both bodies moved as one, along or about any axis: nothing changes, on the constraints or off them."""
    _, system, _ = everything(space)
    rows = rows_of(system, name)
    for x in measured(space):
        if space == "plane":
            bodies = x["q"].reshape(2, 3)
            moves = [np.tile([*e, 0.0], 2) for e in np.eye(2)]
            if name not in ("weld_bb", "revolute_bb"):  # a gap along world axes turns with the bodies
                moves.append(np.concatenate([[-b[1], b[0], 1.0] for b in bodies]))
        else:
            bodies = x["q"].reshape(2, 7)
            moves = [np.tile([*e, 0.0, 0.0, 0.0], 2) for e in EYE3]
            for e in EYE3:
                moves.append(np.concatenate([[*np.cross(e, b[:3]), *(rotation(b[3:]).T @ e)] for b in bodies]))
        assert close(x["C"][rows] @ np.array(moves).T, 0.0, 100 * ROUNDING)  # arms of some metres


# ---- number of rows, and which motions a joint leaves free -----------------------------------------------------

ROWS = {
    ("plane", "weld"): 3, ("plane", "revolute"): 2, ("plane", "prismatic"): 2, ("plane", "distance"): 1,
    ("plane", "knife_edge"): 1, ("plane", "rolling_disc"): 2, ("plane", "holonomic"): 1, ("plane", "pfaffian"): 1,
    ("plane", "pin_slot"): 1, ("plane", "point_on_line"): 1, ("plane", "point_on_curve"): 1,
    ("plane", "point_on_curve:closed"): 1, ("plane", "angle_lock"): 1, ("plane", "no_slip"): 1,
    ("plane", "point_driver"): 2, ("plane", "frame_driver"): 3, ("plane", "distance_driver"): 1,
    ("space", "weld"): 6, ("space", "revolute"): 5, ("space", "prismatic"): 5, ("space", "cylindrical"): 4,
    ("space", "spherical"): 3, ("space", "universal"): 4, ("space", "distance"): 1, ("space", "knife_edge"): 1,
    ("space", "rolling_disc"): 3, ("space", "holonomic"): 1, ("space", "pfaffian"): 1, ("space", "screw"): 5,
    ("space", "constant_velocity"): 4, ("space", "planar"): 3, ("space", "pin_slot"): 4, ("space", "point_on_line"): 2,
    ("space", "point_in_plane"): 1, ("space", "point_on_curve"): 2, ("space", "point_on_curve:closed"): 2,
    ("space", "parallel_axes"): 2, ("space", "perpendicular_axes"): 1, ("space", "constant_angle"): 1,
    ("space", "orientation_lock"): 3, ("space", "revolute_spherical_rod"): 2, ("space", "rolling_sphere"): 3,
    ("space", "no_slip"): 1, ("space", "point_driver"): 3, ("space", "frame_driver"): 6,
    ("space", "distance_driver"): 1,
} | {(space, kind): kind.count(",") + 1 for space in SPACES for kind in JOINTS[space] if kind.startswith("generic")} | {
    (space, kind): 1 for space in SPACES for kind in COUPLINGS
}  # fmt: skip


def contact_point(model, name):
    """Where the disc touches: marker i's point, since the plane passes under the disc at the start."""
    return model.constraints[name].markers[0].start_position


def free_motions(space, kind, s, contact):
    """Motions of a body against ground that the joint must allow: (velocity, angular velocity, through which point)."""
    zero, axis, across = np.zeros(len(s.at)), s.axis, s.across
    rod = s.off - s.at
    if kind.startswith("generic"):
        return generic_motions(space, kind.split(":")[1].split(","), s)
    kind = kind.split(":")[0]
    share = RADII[0] / sum(RADII)
    if space == "plane":
        normal = np.array([-rod[1], rod[0]])
        return {
            "pin_slot": [(axis, 0.0, s.at), (zero, 1.0, s.at)], "point_on_line": [(axis, 0.0, s.at), (zero, 1.0, s.at)],
            "point_on_curve": [(axis, 0.0, s.at), (zero, 1.0, s.at)], "angle_lock": [(e, 0.0, s.at) for e in np.eye(2)],
            "no_slip": [(rod, 0.0, s.at), (zero, 1.0, s.at + share * rod)],
            "weld": [], "revolute": [(zero, 1.0, s.at)], "prismatic": [(axis, 0.0, s.at)],
            "distance": [(normal, 0.0, s.off), (zero, 1.0, s.off)],
            "knife_edge": [(axis, 0.0, s.at), (zero, 1.0, s.at)],
            "rolling_disc": [(zero, 1.0, contact)],
        }[kind]  # fmt: skip
    turns = [(zero, e, s.at) for e in EYE3]
    around = [(zero, e, s.off) for e in EYE3]
    shifts = [(np.cross(rod, e), zero, s.off) for e in EYE3[:2]]
    edge = axis - axis[2] * EYE3[2]  # the edge lies in the horizontal plane of marker i
    anywhere, third = [(e, zero, s.at) for e in EYE3], np.cross(axis, across)
    bent, leaning = tilted(s, BEND), tilted(s, ANGLE)
    flat = rod - (rod @ axis) * axis  # the line of centres across the discs' axis
    touch = s.at + (rod - flat) + share * flat
    return {
        "screw": [(PITCH / (2 * math.pi) * axis, axis, s.at)],
        # both shafts turning alike, and the bend
        "constant_velocity": [(zero, bent - axis, s.at), (zero, third, s.at)],
        "planar": [(across, zero, s.at), (third, zero, s.at), (zero, axis, s.at)],
        "pin_slot": [(across, zero, s.at), (zero, axis, s.at)], "point_on_line": [(axis, zero, s.at), *turns],
        "point_in_plane": [(across, zero, s.at), (third, zero, s.at), *turns],
        "point_on_curve": [(axis, zero, s.at), *turns], "parallel_axes": [*anywhere, (zero, axis, s.at)],
        "perpendicular_axes": [*anywhere, (zero, axis, s.at), (zero, across, s.at)],
        "constant_angle": [*anywhere, (zero, axis, s.at), (zero, leaning, s.at)], "orientation_lock": anywhere,
        "revolute_spherical_rod": [(third, zero, s.at), *((zero, e, s.at + ROD * across) for e in EYE3)],
        "rolling_sphere": [(zero, e, s.at - RADIUS * across) for e in EYE3],
        "no_slip": [(flat, zero, s.at), (axis, zero, s.at), *((zero, e, touch) for e in EYE3)],
        "weld": [], "revolute": [(zero, axis, s.at)], "prismatic": [(axis, zero, s.at)],
        "cylindrical": [(axis, zero, s.at), (zero, axis, s.at)], "spherical": turns,
        "universal": [(zero, axis, s.at), (zero, across, s.at)], "distance": [*around, *shifts],
        "knife_edge": [*turns, (edge, zero, s.at), (EYE3[2], zero, s.at)],
        "rolling_disc": [(zero, e, contact) for e in EYE3],
    }[kind]  # fmt: skip


def generic_motions(space, held, s):
    """Of a generic joint: shifts along and turns about the axes that are not held."""
    A, zero = axes_of(s), np.zeros(len(s.at))
    if space == "plane":
        turns = [] if "angle" in held else [(zero, 1.0, s.at)]
        return [(A[:, k], 0.0, s.at) for k in range(2) if "xy"[k] not in held] + turns
    shifts = [(A[:, k], zero, s.at) for k in range(3) if "xyz"[k] not in held]
    return shifts + [(zero, A[:, k], s.at) for k in range(3) if "r" + "xyz"[k] not in held]


def velocity_of(space, body, free):
    """(velocity, ω, point) in world axes → the body's velocities as the package orders them."""
    velocity, w, point = free
    arm = body.position - point
    if space == "plane":
        return np.array([*(velocity + w * np.array([-arm[1], arm[0]])), w])
    return np.concatenate([velocity + np.cross(w, arm), body.rotation.T @ w])


@pytest.mark.parametrize(("space", "kind"), ROWS)
def test_number_of_rows_and_free_directions(space, kind):
    model, system, spots = everything(space)
    e = da.assemble(system, 0.0, system.q0, system.v0)
    C, blocks, d = np.asarray(e.C), np.asarray(e.mass.blocks), system.dv
    for order in ORDERS:
        rows = rows_of(system, f"{kind}_{order}")
        assert len(rows) == ROWS[space, kind]
        # at the start pose all joints are met, so no joint loses rank there
        assert Dependence(C[rows], blocks).rank == ROWS[space, kind]
        if kind != "coupling_three":  # its constant was given, not read off the start
            Phi = np.asarray(e.Phi)[[r for r in rows if r < system.m_holonomic]]
            assert np.max(np.abs(Phi), initial=0.0) < 10 * ROUNDING  # a curve's coefficients are of order ten
    if kind in ("holonomic", "pfaffian", *PRESCRIBED, *COUPLINGS):
        return
    for order, body, k in (("gb", "two", 1), ("bg", "one", 0)):
        name = f"{kind}_{order}"
        s, contact = spots[name], contact_point(model, name)
        if order == "bg" and kind == "distance":  # the body is i: it holds the other end of the rod
            s = Spot(s.off, s.at, s.axis, s.across)
        free = [velocity_of(space, model.bodies[body], f) for f in free_motions(space, kind, s, contact)]
        assert len(free) == d - ROWS[space, kind]
        if free:
            assert np.linalg.matrix_rank(np.array(free)) == len(free)
            block = C[rows_of(system, name)][:, k * d : (k + 1) * d]
            assert np.max(np.abs(block @ np.array(free).T)) < 10 * ROUNDING  # radii and rods of order one to four


@pytest.mark.parametrize(("space", "name"), [x for x in DRIVER_NAMES if "constant_velocity" not in x[1]])
def test_driver_row_counts_one_for_a_unit_rate(space, name):
    """At the start a unit motion of j against i along the coordinate changes the driver's row by +1."""
    model, system, spots = everything(space)
    joint, coordinate, order = driven(name)
    kind = joint.rpartition("_")[0]
    free = unit_motion(space, kind, coordinate, spots[joint])
    C = np.asarray(da.assemble(system, 0.0, system.q0, system.v0).C)[rows_of(system, name)[0]].reshape(2, system.dv)
    body, k = ("one", 0) if order == "bg" else ("two", 1)
    sign = -1 if order == "bg" else 1
    assert abs(C[k] @ velocity_of(space, model.bodies[body], free) - sign) < ROUNDING


def unit_motion(space, kind, coordinate, s):
    """The motion of j by which a coordinate grows by one, from the documented axes of the joint."""
    zero, A = np.zeros(len(s.at)), axes_of(s)
    still = 0.0 if space == "plane" else zero
    if coordinate in "xyz":
        k = "xyz".index(coordinate)
        if kind in ("angle_lock", "orientation_lock"):  # placed without an axis: world axes
            A = np.eye(len(s.at))
        if kind == "point_in_plane":  # placed by its normal alone
            A = frame_on_axis(s.axis)
        return A[:, k], still, s.at
    if coordinate == "displacement":
        return s.across if (space, kind) == ("space", "pin_slot") else s.axis, still, s.at
    if space == "plane":
        return zero, 1.0, s.at
    if kind == "revolute_spherical_rod":  # the rod turns about its hinge: its far end moves by its length
        return ROD * np.cross(s.axis, s.across), zero, s.at
    turning = {"angle_i": s.axis, "angle_j": s.across, "angle": s.axis}
    turning |= {f"angle_{'xyz'[k]}": A[:, k] for k in range(3)}
    return zero, turning[coordinate], s.at


# ---- joint coordinates -----------------------------------------------------------------------------------------


def coordinates(system, joint: str, q) -> dict[str, float]:
    view = system.joint(joint)
    i, j = system.joint_frames(view, jnp.asarray(q))
    return {x.name: float(x.function(i, j)) for x in view.coordinates}


@pytest.mark.parametrize(("space", "name"), DRIVER_NAMES)
def test_coordinate_and_its_rate_agree(space, name):
    """The driver's row is coordinate − motion(t), and C v of that row is the coordinate's rate along the motion."""
    _, system, _ = everything(space)
    joint, coordinate, _ = driven(name)
    (row,) = rows_of(system, name)
    for x in measured(space)[:2]:
        if name.startswith("driver"):
            value = coordinates(system, joint, x["q"])[coordinate]
            gap = value - float(motion(x["t"], {"start": 0.2})) - x["Phi"][row]
            if coordinate.startswith("angle"):  # angles are compared up to full turns
                gap = (gap + math.pi) % (2 * math.pi) - math.pi
            assert abs(gap) < 10 * ROUNDING
        else:
            assert abs(x["at_rest"][row] + float(motion(x["t"], {"start": 0.2}))) < 10 * ROUNDING
        rate = difference(lambda h, x=x: coordinates(system, joint, moved(space, x["q"], x["v"], h))[coordinate])
        assert close(rate, x["C"][row] @ x["v"], DIFFERENCE)


ANGLES = (-2.9, -1.2, 0.4, 2.5)


def turned(*turns):
    """Turns about the axes x, y, z one after the other, each in the frame turned so far."""
    R = np.eye(3)
    for axis, angle in turns:
        R = R @ axis_angle(np.eye(3)["xyz".index(axis)], angle)
    return R


def amounts(kind: str, a: float):
    """Place of marker j in marker i for a motion of known amounts, and the coordinates that it must have."""
    h, e = 0.5 * a, np.eye(3)  # half the angle keeps the second angle of a cardan cross below π/2
    shift = np.array([0.3, -0.2, 0.1]) * a
    all_three = dict(zip("xyz", shift, strict=True))
    rod = ROD * turned(("z", a))[:, 0]
    return {
        "revolute": (turned(("z", a)), 0 * e[2], {"angle": a}),
        "prismatic": (np.eye(3), 0.3 * a * e[2], {"displacement": 0.3 * a}),
        "cylindrical": (turned(("z", a)), 0.3 * a * e[2], {"displacement": 0.3 * a, "angle": a}),
        "screw": (
            turned(("z", a)), PITCH * a / (2 * math.pi) * e[2], {"displacement": PITCH * a / (2 * math.pi), "angle": a}
        ),
        "universal": (turned(("x", a), ("y", h)), 0 * e[2], {"angle_i": a, "angle_j": h}),
        "constant_velocity": (turned(("x", h)), 0 * e[2], {"angle_x": h, "angle_y": 0.0}),
        "planar": (turned(("z", a)), shift * [1, 1, 0], {"x": shift[0], "y": shift[1], "angle": a}),
        "pin_slot": (turned(("z", a)), shift * [1, 0, 0], {"displacement": shift[0], "angle": a}),
        "point_on_line": (turned(("x", a), ("y", 1.0)), 0.3 * a * e[2], {"displacement": 0.3 * a}),
        "point_in_plane": (turned(("y", a)), shift * [1, 1, 0], {"x": shift[0], "y": shift[1]}),
        "parallel_axes": (turned(("z", a)), shift, {"angle": a}),
        "orientation_lock": (np.eye(3), shift, all_three),
        "revolute_spherical_rod": (turned(("y", h)), rod, {"angle": a}),
        "generic:x,y,z": (turned(("x", a), ("z", a)), 0 * e[2], {}),
        "generic:rx": (turned(("y", a), ("z", h)), shift, all_three | {"angle_y": a, "angle_z": h}),
        "generic:x,ry": (
            turned(("x", a), ("z", h)), shift * [0, 1, 1], {"y": shift[1], "z": shift[2], "angle_x": a, "angle_z": h}
        ),
        "generic:y,z,rz": (turned(("x", a), ("y", h)), shift * [1, 0, 0], {"x": shift[0], "angle_x": a, "angle_y": h}),
        "generic:rx,ry": (turned(("z", a)), shift, all_three | {"angle_z": a}),
        "generic:z,rx,rz": (turned(("y", a)), shift * [1, 1, 0], {"x": shift[0], "y": shift[1], "angle_y": a}),
        "generic:x,ry,rz": (turned(("x", a)), shift * [0, 1, 1], {"y": shift[1], "z": shift[2], "angle_x": a}),
        "generic:rx,ry,rz": (np.eye(3), shift, all_three),
        "generic:x,y,z,rx,ry,rz": (np.eye(3), 0 * e[2], {}),
    }[kind]  # fmt: skip


def has_coordinates(kind: str) -> bool:
    cls = ELEMENTS[kind.split(":")[0]]
    return kind.startswith("generic") or bool(cls.coordinates(cls.__new__(cls), "space"))


MEASURED = [k for k in JOINTS["space"] if has_coordinates(k)]


@pytest.mark.parametrize("kind", MEASURED)
def test_coordinate_measures_what_the_body_was_moved_by(kind):
    """Turn or shift body j about or along the axes by known amounts: the coordinates are these, the rows stay met."""
    model, system, _ = everything("space")
    joint = f"{kind}_gb"
    mi, mj = model.constraints[joint].markers
    for angle in ANGLES:
        B, d, expected = amounts(kind, angle)
        R = mi.start_rotation @ B @ mj.rotation.T
        p = mi.start_position + mi.start_rotation @ d - R @ mj.position
        q = np.asarray(system.q0).copy()
        q[7:] = np.concatenate([p, da.model.quaternion_of(R)])
        found = coordinates(system, joint, q)
        assert set(found) == set(expected)
        for key, value in found.items():
            assert abs(value - expected[key]) < 1e-12, key  # quaternion from a matrix: a few ε more than ROUNDING
        rows = [r for r in rows_of(system, joint) if r < system.m_holonomic]
        assert np.max(np.abs(np.asarray(da.equations.residuals(system, 0.0, q, system.v0)[0])[rows])) < 1e-12


def test_plane_angle_counts_full_turns():
    model, system, spots = everything("plane")
    s = spots["revolute_gb"]
    for angle in (*ANGLES, 7.0, -20.0):
        q = np.asarray(system.q0).copy()
        q[3:5] = s.at + rotation_2(angle) @ (model.bodies["two"].position - s.at)
        q[5] += angle
        assert abs(coordinates(system, "revolute_gb", q)["angle"] - angle) < 1e-13 * 20


# ---- point and axis, or two markers: the same joint --------------------------------------------------------------


def by_markers(model, kind, name, i, j, s):
    """The same joint as `add_joint` makes, through markers placed by hand."""
    plane = model.space == "plane"
    frame = np.column_stack([s.axis, s.across]) if plane else frame_on_axis(s.axis)
    at_i = at_j = s.at
    frame_i = frame_j = frame
    own_i, own_j = ((model.bodies.get(b) or model.ground).rotation for b in (i, j))
    word, _, held = kind.partition(":")
    numbers = {}
    if kind in ("weld", "spherical", "orientation_lock", "angle_lock") or (plane and kind == "revolute"):
        frame_i = frame_j = np.eye(model.dimension)
    elif word == "generic":
        frame_i = frame_j = axes_of(s)
        numbers = {"held": held.split(",")}
    elif kind == "screw":
        numbers = {"pitch": PITCH}
    elif kind == "universal":
        frame_i = frame_j = np.column_stack([s.axis, s.across, np.cross(s.axis, s.across)])
    elif kind == "constant_velocity":
        frame_j = axis_angle(np.cross(s.axis, s.across), BEND) @ frame
    elif kind in ("perpendicular_axes", "constant_angle"):
        frame_j = frame_on_axis(s.across if kind == "perpendicular_axes" else tilted(s, ANGLE))
    elif kind == "planar" or (kind == "pin_slot" and not plane):
        frame_i = frame_j = axes_of(s)
    elif kind == "distance":
        at_j, frame_i, frame_j = s.off, own_i, own_j
    elif kind == "no_slip":
        at_j, numbers = s.off, dict(zip(("radius_i", "radius_j"), RADII, strict=True))
        frame_i, frame_j = own_i if plane else frame, own_j
    elif kind == "revolute_spherical_rod":
        at_j, frame_j = s.at + ROD * s.across, own_j
    elif word == "point_on_curve":
        points = curve_points(s, bool(held))
        at_i, frame_i, frame_j = points[0], np.eye(model.dimension), np.eye(model.dimension)
        numbers = {"points": points - points[0], "closed": bool(held)}
    elif kind == "knife_edge" and not plane:
        frame_i = frame_j = frame_on_axis((0, 0, 1), s.axis)
    elif kind == "rolling_sphere":
        at_i, frame_i, numbers = s.at - RADIUS * s.across, frame_on_axis(s.across), {"radius": RADIUS}
        frame_j = np.eye(3)
    elif kind == "rolling_disc":
        normal = s.across if plane else 0.9 * s.across + 0.3 * s.axis
        normal = normal / np.linalg.norm(normal)
        down = normal if plane else normal - (normal @ s.axis) * s.axis
        at_i = s.at - RADIUS * down / np.linalg.norm(down)
        frame_i = np.column_stack([[normal[1], -normal[0]], normal]) if plane else frame_on_axis(normal)
        frame_j = np.eye(2) if plane else frame
        numbers = {"radius": RADIUS}
    mi = model.marker(f"{name}_mi", i, at=at_i, rotation=frame_i)
    mj = model.marker(f"{name}_mj", j, at=at_j, rotation=frame_j)
    return getattr(model, word)(name, mi, mj, **numbers)


@pytest.mark.parametrize("space", SPACES)
def test_joint_by_point_and_axis_is_the_joint_by_two_markers(space):
    model, system, spots = everything(space)
    other = quiet_model(space)
    for b in model.bodies.values():
        pose = (
            {"angle": math.atan2(b.rotation[1, 0], b.rotation[0, 0])} if space == "plane" else {"rotation": b.rotation}
        )
        other.body(
            b.name, mass=b.mass, inertia=b.inertia if space == "space" else b.inertia[0], position=b.position, **pose
        )
    pairs = {"bb": ("one", "two"), "gb": ("ground", "two"), "bg": ("one", "ground")}
    kinds = [k for k in JOINTS[space] if k not in ("holonomic", "pfaffian")]
    for name, s in spots.items():
        kind, order = name.rsplit("_", 1)
        if kind in kinds:
            by_markers(other, kind, name, *pairs[order], s)
    # a kind's rows are one function of its numbers, marker places among them: these alone need comparing
    mine, theirs = ({n: (f, k) for f in s.families for k, n in enumerate(f.names)} for s in (system, da.build(other)))
    for name in spots:
        if name.rsplit("_", 1)[0] not in kinds:
            continue
        (f, k), (g, m) = mine[name], theirs[name]
        assert f.nature == g.nature and set(f.p) == set(g.p)
        for key in f.p:
            # the frames were made in another order of operations: rounding only
            assert close(g.p[key][m], f.p[key][k], 20 * ROUNDING), (name, key)


# ---- in space by hand: p' = v + ω × r, rows along the axes of marker i -------------------------------------------


class Side:
    """One side of a joint at a state, from plain NumPy: marker point and axes, arms and rates in world axes."""

    def __init__(self, model, marker, q, v):
        names = list(model.bodies)
        if marker.body.is_ground:
            self.R, centre, self.velocity, self.w = np.eye(3), np.zeros(3), np.zeros(3), np.zeros(3)
            self.columns = slice(0, 0)
        else:
            k = names.index(marker.body.name)
            self.R, centre = rotation(q[7 * k + 3 : 7 * k + 7]), q[7 * k : 7 * k + 3]
            self.velocity, self.w = v[6 * k : 6 * k + 3], self.R @ v[6 * k + 3 : 6 * k + 6]
            self.columns = slice(6 * k, 6 * k + 6)
        self.r = self.R @ marker.position
        self.p = centre + self.r
        self.axes = self.R @ marker.rotation
        self.rate = self.velocity + np.cross(self.w, self.r)
        self.bend = np.cross(self.w, np.cross(self.w, self.r))  # p'' with v held

    def put(self, C, on_velocity, on_w):
        """Write a row's coefficients of (velocity, ω in world axes) into C."""
        if self.columns.stop:
            C[self.columns] += np.concatenate([on_velocity, on_w @ self.R])


def point_rows(i: Side, j: Side, n):
    """A_iᵀ d with d = p_j − p_i."""
    d, rate, bend = j.p - i.p, j.rate - i.rate, j.bend - i.bend
    C, Gamma = np.zeros((3, n)), []
    for k in range(3):
        a = i.axes[:, k]
        # a·(v_j + ω_j × r_j − v_i − ω_i × r_i − ω_i × d)
        j.put(C[k], a, np.cross(j.r, a))
        i.put(C[k], -a, -np.cross(i.r + d, a))
        Gamma.append(-a @ (bend - 2 * np.cross(i.w, rate) + np.cross(i.w, np.cross(i.w, d))))
    return C, np.array(Gamma)


def axis_row(i: Side, j: Side, a, z, n):
    """a·z with a fixed in i, z in j: (ω_j − ω_i)·(z × a)."""
    C = np.zeros((1, n))
    j.put(C[0], np.zeros(3), np.cross(z, a))
    i.put(C[0], np.zeros(3), -np.cross(z, a))
    turning = np.cross(np.cross(j.w, z), a) + np.cross(z, np.cross(i.w, a))
    return C, np.array([-(j.w - i.w) @ turning])


def distance_row(i: Side, j: Side, n):
    d, rate, bend = j.p - i.p, j.rate - i.rate, j.bend - i.bend
    length = np.linalg.norm(d)
    e = d / length
    C = np.zeros((1, n))
    j.put(C[0], e, np.cross(j.r, e))
    i.put(C[0], -e, -np.cross(i.r, e))
    return C, np.array([-(e @ bend + (rate @ rate - (e @ rate) ** 2) / length)])


def by_hand(kind, i: Side, j: Side, n):
    if kind == "distance":
        return distance_row(i, j, n)
    parts = [point_rows(i, j, n)]
    if kind == "revolute":
        parts += [axis_row(i, j, i.axes[:, k], j.axes[:, 2], n) for k in (0, 1)]
    if kind == "universal":
        parts.append(axis_row(i, j, i.axes[:, 0], j.axes[:, 1], n))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["spherical", "revolute", "universal", "distance"])
def test_space_joint_is_the_form_derived_by_hand(kind, order):
    model, system, _ = everything("space")
    rows = rows_of(system, f"{kind}_{order}")
    markers = model.constraints[f"{kind}_{order}"].markers
    for x in measured("space"):
        i, j = (Side(model, m, x["q"], x["v"]) for m in markers)
        C, Gamma = by_hand(kind, i, j, system.n)
        assert close(x["C"][rows], C, 10 * ROUNDING)
        assert close(x["Gamma"][rows], Gamma, 100 * ROUNDING)  # sums of products with ω², some tens


@pytest.mark.parametrize("space", SPACES)
def test_a_joint_has_the_coordinates_that_its_rows_measure(space):
    """What a class says of its coordinates is what its rows measure, in name and order; and every joint has rows."""
    model, _, _ = everything(space)
    met = set()
    for c in model.constraints.values():
        assert tuple(c.element.coordinates(space)) == tuple(dict(system_rows(c, space).coordinates)), c
        met.add(type(c.element))
    known = {e for e in ELEMENTS.values() if issubclass(e, AbstractJoint) and space in e.spaces}
    assert {e.type for e in known - met} <= {"gear", "belt", "rack_and_pinion", "gear_ratio", "contact"}
