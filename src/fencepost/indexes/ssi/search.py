"""The kernels that ask an SSI: Q1, Q2 and moves."""

from typing import Any, NamedTuple

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, i64
from fencepost.indexes.contracts.bands import high_sign, low_sign
from fencepost.indexes.kernels.vectors import count_above
from fencepost.indexes.ordinal import SMALLEST
from fencepost.indexes.ssi.distance import gap, limit, reaches
from fencepost.indexes.ssi.members import Int8s, Int32s
from fencepost.indexes.ssi.ordered import CHUNK, Ordered, find, first_of

_COMPARED = 32
"""So many keys are compared at once rather than searched."""
_NEAR = 4
"""So many places are looked at one by one before they are searched."""


class Queries(NamedTuple):
    """The columns of the queries: ids, lower bounds, complements of upper bounds, marks, stabbing groups."""

    ids: Int64s
    lows: Int64s
    highs: Int64s
    marks: UInt8s
    groups: Int32s


class Stabs(NamedTuple):
    """The stabbing groups: point and its sign, partition, number of queries, reach (lowest and complement of highest).

    `state` is [groups ever used, 1 + first free group or 0]; free groups are chained through `partitions`.
    """

    points: Int64s
    signs: Int8s
    partitions: Int32s
    counts: Int32s
    lowest: Int64s
    highest: Int64s
    state: Int64s


class RowList(NamedTuple):
    """The rows of one side: their ids, groups and keys by slot, and the slots in order."""

    ids: Int64s
    groups: Int32s
    keys: Int64s
    order: Ordered


class SSIView(NamedTuple):
    """The queries and their partition."""

    queries: Queries
    stabs: Stabs
    lows: Ordered
    highs: Ordered
    points: Ordered


# -- rows ---------------------------------------------------------------------------------------------------
# A place is `CHUNK` times a position in the directory plus an index in that chunk.


@kernel
def place_of(order: Ordered, at: int, index: int) -> Any:
    """A place as one number; behind a chunk is the begin of the next."""
    if at < order.state[0] and index == order.sizes[order.order[at]]:
        return (at + 1) * CHUNK
    return at * CHUNK + index


@kernel
def span(rows: RowList, group: int) -> Any:
    """The places of a group's rows: first, and one behind the last."""
    order = rows.order
    listed = order.state[0]
    if listed == 0:
        return i64(0), i64(0)
    last = i64(order.order[listed - 1])
    last_slot = order.slots[last * CHUNK + order.sizes[last] - 1]
    if order.majors[0] == group and rows.groups[last_slot] == group:
        return i64(0), listed * CHUNK
    at, index = find(order, rows.groups, rows.keys, group, i64(SMALLEST), -1)
    until, end = find(order, rows.groups, rows.keys, group + 1, i64(SMALLEST), -1)
    return place_of(order, at, index), place_of(order, until, end)


@kernel
def rank(
    order: Int32s, sizes: Int32s, firsts: Int64s, keys: Int64s, begin: int, end: int, key: int, below: bool
) -> Any:
    """The first place from begin to end, which is behind it, whose key is above `key` (or at it, if `below`)."""
    if below and key == SMALLEST:
        return begin
    key -= below
    low, high = begin // CHUNK, (end - 1) // CHUNK
    while high - low > _COMPARED:
        middle = (low + high + 1) >> 1
        if firsts[middle] > key:
            high = middle - 1
        else:
            low = middle
    low = high - count_above(firsts, low + 1, high - low, key)
    chunk = i64(order[low])
    first = i64(0)
    size = i64(sizes[chunk])
    if low == begin // CHUNK:
        first = begin % CHUNK
    stop = size
    if low == end // CHUNK:
        stop = end % CHUNK
    first = stop - count_above(keys, chunk * CHUNK + first, stop - first, key)
    if first == size:
        return (low + 1) * CHUNK
    return low * CHUNK + first


@kernel
def rank_before(
    order: Int32s, sizes: Int32s, firsts: Int64s, keys: Int64s, begin: int, place: int, key: int, below: bool
) -> Any:
    """The same up to a place that it is likely to be just in front of."""
    if below and key == SMALLEST:
        return begin
    most = key - below
    for _ in range(_NEAR):
        if place == begin:
            return place
        there = before(order, sizes, place)
        if keys[entry(order, there)] <= most:
            return place
        place = there
    if place == begin:
        return place
    return rank(order, sizes, firsts, keys, begin, place, key, below)


