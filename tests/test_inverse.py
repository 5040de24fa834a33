"""Inverse dynamics of whole motions: forward again returns the motion; legs of a Stewart platform by virtual work."""

from __future__ import annotations

import json

import _helpers_linkages
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_linkages import cranks, four_bar

import dalembert as da

G = 9.81


def arm(space: str = "plane") -> da.Model:
    """Two links on hinges; the forearm's hinge is called by an odd name."""
    plane = space == "plane"
    model = da.Model("arm", space=space, gravity=(0, -G) if plane else (0, -G, 0))
    pad, z = (lambda *x: x) if plane else (lambda *x: (*x, 0.0)), {} if plane else {"axis": (0, 0, 1)}
    inertia = 0.09 if plane else (0.01, 0.09, 0.09)
    upper = model.body("upper", mass=2.0, inertia=inertia, position=pad(0.4, 0.0))
    fore = model.body("fore", mass=1.0, inertia=inertia, position=pad(1.1, 0.0))
    model.revolute("hip", model.ground, upper, at=pad(0, 0), **z)
    model.revolute("el bow", upper, fore, at=pad(0.8, 0), **z)
    return model


def boom() -> da.Model:
    """A boom with a motor at its hinge and a cylinder below it: one freedom, actuators of force and of torque."""
    model = da.Model("boom", gravity=(0, -G))
    bar = model.body("boom", mass=10.0, inertia=3.0, position=(1.0, 0.0))
    pin = model.revolute("pin", model.ground, bar, at=(0, 0))
    model.motor("motor", pin, torque=0.0, gear=5.0)
    model.spring_damper("cylinder", model.ground, bar, at_i=(0.2, -1.0), at_j=(0.8, 0.0), damping=3.0)
    return model


def rotor() -> da.Model:
    """A shaft that a driver turns, and a pendulum on it: the driver stays, or is the actuator."""
    return _helpers_linkages.rotor("turn")


def ball() -> da.Model:
    """A ball that rolls on a turning plate, pushed by three inputs: rows on velocities."""
    model = da.mechanism("rolling-sphere")
    for axis, unit in (("x", (1, 0)), ("y", (0, 1))):
        u = f"push_{axis}"
        model.input(u, unit="N")
        model.force(axis, "ball", (u if unit[0] else 0, u if unit[1] else 0, 0))
    model.input("spin", unit="N m")
    model.torque("turn", "ball", (0, 0, "spin"))
    return model


def circle() -> da.FunctionSystem:
    """A point on a circle by its own functions, pushed along x by an input."""
    return da.FunctionSystem(
        lambda t, q, p: 2.0 * jnp.eye(2),
        lambda t, q, v, p: jnp.array([p["u"], -2.0 * G]),
        position=lambda t, q, p: jnp.array([q @ q - 1.0]),
        q0=[0.0, -1.0],
        joints={"rod": 1},
        controls=[da.model.InputEntry("u", unit="N")],
        name="circle",
    )


def ball_run() -> da.simulation.Solution:
    laws = {"push_x": "0.5*sin(3*t)", "push_y": "0.2", "spin": "0.1*cos(2*t)"}
    return da.simulate(ball(), 0.5, samples=41, rtol=1e-11, inputs=laws, progress=False)


def driven_run() -> da.simulation.Solution:
    return da.kinematics(da.mechanism("slider-crank"), 0.2, samples=101)


