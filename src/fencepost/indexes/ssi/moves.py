"""The kernels that follow a moving row: which pairs one step changes, without a look at those that stay."""

from typing import Any

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, i64
from fencepost.indexes.contracts.bands import high_sign, low_sign
from fencepost.indexes.ordinal import LARGEST, SMALLEST
from fencepost.indexes.ssi.distance import gap, limit, reaches
from fencepost.indexes.ssi.members import Int32s
from fencepost.indexes.ssi.ordered import CHUNK, Ordered, add, discard, find, first_of, has_room, put_back
from fencepost.indexes.ssi.search import (
    RowList,
    SSIView,
    before,
    behind,
    entry,
    partition_begin,
    rank,
    rank_before,
    rank_behind,
    span,
)

ENTERED, LEFT_BAND = 0, 1


@kernel
def move_rows(
    kind: int,
    side: int,
    start: int,
    slots: Int64s,
    keys: Int64s,
    own: RowList,
    others: RowList,
    view: SSIView,
    changed: Int64s,
    counts: Int64s,
    offsets: Int64s,
    needed: Int64s,
) -> Any:
    """Move rows, from the `start`-th on, until there is no room for their list or their changes; the next move.

    `changed` is [entered or left, row or query, pair], `counts` and `offsets` have a row for entered and for left;
    `needed` is how many pairs `changed` must hold for the next move.
    """
    for i in range(start, len(slots)):
        if not has_room(own.order):
            return i
        entered, left = counts[ENTERED], counts[LEFT_BAND]
        slot = slots[i]
        changes_of(kind, side, own.keys[slot], keys[i], i64(own.groups[slot]), others, view, changed, counts)
        if max(counts[ENTERED], counts[LEFT_BAND]) > changed.shape[2]:
            needed[0] = max(counts[ENTERED], counts[LEFT_BAND])
            counts[ENTERED], counts[LEFT_BAND] = entered, left
            return i
        if own.keys[slot] != keys[i]:
            discard(own.order, own.groups, own.keys, slot)
            own.keys[slot] = keys[i]
            add(own.order, own.groups, own.keys, slot)
        offsets[ENTERED, i + 1] = counts[ENTERED]
        offsets[LEFT_BAND, i + 1] = counts[LEFT_BAND]
    return len(slots)


@kernel
def undo_moves(done: int, slots: Int64s, keys: Int64s, own: RowList) -> None:
    """Let the rows of the first moves have these keys again; takes no memory."""
    for i in range(done):
        slot = slots[i]
        if own.keys[slot] != keys[i]:
            discard(own.order, own.groups, own.keys, slot)
            own.keys[slot] = keys[i]
            put_back(own.order, own.groups, own.keys, slot)


@kernel
def changes_of(
    kind: int,
    side: int,
    old: int,
    new: int,
    group: int,
    rows: RowList,
    view: SSIView,
    changed: Int64s,
    counts: Int64s,
) -> None:
    """Append the pairs that a step from one key to another changes; what exceeds the room is counted only."""
    begin, end = span(rows, group)
    if begin == end or old == new:
        return
    gained = ENTERED if new > old else LEFT_BAND
    changes_in(kind, side, min(old, new), max(old, new), begin, end, rows, view, 0, gained, changed, counts)
    if group > 0:
        changes_in(kind, side, min(old, new), max(old, new), begin, end, rows, view, group, gained, changed, counts)


