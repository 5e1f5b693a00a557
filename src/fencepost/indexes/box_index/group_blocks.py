"""GroupBlocks: boxes of small groups, every group one block that is compared whole.

A group of up to a few hundred boxes is searched fastest by comparing all of them, 32 at a time, with 16-bit keys of
the group's own origin and scale. A handful of boxes is compared exactly, without keys.
"""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Bools, Float64s, Int64s, UInt32s, i64, u64
from fencepost.indexes.box_index.rows import FARTHEST, Axes, contains, decide, key_of, scale_of
from fencepost.indexes.kernels.lanes import ALL_LANES, LANES, between_32, compress_32, first_lanes
from fencepost.indexes.kernels.radix import sorted_positions
from fencepost.indexes.kernels.vectors import PADDING, bit_count, prefetch
from fencepost.indexes.ordinal import LARGEST, SMALLEST
from fencepost.indexes.slice_list.window_kernels import decode

LARGEST_BLOCK = 512
"""Boxes of the largest group that is compared whole: of more, a tree skips most."""
_FEW = 7
"""Boxes that are compared exactly as fast as by keys."""
_HEADER = 2
_STARTS_AHEAD, _BLOCK_AHEAD = 16, 8


class GroupBlocks(NamedTuple):
    """The arrays of some groups.

    Invariants: (1) group g is the block ``words[starts[g]:starts[g + 1]]``; one of up to 7 words is just slots;
    (2) a longer block has the number of boxes n, the group's row of `scales`, then per axis n low and n high keys,
    n rounded up to an even number, then the slots.
    """

    starts: UInt32s
    words: UInt32s
    scales: Float64s
    """Per group with keys and axis: origin, keys per unit."""
    is_float: Bools
    """Per axis; the last is the group number's."""
    boxes: Int64s
    """[how many boxes there are]"""


def build_blocks(ranges: Int64s, groups: UInt32s, slots: UInt32s, axes: Axes, group_count: int) -> GroupBlocks:
    """Blocks for the boxes in these slots, all of which have a group of at most `LARGEST_BLOCK` boxes.

    `ranges` and `groups` are by slot: the first ordinals of all dimensions, then the last; the group number, which is
    the last axis, too. There are numbers for `group_count` groups.
    """
    dimensions = ranges.shape[1] // 2
    numbers = groups[slots].astype(np.int64)
    counts = np.bincount(numbers, minlength=group_count)
    padded = counts + (counts & 1)
    sizes = np.where(counts <= _FEW, counts, _HEADER + dimensions * padded + counts)
    starts = np.append(0, np.cumsum(sizes)).astype(np.uint32)
    words = np.zeros(int(sizes.sum()) + PADDING, np.uint32)
    scales = np.empty((np.count_nonzero(counts > _FEW), dimensions, 2))
    fill_blocks(ranges, slots[sorted_positions(numbers)], counts, axes, starts, words, scales)
    return GroupBlocks(starts, words, scales, axes.is_float, np.array([len(slots)]))


@kernel
def fill_blocks(
    ranges: Int64s, ordered: UInt32s, counts: Int64s, axes: Axes, starts: UInt32s, words: UInt32s, scales: Float64s
) -> None:
    """Write every block; `ordered` has the slots group by group."""
    dimensions = ranges.shape[1] // 2
    halves = words.view(np.uint16)
    keyed = 0
    begin = i64(0)
    for group in range(len(counts)):
        count, start = counts[group], i64(starts[group])
        # A group of few has no keys: its slots alone, and every box is compared.
        if count <= _FEW:
            for i in range(count):
                words[start + i] = ordered[begin + i]
            begin += count
            continue
        words[start], words[start + 1] = count, keyed
        padded = (count + 1) & ~1
        keys = 2 * (start + _HEADER)
        for axis in range(dimensions):
            is_float, floor, ceiling = axes.is_float[axis], axes.floors[axis], axes.ceilings[axis]
            # The span of the bounds on this axis, the unbounded aside: 16-bit keys are spread over it.
            least, most = i64(LARGEST), i64(SMALLEST)
            for i in range(begin, begin + count):
                first, last = ranges[ordered[i], axis], ranges[ordered[i], dimensions + axis]
                if first > floor:
                    least, most = min(least, first), max(most, first)
                if last < ceiling:
                    least, most = min(least, last), max(most, last)
            if least > most:
                least = most = i64(0)
            origin, scale = scale_of(least, most, is_float)
            scales[keyed, axis, 0], scales[keyed, axis, 1] = origin, scale
            # All lower keys of the axis, then all upper ones, so that many are compared at once.
            for i in range(count):
                first, last = ranges[ordered[begin + i], axis], ranges[ordered[begin + i], dimensions + axis]
                low, high = np.uint16(0), np.uint16(FARTHEST)
                if first > floor:
                    low = key_of(decode(first, is_float), origin, scale)
                if last < ceiling:
                    high = key_of(decode(last, is_float), origin, scale)
                halves[keys + 2 * axis * padded + i] = low
                halves[keys + (2 * axis + 1) * padded + i] = high
        # The slots behind the keys, in their order.
        for i in range(count):
            words[start + _HEADER + dimensions * padded + i] = ordered[begin + i]
        begin += count
        keyed += 1


