"""Every question of every kind of system: an answer that is finite, or a sentence that refuses it by name.

Small machines that together have all that systems can have: plane and space, absolute and joint coordinates, a person's
own functions, redundant and nonholonomic rows, drivers, friction by a joint's load, friction that sticks, contacts with
and without friction, rigid stops. The answers themselves are checked
elsewhere; where a machine is here in both coordinates they must agree.
"""

from __future__ import annotations

import functools

import _helpers_linkages
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

G = 9.81


def cranks() -> da.Model:
    """Three hanging parallel cranks under one coupler: one redundant row; at rest in equilibrium."""
    model = _helpers_linkages.cranks()
    model.torque("turn", "crank0", model.input("u"))
    model.measure("load", "reaction", "top0")
    model.measure("tip", "point", "bar", at=(2.5, -1), seen_from="crank0")
    model.measure("twice", "formula", "2*load.Fy + tip.ax")
    return model


def rotor() -> da.Model:
    """A rotor in space that a driver turns, and a pendulum that hangs on its axis: steady motion."""
    model = _helpers_linkages.rotor("motor")
    model.joint_force("push", "hinge", model.input("u"))
    model.measure("effort", "effort", "motor")
    model.measure("power", "power", "motor")
    model.measure("angle", "angle", model.ground, "disc", axis=(0, 0, 1))
    return model


def ball() -> da.Model:
    """A ball that rolls on a turning plate: nonholonomic, a free body."""
    model = da.mechanism("rolling-sphere")
    model.force("wind", "ball", (model.input("u"), 0, 0))
    model.measure("seen", "point", "ball", seen_from="plate")
    model.measure("energy", "energy", "ball")
    return model


def rubbing() -> da.Model:
    """A pendulum at rest whose pin rubs by its load."""
    model = da.Model("rubbing", gravity=(0, -G))
    bob = model.body("bob", mass=2.0, inertia=0.3, position=(0.0, -0.7))
    model.revolute("pin", model.ground, bob, at=(0, 0))
    model.bearing_friction("rubs", "pin", coulomb=0.2, radius=0.05, transition_speed=0.1)
    model.torque("turn", bob, model.input("u"))
    model.measure("load", "reaction", "pin", component="Fy")
    model.measure("swing", "coordinate", "pin")
    return model


def sticking() -> da.Model:
    """A pendulum at rest, held by a brake: friction that sticks."""
    model = da.Model("sticking", gravity=(0, -G))
    bob = model.body("bob", mass=2.0, inertia=0.3, position=(0.0, -0.7))
    model.revolute("pin", model.ground, bob, at=(0, 0))
    model.brake("brake", "pin", 0.5)
    model.torque("turn", bob, model.input("u"))
    model.measure("load", "reaction", "pin", component="Fy")
    return model


def standing() -> da.Model:
    """A block on two one-sided feet without friction, held by a spring: closed contacts."""
    model = da.Model("standing", gravity=(0, -G))
    block = model.body("block", mass=2.0, inertia=0.3, position=(0.0, 0.5))
    for k, x in enumerate((-0.5, 0.5)):
        model.contact(f"foot{k}", model.ground, block, at=(x, 0), point=(0, 0), normal=(0, 1))
    model.spring_damper("spring", model.ground, block, at_i=(-2, 0.5), stiffness=50.0, length=2.0)
    model.force("push", block, (model.input("u"), 0))
    model.measure("load", "reaction", "foot0", component="Fy")
    return model


def sliding() -> da.Model:
    """A block that slides on two feet with friction: contacts that slip."""
    model = da.Model("sliding", gravity=(1.0, -G))
    block = model.body("block", mass=2.0, inertia=0.3, position=(0.0, 0.5), velocity=(1.0, 0.0))
    for k, x in enumerate((-0.5, 0.5)):
        model.contact(f"foot{k}", model.ground, block, at=(x, 0), point=(0, 0), normal=(0, 1), friction=0.3)
    model.force("push", block, (model.input("u"), 0))
    model.measure("load", "reaction", "foot0", component="Fy")
    return model


