"""Many events of a bucket on their way through the JVM: in a short form, and afterwards bit for bit as they were."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fencepost as fp
from fencepost._coded import CODED, cast_coded, coded, coded_nulls, decoded
from fencepost.emitting import emitter
from fencepost.emitting.further import EventColumns, event_columns
from fencepost.events import event_schema
from fencepost.ordinals import DOUBLE
from fencepost.snapshot.labels import LABELS
from fencepost.spark.work.bucket import step
from fencepost.spark.work.caches import Published
from fencepost.spark.work.packing import ROWS, VERSION, packed_bytes, packed_pieces, packed_table, unpack
from fencepost.spark.work.task import OBJECT, TIME, Side
from fencepost.spark.work.watch_task import WatchTask
from tests.effort import seeds
from tests.spark.test_bucket_state import Kept

ROWS_AT_ONCE = 3000


@pytest.mark.parametrize("values", [0, 1, 3, 127, 128, 40_000])
def test_codes_of_any_number_of_values_are_decoded(values: int) -> None:
    rng = np.random.default_rng(values)
    texts = pa.array([None if n == 5 else f"text {n}" for n in range(values)], pa.string())
    codes = rng.integers(-1, values, 2000) if values else np.full(2000, -1)
    table = pa.table({"text": coded(codes, texts), "null": coded_nulls(2000, LABELS), "number": codes})
    table = table.replace_schema_metadata(CODED)
    expected = [None if code < 0 else texts[code].as_py() for code in codes.tolist()]
    for pieces in ([packed_bytes(table)], packed_pieces(table), [packed_bytes(table.slice(900, 7))]):
        told = pa.concat_tables(map(packed_table, pieces))
        assert told.schema.types == [pa.string(), LABELS, pa.int64()]
        assert told["text"].to_pylist() == (expected if told.num_rows == 2000 else expected[900:907])
        assert told["null"].null_count == told.num_rows
    assert decoded(table.slice(0, 0))["text"].to_pylist() == []


def test_the_values_of_codes_take_another_type() -> None:
    column = pa.chunked_array([coded(np.array([0, -1]), pa.array([7])), coded(np.array([1]), pa.array([1, 2]))])
    table = pa.table({"n": cast_coded(column, pa.float64())}).replace_schema_metadata(CODED)
    assert decoded(table)["n"].to_pylist() == [7.0, None, 2.0]
    nothing = pa.chunked_array([coded_nulls(2, pa.null())])
    assert cast_coded(nothing, pa.string()).type.value_type == pa.string()


def rules_of(rng: random.Random) -> fp.Rules:
    """Some with a name, some with labels, versions that differ."""
    rules = fp.Rules()
    for id in range(40):
        name = f"rule {id}" if rng.random() < 0.7 else None
        labels = {"desk": str(id % 4), "ü": "é"} if rng.random() < 0.7 else None
        key = f"zone = '{rng.choice('abc')}' AND " if rng.random() < 0.5 else ""
        rules.add(id, f"{key}x > {rng.randrange(100)}", detect="enter,exit,inside", name=name, labels=labels)
    for id in rng.sample(range(40), rng.choice([0, 10])):
        rules.replace(id, f"x > {rng.randrange(100)}", detect="enter,exit")
    return rules


def task_of(directory: Path, columns: EventColumns) -> WatchTask:
    further = [(name, pa.string()) for name in ("zone", "zone_before")]
    further += [*columns.of_rules, *((name, pa.string()) for name in columns.carry)]
    return WatchTask(
        source=Published(str(directory)),
        planned=1,
        follow=True,
        sides=(Side((), ("x",), ("zone",), frozenset(("x", "zone")), "bigint"),),
        attributes=(("x", "double"),),
        sequence=(),
        time_type="bigint",
        buckets=1,
        first="enter",
        timeout=None,
        late=None,
        event_schema=event_schema(pa.int64(), pa.int64(), {"x": DOUBLE}, pa.int64(), further),
        columns=columns,
    )


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("seed", seeds(6))
def test_events_in_the_short_form_are_those_of_the_usual_one(
    tmp_path: Path, seed: int, labels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)  # noqa: S311
    rules_of(rng).publish(tmp_path, {"x": "double", "zone": "string"})
    task = task_of(tmp_path, event_columns(labels, False, ["gate"] if labels else []))
    given: dict[str, Any] = {
        OBJECT: pa.array([rng.randrange(50) for _ in range(ROWS_AT_ONCE)]),
        TIME: pa.array(range(ROWS_AT_ONCE)),
        "x": pa.array([rng.choice([None, rng.randrange(120) / 1.0]) for _ in range(ROWS_AT_ONCE)], pa.float64()),
        "zone": pa.array([rng.choice([None, *"abcd"]) for _ in range(ROWS_AT_ONCE)], pa.string()),
    }
    if labels:
        given["gate"] = pa.array([rng.choice([None, "g1", "g2"]) for _ in range(ROWS_AT_ONCE)], pa.string())
    packed = [(VERSION, 1, b""), (ROWS, 0, packed_bytes(pa.table(given)))]

    def told() -> tuple[Any, int]:
        payloads = [row["payload"] for row in step(0, packed, Kept(True), task) if row["payload"] is not None]
        unpacked = unpack([pa.RecordBatch.from_arrays([pa.array(payloads, pa.binary())], names=["payload"])])
        return pa.Table.from_batches(list(unpacked)).combine_chunks(), sum(map(len, payloads))

    short, size = told()
    monkeypatch.setattr(emitter, "_MANY", 2**62)
    usual, usual_size = told()
    assert short.num_rows > 1000
    assert short.schema.equals(task.event_schema)
    assert short.equals(usual)
    assert size < 0.8 * usual_size
