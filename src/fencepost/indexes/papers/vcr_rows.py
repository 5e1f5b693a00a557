"""The exact lists of VCR side by side: the constructs of one row and size that reach a cell are one run of ids.

The lists of a construct's neighbours lie wherever they were made, so a search of lists looks into a hash for each of
the constructs around a point: 225 for sides of up to 8. Here their ids lie in the order of (row, size, column) of the
constructs. Those of one row and size that contain a cell start in consecutive columns, up to the cell's own: a run. For
sides of up to 8 there are 60 of them, and where they begin and end stands in 40 lines of the cache.

A copy that searches work on: made from the lists once enough points were asked for since the last change.
"""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, UInt32s, i64
from fencepost.indexes.kernels.id_map import ABSENT
from fencepost.indexes.kernels.vectors import PADDING, prefetch
from fencepost.indexes.papers.construct_lists import Lists

_ALWAYS_SMALL, _PLACES_PER_ENTRY = 1 << 21, 4
"""Places that rows may have: that many, or so many for each entry; a larger domain is mostly empty."""
_REPAID = 128
"""Places and entries that are laid out in the time that one search of rows saves over one of lists."""


class Rows(NamedTuple):
    """Ids by row, size and column of their constructs.

    Invariant: the ids of the constructs of size s that start in row y, in columns ``[x, x')``, are
    ``ids[places[y, x, s] : places[y, x', s]]``.
    """

    ids: Int64s
    places: UInt32s


NO_ROWS = Rows(np.zeros(0, np.int64), np.zeros((0, 0, 0), np.uint32))


def are_repaid(asked: int, entries: int, rows: int, columns: int, sizes: int) -> bool:
    """Whether so many points are enough to lay all rows out, and the domain is small enough for it."""
    places = rows * (columns + 1) * sizes
    return places <= max(_ALWAYS_SMALL, _PLACES_PER_ENTRY * entries) and asked * _REPAID > places + entries


def lay_out_rows(lists: Lists, entries: int, rows: int, columns: int, sizes: int, overflow: int) -> Rows:
    """Copy the exact lists of all constructs; there are at most `entries` ids in them."""
    places = np.zeros((rows, columns + 1, sizes), np.uint32)
    ids = np.zeros(entries + PADDING, np.int64)
    count_rows(lists.sparse.slots, lists.heads, overflow, places)
    copy_rows(lists.sparse.slots, lists.heads, lists.ids, overflow, places, ids)
    return Rows(ids, places)


@kernel
def count_rows(slots: Int64s, heads: UInt32s, overflow: int, places: UInt32s) -> None:
    """Fill `places` from the lengths of the lists."""
    rows, columns, sizes = places.shape[0], places.shape[1] - 1, places.shape[2]
    # How many ids each construct has stands one column behind it.
    for at in range(len(slots)):
        key = slots[at, 0]
        if slots[at, 1] != ABSENT and key & 1 == 1 and key >> 1 != overflow:
            start, size = (key >> 1) // sizes, (key >> 1) % sizes
            places[start // columns, start % columns + 1, size] = heads[slots[at, 1], 1]
    # Sums along the columns, one size after the other, are where they begin.
    total = i64(0)
    for row in range(rows):
        for size in range(sizes):
            for column in range(columns + 1):
                total += i64(places[row, column, size])
                places[row, column, size] = total


@kernel
def copy_rows(slots: Int64s, heads: UInt32s, list_ids: Int64s, overflow: int, places: UInt32s, ids: Int64s) -> None:
    """Copy every list to its place."""
    columns, sizes = places.shape[1] - 1, places.shape[2]
    for at in range(len(slots)):
        key = slots[at, 0]
        if slots[at, 1] != ABSENT and key & 1 == 1 and key >> 1 != overflow:
            start, size = (key >> 1) // sizes, (key >> 1) % sizes
            place = i64(places[start // columns, start % columns, size])
            begin = i64(heads[slots[at, 1], 0])
            for i in range(i64(heads[slots[at, 1], 1])):
                ids[place + i] = list_ids[begin + i]


@kernel
def fetch_rows(places: UInt32s, x_bits: int, y_bits: int, x: int, y: int) -> None:
    """Ask for the places that `append_rows` reads for a cell."""
    columns, sizes = places.shape[1], places.shape[2]
    for row in range(max(0, y + 1 - (1 << y_bits)), y + 1):
        line = (row * columns + x + 1) * sizes
        prefetch(places, line)
        for level in range(x_bits + 1):
            prefetch(places, line - min(1 << level, x + 1) * sizes)


@kernel
def append_rows(places: UInt32s, x_bits: int, y_bits: int, x: int, y: int, runs: Int64s, n: int) -> Any:
    """Append (start, length) of the runs of all constructs that contain a cell; the new number of runs."""
    x_sizes = x_bits + 1
    for row in range(max(0, y + 1 - (1 << y_bits)), y + 1):
        lowest = 0
        while (1 << lowest) <= y - row:
            lowest += 1
        for y_level in range(lowest, y_bits + 1):
            for x_level in range(x_sizes):
                size = y_level * x_sizes + x_level
                begin = i64(places[row, max(0, x + 1 - (1 << x_level)), size])
                length = i64(places[row, x + 1, size]) - begin
                runs[n, 0] = begin
                runs[n, 1] = length
                n += length > 0
    return n
