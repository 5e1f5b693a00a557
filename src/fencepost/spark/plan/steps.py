"""What the plans of operators with state share: arguments checked, rows packed, buckets stepped, events unpacked."""

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost.emitting.further import EventColumns
from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.snapshot import Snapshot
from fencepost.spark.metrics import observed_watch
from fencepost.spark.plan.columns import arrow_schema, arrow_type
from fencepost.spark.plan.markers import clock_markers, version_markers
from fencepost.spark.plan.rules import Plan
from fencepost.spark.session import FRAMES, ROWS, state_form
from fencepost.spark.work.bucket import FrameProcessor, Kernel, Processor, step, step_in_pandas
from fencepost.spark.work.caches import Published
from fencepost.spark.work.packing import PACKED, STEPPED, pack, unpack
from fencepost.spark.work.store import BLOB
from fencepost.spark.work.task import Task
from fencepost.spark.work.usable import warn_beyond
from fencepost.watching.clock import Clock

BUCKET = "fencepost bucket"


def task_arguments(
    frame: Any, plan: Plan, fields: Sequence[Any], late: str | os.PathLike[str] | None, columns: EventColumns
) -> dict[str, Any]:
    """The arguments that tasks of every operator have from the plan of its rules and the `fields` of its events."""
    return {
        "source": plan.source,
        "planned": plan.snapshot.version,
        "follow": frame.isStreaming and isinstance(plan.source, Published),
        "late": absolute(late),
        "event_schema": arrow_schema(fields),
        "columns": columns,
        "shards": plan.shards,
    }


def absolute(path: str | os.PathLike[str] | None) -> str | None:
    """A path that means the same in every process."""
    return None if path is None else os.fspath(Path(path).absolute())


def check_time(fields: Sequence[Any], timeout: timedelta | int | None) -> AttributeType:
    """The type of times, the same on both sides where there are two; refuses one that the timeout cannot do with."""
    clock = Clock(fields[0].name, timeout)
    first, *others = [clock.type_for(arrow_type(field)) for field in fields]
    for other in others:
        if other != first:
            raise FencepostError(
                f"left.{fields[0].name} as {first} and right.{fields[1].name} as {other}",
                "times of one type",
                "Cast one of the two columns to the type of the other.",
            )
    clock.check(first, np.zeros(0, np.int64))
    return first


def check_clock(task: Task, snapshot: Snapshot, time: str) -> None:
    """Refuse rules that the clock of a query cannot do with, before it starts; `time` is its time column.

    Where a stream follows a directory, they are left out, as those of any later version are, and named.
    """
    beyond = task.times.beyond(snapshot, time)
    if not task.follow:
        beyond.refuse()
    elif len(beyond.rows):
        warn_beyond(snapshot, beyond, str(task.source))


def bucket_column(hashed: Sequence[Any], buckets: int) -> Any:
    """The bucket of each row, by columns."""
    return F.pmod(F.xxhash64(*hashed), F.lit(buckets)).cast("int") if hashed else F.lit(0)


def pack_rows(rows: Any, hashed: Sequence[Any], buckets: int) -> Any:
    """Rows packed by bucket."""
    return rows.withColumn(BUCKET, bucket_column(hashed, buckets)).mapInArrow(pack, PACKED)


def step_buckets(
    packed: Any,
    task: Task,
    clock: str | os.PathLike[str] | None = None,
    given_back: str = STEPPED,
    kernel: Kernel = step,
) -> Any:
    """What buckets give back for the packed rows of a stream: events and meters, or moves where rules are in shards.

    `clock` is a directory of clock markers that this stream alone reads.
    """
    spark = packed.sparkSession
    if task.follow:
        packed = packed.unionByName(version_markers(spark, task.source, task.buckets))
    if clock is not None:
        packed = packed.unionByName(clock_markers(spark, os.fspath(clock), task.buckets))
    grouped = packed.groupBy("bucket")
    form = state_form(spark)
    if form == ROWS:
        return grouped.transformWithState(Processor(kernel, task), given_back, "append", "None")
    if form == FRAMES:
        return grouped.transformWithStateInPandas(FrameProcessor(kernel, task), given_back, "append", "None")

    def fencepost_step(key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        return step_in_pandas(key, frames, state, kernel, task)

    return grouped.applyInPandasWithState(fencepost_step, given_back, BLOB, "append", "NoTimeout")


def unpack_events(stepped: Any, declared: Any, observe: str | None) -> Any:
    """The events of buckets, whose meters are observed under a name."""
    if observe is not None:
        stepped = observed_watch(stepped, observe)
    return stepped.where("payload IS NOT NULL").select("payload").mapInArrow(unpack, declared)
