"""Kernels that edit windows in place: one interval comes or goes, in the few windows that it lies in.

An interval that lies strictly inside a window splits it where the interval starts. The pieces follow each other; a
search finds the first by its key. A window that is full, or that somebody may read, moves to the end of the arrays,
where there is room for more.

What does not fit is left to a run of its own: an interval that lies before the first window of its group, in more
windows than are worth it, in one that is long to move about, or in one that has many pieces.

Kernels stop between two intervals when the arrays are short of room, and say in `marks` how much they need.
"""

from typing import Any

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, UInt8s, UInt32s, i64, u64
from fencepost.indexes.kernels.id_map import spread
from fencepost.indexes.kernels.vectors import PADDING, bit_length, is_among
from fencepost.indexes.slice_list.changes import built_window
from fencepost.indexes.slice_list.search import count_below
from fencepost.indexes.slice_list.window_kernels import (
    ENDS_BITS,
    FARTHEST,
    LARGEST,
    LOOSE,
    MOST_ENDS,
    SHORT_ORIGIN,
    SPLIT,
    Part,
    decode,
    edges_end,
    eighth_of,
    following,
    piece_of,
    shorten_window,
)

USED, READ, SLOTS_NEEDED, EDGES_NEEDED = 0, 1, 2, 3
"""Items of `marks`: where the shared array has room; before which others may read; room that was lacking."""
MARKS = 4
_MOST_WINDOWS = 32
_MOST_SLOTS, _MOST_EDGES = 1 << 15, 1 << 12
"""What a window may hold to be edited: more is long to move about."""
_MOST_PIECES = 6
_COMPARED = 64
_MISFIT, _SHORT = -1, -2


@kernel
def insert_rows(
    part: Part,
    ids: UInt32s,
    room: UInt32s,
    marks: Int64s,
    number: int,
    least_bits: int,
    owners: UInt8s,
    first_windows: UInt32s,
    slots: UInt32s,
    firsts: Int64s,
    lasts: Int64s,
    groups: Int64s,
    begin: int,
) -> Any:
    """Insert the rows from `begin` on that fit and are longer than so many bits, and have the part own them.

    Returns the row that lacked room, or how many rows there are.
    """
    for i in range(begin, len(slots)):
        if owners[slots[i]] == 0 and bit_length(u64(lasts[i]) - u64(firsts[i])) > least_bits:
            group = i64(0)
            if len(groups) > 0:
                group = group_number(part, groups[i])
            if group >= 0:
                window = insert_row(part, ids, room, marks, first_windows, slots[i], firsts[i], lasts[i], group)
                if window == _SHORT:
                    return i
                if window != _MISFIT:
                    owners[slots[i]] = number
                    first_windows[slots[i]] = window
    return len(slots)


@kernel
def group_number(part: Any, key: int) -> Any:
    """The number of a group of a part of any kind, or -1."""
    table = part.groups_table
    at = spread(key, len(table))
    while table[at] != 0:
        if part.group_keys[i64(table[at]) - 1] == key:
            return i64(table[at]) - 1
        at = at + 1 if at + 1 < len(table) else 0
    return i64(-1)


@kernel
def window_of(part: Part, group: int, ordinal: int) -> Any:
    """The window of an ordinal; the one before the group's first if the ordinal is below that."""
    keys, begin = part.keys, i64(part.groups_first[group])
    low, high = begin, i64(part.groups_first[group + 1]) - 1
    if group < len(part.scales):
        bucket = eighth_of(decode(ordinal, part.meta[0] != 0), part.scales, group) >> 3
        high = begin + i64(part.buckets[bucket + 1]) - 1
        low = max(begin, begin + i64(part.buckets[bucket]) - 1)
    if high < begin or keys[low] > ordinal:
        return low - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if keys[middle] <= ordinal:
            low = middle
        else:
            high = middle - 1
    return piece_of(keys, part.windows, part.meta[3], low, ordinal)


@kernel
def spacious(count: int) -> Any:
    """The room of a window of so many that moves."""
    return count + (count >> 2) + 2


