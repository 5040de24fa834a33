"""34 · Many at once: 2,000 four-bars whose masses scatter, on all processor cores, and how the motion spreads."""

import time

import numpy as np

import dalembert as da

COUNT, END, BODIES = 2000, 2.0, ("crank", "coupler", "rocker")
SETTINGS = {"rtol": 1e-7, "derivatives": ["crank.mass"]}
machine = da.prepare(da.mechanism("four-bar"))
nominal = machine.system.parameters()


def masses(count):
    """Masses and inertias of all bodies with a standard deviation of 5 %."""
    share = {body: np.random.default_rng(k).normal(1.0, 0.05, count) for k, body in enumerate(BODIES)}
    return {f"{b}.{what}": share[b] * float(nominal[f"{b}.{what}"]) for b in BODIES for what in ("mass", "inertia")}


da.simulate_many(machine, masses(1), END, **SETTINGS)  # makes the machine code, once for all
start = time.perf_counter()
runs = da.simulate_many(machine, masses(COUNT), END, **SETTINGS)
seconds = time.perf_counter() - start

done = runs.status_code == da.simulation.Status.done.value
print(f"{done.sum()} of {COUNT} machines reached {END:g} s; all took {seconds:.2f} s together")
print("crank angle: how often")
angles = np.degrees(runs.q[done, -1, 2])
counts, edges = np.histogram(angles, bins=12)
for count, edge in zip(counts, edges, strict=False):
    print(f"{edge:7.1f}° {'█' * int(np.ceil(60 * count / counts.max()))} {count}")
slope = np.degrees(runs.derivatives.q[done, 0, -1, 2])
print(f"{angles.mean():.1f}° ± {angles.std():.1f}°; by the crank's mass alone: {slope.mean():.0f}°/kg on average")
