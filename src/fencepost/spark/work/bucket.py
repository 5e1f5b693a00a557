"""A step of one bucket, and whole batch frames: an engine, an emitter and a store, the same for every operator."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row

from fencepost._files.whole import write_whole
from fencepost.emitting.emitter import Emitter
from fencepost.emitting.engine import Counts, Step, Waiting
from fencepost.indexes.arrays import Int64s
from fencepost.snapshot import DETECTS, Table
from fencepost.spark.work.band_task import BandTask, cut_by_time
from fencepost.spark.work.caches import begin_task, head_at
from fencepost.spark.work.packing import (
    CLOCK,
    EVENTS_AT_ONCE,
    METERS,
    MOST_ROWS,
    VERSION,
    PackedEvents,
    packed_table,
    side_of,
    stepped_rows,
)
from fencepost.spark.work.shards import MoveSender, moved_batch
from fencepost.spark.work.store import (
    DAMPED,
    BlobStore,
    BucketStore,
    LoggedStore,
    keep,
    open_bucket,
    pass_time,
    seed_bytes,
)
from fencepost.spark.work.task import OBJECT, Task
from fencepost.spark.work.version import version_in_force
from fencepost.spark.work.watch_task import WatchTask
from fencepost.watching.entries import read_entry_texts

try:
    from pyspark.sql.streaming import StatefulProcessor
except ImportError:  # before 4.0; there nothing makes one

    class StatefulProcessor:  # type: ignore[no-redef]
        """Nothing to process."""


Packed = Iterable[tuple[int, int, bytes]]
"""Kind, number and payload of the packed rows of one bucket."""
Kernel = Callable[[int, Packed, BucketStore, Any], list[dict[str, Any]]]
"""What a bucket does with its packed rows: rows of `STEPPED`, or of `MOVED` where rules are in shards."""


# -- one step of one bucket --------------------------------------------------------------------------------


class Processor(StatefulProcessor):  # type: ignore[misc]
    """For transformWithState: a state store that can append to what it has."""

    def __init__(self, kernel: Kernel, task: Task) -> None:
        self._kernel, self._task = kernel, task

    def init(self, handle: Any) -> None:
        """Open the variables of the state."""
        begin_task()
        self._store = LoggedStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Step one bucket with its packed rows."""
        packed = ((row["kind"], row["number"], row["payload"]) for row in rows)
        yield from (Row(**row) for row in self._kernel(int(key[0]), packed, self._store, self._task))

    def close(self) -> None:
        """Nothing is open."""


class FrameProcessor(Processor):
    """The same for transformWithStateInPandas."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Step one bucket with its packed rows."""
        yield _step_frames(int(key[0]), rows, self._store, self._kernel, self._task)


def step_in_pandas(
    key: tuple[Any, ...], frames: Iterable[Any], state: Any, kernel: Kernel, task: Task
) -> Iterator[Any]:
    """For applyInPandasWithState: any other state store."""
    begin_task()
    yield _step_frames(int(key[0]), frames, BlobStore(state), kernel, task)


def _step_frames(bucket: int, frames: Iterable[Any], store: BucketStore, kernel: Kernel, task: Task) -> Any:
    import pandas as pd

    packed = (row for frame in frames for row in zip(frame["kind"], frame["number"], frame["payload"], strict=True))
    return pd.DataFrame(kernel(bucket, packed, store, task))


