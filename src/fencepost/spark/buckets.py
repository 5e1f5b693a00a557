"""The part of watch that runs in Python workers: rows packed by bucket, a step of one bucket, events unpacked.

Objects are spread over a fixed number of buckets by a hash. The shuffle and the state operator see one packed row per
bucket and partition instead of one per event, and the state of a bucket is one blob: an Arrow table of its objects.
"""

import json
import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.monitor import Monitor
from fencepost.monitor.layers import Layers
from fencepost.monitor.state_file import state_of, table_of
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS
from fencepost.spark.packing import CLOCK, EVENTS_AT_ONCE, MOST_ROWS, ROWS, VERSION, packed_bytes, packed_table
from fencepost.spark.stepping import instant_of, keep_late, last_snapshot, version_in_force
from fencepost.spark.worker import Published, Source

__all__ = [
    "METERS",
    "OBJECT",
    "STATE",
    "STEPPED",
    "TIME",
    "WatchTask",
    "save_buckets",
    "state_header",
    "state_rows",
    "step",
    "watch_sorted",
]

OBJECT, TIME = "fencepost object", "fencepost time"
STATE = "version bigint, blob binary"
METERS = ("rows", "late", "null_rows", *DETECTS, "nanoseconds", "version", "rules", "rejected")
STEPPED = ", ".join(["payload binary", *(f"{name} bigint" for name in METERS)])

_FORMAT = 1
_HASH = "xxhash64"
_METADATA = b"fencepost.bucket"
_HELD = 4


class WatchTask(NamedTuple):
    """What a task must know; small, and without anything that Python would have to pickle by value."""

    source: Source
    planned: int
    follow: bool
    twice: tuple[tuple[str, str], ...]
    """Columns that are the same as one that arrives under another name."""
    attributes: tuple[tuple[str, str], ...]
    """Every attribute of the schema with its type."""
    keys: tuple[str, ...]
    """Every key column of the schema."""
    sequence: tuple[str, ...]
    object_type: str
    """As Spark calls it; likewise the next."""
    time_type: str
    buckets: int
    first: str
    timeout: timedelta | int | None
    late: str | None
    seed: str | None
    event_schema: Any
    """The Arrow schema of events, as Spark has it."""


# -- one step of one bucket --------------------------------------------------------------------------------


def step(key: tuple[Any, ...], frames: Iterable[Any], state: Any, task: WatchTask) -> Iterator[Any]:
    """For applyInPandasWithState: markers first, then the rows; the events of both, packed, with their meter.

    Args:
        key: the bucket.
        frames: its packed rows, pandas frames.
        state: Spark's state of the bucket.
        task: everything else.
    """
    import pandas as pd

    begin = time.perf_counter_ns()
    bucket = int(key[0])
    markers: dict[int, list[int]] = {VERSION: [], CLOCK: []}
    tables = []
    for frame in frames:
        for kind, number, payload in zip(frame["kind"], frame["number"], frame["payload"], strict=True):
            if kind == ROWS:
                tables.append(packed_table(payload))
            else:
                markers[kind].append(int(number))
    before = _State(*state.get) if state.exists else _seeded(task, bucket)
    held, newest = None if before is None else before.version, max(markers[VERSION], default=None)
    claim = version_in_force(task, held, newest, "watch")
    monitor = _monitor(task, _layers_at(task, claim.version if before is None else before.version), bucket)
    if before is not None:
        _take_state(monitor, before.blob, task)
    found = []
    if before is not None and claim.version != before.version:
        found.append(monitor._follow(_layers_at(task, claim.version)))
    if markers[CLOCK]:
        found.append(_advanced(monitor, max(markers[CLOCK])))
    if tables:
        found.append(monitor.update(_columns(pa.concat_tables(tables), task)))
    state.update((claim.version, _blob(monitor, task)))
    events = pa.concat_tables([_as_declared(each, task) for each in found if each.num_rows] or [_no_events(task)])
    counters = monitor.counters
    meter = [counters["rows"], counters["late"], counters["null"], *(counters["events"][kind] for kind in DETECTS)]
    meter += [time.perf_counter_ns() - begin, claim.version, len(monitor._layers), claim.rejected]
    payload = packed_bytes(events) if events.num_rows else None
    yield pd.DataFrame({"payload": [payload], **{name: [figure] for name, figure in zip(METERS, meter, strict=True)}})


class _State(NamedTuple):
    version: int
    blob: bytes


_layers: "OrderedDict[tuple[Source, int, tuple[tuple[str, str], ...]], Layers]" = OrderedDict()


def _layers_at(task: WatchTask, version: int) -> Layers:
    """The rules of one version, as a monitor has them; the last few stay with the process."""
    place = (task.source, version, task.attributes)
    found = _layers.pop(place, None)
    if found is None:
        types = {name: AttributeType.parse(kind) for name, kind in task.attributes}
        found = Layers(last_snapshot(task.source, version), None, types, task.keys)
    _layers[place] = found
    while len(_layers) > _HELD:
        _layers.popitem(last=False)
    return found


def _monitor(task: WatchTask, layers: Layers, bucket: int) -> Monitor:
    def keep(late: Any) -> None:
        _keep_late(late, task, bucket)

    monitor = Monitor.__new__(Monitor)
    late = None if task.late is None else keep
    monitor._begin(layers, OBJECT, TIME, task.sequence, task.first, task.timeout, late)
    monitor._clock.start(AttributeType.parse(task.time_type), layers)
    return monitor


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


