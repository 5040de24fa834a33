"""`make bench`: how dalembert scales, and how long it and its peers take to reach an error, side by side.

    python benchmarks/run.py                         everything, a quarter of an hour
    python benchmarks/run.py --only scaling four-bar  a part; nothing is written
    python benchmarks/run.py --clock wall            wall time, for a machine with nothing else to do

Parts: scaling, chains (`scaling.py`); batch, gradients (`batch.py`); studies (`studies.py`); start (`start.py`); and
the problems four-bar, bricard, andrews, n-four-bar-40, n-four-bar-100. Problems and scaling use one core, the others
all.

The error is the largest one over the sample times against a tight independent reference (`reference.py`), the time
the median of several runs of the simulation alone: building and compiling come before. Each engine climbs a ladder
of step sizes or tolerances; the time to an error level is read off between two rungs on log-log scales, where the
ladder passes the level for good.
"""

from __future__ import annotations

import os

# the compile times below are those of a first run, and one core is compared with one core: before any import
os.environ["DALEMBERT_CACHE"] = "off"
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
if CORES:
    os.sched_setaffinity(0, {min(CORES)})

import argparse
import importlib
import json
import math
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import jax

jax.config.update("jax_enable_x64", True)

import batch
import scaling
import start
import studies
from problems import Problem, problems
from reference import reference

HERE = Path(__file__).parent
OURS = "dalembert"
ENGINES = {
    OURS: "ours",
    "Exudyn": "peers_exudyn",
    "MuJoCo": "peers_mujoco",
    "Pinocchio": "peers_pinocchio",
    "PyDy": "peers_pydy",
    "Diffrax by hand": "hand_diffrax",
}
PEERS = ("Exudyn", "MuJoCo", "Pinocchio", "PyDy")
LONGEST = 6.0  # seconds one run may take; finer rungs are left out
MEASURES = {"point": "m", "turned": "rad"}


@dataclass
class Rung:
    """One setting of an engine: its errors and its time."""

    setting: float
    seconds: float  # by the clock chosen
    wall_seconds: float
    cpu_seconds: float
    repeats: int
    errors: dict[str, float]
    steps: int | None = None


@dataclass
class Reach:
    """The time to an error level; `how` tells how well it is known.

    "" read off between two rungs; "<" the coarsest rung is already more exact; "!" reached, but a finer setting of the
    same ladder misses the level again, by more than ten times; "~" extrapolated; "–" not reached.
    """

    seconds: float
    how: str
    kind: str = ""


