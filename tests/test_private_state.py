"""What we use of other packages beyond what they promise. A test that fails here names the version that changed it.

All of it saves compile time; `dalembert` was tried with the versions in pyproject.toml.
"""

from __future__ import annotations

from importlib.metadata import version
from types import SimpleNamespace

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.simulation import _host, _march
from dalembert.simulation._march import INTEGRATORS, Plan, Span

VERSIONS = ", ".join(f"{name} {version(name)}" for name in ("jax", "equinox", "diffrax"))
Y = (np.ones(2), np.ones(2), np.zeros(4), (None, None))


def plan_for(integrator: str, fixed: bool = False) -> Plan:
    return Plan(integrator, fixed, "times", 100, "forward")


def span() -> Span:
    one = np.asarray(1.0)
    return Span(0.0 * one, one, 0.1 * one, Y, one, one, one, None)


def shapes(tree):
    return jax.tree_util.tree_structure(tree), [np.shape(x) for x in jax.tree_util.tree_leaves(tree)]


@pytest.mark.parametrize("name", [n for n in INTEGRATORS if n != "radau5"])
def test_the_state_of_a_solver_is_as_diffrax_makes_it(name):
    """`solver_state` writes down what a Runge–Kutta solver of Diffrax carries from step to step."""
    term = diffrax.ODETerm(lambda t, y, args: y)
    made = INTEGRATORS[name]().init(term, 0.0, 0.1, Y, None)
    ours = _host.fresh_state(span(), plan_for(name))[0]
    assert shapes(made) == shapes(ours), f"{INTEGRATORS[name].__name__} carries another state in {VERSIONS}"


@pytest.mark.parametrize("name", ["tsit5", "dopri5", "bosh3"])
def test_a_jump_makes_a_solver_evaluate_its_first_stage_again(name):
    """Projected steps say `made_jump`: the stage carried along, here all NaN, must not be used."""
    solver = INTEGRATORS[name]()
    term = diffrax.ODETerm(lambda t, y, args: -y)
    y = jnp.ones(2)
    stale = jax.tree_util.tree_map(lambda x: jnp.full_like(x, jnp.nan), solver.init(term, 0.0, 0.1, y, None)[1])
    y1, *_ = solver.step(term, 0.0, 0.1, y, None, (jnp.array(False), stale), True)
    assert bool(jnp.all(jnp.isfinite(y1))), f"made_jump is not heeded in {VERSIONS}"


def small_march():
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: -y),
        diffrax.Tsit5(),
        0.0,
        jnp.ones(()),
        0.1,
        jnp.ones(2),
        throw=False,
        stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-6),
    ).ys


def jaxprs() -> tuple[str, str]:
    """The program of a small march as text, without and with `_lean`."""
    jax.clear_caches()  # parts of it are traced once, and kept
    full = str(jax.make_jaxpr(small_march)())
    jax.clear_caches()
    with _march._lean():
        lean = str(jax.make_jaxpr(lambda: small_march())())
    return full, lean


def test_a_march_has_no_callbacks():
    """`_lean` leaves out what checks arguments by callbacks: a program with one is never kept in the compile cache."""
    full, lean = jaxprs()
    assert "callback" in full, f"no callbacks in {VERSIONS}, with or without _lean: that part of it can go"
    assert "callback" not in lean, f"_lean does not keep callbacks out in {VERSIONS}"


def test_a_march_is_shorter_without_the_previous_float():
    """`_lean` leaves out `prevbefore`; if that no longer shortens the program, it can go."""
    full, lean = jaxprs()
    assert "nextafter" in full, f"no previous float in {VERSIONS}, with or without _lean: that part of it can go"
    assert "nextafter" not in lean, f"_lean does not keep the previous float out in {VERSIONS}"


def test_compiled_programs_can_be_counted_and_dropped():
    """`compiled` drops old programs by the cache of JAX's function inside Equinox's."""
    program = eqx.filter_jit(lambda x: x + 1)
    program(jnp.ones(3))
    inner = getattr(program, "_cached", SimpleNamespace())
    assert hasattr(inner, "_cache_size") and hasattr(inner, "clear_cache"), f"filter_jit hides its cache in {VERSIONS}"
    assert inner._cache_size() == 1
    inner.clear_cache()
    assert inner._cache_size() == 0


def test_the_trace_state_tells_whether_anything_is_traced():
    """`compiled_quickly` asks it, where an operation of JAX would start XLA."""
    from dalembert.systems import _names

    found = []
    jax.make_jaxpr(lambda: (found.append(_names._inside_a_jit()), jnp.ones(1))[1])()
    assert found == [True], f"a trace has the state of none in {VERSIONS}"
    jax.vmap(lambda x: (found.append(_names._inside_a_jit()), x)[1])(jnp.ones(2))
    assert found[1:] == [False], f"a number that vmap does not see is traced in {VERSIONS}"
    assert _names.get_opaque_trace_state() == _names._UNTRACED, f"each look at no trace differs in {VERSIONS}"


def test_a_solution_is_made_as_equinox_makes_it():
    """`Solution.of` leaves out the checks of Equinox, and that of the shapes, which is made here."""
    ours = da.simulate(da.build(da.mechanism("pendulum")), 0.01, samples=3)
    theirs = da.simulation.Solution(**vars(ours))
    assert vars(ours).keys() == vars(theirs).keys(), f"a module has other attributes in {VERSIONS}"
    assert shapes(ours) == shapes(theirs), f"a module is another tree in {VERSIONS}"
    with pytest.raises(AttributeError):
        ours.t = np.ones(2)


def test_jax_uses_our_program_files(tmp_path):
    """`ProgramFiles` (whole files with checksums) stand in for JAX's own cache files."""
    from jax._src import compilation_cache

    from dalembert import _runtime

    before = compilation_cache.get_file_cache
    try:
        _runtime._put_programs_into(tmp_path)
        cache, _ = compilation_cache.get_file_cache(str(tmp_path))
        assert isinstance(cache, _runtime.ProgramFiles), f"JAX does not ask for its file cache in {VERSIONS}"
    finally:
        compilation_cache.get_file_cache = before


def test_the_primitive_of_klu_is_its_public_function():
    """`KLU.solve` binds klujax's primitive: its public function would sort indices that are sorted, at run time."""
    import klujax

    i, j = jnp.array([0, 0, 1, 1], np.int32), jnp.array([0, 1, 0, 1], np.int32)
    values, rhs = jnp.array([4.0, 1.0, 1.0, 3.0]), jnp.array([[1.0], [2.0]])
    symbol = klujax.analyze(i, j, 2)
    bound = klujax.solve_with_symbol_f64.bind(i, j, values[None], rhs[None], np.array(int(symbol.raw), np.uint64))[0]
    # a 2 × 2 system: some rounding errors of 2e-16
    message = f"another primitive in klujax {version('klujax')}"
    np.testing.assert_allclose(bound, np.linalg.solve([[4.0, 1.0], [1.0, 3.0]], rhs), rtol=1e-14, err_msg=message)
