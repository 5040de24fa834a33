"""How long `check` takes on N four-bars in a row, each in a fresh process: imports and compilation included.

Bars: N = 40 in under 3 s, N = 200 in under 60 s. Of two runs the second counts (its programs are in the compile cache).
"""

from __future__ import annotations

import subprocess
import sys
import time

BARS = {40: 3.0, 200: 60.0}
CODE = """
import resource, dalembert as da
found = da.check(da.mechanism("n-four-bar", N={N}))
assert found.redundancy == 0 and found.mobility == 1
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""


def main() -> None:
    for N, bar in BARS.items():
        for _ in range(2):
            start = time.perf_counter()
            out = subprocess.run([sys.executable, "-c", CODE.format(N=N)], capture_output=True, text=True, check=True)
            wall = time.perf_counter() - start
        print(f"N = {N:3d}: {wall:6.2f} s, of it {float(out.stdout):6.2f} s on the processor (bar {bar:g} s)")


if __name__ == "__main__":
    main()
