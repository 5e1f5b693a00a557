"""Monitor: standing rules over objects that move, in one process: engines, an emitter, and the questions one asks."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from fencepost.emitting.emitter import schema_of
from fencepost.emitting.engine import Step
from fencepost.errors import FencepostError
from fencepost.indexes.arguments import id_column
from fencepost.monitor import files, one_row, reasons
from fencepost.monitor.host import Host, asks, changes
from fencepost.monitor.pair_reasons import BandReason, explain_band
from fencepost.monitor.settings import check_first, check_report
from fencepost.ordinals.schema import read_schema
from fencepost.pairing.sides import Pairing
from fencepost.rules import Rules
from fencepost.rules.rule import checked_id
from fencepost.snapshot import Snapshot, Table
from fencepost.watching.clock import Clock
from fencepost.watching.engine import WatchColumns
from fencepost.watching.rules_in_force import RulesInForce


class Monitor(Host):
    """Standing rules over objects that move: reports when an object enters, leaves, crosses or is inside a rule.

    Rules about one stream take rows by `update(table)`, bands take those of two by `update(left=..., right=...)`.
    A row older than its object's last is late, and one that observes nothing (no value, no key, no object or no time)
    is ignored; both are counted. A value or key that is missing keeps its last known value.

    Threads may share a monitor: a call waits until those of other threads are done. A call that raises has changed and
    counted nothing, and may be made again.

    Args:
        rules: `Rules` or a `Snapshot`, taken as they are now; later changes go through the monitor.
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
        check_first(first)
        check_report(report)
        if not isinstance(rules, (Rules, Snapshot)):
            raise FencepostError(
                f"{type(rules).__name__} as rules", "Rules or a Snapshot", "Build them with Rules() and add()."
            )
        self.object, self.time, self.first, self.deleted = object, time, first, deleted
        self.sequence = (sequence,) if isinstance(sequence, str) else tuple(sequence or ())
        in_force = RulesInForce(rules if isinstance(rules, Snapshot) else rules.compile(schema), schema)
        super().__init__(
            in_force,
            WatchColumns(object, time, self.sequence),
            Clock(time, timeout),
            Pairing(deleted, (key,) if isinstance(key, str) else tuple(key), report),
            silent=first == "silent",
            late=late,
            declared=None if schema is None else read_schema(schema).types,
        )

    # -- rows ----------------------------------------------------------------------------------------------

    @changes
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
                raise FencepostError("a table beside left= or right=", "one of the two", "Call update twice.")
            given = [None if each is None else _as_table(each) for each in (left, right)]
            return self._emit(self._pairs.update(given, self._watch.state.objects.type))
        if data is None:
            raise FencepostError("no rows", "a table, or left= or right=", "Pass the new rows.")
        moved = self._watch.take(_as_table(data), self._pairs.states[0].objects.id_type)
        return self._emit(Step(*self._watch.detect(moved), lambda: self._watch.settle(moved)))

    @asks
    def update_one(self, object: Any, time: Any = None, **values: Any) -> list[tuple[Any, ...]]:
        """Takes one row and returns its events as tuples, in the order of the columns of `update`.

        Args:
            object: the object.
            time: its time; None where the monitor goes without.
            values: attributes, keys and sequence columns by name; what is left out was not observed.

        """
        self._check_changeable()
        return one_row.update_one(self._watch, self._emitter, self.update, object, time, values)

    @changes
    def advance(self, time: Any) -> Any:
        """Moves every object's clock to a time and returns what ends by it: expired rules, objects gone silent.

        Args:
            time: a value of the time column; one that is earlier than before has no effect.

        """
        now = self._clock.read(time)
        events = self._emit(self._watch.advance(now), self._pairs.advance(now))
        self._clock.advance(now)
        return events

    # -- rules ---------------------------------------------------------------------------------------------

    @changes
    def add(self, id: int, condition: str, **options: Any) -> Any:
        """Adds a rule and returns the events this causes: an enter per object inside, if it asks for `initial`.

        Args:
            id: a new id.
            condition: the SQL condition.
            options: detect, initial, labels, expires, enabled, as for `Rules.add`.

        """
        id = checked_id(id)
        if id in self._rules or id in self._rules.paused:
            raise FencepostError(f"rule {id} already exists", "ids must be unique", "Use replace() to edit it.")
        return self._put(id, condition, options)

    @changes
    def replace(self, id: int, condition: str, **options: Any) -> Any:
        """Edits a rule and returns the events this causes: exits of objects that no longer are inside.

        With enabled=False the rule is paused: it ends for every object, until it is replaced again.

        Args:
            id: of the rule.
            condition: the SQL condition; nothing is taken over from the old rule.
            options: as for `Rules.replace`.

        """
        return self._put(self._known(id), condition, options)

    @changes
    def remove(self, id: int) -> Any:
        """Removes a rule and returns the exits of the objects inside it.

        Args:
            id: of the rule.

        """
        id = self._known(id)
        if self._pairs.find(id) is not None:
            return self._follow(self._rules.change(Rules(), id_column([id])))
        return self._emit(self._watch.remove(id))

    @changes
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
                raise FencepostError(
                    f"rule {id} both to put and to remove", "one of the two", "Leave it out of `remove`."
                )
        return self._follow(self._rules.change(rules, ids))

    @changes
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
        return self._follow(rules)

    # -- questions -----------------------------------------------------------------------------------------

    @asks
    def inside(self, rule_id: int) -> list[Any]:
        """The objects that are inside a rule now; of a band the pairs, as tuples.

        Args:
            rule_id: of the rule.

        """
        band = self._pairs.find(checked_id(rule_id))
        if band is not None:
            return self._pairs.inside(band)
        inside = self._watch.inside(self._in_force(rule_id))
        objects: list[Any] = self._watch.state.objects.values(self._watch.everyone().slots[inside]).to_pylist()
        return objects

    @asks
    def rules_at(self, **values: Any) -> list[int]:
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

        Args:
            event: a row of an event table as a dict, a table of one row, or a tuple of `update_one`.

        """
        given = reasons.as_mapping(event, schema_of(self._watch.subjects()).names)
        rule = self._in_force(int(given["rule_id"]))
        band = self._pairs.find(rule.id)
        if band is not None:
            return explain_band(band, given, self._pairs.types)
        return reasons.explain(rule, self._rules.boxes(rule), given, self._rules.types)

    @property
    @asks
    def counters(self) -> dict[str, Any]:
        """Rows taken, rows that were late, rows without any observation, and events by kind."""
        counts = self._watch.counts.plus(self._pairs.counts)
        return {**counts._asdict(), "events": dict(self._emitter.counts)}

    # -- keeping it ----------------------------------------------------------------------------------------

    @asks
    def save(self, path: str | Path) -> None:
        """Writes the state to a file, which notices any byte that changes afterwards.

        Of the rules it keeps the versions, also of those that are paused or gone. The rules themselves are kept as
        rules are, in files or a book.

        Args:
            path: the file; one that exists is replaced whole.

        """
        files.save(Path(path), self._watch, self._pairs, self._emitter)

    @changes
    def restore(self, path: str | Path) -> None:
        """Takes over a state that a monitor with the same rules in force and the same settings saved.

        Args:
            path: what `save` wrote.

        """
        files.restore(Path(path), self._watch, self._pairs, self._emitter)


def _as_table(data: Any) -> Table:
    return data if isinstance(data, Table) else Table(data)
