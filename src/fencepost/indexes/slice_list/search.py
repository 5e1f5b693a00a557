"""How a slice list answers: find the run of each value in every part, then copy the runs.

Finding goes stage by stage over blocks of values, each stage asking for the memory that the next one reads.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from fencepost.compiled import allocating_kernel, kernel, kernel_piece
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, i64, u64
from fencepost.indexes.kernels.id_map import spread
from fencepost.indexes.kernels.vectors import (
    below_64,
    bit_count,
    copy_run,
    count_above,
    fence,
    items_until_aligned,
    not_below_16,
    prefetch,
    stream_run,
    widen_run,
)
from fencepost.indexes.slice_list.window_kernels import (
    ENDS_BITS,
    FARTHEST,
    MOST_ENDS,
    SHORT_ORIGIN,
    SPLIT,
    Part,
    decode,
    edges_end,
    eighth_of,
    piece_of,
)

BLOCK = 64
NOWHERE = -1
STAGE = 2048
"""Slots gathered in cache before they go to memory."""
_COMPARED = 32
"""Keys of windows that are compared one after the other; more are halved first."""
_MOST_COMPARED = 512
"""Edges of a window that are compared in their short form; among more, halving is faster."""
_LINE_SLOTS = 16
_PREFETCHED = 512
_AHEAD = 6
_IN_CACHE = 1 << 18
"""Slots that stay in the cache, where asking for them beforehand only costs."""
_NEAR = 1 << 12
"""Buckets that stay in the nearest cache, where asking for them beforehand only costs."""


class Translation(NamedTuple):
    """From slots to ids: ``origin + slot`` for the first `counted` slots, ``slot_ids[slot - counted]`` for the others.

    For all of them where `slot_ids` is empty.
    """

    slot_ids: Int64s
    origin: int
    counted: int = 0

    def table(self, slots: int) -> Int64s:
        """The ids of the first so many slots."""
        return self.ids(np.arange(slots))

    def ids(self, slots: npt.NDArray[Any]) -> Int64s:
        """The ids of slots; what is no slot has any id."""
        slot_ids, origin, counted = self
        if not len(slot_ids):
            return slots + np.int64(origin)
        if not counted:
            return slot_ids.take(slots, mode="clip")
        listed = slot_ids.take(slots.astype(np.int64) - counted, mode="clip")
        return np.where(slots < counted, slots + np.int64(origin), listed)


@allocating_kernel
def find_runs(
    part: Part,
    values: Int64s,
    missing: Bools,
    groups: Int64s,
    runs: UInt32s,
    column: int,
) -> Any:
    """Write (start, length) of each value's run to `runs[:, column]`; the sum of the lengths.

    `missing` marks values that are in no interval; empty if there are none.
    """
    keys, windows, edges, short_edges = part.keys, part.windows, part.edges, part.short_edges
    table, group_keys, groups_first = part.groups_table, part.group_keys, part.groups_first
    scales, buckets, touched = part.scales, part.buckets, part.touched
    is_float, keyed, row = part.meta[0] != 0, part.meta[1] != 0, part.meta[3]
    far = len(buckets) > _NEAR
    places = np.empty(BLOCK, np.int64)
    low = np.empty(BLOCK, np.int64)
    high = np.empty(BLOCK, np.int64)
    total = 0
    for block in range(0, len(values), BLOCK):
        size = min(BLOCK, len(values) - block)
        # The group of each value, and the eighth of a bucket it is in.
        if keyed:
            for i in range(size):
                low[i] = spread(groups[block + i], len(table))
                prefetch(table, low[i])
            for i in range(size):
                at = low[i]
                group = NOWHERE
                while table[at] != 0:
                    if group_keys[i64(table[at]) - 1] == groups[block + i]:
                        group = i64(table[at]) - 1
                        break
                    at = at + 1 if at + 1 < len(table) else 0
                low[i] = group
                if group != NOWHERE:
                    prefetch(groups_first, group)
                    if group < len(scales):
                        prefetch(scales, 4 * group)
            for i in range(size):
                high[i] = NOWHERE
                if low[i] != NOWHERE and low[i] < len(scales):
                    high[i] = eighth_of(decode(values[block + i], is_float), scales, low[i])
        else:
            for i in range(size):
                low[i] = 0
                high[i] = eighth_of(decode(values[block + i], is_float), scales, 0) if len(scales) > 0 else NOWHERE
        if far:
            if len(touched) > 0:
                for i in range(size):
                    prefetch(touched, high[i] >> 3)
            for i in range(size):
                prefetch(buckets, high[i] >> 3)
        # Leave out the values that meet no interval: from here on `places` has the rows of those that may.
        count = 0
        for i in range(size):
            group = low[i]
            eighth = high[i]
            places[count] = i
            low[count] = group
            high[count] = eighth >> 3
            meets = group != NOWHERE and not (len(missing) > 0 and missing[block + i])
            if len(touched) > 0 and eighth != NOWHERE:
                meets &= (touched[eighth >> 3] >> (eighth & 7)) & 1 != 0
            count += meets
        # The windows that a value may be in: those of its bucket, or all of a small group.
        for j in range(count):
            group = low[j]
            bucket = high[j]
            low[j] = i64(groups_first[group])
            high[j] = i64(groups_first[group + 1]) - 1
            if bucket != NOWHERE:
                high[j] = low[j] + i64(buckets[bucket + 1]) - 1
                low[j] = max(low[j], low[j] + i64(buckets[bucket]) - 1)
            prefetch(keys, max(low[j], 0))
        # The window of each value; a value before the first window of its group has none.
        met, count = count, 0
        for j in range(met):
            a, b = low[j], high[j]
            value = values[block + places[j]]
            while b - a > _COMPARED:
                middle = (a + b + 1) >> 1
                if keys[middle] <= value:
                    a = middle
                else:
                    b = middle - 1
            candidates = b - a + 1
            not_above = candidates - count_above(keys, a, candidates, value)
            places[count] = places[j]
            low[count] = a + not_above - 1
            prefetch(windows, row * max(low[count], 0))
            count += not_above > 0
        # Values without a window have an empty run.
        if count < size:
            for i in range(size):
                runs[block + i, column, 0] = 0
                runs[block + i, column, 1] = 0
        for j in range(count):
            prefetch(short_edges, i64(windows[row * low[j] + 1]))
        # The run within a window: behind the ends below the value, before the starts above it.
        for j in range(count):
            w = low[j]
            i = places[j]
            value = values[block + i]
            own = row * w
            edges_until = i64(windows[own + 4])
            if edges_until >= SPLIT:
                w = piece_of(keys, windows, row, w, value)
                own = row * w
                edges_until = edges_end(windows, own)
            edge, ends = i64(windows[own + 1]), i64(windows[own + 2]) & MOST_ENDS
            both = edges_until - edge
            begin, end = i64(windows[own]), i64(windows[own + 3])
            undecided = both > _MOST_COMPARED
            if not undecided:
                shift = u64(windows[own + 2] >> ENDS_BITS)
                far_from_key = min((u64(value) - u64(keys[w])) >> shift, u64(FARTHEST))
                short = np.int16(i64(far_from_key) - SHORT_ORIGIN)
                below, equal = below_64(short_edges, edge, short)
                ends_below = bit_count(below & low_bits(ends))
                edges_below = bit_count(below & low_bits(both))
                for chunk in range(64, both, 64):
                    below, same = below_64(short_edges, edge + chunk, short)
                    ends_below += bit_count(below & low_bits(ends - chunk))
                    edges_below += bit_count(below & low_bits(both - chunk))
                    equal |= same
                begin += ends_below
                end -= both - ends - (edges_below - ends_below)
                undecided = shift > 0 and equal != 0
            # Short forms that are equal do not tell, and long windows are not compared: exact edges decide.
            if undecided:
                begin = i64(windows[own]) + count_below(edges, edge, ends, value, False)
                starts = both - ends
                end = i64(windows[own + 3]) - (starts - count_below(edges, edge + ends, starts, value, True))
            runs[block + i, column, 0] = begin
            runs[block + i, column, 1] = end - begin
            total += end - begin
    return total


@kernel
def low_bits(count: int) -> Any:
    """A mask of the lowest `count` bits, none for less than 0, all for more than 64."""
    return ~u64(0) >> u64(max(0, 64 - count)) if count > 0 else u64(0)


@kernel
def count_below(edges: Int64s, start: int, count: int, value: int, or_equal: bool) -> Any:
    """How many of `count` ascending edges are below the value, or equal to it."""
    low, high = start, start + count
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] < value or (or_equal and edges[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low - start


@kernel
def count_runs(runs: UInt32s, counts: Int64s) -> None:
    """How many ids each value's runs hold."""
    for i in range(len(counts)):
        count = i64(0)
        for column in range(runs.shape[1]):
            count += i64(runs[i, column, 1])
        counts[i] = count


