"""The march in machine code against that of JAX: the same steps, states, work and status."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_thorough import everyday
from test_bearing_friction import plane_rig

import dalembert as da
from dalembert.kernels import Compiled, Kernel, Unknown, flat, widest
from dalembert.simulation import Status, _loop, _native, project_all
from dalembert.simulation._begin import begin
from dalembert.stabilise import EXACT
from dalembert.systems import without_names

EVERY_DAY = ("pendulum/absolute", "four-bar/absolute", "four-bar/joint", "bricard/absolute", "snakeboard/absolute")
ALL = [f"{m}/{c}" for m in da.mechanisms.mechanisms() for c in ("absolute", "joint")]


def built(case: str):
    name, coordinates = case.split("/")
    return da.build(da.mechanism(name), coordinates=coordinates)


REFUSED = {"groove-cam/absolute": "a long table", "groove-cam/joint": "a long table"}
"""Machines that machine code does not march, and why; all others must be marched by it."""
PASSED_ON = ("spatial-slider-crank/absolute",)
"""Machines with positions that need singular values: machine code marches as far as those, and JAX from there."""


@pytest.mark.parametrize("case", everyday(ALL, EVERY_DAY))
def test_native_and_jax_march_alike(case):
    """At rtol 1e-12 both are at rounding: 1e-10 of the machine's size in q, of the largest value in v and work. A
    machine that machine code no longer marches fails here."""
    system = built(case)
    if case in REFUSED:
        with pytest.raises(da.errors.DalembertError, match=f"engine='native' cannot march this: .*{REFUSED[case]}"):
            da.simulate(system, 0.3, engine="native")
        return
    native, other = (da.simulate(system, 0.3, rtol=1e-12, samples=7, engine=e, throw=False) for e in ("native", "jax"))
    assert native.restart.engine == ("jax" if case in PASSED_ON else "native") and other.restart.engine == "jax"
    assert native.status is other.status
    size = np.asarray(system.coordinate_scale())
    assert np.max(np.abs(native.q - other.q) / size) < 1e-10
    assert np.max(np.abs(native.v - other.v)) < 1e-10 * (1 + np.max(np.abs(other.v)))
    assert np.max(np.abs(native.work - other.work)) < 1e-10 * (1 + np.max(np.abs(other.work)))
    assert max(native.violation.values()) < 1e-11


@pytest.mark.parametrize("case", everyday(ALL, EVERY_DAY))
def test_kernels_are_the_functions_that_they_were_made_of(case):
    """v̇ and r at 100 random states near the start, half of them on the constraints: 1e-12 of their own size, over the
    margin of the rows, and what the conditioning of M costs either of them (a chain in joint angles:
    4e4). Where redundant rows contradict each other, off the constraints, both ask for care alike."""
    system = without_names(built(case))
    start = begin(system, None, 0.0, None, None, None, EXACT, False)
    problem = dataclasses.replace(start.problem, loop="ask")

    def both(problem, given):
        t, q, v = given
        rhs = problem.stabilisation.rhs
        motion = problem.formulation.motion(problem.system, t, q, v, None, rhs, exact=True, loop="ask")
        return motion.noise, motion.acceleration.vdot, motion.acceleration.r

    q, v = (np.asarray(x) for x in start.found.state)
    try:
        kernel = Kernel.of("both", both, problem, (np.zeros(()), q, v))
    except Unknown as reason:
        pytest.skip(f"the kernels refuse {reason}")
    code = Compiled([kernel])
    random = np.random.default_rng(3)
    states = [
        (random.uniform(), q + 1e-3 * random.normal(size=q.shape), v + 0.1 * random.normal(size=v.shape))
        for _ in range(100)
    ]
    closed = project_all(system, problem.stabilisation, *(np.array(x) for x in zip(*states[50:], strict=True)))
    states[50:] = [(s[0], np.asarray(a), np.asarray(b)) for s, a, b in zip(states[50:], *closed, strict=True)]
    parameters = flat(eqx.filter(problem, eqx.is_array))
    rows = code.rows("both", parameters, np.array([flat(s) for s in states]))
    expected = jax.jit(lambda t, q, v: both(problem, (t, q, v)))
    margin = float(np.min(np.asarray(getattr(problem.formulation, "margin", 1.0))))
    M = np.asarray(da.equations.assemble_known(system, 0.0, q, v).M)
    lost, compared = np.finfo(float).eps * np.linalg.cond(M), 0
    for row, state in zip(rows, states, strict=True):
        (noise, *found), (other, *there) = kernel.unflatten(row), expected(*state)
        assert np.isfinite(noise) == np.isfinite(other)
        compared += bool(np.isfinite(noise))
        for got, wanted in zip(found, there, strict=True) if np.isfinite(noise) else ():
            allowed = (1e-12 / min(1.0, margin) + lost) * (1 + np.max(np.abs(wanted), initial=0.0))
            assert np.max(np.abs(got - wanted), initial=0.0) < allowed
    assert compared > 40


def test_in_lanes_each_member_is_as_alone():
    """A graph with a loop, a branch and LAPACK, for several members at once."""

    def function(_, given):
        matrix, x = given
        values = jnp.linalg.svd(matrix, compute_uv=False)
        some = jax.lax.cond(x > 0.5, lambda: jnp.sin(x) * values[0], lambda: x - 1.0)
        return jax.lax.while_loop(lambda c: c < 5.0, lambda c: 1.5 * c + x, jnp.abs(some) + 0.1), values

    random = np.random.default_rng(5)
    kernel = Kernel.of("function", function, (), (random.normal(size=(3, 4)), np.array(0.3)))
    one, four = Compiled([kernel]), Compiled([kernel], 4)
    inputs = random.uniform(size=(4, 13))
    inputs[:, -1] = (0.2, 0.9, 0.6, 0.4)
    kept, out = np.zeros((four.kept["function"] + 1, 4)), np.zeros((kernel.outputs, 4))
    given = np.ascontiguousarray(inputs.T)
    four._calls["function"](kept.ctypes.data, given.ctypes.data, out.ctypes.data)
    alone = one.rows("function", np.zeros(0), inputs)
    np.testing.assert_allclose(out.T, alone, rtol=1e-14, atol=0)
    compiled = jax.jit(lambda m, x: function((), (m, x)))
    for row, x in zip(alone, inputs, strict=True):
        np.testing.assert_allclose(row, flat(compiled(x[:12].reshape(3, 4), x[12])), rtol=1e-13, atol=1e-14)


def _line(t, q):
    return jnp.eye(1)


def _pole(t, q, v):
    return jnp.array([1.0 / (0.5 - t)])


def _apart() -> da.Model:
    """Two drivers of one joint that contradict each other from 0.3 s on."""
    model = da.Model("two drivers")
    arm = model.body("arm", mass=1.0, inertia=1.0, position=(1.0, 0.0))
    model.revolute("A", model.ground, arm, at=(0, 0))
    model.driver("first", "A", lambda t: t)
    model.driver("second", "A", lambda t: t + jnp.where(t > 0.3, (t - 0.3) ** 3, 0.0))
    return model


FAILING = {
    "not finite": lambda: da.FunctionSystem(_line, _pole, q0=[0.0], v0=[0.0], name="pole"),
    "contradiction": lambda: da.build(_apart()),
}


@pytest.mark.parametrize("options", [{"rtol": 1e-6}, {"dt": 0.01, "integrator": "tsit5"}], ids=["adaptive", "fixed"])
@pytest.mark.parametrize("system", FAILING.values(), ids=FAILING.keys())
def test_failures_have_the_same_status(system, options):
    system = system()
    ends = [da.simulate(system, 1.0, samples=5, engine=e, throw=False, **options) for e in ("native", "jax")]
    assert ends[0].status is ends[1].status
    assert ends[0].status is not Status.done
    assert float(ends[0].t_end) == pytest.approx(float(ends[1].t_end), abs=1e-6)


def test_a_singular_position_stops_both():
    """`singular="stop"`: at the same position, with the same status and the same states before."""
    system = da.build(da.mechanism("n-four-bar", N=1))
    ends = [da.simulate(system, 1.0, samples=11, singular="stop", throw=False, engine=e) for e in ("native", "jax")]
    assert [x.status for x in ends] == [Status.rank_change] * 2
    assert [x.restart.engine for x in ends] == ["native", "jax"]
    assert float(ends[0].t_end) == pytest.approx(float(ends[1].t_end), abs=1e-9)
    assert float(ends[0].t_end) == pytest.approx(0.708, abs=1e-3)  # by hand: tests/test_simulate.py
    np.testing.assert_allclose(ends[0].q, ends[1].q, rtol=0, atol=1e-10)


@pytest.mark.thorough
def test_jamming_stops_both():
    """Painlevé's rod (tests/test_bearing_friction.py): the friction's own load has no solution from some instant on."""
    strong = {"line_rubs.coulomb": 6.0, "line_rubs.static": 6.0}
    system = da.prepare(da.build(plane_rig())).system.replace(strong)
    ends = [da.simulate(system, 2.0, rtol=1e-11, samples=21, throw=False, engine=e) for e in ("native", "jax")]
    assert [x.status for x in ends] == [Status.no_load] * 2
    assert ends[1].restart.engine == "jax"
    assert float(ends[0].t_end) == pytest.approx(float(ends[1].t_end), abs=1e-6)


@pytest.mark.parametrize("samples", ["steps", 5])
@pytest.mark.parametrize("integrator", ["bosh3", "tsit5", "dopri5", "dopri8"])
def test_every_explicit_integrator(integrator, samples):
    pendulum = da.build(da.mechanism("double-pendulum"))
    a, b = (
        da.simulate(pendulum, 0.4, rtol=1e-5, integrator=integrator, samples=samples, engine=e)
        for e in ("native", "jax")
    )
    np.testing.assert_allclose(a.t, b.t, rtol=1e-7, atol=1e-12)  # steps have 30 bits
    np.testing.assert_allclose(a.q, b.q, atol=1e-7)
    assert int(a.stats["rejected"]) == int(b.stats["rejected"])


@pytest.mark.parametrize("integrator", ["heun", "rk4", "tsit5"])
def test_fixed_steps(integrator):
    pendulum = da.build(da.mechanism("double-pendulum"))
    a, b = (da.simulate(pendulum, 0.4, dt=0.01, integrator=integrator, samples=5, engine=e) for e in ("native", "jax"))
    np.testing.assert_allclose(a.q, b.q, atol=1e-12)
    assert int(a.stats["accepted"]) == int(b.stats["accepted"]) == 40


def test_what_does_not_fit_is_said(four_bar):
    for given, words in (({"samples": "dense"}, "polynomials of JAX"), ({"integrator": "radau5"}, "integrator")):
        with pytest.raises(da.errors.DalembertError, match=f"engine='native' cannot march this: .*{words}"):
            da.simulate(four_bar, 0.1, engine="native", **given)
    with pytest.raises(da.errors.DalembertError, match="engine='gpu' is unknown; use 'auto', 'native' or 'jax'"):
        da.simulate(four_bar, 0.1, engine="gpu")


@pytest.mark.parametrize("N", [2, pytest.param(12, marks=pytest.mark.thorough)])
def test_machine_code_passes_singular_positions(N):
    """Four-bars in a row through their singular position, dense and sparse: as JAX passes it, within what the tolerance
    and a passage leave open."""
    system = da.build(da.mechanism("n-four-bar", N=N))
    run, again = (da.simulate(system, 1.0, rtol=1e-8, samples=11, engine=e) for e in ("auto", "jax"))
    assert run.restart.engine == "native" and again.restart.engine == "jax"
    np.testing.assert_allclose(run.q, again.q, atol=1e-7)
    assert max(float(np.max(x)) for x in run.violation.values()) < 1e-12


def test_where_machine_code_lacks_singular_values_jax_goes_on(monkeypatch):
    """A solution that is not good enough asks for care once more: then the careful program of JAX marches."""
    system = da.build(da.mechanism("n-four-bar", N=2))
    wanted = da.simulate(system, 1.0, rtol=1e-8, samples=11)
    field = _native._field

    def unsure(problem, given):
        """ẏ as found by machine code that lacks singular values: its third work integral says so."""
        q, v, work, *others = field(problem, given)
        return q, v, work.at[2].set(jnp.inf), *others

    quick = {k: x for k, x in _native._MACHINES.items() if k[0] != "careful"}
    monkeypatch.setattr(_native, "_MACHINES", quick)
    monkeypatch.setattr(_native, "_READY", {})
    monkeypatch.setattr(_native, "_field", unsure)
    monkeypatch.setattr(_native, "remembered", lambda _, __, ___, make: make())
    run = da.simulate(da.build(da.mechanism("n-four-bar", N=2)), 1.0, rtol=1e-8, samples=11)
    assert wanted.restart.engine == "native" and run.restart.engine == "jax"
    np.testing.assert_allclose(run.q, wanted.q, atol=1e-6)  # rounding, by the square of what a passage makes of it


def test_a_step_that_cannot_be_closed_is_refused_in_machine_code():
    """At a loose tolerance a step may be too long for its end to be moved onto the constraints. It is tried again,
    shorter, as JAX does it; care at its stages, which JAX was asked for, would not help."""
    system = da.build(da.mechanism("four-bar"), coordinates="joint")
    native, other = (
        da.simulate(system, 6.0, rtol=1e-2, integrator="dopri8", samples=5, engine=e) for e in ("native", "jax")
    )
    assert native.restart.engine == "native" and not bool(native.restart.mark.careful)
    assert int(native.stats["rejected"]) == int(other.stats["rejected"])
    np.testing.assert_allclose(native.q, other.q, rtol=0, atol=1e-9)


def test_what_auto_leaves_to_jax_is_still_marched_natively_where_asked(monkeypatch):
    """Of the same system, built once: that it is too large for engine="auto" says nothing of engine="native"."""
    monkeypatch.setattr(_native, "AUTO_UP_TO", 10)
    system = da.build(da.mechanism("double-pendulum"))
    run, asked = (da.simulate(system, 0.1, samples=2, engine=engine) for engine in ("auto", "native"))
    assert (run.restart.engine, asked.restart.engine) == ("jax", "native")


def test_equal_structures_do_not_share_built_in_numbers():
    """Gravity up and down: zeros and ones are built into the code, so these are two programs."""
    ends = {}
    for down in (-1.0, 1.0, -1.0):
        model = da.Model("stone", gravity=(0, down))
        model.body("stone", mass=1.0, inertia=1.0)
        ends[down] = da.simulate(model, 1.0, samples=2).q[-1, 1]
        assert ends[down] == pytest.approx(0.5 * down, abs=1e-9)
    assert ends[1.0] == pytest.approx(-ends[-1.0], abs=1e-9)


def test_the_loop_is_python_too(monkeypatch):
    """The loop as it stands, run by Python on arrays, with the same kernels: the same motion but for fused products."""
    system = da.build(da.mechanism("pendulum"))
    fast = da.simulate(system, 0.2, rtol=1e-4, samples=3, engine="native")
    rounds = []

    def by_python(machine, kept, ends, limits, times, steps, room, careful):
        assert careful is None
        out_t, out = np.full((1, room), np.inf), np.zeros((1, room, machine.saved.outputs))
        arrays = {"times": times, "limits": limits, "kept": np.array(kept), "ends": ends, "out_t": out_t, "out": out}
        arrays |= {"scratch": np.zeros(machine.scratch)} | {k: getattr(machine, k) for k in ("A", "b", "e", "c")}
        numbers = machine.values | {"last": 1, "ntimes": len(times), "steps": int(steps), "room": room}
        numbers |= {k: a.reshape(-1) for k, a in arrays.items()}
        numbers |= {n: _called(machine, n) for n in ("field", "close", "adapt", "weights", "saved")}
        _loop.loop(1, widest(), **{k: numbers[k] for k in _native.ARGUMENTS})
        rounds.append(room)
        return ends, out_t, out

    monkeypatch.setattr(_native, "run", by_python)
    slow = da.simulate(system, 0.2, rtol=1e-4, samples=3, engine="native")
    assert rounds
    np.testing.assert_allclose(slow.q, fast.q, rtol=0, atol=1e-13)
    assert int(slow.stats["steps"]) == int(fast.stats["steps"])


def _called(machine, name: str):
    """A kernel of a machine on NumPy arrays."""
    code = next(c for c in (machine.many, machine.shown, machine.one) if name in c.kernels)

    def call(kept, inputs, outputs):
        code._calls[name](kept.ctypes.data, inputs.ctypes.data, outputs.ctypes.data)

    return call


# ---- functions of a person's own: what machine code cannot do as JAX does it is left to JAX ---------------------


def _kepler(m):
    """E − 0.9 sin E = m by Newton's method."""

    def step(state):
        E, _ = state
        d = (E - 0.9 * jnp.sin(E) - m) / (1 - 0.9 * jnp.cos(E))
        return E - d, d

    return jax.lax.while_loop(lambda s: jnp.abs(s[1]) > 1e-13, step, (m + 0.9 * jnp.sin(m), jnp.ones(())))[0]


