"""6 · simulation: the loop of a march in machine code: plain Python in the subset of `kernels`, which is translated.

It knows nothing of mechanics: its kernels say how y changes, how a step ends, and how long the next one is.
"""

from __future__ import annotations

import threading
from typing import Any

from dalembert.kernels import Function, Numbers, Whole, array, at, compile_text, translate, widest

BLOCK = 8
"""Numbers that are summed at once: they stay in the processor's registers. Rows of stages are multiples of it long."""


def combined(
    sums: Numbers,
    start: Numbers,
    steps: Numbers,
    K: Numbers,
    shares: Numbers,
    rows: Whole,
    length: Whole,
    every: Whole,
):
    """The start and, times the steps of 8 lanes, the sum of `rows` rows of K, each by its share; with `every` = 0 not
    of those without a share."""
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
        begin = at(start, k)
        for i in range(8):
            block[i] = begin[i] + steps[i] * total[i]
        k += 8


def put(
    saved: Function,
    V: Whole,
    waiting: Whole,
    kl: Whole,
    ny: Whole,
    nx: Whole,
    own: Numbers,
    places: Numbers,
    shown: Numbers,
    rows: Numbers,
    out: Numbers,
):
    """What is saved of `waiting` of V interpolated states, into their rows of `out`; lanes that are free repeat the
    first."""
    for lane in range(waiting, V):
        for k in range(kl):
            own[k * V + lane] = own[k * V]
        for k in range(1 + ny):
            places[k * V + lane] = places[k * V]
    saved(own, places, shown)
    for lane in range(waiting):
        row = at(out, int(rows[lane]) * nx)
        for k in range(nx):
            row[k] = shown[k * V + lane]


def loop(
    W: Whole,
    V: Whole,
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
    kl: Whole,
    kept: Numbers,
    kept_careful: Numbers,
    ends: Numbers,
    out_t: Numbers,
    out: Numbers,
    scratch: Numbers,
):  # fmt: skip
    """March the members first … last − 1 until each ends, pauses or fails; W of them at a time. States are saved V at a
    time, of any members.

    A member's row of `ends` is (t, next, y, state of the step control, result, accepted, rejected, saved), before and
    after. `kept` has what the kernels keep for each member (`kl` numbers of that for `saved` do not change), `limits`
    what the step control has to know. `late` is 1 if the last stage serves interpolation only: it is evaluated in steps
    in which a state is saved. Where number `noise` of ẏ is not finite the state needs care; if `care` is 1 (one lane,
    one member) the function `careful` is called there.
    """
    width = 2 + ny + ns + 4
    wide = kf + kc + ka + ks
    long = (ny * W + 7) // 8 * 8  # of a row of K: a stage of all lanes
    # buffers of all lanes: what the kernels are given and what they return
    own = scratch  # what `saved` keeps for each of V states, those states (t, y), what is saved of them, and where
    places = at(own, ks * V)
    shown = at(places, (1 + ny) * V)
    rows = at(shown, nx * V)
    waiting = 0  # such states
    lane_field = at(rows, V)
    lane_close = at(lane_field, kf * W)
    lane_adapt = at(lane_close, kc * W)
    given = at(lane_adapt, ka * W)  # of `adapt`: t0, t1, y0, y1, error, state, limits
    verdict = at(given, (2 + 3 * ny + ns + nl) * W)  # by `adapt`: keep, t, next, result, state
    x = at(verdict, (4 + ns) * W)  # of `field` and `close`: t, y, error
    K = at(x, (1 + 2 * ny) * W + 8)
    nothing = at(K, stages * long)  # zeros
    h = at(nothing, long)  # the steps of all lanes, as often as they go into a block
    raw = at(h, 8)  # y at the end of a step, before projection
    share = at(raw, ny * W)  # of y0, y1 and each stage in an interpolated state
    place = at(share, stages + 2)  # where it is in the step
    who = at(place, 1)
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
    for k in range(long):
        nothing[k] = 0.0
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
                    lane_field[k * W + lane] = mine[k]
        if busy == 0:
            break
        # the stages; steps that were refused begin again with the first one that they had
        for i in range(8):
            h[i] = given[W + i % W] - given[i % W]
        for s in range(1 - moved, stages - late):
            for lane in range(W):
                x[lane] = given[lane] + c[s] * h[lane]
            combined(at(x, W), y0, h, K, at(A, s * stages), s, long, 0)
            field(lane_field, x, at(K, s * long))
            if care == 1:
                unsure = K[s * long + noise * W]
                if unsure - unsure != 0.0:
                    careful(kept_careful, x, at(K, s * long))
        moved = 0
        # the end of the step, and its error
        combined(at(x, W), y0, h, K, b, stages - late, long, 1)  # also without a share: what is not finite must be seen
        for k in range(ny * W):
            raw[k] = x[W + k]
        combined(at(x, (1 + ny) * W), nothing, h, K, e, stages - late, long, 0)
        for lane in range(W):
            x[lane] = given[W + lane]
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
                        places[waiting] = times[count]
                        for k in range(ny):
                            i = k * W + lane
                            total = 0.0
                            for j in range(stages):
                                total = total + share[2 + j] * K[j * long + i]
                            between = share[0] * y0[i] + share[1] * raw[i] + (t1 - t0) * total
                            places[(1 + k) * V + waiting] = between
                        for k in range(kl):
                            own[k * V + waiting] = projection[k]
                        rows[waiting] = float(member * room + count)
                        waiting += 1
                        if waiting == V:
                            put(saved, V, waiting, kl, ny, nx, own, places, shown, rows, out)
                            waiting = 0
                        out_t[member * room + count] = times[count]
                        count += 1
                for k in range(ny):
                    y0[k * W + lane] = y1[k * W + lane]
                if steps == 1 and count < room:
                    places[waiting] = verdict[W + lane]
                    for k in range(ny):
                        places[(1 + k) * V + waiting] = y0[k * W + lane]
                    for k in range(kl):
                        own[k * V + waiting] = projection[k]
                    rows[waiting] = float(member * room + count)
                    waiting += 1
                    if waiting == V:
                        put(saved, V, waiting, kl, ny, nx, own, places, shown, rows, out)
                        waiting = 0
                    out_t[member * room + count] = verdict[W + lane]
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
    if waiting > 0:
        put(saved, V, waiting, kl, ny, nx, own, places, shown, rows, out)


_LOOPS: dict[int, Any] = {}
_LOOPS_LOCK = threading.Lock()


def loop_code(lanes: int):
    """The machine code of `loop` for so many lanes."""
    with _LOOPS_LOCK:
        if lanes not in _LOOPS:
            texts = [translate(combined, unroll=True), translate(put)]
            texts.append(translate(loop, W=lanes, V=widest(), combined="combined", put="put"))
            _LOOPS[lanes] = compile_text(texts, 1, 2, passes=True)
        return _LOOPS[lanes]
