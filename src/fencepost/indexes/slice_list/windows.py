"""Windows: the static part of a slice list, built once and never edited.

The axis of every group is cut into windows such that no interval lies strictly inside one. Then an interval
that meets a window either ends in it, covers it, or starts in it, and with the window's ids stored as

    [those that end here, by end][those that cover][those that start here, by start]

the answer for any value of the window is one contiguous run: a suffix of the first part, all of the second, a
prefix of the third. Windows are cut greedily: at the first position after the smallest end of the intervals
that started since the last cut. Where intervals of a layer differ in length by a factor f, each lies in at most
f + 2 windows; that bounds the space of any input (see `split_layers`).

A table of buckets over the axis finds the window of a value. A bit for every eighth of a bucket tells whether any
interval meets it: where intervals are sparse, or a part holds only recent changes, most values need no more.

Intervals are inclusive ordinal ranges ``[first, last]`` (int64), so that the largest ordinal is reachable.
"""

from collections.abc import Iterator

import numpy as np

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s, UInt32s, UInt64s
from fencepost.indexes.kernels.radix import sorted_positions
from fencepost.indexes.kernels.vectors import PADDING, aligned_empty
from fencepost.indexes.slice_list.changes import sweep_windows, unpack_windows
from fencepost.indexes.slice_list.window_kernels import (
    ENDS_BITS,
    FEW,
    LARGEST,
    MOST_ENDS,
    Cut,
    Intervals,
    Part,
    SortedIntervals,
    cut_axis,
    decode,
    eighth_of,
    lay_out,
    mark_short,
    measure_windows,
    number_groups,
    split_intervals,
    split_order,
)

_KEYS_COMPARED = 8
"""Keys that a search reads at once: so many of the largest follow the last window's."""
_MOST_TOUCHED = 0.875
"""Share of touched eighths from which on their table saves fewer searches than its reading costs."""
_NOTHING_KNOWN = np.zeros(0, np.uint8)
"""`Part.touched` where it is not worth its reading."""


def part_bytes(part: Part) -> int:
    """Bytes of the part's own arrays (its slots are in the shared id array)."""
    return sum(array.nbytes for array in part)


def sort_intervals(rows: Intervals) -> SortedIntervals:
    """Number the groups and sort the rows both ways."""
    by_first, by_last = sorted_positions(rows.firsts), sorted_positions(rows.lasts)
    if not len(rows.groups):
        nothing = np.zeros(0, np.uint32)
        return SortedIntervals(rows, int(len(rows.slots) > FEW), nothing, np.zeros(1, np.int64), by_first, by_last)
    numbers, group_keys, large = _number_groups(rows.groups)
    wide = numbers.astype(np.int64)
    return SortedIntervals(
        rows, large, numbers, group_keys, sorted_positions(wide, by_first), sorted_positions(wide, by_last)
    )


def _number_groups(groups: Int64s) -> tuple[UInt32s, Int64s, int]:
    """Each row's group number, the keys by number, and how many large groups have the first numbers."""
    table = np.zeros(_table_size(len(groups)), np.uint32)
    keys = np.empty(len(groups), np.int64)
    numbers = np.empty(len(groups), np.uint32)
    count = number_groups(groups, table, keys, numbers)
    is_large = np.bincount(numbers, minlength=count) > FEW
    large = int(is_large.sum())
    renumbered = np.where(is_large, np.cumsum(is_large) - 1, large + np.cumsum(~is_large) - 1).astype(np.uint32)
    ordered_keys = np.empty(count, np.int64)
    ordered_keys[renumbered] = keys[:count]
    return renumbered[numbers], ordered_keys, large


def _table_size(groups: int) -> int:
    return groups + groups // 6 + 1


def cut(ordered: SortedIntervals, copies_each: float = np.inf) -> tuple[Cut, int, int]:
    """Cut the axis of every group into windows; also the slots they will store, and where to split the set, or -1."""
    n, most = len(ordered.rows.slots), 2 * len(ordered.rows.slots) + 1
    windows = Cut(
        keys=np.empty(most, np.int64),
        until=np.empty(most, np.int64),
        starts_in=np.empty(n, np.uint32),
        ends_in=np.empty(n, np.uint32),
        groups_first=np.zeros(len(ordered.group_keys) + 1, np.uint32),
    )
    count, copies, split = cut_axis(ordered, copies_each, windows)
    return windows._replace(keys=windows.keys[:count], until=windows.until[:count]), copies, split