OWN = {
    "loop in a batch": lambda t, q, v: -jax.vmap(_kepler)(q),
    "int32 wraps": lambda t, q, v: ((jnp.floor(q * 10).astype(jnp.int32) * jnp.int32(1103515245)) % 7) / 7.0 - q,
    "int8": lambda t, q, v: -q + jnp.int8(100) + jnp.floor(q[0] * 50).astype(jnp.int8),
    "bits": lambda t, q, v: -q * jax.lax.reduce_or(jnp.floor(jnp.abs(q) * 4).astype(int), (0,)),
    "argmax of NaN": lambda t, q, v: -jnp.where(jnp.argmax(jnp.array([0.5, jnp.log(-q[0] - 1), q[1]])) == 1, 1.0, q),
    "NaN as an index": lambda t, q, v: -q + jax.lax.switch(
        jnp.log(-q[0] - 1).astype(jnp.int32) + 1, [lambda: 1.0, lambda: 2.0, lambda: 3.0]
    ),
    "0 − 0": lambda t, q, v: jnp.array([jnp.arctan2(0.0 - v[0], -1.0), -q[1]]),
    "−(0 − 0)": lambda t, q, v: jnp.array([jnp.arctan2(-(v[0] - v[0] * q[1]), -1.0), -q[1]]),
    "halves away from zero": lambda t, q, v: -jax.lax.round(q),
    "float32": lambda t, q, v: -q * jnp.sin(jnp.float32(1.0)),
    "scan of no rounds": lambda t, q, v: -jax.lax.scan(lambda c, u: (c + u, c), q, jnp.zeros((0, 2)))[0],
    "table": lambda t, q, v: -jnp.interp(q, jnp.linspace(-3, 3, 9), jnp.linspace(-3, 3, 9) ** 3),
}  # fmt: skip


