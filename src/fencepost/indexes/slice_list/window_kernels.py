"""The arrays of windows and the kernels that fill them; `windows` says what for."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import allocating_kernel, kernel, kernel_piece
from fencepost.indexes.arrays import Bools, Float64s, Int16s, Int64s, UInt8s, UInt32s, i64, u64
from fencepost.indexes.kernels.id_map import spread
from fencepost.indexes.kernels.vectors import bit_length, prefetch

LARGEST = 2**63 - 1
FEW = 16
"""Of several groups, those of up to so many intervals are searched by comparing; larger ones have buckets."""
FARTHEST = 65535
SHORT_ORIGIN = 32768
"""What is taken from a distance of 16 bits, so that processors can compare it: they do that with signs."""
ENDS_BITS = 26
MOST_ENDS = (1 << ENDS_BITS) - 1
PACKED, LOOSE = 3, 6
"""Items of a row of `Part.windows`. A row goes on with the next one's items, so that those of packed windows, which lie
without gaps, need not say where their window ends: there the next one begins."""
SPLIT = 1 << 31
"""Set in item 4 of a loose row: the window that follows is a piece of this one, and not found by its key."""
_ROWS_AHEAD = 16
"""Rows that are asked for before they are read, where they come in another order than they lie in."""
_SHORTER_BULK = 8.0
"""Outliers are left out of a bucket table where the rest is shorter by this factor: less gains nothing."""
_FINITE = 8e307


class Part(NamedTuple):
    """The windows of one set of intervals, in flat arrays.

    A window's row has items: where its slots begin, where its edges begin, how many ends it has, where its slots
    end, where its edges end. Rows of `PACKED` windows share the last two with the next row. `LOOSE` ones have an item
    more, the window that follows: of a window that was split, the pieces, whose rows and keys are behind all others.

    Invariants: (1) window w holds the slots ``ids[b:b']`` of the shared id array, where b, b' are items 0 and 3 of
    its row; (2) its ends and then its starts, ascending, are ``edges[e:e']`` (items 1 and 4); item 2
    is the number of ends and, above `ENDS_BITS`, the window's shift; (3) `keys` ascend within a group, and group g
    has the windows ``groups_first[g] .. groups_first[g+1]``; a value below the first key of its group is in no
    interval; (4) `groups_table` finds a group by open addressing, 0 is free; (5) groups of more than `FEW` intervals
    come first and have a row in `scales` and a run of `buckets`: entry b counts the windows in buckets before b; a set
    without groups has it, too, however small.
    """

    keys: Int64s
    windows: UInt32s
    edges: Int64s
    short_edges: Int16s
    """The distance from its window's key of each end, and of what precedes each start: both are below a value that has
    passed them. Shifted right by the window's shift to fit 16 bits."""
    group_keys: Int64s
    groups_first: UInt32s
    groups_table: UInt32s
    scales: Float64s
    """Per large group: origin, buckets per unit, first of its buckets, number of buckets."""
    buckets: UInt32s
    touched: UInt8s
    """A bit for every eighth of a bucket that an interval meets, for values that meet none; empty where few would."""
    meta: Int64s
    """[values are float64, keyed by group, slots stored, items of a row of `windows`, rows; the one behind those of all
    groups is no window]"""


class Intervals(NamedTuple):
    """Intervals to build from: one row each, and two orders of the rows."""

    slots: UInt32s
    firsts: Int64s
    lasts: Int64s
    groups: Int64s
    """The group key of each row; empty if the set is not keyed."""


class SortedIntervals(NamedTuple):
    """Intervals with dense group numbers and both orders: by (group, first) and by (group, last)."""

    rows: Intervals
    large_groups: int
    group_numbers: UInt32s
    group_keys: Int64s
    by_first: UInt32s
    by_last: UInt32s


class Cut(NamedTuple):
    """Windows that were found for a set: their keys, each row's first and last, the groups' first."""

    keys: Int64s
    until: Int64s
    """The last ordinal of each window."""
    starts_in: UInt32s
    ends_in: UInt32s
    groups_first: UInt32s


# -- building -------------------------------------------------------------------------------------------


@kernel
def number_groups(
    groups: Int64s,
    table: UInt32s,
    keys: Int64s,
    numbers: UInt32s,
) -> Any:
    """Number the distinct group keys in order of appearance; how many there are."""
    count = 0
    for i in range(len(groups)):
        key = groups[i]
        at = spread(key, len(table))
        while table[at] != 0 and keys[i64(table[at]) - 1] != key:
            at = at + 1 if at + 1 < len(table) else 0
        if table[at] == 0:
            keys[count] = key
            count += 1
            table[at] = count
        numbers[i] = table[at] - np.uint32(1)
    return count


@kernel
def enter_groups(keys: Int64s, first: int, table: UInt32s) -> None:
    """Enter the groups from `first` on into the table that finds a number by its key; it has the room."""
    for g in range(first, len(keys)):
        at = spread(keys[g], len(table))
        while table[at] != 0:
            at = at + 1 if at + 1 < len(table) else 0
        table[at] = g + 1


@kernel
def cut_axis(ordered: SortedIntervals, copies_each: float, windows: Cut) -> tuple[int, int, int]:
    """Cut the axis of every group into windows: how many they are, slots they will store, and where to split the set.

    The last is -1 where intervals lie in at most `copies_each` windows on average, or have all the same bit length.
    Else it is the largest bit length up to which they do.
    """
    firsts, lasts = ordered.rows.firsts, ordered.rows.lasts
    keys, until, starts_in, ends_in, groups_first = windows
    count = cut_windows(ordered.by_first, ordered.group_numbers, firsts, lasts, keys, groups_first, starts_in)
    place_ends(ordered.by_last, ordered.group_numbers, lasts, keys, groups_first, ends_in)
    for w in range(count - 1):
        until[w] = keys[w + 1] - 1
    for g in range(1, len(groups_first)):
        until[i64(groups_first[g]) - 1] = LARGEST
    copies, split = copies_by_length(firsts, lasts, starts_in, ends_in, copies_each)
    return count, copies, split


@kernel
def cut_windows(
    by_first: UInt32s,
    groups: UInt32s,
    firsts: Int64s,
    lasts: Int64s,
    keys: Int64s,
    groups_first: UInt32s,
    starts_in: UInt32s,
) -> Any:
    """Greedy windows; an interval that starts with its window needs no cut at its end."""
    count = 0
    group = -1
    begin = i64(0)
    smallest_last = i64(LARGEST)
    for i in range(len(by_first)):
        row = by_first[i]
        soon = by_first[min(i + _ROWS_AHEAD, len(by_first) - 1)]
        prefetch(firsts, soon)
        prefetch(lasts, soon)
        prefetch(starts_in, soon)
        first = firsts[row]
        this = i64(groups[row]) if len(groups) else 0
        # A new group begins a window, and so does what starts behind the smallest end so far.
        if this != group:
            if smallest_last < LARGEST:
                keys[count] = smallest_last + 1
                count += 1
            for g in range(group + 1, this + 1):
                groups_first[g] = count
            group = this
            begin = first
            smallest_last = LARGEST
            keys[count] = first
            count += 1
        elif smallest_last < first:
            begin = smallest_last + 1
            smallest_last = LARGEST
            keys[count] = begin
            count += 1
        if first > begin:
            smallest_last = min(smallest_last, lasts[row])
        starts_in[row] = count - 1
    # The last window ends like those before it; groups without intervals have none.
    if smallest_last < LARGEST:
        keys[count] = smallest_last + 1
        count += 1
    for g in range(group + 1, len(groups_first)):
        groups_first[g] = count
    return count


@kernel
def place_ends(
    by_last: UInt32s,
    groups: UInt32s,
    lasts: Int64s,
    keys: Int64s,
    groups_first: UInt32s,
    ends_in: UInt32s,
) -> None:
    """The window in which each interval ends."""
    window = 0
    for i in range(len(by_last)):
        row = by_last[i]
        soon = by_last[min(i + _ROWS_AHEAD, len(by_last) - 1)]
        prefetch(lasts, soon)
        prefetch(ends_in, soon)
        group = i64(groups[row]) if len(groups) else 0
        window = max(window, i64(groups_first[group]))
        behind = i64(groups_first[group + 1])
        while window + 1 < behind and keys[window + 1] <= lasts[row]:
            window += 1
        ends_in[row] = window


@allocating_kernel
def copies_by_length(
    firsts: Int64s, lasts: Int64s, starts_in: UInt32s, ends_in: UInt32s, copies_each: float
) -> tuple[int, int]:
    """How many windows intervals lie in, summed, and the bit length to split the set at, as `cut_axis` tells."""
    intervals, copies = np.zeros(65, np.int64), np.zeros(65, np.int64)
    for row in range(len(firsts)):
        bits = bit_length(u64(lasts[row]) - u64(firsts[row]))
        intervals[bits] += 1
        copies[bits] += i64(ends_in[row]) - i64(starts_in[row]) + 1
    shortest, split, lengths, longer, stored = -1, -1, 0, 0, 0
    for bits in range(65):
        if intervals[bits] > 0:
            longer += intervals[bits]
            stored += copies[bits]
            lengths += 1
            if shortest < 0:
                shortest = bits
            if stored <= copies_each * longer:
                split = bits
    if stored <= copies_each * longer or lengths == 1:
        return stored, -1
    return stored, max(shortest, split)


@kernel
def split_intervals(rows: Intervals, chosen: Bools, place: UInt32s, inside: Intervals, outside: Intervals) -> None:
    """Split rows in two; each one's position among the chosen or among the others."""
    a = 0
    b = 0
    for row in range(len(chosen)):
        if chosen[row]:
            move_row(rows, row, inside, a)
            place[row] = a
            a += 1
        else:
            move_row(rows, row, outside, b)
            place[row] = b
            b += 1


@kernel_piece
def move_row(rows: Intervals, row: int, to: Intervals, place: int) -> None:
    """Copy one interval."""
    to.slots[place] = rows.slots[row]
    to.firsts[place] = rows.firsts[row]
    to.lasts[place] = rows.lasts[row]
    if len(rows.groups) > 0:
        to.groups[place] = rows.groups[row]


@kernel
def split_order(order: UInt32s, chosen: Bools, place: UInt32s, inside: UInt32s, outside: UInt32s) -> None:
    """Split an order of rows in two, by the new positions."""
    a = 0
    b = 0
    for i in range(len(order)):
        row = order[i]
        if chosen[row]:
            inside[a] = place[row]
            a += 1
        else:
            outside[b] = place[row]
            b += 1


@kernel
def mark_short(firsts: Int64s, lasts: Int64s, bits: int, short: Bools) -> Any:
    """Which rows have a length of at most `bits` bits; how many they are."""
    count = 0
    for row in range(len(firsts)):
        short[row] = bit_length(u64(lasts[row]) - u64(firsts[row])) <= bits
        count += short[row]
    return count


@kernel
def measure_windows(
    firsts: Int64s, lasts: Int64s, windows: Cut, base: int, window_rows: UInt32s, covers: Int64s, starts: UInt32s
) -> tuple[int, int]:
    """Fill `window_rows` and the place of each window's first cover; edges in all, and the most ends of a window."""
    edges = tally_windows(firsts, lasts, windows, window_rows, covers, starts)
    most_ends = i64(0)
    for w in range(len(starts)):
        most_ends = max(most_ends, i64(window_rows[w, 2]))
    offset_windows(window_rows, covers, starts, base)
    return edges, most_ends


@kernel
def lay_out(
    ordered: SortedIntervals, windows: Cut, window_rows: UInt32s, covers: Int64s, ids: UInt32s, part: Part
) -> Any:
    """Fill the arrays of a part whose windows are measured and whose others are empty; eighths that are touched."""
    is_float = part.meta[0] != 0
    count = len(windows.keys)
    fill_windows(ordered, windows, window_rows, covers, ids, part.edges)
    shorten_edges(windows.keys, part.edges, window_rows, part.short_edges)
    for w in range(count):
        part.keys[w] = windows.keys[w]
    for w in range(count, len(part.keys)):
        part.keys[w] = LARGEST
    begin = i64(0)
    for group in range(len(part.scales)):
        size = i64(part.groups_first[group + 1]) - i64(part.groups_first[group])
        part.scales[group, 2] = begin
        part.scales[group, 3] = size
        begin += size + 1
    fill_buckets(windows.keys, part.groups_first, is_float, part.scales, part.buckets)
    if len(part.groups_table) > 0:
        enter_groups(part.group_keys, 0, part.groups_table)
    return mark_touched(windows.keys, part.groups_first, window_rows, part.edges, is_float, part.scales, part.touched)


@kernel
def tally_windows(
    firsts: Int64s,
    lasts: Int64s,
    windows: Cut,
    window_rows: UInt32s,
    covers: Int64s,
    starts: UInt32s,
) -> Any:
    """Per window: ends (column 2), starts, and covers as differences; the number of edges in all."""
    keys, until, starts_in, ends_in = windows.keys, windows.until, windows.starts_in, windows.ends_in
    edges = 0
    for row in range(len(firsts)):
        a, b = i64(starts_in[row]), i64(ends_in[row])
        starts_inside = firsts[row] != keys[a]
        if starts_inside:
            starts[a] += 1
            edges += 1
        if lasts[row] != until[b]:
            window_rows[b, 2] += 1
            edges += 1
            b -= 1
        covers[a + (1 if starts_inside else 0)] += 1
        covers[b + 1] -= 1
    return edges


@kernel
def offset_windows(
    window_rows: UInt32s,
    covers: Int64s,
    starts: UInt32s,
    base: int,
) -> None:
    """Turn counts into offsets; `covers` becomes the place of each window's first cover."""
    at = i64(base)
    edge = i64(0)
    covering = i64(0)
    for w in range(len(starts)):
        covering += covers[w]
        ends = i64(window_rows[w, 2])
        window_rows[w, 0] = at
        window_rows[w, 1] = edge
        covers[w] = at + ends
        at += ends + covering + i64(starts[w])
        edge += ends + i64(starts[w])
    window_rows[len(starts), 0] = at
    window_rows[len(starts), 1] = edge


@kernel
def fill_windows(
    ordered: SortedIntervals,
    windows: Cut,
    window_rows: UInt32s,
    cover_at: Int64s,
    ids: UInt32s,
    edges: Int64s,
) -> None:
    """Write slots and edges: ends in order of end, then starts and covers in order of start."""
    rows = ordered.rows
    slots, firsts, lasts = rows.slots, rows.firsts, rows.lasts
    keys, until, starts_in, ends_in = windows.keys, windows.until, windows.starts_in, windows.ends_in
    by_first, by_last = ordered.by_first, ordered.by_last
    # Ends, in order of end: the first slots of their windows.
    window = i64(-1)
    rank = i64(0)
    for i in range(len(by_last)):
        row = by_last[i]
        soon = by_last[min(i + _ROWS_AHEAD, len(by_last) - 1)]
        prefetch(ends_in, soon)
        prefetch(lasts, soon)
        prefetch(slots, soon)
        b = i64(ends_in[row])
        if lasts[row] == until[b]:
            continue  # it covers the window in which it ends
        if b != window:
            window = b
            rank = 0
        ids[i64(window_rows[b, 0]) + rank] = slots[row]
        edges[i64(window_rows[b, 1]) + rank] = lasts[row]
        rank += 1
    # Starts, in order of start: the last slots of their windows. Covers stand between.
    window = i64(-1)
    start_at = i64(0)
    edge_at = i64(0)
    for i in range(len(by_first)):
        row = by_first[i]
        soon = by_first[min(i + _ROWS_AHEAD, len(by_first) - 1)]
        prefetch(starts_in, soon)
        prefetch(ends_in, soon)
        prefetch(firsts, soon)
        prefetch(lasts, soon)
        prefetch(slots, soon)
        a, b = i64(starts_in[row]), i64(ends_in[row])
        starts_inside = firsts[row] != keys[a]
        if starts_inside:
            if a != window:
                window = a
                edge_at = i64(window_rows[a, 1]) + i64(window_rows[a, 2])
                start_at = i64(window_rows[a + 1, 0]) - (i64(window_rows[a + 1, 1]) - edge_at)
            ids[start_at] = slots[row]
            edges[edge_at] = firsts[row]
            start_at += 1
            edge_at += 1
        # Every window between the first and the last is covered, those two if the interval reaches their edge.
        for w in range(a + 1 if starts_inside else a, b + 1 if lasts[row] == until[b] else b):
            ids[cover_at[w]] = slots[row]
            cover_at[w] += 1


@kernel
def shorten_edges(
    keys: Int64s,
    edges: Int64s,
    window_rows: UInt32s,
    short_edges: Int16s,
) -> None:
    """Set each window's shift and the short form of its edges; no edge has the largest short form."""
    for w in range(len(window_rows) - 1):
        begin, end = i64(window_rows[w, 1]), i64(window_rows[w + 1, 1])
        ends = window_rows[w, 2] & np.uint32(MOST_ENDS)
        shift = shorten_window(keys[w], edges, begin, begin + i64(ends), end, short_edges)
        window_rows[w, 2] = ends | np.uint32(shift << u64(ENDS_BITS))


@kernel
def shorten_window(key: int, edges: Int64s, begin: int, starts_from: int, end: int, short_edges: Int16s) -> Any:
    """Set the short form of a window's edges; its shift."""
    farthest = u64(0)
    for e in range(begin, end):
        farthest = max(farthest, u64(edges[e] - (e >= starts_from)) - u64(key))
    shift = u64(max(0, bit_length(farthest) - 16))
    shift += u64((farthest >> shift) >= u64(FARTHEST))
    for e in range(begin, end):
        distance = (u64(edges[e] - (e >= starts_from)) - u64(key)) >> shift
        short_edges[e] = i64(distance) - SHORT_ORIGIN
    return shift


@kernel
def edges_end(windows: UInt32s, own: int) -> Any:
    """Where the edges of the window end whose row begins there."""
    return i64(windows[own + 4]) & (SPLIT - 1)


@kernel
def following(windows: UInt32s, row: int, w: int) -> Any:
    """The window behind one; for the last of a group, the number behind all windows that the group was built with."""
    return w + 1 if row == PACKED else i64(windows[row * w + 5])


@kernel
def piece_of(keys: Int64s, windows: UInt32s, row: int, w: int, ordinal: int) -> Any:
    """The piece of a window that was split, or the window, in which an ordinal is."""
    while i64(windows[row * w + 4]) >= SPLIT and keys[i64(windows[row * w + 5])] <= ordinal:
        w = i64(windows[row * w + 5])
    return w


@kernel
def decode(ordinal: int, is_float: bool) -> Any:
    """A float that grows with the ordinal, finite and such that differences are finite too."""
    if is_float:
        bits = ordinal if ordinal >= 0 else i64(-(2**63)) - ordinal
        x = i64(bits).view(np.float64)
        return min(max(x, -_FINITE), _FINITE) if x == x else (_FINITE if ordinal > 0 else -_FINITE)
    return np.float64(ordinal)


@kernel
def bucket_of(x: float, origin: float, per_unit: float, count: float) -> Any:
    """The bucket of a decoded value, monotone in it."""
    b = (x - origin) * per_unit
    return i64(min(max(b, 0.0), count - 1))


@kernel
def eighth_of(x: float, scales: Float64s, row: int) -> Any:
    """The eighth of a bucket that a decoded value is in, counted over all buckets; its bucket is an eighth of that."""
    return 8 * i64(scales[row, 2]) + bucket_of(x, scales[row, 0], 8 * scales[row, 1], 8 * scales[row, 3])


@kernel
def bulk_of(keys: Int64s, begin: int, end: int, is_float: bool) -> tuple[float, float]:
    """Where the bulk of a group's keys starts, and how far it reaches: outliers are left out where that pays."""
    origin, reach = 0.0, np.inf
    for outliers in (0.005, 0.05, 0.2):
        trim = i64(outliers * (end - begin))
        start = decode(keys[begin + trim], is_float)
        length = decode(keys[end - 1 - trim], is_float) - start
        if length > 0 and length * _SHORTER_BULK < reach:
            origin, reach = start, length
    return origin, reach


@kernel
def fill_buckets(
    keys: Int64s,
    groups_first: UInt32s,
    is_float: bool,
    scales: Float64s,
    buckets: UInt32s,
) -> None:
    """Bucket tables over the bulk of each group's keys: outliers share the outer eighths of the outer buckets."""
    for row in range(len(scales)):
        begin, end = i64(groups_first[row]), i64(groups_first[row + 1])
        origin, reach = bulk_of(keys, begin, end, is_float)
        count = scales[row, 3]
        per_unit = (count - 0.5) / reach if reach > 0 else 0.0
        if not np.isfinite(8 * per_unit):  # eighths of buckets are searched
            per_unit = 0.0
        if per_unit > 0:
            origin -= 0.25 / per_unit
        scales[row, 0] = origin
        scales[row, 1] = per_unit
        at = i64(scales[row, 2])
        for w in range(begin, end):
            buckets[at + 1 + bucket_of(decode(keys[w], is_float), origin, per_unit, count)] += 1
        for b in range(1, i64(count) + 1):
            buckets[at + b] += buckets[at + b - 1]


@kernel
def mark_touched(
    keys: Int64s,
    groups_first: UInt32s,
    window_rows: UInt32s,
    edges: Int64s,
    is_float: bool,
    scales: Float64s,
    touched: UInt8s,
) -> Any:
    """Mark the eighths of buckets that intervals of the large groups meet; how many there are."""
    count = 0
    for group in range(len(scales)):
        begin, end = i64(groups_first[group]), i64(groups_first[group + 1])
        for w in range(begin, end):
            edge, ends = i64(window_rows[w, 1]), i64(window_rows[w, 2]) & MOST_ENDS
            both = i64(window_rows[w + 1, 1]) - edge
            first = eighth_of(decode(keys[w], is_float), scales, group)
            last = eighth_of(decode(keys[w + 1] - 1 if w + 1 < end else LARGEST, is_float), scales, group)
            if i64(window_rows[w + 1, 0]) - i64(window_rows[w, 0]) > both:
                count += mark_eighths(touched, first, last)
                continue
            if ends > 0:
                until = eighth_of(decode(edges[edge + ends - 1], is_float), scales, group)
                count += mark_eighths(touched, first, until)
            if both > ends:
                since = eighth_of(decode(edges[edge + ends], is_float), scales, group)
                count += mark_eighths(touched, since, last)
    return count


@kernel
def mark_eighths(touched: UInt8s, first: int, last: int) -> Any:
    """Mark those between two; how many were not."""
    count = 0
    for eighth in range(first, last + 1):
        bit = np.uint8(1 << (eighth & 7))
        count += touched[eighth >> 3] & bit == 0
        touched[eighth >> 3] |= bit
    return count
