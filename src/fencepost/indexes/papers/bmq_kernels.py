"""The arrays of BMQ and the kernels that link, split, merge and walk its lists of regions."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Bools, Float64s, Int64s, i64
from fencepost.indexes.contracts.registry import holds
from fencepost.indexes.kernels import id_map
from fencepost.indexes.kernels.id_map import IdMap

PLUS, MINUS = 0, 1
_NEXT, _PREVIOUS = 0, 1
_NONE = -1
_DELTAS, _NODES, _REPORTED, _TICK = 0, 1, 2, 3


class Queries(NamedTuple):
    """The query table, a slot each: id, (low, high) per axis, and its links in a +DQ and a -DQ per axis."""

    ids: Int64s
    bounds: Float64s
    links: Int64s


class Regions(NamedTuple):
    """The RS lists, a column per axis: nodes by number, and the order that locates them.

    `right` and `left` are -1 beyond the ends; `heads` the first query of +DQ and -DQ, or -1. The nodes of axis k by
    lower bound are ``order_nodes[order_first[k]:order_first[k + 1]]``.
    """

    lows: Float64s
    left: Int64s
    right: Int64s
    heads: Int64s
    sizes: Int64s
    """How many queries both sets of a node have."""
    used: Int64s
    order_lows: Float64s
    order_nodes: Int64s
    order_first: Int64s


class Rows(NamedTuple):
    """Moves: the object's slot, where it was and is, and which rows are first or no observations."""

    slots: Int64s
    before: Float64s
    after: Float64s
    unplaced: Bools
    missing: Bools


class Work(NamedTuple):
    """Tick marks of queries, room for the touched ones, and counters: deltas, nodes, reported, the tick."""

    ticks: Int64s
    touched: Int64s
    counters: Int64s


@allocating_kernel
def find_all(places: IdMap, ids: Int64s) -> Any:
    """The place of each id, or -1."""
    found = np.empty(len(ids), np.int64)
    for i in range(len(ids)):
        found[i] = id_map.find(places, ids[i])
    return found


@kernel
def located(regions: Regions, axis: int, value: float) -> Any:
    """The node of an axis that contains a value."""
    a, b = regions.order_first[axis], regions.order_first[axis + 1] - 1
    while a < b:
        middle = (a + b + 1) >> 1
        if regions.order_lows[middle] <= value:
            a = middle
        else:
            b = middle - 1
    return regions.order_nodes[a]


@kernel
def link_after(regions: Regions, axis: int, nodes: Int64s, new: Int64s) -> None:
    """Link nodes that are new in an order, at ascending positions, behind their left neighbours."""
    for i in range(len(new)):
        node, left = nodes[new[i]], nodes[new[i] - 1]
        right = regions.right[left, axis]
        regions.left[node, axis] = left
        regions.right[node, axis] = right
        regions.right[left, axis] = node
        if right != _NONE:
            regions.left[right, axis] = node


@kernel
def unlink_empty(regions: Regions, axis: int, nodes: Int64s, kept: Bools) -> None:
    """Unlink every node but the first that has no query, and mark it as not kept."""
    for i in range(1, len(nodes)):
        node = nodes[i]
        if regions.sizes[node, axis] == 0:
            left, right = regions.left[node, axis], regions.right[node, axis]
            regions.right[left, axis] = right
            if right != _NONE:
                regions.left[right, axis] = left
            kept[i] = False


@kernel
def attach(regions: Regions, queries: Queries, slots: Int64s) -> None:
    """Put queries into the delta sets at their bounds, which begin nodes."""
    for i in range(len(slots)):
        query = slots[i]
        for axis in range(queries.bounds.shape[1]):
            for side in range(2):
                bound = queries.bounds[query, axis, side]
                if side == MINUS and bound == np.inf:
                    continue
                node = located(regions, axis, bound)
                head = regions.heads[node, axis, side]
                queries.links[query, axis, side, _NEXT] = head
                queries.links[query, axis, side, _PREVIOUS] = _NONE
                if head != _NONE:
                    queries.links[head, axis, side, _PREVIOUS] = query
                regions.heads[node, axis, side] = query
                regions.sizes[node, axis] += 1


