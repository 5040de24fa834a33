"""Memory of one process that asks about many small models: names and numbers add nothing, structures some.

    python benchmarks/memory.py [models] [structures]

The models are pendulums of 1, 2, … links with and without a spring, each under names and numbers of its own. Each is
built, checked and simulated, and its reactions are read. Printed: resident memory after the first, after all structures
were seen once, and at the end; the programs compiled for a second name of a known structure; the time.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
import warnings

import jax

import dalembert as da


def resident() -> float:
    """Resident memory of this process in MB, after what is free was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def chain(number: int, structure: int) -> da.Model:
    """A pendulum of `structure // 2 + 1` links, with a spring if `structure` is odd; names and sizes by `number`."""
    model = da.Model(f"model {number}", gravity=(0, -9.81))
    length, before = 1.0 + number / 1000, "ground"
    links = structure // 2 + 1
    for k in range(links):
        body = f"link {number}_{k}"
        model.body(body, mass=1.0 + k, inertia=0.1 + number / 5000, position=((k + 0.5) * length, 0.0))
        model.revolute(f"pin {number}_{k}", before, body, at=(k * length, 0.0))
        before = body
    if structure % 2:
        model.spring_damper(f"spring {number}", "ground", before, stiffness=50.0 + number, length=0.3)
    return model


def main(models: int = 300, structures: int = 6) -> None:
    compiled = 0

    def hear(event: str, duration: float, **_):
        nonlocal compiled
        compiled += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(hear)
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    first = again = 0.0
    for number in range(models):
        before = compiled
        model = chain(number, number % structures)
        da.check(model)
        solution = da.simulate(model, 0.5, samples=11)
        _ = solution.dataset, solution.reactions(f"pin {number}_0")
        if number >= structures:
            again += compiled - before
        if number == 0:
            first = resident()
            print(f"after the first model: {first:.0f} MB")
        if number == structures - 1:
            print(f"after {structures} structures: {resident():.0f} MB (+{resident() - first:.0f})")
    print(f"after {models} models: {resident():.0f} MB (+{resident() - first:.0f})")
    print(f"programs compiled for other names of a known structure: {again:.0f}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
