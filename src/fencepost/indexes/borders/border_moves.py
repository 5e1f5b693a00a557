"""How moves are answered from the lists: find where both ends of each lie, then write what is between.

Finding goes stage by stage over blocks of values, each stage asking for the memory that the next one reads.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, UInt64s, i64, u64
from fencepost.indexes.borders.border_lists import BLOCK_STARTS, TABLE_STARTS, Lists, Part
from fencepost.indexes.idmap import spread
from fencepost.indexes.intervals.slice_search import Translation
from fencepost.indexes.intervals.window_kernels import bucket_of, decoded
from fencepost.indexes.vectors import PADDING, copy_run, count_above, prefetch, widen_run

__all__ = [
    "CHEAPER",
    "COMPARE",
    "CROSS",
    "ENTER",
    "EXIT",
    "WALK",
    "Asked",
    "Gone",
    "Moves",
    "find_places",
    "translate",
    "write_met",
    "write_moves",
]

ENTER, EXIT, CROSS = 0, 1, 2
CHEAPER, WALK, COMPARE = 0, 1, 2
_BLOCK = 64
_NOWHERE = -1
_COMPARED = 64
_AHEAD = 8
_SMALLEST = -(2**63)
_EVERYWHERE = 2**32
_FEW_STARTS = 64


class Gone(NamedTuple):
    """A bit per position whose rule was removed; both empty if there is none."""

    starts: UInt64s
    ends: UInt64s


class Asked(NamedTuple):
    """Moves in ordinals. An empty mask marks no row; groups are empty where no rule has one."""

    before: Int64s
    after: Int64s
    first: Bools
    """Rows without a position before."""
    missing: Bools
    """Rows without a position after."""
    groupless: Bools
    """Rows whose group before is not known: in no rule of a group."""
    before_groups: Int64s
    after_groups: Int64s

    def rows(self, start: int, stop: int) -> "Asked":
        """Some of the rows."""
        return Asked(*(column[start:stop] for column in self))


class Moves(NamedTuple):
    """Where moves start and end among the borders, and which of them are no walks."""

    places: UInt32s
    """Per row and part: position behind the last start and that of the next end, before and after."""
    keyed: Bools
    """Of each part, whether it is keyed by group."""
    first: Bools
    """Rows without a position before; empty if there are none."""
    regrouped: Bools
    """Rows whose group differs before and after; empty if there are none."""
    missing: Bools
    """Rows that observe nothing; empty if there are none."""


@kernel
def find_places(part: Part, lists: Lists, asked: Asked, places: UInt32s, column: int) -> None:
    """Write where both ends of each move lie among the starts and ends of a part.

    What is missing, or in a group without rules, lies before everything.
    """
    start_keys, end_keys = lists.start_keys, lists.end_keys
    table, group_keys, groups_first = part.groups_table, part.group_keys, part.groups_first
    scales, buckets = part.scales, part.buckets
    is_float, keyed, first = part.meta[0] != 0, part.meta[1] != 0, part.meta[2]
    before, after, unplaced, missing, groupless = asked.before, asked.after, asked.first, asked.missing, asked.groupless
    before_groups, after_groups = asked.before_groups, asked.after_groups
    values = np.empty(2 * _BLOCK, np.int64)
    keys = np.empty(2 * _BLOCK, np.int64)
    numbers = np.empty(2 * _BLOCK, np.int64)
    where = np.empty(2 * _BLOCK, np.int64)
    begins = np.empty((2 * _BLOCK, 2), np.int64)
    limits = np.empty((2 * _BLOCK, 2), np.int64)
    for block in range(0, len(after), _BLOCK):
        size = min(_BLOCK, len(after) - block)
        for i in range(size):
            values[2 * i] = before[block + i]
            values[2 * i + 1] = after[block + i]
        if keyed:
            for i in range(size):
                keys[2 * i] = before_groups[block + i]
                keys[2 * i + 1] = after_groups[block + i]
            for i in range(2 * size):
                numbers[i] = spread(keys[i], len(table))
                prefetch(table, numbers[i])
            for i in range(2 * size):
                at = numbers[i]
                group = _NOWHERE
                while table[at] != 0:
                    if group_keys[i64(table[at]) - 1] == keys[i]:
                        group = i64(table[at]) - 1
                        break
                    at = at + 1 if at + 1 < len(table) else 0
                numbers[i] = group
                if group != _NOWHERE:
                    prefetch(groups_first, group)
                    if group < len(scales):
                        prefetch(scales, 4 * group)
            for i in range(size):
                if len(groupless) > 0 and groupless[block + i]:
                    numbers[2 * i] = _NOWHERE
        else:
            for i in range(2 * size):
                numbers[i] = 0
        if len(unplaced) > 0:
            for i in range(size):
                if unplaced[block + i]:
                    numbers[2 * i] = _NOWHERE
        if len(missing) > 0:
            for i in range(size):
                if missing[block + i]:
                    numbers[2 * i + 1] = _NOWHERE
        for i in range(2 * size):
            group = numbers[i]
            where[i] = _NOWHERE
            if group != _NOWHERE and group < len(scales):
                where[i] = i64(scales[group, 2]) + bucket_of(
                    decoded(values[i], is_float), scales[group, 0], scales[group, 1], scales[group, 3]
                )
                prefetch(buckets, 2 * where[i])
        for i in range(2 * size):
            group, bucket = numbers[i], where[i]
            begin = first
            end = first
            if group != _NOWHERE:
                begin = first + i64(groups_first[group])
                end = first + i64(groups_first[group + 1])
            if bucket != _NOWHERE:
                begins[i, 0] = begin + i64(buckets[bucket, 0])
                begins[i, 1] = begin + i64(buckets[bucket, 1])
                limits[i, 0] = begin + i64(buckets[bucket + 1, 0])
                limits[i, 1] = begin + i64(buckets[bucket + 1, 1])
            else:
                begins[i, 0] = begin
                begins[i, 1] = begin
                limits[i, 0] = end
                limits[i, 1] = end
            prefetch(start_keys, begins[i, 0])
            prefetch(end_keys, begins[i, 1])
        for i in range(2 * size):
            value = values[i]
            row, side = block + (i >> 1), 2 * (i & 1)
            a, b = begins[i, 0], limits[i, 0]
            while b - a > _COMPARED:
                middle = (a + b) >> 1
                if start_keys[middle] <= value:
                    a = middle + 1
                else:
                    b = middle
            while a < b:
                compared = min(b - a, 8)
                passed = compared - count_above(start_keys, a, compared, value)
                a += passed
                if passed < 8:
                    break
            places[row, column, side] = a
            a, b = begins[i, 1], limits[i, 1]
            while b - a > _COMPARED:
                middle = (a + b) >> 1
                if end_keys[middle] < value:
                    a = middle + 1
                else:
                    b = middle
            while a < b and value > _SMALLEST:
                compared = min(b - a, 8)
                passed = compared - count_above(end_keys, a, compared, value - 1)
                a += passed
                if passed < 8:
                    break
            places[row, column, side + 1] = a


@kernel
def is_gone(bits: UInt64s, position: int) -> Any:
    """Whether the rule at a position was removed."""
    return (bits[position >> 6] >> u64(position & 63)) & u64(1) != u64(0)


@kernel
def write_held(
    lists: Lists,
    gone: UInt64s,
    behind: int,
    least_end: int,
    end_limit: int,
    least_start: int,
    out: UInt32s,
    at: int,
) -> Any:
    """Write the rules that hold at one place and start and end within limits, from the nearest mark on.

    The place is `behind`, the position behind its last start; ends are in ``[least_end, end_limit)``. At least one
    rule of the group starts before the place.
    """
    start_slots, start_ends = lists.start_slots, lists.start_ends
    marks, entries = lists.marks, lists.mark_entries
    mark = i64(lists.mark_table[(behind - 1) // TABLE_STARTS])
    while i64(marks[mark + 1, 0]) <= behind - 1:
        mark += 1
    a, stop = i64(marks[mark, 1]), i64(marks[mark + 1, 1])
    b = stop
    while a < b:
        middle = (a + b) >> 1
        if start_ends[entries[middle]] < least_end:
            a = middle + 1
        else:
            b = middle
    for i in range(a, stop):
        start = i64(entries[i])
        if start_ends[start] >= end_limit:
            break
        out[at] = start_slots[start]
        at += start >= least_start and not (len(gone) > 0 and is_gone(gone, start))
    for start in range(max(least_start, i64(marks[mark, 0])), behind):
        end = i64(start_ends[start])
        out[at] = start_slots[start]
        at += least_end <= end and end < end_limit and not (len(gone) > 0 and is_gone(gone, start))
    return at


@kernel
def write_moves(
    lists: Lists,
    slot_starts: UInt32s,
    gone: Gone,
    moves: Moves,
    with_cross: bool,
    strategy: int,
    row: int,
    offsets: Int64s,
    out: UInt32s,
) -> Any:
    """Write the slots of what each move enters, leaves and crosses; the row it stopped at for want of room.

    `out` has three regions of equal size, one per kind; `offsets` has a row per kind: on return, of every row done,
    where its slots end in their region. `row` is the one to go on with, whose regions are empty. `strategy` is
    `WALK` over the borders between, `COMPARE` what holds at both ends, or per move what is `CHEAPER`.
    """
    start_slots, start_ends, end_slots, least_ends = (
        lists.start_slots,
        lists.start_ends,
        lists.end_slots,
        lists.least_ends,
    )
    places, keyed = moves.places, moves.keyed
    first, regrouped, missing = moves.first, moves.regrouped, moves.missing
    some_first, some_regrouped, some_missing = len(first) > 0, len(regrouped) > 0, len(missing) > 0
    gone_starts, gone_ends = gone.starts, gone.ends
    room = len(out) // 3
    some_gone = len(gone_starts) > 0
    parts = places.shape[1]
    rows = places.shape[0]
    entered, left, crossed = i64(0), i64(room), i64(2 * room)
    while row < rows:
        if row + _AHEAD < rows:
            for part in range(parts):
                start = min(i64(places[row + _AHEAD, part, 0]), i64(places[row + _AHEAD, part, 2]))
                end = min(i64(places[row + _AHEAD, part, 1]), i64(places[row + _AHEAD, part, 3]))
                prefetch(least_ends, start // BLOCK_STARTS)
                prefetch(start_slots, start)
                prefetch(end_slots, end)
        for part in range(parts):
            s0, e0 = i64(places[row, part, 0]), i64(places[row, part, 1])
            s1, e1 = i64(places[row, part, 2]), i64(places[row, part, 3])
            if some_missing and missing[row]:
                continue
            apart = some_first and first[row]
            apart |= some_regrouped and keyed[part] and regrouped[row]
            if apart:
                if entered + s1 - e1 + PADDING > room or left + s0 - e0 + PADDING > 2 * room:
                    return row
                if s0 > e0:
                    left = write_held(lists, gone_starts, s0, e0, _EVERYWHERE, 0, out, left)
                if s1 > e1:
                    entered = write_held(lists, gone_starts, s1, e1, _EVERYWHERE, 0, out, entered)
                continue
            if s0 == s1 and e0 == e1:
                continue
            # Rules whose start is passed are entered on the way up and left on the way down; of ends the converse.
            up = s1 >= s0 and e1 >= e0
            su, eu, sv, ev = (s0, e0, s1, e1) if up else (s1, e1, s0, e0)
            starts, ends = sv - su, ev - eu
            at_start, at_end = (entered, left) if up else (left, entered)
            most_starts, most_ends = min(starts, sv - ev), min(ends, su - eu)
            most_entered, most_left = (most_starts, most_ends) if up else (most_ends, most_starts)
            if entered + most_entered + PADDING > room or left + most_left + PADDING > 2 * room:
                return row
            if with_cross and crossed + min(starts, ends) + PADDING > 3 * room:
                return row
            none_crossed = starts == 0 or ends == 0 or i64(least_ends[su // BLOCK_STARTS]) >= ev
            if none_crossed and not some_gone and strategy != COMPARE:
                copy_run(out, at_start, start_slots, su, starts)
                copy_run(out, at_end, end_slots, eu, ends)
                at_start += starts
                at_end += ends
            else:
                if strategy == WALK or with_cross or (strategy == CHEAPER and starts <= 2 * (sv - ev) + _FEW_STARTS):
                    over = 0
                    for start in range(su, sv):
                        if some_gone and is_gone(gone_starts, start):
                            over += start_ends[start] < ev
                            continue
                        jumped = start_ends[start] < ev
                        over += jumped
                        out[at_start] = start_slots[start]
                        at_start += not jumped
                        if with_cross:
                            out[crossed] = start_slots[start]
                            crossed += jumped
                    none_crossed = over == 0
                elif sv > ev:
                    at_start = write_held(lists, gone_starts, sv, ev, _EVERYWHERE, su, out, at_start)
                if strategy != COMPARE and (none_crossed or strategy == WALK or ends <= 2 * (su - eu) + _FEW_STARTS):
                    for end in range(eu, ev):
                        slot = end_slots[end]
                        kept = not (some_gone and is_gone(gone_ends, end))
                        out[at_end] = slot
                        at_end += kept and (none_crossed or i64(slot_starts[slot]) < su)
                elif su > eu:
                    at_end = write_held(lists, gone_starts, su, eu, ev, 0, out, at_end)
            if up:
                entered, left = at_start, at_end
            else:
                entered, left = at_end, at_start
        row += 1
        offsets[ENTER, row] = entered
        offsets[EXIT, row] = left - room
        offsets[CROSS, row] = crossed - 2 * room
    return row


@kernel
def write_met(lists: Lists, gone: Gone, moves: Moves, row: int, offsets: Int64s, out: UInt32s) -> Any:
    """Write the slots of all rules whose range meets that of a move; the row it stopped at for want of room.

    Where there is no way between the two ends (see `Moves`), those that hold at either.
    """
    places, keyed = moves.places, moves.keyed
    first, regrouped, missing = moves.first, moves.regrouped, moves.missing
    some_first, some_regrouped, some_missing = len(first) > 0, len(regrouped) > 0, len(missing) > 0
    start_slots, some_gone = lists.start_slots, len(gone.starts) > 0
    at = i64(0)
    while row < places.shape[0]:
        for part in range(places.shape[1]):
            s0, e0 = i64(places[row, part, 0]), i64(places[row, part, 1])
            s1, e1 = i64(places[row, part, 2]), i64(places[row, part, 3])
            if some_missing and missing[row]:
                continue
            apart = some_first and first[row]
            apart |= some_regrouped and keyed[part] and regrouped[row]
            passed = i64(0)
            if not apart:
                passed = abs(s1 - s0)
                s0, e0 = min(s0, s1), min(e0, e1)
                s1 = e1
            if at + s0 - e0 + s1 - e1 + passed + PADDING > len(out):
                return row
            for start in range(s0, s0 + passed):
                out[at] = start_slots[start]
                at += not (some_gone and is_gone(gone.starts, start))
            if s0 > e0:
                at = write_held(lists, gone.starts, s0, e0, _EVERYWHERE, 0, out, at)
            if s1 > e1:
                at = write_held(lists, gone.starts, s1, e1, _EVERYWHERE, 0, out, at)
        row += 1
        offsets[row] = at
    return row


@kernel
def translate(slots: UInt32s, start: int, count: int, translation: Translation, out: npt.NDArray[Any], at: int) -> None:
    """Copy slots to int64 `out` as ids."""
    slot_ids, origin = translation.slot_ids, translation.origin
    if len(slot_ids) > 0:
        for i in range(count):
            out[at + i] = slot_ids[slots[start + i]]
    else:
        widen_run(out, at, slots, start, count, origin)
