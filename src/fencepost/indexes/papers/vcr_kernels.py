"""Kernels of VCR: cutting rectangles into constructs, and answering from the lists of those around a point."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Float64s, Int64s, UInt32s, UInt64s, i64, u64
from fencepost.indexes.contracts.registry import Queries, holds
from fencepost.indexes.kernels.id_map import ABSENT, home, place_in
from fencepost.indexes.kernels.vectors import PADDING, bit_count, copy_run, prefetch
from fencepost.indexes.papers.construct_lists import BEYOND, SPARSE, Lists, Plan, plan_range
from fencepost.indexes.papers.vcr_rows import Rows, append_rows, fetch_rows

_POINTS_AHEAD = 3
"""Points whose places are asked for before they are read."""


class Grid(NamedTuple):
    """The domain and the decomposition, in scalars."""

    closed: bool
    overlap: bool
    x_first: int
    x_end: int
    y_first: int
    y_end: int
    x_bits: int
    """log2 of the longest side."""
    y_bits: int
    columns: int
    """Cells along x (Rx)."""
    sizes: int
    """Constructs per grid point."""
    most_pieces: int
    """A rectangle of more pieces is on the overflow list instead."""
    overflow: int
    """What stands for the construct of that list: one past the last id."""


class Shape(NamedTuple):
    """What the kernels need to know."""

    grid: Grid
    distances: Int64s
    """From the pivot to each grid point whose constructs can reach the point's cell."""
    masks: UInt64s
    """Which sizes reach it from there."""
    x_backs: Int64s
    """How far before the cell each construct that concerns it starts: those that contain it, then those that
    end where it starts."""
    x_levels: Int64s
    """The log2 of its side."""
    y_backs: Int64s
    y_levels: Int64s


class Rounds(NamedTuple):
    """Scratch for one round of points: per point its exact runs (start, length) and checked lists (list, construct)."""

    run_offsets: Int64s
    runs: Int64s
    check_offsets: Int64s
    checks: Int64s
    starts: Int64s
    """Of one point: the grid points with lists that concern it, and which sizes those have."""
    found: UInt64s


# -- decomposition --------------------------------------------------------------------------------------


@kernel
def level_within(width: int, bits: int) -> Any:
    """The largest level up to `bits` whose length fits a width."""
    level = 0
    while level < bits and (2 << level) <= width:
        level += 1
    return level


@kernel
def first_cell(cut: Plan) -> Any:
    """The first cell that a range touches."""
    return cut.left if cut.left >= 0 else cut.first


@kernel
def end_cell(cut: Plan) -> Any:
    """One past the last cell that a range touches; a closed end counts where no whole cell comes before it."""
    if cut.right >= 0:
        return cut.right + 1
    if cut.first < cut.last:
        return cut.last
    if cut.point >= 0:
        return cut.point + 1
    return first_cell(cut) + (cut.left >= 0)


@kernel
def piece_at(cut: Plan, bits: int, overlap: bool, at: int) -> tuple[int, int, bool, int]:
    """The piece that reaches a range from cell `at` on: its start, its level, whether it is exact, the next cell."""
    if at < cut.first or at >= cut.last:
        return at, 0, False, at + 1
    level = level_within(cut.last - (cut.first if overlap else at), bits)
    start = min(at, cut.last - (1 << level))
    following = start + (1 << level)
    closed_end = following == cut.last and cut.point >= 0
    return start, level, start == at and not closed_end, following


@kernel
def piece_count(cut: Plan, bits: int, overlap: bool, most: int) -> Any:
    """How many pieces a range has; not counted much beyond `most`, as a range may have 2**53 of them."""
    count = 0
    at, end = first_cell(cut), end_cell(cut)
    while at < end and count <= most:
        at = piece_at(cut, bits, overlap, at)[3]
        count += 1
    return count


@kernel
def box_pieces(grid: Grid, x: Plan, y: Plan) -> Any:
    """How many pieces a rectangle has, or some number above the most there may be."""
    across = piece_count(x, grid.x_bits, grid.overlap, grid.most_pieces)
    return across * piece_count(y, grid.y_bits, grid.overlap, grid.most_pieces)