@kernel
def changes_in(
    kind: int,
    side: int,
    low: int,
    high: int,
    begin: int,
    end: int,
    rows: RowList,
    view: SSIView,
    partition: int,
    gained: int,
    changed: Int64s,
    counts: Int64s,
) -> None:
    """The changes among the queries of one partition, for a step between the keys low < high.

    A row's difference grows by the step from d to e. Rows left of a stabbing point before and after it gain the
    queries with a lower bound in (d, e]; rows right of it lose those with an upper bound in [d, e); only rows that
    the point passes need both bounds of the queries that begin after d or end before e. In the first two cases a
    search on either side skips to the next row, or bound, with a change.
    """
    order, sizes, firsts, row_keys = rows.order.order, rows.order.sizes, rows.order.keys_first, rows.order.keys
    stabs, points = view.stabs, view.points
    lows, highs, queries = view.lows, view.highs, view.queries
    groups, begins, ends = queries.groups, queries.lows, queries.highs
    lost = 1 - gained
    chunk, index = partition_begin(view, partition)
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + points.sizes[chunk]):
            group = i64(points.slots[at])
            if stabs.partitions[group] != partition:
                return
            # The point parts the rows: up to still_left, those that it passes, from once_left on.
            bound, below = limit(kind, side, high, stabs.points[group], i64(stabs.signs[group]))
            still_left = rank(order, sizes, firsts, row_keys, begin, end, bound, below)
            bound, below = limit(kind, side, low, stabs.points[group], i64(stabs.signs[group]))
            once_left = rank_behind(order, sizes, firsts, row_keys, still_left, end, bound, below)

            # Rows left of the point before and after: lower bounds that the difference passes.
            row = begin
            if stabs.lowest[group] != SMALLEST:
                bound, below = limit(kind, side, high, stabs.lowest[group], -1)
                row = rank_before(order, sizes, firsts, row_keys, begin, still_left, bound, below)
            while row < still_left:
                stored = entry(order, row)
                d, d_rest = gap(kind, side, low, row_keys[stored])
                e, e_rest = gap(kind, side, high, row_keys[stored])
                id = rows.ids[rows.order.slots[stored]]
                place, first = first_bound(lows, groups, begins, group, d)
                if place < 0 or groups[lows.slots[place * CHUNK + first]] != group:
                    break
                nearest = begins[lows.slots[place * CHUNK + first]]
                # The next lower bound is passed by this row, or the next row that passes it is far.
                if nearest <= e:
                    gain(view, place, first, group, d, d_rest, e, e_rest, id, gained, changed, counts)
                    row = behind(order, sizes, row)
                else:
                    bound, below = limit(kind, side, high, nearest, -1)
                    row = rank_behind(order, sizes, firsts, row_keys, row, end, bound, below)

            # Rows that the point passes: both bounds of a query count.
            row = still_left
            while row < once_left:
                stored = entry(order, row)
                d, d_rest = gap(kind, side, low, row_keys[stored])
                e, e_rest = gap(kind, side, high, row_keys[stored])
                id = rows.ids[rows.order.slots[stored]]
                swap(view, group, d, d_rest, e, e_rest, id, gained, changed, counts)
                row = behind(order, sizes, row)

            # Rows right of the point before and after, from the last one down: upper bounds that are passed.
            row = end
            if ~stabs.highest[group] != LARGEST:
                bound, below = limit(kind, side, low, ~stabs.highest[group], 0)
                row = rank_behind(order, sizes, firsts, row_keys, once_left, end, bound, below)
            while row > once_left:
                row = before(order, sizes, row)
                stored = entry(order, row)
                d, d_rest = gap(kind, side, low, row_keys[stored])
                e, e_rest = gap(kind, side, high, row_keys[stored])
                id = rows.ids[rows.order.slots[stored]]
                place, first = first_bound(highs, groups, ends, group, ~e)
                if place < 0 or groups[highs.slots[place * CHUNK + first]] != group:
                    break
                nearest = ~ends[highs.slots[place * CHUNK + first]]
                # Likewise: this row passes the next upper bound, or the search goes to one that does.
                if nearest >= d:
                    lose(view, place, first, group, d, d_rest, e, e_rest, id, lost, changed, counts)
                else:
                    bound, below = limit(kind, side, low, nearest, 0)
                    row = rank_before(order, sizes, firsts, row_keys, begin, row, bound, below)
        chunk = i64(points.nexts[chunk])
        index = i64(0)


@kernel
def emit(changed: Int64s, counts: Int64s, which: int, row: int, query: int) -> None:
    """Append one pair, or count it if there is no room."""
    count = counts[which]
    if count < changed.shape[2]:
        changed[which, 0, count] = row
        changed[which, 1, count] = query
    counts[which] = count + 1


@kernel
def list_place(ordered: Ordered, at: int, index: int) -> Any:
    """The chunk and index of an entry that `find` found; behind a chunk is the begin of the next."""
    chunk = i64(ordered.order[at])
    if index == ordered.sizes[chunk]:
        return i64(ordered.nexts[chunk]), i64(0)
    return chunk, index


@kernel
def first_bound(ordered: Ordered, groups: Int32s, keys: Int64s, group: int, key: int) -> Any:
    """The chunk and index of the first entry of a list at or after (group, key); chunk -1 if there is none."""
    order, sizes, slots = ordered.order, ordered.sizes, ordered.slots
    majors, firsts, chunks = ordered.majors, ordered.keys_first, ordered.state[0]
    if chunks == 0:
        return i64(-1), i64(0)
    low, high = i64(0), i64(chunks) - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if majors[middle] > group or (majors[middle] == group and firsts[middle] >= key):
            high = middle - 1
        else:
            low = middle
    chunk = i64(order[low])
    base, begin, end = chunk * CHUNK, i64(0), i64(sizes[chunk])
    while begin < end:
        middle = (begin + end) >> 1
        entry = slots[base + middle]
        if groups[entry] < group or (groups[entry] == group and keys[entry] < key):
            begin = middle + 1
        else:
            end = middle
    if begin == sizes[chunk]:
        return i64(ordered.nexts[chunk]), i64(0)
    return chunk, begin


