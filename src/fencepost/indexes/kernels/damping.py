"""One pass over what happens to damped pairs: which of it is reported, and when.

A *pair* is an object (or two rows of a band) and a rule. *Raw* is whether the rule's condition holds for it, after
hysteresis; *reported* is what consumers believe. Where the two differ since some time, an event is due at an instant
that the rule's durations say; it happens if they still differ then. Values hold from one row to the next, so the rows
of an object between two changes of raw need no steps of their own: the first row at or after the instant is searched.
"""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel, kernel_piece
from fencepost.indexes.arrays import Bools, Int64s, UInt8s

NEVER = 2**63 - 1
LONG_AGO = -(2**63)

RAW, REPORTED, INNER, SINCE, ROWS, QUIET, LAST, ENTERS = range(8)
"""Columns of a pair's state: the condition after hysteresis, what was reported, whether the condition itself holds (not
only `stay`), since when raw differs from reported, on how many rows, when cooldown ends, the time of the last event,
and how many enters were reported."""
FIELDS = 8
_ENDED, _FROM, _BEGAN, _EVENTS, _RANGES, _DROPPED = range(FIELDS, FIELDS + 6)
SCRATCH = FIELDS + 6

ENDS_IT, LEAVES_IT, ENTERS_IT, LEAVES_STAY, CROSSES_IT = range(1, 6)
"""What a row does to a pair: time ends it (which is found here anew), the condition ceases, it begins, `stay` ceases,
it is jumped over. On one row they come in this order, so that the first one says how the condition was before."""

ENTER, EXIT, CROSS = 2, 4, 8
BY_ROW, EXPIRED, TIMED_OUT, HELD, KEPT, COOLED = 0, 4, 6, 7, 8, 9
"""Codes of reasons."""


class Moments(NamedTuple):
    """Rows of a batch, those of one object (or pair of rows) side by side in their order."""

    times: Int64s
    before: Int64s
    """Places of the values in force before each row, -1 for none; likewise `after` it."""
    after: Int64s
    is_new: Bools
    gone: Int64s
    """When silence had ended the object before this row; `NEVER` where it had not."""
    next_new: Int64s
    """The first row from here on that is new, of this object or a later one."""


class Policies(NamedTuple):
    """The options of the rule of each pair."""

    holds: Int64s
    hold_rows: Int64s
    """How many rows are needed; 1 where time counts."""
    keeps: Int64s
    keep_rows: Int64s
    cooldowns: Int64s
    limits: Int64s
    """`NEVER` where there is none."""
    expires: Int64s
    stays: Bools
    """Whether there is a wider condition to stay in."""
    insides: Bools
    """Whether rows inside are reported."""


class Spans(NamedTuple):
    """Where the rows and the items of each pair are."""

    first_row: Int64s
    last_row: Int64s
    """Behind the last one; likewise `last_item`."""
    first_item: Int64s
    last_item: Int64s


class Reports(NamedTuple):
    """The events that are reported, a row each."""

    pairs: Int64s
    rows: Int64s
    """The row that showed it."""
    times: Int64s
    kinds: UInt8s
    reasons: UInt8s
    since: Int64s
    before: Int64s
    after: Int64s


class Ranges(NamedTuple):
    """Rows on which a pair is inside, and reported so."""

    pairs: Int64s
    begins: Int64s
    ends: Int64s
    began: Bools
    """Whether it began with the first of them, and did not go on from before."""


@kernel_piece
def later(time: int, duration: int) -> Any:
    """A time so much later; `NEVER` where there is none."""
    return NEVER if time > NEVER - duration else time + duration


@kernel_piece
def find_due(s: Int64s, p: Policies, i: int) -> Any:
    """When a difference between raw and reported becomes an event, as far as time decides."""
    if s[RAW] == s[REPORTED]:
        return NEVER
    if s[REPORTED]:
        return later(s[SINCE], p.keeps[i]) if s[ROWS] >= p.keep_rows[i] else NEVER
    if s[ENTERS] >= p.limits[i] or s[ROWS] < p.hold_rows[i]:
        return NEVER
    return max(later(s[SINCE], p.holds[i]), s[QUIET])