@kernel
def insert_row(
    part: Part,
    ids: UInt32s,
    room: UInt32s,
    marks: Int64s,
    first_windows: UInt32s,
    slot: int,
    first: int,
    last: int,
    group: int,
) -> Any:
    """Insert one interval into its windows, if it fits there and they have room; its first window, or why not."""
    keys, windows = part.keys, part.windows
    behind = i64(part.groups_first[group + 1])
    a = window_of(part, group, first)
    b = window_of(part, group, last)
    if a < i64(part.groups_first[group]):
        return _MISFIT
    next_one = following(windows, LOOSE, b)
    until = keys[next_one] - 1 if next_one != behind else LARGEST
    starts_inside = first != keys[a]
    ends_inside = last != until
    splits = a == b and starts_inside and ends_inside
    # Is there room? Only then anything changes.
    more_slots, more_edges, met = i64(0), i64(0), 0
    w = a
    while True:
        count = i64(windows[LOOSE * w + 3]) - i64(windows[LOOSE * w])
        both = edges_end(windows, LOOSE * w) - i64(windows[LOOSE * w + 1])
        met += 1
        if met > _MOST_WINDOWS or count > _MOST_SLOTS or both > _MOST_EDGES:
            return _MISFIT
        if splits or is_full(windows, room, marks, w):
            more_slots += spacious(count)
            more_edges += spacious(both)
        if w == b:
            break
        w = following(windows, LOOSE, w)
    if splits:
        if not may_split(part, a):
            return _MISFIT
        more_slots, more_edges = 2 * more_slots, 2 * more_edges
    if lacks_room(part, ids, room, marks, more_slots, more_edges):
        return _SHORT
    if splits:
        a = split_window(part, ids, room, marks, first_windows, a, first)
        b = a
        starts_inside = False
    w = a
    while True:
        if is_full(windows, room, marks, w):
            move_window(part, ids, room, marks, w)
        if w == a and starts_inside:
            insert_start(part, ids, w, slot, first)
        elif w == b and ends_inside:
            insert_end(part, ids, w, slot, last)
        else:
            insert_cover(part, ids, w, slot)
        if w == b:
            break
        w = following(windows, LOOSE, w)
    part.meta[2] += met
    if len(part.touched) > 0 and group < len(part.scales):
        is_float = part.meta[0] != 0
        since = eighth_of(decode(first, is_float), part.scales, group)
        touch(part.touched, since, eighth_of(decode(last, is_float), part.scales, group))
    return a


@kernel
def is_full(windows: UInt32s, room: UInt32s, marks: Int64s, w: int) -> Any:
    """Whether a window has no room for a slot and an edge more, or somebody may read it."""
    own = LOOSE * w
    return (
        windows[own + 3] >= room[2 * w]
        or edges_end(windows, own) >= i64(room[2 * w + 1])
        or (marks[READ] > 0 and i64(windows[own]) < marks[READ])
    )


@kernel
def lacks_room(part: Part, ids: UInt32s, room: UInt32s, marks: Int64s, slots: int, edges: int) -> Any:
    """Whether the arrays have no room for so many at their end; how many is then in `marks`."""
    marks[SLOTS_NEEDED], marks[EDGES_NEEDED] = slots, edges
    return marks[USED] + slots + PADDING > len(ids) or i64(room[len(room) - 1]) + edges + PADDING > len(part.edges)


@kernel
def move_window(part: Part, ids: UInt32s, room: UInt32s, marks: Int64s, w: int) -> None:
    """Move a window to the end of the arrays, where it has room to grow."""
    windows, own = part.windows, LOOSE * w
    begin, edge = i64(windows[own]), i64(windows[own + 1])
    count, both = i64(windows[own + 3]) - begin, edges_end(windows, own) - edge
    to, to_edge = marks[USED], i64(room[len(room) - 1])
    for i in range(count):
        ids[to + i] = ids[begin + i]
    for i in range(both):
        part.edges[to_edge + i] = part.edges[edge + i]
        part.short_edges[to_edge + i] = part.short_edges[edge + i]
    windows[own], windows[own + 3] = to, to + count
    windows[own + 1], windows[own + 4] = to_edge, (i64(windows[own + 4]) & SPLIT) | (to_edge + both)
    marks[USED] = to + spacious(count)
    room[2 * w], room[2 * w + 1] = marks[USED], to_edge + spacious(both)
    room[len(room) - 1] = room[2 * w + 1]


@kernel
def insert_start(part: Part, ids: UInt32s, w: int, slot: int, first: int) -> None:
    """Insert an interval that starts inside a window: behind the starts up to its own."""
    own = LOOSE * w
    edge, ends = i64(part.windows[own + 1]), i64(part.windows[own + 2]) & MOST_ENDS
    both = edges_end(part.windows, own) - edge
    at = ends + count_below(part.edges, edge + ends, both - ends, first, True)
    insert_slot(part, ids, w, i64(part.windows[own + 3]) - (both - at), slot)
    insert_edge(part, w, edge + at, first, ends)


@kernel
def insert_end(part: Part, ids: UInt32s, w: int, slot: int, last: int) -> None:
    """Insert an interval that ends inside a window: before the ends from its own on."""
    own = LOOSE * w
    edge, ends = i64(part.windows[own + 1]), i64(part.windows[own + 2]) & MOST_ENDS
    at = count_below(part.edges, edge, ends, last, False)
    insert_slot(part, ids, w, i64(part.windows[own]) + at, slot)
    insert_edge(part, w, edge + at, last, ends + 1)


