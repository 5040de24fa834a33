"""Parameters from data: known ones are found within their stated deviations, and what data cannot tell is named."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.studies import Experiment, identify
from dalembert.studies._consistent import Consistent
from dalembert.studies._design import Design

REPEATS = [pytest.param(8), pytest.param(100, marks=pytest.mark.thorough)]

# ---- a five-bar with two motors -------------------------------------------------------------------------------------

SPAN = 1.0
LENGTHS = {"left": 0.5, "upper_left": 0.8, "upper_right": 0.9, "right": 0.6}
STARTS = (1.6, 1.5)  # angles of the driven links
G = 9.81
LAWS = ((0.5, 7.0), (0.4, 5.0))  # amplitude and frequency of the motors
MASSES = {
    "left": (1.0, 0.05, 0.02),
    "upper_left": (0.7, -0.08, 0.05),
    "upper_right": (0.9, 0.06, -0.03),
    "right": (1.2, 0.1, 0.0),
}
INERTIAS = {"left": 0.03, "upper_left": 0.05, "upper_right": 0.06, "right": 0.04}
PLACES = ("mass", "centre.x", "centre.y", "inertia")


def pose(angles):
    """Where the five pins are, by the intersection of two circles."""
    A, E = jnp.zeros(2), jnp.array([SPAN, 0.0])
    B = A + LENGTHS["left"] * jnp.array([jnp.cos(angles[0]), jnp.sin(angles[0])])
    D = E + LENGTHS["right"] * jnp.array([jnp.cos(angles[1]), jnp.sin(angles[1])])
    d = D - B
    size = jnp.sqrt(d @ d)
    x = (size**2 + LENGTHS["upper_left"] ** 2 - LENGTHS["upper_right"] ** 2) / (2 * size)
    y = jnp.sqrt(LENGTHS["upper_left"] ** 2 - x**2)
    C = B + (x * d + y * jnp.array([-d[1], d[0]])) / size
    return A, B, C, D, E


def links(angles):
    """Of each link the pin at which its frame sits (not its centre), and its angle."""
    A, B, C, D, E = pose(angles)
    pairs = ((A, B), (B, C), (D, C), (E, D))
    return jnp.stack([p for p, _ in pairs]), jnp.stack([jnp.arctan2(*(q - p)[::-1]) for p, q in pairs])


def drives(t):
    return jnp.stack([s + a * jnp.sin(w * t) for s, (a, w) in zip(STARTS, LAWS, strict=True)])


def five_bar_model(stiffness: float | None = None) -> da.Model:
    """Centres of mass lie on the links' middles in the model; `centre` moves them to where they are. With a `stiffness`
    a spring in its top pin, at rest where the machine starts."""
    model = da.Model("five-bar", gravity=(0, -G))
    pins = [np.asarray(p) for p in pose(jnp.array(STARTS))]
    ends = {"left": (0, 1), "upper_left": (1, 2), "upper_right": (3, 2), "right": (4, 3)}
    for name, (i, j) in ends.items():
        p, q = pins[i], pins[j]
        angle = float(np.arctan2(*(q - p)[::-1]))
        model.body(name, mass=MASSES[name][0], inertia=INERTIAS[name], position=(p + q) / 2, angle=angle)
    pairs = (
        ("ground", "left"),
        ("left", "upper_left"),
        ("upper_left", "upper_right"),
        ("upper_right", "right"),
        ("ground", "right"),
    )
    for name, (i, j), at in zip("ABCDE", pairs, pins, strict=True):
        model.revolute(name, i, j, at=at)
    for name, joint, law in (("motor_a", "A", LAWS[0]), ("motor_e", "E", LAWS[1])):
        model.driver(name, joint, da.functions.harmonic(*law))
        model.measure(f"torque_{name[-1]}", "effort", name)
    model.measure("pin", "reaction", "C", component="Fx", frame="world")
    if stiffness is not None:
        model.joint_spring("spring", "C", stiffness=stiffness)
    return model


@pytest.fixture(scope="module")
def five_bar():
    return five_bar_model()


def regressor(t):
    """The torques of both motors as a linear function of (m, m cx, m cy, J) of each link about its frame's pin, by
    virtual work of each body: no code of the package."""
    rate = lambda f: lambda t: jax.jvp(f, (t,), (1.0,))[1]  # noqa: E731
    at = lambda t: links(drives(t))  # noqa: E731
    (_, th), (_, w), (acc, al) = at(t), rate(at)(t), rate(rate(at))(t)
    along = jax.jacfwd(links)(drives(t))  # virtual displacements of pins and angles by the two drives
    columns = []
    for k in range(4):
        a = acc[k] + jnp.array([0.0, G])
        R = jnp.array([[jnp.cos(th[k]), -jnp.sin(th[k])], [jnp.sin(th[k]), jnp.cos(th[k])]])
        cross = jnp.array([[0.0, -1.0], [1.0, 0.0]])
        force = jnp.column_stack([a, (al[k] * cross - w[k] ** 2 * jnp.eye(2)) @ R, jnp.zeros(2)])
        lever = jnp.array([0.0, *((R.T @ a) @ cross.T @ jnp.eye(2)), al[k]])
        lever = lever.at[1].set(R[:, 0][0] * a[1] - R[:, 0][1] * a[0]).at[2].set(R[:, 1][0] * a[1] - R[:, 1][1] * a[0])
        columns.append(along[0][k].T @ force + jnp.outer(along[1][k], lever))
    return jnp.concatenate(columns, axis=1)


def standard(p):
    """(m, m cx, m cy, J) of a link from mass, centre (from its middle) and inertia about the centre."""
    parts = []
    for k, length in enumerate(LENGTHS.values()):
        m, x, y, inertia = p[4 * k : 4 * k + 4]
        x = x + length / 2
        parts.append(jnp.stack([m, m * x, m * y, inertia + m * (x**2 + y**2)]))
    return jnp.concatenate(parts)


NAMES = [f"{link}.{word}" for link in LENGTHS for word in PLACES]
TRUE = np.array([x for link in LENGTHS for x in (*MASSES[link], INERTIAS[link])])
TIMES = np.linspace(0.05, 1.5, 30)


@pytest.fixture(scope="module")
def torques():
    return np.asarray(jax.jit(jax.vmap(lambda t: regressor(t) @ standard(TRUE)))(TIMES))


@pytest.fixture(scope="module")
def base(five_bar, torques):
    data = {"time": TIMES, "torque_a": torques[:, 0], "torque_e": torques[:, 1]}
    return identify(five_bar, data, dict(zip(NAMES, TRUE, strict=True)), noise=0.01, driven=True, sensors={"pin": 0.01})


def test_base_parameters_of_a_five_bar(base, torques):
    """Which changes of the sixteen numbers leave the torques as they are: equal to the null space of a regressor that
    is written by hand, and each combination that is named is one that it determines."""
    J = np.asarray(jax.vmap(lambda t: regressor(t) @ jax.jacfwd(standard)(jnp.asarray(TRUE)))(TIMES)).reshape(-1, 16)
    np.testing.assert_allclose(base.predicted[0], torques, atol=1e-8 * np.max(np.abs(torques)))
    own = base.verdict.rows * 0.01
    np.testing.assert_allclose(own, J, atol=1e-7 * np.max(np.abs(J)))
    _, s, Vt = np.linalg.svd(J)
    rank = int(np.sum(s > 1e-9 * s[0]))
    assert base.verdict.rank == rank < 16
    null = Vt[rank:].T
    spans = np.linalg.qr(base.verdict.null)[0]
    np.testing.assert_allclose(spans @ (spans.T @ null), null, atol=1e-6)
    for b in base.verdict.base:
        full = np.zeros(16)
        full[[NAMES.index(n) for n in b.names]] = b.coefficients
        assert np.max(np.abs(full @ null)) < 1e-5 * np.linalg.norm(full), b.text
    assert len(base.verdict.base) == rank
    # no parameter is told alone unless nothing of the null space moves it
    for k, name in enumerate(NAMES):
        assert (base.verdict[name].word == "determined") == (np.linalg.norm(null[k]) < 1e-6), name
        assert np.isfinite(base.deviation[name]) == (base.verdict[name].word == "determined")
    text = repr(base)
    assert f"determine {rank} of 16" in text and "Only in combinations" in text
    assert base.verdict.ranks["a sensor of 'pin'"] > 0 and "A sensor of 'pin'" in text


def spring_torques(stiffness: float):
    """What a spring in the top pin asks of the motors: the slopes of its energy, k φ²/2, by the two drives."""
    turned = lambda angles: links(angles)[1][2] - links(angles)[1][1]  # noqa: E731
    rest = turned(jnp.array(STARTS))
    energy = lambda angles: 0.5 * stiffness * (turned(angles) - rest) ** 2  # noqa: E731
    return lambda t: jax.grad(energy)(drives(t))


def cover(found, clean, sigma, truth, repeats: int) -> None:
    """Each of many fits to data with noise is judged by its own stated covariance. The noise is drawn here: normal, of
    the deviations `sigma` that the fit was told.

    All of `repeats` × parameters estimates lie within three stated deviations but for 10 % at most, those of each
    parameter as well (of 8 repeats one may be off); squares of deviations, by the whole covariance, have the mean that
    χ² has within four of its own deviations, √(2/n)."""
    rng, off, squares = np.random.default_rng(7), [], []
    times = clean["time"]
    for _ in range(repeats):
        noisy = {n: clean[n] + s * rng.standard_normal(len(times)) for n, s in sigma.items()}
        one = found.again({"time": times, **noisy})
        assert one.noise == pytest.approx(sigma) and one.verdict.complete
        error = np.array(list(one.values.values())) - truth
        off.append(error / np.array(list(one.deviation.values())))
        squares.append(error @ np.linalg.solve(one.covariance, error))
    inside = np.abs(off) < 3
    share, n = np.mean(inside), repeats * len(truth)
    print(f"{repeats} fits of {len(truth)} parameters: {100 * share:.1f} % within 3 deviations, each parameter "
          f"{100 * np.mean(inside, axis=0)}; mean square {np.sum(squares) / n:.3f}")  # fmt: skip
    assert 0.9 <= share <= 1.0
    assert np.all(np.mean(inside, axis=0) >= min(0.9, 1 - 1 / repeats))
    assert abs(np.sum(squares) / n - 1) < 4 * np.sqrt(2 / n)


@pytest.mark.thorough
@pytest.mark.parametrize("repeats", REPEATS)
def test_coverage_of_a_five_bar(repeats):
    """A mass, inertias, a length (by a pin's place on its link) and a spring constant from the torques of its motors,
    which are written by hand (`regressor`, `spring_torques`)."""
    stiffness = 3.0
    centres = {n: TRUE[NAMES.index(n)] for n in NAMES if "centre" in n}
    fixed = centred(five_bar_model(stiffness), centres)
    own = da.build(fixed).parameters()
    truth = {
        "left.inertia": INERTIAS["left"], "right.mass": MASSES["right"][0],
        "upper_right.inertia": INERTIAS["upper_right"],
        "C.point_i.x": LENGTHS["upper_left"] / 2 - MASSES["upper_left"][1], "spring.stiffness": stiffness,
    }  # fmt: skip
    assert own["C.point_i"][0] == pytest.approx(truth["C.point_i.x"], abs=1e-12)
    law = spring_torques(stiffness)
    torques = np.asarray(jax.jit(jax.vmap(lambda t: regressor(t) @ standard(TRUE) + law(t)))(TIMES))
    clean = {"time": TIMES, "torque_a": torques[:, 0], "torque_e": torques[:, 1]}
    sigma = {"torque_a": 0.05, "torque_e": 0.05}
    guess = {n: v * 1.05 for n, v in truth.items()}
    found = identify(fixed, clean, guess, noise=sigma, driven=True)
    assert found.verdict.complete
    np.testing.assert_allclose(list(found.values.values()), list(truth.values()), rtol=1e-6)
    cover(found, clean, sigma, np.array(list(truth.values())), repeats)


def centred(model, centres):
    """The model with its centres of mass moved."""
    from dalembert.studies._machine import Machine, Task
    from dalembert.studies._stated import stated

    machine = Machine(model, list(centres), Task())
    x = np.array(list(centres.values()))
    return stated(model, machine.plain.replace(machine.values(x)), machine.closed(x))


# ---- a slider-crank with a spring, by its motion --------------------------------------------------------------------


@pytest.fixture(scope="module")
def slider_crank():
    """It swings by itself: masses, an inertia, a length and a spring constant."""
    model = da.Model("slider-crank", gravity=(0, -G))
    crank = model.body("crank", mass=1.0, inertia=0.02, position=(0.15, 0.2), angle=float(np.arctan2(0.4, 0.3)))
    rod = model.body("rod", mass=2.0, inertia=0.1, position=(0.7, 0.2), angle=float(np.arctan2(-0.4, 0.8)))
    slider = model.body("slider", mass=3.0, inertia=0.1, position=(1.1, 0.0))
    model.revolute("A", model.ground, crank, at=(0, 0))
    model.revolute("B", crank, rod, at=(0.3, 0.4))
    model.revolute("C", rod, slider, at=(1.1, 0.0))
    model.prismatic("D", model.ground, slider, at=(0, 0), axis=(1, 0))
    model.spring_damper(
        "spring", model.ground, slider, at_i=(2.0, 0), at_j=(1.1, 0), stiffness=150.0, damping=0.0, length=0.9
    )
    model.measure("place", "distance", "ground", "slider", at_i=(-1, 0))
    model.measure("load", "reaction", "A", frame="world")
    return model


@pytest.mark.parametrize("repeats", REPEATS)
def test_coverage_of_a_slider_crank(slider_crank, repeats):
    """From the slider's place, the crank's angle and the force in its bearing; the length of the rod as well."""
    truth = {"crank.inertia": 0.02, "rod.mass": 2.0, "slider.mass": 3.0, "spring.stiffness": 150.0, "C.point_i.x": 0.0}
    truth["C.point_i.x"] = float(da.build(slider_crank).parameters()["C.point_i"][0])
    times = np.linspace(0.02, 0.8, 25)
    data = da.simulate(slider_crank, 0.8, samples=times, rtol=1e-11).measurements
    clean = {"time": times, **{n: data[n].values for n in ("place", "load.Fx", "load.Fy")}}
    guess = {n: v * 1.05 for n, v in truth.items()}
    sigma = {"place": 1e-3, "load.Fx": 0.2, "load.Fy": 0.2}
    found = identify(slider_crank, clean, guess, noise=sigma)
    assert found.verdict.complete
    np.testing.assert_allclose(list(found.values.values()), list(truth.values()), rtol=1e-5)
    cover(found, clean, sigma, np.array(list(truth.values())), repeats)
    # the parametric bootstrap, about the estimates: their spread is the stated one, known to 1/√(2 n)
    spread = np.std(found.repeated(2 * repeats, seed=1), axis=0, ddof=1)
    np.testing.assert_allclose(spread, list(found.deviation.values()), rtol=4 / np.sqrt(2 * 2 * repeats))
    assert "kg" in repr(found)
    for other, words in (
        ({"time": times[1:], "place": times[1:]}, "the same times and names"),
        ([], "an Experiment|give"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            found.again(other)
    # the slide's zero is where it was: a model states both of its points by one
    with pytest.raises(da.errors.DalembertError, match="'D.point_i'.*Use result.system"):
        _ = found.model
    assert found.system.parameters()["slider.mass"] == found["slider.mass"]


# ---- what would determine the rest ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1.0, pytest.param(0.5, marks=pytest.mark.thorough)])
def test_experiments_that_would_determine_the_rest(rate):
    """A swing tells only J/m (about its pin) by its angle, at the true mass and beside it. The force in the pin tells
    both, a longer motion nothing more."""
    model = da.Model("swing", gravity=(0, -G))
    bob = model.body("bob", mass=2.0, inertia=0.3, position=(0.5, 0))
    pin = model.revolute("pin", model.ground, bob, at=(0, 0))
    model.measure("load", "reaction", pin, frame="world")
    times = np.linspace(0.1, 1.0, 10)
    angle = da.simulate(model, 1.0, samples=times, rtol=1e-10).dataset.coordinate.values[:, 0]
    longer = np.linspace(0.1, 1.6, 12)
    found = identify(
        model, {"time": times, "pin.angle": angle}, {"bob.mass": 2.0 * rate, "bob.inertia": 0.2}, noise=1e-3,
        experiments={
            "loaded": Experiment({"time": times, "load.Fy": times}),
            "longer": Experiment({"time": longer, "pin.angle": longer}),
        },
    )  # fmt: skip
    assert found.verdict.candidates == {
        "the experiment 'loaded'": ("bob.mass", "bob.inertia"), "the experiment 'longer'": (),
    }  # fmt: skip
    text = repr(found)
    assert "The experiment 'loaded' would determine bob.mass, bob.inertia." in text
    assert "The experiment 'longer' would add nothing." in text


# ---- noise that nobody knows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [pytest.param(20), pytest.param(100, marks=pytest.mark.thorough)])
def test_noise_that_is_estimated(repeats):
    """One rough sensor among fine ones: each name has the noise that is left of it, n numbers know it to 1/√(2 n), and
    a mass that the rough one alone determines has the deviation that says so. With one noise for all it would be
    stated at half of it, and the ratio to the inertia, of which the fine ones know, a hundred times too uncertain."""
    model = da.Model("swing", gravity=(0, -G))
    bob = model.body("bob", mass=2.0, inertia=0.3, position=(0.5, 0))
    pin = model.revolute("pin", model.ground, bob, at=(0, 0))
    model.measure("load", "reaction", pin, frame="world")
    model.measure("tip", "point", bob, at=(1.0, 0))
    times = np.linspace(0.05, 1.0, 40)
    motion = da.simulate(model, 1.0, samples=times, rtol=1e-10)
    sigma = {"pin.angle": 1e-3, "tip.x": 1e-3, "tip.y": 1e-3, "load.Fy": 3.0}
    clean = {n: motion.measurements[n].values for n in sigma if n != "pin.angle"}
    clean["pin.angle"] = motion.dataset.coordinate.values[:, 0]
    rng, off, noises = np.random.default_rng(3), [], []
    found, truth = None, np.array([2.0, 0.3])
    for _ in range(repeats):
        data = {"time": times, **{n: clean[n] + s * rng.standard_normal(len(times)) for n, s in sigma.items()}}
        found = identify(model, data, {"bob.mass": 2.1, "bob.inertia": 0.31}) if found is None else found.again(data)
        off.append((np.array(list(found.values.values())) - truth) / np.array(list(found.deviation.values())))
        noises.append([found.noise[n] / s for n, s in sigma.items()])
    assert found is not None and found.estimated and found.verdict.complete
    within = 4 / np.sqrt(2 * 40 * repeats)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(noises), axis=0)), 1, atol=within)
    assert 0.9 <= np.mean(np.abs(off) < 3) <= 1.0
    # 38 numbers more than parameters: Student's t has the variance 38/36
    np.testing.assert_allclose(np.mean(np.square(off), axis=0), 38 / 36, atol=5 * np.sqrt(2 / repeats))
    assert "Noise estimated from what is left" in repr(found)


# ---- tensors that stay those of bodies ------------------------------------------------------------------------------


def test_every_point_is_a_body():
    """Any z gives moments that meet the triangle inequality; back and forth is the identity."""
    model = da.Model("body", space="space")
    body = model.body("body", mass=2.0, inertia=(0.3, 0.4, 0.5))
    model.spherical("ball", model.ground, body, at=(0, 0, 1))
    design = Design(da.build(model), ["body.mass", "body.inertia"], model=model)
    assert design.names == ("body.mass", *(f"body.inertia.{c}" for c in ("xx", "xy", "xz", "yy", "yz", "zz")))
    map_ = Consistent(design, design.start)
    np.testing.assert_allclose(map_.of(map_.start(design.start)), design.start, atol=1e-14)
    rng = np.random.default_rng(0)
    for z in rng.normal(scale=2.0, size=(50, 7)):
        x = np.asarray(map_.of(z))
        I = np.asarray(design.parameters(x)["body.inertia"])
        moments = np.linalg.eigvalsh(I)
        assert x[0] > 0 and moments[0] > 0
        assert moments[2] <= (moments[0] + moments[1]) * (1 + 1e-9)
        # a flat body gets a thickness of 1e-9
        np.testing.assert_allclose(map_.of(map_.start(x)), x, atol=1e-8 * np.max(np.abs(x)))


def test_wrong_data_get_a_sentence(slider_crank):
    times = np.linspace(0.1, 0.5, 5)
    for data, names, words in (
        ({"place": times}, ["rod.mass"], "no 'time'"),
        ({"time": times, "place": times[:3]}, ["rod.mass"], "must be 5 numbers"),
        ({"time": times, "plaice": times}, ["rod.mass"], "no measurement or joint coordinate 'plaice'.*Did you mean"),
        ({"time": times, "place": times}, ["rod.mas"], "no parameter 'rod.mas'.*Did you mean 'rod.mass'"),
        ({"time": times[::-1], "place": times}, ["rod.mass"], "rising"),
        (Experiment({"time": times}), ["rod.mass"], "no measured numbers"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            identify(slider_crank, data, names)
    fine = {"time": times, "place": times}
    for data, given, words in (
        (None, {}, "give {'time'"),
        (3, {}, "give {'time'"),
        ({"time": times, "place": ["a"] * 5}, {}, "The data must be numbers"),
        ({"time": times, 3: times}, {}, "3 is no name of what was measured"),
        ({"time": times, "place": [1, np.inf, 1, 1, 1]}, {}, "infinite; give NaN where a value is missing"),
        (fine, {"noise": "a"}, "noise: that of 'place' must be a positive number, not 'a'"),
        (fine, {"sensors": {"load.Fx": -1.0}}, "sensors: the noise of 'load.Fx' must be a positive number"),
        (fine, {"sensors": {"load.Fx": 0.0}}, "sensors: the noise of 'load.Fx' must be a positive number"),
        (fine, {"sensors": "laod.Fx"}, "no measurement or joint coordinate 'laod.Fx'"),
        (fine, {"experiments": {"a": 3}}, "experiments: 'a' must be an Experiment, not 3"),
        (fine, {"max_steps": 0}, "max_steps= is a whole number, 1 at least; got 0"),
        (fine, {"rtoll": 1e-9}, "'rtoll' is none of the options of a motion"),
        (fine, {"driven": True}, "its motion is not determined"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            identify(slider_crank, data, ["rod.mass"], **given)
    for names, words in (
        (None, "parameters: name what is sought"),
        ("rod.mas", "no parameter 'rod.mas'"),
        ({"rod.mass": np.nan}, "parameters: 'rod.mass' must be a number, not nan"),
        ({"rod.mass": -1.0}, "must be greater than zero"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            identify(slider_crank, fine, names)
    with pytest.raises(da.errors.DalembertError, match="say the standard deviation of 'place'"):
        identify(slider_crank, {"time": times, "place": times}, ["rod.mass"], noise={"other": 1.0})