ROUND = {
    "arm": (arm, {"hip": "0.4*sin(2*t)", "el bow": "0.3*t^2"}, ["hip", "el bow"], {}),
    "arm-in-space": (lambda: da.build(arm("space"), coordinates="joint"), {"hip": "0.4*sin(2*t)", "el bow": "0.3*t"},
                     ["hip.angle", "el bow.angle"], {}),
    "boom": (boom, {"pin": "0.3*sin(2*t)"}, ["motor", "cylinder"], {}),
    "boom-by-limits": (boom, {"pin": "0.3*sin(2*t)"}, ["motor", "cylinder"],
                       {"limits": {"motor": 30, "cylinder": 200}}),
    "cranks": (cranks, {"bar.x": "1 + 0.3*sin(2*t)"}, ["top0", "top1", "top2"], {}),
    "cranks-by-limits": (cranks, {"top1": "0.3*sin(2*t)"}, ["top0", "top1", "top2"],
                         {"limits": {"top0.angle": 1.0, "top1.angle": 10.0, "top2.angle": 3.0}}),
    "rotor": (rotor, {"hinge": "0.3*sin(3*t)"}, ["hinge"], {}),
    "rotor-both": (rotor, {"hinge": "0.3*sin(3*t)", "axle": "2*t"}, ["hinge", "turn"], {}),
    "ball": (ball, ball_run, ["push_x", "push_y", "spin"], {}),
    "circle": (circle, {"q[0]": "0.4*sin(2*t)"}, ["u"], {}),
    "slider-crank": (lambda: da.mechanism("slider-crank"), driven_run, None, {}),
    "four-bar": (lambda: da.mechanism("four-bar"), {"A": "0.5*sin(t)"}, ["A"], {}),
    "door": (lambda: da.mechanism("door-two-hinges"), {"top": "0.5*sin(t)"}, ["top"], {}),
}  # fmt: skip
"""Machine, motion, actuators and options: plane and space, both coordinates, too many actuators under two rules."""
RARELY = ("arm-in-space", "rotor")  # more than 3 s each


def solved(name: str, **more) -> da.analysis.InverseDynamics:
    make, motion, actuators, options = ROUND[name]
    motion = motion() if callable(motion) else motion
    times = {} if isinstance(motion, da.simulation.Solution) else {"t_end": 0.5, "samples": 41}
    return da.inverse_dynamics(make(), motion, actuators=actuators, **times, **options, **more)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.thorough if n in RARELY else ()) for n in ROUND])
def test_forward_again_returns_the_motion(name):
    """To 1e-8: the march errs by about 1e-10, the splines of the efforts by less."""
    found = solved(name)
    again = found.forward()
    assert found.followed
    np.testing.assert_allclose(again.q, found.q, atol=1e-8)
    np.testing.assert_allclose(again.v, found.v, atol=1e-8)
    # the same by hand, from the model with its inputs
    assert set(found.as_inputs()) <= {x.name for x in found.system.control.sources}


# ---- closed forms ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_the_boom():
    """The boom under its two rules: angle 0.3 sin 2t."""
    return solved("boom"), solved("boom-by-limits")


def boom_by_hand(t):
    """What the hinge needs about its axis, and the arm of the cylinder, from the law of cosines."""
    a, rate, second = 0.3 * np.sin(2 * t), 0.6 * np.cos(2 * t), -1.2 * np.sin(2 * t)
    foot = np.array([0.2, -1.0])
    head = 0.8 * np.stack([np.cos(a), np.sin(a)], axis=1)
    along = head - foot
    length = np.linalg.norm(along, axis=1)
    lever = (-0.8 * np.sin(a) * along[:, 0] + 0.8 * np.cos(a) * along[:, 1]) / length  # dl/da
    damper = 3.0 * (lever * rate) * lever
    return (3.0 + 10.0) * second + 10.0 * G * np.cos(a) + damper, lever, rate


def test_efforts_of_too_many_actuators_are_the_least(on_the_boom):
    """5 τ − l' p = needed, with the least τ²/s² + p²/r²: the multiplier's closed form; s is the size, or the limits."""
    for found, sizes in zip(on_the_boom, ((None, 1.0), (30.0, 200.0)), strict=True):
        needed, lever, rate = boom_by_hand(found.t)
        s, r = sizes
        s = float(found.system.bodies.size) if s is None else s
        gains = np.stack([np.full(len(needed), 5.0), -lever])
        weights = np.array([s**2, r**2])[:, None]
        expected = weights * gains * needed / np.sum(weights * gains**2, axis=0)
        np.testing.assert_allclose(found.effort.T, expected, rtol=1e-10, atol=1e-10)
        assert not any(found.unique.values()) and found.names == ("motor", "cylinder")
        assert found.units == {"motor": "N m", "cylinder": "N"}
        np.testing.assert_allclose(found.power[:, 0], expected[0] * 5.0 * rate, atol=1e-9)
    plain, limited = on_the_boom
    assert "minimum norm" in plain.dataset.attrs["rule"] and "limits" in limited.rule
    assert np.max(np.abs(plain.effort - limited.effort)) > 1.0
    # the work of both is what the machine's energy and the damper take, whatever the rule
    assert sum(plain.energy.values()) == pytest.approx(sum(limited.energy.values()), rel=1e-9)


