"""watch: what enters, leaves, crosses and is inside, on batch and streaming DataFrames."""

import os
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)
from pyspark.sql.types import StructType

from fencepost.buckets import checked_buckets
from fencepost.errors import FencepostError
from fencepost.monitor.settings import check_first
from fencepost.snapshot import NEVER
from fencepost.spark.metrics import observed_watch
from fencepost.spark.plan.columns import KEY, arrow_type, quoted
from fencepost.spark.plan.routing import to_parts
from fencepost.spark.plan.rules import Plan, plan_rules
from fencepost.spark.plan.sent import Sent, attributes_of, event_fields, sent_columns
from fencepost.spark.plan.steps import step_buckets
from fencepost.spark.session import warn_untuned
from fencepost.spark.work.bucket import (
    Kernel,
    move_sorted,
    save_buckets,
    step,
    watch_sorted,
)
from fencepost.spark.work.caches import Published
from fencepost.spark.work.packing import PACKED, STEPPED, pack, unpack
from fencepost.spark.work.shards import MOVED, detect_moves
from fencepost.spark.work.task import OBJECT, TIME
from fencepost.spark.work.watch_task import WatchTask
from fencepost.watching.clock import Clock


def watch(
    events: Any,
    rules: Any,
    *,
    object: str,
    time: str,
    sequence: str | Sequence[str] | None = None,
    buckets: int = 32,
    shards: int | None = None,
    first: Literal["enter", "silent"] = "enter",
    timeout: timedelta | int | None = None,
    late: str | os.PathLike[str] | None = None,
    seed: str | os.PathLike[str] | None = None,
    clock: str | os.PathLike[str] | None = None,
    observe: str | None = None,
) -> Any:
    """The events of objects that move: those of `Monitor.update`, from a batch or a streaming DataFrame.

    Example::

        from fencepost import Rules
        from fencepost.spark import watch

        rules = Rules()
        rules.add(7, "price BETWEEN 40 AND 50", detect="enter,exit")
        rows = [("IBM", 1, 39.0), ("IBM", 2, 41.5), ("IBM", 3, 60.0)]
        ticks = spark.createDataFrame(rows, "symbol string, ts bigint, price double")
        events = watch(ticks, rules, object="symbol", time="ts")
        events.select("time", "object", "detect", "rule_id", "price").orderBy("time").show()
        # +----+------+------+-------+-----+
        # |time|object|detect|rule_id|price|
        # +----+------+------+-------+-----+
        # |   2|   IBM| enter|      7| 41.5|
        # |   3|   IBM|  exit|      7| 60.0|
        # +----+------+------+-------+-----+

    A stream keeps each object's last values in Spark's state store, so it goes on after a restart as if nothing had
    happened. A stream that follows a directory takes up a new version at the same point in every task.

    Args:
        events: a DataFrame, batch or streaming, of a classic session or of Spark Connect.
        rules: `Rules`, bound to the types of the frame; a `Snapshot`; or a directory of published rules, path or URL.
        object: the column that names the object.
        time: the column of event time.
        sequence: a column, or several, that order rows of equal time.
        buckets: how many parts the objects are spread over; a checkpoint keeps the number it was made with.
        shards: for rule sets larger than a worker should hold: rules are taken in so many parts, a move is told to
            those that it may concern, and a task loads no other. A directory has the number it was first published
            with.
        first: "enter" reports rules that an object is inside when it is first seen, "silent" does not.
        timeout: how long an object may be silent before it is gone: a timedelta, or a number in the unit of time.
        late: a directory for late rows, as Parquet files; they are counted in any case.
        seed: a directory that `save_state` wrote, for objects to start with.
        clock: a directory of clock markers that this stream alone hears, beside those of the rules; pipelines have one.
        observe: a name under which Spark's query progress reports what was watched; see `prometheus_text`.
    """
    spark = events.sparkSession
    warn_untuned(spark, stateful=events.isStreaming)
    given = watched_frame(events, rules, object, time, sequence, buckets, first, timeout, late, seed, shards)
    task = given.task
    if not events.isStreaming:
        spread = given.rows.repartition(buckets, quoted(OBJECT)).sortWithinPartitions(quoted(OBJECT))
        if task.shards is None:
            return spread.mapInArrow(partial(watch_sorted, task=task), given.declared)
        stepped = spread.mapInArrow(partial(move_sorted, task=task), MOVED)
    else:
        stepped = stepped_buckets(given, step, clock)
    if task.shards is not None:
        parted = to_parts(stepped, task.shards.plan.shards, F.col("bucket"))
        stepped = parted.mapInArrow(partial(detect_moves, task=task), STEPPED)
    if observe is not None and events.isStreaming:
        stepped = observed_watch(stepped, observe)
    return stepped.where("payload IS NOT NULL").select("payload").mapInArrow(unpack, given.declared)