@kernel_piece
def fetch_runs(ids: UInt32s, runs: UInt32s, row: int) -> None:
    """Ask for the slots that the runs of a row begin with."""
    for column in range(runs.shape[1]):
        start = i64(runs[row, column, 0])
        for line in range(start, start + min(i64(runs[row, column, 1]), _PREFETCHED), _LINE_SLOTS):
            prefetch(ids, line)


@kernel
def copy_runs(
    ids: UInt32s,
    runs: UInt32s,
    translation: Translation,
    limit: int,
    offsets: Int64s,
    out: UInt32s | Int64s,
) -> None:
    """Copy the runs of each value to ``out[offsets[0]:limit]``, as slots or ids, and set the offsets behind them."""
    at = offsets[0]
    columns = runs.shape[1]
    far = len(ids) > _IN_CACHE
    for i in range(len(runs)):
        if far and i + _AHEAD < len(runs):
            fetch_runs(ids, runs, i + _AHEAD)
        for column in range(columns):
            count = i64(runs[i, column, 1])
            if count > 0:
                put_run(out, at, ids, i64(runs[i, column, 0]), count, limit, translation)
                at += count
        offsets[i + 1] = at


@kernel_piece
def put_listed(out: Int64s, at: int, ids: UInt32s, start: int, count: int, translation: Translation) -> None:
    """Put the ids of those slots of a run that are listed: few, so that most lines have none."""
    slot_ids, counted = translation.slot_ids, translation.counted
    for line in range(0, count, 2 * _LINE_SLOTS):
        listed = not_below_16(ids, start + line, counted)
        listed |= not_below_16(ids, start + line + _LINE_SLOTS, counted) << u64(_LINE_SLOTS)
        listed &= low_bits(count - line)
        while listed != 0:
            j = line + bit_count((listed & (~listed + u64(1))) - u64(1))
            out[at + j] = slot_ids[i64(ids[start + j]) - counted]
            listed &= listed - u64(1)


