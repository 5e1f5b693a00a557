"""What readers of a BoxIndex see, and how it is asked: points go through its structures in rounds."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.indexes.arrays import Bools, Int64s, UInt32s
from fencepost.indexes.box_index.grid_search import search_grid
from fencepost.indexes.box_index.group_blocks import GroupBlocks, search_blocks
from fencepost.indexes.box_index.groups import Groups
from fencepost.indexes.box_index.packed_tree import PackedTree, search_tree
from fencepost.indexes.box_index.rows import drop_gone, find_groups, place_ids, place_slots, stage_points
from fencepost.indexes.box_index.run_grid import RunGrid
from fencepost.indexes.kernels.vectors import PADDING, aligned_empty
from fencepost.indexes.matches import Matches, answer_buffers, fitted, widened
from fencepost.indexes.slice_list.search import Translation

ROUND = 4096
_FIRST_ROUND = 512
_SHORTEST_ROUND = 16
_STAGED = 1 << 20
"""Slots of a round: few enough to stay in the cache, many enough for what a round costs by itself."""
_NO_GROUPS = np.zeros(0, np.uint32)

Part = PackedTree | RunGrid | GroupBlocks


class View(NamedTuple):
    """What a reader sees: never edited, replaced as a whole."""

    parts: tuple[Part, ...]
    ranges: Int64s
    group_numbers: UInt32s
    gone: UInt32s
    """A bit per slot that no longer counts; empty if there is none."""
    translation: Translation
    groups: Groups
    used: int


class Asked(NamedTuple):
    """A checked question: points as ordinals or float bits, what is missing, group keys, and the view to ask."""

    view: View
    words: Int64s
    is_float: bool
    missing: Bools
    keys: Int64s

    def rows(self, share: slice) -> "Asked":
        """The same question for some of the points."""
        missing = self.missing[share] if len(self.missing) else self.missing
        return self._replace(words=self.words[share], missing=missing, keys=self.keys[share])


def has_groups(view: View, part: Part) -> bool:
    """Whether groups matter to one structure: then they are its last axis."""
    return len(part.is_float) > int(view.ranges.shape[1]) // 2


def is_keyed(view: View) -> bool:
    """Whether groups matter to any structure."""
    return any(has_groups(view, part) for part in view.parts)


def stage(asked: Asked, rows: slice, points: Int64s, absent: Bools) -> None:
    """Ordinals and group numbers of some points."""
    stage_points(asked.words, asked.is_float, asked.missing, rows.start, points, absent)
    if len(asked.keys):
        groups = asked.view.groups
        find_groups(asked.keys, rows.start, groups.keys, groups.table, points, asked.words.shape[1])


def search(
    view: View,
    part: Part,
    points: Int64s,
    absent: Bools,
    first: int,
    offsets: Int64s,
    out: UInt32s | Int64s,
    shift: int = 0,
) -> int:
    """Write the slots of one structure that hold each point, from a row on; the row it stopped at for want of room.

    With a shift, the sum of each slot and that: ids, where they count on from it.
    """
    numbers = view.group_numbers if has_groups(view, part) else _NO_GROUPS
    if isinstance(part, RunGrid):
        return int(search_grid(part, view.ranges, numbers, points, absent, first, offsets, out, shift))
    if isinstance(part, GroupBlocks):
        return int(search_blocks(part, view.ranges, numbers, points, absent, first, offsets, out, shift))
    return int(search_tree(part, view.ranges, numbers, points, absent, first, offsets, out, shift))


def scratch(asked: Asked, size: int) -> tuple[Int64s, Bools]:
    """Room for the ordinals of some points, the group number last if that matters, and for what is missing."""
    return np.empty((size, asked.words.shape[1] + (len(asked.keys) > 0)), np.int64), np.empty(size, np.bool_)


def search_rounds(asked: Asked, first: int = 0) -> Iterator[tuple[slice, list[tuple[Int64s, UInt32s]]]]:
    """Per round of points: its rows, and per structure the offsets and slots found; buffers are used again.

    A round has as many points as find about what stays in the cache until it is copied.
    """
    view, total = asked.view, len(asked.words)
    most = min(ROUND, total - first)
    points, absent = scratch(asked, most)
    offsets = [np.zeros(most + 1, np.int64) for _ in view.parts]
    slots = [aligned_empty(16 * most + 256, np.uint32) for _ in view.parts]
    begin, size = first, _FIRST_ROUND
    while begin < total:
        rows = slice(begin, min(begin + size, total))
        count, matched = rows.stop - begin, 0
        stage(asked, rows, points[:count], absent[:count])
        for number, part in enumerate(view.parts):
            own, done = offsets[number][: count + 1], 0
            while True:
                done = search(view, part, points[:count], absent[:count], done, own, slots[number])
                if done == count:
                    break
                slots[number] = widened(slots[number], int(own[done]), 2 * len(slots[number]), None)
            matched += int(own[count])
            if len(view.gone):
                drop_gone(own, slots[number], view.gone)
        yield rows, [(own[: count + 1], each) for own, each in zip(offsets, slots, strict=True)]
        begin = rows.stop
        size = min(max(_STAGED * count // (matched + 1), _SHORTEST_ROUND), ROUND)


def answer(asked: Asked, dtype: npt.DTypeLike, out: Matches | None, likely: float = 0) -> Matches:
    """The whole answer, round by round; it may have `likely` ids."""
    view, total = asked.view, len(asked.words)
    offsets, ids = answer_buffers(total, 0, dtype, out, likely)
    offsets[0] = 0
    done = 0
    slot_ids, origin, _ = view.translation
    as_slots = dtype == np.uint32
    if len(view.parts) == 1 and not len(view.gone) and (as_slots or not len(slot_ids)):
        done, ids = _answer_directly(asked, offsets, ids, out, 0 if as_slots else origin)
    for rows, found in search_rounds(asked, done):
        begin, end = rows.start, rows.stop
        counts = np.zeros(end - begin, np.int64)
        for own, _ in found:
            counts += np.diff(own)
        np.cumsum(counts, out=offsets[begin + 1 : end + 1])
        offsets[begin + 1 : end + 1] += offsets[begin]
        filled, needed = int(offsets[begin]), int(offsets[end])
        if needed + PADDING > len(ids):
            ids = widened(ids, filled, needed, out)
        cursor = offsets[begin:end].copy()
        for number, (own, slots) in enumerate(found):
            if as_slots:
                place_slots(own, slots, number == 0, cursor, ids)
            else:
                place_ids(own, slots, number == 0, slot_ids, origin, cursor, ids)
    filled = int(offsets[-1])
    return Matches(offsets, fitted(ids, filled) if out is None else ids[:filled])


def _answer_directly(
    asked: Asked, offsets: Int64s, ids: UInt32s | Int64s, out: Matches | None, shift: int
) -> tuple[int, UInt32s | Int64s]:
    """Let the only structure write the answer itself; how far that went in buffers that must not be replaced."""
    view, total = asked.view, len(asked.words)
    size = min(ROUND, total)
    points, absent = scratch(asked, size)
    for begin in range(0, total, ROUND):
        rows = slice(begin, min(begin + ROUND, total))
        count, done = rows.stop - begin, 0
        stage(asked, rows, points[:count], absent[:count])
        own = offsets[begin : rows.stop + 1]
        while True:
            done = search(view, view.parts[0], points[:count], absent[:count], done, own, ids, shift)
            if done == count:
                break
            if out is not None:
                return begin + done, ids
            filled = int(own[done])
            ids = widened(ids, filled, filled + 16 * ROUND, out)
    return total, ids
