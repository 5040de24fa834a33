"""A study that takes a while and writes down every case that it computes, here and as a process that can be killed.

python _helpers_studies.py FOLDER LOG [--workers N | --scheduler ADDRESS] [--simulate]

With --simulate the cases are motions of a pendulum; these write no log.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import time
from typing import NamedTuple

import numpy as np

import dalembert as da
from dalembert.studies import open_study, study

CASES, CHUNK, PAUSE = 60, 4, 0.01
LOG = "DALEMBERT_STUDY_LOG"


def pendulum() -> da.Model:
    model = da.Model("pendulum", gravity=(0, -9.81))
    rod = model.body("rod", mass=1.0, inertia=1 / 12, position=(0.5, 0))
    model.revolute("pin", model.ground, rod, at=(0, 0))
    model.measure("tip", "point", rod, at=(1, 0))
    return model


class Line(NamedTuple):
    """One computation of a case."""

    mass: float
    process: int
    begun: float


def numbers(system):
    """Some numbers of a case; each call is a line in the log: the case's mass, the process and the time."""
    mass = float(system.parameters()["rod.mass"])
    with open(os.environ[LOG], "a") as file:
        file.write(f"{mass!r} {os.getpid()} {time.time()!r}\n")
    time.sleep(PAUSE)
    if mass > 30 and round(mass * 10) % 7 == 0:
        raise ValueError("too heavy")
    return {"sine": math.sin(mass), "root": math.sqrt(mass)}


def masses() -> np.ndarray:
    return np.round(np.linspace(1, 50, CASES), 3)


def watched(folder, **options):
    """The study that writes a log."""
    return study(pendulum(), {"rod.mass": masses()}, ["sine", "root"], task=numbers, out=folder, chunk=CHUNK, **options)


def moving(folder, **options):
    """The study of motions, each of them a chunk."""
    return study(
        pendulum(), {"rod.mass": masses()}, ["final(tip.x)", "peak(tip.vx, tip.vy)"], 2.0, out=folder, chunk=1,
        samples=21, rtol=1e-8, **options,
    )  # fmt: skip


def log_of(path) -> list[Line]:
    """The cases computed so far; a line that is being written is left out."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        lines = file.read().split("\n")[:-1]
    return [Line(float(a), int(b), float(c)) for a, b, c in (line.split() for line in lines)]


def computed_once(folder, log) -> None:
    """No piece of a chunk was begun again after the chunk had been finished. Begun before it may have been: a worker
    that is killed when its numbers are on their way leaves its piece to another one."""
    number = {mass: k for k, mass in enumerate(masses().tolist())}
    done = open_study(folder).store.done()
    assert sum(note["cases"] for note in done.values()) == CASES == len({line.mass for line in log_of(log)})
    before: dict[int, int] = {}  # of each process the case that it has computed last
    for line in log_of(log):
        case = number[line.mass]
        goes_on = before.get(line.process) == case - 1 and case % CHUNK
        before[line.process] = case
        assert goes_on or line.begun <= done[case // CHUNK]["finished"], case


def same(a, b) -> None:
    """Two datasets are the same, bit by bit, in every variable."""
    assert set(a.variables) == set(b.variables)
    for name in a.variables:
        x, y = a[name].values, b[name].values
        assert x.shape == y.shape, name
        assert (x.tobytes() == y.tobytes()) if x.dtype.kind in "fib" else (x.tolist() == y.tolist()), name


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if it was started where that is ignored
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("log")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--scheduler")
    parser.add_argument("--simulate", action="store_true")
    given = parser.parse_args()
    os.environ[LOG] = given.log
    (moving if given.simulate else watched)(given.folder, workers=given.workers, client=given.scheduler)


if __name__ == "__main__":
    main()
