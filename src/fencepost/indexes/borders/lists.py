"""Sorted starts and sorted ends of rules, laid out for walking from one value to another.

A rule is an inclusive range of ordinals. Between two values u < v lie some starts (``u < first <= v``) and some ends
(``u <= last < v``), each a run of a sorted list. A rule with only its start there begins to hold on the way up and
ceases to on the way down; one with only its end there the converse; one with both was jumped over.

Positions stand for values: with ``s`` the position behind the last start ``<= x`` and ``e`` that of the first end
``>= x``, the rules that hold at x are those that start before s and end at e or later; there are ``s - e`` of them.
To list them without walking from the beginning, *marks* keep the rules that hold at some positions, by end: from a
mark on, only the starts behind it are left to look at.

Lists are built packed. The first change spreads them: then there are *holes* between the rules, one in
`RULES_PER_HOLE`, and some behind them, so that a rule can come without all others having to move (see `edits`).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Bools, Float64s, Int64s, UInt32s, UInt64s, i64
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.slice_list.window_kernels import (
    Intervals,
    SortedIntervals,
    bucket_of,
    bulk_of,
    decode,
    enter_groups,
)
from fencepost.indexes.slice_list.windows import sort_intervals

ALIGNED = 64
"""Every part begins at a multiple of so many positions."""
BLOCK_STARTS = 8
TABLE_STARTS = 64
RULES_PER_HOLE = 63
COUNTED_WORDS = 256
_SHARE_BEHIND = 16
"""Room behind the rules of a part, for more of the last groups: that part of them."""
_LEAST_MORE, _SHARE_MORE = 1024, 64
"""Holes where it is crowded: so many, and that part of all rules."""
_RULES_PER_MORE = 4
_RULES_PER_BUCKET = 2
_APART = 2
_NEAREST = 32
NONE = 2**32 - 1


class Lists(NamedTuple):
    """The lists of all parts, one behind the other; `PADDING` items of slack at the end.

    Invariants: (1) within a group of a part `start_keys` and `end_keys` ascend; both lists have the same rules in
    the same positions' range; (2) `start_ends[i]` is the position in the ends of the rule whose start is at i;
    (3) `least_ends[i]` is the smallest of `start_ends` from position ``8 * i`` to the end of its part; (4) a mark
    (position p, first entry, behind the last) holds the slots, by end, of the rules of its group that start before p
    and end behind the end of those that hold there; every group begins with an empty one; (5) `mark_table[i]` is the
    last mark at or before position ``64 * i``.

    Where there are holes, a least end may be less than the smallest, a mark may have rules that end before it, and
    `mark_table` finds a mark nearby. What a hole has but its key means nothing.
    """

    start_keys: Int64s
    start_slots: UInt32s
    start_ends: UInt32s
    end_keys: Int64s
    end_slots: UInt32s
    least_ends: UInt32s
    marks: UInt32s
    mark_entries: UInt32s
    mark_table: UInt32s


class Part(NamedTuple):
    """Where the groups of one set of rules are in the lists, and the tables that find a value among them."""

    group_keys: Int64s
    groups_first: UInt32s
    """Position of each group's first start, counted from the part's first; large groups come first."""
    ends_first: UInt32s
    """The same for ends: the same array where there are no holes."""
    group_marks: UInt32s
    """Each group's first mark, and the one behind all; empty where there are no holes."""
    groups_table: UInt32s
    scales: Float64s
    """Per large group: origin, buckets per unit, first of its buckets, number of buckets."""
    buckets: UInt32s
    """Per bucket: positions of the first start and the first end of its group that are in it or a later one."""
    meta: Int64s
    """[values are float64, keyed by group, first position, positions]"""


class Holes(NamedTuple):
    """A bit per position that has no rule, in each list, and how many there are; empty if there are none.

    They are counted before each word since the last multiple of `COUNTED_WORDS`, and then before each of these.
    """

    starts: UInt64s
    ends: UInt64s
    starts_before: UInt32s
    ends_before: UInt32s


