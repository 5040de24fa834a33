"""How long `check` takes on large machines, each in a fresh process: imports and compilation included.

Bars: N four-bars in a row, N = 40 in under 3 s and N = 200 in under 60 s; a chain of 2000 bodies in under 10 s of
processor time. Of two runs the second counts (its programs are in the compile cache). Each line ends with yes or no.
"""

from __future__ import annotations

import subprocess
import sys
import time

FOUR_BARS = """
found = da.check(da.mechanism("n-four-bar", N={size}))
assert found.redundancy == 0 and found.mobility == 1
"""
CHAIN = """
model, before = da.Model("chain", gravity=(0, -9.81)), "ground"
for k in range({size}):
    body = model.body(f"b{{k}}", mass=1.0, inertia=0.1, position=(k + 0.5, 0.0))
    model.revolute(f"j{{k}}", before, body, at=(k, 0.0))
    before = body
found = da.check(model)
assert found.redundancy == 0 and found.mobility == {size}
"""
CODE = """
import resource, dalembert as da
{question}
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""
CASES = [
    ("four-bars in a row", FOUR_BARS, 40, 3.0, "of wall time"),
    ("four-bars in a row", FOUR_BARS, 200, 60.0, "of wall time"),
    ("bodies in a chain", CHAIN, 2000, 10.0, "on the processor"),
]


def main() -> None:
    for name, question, size, bar, which in CASES:
        code = CODE.format(question=question.format(size=size))
        wall = used = 0.0
        for _ in range(2):
            start = time.perf_counter()
            out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            wall, used = time.perf_counter() - start, float(out.stdout)
        taken = wall if which == "of wall time" else used
        verdict = "yes" if taken < bar else "no"
        print(f"{size:5d} {name}: {wall:6.2f} s, of it {used:6.2f} s on the processor; {bar:g} s {which}: {verdict}")


if __name__ == "__main__":
    main()
