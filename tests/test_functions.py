"""Functions of time: values and derivatives against NumPy, the grammar of formulas, numbers that change freely."""

from __future__ import annotations

import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline, make_interp_spline

import dalembert as da
from dalembert import _runtime as _runtime  # float64 first
from dalembert.functions import constant, expression, harmonic, polynomial, product, step, table, total
from dalembert.model._functions import function_of

TIMES = np.array([-0.7, 0.0, 0.31, 0.5, 0.99, 1.4, 2.3, 3.7])
ROUNDING = 1e-13  # of values of order ten

KNOTS, VALUES = np.array([0.0, 0.4, 1.0, 1.7, 2.5, 3.0]), np.array([1.0, 0.2, -0.5, 0.3, 1.1, 0.9])


def quintic(t, begin, end, low, high):
    """The step and its derivatives by np.poly1d; constant outside."""
    p = np.poly1d([6.0, -15.0, 10.0, 0, 0, 0])
    s, span = np.clip((t - begin) / (end - begin), 0, 1), end - begin
    return [(low if k == 0 else 0.0) + (high - low) * p.deriv(k)(s) / span**k for k in range(3)]


def spline_beyond(t, spline, first, last):
    """A spline with its straight continuation, and two derivatives."""
    x = np.clip(t, first, last)
    inside = x == t
    return [
        spline(x) + spline(x, 1) * (t - x),
        spline(x, 1),
        np.where(inside, spline(x, 2), 0.0),
    ]


def sine(t, a, w, phase, offset):
    return [offset + a * np.sin(w * t + phase), a * w * np.cos(w * t + phase), -a * w * w * np.sin(w * t + phase)]


def multiplied(f, g):
    return [f[0] * g[0], f[1] * g[0] + f[0] * g[1], f[2] * g[0] + 2 * f[1] * g[1] + f[0] * g[2]]


def added(f, g):
    return [a + b for a, b in zip(f, g, strict=True)]


def power(t, k):
    p = np.poly1d([1.0] + [0.0] * k)
    return [p.deriv(n)(t) for n in range(3)]


