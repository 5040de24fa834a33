"""Optimal designs against those that are known in advance, and gradients against differences."""

from __future__ import annotations

import re

import _helpers_linkages
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.studies import (
    at_time,
    deviation,
    final,
    frequency,
    integral,
    largest,
    least,
    mean,
    optimise,
    over,
    parameter,
    peak,
    resting,
    rms,
)  # fmt: skip
from dalembert.studies._evaluate import Asked
from dalembert.studies._machine import Machine, Task
from dalembert.studies._optimise import Search

TURN = 2 * np.pi


def linkage(crank=0.5, coupler=1.2, rocker=1.0, ground=1.3, gravity=(0, 0), masses=(1.0, 2.0, 1.5)) -> da.Model:
    """A crank and rocker whose crank is driven at one turn a second; its bars are uniform."""
    model = da.Model("linkage", gravity=gravity)
    A, D, B = np.zeros(2), np.array([ground, 0.0]), np.array([0.0, crank])
    along = (D - B) / np.hypot(*(D - B))
    x = (np.hypot(*(D - B)) ** 2 + coupler**2 - rocker**2) / (2 * np.hypot(*(D - B)))
    C = B + x * along + np.sqrt(coupler**2 - x**2) * np.array([-along[1], along[0]])
    bars = []
    for name, (p, q), mass in zip(("crank", "coupler", "rocker"), ((A, B), (B, C), (C, D)), masses, strict=True):
        angle = float(np.arctan2(*(q - p)[::-1]))
        inertia = mass * float((q - p) @ (q - p)) / 12
        bars.append(model.body(name, mass=mass, inertia=inertia, position=(p + q) / 2, angle=angle))
    a, b, c = bars
    for name, i, j, at in (("A", model.ground, a, A), ("B", a, b, B), ("C", b, c, C), ("D", c, model.ground, D)):
        model.revolute(name, i, j, at=at)
    model.driver("motor", "A", da.functions.polynomial([0.0, TURN]))
    across = np.array([[0.6, -0.4], [0.4, 0.6]]) @ ((C - B) / coupler)
    model.measure("tip", "point", b, at=B + across)
    return model


def test_balanced_four_bar_shakes_nothing():
    """Berkof and Lowen (1969): two counterweights balance an in-line four-bar, whatever its speed. With links of
    lengths a, b, c whose centres are at their middles: (m r) at the crank = m_b a/2 + m_a a/2, at the rocker likewise
    m_b c/2 + m_c c/2 (the coupler's mass shared between its ends)."""
    model = linkage()
    for name, joint, body, link in (("left", "A", "crank", 0.25), ("right", "D", "rocker", 0.3)):
        own = {b.name: b for b in model.bodies.values()}[body]
        pivot = np.zeros(2) if joint == "A" else np.array([1.3, 0.0])
        direction = (pivot - own.position) / np.hypot(*(pivot - own.position))
        weight = model.body(name, mass=0.5, inertia=0.01, position=pivot + link * direction)
        model.weld(f"{name}_weld", body, weight, at=pivot)
    model.measure("pull_a", "reaction", "A", frame="world")
    model.measure("pull_d", "reaction", "D", frame="world")  # on the ground, which is its body j
    model.measure("shake_x", "formula", "pull_d.Fx - pull_a.Fx", unit="N")
    model.measure("shake_y", "formula", "pull_d.Fy - pull_a.Fy", unit="N")
    best = optimise(
        model, {"left.mass": (0.1, 10.0), "right.mass": (0.1, 10.0)}, minimise=rms("shake_x", "shake_y"), t_end=1.0,
        samples=41, driven=True,
    )  # fmt: skip
    first = best.history[0].objective
    assert first > 1.0 and best.value < 1e-6 * first
    assert best["left.mass"] == pytest.approx((1.0 + 2.0) * 0.25 / 0.25, rel=1e-6)
    assert best["right.mass"] == pytest.approx((2.0 + 1.5) * 0.5 / 0.3, rel=1e-6)
    assert best.feasible and not best.active and best.optimality < 1e-5
    # the improved model says the same by itself
    motion = da.kinematics(best.model, 1.0, samples=9)
    assert float(np.max(np.abs(motion.measurements["shake_x"]))) < 1e-5 * first


