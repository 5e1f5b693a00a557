"""The kernels that keep an SSI's stabbing partition while queries come and go."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, i64
from fencepost.indexes.contracts.bands import high_sign, low_sign
from fencepost.indexes.kernels.id_map import ABSENT
from fencepost.indexes.ordinal import LARGEST, SMALLEST
from fencepost.indexes.ssi.distance import RIGHT, encoded, reaches
from fencepost.indexes.ssi.members import Int32s, Members, admit_one, evict_one, find_slot
from fencepost.indexes.ssi.ordered import CHUNK, add, discard, find, first_of, has_room
from fencepost.indexes.ssi.search import Queries, RowList, SSIView, Stabs, partition_begin

WITNESS = 16


class Partitions(NamedTuple):
    """Per partition: its stabbing groups, the witnesses among its queries, its queries."""

    groups: Int32s
    witnesses: Int32s
    queries: Int32s


@kernel
def tally(counts: Int32s, numbers: Int64s, by: int) -> None:
    """Add to the count of each number."""
    for number in numbers:
        counts[number] += by


@kernel
def release(counts: Int32s, groups: Members, numbers: Int64s) -> None:
    """Count one use less of each number that is none of -1, and forget the groups that are left without."""
    for number in numbers:
        if number >= 0:
            counts[number] -= 1
            if number > 0 and counts[number] == 0:
                evict_one(groups, groups.ids[number - 1])


@kernel
def exceeds(partitions: Partitions, partition: int, excess: float, slack: int) -> Any:
    """Whether a partition may have over (1 + excess) tau + slack groups: witnesses are disjoint, so tau >= them."""
    return partitions.groups[partition] > (1 + excess) * max(1, i64(partitions.witnesses[partition])) + slack


@kernel
def new_group(view: SSIView, partitions: Partitions, partition: int, point: int, sign: int) -> Any:
    """A group without queries."""
    stabs = view.stabs
    if stabs.state[1]:
        group = stabs.state[1] - 1
        stabs.state[1] = i64(stabs.partitions[group])
    else:
        group = stabs.state[0]
        stabs.state[0] += 1
    stabs.points[group] = point
    stabs.signs[group] = sign
    stabs.partitions[group] = partition
    stabs.counts[group] = 0
    partitions.groups[partition] += 1
    add(view.points, stabs.partitions, stabs.points, group)
    return group


@kernel
def join(view: SSIView, partitions: Partitions, slot: int, group: int) -> None:
    """Put a query into a group."""
    queries, stabs = view.queries, view.stabs
    queries.groups[slot] = group
    add(view.lows, queries.groups, queries.lows, slot)
    add(view.highs, queries.groups, queries.highs, slot)
    if stabs.counts[group] == 0 or queries.lows[slot] < stabs.lowest[group]:
        stabs.lowest[group] = queries.lows[slot]
    if stabs.counts[group] == 0 or queries.highs[slot] < stabs.highest[group]:
        stabs.highest[group] = queries.highs[slot]
    stabs.counts[group] += 1
    partitions.queries[stabs.partitions[group]] += 1


@kernel
def leave(view: SSIView, partitions: Partitions, slot: int) -> None:
    """Take a query out of its group; an empty group is dropped."""
    queries, stabs = view.queries, view.stabs
    group = i64(queries.groups[slot])
    partition = i64(stabs.partitions[group])
    discard(view.lows, queries.groups, queries.lows, slot)
    discard(view.highs, queries.groups, queries.highs, slot)
    partitions.queries[partition] -= 1
    stabs.counts[group] -= 1
    if queries.marks[slot] & WITNESS:
        queries.marks[slot] &= WITNESS - 1
        partitions.witnesses[partition] -= 1
    if stabs.counts[group] == 0:
        discard(view.points, stabs.partitions, stabs.points, group)
        partitions.groups[partition] -= 1
        stabs.partitions[group] = stabs.state[1]
        stabs.state[1] = group + 1
        return
    low = i64(view.lows.homes[group]) * CHUNK + first_of(view.lows, queries.groups, group)
    high = i64(view.highs.homes[group]) * CHUNK + first_of(view.highs, queries.groups, group)
    stabs.lowest[group] = queries.lows[view.lows.slots[low]]
    stabs.highest[group] = queries.highs[view.highs.slots[high]]


@kernel
def nearest_group(view: SSIView, partition: int, slot: int) -> Any:
    """The group of a partition whose point is the smallest in or above a query; -1 if there is none."""
    queries, stabs, points = view.queries, view.stabs, view.points
    low, sign = queries.lows[slot], low_sign(i64(queries.marks[slot]))
    if points.state[0] == 0:
        return i64(-1)
    at, index = find(points, stabs.partitions, stabs.points, partition, low, -1)
    chunk = i64(points.order[at])
    while chunk >= 0:
        for i in range(chunk * CHUNK + index, chunk * CHUNK + points.sizes[chunk]):
            group = i64(points.slots[i])
            if stabs.partitions[group] != partition:
                return i64(-1)
            if reaches(low, sign, stabs.points[group], i64(stabs.signs[group])):
                return group
        chunk = i64(points.nexts[chunk])
        index = i64(0)
    return i64(-1)


@kernel
def link_one(view: SSIView, partitions: Partitions, slot: int, partition: int) -> None:
    """Give a query to the nearest group, or to a new one whose point is its upper bound."""
    queries, stabs = view.queries, view.stabs
    group = nearest_group(view, partition, slot)
    high, sign = ~queries.highs[slot], high_sign(i64(queries.marks[slot]))
    if group < 0 or not reaches(stabs.points[group], i64(stabs.signs[group]), high, sign):
        group = new_group(view, partitions, partition, high, sign)
    join(view, partitions, slot, group)


@kernel
def link(
    view: SSIView, partitions: Partitions, start: int, slots: Int64s, numbers: Int64s, excess: float, slack: int
) -> Any:
    """Give queries, from the `start`-th on, to groups until room is short or a partition has too many; the next one."""
    stabs = view.stabs
    for i in range(start, len(slots)):
        spare = stabs.state[1] != 0 or stabs.state[0] < len(stabs.points)
        if not (spare and has_room(view.lows) and has_room(view.highs) and has_room(view.points)):
            return i
        link_one(view, partitions, slots[i], numbers[i])
        if exceeds(partitions, numbers[i], excess, slack):
            return i + 1
    return len(slots)


@kernel
def unlink(view: SSIView, partitions: Partitions, start: int, slots: Int64s, excess: float, slack: int) -> Any:
    """Take queries, from the `start`-th on, out of their groups until a partition has too many; the next query."""
    for i in range(start, len(slots)):
        partition = i64(view.stabs.partitions[view.queries.groups[slots[i]]])
        leave(view, partitions, slots[i])
        if exceeds(partitions, partition, excess, slack):
            return i + 1
    return len(slots)


@kernel
def collect(view: SSIView, partition: int, slots: Int64s) -> None:
    """The queries of a partition."""
    queries, stabs, points, lows = view.queries, view.stabs, view.points, view.lows
    chunk, index = partition_begin(view, partition)
    count = 0
    while chunk >= 0:
        for i in range(chunk * CHUNK + index, chunk * CHUNK + points.sizes[chunk]):
            group = i64(points.slots[i])
            if stabs.partitions[group] != partition:
                return
            home, first = i64(lows.homes[group]), first_of(lows, queries.groups, group)
            left = i64(stabs.counts[group])
            while left > 0:
                for at in range(home * CHUNK + first, home * CHUNK + min(first + left, i64(lows.sizes[home]))):
                    slots[count] = lows.slots[at]
                    count += 1
                    left -= 1
                home = i64(lows.nexts[home])
                first = i64(0)
        chunk = i64(points.nexts[chunk])
        index = i64(0)


@kernel
def greedy(queries: Queries, slots: Int64s, numbers: Int64s, labels: Int64s, witnesses: Int64s) -> Any:
    """The smallest partition of queries that ascend by (partition, lower bound): a label each, a witness per label.

    A group ends before the first query that begins after the smallest upper bound in it; the query with that bound,
    the witness, is then disjoint from all later ones. Its upper bound is the stabbing point. The number of labels.
    """
    count = 0
    end, end_sign = i64(0), i64(0)
    for i in range(len(slots)):
        slot = slots[i]
        mark = i64(queries.marks[slot])
        high, sign = ~queries.highs[slot], high_sign(mark)
        starts = i == 0 or numbers[i] != numbers[i - 1]
        if starts or not reaches(queries.lows[slot], low_sign(mark), end, end_sign):
            count += 1
            end, end_sign = high, sign
            witnesses[count - 1] = slot
        elif not reaches(end, end_sign, high, sign):
            end, end_sign = high, sign
            witnesses[count - 1] = slot
        labels[i] = count - 1
    return count


@kernel
def regroup(
    view: SSIView, partitions: Partitions, partition: int, slots: Int64s, labels: Int64s, witnesses: Int64s
) -> None:
    """Replace the groups of a partition by those of `greedy`, which are no more and find room where those were."""
    queries = view.queries
    for i in range(len(slots)):
        leave(view, partitions, slots[i])
    group = i64(-1)
    for i in range(len(slots)):
        if i == 0 or labels[i] != labels[i - 1]:
            witness = witnesses[labels[i]]
            mark = i64(queries.marks[witness])
            group = new_group(view, partitions, partition, ~queries.highs[witness], high_sign(mark))
            queries.marks[witness] |= WITNESS
            partitions.witnesses[partition] += 1
        join(view, partitions, slots[i], group)


@kernel
def lay_out(
    queries: Queries,
    stabs: Stabs,
    partitions: Partitions,
    slots: Int64s,
    numbers: Int64s,
    labels: Int64s,
    witnesses: Int64s,
    count: int,
) -> None:
    """Write the groups of `greedy` into empty tables; the lists are built from them."""
    for group in range(count):
        mark = i64(queries.marks[witnesses[group]])
        stabs.points[group] = ~queries.highs[witnesses[group]]
        stabs.signs[group] = high_sign(mark)
        stabs.counts[group] = 0
    for i in range(len(slots)):
        slot, group, partition = slots[i], labels[i], numbers[i]
        queries.groups[slot] = group
        queries.marks[slot] &= WITNESS - 1
        if stabs.counts[group] == 0:
            stabs.partitions[group] = partition
            stabs.lowest[group] = queries.lows[slot]
            stabs.highest[group] = queries.highs[slot]
            partitions.groups[partition] += 1
            partitions.witnesses[partition] += 1
        stabs.lowest[group] = min(stabs.lowest[group], queries.lows[slot])
        stabs.highest[group] = min(stabs.highest[group], queries.highs[slot])
        stabs.counts[group] += 1
        partitions.queries[partition] += 1
    for group in range(count):
        queries.marks[witnesses[group]] |= WITNESS
    stabs.state[0] = count
    stabs.state[1] = 0


# -- one row, one query: everything in one call ---------------------------------------------------------------


@kernel
def insert_row(members: Members, rows: RowList, side: int, id: int, value: float, number: int) -> Any:
    """Add a row of a float64 value; whether its id was new. The caller has made room."""
    slot = admit_one(members, id)
    if slot == ABSENT:
        return False
    rows.keys[slot] = ~encoded(value) if side == RIGHT else encoded(value)
    rows.groups[slot] = number
    add(rows.order, rows.groups, rows.keys, slot)
    return True


@kernel
def remove_row(members: Members, rows: RowList, id: int) -> Any:
    """Take a row out; the number of its group, or `ABSENT` if there is no such row."""
    slot = find_slot(members, id)
    if slot == ABSENT:
        return i64(ABSENT)
    discard(rows.order, rows.groups, rows.keys, slot)
    evict_one(members, id)
    return i64(rows.groups[slot])


@kernel
def insert_closed_query(
    members: Members, view: SSIView, partitions: Partitions, id: int, low: float, high: float, number: int
) -> Any:
    """Add a query of float64 bounds, both inside; whether its id was new. The caller has made room."""
    slot = admit_one(members, id)
    if slot == ABSENT:
        return False
    queries = view.queries
    queries.lows[slot] = i64(SMALLEST) if low == -np.inf else encoded(low)
    queries.highs[slot] = ~i64(LARGEST) if high == np.inf else ~encoded(high)
    queries.marks[slot] = (0 if low == -np.inf else 1) | (2 if high == np.inf else 1) << 2
    link_one(view, partitions, slot, number)
    return True


@kernel
def remove_one_query(members: Members, view: SSIView, partitions: Partitions, id: int) -> Any:
    """Take a query out; the number of its partition, or `ABSENT` if there is no such query."""
    slot = find_slot(members, id)
    if slot == ABSENT:
        return i64(ABSENT)
    partition = i64(view.stabs.partitions[view.queries.groups[slot]])
    leave(view, partitions, slot)
    evict_one(members, id)
    return partition