def stopped() -> da.Model:
    """A pendulum that lies on the stop of its joint: a limit that bears."""
    model = da.Model("stopped", gravity=(0, -G))
    bob = model.body("bob", mass=2.0, inertia=0.3, position=(0.7, 0.0))
    model.revolute("pin", model.ground, bob, at=(0, 0))
    model.limit("end", "pin", lower=0.0, restitution=0.0)
    model.torque("turn", bob, model.input("u"))
    model.measure("load", "reaction", "pin", component="Fy")
    return model


def functions(*more: da.model.Element) -> da.FunctionSystem:
    """A point on a circle by its own functions, hanging."""
    return da.FunctionSystem(
        lambda t, q, p: p["mass"] * jnp.eye(2),
        lambda t, q, v, p: jnp.array([p["u"], -p["mass"] * G]),
        position=lambda t, q, p: jnp.array([q @ q - 1.0]),
        potential=lambda t, q, p: p["mass"] * G * q[1],
        parameters={"mass": 2.0},
        q0=[0.0, -1.0],
        joints={"rod": 1},
        controls=[da.model.InputEntry("u"), OWN, da.model.MeasuredFormula("half", "0.5*own"), *more],
        name="functions",
    )


OWN = da.model.MeasuredFunction("own", lambda t, q, v, vdot, r: q[0] + v[0] + vdot[1] + r[1])
STEADY = da.model.Controller("hold", states={"z": 0.1}, rates={"z": "-z"}, outputs={"u": "z"})
"""A controller of the input that all machines have."""


MACHINES = {"cranks": cranks, "rotor": rotor, "ball": ball, "rubbing": rubbing}
SYSTEMS = [*((name, c) for name in MACHINES for c in ("absolute", "joint")), ("functions", ""), ("sticking", "joint")]
SYSTEMS += [("standing", "absolute"), ("standing", "joint"), ("sliding", "absolute"), ("stopped", "joint")]
MACHINES |= {"sticking": sticking, "standing": standing, "sliding": sliding, "stopped": stopped}
MASS = {
    "cranks": "bar.mass",
    "rotor": "bob.mass",
    "ball": "ball.mass",
    "rubbing": "bob.mass",
    "sticking": "bob.mass",
    "standing": "block.mass",
    "sliding": "block.mass",
    "stopped": "bob.mass",
    "functions": "mass",
}
"""A parameter of each machine."""
SEEN = {
    "cranks": "tip.x",
    "rotor": "angle",
    "ball": "seen.x",
    "rubbing": "swing",
    "sticking": "load",
    "standing": "load",
    "sliding": "load",
    "stopped": "load",
    "functions": "own",
}
"""A measured number of each machine."""


@functools.cache
def system_of(name: str, coordinates: str):
    return functions() if name == "functions" else da.build(MACHINES[name](), coordinates=coordinates)


@functools.cache
def motion_of(name: str, coordinates: str) -> da.simulation.Solution:
    return da.simulate(system_of(name, coordinates), 0.05, samples=3, progress=False)


def joint_of(system) -> str:
    return system.machine.owners[0].name


def mass_of(name, coordinates) -> tuple[str, float]:
    return MASS[name], float(system_of(name, coordinates).parameters()[MASS[name]])


# each question: what is asked, and the numbers of the answer


def ask_check(name, coordinates, tmp_path):
    found = da.check(system_of(name, coordinates))
    assert str(found) and found.summary()
    # what slips is not looked at as it is, and that is said
    assert any("'foot0', 'foot1' slips at these velocities" in x for x in found.remarks) == (name == "sliding")
    return [found.mobility, found.redundancy]


def ask_simulate(name, coordinates, tmp_path):
    solution = motion_of(name, coordinates)
    assert solution.status is da.simulation.Status.done
    return [solution.energy_drift, *solution.violation.values()]


def ask_reactions(name, coordinates, tmp_path):
    solution = motion_of(name, coordinates)
    reaction = solution.reactions(joint_of(solution.system))
    return [reaction["force"].values, reaction["torque"].values]


def ask_measurements(name, coordinates, tmp_path):
    solution = motion_of(name, coordinates)
    found = solution.measurements
    assert all(isinstance(x.attrs["units"], str) for x in found.values())
    (figure,) = [solution.plot("measurements")]
    rules = {str(r) for r in solution.dataset["channel_rule"].values}
    # what the model leaves open carries its rule, and says that it is not unique
    assert (rules == {"unique"}) == (name != "cranks")
    if name == "cranks":
        assert not found["load.Fy"].attrs["unique"] and found["tip.x"].attrs["unique"]
        assert found["twice"].attrs["rule"] == solution.rule.describe(solution.machine)
    return [*found.values(), len(figure.axes)]