def test_spring_that_balances_a_bar():
    """A spring of no free length between the height a above the pivot and the distance b on the bar carries it in
    every pose: k a b = m g l; then the drive needs no torque."""
    m, g, l, a, b = 3.0, 9.81, 0.4, 0.5, 0.6
    model = da.Model("lamp", gravity=(0, -g))
    bar = model.body("bar", mass=m, inertia=0.2, position=(l, 0), angle=0.0)
    model.revolute("pin", model.ground, bar, at=(0, 0))
    model.spring_damper("spring", model.ground, bar, at_i=(0, a), at_j=(b, 0), stiffness=10.0, damping=0.0, length=0.0)
    model.driver("motor", "pin", da.functions.polynomial([0.0, 1.0]))
    model.measure("effort", "effort", "motor")
    options = {"t_end": 1.0, "samples": 21, "driven": True}
    best = optimise(model, {"spring.stiffness": (5.0, 200.0)}, minimise=rms("effort"), **options)
    assert best["spring.stiffness"] == pytest.approx(m * g * l / (a * b), rel=1e-6)
    assert best.value < 1e-6 * best.history[0].objective
    assert best.model.statement("spring").stiffness == best["spring.stiffness"]
    assert "N/m" in repr(best)


@pytest.fixture(scope="module")
def wanted():
    """The path of a point of a coupler."""
    times = np.linspace(0, 1, 41)
    data = da.kinematics(linkage(), 1.0, samples=times).measurements
    return times, np.stack([data["tip.x"], data["tip.y"]], axis=1)


def lengths(x):
    """Lengths of uniform bars, and the point on the coupler from its left end, as parameters."""

    def end(name, sign):
        return jnp.stack([sign * x[name] / 2, 0.0 * x[name]])

    return {
        "A.point_j": end("crank", -1), "B.point_i": end("crank", 1), "B.point_j": end("coupler", -1),
        "C.point_i": end("coupler", 1), "C.point_j": end("rocker", -1), "D.point_i": end("rocker", 1),
        "tip.point_j": jnp.stack([x["along"] - x["coupler"] / 2, x["across"]]),
    }  # fmt: skip


LENGTHS = {"crank": (0.3, 0.7), "coupler": (0.9, 1.5), "rocker": (0.7, 1.4), "along": (0.3, 0.9), "across": (0.1, 0.8)}
OFF = {"crank": 0.45, "coupler": 1.3, "rocker": 1.1, "along": 0.5, "across": 0.3}
TRUE = {"crank": 0.5, "coupler": 1.2, "rocker": 1.0, "along": 0.6, "across": 0.4}


def test_path_returns_to_the_linkage_that_made_it(wanted):
    goal = deviation(("tip.x", "tip.y"), *wanted)
    best = optimise(linkage(), LENGTHS, minimise=goal, through=lengths, start=OFF, t_end=1.0, samples=41, driven=True)
    assert best.history[0].objective > 0.1 and best.value < 1e-6
    for name, value in TRUE.items():
        assert best[name] == pytest.approx(value, abs=1e-6), name
    # the model stated anew draws the path, too
    again = da.kinematics(best.model, 1.0, samples=wanted[0]).measurements
    np.testing.assert_allclose(again["tip.x"], wanted[1][:, 0], atol=1e-6)


@pytest.fixture(scope="module")
def swinging():
    model = da.mechanism("four-bar")
    model.measure("pin", "reaction", "B")
    model.measure("tip", "point", "coupler", at=(1, 1))
    return model


def by_differences(asked, x, h=2e-4):
    """Central differences of fourth order."""
    k = len(x)
    near = asked.batch(np.concatenate([x + i * h * np.eye(k) for i in (-2, -1, 1, 2)])).reshape(4, k, -1)
    return ((8 * (near[2] - near[1]) - (near[3] - near[0])) / (12 * h)).T


VARIED = ["crank.mass", "B.point_j", "rocker.centre.x"]


