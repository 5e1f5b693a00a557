"""The part of watch that runs in Python workers: a step of one bucket, and whole batch frames."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from fencepost.indexes.arrays import Int64s
from fencepost.monitor import Monitor
from fencepost.snapshot import DETECTS
from fencepost.spark.bucket_state import BlobStore, BucketStore, LoggedStore, keep, new_bucket, open_bucket, seed_bytes
from fencepost.spark.moves import MoveTeller, moved_batch
from fencepost.spark.packing import CLOCK, EVENTS_AT_ONCE, METERS, MOST_ROWS, ROWS, VERSION, packed_table, stepped_rows
from fencepost.spark.stepping import instant_of, version_in_force
from fencepost.spark.watch_task import OBJECT, WatchTask, as_declared, layers_at, monitor_at
from fencepost.spark.worker import begin_task, head_at, usable_parts

__all__ = [
    "Kernel",
    "Processor",
    "move_sorted",
    "save_buckets",
    "step",
    "step_in_pandas",
    "watch_sorted",
]

Packed = Iterable[tuple[int, int, bytes]]
"""Kind, number and payload of the packed rows of one bucket."""
Kernel = Callable[[int, Packed, BucketStore, WatchTask], list[dict[str, Any]]]
"""What a bucket does with its packed rows: rows of `STEPPED`, or of `MOVED` where rules are in parts."""


# -- one step of one bucket --------------------------------------------------------------------------------


class Processor(StatefulProcessor):  # type: ignore[misc]
    """For transformWithState: a state store that can append to what it has."""

    def __init__(self, kernel: Kernel, task: WatchTask) -> None:
        self._kernel, self._task = kernel, task

    def init(self, handle: Any) -> None:
        """Name the parts of the state."""
        begin_task()
        self._store = LoggedStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Take the packed rows of one bucket."""
        packed = ((row["kind"], row["number"], row["payload"]) for row in rows)
        yield from (Row(**row) for row in self._kernel(int(key[0]), packed, self._store, self._task))

    def close(self) -> None:
        """Nothing is open."""


def step_in_pandas(
    key: tuple[Any, ...], frames: Iterable[Any], state: Any, kernel: Kernel, task: WatchTask
) -> Iterator[Any]:
    """For applyInPandasWithState: any other state store."""
    import pandas as pd

    begin_task()
    packed = (row for frame in frames for row in zip(frame["kind"], frame["number"], frame["payload"], strict=True))
    yield pd.DataFrame(kernel(int(key[0]), packed, BlobStore(state), task))


def step(bucket: int, packed: Packed, store: BucketStore, task: WatchTask) -> list[dict[str, Any]]:
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
    claim = version_in_force(task, held, newest, "watch", usable_parts(task.source, task.shards))
    monitor = new_bucket(task, claim.version, bucket) if before is None else before.monitor
    counted = _counts(monitor)
    teller = _EventTeller(task) if task.shards is None else MoveTeller(task, bucket)
    if before is not None and claim.version != before.version:
        teller.follow(monitor, claim.version)
    if markers[CLOCK]:
        teller.advance(monitor, max(markers[CLOCK]))
    if tables:
        teller.update(monitor, _columns(pa.concat_tables(tables), task))
    keep(monitor, before, store, task, bucket)
    meter = [now - then for now, then in zip(_counts(monitor), counted, strict=True)]
    rules = len(monitor._layers) if task.shards is None else head_at(task.source, claim.version).rules
    meter += [time.perf_counter_ns() - begin, claim.version, rules, claim.rejected]
    return teller.rows(dict(zip(METERS, meter, strict=True)))


class _EventTeller:
    """Packs the events of one bucket."""

    def __init__(self, task: WatchTask) -> None:
        self._task = task
        self._found: list[Any] = []

    def follow(self, monitor: Monitor, version: int) -> None:
        """Other rules are in force."""
        self._found.append(monitor._follow(layers_at(self._task, version)))

    def advance(self, monitor: Monitor, ordinal: int) -> None:
        """A time has come."""
        assert monitor._clock.type is not None, "the clock was started"
        self._found.append(monitor.advance(instant_of(ordinal, monitor._clock.type)))

    def update(self, monitor: Monitor, rows: Any) -> None:
        """Objects have moved."""
        self._found.append(monitor.update(rows))

    def rows(self, meter: Mapping[str, int]) -> list[dict[str, Any]]:
        """All that was told, as rows of `STEPPED`."""
        return stepped_rows([as_declared(each, self._task) for each in self._found if each.num_rows], meter)


def _counts(monitor: Monitor) -> list[int]:
    counters = monitor.counters
    return [counters["rows"], counters["late"], counters["null"], *(counters["events"][kind] for kind in DETECTS)]


def _columns(table: Any, task: WatchTask) -> Any:
    """The rows under the names that rules have for their columns."""
    for name, same in task.twice:
        table = table.append_column(name, table.column(same))
    return table


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


# -- batch frames ------------------------------------------------------------------------------------------


def watch_sorted(batches: Iterable[Any], task: WatchTask) -> Iterator[Any]:
    """For mapInArrow on a batch frame whose partitions are sorted by object: the events of whole objects at a time."""
    begin_task()
    monitor = monitor_at(task, task.planned, 0)
    for rows in _whole_objects(batches):
        events = monitor.update(_columns(rows, task))
        if events.num_rows:
            yield from as_declared(events, task).combine_chunks().to_batches(max_chunksize=EVENTS_AT_ONCE)


def move_sorted(batches: Iterable[Any], task: WatchTask) -> Iterator[Any]:
    """The same where rules are in parts: the moves of whole objects at a time, as rows of `MOVED`."""
    begin_task()
    monitor, context = monitor_at(task, task.planned, 0), TaskContext.get()
    for rows in _whole_objects(batches):
        teller = MoveTeller(task, 0 if context is None else context.partitionId())
        teller.update(monitor, _columns(rows, task))
        yield moved_batch(teller.rows(dict.fromkeys(METERS, 0)))


def _whole_objects(batches: Iterable[Any]) -> Iterator[Any]:
    """Rows that are sorted by object, all of an object together."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= MOST_ROWS // 4:
            rows = pa.Table.from_batches(waiting).combine_chunks()
            cut = _last_object(rows.column(OBJECT))
            if cut:
                yield rows.slice(0, cut)
            waiting = rows.slice(cut).to_batches()
    if waiting:
        yield pa.Table.from_batches(waiting)


def _last_object(objects: Any) -> int:
    """Where the rows of the last object begin."""
    last = objects[len(objects) - 1]
    same: Int64s = np.asarray(pa.compute.equal(objects, last).fill_null(False))
    return int(np.argmax(same)) if last.is_valid else 0
