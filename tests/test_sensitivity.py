"""Sensitivities against closed forms, linear covariance against Monte Carlo, worst cases."""

from __future__ import annotations

import _helpers_linkages
import numpy as np
import pytest
import scipy.stats

import dalembert as da
from dalembert.studies import Normal, at_time, final, parameter, sensitivities, uncertainty, worst_case


@pytest.fixture(scope="module")
def oscillator():
    return _helpers_linkages.oscillator(50.0)


def test_sobol_indices_of_a_closed_form(oscillator):
    """y = a + 2 b + 3 a b with a, b uniform on (1, 2): the mean over b is a (1 + 3·1.5) and so on. The total index of
    each is its own and the common one. Points of a Sobol' sequence: errors fall nearly as 1/N."""
    a, b = parameter("mass.mass"), parameter("spring.stiffness")
    found = sensitivities(
        oscillator, {"mass.mass": (1.0, 2.0), "spring.stiffness": (1.0, 2.0)}, a + 2 * b + 3 * a * b, method="sobol",
        count=1024,
    )  # fmt: skip
    v = 1 / 12
    own = np.array([(1 + 4.5) ** 2 * v, (2 + 4.5) ** 2 * v])
    common = 9 * v * v
    whole = own.sum() + common
    np.testing.assert_allclose(found.first[0], own / whole, atol=5e-3)
    np.testing.assert_allclose(found.total[0], (own + common) / whole, atol=5e-3)
    assert "Sobol'" in repr(found) and found.count == 1024 * 4


def test_linear_covariance_against_monte_carlo(oscillator):
    """Small spreads: the difference of the two is statistical, 1/√N, and that of the second order, σ². And the closed
    form: dx/dk = −0.1 sin(ω t) t/(2 m ω)."""
    vary = {"mass.mass": Normal(2.0, 0.01), "spring.stiffness": Normal(50.0, 0.25)}
    options = {"t_end": 0.3, "samples": 4, "correlation": {("mass.mass", "spring.stiffness"): 0.5}}
    measure = [final("place.x"), final("place.vx")]
    linear = uncertainty(oscillator, vary, measure, **options)
    w, t = 5.0, 0.3
    slopes = -0.1 * np.sin(w * t) * t * np.array([-w / (2 * 2.0), 1 / (2 * 2.0 * w)])
    C = np.array([[1e-4, 0.5 * 0.01 * 0.25], [0.5 * 0.01 * 0.25, 0.0625]])
    assert linear.covariance[0, 0] == pytest.approx(slopes @ C @ slopes, rel=1e-6)
    assert linear.mean[0] == pytest.approx(0.1 * np.cos(w * t), rel=1e-7)
    count = 4000
    drawn = uncertainty(oscillator, vary, measure, method="monte-carlo", count=count, **options)
    np.testing.assert_allclose(drawn.deviation, linear.deviation, rtol=4 / np.sqrt(2 * count) + 1e-3)
    correlation = lambda u: u.covariance[0, 1] / np.sqrt(u.covariance[0, 0] * u.covariance[1, 1])  # noqa: E731
    assert correlation(drawn) == pytest.approx(correlation(linear), abs=4 / np.sqrt(count))
    assert drawn.mean_band is not None and drawn.quantiles is not None
    assert np.all(np.abs(drawn.mean - linear.mean) < 2 * drawn.mean_band)
    normal = linear.mean + 1.96 * linear.deviation
    np.testing.assert_allclose(drawn.quantiles[2] - linear.mean, normal - linear.mean, rtol=0.1)
    assert drawn.failed == 0 and "95 %" in repr(drawn)


