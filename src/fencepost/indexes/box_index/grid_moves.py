"""What moves within the cells of a RunGrid enter and leave, found without the answers for their two ends.

What covers a cell cannot change there; sorted edges differ by the run between two ranks, corners and others by the
lanes that pass at one end only. Most small moves stay in a cell.
"""

from typing import Any

import numpy as np

from fencepost.compiled import allocating_kernel, kernel_piece
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, i64
from fencepost.indexes.box_index.grid_cells import (
    Blocks,
    corners_holding,
    fetch_cell,
    locate,
    others_holding,
    ranks_of,
)
from fencepost.indexes.box_index.grid_search import FETCHED_AHEAD, LOCATED_AHEAD, RING
from fencepost.indexes.box_index.run_grid import RunGrid, read_cell
from fencepost.indexes.kernels.lanes import LANES, compress_32
from fencepost.indexes.kernels.vectors import PADDING, bit_count, copy_run, prefetch

_NOWHERE = -1


@allocating_kernel
def search_moves_in_cells(
    grid: RunGrid,
    ranges: Int64s,
    before: Int64s,
    nowhere: Bools,
    after: Int64s,
    absent: Bools,
    first: int,
    offsets: Int64s,
    entered: UInt32s,
    left: UInt32s,
    apart: Bools,
) -> Any:
    """Write the slots of what each move within one cell enters and leaves; the row it stopped at for want of room.

    `nowhere` and `absent` mark starts and ends that are no points; `offsets` has a row for what is entered and one for
    what is left. `apart` is set for rows that are not answered: their ends lie in two cells, or one is no point.
    """
    extents, words = grid.blocks, grid.words
    blocks = Blocks(words, words.view(np.uint16), grid.boxes[2] != 0, ranges, np.empty(0, np.uint32))
    cells = np.empty(RING, np.int64)
    keys = np.empty((RING, 4), np.uint16)
    count = len(apart)
    a, b = offsets[0, first], offsets[1, first]
    for step in range(first, count + LOCATED_AHEAD):
        # Locate both ends of a later move, and ask for the block of a move in between.
        if step < count:
            ring = step % RING
            here, keys[ring, 0], keys[ring, 1] = locate(grid, before[step, 0], before[step, 1])
            there, keys[ring, 2], keys[ring, 3] = locate(grid, after[step, 0], after[step, 1])
            cells[ring] = _NOWHERE if here != there or nowhere[step] or absent[step] else here
            prefetch(extents, 2 * here)
        fetched = step - (LOCATED_AHEAD - FETCHED_AHEAD)
        if first <= fetched < count and cells[fetched % RING] != _NOWHERE:
            fetch_cell(extents, words, cells[fetched % RING])
        row = step - LOCATED_AHEAD
        if row < first:
            continue
        # Answer a move whose block is there, if both ends lie in its cell.
        ring = row % RING
        apart[row] = cells[ring] == _NOWHERE
        offsets[0, row + 1], offsets[1, row + 1] = a, b
        if apart[row]:
            continue
        start = i64(extents[cells[ring], 0])
        size = i64(extents[cells[ring], 1]) - start
        if a + size + PADDING > len(entered) or b + size + PADDING > len(left):
            return row
        if size == 0:
            continue
        cell = read_cell(words, blocks.halves, start)
        old_x, old_y, new_x, new_y = keys[ring, 0], keys[ring, 1], keys[ring, 2], keys[ring, 3]
        old_ranks = ranks_of(blocks, cell, old_x, old_y, before[row, 0], before[row, 1])
        new_ranks = ranks_of(blocks, cell, new_x, new_y, after[row, 0], after[row, 1])
        lefts, tops = cell.slots + cell.covers + cell.right_end, cell.slots + cell.covers + cell.left_end
        places = (cell.slots, lefts, tops, cell.slots + cell.covers + cell.top_end)
        for kind in range(4):
            # Who passes a left or bottom edge upwards enters, who passes a right or top one leaves.
            passed = new_ranks[kind] - old_ranks[kind]
            at = places[kind] + min(old_ranks[kind], new_ranks[kind])
            if passed != 0:
                if (passed > 0) == (kind % 2 == 1):
                    copy_run(entered, a, words, at, abs(passed))
                    a += abs(passed)
                else:
                    copy_run(left, b, words, at, abs(passed))
                    b += abs(passed)
        # Corners and others are compared at both ends, 32 at a time.
        slots = cell.slots + cell.covers + cell.edges
        for chunk in range(0, cell.corners, LANES):
            was = corners_holding(blocks, cell, chunk, slots + chunk, old_x, old_y, before, row)
            now = corners_holding(blocks, cell, chunk, slots + chunk, new_x, new_y, after, row)
            if was != now:
                a, b = write_changed(words, slots + chunk, was, now, entered, a, left, b)
        slots += cell.corners
        for chunk in range(0, cell.others, LANES):
            was = others_holding(blocks, cell, chunk, slots + chunk, old_x, old_y, before, row)
            now = others_holding(blocks, cell, chunk, slots + chunk, new_x, new_y, after, row)
            if was != now:
                a, b = write_changed(words, slots + chunk, was, now, entered, a, left, b)
        offsets[0, row + 1], offsets[1, row + 1] = a, b
    return count


@kernel_piece
def write_changed(
    words: UInt32s, slots: int, was: int, now: int, entered: UInt32s, a: int, left: UInt32s, b: int
) -> tuple[int, int]:
    """Write those of 32 slots that hold only now, and those that only did before; where both end."""
    compress_32(entered, a, words, slots, now & ~was, 0)
    compress_32(left, b, words, slots, was & ~now, 0)
    return a + bit_count(now & ~was), b + bit_count(was & ~now)