@dataclass
class Bar:
    """What the design asks for, and what was measured."""

    text: str
    value: float | None
    bound: float
    at_least: bool
    note: str = ""
    safe: bool = True  # False: dalembert's time rests on a ladder that does not converge

    @property
    def holds(self) -> bool | None:
        if self.value is None:
            return None
        if not self.safe:
            return False
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass
class Report:
    """Everything that is printed and kept."""

    machine: dict
    scaling: list[dict] = field(default_factory=list)
    chains: list[dict] = field(default_factory=list)
    ladders: dict = field(default_factory=dict)  # problem -> engine -> kind -> rungs
    references: dict[str, str] = field(default_factory=dict)
    batches: list[dict] = field(default_factory=list)
    gradients: dict | None = None
    study: dict | None = None
    processes: list[dict] = field(default_factory=list)
    calls: list[dict] = field(default_factory=list)
    live_s: float | None = None
    bars: list[Bar] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="scaling, chains, batch, gradients, studies, start, or problems")
    # engines run one after the other: on a busy machine wall times of different minutes do not compare
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, single runs: does it work? nothing is written"
    )
    parser.add_argument("--clock", choices=("wall", "cpu"), default="cpu")
    arguments = parser.parse_args()
    only, quick = arguments.only, arguments.quick
    begin = time.perf_counter()
    engines = load_engines()
    report = Report(machine(engines) | {"clock": arguments.clock, "quick": quick})
    if only is None or "scaling" in only:
        print("Scaling …", flush=True)
        report.scaling = scaling.measure({"n-four-bar": (1, 10), "closed-chain": (10,)} if quick else None)
    if only is None or "chains" in only:
        print("Chains …", flush=True)
        report.chains = scaling.chains((10, 50), 3) if quick else scaling.chains()
    if only is None or "batch" in only or "gradients" in only:
        parts = [*(name for name in batch.NAMES if only is None or "batch" in only)]
        parts += [batch.GRADIENTS] if only is None or "gradients" in only else []
        found = on_all_cores("batch.py", *parts, *["--quick"] * quick)
        report.batches, report.gradients = found["rows"], found["gradients"]
    if only is None or "studies" in only:
        report.study = on_all_cores("studies.py", *["--quick"] * quick)
    if only is None or "start" in only:
        found = on_all_cores("start.py", *["--quick"] * quick)
        report.processes, report.calls, report.live_s = (found[k] for k in ("processes", "calls", "live_s"))
    chosen = [p for p in problems() if only is None or p.name in only]
    for problem in chosen:
        truth, note = reference(problem)
        report.references[problem.name] = note
        report.ladders[problem.name] = {}
        for engine, module in engines.items():
            start = time.perf_counter()
            report.ladders[problem.name][engine] = {
                kind: climb(module, problem, kind, settings[:3] if quick else settings, truth, arguments.clock)
                for kind, settings in module.ladders(problem).items()
            }
            print(f"{problem.title}: {engine} {time.perf_counter() - start:.0f} s", flush=True)
    report.bars = bars(report)
    report.machine["minutes"] = round((time.perf_counter() - begin) / 60, 1)
    text = markdown(report, chosen)
    print("\n" + text)
    if only is None and not quick:
        results = HERE / "results"
        results.mkdir(exist_ok=True)
        (results / "latest.md").write_text(text)
        (results / "latest.json").write_text(json.dumps(asdict(report), indent=1) + "\n")


