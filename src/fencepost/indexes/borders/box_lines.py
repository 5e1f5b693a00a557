"""BoxLines: boxes on several axes, asked which of them straight moves jump over.

A `PackedTree` is searched with the line itself: a node is visited if the line may meet what is below it, so that a
long line visits the nodes along it and not those of its bounding box. Nodes are judged by their 16-bit keys, with room
for all rounding; the exact ranges tell which ends are inside, and `lines_meet` decides about the few boxes left.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Float64s, Int64s, UInt16s, UInt32s, i64, u64
from fencepost.indexes.borders.lines import lines_meet
from fencepost.indexes.box_index.packed_tree import PackedTree, build_tree
from fencepost.indexes.box_index.rows import FARTHEST, Axes, key_of
from fencepost.indexes.kernels.lanes import ALL_LANES, LANES, between_32, compare_32, compress_32, lowest_bit
from fencepost.indexes.kernels.vectors import bit_count, prefetch
from fencepost.indexes.ordinal import LARGEST, SMALLEST, ValueType
from fencepost.indexes.slice_list.window_kernels import decode

_MOST_AXES = 16
"""Axes of the tree; what further ones say is left to the exact ranges."""
_CANDIDATES = 1 << 16
"""Judged in one round: as many as stay in the cache."""
_SLACK, _NEXT = 2.0, 2.0**-51
"""Keys by which a box is taken to be larger, for rounding, and the part of a float that the next one is away at most.

