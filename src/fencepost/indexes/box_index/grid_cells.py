"""What lies in one cell of a RunGrid, and which of its boxes hold a point there."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel_piece
from fencepost.indexes.arrays import Int64s, UInt16s, UInt32s, i64, u64
from fencepost.indexes.box_index.rows import decide
from fencepost.indexes.box_index.run_grid import Cell, RunGrid, cell_of, root_of
from fencepost.indexes.kernels.lanes import LANES, between_32, compare_32, first_lanes
from fencepost.indexes.kernels.vectors import bit_count, prefetch
from fencepost.indexes.slice_list.window_kernels import decode

_FETCHED_WORDS = 256


class Blocks(NamedTuple):
    """What cells are read from: the blocks of a grid, whole and by halves of words, and the exact boxes by slot."""

    words: UInt32s
    halves: UInt16s
    whole: bool
    """Every whole number has a key of its own, so that equal keys leave nothing to decide."""
    ranges: Int64s
    groups: UInt32s
    """The group number of every slot; empty where groups do not matter."""


@kernel_piece
def locate(grid: RunGrid, x_ordinal: int, y_ordinal: int) -> tuple[int, Any, Any]:
    """The cell of a point, and its keys there."""
    frame, windows, roots = grid.frame, grid.windows, grid.boxes[1]
    x, y = decode(x_ordinal, grid.is_float[0]), decode(y_ordinal, grid.is_float[1])
    root = root_of(x, frame[0], frame[2], roots) * roots + root_of(y, frame[1], frame[3], roots)
    side = i64(grid.sides[root])
    i, x_key = cell_of(x, windows[root, 0], windows[root, 2], side)
    j, y_key = cell_of(y, windows[root, 1], windows[root, 3], side)
    return i64(grid.first[root]) + i * side + j, np.uint16(x_key), np.uint16(y_key)


@kernel_piece
def fetch_cell(extents: UInt32s, words: UInt32s, cell: int) -> None:
    """Ask for the block of a cell."""
    begin, end = i64(extents[cell, 0]), i64(extents[cell, 1])
    for word in range(begin, min(end, begin + _FETCHED_WORDS), 16):
        prefetch(words, word)


@kernel_piece
def ranks_of(blocks: Blocks, cell: Cell, x_key: Any, y_key: Any, x: int, y: int) -> tuple[int, int, int, int]:
    """How many right edges of a cell end before a point, left ones have begun, top ones end, bottom ones have begun."""
    words, halves, ranges, whole = blocks.words, blocks.halves, blocks.ranges, blocks.whole
    ended_right, begun_left, ended_top, begun_bottom = 0, 0, 0, 0
    equal = u64(0)
    for chunk in range(0, cell.edges, LANES):
        below_x, above_x = compare_32(halves, cell.edge_keys + chunk, x_key)
        below_y, above_y = compare_32(halves, cell.edge_keys + chunk, y_key)
        rights, lefts = first_lanes(cell.right_end - chunk), first_lanes(cell.left_end - chunk)
        tops, edges = first_lanes(cell.top_end - chunk), first_lanes(cell.edges - chunk)
        ended_right += bit_count(below_x & rights)
        begun_left += bit_count((~above_x if whole else below_x) & lefts & ~rights)
        ended_top += bit_count(below_y & tops & ~lefts)
        begun_bottom += bit_count((~above_y if whole else below_y) & edges & ~tops)
        equal |= (~(below_x | above_x) & lefts) | (~(below_y | above_y) & edges & ~lefts)
    if equal != 0 and not whole:
        rights_at, lefts_at = cell.slots, cell.slots + cell.right_end + cell.covers
        tops_at, bottoms_at = cell.slots + cell.left_end + cell.covers, cell.slots + cell.top_end + cell.covers
        while ended_right < cell.right_end and ranges[words[rights_at + ended_right], 2] < x:
            ended_right += 1
        while begun_left < cell.left_end - cell.right_end and ranges[words[lefts_at + begun_left], 0] <= x:
            begun_left += 1
        while ended_top < cell.top_end - cell.left_end and ranges[words[tops_at + ended_top], 3] < y:
            ended_top += 1
        while begun_bottom < cell.edges - cell.top_end and ranges[words[bottoms_at + begun_bottom], 1] <= y:
            begun_bottom += 1
    return ended_right, begun_left, ended_top, begun_bottom


@kernel_piece
def corners_holding(
    blocks: Blocks, cell: Cell, chunk: int, slots: int, x_key: Any, y_key: Any, points: Int64s, row: int
) -> Any:
    """A bit for each of the corners from `chunk` on, whose slots are at `slots`, that holds the point of a row."""
    left_bottom, left_top, right_top = cell.first_corners
    lefts, valid = first_lanes(left_top - chunk), first_lanes(cell.corners - chunk)
    tops = first_lanes(right_top - chunk) & ~first_lanes(left_bottom - chunk)
    below_x, above_x = compare_32(blocks.halves, cell.corner_keys + chunk, x_key)
    below_y, above_y = compare_32(blocks.halves, cell.corner_keys + cell.corners + chunk, y_key)
    within = ((~above_x & lefts) | (~below_x & ~lefts)) & ((~below_y & tops) | (~above_y & ~tops)) & valid
    if not blocks.whole:
        undecided = within & (~(below_x | above_x) | ~(below_y | above_y))
        if undecided != 0:
            within = decide(within, undecided, blocks.ranges, blocks.groups, blocks.words, slots, points, row)
    return within


@kernel_piece
def others_holding(
    blocks: Blocks, cell: Cell, chunk: int, slots: int, x_key: Any, y_key: Any, points: Int64s, row: int
) -> Any:
    """The same for the others of a cell."""
    count = cell.others
    within_x, surely_x = between_32(blocks.halves, cell.other_keys + chunk, count, x_key)
    within_y, surely_y = between_32(blocks.halves, cell.other_keys + 2 * count + chunk, count, y_key)
    within = within_x & within_y & first_lanes(count - chunk)
    if not blocks.whole:
        undecided = within & ~(surely_x & surely_y)
        if undecided != 0:
            within = decide(within, undecided, blocks.ranges, blocks.groups, blocks.words, slots, points, row)
    return within