def step(bucket: int, packed: Packed, store: BucketStore, task: Task) -> list[dict[str, Any]]:
    """Markers first, then the rows; the events of both, packed, with their meter."""
    begin = time.perf_counter_ns()
    rows, markers = _unpack(packed, task)
    newest = max(markers[VERSION], default=None)
    # Shards know of themselves which of their rules expire.
    if markers[CLOCK] and newest is None and task.shards is None and all(each is None for each in rows):
        head = pass_time(store, task, bucket, max(markers[CLOCK]))
        if head is not None:
            return _nothing_happened(task, bucket, head, begin)
    is_marked = any(markers.values())
    before = open_bucket(store, task, bucket)
    held = None if before is None else before.version
    claim = version_in_force(task, held, newest)
    engine: Any = task.make_engine(claim.version, bucket) if before is None else before.engine
    counted, waited = engine.counts, engine.waiting
    sender: Any = EventSender(task) if task.shards is None else MoveSender(task, bucket)
    if before is not None and claim.version != before.version:
        sender.follow(engine, claim.version)
    if markers[CLOCK]:
        sender.advance(engine, max(markers[CLOCK]))
    if any(each is not None for each in rows):
        sender.update(engine, rows)
    keep(engine, before, store, task, bucket)
    counts = [now - then for now, then in zip(engine.counts, counted, strict=True)]
    waiting = engine.waiting._replace(damped=engine.waiting.damped - waited.damped)
    meter = _meter(task, counts, sender.counts, (*waiting, is_marked), (claim.version, claim.rejected), begin)
    sent: list[dict[str, Any]] = sender.rows(meter)
    return sent


def _nothing_happened(task: Task, bucket: int, head: Mapping[str, Any], begin: int) -> list[dict[str, Any]]:
    """What a step reports in which a time came and ended nothing."""
    sender: Any = EventSender(task) if task.shards is None else MoveSender(task, bucket)
    waiting = Waiting(0, *head.get("waiting", (0, 0)))
    meter = _meter(task, Counts(), sender.counts, (*waiting, True), (int(head["version"]), 0), begin)
    sent: list[dict[str, Any]] = sender.rows(meter)
    return sent


def _meter(
    task: Task,
    counts: Sequence[int],
    events: Mapping[str, int],
    waiting: Sequence[int],
    in_force: tuple[int, int],
    begin: int,
) -> dict[str, int]:
    """The figures of one step: rows, events by kind, what damping holds back, time, and the version in force."""
    version, rejected = in_force
    if task.shards is None:
        rules, skipped = len(task.rules_at(version)), task.count_skipped(version)
    else:  # shards know what they leave out
        rules, skipped = head_at(task.source, version).rules, 0
    meter = [*counts, *(events[kind] for kind in DETECTS), *map(int, waiting)]
    meter += [time.perf_counter_ns() - begin, version, rules, rejected, skipped]
    return dict(zip(METERS, meter, strict=True))


def _unpack(packed: Packed, task: Task) -> tuple[list[Table | None], dict[int, list[int]]]:
    """The rows of each side, and the numbers of markers by their kind."""
    markers: dict[int, list[int]] = {VERSION: [], CLOCK: []}
    tables: list[list[Any]] = [[] for _ in task.sides]
    for kind, number, payload in packed:
        side = side_of(int(kind))
        if side is None:
            markers[int(kind)].append(int(number))
        else:
            tables[side].append(packed_table(payload))
    return _name_rows([pa.concat_tables(each) if each else None for each in tables], task), markers


def _name_rows(tables: list[Any], task: Task) -> list[Table | None]:
    """The rows of each side under the names that rules have for their columns; None for a side without any."""
    return [None if rows is None else Table(task.name_columns(side, rows)) for side, rows in enumerate(tables)]


class EventSender:
    """Lets an engine take what happens to one bucket, and packs the events, unless they go their way as they are."""

    def __init__(self, task: Task, packs: bool = True) -> None:
        self._task, self._packed = task, PackedEvents()
        self._emitter = Emitter(columns=task.columns, short=packs)

    @property
    def counts(self) -> Mapping[str, int]:
        """Events by kind."""
        return self._emitter.counts

    def follow(self, engine: Any, version: int) -> None:
        """Let other rules be in force."""
        self._pack(engine.follow(self._task.rules_at(version)))

    def advance(self, engine: Any, marker: int) -> None:
        """Let a time come."""
        now = engine.clock.read_marker(marker)
        self._pack(engine.advance(now))
        engine.clock.advance(now)

    def update(self, engine: Any, rows: list[Table | None]) -> None:
        """Let objects move."""
        self._pack(engine.update(rows))

    def events(self, step: Step) -> Iterator[Any]:
        """The events of a step in the types that Spark expects, piece by piece; after the last one it is settled."""
        for events in self._emitter.emit_pieces(step):
            yield self._task.fit_events(events)
        step.settle()

    def _pack(self, step: Step) -> None:
        for events in self.events(step):
            self._packed.add(events)

    def payloads(self) -> list[bytes]:
        """All events so far, packed."""
        return self._packed.payloads()

    def rows(self, meter: Mapping[str, int]) -> list[dict[str, Any]]:
        """The same as rows of `STEPPED`."""
        return stepped_rows(self.payloads(), meter)