@kernel
def gain(
    view: SSIView,
    chunk: int,
    index: int,
    group: int,
    d: int,
    d_rest: int,
    e: int,
    e_rest: int,
    row: int,
    which: int,
    changed: Int64s,
    counts: Int64s,
) -> None:
    """Append the queries whose lower bound is in (d, e], from a place of their list on."""
    queries = view.queries
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + view.lows.sizes[chunk]):
            slot = view.lows.slots[at]
            low, sign = queries.lows[slot], low_sign(i64(queries.marks[slot]))
            if low > e or queries.groups[slot] != group:
                return
            if reaches(low, sign, e, e_rest) and not reaches(low, sign, d, d_rest):
                emit(changed, counts, which, row, queries.ids[slot])
        chunk = i64(view.lows.nexts[chunk])
        index = i64(0)


@kernel
def lose(
    view: SSIView,
    chunk: int,
    index: int,
    group: int,
    d: int,
    d_rest: int,
    e: int,
    e_rest: int,
    row: int,
    which: int,
    changed: Int64s,
    counts: Int64s,
) -> None:
    """Append the queries whose upper bound is in [d, e), from a place of their list on."""
    queries = view.queries
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + view.highs.sizes[chunk]):
            slot = view.highs.slots[at]
            high, sign = ~queries.highs[slot], high_sign(i64(queries.marks[slot]))
            if high < d or queries.groups[slot] != group:
                return
            if reaches(d, d_rest, high, sign) and not reaches(e, e_rest, high, sign):
                emit(changed, counts, which, row, queries.ids[slot])
        chunk = i64(view.highs.nexts[chunk])
        index = i64(0)


@kernel
def swap(
    view: SSIView,
    group: int,
    d: int,
    d_rest: int,
    e: int,
    e_rest: int,
    row: int,
    gained: int,
    changed: Int64s,
    counts: Int64s,
) -> None:
    """Append what a row gains and loses whose difference passes the stabbing point.

    It gains what begins after d and ends at or after e, and loses what begins up to d and ends before e. The lists
    give either half of such a condition as a run: from d on or up to d, from e on or up to e.
    """
    begins, ends = view.queries.lows, view.queries.highs
    if ~view.stabs.highest[group] >= e:
        if is_shorter(view.lows, view.highs, view.queries.groups, begins, ends, group, d, ~e):
            run(view, view.lows, begins, group, d, False, d, d_rest, e, e_rest, True, row, gained, changed, counts)
        else:
            run(view, view.highs, ends, group, ~e, True, d, d_rest, e, e_rest, True, row, gained, changed, counts)
    if view.stabs.lowest[group] <= d:
        lost = 1 - gained
        if is_shorter(view.highs, view.lows, view.queries.groups, ends, begins, group, ~e, d):
            run(view, view.highs, ends, group, ~e, False, d, d_rest, e, e_rest, False, row, lost, changed, counts)
        else:
            run(view, view.lows, begins, group, d, True, d, d_rest, e, e_rest, False, row, lost, changed, counts)


@kernel
def is_shorter(
    one: Ordered, other: Ordered, groups: Int32s, keys: Int64s, other_keys: Int64s, group: int, key: int, other_key: int
) -> Any:
    """Whether a group has fewer entries from `key` on in one list than up to `other_key` in the other, by chunks."""
    at, index = find(one, groups, keys, group, key, -1)
    chunk, index = list_place(one, at, index)
    against = i64(other.homes[group])
    while True:
        if chunk < 0 or groups[one.slots[chunk * CHUNK]] > group:
            return True
        last = other.slots[against * CHUNK + other.sizes[against] - 1]
        if groups[last] != group or other_keys[last] > other_key:
            return False
        chunk, against = i64(one.nexts[chunk]), i64(other.nexts[against])
        if against < 0:
            return False


@kernel
def run(
    view: SSIView,
    ordered: Ordered,
    keys: Int64s,
    group: int,
    key: int,
    up_to: bool,
    d: int,
    d_rest: int,
    e: int,
    e_rest: int,
    later: bool,
    row: int,
    which: int,
    changed: Int64s,
    counts: Int64s,
) -> None:
    """Append those of a group's entries up to a key, or from it on, that begin and end later, or both earlier."""
    queries = view.queries
    if up_to:
        chunk, index = i64(ordered.homes[group]), first_of(ordered, queries.groups, group)
    else:
        at, index = find(ordered, queries.groups, keys, group, key, -1)
        chunk, index = list_place(ordered, at, index)
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + ordered.sizes[chunk]):
            slot = ordered.slots[at]
            mark = i64(queries.marks[slot])
            if queries.groups[slot] != group or (up_to and keys[slot] > key):
                return
            begins_later = not reaches(queries.lows[slot], low_sign(mark), d, d_rest)
            ends_later = reaches(e, e_rest, ~queries.highs[slot], high_sign(mark))
            if begins_later == later and ends_later == later:
                emit(changed, counts, which, row, queries.ids[slot])
        chunk = i64(ordered.nexts[chunk])
        index = i64(0)