def test_peak_mean_square_and_work_by_quadrature_of_the_closed_form():
    """Of the boom's motor alone: by Gauss's quadrature of what its hinge needs; the splines through 201 efforts err by
    h⁴ of a part in 1e-8, that of the given work by where the power changes its sign."""
    found = da.inverse_dynamics(boom(), {"pin": "0.3*sin(2*t)"}, actuators=["motor"], t_end=2.5, samples=201)

    nodes, weights = np.polynomial.legendre.leggauss(20)
    ends = np.linspace(0.0, 2.5, 501)
    t = (ends[:-1, None] + 0.5 * (1 + nodes) * np.diff(ends)[:, None]).ravel()

    def over(values):
        return float(np.sum(values.reshape(500, 20) @ weights) * 0.5 * 2.5 / 500)

    needed, _, rate = boom_by_hand(t)
    assert found.peak["motor"] == pytest.approx(np.max(np.abs(boom_by_hand(found.t)[0])) / 5, rel=1e-12)
    assert found.rms["motor"] == pytest.approx(np.sqrt(over((needed / 5) ** 2) / 2.5), rel=1e-8)
    assert found.energy["motor"] == pytest.approx(over(needed * rate), rel=1e-7)
    assert found.energy_given["motor"] == pytest.approx(over(np.maximum(needed * rate, 0.0)), rel=1e-4)
    assert found.energy["motor"] < -1 < 1 < found.energy_given["motor"]  # it takes back more than it gives


def test_one_effort_is_unique_beside_others_that_are_not():
    """Two motors on one hinge of the arm, one on the other: only the last is unique."""
    model = arm()
    model.input("u", unit="N m")
    model.torque("more", "upper", "u")
    found = da.inverse_dynamics(
        model, {"hip": "0.3*t", "el bow": "0.2*t"}, actuators=["hip", "u", "el bow"], t_end=0.3, samples=41
    )
    assert found.unique == {"hip.angle": False, "u": False, "el bow.angle": True}
    np.testing.assert_allclose(found["hip.angle"], found["u"], atol=1e-10)  # the least: half each


def test_what_too_few_actuators_cannot_follow():
    """A cart and a pendulum that is asked to stay level while the cart rests: its own fall is missing."""
    model = da.Model("cart", gravity=(0, -G))
    cart = model.body("cart", mass=2.0, inertia=1.0)
    rod = model.body("rod", mass=1.0, inertia=1.0 / 12, position=(0.5, 0.0))
    model.prismatic("rail", model.ground, cart, at=(0, 0), axis=(1, 0))
    model.revolute("pin", cart, rod, at=(0, 0))
    asked = {"rail": "0", "pin": "0"}
    with pytest.warns(da.errors.ActuationWarning, match="1 of 2 freedoms.*'pin.angle'"):
        found = da.inverse_dynamics(model, asked, actuators=["rail"], t_end=0.2, samples=41)
    # level, the rail's force does not act on the rod's turn: it falls with 3 g/2l, l = 1
    assert not found.followed and list(found.missing_by_coordinate) == ["pin.angle"]
    np.testing.assert_allclose(found.missing_by_coordinate["pin.angle"], 1.5 * G, rtol=1e-12)
    np.testing.assert_allclose(found["rail.displacement"], 0.0, atol=1e-12)
    data = json.loads(json.dumps(found.as_dict()))
    assert data["missing"]["pin.angle"][0] == pytest.approx(1.5 * G) and not data["followed"]
    assert "1 of 2 freedoms" in str(found)


# ---- a Stewart platform by virtual work -----------------------------------------------------------------------------


def test_stewart_legs_against_virtual_work():
    """Legs' forces of a platform that moves and tilts, against d'Alembert's principle in plain NumPy: places of all 13
    bodies in closed form, accelerations and virtual displacements by differences (their error is about 1e-8)."""
    model = da.mechanism("stewart-platform")
    angle = "0.2*sin(1.5*t)"
    asked = {
        "platform.position": ["0.1*sin(2*t)", "0.05*t", "1.2 + 0.08*sin(3*t)"],
        "platform.rotation": [f"cos(0.5*{angle})", f"0.6*sin(0.5*{angle})", f"0.8*sin(0.5*{angle})", "0"],
    }
    legs = [f"P{k + 1}.displacement" for k in range(6)]
    found = da.inverse_dynamics(model, asked, actuators=legs, t_end=1.0, samples=[0.0, 0.2, 0.7, 1.0])
    assert found.followed and all(found.unique.values())
    expected = [legs_by_virtual_work(model, t) for t in found.t]
    np.testing.assert_allclose(found.effort, expected, rtol=1e-6, atol=1e-5)


