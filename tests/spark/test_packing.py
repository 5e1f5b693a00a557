"""Rows and events on their way through the JVM: packed in pieces that are not large, and unpacked as they were."""

import gc
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fencepost.spark.work.caches import begin_task
from fencepost.spark.work.packing import METERS, pack, packed_pieces, packed_table, stepped_rows, unpack

SMALL_ENOUGH = 450_000


def table(rows: int) -> Any:
    texts = [None if n % 7 == 0 else f"text {n}" for n in range(rows)]
    return pa.table({"number": np.arange(rows), "text": pa.array(texts, pa.string()), "flag": np.arange(rows) % 3 == 0})


@pytest.mark.parametrize("rows", [1, 3, 2049, 60_000])
def test_pieces_are_small_and_make_the_whole(rows: int) -> None:
    whole = table(rows)
    pieces = packed_pieces(whole)
    assert max(map(len, pieces)) <= SMALL_ENOUGH
    assert (len(pieces) > 1) == (whole.nbytes > SMALL_ENOUGH)
    assert pa.concat_tables(map(packed_table, pieces)).equals(whole)


def test_a_row_that_is_larger_than_a_piece_is_one_by_itself() -> None:
    whole = pa.table({"text": ["a" * 10, "b" * 2 * SMALL_ENOUGH, "c"]})
    assert pa.concat_tables(map(packed_table, packed_pieces(whole))).equals(whole)


@pytest.mark.parametrize("parts", [(), (5,), (50_000,), (3, 50_000, 1)])
def test_a_meter_is_told_once_however_many_pieces_there_are(parts: tuple[int, ...]) -> None:
    tables = [table(rows) for rows in parts]
    meter = {name: at + 1 for at, name in enumerate(METERS)}
    rows = stepped_rows([payload for each in tables for payload in packed_pieces(each)], meter)
    assert {name: sum(row[name] for row in rows) for name in METERS} == meter
    packed = [row["payload"] for row in rows if row["payload"] is not None]
    assert bool(packed) == bool(parts)
    batch = pa.RecordBatch.from_arrays([pa.array(packed, pa.binary())], names=["payload"])
    told = list(unpack([batch]))
    if parts:
        assert pa.Table.from_batches(told).equals(pa.concat_tables(tables).combine_chunks())
    else:
        assert told == []


def test_rows_are_packed_by_bucket_in_their_order() -> None:
    rows = table(60_000)
    buckets = np.random.default_rng(1).integers(0, 3, rows.num_rows)
    given = rows.append_column("bucket", pa.array(buckets, pa.int32()))
    packed = pa.Table.from_batches(pack(given.to_batches(max_chunksize=7000))).to_pylist()
    for bucket in range(3):
        pieces = [packed_table(row["payload"]) for row in packed if row["bucket"] == bucket]
        assert pa.concat_tables(pieces).equals(rows.take(np.flatnonzero(buckets == bucket)).combine_chunks())


def test_what_a_worker_has_imported_is_left_out_of_garbage_collection(spark: Any) -> None:
    def frozen(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            begin_task()
            begin_task()
            yield pa.RecordBatch.from_pydict({"id": pa.array([gc.get_freeze_count()] * batch.num_rows, pa.int64())})

    assert spark.range(1).mapInArrow(frozen, "id long").first()["id"] > 10_000
    before = gc.get_freeze_count()
    for _ in range(3):
        begin_task()
    assert gc.get_freeze_count() == before, "a process of the user's is left alone"
