"""What moves between points enter and leave: how a BoxIndex is asked about them, structure by structure."""

from typing import NamedTuple

import numpy as np

from fencepost.indexes.arrays import Bools, Int64s, UInt32s
from fencepost.indexes.box_index.grid_moves import search_moves_in_cells
from fencepost.indexes.box_index.rows import differ_all, drop_gone, place_slots
from fencepost.indexes.box_index.run_grid import RunGrid
from fencepost.indexes.box_index.view import ROUND, Asked, Part, View, has_groups, scratch, search, stage
from fencepost.indexes.matches import Matches, answer_array, joined, widened

_ENTER, _EXIT = 0, 1


class _Moves(NamedTuple):
    """Some moves, ready to be asked about."""

    before: Int64s
    nowhere: Bools
    """Which start at no point."""
    after: Int64s
    absent: Bools
    """Which end at no point."""

    def rows(self, chosen: Int64s) -> "_Moves":
        """Some of them."""
        return _Moves(*(column[chosen] for column in self))


class _Found(NamedTuple):
    """What moves enter and leave by one structure."""

    offsets: Int64s
    """A row for what is entered, one for what is left."""
    entered: UInt32s
    left: UInt32s

    def kind(self, kind: int) -> tuple[Int64s, UInt32s]:
        """Offsets and slots of what is entered, or of what is left."""
        return self.offsets[kind], self[1 + kind]


def compare_moves(before: Asked, after: Asked, groupless: Bools) -> tuple[Matches, Matches]:
    """The slots that each move enters, and those it leaves, between points of the same view.

    `groupless` marks moves that start in no group; it is empty if none does.
    """
    view, total = before.view, len(before.words)
    size = min(ROUND, total)
    starts, ends = scratch(before, size), scratch(after, size)
    ticks = np.zeros(view.used, np.int64)
    rounds: list[list[Matches]] = [[], []]
    for begin in range(0, total, ROUND):
        rows = slice(begin, min(begin + ROUND, total))
        count = rows.stop - begin
        for asked, (points, absent) in ((before, starts), (after, ends)):
            stage(asked, rows, points[:count], absent[:count])
        moves = _Moves(starts[0][:count], starts[1][:count], ends[0][:count], ends[1][:count])
        found: list[_Found] = []
        for part in view.parts:
            own = moves
            if len(groupless) and has_groups(view, part):
                own = moves._replace(nowhere=moves.nowhere | groupless[rows])
            found += _compare_in(view, part, own, ticks, 2 * begin + 1)
        if len(view.gone):
            for each in found:
                drop_gone(each.offsets[_ENTER], each.entered, view.gone)
                drop_gone(each.offsets[_EXIT], each.left, view.gone)
        for kind in (_ENTER, _EXIT):
            rounds[kind].append(_join_kind([each.kind(kind) for each in found], count))
    entered, left = (joined(each, np.uint32) for each in rounds)
    return entered, left


def _compare_in(view: View, part: Part, moves: _Moves, ticks: Int64s, tick: int) -> list[_Found]:
    """What moves enter and leave by one structure: within the cells of a grid, and what is left to compare."""
    if not isinstance(part, RunGrid):
        return [_compare(view, part, moves, ticks, tick)]
    count = len(moves.absent)
    offsets, apart, done = np.zeros((2, count + 1), np.int64), np.empty(count, np.bool_), 0
    entered, left = (answer_array(4 * count + 1024, np.uint32) for _ in range(2))
    while True:
        done = int(search_moves_in_cells(part, view.ranges, *moves, done, offsets, entered, left, apart))
        if done == count:
            break
        filled = int(offsets[:, done].max())
        entered, left = (widened(each, filled, 2 * len(each), None) for each in (entered, left))
    found = [_Found(offsets, entered, left)]
    rows = np.flatnonzero(apart)
    if len(rows):
        compared = _compare(view, part, moves.rows(rows), ticks, tick)
        counts = np.zeros((2, count + 1), np.int64)
        counts[:, 1 + rows] = np.diff(compared.offsets)
        found.append(compared._replace(offsets=np.cumsum(counts, axis=1)))
    return found


def _compare(view: View, part: Part, moves: _Moves, ticks: Int64s, tick: int) -> _Found:
    """What holds by one structure where moves start and where they end, compared."""
    was_offsets, was = _find_held(view, part, moves.before, moves.nowhere)
    now_offsets, now = _find_held(view, part, moves.after, moves.absent)
    found = _Found(
        np.zeros((2, len(now_offsets)), np.int64),
        answer_array(int(now_offsets[-1]) + 1, np.uint32),
        answer_array(int(was_offsets[-1]) + 1, np.uint32),
    )
    differ_all(was_offsets, was, now_offsets, now, ticks, tick, *found)
    return found


def _find_held(view: View, part: Part, points: Int64s, absent: Bools) -> tuple[Int64s, UInt32s]:
    """Offsets and slots of what holds at some points by one structure."""
    count, done = len(points), 0
    offsets, slots = np.zeros(count + 1, np.int64), answer_array(16 * count + 1024, np.uint32)
    while done < count:
        done = search(view, part, points, absent, done, offsets, slots)
        if done < count:
            slots = widened(slots, int(offsets[done]), 2 * len(slots), None)
    return offsets, slots


def _join_kind(found: list[tuple[Int64s, UInt32s]], rows: int) -> Matches:
    """What all structures found of one kind, row by row."""
    if len(found) == 1:
        offsets, slots = found[0]
        return Matches(offsets, slots[: offsets[-1]])
    offsets = np.zeros(rows + 1, np.int64)
    for own, _ in found:
        offsets += own
    slots = answer_array(int(offsets[-1]), np.uint32)
    cursor = offsets[:-1].copy()
    for number, (own, each) in enumerate(found):
        place_slots(own, each, number == 0, cursor, slots)
    return Matches(offsets, slots[: offsets[-1]])