def legs_by_virtual_work(model: da.Model, t: float) -> np.ndarray:
    """The forces of the legs at an instant: Σ m (a − g)·δr + (dL/dt)·δφ = Σ F δl for six virtual displacements."""
    down, up = (
        np.deg2rad([-15.0, 15.0, 105.0, 135.0, 225.0, 255.0]),
        np.deg2rad([-45.0, 45.0, 75.0, 165.0, 195.0, 285.0]),
    )
    feet = np.stack([np.cos(down), np.sin(down), 0 * down], axis=1)
    heads = np.stack([0.6 * np.cos(up), 0.6 * np.sin(up), 0 * up], axis=1)
    start = heads + [0, 0, 1.2] - feet
    first = start / np.linalg.norm(start, axis=1, keepdims=True)
    across = [da.model.frame_on_axis(e)[:, 0] for e in first]
    bodies = [model.bodies[n] for n in ("platform", *(f"{w}{k + 1}" for k in range(6) for w in ("cylinder", "piston")))]

    def turned(axis, a):
        K = np.cross(np.eye(3), axis)
        return np.eye(3) + np.sin(a) * K + (1 - np.cos(a)) * K @ K

    def places(t, x=(0.0,) * 6):
        """Positions and rotations of all bodies, and the legs' lengths, with a virtual displacement x."""
        x = np.asarray(x)
        size = np.linalg.norm(x[3:])
        extra = turned(x[3:] / size, size) if size else np.eye(3)
        p = np.array([0.1 * np.sin(2 * t), 0.05 * t, 1.2 + 0.08 * np.sin(3 * t)]) + x[:3]
        R = extra @ turned([0.6, 0.8, 0.0], 0.2 * np.sin(1.5 * t))
        out, lengths = [(p, R)], []
        for k in range(6):
            line = p + R @ heads[k] - feet[k]
            length = np.linalg.norm(line)
            e = line / length
            # Hooke's joint: its second axis is across the first and across the leg
            frames = []
            for now in (first[k], e):
                second = np.cross(now, across[k])
                second /= np.linalg.norm(second)
                frames.append(np.stack([second, np.cross(now, second), now], axis=1))
            turn, half = frames[1] @ frames[0].T, np.linalg.norm(start[k]) / 4
            out.append((feet[k] + half * e, turn @ bodies[1 + 2 * k].rotation))
            out.append((p + R @ heads[k] - half * e, turn @ bodies[2 + 2 * k].rotation))
            lengths.append(length)
        return out, np.array(lengths)

    def rotation_between(A, B):
        """The small rotation vector from A to B."""
        S = B @ A.T
        return 0.5 * np.array([S[2, 1] - S[1, 2], S[0, 2] - S[2, 0], S[1, 0] - S[0, 1]])

    h = 2e-3
    nodes = {k: places(t + k * h)[0] for k in range(-4, 5)}

    def d4(values):  # fourth-order first derivative
        return (values[-2] - 8 * values[-1] + 8 * values[1] - values[2]) / (12 * h)

    inertia_force = []
    for b, body in enumerate(bodies):
        x = {k: nodes[k][b][0] for k in nodes}
        a = (-x[-2] + 16 * x[-1] - 30 * x[0] + 16 * x[1] - x[2]) / (12 * h * h)
        momenta = {}
        for k in range(-2, 3):
            R = {j: nodes[k + j][b][1] for j in range(-2, 3)}
            S = d4(R) @ R[0].T
            w = np.array([S[2, 1], S[0, 2], S[1, 0]])
            momenta[k] = R[0] @ np.asarray(body.inertia) @ R[0].T @ w
        inertia_force.append((body.mass * (a - [0, 0, -G]), d4(momenta)))
    work, change, e = np.zeros(6), np.zeros((6, 6)), 1e-5
    for i in range(6):
        plus, minus = (places(t, s * e * np.eye(6)[i]) for s in (1, -1))
        change[i] = (plus[1] - minus[1]) / (2 * e)
        for (f, m), (p1, R1), (p0, R0) in zip(inertia_force, plus[0], minus[0], strict=True):
            work[i] += f @ (p1 - p0) / (2 * e) + m @ rotation_between(R0, R1) / (2 * e)
    return np.linalg.solve(change, work)


