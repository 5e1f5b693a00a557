"""The lists of all virtual constructs of one index: their memory, and the kernels that fill and copy them.

A decomposition is a sequence of *codes*, one per piece:

* ``0 <= code < dense``: a construct that always exists;
* ``code >= dense``: unit ``code - dense`` of the domain, in an array that exists only while it is used (ACEI);
* `BELOW`, `ABOVE`: the interval reaches beyond that end of the domain, and is checked for values out there;
* smaller ones: a list of a single unit cell that an interval fills only in part (checked), or of the single
  integer point at which a closed interval ends (exact). See `cell_code` and `point_code`.
"""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Float64s, Int64s, UInt8s, UInt32s, i64
from fencepost.indexes.contracts.registry import Queries, holds
from fencepost.indexes.kernels import id_map
from fencepost.indexes.kernels.id_map import ABSENT, IdMap
from fencepost.indexes.kernels.vectors import PADDING, copy_run, prefetch
from fencepost.indexes.papers.arena import has_block, release, size_class, take

BELOW, ABOVE, SPARSE = -1, -2, -3
BEYOND = (BELOW, ABOVE)
"""In several dimensions: the codes for reaching beyond the domain, on either side, one per axis."""
LISTS, ENTRIES, PIECES = 0, 1, 2
MOST_EXTRA_CODES = 5
_RUNS_AHEAD = 24
_PREFETCHED_IDS = 128


class Lists(NamedTuple):
    """All id lists of one index, in flat arrays.

    Invariants: (1) list l is ``ids[s:s+n]`` with ``s, n = heads[l]``, in a block of ``2**(room[l]-1)`` items
    (no block when `room` is 0); (2) `owners` of an entry is the piece it stands for, and `where` of that
    piece is the entry's rank in its list; (3) the pieces of slot q are ``where[f:f+c]`` with ``f, c =
    pieces[q]``, in the order of its codes; (4) an empty list that is not dense does not exist.

    Exact lists hold query ids, checked lists hold query slots.
    """

    heads: UInt32s
    room: UInt8s
    ids: Int64s
    owners: UInt32s
    where: UInt32s
    pieces: UInt32s
    sparse: IdMap
    units: UInt32s
    """Per segment 1 + the first list of its unit array, or 0, and the entries in that array."""
    arenas: Int64s
    """The state of the arenas of lists, entries and pieces, in that order."""
    layout: Int64s
    """[dense lists, log2 of a unit array's length, start of the domain, size of the domain]"""


class Plan(NamedTuple):
    """An interval cut along the boundary policy, in coordinates relative to the domain's start."""

    first: int
    """The core of whole cells is ``[first, last)``; empty if last <= first."""
    last: int
    left: int
    """The part-filled cell at the lower end, or -1."""
    right: int
    """The part-filled cell at the upper end, if it is another one, or -1."""
    point: int
    """The integer that a closed interval ends on, or -1."""
    below: bool
    above: bool


# -- decomposition kernels ------------------------------------------------------------------------------


@kernel
def cell_code(cell: int) -> Any:
    """The code of the checked list of one unit cell."""
    return SPARSE - 2 * cell


@kernel
def point_code(point: int) -> Any:
    """The code of the exact list of one integer point."""
    return SPARSE - 2 * point - 1


@kernel
def plan(layout: Int64s, closed: bool, bounds: Float64s, slot: int) -> Plan:
    """Split the interval in one slot along the boundary policy."""
    return plan_range(layout[2], layout[2] + layout[3], closed, bounds[slot, 0], bounds[slot, 1])


@kernel
def plan_range(start: int, end: int, closed: bool, low: float, high: float) -> Plan:
    """Split one range along the boundary policy, over the domain ``[start, end)``."""
    below = low < start
    above = high > end or (closed and high == end)
    if low >= end or high < start or (high == start and not closed):
        return Plan(0, 0, -1, -1, -1, below, above)
    a = max(low, np.float64(start))
    b = min(high, np.float64(end))
    first = i64(np.ceil(a)) - start
    last = i64(np.floor(b)) - start
    left = i64(np.floor(a)) - start if np.floor(a) != a else -1
    right = last if np.floor(b) != b and last != left else -1
    point = last if closed and not above and np.floor(b) == b else -1
    return Plan(first, last, left, right, point, below, above)


