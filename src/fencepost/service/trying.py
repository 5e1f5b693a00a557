"""Backtests: how often rules would have fired on rows that are sent, or on those that the log has."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.language import types_suggested_by
from fencepost.monitor import Monitor
from fencepost.monitor.tally import Fired, Tally
from fencepost.ordinals.schema import read_schema
from fencepost.rules import Rule, Rules
from fencepost.rules.options import fields_of
from fencepost.service.event_log import join_events
from fencepost.service.joining import group_tables
from fencepost.service.monitoring import Watcher, without_warnings
from fencepost.service.publishing import conditions_of
from fencepost.service.records import VOID, rows_of, unpack_records
from fencepost.service.segments import Segments
from fencepost.service.single import as_table

_BINS = 60
_ROWS_AT_ONCE = 100_000
_NOTHING = pa.table({})


class Tried(NamedTuple):
    """What a backtest found."""

    rows: int
    fired: dict[int, Fired]
    over_time: dict[int, list[int]]
    """By rule, how many events there were in equal parts of the time of all of them."""
    events: pa.Table
    """The first of them."""
    late: int
    unread: int
    """Stored rows that the rules cannot read, such as texts where they compare numbers."""


def stored_rows(log: Segments, last: int, calls: int | None = None) -> list[pa.Table]:
    """The last rows of the log, in their order, without those that were refused.

    Args:
        log: of rows.
        last: how many rows, at most.
        calls: of how many calls, at most; each takes its time, however few rows it has.
    """
    found: list[pa.Table] = []
    rows = 0
    refused: set[int] = set()  # what says so comes behind the rows
    for block in log.blocks_backwards():
        records = list(unpack_records(block))
        refused.update(int(record.about["of"]) for record in records if record.kind == VOID)
        for record in reversed(records):
            content = None if record.position in refused else rows_of(record)
            if content is None:
                continue
            table = as_table(content)
            found.append(table.slice(max(0, table.num_rows - (last - rows))))
            rows += found[-1].num_rows
            if rows >= last or len(found) == calls:
                return found[::-1]
    return found[::-1]


def backtest(
    rules: Sequence[Rule],
    tables: Sequence[pa.Table],
    columns: dict[str, str],
    *,
    object: str,
    time: str,
    timeout: timedelta | int | None,
    zone: str,
    shown: int,
    passes_over: bool = False,
) -> Tried:
    """Replay rows with some rules alone; each object is new at its first row.

    With `passes_over` calls whose rows the rules cannot read are left out and counted, and not refused.
    """
    alone = Rules(zone)
    for rule in rules:
        fields = {name: value for name, value in fields_of(rule).items() if name not in ("id", "condition", "version")}
        fields["for_"] = fields.pop("for")
        alone.add(rule.id, str(rule.condition), **{**fields, "enabled": True})
    watcher = _watch_alone(alone, tables, columns, object, time, timeout)
    tally, first, rows, kept, unread = Tally(), [], 0, 0, 0
    for number, events in _take_all(watcher, tables, passes_over):
        rows += number
        if events is None:
            unread += number
            continue
        if not events.num_rows:
            continue
        tally.add(events)
        if kept < shown:
            first.append(events.slice(0, shown - kept))
            kept += first[-1].num_rows
    fired = {each.rule_id: each for each in tally.fired()}
    over_time = {id: tally.histogram(id, _BINS) for id in fired}
    return Tried(rows, fired, over_time, join_events(first), int(watcher.monitor.counters["late"]), unread)


def stand(
    rule: Rule,
    tables: Sequence[pa.Table],
    name: Any,
    columns: dict[str, str],
    *,
    object: str,
    time: str,
    timeout: timedelta | int | None,
    zone: str,
) -> Any:
    """Where an object stands with a rule after some rows, which are all that is known of it."""
    alone = Rules.from_dicts([{**fields_of(rule), "enabled": True}], zone=zone)
    watcher = _watch_alone(alone, tables, columns, object, time, timeout)
    for _ in _take_all(watcher, tables, passes_over=True):
        pass
    return watcher.monitor.why_not(rule.id, name)


def _watch_alone(
    rules: Rules,
    tables: Sequence[pa.Table],
    columns: dict[str, str],
    object: str,
    time: str,
    timeout: timedelta | int | None,
) -> Watcher:
    """A Monitor of some rules alone, with the types of columns that are known, or else those that rules suggest."""
    types: dict[str, Any] = dict(read_schema(columns).types)
    lower = {name.lower() for name in types}
    found = types_suggested_by((each for rule in rules for each in conditions_of(rule, rules.zone)), types)
    types |= {name: type_ for name, type_ in found.items() if name.lower() not in lower}
    schema = {name: "string" if str(type_) == "key" else str(type_) for name, type_ in types.items()}
    with without_warnings():
        monitor = Monitor(rules, object=object, time=time, timeout=timeout, schema=schema or None, labels=True)
    watcher = Watcher(monitor, {"columns": alone_columns(rules, schema)}, timeout)
    for table in tables[:1]:  # a service would leave such rules out; here they are what was asked about
        watcher.beyond_clock(monitor.rules.snapshot, table.schema.field(time).type).refuse()
    return watcher


def alone_columns(rules: Rules, schema: dict[str, str]) -> dict[str, str]:
    """The columns that some rules use, with their types."""
    return dict(rules.compile(schema or None).columns)


def _take_all(watcher: Watcher, tables: Sequence[pa.Table], passes_over: bool) -> Iterator[tuple[int, pa.Table | None]]:
    """Numbers of rows with their events, in pieces of a size that repays a call; None where rows cannot be read."""
    for group in group_tables(tables, _ROWS_AT_ONCE):
        whole = pa.concat_tables(group)
        try:
            events: pa.Table | None = _take(watcher, whole)
        except MemoryError:
            raise
        except Exception:  # as for the engine: whatever it is, the Monitor has not changed
            if not passes_over:
                raise
        else:
            yield whole.num_rows, events
            continue
        for table in group:
            try:
                events = _take(watcher, table)
            except MemoryError:
                raise
            except Exception:  # likewise
                events = None
            yield table.num_rows, events


def _take(watcher: Watcher, table: pa.Table) -> pa.Table:
    """The events of rows, also where a single row has none."""
    events = watcher.take(table)
    return _NOTHING if events is None else events


def refuse_nothing(rules: Sequence[Rule]) -> None:
    """Refuse a backtest without a rule."""
    if not rules:
        raise FencepostError("neither a rule nor a condition", "one of them, or both", "Add condition, or rule.")
