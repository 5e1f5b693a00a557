"""The engine for pairs: which pairs of rows of two streams enter a band, leave it, jump over it or are inside.

A *pair* is a row of the left stream and a row of the right one. It is inside a rule if their difference is in the
rule's band, their keys are as the rule asks, and the rule has not expired by the later of the two rows (or the clock
marker). Each side's rows are objects as any others: late, silent, new by themselves.

An event has the values of the row that moved, before and after; where no row moved, those of the left row.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from fencepost.emitting.detections import (
    ENDED,
    REASON_CODES,
    Detections,
    Pairs,
    Subjects,
    detections_of,
    join_detections,
    time_reasons,
)
from fencepost.emitting.emitter import check_names
from fencepost.emitting.engine import Counts, Step, Waiting
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.kernels.damping import Policies
from fencepost.ordinals import KEY, AttributeType, ColumnType
from fencepost.pairing.batch import BandBatch
from fencepost.pairing.conditions import SideValues
from fencepost.pairing.damping import (
    BandRound,
    ChangedBands,
    DampedBands,
    damp_advance,
    damp_change,
    keep_damped,
    read_damped_bands,
)
from fencepost.pairing.indexes import BandIndexes
from fencepost.pairing.join import Triples, differing
from fencepost.pairing.rows import GrowingValues, together
from fencepost.pairing.rules import LEFT, RIGHT, BandRule, band_rules
from fencepost.pairing.sides import Pairing, Sides
from fencepost.snapshot import DETECTS, NEVER, Snapshot
from fencepost.snapshot.labels import ChangedTexts, TextsOfIds
from fencepost.snapshot.sides import BandSides
from fencepost.watching.clock import Clock, gone_after
from fencepost.watching.positions import Positions
from fencepost.watching.rules_in_force import RulesInForce
from fencepost.watching.state import Journal, State
from fencepost.watching.tables import table_of, touched_table


def _do_nothing() -> None:
    """For steps after which there is nothing to remember."""


class BandChange(NamedTuple):
    """Band rules that go and band rules that come, before either happens; a rule that is edited does both."""

    gone: list[BandRule]
    new: list[BandRule]
    types: dict[str, AttributeType]
    reasons: dict[int, str]
    """Why each rule that goes does."""
    after: Snapshot
    """The rules from then on."""

    @property
    def version(self) -> int:
        """Of the snapshot."""
        return self.after.version


class Pairwise:
    """Rows of two streams and the band rules over them.

    `Sides` has the rows, `BandIndexes` the rules; a `BandBatch` is put through each index of theirs at once, the rows
    of both sides in their order. It writes nothing, and a step changes nothing until it is settled.

    Args:
        columns: that name the rows, and their sequence.
        clock: of event time.
        pairing: everything else that a caller chooses.
        silent: whether a row that is new enters without an event.
        late: called with the late rows of a side.
        declared: columns that later rules may use.
        journal: whether `changes` will be asked for.
        carry: columns of rows that events carry.

    """

    def __init__(
        self,
        columns: tuple[str, Sequence[str]],
        clock: Clock,
        pairing: Pairing,
        *,
        silent: bool,
        late: Callable[[str, Any], None] | None = None,
        declared: Mapping[str, ColumnType] | None = None,
        journal: bool = False,
        carry: tuple[str, ...] = (),
    ) -> None:
        self.pairing, self.clock, self._silent, self._columns = pairing, clock, silent, columns
        self.sides = Sides(columns, clock, pairing, late, journal=journal, carry=carry)
        if declared:
            self.sides.declare(declared)
        self._indexes = BandIndexes(self.sides, clock)
        self._rules: RulesInForce | None = None
        self.counts = Counts()
        self._unsettled: Callable[[], None] | None = None
        """Takes back what a step that was not settled has done."""
        self._snapshot: Snapshot | None = None
        """That the bands in force are of."""
        self._damped: tuple[Any, DampedBands | None] | None = None
        """The damped rules, of the snapshot and the type of times for which it was asked."""

    @property
    def version(self) -> int:
        """Of the snapshot in force."""
        return 0 if self._rules is None else self._rules.version

    @property
    def weight(self) -> int:
        """How many rows it has room for, and how many rules it has."""
        return sum(len(state.objects) for state in self.states) + len(self._indexes.rules)

    @property
    def waiting(self) -> Waiting:
        """What damping holds back."""
        damped = self.states[LEFT].damped
        return Waiting(damped.dropped, damped.pending, damped.ending)

    @property
    def states(self) -> tuple[State, State]:
        """The left and the right rows."""
        return self.sides.states

    @property
    def types(self) -> dict[str, AttributeType]:
        """Of every column of numbers or times that bands use or ever used; keys alone aside."""
        return self.sides.types

    @property
    def keys(self) -> frozenset[str]:
        """The key columns that events show: those that rules compare or compute with strings, or ever did."""
        return frozenset(self.sides.shown_keys - {*self.pairing.key})

    def subjects(self) -> Subjects:
        """The subjects of events without a cause."""
        return self._subjects(self._indexes.rules.ids, self._indexes.rules.versions, self.version, None)

    def _key_shifts(self, sides: Sequence[tuple[int, Any]]) -> list[dict[str, int]]:
        """For each of these sides, by key: how far its codes are shifted where both sides are together."""
        left = self.states[LEFT].strings
        lengths = {name: len(left[name]) if name in left else 0 for name in self.keys}
        return [dict.fromkeys(self.keys, 0) if side == LEFT else lengths for side, _ in sides]

    def _all_strings(self, name: str) -> Any:
        """The strings of a key of both sides: first come those of the left one."""
        found = [state.strings[name].array() for state in self.states if name in state.strings]
        return pa.concat_arrays(found) if found else pa.array([], pa.string())

    def _strings(self, name: str, codes: Int64s) -> Any:
        """Those of them that have these codes."""
        strings, known = self._all_strings(name), codes >= 0
        if not len(strings):
            return pa.nulls(len(codes), pa.string())
        return strings.take(pa.array(np.where(known, codes, 0), mask=None if known.all() else ~known))

    def copy(self) -> "Pairwise":
        """An engine with the same rows and rules; the snapshot is shared."""
        return deepcopy(self, {id(shared): shared for shared in (self._rules, self._snapshot)})

    # -- rules ---------------------------------------------------------------------------------------------

    def find(self, id: int) -> BandRule | None:
        """The band rule in force with this id."""
        self._mend()
        return self._indexes.rules.find(id)

    def start(self, rules: RulesInForce, known: Mapping[str, AttributeType] | None = None) -> None:
        """Let rules be in force before there is any row; `known` has the types that columns of other events have."""
        self.follow(rules, known=known).settle()

    def follow(
        self, rules: RulesInForce, elsewhere: Any = None, known: Mapping[str, AttributeType] | None = None
    ) -> Step:
        """Let other rules be in force."""
        assert elsewhere is None, "bands are not in shards"
        self._mend()
        change = self._prepare(rules.snapshot(), known or {})
        tracked = self.sides.tracked()
        self._unsettled = lambda: self.sides.untrack(tracked)
        self._track(change)
        found, about, remember = self._detect_change(change)
        about = about._replace(shows_since=rules.shows_since or about.shows_since)

        def settle() -> None:
            before = [rule for rule in self._indexes.rules.rules if rule is not None]
            self._unsettled = lambda: self._index_anew(before, tracked)
            self._indexes.drop(change.gone)
            self._indexes.put(change.new)
            self._rules, self._snapshot, self._unsettled = rules, change.after, None
            remember()

        return Step([found], about, settle)

    def _prepare(self, after: Snapshot, known: Mapping[str, AttributeType]) -> BandChange:
        """What another snapshot changes; refuses what cannot be, and changes nothing."""
        before = None if self._rules is None else self._rules.snapshot()
        new = _bands_of(after, None if before is None else after.unlike(before), self.pairing.key)
        gone = {}
        if before is not None and len(self._indexes.rules):
            ids = before.rules.ids[before.unlike(after)].tolist()
            gone = {id: rule for id in ids if (rule := self.find(id)) is not None}
        for id in [id for id, rule in new.items() if gone.get(id) == rule]:
            del new[id], gone[id]
        types = {
            name: after.types[name] for rule in new.values() for side in (LEFT, RIGHT) for name in rule.attributes(side)
        }
        known = {**known, **self.types}
        for name, type_ in after.types.items():
            if known.get(name, type_) != type_:
                raise FencepostError(
                    f"rules that have {name} as {type_}",
                    f"{known[name]}, as the rules until now",
                    "Compile them with schema= naming that type.",
                )
        sides = [*(rule.sides for rule in new.values()), *(join.sides for join in self._indexes)]
        _check_strings(sides, {**known, **types})
        check_names({**self.types, **types}, self.pairing.key)
        if self.clock.type is not None and after.damping is not None:  # refuses lengths that times cannot do with
            coming = np.array(list(new), np.int64)
            nothing = np.zeros(len(new), np.uint8)
            read_damped_bands(after, dict(zip(new, range(len(new)), strict=True)), coming, nothing, self.clock)
        ids = np.array(list(gone), np.int64)
        edited = set(ids[after.rows_of(ids) >= 0].tolist())
        reasons = {id: "edited" if id in edited else "paused" if id in after.paused else "removed" for id in gone}
        return BandChange(list(gone.values()), list(new.values()), types, reasons, after)

    def damped(self) -> DampedBands | None:
        """The damped rules in force; None where there is none, or no time yet."""
        if self.clock.type is None or self._snapshot is None or self._snapshot.damping is None:
            return None
        about, rules = (self._snapshot, self.clock.type), self._indexes.rules
        if self._damped is None or self._damped[0] != about:
            damped = read_damped_bands(self._snapshot, rules.slots, rules.ids, rules.detects, self.clock)
            self._damped = about, damped
        return self._damped[1]

    def policies(self, rule: BandRule) -> Policies | None:
        """How a rule in force is damped, on the clock; None where it is not."""
        damped, rules = self.damped(), self._indexes.rules
        slot = rules.slots[rule.id]
        if damped is None or not damped.is_damped[slot]:
            return None
        return damped.options.of(np.array([slot]), np.full(len(rules.ids), NEVER), rules.detects)

    def _detect_change(self, change: BandChange) -> tuple[Detections, Subjects, Callable[[], None]]:
        """What a change of rules does to the pairs that are there, and what lets that be remembered."""
        ids = np.array(sorted({rule.id for rule in (*change.gone, *change.new)}), np.int64)
        was, is_now = (self._indexes.inside(rules, ids) for rules in (change.gone, change.new))
        parts, versions = [], []
        reasons = np.zeros(len(ids), np.uint8)
        for rule in change.gone:
            reasons[np.searchsorted(ids, rule.id)] = REASON_CODES[change.reasons[rule.id]]
        changed = ChangedBands(ids, change.gone, change.new, was, is_now, reasons, change.after)
        damped = damp_change(changed, self.states, self.clock)
        if damped is not None:
            was, is_now = (pairs.only(~damped[0][pairs.rules]) for pairs in (was, is_now))
            parts.append(damped[1])
        begun, ended = differing(was, is_now)
        for place, (pairs, rules, kind) in enumerate(((ended, change.gone, "exit"), (begun, change.new, "enter"))):
            wanted, codes = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.uint8)
            own_versions = np.zeros(len(ids), np.int64)
            for rule in rules:
                number = int(np.searchsorted(ids, rule.id))
                wanted[number] = bool(rule.detects & DETECTS[kind]) and (kind == "exit" or rule.initial)
                codes[number] = REASON_CODES["initial"] if kind == "enter" else reasons[number]
                own_versions[number] = rule.version
            pairs = pairs.only(wanted[pairs.rules])
            times = np.maximum(self.states[LEFT].times[pairs.moves], self.states[RIGHT].times[pairs.others])
            codes = codes[pairs.rules]
            # An exit carries the version that it ends, an enter the new one: the rules stand twice in the table.
            pairs = pairs._replace(rules=pairs.rules + place * len(ids))
            parts.append(_without_row(pairs, kind, times, codes))
            versions.append(own_versions)
        found, values = self._placed(join_detections(parts))
        both = np.concatenate([ids, ids])
        about = self._subjects(both, np.concatenate(versions), change.version, values)
        before = change.after if self._rules is None else self._rules.snapshot()
        about = about._replace(texts=ChangedTexts(before, change.after, both))
        return found, about, _do_nothing if damped is None else damped[2]

    def show_keys(self, keys: Iterable[str]) -> None:
        """Let events show these key columns, whether rules need them yet or not."""
        self.sides.shown_keys |= {*keys}

    def track(self, types: Mapping[str, AttributeType], columns: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Keep columns from now on, of each side its attributes and its keys, whether rules need them yet or not."""
        self.sides.track(types, columns)

    def _track(self, change: BandChange) -> None:
        """Keep the columns that new rules need."""
        if not change.new:
            return
        sides = (LEFT, RIGHT)
        self.sides.shown_keys |= {name for rule in change.new for side in sides for name in rule.strings(side)}
        attributes = ({name for rule in change.new for name in rule.attributes(side)} for side in sides)
        keys = ({name for rule in change.new for name in rule.key_columns(side)} for side in sides)
        self.track(change.types, [(tuple(one), tuple(two)) for one, two in zip(attributes, keys, strict=True)])

    # -- rows and time -------------------------------------------------------------------------------------

    def update(self, tables: Sequence[Any], objects: Any = None) -> Step:
        """Take rows of either side or both; `objects` is the type of objects in events so far, if any."""
        self._mend()
        rules = self._indexes.rules
        asked = (rules.compared, self._indexes.same, self._indexes.computed, self._indexes.used)
        sides = self.sides.take(tables, self._start_clock, objects, *asked)
        damped = self.damped()
        batch = BandBatch(sides, self.sides, rules, self.clock, silent=self._silent, damped=damped)
        self._unsettled = self._indexes.refill
        values: Any = together([each.moved.positions for _, each in sides], self.types, self._key_shifts(sides))
        round: BandRound | None = None
        if damped is not None:
            values = GrowingValues(values, self._values_of_lefts)
            settings: dict[str, Any] = {"silent": self._silent, "place_lefts": values.place}
            round = BandRound(damped, rules, self.states, batch.all_rows(), self.clock, **settings)
        about = self._subjects(rules.ids, rules.versions, self.version, values)
        about = about._replace(ranks=batch.moments, sequences=batch.sequences())
        if self.sides.carry:
            carried, rows = batch.carried(self.sides.carry)
            types = {**self.sides.carried_types, **{name: column.type for name, column in carried.items()}}
            about = about._replace(carried=carried, carried_rows=rows, carried_types=types)

        def find() -> Iterator[Detections]:
            reported: set[tuple[int, ...]] = set()
            for found in batch.apply(self._indexes, round):
                yield self._each_rule_once(found, batch.moments, reported) if self.pairing.report == "rules" else found

        def settle() -> None:
            remember = _do_nothing if round is None else round.prepare()
            self.counts = self.counts.plus(self.sides.settle(sides))
            remember()
            self._unsettled = None
            self._forget_answers()

        return Step(find(), about, settle)

    def _each_rule_once(self, found: Detections, moments: Int64s, reported: set[tuple[int, ...]]) -> Detections:
        """The detections of rows, once for each row and rule.

        Those of damped rules that no row caused come once for each left row, as clock markers report them; those of
        earlier pieces are among `reported`.
        """
        damped = self.damped()
        alone = np.zeros(len(found.rules), np.bool_)
        if damped is not None:
            alone = damped.is_damped[found.rules] & (found.phases == ENDED)
        by_row = np.flatnonzero(~alone)
        columns = [found.rows, found.rules, found.times, found.phases]
        chosen = by_row[_each_once([column[by_row] for column in columns])]
        if not alone.any():
            return found.take(chosen)
        keys = [found.rules, found.times, found.detects, found.objects]
        others = np.flatnonzero(alone)
        assert found.since is not None, "some are of damped rules"
        shown = [found.since[others], moments[found.rows[others]]]
        others = others[_each_once([column[others] for column in keys], shown)]
        named = list(zip(*(column[others].tolist() for column in keys), strict=True))
        new = np.array([key not in reported for key in named], np.bool_)
        reported.update(named)
        return found.take(np.concatenate([chosen, others[new]]))

    def _start_clock(self, time: AttributeType) -> None:
        """Take times of this type from now on."""
        expiring = np.zeros(0, np.int64)
        if self._rules is not None:
            self._rules.snapshot()
            expiring = self._rules.ids[self._rules.expiring]
        self.clock.start(time, expiring)
        try:
            self.damped()
        except FencepostError:
            self.clock.type = None
            raise

    def next_instant(self) -> int:
        """No clock marker before this ends or reports anything."""
        timeout, first = self.clock.timeout, NEVER
        for rule in self._indexes.rules.rules:
            if rule is not None and rule.expires != NEVER:
                expires = self.clock.instant(rule.expires)
                # A marker has ended those that it passed.
                if self.clock.marker is None or expires > self.clock.marker:
                    first = min(first, expires)
        if timeout is not None:
            oldest = np.array([state.oldest for state in self.states if state.count], np.int64)
            first = min(first, int(gone_after(oldest, timeout).min(initial=NEVER)))
        remembered = self.states[LEFT].damped
        if remembered.count and remembered.next_due != NEVER:
            first = min(first, remembered.next_due + 1)  # a marker promises nothing about its own instant
        return first

    def advance(self, now: int) -> Step:
        """What ends by a time: expired rules, and pairs with a row gone silent. The caller advances the clock."""
        self._mend()
        rules, timeout = self._indexes.rules, self.clock.timeout
        ending = [rule for rule in rules.rules if rule and self.clock.instant(rule.expires) <= now]
        ids = np.array(sorted(rule.id for rule in ending), np.int64)
        pairs = self._indexes.inside(ending, ids)
        pairs = pairs._replace(rules=np.array([rules.slots[id] for id in ids.tolist()], np.int64)[pairs.rules])
        silent = []
        for side, state in enumerate(self.states):
            slots = state.here()
            silent.append(slots[:0] if timeout is None else slots[gone_after(state.times[slots], timeout) <= now])
            pairs = pairs.joined(self._indexes.pairs_of(side, silent[side]))
        pairs = Triples(*np.unique(np.array(pairs), axis=1))
        damped, remember, parts = self.damped(), _do_nothing, []
        if damped is not None:
            mine = damped.is_damped[pairs.rules]
            about = (damped, rules, self.states, self.clock)
            reported, remember = damp_advance(*about, pairs.only(mine), now)
            pairs = pairs.only(~mine)
            parts.append(reported)
        expires = self.clock.instants(rules.expires)
        ends = expires[pairs.rules]
        if timeout is not None:
            for state, slots in zip(self.states, (pairs.moves, pairs.others), strict=True):
                ends = np.minimum(ends, gone_after(state.times[slots], timeout))
        wanted = (rules.detects[pairs.rules] & DETECTS["exit"]) != 0
        pairs, ends = pairs.only(wanted), ends[wanted]
        parts.append(_without_row(pairs, "exit", ends, time_reasons(expires[pairs.rules], ends)))
        found, values = self._placed(join_detections(parts))

        def settle() -> None:
            for side, slots in enumerate(silent):
                self._indexes.forget(side, slots)
                self.states[side].forget(slots)
                self.states[side].find_oldest()
            remember()
            self._forget_answers()

        return Step([found], self._subjects(rules.ids, rules.versions, self.version, values), settle)

    def _placed(self, found: Detections) -> tuple[Detections, Positions]:
        """Detections that no row caused, with the values of their left rows; each rule once where only rules count."""
        assert found.others is not None, "they are pairs"
        if self.pairing.report == "rules":
            shown = [] if found.since is None else [found.since]
            found = found.take(_each_once([found.rules, found.times, found.detects, found.objects], shown))
        here = np.arange(len(found.rules))
        return found._replace(before=here, after=here), self._values_of_lefts(found.objects)

    def _values_of_lefts(self, slots: Int64s) -> Positions:
        """The last known values of left rows."""
        return together([self.states[LEFT].positions(slots)], self.types, [dict.fromkeys(self.keys, 0)])

    def _mend(self) -> None:
        """Take back what a step has done that was not settled."""
        if self._unsettled is not None:
            self._unsettled()
            self._unsettled = None

    def _index_anew(self, rules: Sequence[BandRule], tracked: Any) -> None:
        self.sides.untrack(tracked)
        self._indexes = BandIndexes(self.sides, self.clock)
        self._indexes.put(rules)

    def _forget_answers(self) -> None:
        """Forget what is known only as long as no row moves, and give back room."""
        self._indexes.rows_moved()
        if self.sides.tidy():
            self._indexes.refill()

    # -- keeping it ----------------------------------------------------------------------------------------

    def tables(self) -> list[Any]:
        """All rows, a table per side."""
        left, right = self.states
        return [table_of(left, rights=right), table_of(right)]

    def changes(self) -> list[Any] | None:
        """The rows that were touched since the last call, a table per side; None where they were numbered anew."""
        left, right = self.states
        assert isinstance(left, Journal), "it was made with journal=True"
        assert isinstance(right, Journal), "so are both sides"
        tables = [touched_table(left, right), touched_table(right)]
        return None if any(table is None for table in tables) else tables

    def restore(self, entries: Iterable[Sequence[Any]], kinds: Sequence[dict[str, str]] = ({}, {})) -> None:
        """Take over rows that were saved under the same rules, in place of those that are here."""
        states = self.sides.read(entries)
        keep_damped(states[LEFT], self.damped())
        self.sides.restore(states, (kinds[LEFT], kinds[RIGHT]))
        self._indexes.refill()

    # -- questions -----------------------------------------------------------------------------------------

    def inside(self, rule: BandRule) -> list[tuple[Any, Any]]:
        """The pairs that are inside a rule now."""
        self._mend()
        pairs = self._indexes.inside([rule], np.array([rule.id]))
        lefts, rights = (
            state.objects.ids(state.objects.values(slots)).to_pylist()
            for state, slots in zip(self.states, (pairs.moves, pairs.others), strict=True)
        )
        return list(zip(lefts, rights, strict=True))

    def values_of(self, side: int, slots: Int64s) -> SideValues:
        """The last known values of rows of one side, and what rules compute of them."""
        self._mend()
        return self._indexes.values(side, self.states[side].positions(slots))

    def _subjects(self, ids: Int64s, versions: Int64s, version: int, values: Any) -> Subjects:
        left, right = self.states
        return Subjects(
            ids,
            versions,
            False,
            version,
            self.clock.type,
            self.types,
            values,
            left.objects,
            right.objects,
            sequence_count=len(self._columns[1]),
            key=self.pairing.key,
            only_movers=self.pairing.report == "rules",
            keys=self.keys,
            strings=self._strings,
            all_strings=self._all_strings,
            texts=None if self._rules is None else TextsOfIds(self._rules.compiled, ids),
            carried_types=self.sides.carried_types,
            shows_since=self._rules is not None and self._rules.shows_since,
        )