@kernel
def finish_codes(codes: Int64s, n: int, cut: Plan, with_point: bool) -> Any:
    """Append the codes of everything that is not core, `MOST_EXTRA_CODES` at most; the new length."""
    if cut.left >= 0:
        codes[n] = cell_code(cut.left)
        n += 1
    if cut.right >= 0:
        codes[n] = cell_code(cut.right)
        n += 1
    if cut.point >= 0 and with_point:
        codes[n] = point_code(cut.point)
        n += 1
    if cut.below:
        codes[n] = BELOW
        n += 1
    if cut.above:
        codes[n] = ABOVE
        n += 1
    return n


# -- list kernels ---------------------------------------------------------------------------------------

SHORT_OF_ENTRIES, SHORT_OF_PIECES, SHORT_OF_LISTS, SHORT_OF_SPARSE = 1, 2, 3, 4


@kernel
def existing_list(lists: Lists, code: int) -> Any:
    """The list behind a code, or `ABSENT`."""
    dense = lists.layout[0]
    if code >= dense:
        unit = code - dense
        block = i64(lists.units[unit >> lists.layout[1], 0])
        return block - 1 + (unit & ((1 << lists.layout[1]) - 1)) if block else ABSENT
    if code >= 0:
        return code
    if code > SPARSE:
        return dense - 1 - code
    return id_map.find(lists.sparse, SPARSE - code)


@kernel
def created_list(lists: Lists, code: int) -> Any:
    """The list behind a code, which exists from now on."""
    found = existing_list(lists, code)
    if found != ABSENT:
        return found
    dense = lists.layout[0]
    if code >= dense:
        unit_bits = lists.layout[1]
        segment = (code - dense) >> unit_bits
        lists.units[segment, 0] = 1 + take(lists.arenas, LISTS, lists.heads[:, 0], unit_bits)
        block = i64(lists.units[segment, 0]) - 1
        for unit in range(block, block + (1 << unit_bits)):
            lists.heads[unit, 0] = 0
            lists.heads[unit, 1] = 0
        return existing_list(lists, code)
    place = take(lists.arenas, LISTS, lists.heads[:, 0], 0)
    lists.heads[place, 0] = 0
    lists.heads[place, 1] = 0
    id_map.put(lists.sparse, SPARSE - code, place)
    return place


@kernel
def move(lists: Lists, place: int, room: int) -> None:
    """Move a list to a block of ``2**(room-1)`` items."""
    start, count, old = i64(lists.heads[place, 0]), i64(lists.heads[place, 1]), lists.room[place]
    block = take(lists.arenas, ENTRIES, lists.owners, room - 1)
    for j in range(count):
        lists.ids[block + j] = lists.ids[start + j]
        lists.owners[block + j] = lists.owners[start + j]
    if old:
        release(lists.arenas, ENTRIES, lists.owners, i64(old) - 1, start)
    lists.heads[place, 0] = block
    lists.room[place] = room


@kernel
def shortage(lists: Lists, codes: Int64s, begin: int, end: int) -> Any:
    """What must be enlarged before the pieces of one more interval are attached, or 0."""
    if lists.arenas[PIECES, 0] + (1 << size_class(end - begin)) > len(lists.where):
        return SHORT_OF_PIECES
    items = lists.arenas[ENTRIES, 0]
    new_lists = lists.arenas[LISTS, 0]
    new_sparse = 0
    for j in range(begin, end):
        place = existing_list(lists, codes[j])
        if place == ABSENT:
            items += 1
            if codes[j] >= 0:
                new_lists += 1 << lists.layout[1]
            else:
                new_lists += 1
                new_sparse += 1
        else:
            room = i64(lists.room[place])
            if room == 0 or i64(lists.heads[place, 1]) == (1 << (room - 1)):
                items += 1 << room
    if items > len(lists.owners):
        return SHORT_OF_ENTRIES
    if new_lists > len(lists.heads):
        return SHORT_OF_LISTS
    if 2 * (lists.sparse.size[0] + new_sparse) > len(lists.sparse.slots):
        return SHORT_OF_SPARSE
    return 0


