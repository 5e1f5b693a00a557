"""Sorted starts and sorted ends of rules, laid out for walking from one value to another.

A rule is an inclusive range of ordinals. Between two values u < v lie some starts (``u < first <= v``) and some ends
(``u <= last < v``), each a run of a sorted list. A rule with only its start there begins to hold on the way up and
ceases to on the way down; one with only its end there the converse; one with both was jumped over.

Positions stand for values: with ``s`` the position behind the last start ``<= x`` and ``e`` that of the first end
``>= x``, the rules that hold at x are those that start before s and end at e or later; there are ``s - e`` of them.
To list them without walking from the beginning, *marks* keep the rules that hold at some positions, by end: from a
mark on, only the starts behind it are left to look at.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Float64s, Int64s, UInt32s, i64
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
_RULES_PER_BUCKET = 2
_APART = 2
_NEAREST = 32
_NONE = 2**32 - 1


class Lists(NamedTuple):
    """The lists of all parts, one behind the other; `PADDING` items of slack at the end.

    Invariants: (1) within a group of a part `start_keys` and `end_keys` ascend; both lists have the same rules in
    the same positions' range; (2) `start_ends[i]` is the position in the ends of the rule whose start is at i;
    (3) `least_ends[i]` is the smallest of `start_ends` from position ``8 * i`` to the end of its part; (4) a mark
    (position p, first entry) holds the start positions, by end, of the rules of its group that start before p and end
    behind the end of those that hold there; every group begins with an empty one; (5) `mark_table[i]` is the last
    mark at or before position ``64 * i``.
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
    """Position of each group's first rule, counted from the part's first; large groups come first."""
    groups_table: UInt32s
    scales: Float64s
    """Per large group: origin, buckets per unit, first of its buckets, number of buckets."""
    buckets: UInt32s
    """Per bucket: positions of the first start and the first end of its group that are in it or a later one."""
    meta: Int64s
    """[values are float64, keyed by group, first position, rules, marks before it, mark entries before it]"""


def empty_lists() -> Lists:
    """Lists of nothing."""
    keys, words = np.zeros(PADDING, np.int64), np.zeros(PADDING, np.uint32)
    marks = np.array([[_NONE, 0]], np.uint32)
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
    new_marks, new_entries = new_marks[: placed[0]], new_entries[: placed[1]]
    new_marks[:, 1] += entries
    end = np.array([[_NONE, entries + placed[1]]], np.uint32)
    longer = longer._replace(
        marks=np.concatenate([lists.marks[:marks], new_marks, end]),
        mark_entries=np.concatenate([lists.mark_entries[:entries], new_entries, np.zeros(PADDING, np.uint32)]),
    )
    blocks = np.arange(first // TABLE_STARTS, (first + room) // TABLE_STARTS)
    longer.mark_table[blocks] = marks + np.searchsorted(new_marks[:, 0], blocks * TABLE_STARTS, "right") - 1
    scales, buckets = _bucket_tables(longer, first, groups_first, ordered.large_groups, is_float)
    table = np.zeros(groups + groups // 6 + 1 if keyed else 0, np.uint32)
    if keyed:
        enter_groups(ordered.group_keys, 0, table)
    meta = np.array([is_float, keyed, first, n, marks, entries])
    return longer, Part(ordered.group_keys, groups_first, table, scales, buckets, meta)


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


def rows_of(part: Part, lists: Lists, gone: npt.NDArray[np.bool_]) -> Intervals:
    """The rules of a part; `gone` marks start positions that no longer count (empty if there are none)."""
    first, n = int(part.meta[2]), int(part.meta[3])
    here = slice(first, first + n)
    ends = lists.end_keys[lists.start_ends[here]]
    groups = np.repeat(part.group_keys, np.diff(part.groups_first)) if part.meta[1] else np.zeros(0, np.int64)
    rows = Intervals(lists.start_slots[here].copy(), lists.start_keys[here].copy(), ends, groups)
    if not len(gone) or not gone[here].any():
        return rows
    kept = ~gone[here]
    return Intervals(*(column[kept] if len(column) else column for column in rows))


def check_lists(part: Part, lists: Lists) -> None:
    """Assert what holds between the arrays of a part and the lists."""
    first, n, mark, entry = part.meta[2:].tolist()
    here = slice(first, first + n)
    assert sorted(lists.start_slots[here].tolist()) == sorted(lists.end_slots[here].tolist()), "the same rules"
    ends = lists.start_ends[here].astype(np.int64)
    assert (lists.end_slots[ends] == lists.start_slots[here]).all(), "a start knows its end"
    assert (lists.end_keys[ends] >= lists.start_keys[here]).all(), "no rule is empty"
    for block in range(first // BLOCK_STARTS, -(-(first + n) // BLOCK_STARTS)):
        assert lists.least_ends[block] == ends[block * BLOCK_STARTS - first :].min(), "the least end from a block on"
    for begin, end in zip(part.groups_first[:-1].tolist(), part.groups_first[1:].tolist(), strict=True):
        begin, end = first + begin, first + end
        for keys in (lists.start_keys, lists.end_keys):
            assert (keys[begin + 1 : end] >= keys[begin : end - 1]).all(), "keys ascend within a group"
        assert int(lists.marks[mark, 0]) == begin, "a group begins with a mark"
        while lists.marks[mark, 0] < end:
            at = int(lists.marks[mark, 0])
            held = lists.mark_entries[int(lists.marks[mark, 1]) : int(lists.marks[mark + 1, 1])].astype(np.int64)
            behind = begin
            if at > begin:
                behind += int(np.searchsorted(lists.end_keys[begin:end], lists.start_keys[at - 1], "left"))
            starts = np.arange(begin, at)
            holding = starts[lists.start_ends[begin:at] >= behind]
            assert (lists.start_ends[held][1:] > lists.start_ends[held][:-1]).all(), "a mark's rules are by end"
            assert sorted(held.tolist()) == holding.tolist(), "a mark has the rules that hold"
            entry += len(held)
            mark += 1
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
    least = i64(_NONE)
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