def _check_strings(sides: Iterable[BandSides], types: Mapping[str, AttributeType]) -> None:
    """Refuse columns that are strings in expressions and conditions, and numbers or times elsewhere."""
    distinct = {id(each): each for each in sides}.values()
    for name in sorted({name for each in distinct for name, type_ in each.columns.items() if type_ == KEY}):
        if name in types:
            raise FencepostError(
                f"rules that have {name} as strings, and as {types[name]}",
                "one type of a column",
                "Compile them with schema= naming its type.",
            )


_bands: "WeakKeyDictionary[Snapshot, dict[tuple[str, ...], dict[int, BandRule]]]" = WeakKeyDictionary()
"""All band rules of a snapshot by id, once per process: many engines may follow the same snapshot."""


def _bands_of(snapshot: Snapshot, rows: Int64s | None, key: tuple[str, ...]) -> dict[int, BandRule]:
    """The band rules in these rows of a snapshot, by default of all that are in force."""
    kept = _bands.setdefault(snapshot, {})
    if rows is not None and key not in kept and 2 * len(rows) < len(snapshot):
        return {rule.id: rule for rule in band_rules(snapshot, rows, key)}
    if key not in kept:
        kept[key] = {rule.id: rule for rule in band_rules(snapshot, snapshot.in_force, key)}
    if rows is None:
        return dict(kept[key])
    ids = snapshot.rules.ids[rows].tolist()
    return {id: kept[key][id] for id in ids if id in kept[key]}


def _without_row(pairs: Triples, kind: str, times: Int64s, reasons: UInt8s) -> Detections:
    """Detections that no row caused; where the rows are is filled in later."""
    nowhere = np.zeros(len(times), np.int64)
    found = detections_of(Pairs(nowhere, pairs.rules), kind, ENDED, nowhere, nowhere, times, pairs.moves, reasons)
    from_left: Bools = np.ones(len(times), np.bool_)
    return found._replace(others=pairs.others, from_left=from_left)


def _each_once(columns: Sequence[Any], shown: Sequence[Any] = ()) -> Int64s:
    """The places of items, one of those that are equal in all columns: the one that is first by those of `shown`."""
    order = np.lexsort([*shown, *columns])
    differs = np.ones(len(order), np.bool_)
    differs[1:] = False
    for column in columns:
        differs[1:] |= column[order][1:] != column[order][:-1]
    return order[differs]
