"""Batches on all cores: members per second at an error, dalembert against MuJoCo's rollout and against `jax.vmap`.

    python benchmarks/batch.py                              all machines, and derivatives
    python benchmarks/batch.py four-bar --quick             one of them, a few members: does it work?

A batch is one machine with many values of one parameter. The error is the largest one over the sample times (every
0.1 s, 10 s) of the tracked point, over the first 32 members, against tight references. Each engine takes the quickest
of its settings that meets the error (`jax.vmap`: see below); the error printed beside a speed is that of the clocked
runs. Engines take turns on the clock, wall time counts, building and compiling come before.

- `simulate_many`: the whole call, from arrays of parameters to arrays of states.
- `mujoco.rollout`: the model of `peers_mujoco.py`, one copy of it for each member made before, room for its states too;
  as many threads as cores. It takes members one by one, so that fewer of them give the same speed.
- `jax.vmap` of `da.simulate(engine="jax")`, compiled as one program that returns positions only; with the integrator
  and the tolerance of `simulate_many`, as both take the same steps.

References: for the four-bar one equation in the crank angle (`reference.py`), for the others `simulate_many` at 1e-13.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np
from ours import samples_of
from problems import Problem, problems, tree_of
from reference import four_bars

import dalembert as da

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
ERROR, CHECKED = 1e-5, 32
REPEATS = 3
RTOLS = tuple(10.0 ** -(k / 2) for k in range(5, 15))
TIGHT = {"integrator": "dopri8", "rtol": 1e-13}
STEPS = (1e-2, 6.25e-3, 5e-3, 4e-3, 3.125e-3, 2.5e-3, 2e-3, 1.25e-3, 1e-3)  # of MuJoCo; each divides 0.1 s
DERIVATIVES = ("crank.mass", "coupler.mass", "rocker.mass", "coupler.inertia")
DERIVATIVE_ERROR = 1e-6
NAMES, GRADIENTS = ("four-bar", "mobile-robot", "bricard"), "gradients"


@dataclass(frozen=True)
class Sweep:
    """A machine, the parameter that varies and between which values, and how many members each engine is given."""

    problem: Problem
    parameter: str
    low: float
    high: float
    members: dict[str, int]  # engine -> members

    def values(self, count: int) -> np.ndarray:
        """Those that are compared with references come first and are the same for every count."""
        checked = np.linspace(self.low, self.high, CHECKED)
        rest = np.linspace(self.low, self.high, max(count - CHECKED, 0) + 2)[1:-1]
        return np.concatenate([checked, rest])[: max(count, CHECKED)]

    def error(self, points: np.ndarray, truth: np.ndarray) -> float:
        """The largest distance of the first members (members, times, 3) from their references."""
        error = float(np.max(np.linalg.norm(points[:CHECKED] - truth, axis=2)))
        return error if np.isfinite(error) else np.inf


@dataclass
class Row:
    """One engine on one batch."""

    problem: str
    title: str
    engine: str
    members: int
    setting: str
    seconds: float  # wall, median
    cpu_seconds: float
    repeats: int
    error: float
    first_s: float  # the first call: it compiles
    cores: int = CORES
    rate: float = 0.0

    def __post_init__(self) -> None:
        self.rate = self.members / self.seconds


def sweeps(quick: bool = False) -> list[Sweep]:
    """All batches."""
    known = {p.name: p for p in problems()}
    robot = da.mechanism("mobile-robot")
    place = np.append(np.asarray(robot.bodies["body7"].position, float), 0.0)
    moving = Problem("mobile-robot", "mobile robot, 10 s", robot, 10.0, 0.1, "body7", place, {"point": (ERROR,)}, RTOLS)
    found = [
        Sweep(known["four-bar"], "crank.mass", 0.5, 3.0, {OURS: 10_000, ROLLOUT: 500, VMAP: 1000}),
        Sweep(moving, "body1.mass", 5.0, 20.0, {OURS: 10_000, VMAP: 500}),
        Sweep(known["bricard"], "bar3.mass", 0.5, 2.0, {OURS: 5_000, ROLLOUT: 200, VMAP: 200}),
    ]
    if quick:
        found = [Sweep(s.problem, s.parameter, s.low, s.high, dict.fromkeys(s.members, 64)) for s in found]
    return found


# ---- engines -------------------------------------------------------------------------------------------------


class Many:
    """`da.simulate_many`."""

    name = "simulate_many"

    def __init__(self, sweep: Sweep):
        self.sweep, self.system = sweep, da.build(sweep.problem.model)

    def settings(self) -> list[list[tuple[str, float]]]:
        return [[(kind, rtol) for rtol in RTOLS] for kind in ("tsit5", "dopri8")]

    def batch(self, setting: tuple[str, float], count: int) -> Callable[[], None]:
        values, times = self.sweep.values(count), self.sweep.problem.times

        def run() -> None:
            self.q = np.asarray(
                da.simulate_many(
                    self.system, {self.sweep.parameter: values}, float(times[-1]), samples=times,
                    integrator=setting[0], rtol=setting[1],
                ).q
            )  # fmt: skip

        return run

    def points(self) -> np.ndarray:
        return np.array([samples_of(self.sweep.problem, q).point for q in self.q[:CHECKED]])


class Vmap(Many):
    """`jax.vmap` of `da.simulate`; compiled once for a number of members."""

    name = "jax.vmap"

    def __init__(self, sweep: Sweep):
        super().__init__(sweep)
        self.machine, self.programs = da.prepare(self.system), {}

    def batch(self, setting: tuple[str, float], count: int) -> Callable[[], None]:
        values, times = self.sweep.values(count), self.sweep.problem.times
        kind, rtol = setting

        def one(value, rtol):
            machine = self.machine.replace({self.sweep.parameter: value})
            return da.simulate(
                machine, float(times[-1]), samples=times, integrator=kind, rtol=rtol, throw=False, engine="jax"
            ).q

        program = self.programs.setdefault(kind, jax.jit(jax.vmap(one, in_axes=(0, None))))

        def run() -> None:
            self.q = np.asarray(program(values, rtol))

        return run


class Rollout:
    """`mujoco.rollout` with as many threads as cores."""

    name = "mujoco.rollout"

    def __init__(self, sweep: Sweep):
        import mujoco
        import peers_mujoco
        from mujoco import rollout

        self.sweep, self.tree = sweep, tree_of(sweep.problem.model)
        self.mujoco, self.xml = mujoco, peers_mujoco.xml_of
        self.pool = rollout.Rollout(nthread=CORES)
        body, self.field = sweep.parameter.split(".")
        assert self.field == "mass"
        self.link = next(k for k, link in enumerate(self.tree.links) if link.name == body)

    def settings(self) -> list[list[tuple[str, float]]]:
        return [[("RK4", h) for h in STEPS]]

    def batch(self, setting: tuple[str, float], count: int) -> Callable[[], None]:
        mujoco, (kind, h) = self.mujoco, setting
        model = mujoco.MjModel.from_xml_string(self.xml(self.tree, kind, h))
        models = [copy.copy(model) for _ in range(count)]
        for member, value in zip(models, self.sweep.values(count), strict=True):
            member.body_mass[1 + self.link] = value  # its moments of inertia stay, as for `simulate_many`
        data = [mujoco.MjData(model) for _ in range(CORES)]
        data[0].qvel[:] = self.tree.rates
        spec = mujoco.mjtState.mjSTATE_FULLPHYSICS
        start = np.zeros((1, mujoco.mj_stateSize(model, spec)))
        mujoco.mj_getState(model, data[0], start[0], spec)
        times = self.sweep.problem.times
        steps = round(times[-1] / h)
        self.states, self.start, self.every = np.empty((count, steps, start.shape[1])), start, round(times[1] / h)

        def run() -> None:
            self.pool.rollout(models, data, start, nstep=steps, state=self.states)

        return run

    def points(self) -> np.ndarray:
        angles = self.states[:CHECKED, self.every - 1 :: self.every, 1 : 1 + len(self.tree)]  # behind the time
        angles = np.insert(angles, 0, self.start[0, 1 : 1 + len(self.tree)], axis=1)
        return np.array([self.tree.samples(x, self.sweep.problem).point for x in angles])


OURS, ROLLOUT, VMAP = Many.name, Rollout.name, Vmap.name
ENGINES: dict[str, Any] = {OURS: Many, ROLLOUT: Rollout, VMAP: Vmap}


# ---- measuring -----------------------------------------------------------------------------------------------


def clocked(run: Callable[[], None]) -> tuple[float, float]:
    """Wall and processor seconds."""
    begin = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def measure(sweep: Sweep, repeats: int = REPEATS) -> list[Row]:
    """All engines on one batch, in turns."""
    truth = references(sweep)
    ready: dict[str, tuple] = {}
    for name, count in sweep.members.items():
        try:
            engine = ENGINES[name](sweep)
        except ImportError as error:
            say(f"{name} is left out: {error}")
            continue
        setting, first = (ready[OURS][1], None) if name == VMAP else chosen(engine, sweep, truth)
        run = engine.batch(setting, count)
        warm = clocked(run)[0]  # compiles a program of JAX; fills caches
        ready[name] = engine, setting, run, warm if first is None else first
        say(f"{sweep.problem.title}: {name} takes {setting[0]}, {setting[1]:.2g}; first call {ready[name][-1]:.1f} s")
    spent: dict[str, list] = {name: [] for name in ready}
    for _ in range(repeats):
        for name, (_, _, run, _) in ready.items():
            spent[name].append(clocked(run))
    rows = []
    for name, (engine, setting, _, first) in ready.items():
        wall, cpu = (median(x) for x in zip(*spent[name], strict=True))
        error = sweep.error(engine.points(), truth)
        rows.append(
            Row(
                sweep.problem.name, sweep.problem.title, name, len(sweep.values(sweep.members[name])),
                f"{setting[0]}, {setting[1]:.2g}{' s' if name == ROLLOUT else ''}", wall, cpu, repeats, error, first,
            )
        )  # fmt: skip
        say(f"{sweep.problem.title}: {name} {rows[-1].rate:.4g} members/s, error {error:.1e}")
    return rows


def references(sweep: Sweep) -> np.ndarray:
    """Points (members, times, 3) of the members that are compared."""
    values = sweep.values(CHECKED)
    if sweep.problem.name == "four-bar":
        return np.array([samples.point for samples in four_bars(sweep.problem, values)[0]])
    engine = Many(sweep)
    engine.batch((TIGHT["integrator"], TIGHT["rtol"]), CHECKED)()
    return engine.points()


def chosen(engine, sweep: Sweep, truth: np.ndarray) -> tuple[tuple[str, float], float]:
    """The quickest setting that meets the error, and the seconds of the engine's first call.

    Of each ladder the first setting from which two in a row meet it: one that is exact by luck does not count.
    """
    found, first = [], None
    for ladder in engine.settings():
        met: list[tuple[str, float]] = []
        for setting in ladder:
            run = engine.batch(setting, CHECKED)
            seconds = clocked(run)[0]
            first = seconds if first is None else first
            met = [*met, setting] if sweep.error(engine.points(), truth) <= ERROR else []
            if len(met) == 2:
                break
        if met:
            found.append(met[0])
    if not found:
        raise RuntimeError(f"{engine.name} does not reach an error of {ERROR:g} on {sweep.problem.title}.")
    assert first is not None
    if len(found) == 1:
        return found[0], first
    runs = [engine.batch(setting, 16 * CHECKED) for setting in found]
    turns = [[clocked(run)[0] for run in runs] for _ in range(3)]
    return found[int(np.argmin(np.median(turns, axis=0)))], first


def gradients(count: int = 1000, repeats: int = 5) -> dict:
    """What derivatives by four parameters cost, and their error against central differences.

    Both batches are marched at the coarsest tolerance at which the derivatives meet their error.
    """
    sweep = sweeps()[0]
    system, times = da.build(sweep.problem.model), sweep.problem.times
    own = {name: float(system.parameters()[name]) for name in DERIVATIVES}

    def members(count: int) -> dict[str, np.ndarray]:
        return {name: np.full(count, x) for name, x in own.items()} | {sweep.parameter: sweep.values(count)}

    def march(members, rtol: float, derivatives=()):
        return da.simulate_many(
            system, members, float(times[-1]), samples=times, integrator="dopri8", rtol=rtol, derivatives=derivatives
        )

    def differences(step: float) -> np.ndarray:
        """Of coordinates by each parameter, over a step relative to it: (members, parameters, times, coordinates)."""
        base, out = members(CHECKED), []
        for name in DERIVATIVES:
            ahead, behind = (march(base | {name: base[name] * (1 + s)}, TIGHT["rtol"]).q for s in (step, -step))
            out.append((np.asarray(ahead) - np.asarray(behind)) / (2 * step * base[name][:, None, None]))
        return np.stack(out, axis=1)

    truth = (4 * differences(5e-4) - differences(1e-3)) / 3  # Richardson: the error of the step's square cancels
    size = np.max(np.abs(truth), axis=(2, 3))

    def error(found) -> float:
        """The largest one, relative to the largest derivative by the same parameter in the same member."""
        gap = np.max(np.abs(np.asarray(found.derivatives.q)[:CHECKED] - truth), axis=(2, 3))
        return float(np.max(gap / size))

    begin = time.perf_counter()
    march(members(CHECKED), RTOLS[0], DERIVATIVES)
    first = time.perf_counter() - begin
    for rtol in (10.0**-k for k in range(5, 14)):
        found = error(march(members(CHECKED), rtol, DERIVATIVES))
        if found <= DERIVATIVE_ERROR:
            break
    many = members(count)
    runs = [lambda: march(many, rtol), lambda: march(many, rtol, DERIVATIVES)]
    for run in runs:
        run()
    plain, along = (
        np.median(x, axis=0) for x in zip(*[[clocked(run) for run in runs] for _ in range(repeats)], strict=True)
    )
    say(f"derivatives of {count} four-bars: {along[0] / plain[0]:.2f} times the batch, error {found:.1e}")
    return {
        "members": count, "parameters": DERIVATIVES, "rtol": rtol, "batch_s": plain[0], "derivatives_s": along[0],
        "ratio": along[0] / plain[0], "cpu_ratio": along[1] / plain[1], "error": found, "first_s": first,
    }  # fmt: skip


def say(text: str) -> None:
    print(text, flush=True)


# ---- what is printed -----------------------------------------------------------------------------------------


def table(rows: list[dict]) -> list[str]:
    lines = [
        f"All {rows[0]['cores']} cores, at an error of at most {ERROR:g} m over 10 s (largest of {CHECKED} members).",
        "`simulate_many` and `mujoco.rollout` by their own quickest settings, `jax.vmap` by those of `simulate_many`:",
        "the same steps. References: the four-bar by one equation in the crank angle, the others by `simulate_many` at",
        "1e-13. Wall time, engines in turns; building and compiling come before (the first call contains them). MuJoCo",
        "has no knife edges, only wheels that rub: there is no model of the mobile robot, which rolls without slip.",
        "",
        "| batch | engine | members | setting | error, m | members/s | core-ms a member | `simulate_many` over | "
        "first call, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    ours = {r["problem"]: r for r in rows if r["engine"] == OURS}
    for r in rows:
        over = "" if r["engine"] == OURS else f"{ours[r['problem']]['rate'] / r['rate']:.3g}×"
        cells = [
            r["title"],
            f"`{r['engine']}`",
            str(r["members"]),
            r["setting"],
            f"{r['error']:.1e}",
            f"{r['rate']:.4g}",
        ]
        cells += [f"{1e3 * r['cpu_seconds'] / r['members']:.3g}", over, f"{r['first_s']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def gradients_text(g: dict) -> str:
    return (
        f"Derivatives by {len(g['parameters'])} parameters ({', '.join(g['parameters'])}) of {g['members']} four-bars, "
        f"dopri8 at {g['rtol']:.0e}: {g['derivatives_s']:.3g} s, the batch itself {g['batch_s']:.3g} s, "
        f"{g['ratio']:.2f} times as long (processor time: {g['cpu_ratio']:.2f}); error against central differences "
        f"{g['error']:.1e} of the largest derivative; first call {g['first_s']:.1f} s."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"machines, or {GRADIENTS}; default: all")
    parser.add_argument("--quick", action="store_true", help="a few members: does it work?")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    given = parser.parse_args()
    rows: list[dict] = []
    for sweep in sweeps(given.quick):
        if not given.names or sweep.problem.name in given.names:
            rows += [asdict(row) for row in measure(sweep, 1 if given.quick else REPEATS)]
    along = None
    if not given.names or GRADIENTS in given.names:
        along = gradients(64, 1) if given.quick else gradients()
    if rows:
        print("\n" + "\n".join(table(rows)))
    if along:
        print("\n" + gradients_text(along))
    if given.json:
        given.json.write_text(json.dumps({"rows": rows, "gradients": along}))


if __name__ == "__main__":
    main()
