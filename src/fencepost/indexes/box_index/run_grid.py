"""RunGrid: boxes of two dimensions in small cells, most of whose answer is two runs to copy.

A coarse grid of roots lies over the bulk of the boxes. Every root has a window around the corners that fall into it,
cut into g x g cells, g such that a cell has a set number of corners on average. Within a cell coordinates are 16-bit
keys, the same function for bounds and points, monotone in the decoded value. A box that meets a cell covers it, has
one edge in it, one corner, or more: that is its class there. The slots of a cell are stored as

    [right edge, by last][covers][left edge, by first][top edge, by last][bottom edge, by first][corners][others]

so that those of the first three classes that hold a point are one run, those of the next two another. Corners
and others are compared, 32 at a time. Where a key equals the point's, the exact rows decide, unless all values are
whole numbers that have a key each.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from fencepost.compiled import allocating_kernel, kernel, kernel_piece
from fencepost.indexes.arrays import Bools, Float64s, Int64s, UInt16s, UInt32s, i64
from fencepost.indexes.box_index.rows import FARTHEST, Axes
from fencepost.indexes.kernels.radix import sorted_positions
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.matches import answer_array
from fencepost.indexes.slice_list.window_kernels import decode

RIGHT, LEFT, TOP, BOTTOM, LEFT_BOTTOM, LEFT_TOP, RIGHT_TOP, RIGHT_BOTTOM, COVERS, OTHERS = range(10)
_CLASSES = 10
HEADER = 6
"""Words before the keys of a cell: the ends of the first eight classes, 16 bits each; how many cover; the others."""
_CORNERS_PER_CELL, _MORE_PER_CELL = 24.0, 1.25
"""Corners per cell to begin with, and the factor to try next where that takes too much room."""
_USUAL_ROOM = 32.0
"""Bytes per box for which that is a good begin; with more room, cells begin smaller."""
_MOST_CELLS_PER_SIDE = 128
_BOXES_PER_ROOT = 512
_BOXES_PER_FINE_ROOT = 16
_FEWEST_ROOTS_PER_SIDE, _MOST_ROOTS_PER_SIDE = 4, 250
_FEWER_ROOTS = 1.5
"""The factor by which roots become fewer where boxes span too many of them."""
_LEAST_SHARE_OF_BOXES = 0.5
"""A grid that holds fewer of the boxes is not worth a second structure for the others."""
_LEAST_SHARE_OF_ROOTS = 0.1
"""Where fewer roots hold anything, boxes are clustered: a tree tells the clusters of a root apart."""
ROOTS_PER_BOX = 4
"""Roots that a box may span on average: more would store it too often."""
_SAMPLE = 16
_WIDEST_WHOLE_CELL = 32000.0
_BELOW, _LOWEST, _KEYS, _ABOVE = 1, 2, 65530.0, 65534
_GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)
LONGEST = 65535
"""Edges, or corners, of a cell that its header can count."""
MOST_WORDS = 2**32 - 1 - PADDING
SPARE = 8
"""The part of all words that is added as room for cells that change: memory once they do."""


class RunGrid(NamedTuple):
    """The arrays of a grid.

    Invariants: (1) root r has the cells ``first[r] .. first[r] + sides[r]**2``, x-major; (2) cell c is the block
    ``words[a:b]`` with ``a, b = blocks[c]``, empty if no box meets it: header, keys, slots; (3) within a class, edges
    ascend by their exact ordinal; (4) a box is in every cell that it meets, once.

    A change writes the cells that it concerns anew behind all others (see `grid_changes`), and makes a new grid of the
    same words: who reads the old one never looks there.
    """

    frame: Float64s
    """Origin x, origin y, roots per unit in x, in y."""
    windows: Float64s
    """Per root: origin x, origin y, cells per unit in x, in y."""
    first: UInt32s
    sides: UInt32s
    blocks: UInt32s
    words: UInt32s
    is_float: Bools
    """Per axis: the values are float64."""
    boxes: Int64s
    """[how many boxes there are, roots per side, whether every whole number has a key of its own, entries, where the
    last block ends]"""

    def to_arrays(self) -> dict[str, Any]:
        """What is saved of a grid whose cells lie in their order, one behind the other."""
        fields = self._asdict()
        blocks = fields.pop("blocks")
        words = self.words[: int(self.boxes[4]) + PADDING]
        return fields | {"starts": np.append(blocks[:, 0], blocks[-1:, 1]), "words": words, "boxes": self.boxes[:4]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """The grid that was saved."""
        fields = dict(arrays)
        starts = fields.pop("starts")
        fields["boxes"] = np.append(fields["boxes"], int(starts[-1]))
        return cls(blocks=np.stack([starts[:-1], starts[1:]], axis=1), **fields)


class Cell(NamedTuple):
    """Where in its block a cell has what.

    First edges by class: right, left, top, bottom; each `end` is behind its class. Then corners, each with two keys,
    then others, with four. Slots are in that order, those that cover the cell between right and left.
    """

    right_end: int
    left_end: int
    top_end: int
    edges: int
    corners: int
    others: int
    covers: int
    first_corners: tuple[int, int, int]
    """Behind the corners left and bottom, left and top, right and top; right and bottom are the last."""
    edge_keys: int
    corner_keys: int
    other_keys: int
    slots: int


def build_grid(ranges: Int64s, slots: UInt32s, axes: Axes, room: float) -> tuple[RunGrid | None, UInt32s]:
    """A grid over as many of the boxes in these slots as suit it, and the slots of the others.

    It may take `room` bytes per box; none is built where that does not suffice. `ranges` has, by slot, the first
    ordinals of both dimensions, then the last.
    """
    if _is_clustered(ranges, slots, axes):
        return None, slots
    side = _roots_per_side(len(slots), _BOXES_PER_ROOT)
    while side >= _FEWEST_ROOTS_PER_SIDE:
        grid, others = _build_with_roots(ranges, slots, axes, side, room)
        if grid is not None:
            return grid, others
        side = int(side / _FEWER_ROOTS)
    return None, slots


def _roots_per_side(boxes: int, per_root: int) -> int:
    return int(min(max((boxes / per_root) ** 0.5, _FEWEST_ROOTS_PER_SIDE), _MOST_ROOTS_PER_SIDE))


def _is_clustered(ranges: Int64s, slots: UInt32s, axes: Axes) -> bool:
    """Whether most of the plane is empty: then a root holds several clusters, and a tree tells them apart better."""
    side = _roots_per_side(len(slots), _BOXES_PER_FINE_ROOT)
    spans = np.empty((len(slots), 4), np.uint8)
    span_roots(ranges, slots, axes, _frame(ranges, slots, axes, side), side, spans)
    held = np.bincount(spans[:, 0].astype(np.int64) * side + spans[:, 2], minlength=side * side)
    return bool(np.count_nonzero(held) < _LEAST_SHARE_OF_ROOTS * side * side)


def _build_with_roots(
    ranges: Int64s, slots: UInt32s, axes: Axes, side: int, room: float
) -> tuple[RunGrid | None, UInt32s]:
    """A grid with so many roots per side and cells as small as the room allows, and the slots it leaves out."""
    frame = _frame(ranges, slots, axes, side)
    spans = np.empty((len(slots), 4), np.uint8)
    span_roots(ranges, slots, axes, frame, side, spans)
    # Boxes that cover too many roots go elsewhere: the largest ones, until the rest costs what it may.
    covered = (spans[:, 1] - spans[:, 0] + 1).astype(np.int64) * (spans[:, 3] - spans[:, 2] + 1)
    others = np.zeros(0, np.uint32)
    if covered.sum() > ROOTS_PER_BOX * len(slots):
        order = np.argsort(covered, kind="stable")
        kept = np.sort(order[: np.searchsorted(np.cumsum(covered[order]), ROOTS_PER_BOX * len(slots))])
        if len(kept) < _LEAST_SHARE_OF_BOXES * len(slots):
            return None, slots
        others = np.delete(slots, kept)
        slots, spans = slots[kept], spans[kept]
    # The rest by root; how many corners lie in each, how deep boxes lie over it, and which part of it they use.
    by_root = sorted_positions(spans[:, 0].astype(np.int64) * side + spans[:, 2])
    ordered, spans = slots[by_root], spans[by_root]
    corners, depth = np.zeros(side * side, np.int64), np.zeros((side + 1, side + 1), np.int64)
    edges = np.empty((side * side, 4))
    edges[:, :2], edges[:, 2:] = np.inf, -np.inf
    tally_roots(ranges, ordered, axes, spans, side, corners, depth, edges)
    deep = np.cumsum(np.cumsum(depth, 0), 1)[:side, :side].reshape(-1)
    most = _most_cells_per_side(edges, axes)
    # Cells as small as the room allows: larger ones are tried until a sample, and then all boxes, fit.
    per_cell = _CORNERS_PER_CELL * min(1.0, _USUAL_ROOM / room)
    while True:
        target = np.maximum(per_cell, 0.5 * min(1.0, per_cell / _CORNERS_PER_CELL) * np.maximum(deep - corners / 2, 0))
        sides = np.clip(np.round(np.sqrt(corners / target)), 1, most).astype(np.uint32)
        windows, whole = _windows(edges, sides, axes)
        first = (np.cumsum(sides.astype(np.int64) ** 2) - sides.astype(np.int64) ** 2).astype(np.uint32)
        meta = np.array([len(ordered), side, whole, 0, 0])
        cells = int(first[-1]) + int(sides[-1]) ** 2
        no_blocks, no_words = np.zeros((0, 2), np.uint32), np.zeros(0, np.uint32)
        grid = RunGrid(frame, windows, first, sides, no_blocks, no_words, axes.is_float, meta)
        # The sample goes first: most trials end with it.
        few = ordered[::_SAMPLE], spans[::_SAMPLE]
        for (some, some_spans), weight in ((few, _SAMPLE), ((ordered, spans), 1)):
            counts = np.zeros((cells, _CLASSES), np.uint32)
            visit_cells(grid, ranges, some, axes, some_spans, False, counts)
            fixed = 40 * len(sides) + 8 * cells
            taken = weight * _entry_bytes(counts) + 4 * HEADER * np.count_nonzero(counts.any(1)) + fixed
            if taken > room * len(ordered):
                break
        else:
            return _fill(grid, ranges, ordered, axes, spans, counts), others
        if sides.max() == 1:
            return None, slots
        per_cell *= _MORE_PER_CELL


def _frame(ranges: Int64s, slots: UInt32s, axes: Axes, side: int) -> Float64s:
    """Roots over the bulk of the boxes; what lies outside belongs to the outermost."""
    sample = ranges[slots[:: max(1, len(slots) // 4096)]]
    frame = np.empty(4)
    for axis in range(2):
        bounded = [
            sample[sample[:, axis] > axes.floors[axis], axis],
            sample[sample[:, 2 + axis] < axes.ceilings[axis], 2 + axis],
        ]
        values = decode_all(np.concatenate(bounded), axes.is_float[axis])
        low, high = np.quantile(values, [0.005, 0.995]).tolist() if len(values) else (0.0, 1.0)
        reach = max(high - low, abs(low) * 1e-12, 1e-280)
        frame[axis], frame[2 + axis] = low - 0.01 * reach, side / (1.02 * reach)
    return frame


def _most_cells_per_side(edges: Float64s, axes: Axes) -> Float64s:
    """Per root: a cell that holds one whole number needs no smaller ones."""
    if axes.is_float[0]:
        return np.full(len(edges), float(_MOST_CELLS_PER_SIDE))
    wholes = np.where(np.isfinite(edges).all(1), (edges[:, 2:] - edges[:, :2]).max(1) + 1, 1)
    return np.minimum(wholes, _MOST_CELLS_PER_SIDE)


def _windows(edges: Float64s, sides: UInt32s, axes: Axes) -> tuple[Float64s, bool]:
    """Origin and scale of every root's cells, and whether each whole number has a key of its own in all of them."""
    found = np.isfinite(edges[:, 0])[:, np.newaxis] & np.isfinite(edges[:, 1])[:, np.newaxis]
    lows, highs = np.where(found, edges[:, :2], 0.0), np.where(found, edges[:, 2:], 0.0)
    real = bool(axes.is_float[0])
    reach = (
        np.maximum((highs - lows) * (1 + 1e-9), np.maximum(np.abs(lows) * 1e-12, 1e-280)) if real else highs - lows + 1
    )
    scales = sides[:, np.newaxis] / reach
    whole = not real and bool((1 / scales <= _WIDEST_WHOLE_CELL).all() and (np.abs(edges[found[:, 0]]) < 2.0**51).all())
    return np.hstack([lows, scales]), whole


