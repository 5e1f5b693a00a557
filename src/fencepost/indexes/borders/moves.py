"""How moves are answered from the lists: find where both ends of each lie, then write what is between.

Finding goes stage by stage over all values of a round; stages ask for memory some rows ahead of reading it.
"""

from typing import Any, NamedTuple

import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, UInt64s, i64, u64
from fencepost.indexes.borders.edits import count_held, has_hole
from fencepost.indexes.borders.lists import BLOCK_STARTS, TABLE_STARTS, Holes, Lists, Part
from fencepost.indexes.kernels.id_map import spread
from fencepost.indexes.kernels.vectors import PADDING, copy_run, first_above, prefetch, widen_run
from fencepost.indexes.slice_list.search import Translation
from fencepost.indexes.slice_list.window_kernels import bucket_of, decode

ENTER, EXIT, CROSS = 0, 1, 2
CHEAPER, WALK, COMPARE = 0, 1, 2
_NOWHERE, _GROUP = -1, -2
_COMPARED = 64
"""Borders that are compared one after the other; more are halved first."""
_AHEAD = 16
_CACHED_RULES = 1 << 17
"""Rules whose lists the cache holds, so that asking for them ahead costs more than it saves."""
_SMALLEST = -(2**63)
_EVERYWHERE = 2**32
_ALWAYS_WALKED = 64
"""Borders that are walked over even if comparing what holds at both ends reads fewer: it has a search to begin with."""
_LONGEST_PAUSE = 15
"""Rows after which runs are tried again, where moves keep jumping over something."""


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
def find_buckets(part: Part, values: Int64s, groups: Int64s, nowhere: Bools, groupless: Bools, where: Int64s) -> None:
    """Write the bucket of each value, `_GROUP` less the number of a group without buckets, or `_NOWHERE`.

    A loop per step over all values: each is simple enough for vectors, or asks for memory some rows ahead.
    """
    table, group_keys, scales = part.groups_table, part.group_keys, part.scales
    is_float, keyed, last = part.meta[0] != 0, part.meta[1] != 0, len(values) - 1
    if keyed:
        for i in range(len(values)):
            where[i] = spread(groups[i], len(table))
        for i in range(len(values)):
            prefetch(table, where[min(i + _AHEAD, last)])
            at = where[i]
            where[i] = _NOWHERE
            while table[at] != 0:
                if group_keys[i64(table[at]) - 1] == groups[i]:
                    where[i] = i64(table[at]) - 1
                    break
                at = at + 1 if at + 1 < len(table) else 0
        for i in range(len(values)):
            group = where[i]
            if len(scales) > 0:
                prefetch(scales, 4 * min(max(where[min(i + _AHEAD, last)], 0), len(scales) - 1))
            if group >= len(scales):
                where[i] = _GROUP - group
            elif group != _NOWHERE:
                where[i] = i64(scales[group, 2]) + bucket_of(
                    decode(values[i], is_float), scales[group, 0], scales[group, 1], scales[group, 3]
                )
    elif len(scales) > 0:
        origin, per_unit, count = scales[0, 0], scales[0, 1], scales[0, 3]
        for i in range(len(values)):
            where[i] = bucket_of(decode(values[i], is_float), origin, per_unit, count)
    else:
        for i in range(len(values)):
            where[i] = _GROUP
    if len(groupless) > 0 and keyed:
        for i in range(len(values)):
            where[i] = _NOWHERE if groupless[i] else where[i]
    if len(nowhere) > 0:
        for i in range(len(values)):
            where[i] = _NOWHERE if nowhere[i] else where[i]


