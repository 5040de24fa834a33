"""Nothing is computed in float32 without a word: it is switched on early, refused when off, and told when handed in."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da


def bob() -> da.Model:
    m = da.Model("bob", space="plane", gravity=(0, -9.81))
    body = m.body("bob", mass=1.0, inertia=0.1, position=(0.5, 0.0))
    m.revolute("pin", m.ground, body, at=(0.0, 0.0))
    return m


def spring(q0, **options):
    return da.FunctionSystem(unit_mass, pull, q0=q0, **options)


def unit_mass(t, q, *p):
    return jnp.eye(2)


def pull(t, q, v, *p):
    return -q


@pytest.mark.parametrize("first", ["import dalembert, jax.numpy as jnp", "import jax.numpy as jnp, dalembert"])
def test_arrays_made_right_after_the_import_are_float64(first):
    code = f"{first}; x = jnp.array([0.1]); assert x.dtype == 'float64', x.dtype"
    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment | {"JAX_PLATFORMS": "cpu"})


def test_nothing_is_computed_while_float64_is_off():
    system, own = da.build(bob()), spring([1.0, 0.1])
    asked = {
        "build": lambda: da.build(bob()),
        "simulate": lambda: da.simulate(system, 0.1),
        "check": lambda: da.check(system),
        "consistent_state": lambda: da.stabilise.consistent_state(system),
        "assemble": lambda: da.assemble(system, 0.0, system.q0, system.v0),
        "FunctionSystem": lambda: spring([1.0, 0.1]),
        "simulate, own functions": lambda: da.simulate(own, 0.1),
    }
    with jax.enable_x64(False):
        for what, ask in asked.items():
            with pytest.raises(da.errors.DalembertError, match="switched to float32"):
                ask()
                raise AssertionError(what)


def test_numbers_that_come_as_float32_are_told_by_name():
    single = np.array([0.1, 0.2], np.float32)
    with pytest.warns(da.errors.PrecisionWarning, match="FunctionSystem 'functions': q0: the numbers come as float32"):
        assert spring(single).q0.dtype == np.float64
    with pytest.warns(da.errors.PrecisionWarning, match="v0"):
        spring([1.0, 0.1], v0=jnp.asarray(single))
    with pytest.warns(da.errors.PrecisionWarning, match="parameter 'k'"):
        own = spring([1.0, 0.1], parameters={"k": np.float32(0.3)})
    with pytest.warns(da.errors.PrecisionWarning, match="Parameter 'k' of system 'functions'"):
        own.replace({"k": np.float32(0.3)})
    system = da.build(bob())
    with pytest.warns(da.errors.PrecisionWarning, match="q of system 'bob'"):
        da.stabilise.consistent_state(system, (np.array([0.5, 0.0, 0.1], np.float32) * np.float32(0.999), None))
    with pytest.warns(da.errors.PrecisionWarning, match="Body 'b': mass"):
        da.Model("m", space="plane").body("b", mass=np.float32(0.1), inertia=1.0)


@pytest.mark.filterwarnings("error::dalembert._results.PrecisionWarning")
def test_float32_numbers_that_lost_nothing_are_not_told():
    spring(np.array([1.0, 0.5], np.float32))
