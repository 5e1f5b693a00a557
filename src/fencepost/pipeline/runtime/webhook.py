"""The webhook of a pipeline: micro-batches go to a spool beside the checkpoint, a sender beside the stream posts them.

A stream never waits for the receiver. A micro-batch that is repeated after a restart is not spooled again.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost._text import count
from fencepost.deliveries.hook import Hook
from fencepost.deliveries.sender import Sender
from fencepost.deliveries.spool import Event, Spool, stream_batch
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.runtime.identity import own_place
from fencepost.rules.durations import parse_duration
from fencepost.spark.plan.columns import quoted

_PARTS = "part int, events bigint"


class Webhook:
    """The deliveries of a sink while its pipeline runs. Executors write to the spool, so it lies where all of them can.

    Args:
        file: the pipeline.
        section: that describes the sink.
        directory: of the spool.
    """

    def __init__(self, file: PipelineFile, section: str, directory: Path) -> None:
        sink = file.section(section)
        self._checkpoint = own_place(file).parent
        undelivered = file.resolved(sink["dead_letters"]) if sink["dead_letters"] else None
        self.spool = Spool(directory, undelivered)
        backoff, wait = (parse_duration(sink[key]).total_seconds() for key in ("backoff", "wait"))
        hook = Hook(
            sink["url"],
            headers={key: str(value) for key, value in sink["headers"].items()},
            retries=sink["retries"],
            backoff=backoff,
            wait=wait,
            concurrency=sink["concurrency"],
            batch=sink["batch"],
            secret=sink["secret"],
            certificates=str(file.resolved(sink["certificates"])) if sink["certificates"] else None,
        )
        self.sender = Sender(self.spool, hook)

    def take(self, frame: Any, batch: int) -> None:
        """Spool a micro-batch: for foreachBatch."""
        if self.spool.has_batch(batch):
            consume(frame)
            return
        name = stream_batch(batch)
        body = F.to_json(F.struct(*map(quoted, frame.columns)))
        is_event = "event_id" in frame.columns
        key, object = (quoted(column) if is_event else F.lit(None) for column in ("event_id", "object"))
        rows = frame.select(body.alias("body"), key.cast("string").alias("key"), object.cast("string").alias("object"))
        parts = rows.mapInArrow(partial(_spool_partition, directory=self.spool.directory, name=name), _PARTS).collect()
        self.spool.commit(name, dict(parts))
        self.sender.wake()

    def describe_undelivered(self) -> str | None:
        """What to tell a person about events that the receiver did not take, in this run; None if there are none."""
        given_up = self.sender.counts.undelivered
        if not given_up:
            return None
        return (
            f"{count(given_up, 'event')} not delivered; the last answer: {self.sender.reason}. "
            f"They are in {self.spool.undelivered}. To send them again: fencepost deliveries retry {self._checkpoint}"
        )


def consume(frame: Any) -> None:
    """Compute a micro-batch that every sink has already: what operators remember is part of it."""
    frame.write.format("noop").mode("overwrite").save()


def _spool_partition(batches: Iterable[Any], directory: Path, name: str) -> Iterator[Any]:
    """The work of a task: writes its events as one part of the batch."""
    context = TaskContext.get()
    part = context.partitionId() if context else 0
    columns = ("key", "object", "body")
    rows = (row for each in batches for row in zip(*(each[column].to_pylist() for column in columns), strict=True))
    events = (Event(key or _hash(body), object, body) for key, object, body in rows)
    written = Spool(directory).write_part(name, part, events)
    yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "events": [written]})


def _hash(body: str) -> str:
    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