@kernel
def decompose(
    shape: Shape,
    layout: Int64s,  # noqa: ARG001
    bounds: Float64s,
    slots: Int64s,
    offsets: Int64s,
    codes: Int64s,
) -> Any:
    """Strip by strip from below, in each strip from the left; what has too many pieces overflows."""
    rows = min(len(slots), len(offsets) - 1)
    grid = shape.grid
    x_bits, y_bits = grid.x_bits, grid.y_bits
    n = 0
    offsets[0] = 0
    for row in range(rows):
        slot = slots[row]
        x = plan_range(grid.x_first, grid.x_end, grid.closed, bounds[slot, 0], bounds[slot, 2])
        y = plan_range(grid.y_first, grid.y_end, grid.closed, bounds[slot, 1], bounds[slot, 3])
        needed = box_pieces(grid, x, y)
        is_cut = needed <= grid.most_pieces
        if n + (needed if is_cut else 1) + len(BEYOND) > len(codes):
            return row
        if not is_cut:
            codes[n] = SPARSE - 2 * grid.overflow
            n += 1
        y_at, y_end = first_cell(y), end_cell(y) if is_cut else 0
        while y_at < y_end:
            y_start, y_level, y_exact, y_at = piece_at(y, y_bits, grid.overlap, y_at)
            x_at, x_end = first_cell(x), end_cell(x)
            while x_at < x_end:
                x_start, x_level, x_exact, x_at = piece_at(x, x_bits, grid.overlap, x_at)
                construct = grid.sizes * (x_start + y_start * grid.columns) + y_level * (x_bits + 1) + x_level
                codes[n] = SPARSE - 2 * construct - i64(x_exact and y_exact)
                n += 1
        if x.below or x.above:
            codes[n] = BEYOND[0]
            n += 1
        if y.below or y.above:
            codes[n] = BEYOND[1]
            n += 1
        offsets[row + 1] = n
    return rows


@kernel
def mark(shape: Shape, codes: Int64s, bits: UInt64s) -> Any:
    """Set the bits of these codes' lists; whether one of them is checked."""
    any_checked = False
    for j in range(len(codes)):
        if codes[j] <= SPARSE and (SPARSE - codes[j]) >> 1 != shape.grid.overflow:
            set_bit(SPARSE - codes[j], shape.grid.sizes, bits)
            any_checked |= (SPARSE - codes[j]) & 1 == 0
    return any_checked


@kernel
def remark(shape: Shape, slots: Int64s, bits: UInt64s) -> Any:
    """Set the bits of all lists in the hash; whether one of them is checked."""
    any_checked = False
    for at in range(len(slots)):
        if slots[at, 1] != ABSENT and slots[at, 0] >> 1 != shape.grid.overflow:
            set_bit(slots[at, 0], shape.grid.sizes, bits)
            any_checked |= slots[at, 0] & 1 == 0
    return any_checked


