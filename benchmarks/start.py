"""How long a person waits: commands in fresh processes, cold and warm, and a call of `simulate` with no motion in it.

    python benchmarks/start.py [--quick]

Cold: with an empty cache folder, as on the first day. Warm: the same command again. Wall seconds of the whole process,
imports included, all cores; medians. The bytecode of all modules is there, as that of an installed package is: a first
process, which is not measured, writes it. Of machines in space with about six bodies there are a chain of six bars,
written to a model file, and the Stewart platform (13 bodies).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

import dalembert as da

COLD, WARM = 3, 5
"""Repeats."""
CALLS = 41
SWEEP = """
import numpy, dalembert as da
system = da.build(da.mechanism("four-bar"))
for mass in numpy.linspace(1.0, 3.0, 20):
    da.simulate(system.replace({"crank.mass": mass}), 10.0)
"""
FOUR_BAR, SIX_BARS = "`dalembert run four-bar`", "`dalembert run`: six bars in space"


def processes(cold: int = COLD, warm: int = WARM) -> list[dict]:
    """Wall and processor seconds of each command, cold and warm."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        seconds(["-m", "dalembert", "run", "four-bar"], Path(folder) / "bytecode")
        file = Path(folder) / "six-bars.yaml"
        da.save(da.mechanism("chain-in-space", N=6), file)
        commands = {
            "nothing but `import dalembert`": (["-c", "import dalembert; dalembert.simulate"], 1, warm),
            FOUR_BAR: (["-m", "dalembert", "run", "four-bar"], cold, warm),
            SIX_BARS: (["-m", "dalembert", "run", str(file)], cold, 1),
            "`dalembert run stewart-platform`": (["-m", "dalembert", "run", "stewart-platform"], 1, 0),
            "20 four-bars one by one, 10 s each": (["-c", SWEEP], 1, warm),
        }
        for title, (arguments, several, again) in commands.items():
            colds = []
            for k in range(several):
                cache = Path(folder) / f"cache {title[:20]} {k}".replace("`", "")
                colds.append(seconds(arguments, cache))
            warms = [seconds(arguments, cache) for _ in range(again)]
            row = {"command": title, "repeats": [several, again]}
            for word, clocked in (("cold", colds), ("warm", warms)):
                row[word] = [median(x) for x in zip(*clocked, strict=True)]
            out.append(row)
            print(f"{title}: {', '.join(f'{w} {row[w][0]:.2f} s' for w in ('cold', 'warm') if row[w])}", flush=True)
    return out


def live(repeats: int = WARM) -> float:
    """Median wall seconds from saving a model file that `dalembert view` shows until the page with the new motion has
    come: the model is read, marched over 10 s, all reactions computed, and written as a page."""
    spent = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shown.yaml"
        da.save(da.mechanism("four-bar"), file)
        command = [sys.executable, "-u", "-m", "dalembert", "view", str(file), "--no-browser"]
        environment = os.environ | {"DALEMBERT_CACHE": str(Path(folder) / "cache")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
            assert server.stdout is not None
            try:
                address = next(w for w in server.stdout.readline().split() if w.startswith("http"))
                first = page(address)
                for k in range(repeats + 1):
                    model = da.mechanism("four-bar")
                    model.replace("crank", mass=1.5 + 0.1 * k)
                    begin = time.perf_counter()
                    da.save(model, file)
                    now = page(address)
                    spent.append(time.perf_counter() - begin)
                    assert now != first and b"<h1>Not yet</h1>" not in now
                    first = now
            finally:
                server.terminate()
    return median(spent[1:])


def page(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read()


def seconds(arguments: list[str], cache: Path) -> tuple[float, float]:
    """Wall and processor seconds of a fresh process with this cache folder."""
    environment = os.environ | {"DALEMBERT_CACHE": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = os.times()
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - begin, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def calls(count: int = CALLS) -> list[dict]:
    """Median processor ms of a call of `simulate` with next to no motion in it."""
    system = da.build(da.mechanism("four-bar"))
    prepared = da.prepare(system)
    ways = {"a system, 101 times": (system, 101), "a system, 2 times": (system, 2), "prepared, 2 times": (prepared, 2)}
    out = []
    for title, (machine, samples) in ways.items():
        spent = []
        for _ in range(count):
            begin = time.process_time()
            solution = da.simulate(machine, 1e-6, integrator="dopri8", samples=samples)
            spent.append(1e3 * (time.process_time() - begin))
            steps = int(solution.stats["steps"])
        out.append({"call": title, "steps": steps, "ms": median(spent[count // 4 :]), "first_ms": spent[0]})
    return out


def table(rows: list[dict]) -> list[str]:
    lines = ["Wall seconds of a fresh process (processor seconds in brackets).", ""]
    lines += ["| command | cold: empty cache folder | warm |", "|---|---|---|"]
    for r in rows:
        cells = [f"{r[word][0]:.2f} ({r[word][1]:.2f})" if r[word] else "" for word in ("cold", "warm")]
        lines.append(f"| {r['command']} | {' | '.join(cells)} |")
    return lines


def calls_text(rows: list[dict]) -> str:
    found = ", ".join(f"{r['call']}: {r['ms']:.2f} ms" for r in rows)
    return f"A call of `simulate` with next to no motion in it (four-bar, {rows[0]['steps']} steps): {found}."


def live_text(seconds: float) -> str:
    return (
        f"`dalembert view` of a four-bar: {seconds:.2f} s from saving the file to the page with the new motion (10 s, "
        "all reactions); the page asks once a second whether there is one."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="each once")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    given = parser.parse_args()
    rows = processes(1, 1) if given.quick else processes()
    called = calls(9) if given.quick else calls()
    viewed = live(1) if given.quick else live()
    print("\n" + "\n".join(table(rows)) + "\n\n" + calls_text(called) + "\n\n" + live_text(viewed))
    if given.json:
        given.json.write_text(json.dumps({"processes": rows, "calls": called, "live_s": viewed}))


if __name__ == "__main__":
    main()