@kernel
def insert_cover(part: Part, ids: UInt32s, w: int, slot: int) -> None:
    """Insert an interval that covers a window: before the starts."""
    own = LOOSE * w
    ends = i64(part.windows[own + 2]) & MOST_ENDS
    starts = edges_end(part.windows, own) - i64(part.windows[own + 1]) - ends
    insert_slot(part, ids, w, i64(part.windows[own + 3]) - starts, slot)


@kernel
def insert_slot(part: Part, ids: UInt32s, w: int, at: int, slot: int) -> None:
    """Insert a slot into a window, which has room."""
    end = i64(part.windows[LOOSE * w + 3])
    for i in range(end, at, -1):
        ids[i] = ids[i - 1]
    ids[at] = slot
    part.windows[LOOSE * w + 3] = end + 1


@kernel
def insert_edge(part: Part, w: int, at: int, ordinal: int, ends: int) -> None:
    """Insert an edge into a window, which then has so many ends."""
    own = LOOSE * w
    edge, end = i64(part.windows[own + 1]), edges_end(part.windows, own)
    for i in range(end, at, -1):
        part.edges[i] = part.edges[i - 1]
    for i in range(end, at, -1):
        part.short_edges[i] = part.short_edges[i - 1]
    part.edges[at] = ordinal
    part.windows[own + 4] += 1
    shift = u64(part.windows[own + 2] >> ENDS_BITS)
    distance = (u64(ordinal - (at >= edge + ends)) - u64(part.keys[w])) >> shift
    if distance < u64(FARTHEST):
        part.short_edges[at] = i64(distance) - SHORT_ORIGIN
    else:
        shift = shorten_window(part.keys[w], part.edges, edge, edge + ends, end + 1, part.short_edges)
    part.windows[own + 2] = ends | i64(shift << u64(ENDS_BITS))


@kernel
def may_split(part: Part, w: int) -> Any:
    """Whether there is a row for one piece more of a window, and it has not too many."""
    w, pieces = built_window(part, w), 0
    while i64(part.windows[LOOSE * w + 4]) >= SPLIT:
        w = following(part.windows, LOOSE, w)
        pieces += 1
    return pieces < _MOST_PIECES and LOOSE * (part.meta[4] + 1) <= len(part.windows)


@kernel
def split_window(
    part: Part, ids: UInt32s, room: UInt32s, marks: Int64s, first_windows: UInt32s, w: int, key: int
) -> Any:
    """Split a window at a key inside it; the number of the piece behind, which has room.

    What ends before the key is left to the window, what starts behind it belongs to the piece, the others to both: the
    slots of both lie beside each other in the window as it was.
    """
    windows = part.windows
    if i64(windows[LOOSE * w]) < marks[READ]:
        move_window(part, ids, room, marks, w)
    own, piece = LOOSE * w, part.meta[4]
    new = LOOSE * piece
    begin, end, edge = i64(windows[own]), i64(windows[own + 3]), i64(windows[own + 1])
    ends, both = i64(windows[own + 2]) & MOST_ENDS, edges_end(windows, own) - edge
    starts = both - ends
    before = count_below(part.edges, edge, ends, key, False)
    started = count_below(part.edges, edge + ends, starts, key, True)
    # The piece: what ends in it, what covers it or starts with it, what starts in it.
    at, at_edge = marks[USED], i64(room[len(room) - 1])
    count = end - begin - before
    for i in range(count):
        ids[at + i] = ids[begin + before + i]
    for i in range(ends - before):
        part.edges[at_edge + i] = part.edges[edge + before + i]
    for i in range(starts - started):
        part.edges[at_edge + ends - before + i] = part.edges[edge + ends + started + i]
    own_edges = ends - before + starts - started
    part.keys[piece] = key
    shift = shorten_window(key, part.edges, at_edge, at_edge + ends - before, at_edge + own_edges, part.short_edges)
    windows[new], windows[new + 1], windows[new + 3] = at, at_edge, at + count
    windows[new + 2] = (ends - before) | i64(shift << u64(ENDS_BITS))
    windows[new + 4] = (i64(windows[own + 4]) & SPLIT) | (at_edge + own_edges)
    windows[new + 5] = windows[own + 5]
    marks[USED] = at + spacious(count)
    room[2 * piece], room[2 * piece + 1] = marks[USED], at_edge + spacious(own_edges)
    room[len(room) - 1] = room[2 * piece + 1]
    # The window: what ends at its new end covers it, what starts behind is gone.
    inside = count_below(part.edges, edge, ends, key - 1, False)
    kept = count_below(part.edges, edge + ends, starts, key, False)
    for i in range(end - (starts - kept), end):
        first_windows[ids[i]] = piece
    for i in range(kept):
        part.edges[edge + inside + i] = part.edges[edge + ends + i]
        part.short_edges[edge + inside + i] = part.short_edges[edge + ends + i]
    windows[own + 2] = (i64(windows[own + 2]) & ~MOST_ENDS) | inside
    windows[own + 3] = end - (starts - kept)
    windows[own + 4] = SPLIT | (edge + inside + kept)
    windows[own + 5] = piece
    part.meta[2] += count - (starts - kept)
    part.meta[4] += 1
    return piece


