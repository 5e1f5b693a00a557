"""Monitor: what standing rules say about objects that move, in one process."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.events import event_schema
from fencepost.indexes.arguments import id_column
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.language import Band, parse
from fencepost.monitor import reasons, single, state_file
from fencepost.monitor.band_reasons import BandReason, explained_band
from fencepost.monitor.bands import Bands, Pairing
from fencepost.monitor.changes import changed_rules
from fencepost.monitor.clock import Clock, gone_after
from fencepost.monitor.crossings import held_at, inside_boxes
from fencepost.monitor.found import ENDED, REASON_CODES, Found, found_of, joined, written
from fencepost.monitor.layers import Layers, LiveRule
from fencepost.monitor.positions import Pairs, Positions
from fencepost.monitor.present import Present
from fencepost.monitor.rows import Rows, Taken, observed, ordered, read_rows, read_values, steps, without_late
from fencepost.monitor.state import State
from fencepost.monitor.transitions import Settled, ended_by_time, transitions
from fencepost.ordinals import AttributeType
from fencepost.rules import Rules
from fencepost.rules.rule import checked_id
from fencepost.snapshot import DETECTS, NEVER, Snapshot, Table

__all__ = ["Monitor", "checked_first", "checked_report"]

_NOTHING = np.zeros(0, np.int64)


class Monitor:
    """Standing rules over objects that move: tells when an object enters, leaves, crosses or is inside a rule.

    Rules about one stream take rows by `update(table)`, bands take those of two by `update(left=..., right=...)`.
    A row older than its object's last is late, and one that observes nothing (no value, no key, no object or no time)
    is ignored; both are counted. A value or key that is missing keeps its last known value.

    Args:
        rules: `Rules` or a `Snapshot`, taken as they are now; later changes go through the monitor.
        object: the column that names the object, in bands the row of either side.
        time: the column of event time; None takes rows as they come and counts them per object.
        sequence: a column, or several, that order rows of equal time.
        first: "enter" reports rules that an object is inside when it is first seen, "silent" does not.
        timeout: how long an object may be silent before it is gone: a timedelta, or a number in the unit of time.
        schema: the types of columns, as for `Rules.compile`.
        late: called with every batch's late rows, as an Arrow table; in bands with those of each side.
        deleted: in bands, a boolean column that says that a row is gone; it then leaves every band.
        key: in bands, a column, or several, of both sides that tell rows apart beside `object`: only rows of one key
            make pairs, whether rules say so or not, and events have these columns behind the others.
        report: in bands, "pairs", or "rules" for events that name only the row that moved, once for each rule.

    >>> rules = Rules()
    >>> rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
    >>> monitor = Monitor(rules, object="symbol", time="ts")
    >>> ticks = {"symbol": ["IBM", "IBM", "IBM"], "ts": [1, 2, 3], "price": [39.0, 41.5, 52.0]}
    >>> for event in monitor.update(ticks).to_pylist():
    ...     print(event["rule_id"], event["detect"], event["time"], event["price_before"], event["price"])
    1 enter 2 39.0 41.5
    1 exit 3 41.5 52.0

    """

    def __init__(
        self,
        rules: Rules | Snapshot,
        *,
        object: str,
        time: str | None = None,
        sequence: str | Sequence[str] | None = None,
        first: Literal["enter", "silent"] = "enter",
        timeout: timedelta | int | None = None,
        schema: Any = None,
        late: Callable[[Any], None] | None = None,
        deleted: str | None = None,
        key: str | Sequence[str] = (),
        report: Literal["pairs", "rules"] = "pairs",
    ) -> None:
        checked_first(first)
        checked_report(report)
        if not isinstance(rules, (Rules, Snapshot)):
            raise FencepostError(
                f"{type(rules).__name__} as rules", "Rules or a Snapshot", "Build them with Rules() and add()."
            )
        base = rules if isinstance(rules, Snapshot) else rules.compile(schema)
        with_bands = Pairing(deleted, (key,) if isinstance(key, str) else tuple(key), report)
        self._begin(Layers(base, schema), object, time, sequence, first, timeout, late, with_bands)

    def _begin(
        self,
        layers: Layers,
        object: str,
        time: str | None,
        sequence: str | Sequence[str] | None,
        first: str,
        timeout: timedelta | int | None,
        late: Callable[[Any], None] | None,
        pairing: Pairing | None = None,
    ) -> None:
        """Starts with rules that are ready; an operator for one stream leaves their bands out."""
        self.object, self.time, self.first = object, time, first
        self.deleted = None if pairing is None else pairing.deleted
        self._pairing = pairing
        self.sequence = (sequence,) if isinstance(sequence, str) else tuple(sequence or ())
        self._late = late
        self._clock = Clock(time, timeout)
        self._state = State()
        self._layers = layers
        self._rows = self._late_rows = self._null_rows = 0
        self._events = dict.fromkeys(DETECTS, 0)
        self._clock.check_expiry(layers.ids[layers.expiring])
        self._expires = _NOTHING
        """When each rule expires, in ordinals of time; renewed before it is used."""
        self._plain_rules: bool | None = None
        """Whether the two positions of a move are all that matters; None until asked."""
        self._inside_now: dict[int, frozenset[int]] = {}
        """Rows of the rules that objects are inside, by slot, where it has been asked since the last change."""
        self._empty: tuple[Any, Any] | None = None
        self._now: Present | None = None
        """All objects, where it has been asked since the last row."""
        told_late = None if late is None else lambda _side, table: late(table)
        self._bands = Bands((object, self.sequence), self._clock, pairing, silent=first == "silent", late=told_late)
        if pairing is not None:
            self._bands.change(self._bands.prepared(None, layers.snapshot(), {}))
        self._changed()

    # -- rows ----------------------------------------------------------------------------------------------

    def update(self, data: Any = None, *, left: Any = None, right: Any = None) -> Any:
        """Takes a batch of rows and returns the events they cause, an Arrow table.

        Events are ordered by time, then as rows came; on one row by exit, cross, enter, inside, then by rule id.
        Rows of bands are applied by time, at one time the left ones first.

        Args:
            data: an Arrow table, a pandas or polars frame, or a dict of arrays.
            left: in its place, rows of the left stream of bands; likewise `right`.
            right: rows of the right stream.

        """
        if left is not None or right is not None:
            if data is not None:
                raise FencepostError("a table beside left or right", "the one or the other", "Update twice.")
            return self._update_bands(left, right)
        if data is None:
            raise FencepostError("no rows", "a table, or left= or right=", "Pass the rows that are new.")
        taken = self._take(data if isinstance(data, Table) else Table(data))
        events = self._tell(taken)
        self._settle(taken)
        return events

    def _take(self, table: Table) -> Taken:
        """The moves of a batch; needs no rules, and changes nothing but counters and the slots of objects."""
        rows = self._read(table)
        self._rows += table.rows
        self._null_rows += table.rows - len(rows.slots)
        rows = self._without_late(table, rows)
        timed = self.time is not None
        order, ranks = ordered(rows, self._state.strings, timed=timed)
        return Taken(*steps(rows.take(order), self._state, self._clock.timeout, timed=timed), ranks)

    def _tell(self, taken: Taken, reported: Callable[[Found], Bools] | None = None) -> Any:
        """The events of moves; needs no state but the slots of their objects.

        Args:
            taken: the moves.
            reported: which of the events are told; all without it.

        """
        rows, moved, ranks = taken
        self._expires = self._clock.expires(self._layers)
        found = transitions(self._settled(moved.clocks), moved, rows, silent=self.first == "silent")
        if reported is not None:
            found = found.take(np.flatnonzero(reported(found)))
        found = found.ordered(ranks, self._layers.ids, is_ascending=self._layers.is_ascending)
        sequences = []
        for ordinals, known in rows.sequences:
            caused = found.phases != ENDED  # what time ended has no row, and so no sequence
            sequences.append((ordinals[found.rows], known[found.rows] & caused))
        objects = rows.objects.take(pa.array(found.rows))
        return self._written(found, moved.positions, rows.slots[found.rows], objects, sequences)

    def _settle(self, taken: Taken) -> None:
        """Remember where the objects of a batch are now."""
        rows, moved, _ = taken
        lasts = np.flatnonzero(moved.is_last)
        self._state.store(rows.slots[lasts], rows.times[lasts], moved.positions.take(moved.offset + lasts))
        self._state.tidy()
        self._moved()

    def update_one(self, object: Any, time: Any = None, **values: Any) -> list[tuple[Any, ...]]:
        """Takes one row and returns its events as tuples, in the order of the columns of `update`.

        Args:
            object: the object.
            time: its time; None where the monitor goes without.
            values: attributes, keys and sequence columns by name; what is left out was not observed.

        """
        return single.update_one(self, object, time, values)

    def advance(self, time: Any) -> Any:
        """Moves every object's clock to a time and returns what ends by it: expired rules, objects gone silent.

        Args:
            time: a value of the time column; one that is earlier than before has no effect.

        """
        now = self._clock.read(time)
        of_bands = self._bands.advance(now)
        self._expires = self._clock.expires(self._layers)
        slots, positions, last = self._present().slots, self._present().positions, self._present().times
        settled, timeout = self._settled(last), self._clock.timeout
        held = held_at(self._layers, positions, settled.strings, settled.clocks, self._expires)
        gone = np.full(len(slots), NEVER, np.int64) if timeout is None else gone_after(last, timeout)
        expires = self._expires[held.rules]
        ends = np.minimum(expires, gone[held.moves])
        ended = ends <= now
        found = ended_by_time(self._layers, held.only(ended), ends[ended], expires[ended])
        events = self._written_without_rows(found, positions, slots)
        self._state.forget(slots[gone <= now])
        self._state.tidy()
        self._clock.advance(now)
        self._moved()
        return self._together(events, of_bands)

    # -- rules ---------------------------------------------------------------------------------------------

    def add(self, id: int, condition: str, **options: Any) -> Any:
        """Adds a rule and returns the events this causes: an enter per object inside, if it asks for `initial`.

        Args:
            id: a new id.
            condition: the SQL condition.
            options: detect, initial, labels, expires, enabled, as for `Rules.add`.

        """
        id = checked_id(id)
        if id in self._layers or id in self._layers.paused:
            raise FencepostError(f"rule {id} a second time", "an id of its own", "Use replace to edit a rule.")
        return self._put(id, condition, options)

    def replace(self, id: int, condition: str, **options: Any) -> Any:
        """Edits a rule and returns the events this causes: exits of objects that no longer are inside.

        With enabled=False the rule is paused: it ends for every object, until it is replaced again.

        Args:
            id: of the rule.
            condition: the SQL condition; nothing is taken over from the old rule.
            options: as for `Rules.replace`.

        """
        return self._put(self._known(id), condition, options)

    def remove(self, id: int) -> Any:
        """Removes a rule and returns the exits of the objects inside it.

        Args:
            id: of the rule.

        """
        id = self._known(id)
        if self._bands.find(id) is not None:
            return self.change(remove=[id])
        old = self._layers.find(id)
        self._layers.remove(id)
        return self._replaced(old, None, "removed")

    def change(self, rules: Rules | None = None, remove: Any = ()) -> Any:
        """Makes many changes of rules at once and returns the events they cause, as add, replace and remove would.

        Args:
            rules: to add, or to take the place of the rules with their ids; those not enabled are paused.
            remove: ids of rules to take out.

        >>> rules = Rules()
        >>> rules.add(1, "price > 40", detect="enter,exit")
        >>> monitor = Monitor(rules, object="symbol")
        >>> monitor.update({"symbol": ["IBM"], "price": [41.5]}).num_rows
        1
        >>> edited = Rules.from_dicts([{"id": 1, "condition": "price > 42", "detect": "enter,exit"}])
        >>> monitor.change(edited).select(["rule_id", "detect", "reason"]).to_pylist()
        [{'rule_id': 1, 'detect': 'exit', 'reason': 'edited'}]

        """
        rules = Rules() if rules is None else rules
        if not isinstance(rules, Rules):
            raise FencepostError(f"a {type(rules).__name__} as rules", "Rules", "Collect them with Rules.from_dicts.")
        ids = id_column(remove)
        for id in ids.tolist():
            self._known(id)
            if id in rules:
                raise FencepostError(f"rule {id} to put and to remove", "one of the two", "Leave it out of `remove`.")
        return self.follow(self._layers.changed(rules, ids))

    def follow(self, rules: Snapshot) -> Any:
        """Lets the rules of another snapshot be in force and returns the events this causes.

        Objects inside a rule that is gone, paused or edited such that they no longer are inside leave it, with that
        reason. Both snapshots may be versions of one directory; then only what differs between them costs time.

        Args:
            rules: all rules from now on.

        """
        if not isinstance(rules, Snapshot):
            raise FencepostError(
                f"{type(rules).__name__} to follow", "a Snapshot", "Compile the rules, or give them to `change`."
            )
        types = {name: rules.types[name] for name in rules.attributes}
        event_schema(pa.null(), pa.null(), {**self._layers.types, **types})  # refuses names that events cannot have
        return self._follow(self._layers.following(rules))

    def _follow(self, layers: Layers, elsewhere: Callable[[Int64s], Bools] | None = None) -> Any:
        """See `follow`; `elsewhere` says which rules are in force though they are not among these."""
        self._clock.check_expiry(layers.ids[layers.expiring])
        of_bands = None
        if self._pairing is not None:
            of_bands = self._bands.prepared(self._layers.snapshot(), layers.snapshot(), self._layers.types)
        before, self._layers = self._layers.snapshot(), layers
        self._changed()
        now = self._present()
        found, ids, versions = changed_rules(
            before, layers.snapshot(), now, self._state.strings, self._clock, elsewhere
        )
        events = self._no_events()
        if len(found.rows):
            events = self._written_without_rows(found, now.positions, now.slots, (ids, versions))
        return events if of_bands is None else self._together(events, self._bands.change(of_bands))

    def inside(self, rule_id: int) -> list[Any]:
        """The objects that are inside a rule now; of a band the pairs, as tuples.

        Args:
            rule_id: of the rule.

        """
        band = self._bands.find(checked_id(rule_id))
        if band is not None:
            return self._bands.inside(band)
        inside = self._inside(self._in_force(rule_id))
        objects: list[Any] = self._state.objects.values(self._present().slots[inside]).to_pylist()
        return objects

    def rules_at(self, **values: Any) -> list[int]:
        """The ids of the rules whose condition holds at the given values, ascending; what is left out is in no range.

        Args:
            values: attributes and keys by name.

        """
        given = single.encoded(self, values)
        held = self._layers.held_at(given, self._state.strings)
        ids: list[int] = sorted(self._layers.ids[held.rules].tolist())
        return ids

    def why(self, event: Any) -> "reasons.Reason | BandReason":
        """The rule behind an event: its boxes or its band, with their bounds, and the values before and after.

        Args:
            event: a row of an event table as a dict, a table of one row, or a tuple of `update_one`.

        """
        given = reasons.as_mapping(event, self._schema().names)
        rule = self._in_force(int(given["rule_id"]))
        band = self._bands.find(rule.id)
        if band is not None:
            return explained_band(band, given, self._bands.types)
        return reasons.explained(rule, self._layers.boxes(rule), given, self._layers.types)

    @property
    def counters(self) -> dict[str, Any]:
        """Rows taken, rows that were late, rows without any observation, and events by kind."""
        bands = self._bands
        return {
            "rows": self._rows + bands.rows,
            "late": self._late_rows + bands.late_rows,
            "null": self._null_rows + bands.null_rows,
            "events": {kind: count + bands.events[kind] for kind, count in self._events.items()},
        }

    # -- keeping it ----------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Writes the state to a file: an Arrow table of objects, with the rest as JSON in its metadata.

        Rules are not in it; they are kept as rules are, in files or a book.

        Args:
            path: the file; one that exists is replaced whole.

        """
        kept = {
            "clock": self._clock.saved(),
            "counters": self.counters,
            "removed": {str(id): version for id, version in self._layers.removed.items()},
        }
        state_file.write(Path(path), self._state, self._layers, self._settings(), kept, self._bands)

    def restore(self, path: str | Path) -> None:
        """Takes over a state that a monitor with the same rules and settings saved.

        Args:
            path: what `save` wrote.

        """
        state, kept, sides = state_file.read(Path(path), self._layers, self._settings(), self._bands)
        self._state = state
        self._clock.restore(kept["clock"])
        self._bands.restore(*sides)
        self._layers.removed = {int(id): version for id, version in kept["removed"].items()}
        counters = kept["counters"]
        self._rows, self._late_rows, self._null_rows = counters["rows"], counters["late"], counters["null"]
        self._events = dict(counters["events"])
        self._changed()
        self._moved()

    def _settings(self) -> dict[str, Any]:
        return {
            "object": self.object,
            "time": self.time,
            "sequence": list(self.sequence),
            "first": self.first,
            "timeout": None if self._clock.given_timeout is None else str(self._clock.given_timeout),
            **({"key": list(self._pairing.key)} if self._pairing is not None and self._pairing.key else {}),
        }

    # -- bands ---------------------------------------------------------------------------------------------

    def _update_bands(self, left: Any, right: Any) -> Any:
        self._layers.snapshot()
        given = [None if each is None else each if isinstance(each, Table) else Table(each) for each in (left, right)]
        return self._bands.update((given[0], given[1]), self._layers, self._state.objects.type)

    def _put_band(self, id: int, condition: str, options: dict[str, Any]) -> Any:
        """Put a rule in force that is a band, or takes the place of one."""
        alone = Rules()
        alone.add(id, condition, **options)
        return self.change(alone)

    def _is_band(self, id: int, condition: str) -> bool:
        if self._bands.find(id) is not None:
            return True
        if not isinstance(condition, str) or "left" not in condition.lower() or "right" not in condition.lower():
            return False
        try:
            return isinstance(parse(condition), Band)
        except FencepostError:
            return False  # what is wrong with it is told where rules are bound

    def _together(self, events: Any, of_bands: Any) -> Any:
        """Events of both kinds in one table, with the columns of both where there are both."""
        bands = self._bands
        if not bands.types:
            return events
        if not self._layers.types and not self._layers.keys and not events.num_rows:
            return of_bands
        object_type, time_type, types = (
            self._state.objects.type,
            self._clock.type,
            {**bands.types, **self._layers.types},
        )
        object_type = of_bands.schema.field("object").type if object_type is None else object_type
        time = pa.null() if time_type is None else time_type.arrow
        schema = event_schema(object_type, time, types, of_bands.schema.field("other").type)
        schema = pa.schema([*schema, *(field for field in of_bands.schema if field.name in bands.pairing.key)])
        parts = []
        for table in (events, of_bands):
            names = table.schema.names
            columns = [
                table[field.name]
                if field.name in names and table[field.name].type == field.type
                else pa.nulls(table.num_rows, field.type)
                for field in schema
            ]
            parts.append(pa.table(columns, schema=schema))
        return pa.concat_tables(parts)

    # -- from rows to events -------------------------------------------------------------------------------

    def _read(self, table: Table) -> Rows:
        """The rows that observe something, with slots for their objects; nothing is kept of a batch it refuses."""
        state = self._state
        values = read_values(table, self._layers.types, state.strings)
        rows, time_type = read_rows(table, state, (self.object, self.sequence), self._clock, values, observed(values))
        if not len(rows.numbers):
            return rows
        beside = self._bands.states[0].objects.id_type
        if beside is not None and rows.objects.type != beside:
            raise FencepostError(
                f"objects of type {rows.objects.type} beside left rows named by {beside}",
                "one type, since both are the objects of events",
                f"Cast the column {self.object}.",
            )
        if self._clock.type is None:
            assert time_type is not None, "there is a time column, so it has a type"
            self._clock.start(time_type, self._layers)
        slots = state.objects.slots(rows.objects, add=True)
        state.make_room()
        return rows._replace(slots=slots)

    def _without_late(self, table: Table, rows: Rows) -> Rows:
        if self.time is None or not len(rows.slots):
            return rows
        rows, late = without_late(rows, table, self._state, self._late)
        self._late_rows += late
        return rows

    def _settled(self, times: Int64s) -> Settled:
        """What finding transitions between positions at these times depends on."""
        layers = self._layers
        crossing = layers.crossing()
        clocks = self._clock.clocks(layers, times)
        return Settled(layers, self._state.strings, self._expires, clocks, self._clock.timeout, crossing)

    def _written(
        self,
        found: Found,
        positions: Positions,
        slots: Int64s,
        objects: Any,
        sequences: Sequence[tuple[Int64s, Bools]],
        rules: tuple[Int64s, Int64s] | None = None,
    ) -> Any:
        """The event table, counted; `rules` has the ids and versions of events whose rules are no longer in force."""
        if not len(found.rules):
            return self._no_events()
        layers = self._layers
        ids, versions = (layers.ids[found.rules], layers.versions[found.rules]) if rules is None else rules
        for kind, bit in DETECTS.items():
            self._events[kind] += int((found.detects == bit).sum())
        identities = self._state.objects.identities(slots)
        assert self._clock.type is not None, "there are objects, so there was a time"
        return written(
            found,
            ids,
            versions,
            positions,
            objects,
            identities,
            sequences,
            self._clock.type,
            layers.types,
            layers.version,
        )

    def _written_without_rows(
        self, found: Found, positions: Positions, slots: Int64s, rules: tuple[Int64s, Int64s] | None = None
    ) -> Any:
        """Events that no row caused, by time, rule and object; `rows` of the found are places in `slots`."""
        ids, versions = (self._layers.ids[found.rules], self._layers.versions[found.rules]) if rules is None else rules
        identities = self._state.objects.identities(slots[found.rows])
        order = np.lexsort([identities.highs, identities.lows, ids, found.times])
        found = found.take(order)
        absent = (np.zeros(len(order), np.int64), np.zeros(len(order), np.bool_))
        chosen = slots[found.rows]
        objects = self._state.objects.values(chosen)
        return self._written(
            found, positions, chosen, objects, [absent] * len(self.sequence), (ids[order], versions[order])
        )

    # -- rules in force ------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """Follow a change of the rules."""
        layers = self._layers
        if self._state.track(layers.types, tuple(sorted(layers.keys))):
            event_schema(pa.null(), pa.null(), layers.types)  # refuses names that events cannot have
            self._moved()
        self._expires, self._plain_rules = _NOTHING, None
        self._inside_now.clear()

    def _moved(self) -> None:
        """Forget what is known only as long as no object moves."""
        self._inside_now.clear()
        self._now = None

    def _present(self) -> Present:
        """All objects and where they are."""
        if self._now is None:
            slots = self._state.here()
            self._now = Present(slots, self._state.positions(slots), self._state.times[slots])
        return self._now

    def _schema(self) -> Any:
        """The schema of the events of this moment."""
        object_type = pa.null() if self._state.objects.type is None else self._state.objects.type
        time_type = pa.null() if self._clock.type is None else self._clock.type.arrow
        return event_schema(object_type, time_type, self._layers.types)

    def _no_events(self) -> Any:
        """A table without rows, made once per schema: most changes of rules cause no event."""
        shape = (self._state.objects.type, self._clock.type, len(self._layers.types))
        if self._empty is None or self._empty[0] != shape:
            self._empty = (shape, self._schema().empty_table())
        return self._empty[1]

    def _in_force(self, id: int) -> LiveRule:
        rule = self._layers.find(checked_id(id))
        if rule is None:
            raise FencepostError(f"rule {id}", "a rule that is in force", "Add it, or enable it with replace.")
        return rule

    def _known(self, id: int) -> int:
        id = checked_id(id)
        if id not in self._layers and id not in self._layers.paused:
            raise FencepostError(f"rule {id}", "the id of a rule that is here", "Use add for a new rule.")
        return id

    def _inside(self, rule: LiveRule | None) -> Bools:
        """Which of the present objects are inside one rule."""
        now = self._present()
        if rule is None:
            return now.nowhere
        if rule.row is None:
            inside = inside_boxes(self._layers.boxes(rule), now.positions, self._state.strings)
        else:
            inside = now.inside_compiled(rule.row, self._layers.compiled, self._state.strings)
        if rule.expires != NEVER:
            inside &= self._clock.instant(rule.expires) > self._clock.at_least(now.times)
        return inside

    def _put(self, id: int, condition: str, options: dict[str, Any]) -> Any:
        if self._is_band(id, condition):
            return self._put_band(id, condition, options)
        layers = self._layers
        new, columns = layers.prepared(id, condition, options)
        if new is not None:
            self._clock.check_expiry(np.array([id] if new.expires != NEVER else [], np.int64))
        if columns:
            types = {name: type_ for name, type_ in columns.items() if isinstance(type_, AttributeType)}
            event_schema(pa.null(), pa.null(), {**layers.types, **types})  # refuses names that events cannot have
        old = layers.find(id)
        layers.put(id, new, columns)
        return self._replaced(old, new, "paused" if new is None else "edited")

    def _replaced(self, old: LiveRule | None, new: LiveRule | None, reason: str) -> Any:
        """Tell the objects that were inside a rule and no longer are, or the other way round."""
        self._changed()
        now = self._present()
        was, is_now = self._inside(old), self._inside(new)
        parts, ids, versions = [], [], []
        for rule, kind, chosen, why in (
            (old, "exit", was > is_now, reason),
            (new, "enter", is_now > was, "initial"),
        ):
            if rule is None or not rule.detects & DETECTS[kind] or (kind == "enter" and not rule.initial):
                continue
            at = np.flatnonzero(chosen)
            if not len(at):
                continue
            pairs = Pairs(at, np.zeros(len(at), np.int64))
            parts.append(found_of(pairs, kind, ENDED, at, at, now.times[at], REASON_CODES[why]))
            ids.append(np.full(len(at), rule.id))
            versions.append(np.full(len(at), rule.version))
        if not parts:
            return self._no_events()
        rules = (np.concatenate(ids), np.concatenate(versions))
        return self._written_without_rows(joined(parts), now.positions, now.slots, rules)


def checked_first(first: str) -> None:
    """Refuse a way of starting that there is not."""
    if first not in ("enter", "silent"):
        raise FencepostError(
            f"first={first!r}", "'enter' or 'silent'", "Use 'silent' to start on traffic that already runs."
        )


def checked_report(report: str) -> None:
    """Refuse a way of telling about bands that there is not."""
    if report not in ("pairs", "rules"):
        raise FencepostError(
            f"report={report!r}", "'pairs' or 'rules'", "Use 'rules' to learn only which rules a row affects."
        )