def test_gradients_through_a_motion(swinging):
    """Of every reduction, against central differences of fourth order: their error is h⁴ and 1e-11/h."""
    machine = Machine(swinging, VARIED, Task(t_end=0.5, samples=26, options={"rtol": 1e-11}))
    asked = Asked(machine, [
        peak("pin.Fx", "pin.Fy"), final("tip.x"), rms("tip.vx"), least("pin.Fx"), largest("tip.ax"), mean("tip.y"),
        integral("tip.vx", "tip.vy"), 2 * final("tip.y") * parameter("crank.mass") + 1,
        deviation(("tip.x", "tip.y"), [0.0, 0.2, 0.5], [[1.0, 1.0], [0.5, 1.0], [0.4, 0.8]]), at_time("tip.x", 0.31),
        over(lambda t, y: jnp.sum(t * y[:, 0] * y[:, 1]), "tip.x", "tip.vy"),
    ])  # fmt: skip
    x = machine.design.start + np.array([0.0, 0.01, 0.02, 0.05])
    assert machine.design.names == ("crank.mass", "B.point_j.x", "B.point_j.y", "rocker.centre.x")
    y, J = asked.slopes(x)
    differences = by_differences(asked, x)
    assert np.all(np.abs(J - differences) < 1e-6 * np.max(np.abs(J), axis=1, keepdims=True))
    # the numbers are those that a solution shows, and a summit lies above its samples
    shown = machine.motion(machine.values(x), machine.closed(x)).measurements
    assert y[1] == pytest.approx(float(shown["tip.x"][-1]), abs=1e-10)
    sampled = float(np.max(np.hypot(shown["pin.Fx"], shown["pin.Fy"])))
    assert sampled - 1e-8 <= y[0] < 1.02 * sampled


@pytest.mark.thorough
def test_gradients_of_driven_motion():
    """A motion that is not integrated: what drives the crank, a force and a place, by a mass and a pin's place."""
    model = linkage(gravity=(0, -9.81))
    model.measure("pin", "reaction", "C")
    model.measure("effort", "effort", "motor")
    machine = Machine(model, ["coupler.mass", "B.point_j.x"], Task(t_end=1.0, samples=11, driven=True))
    asked = Asked(machine, [rms("effort"), largest("pin.Fx"), mean("tip.x"), at_time("tip.vy", 0.25)])
    x = machine.design.start + 0.01
    _, J = asked.slopes(x)
    assert np.all(np.abs(J - by_differences(asked, x)) < 1e-6 * np.max(np.abs(J), axis=1, keepdims=True))


def test_gradients_at_rest_and_of_small_motions():
    """A bar of weight m g, with its centre at a, on a spring k about its pin: k θ + m g a cos θ = 0 at rest, and
    (J + m a²) ω² = k − m g a sin θ about there; their derivatives by k and m in closed form."""
    k, m, J, a, g = 40.0, 2.0, 0.1, 0.5, 9.81
    model = da.Model("balance", gravity=(0, -g))
    bar = model.body("bar", mass=m, inertia=J, position=(a, 0), angle=0.0)
    pin = model.revolute("pin", model.ground, bar, at=(0, 0))
    model.joint_spring("spring", pin, stiffness=k)
    asked = Asked(
        Machine(model, ["spring.stiffness", "bar.mass"], Task()),
        [resting("pin.angle"), frequency(1), frequency(1) ** 2],
    )
    y, slopes = asked.slopes(np.array([k, m]))
    angle = y[0]
    assert k * angle + m * g * a * np.cos(angle) == pytest.approx(0, abs=1e-7)
    stiff, mass = k - m * g * a * np.sin(angle), J + m * a**2
    w = np.sqrt(stiff / mass)
    turned = np.array([-angle, -g * a * np.cos(angle)]) / stiff
    d_stiff = np.array([1.0, -g * a * np.sin(angle)]) - m * g * a * np.cos(angle) * turned
    dw = w / 2 * (d_stiff / stiff - np.array([0.0, a**2]) / mass)
    assert y[1] == pytest.approx(w / (2 * np.pi), rel=1e-8)
    np.testing.assert_allclose(slopes[0], turned, rtol=1e-6)
    np.testing.assert_allclose(slopes[1], dw / (2 * np.pi), rtol=1e-6)
    np.testing.assert_allclose(slopes[2], 2 * y[1] * slopes[1], rtol=1e-9)


