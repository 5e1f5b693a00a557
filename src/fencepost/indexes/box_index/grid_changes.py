"""Live changes of a RunGrid: the cells that boxes come to or go from are written anew, behind all others.

A change makes a new grid. It shares the words of the old one, whose blocks stay where they are for those who read
them; only the table of blocks is copied. Words that no cell needs any longer are left out when the room behind the
last block is used up: then all blocks are copied, with room for more.
"""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, UInt16s, UInt32s, i64
from fencepost.indexes.box_index.rows import FARTHEST, Axes
from fencepost.indexes.box_index.run_grid import (
    COVERS,
    HEADER,
    LEFT,
    LEFT_BOTTOM,
    LEFT_TOP,
    LONGEST,
    MOST_WORDS,
    OTHERS,
    RIGHT,
    RIGHT_BOTTOM,
    ROOTS_PER_BOX,
    SPARE,
    TOP,
    RunGrid,
    class_of,
    pack_blocks,
    reach_in_root,
    read_cell,
    read_sides,
    span_roots,
)
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.matches import answer_array

_MOST_CELLS = 512
"""Cells of a box that are written anew; a box in more of them is cheaper to keep beside the grid."""
_EACH_ENTRY = 3
"""Words that one more box takes in a cell at most: four keys and its slot."""


class Entries(NamedTuple):
    """Boxes in cells, in the order of cells: one row for each box and cell it meets."""

    cells: UInt32s
    slots: UInt32s
    kinds: UInt8s
    keys: UInt16s
    """Of the left, right, lower and upper side, 0 or `FARTHEST` where it does not lie in the cell."""
    are_new: bool
    """The boxes come to the cells; else they go."""


class Reached(NamedTuple):
    """Boxes, the roots that they span, and how many cells each of them meets."""

    slots: UInt32s
    spans: UInt16s
    cells: Int64s

    def rows(self, chosen: Bools) -> "Reached":
        """Some of them."""
        return self if chosen.all() else Reached(*(column[chosen] for column in self))


def reach_cells(grid: RunGrid, ranges: Int64s, slots: UInt32s, axes: Axes) -> Reached:
    """What boxes meet of a grid."""
    spans, cells = np.empty((len(slots), 4), np.uint8), np.zeros(len(slots), np.int64)
    span_roots(ranges, slots, axes, grid.frame, int(grid.boxes[1]), spans)
    count_cells(grid, ranges, slots, axes, spans, cells)
    return Reached(slots, spans, cells)


def fitting_boxes(reached: Reached) -> Bools:
    """Which boxes may come to the cells of a grid: not those that would lie in very many."""
    spans = reached.spans.astype(np.int64)
    covered = (spans[:, 1] - spans[:, 0] + 1) * (spans[:, 3] - spans[:, 2] + 1)
    fits: Bools = (covered <= ROOTS_PER_BOX) & (reached.cells <= _MOST_CELLS)
    return fits


def held_boxes(grid: RunGrid, ranges: Int64s, reached: Reached, axes: Axes) -> Bools:
    """Which boxes are in the cells of a grid."""
    held = np.zeros(len(reached.slots), np.bool_)
    look_up(grid, ranges, reached.slots, axes, reached.spans, held)
    return held


