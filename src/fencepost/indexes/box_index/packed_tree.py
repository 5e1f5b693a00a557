"""PackedTree: a static R-tree of 32-way nodes whose bounds are 16-bit keys, searched level by level.

Every node has 32 children, an origin and a scale per axis of its own, and per axis 32 low and 32 high keys, so that
one vector comparison per side tests all children. Keys grow with the decoded values; a child whose key equals the
point's is visited, and a box whose key does is compared exactly: answers never depend on the rounding.

Boxes are ordered by cuts at the median of the axis with the largest spread for its width (a kd-tree cut at multiples
of 32 leaves). Boxes that are unbounded in the same axes are kept together, so that they do not widen the others.
"""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Bools, Float64s, Int64s, UInt16s, UInt32s, i64, u64
from fencepost.indexes.box_index.rows import EVERY_GROUP, FARTHEST, Axes, decide, key_of, scale_of
from fencepost.indexes.kernels.lanes import ALL_LANES, LANES, between_32, compress_32
from fencepost.indexes.kernels.vectors import PADDING, bit_count, prefetch
from fencepost.indexes.ordinal import LARGEST, SMALLEST
from fencepost.indexes.slice_list.window_kernels import decode

_NOBODY = 2**32 - 1
_FEWEST_OF_A_PATTERN, _LEAST_SHARE_OF_A_PATTERN = 128, 64
"""Boxes that are unbounded in the same axes are kept together if they are that many, and that part of all."""
_WORTH_WHOLE_NODES = 16 * LANES * LANES
"""Boxes from which on a pattern begins with a node of its own: fewer would leave too many children empty."""
_BLOCK = 64
_QUEUE = 1 << 14
_AHEAD = 6
_SAMPLED = 256


class PackedTree(NamedTuple):
    """The arrays of a tree over D axes.

    Invariants: (1) level l has the nodes ``levels[l] .. levels[l + 1]``, the root is level 0, the leaves are last;
    child c of node n of a level is node ``32 n + c`` of the next, or item ``32 n + c`` of `slots`; (2) node n has the
    keys ``keys[64 D n:]``: per axis 32 lows, then 32 highs; the low and high of a side without a bound are 0 and
    65535, those of a missing child 65535 and 0; (3) a child's keys enclose all boxes below it.
    """

    keys: UInt16s
    scales: Float64s
    """Per node and axis: origin, keys per unit."""
    slots: UInt32s
    levels: Int64s
    numbers: UInt32s
    """0, 1, ... to the number of leaves and beyond: what a comparison of 32 children picks from."""
    is_float: Bools
    boxes: Int64s
    """[how many boxes there are]"""