def on_all_cores(script: str, *arguments: str) -> dict:
    """What a script of this folder has measured, in a process of its own that may use all cores."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "measured.json"
        command = [sys.executable, str(HERE / script), *arguments, "--json", str(file)]
        if CORES:  # a process inherits the cores of the thread that starts it
            os.sched_setaffinity(0, CORES)
        try:
            subprocess.run(command, env=environment, check=True)
        finally:
            if CORES:
                os.sched_setaffinity(0, {min(CORES)})
        return json.loads(file.read_text())


def load_engines() -> dict:
    """Modules by engine; one that is not installed is left out with a sentence."""
    out = {}
    for engine, module in ENGINES.items():
        try:
            out[engine] = importlib.import_module(module)
        except ImportError as error:
            print(f"{engine} is left out: {error}. `pip install -e '.[bench]'` brings it.")
    return out


def machine(engines) -> dict:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next((s.split(":")[1].strip() for s in info.read_text().splitlines() if "model name" in s), model)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_at_start": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "engines": {name: getattr(module, "VERSION", "") for name, module in engines.items()},
        "commit": git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain", "--untracked-files=no")),
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


# ---- error against time ------------------------------------------------------------------------------------


def climb(module, problem: Problem, kind: str, settings, truth, watch: str) -> list[Rung]:
    """Rung by rung until the finest error level is passed or a run takes too long."""
    rungs: list[Rung] = []
    warm = False
    for setting in settings:
        simulation = module.Simulation(problem, kind, setting)
        if not warm:
            # the first run compiles, or fills caches
            simulation.reset()
            simulation.run()
            warm = True
        wall, cpu, repeats = clock(simulation)
        errors = problem.errors(simulation.samples(), truth)
        seconds = cpu if watch == "cpu" else wall
        rungs.append(Rung(setting, seconds, wall, cpu, repeats, errors, getattr(simulation, "steps_taken", None)))
        finest = all(errors[measure] < min(levels) for measure, levels in problem.levels.items())
        if finest or wall > 0.5 * LONGEST:
            break
    return rungs


def clock(simulation) -> tuple[float, float, int]:
    """Median wall and processor seconds of `run`, and of how many runs: more the shorter they are."""
    walls: list[float] = []
    cpus: list[float] = []
    while len(walls) < 7 and (len(walls) < 1 or sum(walls) < (2.0 if len(walls) < 3 else 1.0)):
        simulation.reset()
        start = time.perf_counter(), time.process_time()
        simulation.run()
        walls.append(time.perf_counter() - start[0])
        cpus.append(time.process_time() - start[1])
    return median(walls), median(cpus), len(walls)


def reach(ladders: dict[str, list[Rung]], measure: str, level: float, *, cautious: bool = False) -> Reach:
    """The shortest time to an error level over the kinds of an engine.

    Peers get the benefit of the doubt: an extrapolated time counts like a measured one. `cautious`, for dalembert,
    takes a time that is safe before one that is not, and a measured one before an extrapolated one.
    """
    found = [reach_one(kind, rungs, measure, level) for kind, rungs in ladders.items()]
    doubt = {"": 0, "<": 0, "!": 1, "~": 2, "–": 3}
    return min(found, key=lambda r: (cautious and doubt[r.how], r.seconds), default=Reach(math.inf, "–"))


def reach_one(kind: str, rungs: list[Rung], measure: str, level: float) -> Reach:
    """Where a ladder passes a level for good: a lucky setting among worse ones does not count."""
    points = [(rung.errors[measure], rung.seconds) for rung in rungs]
    met = [k for k, (error, _) in enumerate(points) if error <= level]
    if not met:
        tail = points[-2:]
        falling = len(tail) == 2 and 0 < tail[1][0] < tail[0][0] < math.inf and tail[1][1] > tail[0][1]
        if falling and tail[1][0] < 100 * level:
            return Reach(_between(*tail, level), "~", kind)
        return Reach(math.inf, "–", kind)
    missed_later = [k for k in range(met[0], len(points)) if points[k][0] > level]
    broken = any(points[k][0] > 10 * level for k in missed_later) or (
        missed_later and missed_later[-1] == len(points) - 1
    )
    first = met[0] if broken or not missed_later else missed_later[-1] + 1
    how = "!" if broken else ""
    if first == 0:
        return Reach(points[0][1], how or "<", kind)
    if not math.isfinite(points[first - 1][0]):
        return Reach(points[first][1], how, kind)
    return Reach(_between(points[first - 1], points[first], level), how, kind)


def _between(coarse, fine, level: float) -> float:
    (e0, s0), (e1, s1) = coarse, fine
    share = math.log(level / e0) / math.log(e1 / e0)
    return math.exp(math.log(s0) + share * math.log(s1 / s0))


# ---- what the design asks for ------------------------------------------------------------------------------


def bars(report: Report) -> list[Bar]:
    out = []
    out += scaling_bars(report.scaling)
    out += chain_bars(report.chains)
    out += batch_bars(report.batches, report.gradients)
    out += waiting_bars(report.processes, report.calls)
    out += gpu_bars()
    out += [Bar(*bar) for bar in studies.asked(report.study)] if report.study else []

    def seconds(problem: str, engine: str, level: float, measure: str = "point") -> Reach:
        ladders = report.ladders.get(problem, {}).get(engine, {})
        return reach(ladders, measure, level, cautious=engine == OURS)

    def against(text, problem, level, peers, bound, at_least=True, measure="point") -> None:
        """The fastest of some peers over dalembert (or dalembert over it)."""
        if problem not in report.ladders:
            return
        us = seconds(problem, OURS, level, measure)
        them = {peer: seconds(problem, peer, level, measure) for peer in peers if peer in report.ladders[problem]}
        name, best = min(them.items(), key=lambda item: item[1].seconds, default=("", Reach(math.inf, "–")))
        value = None
        if math.isfinite(us.seconds) and math.isfinite(best.seconds):
            value = best.seconds / us.seconds if at_least else us.seconds / best.seconds
        elif math.isfinite(us.seconds):
            value, name = (math.inf, "none reaches it") if at_least else (0.0, "none reaches it")
        flags = {"~": "extrapolated", "<": "coarsest rung", "!": "wrong at a finer setting"}
        note = ", ".join(
            [name, *(f"{who} {flags[r.how]}" for who, r in (("peer", best), ("dalembert", us)) if r.how in flags)]
        )
        out.append(Bar(text, value, bound, at_least, note, safe=us.how != "!"))

    others = [peer for peer in PEERS if peer != "PyDy"]
    against("four-bar at 1e-6: fastest of Exudyn, MuJoCo, Pinocchio over dalembert", "four-bar", 1e-6, others, 20.0)
    against("four-bar at 1e-6: PyDy over dalembert", "four-bar", 1e-6, ("PyDy",), 10.0)
    against("four-bar at 1e-8: fastest peer over dalembert", "four-bar", 1e-8, PEERS, 30.0)
    against("four-bar at 1e-3: MuJoCo over dalembert", "four-bar", 1e-3, ("MuJoCo",), 2.0)
    for level in (1e-6, 1e-8):
        text = f"four-bar at {level:.0e}: dalembert over Diffrax by hand"
        against(text, "four-bar", level, ("Diffrax by hand",), 2.5, at_least=False)
    against("Andrews at 1e-6 m: fastest peer over dalembert", "andrews", 1e-6, PEERS, 2.0)
    against("Andrews at 1e-6 rad: fastest peer over dalembert", "andrews", 1e-6, PEERS, 8.0, measure="turned")
    against("Bricard at 1e-6: fastest peer over dalembert", "bricard", 1e-6, PEERS, 8.0)
    for N, times in ((40, 15.0), (100, 1.0)):
        against(f"N = {N} at 1e-4: MuJoCo over dalembert", f"n-four-bar-{N}", 1e-4, ("MuJoCo",), times)
        against(f"N = {N} at 1e-4: Exudyn over dalembert", f"n-four-bar-{N}", 1e-4, ("Exudyn",), 5.0)
    if "n-four-bar-40" in report.ladders:
        us = seconds("n-four-bar-40", OURS, 1e-6)
        value = us.seconds if math.isfinite(us.seconds) else None
        note = "dalembert wrong at a finer setting" if us.how == "!" else ""
        out.append(Bar("N = 40 at 1e-6: milliseconds", value and 1e3 * value, 94.5, False, note, safe=us.how != "!"))
    return out


def scaling_bars(rows: list[dict]) -> list[Bar]:
    """Large machines against small ones."""
    size = {row["N"]: row for row in rows if row["machine"] == "n-four-bar"}
    asked = [
        ("right-hand side by JAX, N = 400 over N = 100", 400, 100, "jax_rhs_us", 4.6),
        ("compilation by JAX, N = 400 over N = 1", 400, 1, "jax_compile_s", 1.5),
        ("right-hand side, N = 5000 over N = 500", 5000, 500, "rhs_us", 12.0),
        ("building, preparing and compiling, N = 5000 over N = 500", 5000, 500, "make_s", 12.0),
        ("compilation of the native march, N = 400 over N = 100", 400, 100, "native_compile_s", 4.6),
    ]
    out = [
        Bar(text, size[large][key] / size[small][key], bound, False)
        for text, large, small, key, bound in asked
        if size.get(large, {}).get(key) and size.get(small, {}).get(key)
    ]
    if size.get(400, {}).get("native_compile_s"):
        out.append(Bar("compilation of the native march, N = 400: seconds", size[400]["native_compile_s"], 30.0, False))
    return out


def batch_bars(rows: list[dict], gradients: dict | None) -> list[Bar]:
    """Members a second against MuJoCo's rollout and against `jax.vmap`, and what derivatives cost."""
    out = []
    found = {(row["problem"], row["engine"]): row for row in rows}
    asked = [("four-bar", batch.ROLLOUT), ("mobile-robot", batch.VMAP), ("bricard", batch.VMAP)]
    for problem, engine in asked:
        ours, other = found.get((problem, batch.OURS)), found.get((problem, engine))
        if ours is None or other is None:
            continue
        errors = f"errors {ours['error']:.1e} and {other['error']:.1e}"
        safe = ours["error"] <= batch.ERROR
        text = f"batch of {ours['title'].split(',')[0]} at {batch.ERROR:g}: `{batch.OURS}` over `{engine}`"
        out.append(Bar(text, ours["rate"] / other["rate"], 10.0, True, errors, safe))
    if gradients is not None:
        out.append(Bar("derivatives by 4 parameters over the batch itself", gradients["ratio"], 6.0, False))
        text = "derivatives against central differences, relative error × 1e6"
        out.append(Bar(text, 1e6 * gradients["error"], 1e6 * batch.DERIVATIVE_ERROR, False))
    return out