@pytest.mark.parametrize("force", OWN.values(), ids=OWN.keys())
def test_a_force_of_ones_own_is_as_in_jax(force):
    system = da.FunctionSystem(lambda t, q: jnp.eye(2), force, q0=[0.5, 2.5])
    auto, other = (da.simulate(system, 0.1, dt=0.02, integrator="heun", samples=3, engine=e) for e in ("auto", "jax"))
    np.testing.assert_allclose(auto.q, other.q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(auto.v, other.v, rtol=0, atol=1e-12)


def test_times_are_read_one_by_one_from_a_column(four_bar):
    """Sample times as a column of a table: machine code once read the columns beside it as times too."""
    table = np.random.default_rng(1).random((21, 3))
    table[:, 0] = np.linspace(0.0, 1.0, 21)
    run, wanted = (da.simulate(four_bar, 1.0, samples=x, engine="native") for x in (table[:, 0], table[:, 0].copy()))
    np.testing.assert_array_equal(run.q, wanted.q)
    runs = da.simulate_many(
        four_bar, {"crank.mass": np.array([[1.0, 9.0], [2.0, 9.0]])[:, 0]}, 1.0, samples=table[:, 0]
    )
    assert runs.q.shape[:2] == (2, 21)
    np.testing.assert_allclose(runs.q[0], wanted.q, atol=1e-9)