@allocating_kernel
def search_blocks(
    blocks: GroupBlocks,
    ranges: Int64s,
    groups: UInt32s,
    points: Int64s,
    absent: Bools,
    first: int,
    offsets: Int64s,
    out: UInt32s | Int64s,
    shift: int,
) -> Any:
    """Write the slots of all boxes that hold each point, plus `shift`; the row it stopped at for want of room."""
    starts, words, scales, is_float = blocks.starts, blocks.words, blocks.scales, blocks.is_float
    halves = words.view(np.uint16)
    dimensions = ranges.shape[1] // 2
    point_keys = np.empty(dimensions, np.uint16)
    exact = np.empty(dimensions, np.uint64)
    count = len(absent)
    known = len(starts) - 1
    at = offsets[first]
    for step in range(first, count + _STARTS_AHEAD):
        # Ask for the start of a later point's group, and for the block of a point in between.
        if step < count:
            prefetch(starts, max(0, min(points[step, dimensions], known)))
        fetched = step - (_STARTS_AHEAD - _BLOCK_AHEAD)
        if first <= fetched < count and 0 <= points[fetched, dimensions] < known:
            group = points[fetched, dimensions]
            for word in range(i64(starts[group]), i64(starts[group + 1]), 16):
                prefetch(words, word)
            prefetch(scales, 2 * dimensions * min(group, len(scales) - 1))
        row = step - _STARTS_AHEAD
        if row < first:
            continue
        # Answer a point whose block is there: a handful of boxes is compared exactly.
        group = points[row, dimensions]
        if absent[row] or group < 0 or group >= known:
            offsets[row + 1] = at
            continue
        start, size = i64(starts[group]), i64(starts[group + 1]) - i64(starts[group])
        if at + size + PADDING > len(out):
            return row
        if size <= _FEW:
            for word in range(start, start + size):
                out[at] = i64(words[word]) + shift
                at += contains(ranges, groups, i64(words[word]), points, row)
            offsets[row + 1] = at
            continue
        # More of them by their keys, 32 at a time; where keys do not tell, exactly.
        boxes, keyed = i64(words[start]), i64(words[start + 1])
        padded = (boxes + 1) & ~1
        keys = 2 * (start + _HEADER)
        slots = start + _HEADER + dimensions * padded
        for axis in range(dimensions):
            origin, scale = scales[keyed, axis, 0], scales[keyed, axis, 1]
            point_keys[axis] = key_of(decode(points[row, axis], is_float[axis]), origin, scale)
            exact[axis] = ALL_LANES if scale == 1.0 and not is_float[axis] else 0
        for chunk in range(0, boxes, LANES):
            passed = first_lanes(boxes - chunk)
            surely = u64(ALL_LANES)
            for axis in range(dimensions):
                within, strictly = between_32(halves, keys + 2 * axis * padded + chunk, padded, point_keys[axis])
                passed &= within
                surely &= strictly | exact[axis]
            undecided = passed & ~surely
            if undecided != 0:
                passed = decide(passed, undecided, ranges, groups, words, slots + chunk, points, row)
            compress_32(out, at, words, slots + chunk, passed, shift)
            at += bit_count(passed)
        offsets[row + 1] = at
    return count


@kernel
def collect(blocks: GroupBlocks, out: UInt32s, numbers: UInt32s) -> Any:
    """The slots of all groups and the number of each one's group; how many there are."""
    at = 0
    for group in range(len(blocks.starts) - 1):
        start, end = i64(blocks.starts[group]), i64(blocks.starts[group + 1])
        boxes = end - start if end - start <= _FEW else i64(blocks.words[start])
        for word in range(end - boxes, end):
            out[at] = blocks.words[word]
            numbers[at] = group
            at += 1
    return at


def block_slots(blocks: GroupBlocks) -> UInt32s:
    """The slots of all boxes in the blocks."""
    slots = np.empty(int(blocks.boxes[0]), np.uint32)
    assert collect(blocks, slots, np.empty(len(slots), np.uint32)) == len(slots), "every box was counted"
    return slots


def check_blocks(blocks: GroupBlocks, ranges: Int64s, groups: UInt32s, axes: Axes) -> None:
    """Assert that the blocks are those that their boxes would be given anew."""
    slots = block_slots(blocks)
    numbers = np.empty(len(slots), np.uint32)
    collect(blocks, slots, numbers)
    assert np.array_equal(groups[slots], numbers), "a box is in the block of its group"
    again = build_blocks(ranges, groups, slots, axes, len(blocks.starts) - 1)
    for mine, other in zip(again, blocks, strict=True):
        assert np.array_equal(mine, other), "keys and scales follow the ranges"