@kernel
def attach(
    lists: Lists,
    query_ids: Int64s,
    slots: Int64s,
    codes: Int64s,
    offsets: Int64s,
    first: int,
) -> tuple[int, int]:
    """Append each interval to the lists of its codes; the row it stopped at, and what it was short of.

    A helper that takes all the lists costs a reference count per array and call, so dense lists with room,
    the common case, are served without one.
    """
    heads, rooms, ids, owners, where = lists.heads, lists.room, lists.ids, lists.owners, lists.where
    dense = lists.layout[0]
    ahead = 12
    for row in range(first, len(slots)):
        begin, end = offsets[row], offsets[row + 1]
        # Whether all its lists are dense and have room; else all that is missing is asked for before anything changes.
        simple = lists.arenas[PIECES, 0] + 2 * (end - begin) <= len(where)
        for j in range(begin, end):
            code = codes[j]
            if code < 0 or code >= dense:
                simple = False
            else:
                room = i64(rooms[code])
                simple = simple and room > 0 and i64(heads[code, 1]) < (1 << (room - 1))
        if not simple:
            short = shortage(lists, codes, begin, end)
            if short:
                return row, short
        # One piece per list remembers where the interval stands in it.
        slot = slots[row]
        piece = take(lists.arenas, PIECES, where, size_class(end - begin))
        lists.pieces[slot, 0] = piece
        lists.pieces[slot, 1] = end - begin
        for j in range(begin, end):
            code = codes[j]
            if j + ahead < offsets[len(slots)]:
                coming = codes[j + ahead]
                if 0 <= coming < dense:
                    prefetch(heads, 2 * coming)
            # The list, which is made or moved to a larger place where that is needed.
            place = code
            if not simple:
                place = created_list(lists, code)
                room = i64(rooms[place])
                if room == 0 or i64(heads[place, 1]) == (1 << (room - 1)):
                    move(lists, place, room + 1)
            count = i64(heads[place, 1])
            at = i64(heads[place, 0]) + count
            # Lists whose entries are compared hold slots, the others ids.
            checked = code < 0 and (code > SPARSE or (SPARSE - code) & 1 == 0)
            ids[at] = slot if checked else query_ids[slot]
            owners[at] = piece
            where[piece] = count
            heads[place, 1] = count + 1
            if code >= dense:
                lists.units[(code - dense) >> lists.layout[1], 1] += 1
            piece += 1
    return len(slots), 0


@kernel
def detach(
    lists: Lists,
    slots: Int64s,
    codes: Int64s,
    offsets: Int64s,
) -> None:
    """Undo `attach`: the last entry of each list takes the place of the one that leaves."""
    heads, ids, owners, where, units = lists.heads, lists.ids, lists.owners, lists.where, lists.units
    arenas = lists.arenas
    dense, unit_bits = lists.layout[0], lists.layout[1]
    for row in range(len(slots)):
        slot = slots[row]
        piece = i64(lists.pieces[slot, 0])
        for j in range(offsets[row], offsets[row + 1]):
            code = codes[j]
            place = code if 0 <= code < dense else existing_list(lists, code)
            start = i64(heads[place, 0])
            last = i64(heads[place, 1]) - 1
            rank = i64(where[piece])
            moved = owners[start + last]
            ids[start + rank] = ids[start + last]
            owners[start + rank] = moved
            where[moved] = rank
            heads[place, 1] = last
            room = i64(lists.room[place])
            if last == 0:
                release(arenas, ENTRIES, owners, room - 1, start)
                lists.room[place] = 0
                if code <= SPARSE:
                    id_map.drop(lists.sparse, SPARSE - code)
                    release(arenas, LISTS, heads[:, 0], 0, place)
            elif room > 3 and last <= (1 << (room - 3)) and has_block(arenas, ENTRIES, len(owners), room - 2):
                move(lists, place, room - 1)
            if code >= dense:
                segment = (code - dense) >> unit_bits
                units[segment, 1] -= 1
                if units[segment, 1] == 0:
                    release(arenas, LISTS, heads[:, 0], unit_bits, i64(units[segment, 0]) - 1)
                    units[segment, 0] = 0
            piece += 1
        block_class = size_class(i64(lists.pieces[slot, 1]))
        release(arenas, PIECES, where, block_class, i64(lists.pieces[slot, 0]))


@kernel
def tally(codes: Int64s, count: int, added: UInt32s) -> None:
    """Count the pieces on each dense list."""
    for j in range(count):
        if 0 <= codes[j] < len(added):
            added[codes[j]] += 1


@allocating_kernel
def missing_room(lists: Lists, added: UInt32s) -> Any:
    """Items that new blocks need if every dense list is to hold what is added to it, beyond the free blocks."""
    needed = np.zeros(lists.arenas.shape[1], np.int64)
    for place in range(len(added)):
        if added[place]:
            c = size_class(i64(lists.heads[place, 1]) + i64(added[place]))
            if c + 1 > lists.room[place]:
                needed[c] += 1
    items = 0
    for c in range(len(needed) - 1):
        free = lists.arenas[ENTRIES, 1 + c]
        while free != 0 and needed[c] > 0:
            needed[c] -= 1
            free = i64(lists.owners[free - 1])
        items += needed[c] << c
    return items


