"""100,000 four-bars with three varied parameters as a study: throughput beside the bare batch, memory, counts.

python benchmarks/studies.py [COUNT]
"""

import ctypes
import gc
import resource
import sys
import tempfile
import time
from pathlib import Path

import dalembert as da
from dalembert.studies import Uniform, cases_of, study

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
END, SETTINGS = 2.0, {"rtol": 1e-7, "samples": 101}
VARY = {name: Uniform(0.5, 2.0) for name in ("crank.mass", "coupler.mass", "rocker.mass")}
MEASURE = ["final(A.angle)", "peak(A.angle_rate)"]
PART = 2048


def memory() -> float:
    """What this process holds now, in MiB, after what is free was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def peak() -> float:
    """The most that it has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


model = da.mechanism("four-bar")
machine, cases = da.prepare(model), cases_of(VARY, count=COUNT)
held: list[float] = []
peaks: list[float] = []
spent = {"study": 0.0, "batch": 0.0}  # chunk by chunk in turns: whatever else runs on the machine slows down both
clock = [0.0]


def after_chunk(done: int, failed: int, count: int) -> None:
    """The same members as a bare batch, whose results are dropped."""
    spent["study"] += time.perf_counter() - clock[0]
    first = len(held) * PART
    some = {n: x[first : first + PART] for n, x in cases.values.items()}
    start = time.perf_counter()
    da.simulate_many(machine, some, END, **SETTINGS)
    spent["batch"] += time.perf_counter() - start
    held.append(memory())
    peaks.append(peak())
    clock[0] = time.perf_counter()


with tempfile.TemporaryDirectory() as folder:
    study(model, VARY, MEASURE, END, out=f"{folder}/warm", count=PART, **SETTINGS)  # makes the machine code
    da.simulate_many(machine, {n: x[:PART] for n, x in cases.values.items()}, END, **SETTINGS)
    clock[0] = time.perf_counter()
    found = study(
        model, VARY, MEASURE, END, out=f"{folder}/study", count=COUNT, chunk=PART, progress=after_chunk, **SETTINGS
    )
    spent["study"] += time.perf_counter() - clock[0]
    data, status = found.dataset, found.status()
    states, numbers = int((data["status"] != "waiting").sum()), int(data["final(A.angle)"].notnull().sum())
    half = held[len(held) // 2 :]
    each = {k: 1e6 * x / COUNT for k, x in spent.items()}
    print(f"cases              {COUNT} in, {status['done']} out, {status['failed']} failed")
    print(f"                   {states} states, {numbers} numbers in the dataset")
    print(f"bare batch         {each['batch']:.1f} µs a case")
    print(f"study              {each['study']:.1f} µs a case: {100 * (each['study'] / each['batch'] - 1):+.1f} %")
    print(f"memory, last half  {min(half):.0f} to {max(half):.0f} MiB held: {100 * (max(half) / min(half) - 1):.1f} %")
    print(f"peak               {peaks[len(peaks) // 2]:.0f} MiB after half of it, {peaks[-1]:.0f} MiB at the end")
