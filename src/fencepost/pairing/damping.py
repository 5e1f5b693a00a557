"""Damping of bands: what a batch, a clock marker and a change of rules do to pairs of rows and their rules.

The clock of a pair has the rows of both its sides, in the order in which they are applied; a row that comes with an
earlier time than its partner's counts with the partner's. Silence is noticed by the next row of the silent side and by
clock markers, as it is without damping. A row that is deleted ends its pairs at once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.emitting.damping import (
    NO_OPTIONS,
    Batch,
    Damped,
    Edited,
    Items,
    Options,
    Remembered,
    damp_batch,
    damp_tick,
    dues_of,
    find_policy_dues,
    is_needed,
    new_states,
    revise_pairs,
)
from fencepost.emitting.detections import ENDED, STAYED, Detections, Pairs, detections_of, join_detections
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.kernels.damping import (
    BY_ROW,
    ENDS_IT,
    INNER,
    LAST,
    LONG_AGO,
    RAW,
    REPORTED,
    TIMED_OUT,
    Moments,
    Policies,
    Reports,
    rows_until_new,
)
from fencepost.pairing.join import Triples, differing
from fencepost.pairing.rows import AllRows
from fencepost.pairing.rules import LEFT, RIGHT, BandRule, BandRules
from fencepost.snapshot import DETECTS, NEVER, Snapshot
from fencepost.snapshot.columns import UNITS, DampingColumns
from fencepost.watching.clock import Clock, gone_after
from fencepost.watching.damping import ITEMS, PHASES, prepare_entries, read_options
from fencepost.watching.entries import NONE_PENDING, Pending
from fencepost.watching.state import State

_NOTHING = np.zeros(0, np.int64)
_ENTER_AND_EXIT = DETECTS["enter"] | DETECTS["exit"]
_MOST_ROWS = 1 << 20
"""Of pairs that are taken through a batch at once: a row stands once for every pair that it is in."""


class DampedBands(NamedTuple):
    """The damped band rules in force, on one clock; rules have numbers, which in force are their slots."""

    options: Options
    is_damped: Bools
    """By number; likewise `finds`: what is looked for, of damped rules all that they wait for."""
    finds: UInt8s
    everys: Int64s | None
    """By number, how often `inside` is reported, 0 for every row; None where no rule says."""
    ids: Int64s
    """Of the damped rules, ascending, and their numbers."""
    numbers: Int64s

    def numbers_of(self, ids: Int64s) -> Int64s:
        """The numbers of damped rules."""
        return self.numbers[np.searchsorted(self.ids, ids)]

    def first_due(self, pending: Pending) -> int:
        """When the first of what these pairs wait for is due."""
        numbers, nothing = self.numbers_of(pending.rules), np.zeros(len(self.finds), np.int64)
        return int(dues_of(numbers, pending.states, self.options, nothing, self.finds).min(initial=NEVER))


def read_damped_bands(
    snapshot: Snapshot, numbers: Mapping[int, int], ids: Int64s, detects: UInt8s, clock: Clock
) -> DampedBands | None:
    """The damped ones of band rules, which have these numbers by id; `ids` and `detects` are by number."""
    columns = _band_columns(snapshot, numbers)
    if columns is None:
        return None
    if clock.column is None:
        _check_untimed(columns, ids)
    options = read_options(columns, clock, ids, _NOTHING)
    is_damped = np.zeros(len(ids), np.bool_)
    is_damped[options.rules] = True
    everys = None
    if columns.everys.any():
        everys = np.zeros(len(ids), np.int64)
        everys[columns.rules] = clock.lengths(columns.everys, columns.every_units, ids[columns.rules])
    finds = detects.copy()
    finds[options.rules] |= _ENTER_AND_EXIT
    order = np.argsort(ids[options.rules])
    return DampedBands(options, is_damped, finds, everys, ids[options.rules][order], options.rules[order])


def _band_columns(snapshot: Snapshot, numbers: Mapping[int, int]) -> DampingColumns | None:
    """The damping of band rules, with their numbers for rows, ascending; None where there is none."""
    damping, bands = snapshot.damping, snapshot.bands
    if damping is None or bands is None:
        return None
    chosen = np.flatnonzero(np.isin(damping.rules, bands.rules))
    ids = snapshot.rules.ids[damping.rules[chosen]]
    chosen = chosen[snapshot.rows_of(ids) == damping.rules[chosen]]
    own = np.array([numbers.get(id, -1) for id in snapshot.rules.ids[damping.rules[chosen]].tolist()], np.int64)
    chosen, own = chosen[own >= 0], own[own >= 0]
    if not len(chosen):
        return None
    order = np.argsort(own)
    places = pa.array(chosen[order])
    columns = [each.take(places) if isinstance(each, pa.Array) else each[chosen[order]] for each in damping]
    return DampingColumns(*columns)._replace(rules=own[order])


def _check_untimed(columns: DampingColumns, ids: Int64s) -> None:
    """Refuse lengths of time where rows are only counted: those of two sides have no clock in common."""
    has_length = np.zeros(len(columns.rules), np.bool_)
    for units in (columns.hold_units, columns.keep_units, columns.cooldown_units, columns.every_units):
        has_length |= units == UNITS
    for place in np.flatnonzero(has_length)[:1].tolist():
        raise FencepostError(
            f"rule {ids[columns.rules[place]]}, a band with {columns.texts[place].as_py()}, without time",
            "a time column, which both sides are measured on",
            "Pass time=, or count rows: for_='3 rows'.",
        )


def keep_damped(lefts: State, damped: DampedBands | None) -> None:
    """Forget what is remembered of rules that are not damped, or not in force, by now."""
    lefts.damped.keep_only(_NOTHING if damped is None else damped.ids)


# -- rows --------------------------------------------------------------------------------------------------


class _Timeline(NamedTuple):
    """The rows of pairs in a stretch of a batch: those of one pair side by side, in the order they are applied."""

    rows: Int64s
    """Numbers among the rows of both sides."""
    groups: Int64s
    first: Int64s
    """Of each pair; likewise behind its `last`."""
    last: Int64s
    clocks: Int64s
    """The time at each row."""
    before: Int64s
    """The time of the pair before it."""


class BandRound:
    """What a batch does to damped pairs: found piece by piece, remembered all at once.

    Args:
        damped: the rules.
        rules: in force.
        states: the left and the right rows before the batch.
        rows: of the batch.
        clock: of event time.
        silent: whether a row that is new enters without an event.
        place_lefts: gives left rows, by slot, places among the values of the batch.

    """

    def __init__(
        self,
        damped: DampedBands,
        rules: BandRules,
        states: tuple[State, State],
        rows: AllRows,
        clock: Clock,
        *,
        silent: bool,
        place_lefts: Callable[[Int64s], Int64s],
    ) -> None:
        self._damped, self._rules, self._states, self._rows, self._clock = damped, rules, states, rows, clock
        self._silent, self._place_lefts = silent, place_lefts
        self._expires = clock.instants(rules.expires)
        self._width = len(states[RIGHT].present) + 1
        """Pairs are numbered by left slot times this, plus right slot."""
        self._slots = _NOTHING
        """Left rows whose entries differ from those of the state, ascending."""
        self._pending = NONE_PENDING
        self._dropped = 0

    def damp(self, found: Detections, begin: int, end: int) -> Detections:
        """The detections that are reported of those that the rows of some moments cause."""
        is_damped = self._damped.is_damped[found.rules]
        mine, plain = found.take(np.flatnonzero(is_damped)), found.take(np.flatnonzero(~is_damped))
        pending = self._of_rows(begin, end)
        is_item = mine.detects != DETECTS["inside"]
        if not is_item.any() and not len(pending.rules):
            return found
        theirs = _NOTHING if mine.others is None else mine.others
        pairs = mine.objects * self._width + theirs
        pending_pairs = pending.slots * self._width + pending.others
        groups = np.unique(np.concatenate([pairs[is_item], pending_pairs]))
        parts, kept = [plain], NONE_PENDING
        insides, inside_pairs = mine.take(np.flatnonzero(~is_item)), pairs[~is_item]
        items, item_pairs = mine.take(np.flatnonzero(is_item)), pairs[is_item]
        for chosen in self._in_chunks(groups, begin, end):
            lines = self._timeline(chosen, begin, end)
            own = _among(item_pairs, chosen)
            held = _among(pending_pairs, chosen)
            done = self._pass(items.take(own), lines, chosen, pending.take(held))
            kept = kept.followed_by(self._needed(done, lines, chosen))
            parts += [self._reported(done, lines, chosen), self._insides(done, lines, chosen)]
            self._dropped += done.dropped
            if len(insides.rules):
                mask = self._is_done(done, chosen, inside_pairs, insides.rules)
                insides, inside_pairs = insides.take(np.flatnonzero(~mask)), inside_pairs[~mask]
        self._remember(groups, pending, kept)
        return join_detections([part for part in (*parts, insides) if len(part.rules)])

    def _in_chunks(self, groups: Int64s, begin: int, end: int) -> Iterator[Int64s]:
        """Pairs, so many at a time that their rows have room."""
        lefts, rights = np.divmod(groups, self._width)
        counts = sum(
            np.subtract(*reversed(self._rows.between(side, slots, begin, end)))
            for side, slots in ((LEFT, lefts), (RIGHT, rights))
        )
        chunks = np.cumsum(counts) // _MOST_ROWS
        starts = np.flatnonzero(np.append(True, chunks[1:] != chunks[:-1]))
        yield from np.split(groups, starts[1:])

    def _timeline(self, groups: Int64s, begin: int, end: int) -> _Timeline:
        rows, states = self._rows, self._states
        start = np.full(len(groups), LONG_AGO)
        numbers, owners = [], []
        for side, slots in zip((LEFT, RIGHT), np.divmod(groups, self._width), strict=True):
            first, last = rows.between(side, slots, begin, end)
            counts = last - first
            ends = np.cumsum(counts)
            numbers.append(np.arange(int(counts.sum())) - np.repeat(ends - counts - first, counts))
            owners.append(np.repeat(np.arange(len(groups)), counts))
            times, known = rows.last_times(side, slots, np.full(len(slots), begin), states[side])
            start = np.where(known, np.maximum(start, times), start)
        number, group = np.concatenate(numbers), np.concatenate(owners)
        order = np.lexsort([rows.moments[number], group])
        number, group = number[order], group[order]
        first, last = (
            np.searchsorted(group, np.arange(len(groups))),
            np.searchsorted(group, np.arange(len(groups)), "right"),
        )
        clocks = np.maximum(rows.times[number], start[group])
        if self._clock.column is None:  # counts of two sides, which do not ascend together
            for one, behind in zip(first.tolist(), last.tolist(), strict=True):
                clocks[one:behind] = np.maximum.accumulate(clocks[one:behind])
        before = np.concatenate([[LONG_AGO], clocks[:-1]])
        before[first] = start
        return _Timeline(number, group, first, last, clocks, before)

    def _pass(self, items: Detections, lines: _Timeline, groups: Int64s, pending: Pending) -> Damped:
        """Take pairs through their rows."""
        rows, count = self._rows, len(lines.rows)
        deleted, gone = rows.deleted[lines.rows], rows.gone[lines.rows]
        if (gone != NEVER).any():
            # The pair ends as soon as either row is gone, though not before a row that came since.
            back = np.flatnonzero(gone != NEVER)
            gone[back] = np.minimum(gone[back], self._partners_gone(lines, groups, back))
            gone[back] = np.maximum(gone[back], lines.before[back])
        gone = np.where(deleted & (gone == NEVER), lines.clocks, gone)  # which ends it without waiting
        is_new = rows.is_new[lines.rows] | deleted
        places = 2 * np.arange(count)
        moments = Moments(lines.clocks, places, places + 1, is_new, gone, rows_until_new(is_new))
        marker = LONG_AGO if self._clock.marker is None else self._clock.marker
        batch = Batch(lines.first, lines.last, moments, self._silent, marker)
        others = _NOTHING if items.others is None else items.others
        owners = np.searchsorted(groups, items.objects * self._width + others)
        span = rows.span
        at = np.searchsorted(lines.groups * span + rows.moments[lines.rows], owners * span + rows.moments[items.rows])
        kinds = np.where(items.phases == ENDED, ENDS_IT, ITEMS[items.detects]).astype(np.uint8)
        remembered = Remembered(
            np.searchsorted(groups, pending.slots * self._width + pending.others),
            self._damped.numbers_of(pending.rules),
            pending.states,
        )
        found = Items(owners, items.rules, at, kinds)
        return damp_batch(found, remembered, batch, self._damped.options, self._expires, self._rules.detects)

    def _partners_gone(self, lines: _Timeline, groups: Int64s, places: Int64s) -> Int64s:
        """When the other rows of pairs are gone, as of some of their rows."""
        rows, gone = self._rows, np.full(len(places), NEVER)
        numbers, timeout = lines.rows[places], self._clock.timeout
        assert timeout is not None, "rows are gone"
        for side, slots in zip((LEFT, RIGHT), np.divmod(groups[lines.groups[places]], self._width), strict=True):
            other = rows.sides[numbers] != side
            last, known = rows.last_times(side, slots[other], rows.moments[numbers[other]], self._states[side])
            gone[other] = np.where(known, gone_after(last, timeout), NEVER)
        return gone

    def _needed(self, done: Damped, lines: _Timeline, groups: Int64s) -> Pending:
        """What is to be remembered of pairs."""
        needed = is_needed(done.states, lines.clocks[lines.last - 1][done.groups], done.policies.limits)
        lefts, rights = np.divmod(groups[done.groups[needed]], self._width)
        return Pending(lefts, rights, self._rules.ids[done.rules[needed]], done.states[needed])

    def _reported(self, done: Damped, lines: _Timeline, groups: Int64s) -> Detections:
        """What is reported, as detections: those that rules ask for."""
        reports: Reports = done.reports
        wanted = np.flatnonzero((self._rules.detects[done.rules[reports.pairs]] & reports.kinds) != 0)
        reports = Reports(*(column[wanted] for column in reports))
        rows, number = self._rows, lines.rows[reports.rows]
        lefts, rights = np.divmod(groups[done.groups[reports.pairs]], self._width)
        by_deletion = (reports.reasons == TIMED_OUT) & rows.deleted[number] & (rows.gone[number] == NEVER)
        reasons = np.where(by_deletion, BY_ROW, reports.reasons).astype(np.uint8)
        by_row = reasons == BY_ROW
        before, after = rows.own_places(number)
        # What no row did has the values of the left row at its instant.
        alone = np.flatnonzero(~by_row)
        codes = reports.after[alone]
        at = rows.moments[lines.rows[codes >> 1]] + (codes & 1)
        before[alone] = after[alone] = rows.left_places(lefts[alone], at, self._place_lefts)
        phases = np.where(by_row, PHASES[reports.kinds], ENDED).astype(np.uint8)
        return Detections(
            done.rules[reports.pairs],
            number,
            before,
            after,
            reports.times,
            reports.kinds,
            reasons,
            phases,
            lefts,
            rights,
            ~by_row | (rows.sides[number] == LEFT),
            reports.since,
        )

    def _insides(self, done: Damped, lines: _Timeline, groups: Int64s) -> Detections:
        """The rows on which damped pairs are inside, and reported so."""
        ranges = done.ranges
        wanted = (self._rules.detects[done.rules[ranges.pairs]] & DETECTS["inside"]) != 0
        lengths = np.where(wanted, ranges.ends - ranges.begins, 0)
        pairs = np.repeat(ranges.pairs, lengths)
        ends = np.cumsum(lengths)
        at = np.arange(len(pairs)) - np.repeat(ends - lengths - ranges.begins, lengths)
        rules, everys = done.rules[pairs], self._damped.everys
        if everys is not None:
            first = (np.repeat(ranges.begins, lengths) == at) & np.repeat(ranges.began, lengths)
            begins = first | self._rows.is_new[lines.rows[at]]
            chosen = begins | begins_window(lines.before[at], lines.clocks[at], everys[rules])
            at, rules, pairs = at[chosen], rules[chosen], pairs[chosen]
        number = lines.rows[at]
        lefts, rights = np.divmod(groups[done.groups[pairs]], self._width)
        before, after = self._rows.own_places(number)
        times = self._rows.times[number]
        found = detections_of(Pairs(number, rules), "inside", STAYED, before, after, times, lefts)
        return found._replace(others=rights, from_left=self._rows.sides[number] == LEFT)

    def _is_done(self, done: Damped, groups: Int64s, pairs: Int64s, rules: Int64s) -> Bools:
        """Which of other pairs and rules have gone through the pass."""
        owners = np.minimum(np.searchsorted(groups, pairs), len(groups) - 1)
        is_done: Bools = (groups[owners] == pairs) & done.has(owners, rules, max(1, len(self._expires)))
        return is_done

    # -- what is remembered --------------------------------------------------------------------------------

    def _of_rows(self, begin: int, end: int) -> Pending:
        """The entries of pairs that have rows in a stretch of the batch, as earlier pieces left them."""
        left, right = (self._rows.slots_between(side, begin, end) for side in (LEFT, RIGHT))
        entries = self._states[LEFT].damped
        of_left, of_right = entries.of(left)[0], entries.of_others(right)
        found = of_left.followed_by(of_right.take(~np.isin(of_right.slots, left)))
        if not len(self._slots):
            return found
        mine = np.isin(self._pending.slots, left) | np.isin(self._pending.others, right)
        return found.take(~np.isin(found.slots, self._slots)).followed_by(self._pending.take(mine))

    def _remember(self, groups: Int64s, before: Pending, now: Pending) -> None:
        """Keep what pairs have after a piece; other entries of their left rows stay."""
        touched = np.union1d(before.slots, now.slots)
        new = touched[~np.isin(touched, self._slots)]
        own = self._pending.followed_by(self._states[LEFT].damped.of(new)[0])
        own = own.take(~np.isin(own.slots * self._width + own.others, groups))
        self._pending, self._slots = own.followed_by(now), np.union1d(self._slots, touched)

    def prepare(self) -> Callable[[], None]:
        """Put what is to be remembered into the state, once the result is called."""
        if not len(self._slots) and not self._dropped:
            return lambda: None
        due = self._damped.first_due(self._pending)
        return prepare_entries(self._states[LEFT], self._slots, self._pending, due, self._dropped)


def _among(pairs: Int64s, groups: Int64s) -> Int64s:
    """The places of those pairs that are in a stretch of all groups."""
    return np.flatnonzero((pairs >= groups[0]) & (pairs <= groups[-1]))


def begins_window(before: Int64s, clocks: Int64s, everys: Int64s) -> Bools:
    """Whether a clock comes into another window of so much; always where it is 0."""
    lengths = np.maximum(everys, 1)
    begins: Bools = (everys == 0) | (before // lengths != clocks // lengths)
    return begins


# -- time --------------------------------------------------------------------------------------------------


def damp_advance(
    damped: DampedBands, rules: BandRules, states: tuple[State, State], clock: Clock, ended: Triples, now: int
) -> tuple[Detections, Callable[[], None]]:
    """What a clock marker reports of damped pairs, and what lets its effect be remembered.

    `ended` has pairs that are inside damped rules and that time ends: left, right and slot of rule.
    """
    entries, timeout = states[LEFT].damped, clock.timeout
    held = entries.all()
    known = Triples(held.slots, held.others, damped.numbers_of(held.rules))
    new, _ = differing(known, ended)
    pairs = known.joined(new)
    states_of = np.concatenate([held.states, new_states(len(new.rules))])
    for field in (RAW, REPORTED, INNER):
        states_of[len(held.rules) :, field] = 1
    present, times = _clocks_of(states, pairs)
    gone = np.full(len(pairs.rules), NEVER)
    if timeout is not None:
        for state, slots in zip(states, (pairs.moves, pairs.others), strict=True):
            gone[present] = np.minimum(gone[present], gone_after(state.times[slots[present]], timeout))
    states_of[present, LAST] = np.maximum(states_of[present, LAST], times[present])  # it ends after its last row
    expires = clock.instants(rules.expires)
    after, reports, dropped = damp_tick(pairs.rules, states_of, gone, now, damped.options, expires, rules.detects)
    stays = present & (gone > now)
    limits = damped.options.of(pairs.rules, expires, rules.detects).limits
    needed = is_needed(after, np.where(stays, times, now), limits, stays)
    kept = Pending(pairs.moves, pairs.others, rules.ids[pairs.rules], after).take(needed)
    touched = np.union1d(held.slots, kept.slots)
    settle = prepare_entries(states[LEFT], touched, kept, damped.first_due(kept), dropped)

    def settle_all() -> None:
        states[LEFT].damped.next_due = NEVER  # all entries were looked at
        settle()

    wanted = np.flatnonzero((rules.detects[pairs.rules[reports.pairs]] & reports.kinds) != 0)
    reported = pairs.only(reports.pairs[wanted])
    found = _without_rows(reported, reports.times[wanted], reports.kinds[wanted], reports.reasons[wanted])
    return found._replace(since=reports.since[wanted]), settle_all


def _clocks_of(states: tuple[State, State], pairs: Triples) -> tuple[Bools, Int64s]:
    """Whether both rows of pairs are there, and the time of the later one."""
    left, right = states
    present: Bools = left.present[pairs.moves] & right.present[pairs.others]
    times: Int64s = np.maximum(left.times[pairs.moves], right.times[pairs.others])
    return present, times


def _without_rows(pairs: Triples, times: Int64s, kinds: UInt8s, reasons: UInt8s) -> Detections:
    """Detections that no row caused; where the rows are is filled in later."""
    nowhere = np.zeros(len(times), np.int64)
    phases = np.full(len(times), ENDED, np.uint8)
    found = Detections(pairs.rules, nowhere, nowhere, nowhere, times, kinds, reasons, phases, pairs.moves)
    return found._replace(others=pairs.others, from_left=np.ones(len(times), np.bool_))


# -- changes of rules --------------------------------------------------------------------------------------


class ChangedBands(NamedTuple):
    """Band rules that change, by number: the place of their id."""

    ids: Int64s
    """Ascending."""
    gone: Sequence[BandRule]
    new: Sequence[BandRule]
    was: Triples
    """The pairs inside before, and those that are inside: left, right and number of rule."""
    is_now: Triples
    reasons: UInt8s
    """Why each rule ends."""
    after: Snapshot

    def facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of the rules before and after, by number: whether each is there, whether it is damped, and more."""
        found = []
        for rules in (self.gone, self.new):
            own: dict[str, Any] = {
                name: np.zeros(len(self.ids), kind)
                for name, kind in (("there", bool), ("damped", bool), ("initial", bool), ("detects", np.uint8))
            }
            for rule in rules:
                number = int(np.searchsorted(self.ids, rule.id))
                own["there"][number], own["damped"][number] = True, rule.damping is not None
                own["initial"][number], own["detects"][number] = rule.initial, rule.detects
            found.append(own)
        return found[0], found[1]


