"""The webhook of a pipeline: micro-batches go to a spool beside the checkpoint, a sender beside the stream posts them.

A stream never waits for the receiver. The tasks that compute a micro-batch write its events, on the way to whatever
else becomes of them. A micro-batch that is repeated after a restart is not spooled again.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
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
from fencepost.spark.plan.abilities import abilities_of
from fencepost.spark.plan.columns import quoted
from fencepost.spark.work.caches import begin_task
from fencepost.spark.work.claims import current_micro_batch


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
        self._run = secrets.token_hex(8)
        """In the names of parts that are written: tasks of an earlier run may still write some."""
        self._predicates: dict[str | None, Any] = {}
        """What writes the events, by the condition that they must fulfil: it takes longer to make than to use."""

    def take(self, frame: Any, batch: int) -> None:
        """Spool a micro-batch, unless that was done: for foreachBatch."""
        if self.spool.has_batch(batch):
            consume(frame)
        else:
            consume(self.spooled(frame))
            self.commit(batch)

    def spooled(self, frame: Any, where: str | None = None) -> Any:
        """The frame: whoever computes it writes its events to the spool, or those for which a condition holds.

        So this takes no job of its own. `commit` comes afterwards; an attempt that is not committed leaves nothing.
        """
        self.spool.start_parts()
        if where not in self._predicates:
            body = F.to_json(F.struct(*map(quoted, frame.columns)))
            if where:
                body = F.when(F.expr(where), body)
            is_event = "event_id" in frame.columns
            key, object = (quoted(column) if is_event else F.lit(None) for column in ("event_id", "object"))
            write = spool_function(self.spool.directory, self._run, abilities_of(frame.sparkSession).arrow_functions)
            self._predicates[where] = write(body, key.cast("string"), object.cast("string"))
        return frame.where(self._predicates[where])

    def commit(self, batch: int) -> None:
        """Let the events of a micro-batch be sent, after its frame was computed."""
        name = stream_batch(batch)
        self.spool.commit(name, self.spool.take_parts(f"{self._run}-{name}", name))
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


def spool_function(directory: Path, run: str, arrow: bool) -> Any:
    """The function of body, key and object that is true of every row, and writes those with a body to the spool.

    It stands in a filter, and since it is not deterministic, Spark calls it once for each row.
    """
    write = partial(_spool_partition, directory=directory, run=run)
    function = _arrow_function(write) if arrow else _pandas_function(write)
    return function.asNondeterministic()


def _arrow_function(write: Callable[[Iterable[tuple[Any, ...]]], Iterator[Any]]) -> Any:
    def fencepost_spool(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return write(batches)

    return F.arrow_udf(fencepost_spool, "boolean")


def _pandas_function(write: Callable[[Iterable[tuple[Any, ...]]], Iterator[Any]]) -> Any:
    """The same where Spark has no Arrow UDFs."""
    import pandas as pd

    def fencepost_spool(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        arrays = (tuple(pa.array(column, pa.string(), from_pandas=True) for column in batch) for batch in batches)
        return (each.to_pandas() for each in write(arrays))

    return F.pandas_udf(fencepost_spool, "boolean")


def _spool_partition(batches: Iterable[tuple[Any, ...]], directory: Path, run: str) -> Iterator[Any]:
    """The work of a task: writes its events as one part of the batch."""
    begin_task()
    context, batch = TaskContext.get(), current_micro_batch()
    assert context is not None and batch is not None, "only tasks of a stream spool"  # noqa: PT018
    events: list[Event] = []
    for columns in batches:
        body = columns[0]
        for text, key, object in zip(*(column.to_pylist() for column in columns), strict=True):
            if text is not None:
                events.append(Event(key or _hash(text), object, text))
        yield pa.repeat(pa.scalar(True), len(body))
    if events:
        Spool(directory).write_ahead(f"{run}-{stream_batch(batch.number)}", context.partitionId(), events)


def _hash(body: str) -> str:
    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
