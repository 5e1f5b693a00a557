"""Windows: what a slice list is made of.

The axis of every group is cut into windows such that no interval lies strictly inside one. Then an interval
that meets a window either ends in it, covers it, or starts in it, and with the window's ids stored as

    [those that end here, by end][those that cover][those that start here, by start]

the answer for any value of the window is one contiguous run: a suffix of the first part, all of the second, a
prefix of the third. Windows are cut greedily: at the first position after the smallest end of the intervals
that started since the last cut. Where intervals of a layer differ in length by a factor f, each lies in at most
f + 2 windows; that bounds the space of any input (see `split_layers`).

A table of buckets over the axis finds the window of a value. A bit for every eighth of a bucket tells whether any
interval meets it: where intervals are sparse, or a part holds only recent changes, most values need no more.

An interval that comes or goes later is edited into its windows (see `edits`). Windows are built packed, and made loose,
each with some room to grow, when the first of them is edited.

Intervals are inclusive ordinal ranges ``[first, last]`` (int64), so that the largest ordinal is reachable.
"""

from collections.abc import Iterator

import numpy as np

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s, UInt8s, UInt32s
from fencepost.indexes.kernels.radix import sorted_positions
from fencepost.indexes.kernels.vectors import PADDING, aligned_empty
from fencepost.indexes.slice_list.changes import copy_windows, slot_bounds, unpack_windows
from fencepost.indexes.slice_list.window_kernels import (
    ENDS_BITS,
    FARTHEST,
    FEW,
    LARGEST,
    LOOSE,
    MOST_ENDS,
    PACKED,
    SHORT_ORIGIN,
    SPLIT,
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
_PIECES_SHARE, _LEAST_PIECES = 16, 16
"""Rows for pieces of loose windows: so many, and that part of all."""
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
    window_rows = np.zeros((count + 1, PACKED), np.uint32)
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
        windows=window_rows.reshape(-1),
        edges=aligned_empty(edges, np.int64),
        short_edges=aligned_empty(edges, np.int16),
        group_keys=ordered.group_keys,
        groups_first=windows.groups_first,
        groups_table=np.zeros(_table_size(len(ordered.group_keys)) if keyed else 0, np.uint32),
        scales=np.empty((large, 4)),
        buckets=np.zeros(buckets, np.uint32),
        touched=np.zeros(buckets, np.uint8),
        meta=np.array([is_float, keyed, copies, PACKED, count]),
    )
    touched = lay_out(ordered, windows, window_rows, covers, ids, part)
    return part if touched < _MOST_TOUCHED * 8 * buckets else part._replace(touched=_NOTHING_KNOWN)


def copy_part(
    part: Part, ids: UInt32s, owned: tuple[UInt8s, int] | None, new_ids: UInt32s, base: int, edges: int, loose: bool
) -> tuple[Part, UInt32s, int]:
    """The part with windows of its own, slots in ``new_ids[base:]``: also the room of each window, and where slots end.

    Args:
        part: stays as it is.
        ids: the shared array it is in.
        owned: owners of slots and the number of this part, to leave out what it does not own any more.
        new_ids: the shared array it will be in, maybe the same.
        base: where slots go.
        edges: room for so many; more than are kept is cut off where windows are packed.
        loose: whether windows have room to grow.
    """
    assert loose or not has_pieces(part), "windows that were split are not packed"
    count = int(part.groups_first[-1])
    rows = max(int(part.meta[4]), count + 1) if loose else count
    pieces = rows // _PIECES_SHARE + _LEAST_PIECES if loose else 0
    windows = np.zeros(LOOSE * (rows + pieces) if loose else PACKED * (rows + 1), np.uint32)
    room = np.zeros(2 * (rows + pieces) + 1 if loose else 0, np.uint32)
    keys = np.full(rows + pieces + _KEYS_COMPARED, LARGEST, np.int64)
    keys[: min(len(part.keys), rows)] = part.keys[:rows]
    own_edges, short_edges = aligned_empty(edges, np.int64), aligned_empty(edges, np.int16)
    owners, number = owned or (_NOTHING_KNOWN, 0)
    stored, end, edge_end = copy_windows(
        part, ids, owners, number, new_ids, base, windows, room, own_edges, short_edges
    )
    if loose:
        room[-1] = edge_end
    elif edge_end < edges:
        own_edges, short_edges = own_edges[: edge_end + PADDING].copy(), short_edges[: edge_end + PADDING].copy()
        own_edges[edge_end:] = short_edges[edge_end:] = 0
    meta = part.meta.copy()
    meta[2:] = stored, LOOSE if loose else PACKED, rows
    made = part._replace(
        keys=keys, windows=windows, edges=own_edges, short_edges=short_edges, touched=part.touched.copy(), meta=meta
    )
    return made, room, end