def build_tree(ranges: Int64s, groups: UInt32s, slots: UInt32s, axes: Axes) -> PackedTree:
    """A tree over the boxes in these slots, at least one.

    `ranges` and `groups` are by slot: the first ordinals of all dimensions, then the last; the group number, which is
    one more axis, or nothing if the boxes have no groups.
    """
    count, axis_count = len(slots), len(axes.is_float)
    lows, highs = np.empty((count, axis_count)), np.empty((count, axis_count))
    patterns = np.empty(count, np.uint32)
    decode_boxes(ranges, groups, slots, axes, lows, highs, patterns)
    ordered = _order_leaves(lows, highs, patterns)
    bounds = np.empty((len(ordered), 2 * axis_count), np.int64)
    leaf_slots = np.empty(len(ordered) + PADDING, np.uint32)
    leaf_slots[len(ordered) :] = 0
    arrange(ranges, groups, slots, ordered, bounds, leaf_slots)
    keys: list[UInt16s] = []
    scales: list[Float64s] = []
    while not keys or len(bounds) > 1:
        nodes = -(-len(bounds) // LANES)
        node_keys = np.empty((nodes, axis_count, 2, LANES), np.uint16)
        node_scales, parents = np.empty((nodes, axis_count, 2)), np.empty((nodes, 2 * axis_count), np.int64)
        pack_level(bounds, axes, node_keys, node_scales, parents)
        keys.append(node_keys)
        scales.append(node_scales)
        bounds = parents
    keys.reverse()
    scales.reverse()
    slack = np.zeros(PADDING, np.uint16)
    return PackedTree(
        keys=np.concatenate([*(level.reshape(-1) for level in keys), slack]),
        scales=np.concatenate(scales),
        slots=leaf_slots,
        levels=np.cumsum([0, *(len(level) for level in keys)]),
        numbers=np.arange(len(keys[-1]) + PADDING, dtype=np.uint32),
        is_float=axes.is_float,
        boxes=np.array([count]),
    )


def _order_leaves(lows: Float64s, highs: Float64s, patterns: UInt32s) -> UInt32s:
    """Row numbers leaf by leaf, `_NOBODY` where a leaf is not full."""
    count = len(lows)
    found, which, sizes = np.unique(patterns, return_inverse=True, return_counts=True)
    own = (sizes >= _FEWEST_OF_A_PATTERN) & (sizes * _LEAST_SHARE_OF_A_PATTERN >= count)
    part_of = np.where(own, np.cumsum(own), 0)[which] if len(found) > 1 else np.zeros(count, np.int64)
    pieces = []
    for part in np.unique(part_of):
        rows = (
            np.flatnonzero(part_of == part).astype(np.uint32) if len(found) > 1 else np.arange(count, dtype=np.uint32)
        )
        order_rows(rows, lows, highs, np.empty(len(rows)))
        unit = LANES * LANES if len(rows) >= _WORTH_WHOLE_NODES else LANES
        filler = np.full(-len(rows) % unit, _NOBODY, np.uint32)
        pieces += [rows, filler]
    return np.concatenate(pieces)


@kernel
def decode_boxes(
    ranges: Int64s,
    groups: UInt32s,
    slots: UInt32s,
    axes: Axes,
    lows: Float64s,
    highs: Float64s,
    patterns: UInt32s,
) -> None:
    """Decoded bounds of every box, sides without a bound at the edge of all others, and which sides those are."""
    axis_count = len(axes.is_float)
    dimensions = ranges.shape[1] // 2
    patterns[:] = 0
    for axis in range(axis_count):
        least, most = np.inf, -np.inf
        is_float, floor, ceiling = axes.is_float[axis], axes.floors[axis], axes.ceilings[axis]
        for row in range(len(slots)):
            slot = slots[row]
            first, last = i64(SMALLEST), i64(LARGEST)
            if axis < dimensions:
                first, last = ranges[slot, axis], ranges[slot, dimensions + axis]
            elif groups[slot] != EVERY_GROUP:
                first, last = i64(groups[slot]), i64(groups[slot])
            low, high = -np.inf, np.inf
            if first > floor:
                low = decode(first, is_float)
                least, most = min(least, low), max(most, low)
            if last < ceiling:
                high = decode(last, is_float)
                least, most = min(least, high), max(most, high)
            if first <= floor and last >= ceiling:
                patterns[row] |= np.uint32(1) << np.uint32(axis)
            lows[row, axis] = low
            highs[row, axis] = high
        if least > most:
            least = most = 0.0
        for row in range(len(slots)):
            lows[row, axis] = max(lows[row, axis], least)
            highs[row, axis] = min(highs[row, axis], most)


@allocating_kernel
def order_rows(rows: UInt32s, lows: Float64s, highs: Float64s, centers: Float64s) -> None:
    """Cut the rows at medians until a leaf is left, always at a power of two of leaves, as full as can be."""
    begins = np.empty(64, np.int64)
    ends = np.empty(64, np.int64)
    begins[0], ends[0] = 0, len(rows)
    pending = 1
    while pending > 0:
        pending -= 1
        begin, end = begins[pending], ends[pending]
        leaves = (end - begin + LANES - 1) // LANES
        if leaves <= 1:
            continue
        half = 1
        while half * 2 < leaves:
            half *= 2
        axis = widest_axis(rows, lows, highs, begin, end)
        for i in range(begin, end):
            centers[i] = lows[rows[i], axis] * 0.5 + highs[rows[i], axis] * 0.5
        middle = begin + half * LANES
        select(centers, rows, begin, end, middle)
        begins[pending], ends[pending] = begin, middle
        begins[pending + 1], ends[pending + 1] = middle, end
        pending += 2


@kernel
def widest_axis(rows: UInt32s, lows: Float64s, highs: Float64s, begin: int, end: int) -> Any:
    """The axis along which boxes are spread widest, in units of their own width."""
    best, chosen = -1.0, 0
    step = max(1, (end - begin) // _SAMPLED)
    for axis in range(lows.shape[1]):
        least, most, width = np.inf, -np.inf, 0.0
        for i in range(begin, end, step):
            low, high = lows[rows[i], axis], highs[rows[i], axis]
            center = low * 0.5 + high * 0.5
            least, most = min(least, center), max(most, center)
            width += high * 0.5 - low * 0.5
        spread = (most - least) / (width * step / (end - begin) + (most - least) * 1e-9 + 1e-300)
        if spread > best:
            best, chosen = spread, axis
    return chosen


@kernel
def select(keys: Float64s, rows: UInt32s, begin: int, end: int, middle: int) -> None:
    """Move the smallest keys of a stretch, with their rows, before `middle`."""
    while end - begin > 1:
        a, b, c = keys[begin], keys[(begin + end) >> 1], keys[end - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = begin, end - 1
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                rows[i], rows[j] = rows[j], rows[i]
                i += 1
                j -= 1
        if middle <= j:
            end = j + 1
        elif middle >= i:
            begin = i
        else:
            return


@kernel
def arrange(
    ranges: Int64s, groups: UInt32s, slots: UInt32s, ordered: UInt32s, bounds: Int64s, leaf_slots: UInt32s
) -> None:
    """Ranges and slots in leaf order; nobody has an empty range."""
    dimensions = ranges.shape[1] // 2
    axis_count = bounds.shape[1] // 2
    for i in range(len(ordered)):
        if ordered[i] == _NOBODY:
            leaf_slots[i] = 0
            bounds[i, :axis_count] = LARGEST
            bounds[i, axis_count:] = SMALLEST
            continue
        slot = slots[ordered[i]]
        leaf_slots[i] = slot
        for axis in range(dimensions):
            bounds[i, axis] = ranges[slot, axis]
            bounds[i, axis_count + axis] = ranges[slot, dimensions + axis]
        if axis_count > dimensions:
            every = groups[slot] == EVERY_GROUP
            bounds[i, dimensions] = SMALLEST if every else i64(groups[slot])
            bounds[i, axis_count + dimensions] = LARGEST if every else i64(groups[slot])


@kernel
def pack_level(bounds: Int64s, axes: Axes, keys: UInt16s, scales: Float64s, parents: Int64s) -> None:
    """Nodes over 32 ranges each, and the range of every node."""
    axis_count = len(axes.is_float)
    for node in range(len(keys)):
        begin, end = node * LANES, min((node + 1) * LANES, len(bounds))
        for axis in range(axis_count):
            is_float, floor, ceiling = axes.is_float[axis], axes.floors[axis], axes.ceilings[axis]
            first, last = i64(LARGEST), i64(SMALLEST)
            least, most = i64(LARGEST), i64(SMALLEST)
            for child in range(begin, end):
                low, high = bounds[child, axis], bounds[child, axis_count + axis]
                first, last = min(first, low), max(last, high)
                if low > high:
                    continue
                if low > floor:
                    least, most = min(least, low), max(most, low)
                if high < ceiling:
                    least, most = min(least, high), max(most, high)
            parents[node, axis], parents[node, axis_count + axis] = first, last
            if least > most:
                least = most = i64(0)
            origin, scale = scale_of(least, most, is_float)
            scales[node, axis, 0], scales[node, axis, 1] = origin, scale
            for lane in range(LANES):
                child = begin + lane
                low_key, high_key = np.uint16(FARTHEST), np.uint16(0)
                if child < end and bounds[child, axis] <= bounds[child, axis_count + axis]:
                    low, high = bounds[child, axis], bounds[child, axis_count + axis]
                    low_key, high_key = np.uint16(0), np.uint16(FARTHEST)
                    if low > floor:
                        low_key = key_of(decode(low, is_float), origin, scale)
                    if high < ceiling:
                        high_key = key_of(decode(high, is_float), origin, scale)
                keys[node, axis, 0, lane] = low_key
                keys[node, axis, 1, lane] = high_key


@allocating_kernel
def search_tree(
    tree: PackedTree,
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

    Blocks of points go down together, so that the nodes of one wait for memory while another is compared; a block
    that visits too many nodes is halved.
    """
    keys, scales, slots, levels, numbers = tree.keys, tree.scales, tree.slots, tree.levels, tree.numbers
    is_float = tree.is_float
    axis_count = len(is_float)
    depth = len(levels) - 1
    node_keys = 2 * LANES * axis_count
    room = len(numbers) + _QUEUE
    nodes, next_nodes = np.empty(room, np.uint32), np.empty(room, np.uint32)
    rows, next_rows = np.empty(room, np.uint32), np.empty(room, np.uint32)
    decoded_points = np.empty((_BLOCK, axis_count))
    counts = np.empty(_BLOCK, np.int64)
    block = _BLOCK
    begin = first
    at = offsets[first]
    while begin < len(absent):
        # A block of points waits at the root.
        size = min(block, len(absent) - begin)
        waiting = 0
        for i in range(size):
            counts[i] = 0
            if not absent[begin + i]:
                nodes[waiting] = 0
                rows[waiting] = i
                waiting += 1
                for axis in range(axis_count):
                    decoded_points[i, axis] = decode(points[begin + i, axis], is_float[axis])
        # Level by level, every waiting node is replaced by those of its children that may hold its point.
        level = 0
        crowded = False
        while level < depth - 1 and not crowded:
            base, found = levels[level], 0
            for entry in range(waiting):
                ahead = base + i64(nodes[min(entry + _AHEAD, waiting - 1)])
                prefetch(scales, 2 * axis_count * ahead)
                for line in range(2 * axis_count):
                    prefetch(keys, node_keys * ahead + LANES * line)
                node, i = i64(nodes[entry]), i64(rows[entry])
                passed = u64(ALL_LANES)
                for axis in range(axis_count):
                    origin, scale = scales[base + node, axis, 0], scales[base + node, axis, 1]
                    key = key_of(decoded_points[i, axis], origin, scale)
                    start = node_keys * (base + node) + 2 * LANES * axis
                    passed &= between_32(keys, start, LANES, key)[0]
                if found + 2 * LANES > room:
                    crowded = True
                    break
                compress_32(next_nodes, found, numbers, LANES * node, passed, 0)
                for _ in range(bit_count(passed)):
                    next_rows[found] = i
                    found += 1
            nodes, next_nodes = next_nodes, nodes
            rows, next_rows = next_rows, rows
            waiting = found
            level += 1
        # Too many nodes wait: begin again with half of the points.
        if crowded:
            block = max(1, size // 2)
            continue
        # In the leaves, boxes whose keys do not tell are compared exactly.
        base = levels[depth - 1]
        for entry in range(waiting):
            ahead = i64(nodes[min(entry + _AHEAD, waiting - 1)])
            prefetch(scales, 2 * axis_count * (base + ahead))
            prefetch(slots, LANES * ahead)
            prefetch(slots, LANES * ahead + 16)
            for line in range(2 * axis_count):
                prefetch(keys, node_keys * (base + ahead) + LANES * line)
            node, i = i64(nodes[entry]), i64(rows[entry])
            passed = u64(ALL_LANES)
            surely = u64(ALL_LANES)
            for axis in range(axis_count):
                origin, scale = scales[base + node, axis, 0], scales[base + node, axis, 1]
                key = key_of(decoded_points[i, axis], origin, scale)
                start = node_keys * (base + node) + 2 * LANES * axis
                within, strictly = between_32(keys, start, LANES, key)
                passed &= within
                surely &= within if scale == 1.0 and not is_float[axis] else strictly
            undecided = passed & ~surely
            if undecided != 0:
                passed = decide(passed, undecided, ranges, groups, slots, LANES * node, points, begin + i)
            if at + 2 * LANES > len(out):
                return begin
            compress_32(out, at, slots, LANES * node, passed, shift)
            hits = bit_count(passed)
            counts[i] += hits
            at += hits
        # Leaves came in the order of points, so that counts give the offsets.
        at = offsets[begin]
        for i in range(size):
            at += counts[i]
            offsets[begin + i + 1] = at
        begin += size
        block = min(_BLOCK, 2 * block)
    return begin


def tree_slots(tree: PackedTree) -> UInt32s:
    """The slots of all boxes in the tree."""
    leaves = int(tree.levels[-1] - tree.levels[-2])
    shape = (-1, len(tree.is_float), 2, LANES)
    keys = tree.keys[:-PADDING].reshape(shape)[len(tree.scales) - leaves :]
    present = keys[:, 0, 0] <= keys[:, 0, 1]
    return np.compress(present.reshape(-1), tree.slots[: leaves * LANES])


def check_tree(tree: PackedTree, ranges: Int64s, groups: UInt32s, axes: Axes) -> None:
    """Assert what holds between the arrays of a tree."""
    slots = tree_slots(tree)
    assert len(slots) == int(tree.boxes[0]), "every box is in one leaf"
    assert len(np.unique(slots)) == len(slots), "no box is stored twice"
    assert tree.levels[1] == 1, "there is one root"
    axis_count = len(tree.is_float)
    keys = tree.keys[:-PADDING].reshape(-1, axis_count, 2, LANES)
    leaves = int(tree.levels[-1] - tree.levels[-2])
    bounds = np.empty((leaves * LANES, 2 * axis_count), np.int64)
    present = (keys[-leaves:, 0, 0] <= keys[-leaves:, 0, 1]).reshape(-1)
    ordered = np.where(present, np.arange(leaves * LANES), _NOBODY).astype(np.uint32)
    arrange(ranges, groups, tree.slots[: leaves * LANES].copy(), ordered, bounds, np.empty(len(ordered), np.uint32))
    for level in range(len(tree.levels) - 2, -1, -1):
        begin, end = tree.levels[level : level + 2].tolist()
        scales = np.empty((end - begin, axis_count, 2))
        expected, parents = np.empty_like(keys[begin:end]), np.empty((end - begin, 2 * axis_count), np.int64)
        pack_level(bounds, axes, expected, scales, parents)
        assert np.array_equal(expected, keys[begin:end]), "keys enclose what is below them"
        assert np.array_equal(scales, tree.scales[begin:end]), "scales follow the ranges"
        bounds = parents
