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
from fencepost.monitor import reasons, single, state_file
from fencepost.monitor.changes import changed_rules
from fencepost.monitor.clock import Clock
from fencepost.monitor.crossings import held_at, inside_boxes
from fencepost.monitor.found import ENDED, REASON_CODES, Found, found_of, joined, written
from fencepost.monitor.layers import Layers, LiveRule
from fencepost.monitor.positions import Pairs, Positions
from fencepost.monitor.present import Present
from fencepost.monitor.rows import Rows, observed, ordered, plain, read_values, sequence_type, steps
from fencepost.monitor.state import State
from fencepost.monitor.transitions import Settled, ended_by_time, transitions
from fencepost.ordinals import AttributeType
from fencepost.rules import Rules
from fencepost.rules.rule import checked_id
from fencepost.snapshot import DETECTS, NEVER, Snapshot, Table

__all__ = ["Monitor"]

_NOTHING = np.zeros(0, np.int64)


class Monitor:
    """Standing rules over objects that move: tells when an object enters, leaves, crosses or is inside a rule.

    A row older than its object's last is late, and one that observes nothing (no value, no key, no object or no time)
    is ignored; both are counted. A value or key that is missing keeps its last known value.

    Args:
        rules: `Rules` or a `Snapshot`, taken as they are now; later changes go through the monitor.
        object: the column that names the object.
        time: the column of event time; None takes rows as they come and counts them per object.
        sequence: a column, or several, that order rows of equal time.
        first: "enter" reports rules that an object is inside when it is first seen, "silent" does not.
        timeout: how long an object may be silent before it is gone: a timedelta, or a number in the unit of time.
        schema: the types of columns, as for `Rules.compile`.
        late: called with every batch's late rows, as an Arrow table.

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
    ) -> None:
        if first not in ("enter", "silent"):
            raise FencepostError(
                f"first={first!r}", "'enter' or 'silent'", "Use 'silent' to start on traffic that already runs."
            )
        if not isinstance(rules, (Rules, Snapshot)):
            raise FencepostError(
                f"{type(rules).__name__} as rules", "Rules or a Snapshot", "Build them with Rules() and add()."
            )
        base = rules if isinstance(rules, Snapshot) else rules.compile(schema)
        self._begin(Layers(base, schema), object, time, sequence, first, timeout, late)

    def _begin(
        self,
        layers: Layers,
        object: str,
        time: str | None,
        sequence: str | Sequence[str] | None,
        first: str,
        timeout: timedelta | int | None,
        late: Callable[[Any], None] | None,
    ) -> None:
        self.object, self.time, self.first = object, time, first
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
        self._changed()

    # -- rows ----------------------------------------------------------------------------------------------

    def update(self, data: Any) -> Any:
        """Takes a batch of rows and returns the events they cause, an Arrow table.

        Events are ordered by time, then as rows came; on one row by exit, cross, enter, inside, then by rule id.

        Args:
            data: an Arrow table, a pandas or polars frame, or a dict of arrays.

        """
        table = data if isinstance(data, Table) else Table(data)
        rows = self._read(table)
        self._rows += table.rows
        self._null_rows += table.rows - len(rows.slots)
        rows = self._without_late(table, rows)
        timed = self.time is not None
        order, ranks = ordered(rows, self._state.strings, timed=timed)
        rows, moved = steps(rows.take(order), self._state, self._clock.timeout, timed=timed)
        found = transitions(self._settled(moved.clocks), moved, rows, silent=self.first == "silent")
        found = found.ordered(ranks, self._layers.ids, is_ascending=self._layers.is_ascending)
        sequences = []
        for ordinals, known in rows.sequences:
            caused = found.phases != ENDED  # what time ended has no row, and so no sequence
            sequences.append((ordinals[found.rows], known[found.rows] & caused))
        objects = rows.objects.take(pa.array(found.rows))
        events = self._written(found, moved.positions, rows.slots[found.rows], objects, sequences)
        lasts = np.flatnonzero(moved.is_last)
        self._state.store(rows.slots[lasts], rows.times[lasts], moved.positions.take(moved.offset + lasts))
        self._state.tidy()
        self._moved()
        return events

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
        self._expires = self._clock.expires(self._layers)
        slots, positions, last = self._present().slots, self._present().positions, self._present().times
        settled, timeout = self._settled(last), self._clock.timeout
        held = held_at(self._layers, positions, settled.strings, settled.clocks, self._expires)
        gone = np.full(len(slots), NEVER, np.int64) if timeout is None else last + timeout
        expires = self._expires[held.rules]
        ends = np.minimum(expires, gone[held.moves])
        ended = ends <= now
        found = ended_by_time(self._layers, held.only(ended), ends[ended], expires[ended])
        events = self._written_without_rows(found, positions, slots)
        self._state.forget(slots[gone <= now])
        self._state.tidy()
        self._clock.advance(now)
        self._moved()
        return events

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
        types = {name: rules.types[name] for name in rules.attributes}
        event_schema(pa.null(), pa.null(), {**self._layers.types, **types})  # refuses names that events cannot have
        return self._follow(self._layers.following(rules))

    def _follow(self, layers: Layers) -> Any:
        self._clock.check_expiry(layers.ids[layers.expiring])
        before, self._layers = self._layers.snapshot(), layers
        self._changed()
        now = self._present()
        found, ids, versions = changed_rules(before, layers.snapshot(), now, self._state.strings, self._clock)
        if not len(found.rows):
            return self._no_events()
        return self._written_without_rows(found, now.positions, now.slots, (ids, versions))

    def inside(self, rule_id: int) -> list[Any]:
        """The objects that are inside a rule now.

        Args:
            rule_id: of the rule.

        """
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

    def why(self, event: Any) -> "reasons.Reason":
        """The rule behind an event: its boxes with their bounds, and the values before and after.

        Args:
            event: a row of an event table as a dict, a table of one row, or a tuple of `update_one`.

        """
        given = reasons.as_mapping(event, self._schema().names)
        rule = self._in_force(int(given["rule_id"]))
        return reasons.explained(rule, self._layers.boxes(rule), given, self._layers.types)

    @property
    def counters(self) -> dict[str, Any]:
        """Rows taken, rows that were late, rows without any observation, and events by kind."""
        return {"rows": self._rows, "late": self._late_rows, "null": self._null_rows, "events": dict(self._events)}

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
        state_file.write(Path(path), self._state, self._layers, self._settings(), kept)

    def restore(self, path: str | Path) -> None:
        """Takes over a state that a monitor with the same rules and settings saved.

        Args:
            path: what `save` wrote.

        """
        state, kept = state_file.read(Path(path), self._layers, self._settings())
        self._state = state
        self._clock.restore(kept["clock"])
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
        }

    # -- from rows to events -------------------------------------------------------------------------------

    def _read(self, table: Table) -> Rows:
        """The rows that observe something, with slots for their objects; nothing is kept of a batch it refuses."""
        state = self._state
        objects = state.objects.accept(plain(table.arrow(self.object)), self.object)
        usable = np.asarray(objects.is_valid())
        times, time_type = np.zeros(table.rows, np.int64), self._clock.type
        if self.time is not None:
            column = plain(table.arrow(self.time))
            time_type = time_type or self._clock.type_for(column.type)
            times, valid = time_type.encode(column, self.time)
            usable = usable if valid is None else usable & valid
        sequences = []
        for name in self.sequence:
            column = plain(table.arrow(name))
            ordinals, valid = sequence_type(column.type, name).encode(column, name)
            sequences.append((ordinals, np.ones(table.rows, np.bool_) if valid is None else valid))
        values = read_values(table, self._layers.types, state.strings)
        usable = usable & observed(values)
        rows = Rows(np.arange(table.rows), objects, np.zeros(table.rows, np.int64), times, sequences, values)
        if not usable.all():
            rows = rows.take(np.flatnonzero(usable))
        if not len(rows.numbers):
            return rows
        if self._clock.type is None:
            assert time_type is not None, "there is a time column, so it has a type"
            self._clock.start(time_type, self._layers)
        self._expires = self._clock.expires(self._layers)
        slots = state.objects.slots(rows.objects, add=True)
        state.make_room()
        return rows._replace(slots=slots)

    def _without_late(self, table: Table, rows: Rows) -> Rows:
        if self.time is None or not len(rows.slots):
            return rows
        is_late = self._state.present[rows.slots] & (rows.times < self._state.times[rows.slots])
        if not is_late.any():
            return rows
        self._late_rows += int(is_late.sum())
        if self._late is not None:
            late = pa.array(rows.numbers[is_late])
            self._late(pa.table({name: table.arrow(name).take(late) for name in table.names}))
        return rows.take(np.flatnonzero(~is_late))

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