@kernel
def touch(touched: UInt8s, first: int, last: int) -> None:
    """Mark the eighths between two."""
    for byte in range(first >> 3, (last >> 3) + 1):
        bits = i64(255)
        if byte == first >> 3:
            bits &= 255 << (first & 7)
        if byte == last >> 3:
            bits &= 255 >> (7 - (last & 7))
        touched[byte] |= bits


# -- removing -------------------------------------------------------------------------------------------


@kernel
def unshare_rows(
    part: Part,
    ids: UInt32s,
    room: UInt32s,
    marks: Int64s,
    number: int,
    owners: UInt8s,
    first_windows: UInt32s,
    slots: Int64s,
    begin: int,
) -> Any:
    """Move the windows that somebody may read, of those from `begin` on that this part owns.

    Returns the one that lacked room to move, or how many there are.
    """
    windows = part.windows
    count = i64(part.groups_first[len(part.groups_first) - 1])
    for i in range(begin, len(slots)):
        if owners[slots[i]] != number:
            continue
        w = i64(first_windows[slots[i]])
        while w != count and find_slot(ids, i64(windows[LOOSE * w]), i64(windows[LOOSE * w + 3]), slots[i]) >= 0:
            if i64(windows[LOOSE * w]) < marks[READ]:
                more_slots = spacious(i64(windows[LOOSE * w + 3]) - i64(windows[LOOSE * w]))
                more_edges = spacious(edges_end(windows, LOOSE * w) - i64(windows[LOOSE * w + 1]))
                if lacks_room(part, ids, room, marks, more_slots, more_edges):
                    return i
                move_window(part, ids, room, marks, w)
            w = following(windows, LOOSE, w)
    return len(slots)


@kernel
def remove_rows(part: Part, ids: UInt32s, number: int, owners: UInt8s, first_windows: UInt32s, slots: Int64s) -> None:
    """Remove those that this part owns, of slots or -1, from windows that nobody else may read."""
    for i in range(len(slots)):
        if slots[i] >= 0 and owners[slots[i]] == number:
            remove_row(part, ids, slots[i], i64(first_windows[slots[i]]))
            owners[slots[i]] = 0


@kernel
def remove_row(part: Part, ids: UInt32s, slot: int, first_window: int) -> None:
    """Remove one interval from its windows."""
    windows = part.windows
    count = i64(part.groups_first[len(part.groups_first) - 1])
    w = first_window
    while w != count:
        own = LOOSE * w
        begin, end, edge = i64(windows[own]), i64(windows[own + 3]), i64(windows[own + 1])
        at = find_slot(ids, begin, end, slot)
        if at < 0:
            break
        ends, both = i64(windows[own + 2]) & MOST_ENDS, edges_end(windows, own) - edge
        is_end = at - begin < ends
        if is_end or at >= end - (both - ends):
            remove_edge(part, w, edge + at - begin if is_end else edge + both - (end - at))
        if is_end:
            windows[own + 2] -= 1
        for i in range(at, end - 1):
            ids[i] = ids[i + 1]
        windows[own + 3] = end - 1
        part.meta[2] -= 1
        if is_end:
            break
        w = following(windows, LOOSE, w)


@kernel
def find_slot(ids: UInt32s, begin: int, end: int, slot: int) -> Any:
    """Where a slot is among those of a window, or -1."""
    while begin < end:
        stop = min(begin + _COMPARED, end)
        if is_among(ids, begin, stop - begin, slot):
            while i64(ids[begin]) != slot:
                begin += 1
            return begin
        begin = stop
    return i64(-1)


@kernel
def remove_edge(part: Part, w: int, at: int) -> None:
    """Remove an edge from a window."""
    end = edges_end(part.windows, LOOSE * w)
    for i in range(at, end - 1):
        part.edges[i] = part.edges[i + 1]
    for i in range(at, end - 1):
        part.short_edges[i] = part.short_edges[i + 1]
    part.windows[LOOSE * w + 4] -= 1