def _entry_bytes(counts: UInt32s) -> int:
    """Bytes of keys and slots for so many boxes of each class."""
    each = counts.sum(0, dtype=np.int64)
    edges, corners = int(each[:LEFT_BOTTOM].sum()), int(each[LEFT_BOTTOM:COVERS].sum())
    return 6 * edges + 8 * corners + 4 * int(each[COVERS]) + 12 * int(each[OTHERS])


def _fill(
    grid: RunGrid, ranges: Int64s, ordered: UInt32s, axes: Axes, spans: UInt16s, counts: UInt32s
) -> RunGrid | None:
    """The grid with its blocks written; None if they would not fit 32-bit positions."""
    starts = np.empty(len(counts) + 1, np.int64)
    total = lay_out(counts, starts)
    if total > MOST_WORDS:
        return None
    words = np.zeros(total + total // SPARE + PADDING, np.uint32)
    entries = int(counts.sum(dtype=np.int64))
    boxes = np.append(grid.boxes[:3], [entries, total])
    grid = grid._replace(blocks=np.stack([starts[:-1], starts[1:]], axis=1).astype(np.uint32), words=words, boxes=boxes)
    write_headers(grid, counts)
    visit_cells(grid, ranges, ordered, axes, spans, True, counts)
    sort_edges(grid, ranges)
    return grid


@allocating_kernel
def decode_all(ordinals: Int64s, is_float: bool) -> Any:
    """Decoded values of ordinals."""
    values = np.empty(len(ordinals))
    for i in range(len(ordinals)):
        values[i] = decode(ordinals[i], is_float)
    return values


@kernel
def root_of(x: float, origin: float, scale: float, side: int) -> Any:
    """The row or column of roots of a decoded value."""
    return i64(min(max((x - origin) * scale, 0.0), side - 1.0))


@kernel
def cell_of(x: float, origin: float, scale: float, side: int) -> tuple[int, int]:
    """The row or column of cells of a decoded value in its root, and its key there."""
    u = (x - origin) * scale
    if u < 0.0:
        return i64(0), i64(_BELOW)
    if u >= side:
        return i64(side) - 1, i64(_ABOVE)
    cell = i64(u)
    return cell, _LOWEST + i64((u - cell) * _KEYS)


@kernel_piece
def read_cell(words: UInt32s, halves: UInt16s, start: int) -> Cell:
    """The header of a block that is not empty; `halves` are the same words by halves."""
    half = 2 * start
    edges, corners, others = i64(halves[half + 3]), i64(halves[half + 7]), i64(words[start + 5])
    edge_keys = half + 2 * HEADER
    corner_keys = edge_keys + ((edges + 1) & ~1)
    other_keys = corner_keys + 2 * corners
    return Cell(
        i64(halves[half]),
        i64(halves[half + 1]),
        i64(halves[half + 2]),
        edges,
        corners,
        others,
        i64(words[start + 4]),
        (i64(halves[half + 4]), i64(halves[half + 5]), i64(halves[half + 6])),
        edge_keys,
        corner_keys,
        other_keys,
        (other_keys >> 1) + 2 * others,
    )


@kernel_piece
def side_cell(x: float, beyond: float, origin: float, scale: float, side: int, whole: bool) -> tuple[int, int, bool]:
    """The row or column of cells of a box's side, its key there, and whether the side lies within that cell.

    A whole number whose neighbour beyond the side is in another cell lies on the cell's edge.
    """
    cell, key = cell_of(x, origin, scale, side)
    return cell, key, not whole or cell == cell_of(beyond, origin, scale, side)[0]


@kernel
def span_roots(ranges: Int64s, slots: UInt32s, axes: Axes, frame: Float64s, side: int, spans: UInt16s) -> None:
    """The first and last root of every box along each axis."""
    for row in range(len(slots)):
        for axis in range(2):
            first, last = ranges[slots[row], axis], ranges[slots[row], 2 + axis]
            origin, scale, is_float = frame[axis], frame[2 + axis], axes.is_float[axis]
            spans[row, 2 * axis] = 0
            spans[row, 2 * axis + 1] = side - 1
            if first > axes.floors[axis]:
                spans[row, 2 * axis] = root_of(decode(first, is_float), origin, scale, side)
            if last < axes.ceilings[axis]:
                spans[row, 2 * axis + 1] = root_of(decode(last, is_float), origin, scale, side)


@kernel
def tally_roots(
    ranges: Int64s,
    slots: UInt32s,
    axes: Axes,
    spans: UInt16s,
    side: int,
    corners: Int64s,
    depth: Int64s,
    edges: Float64s,
) -> None:
    """Per root: corners, boxes that meet it (as differences), and the smallest and largest coordinates in it."""
    for row in range(len(slots)):
        slot = slots[row]
        west, east, south, north = i64(spans[row, 0]), i64(spans[row, 1]), i64(spans[row, 2]), i64(spans[row, 3])
        depth[west, south] += 1
        depth[west, north + 1] -= 1
        depth[east + 1, south] -= 1
        depth[east + 1, north + 1] += 1
        for right in range(2):
            x_known = ranges[slot, 0] > axes.floors[0] if right == 0 else ranges[slot, 2] < axes.ceilings[0]
            x = decode(ranges[slot, 2 * right], axes.is_float[0])
            for top in range(2):
                y_known = ranges[slot, 1] > axes.floors[1] if top == 0 else ranges[slot, 3] < axes.ceilings[1]
                y = decode(ranges[slot, 1 + 2 * top], axes.is_float[1])
                root = (east if right else west) * side + (north if top else south)
                corners[root] += 1
                if x_known:
                    edges[root, 0], edges[root, 2] = min(edges[root, 0], x), max(edges[root, 2], x)
                if y_known:
                    edges[root, 1], edges[root, 3] = min(edges[root, 1], y), max(edges[root, 3], y)


@kernel
def class_of(left: bool, right: bool, bottom: bool, top: bool) -> Any:
    """The class of a box in a cell, by the sides that lie in it."""
    sides = i64(left) + i64(right) + i64(bottom) + i64(top)
    if sides == 0:
        return COVERS
    if sides == 1:
        return LEFT if left else RIGHT if right else BOTTOM if bottom else TOP
    if sides > 2 or (left and right) or (bottom and top):
        return OTHERS
    if left:
        return LEFT_BOTTOM if bottom else LEFT_TOP
    return RIGHT_BOTTOM if bottom else RIGHT_TOP


class Sides(NamedTuple):
    """A box as decoded values, and which of its sides are bounded: left, right, bottom, top."""

    bounded: tuple[bool, bool, bool, bool]
    x_low: float
    x_high: float
    y_low: float
    y_high: float


class Reach(NamedTuple):
    """What a box meets of a root: its cells, the keys of its sides in them, and which sides lie in the outermost.

    Keys are of left, right, bottom and top.
    """

    from_x: int
    to_x: int
    from_y: int
    to_y: int
    keys: tuple[int, int, int, int]
    left: bool
    right: bool
    bottom: bool
    top: bool


@kernel_piece
def read_sides(ranges: Int64s, slot: int, axes: Axes) -> Sides:
    """The box in a slot."""
    bounded_x = ranges[slot, 0] > axes.floors[0], ranges[slot, 2] < axes.ceilings[0]
    bounded_y = ranges[slot, 1] > axes.floors[1], ranges[slot, 3] < axes.ceilings[1]
    real_x, real_y = axes.is_float[0], axes.is_float[1]
    return Sides(
        (bounded_x[0], bounded_x[1], bounded_y[0], bounded_y[1]),
        decode(ranges[slot, 0], real_x),
        decode(ranges[slot, 2], real_x),
        decode(ranges[slot, 1], real_y),
        decode(ranges[slot, 3], real_y),
    )


@kernel_piece
def reach_in_root(
    windows: Float64s, root: int, side: int, whole: bool, box: Sides, is_ends: tuple[bool, bool, bool, bool]
) -> Reach:
    """What a box meets of a root; `is_ends` are the roots that it ends in: on the left, right, at the bottom, top."""
    from_x, to_x, from_y, to_y = i64(0), side - 1, i64(0), side - 1
    left_key, right_key, bottom_key, top_key = i64(0), i64(FARTHEST), i64(0), i64(FARTHEST)
    left, right = box.bounded[0] and is_ends[0], box.bounded[1] and is_ends[1]
    bottom, top = box.bounded[2] and is_ends[2], box.bounded[3] and is_ends[3]
    x, x_scale = windows[root, 0], windows[root, 2]
    y, y_scale = windows[root, 1], windows[root, 3]
    if left:
        from_x, left_key, left = side_cell(box.x_low, box.x_low - 1, x, x_scale, side, whole)
    if right:
        to_x, right_key, right = side_cell(box.x_high, box.x_high + 1, x, x_scale, side, whole)
    if bottom:
        from_y, bottom_key, bottom = side_cell(box.y_low, box.y_low - 1, y, y_scale, side, whole)
    if top:
        to_y, top_key, top = side_cell(box.y_high, box.y_high + 1, y, y_scale, side, whole)
    return Reach(from_x, to_x, from_y, to_y, (left_key, right_key, bottom_key, top_key), left, right, bottom, top)


@kernel
def visit_cells(
    grid: RunGrid, ranges: Int64s, slots: UInt32s, axes: Axes, spans: UInt16s, fill: bool, counts: UInt32s
) -> None:
    """Count every box in the cells it meets, by class; or write it there, `counts` being how many are missing."""
    windows, firsts, sides, blocks, words = grid.windows, grid.first, grid.sides, grid.blocks, grid.words
    halves = words.view(np.uint16)
    roots, whole = grid.boxes[1], grid.boxes[2] != 0
    for row in range(len(slots)):
        slot = i64(slots[row])
        sides_of = read_sides(ranges, slot, axes)
        west, east, south, north = i64(spans[row, 0]), i64(spans[row, 1]), i64(spans[row, 2]), i64(spans[row, 3])
        for column in range(west, east + 1):
            for line in range(south, north + 1):
                root = column * roots + line
                side = i64(sides[root])
                is_ends = column == west, column == east, line == south, line == north
                reach = reach_in_root(windows, root, side, whole, sides_of, is_ends)
                left_key, right_key, bottom_key, top_key = reach.keys
                for i in range(reach.from_x, reach.to_x + 1):
                    left, right = reach.left and i == reach.from_x, reach.right and i == reach.to_x
                    for j in range(reach.from_y, reach.to_y + 1):
                        bottom, top = reach.bottom and j == reach.from_y, reach.top and j == reach.to_y
                        cell = i64(firsts[root]) + i * side + j
                        # Its class in a cell is counted, or tells where its keys and its slot belong.
                        kind = class_of(left, right, bottom, top)
                        if not fill:
                            counts[cell, kind] += 1
                            continue
                        if kind < COVERS and counts[cell, kind] == 0:
                            kind = OTHERS
                        counts[cell, kind] -= 1
                        at = i64(counts[cell, kind])
                        start = i64(blocks[cell, 0])
                        half = 2 * start
                        block = read_cell(words, halves, start)
                        behind_edges = block.slots + block.covers + block.edges
                        if kind < LEFT_BOTTOM:
                            place = at + (i64(halves[half + kind - 1]) if kind > 0 else 0)
                            key = right_key
                            if kind == LEFT:
                                key = left_key
                            elif kind == TOP:
                                key = top_key
                            elif kind == BOTTOM:
                                key = bottom_key
                            halves[block.edge_keys + place] = key
                            words[block.slots + place + (block.covers if kind > RIGHT else 0)] = slot
                        elif kind < COVERS:
                            place = at + (i64(halves[half + kind - 1]) if kind > LEFT_BOTTOM else 0)
                            halves[block.corner_keys + place] = left_key if left else right_key
                            halves[block.corner_keys + block.corners + place] = bottom_key if bottom else top_key
                            words[behind_edges + place] = slot
                        elif kind == COVERS:
                            words[block.slots + block.right_end + at] = slot
                        else:
                            halves[block.other_keys + at] = left_key if left else 0
                            halves[block.other_keys + block.others + at] = right_key if right else FARTHEST
                            halves[block.other_keys + 2 * block.others + at] = bottom_key if bottom else 0
                            halves[block.other_keys + 3 * block.others + at] = top_key if top else FARTHEST
                            words[behind_edges + block.corners + at] = slot


@kernel
def lay_out(counts: UInt32s, starts: Int64s) -> Any:
    """Where the block of each cell starts; classes too large for 16-bit counts are moved to the others."""
    at = i64(0)
    for cell in range(len(counts)):
        starts[cell] = at
        edges, corners = i64(0), i64(0)
        for kind in range(LEFT_BOTTOM):
            edges += counts[cell, kind]
            corners += counts[cell, LEFT_BOTTOM + kind]
        for kind in range(COVERS):
            if (edges if kind < LEFT_BOTTOM else corners) > LONGEST:
                counts[cell, OTHERS] += counts[cell, kind]
                counts[cell, kind] = 0
        edges = 0 if edges > LONGEST else edges
        corners = 0 if corners > LONGEST else corners
        covers, others = i64(counts[cell, COVERS]), i64(counts[cell, OTHERS])
        entries = edges + corners + covers + others
        if entries > 0:
            at += HEADER + ((edges + 1) >> 1) + corners + 2 * others + entries
    starts[len(counts)] = at
    return at


@kernel
def write_headers(grid: RunGrid, counts: UInt32s) -> None:
    """The header of every cell."""
    halves = grid.words.view(np.uint16)
    for cell in range(len(counts)):
        start = i64(grid.blocks[cell, 0])
        if start == i64(grid.blocks[cell, 1]):
            continue
        for base in (0, LEFT_BOTTOM):
            total = 0
            for kind in range(base, base + LEFT_BOTTOM):
                total += counts[cell, kind]
                halves[2 * start + kind] = total
        grid.words[start + 4] = counts[cell, COVERS]
        grid.words[start + 5] = counts[cell, OTHERS]


@kernel
def sort_edges(grid: RunGrid, ranges: Int64s) -> None:
    """Bring the edges of every cell in the order of their exact ordinals."""
    words, blocks = grid.words, grid.blocks
    halves = words.view(np.uint16)
    for cell in range(len(blocks)):
        start = i64(blocks[cell, 0])
        if start == i64(blocks[cell, 1]):
            continue
        block = read_cell(words, halves, start)
        keys = block.edge_keys
        begin = i64(0)
        for kind in range(LEFT_BOTTOM):
            end = i64(halves[2 * start + kind])
            column = 2 if kind == RIGHT else 0 if kind == LEFT else 3 if kind == TOP else 1
            base = block.slots + (block.covers if kind > RIGHT else 0)
            for gap in _GAPS:
                for i in range(begin + gap, end):
                    key, slot = halves[keys + i], words[base + i]
                    value = ranges[slot, column]
                    j = i
                    while j >= begin + gap and ranges[words[base + j - gap], column] > value:
                        halves[keys + j] = halves[keys + j - gap]
                        words[base + j] = words[base + j - gap]
                        j -= gap
                    halves[keys + j] = key
                    words[base + j] = slot
            begin = end


@kernel
def collect_slots(grid: RunGrid, out: UInt32s) -> Any:
    """The slots of all cells, one after the other; how many there are."""
    words, blocks = grid.words, grid.blocks
    halves = words.view(np.uint16)
    at = 0
    for cell in range(len(blocks)):
        start, end = i64(blocks[cell, 0]), i64(blocks[cell, 1])
        if start == end:
            continue
        for word in range(read_cell(words, halves, start).slots, end):
            out[at] = words[word]
            at += 1
    return at


def grid_slots(grid: RunGrid) -> UInt32s:
    """The slots of all boxes in the grid."""
    slots = np.empty(int(grid.boxes[3]), np.uint32)
    assert collect_slots(grid, slots) == len(slots), "every entry was counted"
    return np.unique(slots)


def check_grid(grid: RunGrid, ranges: Int64s, axes: Axes) -> None:
    """Assert what holds between the arrays of a grid: it is the one that its boxes would be given anew."""
    slots = grid_slots(grid)
    side = int(grid.boxes[1])
    assert len(slots) == int(grid.boxes[0]), "every box is in some cell"
    spans = np.empty((len(slots), 4), np.uint8)
    span_roots(ranges, slots, axes, grid.frame, side, spans)
    counts = np.zeros((len(grid.blocks), _CLASSES), np.uint32)
    visit_cells(grid, ranges, slots, axes, spans, False, counts)
    again = _fill(grid, ranges, slots, axes, spans, counts)
    assert again is not None
    mine, theirs = (np.diff(each.blocks.astype(np.int64), axis=1) for each in (again, grid))
    assert np.array_equal(mine, theirs), "every box is in the cells it meets, once"
    end = int(again.boxes[4])
    own, other = (np.sort(pack_blocks(each, 0).words[:end].view(np.uint16)) for each in (again, grid))
    assert np.array_equal(own, other), "keys and slots follow the ranges"


def pack_blocks(grid: RunGrid, spare: int) -> RunGrid:
    """The same grid with its blocks in the order of cells in new words, and so many spare words behind them."""
    sizes = np.diff(grid.blocks.astype(np.int64), axis=1)[:, 0]
    ends = np.cumsum(sizes)
    words = answer_array(int(ends[-1]) + spare, np.uint32)
    blocks = np.stack([ends - sizes, ends], axis=1).astype(np.uint32)
    copy_blocks(grid.blocks, grid.words, blocks, words)
    boxes = grid.boxes.copy()
    boxes[4] = ends[-1]
    return grid._replace(blocks=blocks, words=words, boxes=boxes)


@kernel
def copy_blocks(blocks: UInt32s, words: UInt32s, new_blocks: UInt32s, new_words: UInt32s) -> None:
    """Copy the block of every cell to where it will be."""
    for cell in range(len(blocks)):
        start = i64(blocks[cell, 0])
        to = i64(new_blocks[cell, 0])
        for word in range(i64(blocks[cell, 1]) - start):
            new_words[to + word] = words[start + word]