@pytest.mark.thorough
def test_a_pin_is_placed_for_the_least_peak_of_its_force(swinging):
    """A vector varies: no design on a grid about it, nor the first one, is better, and a finer motion has the same
    peak."""
    limits = [[-0.55, -0.45], [-0.05, 0.05]]
    options = {"t_end": 0.4, "samples": 21}
    best = optimise(swinging, {"B.point_j": limits}, minimise=peak("pin.Fx", "pin.Fy"), **options)
    assert set(best.design) == {"B.point_j.x", "B.point_j.y"}
    assert best.value < 0.98 * best.history[0].objective and best.optimality < 1e-4
    asked = Asked(Machine(swinging, ["B.point_j"], Task(**options)), [peak("pin.Fx", "pin.Fy")])
    grid = np.stack(np.meshgrid(*(np.linspace(*b, 8) for b in limits)), axis=-1).reshape(-1, 2)
    found = asked.batch(grid)[:, 0]
    assert np.sum(np.isfinite(found)) > 32 and best.value <= np.nanmin(found) * (1 + 1e-6)
    dense = da.simulate(best.system, 0.4, best.machine.closed(best.x), samples=801).measurements
    assert float(np.max(np.hypot(dense["pin.Fx"], dense["pin.Fy"]))) == pytest.approx(best.value, rel=5e-3)


def test_bound_on_a_pin_is_kept_and_active(swinging):
    """The peak of a pin's force in a swinging four-bar, bounded while the machine is made as heavy as it may be; the
    multiplier is the slope of the best objective by the bound."""
    options = {"t_end": 0.5, "samples": 26}
    vary = {"crank.mass": (0.5, 6.0), "rocker.mass": (0.5, 6.0)}
    found = {}
    for most in (60.0, 60.5):
        limit = peak("pin.Fx", "pin.Fy") <= most
        found[most] = optimise(
            swinging, vary, maximise=parameter("crank.mass") + parameter("rocker.mass"), subject_to=limit, **options
        )
    best = found[60.0]
    assert best.feasible and limit.text.replace("60.5", "60") in best.active
    assert best.values[0] == pytest.approx(60.0, rel=1e-5)
    dense = da.simulate(best.model, 0.5, samples=2001).measurements
    assert float(np.max(np.hypot(dense["pin.Fx"], dense["pin.Fy"]))) == pytest.approx(60.0, rel=2e-3)
    slope = (found[60.5].value - best.value) / 0.5
    assert best.multipliers["peak(pin.Fx, pin.Fy) <= 60"] == pytest.approx(slope, rel=0.05)
    assert "active" in repr(best) and best.as_dict()["feasible"]


# ---- guards ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_search_turns_back_where_the_crank_cannot_turn():
    """Grashof: the crank turns as long as it and the longest link are not longer than the others together; nothing but
    the guard states that limit here."""
    best = optimise(
        linkage(), {"crank": (0.3, 1.2)}, maximise=parameter("crank") + 1e-3 * final("tip.x"), start={"crank": 0.5},
        through=lambda x: {"A.point_j": jnp.stack([-x["crank"] / 2, 0 * x["crank"]]),
                           "B.point_i": jnp.stack([x["crank"] / 2, 0 * x["crank"]])},
        t_end=1.0, samples=21, driven=True,
    )  # fmt: skip
    assert 0.7 < best["crank"] < 1.2 + 1.0 - 1.3
    assert best.remarks and "crank = " in best.remarks[0] and "Refused" in best.remarks[0]


def test_other_assemblies_are_noticed():
    """The ground's pivot goes to the other side of the crank's pin: no way there keeps the loop closed."""
    search = Search(
        Machine(linkage(), ["D.point_j"], Task()), np.full((2, 2), [-2.0, 2.0]), parameter("D.point_j.x"), (), 1.0
    )  # fmt: skip
    assert search.at(np.array([1.3, 0.0])) is not None
    assert search.at(np.array([1.25, 0.1])) is not None
    far = np.array([-1.3, 1.0])
    assert search.asked.slopes(far) is not None and search.at(far) is None
    search.refuse(far)
    assert "another assembly" in next(iter(search.refused)) and "D.point_j.x = -1.3" in next(
        iter(search.refused.values())
    )
    # the best design may be of another start than the last one, in another assembly
    for x in (far, np.array([1.25, 0.1])):
        search.elsewhere()
        assert search.at(x) is not None
    assert search.optimum(x, "", "slsqp", 0.0)["D.point_j.x"] == -1.3