CUBIC = CubicSpline(KNOTS, VALUES, bc_type="natural")
FIFTH = make_interp_spline(KNOTS, VALUES, k=5)
FUNCTIONS = {
    "constant": (constant(2.5), lambda t: [2.5 + 0 * t, 0 * t, 0 * t]),
    "number": (function_of(3), lambda t: [3 + 0 * t, 0 * t, 0 * t]),
    "polynomial": (
        polynomial([1.0, -2.0, 0.5, 0.3]),
        lambda t: [np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.3]).deriv(k)(t) for k in range(3)],
    ),
    "harmonic": (harmonic(0.7, 3.0, 0.4, 1.1), lambda t: sine(t, 0.7, 3.0, 0.4, 1.1)),
    "step": (step(0.2, 1.9, -1.0, 2.0), lambda t: quintic(t, 0.2, 1.9, -1.0, 2.0)),
    "table": (table(KNOTS, VALUES), lambda t: spline_beyond(t, CUBIC, 0.0, 3.0)),
    "table of degree 5": (table(KNOTS, VALUES, degree=5), lambda t: spline_beyond(t, FIFTH, 0.0, 3.0)),
    "table of degree 1": (
        table([0.0, 2.0], [1.0, 5.0], degree=1),
        lambda t: [1 + 2 * t, 2 + 0 * t, 0 * t],
    ),
    "sum": (harmonic(0.7, 3.0) + polynomial([0, 0, 1.0]) + 2.0, lambda t: added(
        added(sine(t, 0.7, 3.0, 0, 0), power(t, 2)), [2.0, 0.0, 0.0]
    )),
    "product": (harmonic(0.7, 3.0) * step(0.2, 1.9, -1.0, 2.0), lambda t: multiplied(
        sine(t, 0.7, 3.0, 0, 0), quintic(t, 0.2, 1.9, -1.0, 2.0)
    )),
    "difference": (1.0 - harmonic(0.7, 3.0), lambda t: added([1.0, 0, 0], [-x for x in sine(t, 0.7, 3.0, 0, 0)])),
    "negative": (-harmonic(0.7, 3.0) - 0.5, lambda t: added([-0.5, 0, 0], [-x for x in sine(t, 0.7, 3.0, 0, 0)])),
    "nested": (
        product(total(1.0, harmonic(0.7, 3.0)), total(polynomial([0.0, 1.0]), 2.0)),
        lambda t: multiplied(added([1.0, 0, 0], sine(t, 0.7, 3.0, 0, 0)), [t + 2, 1 + 0 * t, 0 * t]),
    ),
    "mapping": (
        function_of({"sum": [{"harmonic": {"amplitude": 0.7, "omega": 3.0}}, "t^2", 1]}),
        lambda t: added(added(sine(t, 0.7, 3.0, 0, 0), power(t, 2)), [1.0, 0, 0]),
    ),
    "expression": (
        expression("a*sin(3*t)*t^2", {"a": 0.7}),
        lambda t: multiplied(sine(t, 0.7, 3.0, 0, 0), power(t, 2)),
    ),
    "expression step": (expression("step(t, 0.2, 1.9, -1, 2)"), lambda t: quintic(t, 0.2, 1.9, -1.0, 2.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_and_two_derivatives(name):
    function, exact = FUNCTIONS[name]
    f = lambda t: jnp.asarray(function(t), float)  # noqa: E731
    found = [jax.vmap(g)(jnp.asarray(TIMES)) for g in (f, jax.grad(f), jax.grad(jax.grad(f)))]
    for k, (mine, theirs) in enumerate(zip(found, exact(TIMES), strict=True)):
        if k == 2 and name.startswith("table"):  # at a knot, also at the ends, the second derivative has two sides
            keep = ~np.isin(TIMES, KNOTS)
            mine, theirs = np.asarray(mine)[keep], np.broadcast_to(theirs, TIMES.shape)[keep]
        assert np.max(np.abs(mine - theirs)) < 10 * ROUNDING * max(1.0, np.max(np.abs(theirs))), k


def test_step_is_smooth_and_table_goes_through_its_points():
    f = step(1.0, 2.0)
    for t in (1.0, 2.0):
        first, second = jax.grad(lambda x: f(x))(t), jax.grad(jax.grad(lambda x: f(x)))(t)
        assert abs(first) < ROUNDING and abs(second) < 10 * ROUNDING  # 60 s(1 − s)(1 − 2s) at the ends
    for degree in (1, 2, 3, 4, 5):
        found = [float(table(KNOTS, VALUES, degree=degree)(x)) for x in KNOTS]
        assert np.max(np.abs(found - VALUES)) < ROUNDING


def test_a_function_called_first_of_all_is_in_float64():
    """In a fresh process, before any other room of the package is loaded."""
    code = "import dalembert.functions as f; print(f.harmonic(0.7, 3.0)(0.31).dtype)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert found.stdout.strip() == "float64"


# ---- the grammar ---------------------------------------------------------------------------------------------------

T = 0.7
FORMULAS = {
    "1 + 2*3": 7.0, "(1 + 2)*3": 9.0, "8/4/2": 1.0, "8/(4/2)": 4.0, "2 - 3 - 4": -5.0, "2^3^2": 512.0, "-2^2": -4.0,
    "(-2)^2": 4.0, "2^-1": 0.5, "2**-2": 0.25, "-t": -T, "--t": T, "+-t": -T, "3*-t": -3 * T, "-t^2": -(T**2),
    "t^-2": T**-2, "2^t": 2**T, "t**0.5": T**0.5, "1e-2*t": 0.01 * T, ".5*t": 0.5 * T, "5.*t": 5 * T,
    "1.5E+1": 15.0, "sin(t)^2 + cos(t)^2": 1.0, "2*pi": 2 * math.pi, "180*deg": math.pi,
    "atan2(t, -1)": math.atan2(T, -1),
    "min(t, 0.2)": 0.2, "max(t, 0.2)": T, "abs(-t)": T, "sign(-t)": -1.0, "exp(log(t))": T, "sqrt(t*t)": T,
    "tan(t)": math.tan(T), "asin(t)": math.asin(T), "acos(t)": math.acos(T), "atan(t)": math.atan(T),
    "sinh(t)": math.sinh(T), "cosh(t)": math.cosh(T), "tanh(t)": math.tanh(T), "step(t, 0, 1.4)": 0.5,
    "step(t, 0, 1.4, 2, 4)": 3.0, " ( t ) ": T, "2*(t - 1)*(t + 1)": 2 * (T * T - 1), "t - 1 + 2": T + 1,
}  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_means_what_mathematics_says(text):
    assert abs(float(expression(text)(jnp.asarray(T))) - FORMULAS[text]) < ROUNDING


def test_whole_powers_of_negative_numbers_have_derivatives():
    for text, exact in (("t^3", 3 * 4.0), ("t^2", 2 * -2.0), ("t^-2", -2 * (-2.0) ** -3), ("t^1", 1.0), ("t^0", 0.0)):
        f = expression(text)
        assert abs(float(jax.grad(lambda x, f=f: jnp.asarray(f(x), float))(-2.0)) - exact) < ROUNDING, text


MISTAKES = {
    "2*": ("ends too early", 3), "2 3": ("'3' is not expected", 3), "sin t": ("brackets", 1),
    "(t": ("')' is missing", 3),
    "t)": ("')' is not expected", 2), "foo(t)": ("no function 'foo'", 1), "sin(t, t)": ("1 arguments, not 2", 1),
    "atan2(t)": ("2 arguments, not 1", 1), "t $ 2": ("'$' is not understood", 3), "2*(3 +)": ("')' is not expected", 7),
    "t^": ("ends too early", 3), "1e999": ("too large", 1), "import os": ("'os' is not expected", 8),
    "1.2.3": ("'.3' is not expected", 4), "step(t, 1)": ("3 or 5 arguments", 1), "'a'": ("is not understood", 1),
    "__import__(1)": ("no function '__import__'", 1), "t.real": ("'t.real' is unknown", None),
    "b*t": ("'b' is unknown", None), "6t": ("'t' is not expected; write 6*t", 2),
    "sin(6t)": ("')' is missing before 't'; write 6*t", 6), "2(t + 1)": ("'(' is not expected; write 2*(", 2),
}  # fmt: skip


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_a_formula_is_told_with_its_place(text):
    what, place = MISTAKES[text]
    with pytest.raises(da.errors.DalembertError) as error:
        expression(text)
    assert what in str(error.value)
    if place is not None:
        assert f"(at character {place})" in str(error.value)


def test_hostile_formulas_are_refused():
    for text in ("", "   ", "(" * 100 + "t" + ")" * 100, "2^" * 100 + "t", "t+" * 1500 + "t", 3, None):
        with pytest.raises(da.errors.DalembertError):
            expression(text)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: step(2.0, 1.0), "end=1.0 must be later"),
        (lambda: table([0, 1], [1.0]), "2 and 1 values"),
        (lambda: table([0, 0, 1, 2], [1.0] * 4), "must rise"),
        (lambda: table([0, 1], [1.0, 2.0]), "needs at least 4 points"),
        (lambda: table(KNOTS, VALUES, degree=6), "must be 1 … 5"),
        (lambda: polynomial([]), "list of finite numbers"),
        (lambda: harmonic(math.nan, 1.0), "amplitude must be a finite number"),
        (lambda: function_of({"harmonic": {"amplitude": 1.0}}), "omega"),
        (lambda: function_of({"wave": 1.0}), "is not a function of time"),
        (lambda: function_of(True), "is not a function of time"),
        (lambda: total(), "at least one part"),
        (lambda: expression("deg*t", {"deg": 2.0}), "parameter 'deg': this word has its own meaning"),
    ],
)
def test_a_mistake_in_a_function_is_a_sentence(make, words):
    with pytest.raises(da.errors.DalembertError, match=words):
        make()