def ask_inputs(name, coordinates, tmp_path):
    solution = da.simulate(system_of(name, coordinates), 0.05, samples=3, inputs={"u": 1.0}, progress=False)
    if name == "stopped":  # it lies on its stop, which bears less
        change = solution.multipliers[:, -1] - motion_of(name, coordinates).multipliers[:, -1]
        np.testing.assert_allclose(change, -1.0, rtol=1e-9)
    else:
        assert np.max(np.abs(solution.v[-1] - motion_of(name, coordinates).v[-1])) > 1e-4
    return [solution.measurements["u"]]


def ask_controllers(name, coordinates, tmp_path):
    if name == "functions":
        system = functions(STEADY)
    else:
        model = MACHINES[name]()
        model.add(STEADY)
        system = da.build(model, coordinates=coordinates)
    solution = da.simulate(system, 0.05, samples=3, progress=False)
    np.testing.assert_allclose(solution.measurements["hold.z"], 0.1 * np.exp(-np.asarray(solution.t)), rtol=1e-8)
    return [solution.measurements["u"]]


def ask_linearise(name, coordinates, tmp_path):
    return [np.abs(da.linearise(system_of(name, coordinates)).eigenvalues)]


def ask_modes(name, coordinates, tmp_path):
    """Modes with their energies, and a response from the input to an acceleration."""
    out = {
        "cranks": "tip.ax",
        "rotor": "hinge.angle_acceleration",
        "ball": "seen.x",
        "rubbing": "swing",
        "sticking": "load",
        "functions": "own",
        "standing": "load",
        "stopped": "load",
    }
    lin = da.linearise(system_of(name, coordinates), inputs=["u"], outputs=[out.get(name, "load")])
    assert str(lin) and bool(lin.as_dict()["modes"]) == (name != "stopped")
    for mode in lin.modes:
        assert name == "functions" or sum(mode.kinetic.values()) == pytest.approx(1.0, abs=1e-9)
    return [np.abs(lin.eigenvalues), np.abs(lin.frequency_response([0.3]).values), lin.dataset["A"].values]


def ask_equilibrium(name, coordinates, tmp_path):
    rest = da.equilibrium(system_of(name, coordinates))
    assert str(rest) and rest.summary() and rest.stable
    assert rest.mobility == (0 if name in ("sliding", "stopped") else 1)
    return [rest.q, rest.residual, rest.stiffness, rest.dataset["multiplier"].values]


def ask_quasistatic(name, coordinates, tmp_path):
    path = da.quasistatic(system_of(name, coordinates), {"t": (0.0, 0.1)})
    assert str(path) and path.reached and not path.special
    return [path.q, path.s, path.values["t"], path.dataset["multiplier"].values]


def ask_inverse_dynamics(name, coordinates, tmp_path):
    system = system_of(name, coordinates)
    q, v = da.stabilise.consistent_state(system)
    vdot = da.formulations.Proximal().solve(da.assemble(da.prepare(system).system, 0.0, q, v)).vdot
    return [da.inverse_dynamics(system, (q, v), vdot).effort]


def ask_inverse_motion(name, coordinates, tmp_path):
    """The run as it is: the input that it had, zero, is what makes it."""
    found = da.inverse_dynamics(system_of(name, coordinates), motion_of(name, coordinates), actuators=["u"])
    assert found.followed and str(found) and found.as_dict()["actuators"][0]["name"] == "u"
    np.testing.assert_allclose(found.effort, 0.0, atol=1e-6)
    return [found.effort, found.power, found.dataset["missing"].values]


def ask_hold(name, coordinates, tmp_path):
    system = system_of(name, coordinates)
    label = system.velocity_label(0)
    state = da.stabilise.consistent_state(system, hold=[int(label) if label.isdigit() else label])
    with pytest.raises(da.errors.DalembertError, match="hold"):
        da.stabilise.consistent_state(system, hold=["nobody"])
    return list(state)


