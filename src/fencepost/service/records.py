"""The records of the row log: what the engine is given, in its order.

    rows      an Arrow stream; with the time at which they came, and perhaps an Idempotency-Key
    row       one row as JSON; with the time at which it came
    version   the number of a published version that is in force from here on
    tick      a time: no older row will come
    void      the position of a record that could not be applied, and is to be left out

A block of the log has one record or several. A record is its kind, the lengths of what follows, a JSON object of what
is known beside the data, and the data.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fencepost.errors import FencepostError
from fencepost.service.rows import load_rows
from fencepost.service.segments import Block
from fencepost.service.single import Rows, load_row

ROWS, VERSION, TICK, VOID, ROW = 1, 2, 3, 4, 5
HAS_VOID = 1
"""The flag of a block with a `void`, so that these are found without reading all others."""
_HEAD = struct.Struct("<BxxxII")


class Record(NamedTuple):
    """One record of the log."""

    position: int
    kind: int
    about: Mapping[str, Any]
    data: memoryview


def pack_record(kind: int, about: Mapping[str, Any], data: bytes = b"") -> bytes:
    """A record as it is in a block."""
    text = json.dumps(about, separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(kind, len(text), len(data)), text, data))


def unpack_records(block: Block) -> Iterator[Record]:
    """The records of a block."""
    offset = 0
    for number in range(block.things):
        kind, text, length = _HEAD.unpack_from(block.content, offset)
        offset += _HEAD.size
        about = json.loads(bytes(block.content[offset : offset + text]))
        yield Record(block.first + number, kind, about, block.content[offset + text : offset + text + length])
        offset += text + length


def rows_of(record: Record) -> Rows | None:
    """The rows of a record; None where it is of another kind."""
    if record.kind == ROWS:
        return load_rows(record.data)
    if record.kind == ROW:
        return load_row(record.data)
    if record.kind not in (VERSION, TICK, VOID):
        raise FencepostError(
            f"a log with a record of kind {record.kind}, at position {record.position}",
            f"kinds up to {ROW}",
            "Start the version of fencepost that wrote it, or a later one.",
        )
    return None
