"""The plan of an operator with state: packed rows and markers, by bucket, through the step of a bucket."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from fencepost.spark.plan.markers import clock_markers, version_markers
from fencepost.spark.session import appends_state
from fencepost.spark.work.bucket import Kernel, Processor, step, step_in_pandas
from fencepost.spark.work.packing import STEPPED
from fencepost.spark.work.store import BLOB
from fencepost.spark.work.task import Task


def step_buckets(
    packed: Any,
    task: Task,
    clock: str | os.PathLike[str] | None = None,
    given_back: str = STEPPED,
    kernel: Kernel = step,
) -> Any:
    """What buckets give back for the packed rows of a stream: events and meters, or moves where rules are in shards.

    `clock` is a directory of clock markers that this stream alone hears.
    """
    spark = packed.sparkSession
    if task.follow:
        packed = packed.unionByName(version_markers(spark, task.source, task.buckets))
    if clock is not None:
        packed = packed.unionByName(clock_markers(spark, os.fspath(clock), task.buckets))
    grouped = packed.groupBy("bucket")
    if appends_state(spark):
        return grouped.transformWithState(Processor(kernel, task), given_back, "append", "None")

    def fencepost_step(key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        return step_in_pandas(key, frames, state, kernel, task)

    return grouped.applyInPandasWithState(fencepost_step, given_back, BLOB, "append", "NoTimeout")
