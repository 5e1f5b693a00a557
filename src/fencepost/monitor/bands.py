"""Band rules over the rows of two streams: which pairs enter a band, leave it, jump over it or are inside.

A *pair* is a row of the left stream and a row of the right one. It is inside a rule if their difference is in the
rule's band, their keys are as the rule asks, and the rule has not expired by the later of the two rows (or the clock
marker). Each side's rows are objects as any others: late, silent, new by themselves.

An event tells the values of the row that moved, before and after; where no row moved, those of the left row.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import FencepostError
from fencepost.events import Identities, event_schema
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.monitor.band_joins import Actions, BandJoin, Places, Triples, differing, no_triples
from fencepost.monitor.band_rows import History, SideRows, deletions, key_texts, side_rows, together
from fencepost.monitor.band_rules import SIDES, BandRule, BandRules, Shape, band_rules
from fencepost.monitor.clock import Clock
from fencepost.monitor.found import (
    CROSSED,
    ENDED,
    ENTERED,
    EXITED,
    REASON_CODES,
    STAYED,
    Found,
    found_of,
    joined,
    written,
)
from fencepost.monitor.keyed_objects import KeyedObjects
from fencepost.monitor.layers import Layers
from fencepost.monitor.positions import Pairs, Positions
from fencepost.monitor.rows import Rows, observed, read_rows, read_values, strings_of, without_late
from fencepost.monitor.state import State
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS, NEVER, Snapshot, Table

__all__ = ["Bands", "Pairing", "RuleChange"]

LEFT, RIGHT = 0, 1


class Pairing(NamedTuple):
    """What makes rows of two streams pairs, and what is told of them."""

    deleted: str | None = None
    """The boolean column that says that a row is gone."""
    key: tuple[str, ...] = ()
    """Columns that tell rows apart beside their id, and that the rows of a pair have in common."""
    report: str = "pairs"
    """Or "rules", for events that name only the row that moved, once for each rule."""


class RuleChange(NamedTuple):
    """Band rules that go and band rules that come, before either happens; a rule that is edited does both."""

    gone: list[BandRule]
    new: list[BandRule]
    types: dict[str, AttributeType]
    reasons: dict[int, str]
    """Why each rule that goes does."""
    version: int
    """Of the snapshot."""


class _Told(NamedTuple):
    """Events of the rows of one side, and the slot of the other row of each."""

    side: int
    found: Found
    others: Int64s


class _Steps(NamedTuple):
    """What the rows of one side do in one index."""

    side: int
    given: SideRows
    was: Bools
    """Whether the row was in the index; likewise `now`."""
    now: Bools
    moves: Bools
    """Whether it was and is, as the same object in the same group."""
    listed: Bools
    """Whether all its pairs before and after are compared, not only those that differ told."""
    moments: Int64s
    """Its place in the order in which the rows of both sides are applied."""

    def places(self, shape: Shape) -> Places:
        """Where each row is afterwards."""
        return Places(*(column[self.given.moved.offset :] for column in self.given.places[shape]))


class Bands:
    """Rows of two streams and the band rules over them.

    Each combination of columns that rules subtract and require to be equal is served by one `BandJoin`, which takes
    the rows of a batch, of both sides in their order, at once.

    Args:
        columns: that name the rows, and their sequence.
        clock: of event time.
        pairing: everything else that a caller chooses; None where there are no bands.
        silent: whether a row that is new enters without a word.
        late: told about late rows, with their side.

    """

    def __init__(
        self,
        columns: tuple[str, Sequence[str]],
        clock: Clock,
        pairing: Pairing | None = None,
        *,
        silent: bool,
        late: Callable[[str, Any], None] | None,
    ) -> None:
        self._columns, self._clock, self._silent, self._late = columns, clock, silent, late
        self.pairing = pairing or Pairing()
        self.types: dict[str, AttributeType] = {}
        """Of every column that bands subtract or ever subtracted."""
        self.states = (self._no_rows(), self._no_rows())
        self.used: tuple[set[str], set[str]] = (set(), set())
        """The columns of `types` that each side has."""
        self.key_kinds: tuple[dict[str, str], dict[str, str]] = ({}, {})
        """What the keys of each side are, once seen: strings, or a type whose ordinals are compared."""
        self.rows = self.late_rows = self.null_rows = 0
        self.events = dict.fromkeys(DETECTS, 0)
        self._version = 0
        self._rules = BandRules((self.states[LEFT].strings, self.states[RIGHT].strings))
        self._joins: dict[Shape, BandJoin] = {}
        self._askers: dict[Shape, BandJoin] = {}
        """Indexes of all rows that stand ready for rules to be asked about, until a row moves."""

    def _no_rows(self) -> State:
        return State(KeyedObjects(self.pairing.key) if self.pairing.key else None)

    # -- rules ---------------------------------------------------------------------------------------------

    def find(self, id: int) -> BandRule | None:
        """The band rule in force with this id."""
        return self._rules.find(id)

    def prepared(self, before: Snapshot | None, after: Snapshot, known: Mapping[str, AttributeType]) -> RuleChange:
        """What another snapshot changes; refuses what cannot be, and changes nothing.

        Args:
            before: the rules until now.
            after: the rules from now on.
            known: types that columns of other events have.

        """
        rows = after.in_force if before is None else after.unlike(before)
        new = {rule.id: rule for rule in band_rules(after, rows, self.pairing.key)}
        gone = {}
        if before is not None and len(self._rules):
            ids = before.rules.ids[before.unlike(after)].tolist()
            gone = {id: rule for id in ids if (rule := self.find(id)) is not None}
        for id in [id for id, rule in new.items() if gone.get(id) == rule]:
            del new[id], gone[id]
        types = {name: after.types[name] for rule in new.values() for name in rule.shape.columns}
        known = {**known, **self.types}
        for name, type_ in after.types.items():
            if known.get(name, type_) != type_:
                raise FencepostError(
                    f"rules that have {name} as {type_}",
                    f"{known[name]}, as the rules until now",
                    "Compile them with schema= naming that type.",
                )
        self._schema(pa.null(), pa.null(), {**self.types, **types})  # refuses names that events cannot have
        ids = np.array(list(gone), np.int64)
        edited = set(ids[after.rows_of(ids) >= 0].tolist())
        reasons = {id: "edited" if id in edited else "paused" if id in after.paused else "removed" for id in gone}
        return RuleChange(list(gone.values()), list(new.values()), types, reasons, after.version)

    def change(self, change: RuleChange) -> Any:
        """Let the rules change, and return the events this causes."""
        self._version = change.version
        if not change.gone and not change.new:
            return self.no_events()
        self._track(change)
        events = self.caused_by(change)
        self._drop(change.gone)
        self._put(change.new)
        return events

    def caused_by(self, change: RuleChange) -> Any:
        """The events that a change of rules causes, whose columns are tracked already; the rules stay as they are."""
        ids = np.array(sorted({rule.id for rule in (*change.gone, *change.new)}), np.int64)
        was, is_now = (self._inside(rules, ids) for rules in (change.gone, change.new))
        begun, ended = differing(was, is_now)
        parts: list[tuple[Triples, Found]] = []
        versions = []
        for pairs, rules, kind in ((ended, change.gone, "exit"), (begun, change.new, "enter")):
            wanted, codes = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.uint8)
            own_versions = np.zeros(len(ids), np.int64)
            for rule in rules:
                number = int(np.searchsorted(ids, rule.id))
                wanted[number] = bool(rule.detects & DETECTS[kind]) and (kind == "exit" or rule.initial)
                codes[number] = REASON_CODES["initial" if kind == "enter" else change.reasons[rule.id]]
                own_versions[number] = rule.version
            pairs = pairs.only(wanted[pairs.rules])
            times = np.maximum(self.states[LEFT].times[pairs.moves], self.states[RIGHT].times[pairs.others])
            parts.append((pairs, _ended(pairs, kind, times, codes[pairs.rules])))
            versions.append(own_versions[pairs.rules])
        return self._told_without_rows(parts, ids, np.concatenate(versions), change.version)

    def track(self, types: Mapping[str, AttributeType], columns: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Keep columns from now on, whether rules need them yet or not.

        Args:
            types: of all columns that bands may subtract.
            columns: of each side, those of them that it has, and its keys.

        """
        self.types = dict(sorted({**self.types, **types}.items()))
        for state, used, (attributes, keys) in zip(self.states, self.used, columns, strict=True):
            used.update(attributes)
            state.track(dict.fromkeys(sorted(used)), tuple(sorted(keys)))

    def _track(self, change: RuleChange) -> None:
        """Keep the columns that new rules need."""
        shapes = {rule.shape for rule in change.new}
        attributes = ({shape.columns[side] for shape in shapes} for side in (LEFT, RIGHT))
        keys = ({name for rule in change.new for name in rule.key_columns(side)} for side in (LEFT, RIGHT))
        self.track(change.types, [(tuple(one), tuple(two)) for one, two in zip(attributes, keys, strict=True)])

    def _drop(self, rules: Sequence[BandRule]) -> None:
        for shape, members in self._rules.by_shape([self._rules.slots[rule.id] for rule in rules]).items():
            join = self._joins[shape]
            join.drop_rules([self._rules.drop(rule.id) for _, rule in members])
            if not len(join.slots):
                del self._joins[shape]

    def _put(self, rules: Sequence[BandRule]) -> None:
        for shape, members in self._rules.by_shape([self._rules.put(rule) for rule in rules]).items():
            if shape not in self._joins:
                self._joins[shape] = self._filled(shape)
            join = self._joins[shape]
            join.put_rules(members, partial(self._placed, join))

    def _placed(self, join: BandJoin, side: int) -> tuple[Int64s, Places]:
        """The slots of all rows of a side, and where they are in an index."""
        state = self.states[side]
        slots = state.here()
        return slots, join.places(side, state.positions(slots), state.strings)

    def _filled(self, shape: Shape) -> BandJoin:
        """An index with all rows and no rules."""
        join = BandJoin(shape)
        self._fill(join)
        return join

    def _fill(self, join: BandJoin) -> None:
        for side in (LEFT, RIGHT):
            slots, places = self._placed(join, side)
            join.add_rows(side, slots, places, np.flatnonzero(places.usable))

    def _reindex(self) -> None:
        """Index all rows anew, where slots or codes are no longer what they were; the rules stay."""
        self._rules.recode((self.states[LEFT].strings, self.states[RIGHT].strings))
        self._askers.clear()
        for join in self._joins.values():
            join.clear_rows()
            self._fill(join)

    def _inside(self, rules: Sequence[BandRule], ids: Int64s) -> Triples:
        """The pairs inside rules now: slots of the left and the right row, and the place of the rule's id in `ids`."""
        table = BandRules((self.states[LEFT].strings, self.states[RIGHT].strings), rules)
        numbers = np.searchsorted(ids, table.ids)
        expires, left = self._clock.instants(table.expires), self.states[LEFT]
        found = no_triples()
        for shape, members in table.by_shape(range(len(rules))).items():
            join = self._askers.get(shape)
            if join is None:
                join = self._askers[shape] = self._filled(shape)
            slots, places = self._placed(join, LEFT)
            join.put_rules([(slot, rule._replace(detects=0)) for slot, rule in members], partial(self._placed, join))
            usable = np.flatnonzero(places.usable)
            pairs = join.pairs(LEFT, places, usable)
            join.drop_rules([slot for slot, _ in members])
            lefts = slots[usable[pairs.moves]]
            keys, others = left.positions(slice(None)).keys, (History(self.states[RIGHT]), pairs.others)
            inside = self._holding(table, LEFT, pairs, (keys, lefts), left.times, others, expires)
            found = found.joined(pairs._replace(moves=lefts, rules=numbers[pairs.rules]).only(inside))
        return found

    def _holding(
        self,
        rules: BandRules,
        side: int,
        pairs: Triples,
        keys: tuple[dict[str, Int64s], Int64s],
        clocks: Int64s,
        others: tuple[History, Int64s],
        expires: Int64s,
    ) -> Bools:
        """Which pairs within bands have the keys that rules ask for, and rules that have not expired.

        Args:
            rules: that the pairs refer to.
            side: of the moves.
            pairs: within bands.
            keys: columns of codes, and the place in them of each pair's move.
            clocks: the time at each of those places.
            others: the rows of the other side, and the place of each pair's.
            expires: of the rules, on the clock.

        """
        history, other_places = others
        ends = expires[pairs.rules]
        holding: Bools = np.ones(len(ends), np.bool_)
        if (ends != NEVER).any():
            holding = ends > self._clock.at_least(np.maximum(clocks[keys[1]], history.times[other_places]))
        for met in (
            rules.asked_keys(side, *keys, pairs.rules),
            rules.asked_keys(1 - side, history.keys, other_places, pairs.rules),
        ):
            if met is not None:
                holding &= met
        return holding

    # -- rows ----------------------------------------------------------------------------------------------

    def update(self, tables: tuple[Table | None, Table | None], layers: Layers, objects: Any) -> Any:
        """Takes rows of either side or both and returns the events they cause.

        Args:
            tables: the left and the right rows.
            layers: the rules in force.
            objects: the type of objects in events so far, or None.

        """
        given: list[tuple[Rows, Bools] | None] = [None, None]
        time_type: AttributeType | None = None
        kinds = (dict(self.key_kinds[LEFT]), dict(self.key_kinds[RIGHT]))
        for side, table in enumerate(tables):
            if table is None:
                continue
            values, deleted = self._values(side, table, kinds[side]), deletions(table, self.pairing.deleted)
            told = observed(values) | deleted
            rows, own_type = read_rows(table, self.states[side], self._columns, self._clock, values, told, time_type)
            if len(rows.numbers):
                time_type = own_type
                id_type = self.states[side].objects.ids(rows.objects).type
                if side == LEFT and objects is not None and id_type != objects:
                    raise FencepostError(
                        f"left rows named by {id_type} beside objects of type {objects}",
                        "one type, since both are the objects of events",
                        f"Cast the column {self._columns[0]}.",
                    )
            given[side] = rows, deleted
        self._check_keys(kinds)
        if self._clock.type is None and time_type is not None:
            self._clock.start(time_type, layers)
        self.key_kinds = kinds
        sides = [self._taken(side, table, each) for side, (table, each) in enumerate(zip(tables, given, strict=True))]
        events = self._applied(sides)
        self._moved()
        return events

    def _values(self, side: int, table: Table, kinds: dict[str, str]) -> Positions:
        """What the rows of one side observe; `kinds` learns what their keys are."""
        used = self.used[side]
        values = read_values(table, {name: self.types[name] for name in sorted(used)}, {})
        for name, strings in self.states[side].strings.items():
            array = table.arrow(name)
            if name in self._rules.compared[side]:
                strings_of(array, name)  # refuses what cannot equal the strings of rules
            texts, kind = key_texts(array, name, self.types[name] if name in used else None)
            if kind is not None and kinds.setdefault(name, kind) != kind:
                raise FencepostError(
                    f"{SIDES[side]}.{name} as {kind}", f"{kinds[name]}, as in the rows before", "Cast the column."
                )
            values.keys[name] = strings.codes(texts)
        return values

    def _check_keys(self, kinds: tuple[dict[str, str], dict[str, str]]) -> None:
        """Refuse keys that can never be equal, since their types differ."""
        for left, right in {pair for shape in self._joins for pair in shape.same}:
            one, other = kinds[LEFT].get(left), kinds[RIGHT].get(right)
            if one is not None and other is not None and one != other:
                raise FencepostError(
                    f"left.{left} as {one} and right.{right} as {other}",
                    "one type, since rules compare them",
                    "Cast one of the two columns to the type of the other.",
                )

    def _taken(self, side: int, table: Table | None, given: tuple[Rows, Bools] | None) -> SideRows | None:
        """One side's rows, counted, with slots for their objects, without the late ones, as moves."""
        if table is None or given is None:
            return None
        (rows, deleted), state = given, self.states[side]
        self.rows += table.rows
        self.null_rows += table.rows - len(rows.numbers)
        if len(rows.numbers):
            rows = rows._replace(slots=state.objects.slots(rows.objects, add=True))
            state.make_room()
        timed = self._clock.column is not None
        if timed and len(rows.numbers):
            tell = None if self._late is None else partial(self._late, SIDES[side])
            rows, late = without_late(rows, table, state, tell)
            self.late_rows += late
        moves = side_rows(rows, deleted[rows.numbers], state, self._clock.timeout, timed=timed)
        for shape, join in self._joins.items():
            moves.places[shape] = join.places(side, moves.moved.positions, state.strings)
        return moves

    def _applied(self, sides: Sequence[SideRows | None]) -> Any:
        """Applies the rows of both sides in their order, and tells what they cause."""
        there = [(side, each) for side, each in enumerate(sides) if each is not None]
        of_side = np.concatenate([np.full(len(each.ranks), side, np.int64) for side, each in there])
        numbers = np.concatenate([np.arange(len(each.ranks)) for _, each in there])
        ranks, times, slots = (
            np.concatenate(column)
            for column in zip(*((each.ranks, each.rows.times, each.rows.slots) for _, each in there), strict=True)
        )
        timed = self._clock.column is not None
        order = np.lexsort([ranks, of_side, times] if timed else [ranks, of_side])
        moments = np.empty(len(order), np.int64)
        moments[order] = np.arange(len(order))
        own_moments = [moments[of_side == side] for side, _ in there]
        histories = [History(state) for state in self.states]
        for (side, each), own in zip(there, own_moments, strict=True):
            histories[side] = History(self.states[side], each, own)
        expires = self._clock.instants(self._rules.expires)
        told: list[_Told] = []
        for join in self._joins.values():
            steps = [self._steps(join, *each, own, expires) for each, own in zip(there, own_moments, strict=True)]
            told += self._joined(join, steps, (of_side, numbers, slots, order), histories, expires)
        for side, given in there:
            self._settle(self.states[side], given)
        return self._told(told, there, moments)

    def _settle(self, state: State, given: SideRows) -> None:
        """Let each object be where its last row says."""
        lasts = np.flatnonzero(given.moved.is_last)
        kept, gone = lasts[~given.deleted[lasts]], lasts[given.deleted[lasts]]
        positions = given.moved.positions.take(given.moved.offset + kept)
        state.store(given.rows.slots[kept], given.rows.times[kept], positions)
        state.forget(given.rows.slots[gone])

    def _steps(self, join: BandJoin, side: int, given: SideRows, moments: Int64s, expires: Int64s) -> _Steps:
        """What the rows of one side do in one index."""
        moved, places = given.moved, given.places[join.shape]
        before = moved.previous
        was = (before >= 0) & places.usable[before]
        now = places.usable[moved.offset :] & ~given.deleted
        moves = was & now & ~moved.is_new & (places.groups[before] == places.groups[moved.offset :])
        # What moves within its group, keeps its keys and meets no expiry needs no look at the pairs that stay.
        plain = moves & (given.rows.times < expires[join.slots].min(initial=NEVER))
        for column in self._rules.required[side]:
            codes = moved.positions.keys[column]
            plain &= codes[before] == codes[moved.offset :]
        if self._silent:
            plain |= moved.is_new & ~was  # enters without a word
        if (self._rules.detects[join.slots] & DETECTS["inside"]).any():
            plain[:] = False
        return _Steps(side, given, was, now, moves, ~plain, moments)

    def _joined(
        self,
        join: BandJoin,
        steps: Sequence[_Steps],
        rows: tuple[Int64s, Int64s, Int64s, Int64s],
        histories: Sequence[History],
        expires: Int64s,
    ) -> list[_Told]:
        """What the rows of a batch do in one index, which then has them where they are.

        Args:
            join: the index.
            steps: of each side that has rows.
            rows: of both sides, one after the other: the side, the number in it and the slot of each row, and the
                order in which they are applied.
            histories: the rows of either side at every moment.
            expires: of the rules, on the clock.

        """
        of_side, numbers, slots, order = rows

        def ordered(columns: Sequence[Any]) -> Any:
            return np.concatenate(columns)[order]

        places = Places(*map(ordered, zip(*(each.places(join.shape) for each in steps), strict=True)))
        flags = (ordered([getattr(each, name) for each in steps]) for name in ("was", "now", "moves", "listed"))
        actions = Actions(of_side[order], slots[order], places, *flags)
        found = (*join.replay(actions), join.cross(actions))
        told: list[_Told] = []
        for each in steps:
            own = [pairs.only(actions.sides[pairs.moves] == each.side) for pairs in found]
            begun, ceased, crossed = (pairs._replace(moves=numbers[order[pairs.moves]]) for pairs in own)
            told += self._caused(join, each, begun, ceased, crossed, histories[1 - each.side], expires)
        return told

    def _caused(
        self,
        join: BandJoin,
        steps: _Steps,
        begun: Triples,
        ceased: Triples,
        crossed: Triples,
        others: History,
        expires: Int64s,
    ) -> list[_Told]:
        """What the rows of one side do, given the pairs that each of them brings into bands, takes out and crosses."""
        rules, side, given = self._rules, steps.side, steps.given
        moved, times, is_new = given.moved, given.rows.times, given.moved.is_new
        before, after = moved.previous, moved.offset + np.arange(len(times))

        def holding(pairs: Triples, position: Int64s) -> Triples:
            own = (moved.positions.keys, position[pairs.moves])
            theirs = (others, others.at(pairs.others, steps.moments[pairs.moves]))
            return pairs.only(self._holding(rules, side, pairs, own, moved.clocks, theirs, expires))

        holds, held, crossed = holding(begun, after), holding(ceased, before), holding(crossed, after)
        had = rules.asked_keys(side, moved.positions.keys, before[crossed.moves], crossed.rules)
        crossed = crossed if had is None else crossed.only(had)
        returned = is_new[held.moves]
        left_behind, held = held.only(returned), held.only(~returned)
        entered, no_longer = _changes(held, holds, steps.moves & steps.listed)
        expired = expires[no_longer.rules] <= times[no_longer.moves]
        exited = no_longer.only(~expired)
        ended = no_longer.only(expired).joined(left_behind)
        ends = expires[ended.rules]
        if self._clock.timeout is not None:
            gone = moved.clocks[before[ended.moves]] + self._clock.timeout
            ends = np.where(is_new[ended.moves], np.minimum(ends, gone), ends)
        if self._silent:
            entered = entered.only(~is_new[entered.moves])
        inside = holds if (rules.detects[join.slots] & DETECTS["inside"]).any() else no_triples()

        reasons = _time_reasons(expires[ended.rules], ends)
        told = [self._found(side, given, ended, "exit", ENDED, ends, reasons)]
        for kind, phase, pairs in (
            ("exit", EXITED, exited),
            ("cross", CROSSED, crossed),
            ("enter", ENTERED, entered),
            ("inside", STAYED, inside),
        ):
            told.append(self._found(side, given, pairs, kind, phase, times[pairs.moves], None))
        return [each for each in told if len(each.others)]

    def _found(
        self,
        side: int,
        given: SideRows,
        pairs: Triples,
        kind: str,
        phase: int,
        times: Int64s,
        reasons: UInt8s | None,
    ) -> _Told:
        """Events of one kind, if rules ask for it; the places are those of the side's own positions."""
        wanted = (self._rules.detects[pairs.rules] & DETECTS[kind]) != 0
        pairs, times, reasons = pairs.only(wanted), times[wanted], None if reasons is None else reasons[wanted]
        rows, moved = pairs.moves, given.moved
        before = moved.previous[rows]
        after = before if phase == ENDED else np.where(given.deleted[rows], -1, moved.offset + rows)
        before = before if phase == ENDED else np.where(moved.is_new[rows], -1, before)
        found = found_of(Pairs(rows, pairs.rules), kind, phase, before, after, times, reasons)
        return _Told(side, found, pairs.others)

    def _moved(self) -> None:
        """Forget what is known only as long as no row moves, and give back room."""
        self._askers.clear()
        before = [(state.objects, list(state.strings.values())) for state in self.states]
        for state in self.states:
            state.tidy()
        if any(
            state.objects is not objects
            or any(one is not other for one, other in zip(state.strings.values(), strings, strict=True))
            for state, (objects, strings) in zip(self.states, before, strict=True)
        ):
            self._reindex()

    # -- time ----------------------------------------------------------------------------------------------

    def advance(self, now: int) -> Any:
        """What ends by a time: expired rules, and pairs of which a row has gone silent."""
        expires, timeout = self._clock.instants(self._rules.expires), self._clock.timeout
        ending = [rule for rule in self._rules.rules if rule and self._clock.instant(rule.expires) <= now]
        ids = np.array(sorted(rule.id for rule in ending), np.int64)
        pairs = self._inside(ending, ids)
        pairs = pairs._replace(rules=np.array([self._rules.slots[id] for id in ids.tolist()], np.int64)[pairs.rules])
        silent = []
        for side, state in enumerate(self.states):
            slots = state.here()
            silent.append(slots[:0] if timeout is None else slots[state.times[slots] + timeout <= now])
            for join in self._joins.values():
                pairs = pairs.joined(self._pairs_of(join, side, silent[side], expires))
        pairs = Triples(*np.unique(np.array(pairs), axis=1))
        ends = expires[pairs.rules]
        if timeout is not None:
            for state, slots in zip(self.states, (pairs.moves, pairs.others), strict=True):
                ends = np.minimum(ends, state.times[slots] + timeout)
        wanted = (self._rules.detects[pairs.rules] & DETECTS["exit"]) != 0
        pairs, ends = pairs.only(wanted), ends[wanted]
        reasons = _time_reasons(expires[pairs.rules], ends)
        found = [(pairs, _ended(pairs, "exit", ends, reasons))]
        versions = self._rules.versions[pairs.rules]
        events = self._told_without_rows(found, self._rules.ids, versions, self._version)
        for side, slots in enumerate(silent):
            for join in self._joins.values():
                places = join.places(side, self.states[side].positions(slots), self.states[side].strings)
                join.drop_rows(side, slots[places.usable])
            self.states[side].forget(slots)
        self._moved()
        return events

    def _pairs_of(self, join: BandJoin, side: int, slots: Int64s, expires: Int64s) -> Triples:
        """The pairs inside rules that some rows of one side are part of: left, right and rule."""
        state = self.states[side]
        places = join.places(side, state.positions(slots), state.strings)
        usable = np.flatnonzero(places.usable)
        pairs = join.pairs(side, places, usable)
        own = slots[usable[pairs.moves]]
        keys = (state.positions(slice(None)).keys, own)
        others = (History(self.states[1 - side]), pairs.others)
        inside = self._holding(self._rules, side, pairs, keys, state.times, others, expires)
        lefts, rights = (own, pairs.others) if side == LEFT else (pairs.others, own)
        return Triples(lefts, rights, pairs.rules).only(inside)

    # -- keeping it ----------------------------------------------------------------------------------------

    def restore(self, states: Sequence[State], kinds: tuple[dict[str, str], dict[str, str]]) -> None:
        """Take over rows that were saved under the same rules, in place of those that are there."""
        self.states, self.key_kinds = (states[LEFT], states[RIGHT]), kinds
        self.rows = self.late_rows = self.null_rows = 0  # the monitor has the counts of both
        self.events = dict.fromkeys(DETECTS, 0)
        self._reindex()

    # -- questions -----------------------------------------------------------------------------------------

    def inside(self, rule: BandRule) -> list[tuple[Any, Any]]:
        """The pairs that are inside a rule now."""
        pairs = self._inside([rule], np.array([rule.id]))
        lefts, rights = (
            state.objects.ids(state.objects.values(slots)).to_pylist()
            for state, slots in zip(self.states, (pairs.moves, pairs.others), strict=True)
        )
        return list(zip(lefts, rights, strict=True))

    # -- events --------------------------------------------------------------------------------------------

    def _told(self, told: Sequence[_Told], there: Sequence[tuple[int, SideRows]], places: Int64s) -> Any:
        """The event table of a batch; `places` has where each row of the sides that are there was applied."""
        if not told:
            return self.no_events()
        rows_before, positions_before, slots = {}, {}, []
        row_count = position_count = 0
        for side, each in there:
            rows_before[side], positions_before[side] = row_count, position_count
            row_count, position_count = row_count + len(each.ranks), position_count + each.moved.positions.rows
            slots.append(each.rows.slots)
        of_row = np.concatenate(slots)
        parts, partners = [], [each.others for each in told]
        for side, found, _ in told:
            shifted = [np.where(place < 0, -1, place + positions_before[side]) for place in (found.before, found.after)]
            parts.append(found._replace(rows=found.rows + rows_before[side], before=shifted[0], after=shifted[1]))
        found, others = joined(parts), np.concatenate(partners)
        is_left = np.repeat([side == LEFT for side, *_ in told], [len(each.others) for each in told])
        if self.pairing.report == "rules":
            once = _each_once([found.rows, found.rules, found.times, found.phases])
            found, others, is_left = found.take(once), others[once], is_left[once]
        own = of_row[found.rows]
        lefts, rights = np.where(is_left, own, others), np.where(is_left, others, own)
        one, two = self._identities(lefts, rights)
        by_time = np.where(found.phases == ENDED, found.times, 0)
        by = [two.highs, two.lows, one.highs, one.lows, self._rules.ids[found.rules], by_time, found.phases]
        order = np.lexsort([*by, places[found.rows]])
        found, lefts, rights, is_left = found.take(order), lefts[order], rights[order], is_left[order]
        caused = found.phases != ENDED  # what time ended has no row, and so no sequence
        sequences = []
        for column in zip(*(each.rows.sequences for _, each in there), strict=True):
            ordinals, known = (np.concatenate(part) for part in zip(*column, strict=True))
            sequences.append((ordinals[found.rows], known[found.rows] & caused))
        positions = together([each.moved.positions for _, each in there], self.types)
        ids, versions = self._rules.ids[found.rules], self._rules.versions[found.rules]
        return self._written(found, ids, versions, positions, (lefts, rights), is_left, sequences, self._version)

    def _told_without_rows(
        self, parts: Sequence[tuple[Triples, Found]], ids: Int64s, versions: Int64s, snapshot_version: int
    ) -> Any:
        """Events that no row caused, by time, rule and rows; `ids` has the rules that the pairs refer to."""
        found = joined([each for _, each in parts])
        if not len(found.rules):
            return self.no_events()
        lefts, rights = (np.concatenate([pairs[place] for pairs, _ in parts]) for place in (LEFT, RIGHT))
        if self.pairing.report == "rules":
            once = _each_once([found.rules, found.times, found.detects, lefts])
            found, versions, lefts, rights = found.take(once), versions[once], lefts[once], rights[once]
        rule_ids = ids[found.rules]
        one, two = self._identities(lefts, rights)
        order = np.lexsort([two.highs, two.lows, one.highs, one.lows, rule_ids, found.times])
        found, lefts, rights = found.take(order), lefts[order], rights[order]
        here = np.arange(len(order))
        found = found._replace(before=here, after=here)
        positions = together([self.states[LEFT].positions(lefts)], self.types)
        absent = (np.zeros(len(order), np.int64), np.zeros(len(order), np.bool_))
        sequences = [absent] * len(self._columns[1])
        is_left = np.ones(len(order), np.bool_)
        rule_ids, versions = rule_ids[order], versions[order]
        pairs = (lefts, rights)
        return self._written(found, rule_ids, versions, positions, pairs, is_left, sequences, snapshot_version)

    def _identities(self, lefts: Int64s, rights: Int64s) -> Any:
        return self.states[LEFT].objects.identities(lefts), self.states[RIGHT].objects.identities(rights)

    def _written(
        self,
        found: Found,
        ids: Int64s,
        versions: Int64s,
        positions: Positions,
        pairs: tuple[Int64s, Int64s],
        is_left: Bools,
        sequences: Sequence[tuple[Int64s, Bools]],
        snapshot_version: int,
    ) -> Any:
        """The event table, counted; `is_left` says which of the two rows an event is about."""
        for kind, bit in DETECTS.items():
            self.events[kind] += int((found.detects == bit).sum())
        values = [state.objects.values(slots) for state, slots in zip(self.states, pairs, strict=True)]
        named = [state.objects.ids(each) for state, each in zip(self.states, values, strict=True)]
        identities = list(self._identities(*pairs))
        if self.pairing.report == "rules":
            for side, hidden in ((LEFT, ~is_left), (RIGHT, is_left)):
                named[side] = pc.if_else(pa.array(hidden), pa.scalar(None, named[side].type), named[side])
                identities[side] = Identities(*(np.where(hidden, 0, column) for column in identities[side]))
        assert self._clock.type is not None, "there are rows, so there was a time"
        events = written(
            found,
            ids,
            versions,
            positions,
            named[LEFT],
            identities[LEFT],
            sequences,
            self._clock.type,
            self.types,
            snapshot_version,
            (named[RIGHT], identities[RIGHT]),
        )
        for place, name in enumerate(self.pairing.key):
            events = events.append_column(name, values[LEFT].field(place))
        return events

    def no_events(self) -> Any:
        """A table without rows."""
        object_type, other_type = (
            pa.null() if state.objects.id_type is None else state.objects.id_type for state in self.states
        )
        time_type = pa.null() if self._clock.type is None else self._clock.type.arrow
        return self._schema(object_type, time_type, self.types, other_type).empty_table()

    def _schema(self, object: Any, time: Any, types: Mapping[str, AttributeType], other: Any = None) -> Any:
        """The schema of events, with the columns of the key behind the others."""
        schema, keyed = event_schema(object, time, types, other), self.states[LEFT].objects.type
        for place, name in enumerate(self.pairing.key):
            if name in schema.names:
                raise FencepostError(
                    f"key={name!r}, which events have as a column already",
                    "a column name that no other event column has",
                    f"Rename {name} in both streams and in the rules.",
                )
            schema = schema.append(pa.field(name, pa.null() if keyed is None else keyed.field(place).type))
        return schema