def test_optimise_tells_of_another_assembly():
    """What is wanted lies where the loop closes another way: the first step that goes there is refused, the search
    stays in its assembly and says why."""
    x, y = parameter("D.point_j.x"), parameter("D.point_j.y")
    best = optimise(
        linkage(), {"D.point_j": [[-2.0, 2.0], [-2.0, 2.0]]}, minimise=(x + 1.3) ** 2 + (y - 1.0) ** 2, max_iterations=4
    )
    told = [r for r in best.remarks if "another assembly" in r]
    assert told and "D.point_j.x = " in told[0] and told[0].startswith("Refused while searching")
    assert best.value < best.history[0].objective
    search = Search(best.machine, best.bounds, best.objective, (), 1.0, None)
    for one in best.history:  # each is reached from the one before without a jump
        assert search.at(one.x) is not None


@pytest.fixture(scope="module")
def oscillator():
    return _helpers_linkages.oscillator(100.0)


def test_global_search_finds_what_gradients_do_not(oscillator):
    """Of the minima at √(k/m) t = π, 3π, 5π, 7π a small cost prefers the third. On a Dask cluster as in this process:
    all that goes to a worker can be sent."""
    import cloudpickle
    from dask.distributed import Client

    k = parameter("spring.stiffness")
    goal = final("place.x") + 1e-8 * (k - 2500) * (k - 2500)
    options = {"minimise": goal, "t_end": 0.5, "samples": 4}
    near = optimise(oscillator, {"spring.stiffness": (10.0, 4000.0)}, **options)
    assert near["spring.stiffness"] == pytest.approx(2 * (np.pi / 0.5) ** 2, rel=0.05)
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        far = optimise(
            oscillator,
            {"spring.stiffness": (10.0, 4000.0)},
            method="global",
            client=client,
            max_iterations=4,
            **options,
        )
    assert far["spring.stiffness"] == pytest.approx(2 * (5 * np.pi / 0.5) ** 2, rel=0.01)
    assert far.value < near.value - 0.01 and "Differential evolution" in far.message
    alone = optimise(oscillator, {"spring.stiffness": (10.0, 4000.0)}, method="global", max_iterations=4, **options)
    assert alone.x.tobytes() == far.x.tobytes() and alone.value == far.value
    asked = Asked(Machine(oscillator, ["spring.stiffness"], Task(0.5, samples=4)), [goal])
    assert cloudpickle.loads(cloudpickle.dumps(asked.recipe))[1][1] == ("spring.stiffness",)


@pytest.mark.thorough
def test_global_search_on_processes(oscillator):
    """On the workers of a cluster, each a process: the same designs as in this one."""
    from dalembert.studies._run import local_cluster

    k = parameter("spring.stiffness")
    options = {
        "minimise": final("place.x") + 1e-8 * (k - 2500) * (k - 2500), "method": "global", "max_iterations": 3,
        "t_end": 0.5, "samples": 4,
    }  # fmt: skip
    alone = optimise(oscillator, {"spring.stiffness": (10.0, 4000.0)}, **options)
    with local_cluster(2) as client:
        found = optimise(oscillator, {"spring.stiffness": (10.0, 4000.0)}, client=client, **options)
    assert found.x.tobytes() == alone.x.tobytes() and found.value == alone.value
    assert [e.x.tobytes() for e in found.history] == [e.x.tobytes() for e in alone.history]


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["trust-constr", "adam"])
def test_other_methods(oscillator, method):
    found = optimise(
        oscillator, {"spring.stiffness": (40.0, 60.0)}, minimise=(final("place.x") - 0.1 * np.cos(1.5)) ** 2, t_end=0.3,
        samples=4, method=method,
    )  # fmt: skip
    assert found["spring.stiffness"] == pytest.approx(50.0, rel=1e-3)