def change_grid(grid: RunGrid, ranges: Int64s, reached: Reached, are_new: bool, axes: Axes) -> RunGrid | None:
    """The grid with some boxes more, or less; None if a cell or the grid would hold more than it can count.

    What is new fits and is not held, what goes is held.
    """
    entries = _entries_of(grid, ranges, reached, are_new, axes)
    is_first = np.ones(len(entries.cells), np.bool_)
    np.not_equal(entries.cells[1:], entries.cells[:-1], out=is_first[1:])
    concerned = grid.blocks[entries.cells[is_first]]
    needed = int(concerned[:, 1].sum(dtype=np.int64)) - int(concerned[:, 0].sum(dtype=np.int64))
    needed += (HEADER + 1) * len(concerned) + _EACH_ENTRY * len(entries.cells)
    if grid.boxes[4] + needed + PADDING > len(grid.words):
        live = int(grid.blocks[:, 1].sum(dtype=np.int64)) - int(grid.blocks[:, 0].sum(dtype=np.int64))
        if live + (live + needed) // SPARE + needed > MOST_WORDS:
            return None
        grid = pack_blocks(grid, needed + (live + needed) // SPARE)
    blocks = answer_array(grid.blocks.size, np.uint32)[: grid.blocks.size].reshape(grid.blocks.shape)
    blocks[:] = grid.blocks
    changed = grid._replace(blocks=blocks, boxes=grid.boxes.copy())
    end = write_cells(changed, ranges, entries, int(grid.boxes[4]))
    if end < 0:
        return None
    sign = 1 if are_new else -1
    changed.boxes[0] += sign * len(reached.slots)
    changed.boxes[3] += sign * len(entries.cells)
    changed.boxes[4] = end
    return changed


def _entries_of(grid: RunGrid, ranges: Int64s, reached: Reached, are_new: bool, axes: Axes) -> Entries:
    """The cells of boxes, in their order."""
    total = int(reached.cells.sum())
    found = Entries(
        np.empty(total, np.uint32),
        np.empty(total, np.uint32),
        np.empty(total, np.uint8),
        np.empty((total, 4), np.uint16),
        are_new,
    )
    list_entries(grid, ranges, reached.slots, axes, reached.spans, found)
    order = np.argsort(found.cells, kind="stable")
    return Entries(found.cells[order], found.slots[order], found.kinds[order], found.keys[order], are_new)


@kernel
def count_cells(grid: RunGrid, ranges: Int64s, slots: UInt32s, axes: Axes, spans: UInt16s, counts: Int64s) -> None:
    """How many cells each box meets."""
    roots, whole = grid.boxes[1], grid.boxes[2] != 0
    for row in range(len(slots)):
        box = read_sides(ranges, i64(slots[row]), axes)
        west, east, south, north = i64(spans[row, 0]), i64(spans[row, 1]), i64(spans[row, 2]), i64(spans[row, 3])
        for column in range(west, east + 1):
            for line in range(south, north + 1):
                root = column * roots + line
                is_ends = column == west, column == east, line == south, line == north
                reach = reach_in_root(grid.windows, root, i64(grid.sides[root]), whole, box, is_ends)
                counts[row] += (reach.to_x - reach.from_x + 1) * (reach.to_y - reach.from_y + 1)


@kernel
def list_entries(grid: RunGrid, ranges: Int64s, slots: UInt32s, axes: Axes, spans: UInt16s, entries: Entries) -> None:
    """Every box in every cell that it meets, with its class and its keys there."""
    roots, whole = grid.boxes[1], grid.boxes[2] != 0
    n = 0
    for row in range(len(slots)):
        box = read_sides(ranges, i64(slots[row]), axes)
        west, east, south, north = i64(spans[row, 0]), i64(spans[row, 1]), i64(spans[row, 2]), i64(spans[row, 3])
        for column in range(west, east + 1):
            for line in range(south, north + 1):
                root = column * roots + line
                side = i64(grid.sides[root])
                is_ends = column == west, column == east, line == south, line == north
                reach = reach_in_root(grid.windows, root, side, whole, box, is_ends)
                # Within a root, a side has its key in the outermost cells only.
                for i in range(reach.from_x, reach.to_x + 1):
                    left, right = reach.left and i == reach.from_x, reach.right and i == reach.to_x
                    for j in range(reach.from_y, reach.to_y + 1):
                        bottom, top = reach.bottom and j == reach.from_y, reach.top and j == reach.to_y
                        entries.cells[n] = i64(grid.first[root]) + i * side + j
                        entries.slots[n] = slots[row]
                        entries.kinds[n] = class_of(left, right, bottom, top)
                        entries.keys[n, 0] = reach.keys[0] if left else 0
                        entries.keys[n, 1] = reach.keys[1] if right else FARTHEST
                        entries.keys[n, 2] = reach.keys[2] if bottom else 0
                        entries.keys[n, 3] = reach.keys[3] if top else FARTHEST
                        n += 1


@kernel
def look_up(grid: RunGrid, ranges: Int64s, slots: UInt32s, axes: Axes, spans: UInt16s, held: Bools) -> None:
    """Whether each box is in the first cell that it meets: then it is in all of them."""
    roots, whole = grid.boxes[1], grid.boxes[2] != 0
    halves = grid.words.view(np.uint16)
    for row in range(len(slots)):
        box = read_sides(ranges, i64(slots[row]), axes)
        root = i64(spans[row, 0]) * roots + i64(spans[row, 2])
        side = i64(grid.sides[root])
        is_ends = True, spans[row, 0] == spans[row, 1], True, spans[row, 2] == spans[row, 3]
        reach = reach_in_root(grid.windows, root, side, whole, box, is_ends)
        cell = i64(grid.first[root]) + reach.from_x * side + reach.from_y
        start, end = i64(grid.blocks[cell, 0]), i64(grid.blocks[cell, 1])
        if start < end:
            for word in range(read_cell(grid.words, halves, start).slots, end):
                held[row] |= grid.words[word] == slots[row]


@kernel
def is_going(entries: Entries, begin: int, end: int, slot: int) -> Any:
    """Whether a box goes from the cell of these entries."""
    going = False
    if not entries.are_new:
        for n in range(begin, end):
            going |= entries.slots[n] == slot
    return going


@allocating_kernel
def write_cells(grid: RunGrid, ranges: Int64s, entries: Entries, at: int) -> Any:
    """Write every cell that has entries anew, from `at` on; where the last ends, or -1 if one cannot be counted."""
    counts = np.empty(OTHERS + 1, np.int64)
    begin = 0
    while begin < len(entries.cells):
        cell, end = entries.cells[begin], begin + 1
        while end < len(entries.cells) and entries.cells[end] == cell:
            end += 1
        until = write_cell(grid, ranges, entries, begin, end, counts, at)
        if until < 0:
            return until
        grid.blocks[cell, 0] = at
        grid.blocks[cell, 1] = until
        at, begin = until, end
    return at


@kernel
def count_classes(grid: RunGrid, entries: Entries, begin: int, end: int, counts: Int64s) -> bool:
    """How many boxes of each class a cell will have; False if its header cannot count them."""
    start, stop = i64(grid.blocks[entries.cells[begin], 0]), i64(grid.blocks[entries.cells[begin], 1])
    halves = grid.words.view(np.uint16)
    counts[:] = 0
    if start < stop:
        for base in (0, LEFT_BOTTOM):
            before = 0
            for kind in range(base, base + LEFT_BOTTOM):
                counts[kind] = i64(halves[2 * start + kind]) - before
                before = i64(halves[2 * start + kind])
        counts[COVERS] = i64(grid.words[start + 4])
        counts[OTHERS] = i64(grid.words[start + 5])
    crowded = counts[OTHERS] > LONGEST
    edges, corners = i64(0), i64(0)
    for n in range(begin, end):
        counts[entries.kinds[n]] += 1 if entries.are_new else -1
    for kind in range(LEFT_BOTTOM):
        edges += counts[kind]
        corners += counts[LEFT_BOTTOM + kind]
    return not crowded and edges <= LONGEST and corners <= LONGEST


@kernel
def write_cell(grid: RunGrid, ranges: Int64s, entries: Entries, begin: int, end: int, counts: Int64s, at: int) -> Any:
    """Write one cell at `at`, without the boxes that go and with those that come; where it ends.

    It is -1 if the header cannot count them, or where edges may be among the others, as they are in a cell that had
    too many.
    """
    if not count_classes(grid, entries, begin, end, counts):
        return i64(-1)
    words, halves = grid.words, grid.words.view(np.uint16)
    total = counts.sum()
    if total == 0:
        return i64(at)
    # The header of the new block says where everything is.
    for base in (0, LEFT_BOTTOM):
        behind = i64(0)
        for kind in range(base, base + LEFT_BOTTOM):
            behind += counts[kind]
            halves[2 * at + kind] = behind
    words[at + 4] = counts[COVERS]
    words[at + 5] = counts[OTHERS]
    new = read_cell(words, halves, at)
    halves[new.edge_keys + new.edges] = 0  # the half behind an odd number of edges
    start, stop = i64(grid.blocks[entries.cells[begin], 0]), i64(grid.blocks[entries.cells[begin], 1])
    is_old = start < stop
    old = read_cell(words, halves, start) if is_old else new
    # Edges stay in the order of their exact ordinals.
    from_edge, to_edge = i64(0), i64(0)
    for kind in range(LEFT_BOTTOM):
        column = 2 if kind == RIGHT else 0 if kind == LEFT else 3 if kind == TOP else 1
        key = 1 if kind == RIGHT else 0 if kind == LEFT else 3 if kind == TOP else 2
        until = i64(halves[2 * start + kind]) if is_old else i64(0)
        old_slots = old.slots + (old.covers if kind > RIGHT else 0)
        new_slots = new.slots + (new.covers if kind > RIGHT else 0)
        first = to_edge
        for edge in range(from_edge, until):
            slot = words[old_slots + edge]
            if not is_going(entries, begin, end, slot):
                halves[new.edge_keys + to_edge] = halves[old.edge_keys + edge]
                words[new_slots + to_edge] = slot
                to_edge += 1
        for n in range(begin, end if entries.are_new else begin):
            if entries.kinds[n] == kind:
                place, value = to_edge, ranges[entries.slots[n], column]
                while place > first and ranges[words[new_slots + place - 1], column] > value:
                    halves[new.edge_keys + place] = halves[new.edge_keys + place - 1]
                    words[new_slots + place] = words[new_slots + place - 1]
                    place -= 1
                halves[new.edge_keys + place] = entries.keys[n, key]
                words[new_slots + place] = entries.slots[n]
                to_edge += 1
        from_edge = until
    # What covers the cell has no keys.
    to = new.slots + new.right_end
    if is_old:
        for word in range(old.slots + old.right_end, old.slots + old.right_end + old.covers):
            if not is_going(entries, begin, end, words[word]):
                words[to] = words[word]
                to += 1
    for n in range(begin, end if entries.are_new else begin):
        if entries.kinds[n] == COVERS:
            words[to] = entries.slots[n]
            to += 1
    # Corners have two keys, in the order of their classes.
    old_corners, new_corners = old.slots + old.covers + old.edges, new.slots + new.covers + new.edges
    from_corner, corner = i64(0), i64(0)
    for kind in range(LEFT_BOTTOM, COVERS):
        until = i64(0)
        if is_old:
            until = i64(halves[2 * start + kind])
        for place in range(from_corner, until):
            slot = words[old_corners + place]
            if not is_going(entries, begin, end, slot):
                halves[new.corner_keys + corner] = halves[old.corner_keys + place]
                halves[new.corner_keys + new.corners + corner] = halves[old.corner_keys + old.corners + place]
                words[new_corners + corner] = slot
                corner += 1
        for n in range(begin, end if entries.are_new else begin):
            if entries.kinds[n] == kind:
                is_left, is_bottom = kind <= LEFT_TOP, kind in (LEFT_BOTTOM, RIGHT_BOTTOM)
                halves[new.corner_keys + corner] = entries.keys[n, 0 if is_left else 1]
                halves[new.corner_keys + new.corners + corner] = entries.keys[n, 2 if is_bottom else 3]
                words[new_corners + corner] = entries.slots[n]
                corner += 1
        from_corner = until
    # Others have all four.
    old_others, new_others, other = old_corners + old.corners, new_corners + new.corners, i64(0)
    if is_old:
        for place in range(old.others):
            slot = words[old_others + place]
            if not is_going(entries, begin, end, slot):
                for side in range(4):
                    halves[new.other_keys + side * new.others + other] = halves[
                        old.other_keys + side * old.others + place
                    ]
                words[new_others + other] = slot
                other += 1
    for n in range(begin, end if entries.are_new else begin):
        if entries.kinds[n] == OTHERS:
            for side in range(4):
                halves[new.other_keys + side * new.others + other] = entries.keys[n, side]
            words[new_others + other] = entries.slots[n]
            other += 1
    return new_others + new.others
