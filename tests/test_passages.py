"""Singular positions are passed: energy, angles, reactions and fixed steps, in both coordinates.

Oracles: motions of one freedom by hand (`_helpers_passages`), Newton and Euler in 50 digits.
"""

from __future__ import annotations

import warnings

import mpmath
import numpy as np
import pytest
from _helpers_passages import (
    change_point,
    drift,
    n_four_bar,
    parallelogram,
    peaucellier,
    peaucellier_by_hand,
    slider_crank,
    turning_n_four_bar,
    turning_slider_crank,
)
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.simulation import _march
from dalembert.view import plot_dataset, scene_of, windows

THOROUGH = pytest.mark.thorough
COORDINATES = ("absolute", "joint")


def parallelogram_by_hand(masses, theta: float, omega: float) -> tuple[float, float, float]:
    """Fx, Fy of P on the coupler and the angular acceleration, by Newton and Euler in 50 digits."""
    m1, m2, mc = masses
    with mpmath.workdps(50):
        th, w, g = mpmath.mpf(float(theta)), mpmath.mpf(float(omega)), mpmath.mpf("9.81")
        c, s = mpmath.cos(th), mpmath.sin(th)
        acceleration = -g * (mpmath.mpf(m1 + m2) / 2 + mc) * c / (mpmath.mpf(m1 + m2) / 3 + mc)
        # the coupler does not turn: both pins share its vertical load
        Fy = mc * (c * acceleration - s * w * w + g) / 2
        Fx = (mpmath.mpf(m1) / 3 * acceleration + m1 * g * c / 2 + c * Fy) / s if s else mpmath.inf
        return float(Fx), float(Fy), float(acceleration)


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
def test_reactions_across_a_passage_are_right_or_marked(coordinates):
    """100 instants across the line position, unequal cranks: within 1e-6 of the exact value, or marked."""
    masses = (1.0, 3.0, 1.0)
    system = da.build(parallelogram(masses, 0.5, -5.0).model, coordinates=coordinates)
    whole = da.simulate(system, 0.2, samples="dense")
    low, high = 0.0, 0.2
    for _ in range(60):
        middle = 0.5 * (low + high)
        q = whole.at(middle).q
        angle = float(q[2] if coordinates == "absolute" else q[0] + 0.5)
        low, high = (middle, high) if angle > 0 else (low, middle)
    aside = np.logspace(-1.5, -9, 50)
    times = np.concatenate([[0.0], np.sort(low + np.concatenate([-aside, aside]))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.SingularWarning)
        data = da.simulate(system, float(times[-1]), samples=times).dataset
    pin = data.sel(joint="P")
    theta, omega = (data[x].sel(body="a").values for x in ("angle", "angular_velocity"))
    unmarked = 0
    for k in range(len(times)):
        exact = parallelogram_by_hand(masses, theta[k], omega[k])
        for axis in range(2):
            if bool(pin["unique_force"].values[k, axis]):
                unmarked += 1
                assert float(pin["reaction_force"].values[k, axis]) == pytest.approx(exact[axis], rel=1e-6)
    assert unmarked > 60
    # a component that passes zero is known to 1e-6 of itself only as far as rounding in the large ones beside it allows
    large = (
        np.abs(pin["reaction_force"].values)
        > 0.05 * np.max(np.abs(data["reaction_force"].values), axis=(1, 2))[:, None]
    )
    far = (np.abs(theta) > 0.02)[:, None] & large
    assert np.sum(far) > 15 and bool(pin["unique_force"].values[far].all()), "nothing is marked away from the position"
    assert int(data["rank"].max()) == (8 if coordinates == "absolute" else 2)


@pytest.mark.parametrize("coordinates", ["joint", pytest.param("absolute", marks=THOROUGH)])
def test_what_is_marked_does_not_depend_on_units(coordinates):
    """Of light cranks much is lost beside the position, the same share in m and kg and in 2⁻¹⁰ m and 2¹⁰ kg (about mm
    and t). A force that is nearly zero is held against those that turn the machine's momentum, in its own unit."""
    times, seen = np.concatenate([[0.0], np.logspace(-5, -1.5, 30)]), []
    for units in ((1.0, 1.0), (2.0**10, 2.0**-10)):
        model = parallelogram((1e-3, 3e-3, 1.0), 1e-4, -5.0, units=units).model
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", da.errors.SingularWarning)
            seen.append(da.simulate(da.build(model, coordinates=coordinates), times[-1], samples=times).dataset)
    known = [data["unique_force"].values for data in seen]
    assert 0.3 < np.mean(known[0]) < 0.9
    assert np.mean(known[0] != known[1]) < 0.02, "one or two on the edge may differ: rounding does"


TURNING = {
    "slider-crank": (slider_crank, turning_slider_crank(), np.pi / 2),
    "two four-bars": (lambda: n_four_bar(2), turning_n_four_bar(2), 0.0),
    "ten four-bars": (lambda: n_four_bar(10), turning_n_four_bar(10), 0.0),
}


@pytest.mark.parametrize("name, coordinates", [
    ("two four-bars", "absolute"),
    *(pytest.param(name, how, marks=THOROUGH) for name in TURNING for how in COORDINATES if (name, how) != (
        "two four-bars", "absolute")),
])  # fmt: skip
def test_reactions_of_other_machines_across_a_passage_are_right_or_marked(name, coordinates):
    """The force of every joint at 100 instants across the position: within 1e-6 of Newton and Euler in 80 digits, or
    marked. A force that passes zero is held against a thousandth of what turns the machine's momentum, or of its least
    load: that is what the marks promise (`_within` of `results/_instants.py`). The crank is where the state has it, as
    forces may grow towards the position, and turns as by hand: rounding/σ² of a state turns its velocities by 1e-7."""
    make, by_hand, singular = TURNING[name]
    machine = make()
    system = da.build(machine.model, coordinates=coordinates)
    whole = da.simulate(system, 0.4, samples="dense")
    rising = 1.0 if machine.start[1] > 0 else -1.0
    low, high = 0.0, 0.4
    for _ in range(60):
        middle = 0.5 * (low + high)
        angle = float(system.lift(*(np.asarray(x) for x in (whole.at(middle).q, whole.at(middle).v)))[0][2])
        low, high = (middle, high) if rising * (angle - singular) < 0 else (low, middle)
    aside = np.logspace(-1.5, -9, 50)
    times = np.concatenate([[0.0], np.sort(low + np.concatenate([-aside, aside]))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.SingularWarning)
        data = da.simulate(system, float(times[-1]), samples=times).dataset
    theta, omega = data["angle"].sel(body=machine.crank).values, machine.by_hand(times)[1]
    assert np.max(np.abs(data["angular_velocity"].sel(body=machine.crank) / omega - 1)) < 1e-6
    force, sure = (data[x].sel(joint=list(by_hand.pins)).values for x in ("reaction_force", "unique_force"))
    least = np.min(np.max(np.abs(force), axis=(1, 2)))
    typical = 2 * float(np.median(data["energy_kinetic"])) / float(system.bodies.size)
    exact = [list(by_hand.reactions(th, w).values()) for th, w in zip(theta, omega, strict=True)]
    error = np.abs(force - np.array(exact)) / np.maximum(np.abs(exact), 1e-3 * max(least, typical))
    assert np.max(error[sure]) <= 1e-6
    assert np.mean(sure) > 0.55 and sure[0].all(), "most is not marked, and nothing is far from the position"


@pytest.mark.parametrize("coordinates", ["joint", pytest.param("absolute", marks=THOROUGH)])
def test_where_rounding_hides_in_many_directions_what_has_a_limit_is_given(coordinates):
    """Started 1e-8 rad from the line rounding has moved the cranks of ten four-bars as far from it as θ, and a small
    perturbation of that state shows nothing: values come from both sides. Forces across the line have a limit."""
    machine, by_hand = n_four_bar(10, -5.0, 1e-8), turning_n_four_bar(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.SingularWarning)
        data = da.simulate(da.build(machine.model, coordinates=coordinates), 1e-3, samples=2).dataset
    at = data.isel(time=0)
    theta, omega = (float(at[x].sel(body="crank0")) for x in ("angle", "angular_velocity"))
    exact = np.array(list(by_hand.reactions(theta, omega).values()))
    force, sure = (at[x].sel(joint=list(by_hand.pins)).values for x in ("reaction_force", "unique_force"))
    assert sure[:, 1].all() and not sure[:, 0].any()
    np.testing.assert_allclose(force[:, 1], exact[:, 1], rtol=1e-6)


@pytest.mark.parametrize("more", [1e-9, pytest.param(1e-6, marks=THOROUGH)])
@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
def test_a_reaction_that_hardly_grows_is_marked_where_it_matters(coordinates, more):
    """With equal cranks the forces along the line have limits; with cranks that differ by 1e-9 they grow as 1e-9/θ,
    which is not seen aside and is 4 % at θ = 1e-9. Forces across the line cannot grow, whatever the masses."""
    masses = (1.0, 1.0 + more, 1.0)
    for theta in (1e-9, 1e-7, 1e-3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", da.errors.SingularWarning)
            machine = parallelogram(masses, theta, -5.0).model
            data = da.simulate(da.build(machine, coordinates=coordinates), 1e-4, samples=2).dataset.isel(time=0)
        angle, omega = (float(data[x].sel(body="a")) for x in ("angle", "angular_velocity"))
        exact = parallelogram_by_hand(masses, angle, omega)
        force, sure = (data[x].sel(joint="P").values for x in ("reaction_force", "unique_force"))
        assert sure.tolist() == [theta > 1e-5, True]
        assert force[1] == pytest.approx(exact[1], rel=1e-6)
        assert not sure[0] or force[0] == pytest.approx(exact[0], rel=1e-6)


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
def test_at_the_very_position_what_has_a_limit_is_given(coordinates):
    masses = (1.0, 3.0, 1.0)
    system = da.build(parallelogram(masses, 0.0, 5.0).model, coordinates=coordinates)
    with pytest.warns(da.errors.SingularWarning, match="t = 0 s"):
        solution = da.simulate(system, 0.1, samples=5)
        pin = solution.reactions("P")
    _, Fy, acceleration = parallelogram_by_hand(masses, 0.0, 5.0)
    data = solution.dataset
    assert int(data["rank"][0]) == int(data["rank"][1]) - 1
    assert pin["unique_force"].values[0].tolist() == [False, True] and bool(pin["unique_force"][1:].all())
    assert float(pin["force"][0, 1]) == pytest.approx(Fy, rel=1e-6)
    assert data["angular_acceleration"].values[0, :2] == pytest.approx([acceleration] * 2, rel=1e-6)


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
def test_a_motion_that_is_saved_at_its_singular_position_alone_is_not_redundant(coordinates):
    """Nowhere do its saved states show what rank is usual: it is that beside them, and no rule has a say."""
    system = da.build(parallelogram((1.0, 3.0, 1.0), 0.0, 5.0).model, coordinates=coordinates)
    with pytest.warns(da.errors.SingularWarning, match="are dependent"):
        solution = da.simulate(system, 1e-9, samples=3)
        pin = solution.reactions("P")
    assert (solution.redundancy, solution.rank) == (0, system.m)
    assert solution.dataset["rank"].values.tolist() == [system.m - 1] * 3
    assert pin["unique_force"].values.tolist() == [[False, True]] * 3
    np.testing.assert_allclose(pin["force"][:, 1], parallelogram_by_hand((1.0, 3.0, 1.0), 0.0, 5.0)[1], rtol=1e-6)


@pytest.fixture(scope="module")
def started_in_line():
    """Unequal cranks in line at t = 0: rank 7, elsewhere 8; forces along the line have no value at that instant."""
    return da.simulate(parallelogram((1.0, 3.0, 1.0), 0.0, 5.0).model, 0.1, samples=5)


def test_a_result_says_when_reactions_are_not_determined(started_in_line, tmp_path):
    """Page, figures, labelled data and report: no word that all reactions are unique at all times."""
    data = started_in_line.dataset
    assert data["rank"].values.tolist() == [7, 8, 8, 8, 8] and started_in_line.redundancy == 0
    (window,) = windows(data)
    assert (window.first, window.last, window.low, window.high) == (0.0, 0.0, 0.0, 0.0125)
    assert window.joints == ("A", "B", "P", "Q") and window.singular
    notes = scene_of(data).notes
    assert notes[0] == "all reactions are unique at all other times"
    assert notes[1] == "not determined at t = 0 s (singular position): reactions of A, B, P, Q"
    assert data.attrs["reaction_rule"] == "unique, but not determined at t = 0 s"
    report = da.reports.report(started_in_line, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "not determined at t = 0 s (singular position)" in report
    assert "every reaction is unique." not in report and "no rule was needed." not in report
    picture = started_in_line.plot("mechanism")
    assert "not determined at t = 0 s" in picture.axes[0].get_title("left")
    assert "not determined" not in started_in_line.plot("mechanism", t=0.1).axes[0].get_title("left")


def test_of_few_shown_times_a_page_still_marks_those_left_out(started_in_line):
    """A page shows a selection of the saved times; windows and notes are those of all of them."""
    data = started_in_line.dataset.isel(time=[1, 0, 2, 3, 4]).assign_coords(time=started_in_line.dataset["time"])
    scene = scene_of(data, frames=2)  # every third and the last: the second time is not shown
    assert [round(float(t), 4) for t in scene.t] == [0.0, 0.075, 0.1]
    assert [(w.low, w.high) for w in scene.windows] == [(0.0125, pytest.approx(0.0375))]
    assert scene.notes[1].startswith("not determined at t = 0.025 s")


def test_figures_shade_the_times_at_which_reactions_are_not_determined(started_in_line):
    """A grey band half-way to the next saved time, in every figure of reactions, and in no other."""

    def bands(axis):
        return [(p.get_x(), p.get_x() + p.get_width()) for p in axis.patches if p.get_alpha() == 0.25]

    page = started_in_line.plot()
    shown = {axis.get_title().split("\n")[0]: bands(axis) for axis in page.axes}
    assert shown.pop("size of reaction forces") == [(0.0, 0.0125)]
    assert not any(shown.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.SingularWarning)
        for options in ({}, {"joint": "P"}):
            drawn = started_in_line.plot("reactions", **options)
            assert [bands(axis) for axis in drawn.axes if axis.get_visible()] == [[(0.0, 0.0125)]] * len(drawn.axes)
    # of a joint whose own reaction is known there is no band
    data = started_in_line.dataset.copy(deep=True)
    for name in ("unique_force", "unique_force_in_joint", "unique_torque", "unique_torque_in_joint"):
        data[name].loc[{"joint": "A"}] = True
    data["unique_multiplier"][:, data["row_owner"].values == "A"] = True
    assert bands(plot_dataset(data, "reactions", joint="A").axes[0]) == []


def test_one_warning_of_a_run_names_the_time_and_the_joints():
    solution = da.simulate(parallelogram((1.0, 3.0, 1.0), 0.0, 5.0).model, 0.1, samples=5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for joint in ("P", "Q", "A", "P"):
            solution.reactions(joint)
        solution.plot("reactions")
    (told,) = [str(w.message) for w in caught if issubclass(w.category, da.errors.SingularWarning)]
    assert "at t = 0 s the rows of 'A', 'B', 'P', 'Q' are dependent" in told
    assert solution.reactions("P").attrs["rule"] == "unique, but not determined at t = 0 s"


# ---- singular positions that no motion leaves -----------------------------------------------------------------------


def straight_chain(links: int, gravity=(0.0, -9.81)) -> da.Model:
    """Rods of 1 m in one line between two supports that are as far apart: no other pose exists."""
    model, before = da.Model("straight", gravity=gravity), "ground"
    for k in range(links):
        model.body(f"rod{k}", mass=1.0, inertia=1 / 12, position=(k + 0.5, 0.0))
        model.revolute(f"pin{k}", before, f"rod{k}", at=(k, 0.0))
        before = f"rod{k}"
    model.revolute("end", "ground", before, at=(links, 0.0))
    return model


@pytest.mark.parametrize(
    "links, coordinates", [(2, "absolute"), (3, "joint"), *(pytest.param(40, x, marks=THOROUGH) for x in COORDINATES)]
)
def test_a_straight_chain_under_its_weight_is_refused(links, coordinates):
    """Its tension is infinite: it must neither fall nor hold with finite forces, and has no freedom."""
    system = da.build(straight_chain(links), coordinates=coordinates)
    ways = "1 direction" if links == 2 else f"{links - 1} directions"
    with pytest.raises(da.errors.AssemblyError, match=f"taut.* velocities in {ways}, but no displacement.* infinite"):
        da.simulate(system, 0.1)
    found = da.check(system)
    assert found.mobility == 0 and not found.free_motions and "taut" in found.remarks[0]
    assert found.solvability is not None and not any(x.values for x in found.solvability.joints)


@pytest.mark.parametrize("tilt", [0.3, 2.0])
def test_rows_that_the_tree_keeps_are_not_taut(tilt):
    """A flap on two hinges in one line falls, at whatever angle it starts: the rows of the second one vanish in joint
    coordinates, and their curvature is rounding. ω² = 2 m g (h₀ − h)/(J + m r²)."""
    model = da.Model("flap", space="space", gravity=(0, 0, -9.81))
    place, hinge = np.array([0.5 * np.cos(tilt), 0, 0.3 + 0.5 * np.sin(tilt)]), np.array([0.1, 0, 0.3])
    flap = model.body("flap", mass=2.0, inertia=(0.1, 0.2, 0.2), position=place)
    for k, y in enumerate((-0.2, 0.2)):
        model.revolute(f"hinge{k}", model.ground, flap, at=hinge + (0, y, 0), axis=(0, 1, 0))
    system = da.build(model, coordinates="joint")
    assert da.check(system).mobility == 1 and not [x for x in da.check(system).remarks if "taut" in x]
    last = da.simulate(system, 0.3, samples=[0.3]).dataset.isel(time=-1)
    fallen = place[2] - float(last["position"].sel(axis="z")[0])
    rate = float(last["angular_velocity"].sel(axis="y")[0])
    assert fallen > 0.05
    assert rate**2 == pytest.approx(2 * 2.0 * 9.81 * fallen / (0.2 + 2.0 * np.sum((place - hinge) ** 2)), rel=1e-7)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_a_pendulum_at_the_end_of_its_rod_is_taut(coordinates):
    """The only row of one freedom vanishes, with a curvature: the rod holds the tip where it is farthest."""
    model = da.Model("taut", gravity=(0, -9.81))
    bar = model.body("bar", mass=1.0, inertia=0.1, position=(0.5, 0))
    model.revolute("pin", model.ground, bar, at=(0, 0))
    model.distance("rod", model.ground, bar, at_i=(-1, 0), at_j=(1, 0))
    with pytest.raises(da.errors.AssemblyError, match="taut.* with .*'rod'.* velocities in 1 direction"):
        da.simulate(da.build(model, coordinates=coordinates), 0.1)


def test_a_straight_chain_without_a_load_across_it_stays_at_rest():
    """Weight along the chain: the pins bear it, in a share that the rigid-body model leaves open."""
    solution = da.simulate(straight_chain(3, gravity=(9.81, 0.0)), 0.1, samples=3)
    np.testing.assert_array_equal(solution.q[-1], solution.q[0])


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_velocities_off_every_branch_are_refused(coordinates):
    """In line the cranks may turn at any two speeds to first order. The coupler keeps its length, to second order
    2(θ² − φ²) + (φ − θ)² = 0: motions exist with φ = θ (parallel) and φ = −3θ (crossed) only."""
    system = da.build(parallelogram((1.0, 3.0, 1.0), 0.0, 2.0).model, coordinates=coordinates)
    q, v = da.stabilise.consistent_state(system)
    rows = np.asarray(da.assemble(system, 0.0, q, v).C)
    free = np.linalg.svd(rows)[2][np.linalg.matrix_rank(rows, 1e-9) :].T
    cranks = [2, 5] if coordinates == "absolute" else [0, 1]
    v = free @ np.linalg.solve(free[cranks], [2.0, 0.5])
    with pytest.raises(da.errors.AssemblyError, match="velocities that no motion through it has.*'Q'"):
        da.simulate(system, 0.1, state=(q, v))


def test_far_from_the_origin_fewer_digits_are_promised():
    """Moved 10 km away, positions of a machine of 1 m are known to 1e-12: so many digits fewer reactions have."""
    masses = (1.0, 3.0, 1.0)
    far = parallelogram(masses, 0.05, 1.0, away=(1e4, 7e3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.SingularWarning)
        data = da.simulate(da.build(far.model), 0.01, samples=2).dataset
    theta, omega = (float(data[x].sel(body="a")[-1]) for x in ("angle", "angular_velocity"))
    Fx = float(data["reaction_force"].sel(joint="P")[-1, 0])
    exact = parallelogram_by_hand(masses, theta, omega)[0]
    assert abs(Fx / exact - 1) < 10.0 ** -float(data["digits"][-1])


# ---- motion -------------------------------------------------------------------------------------------------------

MACHINES = {
    "parallelogram": lambda: parallelogram((1.0, 10.0, 1.0)),
    "two four-bars": lambda: n_four_bar(2),
    "ten four-bars": lambda: n_four_bar(10),
    "slider-crank": slider_crank,
}
ALWAYS = {("parallelogram", "absolute", 1e-10), ("parallelogram", "joint", 1e-8)}


def settings(names, rtols, always):
    """(name, coordinates, rtol), those not in `always` thorough."""
    every = [(n, how, r) for n in names for how in ("absolute", "joint") for r in rtols]
    return [x if x in always else pytest.param(*x, marks=THOROUGH) for x in every]


@pytest.mark.parametrize("name, coordinates, rtol", settings(MACHINES, (1e-6, 1e-8, 1e-10), ALWAYS))
def test_energy_and_angle_through_singular_positions(name, coordinates, rtol, request):
    """Energy within 10 tolerances over 60 s (10 s every day), some 100 passages; the angle by hand."""
    machine = MACHINES[name]()
    span = 60.0 if request.config.getoption("--thorough") else 10.0
    system = da.build(machine.model, coordinates=coordinates)
    solution = da.simulate(system, span, rtol=rtol, samples=201)
    assert drift(solution) < 10 * rtol
    assert max(solution.violation.values()) < 1e-10
    angle = np.unwrap(solution.dataset["angle"].sel(body=machine.crank).values)
    # an energy that is off by e makes the speed wrong by about e, and the angle by e ω t; at least 1e-9 a passage
    # stays open, as v̇ is known to 1e-10 beside a singular position (docs/theory/simulation.md, 6.3a)
    assert np.max(np.abs(angle - machine.by_hand(np.asarray(solution.t))[0])) < (10 * rtol + 1e-9) * 10 * span


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
@pytest.mark.thorough
def test_light_cranks_pass_too(coordinates):
    """Cranks of a milligram under a coupler of 1 kg, two passages: weak directions are a thousandth of usual ones."""
    machine = parallelogram((1e-6, 3e-6, 1.0))
    solution = da.simulate(da.build(machine.model, coordinates=coordinates), 1.0, rtol=1e-8, samples=41)
    angle = np.unwrap(solution.dataset["angle"].sel(body="a").values)
    # rounding times the ratio of the masses, over two passages
    assert np.max(np.abs(angle - machine.by_hand(np.asarray(solution.t))[0])) < 1e-5
    assert drift(solution) < 1e-6


@pytest.mark.parametrize(("theta", "omega"), [
    (1e-6, 2.0), pytest.param(1e-8, 2.0, marks=THOROUGH), pytest.param(0.0, 0.0, marks=THOROUGH)
])  # fmt: skip
@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
def test_a_redundant_start_beside_a_singular_position(theta, omega, coordinates):
    """A coupler of 3 kg on three cranks, started all in line but for θ: the ranks beside it must not be those of
    states that only nearly close. The angle by hand: J θ̈ = −W cos θ."""
    model = da.Model("three cranks", gravity=(0, -9.81))
    along, across = np.array([np.cos(theta), np.sin(theta)]), np.array([-np.sin(theta), np.cos(theta)])
    coupler = model.body("coupler", mass=3.0, inertia=1.0, position=(1, 0) + along, velocity=omega * across)
    for k in range(3):
        foot = np.array([float(k), 0.0])
        crank = model.body(
            f"crank{k}", mass=1.0, inertia=1 / 12, position=foot + along / 2, angle=theta,
            velocity=omega * across / 2, angular_velocity=omega,
        )  # fmt: skip
        model.revolute(f"foot{k}", model.ground, crank, at=foot)
        model.revolute(f"head{k}", crank, coupler, at=foot + along)
    by_hand = solve_ivp(
        lambda t, y: (y[1], -9.81 * 4.5 / 4.0 * np.cos(y[0])), (0, 0.2), (theta, omega), rtol=1e-12, atol=1e-14
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.errors.SingularWarning)
        solution = da.simulate(da.build(model, coordinates=coordinates), 0.2, samples=3)
        angle = float(solution.dataset["angle"].sel(body="crank0")[-1])
    assert solution.stats["steps"] < 500  # 30 to 203 as measured; by the wrong ranks more than a thousand
    assert angle == pytest.approx(by_hand.y[0, -1], abs=1e-7)


def test_digits_that_light_bodies_cost_in_a_passage_are_said():
    """Cranks of 1 mg on a coupler of 1 kg: about 1e-8 is left by the line position, whatever the tolerance."""
    machine = parallelogram((1e-6, 1e-6, 1.0), 0.3, -5.0).model
    with pytest.warns(
        da.errors.SingularWarning, match=r"for 0\.\d+ s in all .* singular .* very light .* 1e-08 of the machine"
    ):
        da.simulate(machine, 0.1, samples=2, rtol=1e-10)


@pytest.mark.parametrize("masses", [(1.0, 1e-6, 1.0), pytest.param((1e-6, 1.0, 1e-6), marks=THOROUGH)])
@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
def test_light_bodies_pass_within_the_tolerance(masses, coordinates):
    """A light body makes some rows nearly dependent everywhere: a singular position must be seen beside that."""
    machine, times = change_point(masses), np.array([0.0, 1.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = da.simulate(da.build(machine.model, coordinates=coordinates), 1.5, samples=times)
    angle = float(solution.dataset["angle"].sel(body="crank")[-1])
    turns = (angle - machine.by_hand(times)[0, -1]) / (2 * np.pi)
    assert turns == pytest.approx(round(turns), abs=1e-8)


def test_the_short_and_the_careful_program_march_alike(monkeypatch):
    """The same fixed steps, through three passages: states differ by rounding, which a passage makes 1e-10 of."""
    system = da.build(parallelogram().model)
    native, short = (da.simulate(system, 1.0, dt=0.005, engine=engine) for engine in ("native", "jax"))
    monkeypatch.setattr(_march, "waits", lambda plan: False)
    careful = da.simulate(system, 1.0, dt=0.005, engine="jax")
    assert short.restart.mark.careful and native.restart.engine == "native"
    for run in (native, short):
        assert run.stats["steps"] == careful.stats["steps"] == 200
        np.testing.assert_allclose(run.q, careful.q, rtol=0, atol=1e-10)
        np.testing.assert_allclose(run.v, careful.v, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "coordinates, rtol",
    [
        ("joint", 1e-8),
        *(pytest.param(c, r, marks=THOROUGH) for c, r in (("absolute", 1e-8), ("joint", 1e-11), ("absolute", 1e-11))),
    ],
)
def test_slow_passage_with_unequal_cranks(coordinates, rtol):
    """Released 1e-5 rad above the line, so that it turns back beside a singular position: the angle after 2 s. Sides
    of a state that are beyond the turn, in the line position, do not count: else it takes thousands of steps."""
    machine = parallelogram((1.0, 10.0, 1.0), 1e-5, 0.0)
    exact = machine.by_hand(np.array([0.0, 2.0]))[0, -1]
    solution = da.simulate(da.build(machine.model, coordinates=coordinates), 2.0, rtol=rtol, samples=3)
    bound = {1e-8: 1e-6, 1e-11: 1e-8}[rtol]
    assert float(solution.dataset["angle"].sel(body="a")[-1]) == pytest.approx(exact, abs=bound)
    assert solution.stats["steps"] < {1e-8: 150, 1e-11: 1500}[rtol]


@pytest.mark.parametrize(
    "name, coordinates, rtol", settings((3.0, 5.0, 8.0), (1e-6, 1e-8, 1e-10), {(5.0, "absolute", 1e-8)})
)
def test_peaucellier_keeps_its_energy_through_flat_positions(name, coordinates, rtol, request):
    """Started at 3 to 8 rad/s it passes its flat pose (rank 18 of 20) again and again."""
    system, state = peaucellier(coordinates, name)
    span = 60.0 if request.config.getoption("--thorough") else 6.0
    solution = da.simulate(system, span, state=state, rtol=rtol, samples=121)
    assert drift(solution) < 10 * rtol
    assert max(solution.violation.values()) < 1e-10


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.thorough
def test_peaucellier_turns_as_by_the_equation_of_its_only_freedom(coordinates):
    """3 s at 5 rad/s, through its flat pose and back: the energy's share of the tolerance, as for the others above."""
    system, state = peaucellier(coordinates, 5.0)
    times = np.linspace(0.0, 3.0, 61)
    for rtol in (1e-8, 1e-10):
        solution = da.simulate(system, 3.0, state=state, rtol=rtol, samples=times)
        angle = np.unwrap(solution.dataset["angle"].sel(body="crank").values)
        error = np.max(np.abs(angle - angle[0] - peaucellier_by_hand(5.0, times)))
        assert error < (10 * rtol + 1e-9) * 10 * 3.0
    assert np.min(np.diff(np.sign(np.diff(angle)))) < 0, "the crank has turned back, at a flat pose"


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.thorough
def test_fixed_steps_of_other_machines_are_right_or_name_the_position(name, coordinates):
    """2 s, three or four passages, by a method of order 8: the angle converges with the step; a run that would be wrong
    by more than the step explains is stopped with a singular position named."""
    machine = MACHINES[name]()
    system, times = da.build(machine.model, coordinates=coordinates), np.linspace(0.0, 2.0, 21)
    exact, errors = machine.by_hand(times)[0], {}
    for dt in (0.02, 0.005, 0.0025):
        try:
            solution = da.simulate(system, 2.0, dt=dt, integrator="dopri8", samples=times)
        except da.errors.SimulationError as error:
            assert dt > 0.005 and "singular position" in str(error)
            continue
        angle = np.unwrap(solution.dataset["angle"].sel(body=machine.crank).values)
        errors[dt] = float(np.max(np.abs(angle - exact)))
    # 1e-9 for each passage, as for steps under control; a step of 0.02 s turns the crank by a tenth of a radian
    assert errors[0.0025] < 1e-7 and errors[0.005] < 1e-6 and errors.get(0.02, 0.0) < 1e-3


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=THOROUGH)])
@pytest.mark.thorough
def test_fixed_steps_converge_through_singular_positions_or_name_them(coordinates):
    """Peaucellier at 5 rad/s, some 10 passages: the energy comes with the step, and a step too long is told why."""
    system, state = peaucellier(coordinates, 5.0)
    found = {}
    for dt in (0.005, 0.0025):
        solution = da.simulate(system, 5.0, state=state, dt=dt, integrator="dopri8", samples=101)
        found[dt] = drift(solution)
    assert found[0.005] < 1e-7 and found[0.0025] < 2e-9
    with pytest.raises(da.errors.SimulationError, match="A singular position is near: rows of .*'L1'"):
        da.simulate(system, 10.0, state=state, dt=0.05, integrator="tsit5", samples=101)