def test_a_mean_is_held(oscillator):
    """The least mass with a mean place as that of √(k/m) = 5 rad/s has it: the lightest one, on k = 25 m."""
    t = np.linspace(0, 0.5, 7)
    x = 0.1 * np.cos(5 * t)
    wanted = float(np.sum(0.5 * (x[1:] + x[:-1]) * np.diff(t)) / 0.5)
    vary = {"spring.stiffness": (20.0, 90.0), "mass.mass": (1.5, 3.0)}
    held = mean("place.x").equals(wanted)
    best = optimise(oscillator, vary, minimise=parameter("mass.mass"), subject_to=held, t_end=0.5, samples=7)
    assert best["mass.mass"] == pytest.approx(1.5, rel=1e-6)
    assert best["spring.stiffness"] == pytest.approx(25 * 1.5, rel=1e-5)
    assert best.feasible and held.text in best.active and "mass.mass at its least" in best.active


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["slsqp", "trust-constr"])
def test_frequency_as_a_constraint(oscillator, method):
    """The heaviest mass for which the frequency is at least 0.6 Hz: k/(2π f)²."""
    best = optimise(
        oscillator, {"mass.mass": (1.0, 20.0)}, maximise=parameter("mass.mass"), subject_to=frequency(1) >= 0.6,
        method=method,
    )  # fmt: skip
    heaviest = 100.0 / (2 * np.pi * 0.6) ** 2
    if method == "trust-constr":  # of the interior: it ends before the limit, by what its barrier keeps
        assert best.feasible and heaviest * (1 - 1e-3) < best["mass.mass"] <= heaviest * (1 + 1e-6)
        return
    assert best["mass.mass"] == pytest.approx(heaviest, rel=1e-6)
    assert best.active == ("frequency(1) >= 0.6",)
    # one more hertz costs so much: dm/df = −2 m/f
    assert best.multipliers["frequency(1) >= 0.6"] == pytest.approx(2 * best["mass.mass"] / 0.6, rel=1e-5)


