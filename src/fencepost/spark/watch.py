"""watch: what enters, leaves, crosses and is inside, on batch and streaming DataFrames."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.errors import FencepostError
from fencepost.events import event_schema
from fencepost.monitor.clock import Clock
from fencepost.monitor.core import checked_first
from fencepost.ordinals import AttributeType
from fencepost.snapshot import NEVER, Table, VersionDirectory
from fencepost.spark.binding import KEY, arrow_type, bound_columns, own_name, quoted
from fencepost.spark.bucket_state import BLOB, state_rows
from fencepost.spark.buckets import (
    CLOCK,
    PACKED,
    STEPPED,
    VERSION,
    Kernel,
    Processor,
    pack,
    save_buckets,
    step,
    step_in_pandas,
    unpack,
    watch_sorted,
)
from fencepost.spark.metrics import observed_watch
from fencepost.spark.session import appends_state, warn_untuned
from fencepost.spark.sources import Plan, plan_rules
from fencepost.spark.watch_task import OBJECT, TIME, WatchTask
from fencepost.spark.worker import Published

__all__ = ["read_state", "save_state", "watch"]

_MOST_BUCKETS = 65_536


def watch(
    events: Any,
    rules: Any,
    *,
    object: str,
    time: str,
    sequence: str | Sequence[str] | None = None,
    buckets: int = 32,
    first: Literal["enter", "silent"] = "enter",
    timeout: timedelta | int | None = None,
    late: str | os.PathLike[str] | None = None,
    seed: str | os.PathLike[str] | None = None,
    observe: str | None = None,
) -> Any:
    """The events of objects that move: what `Monitor.update` tells, from a batch or a streaming DataFrame.

    A stream keeps each object's last values in Spark's state store, so it goes on after a restart as if nothing had
    happened. A stream that follows a directory takes up a new version at the same point in every task.

    Args:
        events: a DataFrame, batch or streaming, of a classic session or of Spark Connect.
        rules: `Rules`, bound to the types of the frame; a `Snapshot`; or the directory that rules are published to.
        object: the column that names the object.
        time: the column of event time.
        sequence: a column, or several, that order rows of equal time.
        buckets: how many parts the objects are spread over; a checkpoint keeps the number it was made with.
        first: "enter" reports rules that an object is inside when it is first seen, "silent" does not.
        timeout: how long an object may be silent before it is gone: a timedelta, or a number in the unit of time.
        late: a directory for late rows, as Parquet files; they are counted in any case.
        seed: a directory that `save_state` wrote, for objects to start with.
        observe: a name under which Spark's query progress reports what was watched; see `prometheus_text`.
    """
    spark = events.sparkSession
    warn_untuned(spark, stateful=events.isStreaming)
    given = watched_frame(events, rules, object, time, sequence, buckets, first, timeout, late, seed)
    if not events.isStreaming:
        spread = given.rows.repartition(buckets, quoted(OBJECT)).sortWithinPartitions(quoted(OBJECT))
        return spread.mapInArrow(partial(watch_sorted, task=given.task), given.declared)
    stepped = stepped_buckets(given, step)
    if observe is not None:
        stepped = observed_watch(stepped, observe)
    return stepped.where("payload IS NOT NULL").select("payload").mapInArrow(unpack, given.declared)


def stepped_buckets(given: "WatchedFrame", kernel: Kernel) -> Any:
    """The packed events of a stream and their meters, a row per bucket.

    Args:
        given: the stream.
        kernel: what a bucket does with its rows; see `fencepost.spark.buckets.step`.
    """
    task = given.task
    packed = given.rows.withColumn("fencepost bucket", _bucket(task.buckets)).mapInArrow(pack, PACKED)
    if task.follow:
        packed = packed.unionByName(_markers(given.rows.sparkSession, task.source, task.buckets))

    grouped = packed.groupBy("bucket")
    if appends_state(given.rows.sparkSession):
        return grouped.transformWithState(Processor(kernel, task), STEPPED, "append", "None")

    def fencepost_step(key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        return step_in_pandas(key, frames, state, kernel, task)

    return grouped.applyInPandasWithState(fencepost_step, STEPPED, BLOB, "append", "NoTimeout")


def save_state(
    rows: Any,
    path: str | os.PathLike[str],
    rules: Any,
    *,
    object: str,
    time: str,
    sequence: str | Sequence[str] | None = None,
    buckets: int = 32,
) -> None:
    """Write what objects have after the rows of a batch frame, for a stream to start with: `watch(..., seed=path)`.

    Args:
        rows: a batch DataFrame, for example what `read_state` gives.
        path: a new directory that every executor can reach.
        rules: that the stream will start with.
        object: as for `watch`, and likewise the rest.
        time: as for `watch`.
        sequence: as for `watch`.
        buckets: the number that the stream will have.
    """
    given = watched_frame(rows, rules, object, time, sequence, buckets, "silent")
    folder = Path(path).absolute()
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise FencepostError(f"{folder}, which exists", "a new directory", "Save under another name.") from None
    spread = given.rows.withColumn("fencepost bucket", _bucket(buckets)).repartition(buckets, "`fencepost bucket`")
    spread.mapInArrow(partial(save_buckets, task=given.task, folder=str(folder)), "bucket int").count()


def read_state(spark: Any, checkpoint: str | os.PathLike[str]) -> Any:
    """The objects that a stream of `watch` knows, with their last time and values, as its checkpoint has them.

    Who is inside which rule: ``match(read_state(spark, checkpoint), rules, explode=True)``.

    Args:
        spark: a session.
        checkpoint: the checkpoint location of the query.
    """
    parts = _state_parts(spark, os.fspath(checkpoint))
    first = parts.where("number = -2").first()
    if first is None:
        raise FencepostError(f"no state in {checkpoint}", "the checkpoint of a query that has run", "Check the path.")
    head = json.loads(bytes(first["part"]))
    types = {"object": head["object"], "time": head["clock"]["type"], "snapshot_version": "bigint"}
    types |= head["attributes"] | dict.fromkeys(head["keys"], "string")
    declared = StructType([StructField(name, _spark_type(kind)) for name, kind in types.items()])
    schema = pa.schema([(field.name, arrow_type(field)) for field in declared.fields])

    def fencepost_state(parts: pa.Table) -> pa.Table:
        return state_rows(parts, schema)

    return parts.groupBy("bucket").applyInArrow(fencepost_state, declared)


def _state_parts(spark: Any, checkpoint: str) -> Any:
    """All that a checkpoint has of every bucket, numbered as `state_rows` wants it."""

    def part(frame: Any, number: str, column: str) -> Any:
        return frame.selectExpr("key.bucket", f"{number} AS number", f"cast({column} AS binary) AS part")

    store = spark.read.format("statestore")
    operator = spark.read.format("state-metadata").load(checkpoint).select("operatorName").first()
    if operator is not None and "transformWithState" in operator[0]:
        head, base = (store.option("stateVarName", name).load(checkpoint) for name in ("head", "base"))
        log = store.option("stateVarName", "log").load(checkpoint)
        entries = part(log, "list_element.number", "list_element.entry")
        return part(head, "-2", "value.head").union(part(base, "-1", "value.base")).union(entries)
    blobs = store.load(checkpoint)
    return part(blobs, "-2", "value.groupState.head").union(part(blobs, "-1", "value.groupState.base"))


def _bucket(buckets: int) -> Any:
    return F.pmod(F.xxhash64(quoted(OBJECT)), F.lit(buckets)).cast("int")


class WatchedFrame(NamedTuple):
    """What an operator was given, checked and made ready."""

    rows: Any
    """The columns that go to Python."""
    task: WatchTask
    declared: Any
    """The schema of events."""


def watched_frame(
    events: Any,
    rules: Any,
    object: str,
    time: str,
    sequence: str | Sequence[str] | None,
    buckets: int,
    first: str,
    timeout: timedelta | int | None = None,
    late: str | os.PathLike[str] | None = None,
    seed: str | os.PathLike[str] | None = None,
) -> WatchedFrame:
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= _MOST_BUCKETS:
        raise FencepostError(f"buckets={buckets!r}", f"1 to {_MOST_BUCKETS}", "Eight for every core do well.")
    checked_first(first)
    plan = plan_rules(events.sparkSession, rules, events.schema)
    order = (sequence,) if isinstance(sequence, str) else tuple(sequence or ())
    sent = _sent_columns(events, plan, object, time, order)
    task = _task(events, plan, sent, buckets, first, timeout, late, seed)
    rows = events.select(*(quoted(own).alias(name) for name, own in sent.columns))
    return WatchedFrame(rows, task, StructType(_event_fields(events, sent, plan)))


class _Sent(NamedTuple):
    """The columns that go to Python."""

    columns: list[tuple[str, str]]
    """Each as it is called there, and in the frame."""
    twice: tuple[tuple[str, str], ...]
    """Those that are sent already under another name."""
    sequence: tuple[str, ...]


def _sent_columns(events: Any, plan: Plan, object: str, time: str, sequence: Sequence[str]) -> _Sent:
    names = Table(dict.fromkeys(events.columns, ()))
    columns: dict[str, str] = {}
    """By the frame's own name, so that none is sent twice."""
    twice: list[tuple[str, str]] = []
    for role, wanted in (
        (OBJECT, object),
        (TIME, time),
        *((f"fencepost sequence {n}", c) for n, c in enumerate(sequence)),
    ):
        reason = partial("which was named as {}".format, role.removeprefix("fencepost "))
        _send(role, own_name(names, wanted, reason), columns, twice)
    for column in bound_columns(events.schema, plan.needed, plan.snapshot):
        _send(column.name, column.own, columns, twice)
    sent = [(name, own) for own, name in columns.items()]
    return _Sent(sent, tuple(twice), tuple(f"fencepost sequence {n}" for n in range(len(sequence))))