@kernel
def rank_behind(
    order: Int32s, sizes: Int32s, firsts: Int64s, keys: Int64s, place: int, end: int, key: int, below: bool
) -> Any:
    """The same from a place on that it is likely to be just behind of."""
    if below and key == SMALLEST:
        return place
    most = key - below
    for _ in range(_NEAR):
        if place == end or keys[entry(order, place)] > most:
            return place
        place = behind(order, sizes, place)
    if place == end:
        return place
    return rank(order, sizes, firsts, keys, place, end, key, below)


@kernel
def before(order: Int32s, sizes: Int32s, place: int) -> Any:
    """The place in front of a place."""
    if place % CHUNK:
        return place - 1
    at = place // CHUNK - 1
    return at * CHUNK + sizes[order[at]] - 1


@kernel
def behind(order: Int32s, sizes: Int32s, place: int) -> Any:
    """The place behind a place."""
    if place % CHUNK + 1 == sizes[order[place // CHUNK]]:
        return (place // CHUNK + 1) * CHUNK
    return place + 1


@kernel
def entry(order: Int32s, place: int) -> Any:
    """Where the entry at a place is stored."""
    return i64(order[place // CHUNK]) * CHUNK + place % CHUNK


# -- lists of a stabbing group ------------------------------------------------------------------------------


@kernel
def scan_lows(view: SSIView, group: int, difference: int, rest: int, out: Int64s, count: int) -> Any:
    """Append the queries of a group whose lower bound is at most a difference; the new count."""
    queries, lows = view.queries, view.lows
    chunk = i64(lows.homes[group])
    index = first_of(lows, queries.groups, group)
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + lows.sizes[chunk]):
            slot = lows.slots[at]
            low = queries.lows[slot]
            if low > difference or queries.groups[slot] != group:
                return count
            if low < difference or low_sign(i64(queries.marks[slot])) <= rest:
                if count < len(out):
                    out[count] = queries.ids[slot]
                count += 1
        chunk = i64(lows.nexts[chunk])
        index = i64(0)
    return count


@kernel
def scan_highs(
    view: SSIView, group: int, difference: int, rest: int, above: bool, low: int, low_rest: int, out: Int64s, count: int
) -> Any:
    """Append the queries of a group whose upper bound is at least a difference.

    If `above`, only those whose lower bound is above the difference (low, low_rest).
    """
    queries, highs = view.queries, view.highs
    chunk = i64(highs.homes[group])
    index = first_of(highs, queries.groups, group)
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + highs.sizes[chunk]):
            slot = highs.slots[at]
            high = ~queries.highs[slot]
            if high < difference or queries.groups[slot] != group:
                return count
            mark = i64(queries.marks[slot])
            ends_later = high > difference or high_sign(mark) >= rest
            if ends_later and not (above and reaches(queries.lows[slot], low_sign(mark), low, low_rest)):
                if count < len(out):
                    out[count] = queries.ids[slot]
                count += 1
        chunk = i64(highs.nexts[chunk])
        index = i64(0)
    return count


@kernel
def partition_begin(view: SSIView, partition: int) -> Any:
    """The chunk and index of a partition's first stabbing point; chunk -1 if it has none."""
    if partition >= len(view.points.homes) or view.points.homes[partition] < 0:
        return i64(-1), i64(0)
    return i64(view.points.homes[partition]), first_of(view.points, view.stabs.partitions, partition)


# -- Q2 -----------------------------------------------------------------------------------------------------


@kernel
def affected_by(
    kind: int,
    side: int,
    keys: Int64s,
    groups: Int64s,
    missing: Bools,
    rows: RowList,
    view: SSIView,
    offsets: Int64s,
    out: Int64s,
) -> Any:
    """Q2 for each key of a side; the number of ids, of which `out` has those it has room for."""
    count = i64(0)
    for probe in range(len(keys)):
        offsets[probe] = count
        if missing[probe] or groups[probe] < 0:
            continue
        begin, end = span(rows, groups[probe])
        if begin == end:
            continue
        count = affected_in(kind, side, keys[probe], begin, end, rows, view, 0, out, count)
        if groups[probe] > 0:
            count = affected_in(kind, side, keys[probe], begin, end, rows, view, groups[probe], out, count)
    offsets[len(keys)] = count
    return count


@kernel
def affected_in(
    kind: int,
    side: int,
    key: int,
    begin: int,
    end: int,
    rows: RowList,
    view: SSIView,
    partition: int,
    out: Int64s,
    count: int,
) -> Any:
    """Q2 among the queries of one partition: around each stabbing point only its two neighbours matter."""
    order, sizes, firsts, row_keys = rows.order.order, rows.order.sizes, rows.order.keys_first, rows.order.keys
    stabs, points = view.stabs, view.points
    chunk, index = partition_begin(view, partition)
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + points.sizes[chunk]):
            group = i64(points.slots[at])
            if stabs.partitions[group] != partition:
                return count
            bound, below = limit(kind, side, key, stabs.points[group], i64(stabs.signs[group]))
            place = rank(order, sizes, firsts, row_keys, begin, end, bound, below)
            has_low = place > begin
            low, low_rest = i64(0), i64(0)
            if has_low:
                low, low_rest = gap(kind, side, key, row_keys[entry(order, before(order, sizes, place))])
                if low >= stabs.lowest[group]:
                    count = scan_lows(view, group, low, low_rest, out, count)
            if place < end:
                high, high_rest = gap(kind, side, key, row_keys[entry(order, place)])
                if high <= ~stabs.highest[group]:
                    count = scan_highs(view, group, high, high_rest, has_low, low, low_rest, out, count)
        chunk = i64(points.nexts[chunk])
        index = i64(0)
    return count


# -- Q1 -----------------------------------------------------------------------------------------------------


@kernel
def pairs_of(
    kind: int,
    side: int,
    keys: Int64s,
    groups: Int64s,
    missing: Bools,
    rows: RowList,
    view: SSIView,
    offsets: Int64s,
    out_rows: Int64s,
    out_queries: Int64s,
) -> Any:
    """Q1 for each key of a side; the number of pairs, of which the columns have those they have room for."""
    count = i64(0)
    for probe in range(len(keys)):
        offsets[probe] = count
        if missing[probe] or groups[probe] < 0:
            continue
        begin, end = span(rows, groups[probe])
        if begin == end:
            continue
        count = pairs_in(kind, side, keys[probe], begin, end, rows, view, 0, out_rows, out_queries, count)
        if groups[probe] > 0:
            count = pairs_in(
                kind, side, keys[probe], begin, end, rows, view, groups[probe], out_rows, out_queries, count
            )
    offsets[len(keys)] = count
    return count


@kernel
def pairs_in(
    kind: int,
    side: int,
    key: int,
    begin: int,
    end: int,
    rows: RowList,
    view: SSIView,
    partition: int,
    out_rows: Int64s,
    out_queries: Int64s,
    count: int,
) -> Any:
    """Q1 among the queries of one partition: from each stabbing point outwards, as far as its group reaches."""
    order, sizes, firsts, row_keys = rows.order.order, rows.order.sizes, rows.order.keys_first, rows.order.keys
    stabs, points = view.stabs, view.points
    chunk, index = partition_begin(view, partition)
    while chunk >= 0:
        for at in range(chunk * CHUNK + index, chunk * CHUNK + points.sizes[chunk]):
            group = i64(points.slots[at])
            if stabs.partitions[group] != partition:
                return count
            bound, below = limit(kind, side, key, stabs.points[group], i64(stabs.signs[group]))
            place = rank(order, sizes, firsts, row_keys, begin, end, bound, below)
            # Rows left of the point, the nearest first: all queries of the group end behind them.
            row = place
            while row > begin:
                row = before(order, sizes, row)
                stored = entry(order, row)
                difference, rest = gap(kind, side, key, row_keys[stored])
                # No query of the group begins so early, and rows farther out are farther still.
                if difference < stabs.lowest[group]:
                    break
                found = scan_lows(view, group, difference, rest, out_queries, count)
                out_rows[count:found] = rows.ids[rows.order.slots[stored]]
                count = found
            # Rows right of it: all queries begin before them, and upper bounds decide.
            row = place
            while row < end:
                stored = entry(order, row)
                difference, rest = gap(kind, side, key, row_keys[stored])
                if difference > ~stabs.highest[group]:
                    break
                found = scan_highs(view, group, difference, rest, False, 0, 0, out_queries, count)
                out_rows[count:found] = rows.ids[rows.order.slots[stored]]
                count = found
                row = behind(order, sizes, row)
        chunk = i64(points.nexts[chunk])
        index = i64(0)
    return count