@kernel_piece
def find_reason(s: Int64s, p: Policies, i: int) -> Any:
    """Why the event that is due waited, if it did."""
    if s[REPORTED]:
        return KEPT if p.keeps[i] > 0 or p.keep_rows[i] > 1 else BY_ROW
    if s[QUIET] > later(s[SINCE], p.holds[i]):
        return COOLED
    return HELD if p.holds[i] > 0 or p.hold_rows[i] > 1 else BY_ROW


@kernel_piece
def report(
    s: Int64s, p: Policies, i: int, out: Reports, row: int, time: int, kind: int, reason: int, before: int, after: int
) -> None:
    """Write one event; the times of a pair never fall."""
    time = max(time, s[LAST])
    n = s[_EVENTS]
    out.pairs[n] = i
    out.rows[n] = row
    out.times[n] = time
    out.kinds[n] = kind
    out.reasons[n] = reason
    waited = reason >= HELD  # the codes behind it are of what waited, too
    out.since[n] = s[SINCE] if waited else time
    out.before[n] = before
    out.after[n] = after
    s[_EVENTS] = n + 1
    s[LAST] = time
    s[QUIET] = later(time, p.cooldowns[i])
    if kind == ENTER:
        s[REPORTED] = 1
        if p.limits[i] != NEVER:
            s[ENTERS] += 1
    elif kind == EXIT:
        s[REPORTED] = 0


@kernel_piece
def report_change(
    s: Int64s, p: Policies, i: int, out: Reports, row: int, time: int, before: int, after: int, by_row: bool
) -> None:
    """Write the event that is due: an enter or an exit."""
    kind = EXIT if s[REPORTED] else ENTER
    reason = find_reason(s, p, i)
    if reason == BY_ROW and not by_row:
        reason = KEPT if kind == EXIT else HELD
    # What waited has no row: the values in force at the instant stand for before and after.
    report(s, p, i, out, row, time, kind, reason, before if reason == BY_ROW else after, after)


@kernel_piece
def end(s: Int64s, p: Policies, i: int, out: Reports, row: int, time: int, reason: int, place: int) -> None:
    """Let time end a pair."""
    if s[REPORTED]:
        report(s, p, i, out, row, time, EXIT, reason, place, place)
    elif s[RAW]:
        s[_DROPPED] += 1
    s[RAW] = 0
    s[INNER] = 0
    if reason == TIMED_OUT:
        s[ENTERS] = 0  # who comes back is new, and what is known of the gone must have an end


@kernel_piece
def settle(s: Int64s, p: Policies, i: int, out: Reports, row: int, now: int, gone: int, place: int) -> None:
    """Report what is due before a time, then what time ends by it."""
    ends = min(p.expires[i], gone)
    due = find_due(s, p, i)
    if due < now and due < ends and not s[_ENDED]:
        report_change(s, p, i, out, row, due, place, place, False)
    if ends <= now and not s[_ENDED]:
        end(s, p, i, out, row, ends, EXPIRED if p.expires[i] <= gone else TIMED_OUT, place)
    if p.expires[i] <= now:
        s[_ENDED] = 1


@kernel_piece
def watch_inside(s: Int64s, i: int, row: int, ranges: Ranges) -> None:
    """Open or close the range of rows inside, as it is from this row on."""
    is_inside = s[RAW] == 1 and s[REPORTED] == 1
    if is_inside and s[_FROM] < 0:
        s[_FROM] = row
        s[_BEGAN] = 1
    elif not is_inside and s[_FROM] >= 0:
        close_inside(s, i, row, ranges)


@kernel_piece
def close_inside(s: Int64s, i: int, row: int, ranges: Ranges) -> None:
    """Write the range of rows inside, which ends in front of a row."""
    if row > s[_FROM]:
        n = s[_RANGES]
        ranges.pairs[n] = i
        ranges.begins[n] = s[_FROM]
        ranges.ends[n] = row
        ranges.began[n] = s[_BEGAN] == 1
        s[_RANGES] = n + 1
    s[_FROM] = -1