def _changes(held: Triples, holds: Triples, compared: Bools) -> tuple[Triples, Triples]:
    """The pairs of rows that are only after, and only before; of rows that are not compared, all of them."""
    was, is_now = compared[held.moves], compared[holds.moves]
    newly, no_longer = differing(held.only(was), holds.only(is_now))
    return holds.only(~is_now).joined(newly), held.only(~was).joined(no_longer)


def _each_once(columns: Sequence[Any]) -> Int64s:
    """The places of items, one of those that are equal in all columns."""
    order = np.lexsort(columns)
    differs = np.ones(len(order), np.bool_)
    differs[1:] = False
    for column in columns:
        differs[1:] |= column[order][1:] != column[order][:-1]
    return order[differs]


def _ended(pairs: Triples, kind: str, times: Int64s, reasons: UInt8s) -> Found:
    """Events that no row caused; where the rows are is filled in when they are ordered."""
    nowhere = np.zeros(len(times), np.int64)
    return found_of(Pairs(nowhere, pairs.rules), kind, ENDED, nowhere, nowhere, times, reasons)


def _time_reasons(expires: Int64s, ends: Int64s) -> UInt8s:
    codes = np.where(expires <= ends, REASON_CODES["expired"], REASON_CODES["timeout"])
    return codes.astype(np.uint8)