def waiting_bars(rows: list[dict], calls: list[dict]) -> list[Bar]:
    """Seconds of a fresh process, and milliseconds of a call with no motion in it."""
    found = {row["command"]: row for row in rows}
    asked = [
        ("`dalembert run four-bar`, cold: seconds", start.FOUR_BAR, "cold", 2.5),
        ("`dalembert run four-bar`, warm: seconds", start.FOUR_BAR, "warm", 1.5),
        ("`dalembert run` of six bars in space, cold: seconds", start.SIX_BARS, "cold", 4.0),
    ]
    out = [Bar(text, found[row][word][0], bound, False) for text, row, word, bound in asked if row in found]
    if calls:
        out.append(
            Bar("a call of `simulate` besides the motion: milliseconds", max(c["ms"] for c in calls), 0.3, False)
        )
    return out


def gpu_bars() -> list[Bar]:
    """What `gpu.py` measures: a benchmark by itself, as few machines have a GPU."""
    asked = [
        ("one H200, four-bar: million steps a second", 250.0, True),
        ("one H200, Bricard: million steps a second", 10.0, True),
        ("one H200: seconds to compile", 60.0, False),
        ("one H200: error against runs on the processor", 1e-10, False),
    ]
    note = "`benchmarks/gpu.py`, on a machine with one"
    return [Bar(text, None, bound, at_least, note) for text, bound, at_least in asked]