@kernel
def find_places(part: Part, lists: Lists, values: Int64s, where: Int64s, places: UInt32s, column: int, at: int) -> None:
    """Write where values lie among the starts and ends of a part, given their buckets, to `places` from `at` on.

    What is nowhere, or in a group without rules, lies before everything.
    """
    start_keys, end_keys, groups_first, buckets = lists.start_keys, lists.end_keys, part.groups_first, part.buckets
    ends_first = part.ends_first
    first, last = part.meta[2], len(values) - 1
    beyond_cache = part.meta[3] > _CACHED_RULES
    for row in range(len(values)):
        # Ask for the bucket of a later value, and for the keys of one in between, whose bucket is here by now.
        if beyond_cache and len(buckets) > 0:
            prefetch(buckets, 2 * max(where[min(row + 2 * _AHEAD, last)], 0))
            ahead = max(where[min(row + _AHEAD, last)], 0)
            start, end = i64(buckets[ahead, 0]), i64(buckets[ahead, 1])
            prefetch(start_keys, start)
            prefetch(start_keys, start + 7)
            prefetch(end_keys, end)
            prefetch(end_keys, end + 7)
        # Where to search: in a bucket, nowhere, or in all of a group that has no buckets.
        value, bucket = values[row], where[row]
        if bucket >= 0:
            a, c = i64(buckets[bucket, 0]), i64(buckets[bucket, 1])
            b, d = i64(buckets[bucket + 1, 0]), i64(buckets[bucket + 1, 1])
        elif bucket == _NOWHERE:
            places[row, column, at] = first
            places[row, column, at + 1] = first
            continue
        else:
            a, b = first + i64(groups_first[_GROUP - bucket]), first + i64(groups_first[_GROUP - bucket + 1])
            c, d = first + i64(ends_first[_GROUP - bucket]), first + i64(ends_first[_GROUP - bucket + 1])
        # Halve until few keys are left, which are compared at once; starts up to the value lie before it.
        while b - a > _COMPARED:
            middle = (a + b) >> 1
            if start_keys[middle] <= value:
                a = middle + 1
            else:
                b = middle
        places[row, column, at] = first_above(start_keys, a, b, value)
        # The same for ends, of which only those below the value lie before it.
        while d - c > _COMPARED:
            middle = (c + d) >> 1
            if end_keys[middle] < value:
                c = middle + 1
            else:
                d = middle
        if value > _SMALLEST:
            c = first_above(end_keys, c, d, value - 1)
        places[row, column, at + 1] = c


@kernel
def find_moves(part: Part, lists: Lists, asked: Asked, where: Int64s, places: UInt32s, column: int) -> None:
    """Write where both ends of each move lie; `where` has room for their buckets."""
    find_buckets(part, asked.before, asked.before_groups, asked.first, asked.groupless, where)
    find_places(part, lists, asked.before, where, places, column, i64(0))
    find_buckets(part, asked.after, asked.after_groups, asked.missing, asked.missing[:0], where)
    find_places(part, lists, asked.after, where, places, column, i64(2))


@kernel
def is_hole(bits: UInt64s, position: int) -> Any:
    """Whether there is no rule at a position."""
    return (bits[position >> 6] >> u64(position & 63)) & u64(1) != u64(0)


