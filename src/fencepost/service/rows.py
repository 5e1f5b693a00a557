"""Rows that come: JSON lines or an Arrow stream, as one Arrow table with an object and a time in every row."""

import json
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost._text import name_kind
from fencepost.errors import FencepostError
from fencepost.service.arrow_sizes import stream_size
from fencepost.service.refusals import TooLargeError
from fencepost.snapshot import Table

ARROW = ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file")
LINES = ("application/x-ndjson", "application/jsonlines", "application/json-lines", "application/x-jsonlines")
TIMES = pa.timestamp("us", "UTC")
_WRITING = pa.ipc.IpcWriteOptions()  # else each call would ask the environment for some
_MOST_COLUMNS = 10_000
_MOST_CELLS = 64 << 20
"""Values of a call, with those that are missing: rows that each have other columns would need memory without end."""
_MOST_BYTES = 1 << 30
"""Bytes of an Arrow body when it is read."""
_FIRST_SECOND = int(datetime(1, 1, 1, tzinfo=UTC).timestamp())
_LAST_SECOND = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())


def read_rows(body: bytes, content_type: str, most: int) -> pa.Table | list[dict[str, Any]]:
    """The rows of a body: an Arrow stream by its content type, else JSON: a row a line, or one row, or a list of rows.

    One row of JSON stays a record, which costs less than a table.

    >>> read_rows(b'{"object": "IBM", "price": 41.5}', "application/json", 10)
    [{'object': 'IBM', 'price': 41.5}]
    """
    kind = content_type.partition(";")[0].strip().lower()
    given = _read_arrow(body, kind) if kind in ARROW else _read_json(body)
    count = given.num_rows if isinstance(given, pa.Table) else len(given)
    if count > most:
        raise TooLargeError(
            f"a call with {count:,} rows",
            f"at most {most:,}",
            "Send them in several calls, one after the other.",
        )
    return given if isinstance(given, pa.Table) or count == 1 else table_of(given)


def _read_arrow(body: bytes, kind: str) -> pa.Table:
    try:
        if kind == ARROW[0]:
            _check_size(stream_size(body), 0)
        opened = pa.ipc.open_stream(body) if kind == ARROW[0] else pa.ipc.open_file(body)
        table = opened.read_all()
        _check_size(table.nbytes, table.num_columns)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError, struct.error, IndexError) as error:
        raise FencepostError(
            f"a body that is no Arrow data ({_first_line(error)})",
            f"what Arrow calls the IPC streaming format, as {ARROW[0]}",
            "Write it with pyarrow.ipc.new_stream, or send JSON lines as application/x-ndjson.",
        ) from None
    names = table.schema.names
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise FencepostError(f"two columns named {twice[0]}", "every column once", "Rename one of the two.")
    return table


def _check_size(size: int, columns: int) -> None:
    if size > _MOST_BYTES or columns > _MOST_COLUMNS:
        raise TooLargeError(
            f"Arrow data of {size:,} bytes when it is read" + (f", in {columns:,} columns" if columns else ""),
            f"at most {_MOST_BYTES:,} bytes, and {_MOST_COLUMNS:,} columns",
            "Send several calls.",
        )


def _read_json(body: bytes) -> list[dict[str, Any]]:
    """Rows of JSON; a text that is one value may be one row or a list of rows."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise FencepostError(
            f"a body that is no UTF-8 ({error.reason})", "JSON in UTF-8", "Correct the text."
        ) from None
    stripped = text.strip()
    if stripped[:1] == "[":
        given = _parse(stripped, "the body")
        rows = given if isinstance(given, list) else [given]
        return [_checked(row, f"element {number}") for number, row in enumerate(rows, start=1)]
    lines = [(number, line) for number, line in enumerate(stripped.split("\n"), start=1) if line.strip()]
    if len(lines) > 1:
        try:
            return [_checked(_parse(line, f"line {number}"), f"line {number}") for number, line in lines]
        except FencepostError:
            try:  # one object over several lines
                return [_checked(json.loads(stripped), "the body")]
            except ValueError:
                pass
            raise
    return [_checked(_parse(line, "the body"), "the body") for _, line in lines]


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FencepostError(
            f"{place}, `{text[:40].strip()}` ({_first_line(error)})",
            'one JSON object per row, such as {"object": "IBM", "price": 41.5}',
            "Correct it.",
        ) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON; leave the field out or write null")


def _checked(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise FencepostError(
            f"{place} is {name_kind(row)}",
            'a JSON object, such as {"object": "IBM", "price": 41.5}',
            "Write one object per row.",
        )
    return row


def table_of(records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Records as a table, each column of one type, with nulls where a record lacks it."""
    for number, record in enumerate(records, start=1):
        nested = [name for name, value in record.items() if isinstance(value, (dict, list))]
        if nested:
            raise FencepostError(
                f"row {number} with {nested[0]}={str(record[nested[0]])[:40]}",
                "a text, a number, true, false or null",
                "Give each part a column of its own, such as position_x.",
            )
    names: set[str] = set()
    for record in records:
        names.update(record)
    if len(names) > _MOST_COLUMNS or len(names) * len(records) > _MOST_CELLS:
        raise TooLargeError(
            f"{len(records):,} rows with {len(names):,} columns in all",
            f"at most {_MOST_COLUMNS:,} columns, and {_MOST_CELLS:,} values with those that are missing",
            "Name columns by what they are, not by their rows; or send several calls.",
        )
    given = Table([dict(record) for record in records])
    try:
        return pa.table({name: given.arrow(name) for name in given.names})
    except UnicodeEncodeError:
        raise FencepostError("a text with half a character", "text in Unicode", "Leave out half characters.") from None


