"""The part of watch that runs in Python workers: a step of one bucket, and whole batch frames."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from fencepost.indexes.arrays import Int64s
from fencepost.monitor import Monitor
from fencepost.snapshot import DETECTS
from fencepost.spark.bucket_state import BlobStore, BucketStore, LoggedStore, keep, new_bucket, open_bucket, seed_bytes
from fencepost.spark.packing import CLOCK, EVENTS_AT_ONCE, MOST_ROWS, ROWS, VERSION, packed_bytes, packed_table
from fencepost.spark.stepping import instant_of, version_in_force
from fencepost.spark.watch_task import OBJECT, WatchTask, layers_at, monitor_at

__all__ = [
    "METERS",
    "STEPPED",
    "Kernel",
    "Processor",
    "save_buckets",
    "step",
    "step_in_pandas",
    "watch_sorted",
]

METERS = ("rows", "late", "null_rows", *DETECTS, "nanoseconds", "version", "rules", "rejected")
STEPPED = ", ".join(["payload binary", *(f"{name} bigint" for name in METERS)])

Packed = Iterable[tuple[int, int, bytes]]
"""Kind, number and payload of the packed rows of one bucket."""
Kernel = Callable[[int, Packed, BucketStore, WatchTask], dict[str, Any]]
"""What a bucket does with its packed rows: one row of `STEPPED`."""


# -- one step of one bucket --------------------------------------------------------------------------------


class Processor(StatefulProcessor):  # type: ignore[misc]
    """For transformWithState: a state store that can append to what it has."""

    def __init__(self, kernel: Kernel, task: WatchTask) -> None:
        self._kernel, self._task = kernel, task

    def init(self, handle: Any) -> None:
        """Name the parts of the state."""
        self._store = LoggedStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Take the packed rows of one bucket."""
        packed = ((row["kind"], row["number"], row["payload"]) for row in rows)
        yield Row(**self._kernel(int(key[0]), packed, self._store, self._task))

    def close(self) -> None:
        """Nothing is open."""


def step_in_pandas(
    key: tuple[Any, ...], frames: Iterable[Any], state: Any, kernel: Kernel, task: WatchTask
) -> Iterator[Any]:
    """For applyInPandasWithState: any other state store."""
    import pandas as pd

    packed = (row for frame in frames for row in zip(frame["kind"], frame["number"], frame["payload"], strict=True))
    yield pd.DataFrame([kernel(int(key[0]), packed, BlobStore(state), task)])


def step(bucket: int, packed: Packed, store: BucketStore, task: WatchTask) -> dict[str, Any]:
    """Markers first, then the rows; the events of both, packed, with their meter.

    Args:
        bucket: its number.
        packed: its packed rows.
        store: Spark's state of the bucket.
        task: everything else.
    """
    begin = time.perf_counter_ns()
    markers: dict[int, list[int]] = {VERSION: [], CLOCK: []}
    tables = []
    for kind, number, payload in packed:
        if kind == ROWS:
            tables.append(packed_table(payload))
        else:
            markers[kind].append(int(number))
    before = open_bucket(store, task, bucket)
    held, newest = None if before is None else before.version, max(markers[VERSION], default=None)
    claim = version_in_force(task, held, newest, "watch")
    monitor = new_bucket(task, claim.version, bucket) if before is None else before.monitor
    counted = _counts(monitor)
    found = []
    if before is not None and claim.version != before.version:
        found.append(monitor._follow(layers_at(task, claim.version)))
    if markers[CLOCK]:
        found.append(_advanced(monitor, max(markers[CLOCK])))
    if tables:
        found.append(monitor.update(_columns(pa.concat_tables(tables), task)))
    keep(monitor, before, store, task, bucket)
    events = pa.concat_tables([_as_declared(each, task) for each in found if each.num_rows] or [_no_events(task)])
    meter = [now - then for now, then in zip(_counts(monitor), counted, strict=True)]
    meter += [time.perf_counter_ns() - begin, claim.version, len(monitor._layers), claim.rejected]
    return {"payload": packed_bytes(events) if events.num_rows else None, **dict(zip(METERS, meter, strict=True))}


def _counts(monitor: Monitor) -> list[int]:
    counters = monitor.counters
    return [counters["rows"], counters["late"], counters["null"], *(counters["events"][kind] for kind in DETECTS)]


def _columns(table: Any, task: WatchTask) -> Any:
    """The rows under the names that rules have for their columns."""
    for name, same in task.twice:
        table = table.append_column(name, table.column(same))
    return table


def _advanced(monitor: Monitor, ordinal: int) -> Any:
    """What ends because a time has come."""
    kind = monitor._clock.type
    assert kind is not None, "the clock was started"
    return monitor.advance(instant_of(ordinal, kind))


def save_buckets(batches: Iterable[Any], task: WatchTask, folder: str) -> Iterator[Any]:
    """For mapInArrow on rows whose partitions hold whole buckets: a file of state per bucket, for `seed`."""
    waiting = list(batches)
    if not waiting:
        return
    table = pa.Table.from_batches(waiting)
    buckets = table.column(table.num_columns - 1).to_numpy()
    for bucket in np.unique(buckets).tolist():
        monitor = monitor_at(task, task.planned, bucket)
        rows = table.drop_columns(table.column_names[-1:]).take(pa.array(np.flatnonzero(buckets == bucket)))
        monitor.update(_columns(rows, task))
        file = Path(folder, f"{bucket:05}.arrow")
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        partial.write_bytes(seed_bytes(monitor, task))
        partial.replace(file)
        yield pa.RecordBatch.from_pydict({"bucket": pa.array([bucket], pa.int32())})


def _as_declared(events: Any, task: WatchTask) -> Any:
    return events.cast(task.event_schema)


def _no_events(task: WatchTask) -> Any:
    return task.event_schema.empty_table()


# -- batch frames ------------------------------------------------------------------------------------------


def watch_sorted(batches: Iterable[Any], task: WatchTask) -> Iterator[Any]:
    """For mapInArrow on a batch frame whose partitions are sorted by object: the events of whole objects at a time."""
    monitor = monitor_at(task, task.planned, 0)
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= MOST_ROWS // 4:
            rows = pa.Table.from_batches(waiting).combine_chunks()
            cut = _last_object(rows.column(OBJECT))
            if cut:
                yield from _told(monitor, rows.slice(0, cut), task)
            waiting = rows.slice(cut).to_batches()
    if waiting:
        yield from _told(monitor, pa.Table.from_batches(waiting), task)


def _last_object(objects: Any) -> int:
    """Where the rows of the last object begin."""
    last = objects[len(objects) - 1]
    same: Int64s = np.asarray(pa.compute.equal(objects, last).fill_null(False))
    return int(np.argmax(same)) if last.is_valid else 0


def _told(monitor: Monitor, rows: Any, task: WatchTask) -> Iterator[Any]:
    events = monitor.update(_columns(rows, task))
    if events.num_rows:
        yield from _as_declared(events, task).combine_chunks().to_batches(max_chunksize=EVENTS_AT_ONCE)