@kernel_piece
def search(times: Int64s, first: int, last: int, time: int) -> Any:
    """The first row at or after a time."""
    while first < last:
        middle = (first + last) // 2
        if times[middle] < time:
            first = middle + 1
        else:
            last = middle
    return first


@kernel_piece
def pass_rows(s: Int64s, p: Policies, i: int, m: Moments, first: int, last: int, out: Reports, ranges: Ranges) -> None:
    """Let rows pass that change nothing for the pair, and of which none is new."""
    ended_at = last if s[_ENDED] else search(m.times, first, last, p.expires[i])
    at = first
    while s[RAW] != s[REPORTED] and at < last:
        due = find_due(s, p, i)
        needed = p.keep_rows[i] if s[REPORTED] else p.hold_rows[i]
        if s[ROWS] < needed:  # the row that completes the number, if it is among these
            row = at + needed - s[ROWS] - 1
            if row >= ended_at:
                break
            s[ROWS] = needed
            due = find_due(s, p, i)
            if due <= m.times[row]:
                report_change(s, p, i, out, row, m.times[row], m.after[row], m.after[row], False)
                watch_inside(s, i, row, ranges)
                break
            at = row + 1
            continue
        if due == NEVER or due >= p.expires[i]:
            break
        row = search(m.times, at, last, due)
        if row == last:
            break
        # A row at the very instant has the last word: its values are in force.
        place = m.after[row] if m.times[row] == due else m.before[row]
        report_change(s, p, i, out, row, due, place, place, False)
        watch_inside(s, i, row, ranges)
        break
    if s[RAW] != s[REPORTED]:
        s[ROWS] += last - at
    if ended_at < last:
        end(s, p, i, out, ended_at, p.expires[i], EXPIRED, m.before[ended_at])
        s[_ENDED] = 1
        watch_inside(s, i, ended_at, ranges)


@kernel_piece
def load(s: Int64s, states: Int64s, i: int) -> None:
    """Take up the state of one pair."""
    for field in range(FIELDS):
        s[field] = states[i, field]


@kernel_piece
def store(s: Int64s, states: Int64s, i: int) -> None:
    """Put the state of one pair back; one whose rule has ended has none."""
    for field in range(FIELDS):
        states[i, field] = 0 if s[_ENDED] else s[field]
    if s[_ENDED]:
        states[i, QUIET] = LONG_AGO
        states[i, LAST] = LONG_AGO


