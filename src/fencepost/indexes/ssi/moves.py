"""The kernels that follow a moving row: which pairs one step changes, without a look at those that stay."""

from typing import Any

from fencepost.compiled import kernel, kernel_piece
from fencepost.indexes.arrays import Int32s, Int64s, i64
from fencepost.indexes.contracts.bands import high_sign, listed_sign, low_sign
from fencepost.indexes.ordinal import LARGEST, SMALLEST
from fencepost.indexes.ssi.distance import gap, limit, reaches
from fencepost.indexes.ssi.ordered import CHUNK, Ordered, first_of, seek
from fencepost.indexes.ssi.search import (
    Queries,
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


@kernel_piece
def append_changes(
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
    append_changes_in(kind, side, min(old, new), max(old, new), begin, end, rows, view, 0, gained, changed, counts)
    if group > 0:
        append_changes_in(
            kind, side, min(old, new), max(old, new), begin, end, rows, view, group, gained, changed, counts
        )


@kernel
def append_changes_in(
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
            bound, below = limit(kind, side, high, stabs.points[group], i64(stabs.signs[group]))
            still_left = rank(order, sizes, firsts, row_keys, begin, end, bound, below)
            bound, below = limit(kind, side, low, stabs.points[group], i64(stabs.signs[group]))
            once_left = rank_behind(order, sizes, firsts, row_keys, still_left, end, bound, below)

            # Rows left of the stabbing point before and after the step gain queries.
            row = begin
            if stabs.lowest[group] != SMALLEST:
                bound, below = limit(kind, side, high, stabs.lowest[group], -1)
                row = rank_before(order, sizes, firsts, row_keys, begin, still_left, bound, below)
            while row < still_left:
                stored = entry(order, row)
                d, d_rest = gap(kind, side, low, row_keys[stored])
                e, e_rest = gap(kind, side, high, row_keys[stored])
                id = rows.ids[rows.order.slots[stored]]
                place, first = seek(lows, groups, begins, group, d)
                if place < 0 or groups[lows.slots[place * CHUNK + first]] != group:
                    break
                nearest = begins[lows.slots[place * CHUNK + first]]
                if nearest <= e:
                    append_passed(
                        queries,
                        lows,
                        begins,
                        False,
                        place,
                        first,
                        group,
                        d,
                        d_rest,
                        e,
                        e_rest,
                        id,
                        gained,
                        changed,
                        counts,
                    )
                    row = behind(order, sizes, row)
                else:
                    bound, below = limit(kind, side, high, nearest, -1)
                    row = rank_behind(order, sizes, firsts, row_keys, row, end, bound, below)

            # Rows that the point passes gain some queries and lose others.
            row = still_left
            while row < once_left:
                stored = entry(order, row)
                d, d_rest = gap(kind, side, low, row_keys[stored])
                e, e_rest = gap(kind, side, high, row_keys[stored])
                id = rows.ids[rows.order.slots[stored]]
                append_swapped(view, group, d, d_rest, e, e_rest, id, gained, changed, counts)
                row = behind(order, sizes, row)

            # Rows right of it before and after lose queries.
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
                place, first = seek(highs, groups, ends, group, ~e)
                if place < 0 or groups[highs.slots[place * CHUNK + first]] != group:
                    break
                nearest = ~ends[highs.slots[place * CHUNK + first]]
                if nearest >= d:
                    append_passed(
                        queries,
                        highs,
                        ends,
                        True,
                        place,
                        first,
                        group,
                        ~e,
                        -e_rest,
                        ~d,
                        -d_rest,
                        id,
                        lost,
                        changed,
                        counts,
                    )
                else:
                    bound, below = limit(kind, side, low, nearest, 0)
                    row = rank_before(order, sizes, firsts, row_keys, begin, row, bound, below)
        chunk = i64(points.nexts[chunk])
        index = i64(0)


@kernel
def append_pair(changed: Int64s, counts: Int64s, which: int, row: int, query: int) -> None:
    """Append one pair, or count it if there is no room."""
    count = counts[which]
    if count < changed.shape[2]:
        changed[which, 0, count] = row
        changed[which, 1, count] = query
    counts[which] = count + 1


@kernel_piece
def append_passed(
    queries: Queries,
    ordered: Ordered,
    bounds: Int64s,
    upper: bool,
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
    """Append the queries whose bound in one of their lists is in (d, e], from a place of the list on."""
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + ordered.sizes[chunk]):
            slot = ordered.slots[at]
            bound, sign = bounds[slot], listed_sign(i64(queries.marks[slot]), upper)
            if bound > e or queries.groups[slot] != group:
                return
            if reaches(bound, sign, e, e_rest) and not reaches(bound, sign, d, d_rest):
                append_pair(changed, counts, which, row, queries.ids[slot])
        chunk = i64(ordered.nexts[chunk])
        index = i64(0)


@kernel
def append_swapped(
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
            append_run(
                view, view.lows, begins, group, d, False, d, d_rest, e, e_rest, True, row, gained, changed, counts
            )
        else:
            append_run(
                view, view.highs, ends, group, ~e, True, d, d_rest, e, e_rest, True, row, gained, changed, counts
            )
    if view.stabs.lowest[group] <= d:
        lost = 1 - gained
        if is_shorter(view.highs, view.lows, view.queries.groups, ends, begins, group, ~e, d):
            append_run(
                view, view.highs, ends, group, ~e, False, d, d_rest, e, e_rest, False, row, lost, changed, counts
            )
        else:
            append_run(view, view.lows, begins, group, d, True, d, d_rest, e, e_rest, False, row, lost, changed, counts)


@kernel
def is_shorter(
    one: Ordered, other: Ordered, groups: Int32s, keys: Int64s, other_keys: Int64s, group: int, key: int, other_key: int
) -> Any:
    """Whether a group has fewer entries from `key` on in one list than up to `other_key` in the other, by chunks."""
    chunk, _ = seek(one, groups, keys, group, key)
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
def append_run(
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
        chunk, index = seek(ordered, queries.groups, keys, group, key)
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + ordered.sizes[chunk]):
            slot = ordered.slots[at]
            mark = i64(queries.marks[slot])
            if queries.groups[slot] != group or (up_to and keys[slot] > key):
                return
            begins_later = not reaches(queries.lows[slot], low_sign(mark), d, d_rest)
            ends_later = reaches(e, e_rest, ~queries.highs[slot], high_sign(mark))
            if begins_later == later and ends_later == later:
                append_pair(changed, counts, which, row, queries.ids[slot])
        chunk = i64(ordered.nexts[chunk])
        index = i64(0)