def chain_bars(rows: list[dict]) -> list[Bar]:
    """Joint coordinates of long chains against short ones, and against absolute coordinates."""
    out = []
    for name in dict.fromkeys(row["chain"] for row in rows):
        found = {(row["way"], row["N"]): row for row in rows if row["chain"] == name}
        if ("joint", 200) not in found:
            continue
        long, short = found["joint", 200], found["joint", 10]
        value = long["compile_s"] / short["compile_s"]
        out.append(Bar(f"{name}, joint coordinates: compilation, 200 links over 10", value, 2.0, False))
        value = found["absolute dense", 200]["rhs_us"] / long["rhs_us"]
        out.append(Bar(f"{name} of 200 links: absolute dense over joint", value, 1.0, True))
    return out


# ---- what is printed ---------------------------------------------------------------------------------------


def markdown(report: Report, chosen: list[Problem]) -> str:
    m = report.machine
    lines = ["# Benchmark", ""]
    lines += ["**A quick try with small sizes: its figures and bars mean nothing.**", ""] if m["quick"] else []
    lines.append(
        f"{m['cpu']}, {m['cores']} cores, load {m['load_at_start']} at the start; Python {m['python']}, JAX {m['jax']};"
    )
    lines.append(", ".join(f"{name} {version}".strip() for name, version in m["engines"].items()) + ";")
    changed = " with changes" if m["uncommitted_changes"] else ""
    lines.append(
        f"commit {m['commit'][:12]}{changed}; {m['date']}, {m['minutes']} minutes; "
        f"{m['clock']} time (compilation: cpu)."
    )
    if report.scaling:
        lines += ["", "## Large machines", ""]
        lines += scaling_table(report.scaling)
    if report.chains:
        lines += ["", "## Right-hand side of a chain of N links", ""]
        lines += chain_table(report.chains)
    if chosen:
        lines += ["", "## Milliseconds to an error", ""]
        lines += [
            "Next to a peer's time: how many times that of dalembert. `<` the coarsest setting is already",
            "more exact, `!` reached, but missed again by more than ten times at a finer setting, `~` extrapolated,",
            "– not reached.",
            "",
        ]
        lines += table(report, chosen)
        lines += ["", "References: " + "; ".join(f"{name}: {note}" for name, note in report.references.items()) + "."]
    if report.batches or report.gradients:
        lines += ["", "## Batches", ""]
        lines += batch.table(report.batches) if report.batches else []
        lines += ["", batch.gradients_text(report.gradients)] if report.gradients else []
    if report.study:
        lines += ["", "## A study", "", *studies.table(report.study)]
    if report.processes:
        lines += ["", "## How long one waits", "", *start.table(report.processes), "", start.calls_text(report.calls)]
    if report.live_s is not None:
        lines += ["", start.live_text(report.live_s)]
    lines += ["", "## What the design asks for", "", "| bar | measured | asked | holds | |", "|---|---|---|---|---|"]
    for bar in report.bars:
        word = {True: "yes", False: "**no**", None: "not measured here"}[bar.holds]
        sign = "at least" if bar.at_least else "at most"
        value = "–" if bar.value is None else f"{bar.value:.2f}"
        lines.append(f"| {bar.text} | {value} | {sign} {bar.bound:g} | {word} | {bar.note} |")
    return "\n".join(lines) + "\n"