@kernel
def damp_pairs(
    s: Int64s,
    states: Int64s,
    p: Policies,
    spans: Spans,
    item_rows: Int64s,
    item_kinds: UInt8s,
    m: Moments,
    silent: bool,
    marker: int,
    out: Reports,
    ranges: Ranges,
    counts: Int64s,
) -> None:
    """Take pairs through the rows of a batch; `states` has what they were and then are, `s` is scratch space.

    Rules that a clock marker has passed have ended. `counts` has how many events and ranges were written, and how many
    pending enters were dropped.
    """
    s[_EVENTS] = s[_RANGES] = s[_DROPPED] = 0
    for i in range(len(states)):
        load(s, states, i)
        s[_ENDED] = p.expires[i] <= marker
        first, last = spans.first_row[i], spans.last_row[i]
        s[_FROM], s[_BEGAN] = (first if s[RAW] and s[REPORTED] else -1), 0
        at, item = first, spans.first_item[i]
        while True:
            # Rows up to the next one with items, or to the end; those that are new are taken one by one.
            target = item_rows[item] if item < spans.last_item[i] else last
            while at < target:
                plain = min(m.next_new[at], target)
                pass_rows(s, p, i, m, at, plain, out, ranges)
                at = plain
                if at < target:
                    settle(s, p, i, out, at, m.times[at], m.gone[at], m.before[at])
                    if s[RAW] != s[REPORTED]:
                        s[ROWS] += 1
                    watch_inside(s, i, at, ranges)
                    at += 1
            if at == last:
                break

            # The row itself: what is due before it, what it does, what is due at it.
            time = m.times[at]
            settle(s, p, i, out, at, time, m.gone[at], m.before[at])
            was_reported, left_stay, crossed = s[REPORTED], False, False
            if m.is_new[at]:
                s[INNER] = 0
            while item < spans.last_item[i] and item_rows[item] == at:
                kind = item_kinds[item]
                if kind == ENTERS_IT:
                    s[INNER] = 1
                elif kind == LEAVES_IT:
                    s[INNER] = 0
                elif kind == LEAVES_STAY:
                    left_stay = True
                elif kind == CROSSES_IT:
                    crossed = True
                item += 1
            is_raw = s[INNER] == 1 or (s[RAW] == 1 and p.stays[i] and not left_stay)
            if s[_ENDED]:
                is_raw = False
            changes = is_raw != (s[RAW] == 1)
            if changes:
                if s[RAW] and not s[REPORTED]:
                    s[_DROPPED] += 1
                s[RAW], s[SINCE], s[ROWS] = is_raw, time, 0
            if m.is_new[at] and silent:
                s[REPORTED] = s[RAW]
            if s[RAW] != s[REPORTED]:
                s[ROWS] += 1
            before = -1 if m.is_new[at] else m.before[at]
            if find_due(s, p, i) <= time:
                report_change(s, p, i, out, at, time, before, m.after[at], changes)
            if crossed and not was_reported and not s[REPORTED] and not s[_ENDED]:
                report(s, p, i, out, at, time, CROSS, BY_ROW, before, m.after[at])
            watch_inside(s, i, at, ranges)
            at += 1
        if s[_FROM] >= 0:
            close_inside(s, i, last, ranges)
        store(s, states, i)
    counts[0], counts[1], counts[2] = s[_EVENTS], s[_RANGES], s[_DROPPED]


@kernel
def tick_pairs(s: Int64s, states: Int64s, p: Policies, gone: Int64s, now: int, out: Reports, counts: Int64s) -> None:
    """Let a time come for pairs whose objects are silent; their number stands for the row and the place.

    `gone` says when silence ends each object.
    """
    s[_EVENTS] = s[_DROPPED] = 0
    for i in range(len(states)):
        load(s, states, i)
        s[_ENDED] = 0
        settle(s, p, i, out, i, now, gone[i], i)
        store(s, states, i)
    counts[0], counts[2] = s[_EVENTS], s[_DROPPED]


@kernel
def find_dues(s: Int64s, states: Int64s, p: Policies, dues: Int64s) -> None:
    """When what pairs wait for is due, as far as time decides."""
    for i in range(len(states)):
        load(s, states, i)
        dues[i] = find_due(s, p, i)


@kernel
def count_listed(heads: Any, nexts: Any, slots: Int64s) -> Any:
    """How many entries the lists of these slots have."""
    count = 0
    for slot in slots:
        entry = heads[slot] if slot < len(heads) else -1
        while entry >= 0:
            count += 1
            entry = nexts[entry]
    return count


@kernel
def collect_listed(heads: Any, nexts: Any, slots: Int64s, entries: Int64s, places: Int64s) -> None:
    """The entries in the lists of these slots, each with the place of its slot among them."""
    count = 0
    for place in range(len(slots)):
        entry = heads[slots[place]] if slots[place] < len(heads) else -1
        while entry >= 0:
            entries[count] = entry
            places[count] = place
            count += 1
            entry = nexts[entry]


@kernel
def link_entries(heads: Any, nexts: Any, slots: Int64s, entries: Int64s) -> None:
    """Put entries in front of the lists of these slots."""
    for i in range(len(entries)):
        nexts[entries[i]] = heads[slots[i]]
        heads[slots[i]] = entries[i]


def rows_until_new(is_new: Bools) -> Int64s:
    """The first row from each on that is new; their number where none is.

    >>> rows_until_new(np.array([True, False, False, True])).tolist()
    [0, 3, 3, 3]
    """
    count = len(is_new)
    if not is_new.any():
        return np.full(count, count)
    places = np.where(is_new, np.arange(count), count)
    return np.ascontiguousarray(np.minimum.accumulate(places[::-1])[::-1])