@kernel
def write_held(
    lists: Lists,
    slot_starts: UInt32s,
    holes: UInt64s,
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
    while i64(marks[mark, 0]) > behind - 1:
        mark -= 1
    while i64(marks[mark + 1, 0]) <= behind - 1:
        mark += 1
    a, stop = i64(marks[mark, 1]), i64(marks[mark, 2])
    b = stop
    while a < b:
        middle = (a + b) >> 1
        if start_ends[slot_starts[entries[middle]]] < least_end:
            a = middle + 1
        else:
            b = middle
    for i in range(a, stop):
        start = i64(slot_starts[entries[i]])
        if start_ends[start] >= end_limit:
            break
        out[at] = entries[i]
        at += start >= least_start
    for start in range(max(least_start, i64(marks[mark, 0])), behind):
        end = i64(start_ends[start])
        out[at] = start_slots[start]
        at += least_end <= end and end < end_limit and not (len(holes) > 0 and is_hole(holes, start))
    return at


@kernel
def copy_rules(out: UInt32s, at: int, slots: UInt32s, holes: UInt64s, start: int, count: int) -> Any:
    """Copy the slots of so many positions, without holes; where they end."""
    if not has_hole(holes, start, count):
        copy_run(out, at, slots, start, count)
        return at + count
    for position in range(start, start + count):
        out[at] = slots[position]
        at += not is_hole(holes, position)
    return at


@kernel
def write_runs(
    start_slots: UInt32s,
    end_slots: UInt32s,
    least_ends: UInt32s,
    holes: Holes,
    places: UInt32s,
    row: int,
    beyond_cache: bool,
    offsets: Int64s,
    out: UInt32s,
) -> Any:
    """Write the rows from one on that jump over nothing: a run of starts and one of ends each; where it stopped."""
    rows, room, some_holes = places.shape[0], len(out) // 3, len(holes.starts) > 0
    entered, left, crossed = offsets[ENTER, row], offsets[EXIT, row] + room, offsets[CROSS, row]
    while row < rows:
        if beyond_cache:
            ahead = min(row + _AHEAD, rows - 1)
            start = min(i64(places[ahead, 0, 0]), i64(places[ahead, 0, 2]))
            end = min(i64(places[ahead, 0, 1]), i64(places[ahead, 0, 3]))
            prefetch(least_ends, start // BLOCK_STARTS)
            prefetch(start_slots, start)
            prefetch(start_slots, start + 15)
            prefetch(end_slots, end)
            prefetch(end_slots, end + 15)
        s0, e0 = i64(places[row, 0, 0]), i64(places[row, 0, 1])
        s1, e1 = i64(places[row, 0, 2]), i64(places[row, 0, 3])
        # What cannot be foreseen is computed without branches; one vector is copied even if there is nothing.
        up = (s1 >= s0) & (e1 >= e0)
        start, starts = min(s0, s1), abs(s1 - s0)
        end, ends = min(e0, e1), abs(e1 - e0)
        if (starts > 0) & (ends > 0) & (i64(least_ends[start // BLOCK_STARTS]) < end + ends):
            break
        most = max(starts, ends) + PADDING
        if entered + most > room or left + most > 2 * room:
            break
        if some_holes:
            at_start, at_end = (entered, left) if up else (left, entered)
            at_start = copy_rules(out, at_start, start_slots, holes.starts, start, starts)
            at_end = copy_rules(out, at_end, end_slots, holes.ends, end, ends)
            entered, left = (at_start, at_end) if up else (at_end, at_start)
        else:
            copy_run(out, entered if up else left, start_slots, start, max(starts, 1))
            copy_run(out, left if up else entered, end_slots, end, max(ends, 1))
            entered += starts if up else ends
            left += ends if up else starts
        row += 1
        offsets[ENTER, row] = entered
        offsets[EXIT, row] = left - room
        offsets[CROSS, row] = crossed
    return row


@kernel
def write_moves(
    lists: Lists,
    slot_starts: UInt32s,
    holes: Holes,
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

    Rows that jump over nothing are left to `write_runs` where all may be such; it is asked less often if few are.
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
    no_starts, no_ends = holes.starts, holes.ends
    room = len(out) // 3
    some_holes = len(no_starts) > 0
    parts = places.shape[1]
    rows = places.shape[0]
    beyond_cache = len(start_slots) > _CACHED_RULES
    offsets[:, row] = 0
    all_plain = parts == 1 and not some_first and not some_regrouped and not some_missing
    pause, next_try = 0, row if all_plain and strategy != COMPARE else rows
    while row < rows:
        # Rows that jump over nothing, as far as there are some.
        if row >= next_try:
            reached = write_runs(start_slots, end_slots, least_ends, holes, places, row, beyond_cache, offsets, out)
            pause = 0 if reached > row else min(2 * pause + 1, _LONGEST_PAUSE)
            row, next_try = reached, reached + 1 + pause
            if row == rows:
                break
        entered, left, crossed = offsets[ENTER, row], offsets[EXIT, row] + room, offsets[CROSS, row] + 2 * room
        if beyond_cache and row + _AHEAD < rows:
            for part in range(parts):
                start = min(i64(places[row + _AHEAD, part, 0]), i64(places[row + _AHEAD, part, 2]))
                end = min(i64(places[row + _AHEAD, part, 1]), i64(places[row + _AHEAD, part, 3]))
                prefetch(least_ends, start // BLOCK_STARTS)
                prefetch(start_slots, start)
                prefetch(end_slots, end)
        # One row, part by part: a move without a way leaves what held before and enters what holds after.
        for part in range(parts):
            s0, e0 = i64(places[row, part, 0]), i64(places[row, part, 1])
            s1, e1 = i64(places[row, part, 2]), i64(places[row, part, 3])
            if some_missing and missing[row]:
                continue
            apart = some_first and first[row]
            apart |= some_regrouped and keyed[part] and regrouped[row]
            if apart:
                were, are = count_held(holes, s0, e0), count_held(holes, s1, e1)
                if entered + are + PADDING > room or left + were + PADDING > 2 * room:
                    return row
                if were > 0:
                    left = write_held(lists, slot_starts, no_starts, s0, e0, i64(_EVERYWHERE), i64(0), out, left)
                if are > 0:
                    entered = write_held(lists, slot_starts, no_starts, s1, e1, i64(_EVERYWHERE), i64(0), out, entered)
                continue
            if s0 == s1 and e0 == e1:
                continue
            # Rules whose start is passed are entered on the way up and left on the way down; of ends the converse.
            up = s1 >= s0 and e1 >= e0
            su, eu, sv, ev = (s0, e0, s1, e1) if up else (s1, e1, s0, e0)
            starts, ends = sv - su, ev - eu
            at_start, at_end = (entered, left) if up else (left, entered)
            above, below = count_held(holes, sv, ev), count_held(holes, su, eu)
            most_starts, most_ends = min(starts, above), min(ends, below)
            most_entered, most_left = (most_starts, most_ends) if up else (most_ends, most_starts)
            if entered + most_entered + PADDING > room or left + most_left + PADDING > 2 * room:
                return row
            if with_cross and crossed + min(starts, ends) + PADDING > 3 * room:
                return row
            # What is passed is two runs if nothing was jumped over; else each of the two is walked, or compared.
            none_crossed = starts == 0 or ends == 0 or i64(least_ends[su // BLOCK_STARTS]) >= ev
            if none_crossed and strategy != COMPARE:
                if some_holes:
                    at_start = copy_rules(out, at_start, start_slots, no_starts, su, starts)
                    at_end = copy_rules(out, at_end, end_slots, no_ends, eu, ends)
                else:
                    copy_run(out, at_start, start_slots, su, starts)
                    copy_run(out, at_end, end_slots, eu, ends)
                    at_start += starts
                    at_end += ends
            else:
                if strategy == WALK or with_cross or (strategy == CHEAPER and starts <= 2 * above + _ALWAYS_WALKED):
                    over = 0
                    for start in range(su, sv):
                        if some_holes and is_hole(no_starts, start):
                            continue
                        jumped = start_ends[start] < ev
                        over += jumped
                        out[at_start] = start_slots[start]
                        at_start += not jumped
                        if with_cross:
                            out[crossed] = start_slots[start]
                            crossed += jumped
                    none_crossed = over == 0
                elif above > 0:
                    at_start = write_held(lists, slot_starts, no_starts, sv, ev, i64(_EVERYWHERE), su, out, at_start)
                if strategy != COMPARE and (none_crossed or strategy == WALK or ends <= 2 * below + _ALWAYS_WALKED):
                    for end in range(eu, ev):
                        slot = end_slots[end]
                        kept = not (some_holes and is_hole(no_ends, end))
                        out[at_end] = slot
                        at_end += kept and (none_crossed or i64(slot_starts[slot]) < su)
                elif below > 0:
                    at_end = write_held(lists, slot_starts, no_starts, su, eu, ev, i64(0), out, at_end)
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
def write_met(
    lists: Lists, slot_starts: UInt32s, holes: Holes, moves: Moves, row: int, offsets: Int64s, out: UInt32s
) -> Any:
    """Write the slots of all rules whose range meets that of a move; the row it stopped at for want of room.

    Where there is no way between the two ends (see `Moves`), those that hold at either.
    """
    places, keyed = moves.places, moves.keyed
    first, regrouped, missing = moves.first, moves.regrouped, moves.missing
    some_first, some_regrouped, some_missing = len(first) > 0, len(regrouped) > 0, len(missing) > 0
    start_slots, some_holes = lists.start_slots, len(holes.starts) > 0
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
            were, are = count_held(holes, s0, e0), i64(0)
            if apart:
                are = count_held(holes, s1, e1)
            if at + were + are + passed + PADDING > len(out):
                return row
            for start in range(s0, s0 + passed):
                out[at] = start_slots[start]
                at += not (some_holes and is_hole(holes.starts, start))
            if were > 0:
                at = write_held(lists, slot_starts, holes.starts, s0, e0, i64(_EVERYWHERE), i64(0), out, at)
            if are > 0:
                at = write_held(lists, slot_starts, holes.starts, s1, e1, i64(_EVERYWHERE), i64(0), out, at)
        row += 1
        offsets[row] = at
    return row


@kernel
def translate(slots: UInt32s, start: int, count: int, translation: Translation, out: npt.NDArray[Any], at: int) -> None:
    """Copy slots to int64 `out` as ids."""
    slot_ids, origin, counted = translation.slot_ids, translation.origin, i64(translation.counted)
    if len(slot_ids) == 0:
        widen_run(out, at, slots, start, count, origin)
    elif counted == 0:
        for i in range(count):
            out[at + i] = slot_ids[slots[start + i]]
    else:
        for i in range(count):
            slot = i64(slots[start + i])
            out[at + i] = slot + origin if slot < counted else slot_ids[slot - counted]