def split_layers(ordered: SortedIntervals, copies_each: float) -> Iterator[tuple[SortedIntervals, Cut, int]]:
    """Split a set by length into as few layers as keep the mean number of copies within a limit; the copies of each.

    The windows of a set follow its short intervals; long ones then lie in many. So the shortest intervals
    that are within the limit together become a layer, and the rest is cut anew. Lengths of one bit length
    differ by less than a factor of 2 and need 4 copies at most: the split ends, and holds, for any input.
    """
    while True:
        windows, copies, split = cut(ordered, copies_each)
        if split < 0:
            yield ordered, windows, copies
            return
        layer, ordered = _split_by_length(ordered, split)
        windows, copies, _ = cut(layer)
        yield layer, windows, copies


def _split_by_length(ordered: SortedIntervals, bits: int) -> tuple[SortedIntervals, SortedIntervals]:
    """The rows whose length has at most so many bits and the others, both still in both orders."""
    rows, n = ordered.rows, len(ordered.rows.slots)
    short, place = np.empty(n, np.bool_), np.empty(n, np.uint32)
    count = mark_short(rows.firsts, rows.lasts, bits, short)
    keyed = len(rows.groups) > 0
    inside, outside = (
        Intervals(np.empty(size, np.uint32), *(np.empty(each, np.int64) for each in (size, size, size if keyed else 0)))
        for size in (count, n - count)
    )
    split_intervals(rows, short, place, inside, outside)
    if keyed:
        return sort_intervals(inside), sort_intervals(outside)
    orders = [[np.empty(len(kept.slots), np.uint32) for _ in range(2)] for kept in (inside, outside)]
    split_order(ordered.by_first, short, place, orders[0][0], orders[1][0])
    split_order(ordered.by_last, short, place, orders[0][1], orders[1][1])
    first, second = (
        ordered._replace(rows=kept, large_groups=int(len(kept.slots) > FEW), by_first=by_first, by_last=by_last)
        for kept, (by_first, by_last) in zip((inside, outside), orders, strict=True)
    )
    return first, second


def build_part(ordered: SortedIntervals, windows: Cut, copies: int, is_float: bool, ids: UInt32s, base: int) -> Part:
    """Lay a set of intervals out in its windows, slots into ``ids[base:]``."""
    rows, count = ordered.rows, len(windows.keys)
    window_rows = np.zeros((count + 1, 3), np.uint32)
    covers = np.zeros(count + 1, np.int64)
    starts = np.zeros(count, np.uint32)
    edges, most_ends = measure_windows(rows.firsts, rows.lasts, windows, base, window_rows, covers, starts)
    if most_ends >= 1 << ENDS_BITS:
        raise FencepostError(
            f"more than {1 << ENDS_BITS} intervals that end in one window",
            "fewer",
            "Split the set over several indexes.",
        )
    keyed = len(rows.groups) > 0
    large = ordered.large_groups if keyed else 1
    buckets = int(windows.groups_first[large]) + large
    part = Part(
        keys=np.empty(count + _KEYS_COMPARED, np.int64),
        windows=window_rows,
        edges=aligned_empty(edges, np.int64),
        short_edges=aligned_empty(edges, np.int16),
        group_keys=ordered.group_keys,
        groups_first=windows.groups_first,
        groups_table=np.zeros(_table_size(len(ordered.group_keys)) if keyed else 0, np.uint32),
        scales=np.empty((large, 4)),
        buckets=np.zeros(buckets, np.uint32),
        touched=np.zeros(buckets, np.uint8),
        meta=np.array([is_float, keyed, copies]),
    )
    touched = lay_out(ordered, windows, covers, ids, part)
    return part if touched < _MOST_TOUCHED * 8 * buckets else part._replace(touched=_NOTHING_KNOWN)