@kernel
def set_bit(key: int, sizes: int, bits: UInt64s) -> None:
    """Set the bit of one list."""
    construct = key >> 1
    bits[key & 1, (construct // sizes) & (bits.shape[1] - 1)] |= u64(1) << u64(construct % sizes)


# -- search ---------------------------------------------------------------------------------------------


@kernel
def append_keys(
    words: UInt64s,
    distances: Int64s,
    masks: UInt64s,
    pivot: int,
    sizes: int,
    exact: int,
    starts: Int64s,
    found: UInt64s,
    keys: Int64s,
    n: int,
) -> Any:
    """Append the keys of the lists around one pivot whose bits are set; the new number of keys.

    How many bits are set where cannot be predicted, so neither loop branches on it.
    """
    count = 0
    for s in range(len(distances)):
        start = pivot + distances[s]
        starts[count] = start
        found[count] = words[start & (len(words) - 1)] & masks[s]
        count += i64((found[count] != u64(0)) & (start >= 0))
    at = 0
    word = found[0]
    while at < count:
        lowest = word & (~word + u64(1))
        keys[n, 0] = 2 * (starts[at] * sizes + bit_count(lowest - u64(1))) + exact
        n += 1
        word ^= lowest
        at += i64(word == u64(0))
        word = found[at] if word == u64(0) else word
    return n


@kernel
def cover(
    shape: Shape,
    bits: UInt64s,
    any_checked: bool,
    places: UInt32s,
    points: Float64s,
    first: int,
    last: int,
    rounds: Rounds,
) -> None:
    """The keys of all lists around each point that may exist, in the first column of `runs` and `checks`.

    Where rows are laid out, `runs` has the runs themselves.

    A construct that starts before the domain's left border takes the id of one that starts near the right border
    of the row below and reaches beyond it: no rectangle has that piece, so border regions need no care. A
    construct that ends at the border could exist: the closed ends look at where it starts.
    """
    run_offsets, runs, check_offsets, checks = rounds.run_offsets, rounds.runs, rounds.check_offsets, rounds.checks
    distances, masks = shape.distances, shape.masks
    starts, found = rounds.starts, rounds.found
    grid = shape.grid
    sizes = grid.sizes
    n = 0
    checked = 0
    for i in range(first, last):
        run_offsets[i - first] = n
        check_offsets[i - first] = checked
        x, y = points[i, 0], points[i, 1]
        if side_of(grid, x, y) != ABSENT:
            continue
        x_cell, y_cell = i64(np.floor(x)) - grid.x_first, i64(np.floor(y)) - grid.y_first
        pivot = x_cell + 1 - (1 << grid.x_bits) + (y_cell + 1 - (1 << grid.y_bits)) * grid.columns
        if len(places) > 0:
            if i + _POINTS_AHEAD < last:
                soon_x, soon_y = points[i + _POINTS_AHEAD, 0], points[i + _POINTS_AHEAD, 1]
                if side_of(grid, soon_x, soon_y) == ABSENT:
                    soon_column, soon_row = i64(np.floor(soon_x)) - grid.x_first, i64(np.floor(soon_y)) - grid.y_first
                    fetch_rows(places, grid.x_bits, grid.y_bits, soon_column, soon_row)
            n = append_rows(places, grid.x_bits, grid.y_bits, x_cell, y_cell, runs, n)
        else:
            n = append_keys(bits[1], distances, masks, pivot, sizes, 1, starts, found, runs, n)
        if any_checked:
            checked = append_keys(bits[0], distances, masks, pivot, sizes, 0, starts, found, checks, checked)
        if grid.closed and any_checked:
            checked = cover_ends(shape, bits, x_cell, y_cell, np.floor(x) == x, np.floor(y) == y, checks, checked)
    run_offsets[last - first] = n
    check_offsets[last - first] = checked


@kernel
def cover_ends(
    shape: Shape,
    bits: UInt64s,
    x_cell: int,
    y_cell: int,
    x_whole: Bools,
    y_whole: Bools,
    checks: Int64s,
    checked: int,
) -> Any:
    """Append the checked lists of constructs whose closed end a point on the grid lies on."""
    grid = shape.grid
    x_around, y_around = (2 << grid.x_bits) - 1, (2 << grid.y_bits) - 1
    for v in range(len(shape.y_backs) if y_whole else y_around):
        y_start = y_cell - shape.y_backs[v]
        begin = 0 if v >= y_around else x_around
        for h in range(begin, len(shape.x_backs) if x_whole else x_around):
            x_start = x_cell - shape.x_backs[h]
            if x_start >= 0 and y_start >= 0:
                start = x_start + y_start * grid.columns
                size = shape.y_levels[v] * (grid.x_bits + 1) + shape.x_levels[h]
                if bits[0, start & (bits.shape[1] - 1)] >> u64(size) & u64(1):
                    checks[checked, 0] = 2 * (start * grid.sizes + size)
                    checked += 1
    return checked


@kernel
def resolve(slots: Int64s, heads: Any, ids: Int64s, rounds: Rounds, points: int) -> None:
    """Turn keys into runs (start, length); what does not exist becomes empty."""
    runs = rounds.runs
    for n in range(rounds.run_offsets[points]):
        prefetch(slots, 2 * home(runs[n, 0], len(slots)))
    for n in range(rounds.run_offsets[points]):
        place = place_in(slots, runs[n, 0])
        runs[n, 0] = place
        prefetch(heads, 2 * max(place, 0))
    for n in range(rounds.run_offsets[points]):
        place = runs[n, 0]
        runs[n, 0] = i64(heads[place, 0]) if place != ABSENT else 0
        runs[n, 1] = i64(heads[place, 1]) if place != ABSENT else 0
        prefetch(ids, runs[n, 0])


@kernel
def resolve_checks(slots: Int64s, rounds: Rounds, points: int) -> None:
    """Turn keys into (list, construct); what does not exist becomes `ABSENT`."""
    checks = rounds.checks
    for n in range(rounds.check_offsets[points]):
        key = checks[n, 0]
        checks[n, 0] = place_in(slots, key)
        checks[n, 1] = key >> 1


@kernel
def owns(cut: Plan, overlap: bool, start: int, level: int, cell: int) -> Any:
    """Whether a piece is the first of its range to reach a cell; the last whole piece has the closed end, too."""
    length = 1 << level
    last_whole = start + length == cut.last and start >= cut.first
    if cell >= start + length:
        return last_whole and cut.point >= 0
    return not (last_whole and overlap) or cell >= cut.first + (((cut.last - cut.first - 1) >> level) << level)


@kernel
def contains(grid: Grid, bounds: Float64s, slot: int, x: float, y: float) -> Any:
    """Whether a rectangle holds a point."""
    inside = holds(bounds[slot, 0], bounds[slot, 2], grid.closed, x)
    return inside and holds(bounds[slot, 1], bounds[slot, 3], grid.closed, y)


class Piece(NamedTuple):
    """A construct: where it starts, relative to the domain, and the log2 of its sides."""

    x: int
    y: int
    x_level: int
    y_level: int


@kernel
def piece_of(grid: Grid, construct: int) -> Piece:
    """The construct with an id."""
    number, size = construct // grid.sizes, construct % grid.sizes
    x_sizes = grid.x_bits + 1
    return Piece(number % grid.columns, number // grid.columns, size % x_sizes, size // x_sizes)


@kernel
def counts_for(grid: Grid, bounds: Float64s, slot: int, piece: Piece, x: float, y: float) -> Any:
    """Whether a checked entry is reported: its rectangle holds the point, and its piece owns it."""
    if not contains(grid, bounds, slot, x, y):
        return False
    x_cut = plan_range(grid.x_first, grid.x_end, grid.closed, bounds[slot, 0], bounds[slot, 2])
    if not owns(x_cut, grid.overlap, piece.x, piece.x_level, i64(np.floor(x)) - grid.x_first):
        return False
    y_cut = plan_range(grid.y_first, grid.y_end, grid.closed, bounds[slot, 1], bounds[slot, 3])
    return owns(y_cut, grid.overlap, piece.y, piece.y_level, i64(np.floor(y)) - grid.y_first)


@kernel
def side_of(grid: Grid, x: float, y: float) -> Any:
    """The list of rectangles that reach beyond the domain on the axis a point is outside on, or `ABSENT`."""
    if not (x >= grid.x_first and x < grid.x_end):
        return 0
    return ABSENT if y >= grid.y_first and y < grid.y_end else 1


@kernel
def emit(
    shape: Shape,
    lists: Lists,
    run_ids: Int64s,
    queries: Queries,
    points: Float64s,
    first: int,
    last: int,
    rounds: Rounds,
    offsets: Int64s,
    out: Int64s,
) -> Any:
    """Copy the exact runs of each point and the checked entries that count; the point it stopped at."""
    heads, ids, bounds, query_ids = lists.heads, lists.ids, queries.bounds, queries.ids
    run_offsets, runs, check_offsets, checks = rounds.run_offsets, rounds.runs, rounds.check_offsets, rounds.checks
    grid = shape.grid
    room = len(out) - PADDING
    overflow = place_in(lists.sparse.slots, 2 * grid.overflow)
    at = offsets[first]
    for i in range(first, last):
        x, y = points[i, 0], points[i, 1]
        # How many ids at most; the point waits where they have no room.
        needed = 0
        for run in range(run_offsets[i - first], run_offsets[i - first + 1]):
            needed += runs[run, 1]
        for check in range(check_offsets[i - first], check_offsets[i - first + 1]):
            if checks[check, 0] != ABSENT:
                needed += i64(heads[checks[check, 0], 1])
        uncut = side_of(grid, x, y)
        if uncut == ABSENT:
            uncut = overflow
        if uncut != ABSENT:
            needed += i64(heads[uncut, 1])
        if at + needed > room:
            return i
        # Exact runs are copied.
        for run in range(run_offsets[i - first], run_offsets[i - first + 1]):
            copy_run(out, at, run_ids, runs[run, 0], runs[run, 1])
            at += runs[run, 1]
        # Entries of checked lists count once, in one piece of the grid.
        for check in range(check_offsets[i - first], check_offsets[i - first + 1]):
            place = checks[check, 0]
            if place != ABSENT:
                begin = i64(heads[place, 0])
                piece = piece_of(grid, checks[check, 1])
                for entry in range(begin, begin + i64(heads[place, 1])):
                    if counts_for(grid, bounds, ids[entry], piece, x, y):
                        out[at] = query_ids[ids[entry]]
                        at += 1
        # Beside the grid, boxes that were not cut are compared.
        if uncut != ABSENT:
            begin = i64(heads[uncut, 0])
            for entry in range(begin, begin + i64(heads[uncut, 1])):
                slot = ids[entry]
                if contains(grid, bounds, slot, x, y):
                    out[at] = query_ids[slot]
                    at += 1
        offsets[i + 1] = at
    return last


@kernel
def answer(
    shape: Shape,
    bits: UInt64s,
    any_checked: bool,
    lists: Lists,
    rows: Rows,
    queries: Queries,
    points: Float64s,
    rounds: Rounds,
    offsets: Int64s,
    out: Int64s,
    done: int,
) -> Any:
    """Answer from point `done` on, a round at a time; the point it stopped at for want of room."""
    per_round = len(rounds.run_offsets) - 1
    laid_out = len(rows.places) > 0
    run_ids = rows.ids if laid_out else lists.ids
    while done < len(points):
        last = min(done + per_round, len(points))
        cover(shape, bits, any_checked, rows.places, points, done, last, rounds)
        if not laid_out:
            resolve(lists.sparse.slots, lists.heads, lists.ids, rounds, last - done)
        resolve_checks(lists.sparse.slots, rounds, last - done)
        done = emit(shape, lists, run_ids, queries, points, done, last, rounds, offsets, out)
        if done < last:
            break
    return done
