"""Single rows: a call with one row of plain values stays a dict, from its JSON to the Monitor and in the log.

As a table it would cost more than all that is done with it. What is unusual in any way (the first row, NaN, a time
without a zone, names in other letters) goes the way of tables, which refuses it or takes it.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, TypeAlias

import pyarrow as pa

from fencepost.service.rows import TIMES, table_of

Rows: TypeAlias = pa.Table | dict[str, Any]
"""Rows as the engine takes them: a table, or a single row."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LEAST, _MOST = -(2**63), 2**63 - 1
_MOST_NAMES = 1_000
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?(Z|[+-]\d\d:\d\d)", re.ASCII)
"""Texts that Python and Arrow read alike."""


def plain_row(record: Mapping[Any, Any], object: str, time: str, now: datetime, clock: Any) -> dict[str, Any] | None:
    """A record with its time, as `with_times` would have it in a table of one row; None where that has to look at it.

    >>> plain_row({"object": "IBM", "price": 41.5}, "object", "time", datetime(2026, 1, 5, tzinfo=UTC), TIMES)["time"]
    datetime.datetime(2026, 1, 5, 0, 0, tzinfo=datetime.timezone.utc)
    """
    if len(record) > _MOST_NAMES or object not in record or (clock != TIMES and clock != pa.int64()):
        return None
    if not all(type(name) is str and _is_plain(name) and _is_plain(value) for name, value in record.items()):
        return None
    row = dict(record)
    given = row.get(time)
    if clock != TIMES:
        return row if type(given) is int else None
    if given is None:
        if time not in row and time.lower() in map(str.lower, row):
            return None
        row[time] = now
        return row
    instant = _read_instant(given)
    if instant is None:
        return None
    row[time] = instant
    return row


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is float:
        return isfinite(value)
    if kind is str:
        return value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)
    return _LEAST <= value <= _MOST if kind is int else kind is bool or value is None


def _read_instant(given: Any) -> datetime | None:
    if type(given) is not str or not _INSTANT.fullmatch(given):
        return None
    try:
        return datetime.fromisoformat(given.replace("Z", "+00:00")).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def newest_of(row: Mapping[str, Any], time: str) -> int | None:
    """The time of a single row in microseconds, since 1970; None where times are numbers."""
    instant = row[time]
    return (instant - _EPOCH) // _MICROSECOND if isinstance(instant, datetime) else None


def row_count(rows: Rows) -> int:
    """How many they are."""
    return 1 if isinstance(rows, dict) else int(rows.num_rows)


def as_table(rows: Rows) -> pa.Table:
    """Rows as a table."""
    return table_of([rows]) if isinstance(rows, dict) else rows


def write_row(row: Mapping[str, Any]) -> bytes:
    """A single row as it is in the log: JSON, with instants as lists of their microseconds."""
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False, default=_as_list).encode()


def _as_list(instant: datetime) -> list[int]:
    return [(instant - _EPOCH) // _MICROSECOND]


def load_row(content: bytes | memoryview) -> dict[str, Any]:
    """The row of such a text."""
    row: dict[str, Any] = json.loads(bytes(content))
    return {name: _EPOCH + value[0] * _MICROSECOND if isinstance(value, list) else value for name, value in row.items()}
