"""The engine for objects: finds what rows, changes of rules and time do to them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fencepost.emitting.detections import Detections, Pairs, Subjects, Texts, join_detections
from fencepost.emitting.emitter import check_names
from fencepost.emitting.engine import Counts, Step, Waiting
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.kernels.damping import RAW
from fencepost.indexes.matches import in_pieces, share_room
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS, NEVER, Table
from fencepost.snapshot.labels import ChangedTexts, RuleTexts
from fencepost.watching.clock import Clock, gone_after, rules_beyond_clock
from fencepost.watching.crossings import held_at, inside_boxes
from fencepost.watching.damping import DampedRules, Round, damp_advance, damp_change, read_damped
from fencepost.watching.everyone import Everyone
from fencepost.watching.few_rows import ShortWay, take_few
from fencepost.watching.rows import (
    MovedRows,
    Rows,
    find_observing,
    find_steps,
    order_rows,
    read_carried,
    read_rows,
    read_values,
    rows_at,
    split_late,
)
from fencepost.watching.rule_changes import RuleChange, change_rule, change_rules, inside_rules
from fencepost.watching.rules_in_force import KeptColumns, LiveRule, LiveTexts, RulesInForce
from fencepost.watching.state import Journal, State
from fencepost.watching.tables import replay_tables, table_of, touched_table
from fencepost.watching.transitions import SHARES, Context, end_by_time, find_transitions, report_silence

_NAMES_KEPT = 1000
_TIDY_EVERY = 2**14
_NO_PAIRS = (np.zeros(0, np.int64), np.zeros(0, np.int64))


class WatchColumns(NamedTuple):
    """The columns of a batch that are not about rules."""

    object: str
    time: str | None
    sequence: tuple[str, ...]
    same: tuple[str, ...] = ()
    """Other names for one of these columns."""
    carry: tuple[str, ...] = ()
    """Columns that events carry."""

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those of some names that are names of these columns, whatever their case."""
        own = {name.lower() for name in (self.object, self.time, *self.sequence, *self.same) if name is not None}
        return frozenset(name for name in names if name.lower() in own)


class OwnNames(dict[str, str | None]):
    """A watch's own names of columns by the names that callers use, which match without case; None if it has none."""

    def __init__(self, kept: KeptColumns, sequence: tuple[str, ...]) -> None:
        self.kept, self._columns = kept, (*kept.types, *kept.keys, *sequence)

    def __missing__(self, name: str) -> str | None:
        near = [own for own in self._columns if own.lower() == name.lower()]
        if len(near) > 1 and name not in near:
            raise FencepostError(
                f"a value for {name}, which may be {' or '.join(near)}", "one column of that name", "Write it exactly."
            )
        if len(self) >= _NAMES_KEPT:
            self.clear()
        own = self[name] = name if name in near else near[0] if near else None
        return own


