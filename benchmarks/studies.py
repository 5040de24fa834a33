"""100,000 four-bars with three varied parameters as a study: throughput beside the bare batch, memory, counts.

    python benchmarks/studies.py [--count COUNT] [--trim]

Study and bare batch take turns, chunk by chunk: whatever else runs on the machine slows down both. Memory is what this
process holds when a chunk is finished, as it is; with --trim after what is free was given back. The exit code is 1 if a
bar is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import dalembert as da
from dalembert.studies import Uniform, cases_of, study

COUNT, QUICK, PART = 100_000, 2000, 2000  # the last chunk is as large as the others
END, SETTINGS = 2.0, {"rtol": 1e-7, "samples": 101}
VARY = {name: Uniform(0.5, 2.0) for name in ("crank.mass", "coupler.mass", "rocker.mass")}
MEASURE = ["final(A.angle)", "peak(A.angle_rate)"]
GROWTH, SLOWER = 5.0, 25.0
"""Bars in percent: spread of the memory over the last half, and time of a case beside the bare batch."""


def measure(count: int = COUNT, part: int = PART, trim: bool = False) -> dict:
    """Counts, microseconds a case, and MiB at the end of each chunk."""
    model = da.mechanism("four-bar")
    machine, cases = da.prepare(model), cases_of(VARY, count=count)
    held, peaks = [], []
    spent = {"study": 0.0, "batch": 0.0}
    clock = [0.0]

    def batch(first: int) -> None:
        """The same members as a chunk, whose results are dropped."""
        some = {n: x[first : first + part] for n, x in cases.values.items()}
        da.simulate_many(machine, some, END, **SETTINGS)

    def after_chunk(done: int, failed: int, count: int) -> None:
        spent["study"] += time.perf_counter() - clock[0]
        begin = time.perf_counter()
        batch(len(held) * part)
        spent["batch"] += time.perf_counter() - begin
        held.append(memory(trim))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        clock[0] = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        study(model, VARY, MEASURE, END, out=f"{folder}/warm", count=part, **SETTINGS)  # makes the machine code
        batch(0)
        clock[0] = time.perf_counter()
        found = study(
            model, VARY, MEASURE, END, out=f"{folder}/study", count=count, chunk=part, progress=after_chunk, **SETTINGS
        )
        spent["study"] += time.perf_counter() - clock[0]
        data, status = found.dataset, found.status()
        states, numbers = int((data["status"] == "done").sum()), int(data["final(A.angle)"].notnull().sum())
    return {
        "count": count, "done": status["done"], "failed": status["failed"], "states": states, "numbers": numbers,
        "study_us": 1e6 * spent["study"] / count, "batch_us": 1e6 * spent["batch"] / count, "held_MiB": held,
        "peak_MiB": peaks, "part": part, "trimmed": trim,
    }  # fmt: skip


def memory(trim: bool) -> float:
    """What this process holds now, in MiB."""
    if trim:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def asked(found: dict) -> list[tuple[str, float, float, bool, str]]:
    """The bars: what is asked, what was measured, the bound, whether that is a least value, a note."""
    half = found["held_MiB"][len(found["held_MiB"]) // 2 :]
    name = f"study of {found['count']:,} four-bars"
    lost = found["count"] - min(found["done"], found["states"], found["numbers"]) + found["failed"]
    slower, growth = 100 * (found["study_us"] / found["batch_us"] - 1), 100 * (max(half) / min(half) - 1)
    peaks = found["peak_MiB"]
    peak = 100 * (peaks[-1] / peaks[len(peaks) // 2] - 1)
    return [
        (f"{name}: cases lost or failed", lost, 0, False, ""),
        (f"{name}: slower than the bare batch, %", slower, SLOWER, False, ""),
        (f"{name}: memory of the last half, largest over least, %", growth, GROWTH, False, f"{max(half):.0f} MiB"),
        (f"{name}: peak of memory, growth in the last half, %", peak, GROWTH, False, f"{peaks[-1]:.0f} MiB"),
    ]


def table(found: dict) -> list[str]:
    """What was measured, in words."""
    held, peaks = found["held_MiB"], found["peak_MiB"]
    half = len(held) // 2
    how = "after what is free was given back" if found["trimmed"] else "as it is"
    least, most = min(held[half:]), max(held[half:])
    return [
        f"{found['count']:,} four-bars with three varied masses, {END:g} s each, in chunks of {found['part']}:",
        f"{found['done']:,} done, {found['failed']} failed, {found['states']:,} states and {found['numbers']:,} "
        f"numbers in the dataset. {found['study_us']:.1f} µs a case, the bare batch {found['batch_us']:.1f} µs.",
        f"Memory ({how}): {held[0]:.0f} MiB after the first chunk, {least:.0f} to {most:.0f} MiB in the last half;",
        f"peak {peaks[half]:.0f} MiB after half of it, {peaks[-1]:.0f} MiB at the end.",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--trim", action="store_true", help="give free memory back before it is measured")
    parser.add_argument("--quick", action="store_true", help="a few cases: does it work?")
    parser.add_argument("--json", type=Path, help="write what was measured to this file; others judge it")
    given = parser.parse_args()
    found = measure(QUICK, QUICK // 8, given.trim) if given.quick else measure(given.count, trim=given.trim)
    print("\n".join(table(found)))
    missed = 0
    for text, value, bound, at_least, note in asked(found):
        holds = value >= bound if at_least else value <= bound
        missed += not holds
        sign = "at least" if at_least else "at most"
        print(f"{'yes' if holds else 'NO ':3}  {text}: {value:.2f}, {sign} {bound:g} {note}")
    if given.json:
        given.json.write_text(json.dumps(found))
        return 0
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