def _send(name: str, own: str, columns: dict[str, str], twice: list[tuple[str, str]]) -> None:
    if own in columns:
        twice.append((name, columns[own]))
    else:
        columns[own] = name


def _task(
    events: Any,
    plan: Plan,
    sent: _Sent,
    buckets: int,
    first: str,
    timeout: timedelta | int | None,
    late: str | os.PathLike[str] | None,
    seed: str | os.PathLike[str] | None,
) -> WatchTask:
    time_field = _field(events, sent, TIME)
    clock, in_force = Clock(time_field.name, timeout), plan.snapshot.in_force
    kind = clock.type_for(arrow_type(time_field))
    clock.check(kind, plan.snapshot.rules.ids[in_force][plan.snapshot.rules.expires[in_force] != NEVER])
    return WatchTask(
        plan.source,
        plan.snapshot.version,
        events.isStreaming and isinstance(plan.source, Published),
        sent.twice,
        tuple(sorted(_attributes(plan.needed).items())),
        tuple(sorted(name for name, type_ in plan.needed.items() if type_ == KEY)),
        sent.sequence,
        _field(events, sent, OBJECT).dataType.simpleString(),
        str(kind),
        buckets,
        first,
        timeout,
        None if late is None else os.fspath(Path(late).absolute()),
        None if seed is None else os.fspath(Path(seed).absolute()),
        pa.schema([(field.name, arrow_type(field)) for field in _event_fields(events, sent, plan)]),
    )