# ---- motions that are given in other ways ---------------------------------------------------------------------------


def test_a_motion_may_be_a_run_a_dataset_or_arrays(tmp_path):
    """One motion of the cranks, given as formulas, arrays with and without rates, and a dataset: the same efforts. A
    spline of degree five through times h = 0.0125 apart errs by about h⁴ in v̇."""
    exact = da.inverse_dynamics(cranks(), {"top0": "0.3*sin(2*t)"}, actuators=["top1"], t_end=0.5, samples=41)
    system = da.build(cranks())
    size = max(exact.peak.values())
    full = da.inverse_dynamics(system, (exact.t, exact.q, exact.v, exact.vdot), actuators=["top1"])
    np.testing.assert_allclose(full.effort, exact.effort, atol=1e-9 * size)
    for recorded in ((exact.t, exact.q), (exact.t, exact.q, exact.v)):
        found = da.inverse_dynamics(system, recorded, actuators=["top1"])
        np.testing.assert_allclose(found.effort[3:-3], exact.effort[3:-3], atol=1e-6 * size)
        np.testing.assert_allclose(found.effort, exact.effort, atol=1e-3 * size)  # at the ends of a spline
        assert dict(found.moved)["position"] < 1e-12
    run = exact.forward()
    for motion in (run, run.dataset):
        found = da.inverse_dynamics(cranks(), motion, actuators=["top1"])
        # a run without its inputs' law beside: the accelerations are its own
        np.testing.assert_allclose(found.effort, exact.effort, atol=1e-7 * size)
    path = exact.to_netcdf(tmp_path / "efforts.nc")
    assert da.io.read_netcdf(path)["effort"].shape == (41, 1)
    figure = exact.plot(tmp_path / "efforts.png")
    assert len(figure.axes) == 2 and (tmp_path / "efforts.png").stat().st_size > 1000
    # off the constraints: refused with the joint
    bent = np.array(exact.q)
    bent[20, 0] += 0.01
    with pytest.raises(da.errors.DalembertError, match="positions miss the rows of '(foot|top)"):
        da.inverse_dynamics(system, (exact.t, bent), actuators=["top1"])
    with pytest.raises(da.errors.DalembertError, match="not the rate of q"):
        da.inverse_dynamics(system, (exact.t, exact.q, 2.0 * exact.v), actuators=["top1"])


def test_rolling_that_is_recorded_as_sliding_is_refused():
    """A knife edge that moves across itself: positions alone are free, velocities are not."""
    model = da.mechanism("chaplygin-sleigh")
    system = da.build(model)
    t = np.linspace(0.0, 1.0, 21)
    q = np.tile(np.asarray(system.q0), (21, 1))
    along = np.asarray(da.stabilise.consistent_state(system).v)
    across = np.array([-along[1], along[0]]) if np.hypot(*along[:2]) else np.array([0.0, 1.0])
    q[:, :2] += np.outer(t, across)
    with pytest.raises(da.errors.DalembertError, match="velocities miss the rows of"):
        da.inverse_dynamics(model, (t, q), actuators=[])


# ---- derivatives ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def driven():
    """The cranks with a driver, and their motion."""
    model = cranks()
    model.driver("drive", "top0", "0.3*sin(2*t)")
    base = da.build(model)
    return base, da.kinematics(base, 0.5, samples=41)


