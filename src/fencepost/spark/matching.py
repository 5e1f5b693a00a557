"""The part of match that runs in Python workers: Arrow batches in, lists of rule ids out."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.snapshot import Batch, Snapshot
from fencepost.spark.worker import Source, rules_in_force

__all__ = ["METER", "METER_TYPE", "MatchTask", "match_arrays", "match_batches"]

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
    """Whether the first row of each batch tells what the batch cost."""


def match_batches(batches: Iterable[Any], task: MatchTask, positions: Sequence[int]) -> Iterator[Any]:
    """For mapInArrow: every batch as it came, with the rule ids (and the meter) as further columns.

    Args:
        batches: Arrow record batches.
        task: the rules and their columns.
        positions: where the columns of `task.names` are in a batch.
    """
    answer = _Answerer(task)
    for batch in batches:
        found = answer(batch.num_rows, [batch.column(position) for position in positions])
        names = [*batch.schema.names, "rule_ids", METER][: batch.num_columns + len(found)]
        yield pa.RecordBatch.from_arrays([*batch.columns, *found], names=names)


def match_arrays(batches: Iterable[Any], task: MatchTask) -> Iterator[Any]:
    """For an Arrow UDF: the lists of rule ids, or structs of them and the meter.

    Args:
        batches: an array, or a tuple of arrays, per batch: the columns of `task.names`, or any one if there are none.
        task: the rules and their columns.
    """
    answer = _Answerer(task)
    for batch in batches:
        columns = batch if isinstance(batch, tuple) else (batch,)
        found = answer(len(columns[0]), columns[: len(task.names)])
        yield pa.StructArray.from_arrays(found, names=["rule_ids", METER]) if task.metered else found[0]


class _Answerer:
    """Asks the snapshot that is in force for one task."""

    def __init__(self, task: MatchTask) -> None:
        self._task = task
        self._snapshot, self._rejected = rules_in_force(task.source, task.planned, task.follow)

    def __call__(self, rows: int, columns: Sequence[Any]) -> list[Any]:
        begin = time.perf_counter_ns()
        batch = self._encoded(rows, columns)
        found = self._snapshot.match_ids(batch)
        total = int(found.offsets[-1])
        if total > _LONGEST:
            raise FencepostError(
                f"{total:,} matches for {rows:,} rows at once",
                f"at most {_LONGEST:,} in one Arrow batch",
                "Lower spark.sql.execution.arrow.maxRecordsPerBatch.",
            )
        lists = pa.ListArray.from_arrays(pa.array(found.offsets.astype(np.int32)), pa.array(found.ids))
        if not self._task.metered:
            return [lists]
        return [lists, self._meter(batch, time.perf_counter_ns() - begin)]

    def _encoded(self, rows: int, columns: Sequence[Any]) -> Batch:
        if not columns:
            return Batch(rows, {}, {}, {})
        return self._snapshot.encode(pa.RecordBatch.from_arrays(list(columns), names=list(self._task.names)))

    def _meter(self, batch: Batch, nanoseconds: int) -> Any:
        if not batch.rows:
            return pa.nulls(0, _METER_ARROW)
        snapshot = self._snapshot
        figures = (_unobserved(batch, snapshot), nanoseconds, snapshot.version, len(snapshot), self._rejected)
        first = pa.array([dict(zip(_METER_FIELDS, figures, strict=True))], _METER_ARROW)
        return pa.concat_arrays([first, pa.nulls(batch.rows - 1, _METER_ARROW)])


def _unobserved(batch: Batch, snapshot: Snapshot) -> int:
    """How many rows have no value in any column that rules use."""
    empty = np.full(batch.rows, bool(snapshot.types or snapshot.keys))
    for valid in batch.valid.values():
        empty &= np.zeros(batch.rows, np.bool_) if valid is None else ~valid
    for codes in batch.keys.values():
        empty &= codes == -1
    return int(empty.sum())