@kernel
def reserve(lists: Lists, added: UInt32s) -> None:
    """Make room in every dense list for what is added to it."""
    arenas, owners = lists.arenas, lists.owners
    for place in range(len(added)):
        if added[place]:
            c = size_class(i64(lists.heads[place, 1]) + i64(added[place]))
            if lists.room[place] == 0:
                lists.heads[place, 0] = take(arenas, ENTRIES, owners, c)
                lists.room[place] = c + 1
            elif c + 1 > lists.room[place]:
                move(lists, place, c + 1)


@kernel
def verify(
    lists: Lists,
    query_ids: Int64s,
    slots: Int64s,
    codes: Int64s,
    offsets: Int64s,
) -> Any:
    """1 + the first row whose pieces are not all in place, or 0."""
    for row in range(len(slots)):
        slot = slots[row]
        piece = i64(lists.pieces[slot, 0])
        if i64(lists.pieces[slot, 1]) != offsets[row + 1] - offsets[row]:
            return row + 1
        for j in range(offsets[row], offsets[row + 1]):
            place = existing_list(lists, codes[j])
            if place == ABSENT or lists.where[piece] >= lists.heads[place, 1]:
                return row + 1
            if i64(lists.heads[place, 1]) > (1 << (i64(lists.room[place]) - 1)):
                return row + 1
            at = i64(lists.heads[place, 0]) + i64(lists.where[piece])
            if lists.owners[at] != piece or (lists.ids[at] != slot and lists.ids[at] != query_ids[slot]):
                return row + 1
            piece += 1
    return 0


# -- search kernels -------------------------------------------------------------------------------------


@kernel
def locate(layout: Int64s, values: Float64s, cells: Int64s) -> None:
    """The unit cell of each value, or -1 for one outside the domain."""
    start, size = layout[2], layout[3]
    for i in range(len(values)):
        value = values[i]
        inside = value >= start and value < start + size
        cells[i] = i64(np.floor(value)) - start if inside else -1


@kernel
def emit(
    lists: Lists,
    queries: Queries,
    closed: bool,
    values: Float64s,
    cells: Int64s,
    run_offsets: Int64s,
    runs: UInt32s,
    offsets: Int64s,
    out: Int64s,
    first: int,
) -> tuple[int, int]:
    """Copy the runs of each value to the answer, then what lies outside the constructs.

    Returns the row it stopped at for want of room, and the room that row needs.
    """
    ids = lists.ids
    any_sparse = lists.sparse.size[0] > 0
    room = len(out) - PADDING
    at = offsets[first]
    coming = run_offsets[first]
    for i in range(first, len(values)):
        begin, end = run_offsets[i], run_offsets[i + 1]
        # Runs of later values are on their way to the cache while these are copied.
        while coming < min(end + _RUNS_AHEAD, run_offsets[len(values)]):
            start = i64(runs[coming, 0])
            for line in range(start, start + min(i64(runs[coming, 1]), _PREFETCHED_IDS), 8):
                prefetch(ids, line)
            coming += 1
        # How many ids at most; the row waits where they have no room.
        needed = 0
        for run in range(begin, end):
            needed += i64(runs[run, 1])
        checked = ABSENT
        point = ABSENT
        if any_sparse or cells[i] < 0:
            checked, point = lists_beside(lists, values[i], cells[i])
            needed += i64(lists.heads[checked, 1]) if checked != ABSENT else 0
            needed += i64(lists.heads[point, 1]) if point != ABSENT else 0
        if at + needed > room:
            return i, needed
        # Exact runs are copied; entries of the checked list are compared.
        for run in range(begin, end):
            count = i64(runs[run, 1])
            copy_run(out, at, ids, i64(runs[run, 0]), count)
            at += count
        if checked != ABSENT:
            start = i64(lists.heads[checked, 0])
            for entry in range(start, start + i64(lists.heads[checked, 1])):
                slot = ids[entry]
                if holds(queries.bounds[slot, 0], queries.bounds[slot, 1], closed, values[i]):
                    out[at] = queries.ids[slot]
                    at += 1
        if point != ABSENT:
            count = i64(lists.heads[point, 1])
            copy_run(out, at, ids, i64(lists.heads[point, 0]), count)
            at += count
        offsets[i + 1] = at
    return len(values), 0


@kernel
def lists_beside(lists: Lists, value: float, cell: int) -> tuple[int, int]:
    """The checked list and the exact point list that concern a value beside its constructs, or `ABSENT`."""
    dense = lists.layout[0]
    if cell < 0:
        if np.isnan(value):
            return ABSENT, ABSENT
        return (dense if value < lists.layout[2] else dense + 1), ABSENT
    point = existing_list(lists, point_code(cell)) if np.floor(value) == value else ABSENT
    return existing_list(lists, cell_code(cell)), point