@pytest.mark.thorough
def test_monte_carlo_comes_to_the_linear_covariance_as_one_over_root_n(oscillator):
    """Over 12 seeds the squared errors of means, deviations and their correlation, times N, are those of theory, σ²,
    σ²/2 and (1 − ρ²)², for 32 machines as for 512: their means are known to √(2/12), and five of these hold for all of
    ten. Spreads of 0.2 % keep what is not linear below a tenth of the errors at 512."""
    vary = {"mass.mass": Normal(2.0, 0.004), "spring.stiffness": Normal(50.0, 0.1)}
    options = {"t_end": 0.3, "samples": 4, "correlation": {("mass.mass", "spring.stiffness"): 0.5}}
    measure = [final("place.x"), parameter("mass.mass") * final("place.vx")]
    linear = uncertainty(oscillator, vary, measure, **options)
    sd = linear.deviation
    rho = linear.covariance[0, 1] / (sd[0] * sd[1])
    assert 0.05 < 1 - rho**2 < 0.999
    for count in (32, 512):
        errors = []
        for seed in range(12):
            drawn = uncertainty(oscillator, vary, measure, method="monte-carlo", count=count, seed=seed, **options)
            r = drawn.covariance[0, 1] / (drawn.deviation[0] * drawn.deviation[1])
            errors.append([
                *((drawn.mean - linear.mean) / sd * np.sqrt(count)),
                *((drawn.deviation / sd - 1) * np.sqrt(2 * count)), (r - rho) / (1 - rho**2) * np.sqrt(count),
            ])  # fmt: skip
        np.testing.assert_allclose(np.mean(np.square(errors), axis=0), 1, atol=5 * np.sqrt(2 / 12))


def test_gradient_and_worst_case(oscillator):
    vary = {"mass.mass": (1.5, 2.5), "spring.stiffness": (40.0, 60.0)}
    options = {"t_end": 0.3, "samples": 4}
    found = sensitivities(oscillator, vary, final("place.x"), **options)
    w, t = 5.0, 0.3
    slopes = -0.1 * np.sin(w * t) * t * np.array([-w / (2 * 2.0), 1 / (2 * 2.0 * w)])
    np.testing.assert_allclose(found.slopes[0], slopes, rtol=1e-6)
    parts = (slopes * np.array([1.0, 20.0])) ** 2
    np.testing.assert_allclose(found.total[0], parts / parts.sum(), rtol=1e-6)
    # cos falls up to π: the ends are those of the fastest and the slowest
    ends = worst_case(oscillator, vary, final("place.x"), starts=1, **options)
    assert ends.least.value == pytest.approx(0.1 * np.cos(np.sqrt(60 / 1.5) * t), rel=1e-6)
    assert ends.largest.value == pytest.approx(0.1 * np.cos(np.sqrt(40 / 2.5) * t), rel=1e-6)
    assert "mass.mass = 1.5" in repr(ends)


@pytest.mark.thorough
def test_sobol_indices_where_there_are_no_derivatives():
    """A block that friction stops, x = m v²/(2 μ N): its phases are found along each motion alone. m and μ are uniform
    on (1, 2); of a product g(m) h(μ) the parts of the variance are Var g E(h)², E(g)² Var h and Var g Var h, with
    E(1/μ) = ln 2, E(1/μ²) = 1/2. Sobol' points: errors fall nearly as 1/N."""
    model = da.Model("slide")
    block = model.body("block", mass=1.0, inertia=0.1, position=(0, 0), velocity=(2.0, 0))
    rail = model.prismatic("rail", model.ground, block, at=(0, 0), axis=(1, 0))
    model.measure("place", "point", block)
    model.dry_friction("rub", rail, coulomb=1.5, normal=3.0)
    vary = {"block.mass": (1.0, 2.0), "rub.coulomb": (1.0, 2.0)}
    found = sensitivities(model, vary, final("place.x"), count=32, t_end=2.0, samples=3)
    own = np.array([1 / 12 * np.log(2) ** 2, 1.5**2 * (0.5 - np.log(2) ** 2)])
    common = 1 / 12 * (0.5 - np.log(2) ** 2)
    assert found.method == "sobol" and found.count == 32 * 4 and found.slopes is None
    np.testing.assert_allclose(found.total[0], (own + common) / (own.sum() + common), atol=0.1)
    assert found.remark.startswith("There are no derivatives: Friction 'rub'") and found.remark in repr(found)
    with pytest.raises(da.errors.DalembertError, match="'rub'.*sticks"):
        sensitivities(model, vary, final("place.x"), method="gradient", t_end=2.0, samples=3)


