"""Backtests: how often rules would have fired on rows that are sent, or on those that the log has."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.language import infer_types
from fencepost.monitor import Monitor
from fencepost.monitor.tally import Fired, Tally
from fencepost.ordinals.schema import read_schema
from fencepost.rules import Rule, Rules
from fencepost.rules.options import fields_of
from fencepost.service.event_log import join_events
from fencepost.service.monitoring import Watcher, without_warnings
from fencepost.service.publishing import kinds_of
from fencepost.service.records import ROWS, unpack_records
from fencepost.service.rows import load_rows
from fencepost.service.segments import Segments

_BINS = 60
_ROWS_AT_ONCE = 100_000


class Tried(NamedTuple):
    """What a backtest found."""

    rows: int
    fired: dict[int, Fired]
    over_time: dict[int, list[int]]
    """By rule, how many events there were in equal parts of the time of all of them."""
    events: pa.Table
    """The first of them."""
    late: int


def stored_rows(log: Segments, last: int) -> list[pa.Table]:
    """The last rows of the log, in their order."""
    found: list[pa.Table] = []
    rows = 0
    for block in log.blocks_backwards():
        here = [load_rows(record.data) for record in unpack_records(block) if record.kind == ROWS]
        for table in reversed(here):
            found.append(table.slice(max(0, table.num_rows - (last - rows))))
            rows += found[-1].num_rows
            if rows >= last:
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
) -> Tried:
    """Replay rows with some rules alone; each object is new at its first row."""
    types: dict[str, Any] = dict(read_schema(columns).types)
    lower = {name.lower() for name in types}
    found = infer_types([kinds_of(rule, zone) for rule in rules])
    types |= {name: type_ for name, type_ in found.items() if name.lower() not in lower}
    schema = {name: "string" if str(type_) == "key" else str(type_) for name, type_ in types.items()}
    alone = Rules(zone)
    for rule in rules:
        fields = {name: value for name, value in fields_of(rule).items() if name not in ("id", "condition", "version")}
        fields["for_"] = fields.pop("for")
        alone.add(rule.id, str(rule.condition), **{**fields, "enabled": True})
    with without_warnings():
        monitor = Monitor(alone, object=object, time=time, timeout=timeout, schema=schema or None, labels=True)
    watcher = Watcher(monitor, {"columns": alone_columns(alone, schema)}, timeout)
    for table in tables[:1]:  # a service would leave such rules out; here they are what was asked about
        watcher.beyond_clock(monitor.rules.snapshot, table.schema.field(time).type).refuse()
    tally, first, rows, kept = Tally(), [], 0, 0
    for table in _in_pieces(tables):
        events = watcher.take(table)
        rows += table.num_rows
        if events is None or not events.num_rows:
            continue
        tally.add(events)
        if kept < shown:
            first.append(events.slice(0, shown - kept))
            kept += first[-1].num_rows
    fired = {each.rule_id: each for each in tally.fired()}
    over_time = {id: tally.histogram(id, _BINS) for id in fired}
    return Tried(rows, fired, over_time, join_events(first), int(monitor.counters["late"]))


def alone_columns(rules: Rules, schema: dict[str, str]) -> dict[str, str]:
    """The columns that some rules use, with their types."""
    return dict(rules.compile(schema or None).columns)


def _in_pieces(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of a size that repays a call, as long as their columns are the same."""
    waiting: list[pa.Table] = []
    for table in tables:
        if waiting and (
            table.schema != waiting[0].schema or sum(len(each) for each in waiting) + len(table) > _ROWS_AT_ONCE
        ):
            yield pa.concat_tables(waiting)
            waiting = []
        waiting.append(table)
    if waiting:
        yield pa.concat_tables(waiting)


def refuse_nothing(rules: Sequence[Rule]) -> None:
    """Refuse a backtest without a rule."""
    if not rules:
        raise FencepostError("neither a rule nor a condition", "one of them, or both", "Add condition, or rule.")