def ask_projectors(name, coordinates, tmp_path):
    system = system_of(name, coordinates)
    P = da.analysis.projectors(system, da.stabilise.consistent_state(system))
    np.testing.assert_allclose(np.asarray(P.P_a) + np.asarray(P.P_c), np.eye(system.n), atol=1e-9)
    return [P.P_a, P.P_c]


def ask_compare(name, coordinates, tmp_path):
    found = da.analysis.compare(
        system_of(name, coordinates), 0.05, formulations=["proximal"], stabilisations=["projection"]
    )
    return [entry.error for entry in found.entries]


def target_of(name, coordinates) -> dict:
    """Something of positions that the machine can do."""
    q0 = {
        "cranks": {"top0.angle": 0.3},
        "rotor": {"hinge.angle": 0.2},
        "ball": {"ball.x": 0.2},
        "rubbing": {"pin": 0.4},
        "sticking": {"pin": 0.4},
        "standing": {"block.x": 0.2},
        "sliding": {"block.x": 0.2},
        "stopped": {"pin": 0.0},
    }
    return q0.get(name, {"q[0]": 0.5})


def ask_solve_pose(name, coordinates, tmp_path):
    system = system_of(name, coordinates)
    pose = da.solve_pose(system, target_of(name, coordinates))
    assert pose.met and str(pose)
    with pytest.raises(da.errors.DalembertError, match="no target 'nobody'"):
        da.solve_pose(system, {"nobody": 1.0})
    return [pose.q, pose.gaps, pose.freedoms]


def ask_sweep_pose(name, coordinates, tmp_path):
    ((target, value),) = target_of(name, coordinates).items()
    sweep = da.sweep_pose(system_of(name, coordinates), {target: [0.0, value]})
    assert sweep.dataset["reachable"].all() and str(sweep)
    sweep.plot(path=tmp_path / "sweep.png")
    return [sweep.dataset["conditioning"].values, sweep.dataset["redundancy"].values]


def ask_kinematics(name, coordinates, tmp_path):
    """Of the machine as it is: refused by name, as freedoms are left."""
    solution = da.kinematics(system_of(name, coordinates), 0.1)
    return [solution.q]


def ask_simulate_many(name, coordinates, tmp_path):
    """Two members, of which the first is the machine itself."""
    mass, value = mass_of(name, coordinates)
    runs = da.simulate_many(system_of(name, coordinates), {mass: [value, 1.1 * value]}, 0.05, samples=3)
    assert all(status is da.simulation.Status.done for status in runs.status)
    one = motion_of(name, coordinates)
    np.testing.assert_allclose(runs[0].q, one.q, atol=1e-7)  # rtol is 1e-6 here
    return [runs.q, runs.v, runs[1].energy_drift]


def ask_study(name, coordinates, tmp_path):
    mass, value = mass_of(name, coordinates)
    given = system_of(name, coordinates) if name == "functions" else MACHINES[name]()
    how = {} if name == "functions" else {"coordinates": coordinates}
    text = f"final({SEEN[name]})"
    found = da.study(given, {mass: [value, 1.1 * value]}, [text], 0.05, out=tmp_path / "study", samples=3, **how)
    assert not found.dataset["message"].values.any()
    own = motion_of(name, coordinates).measurements
    channel = next(x for n, x in own.items() if n.split(".")[0] == SEEN[name] or n == SEEN[name])
    one = found.dataset[text].values[0]
    np.testing.assert_allclose(one, channel.values[-1], rtol=1e-5, atol=1e-6)
    return [found.dataset[text].values]


def ask_uncertainty(name, coordinates, tmp_path):
    """First linear spreads: by the derivatives that studies, optimise and identify use."""
    mass, value = mass_of(name, coordinates)
    sought = da.studies.final(SEEN[name])
    vary = {mass: (0.9 * value, 1.1 * value)}
    found = da.studies.uncertainty(system_of(name, coordinates), vary, sought, t_end=0.05, samples=3, rule="weighted")
    return [found.mean, found.deviation]


def ask_optimise(name, coordinates, tmp_path):
    mass, value = mass_of(name, coordinates)
    best = da.optimise(
        system_of(name, coordinates), {mass: (0.9 * value, 1.1 * value)}, minimise=da.studies.final(SEEN[name]),
        t_end=0.05, samples=3, max_iterations=2, rule="weighted",
    )  # fmt: skip
    assert str(best)
    return [best.x, best.value]