def scaling_table(rows: list[dict]) -> list[str]:
    """One evaluation, what comes before it, and memory, by machine and size."""
    lines = [
        "µs of one evaluation, and processor seconds of building, preparing (a consistent start, ranks) and compiling,",
        "by the engine that `simulate` takes; each size in a process of its own. Memory: the peak of that process, of",
        f"which {rows[0]['before_MB']:.0f} MB are there after the imports. JAX eliminates sparse equations in a fixed",
        "order; beside it the same by KLU, which looks for pivots. Native march: seconds to compile all of it.",
        "",
        "| machine | N | velocities | engine | µs | build s | prepare s | compile s | peak MB | JAX: µs | compile s | "
        "with KLU: µs | native march: compile s |",
        "|---" * 13 + "|",
    ]
    for r in rows:
        seconds = " | ".join(f"{r[k]:.2f}" for k in ("build_s", "prepare_s", "compile_s"))
        cells = [scaling.MACHINES[r["machine"]], r["N"], r["n"], r["engine"], f"{r['rhs_us']:.4g}", seconds]
        cells += [f"{r['peak_MB']:.0f}", f"{r['jax_rhs_us']:.4g}", f"{r['jax_compile_s']:.2f}"]
        cells += [
            f"{r[k]:{form}}" if k in r else "" for k, form in (("klu_rhs_us", ".4g"), ("native_compile_s", ".1f"))
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def chain_table(rows: list[dict]) -> list[str]:
    ways = list(dict.fromkeys(row["way"] for row in rows))
    lines = ["µs of one evaluation; in brackets velocities and seconds of compilation.", ""]
    lines += ["| chain | N | " + " | ".join(ways) + " |", "|---" * (len(ways) + 2) + "|"]
    for title, N in dict.fromkeys((row["title"], row["N"]) for row in rows):
        cells = {
            r["way"]: f"{r['rhs_us']:.3g} ({r['n']}; {r['compile_s']:.1f})"
            for r in rows
            if (r["title"], r["N"]) == (title, N)
        }
        lines.append(f"| {title} | {N} | " + " | ".join(cells.get(way, "") for way in ways) + " |")
    return lines


def table(report: Report, chosen: list[Problem]) -> list[str]:
    engines = list(report.machine["engines"])
    lines = ["| problem | error | " + " | ".join(engines) + " |", "|---" * (len(engines) + 2) + "|"]
    for problem in chosen:
        ladders = report.ladders[problem.name]
        for measure, levels in problem.levels.items():
            for level in levels:
                found = {e: reach(ladders.get(e, {}), measure, level, cautious=e == OURS) for e in engines}
                cells = [cell(found[e], found[OURS], e) for e in engines]
                lines.append(f"| {problem.title} | {level:.0e} {MEASURES[measure]} | " + " | ".join(cells) + " |")
    return lines


def cell(found: Reach, ours: Reach, engine: str) -> str:
    if not found.kind or not math.isfinite(found.seconds):
        return "–" if found.kind else ""
    text = f"{found.how}{1e3 * found.seconds:.3g}"
    if engine == OURS or not math.isfinite(ours.seconds):
        return f"{text} ({found.kind})"
    return f"{text} · {found.seconds / ours.seconds:.2g}×"


if __name__ == "__main__":
    main()