# -- batch frames ------------------------------------------------------------------------------------------


def save_buckets(batches: Iterable[Any], task: WatchTask, folder: str) -> Iterator[Any]:
    """For mapInArrow on rows whose partitions hold whole buckets: a file of state per bucket, for `seed`."""
    waiting = list(batches)
    if not waiting:
        return
    table = pa.Table.from_batches(waiting)
    buckets = table.column(table.num_columns - 1).to_numpy()
    for bucket in np.unique(buckets).tolist():
        engine = task.make_engine(task.planned, bucket)
        rows = table.drop_columns(table.column_names[-1:]).take(pa.array(np.flatnonzero(buckets == bucket)))
        moved = engine.take(Table(task.name_columns(0, rows)))
        engine.settle(moved)
        if DAMPED in moved.rows.carried:
            lasts = np.flatnonzero(moved.steps.is_last)
            texts = moved.rows.carried[DAMPED].take(pa.array(moved.rows.numbers[lasts]))
            slots = moved.rows.slots[lasts]
            engine.state.damped.prepare(slots, read_entry_texts(texts, slots))()
        write_whole(Path(folder, f"{bucket:05}.arrow"), seed_bytes(engine, task))
        yield pa.RecordBatch.from_pydict({"bucket": pa.array([bucket], pa.int32())})


def watch_sorted(batches: Iterable[Any], task: WatchTask) -> Iterator[Any]:
    """For mapInArrow on a batch frame whose partitions are sorted by object: the events of whole objects at a time."""
    begin_task()
    engine, sender = task.make_engine(task.planned, 0), EventSender(task, packs=False)
    for rows in _whole_objects(batches):
        for events in sender.events(engine.update([Table(task.name_columns(0, rows))])):
            yield from events.combine_chunks().to_batches(max_chunksize=EVENTS_AT_ONCE)


def move_sorted(batches: Iterable[Any], task: WatchTask) -> Iterator[Any]:
    """The same where rules are in shards: the moves of whole objects at a time, as rows of `MOVED`."""
    begin_task()
    engine, context = task.make_engine(task.planned, 0), TaskContext.get()
    for rows in _whole_objects(batches):
        sender = MoveSender(task, 0 if context is None else context.partitionId())
        sender.update(engine, [Table(task.name_columns(0, rows))])
        yield moved_batch(sender.rows(dict.fromkeys(METERS, 0)))


def join_bucket(frame: Any, task: BandTask) -> Any:
    """For applyInPandas on the packed rows of one bucket of a batch frame: the events of its pairs, packed.

    Rows are taken in the order of time, some at a time, so that only the rows themselves need room at once.
    """
    import pandas as pd

    begin_task()
    packed = zip(frame["kind"], frame["number"], frame["payload"], strict=True)
    tables: list[list[Any]] = [[] for _ in task.sides]
    for kind, _, payload in packed:
        tables[side_of(int(kind)) or 0].append(packed_table(payload))
    engine, sender = task.make_engine(task.planned, 0), EventSender(task)
    for rows in cut_by_time([pa.concat_tables(each) if each else None for each in tables]):
        sender.update(engine, _name_rows(rows, task))
    return pd.DataFrame({"payload": sender.payloads()}, dtype=object)


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
