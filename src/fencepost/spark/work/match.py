"""match in Python workers: Arrow batches in, lists of rule ids out."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._memory import SETTING, AnswerTooLargeError, answer_limit, show_size
from fencepost.errors import FencepostError
from fencepost.indexes.matches import in_pieces
from fencepost.ordinals import AttributeType
from fencepost.snapshot import Batch, Snapshot
from fencepost.spark.work.caches import Shards, Source, begin_task, head_at, version_of_task
from fencepost.spark.work.usable import Stream, Usable, usable_at

METER = "fencepost_meter"
_METER_FIELDS = ("null_rows", "nanoseconds", "version", "rules", "rejected", "skipped")
METER_TYPE = f"struct<{', '.join(f'{name}: bigint' for name in _METER_FIELDS)}>"
_METER_ARROW = pa.struct([(name, pa.int64()) for name in _METER_FIELDS])
_LONGEST = 2**31 - 1
_DOUBLES_HOLD = 2**53


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
    Its answer is one array, since Spark joins it to the rows by their number; it is found in pieces.
    """
    answer = _Answerer(task)

    def find(columns: Sequence[Any], begin: int, end: int) -> Any:
        own = [column.slice(begin, end - begin) for column in columns]
        found = answer(end - begin, own[: len(task.names)], None if task.shards is None else own[-1])
        return pa.StructArray.from_arrays(found, names=["rule_ids", METER]) if task.metered else found[0]

    for batch in batches:
        columns = batch if isinstance(batch, tuple) else (batch,)
        rows = len(columns[0])
        yield _together(in_pieces(rows, partial(find, columns)), rows) if rows else find(columns, 0, 0)


def _together(pieces: Iterable[Any], rows: int) -> Any:
    """The answers about stretches of a batch as one array, which they must have room for."""
    taken: list[Any] = []
    for piece in pieces:
        taken.append(piece)
        fitting, limit = sum(map(len, taken[:-1])), answer_limit()
        size = 2 * sum(each.nbytes for each in taken)  # the pieces, and then what they make
        ids = sum(len((each.field(0) if pa.types.is_struct(each.type) else each).values) for each in taken)
        if len(taken) > 1 and (size > limit or ids > _LONGEST):
            raise AnswerTooLargeError(
                f"an answer about {rows:,} rows at once that needs {show_size(size)} of memory or more, "
                f"with {ids:,} matches",
                f"at most {show_size(limit)} and {_LONGEST:,} matches in one Arrow batch",
                f"Set spark.sql.execution.arrow.maxRecordsPerBatch to {max(1, fitting)} or less, or {SETTING} in the "
                "environment of executors to more.",
            )
    return taken[0] if len(taken) == 1 else pa.concat_arrays(taken)


def match_series(batches: Iterable[Any], task: MatchTask, kinds: Sequence[str]) -> Iterator[Any]:
    """For a pandas UDF: the lists of rule ids; `kinds` are the types of the columns of `task.names`, or "key"."""
    import pandas as pd

    def arrays() -> Iterator[tuple[Any, ...]]:
        for batch in batches:
            yield tuple(exact_array(*each) for each in zip(batch, task.names, kinds, strict=True))

    for lists in match_arrays(arrays(), task):
        ids = np.split(np.asarray(lists.values), np.asarray(lists.offsets)[1:-1]) if len(lists) else []
        yield pd.Series(ids, dtype=object)


def exact_array(series: Any, name: str, kind: str) -> Any:
    """A column as it was before pandas had it, where integers beside nulls are doubles, which may be rounded."""
    array = pa.array(series, from_pandas=True)
    if pa.types.is_null(array.type):
        return array.cast(pa.string() if kind == "key" else AttributeType.parse(kind).arrow)
    if kind == "double" or not pa.types.is_floating(array.type):
        return array
    if not pc.all(pc.equal(pc.round(array), array)).as_py():
        return array  # doubles, which the rules refuse
    largest = pc.max(pc.abs(array)).as_py()
    if largest is not None and largest >= _DOUBLES_HOLD:
        raise FencepostError(
            f"{name} with nulls and a number near {largest:,.0f}, as an argument of a function of columns",
            f"integers below {_DOUBLES_HOLD:,} beside nulls before Spark 4.1",
            "Use match(frame, rules), which takes them on every Spark, or a newer Spark.",
        )
    return array.cast(pa.int64())


class _Answerer:
    """Asks the snapshot, or the shard of it, that is in force for one task."""

    def __init__(self, task: MatchTask) -> None:
        begin_task()
        self._task = task
        self._claim = version_of_task(task.source, task.planned, task.follow, task.shards)

    def __call__(self, rows: int, columns: Sequence[Any], shard: Any = None) -> list[Any]:
        begin = time.perf_counter_ns()
        snapshot, skipped = self._rules(shard)
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
        named = dict(zip(self._task.names, columns, strict=True))
        return [lists, self._meter(rows, named, snapshot, skipped, begin)]

    def _rules(self, shard: Any) -> Usable:
        """The rules for a batch, all of whose rows go to one shard."""
        task, version, stream = self._task, self._claim.version, Stream((frozenset(self._task.names),))
        if task.shards is None:
            return usable_at(task.source, version, stream)
        numbers = pc.unique(shard).to_pylist() or [0]
        assert len(numbers) == 1, "a task has the rows of one shard"
        return usable_at(task.shards.sources[numbers[0]], version, stream)

    def _encode(self, rows: int, columns: Sequence[Any], snapshot: Snapshot) -> Batch:
        if not columns:
            return Batch(rows, {}, {}, {})
        return snapshot.encode(pa.RecordBatch.from_arrays(list(columns), names=list(self._task.names)))

    def _meter(self, rows: int, columns: Mapping[str, Any], snapshot: Snapshot, skipped: int, begin: int) -> Any:
        if not rows:
            return pa.nulls(0, _METER_ARROW)
        task, version = self._task, snapshot.version
        rules, used = len(snapshot), (*snapshot.types, *snapshot.keys)
        if task.shards is not None:  # the meter is about all shards
            rules, _, used, _ = head_at(task.source, version)
        unobserved = _unobserved(rows, [columns[name] for name in used if name in columns])
        figures = (unobserved, time.perf_counter_ns() - begin, version, rules, self._claim.rejected, skipped)
        first = pa.array([dict(zip(_METER_FIELDS, figures, strict=True))], _METER_ARROW)
        return pa.concat_arrays([first, pa.nulls(rows - 1, _METER_ARROW)])


def _unobserved(rows: int, used: Sequence[Any]) -> int:
    """How many rows have no value in any column that rules use."""
    empty = np.full(rows, bool(used))
    for column in used:
        empty &= np.asarray(pc.is_null(column, nan_is_null=True))
    return int(empty.sum())