def damp_change(
    change: ChangedBands, states: tuple[State, State], clock: Clock
) -> tuple[Bools, Detections, Callable[[], None]] | None:
    """Which changed rules are damped (by number), what is reported of these, and what lets it be remembered.

    None where none of them is. What ends has the number of its rule; what is of the new version has that plus how many
    there are.
    """
    old, new = change.facts()
    entries, count = states[LEFT].damped, max(1, len(change.ids))
    held = entries.all()
    numbers = np.minimum(np.searchsorted(change.ids, held.rules), max(0, len(change.ids) - 1))
    concerned = (change.ids[numbers] == held.rules) if len(change.ids) else np.zeros(len(held.rules), np.bool_)
    mine = old["damped"] | new["damped"]
    mine[numbers[concerned]] = True
    if not mine.any() or clock.type is None:
        return None
    by_number = dict(zip(change.ids.tolist(), range(count), strict=False))
    damped = read_damped_bands(change.after, by_number, change.ids, new["detects"], clock)
    options = NO_OPTIONS if damped is None else damped.options
    is_damped = np.zeros(len(change.ids), np.bool_)
    is_damped[options.rules] = True

    # Every pair of a concerned rule that is or was inside, or is remembered.
    width = len(states[RIGHT].present) + 1
    own = Triples(held.slots, held.others, numbers)
    here = concerned & _clocks_of(states, own)[0]
    parts = [part.only(mine[part.rules]) for part in (change.was, change.is_now)] + [own.only(here)]
    codes = [part.moves * width + part.others for part in parts]
    pairs = np.unique(np.concatenate(codes))
    was_keys, now_keys, entry_keys = (
        np.searchsorted(pairs, code) * count + part.rules for code, part in zip(codes, parts, strict=True)
    )
    keys = np.unique(np.concatenate([was_keys, now_keys, entry_keys]))
    places, number = np.divmod(keys, count)
    lefts, rights = np.divmod(pairs[places], width)
    states_of = new_states(len(keys))
    for field in (RAW, REPORTED, INNER):
        states_of[:, field] = np.isin(keys, was_keys)
    states_of[np.searchsorted(keys, entry_keys)] = held.states[here]
    times = _clocks_of(states, Triples(lefts, rights, number))[1]
    nowhere = np.zeros(len(keys), np.bool_)
    edited = Edited(
        new["there"][number],
        is_damped[number],
        np.isin(keys, now_keys),
        nowhere,
        new["initial"][number],
        times,
        change.reasons[number],
    )
    policies: Policies = options.of(number, np.full(count, NEVER), new["detects"])
    revised = revise_pairs(states_of, edited, policies)

    asked = np.where(revised.ends, old["detects"][number], new["detects"][number])
    reported = np.flatnonzero(revised.happens & ((asked & revised.kinds) != 0))
    rules = np.where(revised.ends, number, number + len(change.ids))
    triples = Triples(lefts, rights, rules).only(reported)
    found = _without_rows(triples, revised.times[reported], revised.kinds[reported], revised.reasons[reported])

    needed = revised.needed
    kept = Pending(lefts[needed], rights[needed], change.ids[number[needed]], revised.states[needed])
    # Pairs that are not here keep what they have of rules that stay.
    away = held.take(concerned & ~here & is_damped[numbers])
    touched = np.union1d(held.slots[concerned], kept.slots)
    others = held.take(~concerned & np.isin(held.slots, touched))
    due = int(find_policy_dues(revised.states, policies)[needed].min(initial=NEVER))
    pending = others.followed_by(away).followed_by(kept)
    remember = prepare_entries(states[LEFT], touched, pending, due, revised.dropped)
    return mine, found._replace(since=revised.since[reported]), remember