def sweep_part(part: Part, ids: UInt32s, gone: UInt64s, new_ids: UInt32s, base: int) -> Part:
    """The part without what is gone, its slots in ``new_ids[base:]``; windows and groups stay as they are."""
    windows = np.zeros_like(part.windows)
    edges, short_edges = np.empty_like(part.edges), np.empty_like(part.short_edges)
    stored, edge_count = sweep_windows(part, ids, gone, new_ids, base, windows, edges, short_edges)
    meta = part.meta.copy()
    meta[2] = stored
    kept = edge_count + PADDING
    edges[edge_count:kept] = short_edges[edge_count:kept] = 0
    return part._replace(windows=windows, edges=edges[:kept].copy(), short_edges=short_edges[:kept].copy(), meta=meta)


def unpack(part: Part, ids: UInt32s, gone: UInt64s, first_windows: UInt32s, within: range) -> Intervals:
    """The intervals of a part that are not gone, in no set order; their slots lie `within` a range."""
    firsts, lasts = np.empty(len(within), np.int64), np.empty(len(within), np.int64)
    keyed = bool(part.meta[1])
    groups = np.empty(len(within) if keyed else 0, np.int64)
    slots = np.empty(min(int(part.meta[2]), len(within)), np.uint32)
    count = unpack_windows(part, ids, gone, first_windows, within.start, slots, firsts, lasts, groups)
    slots = slots[:count].copy()
    places = slots - np.uint32(within.start)
    return Intervals(slots, firsts[places], lasts[places], groups[places] if keyed else groups)


def check_part(part: Part, ids: UInt32s) -> None:
    """Assert what holds between the arrays of a part."""
    for group in range(len(part.groups_first) - 1):
        begin, end = int(part.groups_first[group]), int(part.groups_first[group + 1])
        assert (part.keys[begin + 1 : end] > part.keys[begin : end - 1]).all(), "keys ascend within a group"
        for w in range(begin, end):
            (base, edge, ends), (behind, next_edge, _) = part.windows[w].tolist(), part.windows[w + 1].tolist()
            ends &= MOST_ENDS
            finish, start = part.edges[edge : edge + ends], part.edges[edge + ends : next_edge]
            until = part.keys[w + 1] - 1 if w + 1 < end else LARGEST
            assert (finish[1:] >= finish[:-1]).all(), "ends ascend"
            assert (start[1:] >= start[:-1]).all(), "starts ascend"
            assert ((finish >= part.keys[w]) & (finish < until)).all(), "ends lie inside their window"
            assert ((start > part.keys[w]) & (start <= until)).all(), "starts lie inside their window"
            assert behind - base >= next_edge - edge, "every edge has its slot"
            assert len(np.unique(ids[base:behind])) == behind - base, "a slot is in a window once"


def check_touched(part: Part, rows: Intervals) -> None:
    """Assert that no interval of a part lies where its table says that none does."""
    numbers = {int(key): number for number, key in enumerate(part.group_keys)}
    for at, (first, last) in enumerate(zip(rows.firsts.tolist(), rows.lasts.tolist(), strict=True)):
        group = numbers[int(rows.groups[at])] if len(rows.groups) else 0
        if group < len(part.scales) and len(part.touched):
            begin, end = (eighth_of(decode(o, bool(part.meta[0])), part.scales, group) for o in (first, last))
            bits = np.unpackbits(part.touched[begin >> 3 : (end >> 3) + 1], bitorder="little")
            unmarked = np.flatnonzero(bits[begin & 7 : end - (begin & ~7) + 1] == 0) + begin
            assert not any(_holds(part, group, first, last, int(eighth)) for eighth in unmarked), (
                "every eighth that an interval meets is marked"
            )


def _holds(part: Part, group: int, first: int, last: int, eighth: int) -> bool:
    """Whether an eighth has an ordinal of ``[first, last]``; between two ordinals that are neighbours it has none."""
    is_float = bool(part.meta[0])
    while first < last:
        middle = (first + last) // 2
        if eighth_of(decode(middle, is_float), part.scales, group) < eighth:
            first = middle + 1
        else:
            last = middle
    return bool(eighth_of(decode(first, is_float), part.scales, group) == eighth)
