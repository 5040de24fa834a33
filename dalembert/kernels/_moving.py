"""0 · kernels: moving numbers about: windows of arrays, also where an index is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.kernels._graph import ZERO, Unknown

if TYPE_CHECKING:
    from dalembert.kernels._scalarise import Walk

CHOICES = 512
"""Places among which a computed index may choose."""


def iota(walk: Walk, *, dtype, shape, dimension, **_):
    line = walk.constants(np.arange(shape[dimension]))
    return np.broadcast_to(line.reshape([-1 if d == dimension else 1 for d in range(len(shape))]), shape)


def broadcast_in_dim(walk: Walk, a, *_, shape, broadcast_dimensions, **__):
    between = [1] * len(shape)
    for d, size in zip(broadcast_dimensions, a.shape, strict=True):
        between[d] = size
    out = np.empty(shape, int)
    out[...] = a.reshape(between)
    return out


def gather(walk: Walk, a, indices, *, dimension_numbers, slice_sizes, mode, fill_value, **_):
    d = dimension_numbers
    places, ends = indices.shape[:-1], np.array(a.shape) - np.array(slice_sizes)
    fills = "FILL" in str(mode).upper()
    empty = int(walk.constants(np.array(np.nan if fill_value is None else fill_value)))
    starts = _starts(a.ndim, indices, d.start_index_map, d.operand_batching_dims, d.start_indices_batching_dims, walk)
    starts = starts.reshape(int(np.prod(places)), a.ndim)
    if (starts < 0).all():  # the indices are known: all windows at once
        known = walk.values(starts)
        # places in the flat array: those of a window at its beginning, and where each window begins
        window = np.arange(a.size).reshape(a.shape)[tuple(slice(s) for s in slice_sizes)].ravel()
        steps = [int(np.prod(a.shape[k + 1 :])) for k in range(a.ndim)]
        first = np.minimum(np.maximum(known, 0), ends) @ np.array(steps, int)
        out = a.ravel()[first[:, None] + window]
        outside = np.any((known < 0) | (known > ends), axis=1)
        if fills and outside.any():
            out = np.where(outside[:, None], empty, out)
    else:
        window = np.stack(np.meshgrid(*(np.arange(s) for s in slice_sizes), indexing="ij"), -1).reshape(-1, a.ndim)
        out = np.array([_window(walk, a, row, ends, window, empty if fills else None) for row in starts], int)
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    kept = [s for k, s in enumerate(slice_sizes) if k not in dropped]
    out = out.reshape([*places, *kept])
    rank = len(places) + len(kept)
    rest = iter(k for k in range(rank) if k not in d.offset_dims)
    order = [0] * rank
    for k in range(len(places)):
        order[next(rest)] = k
    for k, o in enumerate(d.offset_dims):
        order[o] = len(places) + k
    return out.transpose(order)


def _window(walk: Walk, a, start, ends, window, empty: int | None) -> np.ndarray:
    """The numbers of a window of `a`; an index that is computed chooses among all places where it may be."""
    g = walk.graph
    computed = [k for k, x in enumerate(start) if x >= 0]
    known = np.array([0 if x >= 0 else int(g.value(x)) for x in start.tolist()], int)
    if not computed:
        if empty is not None and np.any((known < 0) | (known > ends)):
            return np.full(len(window), empty)
        at = np.clip(known, 0, ends) + window
        return a[tuple(at.T)] if a.ndim else np.broadcast_to(a, len(window))
    k = computed[0]
    if ends[k] > CHOICES:
        raise Unknown("an index that depends on the state, into a long table")
    out: Any = None
    for place in range(int(ends[k]) + 1):
        fixed = np.array(start)
        fixed[k] = g.constant(place)
        there = _window(walk, a, fixed, ends, window, empty)
        truth = g.compare("ge", int(start[k]), g.constant(place))
        out = there if out is None else walk.map(lambda x, y, p=truth: g.select(p, x, y), out, there)
    if empty is not None:
        inside = g.logic(
            "and", g.compare("ge", int(start[k]), ZERO), g.compare("le", int(start[k]), g.constant(ends[k]))
        )
        out = walk.map(lambda x: g.select(inside, empty, x), out)
    return np.asarray(out)


def scatter(walk: Walk, combine, a, indices, updates, *, dimension_numbers, mode, **_):
    d = dimension_numbers
    places = indices.shape[:-1]
    spread = [k for k in range(updates.ndim) if k not in d.update_window_dims]
    updates = updates.transpose([*spread, *d.update_window_dims])
    dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
    sizes, inner = [1] * a.ndim, iter(updates.shape[len(places) :])
    for k in range(a.ndim):
        if k not in dropped:
            sizes[k] = next(inner)
    moved = walk.values(
        _starts(
            a.ndim,
            indices,
            d.scatter_dims_to_operand_dims,
            d.operand_batching_dims,
            d.scatter_indices_batching_dims,
            walk,
        )
    )
    if "CLIP" in str(mode).upper():
        moved = np.clip(moved, 0, np.array(a.shape) - np.array(sizes))
    window = np.stack(np.meshgrid(*(np.arange(s) for s in sizes), indexing="ij"), -1).reshape(-1, a.ndim)
    flat = updates.reshape(-1, len(window))
    moved = moved.reshape(-1, a.ndim)
    inside = np.all((moved >= 0) & (moved + sizes <= a.shape), axis=1)  # others are dropped
    at = (moved[inside][:, None] + window).reshape(-1, a.ndim)
    places = np.ravel_multi_index(tuple(at.T), a.shape).tolist() if a.ndim else [0] * len(at)
    out = a.ravel().tolist()
    for place, x in zip(places, flat[inside].ravel().tolist(), strict=True):
        out[place] = combine(out[place], x)
    return np.array(out, int).reshape(a.shape)


def dynamic_slice(walk: Walk, a, *starts, slice_sizes):
    ends = np.array(a.shape) - np.array(slice_sizes)
    window = np.stack(np.meshgrid(*(np.arange(s) for s in slice_sizes), indexing="ij"), -1).reshape(-1, a.ndim)
    start = np.array([int(x.ravel()[0]) for x in starts], int)
    return _window(walk, a, start, ends, window, None).reshape(slice_sizes)


def dynamic_update_slice(walk: Walk, a, update, *starts):
    out = np.array(a)
    starts = [int(np.clip(walk.values(s), 0, n - z)) for s, n, z in zip(starts, a.shape, update.shape, strict=True)]
    out[tuple(slice(s, s + z) for s, z in zip(starts, update.shape, strict=True))] = update
    return out


def pad(walk: Walk, a, value, *, padding_config):
    if any(low < 0 or high < 0 for low, high, _ in padding_config):
        raise Unknown("a negative padding")
    shape = [
        low + high + max(0, n + (n - 1) * inner) for n, (low, high, inner) in zip(a.shape, padding_config, strict=True)
    ]
    out = np.full(shape, int(value.ravel()[0]))
    places = (slice(low, low + n + (n - 1) * inner if n else low, inner + 1)
              for n, (low, _, inner) in zip(a.shape, padding_config, strict=True))  # fmt: skip
    out[tuple(places)] = a
    return out


def split(walk: Walk, a, *, sizes, axis):
    return np.split(a, np.cumsum(sizes)[:-1], axis=axis)


def unstack(walk: Walk, a, *, axis, **_):
    return [np.take(a, k, axis) for k in range(a.shape[axis])]


def _starts(rank, indices, index_map, operand_batch, index_batch, walk: Walk) -> np.ndarray:
    """The first element of each window, for every place of an array of indices, as numbers of the graph."""
    places = indices.shape[:-1]
    moved = np.full((*places, rank), ZERO)
    for k, dimension in enumerate(index_map):
        moved[..., dimension] = indices[..., k]
    for dimension, place in zip(operand_batch, index_batch, strict=True):
        line = np.arange(places[place]).reshape([-1 if k == place else 1 for k in range(len(places))])
        moved[..., dimension] = walk.constants(np.broadcast_to(line, places))
    return moved