def test_derivatives_by_named_parameters(driven):
    """Efforts picked by limits, by a mass of the machine, under jit and jvp, against differences."""
    base, motion = driven
    names = ["top1", "top2", "drive"]
    limits = {"top1.angle": 1.0, "top2.angle": 3.0, "drive": 2.0}

    def efforts(mass):
        system = base.replace({"bar.mass": mass})
        found = da.inverse_dynamics(system, (motion.t, motion.q, motion.v, motion.vdot), actuators=names, limits=limits)
        return found.effort

    value, slope = jax.jit(lambda m: jax.jvp(efforts, (m,), (jnp.ones(()),)))(jnp.asarray(2.0))
    np.testing.assert_allclose(value, efforts(2.0), atol=1e-9)
    e = 1e-3  # efforts are linear in a mass
    np.testing.assert_allclose(slope, (efforts(2.0 + e) - efforts(2.0 - e)) / (2 * e), rtol=1e-6, atol=1e-6)
    assert np.max(np.abs(slope)) > 0.1


# ---- at one instant, and held ---------------------------------------------------------------------------------------


def test_one_instant_by_names():
    """Names at one instant are the same as columns."""
    model = arm()
    system = da.build(model)
    state = da.stabilise.consistent_state(system)
    found = da.inverse_dynamics(model, state, np.zeros(6), actuators=["hip", "el bow"])
    # held level: the forearm's weight on its arm of 0.3 m; both on the hip
    np.testing.assert_allclose(found.effort, [G * (2.0 * 0.4 + 1.1), G * 0.3], rtol=1e-12)


@pytest.mark.parametrize("coordinates", [pytest.param("absolute", marks=pytest.mark.thorough), "joint"])
def test_gravity_compensation_holds_any_pose(coordinates):
    """The arm stays where it is put, at poses other than the model's, with a spring besides; pushed, it coasts."""
    model = arm()
    model.joint_spring("spring", "el bow", stiffness=4.0)
    held = da.analysis.gravity_compensation(model, ["hip", "el bow"])
    system = da.build(held, coordinates=coordinates)
    pose = da.solve_pose(system, {"hip": 0.7, "el bow": -1.1})
    run = da.simulate(system, 0.5, pose.state, samples=3, progress=False)
    assert np.max(np.abs(run.v)) < 1e-9
    tau = run.measurements["gravity_compensation_efforts.1"].values
    np.testing.assert_allclose(tau, G * 0.3 * np.cos(0.7 - 1.1) + 4.0 * -1.1, rtol=1e-9)
    # heavier than the controller knows: it falls
    heavy = da.simulate(system.replace({"fore.mass": 1.5}), 0.1, pose.state, samples=3, progress=False)
    assert np.max(np.abs(heavy.v)) > 0.1


@pytest.mark.parametrize("coordinates", [pytest.param("absolute", marks=pytest.mark.thorough), "joint"])
def test_gravity_compensation_of_a_closed_loop(coordinates):
    """A four-bar held at its crank: it stays, and the effort is the slope of its weights' energy over closed poses."""
    model = four_bar()
    held = da.analysis.gravity_compensation(model, ["O"])
    system = da.build(held, coordinates=coordinates)
    run = da.simulate(system, 0.3, da.solve_pose(system, {"O": 0.7}).state, samples=3, progress=False)
    assert np.max(np.abs(run.v)) < 1e-9
    plain, h = da.build(model), 1e-3
    heights = [float(plain.potential(0.0, da.solve_pose(plain, {"O": 0.7 + k * h}).q)) for k in (-2, -1, 1, 2)]
    slope = (8 * (heights[2] - heights[1]) - (heights[3] - heights[0])) / (12 * h)
    np.testing.assert_allclose(run.measurements["gravity_compensation_efforts"], slope, rtol=1e-8)


# ---- wrong uses -----------------------------------------------------------------------------------------------------


BOTH = {"hip": "0.1*t", "el bow": "0.1*t"}


def ask(model, motion=BOTH, actuators=("hip", "el bow"), **options):
    return da.inverse_dynamics(model, motion, actuators=actuators, **({"t_end": 0.2, "samples": 41} | options))


def rubbing(what: str, *args, **options) -> da.Model:
    """The arm with friction at its hip."""
    model = arm()
    getattr(model, what)("rub", "hip", *args, **options)
    return model


