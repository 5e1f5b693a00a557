"""Kernels that edit the lists in place: one rule comes or goes.

A list has *holes*: positions without a rule, whose keys ascend with all others. A rule that goes leaves one in each
list. One that comes takes the nearest: what lies between moves by a position. So a change costs what there is between
a key and a hole, and the places that know of the positions there: slots, links, buckets, groups, marks.

Kernels stop between two rules when a hole is far or the marks are short of room, and say which.
"""

from typing import Any

import numpy as np

from fencepost.compiled import kernel, kernel_piece
from fencepost.indexes.arrays import Int64s, UInt8s, UInt32s, UInt64s, i64, u64
from fencepost.indexes.borders.lists import BLOCK_STARTS, COUNTED_WORDS, TABLE_STARTS, Holes, Lists, Part, Room
from fencepost.indexes.kernels.vectors import PADDING, bit_count, bit_length
from fencepost.indexes.slice_list.edits import find_slot, group_number
from fencepost.indexes.slice_list.search import count_below
from fencepost.indexes.slice_list.window_kernels import bucket_of, decode

FAR_HOLE, FULL_MARKS = 1, 2
"""Why a change waits: no hole is near, or the entries of marks have no room."""
_FARTHEST_HOLE = 1 << 12
_EVERY_BIT = 2**64 - 1


@kernel
def number_groups(part: Part, keys: Int64s, numbers: Int64s) -> None:
    """The number of each group, or -1."""
    for i in range(len(keys)):
        numbers[i] = group_number(part, keys[i])