@pytest.mark.parametrize("advised", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_reactions_that_are_open_need_a_rule(advised):
    """A door on two hinges: their axial forces are not unique, and refused by name. Under the rule that the refusal
    advises both carry half of the weight: m g / 2 = 20 N at most."""
    model = da.mechanism("door-two-balls")
    names = [n for n, c in model.constraints.items() if c.type == "spherical"]
    model.measure("axial", "reaction", names[0], component="Fz", frame="world")
    body = next(iter(model.bodies))
    mass = f"{body}.mass"
    options = {"maximise": parameter(mass), "subject_to": peak("axial") <= 20.0, "t_end": 0.2, "samples": 5}
    with pytest.raises(da.errors.DalembertError, match="'axial'.*does not determine.*rule=") as refused:
        optimise(model, {mass: (1.0, 50.0)}, **options)
    rule = re.search(r"rule='([\w-]+)'", str(refused.value))
    assert rule is not None and isinstance(da.reactions.rule_of(rule[1]), da.reactions.MinimumNorm)
    if not advised:
        return
    best = optimise(model, {mass: (1.0, 50.0)}, rule=rule[1], **options)
    assert best[mass] == pytest.approx(2 * 20.0 / 9.81, rel=1e-6)
    assert best.active == ("peak(axial) <= 20",)
    assert "'axial' is not unique: the rule minimum_norm picked it." in best.remarks and "minimum_norm" in repr(best)


def test_wrong_questions_get_a_sentence(oscillator):
    vary = {"spring.stiffness": (40.0, 60.0)}
    goal = final("place.x")
    for given, words in (
        ({"minimise": "place.x"}, "a course in time, not a number.*final"),
        ({"minimise": goal, "maximise": goal}, "one of them"),
        ({"minimise": final("plaice.x")}, "no measurement or joint coordinate 'plaice.x'"),
        ({"minimise": final("place.position")}, "has several numbers"),
        ({"minimise": goal, "method": "newton"}, "method='newton' is unknown"),
        ({"minimise": goal, "subject_to": [goal]}, "is no constraint"),
        ({"minimise": goal, "t_end": None}, "give t_end="),
        ({"minimise": goal, "start": {"spring.stifness": 1.0}}, "is not among what varies"),
        ({"minimise": parameter("mass.mass")}, "no measurement or joint coordinate 'mass.mass'"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            optimise(oscillator, vary, **({"t_end": 0.3, "samples": 4} | given))
    for bounds, words in (((60.0, 40.0), "must be finite and rise"), (3.0, "must be .least, most."), ("ab", "must be")):
        with pytest.raises(da.errors.DalembertError, match=words):
            optimise(oscillator, {"spring.stiffness": bounds}, minimise=goal, t_end=0.3)
    with pytest.raises(
        da.errors.DalembertError, match="no parameter 'spring.stifness'.*Did you mean 'spring.stiffness'"
    ):
        optimise(oscillator, {"spring.stifness": (1.0, 2.0)}, minimise=goal, t_end=0.3)
    with pytest.raises(da.errors.DalembertError, match="neither true nor false"):
        assert 0.0 <= goal <= 1.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"starts": 1.5}, "starts= is a whole number, 1 at least; got 1.5"),
        ({"max_iterations": 0}, "max_iterations= is a whole number, 1 at least; got 0"),
        ({"seed": "a"}, "seed= is a whole number, 0 or more"),
        ({"client": 3}, "client= is a distributed.Client; got 3"),
        ({"samples": "x"}, "samples= is a number of times"),
        ({"t_end": "x"}, "The end of the run must be a number"),
        ({"t_end": -1.0}, "must be later than its start"),
        ({"sampels": 4}, "'sampels' is none of the options of a motion.*"),
        ({"rtol": -1}, "rtol=-1 must be a positive number"),
        ({"state": 3}, "state= is a State"),
        ({"start": 3}, "start: give numbers by name"),
        ({"start": {"spring.stiffness": "a"}}, "start: 'spring.stiffness' must be a number, not 'a'"),
        ({"through": 3}, "through= is a function"),
        ({"through": lambda x: 3}, "through= must return parameters by name"),
        ({"subject_to": 3}, "subject_to= is a constraint"),
        # beyond the motion the last value would be taken for it
        (
            {"minimise": at_time("place.x", 7.0)},
            r"at_time\(place.x, 7\): the motion is kept from 0 s to 0.3 s, not at 7",
        ),
        ({"minimise": 2 * deviation("place.x", [0, 0.2], [0, 1])}, "the wanted course is given from 0 s to 0.2 s"),
        # a mass on a spring that nothing drives: it would stay where it starts, whatever the spring
        ({"driven": True}, "'oscillator' has 1 degree of freedom and no driver"),
    ],
)
def test_wrong_arguments_get_a_sentence(oscillator, given, words):
    chosen = {"minimise": final("place.x"), "t_end": 0.3, "samples": 4} | given
    with pytest.raises(da.errors.DalembertError, match=words):
        optimise(oscillator, {"spring.stiffness": (40.0, 60.0)}, **chosen)


def test_wanted_courses_are_numbers():
    for times, values in (([0, 1], [0, np.nan]), ([0, 0], [1, 2]), ([1, 0], [1, 2]), ([0, np.inf], [1, 2])):
        with pytest.raises(da.errors.DalembertError, match="times must rise, and all numbers must be finite"):
            deviation("place.x", times, values)


@pytest.mark.parametrize("method", ["slsqp", "trust-constr", "global"])
def test_constraints_that_no_design_keeps(oscillator, method):
    """Against the bounds, and against each other: told as such, with the design that misses them least."""
    m = parameter("mass.mass")
    vary, options = {"mass.mass": (1.0, 20.0)}, {"minimise": m, "method": method, "max_iterations": 20}
    best = optimise(oscillator, vary, subject_to=m >= 30, **options)
    assert not best.feasible and best["mass.mass"] == pytest.approx(20.0, abs=1e-3)
    assert repr(best).startswith("Infeasible: no design was found that keeps all constraints.")
    assert "VIOLATED" in repr(best) and "keeps all constraints; this one misses them least" in best.remarks[0]
    both = optimise(oscillator, vary, subject_to=[m >= 10, m <= 5], **options)
    assert not both.feasible and both.remarks[0].startswith("No design") and 5 <= both["mass.mass"] <= 10
    fine = optimise(oscillator, vary, subject_to=[m >= 10], **options)
    assert fine.feasible and fine["mass.mass"] == pytest.approx(10, rel=1e-3)
    assert "Infeasible" not in repr(fine) and not any(r.startswith("No design") for r in fine.remarks)