class Room(NamedTuple):
    """Room to edit in."""

    marks: UInt32s
    """Where the room of each mark's entries ends."""
    state: Int64s
    """[entries of marks that are used, why the last change waits, entries that it lacked, or where no hole was near its
    start and its end]"""


def empty_lists() -> Lists:
    """Lists of nothing."""
    keys, words = np.zeros(PADDING, np.int64), np.zeros(PADDING, np.uint32)
    marks = np.array([[NONE, 0, 0]], np.uint32)
    return Lists(keys, words, words, keys, words, np.zeros(0, np.uint32), marks, words, np.zeros(0, np.uint32))


def add_part(lists: Lists, first: int, marks: int, entries: int, rows: Intervals, is_float: bool) -> tuple[Lists, Part]:
    """The lists with a part for these rows, at least one, at position `first`, a multiple of `ALIGNED`.

    What was there and behind is overwritten; so many marks and mark entries are kept.
    """
    ordered = sort_intervals(rows)
    n, keyed = len(rows.slots), len(rows.groups) > 0
    groups = len(ordered.group_keys)
    counts = np.bincount(ordered.group_numbers, minlength=groups) if keyed else np.array([n])
    groups_first = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    room = -(-n // ALIGNED) * ALIGNED
    new_marks, new_entries = np.empty((groups + n // _NEAREST + 1, 2), np.uint32), np.empty(n // _APART + 1, np.uint32)
    by_position = {name: _longer(getattr(lists, name), first, room + PADDING) for name in Lists._fields[:5]}
    longer = lists._replace(
        **by_position,
        least_ends=_longer(lists.least_ends, first // BLOCK_STARTS, room // BLOCK_STARTS),
        mark_table=_longer(lists.mark_table, first // TABLE_STARTS, room // TABLE_STARTS),
    )
    lay_out(ordered, first, longer)
    placed = place_marks(
        longer.start_keys, longer.start_ends, longer.end_keys, groups_first, first, new_marks, new_entries
    )
    new_marks, new_entries = new_marks[: placed[0]], longer.start_slots[new_entries[: placed[1]]]
    new_marks[:, 1] += entries
    end = np.array([[NONE, entries + placed[1], entries + placed[1]]], np.uint32)
    behind = np.append(new_marks[1:, 1], end[0, 1])
    longer = longer._replace(
        marks=np.concatenate([lists.marks[:marks], np.column_stack([new_marks, behind]), end]),
        mark_entries=np.concatenate([lists.mark_entries[:entries], new_entries, np.zeros(PADDING, np.uint32)]),
    )
    blocks = np.arange(first // TABLE_STARTS, (first + room) // TABLE_STARTS)
    longer.mark_table[blocks] = marks + np.searchsorted(new_marks[:, 0], blocks * TABLE_STARTS, "right") - 1
    scales, buckets = _bucket_tables(longer, first, groups_first, ordered.large_groups, is_float)
    table = np.zeros(groups + groups // 6 + 1 if keyed else 0, np.uint32)
    if keyed:
        enter_groups(ordered.group_keys, 0, table)
    meta = np.array([is_float, keyed, first, n])
    no_marks = np.zeros(0, np.uint32)
    return longer, Part(ordered.group_keys, groups_first, groups_first, no_marks, table, scales, buckets, meta)


def _longer(column: npt.NDArray[Any], keep: int, more: int) -> npt.NDArray[Any]:
    """The column with room for `more` items behind the first `keep`; the same array if it has the room."""
    if keep + more <= len(column):
        return column
    larger = np.zeros(keep + more + (keep // 8 if keep else 0), column.dtype)
    larger[:keep] = column[:keep]
    return larger


def _bucket_tables(
    lists: Lists, first: int, groups_first: UInt32s, large: int, is_float: bool
) -> tuple[Float64s, UInt32s]:
    counts = np.diff(groups_first[: large + 1].astype(np.int64)) // _RULES_PER_BUCKET
    scales = np.zeros((large, 4))
    scales[:, 2] = np.cumsum(counts + 1) - (counts + 1)
    scales[:, 3] = counts
    buckets = np.zeros((int((counts + 1).sum()), 2), np.uint32)
    fill_buckets(lists.start_keys, lists.end_keys, first, groups_first, is_float, scales, buckets)
    return scales, buckets


def rows_of(part: Part, lists: Lists, holes: Holes) -> Intervals:
    """The rules of a part."""
    first, n = int(part.meta[2]), int(part.groups_first[-1])
    here = slice(first, first + n)
    groups = np.repeat(part.group_keys, np.diff(part.groups_first)) if part.meta[1] else np.zeros(0, np.int64)
    live = ~bools_of(holes.starts)[here] if len(holes.starts) else slice(None)
    starts_ends = lists.start_ends[here][live]
    rows = lists.start_slots[here][live].copy(), lists.start_keys[here][live].copy()
    return Intervals(*rows, lists.end_keys[starts_ends], groups[live] if len(groups) else groups)


def bools_of(bits: UInt64s) -> Bools:
    """A boolean per bit."""
    return np.unpackbits(bits.view(np.uint8), bitorder="little").view(np.bool_)


def spread(
    lists: Lists, holes: Holes, parts: list[Part], slots: int, crowded: tuple[int, int] | None = None
) -> tuple[Lists, Holes, Room, list[Part], UInt32s]:
    """The same rules with holes between them, in new arrays; also the start of each of so many slots.

    Where a position of the starts and one of the ends are `crowded`, there are many holes: where rules came, more will.
    """
    starts_gone, ends_gone = (bools_of(bits) for bits in holes[:2])
    made: list[Part] = []
    marks, slot_starts = lists.marks.copy(), np.zeros(slots, np.uint32)
    taken, placed = [], []
    at = 0
    for part in parts:
        first, count = int(part.meta[2]), int(part.groups_first[-1])
        here = slice(first, first + count)
        live_starts = ~starts_gone[here] if len(starts_gone) else np.ones(count, np.bool_)
        live_ends = ~ends_gone[first : first + int(part.ends_first[-1])] if len(ends_gone) else live_starts
        live = int(np.count_nonzero(live_starts))
        more = 0
        if crowded is not None and 0 <= crowded[0] - first <= int(part.meta[3]):
            more = _LEAST_MORE + live // _SHARE_MORE
        starts, ends = (
            _spread_out(mask, at, min(crowded[side] - first, len(mask)) if crowded and more else 0, more)
            for side, mask in enumerate((live_starts, live_ends))
        )
        size = live + more + live // RULES_PER_HOLE + live // _SHARE_BEHIND + ALIGNED
        size = -(-size // ALIGNED) * ALIGNED
        own = (
            slice(*np.searchsorted(marks[:-1, 0], [first, first + max(count, 1)]))
            if not len(part.group_marks)
            else (slice(int(part.group_marks[0]), int(part.group_marks[-1])))
        )
        group_marks = part.group_marks.copy()
        if not len(group_marks):
            begins = part.groups_first[:-1].astype(np.int64) + first
            group_marks = np.append(np.searchsorted(marks[:-1, 0], begins), own.stop).astype(np.uint32)
        marks[own, 0] = starts[np.minimum(marks[own, 0].astype(np.int64) - first, count)]
        buckets = np.column_stack(
            [moved[part.buckets[:, column].astype(np.int64) - first] for column, moved in enumerate((starts, ends))]
        ).astype(np.uint32)
        made.append(
            part._replace(
                groups_first=(starts[part.groups_first] - at).astype(np.uint32),
                ends_first=(ends[part.ends_first] - at).astype(np.uint32),
                group_marks=group_marks,
                buckets=buckets if len(part.buckets) else part.buckets,
                meta=np.array([*part.meta[:2], at, size]),
            )
        )
        taken.append((np.flatnonzero(live_starts) + first, np.flatnonzero(live_ends) + first))
        placed.append((starts[:-1][live_starts], ends[:-1][live_ends], starts[-1], ends, first))
        at += size
    empty = np.full(at, NONE, np.uint32)
    room = at + PADDING
    keys = [np.zeros(room, np.int64) for _ in range(2)]
    words = [np.zeros(room, np.uint32) for _ in range(3)]
    full = [np.zeros(at + 64, np.bool_) for _ in range(2)]
    for (from_starts, from_ends), (starts, ends, behind_starts, moved, first) in zip(taken, placed, strict=True):
        keys[0][starts], keys[1][ends] = lists.start_keys[from_starts], lists.end_keys[from_ends]
        words[0][starts], words[1][ends] = lists.start_slots[from_starts], lists.end_slots[from_ends]
        words[2][starts] = moved[lists.start_ends[from_starts].astype(np.int64) - first]
        slot_starts[words[0][starts]] = starts
        full[0][starts] = full[1][ends] = True
        empty[starts] = words[2][starts]
        for own_keys, places, end in ((keys[0], starts, behind_starts), (keys[1], ends, moved[-1])):
            gaps = np.diff(np.append(places, end)) - 1
            within = np.arange(gaps.sum()) - np.repeat(np.cumsum(gaps) - gaps, gaps)
            own_keys[np.repeat(places + 1, gaps) + within] = np.repeat(own_keys[places], gaps)  # the key before it
    least = empty.reshape(-1, BLOCK_STARTS).min(axis=1)
    least = np.minimum.accumulate(least[::-1])[::-1].copy()
    table = np.searchsorted(marks[:-1, 0], np.arange(at // TABLE_STARTS + 1) * TABLE_STARTS, "right") - 1
    counts = marks[:, 2].astype(np.int64) - marks[:, 1]
    rooms = np.where(marks[:, 0] == NONE, 0, counts + (counts >> 3))
    ends_of_rooms = np.cumsum(rooms)
    begins = ends_of_rooms - rooms
    entries = np.zeros(int(ends_of_rooms[-1]) + int(ends_of_rooms[-1]) // 4 + 4096 + PADDING, np.uint32)
    total = int(counts[:-1].sum())
    within = np.arange(total) - np.repeat(np.cumsum(counts[:-1]) - counts[:-1], counts[:-1])
    entries[np.repeat(begins[:-1], counts[:-1]) + within] = lists.mark_entries[
        np.repeat(marks[:-1, 1].astype(np.int64), counts[:-1]) + within
    ]
    marks[:-1, 1], marks[:-1, 2] = begins[:-1], (begins + counts)[:-1]
    new_lists = Lists(keys[0], words[0], words[2], keys[1], words[1], least, marks, entries, table.astype(np.uint32))
    bits = [np.packbits(~side, bitorder="little").view(np.uint64) for side in full]
    before = [_count_holes(side) for side in bits]
    state = np.array([int(ends_of_rooms[-1]), 0, 0, 0, 0])
    return new_lists, Holes(*bits, *before), Room(ends_of_rooms.astype(np.uint32), state), made, slot_starts


def _count_holes(bits: UInt64s) -> UInt32s:
    """How many holes there are, as `Holes` has it."""
    counts = np.bitwise_count(bits).astype(np.int64)
    before = np.cumsum(counts) - counts
    blocks = before[::COUNTED_WORDS]
    own = before - np.repeat(blocks, COUNTED_WORDS)[: len(bits)]
    return np.concatenate([own, blocks]).astype(np.uint32)


def _spread_out(live: Bools, first: int, crowded: int, more: int) -> Int64s:
    """Where each position of a part goes, and the one behind all, if holes lie between those that have a rule.

    So many more lie around a crowded position, most of them behind it: rules often come in the order of their groups.
    """
    ranks = np.concatenate([[0], np.cumsum(live)])
    moved: Int64s = first + ranks + ranks // RULES_PER_HOLE
    if more:
        denser = np.clip((ranks - ranks[crowded] + more) // _RULES_PER_MORE, 0, more)
        moved += denser - denser[0]  # a part begins with its first group
    return moved


def check_lists(part: Part, lists: Lists, holes: Holes, slot_starts: UInt32s) -> None:
    """Assert what holds between the arrays of a part and the lists."""
    first, size = part.meta[2:].tolist()
    spread_out = len(holes.starts) > 0
    every = np.zeros(len(lists.start_keys), np.bool_)
    no_start, no_end = (bools_of(bits) if spread_out else every for bits in holes[:2])
    n = int(part.groups_first[-1])
    here = np.arange(first, first + n)
    starts = here[~no_start[here]]
    own_ends = np.arange(first, first + int(part.ends_first[-1]))
    live_ends = own_ends[~no_end[own_ends]]
    if spread_out:
        assert no_start[first + n : first + size].all(), "behind all groups are holes"
        assert no_end[first + int(part.ends_first[-1]) : first + size].all(), "in both lists"
        for bits, before in ((holes.starts, holes.starts_before), (holes.ends, holes.ends_before)):
            assert (before == _count_holes(bits)).all(), "holes are counted"
    assert sorted(lists.start_slots[starts].tolist()) == sorted(lists.end_slots[live_ends].tolist()), "the same rules"
    assert (slot_starts[lists.start_slots[starts]] == starts).all(), "a slot knows its start"
    ends = lists.start_ends.astype(np.int64)
    assert (lists.end_slots[ends[starts]] == lists.start_slots[starts]).all(), "a start knows its end"
    assert (lists.end_keys[ends[starts]] >= lists.start_keys[starts]).all(), "no rule is empty"
    for block in range(first // BLOCK_STARTS, -(-(first + n) // BLOCK_STARTS)):
        later = ends[starts[starts >= block * BLOCK_STARTS]]
        least = int(lists.least_ends[block])
        assert len(later) == 0 or least == later.min() or (spread_out and least < later.min()), "the least end"
    assert part.groups_first[0] == part.ends_first[0] == 0, "a part begins with its first group"
    groups = len(part.groups_first) - 1
    mark = int(part.group_marks[0]) if spread_out else int(np.searchsorted(lists.marks[:, 0], first))
    for group in range(groups):
        begin, end = (first + int(each) for each in part.groups_first[group : group + 2])
        begin_ends, end_ends = (first + int(each) for each in part.ends_first[group : group + 2])
        assert begin <= end, "groups follow each other"
        for keys, a, b in ((lists.start_keys, begin, end), (lists.end_keys, begin_ends, end_ends)):
            assert (keys[a + 1 : b] >= keys[a : b - 1]).all(), "keys ascend within a group"
        assert (ends[starts[(starts >= begin) & (starts < end)]] >= begin_ends).all(), "a rule is in one group"
        assert int(lists.marks[mark, 0]) == begin, "a group begins with a mark"
        assert not spread_out or part.group_marks[group] == mark, "which is known"
        behind_marks = int(part.group_marks[group + 1]) if spread_out else mark + 1
        while not spread_out and int(lists.marks[behind_marks, 0]) < end:
            behind_marks += 1
        for m in range(mark, behind_marks):
            at, entry, behind_entry = lists.marks[m].tolist()
            held = slot_starts[lists.mark_entries[entry:behind_entry]].astype(np.int64)
            assert (held < at).all(), "what a mark has starts before it"
            assert (held >= begin).all(), "in its group"
            assert not no_start[held].any(), "and is there"
            by_end = lists.end_keys[ends[held]]
            assert (by_end[1:] >= by_end[:-1]).all(), "a mark's rules are by end"
            assert len(np.unique(held)) == len(held), "each once"
            before = starts[(starts >= begin) & (starts < at)]
            if spread_out:
                must = before[lists.end_keys[ends[before]] >= lists.start_keys[at]] if at < end else before[:0]
                assert m == mark or np.isin(must, held).all(), "a mark has the rules that hold"
                continue
            behind = begin + int(np.searchsorted(lists.end_keys[begin:end], lists.start_keys[at - 1])) * (at > begin)
            assert sorted(held.tolist()) == before[ends[before] >= behind].tolist(), "a mark has the rules that hold"
        mark = behind_marks
    if not spread_out:
        for block in range(first // TABLE_STARTS, (first + n) // TABLE_STARTS):
            last = np.searchsorted(lists.marks[:, 0], block * TABLE_STARTS, "right") - 1
            assert lists.mark_table[block] == last, "the table finds the last mark before a block"


@allocating_kernel
def lay_out(ordered: SortedIntervals, first: int, lists: Lists) -> None:
    """Write the rules in both orders from position `first` on, with their links and least ends."""
    rows, by_first, by_last = ordered.rows, ordered.by_first, ordered.by_last
    n = len(by_first)
    ends = np.empty(n, np.uint32)
    for i in range(n):
        row = by_last[i]
        ends[row] = first + i
        lists.end_keys[first + i] = rows.lasts[row]
        lists.end_slots[first + i] = rows.slots[row]
    for i in range(n):
        row = by_first[i]
        lists.start_keys[first + i] = rows.firsts[row]
        lists.start_slots[first + i] = rows.slots[row]
        lists.start_ends[first + i] = ends[row]
    least = i64(NONE)
    for i in range(first + n - 1, first - 1, -1):
        least = min(least, i64(lists.start_ends[i]))
        lists.least_ends[i // BLOCK_STARTS] = least


@allocating_kernel
def place_marks(
    start_keys: Int64s,
    start_ends: UInt32s,
    end_keys: Int64s,
    groups_first: UInt32s,
    first: int,
    marks: UInt32s,
    entries: UInt32s,
) -> tuple[int, int]:
    """Marks so far apart that their entries take half a word per rule; how many marks, how many entries."""
    count = 0
    filled = i64(0)
    for group in range(len(groups_first) - 1):
        begin, end = first + i64(groups_first[group]), first + i64(groups_first[group + 1])
        marks[count, 0] = begin
        marks[count, 1] = filled
        count += 1
        last, last_entry = begin, filled
        behind = begin
        for at in range(begin + 1, end):
            while end_keys[behind] < start_keys[at - 1]:
                behind += 1
            holding = at - behind
            if at - last < max(_NEAREST, _APART * holding) or start_keys[at] == start_keys[at - 1]:
                continue
            from_entry = filled
            for i in range(last_entry, from_entry):
                if start_ends[entries[i]] >= behind:
                    entries[filled] = entries[i]
                    filled += 1
            for i in range(last, at):
                if start_ends[i] >= behind:
                    entries[filled] = i
                    filled += 1
            by_end = np.argsort(start_ends[entries[from_entry:filled]])
            entries[from_entry:filled] = entries[from_entry:filled][by_end]
            marks[count, 0] = at
            marks[count, 1] = from_entry
            count += 1
            last, last_entry = at, from_entry
    return count, filled


@kernel
def fill_buckets(
    start_keys: Int64s,
    end_keys: Int64s,
    first: int,
    groups_first: UInt32s,
    is_float: bool,
    scales: Float64s,
    buckets: UInt32s,
) -> None:
    """Bucket tables over the bulk of each large group's starts, for starts and ends alike."""
    for row in range(len(scales)):
        begin, end = first + i64(groups_first[row]), first + i64(groups_first[row + 1])
        origin, reach = bulk_of(start_keys, begin, end, is_float)
        count = scales[row, 3]
        per_unit = count / reach if reach > 0 else 0.0
        if not np.isfinite(per_unit):
            per_unit = 0.0
        scales[row, 0] = origin
        scales[row, 1] = per_unit
        at = i64(scales[row, 2])
        buckets[at, 0] = begin
        buckets[at, 1] = begin
        for i in range(begin, end):
            buckets[at + 1 + bucket_of(decode(start_keys[i], is_float), origin, per_unit, count), 0] += 1
            buckets[at + 1 + bucket_of(decode(end_keys[i], is_float), origin, per_unit, count), 1] += 1
        for b in range(1, i64(count) + 1):
            buckets[at + b, 0] += buckets[at + b - 1, 0]
            buckets[at + b, 1] += buckets[at + b - 1, 1]