@kernel_piece
def holes_before(bits: UInt64s, before: UInt32s, position: int) -> Any:
    """How many holes lie before a position."""
    below, word = (u64(1) << u64(position & 63)) - u64(1), position >> 6
    in_words = i64(before[len(bits) + word // COUNTED_WORDS]) + i64(before[word])
    return in_words + bit_count(bits[word] & below)


@kernel_piece
def count_held(holes: Holes, s: int, e: int) -> Any:
    """How many rules hold at the place of these two positions."""
    if len(holes.starts) == 0:
        return s - e
    return s - holes_before(holes.starts, holes.starts_before, s) - e + holes_before(holes.ends, holes.ends_before, e)


@kernel
def has_hole(bits: UInt64s, at: int, count: int) -> Any:
    """Whether there is a hole among so many positions."""
    if count <= 0:
        return False
    word, last = at >> 6, (at + count - 1) >> 6
    found = bits[word] & (u64(_EVERY_BIT) << u64(at & 63))
    while word < last:
        if found != u64(0):
            return True
        word += 1
        found = bits[word]
    return found & (u64(_EVERY_BIT) >> u64(63 - ((at + count - 1) & 63))) != u64(0)


@kernel
def next_hole(bits: UInt64s, at: int, stop: int) -> Any:
    """The first hole from a position to before another, or -1."""
    if at >= stop:
        return i64(-1)
    word = at >> 6
    found = bits[word] & (u64(_EVERY_BIT) << u64(at & 63))
    while found == u64(0):
        word += 1
        if word << 6 >= stop:
            return i64(-1)
        found = bits[word]
    hole = (word << 6) + bit_length(found & (~found + u64(1))) - 1
    return hole if hole < stop else i64(-1)


@kernel
def last_hole(bits: UInt64s, begin: int, at: int) -> Any:
    """The last hole from a position to before another, or -1."""
    if at <= begin:
        return i64(-1)
    word = (at - 1) >> 6
    found = bits[word] & (u64(_EVERY_BIT) >> u64(63 - ((at - 1) & 63)))
    while found == u64(0):
        if word << 6 <= begin:
            return i64(-1)
        word -= 1
        found = bits[word]
    hole = (word << 6) + bit_length(found) - 1
    return hole if hole >= begin else i64(-1)


@kernel
def find_hole(bits: UInt64s, begin: int, at: int, stop: int) -> Any:
    """The hole for what comes to a position: before it in its own group, or behind it; -1 if none is near."""
    before = last_hole(bits, max(begin, at - _FARTHEST_HOLE), at)
    behind = next_hole(bits, at, min(stop, at + _FARTHEST_HOLE))
    if before >= 0 and (behind < 0 or at - 1 - before < behind - at):
        return before
    return behind


@kernel
def insert_rules(
    part: Part,
    lists: Lists,
    holes: Holes,
    room: Room,
    slots: UInt32s,
    firsts: Int64s,
    lasts: Int64s,
    groups: Int64s,
    owners: UInt8s,
    slot_starts: UInt32s,
    begin: int,
) -> Any:
    """Insert the rules from one on, whose groups the part has; the one that waits, or how many there are."""
    for i in range(begin, len(slots)):
        group = group_number(part, groups[i]) if len(groups) > 0 else i64(0)
        room.state[1] = insert_rule(part, lists, holes, room, slot_starts, slots[i], firsts[i], lasts[i], group)
        if room.state[1] != 0:
            return i
        owners[slots[i]] = 1
    return len(slots)


@kernel
def insert_rule(
    part: Part,
    lists: Lists,
    holes: Holes,
    room: Room,
    slot_starts: UInt32s,
    slot: int,
    first: int,
    last: int,
    group: int,
) -> Any:
    """Insert one rule, or say why it waits."""
    base, stop = part.meta[2], part.meta[2] + part.meta[3]
    begin, end = base + i64(part.groups_first[group]), base + i64(part.groups_first[group + 1])
    at = begin + count_below(lists.start_keys, begin, end - begin, first, True)
    hole = find_hole(holes.starts, begin, at, stop)
    begin, end = base + i64(part.ends_first[group]), base + i64(part.ends_first[group + 1])
    at_end = begin + count_below(lists.end_keys, begin, end - begin, last, True)
    end_hole = find_hole(holes.ends, begin, at_end, stop)
    if hole < 0 or end_hole < 0:
        room.state[3], room.state[4] = at, at_end
        return FAR_HOLE
    # Marks behind the start, up to the end, will have it among their entries.
    marks, behind_marks = lists.marks, i64(part.group_marks[group + 1])
    mark = first_mark(lists, i64(part.group_marks[group]), at - 1)
    m, needed = mark, i64(0)
    while m < behind_marks and lists.start_keys[marks[m, 0]] <= last:
        if marks[m, 2] == room.marks[m]:
            needed += spacious(i64(marks[m, 2]) - i64(marks[m, 1]))
        m += 1
    if room.state[0] + needed + PADDING > len(lists.mark_entries):
        room.state[2] = needed
        return FULL_MARKS
    until_mark = m
    # Nothing can be lacking from here on.
    start = open_start(part, lists, slot_starts, group, at, hole, first)
    shift_marks(lists, i64(part.group_marks[group]), at, hole)
    place = open_end(part, lists, slot_starts, group, at_end, end_hole, last)
    fill_hole(holes.starts, holes.starts_before, hole)
    fill_hole(holes.ends, holes.ends_before, end_hole)
    lists.start_keys[start], lists.start_slots[start], lists.start_ends[start] = first, slot, place
    lists.end_keys[place], lists.end_slots[place] = last, slot
    slot_starts[slot] = start
    for position in range(min(start, hole), max(start, hole) + 1):
        lower_least(lists.least_ends, position, i64(lists.start_ends[position]))
    for position in range(end_hole, place):
        moved = i64(slot_starts[lists.end_slots[position]])
        lower_least(lists.least_ends, moved, position)
    for m in range(mark, until_mark):
        insert_entry(lists, room, slot_starts, m, slot, place)
    return 0


@kernel
def spacious(count: int) -> Any:
    """The room for so many entries of a mark that move."""
    return count + (count >> 2) + 4


@kernel
def first_mark(lists: Lists, first: int, position: int) -> Any:
    """The first mark behind one, and behind a position."""
    marks = lists.marks
    m = max(i64(lists.mark_table[max(position, 0) // TABLE_STARTS]), first)
    while m > first and i64(marks[m, 0]) > position:
        m -= 1
    m += 1
    while i64(marks[m, 0]) <= position:
        m += 1
    return m


@kernel
def shift_marks(lists: Lists, first: int, at: int, hole: int) -> None:
    """Let marks follow what moved between a position and a hole; that of the group's begin stays."""
    marks = lists.marks
    if hole >= at:
        m = first_mark(lists, first, at - 1)
        while i64(marks[m, 0]) <= hole:
            marks[m, 0] += 1
            m += 1
    else:
        m = first_mark(lists, first, hole)
        while i64(marks[m, 0]) < at:
            marks[m, 0] -= 1
            m += 1


@kernel
def open_start(part: Part, lists: Lists, slot_starts: UInt32s, group: int, at: int, hole: int, first: int) -> Any:
    """Move what lies between a position of the starts and a hole; the position that is free then."""
    keys, slots, ends = lists.start_keys, lists.start_slots, lists.start_ends
    if hole >= at:
        for p in range(hole, at, -1):
            keys[p], slots[p], ends[p] = keys[p - 1], slots[p - 1], ends[p - 1]
            slot_starts[slots[p]] = p
        shift_firsts(part.groups_first, group, hole - part.meta[2])
    else:
        for p in range(hole, at - 1):
            keys[p], slots[p], ends[p] = keys[p + 1], slots[p + 1], ends[p + 1]
            slot_starts[slots[p]] = p
    shift_buckets(part, group, at, hole, first, 0)
    return at if hole >= at else at - 1


@kernel
def open_end(part: Part, lists: Lists, slot_starts: UInt32s, group: int, at: int, hole: int, last: int) -> Any:
    """The same for the ends."""
    keys, slots = lists.end_keys, lists.end_slots
    if hole >= at:
        for p in range(hole, at, -1):
            keys[p], slots[p] = keys[p - 1], slots[p - 1]
            lists.start_ends[slot_starts[slots[p]]] = p
        shift_firsts(part.ends_first, group, hole - part.meta[2])
    else:
        for p in range(hole, at - 1):
            keys[p], slots[p] = keys[p + 1], slots[p + 1]
            lists.start_ends[slot_starts[slots[p]]] = p
    shift_buckets(part, group, at, hole, last, 1)
    return at if hole >= at else at - 1


@kernel
def shift_firsts(firsts: UInt32s, group: int, hole: int) -> None:
    """Let the groups behind one begin a position later, up to a hole."""
    g = group + 1
    while g < len(firsts) and i64(firsts[g]) <= hole:
        firsts[g] += 1
        g += 1


@kernel
def shift_buckets(part: Part, group: int, at: int, hole: int, key: int, column: int) -> None:
    """Let buckets follow what moved between a position and a hole, where a key comes to it."""
    if group < len(part.scales):
        scales, buckets = part.scales, part.buckets
        begin = i64(scales[group, 2])
        own = bucket_of(decode(key, part.meta[0] != 0), scales[group, 0], scales[group, 1], scales[group, 3])
        bucket = begin + own
        if hole >= at:
            bucket += 1
            while bucket < len(buckets) and i64(buckets[bucket, column]) <= hole:
                buckets[bucket, column] += 1
                bucket += 1
        else:
            while bucket >= begin and i64(buckets[bucket, column]) > hole:
                buckets[bucket, column] -= 1
                bucket -= 1


@kernel
def lower_least(least_ends: UInt32s, start: int, end: int) -> None:
    """Let no block up to that of a start say that all ends from it on lie behind this one."""
    block = start // BLOCK_STARTS
    while block >= 0 and i64(least_ends[block]) > end:
        least_ends[block] = end
        block -= 1


@kernel
def fill_hole(bits: UInt64s, before: UInt32s, hole: int) -> None:
    """A hole is none any more."""
    bits[hole >> 6] &= ~(u64(1) << u64(hole & 63))
    block = (hole >> 6) // COUNTED_WORDS
    for word in range((hole >> 6) + 1, min((block + 1) * COUNTED_WORDS, len(bits))):
        before[word] -= np.uint32(1)
    for later in range(len(bits) + block + 1, len(before)):
        before[later] -= np.uint32(1)


@kernel
def leave_hole(bits: UInt64s, before: UInt32s, position: int) -> None:
    """A position becomes a hole."""
    bits[position >> 6] |= u64(1) << u64(position & 63)
    block = (position >> 6) // COUNTED_WORDS
    for word in range((position >> 6) + 1, min((block + 1) * COUNTED_WORDS, len(bits))):
        before[word] += np.uint32(1)
    for later in range(len(bits) + block + 1, len(before)):
        before[later] += np.uint32(1)


@kernel
def insert_entry(lists: Lists, room: Room, slot_starts: UInt32s, mark: int, slot: int, end: int) -> None:
    """Insert a rule into a mark's entries, which are in the order of their ends."""
    marks, entries = lists.marks, lists.mark_entries
    begin, behind = i64(marks[mark, 1]), i64(marks[mark, 2])
    if behind == i64(room.marks[mark]):
        to = room.state[0]
        for i in range(behind - begin):
            entries[to + i] = entries[begin + i]
        room.state[0] = to + spacious(behind - begin)
        room.marks[mark] = room.state[0]
        begin, behind = to, to + behind - begin
        marks[mark, 1] = begin
    at = behind
    while at > begin and i64(lists.start_ends[slot_starts[entries[at - 1]]]) > end:
        entries[at] = entries[at - 1]
        at -= 1
    entries[at] = slot
    marks[mark, 2] = behind + 1


@kernel
def remove_rules(lists: Lists, holes: Holes, owners: UInt8s, slot_starts: UInt32s, slots: Int64s) -> None:
    """Remove the rules in slots, or -1, that are owned."""
    marks, entries = lists.marks, lists.mark_entries
    for i in range(len(slots)):
        slot = slots[i]
        if slot < 0 or owners[slot] == 0:
            continue
        owners[slot] = 0
        start = i64(slot_starts[slot])
        leave_hole(holes.starts, holes.starts_before, start)
        end = i64(lists.start_ends[start])
        last = lists.end_keys[end]
        leave_hole(holes.ends, holes.ends_before, end)
        m = first_mark(lists, i64(0), start)
        while m < len(marks) - 1:
            # Those of a mark are in the order of their ends; the first without the rule is behind all that have it.
            at, behind = i64(marks[m, 1]), i64(marks[m, 2])
            until = behind
            while at < until:
                middle = (at + until) >> 1
                if lists.end_keys[lists.start_ends[slot_starts[entries[middle]]]] < last:
                    at = middle + 1
                else:
                    until = middle
            at = find_slot(entries, at, behind, slot)
            if at < 0:
                break
            # The order of those that end together, as all without an upper bound do, means nothing.
            if lists.end_keys[lists.start_ends[slot_starts[entries[behind - 1]]]] == last:
                entries[at] = entries[behind - 1]
            else:
                for entry in range(at, behind - 1):
                    entries[entry] = entries[entry + 1]
            marks[m, 2] = behind - 1
            m += 1