def ask_identify(name, coordinates, tmp_path):
    """From what the machine itself does: its mass is found, or said to be open."""
    mass, value = mass_of(name, coordinates)
    own = motion_of(name, coordinates)
    channel = next(n for n in own.measurements if n.split(".")[0] == SEEN[name] or n == SEEN[name])
    data = {"time": own.t[1:], channel: own.measurements[channel].values[1:]}
    found = da.identify(system_of(name, coordinates), data, {mass: 1.01 * value}, max_steps=3)
    assert str(found)
    return [found.values[mass]]


def ask_assembly(name, coordinates, tmp_path):
    """A joint whose point is off by a tenth of a millimetre."""
    system = system_of(name, coordinates)
    point = next((n for n in system.parameters() if n.endswith("point_j")), "mass")
    error = np.full_like(system.parameters()[point], 1e-4)
    found = da.assembly(system, errors={point: error}, stiffness=1e7)
    assert str(found)
    return [found.load(joint_of(system)).values]


def ask_ranges(name, coordinates, tmp_path):
    """The possible reactions at the start and over the motion, by what the machine itself says."""
    system, solution = system_of(name, coordinates), motion_of(name, coordinates)
    found = da.check(system, ranges=True).ranges
    along = solution.range(joint_of(system), instants=2)
    assert found.possible and along["possible"].all()
    return [found.gap, along["value"].values]


def ask_report(name, coordinates, tmp_path):
    return [da.report(motion_of(name, coordinates), tmp_path / "report.html").stat().st_size]


def ask_time_stepping(name, coordinates, tmp_path):
    return [da.simulation.simulate_stepping(system_of(name, coordinates), 0.05, dt=0.01).q]


def ask_inside_a_program(name, coordinates, tmp_path):
    mass, value = mass_of(name, coordinates)
    system = system_of(name, coordinates)
    end = jax.jit(lambda x: da.simulate(system.replace({mass: x}), 0.05, samples=3).q[-1])(value)
    np.testing.assert_allclose(end, motion_of(name, coordinates).q[-1], atol=1e-7)
    return [end]


def ask_gravity_compensation(name, coordinates, tmp_path):
    given = system_of(name, coordinates) if name == "functions" else MACHINES[name]()
    held = da.analysis.gravity_compensation(given, ["u"])
    return [da.simulate(da.build(held, coordinates=coordinates), 0.05, samples=3).v]


def ask_split_motion(name, coordinates, tmp_path):
    found = da.analysis.split_motion(system_of(name, coordinates))
    return [found.energy_admissible, found.energy_constrained]


def ask_going_on(name, coordinates, tmp_path):
    return [da.simulate(system_of(name, coordinates), 0.08, after=motion_of(name, coordinates), samples=4).q]


def ask_table(name, coordinates, tmp_path):
    return [motion_of(name, coordinates).to_csv(tmp_path / "run.csv").stat().st_size]


def ask_plot(name, coordinates, tmp_path):
    figure = motion_of(name, coordinates).plot(path=tmp_path / "page.png")
    return [len(figure.axes)]


def ask_animate(name, coordinates, tmp_path):
    path = motion_of(name, coordinates).animate(tmp_path / "page.html")
    return [path.stat().st_size]


def ask_save(name, coordinates, tmp_path):
    solution = motion_of(name, coordinates)
    path = solution.to_netcdf(tmp_path / "run.nc")
    again = da.open(path, system=solution.system) if name == "functions" else da.open(path)
    np.testing.assert_array_equal(again.q, solution.q)
    return [again.q]


