"""Joining: several calls as one batch for the Monitor, where that cannot change an event or the order of events.

A batch costs the Monitor much the same whether it has a thousand rows or ten thousand. Calls whose times follow each
other, all of one after all of the one before, are the same to it one by one or together: rows are taken in the order of
time, and events come in it. So their events are told apart again by time. That holds as long as nothing but rows makes
events: no rule expires or is damped, and no object times out.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ROWS_AT_ONCE = 20_000
REPAID = 64
"""Rows from which on a batch costs less than single rows one by one."""


def join_calls(tables: Sequence[pa.Table], time: str) -> list[range]:
    """Which of these calls, in their order, may be one batch each."""
    runs: list[range] = []
    start, rows, last = 0, 0, None
    for number, table in enumerate(tables):
        first, until = _times(table, time)
        fits = (
            last is not None
            and first is not None
            and first > last
            and table.schema == tables[start].schema
            and rows + table.num_rows <= _ROWS_AT_ONCE
        )
        if number and not fits:
            runs += _repaid(range(start, number), rows)
            start, rows = number, 0
        rows, last = rows + table.num_rows, until
    return runs + _repaid(range(start, len(tables)), rows) if tables else runs


def _repaid(run: range, rows: int) -> list[range]:
    return [run] if rows >= REPAID or len(run) == 1 else [range(each, each + 1) for each in run]


def _times(table: pa.Table, time: str) -> tuple[Any, Any]:
    """The first and the last time; None where one is missing or they cannot be compared."""
    column = table[time]
    if column.null_count or not (pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type)):
        return None, None
    ends = pc.min_max(column.cast(pa.int64())).as_py()
    return ends["min"], ends["max"]


def split_events(events: pa.Table, tables: Sequence[pa.Table], time: str) -> list[pa.Table]:
    """The events of a joined batch, call by call."""
    lasts = np.array([_times(table, time)[1] for table in tables], np.int64)
    times = events["time"].cast(tables[0][time].type) if events.num_rows else events["time"]
    of = (
        np.searchsorted(lasts, np.asarray(times.cast(pa.int64())), side="left") if events.num_rows else np.zeros(0, int)
    )
    ends = np.searchsorted(of, np.arange(len(tables)), side="right")
    starts = np.concatenate([[0], ends[:-1]])
    return [events.slice(start, end - start) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def group_tables(tables: Sequence[pa.Table], most: int) -> Iterator[list[pa.Table]]:
    """Tables that follow each other and have the same columns, together, up to about so many rows."""
    group: list[pa.Table] = []
    rows = 0
    for table in tables:
        if group and (table.schema != group[0].schema or rows + table.num_rows > most):
            yield group
            group, rows = [], 0
        group.append(table)
        rows += table.num_rows
    if group:
        yield group
