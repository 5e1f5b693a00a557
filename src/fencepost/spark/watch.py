"""watch: what enters, leaves, crosses and is inside, on batch and streaming DataFrames."""

import os
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)
from pyspark.sql.types import StructType

from fencepost.buckets import checked_buckets
from fencepost.emitting.further import EventColumns, event_columns
from fencepost.errors import FencepostError
from fencepost.monitor.settings import check_first
from fencepost.published.shards.plan import refuse_damped
from fencepost.snapshot import Snapshot
from fencepost.spark.plan.columns import KEY, quoted
from fencepost.spark.plan.routing import group_by_shard
from fencepost.spark.plan.rules import plan_for, plan_rules
from fencepost.spark.plan.sent import attributes_of, event_fields, name_roles, sent_columns, sequence_roles
from fencepost.spark.plan.steps import (
    BUCKET,
    absolute,
    bucket_column,
    check_clock,
    check_time,
    pack_rows,
    step_buckets,
    task_arguments,
    unpack_events,
)
from fencepost.spark.session import warn_untuned
from fencepost.spark.work.bucket import Kernel, move_sorted, save_buckets, step, watch_sorted
from fencepost.spark.work.packing import STEPPED
from fencepost.spark.work.shards import MOVED, detect_moves
from fencepost.spark.work.store import DAMPED
from fencepost.spark.work.task import OBJECT, TIME
from fencepost.spark.work.watch_task import WatchTask

_PLAIN = EventColumns()


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
    labels: bool = False,
    carry: str | Sequence[str] = (),
    condition: bool = False,
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
        buckets: how many buckets the objects are spread over; a checkpoint keeps the number it was made with.
        shards: for rule sets larger than a worker should hold: the rules are cut into this many shards, each move is
            sent to those that it may concern, and a task loads no other. A directory keeps the number it was first
            published with.
        first: "enter" reports rules that an object is inside when it is first seen, "silent" does not.
        timeout: how long an object may be silent before it is gone: a timedelta, or a number in the unit of time.
        late: a directory for late rows, as Parquet files; they are counted in any case.
        seed: a directory that `save_state` wrote, for objects to start with.
        clock: a directory of clock markers that this stream alone reads, beside those of the rules; pipelines have one.
        observe: a name under which Spark's query progress reports what was watched; see `prometheus_text`.
        labels: whether events have the `name` and the `labels` of the rule version that they name.
        carry: columns of the row that caused an event, which the event has, too; null where no row did.
        condition: whether events have the `condition` of the rule; null for rules of tables.
    """
    warn_untuned(events.sparkSession, stateful=events.isStreaming)
    prepared = prepare_watch(
        events,
        rules,
        object,
        time,
        sequence,
        buckets,
        first,
        timeout=timeout,
        late=late,
        seed=seed,
        shards=shards,
        columns=event_columns(labels, condition, carry),
    )
    task = prepared.task
    check_clock(task, prepared.snapshot, prepared.time)
    if events.isStreaming:
        stepped = step_watch(prepared, step, clock)
    else:
        spread = prepared.rows.repartition(buckets, quoted(OBJECT)).sortWithinPartitions(quoted(OBJECT))
        if task.shards is None:
            return spread.mapInArrow(partial(watch_sorted, task=task), prepared.declared)
        stepped = spread.mapInArrow(partial(move_sorted, task=task), MOVED)
    if task.shards is not None:
        routed = group_by_shard(stepped, task.shards.plan.shards, F.col("bucket"))
        stepped = routed.mapInArrow(partial(detect_moves, task=task), STEPPED)
    return unpack_events(stepped, prepared.declared, observe if events.isStreaming else None)


class PreparedWatch(NamedTuple):
    """The arguments of watch, checked."""

    rows: Any
    """The columns that go to Python."""
    task: WatchTask
    declared: Any
    """The schema of events."""
    snapshot: Snapshot
    """The rules."""
    time: str
    """The frame's own name of the time column."""


def prepare_watch(
    events: Any,
    rules: Any,
    object: str,
    time: str,
    sequence: str | Sequence[str] | None,
    buckets: int,
    first: str,
    *,
    timeout: timedelta | int | None = None,
    late: str | os.PathLike[str] | None = None,
    seed: str | os.PathLike[str] | None = None,
    shards: int | None = None,
    columns: EventColumns = _PLAIN,
) -> PreparedWatch:
    """The rows that go to Python, with what a task must know of them."""
    checked_buckets(buckets)
    check_first(first)
    plan = plan_for(plan_rules(events.sparkSession, rules, events.schema, shards), events)
    if shards is not None:
        refuse_damped(plan.snapshot)
    roles, attributes = name_roles(object, time, sequence), attributes_of(plan.needed)
    sent = sent_columns(events, roles, plan.needed, plan.snapshot, carry=columns.carry)
    objects, times = (sent.field(events, role) for role in (OBJECT, TIME))
    types = {"object": objects.dataType, "other": objects.dataType, "time": times.dataType}
    keys = [name for name, kind in plan.needed.items() if kind == KEY]
    carried, since = [sent.field(events, name) for name in columns.carry], plan.snapshot.damping is not None
    fields = event_fields(types, attributes, keys, columns, carried, since=since)
    task = WatchTask(
        sides=(sent.side(events, plan.needed),),
        attributes=tuple(sorted(attributes.items())),
        sequence=sequence_roles(roles),
        time_type=str(check_time([times], timeout)),
        buckets=buckets,
        first=first,
        timeout=timeout,
        seed=absolute(seed),
        **task_arguments(events, plan, fields, late, columns),
    )
    return PreparedWatch(sent.rows(events), task, StructType(fields), plan.snapshot, times.name)


def step_watch(prepared: PreparedWatch, kernel: Kernel, clock: str | os.PathLike[str] | None = None) -> Any:
    """The packed events of a stream and their meters, a row per bucket; where rules are in shards, its packed moves."""
    task = prepared.task
    packed = pack_rows(prepared.rows, [quoted(OBJECT)], task.buckets)
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
    waiting = EventColumns(carry=(DAMPED,)) if dict(rows.dtypes).get(DAMPED) == "string" else _PLAIN
    prepared = prepare_watch(rows, rules, object, time, sequence, buckets, "silent", shards=shards, columns=waiting)
    folder = Path(path).absolute()
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise FencepostError(f"{folder}, which exists", "a new directory", "Save under another name.") from None
    bucketed = prepared.rows.withColumn(BUCKET, bucket_column([quoted(OBJECT)], buckets))
    spread = bucketed.repartition(buckets, quoted(BUCKET))
    spread.mapInArrow(partial(save_buckets, task=prepared.task, folder=str(folder)), "bucket int").count()