def with_times(table: pa.Table, object: str, time: str, now: datetime, clock: Any = None) -> pa.Table:
    """The rows with their object and time under the names of the service; those without a time get that of now.

    Texts in the column of time are read as instants, without a zone as UTC. `clock` is the Arrow type of the times
    that came before: where these are no instants, times must be there.
    """
    counts = clock is not None and not pa.types.is_timestamp(clock)
    given = Table(table)
    own = given.find(object)
    if own is None:
        raise FencepostError(
            f"rows without the column {object}, which names the object",
            f"that column beside {', '.join(given.names) or 'others'}",
            "Add it, or start the service with --object and the name that you use.",
        )
    if own != object:
        table = table.rename_columns([object if name == own else name for name in table.column_names])
    stamp = pa.scalar(now.astimezone(UTC), TIMES)
    own = Table(table).find(time)
    if own is None:
        if counts:
            raise _no_time(time)
        return table.append_column(time, pa.repeat(stamp, table.num_rows))
    column = table[own]
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _read_times(column, time)
    if pa.types.is_null(column.type):
        if counts:
            raise _no_time(time)
        column = pa.repeat(stamp, len(column))
    elif pa.types.is_timestamp(column.type):
        try:
            column = pc.fill_null(column.cast(TIMES), stamp)  # without a zone they are read as UTC
        except pa.ArrowException as error:
            raise FencepostError(
                f"{time} of type {column.type} ({_first_line(error)})", "times in microseconds", "Round them."
            ) from None
    if pa.types.is_timestamp(column.type):
        _check_years(column, time)
    elif clock is not None and not counts and not pa.types.is_temporal(column.type):
        raise FencepostError(
            f"{time}={column[0].as_py()}", "an instant, as in the first row that came",
            "Write for example 2026-01-05T09:31:00Z.",
        )  # fmt: skip
    return table.set_column(table.column_names.index(own), time, column)


def _check_years(column: Any, time: str) -> None:
    """Refuse instants that no calendar of Python has: they could be kept, and never be shown."""
    ends = pc.min_max(column.cast(pa.int64()))
    scale = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    for end in ends.values():
        if end.is_valid and not _FIRST_SECOND <= end.as_py() // scale <= _LAST_SECOND:
            raise FencepostError(
                f"{time}, which has a time outside of the years 1 to 9999", "a time in these years, in UTC",
                "Correct it.",
            )  # fmt: skip


def _no_time(time: str) -> FencepostError:
    return FencepostError(
        f"rows without the column {time}, which has their time",
        "a number in every row, as in the first row that came",
        "Add it; only rows whose times are instants may leave it out.",
    )


def _read_times(texts: Any, name: str) -> Any:
    for type_ in (TIMES, pa.timestamp("us")):
        try:
            return texts.cast(type_).cast(TIMES) if type_ is TIMES else texts.cast(type_).cast(TIMES, safe=True)
        except pa.ArrowException:
            continue
    return pa.array([_read_time(text, name) for text in texts.to_pylist()], TIMES)


def _read_time(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise FencepostError(
            f"{name}={text[:40]!r}", "a time as ISO 8601 has it", "Write for example 2026-01-05T09:31:00Z."
        ) from None


def write_rows(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_WRITING) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def load_rows(content: bytes | memoryview) -> pa.Table:
    """The table of such a stream."""
    return pa.ipc.open_stream(content).read_all()


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