def _overload(stub: Callable[..., None]) -> Callable[[Callable[..., Any]], Any]:
    return overload(stub, inline="always")  # type: ignore[no-any-return]


def put_run(out: Any, at: Any, ids: Any, start: Any, count: Any, limit: Any, translation: Any) -> None:
    """Copy a run to ``out[at:limit]``: slots as they are, ids translated on the way (chosen by out's type)."""


@_overload(put_run)
def _put_run(
    out: Any,
    at: Any,  # noqa: ARG001
    ids: Any,  # noqa: ARG001
    start: Any,  # noqa: ARG001
    count: Any,  # noqa: ARG001
    limit: Any,  # noqa: ARG001
    translation: Any,  # noqa: ARG001
) -> Any:
    if out.dtype == types.uint32:

        def slots(out: Any, at: Any, ids: Any, start: Any, count: Any, limit: Any, translation: Any) -> None:  # noqa: ARG001
            if at + count + _LINE_SLOTS <= limit:
                copy_run(out, at, ids, start, count)
            else:
                for j in range(count):
                    out[at + j] = ids[start + j]

        return slots

    def translated(out: Any, at: Any, ids: Any, start: Any, count: Any, limit: Any, translation: Any) -> None:
        slot_ids, origin, counted = translation.slot_ids, translation.origin, translation.counted
        if len(slot_ids) > 0:
            if counted == 0:
                for j in range(count):
                    out[at + j] = slot_ids[ids[start + j]]
            elif at + count + _LINE_SLOTS <= limit:
                widen_run(out, at, ids, start, count, origin)
                put_listed(out, at, ids, start, count, translation)
            else:
                for j in range(count):
                    out[at + j] = origin + i64(ids[start + j])
                put_listed(out, at, ids, start, count, translation)
        elif at + count + _LINE_SLOTS <= limit:
            widen_run(out, at, ids, start, count, origin)
        else:
            for j in range(count):
                out[at + j] = origin + i64(ids[start + j])

    return translated


