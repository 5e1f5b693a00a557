"""Kernels that read windows back: copied with or without room to spare, taken apart, or one interval traced."""

from typing import Any

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int16s, Int64s, UInt8s, UInt32s, i64
from fencepost.indexes.slice_list.window_kernels import (
    LARGEST,
    LOOSE,
    MOST_ENDS,
    PACKED,
    SPLIT,
    Part,
    edges_end,
    following,
)

_SPARE = 3
"""A window may grow by an eighth, as a shift."""


@kernel
def measure_copy(part: Part, spare: bool) -> tuple[int, int]:
    """The most slots and edges that a copy of a part's windows takes."""
    row = part.meta[3]
    slots, edges = i64(0), i64(0)
    for w in range(part.meta[4]):
        count = i64(part.windows[row * w + 3]) - i64(part.windows[row * w])
        both = edges_end(part.windows, row * w) - i64(part.windows[row * w + 1])
        slots += count + ((count >> _SPARE) if spare else 0)
        edges += both + ((both >> _SPARE) if spare else 0)
    return slots, edges


@kernel
def copy_windows(
    part: Part,
    ids: UInt32s,
    owners: UInt8s,
    owner: int,
    new_ids: UInt32s,
    base: int,
    windows: UInt32s,
    room: UInt32s,
    edges: Int64s,
    short_edges: Int16s,
) -> tuple[int, int, int]:
    """Copy every window's ends, covers and starts: slots copied, where the next slot and the next edge may be.

    Only those that have this owner, or all if `owners` is empty. Windows have room to spare and say where it ends if
    `room` can take that; else they are packed.
    """
    row = part.meta[3]
    old_windows, old_edges, old_short = part.windows, part.edges, part.short_edges
    at, edge_at, stored = i64(base), i64(0), i64(0)
    loose = len(room) > 0
    count = part.meta[4] if loose else i64(part.groups_first[len(part.groups_first) - 1])
    for w in range(count):
        begin, end = i64(old_windows[row * w]), i64(old_windows[row * w + 3])
        edge = i64(old_windows[row * w + 1])
        both = edges_end(old_windows, row * w) - edge
        ends = i64(old_windows[row * w + 2]) & MOST_ENDS
        starts_from = end - (both - ends)
        own = (LOOSE if loose else PACKED) * w
        windows[own], windows[own + 1], windows[own + 2] = at, edge_at, old_windows[row * w + 2]
        first_slot, first_edge = at, edge_at
        if len(owners) == 0:
            for i in range(end - begin):
                new_ids[at + i] = ids[begin + i]
            for i in range(both):
                edges[edge_at + i] = old_edges[edge + i]
                short_edges[edge_at + i] = old_short[edge + i]
            at += end - begin
            edge_at += both
        else:
            # Slot by slot; those that end or start here have an edge each.
            kept_ends = 0
            for position in range(begin, end):
                if owners[ids[position]] != owner:
                    continue
                new_ids[at] = ids[position]
                at += 1
                if position - begin < ends or position >= starts_from:
                    is_end = position - begin < ends
                    from_edge = edge + position - begin if is_end else edge + ends + position - starts_from
                    edges[edge_at] = old_edges[from_edge]
                    short_edges[edge_at] = old_short[from_edge]
                    edge_at += 1
                    kept_ends += is_end
            windows[own + 2] = (i64(old_windows[row * w + 2]) & ~MOST_ENDS) | kept_ends
        stored += at - first_slot
        windows[own + 3], windows[own + 4] = at, edge_at
        if loose:
            windows[own + 5] = following(old_windows, row, w)
            if row == LOOSE:
                windows[own + 4] |= old_windows[row * w + 4] & np.uint32(SPLIT)
            # What is spare is zeros, so that nobody else's memory is there.
            for i in range((at - first_slot) >> _SPARE):
                new_ids[at + i] = 0
            at += (at - first_slot) >> _SPARE
            edge_at += (edge_at - first_edge) >> _SPARE
            room[2 * w], room[2 * w + 1] = at, edge_at
    if not loose:
        windows[PACKED * count], windows[PACKED * count + 1] = at, edge_at
    return stored, at, edge_at


@kernel
def slot_bounds(part: Part, ids: UInt32s) -> tuple[int, int]:
    """The smallest and the largest slot of a part; 0 and -1 if it has none."""
    row = part.meta[3]
    lowest, highest = i64(1) << 32, i64(-1)
    for w in range(part.meta[4]):
        for at in range(i64(part.windows[row * w]), i64(part.windows[row * w + 3])):
            lowest = min(lowest, i64(ids[at]))
            highest = max(highest, i64(ids[at]))
    return min(lowest, highest + 1), highest


@kernel
def unpack_windows(
    part: Part,
    ids: UInt32s,
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
    row = part.meta[3]
    count = 0
    for g in range(len(part.groups_first) - 1):
        end = i64(part.groups_first[g + 1])
        w = i64(part.groups_first[g])
        while w != end:
            base, behind = i64(part.windows[row * w]), i64(part.windows[row * w + 3])
            edge, ends = i64(part.windows[row * w + 1]), i64(part.windows[row * w + 2]) & MOST_ENDS
            starts = edges_end(part.windows, row * w) - edge - ends
            next_one = following(part.windows, row, w)
            until = part.keys[next_one] - 1 if next_one != end else LARGEST
            for at in range(base, behind):
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
            w = next_one
    return count


@kernel
def built_window(part: Part, window: int) -> Any:
    """The window that one is a piece of, or itself."""
    row, count = part.meta[3], i64(part.groups_first[len(part.groups_first) - 1])
    window = following(part.windows, row, window)
    while window > count:
        window = following(part.windows, row, window)
    return window - 1


@kernel
def trace(part: Part, ids: UInt32s, group_end: int, slot: int, window: int) -> tuple[int, int]:
    """The first and last ordinal of a slot's interval, from its first window on."""
    row = part.meta[3]
    first = part.keys[window]
    last = first
    begin = window
    while window != group_end:
        base, behind = i64(part.windows[row * window]), i64(part.windows[row * window + 3])
        edge, ends = i64(part.windows[row * window + 1]), i64(part.windows[row * window + 2]) & MOST_ENDS
        starts = edges_end(part.windows, row * window) - edge - ends
        at = base
        while at < behind and ids[at] != slot:
            at += 1
        if at == behind:
            break
        if window == begin and at >= behind - starts:
            first = part.edges[edge + ends + at - (behind - starts)]
        next_one = following(part.windows, row, window)
        last = part.keys[next_one] - 1 if next_one != group_end else LARGEST
        if at - base < ends:
            last = part.edges[edge + at - base]
        window = next_one
    return first, last
