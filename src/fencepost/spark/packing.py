"""Rows packed by bucket, and unpacked: the shuffle and the state operator see a few rows instead of a million."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.snapshot import DETECTS

__all__ = [
    "CLOCK",
    "EVENTS_AT_ONCE",
    "METERS",
    "MOST_ROWS",
    "PACKED",
    "ROWS",
    "STEPPED",
    "VERSION",
    "pack",
    "packed_bytes",
    "packed_table",
    "unpack",
]

ROWS, VERSION, CLOCK = range(3)
"""What a packed row holds: rows of a bucket, the number of a version, or a time that has come."""
PACKED = "bucket int, kind int, number bigint, payload binary"
METERS = ("rows", "late", "null_rows", *DETECTS, "nanoseconds", "version", "rules", "rejected")
"""What a step of a bucket tells about itself."""
STEPPED = ", ".join(["payload binary", *(f"{name} bigint" for name in METERS)])
"""What it gives: its packed events, and its meter."""
MOST_ROWS = 1_000_000
EVENTS_AT_ONCE = 65_536


def pack(batches: Iterable[Any]) -> Iterator[Any]:
    """For mapInArrow: the rows of a partition as one packed row per bucket; the last column is the bucket."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= MOST_ROWS:
            yield _packed(waiting)
            waiting = []
    if waiting:
        yield _packed(waiting)


def _packed(batches: list[Any]) -> Any:
    table = pa.Table.from_batches(batches)
    buckets = table.column(table.num_columns - 1).to_numpy()
    rows = table.drop_columns(table.column_names[-1:]).take(pa.array(np.argsort(buckets, kind="stable")))
    present, counts = np.unique(buckets, return_counts=True)
    starts = np.cumsum(counts) - counts
    payloads = [
        packed_bytes(rows.slice(start, count)) for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(present, pa.int32()),
            pa.array([ROWS] * len(payloads), pa.int32()),
            pa.nulls(len(payloads), pa.int64()),
            pa.array(payloads, pa.binary()),
        ],
        names=["bucket", "kind", "number", "payload"],
    )


def packed_bytes(table: Any) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(memoryview(sink.getvalue()))


def packed_table(payload: bytes) -> Any:
    """The table that `packed_bytes` wrote."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_all()


def unpack(batches: Iterable[Any]) -> Iterator[Any]:
    """For mapInArrow: the events of packed rows; the first column is the payload."""
    waiting: list[Any] = []
    for batch in batches:
        for payload in batch.column(0).to_pylist():
            waiting.append(packed_table(payload))
            if sum(table.num_rows for table in waiting) >= EVENTS_AT_ONCE:
                yield from _together(waiting)
                waiting = []
    if waiting:
        yield from _together(waiting)


def _together(tables: list[Any]) -> Iterator[Any]:
    table = pa.concat_tables(tables).combine_chunks()
    yield from table.to_batches(max_chunksize=EVENTS_AT_ONCE)
