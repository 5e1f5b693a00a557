"""match in Python workers: Arrow batches in, lists of rule ids out."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._memory import AnswerTooLargeError
from fencepost.indexes.matches import in_pieces
from fencepost.snapshot import Batch, Snapshot
from fencepost.spark.work.caches import Shards, Source, begin_task, head_at, snapshot_at, version_of_task

METER = "fencepost_meter"
METER_TYPE = "struct<null_rows: bigint, nanoseconds: bigint, version: bigint, rules: bigint, rejected: bigint>"
_METER_FIELDS = ("null_rows", "nanoseconds", "version", "rules", "rejected")
_METER_ARROW = pa.struct([(name, pa.int64()) for name in _METER_FIELDS])
_LONGEST = 2**31 - 1


class MatchTask(NamedTuple):
    """What a task must know; small, and without anything that Python would have to pickle by value."""

    source: Source
    planned: int
    follow: bool
    names: tuple[str, ...]
    """The columns of the snapshot that are passed, in order."""
    metered: bool
    """Whether the first row of each batch has the meter of the batch."""
    shards: Shards | None = None
    """The rules in shards: then a further column has the shard that the rows of the task go to."""


def match_batches(batches: Iterable[Any], task: MatchTask, positions: Sequence[int]) -> Iterator[Any]:
    """For mapInArrow: every batch as it came, with the rule ids (and the meter) as further columns.

    `positions` says where the columns of `task.names` are in a batch. The shard, its last column, is left out.
    """
    answer = _Answerer(task)

    def find(batch: Any) -> Any:
        shard = None if task.shards is None else batch.column(batch.num_columns - 1)
        found = answer(batch.num_rows, [batch.column(position) for position in positions], shard)
        own = batch.num_columns - (shard is not None)
        names = [*batch.schema.names[:own], "rule_ids", METER][: own + len(found)]
        return pa.RecordBatch.from_arrays([*batch.columns[:own], *found], names=names)

    for batch in batches:
        if not batch.num_rows:
            yield find(batch)
        yield from in_pieces(batch.num_rows, partial(_slice, find, batch))


def _slice(find: Callable[[Any], Any], batch: Any, begin: int, end: int) -> Any:
    return find(batch.slice(begin, end - begin))


def match_arrays(batches: Iterable[Any], task: MatchTask) -> Iterator[Any]:
    """For an Arrow UDF: the lists of rule ids, or structs of them and the meter.

    A batch is an array or a tuple of them: the columns of `task.names`, or any one if there are none, then the shard.
    """
    answer = _Answerer(task)
    for batch in batches:
        columns = batch if isinstance(batch, tuple) else (batch,)
        shard = None if task.shards is None else columns[-1]
        found = answer(len(columns[0]), columns[: len(task.names)], shard)
        yield pa.StructArray.from_arrays(found, names=["rule_ids", METER]) if task.metered else found[0]


class _Answerer:
    """Asks the snapshot, or the shard of it, that is in force for one task."""

    def __init__(self, task: MatchTask) -> None:
        begin_task()
        self._task = task
        self._claim = version_of_task(task.source, task.planned, task.follow, task.shards)

    def __call__(self, rows: int, columns: Sequence[Any], shard: Any = None) -> list[Any]:
        begin = time.perf_counter_ns()
        snapshot = self._rules(shard)
        batch = self._encode(rows, columns, snapshot)
        found = snapshot.match_ids(batch)
        total = int(found.offsets[-1])
        if total > _LONGEST:
            raise AnswerTooLargeError(
                f"{total:,} matches for {rows:,} rows at once",
                f"at most {_LONGEST:,} in one Arrow batch",
                "Lower spark.sql.execution.arrow.maxRecordsPerBatch.",
            )
        lists = pa.ListArray.from_arrays(pa.array(found.offsets.astype(np.int32)), pa.array(found.ids))
        if not self._task.metered:
            return [lists]
        return [lists, self._meter(rows, dict(zip(self._task.names, columns, strict=True)), snapshot, begin)]

    def _rules(self, shard: Any) -> Snapshot:
        """The rules for a batch, all of whose rows go to one shard."""
        task, version = self._task, self._claim.version
        if task.shards is None:
            return snapshot_at(task.source, version)
        numbers = pc.unique(shard).to_pylist() or [0]
        assert len(numbers) == 1, "a task has the rows of one shard"
        return snapshot_at(task.shards.sources[numbers[0]], version)

    def _encode(self, rows: int, columns: Sequence[Any], snapshot: Snapshot) -> Batch:
        if not columns:
            return Batch(rows, {}, {}, {})
        return snapshot.encode(pa.RecordBatch.from_arrays(list(columns), names=list(self._task.names)))

    def _meter(self, rows: int, columns: Mapping[str, Any], snapshot: Snapshot, begin: int) -> Any:
        if not rows:
            return pa.nulls(0, _METER_ARROW)
        task, version = self._task, snapshot.version
        rules, used = len(snapshot), (*snapshot.types, *snapshot.keys)
        if task.shards is not None:  # the meter is about all shards
            rules, _, used, _ = head_at(task.source, version)
        unobserved = _unobserved(rows, [columns[name] for name in used if name in columns])
        figures = (unobserved, time.perf_counter_ns() - begin, version, rules, self._claim.rejected)
        first = pa.array([dict(zip(_METER_FIELDS, figures, strict=True))], _METER_ARROW)
        return pa.concat_arrays([first, pa.nulls(rows - 1, _METER_ARROW)])


def _unobserved(rows: int, used: Sequence[Any]) -> int:
    """How many rows have no value in any column that rules use."""
    empty = np.full(rows, bool(used))
    for column in used:
        empty &= np.asarray(pc.is_null(column, nan_is_null=True))
    return int(empty.sum())