class Watch:
    """Objects that move, and the rules over them.

    It finds what happens and writes nothing. A step that it returns changes nothing until it is settled; so a batch
    whose events cannot be written has not been taken. Where `silent`, an object that is new enters without an event.
    `late` is called with late rows, as an Arrow table; `changes` needs `journal`.
    """

    def __init__(
        self,
        rules: RulesInForce,
        columns: WatchColumns,
        clock: Clock,
        *,
        silent: bool,
        late: Callable[[Any], None] | None = None,
        journal: bool = False,
    ) -> None:
        self.rules, self.columns, self.clock, self.silent, self._late = rules, columns, clock, silent, late
        self.state = Journal() if journal else State()
        self.counts = Counts()
        self._unsettled: Callable[[], None] | None = None
        """Takes back what a step that was not settled has prepared."""
        self._everyone: Everyone | None = None
        """All objects, where it was asked since the last row."""
        self._plain: bool | None = None
        self._damped: tuple[Any, DampedRules | None] | None = None
        """The damped rules, of the snapshot and the type of times for which it was asked."""
        self._short: ShortWay | None = None
        """What few rows need, of the rules for which it was asked."""
        self._until_tidy = _TIDY_EVERY
        self.carried_types: dict[str, Any] = {}
        """Of the columns that events carry, as the last rows had them."""
        self._names = OwnNames(rules.kept, columns.sequence)
        self._naming: tuple[Any, KeptColumns, frozenset[str]] | None = None
        self._check_rules(rules)
        self._track()

    @property
    def version(self) -> int:
        """Of the snapshot in force."""
        return self.rules.version

    @property
    def weight(self) -> int:
        """How many objects it has room for."""
        return len(self.state.objects)

    @property
    def waiting(self) -> Waiting:
        """What damping holds back."""
        damped = self.state.damped
        return Waiting(damped.dropped, damped.pending, damped.ending)

    # -- rows ----------------------------------------------------------------------------------------------

    def update(self, tables: Sequence[Any], beside: Any = None, *, singly: bool = False) -> Step:
        """Take a batch of rows; `beside` as for `take`. Where `singly`, few events may be written one by one."""
        self._take_back()
        step = take_few(self, tables[0], singly=singly)
        return self.detect(self.take(tables[0], beside)) if step is None else step

    def take(self, table: Table, beside: Any = None) -> MovedRows:
        """The moves of a batch. It needs no rules, and changes nothing but the numbers that objects have.

        Objects must have the type that events already name others by, if there is one: `beside`.
        """
        self._take_back()
        rows, late = self._read(table, beside), None
        null = table.rows - len(rows.slots)
        if self.columns.time is not None and len(rows.slots):
            rows, late = split_late(rows, self.state)
        counts = Counts(table.rows, 0 if late is None else len(late), null)
        timed = self.columns.time is not None
        order, ranks = order_rows(rows, self.state.strings, timed=timed, unused=self.rules.unused)
        rows, moved = find_steps(rows.take(order), self.state, self.clock.timeout, timed=timed)
        to_report = None if late is None or self._late is None else rows_at(table, late)
        return MovedRows(rows, moved, ranks, counts, to_report)

    def detect(self, moved: MovedRows) -> Step:
        """Find what moves do to the rules. It needs no state but the numbers of their objects."""
        rows, steps = moved.rows, moved.steps
        context = self._context(steps.clocks)
        if context.damped is not None:
            context = context._replace(round=Round(context.damped, self.rules, self.state, self.clock.marker))
        pieces = find_transitions(context, moved, silent=self.silent)
        about = self.subjects(steps.positions)
        about = about._replace(ranks=moved.ranks, sequences=rows.sequences, named=rows.objects)
        if self.columns.carry:
            types = {name: column.type for name, column in rows.carried.items()}
            about = about._replace(carried=rows.carried, carried_rows=rows.numbers, carried_types=types)
        return Step(pieces, about, lambda: self.settle(moved, context.round))

    def settle(self, moved: MovedRows, round: Round | None = None) -> None:
        """Remember where the objects of a batch are now, and what waits, and report the late rows."""
        remember = None if round is None else round.prepare()
        if moved.late is not None and self._late is not None:
            self._late(moved.late)  # first of all: if it fails, the batch has not been taken
        rows, steps = moved.rows, moved.steps
        lasts = np.flatnonzero(steps.is_last)
        self.state.store(rows.slots[lasts], rows.times[lasts], steps.positions.take(steps.offset + lasts))
        if remember is not None:
            remember()
        self.state.tidy()
        self.forget_answers()
        self.note_carried(rows.carried)
        self.counts = self.counts.plus(moved.counts)

    def short_way(self) -> ShortWay | None:
        """What few rows need; None where they go the long way."""
        self._take_back()
        if self.clock.type is None or not self.is_plain():
            return None
        if self._short is None or not self._short.is_current(self):
            self._short = ShortWay(self)
        return self._short

    def settle_few(self, store: Callable[[], None], slots: Int64s) -> None:
        """Remember where the objects of few rows are now. Nothing can fail from here on."""
        rows, late, null = self.counts
        counts = Counts(rows + len(slots), late, null)
        self.state.touch(slots)
        store()
        self._everyone, self.counts = None, counts

    def tidy_few(self, rows: int) -> None:
        """Give back room now and then, before so many rows are taken the short way."""
        self._until_tidy -= rows
        if self._until_tidy < 0:
            self._until_tidy = _TIDY_EVERY
            self.state.tidy()
            self.forget_answers()

    def note_carried(self, carried: Mapping[str, Any]) -> None:
        """Remember the types of the columns that events carry."""
        if carried:
            self.carried_types = {name: column.type for name, column in carried.items()}

    def count_row(self, *, late: Any = None, null: bool = False) -> None:
        """Count one row that was taken without a table."""
        if late is not None and self._late is not None:
            self._late(late())
        rows, late_rows, null_rows = self.counts
        self.counts = Counts(rows + 1, late_rows + (late is not None), null_rows + null)

    def _read(self, table: Table, beside: Any) -> Rows:
        """The rows that observe something, with numbers for their objects; nothing is kept of a batch it refuses."""
        state, rules = self.state, self.rules
        table.column(self.columns.object)  # before records get columns of nulls in place of those that they lack
        values = read_values(table, rules.kept.types, state.strings, {*rules.types, *rules.keys})
        columns = (self.columns.object, self.columns.sequence)
        rows, time_type = read_rows(table, state, columns, self.clock, values, find_observing(values, self.naming()))
        if self.columns.carry:
            rows = rows._replace(carried=read_carried(table, self.columns.carry, self.carried_types))
        if not len(rows.numbers):
            return rows
        if beside is not None and rows.objects.type != beside:
            raise FencepostError(
                f"objects of type {rows.objects.type} beside left rows named by {beside}",
                "one type, since both are the objects of events",
                f"Cast the column {self.columns.object}.",
            )
        if self.clock.type is None:
            assert time_type is not None, "there is a time column, so it has a type"
            self.start_clock(time_type)
        slots = state.objects.slots(rows.objects, add=True)
        state.make_room()
        return rows._replace(slots=slots)

    def start_clock(self, time: AttributeType) -> None:
        """Take times of this type from now on."""
        self.rules.snapshot()
        self.clock.start(time, self.rules.ids[self.rules.expiring])
        try:
            self.damped()
        except FencepostError:
            self.clock.type = None
            raise

    # -- time ----------------------------------------------------------------------------------------------

    def advance(self, now: int) -> Step:
        """Find what ends by a time: expired rules, and objects that have gone silent. The caller advances the clock."""
        self._take_back()
        if self.next_instant() > now:
            return Step([], self.subjects(), lambda: None)
        everyone, timeout = self.everyone(), self.clock.timeout
        context = self._context(everyone.times)
        last = everyone.times
        gone = np.full(len(last), NEVER, np.int64) if timeout is None else gone_after(last, timeout)
        any_expires = bool((context.expires[self.rules.expiring] <= now).any())
        asked = np.arange(len(last)) if any_expires else np.flatnonzero(gone <= now)

        def find(begin: int, end: int) -> Detections:
            places = asked[begin:end]
            clocks = None if context.clocks is None else context.clocks[places]
            held = held_at(self.rules, everyone.positions.take(places), context.strings, clocks, context.expires)
            held = Pairs(places[held.moves], held.rules)
            expires = context.expires[held.rules]
            ends = np.minimum(expires, gone[held.moves])
            ended = ends <= now
            silent = gone[held.moves] <= np.minimum(now, expires - 1)
            return join_detections(
                [
                    end_by_time(self.rules, held.only(ended), ends[ended], expires[ended], everyone.slots),
                    report_silence(self.rules, held.only(silent), ends[silent], everyone.slots),
                ]
            )

        with share_room(SHARES):
            found = join_detections(list(in_pieces(len(asked), find)))
        remember = None
        if context.damped is not None:
            about = (self.rules, self.state, everyone)
            found, remember = damp_advance(context.damped, *about, found, gone, context.expires, now)

        def settle() -> None:
            self.state.forget(everyone.slots[gone <= now])
            self.state.find_oldest()
            if remember is not None:
                remember()
            self.state.tidy()
            self.forget_answers()

        return Step([found], self.subjects(everyone.positions), settle)

    def next_instant(self) -> int:
        """No clock marker before this ends or reports anything."""
        timeout, marker = self.clock.timeout, self.clock.marker
        expires = self.clock.instants(self.rules.expires[self.rules.expiring])
        if marker is not None:
            expires = expires[expires > marker]  # a marker has ended the others
        first = int(expires.min(initial=NEVER))
        if timeout is not None and self.state.count:
            first = min(first, int(gone_after(np.array([self.state.oldest]), timeout)[0]))
        if self.state.damped.count and self.state.damped.next_due != NEVER:
            first = min(first, self.state.damped.next_due + 1)  # a marker promises nothing about its own instant
        return first

    # -- rules ---------------------------------------------------------------------------------------------

    def follow(self, rules: RulesInForce, elsewhere: Callable[[Int64s], Bools] | None = None) -> Step:
        """Let other rules be in force; `elsewhere` says which are in force though they are not among these."""
        self._take_back()
        self._check_rules(rules)
        self._prepare(rules.kept.types, rules.kept.keys)
        before, after = self.rules.snapshot(), rules.snapshot()
        everyone, strings = self.everyone(), self.state.strings
        remembered = np.unique(self.state.damped.all().rules) if self.state.damped.count else None
        change = change_rules(before, after, everyone, strings, self.clock, elsewhere, remembered)
        damped = (self.damped(), None if self.clock.type is None else read_damped(rules, self.clock))
        remember: Callable[[], None] | None = None
        if damped != (None, None):
            in_stay = Pairs(*_NO_PAIRS) if after.stay is None else self._in_stay(after.stay, change.ids)
            found, remember = damp_change(change, damped, rules, self.state, everyone, in_stay)
            change = change._replace(found=found)

        def take_over() -> None:
            self.rules = rules
            if remember is not None:
                remember()

        texts = ChangedTexts(before, after, change.rule_ids)
        columns = KeptColumns({**self.rules.types, **rules.types}, frozenset(self.rules.keys | rules.keys))
        return self._make_step(change, columns, rules.version, take_over, texts, since=rules.shows_since)

    def _in_stay(self, stay: Any, ids: Int64s) -> Pairs:
        """The objects of everyone that are inside wider conditions of these rules, numbered by their place."""
        rows = stay.rows_of(ids)
        held = inside_rules(stay, np.sort(rows[rows >= 0]), self.everyone(), self.state.strings, self.clock)
        return Pairs(held.moves, np.searchsorted(ids, stay.rules.ids[held.rules]))

    def damped(self) -> DampedRules | None:
        """The damped rules in force; None where there is none, or no time yet."""
        if self.clock.type is None:
            return None
        about = (self.rules.snapshot(), self.clock.type)
        if self._damped is None or self._damped[0] != about:
            self._damped = about, read_damped(self.rules, self.clock)
        return self._damped[1]

    def _check_rules(self, rules: RulesInForce) -> None:
        """Refuse rules that the clock cannot do with."""
        rules_beyond_clock(rules.snapshot(), self.clock).refuse()

    def put(self, id: int, rule: LiveRule | None, columns: Mapping[str, Any]) -> Step:
        """Put a prepared rule in force, or pause it, in place of any other with its id."""
        if rule is not None:
            self.clock.check_expiry(np.array([id] if rule.expires != NEVER else [], np.int64))
            self.clock.check_silence(np.array([id] if rule.detects & DETECTS["silent"] else [], np.int64))
        attributes = {name: type_ for name, type_ in columns.items() if isinstance(type_, AttributeType)}
        types = {**self.rules.types, **attributes}
        keys = [name for name in columns if name not in attributes]
        self._take_back()
        if columns:
            check_names(types)
            self._prepare(attributes, keys)
        reason, kept = "paused" if rule is None else "edited", KeptColumns(types, frozenset({*self.rules.keys, *keys}))
        return self._replace(id, rule, reason, kept, lambda: self.rules.put(id, rule, columns))

    def remove(self, id: int) -> Step:
        """Take a rule out."""
        self._take_back()
        columns = KeptColumns(self.rules.types, frozenset(self.rules.keys))
        return self._replace(id, None, "removed", columns, lambda: self.rules.remove(id))

    def _replace(
        self,
        id: int,
        new: LiveRule | None,
        reason: str,
        columns: KeptColumns,
        change_rules: Callable[[], None],
    ) -> Step:
        old, everyone = self.rules.find(id), self.everyone()
        change = change_rule(id, old, new, self._meets(old), self._meets(new), reason, everyone)
        return self._make_step(change, columns, self.rules.version, change_rules, LiveTexts(self.rules, (old, new)))

    def _make_step(
        self,
        change: RuleChange,
        columns: KeptColumns,
        version: int,
        change_rules: Callable[[], None],
        texts: Texts,
        *,
        since: bool = False,
    ) -> Step:
        about = self.subjects(self.everyone().positions)._replace(
            rule_ids=change.rule_ids,
            rule_versions=change.rule_versions,
            ascending=False,
            types=dict(columns.types),
            keys=columns.keys,
            version=version,
            texts=texts,
            shows_since=self.rules.shows_since or since,
        )

        def settle() -> None:
            change_rules()
            self._plain = self._unsettled = None
            self._track()

        return Step([change.found], about, settle)

    def _prepare(self, types: Mapping[str, AttributeType], keys: Iterable[str]) -> None:
        """Keep further columns, unless the step that needs them is never settled."""
        kept = self.state.tracked()
        if self.state.track(types, tuple(sorted(keys))):
            self._everyone = None
            self._unsettled = lambda: self.state.untrack(kept)

    def _take_back(self) -> None:
        if self._unsettled is not None:
            self._unsettled()
            self._unsettled = None
            self._everyone = None

    def _track(self) -> None:
        """Keep the columns that rules need, and those that were declared."""
        kept = self.rules.kept
        if self.state.track(kept.types, tuple(sorted(kept.keys))):
            check_names(self.rules.types)
            self.forget_answers()

    # -- questions -----------------------------------------------------------------------------------------

    def own_names(self) -> "OwnNames":
        """Finds the watch's own name of a column that a caller names."""
        kept = self.rules.kept
        if self._names.kept is not kept:
            self._names = OwnNames(kept, self.columns.sequence)
        return self._names

    def everyone(self) -> Everyone:
        """All objects and where they are."""
        if self._everyone is None:
            slots = self.state.here()
            self._everyone = Everyone(slots, self.state.positions(slots), self.state.times[slots])
        return self._everyone

    def inside(self, rule: LiveRule) -> Bools:
        """Which of all objects are inside one rule: its condition holds, or `stay` for those that were inside."""
        now, inside = self.everyone(), self._meets(rule).copy()
        damped = self.state.damped.all()
        mine = np.flatnonzero((damped.rules == rule.id) & self.state.present[damped.slots])
        inside[np.searchsorted(now.slots, damped.slots[mine])] = damped.states[mine, RAW] != 0
        return inside & ~self._has_expired(rule)

    def _meets(self, rule: LiveRule | None) -> Bools:
        """Which of all objects meet the condition of one rule that has not expired for them."""
        now = self.everyone()
        if rule is None:
            return now.nobody
        if rule.row is None:
            inside = inside_boxes(self.rules.boxes(rule), rule.computed, now.positions, self.state.strings)
        else:
            inside = now.inside_compiled(rule.row, self.rules.compiled, self.state.strings)
        return inside & ~self._has_expired(rule)

    def _has_expired(self, rule: LiveRule) -> Bools:
        """For which of all objects one rule has expired."""
        now = self.everyone()
        if rule.expires == NEVER:
            return now.nobody
        expired: Bools = self.clock.instant(rule.expires) <= self.clock.at_least(now.times)
        return expired

    def is_plain(self) -> bool:
        """Whether the two positions of a move are all that matters: no cross, no expiry, no timeout, no windows."""
        if self._plain is None:
            self._plain = (
                not self.rules.detects_cross and not len(self.rules.expiring) and self.clock.given_timeout is None
            )
            damping = self.rules.damping  # not `damped`, which needs a type of times
            self._plain &= damping is None or not bool(damping.everys.any())
        return self._plain

    def naming(self) -> frozenset[str]:
        """Columns that are remembered and only say which row it is: object, time and sequence, where no rule uses them.

        They are no observations.
        """
        snapshot, kept = self.rules.snapshot(), self.rules.kept
        if self._naming is None or self._naming[0] is not snapshot or self._naming[1] is not kept:
            self._naming = snapshot, kept, self.columns.among((*kept.types, *kept.keys)) - self.rules.used
        return self._naming[2]

    def forget_answers(self) -> None:
        """Forget what is known only as long as no object moves."""
        self._everyone = None

    def subjects(self, values: Any = None) -> Subjects:
        """The subjects of detections, with the values at their places."""
        rules = self.rules
        return Subjects(
            rules.ids,
            rules.versions,
            rules.is_ascending,
            rules.version,
            self.clock.type,
            rules.types,
            values,
            self.state.objects,
            sequence_count=len(self.columns.sequence),
            keys=rules.keys,
            strings=lambda name, codes: self.state.strings[name].taken(codes),
            all_strings=lambda name: self.state.strings[name].array(),
            texts=RuleTexts(rules.compiled),
            carried_types=self.carried_types,
            shows_since=rules.shows_since,
        )

    def _context(self, times: Int64s) -> Context:
        """The context of transitions between positions at these times."""
        rules, clock = self.rules, self.clock
        rules.snapshot()
        clocks = clock.at_least(times) if len(rules.expiring) else None
        expires = clock.instants(rules.expires)
        return Context(rules, self.state.strings, expires, clocks, clock.timeout, self.damped())

    # -- keeping it ----------------------------------------------------------------------------------------

    def tables(self) -> list[Any]:
        """All objects, as one table."""
        return [table_of(self.state)]

    def changes(self) -> list[Any] | None:
        """The objects that were touched since the last call; None where they were numbered anew."""
        assert isinstance(self.state, Journal), "it was made with journal=True"
        table = touched_table(self.state)
        return None if table is None else [table]

    def restore(self, entries: Iterable[Sequence[Any]]) -> None:
        """Take over objects that were saved, in place of those that are here."""
        state = type(self.state)()
        replay_tables(state, (entry[0] for entry in entries), self.rules.kept)
        if state.damped.count:  # rules may be left out by now, since a stream lacks their columns
            in_force = self.rules.snapshot().in_force
            damping = self.rules.damping
            waiting = np.zeros(0, np.int64) if damping is None else np.intersect1d(damping.rules, in_force)
            state.damped.keep_only(self.rules.ids[waiting])
        self.state = state
        self.forget_answers()