def test_what_does_not_change_to_first_order(oscillator):
    """At the mean of a the slope of (a − 1.5)² is zero: its whole variance is of second order. Derivatives are used
    where all quantities have some."""
    a, b = parameter("mass.mass"), parameter("spring.stiffness")
    vary = {"mass.mass": (1.0, 2.0), "spring.stiffness": (1.0, 2.0)}
    found = sensitivities(oscillator, vary, [(a - 1.5) ** 2, a + b], count=64)
    assert (
        found.method == "sobol" and "(mass.mass)" in found.remark and "does not change to first order" in found.remark
    )
    np.testing.assert_allclose(found.total, [[1, 0], [0.5, 0.5]], atol=0.05)
    assert sensitivities(oscillator, vary, a + b).method == "gradient"
    assert sensitivities(oscillator, vary, (a - 1.5) ** 2, method="gradient").total[0].tolist() == [0, 0]


@pytest.mark.thorough
def test_batches_on_processes(oscillator):
    """Indices by the workers of a cluster, each a process, as in this one."""
    from dalembert.studies._run import local_cluster

    vary = {"mass.mass": (1.5, 2.5), "spring.stiffness": (40.0, 60.0)}
    options = {"t_end": 0.3, "samples": 4}
    with local_cluster(2) as client:
        here, there = (
            sensitivities(oscillator, vary, final("place.x"), method="sobol", count=16, client=c, **options)
            for c in (None, client)
        )
    assert here.total.tobytes() == there.total.tobytes() and here.first.tobytes() == there.first.tobytes()


def test_what_cannot_vary_gets_a_sentence(oscillator):
    y = final("place.x")
    for vary, options, words in (
        ({"mass.mass": (2.0, 1.0)}, {}, "say how it varies"),
        ({"mas.mass": (1.0, 2.0)}, {}, "Did you mean 'mass.mass'"),
        ({"mass.mass": (1.0, 2.0)}, {"method": "guess"}, "method='guess' is unknown"),
        ({"mass.mass": (1.0, 2.0)}, {"t_end": None}, "give t_end="),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            sensitivities(oscillator, vary, y, **({"t_end": 0.3} | options))
    for given, words in (
        ({"method": "monte-carlo", "count": "a"}, "count= is a whole number"),
        ({"method": "monte-carlo", "count": 20.5}, "count= is a whole number"),
        ({"seed": -1}, "seed= is a whole number"),
        ({"client": 3}, "client= is a distributed.Client"),
        ({"correlation": "a"}, "correlation must be"),
        ({"correlation": {"mass.mass": 0.5}}, "correlation: say"),
        ({"vary": None}, "vary: name what varies"),
        ({"vary": {"mass.mass": scipy.stats.cauchy(2.0)}}, "no mean or no standard deviation"),
        ({"measure": None}, "is no quantity"),
        ({"measure": "place.x"}, "a course in time, not a number"),
        ({"sampels": 3}, "'sampels' is none of the options"),
        # far beyond the motion: its last value is not the one at that time
        ({"measure": at_time("place.x", 9.0)}, "the motion is kept from 0 s to 0.3 s"),
    ):
        chosen = {"vary": {"mass.mass": (1.0, 2.0)}, "measure": y, "t_end": 0.3} | given
        with pytest.raises(da.errors.DalembertError, match=words):
            uncertainty(oscillator, **chosen)
    with pytest.raises(da.errors.DalembertError, match="starts= is a whole number"):
        worst_case(oscillator, {"mass.mass": (1.0, 2.0)}, y, starts=0, t_end=0.3)
    with pytest.raises(da.errors.DalembertError, match="correlation must be"):
        uncertainty(oscillator, {"mass.mass": (1.0, 2.0)}, y, t_end=0.3, correlation=[[2.0]])
    with pytest.raises(da.errors.DalembertError, match="a course in time, not a number"):
        sensitivities(oscillator, {"mass.mass": (1.0, 2.0)}, ["place.x"], t_end=0.3)
