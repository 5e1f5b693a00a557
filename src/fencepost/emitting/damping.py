"""Damping: which detections of rules with durations, hysteresis, cooldown or a limit are reported, and when.

It knows nothing of objects or bands: an engine gives the rows that matter in groups (an object, or a pair of rows),
what each row does to the rules, and what is remembered; it gets events, and what to remember. `docs/damping.md` has the
semantics, `fencepost.indexes.kernels.damping` the pass itself.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.emitting.detections import REASON_CODES
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.kernels.damping import (
    COOLED,
    ENDS_IT,
    ENTER,
    ENTERS,
    EXIT,
    FIELDS,
    HELD,
    INNER,
    KEPT,
    LAST,
    LEAVES_IT,
    LONG_AGO,
    NEVER,
    QUIET,
    RAW,
    REPORTED,
    ROWS,
    SCRATCH,
    SINCE,
    Moments,
    Policies,
    Ranges,
    Reports,
    Spans,
    damp_pairs,
    find_dues,
    tick_pairs,
)


class Options(NamedTuple):
    """The options of damped rules, on the clock of one engine; a row per damped rule, ascending by `rules`."""

    rules: Int64s
    """Rows of rules."""
    holds: Int64s
    hold_rows: Int64s
    keeps: Int64s
    keep_rows: Int64s
    cooldowns: Int64s
    limits: Int64s
    stays: Bools
    places: npt.NDArray[np.int32]
    """By row of rule, its place among these; -1 where it is not damped."""

    def of(self, rules: Int64s, expires: Int64s, detects: UInt8s) -> Policies:
        """The policies of pairs with rules in these rows; those of rules that are not damped do nothing."""
        insides = (detects[rules] & 1) != 0
        if not len(self.rules):
            zeros, ones = np.zeros(len(rules), np.int64), np.ones(len(rules), np.int64)
            none = np.zeros(len(rules), np.bool_)
            never = np.full(len(rules), NEVER)
            return Policies(zeros, ones, zeros, ones, zeros, never, expires[rules], none, insides)
        at = self.places[rules]
        columns: Any = [column[at] for column in self[1:-1]]
        plain = at < 0
        if plain.any():
            for column, default in zip(columns, (0, 1, 0, 1, 0, NEVER, False), strict=True):
                column[plain] = default
        holds, hold_rows, keeps, keep_rows, cooldowns, limits, stays = columns
        return Policies(holds, hold_rows, keeps, keep_rows, cooldowns, limits, expires[rules], stays, insides)


_NOTHING = np.zeros(0, np.int64)
NO_OPTIONS = Options(
    *(_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING),
    stays=np.zeros(0, np.bool_),
    places=np.zeros(0, np.int32),
)
"""Of rules that are not damped."""


class Items(NamedTuple):
    """What rows do to the rules."""

    groups: Int64s
    rules: Int64s
    rows: Int64s
    kinds: UInt8s


class Remembered(NamedTuple):
    """Pairs with what is remembered of them, in no order."""

    groups: Int64s
    rules: Int64s
    states: Int64s


class Damped(NamedTuple):
    """What a pass found. Pairs are ascending by group, then rule; reports and ranges have their numbers."""

    groups: Int64s
    rules: Int64s
    states: Int64s
    policies: Policies
    reports: Reports
    ranges: Ranges
    dropped: int
    """Pending enters that were dropped."""

    def has(self, groups: Int64s, rules: Int64s, rule_count: int) -> Bools:
        """Which of other pairs are among these."""
        return np.isin(groups * rule_count + rules, self.groups * rule_count + self.rules)


class Batch(NamedTuple):
    """The rows of a batch, by group."""

    first_row: Int64s
    """Of each group."""
    last_row: Int64s
    moments: Moments
    silent: bool
    """Whether a new object enters without an event."""
    marker: int
    """No clock is behind this."""


def damp_batch(
    items: Items, remembered: Remembered, batch: Batch, options: Options, expires: Int64s, detects: UInt8s
) -> Damped:
    """Take pairs through a batch: those that rows do something to, and those that are remembered."""
    count = max(1, len(expires))
    keys = items.groups * count + items.rules
    order = np.lexsort([items.rows * 8 + items.kinds, keys])
    keys, rows, kinds = keys[order], items.rows[order], items.kinds[order]
    own_keys = remembered.groups * count + remembered.rules
    pairs = ascending(keys, own_keys)
    groups, rules = np.divmod(pairs, count)
    first_item = np.searchsorted(keys, pairs)
    last_item = np.searchsorted(keys, pairs, side="right")

    # A pair of which nothing is remembered is reported as it is; its first item says how that was.
    states = new_states(len(pairs))
    has_items = first_item < last_item
    begins = np.zeros(len(pairs), np.uint8)
    begins[has_items] = kinds[first_item[has_items]]
    was_inside = (begins == LEAVES_IT) | (begins == ENDS_IT)
    for field in (RAW, REPORTED, INNER):
        states[:, field] = was_inside
    states[np.searchsorted(pairs, own_keys)] = remembered.states

    policies = options.of(rules, expires, detects)
    spans = Spans(batch.first_row[groups], batch.last_row[groups], first_item, last_item)
    room = 2 * len(rows) + 3 * len(pairs)
    has_gone = batch.moments.gone != NEVER
    if has_gone.any():
        returns = np.concatenate([[0], np.cumsum(has_gone)])
        room += 2 * int((returns[spans.last_row] - returns[spans.first_row]).sum())
    reports, ranges = _room_for_reports(room), _room_for_ranges(room + len(pairs))
    counts = np.zeros(3, np.int64)
    damp_pairs(
        np.zeros(SCRATCH, np.int64),
        states,
        policies,
        spans,
        rows,
        kinds,
        batch.moments,
        batch.silent,
        batch.marker,
        reports,
        ranges,
        counts,
    )
    written = Reports(*(column[: counts[0]] for column in reports))
    inside = Ranges(*(column[: counts[1]] for column in ranges))
    return Damped(groups, rules, states, policies, written, inside, int(counts[2]))


def damp_tick(
    rules: Int64s, states: Int64s, gone: Int64s, now: int, options: Options, expires: Int64s, detects: UInt8s
) -> tuple[Int64s, Reports, int]:
    """Let a time come for pairs; their new states, the reports (rows and places are numbers of pairs), and drops."""
    states, counts = states.copy(), np.zeros(3, np.int64)
    reports = _room_for_reports(2 * len(states))
    policies = options.of(rules, expires, detects)
    tick_pairs(np.zeros(SCRATCH, np.int64), states, policies, gone, now, reports, counts)
    return states, Reports(*(column[: counts[0]] for column in reports)), int(counts[2])


def dues_of(rules: Int64s, states: Int64s, options: Options, expires: Int64s, detects: UInt8s) -> Int64s:
    """When the events that pairs wait for are due; `NEVER` where only rows decide."""
    return find_policy_dues(states, options.of(rules, expires, detects))


def find_policy_dues(states: Int64s, policies: Policies) -> Int64s:
    """The same, given the policies."""
    dues = np.empty(len(states), np.int64)
    find_dues(np.zeros(SCRATCH, np.int64), states, policies, dues)
    return dues


class Edited(NamedTuple):
    """Pairs of rules that change: what is so by the new rules."""

    there: Bools
    """Whether the rule is in force."""
    damped: Bools
    inner: Bools
    """Whether its condition holds."""
    stays: Bools
    """Whether the wider condition does."""
    initial: Bools
    """Whether an enter is reported of who is newly inside."""
    times: Int64s
    """Of the last row of each pair."""
    reasons: UInt8s
    """Why it ends for who no longer is inside."""


class Revised(NamedTuple):
    """What a change of rules does to pairs."""

    states: Int64s
    happens: Bools
    """Whether there is an event: of the old version where it `ends`, else of the new one."""
    ends: Bools
    kinds: UInt8s
    reasons: UInt8s
    times: Int64s
    since: Int64s
    needed: Bools
    """Whether it must be remembered."""
    dropped: int


def revise_pairs(states: Int64s, edited: Edited, policies: Policies) -> Revised:
    """Let rules change for pairs that were or are inside, or are remembered; policies are those of the new rules."""
    there, damped, inner, stays, initial, times, end_reasons = edited
    states, raw, reported = states.copy(), states[:, RAW] == 1, states[:, REPORTED] == 1
    is_raw = there & (inner | (raw & stays))
    ends = reported & (~there | (raw & ~is_raw))
    begins = is_raw & ~raw & ~reported
    asks = begins & initial
    dropped = int((raw & ~reported & ~is_raw).sum())
    states[:, INNER] = inner
    states[:, REPORTED] |= begins & ~asks
    states[asks, SINCE], states[asks, ROWS] = times[asks], 1
    states[:, RAW] = is_raw
    dues = find_policy_dues(states, policies)
    overdue = there & ~ends & np.where(damped, (dues < times) | (asks & (dues <= times)), dues != NEVER)
    rises = overdue & (states[:, REPORTED] == 0)
    waited = np.where(states[:, QUIET] > later_by(states[:, SINCE], policies.holds), COOLED, HELD)
    reasons = np.where(ends, end_reasons, np.where(rises, np.where(asks, REASON_CODES["initial"], waited), KEPT))
    at = np.maximum(times, states[:, LAST])
    since = np.where(ends | asks, at, states[:, SINCE])
    happens = ends | overdue
    states[happens, LAST] = at[happens]
    states[happens, QUIET] = later_by(at, policies.cooldowns)[happens]
    states[:, REPORTED] = np.where(happens, rises, states[:, REPORTED])
    states[:, ENTERS] = np.where(policies.limits == NEVER, 0, states[:, ENTERS] + rises)
    kinds = np.where(rises, ENTER, EXIT).astype(np.uint8)
    needed = there & damped & is_needed(states, times, policies.limits)
    return Revised(states, happens, ends, kinds, reasons.astype(np.uint8), at, since, needed, dropped)


def ascending(*parts: Int64s) -> Int64s:
    """The numbers that occur in any of these, ascending; sorting is quicker here than the hash table of NumPy."""
    found: Int64s = np.sort(np.concatenate(parts))
    return found[np.flatnonzero(np.append(True, found[1:] != found[:-1]))] if len(found) else found


def later_by(times: Int64s, lengths: Int64s) -> Int64s:
    """Times so much later; `NEVER` where there is none."""
    found: Int64s = np.where(times > NEVER - lengths, NEVER, times + lengths)
    return found


def is_needed(states: Int64s, clocks: Int64s, limits: Int64s, present: Bools | None = None) -> Bools:
    """Which states must be remembered, given the time of the last row of each pair, or of now where it is absent."""
    raw, reported = states[:, RAW], states[:, REPORTED]
    limited = (limits != NEVER) & (states[:, ENTERS] > 0)
    needed: Bools = (raw != reported) | (raw != states[:, INNER]) | limited
    if present is not None:
        needed &= present
    return needed | (states[:, QUIET] > clocks)


def new_states(count: int) -> Int64s:
    """States of pairs that are plainly outside."""
    states = np.zeros((count, FIELDS), np.int64)
    states[:, QUIET] = states[:, LAST] = LONG_AGO
    return states


def _room_for_reports(count: int) -> Reports:
    kinds: tuple[Any, ...] = (np.int64, np.int64, np.int64, np.uint8, np.uint8, np.int64, np.int64, np.int64)
    return Reports(*(np.empty(count, kind) for kind in kinds))


def _room_for_ranges(count: int) -> Ranges:
    pairs, begins, ends = (np.empty(count, np.int64) for _ in range(3))
    return Ranges(pairs, begins, ends, np.empty(count, np.bool_))
