"""How a run grid answers: find the cell of each point, then copy its runs and compare the rest."""

from typing import Any

import numpy as np

from fencepost.compiled import allocating_kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, i64, u64
from fencepost.indexes.boxes.box_rows import decided
from fencepost.indexes.boxes.lanes import LANES, between_32, compare_32, compress_32, first_lanes
from fencepost.indexes.boxes.run_grid import HEADER, RunGrid, cell_of, root_of
from fencepost.indexes.intervals.window_kernels import decoded
from fencepost.indexes.vectors import PADDING, bit_count, prefetch, widen_run

__all__ = ["FETCHED_AHEAD", "FETCHED_WORDS", "LOCATED_AHEAD", "RING", "search_grid"]

RING = 64
LOCATED_AHEAD, FETCHED_AHEAD = 24, 12
FETCHED_WORDS = 256


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
    frame, windows, firsts, sides = grid.frame, grid.windows, grid.first, grid.sides
    starts, words = grid.starts, grid.words
    halves = words.view(np.uint16)
    roots, whole = grid.boxes[1], grid.boxes[2] != 0
    real_x, real_y = grid.is_float[0], grid.is_float[1]
    cells = np.empty(RING, np.int64)
    x_keys, y_keys = np.empty(RING, np.uint16), np.empty(RING, np.uint16)
    count = len(absent)
    at = offsets[first]
    for step in range(first, count + LOCATED_AHEAD):
        if step < count:
            x, y = decoded(points[step, 0], real_x), decoded(points[step, 1], real_y)
            root = root_of(x, frame[0], frame[2], roots) * roots + root_of(y, frame[1], frame[3], roots)
            side = i64(sides[root])
            i, x_key = cell_of(x, windows[root, 0], windows[root, 2], side)
            j, y_key = cell_of(y, windows[root, 1], windows[root, 3], side)
            cell = i64(firsts[root]) + i * side + j
            ring = step % RING
            cells[ring], x_keys[ring], y_keys[ring] = cell, x_key, y_key
            prefetch(starts, cell)
        fetched = step - (LOCATED_AHEAD - FETCHED_AHEAD)
        if first <= fetched < count:
            cell = cells[fetched % RING]
            begin, end = i64(starts[cell]), i64(starts[cell + 1])
            for word in range(begin, min(end, begin + FETCHED_WORDS), 16):
                prefetch(words, word)
        row = step - LOCATED_AHEAD
        if row < first:
            continue
        ring = row % RING
        start, size = i64(starts[cells[ring]]), i64(starts[cells[ring] + 1]) - i64(starts[cells[ring]])
        if at + size + PADDING > len(out):
            return row
        if size == 0 or absent[row]:
            offsets[row + 1] = at
            continue
        x_key, y_key = x_keys[ring], y_keys[ring]
        half = 2 * start
        right_end, left_end = i64(halves[half]), i64(halves[half + 1])
        top_end, edge_count = i64(halves[half + 2]), i64(halves[half + 3])
        corner_count = i64(halves[half + 7])
        covers, others = i64(words[start + 4]), i64(words[start + 5])
        keys = half + 2 * HEADER
        corner_keys = keys + ((edge_count + 1) & ~1)
        other_keys = corner_keys + 2 * corner_count
        ids = (other_keys >> 1) + 2 * others

        ended_right, begun_left, ended_top, begun_bottom = 0, 0, 0, 0
        equal = u64(0)
        for chunk in range(0, edge_count, LANES):
            below_x, above_x = compare_32(halves, keys + chunk, x_key)
            below_y, above_y = compare_32(halves, keys + chunk, y_key)
            rights, lefts = first_lanes(right_end - chunk), first_lanes(left_end - chunk)
            tops, edges = first_lanes(top_end - chunk), first_lanes(edge_count - chunk)
            ended_right += bit_count(below_x & rights)
            begun_left += bit_count((~above_x if whole else below_x) & lefts & ~rights)
            ended_top += bit_count(below_y & tops & ~lefts)
            begun_bottom += bit_count((~above_y if whole else below_y) & edges & ~tops)
            equal |= (~(below_x | above_x) & lefts) | (~(below_y | above_y) & edges & ~lefts)
        if equal != 0 and not whole:
            x, y = points[row, 0], points[row, 1]
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
        run = right_end - ended_right + covers + begun_left
        widen_run(out, at, words, ids + ended_right, run, shift)
        at += run
        run = top_end - left_end - ended_top + begun_bottom
        widen_run(out, at, words, ids + covers + left_end + ended_top, run, shift)
        at += run

        corner_ids = ids + covers + edge_count
        first_end, second_end, third_end = i64(halves[half + 4]), i64(halves[half + 5]), i64(halves[half + 6])
        for chunk in range(0, corner_count, LANES):
            lows_x = first_lanes(second_end - chunk)
            highs_y = first_lanes(third_end - chunk) & ~first_lanes(first_end - chunk)
            valid = first_lanes(corner_count - chunk)
            below_x, above_x = compare_32(halves, corner_keys + chunk, x_key)
            below_y, above_y = compare_32(halves, corner_keys + corner_count + chunk, y_key)
            within = (
                ((~above_x & lows_x) | (~below_x & ~lows_x)) & ((~below_y & highs_y) | (~above_y & ~highs_y)) & valid
            )
            if not whole:
                undecided = within & (~(below_x | above_x) | ~(below_y | above_y))
                if undecided != 0:
                    within = decided(within, undecided, ranges, groups, words, corner_ids + chunk, points, row)
            compress_32(out, at, words, corner_ids + chunk, within, shift)
            at += bit_count(within)
        other_ids = corner_ids + corner_count
        for chunk in range(0, others, LANES):
            within_x, surely_x = between_32(halves, other_keys + chunk, others, x_key)
            within_y, surely_y = between_32(halves, other_keys + 2 * others + chunk, others, y_key)
            within = within_x & within_y & first_lanes(others - chunk)
            if not whole:
                undecided = within & ~(surely_x & surely_y)
                if undecided != 0:
                    within = decided(within, undecided, ranges, groups, words, other_ids + chunk, points, row)
            compress_32(out, at, words, other_ids + chunk, within, shift)
            at += bit_count(within)
        offsets[row + 1] = at
    return count
