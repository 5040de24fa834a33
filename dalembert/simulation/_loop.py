"""6 · simulation: the loop of a march in machine code: plain Python in the subset of `kernels`, which is translated.

It knows nothing of mechanics: its kernels say how y changes, how a step ends, and how long the next one is.
"""

from __future__ import annotations

import threading
from typing import Any

from dalembert.kernels import Function, Numbers, Whole, array, at, compile_text, translate

BLOCK = 8
"""Numbers that are summed at once: they stay in the processor's registers. Rows of stages are multiples of it long."""


def combined(sums: Numbers, K: Numbers, shares: Numbers, rows: Whole, length: Whole, every: Whole):
    """The sum of `rows` rows of K, each times its share; with `every` = 0 not of those without a share."""
    k = 0
    while k < length:
        total = array(8)
        for i in range(8):
            total[i] = 0.0
        for j in range(rows):
            share = shares[j]
            if share != 0.0 or every == 1:
                row = at(K, j * length + k)
                for i in range(8):
                    total[i] = total[i] + share * row[i]
        block = at(sums, k)
        for i in range(8):
            block[i] = total[i]
        k += 8


def loop(
    W: Whole,
    first: Whole,
    last: Whole,
    ny: Whole,
    ns: Whole,
    nl: Whole,
    nx: Whole,
    stages: Whole,
    late: Whole,
    A: Numbers,
    b: Numbers,
    e: Numbers,
    c: Numbers,
    times: Numbers,
    ntimes: Whole,
    steps: Whole,
    room: Whole,
    limits: Numbers,
    field: Function,
    close: Function,
    adapt: Function,
    weights: Function,
    saved: Function,
    careful: Function,
    care: Whole,
    noise: Whole,
    kf: Whole,
    kc: Whole,
    ka: Whole,
    ks: Whole,
    kept: Numbers,
    kept_careful: Numbers,
    ends: Numbers,
    out_t: Numbers,
    out: Numbers,
    scratch: Numbers,
):  # fmt: skip
    """March the members first … last − 1 until each ends, pauses or fails; W of them at a time.

    A member's row of `ends` is (t, next, y, state of the step control, result, accepted, rejected, saved), before and
    after. `kept` has what the kernels keep for each member, `limits` what the step control has to know. `late` is 1 if
    the last stage serves interpolation only: it is evaluated in steps in which a state is saved. Where number `noise`
    of ẏ is not finite the state needs care; if `care` is 1 (one lane, one member) the function `careful` is called
    there.
    """
    width = 2 + ny + ns + 4
    wide = kf + kc + ka + ks
    long = (ny * W + 7) // 8 * 8  # of a row of K: a stage of all lanes
    # buffers of all lanes: what the kernels are given and what they return
    lane_field = at(scratch, 0)
    lane_close = at(lane_field, kf * W)
    lane_adapt = at(lane_close, kc * W)
    given = at(lane_adapt, ka * W)  # of `adapt`: t0, t1, y0, y1, error, state, limits
    verdict = at(given, (2 + 3 * ny + ns + nl) * W)  # by `adapt`: keep, t, next, result, state
    x = at(verdict, (4 + ns) * W)  # of `field` and `close`: t, y, error
    K = at(x, (1 + 2 * ny) * W)
    sums = at(K, stages * long)  # of stages
    raw = at(sums, long)  # y at the end of a step, before projection
    share = at(raw, ny * W)  # of y0, y1 and each stage in an interpolated state
    place = at(share, stages + 2)  # t and that state
    who = at(place, 1 + ny)
    y0 = at(given, 2 * W)
    y1 = at(given, (2 + ny) * W)
    state = at(given, (2 + 3 * ny) * W)
    coming = first
    busy = 0
    moved = 0  # whether a member begins its step at another state than the step before
    for lane in range(W):
        who[lane] = -1.0
    for k in range((2 + 3 * ny) * W):
        given[k] = 0.0
    while True:
        for lane in range(W):
            if who[lane] < 0.0 and coming < last:
                member = coming
                coming += 1
                busy += 1
                moved = 1
                who[lane] = float(member)
                row = at(ends, member * width)
                for k in range(2 + ny):
                    given[k * W + lane] = row[k]
                for k in range(ns):
                    state[k * W + lane] = row[2 + ny + k]
                for k in range(nl):
                    given[(2 + 3 * ny + ns + k) * W + lane] = limits[k]
                mine = at(kept, member * wide)
                for k in range(kf + kc + ka):
                    scratch[k * W + lane] = mine[k]
        if busy == 0:
            break
        # the stages; steps that were refused begin again with the first one that they had
        for s in range(1 - moved, stages - late):
            for lane in range(W):
                t0 = given[lane]
                x[lane] = t0 + c[s] * (given[W + lane] - t0)
            combined(sums, K, at(A, s * stages), s, long, 0)
            for k in range(ny):
                for lane in range(W):
                    i = k * W + lane
                    x[W + i] = y0[i] + (given[W + lane] - given[lane]) * sums[i]
            field(lane_field, x, at(K, s * long))
            if care == 1:
                unsure = K[s * long + noise * W]
                if unsure - unsure != 0.0:
                    careful(kept_careful, x, at(K, s * long))
        moved = 0
        # the end of the step, and its error
        error = at(x, (1 + ny) * W)
        combined(sums, K, e, stages - late, long, 0)
        for k in range(ny):
            for lane in range(W):
                i = k * W + lane
                error[i] = (given[W + lane] - given[lane]) * sums[i]
        combined(sums, K, b, stages - late, long, 1)  # also without a share: what is not finite must be seen
        for lane in range(W):
            x[lane] = given[W + lane]
        for k in range(ny):
            for lane in range(W):
                i = k * W + lane
                x[W + i] = y0[i] + (given[W + lane] - given[lane]) * sums[i]
                raw[i] = x[W + i]
        close(lane_close, x, y1)
        adapt(lane_adapt, given, verdict)
        if late == 1 and steps == 0:
            wanted = 0
            for lane in range(W):
                if who[lane] >= 0.0 and verdict[lane] != 0.0:
                    count = int(ends[int(who[lane]) * width + width - 1])
                    if count < ntimes and times[count] <= given[W + lane]:
                        wanted = 1
            if wanted == 1:
                for k in range(ny * W):
                    x[W + k] = raw[k]
                field(lane_field, x, at(K, (stages - 1) * long))
                if care == 1:
                    unsure = K[(stages - 1) * long + noise * W]
                    if unsure - unsure != 0.0:
                        careful(kept_careful, x, at(K, (stages - 1) * long))
        for lane in range(W):
            if who[lane] < 0.0:
                continue
            member = int(who[lane])
            row = at(ends, member * width)
            count = int(row[width - 1])
            t0 = given[lane]
            t1 = given[W + lane]
            keep = verdict[lane] != 0.0
            if keep:
                moved = 1
                row[width - 3] = row[width - 3] + 1.0
                projection = at(kept, member * wide + kf + kc + ka)
                if steps == 0:
                    while count < ntimes and times[count] <= t1:
                        place[0] = (times[count] - t0) / (t1 - t0)
                        weights(share, place, share)
                        place[0] = times[count]
                        combined(sums, K, at(share, 2), stages, long, 1)
                        for k in range(ny):
                            i = k * W + lane
                            place[1 + k] = share[0] * y0[i] + share[1] * raw[i] + (t1 - t0) * sums[i]
                        saved(projection, place, at(out, (member * room + count) * nx))
                        out_t[member * room + count] = times[count]
                        count += 1
                for k in range(ny):
                    y0[k * W + lane] = y1[k * W + lane]
                if steps == 1 and count < room:
                    place[0] = verdict[W + lane]
                    for k in range(ny):
                        place[1 + k] = y0[k * W + lane]
                    saved(projection, place, at(out, (member * room + count) * nx))
                    out_t[member * room + count] = place[0]
                    count += 1
                row[width - 1] = float(count)
            else:
                row[width - 2] = row[width - 2] + 1.0
            given[lane] = verdict[W + lane]
            given[W + lane] = verdict[2 * W + lane]
            for k in range(ns):
                state[k * W + lane] = verdict[(4 + k) * W + lane]
            result = verdict[3 * W + lane]
            if result != 0.0 or given[lane] >= limits[0]:
                for k in range(2 + ny):
                    row[k] = given[k * W + lane]
                for k in range(ns):
                    row[2 + ny + k] = state[k * W + lane]
                row[width - 4] = result
                who[lane] = -1.0
                busy = busy - 1


_LOOPS: dict[int, Any] = {}
_LOOPS_LOCK = threading.Lock()


def loop_code(lanes: int):
    """The machine code of `loop` for so many lanes."""
    with _LOOPS_LOCK:
        if lanes not in _LOOPS:
            texts = [translate(combined, unroll=True), translate(loop, W=lanes, combined="combined")]
            _LOOPS[lanes] = compile_text(texts, 1, 2, passes=True)
        return _LOOPS[lanes]