A range ends before the value that follows its last one, which its keys do not tell.
"""
_CLEAR = 1e-9
"""How far apart two shares of a line must be for their order to be beyond doubt."""
_LEAST_STEP, _MOST_STEP = 1e-3, 1e300
"""Steps, in keys, of which shares are computed."""
_FARTHEST_FLOAT, _FARTHEST_WHOLE = 7e307, 2.0**51
"""Ends up to which a line is straight in what `decode` gives: beyond, floats are clipped and whole numbers rounded."""
_AHEAD = 4


class BoxLines:
    """Boxes by number, 0, 1, ..., asked which of them lines jump over: meet, while neither end is inside.

    Args:
        firsts: of the boxes, inclusive ordinals, a column per axis; the smallest int64 where they are unbounded.
        lasts: of the boxes, likewise; the largest int64 where they are unbounded.
        kinds: what the ordinals of each axis stand for.
        groups: the group of each box; None if they have none.
    """

    def __init__(self, firsts: Int64s, lasts: Int64s, kinds: Sequence[ValueType], groups: Int64s | None) -> None:
        self._kinds = list(kinds)
        axes: list[ValueType] = list(kinds)
        if groups is not None:  # one more axis, on which boxes are points and lines stand still
            firsts, lasts = (np.column_stack([groups, each]) for each in (firsts, lasts))
            axes.insert(0, "int64")
        count, indexed = len(axes), min(len(axes), _MOST_AXES)
        self._ranges = np.ascontiguousarray(np.hstack([firsts, lasts]))
        self._firsts, self._lasts = self._ranges[:, count - len(kinds) : count], self._ranges[:, -len(kinds) :]
        is_float = np.array([kind == "float64" for kind in axes[:indexed]])
        floors, ceilings = np.full(indexed, SMALLEST), np.full(indexed, LARGEST)
        some = self._ranges
        if indexed < count:
            some = np.ascontiguousarray(np.hstack([firsts[:, :indexed], lasts[:, :indexed]]))
        slots = np.arange(len(firsts), dtype=np.uint32)
        self._tree = build_tree(some, np.zeros(0, np.uint32), slots, Axes(is_float, floors, ceilings))

    def jumped_over(self, before: Int64s, after: Int64s, groups: Int64s | None) -> tuple[Int64s, Int64s]:
        """Pairs of line and box, for lines between rows of ordinals, each within one group."""
        found: list[tuple[Int64s, Int64s]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        starts, ends = before, after
        if groups is not None:
            starts, ends = (np.column_stack([groups, each]) for each in (before, after))
        starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
        offsets, room, done = np.zeros(len(ends) + 1, np.int64), np.empty(_CANDIDATES, np.uint32), 0
        while done < len(ends):
            offsets[done] = 0
            stop = int(find_near(self._tree, self._ranges, starts, ends, done, offsets, room))
            if stop == done:
                room = np.empty(2 * len(room), np.uint32)
                continue
            lines = np.repeat(np.arange(done, stop), np.diff(offsets[done : stop + 1]))
            boxes = room[: offsets[stop]].astype(np.int64)
            met = lines_meet(before[lines], after[lines], self._firsts[boxes], self._lasts[boxes], self._kinds)
            found.append((lines[met], boxes[met]))
            done = stop
        all_lines, all_boxes = (np.concatenate(column) for column in zip(*found, strict=True))
        return all_lines, all_boxes

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self._tree, self._ranges))


@allocating_kernel
def find_near(
    tree: PackedTree, ranges: Int64s, before: Int64s, after: Int64s, first: int, offsets: Int64s, out: UInt32s
) -> Any:
    """Write the boxes that each line may meet and that hold neither end; the line it stopped at for want of room."""
    keys, scales, slots, levels, numbers = tree.keys, tree.scales, tree.slots, tree.levels, tree.numbers
    is_float = tree.is_float
    axis_count, depth = len(is_float), len(levels) - 1
    every_axis = 2 * axis_count == ranges.shape[1]
    node_keys = 2 * LANES * axis_count
    nodes, next_nodes = np.empty(len(numbers), np.uint32), np.empty(len(numbers), np.uint32)
    here, there = np.empty(axis_count), np.empty(axis_count)
    starts, steps, slacks = np.empty(axis_count), np.empty(axis_count), np.empty(axis_count)
    straight = np.empty(axis_count, np.bool_)
    at = offsets[first]
    for row in range(first, len(after)):
        # Both ends of the line, and on which axes float64 can follow it.
        moving = False
        for axis in range(before.shape[1]):
            moving |= before[row, axis] != after[row, axis]
        for axis in range(axis_count):
            here[axis] = decode(before[row, axis], is_float[axis])
            there[axis] = decode(after[row, axis], is_float[axis])
            farthest = _FARTHEST_FLOAT if is_float[axis] else _FARTHEST_WHOLE
            straight[axis] = here[axis] != there[axis] and max(abs(here[axis]), abs(there[axis])) < farthest
        nodes[0] = 0
        waiting = 1 if moving else 0
        # Level by level: children whose keys meet the shadow of the line, then those that the line itself may meet.
        for level in range(depth):
            base, found, is_leaf = levels[level], 0, level == depth - 1
            for entry in range(waiting):
                ahead = base + i64(nodes[min(entry + _AHEAD, waiting - 1)])
                prefetch(scales, 2 * axis_count * ahead)
                for line in range(2 * axis_count):
                    prefetch(keys, node_keys * ahead + LANES * line)
                node = i64(nodes[entry])
                passed, was, now = u64(ALL_LANES), u64(ALL_LANES), u64(ALL_LANES)
                for axis in range(axis_count):
                    origin, scale = scales[base + node, axis, 0], scales[base + node, axis, 1]
                    start = node_keys * (base + node) + 2 * LANES * axis
                    one, other = key_of(here[axis], origin, scale), key_of(there[axis], origin, scale)
                    passed &= ~compare_32(keys, start, np.uint16(max(one, other)))[1]
                    passed &= ~compare_32(keys, start + LANES, np.uint16(min(one, other)))[0]
                    if is_leaf:
                        was &= between_32(keys, start, LANES, one)[1]
                        now &= between_32(keys, start, LANES, other)[1]
                    slacks[axis] = _SLACK + abs(origin) * scale * _NEXT
                    starts[axis] = (here[axis] - origin) * scale
                    steps[axis] = (there[axis] - origin) * scale - starts[axis]
                    if not straight[axis] or not (is_float[axis] or scale <= 1.0):
                        steps[axis] = 0.0
                passed &= u64(ALL_LANES)
                if is_leaf and every_axis:
                    passed &= ~(was | now)
                undecided = passed
                while undecided != 0:
                    lane = lowest_bit(undecided)
                    undecided &= undecided - u64(1)
                    start = node_keys * (base + node) + lane
                    if misses(keys, start, starts, steps, slacks) or (
                        is_leaf and not stays_outside(ranges, i64(slots[LANES * node + lane]), before, after, row)
                    ):
                        passed &= ~(u64(1) << u64(lane))
                # Nodes wait for the next level; boxes are written.
                if not is_leaf:
                    compress_32(next_nodes, found, numbers, LANES * node, passed, 0)
                    found += bit_count(passed)
                    continue
                if at + 2 * LANES > len(out):
                    return row
                compress_32(out, at, slots, LANES * node, passed, 0)
                at += bit_count(passed)
            nodes, next_nodes = next_nodes, nodes
            waiting = found
        offsets[row + 1] = at
    return len(after)


@kernel
def misses(keys: UInt16s, start: int, starts: Float64s, steps: Float64s, slacks: Float64s) -> bool:
    """Whether a line, in the keys of a node, surely passes by the child whose first low key is at `start`."""
    lowest, highest = 0.0, 1.0
    for axis in range(len(starts)):
        low_key, high_key = i64(keys[start]), i64(keys[start + LANES])
        start += 2 * LANES
        if low_key > high_key:
            return True  # nobody
        step = steps[axis]
        if not (_LEAST_STEP < abs(step) < _MOST_STEP):
            continue
        low = -np.inf if low_key == 0 else low_key - slacks[axis]
        high = np.inf if high_key == FARTHEST else high_key + slacks[axis]
        to_low, to_high = (low - starts[axis]) / step, (high - starts[axis]) / step
        lowest = max(lowest, min(to_low, to_high))
        highest = min(highest, max(to_low, to_high))
    return lowest > highest + _CLEAR


@kernel
def stays_outside(ranges: Int64s, slot: int, before: Int64s, after: Int64s, row: int) -> bool:
    """Whether a box meets the shadow of a line on every axis, and holds neither end."""
    dimensions = ranges.shape[1] // 2
    was, now, meets = True, True, True
    for axis in range(dimensions):
        first, last = ranges[slot, axis], ranges[slot, dimensions + axis]
        here, there = before[row, axis], after[row, axis]
        was &= first <= here and here <= last
        now &= first <= there and there <= last
        meets &= min(here, there) <= last and max(here, there) >= first
    return meets and not was and not now
