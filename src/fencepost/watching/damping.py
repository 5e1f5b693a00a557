"""Damping of rules over objects: what a batch, a clock marker and a change of rules do to pairs of object and rule."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fencepost.emitting.damping import (
    NO_OPTIONS,
    Batch,
    Damped,
    Edited,
    Items,
    Options,
    Remembered,
    ascending,
    damp_batch,
    damp_tick,
    dues_of,
    find_policy_dues,
    is_needed,
    new_states,
    revise_pairs,
)
from fencepost.emitting.detections import (
    CROSSED,
    ENDED,
    ENTERED,
    EXITED,
    STAYED,
    Detections,
    Pairs,
    detections_of,
    join_detections,
    replace_detections,
)
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.kernels.damping import (
    BY_ROW,
    CROSSES_IT,
    ENDS_IT,
    ENTERS_IT,
    INNER,
    LEAVES_IT,
    LEAVES_STAY,
    RAW,
    REPORTED,
    Moments,
    Policies,
    Reports,
    rows_until_new,
)
from fencepost.snapshot import DETECTS, NEVER
from fencepost.snapshot.columns import ROWS as COUNTED_ROWS
from fencepost.snapshot.columns import DampingColumns
from fencepost.watching.clock import Clock, gone_after
from fencepost.watching.entries import NONE_PENDING, Pending
from fencepost.watching.everyone import Everyone
from fencepost.watching.rows import Steps
from fencepost.watching.rule_changes import RuleChange
from fencepost.watching.rules_in_force import RulesInForce
from fencepost.watching.state import State

_NOTHING = np.zeros(0, np.int64)
PHASES = np.zeros(256, np.uint8)
for _kind, _phase in (("exit", EXITED), ("cross", CROSSED), ("enter", ENTERED), ("inside", STAYED)):
    PHASES[DETECTS[_kind]] = _phase
ITEMS = np.zeros(256, np.uint8)
for _kind, _item in (("exit", LEAVES_IT), ("cross", CROSSES_IT), ("enter", ENTERS_IT)):
    ITEMS[DETECTS[_kind]] = _item


class DampedRules(NamedTuple):
    """The damped rules in force, on one clock."""

    options: Options
    is_damped: Bools
    """By row of rule."""
    stay: RulesInForce | None
    """The wider conditions that objects stay in."""
    stay_expires: Int64s
    stay_rows: Int64s
    """The rows of those rules among all."""
    everys: Int64s | None
    """By row of rule, how often `inside` is reported, 0 for every row; None where no rule says."""
    ids: Int64s
    """Of the damped rules, ascending, and their rows."""
    rows: Int64s

    def rows_of(self, ids: Int64s) -> Int64s:
        """The rows of damped rules."""
        return self.rows[np.searchsorted(self.ids, ids)]


def read_damped(rules: RulesInForce, clock: Clock) -> DampedRules | None:
    """The damped rules in force, with their lengths as ordinals of the clock; None where there is none."""
    columns, snapshot = rules.damping, rules.snapshot()
    if columns is None:
        return None
    stay_rows = _NOTHING if rules.stay is None else snapshot.rows_of(rules.stay.ids)
    # A rule that is hidden by a later one, or left out since the clock cannot do with it, is not asked.
    shown = snapshot.rows_of(rules.ids[columns.rules]) == columns.rules
    options = read_options(columns, clock, rules.ids, stay_rows, shown)
    is_damped = np.zeros(len(rules.ids), np.bool_)
    is_damped[options.rules] = True
    stay_expires = _NOTHING if rules.stay is None else clock.instants(rules.stay.expires)
    everys = None
    if columns.everys.any():
        everys = np.zeros(len(rules.ids), np.int64)
        everys[columns.rules] = clock.lengths(columns.everys, columns.every_units, rules.ids[columns.rules], shown)
    in_force = options.rules[snapshot.rows_of(rules.ids[options.rules]) == options.rules]
    rows = in_force[np.argsort(rules.ids[in_force])]
    return DampedRules(options, is_damped, rules.stay, stay_expires, stay_rows, everys, rules.ids[rows], rows)


def read_options(
    columns: DampingColumns, clock: Clock, ids: Int64s, stay_rows: Int64s, asked: Bools | None = None
) -> Options:
    """The options of damped rules; those that only say how often `inside` is reported are not among them.

    Lengths that the clock cannot do with are refused: of all rules, or of those that are `asked`.
    """
    by_rows = columns.hold_units == COUNTED_ROWS, columns.keep_units == COUNTED_ROWS
    holds, keeps = (
        np.where(is_rows, 0, clock.lengths(values, units, ids[columns.rules], asked))
        for is_rows, values, units in (
            (by_rows[0], columns.holds, columns.hold_units),
            (by_rows[1], columns.keeps, columns.keep_units),
        )
    )
    stays = np.isin(columns.rules, stay_rows)
    options = Options(
        columns.rules,
        holds,
        np.where(by_rows[0], columns.holds, 1),
        keeps,
        np.where(by_rows[1], columns.keeps, 1),
        clock.lengths(columns.cooldowns, columns.cooldown_units, ids[columns.rules], asked),
        np.where(columns.limits == 0, NEVER, columns.limits),
        stays,
        np.full(len(ids), -1, np.int32),
    )
    plain = (holds == 0) & (options.hold_rows == 1) & (keeps == 0) & (options.keep_rows == 1)
    plain &= (options.cooldowns == 0) & (options.limits == NEVER) & ~stays
    if plain.any():
        options = Options._make([*(column[~plain] for column in options[:-1]), options.places])
    options.places[options.rules] = np.arange(len(options.rules))
    return options


class Round:
    """What a batch does to the damped pairs of a watch: found piece by piece, remembered all at once."""

    def __init__(self, damped: DampedRules, rules: RulesInForce, state: State, marker: int | None) -> None:
        self._damped, self._rules, self._state, self._marker = damped, rules, state, marker
        self._slots = _NOTHING
        """Objects whose entries differ from those of the state, ascending."""
        self._pending = NONE_PENDING
        self._next_due = NEVER
        self._dropped = 0

    def damp(
        self,
        found: Detections,
        left_stay: Pairs,
        steps: Steps,
        rows: tuple[Int64s, Int64s],
        expires: Int64s,
        timeout: int | None,
        *,
        silent: bool,
    ) -> Detections:
        """The detections that are reported of those that some moves cause; rows are slots and times.

        `left_stay` has the moves that end the wider conditions.
        """
        slots, times = rows
        if not len(slots):
            return found
        # Most moves have to do with no damped rule, and nothing of theirs waits.
        is_damped = self._damped.is_damped[found.rules] & (found.detects != DETECTS["silent"])
        starts = np.flatnonzero(np.append(True, slots[1:] != slots[:-1]))
        objects = slots[starts]
        pending, places = self._of(objects)
        if not is_damped.any() and not len(pending.rules) and not len(left_stay.rules):
            return found
        # What happens to pairs of object and rule: detections of damped rules, and moves out of the wider conditions.
        # Of these detections `gone` are replaced by what is reported.
        groups = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(slots))))
        gone = is_damped & (found.detects != DETECTS["inside"])
        places_of_items = np.flatnonzero(gone)
        rows_of_items = found.rows[places_of_items]
        kinds = np.where(found.phases[places_of_items] == ENDED, ENDS_IT, ITEMS[found.detects[places_of_items]])
        items = Items(
            np.concatenate([groups[rows_of_items], groups[left_stay.moves]]),
            np.concatenate([found.rules[places_of_items], self._damped.stay_rows[left_stay.rules]]),
            np.concatenate([rows_of_items, left_stay.moves]),
            np.concatenate([kinds, np.full(len(left_stay.moves), LEAVES_STAY)]).astype(np.uint8),
        )
        # What was remembered of these objects, and the times of their rows: a group per object.
        rule_rows = self._damped.rows_of(pending.rules)
        ends = np.full(len(slots), NEVER)
        if timeout is not None:
            again = np.flatnonzero(steps.is_new & (steps.previous >= 0))
            ends[again] = gone_after(steps.clocks[steps.previous[again]], timeout)
        moments = Moments(
            times,
            steps.previous,
            steps.offset + np.arange(len(slots)),
            steps.is_new,
            ends,
            rows_until_new(steps.is_new),
        )
        # One pass says what is reported, and what is to be remembered.
        marker = -(2**63) if self._marker is None else self._marker
        batch = Batch(starts, np.append(starts[1:], len(slots)), moments, silent, marker)
        remembered = Remembered(places, rule_rows, pending.states)
        detects = self._rules.detects
        done = damp_batch(items, remembered, batch, self._damped.options, expires, detects)
        self._remember(done, objects, pending, times[batch.last_row - 1])
        self._dropped += done.dropped

        # Rows inside are reported only of pairs that are reported as inside.
        insides = np.flatnonzero(is_damped & ~gone)
        if len(insides):
            gone[insides] = done.has(groups[found.rows[insides]], found.rules[insides], max(1, len(expires)))
        reported = report_detections(done.reports, done.rules, objects[done.groups], detects)
        return replace_detections(found, gone, [reported, self._insides(done, steps, slots, times)])

    def _insides(self, done: Damped, steps: Steps, slots: Int64s, times: Int64s) -> Detections:
        """The rows on which damped pairs are inside, and reported so."""
        ranges, detects = done.ranges, self._rules.detects
        wanted = (detects[done.rules[ranges.pairs]] & DETECTS["inside"]) != 0
        lengths = np.where(wanted, ranges.ends - ranges.begins, 0)
        pairs = np.repeat(ranges.pairs, lengths)
        ends = np.cumsum(lengths)
        rows = np.arange(len(pairs)) - np.repeat(ends - lengths - ranges.begins, lengths)
        rules = done.rules[pairs]
        everys = self._damped.everys
        if everys is not None:
            first = np.repeat(ranges.begins, lengths) == rows
            chosen = (first & np.repeat(ranges.began, lengths)) | begins_window(rows, steps, times, everys[rules])
            rows, rules = rows[chosen], rules[chosen]
        before = np.where(steps.is_new[rows], -1, steps.previous[rows])
        return detections_of(
            Pairs(rows, rules), "inside", STAYED, before, steps.offset + rows, times[rows], slots[rows]
        )

    def _of(self, objects: Int64s) -> tuple[Pending, Int64s]:
        """The entries of objects, ascending, as earlier pieces left them, and the places of their objects."""
        pending, places = self._state.damped.of(objects)
        if not len(self._slots):
            return pending, places
        stays = ~np.isin(pending.slots, self._slots)
        mine = self._pending.take(np.isin(self._pending.slots, objects))
        both = pending.take(stays).followed_by(mine)
        return both, np.searchsorted(objects, both.slots)

    def _remember(self, done: Damped, objects: Int64s, before: Pending, clocks: Int64s) -> None:
        """Keep the entries that objects have after a piece, whose last rows have these times."""
        needed = np.flatnonzero(is_needed(done.states, clocks[done.groups], done.policies.limits))
        slots = objects[done.groups[needed]]
        ids, states = self._rules.ids[done.rules[needed]], done.states[needed]
        dues = find_policy_dues(states, Policies(*(column[needed] for column in done.policies)))
        self._next_due = min(self._next_due, int(dues.min(initial=NEVER)))
        now = Pending(slots, np.zeros(len(slots), np.int64), ids, states)
        touched = ascending(before.slots, slots)
        if not len(self._slots):
            self._pending, self._slots = now, touched
            return
        self._pending = self._pending.take(~np.isin(self._pending.slots, touched)).followed_by(now)
        self._slots = ascending(self._slots, touched)

    def prepare(self) -> Callable[[], None]:
        """Put what is to be remembered into the state, once the result is called."""
        if not len(self._slots) and not self._dropped:
            return lambda: None
        return prepare_entries(self._state, self._slots, self._pending, self._next_due, self._dropped)


def _prepare_entries(
    state: State, damped: DampedRules | None, rules: RulesInForce, slots: Int64s, pending: Pending, dropped: int
) -> Callable[[], None]:
    due = NEVER
    if damped is not None and len(pending.rules):
        rows = damped.rows_of(pending.rules)
        dues = dues_of(rows, pending.states, damped.options, np.zeros(len(rules.ids), np.int64), rules.detects)
        due = int(dues.min())
    return prepare_entries(state, slots, pending, due, dropped)


def prepare_entries(state: State, slots: Int64s, pending: Pending, due: int, dropped: int) -> Callable[[], None]:
    """Let objects have these entries and no others, once the result is called; nothing is due before a time."""
    put = state.damped.prepare(slots, pending)

    def settle() -> None:
        put()
        state.damped.next_due = min(state.damped.next_due, due)
        state.damped.dropped += dropped
        state.touch(slots)

    return settle


def begins_window(rows: Int64s, steps: Steps, times: Int64s, everys: Int64s) -> Bools:
    """Whether rows are the first of their object in a window of the clock of so much; always where it is 0."""
    lengths = np.maximum(everys, 1)
    before = steps.clocks[steps.previous[rows]]  # of no meaning where the row is new
    begins: Bools = (everys == 0) | steps.is_new[rows] | (before // lengths != times[rows] // lengths)
    return begins


def report_detections(reports: Reports, rules: Int64s, objects: Int64s, detects: UInt8s) -> Detections:
    """Reports of pairs, which have these rules and objects, as detections: those that the rules ask for."""
    rows = rules[reports.pairs]
    wanted = np.flatnonzero((detects[rows] & reports.kinds) != 0)
    kinds, reasons = reports.kinds[wanted], reports.reasons[wanted]
    return Detections(
        rows[wanted],
        reports.rows[wanted],
        reports.before[wanted],
        reports.after[wanted],
        reports.times[wanted],
        kinds,
        reasons,
        np.where(reasons == BY_ROW, PHASES[kinds], ENDED).astype(np.uint8),
        objects[reports.pairs[wanted]],
        since=reports.since[wanted],
    )


# -- time --------------------------------------------------------------------------------------------------


def damp_advance(
    damped: DampedRules,
    rules: RulesInForce,
    state: State,
    everyone: Everyone,
    found: Detections,
    gone: Int64s,
    expires: Int64s,
    now: int,
) -> tuple[Detections, Callable[[], None]]:
    """The detections of a clock marker that are reported, and what lets their effect be remembered.

    `found` has the rules that end for objects that are inside, `gone` when silence ends each object of everyone.
    """
    is_damped = damped.is_damped[found.rules] & (found.detects == DETECTS["exit"])
    mine, plain = found.take(np.flatnonzero(is_damped)), found.take(np.flatnonzero(~is_damped))
    pending = state.damped.all()
    rule_rows = damped.rows_of(pending.rules)
    known = rule_rows * (len(state.present) + 1) + pending.slots
    new = ~np.isin(mine.rules * (len(state.present) + 1) + mine.objects, known)
    slots = np.concatenate([pending.slots, mine.objects[new]])
    rows = np.concatenate([rule_rows, mine.rules[new]])
    states = np.concatenate([pending.states, new_states(int(new.sum()))])
    for field in (RAW, REPORTED, INNER):
        states[len(pending.rules) :, field] = 1

    present = state.present[slots]
    places = np.searchsorted(everyone.slots, slots)
    ends = np.full(len(slots), NEVER)
    ends[present] = gone[places[present]]
    states, reports, dropped = damp_tick(rows, states, ends, now, damped.options, expires, rules.detects)
    stays = present & (ends > now)
    policies = damped.options.of(rows, expires, rules.detects)
    needed = is_needed(states, np.where(stays, state.times[slots], now), policies.limits, stays)
    after = Pending(slots, np.zeros(len(slots), np.int64), rules.ids[rows], states).take(needed)
    settle = _prepare_entries(state, damped, rules, np.union1d(pending.slots, after.slots), after, dropped)

    def settle_all() -> None:
        state.damped.next_due = NEVER  # all entries were looked at
        settle()

    reported = report_detections(reports, rows, slots, rules.detects)
    at = places[reports.pairs[np.flatnonzero((rules.detects[rows[reports.pairs]] & reports.kinds) != 0)]]
    return join_detections([plain, reported._replace(before=at, after=at)]), settle_all


# -- changes of rules --------------------------------------------------------------------------------------


def damp_change(
    change: RuleChange,
    damped: tuple[DampedRules | None, DampedRules | None],
    rules: RulesInForce,
    state: State,
    now: Everyone,
    in_stay: Pairs,
) -> tuple[Detections, Callable[[], None]]:
    """The detections of a change of rules that are reported, and what lets their effect be remembered.

    Damped are the rules before and after, `rules` those after. `in_stay` has the objects of everyone that are inside
    the wider conditions of changed rules, which have the numbers of the change.
    """
    facts, count = change.facts, max(1, len(change.ids))
    assert facts is not None, "damped rules change as many do"
    old, new = damped
    held = state.damped.all()
    numbers = np.minimum(np.searchsorted(change.ids, held.rules), max(0, len(change.ids) - 1))
    concerned = (change.ids[numbers] == held.rules) if len(change.ids) else np.zeros(len(held.rules), np.bool_)
    mine = _is_damped(old, facts.old_rows) | _is_damped(new, facts.new_rows)
    if not mine.any() and not concerned.any():
        return change.found, lambda: None
    mine[numbers[concerned]] = True
    plain = change.found.take(np.flatnonzero(~mine[change.found.rules % count]))

    # Every pair of a concerned rule that is or was inside, or is remembered.
    present = state.present[held.slots] & concerned
    entry_keys = np.searchsorted(now.slots, held.slots[present]) * count + numbers[present]
    was_keys, now_keys = (
        pairs.moves[mine[pairs.rules]] * count + pairs.rules[mine[pairs.rules]] for pairs in (facts.was, facts.is_now)
    )
    keys = np.unique(np.concatenate([was_keys, now_keys, entry_keys]))
    places, number = np.divmod(keys, count)
    states = new_states(len(keys))
    was = np.isin(keys, was_keys)
    for field in (RAW, REPORTED, INNER):
        states[:, field] = was
    states[np.searchsorted(keys, entry_keys)] = held.states[present]

    # What each pair is by the new rule.
    rows = facts.new_rows[number]
    edited = Edited(
        rows >= 0,
        _is_damped(new, rows),
        np.isin(keys, now_keys),
        np.isin(keys, in_stay.moves * count + in_stay.rules),
        facts.new.initial[number],
        now.times[places],
        change.reasons[number],
    )
    no_expiry = np.full(max(1, len(rules.ids)), NEVER)
    options = NO_OPTIONS if new is None else new.options
    policies = options.of(np.maximum(rows, 0), no_expiry, _some(rules.detects))
    revised = revise_pairs(states, edited, policies)

    # Exits end the old version; what is overdue belongs to the new one.
    ends, kinds = revised.ends, revised.kinds
    asked = np.where(ends, facts.old.detects[number], facts.new.detects[number])
    reported = np.flatnonzero(revised.happens & ((asked & kinds) != 0))
    found = Detections(
        np.where(ends, number, number + len(change.ids))[reported],
        np.zeros(len(reported), np.int64),
        places[reported],
        places[reported],
        revised.times[reported],
        kinds[reported],
        revised.reasons[reported],
        np.full(len(reported), ENDED, np.uint8),
        now.slots[places[reported]],
        since=revised.since[reported],
    )

    needed = revised.needed
    slots = now.slots[places[needed]]
    kept = Pending(slots, np.zeros(len(slots), np.int64), change.ids[number[needed]], revised.states[needed])
    # Objects that are not here keep what they have of rules that stay.
    away = held.take(concerned & ~state.present[held.slots] & _is_damped(new, facts.new_rows[numbers]))
    others = held.take(~concerned)
    touched = np.union1d(held.slots[concerned], slots)
    after = others.take(np.isin(others.slots, touched)).followed_by(away).followed_by(kept)
    return join_detections([plain, found]), _prepare_entries(state, new, rules, touched, after, revised.dropped)


def _is_damped(damped: DampedRules | None, rows: Int64s) -> Bools:
    """Which of the rules in these rows are damped; -1 is none."""
    if damped is None or not len(damped.is_damped):
        return np.zeros(len(rows), np.bool_)
    found: Bools = (rows >= 0) & damped.is_damped[rows]
    return found


def _some(detects: UInt8s) -> UInt8s:
    return detects if len(detects) else np.zeros(1, np.uint8)
