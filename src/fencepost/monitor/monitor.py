"""Monitor: standing rules over objects that move, in one process: engines, an emitter, and the questions one asks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import pyarrow as pa

from fencepost._memory import SETTING, AnswerTooLargeError
from fencepost._text import count, name_kind
from fencepost.emitting.event import Event
from fencepost.emitting.further import event_columns
from fencepost.errors import FencepostError
from fencepost.indexes.arguments import id_column
from fencepost.monitor import files, one_row, reasons
from fencepost.monitor.aside import Aside
from fencepost.monitor.host import Host, asks, changes
from fencepost.monitor.known import (
    KnownObject,
    ObjectPage,
    Waiting,
    find_object,
    find_waiting,
    list_objects,
    state_table,
)
from fencepost.monitor.pair_reasons import BandReason, explain_band
from fencepost.monitor.pair_standing import find_pair_standing
from fencepost.monitor.rules_view import RulesView
from fencepost.monitor.settings import check_first, check_report
from fencepost.monitor.standing import Standing, find_standing
from fencepost.ordinals.schema import read_schema
from fencepost.pairing.sides import Pairing
from fencepost.rules import Rules
from fencepost.rules.html import rules_html
from fencepost.rules.options import RuleOptions, takes_options, with_name
from fencepost.rules.rule import RuleKey, checked_id
from fencepost.snapshot import Snapshot, Table
from fencepost.watching.clock import Clock
from fencepost.watching.engine import WatchColumns
from fencepost.watching.rules_in_force import RulesInForce

if TYPE_CHECKING:
    from fencepost.book import RuleBook


class Monitor(Host):
    """Standing rules over objects that move: reports when an object enters, leaves, crosses or is inside a rule.

    Rules about one stream take rows by `update(table)`, bands take those of two by `update(left=..., right=...)`.
    A row older than its object's last is late, and one that observes nothing (no value, no key, no object or no time)
    is ignored; both are counted. A value or key that is missing keeps its last known value.

    Threads may share a monitor: a call waits until those of other threads are done. A call that raises has changed and
    counted nothing, and may be made again.

    Args:
        rules: `Rules`, a `Snapshot` or a `RuleBook`, taken as they are now. Later changes go through the monitor; those
            of a book are taken by `refresh`.
        object: the column that names the object, in bands the row of either side.
        time: the column of event time; None takes rows as they come and counts them per object.
        sequence: a column, or several, that order rows of equal time.
        first: "enter" reports rules that an object is inside when it is first seen, "silent" does not.
        timeout: how long an object may be silent before it is gone: a timedelta, or a number in the unit of time.
        schema: the types of columns, as for `Rules.compile`. Every column it names is remembered, so that a rule
            added later can use it at once; what it does not name is known from the first row after the rule came.
        late: called with every batch's late rows, as an Arrow table; in bands with those of each side. It may ask the
            monitor, but not change it; if it raises, the batch has not been taken.
        deleted: in bands, a boolean column that says that a row is gone; it then leaves every band.
        key: in bands, a column, or several, of both sides that tell rows apart beside `object`: only rows of one key
            make pairs, whether rules say so or not, and events have these columns behind the others.
        report: in bands, "pairs", or "rules" for events that name only the row that moved, once for each rule.
        labels: whether events have the `name` and the `labels` of the rule version that they name.
        carry: columns of the row that caused an event, which the event has, too; null where no row did. In bands those
            of the row that moved.
        condition: whether events have the `condition` of the rule; null for rules of tables.

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
        rules: "Rules | Snapshot | RuleBook",
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
        labels: bool = False,
        carry: str | Sequence[str] = (),
        condition: bool = False,
    ) -> None:
        check_first(first)
        check_report(report)
        self.object, self.time, self.first, self.deleted = object, time, first, deleted
        self.sequence = (sequence,) if isinstance(sequence, str) else tuple(sequence or ())
        self._columns = columns = event_columns(labels, condition, carry)
        self._book: RuleBook | None = None
        self._revision = 0
        in_force = self._take_rules(rules, schema)
        self._aside = Aside()
        super().__init__(
            in_force,
            WatchColumns(object, time, self.sequence, carry=columns.carry),
            Clock(time, timeout),
            Pairing(deleted, (key,) if isinstance(key, str) else tuple(key), report),
            silent=first == "silent",
            late=late,
            declared=None if schema is None else read_schema(schema).types,
            event_columns=columns,
        )

    def _take_rules(self, rules: Any, schema: Any) -> RulesInForce:
        if isinstance(rules, RulesInForce):  # of a file
            return rules
        if not isinstance(rules, (Rules, Snapshot)):
            from fencepost.book import RuleBook

            if not isinstance(rules, RuleBook):
                raise FencepostError(
                    f"{type(rules).__name__} as rules",
                    "Rules, a Snapshot or a RuleBook",
                    "Build them with Rules() and add().",
                )
            self._book = rules
            self._revision, rules = rules.compile_revision(schema)
        return RulesInForce(rules if isinstance(rules, Snapshot) else rules.compile(schema), schema)

    # -- rows ----------------------------------------------------------------------------------------------

    @changes
    def update(self, data: Any = None, *, left: Any = None, right: Any = None) -> pa.Table:
        """Takes a batch of rows and returns the events they cause, an Arrow table.

        Events are ordered by time, then as rows came; on one row by exit, cross, enter, inside, then by rule id.
        Rows of bands are applied by time, at one time the left ones first.

        Args:
            data: an Arrow table, a pandas or polars frame, a dict of arrays, or records: a list of dicts, where a
                missing key is a null. Columns that no rule uses do not matter.
            left: in its place, rows of the left stream of bands; likewise `right`.
            right: rows of the right stream.

        """
        if left is not None or right is not None:
            if data is not None:
                raise FencepostError("a table beside left= or right=", "one of the two", "Call update twice.")
            given = [None if each is None else _as_table(each) for each in (left, right)]
            return self._emit(self._pairs.update(given, self._watch.state.objects.type))
        if data is None:
            raise FencepostError("no rows", "a table, or left= or right=", "Pass the new rows.")
        if isinstance(data, list) and not data:
            return self._emitter.no_events(self._watch.subjects())
        table, beside = _as_table(data), self._pairs.states[0].objects.id_type
        return self._emit(self._watch.update([table], beside, singly=self._emitter.writes_singly))

    def update_pieces(self, data: Any) -> Iterator[pa.Table]:
        """Like `update`, where the events may be too many for memory: they come in tables that have room each.

        Most often there is one. Where there are several, rows were taken by time and sequence; those of one object at
        one time stay together, and so do their events. ``FENCEPOST_ANSWER_MEMORY`` says how much memory there is, else
        it is a quarter of what is free. Rows are taken as their events are asked for. A row whose events have no room
        is refused, with its numbers; what came before it is done.

        Args:
            data: as for `update`.

        """
        from fencepost.monitor.pieces import update_in_pieces

        return update_in_pieces(self, data)

    @asks
    def update_one(self, object: Any, time: Any = None, **values: Any) -> list[Event]:
        """Takes one row and returns its events: tuples in the order of the columns of `update`, with named fields.

        Args:
            object: the object.
            time: its time; None where the monitor goes without.
            values: attributes, keys and sequence columns by name; what is left out was not observed, and what no rule
                uses does not matter.

        >>> rules = Rules()
        >>> rules.add(1, "price BETWEEN 40 AND 50", detect="enter,exit")
        >>> monitor = Monitor(rules, object="symbol")
        >>> event = monitor.update_one("IBM", price=41.5, venue="X")[0]
        >>> event.rule_id, event.detect, event["price"], event.price_before
        (1, 'enter', 41.5, None)

        """
        self._check_changeable()
        return one_row.update_one(self._watch, self._emitter, self.update, object, time, values)

    async def aupdate(self, data: Any = None, *, left: Any = None, right: Any = None) -> pa.Table:
        """`update` for coroutines: it works in a thread of the monitor, so that the event loop goes on.

        Calls are made in the order in which they were awaited. One that is cancelled may have been made.

        Args:
            data: as for `update`, likewise the others.
            left: see there.
            right: see there.

        """
        return await self._aside.call(self.update, data, left=left, right=right)

    async def aupdate_one(self, object: Any, time: Any = None, **values: Any) -> list[Event]:
        """`update_one` for coroutines, like `aupdate`.

        Args:
            object: as for `update_one`, likewise the others.
            time: see there.
            values: see there.

        """
        return await self._aside.call(self.update_one, object, time, **values)

    @changes
    def advance(self, time: Any) -> pa.Table:
        """Moves every object's clock to a time and returns what it brings: rules expire, objects go silent, waits end.

        It promises that no older row will come; see docs/damping.md for what waits.

        Args:
            time: a value of the time column; one that is earlier than before has no effect.

        """
        now = self._clock.read(time)
        try:
            events = self._emit(self._watch.advance(now), self._pairs.advance(now))
        except AnswerTooLargeError as error:  # it was not asked about rows, so fewer of them are no remedy
            remedy = f"Advance to an earlier time first, or set {SETTING}, such as 8 GiB."
            raise AnswerTooLargeError(error.got, error.expected, remedy) from None
        self._clock.advance(now)
        return events

    # -- rules ---------------------------------------------------------------------------------------------

    @changes
    @takes_options
    def add(self, id: int, condition: str, **options: Unpack[RuleOptions]) -> pa.Table:
        """Adds a rule and returns the events this causes: an enter per object inside, if it asks for `initial`.

        Args:
            id: a new id.
            condition: the SQL condition.
            **options: as for `Rules.add`.

        """
        id = checked_id(id)
        if id in self._rules or id in self._rules.paused:
            raise FencepostError(f"rule {id} already exists", "ids must be unique", "Use replace() to edit it.")
        return self._put(id, condition, dict(options))

    @changes
    @takes_options
    def replace(self, id: RuleKey, condition: str, **options: Unpack[RuleOptions]) -> pa.Table:
        """Edits a rule and returns the events this causes, such as exits of objects that are no longer inside.

        With enabled=False the rule is paused: it ends for every object, until it is replaced again.

        Args:
            id: of the rule, or its name where it is in force.
            condition: the SQL condition; nothing is taken over from the old rule, but for the name where that is named.
            **options: as for `Rules.replace`.

        """
        return self._put(self._known(id), condition, dict(with_name(options, id)))

    @changes
    def remove(self, id: RuleKey) -> pa.Table:
        """Removes a rule and returns the exits of the objects inside it.

        Args:
            id: of the rule, or its name where it is in force.

        """
        number = self._known(id)
        if self._pairs.find(number) is not None or self._is_damped(number):
            return self._follow(self._rules.change(Rules(), id_column([number])))
        return self._emit(self._watch.remove(number))

    @changes
    def change(self, rules: Rules | None = None, remove: Any = ()) -> pa.Table:
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
            raise FencepostError(f"{name_kind(rules)} as rules", "Rules", "Collect them with Rules.from_dicts.")
        ids = id_column(remove)
        for id in ids.tolist():
            self._known(id)
            if id in rules:
                raise FencepostError(
                    f"rule {id} both to put and to remove", "one of the two", "Leave it out of `remove`."
                )
        return self._follow(self._rules.change(rules, ids))

    @changes
    def follow(self, rules: Snapshot) -> pa.Table:
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
        return self._follow(rules)

    @changes
    def refresh(self) -> pa.Table:
        """Takes what changed in the rule book since it was last read, and returns the events this causes.

        Rules keep the versions of the book. Only what changed is read and compiled.

        """
        if self._book is None:
            raise FencepostError("a Monitor without a rule book", "Monitor(book)", "Use change() or follow().")
        revision, rules, ids = self._book.rules_since(self._revision)
        if not ids:
            events = self._emitter.no_events(self._watch.subjects())
        else:
            gone = id_column([id for id in ids if id not in rules])
            events = self._follow(self._rules.change(rules, gone, versioned=True))
        self._revision = revision
        return events

    # -- questions -----------------------------------------------------------------------------------------

    @property
    @asks
    def rules(self) -> RulesView:
        """The rules in force, to look at: `len(monitor.rules)`, `monitor.rules[7]`, `for rule in monitor.rules`."""
        return RulesView(self._rules.snapshot())

    @asks
    def inside(self, rule_id: RuleKey) -> list[Any]:
        """The objects that are inside a rule now; of a band the pairs, as tuples.

        Inside is who meets the condition, or, once inside, `stay`, whether that is reported or still waits.

        Args:
            rule_id: of the rule, or its name.

        """
        id = self._id(rule_id)
        band = self._pairs.find(id)
        if band is not None:
            return self._pairs.inside(band)
        inside = self._watch.inside(self._in_force(id))
        objects: list[Any] = self._watch.state.objects.values(self._watch.everyone().slots[inside]).to_pylist()
        return objects

    @asks
    def waiting(self, rule_id: RuleKey) -> list[Waiting]:
        """The objects whose enter or exit of a rule damping holds back now; not of a band.

        Args:
            rule_id: of the rule, or its name.

        """
        id = self._id(rule_id)
        return [] if self._pairs.find(id) is not None else find_waiting(self._watch, id)

    @asks
    def object_state(self, object: Any) -> KnownObject | None:
        """What is known of an object: its last time and values, the rules it is inside, and what waits.

        Args:
            object: the object; None is returned where no row of it has come.

        """
        return find_object(self._watch, object)

    @asks
    def objects(self, after: int = 0, limit: int = 100) -> ObjectPage:
        """Some of the objects that are known, in the order in which they came.

        Args:
            after: where to go on: `next` of the page before.
            limit: how many there are at most.

        """
        return list_objects(self._watch, after, limit)

    @asks
    def state(self) -> pa.Table:
        """All objects with their last time and values and what waits, in the form of `fencepost.spark.read_state`.

        `fencepost.spark.save_state` takes it, as a frame, for a stream to start with.

        """
        return state_table(self._watch)

    @asks
    def rules_at(self, /, **values: Any) -> list[int]:
        """The ids of the rules whose condition holds at the given values, ascending; what is left out is in no range.

        Args:
            values: attributes and keys by name.

        """
        held = self._rules.held_at(one_row.encode(self._watch, values), self._watch.state.strings)
        ids: list[int] = sorted(self._rules.ids[held.rules].tolist())
        return ids

    @asks
    def why(self, event: Any) -> "reasons.Reason | BandReason":
        """The rule behind an event: its boxes or its band, with their bounds, and the values before and after.

        Of a rule with `stay` or `margin` the wider boxes, too.

        Args:
            event: a row of an event table as a dict, a table of one row, or a tuple of `update_one`.

        """
        given = reasons.as_mapping(event, self._emitter.schema(self._watch.subjects()).names)
        rule = self._in_force(int(given["rule_id"]))
        band = self._pairs.find(rule.id)
        name = self._rules.name(rule)
        if band is not None:
            return replace(explain_band(band, given, self._pairs.types), name=name)
        boxes, stay = self._rules.boxes(rule), self._rules.stay_boxes(rule)
        terms = self._rules.terms_of(rule, {name for _, ranges in (*boxes, *stay) for name in ranges})
        computed = self._rules.computed_of(rule)
        return replace(reasons.explain(rule, boxes, given, self._rules.types, computed, terms, stay), name=name)

    @asks
    def why_not(self, rule_id: int | str, object: Any, other: Any = None) -> Standing:
        """Where an object stands with a rule in force, and what is missing for an event; prints as a short report.

        Args:
            rule_id: of the rule, or its name.
            object: the object; of a band the left row, as `inside` names it.
            other: of a band, the right row.

        >>> from datetime import datetime
        >>> rules = Rules()
        >>> rules.add(7, "price < 40", detect="enter,exit", for_="5 minutes")
        >>> monitor = Monitor(rules, object="symbol", time="ts")
        >>> events = monitor.update({"symbol": ["IBM"], "ts": [datetime(2026, 1, 5, 9, 31)], "price": [39.5]})
        >>> print(monitor.why_not(7, "IBM").text)
        IBM has been inside rule 7 since 09:31; `for` 5 minutes is not over before 09:36.

        """
        id = self._id(rule_id)
        band = self._pairs.find(id)
        if (band is None) != (other is None):
            is_band = f"rule {id}, which {'is about one object' if band is None else 'joins two streams'}"
            asked = "one object" if other is None else "two"
            remedy = "Leave out other=." if band is None else "Pass the right row as other=."
            raise FencepostError(f"{is_band}, and {asked} to ask about", "as many as the rule is about", remedy)
        if band is not None:
            return find_pair_standing(self._pairs, band, object, other)
        self._watch.damped()  # which compiles rules that wait
        return find_standing(self._watch, self._in_force(id), object)

    @property
    @asks
    def counters(self) -> dict[str, Any]:
        """Rows taken, rows that were late, rows without any observation, events by kind, and what damping holds back.

        `damped` counts enters that waited and came to nothing; `pending` and `ending` are how many enters and exits
        wait now.
        """
        counts = self._watch.counts.plus(self._pairs.counts)
        waiting = self._watch.waiting.plus(self._pairs.waiting)
        return {**counts._asdict(), **waiting._asdict(), "events": dict(self._emitter.counts)}

    # -- keeping it ----------------------------------------------------------------------------------------

    @asks
    def save(self, path: str | Path, *, rules: bool = False) -> None:
        """Writes the state to a file, which notices any byte that changes afterwards.

        Of the rules it keeps the versions, also of those that are paused or gone. The rules themselves are kept as
        rules are, in files or a book, unless `rules` says to write them, too.

        Args:
            path: the file; one that exists is replaced whole.
            rules: write the rules in force and all settings as well, for `Monitor.load`.

        """
        files.save(Path(path), self._watch, self._pairs, self._emitter, self._settings() if rules else None)

    def _settings(self) -> dict[str, Any]:
        pairing = self._pairs.pairing
        return {
            "object": self.object,
            "time": self.time,
            "sequence": list(self.sequence),
            "first": self.first,
            "timeout": files.timeout_to_json(self._clock.given_timeout),
            "deleted": pairing.deleted,
            "key": list(pairing.key),
            "report": pairing.report,
            **self._columns._asdict(),
            "revision": self._revision,
        }

    @classmethod
    def load(
        cls, path: str | Path, *, book: "RuleBook | None" = None, late: Callable[[Any], None] | None = None
    ) -> Self:
        """The monitor that `save(path, rules=True)` wrote: its settings, rules and state.

        Args:
            path: the file; one of which a byte has changed is refused.
            book: the rule book of that monitor, if it is to `refresh` from it.
            late: as for `Monitor`: a function is not saved.

        """
        settings, in_force = files.load_rules(Path(path))
        revision, timeout = settings.pop("revision"), files.timeout_from_json(settings.pop("timeout"))
        rules: Any = in_force
        monitor = cls(rules, **settings, timeout=timeout, schema=in_force.schema, late=late)
        monitor._book, monitor._revision = book, revision
        monitor.restore(path)
        return monitor

    @changes
    def restore(self, path: str | Path) -> None:
        """Takes over a state that a monitor with the same rules in force and the same settings saved.

        Args:
            path: what `save` wrote.

        """
        files.restore(Path(path), self._watch, self._pairs, self._emitter)

    def __reduce__(self) -> Any:
        raise FencepostError(
            "a Monitor cannot be pickled or copied",
            "its rules or a snapshot, which can",
            "Write it with save(path, rules=True), and read it with Monitor.load(path).",
        )

    def __repr__(self) -> str:
        by = f"object={self.object!r}" + ("" if self.time is None else f", time={self.time!r}")
        objects = sum(int(state.present.sum()) for state in (self._watch.state, *self._pairs.states))
        events = sum(self._emitter.counts.values())
        rows = self._watch.counts.plus(self._pairs.counts).rows
        seen = f"{count(objects, 'object')}, {count(rows, 'row')}, {count(events, 'event')}"
        return f"Monitor({by}: {count(len(self._rules), 'rule')}, {seen})"

    def _repr_html_(self) -> str:
        return rules_html(repr(self), self.rules, len(self._rules))


def _as_table(data: Any) -> Table:
    return data if isinstance(data, Table) else Table(data)