# -- state -------------------------------------------------------------------------------------------------


def _blob(monitor: Monitor, task: WatchTask) -> bytes:
    header = {
        "format": _FORMAT,
        "buckets": task.buckets,
        "hash": _HASH,
        "rules": _fixed_rules(task),
        "version": monitor._layers.version,
        "clock": monitor._clock.saved(),
        "object": task.object_type,
        "attributes": dict(task.attributes),
        "keys": list(task.keys),
    }
    table = table_of(monitor._state)
    return packed_bytes(table.replace_schema_metadata({_METADATA: json.dumps(header)}))


def _fixed_rules(task: WatchTask) -> str | None:
    """What tells one set of fixed rules from another; a directory has versions instead."""
    return None if isinstance(task.source, Published) else task.source.digest


def state_header(blob: bytes) -> dict[str, Any]:
    """What a blob says about itself."""
    header: dict[str, Any] = json.loads(packed_table(blob).schema.metadata[_METADATA])
    return header


def _take_state(monitor: Monitor, blob: bytes, task: WatchTask) -> None:
    table = packed_table(blob)
    header = json.loads(table.schema.metadata[_METADATA])
    if header["format"] != _FORMAT:
        raise FencepostError(
            f"state in format {header['format']}",
            f"format {_FORMAT}",
            "Run the query with the version of fencepost that wrote its checkpoint.",
        )
    for name, own in (("buckets", task.buckets), ("hash", _HASH)):
        if header[name] != own:
            raise FencepostError(
                f"watch with {name}={own}",
                f"{name}={header[name]}, with which the checkpoint was made",
                f"Pass {name}={header[name]}, or start with a new checkpoint.",
            )
    if header["rules"] is not None and header["rules"] != _fixed_rules(task):
        raise FencepostError(
            "other rules than those that the checkpoint was made with",
            "the same ones, so that nobody stays inside a rule that is gone",
            "Publish the rules to a directory and watch that: then they may change.",
        )
    if header["clock"]["type"] != task.time_type:
        raise FencepostError(
            f"a time column of type {task.time_type}",
            f"{header['clock']['type']}, with which the checkpoint was made",
            "Cast the column, or start with a new checkpoint.",
        )
    monitor._state = state_of(table, monitor._layers)
    monitor._clock.restore(header["clock"])


def _seeded(task: WatchTask, bucket: int) -> _State | None:
    """The state that a bucket starts with, where a seed was given."""
    if task.seed is None:
        return None
    file = Path(task.seed, f"{bucket:05}.arrow")
    if not file.exists():
        return None
    blob = file.read_bytes()
    return _State(int(state_header(blob)["version"]), blob)


def save_buckets(batches: Iterable[Any], task: WatchTask, folder: str) -> Iterator[Any]:
    """For mapInArrow on rows whose partitions hold whole buckets: a file of state per bucket, for `seed`."""
    waiting = list(batches)
    if not waiting:
        return
    table = pa.Table.from_batches(waiting)
    buckets = table.column(table.num_columns - 1).to_numpy()
    for bucket in np.unique(buckets).tolist():
        monitor = _monitor(task, _layers_at(task, task.planned), bucket)
        rows = table.drop_columns(table.column_names[-1:]).take(pa.array(np.flatnonzero(buckets == bucket)))
        monitor.update(_columns(rows, task))
        file = Path(folder, f"{bucket:05}.arrow")
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        partial.write_bytes(_blob(monitor, task))
        partial.replace(file)
        yield pa.RecordBatch.from_pydict({"bucket": pa.array([bucket], pa.int32())})


def state_rows(batches: Iterable[Any], header: Mapping[str, Any], schema: Any) -> Iterator[Any]:
    """For mapInArrow over versions and blobs of state: one row per object, with its last time and values."""
    for batch in batches:
        for version, blob in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            table = packed_table(blob)
            columns = {"object": table["object"], "time": _decoded(table["time"], header["clock"]["type"])}
            columns["snapshot_version"] = pa.array(np.full(len(table), version))
            for name, kind in header["attributes"].items():
                columns[name] = _decoded(table[f"attribute {name}"], kind)
            for name in header["keys"]:
                columns[name] = table[f"key {name}"]
            yield from pa.table(columns).select(schema.names).cast(schema).to_batches()


def _decoded(column: Any, kind: str) -> Any:
    array = column.combine_chunks()
    return AttributeType.parse(kind).decode(np.asarray(array.fill_null(0)), np.asarray(array.is_valid()))


# -- late rows ---------------------------------------------------------------------------------------------


def _keep_late(late: Any, task: WatchTask, bucket: int) -> None:
    """Write late rows to a file that a repeated micro-batch replaces by the same."""
    names = {OBJECT: "object", TIME: "time"}
    table = late.drop_columns([name for name, _ in task.twice])
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    keep_late(table, Path(str(task.late)), bucket)


# -- events -----------------------------------------------------------------------------------------------


def _as_declared(events: Any, task: WatchTask) -> Any:
    return events.cast(task.event_schema)


def _no_events(task: WatchTask) -> Any:
    return task.event_schema.empty_table()


# -- batch frames ------------------------------------------------------------------------------------------


def watch_sorted(batches: Iterable[Any], task: WatchTask) -> Iterator[Any]:
    """For mapInArrow on a batch frame whose partitions are sorted by object: the events of whole objects at a time."""
    monitor = _monitor(task, _layers_at(task, task.planned), 0)
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