QUESTIONS = {name.removeprefix("ask_"): f for name, f in list(globals().items()) if name.startswith("ask_")}
ONE_SIDED = ("standing", "sliding", "stopped")
"""Machines with contacts and stops."""
REFUSED = {
    ("reactions", "functions"): "no joint frames",
    ("animate", "functions"): "nothing of bodies",
    ("linearise", "ball"): "neither at rest nor in steady motion",
    ("modes", "ball"): "neither at rest nor in steady motion",
    ("linearise", "sticking"): "Friction 'brake' of 'sticking' sticks",
    ("modes", "sticking"): "Friction 'brake' of 'sticking' sticks",
    ("linearise", "sliding"): "contact 'foot0' slips at these velocities",
    ("modes", "sliding"): "contact 'foot0' slips at these velocities",
    ("equilibrium", "ball"): "cannot be at rest: 'drive' prescribes a speed",
    ("quasistatic", "ball"): "cannot be at rest: 'drive' prescribes a speed",
    **{("quasistatic", name): f"of '{name}' is one-sided" for name in ONE_SIDED},
    ("inverse_dynamics", "rubbing"): "would change the joint loads, by which friction 'rubs' of 'rubbing' rubs",
    ("inverse_dynamics", "sticking"): "Friction 'brake' of 'sticking' sticks",
    **{("inverse_dynamics", name): f"of '{name}' is one-sided" for name in ONE_SIDED},
    ("inverse_motion", "rubbing"): "would change the joint loads, by which friction 'rubs' of 'rubbing' rubs",
    ("inverse_motion", "sticking"): "'sticking' has friction that sticks or slips, 'brake'",
    ("inverse_motion", "sliding"): "its velocities miss the rows of 'foot0'",
    ("inverse_motion", "stopped"): "'stopped' has no freedom, so no actuator can move it",
    ("hold", "sliding"): "cannot move as its velocities say: 'foot0'",
    ("kinematics", "sticking"): "'sticking' has 1 degree of freedom and no driver",
    ("kinematics", "standing"): "'standing' has 1 degree of freedom and no driver",
    ("kinematics", "sliding"): "'foot0' and 'foot1' prescribe velocities",
    ("kinematics", "stopped"): "of 'stopped' is one-sided",
    ("kinematics", "cranks"): "'cranks' has 1 degree of freedom and no driver",
    ("kinematics", "rotor"): "The driver 'motor' leaves 'rotor' 1 degree of freedom",
    ("kinematics", "ball"): "'rolling-sphere' has 3 degrees of freedom and no driver",
    ("kinematics", "rubbing"): "'rubbing' has 1 degree of freedom and no driver",
    ("kinematics", "functions"): "'functions' has 1 degree of freedom and no driver",
    **{("simulate_many", name): f"of '{name}' is one-sided" for name in ONE_SIDED},
    ("study", "functions"): "A study needs models",
    **{(q, name): f"of '{name}' is one-sided" for q in ("uncertainty", "optimise", "identify") for name in ONE_SIDED},
    **{(q, "sticking"): "Friction 'brake' of 'sticking' sticks" for q in ("uncertainty", "optimise", "identify")},
    ("assembly", "functions"): "A FunctionSystem has no joints and dimensions",
    **{
        ("time_stepping", name): "has no one-sided joints; march it by da.simulate"
        for name in ("cranks", "rotor", "ball", "rubbing", "functions", "sticking")
    },
    ("inside_a_program", "rubbing"): "it has not been checked whether that load is unique",
    **{("inside_a_program", name): f"of '{name}' is one-sided" for name in ONE_SIDED},
    ("gravity_compensation", "rubbing"): "would change the joint loads, by which friction 'rubs' of 'rubbing' rubs",
    ("gravity_compensation", "functions"): "takes a model, to which it adds a controller",
    ("gravity_compensation", "sliding"): "'sliding' has no freedom, so no actuator can move it",
    ("gravity_compensation", "stopped"): "'stopped' has no freedom, so no actuator can move it",
    ("going_on", "sticking"): "This run cannot go on: friction 'brake' sticks",
    ("going_on", "standing"): "This run cannot go on: joint 'foot0' is one-sided",
    ("going_on", "sliding"): "This run cannot go on: joint 'foot0' is one-sided",
    ("going_on", "stopped"): "This run cannot go on: joint 'end' is one-sided",
}
"""What cannot be answered, and words of the sentence that says so."""


DEAR = {
    "compare": ("cranks", "functions"),
    "controllers": ("cranks", "functions"),
    "inputs": ("ball", "stopped"),
    "quasistatic": ("rotor", "functions", "standing"),
    "simulate_many": ("cranks", "standing"),
    "study": ("functions", "stopped"),
    "uncertainty": ("sticking",),
    "optimise": ("sticking",),
    "identify": ("sticking",),
    "assembly": ("functions", "sliding"),
    "report": ("functions",),
    "time_stepping": ("cranks", "sliding"),
    "inside_a_program": ("functions", "standing"),
    "gravity_compensation": ("functions", "sliding", "stopped"),
}
"""Questions that march once more with other settings, or on a path: for which machines in every run."""
ASKED = [
    pytest.param(
        q, *s, marks=pytest.mark.thorough if s[0] not in DEAR.get(q, s) else (), id=f"{q}-{s[0]}-{s[1] or 'own'}"
    )
    for q in QUESTIONS
    for s in SYSTEMS
]