def stepped_buckets(given: "WatchedFrame", kernel: Kernel, clock: str | os.PathLike[str] | None = None) -> Any:
    """The packed events of a stream and their meters, a row per bucket; where rules are in shards, its packed moves."""
    task = given.task
    packed = given.rows.withColumn("fencepost bucket", _bucket(task.buckets)).mapInArrow(pack, PACKED)
    return step_buckets(packed, task, clock, STEPPED if task.shards is None else MOVED, kernel)


def save_state(
    rows: Any,
    path: str | os.PathLike[str],
    rules: Any,
    *,
    object: str,
    time: str,
    sequence: str | Sequence[str] | None = None,
    buckets: int = 32,
    shards: int | None = None,
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
        shards: likewise.
    """
    given = watched_frame(rows, rules, object, time, sequence, buckets, "silent", shards=shards)
    folder = Path(path).absolute()
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise FencepostError(f"{folder}, which exists", "a new directory", "Save under another name.") from None
    spread = given.rows.withColumn("fencepost bucket", _bucket(buckets)).repartition(buckets, "`fencepost bucket`")
    spread.mapInArrow(partial(save_buckets, task=given.task, folder=str(folder)), "bucket int").count()


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
    shards: int | None = None,
) -> WatchedFrame:
    """The rows that go to Python, with what a task must know of them."""
    checked_buckets(buckets)
    check_first(first)
    plan = plan_rules(events.sparkSession, rules, events.schema, shards)
    order = (sequence,) if isinstance(sequence, str) else tuple(sequence or ())
    roles = _roles(object, time, order)
    sent = sent_columns(events, roles, plan.needed, plan.snapshot)
    names = tuple(role for role, _ in roles[2:])
    task = _task(events, plan, sent, names, buckets, first, timeout, late, seed)
    return WatchedFrame(sent.rows(events), task, StructType(_event_fields(events, sent, plan)))


def _roles(object: str, time: str, sequence: Sequence[str]) -> list[tuple[str, str]]:
    return [(OBJECT, object), (TIME, time), *((f"fencepost sequence {n}", c) for n, c in enumerate(sequence))]


def _task(
    events: Any,
    plan: Plan,
    sent: Sent,
    sequence: tuple[str, ...],
    buckets: int,
    first: str,
    timeout: timedelta | int | None,
    late: str | os.PathLike[str] | None,
    seed: str | os.PathLike[str] | None,
) -> WatchTask:
    time_field = sent.field(events, TIME)
    clock, in_force = Clock(time_field.name, timeout), plan.snapshot.in_force
    kind = clock.type_for(arrow_type(time_field))
    clock.check(kind, plan.snapshot.rules.ids[in_force][plan.snapshot.rules.expires[in_force] != NEVER])
    return WatchTask(
        plan.source,
        plan.snapshot.version,
        events.isStreaming and isinstance(plan.source, Published),
        sent.twice,
        tuple(sorted(attributes_of(plan.needed).items())),
        tuple(sorted(name for name, type_ in plan.needed.items() if type_ == KEY)),
        sequence,
        sent.field(events, OBJECT).dataType.simpleString(),
        str(kind),
        buckets,
        first,
        timeout,
        None if late is None else os.fspath(Path(late).absolute()),
        None if seed is None else os.fspath(Path(seed).absolute()),
        pa.schema([(field.name, arrow_type(field)) for field in _event_fields(events, sent, plan)]),
        plan.shards,
    )


def _event_fields(events: Any, sent: Sent, plan: Plan) -> list[Any]:
    """The columns of events, in Spark's types."""
    objects, times = (sent.field(events, role).dataType for role in (OBJECT, TIME))
    return event_fields({"object": objects, "other": objects, "time": times}, attributes_of(plan.needed))
