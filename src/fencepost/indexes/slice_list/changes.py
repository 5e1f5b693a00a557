"""Kernels for what changes after windows were filled: intervals that go, windows that are swept or taken apart.

What is gone is a bit per position of the shared id array, in words of 64.
"""

from typing import Any

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int16s, Int64s, UInt32s, UInt64s, i64, u64
from fencepost.indexes.kernels.vectors import bit_count
from fencepost.indexes.slice_list.window_kernels import LARGEST, MOST_ENDS, Part


@kernel
def count_gone(gone: UInt64s, start: int, end: int) -> Any:
    """How many positions of ``[start, end)`` are gone."""
    count = 0
    for word in range(start >> 6, (end + 63) >> 6):
        bits = gone[word]
        if word == start >> 6:
            bits &= ~u64(0) << u64(start & 63)
        if word == end >> 6:
            bits &= (u64(1) << u64(end & 63)) - u64(1)
        count += bit_count(bits)
    return count


@kernel
def next_gone(gone: UInt64s, start: int, stop: int) -> Any:
    """The first position of ``[start, stop)`` that is gone, or `stop`."""
    word = start >> 6
    bits = gone[word] & (~u64(0) << u64(start & 63))
    while bits == 0:
        word += 1
        if word << 6 >= stop:
            return stop
        bits = gone[word]
    return min(stop, (word << 6) + bit_count((bits & (~bits + u64(1))) - u64(1)))


@kernel
def mark_gone(
    part: Part,
    ids: UInt32s,
    slots: Int64s,
    first_windows: UInt32s,
    gone: UInt64s,
) -> Any:
    """Mark every position of these slots, each from its first window on; how many there were."""
    windows = part.windows
    marked = 0
    for i in range(len(slots)):
        window = i64(first_windows[i])
        found = True
        while found and window < len(windows) - 1:
            found = False
            for at in range(i64(windows[window, 0]), i64(windows[window + 1, 0])):
                if ids[at] == slots[i]:
                    gone[at >> 6] |= u64(1) << u64(at & 63)
                    marked += 1
                    found = True
                    break
            window += 1
    return marked


@kernel
def sweep_windows(
    part: Part,
    ids: UInt32s,
    gone: UInt64s,
    new_ids: UInt32s,
    base: int,
    windows: UInt32s,
    edges: Int64s,
    short_edges: Int16s,
) -> tuple[int, int]:
    """Copy every window's ends, covers and starts that are not gone; slots and edges that were kept."""
    old_windows, old_edges, old_short = part.windows, part.edges, part.short_edges
    at = i64(base)
    edge_at = i64(0)
    last = len(old_windows) - 1
    for w in range(last):
        begin, end = i64(old_windows[w, 0]), i64(old_windows[w + 1, 0])
        edge, ends = i64(old_windows[w, 1]), i64(old_windows[w, 2]) & MOST_ENDS
        starts_from = end - (i64(old_windows[w + 1, 1]) - edge - ends)
        windows[w, 0] = at
        windows[w, 1] = edge_at
        kept_ends = 0
        # A window that nothing is gone from is copied whole.
        if count_gone(gone, begin, end) == 0:
            both = i64(old_windows[w + 1, 1]) - edge
            for i in range(end - begin):
                new_ids[at + i] = ids[begin + i]
            for i in range(both):
                edges[edge_at + i] = old_edges[edge + i]
                short_edges[edge_at + i] = old_short[edge + i]
            at += end - begin
            edge_at += both
            windows[w, 2] = old_windows[w, 2]
            continue
        # Else slot by slot; those that end or start here have an edge each.
        for position in range(begin, end):
            if (gone[position >> 6] >> u64(position & 63)) & u64(1):
                continue
            new_ids[at] = ids[position]
            at += 1
            if position - begin < ends or position >= starts_from:
                from_edge = edge + position - begin if position - begin < ends else edge + ends + position - starts_from
                edges[edge_at] = old_edges[from_edge]
                short_edges[edge_at] = old_short[from_edge]
                edge_at += 1
                kept_ends += position - begin < ends
        windows[w, 2] = (old_windows[w, 2] & ~np.uint32(MOST_ENDS)) | np.uint32(kept_ends)
    windows[last, 0] = at
    windows[last, 1] = edge_at
    return at - base, edge_at


@kernel
def unpack_windows(
    part: Part,
    ids: UInt32s,
    gone: UInt64s,
    first_windows: UInt32s,
    lowest: int,
    slots: UInt32s,
    firsts: Int64s,
    lasts: Int64s,
    groups: Int64s,
) -> Any:
    """Recover intervals window by window: an edge gives an exact end, a window's bounds the others.

    Firsts, lasts and groups are written by slot, counted from `lowest`.
    """
    count = 0
    for g in range(len(part.groups_first) - 1):
        end = i64(part.groups_first[g + 1])
        for w in range(i64(part.groups_first[g]), end):
            base, behind = i64(part.windows[w, 0]), i64(part.windows[w + 1, 0])
            edge, ends = i64(part.windows[w, 1]), i64(part.windows[w, 2]) & MOST_ENDS
            starts = i64(part.windows[w + 1, 1]) - edge - ends
            until = part.keys[w + 1] - 1 if w + 1 < end else LARGEST
            for at in range(base, behind):
                if len(gone) and (gone[at >> 6] >> u64(at & 63)) & u64(1):
                    continue
                slot = ids[at]
                place = i64(slot) - lowest
                from_start = at - (behind - starts)
                if first_windows[slot] == w:
                    firsts[place] = part.edges[edge + ends + from_start] if from_start >= 0 else part.keys[w]
                    if len(groups):
                        groups[place] = part.group_keys[g]
                    slots[count] = slot
                    count += 1
                lasts[place] = part.edges[edge + at - base] if at - base < ends else until
    return count


@kernel
def trace(part: Part, ids: UInt32s, group_end: int, slot: int, window: int) -> tuple[int, int]:
    """The first and last ordinal of a slot's interval, from its first window on."""
    first = part.keys[window]
    last = first
    begin = window
    while window < group_end:
        base, behind = i64(part.windows[window, 0]), i64(part.windows[window + 1, 0])
        edge, ends = i64(part.windows[window, 1]), i64(part.windows[window, 2]) & MOST_ENDS
        starts = i64(part.windows[window + 1, 1]) - edge - ends
        at = base
        while at < behind and ids[at] != slot:
            at += 1
        if at == behind:
            break
        if window == begin and at >= behind - starts:
            first = part.edges[edge + ends + at - (behind - starts)]
        last = part.keys[window + 1] - 1 if window + 1 < group_end else LARGEST
        if at - base < ends:
            last = part.edges[edge + at - base]
        window += 1
    return first, last