@pytest.mark.parametrize(("question", "name", "coordinates"), ASKED)
@pytest.mark.filterwarnings("ignore::dalembert.errors.RedundancyWarning", "ignore::dalembert.errors.RecordWarning")
def test_every_question_of_every_system(question, name, coordinates, tmp_path):
    words = REFUSED.get((question, name))
    if words is not None:
        with pytest.raises(da.errors.DalembertError, match=words):
            QUESTIONS[question](name, coordinates, tmp_path)
        return
    for numbers in QUESTIONS[question](name, coordinates, tmp_path):
        assert np.all(np.isfinite(np.asarray(numbers, float)))


@pytest.mark.parametrize(("name", "coordinates"), SYSTEMS)
def test_all_numbers_of_a_system_are_arrays(name, coordinates):
    """A batch has a row of each number: what is no array would be left out of it."""
    paths = jax.tree_util.tree_leaves_with_path(system_of(name, coordinates))
    assert [jax.tree_util.keystr(path) for path, x in paths if not eqx.is_array(x)] == []


DRIVEN = {"cranks": "top0", "rotor": "hinge", "rubbing": "pin"}
"""A joint whose driver leaves no freedom."""


@pytest.mark.parametrize("name", DRIVEN)
def test_driven_machines_without_integrating(name):
    """With one more driver kinematics answers, in both coordinates alike, and as integrating does (to 1e-6)."""
    model = MACHINES[name]()
    model.driver("drive", DRIVEN[name], da.functions.polynomial([0.0, 0.0, 1.5]))
    one, other = (da.kinematics(da.build(model, coordinates=c), 0.4, samples=3) for c in ("absolute", "joint"))
    marched = da.simulate(model, 0.4, samples=3, rtol=1e-9)
    for what in ("position", "velocity", "acceleration", "reaction_force", "reaction_torque"):
        size = max(float(np.max(np.abs(one.dataset[what].values))), 1.0)
        np.testing.assert_allclose(other.dataset[what].values, one.dataset[what].values, atol=1e-9 * size)
        np.testing.assert_allclose(marched.dataset[what].values, one.dataset[what].values, atol=1e-6 * size)


def test_kinematics_of_own_equations():
    """A point on a circle whose height is prescribed: y = −cos t², so x = sin t²; forces by M v̇ − h."""
    system = da.FunctionSystem(
        lambda t, q: 2.0 * jnp.eye(2),
        lambda t, q, v: jnp.array([0.0, -2.0 * G]),
        position=lambda t, q: jnp.array([q @ q - 1.0, q[1] + jnp.cos((t + 1.0) ** 2)]),
        q0=[np.sin(1.0), -np.cos(1.0)],
        joints={"rod": 1, "lift": 1},
        name="lifted",
    )
    solution = da.kinematics(system, 0.5, samples=6)
    expected = np.stack([np.sin((solution.t + 1) ** 2), -np.cos((solution.t + 1) ** 2)], axis=1)
    np.testing.assert_allclose(solution.q, expected, atol=1e-13)
    assert solution.multipliers.shape == (6, 2)


@pytest.mark.parametrize("name", MACHINES)
def test_both_coordinates_answer_alike(name):
    """Bodies, reactions and eigenvalues do not depend on coordinates; to 1e-6, the error of two runs at rtol 1e-8."""
    one, other = (motion_of(name, c).dataset for c in ("absolute", "joint"))
    for what in ("position", "velocity", "reaction_force", "reaction_torque", "measurement"):
        if what in one:
            size = max(float(np.max(np.abs(one[what].values), initial=0.0)), 1.0)
            np.testing.assert_allclose(other[what].values, one[what].values, atol=1e-6 * size)
    assert da.check(system_of(name, "absolute")).mobility == da.check(system_of(name, "joint")).mobility