# ---- numbers of functions in a system ------------------------------------------------------------------------------


def driven_mass(motion):
    """A mass on a slide, pushed by a function of time: ẍ = f(t)/m."""
    model = da.Model("pushed", space="plane", gravity=(0, 0))
    model.body("mass", mass=2.0, inertia=1.0)
    model.force("push", "mass", [motion, 0.0])
    return da.build(model)


def test_numbers_of_functions_change_without_compiling_anew():
    """Amplitudes, polynomial coefficients, table values and parameters of formulas are parameters of the system."""
    saw = table([0, 1, 2, 3.0], [0, 1, 0, 1.0])
    f = total(harmonic(0.7, 3.0), polynomial([1.0, 2.0]), expression("a*t^2", {"a": 0.5}), saw)
    system = driven_mass(f)
    traces = []

    @jax.jit
    def acceleration(system, t):
        traces.append(1)
        return da.assemble(system, t, jnp.asarray(system.q0), jnp.asarray(system.v0)).h[0] / 2.0

    t = 0.8
    first = float(acceleration(system, t))
    assert abs(first - float(f(t)) / 2) < ROUNDING
    changed = {"push.x_0_amplitude": 1.4, "push.x_1_coefficients": np.array([0.0, 5.0]), "push.x_2_a": 2.0}
    assert set(changed) <= set(system.parameters())
    second = float(acceleration(system.replace(changed), t))
    exact = 1.4 * math.sin(2.4) + 5 * t + 2.0 * t**2 + float(saw(t))
    assert abs(second - exact / 2) < ROUNDING
    assert len(traces) == 1

    def of(values):
        return acceleration(system.replace({"push.x_0_amplitude": values[0], "push.x_2_a": values[1]}), t)

    gradient = jax.grad(of)(jnp.array([0.7, 0.5]))
    assert np.max(np.abs(gradient - np.array([math.sin(2.4), t**2]) / 2)) < ROUNDING


def test_equal_functions_are_one_family():
    """Two forces with functions of one shape and other numbers are compiled once."""
    model = da.Model("two", space="plane")
    for k in range(2):
        model.body(f"b{k}", mass=1.0, inertia=1.0, position=(k, 0))
        model.force(f"f{k}", f"b{k}", [harmonic(1.0 + k, 2.0), 0.0])
    assert len(da.build(model).forces) == 1
    assert harmonic(1.0, 2.0) == harmonic(1.0, 2.0) != harmonic(1.0, 2.5)