def _attributes(needed: Mapping[str, str]) -> dict[str, str]:
    return {name: kind for name, kind in needed.items() if kind != KEY}


def _field(events: Any, sent: _Sent, role: str) -> Any:
    own = dict([*sent.columns, *((a, dict(sent.columns)[b]) for a, b in sent.twice)])[role]
    return next(field for field in events.schema.fields if field.name == own)


def _event_fields(events: Any, sent: _Sent, plan: Plan) -> list[Any]:
    """The columns of events, in Spark's types."""
    attributes = _attributes(plan.needed)
    names = event_schema(
        pa.null(), pa.null(), {name: AttributeType.parse(kind) for name, kind in attributes.items()}
    ).names
    given: dict[str, Any] = {
        "object": _field(events, sent, OBJECT).dataType,
        "time": _field(events, sent, TIME).dataType,
    }
    given["other"] = given["object"]
    given |= dict.fromkeys(("rule_id", "rule_version", "snapshot_version"), "bigint")
    for name, kind in attributes.items():
        given |= {name: kind, f"{name}_before": kind}
    fields = []
    for name in names:
        type_ = given.get(name, StringType())
        fields.append(StructField(name, _spark_type(type_) if isinstance(type_, str) else type_))
    return fields


def _spark_type(text: str) -> Any:
    return StructType.fromDDL(f"c {text}")[0].dataType


def _markers(spark: Any, source: Any, buckets: int) -> Any:
    """The stream of versions and clock markers, each told to every bucket."""
    versions = VersionDirectory(source.directory)
    versions.mark()
    schema = "path string, modificationTime timestamp, length bigint, content binary"
    files = spark.readStream.format("binaryFile").schema(schema).load(str(versions.markers)).select("path")
    name = F.element_at(F.split("path", "/"), -1)
    number, ending = (F.element_at(F.split(name, r"\."), place) for place in (1, 2))
    kind = F.when(ending == "version", VERSION).when(ending == "clock", CLOCK)
    told = files.select(kind.cast("int").alias("kind"), number.cast("bigint").alias("number")).where("kind IS NOT NULL")
    everywhere = F.explode(F.sequence(F.lit(0), F.lit(buckets - 1))).alias("bucket")
    return told.select(everywhere, "kind", "number", F.lit(None).cast("binary").alias("payload"))