@kernel
def stream_runs(
    ids: UInt32s,
    runs: UInt32s,
    translation: Translation,
    offsets: Int64s,
    out: npt.NDArray[Any],
    stage: UInt32s,
    wide: npt.NDArray[Any],
) -> None:
    """Like `copy_runs`, past the cache: runs gather in a stage that leaves it whole lines at a time."""
    at = offsets[0]
    staged = 0
    line = 64 // out.itemsize
    lead = (items_until_aligned(out) - at) & (line - 1)
    limit = lead if lead > 0 else STAGE
    columns = runs.shape[1]
    far = len(ids) > _IN_CACHE
    for i in range(len(runs)):
        if far and i + _AHEAD < len(runs):
            fetch_runs(ids, runs, i + _AHEAD)
        for column in range(columns):
            start = i64(runs[i, column, 0])
            stop = start + i64(runs[i, column, 1])
            while start < stop:
                size = min(stop - start, limit - staged)
                copy_run(stage, staged, ids, start, size)
                staged += size
                start += size
                if staged == limit:
                    emit_stage(stage, staged, limit == STAGE, out, at, wide, translation)
                    at += staged
                    staged = 0
                    limit = STAGE
        offsets[i + 1] = at + staged
    emit_stage(stage, staged, False, out, at, wide, translation)
    fence()


def emit_stage(stage: Any, staged: Any, streamed: Any, out: Any, at: Any, wide: Any, translation: Any) -> None:
    """Empty the stage into ``out[at:]``: slots as they are, ids translated on the way (chosen by out's type)."""


@_overload(emit_stage)
def _emit_stage(
    stage: Any,  # noqa: ARG001
    staged: Any,  # noqa: ARG001
    streamed: Any,  # noqa: ARG001
    out: Any,
    at: Any,  # noqa: ARG001
    wide: Any,  # noqa: ARG001
    translation: Any,  # noqa: ARG001
) -> Any:
    if out.dtype == types.uint32:

        def slots(stage: Any, staged: Any, streamed: Any, out: Any, at: Any, wide: Any, translation: Any) -> None:  # noqa: ARG001
            if streamed:
                stream_run(out, at, stage, 0, staged)
            else:
                copy_exactly(out, at, stage, staged)

        return slots

    def ids(stage: Any, staged: Any, streamed: Any, out: Any, at: Any, wide: Any, translation: Any) -> None:
        slot_ids, origin, counted = translation.slot_ids, translation.origin, translation.counted
        if len(slot_ids) > 0 and counted == 0:
            for j in range(staged):
                wide[j] = slot_ids[stage[j]]
        else:
            for j in range(staged):
                wide[j] = origin + i64(stage[j])
            if counted > 0:
                put_listed(wide, 0, stage, 0, staged, translation)
        if streamed:
            stream_run(out, at, wide, 0, staged)
        else:
            copy_exactly(out, at, wide, staged)

    return ids


@kernel
def copy_exactly(out: npt.NDArray[Any], at: int, source: npt.NDArray[Any], count: int) -> None:
    """Copy without writing past the end: another thread may own what follows."""
    whole = count - count % _LINE_SLOTS
    copy_run(out, at, source, 0, whole)
    for j in range(whole, count):
        out[at + j] = source[j]
