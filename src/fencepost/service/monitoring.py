"""The Monitor of a service, as its engine uses it: rows, versions and times in, tables of events out."""

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.ordinals import AttributeType
from fencepost.ordinals.schema import read_schema
from fencepost.service.joining import REPAID, join_calls, split_events
from fencepost.service.rows import TIMES
from fencepost.service.single import Rows, as_table, row_count
from fencepost.snapshot import NEVER, Snapshot, Table
from fencepost.snapshot.damping import has_durations
from fencepost.watching.clock import BeyondClock, Clock, rules_beyond_clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ARGUMENTS = {"self", "object", "time"}
"""Of `update_one`; a column of that name would be taken for one."""
_QUIET = threading.RLock()


@contextmanager
def without_warnings() -> Iterator[None]:
    """Let a block warn of nothing: a service tells what is wrong in its answers."""
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Watcher:
    """A Monitor, and what is known of the version that it follows."""

    def __init__(self, monitor: Monitor, about: Mapping[str, Any], timeout: timedelta | int | None = None) -> None:
        self.monitor, self.about = monitor, dict(about)
        """Of the version in force its number, the revision of the book in it, and its columns; `left_out` are rules
        that are not in force all the same, by id with the reason."""
        self._timeout = timeout
        self._is_plain = False
        """Whether nothing but rows makes events."""
        self.needs_ticks = False
        """Whether time alone ends something: a timeout, a duration, an expiry."""
        self._schema: pa.Schema | None = None
        self._needed: dict[str, Any] = {}
        self._find_needed()

    @property
    def version(self) -> int:
        """The number of the version in force; 0 before the first."""
        return int(self.about.get("version", 0))

    @property
    def left_out(self) -> dict[int, str]:
        """Rules of the version in force that the clock cannot do with, by id with the reason."""
        return {int(id): reason for id, reason in self.about.get("left_out", {}).items()}

    def _find_needed(self) -> None:
        """The columns that rows must have, with their types; and what events look like, once that is decided."""
        snapshot = self.monitor.rules.snapshot
        expires = bool((snapshot.rules.expires[snapshot.in_force] != NEVER).any())
        self._is_plain = snapshot.damping is None and self._timeout is None and not expires
        self.needs_ticks = self._timeout is not None or expires or has_durations(snapshot.damping, snapshot.in_force)
        schema = self.monitor.update([]).schema
        self._schema = None if pa.types.is_null(schema.field("object").type) else schema
        columns = read_schema(self.about.get("columns") or {}).types
        self._needed = {
            name.strip('"'): type_.arrow if isinstance(type_, AttributeType) else pa.string()
            for name, type_ in columns.items()
        }

    @property
    def time_type(self) -> Any:
        """The Arrow type of times; None before the first row."""
        return None if self._schema is None else self._schema.field("time").type

    @property
    def object_type(self) -> Any:
        """The Arrow type of objects; None before the first row."""
        return None if self._schema is None else self._schema.field("object").type

    def match_pieces(self, table: pa.Table) -> Iterator[Any]:
        """The rules in force that hold for each row by itself, in pieces that have room in memory."""
        return (found for _, found in self.monitor.rules.snapshot.match_pieces(self._fill(table)))

    def _fill(self, table: pa.Table) -> pa.Table:
        """Rows with a column of nulls for each that rules use and they lack."""
        given = Table(table)
        for name, type_ in self._needed.items():
            if given.find(name) is None:
                table = table.append_column(name, pa.nulls(table.num_rows, type_))
        return table

    def take(self, rows: Rows) -> pa.Table | None:
        """The events of some rows; None where a single row has none."""
        if self._schema is not None and row_count(rows) == 1:
            row = dict(rows) if isinstance(rows, dict) else _only_row(rows)
            object, time = row.pop(self.monitor.object), row.pop(str(self.monitor.time))
            if not row.keys() & _ARGUMENTS:
                events = self.monitor.update_one(object, time, **row)
                return self._as_table(events) if events else None
        table = as_table(rows)
        if self._schema is None:
            return self._take_first(table)
        return self.monitor.update(self._fill(table))

    def _take_first(self, table: pa.Table) -> pa.Table:
        """The events of the first rows, which decide the type of times: rules that it does not suit are left out."""
        before, beyond = self.monitor.rules.snapshot, None
        own = Table(table).find(str(self.monitor.time))
        if own is not None:
            with suppress(FencepostError):  # the Monitor refuses what is no type of times
                beyond = self.beyond_clock(before, table.schema.field(own).type)
        if beyond is not None and len(beyond.rows):
            self.monitor.follow(before.without(beyond.rows))
        try:
            events: pa.Table = self.monitor.update(self._fill(table))
            if not pa.types.is_null(events.schema.field("object").type):
                self._schema = events.schema
        finally:
            if beyond is not None and len(beyond.rows):
                if self._schema is None:
                    self.monitor.follow(before)
                else:
                    self.about = {**self.about, "left_out": beyond.faults()}
                    self._find_needed()
        return events

    def beyond_clock(self, rules: Snapshot, type: Any = None) -> BeyondClock:
        """The rules that the clock cannot do with, on times of an Arrow type, or else of that of the rows so far."""
        type = self.time_type if type is None else type
        clock = Clock(self.monitor.time, self._timeout)
        return rules_beyond_clock(rules, clock, None if type is None else AttributeType.parse(type))

    def take_calls(self, calls: Sequence[Rows]) -> list[pa.Table | Exception | None]:
        """The events of several calls, or why one of them cannot be applied; as one by one, and faster."""
        if not self._is_plain or sum(map(row_count, calls)) < REPAID:
            return [self._try(rows) for rows in calls]
        time, tables = str(self.monitor.time), list(map(as_table, calls))
        runs = join_calls(tables, time)
        found: list[pa.Table | Exception | None] = []
        for run in runs:
            part = tables[run.start : run.stop]
            if len(part) > 1:
                events = self._try(pa.concat_tables(part))
                if isinstance(events, pa.Table):
                    found += split_events(events, part, time)
                    continue
            found += [self._try(table) for table in part]
        return found

    def _try(self, rows: Rows) -> pa.Table | Exception | None:
        try:
            return self.take(rows)
        except Exception as error:  # whatever it is, the Monitor has not changed
            return error

    def _as_table(self, events: list[Any]) -> pa.Table:
        assert self._schema is not None
        records = []
        for event in events:
            record = event.asdict()
            if record.get("labels") is not None:
                record["labels"] = list(record["labels"].items())
            records.append(record)
        return pa.Table.from_pylist(records, self._schema)

    def follow(self, snapshot: Snapshot, about: Mapping[str, Any]) -> pa.Table:
        """Let another version be in force, and return the events of the change.

        Rules that the clock cannot do with are not in it, unless the first rows came while it was published.
        """
        beyond = self.beyond_clock(snapshot)
        with without_warnings():
            events = self.monitor.follow(snapshot.without(beyond.rows))
        self.about = {**about, "columns": dict(snapshot.columns)}
        if len(beyond.rows):
            self.about["left_out"] = beyond.faults()
        self._find_needed()
        return events

    def advance(self, at: str | int) -> pa.Table:
        """Move the clock, and return what that ends."""
        return self.monitor.advance(datetime.fromisoformat(at) if isinstance(at, str) else at)


def _only_row(table: pa.Table) -> dict[str, Any]:
    return {name: _value(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _value(column: Any) -> Any:
    """The value of a column with one row. Of instants in UTC, Arrow would look for the zone each time."""
    value = column[0]
    if value.type != TIMES:
        return value.as_py()
    number = value.value
    return None if number is None else _EPOCH + timedelta(microseconds=number)