def has_pieces(part: Part) -> bool:
    """Whether windows of it were split."""
    return int(part.meta[4]) > int(part.groups_first[-1]) + 1


def edge_count(part: Part) -> int:
    """How many edges its windows have."""
    row, count = int(part.meta[3]), int(part.meta[4])
    begin, end = (part.windows[item::row][:count].astype(np.int64) for item in (1, 4))
    return int(((end & (SPLIT - 1)) - begin).sum())


def unpack(part: Part, ids: UInt32s, first_windows: UInt32s) -> Intervals:
    """The intervals of a part, in no set order."""
    lowest, highest = slot_bounds(part, ids)
    size = highest + 1 - lowest
    firsts, lasts = np.empty(size, np.int64), np.empty(size, np.int64)
    keyed = bool(part.meta[1])
    groups = np.empty(size if keyed else 0, np.int64)
    slots = np.empty(min(int(part.meta[2]), size), np.uint32)
    count = unpack_windows(part, ids, first_windows, lowest, slots, firsts, lasts, groups)
    slots = slots[:count].copy()
    places = slots - np.uint32(lowest)
    return Intervals(slots, firsts[places], lasts[places], groups[places] if keyed else groups)


def check_part(part: Part, ids: UInt32s, room: UInt32s | None) -> None:
    """Assert what holds between the arrays of a part; the room of its windows is known where they are loose."""
    row, stored, met, count = int(part.meta[3]), 0, 0, int(part.groups_first[-1])
    assert (row == LOOSE) == (room is not None), "windows that are loose have room"
    for group in range(len(part.groups_first) - 1):
        begin, end = int(part.groups_first[group]), int(part.groups_first[group + 1])
        assert (part.keys[begin + 1 : end] > part.keys[begin : end - 1]).all(), "keys ascend within a group"
        walked, w = [], begin
        while w != end:
            walked.append(w)
            base, edge, ends, behind, next_edge = part.windows[row * w : row * w + 5].tolist()
            is_split, next_edge = row == LOOSE and next_edge >= SPLIT, next_edge % SPLIT
            next_one = int(part.windows[row * w + 5]) if row == LOOSE else w + 1
            assert is_split == (next_one > count), "pieces follow what was split"
            shift, ends = ends >> ENDS_BITS, ends & MOST_ENDS
            finish, start = part.edges[edge : edge + ends], part.edges[edge + ends : next_edge]
            key, until = int(part.keys[w]), int(part.keys[next_one]) - 1 if next_one != end else LARGEST
            assert key <= until, "pieces ascend"
            assert (finish[1:] >= finish[:-1]).all(), "ends ascend"
            assert (start[1:] >= start[:-1]).all(), "starts ascend"
            assert ((finish >= key) & (finish < until)).all(), "ends lie inside their window"
            assert ((start > key) & (start <= until)).all(), "starts lie inside their window"
            assert behind - base >= next_edge - edge, "every edge has its slot"
            assert len(np.unique(ids[base:behind])) == behind - base, "a slot is in a window once"
            passed = [*finish.tolist(), *(first - 1 for first in start.tolist())]
            distances = [(each - key) >> shift for each in passed]
            assert all(each < FARTHEST for each in distances), "no edge has the largest short form"
            assert [each - SHORT_ORIGIN for each in distances] == part.short_edges[edge:next_edge].tolist()
            stored += behind - base
            w = next_one
        assert [w for w in walked if w < count] == list(range(begin, end)), "every window follows another"
        met += len(walked)
    assert met == part.meta[4] - (row == LOOSE), "every piece belongs to a window"
    assert stored == part.meta[2], "it is known how many slots are stored"
    if room is not None:
        rows = part.windows[: LOOSE * int(part.meta[4])].reshape(-1, LOOSE).astype(np.int64)
        for item, limits, limit in ((0, room[:-1:2], len(ids)), (1, room[1:-1:2], int(room[-1]))):
            behind_each = limits[: len(rows)].astype(np.int64)
            order = np.lexsort((behind_each, rows[:, item]))
            order = order[order != count]
            assert (behind_each[order[:-1]] <= rows[order[1:], item]).all(), "windows lie apart"
            assert (behind_each <= limit).all(), "windows lie within the arrays"
            assert (rows[:, item + 3] % SPLIT <= behind_each).all(), "windows lie within their room"
        assert room[-1] + PADDING <= len(part.edges), "edges have their slack"


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
