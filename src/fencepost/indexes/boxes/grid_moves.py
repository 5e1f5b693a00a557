"""What moves within the cells of a RunGrid enter and leave, found without the answers for their two ends.

What covers a cell cannot change there; sorted edges differ by the run between two ranks, corners and others by the
lanes that pass at one end only. Most small moves stay in a cell.
"""

from typing import Any

import numpy as np

from fencepost.compiled import allocating_kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, i64, u64
from fencepost.indexes.boxes.box_rows import decided
from fencepost.indexes.boxes.grid_search import FETCHED_AHEAD, FETCHED_WORDS, LOCATED_AHEAD, RING
from fencepost.indexes.boxes.lanes import LANES, between_32, compare_32, compress_32, first_lanes
from fencepost.indexes.boxes.run_grid import HEADER, RunGrid, cell_of, root_of
from fencepost.indexes.intervals.window_kernels import decoded
from fencepost.indexes.vectors import PADDING, bit_count, copy_run, prefetch

__all__ = ["search_moves_in_cells"]

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

    The search is written out once for both ends, not shared with `search_grid`: calls with arrays would cost more than
    the search itself.

    Args:
        grid: the boxes.
        ranges: their exact ranges by slot.
        before: where each move starts.
        nowhere: which of these are no points.
        after: where each move ends.
        absent: which of these are no points.
        first: the row to begin with.
        offsets: a row for what is entered and one for what is left.
        entered: slots.
        left: slots.
        apart: set for the rows that are not answered: their ends lie in two cells, or one of them is no point.
    """
    frame, windows, firsts, sides = grid.frame, grid.windows, grid.first, grid.sides
    starts, words = grid.starts, grid.words
    halves = words.view(np.uint16)
    roots, whole = grid.boxes[1], grid.boxes[2] != 0
    real_x, real_y = grid.is_float[0], grid.is_float[1]
    cells = np.empty(RING, np.int64)
    keys = np.empty((RING, 4), np.uint16)
    count = len(apart)
    a, b = offsets[0, first], offsets[1, first]
    ranks = np.empty((2, 4), np.int64)
    no_groups = np.empty(0, np.uint32)
    for step in range(first, count + LOCATED_AHEAD):
        if step < count:
            ring = step % RING
            cell = i64(_NOWHERE)
            for end in range(2):
                x = decoded(before[step, 0] if end == 0 else after[step, 0], real_x)
                y = decoded(before[step, 1] if end == 0 else after[step, 1], real_y)
                root = root_of(x, frame[0], frame[2], roots) * roots + root_of(y, frame[1], frame[3], roots)
                side = i64(sides[root])
                i, keys[ring, 2 * end] = cell_of(x, windows[root, 0], windows[root, 2], side)
                j, keys[ring, 2 * end + 1] = cell_of(y, windows[root, 1], windows[root, 3], side)
                here = i64(firsts[root]) + i * side + j
                cell = here if end == 0 or here == cell else _NOWHERE
            cell = _NOWHERE if nowhere[step] or absent[step] else cell
            cells[ring] = cell
            prefetch(starts, max(cell, 0))
        fetched = step - (LOCATED_AHEAD - FETCHED_AHEAD)
        if first <= fetched < count and cells[fetched % RING] != _NOWHERE:
            cell = cells[fetched % RING]
            begin, stop = i64(starts[cell]), i64(starts[cell + 1])
            for word in range(begin, min(stop, begin + FETCHED_WORDS), 16):
                prefetch(words, word)
        row = step - LOCATED_AHEAD
        if row < first:
            continue
        ring = row % RING
        cell = cells[ring]
        apart[row] = cell == _NOWHERE
        offsets[0, row + 1], offsets[1, row + 1] = a, b
        if cell == _NOWHERE:
            continue
        start = i64(starts[cell])
        size = i64(starts[cell + 1]) - start
        if a + size + PADDING > len(entered) or b + size + PADDING > len(left):
            return row
        if size == 0:
            continue
        half = 2 * start
        right_end, left_end = i64(halves[half]), i64(halves[half + 1])
        top_end, edge_count = i64(halves[half + 2]), i64(halves[half + 3])
        corner_count = i64(halves[half + 7])
        covers, others = i64(words[start + 4]), i64(words[start + 5])
        edge_keys = half + 2 * HEADER
        corner_keys = edge_keys + ((edge_count + 1) & ~1)
        other_keys = corner_keys + 2 * corner_count
        ids = (other_keys >> 1) + 2 * others

        for end in range(2):
            x_key, y_key = keys[ring, 2 * end], keys[ring, 2 * end + 1]
            ended_right, begun_left, ended_top, begun_bottom = 0, 0, 0, 0
            equal = u64(0)
            for chunk in range(0, left_end, LANES):
                below, above = compare_32(halves, edge_keys + chunk, x_key)
                rights, lefts = first_lanes(right_end - chunk), first_lanes(left_end - chunk)
                ended_right += bit_count(below & rights)
                begun_left += bit_count((~above if whole else below) & lefts & ~rights)
                equal |= ~(below | above) & lefts
            for chunk in range(left_end, edge_count, LANES):
                below, above = compare_32(halves, edge_keys + chunk, y_key)
                tops, edges = first_lanes(top_end - chunk), first_lanes(edge_count - chunk)
                ended_top += bit_count(below & tops)
                begun_bottom += bit_count((~above if whole else below) & edges & ~tops)
                equal |= ~(below | above) & edges
            if equal != 0 and not whole:
                x = before[row, 0] if end == 0 else after[row, 0]
                y = before[row, 1] if end == 0 else after[row, 1]
                while ended_right < right_end and ranges[words[ids + ended_right], 2] < x:
                    ended_right += 1
                lefts_at = ids + right_end + covers
                while begun_left < left_end - right_end and ranges[words[lefts_at + begun_left], 0] <= x:
                    begun_left += 1
                tops_at = ids + left_end + covers
                while ended_top < top_end - left_end and ranges[words[tops_at + ended_top], 3] < y:
                    ended_top += 1
                bottoms_at = ids + top_end + covers
                while begun_bottom < edge_count - top_end and ranges[words[bottoms_at + begun_bottom], 1] <= y:
                    begun_bottom += 1
            ranks[end, 0], ranks[end, 1], ranks[end, 2], ranks[end, 3] = (
                ended_right,
                begun_left,
                ended_top,
                begun_bottom,
            )

        slots = ids
        for kind in range(4):
            # Who passes a left or bottom edge upwards enters, who passes a right or top one leaves.
            passed = ranks[1, kind] - ranks[0, kind]
            at = slots + min(ranks[0, kind], ranks[1, kind])
            if passed != 0:
                if (passed > 0) == (kind % 2 == 1):
                    copy_run(entered, a, words, at, abs(passed))
                    a += abs(passed)
                else:
                    copy_run(left, b, words, at, abs(passed))
                    b += abs(passed)
            slots = ids + covers + i64(halves[half + kind])

        slots = ids + covers + edge_count
        first_end, second_end, third_end = i64(halves[half + 4]), i64(halves[half + 5]), i64(halves[half + 6])
        for chunk in range(0, corner_count, LANES):
            lows_x = first_lanes(second_end - chunk)
            highs_y = first_lanes(third_end - chunk) & ~first_lanes(first_end - chunk)
            valid = first_lanes(corner_count - chunk)
            was = u64(0)
            now = u64(0)
            for end in range(2):
                x_below, x_above = compare_32(halves, corner_keys + chunk, keys[ring, 2 * end])
                y_below, y_above = compare_32(halves, corner_keys + corner_count + chunk, keys[ring, 2 * end + 1])
                within = ((~x_above & lows_x) | (~x_below & ~lows_x)) & ((~y_below & highs_y) | (~y_above & ~highs_y))
                within &= valid
                if not whole:
                    undecided = within & (~(x_below | x_above) | ~(y_below | y_above))
                    if undecided != 0:
                        points = before if end == 0 else after
                        within = decided(within, undecided, ranges, no_groups, words, slots + chunk, points, row)
                was, now = now, within
            if was != now:
                compress_32(entered, a, words, slots + chunk, now & ~was, 0)
                a += bit_count(now & ~was)
                compress_32(left, b, words, slots + chunk, was & ~now, 0)
                b += bit_count(was & ~now)
        slots += corner_count
        for chunk in range(0, others, LANES):
            was = u64(0)
            now = u64(0)
            for end in range(2):
                within_x, surely_x = between_32(halves, other_keys + chunk, others, keys[ring, 2 * end])
                within_y, surely_y = between_32(
                    halves, other_keys + 2 * others + chunk, others, keys[ring, 2 * end + 1]
                )
                within = within_x & within_y & first_lanes(others - chunk)
                if not whole:
                    undecided = within & ~(surely_x & surely_y)
                    if undecided != 0:
                        points = before if end == 0 else after
                        within = decided(within, undecided, ranges, no_groups, words, slots + chunk, points, row)
                was, now = now, within
            if was != now:
                compress_32(entered, a, words, slots + chunk, now & ~was, 0)
                a += bit_count(now & ~was)
                compress_32(left, b, words, slots + chunk, was & ~now, 0)
                b += bit_count(was & ~now)
        offsets[0, row + 1], offsets[1, row + 1] = a, b
    return count