@kernel
def detach(regions: Regions, queries: Queries, slots: Int64s) -> None:
    """Take queries out of their delta sets."""
    for i in range(len(slots)):
        query = slots[i]
        for axis in range(queries.bounds.shape[1]):
            for side in range(2):
                bound = queries.bounds[query, axis, side]
                if side == MINUS and bound == np.inf:
                    continue
                node = located(regions, axis, bound)
                following = queries.links[query, axis, side, _NEXT]
                previous = queries.links[query, axis, side, _PREVIOUS]
                if previous != _NONE:
                    queries.links[previous, axis, side, _NEXT] = following
                else:
                    regions.heads[node, axis, side] = following
                if following != _NONE:
                    queries.links[following, axis, side, _PREVIOUS] = previous
                regions.sizes[node, axis] -= 1


@kernel
def collect(regions: Regions, queries: Queries, work: Work, axis: int, node: int, side: int, count: int) -> Any:
    """Add the queries of one delta set to those touched, each once; how many there are now."""
    tick = work.counters[_TICK]
    query = regions.heads[node, axis, side]
    while query != _NONE:
        work.counters[_DELTAS] += 1
        if work.ticks[query] != tick:
            work.ticks[query] = tick
            work.touched[count] = query
            count += 1
        query = queries.links[query, axis, side, _NEXT]
    return count


@allocating_kernel
def walk(
    regions: Regions,
    queries: Queries,
    rows: Rows,
    nodes: Int64s,
    versions: Int64s,
    version: int,
    work: Work,
    first: int,
    offsets: Int64s,
    entered: Int64s,
    left: Int64s,
    crossed: Int64s,
) -> Any:
    """Walk every row's move and write what it does; the row it stopped at for want of room.

    On several axes `crossed` has every touched query that holds at neither end.
    """
    dimensions = rows.after.shape[1]
    here = np.empty(dimensions, np.int64)
    a, b, c = offsets[0, first], offsets[1, first], offsets[2, first]
    room = min(len(entered) - a, len(left) - b, len(crossed) - c)
    for row in range(first, len(rows.slots)):
        count = i64(0)
        if not rows.missing[row]:
            slot = rows.slots[row]
            work.counters[_TICK] += 1
            deltas, visited = work.counters[_DELTAS], work.counters[_NODES]
            # From the region of the last position to that of the new one, axis by axis. On the way, queries that
            # begin or end at a border are collected.
            for axis in range(dimensions):
                value = rows.after[row, axis]
                if rows.unplaced[row]:
                    here[axis] = located(regions, axis, value)
                    # A first position: all queries that begin before it on the first axis.
                    if axis > 0:
                        continue
                    node = regions.order_nodes[0]
                    count = collect(regions, queries, work, axis, node, PLUS, count)
                    while node != here[axis]:
                        node = regions.right[node, axis]
                        work.counters[_NODES] += 1
                        count = collect(regions, queries, work, axis, node, PLUS, count)
                    continue
                node = nodes[slot, axis]
                if versions[slot] != version:
                    node = located(regions, axis, rows.before[row, axis])
                # Downwards, then upwards: only one of the two loops turns.
                while value < regions.lows[node, axis]:
                    work.counters[_NODES] += 1
                    count = collect(regions, queries, work, axis, node, MINUS, count)
                    count = collect(regions, queries, work, axis, node, PLUS, count)
                    node = regions.left[node, axis]
                following = regions.right[node, axis]
                while following != _NONE and value >= regions.lows[following, axis]:
                    node = following
                    work.counters[_NODES] += 1
                    count = collect(regions, queries, work, axis, node, PLUS, count)
                    count = collect(regions, queries, work, axis, node, MINUS, count)
                    following = regions.right[node, axis]
                here[axis] = node
            # The whole row is walked again, later, where its answer has no room.
            if count > room:
                work.counters[_DELTAS] = deltas
                work.counters[_NODES] = visited
                return row
            room -= count
            for axis in range(dimensions):
                nodes[slot, axis] = here[axis]
            versions[slot] = version
            # What was touched is compared at both ends.
            for i in range(count):
                query = work.touched[i]
                now = True
                was = not rows.unplaced[row]
                for axis in range(dimensions):
                    low, high = queries.bounds[query, axis, 0], queries.bounds[query, axis, 1]
                    now = now and holds(low, high, False, rows.after[row, axis])
                    was = was and holds(low, high, False, rows.before[row, axis])
                if now and not was:
                    entered[a] = queries.ids[query]
                    a += 1
                elif was and not now:
                    left[b] = queries.ids[query]
                    b += 1
                elif not now and not rows.unplaced[row]:
                    crossed[c] = queries.ids[query]
                    c += 1
        offsets[0, row + 1] = a
        offsets[1, row + 1] = b
        offsets[2, row + 1] = c
    work.counters[_REPORTED] += a + b
    return len(rows.slots)