WRONG = {
    "no such actuator": (lambda: ask(arm(), actuators=["hipp"]), "no actuator 'hipp'.*Did you mean 'hip"),
    "given twice": (lambda: ask(arm(), actuators=["hip", "hip.angle"]), "'hip.angle' is given twice"),
    "a joint without a number": (
        lambda: ask(da.mechanism("stewart-platform"), actuators=["S1"]), "'S1'.*no effort of one number"),
    "several coordinates": (lambda: ask(da.mechanism("stewart-platform"), actuators=["U1"]), "several coordinates"),
    "no end": (lambda: ask(arm(), t_end=None), "needs its end"),
    "too few formulas": (lambda: ask(arm(), {"hip": "0.1*t"}), "leave 'arm' 1 freedom.*name also 'el bow.angle'"),
    "no such target": (lambda: ask(arm(), {"knee": "t"}), "no target 'knee'"),
    "a formula that is none": (lambda: ask(arm(), {"hip": "0.1*x", "el bow": "t"}), "'hip.angle'.*'x'"),
    "out of reach": (
        lambda: ask(arm(), {"hip": "0.3", "fore.y": "0.2 + 0.3*t"}, t_end=2.0), "leaves the reach of 'arm' at t = 1.1"),
    "too many formulas": (
        lambda: ask(cranks(), {"top0": "0.1*t", "top1": "0.2*t"}, ["top0"]), "leaves the reach|not possible"),
    "no freedom": (
        lambda: ask(rotor(), {"hinge": "0.1*t"}, ["hinge"], release=["axle"]), "release: 'axle' is no driver"),
    "what a driver prescribes": (
        lambda: ask(rotor(), {"axle": "t", "hinge": "t"}, ["hinge"]), "what driver 'turn' prescribes"),
    "a state without accelerations": (
        lambda: da.inverse_dynamics(arm(), da.systems.State(np.zeros(6), np.zeros(6)), actuators=["hip"]),
        "give a state and vdot"),
    "limits of others": (lambda: ask(arm(), limits={"hip": 1.0}), "no actuator here"),
    "a limit is missing": (lambda: ask(arm(), limits={"hip.angle": 1.0}), "no number for the actuator 'el bow.angle'"),
    "nothing named": (lambda: ask(arm(), actuators=None), "Name the actuators of 'arm'"),
    "own equations": (lambda: ask(circle(), {"q[0]": "0"}, ["w"]), "has no actuator 'w'.*inputs are u"),
    "a brake": (lambda: ask(rubbing("brake", 3.0)), "'arm' has friction that sticks or slips, 'rub'.*remove"),
    "friction by load": (
        lambda: ask(rubbing("bearing_friction", coulomb=0.1, radius=0.1)), "by which friction 'rub' of 'arm' rubs"),
    "two times": (
        lambda: da.inverse_dynamics(arm(), ([0.0, 1.0], np.tile(da.build(arm()).q0, (2, 1))), actuators=["hip"]),
        "needs at least 6 times"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses_get_a_sentence(name):
    use, words = WRONG[name]
    with pytest.raises(da.errors.DalembertError, match=words):
        use()


def test_machines_without_freedom_and_motions_of_others(driven):
    """Drivers that leave nothing free, a motion of another machine, an input that is no effort."""
    model, motion = driven
    with pytest.raises(da.errors.DalembertError, match="no freedom while 'drive' drives it.*release="):
        da.inverse_dynamics(model, motion, actuators=["top1"])
    found = da.inverse_dynamics(model, motion, actuators=["top1"], release=True)
    by_driver = da.inverse_dynamics(model, motion)
    assert found.followed and by_driver.names == ("drive",)
    # all cranks are parallel: the same torque on any of them
    np.testing.assert_allclose(found.effort, by_driver.effort, atol=1e-9)
    with pytest.raises(da.errors.DalembertError, match="is one of 'cranks', whose bodies"):
        da.inverse_dynamics(arm(), motion, actuators=["hip"])
    follows = arm()
    follows.input("u")
    follows.driver("motor", "hip", "u")
    with pytest.raises(da.errors.DalembertError, match="Input 'u'.*no effort"):
        ask(follows, {"el bow": "0.1*t"}, ["u"])
    bent = arm()
    bent.input("u")
    bent.joint_force("push", "hip", "u^2")
    with pytest.raises(da.errors.DalembertError, match="not in proportion to input 'u'"):
        ask(bent, actuators=["u", "el bow"])
    with pytest.raises(da.errors.DalembertError, match="cannot hold 'arm' at its start: they move 1 of 2"):
        da.analysis.gravity_compensation(arm(), ["hip"])
