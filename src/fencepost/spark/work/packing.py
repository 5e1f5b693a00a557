"""Rows packed by bucket, and unpacked: the shuffle and the state operator see a few rows instead of a million."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost._coded import decoded
from fencepost._memory import AnswerTooLargeError, free_memory, show_size
from fencepost.snapshot import DETECTS
from fencepost.spark.work.caches import begin_task

ROWS, VERSION, CLOCK, OTHER_ROWS = range(4)
"""The kinds of packed rows: rows of a bucket, the number of a version, a time that has come, rows of the other side."""
ROW_KINDS = (ROWS, OTHER_ROWS)
"""By side."""
PACKED = "bucket int, kind int, number bigint, payload binary"
METERS = (
    *("rows", "late", "null_rows", *DETECTS, "damped", "pending", "ending", "marked"),
    *("nanoseconds", "version", "rules", "rejected", "skipped"),
)
"""The figures of one step of a bucket; `marked` is 1 where a marker came, which comes to all buckets."""
STEPPED = ", ".join(["payload binary", *(f"{name} bigint" for name in METERS)])
"""The columns that a step gives back: its packed events, and its meter."""
MOST_ROWS = 1_000_000
EVENTS_AT_ONCE = 65_536
_MANY_EVENTS = 2048
_PIECE_BYTES = 400_000
"""From half a megabyte on the JVM's default collector takes an array for a huge one, which costs it much more."""
_MOST_PACKED = 2**31 - 2**20
"""Spark puts what a bucket gives back into one Arrow array of at most 2 GB."""
_FEW_BYTES = 2**26
"""So many always have room: to ask how much is free costs more than most triggers have to say."""


def side_of(kind: int) -> int | None:
    """The side whose rows a packed row holds; None for a marker."""
    return ROW_KINDS.index(kind) if kind in ROW_KINDS else None


def pack(batches: Iterable[Any]) -> Iterator[Any]:
    """For mapInArrow: the rows of a partition as a few packed rows per bucket; the last column is the bucket."""
    begin_task()
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
    buckets = table.column(table.num_columns - 1).to_numpy().astype(np.uint16)  # which NumPy sorts by their bytes
    rows = table.drop_columns(table.column_names[-1:]).take(pa.array(np.argsort(buckets, kind="stable")))
    present, counts = np.unique(buckets, return_counts=True)
    starts = np.cumsum(counts) - counts
    numbers: list[int] = []
    payloads: list[bytes] = []
    for bucket, start, count in zip(present.tolist(), starts.tolist(), counts.tolist(), strict=True):
        pieces = packed_pieces(rows.slice(start, count))
        numbers += [bucket] * len(pieces)
        payloads += pieces
    return pa.RecordBatch.from_arrays(
        [
            pa.array(numbers, pa.int32()),
            pa.array([ROWS] * len(payloads), pa.int32()),
            pa.array([0] * len(payloads), pa.int64()),  # pandas would make doubles of numbers among nulls
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


def packed_pieces(table: Any) -> list[bytes]:
    """A table as Arrow streams none of which is large for the JVM."""
    rows = max(1, _PIECE_BYTES * table.num_rows // max(1, table.nbytes))
    return [packed_bytes(table.slice(start, rows)) for start in range(0, table.num_rows, rows)]


class PackedEvents:
    """The packed events of a bucket in one trigger: all of them wait until its state is written."""

    def __init__(self) -> None:
        self._payloads: list[bytes] = []
        self._waiting: list[Any] = []
        self._size = 0

    def add(self, events: Any) -> None:
        """Take a table; refused where Spark could not take all of them at once."""
        self._waiting.append(events)
        if sum(table.nbytes for table in self._waiting) >= _PIECE_BYTES:
            self._pack()

    def payloads(self) -> list[bytes]:
        """All of them."""
        self._pack()
        return self._payloads

    def _pack(self) -> None:
        if not self._waiting:
            return
        if any(table.schema != self._waiting[0].schema for table in self._waiting):
            self._waiting = [decoded(table) for table in self._waiting]
        payloads, self._waiting = packed_pieces(pa.concat_tables(self._waiting)), []
        self._size += sum(map(len, payloads))
        most = _MOST_PACKED if self._size <= _FEW_BYTES else min(_MOST_PACKED, free_memory())
        if self._size > most:
            raise AnswerTooLargeError(
                f"{show_size(self._size)} of packed events of one bucket in one trigger, or more",
                f"at most {show_size(most)}: Spark takes them at once, in memory",
                "Let a trigger have fewer rows (maxFilesPerTrigger, maxOffsetsPerTrigger), or take more buckets and a "
                "new checkpoint.",
            )
        self._payloads += payloads


def stepped_rows(payloads: list[bytes], meter: Mapping[str, int]) -> list[dict[str, Any]]:
    """The packed events of a bucket as rows of `STEPPED`; the first has the meter, by the names of `METERS`."""
    none = dict.fromkeys(METERS, 0)
    return [{"payload": payload, **(none if at else meter)} for at, payload in enumerate(payloads or (None,))]


def packed_table(payload: Any) -> Any:
    """The table that `packed_bytes` wrote, from bytes or from an Arrow buffer that it goes on to use.

    What travelled in the short form is as usual again.
    """
    with pa.ipc.open_stream(payload) as reader:
        return decoded(reader.read_all())


def unpack(batches: Iterable[Any]) -> Iterator[Any]:
    """For mapInArrow: the events of packed rows; the first column is the payload."""
    begin_task()
    waiting: list[Any] = []
    for batch in batches:
        for payload in batch.column(0):
            events = packed_table(payload.as_buffer())
            if events.num_rows >= _MANY_EVENTS:  # a copy of them would cost more than a batch of their own
                if waiting:
                    yield from _together(waiting)
                    waiting = []
                yield from events.to_batches(max_chunksize=EVENTS_AT_ONCE)
                continue
            waiting.append(events)
            if sum(table.num_rows for table in waiting) >= _MANY_EVENTS:
                yield from _together(waiting)
                waiting = []
    if waiting:
        yield from _together(waiting)


def _together(tables: list[Any]) -> Iterator[Any]:
    yield from pa.concat_tables(tables).combine_chunks().to_batches(max_chunksize=EVENTS_AT_ONCE)
