"""How a run grid answers: find the cell of each point, then copy its runs and compare the rest."""

from typing import Any

import numpy as np

from fencepost.compiled import allocating_kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, i64
from fencepost.indexes.box_index.grid_cells import (
    Blocks,
    corners_holding,
    fetch_cell,
    locate,
    others_holding,
    ranks_of,
)
from fencepost.indexes.box_index.run_grid import RunGrid, read_cell
from fencepost.indexes.kernels.lanes import LANES, compress_32
from fencepost.indexes.kernels.vectors import PADDING, bit_count, prefetch, widen_run

RING = 64
LOCATED_AHEAD, FETCHED_AHEAD = 24, 12


@allocating_kernel
def search_grid(
    grid: RunGrid,
    ranges: Int64s,
    groups: UInt32s,
    points: Int64s,
    absent: Bools,
    first: int,
    offsets: Int64s,
    out: UInt32s | Int64s,
    shift: int,
) -> Any:
    """Write the slots of all boxes that hold each point, plus `shift`; the row it stopped at for want of room.

    While one point is answered, the block of a later one and the start of a still later one are on their way.
    """
    extents, words = grid.blocks, grid.words
    blocks = Blocks(words, words.view(np.uint16), grid.boxes[2] != 0, ranges, groups)
    cells = np.empty(RING, np.int64)
    x_keys, y_keys = np.empty(RING, np.uint16), np.empty(RING, np.uint16)
    count = len(absent)
    at = offsets[first]
    for step in range(first, count + LOCATED_AHEAD):
        # Locate a later point, and ask for the block of a point in between.
        if step < count:
            ring = step % RING
            cells[ring], x_keys[ring], y_keys[ring] = locate(grid, points[step, 0], points[step, 1])
            prefetch(extents, 2 * cells[ring])
        fetched = step - (LOCATED_AHEAD - FETCHED_AHEAD)
        if first <= fetched < count:
            fetch_cell(extents, words, cells[fetched % RING])
        row = step - LOCATED_AHEAD
        if row < first:
            continue
        # Answer a point whose block is there: first the two runs of what covers the cell or has an edge in it.
        ring = row % RING
        start = i64(extents[cells[ring], 0])
        size = i64(extents[cells[ring], 1]) - start
        if at + size + PADDING > len(out):
            return row
        if size == 0 or absent[row]:
            offsets[row + 1] = at
            continue
        x_key, y_key = x_keys[ring], y_keys[ring]
        cell = read_cell(words, blocks.halves, start)
        ended_right, begun_left, ended_top, begun_bottom = ranks_of(
            blocks, cell, x_key, y_key, points[row, 0], points[row, 1]
        )
        run = cell.right_end - ended_right + cell.covers + begun_left
        widen_run(out, at, words, cell.slots + ended_right, run, shift)
        at += run
        run = cell.top_end - cell.left_end - ended_top + begun_bottom
        widen_run(out, at, words, cell.slots + cell.covers + cell.left_end + ended_top, run, shift)
        at += run
        # Then corners and others are compared, 32 at a time.
        slots = cell.slots + cell.covers + cell.edges
        for chunk in range(0, cell.corners, LANES):
            within = corners_holding(blocks, cell, chunk, slots + chunk, x_key, y_key, points, row)
            compress_32(out, at, words, slots + chunk, within, shift)
            at += bit_count(within)
        slots += cell.corners
        for chunk in range(0, cell.others, LANES):
            within = others_holding(blocks, cell, chunk, slots + chunk, x_key, y_key, points, row)
            compress_32(out, at, words, slots + chunk, within, shift)
            at += bit_count(within)
        offsets[row + 1] = at
    return count
